//! A suspect is looked at in its lane, where nothing else happens to it, and what is wrong is mended if that is wanted.

use super::{Scrub, Tally};
use crate::api::{ClusterLevel, Ctx, Effect};
use crate::core::Core;
use crate::letter::Letter;
use crate::missing::Lack;
use crate::primary::Primary;
use crate::primary::lanes::{Job, Work};
use crate::questions::Subject;
use crate::scrub::compare::{Contradiction, Copy, Verdict, contradictions, judge, recorded_size};
use crate::scrub::entry::{Answer, Entry};
use crate::scrub::gather::Gathering;
use crate::scrub::survey::{OmapLimit, Range, Survey};
use messages::scrub::{shard, snapset};
use objectstore::Unread;
use types::{CopyId, HObject, SnapId};

/// Returns what a head's copies hold, if it is certain who is right.
fn certain<'a>(copies: &[Copy<'a>]) -> Option<&'a Entry> {
    let verdict = judge(copies, None);
    let right = match &verdict {
        Some(verdict) if verdict.doubted => return None,
        Some(verdict) => verdict.authority?,
        None => copies.first()?.id,
    };
    copies.iter().find(|copy| copy.id == right)?.entry
}

/// One object, head and clones, that all copies look at.
pub(crate) struct Check {
    survey: Survey,
    pub(crate) gathering: Option<Gathering>,
}

impl Primary {
    /// Lets a suspect be looked at when its lane is free.
    pub(crate) fn begin_check(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, head: HObject) {
        let deep = self.scrub.as_ref().is_some_and(|scrub| scrub.deep);
        let (from, to) = (head.at(SnapId(0)), head.at(SnapId::DIR));
        let (sizes, large) = (ctx.config.sizes, OmapLimit::NONE);
        let range = Range { from, to, max: usize::MAX, whole: true, deep, detail: true, large, sizes };
        let check = Check { survey: Survey::new(core.id.shard, range), gathering: None };
        let head = core.object(head);
        self.enqueue(core, ctx, head, Work::Check(Box::new(check)));
    }

    /// Goes on with a check as far as it goes now.
    pub(crate) fn attempt_check(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, mut job: Job) {
        let brought = self.must_bring(core, &job.head, false) || self.members.anybody_lacks(&job.head);
        let Work::Check(check) = &mut job.work else { return };
        if brought {
            // Some copy is known to lack it: recovery sees to that.
            return self.end_check(ctx, &job);
        }
        if check.gathering.is_none() {
            let Range { from, to, deep, .. } = check.survey.range.clone();
            check.gathering = Some(self.ask_members(core, ctx, from, to, deep, true));
        }
        while !check.survey.is_done() {
            match check.survey.step(&*ctx.store, job.hold) {
                Ok(()) => ctx.store.release(job.hold),
                Err(Unread::Missing(wish)) => return self.fetch_for(ctx, job, wish),
                // The survey notes damage itself.
                Err(Unread::Damaged(_)) => break,
            }
        }
        if check.gathering.as_ref().is_some_and(|gathering| !gathering.is_complete()) {
            return self.keep_waiting(job);
        }
        self.conclude_check(core, ctx, &job);
        self.end_check(ctx, &job);
    }

    /// A copy says what it holds of the suspect.
    pub(crate) fn hear_checked(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, from: CopyId, answer: Answer) {
        let check = self.jobs.values_mut().find_map(|job| match &mut job.work {
            Work::Check(check) => Some((job.hold, check)),
            _ => None,
        });
        let Some((hold, check)) = check else { return };
        let Some(gathering) = check.gathering.as_mut() else { return };
        if !gathering.hear(from, answer) {
            return;
        }
        let (rest, complete) = (gathering.question(from), gathering.is_complete());
        // While its own part is being fetched, that calls it.
        let ready = complete && check.survey.is_done();
        self.go_on_asking(core, ctx, from, rest);
        if ready && let Some(job) = self.jobs.remove(&hold) {
            let head = job.head.clone();
            self.attempt(core, ctx, job);
            self.pump(core, ctx, &head);
        }
    }

    /// The lane is free again, and the scrub goes on.
    fn end_check(&mut self, ctx: &mut Ctx<'_>, job: &Job) {
        if job.fetched {
            ctx.store.release(job.hold);
        }
        if let Some(lane) = self.lanes.get_mut(&job.head) {
            lane.held = lane.held.filter(|hold| *hold != job.hold);
        }
        // It may end before all have answered.
        self.questions.withdraw(|_, subject| *subject == Subject::Survey);
        if let Some(scrub) = &mut self.scrub {
            (scrub.checking, scrub.next) = (false, ctx.now.mono);
        }
    }

    fn conclude_check(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, job: &Job) {
        let Work::Check(check) = &job.work else { return };
        let Check { survey, gathering: Some(gathering) } = &**check else { return };
        let Some(mut scrub) = self.scrub.take() else { return };
        let me = core.me(ctx);
        for (object, damage) in &survey.damage {
            core.report_damage(ctx, &core.object(object.clone()), damage);
        }
        let unreadable = usize::from(survey.unreadable) + gathering.unreadable().count();
        scrub.tally.shallow += unreadable as i64;
        // What is not in a list that cannot be read may be there all the same.
        let rows = match survey.unreadable {
            true => Vec::new(),
            false => gathering.rows(me, &survey.found, |copy, object| self.is_awaited(me, copy, object)),
        };
        let mut right: Vec<&Entry> = Vec::new();
        let head = rows.iter().find(|(object, _)| object.is_head()).and_then(|(_, copies)| certain(copies));
        for (object, copies) in &rows {
            let size = head.filter(|_| !object.is_head()).and_then(|head| recorded_size(head, object.snap));
            let verdict = judge(copies, size);
            let counts = |copy: &&Copy<'_>| verdict.as_ref().is_none_or(|v| v.authority.is_none_or(|right| right == copy.id));
            right.extend(copies.iter().filter(counts).find_map(|copy| copy.entry));
            #[cfg(feature = "sim")]
            let verdict = self.misjudge(core, me, copies, verdict);
            if let Some(verdict) = verdict {
                self.pronounce(core, ctx, &mut scrub, object, copies, &verdict);
            }
        }
        for found in contradictions(&right) {
            self.contradict(core, ctx, &mut scrub, &found);
        }
        self.scrub = Some(scrub);
    }

    /// Notes what is wrong with an object, says so, and mends it if that is wanted.
    fn pronounce(
        &mut self,
        core: &mut Core,
        ctx: &mut Ctx<'_>,
        scrub: &mut Scrub,
        object: &HObject,
        copies: &[Copy<'_>],
        verdict: &Verdict,
    ) {
        let mut say = |text: String| ctx.out.push(Effect::ClusterLog { level: ClusterLevel::Error, text });
        for (copy, why) in &verdict.wrong {
            let missing = verdict.shards.get(copy).is_some_and(|errors| errors & shard::MISSING != 0);
            let soid = if missing { "" } else { "soid " };
            say(format!("{} shard {copy} {soid}{object} : {why}", core.id));
        }
        if verdict.doubted {
            say(format!(
                "{} soid {object} : copies differ, it is not certain which is right, and none of them is repaired",
                core.id
            ));
        }
        if verdict.authority.is_none() {
            say(format!("{} soid {object} : failed to pick suitable object info", core.id));
        }
        scrub.tally.missing += verdict.missing();
        scrub.tally.inconsistent += usize::from(verdict.wrong.len() > verdict.missing());
        let mended = if scrub.repair { self.mend_wrong(core, ctx, object, verdict) } else { Vec::new() };
        scrub.tally.fixed += mended.len();
        let left: Vec<CopyId> = verdict.wrong.iter().map(|(copy, _)| *copy).filter(|copy| !mended.contains(copy)).collect();
        for copy in &left {
            let Tally { shallow, deep, .. } = &mut scrub.tally;
            *(if verdict.is_deep(*copy) { deep } else { shallow }) += 1;
        }
        if !left.is_empty() {
            scrub.findings.add(object, copies, verdict);
        }
    }

    /// Has copies that are wrong brought again from one that is right. Gives those.
    fn mend_wrong(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, object: &HObject, verdict: &Verdict) -> Vec<CopyId> {
        let mut mended = Vec::new();
        if verdict.authority.is_none() || verdict.doubted {
            return mended;
        }
        let me = core.me(ctx);
        for (copy, _) in verdict.wrong.iter().filter(|(copy, _)| *copy != me) {
            let Some(member) = self.members.all.get_mut(copy) else { continue };
            member.missing.insert(object.clone(), Lack::whole(core.info.last_update));
            core.tell(ctx, *copy, &Letter::Spoilt(vec![object.clone()]));
            core.repaired += 1;
            mended.push(*copy);
        }
        let own = verdict.wrong.iter().any(|(copy, _)| *copy == me);
        // Those that are wrong are no holders any more.
        if own && self.can_be_had(core, object) {
            self.mend(core, ctx, object.clone());
            mended.push(me);
        }
        self.due.recovery = true;
        mended
    }

    /// A mistake to be found: suspects are not looked at again.
    #[cfg(feature = "sim")]
    pub(super) fn judge_at_once(
        &mut self,
        core: &mut Core,
        ctx: &mut Ctx<'_>,
        scrub: &mut Scrub,
        survey: &Survey,
        gathering: &Gathering,
    ) {
        if core.mistake != Some(crate::selfcheck::Mistake::FirstLook) {
            return;
        }
        let me = core.me(ctx);
        let rows = gathering.rows(me, &survey.found, |copy, object| self.is_awaited(me, copy, object));
        for (object, copies) in &rows {
            if let Some(verdict) = judge(copies, None) {
                self.pronounce(core, ctx, scrub, object, copies, &verdict);
            }
        }
    }

    /// A mistake to be found: the primary is always right.
    #[cfg(feature = "sim")]
    fn misjudge(&self, core: &Core, me: CopyId, copies: &[Copy<'_>], verdict: Option<Verdict>) -> Option<Verdict> {
        let errs = core.mistake == Some(crate::selfcheck::Mistake::TrustPrimary)
            && copies.iter().any(|copy| copy.primary && copy.entry.is_some());
        let wrong = |copy: &Copy<'_>| (copy.id != me).then(|| (copy.id, "the primary is right".to_owned()));
        let judged = |verdict| Verdict { authority: Some(me), wrong: copies.iter().filter_map(wrong).collect(), ..verdict };
        if errs { verdict.map(judged) } else { verdict }
    }

    fn contradict(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, scrub: &mut Scrub, found: &Contradiction) {
        let clones = |snaps: &[SnapId]| snaps.iter().map(|snap| format!("{:x}", snap.0)).collect::<Vec<_>>().join(", ");
        let why = match found.errors {
            errors if errors & snapset::HEADLESS != 0 => "clone has no head".into(),
            errors if errors & snapset::SIZE_MISMATCH != 0 => "size is not what the head says".into(),
            _ => format!("missing clones [{}], unexpected clones [{}]", clones(&found.missing), clones(&found.extra)),
        };
        let text = format!("{} {} {} : {why}", core.id, scrub.mode(), found.object);
        ctx.out.push(Effect::ClusterLog { level: ClusterLevel::Error, text });
        scrub.tally.shallow += 1;
        scrub.findings.contradicts(found);
    }
}
