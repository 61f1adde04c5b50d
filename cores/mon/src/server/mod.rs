//! The machine: network and disk in, decisions, network and disk out.
//!
//! - `mod`: the rounds, phases, and the way of a proposal;
//! - [`leader`]: what only a leader has, the beginning and the end of a reign; what every voter has is [`crate::replica`];
//! - [`sessions`]: who is connected, what they subscribed to, what is sent to them;
//! - [`dispatch`]: messages; [`run`]: commands; [`poolop`]: pool operations of librados;
//! - [`osds`]: the lives of OSDs; [`peering`]: what they ask for while they peer; [`failures`]: who is down; [`outs`]: who is
//!   out; [`tick`]: what time brings; [`keys`]: what authentication must know;
//! - [`floor`]: how far back maps are kept; [`manager`]: the manager's client.

mod dispatch;
mod failures;
mod floor;
mod keys;
mod leader;
mod manager;
mod osds;
mod outs;
mod peering;
mod poolop;
mod run;
#[cfg(feature = "sim")]
mod selfcheck;
mod sessions;
mod tick;

use crate::config::Config;
use crate::context::Env;
use crate::replica::{Happened, Replica};
pub(crate) use crate::state::place_of;
use crate::state::{Change, Proposal, State, genesis};
use denc::Encode;
use leader::Leader;
use maps::Incremental;
use messages::mon::log_level;
use msgr::Messenger;
use node::{CallId, ConnId, Input, Level, ListenerId, Mono, Node, Now, Output, Outputs};
use quorum::{Index, News, VoterId};
use sessions::{Outgoing, Sessions, Side};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

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
    /// What every voter has.
    replica: Replica,
    /// What only a leader has; nobody's while this monitor does not lead.
    leader: Leader,
    sessions: Sessions,
    line_seq: u64,
    random: Random,
    next_tick: Mono,
    held_calls: Vec<(CallId, String)>,
    /// Epoch up to which subscribers were told.
    published: Published,
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
        let fsid = config.fsid.0;
        let chance = random.bytes32();
        let number = |from: usize| u64::from_le_bytes(std::array::from_fn(|i| chance[from + i]));
        let voter = VoterId(number(0).max(1));
        let replica = Replica::new(fsid, config.log_bytes, genesis::state(&config, types::UTime::ZERO), voter, number(8));
        let env = Env { config, started: Now::default(), disk_free: 0, disk_size: 0, disk_full: false, snapshot_bytes: 0 };
        Self {
            env,
            phase: Phase::New,
            mon,
            mgr,
            conns: BTreeMap::new(),
            replica,
            leader: Leader::new(0, random.key(), 0),
            sessions: Sessions::default(),
            line_seq: 0,
            random,
            next_tick: Mono::NEVER,
            held_calls: Vec::new(),
            published: Published::default(),
            stop_asked: false,
        }
    }

    /// Whether it serves clients: it is at work, and leads.
    pub fn is_serving(&self) -> bool {
        self.phase == Phase::Serving && self.leader.reigns()
    }

    /// The state that the next proposal builds on.
    fn newest(&self) -> &Arc<State> {
        self.leader.ahead.back().map_or(&self.replica.applied, |(_, s)| s)
    }

    /// Proposes changes. What is in `after` is sent when they are committed.
    fn propose(
        &mut self,
        now: Now,
        mut changes: Vec<Change>,
        osdmap: Option<Incremental>,
        after: Vec<Outgoing>,
        out: &mut Outputs,
    ) {
        let base = self.newest().clone();
        if let Some(mut inc) = osdmap {
            crate::pins::pin(&base.osdmap, &mut inc);
            crate::stepping::inherit(&base.osdmap, &mut inc);
            crate::temps::clean(&base.osdmap, &mut inc);
            match inc.seal(&base.osdmap) {
                Ok(sealed) => {
                    let (exist, up, inside) = sealed.map.osd_counts();
                    let epoch = sealed.map.epoch;
                    self.line(now, log_level::DEBUG, format!("osdmap e{epoch}: {exist} total, {up} up, {inside} in"));
                    changes.insert(0, Change::OsdMap(sealed.incremental));
                    changes.extend(self.map_floor(&base));
                }
                Err(why) => {
                    out.log(Level::Error, "mon", format!("an OSD map increment does not fit its base and is dropped: {why}"))
                }
            }
        }
        if !self.leader.lines.is_empty() {
            changes.push(Change::Log(std::mem::take(&mut self.leader.lines)));
        }
        let proposal = Proposal { stamp: now.wall, changes };
        let Ok(index) = self.replica.log.propose(proposal.to_bytes()) else {
            return self.not_proposed(now, after, out);
        };
        match base.apply(index, &proposal) {
            Ok(next) => self.leader.ahead.push_back((index, Arc::new(next))),
            Err(why) => {
                // Nothing was told to anyone yet, but the entry is in the log: going on would mean states that differ.
                self.fatal(format!("a proposal made here cannot be applied: {why}"), out);
            }
        }
        if !after.is_empty() {
            self.leader.waiting.push_back((index, after));
        }
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
                if self.leader.reigns() {
                    progress |= self.manager_events(now, out);
                    progress |= self.grant_asked(now, out);
                }
                progress |= self.advance(now, out);
            }
            if !progress || self.phase == Phase::Over {
                break;
            }
        }
    }

    fn disk_events(&mut self, now: Now, out: &mut Outputs) -> bool {
        let mut progress = false;
        while let Some(happened) = self.replica.poll(now, out) {
            progress = true;
            match happened {
                Happened::Fresh => self.make(now, out),
                Happened::Opened(text) => {
                    out.log(Level::Info, "mon", text);
                    self.serve(now, out);
                }
                Happened::Mending(text) => {
                    out.log(Level::Info, "mon", text);
                    self.phase = Phase::Making;
                }
                Happened::Ready => {
                    self.env.disk_full = false;
                    self.serve(now, out);
                }
                Happened::Written => self.env.disk_full = false,
                Happened::NoSpace => {
                    if !self.env.disk_full {
                        out.log(Level::Error, "mon", "the monitor's disk is full: changes wait until there is space");
                    }
                    self.env.disk_full = true;
                }
                Happened::Failed(why) => self.fatal(why, out),
            }
        }
        self.env.snapshot_bytes = self.replica.snapshot_bytes;
        progress
    }

    /// Makes a new cluster.
    fn make(&mut self, now: Now, out: &mut Outputs) {
        if genesis::is_nobody(&self.env.config.fsid) {
            return self.fatal("a cluster's id must not be all zeros".into(), out);
        }
        let line = format!("cluster {} is made", self.env.config.fsid);
        out.log(Level::Info, "mon", line);
        self.phase = Phase::Making;
        self.replica.make(now, genesis::state(&self.env.config, now.wall), None, out);
    }

    /// Takes up how large the disk is and what of it is free.
    fn note_sizes(&mut self) {
        let stat = self.replica.journal.space();
        self.env.disk_size = stat.capacity.min(stat.host_free.saturating_add(stat.len));
        self.env.disk_free = stat.host_free.min(stat.capacity.saturating_sub(stat.len));
    }

    /// Begins to serve. What only a leader does begins with its reign: for one voter alone, in this same turn.
    fn serve(&mut self, now: Now, out: &mut Outputs) {
        self.phase = Phase::Serving;
        self.env.started = now;
        self.next_tick = now.mono;
        self.note_sizes();
        out.log(Level::Info, "mon", format!("serving as mon.{} at {}", self.env.config.name, self.env.config.addrs));
    }

    /// Writes, applies, answers.
    fn advance(&mut self, now: Now, out: &mut Outputs) -> bool {
        let next = match self.replica.advance(now, out) {
            Ok(next) => next,
            Err(why) => {
                self.fatal(why, out);
                return false;
            }
        };
        // One voter has nobody to send to; the way to others comes with them.
        assert!(next.send.is_empty());
        let progress = !next.committed.is_empty() || !next.reads.is_empty() || !next.news.is_empty();
        for entry in &next.committed {
            let ahead = self.leader.take_ahead(entry);
            if let Err(why) = self.replica.commit(entry, ahead) {
                self.fatal(why, out);
                return false;
            }
        }
        if let Some(last) = next.committed.last() {
            self.committed(now, last.index, out);
        }
        for id in next.reads {
            self.read(now, id, out);
        }
        for news in next.news {
            match news {
                News::Elected(term) => self.begin_reign(now, term, out),
                News::Deposed => self.end_reign(out),
            }
        }
        if next.wants_state {
            self.replica.offer();
        }
        if next.fold {
            self.replica.fold(out);
        }
        progress
    }

    fn committed(&mut self, now: Now, index: Index, out: &mut Outputs) {
        self.refresh_keys(now, out);
        self.publish(now, out);
        while self.leader.waiting.front().is_some_and(|(at, _)| *at <= index) {
            let Some((_, after)) = self.leader.waiting.pop_front() else { break };
            after.into_iter().for_each(|o| self.send_out(o, out));
        }
    }

    /// Whether nothing is unfinished that could still be finished: on a full disk, what waits was promised to nobody.
    fn is_settled(&self) -> bool {
        let done = !self.replica.log.is_busy() && self.replica.journal.is_idle() && self.leader.waiting.is_empty();
        done || self.replica.journal.waits_for_space()
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

impl Node for Monitor {
    fn handle(&mut self, now: Now, input: Input, out: &mut Outputs) {
        if self.phase == Phase::Over {
            return;
        }
        match input {
            Input::Disk(done) => self.replica.disk_done(done, out),
            Input::Call { call, command } if self.is_serving() => self.call(now, call, &command, out),
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
            self.replica.journal.open(out);
        }
        self.replica.journal.turn(now, out);
        self.work(now, out);
        if self.stop_asked && self.phase == Phase::Serving {
            self.phase = Phase::Stopping;
            if self.leader.reigns() {
                self.flush_lines(now, out);
            }
            self.work(now, out);
        }
        if self.phase == Phase::Serving && now.mono >= self.next_tick {
            self.next_tick = now.mono.plus(TICK);
            self.note_sizes();
            self.replica.journal.ask_sizes(now, out);
            if self.leader.reigns() {
                self.tick(now, out);
            }
            self.work(now, out);
        }
        if self.phase == Phase::Serving {
            self.replica.journal.claim(now, out);
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
        let working = matches!(self.phase, Phase::Serving | Phase::Stopping);
        let log = if working { self.replica.log.deadline() } else { Mono::NEVER };
        [tick, manager, log, self.replica.journal.deadline(), self.mon.deadline(), self.mgr.deadline()]
            .into_iter()
            .min()
            .unwrap_or(Mono::NEVER)
    }
}
