//! Scrubs that begin by themselves: which of the groups that this OSD leads is next, and when.
//!
//! - A scrub is due after `osd_scrub_min_interval` and up to `osd_scrub_interval_randomize_ratio` of it more. How much
//!   more is drawn from the group's number and its last scrub, so that groups of one age do not come at one time.
//! - It is deep if the last deep one is older than `osd_deep_scrub_interval`, less up to
//!   `osd_deep_scrub_randomize_ratio` of it.
//! - It waits for the hours and days that the options name (UTC), unless the group's last scrub is older than
//!   `osd_scrub_max_interval`.
//! - A pool's own intervals stand above the options. `noscrub` and `nodeep-scrub` hold back, for the cluster or a pool.
//! - None begins while a group of this OSD lacks copies (`osd_scrub_during_recovery`), nor more than `osd_max_scrubs`
//!   at a time.
//!
//! What groups that others lead ask of this OSD is not counted.

use crate::Osd;
use maps::{OptValue, OsdMap, Pool, flags, opts, pool_flags};
use node::{Mono, Now};
use pg::ScrubState;
use serde_json::{Value, json};
use std::time::Duration;
use types::{SpgId, UTime};

/// Between two looks, while nothing is due.
const LOOK: Duration = Duration::from_secs(60);
/// The same, while more is due than may run.
const SOON: Duration = Duration::from_secs(5);
const DAY: u32 = 86_400;

/// Ceph's options of the same names.
#[derive(Clone, Debug, PartialEq)]
pub struct ScrubOptions {
    /// Seconds from one scrub of a group to the next, at least (`osd_scrub_min_interval`).
    pub min: f64,
    /// Seconds after which hours and days do not matter (`osd_scrub_max_interval`).
    pub max: f64,
    /// Seconds from one deep scrub to the next (`osd_deep_scrub_interval`).
    pub deep: f64,
    /// Part of `min` by which scrubs are spread (`osd_scrub_interval_randomize_ratio`).
    pub spread: f64,
    /// Part of `deep` by which deep scrubs are spread (`osd_deep_scrub_randomize_ratio`).
    pub deep_spread: f64,
    /// First hour, and the hour before which scrubs begin; equal for all day (`osd_scrub_begin_hour`,
    /// `osd_scrub_end_hour`).
    pub hours: (u32, u32),
    /// The same for days, 0 is Sunday (`osd_scrub_begin_week_day`, `osd_scrub_end_week_day`).
    pub days: (u32, u32),
    /// Number of groups that are scrubbed at a time, of those that this OSD leads (`osd_max_scrubs`).
    pub most: usize,
    /// Scrubs begin also while groups of this OSD recover (`osd_scrub_during_recovery`).
    pub during_recovery: bool,
}

impl Default for ScrubOptions {
    fn default() -> Self {
        let (min, week) = (f64::from(DAY), 7.0 * f64::from(DAY));
        let (hours, days) = ((0, 0), (0, 0));
        Self { min, max: week, deep: week, spread: 0.5, deep_spread: 0.15, hours, days, most: 1, during_recovery: false }
    }
}

impl ScrubOptions {
    /// Sets one; `None` if it is none of these names, `Some(None)` if the value does not parse.
    pub(crate) fn set(&mut self, name: &str, value: &str) -> Option<Option<()>> {
        fn put<T>(place: &mut T, value: Option<T>) -> Option<()> {
            *place = value?;
            Some(())
        }
        let seconds = || value.parse::<f64>().ok().filter(|seconds| (0.0..=1e10).contains(seconds));
        let part = || value.parse::<f64>().ok().filter(|part| (0.0..=1.0).contains(part));
        let below = |end: u32| value.parse::<u32>().ok().filter(|n| *n < end);
        Some(match name {
            "osd_scrub_min_interval" => put(&mut self.min, seconds()),
            "osd_scrub_max_interval" => put(&mut self.max, seconds()),
            "osd_deep_scrub_interval" => put(&mut self.deep, seconds()),
            "osd_scrub_interval_randomize_ratio" => put(&mut self.spread, part()),
            "osd_deep_scrub_randomize_ratio" => put(&mut self.deep_spread, part()),
            // 24 is the end of the day, as in earlier releases.
            "osd_scrub_begin_hour" => put(&mut self.hours.0, below(25).map(|hour| hour % 24)),
            "osd_scrub_end_hour" => put(&mut self.hours.1, below(25).map(|hour| hour % 24)),
            "osd_scrub_begin_week_day" => put(&mut self.days.0, below(8).map(|day| day % 7)),
            "osd_scrub_end_week_day" => put(&mut self.days.1, below(8).map(|day| day % 7)),
            "osd_max_scrubs" => put(&mut self.most, value.parse().ok()),
            "osd_scrub_during_recovery" => put(&mut self.during_recovery, crate::config::flag(value)),
            _ => return None,
        })
    }

    /// Returns true if scrubs may begin at this time.
    fn permits(&self, now: UTime) -> bool {
        let (hour, day) = (now.sec % DAY / 3_600, (now.sec / DAY + 4) % 7);
        within(hour, self.hours) && within(day, self.days)
    }
}

/// Returns true if `at` is in a range that may go over the end; equal ends are everything.
fn within(at: u32, (begin, end): (u32, u32)) -> bool {
    match begin.cmp(&end) {
        std::cmp::Ordering::Equal => true,
        std::cmp::Ordering::Less => (begin..end).contains(&at),
        std::cmp::Ordering::Greater => at >= begin || at < end,
    }
}

/// A group that is due.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Due {
    /// Seconds since it was due.
    late: f64,
    deep: bool,
}

/// A part of one that belongs to a group and a time.
fn drawn(id: &SpgId, last: UTime) -> f64 {
    let seed = (id.pg.pool as u64) << 32 | u64::from(id.pg.seed);
    let mixed = (seed ^ u64::from(last.sec).rotate_left(40)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed >> 40) as f64 / f64::from(1 << 24)
}

/// The pool's own interval, or the usual one.
fn interval(pool: &Pool, key: i32, usual: f64) -> f64 {
    match pool.opts.get(&key) {
        Some(OptValue::Double(own)) if *own > 0.0 => *own,
        _ => usual,
    }
}

/// Time when a group is due, in seconds since 1970. None: a flag holds that kind back.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Plan {
    light: Option<f64>,
    deep: Option<f64>,
    /// From then on hours and days do not matter.
    deadline: f64,
}

impl Plan {
    /// None without its pool.
    fn of(options: &ScrubOptions, map: &OsdMap, id: &SpgId, state: &ScrubState) -> Option<Self> {
        let pool = map.pools.get(&id.pg.pool)?;
        let allowed = |cluster: u32, own: u64| map.flags & cluster == 0 && !pool.has_flag(own);
        let since = |last: UTime| f64::from(last.max(pool.create_time).sec);
        let chance = drawn(id, state.last);
        let light = interval(pool, opts::SCRUB_MIN_INTERVAL, options.min) * (1.0 + options.spread * chance);
        let deep = interval(pool, opts::DEEP_SCRUB_INTERVAL, options.deep) * (1.0 - options.deep_spread * chance);
        Some(Self {
            light: allowed(flags::NOSCRUB, pool_flags::NOSCRUB).then_some(since(state.last) + light),
            deep: allowed(flags::NODEEP_SCRUB, pool_flags::NODEEP_SCRUB).then_some(since(state.last_deep) + deep),
            deadline: since(state.last) + interval(pool, opts::SCRUB_MAX_INTERVAL, options.max),
        })
    }

    /// Returns when the next scrub is due, and whether it is deep; none if flags hold back all.
    fn next(&self) -> Option<(f64, bool)> {
        match (self.light, self.deep) {
            (Some(light), Some(deep)) => Some((light.min(deep), deep <= light)),
            (Some(light), None) => Some((light, false)),
            (None, deep) => deep.map(|deep| (deep, true)),
        }
    }

    /// Returns whether it is due at a time, and what.
    fn due(&self, options: &ScrubOptions, now: UTime) -> Option<Due> {
        let at = f64::from(now.sec);
        let late = |due: Option<f64>| due.map(|due| at - due).filter(|late| *late >= 0.0);
        let (light, deep) = (late(self.light), late(self.deep));
        let late = light.into_iter().chain(deep).reduce(f64::max)?;
        (at >= self.deadline || options.permits(now)).then_some(Due { late, deep: deep.is_some() })
    }
}

/// Returns whether a group is due now.
fn due(options: &ScrubOptions, map: &OsdMap, id: &SpgId, state: &ScrubState, now: UTime) -> Option<Due> {
    Plan::of(options, map, id, state)?.due(options, now)
}

/// Times for the next scrubs.
#[derive(Debug, Default)]
pub(crate) struct Scrubs {
    next: Mono,
}

impl Scrubs {
    pub(crate) fn deadline(&self) -> Mono {
        self.next
    }
}

impl Osd {
    /// Returns what `dump_scrubs` shows: for each group that this OSD leads, when its next scrub is due, from when on
    /// hours and days do not matter, and whether it will be deep.
    pub(crate) fn planned_scrubs(&self, now: Now) -> Value {
        let time = |seconds: f64| UTime { sec: seconds.clamp(0.0, f64::from(u32::MAX)) as u32, nsec: 0 }.iso();
        let row = |(id, group): (SpgId, &pg::Pg)| {
            let state = group.scrub_state()?;
            let plan = Plan::of(&self.options.scrubs, self.maps.current(), &id, &state)?;
            let (at, deep) = plan.next()?;
            Some(json!({
                "pgid": id.to_string(),
                "sched_time": time(at),
                "deadline": time(plan.deadline),
                "deep": deep,
                "due": plan.due(&self.options.scrubs, now.wall).is_some(),
            }))
        };
        self.groups.iter().filter_map(row).collect()
    }

    /// Begins the scrub that is due the longest, if it is time to look and one may begin.
    pub(crate) fn look_for_scrubs(&mut self, now: Now) {
        if now.mono < self.scrubs.next {
            return;
        }
        let first = self.scrubs.next == Mono::default();
        self.scrubs.next = now.mono.plus(LOOK);
        if first {
            // Groups are not known to be clean yet.
            return;
        }
        let (options, map) = (&self.options.scrubs, self.maps.current());
        let led: Vec<(SpgId, ScrubState)> = self.groups.iter().filter_map(|(id, pg)| Some((id, pg.scrub_state()?))).collect();
        let busy = led.iter().filter(|(_, state)| state.busy).count();
        let calm = options.during_recovery || led.iter().all(|(_, state)| state.clean);
        let ready = led.iter().filter(|(_, state)| !state.busy && state.clean);
        let found = ready.filter_map(|(id, state)| Some((*id, due(options, map, id, state, now.wall)?)));
        let next = found.max_by(|(_, a), (_, b)| a.late.total_cmp(&b.late));
        let Some((id, Due { deep, .. })) = next else { return };
        self.scrubs.next = now.mono.plus(SOON);
        if busy >= options.most || !calm {
            return;
        }
        if let Some(slot) = self.groups.find(&id) {
            let (groups, mut world) = self.world(now);
            groups.call(slot, &mut world, |pg, ctx| pg.start_scrub(ctx, deep));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::PgId;

    /// A Sunday at midnight.
    const SUNDAY: u32 = 1_795_910_400;

    fn at(sec: u32) -> UTime {
        UTime { sec, nsec: 0 }
    }

    fn map(pool: Pool) -> OsdMap {
        let mut map = OsdMap::default();
        map.pools.insert(1, pool);
        map
    }

    fn group(seed: u32) -> SpgId {
        SpgId::whole(PgId::new(1, seed))
    }

    fn state(last: u32, last_deep: u32) -> ScrubState {
        ScrubState { last: at(last), last_deep: at(last_deep), busy: false, clean: true }
    }

    /// No spread.
    fn exact() -> ScrubOptions {
        ScrubOptions { spread: 0.0, deep_spread: 0.0, ..ScrubOptions::default() }
    }

    fn is_due(options: &ScrubOptions, map: &OsdMap, state: &ScrubState, now: u32) -> Option<bool> {
        due(options, map, &group(0), state, at(now)).map(|due| due.deep)
    }

    #[test]
    fn a_day_after_a_scrub_comes_another_and_a_week_after_a_deep_one_a_deep_one() {
        let (map, last) = (map(Pool::default()), state(SUNDAY, SUNDAY));
        assert_eq!(is_due(&exact(), &map, &last, SUNDAY + DAY - 1), None);
        assert_eq!(is_due(&exact(), &map, &last, SUNDAY + DAY), Some(false));
        assert_eq!(is_due(&exact(), &map, &state(SUNDAY + 6 * DAY, SUNDAY), SUNDAY + 7 * DAY - 1), None);
        assert_eq!(is_due(&exact(), &map, &state(SUNDAY + 6 * DAY + 5, SUNDAY), SUNDAY + 7 * DAY), Some(true));
        assert_eq!(is_due(&exact(), &map, &state(SUNDAY + DAY, SUNDAY + DAY), SUNDAY), None, "the clock went back");
    }

    #[test]
    fn a_group_that_was_never_scrubbed_counts_from_its_pool() {
        let map = map(Pool { create_time: at(SUNDAY), ..Pool::default() });
        assert_eq!(is_due(&exact(), &map, &state(0, 0), SUNDAY + DAY - 1), None);
        assert_eq!(is_due(&exact(), &map, &state(0, 0), SUNDAY + DAY), Some(false));
    }

    #[test]
    fn flags_hold_back_what_they_name() {
        let (week, last) = (SUNDAY + 8 * DAY, state(SUNDAY, SUNDAY));
        let with = |cluster: u32, own: u64| {
            let mut map = map(Pool { flags: own, ..Pool::default() });
            map.flags = cluster;
            is_due(&exact(), &map, &last, week)
        };
        assert_eq!(with(0, 0), Some(true));
        assert_eq!((with(flags::NODEEP_SCRUB, 0), with(0, pool_flags::NODEEP_SCRUB)), (Some(false), Some(false)));
        assert_eq!((with(flags::NOSCRUB, 0), with(0, pool_flags::NOSCRUB)), (Some(true), Some(true)));
        assert_eq!(with(flags::NOSCRUB | flags::NODEEP_SCRUB, 0), None);
    }

    #[test]
    fn a_pools_own_intervals_stand_above_the_options() {
        let mut pool = Pool::default();
        pool.opts.insert(opts::SCRUB_MIN_INTERVAL, OptValue::Double(60.0));
        pool.opts.insert(opts::DEEP_SCRUB_INTERVAL, OptValue::Double(600.0));
        let (map, last) = (map(pool), state(SUNDAY, SUNDAY));
        let due = [59, 60, 599, 600].map(|later| is_due(&exact(), &map, &last, SUNDAY + later));
        assert_eq!(due, [None, Some(false), Some(false), Some(true)]);
    }

    #[test]
    fn hours_and_days_hold_until_it_is_too_late() {
        let night = ScrubOptions { hours: (22, 6), days: (1, 6), ..exact() };
        let last = state(SUNDAY - 3 * DAY, SUNDAY - 3 * DAY);
        let map = map(Pool::default());
        let at_hour = |day: u32, hour: u32| is_due(&night, &map, &last, SUNDAY + day * DAY + hour * 3_600);
        assert_eq!([at_hour(1, 5), at_hour(1, 6), at_hour(1, 21), at_hour(1, 22)], [Some(false), None, None, Some(false)]);
        assert_eq!(at_hour(0, 23), None, "a Sunday");
        assert_eq!(at_hour(4, 12), Some(true), "a week has gone by");
    }

    #[test]
    fn groups_of_one_age_are_spread_over_the_interval() {
        let (map, options, last) = (map(Pool::default()), ScrubOptions::default(), state(SUNDAY, SUNDAY));
        let due_after = |seconds: u32| {
            (0..1_000).filter(|seed| due(&options, &map, &group(*seed), &last, at(SUNDAY + seconds)).is_some()).count()
        };
        assert_eq!((due_after(DAY - 1), due_after(DAY * 3 / 2)), (0, 1_000));
        let half = due_after(DAY * 5 / 4);
        assert!((450..=550).contains(&half), "{half} of 1000 after half of the time");
    }

    #[test]
    fn values_that_make_no_sense_are_refused() {
        let mut options = ScrubOptions::default();
        for (name, value) in [("osd_scrub_begin_hour", "25"), ("osd_scrub_min_interval", "-1"), ("osd_max_scrubs", "many")] {
            assert_eq!(options.set(name, value), Some(None), "{name} {value}");
        }
        assert_eq!(options, ScrubOptions::default());
        assert_eq!(options.set("osd_scrub_end_hour", "24"), Some(Some(())));
        assert_eq!(options.set("osd_max_backfills", "1"), None);
    }
}
