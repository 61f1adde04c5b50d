//! Sessions: who is there, what they may do, what they subscribed to.

use super::Monitor;
use super::maps::{Made, Published, Subscriber, Topic, osd_maps};
use super::rights::Rights;
use images::RequestId;
use manager::soft::Connected;
use messages::mon::{MonSubscribe, SubscribeItem};
use msgr::Peer;
use node::{CallId, Mono, Now, Output, Outputs};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use types::{EntityName, Message, OsdId, SessionId};

/// Bytes of the name of a host, as DNS has it. A longer one is no host's.
const HOST: usize = 255;
/// Time for which a session, after it asked for the OSD map once, hears of OSDs that die, without asking. A client asks once
/// when it begins. If what it learns of dies in that very moment, it would ask again only when it holds its operation
/// for late, after 10 to 15 s.
const NEWCOMER: Duration = Duration::from_secs(30);

/// Side of the messenger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Side {
    /// The monitor's.
    Mon,
    /// The manager's.
    Mgr,
}

/// Message that is sent when an entry is durable.
#[derive(Clone, Debug)]
pub(crate) enum Outgoing {
    /// A message to a session.
    Message(Side, SessionId, Message),
    /// The answer to a call.
    Answer(CallId, i32, String),
    /// An instruction to an OSD.
    Instruct(OsdId, String),
    /// Result of the manager's wish.
    Granted(RequestId, Result<Option<u64>, types::Errno>),
}

/// One session.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    /// The peer.
    pub(crate) peer: Arc<Peer>,
    /// May do what.
    pub(crate) rights: Rights,
    /// Subscriptions by kind.
    pub(crate) subs: BTreeMap<Topic, SubscribeItem>,
    /// Configuration as it was sent last.
    pub(crate) config: Option<BTreeMap<String, String>>,
    /// If it is an OSD that booted: its number.
    pub(crate) osd: Option<OsdId>,
    /// Place where it runs, as it says.
    pub(crate) host: String,
    /// Time when it last asked for the OSD map once, and the epoch that it lacks since.
    pub(crate) asked_once: Option<(Mono, u64)>,
}

/// All sessions.
#[derive(Debug, Default)]
pub(crate) struct Sessions(pub(crate) BTreeMap<(Side, SessionId), Session>);

impl Monitor {
    /// A session stands.
    pub(super) fn opened(&mut self, side: Side, session: SessionId, peer: Arc<Peer>) {
        let (from, own) = (peer.ip, peer.caps.as_deref());
        let rights = match side {
            Side::Mon => Rights::at_monitor(own, from),
            Side::Mgr if self.env.cephx() => Rights::at_manager(own, Some(self.mon_caps_of(&peer.name)), from),
            Side::Mgr => Rights::at_manager(own, None, from),
        };
        if side == Side::Mon {
            let connected = connected(&peer);
            self.leader.soft.connected.insert(session, connected);
        }
        let entry =
            Session { peer, rights, subs: BTreeMap::new(), config: None, osd: None, host: String::new(), asked_once: None };
        self.sessions.0.insert((side, session), entry);
    }

    /// Returns what an entity may do at monitors, as text; nothing if there is no such entity.
    fn mon_caps_of(&self, name: &EntityName) -> &str {
        self.replica.applied.auth.get(name).and_then(|entity| entity.caps.get("mon")).map_or("", String::as_str)
    }

    /// A session is over.
    pub(super) fn closed(&mut self, now: Now, side: Side, session: SessionId) {
        self.turns.forget(side, session);
        let there = self.sessions.0.remove(&(side, session)).is_some();
        if there && side == Side::Mon && self.asks_any() && !self.remote.has(session) {
            self.forget_asks(session);
        }
        if side == Side::Mgr {
            self.leader.soft.services.retain(|_, s| s.session != session);
            return;
        }
        self.leader.soft.connected.remove(&session);
        for osd in self.leader.soft.osds.values_mut().filter(|o| o.session == Some(session)) {
            osd.session = None;
            osd.closed_at = Some(now.mono);
        }
    }

    /// Adds subscriptions and answers them.
    pub(super) fn subscribe(&mut self, session: SessionId, wanted: MonSubscribe) {
        if let Some(entry) = self.sessions.0.get_mut(&(Side::Mon, session)) {
            entry.host = if wanted.hostname.len() <= HOST { wanted.hostname } else { String::new() };
        }
        for (what, item) in wanted.what {
            let Some(entry) = self.sessions.0.get_mut(&(Side::Mon, session)) else { return };
            // Kinds that do not exist here (file systems, keys) are never answered, as by a cluster without them, and not kept. Neither are
            // those that the session may not have.
            let Some(topic) = Topic::find(&what).filter(|topic| topic.may_follow(&entry.rights)) else { continue };
            entry.subs.retain(|other, _| !topic.replaces(*other));
            entry.subs.insert(topic, item);
            self.serve_subscription(session, topic, true, &mut Made::default());
        }
    }

    /// Tells subscribers what is new.
    pub(super) fn publish(&mut self, now: Now, _out: &mut Outputs) {
        let state = self.replica.applied.clone();
        let new = Published::of(&state);
        let old = std::mem::replace(&mut self.published, new);
        if old == new {
            return;
        }
        if old.differs(&new, Topic::OSDMAP) {
            self.map_for_manager();
            self.remember_map();
            self.leader.soft.prune(&state);
            self.leader.duties.images.prune(&state);
        }
        if old.differs(&new, Topic::MONMAP) {
            self.peers_follow(now);
            let (addrs, rank) = (self.env.config.addrs.clone(), self.rank());
            self.mon.set_addrs(addrs, rank as i64);
        }
        let of = |((_, id), s): (&(Side, SessionId), &Session)| {
            s.subs.keys().filter(|topic| old.differs(&new, **topic)).map(|topic| (*id, *topic)).collect::<Vec<_>>()
        };
        let all: Vec<(SessionId, Topic)> = self.sessions.0.iter().flat_map(of).collect();
        let mut made = Made::default();
        for (session, topic) in all {
            self.serve_subscription(session, topic, false, &mut made);
        }
        if state.osdmap.osd_info.iter().any(|osd| u64::from(osd.down_at) > old.osdmap()) {
            self.tell_newcomers(now, &mut made);
        }
    }

    /// Sends the newest OSD map to sessions that asked for one a moment ago, and not for more.
    fn tell_newcomers(&mut self, now: Now, made: &mut Made) {
        let state = self.replica.applied.clone();
        let new = |((_, id), session): (&(Side, SessionId), &Session)| {
            let (at, lacks) = session.asked_once?;
            let fresh = now.mono.since(at) < NEWCOMER && !session.subs.contains_key(&Topic::OSDMAP);
            fresh.then_some((*id, lacks))
        };
        let newcomers: Vec<(SessionId, u64)> = self.sessions.0.iter().filter_map(new).collect();
        for (session, lacks) in newcomers {
            let (messages, next) = made.osd_maps(&state, lacks);
            messages.into_iter().for_each(|m| self.mon.send(session, m));
            if let Some(entry) = self.sessions.0.get_mut(&(Side::Mon, session)) {
                entry.asked_once = entry.asked_once.map(|(at, _)| (at, next));
            }
        }
    }

    /// Sends what a subscription lacks. `first` if it was just made; `made` are messages of this state that others were
    /// sent.
    fn serve_subscription(&mut self, session: SessionId, topic: Topic, first: bool, made: &mut Made) {
        let state = self.replica.applied.clone();
        let Some(entry) = self.sessions.0.get_mut(&(Side::Mon, session)) else { return };
        let Some(item) = entry.subs.get(&topic).copied() else { return };
        let (start, entity) = (item.start, &entry.peer.name);
        let mut to = Subscriber { topic, entity, host: &entry.host, config: &mut entry.config, start, first };
        let (messages, next) = topic.messages(&state, &mut to, made);
        let answered = !messages.is_empty();
        messages.into_iter().for_each(|m| self.mon.send(session, m));
        let asked_at = self.replica.log.now();
        let Some(entry) = self.sessions.0.get_mut(&(Side::Mon, session)) else { return };
        if answered && item.once() {
            entry.subs.remove(&topic);
            if topic == Topic::OSDMAP {
                entry.asked_once = Some((asked_at, next));
            }
        } else if let Some(item) = entry.subs.get_mut(&topic) {
            item.start = next;
        }
    }

    /// Sends what waited for an entry.
    pub(super) fn send_out(&mut self, outgoing: Outgoing, out: &mut Outputs) {
        match outgoing {
            Outgoing::Message(side, session, message) => self.tell(side, session, message),
            Outgoing::Answer(call, result, text) => out.push(Output::Answer { call, result, text }),
            Outgoing::Instruct(osd, json) => {
                if let Some(session) = self.leader.soft.osds.get(&osd).and_then(|o| o.session) {
                    self.tell(Side::Mon, session, messages::internal::OsdInstruct { json }.encode());
                }
            }
            Outgoing::Granted(id, result) => self.granted(id, result),
        }
    }

    /// Sends a session the OSD maps that it lacks, whatever it subscribed to.
    pub(super) fn send_maps(&mut self, session: SessionId, start: u64) {
        let (messages, _) = osd_maps(&self.replica.applied, start);
        messages.into_iter().for_each(|m| self.tell(Side::Mon, session, m));
    }
}

/// Returns who a session's other end is.
pub(super) fn connected(peer: &Peer) -> Connected {
    Connected {
        name: peer.name.clone(),
        kind: peer.kind,
        features: peer.features,
        addr: peer.addr,
        caps: peer.caps.as_ref().map(ToString::to_string),
        global_id: peer.global_id,
    }
}
