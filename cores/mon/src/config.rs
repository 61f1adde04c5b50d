//! What a monitor is told when it is made.

use std::collections::BTreeMap;
use types::{EntityAddrVec, EntityName, Fsid};

/// How peers prove who they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AuthMode {
    /// They say it, and are believed.
    None,
    /// Shared keys, tickets.
    #[default]
    Cephx,
}

/// An entity that exists from the beginning.
#[derive(Clone, Debug)]
pub struct InitialKey {
    /// `client.admin`, `osd.0`, `mon.`
    pub name: EntityName,
    /// AES-128 key.
    pub key: [u8; 16],
    /// Capabilities: service (`mon`, `osd`, `mgr`) → text.
    pub caps: BTreeMap<String, String>,
}

/// What a monitor is told when it is made. The store (device 0) remembers the cluster; what is given here at a later
/// start and differs (addresses, authentication) is taken, but the cluster's id must be the one that is stored.
#[derive(Clone, Debug)]
pub struct Config {
    /// The cluster.
    pub fsid: Fsid,
    /// The monitor's name, without `mon.`: `a`.
    pub name: String,
    /// Where clients reach the monitor: what the driver listens on as listener 0. Nonce 0.
    pub addrs: EntityAddrVec,
    /// The manager's name, without `mgr.`: `x`.
    pub mgr_name: String,
    /// Where clients reach the manager's duties: listener 1.
    pub mgr_addrs: EntityAddrVec,
    /// Name of the host, for `node ls`, `mon metadata`.
    pub host: String,
    /// Authentication.
    pub auth: AuthMode,
    /// Entities that must exist: all are taken when the store is new; later, those of daemons and administrators
    /// (`mon.`, `mgr.*`, `osd.*`, `client.admin`) that are missing.
    pub keys: Vec<InitialKey>,
    /// Options as a configuration file would give them (`osd_pool_default_pg_num` → `32`); the configuration database
    /// stands above them.
    pub options: BTreeMap<String, String>,
    /// Bytes that the log may take on device 0 before it is folded into a snapshot. 0 for the default (8 MiB).
    pub log_bytes: u64,
}
