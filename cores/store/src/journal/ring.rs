//! Where groups go in the journal's ring. All numbers are blocks, positions count from the ring's start.

/// The ring's geometry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ring {
    /// Blocks in the ring.
    len: u64,
    /// How many of them, from the start, were written before.
    claimed: u64,
    /// Place where the oldest group that is still needed begins.
    head: u64,
    /// Place where the next group goes, if there is room.
    tail: u64,
    /// Blocks placed since the beginning, waste at the end included.
    placed: u64,
    /// `placed` when `head` was the tail.
    freed: u64,
    /// No more can be written ahead for now: the ring turns in what was.
    settled: bool,
}

/// A position behind some group, for a later trim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Position.
    pub(crate) at: u64,
    placed: u64,
}

impl Ring {
    /// An empty ring whose next group goes to `at`.
    pub(crate) fn new(len: u64, claimed: u64, at: u64) -> Self {
        Self { len, claimed: claimed.min(len), head: at, tail: at, placed: 0, freed: 0, settled: false }
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    pub(crate) fn claimed(&self) -> u64 {
        self.claimed
    }

    /// Blocks that can be used, now or soon.
    pub(crate) fn size(&self) -> u64 {
        if self.settled { self.claimed } else { self.len }
    }

    /// Nothing can be written ahead for now.
    pub(crate) fn settle_for_claimed(&mut self) {
        self.settled = true;
    }

    /// Blocks in use, waste included.
    pub(crate) fn used(&self) -> u64 {
        self.placed - self.freed
    }

    /// The position behind the last group.
    pub(crate) fn mark(&self) -> Mark {
        Mark { at: self.tail, placed: self.placed }
    }

    /// `more` blocks were written ahead.
    pub(crate) fn claim(&mut self, more: u64) {
        self.claimed = (self.claimed + more).min(self.len);
        self.settled = false;
    }

    /// Takes `n` blocks in one piece. None if there is no room now.
    pub(crate) fn place(&mut self, n: u64) -> Option<u64> {
        let wrapped = self.tail < self.head || (self.tail == self.head && self.used() > 0);
        if wrapped {
            return (self.tail + n < self.head).then(|| self.take(self.tail, n, 0));
        }
        if self.tail + n <= self.claimed {
            return Some(self.take(self.tail, n, 0));
        }
        // Rather wait for more to be written ahead than leave room unused for a whole lap.
        let waste = self.claimed.saturating_sub(self.tail);
        (self.claimed == self.size() && n < self.head).then(|| self.take(0, n, waste))
    }

    fn take(&mut self, at: u64, n: u64, waste: u64) -> u64 {
        self.tail = at + n;
        self.placed += n + waste;
        at
    }

    /// Replay found a group of `n` blocks at `at`.
    pub(crate) fn found(&mut self, at: u64, n: u64) {
        let waste = if at == self.tail { 0 } else { self.claimed.max(self.tail) - self.tail };
        self.take(at, n, waste);
        self.claimed = self.claimed.max(self.tail).min(self.len);
    }

    /// What is before `mark` is not needed any more.
    pub(crate) fn trim(&mut self, mark: Mark) {
        assert!(mark.placed >= self.freed && mark.placed <= self.placed);
        self.freed = mark.placed;
        self.head = mark.at;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    #[test]
    fn groups_never_overlap_what_is_needed() {
        let mut x = 7u64;
        let mut next = |n: u64| {
            x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (x >> 33) % n
        };
        for _ in 0..100 {
            let mut ring = Ring::new(100, 30, next(30));
            let mut live: VecDeque<(u64, u64, Mark)> = VecDeque::new();
            let mut placed = 0;
            for _ in 0..500 {
                if let Some(at) = { Some(1 + next(20)).and_then(|n| ring.place(n).map(|at| (at, n))) } {
                    let (at, n) = at;
                    assert!(at + n <= ring.claimed());
                    assert!(live.iter().all(|(a, m, _)| at + n <= *a || a + m <= at));
                    live.push_back((at, n, ring.mark()));
                    placed += 1;
                }
                if next(3) == 0 {
                    let n = next(live.len() as u64 + 1) as usize;
                    if let Some((_, _, mark)) = live.drain(..n).next_back() {
                        ring.trim(mark);
                    }
                }
                ring.claim(next(3));
            }
            assert!(placed > 100);
        }
    }
}
