//! An impaired store serves reads and takes no writes: a checkpoint must merge a page of the index, and the page is
//! damaged.
//!
//! The fault may be one of reading only. So the page is read again a few times at once, and then again and again.
//! Meanwhile all that was acknowledged is durable in the journal and readable, and so is everything outside of the
//! damaged page. New transactions are refused, because nothing could take them out of the journal. An operator can copy
//! out everything that is not lost.

use crate::fetch::{Held, Owner};
use crate::store::Store;
use node::{Level, Mono};
use objectstore::Damage;
use std::time::Duration;

/// Wait until the page is read again.
const AGAIN: Duration = Duration::from_secs(30);

/// What keeps a store from writing.
#[derive(Debug)]
pub(crate) struct Impaired {
    /// The reason, as a sentence for people.
    pub(crate) why: String,
    /// When the checkpoint tries once more.
    again: Mono,
}

impl Store {
    /// The reason why the store takes no writes, if it takes none. The OSD reports it as `OSD_INDEX_DAMAGED`.
    pub fn impairment(&self) -> Option<&str> {
        self.impaired.as_ref().map(|i| &*i.why)
    }

    /// Notes that a checkpoint found a page damaged, however often it read it.
    pub(crate) fn checkpoint_hurt(&mut self, damage: &Damage) {
        // The page is read anew from the disk, whatever memory says.
        self.pages.forget(damage.offset / crate::block::BLOCK as u64);
        self.holds.insert(Owner::Checkpoint, Held::default());
        let why = format!(
            "{} at byte {} of the data disk is damaged: checksum {:08x} expected, {:08x} found; what it does not hold can be read, and nothing can be written",
            damage.what, damage.offset, damage.expected, damage.found
        );
        if self.impaired.as_ref().is_none_or(|i| i.why != why) {
            self.log.push((Level::Error, why.clone()));
        }
        self.impaired = Some(Impaired { why, again: self.now.plus(AGAIN) });
    }

    /// Says whether the checkpoint must wait because something that it needs seems damaged.
    pub(crate) fn checkpoint_rests(&self) -> bool {
        self.rest_ends() != Mono::NEVER
    }

    /// When the checkpoint tries again.
    pub(crate) fn rest_ends(&self) -> Mono {
        let ends = self.impaired.as_ref().map(|i| i.again).max(self.rests_until);
        ends.filter(|at| *at > self.now).unwrap_or(Mono::NEVER)
    }

    /// Says whether the checkpoint cannot read what it needs. Records stay in the journal then.
    pub(crate) fn checkpoint_hampered(&self) -> bool {
        self.impaired.is_some() || self.rests_until.is_some()
    }

    /// Notes that a checkpoint has ended well: the damage is gone.
    pub(crate) fn unimpaired(&mut self) {
        if self.impaired.take().is_some() {
            self.log.push((Level::Info, "the page that seemed damaged can be read: writes go on".into()));
        }
    }
}
