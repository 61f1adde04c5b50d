//! Requests that only a leader can deal with: kept until they are answered, dealt with here or carried to the leader.
//!
//! While there is one monitor, none of this is used. Otherwise, when the leader changes, what is not answered goes to the new one. Requests
//! that change something are known by their client and its number for them, and the log remembers the answers of the last ones. So nothing
//! is done twice, whether a monitor carries it again or a client sends it again through another monitor. The answer comes back through the
//! monitor that has the session, when that monitor has applied what the leader had.

use super::Monitor;
use super::sessions::Side;
use messages::internal::{OsdAlive, OsdBoot, OsdDown, OsdFailures, OsdReport, PgTempWish};
use messages::mon::{
    GetPoolStats, GetPoolStatsReply, LogMsg, MonCommand, MonCommandAck, MonGetVersion, MonGetVersionReply, PoolOp, PoolOpReply,
    Statfs, StatfsReply,
};
use messages::quorum::{Carried, FromLeader, Sender, SessionOver, ToLeader};
use monstate::state::RequestKey;
use node::{Level, Mono, Now, Outputs};
use quorum::{Term, VoterId};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use types::{EntityAddr, EntityType, Message, SessionId};

/// Requests that wait for the leader.
const MOST: usize = 10_000;
/// Bytes of them.
const MOST_BYTES: usize = 64 << 20;
/// Requests of one session, and bytes of them: nobody takes all the room alone.
const SHARE: usize = MOST / 8;
const SHARE_BYTES: usize = MOST_BYTES / 2;
/// Bytes of a request's front: it is carried to the leader in a front, which may have 16 MiB, with who asks. The longest are reports of OSDs.
const MOST_FRONT: usize = 12 << 20;
/// Time for which a monitor without a leader keeps its sessions.
const PATIENCE: Duration = Duration::from_secs(2);

/// A request that is not answered.
struct Ask {
    session: SessionId,
    message: Message,
    /// Was given to the leader of now.
    sent: bool,
}

impl Ask {
    fn size(&self) -> usize {
        self.message.front.len() + self.message.data.len()
    }
}

/// All of them.
#[derive(Default)]
pub(super) struct Asks {
    next: u64,
    asks: BTreeMap<u64, Ask>,
    unsent: BTreeSet<u64>,
    bytes: usize,
    /// Requests and bytes of each session.
    held: BTreeMap<SessionId, (usize, usize)>,
    /// Messages of the leader for sessions of this monitor, until the entry is applied that it had.
    relays: VecDeque<FromLeader>,
    /// The last leader that was known.
    led_by: Option<(Term, VoterId)>,
    /// Since when none is known.
    leaderless: Option<Mono>,
}

/// The kind of message that answers one; `None`: it is not answered.
fn answer_of(kind: u16) -> Option<u16> {
    Some(match kind {
        MonCommand::KIND => MonCommandAck::KIND,
        MonGetVersion::KIND => MonGetVersionReply::KIND,
        Statfs::KIND => StatfsReply::KIND,
        GetPoolStats::KIND => GetPoolStatsReply::KIND,
        PoolOp::KIND => PoolOpReply::KIND,
        _ => return None,
    })
}

/// Returns true if a message of this kind is for the leader at all.
fn is_for_leader(kind: u16) -> bool {
    let told = [LogMsg::KIND, OsdBoot::KIND, OsdReport::KIND, OsdDown::KIND, OsdAlive::KIND, PgTempWish::KIND, OsdFailures::KIND];
    answer_of(kind).is_some() || told.contains(&kind)
}

impl Asks {
    fn remove(&mut self, id: u64) -> Option<Ask> {
        self.unsent.remove(&id);
        let ask = self.asks.remove(&id)?;
        let size = ask.size();
        self.bytes -= size;
        if let Entry::Occupied(mut held) = self.held.entry(ask.session) {
            let (count, bytes) = held.get_mut();
            (*count, *bytes) = (*count - 1, *bytes - size);
            if *count == 0 {
                held.remove();
            }
        }
        Some(ask)
    }

    /// Takes a request. False if there is no room for it, it is too long to be carried, or its session has its share.
    fn take(&mut self, session: SessionId, message: Message) -> bool {
        let ask = Ask { session, message, sent: false };
        let size = ask.size();
        let (count, bytes) = self.held.get(&session).copied().unwrap_or_default();
        let room = self.asks.len() < MOST && self.bytes + size <= MOST_BYTES;
        let carried = ask.message.front.len() <= MOST_FRONT;
        if !room || !carried || count >= SHARE || bytes + size > SHARE_BYTES {
            return false;
        }
        self.next += 1;
        self.bytes += size;
        self.held.insert(session, (count + 1, bytes + size));
        self.asks.insert(self.next, ask);
        self.unsent.insert(self.next);
        true
    }

    /// The request of a session that a message answers.
    fn answered_by(&self, session: SessionId, answer: &Message) -> Option<u64> {
        let answers = |ask: &Ask| {
            ask.session == session && ask.message.tid == answer.tid && answer_of(ask.message.kind) == Some(answer.kind)
        };
        self.asks.iter().find(|(_, ask)| answers(ask)).map(|(id, _)| *id)
    }

    /// All that is not answered goes to the next leader.
    fn send_again(&mut self) {
        for (id, ask) in &mut self.asks {
            ask.sent = false;
            self.unsent.insert(*id);
        }
    }

    /// The last leader that was known: who has what was carried.
    pub(super) fn asked(&self) -> Option<VoterId> {
        self.led_by.map(|(_, leader)| leader)
    }

    /// Returns true if no leader has been known for so long that sessions are sent away.
    pub(super) fn is_lost(&self, now: Now) -> bool {
        self.leaderless.is_some_and(|since| now.mono.since(since) >= PATIENCE)
    }
}

/// An instance's address with the IP address of its socket.
fn placed(addr: EntityAddr, ip: Option<IpAddr>) -> EntityAddr {
    let port = addr.addr.map_or(0, |a| a.port());
    EntityAddr { addr: ip.map(|ip| SocketAddr::new(ip, port)).or(addr.addr), ..addr }
}

impl Monitor {
    /// Takes a request of a session that only a leader can deal with.
    pub(super) fn ask_leader(&mut self, now: Now, session: SessionId, message: Message) {
        if !is_for_leader(message.kind) {
            return;
        }
        if !self.asks.take(session, message) {
            self.turn_away(now, Side::Mon, session);
        }
    }

    /// Deals with what waits for a leader, or carries it there. Whether anything happened.
    pub(super) fn carry_asks(&mut self, now: Now, out: &mut Outputs) -> bool {
        let mut progress = false;
        if self.leader.reigns() && !self.replica.log.takes_proposals() {
            return false;
        }
        if self.leader.reigns() {
            progress |= self.take_early(now, out);
        }
        while let Some(id) = self.asks.unsent.first().copied() {
            if self.leader.reigns() {
                self.deal_with(now, id, out);
            } else if !self.carry(now, id, out) {
                break;
            }
            progress = true;
        }
        progress
    }

    /// This monitor leads.
    fn deal_with(&mut self, now: Now, id: u64, out: &mut Outputs) {
        let Some((session, message)) = self.sending(id) else { return };
        self.carry_out(now, session, message, out);
    }

    /// Marks a request as sent; forgets it if nobody waits for an answer.
    fn sending(&mut self, id: u64) -> Option<(SessionId, Message)> {
        self.asks.unsent.remove(&id);
        let ask = self.asks.asks.get_mut(&id)?;
        ask.sent = true;
        let (session, message) = (ask.session, ask.message.clone());
        if answer_of(message.kind).is_none() {
            self.asks.remove(id);
        }
        Some((session, message))
    }

    /// Another one leads. False if it cannot be reached now, or is not known.
    fn carry(&mut self, now: Now, id: u64, out: &mut Outputs) -> bool {
        let Some(leader) = self.replica.log.leader().filter(|l| *l != self.replica.log.id()) else { return false };
        let Some(line) = self.reach(now, leader, out) else { return false };
        let Some((session, message)) = self.sending(id) else { return true };
        let Some(entry) = self.sessions.0.get(&(Side::Mon, session)) else {
            self.asks.remove(id);
            return true;
        };
        let peer = &entry.peer;
        // Rights that hold for a network hold for where the peer is, not for where it says that it is. No other sender's address is changed:
        // those of OSDs are what the map has.
        let limited = peer.caps.as_ref().is_some_and(|caps| caps.contains("network"));
        let addr = if limited { placed(peer.addr, peer.ip) } else { peer.addr };
        let sender = Sender {
            session: session.0,
            name: peer.name.clone(),
            kind: peer.kind as u32,
            global_id: peer.global_id,
            addr,
            features: peer.features,
            caps: peer.caps.clone(),
        };
        let (head, data) = (Carried::of(&message), message.data);
        self.mon.send(line, ToLeader { sender, head, data }.encode());
        true
    }

    /// A request of a session, here or at another monitor, at the leader: done, unless it was done before.
    pub(super) fn carry_out(&mut self, now: Now, session: SessionId, message: Message, out: &mut Outputs) {
        let key = self.key_of(session, &message);
        #[cfg(feature = "sim")]
        let key = key.filter(|_| !self.forgetful);
        if let Some(answer) = key.and_then(|key| self.newest().quorum.done.answer(key).cloned()) {
            let outgoing = super::Outgoing::Message(Side::Mon, session, answer.message());
            return self.send_when_durable(outgoing, out);
        }
        self.asking = key;
        self.deal(now, Side::Mon, session, message, out);
        self.asking = None;
    }

    /// Returns how a request is known that may change something.
    fn key_of(&self, session: SessionId, message: &Message) -> Option<RequestKey> {
        let changes = matches!(message.kind, MonCommand::KIND | PoolOp::KIND);
        let peer = &self.sessions.0.get(&(Side::Mon, session)).filter(|_| changes)?.peer;
        let key = RequestKey { client: peer.global_id, tid: message.tid, kind: message.kind };
        (key.client != 0 && key.tid != 0).then_some(key)
    }

    /// Something was sent to a session: if it answers a request, that one is over.
    pub(super) fn note_answer(&mut self, session: SessionId, message: &Message) {
        let id = self.asks.answered_by(session, message);
        id.and_then(|id| self.asks.remove(id));
    }

    /// Keeps what could not be proposed for the next leader. Returns false if no such request is known.
    pub(super) fn keep_ask(&mut self, session: SessionId, answer: &Message) -> bool {
        let Some(id) = self.asks.answered_by(session, answer) else { return false };
        self.asks.unsent.insert(id);
        true
    }

    /// A session of this monitor is over.
    pub(super) fn forget_asks(&mut self, session: SessionId) {
        let gone: Vec<u64> = self.asks.asks.iter().filter(|(_, ask)| ask.session == session).map(|(id, _)| *id).collect();
        gone.into_iter().for_each(|id| drop(self.asks.remove(id)));
        let line = self.replica.log.leader().and_then(|leader| self.peers.to(leader));
        if let (Some(line), false) = (line, self.leader.reigns()) {
            self.mon.send(line, SessionOver { session: session.0 }.encode());
        }
    }

    /// The leader has something for a session.
    pub(super) fn take_relay(&mut self, relay: FromLeader) {
        self.asks.relays.push_back(relay);
        self.pass_on();
    }

    /// Passes on what the leader sent, as far as this monitor has come.
    pub(super) fn pass_on(&mut self) {
        while self.asks.relays.front().is_some_and(|r| r.index <= self.replica.applied.index) {
            let Some(relay) = self.asks.relays.pop_front() else { return };
            let session = SessionId(relay.session);
            if self.sessions.0.contains_key(&(Side::Mon, session)) {
                self.tell(Side::Mon, session, relay.head.message(relay.data));
            }
        }
    }

    /// Looks who leads. A new leader knows nothing of what was asked and reported before.
    pub(super) fn watch_leader(&mut self, now: Now, out: &mut Outputs) {
        let log = &self.replica.log;
        if log.is_alone() {
            self.asks.leaderless = None;
            return;
        }
        let Some(leader) = log.leader() else {
            self.asks.leaderless.get_or_insert(now.mono);
            return;
        };
        self.asks.leaderless = None;
        let led_by = Some((log.term(), leader));
        if self.asks.led_by == led_by {
            return;
        }
        let name = self.replica.applied.quorum.name_of(leader.0).unwrap_or("?").to_owned();
        out.log(Level::Info, "mon", format!("mon.{name} leads in term {}", self.replica.log.term()));
        self.asks.led_by = led_by;
        self.standing_changed(now);
        self.leader_forgot(now);
    }

    /// The leader is another one, or has lost the sessions that were carried to it: all that is not answered is asked again, and OSDs are
    /// made to report anew.
    pub(super) fn leader_forgot(&mut self, now: Now) {
        self.asks.send_again();
        self.asks.relays.clear();
        let osds: Vec<SessionId> = self.sessions_here(|kind| kind == EntityType::Osd);
        osds.into_iter().for_each(|session| self.turn_away(now, Side::Mon, session));
    }

    /// Sessions of the monitor's side that are not at another monitor.
    fn sessions_here(&self, which: impl Fn(EntityType) -> bool) -> Vec<SessionId> {
        let all =
            self.sessions.0.iter().filter(|((side, id), s)| *side == Side::Mon && !self.remote.has(*id) && which(s.peer.kind));
        all.map(|((_, id), _)| *id).collect()
    }

    /// Without a leader for long, clients do better elsewhere.
    pub(super) fn send_away_if_lost(&mut self, now: Now, out: &mut Outputs) {
        if !self.asks.is_lost(now) {
            return;
        }
        let all = self.sessions_here(|_| true);
        if !all.is_empty() {
            out.log(Level::Warn, "mon", format!("there is no leader: {} sessions are sent elsewhere", all.len()));
        }
        all.into_iter().for_each(|session| self.turn_away(now, Side::Mon, session));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_session_has_a_share_of_the_room() {
        let mut asks = Asks::default();
        let message = |size: usize| Message { kind: MonCommand::KIND, front: vec![0; size].into(), ..Message::default() };
        let take =
            |asks: &mut Asks, session: u64, size| (0..MOST).take_while(|_| asks.take(SessionId(session), message(size))).count();
        assert_eq!(take(&mut asks, 1, 10), SHARE);
        assert_eq!(take(&mut asks, 2, 11 << 20), 2, "half of the bytes");
        assert_eq!(take(&mut asks, 3, 10), SHARE, "others have theirs");
        let all: Vec<u64> = asks.asks.keys().copied().collect();
        all.into_iter().for_each(|id| drop(asks.remove(id)));
        assert!(asks.bytes == 0 && asks.held.is_empty() && asks.unsent.is_empty());
    }
}
