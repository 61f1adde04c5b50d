//! `nacre up`, `nacre mon`, `nacre osd`: daemons of the cluster in DIR, in the foreground.

use crate::admin::Sockets;
use crate::cli::{Common, Osd, Up};
use crate::conf::{self, Conf};
use crate::daemon::{self, Daemon, Ended, Event};
use crate::follow::{self, Duties};
use crate::keys;
use crate::log::{Log, Logs};
use crate::memory::Watch;
use crate::monitors;
use crate::osds::{Memory, Place, Prepared, mail_id};
use crate::plan::{self, Content};
use crate::service;
use crate::state::{self, Lock, MonState, OsdState, State};
use anyhow::{Context, Result, bail};
use node::{Level, ListenerId};
use runtime::process::Signals;
use runtime::{PostOffice, Setup};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};
use types::EntityName;

/// How often it is looked whether all daemons serve.
const POLL: Duration = Duration::from_millis(3);
/// How long daemons may take to stop after one of them failed.
const STOP_AFTER_FAILURE: Duration = Duration::from_secs(10);

/// How long OSDs may take to tell their newest map: they read their journals first.
const ASKED: Duration = Duration::from_secs(60);

/// What the administrator may do.
pub(crate) const ADMIN_CAPS: &[(&str, &str)] = &[("mds", "allow *"), ("mgr", "allow *"), ("mon", "allow *"), ("osd", "allow *")];
/// What monitors may do.
pub(crate) const MON_CAPS: &[(&str, &str)] = &[("mon", "allow *")];
const MGR_CAPS: &[(&str, &str)] = &[("mds", "allow *"), ("mon", "allow profile mgr"), ("osd", "allow *")];
/// What OSDs may do.
pub(crate) const OSD_CAPS: &[(&str, &str)] = &[("mgr", "allow profile osd"), ("mon", "allow profile osd"), ("osd", "allow *")];

/// Which daemons run in this process.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Role {
    /// All.
    Everything,
    /// One monitor alone: its name.
    Monitor(String),
}

/// What a process does when it hears what the cluster wants.
type Follow<'a> = &'a mut dyn FnMut(&mut Process, &Duties) -> Result<()>;

/// A process with daemons.
pub(crate) struct Process {
    dir: PathBuf,
    logs: Logs,
    pub(crate) log: Log,
    events: Receiver<Event>,
    sender: Sender<Event>,
    mons: Vec<Daemon>,
    osds: Vec<Daemon>,
    /// Monitors that were told to stop while the process goes on.
    leaving: Vec<String>,
    sockets: Vec<Sockets>,
    /// Carries mail between the OSDs.
    post: PostOffice,
    /// Something went wrong: the exit code tells.
    failed: bool,
}

/// Runs `nacre up` or `nacre mon`; gives the exit code.
pub(crate) fn up(args: &Up, role: &Role, signals: Signals) -> Result<u8> {
    let dir = std::path::absolute(&args.dir).with_context(|| args.dir.display().to_string())?;
    let shown = dir.display().to_string();
    Lock::check(&lock_path(&dir, role), &shown)?;
    let (mut state, new) = match State::load(&dir)? {
        Some(state) => (state, false),
        None => {
            crate::leave::refuse_left(&dir)?;
            (State::new()?, true)
        }
    };
    let before = state.clone();
    plan::osds(&mut state, args)?;
    monitors::plan(&mut state, args)?;
    for osd in &state.osds {
        plan::usable(osd, &dir).with_context(|| format!("osd.{}", osd.id))?;
    }
    let bind = state.bind(args.bind);
    let which = wanted_monitors(&state, role, &dir)?;
    let mons = monitors::listen(&state, &dir, &which, bind, args.port)?;

    // From here on, things change on disk.
    state::make_folder(&dir)?;
    let folders = which.iter().map(|m| m.folder(&dir)).chain([dir.join("mon")]);
    folders.into_iter().try_for_each(|folder| state::make_folder(&folder))?;
    let _lock = Lock::take(&lock_path(&dir, role), &shown)?;
    let logs = Logs::of(&dir, args.common.log_file.as_deref(), state.log_file.as_deref())?;
    let mut process = Process::new(&dir, logs, signals)?;
    if state.around.is_some() {
        // Their numbers must be none of other hosts.
        let fresh: Vec<_> =
            state.osds.iter_mut().filter(|o| before.osds.iter().all(|b| b.uuid().ok() != o.uuid().ok())).collect();
        if !fresh.is_empty() {
            crate::join::number_osds(&dir, fresh.into_iter(), &crate::token::administrator(&dir)?)?;
        }
    }
    let keys = initial_keys(&dir, &state)?;
    if new || state != before {
        let planned = state.clone();
        state.change(&dir, |now| *now = planned.with_what_was_made(now))?;
    }
    process.log.say(
        Level::Info,
        format!("nacre {} starts: cluster {}, {} OSDs", env!("CARGO_PKG_VERSION"), state.fsid()?, state.osds.len()),
    );

    process.run(|process| {
        // What may be refused comes before anything runs.
        let auth = state.auth(args.auth);
        let own: Vec<(String, SocketAddr)> = mons.iter().map(|m| (m.name.clone(), m.addr)).collect();
        let all = state.all_monitors(&own, bind, args.port);
        let wanted: Vec<_> = state.osds.iter().filter(|_| *role == Role::Everything).collect();
        let mut watch = Watch::new(args.memory, process.log.clone());
        let memory = Memory { first: watch.begin(wanted.len()), ceiling: args.memory };
        let numbers = wanted.iter().filter_map(|osd| i32::try_from(osd.id).ok());
        let neighbours = numbers.map(|osd| (osd, mail_id(osd))).collect();
        let monitors = all.iter().map(|a| monitors::at(*a)).collect();
        let place = Place { dir: &dir, fsid: state.fsid()?, monitors, auth, bind, memory, neighbours };
        let osds = wanted.into_iter().map(|osd| place.prepare(osd)).collect::<Result<Vec<_>>>()?;
        for mon in mons {
            let name = mon.name.clone();
            let parts = mon.open(state.fsid()?, auth, bind, keys.clone(), &all)?;
            process.start_mon(&name, parts, &args.common)?;
        }
        for osd in osds {
            process.start_osd(osd, &args.common)?;
        }
        process.share_memory(watch)?;
        process.open_sockets()?;
        let follows = *role == Role::Everything && !bind.is_loopback();
        if follows {
            // Who follows the cluster is a client, and may be asked for a monitor before this host serves.
            if state.around.is_none() || !dir.join("ceph.conf").exists() {
                keys::write_whole(&dir.join("ceph.conf"), &conf::text(&dir, state.fsid()?, &all, auth), 0o644)?;
            }
            follow::watch(dir.clone(), process.sender.clone())?;
        }
        let place = follow::Place { dir: &dir, auth, bind, port: args.port, common: &args.common };
        let mut heed = |process: &mut Process, duties: &Duties| follow::follow(process, &mut state, &place, duties);
        if process.until_serving(&mut heed)? {
            let all = state.all_monitors(&own, bind, args.port);
            keys::write_whole(&dir.join("ceph.conf"), &conf::text(&dir, state.fsid()?, &all, auth), 0o644)?;
            if *role == Role::Everything {
                // An address that could not be used is not remembered.
                state.change(&dir, |state| {
                    state.remember(args.bind, args.port, args.auth);
                    mark_made(state, |_| true);
                })?;
            }
            let what = process.what();
            let at = own.first().map_or(all.first().copied(), |(_, addr)| Some(*addr));
            let at = at.map_or(String::new(), |at| format!(" at [v2:{at}]"));
            println!("ready: {what}{at}; export CEPH_CONF={shown}/ceph.conf");
            service::tell(&format!("READY=1\nSTATUS=ready: {what}{at}"));
            if new && *role == Role::Everything {
                // Nobody need read on after the line that says `ready`.
                let _ = writeln!(std::io::stdout(), "{}", plan::copies(&state));
            }
            let mut heed = |process: &mut Process, duties: &Duties| follow::follow(process, &mut state, &place, duties);
            process.until_told(&mut heed)?;
        }
        Ok(())
    })
}

/// The monitors that this process runs.
fn wanted_monitors(state: &State, role: &Role, dir: &Path) -> Result<Vec<MonState>> {
    let all = state.monitors();
    match role {
        Role::Everything => Ok(all),
        Role::Monitor(name) => match all.into_iter().find(|m| m.name == *name) {
            Some(mon) => Ok(vec![mon]),
            None => bail!("the cluster in {} has no mon.{name}; `--mons 3` makes three", dir.display()),
        },
    }
}

/// Runs `nacre osd`; gives the exit code.
pub(crate) fn osd(args: &Osd, signals: Signals) -> Result<u8> {
    let dir = std::path::absolute(&args.dir).with_context(|| args.dir.display().to_string())?;
    let mut state = State::load(&dir)?
        .with_context(|| format!("{} holds no cluster; `nacre mon --dir DIR --osds N` makes one", dir.display()))?;
    let Some(osd) = state.osds.iter().find(|o| o.id == args.id).cloned() else {
        bail!(
            "the cluster in {} has no osd.{}; `nacre mon` with a larger --osds, or with --disk, adds one",
            dir.display(),
            args.id
        );
    };
    let conf = Conf::load(&dir)?;
    let name = format!("osd.{}", osd.id);
    let folder = osd.folder(&dir);
    plan::usable(&osd, &dir).with_context(|| name.clone())?;
    if osd.made && !folder.is_dir() {
        bail!("{name}: its folder {} is gone", folder.display());
    }
    state::make_folder(&folder)?;
    let _lock = Lock::take(&folder.join("lock"), &format!("{name} in {}", dir.display()))?;
    let logs = Logs::of(&dir, args.common.log_file.as_deref(), state.log_file.as_deref())?;
    let mut process = Process::new(&dir, logs, signals)?;
    process.run(|process| {
        let monitors = conf.mons.iter().map(|a| monitors::at(*a)).collect();
        let mut watch = Watch::new(args.memory, process.log.clone());
        let memory = Memory { first: watch.begin(1), ceiling: args.memory };
        let neighbours = BTreeMap::new();
        let place =
            Place { dir: &dir, fsid: state.fsid()?, monitors, auth: conf.auth, bind: state.bind(args.bind), memory, neighbours };
        process.start_osd(place.prepare(&osd)?, &args.common)?;
        process.share_memory(watch)?;
        process.open_sockets()?;
        if process.until_serving(&mut |_, _| Ok(()))? {
            state.change(&dir, |state| mark_made(state, |o| o.id == args.id))?;
            println!("ready: {name}");
            service::tell(&format!("READY=1\nSTATUS=ready: {name}"));
            process.until_told(&mut |_, _| Ok(()))?;
        }
        Ok(())
    })
}

/// The newest OSD map of each OSD of this host that can be asked: epoch, and bytes in hexadecimal. The OSDs run for a moment, without a
/// monitor and reachable for nobody.
pub(crate) fn newest_maps(dir: &Path, state: &State, signals: Signals) -> Result<BTreeMap<i32, (u32, String)>> {
    let logs = Logs::of(dir, None, state.log_file.as_deref())?;
    let mut process = Process::new(dir, logs, signals)?;
    let mut found = BTreeMap::new();
    process.run(|process| {
        let bind = IpAddr::from([127, 0, 0, 1]);
        let made: Vec<_> = state.osds.iter().filter(|osd| osd.made).collect();
        let mut watch = Watch::new(None, process.log.clone());
        let memory = Memory { first: watch.begin(made.len()), ceiling: None };
        let auth = state.auth(None);
        let (monitors, neighbours) = (Vec::new(), BTreeMap::new());
        let place = Place { dir, fsid: state.fsid()?, monitors, auth, bind, memory, neighbours };
        for osd in made {
            match place.prepare(osd) {
                Ok(prepared) => process.start_osd(prepared, &Common::default())?,
                Err(e) => eprintln!("osd.{} is not asked: {e:#}", osd.id),
            }
        }
        let end = Instant::now() + ASKED;
        while found.len() < process.osds.len() && Instant::now() < end {
            match process.events.recv_timeout(POLL) {
                Ok(Event::Signal(_)) => bail!("told to stop"),
                Ok(Event::Ended(name, ended)) => {
                    eprintln!("{} cannot be asked: {}", name, ended.sentence(&name));
                    process.forget(&name);
                }
                _ => {}
            }
            for osd in &process.osds {
                let id: Option<i32> = osd.name.strip_prefix("osd.").and_then(|id| id.parse().ok());
                let Some(id) = id.filter(|id| !found.contains_key(id)) else { continue };
                let Some(told) = osd.ask(r#"{"prefix":"newest_osdmap"}"#, Duration::from_millis(500)) else { continue };
                if let (Some(epoch), Some(map)) = (told["epoch"].as_u64(), told["full"].as_str()) {
                    found.insert(id, (u32::try_from(epoch).unwrap_or(u32::MAX), map.to_owned()));
                }
            }
        }
        Ok(())
    })?;
    Ok(found)
}

fn lock_path(dir: &Path, role: &Role) -> PathBuf {
    match role {
        Role::Everything => dir.join("lock"),
        Role::Monitor(name) => MonState { name: name.clone(), port: None, made: false }.folder(dir).join("lock"),
    }
}

/// Remembers that stores were made and have served: from now on one that is missing is a loss.
fn mark_made(state: &mut State, which: impl Fn(&OsdState) -> bool) {
    state.osds.iter_mut().filter(|o| which(o)).for_each(|o| o.made = true);
    state.mons.iter_mut().for_each(|m| m.made = true);
}

/// Keys of all daemons and of the administrator, from their keyrings; those that are missing are made, unless the monitor has others
/// already: a keyring with an invented key would only look as if it were the lost one.
pub(crate) fn initial_keys(dir: &Path, state: &State) -> Result<Vec<mon::InitialKey>> {
    let mut all = vec![
        (dir.join("mon/keyring"), "mon.".to_owned(), MON_CAPS),
        (dir.join("mon/mgr.keyring"), format!("mgr.{}", monitors::FIRST_MGR), MGR_CAPS),
    ];
    let admin = dir.join("keyring");
    match state.osds.iter().any(|o| o.made) && !admin.exists() {
        true => eprintln!("warning: {}", lost_key(&admin, dir, "client.admin")),
        false => all.push((admin, "client.admin".to_owned(), ADMIN_CAPS)),
    }
    for osd in &state.osds {
        let keyring = osd.folder(dir).join("keyring");
        if !osd.made {
            state::make_folder(&osd.folder(dir))?;
        } else if !keyring.exists() {
            continue;
        }
        all.push((keyring, format!("osd.{}", osd.id), OSD_CAPS));
    }
    let made = all.into_iter().map(|(path, name, caps)| {
        let key = keys::load_or_make(&path, &name, caps)?;
        let caps = caps.iter().map(|(service, cap)| ((*service).to_owned(), (*cap).to_owned())).collect();
        let name: EntityName = name.parse().map_err(|_| anyhow::anyhow!("'{name}' is not a name"))?;
        Ok(mon::InitialKey { name, key, caps })
    });
    made.collect()
}

/// What to do about a keyring that is gone although the monitor knows its key.
pub(crate) fn lost_key(path: &Path, dir: &Path, entity: &str) -> String {
    format!(
        "{} is gone, which held the key of {entity}. Put it back, or get it from the monitor (`nacre mon` runs it alone): \
         ceph -c {}/ceph.conf -n mon. -k {}/mon/keyring auth get {entity} -o {}",
        path.display(),
        dir.display(),
        dir.display(),
        path.display()
    )
}

impl Process {
    fn new(dir: &Path, logs: Logs, signals: Signals) -> Result<Self> {
        let log = logs.log("nacre");
        daemon::log_panics(log.clone());
        runtime::process::raise_file_limit().context("raise the limit of open files")?;
        if let Err(e) = runtime::process::refuse_huge_pages() {
            log.say(node::Level::Debug, format!("huge pages cannot be refused: {e}"));
        }
        if std::process::id() == 1 {
            runtime::process::reap_children().context("take over the children of others")?;
        }
        let (sender, events) = channel();
        service::hear_signals(signals, logs.clone(), sender.clone())?;
        Ok(Self {
            dir: dir.to_owned(),
            logs,
            log,
            events,
            sender,
            mons: Vec::new(),
            osds: Vec::new(),
            leaving: Vec::new(),
            sockets: Vec::new(),
            post: PostOffice::default(),
            failed: false,
        })
    }

    /// Starts and serves; stops the daemons that run, however that ended. Gives the exit code.
    fn run(&mut self, serve: impl FnOnce(&mut Self) -> Result<()>) -> Result<u8> {
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

    /// Starts a monitor.
    pub(crate) fn start_mon(&mut self, name: &str, parts: monitors::Parts, common: &Common) -> Result<()> {
        let mut setup = self.setup(common);
        setup.listeners = parts.listeners;
        setup.devices = parts.devices;
        let (config, seed, name) = (parts.config, parts.seed, format!("mon.{name}"));
        let make = move || -> Box<dyn node::Node> { Box::new(mon::Monitor::new(config, seed)) };
        let log = self.logs.log(&name);
        self.mons.push(Daemon::start(&name, setup, log, self.sender.clone(), make)?);
        Ok(())
    }

    /// Tells a monitor to stop; the process goes on.
    pub(crate) fn stop_mon(&mut self, name: &str) {
        if let Some(mon) = self.mons.iter().find(|m| m.name == name) {
            mon.caller.stop();
            self.leaving.push(name.to_owned());
        }
    }

    /// How many daemons there are, in words.
    fn what(&self) -> String {
        let some = |n: usize, one: &str| match n {
            0 => None,
            1 => Some(format!("1 {one}")),
            n => Some(format!("{n} {one}s")),
        };
        [some(self.mons.len(), "monitor"), some(self.osds.len(), "OSD")].into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    fn start_osd(&mut self, prepared: Prepared, common: &Common) -> Result<()> {
        let Prepared { name, listener, devices, config, store, content } = prepared;
        let mut setup = self.setup(common);
        setup.listeners = vec![(ListenerId(0), listener)];
        setup.devices = devices;
        let id = mail_id(config.whoami);
        setup.post = Some((id, self.post.clone()));
        let make = move || -> Box<dyn node::Node> {
            let store = if content == Content::Store { store::Store::open(store) } else { store::Store::create(store) };
            Box::new(osd::Osd::new(config, Box::new(store)))
        };
        let log = self.logs.log(&name);
        let daemon = Daemon::start(&name, setup, log, self.sender.clone(), make)?;
        self.post.register(id, &daemon.caller);
        self.osds.push(daemon);
        Ok(())
    }

    /// From now on the OSDs have what there is.
    fn share_memory(&self, watch: Watch) -> Result<()> {
        watch.run(self.osds.iter().map(|osd| osd.caller.clone())).context("start a thread for memory")
    }

    fn daemons(&self) -> impl Iterator<Item = &Daemon> {
        self.mons.iter().chain(&self.osds)
    }

    fn open_sockets(&mut self) -> Result<()> {
        let all = self.daemons().map(|d| (d.name.clone(), d.caller.clone()));
        let sockets = Sockets::open(&self.dir, all)?;
        self.sockets.push(sockets);
        Ok(())
    }

    /// Opens the socket of a daemon that was started later.
    pub(crate) fn open_socket(&mut self, name: &str) -> Result<()> {
        let one = self.daemons().filter(|d| d.name == name).map(|d| (d.name.clone(), d.caller.clone()));
        let sockets = Sockets::open(&self.dir, one)?;
        self.sockets.push(sockets);
        Ok(())
    }

    /// Waits until the monitor and all OSDs serve. False if it was told to stop before.
    fn until_serving(&mut self, heed: Follow<'_>) -> Result<bool> {
        let begin = Instant::now();
        let mut waiting: Vec<usize> = (0..self.osds.len()).collect();
        let mut ready: BTreeSet<String> = BTreeSet::new();
        let mut told = false;
        while self.mons.iter().any(|m| !ready.contains(&m.name)) || !waiting.is_empty() {
            match self.events.recv_timeout(POLL) {
                Ok(Event::Signal(_)) => return Ok(false),
                Ok(Event::Duties(duties)) => heed(self, &duties)?,
                Ok(Event::Ended(name, _)) if self.has_left(&name) => {}
                Ok(Event::Ended(name, ended)) => {
                    self.forget(&name);
                    bail!("{}", ended.sentence(&name));
                }
                Err(_) => {}
            }
            let fresh = self.mons.iter().filter(|m| !ready.contains(&m.name) && m.ask(r#"{"prefix":"ready"}"#, POLL).is_some());
            let fresh: Vec<String> = fresh.map(|m| m.name.clone()).collect();
            ready.extend(fresh);
            if self.mons.iter().any(|m| !ready.contains(&m.name)) {
                continue;
            }
            waiting.retain(|&i| !is_active(&self.osds[i]));
            if !told && begin.elapsed() > Duration::from_secs(10) {
                told = true;
                let names: Vec<&str> = waiting.iter().map(|&i| &*self.osds[i].name).collect();
                let waits = names.join(", ");
                service::tell(&format!("STATUS=waiting for {waits}"));
                eprintln!("nacre: still waiting for {waits}; the log is in {}", self.logs.place());
            }
        }
        Ok(true)
    }

    /// Waits for a signal. An OSD that cannot go on leaves the others running, unless it is the last. `heed` is called with what the cluster wants.
    fn until_told(&mut self, heed: Follow<'_>) -> Result<()> {
        loop {
            match self.events.recv().context("wait for events")? {
                Event::Duties(duties) => heed(self, &duties)?,
                Event::Ended(name, _) if self.has_left(&name) => {}
                Event::Signal(signal) => {
                    self.log.say(Level::Info, format!("told to stop by signal {signal}"));
                    return Ok(());
                }
                Event::Ended(name, ended) => {
                    self.note_end(&name, &ended);
                    let mon = name.starts_with("mon.");
                    let alone = if mon { self.mons.is_empty() } else { self.osds.is_empty() };
                    if alone || matches!(ended, Ended::Panicked) {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Whether this was a monitor that was told to stop; it is forgotten.
    fn has_left(&mut self, name: &str) -> bool {
        let Some(at) = self.leaving.iter().position(|n| n == name) else { return false };
        self.leaving.remove(at);
        self.forget(name);
        true
    }

    /// A daemon is over.
    fn forget(&mut self, name: &str) {
        self.osds.retain(|o| o.name != name);
        self.mons.retain(|m| m.name != name);
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

    /// Stops the OSDs, then the monitor. A second signal ends the process at once.
    fn stop(&mut self) {
        self.log.say(Level::Info, "stopping");
        service::tell("STOPPING=1\nSTATUS=stopping");
        let deadline = self.failed.then(|| Instant::now() + STOP_AFTER_FAILURE);
        self.osds.iter().for_each(|o| o.caller.stop());
        self.await_ends(deadline, |p| p.osds.is_empty());
        self.mons.iter().for_each(|m| m.caller.stop());
        self.await_ends(deadline, |p| p.mons.is_empty());
        self.log.say(Level::Info, "stopped");
    }

    fn await_ends(&mut self, deadline: Option<Instant>, over: impl Fn(&Self) -> bool) {
        while !over(self) {
            let left = deadline.map_or(Duration::from_secs(3600), |d| d.saturating_duration_since(Instant::now()));
            match self.events.recv_timeout(left) {
                Ok(Event::Ended(name, ended)) => self.note_end(&name, &ended),
                Ok(Event::Duties(_)) => {}
                Ok(Event::Signal(_)) => {
                    self.log.say(Level::Warn, "ended by a second signal");
                    std::process::exit(1);
                }
                Err(RecvTimeoutError::Timeout) if deadline.is_some() => return,
                Err(_) => {}
            }
        }
    }
}

fn is_active(osd: &Daemon) -> bool {
    let status = osd.ask(r#"{"prefix":"status"}"#, Duration::from_millis(200));
    status.is_some_and(|s| s["state"] == "active")
}

impl Ended {
    fn sentence(&self, name: &str) -> String {
        match self {
            Ended::Clean => format!("{name} has stopped although nobody asked"),
            Ended::Failed(why) => format!("{name}: {why}"),
            Ended::Panicked => format!("{name} ended by a panic, which is a bug; the log of `nacre` has its place"),
        }
    }
}
