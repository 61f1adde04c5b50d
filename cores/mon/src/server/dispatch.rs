//! Messages: what each kind is for.

use super::Monitor;
use super::leader::anybody_answers;
use super::run::Asked;
use super::sessions::Side;
use manager::soft::{ServiceSoft, bytes_of};
use messages::internal::{OsdAlive, OsdBoot, OsdDown, OsdFailures, OsdReport, PgTempWish};
use messages::mon::{
    Auth, AuthReply, Command, GetPoolStats, GetPoolStatsReply, LogEntry, LogMsg, MgrClose, MgrCommand, MgrConfigure, MgrOpen,
    MgrReport, MonCommand, MonGetMap, MonGetVersion, MonMapMsg, MonSubscribe, Ping, PoolOp, Statfs, StatfsReply,
};
use msgr::Event;
use node::{Now, Outputs};
use std::collections::BTreeSet;
use types::{EntityType, Message, SessionId};

/// Seconds between reports of service daemons.
const STATS_PERIOD: u32 = 5;
/// Service daemons that are remembered.
const SERVICES: usize = 1_000;
/// Bytes of what one service says about itself.
const SERVICE: usize = 64 << 10;
/// Bytes of what all services say about themselves.
const ALL_SERVICES: usize = 8 << 20;
/// Bytes of the name of a service, a daemon, a map.
const NAME: usize = 128;

impl Monitor {
    /// Takes what the messengers have. Returns whether there was anything.
    pub(super) fn net_events(&mut self, now: Now, out: &mut Outputs) -> bool {
        let mut progress = false;
        for side in [Side::Mon, Side::Mgr] {
            while let Some(event) = self.messenger(side).poll_event() {
                progress = true;
                let event = match side {
                    Side::Mon => self.event_of_monitors(now, event, out),
                    Side::Mgr => self.event_for_manager(now, event, out),
                };
                let Some(event) = event else { continue };
                match event {
                    Event::Opened { session, .. } if !self.takes_clients(now) => self.turn_away(now, side, session),
                    Event::Opened { session, peer } => self.opened(side, session, peer),
                    Event::Closed { session, .. } => self.closed(now, side, session),
                    Event::Reset { .. } => {}
                    Event::Message { session, message, bytes } => {
                        if let Some((message, bytes)) = self.in_turn(now, side, session, message, bytes, out) {
                            self.message(now, side, session, message, out);
                            self.messenger(side).done(session, bytes);
                        }
                    }
                }
            }
        }
        progress | self.deal_with_late(now, out)
    }

    /// Gives what comes from OSDs that the manager's client talks to to the client; the rest comes back.
    fn event_for_manager(&mut self, now: Now, event: Event, out: &mut Outputs) -> Option<Event> {
        let received = match &event {
            Event::Message { session, bytes, .. } => Some((*session, *bytes)),
            _ => None,
        };
        let left = self.leader.manager.handle(now, event, &mut self.mgr, out);
        if let (None, Some((session, bytes))) = (&left, received) {
            self.mgr.done(session, bytes);
        }
        left
    }

    pub(super) fn message(&mut self, now: Now, side: Side, session: SessionId, message: Message, out: &mut Outputs) {
        let here = anybody_answers(side, message.kind);
        match side {
            // What is not answered must not wait for an answer.
            Side::Mon if !self.may_send(session, message.kind) => {}
            Side::Mon if !here && self.asks_any() => self.ask_leader(now, session, message),
            _ if !here && !self.leader.reigns() => self.turn_away(now, side, session),
            _ => self.deal(now, side, session, message, out),
        }
    }

    /// Returns true if a message of a session at the monitor is looked at. As in Ceph, those who may not read are not
    /// answered.
    fn may_send(&self, session: SessionId, kind: u16) -> bool {
        match kind {
            MonGetVersion::KIND => self.may(session, "mon", true, false),
            Statfs::KIND | GetPoolStats::KIND => self.may(session, "pg", true, false),
            LogMsg::KIND => self.may(session, "log", false, true),
            _ => true,
        }
    }

    /// Returns true if requests may be another monitor's to deal with, now or later.
    pub(super) fn asks_any(&self) -> bool {
        !self.replica.log.is_alone() || !self.replica.applied.quorum.is_empty()
    }

    /// Deals with a message of a session, here or at another monitor.
    pub(super) fn deal(&mut self, now: Now, side: Side, session: SessionId, message: Message, out: &mut Outputs) {
        let (kind, tid) = (message.kind, message.tid);
        let result = match side {
            Side::Mon => self.mon_message(now, session, message, out),
            Side::Mgr => self.mgr_message(now, session, message, out),
        };
        if let Err(why) = result {
            let why = format!("message {kind} (tid {tid}) is not understood: {why}");
            if !self.end_remote(session) {
                self.messenger(side).refuse(now, session, &why, out);
            }
            self.closed(now, side, session);
        }
    }

    fn mon_message(&mut self, now: Now, session: SessionId, m: Message, out: &mut Outputs) -> denc::Result<()> {
        let tid = m.tid;
        match m.kind {
            MonGetMap::KIND => {
                let reply = MonMapMsg { monmap: self.replica.applied.monmap_bytes.clone() };
                self.tell(Side::Mon, session, reply.encode());
            }
            MonSubscribe::KIND => self.subscribe(session, MonSubscribe::decode(&m)?),
            // Also for sessions at other monitors, which look first.
            kind if !self.may_send(session, kind) => {}
            MonGetVersion::KIND => {
                let mut ask = MonGetVersion::decode(&m)?;
                if ask.what.len() > NAME {
                    // No map has such a name; the question waits and takes no room.
                    ask.what = String::new();
                }
                if !self.ask_version(session, tid, ask) {
                    self.turn_away(now, Side::Mon, session);
                }
            }
            MonCommand::KIND => {
                let command = MonCommand::decode(&m)?;
                let (message, fsid) = ((MonCommand::KIND, tid), command.fsid);
                let (cmd, input) = (&command.cmd[..], &command.input);
                self.command(now, &Asked { side: Side::Mon, session, message, fsid, cmd, input }, out);
            }
            Command::KIND => {
                let command = Command::decode(&m)?;
                let (message, fsid) = ((Command::KIND, tid), command.fsid);
                let (cmd, input) = (&command.cmd[..], &command.input);
                self.command(now, &Asked { side: Side::Mon, session, message, fsid, cmd, input }, out);
            }
            Ping::KIND => {
                let text = self.ping_text(now);
                self.reply(session, tid, Ping::answer(&text).encode());
            }
            Statfs::KIND => {
                let reply = self.statfs(&Statfs::decode(&m)?);
                self.reply(session, tid, reply.encode());
            }
            GetPoolStats::KIND => {
                let reply = self.pool_stats(&GetPoolStats::decode(&m)?);
                self.reply(session, tid, reply.encode());
            }
            PoolOp::KIND => self.pool_op(now, session, tid, PoolOp::decode(&m)?, out),
            Auth::KIND => self.renew(now, session, tid, Auth::decode(&m)?),
            LogMsg::KIND => self.take_lines(session, LogMsg::decode(&m)?),
            OsdBoot::KIND => self.osd_boot(now, session, OsdBoot::decode(&m)?, out),
            OsdReport::KIND => self.osd_report(now, session, OsdReport::decode(&m)?),
            OsdFailures::KIND => self.osd_failures(now, session, OsdFailures::decode(&m)?),
            OsdDown::KIND => self.osd_down(now, session, OsdDown::decode(&m)?, out),
            OsdAlive::KIND => self.osd_alive(now, session, OsdAlive::decode(&m)?),
            PgTempWish::KIND => self.pg_temp_wish(now, session, PgTempWish::decode(&m)?),
            // Kinds of other services; a real monitor ignores what it does not know, too.
            _ => {}
        }
        Ok(())
    }

    fn mgr_message(&mut self, now: Now, session: SessionId, m: Message, out: &mut Outputs) -> denc::Result<()> {
        let tid = m.tid;
        match m.kind {
            MgrCommand::KIND => {
                let command = MgrCommand::decode(&m)?;
                let (message, fsid) = ((MgrCommand::KIND, tid), command.fsid);
                let (cmd, input) = (&command.cmd[..], &command.input);
                self.command(now, &Asked { side: Side::Mgr, session, message, fsid, cmd, input }, out);
            }
            Command::KIND => {
                let command = Command::decode(&m)?;
                let (message, fsid) = ((Command::KIND, tid), command.fsid);
                let (cmd, input) = (&command.cmd[..], &command.input);
                self.command(now, &Asked { side: Side::Mgr, session, message, fsid, cmd, input }, out);
            }
            MgrOpen::KIND => self.mgr_open(now, session, MgrOpen::decode(&m)?),
            MgrReport::KIND => {
                let report = MgrReport::decode(&m)?;
                let told: usize = self.leader.soft.services.values().map(ServiceSoft::bytes).sum();
                let service = self.leader.soft.services.values_mut().find(|s| s.session == session);
                if let (Some(service), Some(status)) = (service, report.status) {
                    let (before, after) = (bytes_of(&service.status), bytes_of(&status));
                    if service.bytes() - before + after <= SERVICE && told - before + after <= ALL_SERVICES {
                        service.status = status;
                    }
                }
            }
            MgrClose::KIND => {
                let close = MgrClose::decode(&m)?;
                self.leader.soft.services.retain(|_, s| s.session != session);
                self.reply_on(Side::Mgr, session, tid, close.encode());
            }
            _ => {}
        }
        Ok(())
    }

    /// Answers on the monitor's side.
    pub(super) fn reply(&mut self, session: SessionId, tid: u64, message: Message) {
        self.reply_on(Side::Mon, session, tid, message);
    }

    /// Answers a request.
    pub(super) fn reply_on(&mut self, side: Side, session: SessionId, tid: u64, mut message: Message) {
        message.tid = tid;
        self.tell(side, session, message);
    }

    /// Returns true if a session may read or write a service.
    pub(super) fn may(&self, session: SessionId, service: &str, read: bool, write: bool) -> bool {
        self.sessions.0.get(&(Side::Mon, session)).is_some_and(|s| s.rights.allows(service, read, write))
    }

    fn mgr_open(&mut self, now: Now, session: SessionId, open: MgrOpen) {
        let configure = MgrConfigure {
            stats_period: STATS_PERIOD,
            stats_threshold: 0,
            queries: bytes::Bytes::from_static(MgrConfigure::NO_QUERIES),
        };
        self.reply_on(Side::Mgr, session, 0, configure.encode());
        let Some(entry) = self.sessions.0.get(&(Side::Mgr, session)) else { return };
        let Some(status) = open.service.filter(|_| entry.rights.may_serve(&entry.peer.name)) else { return };
        let service = ServiceSoft {
            entity: entry.peer.name.clone(),
            metadata: status.metadata,
            status: status.status,
            session,
            gid: entry.peer.global_id,
            addr: entry.peer.addr.legacy_str(),
            since: now.wall,
        };
        let services = &mut self.leader.soft.services;
        // A session is one daemon.
        services.retain(|_, other| other.session != session);
        let told: usize = services.values().map(ServiceSoft::bytes).sum();
        let name = (open.service_name, open.daemon_name);
        let shown = grammar::is_printable(&name.0) && grammar::is_printable(&name.1);
        let small = shown && name.0.len() <= NAME && name.1.len() <= NAME && service.bytes() <= SERVICE;
        // Nobody takes the name of another one's daemon.
        let free = services.get(&name).is_none_or(|other| other.entity == service.entity);
        if small && free && services.len() < SERVICES && told + service.bytes() <= ALL_SERVICES {
            services.insert(name, service);
        }
    }

    fn statfs(&self, ask: &Statfs) -> StatfsReply {
        let state = &self.replica.applied;
        let space = self.leader.soft.total_space(state);
        let sum = match ask.pool {
            Some(pool) => self.leader.soft.pool_sum(pool),
            None => self.leader.soft.total(),
        };
        let used = match ask.pool {
            Some(_) => sum.num_bytes.max(0) as u64,
            None => space.total.saturating_sub(space.available),
        };
        StatfsReply {
            fsid: state.fsid,
            version: self.leader.soft.version,
            kb: space.total >> 10,
            kb_used: used >> 10,
            kb_avail: space.available >> 10,
            num_objects: sum.num_objects.max(0) as u64,
        }
    }

    fn pool_stats(&self, ask: &GetPoolStats) -> GetPoolStatsReply {
        let state = &self.replica.applied;
        let asked: BTreeSet<&String> = ask.pools.iter().collect();
        let known = asked.into_iter().filter_map(|name| Some((name.clone(), state.pool_id(name)?)));
        let pools = known.map(|(name, id)| (name, self.leader.soft.pool_stat(state, id))).collect();
        GetPoolStatsReply { version: self.leader.soft.version, fsid: state.fsid, pools, per_pool: true }
    }

    fn renew(&mut self, now: Now, session: SessionId, tid: u64, ask: Auth) {
        let Some(peer) = self.sessions.0.get(&(Side::Mon, session)).map(|s| s.peer.clone()) else { return };
        let answer = self.mon.renew(now, session, &ask.payload);
        let (result, payload) = answer;
        let reply = AuthReply { protocol: ask.protocol, result, global_id: peer.global_id, payload, text: String::new() };
        self.reply(session, tid, reply.encode());
    }

    fn take_lines(&mut self, session: SessionId, log: LogMsg) {
        let Some(peer) = self.sessions.0.get(&(Side::Mon, session)).map(|s| s.peer.clone()) else { return };
        if self.may(session, "log", false, true) {
            // Under its own name, and not where only monitors and managers write what others did.
            let audits = matches!(peer.name.kind, EntityType::Mon | EntityType::Mgr);
            let own = |mut entry: LogEntry| {
                entry.name = peer.name.clone();
                if entry.channel == "audit" && !audits {
                    entry.channel = "cluster".into();
                }
                entry
            };
            self.keep_lines(log.entries.into_iter().take(1_000).map(own));
        }
    }
}
