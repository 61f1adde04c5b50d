//! Objects that are missing here and that no member of the group has: looking for them everywhere, and giving them up.
//!
//! | step | what happens |
//! |---|---|
//! | lost | work on an object that is missing here finds no copy that should have it: the work is put aside (`Recovery::unfound`) |
//! | look | everybody who may have it is asked what he holds under that name: members, and copies that are none, up or coming back |
//! | found | an answer names the version that the log wants: that copy gives the object, and the work goes on |
//! | unfound | everybody has answered, and nobody has it: it is counted, shown, and waits for somebody who comes back |
//! | given up | an operator gives the command: an entry of the log says what becomes of it, and all copies agree |
//!
//! *Data and owner.* [`Search`] belongs to the primary, in one interval. It holds what each copy said of each object that was asked for,
//! and which objects are unfound, as of the last look. `Members::finds` has who holds what.
//!
//! *Invariants.* A copy is asked one question at a time. An object is unfound only if it is missing here, nobody holds it, and
//! everybody who is up and may hold it has answered: members, and all who were members since the group was clean, whether or not they have
//! said that they are there. What a copy gives is taken only if its record names the version that was
//! wanted. Nothing is given up that somebody may have who is down, or who has not answered, or who cannot read what he holds: such OSDs must
//! come back, or be marked lost.
//!
//! *A copy that does not give* what it said it holds, because its data are damaged, is not asked for that object again before [`RETRY`] is
//! over. Else each answer would lead to the next question.
//!
//! *Order of writes.* The removal of what is given up, or its older version, its log entry and the end of its mark as missing are one
//! transaction at each copy. Where an older version counts again, only the primary has it at first: all others mark the object as
//! missing with that entry, and it is brought to them. A crash before that leaves the object unfound, or given up, never half.
//!
//! *Reverted* means: the version that this OSD holds counts again, if it holds one that the log knows. If another copy that can be reached
//! holds a newer one, nothing is done, and the cluster's log says so. Without an older version the object is removed. With a head
//! go its clones that its record no longer names; a clone that is given up leaves the record of its head.
//!
//! *Below the level of* [`Feature::UnfoundSearch`] nobody is asked: what no member should have is unfound at once. Below that of
//! [`Feature::LostEntries`] nothing is given up.

use crate::api::{ClusterLevel, Ctx, Effect, Gone, MaybeHas, UnfoundObject, UnfoundPage};
use crate::body::{Body, IndexChange, Progress};
use crate::changed::Changed;
use crate::core::Core;
use crate::entry::{Done, Kind, LogEntry};
use crate::info::ObjectInfo;
use crate::letter::{Letter, Sought};
use crate::missing::{Lack, missing_of};
use crate::object::removal;
use crate::primary::Primary;
use crate::primary::lanes::{Job, Work};
use crate::questions::{Questions, Subject};
use crate::stats::Stats;
use node::{Level, Mono};
use objectstore::{ObjectChange, ObjectChanges, Refused, Unread};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use types::{CopyId, EVersion, Feature, HObject, OsdId, SnapId, UTime};

/// After this, a copy that did not give what it said it holds is asked again: its disk may have failed once only.
const RETRY: Duration = Duration::from_secs(30);

/// What one copy said.
#[derive(Default)]
struct Heard {
    /// Of each object that it was asked for: the version that it holds, zero for none.
    told: BTreeMap<HObject, EVersion>,
    /// Those of `told` that it said it holds, and did not give.
    withheld: BTreeSet<HObject>,
    /// It cannot read what it holds. For now that is nothing; it may be anything.
    unable: bool,
}

impl Heard {
    /// Forgets what it did not give: it is asked for that again.
    fn forgive(&mut self) {
        let withheld = std::mem::take(&mut self.withheld);
        self.told.retain(|object, _| !withheld.contains(object));
    }
}

/// The search for objects that nobody has.
#[derive(Default)]
pub(crate) struct Search {
    heard: BTreeMap<CopyId, Heard>,
    /// Objects that nobody has who answered, and all have; with the version that is missed.
    unfound: BTreeMap<HObject, EVersion>,
    /// Somebody has not answered.
    open: bool,
    /// Time when those who did not give what they hold are asked again.
    again: Option<Mono>,
}

impl Search {
    /// Returns how many objects are unfound.
    pub(crate) fn count(&self) -> usize {
        self.unfound.len()
    }

    /// Returns true if somebody is asked who has not answered.
    pub(crate) fn is_open(&self) -> bool {
        self.open
    }

    /// Returns true if it keeps what a copy says.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn asks(&self, copy: CopyId) -> bool {
        self.heard.contains_key(&copy)
    }

    /// Returns true if everybody was asked for an object, and nobody has it.
    fn is_unfound(&self, object: &HObject) -> bool {
        self.unfound.contains_key(object)
    }

    /// Returns true if a copy that is filled may be told that it lacks what is missing here of a head.
    pub(crate) fn may_pass(&self, core: &Core, ctx: &Ctx<'_>, head: &HObject) -> bool {
        ctx.map.level.has(Feature::UnfoundPassed) && missing_of(&core.missing, head).all(|object| self.is_unfound(object))
    }

    /// Forgets what a copy said of lost objects: it told of itself, and that may not be so any more.
    pub(crate) fn ask_anew(&mut self, questions: &mut Questions, copy: CopyId) {
        self.heard.remove(&copy);
        questions.withdraw(|of, subject| *subject == Subject::Lost && of == copy);
    }

    /// Notes that a copy did not give an object that it said it holds.
    pub(crate) fn not_given(&mut self, now: Mono, from: CopyId, object: &HObject) {
        if let Some(heard) = self.heard.get_mut(&from) {
            heard.withheld.insert(object.clone());
            self.again.get_or_insert(now.plus(RETRY));
        }
    }

    /// Lets those be asked again who did not give what they hold, once it is time.
    pub(crate) fn ask_again(&mut self, now: Mono) {
        if self.again.take_if(|again| *again <= now).is_some() {
            self.heard.values_mut().for_each(Heard::forgive);
        }
    }

    /// Does so at once.
    #[cfg(feature = "sim")]
    pub(crate) fn forgive_all(&mut self) {
        self.heard.values_mut().for_each(Heard::forgive);
    }
}

/// What an operator wants of objects that are unfound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mercy {
    /// An older version counts again; objects that have none are removed.
    Revert,
    /// They are removed.
    Delete,
}

/// What is done about one head and its clones.
struct Loss {
    own: Body,
    /// What the other copies carry out.
    theirs: Body,
    /// Objects that are gone.
    gone: BTreeSet<HObject>,
    /// The head has an older version again.
    reverted: bool,
}

impl Primary {
    /// Objects of the heads that were put aside that nobody holds, with the versions that are missed.
    fn lost(&self, core: &Core) -> BTreeMap<HObject, EVersion> {
        let heads = self.recovery.unfound.keys();
        let objects = heads.flat_map(|head| missing_of(&core.missing, head));
        let lost = objects.filter(|object| !self.can_be_had(core, object));
        lost.map(|object| (object.clone(), core.missing[object].need)).collect()
    }

    /// Looks for what nobody has: asks who was not asked, and notes what is unfound.
    pub(crate) fn look_for_lost(&mut self, core: &mut Core, ctx: &mut Ctx<'_>) {
        let lost = self.lost(core);
        let asks = ctx.map.level.has(Feature::UnfoundSearch);
        let me = core.me(ctx);
        let up = |copy: &CopyId| asks && *copy != me && ctx.map.is_up(copy.osd);
        let told = self.members.all.keys().chain(&self.members.strays).copied();
        let askable: BTreeSet<CopyId> = match lost.is_empty() {
            true => BTreeSet::new(),
            false => told.chain(core.may_have(ctx).probe).filter(up).collect(),
        };
        let (search, questions) = (&mut self.search, &mut self.questions);
        search.heard.retain(|copy, _| askable.contains(copy));
        questions.withdraw(|copy, subject| *subject == Subject::Lost && !askable.contains(&copy));
        for copy in &askable {
            let heard = search.heard.entry(*copy).or_default();
            // What was brought, and is lost once more, is asked for anew; not what it did not give.
            let Heard { told, withheld, .. } = heard;
            withheld.retain(|object| core.missing.contains_key(object));
            told.retain(|object, _| lost.contains_key(object) || withheld.contains(object));
            if !questions.is_open(*copy, Subject::Lost) {
                let fresh = lost.iter().filter(|(object, _)| !heard.told.contains_key(*object)).take(ctx.config.sizes.question);
                let fresh: Vec<(HObject, EVersion)> = fresh.map(|(object, need)| (object.clone(), *need)).collect();
                if !fresh.is_empty() {
                    questions.ask(core, ctx, *copy, Subject::Lost, Letter::Seek(fresh));
                }
            }
        }
        search.open = search.heard.keys().any(|copy| questions.is_open(*copy, Subject::Lost));
        let answered = |object: &HObject| search.heard.values().all(|heard| heard.told.contains_key(object));
        let unfound: BTreeMap<HObject, EVersion> = lost.into_iter().filter(|(object, _)| answered(object)).collect();
        let news: Vec<HObject> = unfound.keys().filter(|object| !search.unfound.contains_key(*object)).cloned().collect();
        search.unfound = unfound;
        for object in news {
            core.log_line(ctx, Level::Warn, format!("{object} is unfound: no copy that can be reached has it"));
        }
    }

    /// Returns true if a copy was asked, and has not said what it holds, or cannot.
    fn is_silent(&self, copy: CopyId) -> bool {
        self.questions.is_open(copy, Subject::Lost) || self.search.heard.get(&copy).is_some_and(|heard| heard.unable)
    }

    /// A copy says what it holds of objects that it was asked for.
    pub(crate) fn hear_sought(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, from: CopyId, sought: Vec<Sought>) {
        let Some(Letter::Seek(asked)) = self.questions.answered(from, Subject::Lost).map(|open| open.letter) else { return };
        let asked: BTreeMap<HObject, EVersion> = asked.into_iter().collect();
        let Some(heard) = self.search.heard.get_mut(&from) else { return };
        heard.unable = false;
        for Sought { object, version, has } in sought {
            let Some(need) = asked.get(&object).copied() else { continue };
            if core.missing.get(&object).is_none_or(|lack| lack.need != need) {
                continue;
            }
            if has {
                self.members.finds.entry(from).or_default().insert(object.clone(), need);
            }
            heard.told.insert(object, version);
        }
        self.look_for_lost(core, ctx);
        self.due.recovery = true;
    }

    /// A copy that was asked cannot read what it holds. It is asked anew when it tells of itself.
    pub(crate) fn hear_unable(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, from: CopyId) {
        let Some(heard) = self.search.heard.get_mut(&from) else { return };
        heard.unable = true;
        if let Some(Letter::Seek(asked)) = self.questions.answered(from, Subject::Lost).map(|open| open.letter) {
            heard.told.extend(asked.into_iter().map(|(object, _)| (object, EVersion::default())));
        }
        self.look_for_lost(core, ctx);
        self.due.recovery = true;
    }

    /// Copies that are no members and are down give nothing any more; what was asked of them is asked of others.
    pub(crate) fn forget_who_is_down(&mut self, core: &mut Core, ctx: &mut Ctx<'_>) {
        let members = &self.members;
        let givers = members.sources.keys().chain(members.finds.keys()).chain(&members.strays);
        let down: BTreeSet<CopyId> = givers.copied().filter(|copy| !ctx.map.is_up(copy.osd)).collect();
        for copy in down {
            self.members.sources.remove(&copy);
            self.members.finds.remove(&copy);
            self.members.strays.remove(&copy);
            self.give_up_pulls(core, ctx, copy);
            self.due.recovery = true;
        }
    }

    /// Gives up what is unfound.
    pub(crate) fn mark_unfound_lost(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, mercy: Mercy) -> Gone {
        if !self.is_active() {
            return Gone::NotActive;
        }
        if !ctx.map.level.has(Feature::LostEntries) {
            return Gone::LowLevel(ctx.map.level);
        }
        self.look_for_lost(core, ctx);
        let objects: Vec<HObject> = self.search.unfound.keys().cloned().collect();
        let count = self.lost(core).len();
        if count == 0 {
            return Gone::Nothing;
        }
        let mut unheard: BTreeSet<OsdId> = core.may_have(ctx).down.into_iter().map(|copy| copy.osd).collect();
        unheard.extend(self.search.heard.keys().filter(|copy| self.is_silent(**copy)).map(|copy| copy.osd));
        if objects.len() < count || !unheard.is_empty() {
            return Gone::Unheard { objects: count, osds: unheard.into_iter().collect() };
        }
        let heads: BTreeSet<HObject> = objects.iter().map(|object| object.at(SnapId::HEAD)).collect();
        for head in heads {
            let head = core.object(head);
            self.enqueue(core, ctx, head, Work::Lose(mercy));
        }
        Gone::Marked(count)
    }

    /// Gives one head, or clones of it, up as far as that goes now.
    pub(crate) fn attempt_lose(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, job: Job) {
        let Work::Lose(mercy) = job.work else { return };
        match self.plan_loss(core, ctx, &job, mercy) {
            Ok(Some(loss)) => self.lose(core, ctx, job, loss),
            Ok(None) => self.end_lose(ctx, job),
            Err(Unread::Missing(wish)) => self.fetch_for(ctx, job, wish),
            Err(Unread::Damaged(damage)) => {
                core.report_damage(ctx, &job.head, &damage);
                self.end_lose(ctx, job);
            }
        }
    }

    fn end_lose(&mut self, ctx: &mut Ctx<'_>, job: Job) {
        if job.fetched {
            ctx.store.release(job.hold);
        }
        if let Some(lane) = self.lanes.get_mut(&job.head) {
            lane.held = lane.held.filter(|hold| *hold != job.hold);
            if lane.held.is_none() && lane.queue.is_empty() && lane.last.is_none() {
                self.lanes.remove(&job.head);
            }
        }
    }

    /// Returns what becomes of a head and its clones; `None`: nothing, since they were found, or are still on their
    /// way.
    fn plan_loss(&self, core: &Core, ctx: &mut Ctx<'_>, job: &Job, mercy: Mercy) -> Result<Option<Loss>, Unread> {
        let head: &HObject = &job.head.object;
        let lost: BTreeMap<HObject, EVersion> =
            self.lost(core).into_iter().filter(|(object, _)| crate::meta::same_object(object, head)).collect();
        if lost.is_empty() || !lost.keys().all(|object| self.search.is_unfound(object)) {
            return Ok(None);
        }
        let stored = ctx.store.stat(job.hold, &job.head)?.and_then(|stat| ObjectInfo::decode(&stat.info).ok());
        let mut unit: BTreeSet<HObject> = core.names_of(ctx, job.hold, &job.head)?.into_iter().collect();
        unit.extend(missing_of(&core.missing, head).cloned());
        let base = match lost.get(head) {
            None if core.missing.contains_key(head) || self.members.all.values().any(|m| m.lacks(head)) => return Ok(None),
            None => stored.clone(),
            Some(_) if mercy == Mercy::Delete => None,
            Some(need) => {
                let own = stored.clone().filter(|info| info.version < *need && core.counts(info.version));
                let version = own.as_ref().map_or(EVersion::default(), |info| info.version);
                if let Some((copy, newer)) = self.newer_elsewhere(core, head, *need, version) {
                    let text = format!(
                        "pg {}: {} is not given up: osd.{copy} holds version {newer} of it, this OSD {version}; let osd.{copy} lead \
                         the group (ceph osd primary-affinity) and try again",
                        core.id, job.head
                    );
                    ctx.out.push(Effect::ClusterLog { level: ClusterLevel::Warn, text });
                    return Ok(None);
                }
                own
            }
        };
        let reverted = base.is_some() && lost.contains_key(head);
        Ok(Some(self.loss(core, ctx, &unit, &lost, head, stored.as_ref(), base, reverted)))
    }

    /// Returns who holds an older version of an object that is newer than `own`.
    fn newer_elsewhere(&self, core: &Core, object: &HObject, need: EVersion, own: EVersion) -> Option<(CopyId, EVersion)> {
        let held = self.search.heard.iter().filter_map(|(copy, heard)| Some((*copy, *heard.told.get(object)?)));
        held.filter(|(_, version)| *version > own && *version < need && core.counts(*version)).max_by_key(|(_, version)| *version)
    }

    /// The bodies of a loss. `base`: what the head is from here on; `None`: it goes, and all its clones with it.
    #[allow(clippy::too_many_arguments)]
    fn loss(
        &self,
        core: &Core,
        ctx: &Ctx<'_>,
        unit: &BTreeSet<HObject>,
        lost: &BTreeMap<HObject, EVersion>,
        head: &HObject,
        stored: Option<&ObjectInfo>,
        base: Option<ObjectInfo>,
        reverted: bool,
    ) -> Loss {
        let named = |info: &ObjectInfo, object: &HObject| info.snaps.clones.iter().any(|clone| clone.id == object.snap.0);
        let stays = |object: &HObject| match &base {
            Some(_) if object.is_head() => true,
            Some(info) => named(info, object) && !lost.contains_key(object),
            None => false,
        };
        let gone: BTreeSet<HObject> = unit.iter().filter(|object| !stays(object)).cloned().collect();
        let mut index: Vec<IndexChange> = Vec::new();
        for clone in
            stored.into_iter().flat_map(|info| &info.snaps.clones).filter(|clone| gone.contains(&head.at(SnapId(clone.id))))
        {
            index.extend(clone.snaps.iter().map(|snap| IndexChange::NoSnap(*snap, head.clone())));
        }
        let mut version = EVersion { epoch: ctx.map.epoch, version: core.info.last_update.version };
        let mut entry = |kind, object: &HObject, prior, snaps| {
            version.version += 1;
            let done = Done { version, ..Done::default() };
            let (object, mtime, changed) = (object.clone().into(), UTime::ZERO, Changed::All);
            LogEntry { kind, object, prior, mtime, snaps, changed, before: None, done }
        };
        let prior = |object: &HObject| lost.get(object).copied().unwrap_or_default();
        let mut entries: Vec<LogEntry> =
            gone.iter().map(|object| entry(Kind::LostDelete, object, prior(object), Vec::new())).collect();
        let removals: Vec<ObjectChanges> = gone.iter().map(|object| removal(core.object(object.clone()))).collect();
        let clones = gone.iter().filter(|object| !object.is_head()).count() as i64;
        let delta = Stats { objects: -(gone.len() as i64), clones: -clones, ..Stats::default() };
        let mut changed = None;
        match base {
            None => index.push(IndexChange::Unwatched(head.clone())),
            Some(mut info) => {
                let before = info.version;
                while let Some(at) = info.snaps.clones.iter().position(|clone| gone.contains(&head.at(SnapId(clone.id)))) {
                    let left = info.snaps.clones.remove(at);
                    if let Some(older) = at.checked_sub(1).map(|i| &mut info.snaps.clones[i]) {
                        older.overlap = older.overlap.intersection(&left.overlap);
                    }
                }
                let kind = if reverted { Kind::LostRevert } else { Kind::Modify };
                let last = entry(kind, head, if reverted { prior(head) } else { before }, Vec::new());
                info.version = last.done.version;
                if reverted {
                    index.push(match info.watchers.is_empty() {
                        true => IndexChange::Unwatched(head.clone()),
                        false => IndexChange::Watched(head.clone()),
                    });
                }
                entries.push(last);
                let changes = vec![ObjectChange::SetInfo(info.encode())];
                changed = Some(ObjectChanges { object: core.object(head.clone()), changes });
            }
        }
        let recovered: Vec<HObject> = gone.iter().filter(|object| core.missing.contains_key(*object)).cloned().collect();
        let progress = |more: Option<&HObject>| {
            let recovered = recovered.iter().chain(more).cloned().collect();
            Some(Box::new(Progress { recovered, ..Progress::default() }))
        };
        let with = |changed: Option<ObjectChanges>| removals.iter().cloned().chain(changed).collect::<Vec<_>>();
        // Others have nothing that the older version could be made of: it is brought to them.
        let theirs = if reverted { with(None) } else { with(changed.clone()) };
        let theirs = Body { entries, objects: theirs, index, delta, progress: progress(None), ..Body::default() };
        let own = Body { objects: with(changed), progress: progress(reverted.then_some(head)), ..theirs.clone() };
        Loss { own, theirs, gone, reverted }
    }

    /// Carries a loss out, here and at all other copies; then what waited for the object goes on.
    fn lose(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, job: Job, loss: Loss) {
        let head = HObject::clone(&job.head.object);
        let Loss { own, theirs, gone, reverted } = loss;
        let version = own.version().unwrap_or_default();
        // What the lost versions held is not known: the statistics are counted again.
        core.history.estimated = true;
        match self.submit_apart(core, ctx, own, &theirs, &job) {
            Ok(()) => {}
            Err(Refused::Stopped) => return core.stopped(ctx),
            Err(refused) => {
                core.log_line(ctx, Level::Error, format!("{head} cannot be given up: the store refuses ({refused:?})"));
                return self.end_lose(ctx, job);
            }
        }
        for member in self.members.all.values_mut() {
            member.missing.retain(|object, _| !gone.contains(object));
            member.owed.retain(|object, _| !gone.contains(object));
            if reverted && member.reaches(&head) {
                member.missing.insert(head.clone(), Lack::whole(version));
            }
        }
        let what = match (reverted, gone.contains(&head)) {
            (true, _) => "an older version of it counts again".to_owned(),
            (false, true) => "it is removed".to_owned(),
            (false, false) => format!("{} of its clones are removed", gone.len()),
        };
        let text = format!("pg {}: {head} was lost: {what}", core.id);
        ctx.out.push(Effect::ClusterLog { level: ClusterLevel::Error, text });
        core.save(ctx);
        let key = job.head.clone();
        self.end_lose(ctx, job);
        if reverted {
            self.arm_watches(core, ctx, &head);
        }
        self.retry_unfound(core, ctx);
        self.look_for_lost(core, ctx);
        self.due.recovery = true;
        self.pump(core, ctx, &key);
    }

    /// Returns what is missing, unfound, and where it may be, as `list_unfound` shows it: so many objects behind the
    /// given one.
    pub(crate) fn list_unfound(&self, core: &Core, ctx: &Ctx<'_>, after: Option<&HObject>, most: usize) -> UnfoundPage {
        let mut missing: BTreeSet<&HObject> = core.missing.keys().collect();
        missing.extend(self.members.all.values().flat_map(|member| member.missing.keys()));
        let unfound = &self.search.unfound;
        let left = || unfound.iter().filter(|(object, _)| after.is_none_or(|after| *object > after));
        let objects = left().take(most).map(|(object, need)| UnfoundObject { object: object.clone(), need: *need }).collect();
        let leads = self.has_begun();
        UnfoundPage {
            missing: missing.len(),
            unfound: unfound.len(),
            objects,
            more: left().count() > most,
            active: leads,
            maybe: if leads { self.who_may_have(core, ctx) } else { Vec::new() },
        }
    }

    fn who_may_have(&self, core: &Core, ctx: &Ctx<'_>) -> Vec<(CopyId, MaybeHas)> {
        let mut all: BTreeMap<CopyId, MaybeHas> = BTreeMap::new();
        let me = core.me(ctx);
        let past = core.history.past.iter().flat_map(|interval| core.copies(&interval.acting));
        for copy in past.chain(self.members.strays.iter().copied()).filter(|copy| *copy != me) {
            let how = match () {
                () if !ctx.map.exists(copy.osd) => MaybeHas::Gone,
                () if !ctx.map.is_up(copy.osd) => MaybeHas::Down,
                () if self.is_silent(copy) => MaybeHas::Asked,
                () => MaybeHas::Answered,
            };
            all.insert(copy, how);
        }
        all.into_iter().collect()
    }

    /// Returns true if everything that is left to be brought is unfound.
    pub(crate) fn is_out_of_finds(&self) -> bool {
        self.search.count() > 0 && !self.is_bringing()
    }

    /// Checks what always holds of the search.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn check_search(&self, core: &Core) -> Result<(), String> {
        for (object, need) in &self.search.unfound {
            if core.missing.get(object).is_some_and(|lack| lack.need != *need) {
                return Err(format!("{object} is unfound in version {need}, and another one is missing"));
            }
        }
        let looks = !self.search.heard.is_empty() || !self.members.finds.is_empty();
        if looks && !self.has_begun() {
            return Err("a copy that does not lead looks for objects".into());
        }
        Ok(())
    }
}
