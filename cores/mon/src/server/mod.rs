//! The machine: network and disk in, decisions, network and disk out.
//!
//! - `mod`: the rounds, phases, and the way of a proposal;
//! - [`sessions`]: who is connected, what they subscribed to, what is sent to them;
//! - [`dispatch`]: messages; [`run`]: commands; [`poolop`]: pool operations of librados;
//! - [`osds`]: the lives of OSDs; [`tick`]: what time brings; [`keys`]: what authentication must know;
//! - [`manager`]: the manager's client.

mod dispatch;
mod keys;
mod manager;
mod osds;
mod poolop;
mod run;
#[cfg(feature = "sim")]
mod selfcheck;
mod sessions;
mod tick;

use crate::config::Config;
use crate::context::Env;
use crate::log::journal::{Event as DiskEvent, Journal};
use crate::log::{Entry, Index, Log};
use crate::manager::Manager;
use crate::soft::Soft;
pub(crate) use crate::state::place_of;
use crate::state::{Change, Proposal, State, genesis};
use denc::{Decode, Encode};
use images::JobId;
use maps::Incremental;
use messages::mon::{LogEntry, log_level};
use msgr::Messenger;
use msgr::auth::{EntityKey, Key};
use node::{CallId, ConnId, DeviceId, Input, Level, ListenerId, Mono, Node, Now, Output, Outputs};
use sessions::{Outgoing, Sessions, Side};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use types::EntityType;

/// How often time brings something.
const TICK: Duration = Duration::from_millis(500);

/// The monitor, with the manager's duties beside it.
///
/// Listeners 0 (monitor) and 1 (manager), device 0. Calls (`Input::Call`) are commands as JSON, answered like those of clients with
/// all rights; `{"prefix":"ready"}` is answered as soon as the monitor serves.
pub struct Monitor {
    env: Env,
    phase: Phase,
    mon: Messenger,
    mgr: Messenger,
    conns: BTreeMap<ConnId, Side>,
    journal: Journal,
    log: Log,
    /// Everything durable.
    applied: Arc<State>,
    /// States after proposals that are not durable yet.
    ahead: VecDeque<(Index, Arc<State>)>,
    soft: Soft,
    manager: Manager,
    /// Orders to the manager, and who waits for their answers.
    orders: BTreeMap<JobId, run::To>,
    sessions: Sessions,
    /// What is sent once an entry is durable.
    waiting: VecDeque<(Index, Vec<Outgoing>)>,
    /// Commands that read, until the log lets them.
    reads: BTreeMap<u64, run::Read>,
    next_read: u64,
    /// Lines for the cluster log that go with the next proposal.
    lines: Vec<LogEntry>,
    line_seq: u64,
    random: Random,
    next_tick: Mono,
    held_calls: Vec<(CallId, String)>,
    /// Epoch up to which subscribers were told.
    published: Published,
    snapshotting: bool,
    /// It was asked to stop; before it serves, what was begun comes first.
    stop_asked: bool,
}

/// What subscribers were told last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Published {
    osdmap: u32,
    monmap: u32,
    mgrmap: u32,
    config: u64,
    log: u64,
    auth: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Before the first turn.
    New,
    /// The disk is being read.
    Opening,
    /// A first snapshot is being written.
    Making,
    /// At work.
    Serving,
    /// Asked to stop: waits for what is in flight.
    Stopping,
    /// Over.
    Over,
}

/// Unpredictable bytes from the seed.
#[derive(Debug)]
struct Random {
    seed: [u8; 32],
    counter: u64,
}

impl Random {
    fn bytes32(&mut self) -> [u8; 32] {
        self.counter += 1;
        let mut hash = Sha256::new();
        hash.update(self.seed);
        hash.update(self.counter.to_le_bytes());
        hash.finalize().into()
    }

    fn key(&mut self) -> [u8; 16] {
        let bytes = self.bytes32();
        std::array::from_fn(|i| bytes[i])
    }
}

impl Monitor {
    /// A monitor that has not begun yet; its first [`Node::turn`] opens the disk. `seed` must be secret and new: keys are made from it.
    pub fn new(config: Config, seed: [u8; 32]) -> Self {
        let mut random = Random { seed, counter: 0 };
        let (mon, mgr) = keys::messengers(&config, random.bytes32(), random.bytes32());
        let journal = Journal::new(DeviceId(0), config.fsid.0, config.log_bytes);
        let applied = Arc::new(genesis::state(&config, types::UTime::ZERO));
        let env = Env { config, started: Now::default(), disk_free: 0, disk_size: 0, disk_full: false, snapshot_bytes: 0 };
        Self {
            env,
            phase: Phase::New,
            mon,
            mgr,
            conns: BTreeMap::new(),
            journal,
            log: Log::new(0),
            applied,
            ahead: VecDeque::new(),
            soft: Soft::default(),
            manager: Manager::new(random.key()),
            orders: BTreeMap::new(),
            sessions: Sessions::default(),
            waiting: VecDeque::new(),
            reads: BTreeMap::new(),
            next_read: 0,
            lines: Vec::new(),
            line_seq: 0,
            random,
            next_tick: Mono::NEVER,
            held_calls: Vec::new(),
            published: Published::default(),
            snapshotting: false,
            stop_asked: false,
        }
    }

    /// Whether it serves clients.
    pub fn is_serving(&self) -> bool {
        self.phase == Phase::Serving
    }

    /// The state that the next proposal builds on.
    fn newest(&self) -> &Arc<State> {
        self.ahead.back().map_or(&self.applied, |(_, s)| s)
    }

    /// Proposes changes. What is in `after` is sent when they are durable. Returns the log's index.
    fn propose(
        &mut self,
        now: Now,
        mut changes: Vec<Change>,
        osdmap: Option<Incremental>,
        after: Vec<Outgoing>,
        out: &mut Outputs,
    ) -> Index {
        let base = self.newest().clone();
        if let Some(mut inc) = osdmap {
            crate::pins::pin(&base.osdmap, &mut inc);
            match inc.seal(&base.osdmap) {
                Ok(sealed) => {
                    let (exist, up, inside) = sealed.map.osd_counts();
                    let epoch = sealed.map.epoch;
                    self.line(now, log_level::DEBUG, format!("osdmap e{epoch}: {exist} total, {up} up, {inside} in"));
                    changes.insert(0, Change::OsdMap(sealed.incremental));
                }
                Err(why) => {
                    out.log(Level::Error, "mon", format!("an OSD map increment does not fit its base and is dropped: {why}"))
                }
            }
        }
        if !self.lines.is_empty() {
            changes.push(Change::Log(std::mem::take(&mut self.lines)));
        }
        let proposal = Proposal { stamp: now.wall, changes };
        let index = self.log.propose(proposal.to_bytes());
        match base.apply(index, &proposal) {
            Ok(next) => self.ahead.push_back((index, Arc::new(next))),
            Err(why) => {
                // Nothing was told to anyone yet, but the entry is in the log: going on would mean states that differ.
                self.fatal(format!("a proposal made here cannot be applied: {why}"), out);
            }
        }
        if !after.is_empty() {
            self.waiting.push_back((index, after));
        }
        index
    }

    fn fatal(&mut self, why: String, out: &mut Outputs) {
        self.phase = Phase::Over;
        out.log(Level::Error, "mon", why.clone());
        out.push(Output::Fatal(why));
    }

    /// Does what has become possible, until nothing more has.
    fn work(&mut self, now: Now, out: &mut Outputs) {
        loop {
            let mut progress = self.disk_events(now, out);
            if matches!(self.phase, Phase::Serving | Phase::Stopping) {
                progress |= self.net_events(now, out);
                progress |= self.manager_events(now, out);
                progress |= self.advance(now, out);
            }
            if !progress || self.phase == Phase::Over {
                break;
            }
        }
    }

    fn disk_events(&mut self, now: Now, out: &mut Outputs) -> bool {
        let mut progress = false;
        while let Some(event) = self.journal.poll() {
            progress = true;
            match event {
                DiskEvent::Fresh => self.make(now, out),
                DiskEvent::Opened { snapshot_index, snapshot, entries, torn } => {
                    self.open(now, snapshot_index, &snapshot, &entries, torn, out);
                }
                DiskEvent::Persisted(index) => {
                    self.env.disk_full = false;
                    self.log.persisted(index);
                }
                DiskEvent::Snapshotted => {
                    self.env.disk_full = false;
                    self.snapshotted(now, out);
                }
                DiskEvent::NoSpace => {
                    if !self.env.disk_full {
                        out.log(Level::Error, "mon", "the monitor's disk is full: changes wait until there is space");
                    }
                    self.env.disk_full = true;
                }
                DiskEvent::Failed(why) => self.fatal(why, out),
            }
        }
        progress
    }

    /// Makes a new cluster.
    fn make(&mut self, now: Now, out: &mut Outputs) {
        if genesis::is_nobody(&self.env.config.fsid) {
            return self.fatal("a cluster's id must not be all zeros".into(), out);
        }
        self.applied = Arc::new(genesis::state(&self.env.config, now.wall));
        let line = format!("cluster {} is made", self.env.config.fsid);
        out.log(Level::Info, "mon", line);
        self.phase = Phase::Making;
        self.snapshot(out);
    }

    /// Takes up the state from the disk.
    fn open(&mut self, now: Now, index: Index, snapshot: &[u8], entries: &[Entry], torn: bool, out: &mut Outputs) {
        match recover(index, snapshot, entries) {
            Ok(state) => self.applied = Arc::new(state),
            Err(why) => return self.fatal(why, out),
        }
        let line = format!("state read: {} entries after the snapshot of entry {index}", entries.len());
        out.log(Level::Info, "mon", line);
        self.log = Log::new(self.applied.index);
        if torn {
            out.log(Level::Info, "mon", "the last write before the stop was cut short; it had not been acknowledged");
            self.phase = Phase::Making;
            return self.snapshot(out);
        }
        self.serve(now, out);
    }

    fn snapshot(&mut self, out: &mut Outputs) {
        let bytes = self.applied.to_snapshot();
        self.env.snapshot_bytes = bytes.len() as u64;
        self.snapshotting = true;
        self.journal.snapshot(self.applied.index, &bytes, out);
    }

    fn snapshotted(&mut self, now: Now, out: &mut Outputs) {
        self.snapshotting = false;
        if self.phase == Phase::Making {
            self.log = Log::new(self.applied.index);
            self.serve(now, out);
        }
    }

    /// Takes up how large the disk is and what of it is free.
    fn note_sizes(&mut self) {
        let stat = self.journal.space();
        self.env.disk_size = stat.capacity.min(stat.host_free.saturating_add(stat.len));
        self.env.disk_free = stat.host_free.min(stat.capacity.saturating_sub(stat.len));
    }

    /// Begins to serve.
    fn serve(&mut self, now: Now, out: &mut Outputs) {
        self.phase = Phase::Serving;
        self.env.started = now;
        self.next_tick = now.mono;
        for osd in 0..self.applied.osdmap.max_osd {
            if self.applied.osdmap.is_up(osd) {
                self.soft.osds.entry(osd).or_default().last_seen = now.mono;
            }
        }
        self.note_sizes();
        self.take_up_config(now, out);
        self.refresh_keys(now, out);
        self.map_for_manager();
        self.begin_manager();
        out.log(Level::Info, "mon", format!("serving as mon.{} at {}", self.env.config.name, self.env.config.addrs));
        for (call, command) in std::mem::take(&mut self.held_calls) {
            self.call(now, call, &command, out);
        }
    }

    /// What is configured now and differs from what is stored: addresses, and entities that are missing.
    fn take_up_config(&mut self, now: Now, out: &mut Outputs) {
        let (state, config) = (self.applied.clone(), self.env.config.clone());
        let mut changes = Vec::new();
        let moved = state.monmap.mon_info.get(&config.name).is_none_or(|m| m.public_addrs != config.addrs);
        if moved {
            let map = genesis::monmap(&config, state.monmap.epoch + 1, state.monmap.created, now.wall);
            changes.push(Change::MonMap(map.to_bytes()));
        }
        if state.mgrmap.active_addrs != config.mgr_addrs || state.mgrmap.active_name != config.mgr_name {
            changes.push(Change::MgrMap(genesis::mgrmap(&config, state.mgrmap.epoch + 1, now.wall).to_bytes()));
        }
        for key in &config.keys {
            let admin = key.name.kind == EntityType::Client && key.name.id == "admin";
            let daemon = matches!(key.name.kind, EntityType::Mon | EntityType::Mgr | EntityType::Osd);
            if (admin || daemon) && state.auth.get(&key.name).is_none() {
                let entity = EntityKey { key: Key::new(now.wall, key.key), caps: key.caps.clone() };
                changes.push(Change::Auth { name: key.name.clone(), entity: Some(entity) });
            }
        }
        changes.extend(self.key_changes(now));
        if !changes.is_empty() {
            self.propose(now, changes, None, Vec::new(), out);
        }
    }

    /// Writes, applies, answers.
    fn advance(&mut self, now: Now, out: &mut Outputs) -> bool {
        let idle = self.journal.is_idle() && !self.snapshotting;
        let fold = idle && self.journal.wants_snapshot(self.log.next_group_bytes());
        let ready = self.log.ready(idle && !fold);
        if !ready.append.is_empty() {
            self.journal.append(ready.append, out);
        }
        // One voter has nobody to send to and nobody to fall behind.
        assert!(ready.send.is_empty() && ready.snapshot.is_none());
        if !ready.lost.is_empty() {
            self.forget_lost(out);
        }
        let progress = !ready.committed.is_empty() || !ready.reads.is_empty();
        for entry in &ready.committed {
            match self.ahead.pop_front() {
                Some((index, state)) if index == entry.index => self.applied = state,
                _ => {
                    self.fatal(format!("entry {} was committed out of order", entry.index), out);
                    return false;
                }
            }
        }
        if let Some(last) = ready.committed.last() {
            self.committed(now, last.index, out);
        }
        for id in ready.reads {
            self.read(now, id, out);
        }
        if fold {
            // All that was written is applied by now: the snapshot takes the place of the whole log.
            self.snapshot(out);
        }
        progress
    }

    /// Another leader came: what was proposed here will not happen. Clients ask again when their sessions break.
    fn forget_lost(&mut self, out: &mut Outputs) {
        out.log(Level::Warn, "mon", "proposals were lost with the leadership; their askers are sent away to ask again");
        self.ahead.clear();
        self.waiting.clear();
        for (side, session) in std::mem::take(&mut self.sessions.0).into_keys() {
            self.messenger(side).close(session);
        }
    }

    fn committed(&mut self, now: Now, index: Index, out: &mut Outputs) {
        self.refresh_keys(now, out);
        self.publish(now, out);
        while self.waiting.front().is_some_and(|(at, _)| *at <= index) {
            let Some((_, after)) = self.waiting.pop_front() else { break };
            after.into_iter().for_each(|o| self.send_out(o, out));
        }
    }

    /// Whether nothing is unfinished that could still be finished: on a full disk, what waits was promised to nobody.
    fn is_settled(&self) -> bool {
        let done = !self.log.is_busy() && self.journal.is_idle() && self.waiting.is_empty();
        done || self.journal.waits_for_space()
    }

    fn end(&mut self, out: &mut Outputs) {
        self.phase = Phase::Over;
        out.push(Output::Stopped);
    }

    fn network(&mut self, now: Now, input: Input, out: &mut Outputs) {
        let (conn, accepted, closed) = match &input {
            Input::Accepted { listener, conn, .. } => (*conn, Some(*listener), false),
            Input::Connected { conn, .. } | Input::Received { conn, .. } | Input::Sent { conn, .. } => (*conn, None, false),
            Input::Closed { conn, .. } => (*conn, None, true),
            _ => return,
        };
        if let Some(listener) = accepted {
            if self.phase != Phase::Serving {
                return out.push(Output::Close { conn });
            }
            self.conns.insert(conn, if listener == ListenerId(1) { Side::Mgr } else { Side::Mon });
        }
        // Completions of a connection that this side closed still come; their buffers go.
        let Some(side) = self.conns.get(&conn).copied() else { return };
        if closed {
            self.conns.remove(&conn);
        }
        let from = out.0.len();
        self.messenger(side).handle(now, input, out);
        self.follow_conns(from, out);
    }

    /// Knows the connections that the outputs from `from` on open, and forgets those that they close. Only the manager's
    /// messenger opens any.
    fn follow_conns(&mut self, from: usize, out: &Outputs) {
        for output in &out.0[from..] {
            match output {
                Output::Connect { conn, .. } => drop(self.conns.insert(*conn, Side::Mgr)),
                Output::Close { conn } => drop(self.conns.remove(conn)),
                _ => {}
            }
        }
    }

    fn messenger(&mut self, side: Side) -> &mut Messenger {
        match side {
            Side::Mon => &mut self.mon,
            Side::Mgr => &mut self.mgr,
        }
    }
}

/// The state out of a snapshot and the entries after it.
pub(crate) fn recover(index: Index, snapshot: &[u8], entries: &[Entry]) -> Result<State, String> {
    let mut state = State::from_snapshot(snapshot).map_err(|e| format!("the monitor's snapshot cannot be read: {e}"))?;
    if state.index != index {
        return Err(format!("the monitor's snapshot is of entry {}, its superblock says {index}", state.index));
    }
    for entry in entries {
        let proposal =
            Proposal::from_bytes(&entry.data).map_err(|e| format!("entry {} of the monitor's log: {e}", entry.index))?;
        state = state.apply(entry.index, &proposal)?;
    }
    Ok(state)
}

impl Node for Monitor {
    fn handle(&mut self, now: Now, input: Input, out: &mut Outputs) {
        if self.phase == Phase::Over {
            return;
        }
        match input {
            Input::Disk(done) => self.journal.disk_done(done, out),
            Input::Call { call, command } if self.phase == Phase::Serving => self.call(now, call, &command, out),
            Input::Call { call, command } => self.held_calls.push((call, command)),
            Input::Stop => self.stop_asked = true,
            net => self.network(now, net, out),
        }
    }

    fn turn(&mut self, now: Now, out: &mut Outputs) {
        if self.phase == Phase::Over {
            return;
        }
        if self.phase == Phase::New {
            if self.stop_asked {
                return self.end(out);
            }
            self.phase = Phase::Opening;
            self.journal.open(out);
        }
        self.journal.turn(now, out);
        self.work(now, out);
        if self.stop_asked && self.phase == Phase::Serving {
            self.phase = Phase::Stopping;
            self.flush_lines(now, out);
            self.work(now, out);
        }
        if self.phase == Phase::Serving && now.mono >= self.next_tick {
            self.next_tick = now.mono.plus(TICK);
            self.note_sizes();
            self.journal.ask_sizes(now, out);
            self.tick(now, out);
            self.work(now, out);
        }
        if self.phase == Phase::Serving {
            self.journal.claim(now, out);
        }
        let from = out.0.len();
        if self.phase == Phase::Serving {
            self.turn_manager(now, out);
        }
        self.mon.turn(now, out);
        self.mgr.turn(now, out);
        self.follow_conns(from, out);
        if self.phase == Phase::Stopping && self.is_settled() {
            self.end(out);
        }
    }

    fn deadline(&self) -> Mono {
        if matches!(self.phase, Phase::Over | Phase::New) {
            return if self.phase == Phase::New { Mono(0) } else { Mono::NEVER };
        }
        let tick = if self.phase == Phase::Serving { self.next_tick } else { Mono::NEVER };
        let manager = if self.phase == Phase::Serving { self.manager_deadline() } else { Mono::NEVER };
        [tick, manager, self.journal.deadline(), self.mon.deadline(), self.mgr.deadline()]
            .into_iter()
            .min()
            .unwrap_or(Mono::NEVER)
    }
}
