//! Reports of crashes: what `ceph-crash` found in a host's `/var/lib/ceph/crash` and posted.
//!
//! A report is a JSON object. It is a value of the monitors' store under [`PLACE`] with its id behind, as Ceph keeps
//! it, so backups and `config-key` show it. The keys that are read here:
//!
//! | key | meaning |
//! |---|---|
//! | `crash_id` | the report's name |
//! | `timestamp` | when the daemon died, in UTC |
//! | `entity_name`, `utsname_hostname`, `process_name` | who died where; may be missing |
//! | `archived` | when somebody archived the report; missing until then |
//!
//! Reports come from hosts with the right to post only, so all of them together have a bound: [`MOST`] reports of
//! [`MOST_BYTES`] bytes. What comes above makes the oldest go. Reports older than `mgr/crash/retain_interval` go with
//! the next one that is posted.

use bytes::Bytes;
use monstate::state::Change;
use monstate::state::State;
use serde_json::{Map, Value};
use std::time::Duration;
use types::UTime;

/// Beginning of the keys of reports in the monitors' store.
pub const PLACE: &str = "mgr/crash/crash/";
/// Most reports that are kept.
pub const MOST: usize = 300;
/// Most bytes of all reports together, with their names.
pub const MOST_BYTES: usize = 1 << 20;
/// Most bytes of one report, as of any stored value.
pub const MOST_OF_ONE: usize = 64 << 10;
/// Most bytes of a report's id.
const MOST_OF_ID: usize = 256;
/// Most time by which the clock of the host that tells of a crash may be ahead.
const CLOCKS: Duration = Duration::from_secs(86_400);
/// Seconds for which a report that nobody archived is a warning, unless `mgr/crash/warn_recent_interval` says
/// otherwise.
const WARN_SECS: u64 = 14 * 86_400;
/// Seconds for which reports are kept, unless `mgr/crash/retain_interval` says otherwise.
const RETAIN_SECS: u64 = 365 * 86_400;

/// One report.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// All that was posted, with `archived` if somebody archived it.
    pub fields: Map<String, Value>,
}

impl Report {
    /// Parses what was posted. `Err` is a sentence that begins as Ceph's.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let malformed = |why: String| format!("malformed crash metadata: {why}");
        let Value::Object(fields) = serde_json::from_slice(bytes).map_err(|e| malformed(e.to_string()))? else {
            return Err(malformed("it is not an object".into()));
        };
        let report = Self { fields };
        for needed in ["crash_id", "timestamp"] {
            if !report.fields.get(needed).is_some_and(Value::is_string) {
                return Err(malformed(format!("missing '{needed}' field")));
            }
        }
        if report.id().is_empty() || report.id().len() > MOST_OF_ID {
            return Err(malformed(format!("a crash_id has 1 to {MOST_OF_ID} bytes")));
        }
        if report.time().is_none() {
            let text = report.text("timestamp");
            return Err(malformed(format!("time data '{text}' does not match format '%Y-%m-%d %H:%M:%S.%f'")));
        }
        Ok(report)
    }

    /// A field's text; empty if there is none.
    pub fn text(&self, name: &str) -> &str {
        self.fields.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// A field's text, or what is said where it is missing.
    pub fn text_or<'a>(&'a self, name: &str, missing: &'a str) -> &'a str {
        self.fields.get(name).and_then(Value::as_str).unwrap_or(missing)
    }

    /// The report's name.
    pub fn id(&self) -> &str {
        self.text("crash_id")
    }

    /// Returns when the daemon died.
    pub fn time(&self) -> Option<UTime> {
        UTime::parse_calendar(self.text("timestamp"))
    }

    /// Says whether nobody archived it yet.
    pub fn is_new(&self) -> bool {
        !self.fields.contains_key("archived")
    }

    /// Marks the report as seen at a time.
    pub fn archive(&mut self, at: UTime) {
        let text = at.iso();
        let text = text.strip_suffix("+0000").unwrap_or(&text).replacen('T', " ", 1);
        self.fields.insert("archived".into(), text.into());
    }

    /// Gives the change that stores the report.
    pub fn store(&self) -> Change {
        let value = Value::Object(self.fields.clone()).to_string();
        Change::Key { key: format!("{PLACE}{}", self.id()), value: Some(Bytes::from(value)) }
    }

    /// Gives the change that removes the report of this name.
    pub fn remove(id: &str) -> Change {
        Change::Key { key: format!("{PLACE}{id}"), value: None }
    }
}

fn stored(state: &State) -> impl Iterator<Item = (&str, &Bytes)> {
    let from = state.keys.range::<str, _>((std::ops::Bound::Included(PLACE), std::ops::Bound::Unbounded));
    from.map_while(|(key, value)| Some((key.strip_prefix(PLACE)?, value)))
}

/// Gives all reports, in the order of their names. What is stored there and is no report is left out.
pub fn all(state: &State) -> Vec<Report> {
    stored(state).filter_map(|(_, value)| Report::parse(value).ok()).collect()
}

/// Gives the report of a name.
pub fn find(state: &State, id: &str) -> Option<Report> {
    state.keys.get(&format!("{PLACE}{id}")).and_then(|value| Report::parse(value).ok())
}

/// Gives the changes that store a report, and keep all of them within the bounds. Nothing if it is there already: who
/// posts a report again has not heard that it came.
pub fn post(state: &State, now: UTime, report: &Report) -> Vec<Change> {
    if find(state, report.id()).is_some() {
        return Vec::new();
    }
    let store = report.store();
    let Change::Key { key, value: Some(value) } = &store else { unreachable!("a report is stored as a value") };
    let (mut count, mut bytes) = (1, key.len() + value.len());
    let mut kept: Vec<(UTime, bool, &str, usize)> = Vec::new();
    let mut changes = Vec::new();
    let oldest = u64::from(now.sec).saturating_sub(seconds(state, "retain_interval", RETAIN_SECS));
    for (id, value) in stored(state) {
        let time = Report::parse(value).ok().and_then(|report| report.time());
        // Who posts reports of a time to come keeps no others out: they go first where room is wanted. A value that is no report is of no use.
        let order = time.filter(|time| *time <= now.plus(CLOCKS)).unwrap_or(UTime::ZERO);
        let is_over = time.is_none_or(|time| u64::from(time.sec) < oldest);
        kept.push((order, is_over, id, PLACE.len() + id.len() + value.len()));
        count += 1;
        bytes += PLACE.len() + id.len() + value.len();
    }
    kept.sort();
    for (_, is_over, id, size) in kept {
        if is_over || count > MOST || bytes > MOST_BYTES {
            changes.push(Report::remove(id));
            count -= 1;
            bytes -= size;
        }
    }
    changes.push(store);
    changes
}

/// Gives the reports that nobody archived, of daemons that died within the time for which that is a warning.
pub fn recent(state: &State, now: UTime) -> Vec<Report> {
    let from = u64::from(now.sec).saturating_sub(seconds(state, "warn_recent_interval", WARN_SECS));
    let mut found = all(state);
    found.retain(|r| r.is_new() && r.time().is_some_and(|t| u64::from(t.sec) > from));
    found
}

/// An option of the module, in seconds.
fn seconds(state: &State, name: &str, default: u64) -> u64 {
    let name = format!("mgr/crash/{name}");
    let set = ["mgr", "global"].iter().find_map(|section| state.config.get(section, &name));
    set.and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[cfg(test)]
mod tests {
    use super::*;
    use monstate::state::{Proposal, genesis};

    fn report(n: usize, at: &str) -> Report {
        Report::parse(format!(r#"{{"crash_id":"{n}","timestamp":"{at}"}}"#).as_bytes()).expect("a report")
    }

    #[test]
    fn reports_of_a_time_to_come_keep_no_other_out() {
        let now = UTime { sec: 1_790_000_000, nsec: 0 };
        let mut state = genesis::state(&monstate::config::Config::bare(types::Fsid([7; 16]), "a"), now);
        let mut give = |report: &Report| {
            let changes = post(&state, now, report);
            state = state.apply(state.index + 1, &Proposal { stamp: now, changes }).expect("a change");
            all(&state).len()
        };
        for n in 0..MOST {
            give(&report(n, "2099-01-01 00:00:00.000000"));
        }
        assert_eq!(give(&report(1_000, "2026-09-01 00:00:00.000000")), MOST);
        assert_eq!(give(&report(1_001, "2026-09-02 00:00:00.000000")), MOST);
        assert!(find(&state, "1000").is_some() && find(&state, "1001").is_some());
    }
}
