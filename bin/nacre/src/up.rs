//! `nacre up`, `nacre mon`, `nacre osd`: daemons of the cluster in DIR, in the foreground.

use crate::cli::{Osd, Up};
use crate::conf::{self, Conf};
use crate::face;
use crate::follow::{self, Duties};
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
use crate::service;
use crate::state::{self, Lock, MonState, OsdState, State};
use crate::wipe;
use anyhow::{Context, Result, bail};
use crush::Location;
use node::Level;
use runtime::process::Signals;
use std::collections::BTreeMap;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Which daemons run in this process.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Role {
    /// All.
    Everything,
    /// One monitor alone: its name.
    Monitor(String),
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
    if let Some(place) = &args.location {
        location::check(&state, &dir, place)?;
        state.location = Some(place.to_string());
    }
    let cleared = if args.wipe { wipe::plan(&state, &dir)? } else { Vec::new() };
    for osd in &state.osds {
        plan::usable_after(osd, &dir, &cleared).with_context(|| format!("osd.{}", osd.id))?;
    }
    let bind = state.bind(args.bind);
    let cluster_bind = state.cluster_bind(args.cluster_bind, bind)?;
    let which = wanted_monitors(&state, role, &dir)?;
    let mons = monitors::listen(&state, &dir, &which, bind, args.port)?;

    // From here on, things change on disk.
    notices::new_files(&state);
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
    wipe::clear(&cleared)?;
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
        let location = state.location.clone();
        let place = Place { dir: &dir, fsid: state.fsid()?, monitors, auth, bind, cluster_bind, location, memory, neighbours };
        let osds = wanted.into_iter().map(|osd| place.prepare(osd)).collect::<Result<Vec<_>>>()?;
        let port = state.metrics_port(args.metrics_port);
        let wanted = *role == Role::Everything && port != 0;
        let door = if wanted { face::listen(bind, port, &process.log) } else { None };
        let services = face::services(door.as_ref());
        for mon in mons {
            let name = mon.name.clone();
            let parts = mon.open(state.fsid()?, auth, bind, keys.clone(), &all, &services)?;
            process.start_mon(&name, parts, &args.common)?;
        }
        process.start_osds(osds, &args.common)?;
        process.share_memory(watch)?;
        process.open_sockets()?;
        process.shown = door.and_then(|door| face::serve(process, &dir, door));
        let follows = *role == Role::Everything && !bind.is_loopback();
        if follows {
            // Who follows the cluster is a client, and may be asked for a monitor before this host serves.
            if state.around.is_none() || !dir.join("ceph.conf").exists() {
                keys::write_whole(&dir.join("ceph.conf"), &conf::text(&dir, state.fsid()?, &all, auth), 0o644)?;
            }
            follow::watch(dir.clone(), process.sender.clone())?;
        }
        let place = follow::Place { dir: &dir, auth, bind, port: args.port, common: &args.common, services: &services };
        let mut heed = |process: &mut Process, duties: &Duties| follow::follow(process, &mut state, &place, duties);
        if let Some(absent) = process.until_serving(&mut heed)? {
            let all = state.all_monitors(&own, bind, args.port);
            keys::write_whole(&dir.join("ceph.conf"), &conf::text(&dir, state.fsid()?, &all, auth), 0o644)?;
            if *role == Role::Everything {
                // An address that could not be used is not remembered.
                state.change(&dir, |state| {
                    state.remember(args.bind, args.port, args.auth);
                    state.metrics_port = args.metrics_port.or(state.metrics_port);
                    state.cluster_bind = cluster_bind;
                    mark_made(state, |osd| !absent.contains(&format!("osd.{}", osd.id)));
                })?;
            }
            if let Some(place) = &args.location {
                move_host(process, &dir, place);
            }
            let what = process.what();
            let at = own.first().map_or(all.first().copied(), |(_, addr)| Some(*addr));
            let at = at.map_or(String::new(), |at| format!(" at [v2:{at}]"));
            if !absent.is_empty() {
                let names = absent.into_iter().collect::<Vec<_>>().join(", ");
                eprintln!("nacre: {names} does not serve yet, the rest does; `ceph health detail` and the log say why");
            }
            if *role == Role::Everything {
                notices::room(&state, &dir);
            }
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
            service::tell(&format!("READY=1\nSTATUS=ready: {name}"));
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

/// Remembers that stores were made and have served: from now on one that is missing is a loss.
fn mark_made(state: &mut State, which: impl Fn(&OsdState) -> bool) {
    state.osds.iter_mut().filter(|o| which(o)).for_each(|o| o.made = true);
    state.mons.iter_mut().for_each(|m| m.made = true);
}
