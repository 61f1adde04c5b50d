//! Free blocks that a raw disk is told of (discard), so that flash need not keep what nobody wants.
//!
//! What becomes free is noted, not told at once: much of it is written again soon. A request takes a run that is still
//! free, as a loan, so that nothing is written there meanwhile. There is one request at a time, and after it a pause as
//! its length is: a disk that is slow to discard, or that forgets its caches over it, serves clients first.
//!
//! Notes have a bound, are not on the disk, and short runs get none. What was not noted is counted. When it is a
//! sixteenth of the disk, all free space is searched once for runs that are worth a request.

use super::room::Space;
use crate::block::{BLOCK, Run};
use crate::io::{DATA, Io, Purpose};
use node::Mono;
use std::collections::VecDeque;
use std::time::Duration;

/// Fewest blocks that are worth a request, and most of one.
const LEAST: u64 = 32;
const MOST: u64 = 4096;
/// Most notes.
const NOTES: usize = 4096;
/// Most bytes that are discarded in a second.
const RATE: u64 = 256 << 20;
/// Most runs that one turn looks at.
const LOOKS: usize = 64;
/// Wait while nearly nothing is free.
const FULL: Duration = Duration::from_secs(10);

/// What the disk is still to be told.
#[derive(Debug, Default)]
pub(crate) struct Discards {
    /// The disk wants to be told.
    pub(super) wanted: bool,
    /// Runs that became free, oldest first.
    notes: VecDeque<Run>,
    /// Blocks that became free without a note since the last search of all free space.
    unnoted: u64,
    /// Next block of that search.
    searched: Option<u64>,
    /// A request is under way.
    flying: bool,
    next_at: Mono,
}

impl Discards {
    /// Notes a run that became free.
    pub(super) fn note(&mut self, run: Run) {
        if !self.wanted {
            return;
        }
        let end = run.0 + u64::from(run.1);
        match self.notes.back_mut() {
            Some((start, n)) if *start + u64::from(*n) == run.0 && u64::from(*n) < MOST => *n += run.1,
            Some((start, n)) if end == *start && u64::from(*n) < MOST => (*start, *n) = (run.0, *n + run.1),
            last => {
                // The last one had no neighbour, and gets none any more.
                if last.is_some_and(|(_, n)| u64::from(*n) < LEAST) {
                    self.unnoted += u64::from(self.notes.pop_back().expect("just seen").1);
                }
                if self.notes.len() < NOTES { self.notes.push_back(run) } else { self.unnoted += u64::from(run.1) }
            }
        }
    }

    /// Forgets all notes.
    fn forget(&mut self) {
        self.unnoted += self.notes.drain(..).map(|run| u64::from(run.1)).sum::<u64>();
        self.searched = None;
    }

    fn is_search_due(&self, blocks: u64) -> bool {
        self.searched.is_some() || self.unnoted > blocks / 16
    }
}

impl Space {
    /// Whether the disk is to be told of free blocks.
    pub(crate) fn discard(&mut self, wanted: bool) {
        self.discards.wanted = wanted;
    }

    /// Says whether a request is under way.
    pub(crate) fn is_discarding(&self) -> bool {
        self.discards.flying
    }

    /// Returns when [`Self::tell_free`] has something to do.
    pub(crate) fn tell_free_at(&self) -> Mono {
        let d = &self.discards;
        let idle = d.flying || (d.notes.is_empty() && !d.is_search_due(self.total()));
        if idle { Mono::NEVER } else { d.next_at }
    }

    /// Tells the disk of the next run that is still free, if it is time. `kept_back`: blocks that are free and not for
    /// data.
    pub(crate) fn tell_free(&mut self, io: &mut Io, now: Mono, kept_back: u64) {
        if self.tell_free_at() > now {
            return;
        }
        let most = self.lendable(kept_back).min(MOST);
        if most < LEAST {
            // What is free is written again soon.
            self.discards.forget();
            self.discards.next_at = now.plus(FULL);
            return;
        }
        let Some(run) = self.next_discard(most) else { return };
        self.discards.flying = true;
        let bytes = u64::from(run.1) * BLOCK as u64;
        self.discards.next_at = now.plus(Duration::from_nanos(bytes * 1_000_000_000 / RATE));
        io.trim(DATA, run.0 * BLOCK as u64, bytes, Purpose::Discard(run));
    }

    /// Lends a run of [`LEAST`] to `most` free blocks that the disk is to be told of. None if this turn found none.
    fn next_discard(&mut self, most: u64) -> Option<Run> {
        for _ in 0..LOOKS {
            let Some((start, n)) = self.discards.notes.pop_front() else { break };
            let (end, mut at) = (start + u64::from(n), start);
            if let Some(run) = self.alloc.borrow_long(&mut at, end, LEAST, most, LOOKS) {
                let behind = run.0 + u64::from(run.1);
                if end - behind >= LEAST {
                    self.discards.notes.push_front((behind, (end - behind) as u32));
                }
                return Some(run);
            }
        }
        if !self.discards.notes.is_empty() || !self.discards.is_search_due(self.total()) {
            return None;
        }
        let mut at = self.discards.searched.unwrap_or_else(|| {
            self.discards.unnoted = 0;
            0
        });
        let end = self.mapped();
        let run = self.alloc.borrow_long(&mut at, end, LEAST, most, LOOKS);
        self.discards.searched = (at < end).then_some(at);
        run
    }

    /// The disk was told.
    pub(crate) fn told_free(&mut self, run: Run) {
        self.discards.flying = false;
        // No host takes back what a disk was told of.
        self.alloc.give_back(run, true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests(space: &mut Space, now: &mut Mono, kept_back: u64) -> Vec<Run> {
        let (mut out, mut io) = (Vec::new(), Io::default());
        for _ in 0..10_000 {
            let at = space.tell_free_at();
            if at == Mono::NEVER {
                return out;
            }
            *now = at.max(*now);
            space.tell_free(&mut io, *now, kept_back);
            let mut asked = node::Outputs::default();
            io.drain(&mut asked);
            for output in asked.0 {
                let node::Output::Disk(request) = output else { panic!("{output:?}") };
                let Some(Purpose::Discard(run)) = io.ended(request.token) else { panic!("no discard") };
                assert_eq!(space.tell_free_at(), Mono::NEVER, "one at a time");
                space.told_free(run);
                out.push(run);
            }
        }
        panic!("it asks to be woken for ever");
    }

    fn space(blocks: u64) -> Space {
        let mut space = Space::default();
        let len = blocks * BLOCK as u64;
        space.told(node::DiskStat { len, capacity: len, host_free: u64::MAX });
        space.begin(blocks, 100);
        space.discard(true);
        space
    }

    /// Gives blocks out as data and takes them back.
    fn come_and_go(space: &mut Space, runs: &[Run]) {
        runs.iter().for_each(|run| space.let_go(&mut Io::default(), *run));
    }

    #[test]
    fn long_runs_are_told_once_and_at_a_rate() {
        let (mut space, mut now) = (space(100_000), Mono(0));
        let taken = space.alloc.take(10_000, super::super::alloc::Kind::Data).expect("room");
        let first = taken[0].0;
        // In ranges, as objects are removed, upwards and downwards.
        let ranges: Vec<Run> =
            (0..64).map(|i| (first + i * 16, 16)).chain((200..300).rev().map(|i| (first + i * 16, 16))).collect();
        come_and_go(&mut space, &ranges);
        assert_eq!(requests(&mut space, &mut now, 0), [(first, 1024), (first + 3200, 1600)]);
        let least = Duration::from_nanos(1024 * 4096 * 1_000_000_000 / RATE);
        assert!(now >= Mono(0).plus(least), "{now:?}");
        assert_eq!(space.alloc.lent(), 0);
        // What is in use again is left alone.
        come_and_go(&mut space, &[(first + 2000, 1000)]);
        let again = space.alloc.borrow(first + 2000, 980).expect("free");
        assert_eq!(requests(&mut space, &mut now, 0), []);
        space.alloc.give_back(again, true);
    }

    #[test]
    fn many_short_runs_lead_to_one_search() {
        let (mut space, mut now) = (space(100_000), Mono(0));
        let taken = space.alloc.take(20_000, super::super::alloc::Kind::Data).expect("room");
        let first = taken[0].0;
        let short = |from: u64, to: u64| (from..to).filter(|i| i % 2 == 0).chain((from..to).filter(|i| i % 2 == 1));
        come_and_go(&mut space, &short(0, 5000).map(|i| (first + i, 1)).collect::<Vec<_>>());
        assert_eq!(requests(&mut space, &mut now, 0), [], "a twentieth of the disk");
        come_and_go(&mut space, &short(5000, 10_000).map(|i| (first + i, 1)).collect::<Vec<_>>());
        let told = requests(&mut space, &mut now, 0);
        let blocks: u64 = told.iter().map(|run| u64::from(run.1)).sum();
        assert_eq!(blocks, space.free(), "{told:?}");
        assert_eq!(requests(&mut space, &mut now, 0), [], "once");
    }

    #[test]
    fn a_full_disk_waits() {
        let (mut space, mut now) = (space(2000), Mono(0));
        let taken = space.alloc.take(1000, super::super::alloc::Kind::Data).expect("room");
        come_and_go(&mut space, &[(taken[0].0, 64)]);
        assert_eq!(requests(&mut space, &mut now, 900), []);
        assert_eq!(space.alloc.lent(), 0);
    }
}
