//! The reactor: rounds of inputs in, one turn of the machine, outputs out.

use crate::compute::Computer;
use crate::driver::{self, Driver, Parts};
use crate::mailbox::{Inbox, PostOffice};
use crate::{LogSink, Setup, sys};
use node::{Input, Level, LogLine, Mail, MailId, Mono, Node, Now, Output, Outputs};
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::time::Duration;
use types::UTime;

/// Time in which a stopped machine may get its last bytes to the kernel.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Why a machine ended although nobody asked it to.
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
    let Setup { listeners, devices, driver, inbox, post, mut log, level, spin, max_connections } = setup;
    let inbox = match inbox {
        Some(inbox) => inbox,
        None => crate::mailbox::mailbox()?.1,
    };
    listeners.iter().for_each(|(_, listener)| sys::tune_listener(listener));
    let parts = Parts { listeners, devices, wake: Some(inbox.wake()), max_connections, spin };
    let (driver, why) = driver::choose(driver, parts)?;
    if level >= Level::Info {
        log.line(wall(), &LogLine { level: Level::Info, part: "runtime".into(), text: why });
    }
    let computer = Computer::new(inbox.poster());
    Reactor { driver, inbox, post, outgoing: BTreeMap::new(), computer, done: Vec::new(), log, level, end: None }.run(node)
}

struct Reactor {
    driver: Box<dyn Driver>,
    inbox: Inbox,
    post: Option<(MailId, PostOffice)>,
    /// Mail of this round.
    outgoing: BTreeMap<MailId, Vec<Mail>>,
    computer: Computer,
    /// Results of work that was done at once, for the next round.
    done: Vec<Input>,
    log: Box<dyn LogSink>,
    level: Level,
    end: Option<Result<(), RunError>>,
}

impl Reactor {
    fn run(mut self, node: &mut dyn Node) -> Result<(), RunError> {
        let (mut inputs, mut out) = (Vec::new(), Outputs::default());
        #[cfg(feature = "slowdown")]
        let mut slowdown = crate::slowdown::Slowdown::from_environment();
        loop {
            node.turn(now(), &mut out);
            out.0.drain(..).for_each(|output| self.carry_out(output));
            self.send_mail();
            node.carried_out(now());
            if let Some(end) = self.end.take() {
                self.last_words(&mut inputs);
                return end;
            }
            #[cfg(feature = "slowdown")]
            slowdown.pay();
            let until = if self.done.is_empty() { node.deadline() } else { Mono(0) };
            self.driver.wait(until, &mut inputs)?;
            inputs.append(&mut self.done);
            self.inbox.drain(&mut self.computer, &mut inputs).map_err(RunError::Fatal)?;
            inputs.drain(..).for_each(|input| node.handle(now(), input, &mut out));
        }
    }

    fn carry_out(&mut self, output: Output) {
        match output {
            Output::Connect { conn, to } => self.driver.connect(conn, to),
            Output::Receive { conn, buf } => self.driver.receive(conn, buf),
            Output::Send { conn, data } => self.driver.send(conn, data),
            Output::Close { conn } => self.driver.close(conn),
            Output::Disk(request) => self.driver.disk(request),
            Output::Log(line) if line.level <= self.level => self.log.line(wall(), &line),
            Output::Log(_) => {}
            Output::LogLevel(level) => self.level = level,
            Output::Answer { call, result, text } => self.inbox.answer(call, result, text),
            Output::Mail { to, mail } => self.outgoing.entry(to).or_default().push(mail),
            Output::Compute(compute) => {
                if let Err(why) = self.computer.take(compute, &mut self.done) {
                    self.end = Some(Err(RunError::Fatal(why)));
                }
            }
            Output::Memory(wish) => self.inbox.wish(wish),
            Output::Stopped => self.end = self.end.take().or(Some(Ok(()))),
            Output::Fatal(text) => self.end = Some(Err(RunError::Fatal(text))),
        }
    }

    /// Delivers the mail of a round. Each receiver is woken once.
    fn send_mail(&mut self) {
        let Some((me, office)) = &self.post else { return self.outgoing.clear() };
        while let Some((to, mail)) = self.outgoing.pop_first() {
            office.deliver(*me, to, mail);
        }
    }

    /// Lets what was sent last go out.
    fn last_words(&mut self, inputs: &mut Vec<Input>) {
        let until = driver::now().plus(LAST_WORDS);
        loop {
            // The first wait carries out what is queued, however little time is left.
            let waited = self.driver.wait(if self.driver.unsent() { until } else { Mono(0) }, inputs);
            inputs.clear();
            if waited.is_err() || !self.driver.unsent() || driver::now() >= until {
                return;
            }
        }
    }
}

fn now() -> Now {
    Now { mono: driver::now(), wall: wall() }
}

fn wall() -> UTime {
    UTime::from_nanos(sys::realtime())
}
