//! Read leases: why a member that is cut off, and does not know it, answers no read with an old value.
//!
//! *Promise.* When OSD `r` answers a heartbeat of OSD `p`, it promises: for so long from now, in any group of which `p` was a member, I take
//! part in no other interval without telling how much of this promise is left. `p` counts a little less, from when it *asked*. So `p` stops
//! relying on a promise before `r` stops keeping it, whatever their clocks show, if they only run equally fast.
//!
//! *Reads.* A primary reads while the promises of all other serving members run. Else the read waits (`laggy`) for an answer to a later
//! heartbeat, or for the end of the interval. A member that does not lead answers reads under the same condition ([`crate::aside`]), else it
//! sends them to the primary. Writes need no lease: the members themselves acknowledge them.
//!
//! *Another interval.* Copies tell the new primary, with what they hold, how much is left of what they promised to members of earlier
//! intervals. It waits for the longest before it serves (`wait`), except for members that answered it (they have left their interval) and
//! for those that the map knows to be dead. A new primary asks all earlier members that are up. So planned changes, and processes whose ports
//! refuse connections, wait for nothing.
//!
//! *Level.* In a cluster that does not have [`Feature::ReplicaReads`] only primaries read, and only what was promised to them counts. Who
//! reads without leading has a map with that level. A later interval has a later map, so all its members tell what was promised to
//! everybody: promises themselves were always made to all who asked.
//!
//! *Maps.* An answer counts only when the asker has the map that the other one had when it answered. Else the other one could have told
//! of its promise in a newer interval already, and promised more after that.
//!
//! *Restarts.* An OSD that starts does not know what its former life promised. It tells every earlier reader's rest as if its former life had
//! promised in its last moment, for as long as that ever did: the longest length is in the store before such a promise is made
//! (`cores/osd/src/leases.rs`).
//!
//! *Ends.* An OSD that is told to stop tells the monitors, which say at once that it is dead: nobody waits for promises to it any more. So it
//! relies on none from then on, though it may hear late that it is down.
//!
//! *Suspended hosts.* The clock goes on while a host sleeps (CLOCK_BOOTTIME), so promises to it run out meanwhile.

use crate::history::PastInterval;
use maps::OsdMap;
use node::Mono;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use types::level::Level;
use types::{Epoch, Feature, OsdId, is_osd};

const LEAST: Duration = Leases::LEAST;
const MOST: Duration = Leases::MOST;
/// Clocks may differ in speed by one thousandth.
const DRIFT: u32 = 1000;

/// Promises of this OSD to others, and of others to it.
#[derive(Debug, Default)]
pub struct Leases {
    /// To whom, and until when.
    given: BTreeMap<OsdId, Mono>,
    /// By whom, and until when it is relied on.
    held: BTreeMap<OsdId, Mono>,
    /// Promises of OSDs that had a newer map: it, and until when.
    ahead: Vec<(OsdId, Epoch, Mono)>,
    /// Until when a promise of this OSD's former life may run; unknown before [`Leases::begin`].
    former: Option<Mono>,
    /// Others are told that this OSD ends: it relies on nothing any more.
    ended: bool,
}

impl Leases {
    /// Time for which a promise runs at least. Heartbeats go twice a second, so three may be lost.
    pub const LEAST: Duration = Duration::from_secs(2);
    /// Time for which it runs at most: whoever asks for more gets that.
    pub const MOST: Duration = Duration::from_secs(30);

    /// This OSD has just started; promises of its former life ran for so long.
    pub fn begin(&mut self, now: Mono, length: Duration) {
        self.former.get_or_insert(now.plus(length.clamp(LEAST, MOST)));
    }

    /// This OSD is about to end, and others need not wait for it.
    pub fn end(&mut self) {
        self.ended = true;
    }

    /// A mistake to be found: this OSD relies on promises to its end.
    #[cfg(feature = "sim")]
    pub fn go_on(&mut self) {
        self.ended = false;
    }

    /// Answers another OSD's heartbeat, which asks for so much.
    pub fn promise(&mut self, now: Mono, to: OsdId, length: Duration) {
        let until = now.plus(length.clamp(LEAST, MOST));
        let given = self.given.entry(to).or_default();
        *given = until.max(*given);
    }

    /// Another OSD, which had the map of `epoch`, answered what was asked at `asked`. `newest`: this OSD's map.
    pub fn promised(&mut self, by: OsdId, asked: Mono, length: Duration, epoch: Epoch, newest: Epoch) {
        let length = length.clamp(LEAST, MOST);
        let until = asked.plus(length - length / DRIFT);
        if epoch > newest {
            self.ahead.retain(|(osd, ..)| *osd != by);
            return self.ahead.push((by, epoch, until));
        }
        let held = self.held.entry(by).or_default();
        *held = until.max(*held);
    }

    /// This OSD has a newer map. Groups must have heard of it before: what was promised with it counts now.
    pub fn follow(&mut self, map: &OsdMap) {
        let known = self.ahead.extract_if(.., |(_, epoch, _)| *epoch <= map.epoch).collect::<Vec<_>>();
        for (by, _, until) in known {
            let held = self.held.entry(by).or_default();
            *held = until.max(*held);
        }
        self.held.retain(|osd, _| map.exists(*osd));
        self.given.retain(|osd, _| map.exists(*osd));
    }

    /// Returns true if another OSD's promise runs.
    pub fn holds(&self, now: Mono, by: OsdId) -> bool {
        !self.ended && self.held.get(&by).is_some_and(|until| now < *until)
    }

    /// Until when a promise to another OSD may run.
    fn given_until(&self, now: Mono, to: OsdId) -> Mono {
        let former = self.former.unwrap_or(now.plus(MOST));
        self.given.get(&to).copied().unwrap_or_default().max(former)
    }

    /// Returns what is left of the promises to those who may have read in these intervals, in milliseconds, rounded
    /// up.
    pub(crate) fn rests(&self, now: Mono, past: &[PastInterval], readers: Readers) -> Vec<(OsdId, u32)> {
        let osds: BTreeSet<OsdId> = past.iter().flat_map(|interval| readers.of(interval)).collect();
        let left = |osd: OsdId| {
            let left = Duration::from_nanos(self.given_until(now, osd).0.saturating_sub(now.0));
            u32::try_from(left.as_nanos().div_ceil(1_000_000)).unwrap_or(u32::MAX)
        };
        osds.into_iter().map(|osd| (osd, left(osd))).filter(|(_, left)| *left > 0).collect()
    }
}

/// Readers of an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Readers {
    /// Its primary alone.
    Primary,
    /// All its members.
    Members,
}

/// Returns who reads in a cluster of this level.
pub(crate) fn readers(level: Level) -> Readers {
    if level.has(Feature::ReplicaReads) { Readers::Members } else { Readers::Primary }
}

impl Readers {
    fn of(self, interval: &PastInterval) -> impl Iterator<Item = OsdId> {
        let members = if self == Self::Members { &interval.acting[..] } else { &[] };
        members.iter().copied().chain([interval.primary]).filter(|osd| is_osd(*osd))
    }
}

/// Knowledge of a new primary about promises that were made to those who read in earlier intervals.
#[derive(Debug, Default)]
pub(crate) struct Rests(BTreeMap<OsdId, Mono>);

impl Rests {
    /// A copy told what is left.
    pub(crate) fn hear(&mut self, now: Mono, rests: &[(OsdId, u32)]) {
        for (osd, left) in rests {
            // Nobody promises more.
            let left = Duration::from_millis((*left).into()).min(MOST);
            let until = self.0.entry(*osd).or_default();
            *until = now.plus(left).max(*until);
        }
    }

    /// Until when the group must not serve, since somebody may still answer reads in an earlier interval. `left`: those who answered in this one.
    pub(crate) fn until(&self, map: &OsdMap, past: &[PastInterval], whoami: OsdId, left: impl Fn(OsdId) -> bool) -> Mono {
        let readers = readers(map.level);
        let reads = |osd: &OsdId| {
            let read =
                past.iter().filter(|interval| readers.of(interval).any(|reader| reader == *osd)).map(|interval| interval.last);
            *osd != whoami && !left(*osd) && read.max().is_some_and(|last| !is_dead_since(map, *osd, last))
        };
        self.0.iter().filter(|(osd, _)| reads(osd)).map(|(_, until)| *until).max().unwrap_or_default()
    }
}

/// Returns true if the process that an OSD was in `epoch` is known to be gone: another one has its place, its end was
/// seen, or an operator gave it up.
fn is_dead_since(map: &OsdMap, osd: OsdId, epoch: Epoch) -> bool {
    let dead = usize::try_from(osd).ok().and_then(|n| map.osd_xinfo.get(n)).is_some_and(|info| info.dead_epoch > epoch);
    let lost = map.info(osd).is_some_and(|info| info.lost_at > epoch);
    !map.exists(osd) || dead || lost || map.up_from(osd) > epoch
}

#[cfg(test)]
mod tests {
    use super::*;
    use maps::state;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(millis: u64) -> Mono {
        Mono(millis * 1_000_000)
    }

    fn led(first: Epoch, last: Epoch, primary: OsdId) -> PastInterval {
        PastInterval { first, last, acting: vec![primary, 9], primary }
    }

    fn map(epoch: Epoch) -> OsdMap {
        let mut map = OsdMap { epoch, ..OsdMap::default() };
        map.set_max_osd(10);
        map.osd_state = vec![state::EXISTS; 10];
        map
    }

    #[test]
    fn who_asked_relies_on_less_than_what_was_promised() {
        let (mut asker, mut other) = (Leases::default(), Leases::default());
        other.begin(at(0), LEAST);
        // Asked at 10,000, answered at 10,300.
        other.promise(at(10_300), 1, LEAST);
        asker.promised(2, at(10_000), LEAST, 5, 5);
        assert!(asker.holds(at(11_997), 2) && !asker.holds(at(11_998), 2));
        assert_eq!(other.rests(at(11_998), &[led(1, 4, 1)], Readers::Primary), [(1, 302)]);
        assert_eq!(other.rests(at(12_300), &[led(1, 4, 1)], Readers::Primary), []);
        // An earlier answer that comes late takes nothing away.
        asker.promised(2, at(9_000), LEAST, 5, 5);
        assert!(asker.holds(at(11_997), 2));
    }

    #[test]
    fn a_promise_of_somebody_with_a_newer_map_counts_with_that_map() {
        let mut asker = Leases::default();
        asker.promised(2, at(10_000), LEAST, 6, 5);
        assert!(!asker.holds(at(10_001), 2));
        asker.follow(&map(5));
        assert!(!asker.holds(at(10_001), 2));
        asker.follow(&map(6));
        assert!(asker.holds(at(10_001), 2));
    }

    #[test]
    fn a_former_life_may_have_promised_in_its_last_moment() {
        let mut leases = Leases::default();
        assert_eq!(leases.rests(at(5_000), &[led(1, 4, 1)], Readers::Primary), [(1, 30_000)], "nothing is known before it began");
        leases.begin(at(5_000), 3 * SECOND);
        leases.begin(at(9_000), 3 * SECOND);
        assert_eq!(leases.rests(at(7_500), &[led(1, 4, 1), led(5, 6, -1)], Readers::Primary), [(1, 500)]);
        assert_eq!(leases.rests(at(8_000), &[led(1, 4, 1)], Readers::Primary), []);
    }

    #[test]
    fn whoever_asks_for_more_than_there_is_gets_what_there_is() {
        let mut leases = Leases::default();
        leases.begin(at(0), Duration::ZERO);
        leases.promise(at(100_000), 1, Duration::from_secs(86_400));
        leases.promise(at(100_000), 2, Duration::ZERO);
        assert_eq!(leases.rests(at(100_000), &[led(1, 4, 1), led(1, 4, 2)], Readers::Primary), [(1, 30_000), (2, 2_000)]);
    }

    #[test]
    fn earlier_primaries_are_waited_for_unless_they_left_or_are_dead() {
        let mut rests = Rests::default();
        rests.hear(at(1_000), &[(1, 700), (2, 1_500), (3, 900)]);
        rests.hear(at(1_100), &[(1, 1_000), (2, u32::MAX)]);
        let past = [led(5, 9, 1), led(10, 12, 2), led(13, 14, 3)];
        let mut map = map(20);
        let until = |map: &OsdMap, left: &[OsdId]| rests.until(map, &past, 7, |osd| left.contains(&osd));
        assert_eq!(until(&map, &[]), at(31_100), "no promise is longer than the longest");
        assert_eq!(until(&map, &[2]), at(2_100));
        assert_eq!(until(&map, &[1, 2]), at(1_900));
        assert_eq!(until(&map, &[1, 2, 3]), Mono::default());
        map.osd_xinfo[2].dead_epoch = 13;
        assert_eq!(until(&map, &[]), at(2_100));
        map.osd_info[1].up_from = 15;
        assert_eq!(until(&map, &[]), at(1_900), "another process has its place");
        map.osd_xinfo[3].dead_epoch = 12;
        assert_eq!(until(&map, &[]), at(1_900), "it was dead before it led");
        assert_eq!(rests.until(&map, &past, 3, |_| false), Mono::default(), "one's own interval is over");
    }
    #[test]
    fn where_all_members_read_all_are_waited_for() {
        let mut leases = Leases::default();
        leases.begin(at(0), LEAST);
        leases.promise(at(10_000), 9, LEAST);
        let past = [led(5, 9, 1)];
        assert_eq!(leases.rests(at(10_500), &past, Readers::Primary), []);
        assert_eq!(leases.rests(at(10_500), &past, Readers::Members), [(9, 1_500)]);
        let mut rests = Rests::default();
        rests.hear(at(1_000), &[(9, 1_500)]);
        let mut map = map(20);
        assert_eq!(rests.until(&map, &past, 7, |_| false), Mono::default(), "at this level only primaries read");
        map.level = Feature::ReplicaReads.level();
        assert_eq!(rests.until(&map, &past, 7, |_| false), at(2_500));
        assert_eq!(rests.until(&map, &past, 7, |osd| osd == 9), Mono::default(), "it has left its interval");
        map.osd_xinfo[9].dead_epoch = 10;
        assert_eq!(rests.until(&map, &past, 7, |_| false), Mono::default());
    }
}
