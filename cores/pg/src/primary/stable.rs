//! Which changes of a group of shards can never be undone any more, and how the other copies hear of it.
//!
//! A change is *stable* once it is durable at all copies that serve: later intervals hear k of those, and so count it. When a
//! group begins to serve, all that it took up is stable, since all copies took it up. (While it has too few members to serve,
//! it is not: no later interval asks who was in this one.)
//!
//! What is stable goes with the next body, and each copy drops what it kept to undo it ([`crate::core::kept`]). If there is no
//! body for a while, one that says nothing else goes.
//!
//! *Data and owner.* [`Stable`] belongs to the primary, in one interval. In each interval the copies are told anew: one that was
//! away keeps what the others dropped long ago.

use super::Primary;
use super::commit::Pending;
use crate::api::Ctx;
use crate::body::Body;
use crate::core::Core;
use node::Mono;
use std::time::Duration;
use types::EVersion;

/// After this, copies hear what is stable though nothing else happens.
const IDLE: Duration = Duration::from_millis(250);

/// Version up to which changes are stable.
#[derive(Default)]
pub(crate) struct Stable {
    version: EVersion,
    /// Version that the copies were told last.
    told: EVersion,
    /// The group has shards, and serves.
    serves: bool,
    /// Time when the copies are told, if nothing tells them before.
    due: Option<Mono>,
}

impl Stable {
    pub(crate) fn deadline(&self) -> Mono {
        self.due.unwrap_or(Mono::NEVER)
    }

    /// A change is durable at all copies that serve, and all before it are.
    pub(crate) fn released(&mut self, pending: &Pending) {
        if pending.first.is_some() {
            self.version = self.version.max(pending.version);
        }
    }

    /// Returns true if a change can never be undone any more.
    pub(crate) fn reaches(&self, version: EVersion) -> bool {
        version <= self.version
    }

    /// The group begins to serve: all copies took up its log.
    pub(crate) fn begin(&mut self, core: &Core, now: Mono) {
        if !core.scheme.is_whole() {
            (self.version, self.serves) = (core.info.last_update, true);
            self.plan(now);
        }
    }

    /// Plans to tell the copies what is stable, if they do not know it.
    pub(crate) fn plan(&mut self, now: Mono) {
        if self.serves && self.version > self.told {
            self.due.get_or_insert(now.plus(IDLE));
        }
    }

    /// Lets a body tell what is stable.
    pub(crate) fn note(&mut self, body: &mut Body) {
        if self.serves {
            if self.version > self.told {
                (body.stable, self.told) = (self.version, self.version);
            }
            self.due = None;
        }
    }

    /// A mistake to be found: all that was written passes for stable.
    #[cfg(feature = "sim")]
    pub(crate) fn err(&mut self, head: EVersion) {
        self.version = head;
    }

    /// Returns true if it is time to tell the copies.
    fn is_due(&mut self, now: Mono) -> bool {
        self.due.take_if(|due| *due <= now).is_some() && self.version > self.told
    }
}

impl Primary {
    /// Tells the copies what is stable, once it is time.
    pub(crate) fn tell_stable(&mut self, core: &mut Core, ctx: &mut Ctx<'_>) {
        if self.stable.is_due(ctx.now.mono) {
            self.change_unlogged(core, ctx, Body::default());
        }
    }
}
