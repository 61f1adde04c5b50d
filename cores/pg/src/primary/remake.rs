//! Making shards anew for copies that lack them, here or elsewhere.
//!
//! A shard is nowhere but where it is lacking, so it is not brought as it is: it is made of k others. All copies that lack an
//! object are served together: k shards are read once, whatever is lost.
//!
//! | step | what |
//! |---|---|
//! | record | the object's record and attributes, which are the same on all shards: from here, or from one who has it |
//! | gather | the same places of k shards, through an [eye](crate::scheme::Sight): the own one is read, others are asked |
//! | make | a piece of each shard that is lost |
//! | place | the own piece is carried out here, others go into the streams of their copies |
//!
//! The last three are repeated until the longest shard is done. Order, lanes and windows are those of recovery.
//!
//! *Data and owner.* [`Remake`] belongs to the job that brings the object. What it gathered is with the job's
//! [pieces](crate::pieces::Pieces), and goes with each piece that is made.
//!
//! *Invariant.* The job holds the object's lane, so the record is that of all shards until the last piece is in the streams.

use super::Primary;
use super::lanes::{Job, Work};
use super::members::Members;
use super::recovery::{Stepped, newest_change_of};
use crate::api::Ctx;
use crate::core::Core;
use crate::missing::{is_missing, missing_of};
use crate::object::{Piece, PieceAt};
use crate::pieces::Pieces;
use crate::questions::Subject;
use crate::scheme::Remade;
use bytes::Bytes;
use node::Level;
use objectstore::{ObjectChange, ObjectChanges, Refused, Unread};
use std::collections::{BTreeSet, VecDeque};
use types::{CopyId, HObject, ObjectId, ShardId};

/// An object of which shards are made.
pub(crate) struct Remake {
    record: Bytes,
    attributes: Vec<ObjectChange>,
}

impl Members {
    /// Returns true if enough shards of an object are there, the own one among them if it is. `me`: the copy here.
    fn hold_enough(&self, core: &Core, me: CopyId, object: &HObject) -> bool {
        let mut holders = self.shards_of(object);
        holders.extend((!core.missing.contains_key(object)).then_some(me));
        core.scheme.can_make(&holders)
    }

    /// Heads and clones of an object of which some copy lacks its shard, this one too.
    fn lacking_of(&self, core: &Core, head: &HObject) -> BTreeSet<HObject> {
        let lists = self.all.values().map(|member| &member.missing);
        let elsewhere = lists.flat_map(|list| missing_of(list, head).cloned().collect::<Vec<_>>());
        missing_of(&core.missing, head).cloned().chain(elsewhere).collect()
    }

    /// Returns true if some shard of this head, or of one of its clones, is lacking, and there are too few to make it of. Never of
    /// copies: what one lacks is brought from another one, or missing here.
    pub(crate) fn are_too_few(&self, core: &Core, head: &HObject) -> bool {
        let me = CopyId { osd: types::HOLE, shard: core.id.shard };
        let some = || is_missing(&core.missing, head) || self.all.values().any(|member| is_missing(&member.missing, head));
        let lacking = || self.lacking_of(core, head).into_iter();
        !core.scheme.is_whole() && some() && lacking().any(|object| !self.hold_enough(core, me, &object))
    }

    /// Returns true if a copy has promised the change at this place, or is sent none.
    pub(crate) fn has_promised(&self, copy: CopyId, order: Option<u64>) -> bool {
        match (order, self.all.get(&copy)) {
            (Some(order), Some(member)) => member.stream.oldest() > order,
            _ => true,
        }
    }
}

impl Primary {
    /// Takes a step in making what is lacking of an object.
    pub(crate) fn remake_step(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, job: &mut Job) -> Result<Stepped, Unread> {
        let Work::Bring(bring) = &job.work else { return Ok(Stepped::Done) };
        if bring.queue.is_none() {
            let list = self.list_lacking(core, ctx, job)?;
            if let Work::Bring(bring) = &mut job.work {
                bring.unit = list.iter().cloned().collect();
                bring.queue = Some(list);
            }
            return Ok(Stepped::On);
        }
        let Some(object) = bring.queue.as_ref().and_then(|queue| queue.front().cloned()) else {
            return Ok(self.end_queue(job));
        };
        let me = core.me(ctx);
        if bring.at.is_first() && bring.remake.is_none() {
            let mut targets = self.targets(&object, bring.filled);
            targets.extend(core.missing.contains_key(&object).then_some(me));
            let nothing = targets.is_empty() || !self.members.hold_enough(core, me, &object);
            if let Work::Bring(bring) = &mut job.work {
                bring.targets = targets;
                if nothing {
                    bring.queue.iter_mut().for_each(|queue| _ = queue.pop_front());
                    return Ok(Stepped::On);
                }
            }
            return self.learn_record(core, ctx, job, &object);
        }
        if self.must_hold_back(ctx, job) {
            self.recovery.parked.push(job.hold);
            return Ok(Stepped::Waits);
        }
        self.make_piece(core, ctx, job, &object)
    }

    /// Heads and clones that are to be made. A copy that is filled gets all of them.
    fn list_lacking(&self, core: &Core, ctx: &Ctx<'_>, job: &Job) -> Result<VecDeque<HObject>, Unread> {
        let mut all = self.members.lacking_of(core, &job.head);
        if matches!(&job.work, Work::Bring(bring) if bring.filled.is_some()) {
            all.extend(core.names_of(ctx, job.hold, &job.head)?);
        }
        Ok(all.into_iter().collect())
    }

    /// All is in the streams. A change that waits begins when it is durable.
    fn end_queue(&mut self, job: &Job) -> Stepped {
        let Work::Bring(bring) = &job.work else { return Stepped::Done };
        let waits = bring.settles && self.is_arriving(&job.head);
        if waits {
            self.recovery.parked.push(job.hold);
        }
        if waits { Stepped::Waits } else { Stepped::Done }
    }

    fn must_hold_back(&self, ctx: &Ctx<'_>, job: &Job) -> bool {
        let Work::Bring(bring) = &job.work else { return false };
        let full = |copy: &CopyId| self.members.all.get(copy).is_some_and(|m| m.stream.bytes() > ctx.config.sizes.window);
        bring.targets.iter().any(full)
    }

    /// Reads the record and the attributes of an object, here or elsewhere.
    fn learn_record(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, job: &mut Job, object: &HObject) -> Result<Stepped, Unread> {
        let id = core.object(object.clone());
        if core.missing.contains_key(object) {
            return Ok(self.ask_for_record(core, ctx, job, object));
        }
        let stat = match ctx.store.stat(job.hold, &id) {
            Err(Unread::Damaged(damage)) => return self.give_own_up(core, ctx, job, object, Unread::Damaged(damage)),
            stat => stat?,
        };
        let attributes = ctx.store.xattrs(job.hold, &id)?;
        let Work::Bring(bring) = &mut job.work else { return Ok(Stepped::Done) };
        match stat {
            Some(stat) => {
                let attributes = attributes.into_iter().map(|(name, value)| ObjectChange::SetXattr(name, value)).collect();
                bring.remake = Some(Remake { record: stat.info, attributes });
            }
            // It is gone since it was listed.
            None => bring.queue.iter_mut().for_each(|queue| _ = queue.pop_front()),
        }
        Ok(Stepped::On)
    }

    /// The own shard cannot be read: it is made anew, too, if others are enough.
    fn give_own_up(
        &mut self,
        core: &mut Core,
        ctx: &mut Ctx<'_>,
        job: &mut Job,
        object: &HObject,
        why: Unread,
    ) -> Result<Stepped, Unread> {
        if !self.is_mendable(core, ctx.now.mono, object) {
            return Err(why);
        }
        if let Unread::Damaged(damage) = &why {
            core.report_damage(ctx, &job.head, damage);
        }
        self.mend(core, ctx, object.clone());
        job.asking = None;
        if let Work::Bring(bring) = &mut job.work {
            (bring.at, bring.remake, bring.queue) = (PieceAt::default(), None, None);
        }
        Ok(Stepped::On)
    }

    /// Asks a copy for the record and the attributes of an object that is missing here: for a part without data.
    fn ask_for_record(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, job: &Job, object: &HObject) -> Stepped {
        let holders = self.members.shards_of(object);
        let newest = newest_change_of(&self.pending, &job.head);
        let Some(from) = core.scheme.source(&holders, |copy| self.members.has_promised(*copy, newest)) else {
            self.recovery.parked.push(job.hold);
            return Stepped::Waits;
        };
        let subject = Subject::Object(object.clone());
        self.questions.ask_for(core, ctx, job.hold, from, subject, core.record_wish(object));
        Stepped::Waits
    }

    /// A copy gave the record and the attributes of an object, or does not have it.
    pub(crate) fn hear_record(
        &mut self,
        core: &mut Core,
        ctx: &mut Ctx<'_>,
        mut job: Job,
        from: CopyId,
        object: &HObject,
        piece: Option<Box<Piece>>,
    ) {
        let head = job.head.clone();
        let named = ObjectId::of_shard(object.clone(), from.shard);
        let record = |changes: &[ObjectChange]| {
            changes.iter().find_map(|change| if let ObjectChange::SetInfo(record) = change { Some(record.clone()) } else { None })
        };
        let given = piece.filter(|piece| piece.changes.object == named).map(|piece| piece.changes.changes);
        match given.and_then(|changes| Some((record(&changes)?, changes))) {
            Some((record, changes)) => {
                let attributes = changes.into_iter().filter(|change| matches!(change, ObjectChange::SetXattr(..))).collect();
                if let Work::Bring(bring) = &mut job.work {
                    bring.remake = Some(Remake { record, attributes });
                }
            }
            None => {
                core.log_line(ctx, Level::Warn, format!("{object}: osd.{from} does not have its shard"));
                self.members.note_lack(from, object, core.info.last_update);
            }
        }
        self.attempt_bring(core, ctx, job);
        self.pump(core, ctx, &head);
    }

    /// Makes the next piece of all shards that are lacking, as far as that goes now.
    fn make_piece(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, job: &mut Job, object: &HObject) -> Result<Stepped, Unread> {
        let Work::Bring(bring) = &job.work else { return Ok(Stepped::Done) };
        let Some(remake) = &bring.remake else { return Ok(Stepped::Done) };
        let (at, me, id) = (bring.at.clone(), core.me(ctx), core.object(object.clone()));
        let lost: Vec<ShardId> = bring.targets.iter().map(|copy| copy.shard).collect();
        let nothing = Pieces::default();
        let pieces = job.asking.as_ref().map_or(&nothing, |asking| &asking.pieces);
        let sight = core.scheme.sight(&*ctx.store, pieces);
        let place = (at.offset, ctx.config.sizes.piece);
        let made = core.scheme.remake(&sight, job.hold, &id, &remake.record, &lost, place);
        let wants = sight.into_wants();
        match made {
            Ok(made) => Ok(self.place_piece(core, ctx, job, object, made)),
            Err(Unread::Missing(wish)) if !wants.is_empty() => Ok(Stepped::Asks(wish, wants)),
            Err(Unread::Damaged(damage)) if !bring.targets.contains(&me) => {
                self.give_own_up(core, ctx, job, object, Unread::Damaged(damage))
            }
            Err(unread) => Err(unread),
        }
    }

    /// Carries the own piece out, and gives the others to the streams of their copies.
    fn place_piece(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, job: &mut Job, object: &HObject, made: Remade) -> Stepped {
        if job.fetched {
            ctx.store.release(job.hold);
        }
        if let Some(asking) = &mut job.asking {
            asking.pieces.clear();
        }
        let me = core.me(ctx);
        let Work::Bring(bring) = &mut job.work else { return Stepped::Done };
        let Some(remake) = &bring.remake else { return Stepped::Done };
        let (at, next) = (bring.at.clone(), made.next.map(|offset| PieceAt { offset, ..PieceAt::default() }));
        let mut first = vec![ObjectChange::Create, ObjectChange::SetInfo(remake.record.clone())];
        first.extend(remake.attributes.iter().cloned());
        let (targets, filled) = (bring.targets.clone(), bring.filled);
        bring.at = next.clone().unwrap_or_default();
        if next.is_none() {
            bring.remake = None;
            // Others may lack it, too, by now; who is filled gets each object once.
            if filled.is_some() {
                bring.queue.iter_mut().for_each(|queue| _ = queue.pop_front());
            }
        }
        for (copy, data) in targets.into_iter().zip(made.shards) {
            let mut changes = if at.is_first() { first.clone() } else { Vec::new() };
            changes.extend(data);
            let changes = ObjectChanges { object: ObjectId::of_shard(object.clone(), copy.shard), changes };
            let piece = Piece { changes, next: next.clone() };
            if copy != me {
                self.push(core, ctx, &[copy], object, &at, piece);
            } else if let Err(refused) = self.take_piece(core, ctx, object, &at, piece) {
                if refused == Refused::Stopped {
                    core.stopped(ctx);
                }
                return Stepped::Done;
            }
        }
        Stepped::On
    }
}
