//! Sessions that other monitors have, as the leader sees them.
//!
//! A request that is carried to the leader belongs to a session at another monitor. Here it has a number of its own,
//! and is treated like a session of this monitor; what is sent to it goes back the way it came.

use super::Monitor;
use super::sessions::Side;
use messages::quorum::{Carried, FromLeader, SessionOver, ToLeader};
use msgr::{Mode, Peer};
use node::{Now, Outputs};
use std::collections::BTreeMap;
use std::sync::Arc;
use types::{EntityAddrVec, EntityType, Message, SessionId};

/// Numbers from here on are of sessions at other monitors; messengers count from 1.
const FIRST: u64 = 1 << 63;
/// Requests that are kept while this monitor is elected and does not lead yet.
const EARLY: usize = 10_000;

/// All of them.
#[derive(Default)]
pub(super) struct RemoteSessions {
    /// By the session with the other monitor, and the number there.
    ours: BTreeMap<(SessionId, u64), SessionId>,
    theirs: BTreeMap<SessionId, (SessionId, u64)>,
    next: u64,
    /// Came before the reign began.
    early: Vec<(SessionId, ToLeader)>,
}

impl RemoteSessions {
    /// Returns true if this session is at another monitor.
    pub(super) fn has(&self, session: SessionId) -> bool {
        session.0 >= FIRST
    }

    fn remove(&mut self, session: SessionId) -> Option<(SessionId, u64)> {
        let theirs = self.theirs.remove(&session)?;
        self.ours.remove(&theirs);
        Some(theirs)
    }
}

impl Monitor {
    /// Another monitor carries a request here. Who does not lead ignores it: it is carried again to who does.
    pub(super) fn carried_here(&mut self, now: Now, line: SessionId, ask: ToLeader, out: &mut Outputs) {
        if !self.leader.reigns() || !self.replica.log.takes_proposals() {
            if self.replica.log.leads() && self.remote.early.len() < EARLY {
                self.remote.early.push((line, ask));
            }
            return;
        }
        let Ok(kind) = EntityType::from_wire(ask.sender.kind) else { return };
        let session = self.far_session(line, kind, &ask);
        self.carry_out(now, session, ask.head.message(ask.data), out);
    }

    /// Proposals are taken: what came a little early. Whether there was anything.
    pub(super) fn take_early(&mut self, now: Now, out: &mut Outputs) -> bool {
        let early = std::mem::take(&mut self.remote.early);
        let any = !early.is_empty();
        for (line, ask) in early {
            self.carried_here(now, line, ask, out);
        }
        any
    }

    fn far_session(&mut self, line: SessionId, kind: EntityType, ask: &ToLeader) -> SessionId {
        let theirs = (line, ask.sender.session);
        if let Some(session) = self.remote.ours.get(&theirs) {
            return *session;
        }
        let session = SessionId(FIRST + self.remote.next);
        self.remote.next += 1;
        self.remote.ours.insert(theirs, session);
        self.remote.theirs.insert(session, theirs);
        let s = &ask.sender;
        let peer = Peer {
            name: s.name.clone(),
            kind,
            global_id: s.global_id,
            addr: s.addr,
            addrs: EntityAddrVec(vec![s.addr]),
            ip: s.addr.addr.map(|a| a.ip()),
            ticket: types::UTime::ZERO,
            features: s.features,
            caps: s.caps.clone(),
            mode: Mode::Crc,
            outgoing: false,
        };
        self.opened(Side::Mon, session, Arc::new(peer));
        session
    }

    /// Sends a session something, wherever it is.
    pub(super) fn tell(&mut self, side: Side, session: SessionId, message: Message) {
        if let (Side::Mon, Some((line, theirs))) = (side, self.remote.theirs.get(&session).copied()) {
            let (head, data) = (Carried::of(&message), message.data);
            let index = self.replica.applied.index;
            return self.mon.send(line, FromLeader { session: theirs, index, head, data }.encode());
        }
        if side == Side::Mon && self.asks_any() {
            self.note_answer(session, &message);
        }
        self.turns.answered(self.replica.log.now(), side, session, message.front.len() + message.data.len());
        self.messenger(side).send(session, message);
    }

    /// Ends a session at another monitor. False if it is here.
    pub(super) fn end_remote(&mut self, session: SessionId) -> bool {
        if let Some((line, theirs)) = self.remote.remove(session) {
            self.mon.send(line, SessionOver { session: theirs }.encode());
        }
        self.remote.has(session)
    }

    /// A session at another monitor is over.
    pub(super) fn far_session_over(&mut self, now: Now, line: SessionId, theirs: u64) {
        let Some(session) = self.remote.ours.get(&(line, theirs)).copied() else { return };
        self.remote.remove(session);
        self.closed(now, Side::Mon, session);
    }

    /// A session with another monitor is over, and with it all that it carried. Its OSDs come back through others; they
    /// are not called down for that.
    pub(super) fn far_monitor_gone(&mut self, now: Now, line: SessionId) {
        self.remote.early.retain(|(from, _)| *from != line);
        let gone: Vec<SessionId> = self.remote.ours.range((line, 0)..=(line, u64::MAX)).map(|(_, session)| *session).collect();
        for session in gone {
            self.remote.remove(session);
            self.leader.soft.osds.values_mut().filter(|o| o.session == Some(session)).for_each(|o| o.session = None);
            self.closed(now, Side::Mon, session);
        }
    }

    /// The reign is over: sessions at other monitors are the next leader's.
    pub(super) fn forget_remote(&mut self) {
        for session in std::mem::take(&mut self.remote.theirs).into_keys() {
            self.sessions.0.remove(&(Side::Mon, session));
        }
        self.remote.ours.clear();
        self.remote.early.clear();
    }
}
