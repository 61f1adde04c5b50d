//! Commands: from the message to the answer.

use super::Monitor;
use super::rights::{self, Rights};
use super::sessions::{Outgoing, Side};
use grammar::{Asker, Outcome, Refusal, Reply};
use images::JobId;
use manager::desk::{Ended, May, Order};
use messages::mon::{Command, CommandReply, MgrCommand, MgrCommandReply, MonCommandAck, MonGetVersion, log_level};
use moncommands::{self as commands, Cx, Parsed};
use monstate::state::{Change, State};
use node::{CallId, Level, Now, Outputs};
use quorum::ReadId;
use std::collections::BTreeMap;
use types::{EntityAddr, EntityName, Errno, Fsid, Message, Rope, SessionId};

/// Bytes of an input file. What a command makes of it is an entry of the log, which must fit a message between monitors.
const INPUT: usize = 8 << 20;
/// Bytes of a command's text. What is longer comes as an input file.
const COMMAND: usize = 256 << 10;
/// Parts in which a command's text may come. Clients send one; each takes memory, though it be empty.
const PARTS: usize = 1_024;
/// Orders that the manager works on for somebody who waits.
const ORDERS: usize = 1_000;
/// Reads that wait for the log.
const READS: usize = 10_000;
/// Bytes of those.
const READ_BYTES: usize = 64 << 20;

/// To whom an answer goes.
#[derive(Clone, Debug)]
pub(super) enum To {
    /// A session: side, session, kind of the question, tid, the command echoed.
    Session(Side, SessionId, u16, u64, Vec<String>),
    /// The own process.
    Call(CallId),
}

/// A command in its parts, from where it comes in to its answer.
pub(super) struct Given {
    to: To,
    parsed: Parsed,
    input: Rope,
    asker: Asker,
}

/// A command as a session's message has it.
pub(super) struct Asked<'a> {
    pub(super) side: Side,
    pub(super) session: SessionId,
    /// Kind of the message, and its transaction id.
    pub(super) message: (u16, u64),
    pub(super) fsid: Fsid,
    pub(super) cmd: &'a [String],
    pub(super) input: &'a Rope,
}

/// A question that waits until the log says that nothing newer was decided elsewhere.
pub(super) enum Read {
    /// A command that reads.
    Command(Given),
    /// Version of something. Clients that fence others wait for a map by this answer, so it must not be an old one.
    Version { session: SessionId, tid: u64, ask: MonGetVersion },
    /// Result of a command that changes nothing, which was found in the newest state. That may not be durable yet.
    Found(Vec<Outgoing>),
}

impl Read {
    /// Bytes that it keeps.
    fn bytes(&self) -> usize {
        match self {
            // What was taken apart takes more room than its text.
            Self::Command(Given { to: To::Session(.., cmd), input, .. }) => {
                input.len() + 4 * cmd.iter().map(String::len).sum::<usize>()
            }
            Self::Command(given) => given.input.len(),
            Self::Version { .. } | Self::Found(_) => 0,
        }
    }

    /// Returns who gave a command.
    pub(super) fn to(self) -> Option<To> {
        match self {
            Self::Command(given) => Some(given.to),
            Self::Version { .. } | Self::Found(_) => None,
        }
    }
}

/// Questions that wait, by number.
#[derive(Default)]
pub(super) struct Reads {
    all: BTreeMap<u64, Read>,
    /// Bytes that they keep.
    bytes: usize,
}

impl Reads {
    /// Returns true if one more may wait beside less than `most`.
    fn has_room(&self, most: usize) -> bool {
        self.all.len() < most && self.bytes < READ_BYTES
    }

    fn insert(&mut self, id: u64, read: Read) {
        self.bytes += read.bytes();
        self.all.insert(id, read);
    }

    fn remove(&mut self, id: u64) -> Option<Read> {
        let read = self.all.remove(&id)?;
        self.bytes -= read.bytes();
        Some(read)
    }

    /// All of them.
    pub(super) fn into_values(self) -> impl Iterator<Item = Read> {
        self.all.into_values()
    }
}

impl Monitor {
    /// Takes a command of a session.
    pub(super) fn command(&mut self, now: Now, asked: &Asked<'_>, out: &mut Outputs) {
        let Asked { side, session, message: (kind, tid), fsid, cmd, input } = *asked;
        let Some(entry) = self.sessions.0.get(&(side, session)) else { return };
        let rights = entry.rights.clone();
        let asker = Asker { name: entry.peer.name.clone(), addr: entry.peer.addr, governs_osds: rights.may_lift_fences() };
        let length: usize = cmd.iter().map(String::len).sum();
        if length > COMMAND || cmd.len() > PARTS {
            let refusal = Refusal::new(Errno::E2BIG, format!("a command of {length} bytes in {} parts is too long", cmd.len()));
            return self.answer(To::Session(side, session, kind, tid, Vec::new()), Err(refusal), out);
        }
        let to = To::Session(side, session, kind, tid, cmd.to_vec());
        // A command to a daemon itself carries no cluster id when the client has none yet.
        if fsid != self.replica.applied.fsid && fsid != Fsid::default() {
            let refusal =
                Refusal::new(Errno::EPERM, format!("this is cluster {}, the command is for {fsid}", self.replica.applied.fsid));
            return self.answer(to, Err(refusal), out);
        }
        let told = kind == Command::KIND;
        let table = match side {
            _ if !told => commands::table(),
            Side::Mon => commands::mon_table(),
            Side::Mgr => commands::mgr_table(),
        };
        let parsed = commands::parse(table, &cmd.concat());
        let parsed = if kind == MgrCommand::KIND { parsed.map_err(commands::as_manager) } else { parsed };
        match parsed {
            Ok(parsed) => {
                let given = Given { to, parsed, input: input.clone(), asker };
                self.take_command(now, given, (Some(&rights), told), out);
            }
            Err(refusal) => self.answer(to, Err(refusal), out),
        }
    }

    /// A command of the own process.
    pub(super) fn call(&mut self, now: Now, call: CallId, command: &str, out: &mut Outputs) {
        let asker = Asker { name: self.env.name(), addr: EntityAddr::default(), governs_osds: true };
        let parsed = commands::parse(commands::mon_table(), command);
        if parsed.as_ref().is_ok_and(|p| p.command.signature.prefix == "get_command_descriptions") {
            return self.answer(To::Call(call), Ok(Reply::data(commands::socket_descriptions())), out);
        }
        let to = To::Call(call);
        match parsed {
            Ok(parsed) => self.take_command(now, Given { to, parsed, input: Rope::new(), asker }, (None, true), out),
            Err(refusal) => self.answer(to, Err(refusal), out),
        }
    }

    /// Carries a command out, or lets it wait. `told`: it is said to a daemon itself.
    fn take_command(&mut self, now: Now, given: Given, (rights, told): (Option<&Rights>, bool), out: &mut Outputs) {
        let Given { parsed, input, asker, .. } = &given;
        if let Err(refusal) = rights::allowed(parsed, asker, rights, told, !input.contiguous().trim_ascii().is_empty()) {
            self.denied(now, asker, parsed);
            return self.answer(given.to, Err(refusal), out);
        }
        if input.len() > INPUT {
            let refusal = Refusal::new(Errno::EFBIG, format!("an input of {} bytes is too large", input.len()));
            return self.answer(given.to, Err(refusal), out);
        }
        if !self.leader.reigns() {
            return self.without_reign(now, given, out);
        }
        if parsed.writes() {
            self.audit(now, asker, parsed);
        }
        if let commands::Run::Order(order) = parsed.command.row.run {
            // Without keys every name is believed, and none has rights of its own.
            let who = (rights.is_some() && self.env.cephx()).then(|| asker.name.clone());
            let order = order(&parsed.args);
            let Given { to, parsed, asker, .. } = given;
            return self.order(to, order, rights::may_in(&parsed, asker, rights), who, out);
        }
        if parsed.writes() {
            self.write(now, given, out);
        } else if self.leader.reads.has_room(READS) {
            let refused = vec![self.outgoing(given.to.clone(), Ok(Reply::default()))];
            if !self.read_later(Read::Command(given)) {
                self.not_proposed(now, refused, out);
            }
        } else {
            self.answer(given.to, Err(Refusal::new(Errno::EBUSY, "too many commands wait")), out);
        }
    }

    /// Asks which version something has now. Returns false if too many ask, or this monitor leads no more.
    pub(super) fn ask_version(&mut self, session: SessionId, tid: u64, ask: MonGetVersion) -> bool {
        self.leader.reads.has_room(READS) && self.read_later(Read::Version { session, tid, ask })
    }

    fn read_later(&mut self, read: Read) -> bool {
        self.leader.next_read += 1;
        let id = self.leader.next_read;
        if self.replica.log.read_index(ReadId(id)).is_err() {
            return false;
        }
        self.leader.reads.insert(id, read);
        true
    }

    /// A command to a monitor that does not lead, about itself: what it knows is told, nothing is changed.
    fn without_reign(&mut self, now: Now, given: Given, out: &mut Outputs) {
        let parsed = &given.parsed;
        if parsed.writes() || matches!(parsed.command.row.run, commands::Run::Order(_)) {
            let leader =
                self.env.standing.leader.as_deref().map_or("nobody does now".to_owned(), |name| format!("mon.{name} does"));
            let own = &self.env.config.name;
            return self.answer(given.to, Err(Refusal::new(Errno::EAGAIN, format!("mon.{own} does not lead, {leader}"))), out);
        }
        self.standing_changed(now);
        let state = self.replica.applied.clone();
        let mut cx = self.context(&state, now, [0; 16], &given);
        let outcome = parsed.run(&mut cx);
        self.answer(given.to, outcome, out);
    }

    /// Returns what a command looks at.
    fn context<'a>(&'a self, state: &'a State, now: Now, chance: [u8; 16], given: &'a Given) -> Cx<'a> {
        let (format, input) = (given.parsed.format, given.input.contiguous());
        Cx { chance, format, input, ..self.blank_context(state, now, &given.asker) }
    }

    /// Returns what a command without arguments, input and chance looks at.
    fn blank_context<'a>(&'a self, state: &'a State, now: Now, asker: &'a Asker) -> Cx<'a> {
        Cx {
            state,
            soft: &self.leader.soft,
            duties: &self.leader.duties,
            env: &self.env,
            now,
            chance: [0; 16],
            format: grammar::Format::JsonPretty,
            input: bytes::Bytes::new(),
            asker,
            changes: Vec::new(),
            osdmap: None,
            log: Vec::new(),
            instruct: Vec::new(),
            entries: Vec::new(),
            asks: Vec::new(),
        }
    }

    /// Hands an order to the manager; its end is the answer.
    fn order(&mut self, to: To, order: Order, may: May, who: Option<EntityName>, out: &mut Outputs) {
        if self.leader.orders.len() >= ORDERS {
            return self.answer(to, Err(Refusal::new(Errno::EBUSY, "too many orders wait for the manager")), out);
        }
        let job = self.leader.manager.order(order, may, who);
        self.leader.orders.insert(job, to);
    }

    /// A job of the manager ended; if somebody ordered it, this is the answer.
    pub(super) fn ended(&mut self, now: Now, job: JobId, ended: Ended, out: &mut Outputs) {
        let (Some(to), Some((outcome, changes))) = (self.leader.orders.remove(&job), ended) else { return };
        if changes.is_empty() {
            return self.answer(to, outcome, out);
        }
        let after = vec![self.outgoing(to, outcome)];
        self.propose(now, changes, None, after, out);
    }

    /// A read whose turn has come.
    pub(super) fn read(&mut self, now: Now, id: ReadId, out: &mut Outputs) {
        match self.leader.reads.remove(id.0) {
            Some(Read::Command(given)) => self.read_command(now, given, out),
            Some(Read::Version { session, tid, ask }) => {
                let reply = super::maps::version(&self.replica.applied, &ask);
                self.reply(session, tid, reply.encode());
            }
            Some(Read::Found(after)) => after.into_iter().for_each(|outgoing| self.send_when_durable(outgoing, out)),
            None => {}
        }
    }

    fn read_command(&mut self, now: Now, given: Given, out: &mut Outputs) {
        let parsed = &given.parsed;
        let state = self.replica.applied.clone();
        self.standing_changed(now);
        let mut cx = self.context(&state, now, [0; 16], &given);
        let outcome = parsed.run(&mut cx);
        debug_assert!(!cx.writes(), "'{}' changes something but is not marked so", parsed.command.signature.prefix);
        let asks = cx.asks;
        self.take_asks(now, asks);
        self.answer(given.to, outcome, out);
    }

    fn write(&mut self, now: Now, given: Given, out: &mut Outputs) {
        let state = self.newest().clone();
        let chance = self.random.key();
        self.standing_changed(now);
        let mut cx = self.context(&state, now, chance, &given);
        let mut outcome = given.parsed.run(&mut cx);
        let (changes, osdmap, log, instruct, asks) = (cx.changes, cx.osdmap, cx.log, cx.instruct, cx.asks);
        let mut entries = cx.entries;
        let Given { to, asker, .. } = given;
        if outcome.is_ok()
            && let Some(refusal) = self.no_room(&changes, osdmap.as_ref())
        {
            outcome = Err(refusal);
        }
        if outcome.is_err() {
            // A command that is refused changes nothing, but what it found out counts.
            self.take_asks(now, asks);
            let after = vec![self.outgoing(to, outcome)];
            return self.tell_found(now, after, out);
        }
        entries.retain(|e| !e.message.is_empty());
        let logs = !log.is_empty() || !entries.is_empty();
        log.into_iter().for_each(|(level, text)| self.line(now, level, text));
        self.keep_lines(entries);
        self.take_asks(now, asks);
        if let Some(inc) = &osdmap {
            self.leader.soft.fences.follow(inc, (!asker.governs_osds).then_some(&asker.name));
        }
        let mut after: Vec<Outgoing> = instruct.into_iter().map(|(osd, v)| Outgoing::Instruct(osd, v.to_string())).collect();
        after.push(self.outgoing(to, outcome));
        if !changes.is_empty() || osdmap.is_some() || logs {
            self.propose(now, changes, osdmap, after, out);
        } else {
            self.tell_found(now, after, out);
        }
    }

    /// Tells what was found in the newest state, when that is durable and nobody else led meanwhile. The answer to a
    /// request that is known goes through the log, which remembers it: the request may come again through another
    /// monitor, later, when it would find something else and change it.
    pub(super) fn tell_found(&mut self, now: Now, after: Vec<Outgoing>, out: &mut Outputs) {
        if self.asking.is_some() {
            return self.propose(now, Vec::new(), None, after, out);
        }
        if !self.leader.reads.has_room(READS) || !self.replica.log.is_leader() {
            return self.not_proposed(now, after, out);
        }
        self.read_later(Read::Found(after));
    }

    fn answer(&mut self, to: To, outcome: Outcome, out: &mut Outputs) {
        let outgoing = self.outgoing(to, outcome);
        self.send_out(outgoing, out);
    }

    fn outgoing(&self, to: To, outcome: Outcome) -> Outgoing {
        let (result, reply) = match outcome {
            Ok(reply) => (0, reply),
            Err(refusal) => (refusal.errno.wire(), Reply { status: refusal.text, data: refusal.data }),
        };
        match to {
            To::Call(call) => {
                let text = if reply.data.is_empty() { reply.status } else { String::from_utf8_lossy(&reply.data).into_owned() };
                Outgoing::Answer(call, result, text)
            }
            To::Session(side, session, kind, tid, cmd) => {
                let (status, output) = (reply.status, Rope::from(reply.data));
                let mut message: Message = match kind {
                    Command::KIND => CommandReply { result, status, output }.encode(),
                    MgrCommand::KIND => MgrCommandReply { result, status, output }.encode(),
                    _ => MonCommandAck { version: self.newest().index, result, status, cmd, output }.encode(),
                };
                message.tid = tid;
                Outgoing::Message(side, session, message)
            }
        }
    }

    /// Proposes the lines that wait for no other proposal.
    pub(super) fn flush_lines(&mut self, now: Now, out: &mut Outputs) {
        if !self.leader.lines.is_empty() {
            for line in self.leader.lines.iter().filter(|l| l.channel == "cluster") {
                let level = if line.level >= log_level::WARN { Level::Warn } else { Level::Info };
                out.log(level, "cluster", line.message.clone());
            }
            self.propose(now, Vec::<Change>::new(), None, Vec::new(), out);
        }
    }
}

impl Monitor {
    /// Returns what a ping is answered with.
    pub(super) fn ping_text(&self, now: Now) -> String {
        let asker = Asker { name: self.env.name(), addr: EntityAddr::default(), governs_osds: true };
        let cx = self.blank_context(&self.replica.applied, now, &asker);
        grammar::pretty(&commands::ping(&cx)) + "\n"
    }
}
