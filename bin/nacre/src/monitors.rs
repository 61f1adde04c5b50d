//! The monitors of this host: which there are, where they listen, how they begin.

use crate::cli::{Auth, Up};
use crate::plan::{self, Content};
use crate::state::{MonState, State};
use crate::{host, keys};
use anyhow::{Context, Result, bail};
use node::{DeviceId, ListenerId};
use runtime::{Device, DeviceOptions};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use types::{EntityAddr, EntityAddrVec, Fsid};

/// The first monitor, with which a cluster begins.
pub(crate) const FIRST: &str = "a";
/// Its manager.
pub(crate) const FIRST_MGR: &str = "x";
/// Port where monitors listen if nothing else is said.
pub(crate) const PORT: u16 = 3300;
/// Bytes that a monitor's file may grow to.
const MON_SIZE: u64 = 64 << 30;
/// Most monitors in one process.
const MOST: u32 = 5;

/// Brings the monitors in `state` in line with `--mons`. A cluster of one monitor says nothing about it.
pub(crate) fn plan(state: &mut State, args: &Up) -> Result<()> {
    let Some(wanted) = args.mons else { return Ok(()) };
    if wanted == 0 || wanted > MOST || wanted.is_multiple_of(2) {
        bail!(
            "--mons {wanted}: one, three or five monitors can agree; of two or four, one more would have to be there than of one or three"
        );
    }
    if state.around.is_some() {
        bail!("this host joined a cluster; --mons is for a cluster on one host. `nacre join --monitor yes` adds a monitor");
    }
    let have = state.monitors().len() as u32;
    if wanted < have {
        bail!("the cluster has {have} monitors here, not {wanted}; `ceph mon rm NAME` removes one");
    }
    if wanted > have {
        let first = state.port(args.port);
        let mut mons = state.monitors();
        for n in have..wanted {
            let name = char::from(b'a' + n as u8).to_string();
            let port = first.checked_add(n as u16).context("--port is too large for so many monitors")?;
            mons.push(MonState { name, port: Some(port), made: false });
        }
        state.mons = mons;
    }
    Ok(())
}

/// A monitor that is about to start.
pub(crate) struct Prepared {
    pub(crate) name: String,
    pub(crate) folder: PathBuf,
    listener: TcpListener,
    pub(crate) addr: SocketAddr,
    /// It begins the cluster.
    begins: bool,
}

/// Listens for each of these monitors; says what is wrong before anything is changed.
pub(crate) fn listen(state: &State, dir: &Path, which: &[MonState], bind: IpAddr, port: Option<u16>) -> Result<Vec<Prepared>> {
    which.iter().map(|mon| prepare(state, dir, mon, bind, port)).collect()
}

fn prepare(state: &State, dir: &Path, mon: &MonState, bind: IpAddr, port: Option<u16>) -> Result<Prepared> {
    let folder = mon.folder(dir);
    let begins = begins(state, mon, &folder.join("store"))?;
    let listener = host::listen(bind, mon.port.unwrap_or_else(|| state.port(port)))?;
    let addr = host::public_addr(&listener)?;
    Ok(Prepared { name: mon.name.clone(), folder, listener, addr, begins })
}

/// Returns whether a monitor without a store begins the cluster. One that had a store, or is not the first, is taken
/// in by others: a new store would know nothing of the pools whose data the OSDs hold.
fn begins(state: &State, mon: &MonState, path: &Path) -> Result<bool> {
    plan::monitor_fits(path, state.fsid()?)?;
    let first = mon.name == FIRST && state.around.is_none();
    let content = plan::monitor_content(path)?;
    match content {
        Content::Store => Ok(false),
        _ if !first || (mon.made && state.monitors().len() > 1) => match content {
            Content::Foreign => bail!("the store of mon.{} is gone: {} holds something else", mon.name, path.display()),
            _ => Ok(false),
        },
        _ if !state.osds.iter().any(|o| o.made) => Ok(true),
        Content::Empty => bail!("the monitor's store is gone: {} is empty or not there; put it back", path.display()),
        Content::Foreign => bail!("the monitor's store is gone: {} holds something else", path.display()),
    }
}

/// Parts of a monitor's thread.
pub(crate) struct Parts {
    pub(crate) listeners: Vec<(ListenerId, TcpListener)>,
    pub(crate) devices: Vec<(DeviceId, Device)>,
    pub(crate) config: mon::Config,
    pub(crate) seed: [u8; 32],
}

impl Prepared {
    /// Opens the store and the manager's port. `others`: where other monitors are.
    pub(crate) fn open(
        self,
        fsid: Fsid,
        auth: Auth,
        bind: IpAddr,
        keys: Vec<mon::InitialKey>,
        others: &[SocketAddr],
        services: &BTreeMap<String, String>,
    ) -> Result<Parts> {
        let manager = host::listen_somewhere(bind)?;
        let manager_addr = host::public_addr(&manager)?;
        let options = DeviceOptions { capacity: MON_SIZE, ..DeviceOptions::default() };
        let device = Device::open(&self.folder.join("store"), &options)?;
        let nonce = u32::from_le_bytes(keys::random()?);
        let join = if self.begins { Vec::new() } else { others.iter().filter(|a| **a != self.addr).map(|a| at(*a)).collect() };
        let mgr_name = mgr_name(&self.name);
        let config = mon::Config {
            fsid,
            name: self.name,
            addrs: at(self.addr),
            mgr_name,
            mgr_addrs: EntityAddrVec(vec![EntityAddr::msgr2(manager_addr, nonce)]),
            host: host::name(),
            about: host::metadata().into_iter().chain(host::disks(&[&self.folder])).collect(),
            auth: match auth {
                Auth::None => mon::AuthMode::None,
                Auth::Cephx => mon::AuthMode::Cephx,
            },
            keys,
            options: BTreeMap::new(),
            join,
            defaults_follow: true,
            levels: types::Levels::OWN,
            log_bytes: 0,
            services: services.clone(),
        };
        let listeners = vec![(ListenerId(0), self.listener), (ListenerId(1), manager)];
        Ok(Parts { listeners, devices: vec![(DeviceId(0), device)], config, seed: keys::random()? })
    }
}

fn mgr_name(mon: &str) -> String {
    if mon == FIRST { FIRST_MGR.into() } else { mon.to_owned() }
}

/// The configuration of a monitor that is made of what OSDs know: no more of it than its first state needs.
pub(crate) fn config(state: &State, name: &str, addrs: EntityAddrVec, keys: Vec<mon::InitialKey>) -> Result<mon::Config> {
    Ok(mon::Config {
        fsid: state.fsid()?,
        name: name.to_owned(),
        addrs,
        mgr_name: mgr_name(name),
        mgr_addrs: EntityAddrVec(Vec::new()),
        host: host::name(),
        about: host::metadata(),
        auth: mon::AuthMode::default(),
        keys,
        options: BTreeMap::new(),
        join: Vec::new(),
        defaults_follow: true,
        levels: types::Levels::OWN,
        log_bytes: 0,
        services: BTreeMap::new(),
    })
}

/// A monitor's address as maps have it.
pub(crate) fn at(addr: SocketAddr) -> EntityAddrVec {
    EntityAddrVec(vec![EntityAddr::msgr2(addr, 0)])
}
