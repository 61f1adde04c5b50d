//! An impaired store serves reads and takes no writes: a checkpoint must merge a page of the index, and the page is
//! damaged.
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

    /// Says whether the checkpoint must wait because something that it needs seems damaged.
    pub(crate) fn checkpoint_rests(&self) -> bool {
        self.doubts.rest_ends(self.now).is_some()
    }

    /// When the checkpoint tries again.
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
