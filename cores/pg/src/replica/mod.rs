//! A copy that follows a primary: it tells what it holds, takes up the log, carries out bodies in their order, and promises.
//!
//! It answers nothing about itself before what it submitted is durable, and promises a body when its transaction is. Bodies are
//! numbered: what it has it promises again, what comes out of order it leaves, since the primary sends again all that was not promised.

pub(crate) mod aside;
pub(crate) mod inquiry;
pub(crate) mod lend;

use crate::api::{ClusterLevel, Ctx, Effect};
use crate::body::Body;
use crate::core::Core;
use crate::core::log_merge::{Merge, Merged};
use crate::letter::{Letter, LogPart};
use crate::missing::Base;
use crate::object::{PieceAt, read_part, read_piece};
use crate::pieces::Question;
use crate::questions::Questions;
use crate::recorder::CopyTime;
use aside::Aside;
use inquiry::Inquiry;
use lend::Lent;
use node::{Level, Mono};
use objectstore::{Hold, Refused, Ticket, Unread};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;
use types::{CopyId, EVersion, Feature, HObject, is_osd};

/// A store that has no room is asked again after this.
const ROOM: Duration = Duration::from_millis(100);

/// Questions for parts of the shard here that wait for bodies, at most: a primary has one for each job and copy.
const EARLY: usize = 4096;

/// Something read for the primary.
enum Errand {
    Pull(HObject, PieceAt),
    PullPart(HObject, Box<Base>),
    Scan(HObject, HObject),
    Log(EVersion),
    Seek(Vec<(HObject, EVersion)>),
    Shard(Box<Question>),
}

/// What the primary is told when a transaction is durable.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Promise {
    pub(crate) primary: CopyId,
    /// Number of the body; 0 stands for the log itself.
    pub(crate) number: u64,
    /// Of a body: its times and size.
    pub(crate) body: Option<TakenBody>,
}

/// A body that the store has taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TakenBody {
    pub(crate) arrived: Mono,
    pub(crate) submitted: Mono,
    /// Bytes of data that it writes.
    pub(crate) bytes: u64,
    /// It brings what the copy lacked.
    pub(crate) pushes: bool,
}

/// What tells whether parts fit is being read.
#[derive(Clone, Copy)]
struct Fitting {
    hold: Hold,
    fetching: bool,
}

/// A body without the objects that this copy does not take from it.
fn without(mut body: Body, objects: &[HObject]) -> Body {
    let kept = |object: &HObject| !objects.contains(object);
    body.objects.retain(|of| kept(&of.object.object));
    body.index.retain(|change| kept(change.head()));
    if let Some(progress) = &mut body.progress {
        progress.recovered.retain(kept);
        progress.bases.retain(|(object, _)| kept(object));
    }
    body
}

/// A copy under a primary, in one interval.
#[derive(Default)]
pub(crate) struct Replica {
    /// The log that is being taken up.
    merge: Option<Box<Merge>>,
    /// It is taken up and durable here, with this ticket before it was.
    pub(crate) activated: bool,
    /// What the primary is told when a transaction is durable here, oldest first.
    pub(crate) promises: VecDeque<(Ticket, Promise)>,
    /// Number of the last body that was submitted.
    pub(crate) applied: u64,
    /// The next bodies, with their numbers and the moments when they arrived. The store has no room for the first just now.
    pub(crate) stalled: VecDeque<(u64, Mono, Box<Body>)>,
    /// Time when the store is asked again.
    again: Mono,
    /// Under which it is read whether the parts fit that the first one brings.
    fitting: Option<Fitting>,
    /// Objects that this copy lacks and of which the primary does not know it, or did not when it was last heard.
    lacking: BTreeSet<HObject>,
    /// The primary's questions, put off until all is durable.
    asked: Vec<Letter>,
    /// What the primary was told may be lost: it is told again when all is durable.
    retells: bool,
    /// Questions for parts of the shard here, after bodies that have not come.
    early: Vec<Question>,
    /// What is read for the primary.
    errands: BTreeMap<Hold, Errand>,
    /// The slot for recovery that the primary has here, or wants.
    pub(crate) lent: Option<Lent>,
    /// What is read for the primary's scrub.
    pub(crate) inquiry: Option<Box<Inquiry>>,
    /// Questions to the primary.
    questions: Questions,
    /// Clients' reads here.
    pub(crate) aside: Aside,
    /// Its own log cannot be read: the copy follows nobody any more.
    pub(crate) broken: bool,
}

impl Replica {
    /// The interval is over.
    pub(crate) fn end(&mut self, core: &mut Core, ctx: &mut Ctx<'_>) {
        self.end_reads_aside(core, ctx);
        self.holds().into_iter().for_each(|hold| ctx.store.release(hold));
    }

    fn holds(&self) -> Vec<Hold> {
        let inquiry = self.inquiry.as_ref().map(|inquiry| inquiry.hold);
        let merge = self.merge.as_ref().map(|merge| merge.hold);
        self.errands.keys().copied().chain(merge).chain(inquiry).chain(self.fitting.map(|fitting| fitting.hold)).collect()
    }

    pub(crate) fn deadline(&self) -> Mono {
        let inquiry = self.inquiry.as_ref().map_or(Mono::NEVER, |inquiry| inquiry.deadline());
        let deadline = inquiry.min(self.questions.deadline());
        if self.stalled.is_empty() || self.is_fetching() { deadline } else { deadline.min(self.again) }
    }

    /// Looks at everything that a copy knows of its part twice.
    ///
    /// # Errors
    /// A sentence that says what does not hold.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn self_check(&self, core: &Core) -> Result<(), String> {
        if self.merge.is_some() && core.history.started >= core.history.since {
            return Err("it says that it has taken up the log of its interval, and is about to".into());
        }
        self.aside.self_check(core.info.last_update.version)
    }

    /// Returns true if the first body that waits does so for something that is being fetched.
    fn is_fetching(&self) -> bool {
        self.fitting.is_some_and(|fitting| fitting.fetching)
    }
}

impl Replica {
    /// A copy that is not needed says that it is there: it may know what others lack, or may be removed.
    pub(crate) fn show_up(&mut self, core: &mut Core, ctx: &mut Ctx<'_>) {
        let primary = core.primary();
        if is_osd(primary.osd) && primary != core.me(ctx) {
            self.volunteer(core, ctx);
        }
    }

    /// Takes a letter of the primary.
    pub(crate) fn hear(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, from: CopyId, arrived: Mono, letter: Letter) {
        match letter {
            Letter::Query | Letter::LogWish(_) => {
                self.asked.push(letter);
                self.answer_asked(core, ctx);
            }
            Letter::Activate(part) => self.activate_replica(core, ctx, from, part),
            Letter::Body(number, body) => self.take_body(core, ctx, from, number, arrived, body),
            Letter::Pull(object, at) => self.run_errand(core, ctx, Errand::Pull(object, at)),
            Letter::PullPart(object, base) => self.run_errand(core, ctx, Errand::PullPart(object, base)),
            Letter::Scan(from, to) => self.run_errand(core, ctx, Errand::Scan(from, to)),
            Letter::Seek(wanted) => self.run_errand(core, ctx, Errand::Seek(wanted)),
            Letter::Reserve(number, priority, backfill) => self.lend(core, ctx, from, number, priority, backfill),
            Letter::Release(number) => self.take_back(core, ctx, from, number),
            Letter::ReadShard(question) => self.read_shard(core, ctx, question),
            Letter::Settled(upto) => self.hear_what_is_settled(core, upto),
            Letter::Survey(ask) => self.be_surveyed(core, ctx, from, *ask),
            Letter::Spoilt(objects) => self.be_spoilt(core, ctx, objects),
            _ => {}
        }
    }

    /// Tells the primary what this copy holds, unasked, when that is durable.
    pub(crate) fn volunteer(&mut self, core: &mut Core, ctx: &mut Ctx<'_>) {
        if !self.asked.contains(&Letter::Query) {
            self.asked.push(Letter::Query);
        }
        self.answer_asked(core, ctx);
    }

    /// Answers what was asked, if nothing that the answer tells could still be lost.
    fn answer_asked(&mut self, core: &mut Core, ctx: &mut Ctx<'_>) {
        #[cfg(feature = "sim")]
        let waits = core.mistake != Some(crate::selfcheck::Mistake::VolunteerEarly);
        #[cfg(not(feature = "sim"))]
        let waits = true;
        if waits && !core.is_drained() || self.merge.is_some() {
            return;
        }
        let primary = core.primary();
        for letter in std::mem::take(&mut self.asked) {
            match letter {
                Letter::LogWish(after) => self.run_errand(core, ctx, Errand::Log(after)),
                _ if core.history.created == 0 => core.tell(ctx, primary, &Letter::Absent),
                _ => core.tell_info(ctx, primary),
            }
        }
    }

    /// The primary has decided what counts.
    fn activate_replica(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, primary: CopyId, part: Box<LogPart>) {
        if self.merge.is_some() {
            return;
        }
        if self.activated {
            #[cfg(feature = "sim")]
            if core.mistake == Some(crate::selfcheck::Mistake::ActivateEarly) {
                return core.tell_activated(ctx, primary);
            }
            // It is asked again: the answer was lost, or it has none yet, since the log is not durable here.
            return self.promise_again(core, ctx, primary);
        }
        let known = part.anew || (core.info.stable..=core.info.last_update).contains(&part.common);
        if !core.is_member(core.me(ctx)) || !known || !part.is_whole() {
            let text = format!("osd.{primary} sent a log that does not hold together, or is not for this copy: it is refused");
            return core.log_line(ctx, Level::Warn, text);
        }
        let merge = core.merge(ctx, part, true);
        self.merge = Some(Box::new(merge));
        self.go_on_merging(core, ctx);
    }

    fn go_on_merging(&mut self, core: &mut Core, ctx: &mut Ctx<'_>) {
        let Some(mut merge) = self.merge.take() else { return };
        match core.step_merge(ctx, &mut merge) {
            Merged::Waits => {
                self.merge = Some(merge);
            }
            Merged::Done => {
                self.activated = true;
                let primary = core.primary();
                // Number 0: no body, but the log itself.
                self.promise_newest(core, Promise { primary, number: 0, body: None });
            }
            Merged::Refused => {
                core.log_line(ctx, Level::Error, "the store does not take up the group's log".into());
                if ctx.store.space().available == 0 {
                    let text = format!("pg {}: no room for its log", core.id);
                    ctx.out.push(Effect::ClusterLog { level: ClusterLevel::Error, text });
                }
            }
            Merged::Unreadable(what) => {
                core.log_line(ctx, Level::Error, format!("cannot take up the group's log: {what} is damaged"));
                self.broken = true;
            }
        }
    }

    /// Lets the primary be told something when the newest transaction is durable, if it is not told something else then.
    pub(crate) fn promise_newest(&mut self, core: &mut Core, promise: Promise) {
        let Some(newest) = core.commits.back().map(|commit| commit.ticket) else { return };
        if self.promises.back().is_none_or(|(last, _)| *last < newest) {
            self.promises.push_back((newest, promise));
        }
    }

    /// A transaction is durable here: makes the promise that it allows, if it allows one.
    pub(crate) fn committed(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, ticket: Ticket) {
        let Some((_, promise)) = self.promises.pop_front_if(|(of, _)| *of == ticket) else { return };
        let time = promise.body.map(|body| CopyTime::of(body.arrived, body.submitted, ctx.now.mono));
        if let (Some(body), Some(time)) = (promise.body, time) {
            ctx.recorder.carried_out(body.pushes, body.bytes, time);
        }
        self.promise(core, ctx, promise.primary, promise.number, time);
    }

    fn promise(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, primary: CopyId, number: u64, time: Option<CopyTime>) {
        if number == 0 {
            core.tell_activated(ctx, primary);
            // That is heeded once in an interval. What came to be missing since goes with a promise, of which there is none to make.
            if self.lacking.is_empty() {
                return;
            }
        }
        self.acknowledge(core, ctx, primary, number, time);
    }

    /// Says that all bodies up to a number are durable here, and what is not here all the same.
    fn acknowledge(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, primary: CopyId, number: u64, time: Option<CopyTime>) {
        let lacking: Vec<HObject> = self.lacking.iter().cloned().collect();
        let level = ctx.map.level;
        let told = level.has(Feature::PromiseTimes);
        #[cfg(feature = "sim")]
        let told = told || core.mistake == Some(crate::selfcheck::Mistake::IgnoreLevel);
        let time = time.filter(|_| told);
        // A primary that cannot be told hears of it in the next interval.
        let letter = match lacking.is_empty() || !level.has(Feature::Lacking) {
            true => Letter::Ack(number, time),
            false => Letter::AckLacking(number, time, lacking),
        };
        core.tell(ctx, primary, &letter);
    }

    /// The session to the primary was broken, and stands again or may be tried again.
    pub(crate) fn peer_returns(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, primary: CopyId) {
        self.questions.repeat(core, ctx, |_, _| true);
        self.promise_again(core, ctx, primary);
    }

    /// What the primary was told may be lost: it is told where this copy is.
    pub(crate) fn promise_again(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, primary: CopyId) {
        let durable = core.commits.is_empty();
        let (activated, applied, merging) = (self.activated, self.applied, self.merge.is_some());
        self.retells = activated && !durable;
        match activated {
            true if durable => {
                core.tell_activated(ctx, primary);
                self.acknowledge(core, ctx, primary, applied, None);
            }
            true => {}
            false if core.history.created > 0 && !merging => self.show_up(core, ctx),
            false => {}
        }
    }

    fn take_body(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, primary: CopyId, number: u64, arrived: Mono, body: Box<Body>) {
        let durable = core.commits.is_empty();
        if !self.activated {
            return;
        }
        if number <= self.applied {
            // It came twice. What is not durable yet is promised when it is.
            if durable {
                self.acknowledge(core, ctx, primary, number, None);
            }
            return;
        }
        if number != self.applied + self.stalled.len() as u64 + 1 {
            return;
        }
        if !self.stalled.is_empty() {
            return self.stalled.push_back((number, arrived, body));
        }
        self.apply_body(core, ctx, primary, number, arrived, body);
    }

    fn apply_body(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, primary: CopyId, number: u64, arrived: Mono, body: Box<Body>) {
        let follows = body.follows(core.info.last_update);
        if !follows || !body.is_within(|object| core.holds(object), |object| core.holds(&core.object(object.clone()))) {
            // What waits behind it has no place any more either. The primary sends again what is not promised.
            self.stalled.clear();
            let text = format!(
                "osd.{primary} sent a change that does not follow version {}, or is none of this group",
                core.info.last_update
            );
            return core.log_line(ctx, Level::Error, text);
        }
        let (bytes, pushes) = (body.written(), body.progress.is_some());
        let Some(misfits) = self.look_at_bases(core, ctx, &body) else {
            return self.stall(ctx, number, arrived, body);
        };
        // Kept for another attempt; payloads are shared.
        let again = body.clone();
        let body = Box::new(without(*body, &misfits));
        misfits.into_iter().for_each(|object| self.lack(core, ctx, object));
        // A clone of what is missing is no better.
        let of_missing = body.clones().filter(|(source, _)| core.missing.contains_key(*source)).map(|(_, clone)| clone.clone());
        let of_missing: Vec<HObject> = of_missing.collect();
        let body = Box::new(without(*body, &of_missing));
        of_missing.into_iter().for_each(|object| self.lack(core, ctx, object));
        let recovered = body.progress.as_ref().map(|progress| progress.recovered.clone()).unwrap_or_default();
        let changes = self.aside.changes(&body);
        match core.apply(ctx, *body, None) {
            Ok(commit) => {
                let body = Some(TakenBody { arrived, submitted: ctx.now.mono, bytes, pushes });
                self.promises.push_back((commit.ticket, Promise { primary, number, body }));
                #[cfg(feature = "sim")]
                if core.mistake == Some(crate::selfcheck::Mistake::PromiseEarly) {
                    self.promise(core, ctx, primary, number, None);
                }
                self.applied = number;
                self.aside.note(changes, ctx.config.sizes.listed);
                self.lacking.retain(|object| !recovered.contains(object));
                self.step_inquiry(core, ctx);
                self.read_early(core, ctx);
            }
            Err(Refused::Stopped) => core.stopped(ctx),
            Err(_) => {
                // The primary has it, so it must come to be here, too: it waits for room.
                self.stall(ctx, number, arrived, again);
            }
        }
    }

    /// A body waits, and all behind it.
    fn stall(&mut self, ctx: &Ctx<'_>, number: u64, arrived: Mono, body: Box<Body>) {
        self.stalled.push_front((number, arrived, body));
        self.again = ctx.now.mono.plus(ROOM);
    }

    /// Objects of which a body brings parts that do not fit; `None`: what tells that is being fetched.
    fn look_at_bases(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, body: &Body) -> Option<Vec<HObject>> {
        if body.progress.as_ref().is_none_or(|progress| progress.bases.is_empty()) {
            return Some(Vec::new());
        }
        let hold = match self.fitting {
            Some(fitting) => fitting.hold,
            None => core.next_hold(ctx),
        };
        let found = core.misfits(ctx, hold, body);
        let waits = matches!(found, Err(Unread::Missing(_)));
        self.fitting = waits.then_some(Fitting { hold, fetching: true });
        match found {
            Err(Unread::Missing(wish)) => {
                ctx.store.fetch(hold, wish);
                None
            }
            found => {
                ctx.store.release(hold);
                Some(found.unwrap_or_default())
            }
        }
    }

    /// The store carried a change out and needed old data that are damaged: so these objects are not what the primary holds.
    ///
    /// They are marked as missing, and the change, and what came after it, is promised when the marks are durable. A crash before the marks are durable leaves blocks that are known to be damaged, never wrong bytes.
    pub(crate) fn meet_damage(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, ticket: Ticket, objects: Vec<HObject>) {
        for object in objects {
            core.report_change_on_damage(ctx, &object);
            self.lack(core, ctx, object);
        }
        let from = self.promises.partition_point(|(of, _)| *of < ticket);
        let late = self.promises.drain(from..).next_back();
        if let Some((_, last)) = late {
            self.promise_newest(core, last);
        }
    }

    /// This copy does not have an object, and the primary thinks that it has, or will: it is marked, and told with the next promise.
    pub(crate) fn lack(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, object: HObject) {
        core.log_line(ctx, Level::Warn, format!("{object} is missing here and must be brought whole"));
        self.lacking.insert(object.clone());
        core.mark_missing(ctx, object);
    }

    /// Carries out what waited, as far as it need not wait any longer.
    fn go_on_stalled(&mut self, core: &mut Core, ctx: &mut Ctx<'_>) {
        let primary = core.primary();
        let now = ctx.now.mono;
        loop {
            if self.again > now || self.is_fetching() {
                return;
            }
            let Some((number, arrived, body)) = self.stalled.pop_front() else { return };
            self.apply_body(core, ctx, primary, number, arrived, body);
        }
    }

    /// What time brings to a copy.
    pub(crate) fn turn(&mut self, core: &mut Core, ctx: &mut Ctx<'_>) {
        let now = ctx.now.mono;
        self.questions.turn(core, ctx);
        self.go_on_stalled(core, ctx);
        if self.inquiry.as_ref().is_some_and(|inquiry| inquiry.deadline() <= now) {
            self.step_inquiry(core, ctx);
        }
    }

    /// Something became durable.
    pub(crate) fn step(&mut self, core: &mut Core, ctx: &mut Ctx<'_>) {
        self.answer_asked(core, ctx);
        if self.retells {
            let primary = core.primary();
            self.promise_again(core, ctx, primary);
        }
    }

    /// What was fetched for this copy is there.
    pub(crate) fn fetched(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, hold: Hold) {
        if self.fetched_aside(core, ctx, hold) {
            return;
        }
        if let Some(fitting) = self.fitting.as_mut().filter(|fitting| fitting.hold == hold) {
            fitting.fetching = false;
            self.again = ctx.now.mono;
            self.go_on_stalled(core, ctx);
        } else if self.merge.as_ref().is_some_and(|merge| merge.hold == hold) {
            self.go_on_merging(core, ctx);
        } else if let Some(errand) = self.errands.remove(&hold) {
            self.go_on_errand(core, ctx, hold, errand);
        } else if self.inquiry.as_ref().is_some_and(|inquiry| inquiry.hold == hold) {
            self.inquiry_fetched(core, ctx);
        }
    }

    /// The primary wants parts of the shard here, as it is after a body. Bodies come before such questions, unless they wait
    /// for room.
    fn read_shard(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, question: Box<Question>) {
        if !self.activated {
            return;
        }
        if question.after <= self.applied {
            return self.run_errand(core, ctx, Errand::Shard(question));
        }
        // What came twice is answered once; one beyond the bound is asked again with the next session.
        self.early.retain(|early| early.number != question.number);
        if self.early.len() < EARLY {
            self.early.push(*question);
        }
    }

    /// Answers questions that waited for bodies that have come.
    fn read_early(&mut self, core: &mut Core, ctx: &mut Ctx<'_>) {
        let applied = self.applied;
        let due: Vec<_> = self.early.extract_if(.., |question| question.after <= applied).collect();
        due.into_iter().for_each(|question| self.run_errand(core, ctx, Errand::Shard(Box::new(question))));
    }

    fn run_errand(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, errand: Errand) {
        let hold = core.next_hold(ctx);
        self.go_on_errand(core, ctx, hold, errand);
    }

    fn go_on_errand(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, hold: Hold, errand: Errand) {
        let primary = core.primary();
        match self.read_errand(core, ctx, hold, &errand) {
            Ok(answer) => {
                ctx.store.release(hold);
                core.tell(ctx, primary, &answer);
            }
            Err(Unread::Missing(wish)) => {
                self.errands.insert(hold, errand);
                ctx.store.fetch(hold, wish);
            }
            Err(Unread::Damaged(damage)) => {
                ctx.store.release(hold);
                if let Errand::Shard(question) = &errand {
                    core.log_line(ctx, Level::Error, format!("{} is damaged", damage.what));
                    core.tell(ctx, primary, &Letter::ShardRead(question.clone(), None));
                } else if let Errand::Pull(object, _) | Errand::PullPart(object, _) = &errand {
                    core.report_damage(ctx, &core.object(object.clone()), &damage);
                    let at = if let Errand::Pull(_, at) = &errand { at.clone() } else { PieceAt::default() };
                    core.tell(ctx, primary, &Letter::Pulled(object.clone(), at, None));
                } else {
                    core.log_line(ctx, Level::Error, format!("cannot be read for the primary: {} is damaged", damage.what));
                    if let Errand::Log(_) = &errand {
                        core.tell(ctx, primary, &Letter::Unable);
                    }
                }
            }
        }
    }

    fn read_errand(&self, core: &Core, ctx: &Ctx<'_>, hold: Hold, errand: &Errand) -> Result<Letter, Unread> {
        match errand {
            Errand::Pull(object, _) | Errand::PullPart(object, _) if core.missing.contains_key(object) => {
                Ok(Letter::Pulled(object.clone(), PieceAt::default(), None))
            }
            Errand::Pull(object, at) => {
                let piece = read_piece(&*ctx.store, hold, &core.object(object.clone()), at, &ctx.config.sizes)?;
                Ok(Letter::Pulled(object.clone(), at.clone(), Some(Box::new(piece))))
            }
            Errand::PullPart(object, base) => {
                let piece = read_part(&*ctx.store, hold, &core.object(object.clone()), &base.part, &ctx.config.sizes)?;
                Ok(Letter::PulledPart(object.clone(), base.have, piece.map(Box::new)))
            }
            Errand::Scan(from, to) => {
                let most = ctx.config.sizes.scan;
                let found = core.versions(ctx, hold, from, to, most)?;
                let end = if found.len() < most { to.clone() } else { found.last().map_or(to.clone(), |(o, _)| o.clone()) };
                Ok(Letter::Scanned(from.clone(), end, found))
            }
            Errand::Seek(wanted) => {
                let sought: Result<Vec<_>, Unread> =
                    wanted.iter().map(|(object, need)| core.look_up(ctx, hold, object, *need)).collect();
                Ok(Letter::Sought(sought?))
            }
            Errand::Shard(question) => {
                let mut parts = Vec::with_capacity(question.wants.len());
                for want in &question.wants {
                    let object = core.object(HObject::clone(&want.object));
                    let there = core.holds(&object) && !core.missing.contains_key(&*object.object);
                    let part = if there { core.scheme.piece(&*ctx.store, hold, &object, want)? } else { None };
                    match part {
                        Some(part) => parts.push(part),
                        None => return Ok(Letter::ShardRead(question.clone(), None)),
                    }
                }
                Ok(Letter::ShardRead(question.clone(), Some(parts)))
            }
            Errand::Log(after) => {
                let entries = core.read_log_behind(ctx, hold, *after)?;
                let missing = core.missing.iter().map(|(object, lack)| (object.clone(), lack.need)).collect();
                let (info, history) = (core.info.clone(), core.history.clone());
                let (anew, dups) = (false, Vec::new());
                Ok(Letter::Log(Box::new(LogPart { info, history, common: *after, anew, entries, dups, missing })))
            }
        }
    }
}
