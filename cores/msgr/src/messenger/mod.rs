//! The machine itself.

mod accept;
mod conn;
mod crowd;
mod dial;
mod flow;
mod gate;
mod handshake;
mod penalty;
mod session;
mod spare;
mod timers;

use crate::auth::{Acceptor, Auth, EntityKey, HandedTicket};
use crate::random::Random;
use crate::{Config, Event, Peer, Policy};
use bytes::Bytes;
use conn::{Conn, Fault, Phase};
use crowd::Crowd;
use gate::LogGate;
use node::{ConnId, Input, Level, Mono, Now, Output, Outputs};
use penalty::Penalties;
use session::{Class, Session};
use spare::Spare;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use timers::Timer;
use types::{EntityAddr, EntityAddrVec, EntityName, EntityType, Message, SessionId};

/// All connections and sessions of one daemon.
pub struct Messenger {
    config: Config,
    auth: Auth,
    random: Random,
    conns: BTreeMap<ConnId, Box<Conn>>,
    sessions: BTreeMap<SessionId, Session>,
    /// Accepted lossless sessions by the cookie that the peer comes back with.
    by_cookie: BTreeMap<u64, SessionId>,
    events: VecDeque<Event>,
    timers: BTreeSet<(Mono, Timer)>,
    /// Connections with something to write.
    dirty: BTreeSet<ConnId>,
    /// Connections to close at the next turn, after what they hold was sent.
    #[expect(clippy::vec_box, reason = "they come from a map of boxes")]
    closing: Vec<Box<Conn>>,
    /// Connections whose message waits for the throttle, oldest first, by class.
    parked: [VecDeque<ConnId>; 2],
    /// True if some of them wait for the limit of the whole class.
    full: [bool; 2],
    /// True if a parked connection may go on.
    relieved: bool,
    /// Bytes of messages received and not given back, by class.
    received: [usize; 2],
    /// Bytes of clients' messages beside that.
    spare: Spare,
    /// Nothing is received from clients for now: the owner cannot take more.
    held_back: bool,
    /// Bytes that wait to be sent, by client's connection, and together.
    lagging: BTreeMap<ConnId, usize>,
    lag: usize,
    /// Accepted connections before the end of their handshake; the numbers of accepted connections rise.
    strangers: BTreeSet<ConnId>,
    next_conn: u64,
    next_session: u64,
    /// Counts the connections that this side opened or accepted.
    global_seq: u64,
    /// A client's own address, as its first peer saw it.
    learned: Option<EntityAddr>,
    gate: LogGate,
    penalties: Penalties,
    /// Sessions of clients.
    crowd: Crowd,
    /// Messages that were too long for their receivers.
    unsendable: u64,
    /// Line about the first of them in this turn.
    complaint: Option<String>,
}

impl Messenger {
    /// A messenger without connections. `seed` is secret and never used twice; all of this messenger's keys, challenges
    /// and cookies come from it.
    pub fn new(config: Config, auth: Auth, seed: [u8; 32]) -> Self {
        let next_conn = config.first_conn | 1;
        Self {
            config,
            auth,
            random: Random::new(seed),
            conns: BTreeMap::new(),
            sessions: BTreeMap::new(),
            by_cookie: BTreeMap::new(),
            events: VecDeque::new(),
            timers: BTreeSet::new(),
            dirty: BTreeSet::new(),
            closing: Vec::new(),
            parked: Default::default(),
            full: [false; 2],
            relieved: false,
            received: [0; 2],
            spare: Spare::default(),
            held_back: false,
            lagging: BTreeMap::new(),
            lag: 0,
            strangers: BTreeSet::new(),
            next_conn,
            next_session: 1,
            global_seq: 0,
            learned: None,
            gate: LogGate::new(),
            penalties: Penalties::default(),
            crowd: Crowd::default(),
            unsendable: 0,
            complaint: None,
        }
    }

    /// Takes a network input; others are ignored, and so are inputs of connections that are not known (any more).
    pub fn handle(&mut self, now: Now, input: Input, out: &mut Outputs) {
        match input {
            Input::Accepted { conn, peer, .. } => self.accepted(now, conn, peer, out),
            Input::Connected { conn, .. } => self.connected(now, conn, out),
            Input::Received { conn, buf, len } => self.received(now, conn, buf, len, out),
            Input::Sent { conn, bytes } => self.sent(conn, bytes),
            Input::Closed { conn, refused, why } => {
                if let Some(conn) = self.take(conn) {
                    let fault = if conn.cut_short() { Fault::notable(why) } else { Fault::usual(why) };
                    self.lost(now, conn, Fault { refused, ..fault }, false, out);
                }
            }
            Input::Disk(_)
            | Input::Call { .. }
            | Input::Mail { .. }
            | Input::Computed { .. }
            | Input::Memory(_)
            | Input::Stop => {}
        }
    }

    /// Ends a round: sends what was queued, meets deadlines.
    pub fn turn(&mut self, now: Now, out: &mut Outputs) {
        if let Some(complaint) = self.complaint.take() {
            self.gate.log_seldom_as(now.mono, Level::Error, "unsendable", complaint, out);
        }
        self.fire(now, out);
        self.forget_lag();
        self.shed();
        self.unpark(now, out);
        self.closing.extend(self.penalties.due(now.mono));
        for mut conn in std::mem::take(&mut self.closing) {
            conn.flush(out);
            out.push(Output::Close { conn: conn.id });
        }
        for id in std::mem::take(&mut self.dirty) {
            self.write(id, now, out);
        }
    }

    /// Returns when `turn` must be called at the latest.
    pub fn deadline(&self) -> Mono {
        self.timers.first().map_or(Mono::NEVER, |(at, _)| *at).min(self.penalties.deadline())
    }

    /// Returns true if something happened that was not taken yet: a turn may let a client go on whose messages were
    /// received long ago.
    pub fn has_event(&self) -> bool {
        !self.events.is_empty()
    }

    /// The next thing that happened.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Opens a session to the msgr2 address `to` of a peer of the given kind. [`Event::Opened`] tells when it stands;
    /// messages may be queued before. A lossy session that cannot be opened is closed; a lossless one tries on.
    pub fn connect(&mut self, now: Now, to: EntityAddr, kind: EntityType, policy: Policy, out: &mut Outputs) -> SessionId {
        let id = self.new_session_id(kind);
        let mut session = Session::new(id, policy, kind, Some(to), now.mono);
        session.client_cookie = if policy == Policy::Lossless { self.cookie() } else { 0 };
        self.sessions.insert(id, session);
        self.dial(now, id, out);
        id
    }

    /// Queues a message; it is written at the next `turn`. Ignored if the session is gone. A message that no daemon takes, since it is longer
    /// than [`crate::Limits`] say, is not sent to one: it is a mistake of the caller, who is to cut such things, and it is logged
    /// ([`Self::unsendable`] counts them).
    pub fn send(&mut self, session: SessionId, message: Message) {
        let Some(state) = self.sessions.get_mut(&session) else { return };
        if state.kind != EntityType::Client
            && let Some((part, len, limit)) = self.config.limits.excess(&message)
        {
            let who = state.peer.as_ref().map_or_else(|| state.kind.name().to_string(), |peer| peer.name.to_string());
            self.unsendable += 1;
            self.complaint.get_or_insert_with(|| {
                let kind = message.kind;
                format!("a message of type {kind} is not sent to {who}: its {part} has {len} bytes, {limit} are taken")
            });
            return;
        }
        state.push(message);
        let overfull = state.policy == Policy::Lossy && state.waiting() > self.config.limits.send_queue;
        let Some(conn) = state.conn else { return };
        self.dirty.insert(conn);
        if overfull {
            // The peer takes nothing; whatever it asked for, it will not miss.
            self.close(session);
            self.events.push_back(Event::Closed {
                session,
                refused: false,
                why: "the peer does not take what is sent to it".into(),
            });
        }
    }

    /// Ends a session, after what is already queued was sent if it is connected. No more events come from it.
    pub fn close(&mut self, session: SessionId) {
        let conn = self.part(session);
        self.closing.extend(conn);
    }

    /// Closes the session of a peer that sent what nobody understands, with one line in the log, at a bounded rate. A client that comes
    /// back and is refused again finds its connection closed later each time, and nothing of it is read until then.
    pub fn refuse(&mut self, now: Now, session: SessionId, why: &str, out: &mut Outputs) {
        let peer = self.peer(session).cloned();
        let who = peer.as_ref().map_or_else(String::new, |peer| format!("{} at {}", peer.name, peer.addr));
        self.gate.log(now.mono, Level::Warn, format!("session with {who} closed: {why}"), out);
        let Some(conn) = self.part(session) else { return };
        let delay = peer.map_or(Duration::ZERO, |peer| self.penalties.refused(now.mono, (peer.name.clone(), peer.addr)));
        let closed = if delay.is_zero() { Some(conn) } else { self.penalties.stand(now.mono.plus(delay), conn) };
        self.closing.extend(closed);
    }

    /// Forgets a session with its events; gives the connection that it had, with all that was queued written to it.
    fn part(&mut self, session: SessionId) -> Option<Box<Conn>> {
        let mut state = self.forget(session)?;
        let conn = state.conn.and_then(|id| self.take(id)).map(|conn| {
            let mut conn = self.release(conn);
            if conn.phase == Phase::Ready {
                state.write(&mut conn, usize::MAX);
            }
            conn
        });
        let (of_session, others) = std::mem::take(&mut self.events).into_iter().partition(|event| event.session() == session);
        self.events = others;
        let dropped: VecDeque<Event> = of_session;
        for event in dropped {
            if let Event::Message { bytes, .. } = event {
                self.done(session, bytes);
            }
        }
        conn
    }

    /// Gives back the bytes of a message event; also for sessions that are gone.
    pub fn done(&mut self, session: SessionId, bytes: usize) {
        let class = &mut self.received[Class::of_session(session) as usize];
        *class = class.saturating_sub(self.spare.give_back(session, bytes));
        if let Some(state) = self.sessions.get_mut(&session) {
            state.received = state.received.saturating_sub(bytes);
        }
        self.relieved = true;
    }

    /// Bytes of messages queued on a session, or given to the driver and not yet taken by the kernel.
    pub fn queued(&self, session: SessionId) -> usize {
        let Some(state) = self.sessions.get(&session) else { return 0 };
        let conn = state.conn.and_then(|id| self.conns.get(&id));
        state.waiting() + conn.map_or(0, |conn| conn.unsent())
    }

    /// Bytes of received messages that were not given back yet, on all sessions.
    pub fn held(&self) -> usize {
        self.received.iter().sum::<usize>() + self.spare.held()
    }

    /// Messages that were not sent since they were too long for any daemon.
    pub fn unsendable(&self) -> u64 {
        self.unsendable
    }

    /// Returns true if a connection is this messenger's. For machines with several: accepted connections belong to the
    /// messenger that was given the `Accepted`.
    pub fn owns(&self, conn: ConnId) -> bool {
        self.conns.contains_key(&conn)
    }

    /// Returns who was turned away in the last minutes for having too many sessions, or because all clients together
    /// have, and how often.
    pub fn turned_away(&mut self, now: Mono) -> Vec<(EntityName, u64)> {
        self.crowd.refused(now)
    }

    /// Number of connections, whatever their state.
    pub fn connections(&self) -> usize {
        self.conns.len()
    }

    /// Returns who is on a session; `None` if it is gone or not open yet.
    pub fn peer(&self, session: SessionId) -> Option<&Arc<Peer>> {
        self.sessions.get(&session)?.peer.as_ref()
    }

    /// Returns what it was configured with.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Other bounds from now on; connections that stand keep those of frames.
    pub fn set_limits(&mut self, limits: crate::Limits) {
        self.config.limits = limits;
    }

    /// Sets the own addresses and number when they are known only after the start.
    pub fn set_addrs(&mut self, addrs: EntityAddrVec, id: i64) {
        self.config.addrs = addrs;
        self.config.id = id;
    }

    /// A client's own address as its peers see it; `None` before the first handshake. Daemons have theirs in the configuration.
    pub fn own_addr(&self) -> Option<EntityAddr> {
        self.config.addrs.0.first().copied().or(self.learned)
    }

    /// Keys, tickets and rights.
    pub fn auth(&self) -> &Auth {
        &self.auth
    }

    /// For the owner to change keys, tickets and rights.
    pub fn auth_mut(&mut self) -> &mut Auth {
        &mut self.auth
    }

    /// As a monitor: answers the payload of an AUTH message (protocol 2) of `session` with the result and payload of AUTH_REPLY.
    pub fn renew(&mut self, now: Now, session: SessionId, payload: &[u8]) -> (i32, Bytes) {
        const EACCES: i32 = -13;
        let (Acceptor::Mon(mon), Some(state)) = (&mut self.auth.acceptor, self.sessions.get(&session)) else {
            return (EACCES, Bytes::new());
        };
        let Some(peer) = &state.peer else { return (EACCES, Bytes::new()) };
        match mon.renew(now.wall, &mut self.random, &peer.name, peer.global_id, state.challenge, payload) {
            Ok(payload) => (0, payload.into()),
            Err(_) => (EACCES, Bytes::new()),
        }
    }

    /// As a monitor: a ticket for somebody in the own process, who is known without proof ([`crate::auth::ClientAuth::hold`]).
    /// `None` while there is no key of the service.
    pub fn hand_out(
        &mut self,
        now: Now,
        name: &EntityName,
        entity: &EntityKey,
        global_id: u64,
        service: EntityType,
    ) -> Option<HandedTicket> {
        let Acceptor::Mon(mon) = &self.auth.acceptor else { return None };
        mon.hand_out(now.wall, &mut self.random, (name, entity), global_id, service)
    }

    /// As a client of a monitor: the payload of an AUTH message (protocol 2) to send on the monitor session, if tickets must be
    /// renewed now. When to ask is told by [`crate::auth::ClientAuth::next_renewal`]; the answer goes to
    /// [`crate::auth::ClientAuth::renew_reply`].
    pub fn renew_tickets(&mut self, now: Now) -> Option<Bytes> {
        self.auth.client.renew_request(now.mono, &mut self.random)
    }

    fn new_session_id(&mut self, kind: EntityType) -> SessionId {
        let id = SessionId(self.next_session << 1 | Class::of(kind) as u64);
        self.next_session += 1;
        id
    }

    /// A random number that is not 0, which stands for "none".
    fn cookie(&mut self) -> u64 {
        self.random.u64() | 1
    }

    /// Takes a connection out to work on it.
    fn take(&mut self, id: ConnId) -> Option<Box<Conn>> {
        self.conns.remove(&id)
    }

    /// Lets go of what a connection that was taken out holds: its timer, its place in queues, the memory of an unfinished
    /// message.
    fn release(&mut self, mut conn: Box<Conn>) -> Box<Conn> {
        self.timers.remove(&(conn.timer, Timer::Conn(conn.id)));
        self.dirty.remove(&conn.id);
        if conn.parked.take().is_some() {
            self.parked[Class::of(conn.kind) as usize].retain(|id| *id != conn.id);
        }
        if conn.accepted && conn.phase != Phase::Ready {
            self.strangers.remove(&conn.id);
        }
        if let (Some(session), bytes @ 1..) = (conn.session, conn.reader.reserved()) {
            self.done(session, bytes);
        }
        self.relieved = true;
        conn
    }

    /// Removes a session and everything that leads to it.
    fn forget(&mut self, id: SessionId) -> Option<Session> {
        let session = self.sessions.remove(&id)?;
        if let (true, Some(peer)) = (session.counted, &session.peer) {
            self.crowd.leave(peer);
        }
        self.timers.remove(&(session.timer, Timer::Session(id)));
        if self.by_cookie.get(&session.server_cookie) == Some(&id) {
            self.by_cookie.remove(&session.server_cookie);
        }
        Some(session)
    }

    /// A connection that was taken out is over. `close`: the driver must be told.
    fn lost(&mut self, now: Now, conn: Box<Conn>, fault: Fault, close: bool, out: &mut Outputs) {
        let mut conn = self.release(conn);
        if close {
            conn.flush(out);
            out.push(Output::Close { conn: conn.id });
        }
        let session = conn.session.and_then(|id| self.sessions.get(&id));
        let who = match session.and_then(|s| s.peer.as_ref()) {
            Some(peer) if !peer.outgoing => format!("{} at {}", peer.name, conn.remote),
            _ => format!("{} at {}", conn.kind.name(), conn.remote),
        };
        let text = match (conn.phase, &conn.refused) {
            (Phase::Ready, _) => format!("connection with {who} ended: {}", fault.why),
            (_, Some(refused)) => format!("handshake with {who} ended: {}; {refused}", fault.why),
            (_, None) => format!("handshake with {who} ended: {}", fault.why),
        };
        // What operators look for: a daemon that cannot reach another, a client that is not let in.
        let notable = conn.phase != Phase::Ready && (!conn.accepted || conn.refused.is_some());
        let level = if notable { fault.level.min(Level::Info) } else { fault.level };
        match conn.phase != Phase::Ready {
            true if !conn.accepted => self.gate.log_seldom(now.mono, level, text, out),
            // Nobody else is at fault: all who had a session come again and again until a monitor is there.
            true if conn.refused.is_some() && self.auth.acceptor.lacks_keys() => {
                let text = format!(
                    "whoever connects is refused, {} at {} the first: no monitor has sent keys yet",
                    conn.kind.name(),
                    conn.remote
                );
                self.gate.log_seldom_as(now.mono, level, "lacks keys", text, out);
            }
            _ => self.gate.log(now.mono, level, text, out),
        }
        let Some(session) = conn.session else { return };
        self.detached(now, session, fault);
    }

    /// A session lost its connection.
    fn detached(&mut self, now: Now, id: SessionId, fault: Fault) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        session.conn = None;
        if session.policy == Policy::Lossy {
            self.forget(id);
            self.events.push_back(Event::Closed { session: id, refused: fault.refused, why: fault.why });
            return;
        }
        let limits = &self.config.limits;
        session.since = now.mono;
        let wait = match session.target {
            None => limits.detached,
            Some(_) => {
                // Soon after a session that stood; then ever more slowly.
                session.pause = (session.pause * 2).clamp(limits.retry.0, limits.retry.1);
                session.pause
            }
        };
        self.arm_session(id, now.mono.plus(wait));
    }
}

impl Event {
    /// The session that it is about.
    pub fn session(&self) -> SessionId {
        match self {
            Event::Opened { session, .. }
            | Event::Message { session, .. }
            | Event::Reset { session }
            | Event::Closed { session, .. } => *session,
        }
    }
}
