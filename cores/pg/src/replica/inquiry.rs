//! A copy answers the primary's question about a range of its objects.

use super::Replica;
use crate::api::Ctx;
use crate::core::Core;
use crate::letter::Letter;
use crate::scrub::entry::Ask;
use crate::scrub::survey::{OmapLimit, Range, Survey};
use node::{Level, Mono};
use objectstore::{Hold, Unread};
use types::{CopyId, HObject};

/// A question that is being answered.
pub(crate) struct Inquiry {
    ask: Ask,
    from: CopyId,
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

impl Replica {
    /// Takes a question of the primary. It has one at a time: a new one takes the place of the last.
    pub(crate) fn be_surveyed(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, from: CopyId, ask: Ask) {
        let (start, end) = core.bounds(ctx);
        if ask.from < start || ask.to > end {
            let text = format!("osd.{from} asks for objects that are none of this group");
            return core.log_line(ctx, Level::Warn, text);
        }
        let hold = core.next_hold(ctx);
        let shard = core.id.shard;
        // It may be asked again while it is still reading.
        let same = |inquiry: &Inquiry| inquiry.ask.serial == ask.serial && inquiry.ask.from == ask.from;
        if !self.activated || self.inquiry.as_deref().is_some_and(same) {
            return;
        }
        let Ask { from: begin, to, deep, detail, .. } = ask.clone();
        let (sizes, large) = (ctx.config.sizes, OmapLimit::NONE);
        let range = Range { from: begin, to, max: sizes.answer_objects, whole: false, deep, detail, large, sizes };
        let survey = Survey::new(shard, range);
        let fresh = Inquiry { ask, from, survey, hold, fetching: false, next: Mono::NEVER };
        if let Some(old) = self.inquiry.replace(Box::new(fresh)) {
            ctx.store.release(old.hold);
        }
        self.step_inquiry(core, ctx);
    }

    /// Reads on, if all is carried out that came before the question.
    pub(crate) fn step_inquiry(&mut self, core: &mut Core, ctx: &mut Ctx<'_>) {
        let ready =
            |inquiry: &mut Box<Inquiry>| !inquiry.fetching && self.applied >= inquiry.ask.after && self.stalled.is_empty();
        let Some(mut inquiry) = self.inquiry.take_if(ready) else { return };
        for _ in 0..ctx.config.step_objects {
            if inquiry.survey.is_done() {
                ctx.store.release(inquiry.hold);
                return self.answer_inquiry(core, ctx, *inquiry);
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
        self.inquiry = Some(inquiry);
    }

    /// What was fetched for it is there.
    pub(crate) fn inquiry_fetched(&mut self, core: &mut Core, ctx: &mut Ctx<'_>) {
        if let Some(inquiry) = &mut self.inquiry {
            inquiry.fetching = false;
        }
        self.step_inquiry(core, ctx);
    }

    fn answer_inquiry(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, inquiry: Inquiry) {
        for (object, damage) in &inquiry.survey.damage {
            let (what, offset) = (&damage.what, damage.offset);
            core.log_line(ctx, Level::Error, format!("scrub: {object}: {what} at offset {offset} is damaged"));
        }
        let answer = inquiry.survey.into_answer(inquiry.ask.serial);
        core.tell(ctx, inquiry.from, &Letter::Surveyed(Box::new(answer)));
    }

    /// The primary says that these objects are wrong here: they are missing from here on, and come again.
    pub(crate) fn be_spoilt(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, objects: Vec<HObject>) {
        if !self.activated {
            return;
        }
        for object in objects {
            if core.missing.get(&object).is_none_or(|lack| lack.base.is_some()) && core.holds(&core.object(object.clone())) {
                core.log_line(ctx, Level::Warn, format!("{object} is not what the other copies hold: it is brought again"));
                core.mark_missing(ctx, object);
            }
        }
    }
}
