//! How much memory an OSD takes. Its driver gives it a share of what there is ([`node::Input::Memory`]); the ceiling of its start and the options
//! `osd_memory_target` and `osd_memory_target_autotune` bound that. What is in force bounds the store, the messages on their way, the buffers that the thread
//! keeps, and the groups' logs.

use crate::{Options, Osd};
use node::{Level, MemoryBound, MemoryShare, MemoryWish, Outputs};

/// Name of the option that shows what is in force.
pub(crate) const TARGET: &str = "osd_memory_target";
/// Bytes that an OSD takes however much it was given: program, maps, logs of groups. Of little memory it takes less, since logs are shorter.
const FIXED: u64 = 96 << 20;
/// Buffers that a thread keeps for the next taker, in bytes: from the first on an eighth of the memory is allowed, from the second on a
/// thirty-second.
const KEPT: (usize, usize) = (4 << 20, 24 << 20);
/// Log entries, and as many duplicate entries, of all groups together: about 100 bytes each in memory.
const LOG_ENTRIES: u64 = 150_000;
/// Bytes of memory for each of them at least.
const PER_LOG_ENTRY: u64 = 1700;

/// Returns what the store of an OSD takes of its memory, in bytes. The rest is for requests and answers on their way
/// (a quarter), and for what an OSD takes however much it was given.
pub fn store_share(memory: u64) -> u64 {
    memory / 4 * 3 - FIXED.min(memory / 8 * 3)
}

/// Returns what a messenger may hold, given the OSD's memory: operations that were received, and answers that clients
/// do not take.
pub(crate) fn limits(limits: msgr::Limits, memory: u64) -> msgr::Limits {
    let part = |n: u64| (memory / n).clamp(8 << 20, 512 << 20) as usize;
    // One client may be owed an answer of 256 MiB, however little memory there is.
    let send_most = (memory / 4).clamp(320 << 20, 2 << 30) as usize;
    msgr::Limits { clients: part(8), session: part(8), send_pause: part(32), send_total: part(8), send_most, ..limits }
}

/// Buffers that the thread keeps.
fn kept(memory: u64) -> usize {
    let memory = memory as usize;
    (memory / 8).clamp(KEPT.0, KEPT.1).max(memory / 32)
}

/// Log entries of all groups together.
pub(crate) fn log_entries(memory: u64) -> usize {
    (memory / PER_LOG_ENTRY).min(LOG_ENTRIES) as usize
}

/// Memory that is given, and what is in force.
#[derive(Debug)]
pub(crate) struct Memory {
    share: MemoryShare,
    ceiling: Option<u64>,
    pub(crate) in_force: u64,
    /// Source of the value, as `ceph config show` names sources.
    pub(crate) source: &'static str,
    told: MemoryWish,
    /// Value that the log was told last.
    logged: u64,
}

impl Memory {
    pub(crate) fn new(memory: u64, ceiling: Option<u64>) -> Self {
        let share = MemoryShare { bytes: memory, bound: MemoryBound::Wish };
        let told = MemoryWish { most: ceiling.unwrap_or(MemoryWish::MOST), fixed: false };
        let mut new = Self { share, ceiling, in_force: memory, source: "default", told, logged: memory };
        new.source = new.decide(&Options::default(), "default").1;
        new
    }

    /// The most that it may take, and who says so. `asked`: where the option's value comes from.
    fn most(&self, options: &Options, asked: &'static str) -> (u64, &'static str) {
        let given = options.memory_target.map(|bytes| (bytes.max(MemoryWish::LEAST), asked));
        let ceiling = self.ceiling.map(|bytes| (bytes, "cmdline"));
        // Of two that are equal, the option is named.
        given.into_iter().chain(ceiling).min_by_key(|(bytes, _)| *bytes).unwrap_or((MemoryWish::MOST, "default"))
    }

    fn decide(&self, options: &Options, asked: &'static str) -> (u64, &'static str) {
        let (most, source) = self.most(options, asked);
        match self.share.bound {
            bound if options.memory_found && self.share.bytes < most => (self.share.bytes, bound.name()),
            _ => (most, source),
        }
    }

    fn wish(&self, options: &Options) -> MemoryWish {
        MemoryWish { most: self.most(options, "").0, fixed: !options.memory_found }
    }

    /// Returns what to tell the driver, if that is new.
    pub(crate) fn new_wish(&mut self, options: &Options) -> Option<MemoryWish> {
        let wish = self.wish(options);
        (std::mem::replace(&mut self.told, wish) != wish).then_some(wish)
    }
}

impl Osd {
    /// The driver has so much for this OSD.
    pub(crate) fn take_memory(&mut self, share: MemoryShare, out: &mut Outputs) {
        self.memory.share = share;
        self.apply_memory();
        let (now, logged) = (self.memory.in_force, self.memory.logged);
        if now.abs_diff(logged) > logged / 4 {
            self.memory.logged = now;
            out.log(Level::Info, "osd", format!("memory: {} MiB now ({})", now >> 20, self.memory.source));
        }
    }

    /// Puts into force what share, ceiling and options say.
    pub(crate) fn apply_memory(&mut self) {
        let asked = if self.local_options.contains_key(TARGET) { "override" } else { "mon" };
        let (bytes, source) = self.memory.decide(&self.options, asked);
        self.memory.source = source;
        if std::mem::replace(&mut self.memory.in_force, bytes) == bytes {
            return;
        }
        self.store.set_memory(store_share(bytes));
        let old = self.msgr.config().limits.clone();
        self.msgr.set_limits(limits(old, bytes));
        node::keep_buffers(kept(bytes));
        self.scale_logs();
    }

    /// The thread is this OSD's from now on.
    pub(crate) fn begin_with_memory(&self) {
        node::keep_buffers(kept(self.memory.in_force));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_force(memory: &Memory, options: &[(&str, &str)]) -> (u64, &'static str) {
        let given = options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let (bytes, source) = memory.decide(&Options::from_config(&given).0, "mon");
        (bytes >> 20, source)
    }

    #[test]
    fn the_least_of_share_option_and_ceiling_counts() {
        let (target, tune) = ("osd_memory_target", "osd_memory_target_autotune");
        let mut memory = Memory::new(MemoryWish::MOST, None);
        assert_eq!(in_force(&memory, &[]), (4096, "default"));
        assert_eq!(in_force(&memory, &[(target, "1G")]), (1024, "mon"));
        memory.share = MemoryShare { bytes: 700 << 20, bound: MemoryBound::Group };
        assert_eq!(in_force(&memory, &[]), (700, "cgroup"));
        assert_eq!(in_force(&memory, &[(target, "1G")]), (700, "cgroup"));
        assert_eq!(in_force(&memory, &[(target, "1G"), (tune, "false")]), (1024, "mon"));
        assert_eq!(
            (in_force(&memory, &[(tune, "false")]), in_force(&memory, &[(target, "1")])),
            ((4096, "default"), (64, "mon"))
        );
        memory.ceiling = Some(256 << 20);
        assert_eq!(in_force(&memory, &[]), (256, "cmdline"));
        assert_eq!(
            (in_force(&memory, &[(target, "1G"), (tune, "0")]), in_force(&memory, &[(target, "128M")])),
            ((256, "cmdline"), (128, "mon"))
        );
        memory.share = MemoryShare { bytes: 100 << 20, bound: MemoryBound::Host };
        assert_eq!(in_force(&memory, &[]), (100, "host"));
        assert_eq!(Memory::new(16 << 20, Some(16 << 20)).in_force, 16 << 20);
    }

    #[test]
    fn a_wish_is_told_when_it_changes() {
        let mut memory = Memory::new(MemoryWish::MOST, None);
        let mut options = Options::default();
        assert_eq!(memory.new_wish(&options), None);
        (options.memory_target, options.memory_found) = (Some(8 << 30), false);
        assert_eq!(memory.new_wish(&options), Some(MemoryWish { most: 8 << 30, fixed: true }));
        assert_eq!(memory.new_wish(&options), None);
    }

    #[test]
    fn parts_grow_with_the_whole_and_stay_below_it() {
        let mut before = 0;
        for mib in [64, 100, 150, 256, 512, 1024, 4096, 8192] {
            let memory = mib << 20;
            let parts = store_share(memory) + limits(msgr::Limits::default(), memory).clients as u64 + kept(memory) as u64;
            assert!(parts > before && parts < memory, "{mib}: {parts}");
            before = parts;
        }
        assert_eq!((store_share(256 << 20), kept(256 << 20), log_entries(256 << 20)), (96 << 20, 24 << 20, 150_000));
        assert_eq!((kept(4 << 30), log_entries(64 << 20)), (128 << 20, 39_475));
    }
}
