//! The store under an OSD, as the OSD drives it.

use node::{DiskDone, Mono, Now, Outputs};
use objectstore::ObjectStore;
use objectstore::memory::MemStore;

/// Progress of a store towards being usable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// It still reads its disk.
    Opening,
    /// It serves.
    Ready,
    /// It cannot be opened, or has stopped after a failure; the text says why.
    Failed(String),
}

/// Counters of a store since it was opened, and its memory.
#[derive(Clone, Debug, Default)]
pub struct Counted {
    /// Its counters.
    pub counters: store::Counters,
    /// Its memory.
    pub memory: store::Memory,
}

/// A store with the disk side that its OSD drives.
pub trait Backend: ObjectStore {
    /// A disk request ended.
    fn disk_done(&mut self, now: Now, done: DiskDone);
    /// Ends a round: gives out disk requests.
    fn turn(&mut self, now: Now, out: &mut Outputs);
    /// Returns when `turn` must be called at the latest.
    fn deadline(&self) -> Mono;
    /// Returns whether it serves.
    fn readiness(&self) -> Readiness;
    /// Returns why nothing can be written although it serves, if that is so.
    fn impairment(&self) -> Option<String> {
        None
    }
    /// Begins a clean stop: everything submitted becomes durable.
    fn begin_stop(&mut self);
    /// Returns true if a clean stop is complete.
    fn stopped(&self) -> bool;
    /// Returns why it does not come to its end, if that is known.
    fn hindrance(&self) -> Option<String> {
        None
    }
    /// Returns what kind of store it is, in a word.
    fn kind(&self) -> &'static str;
    /// Returns what it counted; nothing of a store that does not count.
    fn counted(&self) -> Option<Counted> {
        None
    }
    /// Bytes of what is kept in memory only to be faster.
    fn cached(&self) -> usize {
        0
    }
    /// Forgets that.
    fn drop_caches(&mut self) {}
    /// From now on it may keep so many bytes in memory.
    fn set_memory(&mut self, _bytes: u64) {}
    /// Objects that lie scattered are written again in one piece, in the background, or not.
    fn set_defragment(&mut self, _on: bool) {}
    /// Says what does not hold of the store, if something does not. `thorough`: at a price that grows with the disk.
    ///
    /// # Errors
    /// The sentence.
    #[cfg(feature = "sim")]
    fn self_check(&self, _thorough: bool) -> Result<(), String> {
        Ok(())
    }
    /// Parts of objects that were brought together since the store was opened.
    #[cfg(feature = "sim")]
    fn moved_parts(&self) -> u64 {
        0
    }
    /// Begins to write what changed lately into the index, as it would by itself later. False if there is nothing to
    /// write.
    fn compact(&mut self) -> bool {
        false
    }
}

/// Nothing survives; for tests and for measuring everything above the disk.
impl Backend for MemStore {
    fn disk_done(&mut self, _now: Now, _done: DiskDone) {}
    fn turn(&mut self, _now: Now, _out: &mut Outputs) {}
    fn deadline(&self) -> Mono {
        Mono::NEVER
    }
    fn readiness(&self) -> Readiness {
        Readiness::Ready
    }
    fn begin_stop(&mut self) {}
    fn stopped(&self) -> bool {
        self.uncommitted() == 0
    }
    fn kind(&self) -> &'static str {
        "memory"
    }
}

impl Backend for store::Store {
    fn disk_done(&mut self, now: Now, done: DiskDone) {
        store::Store::disk_done(self, now, done);
    }
    fn turn(&mut self, now: Now, out: &mut Outputs) {
        store::Store::turn(self, now, out);
    }
    fn deadline(&self) -> Mono {
        store::Store::deadline(self)
    }
    fn readiness(&self) -> Readiness {
        match (self.open_error(), self.failure()) {
            (Some(error), _) => Readiness::Failed(error.to_string()),
            (None, Some(failure)) => Readiness::Failed(failure.to_owned()),
            (None, None) if self.ready() => Readiness::Ready,
            (None, None) => Readiness::Opening,
        }
    }
    fn impairment(&self) -> Option<String> {
        store::Store::impairment(self).map(str::to_owned)
    }
    fn begin_stop(&mut self) {
        store::Store::begin_stop(self);
    }
    fn stopped(&self) -> bool {
        store::Store::stopped(self)
    }
    fn hindrance(&self) -> Option<String> {
        store::Store::hindrance(self)
    }
    fn cached(&self) -> usize {
        self.memory().blocks + self.memory().pages
    }
    fn drop_caches(&mut self) {
        store::Store::drop_caches(self);
    }
    fn set_memory(&mut self, bytes: u64) {
        store::Store::set_memory(self, bytes);
    }
    fn set_defragment(&mut self, on: bool) {
        store::Store::set_defragment(self, on);
    }
    fn compact(&mut self) -> bool {
        store::Store::compact(self)
    }
    #[cfg(feature = "sim")]
    fn self_check(&self, thorough: bool) -> Result<(), String> {
        store::Store::self_check(self, thorough)
    }
    #[cfg(feature = "sim")]
    fn moved_parts(&self) -> u64 {
        store::Store::moved_parts(self)
    }
    fn kind(&self) -> &'static str {
        "disk"
    }
    fn counted(&self) -> Option<Counted> {
        Some(Counted { counters: store::Store::counters(self), memory: self.memory() })
    }
}
