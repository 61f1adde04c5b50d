//! The end of a group: when its pool is deleted, its objects go in steps, then its own keys.

use super::{Pg, Role};
use crate::api::{Ctx, Effect};
use crate::object::bounds;
use crate::object::{self, staging_pool};
use crate::primary::lanes::drop_op;
use bytes::Bytes;
use node::{Level, Mono};
use objectstore::{Hold, MetaChange, Refused, Unread};
use types::ObjectId;

/// How far the removal is.
pub(crate) struct Removal {
    hold: Hold,
    waiting: bool,
    next: Mono,
    /// All objects are gone; the group's keys are going.
    last: bool,
}

impl Removal {
    pub(crate) fn deadline(&self) -> Mono {
        if self.waiting { Mono::NEVER } else { self.next }
    }
}

impl Pg {
    /// Deletes everything, in steps; [`Effect::Removed`] tells the end. Operations are ignored from here on.
    pub fn remove(&mut self, ctx: &mut Ctx<'_>) {
        if matches!(self.role, Role::Removing(_) | Role::Removed) {
            return;
        }
        let readable = !matches!(self.role, Role::Broken | Role::Loading(_));
        if let Role::Uniting(uniting) = &self.role {
            ctx.store.release(uniting.hold());
        }
        self.stop_serving(ctx);
        std::mem::take(&mut self.waiting).iter().for_each(|op| drop_op(ctx, op));
        let hold = self.core.next_hold(ctx);
        self.role = Role::Removing(Box::new(Removal { hold, waiting: false, next: ctx.now.mono, last: false }));
        if readable && !self.core.history.removing {
            self.core.history.removing = true;
            self.core.save(ctx);
        }
        self.step_removal(ctx);
    }

    /// Removes some more, when what was removed before is durable.
    pub(crate) fn step_removal(&mut self, ctx: &mut Ctx<'_>) {
        let Role::Removing(removal) = &mut self.role else { return };
        if !self.core.is_drained() || ctx.now.mono < removal.next {
            return;
        }
        if removal.last {
            self.role = Role::Removed;
            ctx.out.push(Effect::Removed);
            return;
        }
        let (hold, max) = (removal.hold, ctx.config.step_objects);
        let pg_num = self.core.history.pg_num.max(1);
        let (pool, seed) = (self.core.id.pg.pool, self.core.id.pg.seed);
        let found = [pool, staging_pool(pool)].into_iter().try_fold(Vec::<ObjectId>::new(), |mut all, pool| {
            let (from, to) = bounds(pool, seed, pg_num);
            all.extend(ctx.store.list(hold, self.core.id.shard, &from.into(), &to.into(), max)?);
            Ok(all)
        });
        match found {
            Ok(objects) => self.remove_some(ctx, objects),
            Err(Unread::Missing(wish)) => {
                if let Role::Removing(removal) = &mut self.role {
                    removal.waiting = true;
                }
                ctx.store.fetch(hold, wish);
            }
            Err(Unread::Damaged(damage)) => {
                let text = format!("objects cannot be listed for removal: {} at offset {}", damage.what, damage.offset);
                self.core.log_line(ctx, Level::Error, text);
                if let Role::Removing(removal) = &mut self.role {
                    removal.next = Mono::NEVER;
                }
            }
        }
    }

    fn remove_some(&mut self, ctx: &mut Ctx<'_>, objects: Vec<ObjectId>) {
        let Role::Removing(removal) = &mut self.role else { return };
        ctx.store.release(removal.hold);
        removal.waiting = false;
        removal.next = ctx.now.mono.plus(ctx.config.step_pause);
        removal.last = objects.is_empty();
        let meta = match objects.is_empty() {
            true => vec![MetaChange::RemoveRange(Bytes::new(), Bytes::from_static(&[0xff]))],
            false => Vec::new(),
        };
        if self.core.submit_unlogged(ctx, objects.into_iter().map(object::removal).collect(), meta) == Err(Refused::Stopped) {
            self.core.stopped(ctx);
        }
    }
}
