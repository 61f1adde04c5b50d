//! A copy answers the primary's question about a range of its objects.

use super::entry::Ask;
use super::survey::{OmapLimit, Range, Survey};
use crate::api::Ctx;
use crate::letter::Letter;
use crate::pg::{Pg, Phase};
use node::{Level, Mono};
use objectstore::{Hold, Unread};
use types::{HObject, OsdId};

/// Most objects in one answer.
const MOST: usize = 256;

/// A question that is being answered.
pub(crate) struct Inquiry {
    ask: Ask,
    from: OsdId,
    survey: Survey,
    pub(crate) hold: Hold,
    fetching: bool,
    next: Mono,
}

impl Inquiry {
    pub(crate) fn deadline(&self) -> Mono {
        if self.fetching { Mono::NEVER } else { self.next }
    }
}

impl Pg {
    /// Takes a question of the primary. It has one at a time: a new one takes the place of the last.
    pub(crate) fn be_surveyed(&mut self, ctx: &mut Ctx<'_>, from: OsdId, ask: Ask) {
        let (start, end) = self.core.bounds(ctx);
        if ask.from < start || ask.to > end {
            let text = format!("osd.{from} asks for objects that are none of this group");
            return self.core.log_line(ctx, Level::Warn, text);
        }
        let hold = self.core.next_hold(ctx);
        let shard = self.core.id.shard;
        let Phase::Replica(replica) = &mut self.phase else { return };
        // It may be asked again while it is still reading.
        let same = |inquiry: &Inquiry| inquiry.ask.serial == ask.serial && inquiry.ask.from == ask.from;
        if !replica.activated || replica.inquiry.as_deref().is_some_and(same) {
            return;
        }
        let Ask { from: begin, to, deep, detail, .. } = ask.clone();
        let survey = Survey::new(shard, Range { from: begin, to, max: MOST, whole: false, deep, detail, large: OmapLimit::NONE });
        let fresh = Inquiry { ask, from, survey, hold, fetching: false, next: Mono::NEVER };
        if let Some(old) = replica.inquiry.replace(Box::new(fresh)) {
            ctx.store.release(old.hold);
        }
        self.step_inquiry(ctx);
    }

    /// Reads on, if all is carried out that came before the question.
    pub(crate) fn step_inquiry(&mut self, ctx: &mut Ctx<'_>) {
        let Phase::Replica(replica) = &mut self.phase else { return };
        let ready =
            |inquiry: &mut Box<Inquiry>| !inquiry.fetching && replica.applied >= inquiry.ask.after && replica.stalled.is_empty();
        let Some(mut inquiry) = replica.inquiry.take_if(ready) else { return };
        for _ in 0..ctx.config.step_objects {
            if inquiry.survey.is_done() {
                ctx.store.release(inquiry.hold);
                return self.answer_inquiry(ctx, *inquiry);
            }
            match inquiry.survey.step(&*ctx.store, inquiry.hold) {
                Ok(()) => {
                    ctx.store.release(inquiry.hold);
                    if inquiry.survey.is_heavy() {
                        break;
                    }
                }
                Err(Unread::Missing(wish)) => {
                    inquiry.fetching = true;
                    ctx.store.fetch(inquiry.hold, wish);
                    break;
                }
                // The survey notes damage itself.
                Err(Unread::Damaged(_)) => break,
            }
        }
        inquiry.next = ctx.now.mono.plus(ctx.config.step_pause);
        if let Phase::Replica(replica) = &mut self.phase {
            replica.inquiry = Some(inquiry);
        }
    }

    /// What was fetched for it is there.
    pub(crate) fn inquiry_fetched(&mut self, ctx: &mut Ctx<'_>) {
        if let Phase::Replica(replica) = &mut self.phase
            && let Some(inquiry) = &mut replica.inquiry
        {
            inquiry.fetching = false;
        }
        self.step_inquiry(ctx);
    }

    fn answer_inquiry(&mut self, ctx: &mut Ctx<'_>, inquiry: Inquiry) {
        for (object, damage) in &inquiry.survey.damage {
            let (what, offset) = (&damage.what, damage.offset);
            self.core.log_line(ctx, Level::Error, format!("scrub: {object}: {what} at offset {offset} is damaged"));
        }
        let answer = inquiry.survey.into_answer(inquiry.ask.serial);
        self.core.tell(ctx, inquiry.from, &Letter::Surveyed(Box::new(answer)));
    }

    /// The primary says that these objects are wrong here: they are missing from here on, and come again.
    pub(crate) fn be_spoilt(&mut self, ctx: &mut Ctx<'_>, objects: Vec<HObject>) {
        if !matches!(&self.phase, Phase::Replica(replica) if replica.activated) {
            return;
        }
        for object in objects {
            if self.core.missing.get(&object).is_none_or(|lack| lack.base.is_some())
                && self.core.holds(&self.core.object(object.clone()))
            {
                self.core.log_line(ctx, Level::Warn, format!("{object} is not what the other copies hold: it is brought again"));
                self.core.mark_missing(ctx, object);
            }
        }
    }
}
