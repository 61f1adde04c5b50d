//! Which changes of a group of shards can never be undone any more, and how the other copies hear of it.
//!
//! A change is *stable* once it is durable at all copies that serve: later intervals hear k of those, and so count it. When a
//! group begins to serve, all that it took up is stable, since all copies took it up. (While it has too few members to serve,
//! it is not: no later interval asks who was in this one.)
//!
//! What is stable goes with the next body, and each copy drops what it kept to undo it ([`crate::core::kept`]). If there is no
//! body for a while, one that says nothing else goes.
//!
//! *Data and owner.* [`Stable`] belongs to the primary, in one interval. What the copies were told last is in their infos.

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

/// What is stable.
#[derive(Default)]
pub(crate) struct Stable {
    version: EVersion,
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
            self.plan(core, now);
        }
    }

    /// Plans to tell the copies what is stable, if they do not know it.
    pub(crate) fn plan(&mut self, core: &Core, now: Mono) {
        if self.serves && self.version > core.info.stable {
            self.due.get_or_insert(now.plus(IDLE));
        }
    }

    /// Lets a body tell what is stable.
    pub(crate) fn note(&mut self, core: &Core, body: &mut Body) {
        if self.serves {
            let stable = self.version;
            #[cfg(feature = "sim")]
            let stable =
                if core.mistake == Some(crate::selfcheck::Mistake::StableEarly) { core.info.last_update } else { stable };
            if stable > core.info.stable {
                body.stable = stable;
            }
            self.due = None;
        }
    }

    /// Returns true if it is time to tell the copies.
    fn is_due(&mut self, core: &Core, now: Mono) -> bool {
        self.due.take_if(|due| *due <= now).is_some() && self.version > core.info.stable
    }
}

impl Primary {
    /// Tells the copies what is stable, once it is time.
    pub(crate) fn tell_stable(&mut self, core: &mut Core, ctx: &mut Ctx<'_>) {
        if self.stable.is_due(core, ctx.now.mono) {
            self.change_unlogged(core, ctx, Body::default());
        }
    }
}
