//! A process with daemons: how they start, serve, end and are stopped.

use crate::admin::Sockets;
use crate::cli::Common;
use crate::daemon::{self, Daemon, Makings};
use crate::events::{Duties, Ended, Event, Wanted};
use crate::log::{Log, Logs};
use crate::memory::Watch;
use crate::monitors;
use crate::osds::{Prepared, mail_id};
use crate::plan::Content;
use crate::service::{Kind, Service, Waits};
use crate::supervisor;
use crate::threads;
use anyhow::{Context, Result, bail};
use node::{Level, ListenerId, MailId};
use runtime::process::Signals;
use runtime::{Caller, PostOffice, Setup};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time for which OSDs that serve wait for others that do not, before this process says that it is ready.
const PATIENCE: Duration = Duration::from_secs(60);
/// Interval at which it is checked whether all daemons serve.
pub(crate) const POLL: Duration = Duration::from_millis(3);
/// Time that daemons may take to stop before the terminal says what it waits for.
const STOP_QUIETLY: Duration = Duration::from_secs(3);
/// Time that daemons may take to stop after one of them failed.
const STOP_AFTER_FAILURE: Duration = Duration::from_secs(10);

/// Step that a process takes when it hears what the cluster wants.
pub(crate) type Follow<'a> = &'a mut dyn FnMut(&mut Process, &Duties) -> Result<()>;

/// The daemons that run, by name, for other threads.
#[derive(Clone, Default)]
pub(crate) struct Roster(Arc<Mutex<Vec<(String, Caller)>>>);

impl Roster {
    fn set(&self, all: Vec<(String, Caller)>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = all;
    }

    /// The daemons that run now, monitors first.
    pub(crate) fn daemons(&self) -> Vec<(String, Caller)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A process with daemons.
pub(crate) struct Process {
    dir: PathBuf,
    logs: Logs,
    pub(crate) log: Log,
    pub(crate) events: Receiver<Event>,
    pub(crate) sender: Sender<Event>,
    /// Services that run, by kind in the order in which kinds start.
    services: Vec<Box<dyn Service>>,
    /// Services that were told to stop while the process goes on, and who waits for the end of each.
    leaving: Vec<(String, Option<Sender<()>>)>,
    sockets: Vec<Sockets>,
    /// Names of those that run now, for others.
    roster: Roster,
    /// Carries mail between the OSDs.
    post: PostOffice,
    /// Takes OSDs that start later among those that share memory.
    members: Option<Sender<Caller>>,
    /// All services are told to stop.
    ends: bool,
    /// Something went wrong: the exit code tells.
    failed: bool,
}

/// Tells who waits for an end, and may have gone, that it has come.
fn hear(told: Option<Sender<()>>) {
    if let Some(told) = told {
        let _ = told.send(());
    }
}

impl Process {
    /// A process without daemons. Signals and panics are heard from now on.
    pub(crate) fn new(dir: &Path, logs: Logs, signals: Signals) -> Result<Self> {
        let log = logs.log("nacre");
        daemon::log_panics(log.clone(), dir);
        runtime::process::raise_file_limit().context("raise the limit of open files")?;
        if let Err(e) = runtime::process::refuse_huge_pages() {
            log.say(node::Level::Debug, format!("huge pages cannot be refused: {e}"));
        }
        if std::process::id() == 1 {
            runtime::process::reap_children().context("take over the children of others")?;
        }
        let (sender, events) = channel();
        supervisor::hear_signals(signals, logs.clone(), sender.clone())?;
        Ok(Self {
            dir: dir.to_owned(),
            logs,
            log,
            events,
            sender,
            services: Vec::new(),
            leaving: Vec::new(),
            sockets: Vec::new(),
            roster: Roster::default(),
            post: PostOffice::default(),
            members: None,
            ends: false,
            failed: false,
        })
    }

    /// Starts and serves; stops the daemons that run, however that ended. Gives the exit code.
    pub(crate) fn run(&mut self, serve: impl FnOnce(&mut Self) -> Result<()>) -> Result<u8> {
        let served = serve(self);
        if let Err(e) = &served {
            self.failed = true;
            self.log.say(Level::Error, format!("{e:#}"));
        }
        self.stop();
        served.map(|()| self.failed.into())
    }

    fn setup(&self, common: &Common) -> Setup {
        Setup {
            driver: common.driver.into(),
            level: common.log.into(),
            spin: common.spin.map(Duration::from_micros),
            ..Setup::new()
        }
    }

    /// Takes in what was started.
    pub(crate) fn add(&mut self, services: impl IntoIterator<Item = Box<dyn Service>>) {
        self.services.extend(services);
        self.services.sort_by_key(|service| service.kind());
        self.roster.set(self.callers(|_| true));
    }

    /// Starts a monitor.
    pub(crate) fn start_mon(&mut self, name: &str, parts: monitors::Parts, common: &Common) -> Result<()> {
        let mut setup = self.setup(common);
        setup.listeners = parts.listeners;
        setup.devices = parts.devices;
        let (config, seed, name) = (parts.config, parts.seed, format!("mon.{name}"));
        let make = Box::new(move || -> Box<dyn node::Node> { Box::new(mon::Monitor::new(config, seed)) });
        let log = self.logs.log(&name);
        let daemons = Daemon::start_together(vec![Makings { name, kind: Kind::Monitor, setup, log, make }], self.sender.clone())?;
        self.add(daemons.into_iter().map(|daemon| -> Box<dyn Service> { Box::new(daemon) }));
        Ok(())
    }

    /// Tells a service to stop; the process goes on. `told` hears when it is over.
    pub(crate) fn dismiss(&mut self, name: &str, told: Option<Sender<()>>) {
        let known = self.services.iter_mut().find(|service| service.name() == name);
        if known.is_none_or(|service| service.stop()) {
            self.forget(name);
            hear(told);
        } else {
            self.leaving.push((name.to_owned(), told));
        }
    }

    /// Does what somebody at this host wants.
    fn obey(&mut self, wanted: Wanted) {
        match wanted {
            Wanted::Start(prepared, common, answer) => {
                let started = self.start_later(*prepared, &common).map_err(|e| format!("{e:#}"));
                // Who asked may have gone.
                let _ = answer.send(started);
            }
            Wanted::Stop(name, answer) => {
                self.log.say(Level::Info, format!("{name} is told to stop"));
                self.dismiss(&name, Some(answer));
            }
        }
    }

    /// Starts an OSD beside those that run, on a thread of its own.
    fn start_later(&mut self, mut prepared: Prepared, common: &Common) -> Result<Caller> {
        let (name, whoami) = (prepared.name.clone(), prepared.config.whoami);
        if self.services.iter().any(|service| service.name() == name) {
            bail!("{name} runs already");
        }
        let mut all = self.neighbours();
        all.insert(whoami, mail_id(whoami));
        // Before it is there: they take what it sends first.
        self.tell_neighbours(&all);
        prepared.config.neighbours = all;
        self.start_osds(vec![prepared], common)?;
        self.open_socket(&name)?;
        let caller = self.services.iter().find(|service| service.name() == name).and_then(|service| service.caller().cloned());
        let caller = caller.with_context(|| format!("{name} has no mailbox"))?;
        if let Some(members) = &self.members {
            members.send(caller.clone()).ok().context("the thread for memory is gone")?;
        }
        self.log.say(Level::Info, format!("{name} is started beside the others"));
        Ok(caller)
    }

    /// The OSDs that run, and how mail is addressed to each.
    fn neighbours(&self) -> BTreeMap<i32, MailId> {
        let osds = self.services.iter().filter(|service| service.kind() == Kind::Osd);
        let ids = osds.filter_map(|service| service.name().strip_prefix("osd.")?.parse().ok());
        ids.map(|osd| (osd, mail_id(osd))).collect()
    }

    /// Tells the OSDs who is in this process.
    fn tell_neighbours(&self, all: &BTreeMap<i32, MailId>) {
        let process = self.post.outside();
        for to in self.neighbours().into_values() {
            // One that has ended needs it no more.
            let _ = process.send(to, Box::new(osd::Neighbours(all.clone())));
        }
    }

    /// Returns how many daemons there are, in words.
    pub(crate) fn what(&self) -> String {
        let some = |n: usize, one: &str| match n {
            0 => None,
            1 => Some(format!("1 {one}")),
            n => Some(format!("{n} {one}s")),
        };
        let words = Kind::ALL.into_iter().filter_map(|kind| some(self.count(kind), kind.word()?));
        words.collect::<Vec<_>>().join(", ")
    }

    /// Starts OSDs: each on a thread of its own where there are processors enough, else several on one (see
    /// [`threads`]).
    pub(crate) fn start_osds(&mut self, prepared: Vec<Prepared>, common: &Common) -> Result<()> {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = common.osd_threads.map_or_else(|| threads::default(prepared.len(), processors), usize::from);
        for group in threads::groups(prepared, threads) {
            let ids: Vec<_> = group.iter().map(|osd| mail_id(osd.config.whoami)).collect();
            let all = group.into_iter().map(|osd| self.osd_makings(osd, common)).collect();
            let daemons = Daemon::start_together(all, self.sender.clone())?;
            ids.into_iter().zip(&daemons).for_each(|(id, daemon)| self.post.register(id, &daemon.caller));
            self.add(daemons.into_iter().map(|daemon| -> Box<dyn Service> { Box::new(daemon) }));
        }
        Ok(())
    }

    fn osd_makings(&self, prepared: Prepared, common: &Common) -> Makings {
        let Prepared { name, listener, cluster_listener, devices, config, store, content } = prepared;
        let mut setup = self.setup(common);
        setup.listeners = vec![(ListenerId(0), listener)];
        setup.listeners.extend(cluster_listener.map(|listener| (ListenerId(1), listener)));
        setup.devices = devices;
        setup.post = Some((mail_id(config.whoami), self.post.clone()));
        let make = Box::new(move || -> Box<dyn node::Node> {
            let store = if content == Content::Store { store::Store::open(store) } else { store::Store::create(store) };
            Box::new(osd::Osd::new(config, Box::new(store)))
        });
        let log = self.logs.log(&name);
        Makings { name, kind: Kind::Osd, setup, log, make }
    }

    /// From now on the OSDs have what there is.
    pub(crate) fn share_memory(&mut self, watch: Watch) -> Result<()> {
        let osds = self.callers(|service| service.kind() == Kind::Osd);
        let (members, later) = channel();
        self.members = Some(members);
        watch.run(osds.into_iter().map(|(_, caller)| caller), later).context("start a thread for memory")
    }

    /// The list of those who run, which follows what happens.
    pub(crate) fn roster(&self) -> Roster {
        self.roster.clone()
    }

    /// Names of machines, and for requests to them.
    fn callers(&self, which: impl Fn(&dyn Service) -> bool) -> Vec<(String, Caller)> {
        let some = self.services.iter().filter(|service| which(service.as_ref()));
        some.filter_map(|service| Some((service.name().to_owned(), service.caller()?.clone()))).collect()
    }

    fn count(&self, kind: Kind) -> usize {
        self.services.iter().filter(|service| service.kind() == kind).count()
    }

    /// Opens the sockets of all daemons.
    pub(crate) fn open_sockets(&mut self) -> Result<()> {
        let sockets = Sockets::open(&self.dir, self.callers(|_| true).into_iter())?;
        self.sockets.push(sockets);
        Ok(())
    }

    /// Keeps other sockets as long as the process.
    pub(crate) fn keep(&mut self, sockets: Sockets) {
        self.sockets.push(sockets);
    }

    /// Opens the socket of a daemon that was started later.
    pub(crate) fn open_socket(&mut self, name: &str) -> Result<()> {
        let one = self.callers(|service| service.name() == name);
        let sockets = Sockets::open(&self.dir, one.into_iter())?;
        self.sockets.push(sockets);
        Ok(())
    }

    /// Waits until the monitors and all OSDs serve, or until some OSDs do and the others have not for [`PATIENCE`]: one
    /// that the monitors refuse, or that reads a long journal, must not keep the service manager waiting for the rest.
    /// Gives the OSDs that do not serve. None if it was told to stop before.
    pub(crate) fn until_serving(&mut self, heed: Follow<'_>) -> Result<Option<BTreeSet<String>>> {
        let begin = Instant::now();
        let mut ready: BTreeSet<String> = BTreeSet::new();
        let mut told = false;
        loop {
            let (needed, others) = (self.lacking(Waits::ForAll, &ready), self.lacking(Waits::ForOthers, &ready));
            let some_serve =
                others.len() < self.services.iter().filter(|service| service.kind().waits() == Waits::ForOthers).count();
            let late = some_serve && begin.elapsed() > PATIENCE;
            if needed.is_empty() && (others.is_empty() || late) {
                return Ok(Some(others));
            }
            match self.events.recv_timeout(POLL) {
                Ok(Event::Signal(_)) => return Ok(None),
                Ok(Event::Duties(duties)) => heed(self, &duties)?,
                Ok(Event::Wanted(wanted)) => self.obey(wanted),
                Ok(Event::Ended(name, _)) if self.has_left(&name) => {}
                Ok(Event::Ended(name, ended)) => {
                    self.forget(&name);
                    bail!("{}", ended.sentence(&name));
                }
                Err(_) => {}
            }
            self.look(Waits::ForAll, &mut ready);
            if !self.lacking(Waits::ForAll, &ready).is_empty() {
                continue;
            }
            self.look(Waits::ForOthers, &mut ready);
            let waiting = self.lacking(Waits::ForOthers, &ready);
            if !told && !waiting.is_empty() && begin.elapsed() > Duration::from_secs(10) {
                told = true;
                let waits = waiting.into_iter().collect::<Vec<_>>().join(", ");
                supervisor::tell(&format!("STATUS=waiting for {waits}"));
                eprintln!("nacre: still waiting for {waits}; the log is in {}", self.logs.place());
            }
        }
    }

    /// Names of the services that are waited for in this way and are not ready.
    fn lacking(&self, waits: Waits, ready: &BTreeSet<String>) -> BTreeSet<String> {
        let some = self.services.iter().filter(|service| service.kind().waits() == waits && !ready.contains(service.name()));
        some.map(|service| service.name().to_owned()).collect()
    }

    /// Asks the services that are waited for in this way and were not ready whether they serve.
    fn look(&self, waits: Waits, ready: &mut BTreeSet<String>) {
        let lacking = self.lacking(waits, ready);
        let serving = self.services.iter().filter(|service| lacking.contains(service.name()) && service.serves());
        ready.extend(serving.map(|service| service.name().to_owned()));
    }

    /// Waits for a signal. An OSD that cannot go on leaves the others running, unless it is the last. `heed` is called
    /// with what the cluster wants.
    pub(crate) fn until_told(&mut self, heed: Follow<'_>) -> Result<()> {
        loop {
            match self.events.recv().context("wait for events")? {
                Event::Duties(duties) => heed(self, &duties)?,
                Event::Wanted(wanted) => self.obey(wanted),
                Event::Ended(name, _) if self.has_left(&name) => {}
                Event::Signal(signal) => {
                    self.log.say(Level::Info, format!("told to stop by signal {signal}"));
                    return Ok(());
                }
                Event::Ended(name, ended) => {
                    let kind = self.services.iter().find(|service| service.name() == name).map(|service| service.kind());
                    self.note_end(&name, &ended);
                    let was_last = kind.is_some_and(|kind| kind.is_vital() && self.count(kind) == 0);
                    if was_last || matches!(ended, Ended::Panicked) {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Returns true if this was a service that was told to stop; it is forgotten.
    fn has_left(&mut self, name: &str) -> bool {
        let Some(at) = self.leaving.iter().position(|(leaving, _)| leaving == name) else { return false };
        let (_, told) = self.leaving.remove(at);
        self.forget(name);
        hear(told);
        true
    }

    /// A service is over.
    pub(crate) fn forget(&mut self, name: &str) {
        let was_osd = self.services.iter().any(|service| service.name() == name && service.kind() == Kind::Osd);
        self.services.retain(|service| service.name() != name);
        self.roster.set(self.callers(|_| true));
        if was_osd && !self.ends {
            // Another host may have an OSD of that number next.
            self.tell_neighbours(&self.neighbours());
        }
    }

    fn note_end(&mut self, name: &str, ended: &Ended) {
        self.forget(name);
        if !matches!(ended, Ended::Clean) {
            self.failed = true;
            let sentence = ended.sentence(name);
            eprintln!("nacre: {sentence}");
            self.log.say(Level::Error, sentence);
        }
    }

    /// Stops all services, kind by kind: the monitors last. A second signal ends the process at once.
    fn stop(&mut self) {
        self.log.say(Level::Info, "stopping");
        self.ends = true;
        supervisor::tell("STOPPING=1\nSTATUS=stopping");
        let deadline = self.failed.then(|| Instant::now() + STOP_AFTER_FAILURE);
        for kind in Kind::ALL.into_iter().rev() {
            self.services.retain_mut(|service| service.kind() != kind || !service.stop());
            self.await_ends(deadline, kind);
        }
        self.log.say(Level::Info, "stopped");
    }

    /// Waits until no service of a kind runs.
    fn await_ends(&mut self, deadline: Option<Instant>, kind: Kind) {
        let (begin, mut told) = (Instant::now(), false);
        while self.count(kind) > 0 {
            let left = deadline.map_or(STOP_QUIETLY, |d| d.saturating_duration_since(Instant::now()));
            match self.events.recv_timeout(left) {
                Ok(Event::Ended(name, ended)) => self.note_end(&name, &ended),
                Ok(Event::Duties(_) | Event::Wanted(_)) => {}
                Ok(Event::Signal(_)) => {
                    self.log.say(Level::Warn, "ended by a second signal");
                    std::process::exit(1);
                }
                Err(RecvTimeoutError::Timeout) if deadline.is_some() => return,
                Err(_) => {}
            }
            if !told && begin.elapsed() >= STOP_QUIETLY {
                told = true;
                let waiting = self.services.iter().filter(|service| service.kind() == kind);
                let names: Vec<&str> = waiting.map(|service| service.name()).collect();
                eprintln!(
                    "nacre: {} still stop; an OSD that cannot write its last state gives up after some seconds and ends as after a kill. A second \
                     signal ends them at once; the log is in {}",
                    names.join(", "),
                    self.logs.place()
                );
            }
        }
    }
}
