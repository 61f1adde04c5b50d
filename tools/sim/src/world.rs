//! The world: hosts with their machines, disks and clocks, and the network between them, driven by one queue of happenings.
//!
//! A machine is driven exactly as a reactor does it: all inputs that are there, then one turn, then its outputs in order.
//! What chance decides (how inputs are batched, latencies, faults) comes from the seed alone.

use crate::disk::{Disk, DiskConfig, DiskFaults};
use crate::net::{NetConfig, Network};
use crate::parcel::Parcels;
use crate::rng::Rng;
use crate::schedule::{Happening, Schedule};
use crate::trace::{Trace, digest};
use crate::vitals::Vitals;
use node::{CallId, DiskOp, Input, Level, ListenerId, MailId, Mono, Node, Now, Output, Outputs};
use std::cell::Cell;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use types::UTime;

pub use crate::schedule::HostId;

/// Wall-clock time at which every world begins: 2026-01-01.
const EPOCH_WALL: u64 = 1_767_225_600_000_000_000;
/// Turns of one host in one virtual millisecond that only a machine which spins can need.
const SPINNING: u32 = 20_000;

/// What a machine is made from.
#[derive(Clone, Debug)]
pub struct Boot {
    /// The time on this host.
    pub now: Now,
    /// Randomness for the machine.
    pub seed: [u8; 32],
    /// How often the host was started before.
    pub life: u64,
}

/// Makes a host's machine; called again after each crash.
pub type Factory = Box<dyn FnMut(Boot) -> Box<dyn Node>>;

/// What a host is.
pub struct HostConfig {
    /// For traces: `osd.0`.
    pub name: String,
    /// Place where it listens; listener `i` is the `i`-th.
    pub listen: Vec<SocketAddr>,
    /// Its disks; device `i` is the `i`-th.
    pub disks: Vec<DiskConfig>,
    /// Makes its machine.
    pub factory: Factory,
}

/// How a machine dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// Its process is killed: the kernel keeps what it has, peers learn at once.
    Process,
    /// The power is cut: what was not made durable may be lost, peers learn late.
    Power,
}

/// How a host is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostState {
    /// Not running.
    Down,
    /// Running.
    Up,
    /// It was asked to stop, and did.
    Stopped,
    /// It said that it cannot go on.
    Failed(String),
}

struct Host {
    name: String,
    listen: Vec<SocketAddr>,
    factory: Factory,
    node: Option<Box<dyn Node>>,
    state: HostState,
    disks: Vec<Disk>,
    inbox: VecDeque<Input>,
    life: u64,
    /// The moment of the wake that is due, if one is.
    wake: Option<u64>,
    busy_until: u64,
    wall_offset: i64,
    mono_origin: u64,
    crash_at_write: Option<(u64, Crash)>,
    spin: (u64, u32),
    /// It was asked to finish.
    stopping: bool,
    /// Most nanoseconds that it gets no processor after each turn.
    lag: u64,
    /// Nanoseconds by [`World::meter`] that its machine has taken.
    taken: u64,
    vitals: Vitals,
}

/// A deterministic world.
pub struct World {
    schedule: Schedule,
    hosts: Vec<Host>,
    /// The network.
    pub net: Network,
    /// What happened.
    pub trace: Trace,
    rng: Rng,
    parcels: Parcels,
    answers: Vec<(HostId, CallId, i32, String)>,
    next_call: u64,
    clock: Rc<Cell<u64>>,
    /// Crashes that were armed by [`World::crash_at_write`] and happened.
    pub armed_crashes: u64,
    /// Which OSDs said that another one does not answer.
    pub accusations: Vec<(HostId, String)>,
    /// Who ever said that it cannot go on, and why.
    pub gave_up: Vec<String>,
    /// A clock of the processor time of this thread, in nanoseconds: with it, what each machine takes is counted ([`World::taken`]). It
    /// changes nothing of what happens.
    pub meter: Option<fn() -> u64>,
    /// A count of the bytes of memory that are in use, for those who judge whether it grows.
    pub memory: Option<fn() -> u64>,
}

impl World {
    /// An empty world.
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let net = Network::new(NetConfig::default(), rng.fork());
        Self {
            schedule: Schedule::default(),
            hosts: Vec::new(),
            net,
            trace: Trace::default(),
            rng,
            parcels: Parcels::default(),
            answers: Vec::new(),
            next_call: 1,
            clock: Rc::default(),
            armed_crashes: 0,
            accusations: Vec::new(),
            gave_up: Vec::new(),
            meter: None,
            memory: None,
        }
    }

    /// A stream of chance for whoever plans what happens in this world.
    pub fn fork_rng(&mut self) -> Rng {
        self.rng.fork()
    }

    /// Adds a host. It does not run yet.
    pub fn add(&mut self, config: HostConfig) -> HostId {
        let disks = config.disks.into_iter().map(|d| Disk::new(d, self.rng.fork())).collect();
        self.hosts.push(Host {
            name: config.name,
            listen: config.listen,
            factory: config.factory,
            node: None,
            state: HostState::Down,
            disks,
            inbox: VecDeque::new(),
            life: 0,
            wake: None,
            busy_until: 0,
            wall_offset: self.rng.below(200_000_000) as i64 - 100_000_000,
            mono_origin: self.rng.below(1 << 40),
            crash_at_write: None,
            spin: (0, 0),
            stopping: false,
            lag: 0,
            taken: 0,
            vitals: Vitals::default(),
        });
        HostId(self.hosts.len() - 1)
    }

    /// From now on, mail to `id` goes to this host, and mail of this host comes from `id`: hosts with addresses are machines of one process
    /// that can die apart.
    pub fn give_address(&mut self, host: HostId, id: MailId) {
        self.parcels.register(id, host);
    }

    /// Virtual time since the beginning.
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.schedule.now)
    }

    /// Nanoseconds since the beginning, for those inside machines who note what happens.
    pub fn shared_clock(&self) -> Rc<Cell<u64>> {
        self.clock.clone()
    }

    /// Returns how a host is.
    pub fn state(&self, host: HostId) -> &HostState {
        &self.hosts[host.0].state
    }

    /// Returns true if a host runs.
    pub fn is_up(&self, host: HostId) -> bool {
        self.hosts[host.0].state == HostState::Up
    }

    /// A host's name.
    pub fn name(&self, host: HostId) -> &str {
        &self.hosts[host.0].name
    }

    /// All hosts.
    pub fn hosts(&self) -> impl Iterator<Item = HostId> + use<> {
        (0..self.hosts.len()).map(HostId)
    }

    /// A host's disk.
    pub fn disk(&mut self, host: HostId, device: usize) -> &mut Disk {
        &mut self.hosts[host.0].disks[device]
    }

    /// Nothing is wrong with a host's disks any more, but what they lost or rotted.
    pub fn mend_disks(&mut self, host: HostId) {
        self.hosts[host.0].disks.iter_mut().for_each(|disk| disk.faults = DiskFaults::default());
    }

    /// A host that does not run gets empty disks.
    pub fn empty_disks(&mut self, host: HostId) {
        assert!(!self.is_up(host), "{} runs on its disks", self.name(host));
        let fresh = |disk: &Disk, rng: &mut Rng| Disk::new(disk.config(), rng.fork());
        let disks = self.hosts[host.0].disks.iter().map(|disk| fresh(disk, &mut self.rng)).collect();
        self.hosts[host.0].disks = disks;
        self.note(host, "gets empty disks", 0, 0);
    }

    /// A host's disks.
    pub fn disks(&self, host: HostId) -> &[Disk] {
        &self.hosts[host.0].disks
    }

    /// Processor time that a host's machine has taken in all its lives, as [`World::meter`] tells; nothing without one.
    pub fn taken(&self, host: HostId) -> Duration {
        Duration::from_nanos(self.hosts[host.0].taken)
    }

    /// Returns what a host's machine did in all its lives.
    pub fn vitals(&self, host: HostId) -> Vitals {
        self.hosts[host.0].vitals
    }

    /// The two clocks of a host.
    fn clock(&self, host: HostId) -> Now {
        let h = &self.hosts[host.0];
        let wall = (EPOCH_WALL + self.schedule.now).saturating_add_signed(h.wall_offset);
        Now { mono: Mono(self.schedule.now + h.mono_origin), wall: UTime::from_nanos(wall) }
    }

    /// Moves a host's wall clock.
    pub fn jump_clock(&mut self, host: HostId, by: i64) {
        self.hosts[host.0].wall_offset = self.hosts[host.0].wall_offset.saturating_add(by);
        self.note(host, "clock jumps", by as u64, 0);
    }

    /// A host gets no processor for so long: its kernel goes on, it does nothing.
    pub fn freeze(&mut self, host: HostId, time: Duration) {
        let end = self.schedule.now + time.as_nanos() as u64;
        let h = &mut self.hosts[host.0];
        h.busy_until = h.busy_until.max(end);
        self.note(host, "freezes", time.as_nanos() as u64, 0);
    }

    /// Returns true if a host gets no processor just now.
    pub fn is_suspended(&self, host: HostId) -> bool {
        self.is_up(host) && self.hosts[host.0].busy_until > self.schedule.now + 1_000_000_000
    }

    /// A host sleeps for so long, memory kept: it does nothing, and its clocks go on. If not `counted`, the monotonic one does not.
    pub fn suspend(&mut self, host: HostId, time: Duration, counted: bool) {
        self.freeze(host, time);
        if !counted {
            let h = &mut self.hosts[host.0];
            h.mono_origin = h.mono_origin.saturating_sub(time.as_nanos() as u64);
        }
    }

    /// From now on a host gets no processor for up to so long after each of its turns, as among many others who want it.
    pub fn slow_down(&mut self, host: HostId, lag: Duration) {
        self.hosts[host.0].lag = lag.as_nanos() as u64;
        self.note(host, "is slowed down", lag.as_nanos() as u64, 0);
    }

    /// Starts a host that does not run.
    pub fn start(&mut self, host: HostId) {
        if self.is_up(host) {
            return;
        }
        let boot = Boot { now: self.clock(host), seed: self.rng.seed(), life: self.hosts[host.0].life };
        let h = &mut self.hosts[host.0];
        h.life += 1;
        h.node = Some((h.factory)(boot));
        h.state = HostState::Up;
        h.wake = None;
        h.busy_until = 0;
        h.spin = (0, 0);
        h.stopping = false;
        for (i, at) in h.listen.clone().into_iter().enumerate() {
            self.net.listen(at, host, ListenerId(i as u32));
        }
        self.note(host, "starts", self.hosts[host.0].life, 0);
        self.wake_at(host, 0);
    }

    /// Kills a host that runs.
    pub fn crash(&mut self, host: HostId, how: Crash) {
        if !self.is_up(host) {
            return;
        }
        self.note(host, "crashes", u64::from(how == Crash::Power), 0);
        self.end(host, HostState::Down, how);
    }

    fn end(&mut self, host: HostId, state: HostState, how: Crash) {
        let h = &mut self.hosts[host.0];
        h.node = None;
        h.state = state;
        h.inbox.clear();
        h.wake = None;
        h.crash_at_write = None;
        for disk in &mut h.disks {
            match how {
                Crash::Process => disk.process_died(),
                Crash::Power => disk.power_cut(),
            }
        }
        self.net.host_died(&mut self.schedule, host, how == Crash::Power);
    }

    /// The host dies while the `nth` disk write from now on is under way (1: the next).
    pub fn crash_at_write(&mut self, host: HostId, nth: u64, how: Crash) {
        self.hosts[host.0].crash_at_write = Some((nth, how));
    }

    /// Takes [`World::crash_at_write`] back.
    pub fn disarm(&mut self, host: HostId) {
        self.hosts[host.0].crash_at_write = None;
    }

    /// Asks a machine to finish.
    pub fn stop(&mut self, host: HostId) {
        if self.is_up(host) {
            self.hosts[host.0].stopping = true;
            self.give(host, Input::Stop);
        }
    }

    /// Returns true if a host was asked to finish and has not.
    pub fn is_stopping(&self, host: HostId) -> bool {
        self.is_up(host) && self.hosts[host.0].stopping
    }

    /// Asks a machine something; see [`World::take_answers`].
    pub fn call(&mut self, host: HostId, command: &str) -> CallId {
        let call = CallId(self.next_call);
        self.next_call += 1;
        self.give(host, Input::Call { call, command: command.into() });
        call
    }

    /// Answers to calls since the last time.
    pub fn take_answers(&mut self) -> Vec<(HostId, CallId, i32, String)> {
        std::mem::take(&mut self.answers)
    }

    /// Breaks one connection; false if there is none.
    pub fn break_any_link(&mut self) -> bool {
        self.net.break_any(&mut self.schedule)
    }

    /// Breaks one connection between two of these hosts; false if there is none.
    pub fn break_among(&mut self, hosts: &[HostId]) -> bool {
        self.net.break_among(&mut self.schedule, hosts)
    }

    /// Breaks all connections between this host and these.
    pub fn break_all(&mut self, host: HostId, others: &[HostId]) {
        self.net.break_all(&mut self.schedule, host, others);
    }

    /// Ends all partitions.
    pub fn heal(&mut self) {
        self.net.heal(&mut self.schedule);
    }

    fn note(&mut self, host: HostId, what: &'static str, a: u64, b: u64) {
        self.trace.event(self.schedule.now, &self.hosts[host.0].name, what, a, b);
    }

    fn give(&mut self, host: HostId, input: Input) {
        let h = &mut self.hosts[host.0];
        if h.node.is_none() {
            return;
        }
        h.inbox.push_back(input);
        let at = (self.schedule.now + self.rng.below(10_000)).max(h.busy_until);
        if h.wake.is_none_or(|due| due > at) {
            self.wake_at(host, at);
        }
    }

    fn wake_at(&mut self, host: HostId, at: u64) {
        let h = &mut self.hosts[host.0];
        let at = at.max(self.schedule.now).max(h.busy_until);
        h.wake = Some(at);
        self.schedule.at(at, Happening::Wake(host, h.life));
    }

    /// Lets the next thing happen. False if nothing will ever happen again.
    pub fn step(&mut self) -> bool {
        let Some(what) = self.schedule.pop() else { return false };
        self.clock.set(self.schedule.now);
        let mut deliveries = Vec::new();
        match what {
            Happening::Wake(host, life) => self.wake(host, life),
            Happening::Disk { host, life, device, request } => self.disk_done(host, life, device, request),
            Happening::Parcel(number) => {
                if let Some((host, life, input)) = self.parcels.arrive(number)
                    && self.hosts[host.0].life == life
                {
                    deliveries.push((host, input));
                }
            }
            Happening::Connect(link) => self.net.connected(&mut self.schedule, link, &mut deliveries),
            Happening::Arrive(link, side) => self.net.arrive(&mut self.schedule, link, side, &mut deliveries),
            Happening::Gone(link, side) => self.net.gone(&mut self.schedule, link, side, &mut deliveries),
            Happening::Drain(link, side) => self.net.drain(&mut self.schedule, link, side, &mut deliveries),
        }
        self.deliver(deliveries);
        true
    }

    /// Runs until `time` since the beginning.
    pub fn run_until(&mut self, time: Duration) {
        let end = time.as_nanos() as u64;
        while self.schedule.peek().is_some_and(|at| at <= end) {
            self.step();
        }
        self.schedule.now = self.schedule.now.max(end);
    }

    /// Runs for `time`.
    pub fn run_for(&mut self, time: Duration) {
        self.run_until(self.now() + time);
    }

    /// Runs until `done` says so, looking every virtual millisecond; false if `limit` passes first.
    pub fn run_while(&mut self, limit: Duration, mut not_done: impl FnMut(&mut World) -> bool) -> bool {
        let end = self.now() + limit;
        while not_done(self) {
            if self.now() >= end {
                return false;
            }
            self.run_for(Duration::from_millis(1));
        }
        true
    }

    fn deliver(&mut self, deliveries: Vec<(HostId, Input)>) {
        for (host, input) in deliveries {
            self.note_input(host, &input);
            self.give(host, input);
        }
    }

    fn note_input(&mut self, host: HostId, input: &Input) {
        match input {
            Input::Accepted { conn, .. } => self.note(host, "accepted", conn.0, 0),
            Input::Connected { conn, .. } => self.note(host, "connected", conn.0, 0),
            Input::Received { conn, buf, len } => self.note(host, "received", conn.0, digest(&buf[..*len])),
            Input::Sent { conn, bytes } => self.note(host, "sent", conn.0, *bytes as u64),
            Input::Closed { conn, .. } => self.note(host, "closed", conn.0, 0),
            Input::Disk(done) => self.note(host, "disk done", done.token.0, u64::from(done.result.is_ok())),
            Input::Mail { from, .. } => self.note(host, "mail", u64::from(from.0), 0),
            Input::Computed { token, .. } => self.note(host, "computed", token.0, 0),
            Input::Call { .. } | Input::Memory(_) | Input::Stop => {}
        }
    }

    fn disk_done(&mut self, host: HostId, life: u64, device: u16, request: u64) {
        let h = &mut self.hosts[host.0];
        if h.life != life {
            return;
        }
        let disk = &mut h.disks[device as usize];
        if disk.faults.stopped {
            self.schedule.after(50_000_000, Happening::Disk { host, life, device, request });
            return;
        }
        if let Some(done) = disk.complete(request) {
            self.deliver(vec![(host, Input::Disk(done))]);
        }
    }

    /// One round of a machine.
    fn wake(&mut self, host: HostId, life: u64) {
        let now = self.clock(host);
        let h = &mut self.hosts[host.0];
        if h.life != life || h.wake != Some(self.schedule.now) {
            return;
        }
        h.wake = None;
        if h.busy_until > self.schedule.now {
            // It froze since this was planned.
            return self.wake_at(host, 0);
        }
        let Some(node) = &mut h.node else { return };
        let begun = self.meter.map(|meter| meter());
        let mut out = Outputs::default();
        let idle = h.inbox.is_empty();
        // Sometimes the driver finds only some of the inputs; the rest comes in the next round.
        let take = if self.rng.one_in(4) { self.rng.index(h.inbox.len() + 1) } else { h.inbox.len() };
        for input in h.inbox.drain(..take) {
            node.handle(now, input, &mut out);
        }
        node.turn(now, &mut out);
        h.taken += passed(self.meter, begun);
        h.vitals.turns += 1;
        h.vitals.idle += u64::from(idle);
        h.vitals.vain += u64::from(idle && out.0.is_empty() && node.deadline() <= now.mono);
        h.busy_until = self.schedule.now + 1_000 + 2_000 * take as u64;
        if h.lag > 0 {
            // Mostly it goes on at once; now and then it waits for its turn.
            h.busy_until += if self.rng.one_in(8) { self.rng.below(h.lag) } else { 0 };
        }
        self.check_spinning(host);
        for output in out.0 {
            self.carry_out(host, life, output);
            // A crash in the middle takes the rest with it.
            if self.hosts[host.0].node.is_none() || self.hosts[host.0].life != life {
                return;
            }
        }
        let begun = self.meter.map(|meter| meter());
        let h = &mut self.hosts[host.0];
        if let Some(node) = &mut h.node {
            node.carried_out(now);
        }
        h.taken += passed(self.meter, begun);
        self.plan_wake(host);
    }

    fn plan_wake(&mut self, host: HostId) {
        let h = &self.hosts[host.0];
        let deadline = h.node.as_ref().map_or(Mono::NEVER, |n| n.deadline());
        let at = match deadline {
            _ if !h.inbox.is_empty() => self.schedule.now,
            Mono::NEVER => return,
            // A timer is never early, and may be late.
            Mono(at) => at.saturating_sub(h.mono_origin).max(self.schedule.now) + self.rng.below(100_000),
        };
        if h.wake.is_none_or(|due| due > at) {
            self.wake_at(host, at);
        }
    }

    fn check_spinning(&mut self, host: HostId) {
        let h = &mut self.hosts[host.0];
        let millisecond = self.schedule.now / 1_000_000;
        h.spin = if h.spin.0 == millisecond { (millisecond, h.spin.1 + 1) } else { (millisecond, 0) };
        assert!(h.spin.1 < SPINNING, "{} spins: {SPINNING} turns in a millisecond", h.name);
    }

    fn carry_out(&mut self, host: HostId, life: u64, output: Output) {
        let mut deliveries = Vec::new();
        self.hosts[host.0].vitals.count(&output);
        match output {
            Output::Connect { conn, to } => {
                self.note(host, "connects", conn.0, u64::from(to.port()));
                self.net.connect(&mut self.schedule, host, conn, to);
            }
            Output::Receive { conn, buf } => self.net.receive(&mut self.schedule, host, conn, buf, &mut deliveries),
            Output::Send { conn, data } => {
                self.note(host, "sends", conn.0, data.pieces().iter().fold(0, |a, p| a ^ digest(p)));
                self.net.send(&mut self.schedule, host, conn, &data);
            }
            Output::Close { conn } => {
                self.note(host, "closes", conn.0, 0);
                self.net.close(&mut self.schedule, host, conn);
            }
            Output::Disk(request) => self.disk_request(host, life, request),
            Output::Log(line) => self.log(host, &line),
            Output::LogLevel(_) | Output::Memory(_) => {}
            Output::Answer { call, result, text } => self.answers.push((host, call, result, text)),
            Output::Mail { to, mail } => {
                self.note(host, "sends mail", u64::from(to.0), 0);
                // Who does not run now has not run when the mail was sent: a later life does not get it.
                if let Some(to) = self.parcels.host(to).filter(|to| self.is_up(*to)) {
                    let life = self.hosts[to.0].life;
                    self.parcels.mail(&mut self.schedule, &mut self.rng, host, (to, life), mail);
                }
            }
            Output::Compute(work) => {
                self.note(host, "computes", work.token.0, u64::from(work.queue));
                self.parcels.compute(&mut self.schedule, &mut self.rng, (host, life), work);
            }
            Output::Stopped => {
                self.note(host, "stopped", 0, 0);
                self.end(host, HostState::Stopped, Crash::Process);
            }
            Output::Fatal(why) => {
                let name = &self.hosts[host.0].name;
                self.trace.line(self.schedule.now, name, &format!("cannot go on: {why}"));
                self.gave_up.push(format!("{name}: {why}"));
                self.end(host, HostState::Failed(why), Crash::Process);
            }
        }
        self.deliver(deliveries);
    }

    fn log(&mut self, host: HostId, line: &node::LogLine) {
        let level = match line.level {
            Level::Error => 'E',
            Level::Warn => 'W',
            Level::Info => 'I',
            Level::Debug => 'D',
        };
        if line.text.contains("told to the monitors") {
            self.accusations.push((host, line.text.clone()));
        }
        let name = &self.hosts[host.0].name;
        self.trace.line(self.schedule.now, name, &format!("{level} {}: {}", line.part, line.text));
    }

    fn disk_request(&mut self, host: HostId, life: u64, request: node::DiskRequest) {
        let (kind, place, content) = match &request.op {
            DiskOp::Read { offset, .. } => ("disk read", *offset, 0),
            DiskOp::Write { offset, data, durable } => {
                let content = data.pieces().iter().fold(u64::from(*durable), |a, p| a.rotate_left(7) ^ digest(p));
                ("disk write", *offset, content)
            }
            DiskOp::Flush => ("disk flush", 0, 0),
            DiskOp::Trim { offset, len } => ("disk trim", *offset, *len),
            DiskOp::Stat => ("disk stat", 0, 0),
        };
        self.note(host, kind, place, content);
        let is_write = matches!(request.op, DiskOp::Write { .. });
        let h = &mut self.hosts[host.0];
        let disk = h.disks.get_mut(request.device.0 as usize).expect("a machine asks only for disks that it was given");
        let (id, time) = disk.submit(request.token, request.op);
        self.schedule.after(time, Happening::Disk { host, life, device: request.device.0, request: id });
        if is_write && let Some((nth, how)) = &mut h.crash_at_write {
            *nth -= 1;
            if *nth == 0 {
                let how = *how;
                self.armed_crashes += 1;
                self.crash(host, how);
            }
        }
    }
}

/// Nanoseconds since `begun` by the meter, if there is one.
fn passed(meter: Option<fn() -> u64>, begun: Option<u64>) -> u64 {
    match (meter, begun) {
        (Some(meter), Some(begun)) => meter().saturating_sub(begun),
        _ => 0,
    }
}
