//! `nacre mon backup`, `restore`, `rescue`, `rebuild`, `collect`: ways back for monitors that were lost.
//!
//! *What may run.* `backup` reads the store of a monitor that runs or is stopped. All others want this host's processes
//! stopped, and hold their locks meanwhile. Those that make a monitor refuse while another monitor of the cluster
//! accepts connections: two clusters of one name would write to the same OSDs.
//!
//! *Order of writes.* The new store is whole and durable as `store.new`. The old one is put aside as `store.before-N`,
//! never removed. Then the new one gets its name, and `nacre.toml` says that it is the only monitor. Interrupted
//! before, the old store is in its place, or under that name; the command can be given again.

use crate::asked;
use crate::cli::{MonCommand, Remaking};
use crate::initial::{self, OSD_CAPS};
use crate::state::{Lock, MonState, State};
use crate::{keys, log, monitors};
use anyhow::{Context, Result, bail};
use mon::rescue::{Known, Remade, Seat};
use runtime::process::Signals;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use types::{EntityName, Fsid};

/// Time that a monitor may take to accept a connection.
const KNOCK: Duration = Duration::from_millis(1000);
/// Number of times that the store of a monitor that runs is read before it counts as damaged: it is written meanwhile.
const READS: u32 = 5;
/// Pause between them.
const BETWEEN: Duration = Duration::from_millis(200);
/// Layout of the file of `nacre mon collect`.
const COLLECTED: u32 = 1;

/// Report of `nacre mon collect` about a host.
#[derive(Serialize, Deserialize)]
struct Collected {
    version: u32,
    fsid: String,
    /// OSDs whose stores were asked, with their keys as keyrings show them.
    osds: BTreeMap<i32, String>,
    /// The newest OSD map of all of them, in hexadecimal.
    map: String,
}

/// Runs one of these commands; gives the exit code.
pub(crate) fn rescue(command: &MonCommand, signals: impl FnOnce() -> Result<Signals>) -> Result<u8> {
    match command {
        MonCommand::Backup { dir, name, file } => backup(dir, name.as_deref(), file)?,
        MonCommand::Restore { file, how } => restore(file, how, signals()?)?,
        MonCommand::Rescue(how) => go_alone(how, signals()?)?,
        MonCommand::Rebuild(how) => rebuild(how, signals()?)?,
        MonCommand::Collect { dir, file } => collect(dir, file, signals()?)?,
    }
    Ok(0)
}

fn backup(dir: &Path, name: Option<&str>, to: &Path) -> Result<()> {
    let dir = std::path::absolute(dir)?;
    let state = load(&dir)?;
    let mon = chosen(&state, &dir, name)?.with_context(|| format!("{} holds no monitor", dir.display()))?;
    let path = mon.folder(&dir).join("store");
    let fsid = state.fsid()?.0;
    let mut tries = 0;
    let copy = loop {
        let (file, len) = open_store(&path)?;
        match mon::rescue::backup(&mut reader(&file), len, fsid, log::now()) {
            Ok(copy) => break copy,
            Err(why) if tries == READS => bail!("{}: {why}", path.display()),
            Err(_) => tries += 1,
        }
        std::thread::sleep(BETWEEN);
    };
    give(to, &copy)?;
    if to != Path::new("-") {
        println!("mon.{}: {} bytes in {}. It holds all keys of the cluster.", mon.name, copy.len(), to.display());
    }
    Ok(())
}

fn restore(from: &Path, how: &Remaking, signals: Signals) -> Result<()> {
    let bytes = take(from)?;
    let about = mon::rescue::about(&bytes).map_err(|why| anyhow::anyhow!("{}: {why}", from.display()))?;
    let others: Vec<SocketAddr> = about.monitors.iter().filter_map(|(_, addrs)| addrs.msgr2().and_then(|a| a.addr)).collect();
    let work = Work::begin(how, Some(about.fsid), &others, false)?;
    let known = work.known(how, signals)?;
    work.finish(how, |seat| mon::rescue::restore(&bytes, seat, &known.0))
}

fn go_alone(how: &Remaking, signals: Signals) -> Result<()> {
    let work = Work::begin(how, None, &[], true)?;
    let path = work.mon.folder(&work.dir).join("store");
    let known = work.known(how, signals)?;
    let (file, len) = open_store(&path)?;
    let fsid = work.state.fsid()?.0;
    work.finish(how, |seat| mon::rescue::rescue(&mut reader(&file), len, fsid, seat, &known.0))
}

fn rebuild(how: &Remaking, signals: Signals) -> Result<()> {
    let work = Work::begin(how, None, &[], false)?;
    let (known, others) = work.known(how, signals)?;
    let mut keys = initial::initial_keys(&work.dir, &work.state)?;
    for (osd, key) in others {
        let name = EntityName::new(types::EntityType::Osd, osd.to_string());
        let key = keys::from_text(&key).with_context(|| format!("the key of osd.{osd} cannot be read"))?;
        let caps = OSD_CAPS.iter().map(|(service, cap)| ((*service).to_owned(), (*cap).to_owned())).collect();
        if keys.iter().all(|k: &mon::InitialKey| k.name != name) {
            keys.push(mon::InitialKey { name, key, caps });
        }
    }
    let config = monitors::config(&work.state, &work.mon.name, monitors::at(work.addr), keys)?;
    work.finish(how, |seat| mon::rescue::rebuild(&config, seat, &known))
}

fn collect(dir: &Path, to: &Path, signals: Signals) -> Result<()> {
    let dir = std::path::absolute(dir)?;
    let state = load(&dir)?;
    let _lock = Lock::take(&dir.join("lock"), &dir.display().to_string())?;
    let asked = asked::newest_maps(&dir, &state, signals)?;
    let newest = asked.values().max_by_key(|(epoch, _)| *epoch).context("no OSD of this host has a map")?;
    let key = |osd: &i32| -> Result<(i32, String)> {
        let name = format!("osd.{osd}");
        let key = keys::load(&dir.join(&name).join("keyring"), &name)?;
        Ok((*osd, keys::to_text(&key)))
    };
    let osds = asked.keys().map(key).collect::<Result<_>>()?;
    let collected = Collected { version: COLLECTED, fsid: state.fsid()?.to_string(), osds, map: newest.1.clone() };
    give(to, serde_json::to_string(&collected)?.as_bytes())?;
    if to != Path::new("-") {
        println!("{} OSDs, OSD map {}, in {}. It holds the OSDs' keys.", collected.osds.len(), newest.0, to.display());
    }
    Ok(())
}

/// A monitor that is about to be made, with this host's processes stopped.
struct Work {
    dir: PathBuf,
    state: State,
    mon: MonState,
    addr: SocketAddr,
    _locks: [Lock; 2],
}

impl Work {
    /// Looks whether it may be done. `fsid`: the cluster that it must be; `others`: where monitors may be, beside those
    /// that this host knows; `has_store`: there must be a store, else there had better be none.
    fn begin(how: &Remaking, fsid: Option<Fsid>, others: &[SocketAddr], has_store: bool) -> Result<Self> {
        let dir = std::path::absolute(&how.dir)?;
        let state = load(&dir)?;
        let own = state.fsid()?;
        if let Some(fsid) = fsid.filter(|fsid| *fsid != own) {
            bail!("the backup is of cluster {fsid}; {} holds a part of cluster {own}", dir.display());
        }
        let mon = match chosen(&state, &dir, how.name.as_deref())? {
            Some(mon) => mon,
            None if has_store => bail!("{} holds no monitor", dir.display()),
            None => MonState { name: how.name.clone().unwrap_or_else(|| monitors::FIRST.into()), port: None, made: true },
        };
        let folder = mon.folder(&dir);
        crate::state::make_folder(&folder)?;
        let shown = dir.display().to_string();
        let locks = [Lock::take(&dir.join("lock"), &shown)?, Lock::take(&folder.join("lock"), &shown)?];
        let addr = SocketAddr::new(state.bind(how.bind), how.port.or(mon.port).unwrap_or_else(|| state.port(None)));
        let listed = state.all_monitors(&[], state.bind(None), None);
        let all: BTreeSet<SocketAddr> = listed.into_iter().chain(others.iter().copied()).chain([addr]).collect();
        if let Some(alive) = all.iter().find(|at| TcpStream::connect_timeout(at, KNOCK).is_ok()) {
            bail!(
                "a monitor answers at {alive}. While others live, they are the way: bring back enough of them for a majority, or `ceph \
                 mon rm` those that are lost. If it is alone and shall not go on, stop it first"
            );
        }
        let store = folder.join("store");
        if has_store && !store.exists() {
            bail!("mon.{} has no store at {}", mon.name, store.display());
        }
        if has_store {
            println!("{}", compared(&mon.name, last_entry(&store, own)?));
        }
        if (has_store || store.exists()) && !how.yes_i_really_mean_it {
            bail!("{}", warning(&mon.name, &store, has_store));
        }
        Ok(Self { dir, state, mon, addr, _locks: locks })
    }

    /// The newest OSD map that OSDs of this host have, or that was collected on others; and the keys of the latter.
    fn known(&self, how: &Remaking, signals: Signals) -> Result<(Known, BTreeMap<i32, String>)> {
        let asked = asked::newest_maps(&self.dir, &self.state, signals)?;
        let mut known = Known { above: how.above.unwrap_or(0), ..Known::default() };
        let mut newest = 0;
        for (osd, (epoch, map)) in asked {
            known.osds.insert(osd);
            if epoch > newest {
                (newest, known.map) = (epoch, Some(from_hex(&map).context("an OSD's answer is no map")?));
            }
        }
        let mut others = BTreeMap::new();
        for path in &how.known {
            let wrong = || format!("{} is no file of `nacre mon collect`", path.display());
            let collected: Collected = serde_json::from_slice(&take(path)?).with_context(wrong)?;
            if collected.version > COLLECTED {
                bail!("{} has version {}, this program knows versions up to {COLLECTED}", path.display(), collected.version);
            }
            if collected.fsid != self.state.fsid()?.to_string() {
                bail!("{} is of cluster {}", path.display(), collected.fsid);
            }
            known.osds.extend(collected.osds.keys());
            others.extend(collected.osds);
            let map = from_hex(&collected.map).with_context(wrong)?;
            let epoch = mon::rescue::epoch_of(&map).map_err(|why| anyhow::anyhow!("{}: {why}", path.display()))?;
            if epoch > newest {
                (newest, known.map) = (epoch, Some(map));
            }
        }
        Ok((known, others))
    }

    /// Makes the store, and puts it where it belongs.
    fn finish(mut self, how: &Remaking, make: impl FnOnce(&Seat) -> Result<Remade, String>) -> Result<()> {
        let voter = u64::from_le_bytes(keys::random()?).max(1);
        let seat = Seat { name: self.mon.name.clone(), addrs: monitors::at(self.addr), voter, now: log::now() };
        let made = make(&seat).map_err(|why| anyhow::anyhow!("{why}"))?;
        if !made.unseen.is_empty() && !how.yes_i_really_mean_it {
            bail!("{}", not_asked(&made.unseen));
        }
        let store = self.mon.folder(&self.dir).join("store");
        write_store(&store.with_extension("new"), &made.image)?;
        for mon in self.state.monitors() {
            put_aside(&mon.folder(&self.dir).join("store"))?;
        }
        put_aside(&store)?;
        std::fs::rename(store.with_extension("new"), &store).with_context(|| format!("rename {}", store.display()))?;
        sync_folder(&store)?;
        self.state.remember(how.bind, how.port, None);
        let alone = self.state.around.is_none() && self.mon.name == monitors::FIRST && self.mon.port.is_none();
        self.mon.made = true;
        self.state.mons = if alone { Vec::new() } else { vec![self.mon.clone()] };
        if let Some(around) = &mut self.state.around {
            around.monitors = vec![self.addr];
        }
        self.state.save(&self.dir)?;
        self.tell(&made);
        Ok(())
    }

    /// Tells a person what matters now.
    fn tell(&self, made: &Remade) {
        let dir = self.dir.display();
        println!("mon.{} at {}: OSD map {}, made of map {}", self.mon.name, self.addr, made.epoch, made.base);
        if !made.dropped.is_empty() {
            println!(
                "not in the cluster any more: mon.{}. Their stores must never be started again",
                made.dropped.join(", mon.")
            );
        }
        if !made.unseen.is_empty() {
            let unseen: Vec<String> = made.unseen.iter().map(|osd| format!("osd.{osd}")).collect();
            println!(
                "`nodown` is set, because {} may know of newer maps. Groups wait for them. Those that are lost for good: `ceph osd down N`, \
                 `ceph osd lost N --yes-i-really-mean-it`. When all others run: `ceph osd unset nodown`",
                unseen.join(", ")
            );
        }
        println!("start it: nacre up --dir {dir}");
    }
}

fn warning(name: &str, store: &Path, alone: bool) -> String {
    if alone {
        format!(
            "mon.{name} would go on alone. What the others decided without it is lost, and data that only their hosts have. They must \
             never start again: remove their stores. If that is so, give --yes-i-really-mean-it"
        )
    } else {
        format!(
            "mon.{name} has a store already: {}. It would be put aside, and what only it knows would be lost. If that is so, give \
             --yes-i-really-mean-it",
            store.display()
        )
    }
}

/// Returns what tells which of several monitors to rescue.
fn compared(name: &str, (term, index): (u64, u64)) -> String {
    format!(
        "the store of mon.{name} ends at (term, index) = ({term}, {index}). If stores of other monitors are left, compare: the larger term, of \
         equal terms the larger index, is the one to rescue"
    )
}

fn last_entry(store: &Path, fsid: Fsid) -> Result<(u64, u64)> {
    let (file, len) = open_store(store)?;
    mon::rescue::last_entry(&mut reader(&file), len, fsid.0).map_err(|why| anyhow::anyhow!("{}: {why}", store.display()))
}

fn not_asked(osds: &[i32]) -> String {
    let names: Vec<String> = osds.iter().map(|osd| format!("osd.{osd}")).collect();
    format!(
        "{} may know of newer maps. Pools and groups that came since would be lost. `nacre mon collect` on their hosts writes down what \
         they know, and --known FILE takes it. If those hosts are lost too, give --yes-i-really-mean-it",
        names.join(", ")
    )
}

fn load(dir: &Path) -> Result<State> {
    State::load(dir)?.with_context(|| format!("{} holds no host of a cluster (no nacre.toml)", dir.display()))
}

/// The monitor that is meant: the named one; else the one of this host's that knows most.
fn chosen(state: &State, dir: &Path, name: Option<&str>) -> Result<Option<MonState>> {
    let all = state.monitors();
    if let Some(name) = name {
        let known = all.into_iter().find(|m| m.name == name);
        return Ok(Some(known.unwrap_or(MonState { name: name.to_owned(), port: None, made: true })));
    }
    let fsid = state.fsid()?;
    let last = |mon: &MonState| last_entry(&mon.folder(dir).join("store"), fsid).ok();
    // Of equals, the first.
    Ok(all.into_iter().rev().max_by_key(last))
}

/// The CRUSH map that a monitor of this host has in its store, if one has. Nothing writes to the store meanwhile.
pub(crate) fn crush_map(state: &State, dir: &Path) -> Option<Arc<crush::Map>> {
    let fsid = state.fsid().ok()?.0;
    state.monitors().iter().find_map(|mon| {
        let (file, len) = open_store(&mon.folder(dir).join("store")).ok()?;
        mon::rescue::crush_map(&mut reader(&file), len, fsid).ok()
    })
}

fn open_store(path: &Path) -> Result<(File, u64)> {
    let file = File::open(path).with_context(|| format!("open {}", path.display()))?;
    let len = file.metadata().with_context(|| path.display().to_string())?.len();
    Ok((file, len))
}

fn reader(file: &File) -> impl FnMut(u64, &mut [u8]) -> Result<(), String> {
    move |offset, buf| file.read_exact_at(buf, offset).map_err(|e| e.to_string())
}

fn write_store(path: &Path, image: &[(u64, Vec<u8>)]) -> Result<()> {
    let write = || -> std::io::Result<()> {
        let _ = std::fs::remove_file(path);
        let file = File::options().write(true).create_new(true).open(path)?;
        image.iter().try_for_each(|(offset, bytes)| file.write_all_at(bytes, *offset))?;
        file.sync_all()
    };
    write().with_context(|| format!("write {}", path.display()))
}

fn sync_folder(path: &Path) -> Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    File::open(folder).and_then(|f| f.sync_all()).with_context(|| format!("flush {}", folder.display()))
}

/// Renames a store, if it is there, to a name that is free.
fn put_aside(store: &Path) -> Result<()> {
    if !store.exists() {
        return Ok(());
    }
    let aside = (1..).map(|n: u32| store.with_extension(format!("before-{n}"))).find(|path| !path.exists());
    let aside = aside.context("no name is free")?;
    std::fs::rename(store, &aside).with_context(|| format!("rename {}", store.display()))?;
    sync_folder(store)?;
    println!("the store of before is {}", aside.display());
    Ok(())
}

/// The bytes of a file, or of standard input.
fn take(path: &Path) -> Result<Vec<u8>> {
    if path != Path::new("-") {
        return std::fs::read(path).with_context(|| format!("read {}", path.display()));
    }
    let mut bytes = Vec::new();
    std::io::stdin().read_to_end(&mut bytes).context("read standard input")?;
    Ok(bytes)
}

/// Writes a file that only its owner can read, or to standard output.
fn give(path: &Path, bytes: &[u8]) -> Result<()> {
    if path == Path::new("-") {
        return std::io::stdout().write_all(bytes).context("write standard output");
    }
    keys::write_private_bytes(path, bytes)
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_is_read_or_refused() {
        assert_eq!(from_hex("00ff10"), Some(vec![0, 255, 16]));
        for text in ["0", "0g", "+1", "ä0"] {
            assert_eq!(from_hex(text), None, "{text}");
        }
    }

    #[test]
    fn a_store_is_put_aside_under_a_free_name() {
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path().join("store");
        for n in 1..=3 {
            std::fs::write(&store, n.to_string()).unwrap();
            put_aside(&store).unwrap();
            assert!(!store.exists());
            assert_eq!(std::fs::read_to_string(dir.path().join(format!("store.before-{n}"))).unwrap(), n.to_string());
        }
        put_aside(&store).unwrap();
    }
}
