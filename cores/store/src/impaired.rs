//! An impaired store serves reads and takes no writes: a checkpoint must merge a page of the index, or a transaction
//! that was taken on needs one, and the page is damaged.
//!
//! Such a transaction waits: it was promised, and nothing of it is done yet. So do those of its scope behind it.
//!
//! The fault may be one of reading only. So the page is read again a few times at once, and then again and again.
//! Meanwhile all that was acknowledged is durable in the journal and readable, and so is everything outside of the
//! damaged page. New transactions are refused, because nothing could take them out of the journal. An operator can copy
//! out everything that is not lost.

use crate::held::Held;
use crate::store::Store;
use crate::wish::Owner;
use node::{Level, Mono};
use objectstore::Damage;
use std::time::Duration;

/// Wait until the page is read again.
const AGAIN: Duration = Duration::from_secs(30);

impl Store {
    /// The reason why the store takes no writes, if it takes none. The OSD reports it as `OSD_INDEX_DAMAGED`.
    pub fn impairment(&self) -> Option<&str> {
        self.doubts.impairment()
    }

    /// Notes that a checkpoint found a page damaged, however often it read it.
    pub(crate) fn checkpoint_hurt(&mut self, damage: &Damage) {
        // The page is read anew from the disk, whatever memory says.
        self.caches.pages.forget(damage.offset / crate::block::BLOCK as u64);
        self.holds.insert(Owner::Checkpoint, Held::default());
        let why = format!(
            "{} at byte {} of the data disk is damaged: checksum {:08x} expected, {:08x} found; what it does not hold can be read, and nothing can be written",
            damage.what, damage.offset, damage.expected, damage.found
        );
        if self.doubts.impair(&why, self.now.plus(AGAIN)) {
            self.log.push((Level::Error, why));
        }
    }

    /// Notes that a transaction that was taken on needs a damaged page, however often that was read.
    pub(crate) fn transaction_hurt(&mut self, damage: &Damage) {
        self.caches.pages.forget(damage.offset / crate::block::BLOCK as u64);
        let why = format!(
            "{} at byte {} of the data disk is damaged, and a change needs it: checksum {:08x} expected, {:08x} found; what it does not hold can be read, and nothing can be written",
            damage.what, damage.offset, damage.expected, damage.found
        );
        if self.doubts.stick(&why, self.now.plus(AGAIN)) {
            self.log.push((Level::Error, why));
        }
    }

    /// Tries transactions again that need a damaged page, when it is time.
    pub(crate) fn try_hurt_again(&mut self) {
        if self.doubts.unsticks_at().is_none_or(|at| at > self.now) {
            return;
        }
        for stalled in self.waiting.hurt() {
            (stalled.hurt, stalled.runnable) = (false, true);
            // All that it needs is read anew.
            self.holds.insert(Owner::Stalled(stalled.id), Held::default());
        }
        // The next verdict says it again.
        self.doubts.look_again();
    }

    /// Notes that no transaction needs a damaged page any more, if that is so.
    pub(crate) fn unstuck(&mut self) {
        if self.doubts.unsticks_at().is_some() && self.waiting.is_empty() && self.doubts.unstick() {
            self.log.push((Level::Info, "the page that a change needs can be read: writes go on".into()));
        }
    }

    /// Says whether the checkpoint must wait because something that it needs seems damaged.
    pub(crate) fn checkpoint_rests(&self) -> bool {
        self.doubts.rest_ends(self.now).is_some()
    }

    /// Returns when the checkpoint tries again.
    pub(crate) fn rest_ends(&self) -> Mono {
        self.doubts.rest_ends(self.now).unwrap_or(Mono::NEVER)
    }

    /// Notes that a checkpoint has ended well: the damage is gone.
    pub(crate) fn unimpaired(&mut self) {
        if self.doubts.cure() {
            self.log.push((Level::Info, "the page that seemed damaged can be read: writes go on".into()));
        }
    }
}
