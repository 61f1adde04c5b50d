//! Defragmentation in flight: where the walk through the objects is, and the part of an object that is brought together.

use crate::block::{BLOCK, Block, LARGE, Patch, Place, Where};
use crate::checked::Checked;
use crate::yielding::Yielding;
use bytes::Bytes;
use node::Mono;
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;
use types::ObjectId;

/// Wait until the first walk after opening, and from the end of a walk to the next.
const FIRST: Duration = Duration::from_secs(600);
const NEXT: Duration = Duration::from_secs(3600);
/// The same if the last walk moved much.
const AGAIN: Duration = Duration::from_secs(60);
/// How often it looks for room and quiet before a walk ends early: what is to become free does so at the end of one.
const LOOKS: u32 = 60;
/// Wait until it looks again whether there is room and quiet.
const LATER: Duration = Duration::from_secs(1);
/// Shortest and longest pause between two steps.
const PAUSE: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_secs(10);
/// While nobody asks for anything, the pause behind a step is this part of what the step took.
const IDLE: u32 = 4;
/// Damaged blocks that are remembered, so that each is told once in this time: who was told may not have been able to mend it.
const KNOWN: usize = 1024;
const TOLD: Duration = DAY;
const DAY: Duration = Duration::from_secs(24 * 3600);
/// Blocks of a run, as a mean, from which on a part is left as it is (64 KiB).
const LEAST: usize = 16;
/// Fewest blocks that are moved: those of a large write. Objects of less than twice as many are left alone.
const FEWEST: usize = LARGE / BLOCK;

/// How much of a hurry it is in. The product is in none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(any(test, feature = "sim")), expect(dead_code, reason = "the product is in no hurry"))]
pub(crate) enum Haste {
    /// Its walks are minutes and hours apart.
    #[default]
    None,
    /// There are five walks a second, and what is small moves, too. For the simulator.
    Brisk,
    /// The same without pauses. For tests of the store.
    Eager,
}

impl Haste {
    /// A wait as it is in this hurry.
    fn wait(self, product: Duration, brisk: Duration) -> Duration {
        match self {
            Self::None => product,
            Self::Brisk => brisk,
            Self::Eager => Duration::ZERO,
        }
    }

    /// Fewest blocks that are moved.
    fn fewest(self) -> usize {
        if self == Self::None { FEWEST } else { 2 }
    }
}

/// An object that the walk is at.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) object: ObjectId,
    pub(crate) id: u64,
    /// Ranges of its size.
    pub(crate) ranges: u64,
    /// Next range to look at.
    pub(crate) next: u64,
}

/// A part of an object that is to be brought together.
#[derive(Debug)]
pub(crate) struct Part {
    /// Its ranges as they were when it was chosen.
    pub(crate) ranges: Vec<(u32, Patch)>,
    /// Blocks that move, in the object's order: range, index in it, block.
    pub(crate) moving: Vec<(u32, u32, Block)>,
    /// Their first blocks on the disk that were not read yet, in order of the disk, and how many follow each other.
    pub(crate) unread: Vec<(u64, u32)>,
    /// What was read, by block of the disk.
    pub(crate) read: BTreeMap<u64, Checked>,
    /// What is being read.
    pub(crate) asked: Vec<(u64, u32)>,
}

/// What defragmentation does now.
#[derive(Debug)]
pub(crate) enum Stage {
    /// Nothing before the next walk.
    Rest,
    /// It looks for parts of objects that lie scattered.
    Walk,
    /// It reads a part.
    Read(Box<Part>),
    /// The part is on its way to the disk.
    Write,
}

/// Defragmentation.
#[derive(Debug)]
pub(crate) struct Scattered {
    /// True if it is switched on.
    pub(crate) on: bool,
    pub(crate) stage: Stage,
    /// Key of the index's section of names where the walk goes on, and the object that it is at.
    pub(crate) from: Bytes,
    pub(crate) at: Option<Found>,
    /// Blocks that were written again since the last checkpoint began: so many old ones are not free yet.
    pub(crate) owed: u64,
    /// Chunks that this walk empties, how full one of them may be, and blocks that are still to move out of them.
    pub(crate) region: Range<u64>,
    pub(crate) usual: u64,
    pub(crate) left: u64,
    /// Blocks that this walk moved, and from how many on the next one comes soon.
    pub(crate) moved: u64,
    pub(crate) much: u64,
    /// Since when blocks are counted that move, and how many that were: a day's.
    day: (Mono, u64),
    /// How often it looked in vain for room and quiet.
    looks: u32,
    /// Time of the next step.
    next_at: Mono,
    /// Since when something is being read, if it is.
    since: Option<Mono>,
    /// Time that the last thing took to be read or written.
    took: Duration,
    /// What clients had asked for at the last step.
    asked: u64,
    /// How long clients' requests take beside it, and what follows from that.
    yielding: Yielding,
    /// Damaged blocks that were told, and when: the id of the object, and the block.
    told: BTreeMap<(u64, u64), Mono>,
    pub(crate) haste: Haste,
}

impl Default for Scattered {
    fn default() -> Self {
        Self {
            on: false,
            stage: Stage::Rest,
            from: Bytes::new(),
            at: None,
            owed: 0,
            region: 0..0,
            usual: 0,
            left: 0,
            moved: 0,
            much: 0,
            day: (Mono(0), 0),
            looks: 0,
            next_at: Mono(0),
            since: None,
            took: Duration::ZERO,
            asked: 0,
            yielding: Yielding::default(),
            told: BTreeMap::new(),
            haste: Haste::None,
        }
    }
}

impl Scattered {
    /// Switches it on or off. What it was at is forgotten.
    pub(crate) fn switch(&mut self, on: bool, now: Mono) {
        if self.on != on {
            let next_at = now.plus(self.haste.wait(FIRST, PAUSE));
            *self = Self { on, next_at, haste: self.haste, owed: self.owed, day: self.day, ..Self::default() };
        }
    }

    /// The store is open: the first walk comes some time later.
    pub(crate) fn opened(&mut self, now: Mono) {
        self.next_at = now.plus(self.haste.wait(FIRST, PAUSE));
    }

    /// Begins a walk at once, if none is under way.
    pub(crate) fn hurry(&mut self, now: Mono) {
        if matches!(self.stage, Stage::Rest) {
            self.next_at = now;
        }
    }

    /// Returns when it has something to do.
    pub(crate) fn due_at(&self) -> Mono {
        if self.on && self.since.is_none() && !matches!(self.stage, Stage::Write) { self.next_at } else { Mono::NEVER }
    }

    /// Something is asked of the disk.
    pub(crate) fn asks(&mut self, now: Mono) {
        self.since = Some(now);
        self.yielding.begin();
    }

    /// A request of a client that was made at `began` is done. Requests that met a step, and those that met none, show what it costs
    /// clients.
    pub(crate) fn served(&mut self, began: Mono, now: Mono) {
        if self.on {
            self.yielding.served(began, now);
        }
    }

    /// So many blocks move.
    pub(crate) fn moves(&mut self, n: u64) {
        self.owed += n;
        self.moved += n;
        self.day.1 += n;
    }

    /// Ends the walk until the day is over, if so many blocks moved in it. False if they did not.
    pub(crate) fn has_done(&mut self, most: u64, now: Mono) -> bool {
        if now >= self.day.0.plus(DAY) {
            self.day = (now, 0);
        }
        let done = self.haste == Haste::None && self.day.1 >= most;
        if done {
            self.rest(now);
            self.next_at = self.day.0.plus(DAY);
        }
        done
    }

    /// Gives true if this damaged block is to be told: it was not in the last time.
    pub(crate) fn is_news(&mut self, id: u64, block: u64, now: Mono) -> bool {
        if self.told.len() >= KNOWN {
            self.told.clear();
        }
        let before = self.told.get(&(id, block)).is_some_and(|at| at.plus(self.haste.wait(TOLD, LATER)) > now);
        if !before {
            self.told.insert((id, block), now);
        }
        !before
    }

    /// Returns true if an object of so many bytes may be worth a look.
    pub(crate) fn is_large(&self, size: u64) -> bool {
        size >= 2 * (self.haste.fewest() * BLOCK) as u64
    }

    /// Returns what a part must have to be worth its move: runs shorter than so many blocks, as a mean, and so many
    /// blocks to move.
    pub(crate) fn worth(&self) -> (usize, usize) {
        (LEAST, self.haste.fewest())
    }

    /// The pause behind a step is so many times as long as the step took, while clients ask for something.
    pub(crate) fn yields(&self) -> u32 {
        self.yielding.factor()
    }

    /// What was asked for is there, or the part is durable. It goes on at once.
    pub(crate) fn answered(&mut self, now: Mono) {
        if let Some(since) = self.since.take() {
            self.took = now.since(since);
            self.next_at = now;
            self.yielding.end(now);
        }
    }

    /// There is no room, or clients wait.
    pub(crate) fn wait(&mut self, now: Mono) {
        self.looks += 1;
        if self.looks > LOOKS && matches!(self.stage, Stage::Walk | Stage::Read(_)) {
            return self.rest(now);
        }
        self.next_at = now.plus(self.haste.wait(LATER, LATER / 10).max(PAUSE / 100));
    }

    /// A step is done. `asked`: what clients have asked for so far. While they ask for something, the pause is several times
    /// as long as the step took: the busier the disk, the longer both are. If clients' requests take longer beside it than
    /// without it, the pauses grow.
    pub(crate) fn pause(&mut self, now: Mono, asked: u64) {
        if matches!(self.stage, Stage::Rest) {
            return;
        }
        self.looks = 0;
        let busy = std::mem::replace(&mut self.asked, asked) != asked;
        let took = std::mem::take(&mut self.took);
        let pause = if busy { took * self.yielding.judge() } else { took / IDLE }.clamp(PAUSE, LONGEST);
        self.next_at = now.plus(self.haste.wait(pause, PAUSE / 10));
    }

    /// The walk is at its end.
    pub(crate) fn rest(&mut self, now: Mono) {
        (self.stage, self.from, self.at, self.looks) = (Stage::Rest, Bytes::new(), None, 0);
        let rest = if std::mem::take(&mut self.moved) > self.much { AGAIN } else { NEXT };
        self.next_at = now.plus(self.haste.wait(rest, LATER / 5).max(PAUSE / 10));
    }

    /// The part's record is durable.
    pub(crate) fn written(&mut self, now: Mono) {
        if matches!(self.stage, Stage::Write) {
            self.stage = Stage::Walk;
            self.answered(now);
        }
    }

    /// Bytes of memory that it takes.
    pub(crate) fn bytes(&self) -> usize {
        match &self.stage {
            Stage::Read(part) => part.read.len() * BLOCK + part.moving.len() * 64,
            _ => 0,
        }
    }
}

/// Number of runs in which blocks lie at these places, in this order.
pub(crate) fn runs(places: impl Iterator<Item = Place>) -> usize {
    let (mut n, mut last) = (0, None);
    for place in places {
        n += usize::from(last.is_none_or(|last: Place| last.plus(1) != place));
        last = Some(place);
    }
    n
}

impl Part {
    /// The part with these ranges, if it is worth it (`least`, `fewest`; none: nothing is): what lies in runs shorter than
    /// `least` blocks, as a mean, lies in at most half as many runs afterwards, and `fewest` blocks move. Else the part of it
    /// that `leaves` its places, if there is one. A block for which `stays` says so does not move.
    pub(crate) fn of(
        ranges: Vec<(u32, Patch)>,
        worth: Option<(usize, usize)>,
        leaves: impl Fn(u64) -> bool,
        stays: impl Fn(u64) -> bool,
    ) -> Option<Box<Self>> {
        let mut all = Vec::new();
        for (range, patch) in &ranges {
            for (i, block) in patch.iter() {
                // What is in the journal moves by itself, and what is damaged stays so.
                let Where::Disk(at) = block.place.place() else { return None };
                all.push((*range, i, block, at));
            }
        }
        let before = runs(all.iter().map(|(_, _, block, _)| block.place));
        let mut moving = Vec::new();
        let after = runs(all.iter().map(|(range, i, block, at)| {
            if stays(*at) {
                return block.place;
            }
            moving.push((*range, *i, *block));
            // Where no block of a disk is.
            Place(1 << 45 | (moving.len() as u64 - 1))
        }));
        let worth =
            worth.is_some_and(|(least, fewest)| all.len() < least * before && moving.len() >= fewest && 2 * after <= before);
        if !worth {
            moving.retain(|(_, _, block)| leaves(block.place.0));
        }
        if moving.is_empty() {
            return None;
        }
        let mut places: Vec<u64> = moving.iter().map(|(_, _, block)| block.place.0).collect();
        places.sort_unstable();
        places.dedup();
        let mut unread: Vec<(u64, u32)> = Vec::new();
        for at in places {
            match unread.last_mut() {
                Some((start, n)) if *start + u64::from(*n) == at => *n += 1,
                _ => unread.push((at, 1)),
            }
        }
        Some(Box::new(Self { ranges, moving, unread, read: BTreeMap::new(), asked: Vec::new() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::Cell;

    fn range(places: &[u64]) -> Patch {
        let mut patch = Patch::holes();
        for (i, at) in places.iter().enumerate() {
            patch.set(i as u32, Cell::Data(Block { place: Place::disk(*at), crc: 0 }));
        }
        patch
    }

    #[test]
    fn only_what_gets_better_is_chosen() {
        let row = |from: u64, by: u64| (0..16).map(|i| from + i * by).collect::<Vec<u64>>();
        let part = |ranges: &[Vec<u64>], stays: &dyn Fn(u64) -> bool| {
            let ranges = ranges.iter().enumerate().map(|(i, r)| (i as u32, range(r))).collect();
            Part::of(ranges, Some((16, 16)), |_| false, stays)
        };
        assert!(part(&[row(100, 1), row(116, 1)], &|_| false).is_none(), "it lies in one run");
        assert!(part(&[row(100, 1), row(500, 1)], &|_| false).is_none(), "its runs are long enough");
        let scattered = part(&[row(100, 2), row(500, 1)], &|_| false).expect("it is scattered");
        assert_eq!((scattered.moving.len(), scattered.unread.len()), (32, 17));
        // Every second block belongs to others, too: there are as many runs afterwards.
        assert!(part(&[row(100, 2), row(200, 2)], &|at| at % 4 == 0).is_none());
        // Half of it does, in one piece.
        let own = part(&[row(100, 2), row(200, 1)], &|at| at >= 200).expect("half of the runs go");
        assert_eq!(own.moving.len(), 16);
        assert!(part(&[row(100, 2)[..15].to_vec()], &|_| false).is_none(), "too little");
        // What leaves its place does so however little it is.
        let leaves = Part::of(vec![(0, range(&row(100, 1)))], None, |at| at < 103, |at| at == 101).expect("two blocks");
        assert_eq!((leaves.moving.len(), leaves.unread), (2, vec![(100, 1), (102, 1)]));
    }
}
