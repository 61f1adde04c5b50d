//! The machine: network and disk in, decisions, network and disk out.
//!
//! - `mod`: the rounds and phases; [`proposals`]: the way of a proposal; [`net`]: connections;
//! - [`leader`]: what only a leader has, the beginning and the end of a reign; what every voter has is
//!   [`monlog::replica`];
//! - [`sessions`]: who is connected, what they subscribed to, what is sent to them; [`maps`]: what they may
//!   subscribe to, a row for each kind;
//! - [`dispatch`]: messages; [`run`]: commands; [`rights`]: who may give which; [`lines`]: the cluster log; [`poolop`]:
//!   pool operations of librados;
//! - [`osds`]: the lives of OSDs; [`peering`]: what they ask for while they peer; [`failures`]: who is down; [`outs`]:
//!   who is out; [`tick`]: what time brings; [`upgrade`]: what a new release changes; [`defaults`]: what new hardware
//!   changes; [`keys`]: what authentication must know; [`revoke`]: the end of rights;
//! - [`floor`]: how far back maps are kept; [`room`]: how large the state may be; [`manager`]: the manager's client;
//! - [`peers`]: sessions with other monitors; [`members`]: who they are; [`voters`]: which of them vote; [`seats`]:
//!   which host runs which; [`standing`]: who leads, who takes part;
//! - [`forward`]: requests that only a leader can deal with; [`remote`]: the leader's side of those.

mod addresses;
mod defaults;
mod dispatch;
mod failures;
mod floor;
mod forward;
mod keys;
mod leader;
mod lines;
mod manager;
mod maps;
mod members;
mod net;
mod osds;
mod outs;
mod peering;
mod peers;
mod poolop;
mod proposals;
mod remote;
mod revoke;
mod rights;
mod room;
mod run;
mod seats;
#[cfg(feature = "sim")]
mod selfcheck;
mod sessions;
mod standing;
mod tick;
mod turns;
mod upgrade;
mod voters;

use forward::Asks;
use leader::Leader;
use monlog::replica::{Happened, Replica};
use monstate::config::Config;
use monstate::context::{Env, Standing};
use monstate::state::RequestKey;
use monstate::state::{State, genesis};
use msgr::Messenger;
use node::{CallId, ConnId, Input, Level, Mono, Node, Now, Output, Outputs};
use peers::Peers;
use quorum::{Index, Membership, News, VoterId};
use remote::RemoteSessions;
use sessions::{Outgoing, Sessions, Side};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Interval at which time brings something.
const TICK: Duration = Duration::from_millis(500);
/// Time for which a leader that stops waits for another one to lead.
const HAND_OVER: Duration = Duration::from_secs(1);

/// The monitor, with the manager's duties beside it.
///
/// Listeners 0 (monitor) and 1 (manager), device 0. Calls (`Input::Call`) are commands as JSON, answered like those of
/// clients with all rights; `{"prefix":"ready"}` is answered as soon as the monitor serves.
pub struct Monitor {
    env: Env,
    phase: Phase,
    mon: Messenger,
    mgr: Messenger,
    conns: BTreeMap<ConnId, Side>,
    /// State that every voter has.
    replica: Replica,
    /// State that only a leader has; nobody's while this monitor does not lead.
    leader: Leader,
    sessions: Sessions,
    /// Sessions with other monitors.
    peers: Peers,
    /// Requests for the leader.
    asks: Asks,
    /// Sessions that other monitors have.
    remote: RemoteSessions,
    /// The request that is being dealt with, if it may change something and several monitors take requests.
    asking: Option<RequestKey>,
    /// Tells this start of the monitor from others.
    life: u64,
    /// End of the last range of numbers for clients that was taken up in this life.
    ids_end: u64,
    line_seq: u64,
    /// Entities whose sessions are about to end.
    ending: revoke::Ending,
    random: Random,
    next_tick: Mono,
    held_calls: Vec<(CallId, String)>,
    /// Size of the state.
    room: room::Room,
    /// Sessions whose commands wait for their turn.
    turns: turns::Turns,
    /// Stamps that subscribers were told last.
    published: maps::Published,
    /// Version of the keys that the messengers have.
    keys_version: u64,
    /// It was asked to stop; before it serves, what was begun comes first.
    stop_asked: bool,
    /// Until when a leader that stops waits for another one.
    stop_by: Option<Mono>,
    /// A mistake to be found: what was done is done again.
    #[cfg(feature = "sim")]
    forgetful: bool,
    /// Changes of maps that are kept, whoever needs more.
    #[cfg(feature = "sim")]
    few_maps: Option<u32>,
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
    /// A monitor that has not begun yet; its first [`Node::turn`] opens the disk. `seed` must be secret and new: keys
    /// are made from it.
    pub fn new(config: Config, seed: [u8; 32]) -> Self {
        let mut random = Random { seed, counter: 0 };
        let (mon, mgr) = keys::messengers(&config, random.bytes32(), random.bytes32());
        let fsid = config.fsid.0;
        let chance = random.bytes32();
        let number = |from: usize| u64::from_le_bytes(std::array::from_fn(|i| chance[from + i]));
        let voter = VoterId(number(0).max(1));
        let replica = Replica::new(fsid, config.log_bytes, genesis::state(&config, types::UTime::ZERO), voter, number(8));
        let env = Env {
            config,
            started: Now::default(),
            standing: Standing::default(),
            disk_free: 0,
            disk_size: 0,
            disk_full: false,
            snapshot_bytes: 0,
            state_bytes: 0,
            area_bytes: 0,
            wakes: node::Wakes::default(),
        };
        Self {
            env,
            phase: Phase::New,
            mon,
            mgr,
            conns: BTreeMap::new(),
            replica,
            leader: Leader::new(0, random.key(), 0),
            sessions: Sessions::default(),
            peers: Peers::new(),
            asks: Asks::default(),
            remote: RemoteSessions::default(),
            asking: None,
            life: number(16).max(1),
            ids_end: 0,
            line_seq: 0,
            ending: revoke::Ending::new(),
            random,
            next_tick: Mono::NEVER,
            held_calls: Vec::new(),
            room: room::Room::default(),
            turns: turns::Turns::default(),
            published: maps::Published::default(),
            keys_version: 0,
            stop_asked: false,
            stop_by: None,
            #[cfg(feature = "sim")]
            forgetful: false,
            #[cfg(feature = "sim")]
            few_maps: None,
        }
    }

    /// Returns true if it serves clients: it is at work, and leads.
    pub fn is_serving(&self) -> bool {
        self.phase == Phase::Serving && self.leader.reigns()
    }

    /// Returns true if it leads, or takes part under another leader.
    fn takes_part(&self) -> bool {
        let (log, state) = (&self.replica.log, &self.replica.applied);
        let follows = || log.leader().is_some() && state.quorum.mons.contains_key(&self.env.config.name);
        self.leader.reigns() || (!log.is_alone() && follows())
    }

    /// Returns true if a call of the own process is answered now. Without a leader only what it says about itself;
    /// `ready` waits for one.
    fn answers_call(&self, command: &str) -> bool {
        let about_itself = !self.replica.log.is_alone() && !command.contains("\"ready\"");
        self.phase == Phase::Serving && (about_itself || self.takes_part())
    }

    /// Does what time brings to a monitor that does not lead.
    fn tick_as_follower(&mut self, now: Now, out: &mut Outputs) {
        self.say_hello(now, out);
        self.send_away_if_lost(now, out);
        if self.takes_part() {
            for (call, command) in std::mem::take(&mut self.held_calls) {
                self.call(now, call, &command, out);
            }
        }
    }

    /// The state that the next proposal builds on.
    fn newest(&self) -> &Arc<State> {
        self.leader.ahead.back().map_or(&self.replica.applied, |(_, s)| s)
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
                    progress |= self.judge_reported(now, out);
                    progress |= self.grant_asked(now, out);
                }
                progress |= self.advance(now, out);
                self.watch_leader(now, out);
                progress |= self.carry_asks(now, out);
                progress |= self.hand_over();
            }
            if !progress || self.phase == Phase::Over {
                break;
            }
        }
    }

    fn disk_events(&mut self, now: Now, out: &mut Outputs) -> bool {
        let (mut progress, before) = (false, self.replica.applied.index);
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
        let after = self.replica.applied.index;
        if after != before && self.phase == Phase::Serving {
            // A leader's state took the place of its own. Nobody knows which entries it holds.
            self.lose_waiting(now, out);
            self.committed(now, after, out);
        }
        progress
    }

    /// Makes a new cluster.
    fn make(&mut self, now: Now, out: &mut Outputs) {
        if genesis::is_nobody(&self.env.config.fsid) {
            return self.fatal("a cluster's id must not be all zeros".into(), out);
        }
        let joins = !self.env.config.join.is_empty();
        let what = if joins { "is to be joined" } else { "is made" };
        out.log(Level::Info, "mon", format!("cluster {} {what}", self.env.config.fsid));
        self.phase = Phase::Making;
        // Who joins has no voice until others take it in.
        let members = joins.then(Membership::default);
        self.replica.make(now, genesis::state(&self.env.config, now.wall), members, out);
    }

    /// Takes up how large the disk is and what of it is free.
    fn note_sizes(&mut self) {
        let stat = self.replica.journal.space();
        self.env.disk_size = stat.capacity.min(stat.host_free.saturating_add(stat.len));
        self.env.disk_free = stat.host_free.min(stat.capacity.saturating_sub(stat.len));
    }

    /// Makes the next tick due now. An overdue one keeps its time: its lateness says how long this monitor did not run.
    fn tick_soon(&mut self, now: Now) {
        self.next_tick = self.next_tick.min(now.mono);
    }

    /// Begins to serve. What only a leader does begins with its reign: for one voter alone, in this same turn.
    fn serve(&mut self, now: Now, out: &mut Outputs) {
        if let Some(why) = self.too_old_or_new() {
            return self.fatal(why, out);
        }
        self.phase = Phase::Serving;
        self.env.started = now;
        self.tick_soon(now);
        self.note_sizes();
        self.refresh_keys(now, out);
        self.standing_changed(now);
        out.log(Level::Info, "mon", format!("serving as mon.{} at {}", self.env.config.name, self.env.config.addrs));
    }

    /// Returns why this program cannot be part of the cluster at its level, if it is one.
    fn too_old_or_new(&self) -> Option<String> {
        let state = &self.replica.applied;
        // One that waits to be taken in knows no level yet.
        let known = self.env.config.join.is_empty() || !state.quorum.mons.is_empty();
        self.env.config.levels.refusal(state.osdmap.level).filter(|_| known)
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
        for (to, payload) in next.send {
            self.say(now, to, payload, out);
        }
        let progress = !next.committed.is_empty() || !next.reads.is_empty() || !next.news.is_empty();
        for entry in &next.committed {
            self.look_at_term(now, entry, out);
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
                News::Elected(term) => self.become_leader(now, term, out),
                News::Deposed => self.step_down(now, out),
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
        if let Some(why) = self.too_old_or_new() {
            return self.fatal(why, out);
        }
        self.refresh_keys(now, out);
        if self.leader.reigns() {
            self.leader.soft.note_outs(&self.replica.applied);
        }
        if !self.replica.applied.quorum.is_empty() {
            self.peers_follow(now);
            // Answers before maps: a new monitor map may send the asker elsewhere.
            self.pass_on();
        }
        self.publish(now, out);
        while self.leader.waiting.front().is_some_and(|(at, _)| *at <= index) {
            let Some((_, after)) = self.leader.waiting.pop_front() else { break };
            after.into_iter().for_each(|o| self.send_out(o, out));
        }
    }

    /// Returns true if nothing is unfinished that could still be finished: on a full disk, what waits was promised to
    /// nobody.
    fn is_settled(&self) -> bool {
        // What others would have to agree to is not waited for: it goes on without this one.
        let promised = !self.replica.log.is_alone() || (!self.replica.log.is_busy() && self.leader.waiting.is_empty());
        let done = promised && !self.hands_over_still() && self.replica.journal.is_idle();
        done || self.replica.journal.waits_for_space()
    }

    /// A leader that stops lets another one lead first, for a moment.
    fn hands_over_still(&self) -> bool {
        self.replica.log.leads()
            && self.env.standing.quorum.len() > 1
            && self.stop_by.is_some_and(|by| self.replica.log.now() < by)
    }

    fn end(&mut self, out: &mut Outputs) {
        self.phase = Phase::Over;
        out.push(Output::Stopped);
    }
}

impl Node for Monitor {
    fn handle(&mut self, now: Now, input: Input, out: &mut Outputs) {
        if self.phase == Phase::Over {
            return;
        }
        match input {
            Input::Disk(done) => self.replica.disk_done(done, out),
            Input::Call { call, command } if self.answers_call(&command) => self.call(now, call, &command, out),
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
        self.retry_peers(now);
        self.work(now, out);
        if self.stop_asked && self.phase == Phase::Serving {
            self.phase = Phase::Stopping;
            if self.leader.reigns() {
                self.flush_lines(now, out);
                self.leader.hands_over = self.asks_any();
                self.stop_by = Some(now.mono.plus(HAND_OVER));
            }
            self.work(now, out);
        }
        if self.phase == Phase::Serving && now.mono >= self.next_tick {
            let late = now.mono.since(std::mem::replace(&mut self.next_tick, now.mono.plus(TICK)));
            self.leader.soft.was_away(now.mono, late);
            self.note_sizes();
            self.end_revoked(now);
            self.replica.journal.ask_sizes(now, out);
            if self.leader.reigns() {
                self.tick(now, out);
                self.tick_members(now, out);
                self.tick_clocks(now, out);
                self.measure_room();
            } else {
                self.tick_as_follower(now, out);
            }
            self.standing_changed(now);
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

    fn woken(&mut self, wakes: node::Wakes) {
        self.env.wakes = wakes;
    }

    fn deadline(&self) -> Mono {
        if matches!(self.phase, Phase::Over | Phase::New) {
            return if self.phase == Phase::New { Mono(0) } else { Mono::NEVER };
        }
        let tick = if self.phase == Phase::Serving {
            self.next_tick.min(self.asked_deadline()).min(self.turns.deadline())
        } else {
            Mono::NEVER
        };
        let manager = if self.phase == Phase::Serving { self.manager_deadline() } else { Mono::NEVER };
        let working = matches!(self.phase, Phase::Serving | Phase::Stopping);
        let log = if working { self.replica.log.deadline() } else { Mono::NEVER };
        [tick, manager, log, self.peers.deadline(), self.replica.journal.deadline(), self.mon.deadline(), self.mgr.deadline()]
            .into_iter()
            .min()
            .unwrap_or(Mono::NEVER)
    }
}
