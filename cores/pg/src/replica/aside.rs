//! Reads that a client sent to a member that does not lead the group.
//!
//! Clients mark such reads (`BALANCE_READS`, `LOCALIZE_READS`) and send them to any member. A member answers a read itself where the
//! answer is the one that the primary could give, and sends it back else (EAGAIN): stock clients ask the primary then, without the mark.
//!
//! *What must hold.* A write that was answered is seen by each read that begins later, at whatever member. What a read saw does not vanish
//! again, and no later read sees less.
//!
//! | condition | why | if it does not hold |
//! |---|---|---|
//! | this copy is a member, has taken up the log, and is not being filled | writes are answered only when they are durable at all members, so all of them are here | sent back |
//! | all other members have promised to stay ([`crate::lease`]) | nobody serves in a later interval, so no write was answered of which this copy knows nothing | sent back |
//! | the object and its clones are here, as the log says | | sent back |
//! | the newest change of the object is *settled*: durable at all members | else it may be undone, and other members may not have it yet | sent back, and the primary is asked what is settled |
//! | it is a plain read of one object | watches and lists are the primary's, writes have an order | sent back |
//!
//! *How a copy knows what is settled.* It asks ([`Letter::Settle`]) when a read needs it, and the primary answers with a version
//! ([`Letter::Settled`]): all changes up to that one are durable at all members. A group that nobody reads in this way spends nothing. From
//! the first such read on, the copy lists changes that are not known to be settled; when they become too many it forgets them all, and
//! begins anew with the next read.
//!
//! *Owner.* All of it belongs to [`crate::replica::Replica`], so it ends with the interval. What is settled stays so, but the next
//! interval may have other members, who answer for themselves.
//!
//! *What is not promised.* Whether a snapshot is removed is seen in maps, and an OSD may have a newer map than another one: a read at a
//! removed snapshot may still find it. That is so at primaries, too.

use super::{Promise, Replica};
use crate::api::{ClientOp, Ctx};
use crate::body::Body;
use crate::core::Core;
use crate::entry::Kind;
use crate::letter::Letter;
use crate::meta::same_object;
use crate::missing::is_missing;
use crate::ops::run::{Outcome, Stop};
use crate::primary::commit::{Executed, read_release};
use crate::primary::lanes::{Job, Seen, Work, check, execute, looked_at, record, refuse};
use crate::questions::Subject;
use crate::recorder::Step;
use crate::watch::Watches;
use messages::osd::{OsdOp, code, flags};
use objectstore::{Hold, Unread};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use types::{Errno, Feature, HObject, ObjectId};

/// Returns true if a client sent this to any member of its group, not to the primary.
pub fn is_aside(op: &OsdOp) -> bool {
    op.flags & (flags::BALANCE_READS | flags::LOCALIZE_READS) != 0
}

/// What a copy knows of changes that are durable at all members, in one interval.
#[derive(Debug)]
struct Settled {
    /// All changes up to this number of a version are.
    upto: u64,
    /// Changes behind this number are listed.
    listed_from: u64,
    /// Changes of which it is not known, oldest first: number, and head or clone.
    open: VecDeque<(u64, Arc<HObject>)>,
}

impl Settled {
    /// Nothing is known of a group that is at this version.
    fn unknown(version: u64) -> Self {
        Self { upto: 0, listed_from: version, open: VecDeque::new() }
    }

    fn learn(&mut self, upto: u64) {
        self.upto = self.upto.max(upto);
        while self.open.front().is_some_and(|(version, _)| *version <= self.upto) {
            self.open.pop_front();
        }
    }

    /// Returns true if all that happened to an object and its clones is durable everywhere.
    fn covers(&self, head: &HObject) -> bool {
        self.upto >= self.listed_from && !self.open.iter().any(|(_, object)| same_object(object, head))
    }
}

/// Reads at a copy that does not lead.
#[derive(Default)]
pub(crate) struct Aside {
    /// `None` while nobody reads here.
    settled: Option<Settled>,
    /// Reads that wait for data from the disk.
    pub(crate) reads: BTreeMap<Hold, Job>,
    /// Objects of which a read found the copy here damaged.
    mended: BTreeSet<HObject>,
}

impl Aside {
    /// The changes of a body, if they are to be noted: their numbers, and of which objects they are.
    pub(crate) fn changes(&self, body: &Body) -> Vec<(u64, Arc<HObject>)> {
        if self.settled.is_none() {
            return Vec::new();
        }
        let real = body.entries.iter().filter(|entry| entry.kind != Kind::Error);
        real.map(|entry| (entry.done.version.version, entry.object.clone())).collect()
    }

    /// Changes happened here, and nobody knows yet whether they did everywhere. At most `listed` of them are kept.
    pub(crate) fn note(&mut self, changes: Vec<(u64, Arc<HObject>)>, listed: usize) {
        let Some(settled) = &mut self.settled else { return };
        settled.open.extend(changes);
        if settled.open.len() > listed {
            self.settled = None;
        }
    }

    /// Returns what does not hold of it, in a group that is at this version.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn self_check(&self, version: u64) -> Result<(), String> {
        let idle = self.reads.iter().find(|(hold, job)| job.hold != **hold || !job.fetched || job.modifies);
        if let Some((hold, _)) = idle {
            return Err(format!("read {hold:?} waits for nothing, or is none"));
        }
        let Some(settled) = &self.settled else { return Ok(()) };
        let open = || settled.open.iter().map(|(version, _)| *version);
        if settled.upto > version {
            return Err(format!("version {} is durable at all members, and this copy is at {version}", settled.upto));
        }
        if !open().is_sorted() || open().any(|listed| listed <= settled.listed_from || listed > version) {
            return Err(format!("changes that are not settled are out of order: {:?}", open().collect::<Vec<_>>()));
        }
        Ok(())
    }
}

/// Reason why a read is not answered here.
enum Refusal {
    /// The copy may not answer, or does not have the object.
    Unfit,
    /// It is not known whether what it would see is durable everywhere.
    Open,
}

/// Returns true if a vector only looks at one object, at what all copies have of it.
fn is_plain(ctx: &Ctx<'_>, op: &ClientOp) -> bool {
    let plain = |code: u16| {
        let names =
            matches!(code, code::OMAPGETKEYS..=code::OMAPGETVALSBYKEYS | code::OMAP_CMP | code::GETXATTR..=code::CMPXATTR);
        let data = matches!(code, code::READ | code::STAT | code::MAPEXT | code::SPARSE_READ | code::SYNC_READ | code::CHECKSUM);
        names || data || matches!(code, code::CMPEXT | code::ASSERT_VER | code::LIST_SNAPS | code::CALL)
    };
    op.op.flags & flags::RWORDERED == 0
        && op.op.ops.iter().all(|single| plain(single.code))
        && check(ctx, op).is_ok_and(|needs| !needs.group && !needs.modifies())
}

/// Tells a client to ask the primary.
pub(crate) fn send_back(ctx: &mut Ctx<'_>, op: &ClientOp) {
    ctx.recorder.read_aside(false);
    refuse(ctx, op, Errno::EAGAIN.wire());
}

impl Replica {
    /// A client sent a read to this copy, which does not lead.
    pub(crate) fn read_aside(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, op: ClientOp) {
        let head = core.object(HObject::head(op.op.oid.clone(), &op.op.locator));
        if !is_plain(ctx, &op) || !core.holds(&head) {
            return send_back(ctx, &op);
        }
        let job = Job::new(core, ctx, Work::Client(Box::new(op)), head);
        self.attempt_aside(core, ctx, job);
    }

    /// Answers a read if that is allowed; if it lacks data, has them fetched and keeps it for then.
    fn attempt_aside(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, job: Job) {
        if let Err(refusal) = self.may_answer_aside(core, ctx, &job.head) {
            if matches!(refusal, Refusal::Open) {
                self.ask_what_is_settled(core, ctx);
            }
            return self.end_aside(core, ctx, job, None);
        }
        let watches = Watches::default();
        let cost = Cell::new(0);
        let result = execute(core, ctx, &job, &Seen { watches: &watches, findings: None, notifies: 0, cost: &cost });
        ctx.recorder.cost(cost.get());
        match result {
            Ok(outcome) => self.end_aside(core, ctx, job, Some(outcome)),
            Err(Stop::Unread(Unread::Missing(wish))) => {
                record(ctx, &job.work, Step::WaitsForData);
                ctx.store.fetch(job.hold, wish);
                self.aside.reads.insert(job.hold, Job { fetched: true, ..job });
            }
            Err(Stop::Unread(Unread::Damaged(damage))) => {
                core.report_damage(ctx, &job.head, &damage);
                if let Some(object) = looked_at(ctx, &job) {
                    self.have_mended(core, ctx, object);
                }
                self.end_aside(core, ctx, job, None);
            }
            Err(Stop::Result(result)) => self.end_aside(core, ctx, job, Some(Outcome::Refused(result))),
            Err(Stop::Copy(_) | Stop::Shards(..)) => self.end_aside(core, ctx, job, None),
        }
    }

    /// Damage was met: the object is missing here from now on, and the primary brings it. What is damaged again is left as it is, for a
    /// scrub.
    pub(crate) fn have_mended(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, object: HObject) {
        if !self.aside.mended.insert(object.clone()) {
            return;
        }
        self.lack(core, ctx, object);
        let (primary, number) = (core.primary(), self.applied);
        // The primary hears of it when the mark is durable.
        self.promise_newest(core, Promise { primary, number, body: None });
    }

    /// Gives an answer, or none: then the client asks the primary.
    fn end_aside(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, job: Job, outcome: Option<Outcome>) {
        if job.fetched {
            ctx.store.release(job.hold);
        }
        let Work::Client(op) = &job.work else { return };
        match outcome {
            Some(Outcome::Refused(result)) => {
                ctx.recorder.read_aside(true);
                refuse(ctx, op, result);
            }
            // What it adds to the statistics is not counted: those of the group are the primary's.
            Some(Outcome::Read { result, results, user_version, sides, .. }) if sides.is_empty() => {
                ctx.recorder.read_aside(true);
                if let Some(release) = read_release(core, ctx, job, Executed { result, results, user_version, sides }) {
                    release.answer(ctx);
                }
            }
            Some(Outcome::Read { .. } | Outcome::Write { .. } | Outcome::Drop) | None => send_back(ctx, op),
        }
    }

    /// Returns whether this copy may say what an object is now.
    fn may_answer_aside(&self, core: &Core, ctx: &Ctx<'_>, head: &ObjectId) -> Result<(), Refusal> {
        let serves = self.activated && core.history.is_complete() && !core.is_held();
        let knows = ctx.map.level.has(Feature::ReplicaReads) && core.scheme.is_whole();
        if !serves || !knows || is_missing(&core.missing, head) || !self.has_lease_aside(core, ctx) {
            return Err(Refusal::Unfit);
        }
        #[cfg(feature = "sim")]
        if core.mistake == Some(crate::selfcheck::Mistake::ReadUnsettled) {
            return Ok(());
        }
        match self.aside.settled.as_ref().is_some_and(|settled| settled.covers(&head.object)) {
            true => Ok(()),
            false => Err(Refusal::Open),
        }
    }

    /// Returns true if this copy is a member, and the promises of all others run.
    fn has_lease_aside(&self, core: &Core, ctx: &Ctx<'_>) -> bool {
        let members = || core.history.interval.members();
        #[cfg(feature = "sim")]
        if core.mistake == Some(crate::selfcheck::Mistake::ReadAsideWithoutLease) {
            return members().any(|osd| osd == ctx.whoami);
        }
        members().any(|osd| osd == ctx.whoami) && members().all(|osd| osd == ctx.whoami || ctx.leases.holds(ctx.now.mono, osd))
    }

    /// Asks the primary which changes are durable at all members, unless it was asked and has not answered.
    fn ask_what_is_settled(&mut self, core: &mut Core, ctx: &mut Ctx<'_>) {
        let (version, primary) = (core.info.last_update.version, core.primary());
        self.aside.settled.get_or_insert_with(|| Settled::unknown(version));
        if !self.questions.is_open(primary, Subject::Settled) {
            self.questions.ask(core, ctx, primary, Subject::Settled, Letter::Settle);
        }
    }

    /// The primary says up to which version changes are durable at all members.
    pub(crate) fn hear_what_is_settled(&mut self, core: &mut Core, upto: u64) {
        let version = core.info.last_update.version;
        self.questions.answered(core.primary(), Subject::Settled);
        // More than this copy has cannot be durable here: whoever says so is wrong.
        if let Some(settled) = self.aside.settled.as_mut().filter(|_| upto <= version) {
            settled.learn(upto);
        }
    }

    /// Goes on with a read whose missing data is there. Returns false if none waits for that.
    pub(crate) fn fetched_aside(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, hold: Hold) -> bool {
        let Some(job) = self.aside.reads.remove(&hold) else { return false };
        self.attempt_aside(core, ctx, job);
        true
    }

    /// The interval is over: who waits for an answer of this copy shall ask the primary.
    pub(crate) fn end_reads_aside(&mut self, core: &mut Core, ctx: &mut Ctx<'_>) {
        let reads = std::mem::take(&mut self.aside.reads);
        reads.into_values().for_each(|job| self.end_aside(core, ctx, job, None));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::{Locator, SnapId};

    fn head(name: &'static str) -> HObject {
        HObject::head(name.into(), &Locator::pool(1))
    }

    #[test]
    fn an_object_is_settled_when_all_its_changes_are() {
        let mut aside = Aside { settled: Some(Settled::unknown(10)), ..Aside::default() };
        let covers = |aside: &Aside, name| aside.settled.as_ref().is_some_and(|settled| settled.covers(&head(name)));
        assert!(!covers(&aside, "a"), "nothing is known");
        aside.settled.as_mut().unwrap().learn(9);
        assert!(!covers(&aside, "a"), "change 10 may be one of it");
        aside.settled.as_mut().unwrap().learn(10);
        assert!(covers(&aside, "a"));
        let changes = vec![(11, Arc::new(head("a").at(SnapId(4)))), (12, Arc::new(head("a"))), (13, Arc::new(head("b")))];
        aside.note(changes, 256);
        assert!(!covers(&aside, "a") && !covers(&aside, "b") && covers(&aside, "c"));
        aside.settled.as_mut().unwrap().learn(11);
        assert!(!covers(&aside, "a"));
        // What was settled stays so.
        aside.settled.as_mut().unwrap().learn(5);
        aside.settled.as_mut().unwrap().learn(12);
        assert!(covers(&aside, "a") && !covers(&aside, "b"));
        assert_eq!(aside.self_check(13), Ok(()));
        assert!(aside.self_check(11).is_err(), "it knows of more than the copy has");
    }

    #[test]
    fn too_many_changes_are_forgotten_and_nothing_is_known_then() {
        let mut aside = Aside { settled: Some(Settled::unknown(0)), ..Aside::default() };
        let some = |from: u64, n: u64| (from..from + n).map(|v| (v, Arc::new(head("a")))).collect::<Vec<_>>();
        aside.note(some(1, 256), 256);
        assert!(aside.settled.is_some());
        aside.note(some(257, 1), 256);
        assert!(aside.settled.is_none());
        aside.note(some(258, 1), 256);
        assert!(aside.settled.is_none() && aside.changes(&Body::default()).is_empty());
    }
}
