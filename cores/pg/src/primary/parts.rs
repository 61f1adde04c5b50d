//! Objects that are brought in part: a copy that has an older version gets only what changed since.
//!
//! | who lacks it | steps |
//! |---|---|
//! | a member | the primary reads the part from its own object and ships it with the version that the copy must have; the copy looks whether it has that, and puts the part into place |
//! | the primary | it looks whether it has the version, asks a copy that has the object for the part, and puts it into place |
//!
//! A part goes in one piece and one transaction. What is more than a piece is brought whole.
//!
//! *When a base is not true*: the object's record names another version, or cannot be read. A primary forgets the base then and brings the
//! object whole. A copy keeps the object marked as missing, carries out the rest of the change, and says with its promise that it
//! lacks the object ([`Letter::AckLacking`]). It says so until it has the object, so it does not matter which of the promises is lost.
//!
//! *Order.* A copy reads the record before it carries the change out. While the store fetches it, later changes wait behind this one.

use crate::api::Ctx;
use crate::body::{Body, Progress};
use crate::changed::Part;
use crate::core::Core;
use crate::letter::Letter;
use crate::missing::{Base, Lack};
use crate::object::{Piece, PieceAt, index_of, read_part};
use crate::primary::Primary;
use crate::primary::lanes::{Job, Work};
use crate::questions::Subject;
use node::Level;
use objectstore::{Refused, Unread};
use types::{CopyId, EVersion, HObject, SnapId};

impl Primary {
    /// A part of an object that is missing here came, or it cannot be had in part.
    pub(crate) fn hear_pulled_part(
        &mut self,
        core: &mut Core,
        ctx: &mut Ctx<'_>,
        from: CopyId,
        object: HObject,
        have: EVersion,
        piece: Option<Box<Piece>>,
    ) {
        let subject = Subject::Object(object.clone());
        let asked = self.questions.asked(from, subject.clone());
        if !asked.is_some_and(|asked| matches!(asked, Letter::PullPart(_, base) if base.have == have)) {
            return;
        }
        let hold = self.questions.answered(from, subject).and_then(|open| open.job);
        let Some(mut job) = hold.and_then(|hold| self.jobs.remove(&hold)) else { return };
        if !core.scheme.is_whole() {
            return self.hear_record(core, ctx, job, from, &object, piece);
        }
        let head = job.head.clone();
        let id = core.object(object.clone());
        let fits = |piece: &Piece| piece.changes.object == id && piece.next.is_none() && core.is_wanted_part(&object, piece);
        let taken = match piece.filter(|piece| fits(piece)) {
            Some(piece) => self.take_part(core, ctx, &object, *piece),
            None => {
                core.forget_own_base(&object);
                Ok(())
            }
        };
        if let Work::Bring(bring) = &mut job.work {
            bring.at = PieceAt::default();
        }
        match taken {
            Ok(()) => self.attempt_bring(core, ctx, job),
            Err(Refused::Stopped) => core.stopped(ctx),
            Err(_) => self.end_bring(core, ctx, job),
        }
        self.pump(core, ctx, &head);
    }

    /// Puts a part into its place here.
    fn take_part(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, object: &HObject, piece: Piece) -> Result<(), Refused> {
        let index = index_of(object, &piece.changes.changes);
        let progress = Progress { recovered: vec![object.clone()], ..Progress::default() };
        match core.apply(ctx, Body::push(vec![piece.changes], index, progress), None) {
            #[cfg(feature = "sim")]
            Ok(_) if core.mistake == Some(crate::selfcheck::Mistake::TakePartEarly) => {}
            Ok(commit) => self.recovery.took(object.clone(), commit.ticket),
            Err(refused) => {
                core.log_line(ctx, Level::Error, format!("{object} cannot be taken up: the store refuses ({refused:?})"));
                return Err(refused);
            }
        }
        if object.is_head() {
            self.arm_watches(core, ctx, object);
        }
        Ok(())
    }

    /// Those of the copies that have an older version of an object, and all that changed since for any of them.
    fn with_base(&self, object: &HObject, targets: &[CopyId]) -> Option<(Vec<(CopyId, EVersion)>, Part)> {
        let base = |copy: &CopyId| Some((*copy, self.members.all.get(copy)?.missing.get(object)?.base.as_deref()?));
        let bases: Vec<(CopyId, &Base)> = targets.iter().filter_map(base).collect();
        let mut part = bases.first()?.1.part.clone();
        bases.iter().skip(1).for_each(|(_, base)| part.join(&base.part));
        Some((bases.iter().map(|(copy, base)| (*copy, base.have)).collect(), part))
    }

    /// Brings an object in part to those of the copies of which it is known what they have. False if there are none: to the rest it goes whole.
    pub(crate) fn push_part(
        &mut self,
        core: &mut Core,
        ctx: &mut Ctx<'_>,
        job: &Job,
        object: &HObject,
        targets: &[CopyId],
    ) -> Result<bool, Unread> {
        let Some((bases, part)) = self.with_base(object, targets) else { return Ok(false) };
        let piece = read_part(&*ctx.store, job.hold, &core.object(object.clone()), &part, &ctx.config.sizes)?;
        if job.fetched {
            ctx.store.release(job.hold);
        }
        for (copy, have) in bases {
            match &piece {
                Some(piece) => self.ship_part(core, ctx, copy, object, have, piece),
                None => self.forget_base_of(copy, object),
            }
        }
        Ok(true)
    }

    fn forget_base_of(&mut self, copy: CopyId, object: &HObject) {
        if let Some(lack) = self.members.all.get_mut(&copy).and_then(|member| member.missing.get_mut(object)) {
            lack.base = None;
        }
    }

    fn ship_part(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, copy: CopyId, object: &HObject, have: EVersion, piece: &Piece) {
        let index = index_of(object, &piece.changes.changes);
        let (recovered, bases) = (vec![object.clone()], vec![(object.clone(), have)]);
        let body = Body::push(vec![piece.changes.clone()], index, Progress { recovered, bases, ..Progress::default() });
        let letters = self.members.ship_to(&core.envelope(), &[copy], &body);
        core.post(ctx, letters);
        self.members.note_pushed(copy, object);
    }

    /// A copy says that it lacks objects of which the primary does not know it. What is promised with that, from the change at place
    /// `first` on, is not durable there as it should be, until the objects are brought.
    pub(crate) fn hear_lacking(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, from: CopyId, first: u64, objects: Vec<HObject>) {
        if objects.is_empty() {
            return;
        }
        let need = core.info.last_update;
        let mut news = Vec::new();
        if let Some(member) = self.members.all.get_mut(&from).filter(|member| member.activated) {
            for object in objects {
                // What is on its way to it is no news.
                if !member.missing.contains_key(&object) && !member.pushed.contains_key(&object) {
                    member.missing.insert(object.clone(), Lack::whole(need));
                    member.owed.insert(object.clone(), first);
                    news.push(object);
                }
            }
        }
        // Clients may wait for it, so it needs no slot.
        for object in news {
            core.log_line(ctx, Level::Warn, format!("osd.{from} lacks {object}: it is brought again"));
            core.repaired += 1;
            self.bring(core, ctx, object.at(SnapId::HEAD), None);
        }
        self.due.recovery = true;
    }
}
