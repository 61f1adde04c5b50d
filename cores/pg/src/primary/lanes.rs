//! How work on objects goes through a primary: lanes, execution, duplicates.
//!
//! *Data and owner.* A [`Lane`] is there while its object has work that waits, or a change that is not durable; an
//! idle object has none. A [`Job`] is work that was begun and waits for the store or for somebody else: it is filed
//! under its hold and, but for work that has no lane, holds its object's lane.
//!
//! *Invariants.* One job at a time holds a lane. Work of one object begins in the order of arrival. A lane that nobody
//! holds has no work in its queue.

use super::Primary;
use super::asking::Asking;
use super::commit::{Pending, Release, refusal, repeated};
use super::recovery::Bring;
use super::scrub::check::Check;
use super::unfound::Mercy;
use crate::api::{ClientOp, Ctx, Effect};
use crate::core::Core;
use crate::info::ObjectInfo;
use crate::letter::Letter;
use crate::missing::is_missing;
use crate::needs::needs;
use crate::ops::run::{Change, Copies, Env, Exec, Outcome, Stop};
use crate::ops::{self, run};
use crate::pieces::{Pieces, Question, Want};
use crate::questions::Subject;
use crate::recorder::{OpKey, Step};
use crate::scheme::Sight;
use crate::scrub::findings::Findings;
use crate::watch::Watches;
use maps::Pool;
use messages::osd::{code, flags};
use node::Level;
use objectstore::{Hold, Ticket, Unfit, Unread, Wish};
use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use types::{CopyId, Errno, HObject, ObjectId, ReqId, Rope, ShardId, SnapId};

/// Something to do with an object.
pub(crate) enum Work {
    /// A client's operation.
    Client(Box<ClientOp>),
    /// A client's operation on the whole group. It has no lane.
    Group(Box<ClientOp>),
    /// Remove a watch whose time is over.
    Expire { cookie: u64, holder: (u8, i64) },
    /// Take a removed snapshot from the object's clones.
    Trim { snap: u64 },
    /// Bring the object to copies that lack it, or here.
    Bring(Box<Bring>),
    /// Compare what all copies hold of it.
    Check(Box<Check>),
    /// Give it up: nobody has it.
    Lose(Mercy),
}

/// Work that was begun.
pub(crate) struct Job {
    pub(crate) work: Work,
    pub(crate) head: ObjectId,
    pub(crate) hold: Hold,
    pub(crate) fetched: bool,
    /// It waited for a copy.
    pub(crate) waited: bool,
    pub(crate) copies: Copies,
    /// What it asked other shards for.
    pub(crate) asking: Option<Box<Asking>>,
    /// For clients' operations: identity, and whether it modifies.
    pub(crate) reqid: ReqId,
    pub(crate) modifies: bool,
}

impl Work {
    /// The client's operation that it is.
    pub(crate) fn op(&self) -> Option<&ClientOp> {
        match self {
            Work::Client(op) | Work::Group(op) => Some(op),
            Work::Expire { .. } | Work::Trim { .. } | Work::Bring(_) | Work::Check(_) | Work::Lose(_) => None,
        }
    }
}

impl Job {
    /// Begins work, under a hold of its own.
    pub(crate) fn new(core: &mut Core, ctx: &Ctx<'_>, work: Work, head: ObjectId) -> Self {
        let (reqid, modifies) = match &work {
            Work::Client(op) => (reqid(op), needs(&op.op).is_ok_and(|n| n.modifies())),
            _ => (ReqId::default(), false),
        };
        let hold = core.next_hold(ctx);
        Self { work, head, hold, fetched: false, waited: false, copies: Copies::new(), asking: None, reqid, modifies }
    }

    /// Returns what was collected for it.
    fn collected(&self) -> Vec<ObjectId> {
        self.copies.values().filter_map(|copied| copied.as_ref().ok()?.staged.clone()).collect()
    }

    /// The client's operation that it is, as the OSD names it.
    pub(crate) fn key(&self) -> OpKey {
        self.work.op().map_or(OpKey::NONE, |op| op.key)
    }
}

/// The work on one object: one at a time, in order of arrival.
#[derive(Default)]
pub(crate) struct Lane {
    /// The job that waits for something to be fetched.
    pub(crate) held: Option<Hold>,
    pub(crate) queue: VecDeque<Work>,
    /// The newest change of the object that is not durable yet.
    pub(crate) last: Option<Ticket>,
}

/// What an operation sees of a group beside its objects.
pub(crate) struct Seen<'a> {
    pub(crate) watches: &'a Watches,
    /// Findings of scrubs in this interval.
    pub(crate) findings: Option<&'a Findings>,
    /// Notifications that were begun in this interval.
    pub(crate) notifies: u32,
    /// Bytes that the operation looks at are added here.
    pub(crate) cost: &'a Cell<u64>,
}

/// Runs a job over the submitted state.
pub(crate) fn execute(core: &Core, ctx: &Ctx<'_>, job: &Job, seen: &Seen<'_>) -> Exec<Outcome> {
    let Some(pool) = ctx.map.pools.get(&core.id.pg.pool) else { return Ok(Outcome::Drop) };
    let nothing = Pieces::default();
    let sight = core.scheme.sight(&*ctx.store, job.asking.as_ref().map_or(&nothing, |asking| &asking.pieces));
    match execute_over(core, ctx, job, seen, pool, &sight) {
        Err(Stop::Unread(Unread::Missing(wish))) => match sight.into_wants() {
            wants if wants.is_empty() => Err(Stop::Unread(Unread::Missing(wish))),
            wants => Err(Stop::Shards(wish, wants)),
        },
        done => done,
    }
}

fn execute_over(core: &Core, ctx: &Ctx<'_>, job: &Job, seen: &Seen<'_>, pool: &Pool, sight: &Sight<'_>) -> Exec<Outcome> {
    let env = Env {
        store: sight.view(),
        scheme: &core.scheme,
        hold: job.hold,
        config: ctx.config,
        map: ctx.map,
        pool,
        now: ctx.now,
        id: core.id,
        info: &core.info,
        watches: seen.watches,
        missing: &core.missing,
        purged: &core.history.purged,
        scrubbed: core.scrubbed || core.history.scrub.0 != Default::default(),
        findings: seen.findings,
        since: core.history.since,
        cost: seen.cost,
        notify_id: u64::from(ctx.map.epoch) << 32 | u64::from((ctx.slot << 16).wrapping_add(seen.notifies)),
    };
    let mut outcome = match &job.work {
        Work::Client(op) => run::execute(&env, &job.head, op, job.reqid, job.modifies, &job.copies),
        Work::Group(op) => {
            let (result, results) = ops::list::execute(&env, &op.op)?;
            let user_version = core.info.user_version;
            Ok(Outcome::Read { result, results, user_version, sides: Vec::new(), delta: Default::default() })
        }
        Work::Expire { cookie, holder } => crate::ops::internal::expire(&env, &job.head, *cookie, *holder),
        Work::Trim { snap } => crate::ops::internal::trim(&env, &job.head, *snap),
        Work::Bring(_) | Work::Check(_) | Work::Lose(_) => Ok(Outcome::Drop),
    }?;
    if let Outcome::Write { change, .. } = &mut outcome {
        share(core, ctx, job, sight, change)?;
        rehearse(ctx, job, change)?;
    }
    Ok(outcome)
}

/// Makes of a change what happens on each shard, if the group has shards.
fn share(core: &Core, ctx: &Ctx<'_>, job: &Job, sight: &Sight<'_>, change: &mut Change) -> Exec {
    let Some(mut shares) = core.scheme.share(sight, job.hold, &change.body.objects, change.whole)? else { return Ok(()) };
    let own = usize::try_from(core.id.shard.0).ok().and_then(|own| shares.get_mut(own));
    change.body.objects = own.map(std::mem::take).unwrap_or_default();
    core.scheme.note_before(&*ctx.store, job.hold, &mut change.body)?;
    change.shares = Some(shares);
    Ok(())
}

/// Stops if a change cannot be carried out: a part of a block cannot be written beside what cannot be read. Better told
/// now than the rest of it lost.
fn rehearse(ctx: &Ctx<'_>, job: &Job, change: &Change) -> Exec {
    if change.rehearse {
        ctx.store.rehearse(job.hold, &change.body.objects).map_err(|unfit| match unfit {
            Unfit::Unread(unread) => Stop::Unread(unread),
            Unfit::TooLarge => Stop::Result(Errno::EFBIG.wire()),
        })?;
    }
    Ok(())
}

impl Primary {
    /// Checks that need no object, then into the lane.
    pub(crate) fn admit(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, op: ClientOp) {
        let needs = match check(ctx, &op) {
            Ok(needs) => needs,
            Err(errno) => return refuse(ctx, &op, errno.wire()),
        };
        if needs.group {
            let job = Job::new(core, ctx, Work::Group(Box::new(op)), ObjectId::default());
            return self.attempt(core, ctx, job);
        }
        let head = core.object(HObject::head(op.op.oid.clone(), &op.op.locator));
        let mine = ctx.map.pools.get(&core.id.pg.pool).is_some_and(|pool| pool.fold(head.hash) == core.id.pg.seed);
        if !mine || head.pool != core.id.pg.pool {
            // It belongs to a sibling that was split off; the client sends it there when it has the map.
            return drop_op(ctx, &op);
        }
        let skips = op.peer.kind == types::EntityType::Osd && op.op.ops.iter().any(|o| o.code == messages::osd::code::COPY_READ);
        // What lies on several shards is read in the lane: no write may be between them.
        if skips && core.scheme.is_whole() && !self.must_bring(core, &head, false) {
            // Reads for copies pass a held lane: the holder may be the copy that waits for this read.
            let job = Job::new(core, ctx, Work::Client(Box::new(op)), head);
            return self.attempt(core, ctx, job);
        }
        self.enqueue(core, ctx, head, Work::Client(Box::new(op)));
    }

    pub(crate) fn enqueue(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, head: ObjectId, work: Work) {
        match self.lanes.get_mut(&head) {
            Some(lane) if lane.held.is_some() || !lane.queue.is_empty() => {
                record(ctx, &work, Step::WaitsForObject);
                lane.queue.push_back(work);
            }
            // An idle object has no lane; it gets one when something is held or not durable.
            _ if self.members.all.is_empty() && core.missing.is_empty() => self.start(core, ctx, head, work),
            _ => {
                self.start(core, ctx, head.clone(), work);
                self.pump(core, ctx, &head);
            }
        }
    }

    /// Starts what the lane has, until it is held or empty.
    pub(crate) fn pump(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, head: &ObjectId) {
        while let Some(lane) = self.lanes.get_mut(head) {
            if lane.held.is_some() {
                return;
            }
            let Some(work) = lane.queue.pop_front() else {
                if lane.last.is_none() {
                    self.lanes.remove(head);
                }
                return;
            };
            self.start(core, ctx, head.clone(), work);
        }
    }

    fn start(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, head: ObjectId, work: Work) {
        let job = Job::new(core, ctx, work, head);
        #[cfg(feature = "sim")]
        let Some(job) = (if core.mistake == Some(crate::selfcheck::Mistake::RepeatEarly) {
            self.answer_duplicate(core, ctx, job)
        } else {
            Some(job)
        }) else {
            return;
        };
        let internal = !matches!(job.work, Work::Client(_) | Work::Bring(_) | Work::Check(_));
        if !matches!(job.work, Work::Bring(_) | Work::Check(_) | Work::Lose(_))
            && self.must_bring(core, &job.head, job.modifies || internal)
        {
            return self.bring_first(core, ctx, job);
        }
        // What was done before is answered after that: then all members have what came of it.
        let Some(job) = self.answer_duplicate(core, ctx, job) else { return };
        self.attempt(core, ctx, job);
    }

    /// The object comes before the work on it; what waits for one that is unfound waits with it.
    pub(crate) fn bring_first(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, job: Job) {
        record(ctx, &job.work, Step::WaitsForRecovery);
        self.discard_collected(core, ctx, job.collected());
        if let Some(waiting) = self.recovery.unfound.get_mut(&*job.head.object) {
            return waiting.push_back(job.work);
        }
        let settles = job.modifies || !matches!(job.work, Work::Client(_));
        self.lanes.entry(job.head.clone()).or_default().queue.push_front(job.work);
        let bring = Job::new(core, ctx, Work::Bring(Box::new(Bring::before(settles))), job.head);
        self.attempt(core, ctx, bring);
    }

    /// The object of a job that waited comes before the job, which begins anew then.
    pub(crate) fn bring_before(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, job: Job) {
        if job.fetched {
            ctx.store.release(job.hold);
        }
        if let Some(lane) = self.lanes.get_mut(&job.head) {
            lane.held = lane.held.filter(|hold| *hold != job.hold);
        }
        self.bring_first(core, ctx, job);
    }

    /// Returns true if the object of a job that waited must be brought before the job goes on.
    fn became_lacking(&self, core: &Core, job: &Job) -> bool {
        // What other shards lack is found by a job that asked for it.
        let changes = job.modifies || !matches!(job.work, Work::Client(_));
        is_missing(&core.missing, &job.head) || job.asking.is_some() && changes && self.members.anybody_lacks(&job.head)
    }

    fn holds_lane(&self, job: &Job) -> bool {
        self.lanes.get(&job.head).is_some_and(|lane| lane.held == Some(job.hold))
    }

    /// Runs a job; if it misses something, has that fetched and keeps the job for then.
    pub(crate) fn attempt(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, job: Job) {
        if matches!(job.work, Work::Bring(_)) {
            return self.attempt_bring(core, ctx, job);
        }
        if matches!(job.work, Work::Check(_)) {
            return self.attempt_check(core, ctx, job);
        }
        if matches!(job.work, Work::Lose(_)) {
            return self.attempt_lose(core, ctx, job);
        }
        if (job.fetched || job.waited) && self.became_lacking(core, &job) && self.holds_lane(&job) {
            // It was found to be damaged while the job waited. Nothing happens to what is missing before it is brought.
            return self.bring_before(core, ctx, job);
        }
        #[cfg(feature = "sim")]
        let trusts = core.mistake == Some(crate::selfcheck::Mistake::ReadWithoutLease);
        #[cfg(not(feature = "sim"))]
        let trusts = false;
        if !trusts && self.must_wait_for_lease(core, ctx, &job) {
            return self.wait_for_lease(ctx, job);
        }
        let cost = Cell::new(0);
        let result = self.execute(core, ctx, &job, &cost);
        ctx.recorder.cost(cost.get());
        match result {
            Ok(outcome) => self.conclude_job(core, ctx, job, outcome),
            Err(Stop::Unread(Unread::Missing(wish))) => self.fetch_for(ctx, job, wish),
            Err(Stop::Shards(wish, wants)) => self.ask_shards(core, ctx, job, wish, wants),
            Err(Stop::Copy(wish)) => {
                record(ctx, &job.work, Step::WaitsForData);
                self.begin_copy(core, ctx, job.hold, *wish);
                self.keep_waiting(job);
            }
            Err(Stop::Unread(Unread::Damaged(damage))) => {
                core.report_damage(ctx, &job.head, &damage);
                if let Some(object) = self.mendable(core, ctx, &job) {
                    return self.mend_first(core, ctx, job, object);
                }
                self.conclude_job(core, ctx, job, Outcome::Refused(Errno::EIO.wire()));
            }
            Err(Stop::Result(result)) => self.conclude_job(core, ctx, job, Outcome::Refused(result)),
        }
    }

    /// Has fetched what a job misses, and keeps the job, with its lane, until that is there.
    pub(crate) fn fetch_for(&mut self, ctx: &mut Ctx<'_>, mut job: Job, wish: objectstore::Wish) {
        job.fetched = true;
        record(ctx, &job.work, Step::WaitsForData);
        self.hold_lane(&job);
        ctx.store.fetch(job.hold, wish);
        self.jobs.insert(job.hold, job);
    }

    /// Asks the copies that have them for parts of other shards, and the own store for what that misses, and keeps the job
    /// until all is there.
    pub(super) fn ask_shards(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, mut job: Job, wish: Wish, wants: Vec<Want>) {
        record(ctx, &job.work, Step::WaitsForData);
        let mut of_each: BTreeMap<ShardId, Vec<Want>> = BTreeMap::new();
        for want in wants {
            of_each.entry(want.shard).or_default().push(want);
        }
        let asking = job.asking.get_or_insert_default();
        let gives_up = self.give_up_shards(&of_each, &mut asking.pieces);
        if gives_up {
            // What can be had is asked for when the job has run around the rest.
            return self.attempt(core, ctx, job);
        }
        for (shard, wants) in of_each {
            let Some((copy, member)) = self.members.of_shard(shard) else { continue };
            let question = Question { number: core.next_hold(ctx).0, after: member.stream.last(), wants };
            let subject = Subject::Shard(question.number);
            self.questions.ask_for(core, ctx, job.hold, copy, subject, Letter::ReadShard(Box::new(question)));
            asking.open += 1;
        }
        asking.fetching = !wish.0.is_empty();
        if asking.fetching {
            job.waited = true;
            self.fetch_for(ctx, job, wish);
        } else {
            self.keep_waiting(job);
        }
    }

    /// Notes which of these parts cannot be had: nobody has that shard here, or who has it lacks the object. Returns true if
    /// there are some.
    fn give_up_shards(&self, wanted: &BTreeMap<ShardId, Vec<Want>>, pieces: &mut Pieces) -> bool {
        let mut some = false;
        for (shard, want) in wanted.iter().flat_map(|(shard, wants)| wants.iter().map(move |want| (*shard, want))) {
            if self.members.of_shard(shard).is_none_or(|(_, member)| !member.has(&want.object)) {
                pieces.give_up(&want.object, shard);
                some = true;
            }
        }
        some
    }

    /// A copy gives parts of its shard, or cannot.
    pub(crate) fn hear_shard(
        &mut self,
        core: &mut Core,
        ctx: &mut Ctx<'_>,
        from: CopyId,
        question: Question,
        parts: Option<Vec<Rope>>,
    ) {
        // An answer brings the question back, and both must be the same: a former life of this OSD may have asked something
        // else under that number.
        let subject = Subject::Shard(question.number);
        if !matches!(self.questions.asked(from, subject.clone()), Some(Letter::ReadShard(asked)) if **asked == question) {
            return;
        }
        let Some(hold) = self.questions.answered(from, subject).and_then(|open| open.job) else { return };
        let Some(asking) = self.jobs.get_mut(&hold).and_then(|job| job.asking.as_mut()) else { return };
        let refused = asking.hear(question.wants, parts);
        if !asking.waits() {
            self.resume(core, ctx, hold);
        }
        self.hear_refused(core, ctx, from, refused);
    }

    /// A copy could not give its shard of these objects: it is damaged there, or is not what it must be. It is made anew.
    fn hear_refused(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, from: CopyId, objects: Vec<HObject>) {
        for object in objects {
            core.log_line(ctx, Level::Error, format!("{object}: osd.{from} cannot give a part of its shard"));
            // What cannot be made of the others stays: other parts of it may be read.
            let mut others = self.members.shards_of(&object);
            others.retain(|copy| *copy != from);
            others.extend((!core.missing.contains_key(&object)).then_some(core.me(ctx)));
            if core.scheme.can_make(&others) && self.members.note_lack(from, &object, core.info.last_update) {
                core.repaired += 1;
                self.due.recovery = true;
            }
        }
    }

    /// Keeps a job, with its lane, until another OSD has said something.
    pub(crate) fn keep_waiting(&mut self, mut job: Job) {
        job.waited = true;
        self.hold_lane(&job);
        self.jobs.insert(job.hold, job);
    }

    fn hold_lane(&mut self, job: &Job) {
        if matches!(job.work, Work::Group(_)) {
            return;
        }
        let lane = self.lanes.entry(job.head.clone()).or_default();
        // A read for a copy runs beside the lane and must not take it from its holder.
        lane.held = lane.held.or(Some(job.hold));
    }

    /// Gives the lane free and concludes; what was fetched is kept until the store has what came of it.
    fn conclude_job(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, job: Job, outcome: Outcome) {
        let fetched = job.fetched.then_some(job.hold);
        if (job.fetched || job.waited)
            && let Some(lane) = self.lanes.get_mut(&job.head)
        {
            lane.held = lane.held.filter(|hold| *hold != job.hold);
        }
        let collected = job.collected();
        self.conclude(core, ctx, job, outcome);
        self.discard_collected(core, ctx, collected);
        if let Some(hold) = fetched {
            ctx.store.release(hold);
        }
    }

    /// Answers a write that was seen before, or lets it wait for itself. Gives back what is new.
    fn answer_duplicate(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, job: Job) -> Option<Job> {
        let Work::Client(op) = &job.work else { return Some(job) };
        let Some(done) = core.log.find(&job.reqid).filter(|_| job.modifies) else { return Some(job) };
        let version = done.version;
        let message = repeated(ctx, op, done);
        let release = Release::reply(ctx, op, message).of(job.work);
        // Only its own commit is waited for: behind a later one, the answer would come after those to later requests.
        let its_own = |p: &&mut Pending| p.first.is_some_and(|first| first <= version) && version <= p.version;
        match self.pending.iter_mut().find(its_own) {
            Some(pending) => pending.releases.push(release),
            None => self.release(ctx, release),
        }
        None
    }

    /// Runs a job, with all that a primary knows.
    fn execute(&self, core: &Core, ctx: &Ctx<'_>, job: &Job, cost: &Cell<u64>) -> Exec<Outcome> {
        let (findings, notifies) = (self.findings.as_deref(), self.notify_count);
        execute(core, ctx, job, &Seen { watches: &self.watches, findings, notifies, cost })
    }

    /// Goes on with a job that waits, if there is one under this hold, and with its lane.
    pub(crate) fn resume(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, hold: Hold) -> bool {
        if let Some(asking) = self.jobs.get_mut(&hold).and_then(|job| job.asking.as_mut()) {
            asking.fetching = false;
            if asking.waits() {
                return true;
            }
        }
        let Some(job) = self.jobs.remove(&hold) else { return false };
        let head = job.head.clone();
        self.attempt(core, ctx, job);
        self.pump(core, ctx, &head);
        true
    }
}

/// Tells what a client's operation waits for.
pub(crate) fn record(ctx: &mut Ctx<'_>, work: &Work, step: Step) {
    if let Some(op) = work.op() {
        ctx.recorder.step(op.key, ctx.now.mono, step);
    }
}

pub(crate) fn send_all(ctx: &mut Ctx<'_>, sends: crate::watch::Sends) {
    ctx.out.extend(sends.into_iter().map(|(session, message)| Effect::Send { session, message }));
}

/// Identifies a request across retries.
pub(crate) fn reqid(op: &ClientOp) -> ReqId {
    ReqId { kind: op.peer.kind as u8, num: op.peer.global_id as i64, tid: op.tid, inc: op.op.client_inc as i32 }
}

/// Returns what can be refused without a look at the object.
pub(crate) fn check(ctx: &Ctx<'_>, op: &ClientOp) -> Result<crate::api::Needs, Errno> {
    // Lists of objects are not fenced, as in Ceph: they change nothing.
    let needs = needs(&op.op)?;
    if !needs.group && ctx.map.is_blocklisted(&op.peer.addr) {
        return Err(Errno::ESHUTDOWN);
    }
    let request = &op.op;
    if request.oid.len() > ctx.config.max_name || request.locator.key.len() > ctx.config.max_name {
        return Err(Errno::ENAMETOOLONG);
    }
    if request.locator.nspace.len() > ctx.config.max_namespace {
        return Err(Errno::ENAMETOOLONG);
    }
    if !needs.group && (request.oid.is_empty() || request.flags & flags::PARALLELEXEC != 0) {
        return Err(Errno::EINVAL);
    }
    // The list of an object's snapshots is asked of all of them together, and nothing else is.
    let all_snaps = request.snapid == SnapId::DIR;
    if !needs.group && request.ops.iter().any(|o| (o.code == code::LIST_SNAPS) != all_snaps) {
        return Err(Errno::EINVAL);
    }
    let bytes: usize = request.ops.iter().map(|o| o.input.len()).sum();
    if needs.modifies() && bytes > ctx.config.max_write {
        return Err(Errno::EMSGSIZE);
    }
    Ok(needs)
}

/// The object, head or clone, that a client's operation is about.
pub(crate) fn looked_at(ctx: &Ctx<'_>, job: &Job) -> Option<HObject> {
    let Work::Client(op) = &job.work else { return None };
    Some(match op.op.snapid {
        SnapId::HEAD => HObject::clone(&job.head.object),
        snap => {
            let stat = ctx.store.stat(job.hold, &job.head).ok()??;
            let snaps = ObjectInfo::decode(&stat.info).ok()?.snaps;
            HObject::clone(&job.head.at(snaps.serving(snap.0)?).object)
        }
    })
}

/// Answers an operation that was not carried out, after what the lane has answered before it.
pub(crate) fn refuse(ctx: &mut Ctx<'_>, op: &ClientOp, result: i32) {
    let message = refusal(ctx, op, result);
    ctx.out.push(Effect::Reply { op: op.key, session: op.session, message, executed: ctx.now.mono });
}

/// An operation gets no answer: its client sends it again when a map tells it to.
pub(crate) fn drop_op(ctx: &mut Ctx<'_>, op: &ClientOp) {
    ctx.out.push(Effect::Dropped { op: op.key, session: op.session, tid: op.tid });
}
