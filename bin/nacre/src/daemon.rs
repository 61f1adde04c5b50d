//! Machines on threads: each on its own, or several that share one.

use crate::crash;
use crate::events::{Ended, Event};
use crate::log::Log;
use crate::service::{Kind, Service};
use anyhow::{Context, Result};
use node::{Level, Node};
use runtime::{Caller, Setup};
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::mpsc::Sender;
use std::time::Duration;

/// Time for which a monitor is waited for when it is asked whether it serves. It answers when it does.
const MOMENT: Duration = Duration::from_millis(3);
/// Time for which an OSD is waited for when it is asked for its state.
const STATUS: Duration = Duration::from_millis(200);

/// A daemon that runs.
pub(crate) struct Daemon {
    /// `osd.0`, `mon.a`
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// For requests.
    pub(crate) caller: Caller,
}

impl Service for Daemon {
    fn name(&self) -> &str {
        &self.name
    }

    fn kind(&self) -> Kind {
        self.kind
    }

    fn caller(&self) -> Option<&Caller> {
        Some(&self.caller)
    }

    fn serves(&self) -> bool {
        match self.kind {
            // A monitor answers as soon as it serves.
            Kind::Monitor => ask(&self.caller, r#"{"prefix":"ready"}"#, MOMENT).is_some(),
            _ => {
                let told = self.caller.call(r#"{"prefix":"status"}"#, STATUS);
                told.is_ok_and(|answer| answer.result == 0 && is_active(&answer.text))
            }
        }
    }

    fn stop(&mut self) -> bool {
        self.caller.stop();
        false
    }
}

/// Says whether an OSD that answers so to `status` serves.
pub(crate) fn is_active(status: &str) -> bool {
    serde_json::from_str::<serde_json::Value>(status).is_ok_and(|status| status["state"] == "active")
}

/// A daemon's answer to `command` (JSON), if it comes soon and is no error.
pub(crate) fn ask(caller: &Caller, command: &str, patience: Duration) -> Option<serde_json::Value> {
    let answer = caller.call(command, patience).ok()?;
    (answer.result == 0).then(|| serde_json::from_str(&answer.text).unwrap_or_default())
}

/// Parts of a daemon.
pub(crate) struct Makings {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) setup: Setup,
    pub(crate) log: Log,
    /// Makes its machine, in its thread.
    pub(crate) make: Box<dyn FnOnce() -> Box<dyn Node> + Send>,
}

impl Daemon {
    /// Starts one thread for several daemons. The end of each is told to `events`.
    pub(crate) fn start_together(mut all: Vec<Makings>, events: Sender<Event>) -> Result<Vec<Self>> {
        let mut daemons = Vec::new();
        for Makings { name, kind, setup, log, .. } in &mut all {
            let (caller, inbox) = runtime::mailbox().context("make a mailbox")?;
            setup.inbox = Some(inbox);
            setup.log = Box::new(log.clone());
            daemons.push(Self { name: name.clone(), kind: *kind, caller });
        }
        let thread = thread_name(&daemons);
        let body = move || run(all, &events);
        std::thread::Builder::new().name(thread.clone()).spawn(body).with_context(|| format!("start a thread for {thread}"))?;
        Ok(daemons)
    }
}

/// `osd.0` of one, `osd.0+2` of three: the kernel shows 15 bytes.
fn thread_name(daemons: &[Daemon]) -> String {
    match daemons {
        [] => String::new(),
        [one] => one.name.clone(),
        [first, rest @ ..] => format!("{}+{}", first.name, rest.len()),
    }
}

/// Runs the machines of a thread, and tells how each ended.
fn run(all: Vec<Makings>, events: &Sender<Event>) {
    let (mut running, mut machines) = (BTreeMap::new(), Vec::new());
    for (at, Makings { name, setup, log, make, .. }) in all.into_iter().enumerate() {
        running.insert(at, (name, log));
        machines.push((make, setup));
    }
    let done = std::panic::catch_unwind(AssertUnwindSafe(|| {
        let machines = machines.into_iter().map(|(make, setup)| (make(), setup)).collect();
        runtime::run_together(machines, &mut |at, end| {
            let (name, log) = running.remove(&at).expect("each ends once");
            tell(name, &log, end.map_or_else(|e| Ended::Failed(e.to_string()), |()| Ended::Clean), events);
        })
    }));
    // One that panics takes those of its thread with it, as a driver that fails does.
    for (name, log) in running.into_values() {
        let ended = match &done {
            Ok(Ok(())) => Ended::Clean,
            Ok(Err(e)) => Ended::Failed(e.to_string()),
            Err(_) => Ended::Panicked,
        };
        tell(name, &log, ended, events);
    }
}

fn tell(name: String, log: &Log, ended: Ended, events: &Sender<Event>) {
    match &ended {
        Ended::Clean => log.say(Level::Info, "stopped"),
        Ended::Failed(why) => log.say(Level::Error, why),
        Ended::Panicked => log.say(Level::Error, "ended by a panic; the log of `nacre` has its place"),
    }
    // Nobody listens any more if the process is ending; that is fine.
    let _ = events.send(Event::Ended(name, ended));
}

/// Writes panics, with the way to them, into `log` and to standard error; and a report for the cluster into `dir`.
pub(crate) fn log_panics(log: Log, dir: &Path) {
    let dir = dir.to_owned();
    std::panic::set_hook(Box::new(move |info| {
        let thread = std::thread::current();
        let way = std::backtrace::Backtrace::force_capture();
        let text = format!("{}: {info}", thread.name().unwrap_or("a thread"));
        eprintln!("nacre: {text}");
        log.say(Level::Error, format!("{text}\n{way}"));
        let place = info.location().map(|place| (place.file(), place.line()));
        crash::note(&dir, thread.name().unwrap_or_default(), &info.to_string(), place, &way.to_string());
    }));
}
