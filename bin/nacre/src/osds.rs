//! The OSDs of this host: their ports, disks and configuration.

use crate::cli::Auth;
use crate::initial::{OSD_CAPS, lost_key};
use crate::plan::{self, Content};
use crate::state::OsdState;
use crate::{host, keys};
use anyhow::{Context, Result, bail};
use node::{DeviceId, MailId};
use runtime::{Device, DeviceOptions};
use std::collections::BTreeMap;
use std::net::{IpAddr, TcpListener};
use std::path::Path;
use types::{EntityAddr, EntityAddrVec, Fsid};

/// Returns how mail is addressed to an OSD of this process.
pub(crate) fn mail_id(osd: i32) -> MailId {
    MailId(osd.unsigned_abs())
}

/// Settings that the OSDs of a process have in common.
pub(crate) struct Place<'a> {
    pub(crate) dir: &'a Path,
    pub(crate) fsid: Fsid,
    pub(crate) monitors: Vec<EntityAddrVec>,
    pub(crate) auth: Auth,
    pub(crate) bind: IpAddr,
    /// Address where OSDs listen for other OSDs, if that is elsewhere.
    pub(crate) cluster_bind: Option<IpAddr>,
    /// Place where this host is in the CRUSH map, if that was said.
    pub(crate) location: Option<String>,
    pub(crate) memory: Memory,
    /// All of them, and how mail is addressed to each.
    pub(crate) neighbours: BTreeMap<i32, MailId>,
}

/// Memory of an OSD, in bytes.
#[derive(Clone, Copy)]
pub(crate) struct Memory {
    /// Bytes that it begins with.
    pub(crate) first: u64,
    /// As it was given.
    pub(crate) ceiling: Option<u64>,
}

/// An OSD whose port and disks are open.
pub(crate) struct Prepared {
    pub(crate) name: String,
    pub(crate) listener: TcpListener,
    /// For other OSDs.
    pub(crate) cluster_listener: Option<TcpListener>,
    pub(crate) devices: Vec<(DeviceId, Device)>,
    pub(crate) config: osd::OsdConfig,
    pub(crate) store: store::Config,
    pub(crate) content: Content,
}

impl Place<'_> {
    /// Opens an OSD's port and disks.
    pub(crate) fn prepare(&self, osd: &OsdState) -> Result<Prepared> {
        let name = format!("osd.{}", osd.id);
        let whoami = i32::try_from(osd.id).with_context(|| format!("{name}: the number is too large"))?;
        let keyring = osd.folder(self.dir).join("keyring");
        if osd.made && !keyring.exists() {
            bail!("{}", lost_key(&keyring, self.dir, &name));
        }
        let key = keys::load_or_make(&keyring, &name, OSD_CAPS)?;
        let listener = host::listen_somewhere(self.bind)?;
        let addr = host::public_addr(&listener)?;
        let cluster_listener = self.cluster_bind.map(host::listen_somewhere).transpose()?;
        let cluster_addr = cluster_listener.as_ref().map(host::public_addr).transpose()?;
        let nonce = u32::from_le_bytes(keys::random()?);
        let (devices, content) = open_disks(osd, self.dir).with_context(|| name.clone())?;
        let config = osd::OsdConfig {
            fsid: self.fsid,
            whoami,
            uuid: osd.uuid()?,
            addrs: EntityAddrVec(vec![EntityAddr::msgr2(addr, nonce)]),
            cluster_addrs: EntityAddrVec(cluster_addr.map(|addr| EntityAddr::msgr2(addr, nonce)).into_iter().collect()),
            neighbours: self.neighbours.clone(),
            monitors: self.monitors.clone(),
            key: (self.auth == Auth::Cephx).then_some(key),
            metadata: self.metadata(osd, &devices, addr.ip(), cluster_addr.unwrap_or(addr).ip()),
            levels: types::Levels::OWN,
            seed: keys::random()?,
            memory: self.memory.first,
            memory_ceiling: self.memory.ceiling,
        };
        let mut store = store_config(osd, self.fsid, whoami, self.memory.first)?;
        store.discard = devices[0].1.discards();
        Ok(Prepared { name, listener, cluster_listener, devices, config, store, content })
    }

    /// Returns what an OSD tells of itself and its host.
    fn metadata(&self, osd: &OsdState, devices: &[(DeviceId, Device)], front: IpAddr, back: IpAddr) -> BTreeMap<String, String> {
        let dir = self.dir;
        let mut all = host::metadata();
        let block = osd.block(dir);
        let turns = |path: &Path| host::rotational(path) == Some(true);
        let class = if turns(&block) { "hdd" } else { "ssd" };
        let journal = osd.journal.as_deref().unwrap_or(&block);
        all.extend(host::disks(&[&block, journal]));
        let rows = [
            ("backing", block.display().to_string()),
            // OSDs with the same value are lost together. Folders are not asked on which disk they are: those of one DIR share one.
            ("disk", osd.disk.as_deref().unwrap_or(dir).display().to_string()),
            ("default_device_class", class.to_owned()),
            ("osd_data", osd.folder(dir).display().to_string()),
            ("osd_objectstore", "nacre".to_owned()),
            ("rotational", u8::from(turns(&block)).to_string()),
            ("journal_rotational", u8::from(turns(journal)).to_string()),
            ("front_iface", host::interface(front)),
            ("back_iface", host::interface(back)),
            ("direct_io", devices.iter().all(|d| d.1.is_direct()).to_string()),
        ];
        all.extend(rows.into_iter().map(|(name, value)| (name.to_owned(), value)));
        if let Some(location) = &self.location {
            all.insert("crush_location".into(), location.clone());
        }
        if let Some(journal) = &osd.journal {
            all.insert("journal".into(), journal.display().to_string());
        }
        all
    }
}

/// Opens the disks of an OSD; says whether a store is to be opened or made.
fn open_disks(osd: &OsdState, dir: &Path) -> Result<(Vec<(DeviceId, Device)>, Content)> {
    let block = osd.block(dir);
    let options = DeviceOptions { capacity: osd.size, create: !osd.made, direct: true };
    let data = Device::open(&block, &options)?;
    let content = plan::usable(osd, dir)?;
    if content == Content::Empty {
        // A disk of flash is told that nothing of what it held is wanted, before the store is made.
        data.discard_all().with_context(|| format!("discard what {} holds", block.display()))?;
    }
    let mut devices = vec![(DeviceId(0), data)];
    if let Some(journal) = &osd.journal {
        let capacity = store::Config::DEFAULT_JOURNAL + (1 << 20);
        let own = Device::open(journal, &DeviceOptions { capacity, create: !osd.made, direct: true })?;
        if content == Content::Empty {
            own.discard_all().with_context(|| format!("discard what {} holds", journal.display()))?;
        }
        devices.push((DeviceId(1), own));
    }
    Ok((devices, content))
}

fn store_config(osd: &OsdState, fsid: Fsid, whoami: i32, memory: u64) -> Result<store::Config> {
    Ok(store::Config {
        uuid: osd.uuid()?,
        fsid,
        whoami,
        memory: osd::store_share(memory),
        // A small disk is not filled by its journal.
        journal_bytes: store::Config::DEFAULT_JOURNAL.min((osd.size / 8).max(store::Config::LEAST_JOURNAL)),
        separate_journal: osd.journal.is_some(),
        ..store::Config::default()
    })
}
