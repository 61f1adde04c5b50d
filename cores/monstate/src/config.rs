//! What a monitor is told when it is made.

use std::collections::BTreeMap;
use types::{EntityAddrVec, EntityName, Fsid, Levels};

/// Method by which peers prove who they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AuthMode {
    /// They say who they are, and are believed.
    None,
    /// They prove it with shared keys and tickets.
    #[default]
    Cephx,
}

/// An entity that exists from the beginning.
#[derive(Clone, Debug)]
pub struct InitialKey {
    /// The entity's name: `client.admin`, `osd.0`, `mon.`
    pub name: EntityName,
    /// The entity's AES-128 key.
    pub key: [u8; 16],
    /// The entity's capabilities: service (`mon`, `osd`, `mgr`) → text.
    pub caps: BTreeMap<String, String>,
}

/// Settings of a monitor, as it is told when it is made. The store (device 0) remembers the cluster. Addresses and authentication may
/// differ at a later start; the cluster's id must be the stored one.
#[derive(Clone, Debug)]
pub struct Config {
    /// The cluster's id.
    pub fsid: Fsid,
    /// The monitor's name without `mon.`: `a`.
    pub name: String,
    /// The addresses at which clients reach the monitor: listener 0 of the driver. Nonce 0.
    pub addrs: EntityAddrVec,
    /// The manager's name without `mgr.`: `x`.
    pub mgr_name: String,
    /// The addresses at which clients reach the manager: listener 1.
    pub mgr_addrs: EntityAddrVec,
    /// The name of the host, for `node ls` and `mon metadata`.
    pub host: String,
    /// Other texts of the host about itself, for `mon metadata` and `mgr metadata`: `kernel_version` and the like.
    pub about: BTreeMap<String, String>,
    /// Method by which peers prove who they are.
    pub auth: AuthMode,
    /// Entities that must exist. A new store takes all of them. Later, those of daemons and administrators (`mon.`,
    /// `mgr.*`, `osd.*`, `client.admin`) that are missing are added.
    pub keys: Vec<InitialKey>,
    /// Options as a configuration file gives them (`osd_pool_default_pg_num` → `32`). The configuration database stands
    /// above them.
    pub options: BTreeMap<String, String>,
    /// Place where monitors of the cluster are, for one whose store is new: it makes no cluster, and waits to be taken
    /// in by those. Nobody: a new store begins the cluster.
    pub join: Vec<EntityAddrVec>,
    /// True if the defaults of pools follow disks and hosts as they are added to the cluster that this begins.
    pub defaults_follow: bool,
    /// The levels that this program can run at, and tells other monitors: [`Levels::OWN`]. Tests make programs of other
    /// levels with it.
    pub levels: Levels,
    /// Bytes of the log on device 0 after which it is folded into a snapshot; 0 for the default of 8 MiB.
    pub log_bytes: u64,
    /// Place where the manager's services are, by the names of Ceph's modules: `prometheus` → `http://10.0.0.1:9283/`.
    pub services: BTreeMap<String, String>,
}

impl Config {
    /// Makes a configuration without addresses, keys, options and other monitors, and without authentication. Whoever
    /// needs more of a monitor sets it.
    pub fn bare(fsid: Fsid, name: &str) -> Self {
        Self {
            fsid,
            name: name.into(),
            addrs: EntityAddrVec::default(),
            mgr_name: "x".into(),
            mgr_addrs: EntityAddrVec::default(),
            host: "host".into(),
            about: BTreeMap::new(),
            auth: AuthMode::None,
            keys: Vec::new(),
            options: BTreeMap::new(),
            join: Vec::new(),
            defaults_follow: false,
            levels: Levels::OWN,
            log_bytes: 0,
            services: BTreeMap::new(),
        }
    }

    /// Returns what the monitor tells the others about itself and its host.
    pub fn metadata(&self) -> BTreeMap<String, String> {
        let own =
            [("hostname", self.host.clone()), ("arch", std::env::consts::ARCH.into()), (Levels::KEY, self.levels.to_string())];
        let own = own.into_iter().map(|(name, value)| (name.to_owned(), value));
        self.about.clone().into_iter().chain(own).collect()
    }
}
