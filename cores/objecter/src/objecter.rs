//! Operations under way, and when they are sent.

use crate::state::{ASIDE, Given, OpState, Owner, Sessions, VersionWanted};
use crate::target::Target;
use crate::{Event, Objecter, OpError, OpId, OpRequest};
use maps::{Incremental, Interval, OsdMap, flags as map_flags, pool_flags};
use messages::mon::OsdMapMsg;
use messages::osd::{Backoff, OsdOp, OsdOpReply, WatchNotify, flags};
use msgr::Messenger;
use node::{Level, Mono, Now, Outputs};
use std::collections::BTreeSet;
use std::sync::Arc;
use types::{Epoch, Message, OsdId, PoolId, Rope, SessionId, SpgId};

impl Objecter {
    /// Takes an operation on. It ends with [`Event::Done`].
    pub fn submit(&mut self, request: OpRequest) -> OpId {
        OpId(self.submit_for(request, Owner::Caller))
    }

    pub(crate) fn submit_for(&mut self, request: OpRequest, owner: Owner) -> u64 {
        let tid = self.next_tid;
        self.next_tid += 1;
        let bytes = request.ops.iter().map(|op| op.input.len() as u64).sum();
        self.ops.insert(tid, OpState { request, target: Target::default(), osd: None, last: None, attempts: 0, bytes, owner });
        self.unsent.insert(tid);
        self.pump = true;
        tid
    }

    /// Gives an operation up: it ends with [`OpError::Cancelled`], though the OSD may still execute it.
    pub fn cancel(&mut self, id: OpId) {
        if self.ops.get(&id.0).is_some_and(|op| op.owner == Owner::Caller) {
            self.remove(id.0);
            self.events.push_back(Event::Done { id, result: Err(OpError::Cancelled) });
        }
    }

    /// Returns true if more operations should be submitted: those under way do not use up the configured bounds. More
    /// are taken all the same, and wait.
    pub fn has_room(&self) -> bool {
        self.ops.len() < self.config.max_ops && self.in_flight.1 < self.config.max_bytes
    }

    /// Operations that have not ended.
    pub fn pending(&self) -> usize {
        self.ops.len()
    }

    /// The newest map.
    pub fn map(&self) -> Option<&Arc<OsdMap>> {
        self.map.as_ref()
    }

    /// The next thing that happened.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Returns true if there is something to do at once: an event to take, or an operation that may be sent.
    pub fn is_busy(&self) -> bool {
        self.pump || !self.events.is_empty()
    }

    /// Returns when [`Objecter::turn`] must be called at the latest.
    pub fn deadline(&self) -> Mono {
        if self.pump { Mono(0) } else { self.wake }
    }

    /// Takes a messenger's event, if it is about a session of this objecter; otherwise gives it back. The caller keeps
    /// the duty to give the message's bytes back to the messenger.
    pub fn handle(&mut self, now: Now, event: msgr::Event, messenger: &mut Messenger, out: &mut Outputs) -> Option<msgr::Event> {
        let session = match &event {
            msgr::Event::Opened { session, .. }
            | msgr::Event::Message { session, .. }
            | msgr::Event::Reset { session }
            | msgr::Event::Closed { session, .. } => *session,
        };
        if self.monitor.link.owns(session) {
            self.monitor_event(now, event, messenger, out);
            return None;
        }
        let Sessions::Own(lines) = &mut self.sessions else { return Some(event) };
        let Some(osd) = lines.name(session) else { return Some(event) };
        match event {
            msgr::Event::Opened { .. } => lines.opened(now, session),
            msgr::Event::Message { message, .. } => {
                if let Err(error) = self.message(now, osd, session, &message, messenger, out) {
                    out.log(Level::Warn, "objecter", format!("osd.{osd} sent a message of kind {} that {error}", message.kind));
                    messenger.close(session);
                    self.osd_closed(now, session);
                }
            }
            msgr::Event::Reset { .. } => self.unsend(|op| op.osd == Some(osd)),
            msgr::Event::Closed { why, .. } => {
                out.log(Level::Debug, "objecter", format!("session with osd.{osd} ended: {why}"));
                self.osd_closed(now, session);
            }
        }
        None
    }

    /// Takes a message that came from an OSD on a session of this objecter, or one that its owner brought.
    ///
    /// # Errors
    /// The message does not decode; the session should be closed.
    pub fn message(
        &mut self,
        now: Now,
        osd: OsdId,
        session: SessionId,
        message: &Message,
        messenger: &mut Messenger,
        out: &mut Outputs,
    ) -> denc::Result<()> {
        match message.kind {
            OsdOpReply::KIND => self.reply(now, osd, message.tid, OsdOpReply::decode(message)?),
            // The owner of an embedded objecter takes maps in, and brings them.
            OsdMapMsg::KIND if !self.is_embedded() => self.maps(&OsdMapMsg::decode(message)?, out),
            Backoff::KIND => self.backoff(osd, session, Backoff::decode(message)?, messenger),
            WatchNotify::KIND => self.watch_event(WatchNotify::decode(message)?),
            _ => {}
        }
        Ok(())
    }

    fn is_embedded(&self) -> bool {
        matches!(self.sessions, Sessions::Given(_))
    }

    /// The OSD in which this objecter is embedded answers [`Event::Here`].
    pub fn answered_here(&mut self, now: Now, id: OpId, reply: OsdOpReply) {
        if let Sessions::Given(Given { whoami, .. }) = self.sessions {
            self.reply(now, whoami, id.0, reply);
        }
    }

    /// The OSD in which this objecter is embedded cannot answer [`Event::Here`] yet: the operation waits for
    /// [`Objecter::look_again`].
    pub fn not_here(&mut self, id: OpId) {
        let pump = self.pump;
        self.unsend_all([id.0]);
        self.pump = pump;
    }

    /// Looks again at what waits: the owner changed something that this objecter does not see.
    pub fn look_again(&mut self) {
        self.pump |= !self.unsent.is_empty();
    }

    fn reply(&mut self, now: Now, osd: OsdId, tid: u64, reply: OsdOpReply) {
        let Some(op) = self.ops.get(&tid) else { return };
        // An answer to an earlier sending tells nothing about the last one's place in the order of operations. One to the last
        // sending counts, also if a map has called the operation back meanwhile.
        if op.last != Some(osd) || reply.retry >= 0 && reply.retry != op.attempts - 1 {
            return;
        }
        if op.is_aside() && reply.result == types::Errno::EAGAIN.wire() {
            return self.ask_primary(tid);
        }
        let Some(op) = self.remove(tid) else { return };
        match op.owner {
            Owner::Caller => self.events.push_back(Event::Done { id: OpId(tid), result: Ok(Box::new(reply)) }),
            Owner::Linger(cookie) => self.linger_replied(now, cookie, tid, osd, &reply),
        }
    }

    /// A member that does not lead may not answer.
    fn ask_primary(&mut self, tid: u64) {
        if let Some(op) = self.ops.get_mut(&tid) {
            op.request.flags &= !ASIDE;
        }
        self.unsend_all([tid]);
    }

    pub(crate) fn remove(&mut self, tid: u64) -> Option<OpState> {
        let op = self.ops.remove(&tid)?;
        self.unsent.remove(&tid);
        if op.osd.is_some() {
            self.in_flight = (self.in_flight.0 - 1, self.in_flight.1 - op.bytes);
        }
        self.pump = true;
        Some(op)
    }

    /// Puts what was sent and fits back among those that wait.
    pub(crate) fn unsend(&mut self, fits: impl Fn(&OpState) -> bool) {
        let those: Vec<u64> = self.ops.iter().filter(|(_, op)| op.osd.is_some() && fits(op)).map(|(tid, _)| *tid).collect();
        self.unsend_all(those);
    }

    fn unsend_all(&mut self, those: impl IntoIterator<Item = u64>) {
        for tid in those {
            if let Some(op) = self.ops.get_mut(&tid).filter(|op| op.osd.is_some()) {
                op.osd = None;
                self.in_flight = (self.in_flight.0 - 1, self.in_flight.1 - op.bytes);
                self.unsent.insert(tid);
            }
        }
        self.pump = true;
    }

    /// Brings a map from outside (an embedded objecter whose owner follows the maps).
    pub fn set_map(&mut self, map: Arc<OsdMap>) {
        let next_in_line = self.map.as_ref().is_some_and(|old| old.epoch + 1 == map.epoch);
        if self.map.as_ref().is_none_or(|old| old.epoch < map.epoch) {
            self.adopt(map, !next_in_line);
        }
    }

    /// Takes the maps of a message in, one epoch after the other.
    pub(crate) fn maps(&mut self, message: &OsdMapMsg, out: &mut Outputs) {
        if self.config.fsid.is_some_and(|fsid| fsid != message.fsid) {
            out.log(Level::Warn, "objecter", format!("ignored maps of another cluster, {}", message.fsid));
            return;
        }
        if let Err(why) = self.apply_maps(message) {
            out.log(Level::Warn, "objecter", format!("asks for a full map: {why}"));
            self.monitor.link.want_full_map();
        }
    }

    fn apply_maps(&mut self, message: &OsdMapMsg) -> Result<(), String> {
        loop {
            let have: Epoch = self.map.as_ref().map_or(0, |m| m.epoch);
            if let (Some(map), Some(bytes)) = (&self.map, message.incremental.get(&(have + 1))) {
                let inc = <Incremental as denc::Decode>::from_bytes(bytes).map_err(|e| e.to_string())?;
                let next = map.apply(&inc).map_err(|e| e.to_string())?;
                self.adopt(Arc::new(next), false);
            } else if let Some((epoch, bytes)) = message.full.range(have + 1..).next_back() {
                let map = <OsdMap as denc::Decode>::from_bytes(bytes).map_err(|e| e.to_string())?;
                if map.epoch != *epoch {
                    return Err(format!("map {} came as {epoch}", map.epoch));
                }
                self.adopt(Arc::new(map), have + 1 != *epoch);
            } else {
                if message.newest > have {
                    self.monitor.link.want_newer_map();
                }
                return Ok(());
            }
        }
    }

    /// The map is now this one. With `gap`, epochs between are not known: any group may have changed hands meanwhile.
    fn adopt(&mut self, map: Arc<OsdMap>, gap: bool) {
        let mut moved = BTreeSet::new();
        for (tid, op) in self.ops.iter().filter(|(_, op)| op.osd.is_some()) {
            // A split moves objects to another group: the whole target is computed again.
            let now = Target::of(&map, &op.request);
            // A full cluster drops the writes that were sent before it said so.
            let dropped = op.request.flags & flags::WRITE != 0 && is_full(&map, &op.request);
            if gap || dropped || now.as_ref() != Some(&op.target) {
                moved.insert(*tid);
            }
        }
        let known = &map;
        self.lingers_moved(|target| gap || Interval::of(known, target.pg).as_ref() != Some(&target.interval));
        let epoch = map.epoch;
        self.map = Some(map);
        self.unsend_all(moved);
        self.monitor.link.have_map(epoch);
        self.sessions_stale = true;
        self.pump = true;
        self.events.push_back(Event::Map { epoch });
    }

    #[cfg(feature = "sim")]
    pub(crate) fn waits(&self, tid: u64) -> bool {
        self.unsent.contains(&tid)
    }

    #[cfg(feature = "sim")]
    pub(crate) fn sent(&self) -> usize {
        self.in_flight.0
    }

    /// A mistake to be found: what was sent once and waits to be sent again is taken for sent.
    #[cfg(feature = "sim")]
    pub fn forget_resends(&mut self) {
        for tid in std::mem::take(&mut self.unsent) {
            match self.ops.get_mut(&tid).filter(|op| op.attempts > 0) {
                Some(op) => {
                    op.osd = op.last;
                    self.in_flight = (self.in_flight.0 + 1, self.in_flight.1 + op.bytes);
                }
                None => drop(self.unsent.insert(tid)),
            }
        }
    }

    /// Ends a round: sends what can be sent. To be called before the messenger's own turn.
    pub fn turn(&mut self, now: Now, messenger: &mut Messenger, out: &mut Outputs) {
        if now.mono < self.wake && !self.pump {
            return;
        }
        self.wake = Mono::NEVER;
        self.pump = false;
        if std::mem::take(&mut self.sessions_stale) {
            self.drop_stale_sessions(messenger);
        }
        self.turn_lingers(now);
        self.send_waiting(now, messenger, out);
        self.turn_monitor(now, messenger, out);
    }

    fn send_waiting(&mut self, now: Now, messenger: &mut Messenger, out: &mut Outputs) {
        // An operation that has to wait holds back those that came later for the same object.
        let mut held: BTreeSet<(PoolId, u32)> = BTreeSet::new();
        for tid in self.unsent.clone() {
            let full =
                self.in_flight.0 > 0 && (self.in_flight.0 >= self.config.max_ops || self.in_flight.1 >= self.config.max_bytes);
            if full || self.map.is_none() {
                break;
            }
            if let Err(key) = self.try_send(now, tid, &held, messenger, out) {
                // What any member may answer has no place among what is asked of the primary.
                let aside = self.ops.get(&tid).is_some_and(OpState::is_aside);
                held.extend(Some(key).filter(|_| !aside));
            }
        }
    }

    fn try_send(
        &mut self,
        now: Now,
        tid: u64,
        held: &BTreeSet<(PoolId, u32)>,
        messenger: &mut Messenger,
        out: &mut Outputs,
    ) -> Result<(), (PoolId, u32)> {
        let (Some(map), Some(op)) = (self.map.clone(), self.ops.get_mut(&tid)) else { return Ok(()) };
        let Some(target) = Target::of(&map, &op.request) else {
            let pool = op.request.pg.map_or(op.request.locator.pool, |pg| pg.pool);
            self.no_pool(tid, map.epoch);
            return Err((pool, 0));
        };
        let key = (target.pg.pool, target.hash);
        op.target = target;
        let osd = op.recipient(tid);
        if held.contains(&key) && !op.is_aside() {
            return Err(key);
        }
        if osd < 0 || paused(&map, &op.request) {
            self.monitor.link.want_newer_map();
            return Err(key);
        }
        let here = matches!(self.sessions, Sessions::Given(Given { whoami, .. }) if whoami == osd);
        let session = if here { None } else { Some(self.session_to(now, osd, messenger, out).ok_or(key)?) };
        let op = self.ops.get_mut(&tid).expect("it was there above");
        if self.osds.get(&osd).is_some_and(|known| known.holds(op.target.pg, &op.request)) {
            return Err(key);
        }
        op.osd = Some(osd);
        op.last = op.osd;
        op.attempts += 1;
        self.in_flight = (self.in_flight.0 + 1, self.in_flight.1 + op.bytes);
        self.unsent.remove(&tid);
        let op = encode(op, map.epoch);
        match session {
            Some(session) => messenger.send(session, Message { tid, ..op.encode() }),
            None => self.events.push_back(Event::Here { id: OpId(tid), op: Box::new(op) }),
        }
        Ok(())
    }

    /// The pool is not in our map. That is an error only if there is no newer map.
    fn no_pool(&mut self, tid: u64, epoch: Epoch) {
        if self.monitor.knows_no_newer(epoch) {
            let Some(op) = self.remove(tid) else { return };
            match op.owner {
                Owner::Caller => self.events.push_back(Event::Done { id: OpId(tid), result: Err(OpError::NoPool) }),
                Owner::Linger(cookie) => self.end_linger(cookie, types::Errno::ENOENT.wire(), Rope::new()),
            }
        } else {
            self.monitor.want_version(VersionWanted::NewestMap);
        }
    }
}

/// Returns true if the map asks clients to wait with this. What was asked for with FULL_TRY or FULL_FORCE goes out,
/// and fails or not.
fn paused(map: &OsdMap, request: &OpRequest) -> bool {
    let write = request.flags & flags::WRITE != 0;
    let full = is_full(map, request);
    let respects_full = request.flags & (flags::FULL_TRY | flags::FULL_FORCE) == 0;
    (write && map.flags & map_flags::PAUSEWR != 0)
        || (!write && map.flags & map_flags::PAUSERD != 0)
        || (write && full && respects_full)
}

/// Returns true if the map calls the cluster or the request's pool full.
fn is_full(map: &OsdMap, request: &OpRequest) -> bool {
    let of_pool = map.pool(request.locator.pool).map_or(0, |p| p.flags);
    map.flags & map_flags::FULL != 0 || of_pool & (pool_flags::FULL | pool_flags::FULL_QUOTA) != 0
}

fn encode(op: &OpState, epoch: Epoch) -> OsdOp {
    let request = &op.request;
    let retry = op.attempts - 1;
    let resent = if retry > 0 { flags::RETRY } else { 0 };
    OsdOp {
        pg: SpgId { pg: op.target.pg, shard: op.target.shard },
        hash: op.target.hash,
        epoch,
        flags: request.flags | flags::ONDISK | flags::KNOWN_REDIR | resent,
        mtime: request.mtime,
        locator: request.locator.clone(),
        oid: request.oid.clone(),
        ops: request.ops.clone(),
        snapid: request.snapid,
        snap_seq: request.snapc.seq,
        snaps: request.snapc.snaps.clone(),
        retry,
        features: types::features::SUPPORTED,
        ..OsdOp::default()
    }
}
