//! What a call leaves to be done, and where it is done: once, at the end of the call.
//!
//! *Data and owner.* A handler changes what it knows and sets a flag of [`Due`]. [`Primary::settle`] is called after each
//! call of the group and looks at the flags, in one order. A call that made nothing due costs one test.
//!
//! | order | flag | what is done |
//! |---|---|---|
//! | 1 | `release` | what waits for changes that are durable at all members happens |
//! | 2 | `unpark` | jobs that waited for room, or for what was brought, go on |
//! | 3 | `recovery` | recovery looks at its lists in the next turn |
//! | 4 | | the monitors hear that the group is ready to be merged |
//!
//! *Invariant.* No flag is set between two calls.

use super::Primary;
use crate::api::Ctx;
use crate::core::Core;

/// What the call that is under way leaves to be done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Due {
    /// A change may be durable at all members: here, or at a copy, it became durable.
    pub(crate) release: bool,
    /// A copy has room, or an object that was brought is durable here.
    pub(crate) unpark: bool,
    /// Something that recovery looks at has changed.
    pub(crate) recovery: bool,
}

impl Due {
    /// Returns true if nothing is to be done.
    pub(crate) fn is_nothing(self) -> bool {
        self == Self::default()
    }
}

impl Primary {
    /// Does what the call that ends has left to be done. Doing it may leave more.
    pub(crate) fn settle(&mut self, core: &mut Core, ctx: &mut Ctx<'_>) {
        while !self.due.is_nothing() {
            if std::mem::take(&mut self.due.release) {
                self.release_durable(core, ctx);
            }
            if std::mem::take(&mut self.due.unpark) {
                self.unpark(core, ctx);
            }
            if std::mem::take(&mut self.due.recovery) {
                self.plan_recovery(ctx);
            }
        }
        self.tell_ready(core, ctx);
    }
}
