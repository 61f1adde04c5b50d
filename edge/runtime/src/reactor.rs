//! The reactor: rounds of inputs in, one turn of each machine that has something to do, outputs out.
//!
//! A thread drives one machine, or several ([`run_together`]): then they share one driver, so one system call brings
//! the inputs of all and takes the outputs of all, and mail between them needs none. A machine that ends leaves the
//! others running: what it sent last goes out, then its sockets are closed and its disks let go.

use crate::compute::Computer;
use crate::driver::{self, Driver, Parts};
use crate::mailbox::{Inbox, PostOffice};
use crate::seat::{MOST_SEATS, Seat};
use crate::wakes::{Calls, Watch};
use crate::{LogSink, Setup, sys};
use node::{Input, Level, LogLine, Mail, MailId, Mono, Node, Now, Output, Outputs};
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::time::Duration;
use types::UTime;

/// Time in which a stopped machine may get its last bytes to the kernel.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Time in which the kernel must give the buffers of a machine back that has ended. A disk that hangs keeps them
/// longer.
const LAST_WAIT: Duration = Duration::from_secs(10);
/// Interval at which it is checked whether the kernel has.
const LOOK: Duration = Duration::from_millis(5);

/// Reason why a machine ended although nobody asked it to.
#[derive(Debug)]
pub enum RunError {
    /// The system refuses what the driver needs.
    Driver(io::Error),
    /// The machine cannot go on, for the reason that it gave.
    Fatal(String),
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::Driver(e) => write!(f, "the driver failed: {e}"),
            RunError::Fatal(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for RunError {}

impl From<io::Error> for RunError {
    fn from(e: io::Error) -> Self {
        RunError::Driver(e)
    }
}

/// Runs `node` until it has stopped. When this returns, all sockets are closed, and the kernel holds no buffer.
///
/// # Errors
/// See [`RunError`].
pub fn run(mut node: Box<dyn Node>, setup: Setup) -> Result<(), RunError> {
    drive(&mut *node, setup)
}

/// Runs a machine that the caller keeps, as [`run`] does.
///
/// # Errors
/// See [`RunError`].
pub fn drive(node: &mut dyn Node, setup: Setup) -> Result<(), RunError> {
    let mut end = Ok(());
    drive_together(vec![(node, setup)], &mut |_, ended| end = ended)?;
    end
}

/// Runs several machines in the calling thread until all have stopped. `ended` is told of each: its place in
/// `machines`, and how it ended. Then its sockets are closed and its disks are free.
///
/// The driver and the time to spin are the first one's. Together they may have its most connections so many times.
///
/// # Errors
/// The driver fails, and no machine can go on. `ended` was not told of those that still ran.
pub fn run_together(
    mut machines: Vec<(Box<dyn Node>, Setup)>,
    ended: &mut dyn FnMut(usize, Result<(), RunError>),
) -> Result<(), RunError> {
    let seated = machines.iter_mut().map(|(node, setup)| -> (&mut dyn Node, Setup) { (node.as_mut(), std::mem::take(setup)) });
    drive_together(seated.collect(), ended)
}

/// Most machines that [`run_together`] takes.
pub const MOST_TOGETHER: usize = MOST_SEATS;

fn drive_together<'a>(
    machines: Vec<(&'a mut (dyn Node + 'a), Setup)>,
    ended: &mut dyn FnMut(usize, Result<(), RunError>),
) -> Result<(), RunError> {
    let Some((_, first)) = machines.first() else { return Ok(()) };
    let (choice, spin, max_connections) = (first.driver, first.spin, first.max_connections.saturating_mul(machines.len()));
    let mut parts =
        Parts { listeners: Vec::new(), devices: Vec::new(), wakes: Vec::new(), max_connections, spin, machines: machines.len() };
    let mut seated = Vec::new();
    for (at, (node, setup)) in machines.into_iter().enumerate() {
        seated.push(Machine::seat(Seat::new(at), node, setup, &mut parts)?);
    }
    let (driver, why) = driver::choose(choice, parts)?;
    for machine in &mut seated {
        if machine.level >= Level::Info {
            machine.log.line(wall(), &LogLine { level: Level::Info, part: "runtime".into(), text: why.clone() });
        }
    }
    Reactor { driver, machines: seated, mail: Vec::new(), calls: Calls::default() }.run(ended)
}

/// State of a machine.
enum State {
    Running,
    /// It has ended. What it sent last goes out, until then at most.
    LastWords {
        end: Result<(), RunError>,
        until: Mono,
    },
    /// It has no sockets and disks any more. The kernel may still hold some of its buffers, until then at most.
    Leaving {
        end: Result<(), RunError>,
        until: Mono,
    },
    /// It is over.
    Gone,
}

/// A machine with what only it has.
struct Machine<'a> {
    seat: Seat,
    node: &'a mut dyn Node,
    inbox: Inbox,
    post: Option<(MailId, PostOffice)>,
    /// Mail of this round for machines of other threads.
    outgoing: BTreeMap<MailId, Vec<Mail>>,
    computer: Computer,
    /// Inputs that need no driver, for the next round: results of work that was done at once, mail of the same thread.
    next: Vec<Input>,
    /// Outputs of this round.
    out: Outputs,
    /// True if its turn comes, because something came in.
    due: bool,
    watch: Watch,
    log: Box<dyn LogSink>,
    level: Level,
    state: State,
}

struct Reactor<'a> {
    driver: Box<dyn Driver>,
    machines: Vec<Machine<'a>>,
    /// Mail of this round for machines of this thread: from whom, to which seat.
    mail: Vec<(MailId, usize, Mail)>,
    calls: Calls,
}

impl Reactor<'_> {
    fn run(mut self, ended: &mut dyn FnMut(usize, Result<(), RunError>)) -> Result<(), RunError> {
        let mut inputs = Vec::new();
        #[cfg(feature = "slowdown")]
        let mut slowdown = crate::slowdown::Slowdown::from_environment();
        loop {
            self.take_turns();
            self.see_off(ended);
            if self.machines.iter().all(|m| !matches!(m.state, State::Running)) {
                return self.last_words(&mut inputs, ended);
            }
            #[cfg(feature = "slowdown")]
            slowdown.pay();
            let until = self.machines.iter().map(Machine::deadline).min().unwrap_or(Mono::NEVER);
            self.driver.wait(until, &mut inputs)?;
            self.hand_over(&mut inputs);
        }
    }

    /// Lets each machine that has something to do take its turn, and carries out what it wants.
    fn take_turns(&mut self) {
        for at in 0..self.machines.len() {
            let machine = &mut self.machines[at];
            if !machine.is_due() {
                continue;
            }
            let idle = !std::mem::take(&mut machine.due);
            let mut out = std::mem::take(&mut machine.out);
            let begin = now();
            self.calls.begins(at, begin.mono);
            machine.node.turn(begin, &mut out);
            if idle {
                machine.turned_idle(out.0.is_empty());
            }
            out.0.drain(..).for_each(|output| self.carry_out(at, output));
            let machine = &mut self.machines[at];
            machine.out = out;
            machine.send_mail();
            let end = now();
            machine.node.carried_out(end);
            self.calls.ends(end.mono);
            if let Some((long, us)) = self.calls.news(at) {
                machine.took_long(long, us);
            }
        }
        for (from, to, mail) in self.mail.drain(..) {
            let machine = &mut self.machines[to];
            if matches!(machine.state, State::Running) {
                machine.next.push(Input::Mail { from, mail });
            }
        }
    }

    fn carry_out(&mut self, at: usize, output: Output) {
        let machine = &mut self.machines[at];
        let seat = machine.seat;
        match output {
            Output::Connect { conn, to } => self.driver.connect(seat.conn(conn), to),
            Output::Receive { conn, buf } => self.driver.receive(seat.conn(conn), buf),
            Output::Send { conn, data } => self.driver.send(seat.conn(conn), data),
            Output::Close { conn } => self.driver.close(seat.conn(conn)),
            Output::Disk(request) => self.driver.disk(seat.request(request)),
            Output::Mail { to, mail } => self.post(at, to, mail),
            other => machine.carry_out(other),
        }
    }

    /// Mail to a machine of this thread waits for the end of the round; other mail goes to the office. Who has ended here may have a successor on
    /// another thread.
    fn post(&mut self, at: usize, to: MailId, mail: Mail) {
        let Some((from, _)) = self.machines[at].post else { return };
        let is_to = |m: &Machine<'_>| matches!(m.state, State::Running) && m.post.as_ref().is_some_and(|(id, _)| *id == to);
        let here = self.machines.iter().position(is_to);
        match here {
            Some(to) => self.mail.push((from, to, mail)),
            None => self.machines[at].outgoing.entry(to).or_default().push(mail),
        }
    }

    /// Gives each machine what is there for it.
    fn hand_over(&mut self, inputs: &mut Vec<Input>) {
        for mut input in inputs.drain(..) {
            let seat = Seat::take_out(&mut input);
            self.machines[seat.at()].handle(input, &mut self.calls);
        }
        self.machines.iter_mut().for_each(|machine| machine.hand_over_own(&mut self.calls));
    }

    /// Takes machines that have ended out of the thread, step by step, while others go on.
    fn see_off(&mut self, ended: &mut dyn FnMut(usize, Result<(), RunError>)) {
        for machine in &mut self.machines {
            machine.state = match std::mem::replace(&mut machine.state, State::Gone) {
                State::LastWords { end, until } if driver::now() >= until || !self.driver.unsent(machine.seat) => {
                    self.driver.unseat(machine.seat);
                    State::Leaving { end, until: driver::now().plus(LAST_WAIT) }
                }
                State::Leaving { end, until } if driver::now() >= until || !self.driver.holds(machine.seat) => {
                    machine.inbox.close();
                    ended(machine.seat.at(), end);
                    State::Gone
                }
                other => other,
            };
        }
    }

    /// The last machines have ended: what they sent last goes out, and the driver ends.
    fn last_words(mut self, inputs: &mut Vec<Input>, ended: &mut dyn FnMut(usize, Result<(), RunError>)) -> Result<(), RunError> {
        let until = driver::now().plus(LAST_WORDS);
        loop {
            let unsent = self.machines.iter().any(|m| self.driver.unsent(m.seat));
            // The first wait carries out what is queued, however little time is left.
            let waited = self.driver.wait(if unsent { until } else { Mono(0) }, inputs);
            inputs.clear();
            let unsent = self.machines.iter().any(|m| self.driver.unsent(m.seat));
            if waited.is_err() || !unsent || driver::now() >= until {
                break;
            }
        }
        let Self { driver, machines, .. } = self;
        drop(driver);
        for machine in machines {
            let Machine { seat, inbox, state, .. } = machine;
            drop(inbox);
            if let State::LastWords { end, .. } | State::Leaving { end, .. } = state {
                ended(seat.at(), end);
            }
        }
        Ok(())
    }
}

impl<'a> Machine<'a> {
    /// Gives a machine its seat, and the driver its parts.
    fn seat(seat: Seat, node: &'a mut dyn Node, setup: Setup, parts: &mut Parts) -> io::Result<Self> {
        let Setup { listeners, devices, inbox, post, log, level, .. } = setup;
        let inbox = match inbox {
            Some(inbox) => inbox,
            None => crate::mailbox::mailbox()?.1,
        };
        listeners.iter().for_each(|(_, listener)| sys::tune_listener(listener));
        parts.listeners.extend(listeners.into_iter().map(|(id, listener)| (seat.listener(id), listener)));
        parts.devices.extend(devices.into_iter().map(|(id, device)| (seat.device(id), device)));
        parts.wakes.push(inbox.wake());
        let computer = Computer::new(inbox.poster());
        let (outgoing, next, out) = (BTreeMap::new(), Vec::new(), Outputs::default());
        Ok(Self {
            seat,
            node,
            inbox,
            post,
            outgoing,
            computer,
            next,
            out,
            due: true,
            watch: Watch::new(),
            log,
            level,
            state: State::Running,
        })
    }

    fn is_due(&self) -> bool {
        matches!(self.state, State::Running) && (self.due || self.wakes_at() <= driver::now())
    }

    /// Returns when it is woken, if nothing comes in.
    fn wakes_at(&self) -> Mono {
        self.watch.not_before(self.node.deadline())
    }

    /// A turn is over for which nothing had come in.
    fn turned_idle(&mut self, silent: bool) {
        let line = self.watch.turned_idle(driver::now(), silent, self.node.deadline());
        self.node.woken(self.watch.wakes);
        if let Some(text) = line.filter(|_| self.level >= Level::Warn) {
            self.log.line(wall(), &LogLine { level: Level::Warn, part: "runtime".into(), text });
        }
    }

    /// Calls of it took too long.
    fn took_long(&mut self, calls: u64, us: u64) {
        self.watch.wakes.long += calls;
        self.watch.wakes.long_us += us;
        self.node.woken(self.watch.wakes);
    }

    /// Returns when the next round must come for this machine.
    fn deadline(&self) -> Mono {
        match &self.state {
            State::Running if self.due || !self.next.is_empty() => Mono(0),
            State::Running => self.wakes_at(),
            State::LastWords { .. } | State::Leaving { .. } => driver::now().plus(LOOK),
            State::Gone => Mono::NEVER,
        }
    }

    fn handle(&mut self, input: Input, calls: &mut Calls) {
        if matches!(self.state, State::Running) {
            self.due = true;
            let now = now();
            calls.begins(self.seat.at(), now.mono);
            self.node.handle(now, input, &mut self.out);
        }
    }

    /// Hands over what came without the driver.
    fn hand_over_own(&mut self, calls: &mut Calls) {
        let mut own = std::mem::take(&mut self.next);
        if let Err(why) = self.inbox.drain(&mut self.computer, &mut own) {
            self.end(Err(RunError::Fatal(why)));
        }
        own.drain(..).for_each(|input| self.handle(input, calls));
        self.next = own;
    }

    /// Carries out what needs no driver.
    fn carry_out(&mut self, output: Output) {
        match output {
            Output::Log(line) if line.level <= self.level => self.log.line(wall(), &line),
            Output::Log(_) => {}
            Output::LogLevel(level) => self.level = level,
            Output::Answer { call, result, text } => self.inbox.answer(call, result, text),
            Output::Compute(compute) => {
                if let Err(why) = self.computer.take(compute, &mut self.next) {
                    self.end(Err(RunError::Fatal(why)));
                }
            }
            Output::Memory(wish) => self.inbox.wish(wish),
            Output::Stopped => self.end(Ok(())),
            Output::Fatal(text) => self.end(Err(RunError::Fatal(text))),
            _ => unreachable!("the reactor carries out the rest"),
        }
    }

    /// Notes that the machine is over. Only the first end counts, unless the second is worse.
    fn end(&mut self, end: Result<(), RunError>) {
        match &self.state {
            State::Running | State::LastWords { end: Ok(()), .. } => {
                self.state = State::LastWords { end, until: driver::now().plus(LAST_WORDS) };
            }
            _ => {}
        }
    }

    /// Delivers the mail of a round to other threads. Each receiver is woken once.
    fn send_mail(&mut self) {
        let Some((me, office)) = &self.post else { return self.outgoing.clear() };
        while let Some((to, mail)) = self.outgoing.pop_first() {
            office.deliver(*me, to, mail);
        }
    }
}

fn now() -> Now {
    Now { mono: driver::now(), wall: wall() }
}

fn wall() -> UTime {
    UTime::from_nanos(sys::realtime())
}
