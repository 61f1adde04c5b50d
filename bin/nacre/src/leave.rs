//! `nacre leave`: this host gives its data to the others and leaves the cluster.
//!
//! | step | what | if it ends here |
//! |---|---|---|
//! | 1 | the monitors say whether the others can do without this host | nothing has changed |
//! | 2 | its OSDs are taken out; their data moves | run it again to go on; `ceph osd in N` takes it back |
//! | 3 | if its monitor votes alone, another one takes the vote over | run it again to go on |
//! | 4 | its processes are stopped | run it again to go on |
//! | 5 | the cluster removes its OSDs, its monitor and the host, if no data depends on it | run it again to go on |
//! | 6 | `nacre.toml` becomes `nacre.toml.left` | run it again to go on |
//!
//! Every step looks at what is already done, so a second run goes on where the first one was interrupted.

use crate::cli::Leave;
use crate::client::{Client, Failure};
use crate::host;
use crate::state::{self, Lock, MonState, State};
use crate::token::administrator;
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use types::Errno;

/// Interval at which it is checked how far the data is.
const LOOK: Duration = Duration::from_secs(1);
/// Interval at which that is said.
const SAY: Duration = Duration::from_secs(5);
/// Time that processes may take to stop, and monitors to notice that one is gone.
const PATIENCE: Duration = Duration::from_secs(90);
/// Name of `nacre.toml` on a host that has left.
const LEFT: &str = "nacre.toml.left";

/// Runs `nacre leave`; gives the exit code.
pub(crate) fn leave(args: &Leave) -> Result<u8> {
    let dir = std::path::absolute(&args.dir).with_context(|| args.dir.display().to_string())?;
    let Some(state) = State::load(&dir)? else {
        if dir.join(LEFT).exists() {
            bail!("this host has left already; {} can be removed", dir.display());
        }
        bail!("{} holds no cluster", dir.display());
    };
    let name = host::name();
    let client = administrator(&dir)?;
    if let Some(drain) = drain_status(&client, &name)? {
        let can = check(&client, &name, &state, &drain)?;
        if args.check {
            println!("{can} ({})", amount(&drain));
            return Ok(0);
        }
        take_out(&client, &drain)?;
        wait(&client, &name)?;
        hand_over(&client, &name)?;
    } else {
        refuse_unknown(&client, &name, &state)?;
        if args.check {
            bail!("the cluster knows no host {name}");
        }
    }
    stop_processes(&dir, &state)?;
    remove(&client, &name)?;
    let file = dir.join("nacre.toml");
    std::fs::rename(&file, dir.join(LEFT)).with_context(|| format!("rename {}", file.display()))?;
    println!("{name} has left the cluster; {} and its disks still hold old data and keys, and can be cleared", dir.display());
    Ok(0)
}

/// Returns what of the host's data is not elsewhere; none if the cluster does not know the host.
fn drain_status(client: &Client, name: &str) -> Result<Option<Value>> {
    match client.command(&json!({"prefix": "nacre host drain-status", "host": name, "format": "json"})) {
        Ok(reply) => serde_json::from_str(&reply.output).map(Some).context("the monitors' answer cannot be read"),
        Err(Failure::Refused(errno, _)) if errno == Errno::ENOENT.0 => Ok(None),
        Err(failure) => Err(failure.sentence(client)),
    }
}

/// Refuses to leave under a name that the cluster does not know while it still has OSDs or monitors of this folder. If
/// it has none, an earlier run got as far as that.
fn refuse_unknown(client: &Client, name: &str, state: &State) -> Result<()> {
    let ask = |what: &str| -> Result<Value> {
        let reply = client.run(&json!({"prefix": what, "format": "json"}))?;
        serde_json::from_str(&reply.output).context("the monitors' answer cannot be read")
    };
    let mut left = listed_osds(&ask("osd dump")?, state)?;
    left.extend(listed_monitors(&ask("mon dump")?, state, host::has));
    if !left.is_empty() {
        bail!(
            "the cluster knows no host {name}, but has {} of this folder: was the host renamed? Restart it with `nacre up`, so that the \
             cluster knows its new name, and leave then",
            left.join(", ")
        );
    }
    Ok(())
}

/// The folder's OSDs that are in the map: `osd.N`. A number that another store has got since is none of them.
fn listed_osds(dump: &Value, state: &State) -> Result<Vec<String>> {
    let known = dump["osds"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut listed = Vec::new();
    for osd in &state.osds {
        let uuid = types::Fsid(osd.uuid()?).to_string();
        if known.iter().any(|k| k["osd"] == osd.id && k["uuid"] == uuid.as_str()) {
            listed.push(format!("osd.{}", osd.id));
        }
    }
    Ok(listed)
}

/// The folder's monitors that are in the map: `mon.NAME`. Their letters are given to other hosts when they are free. So
/// a monitor is the folder's only if it is listed at the folder's port of an address that this machine has (`here`).
fn listed_monitors(dump: &Value, state: &State, here: impl Fn(IpAddr) -> bool) -> Vec<String> {
    let known = dump["mons"].as_array().map(Vec::as_slice).unwrap_or_default();
    let at = |name: &str| {
        let addrs = known.iter().filter(|k| k["name"] == name).flat_map(|k| k["public_addrs"]["addrvec"].as_array()).flatten();
        addrs.filter_map(|a| a["addr"].as_str()?.parse::<SocketAddr>().ok()).collect::<Vec<_>>()
    };
    let own = |mon: &MonState| {
        let port = mon.port.unwrap_or_else(|| state.port(None));
        at(&mon.name).iter().any(|addr| addr.port() == port && here(addr.ip()))
    };
    state.monitors().iter().filter(|mon| own(mon)).map(|mon| format!("mon.{}", mon.name)).collect()
}

/// Numbers of the host's OSDs for which something holds.
fn osds(drain: &Value, which: impl Fn(&Value) -> bool) -> Vec<u64> {
    let all = drain["osds"].as_array().map(Vec::as_slice).unwrap_or_default();
    all.iter().filter(|osd| which(osd)).filter_map(|osd| osd["osd"].as_u64()).collect()
}

/// Refuses what could not end well, while nothing has changed; else gives what the monitors say.
fn check(client: &Client, name: &str, state: &State, drain: &Value) -> Result<String> {
    let other: Vec<u64> =
        osds(drain, |_| true).into_iter().filter(|id| !state.osds.iter().any(|o| u64::from(o.id) == *id)).collect();
    if !other.is_empty() {
        bail!(
            "the cluster has OSDs on {name} that are not in this folder: {other:?}; is it the right one, and this host's name the one that it joined with?"
        );
    }
    let down = osds(drain, |osd| osd["up"] == false);
    if !down.is_empty() && drain["safe"] != true {
        bail!(
            "OSDs of this host do not run ({down:?}), and their data is not all elsewhere: start them with `nacre up` first. A host that cannot be started any more is removed from another one, with `nacre forget {name}`"
        );
    }
    let begin = Instant::now();
    loop {
        match client.command(&json!({"prefix": "nacre host ok-to-leave", "host": name})) {
            Ok(reply) => return Ok(reply.status),
            // Not everything was reported yet.
            Err(Failure::Refused(errno, _)) if errno == Errno::EAGAIN.0 && begin.elapsed() < PATIENCE => std::thread::sleep(LOOK),
            Err(Failure::Refused(_, why)) => bail!("{name} cannot leave: {why}"),
            Err(failure) => return Err(failure.sentence(client)),
        }
    }
}

fn take_out(client: &Client, drain: &Value) -> Result<()> {
    let inside: Vec<String> = osds(drain, |osd| osd["in"] == true).iter().map(ToString::to_string).collect();
    if inside.is_empty() {
        return Ok(());
    }
    client.run(&json!({"prefix": "osd out", "ids": inside}))?;
    println!(
        "out: {}; their data moves to others. Interrupted, this goes on when it is run again; `ceph osd in {}` takes it back",
        inside.iter().map(|id| format!("osd.{id}")).collect::<Vec<_>>().join(", "),
        inside.join(" ")
    );
    Ok(())
}

/// Returns what is left, in words.
fn amount(drain: &Value) -> String {
    let bytes = drain["bytes"].as_u64().unwrap_or(0);
    format!("{} placement groups, {} objects, {}", drain["pgs"], drain["objects"], in_words(bytes))
}

/// Returns bytes in words.
pub(crate) fn in_words(bytes: u64) -> String {
    let (value, unit) = match bytes {
        0..1_048_576 => (bytes as f64 / 1024.0, "KiB"),
        1_048_576..1_073_741_824 => (bytes as f64 / 1_048_576.0, "MiB"),
        _ => (bytes as f64 / 1_073_741_824.0, "GiB"),
    };
    format!("{value:.1} {unit}")
}

/// Returns how long what is left takes at the pace so far; none while no pace is known. `begin` and `left`: bytes, or
/// groups where bytes do not change.
fn estimate(begin: u64, left: u64, elapsed: Duration) -> Option<Duration> {
    let done = begin.checked_sub(left).filter(|done| *done > 0)?;
    Some(Duration::from_secs_f64((elapsed.as_secs_f64() * left as f64 / done as f64).min(1e9)))
}

/// The same in words, out of bytes and groups: what there was to do, and what is left.
pub(crate) fn span_left(most: (u64, u64), left: (u64, u64), elapsed: Duration) -> String {
    let time = estimate(most.0, left.0, elapsed).or_else(|| estimate(most.1, left.1, elapsed));
    time.map_or_else(|| "time not known yet".to_owned(), |time| format!("about {}", span(time)))
}

fn span(time: Duration) -> String {
    match time.as_secs() {
        secs @ 0..120 => format!("{secs} s"),
        secs @ 120..7200 => format!("{} min", secs.div_ceil(60)),
        secs => format!("{} h", secs.div_ceil(3600)),
    }
}

/// Waits until nothing depends on the host's OSDs.
fn wait(client: &Client, name: &str) -> Result<()> {
    let (begin, mut said, mut most) = (Instant::now(), None::<Instant>, (0, 0));
    loop {
        let Some(drain) = drain_status(client, name)? else { return Ok(()) };
        if drain["safe"] == true {
            println!("no data depends on {name} any more");
            return Ok(());
        }
        let (bytes, pgs) = (drain["bytes"].as_u64().unwrap_or(0), drain["pgs"].as_u64().unwrap_or(0));
        most = (bytes.max(most.0), pgs.max(most.1));
        if said.is_none_or(|at| at.elapsed() >= SAY) {
            said = Some(Instant::now());
            let time = span_left(most, (bytes, pgs), begin.elapsed());
            let why = if pgs == 0 { format!(" ({})", drain["why"].as_str().unwrap_or_default().trim()) } else { String::new() };
            println!("left: {}; {time}{why}", amount(&drain));
        }
        std::thread::sleep(LOOK);
    }
}

/// Sees to it that the other monitors can decide when those of this host stop: one that votes alone gives the vote away
/// first.
fn hand_over(client: &Client, name: &str) -> Result<()> {
    let (begin, mut told) = (Instant::now(), false);
    loop {
        let reply = match client.command(&json!({"prefix": "nacre host hand-over", "host": name, "format": "json"})) {
            Ok(reply) => reply,
            // An earlier run came further.
            Err(Failure::Refused(errno, _)) if errno == Errno::ENOENT.0 => return Ok(()),
            Err(Failure::Refused(_, why)) => bail!("{name} cannot leave: {why}"),
            Err(failure) => return Err(failure.sentence(client)),
        };
        let step: Value = serde_json::from_str(&reply.output).context("the monitors' answer cannot be read")?;
        if step["done"] == true {
            return Ok(());
        }
        if !told {
            println!("{}", reply.status);
            told = true;
        }
        if begin.elapsed() > PATIENCE {
            bail!("{}, and has not done so for {} s; run this again to go on", reply.status, PATIENCE.as_secs());
        }
        std::thread::sleep(LOOK);
    }
}

/// Between two looks at the locks: whoever waits for a lock itself cannot give up after [`PATIENCE`].
const LOCKS: Duration = Duration::from_millis(100);

/// Stops the processes that run what this host has, and waits until they have let go of their locks.
fn stop_processes(dir: &Path, state: &State) -> Result<()> {
    let osds = state.osds.iter().map(|o| o.folder(dir));
    let mons = state.monitors().into_iter().map(|m| m.folder(dir));
    let locks: Vec<PathBuf> = osds.chain(mons).chain([dir.to_owned()]).map(|folder| folder.join("lock")).collect();
    let begin = Instant::now();
    let mut told = Vec::new();
    loop {
        let holders: Vec<u32> = locks.iter().filter_map(|path| Lock::holder(path)).collect();
        if holders.is_empty() {
            return Ok(());
        }
        for pid in holders {
            if !told.contains(&pid) {
                println!("stopping process {pid}");
                runtime::process::terminate(pid).with_context(|| format!("stop process {pid}"))?;
                told.push(pid);
            }
        }
        if begin.elapsed() > PATIENCE {
            bail!("processes {told:?} were told to stop and still run; run this again when they have ended");
        }
        std::thread::sleep(LOCKS);
    }
}

/// Lets the cluster forget the host; for a moment it may still believe that it runs, or not know that all is well
/// without it.
fn remove(client: &Client, name: &str) -> Result<()> {
    let begin = Instant::now();
    loop {
        match client.command(&json!({"prefix": "nacre host rm", "host": name})) {
            Ok(_) => return Ok(()),
            Err(Failure::Refused(errno, _)) if errno == Errno::ENOENT.0 => return Ok(()),
            Err(Failure::Refused(errno, _))
                if [Errno::EBUSY, Errno::EAGAIN, Errno::EPERM].iter().any(|e| e.0 == errno) && begin.elapsed() < PATIENCE =>
            {
                std::thread::sleep(LOOK);
            }
            Err(Failure::Refused(_, why)) => bail!("{why}. This host's processes are stopped: `nacre up` starts them again"),
            Err(failure) => return Err(failure.sentence(client)),
        }
    }
}

/// Refuses a folder whose host has left.
pub(crate) fn refuse_left(dir: &Path) -> Result<()> {
    if dir.join(LEFT).exists() {
        bail!("this host has left its cluster; remove {} (and clear its disks), then `nacre join` or `nacre up`", dir.display());
    }
    state::check_empty(dir)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{Around, OsdState};

    #[test]
    fn what_the_cluster_still_has_of_a_folder_is_found_without_the_hosts_name() {
        let mut state = State::of(types::Fsid([1; 16]));
        state.osds = vec![OsdState::new(4, 1 << 30, None, None).unwrap()];
        state.around = Some(Around { monitors: Vec::new(), cephx: true });
        state.mons = vec![MonState { name: "b".into(), port: None, made: true }];
        let here = |ip: IpAddr| ip == IpAddr::from([10, 0, 0, 2]);
        let mons = |name: &str, addr: &str| {
            json!({"mons": [
                {"name": "a", "public_addrs": {"addrvec": [{"type": "v2", "addr": "10.0.0.1:3300", "nonce": 0}]}},
                {"name": name, "public_addrs": {"addrvec": [{"type": "v2", "addr": addr, "nonce": 0}]}},
            ]})
        };
        let listed = |name: &str, addr: &str| listed_monitors(&mons(name, addr), &state, here);
        assert_eq!(listed("b", "10.0.0.2:3300"), ["mon.b"]);
        assert!(listed("c", "10.0.0.2:3300").is_empty(), "it is not listed");
        assert!(listed("b", "10.0.0.3:3300").is_empty(), "another host has its letter");
        assert!(listed("b", "10.0.0.2:3301").is_empty(), "another folder of this machine has it");

        let uuid = types::Fsid(state.osds[0].uuid().unwrap()).to_string();
        let osds = |uuid: &str| listed_osds(&json!({"osds": [{"osd": 4, "uuid": uuid}]}), &state).unwrap();
        assert_eq!(osds(&uuid), ["osd.4"]);
        assert!(osds("00000000-0000-0000-0000-000000000000").is_empty());
    }

    #[test]
    fn the_time_that_is_left_follows_from_the_pace() {
        let minute = Duration::from_secs(60);
        assert_eq!(estimate(100, 25, minute), Some(Duration::from_secs(20)));
        assert_eq!(estimate(100, 100, minute), None, "nothing moved yet");
        assert_eq!(estimate(0, 0, minute), None);
        assert_eq!(estimate(10, 20, minute), None, "it grew");
        assert_eq!(span(Duration::from_secs(119)), "119 s");
        assert_eq!(span(Duration::from_secs(121)), "3 min");
        assert_eq!(span(Duration::from_secs(7201)), "3 h");
        assert_eq!(in_words(3 << 30), "3.0 GiB");
    }
}
