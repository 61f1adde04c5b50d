//! What DIR says about the cluster in it: `nacre.toml`, and the lock against a second process.
//!
//!     DIR/nacre.toml        this file: the cluster's id, its OSDs and where their disks are
//!     DIR/lock              held by the process that runs the cluster, with its number
//!     DIR/ceph.conf         for clients          DIR/keyring    key of client.admin
//!     DIR/mon/, mon.NAME/   store, keyring       DIR/osd.N/     block (the disk, if it lives here), keyring
//!     DIR/log/              logs                 DIR/NAME.asok  admin sockets
//!     DIR/nacre.sock        the process that runs the host, for `nacre disk`          DIR/disk.lock  held by that

use crate::cli::Auth;
use crate::keys;
use anyhow::{Context, Result, bail};
use crush::Location;
use runtime::process::LockError;
use serde::{Deserialize, Serialize};
use std::fs::{File, Permissions};
use std::io::{Read, Seek, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use types::Fsid;

/// Version of this file: 1 for a cluster of one monitor on one host, which older programs know, too.
const VERSION: u32 = 2;
/// Names that may lie in a folder that a first start left unfinished.
const OURS: &[&str] = &["lock", "log", "mon", "keyring", "ceph.conf", "lost+found", crate::control::SOCKET, crate::disk::LOCK];

/// The content of `nacre.toml`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct State {
    /// Version of this file.
    version: u32,
    /// The cluster.
    fsid: String,
    /// Address where this host listens, if that was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) bind: Option<IpAddr>,
    /// Address where its OSDs listen for other OSDs, if that was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cluster_bind: Option<IpAddr>,
    /// The port of its monitor, if that was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) port: Option<u16>,
    /// The port of its metrics, if that was said; 0 for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) metrics_port: Option<u16>,
    /// The port of its page for other hosts, if that was said; 0 for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) page_port: Option<u16>,
    /// Method by which daemons and clients authenticate, if that was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) auth: Option<Auth>,
    /// The file for the log of its processes, if not DIR/log; relative to DIR. A person writes it here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) log_file: Option<PathBuf>,
    /// Place where this host is in the CRUSH map, if that was said: `datacenter=d1 rack=r1 root=default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) location: Option<String>,
    /// The cluster around this host, if it joined one, or others joined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) around: Option<Around>,
    /// Its monitors; none: one, of a cluster that began here.
    #[serde(default, rename = "mon", skip_serializing_if = "Vec::is_empty")]
    pub(crate) mons: Vec<MonState>,
    /// Its OSDs.
    #[serde(default, rename = "osd")]
    pub(crate) osds: Vec<OsdState>,
}

/// Records of a host about the cluster that it joined.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Around {
    /// Addresses of monitors.
    pub(crate) monitors: Vec<SocketAddr>,
    /// Method by which daemons and clients authenticate.
    pub(crate) cephx: bool,
}

/// One monitor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct MonState {
    /// Its name.
    pub(crate) name: String,
    /// Its port; without, what the command line or this file says for the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) port: Option<u16>,
    /// Its store was made and has served.
    #[serde(default)]
    pub(crate) made: bool,
}

impl MonState {
    /// The one of a cluster that says nothing of monitors.
    fn first() -> Self {
        Self { name: crate::monitors::FIRST.into(), port: None, made: false }
    }

    /// Its folder in DIR.
    pub(crate) fn folder(&self, dir: &Path) -> PathBuf {
        if self.name == crate::monitors::FIRST { dir.join("mon") } else { dir.join(format!("mon.{}", self.name)) }
    }
}

/// One OSD.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct OsdState {
    /// Its number.
    pub(crate) id: u32,
    /// Identity of its disk.
    uuid: String,
    /// Its store was made and has served.
    #[serde(default)]
    pub(crate) made: bool,
    /// It is being added, replaced or removed (`nacre disk`), and is not started meanwhile.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) held: bool,
    /// Bytes that a file may grow to.
    pub(crate) size: u64,
    /// Its disk as it was given; without, it is `osd.N/block` in DIR.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) disk: Option<PathBuf>,
    /// Disk of its journal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) journal: Option<PathBuf>,
}

impl OsdState {
    /// One that is new.
    pub(crate) fn new(id: u32, size: u64, disk: Option<PathBuf>, journal: Option<PathBuf>) -> Result<Self> {
        let uuid = Fsid(keys::random_uuid()?).to_string();
        Ok(Self { id, uuid, made: false, held: false, size, disk, journal })
    }

    /// The same, held.
    pub(crate) fn held(self) -> Self {
        Self { held: true, ..self }
    }

    pub(crate) fn uuid(&self) -> Result<[u8; 16]> {
        let id: Result<Fsid, _> = self.uuid.parse();
        id.map(|id| id.0).map_err(|_| anyhow::anyhow!("nacre.toml: '{}' is not an id of a disk", self.uuid))
    }

    /// The file or device of its data.
    pub(crate) fn block(&self, dir: &Path) -> PathBuf {
        self.disk.clone().unwrap_or_else(|| self.folder(dir).join("block"))
    }

    /// Its folder in DIR.
    pub(crate) fn folder(&self, dir: &Path) -> PathBuf {
        dir.join(format!("osd.{}", self.id))
    }
}

impl State {
    /// That of a host of a cluster.
    pub(crate) fn of(fsid: Fsid) -> Self {
        let fsid = fsid.to_string();
        Self {
            version: VERSION,
            fsid,
            bind: None,
            cluster_bind: None,
            port: None,
            metrics_port: None,
            page_port: None,
            auth: None,
            log_file: None,
            location: None,
            around: None,
            mons: Vec::new(),
            osds: Vec::new(),
        }
    }

    /// The monitors of this host.
    pub(crate) fn monitors(&self) -> Vec<MonState> {
        if self.mons.is_empty() && self.around.is_none() { vec![MonState::first()] } else { self.mons.clone() }
    }

    /// Returns where this host listens.
    pub(crate) fn bind(&self, given: Option<IpAddr>) -> IpAddr {
        given.or(self.bind).unwrap_or(IpAddr::from([127, 0, 0, 1]))
    }

    /// Returns where its OSDs listen for other OSDs, if that is elsewhere than at `bind`.
    pub(crate) fn cluster_bind(&self, given: Option<IpAddr>, bind: IpAddr) -> Result<Option<IpAddr>> {
        let Some(addr) = given.or(self.cluster_bind).filter(|addr| *addr != bind) else { return Ok(None) };
        if addr.is_unspecified() {
            bail!("--cluster-bind {addr} is every address: name the one that this host has in the network of the OSDs");
        }
        if addr.is_loopback() && !bind.is_loopback() {
            bail!("OSDs of other hosts cannot reach --cluster-bind {addr}");
        }
        Ok(Some(addr))
    }

    /// The port of its monitor.
    pub(crate) fn port(&self, given: Option<u16>) -> u16 {
        given.or(self.port).unwrap_or(crate::monitors::PORT)
    }

    /// The port of its metrics; 0 for none.
    pub(crate) fn metrics_port(&self, given: Option<u16>) -> u16 {
        given.or(self.metrics_port).unwrap_or(crate::face::METRICS_PORT)
    }

    /// The port of its page for other hosts; 0 for none. Where it listens for itself alone, it has none unless that was said.
    pub(crate) fn page_port(&self, given: Option<u16>, bind: IpAddr) -> u16 {
        given.or(self.page_port).unwrap_or(if bind.is_loopback() { 0 } else { crate::face::PAGE_PORT })
    }

    /// Remembers where this host listens, and how daemons and clients authenticate.
    pub(crate) fn remember(&mut self, bind: Option<IpAddr>, port: Option<u16>, auth: Option<Auth>) {
        self.auth = auth.or(self.auth);
        self.bind = bind.or(self.bind);
        self.port = port.or(self.port);
    }

    /// Takes up where all monitors of the cluster are. Whether that is news.
    pub(crate) fn surround(&mut self, monitors: &[SocketAddr], auth: Auth) -> bool {
        let around = Around { monitors: monitors.to_vec(), cephx: auth == Auth::Cephx };
        if self.around.as_ref() == Some(&around) {
            return false;
        }
        // What went without saying is said before it is a host among others.
        self.mons = self.monitors();
        self.mons.iter_mut().for_each(|m| m.made = true);
        self.around = Some(around);
        true
    }

    /// Returns how daemons and clients authenticate. Hosts of a cluster of several have what the cluster has.
    pub(crate) fn auth(&self, given: Option<Auth>) -> Auth {
        match &self.around {
            Some(around) if around.cephx => Auth::Cephx,
            Some(_) => Auth::None,
            None => given.or(self.auth).unwrap_or(Auth::Cephx),
        }
    }

    /// Returns where all monitors are that are known: those of this process, others of this host, others.
    pub(crate) fn all_monitors(&self, own: &[(String, SocketAddr)], bind: IpAddr, port: Option<u16>) -> Vec<SocketAddr> {
        let mut all: Vec<SocketAddr> = own.iter().map(|(_, addr)| *addr).collect();
        let here = self.monitors().into_iter().filter(|m| own.iter().all(|(name, _)| *name != m.name));
        let here = here.map(|m| SocketAddr::new(bind, m.port.unwrap_or_else(|| self.port(port))));
        let others = self.around.iter().flat_map(|a| a.monitors.iter().copied());
        for addr in here.chain(others) {
            if !all.contains(&addr) {
                all.push(addr);
            }
        }
        all
    }

    /// That of a new cluster.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self::of(Fsid(keys::random_uuid()?)))
    }

    pub(crate) fn fsid(&self) -> Result<Fsid> {
        self.fsid.parse().map_err(|_| anyhow::anyhow!("nacre.toml: '{}' is not an id of a cluster", self.fsid))
    }

    /// Reads that of `dir`; `None` if there is no cluster in it.
    pub(crate) fn load(dir: &Path) -> Result<Option<Self>> {
        let path = dir.join("nacre.toml");
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(e).with_context(|| format!("read {}", path.display())),
        };
        Self::parse(&text).with_context(|| path.display().to_string()).map(Some)
    }

    fn parse(text: &str) -> Result<Self> {
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }
        let Versioned { version } = toml::from_str(text).context("has no version")?;
        if version > VERSION {
            bail!("version {version} was written by a newer nacre; this one knows versions up to {VERSION}");
        }
        let mut state: Self = toml::from_str(text)?;
        state.version = VERSION;
        state.fsid()?;
        state.location.as_deref().map(Location::of_host).transpose().context("location")?;
        for (i, osd) in state.osds.iter().enumerate() {
            osd.uuid()?;
            if state.osds[..i].iter().any(|o| o.id == osd.id) {
                bail!("osd.{} is there twice", osd.id);
            }
        }
        Ok(state)
    }

    pub(crate) fn save(&self, dir: &Path) -> Result<()> {
        let head = "# Written by nacre. What is wrong here is lost there: change it only with the cluster stopped.\n\n";
        let simple = self.mons.is_empty() && self.around.is_none();
        let state = Self { version: if simple { 1 } else { VERSION }, ..self.clone() };
        keys::write_whole(&dir.join("nacre.toml"), &format!("{head}{}", toml::to_string(&state)?), 0o644)
    }

    /// Changes what DIR says now. Several processes may do so at once: each holds the folder from its look at the file
    /// until the file is written, so that none of them takes back what another one wrote.
    ///
    /// `self` gets what is in the file with the change; a file that is gone is written with what was known.
    pub(crate) fn change(&mut self, dir: &Path, change: impl FnOnce(&mut Self)) -> Result<()> {
        let folder = File::open(dir).with_context(|| format!("open {}", dir.display()))?;
        folder.lock().with_context(|| format!("lock {}", dir.display()))?;
        let before = Self::load(dir)?;
        let mut state = before.clone().unwrap_or_else(|| self.clone());
        change(&mut state);
        if before.as_ref() != Some(&state) {
            state.save(dir)?;
        }
        *self = state;
        Ok(())
    }

    /// The same, with what another process has noted as made meanwhile.
    pub(crate) fn with_what_was_made(mut self, noted: &Self) -> Self {
        for osd in &mut self.osds {
            osd.made |= noted.osds.iter().any(|o| o.uuid == osd.uuid && o.made);
        }
        for mon in &mut self.mons {
            mon.made |= noted.mons.iter().any(|m| m.name == mon.name && m.made);
        }
        self
    }

    /// The smallest number that no OSD has.
    pub(crate) fn free_id(&self) -> u32 {
        (0..).find(|id| self.osds.iter().all(|o| o.id != *id)).unwrap_or(u32::MAX)
    }
}

/// Returns whether a new cluster may be made in `dir`: it is not there, is empty, or holds what an unfinished first
/// start left.
pub(crate) fn check_empty(dir: &Path) -> Result<()> {
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(e).with_context(|| format!("read {}", dir.display())),
    };
    for entry in entries {
        let name = entry.with_context(|| format!("read {}", dir.display()))?.file_name();
        let name = name.to_string_lossy();
        let begun = name.starts_with("osd.") || name.starts_with("mon.") || name.ends_with(".asok") || name.ends_with(".new");
        if !OURS.contains(&&*name) && !begun {
            bail!("{} holds no cluster, but other things ({name}); give an empty or a new folder", dir.display());
        }
    }
    Ok(())
}

/// Makes a folder, and those above it, if it is not there. Its name is durable then: what lies in it may be flushed as
/// often as one likes, a name that the folder above was never told to keep can be gone after a power cut.
pub(crate) fn make_folder(path: &Path) -> Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let above = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    make_folder(above)?;
    let made = match std::fs::create_dir(path) {
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        other => other,
    };
    let kept = made.and_then(|()| File::open(above)?.sync_all());
    kept.with_context(|| format!("make the folder {}", path.display()))
}

/// Mode of a lock file: only its user may open it.
const LOCK: u32 = 0o600;

/// A lock file with the number of its holder. Held until it is dropped, or the process ends.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock at `path`, which stands for `what`.
    pub(crate) fn take(path: &Path, what: &str) -> Result<Self> {
        let open = File::options().read(true).write(true).create(true).truncate(false).mode(LOCK).open(path);
        let mut file = open.with_context(|| format!("open {}", path.display()))?;
        // Whoever may read a file may lock it, and keep this from starting.
        file.set_permissions(Permissions::from_mode(LOCK)).with_context(|| format!("change who may open {}", path.display()))?;
        lock(&mut file, what)?;
        let write = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
        write.with_context(|| format!("write {}", path.display()))?;
        Ok(Self { _file: file })
    }

    /// The process that holds the lock at `path`, if one does and is known.
    pub(crate) fn holder(path: &Path) -> Option<u32> {
        let mut file = File::open(path).ok()?;
        match runtime::process::lock(&file) {
            Err(LockError::Held(Some(pid))) => Some(pid),
            Err(LockError::Held(None)) => {
                let mut text = String::new();
                file.read_to_string(&mut text).ok()?;
                text.trim().parse().ok()
            }
            _ => None,
        }
    }

    /// Fails if somebody else holds the lock at `path`. Changes nothing.
    pub(crate) fn check(path: &Path, what: &str) -> Result<()> {
        match File::open(path) {
            Ok(mut file) => lock(&mut file, what),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
            Err(e) => Err(e).with_context(|| format!("open {}", path.display())),
        }
    }
}

fn lock(file: &mut File, what: &str) -> Result<()> {
    match runtime::process::lock(file) {
        Ok(()) => Ok(file.rewind()?),
        Err(LockError::System(e)) => Err(e).with_context(|| format!("lock {what}")),
        Err(LockError::Held(holder)) => {
            let mut text = String::new();
            let _ = file.read_to_string(&mut text);
            match holder.or_else(|| text.trim().parse().ok()) {
                Some(pid) => bail!("{what} is in use by process {pid}"),
                None => bail!("{what} is in use by another process"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authentication_stays_what_it_was_until_something_else_is_said() {
        let mut state = State::of(Fsid([7; 16]));
        assert_eq!(state.auth(None), Auth::Cephx);
        state.remember(None, None, Some(Auth::None));
        state.remember(None, None, None);
        assert_eq!((state.auth(None), state.auth(Some(Auth::Cephx))), (Auth::None, Auth::Cephx));
        state.surround(&[], Auth::Cephx);
        assert_eq!((state.auth(None), state.auth(Some(Auth::None))), (Auth::Cephx, Auth::Cephx));
    }

    #[test]
    fn states_are_kept_and_newer_ones_refused() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(State::load(dir.path()).unwrap(), None);
        let mut state = State::new().unwrap();
        state.osds.push(OsdState::new(0, 64 << 30, None, None).unwrap());
        state.osds.push(OsdState::new(2, 0, Some("/dev/sdb".into()), Some("/dev/sdc".into())).unwrap());
        state.save(dir.path()).unwrap();
        assert_eq!(State::load(dir.path()).unwrap().as_ref(), Some(&state));
        assert_eq!(state.free_id(), 1);
        for bad in ["version = 3\nfsid = 1\n", "", "version = 1\nfsid = \"x\"\n", "version = 1", "{"] {
            std::fs::write(dir.path().join("nacre.toml"), bad).unwrap();
            let error = format!("{:#}", State::load(dir.path()).unwrap_err());
            assert!(error.contains("nacre.toml"), "{error}");
        }
    }

    #[test]
    fn changes_of_several_at_once_are_all_kept() {
        let dir = tempfile::tempdir().unwrap();
        let mut state = State::new().unwrap();
        state.osds = (0..16).map(|id| OsdState::new(id, 1 << 30, None, None).unwrap()).collect();
        state.save(dir.path()).unwrap();
        // Each opens the folder itself, as a process of its own would: such locks exclude each other within a process, too.
        let start = std::sync::Barrier::new(16);
        std::thread::scope(|threads| {
            for id in 0..16 {
                let (mut known, start, dir) = (state.clone(), &start, dir.path());
                threads.spawn(move || {
                    start.wait();
                    known.change(dir, |state| state.osds[id].made = true).unwrap();
                    assert!(known.osds[id].made);
                });
            }
        });
        let noted = State::load(dir.path()).unwrap().unwrap();
        assert!(noted.osds.iter().all(|osd| osd.made), "{noted:?}");
        // What was planned before is written, and takes none of it back.
        state.osds.push(OsdState::new(16, 1 << 30, None, None).unwrap());
        let planned = state.clone();
        state.change(dir.path(), |now| *now = planned.with_what_was_made(now)).unwrap();
        let made: Vec<bool> = state.osds.iter().map(|osd| osd.made).collect();
        assert!(made[..16].iter().all(|made| *made) && !made[16], "{made:?}");
    }

    #[test]
    fn foreign_folders_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        check_empty(dir.path()).unwrap();
        check_empty(&dir.path().join("new")).unwrap();
        std::fs::create_dir(dir.path().join("osd.0")).unwrap();
        check_empty(dir.path()).unwrap();
        std::fs::write(dir.path().join("letters"), "").unwrap();
        assert!(check_empty(dir.path()).unwrap_err().to_string().contains("letters"));
    }

    #[test]
    fn a_lock_has_one_holder_and_names_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        Lock::check(&path, "x").unwrap();
        assert!(!path.exists());
        let held = Lock::take(&path, "the folder").unwrap();
        let error = Lock::take(&path, "the folder").unwrap_err().to_string();
        assert_eq!(error, format!("the folder is in use by process {}", std::process::id()));
        assert!(Lock::check(&path, "the folder").is_err());
        drop(held);
        // Older programs let everybody read it, and who reads may lock.
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        Lock::take(&path, "the folder").unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
