//! Sessions: who is there, what they may do, what they subscribed to.

use super::rights::Rights;
use super::{Monitor, Published};
use images::RequestId;
use manager::soft::Connected;
use messages::mon::{ConfigMsg, LogEntry, LogMsg, MgrMapMsg, MonMapMsg, MonSubscribe, OsdMapMsg, SubscribeItem};
use monstate::state::{State, place_of};
use msgr::Peer;
use node::{CallId, Mono, Now, Output, Outputs};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use types::{EntityName, Message, OsdId, SessionId};

/// Bytes of maps that one message carries at most.
const MAP_BYTES: usize = 4 << 20;
/// Maps that one message carries at most.
const MAPS: usize = 100;
/// Bytes of the name of a host, as DNS has it. A longer one is no host's.
const HOST: usize = 255;
/// How long after it asked for the OSD map once a session hears of OSDs that die, without asking. A client asks once when it begins. If
/// what it learns of dies in that very moment, it would ask again only when it holds its operation for late, after 10 to 15 s.
const NEWCOMER: Duration = Duration::from_secs(30);
/// Lines of the cluster log that a new subscriber is given at once at most.
const LOG_LINES: usize = 1_000;

/// Whose messenger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Side {
    /// The monitor's.
    Mon,
    /// The manager's.
    Mgr,
}

/// What is sent when an entry is durable.
#[derive(Clone, Debug)]
pub(crate) enum Outgoing {
    /// A message to a session.
    Message(Side, SessionId, Message),
    /// The answer to a call.
    Answer(CallId, i32, String),
    /// An instruction to an OSD.
    Instruct(OsdId, String),
    /// What became of the manager's wish.
    Granted(RequestId, Result<Option<u64>, types::Errno>),
}

/// One session.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    /// Who.
    pub(crate) peer: Arc<Peer>,
    /// May do what.
    pub(crate) rights: Rights,
    /// Subscriptions by kind.
    pub(crate) subs: BTreeMap<&'static str, SubscribeItem>,
    /// Configuration as it was sent last.
    pub(crate) config: Option<BTreeMap<String, String>>,
    /// If it is an OSD that booted: its number.
    pub(crate) osd: Option<OsdId>,
    /// Place where it runs, as it says.
    pub(crate) host: String,
    /// Time when it last asked for the OSD map once, and the epoch that it lacks since.
    pub(crate) asked_once: Option<(Mono, u64)>,
}

/// Messages with OSD maps, by the epoch that the receiver lacks first, and what comes next. A map goes to all OSDs at once.
#[derive(Default)]
struct Made(BTreeMap<u64, (Vec<Message>, u64)>);

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
        if there && side == Side::Mon && self.asks_any() && !self.far.has(session) {
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
            let Some(what) = KNOWN.iter().copied().find(|known| *known == what) else { continue };
            if !may_subscribe(&entry.rights, what) {
                continue;
            }
            if is_log(what) {
                // A session follows the cluster log at one level: librados asks for the next without giving up the last.
                entry.subs.retain(|other, _| !is_log(other));
            }
            entry.subs.insert(what, item);
            self.serve_subscription(session, what, true, &mut Made::default());
        }
    }

    /// Tells subscribers what is new.
    pub(super) fn publish(&mut self, now: Now, _out: &mut Outputs) {
        let state = self.replica.applied.clone();
        let new = Published {
            osdmap: state.osdmap.epoch,
            crush: state.osdmap.crush_version,
            monmap: state.monmap.epoch,
            mgrmap: state.mgrmap.epoch,
            config: state.config.version,
            log: state.log_version,
            auth: self.published.auth,
        };
        let old = std::mem::replace(&mut self.published, new);
        if old == new {
            return;
        }
        if old.osdmap != new.osdmap {
            self.map_for_manager();
            self.remember_map();
            self.leader.soft.prune(&state);
            self.leader.duties.images.prune(&state);
        }
        if old.monmap != new.monmap {
            self.peers_follow(now);
            let (addrs, rank) = (self.env.config.addrs.clone(), self.rank());
            self.mon.set_addrs(addrs, rank as i64);
        }
        let changed = |what: &str| match what {
            "osdmap" => old.osdmap != new.osdmap,
            "monmap" => old.monmap != new.monmap,
            "mgrmap" => old.mgrmap != new.mgrmap,
            // Options may hold for a place in the CRUSH map, or a device class.
            "config" => old.config != new.config || old.crush != new.crush,
            log if is_log(log) => old.log != new.log,
            _ => false,
        };
        let of = |((_, id), s): (&(Side, SessionId), &Session)| {
            s.subs.keys().filter(|what| changed(what)).map(|what| (*id, *what)).collect::<Vec<_>>()
        };
        let all: Vec<(SessionId, &'static str)> = self.sessions.0.iter().flat_map(of).collect();
        let mut made = Made::default();
        for (session, what) in all {
            self.serve_subscription(session, what, false, &mut made);
        }
        if state.osdmap.osd_info.iter().any(|osd| osd.down_at > old.osdmap) {
            self.tell_newcomers(now, &mut made);
        }
    }

    /// Sends the newest OSD map to sessions that asked for one a moment ago, and not for more.
    fn tell_newcomers(&mut self, now: Now, made: &mut Made) {
        let state = self.replica.applied.clone();
        let new = |((_, id), session): (&(Side, SessionId), &Session)| {
            let (at, lacks) = session.asked_once?;
            let fresh = now.mono.since(at) < NEWCOMER && !session.subs.contains_key("osdmap");
            fresh.then_some((*id, lacks))
        };
        let newcomers: Vec<(SessionId, u64)> = self.sessions.0.iter().filter_map(new).collect();
        for (session, lacks) in newcomers {
            let (messages, next) = made.0.entry(lacks).or_insert_with(|| osd_maps(&state, lacks)).clone();
            messages.into_iter().for_each(|m| self.mon.send(session, m));
            if let Some(entry) = self.sessions.0.get_mut(&(Side::Mon, session)) {
                entry.asked_once = entry.asked_once.map(|(at, _)| (at, next));
            }
        }
    }

    /// Sends what a subscription lacks. `first` if it was just made; `made` are messages of this state that others were sent.
    fn serve_subscription(&mut self, session: SessionId, what: &str, first: bool, made: &mut Made) {
        let state = self.replica.applied.clone();
        let Some(entry) = self.sessions.0.get(&(Side::Mon, session)) else { return };
        let Some(item) = entry.subs.get(what).copied() else { return };
        let (messages, next) = match what {
            "monmap" => newer(item, state.monmap.epoch, || MonMapMsg { monmap: state.monmap_bytes.clone() }.encode()),
            "mgrmap" => newer(item, state.mgrmap.epoch, || MgrMapMsg { map: state.mgrmap_bytes.clone() }.encode()),
            "osdmap" => made.0.entry(item.start).or_insert_with(|| osd_maps(&state, item.start)).clone(),
            "config" => {
                let config = self.config_for(&state, entry);
                if !first && entry.config.as_ref() == Some(&config) {
                    return;
                }
                if let Some(entry) = self.sessions.0.get_mut(&(Side::Mon, session)) {
                    entry.config = Some(config.clone());
                }
                (vec![ConfigMsg { config }.encode()], item.start)
            }
            log if is_log(log) => log_lines(&state, log, item.start, first),
            _ => return,
        };
        let answered = !messages.is_empty();
        messages.into_iter().for_each(|m| self.mon.send(session, m));
        let asked_at = self.replica.log.now();
        let Some(entry) = self.sessions.0.get_mut(&(Side::Mon, session)) else { return };
        if answered && item.once() {
            entry.subs.remove(what);
            if what == "osdmap" {
                entry.asked_once = Some((asked_at, next));
            }
        } else if let Some(item) = entry.subs.get_mut(what) {
            item.start = next;
        }
    }

    /// An entity's options.
    fn config_for(&self, state: &State, session: &Session) -> BTreeMap<String, String> {
        let place = place_of(state, &session.peer.name.kind, &session.peer.name.id, &session.host);
        let options = state.config.for_entity(&session.peer.name, &place);
        options.into_iter().map(|(name, (_, value))| (name, value)).collect()
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

/// What there is to subscribe to.
const KNOWN: [&str; 10] =
    ["monmap", "mgrmap", "osdmap", "config", "log", "log-debug", "log-info", "log-sec", "log-warn", "log-error"];

/// Returns true if somebody may follow something. The rules are Ceph's: everybody has the monitors' map and his own
/// options, since nobody could do anything without; all else needs `mon r`, and the OSD map `osd r` as well.
fn may_subscribe(rights: &Rights, what: &str) -> bool {
    match what {
        "monmap" | "config" => true,
        "osdmap" => rights.allows("mon", true, false) && rights.allows("osd", true, false),
        _ => rights.allows("mon", true, false),
    }
}

fn newer(item: SubscribeItem, epoch: u32, message: impl FnOnce() -> Message) -> (Vec<Message>, u64) {
    if item.start <= u64::from(epoch) { (vec![message()], u64::from(epoch) + 1) } else { (Vec::new(), item.start) }
}

/// Maps from `start` on, and what comes next: the current full map for 0; increments for an epoch that is kept; else the
/// oldest full map and all that follow.
pub(super) fn osd_maps(state: &State, start: u64) -> (Vec<Message>, u64) {
    let (first, last) = (state.history.first(), state.history.last());
    if start > u64::from(last) {
        return (Vec::new(), start);
    }
    let blank = OsdMapMsg { fsid: state.fsid, oldest: first, newest: last, ..OsdMapMsg::default() };
    let mut message = blank.clone();
    let mut epoch = start as u32;
    let mut bytes = 0;
    if start == 0 || start <= u64::from(first) {
        epoch = if start == 0 { last } else { first };
        if let Some(full) = state.history.full(epoch) {
            bytes += full.len();
            message.full.insert(epoch, full);
        }
        epoch += 1;
    }
    let mut messages = Vec::new();
    for epoch in epoch..=last {
        let Some(inc) = state.history.incremental(epoch) else { continue };
        if bytes + inc.len() > MAP_BYTES || message.incremental.len() >= MAPS {
            messages.push(std::mem::replace(&mut message, blank.clone()).encode());
            bytes = 0;
        }
        bytes += inc.len();
        message.incremental.insert(epoch, inc.clone());
    }
    messages.push(message.encode());
    (messages, u64::from(last) + 1)
}

/// Returns true if a subscription is one to the cluster log: `log`, or `log-` and a level.
fn is_log(what: &str) -> bool {
    what.starts_with("log")
}

/// Lines of at least the wanted level, of all channels: clients choose (`ceph -w`, `ceph -W audit`). And the version
/// after them. A new subscriber from 0 gets none of the past but the last line of the cluster's own channel, to know
/// that it is subscribed: audits may have come after it.
fn log_lines(state: &State, what: &str, start: u64, first: bool) -> (Vec<Message>, u64) {
    let level = match what.trim_start_matches("log").trim_start_matches('-') {
        "debug" => 0,
        "sec" => 2,
        "warn" => 3,
        "error" => 4,
        _ => 1,
    };
    let version = state.log_version;
    let newcomer = start == 0 && first;
    if !newcomer && start > version {
        return (Vec::new(), start);
    }
    let (within, most) = if newcomer {
        (usize::MAX, 1)
    } else {
        let fresh = (version + 1 - start.max(1)).min(LOG_LINES as u64) as usize;
        (fresh, fresh)
    };
    let wanted = |e: &&Arc<LogEntry>| e.level >= level && (!newcomer || e.channel == "cluster");
    let lines: Vec<LogEntry> = state.log.iter().rev().take(within).filter(wanted).take(most).map(|e| (**e).clone()).collect();
    let next = version + 1;
    if lines.is_empty() {
        return (Vec::new(), next);
    }
    (vec![LogMsg { version, fsid: state.fsid, entries: lines.into_iter().rev().collect() }.encode()], next)
}
