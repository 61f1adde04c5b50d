//! What the monitors know of each other, and what was done for clients of any of them. Empty while there is one
//! monitor.

use super::done::Done;
use bytes::Bytes;
use denc::Encode;
use messages::quorum::Carried;
use std::collections::BTreeMap;
use types::{EntityAddrVec, Message, Rope};

/// One monitor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MonRecord {
    /// Number of its store in the log's membership.
    pub voter: u64,
    /// Name of its manager.
    pub mgr_name: String,
    /// Place where its manager is reached.
    pub mgr_addrs: EntityAddrVec,
    /// Output of `mon metadata`.
    pub metadata: BTreeMap<String, String>,
}
denc::plain!(MonRecord { voter, mgr_name, mgr_addrs, metadata });

/// Numbers that a monitor that does not lead may give to clients, in one life. Nobody else gives them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IdRange {
    /// The life; another one gives none of them.
    pub life: u64,
    /// The first.
    pub from: u64,
    /// The first that is not its own any more.
    pub to: u64,
}
denc::plain!(IdRange { life, from, to });

/// A request: of which client (its global id), with which transaction id, of which kind. A client that sends it again,
/// to whichever monitor, keeps all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestKey {
    /// The client's global id.
    pub client: u64,
    /// The transaction id.
    pub tid: u64,
    /// The kind of message.
    pub kind: u16,
}
denc::plain!(RequestKey { client, tid, kind });

/// An answer, as it is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answered {
    /// Its header.
    pub head: Carried,
    /// Its data part.
    pub data: Bytes,
}
denc::plain!(Answered { head, data });

impl Answered {
    /// Keeps a message.
    pub fn of(message: &Message) -> Self {
        Self { head: Carried::of(message), data: message.data.contiguous() }
    }

    /// The message again.
    pub fn message(&self) -> Message {
        self.head.clone().message(Rope::from(self.data.clone()))
    }
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quorum {
    /// Monitors by name.
    pub mons: BTreeMap<String, MonRecord>,
    /// Ranges by voter.
    pub ranges: BTreeMap<u64, IdRange>,
    /// Answers to requests that changed something.
    pub done: Done,
}

impl Quorum {
    /// Returns true if there was never more than one monitor.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The monitor whose store has this number.
    pub fn name_of(&self, voter: u64) -> Option<&str> {
        self.mons.iter().find(|(_, r)| r.voter == voter).map(|(name, _)| name.as_str())
    }
}

impl Quorum {
    /// Encodes it; `timed`: with the times of the answers ([`types::Feature::AnswersByAge`]).
    pub(super) fn encode(&self, out: &mut Vec<u8>, timed: bool) {
        self.mons.encode(out);
        self.ranges.encode(out);
        if timed { self.done.encode_timed(out) } else { self.done.encode_untimed(out) }
    }

    /// Decodes it.
    ///
    /// # Errors
    /// The bytes are cut off, or something else.
    pub(super) fn decode(r: &mut denc::Reader<'_>, timed: bool) -> denc::Result<Self> {
        Ok(Self { mons: r.get()?, ranges: r.get()?, done: Done::decode(r, timed)? })
    }
}
