//! A copy that follows a primary: it tells what it holds, takes up the log, carries out bodies in their order, and promises.
//!
//! It answers nothing about itself before what it submitted is durable, and promises a body when its transaction is. Bodies are
//! numbered: what it has it promises again, what comes out of order it leaves, since the primary sends again all that was not promised.

use crate::api::{ClusterLevel, Ctx, Effect};
use crate::aside::Aside;
use crate::body::Body;
use crate::core::log_merge::{Merge, Merged};
use crate::letter::{Letter, LogPart};
use crate::missing::Base;
use crate::object::{PieceAt, read_part, read_piece};
use crate::pg::{Pg, Phase};
use crate::recorder::CopyTime;
use crate::reserve::Lent;
use crate::scrub::inquiry::Inquiry;
use node::{Level, Mono};
use objectstore::{Hold, Refused, Ticket, Unread};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;
use types::{EVersion, Feature, HObject, ObjectId, OsdId};

/// A store that has no room is asked again after this.
const ROOM: Duration = Duration::from_millis(100);

/// Something read for the primary.
enum Errand {
    Pull(HObject, PieceAt),
    PullPart(HObject, Box<Base>),
    Scan(HObject, HObject),
    Log(EVersion),
    Seek(Vec<(HObject, EVersion)>),
}

/// What the primary is told when a transaction is durable.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Promise {
    pub(crate) primary: OsdId,
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
    /// When the store is asked again.
    again: Mono,
    /// Under which it is read whether the parts fit that the first one brings.
    fitting: Option<Fitting>,
    /// Objects that this copy lacks and of which the primary does not know it, or did not when it was last heard.
    lacking: BTreeSet<HObject>,
    /// The primary's questions, put off until all is durable.
    asked: Vec<Letter>,
    /// What the primary was told may be lost: it is told again when all is durable.
    retells: bool,
    /// What is read for the primary.
    errands: BTreeMap<Hold, Errand>,
    /// The slot for recovery that the primary has here, or wants.
    pub(crate) lent: Option<Lent>,
    /// What is read for the primary's scrub.
    pub(crate) inquiry: Option<Box<Inquiry>>,
    /// Clients' reads here.
    pub(crate) aside: Aside,
}

impl Replica {
    pub(crate) fn holds(&self) -> Vec<Hold> {
        let inquiry = self.inquiry.as_ref().map(|inquiry| inquiry.hold);
        let merge = self.merge.as_ref().map(|merge| merge.hold);
        self.errands.keys().copied().chain(merge).chain(inquiry).chain(self.fitting.map(|fitting| fitting.hold)).collect()
    }

    pub(crate) fn deadline(&self) -> Mono {
        let inquiry = self.inquiry.as_ref().map_or(Mono::NEVER, |inquiry| inquiry.deadline());
        if self.stalled.is_empty() || self.is_fetching() { inquiry } else { inquiry.min(self.again) }
    }

    /// Whether the first body that waits does so for something that is being fetched.
    fn is_fetching(&self) -> bool {
        self.fitting.is_some_and(|fitting| fitting.fetching)
    }
}

impl Pg {
    fn replica(&mut self) -> Option<&mut Replica> {
        match &mut self.phase {
            Phase::Replica(replica) => Some(replica),
            _ => None,
        }
    }

    /// Takes a letter of the primary.
    pub(crate) fn follow(&mut self, ctx: &mut Ctx<'_>, from: OsdId, arrived: Mono, letter: Letter) {
        match letter {
            Letter::Query if matches!(self.phase, Phase::Broken) => self.core.tell(ctx, from, &Letter::Unable),
            Letter::Query | Letter::LogWish(_) => {
                if let Some(replica) = self.replica() {
                    replica.asked.push(letter);
                }
                self.answer_asked(ctx);
            }
            Letter::Activate(part) => self.activate_replica(ctx, from, part),
            Letter::Body(number, body) => self.take_body(ctx, from, number, arrived, body),
            Letter::Pull(object, at) => self.run_errand(ctx, Errand::Pull(object, at)),
            Letter::PullPart(object, base) => self.run_errand(ctx, Errand::PullPart(object, base)),
            Letter::Scan(from, to) => self.run_errand(ctx, Errand::Scan(from, to)),
            Letter::Seek(wanted) if matches!(self.phase, Phase::Broken) => {
                self.core.tell(ctx, from, &Letter::Sought(crate::unfound::nothing_of(wanted)));
            }
            Letter::Seek(wanted) => self.run_errand(ctx, Errand::Seek(wanted)),
            Letter::Reserve(number, priority, backfill) => self.lend(ctx, from, number, priority, backfill),
            Letter::Release(number) => self.take_back(ctx, from, number),
            Letter::Settled(upto) => self.hear_what_is_settled(upto),
            Letter::Survey(ask) => self.be_surveyed(ctx, from, *ask),
            Letter::Spoilt(objects) => self.be_spoilt(ctx, objects),
            Letter::Remove if !self.core.is_member(ctx.whoami) => {
                self.core.log_line(
                    ctx,
                    Level::Info,
                    format!("osd.{from} says that the group is clean without this copy: it is removed"),
                );
                self.remove(ctx);
            }
            _ => {}
        }
    }

    /// Tells the primary what this copy holds, unasked, when that is durable.
    pub(crate) fn volunteer(&mut self, ctx: &mut Ctx<'_>) {
        let Some(replica) = self.replica() else { return };
        if !replica.asked.contains(&Letter::Query) {
            replica.asked.push(Letter::Query);
        }
        self.answer_asked(ctx);
    }

    /// Answers what was asked, if nothing that the answer tells could still be lost.
    fn answer_asked(&mut self, ctx: &mut Ctx<'_>) {
        if !self.core.is_drained() {
            return;
        }
        let primary = self.core.history.interval.primary;
        let Some(replica) = self.replica().filter(|replica| replica.merge.is_none()) else { return };
        for letter in std::mem::take(&mut replica.asked) {
            match letter {
                Letter::LogWish(after) => self.run_errand(ctx, Errand::Log(after)),
                _ if self.core.history.created == 0 => self.core.tell(ctx, primary, &Letter::Absent),
                _ => self.core.tell_info(ctx, primary),
            }
        }
    }

    /// The primary has decided what counts.
    fn activate_replica(&mut self, ctx: &mut Ctx<'_>, primary: OsdId, part: Box<LogPart>) {
        let Some(replica) = self.replica() else { return };
        if replica.merge.is_some() {
            return;
        }
        if replica.activated {
            #[cfg(feature = "sim")]
            if self.core.mistake == Some(crate::selfcheck::Mistake::ActivateEarly) {
                return self.core.tell_activated(ctx, primary);
            }
            // It is asked again: the answer was lost, or it has none yet, since the log is not durable here.
            return self.promise_again(ctx, primary);
        }
        let known = part.anew || part.common <= self.core.info.last_update;
        if !self.core.is_member(ctx.whoami) || !known || !part.is_whole() {
            let text = format!("osd.{primary} sent a log that does not hold together, or is not for this copy: it is refused");
            return self.core.log_line(ctx, Level::Warn, text);
        }
        self.core.history.adopt(&part.history);
        self.core.history.take_beginning(&part.history);
        (self.core.history.started, self.core.history.created) = (self.core.history.since, part.history.created);
        self.core.history.pg_num = self.core.history.interval.pg_num;
        // The statistics are the primary's, and so is how well they are known.
        self.core.history.estimated = part.history.estimated;
        part.history.purged.iter().for_each(|(start, len)| self.core.history.purged.insert(start, len));
        if part.anew {
            self.core.history.backfill = Some(HObject::min());
        }
        let merge = self.core.merge(ctx, part);
        if let Some(replica) = self.replica() {
            replica.merge = Some(Box::new(merge));
        }
        self.go_on_merging(ctx);
    }

    fn go_on_merging(&mut self, ctx: &mut Ctx<'_>) {
        let Some(mut merge) = self.replica().and_then(|replica| replica.merge.take()) else { return };
        match self.core.step_merge(ctx, &mut merge) {
            Merged::Waits => {
                if let Some(replica) = self.replica() {
                    replica.merge = Some(merge);
                }
            }
            Merged::Done => {
                if let Some(replica) = self.replica() {
                    replica.activated = true;
                }
                let primary = self.core.history.interval.primary;
                // Number 0: no body, but the log itself.
                self.promise_newest(Promise { primary, number: 0, body: None });
            }
            Merged::Refused => {
                self.core.log_line(ctx, Level::Error, "the store does not take up the group's log".into());
                if ctx.store.space().available == 0 {
                    let text = format!("pg {}: no room for its log", self.core.id);
                    ctx.out.push(Effect::ClusterLog { level: ClusterLevel::Error, text });
                }
            }
            Merged::Unreadable(what) => {
                self.core.log_line(ctx, Level::Error, format!("cannot take up the group's log: {what} is damaged"));
                self.phase = Phase::Broken;
            }
        }
    }

    /// Lets the primary be told something when the newest transaction is durable, if it is not told something else then.
    pub(crate) fn promise_newest(&mut self, promise: Promise) {
        let Some(newest) = self.core.commits.back().map(|commit| commit.ticket) else { return };
        let Some(replica) = self.replica() else { return };
        if replica.promises.back().is_none_or(|(last, _)| *last < newest) {
            replica.promises.push_back((newest, promise));
        }
    }

    /// Makes the promise that a durable transaction allows, if it allows one.
    pub(crate) fn keep_promise(&mut self, ctx: &mut Ctx<'_>, ticket: Ticket) {
        let Some(replica) = self.replica() else { return };
        let Some((_, promise)) = replica.promises.pop_front_if(|(of, _)| *of == ticket) else { return };
        let time = promise.body.map(|body| CopyTime::of(body.arrived, body.submitted, ctx.now.mono));
        if let (Some(body), Some(time)) = (promise.body, time) {
            ctx.recorder.carried_out(body.pushes, body.bytes, time);
        }
        self.promise(ctx, promise.primary, promise.number, time);
    }

    fn promise(&mut self, ctx: &mut Ctx<'_>, primary: OsdId, number: u64, time: Option<CopyTime>) {
        if number == 0 {
            self.core.tell_activated(ctx, primary);
            // That is heeded once in an interval. What came to be missing since goes with a promise, of which there is none to make.
            if self.replica().is_none_or(|replica| replica.lacking.is_empty()) {
                return;
            }
        }
        self.acknowledge(ctx, primary, number, time);
    }

    /// Says that all bodies up to a number are durable here, and what is not here all the same.
    fn acknowledge(&mut self, ctx: &mut Ctx<'_>, primary: OsdId, number: u64, time: Option<CopyTime>) {
        let lacking: Vec<HObject> = self.replica().iter().flat_map(|replica| replica.lacking.iter().cloned()).collect();
        let level = ctx.map.level;
        let told = level.has(Feature::PromiseTimes);
        #[cfg(feature = "sim")]
        let told = told || self.core.mistake == Some(crate::selfcheck::Mistake::IgnoreLevel);
        let time = time.filter(|_| told);
        // A primary that cannot be told hears of it in the next interval.
        let letter = match lacking.is_empty() || !level.has(Feature::Lacking) {
            true => Letter::Ack(number, time),
            false => Letter::AckLacking(number, time, lacking),
        };
        self.core.tell(ctx, primary, &letter);
    }

    /// What the primary was told may be lost: it is told where this copy is.
    pub(crate) fn promise_again(&mut self, ctx: &mut Ctx<'_>, primary: OsdId) {
        let durable = self.core.commits.is_empty();
        let Some(replica) = self.replica() else { return };
        let (activated, applied, merging) = (replica.activated, replica.applied, replica.merge.is_some());
        replica.retells = activated && !durable;
        match activated {
            true if durable => {
                self.core.tell_activated(ctx, primary);
                self.acknowledge(ctx, primary, applied, None);
            }
            true => {}
            false if self.core.history.created > 0 && !merging => self.show_up(ctx),
            false => {}
        }
    }

    fn take_body(&mut self, ctx: &mut Ctx<'_>, primary: OsdId, number: u64, arrived: Mono, body: Box<Body>) {
        let durable = self.core.commits.is_empty();
        let Some(replica) = self.replica().filter(|replica| replica.activated) else { return };
        if number <= replica.applied {
            // It came twice. What is not durable yet is promised when it is.
            if durable {
                self.acknowledge(ctx, primary, number, None);
            }
            return;
        }
        if number != replica.applied + replica.stalled.len() as u64 + 1 {
            return;
        }
        if !replica.stalled.is_empty() {
            return replica.stalled.push_back((number, arrived, body));
        }
        let follows = body.follows(self.core.info.last_update);
        if !follows || !body.objects.iter().all(|o| self.core.holds(&o.object)) {
            let text = format!(
                "osd.{primary} sent a change that does not follow version {}, or is none of this group",
                self.core.info.last_update
            );
            return self.core.log_line(ctx, Level::Error, text);
        }
        self.apply_body(ctx, primary, number, arrived, body);
    }

    fn apply_body(&mut self, ctx: &mut Ctx<'_>, primary: OsdId, number: u64, arrived: Mono, body: Box<Body>) {
        let (bytes, pushes) = (body.written(), body.progress.is_some());
        let Some(misfits) = self.look_at_bases(ctx, &body) else {
            return self.stall(ctx, number, arrived, body);
        };
        // Kept for another attempt; payloads are shared.
        let again = body.clone();
        let body = Box::new(crate::parts::without(*body, &misfits));
        misfits.into_iter().for_each(|object| self.lack(ctx, object));
        // A clone of what is missing is no better.
        let of_missing =
            body.clones().filter(|(source, _)| self.core.missing.contains_key(*source)).map(|(_, clone)| clone.clone());
        let of_missing: Vec<HObject> = of_missing.collect();
        let body = Box::new(crate::parts::without(*body, &of_missing));
        of_missing.into_iter().for_each(|object| self.lack(ctx, object));
        let recovered = body.progress.as_ref().map(|progress| progress.recovered.clone()).unwrap_or_default();
        let changes = self.replica().map(|replica| replica.aside.changes(&body)).unwrap_or_default();
        match self.core.apply(ctx, *body, None) {
            Ok(commit) => {
                let body = Some(TakenBody { arrived, submitted: ctx.now.mono, bytes, pushes });
                if let Some(replica) = self.replica() {
                    replica.promises.push_back((commit.ticket, Promise { primary, number, body }));
                }
                #[cfg(feature = "sim")]
                if self.core.mistake == Some(crate::selfcheck::Mistake::PromiseEarly) {
                    self.promise(ctx, primary, number, None);
                }
                if let Some(replica) = self.replica() {
                    replica.applied = number;
                    replica.aside.note(changes);
                    replica.lacking.retain(|object| !recovered.contains(object));
                }
                self.step_inquiry(ctx);
            }
            Err(Refused::Stopped) => self.core.stopped(ctx),
            Err(_) => {
                // The primary has it, so it must come to be here, too: it waits for room.
                self.stall(ctx, number, arrived, again);
            }
        }
    }

    /// A body waits, and all behind it.
    fn stall(&mut self, ctx: &Ctx<'_>, number: u64, arrived: Mono, body: Box<Body>) {
        if let Some(replica) = self.replica() {
            replica.stalled.push_front((number, arrived, body));
            replica.again = ctx.now.mono.plus(ROOM);
        }
    }

    /// Objects of which a body brings parts that do not fit; `None`: what tells that is being fetched.
    fn look_at_bases(&mut self, ctx: &mut Ctx<'_>, body: &Body) -> Option<Vec<HObject>> {
        if body.progress.as_ref().is_none_or(|progress| progress.bases.is_empty()) {
            return Some(Vec::new());
        }
        let hold = match self.replica().and_then(|replica| replica.fitting) {
            Some(fitting) => fitting.hold,
            None => self.core.next_hold(ctx),
        };
        let found = self.core.misfits(ctx, hold, body);
        let waits = matches!(found, Err(Unread::Missing(_)));
        if let Some(replica) = self.replica() {
            replica.fitting = waits.then_some(Fitting { hold, fetching: true });
        }
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
    /// A copy marks them as missing, and promises the change, and what came after it, when the marks are durable. A primary takes
    /// them from another copy. A crash before the marks are durable leaves blocks that are known to be damaged, never wrong bytes.
    pub(crate) fn meet_damage(&mut self, ctx: &mut Ctx<'_>, ticket: Ticket, objects: Vec<ObjectId>) {
        #[cfg(feature = "sim")]
        if self.core.mistake == Some(crate::selfcheck::Mistake::IgnoreDamage) {
            return;
        }
        let pool = self.core.id.pg.pool;
        let names = objects.into_iter().map(|object| HObject::clone(&object.object)).filter(|object| object.pool == pool);
        for object in names.collect::<Vec<_>>() {
            let text = format!("{object}: a change needed old data that are damaged");
            self.core.log_line(ctx, Level::Error, text.clone());
            ctx.out.push(Effect::ClusterLog { level: ClusterLevel::Error, text: format!("{} {text}", self.core.id) });
            match self.phase {
                Phase::Replica(_) => self.lack(ctx, object),
                Phase::Active if !self.holders(&object).is_empty() => self.mend(ctx, object),
                _ => {}
            }
        }
        let Some(replica) = self.replica() else { return };
        let from = replica.promises.partition_point(|(of, _)| *of < ticket);
        let late = replica.promises.drain(from..).next_back();
        if let Some((_, last)) = late {
            self.promise_newest(last);
        }
    }

    /// The store found damage in an object that nobody asked for: it comes from another copy if there is one, as after a read that met it.
    pub(crate) fn meet_rot(&mut self, ctx: &mut Ctx<'_>, object: &ObjectId) {
        #[cfg(feature = "sim")]
        if self.mistake == Some(crate::selfcheck::Mistake::IgnoreDamage) {
            return;
        }
        let name = HObject::clone(&object.object);
        if object.generation != types::object_id::CURRENT || self.missing.contains_key(&name) {
            // It comes anyway, or nobody needs it.
            return;
        }
        let text = format!("{name}: its data on the disk are damaged");
        self.log_line(ctx, Level::Error, text.clone());
        ctx.out.push(Effect::ClusterLog { level: ClusterLevel::Error, text: format!("{} {text}", self.id) });
        match self.phase {
            Phase::Replica(_) => self.have_mended(ctx, name),
            Phase::Active if self.is_mendable(ctx.now.mono, &name) => self.mend(ctx, name),
            _ => {}
        }
    }

    /// This copy does not have an object, and the primary thinks that it has, or will: it is marked, and told with the next promise.
    pub(crate) fn lack(&mut self, ctx: &mut Ctx<'_>, object: HObject) {
        self.core.log_line(ctx, Level::Warn, format!("{object} is missing here and must be brought whole"));
        if let Some(replica) = self.replica() {
            replica.lacking.insert(object.clone());
        }
        self.core.mark_missing(ctx, object);
    }

    /// Carries out what waited, as far as it need not wait any longer.
    fn go_on_stalled(&mut self, ctx: &mut Ctx<'_>) {
        let primary = self.core.history.interval.primary;
        let now = ctx.now.mono;
        loop {
            let next = self.replica().filter(|r| r.again <= now && !r.is_fetching()).and_then(|r| r.stalled.pop_front());
            let Some((number, arrived, body)) = next else { break };
            self.apply_body(ctx, primary, number, arrived, body);
        }
    }

    /// What time brings to a copy.
    pub(crate) fn turn_replica(&mut self, ctx: &mut Ctx<'_>) {
        let now = ctx.now.mono;
        self.go_on_stalled(ctx);
        if self.replica().is_some_and(|r| r.inquiry.as_ref().is_some_and(|inquiry| inquiry.deadline() <= now)) {
            self.step_inquiry(ctx);
        }
    }

    /// Something became durable.
    pub(crate) fn step_replica(&mut self, ctx: &mut Ctx<'_>) {
        self.answer_asked(ctx);
        if self.replica().is_some_and(|replica| replica.retells) {
            self.promise_again(ctx, self.core.history.interval.primary);
        }
    }

    /// What was fetched for this copy is there.
    pub(crate) fn replica_fetched(&mut self, ctx: &mut Ctx<'_>, hold: Hold) {
        if self.fetched_aside(ctx, hold) {
            return;
        }
        let Some(replica) = self.replica() else { return };
        if let Some(fitting) = replica.fitting.as_mut().filter(|fitting| fitting.hold == hold) {
            fitting.fetching = false;
            replica.again = ctx.now.mono;
            self.go_on_stalled(ctx);
        } else if replica.merge.as_ref().is_some_and(|merge| merge.hold == hold) {
            self.go_on_merging(ctx);
        } else if let Some(errand) = replica.errands.remove(&hold) {
            self.go_on_errand(ctx, hold, errand);
        } else if replica.inquiry.as_ref().is_some_and(|inquiry| inquiry.hold == hold) {
            self.inquiry_fetched(ctx);
        }
    }

    fn run_errand(&mut self, ctx: &mut Ctx<'_>, errand: Errand) {
        let hold = self.core.next_hold(ctx);
        self.go_on_errand(ctx, hold, errand);
    }

    fn go_on_errand(&mut self, ctx: &mut Ctx<'_>, hold: Hold, errand: Errand) {
        let primary = self.core.history.interval.primary;
        match self.read_errand(ctx, hold, &errand) {
            Ok(answer) => {
                ctx.store.release(hold);
                self.core.tell(ctx, primary, &answer);
            }
            Err(Unread::Missing(wish)) => {
                if let Some(replica) = self.replica() {
                    replica.errands.insert(hold, errand);
                }
                ctx.store.fetch(hold, wish);
            }
            Err(Unread::Damaged(damage)) => {
                ctx.store.release(hold);
                if let Errand::Pull(object, _) | Errand::PullPart(object, _) = &errand {
                    self.core.report_damage(ctx, &self.core.object(object.clone()), &damage);
                    let at = if let Errand::Pull(_, at) = &errand { at.clone() } else { PieceAt::default() };
                    self.core.tell(ctx, primary, &Letter::Pulled(object.clone(), at, None));
                } else {
                    self.core.log_line(ctx, Level::Error, format!("cannot be read for the primary: {} is damaged", damage.what));
                    if let Errand::Log(_) = &errand {
                        self.core.tell(ctx, primary, &Letter::Unable);
                    }
                }
            }
        }
    }

    fn read_errand(&self, ctx: &Ctx<'_>, hold: Hold, errand: &Errand) -> Result<Letter, Unread> {
        match errand {
            Errand::Pull(object, _) | Errand::PullPart(object, _) if self.core.missing.contains_key(object) => {
                Ok(Letter::Pulled(object.clone(), PieceAt::default(), None))
            }
            Errand::Pull(object, at) => {
                let piece = read_piece(&*ctx.store, hold, &self.core.object(object.clone()), at, &ctx.config.sizes)?;
                Ok(Letter::Pulled(object.clone(), at.clone(), Some(Box::new(piece))))
            }
            Errand::PullPart(object, base) => {
                let piece = read_part(&*ctx.store, hold, &self.core.object(object.clone()), &base.part, &ctx.config.sizes)?;
                Ok(Letter::PulledPart(object.clone(), base.have, piece.map(Box::new)))
            }
            Errand::Scan(from, to) => {
                let most = ctx.config.sizes.scan;
                let found = self.core.versions(ctx, hold, from, to, most)?;
                let end = if found.len() < most { to.clone() } else { found.last().map_or(to.clone(), |(o, _)| o.clone()) };
                Ok(Letter::Scanned(from.clone(), end, found))
            }
            Errand::Seek(wanted) => {
                let sought: Result<Vec<_>, Unread> =
                    wanted.iter().map(|(object, need)| self.core.look_up(ctx, hold, object, *need)).collect();
                Ok(Letter::Sought(sought?))
            }
            Errand::Log(after) => {
                let entries = self.core.read_log_behind(ctx, hold, *after)?;
                let missing = self.core.missing.iter().map(|(object, lack)| (object.clone(), lack.need)).collect();
                let (info, history) = (self.core.info.clone(), self.core.history.clone());
                let (anew, dups) = (false, Vec::new());
                Ok(Letter::Log(Box::new(LogPart { info, history, common: *after, anew, entries, dups, missing })))
            }
        }
    }
}
