//! Sessions with OSDs, and what OSDs asked to hold back.

use crate::target::object_of;
use crate::{Objecter, OpRequest};
use messages::code::backoff_op;
use messages::osd::Backoff;
use msgr::{Messenger, Policy};
use node::{Mono, Now, Outputs};
use std::collections::BTreeMap;
use std::time::Duration;
use types::{EntityAddr, EntityAddrVec, EntityType, HObject, OsdId, PgId, SessionId};

/// A pause that doubles with each failure, up to 16 times the first.
pub(crate) fn pause(first: Duration, failures: u32) -> Duration {
    first * (1 << failures.saturating_sub(1).min(4))
}

/// Objects of a group that an OSD wants held back.
#[derive(Clone, Debug)]
struct Held {
    pg: PgId,
    begin: HObject,
    end: HObject,
}

/// What we know of one OSD.
#[derive(Debug, Default)]
pub(crate) struct OsdSession {
    pub(crate) session: Option<SessionId>,
    addr: EntityAddr,
    failures: u32,
    retry_at: Mono,
    held: BTreeMap<u64, Held>,
}

impl OsdSession {
    /// Whether the OSD asked to hold this request back.
    pub(crate) fn holds(&self, pg: PgId, request: &OpRequest) -> bool {
        if self.held.is_empty() {
            return false;
        }
        let object = object_of(request);
        self.held.values().any(|h| h.pg == pg && (h.begin == object || h.begin <= object && object < h.end))
    }
}

impl Objecter {
    /// A session to send on, opened if there is none. `None` while the OSD has no address or is left alone after a failure.
    pub(crate) fn session_to(&mut self, now: Now, osd: OsdId, messenger: &mut Messenger, out: &mut Outputs) -> Option<SessionId> {
        let addr = self.map.as_ref().and_then(|map| map.osd_addr(osd)?.msgr2().copied())?;
        let known = self.osds.entry(osd).or_default();
        if let Some(session) = known.session {
            return Some(session);
        }
        if now.mono < known.retry_at {
            self.wake = self.wake.min(known.retry_at);
            return None;
        }
        let session = messenger.connect(now, addr, EntityType::Osd, Policy::Lossy, out);
        known.session = Some(session);
        known.addr = addr;
        self.sessions.insert(session, osd);
        Some(session)
    }

    /// A session stands.
    pub(crate) fn osd_opened(&mut self, osd: OsdId) {
        if let Some(known) = self.osds.get_mut(&osd) {
            known.failures = 0;
        }
    }

    /// A session broke: all that was under way on it is sent again on the next one.
    pub(crate) fn osd_closed(&mut self, now: Now, osd: OsdId) {
        let Some(known) = self.osds.get_mut(&osd) else { return };
        if let Some(session) = known.session.take() {
            self.sessions.remove(&session);
        }
        known.held.clear();
        known.failures += 1;
        known.retry_at = now.mono.plus(pause(self.config.retry_after, known.failures));
        self.wake = self.wake.min(known.retry_at);
        self.unsend(|op| op.osd == Some(osd));
        self.lingers_lost(|target| target == osd);
        // The OSD may be dead; the monitor knows.
        self.monitor.want_newer_map();
    }

    /// Ends all sessions with OSDs: nobody waits for what was asked any more.
    pub fn hang_up(&mut self, messenger: &mut Messenger) {
        self.osds.clear();
        std::mem::take(&mut self.sessions).into_keys().for_each(|session| messenger.close(session));
    }

    /// Ends sessions with OSDs that the map calls down, or that moved.
    pub(crate) fn drop_stale_sessions(&mut self, messenger: &mut Messenger) {
        let Some(map) = self.map.clone() else { return };
        let stale: Vec<OsdId> = self
            .osds
            .iter()
            .filter(|(osd, known)| {
                known.session.is_some()
                    && (!map.is_up(**osd) || map.osd_addr(**osd).and_then(EntityAddrVec::msgr2) != Some(&known.addr))
            })
            .map(|(osd, _)| *osd)
            .collect();
        for osd in stale {
            let Some(OsdSession { session: Some(session), .. }) = self.osds.remove(&osd) else { continue };
            self.sessions.remove(&session);
            messenger.close(session);
            self.unsend(|op| op.osd == Some(osd));
            self.lingers_lost(|target| target == osd);
        }
    }

    /// An OSD asks to hold back what concerns a range, or lets it go.
    pub(crate) fn backoff(&mut self, osd: OsdId, session: SessionId, backoff: Backoff, messenger: &mut Messenger) {
        let Some(known) = self.osds.get_mut(&osd) else { return };
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
