//! Reads that a group of ours asks of whichever group holds another object, for copies between objects. The objecter's
//! core finds the holder and asks again when the map or a session gives reason to. The holder may be this OSD or
//! another one.

use crate::Osd;
use crate::groups::{Slot, addressed};
use crate::ops::{Arrival, Request};
use crate::peers::Purpose;
use messages::osd::{OsdOp, OsdOpReply};
use node::{Mono, Now, Outputs};
use objecter::{Event, Objecter, OpError, OpId, OpRequest};
use pg::ClientOp;
use std::collections::BTreeMap;
use std::sync::Arc;
use types::{EntityType, Errno, Message, OsdId, SessionId};

/// The session under which a group of this OSD answers another group of this OSD.
pub(crate) const OURSELVES: SessionId = SessionId(u64::MAX);

/// Fetches under way.
pub(crate) struct Copies {
    pub(crate) objecter: Objecter,
    /// Askers: the group, and its number for the fetch.
    fetches: BTreeMap<OpId, (Slot, u64)>,
    /// OSDs to which no session may be opened before a moment.
    apart: BTreeMap<OsdId, Mono>,
}

impl Copies {
    pub(crate) fn new(whoami: OsdId) -> Self {
        Self { objecter: Objecter::embedded(whoami), fetches: BTreeMap::new(), apart: BTreeMap::new() }
    }

    /// A group asks. Group, epoch and hash of `op` are filled in by the objecter.
    pub(crate) fn begin(&mut self, slot: Slot, id: u64, op: OsdOp) {
        let OsdOp { locator, oid, ops, snapid, flags, .. } = op;
        let op = self.objecter.submit(OpRequest { locator, oid, ops, snapid, flags, ..OpRequest::default() });
        self.fetches.insert(op, (slot, id));
    }

    /// Returns true if something can be done now.
    pub(crate) fn is_busy(&self) -> bool {
        self.objecter.is_busy()
    }

    /// Returns when [`Osd::run_copies`] must be called at the latest.
    pub(crate) fn deadline(&self) -> Mono {
        if self.fetches.is_empty() && !self.is_busy() {
            return Mono::NEVER;
        }
        self.apart.values().min().copied().unwrap_or(Mono::NEVER).min(self.objecter.deadline())
    }

    /// Looks whether each fetch is an operation, and each operation a fetch.
    ///
    /// # Errors
    /// A sentence that says what does not hold.
    #[cfg(feature = "sim")]
    pub(crate) fn self_check(&self) -> Result<(), String> {
        self.objecter.self_check()?;
        let (asked, pending) = (self.fetches.len(), self.objecter.pending());
        if asked == pending { Ok(()) } else { Err(format!("{asked} fetches, but {pending} operations for them")) }
    }
}

impl Osd {
    /// Asks for what groups want to copy, and gives them what came; objects that this OSD holds are read here.
    pub(crate) fn run_copies(&mut self, now: Now, out: &mut Outputs) {
        if !self.copies.apart.is_empty() {
            self.end_pauses(now);
        }
        while self.copies.is_busy() {
            self.copies.objecter.turn(now, &mut self.msgr, out);
            for osd in self.copies.objecter.take_wanted() {
                self.reach_for_copies(now, osd, out);
            }
            while let Some(event) = self.copies.objecter.poll_event() {
                self.copy_event(now, event);
            }
        }
    }

    /// Lets those look again whose pause is over.
    fn end_pauses(&mut self, now: Now) {
        if self.copies.apart.values().any(|at| *at <= now.mono) {
            self.copies.apart.retain(|_, at| *at > now.mono);
            self.copies.objecter.look_again();
        }
    }

    fn reach_for_copies(&mut self, now: Now, osd: OsdId, out: &mut Outputs) {
        match self.reach(now, osd, Purpose::Bulk, out) {
            Some(Ok(session)) => self.copies.objecter.session_begins(osd, session),
            Some(Err(until)) => drop(self.copies.apart.insert(osd, until)),
            // A newer map says where it is, or who else has the object.
            None => {}
        }
    }

    fn copy_event(&mut self, now: Now, event: Event) {
        match event {
            Event::Here { id, op } => self.read_here(now, id, *op),
            Event::Done { id, result } => {
                let Some((slot, fetch)) = self.copies.fetches.remove(&id) else { return };
                let reply = result.map(|reply| *reply).map_err(|error| match error {
                    OpError::NoPool => Errno::ENOENT,
                    OpError::Cancelled => Errno::EIO,
                });
                let (groups, mut world) = self.world(now);
                groups.call(slot, &mut world, |pg, ctx| pg.fetched(ctx, fetch, reply));
            }
            _ => {}
        }
    }

    fn read_here(&mut self, now: Now, id: OpId, op: OsdOp) {
        let Some(slot) = self.groups.find(&addressed(self.maps.current(), &op)) else {
            // It is coming out of a split.
            return self.copies.objecter.not_here(id);
        };
        let peer = pg::Peer {
            name: self.config.name(),
            kind: EntityType::Osd,
            global_id: self.config.whoami as u64,
            addr: self.config.addrs.msgr2().copied().unwrap_or_default(),
        };
        let (session, tid, received, peer) = (OURSELVES, id.0, now.mono, Arc::new(peer));
        let key = self.ops.begin(Arrival { session, tid, received, request: Request::of(&op), ..Arrival::default() });
        self.ops.at(key).reach(now.mono, slot, &peer);
        let client = ClientOp { key, session, peer, tid, received, op };
        let (groups, mut world) = self.world(now);
        groups.call(slot, &mut world, |pg, ctx| pg.handle_op(ctx, client));
    }

    /// A group of this OSD answered a read of this OSD.
    pub(crate) fn read_was_answered(&mut self, now: Now, message: &Message) {
        let id = OpId(message.tid);
        match OsdOpReply::decode(message) {
            Ok(reply) => self.copies.objecter.answered_here(now, id, reply),
            Err(_) => self.copies.objecter.cancel(id),
        }
    }

    /// A group of this OSD says something else to a reader of this OSD: to hold back, or to go on.
    pub(crate) fn told_ourselves(&mut self, now: Now, message: &Message, out: &mut Outputs) {
        let told = self.copies.objecter.message(now, self.config.whoami, OURSELVES, message, &mut self.msgr, out);
        debug_assert!(told.is_ok(), "a message of our own decodes");
    }
}
