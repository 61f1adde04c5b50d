//! Scrub: a walk over all objects in the background, by which the copies are compared.
//!
//! | question | file |
//! |---|---|
//! | what does a copy hold? | `scrub/survey.rs`; for the primary that asks: `replica/inquiry.rs` |
//! | what do copies tell each other? | `scrub/entry.rs` |
//! | what do all of them say? | `scrub/gather.rs` |
//! | who is right? | `scrub/compare.rs` |
//! | what is done about it? | `check.rs` |
//! | what does it lead to? | `finish.rs` |
//! | what do clients see of it? | `scrub/findings.rs` |
//!
//! A light scrub compares which objects there are, their sizes, records and attributes. A deep one reads all data and omaps, so that
//! each store verifies its checksums, and compares digests.
//!
//! The walk goes by chunks. For each one the primary asks the members, and reads its own copy meanwhile; nobody waits for that. An object
//! that is written just then looks different on each copy. So whatever differs is only a suspect: it is looked at once more, in its lane,
//! where nothing else happens to it, and behind all changes that were shipped before. A client waits for that one object at most.

pub(crate) mod check;
mod finish;

use crate::api::{ClusterLevel, Config, Ctx, Effect};
use crate::core::Core;
use crate::info::ObjectInfo;
use crate::letter::Letter;
use crate::missing::is_missing;
use crate::ops::internal::clone_bytes;
use crate::primary::Primary;
use crate::questions::Subject;
use crate::scrub::compare::{agree, contradictions};
use crate::scrub::entry::{Answer, Ask, Entry};
use crate::scrub::findings::Findings;
use crate::scrub::gather::Gathering;
use crate::scrub::survey::{OmapLimit, OmapSize, Range, Survey};
use crate::stats::Stats;
use node::Mono;
use objectstore::{Hold, Unread, Wish};
use std::collections::{BTreeSet, VecDeque};
use types::{CopyId, HObject, ObjectId, PgId, SnapId};

/// A scrub that somebody wants. It outlives the interval, if this OSD leads the group on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Order {
    deep: bool,
    /// What is wrong is brought from a copy that is right.
    repair: bool,
    /// It shows whether a repair was one: it begins when all copies are complete.
    verify: bool,
}

impl Order {
    /// A scrub; a deep one reads all data.
    pub(crate) fn scrub(deep: bool) -> Self {
        Self { deep, ..Self::default() }
    }

    /// A deep scrub that mends what it finds.
    pub(crate) fn repair() -> Self {
        Self { deep: true, repair: true, verify: false }
    }

    /// This one together with one that was wanted before.
    pub(crate) fn beside(self, before: Option<Self>) -> Self {
        let before = before.unwrap_or_default();
        let (deep, repair) = (self.deep || before.deep, self.repair || before.repair);
        Self { deep, repair, verify: self.verify && !repair }
    }
}

/// What was found so far.
#[derive(Debug, Default)]
struct Tally {
    /// Copies that are wrong and stay so: what a light scrub finds, what only a deep one does.
    shallow: i64,
    deep: i64,
    /// Copies that are not there; objects of which copies differ or cannot be read.
    missing: usize,
    inconsistent: usize,
    /// Copies that are being mended.
    fixed: usize,
}

/// A range of objects that is being compared.
struct Chunk {
    survey: Survey,
    gathering: Option<Gathering>,
}

/// A scrub under way.
pub(crate) struct Scrub {
    pub(crate) deep: bool,
    pub(crate) repair: bool,
    verify: bool,
    /// An object could not be counted, since it was just being replaced: the group is counted once more.
    again: bool,
    pub(crate) hold: Hold,
    /// It waits for its hold.
    fetching: bool,
    next: Mono,
    /// All before is compared.
    from: HObject,
    ended: bool,
    chunk: Option<Box<Chunk>>,
    suspects: VecDeque<HObject>,
    /// One of them is being looked at.
    checking: bool,
    /// Heads before this one are counted; changes of theirs must be counted too.
    counted_to: HObject,
    counted: Stats,
    tally: Tally,
    findings: Findings,
}

/// How far a step came.
enum Step {
    On,
    Fetch(Wish),
    /// For answers.
    Waits,
    Check(HObject),
    Done,
}

impl Scrub {
    pub(crate) fn due(&self, now: Mono) -> bool {
        !self.fetching && self.next <= now
    }

    pub(crate) fn deadline(&self) -> Mono {
        if self.fetching { Mono::NEVER } else { self.next }
    }

    /// A change of an object that was counted already.
    pub(crate) fn changed(&mut self, head: &HObject, delta: &Stats) {
        if *head <= self.counted_to {
            self.counted.add(delta);
        }
    }

    /// Returns what was ordered.
    pub(crate) fn order(&self) -> Order {
        Order { deep: self.deep, repair: self.repair, verify: self.verify }
    }

    /// Returns what Ceph calls it.
    fn mode(&self) -> &'static str {
        match (self.repair, self.deep) {
            (true, _) => "repair",
            (_, true) => "deep-scrub",
            _ => "scrub",
        }
    }
}

/// What decides when a group is scrubbed next.
#[derive(Clone, Copy, Debug)]
pub struct ScrubState {
    /// Time when it was scrubbed last; zero if never.
    pub last: types::UTime,
    /// Time when it was scrubbed last with all data read.
    pub last_deep: types::UTime,
    /// A scrub is under way or ordered.
    pub busy: bool,
    /// All copies are complete and where they belong.
    pub clean: bool,
}

impl Primary {
    /// Returns what decides when the group is scrubbed next; `None` unless it is served from here.
    pub(crate) fn scrub_state(&self, core: &Core) -> Option<ScrubState> {
        let busy = self.scrub.is_some() || self.ordered.is_some();
        let (last, last_deep, clean) = (core.history.scrub.1, core.history.deep_scrub.1, self.is_clean(core));
        self.is_active().then_some(ScrubState { last, last_deep, busy, clean })
    }

    /// Orders a scrub, which begins when none is under way and this copy lacks nothing.
    pub(crate) fn order_scrub(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, order: Order) {
        self.ordered = Some(order.beside(self.ordered));
        self.begin_ordered(core, ctx);
    }

    /// Begins what was ordered, if it is time.
    pub(crate) fn begin_ordered(&mut self, core: &mut Core, ctx: &mut Ctx<'_>) {
        let ready = self.scrub.is_none() && self.is_active() && core.missing.is_empty();
        let recovered = self.is_recovered(core);
        if let Some(order) = self.ordered.take_if(|order| ready && (recovered || !order.verify)) {
            self.begin_scrub(core, ctx, order);
        }
    }

    /// Counts what the group holds, if no scrub does so already. None begins while this copy lacks objects: it would count only those
    /// that are here, and recovery brings the others without a change of statistics.
    pub(crate) fn count_again(&mut self, core: &mut Core, ctx: &mut Ctx<'_>) {
        // Shards are not scrubbed yet: figures stay as they are.
        if self.scrub.is_some() || !core.scheme.is_whole() {
            return;
        }
        self.ordered.get_or_insert_default();
        self.begin_ordered(core, ctx);
    }

    fn begin_scrub(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, order: Order) {
        let hold = core.next_hold(ctx);
        let (from, _) = core.bounds(ctx);
        self.scrub = Some(Box::new(Scrub {
            deep: order.deep,
            repair: order.repair,
            verify: order.verify,
            again: false,
            hold,
            fetching: false,
            next: ctx.now.mono,
            from,
            ended: false,
            chunk: None,
            suspects: VecDeque::new(),
            checking: false,
            counted_to: HObject::min(),
            counted: Stats::default(),
            tally: Tally::default(),
            findings: Findings::begin(self.findings.as_deref(), order.deep),
        }));
    }

    /// What was fetched for the scrub is there.
    pub(crate) fn scrub_fetched(&mut self, core: &mut Core, ctx: &mut Ctx<'_>) {
        if let Some(scrub) = &mut self.scrub {
            scrub.fetching = false;
        }
        self.step_scrub(core, ctx);
    }

    /// Looks at some objects, until something must be fetched or others must answer.
    pub(crate) fn step_scrub(&mut self, core: &mut Core, ctx: &mut Ctx<'_>) {
        let Some(mut scrub) = self.scrub.take_if(|scrub| !scrub.fetching) else { return };
        if scrub.checking {
            // The end of the check wakes it.
            scrub.next = Mono::NEVER;
            self.scrub = Some(scrub);
            return;
        }
        scrub.next = ctx.now.mono.plus(ctx.config.step_pause);
        for _ in 0..ctx.config.step_objects {
            match self.scrub_on(core, ctx, &mut scrub) {
                Step::On if scrub.chunk.as_mut().is_some_and(|chunk| chunk.survey.is_heavy()) => break,
                Step::On => {}
                Step::Done => {
                    ctx.store.release(scrub.hold);
                    return self.finish_scrub(core, ctx, *scrub);
                }
                Step::Fetch(wish) => {
                    scrub.fetching = true;
                    ctx.store.fetch(scrub.hold, wish);
                    break;
                }
                Step::Waits => {
                    // The last answer wakes it.
                    scrub.next = Mono::NEVER;
                    self.scrub = Some(scrub);
                    return;
                }
                Step::Check(head) => {
                    (scrub.checking, scrub.next) = (true, Mono::NEVER);
                    self.scrub = Some(scrub);
                    return self.begin_check(core, ctx, head);
                }
            }
        }
        self.scrub = Some(scrub);
    }

    fn scrub_on(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, scrub: &mut Scrub) -> Step {
        if let Some(mut chunk) = scrub.chunk.take() {
            if chunk.survey.is_done() {
                return self.end_chunk(core, ctx, scrub, chunk);
            }
            let read = self.read_chunk(core, ctx, scrub, &mut chunk);
            scrub.chunk = Some(chunk);
            return match read {
                Err(Unread::Missing(wish)) => Step::Fetch(wish),
                // The survey notes damage itself.
                Ok(()) | Err(Unread::Damaged(_)) => Step::On,
            };
        }
        if let Some(head) = scrub.suspects.pop_front() {
            return Step::Check(head);
        }
        if scrub.ended {
            return Step::Done;
        }
        let (from, to) = (scrub.from.clone(), core.bounds(ctx).1);
        let (sizes, large) = (ctx.config.sizes, largest_omap(ctx.config));
        let range = Range { from, to, max: sizes.chunk, whole: true, deep: scrub.deep, detail: false, large, sizes };
        scrub.chunk = Some(Box::new(Chunk { survey: Survey::new(core.id.shard, range), gathering: None }));
        Step::On
    }

    /// Reads the next part of the own copy. When it is known which objects there are, the others are asked.
    fn read_chunk(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, scrub: &mut Scrub, chunk: &mut Chunk) -> Result<(), Unread> {
        if let Some(object) = chunk.survey.next_record().filter(|object| object.is_head()) {
            self.count(core, ctx, scrub, &object.clone())?;
        }
        chunk.survey.step(&*ctx.store, scrub.hold)?;
        ctx.store.release(scrub.hold);
        if chunk.survey.is_listed() && chunk.gathering.is_none() && !chunk.survey.unreadable {
            let range = &chunk.survey.range;
            let (from, to) = (range.from.clone(), chunk.survey.upto.clone());
            chunk.gathering = Some(self.ask_members(core, ctx, from, to, scrub.deep, false));
        }
        Ok(())
    }

    /// Asks all members that are filled what they hold in a range.
    pub(crate) fn ask_members(
        &mut self,
        core: &mut Core,
        ctx: &mut Ctx<'_>,
        from: HObject,
        to: HObject,
        deep: bool,
        detail: bool,
    ) -> Gathering {
        // No two questions of this copy have the same number.
        let serial = core.next_hold(ctx).0;
        let filled = self.members.all.iter().filter(|(_, m)| m.acting && m.activated && m.backfill.is_none());
        let whom: Vec<CopyId> = filled.map(|(copy, _)| *copy).collect();
        let ask = Ask { serial, after: 0, deep, detail, from, to };
        let gathering = Gathering::new(ask, whom.iter().copied());
        for copy in whom {
            if let Some(ask) = gathering.question(copy) {
                self.ask_member(core, ctx, copy, ask);
            }
        }
        gathering
    }

    pub(crate) fn ask_member(&mut self, core: &Core, ctx: &mut Ctx<'_>, copy: CopyId, ask: Ask) {
        let Some(member) = self.members.all.get(&copy) else { return };
        let ask = Ask { after: member.stream.last(), ..ask };
        self.questions.ask(core, ctx, copy, Subject::Survey, Letter::Survey(Box::new(ask)));
    }

    /// A copy says what it holds.
    pub(crate) fn hear_surveyed(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, from: CopyId, answer: Answer) {
        let Some(scrub) = &mut self.scrub else { return };
        if scrub.checking {
            return self.hear_checked(core, ctx, from, answer);
        }
        let Some(gathering) = scrub.chunk.as_mut().and_then(|chunk| chunk.gathering.as_mut()) else { return };
        if !gathering.hear(from, answer) {
            return;
        }
        let (rest, complete) = (gathering.question(from), gathering.is_complete());
        self.go_on_asking(core, ctx, from, rest);
        if complete {
            self.step_scrub(core, ctx);
        }
    }

    /// Asks a copy that answered for the rest, if there is one.
    pub(crate) fn go_on_asking(&mut self, core: &Core, ctx: &mut Ctx<'_>, copy: CopyId, rest: Option<Ask>) {
        match rest {
            Some(rest) => self.ask_member(core, ctx, copy, rest),
            None => _ = self.questions.answered(copy, Subject::Survey),
        }
    }

    /// Returns what no member is expected to hold: it is on its way to it, or will be.
    pub(crate) fn is_awaited(&self, me: CopyId, copy: CopyId, object: &HObject) -> bool {
        match self.members.all.get(&copy) {
            Some(member) => member.lacks(object) || member.pushed.contains_key(object),
            None => copy != me,
        }
    }

    fn end_chunk(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, scrub: &mut Scrub, chunk: Box<Chunk>) -> Step {
        if chunk.gathering.as_ref().is_some_and(|gathering| !gathering.is_complete()) {
            scrub.chunk = Some(chunk);
            return Step::Waits;
        }
        let Chunk { survey, gathering } = *chunk;
        scrub.counted.omap_keys += survey.omaps.keys as i64;
        scrub.counted.omap_bytes += survey.omaps.bytes as i64;
        scrub.counted.large_omaps += survey.large.len() as i64;
        survey.large.iter().for_each(|(object, size)| self.tell_large_omap(core, ctx, object, *size));
        let Some(gathering) = gathering.filter(|_| !survey.unreadable) else {
            // The list itself: what lies behind cannot be reached.
            scrub.ended = true;
            scrub.tally.shallow += 1;
            for (object, damage) in &survey.damage {
                core.report_damage(ctx, &core.object(object.clone()), damage);
            }
            return Step::On;
        };
        for copy in gathering.unreadable() {
            scrub.tally.shallow += 1;
            let text = format!("{} {} osd.{copy} cannot list its objects", core.id, scrub.mode());
            ctx.out.push(Effect::ClusterLog { level: ClusterLevel::Error, text });
        }
        #[cfg(feature = "sim")]
        self.judge_at_once(core, ctx, scrub, &survey, &gathering);
        scrub.suspects = self.suspects(core, core.me(ctx), &survey, &gathering);
        scrub.ended = survey.upto >= core.bounds(ctx).1;
        scrub.from = survey.upto;
        Step::On
    }

    /// The line of the cluster's log that Ceph writes: the group by the whole hash of the object, too, and bytes of values alone.
    fn tell_large_omap(&self, core: &Core, ctx: &mut Ctx<'_>, object: &HObject, size: OmapSize) {
        let (whole, pg) = (PgId::new(object.pool, object.hash), core.id.pg);
        let OmapSize { keys, values, .. } = size;
        let text =
            format!("Large omap object found. Object: {object} PG: {whole} ({pg}) Key count: {keys} Size (bytes): {values}");
        ctx.out.push(Effect::ClusterLog { level: ClusterLevel::Warn, text });
    }

    /// Heads of a chunk with something that may be wrong with them or their clones.
    fn suspects(&self, core: &Core, me: CopyId, survey: &Survey, gathering: &Gathering) -> VecDeque<HObject> {
        let rows = gathering.rows(me, &survey.found, |copy, object| self.is_awaited(me, copy, object));
        let mut suspects: BTreeSet<HObject> =
            rows.iter().filter(|(_, copies)| !agree(copies)).map(|(object, _)| object.at(SnapId::HEAD)).collect();
        let same = |one: &&Entry, other: &&Entry| crate::meta::same_object(&one.object, &other.object);
        let own: Vec<&Entry> = survey.found.iter().collect();
        let odd = own.chunk_by(same).filter(|unit| !contradictions(unit).is_empty());
        suspects.extend(odd.filter_map(|unit| Some(unit.first()?.object.at(SnapId::HEAD))));
        suspects.into_iter().filter(|head| !is_missing(&core.missing, head)).collect()
    }

    /// Counts a head and all its clones at once, so that no change can come between. What cannot be read is found by the survey.
    fn count(&self, core: &Core, ctx: &Ctx<'_>, scrub: &mut Scrub, object: &ObjectId) -> Result<(), Unread> {
        scrub.again |= is_missing(&core.missing, object);
        let stat = match ctx.store.stat(scrub.hold, object) {
            Ok(Some(stat)) => stat,
            Ok(None) => return Ok(()),
            Err(Unread::Damaged(_)) => {
                scrub.again |= scrub.repair;
                return Ok(());
            }
            Err(unread) => return Err(unread),
        };
        let info = ObjectInfo::decode(&stat.info).unwrap_or_default();
        let mut found = Stats { objects: 1, ..Stats::default() };
        found.bytes = (stat.size + clone_bytes(&info.snaps)) as i64;
        found.whiteouts = i64::from(info.is_whiteout());
        found.omap_objects = i64::from(info.omap);
        for clone in &info.snaps.clones {
            match ctx.store.stat(scrub.hold, &object.at(SnapId(clone.id))) {
                Ok(Some(stat)) => {
                    found.objects += 1;
                    found.clones += 1;
                    found.omap_objects += i64::from(ObjectInfo::decode(&stat.info).is_ok_and(|info| info.omap));
                }
                Ok(None) => {}
                Err(Unread::Damaged(_)) => scrub.again |= scrub.repair,
                Err(unread) => return Err(unread),
            }
        }
        scrub.counted.add(&found);
        scrub.counted_to = HObject::clone(&object.object);
        Ok(())
    }
}

/// The largest omap that a deep scrub does not tell of.
fn largest_omap(config: &Config) -> OmapLimit {
    OmapLimit { keys: config.large_omap_keys, values: config.large_omap_values }
}
