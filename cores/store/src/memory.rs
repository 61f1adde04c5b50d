//! Follows changes of the store's memory while it runs: more counts at once, less step by step, so that nobody waits
//! while much is dropped.
//!
//! What stays when much is dropped lies scattered and holds on to far more memory than it takes. So after a large step
//! down onodes and ranges go altogether (the index has them), and blocks of data are gathered.

use crate::config::Config;
use crate::store::Store;

/// Bytes that are given up, or gathered, in one round: some milliseconds at most.
const STEP: u64 = 8 << 20;

/// How far the store is with giving memory back.
#[derive(Debug)]
pub(crate) struct Giving {
    /// Bytes that the store should have. What it has is [`Config::memory`].
    goal: u64,
    /// Most bytes that it had since entries were last gathered.
    most: u64,
    /// Number of generations of onodes and ranges that are to go.
    sheds: u32,
    /// Whether there is more to do.
    busy: bool,
}

impl Giving {
    pub(crate) fn new(memory: u64) -> Self {
        Self { goal: memory, most: memory, sheds: 0, busy: false }
    }

    /// Says whether the store works on it.
    pub(crate) fn is_busy(&self) -> bool {
        self.busy
    }
}

impl Store {
    /// Sets the memory of caches and the index's delta to `bytes`; at least [`Config::LEAST_MEMORY`] counts. What is
    /// too much goes in the next rounds.
    pub fn set_memory(&mut self, bytes: u64) {
        let goal = bytes.max(Config::LEAST_MEMORY);
        self.giving.goal = goal;
        self.giving.busy |= goal < self.config.memory;
        if goal > self.config.memory {
            self.resize(goal);
        }
        self.giving.most = self.giving.most.max(self.config.memory);
    }

    /// Does one step towards the memory that the store should have.
    pub(crate) fn give_memory_back(&mut self) {
        if !self.giving.busy {
            return;
        }
        if self.caches.let_go_some() {
            return;
        }
        if self.giving.goal < self.config.memory {
            self.resize(self.giving.goal.max(self.config.memory.saturating_sub(STEP)));
            self.begin_to_gather();
        } else if self.giving.sheds > 0 {
            self.giving.sheds -= 1;
            self.caches.shed();
        } else {
            self.giving.busy = self.caches.blocks.gather(STEP as usize);
        }
    }

    fn begin_to_gather(&mut self) {
        if self.config.memory == self.giving.goal && self.giving.goal <= self.giving.most / 4 * 3 {
            self.giving.most = self.giving.goal;
            self.giving.sheds = 2;
            self.caches.blocks.begin_to_gather();
        }
    }

    fn resize(&mut self, memory: u64) {
        self.config.memory = memory;
        self.caches.resize(&self.config.shares());
    }
}
