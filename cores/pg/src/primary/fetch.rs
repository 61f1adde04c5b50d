//! Copies from other objects: portion after portion is asked for through the OSD; what does not fit one portion is
//! collected in the store until the copy is whole.
//!
//! Each portion is a body without entries: all copies collect it, each in its own store. The last body makes the object of
//! what was collected, at each copy, and is acknowledged after all bodies before it. What is left of a copy that did not
//! come to its end is removed at each copy when the interval ends, or when the copy is loaded ([`Pg::forget_collected`]).

use crate::api::{Ctx, Effect};
use crate::body::Body;
use crate::core::Core;
use crate::object::{removal, staging_pool};
use crate::ops::portion::{Copied, Copying, Portion, portion_changes};
use crate::ops::run::CopyWish;
use crate::primary::Primary;
use crate::primary::lanes::Work;
use bytes::Bytes;
use messages::osd::OsdOpReply;
use objectstore::{Hold, ObjectChange, ObjectChanges};
use types::{Errno, HObject, ObjectId, SnapId};

impl Primary {
    /// Begins to read the source that the job under `hold` misses.
    pub(crate) fn begin_copy(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, hold: Hold, wish: CopyWish) {
        self.ask_for_portion(core, ctx, Copying::new(wish, hold));
    }

    fn ask_for_portion(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, copying: Copying) {
        // Fetch ids share the holds' numbers.
        let id = core.next_hold(ctx).0;
        ctx.out.push(Effect::Fetch { id, op: Box::new(copying.request(ctx.config.sizes.portion)) });
        self.copying.insert(id, copying);
    }

    /// Takes the reply to [`Effect::Fetch`], or why there is none.
    pub(crate) fn fetched(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, id: u64, result: Result<OsdOpReply, Errno>) {
        let Some(copying) = self.copying.remove(&id) else { return };
        match portion(result) {
            Ok(portion) => self.take_portion(core, ctx, copying, portion),
            Err(result) => self.end_copy(core, ctx, copying, Err(result)),
        }
    }

    fn take_portion(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, mut copying: Copying, portion: Portion) {
        let fits = copying.staged.is_none() && !portion.more;
        if !fits && !self.stage(core, ctx, &mut copying, &portion) {
            return self.end_copy(core, ctx, copying, Err(Errno::ENOSPC.wire()));
        }
        copying.advance(&portion);
        if portion.more {
            self.ask_for_portion(core, ctx, copying);
        } else {
            let hold = (copying.hold, copying.wish.index);
            let copied = copying.whole(portion);
            self.copy_done(core, ctx, hold, Ok(copied));
        }
    }

    /// Writes a portion where the copy is collected, at all copies of the group. Returns false if the store has no room.
    fn stage(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, copying: &mut Copying, portion: &Portion) -> bool {
        let Some(job) = self.jobs.get(&copying.hold) else { return false };
        let first = copying.staged.is_none();
        let (pool, hash, shard) = (staging_pool(core.id.pg.pool), job.head.hash, core.id.shard);
        let object = copying.staged.get_or_insert_with(|| {
            let name = format!("copy.{:x}.{}", copying.hold.0, copying.wish.index).into();
            let (nspace, key, snap) = (Bytes::new(), Bytes::new(), SnapId::HEAD);
            ObjectId::of_shard(HObject { pool, hash, nspace, key, name, snap, max: false }, shard)
        });
        let object = object.clone();
        let mut changes = portion_changes(portion, copying.offset);
        if first {
            changes.insert(0, ObjectChange::Remove);
        }
        let objects = vec![ObjectChanges { object, changes }];
        #[cfg(feature = "sim")]
        if core.mistake == Some(crate::selfcheck::Mistake::CollectAlone) {
            return core.submit_unlogged(ctx, objects, Vec::new()).is_ok();
        }
        self.change_unlogged(core, ctx, Body { objects, ..Body::default() })
    }

    fn end_copy(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, copying: Copying, result: Result<Copied, i32>) {
        if let Some(staged) = copying.staged {
            // If that is refused, the end of the interval cleans up.
            self.change_unlogged(core, ctx, Body { objects: vec![removal(staged)], ..Body::default() });
        }
        self.copy_done(core, ctx, (copying.hold, copying.wish.index), result);
    }

    /// Removes what was collected for a job that is over, at all copies, unless an object was made of it.
    pub(crate) fn discard_collected(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, collected: Vec<ObjectId>) {
        let left = collected.into_iter().filter(|object| core.collected.contains(object));
        let objects: Vec<ObjectChanges> = left.map(removal).collect();
        if !objects.is_empty() {
            // If that is refused, the end of the interval cleans up.
            self.change_unlogged(core, ctx, Body { objects, ..Body::default() });
        }
    }

    fn copy_done(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, (hold, index): (Hold, usize), result: Result<Copied, i32>) {
        let Some(mut job) = self.jobs.remove(&hold) else { return };
        debug_assert!(matches!(job.work, Work::Client(_)));
        job.copies.insert(index, result);
        let head = job.head.clone();
        self.attempt(core, ctx, job);
        self.pump(core, ctx, &head);
    }
}

/// The portion in a reply, or the result that stands for its failure.
fn portion(result: Result<OsdOpReply, Errno>) -> Result<Portion, i32> {
    let reply = result.map_err(Errno::wire)?;
    if reply.result < 0 {
        return Err(reply.result);
    }
    let output = reply.ops.last().map(|op| op.output.contiguous()).unwrap_or_default();
    Portion::decode(&output).map_err(|_| Errno::EIO.wire())
}
