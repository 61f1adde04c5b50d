//! The manager.

use denc::{Decode, Encode, Reader, Result, envelope};
use std::collections::{BTreeMap, BTreeSet};
use types::{EntityAddrVec, Epoch, UTime};

/// A setting of a manager module (`MgrMap::ModuleOption` v1/c1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct ModuleOption {
    pub name: String,
    pub type_: u8,
    pub level: u8,
    pub flags: u32,
    pub default_value: String,
    pub min: String,
    pub max: String,
    pub enum_allowed: BTreeSet<String>,
    pub desc: String,
    pub long_desc: String,
    pub tags: BTreeSet<String>,
    pub see_also: BTreeSet<String>,
}
denc::versioned!(ModuleOption, 1, 1 {
    name, type_, level, flags, default_value, min, max, enum_allowed, desc, long_desc, tags, see_also,
});

/// A module that a manager could run (`MgrMap::ModuleInfo` v2/c1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModuleInfo {
    /// Its name.
    pub name: String,
    /// True if its needs are met.
    pub can_run: bool,
    /// Reasons against modules that cannot run.
    pub error_string: String,
    /// Its settings.
    pub module_options: BTreeMap<String, ModuleOption>,
}
denc::versioned!(ModuleInfo, 2, 1 { name, can_run, error_string, module_options });

/// A manager in waiting (`MgrMap::StandbyInfo` v4/c1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StandbyInfo {
    /// Its session's global id.
    pub gid: u64,
    /// Its name.
    pub name: String,
    /// Names of its modules.
    pub old_modules: BTreeSet<String>,
    /// Its modules.
    pub available_modules: Vec<ModuleInfo>,
    /// Features of its connections.
    pub mgr_features: u64,
}
denc::versioned!(StandbyInfo, 4, 1 { gid, name, old_modules, available_modules, mgr_features });

/// The map that names the manager. v12/c6.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MgrMap {
    /// The version.
    pub epoch: Epoch,
    /// Place where the active manager listens.
    pub active_addrs: EntityAddrVec,
    /// Its session's global id; 0 is none.
    pub active_gid: u64,
    /// True if it serves already.
    pub available: bool,
    /// Its name.
    pub active_name: String,
    /// Those in waiting, by global id.
    pub standbys: BTreeMap<u64, StandbyInfo>,
    /// Modules that are switched on.
    pub modules: BTreeSet<String>,
    /// Services of modules: name → URL.
    pub services: BTreeMap<String, String>,
    /// Modules that the active manager has.
    pub available_modules: Vec<ModuleInfo>,
    /// Time when the active manager changed.
    pub active_change: UTime,
    /// Modules that are always on, by release.
    pub always_on_modules: BTreeMap<u32, BTreeSet<String>>,
    /// Features of its connections.
    pub active_mgr_features: u64,
    /// OSD map epoch in which the last active manager was fenced.
    pub last_failure_osd_epoch: Epoch,
    /// Addresses of the RADOS clients inside the manager.
    pub clients: Vec<EntityAddrVec>,
    /// Their names.
    pub clients_names: Vec<String>,
}

impl Encode for MgrMap {
    fn encode(&self, out: &mut Vec<u8>) {
        envelope(out, 12, 6, |out| {
            self.epoch.encode(out);
            self.active_addrs.encode(out);
            self.active_gid.encode(out);
            self.available.encode(out);
            self.active_name.encode(out);
            self.standbys.encode(out);
            self.modules.encode(out);
            self.services.encode(out);
            self.available_modules.encode(out);
            self.active_change.encode(out);
            self.always_on_modules.encode(out);
            self.active_mgr_features.encode(out);
            self.last_failure_osd_epoch.encode(out);
            self.clients.encode(out);
            self.clients_names.encode(out);
        });
    }
}

impl Decode for MgrMap {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut e = r.envelope("MgrMap", 12)?;
        e.at_least("MgrMap", 11)?;
        let (v, b) = (e.version, &mut e.body);
        Ok(Self {
            epoch: b.get()?,
            active_addrs: b.get()?,
            active_gid: b.get()?,
            available: b.get()?,
            active_name: b.get()?,
            standbys: b.get()?,
            modules: b.get()?,
            services: b.get()?,
            available_modules: b.get()?,
            active_change: b.get()?,
            always_on_modules: b.get()?,
            active_mgr_features: b.get()?,
            last_failure_osd_epoch: b.get()?,
            clients: b.get()?,
            clients_names: if v >= 12 { b.get()? } else { Vec::new() },
        })
    }
}
