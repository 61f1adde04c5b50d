//! Options as Ceph names them: their types, defaults and bounds, and what a good value is.
//!
//! `ceph-16.2.tsv` lists what `ceph config help` of release 16.2.15 tells: name, type, level, whether a change counts
//! at once, whether the cluster may store it, default, least and greatest value, permitted values. Which of them
//! somebody here reads is known to the readers.

mod effect;
pub mod file;
mod inject;
mod value;

pub use effect::{Effect, READ, Readers, effect, effect_at, readers};
pub use inject::injected;
pub use value::{Kind, Wrong};

use std::sync::OnceLock;

/// Options of which whoever reads them here takes more values than Ceph: heartbeats may be less than a second apart.
const BOUNDS_OF_OURS: &[&str] = &["osd_heartbeat_interval"];

const TABLE: &str = include_str!("ceph-16.2.tsv");

/// One of Ceph's options.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setting {
    /// Name, with underscores.
    pub name: &'static str,
    /// Type.
    pub kind: Kind,
    /// `basic`, `advanced` or `dev`.
    pub level: &'static str,
    /// True if a change counts at once.
    pub live: bool,
    /// True if it says where the cluster is, so that it cannot be stored in it.
    pub fixed: bool,
    /// Default.
    pub default: &'static str,
    /// Least value; empty for no bound.
    pub min: &'static str,
    /// Greatest value; empty for no bound.
    pub max: &'static str,
    /// Permitted values, separated by blanks; empty if all are.
    pub choices: &'static str,
}

impl Setting {
    fn parse(line: &'static str) -> Option<Self> {
        let mut fields = line.split('\t');
        let name = fields.next()?;
        let (kind, level) = (Kind::parse(fields.next()?)?, fields.next()?);
        let (live, fixed) = (fields.next()? == "live", fields.next() == Some("fixed"));
        let mut rest = || fields.next().unwrap_or_default();
        Some(Self { name, kind, level, live, fixed, default: rest(), min: rest(), max: rest(), choices: rest() })
    }

    /// Checks a value and gives the form in which it is stored.
    ///
    /// # Errors
    /// The value is not of the option's type, or outside of its bounds.
    pub fn check(&self, value: &str) -> Result<String, Wrong> {
        let good = self.kind.check(value)?;
        self.bound(&good)?;
        Ok(good)
    }

    /// The least and the greatest value; empty for no bound.
    pub fn bounds(&self) -> (&'static str, &'static str) {
        if BOUNDS_OF_OURS.contains(&self.name) { ("", "") } else { (self.min, self.max) }
    }

    /// Checks that a value of the right type is inside of the option's bounds.
    ///
    /// # Errors
    /// It is not.
    pub fn bound(&self, value: &str) -> Result<(), Wrong> {
        let (min, max) = self.bounds();
        value::within(value, min, max)?;
        value::permitted(value, self.choices)
    }
}

/// All of them, by name.
pub fn all() -> &'static [Setting] {
    static ALL: OnceLock<Vec<Setting>> = OnceLock::new();
    ALL.get_or_init(|| TABLE.lines().filter_map(Setting::parse).collect())
}

/// The option with this name, spelled with underscores.
pub fn find(name: &str) -> Option<&'static Setting> {
    let at = all().binary_search_by(|s| s.name.cmp(name)).ok()?;
    all().get(at)
}

/// Returns how an option's name is spelled here: blanks and dashes are underscores.
pub fn normalize(name: &str) -> String {
    name.trim().replace([' ', '-'], "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_read_and_they_are_in_order() {
        assert_eq!(all().len(), TABLE.lines().count());
        assert!(all().is_sorted_by(|a, b| a.name < b.name));
    }

    #[test]
    fn defaults_are_values_of_their_options() {
        // An address that is not set is told as a dash, and some bounds leave out their own defaults.
        let bad: Vec<_> = all().iter().filter(|s| s.default != "-" && s.kind.check(s.default).is_err()).map(|s| s.name).collect();
        assert!(bad.is_empty(), "{bad:?}");
    }

    #[test]
    fn values_are_taken_and_refused_as_recorded() {
        let check = |name: &str, value: &str| find(name).map(|s| s.check(value));
        let good = |name: &str, value: &str| check(name, value).and_then(Result::ok);
        assert_eq!(good("debug_asok", "22").as_deref(), Some("22/22"));
        assert_eq!(good("debug_asok", "22/33").as_deref(), Some("22/33"));
        assert_eq!(good("osd_scrub_cost", "2M").as_deref(), Some("2097152"));
        assert_eq!(good("osd_heartbeat_grace", "-3").as_deref(), Some("-3"));
        assert_eq!(good("osd_scrub_load_threshold", "0.25").as_deref(), Some("0.250000"));
        assert_eq!(good("mon_cluster_log_to_stderr", "2").as_deref(), Some("true"));
        for (name, value, errno) in [
            ("debug_asok", "foo", types::Errno::EINVAL),
            ("debug_asok", "-10", types::Errno::ERANGE),
            ("debug_asok", "100", types::Errno::ERANGE),
            ("log_graylog_port", "asdf", types::Errno::EINVAL),
            ("mon_cluster_log_to_stderr", "fiddle", types::Errno::EINVAL),
            ("mon_cluster_log_to_stderr", "", types::Errno::EINVAL),
            ("osd_pool_default_type", "foo", types::Errno::EINVAL),
            ("osd_scrub_cost", "5X", types::Errno::EINVAL),
            ("osd_scrub_cost", "-5", types::Errno::EINVAL),
            ("osd_memory_target", "1", types::Errno::EINVAL),
            ("osd_scrub_begin_hour", "25", types::Errno::EINVAL),
            ("osd_scrub_end_week_day", "-1", types::Errno::EINVAL),
            ("osd_heartbeat_grace", "x", types::Errno::EINVAL),
            ("cluster_addr", "foo", types::Errno::EINVAL),
            ("fsid", "1", types::Errno::EINVAL),
        ] {
            let refused = check(name, value).and_then(Result::err).map(|w| w.errno);
            assert_eq!(refused, Some(errno), "{name} = {value}");
        }
        assert!(find("nothing_there").is_none());
        assert!(find("keyring").is_some_and(|s| s.fixed));
    }
}
