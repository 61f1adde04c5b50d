//! Sessions with OSDs, and what OSDs ask to hold back.

use crate::Objecter;
use crate::state::{Held, Sessions};
use crate::target::object_of;
use messages::code::backoff_op;
use messages::osd::Backoff;
use msgr::Messenger;
use node::{Now, Outputs};
use std::collections::BTreeSet;
use types::{EntityAddrVec, HObject, OsdId, SessionId};

impl Objecter {
    /// A session to send on, opened if there is none. `None` while there is none and none may be opened.
    pub(crate) fn session_to(&mut self, now: Now, osd: OsdId, messenger: &mut Messenger, out: &mut Outputs) -> Option<SessionId> {
        match &mut self.sessions {
            Sessions::Given(given) => {
                let session = given.sessions.get(&osd).copied();
                if session.is_none() {
                    given.wanted.insert(osd);
                }
                session
            }
            Sessions::Own(lines) => {
                let addr = self.map.as_ref().and_then(|map| map.osd_addr(osd)?.msgr2().copied())?;
                let reached = lines.reach(now, osd, addr, messenger, out);
                reached.map_err(|retry_at| self.wake = self.wake.min(retry_at)).ok()
            }
        }
    }

    /// The OSDs that operations wait to be sent to, while no session with them is known. For the owner of an embedded
    /// objecter: what it takes here it must answer with [`Objecter::session_begins`], sooner or later, or with a newer
    /// map.
    pub fn take_wanted(&mut self) -> BTreeSet<OsdId> {
        match &mut self.sessions {
            Sessions::Given(given) => std::mem::take(&mut given.wanted),
            Sessions::Own(_) => BTreeSet::new(),
        }
    }

    /// The owner of an embedded objecter has a session with an OSD, standing or being opened.
    pub fn session_begins(&mut self, osd: OsdId, session: SessionId) {
        if let Sessions::Given(given) = &mut self.sessions {
            given.sessions.insert(osd, session);
            self.pump = true;
        }
    }

    /// The session with an OSD that the owner brought is gone: all that was under way on it is sent again on the next
    /// one.
    pub fn session_ends(&mut self, osd: OsdId) {
        if let Sessions::Given(given) = &mut self.sessions
            && given.sessions.remove(&osd).is_some()
        {
            self.osd_lost(osd);
        }
    }

    /// A session of our own broke: all that was under way on it is sent again on the next one.
    pub(crate) fn osd_closed(&mut self, now: Now, session: SessionId) {
        let Sessions::Own(lines) = &mut self.sessions else { return };
        let Some((osd, retry_at)) = lines.closed(now, session) else { return };
        self.wake = self.wake.min(retry_at);
        self.osd_lost(osd);
        // The OSD may be dead; the monitor knows.
        self.monitor.link.want_newer_map();
    }

    fn osd_lost(&mut self, osd: OsdId) {
        self.osds.remove(&osd);
        self.unsend(|op| op.osd == Some(osd));
        self.lingers_lost(|target| target == osd);
    }

    /// Ends all sessions of its own with OSDs: nobody waits for what was asked any more.
    pub fn hang_up(&mut self, messenger: &mut Messenger) {
        if let Sessions::Own(lines) = &mut self.sessions {
            lines.retain(messenger, |_, _| false);
        }
        self.osds.clear();
    }

    /// Ends sessions with OSDs that the map calls down, or that moved.
    pub(crate) fn drop_stale_sessions(&mut self, messenger: &mut Messenger) {
        let (Some(map), Sessions::Own(lines)) = (self.map.clone(), &mut self.sessions) else { return };
        let stays = |osd, addr: &_| map.is_up(osd) && map.osd_addr(osd).and_then(EntityAddrVec::msgr2) == Some(addr);
        for osd in lines.retain(messenger, stays) {
            self.osd_lost(osd);
        }
    }

    /// An OSD asks to hold back what concerns a range, or lets it go.
    pub(crate) fn backoff(&mut self, osd: OsdId, session: SessionId, backoff: Backoff, messenger: &mut Messenger) {
        let known = self.osds.entry(osd).or_default();
        let pg = backoff.pg.pg;
        match backoff.op {
            backoff_op::BLOCK => {
                let held = Held { pg, begin: backoff.begin.clone(), end: backoff.end.clone() };
                known.held.insert(backoff.id, held);
                let epoch = self.map.as_ref().map_or(0, |m| m.epoch);
                messenger.send(session, Backoff { op: backoff_op::ACK_BLOCK, epoch, ..backoff }.encode());
            }
            backoff_op::UNBLOCK => {
                // Whether the OSD kept what came before its BLOCK is not known: all of the range is sent again.
                let Some(gone) = known.held.remove(&backoff.id) else { return };
                let covers = |object: &HObject| gone.begin == *object || gone.begin <= *object && *object < gone.end;
                self.unsend(|op| op.osd == Some(osd) && op.target.pg == gone.pg && covers(&object_of(&op.request)));
            }
            _ => {}
        }
    }
}
