//! How the copies of a group agree on what it holds, before it serves.
//!
//! The primary of a new interval goes through these steps; any other interval begins anew.
//!
//! | step | until | Ceph's name |
//! |---|---|---|
//! | drain | what was submitted here is durable, and the map has this OSD up in its present life | Reset |
//! | ask | everybody who may know has told what he holds, and of each earlier interval in which something may have been written one member was heard | GetInfo, Down |
//! | choose | it is clear whose log counts and who shall serve; if that is not who the map has, the monitors are asked for another map | WaitActingChange, Incomplete |
//! | fetch and merge | that log is here, and what does not count is undone | GetLog |
//! | activate | each member has taken up the log, durably; the map knows that this OSD was up in the interval | Activating, WaitUpThru |
//! | wait | nobody may answer reads in an earlier interval any more ([`crate::lease`]) | Activating (`wait`) |
//! | watch | it is known who watches what | |
//!
//! Then operations run. With fewer members than the pool's `min_size` none do, and nothing of the group's own work that writes; but
//! objects are brought to who lacks them, so that there are more members.
//!
//! Why no acknowledged write is lost: it is durable at all members of its interval, and the interval is remembered by all of them.
//! A later primary hears one of them at least, or does not serve. Who answers has left his old interval, so no write is acknowledged
//! there any more.

use crate::api::{Ctx, Effect};
use crate::core::Core;
use crate::core::log_merge::{Merge, Merged};
use crate::history::{Told, in_both, is_lost_since};
use crate::lease::Rests;
use crate::letter::{Letter, LogPart, PeerInfo};
use crate::log::common;
use crate::primary::Primary;
use crate::primary::backfill::Backfill;
use crate::primary::members::{Member, Source, named};
use crate::primary::scrub::Order;
use crate::questions::Subject;
use crate::scheme::{NO_COPY, Plan, continues};
use bytes::Bytes;
use maps::pool_flags;
use node::{Level, Mono};
use objectstore::{Damage, Hold, Unread};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use types::{CopyId, EVersion, HObject, OsdId, PgState, is_osd};

/// Monitors are asked again after this, and the steps look whether they can go on.
const AGAIN: Duration = Duration::from_secs(2);

/// The step that is under way.
pub(crate) enum Step {
    Drain,
    Ask,
    /// The monitors shall let these serve.
    Wish(Vec<OsdId>),
    /// This OSD's log is asked for.
    Fetch(CopyId),
    Merge(Box<Merge>),
    /// The own log is read for the members.
    Read(Hold),
    Activate,
    /// Who watches what is read, under this hold, behind this key.
    Watch {
        hold: Hold,
        after: Bytes,
    },
}

/// Result of peering.
pub(crate) enum Outcome {
    /// All is agreed on: the primary that was made serves.
    Agreed,
    /// This copy cannot read its own log. It has said so.
    Broken,
    /// Nor can it read who watches what.
    Unreadable(Damage),
}

/// A group whose copies are about to agree.
pub(crate) struct Peering {
    pub(crate) step: Step,
    /// The primary that is being made: what is known of the other copies, and who watches what.
    pub(crate) primary: Box<Primary>,
    /// Its end. The group looks at it after each call, and nothing is done any more.
    pub(crate) outcome: Option<Outcome>,
    /// Words of the other copies.
    infos: BTreeMap<CopyId, PeerInfo>,
    /// Copies that hold nothing of the group.
    empty: BTreeSet<CopyId>,
    /// Copies that cannot read what they hold.
    unable: BTreeSet<CopyId>,
    /// Who is waited for, beyond those who were asked: down, and perhaps the only one who knows something.
    pub(crate) needed: BTreeSet<CopyId>,
    /// No copy is complete, or too few are.
    pub(crate) incomplete: bool,
    /// Reason for that.
    why: &'static str,
    plan: Plan,
    again: Mono,
    /// Promises to members of earlier intervals.
    rests: Rests,
    /// Who wrote in this interval, and so has left his earlier ones.
    left: BTreeSet<CopyId>,
    /// All is agreed on, but a member of an earlier interval may answer reads up to then.
    wait: Option<Mono>,
}

impl Peering {
    fn new(now: Mono, primary: Primary) -> Self {
        Self {
            step: Step::Drain,
            primary: Box::new(primary),
            outcome: None,
            infos: BTreeMap::new(),
            empty: BTreeSet::new(),
            unable: BTreeSet::new(),
            needed: BTreeSet::new(),
            incomplete: false,
            why: "",
            plan: Plan::default(),
            again: now.plus(AGAIN),
            rests: Rests::default(),
            left: BTreeSet::new(),
            wait: None,
        }
    }

    /// The interval is over.
    pub(crate) fn end(&mut self, ctx: &mut Ctx<'_>) {
        let hold = match &self.step {
            Step::Merge(merge) => merge.hold,
            Step::Read(hold) => *hold,
            Step::Watch { hold, .. } => *hold,
            _ => return,
        };
        ctx.store.release(hold);
    }

    pub(crate) fn deadline(&self) -> Mono {
        self.again.min(self.wait.unwrap_or(Mono::NEVER)).min(self.primary.questions.deadline())
    }

    /// Returns who is waited for.
    pub(crate) fn blocked_by(&self) -> Vec<CopyId> {
        if matches!(self.step, Step::Activate) {
            let members = self.primary.members.all.iter();
            return members.filter(|(_, member)| member.acting && !member.activated).map(|(copy, _)| *copy).collect();
        }
        self.needed.iter().copied().chain(self.silent()).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Returns who was asked what he holds, and has not answered.
    fn silent(&self) -> impl Iterator<Item = CopyId> {
        let asked = self.primary.questions.iter().filter(|(_, subject, _)| **subject == Subject::Holdings);
        asked.map(|(copy, ..)| copy)
    }

    /// Returns true if a copy has answered.
    fn is_heard(&self, copy: CopyId) -> bool {
        self.infos.contains_key(&copy) || self.empty.contains(&copy) || self.unable.contains(&copy)
    }

    /// Returns true if an OSD has written in this interval.
    fn has_left(&self, osd: OsdId) -> bool {
        let on = CopyId::on(osd);
        let told = [&self.empty, &self.unable, &self.left].into_iter().any(|told| told.range(on.clone()).next().is_some());
        told || self.infos.range(on).next().is_some()
    }

    /// Returns what is true of the group.
    pub(crate) fn state(&self) -> PgState {
        match self.step {
            _ if !self.needed.is_empty() => PgState::DOWN,
            _ if self.incomplete => PgState::INCOMPLETE,
            Step::Activate | Step::Watch { .. } if self.wait.is_some() => PgState::ACTIVATING.with(PgState::WAIT),
            Step::Activate | Step::Watch { .. } => PgState::ACTIVATING,
            _ => PgState::PEERING,
        }
    }

    /// Returns where the steps are, in Ceph's words.
    pub(crate) fn name(&self) -> &'static str {
        match self.step {
            _ if !self.needed.is_empty() => "Started/Primary/Peering/Down",
            _ if self.incomplete => "Started/Primary/Peering/Incomplete",
            Step::Drain => "Reset",
            Step::Ask => "Started/Primary/Peering/GetInfo",
            Step::Wish(_) => "Started/Primary/WaitActingChange",
            Step::Fetch(_) | Step::Merge(_) => "Started/Primary/Peering/GetLog",
            Step::Read(_) => "Started/Primary/Peering/GetMissing",
            Step::Activate | Step::Watch { .. } => "Started/Primary/Active/Activating",
        }
    }
}

impl Peering {
    /// This OSD leads the group in the interval that has begun. Call [`Peering::step`] then.
    pub(crate) fn begin(core: &Core, ctx: &mut Ctx<'_>, ordered: Option<Order>) -> Self {
        if core.history.needs_up_thru() {
            ctx.out.push(Effect::WantUpThru(core.history.since));
        }
        Self::new(ctx.now.mono, Primary { ordered, ..Primary::default() })
    }

    /// Goes on, as far as nothing has to be waited for.
    pub(crate) fn step(&mut self, core: &mut Core, ctx: &mut Ctx<'_>) {
        while self.outcome.is_none() {
            let on = match &self.step {
                Step::Drain => {
                    let up = ctx.is_up;
                    #[cfg(feature = "sim")]
                    let up = up || core.mistake == Some(crate::selfcheck::Mistake::ServeBeforeUp);
                    let drained = up && core.is_drained();
                    if drained {
                        self.step = Step::Ask;
                    }
                    drained
                }
                Step::Ask => self.ask(core, ctx) && self.choose(core, ctx),
                Step::Wish(_) | Step::Fetch(_) => false,
                Step::Merge(_) => self.go_on_with_merge(core, ctx),
                Step::Read(hold) => {
                    let hold = *hold;
                    self.activate_members(core, ctx, hold)
                }
                Step::Activate => self.begin_watch(core, ctx),
                Step::Watch { .. } => self.read_who_watches(core, ctx),
            };
            if !on {
                return;
            }
        }
    }

    /// There is another map, in the same interval.
    ///
    /// A copy that has just joined knows its interval from its own map on, and does not read letters of older maps: what it has not
    /// answered is said again with this one.
    pub(crate) fn new_map(&mut self, core: &mut Core, ctx: &mut Ctx<'_>) {
        #[cfg(feature = "sim")]
        let forgets = core.mistake != Some(crate::selfcheck::Mistake::KeepGone);
        #[cfg(not(feature = "sim"))]
        let forgets = true;
        if forgets {
            self.forget_who_is_gone(ctx);
        }
        if matches!(self.step, Step::Activate) {
            self.primary.questions.repeat(core, ctx, |_, subject| *subject == Subject::Activation);
        }
        self.step(core, ctx);
    }

    /// What copies told that are gone, or were gone for a moment, counts no more. If a step waits for one of them, the steps go back to asking.
    ///
    /// This copy sees each map of its interval, so an OSD that came back has come up with this very map.
    fn forget_who_is_gone(&mut self, ctx: &Ctx<'_>) {
        let here = |osd: OsdId| osd == ctx.whoami || ctx.map.is_up(osd) && ctx.map.up_from(osd) != ctx.map.epoch;
        let stays = |copy: &CopyId| here(copy.osd);
        self.infos.retain(|copy, _| stays(copy));
        self.empty.retain(&stays);
        self.unable.retain(&stays);
        let early = |subject: &Subject| matches!(subject, Subject::Holdings | Subject::Log);
        self.primary.questions.withdraw(|copy, subject| early(subject) && !stays(&copy));
        let waits_for_nobody = match &self.step {
            Step::Fetch(from) => !stays(from),
            Step::Wish(acting) => !acting.iter().filter(|osd| is_osd(**osd)).all(|osd| here(*osd)),
            _ => false,
        };
        if waits_for_nobody {
            self.step = Step::Ask;
        }
    }

    /// Takes over what other copies know of earlier intervals, and writes it down: whoever was heard now may be gone when it is needed.
    fn learn_past(&mut self, core: &mut Core, ctx: &mut Ctx<'_>) {
        #[cfg(feature = "sim")]
        if core.mistake == Some(crate::selfcheck::Mistake::IgnoreGaps) {
            return;
        }
        let mut learned = false;
        for peer in self.infos.values() {
            learned |= core.history.learn(&peer.history);
            learned |= core.history.close_gaps(&peer.history);
        }
        if learned {
            core.save(ctx);
        }
    }

    /// Asks everybody who may know something. True when enough was heard.
    fn ask(&mut self, core: &mut Core, ctx: &mut Ctx<'_>) -> bool {
        let me = core.me(ctx);
        let blank = core.history.created == 0;
        self.learn_past(core, ctx);
        let up = || ctx.map.osds().filter(|osd| ctx.map.is_up(*osd));
        let everybody = || up().flat_map(|osd| core.copies_on(osd)).filter(|copy| *copy != me).collect::<BTreeSet<_>>();
        let known = self.infos.values().max_by_key(|peer| (peer.history.clean, peer.history.started)).cloned();
        // Some copy knows the group's life; only then is it clear who else must be heard.
        let mut history = core.history.clone();
        if let (true, Some(known)) = (blank, &known) {
            history.adopt(&known.history);
            self.infos.values().for_each(|peer| _ = history.learn(&peer.history));
        }
        let whole = self.infos.iter().map(|(copy, peer)| (*copy, peer.history.whole_since()));
        let whole = whole.chain([(me, core.history.whole_since())]).collect();
        // What all who know the group do not know.
        let knowing = self.infos.values().map(|peer| &peer.history).filter(|other| other.created > 0);
        let gaps = knowing.fold(history.gaps(), |gaps, other| in_both(&gaps, &other.gaps()));
        let mut told = Told { empty: self.empty.clone(), unable: self.unable.clone(), whole, gaps };
        if blank {
            told.empty.insert(me);
        }
        #[cfg(feature = "sim")]
        match core.mistake {
            Some(crate::selfcheck::Mistake::TrustEmpty) => history.disprove(me.shard, &told.empty),
            Some(crate::selfcheck::Mistake::CountReplaced) => told.whole.clear(),
            Some(crate::selfcheck::Mistake::LeapGaps) => told.gaps.clear(),
            _ => {}
        }
        let prior = history.prior(ctx.map, me, core.scheme.least(), &told);
        #[cfg(feature = "sim")]
        let prior = match core.mistake {
            Some(crate::selfcheck::Mistake::NeedAll) => {
                crate::history::Prior { needed: prior.needed.union(&prior.down).copied().collect(), ..prior }
            }
            _ => prior,
        };
        let probe = if blank && known.is_none() { everybody() } else { prior.probe.clone() };
        let blocked = !prior.needed.is_empty() && prior.needed != self.needed;
        self.needed = prior.needed;
        self.primary.questions.withdraw(|copy, subject| *subject == Subject::Holdings && !ctx.map.is_up(copy.osd));
        for copy in probe {
            if !self.is_heard(copy) && !self.primary.questions.is_open(copy, Subject::Holdings) {
                self.primary.questions.ask(core, ctx, copy, Subject::Holdings, Letter::Query);
            }
        }
        let heard = self.silent().next().is_none() && self.needed.is_empty();
        if blocked {
            core.log_line(ctx, Level::Warn, format!("does not serve: {}", self.because(core)));
        }
        heard
    }

    /// Decides whose log counts and who shall serve. True if the steps go on.
    fn choose(&mut self, core: &mut Core, ctx: &mut Ctx<'_>) -> bool {
        let me = core.me(ctx);
        if core.history.created == 0 && !self.is_born(core, ctx) {
            return false;
        }
        let own = core.peer_info();
        let rests = core.rests(ctx);
        self.rests.hear(ctx.now.mono, &rests);
        let mut infos = self.infos.clone();
        // Who holds nothing has an empty log: it can be continued if it goes back to the beginning.
        infos.extend(self.empty.iter().map(|copy| (*copy, PeerInfo::default())));
        infos.insert(me, own);
        let interval = core.history.interval.clone();
        let chosen = match core.scheme.plan(&infos, &interval, me, |osd, since| is_lost_since(ctx.map, osd, since)) {
            Ok(chosen) => chosen,
            Err(why) => {
                if !self.incomplete || self.why != why {
                    (self.incomplete, self.why) = (true, why);
                    core.log_line(ctx, Level::Warn, format!("does not serve: {why}"));
                }
                return false;
            }
        };
        #[cfg(feature = "sim")]
        let chosen = chosen.spoilt(core.mistake, &infos);
        let same = core.copies(&chosen.acting).eq(core.copies(&interval.acting));
        self.incomplete = false;
        self.plan = chosen.clone();
        if !same {
            self.step = Step::Wish(chosen.acting.clone());
            ctx.out.push(Effect::WantActing(chosen.acting));
            return false;
        }
        let behind = chosen.cut.filter(|cut| *cut < core.info.last_update);
        #[cfg(feature = "sim")]
        let behind = behind.filter(|_| core.mistake != Some(crate::selfcheck::Mistake::UndoElsewhere));
        if let (true, Some(cut)) = (chosen.leader == me, behind) {
            // What came behind that is undone here as at all other copies.
            core.log_line(ctx, Level::Info, format!("goes back from version {} to {cut}", core.info.last_update));
            self.step = Step::Merge(Box::new(core.go_back(ctx, cut)));
            return true;
        }
        if chosen.leader == me {
            let hold = core.next_hold(ctx);
            self.step = Step::Read(hold);
            return true;
        }
        let wish = self.log_wish(core, chosen.leader);
        self.step = Step::Fetch(chosen.leader);
        self.primary.questions.ask(core, ctx, chosen.leader, Subject::Log, wish);
        false
    }

    /// The question for what is lacking here of the log that counts.
    fn log_wish(&self, core: &Core, leader: CopyId) -> Letter {
        let theirs = self.infos.get(&leader).map(|peer| &peer.runs[..]).unwrap_or_default();
        let shared = common(&core.peer_info().runs, theirs);
        Letter::LogWish(self.plan.cut.map_or(shared, |cut| cut.min(shared)))
    }

    /// Nobody holds anything of a group that this OSD leads. Whether it is new: its pool is still being created, and nobody who is down
    /// now could have made it. If so it comes to be.
    fn is_born(&mut self, core: &mut Core, ctx: &mut Ctx<'_>) -> bool {
        if let Some(known) = self.infos.values().max_by_key(|peer| (peer.history.clean, peer.history.started)) {
            // It exists, and this copy is filled like any new one; but it may not lead.
            core.history.adopt(&known.history.clone());
            core.history.backfill = Some(HObject::min());
            return true;
        }
        let creating = ctx.map.pools.get(&core.id.pg.pool).filter(|pool| pool.has_flag(pool_flags::CREATING));
        #[cfg(feature = "sim")]
        let creating = match core.mistake {
            Some(crate::selfcheck::Mistake::BornAgain) => ctx.map.pools.get(&core.id.pg.pool),
            _ => creating,
        };
        // Who cannot read what it holds of the group holds something.
        let Some(pool) = creating.filter(|_| self.unable.is_empty()) else {
            (self.incomplete, self.why) = (true, NO_COPY);
            return false;
        };
        // These times are in the order of the maps, whatever the monitors' clocks say (`monstate::osds::create_time`).
        let suspects = ctx.map.osds().filter(|osd| {
            let known = usize::try_from(*osd).ok().and_then(|n| ctx.map.osd_xinfo.get(n));
            let lost = ctx.map.info(*osd).is_some_and(|info| info.lost_at > 0 && info.lost_at >= info.down_at);
            let since = known.is_none_or(|x| x.down_stamp >= pool.create_time);
            !ctx.map.is_up(*osd) && ctx.map.up_from(*osd) > 0 && since && !lost
        });
        // Whatever it holds, it is waited for.
        self.needed = suspects.map(|osd| CopyId { osd, shard: core.id.shard }).collect();
        if !self.needed.is_empty() {
            return false;
        }
        core.be_born(ctx);
        true
    }

    /// The log that counts is here.
    fn begin_merge(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, from: CopyId, mut part: Box<LogPart>) {
        if let Some(cut) = self.plan.cut {
            part.end_at(cut);
        }
        let missing: BTreeMap<HObject, EVersion> = part.missing.iter().cloned().collect();
        self.primary.members.sources.insert(from, Source { head: part.info.last_update, missing });
        core.history.adopt(&part.history);
        core.history.estimated = part.history.estimated;
        part.history.purged.iter().for_each(|(start, len)| core.history.purged.insert(start, len));
        let merge = core.merge(ctx, part, false);
        self.step = Step::Merge(Box::new(merge));
        self.step(core, ctx);
    }

    fn go_on_with_merge(&mut self, core: &mut Core, ctx: &mut Ctx<'_>) -> bool {
        let Step::Merge(mut merge) = std::mem::replace(&mut self.step, Step::Drain) else {
            return false;
        };
        match core.step_merge(ctx, &mut merge) {
            Merged::Waits => {
                self.step = Step::Merge(merge);
                false
            }
            Merged::Done => {
                let hold = core.next_hold(ctx);
                self.step = Step::Read(hold);
                true
            }
            Merged::Refused => {
                self.step = Step::Merge(merge);
                core.log_line(ctx, Level::Error, "the store does not take up the group's log".into());
                false
            }
            Merged::Unreadable(what) => {
                core.log_line(ctx, Level::Error, format!("cannot take up the group's log: {what} is damaged"));
                self.outcome = Some(Outcome::Broken);
                false
            }
        }
    }

    /// Gives each member the part of the log that it lacks.
    fn activate_members(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, hold: Hold) -> bool {
        let (chosen, infos) = (self.plan.clone(), self.infos.clone());
        let own = core.peer_info();
        let tail = core.info.log_tail;
        let (me, acting) = (core.me(ctx), core.copies(&chosen.acting).collect::<BTreeSet<_>>());
        let others: Vec<CopyId> = acting.iter().chain(&chosen.backfill).copied().filter(|copy| *copy != me).collect();
        let nothing = PeerInfo::default();
        let begin = |copy: &CopyId| {
            let peer = infos.get(copy).unwrap_or(&nothing);
            (*copy, continues(peer, &own, tail).then(|| common(&peer.runs, &own.runs)))
        };
        // Where each one's log ends that this one continues; `None`: it begins anew.
        let begins: BTreeMap<CopyId, Option<EVersion>> = others.iter().map(begin).collect();
        let lowest = begins.values().map(|begin| begin.unwrap_or(tail)).min();
        let entries = match lowest.map(|lowest| core.read_log_behind(ctx, hold, lowest)).transpose() {
            Ok(entries) => entries.unwrap_or_default(),
            Err(Unread::Missing(wish)) => {
                ctx.store.fetch(hold, wish);
                return false;
            }
            Err(Unread::Damaged(damage)) => {
                ctx.store.release(hold);
                core.log_line(ctx, Level::Error, format!("its log cannot be read: {} is damaged", damage.what));
                self.outcome = Some(Outcome::Broken);
                return false;
            }
        };
        ctx.store.release(hold);
        core.history.started = core.history.since;
        core.save(ctx);
        self.primary.note_sources(core, &infos, &own);
        for (copy, begin) in begins {
            let common = begin.unwrap_or(tail);
            let entries = entries.iter().filter(|entry| entry.done.version > common).cloned().collect();
            let dups = if begin.is_none() { core.log.duplicates().cloned().collect() } else { Vec::new() };
            let (info, history, missing) = (core.info.clone(), core.history.clone(), Vec::new());
            let part = LogPart { info, history, common, anew: begin.is_none(), entries, dups, missing };
            let cursor = match begin {
                None => Some(HObject::min()),
                Some(_) => infos.get(&copy).and_then(|peer| peer.history.backfill.clone()),
            };
            let backfill = cursor.map(|cursor| Box::new(Backfill::from(cursor)));
            let acting = acting.contains(&copy);
            let member = Member { acting, backfill, ..Member::default() };
            self.primary.members.all.insert(copy, member);
            self.primary.questions.ask(core, ctx, copy, Subject::Activation, Letter::Activate(Box::new(part)));
        }
        self.step = Step::Activate;
        true
    }

    /// Returns true if all members are ready, and the map knows enough.
    fn is_agreed(&self, core: &Core) -> bool {
        let there = matches!(self.step, Step::Activate);
        let ready = self.primary.members.all.values().all(|member| !member.acting || member.activated);
        // What this copy has taken up is durable here, too, before anybody is told of it.
        let durable = core.commits.is_empty();
        there && ready && durable && self.is_known_up(core)
    }

    /// Returns true if the map says, where that matters, that this OSD was up in the interval.
    fn is_known_up(&self, core: &Core) -> bool {
        #[cfg(feature = "sim")]
        if core.mistake == Some(crate::selfcheck::Mistake::NoUpThru) {
            return true;
        }
        !core.history.needs_up_thru()
    }

    /// Returns true if an earlier primary, or a copy that followed it, may still answer reads.
    fn waits_for_rests(&mut self, core: &Core, ctx: &Ctx<'_>) -> bool {
        #[cfg(feature = "sim")]
        if core.mistake == Some(crate::selfcheck::Mistake::IgnoreRests) {
            return false;
        }
        // An OSD that wrote as one copy has the map that ended the interval, and so have its other copies.
        let left = |osd| self.has_left(osd);
        let until = self.rests.until(ctx.map, &core.history.past, ctx.whoami, left);
        self.wait = (until > ctx.now.mono).then_some(until);
        self.wait.is_some()
    }

    fn begin_watch(&mut self, core: &mut Core, ctx: &mut Ctx<'_>) -> bool {
        if !self.is_agreed(core) || self.waits_for_rests(core, ctx) {
            return false;
        }
        let hold = core.next_hold(ctx);
        self.step = Step::Watch { hold, after: Bytes::new() };
        true
    }

    /// Takes what a copy says.
    pub(crate) fn hear(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, from: CopyId, letter: Letter) {
        match letter {
            Letter::Info(info) => self.hear_info(core, ctx, from, *info),
            Letter::Absent => {
                self.left.insert(from);
                self.empty.insert(from);
                self.primary.questions.answered(from, Subject::Holdings);
                self.step(core, ctx);
            }
            Letter::Unable => {
                self.unable.insert(from);
                self.infos.remove(&from);
                self.primary
                    .questions
                    .withdraw(|copy, subject| copy == from && matches!(subject, Subject::Holdings | Subject::Log));
                // It was asked for its log, which it cannot read: others are looked at.
                if matches!(self.step, Step::Fetch(copy) if copy == from) {
                    self.step = Step::Ask;
                }
                self.step(core, ctx);
            }
            Letter::Log(part) => {
                let wanted = matches!(self.step, Step::Fetch(copy) if copy == from);
                if wanted && part.is_whole() && part.common <= core.info.last_update {
                    self.primary.questions.answered(from, Subject::Log);
                    self.begin_merge(core, ctx, from, part);
                }
            }
            Letter::Activated(missing) => {
                if self.primary.hear_activated(core, ctx, from, missing) {
                    self.step(core, ctx);
                }
            }
            other => self.primary.hear(core, ctx, from, other),
        }
    }

    fn hear_info(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, from: CopyId, info: PeerInfo) {
        self.left.insert(from);
        self.rests.hear(ctx.now.mono, &info.rests);
        // A copy that is not asked for may know what is missed; asked or not, it is heard.
        if matches!(self.step, Step::Drain | Step::Ask) {
            self.primary.questions.answered(from, Subject::Holdings);
            self.empty.remove(&from);
            self.infos.insert(from, info);
        } else if !self.primary.members.all.contains_key(&from) {
            // It says so once: it is removed when the group is clean.
            self.primary.members.strays.insert(from);
        }
        self.step(core, ctx);
    }

    /// The session to a copy was broken, and stands again or may be tried again: what it has not answered is asked again.
    pub(crate) fn peer_returns(&mut self, core: &Core, ctx: &mut Ctx<'_>, copy: CopyId) {
        self.primary.questions.repeat(core, ctx, |to, _| to == copy);
    }

    /// What time brings while the copies agree.
    pub(crate) fn turn(&mut self, core: &mut Core, ctx: &mut Ctx<'_>) {
        let now = ctx.now.mono;
        self.primary.questions.turn(core, ctx);
        let needs_up_thru = core.history.needs_up_thru();
        let since = core.history.since;
        if self.wait.is_some_and(|until| until <= now) {
            return self.step(core, ctx);
        }
        if self.again > now {
            return;
        }
        self.again = now.plus(AGAIN);
        if let Step::Wish(acting) = &self.step {
            ctx.out.push(Effect::WantActing(acting.clone()));
        }
        if needs_up_thru {
            ctx.out.push(Effect::WantUpThru(since));
        }
        self.step(core, ctx);
    }

    /// Reads who watches what; then all is agreed on. False: that is the end, or the store fetches something.
    fn read_who_watches(&mut self, core: &mut Core, ctx: &mut Ctx<'_>) -> bool {
        let Step::Watch { hold, after } = &self.step else { return false };
        let hold = *hold;
        let read = self.primary.read_watches(core, ctx, hold, after);
        if let Err(Unread::Missing(wish)) = read {
            ctx.store.fetch(hold, wish);
            return false;
        }
        match read {
            Ok(Some(after)) => {
                self.step = Step::Watch { hold, after };
                return true;
            }
            Err(Unread::Damaged(damage)) => self.outcome = Some(Outcome::Unreadable(damage)),
            _ => self.outcome = Some(Outcome::Agreed),
        }
        ctx.store.release(hold);
        false
    }

    /// Returns why the steps do not go on, and what helps.
    pub(crate) fn because(&self, core: &Core) -> String {
        let blocked = self.blocked_by();
        match () {
            () if !self.needed.is_empty() => {
                let needed: Vec<CopyId> = self.needed.iter().copied().collect();
                format!("{} may have the newest writes: start it, or give it up with 'ceph osd lost'", named(&needed))
            }
            () if self.incomplete => self.why.into(),
            () if core.history.needs_up_thru() => "the monitors have not confirmed that this OSD is up".into(),
            () if !blocked.is_empty() => format!("it waits for {}", named(&blocked)),
            () => String::new(),
        }
    }
}
