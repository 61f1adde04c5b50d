//! Defragmentation in flight: where the walk through the objects is, and the part of an object that is brought together.

use crate::block::{BLOCK, Block, LARGE, Patch, Place, Where};
use crate::checked::Checked;
use crate::yielding::Yielding;
use bytes::Bytes;
use node::Mono;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use types::ObjectId;

/// Wait until the first walk after opening, and from the end of a walk to the next.
const FIRST: Duration = Duration::from_secs(600);
const NEXT: Duration = Duration::from_secs(3600);
/// The same if the last walk moved much.
const AGAIN: Duration = Duration::from_secs(60);
/// Else the pause behind a walk is at least so many times as long as the walk.
const SELDOM: u32 = 4;
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
/// As a bound like [`LEAST`]: a part moves whether it gets better or not.
const ANY: usize = usize::MAX;
/// Fewest blocks that are moved: those of a large write. Objects of less than twice as many are left alone.
const FEWEST: usize = LARGE / BLOCK;

/// How much of a hurry it is in. The product is in none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(any(test, feature = "sim")), expect(dead_code, reason = "the product is in no hurry"))]
pub(crate) enum Haste {
    /// Its walks are minutes and hours apart.
    #[default]
    None,
    /// There are five walks a second. What is small moves, too, and every fourth part though it gets no better, and no chunk need be
    /// empty: stores of the simulator are too young to lie scattered, and have few chunks.
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

/// What defragmentation does wrong, so that runs show that they would find it.
#[cfg(any(test, feature = "sim"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveMistake {
    /// It does not look whether a part changed while it was read.
    MoveUnlooked,
    /// It does not look whether a clone changed while what it shares was read.
    MoveClonesUnlooked,
    /// A part's record does not wait until its data is flushed.
    MoveUnflushed,
}

/// An object of those that the walk is at.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) object: ObjectId,
    pub(crate) id: u64,
    /// Ranges of its size.
    pub(crate) ranges: u64,
}

/// The objects that the walk is at: a head and its clones, or one object.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// The head first, then its clones, the newest first. At least one.
    pub(crate) members: Arc<[Member]>,
    /// Next range to look at, in all of them.
    pub(crate) next: u64,
}

impl Found {
    /// Ranges of the largest of them.
    pub(crate) fn ranges(&self) -> u64 {
        self.members.iter().map(|member| member.ranges).max().unwrap_or(0)
    }
}

/// What an object has at a range: which of [`Found::members`], which range, and the blocks.
pub(crate) type Window = (usize, u32, Patch);

/// A place in an object at which a block is that moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spot {
    /// Which of [`Found::members`].
    pub(crate) member: usize,
    pub(crate) range: u32,
    /// Index of the block in the range.
    pub(crate) i: u32,
    /// Which of [`Part::moving`].
    pub(crate) index: u32,
}

/// A part of objects that is to be brought together.
#[derive(Debug)]
pub(crate) struct Part {
    /// Their ranges as they were when it was chosen, by member.
    pub(crate) ranges: Vec<Window>,
    /// Blocks that move, each once, in the order of the first object that has them.
    pub(crate) moving: Vec<Block>,
    /// All that names one of these, in the order of the ranges.
    pub(crate) spots: Vec<Spot>,
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
    /// True if the tree has changed since the last whole walk began: there may be something to bring together.
    news: bool,
    /// Time at which the walk began.
    began: Mono,
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
    /// A mistake to be found.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) mistake: Option<MoveMistake>,
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
            news: true,
            began: Mono(0),
            day: (Mono(0), 0),
            looks: 0,
            next_at: Mono(0),
            since: None,
            took: Duration::ZERO,
            asked: 0,
            yielding: Yielding::default(),
            told: BTreeMap::new(),
            haste: Haste::None,
            #[cfg(any(test, feature = "sim"))]
            mistake: None,
        }
    }
}

impl Scattered {
    /// Switches it on or off. What it was at is forgotten.
    pub(crate) fn switch(&mut self, on: bool, now: Mono) {
        if self.on != on {
            let next_at = now.plus(self.haste.wait(FIRST, PAUSE));
            let old = std::mem::take(self);
            *self = Self { on, next_at, haste: old.haste, owed: old.owed, day: old.day, ..Self::default() };
            #[cfg(any(test, feature = "sim"))]
            {
                self.mistake = old.mistake;
            }
        }
    }

    /// The store is open: the first walk comes some time later.
    pub(crate) fn opened(&mut self, now: Mono) {
        self.next_at = now.plus(self.haste.wait(FIRST, PAUSE));
    }

    /// Begins a walk at once, if none is under way.
    pub(crate) fn hurry(&mut self, now: Mono) {
        if matches!(self.stage, Stage::Rest) {
            (self.next_at, self.news) = (now, true);
        }
    }

    /// A walk begins. A part of the disk's blocks is `much`.
    pub(crate) fn begins(&mut self, much: u64, now: Mono) {
        (self.moved, self.much, self.news, self.began) = (0, much, false, now);
    }

    /// The tree has changed. What changed later does not move, so only now a walk may find something new.
    pub(crate) fn has_news(&mut self) {
        self.news = true;
    }

    /// Returns when it has something to do.
    pub(crate) fn due_at(&self) -> Mono {
        let busy = self.since.is_some() || matches!(self.stage, Stage::Write);
        let rests = matches!(self.stage, Stage::Rest) && !self.news;
        if self.on && !busy && !rests { self.next_at } else { Mono::NEVER }
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

    /// Returns true if a part is to move whether it gets better or not. `looked`: parts that were looked at so far.
    pub(crate) fn is_restless(&self, looked: u64) -> bool {
        self.haste == Haste::Brisk && looked.is_multiple_of(4)
    }

    /// What makes any part worth its move.
    pub(crate) fn anything(&self) -> (usize, usize) {
        (ANY, self.haste.fewest())
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

    /// The walk ends before it has seen all.
    pub(crate) fn rest(&mut self, now: Mono) {
        self.news = true;
        self.walked(now);
    }

    /// The walk is at its end. The next one comes when there is news, and not before a multiple of the time that this one took: a
    /// disk that takes hours to walk is not walked all the time.
    pub(crate) fn walked(&mut self, now: Mono) {
        (self.stage, self.from, self.at, self.looks) = (Stage::Rest, Bytes::new(), None, 0);
        let moved = std::mem::take(&mut self.moved);
        // What moved left gaps elsewhere.
        self.news |= moved > 0;
        let much = moved > self.much;
        let rest = if much { AGAIN } else { NEXT.max(now.since(self.began) * SELDOM) };
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
            Stage::Read(part) => {
                let ranges = part.ranges.len() * (size_of::<Window>() + 16 * size_of::<Block>());
                part.read.len() * BLOCK + part.moving.len() * 64 + part.spots.len() * size_of::<Spot>() + ranges
            }
            _ => 0,
        }
    }
}

/// Number of runs in which blocks lie at these places, in this order. Each comes with the object that it is of: none goes on in another.
pub(crate) fn runs(places: impl Iterator<Item = (usize, Place)>) -> usize {
    let (mut n, mut last) = (0, None);
    for (member, place) in places {
        n += usize::from(last.is_none_or(|(before, last): (usize, Place)| (before, last.plus(1)) != (member, place)));
        last = Some((member, place));
    }
    n
}

/// A block of the disk that a part names: how often it does, and its place among those that move.
struct Named {
    at: u64,
    times: u32,
    index: Option<u32>,
}

impl Part {
    /// The part with these ranges, if it is worth it (`least`, `fewest`; none: nothing is): what lies in runs shorter than
    /// `least` blocks, as a mean, lies in at most half as many runs afterwards, and `fewest` blocks move. Else the part of it
    /// that `leaves` its places, if there is one. A block for which `stays` says so does not move; it gets the block, and how often
    /// these ranges name it. At most `most` blocks move.
    pub(crate) fn of(
        ranges: &[Window],
        worth: Option<(usize, usize)>,
        most: usize,
        leaves: impl Fn(u64) -> bool,
        stays: impl Fn(u64, u32) -> bool,
    ) -> Option<Box<Self>> {
        let mut all = Vec::new();
        for (member, range, patch) in ranges {
            for (i, block) in patch.iter() {
                // What is in the journal moves by itself, and what is damaged stays so.
                let Where::Disk(at) = block.place.place() else { return None };
                all.push((Spot { member: *member, range: *range, i, index: 0 }, block, at));
            }
        }
        let mut places: Vec<u64> = all.iter().map(|(_, _, at)| *at).collect();
        places.sort_unstable();
        let mut named: Vec<Named> = Vec::new();
        for at in places {
            match named.last_mut() {
                Some(last) if last.at == at => last.times += 1,
                _ => named.push(Named { at, times: 1, index: None }),
            }
        }
        // Gives each block that may move its place, in the order of the objects.
        let choose = |named: &mut Vec<Named>, may: &dyn Fn(u64, u32) -> bool| {
            let mut moving: Vec<Block> = Vec::new();
            for (_, block, at) in &all {
                let Ok(n) = named.binary_search_by_key(at, |named| named.at) else { unreachable!("each is named") };
                if named[n].index.is_none() && moving.len() < most && may(*at, named[n].times) {
                    named[n].index = Some(moving.len() as u32);
                    moving.push(*block);
                }
            }
            moving
        };
        let index =
            |named: &Vec<Named>, at: u64| named.binary_search_by_key(&at, |named| named.at).ok().and_then(|n| named[n].index);
        let before = runs(all.iter().map(|(spot, block, _)| (spot.member, block.place)));
        let may_move = |at: u64, times: u32| !stays(at, times);
        let mut moving = match worth {
            Some((least, _)) if all.len() < least.saturating_mul(before) => choose(&mut named, &may_move),
            _ => Vec::new(),
        };
        let after = runs(all.iter().map(|(spot, block, at)| {
            // Where no block of a disk is.
            (spot.member, index(&named, *at).map_or(block.place, |index| Place(1 << 45 | u64::from(index))))
        }));
        if !worth.is_some_and(|(least, fewest)| moving.len() >= fewest && (2 * after <= before || least == ANY)) {
            named.iter_mut().for_each(|named| named.index = None);
            moving = choose(&mut named, &|at, times| leaves(at) && may_move(at, times));
        }
        if moving.is_empty() {
            return None;
        }
        let mut unread: Vec<(u64, u32)> = Vec::new();
        for at in named.iter().filter(|named| named.index.is_some()).map(|named| named.at) {
            match unread.last_mut() {
                Some((start, n)) if *start + u64::from(*n) == at => *n += 1,
                _ => unread.push((at, 1)),
            }
        }
        let spots = all.iter().filter_map(|(spot, _, at)| Some(Spot { index: index(&named, *at)?, ..*spot })).collect();
        Some(Box::new(Self { ranges: ranges.to_vec(), moving, spots, unread, read: BTreeMap::new(), asked: Vec::new() }))
    }

    /// The ranges in which something moves: the spots of each.
    pub(crate) fn moves(&self) -> impl Iterator<Item = &[Spot]> {
        self.spots.chunk_by(|a, b| (a.member, a.range) == (b.member, b.range))
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
            let ranges: Vec<Window> = ranges.iter().enumerate().map(|(i, r)| (0, i as u32, range(r))).collect();
            Part::of(&ranges, Some((16, 16)), 1024, |_| false, |at, _| stays(at))
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
        let of = [(0, 0, range(&row(100, 1)))];
        let leaves = Part::of(&of, None, 1024, |at| at < 103, |at, _| at == 101).expect("two blocks");
        assert_eq!((leaves.moving.len(), leaves.unread), (2, vec![(100, 1), (102, 1)]));
        let few = Part::of(&of, None, 2, |_| true, |_, _| false).expect("two blocks");
        assert_eq!((few.moving.len(), few.unread), (2, vec![(100, 2)]), "no more than it may");
    }

    #[test]
    fn what_clones_share_moves_once_and_in_all_of_them() {
        // A head, and a clone that has another block in its middle; one block is shared with somebody else, too.
        let head: Vec<u64> = (0..16).map(|i| 100 + 2 * i).collect();
        let clone: Vec<u64> = (0..16).map(|i| if i == 8 { 500 } else { 100 + 2 * i }).collect();
        let ranges = [(0, 3, range(&head)), (1, 3, range(&clone))];
        let refs = |at: u64| if at == 116 || at == 500 { 1 } else { 2 + u32::from(at == 102) };
        let part = Part::of(&ranges, Some((16, 2)), 1024, |_| false, |at, times| times < refs(at)).expect("it is scattered");
        let places: Vec<u64> = part.moving.iter().map(|block| block.place.0).collect();
        let own = |at: &u64| *at != 102;
        assert_eq!(places, head.iter().copied().filter(own).chain([500]).collect::<Vec<u64>>());
        assert_eq!((part.spots.len(), part.moves().count(), part.unread.len()), (30, 2, 16));
        for spot in &part.spots {
            let (_, _, patch) = &ranges[spot.member];
            assert_eq!(patch.get(spot.i), Cell::Data(part.moving[spot.index as usize]), "{spot:?}");
        }
    }
}
