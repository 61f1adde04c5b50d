//! A store whose index cannot be written anew, because a page that a checkpoint must merge is damaged.
//!
//! The damage may be one of reading only, so the page is read again a few times at once, and again and again later. While it stays: what
//! was acknowledged is durable in the journal and readable, everything that the damaged page does not hold can be read, and new transactions
//! are refused, since there would be no way to get them out of the journal. So an operator can copy everything out that is not lost.

use crate::fetch::{Held, Owner};
use crate::store::Store;
use node::{Level, Mono};
use objectstore::Damage;
use std::time::Duration;

/// Until it is tried again after that.
const AGAIN: Duration = Duration::from_secs(30);

/// What keeps a store from writing.
#[derive(Debug)]
pub(crate) struct Impaired {
    /// For people.
    pub(crate) why: String,
    /// When the checkpoint tries once more.
    again: Mono,
}

impl Store {
    /// Why nothing can be written although everything intact can be read, if that is so.
    pub fn impairment(&self) -> Option<&str> {
        self.impaired.as_ref().map(|i| &*i.why)
    }

    /// A checkpoint found a page damaged, however often it read it.
    pub(crate) fn checkpoint_hurt(&mut self, damage: &Damage) {
        // Read anew from the disk, whatever memory says.
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

    /// Whether a checkpoint must wait because something that it needs seems damaged.
    pub(crate) fn checkpoint_rests(&self) -> bool {
        self.rest_ends() != Mono::NEVER
    }

    /// When it tries again.
    pub(crate) fn rest_ends(&self) -> Mono {
        let ends = self.impaired.as_ref().map(|i| i.again).max(self.rests_until);
        ends.filter(|at| *at > self.now).unwrap_or(Mono::NEVER)
    }

    /// Whether a checkpoint cannot read what it needs: that stays in the journal.
    pub(crate) fn checkpoint_hampered(&self) -> bool {
        self.impaired.is_some() || self.rests_until.is_some()
    }

    /// A checkpoint came to its end: the damage was none.
    pub(crate) fn unimpaired(&mut self) {
        if self.impaired.take().is_some() {
            self.log.push((Level::Info, "the page that seemed damaged can be read: writes go on".into()));
        }
    }
}
