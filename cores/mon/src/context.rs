//! What the monitor is: those parts of its surroundings that commands ask about.

use crate::config::{AuthMode, Config};
use node::Now;
use types::{EntityName, EntityType};

/// The release that clients are told.
pub(crate) const RELEASE: &str = "pacific";
/// The number of that release.
pub(crate) const RELEASE_NUMBER: u8 = 16;
/// The version that clients are told: the level at which this cluster speaks.
pub(crate) const VERSION: &str = "16.2.15";
/// The text in place of Ceph's commit hash.
pub(crate) const COMMIT: &str = concat!("nacre-", env!("CARGO_PKG_VERSION"));
/// The number (global id) of the manager. Numbers of clients are above it.
pub(crate) const MGR_GID: u64 = 4100;
/// The election epoch that clients are told; even numbers mean an election under way.
pub(crate) const ELECTION_EPOCH: u64 = 3;
/// Features of the monitors' own protocol that are always on.
pub(crate) const MON_FEATURES: [&str; 8] =
    ["kraken", "luminous", "mimic", "osdmap-prune", "nautilus", "octopus", "pacific", "elector-pinging"];

/// The full version line.
pub(crate) fn version_line() -> String {
    format!("ceph version {VERSION} ({COMMIT}) {RELEASE} (stable)")
}

/// The monitor's surroundings.
#[derive(Clone, Debug)]
pub(crate) struct Env {
    /// What it was told when it was made.
    pub(crate) config: Config,
    /// When it began to serve.
    pub(crate) started: Now,
    /// Bytes that are free on the disk of its store; 0 if unknown.
    pub(crate) disk_free: u64,
    /// Bytes of the disk of its store in all; 0 if unknown.
    pub(crate) disk_size: u64,
    /// Whether the last write found no space.
    pub(crate) disk_full: bool,
    /// Largest number of bytes of the state so far, for `report`.
    pub(crate) snapshot_bytes: u64,
}

impl Env {
    /// The monitor's name as an entity.
    pub(crate) fn name(&self) -> EntityName {
        EntityName::new(EntityType::Mon, self.config.name.clone())
    }

    /// Says whether peers must show keys.
    pub(crate) fn cephx(&self) -> bool {
        self.config.auth == AuthMode::Cephx
    }
}
