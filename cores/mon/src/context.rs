//! What a monitor is: the part of its surroundings that commands ask about and that never changes while it runs.

use crate::config::{AuthMode, Config};
use node::Now;
use types::{EntityName, EntityType};

/// Release that clients are told.
pub(crate) const RELEASE: &str = "pacific";
/// Number of that release.
pub(crate) const RELEASE_NUMBER: u8 = 16;
/// Version that clients are told: the level at which this cluster speaks.
pub(crate) const VERSION: &str = "16.2.15";
/// Stands where Ceph has a commit's hash.
pub(crate) const COMMIT: &str = concat!("nacre-", env!("CARGO_PKG_VERSION"));
/// Number under which the manager is known; ids of clients are above it.
pub(crate) const MGR_GID: u64 = 4100;
/// Of how many elections the quorum came; even while electing.
pub(crate) const ELECTION_EPOCH: u64 = 3;
/// Features of the monitors' own protocol that are always on.
pub(crate) const MON_FEATURES: [&str; 8] =
    ["kraken", "luminous", "mimic", "osdmap-prune", "nautilus", "octopus", "pacific", "elector-pinging"];

/// The full version line.
pub(crate) fn version_line() -> String {
    format!("ceph version {VERSION} ({COMMIT}) {RELEASE} (stable)")
}

/// This monitor.
#[derive(Clone, Debug)]
pub(crate) struct Env {
    /// What it was told.
    pub(crate) config: Config,
    /// When it began to serve.
    pub(crate) started: Now,
    /// Bytes free and in all on the disk of its store; 0 if unknown.
    pub(crate) disk_free: u64,
    /// See `disk_free`.
    pub(crate) disk_size: u64,
    /// Whether the last write found no space.
    pub(crate) disk_full: bool,
    /// Largest size of the state so far, for `report`.
    pub(crate) snapshot_bytes: u64,
}

impl Env {
    /// The monitor's name as an entity.
    pub(crate) fn name(&self) -> EntityName {
        EntityName::new(EntityType::Mon, self.config.name.clone())
    }

    /// Whether peers must show keys.
    pub(crate) fn cephx(&self) -> bool {
        self.config.auth == AuthMode::Cephx
    }
}
