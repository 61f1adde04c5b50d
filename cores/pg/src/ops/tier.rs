//! What clients may ask of cache tiers, on a pool that is none.

use crate::info::CLEAN;
use crate::ops::run::{Exec, Run};
use denc::Encode;

impl Run<'_> {
    /// Returns whether the object was changed since someone said it was not. Objects begin dirty, in every pool.
    pub(super) fn op_is_dirty(&mut self, index: usize) -> Exec<i32> {
        let dirty = self.is_dirty();
        self.delta.rd += 1;
        self.output(index, dirty.to_bytes());
        Ok(0)
    }

    /// One that this vector makes becomes dirty only at its end.
    fn is_dirty(&self) -> bool {
        self.before.exists && self.after.exists && self.after.info.flags & CLEAN == 0
    }

    pub(super) fn op_undirty(&mut self) -> Exec<i32> {
        if self.is_dirty() {
            self.undirty = true;
            self.touched = true;
            self.delta.wr += 1;
        }
        Ok(0)
    }

    /// A change that changes nothing but versions.
    pub(super) fn op_start_sync(&mut self) -> Exec<i32> {
        self.touched = true;
        Ok(0)
    }
}
