//! The sessions between monitors.
//!
//! Each monitor opens a lossy session to each other one, on its own messenger: what it says goes there, and answers
//! come back on it. Who connects must have shown the key of `mon.`, which only monitors have. A message that is lost
//! does no harm: who asks asks again. Where another monitor is, is told by its record and the monitor map; a monitor
//! that is not taken in yet knows some addresses, and answers on the sessions that others opened.

use super::Monitor;
use super::rights::Rights;
use super::sessions::Side;
use messages::quorum::{FromLeader, MonClock, MonHello, MonRefused, SessionOver, ToLeader, VoterSays};
use msgr::{Event, Peer};
use node::{Level, Mono, Now, Outputs};
use objecter::{Lines, Pause};
use quorum::VoterId;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use types::{EntityAddr, EntityAddrVec, EntityType, SessionId};

/// Between two attempts to reach a monitor.
const PAUSE: Pause = Pause { first: Duration::from_millis(50), most: Duration::from_secs(1) };
/// Bytes that may wait on a session before voters' messages are left out: they are said again.
const WAITING: usize = 8 << 20;
/// First number of connections that the monitor's messenger opens; the manager's begins with 1.
pub(super) const FIRST_CONN: u64 = 1 << 40;
/// A session on which nothing came for so long is probed; after three times of it, it is over.
pub(super) const PROBE: Duration = Duration::from_secs(2);

/// Place where a session leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Far {
    /// To a monitor that is known.
    Voter(VoterId),
    /// To the address with this number in the configuration.
    Seed(usize),
}

/// All sessions with other monitors.
pub(super) struct Peers {
    lines: Lines<Far>,
    /// Sessions that others opened.
    callers: BTreeSet<SessionId>,
    /// On which of them a voter spoke last.
    spoke_on: BTreeMap<VoterId, SessionId>,
    /// Time when a session that broke may be opened again.
    retry_at: Mono,
    /// Last line about a monitor that is not taken in: hellos come again and again.
    refused: String,
}

impl Peers {
    pub(super) fn new() -> Self {
        let (callers, spoke_on) = (BTreeSet::new(), BTreeMap::new());
        Self { lines: Lines::to(EntityType::Mon, PAUSE), callers, spoke_on, retry_at: Mono::NEVER, refused: String::new() }
    }

    /// The session to a voter, if one stands or is being opened.
    pub(super) fn to(&self, voter: VoterId) -> Option<SessionId> {
        self.lines.session(Far::Voter(voter))
    }

    /// Returns true if this was not said before.
    pub(super) fn is_news(&mut self, said: &str) -> bool {
        let news = self.refused != said;
        self.refused = said.into();
        news
    }

    /// Returns when something that could not be sent may be tried again.
    pub(super) fn deadline(&self) -> Mono {
        self.retry_at
    }
}

/// Returns true if who connected may speak as a monitor.
fn is_monitor(peer: &Peer) -> bool {
    let rights = || Rights::at_monitor(peer.caps.as_deref(), peer.ip);
    peer.kind == EntityType::Mon && (peer.name.id.is_empty() || rights().may_be_a_monitor())
}

impl Monitor {
    /// Returns where a monitor is.
    fn addr_of(&self, voter: VoterId) -> Option<EntityAddr> {
        let state = &self.replica.applied;
        let name = state.quorum.name_of(voter.0)?;
        state.monmap.mon_info.get(name)?.public_addrs.msgr2().copied()
    }

    /// A session on which a monitor can be told something; opened now if need be.
    pub(super) fn reach(&mut self, now: Now, voter: VoterId, out: &mut Outputs) -> Option<SessionId> {
        match self.addr_of(voter) {
            Some(addr) => self.reach_at(now, Far::Voter(voter), addr, out),
            None => self.peers.spoke_on.get(&voter).copied(),
        }
    }

    /// The same for an address of the configuration.
    pub(super) fn reach_seed(&mut self, now: Now, n: usize, out: &mut Outputs) -> Option<SessionId> {
        let addr = self.env.config.join.get(n).and_then(EntityAddrVec::msgr2).copied()?;
        self.reach_at(now, Far::Seed(n), addr, out)
    }

    fn reach_at(&mut self, now: Now, far: Far, addr: EntityAddr, out: &mut Outputs) -> Option<SessionId> {
        let from = out.0.len();
        let session = self.peers.lines.reach(now, far, addr, &mut self.mon, out);
        self.follow_conns(from, out);
        match session {
            Ok(session) => Some(session),
            Err(until) => {
                self.peers.retry_at = self.peers.retry_at.min(until);
                None
            }
        }
    }

    /// Sends a voter what the log says.
    pub(super) fn say(&mut self, now: Now, to: VoterId, payload: bytes::Bytes, out: &mut Outputs) {
        let Some(session) = self.reach(now, to, out) else { return };
        if self.mon.queued(session) <= WAITING {
            self.mon.send(session, VoterSays { payload }.encode());
        }
    }

    /// Other addresses are in force: sessions that lead elsewhere are closed.
    pub(super) fn peers_follow(&mut self, now: Now) {
        let state = self.replica.applied.clone();
        let at = |voter: VoterId| {
            let name = state.quorum.name_of(voter.0)?;
            state.monmap.mon_info.get(name)?.public_addrs.msgr2().copied()
        };
        let known = !state.quorum.mons.is_empty();
        let closed = self.peers.lines.retain(&mut self.mon, |far, addr| match far {
            Far::Voter(voter) => at(voter).as_ref() == Some(addr),
            Far::Seed(_) => !known,
        });
        for far in closed {
            self.line_lost(now, far);
        }
    }

    /// Takes an event of the monitor's side that is about another monitor; the rest comes back.
    pub(super) fn event_of_monitors(&mut self, now: Now, event: Event, out: &mut Outputs) -> Option<Event> {
        match event {
            Event::Opened { session, peer } if peer.outgoing => {
                self.peers.lines.opened(now, session);
                None
            }
            Event::Opened { session, peer } if is_monitor(&peer) => {
                self.peers.callers.insert(session);
                None
            }
            Event::Message { session, message, bytes } if self.is_of_monitors(session) => {
                let kind = message.kind;
                if let Err(why) = self.heard_from_monitor(now, session, &message, out) {
                    self.mon.refuse(now, session, &format!("message {kind} of a monitor is not understood: {why}"), out);
                    self.monitor_gone(now, session);
                }
                self.mon.done(session, bytes);
                None
            }
            Event::Closed { session, .. } if self.is_of_monitors(session) => {
                self.monitor_gone(now, session);
                None
            }
            other => Some(other),
        }
    }

    fn is_of_monitors(&self, session: SessionId) -> bool {
        self.peers.callers.contains(&session) || self.peers.lines.name(session).is_some()
    }

    fn monitor_gone(&mut self, now: Now, session: SessionId) {
        if let Some((far, retry_at)) = self.peers.lines.closed(now, session) {
            self.peers.retry_at = self.peers.retry_at.min(retry_at);
            return self.line_lost(now, far);
        }
        self.peers.callers.remove(&session);
        self.peers.spoke_on.retain(|_, on| *on != session);
        self.far_monitor_gone(now, session);
    }

    /// The pause after which broken sessions are opened again is over.
    pub(super) fn retry_peers(&mut self, now: Now) {
        if now.mono >= self.peers.retry_at {
            self.peers.retry_at = Mono::NEVER;
        }
    }

    fn heard_from_monitor(&mut self, now: Now, session: SessionId, m: &types::Message, out: &mut Outputs) -> denc::Result<()> {
        let called = self.peers.callers.contains(&session);
        match m.kind {
            VoterSays::KIND => self.voter_says(now, session, &VoterSays::decode(m)?, out),
            ToLeader::KIND if called => self.carried_here(now, session, ToLeader::decode(m)?, out),
            SessionOver::KIND if called => self.far_session_over(now, session, SessionOver::decode(m)?.session),
            SessionOver::KIND => self.turn_away(now, Side::Mon, SessionId(SessionOver::decode(m)?.session)),
            FromLeader::KIND if !called => self.take_relay(FromLeader::decode(m)?),
            MonHello::KIND if called => self.monitor_says_hello(now, session, MonHello::decode(m)?, out),
            MonClock::KIND if called => {
                // Programs of before do not know this message, and drop the session.
                #[cfg(feature = "sim")]
                if !self.env.config.levels.newest.has(types::Feature::MonClocks) {
                    self.fatal("a monitor whose program is too old is asked for its time".into(), out);
                    return Ok(());
                }
                let MonClock { round, .. } = MonClock::decode(m)?;
                let name = self.env.config.name.clone();
                self.mon.send(session, MonClock { round, name, at: now.wall }.encode());
            }
            MonClock::KIND => {
                let MonClock { round, name, at } = MonClock::decode(m)?;
                self.leader.soft.clocks.heard(now, &name, round, at);
            }
            MonRefused::KIND => {
                let why = MonRefused::decode(m)?.why;
                if self.peers.is_news(&why) {
                    out.log(Level::Error, "mon", format!("the monitors do not take this one in: {why}"));
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn voter_says(&mut self, now: Now, session: SessionId, said: &VoterSays, out: &mut Outputs) {
        let (fsid, id) = (self.env.config.fsid.0, self.replica.log.id());
        match quorum::Message::from_wire(&said.payload, &fsid, id) {
            Ok((from, message)) => {
                if self.peers.callers.contains(&session) {
                    self.peers.spoke_on.insert(from, session);
                }
                self.replica.log.step(now.mono, from, message);
            }
            Err(why) => out.log(Level::Warn, "mon", format!("a voter's message is not taken: {why}")),
        }
    }
}
