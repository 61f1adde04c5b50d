//! Room for the state. It must fit one area of the monitor's store, and so must the log behind it.
//!
//! | share of the area | what happens |
//! |---|---|
//! | 25 % for OSD maps of the past | the oldest go, whoever needs them ([`super::floor`]) |
//! | 25 % for values of `config-key` | `config-key set` is refused |
//! | 40 % in all | `MON_STATE_LARGE` |
//! | 60 % in all | commands and pool operations that make the state larger are refused; what daemons report is taken |
//!
//! The size is counted on, with the bytes of each proposal, and measured now and then; always before something is
//! refused.

use super::Monitor;
use grammar::Refusal;
use maps::Incremental;
use monstate::state::{Change, State};
use quorum::Index;
use types::Errno;

/// Percent of the area from which on nothing is taken that makes the state larger.
const REFUSED: u64 = 60;
/// It is measured when so much of an area was added.
const MEASURED: u64 = 128;
/// Bytes by which a command may make the OSD map longer: numbers of other lengths, not pools or rules.
const SAME: usize = 64;

/// The size as it is known.
#[derive(Debug, Default)]
pub(super) struct Room {
    /// The entry after which it was measured.
    at: Index,
    measured: u64,
    /// Bytes of proposals since.
    added: u64,
}

impl Monitor {
    /// Counts a proposal.
    pub(super) fn count_proposal(&mut self, bytes: usize) {
        self.room.added += bytes as u64;
        self.env.state_bytes = self.room.measured + self.room.added;
    }

    /// Measures the state, as a reign begins or when much was added.
    pub(super) fn measure_room(&mut self) {
        self.env.area_bytes = self.replica.journal.area();
        let much = self.room.added > self.env.area_bytes / MEASURED;
        let large = self.env.state_is_large() && self.room.at != self.newest().index;
        if self.room.measured == 0 || much || large {
            self.measure();
        }
    }

    fn measure(&mut self) {
        let state = self.newest();
        self.room = Room { at: state.index, measured: state.bytes(), added: 0 };
        self.env.state_bytes = self.room.measured;
    }

    /// Returns why changes are not taken: the state is too large, and they make it larger.
    pub(super) fn no_room(&mut self, changes: &[Change], osdmap: Option<&Incremental>) -> Option<Refusal> {
        let full = |monitor: &Monitor| monitor.env.state_bytes > monitor.env.area_bytes / 100 * REFUSED;
        if self.env.area_bytes == 0 || !full(self) || !grows(self.newest(), changes, osdmap) {
            return None;
        }
        if self.room.at != self.newest().index {
            self.measure();
        }
        let text = format!(
            "the monitors' state takes {} of {} bytes: until it takes less, only what makes it smaller is taken, as `config-key rm`, `auth rm`, \
             `osd pool rm` (MON_STATE_LARGE)",
            self.env.state_bytes, self.env.area_bytes
        );
        full(self).then(|| Refusal::new(Errno::ENOSPC, text))
    }
}

/// Returns true if changes make the state larger for good. Lines of the log and answers have bounds of their own.
fn grows(state: &State, changes: &[Change], osdmap: Option<&Incremental>) -> bool {
    let length = |bytes: usize| i64::try_from(bytes).unwrap_or(i64::MAX);
    let added: i64 = changes.iter().map(|change| growth(state, change)).fold(0, i64::saturating_add);
    let sealed = osdmap.and_then(|inc| inc.clone().seal(&state.osdmap).ok());
    let maps = sealed.map_or(0, |sealed| length(sealed.full.len()) - length(state.history.newest().len()));
    added > 0 || maps > length(SAME)
}

/// Bytes by which a change makes the state larger.
fn growth(state: &State, change: &Change) -> i64 {
    let length = |bytes: usize| i64::try_from(bytes).unwrap_or(i64::MAX);
    let text = |map: &std::collections::BTreeMap<String, String>| map.iter().map(|(k, v)| k.len() + v.len()).sum::<usize>();
    match change {
        // The monitors' own notes: who is where, which names were given. They are few.
        Change::Key { key, value } if key.starts_with("nacre/") && value.as_ref().is_none_or(|value| value.len() <= SAME) => 0,
        Change::Key { key, value } => {
            let size = |value: Option<&bytes::Bytes>| value.map_or(0, |value| length(key.len() + value.len()));
            size(value.as_ref()) - size(state.keys.get(key))
        }
        Change::Config { set, .. } => {
            let old = |section: &str, name: &str| state.config.sections.get(section)?.get(name).map(String::len);
            let size = |name: &str, value: Option<usize>| value.map_or(0, |value| length(name.len() + value));
            let each = |(section, name, value): &(String, String, Option<String>)| {
                size(name, value.as_ref().map(String::len)) - size(name, old(section, name))
            };
            set.iter().map(each).sum()
        }
        Change::Auth { name, entity } => {
            let size = |caps: Option<usize>| caps.map_or(0, |caps| length(64 + caps));
            let old = state.auth.get(name).map(|entity| text(&entity.caps));
            size(entity.as_ref().map(|entity| text(&entity.caps))) - size(old)
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::seats::tests::config;
    use maps::Pool;
    use monstate::state::{Proposal, genesis};
    use types::UTime;

    fn key(key: &str, bytes: Option<usize>) -> Change {
        Change::Key { key: key.into(), value: bytes.map(|bytes| vec![1; bytes].into()) }
    }

    #[test]
    fn what_makes_the_state_smaller_is_told_from_what_makes_it_larger() {
        let state = genesis::state(&config(), UTime::ZERO);
        let changes = vec![key("old", Some(100))];
        let state = state.apply(state.index + 1, &Proposal { stamp: UTime::ZERO, changes }).unwrap();
        let option = |value: Option<&str>| Change::Config {
            by: "x".into(),
            set: vec![("mon".into(), "debug_mon".into(), value.map(str::to_owned))],
        };
        let grow = |change: Change| grows(&state, &[change], None);
        assert!(grow(key("new", Some(1))) && grow(key("old", Some(101))) && grow(option(Some("10"))));
        assert!(!grow(key("old", Some(100))) && !grow(key("old", None)) && !grow(option(None)));
        assert!(!grows(&state, &[key("old", None), key("new", Some(50))], None), "the sum counts");

        let inc = |change: &dyn Fn(&mut Incremental)| {
            let mut inc = Incremental::new(state.osdmap.epoch + 1, state.fsid, UTime::ZERO);
            change(&mut inc);
            grows(&state, &[], Some(&inc))
        };
        assert!(inc(&|inc| drop(inc.new_pools.insert(1, Pool::default()))), "a pool");
        assert!(!inc(&|inc| inc.new_flags = 1 << 5), "a flag");
    }
}
