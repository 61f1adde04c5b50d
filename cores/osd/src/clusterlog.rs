//! The session with a monitor: maps, configuration, keys come in; boot, reports, the cluster log go out.

use messages::mon::{LogEntry, MonSubscribe, SubscribeItem};
use msgr::{Messenger, Policy};
use node::{Mono, Now, Outputs};
use std::collections::BTreeMap;
use std::time::Duration;
use types::{EntityAddrVec, EntityType, Epoch, Message, SessionId};

/// First and longest pause before the next monitor is tried.
const RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(3));
/// A connection attempt that takes longer is given up.
const PATIENCE: Duration = Duration::from_secs(5);
/// Lines for the cluster log that wait for a monitor; older ones are dropped.
const LOG_LINES: usize = 256;

enum State {
    /// Wait until then, and try the next monitor.
    Apart { until: Mono },
    /// A session is being opened; give up then.
    Opening { session: SessionId, until: Mono },
    /// It stands.
    Open { session: SessionId },
}

/// The link to the monitors.
pub(crate) struct MonLink {
    monitors: Vec<EntityAddrVec>,
    next: usize,
    pause: Duration,
    state: State,
    /// A session stood once.
    was_open: bool,
    hostname: String,
    log: Vec<LogEntry>,
}

impl MonLink {
    pub(crate) fn new(monitors: Vec<EntityAddrVec>, hostname: String) -> Self {
        Self {
            monitors,
            next: 0,
            pause: RETRY.0,
            state: State::Apart { until: Mono(0) },
            was_open: false,
            hostname,
            log: Vec::new(),
        }
    }

    /// The session, if it stands.
    pub(crate) fn session(&self) -> Option<SessionId> {
        match self.state {
            State::Open { session } => Some(session),
            _ => None,
        }
    }

    /// Whether a session with a monitor ever stood.
    pub(crate) fn was_open(&self) -> bool {
        self.was_open
    }

    /// Whether this session is the one with the monitor (standing or not).
    pub(crate) fn owns(&self, id: SessionId) -> bool {
        matches!(self.state, State::Opening { session, .. } | State::Open { session } if session == id)
    }

    /// The session stands: subscribe to maps after `epoch` and to the configuration.
    pub(crate) fn opened(&mut self, session: SessionId, epoch: Epoch, msgr: &mut Messenger) {
        self.state = State::Open { session };
        self.was_open = true;
        self.pause = RETRY.0;
        msgr.send(session, self.subscription(epoch));
    }

    /// What asks for all maps after `epoch`, and for the configuration.
    pub(crate) fn subscription(&self, epoch: Epoch) -> Message {
        let start = if epoch == 0 { 0 } else { u64::from(epoch) + 1 };
        let item = |start| SubscribeItem { start, flags: 0 };
        let what = BTreeMap::from([("config".to_owned(), item(0)), ("osdmap".to_owned(), item(start))]);
        MonSubscribe { what, hostname: self.hostname.clone() }.encode()
    }

    /// The session is gone.
    pub(crate) fn closed(&mut self, now: Now) {
        self.state = State::Apart { until: now.mono.plus(self.pause) };
        self.pause = (self.pause * 2).min(RETRY.1);
    }

    /// Queues a line for the cluster log.
    pub(crate) fn log(&mut self, entry: LogEntry) {
        if self.log.len() == LOG_LINES {
            self.log.remove(0);
        }
        self.log.push(entry);
    }

    /// The lines that can go out now.
    pub(crate) fn take_log(&mut self) -> Vec<LogEntry> {
        if self.session().is_some() { std::mem::take(&mut self.log) } else { Vec::new() }
    }

    /// Opens a session if it is time to.
    pub(crate) fn turn(&mut self, now: Now, msgr: &mut Messenger, out: &mut Outputs) {
        match self.state {
            State::Apart { until } if until <= now.mono && !self.monitors.is_empty() => {
                let to = &self.monitors[self.next % self.monitors.len()];
                self.next += 1;
                let Some(to) = to.msgr2() else { return };
                let session = msgr.connect(now, *to, EntityType::Mon, Policy::Lossy, out);
                self.state = State::Opening { session, until: now.mono.plus(PATIENCE) };
            }
            State::Opening { session, until } if until <= now.mono => {
                msgr.close(session);
                self.closed(now);
            }
            _ => {}
        }
    }

    /// When `turn` must be called.
    pub(crate) fn deadline(&self) -> Mono {
        match self.state {
            State::Apart { until } | State::Opening { until, .. } => until,
            State::Open { .. } => Mono::NEVER,
        }
    }
}
