//! How many objects this OSD brings to copies at a time, so that clients do not feel it.
//!
//! *Measured* is what clients feel: the time from the arrival of an operation until its answer leaves. Operations that
//! waited for their group or for an object to be brought are left out: slower recovery would not help them. Times are
//! collected in *spans* of [`SPAN`] or longer, until there are enough of them. A span's value is the time that one
//! operation of twenty exceeds.
//!
//! | span | what becomes of its value |
//! |---|---|
//! | nothing was brought in it | it goes into the *baseline*, the median of the last [`SPANS`] of these |
//! | objects were brought, and it is above [`TOO_SLOW`] times the baseline | the window is halved |
//! | ... and below [`WELL`] times the baseline | the window grows by one; below one it doubles |
//! | objects were brought, and nobody asked for anything | the window doubles |
//!
//! The *window* is the number of objects that may be on their way, from being read until the copies say that they are
//! durable. Below 1 one object is on its way at a time, and after it a pause follows: with a window of 1/4, three times
//! as long as the object took. A window is never below [`LEAST`], so recovery ends whatever clients do. What begins
//! after a while without any begins with one object, if there are clients, and with all that is allowed, if there are
//! none.
//!
//! *Rests.* If there is no baseline, or it is older than [`FRESH`], no object begins for a span, so that clients are
//! seen alone.
//!
//! *Data and owner.* [`Pace`] belongs to the OSD. Groups count what they have on their way ([`pg::Pg::moving`]); after
//! each round the counts of those that were called are taken over, so nothing has to be given back. What may begin now
//! is in [`Pace::room`], from which groups take. A group that found no room is called when there is some. Objects that
//! a client waits for need no room.
//!
//! *Ceilings.* The window is at most `osd_recovery_max_active`; with `osd_recovery_sleep` at most one object begins in
//! that time.

use crate::Osd;
use crate::groups::Slot;
use crate::ops::{Op, Place, Wait};
use counters::Readings;
use node::{Mono, Now};
use pg::Step;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// The shortest span, and the longest.
const SPAN: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(1);
/// Operations that a span of less than [`LONGEST`] must have.
const ENOUGH: usize = 20;
/// Operations of a span that are kept at most; a later one takes the place of an earlier one.
const KEPT: usize = 512;
/// Spans of which the baseline is made.
const SPANS: usize = 31;
/// After so long without objects on their way clients are taken by surprise.
const CALM: Duration = Duration::from_secs(10);
/// Clients suffer above so many times the baseline, and feel nothing worth mentioning below.
const TOO_SLOW: f64 = 2.0;
const WELL: f64 = 1.5;
/// Differences below this are noise of the machine.
const GRAIN: Duration = Duration::from_millis(1);
/// The smallest window.
const LEAST: f64 = 1.0 / 8.0;
/// The longest pause between two objects.
const PAUSE: Duration = Duration::from_secs(2);
/// Time for which a baseline counts.
const FRESH: Duration = Duration::from_secs(30);
/// A rest ends after this, whatever was seen.
const REST: Duration = Duration::from_secs(2);

/// Counts of changes of the window.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    halved: u64,
    widened: u64,
    rests: u64,
}

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Pace {
    /// Objects that groups may begin with now.
    pub(crate) room: usize,
    window: f64,
    /// Ceilings.
    most: f64,
    sleep: Duration,
    /// Objects on their way, of each group that has some.
    moving: BTreeMap<Slot, usize>,
    /// Groups that would begin with more.
    held_back: BTreeSet<Slot>,
    /// Room as it was given last, and objects that began in what was given before.
    given: usize,
    taken: u64,
    /// Time when the last object began, and when the first of those did that were on their way without a break.
    begun: Mono,
    busy_since: Mono,
    /// Time when the last one that was on its way was there.
    still_since: Mono,
    /// Nothing begins before.
    pause: Mono,
    /// Times of operations in the present span, when it began, and how many there were.
    span: Vec<Duration>,
    span_began: Mono,
    span_count: usize,
    last_answer: Mono,
    /// Objects were on their way in it.
    moved: bool,
    /// Values of spans in which nothing moved, the newest last.
    quiet: VecDeque<Duration>,
    /// Time when it was measured last.
    measured: Mono,
    /// The value of the last span in which objects moved.
    felt: Duration,
    /// Since when nothing begins, to see clients alone.
    rest: Option<Mono>,
    /// Time to look again at the latest.
    next: Mono,
    counts: Counts,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            room: 1,
            given: 1,
            taken: 0,
            window: 1.0,
            most: pg::Config::default().recovery_at_a_time as f64,
            sleep: Duration::ZERO,
            moving: BTreeMap::new(),
            held_back: BTreeSet::new(),
            begun: Mono::default(),
            busy_since: Mono::default(),
            still_since: Mono::default(),
            pause: Mono::default(),
            span: Vec::new(),
            span_began: Mono::default(),
            span_count: 0,
            last_answer: Mono::default(),
            moved: false,
            quiet: VecDeque::new(),
            measured: Mono::default(),
            felt: Duration::ZERO,
            rest: None,
            next: Mono::NEVER,
            counts: Counts::default(),
        }
    }
}

impl Pace {
    /// Takes the ceilings: objects at a time, and time from one to the next.
    pub(crate) fn limit(&mut self, most: usize, sleep: Duration) {
        self.most = most.max(1) as f64;
        self.sleep = sleep;
        self.window = self.window.min(self.most);
    }

    /// A client's operation was answered after this time.
    pub(crate) fn answered(&mut self, now: Mono, took: Duration) {
        if self.span_count < KEPT {
            self.span.push(took);
        } else {
            self.span[self.span_count % KEPT] = took;
        }
        self.span_count += 1;
        self.last_answer = now;
        self.end_span(now, false);
    }

    fn in_motion(&self) -> usize {
        self.moving.values().sum()
    }

    /// A group has so many objects on their way, and would begin with more if it might.
    pub(crate) fn note(&mut self, now: Mono, group: Slot, moving: usize, held_back: bool) {
        let before = self.in_motion();
        if moving > self.moving.get(&group).copied().unwrap_or(0) {
            self.begun = now;
        }
        if moving > 0 {
            self.moving.insert(group, moving);
        } else {
            self.moving.remove(&group);
        }
        if held_back {
            self.held_back.insert(group);
        } else {
            self.held_back.remove(&group);
        }
        match (before, self.in_motion()) {
            (0, 1..) => self.begin_motion(now),
            (1.., 0) => self.end_motion(now),
            _ => {}
        }
    }

    fn begin_motion(&mut self, now: Mono) {
        self.busy_since = now;
        if !self.moved {
            // What was collected so far is of clients alone.
            if self.span_count >= ENOUGH {
                self.close_span(now, false);
            }
            self.begin_span(now);
            self.moved = true;
        }
    }

    fn end_motion(&mut self, now: Mono) {
        self.still_since = now;
        if self.window < 1.0 {
            let took = now.since(self.busy_since);
            self.pause = now.plus(took.mul_f64(1.0 / self.window - 1.0).min(PAUSE));
        }
        if self.rest.is_some() {
            // From here on clients are alone.
            self.begin_span(now);
        }
    }

    fn begin_span(&mut self, now: Mono) {
        self.span.clear();
        (self.span_began, self.span_count) = (now, 0);
        self.moved = self.in_motion() > 0;
    }

    /// Ends the span if it is long enough. `stuck`: clients' operations wait for an answer for long.
    fn end_span(&mut self, now: Mono, stuck: bool) {
        let length = now.since(self.span_began);
        if length >= LONGEST || length >= SPAN && self.span_count >= ENOUGH {
            self.close_span(now, stuck);
            self.begin_span(now);
        }
    }

    fn close_span(&mut self, now: Mono, stuck: bool) {
        match (self.value(), self.moved) {
            (Some(value), false) => self.measure(now, value),
            (Some(value), true) => self.judge(value),
            (None, true) if stuck => self.halve(),
            (None, true) => self.widen(self.window * 2.0),
            (None, false) => {}
        }
        if !self.moved {
            self.rest = None;
        }
    }

    /// The time that one operation of twenty exceeds.
    fn value(&mut self) -> Option<Duration> {
        let at = (self.span.len() * 95).div_ceil(100).checked_sub(1)?;
        Some(*self.span.select_nth_unstable(at).1)
    }

    fn measure(&mut self, now: Mono, value: Duration) {
        if self.is_stale(now) {
            self.quiet.clear();
        }
        if self.quiet.len() == SPANS {
            self.quiet.pop_front();
        }
        self.quiet.push_back(value);
        self.measured = now;
    }

    /// Returns what clients feel while nothing is brought.
    fn baseline(&self) -> Option<Duration> {
        let mut values: Vec<Duration> = self.quiet.iter().copied().collect();
        let middle = values.len() / 2;
        values.get(middle)?;
        Some(*values.select_nth_unstable(middle).1)
    }

    fn is_stale(&self, now: Mono) -> bool {
        self.measured.plus(FRESH) < now
    }

    fn judge(&mut self, value: Duration) {
        self.felt = value;
        let Some(baseline) = self.baseline() else { return };
        if value > baseline.mul_f64(TOO_SLOW) && value > baseline + GRAIN {
            self.halve();
        } else if value <= baseline.mul_f64(WELL).max(baseline + GRAIN) {
            self.widen(if self.window < 1.0 { self.window * 2.0 } else { self.window + 1.0 });
        }
    }

    fn halve(&mut self) {
        self.window = (self.window / 2.0).max(LEAST);
        self.counts.halved += 1;
    }

    fn widen(&mut self, window: f64) {
        if self.window < self.most {
            self.window = window.min(self.most);
            self.counts.widened += 1;
        }
    }

    /// Returns true if nothing is on its way and nobody wants it to be.
    pub(crate) fn is_idle(&self) -> bool {
        self.moving.is_empty() && self.held_back.is_empty()
    }

    /// Decides how much may begin now. `stuck`: clients' operations wait for an answer for long.
    pub(crate) fn look(&mut self, now: Mono, stuck: bool) {
        if self.is_idle() {
            // Without clients there is nobody to be careful of.
            if self.last_answer.plus(LONGEST) <= now {
                self.window = self.most;
            } else if self.still_since.plus(CALM) <= now {
                self.window = self.window.min(1.0);
            }
            self.give(self.allowed(now));
            return;
        }
        self.end_span(now, stuck);
        self.begin_rest(now);
        self.give(self.allowed(now));
        self.next = self.look_again(now);
    }

    /// Says how many objects may begin from now on. Those that began since it was said last are counted.
    fn give(&mut self, room: usize) {
        self.taken = self.objects_begun();
        (self.room, self.given) = (room, room);
    }

    /// Objects with which groups began so far, without those that clients waited for.
    pub(crate) fn objects_begun(&self) -> u64 {
        self.taken + self.given.saturating_sub(self.room) as u64
    }

    /// Returns when something may be different: what is over already is no reason to look.
    fn look_again(&self, now: Mono) -> Mono {
        let span = self.span_began.plus(if self.span_count >= ENOUGH { SPAN } else { LONGEST });
        let rest = self.rest.map_or(Mono::NEVER, |since| since.plus(REST));
        let moments = [span, rest, self.pause, self.begun.plus(self.sleep)];
        moments.into_iter().filter(|at| *at > now).min().unwrap_or(Mono::NEVER)
    }

    fn begin_rest(&mut self, now: Mono) {
        // Who asks for nothing has no baseline, and needs none.
        let asked = self.moved && self.span_count > 0;
        if self.rest.is_none() && asked && (self.quiet.is_empty() || self.is_stale(now)) {
            self.rest = Some(now);
            self.counts.rests += 1;
        }
        if self.rest.is_some_and(|since| since.plus(REST) <= now) {
            self.rest = None;
            self.measured = now;
        }
    }

    fn allowed(&self, now: Mono) -> usize {
        let moving = self.in_motion();
        let slept = self.sleep.is_zero() || self.begun.plus(self.sleep) <= now;
        if self.rest.is_some() || !slept || self.window < 1.0 && (moving > 0 || now < self.pause) {
            return 0;
        }
        let free = (self.window.max(1.0) as usize).saturating_sub(moving);
        if self.sleep.is_zero() { free } else { free.min(1) }
    }

    /// A group that would begin with more, if there is room for it.
    pub(crate) fn next_held_back(&mut self) -> Option<Slot> {
        if self.room == 0 { None } else { self.held_back.pop_first() }
    }

    /// Returns when to look again at the latest.
    pub(crate) fn deadline(&self) -> Mono {
        if self.is_idle() { Mono::NEVER } else { self.next }
    }

    /// Returns values of section `pace`.
    pub(crate) fn readings(&self) -> Readings {
        let micros = |time: Duration| time.as_micros() as u64;
        let mut out = Readings::default();
        out.put("window", (self.window * 1000.0).round() / 1000.0);
        out.put("moving", self.in_motion());
        out.put("groups_held_back", self.held_back.len());
        out.put("baseline_us", self.baseline().map_or(0, micros));
        out.put("felt_us", micros(self.felt));
        out.put("halved", self.counts.halved);
        out.put("widened", self.counts.widened);
        out.put("rests", self.counts.rests);
        out
    }
}

/// Returns true if an operation's time tells how busy this OSD is: it did not wait for its group, or for an object to
/// be brought.
pub(crate) fn tells(op: &Op) -> bool {
    let waited = |wait: Wait| matches!(wait, Wait::InGroup(Step::WaitsForActive | Step::WaitsForRecovery));
    op.session != crate::copies::OURSELVES && !op.waits.iter().any(|(_, wait)| waited(wait))
}

impl Osd {
    /// Takes over what groups have on their way, and lets those go on that have room now.
    pub(crate) fn keep_pace(&mut self, now: Now) {
        if self.pace.is_idle() {
            return self.pace.look(now.mono, false);
        }
        let late = |op: &Op| matches!(op.place, Place::InGroup(_)) && now.mono.since(op.received) > LONGEST && tells(op);
        let stuck = self.ops.under_way().any(late);
        self.pace.look(now.mono, stuck);
        while let Some(group) = self.pace.next_held_back() {
            let (groups, mut world) = self.world(now);
            groups.call(group, &mut world, |pg, ctx| pg.go_on_moving(ctx));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// An OSD whose clients' operations take so long as a function of what is on its way says; time goes in steps of 5
    /// ms.
    struct Twin {
        pace: Pace,
        now: Mono,
        /// Time when each object on its way is there.
        objects: Vec<Mono>,
        brought: usize,
        longest: usize,
    }

    impl Twin {
        fn new(most: usize) -> Self {
            let mut pace = Pace::default();
            pace.limit(most, Duration::ZERO);
            Self { pace, now: Mono(1000 * MS), objects: Vec::new(), brought: 0, longest: 0 }
        }

        /// Runs for so long. `wants`: there are objects to be brought, each takes `took`; `felt`: milliseconds of an
        /// operation with so many objects on their way, `None`: no clients.
        fn run(&mut self, millis: u64, wants: bool, took: u64, felt: impl Fn(usize) -> Option<u64>) {
            for _ in 0..millis / 5 {
                self.now = Mono(self.now.0 + 5 * MS);
                let before = self.objects.len();
                self.objects.retain(|at| *at > self.now);
                self.brought += before - self.objects.len();
                self.pace.note(self.now, 1, self.objects.len(), wants);
                if let Some(millis) = felt(self.objects.len()) {
                    self.pace.answered(self.now, Duration::from_millis(millis));
                }
                self.pace.look(self.now, false);
                let mut groups = 0;
                while self.pace.next_held_back().is_some() && groups < 2 {
                    groups += 1;
                }
                assert!(self.pace.deadline() > self.now || self.pace.deadline() == Mono::NEVER, "{:?}", self.pace);
                if wants {
                    let room = self.pace.room;
                    (0..room).for_each(|_| self.objects.push(Mono(self.now.0 + took * MS)));
                    self.pace.room = 0;
                    self.longest = self.longest.max(self.objects.len());
                    self.pace.note(self.now, 1, self.objects.len(), true);
                }
            }
        }
    }

    #[test]
    fn without_clients_it_is_as_fast_as_it_may_be() {
        let mut twin = Twin::new(10);
        twin.run(2000, false, 50, |_| None);
        twin.run(1000, true, 50, |_| None);
        assert_eq!((twin.pace.window, twin.longest), (10.0, 10));
        assert!(twin.brought > 180, "{} objects", twin.brought);
    }

    #[test]
    fn clients_that_feel_nothing_let_it_grow() {
        let mut twin = Twin::new(10);
        twin.run(3000, false, 50, |_| Some(4));
        assert_eq!(twin.pace.baseline(), Some(Duration::from_millis(4)));
        twin.run(5000, true, 50, |_| Some(5));
        assert_eq!(twin.pace.window, 10.0);
    }

    #[test]
    fn clients_that_suffer_are_spared_and_it_goes_on_all_the_same() {
        let mut twin = Twin::new(10);
        twin.run(3000, false, 50, |_| Some(4));
        // Each object on its way costs a client 3 ms: with one they take 7, with two 10.
        twin.run(60_000, true, 50, |moving| Some(4 + 3 * moving as u64));
        assert!(twin.pace.window <= 2.0, "{:?}", twin.pace);
        assert!(twin.brought > 500, "{} objects", twin.brought);
        // With one alone they suffer: at least an eighth of the time is left for it.
        let before = twin.brought;
        twin.run(60_000, true, 50, |moving| Some(4 + 20 * moving as u64));
        let brought = twin.brought - before;
        assert!((60..400).contains(&brought), "{brought} objects: {:?}", twin.pace);
    }

    #[test]
    fn when_clients_go_it_is_fast_again_and_when_they_come_it_is_slow() {
        let mut twin = Twin::new(10);
        let feels = |moving: usize| Some(4 + 20 * moving as u64);
        twin.run(3000, false, 50, feels);
        twin.run(20_000, true, 50, feels);
        assert!(twin.pace.window < 1.0, "{:?}", twin.pace);
        twin.run(10_000, true, 50, |_| None);
        assert_eq!(twin.pace.window, 10.0);
        twin.run(3000, true, 50, feels);
        assert!(twin.pace.window <= 1.0, "{:?}", twin.pace);
    }

    #[test]
    fn who_was_never_seen_alone_is_looked_at_in_a_rest() {
        let mut twin = Twin::new(10);
        twin.run(60_000, true, 50, |_| Some(5));
        assert_eq!(twin.pace.baseline(), Some(Duration::from_millis(5)));
        assert!(twin.pace.counts.rests >= 1 && twin.pace.window == 10.0, "{:?}", twin.pace);
        // After a while they are slower by themselves, and that is seen, too.
        twin.run(90_000, true, 50, |moving| Some(40 + moving as u64));
        assert!(twin.pace.window > 5.0, "{:?}", twin.pace);
    }

    #[test]
    fn a_sleep_is_a_ceiling() {
        let mut twin = Twin::new(10);
        twin.pace.limit(10, Duration::from_millis(100));
        twin.run(10_000, true, 5, |_| None);
        assert!((80..=101).contains(&twin.brought), "{} objects", twin.brought);
    }
}
