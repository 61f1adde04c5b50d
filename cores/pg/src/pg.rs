//! The group itself: its parts, and how operations go through it. Lanes, execution and duplicates are here; what a commit
//! releases is in `commit`, the rest of a group's life in `load`, `split`, `trim`, `scrub`, `removal`.

use crate::api::{ClientOp, Ctx, Effect, LogSize, numbered};
use crate::aside::is_aside;
use crate::commit::{Pending, Release};
use crate::copy::Copying;
use crate::core::Core;
use crate::lease::Laggy;
use crate::letter::{Envelope, Letter};
use crate::load::Loading;
use crate::members::Members;
use crate::needs::needs;
use crate::peering::Peering;
use crate::recorder::{OpKey, Step};
use crate::recovery::{Bring, Recovery};
use crate::removal::Removal;
use crate::replica::Replica;
use crate::reserve::Reserve;
use crate::run::{Copies, Env, Exec, Outcome, Stop};
use crate::scrub::check::Check;
use crate::scrub::findings::Findings;
use crate::scrub::{Order, Scrub};
use crate::split::Splitting;
use crate::trim::Trim;
use crate::unfound::{Mercy, Search};
use crate::unite::Uniting;
use crate::watch::Watches;
use crate::{ops, run};
use messages::osd::{code, flags};
use node::Mono;
use objectstore::{Event, Hold, Ticket, Unfit, Unread};
use std::collections::{BTreeMap, VecDeque};
use types::{Errno, HObject, Message, ObjectId, OsdId, ReqId, SessionId, SnapId, SpgId};

/// What a group is doing as a whole.
pub(crate) enum Phase {
    /// Its meta keys are being read.
    Loading(Box<Loading>),
    /// This OSD is to lead it, and finds out what its copies hold.
    Peering(Box<Peering>),
    /// This OSD leads it, and it serves.
    Active,
    /// Another OSD leads it.
    Replica(Box<Replica>),
    /// It gives objects to new siblings.
    Splitting(Box<Splitting>),
    /// It takes other groups in.
    Uniting(Box<Uniting>),
    /// It is to be taken in by another group, and does nothing any more.
    Leaving,
    /// Its objects are being deleted.
    Removing(Box<Removal>),
    /// Nothing is left.
    Removed,
    /// It cannot serve: its own metadata cannot be read, or a split was refused.
    Broken,
}

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
    /// What was collected for it.
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

/// What a group has only while this OSD leads it, in one interval: nothing of it outlives either.
#[derive(Default)]
pub(crate) struct Serving {
    pub(crate) lanes: BTreeMap<ObjectId, Lane>,
    pub(crate) jobs: BTreeMap<Hold, Job>,
    /// Changes that are not durable at all members, oldest first.
    pub(crate) pending: VecDeque<Pending>,
    pub(crate) watches: Watches,
    /// Operations that came before the group was active.
    pub(crate) waiting: VecDeque<ClientOp>,
    /// Sessions that were told to hold back, with the backoff's number.
    pub(crate) backoffs: BTreeMap<SessionId, u64>,
    pub(crate) copying: BTreeMap<u64, Copying>,
    pub(crate) trim: Trim,
    pub(crate) scrub: Option<Box<Scrub>>,
    /// What scrubs found.
    pub(crate) findings: Option<Box<Findings>>,
    /// A repair left errors.
    pub(crate) failed_repair: bool,
    pub(crate) recovery: Recovery,
    /// Slots for what is brought.
    pub(crate) reserve: Reserve,
    /// What is known of objects that no member has.
    pub(crate) search: Search,
    pub(crate) laggy: Laggy,
    /// The group has fewer members than its pool needs to serve, or is about to be merged.
    pub(crate) short: bool,
    /// It was told that the group is ready to be merged.
    pub(crate) ready: bool,
    pub(crate) notify_count: u32,
}

/// A placement group. See the crate's text.
pub struct Pg {
    /// What every copy has.
    pub(crate) core: Core,
    pub(crate) phase: Phase,
    pub(crate) serving: Serving,
    /// The other copies, while this OSD leads the group.
    pub(crate) members: Members,
    /// Letters that came while this copy could not read them.
    pub(crate) deferred: Vec<(OsdId, Envelope, Letter)>,
    /// Its keys could not be read.
    pub(crate) load_failed: bool,
    /// A scrub ended since the group was loaded.
    pub(crate) scrubbed: bool,
    /// A scrub that shall begin.
    pub(crate) ordered: Option<Order>,
    /// Copies of objects that were mended since the group was loaded.
    pub(crate) repaired: i64,
    /// Counts reports, so that the newest is known.
    pub(crate) reports: u64,
}

impl Pg {
    pub(crate) fn blank(id: SpgId, phase: Phase) -> Self {
        Self {
            core: Core::new(id),
            phase,
            serving: Serving::default(),
            members: Members::default(),
            deferred: Vec::new(),
            load_failed: false,
            scrubbed: false,
            ordered: None,
            repaired: 0,
            reports: 0,
        }
    }

    /// Which group.
    pub fn id(&self) -> SpgId {
        self.core.id
    }

    /// Whether the group's keys could not be read when it was loaded: [`Pg::reload`] may succeed.
    pub fn load_failed(&self) -> bool {
        self.load_failed && matches!(self.phase, Phase::Broken)
    }

    /// Whether operations are carried out now, not only collected.
    pub fn is_active(&self) -> bool {
        matches!(self.phase, Phase::Active) && !self.serving.short
    }

    /// Whether the copy does what it is here for: it serves, or follows who does.
    pub fn is_settled(&self) -> bool {
        matches!(self.phase, Phase::Active | Phase::Replica(_))
    }

    /// Whether the group that has this number comes out of this one, which is splitting or will.
    pub fn will_split_into(&self, seed: u32) -> bool {
        match &self.phase {
            Phase::Splitting(split) => split.makes(self.core.id.pg.seed, seed),
            // It is not known yet whether it must.
            Phase::Loading(_) | Phase::Uniting(_) => descends(seed, self.core.id.pg.seed),
            _ => false,
        }
    }

    /// How much of its log the group has in memory.
    pub fn log_size(&self) -> LogSize {
        LogSize { entries: self.core.log.len(), dups: self.core.log.dups(), bytes: self.core.log.bytes() }
    }

    /// Whether nothing of the group is left.
    pub fn is_removed(&self) -> bool {
        matches!(self.phase, Phase::Removed)
    }

    /// Takes an operation of a client. Its answer comes as [`Effect::Reply`], perhaps at once.
    pub fn handle_op(&mut self, ctx: &mut Ctx<'_>, op: ClientOp) {
        match &self.phase {
            Phase::Active if self.serving.short => self.postpone(ctx, op),
            Phase::Active => self.admit(ctx, op),
            Phase::Loading(_) | Phase::Splitting(_) | Phase::Uniting(_) | Phase::Peering(_) => self.postpone(ctx, op),
            Phase::Broken if is_aside(&op.op) && !self.core.leads_by_map(ctx) => self.send_back(ctx, &op),
            Phase::Broken => self.refuse(ctx, &op, Errno::EIO.wire()),
            Phase::Replica(_) if is_aside(&op.op) => self.read_aside(ctx, op),
            Phase::Leaving | Phase::Removing(_) | Phase::Removed if is_aside(&op.op) => self.send_back(ctx, &op),
            // The client learns from a map where to go.
            Phase::Replica(_) | Phase::Leaving | Phase::Removing(_) | Phase::Removed => drop_op(ctx, &op),
        }
    }

    /// Checks that need no object, then into the lane.
    pub(crate) fn admit(&mut self, ctx: &mut Ctx<'_>, op: ClientOp) {
        let needs = match check(ctx, &op) {
            Ok(needs) => needs,
            Err(errno) => return self.refuse(ctx, &op, errno.wire()),
        };
        if needs.group {
            let job = self.job(ctx, Work::Group(Box::new(op)), ObjectId::default());
            return self.attempt(ctx, job);
        }
        let head = self.core.object(HObject::head(op.op.oid.clone(), &op.op.locator));
        let mine = ctx.map.pools.get(&self.core.id.pg.pool).is_some_and(|pool| pool.fold(head.hash) == self.core.id.pg.seed);
        if !mine || head.pool != self.core.id.pg.pool {
            // It belongs to a sibling that was split off; the client sends it there when it has the map.
            return drop_op(ctx, &op);
        }
        let skips = op.peer.kind == types::EntityType::Osd && op.op.ops.iter().any(|o| o.code == messages::osd::code::COPY_READ);
        if skips && !self.must_bring(&head, false) {
            // Reads for copies pass a held lane: the holder may be the copy that waits for this read.
            let job = self.job(ctx, Work::Client(Box::new(op)), head);
            return self.attempt(ctx, job);
        }
        self.enqueue(ctx, head, Work::Client(Box::new(op)));
    }

    pub(crate) fn enqueue(&mut self, ctx: &mut Ctx<'_>, head: ObjectId, work: Work) {
        match self.serving.lanes.get_mut(&head) {
            Some(lane) if lane.held.is_some() || !lane.queue.is_empty() => {
                record(ctx, &work, Step::WaitsForObject);
                lane.queue.push_back(work);
            }
            // An idle object has no lane; it gets one when something is held or not durable.
            _ if self.members.all.is_empty() && self.core.missing.is_empty() => self.start(ctx, head, work),
            _ => {
                self.start(ctx, head.clone(), work);
                self.pump(ctx, &head);
            }
        }
    }

    /// Starts what the lane has, until it is held or empty.
    pub(crate) fn pump(&mut self, ctx: &mut Ctx<'_>, head: &ObjectId) {
        while let Some(lane) = self.serving.lanes.get_mut(head) {
            if lane.held.is_some() {
                return;
            }
            let Some(work) = lane.queue.pop_front() else {
                if lane.last.is_none() {
                    self.serving.lanes.remove(head);
                }
                return;
            };
            self.start(ctx, head.clone(), work);
        }
    }

    pub(crate) fn job(&mut self, ctx: &Ctx<'_>, work: Work, head: ObjectId) -> Job {
        let (reqid, modifies) = match &work {
            Work::Client(op) => (reqid(op), needs(&op.op).is_ok_and(|n| n.modifies())),
            _ => (ReqId::default(), false),
        };
        let hold = self.core.next_hold(ctx);
        Job { work, head, hold, fetched: false, waited: false, copies: Copies::new(), reqid, modifies }
    }

    fn start(&mut self, ctx: &mut Ctx<'_>, head: ObjectId, work: Work) {
        let job = self.job(ctx, work, head);
        #[cfg(feature = "sim")]
        let Some(job) = (if self.core.mistake == Some(crate::selfcheck::Mistake::RepeatEarly) {
            self.answer_duplicate(ctx, job)
        } else {
            Some(job)
        }) else {
            return;
        };
        let internal = !matches!(job.work, Work::Client(_) | Work::Bring(_) | Work::Check(_));
        if !matches!(job.work, Work::Bring(_) | Work::Check(_) | Work::Lose(_))
            && self.must_bring(&job.head, job.modifies || internal)
        {
            return self.bring_first(ctx, job);
        }
        // What was done before is answered after that: then all members have what came of it.
        let Some(job) = self.answer_duplicate(ctx, job) else { return };
        self.attempt(ctx, job);
    }

    /// The object comes before the work on it; what waits for one that is unfound waits with it.
    pub(crate) fn bring_first(&mut self, ctx: &mut Ctx<'_>, job: Job) {
        record(ctx, &job.work, Step::WaitsForRecovery);
        self.discard_collected(ctx, job.collected());
        if let Some(waiting) = self.serving.recovery.unfound.get_mut(&*job.head.object) {
            return waiting.push_back(job.work);
        }
        let settles = job.modifies || !matches!(job.work, Work::Client(_));
        self.serving.lanes.entry(job.head.clone()).or_default().queue.push_front(job.work);
        let bring = self.job(ctx, Work::Bring(Box::new(Bring::before(settles))), job.head);
        self.attempt(ctx, bring);
    }

    /// Runs a job; if it misses something, has that fetched and keeps the job for then.
    pub(crate) fn attempt(&mut self, ctx: &mut Ctx<'_>, job: Job) {
        if matches!(job.work, Work::Bring(_)) {
            return self.attempt_bring(ctx, job);
        }
        if matches!(job.work, Work::Check(_)) {
            return self.attempt_check(ctx, job);
        }
        if matches!(job.work, Work::Lose(_)) {
            return self.attempt_lose(ctx, job);
        }
        if self.must_wait_for_lease(ctx, &job) {
            return self.wait_for_lease(ctx, job);
        }
        match self.execute(ctx, &job) {
            Ok(outcome) => self.conclude_job(ctx, job, outcome),
            Err(Stop::Unread(Unread::Missing(wish))) => self.fetch_for(ctx, job, wish),
            Err(Stop::Copy(wish)) => {
                record(ctx, &job.work, Step::WaitsForData);
                self.begin_copy(ctx, job.hold, *wish);
                self.keep_waiting(job);
            }
            Err(Stop::Unread(Unread::Damaged(damage))) => {
                self.core.report_damage(ctx, &job.head, &damage);
                if let Some(object) = self.mendable(ctx, &job) {
                    return self.mend_first(ctx, job, object);
                }
                self.conclude_job(ctx, job, Outcome::Refused(Errno::EIO.wire()));
            }
            Err(Stop::Result(result)) => self.conclude_job(ctx, job, Outcome::Refused(result)),
        }
    }

    /// Has fetched what a job misses, and keeps the job, with its lane, until that is there.
    pub(crate) fn fetch_for(&mut self, ctx: &mut Ctx<'_>, mut job: Job, wish: objectstore::Wish) {
        job.fetched = true;
        record(ctx, &job.work, Step::WaitsForData);
        self.hold_lane(&job);
        ctx.store.fetch(job.hold, wish);
        self.serving.jobs.insert(job.hold, job);
    }

    /// Keeps a job, with its lane, until another OSD has said something.
    pub(crate) fn keep_waiting(&mut self, mut job: Job) {
        job.waited = true;
        self.hold_lane(&job);
        self.serving.jobs.insert(job.hold, job);
    }

    fn hold_lane(&mut self, job: &Job) {
        if matches!(job.work, Work::Group(_)) {
            return;
        }
        let lane = self.serving.lanes.entry(job.head.clone()).or_default();
        // A read for a copy runs beside the lane and must not take it from its holder.
        lane.held = lane.held.or(Some(job.hold));
    }

    /// Gives the lane free and concludes; what was fetched is kept until the store has what came of it.
    fn conclude_job(&mut self, ctx: &mut Ctx<'_>, job: Job, outcome: Outcome) {
        let fetched = job.fetched.then_some(job.hold);
        if (job.fetched || job.waited)
            && let Some(lane) = self.serving.lanes.get_mut(&job.head)
        {
            lane.held = lane.held.filter(|hold| *hold != job.hold);
        }
        let collected = job.collected();
        self.conclude(ctx, job, outcome);
        self.discard_collected(ctx, collected);
        if let Some(hold) = fetched {
            ctx.store.release(hold);
        }
    }

    pub(crate) fn execute(&self, ctx: &Ctx<'_>, job: &Job) -> Exec<Outcome> {
        let Some(pool) = ctx.map.pools.get(&self.core.id.pg.pool) else { return Ok(Outcome::Drop) };
        let env = Env {
            store: &*ctx.store,
            hold: job.hold,
            config: ctx.config,
            map: ctx.map,
            pool,
            now: ctx.now,
            id: self.core.id,
            info: &self.core.info,
            watches: &self.serving.watches,
            missing: &self.core.missing,
            purged: &self.core.history.purged,
            scrubbed: self.scrubbed || self.core.history.scrub.0 != Default::default(),
            findings: self.serving.findings.as_deref(),
            since: self.core.history.since,
            notify_id: u64::from(ctx.map.epoch) << 32 | u64::from((ctx.slot << 16).wrapping_add(self.serving.notify_count)),
        };
        match &job.work {
            Work::Client(op) => {
                self.rehearsed(ctx, job, run::execute(&env, &job.head, op, job.reqid, job.modifies, &job.copies)?)
            }
            Work::Group(op) => {
                let (result, results) = ops::list::execute(&env, &op.op)?;
                let user_version = self.core.info.user_version;
                Ok(Outcome::Read { result, results, user_version, sides: Vec::new(), delta: Default::default() })
            }
            Work::Expire { cookie, holder } => crate::internal::expire(&env, &job.head, *cookie, *holder),
            Work::Trim { snap } => crate::internal::trim(&env, &job.head, *snap),
            Work::Bring(_) | Work::Check(_) | Work::Lose(_) => Ok(Outcome::Drop),
        }
    }

    /// An outcome, unless it cannot be carried out: a part of a block cannot be written beside what cannot be read. Better told now than the
    /// rest of it lost.
    fn rehearsed(&self, ctx: &Ctx<'_>, job: &Job, outcome: Outcome) -> Exec<Outcome> {
        if let Outcome::Write { change, .. } = &outcome
            && change.rehearse
        {
            ctx.store.rehearse(job.hold, &change.body.objects).map_err(|unfit| match unfit {
                Unfit::Unread(unread) => Stop::Unread(unread),
                Unfit::TooLarge => Stop::Result(Errno::EFBIG.wire()),
            })?;
        }
        Ok(outcome)
    }

    /// Answers a write that was seen before, or lets it wait for itself. Gives back what is new.
    fn answer_duplicate(&mut self, ctx: &mut Ctx<'_>, job: Job) -> Option<Job> {
        let Work::Client(op) = &job.work else { return Some(job) };
        let Some(done) = self.core.log.find(&job.reqid).filter(|_| job.modifies) else { return Some(job) };
        let version = done.version;
        let message = crate::commit::repeated(ctx, op, done);
        let release = Release::reply(ctx, op, message).of(job.work);
        // Only its own commit is waited for: behind a later one, the answer would come after those to later requests.
        let its_own = |p: &&mut Pending| p.first.is_some_and(|first| first <= version) && version <= p.version;
        match self.serving.pending.iter_mut().find(its_own) {
            Some(pending) => pending.releases.push(release),
            None => self.release(ctx, release),
        }
        None
    }

    /// Answers an operation that was not carried out, after what the lane has answered before it.
    pub(crate) fn refuse(&mut self, ctx: &mut Ctx<'_>, op: &ClientOp, result: i32) {
        let message = crate::commit::refusal(ctx, op, result);
        ctx.out.push(Effect::Reply { op: op.key, session: op.session, message, executed: ctx.now.mono });
    }

    /// Keeps an operation until the group is active; if too many wait, the client is asked to hold back.
    fn postpone(&mut self, ctx: &mut Ctx<'_>, op: ClientOp) {
        if self.serving.backoffs.contains_key(&op.session) {
            return drop_op(ctx, &op);
        }
        if self.serving.waiting.len() < ctx.config.max_waiting {
            return self.wait_for_active(ctx, op);
        }
        // It comes again when the backoff ends.
        drop_op(ctx, &op);
        self.core.holds += 1;
        let id = numbered(ctx.slot, self.core.holds);
        self.serving.backoffs.insert(op.session, id);
        let message = self.backoff(ctx, messages::osd::code::backoff_op::BLOCK, id);
        ctx.out.push(Effect::Send { session: op.session, message });
    }

    /// Keeps an operation until the group is active.
    pub(crate) fn wait_for_active(&mut self, ctx: &mut Ctx<'_>, op: ClientOp) {
        ctx.recorder.step(op.key, ctx.now.mono, Step::WaitsForActive);
        self.serving.waiting.push_back(op);
    }

    pub(crate) fn backoff(&self, ctx: &Ctx<'_>, op: u8, id: u64) -> Message {
        let pg_num = ctx.map.pools.get(&self.core.id.pg.pool).map_or(1, |pool| pool.pg_num);
        // One that is gone by the map lets go what it held back.
        let pg_num = if self.core.id.pg.seed < pg_num { pg_num } else { self.core.history.pg_num };
        let (begin, end) = crate::object::bounds(self.core.id.pg.pool, self.core.id.pg.seed, pg_num);
        messages::osd::Backoff { pg: self.core.id, epoch: ctx.map.epoch, op, id, begin, end }.encode()
    }

    /// The group serves from here on: what waited goes in.
    pub(crate) fn activate(&mut self, ctx: &mut Ctx<'_>) {
        self.phase = Phase::Active;
        // Somebody may have gone since the copies agreed.
        self.forget_who_is_down(ctx);
        self.core.history.last_change = ctx.now.wall;
        self.serving.short = self.core.is_held();
        if self.serving.short {
            return self.plan_recovery(ctx);
        }
        self.fence(ctx);
        self.plan_trim(ctx);
        if self.core.history.estimated {
            self.count_again(ctx);
        }
        self.begin_ordered(ctx);
        self.end_waiting(ctx);
        self.plan_recovery(ctx);
    }

    /// What waited for the group to be read goes in, and sessions that were told to hold back may go on.
    pub(crate) fn end_waiting(&mut self, ctx: &mut Ctx<'_>) {
        for (session, id) in std::mem::take(&mut self.serving.backoffs) {
            let message = self.backoff(ctx, messages::osd::code::backoff_op::UNBLOCK, id);
            ctx.out.push(Effect::Send { session, message });
        }
        for op in std::mem::take(&mut self.serving.waiting) {
            self.handle_op(ctx, op);
        }
    }

    /// Takes an event of the store whose hold or ticket carries this group's slot.
    pub fn store_event(&mut self, ctx: &mut Ctx<'_>, event: Event) {
        match event {
            Event::Committed(ticket) => self.committed(ctx, ticket),
            Event::Damaged(ticket, objects) => self.meet_damage(ctx, ticket, objects),
            Event::Rotten(object) => self.meet_rot(ctx, &object),
            Event::Fetched(hold) => {
                if let Some(job) = self.serving.jobs.remove(&hold) {
                    let head = job.head.clone();
                    self.attempt(ctx, job);
                    self.pump(ctx, &head);
                } else {
                    self.background_fetched(ctx, hold);
                }
            }
        }
        self.step_phase(ctx);
    }

    fn background_fetched(&mut self, ctx: &mut Ctx<'_>, hold: Hold) {
        if matches!(&self.phase, Phase::Loading(loading) if loading.hold == hold) {
            self.step_load(ctx);
        } else if matches!(self.phase, Phase::Peering(_)) {
            self.step_peering(ctx);
        } else if matches!(self.phase, Phase::Replica(_)) {
            self.replica_fetched(ctx, hold);
        } else if self.backfill_fetched(ctx, hold) {
            self.plan_recovery(ctx);
        } else if self.serving.trim.hold == Some(hold) {
            self.step_trim(ctx);
        } else if self.serving.scrub.as_ref().is_some_and(|s| s.hold == hold) {
            self.scrub_fetched(ctx);
        }
    }

    /// Moves on what depends on other work being done.
    fn step_phase(&mut self, ctx: &mut Ctx<'_>) {
        match self.phase {
            Phase::Splitting(_) => self.step_split(ctx),
            Phase::Uniting(_) => self.step_union(ctx),
            Phase::Leaving => self.step_leaving(ctx),
            Phase::Active => self.tell_ready(ctx),
            Phase::Removing(_) => self.step_removal(ctx),
            Phase::Peering(_) => self.step_peering(ctx),
            Phase::Replica(_) => self.step_replica(ctx),
            _ => {}
        }
    }

    /// The session is gone: nothing of it is begun any more, its watches wait for it to come back.
    pub fn session_closed(&mut self, ctx: &mut Ctx<'_>, session: SessionId) {
        let mut stays = |op: &ClientOp| {
            let stays = op.session != session;
            if !stays {
                ctx.out.push(Effect::Dropped { op: op.key, session, tid: op.tid });
            }
            stays
        };
        self.serving.waiting.retain(&mut stays);
        self.serving.backoffs.remove(&session);
        for lane in self.serving.lanes.values_mut() {
            lane.queue.retain(|work| !matches!(work, Work::Client(op) if !stays(op)));
        }
        self.serving.watches.session_closed(ctx.now.mono, session);
    }

    /// Meets deadlines and takes a step of background work. Call it at the latest at [`Pg::deadline`].
    pub fn turn(&mut self, ctx: &mut Ctx<'_>) {
        if self.is_active() {
            self.turn_watches(ctx);
            if self.serving.trim.due(ctx.now.mono) {
                self.step_trim(ctx);
            }
            if self.serving.scrub.as_ref().is_some_and(|s| s.due(ctx.now.mono)) {
                self.step_scrub(ctx);
            }
        }
        self.step_recovery(ctx);
        match self.phase {
            Phase::Peering(_) => self.turn_peering(ctx),
            Phase::Replica(_) => self.turn_replica(ctx),
            _ => self.step_phase(ctx),
        }
    }

    fn turn_watches(&mut self, ctx: &mut Ctx<'_>) {
        for (head, cookie, holder) in self.serving.watches.expired(ctx.now.mono) {
            let head = self.core.object(head);
            self.enqueue(ctx, head, Work::Expire { cookie, holder });
        }
        let mut sends = Vec::new();
        self.serving.watches.time_out(ctx.now.mono, &mut sends);
        send_all(ctx, sends);
    }

    /// When [`Pg::turn`] must be called at the latest.
    pub fn deadline(&self) -> Mono {
        match &self.phase {
            // What serving brings waits until there are members enough: see [`Pg::turn`].
            Phase::Active if self.is_active_in_vain() => self.serving.recovery.deadline(),
            Phase::Active => {
                let scrub = self.serving.scrub.as_ref().map_or(Mono::NEVER, |s| s.deadline());
                let background = self.serving.trim.deadline().min(scrub).min(self.serving.recovery.deadline());
                self.serving.watches.deadline().min(background)
            }
            Phase::Peering(peering) => peering.deadline(),
            Phase::Replica(replica) => replica.deadline(),
            Phase::Removing(removal) => removal.deadline(),
            Phase::Uniting(uniting) => uniting.deadline(),
            _ => Mono::NEVER,
        }
    }

    /// Whether it leads, and does not serve since it has too few members.
    fn is_active_in_vain(&self) -> bool {
        #[cfg(feature = "sim")]
        if self.core.mistake == Some(crate::selfcheck::Mistake::WatchInVain) {
            return false;
        }
        !self.is_active()
    }

    /// The operations of clients that the group keeps, as the OSD names them, in no order: each until it was answered or dropped.
    pub fn ops(&self) -> Vec<OpKey> {
        let serving = &self.serving;
        let begun = serving.jobs.values().map(|job| &job.work);
        let queued = serving.lanes.values().flat_map(|lane| &lane.queue);
        let unfound = serving.recovery.unfound.values().flatten();
        let works = begun.chain(queued).chain(unfound).filter_map(Work::op);
        let done = serving.pending.iter().flat_map(|pending| &pending.releases).filter_map(|release| release.op.as_deref());
        let aside = match &self.phase {
            Phase::Replica(replica) => Some(replica.aside.reads.values()),
            _ => None,
        };
        let aside = aside.into_iter().flatten().filter_map(|job| job.work.op());
        serving.waiting.iter().chain(works).chain(done).chain(aside).map(|op| op.key).collect()
    }
}

/// Tells what a client's operation waits for.
pub(crate) fn record(ctx: &mut Ctx<'_>, work: &Work, step: Step) {
    if let Some(op) = work.op() {
        ctx.recorder.step(op.key, ctx.now.mono, step);
    }
}

/// Whether group `seed` can come out of group `from` of the same pool by splitting, in one step or several.
pub fn descends(mut seed: u32, from: u32) -> bool {
    while seed > from {
        seed &= !(1 << seed.ilog2());
        if seed == from {
            return true;
        }
    }
    false
}

pub(crate) fn send_all(ctx: &mut Ctx<'_>, sends: crate::watch::Sends) {
    ctx.out.extend(sends.into_iter().map(|(session, message)| Effect::Send { session, message }));
}

/// Identifies a request across retries.
pub(crate) fn reqid(op: &ClientOp) -> ReqId {
    ReqId { kind: op.peer.kind as u8, num: op.peer.global_id as i64, tid: op.tid, inc: op.op.client_inc as i32 }
}

/// What can be refused without a look at the object.
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

/// An operation gets no answer: its client sends it again when a map tells it to.
pub(crate) fn drop_op(ctx: &mut Ctx<'_>, op: &ClientOp) {
    ctx.out.push(Effect::Dropped { op: op.key, session: op.session, tid: op.tid });
}
