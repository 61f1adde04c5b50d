//! What the monitors know of each other, and what was done for clients of any of them. Empty while there is one monitor.

use bytes::Bytes;
use denc::{Decode, Encode};
use messages::quorum::Carried;
use std::collections::{BTreeMap, VecDeque};
use types::{EntityAddrVec, Message, Rope};

/// Requests whose answers are remembered, in case they come again.
const DONE_KEPT: usize = 1_000;

/// One monitor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MonRecord {
    /// Number of its store in the log's membership.
    pub voter: u64,
    /// Name of its manager.
    pub mgr_name: String,
    /// Where its manager is reached.
    pub mgr_addrs: EntityAddrVec,
    /// What `mon metadata` prints.
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

/// A request: of which client (its global id), with which transaction id, of which kind. A client that sends it again, to whichever monitor,
/// keeps all of them.
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
    /// What its header says.
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
    /// Requests that changed something, oldest first.
    done: VecDeque<(RequestKey, Answered)>,
}

impl Quorum {
    /// Whether there was never more than one monitor.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The answer to a request that was done.
    pub fn answer(&self, key: RequestKey) -> Option<&Answered> {
        self.done.iter().rev().find(|(k, _)| *k == key).map(|(_, answer)| answer)
    }

    /// Remembers an answer.
    pub fn note(&mut self, key: RequestKey, answer: Answered) {
        self.done.push_back((key, answer));
        while self.done.len() > DONE_KEPT {
            self.done.pop_front();
        }
    }

    /// The monitor whose store has this number.
    pub fn name_of(&self, voter: u64) -> Option<&str> {
        self.mons.iter().find(|(_, r)| r.voter == voter).map(|(name, _)| name.as_str())
    }
}

impl Encode for Quorum {
    fn encode(&self, out: &mut Vec<u8>) {
        self.mons.encode(out);
        self.ranges.encode(out);
        denc::put_count(out, self.done.len());
        for (key, answer) in &self.done {
            key.encode(out);
            answer.encode(out);
        }
    }
}

impl Decode for Quorum {
    fn decode(r: &mut denc::Reader<'_>) -> denc::Result<Self> {
        let (mons, ranges) = (r.get()?, r.get()?);
        let n = r.count(16)?;
        let done = (0..n).map(|_| Ok((r.get()?, r.get()?))).collect::<denc::Result<_>>()?;
        Ok(Self { mons, ranges, done })
    }
}
