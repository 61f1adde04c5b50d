//! Reads that a group of ours asks of whichever group holds another object, for copies between objects. The holder may be this OSD
//! or another one, and may change while we ask.

use maps::OsdMap;
use messages::osd::{OsdOp, OsdOpReply};
use msgr::{Messenger, Policy};
use node::{Now, Outputs};
use std::collections::BTreeMap;
use types::{EntityType, HObject, Message, OsdId, PgId, SessionId, SpgId};

use crate::groups::Slot;

/// The session under which a group of this OSD answers another group of this OSD.
pub(crate) const OURSELVES: SessionId = SessionId(u64::MAX);

struct Fetch {
    slot: Slot,
    id: u64,
    op: Box<OsdOp>,
    /// Where it was sent; `None` while nobody holds the object.
    sent: Option<OsdId>,
}

/// Fetches under way, and the sessions to other OSDs.
#[derive(Default)]
pub(crate) struct Copies {
    fetches: BTreeMap<u64, Fetch>,
    sessions: BTreeMap<OsdId, SessionId>,
    last_tid: u64,
}

/// A fetch that this OSD's own groups must answer.
pub(crate) struct Local {
    pub(crate) tid: u64,
    pub(crate) op: OsdOp,
}

/// What is left to do after asking.
#[derive(Default)]
pub(crate) struct Asked {
    pub(crate) local: Vec<Local>,
    /// Whose pool is not there: who asked. The map is at least as new as the one by which the client sent its request, so the pool
    /// never was, or is gone.
    pub(crate) nowhere: Vec<(Slot, u64)>,
}

impl Copies {
    /// A group asks.
    pub(crate) fn begin(&mut self, slot: Slot, id: u64, op: Box<OsdOp>) -> u64 {
        self.last_tid += 1;
        self.fetches.insert(self.last_tid, Fetch { slot, id, op, sent: None });
        self.last_tid
    }

    /// A reply came: who asked.
    pub(crate) fn answered(&mut self, message: &Message) -> Option<(Slot, u64, denc::Result<OsdOpReply>)> {
        let fetch = self.fetches.remove(&message.tid)?;
        Some((fetch.slot, fetch.id, OsdOpReply::decode(message)))
    }

    /// Whether this session goes to another OSD.
    pub(crate) fn owns(&self, session: SessionId) -> bool {
        self.sessions.values().any(|s| *s == session)
    }

    /// A session broke: what was asked over it must be asked again.
    pub(crate) fn closed(&mut self, session: SessionId) {
        self.sessions.retain(|osd, s| {
            let gone = *s == session;
            if gone {
                self.fetches.values_mut().filter(|f| f.sent == Some(*osd)).for_each(|f| f.sent = None);
            }
            !gone
        });
    }

    /// Asks whatever was not asked yet, or is held elsewhere in this map; what this OSD must answer itself is returned.
    pub(crate) fn ask(&mut self, now: Now, map: &OsdMap, whoami: OsdId, msgr: &mut Messenger, out: &mut Outputs) -> Asked {
        let mut asked = Asked::default();
        let there = |fetch: &Fetch| map.pools.contains_key(&fetch.op.locator.pool);
        asked.nowhere = self.fetches.extract_if(.., |_, fetch| !there(fetch)).map(|(_, gone)| (gone.slot, gone.id)).collect();
        for (tid, fetch) in &mut self.fetches {
            let (pg, holder) = holder(map, &fetch.op);
            if holder == fetch.sent {
                continue;
            }
            fetch.sent = holder;
            let Some(osd) = holder else { continue };
            fetch.op.pg = SpgId::whole(pg);
            fetch.op.hash = hash(&fetch.op);
            fetch.op.epoch = map.epoch;
            if osd == whoami {
                asked.local.push(Local { tid: *tid, op: (*fetch.op).clone() });
                continue;
            }
            let Some(to) = map.osd_addr(osd).and_then(|addrs| addrs.msgr2().copied()) else {
                fetch.sent = None;
                continue;
            };
            let session = *self.sessions.entry(osd).or_insert_with(|| msgr.connect(now, to, EntityType::Osd, Policy::Lossy, out));
            let mut message = fetch.op.encode();
            message.tid = *tid;
            msgr.send(session, message);
        }
        asked
    }

    /// What was to be answered here could not be: it is asked again.
    pub(crate) fn unsent(&mut self, tid: u64) {
        if let Some(fetch) = self.fetches.get_mut(&tid) {
            fetch.sent = None;
        }
    }

    /// Whether anything is under way.
    pub(crate) fn is_empty(&self) -> bool {
        self.fetches.is_empty()
    }
}

fn hash(op: &OsdOp) -> u32 {
    HObject::head(op.oid.clone(), &op.locator).hash
}

/// Who holds the object of `op`.
fn holder(map: &OsdMap, op: &OsdOp) -> (PgId, Option<OsdId>) {
    let Some(pg) = map.object_pg(&op.locator, &op.oid) else { return (PgId::default(), None) };
    let primary = map.placed(pg).acting_primary;
    (pg, (primary >= 0).then_some(primary))
}
