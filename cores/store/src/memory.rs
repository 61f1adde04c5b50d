//! Memory that changes while the store runs: more counts at once, less step by step, so that nobody waits while much is dropped.
//!
//! What stays when much goes lies scattered, and holds on to far more memory than it takes. So after a large step down onodes and ranges go
//! altogether (what they say is in the index), and blocks of data are gathered.

use crate::cache::FEW;
use crate::config::Config;
use crate::store::Store;

/// Bytes less in one round, or gathered in one round: some milliseconds at most.
const STEP: u64 = 8 << 20;

/// How far the store is with giving memory back.
#[derive(Debug)]
pub(crate) struct Giving {
    /// What it should have, in bytes. What it has is [`Config::memory`].
    goal: u64,
    /// The most that it had since what stayed was gathered.
    most: u64,
    /// Generations of onodes and ranges that go.
    sheds: u32,
    /// There is more to do.
    busy: bool,
}

impl Giving {
    pub(crate) fn new(memory: u64) -> Self {
        Self { goal: memory, most: memory, sheds: 0, busy: false }
    }

    /// Whether the store works on it.
    pub(crate) fn is_busy(&self) -> bool {
        self.busy
    }
}

impl Store {
    /// From now on caches and the index's delta have so many bytes; at least [`Config::LEAST_MEMORY`]. What is too much goes in the next rounds.
    pub fn set_memory(&mut self, bytes: u64) {
        let goal = bytes.max(Config::LEAST_MEMORY);
        self.giving.goal = goal;
        self.giving.busy |= goal < self.config.memory;
        if goal > self.config.memory {
            self.resize(goal);
        }
        self.giving.most = self.giving.most.max(self.config.memory);
    }

    /// One step towards what it should have.
    pub(crate) fn give_memory_back(&mut self) {
        if !self.giving.busy {
            return;
        }
        if self.onodes.get_mut().let_go(FEW) | self.ranges.get_mut().let_go(FEW) {
            return;
        }
        if self.giving.goal < self.config.memory {
            self.resize(self.giving.goal.max(self.config.memory.saturating_sub(STEP)));
            self.begin_to_gather();
        } else if self.giving.sheds > 0 {
            self.giving.sheds -= 1;
            self.onodes.get_mut().shed();
            self.ranges.get_mut().shed();
        } else {
            self.giving.busy = self.blocks.gather(STEP as usize);
        }
    }

    fn begin_to_gather(&mut self) {
        if self.config.memory == self.giving.goal && self.giving.goal <= self.giving.most / 4 * 3 {
            self.giving.most = self.giving.goal;
            self.giving.sheds = 2;
            self.blocks.begin_to_gather();
        }
    }

    fn resize(&mut self, memory: u64) {
        self.config.memory = memory;
        let shares = self.config.shares();
        self.pages.resize(shares.pages);
        self.onodes.get_mut().resize(shares.onodes);
        self.ranges.get_mut().resize(shares.ranges);
        self.blocks.resize(shares.blocks, shares.lendable());
        self.lend_unused();
    }
}
