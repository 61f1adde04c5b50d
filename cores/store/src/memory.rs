//! Memory that changes while the store runs: more counts at once, less step by step, so that nobody waits while much is dropped.

use crate::cache::FEW;
use crate::config::Config;
use crate::store::Store;

/// Bytes less in one round: at most so many are dropped in it, which takes some milliseconds if they are single blocks.
const STEP: u64 = 8 << 20;

impl Store {
    /// From now on caches and the index's delta have so many bytes; at least [`Config::LEAST_MEMORY`]. What is too much goes in the next rounds.
    pub fn set_memory(&mut self, bytes: u64) {
        self.memory_goal = bytes.max(Config::LEAST_MEMORY);
        if self.memory_goal > self.config.memory {
            self.resize(self.memory_goal);
        }
    }

    /// Whether it still has more than it should.
    pub(crate) fn memory_changes(&self) -> bool {
        self.memory_goal < self.config.memory
    }

    /// One step towards what it should have.
    pub(crate) fn approach_memory(&mut self) {
        let entries = self.onodes.get_mut().let_go(FEW) | self.ranges.get_mut().let_go(FEW);
        if self.memory_changes() && !entries {
            self.resize(self.memory_goal.max(self.config.memory.saturating_sub(STEP)));
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
