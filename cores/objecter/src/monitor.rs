//! What an objecter asks of the monitors over its link: maps, configuration, commands, versions.

use crate::state::Command;
use crate::{Event, Objecter, OpId};
use maps::MonMap;
use messages::mon::{ConfigMsg, MonCommand, MonCommandAck, MonGetVersion, MonGetVersionReply, OsdMapMsg, PoolOp, PoolOpReply};
use msgr::Messenger;
use node::{Level, Mono, Now, Outputs};
use types::{Epoch, Fsid, Message, Rope, SessionId};

impl Objecter {
    /// The cluster, once it is known.
    pub fn fsid(&self) -> Option<Fsid> {
        self.monitor.fsid
    }

    /// Returns true if a session with a monitor stands.
    pub fn connected(&self) -> bool {
        self.monitor.link.session().is_some()
    }

    /// Sends a command to a monitor: JSON text, and what `-i` would give. It ends with [`Event::CommandDone`]. A
    /// command whose answer is lost with the connection is sent again, so it may be executed twice.
    pub fn command(&mut self, json: impl Into<String>, input: Rope) -> OpId {
        let tid = self.next_tid;
        self.next_tid += 1;
        self.monitor.commands.insert(tid, Command { cmd: vec![json.into()], input, sent: false });
        self.wake = Mono(0);
        OpId(tid)
    }

    /// Sends a pool operation (snapshots, creation, deletion) to a monitor; cluster and map version are filled in here.
    /// It ends with [`Event::PoolOpDone`]. One whose answer is lost with the connection is sent again, so it may be
    /// executed twice: a self-managed snapshot that nobody heard of costs a number.
    pub fn pool_op(&mut self, op: PoolOp) -> OpId {
        let tid = self.next_tid;
        self.next_tid += 1;
        self.monitor.pool_ops.insert(tid, (op, false));
        self.wake = Mono(0);
        OpId(tid)
    }

    /// Asks for a newer OSD map than ours, as after a command that made one.
    pub fn want_newer_map(&mut self) {
        self.monitor.link.want_newer_map();
        self.wake = Mono(0);
    }

    pub(crate) fn monitor_event(&mut self, now: Now, event: msgr::Event, messenger: &mut Messenger, out: &mut Outputs) {
        self.wake = Mono(0);
        match event {
            msgr::Event::Opened { session, .. } => self.monitor.link.opened(now, session, messenger),
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

    fn monitor_closed(&mut self, now: Now) {
        let mon = &mut self.monitor;
        mon.link.closed(now);
        mon.commands.values_mut().for_each(|c| c.sent = false);
        mon.pool_ops.values_mut().for_each(|(_, sent)| *sent = false);
        mon.versions.values_mut().for_each(|(_, sent)| *sent = false);
    }

    fn monitor_message(&mut self, now: Now, message: &Message, messenger: &mut Messenger, out: &mut Outputs) -> denc::Result<()> {
        if let Some(map) = self.monitor.link.message(now, message, messenger, out)? {
            self.take_monmap(&map);
        }
        match message.kind {
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
            _ => {}
        }
        Ok(())
    }

    fn take_monmap(&mut self, map: &MonMap) {
        let mon = &mut self.monitor;
        mon.fsid = mon.fsid.or(Some(map.fsid));
        self.config.fsid = mon.fsid;
    }

    fn take_version(&mut self, reply: &MonGetVersionReply) {
        if self.monitor.versions.remove(&reply.handle).is_none() {
            return;
        }
        let newest = Epoch::try_from(reply.version).unwrap_or(Epoch::MAX);
        self.monitor.newest = Some(newest);
        if self.monitor.link.osdmap_epoch() < newest {
            self.monitor.link.want_newer_map();
        }
        // Operations that wait for this verdict look again.
        self.unsend(|_| false);
    }

    /// Ends a round towards the monitor.
    pub(crate) fn turn_monitor(&mut self, now: Now, messenger: &mut Messenger, out: &mut Outputs) {
        if self.monitor.link.has_nobody() {
            return;
        }
        if let Some(session) = self.monitor.link.session() {
            self.ask_monitor(session, messenger);
        }
        self.monitor.link.turn(now, messenger, out);
        self.wake = self.wake.min(self.monitor.link.deadline(messenger));
    }

    fn ask_monitor(&mut self, session: SessionId, messenger: &mut Messenger) {
        let (mon, fsid) = (&mut self.monitor, self.config.fsid.unwrap_or_default());
        // The monitor map, which comes first, names the cluster.
        if self.config.fsid.is_some() {
            for (tid, command) in mon.commands.iter_mut().filter(|(_, c)| !c.sent) {
                command.sent = true;
                let message = MonCommand { fsid, cmd: command.cmd.clone(), input: command.input.clone() }.encode();
                messenger.send(session, Message { tid: *tid, ..message });
            }
            let version = u64::from(mon.link.osdmap_epoch());
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
    }
}
