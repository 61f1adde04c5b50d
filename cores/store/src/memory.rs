//! Follows changes of the store's memory while it runs: more counts at once, less step by step, so that nobody waits
//! while much is dropped.
//!
//! What stays when much is dropped lies scattered and holds on to far more memory than it takes. So after a large step
//! down onodes and ranges go altogether (the index has them), and blocks of data are gathered.

use crate::cache::Caches;
use crate::config::Config;

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
    /// True if there is more to do.
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

    /// The store should have `bytes` from now on: more counts at once, less is reached by [`Self::step`].
    pub(crate) fn want(&mut self, bytes: u64, config: &mut Config, caches: &mut Caches) {
        self.goal = bytes.max(Config::LEAST_MEMORY);
        self.busy |= self.goal < config.memory;
        if self.goal > config.memory {
            resize(self.goal, config, caches);
        }
        self.most = self.most.max(config.memory);
    }

    /// Does one step towards the memory that the store should have.
    pub(crate) fn step(&mut self, config: &mut Config, caches: &mut Caches) {
        if !self.busy || caches.let_go_some() {
            return;
        }
        if self.goal < config.memory {
            resize(self.goal.max(config.memory.saturating_sub(STEP)), config, caches);
            self.begin_to_gather(config, caches);
        } else if self.sheds > 0 {
            self.sheds -= 1;
            caches.shed();
        } else {
            self.busy = caches.blocks.gather(STEP as usize);
        }
    }

    fn begin_to_gather(&mut self, config: &Config, caches: &mut Caches) {
        if config.memory == self.goal && self.goal <= self.most / 4 * 3 {
            self.most = self.goal;
            self.sheds = 2;
            caches.blocks.begin_to_gather();
        }
    }
}

fn resize(memory: u64, config: &mut Config, caches: &mut Caches) {
    config.memory = memory;
    caches.resize(&config.shares());
}
