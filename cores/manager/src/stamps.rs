//! When something last held of a placement group: for findings and lists that count how long it does not.

use messages::internal::PgReport;
use types::{PgState, UTime};

/// Times when something last held of a group, as far as this monitor knows. Zero: never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamps {
    /// It served clients.
    pub active: UTime,
    /// Its members agreed on what it holds.
    pub peered: UTime,
    /// All copies were where they belong and complete.
    pub clean: UTime,
    /// It had as many members as its pool has copies.
    pub fullsized: UTime,
    /// No object lacked a copy.
    pub undegraded: UTime,
    /// Time when it began to serve.
    pub became_active: UTime,
    /// Time when its members began to agree.
    pub became_peered: UTime,
}

impl Stamps {
    /// Returns what a report that came at `at` says, after what was known before: stamps, and the state of the last
    /// report. Of a group that was not known, what does not hold last held before its state changed.
    pub fn after(before: Option<(&Self, PgState)>, report: &PgReport, at: UTime) -> Self {
        let Some((known, was)) = before else { return Self::first(report, at) };
        let state = report.state;
        let mut stamps = *known;
        for ((holds, stamp), (held, _)) in held(state, &mut stamps).into_iter().zip(held(was, &mut known.clone())) {
            // What held until now is no older than that, however long ago that was said.
            if holds || held {
                *stamp = at;
            }
        }
        if state.has(PgState::ACTIVE) && !was.has(PgState::ACTIVE) {
            stamps.became_active = at;
        }
        if is_peered(state) && !is_peered(was) {
            stamps.became_peered = at;
        }
        stamps
    }

    fn first(report: &PgReport, at: UTime) -> Self {
        let changed = report.last_change;
        let mut stamps = Self {
            active: report.last_active,
            peered: changed,
            clean: changed,
            fullsized: changed,
            undegraded: changed,
            became_active: changed,
            became_peered: changed,
        };
        held(report.state, &mut stamps).into_iter().filter(|(holds, _)| *holds).for_each(|(_, stamp)| *stamp = at);
        stamps
    }
}

/// Each stamp of what may hold, and whether it holds in a state.
fn held(state: PgState, stamps: &mut Stamps) -> [(bool, &mut UTime); 5] {
    [
        (state.has(PgState::ACTIVE), &mut stamps.active),
        (is_peered(state), &mut stamps.peered),
        (state.has(PgState::CLEAN), &mut stamps.clean),
        (!state.has(PgState::UNDERSIZED), &mut stamps.fullsized),
        (!state.has(PgState::DEGRADED), &mut stamps.undegraded),
    ]
}

/// Returns true if the members of a group in this state agree on what it holds.
pub(crate) fn is_peered(state: PgState) -> bool {
    state.has(PgState::ACTIVE) || state.has(PgState::PEERED)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(state: PgState, changed: u32) -> PgReport {
        PgReport { state, last_change: at(changed), ..PgReport::default() }
    }

    fn at(sec: u32) -> UTime {
        UTime { sec, nsec: 0 }
    }

    #[test]
    fn what_holds_moves_on_and_what_does_not_stays() {
        let clean = PgState::ACTIVE.with(PgState::CLEAN);
        let first = Stamps::after(None, &report(clean, 5), at(10));
        assert_eq!((first.active, first.clean, first.fullsized), (at(10), at(10), at(10)));
        let degraded = PgState::ACTIVE.with(PgState::UNDERSIZED).with(PgState::DEGRADED);
        let second = Stamps::after(Some((&first, clean)), &report(degraded, 20), at(21));
        assert_eq!((second.active, second.clean, second.fullsized), (at(21), at(21), at(21)), "they held until now");
        let third = Stamps::after(Some((&second, degraded)), &report(degraded.with(PgState::BACKFILLING), 30), at(31));
        assert_eq!((third.active, third.peered, third.fullsized, third.clean), (at(31), at(31), at(21), at(21)));
        let fourth = Stamps::after(Some((&third, degraded)), &report(PgState::PEERING, 40), at(41));
        let fifth = Stamps::after(Some((&fourth, PgState::PEERING)), &report(clean, 50), at(51));
        assert_eq!((fifth.became_active, fifth.became_peered, fifth.clean), (at(51), at(51), at(51)));
    }

    #[test]
    fn a_group_that_was_not_known_is_as_old_as_its_state() {
        let down = Stamps::after(None, &report(PgState::DOWN, 7), at(100));
        assert_eq!((down.active, down.peered, down.fullsized), (UTime::ZERO, at(7), at(100)));
    }
}
