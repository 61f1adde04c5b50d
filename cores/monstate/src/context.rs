//! What the monitor is: those parts of its surroundings that commands ask about.

use crate::config::{AuthMode, Config};
use node::Now;
use std::collections::BTreeMap;
use types::{EntityName, EntityType, Levels};

/// The release that clients are told.
pub const RELEASE: &str = "pacific";
/// The number of that release.
pub const RELEASE_NUMBER: u8 = 16;
/// The version that clients are told: the level at which this cluster speaks.
pub const VERSION: &str = "16.2.15";
/// Stand-in for the commit of a program that does not tell it: one of before 0.2, or one of a test.
pub const UNKNOWN_COMMIT: &str = "0000000000000000000000000000000000000000";
/// The number (global id) of the manager. Numbers of clients are above it.
pub const MGR_GID: u64 = 4100;
/// Percent of its area from which on the state is large.
const STATE_LARGE: u64 = 40;
/// Features of the monitors' own protocol that are always on.
pub const MON_FEATURES: [&str; 8] =
    ["kraken", "luminous", "mimic", "osdmap-prune", "nautilus", "octopus", "pacific", "elector-pinging"];

/// The commit that a daemon's program is built of, by what the daemon tells about itself. Tools read 40 hexadecimal
/// digits between the brackets of a version line, and tell programs apart by them; so anything else counts as unknown.
pub fn commit(told: &BTreeMap<String, String>) -> &str {
    let good = |text: &&str| text.len() == UNKNOWN_COMMIT.len() && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    told.get(Levels::COMMIT).map(String::as_str).filter(good).unwrap_or(UNKNOWN_COMMIT)
}

/// The version line of a daemon, by what the daemon tells about itself.
pub fn version_line(told: &BTreeMap<String, String>) -> String {
    format!("ceph version {VERSION} ({}) {RELEASE} (stable)", commit(told))
}

/// Standing of the monitor among the monitors.
#[derive(Clone, Debug, Default)]
pub struct Standing {
    /// Number of the last election.
    pub term: u64,
    /// Name of the leader, if one is known.
    pub leader: Option<String>,
    /// Names of the voters that take part, by rank; as far as this monitor can know.
    pub quorum: Vec<String>,
    /// Names of all voters, by rank.
    pub voters: Vec<String>,
    /// Names of those that the leader hears, itself and those that only learn among them.
    pub heard: Vec<String>,
    /// Names of those whose stores were set back: they started with less than they had promised, and stopped.
    pub set_back: Vec<String>,
    /// True if this monitor leads.
    pub leads: bool,
    /// True if this monitor votes.
    pub is_voter: bool,
    /// Since when leader and quorum are these.
    pub since: Now,
}

impl Standing {
    /// The election epoch that clients are told: even numbers are of a quorum that stands.
    pub fn election_epoch(&self) -> u64 {
        2 * self.term + if self.quorum.is_empty() { 1 } else { 2 }
    }

    /// Returns who of the quorum would be left without some, as a list; an error if those would decide nothing.
    /// `removed`: those would not be counted as voters any more.
    pub fn without(&self, some: &[&str], removed: bool) -> Result<String, String> {
        let stays = |name: &&String| !some.contains(&name.as_str());
        let left: Vec<&str> = self.quorum.iter().filter(stays).map(String::as_str).collect();
        let voters = if removed { self.voters.iter().filter(stays).count() } else { self.voters.len() };
        let list = left.join(",");
        if left.len() > voters / 2 { Ok(list) } else { Err(list) }
    }
}

/// The monitor's surroundings.
#[derive(Clone, Debug)]
pub struct Env {
    /// Settings that it was told when it was made.
    pub config: Config,
    /// Time when it began to serve.
    pub started: Now,
    /// Its standing among the monitors.
    pub standing: Standing,
    /// Bytes that are free on the disk of its store; 0 if unknown.
    pub disk_free: u64,
    /// Bytes of the disk of its store in all; 0 if unknown.
    pub disk_size: u64,
    /// True if the last write found no space.
    pub disk_full: bool,
    /// Largest number of bytes of the state so far, for `report`.
    pub snapshot_bytes: u64,
    /// Bytes that the state takes, about, as the leader knows; 0 if unknown.
    pub state_bytes: u64,
    /// Bytes that the state and the log may take on the disk; 0 if unknown.
    pub area_bytes: u64,
    /// Calls of the driver for nothing, for `perf dump`.
    pub wakes: node::Wakes,
}

impl Env {
    /// The monitor's name as an entity.
    pub fn name(&self) -> EntityName {
        EntityName::new(EntityType::Mon, self.config.name.clone())
    }

    /// Returns whether the state takes so much of its area that somebody must hear of it.
    pub fn state_is_large(&self) -> bool {
        self.state_bytes > self.area_bytes / 100 * STATE_LARGE
    }

    /// Says whether peers must show keys.
    pub fn cephx(&self) -> bool {
        self.config.auth == AuthMode::Cephx
    }
}
