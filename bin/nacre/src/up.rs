//! `nacre up`, `nacre mon`, `nacre osd`: daemons of the cluster in DIR, in the foreground.

use crate::cli::{Auth, Osd, Up};
use crate::conf::{self, Conf};
use crate::control;
use crate::crash;
use crate::events::Duties;
use crate::face;
use crate::follow;
use crate::initial::initial_keys;
use crate::keys;
use crate::location;
use crate::log::Logs;
use crate::memory::Watch;
use crate::monitors;
use crate::notices;
use crate::osds::{Memory, Place, mail_id};
use crate::plan;
use crate::process::Process;
use crate::state::{self, Lock, MonState, OsdState, State};
use crate::supervisor;
use crate::wipe;
use anyhow::{Context, Result, bail};
use crush::Location;
use node::Level;
use runtime::process::Signals;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

/// Daemons that run in this process.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Role {
    /// All.
    Everything,
    /// One monitor alone: its name.
    Monitor(String),
}

/// Runs `nacre up` or `nacre mon`; gives the exit code.
///
/// What is wrong is said before anything changes ([`plan_host`]); then folders, keys and the lock are made
/// ([`Host::prepare`]); then services start ([`Host::start`]); then the process does what the cluster wants until it is
/// told to stop ([`Host::serve`]).
pub(crate) fn up(args: &Up, role: &Role, signals: Signals) -> Result<u8> {
    let (mut host, mons, cleared) = plan_host(args, role)?;
    let _lock = host.lock(&mons)?;
    let mut process = host.prepare(&cleared, signals)?;
    let keys = initial_keys(&host.dir, &host.state)?;
    host.keep()?;
    process.log.say(
        Level::Info,
        format!("nacre {} starts: cluster {}, {} OSDs", env!("CARGO_PKG_VERSION"), host.state.fsid()?, host.state.osds.len()),
    );
    process.run(|process| {
        let services = host.start(process, mons, keys)?;
        host.serve(process, &services)
    })
}

/// A host that is about to run daemons.
struct Host<'a> {
    args: &'a Up,
    role: &'a Role,
    dir: PathBuf,
    state: State,
    /// The state as it was found.
    before: State,
    /// True if there was none.
    new: bool,
    bind: IpAddr,
    cluster_bind: Option<IpAddr>,
    /// Names of the own monitors, and where they are.
    own: Vec<(String, SocketAddr)>,
}

/// Says what this host is to run, or what is wrong; changes nothing but ports. Gives the monitors, which listen, and
/// disks that are to be cleared.
fn plan_host<'a>(args: &'a Up, role: &'a Role) -> Result<(Host<'a>, Vec<monitors::Prepared>, Vec<PathBuf>)> {
    let dir = std::path::absolute(&args.dir).with_context(|| args.dir.display().to_string())?;
    Lock::check(&lock_path(&dir, role), &dir.display().to_string())?;
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
    if let Some(place) = &args.location {
        location::check(&state, &dir, place)?;
        state.location = Some(place.to_string());
    }
    let cleared = if args.wipe { wipe::plan(&state, &dir)? } else { Vec::new() };
    for osd in state.osds.iter().filter(|osd| !osd.held) {
        plan::usable_after(osd, &dir, &cleared).with_context(|| format!("osd.{}", osd.id))?;
    }
    let bind = state.bind(args.bind);
    let cluster_bind = state.cluster_bind(args.cluster_bind, bind)?;
    let which = wanted_monitors(&state, role, &dir)?;
    let mons = monitors::listen(&state, &dir, &which, bind, args.port)?;
    let own = mons.iter().map(|m| (m.name.clone(), m.addr)).collect();
    Ok((Host { args, role, dir, state, before, new, bind, cluster_bind, own }, mons, cleared))
}

impl Host<'_> {
    fn is_whole(&self) -> bool {
        *self.role == Role::Everything
    }

    /// All monitors of the cluster, as far as this host knows.
    fn all_monitors(&self) -> Vec<SocketAddr> {
        self.state.all_monitors(&self.own, self.bind, self.args.port)
    }

    /// Makes the folders and takes the lock. From here on, things change on disk.
    fn lock(&self, mons: &[monitors::Prepared]) -> Result<Lock> {
        notices::new_files(&self.state);
        notices::held(&self.state);
        state::make_folder(&self.dir)?;
        let folders = mons.iter().map(|mon| mon.folder.clone()).chain([self.dir.join("mon")]);
        folders.into_iter().try_for_each(|folder| state::make_folder(&folder))?;
        Lock::take(&lock_path(&self.dir, self.role), &self.dir.display().to_string())
    }

    /// Makes the process, numbers new OSDs, clears disks.
    fn prepare(&mut self, cleared: &[PathBuf], signals: Signals) -> Result<Process> {
        let logs = Logs::of(&self.dir, self.args.common.log_file.as_deref(), self.state.log_file.as_deref())?;
        let process = Process::new(&self.dir, logs, signals)?;
        if self.state.around.is_some() {
            // Their numbers must be none of other hosts.
            let before = &self.before.osds;
            let fresh: Vec<_> =
                self.state.osds.iter_mut().filter(|o| before.iter().all(|b| b.uuid().ok() != o.uuid().ok())).collect();
            if !fresh.is_empty() {
                crate::join::number_osds(&self.dir, fresh.into_iter(), &crate::token::administrator(&self.dir)?)?;
            }
        }
        wipe::clear(cleared)?;
        Ok(process)
    }

    /// Writes down what this host runs, if that is new.
    fn keep(&mut self) -> Result<()> {
        if self.new || self.state != self.before {
            let planned = self.state.clone();
            self.state.change(&self.dir, |now| *now = planned.with_what_was_made(now))?;
        }
        Ok(())
    }

    /// Starts all services. Gives where those are that the cluster is told of.
    fn start(
        &self,
        process: &mut Process,
        mons: Vec<monitors::Prepared>,
        keys: Vec<mon::InitialKey>,
    ) -> Result<BTreeMap<String, String>> {
        let (args, state, bind) = (self.args, &self.state, self.bind);
        // What may be refused comes before anything runs.
        let auth = state.auth(args.auth);
        let all = self.all_monitors();
        let wanted: Vec<_> = state.osds.iter().filter(|osd| self.is_whole() && !osd.held).collect();
        let mut watch = Watch::new(args.memory, process.log.clone());
        let memory = Memory { first: watch.begin(wanted.len()), ceiling: args.memory };
        let numbers = wanted.iter().filter_map(|osd| i32::try_from(osd.id).ok());
        let neighbours = numbers.map(|osd| (osd, mail_id(osd))).collect();
        let place = Place {
            dir: &self.dir,
            fsid: state.fsid()?,
            monitors: all.iter().map(|a| monitors::at(*a)).collect(),
            auth,
            bind,
            cluster_bind: self.cluster_bind,
            location: state.location.clone(),
            memory,
            neighbours,
        };
        let osds = wanted.into_iter().map(|osd| place.prepare(osd)).collect::<Result<Vec<_>>>()?;
        let port = state.metrics_port(args.metrics_port);
        let door = if self.is_whole() && port != 0 { face::listen(bind, port, &process.log) } else { None };
        let page_port = state.page_port(args.page_port, bind);
        let page = if self.is_whole() && page_port != 0 { face::listen_for_page(bind, page_port, &process.log) } else { None };
        let services = face::services(door.as_ref(), page.as_ref());
        for mon in mons {
            let name = mon.name.clone();
            let parts = mon.open(state.fsid()?, auth, bind, keys.clone(), &all, &services)?;
            process.start_mon(&name, parts, &args.common)?;
        }
        process.start_osds(osds, &args.common)?;
        process.share_memory(watch)?;
        process.open_sockets()?;
        if self.is_whole() {
            crash::report(&self.dir, &process.log);
            let (dir, common, cluster_bind) = (self.dir.clone(), args.common.clone(), self.cluster_bind);
            let manner = control::Manner { dir, bind, cluster_bind, auth, ceiling: args.memory, common };
            process.keep(control::open(process, manner)?);
        }
        let front = face::serve(process, &self.dir, bind, door, page);
        process.add(front);
        Ok(services)
    }

    /// Tells who waits that the services serve, and does what the cluster wants until it is told to stop.
    fn serve(&mut self, process: &mut Process, services: &BTreeMap<String, String>) -> Result<()> {
        let (args, dir, auth) = (self.args, self.dir.clone(), self.state.auth(self.args.auth));
        if self.is_whole() && !self.bind.is_loopback() {
            // Who follows the cluster is a client, and may be asked for a monitor before this host serves.
            if self.state.around.is_none() || !dir.join("ceph.conf").exists() {
                self.write_conf(auth)?;
            }
            follow::watch(dir.clone(), process.sender.clone())?;
        }
        let place = follow::Place { dir: &dir, auth, bind: self.bind, port: args.port, common: &args.common, services };
        let mut heed = |process: &mut Process, duties: &Duties| follow::follow(process, &mut self.state, &place, duties);
        let Some(absent) = process.until_serving(&mut heed)? else { return Ok(()) };
        self.write_conf(auth)?;
        if self.is_whole() {
            let cluster_bind = self.cluster_bind;
            // An address that could not be used is not remembered.
            self.state.change(&dir, |state| {
                state.remember(args.bind, args.port, args.auth);
                state.metrics_port = args.metrics_port.or(state.metrics_port);
                state.page_port = args.page_port.or(state.page_port);
                state.cluster_bind = cluster_bind;
                mark_made(state, |osd| !absent.contains(&format!("osd.{}", osd.id)));
            })?;
        }
        if let Some(place) = &args.location {
            move_host(process, &dir, place);
        }
        self.say_ready(process, &absent);
        let mut heed = |process: &mut Process, duties: &Duties| follow::follow(process, &mut self.state, &place, duties);
        process.until_told(&mut heed)
    }

    fn write_conf(&self, auth: Auth) -> Result<()> {
        let text = conf::text(&self.dir, self.state.fsid()?, &self.all_monitors(), auth);
        keys::write_whole(&self.dir.join("ceph.conf"), &text, 0o644)
    }

    /// Tells the terminal and the service manager that the services serve, but for those that are absent.
    fn say_ready(&self, process: &Process, absent: &BTreeSet<String>) {
        let what = process.what();
        let at = self.own.first().map_or(self.all_monitors().first().copied(), |(_, addr)| Some(*addr));
        let at = at.map_or(String::new(), |at| format!(" at [v2:{at}]"));
        if !absent.is_empty() {
            let names = absent.iter().cloned().collect::<Vec<_>>().join(", ");
            eprintln!("nacre: {names} does not serve yet, the rest does; `ceph health detail` and the log say why");
        }
        if self.is_whole() {
            notices::room(&self.state, &self.dir);
        }
        println!("ready: {what}{at}; export CEPH_CONF={}/ceph.conf", self.dir.display());
        supervisor::tell(&format!("READY=1\nSTATUS=ready: {what}{at}"));
        if self.new && self.is_whole() {
            // Nobody need read on after the line that says `ready`.
            let _ = writeln!(std::io::stdout(), "{}", plan::copies(&self.state));
        }
    }
}

/// Moves the host's bucket. Data is served whether that works or not.
fn move_host(process: &Process, dir: &Path, place: &Location) {
    if let Err(e) = location::move_host(dir, place) {
        let told = format!("this host stays where it is in the CRUSH map, not at {place}: {e:#}");
        eprintln!("nacre: {told}");
        process.log.say(Level::Warn, told);
    }
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
    if osd.held {
        bail!("{name} is being added, replaced or removed: `nacre disk` goes on with it");
    }
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
        let (bind, location) = (state.bind(args.bind), state.location.clone());
        let (fsid, auth) = (state.fsid()?, conf.auth);
        let cluster_bind = state.cluster_bind(args.cluster_bind, bind)?;
        let place = Place { dir: &dir, fsid, monitors, auth, bind, cluster_bind, location, memory, neighbours };
        process.start_osds(vec![place.prepare(&osd)?], &args.common)?;
        process.share_memory(watch)?;
        process.open_sockets()?;
        if process.until_serving(&mut |_, _| Ok(()))?.is_some() {
            state.change(&dir, |state| mark_made(state, |o| o.id == args.id))?;
            println!("ready: {name}");
            supervisor::tell(&format!("READY=1\nSTATUS=ready: {name}"));
            process.until_told(&mut |_, _| Ok(()))?;
        }
        Ok(())
    })
}

fn lock_path(dir: &Path, role: &Role) -> PathBuf {
    match role {
        Role::Everything => dir.join("lock"),
        Role::Monitor(name) => MonState { name: name.clone(), port: None, made: false }.folder(dir).join("lock"),
    }
}

/// Remembers that stores were made and have served: from now on one that is missing is a loss. One that is held was not started.
fn mark_made(state: &mut State, which: impl Fn(&OsdState) -> bool) {
    state.osds.iter_mut().filter(|o| !o.held && which(o)).for_each(|o| o.made = true);
    state.mons.iter_mut().for_each(|m| m.made = true);
}
