//! The session with a monitor: maps, configuration, commands, versions, tickets.

use crate::session::pause;
use crate::{Config, Event, Objecter, OpId};
use maps::MonMap;
use messages::mon::{
    Auth, AuthReply, ConfigMsg, MonCommand, MonCommandAck, MonGetVersion, MonGetVersionReply, MonMapMsg, MonSubscribe, OsdMapMsg,
    PoolOp, PoolOpReply, SubscribeItem,
};
use msgr::{Messenger, Policy};
use node::{Level, Mono, Now, Outputs};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use types::{EntityAddr, EntityType, Epoch, Fsid, Message, Rope, SessionId};

/// Subscription flag: one answer is enough.
const ONCE: u8 = 1;
/// While something is stuck, newer maps are asked for this often.
const ASK_AGAIN: Duration = Duration::from_secs(5);
/// Number of the cephx protocol in AUTH messages.
const CEPHX: u32 = 2;

/// Why a version was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum VersionWanted {
    /// To know whether our OSD map is the newest.
    NewestMap,
}

#[derive(Debug)]
struct Command {
    cmd: Vec<String>,
    input: Rope,
    sent: bool,
}

/// What we know of the monitors, and want of them.
#[derive(Debug)]
pub(crate) struct MonSession {
    monitors: Vec<EntityAddr>,
    next: usize,
    session: Option<SessionId>,
    open: bool,
    failures: u32,
    retry_at: Mono,
    fsid: Option<Fsid>,
    monmap_epoch: Epoch,
    osdmap_epoch: Epoch,
    /// The next request for maps is for a whole one.
    full_map: bool,
    /// A newer map is wanted, and has to be asked for.
    newer_map: bool,
    asked_at: Mono,
    commands: BTreeMap<u64, Command>,
    /// Pool operations under way; the second says whether it was sent.
    pool_ops: BTreeMap<u64, (PoolOp, bool)>,
    /// Handles of version requests under way; the second says whether it was sent.
    versions: BTreeMap<u64, (VersionWanted, bool)>,
    /// Newest OSD map that a monitor named.
    newest: Option<Epoch>,
    follow: bool,
}

impl MonSession {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            monitors: config.monitors.iter().filter_map(|m| m.msgr2().copied()).collect(),
            next: 0,
            session: None,
            open: false,
            failures: 0,
            retry_at: Mono(0),
            fsid: config.fsid,
            monmap_epoch: 0,
            osdmap_epoch: 0,
            full_map: false,
            newer_map: true,
            asked_at: Mono(0),
            commands: BTreeMap::new(),
            pool_ops: BTreeMap::new(),
            versions: BTreeMap::new(),
            newest: None,
            follow: config.follow_maps,
        }
    }

    pub(crate) fn is(&self, session: SessionId) -> bool {
        self.session == Some(session)
    }

    /// Something cannot go on without a newer map.
    pub(crate) fn want_newer_map(&mut self) {
        self.newer_map = true;
    }

    /// What we have cannot be continued.
    pub(crate) fn want_full_map(&mut self) {
        self.full_map = true;
        self.newer_map = true;
        self.asked_at = Mono(0);
    }

    pub(crate) fn have_map(&mut self, epoch: Epoch) {
        self.osdmap_epoch = epoch;
        self.full_map = false;
        self.newer_map = false;
        self.asked_at = Mono(0);
    }

    pub(crate) fn want_version(&mut self, what: VersionWanted) {
        if !self.versions.values().any(|(w, _)| *w == what) {
            let handle = self.versions.last_key_value().map_or(1, |(h, _)| h + 1);
            self.versions.insert(handle, (what, false));
        }
    }

    /// Whether a monitor said that there is nothing newer, or there is no monitor to ask.
    pub(crate) fn knows_no_newer(&self, epoch: Epoch) -> bool {
        self.monitors.is_empty() || self.newest.is_some_and(|newest| newest <= epoch)
    }

    fn subscription(&self) -> BTreeMap<String, SubscribeItem> {
        let mut what = BTreeMap::new();
        what.insert("config".into(), SubscribeItem { start: 0, flags: 0 });
        let monmap = if self.monmap_epoch == 0 { 0 } else { u64::from(self.monmap_epoch) + 1 };
        what.insert("monmap".into(), SubscribeItem { start: monmap, flags: 0 });
        what.insert("osdmap".into(), self.map_item());
        what
    }

    fn map_item(&self) -> SubscribeItem {
        let start = if self.full_map || self.osdmap_epoch == 0 { 0 } else { u64::from(self.osdmap_epoch) + 1 };
        SubscribeItem { start, flags: if self.follow { 0 } else { ONCE } }
    }
}

impl Objecter {
    /// The cluster, once it is known.
    pub fn fsid(&self) -> Option<Fsid> {
        self.monitor.fsid
    }

    /// Whether a session with a monitor stands.
    pub fn connected(&self) -> bool {
        self.monitor.open
    }

    /// Sends a command to a monitor: JSON text, and what `-i` would give. It ends with [`Event::CommandDone`]. A command whose
    /// answer is lost with the connection is sent again, so it may be executed twice.
    pub fn command(&mut self, json: impl Into<String>, input: Rope) -> OpId {
        let tid = self.next_tid;
        self.next_tid += 1;
        self.monitor.commands.insert(tid, Command { cmd: vec![json.into()], input, sent: false });
        self.wake = Mono(0);
        OpId(tid)
    }

    /// Sends a pool operation (snapshots, creation, deletion) to a monitor; cluster and map version are filled in here. It ends with
    /// [`Event::PoolOpDone`]. One whose answer is lost with the connection is sent again, so it may be executed twice: a
    /// self-managed snapshot that nobody heard of costs a number.
    pub fn pool_op(&mut self, op: PoolOp) -> OpId {
        let tid = self.next_tid;
        self.next_tid += 1;
        self.monitor.pool_ops.insert(tid, (op, false));
        self.wake = Mono(0);
        OpId(tid)
    }

    /// Asks for a newer OSD map than ours, as after a command that made one.
    pub fn want_newer_map(&mut self) {
        self.monitor.want_newer_map();
        self.wake = Mono(0);
    }

    pub(crate) fn monitor_event(&mut self, now: Now, event: msgr::Event, messenger: &mut Messenger, out: &mut Outputs) {
        self.wake = Mono(0);
        match event {
            msgr::Event::Opened { session, .. } => self.monitor_opened(now, session, messenger),
            msgr::Event::Message { message, .. } => {
                if let Err(error) = self.monitor_message(now, &message, messenger, out) {
                    out.log(Level::Warn, "monc", format!("a monitor's message of kind {}: {error}", message.kind));
                }
            }
            msgr::Event::Reset { .. } => {}
            msgr::Event::Closed { why, .. } => {
                out.log(Level::Debug, "monc", format!("session with the monitor ended: {why}"));
                self.monitor_closed(now);
            }
        }
    }

    fn monitor_opened(&mut self, now: Now, session: SessionId, messenger: &mut Messenger) {
        let mon = &mut self.monitor;
        mon.open = true;
        mon.failures = 0;
        mon.asked_at = now.mono;
        let what = mon.subscription();
        messenger.send(session, MonSubscribe { what, hostname: self.config.hostname.clone() }.encode());
    }

    fn monitor_closed(&mut self, now: Now) {
        let mon = &mut self.monitor;
        mon.session = None;
        mon.open = false;
        mon.failures += 1;
        mon.next += 1;
        mon.retry_at = now.mono.plus(pause(self.config.retry_after, mon.failures));
        mon.commands.values_mut().for_each(|c| c.sent = false);
        mon.pool_ops.values_mut().for_each(|(_, sent)| *sent = false);
        mon.versions.values_mut().for_each(|(_, sent)| *sent = false);
    }

    fn monitor_message(&mut self, now: Now, message: &Message, messenger: &mut Messenger, out: &mut Outputs) -> denc::Result<()> {
        match message.kind {
            MonMapMsg::KIND => {
                let map: MonMap = denc::Decode::from_bytes(&MonMapMsg::decode(message)?.monmap)?;
                self.take_monmap(&map);
            }
            ConfigMsg::KIND => self.events.push_back(Event::Config(ConfigMsg::decode(message)?.config)),
            OsdMapMsg::KIND => self.maps(&OsdMapMsg::decode(message)?, out),
            MonCommandAck::KIND => {
                let ack = MonCommandAck::decode(message)?;
                if self.monitor.commands.remove(&message.tid).is_some() {
                    let id = OpId(message.tid);
                    let (result, status, output) = (ack.result, ack.status, ack.output);
                    self.events.push_back(Event::CommandDone { id, result, status, output });
                }
            }
            PoolOpReply::KIND => {
                let reply = PoolOpReply::decode(message)?;
                if self.monitor.pool_ops.remove(&message.tid).is_some() {
                    let id = OpId(message.tid);
                    self.events.push_back(Event::PoolOpDone { id, result: reply.result, data: reply.data });
                }
            }
            MonGetVersionReply::KIND => {
                let reply = MonGetVersionReply::decode(message)?;
                self.take_version(&reply);
            }
            AuthReply::KIND => {
                let reply = AuthReply::decode(message)?;
                if let Err(error) = messenger.auth_mut().client.renew_reply(now.mono, reply.result, &reply.payload) {
                    out.log(Level::Warn, "monc", format!("tickets were not renewed: {error}"));
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn take_monmap(&mut self, map: &MonMap) {
        let mon = &mut self.monitor;
        mon.fsid = mon.fsid.or(Some(map.fsid));
        self.config.fsid = mon.fsid;
        mon.monmap_epoch = map.epoch;
        let known: BTreeSet<EntityAddr> = map.mon_info.values().filter_map(|m| m.public_addrs.msgr2().copied()).collect();
        if !known.is_empty() {
            mon.monitors = known.into_iter().collect();
        }
    }

    fn take_version(&mut self, reply: &MonGetVersionReply) {
        if self.monitor.versions.remove(&reply.handle).is_none() {
            return;
        }
        let newest = Epoch::try_from(reply.version).unwrap_or(Epoch::MAX);
        self.monitor.newest = Some(newest);
        if self.monitor.osdmap_epoch < newest {
            self.monitor.want_newer_map();
        }
        // Operations that wait for this verdict look again.
        self.unsend(|_| false);
    }

    /// Ends a round towards the monitor.
    pub(crate) fn turn_monitor(&mut self, now: Now, messenger: &mut Messenger, out: &mut Outputs) {
        if self.monitor.monitors.is_empty() {
            return;
        }
        let mon = &mut self.monitor;
        if mon.session.is_none() {
            if now.mono < mon.retry_at {
                self.wake = self.wake.min(mon.retry_at);
                return;
            }
            let addr = mon.monitors[mon.next % mon.monitors.len()];
            mon.session = Some(messenger.connect(now, addr, EntityType::Mon, Policy::Lossy, out));
        }
        if let (Some(session), true) = (mon.session, mon.open) {
            self.ask_monitor(now, session, messenger);
        }
    }

    fn ask_monitor(&mut self, now: Now, session: SessionId, messenger: &mut Messenger) {
        let (mon, fsid) = (&mut self.monitor, self.config.fsid.unwrap_or_default());
        // The monitor map, which comes first, names the cluster.
        if self.config.fsid.is_some() {
            for (tid, command) in mon.commands.iter_mut().filter(|(_, c)| !c.sent) {
                command.sent = true;
                let message = MonCommand { fsid, cmd: command.cmd.clone(), input: command.input.clone() }.encode();
                messenger.send(session, Message { tid: *tid, ..message });
            }
            let version = u64::from(mon.osdmap_epoch);
            for (tid, (op, sent)) in mon.pool_ops.iter_mut().filter(|(_, (_, sent))| !sent) {
                *sent = true;
                let message = PoolOp { version, fsid, ..op.clone() }.encode();
                messenger.send(session, Message { tid: *tid, ..message });
            }
        }
        for (handle, (_, sent)) in mon.versions.iter_mut().filter(|(_, (_, sent))| !sent) {
            *sent = true;
            messenger.send(session, MonGetVersion { handle: *handle, what: "osdmap".into() }.encode());
        }
        if mon.newer_map && (mon.asked_at == Mono(0) || now.mono >= mon.asked_at.plus(ASK_AGAIN)) {
            mon.asked_at = now.mono;
            let what = BTreeMap::from([("osdmap".to_string(), mon.map_item())]);
            messenger.send(session, MonSubscribe { what, hostname: self.config.hostname.clone() }.encode());
        }
        if mon.newer_map {
            self.wake = self.wake.min(mon.asked_at.plus(ASK_AGAIN));
        }
        if let Some(payload) = messenger.renew_tickets(now) {
            let monmap_epoch = mon.monmap_epoch;
            messenger.send(session, Auth { version: 0, protocol: CEPHX, payload, monmap_epoch }.encode());
        }
        self.wake = self.wake.min(messenger.auth().client.next_renewal());
    }
}
