//! A machine on a thread of its own.

use crate::log::Log;
use anyhow::{Context, Result};
use node::{Level, Node};
use runtime::{Caller, Setup};
use std::panic::AssertUnwindSafe;
use std::sync::mpsc::Sender;
use std::time::Duration;

/// What the process is told.
pub(crate) enum Event {
    /// SIGTERM or SIGINT; SIGHUP of a terminal that is gone.
    Signal(i32),
    /// A daemon is over.
    Ended(String, Ended),
    /// What the cluster wants of this host.
    Duties(crate::follow::Duties),
}

/// How a daemon ended.
pub(crate) enum Ended {
    /// As it was told.
    Clean,
    /// It said why it cannot go on.
    Failed(String),
    /// A bug. Its log has the place.
    Panicked,
}

/// A daemon that runs.
pub(crate) struct Daemon {
    /// `osd.0`, `mon.a`
    pub(crate) name: String,
    /// For requests.
    pub(crate) caller: Caller,
}

impl Daemon {
    /// Starts a thread for the machine that `make` makes. Its end is told to `events`.
    pub(crate) fn start(
        name: &str,
        mut setup: Setup,
        log: Log,
        events: Sender<Event>,
        make: impl FnOnce() -> Box<dyn Node> + Send + 'static,
    ) -> Result<Self> {
        let (caller, inbox) = runtime::mailbox().context("make a mailbox")?;
        setup.inbox = Some(inbox);
        setup.log = Box::new(log.clone());
        let told = name.to_owned();
        let body = move || {
            let ended = match std::panic::catch_unwind(AssertUnwindSafe(|| runtime::run(make(), setup))) {
                Ok(Ok(())) => Ended::Clean,
                Ok(Err(e)) => Ended::Failed(e.to_string()),
                Err(_) => Ended::Panicked,
            };
            match &ended {
                Ended::Clean => log.say(Level::Info, "stopped"),
                Ended::Failed(why) => log.say(Level::Error, why),
                Ended::Panicked => log.say(Level::Error, "ended by a panic; the log of `nacre` has its place"),
            }
            // Nobody listens any more if the process is ending; that is fine.
            let _ = events.send(Event::Ended(told, ended));
        };
        std::thread::Builder::new().name(name.to_owned()).spawn(body).with_context(|| format!("start a thread for {name}"))?;
        Ok(Self { name: name.to_owned(), caller })
    }

    /// Its answer to `command` (JSON), if it comes soon and is no error.
    pub(crate) fn ask(&self, command: &str, patience: Duration) -> Option<serde_json::Value> {
        let answer = self.caller.call(command, patience).ok()?;
        (answer.result == 0).then(|| serde_json::from_str(&answer.text).unwrap_or_default())
    }
}

/// Writes panics, with the way to them, into `log` and to standard error.
pub(crate) fn log_panics(log: Log) {
    std::panic::set_hook(Box::new(move |info| {
        let thread = std::thread::current();
        let way = std::backtrace::Backtrace::force_capture();
        let text = format!("{}: {info}", thread.name().unwrap_or("a thread"));
        eprintln!("nacre: {text}");
        log.say(Level::Error, format!("{text}\n{way}"));
    }));
}
