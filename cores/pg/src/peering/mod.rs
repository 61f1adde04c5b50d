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

pub(crate) mod choose;

use crate::api::{Ctx, Effect};
use crate::backfill::Backfill;
use crate::core::log_merge::{Merge, Merged, common};
use crate::history::{Told, in_both};
use crate::lease::Rests;
use crate::letter::{Letter, LogPart, PeerInfo};
use crate::members::{Member, Source};
use crate::missing::Lack;
use crate::pg::{Pg, Phase};
use choose::{Plan, continues, plan};
use maps::pool_flags;
use node::{Level, Mono};
use objectstore::{Hold, Unread};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use types::{EVersion, HObject, OsdId, PgState};

/// What is not answered is asked again after this, also by the monitors.
const AGAIN: Duration = Duration::from_secs(2);

/// Where the steps are.
pub(crate) enum Step {
    Drain,
    Ask,
    /// The monitors shall let these serve.
    Wish(Vec<OsdId>),
    /// This OSD's log is asked for.
    Fetch(OsdId),
    Merge(Box<Merge>),
    /// The own log is read for the members.
    Read(Hold),
    Activate,
    /// Who watches what is read.
    Watch(Box<crate::load::Loading>),
}

/// A group whose copies are about to agree.
pub(crate) struct Peering {
    pub(crate) step: Step,
    /// What the other copies told.
    infos: BTreeMap<OsdId, PeerInfo>,
    /// Who holds nothing of the group.
    empty: BTreeSet<OsdId>,
    /// Who cannot read what he holds.
    unable: BTreeSet<OsdId>,
    /// Who was asked.
    asked: BTreeSet<OsdId>,
    /// Who is waited for, beyond those who were asked: down, and perhaps the only one who knows something.
    pub(crate) needed: BTreeSet<OsdId>,
    /// No copy is complete.
    pub(crate) incomplete: bool,
    plan: Plan,
    again: Mono,
    /// Promises to members of earlier intervals.
    rests: Rests,
    /// Who wrote in this interval, and so has left his earlier ones.
    left: BTreeSet<OsdId>,
    /// All is agreed on, but a member of an earlier interval may answer reads up to then.
    wait: Option<Mono>,
}

impl Peering {
    fn new(now: Mono) -> Self {
        Self {
            step: Step::Drain,
            infos: BTreeMap::new(),
            empty: BTreeSet::new(),
            unable: BTreeSet::new(),
            asked: BTreeSet::new(),
            needed: BTreeSet::new(),
            incomplete: false,
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
            Step::Watch(loading) => loading.hold,
            _ => return,
        };
        ctx.store.release(hold);
    }

    pub(crate) fn deadline(&self) -> Mono {
        self.again.min(self.wait.unwrap_or(Mono::NEVER))
    }

    /// Who is waited for.
    pub(crate) fn blocked_by(&self) -> Vec<OsdId> {
        let silent = self.asked.iter().filter(|osd| !self.is_heard(**osd));
        self.needed.iter().chain(silent).copied().collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Whether an OSD has answered.
    fn is_heard(&self, osd: OsdId) -> bool {
        self.infos.contains_key(&osd) || self.empty.contains(&osd) || self.unable.contains(&osd)
    }

    /// What is true of the group.
    pub(crate) fn state(&self) -> PgState {
        match self.step {
            _ if !self.needed.is_empty() => PgState::DOWN,
            _ if self.incomplete => PgState::INCOMPLETE,
            Step::Activate | Step::Watch(_) if self.wait.is_some() => PgState::ACTIVATING.with(PgState::WAIT),
            Step::Activate | Step::Watch(_) => PgState::ACTIVATING,
            _ => PgState::PEERING,
        }
    }

    /// Where the steps are, in Ceph's words.
    pub(crate) fn name(&self) -> &'static str {
        match self.step {
            _ if !self.needed.is_empty() => "Started/Primary/Peering/Down",
            _ if self.incomplete => "Started/Primary/Peering/Incomplete",
            Step::Drain => "Reset",
            Step::Ask => "Started/Primary/Peering/GetInfo",
            Step::Wish(_) => "Started/Primary/WaitActingChange",
            Step::Fetch(_) | Step::Merge(_) => "Started/Primary/Peering/GetLog",
            Step::Read(_) => "Started/Primary/Peering/GetMissing",
            Step::Activate | Step::Watch(_) => "Started/Primary/Active/Activating",
        }
    }
}

impl Pg {
    pub(crate) fn peering(&mut self) -> Option<&mut Peering> {
        match &mut self.phase {
            Phase::Peering(peering) => Some(peering),
            _ => None,
        }
    }

    /// This OSD leads the group in the interval that has begun.
    pub(crate) fn begin_peering(&mut self, ctx: &mut Ctx<'_>) {
        self.phase = Phase::Peering(Box::new(Peering::new(ctx.now.mono)));
        self.members = Default::default();
        if self.core.history.needs_up_thru() {
            ctx.out.push(Effect::WantUpThru(self.core.history.since));
        }
        self.step_peering(ctx);
    }

    fn set_step(&mut self, step: Step) {
        if let Some(peering) = self.peering() {
            peering.step = step;
        }
    }

    /// Goes on, as far as nothing has to be waited for.
    pub(crate) fn step_peering(&mut self, ctx: &mut Ctx<'_>) {
        loop {
            let Phase::Peering(peering) = &mut self.phase else { return };
            let on = match &mut peering.step {
                Step::Drain => {
                    let up = ctx.is_up;
                    #[cfg(feature = "sim")]
                    let up = up || self.core.mistake == Some(crate::selfcheck::Mistake::ServeBeforeUp);
                    let drained = up && self.core.is_drained();
                    if drained {
                        peering.step = Step::Ask;
                    }
                    drained
                }
                Step::Ask => self.ask(ctx) && self.choose(ctx),
                Step::Wish(_) | Step::Fetch(_) => false,
                Step::Merge(_) => self.go_on_with_merge(ctx),
                Step::Read(hold) => {
                    let hold = *hold;
                    self.activate_members(ctx, hold)
                }
                Step::Activate => self.begin_watch(ctx),
                Step::Watch(_) => self.read_who_watches(ctx),
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
    pub(crate) fn peering_map(&mut self, ctx: &mut Ctx<'_>) {
        self.forget_who_is_gone(ctx);
        if matches!(&self.phase, Phase::Peering(peering) if matches!(peering.step, Step::Activate)) {
            let silent = self.members.all.iter().filter(|(_, member)| !member.activated).map(|(osd, _)| *osd);
            silent.collect::<Vec<_>>().into_iter().for_each(|osd| self.resend(ctx, osd));
        }
        self.step_peering(ctx);
    }

    /// What copies told that are gone, or were gone for a moment, counts no more. If a step waits for one of them, the steps go back to asking.
    ///
    /// This copy sees each map of its interval, so an OSD that came back has come up with this very map.
    fn forget_who_is_gone(&mut self, ctx: &Ctx<'_>) {
        #[cfg(feature = "sim")]
        if self.core.mistake == Some(crate::selfcheck::Mistake::KeepGone) {
            return;
        }
        let Phase::Peering(peering) = &mut self.phase else { return };
        let stays = |osd: &OsdId| *osd == ctx.whoami || ctx.map.is_up(*osd) && ctx.map.up_from(*osd) != ctx.map.epoch;
        peering.infos.retain(|osd, _| stays(osd));
        peering.empty.retain(&stays);
        peering.unable.retain(&stays);
        peering.asked.retain(&stays);
        let waits_for_nobody = match &peering.step {
            Step::Fetch(from) => !stays(from),
            Step::Wish(acting) => !acting.iter().all(stays),
            _ => false,
        };
        if waits_for_nobody {
            peering.step = Step::Ask;
        }
    }

    /// Takes over what other copies know of earlier intervals, and writes it down: whoever was heard now may be gone when it is needed.
    fn learn_past(&mut self, ctx: &mut Ctx<'_>) {
        #[cfg(feature = "sim")]
        if self.core.mistake == Some(crate::selfcheck::Mistake::IgnoreGaps) {
            return;
        }
        let Phase::Peering(peering) = &self.phase else { return };
        let mut learned = false;
        for peer in peering.infos.values() {
            learned |= self.core.history.learn(&peer.history);
            learned |= self.core.history.close_gaps(&peer.history);
        }
        if learned {
            self.core.save(ctx);
        }
    }

    /// Asks everybody who may know something. True when enough was heard.
    fn ask(&mut self, ctx: &mut Ctx<'_>) -> bool {
        let whoami = ctx.whoami;
        let blank = self.core.history.created == 0;
        self.learn_past(ctx);
        let Phase::Peering(peering) = &mut self.phase else { return false };
        let everybody = || ctx.map.osds().filter(|osd| ctx.map.is_up(*osd) && *osd != whoami).collect::<BTreeSet<_>>();
        let known = peering.infos.values().max_by_key(|peer| (peer.history.clean, peer.history.started)).cloned();
        // Some copy knows the group's life; only then is it clear who else must be heard.
        let mut history = self.core.history.clone();
        if let (true, Some(known)) = (blank, &known) {
            history.adopt(&known.history);
            peering.infos.values().for_each(|peer| _ = history.learn(&peer.history));
        }
        let whole = peering.infos.iter().map(|(osd, peer)| (*osd, peer.history.whole_since()));
        let whole = whole.chain([(whoami, self.core.history.whole_since())]).collect();
        // What all who know the group do not know.
        let knowing = peering.infos.values().map(|peer| &peer.history).filter(|other| other.created > 0);
        let gaps = knowing.fold(history.gaps(), |gaps, other| in_both(&gaps, &other.gaps()));
        let mut told = Told { empty: peering.empty.clone(), unable: peering.unable.clone(), whole, gaps };
        if blank {
            told.empty.insert(whoami);
        }
        #[cfg(feature = "sim")]
        match self.core.mistake {
            Some(crate::selfcheck::Mistake::TrustEmpty) => history.disprove(&told.empty),
            Some(crate::selfcheck::Mistake::CountReplaced) => told.whole.clear(),
            Some(crate::selfcheck::Mistake::LeapGaps) => told.gaps.clear(),
            _ => {}
        }
        let prior = history.prior(ctx.map, whoami, &told);
        #[cfg(feature = "sim")]
        let prior = match self.core.mistake {
            Some(crate::selfcheck::Mistake::NeedAll) => {
                crate::history::Prior { needed: prior.needed.union(&prior.down).copied().collect(), ..prior }
            }
            _ => prior,
        };
        let probe = if blank && known.is_none() { everybody() } else { prior.probe.clone() };
        let blocked = !prior.needed.is_empty() && prior.needed != peering.needed;
        peering.needed = prior.needed;
        peering.asked.retain(|osd| ctx.map.is_up(*osd));
        let fresh: Vec<OsdId> = probe.into_iter().filter(|osd| peering.asked.insert(*osd)).collect();
        let silent = peering.asked.iter().any(|osd| !peering.is_heard(*osd));
        let heard = fresh.is_empty() && !silent && peering.needed.is_empty();
        for osd in fresh {
            self.core.tell(ctx, osd, &Letter::Query);
        }
        if blocked {
            self.core.log_line(ctx, Level::Warn, format!("does not serve: {}", self.because()));
        }
        heard
    }

    /// Decides whose log counts and who shall serve. True if the steps go on.
    fn choose(&mut self, ctx: &mut Ctx<'_>) -> bool {
        let whoami = ctx.whoami;
        if self.core.history.created == 0 && !self.is_born(ctx) {
            return false;
        }
        let own = self.core.peer_info();
        let rests = self.core.rests(ctx);
        let Some(peering) = self.peering() else { return false };
        peering.rests.hear(ctx.now.mono, &rests);
        let mut infos = peering.infos.clone();
        // Who holds nothing has an empty log: it can be continued if it goes back to the beginning.
        infos.extend(peering.empty.iter().map(|osd| (*osd, PeerInfo::default())));
        infos.insert(whoami, own);
        let interval = self.core.history.interval.clone();
        let Some(chosen) = plan(&infos, &interval, whoami) else {
            let Some(peering) = self.peering() else { return false };
            if !peering.incomplete {
                peering.incomplete = true;
                self.core.log_line(ctx, Level::Warn, "no copy of the group is complete".into());
            }
            return false;
        };
        let serving: Vec<OsdId> = chosen.acting.iter().copied().filter(|osd| *osd >= 0).collect();
        let same = serving == interval.members().collect::<Vec<_>>();
        let Some(peering) = self.peering() else { return false };
        peering.incomplete = false;
        peering.plan = chosen.clone();
        if !same {
            peering.step = Step::Wish(serving.clone());
            ctx.out.push(Effect::WantActing(serving));
            return false;
        }
        if chosen.leader == whoami {
            let hold = self.core.next_hold(ctx);
            self.set_step(Step::Read(hold));
            return true;
        }
        let after = common(&self.core.peer_info().runs, &infos[&chosen.leader].runs);
        self.set_step(Step::Fetch(chosen.leader));
        self.core.tell(ctx, chosen.leader, &Letter::LogWish(after));
        false
    }

    /// Nobody holds anything of a group that this OSD leads. Whether it is new: its pool is still being created, and nobody who is down
    /// now could have made it. If so it comes to be.
    fn is_born(&mut self, ctx: &mut Ctx<'_>) -> bool {
        let Phase::Peering(peering) = &mut self.phase else { return false };
        if let Some(known) = peering.infos.values().max_by_key(|peer| (peer.history.clean, peer.history.started)) {
            // It exists, and this copy is filled like any new one; but it may not lead.
            self.core.history.adopt(&known.history.clone());
            self.core.history.backfill = Some(HObject::min());
            return true;
        }
        let creating = ctx.map.pools.get(&self.core.id.pg.pool).filter(|pool| pool.has_flag(pool_flags::CREATING));
        #[cfg(feature = "sim")]
        let creating = match self.core.mistake {
            Some(crate::selfcheck::Mistake::BornAgain) => ctx.map.pools.get(&self.core.id.pg.pool),
            _ => creating,
        };
        // Who cannot read what it holds of the group holds something.
        let Some(pool) = creating.filter(|_| peering.unable.is_empty()) else {
            peering.incomplete = true;
            return false;
        };
        // These times are in the order of the maps, whatever the monitors' clocks say (`monstate::osds::create_time`).
        let suspects = ctx.map.osds().filter(|osd| {
            let known = usize::try_from(*osd).ok().and_then(|n| ctx.map.osd_xinfo.get(n));
            let lost = ctx.map.info(*osd).is_some_and(|info| info.lost_at > 0 && info.lost_at >= info.down_at);
            let since = known.is_none_or(|x| x.down_stamp >= pool.create_time);
            !ctx.map.is_up(*osd) && ctx.map.up_from(*osd) > 0 && since && !lost
        });
        peering.needed = suspects.collect();
        if !peering.needed.is_empty() {
            return false;
        }
        self.core.be_born(ctx);
        true
    }

    /// The log that counts is here.
    fn begin_merge(&mut self, ctx: &mut Ctx<'_>, from: OsdId, part: Box<LogPart>) {
        let missing: BTreeMap<HObject, EVersion> = part.missing.iter().cloned().collect();
        self.members.sources.insert(from, Source { head: part.info.last_update, missing });
        self.core.history.adopt(&part.history);
        self.core.history.estimated = part.history.estimated;
        part.history.purged.iter().for_each(|(start, len)| self.core.history.purged.insert(start, len));
        let merge = self.core.merge(ctx, part);
        self.set_step(Step::Merge(Box::new(merge)));
        self.step_peering(ctx);
    }

    fn go_on_with_merge(&mut self, ctx: &mut Ctx<'_>) -> bool {
        let Some(Step::Merge(mut merge)) = self.peering().map(|peering| std::mem::replace(&mut peering.step, Step::Drain)) else {
            return false;
        };
        match self.core.step_merge(ctx, &mut merge) {
            Merged::Waits => {
                self.set_step(Step::Merge(merge));
                false
            }
            Merged::Done => {
                let hold = self.core.next_hold(ctx);
                self.set_step(Step::Read(hold));
                true
            }
            Merged::Refused => {
                self.set_step(Step::Merge(merge));
                self.core.log_line(ctx, Level::Error, "the store does not take up the group's log".into());
                false
            }
            Merged::Unreadable(what) => {
                self.core.log_line(ctx, Level::Error, format!("cannot take up the group's log: {what} is damaged"));
                self.phase = Phase::Broken;
                false
            }
        }
    }

    /// Gives each member the part of the log that it lacks.
    fn activate_members(&mut self, ctx: &mut Ctx<'_>, hold: Hold) -> bool {
        let Phase::Peering(peering) = &self.phase else { return false };
        let (chosen, infos) = (peering.plan.clone(), peering.infos.clone());
        let own = self.core.peer_info();
        let tail = self.core.info.log_tail;
        let others: Vec<OsdId> =
            chosen.acting.iter().chain(&chosen.backfill).copied().filter(|o| *o != ctx.whoami && *o >= 0).collect();
        let nothing = PeerInfo::default();
        let begin = |osd: &OsdId| {
            let peer = infos.get(osd).unwrap_or(&nothing);
            (*osd, continues(peer, &own, tail).then(|| common(&peer.runs, &own.runs)))
        };
        // Where each one's log ends that this one continues; `None`: it begins anew.
        let begins: BTreeMap<OsdId, Option<EVersion>> = others.iter().map(begin).collect();
        let lowest = begins.values().map(|begin| begin.unwrap_or(tail)).min();
        let entries = match lowest.map(|lowest| self.core.read_log_behind(ctx, hold, lowest)).transpose() {
            Ok(entries) => entries.unwrap_or_default(),
            Err(Unread::Missing(wish)) => {
                ctx.store.fetch(hold, wish);
                return false;
            }
            Err(Unread::Damaged(damage)) => {
                ctx.store.release(hold);
                self.core.log_line(ctx, Level::Error, format!("its log cannot be read: {} is damaged", damage.what));
                self.phase = Phase::Broken;
                return false;
            }
        };
        ctx.store.release(hold);
        self.core.history.started = self.core.history.since;
        self.core.save(ctx);
        self.note_sources(&infos, &own);
        for (osd, begin) in begins {
            let common = begin.unwrap_or(tail);
            let entries = entries.iter().filter(|entry| entry.done.version > common).cloned().collect();
            let dups = if begin.is_none() { self.core.log.duplicates().cloned().collect() } else { Vec::new() };
            let (info, history, missing) = (self.core.info.clone(), self.core.history.clone(), Vec::new());
            let part = LogPart { info, history, common, anew: begin.is_none(), entries, dups, missing };
            let part = Box::new(part);
            let letter = Letter::Activate(part.clone()).seal(&self.core.envelope());
            let cursor = match begin {
                None => Some(HObject::min()),
                Some(_) => infos.get(&osd).and_then(|peer| peer.history.backfill.clone()),
            };
            let backfill = cursor.map(|cursor| Box::new(Backfill::from(cursor)));
            let acting = chosen.acting.contains(&osd);
            let member = Member { acting, activation: Some(part), backfill, ..Member::default() };
            self.members.all.insert(osd, member);
            ctx.out.push(Effect::Tell { to: osd, letter });
        }
        self.set_step(Step::Activate);
        true
    }

    /// Copies that are no members, with the very log that counts and nothing missing, can give objects.
    fn note_sources(&mut self, infos: &BTreeMap<OsdId, PeerInfo>, own: &PeerInfo) {
        let head = self.core.info.last_update;
        let whole = infos.iter().filter(|(_, peer)| peer.missing == 0 && peer.history.is_complete());
        for (osd, _) in whole.filter(|(_, peer)| common(&peer.runs, &own.runs) == head) {
            self.members.sources.entry(*osd).or_default().head = head;
        }
        self.members.strays.extend(infos.keys());
    }

    /// Whether all members are ready, and the map knows enough.
    fn is_agreed(&self) -> bool {
        let there = matches!(&self.phase, Phase::Peering(peering) if matches!(peering.step, Step::Activate));
        let ready = self.members.all.values().all(|member| !member.acting || member.activated);
        // What this copy has taken up is durable here, too, before anybody is told of it.
        let durable = self.core.commits.is_empty();
        there && ready && durable && self.is_known_up()
    }

    /// Whether the map says, where that matters, that this OSD was up in the interval.
    fn is_known_up(&self) -> bool {
        #[cfg(feature = "sim")]
        if self.core.mistake == Some(crate::selfcheck::Mistake::NoUpThru) {
            return true;
        }
        !self.core.history.needs_up_thru()
    }

    /// Whether an earlier primary, or a copy that followed it, may still answer reads.
    fn waits_for_rests(&mut self, ctx: &Ctx<'_>) -> bool {
        #[cfg(feature = "sim")]
        if self.core.mistake == Some(crate::selfcheck::Mistake::IgnoreRests) {
            return false;
        }
        let Phase::Peering(peering) = &mut self.phase else { return false };
        let left = |osd| peering.is_heard(osd) || peering.left.contains(&osd);
        let until = peering.rests.until(ctx.map, &self.core.history.past, ctx.whoami, left);
        peering.wait = (until > ctx.now.mono).then_some(until);
        peering.wait.is_some()
    }

    fn begin_watch(&mut self, ctx: &mut Ctx<'_>) -> bool {
        if !self.is_agreed() || self.waits_for_rests(ctx) {
            return false;
        }
        let hold = self.core.next_hold(ctx);
        self.set_step(Step::Watch(Box::new(crate::load::Loading::watches(hold))));
        true
    }

    /// Takes what a copy says.
    pub(crate) fn hear(&mut self, ctx: &mut Ctx<'_>, from: OsdId, letter: Letter) {
        match letter {
            Letter::Info(info) => self.hear_info(ctx, from, *info),
            Letter::Absent => {
                if let Some(peering) = self.peering() {
                    peering.left.insert(from);
                    peering.empty.insert(from);
                }
                self.step_peering(ctx);
            }
            Letter::Unable => {
                if let Some(peering) = self.peering() {
                    peering.unable.insert(from);
                    peering.infos.remove(&from);
                    // It was asked for its log, which it cannot read: others are looked at.
                    if matches!(peering.step, Step::Fetch(osd) if osd == from) {
                        peering.step = Step::Ask;
                    }
                }
                self.step_peering(ctx);
            }
            Letter::Log(part) => {
                let wanted = self.peering().is_some_and(|peering| matches!(peering.step, Step::Fetch(osd) if osd == from));
                if wanted && part.is_whole() && part.common <= self.core.info.last_update {
                    self.begin_merge(ctx, from, part);
                }
            }
            Letter::Activated(missing) => self.hear_activated(ctx, from, missing),
            Letter::Ack(number, time) => self.hear_ack(ctx, from, number, time, Vec::new()),
            Letter::AckLacking(number, time, objects) => self.hear_ack(ctx, from, number, time, objects),
            Letter::Pulled(object, at, piece) => self.hear_pulled(ctx, from, object, at, piece),
            Letter::PulledPart(object, have, piece) => self.hear_pulled_part(ctx, from, object, have, piece),
            Letter::Scanned(begin, end, found) => self.hear_scanned(ctx, from, &begin, end, found),
            Letter::Surveyed(answer) => self.hear_surveyed(ctx, from, *answer),
            Letter::Reserved(number, lends) => self.hear_reserved(ctx, from, number, lends),
            Letter::Sought(sought) => self.hear_sought(ctx, from, sought),
            Letter::Settle => self.tell_what_is_settled(ctx, from),
            _ => {}
        }
    }

    fn hear_info(&mut self, ctx: &mut Ctx<'_>, from: OsdId, info: PeerInfo) {
        match &mut self.phase {
            Phase::Peering(peering) => {
                peering.left.insert(from);
                peering.rests.hear(ctx.now.mono, &info.rests);
                // A copy that is not asked for may know what is missed; asked or not, it is heard.
                if matches!(peering.step, Step::Drain | Step::Ask) {
                    peering.asked.insert(from);
                    peering.empty.remove(&from);
                    peering.infos.insert(from, info);
                } else if !self.members.all.contains_key(&from) {
                    // It says so once: it is removed when the group is clean.
                    self.members.strays.insert(from);
                }
                self.step_peering(ctx);
            }
            Phase::Active if !self.members.all.contains_key(&from) => self.hear_stray(ctx, from, info),
            _ => {}
        }
    }

    fn hear_activated(&mut self, ctx: &mut Ctx<'_>, from: OsdId, missing: Vec<(HObject, Lack)>) {
        let Some(member) = self.members.all.get_mut(&from).filter(|member| member.activation.is_some()) else { return };
        member.missing = missing.into_iter().collect();
        member.activated = true;
        member.activation = None;
        // What came about meanwhile.
        self.resend(ctx, from);
        match self.phase {
            Phase::Peering(_) => self.step_peering(ctx),
            _ => self.plan_recovery(ctx),
        }
    }

    /// What is not answered is said again to one OSD.
    pub(crate) fn ask_again(&mut self, ctx: &mut Ctx<'_>, osd: OsdId) {
        let Some(peering) = self.peering() else { return };
        let heard = peering.is_heard(osd);
        match &peering.step {
            Step::Ask if peering.asked.contains(&osd) && !heard => self.core.tell(ctx, osd, &Letter::Query),
            Step::Fetch(from) if *from == osd => {
                let theirs = peering.infos.get(&osd).map(|peer| peer.runs.clone()).unwrap_or_default();
                let after = common(&self.core.peer_info().runs, &theirs);
                self.core.tell(ctx, osd, &Letter::LogWish(after));
            }
            Step::Activate => self.resend(ctx, osd),
            _ => {}
        }
    }

    /// What time brings while the copies agree.
    pub(crate) fn turn_peering(&mut self, ctx: &mut Ctx<'_>) {
        let now = ctx.now.mono;
        let needs_up_thru = self.core.history.needs_up_thru();
        let since = self.core.history.since;
        let Some(peering) = self.peering() else { return };
        if peering.wait.is_some_and(|until| until <= now) {
            return self.step_peering(ctx);
        }
        if peering.again > now {
            return;
        }
        peering.again = now.plus(AGAIN);
        if let Step::Wish(acting) = &peering.step {
            ctx.out.push(Effect::WantActing(acting.clone()));
        }
        if needs_up_thru {
            ctx.out.push(Effect::WantUpThru(since));
        }
        let mut asked = peering.asked.clone();
        asked.extend(self.members.all.keys());
        asked.into_iter().for_each(|osd| self.ask_again(ctx, osd));
        self.step_peering(ctx);
    }
}
