//! What an OSD is told when it is made, and the options that can change while it runs.

use node::MailId;
use std::collections::BTreeMap;
use std::time::Duration;
use types::{EntityAddrVec, EntityName, EntityType, Fsid, Levels, OsdId};

/// Settings that an OSD is told when it is made.
#[derive(Clone, Debug)]
pub struct OsdConfig {
    /// The cluster that it belongs to.
    pub fsid: Fsid,
    /// Its number.
    pub whoami: OsdId,
    /// Identity of its disk, made when the disk was.
    pub uuid: [u8; 16],
    /// Place where clients reach it (listener 0), with the nonce of this start.
    pub addrs: EntityAddrVec,
    /// Place where other OSDs reach it (listener 1), with the same nonce; empty: where clients do.
    pub cluster_addrs: EntityAddrVec,
    /// OSDs that run in the same process, if the driver carries mail between them: who, and how it is addressed. [`crate::Neighbours`] says who
    /// they are later.
    pub neighbours: BTreeMap<OsdId, MailId>,
    /// Place where the monitors are, tried in turn.
    pub monitors: Vec<EntityAddrVec>,
    /// Its key, if the cluster uses cephx.
    pub key: Option<[u8; 16]>,
    /// Described to the monitor at boot: host name, kernel, version, driver, backing file.
    pub metadata: BTreeMap<String, String>,
    /// The levels that this program can run at, and tells the monitors: [`Levels::OWN`]. Tests make programs of other
    /// levels with it.
    pub levels: Levels,
    /// Secret, different at each start.
    pub seed: [u8; 32],
    /// Memory in bytes that it begins with; see [`node::Input::Memory`].
    pub memory: u64,
    /// Ceiling of memory in bytes that whoever starts it has set.
    pub memory_ceiling: Option<u64>,
}

impl OsdConfig {
    /// `osd.N`.
    pub fn name(&self) -> EntityName {
        EntityName::new(EntityType::Osd, self.whoami.to_string())
    }
}

/// Options that `config set` changes while the OSD runs; the names are Ceph's.
#[derive(Clone, Debug)]
pub struct Options {
    /// Limits of the placement groups.
    pub pg: pg::Config,
    /// An operation older than this is slow (`osd_op_complaint_time`).
    pub complaint: Duration,
    /// Between two heartbeats to other OSDs (`osd_heartbeat_interval`).
    pub beat_interval: Duration,
    /// Silence after which a peer is reported (`osd_heartbeat_grace`).
    pub beat_grace: Duration,
    /// So many other OSDs are sent heartbeats at least, if there are so many (`osd_heartbeat_min_peers`).
    pub beat_partners: usize,
    /// The part of them that an OSD must reach before it boots again after it was marked down, 0 to 1
    /// (`osd_heartbeat_min_healthy_ratio`).
    pub healthy_ratio: f64,
    /// True if a peer whose port refuses connections is reported at once (`osd_fast_fail_on_connection_refused`).
    pub fast_fail: bool,
    /// Number of times that this OSD may be marked down wrongly in [`Options::markdown_period`] before it stays down
    /// (`osd_max_markdown_count`).
    pub markdowns: usize,
    /// See [`Options::markdowns`] (`osd_max_markdown_period`).
    pub markdown_period: Duration,
    /// Silence of the own disk after which this OSD asks to be marked down (`osd_disk_stuck_timeout`).
    pub disk_patience: Duration,
    /// Finished operations kept for `dump_historic_ops` (`osd_op_history_size`).
    pub history: usize,
    /// Used part of the disk from which on writes are turned away whatever the map says (`osd_failsafe_full_ratio`).
    pub failsafe_full: f64,
    /// Number of groups that bring objects at a time: of those that this OSD leads, and of those that bring some to it
    /// (`osd_max_backfills`).
    pub max_backfills: usize,
    /// Objects on their way at a time, at most; 0 for what suits the disk (`osd_recovery_max_active`).
    pub recovery_active: usize,
    /// The same for disks that turn, and for others (`osd_recovery_max_active_hdd`, `_ssd`).
    pub recovery_active_of: (usize, usize),
    /// Time from one object to the next, 0 for none but what clients' operations ask for (`osd_recovery_sleep`).
    pub recovery_sleep: Duration,
    /// The same for disks that turn, and for others, where that is 0 (`osd_recovery_sleep_hdd`, `_ssd`).
    pub recovery_sleep_of: (Duration, Duration),
    /// Time when groups are scrubbed.
    pub scrubs: crate::ScrubOptions,
    /// Bytes of memory at most (`osd_memory_target`).
    pub memory_target: Option<u64>,
    /// True if it takes less if there is less (`osd_memory_target_autotune`).
    pub memory_found: bool,
    /// True if objects that lie scattered are brought together (`osd_defragment`).
    pub defragment: bool,
    /// Everything that was set, by name, as it was given.
    pub given: BTreeMap<String, String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            pg: pg::Config::default(),
            complaint: Duration::from_secs(30),
            beat_interval: Duration::from_millis(500),
            beat_grace: crate::failure_detector::GRACE,
            beat_partners: 10,
            healthy_ratio: 0.33,
            fast_fail: true,
            markdowns: 5,
            markdown_period: Duration::from_secs(600),
            disk_patience: Duration::from_secs(15),
            history: 20,
            failsafe_full: 0.97,
            max_backfills: 1,
            recovery_sleep: Duration::ZERO,
            recovery_sleep_of: (Duration::ZERO, Duration::ZERO),
            recovery_active: 0,
            recovery_active_of: (3, 10),
            scrubs: crate::ScrubOptions::default(),
            memory_target: None,
            memory_found: true,
            // Off: few crashes of whole clusters have met it yet.
            defragment: true,
            given: BTreeMap::new(),
        }
    }
}

/// An option that an OSD has: name, default, meaning.
pub struct OptionRow {
    /// Ceph's name.
    pub name: &'static str,
    /// Its default.
    pub default: &'static str,
    /// In words.
    pub about: &'static str,
}

/// All options that this OSD heeds.
pub const OPTIONS: &[OptionRow] = &[
    OptionRow {
        name: "debug_osd",
        default: "1/5",
        about: "log level: 0 errors and warnings, 1-9 events, 10 and more operations",
    },
    OptionRow { name: "osd_client_watch_timeout", default: "30", about: "seconds after which a silent watch is dropped" },
    OptionRow {
        name: "osd_failsafe_full_ratio",
        default: "0.97",
        about: "used part of the disk from which on writes are turned away, whatever the map says",
    },
    OptionRow {
        name: "osd_defragment",
        default: "true",
        about: "bring objects together in the background whose data lies scattered on the disk",
    },
    OptionRow {
        name: "osd_disk_stuck_timeout",
        default: "15",
        about: "seconds without a completion of the disk after which the OSD asks to be marked down",
    },
    OptionRow {
        name: "osd_fast_fail_on_connection_refused",
        default: "true",
        about: "report a peer whose port refuses connections at once",
    },
    OptionRow { name: "osd_heartbeat_grace", default: "3", about: "seconds of silence after which a peer is reported" },
    OptionRow {
        name: "osd_heartbeat_interval",
        default: "0.5",
        about: "seconds between two heartbeats to other OSDs, 0.1 to 60",
    },
    OptionRow {
        name: "osd_heartbeat_min_healthy_ratio",
        default: "0.33",
        about: "part of the other OSDs that one which was marked down must reach before it boots again",
    },
    OptionRow { name: "osd_heartbeat_min_peers", default: "10", about: "other OSDs that are sent heartbeats at least" },
    OptionRow {
        name: "osd_max_markdown_count",
        default: "5",
        about: "times to be marked down wrongly within osd_max_markdown_period before the OSD stays down until it is restarted",
    },
    OptionRow { name: "osd_max_markdown_period", default: "600", about: "seconds in which osd_max_markdown_count counts" },
    OptionRow {
        name: "osd_max_backfills",
        default: "1",
        about: "placement groups that this OSD leads and that bring objects at a time, and those that bring some to it",
    },
    OptionRow {
        name: "osd_recovery_max_active",
        default: "0",
        about: "objects that this OSD brings at a time, at most; 0: osd_recovery_max_active_hdd or _ssd",
    },
    OptionRow { name: "osd_recovery_max_active_hdd", default: "3", about: "the same for disks that turn" },
    OptionRow { name: "osd_recovery_max_active_ssd", default: "10", about: "the same for other disks" },
    OptionRow {
        name: "osd_recovery_sleep",
        default: "0",
        about: "seconds from one object that is brought to the next, at least; 0: osd_recovery_sleep_hdd or _ssd",
    },
    OptionRow {
        name: "osd_recovery_sleep_hdd",
        default: "0",
        about: "the same for disks that turn; 0: none, clients' latency slows recovery by itself",
    },
    OptionRow { name: "osd_recovery_sleep_ssd", default: "0", about: "the same for other disks" },
    OptionRow { name: "osd_max_attr_size", default: "0", about: "largest attribute in bytes, 0 for no limit but the store's" },
    OptionRow { name: "osd_max_object_name_len", default: "2048", about: "longest object name in bytes" },
    OptionRow { name: "osd_max_object_namespace_len", default: "256", about: "longest namespace in bytes" },
    OptionRow { name: "osd_max_object_size", default: "134217728", about: "largest object in bytes" },
    OptionRow { name: "osd_max_omap_entries_per_request", default: "1024", about: "most omap entries in one answer" },
    OptionRow { name: "osd_max_pg_log_entries", default: "3000", about: "log entries kept for each placement group" },
    OptionRow {
        name: "osd_memory_target",
        default: "4294967296",
        about: "most bytes of memory; less is taken where there is less, unless osd_memory_target_autotune is false",
    },
    OptionRow {
        name: "osd_memory_target_autotune",
        default: "true",
        about: "take a fair share of the memory that the host, or its control group, has",
    },
    OptionRow { name: "osd_op_complaint_time", default: "30", about: "seconds after which an operation counts as slow" },
    OptionRow { name: "osd_op_history_size", default: "20", about: "finished operations that are remembered" },
    OptionRow { name: "osd_pg_log_dups_tracked", default: "3000", about: "requests remembered after they left the log" },
    OptionRow {
        name: "osd_deep_scrub_interval",
        default: "604800",
        about: "seconds between two deep scrubs of a placement group",
    },
    OptionRow {
        name: "osd_deep_scrub_large_omap_object_key_threshold",
        default: "200000",
        about: "keys of an object's omap above which a deep scrub tells of it",
    },
    OptionRow {
        name: "osd_deep_scrub_large_omap_object_value_sum_threshold",
        default: "1073741824",
        about: "bytes of the values in an object's omap above which a deep scrub tells of it",
    },
    OptionRow {
        name: "osd_deep_scrub_randomize_ratio",
        default: "0.15",
        about: "part of osd_deep_scrub_interval over which deep scrubs are spread",
    },
    OptionRow { name: "osd_max_scrubs", default: "1", about: "placement groups that this OSD scrubs at a time" },
    OptionRow {
        name: "osd_scrub_begin_hour",
        default: "0",
        about: "scrubs begin from this hour on (UTC), up to osd_scrub_end_hour; equal: all day",
    },
    OptionRow {
        name: "osd_scrub_begin_week_day",
        default: "0",
        about: "the same for days, 0 is Sunday, up to osd_scrub_end_week_day",
    },
    OptionRow {
        name: "osd_scrub_during_recovery",
        default: "false",
        about: "begin scrubs also while placement groups of this OSD recover",
    },
    OptionRow { name: "osd_scrub_end_hour", default: "0", about: "see osd_scrub_begin_hour" },
    OptionRow { name: "osd_scrub_end_week_day", default: "0", about: "see osd_scrub_begin_week_day" },
    OptionRow {
        name: "osd_scrub_interval_randomize_ratio",
        default: "0.5",
        about: "part of osd_scrub_min_interval over which scrubs are spread",
    },
    OptionRow { name: "osd_scrub_max_interval", default: "604800", about: "seconds after which hours and days do not matter" },
    OptionRow { name: "osd_scrub_min_interval", default: "86400", about: "seconds between two scrubs of a placement group" },
    OptionRow {
        name: "osd_scrub_auto_repair",
        default: "false",
        about: "mend at once what a deep scrub finds, from copies that are right",
    },
    OptionRow {
        name: "osd_scrub_auto_repair_num_errors",
        default: "5",
        about: "do not, if more objects of a placement group than this are wrong",
    },
];

/// An option's default: this OSD's for those that it heeds, else Ceph's.
pub(crate) fn default_of(name: &str) -> Option<&'static str> {
    let ours = OPTIONS.iter().find(|row| row.name == name).map(|row| row.default);
    ours.or_else(|| settings::find(name).map(|s| s.default))
}

impl Options {
    /// Takes what the monitor configured. Values that do not parse are left at their defaults and named in the result.
    pub fn from_config(given: &BTreeMap<String, String>) -> (Self, Vec<String>) {
        let mut options = Self { given: given.clone(), ..Self::default() };
        let mut bad = Vec::new();
        for (name, value) in given {
            if options.set(name, value).is_none() {
                bad.push(format!("{name} = {value}"));
            }
        }
        (options, bad)
    }

    /// Sets one option; `None` if the value does not parse. Names that are not the OSD's are no error: the
    /// configuration database is shared.
    fn set(&mut self, name: &str, value: &str) -> Option<()> {
        if let Some(taken) = self.scrubs.set(name, value) {
            return taken;
        }
        match name {
            "osd_client_watch_timeout" => self.pg.watch_timeout = Duration::from_secs(value.parse().ok()?),
            "osd_max_attr_size" => match value.parse().ok()? {
                0 => {}
                n => self.pg.max_xattr = n,
            },
            "osd_max_object_name_len" => self.pg.max_name = value.parse().ok()?,
            "osd_max_object_namespace_len" => self.pg.max_namespace = value.parse().ok()?,
            "osd_max_object_size" => self.pg.max_object_size = value.parse().ok()?,
            "osd_max_omap_entries_per_request" => self.pg.omap_entries = value.parse().ok()?,
            "osd_max_pg_log_entries" => self.pg.log_entries = value.parse().ok()?,
            "osd_pg_log_dups_tracked" => self.pg.dup_entries = value.parse().ok()?,
            "osd_deep_scrub_large_omap_object_key_threshold" => self.pg.large_omap_keys = value.parse().ok()?,
            "osd_deep_scrub_large_omap_object_value_sum_threshold" => self.pg.large_omap_values = bytes(value)?,
            "osd_scrub_auto_repair" => self.pg.auto_repair = flag(value)?,
            "osd_scrub_auto_repair_num_errors" => self.pg.auto_repair_errors = value.parse().ok()?,
            "osd_heartbeat_interval" => {
                self.beat_interval = seconds(value, 0.1..=60.0)?;
            }
            "osd_heartbeat_grace" => self.beat_grace = seconds(value, 0.5..=3600.0)?,
            "osd_heartbeat_min_peers" => self.beat_partners = value.parse().ok()?,
            "osd_heartbeat_min_healthy_ratio" => {
                self.healthy_ratio = value.parse().ok().filter(|r| (0.0..=1.0).contains(r))?;
            }
            "osd_fast_fail_on_connection_refused" => self.fast_fail = flag(value)?,
            "osd_max_markdown_count" => self.markdowns = value.parse().ok()?,
            "osd_max_markdown_period" => self.markdown_period = seconds(value, 0.0..=1e9)?,
            "osd_max_backfills" => self.max_backfills = value.parse().ok()?,
            "osd_recovery_max_active" => self.recovery_active = value.parse().ok()?,
            "osd_recovery_max_active_hdd" => self.recovery_active_of.0 = value.parse().ok().filter(|n| *n > 0)?,
            "osd_recovery_max_active_ssd" => self.recovery_active_of.1 = value.parse().ok().filter(|n| *n > 0)?,
            "osd_recovery_sleep" => self.recovery_sleep = seconds(value, 0.0..=60.0)?,
            "osd_recovery_sleep_hdd" => self.recovery_sleep_of.0 = seconds(value, 0.0..=60.0)?,
            "osd_recovery_sleep_ssd" => self.recovery_sleep_of.1 = seconds(value, 0.0..=60.0)?,
            "osd_disk_stuck_timeout" => self.disk_patience = seconds(value, 1.0..=1e9)?,
            "osd_op_complaint_time" => self.complaint = Duration::try_from_secs_f64(value.parse().ok()?).ok()?,
            "osd_failsafe_full_ratio" => {
                self.failsafe_full = value.parse().ok().filter(|r| (0.0..=1.0).contains(r))?;
            }
            "osd_defragment" => self.defragment = flag(value)?,
            "osd_memory_target" => self.memory_target = Some(bytes(value)?),
            "osd_memory_target_autotune" => self.memory_found = flag(value)?,
            "osd_op_history_size" => self.history = value.parse::<usize>().ok()?.min(10_000),
            _ => {}
        }
        Some(())
    }

    /// Objects that are brought at a time, at most, with a disk of this class.
    pub(crate) fn recovery_at_a_time(&self, class: Option<&str>) -> usize {
        match (self.recovery_active, class) {
            (0, Some("hdd")) => self.recovery_active_of.0,
            (0, _) => self.recovery_active_of.1,
            (most, _) => most,
        }
    }

    /// Time from one object that is brought to the next, at least, with a disk of this class.
    pub(crate) fn time_between(&self, class: Option<&str>) -> Duration {
        match class {
            _ if !self.recovery_sleep.is_zero() => self.recovery_sleep,
            Some("hdd") => self.recovery_sleep_of.0,
            _ => self.recovery_sleep_of.1,
        }
    }

    /// The value of an option as text: what was given, or its default. `None` if there is no such option.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.given.get(name).map(String::as_str).or_else(|| default_of(name))
    }

    /// Milliseconds from which on a heartbeat was slow, as Ceph counts: `mon_warn_on_slow_ping_time`, or a part
    /// (`mon_warn_on_slow_ping_ratio`) of `osd_heartbeat_grace`.
    pub fn slow_ping(&self) -> i64 {
        let number = |name| self.get(name).and_then(|value| value.parse::<f64>().ok()).unwrap_or_default();
        match number("mon_warn_on_slow_ping_time") {
            time if time > 0.0 => time as i64,
            _ => (self.ceph_grace() * number("mon_warn_on_slow_ping_ratio") * 1_000.0) as i64,
        }
    }

    /// `osd_heartbeat_grace` in seconds as it was given, or Ceph's default: what counts as slow does not follow our
    /// shorter one.
    fn ceph_grace(&self) -> f64 {
        let given = self.given.get("osd_heartbeat_grace").map(String::as_str);
        let text = given.or_else(|| settings::find("osd_heartbeat_grace").map(|s| s.default));
        text.and_then(|text| text.parse().ok()).unwrap_or_default()
    }

    /// The log level that `debug_osd` asks for; `None` if it was not set.
    pub fn level(&self) -> Option<node::Level> {
        let value = self.given.get("debug_osd")?;
        let n: u32 = value.split('/').next()?.trim().parse().ok()?;
        Some(match n {
            0 => node::Level::Warn,
            1..10 => node::Level::Info,
            _ => node::Level::Debug,
        })
    }
}

/// `1073741824`, `1024M`, `1Gi`, `1GiB`: units are of 1024.
fn bytes(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim().to_ascii_uppercase();
    let unit = unit.strip_suffix('B').unwrap_or(&unit);
    let unit = unit.strip_suffix('I').unwrap_or(unit);
    let power = ["", "K", "M", "G", "T"].iter().position(|u| *u == unit)?;
    number.parse::<u64>().ok()?.checked_mul(1 << (10 * power))
}

/// A number of seconds within bounds.
fn seconds(text: &str, within: std::ops::RangeInclusive<f64>) -> Option<Duration> {
    let seconds = text.parse().ok().filter(|s| within.contains(s))?;
    Duration::try_from_secs_f64(seconds).ok()
}

pub(crate) fn flag(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "1" => Some(true),
        "false" | "no" | "off" | "0" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_taken_and_bad_values_named() {
        let given = BTreeMap::from([
            ("osd_max_object_size".to_owned(), "1000".to_owned()),
            ("osd_op_complaint_time".to_owned(), "soon".to_owned()),
            ("rbd_cache".to_owned(), "false".to_owned()),
            ("debug_osd".to_owned(), "20/20".to_owned()),
        ]);
        let (options, bad) = Options::from_config(&given);
        assert_eq!((options.pg.max_object_size, bad), (1000, vec!["osd_op_complaint_time = soon".to_owned()]));
        assert_eq!((options.get("osd_max_object_size"), options.get("osd_op_history_size")), (Some("1000"), Some("20")));
        assert_eq!(options.level(), Some(node::Level::Debug));
        assert_eq!((options.get("debug_asok"), options.get("nothing_there")), (Some("1/5"), None), "kept, though not heeded");
    }

    #[test]
    fn sizes_have_units() {
        let all = ["0", "4096", "2K", "3Mi", "1 GiB", "1tb", "1.5G", "G", "-1", "18446744073709551615K"];
        let read = [Some(0), Some(4096), Some(2048), Some(3 << 20), Some(1 << 30), Some(1 << 40), None, None, None, None];
        assert_eq!(all.map(bytes), read);
        assert_eq!(["Yes", "off", "maybe"].map(flag), [Some(true), Some(false), None]);
    }

    #[test]
    fn defaults_in_the_table_are_the_defaults_in_force() {
        let (from_table, bad) =
            Options::from_config(&OPTIONS.iter().map(|r| (r.name.to_owned(), r.default.to_owned())).collect());
        assert!(bad.is_empty());
        let plain = Options::default();
        assert_eq!(format!("{:?}", from_table.pg), format!("{:?}", plain.pg));
        assert_eq!((from_table.complaint, from_table.history), (plain.complaint, plain.history));
        assert_eq!((from_table.beat_interval, from_table.beat_grace), (plain.beat_interval, plain.beat_grace));
        assert_eq!((from_table.beat_partners, from_table.fast_fail), (plain.beat_partners, plain.fast_fail));
        assert!((from_table.healthy_ratio - plain.healthy_ratio).abs() < 1e-9);
        assert_eq!((from_table.markdowns, from_table.markdown_period), (plain.markdowns, plain.markdown_period));
        assert_eq!((from_table.disk_patience, plain.slow_ping()), (plain.disk_patience, 1000));
        assert_eq!(from_table.scrubs, plain.scrubs);
        assert!((from_table.failsafe_full - plain.failsafe_full).abs() < 1e-9);
    }
}
