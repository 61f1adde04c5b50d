//! Execution of an operation vector: a plain function over the submitted state that yields an [`Outcome`] or what it
//! misses. The operations themselves are in `ops`.

use crate::api::{ClientOp, Config};
use crate::body::{Body, IndexChange};
use crate::changed::Changed;
use crate::entry::{Done, Kind, LogEntry};
use crate::info::{CLEAN, CloneInfo, ObjectInfo, WHITEOUT, WatchInfo};
use crate::meta::Info;
use crate::missing::Missing;
use crate::ops;
use crate::ops::cost::Made;
use crate::pieces::Want;
use crate::scheme::{Scheme, Shares};
use crate::scrub::findings::Findings;
use crate::stats::Stats;
use crate::watch::Watches;
use bytes::Bytes;
use maps::{OsdMap, Pool, pool_flags};
use messages::osd::{OpResult, flags, op_flags};
use node::Now;
use objectstore::{Damage, Hold, ObjectChange, ObjectChanges, Unread, View, Wish};
use std::cell::Cell;
use std::collections::BTreeMap;
use types::{EVersion, Epoch, Errno, Feature, HObject, Intervals, Locator, ObjectId, ReqId, SnapId, SpgId};

/// Surroundings of an execution besides its operation.
pub(crate) struct Env<'a> {
    pub(crate) store: &'a dyn View,
    /// Scheme by which the pool keeps objects.
    pub(crate) scheme: &'a Scheme,
    pub(crate) hold: Hold,
    pub(crate) config: &'a Config,
    pub(crate) map: &'a OsdMap,
    pub(crate) pool: &'a Pool,
    pub(crate) now: Now,
    pub(crate) id: SpgId,
    pub(crate) info: &'a Info,
    pub(crate) watches: &'a Watches,
    /// Objects that exist and that this copy lacks.
    pub(crate) missing: &'a Missing,
    /// Snapshots that were removed and trimmed.
    pub(crate) purged: &'a Intervals,
    /// Number that the first notify of this vector gets.
    pub(crate) notify_id: u64,
    /// The group was scrubbed before.
    pub(crate) scrubbed: bool,
    /// Findings of scrubs in this interval.
    pub(crate) findings: Option<&'a Findings>,
    /// First epoch of the interval.
    pub(crate) since: Epoch,
    /// Bytes that operations looked at, and what they count as beside that.
    pub(crate) cost: &'a Cell<u64>,
}

/// Bytes of what all operations of one request give together. The largest object can be read whole with one; a vector of thousands that each
/// give megabytes would take all memory there is.
const ANSWER: usize = 256 << 20;
/// Operations of a request whose outputs are kept with its log record, to be told again.
const RETURNS: usize = 128;
/// Snapshots that a client may name in one write. Each new one is a record of its own.
const SNAPS: usize = 16_384;
/// Snapshots that all clones of an object may stand for together. They are in the object's record, which each write writes anew; a client can
/// name numbers that its pool never gave out. Those that are there are in the context of each write, and those that went are trimmed.
const SNAPS_OF_OBJECT: usize = 2 * SNAPS;

/// Ranges in which the clones of an object may overlap what came after them, together. They are in the object's record, which each write writes
/// anew, and each write of a byte may cut one in two.
const OVERLAPS: usize = 16_384;

impl Env<'_> {
    /// The version that the next logged change gets.
    pub(crate) fn next_version(&self) -> EVersion {
        EVersion { epoch: self.map.epoch, version: self.info.last_update.version + 1 }
    }

    /// Returns true if snapshot `snap` was removed from the pool.
    pub(crate) fn snap_removed(&self, snap: u64) -> bool {
        self.map.removed_snaps_queue.get(&self.id.pg.pool).is_some_and(|q| q.contains(snap))
            || self.purged.contains(snap)
            || self.pool.is_pool_snaps_mode() && snap <= self.pool.snap_seq && !self.pool.snaps.contains_key(&snap)
    }

    /// An object as the store has it.
    pub(crate) fn load(&self, at: &ObjectId) -> Exec<Object> {
        let Some(stat) = self.store.stat(self.hold, at)? else {
            return Ok(Object { at: at.clone(), exists: false, size: 0, info: ObjectInfo::default() });
        };
        let info = ObjectInfo::decode(&stat.info).map_err(|_| {
            let what = format!("record of {at}");
            Stop::Unread(Unread::Damaged(Damage { what, offset: 0, expected: 0, found: 0 }))
        })?;
        Ok(Object { at: at.clone(), exists: true, size: stat.size, info })
    }
}

/// Reason why an execution did not go on.
#[derive(Debug)]
pub(crate) enum Stop {
    /// Something must be fetched, or is damaged.
    Unread(Unread),
    /// The operation fails with this (negative) result.
    Result(i32),
    /// Another object must be read first.
    Copy(Box<CopyWish>),
    /// Parts of other shards must come, and what the own store misses.
    Shards(Wish, Vec<Want>),
}

impl From<Unread> for Stop {
    fn from(unread: Unread) -> Self {
        Self::Unread(unread)
    }
}

impl From<Errno> for Stop {
    fn from(errno: Errno) -> Self {
        Self::Result(errno.wire())
    }
}

/// Bytes from a client that make no sense are its fault.
impl From<denc::DecodeError> for Stop {
    fn from(error: denc::DecodeError) -> Self {
        let too_many = matches!(error, denc::DecodeError::TooMany(_));
        Self::Result(if too_many { Errno::EMSGSIZE } else { Errno::EINVAL }.wire())
    }
}

pub(crate) type Exec<T = ()> = Result<T, Stop>;

/// A source that must be copied before the vector can run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CopyWish {
    /// Index of the operation of the vector that wants it.
    pub(crate) index: usize,
    pub(crate) name: Bytes,
    pub(crate) locator: Locator,
    pub(crate) snap: SnapId,
    /// User version that the source must have; 0 for any.
    pub(crate) version: u64,
    /// Flags for the read's message.
    pub(crate) flags: u32,
}

/// A source that was copied, or the result of the attempt.
pub(crate) type Copies = BTreeMap<usize, Result<crate::ops::portion::Copied, i32>>;

/// An object at some moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Object {
    pub(crate) at: ObjectId,
    /// True if the store has it; a deleted head that is kept for its clones exists.
    pub(crate) exists: bool,
    pub(crate) size: u64,
    pub(crate) info: ObjectInfo,
}

impl Object {
    /// Returns true if clients see it.
    pub(crate) fn live(&self) -> bool {
        self.exists && !self.info.is_whiteout()
    }
}

/// Effect besides the store's change, when the outcome is released.
#[derive(Debug)]
pub(crate) enum Side {
    /// A watch is held by the operation's session from now on.
    Connect(WatchInfo),
    /// A watch is over; `tell` its holder.
    Disconnect { cookie: u64, holder: (u8, i64), tell: bool },
    /// A sign of life.
    Ping { cookie: u64 },
    /// Tell the watchers.
    Notify { id: u64, cookie: u64, timeout: u32, payload: Bytes, version: u64 },
    /// A watcher answers. Cookie 0 stands for all watches of the holder.
    Ack { id: u64, cookie: u64, reply: Bytes },
}

/// A logged change, ready for submission.
#[derive(Default)]
pub(crate) struct Change {
    /// Change for all copies; where these have shards, in offsets of the object first, then on the own shard.
    pub(crate) body: Body,
    /// Change of each shard, where copies have shards.
    pub(crate) shares: Option<Shares>,
    /// The object's data are replaced by all that it is to have.
    pub(crate) whole: bool,
    /// The object was there before: what is written beside what it held must be whole.
    pub(crate) rehearse: bool,
}

impl From<Body> for Box<Change> {
    fn from(body: Body) -> Self {
        Box::new(Change { body, ..Change::default() })
    }
}

/// Result of an execution.
pub(crate) enum Outcome {
    /// Answered without a look at the object, or about one that is not there.
    Refused(i32),
    /// Nothing changes.
    Read { result: i32, results: Vec<OpResult>, user_version: u64, sides: Vec<Side>, delta: Stats },
    /// Something changes; if `failed`, only the log.
    Write { result: i32, results: Vec<OpResult>, user_version: u64, sides: Vec<Side>, change: Box<Change> },
    /// The client must send it again when the map changed.
    Drop,
}

/// One execution of an object's operation vector.
pub(crate) struct Run<'a> {
    pub(crate) env: &'a Env<'a>,
    pub(crate) op: &'a ClientOp,
    pub(crate) reqid: ReqId,
    pub(crate) copies: &'a Copies,
    /// The object before.
    pub(crate) before: Object,
    /// The object as the operations so far leave it.
    pub(crate) after: Object,
    pub(crate) snap_seq: u64,
    /// Newest first, removed ones left out.
    pub(crate) snaps: Vec<u64>,
    /// Changes of the object.
    pub(crate) changes: Vec<ObjectChange>,
    /// Bytes that those bring.
    pub(crate) made: Made,
    /// The data are replaced by all that the object is to have.
    pub(crate) whole: bool,
    /// What happens to other objects before that and after it.
    pub(crate) ahead: Vec<ObjectChanges>,
    pub(crate) behind: Vec<ObjectChanges>,
    pub(crate) index: Vec<IndexChange>,
    /// Bytes that are no longer what they were.
    pub(crate) modified: Intervals,
    pub(crate) delta: Stats,
    /// The user version moves (everything but watches).
    pub(crate) user_modify: bool,
    /// Something must be stored even if there are no mutations.
    pub(crate) touched: bool,
    /// The object's mark as changed is to be taken away.
    pub(crate) undirty: bool,
    /// A copy dictates the user version.
    pub(crate) copied_version: Option<u64>,
    pub(crate) sides: Vec<Side>,
    pub(crate) results: Vec<OpResult>,
    pub(crate) notifies: u64,
}

/// Executes an object's operation vector.
pub(crate) fn execute(
    env: &Env<'_>,
    head: &ObjectId,
    op: &ClientOp,
    reqid: ReqId,
    writes: bool,
    copies: &Copies,
) -> Exec<Outcome> {
    if writes && op.op.snapid != SnapId::HEAD {
        return Ok(Outcome::Refused(Errno::EINVAL.wire()));
    }
    let Some(before) = find(env, head, op)? else { return Ok(Outcome::Refused(Errno::ENOENT.wire())) };
    if !before.live() && !writes && op.op.snapid != SnapId::DIR {
        return Ok(Outcome::Refused(Errno::ENOENT.wire()));
    }
    let mut run = Run::new(env, op, reqid, before, copies);
    let valid = !writes || run.take_snap_context();
    if writes && op.op.flags & flags::ORDERSNAP != 0 && run.snap_seq < run.before.info.snaps.seq {
        // EOLDSNAPC, which Ceph numbers as Linux does ERESTART.
        return Ok(Outcome::Refused(-85));
    }
    if !valid {
        return Ok(Outcome::Refused(Errno::EINVAL.wire()));
    }
    if writes && run.has_too_many_snaps() {
        return Ok(Outcome::Refused(Errno::EDQUOT.wire()));
    }
    let result = run.vector()?;
    Ok(run.conclude(result, writes))
}

/// The object that a snapshot id leads to; `None` if none existed then. A head that is not there is an object all the same.
fn find(env: &Env<'_>, head: &ObjectId, op: &ClientOp) -> Exec<Option<Object>> {
    let object = env.load(head)?;
    match op.op.snapid {
        SnapId::HEAD => Ok(Some(object)),
        SnapId::DIR => Ok(object.exists.then_some(object)),
        SnapId(snap) => {
            let at = if op.op.flags & flags::MAP_SNAP_CLONE != 0 {
                object.info.snaps.position(snap).map(|_| SnapId(snap))
            } else if env.snap_removed(snap) {
                None
            } else {
                object.info.snaps.serving(snap)
            };
            match at {
                None => Ok(None),
                Some(SnapId::HEAD) => Ok(object.live().then_some(object)),
                Some(clone) => Ok(Some(env.load(&head.at(clone))?)),
            }
        }
    }
}

/// A log entry that only remembers a request. `user_version` is what its client is told: a repeat is told the same.
fn remembered(env: &Env<'_>, object: &ObjectId, reqid: ReqId, result: i32, user_version: u64) -> LogEntry {
    let done = Done { version: env.next_version(), user_version, reqid, result, returns: None };
    let (prior, mtime) = (EVersion::default(), types::UTime::ZERO);
    let (object, snaps, changed) = (object.object.clone(), Vec::new(), Changed::All);
    LogEntry { kind: Kind::Error, object, prior, mtime, snaps, changed, before: None, done }
}

impl<'a> Run<'a> {
    fn new(env: &'a Env<'a>, op: &'a ClientOp, reqid: ReqId, before: Object, copies: &'a Copies) -> Self {
        Self {
            env,
            op,
            reqid,
            copies,
            after: before.clone(),
            before,
            snap_seq: 0,
            snaps: Vec::new(),
            changes: Vec::new(),
            made: Made::default(),
            whole: false,
            ahead: Vec::new(),
            behind: Vec::new(),
            index: Vec::new(),
            modified: Intervals::default(),
            delta: Stats::default(),
            user_modify: false,
            touched: false,
            undirty: false,
            copied_version: None,
            sides: Vec::new(),
            results: op.op.ops.iter().map(OpResult::of).collect(),
            notifies: 0,
        }
    }

    /// Takes the snapshot context: the pool's, if it makes its own snapshots, else the client's. False if that is invalid.
    fn take_snap_context(&mut self) -> bool {
        let op = &self.op.op;
        if self.env.pool.is_pool_snaps_mode() && op.flags & flags::ENFORCE_SNAPC == 0 {
            (self.snap_seq, self.snaps) = self.env.pool.snap_context();
        } else if op.snaps.len() > SNAPS {
            return false;
        } else {
            (self.snap_seq, self.snaps) = (op.snap_seq, op.snaps.clone());
            self.snaps.retain(|s| !self.env.snap_removed(*s));
        }
        // What was removed does not spoil a context.
        self.snap_seq <= SnapId::MAX
            && self.snaps.first().is_none_or(|newest| *newest <= self.snap_seq)
            && self.snaps.windows(2).all(|pair| pair[0] > pair[1])
    }

    /// Returns true if the clone that a change makes now would be one of too many snapshots.
    fn has_too_many_snaps(&self) -> bool {
        let set = &self.before.info.snaps;
        let new = self.snaps.iter().take_while(|snap| **snap > set.seq).count();
        let kept = || set.clones.iter().map(|clone| clone.snaps.len()).sum::<usize>();
        self.before.live() && new > 0 && kept() + new > SNAPS_OF_OBJECT
    }

    /// Runs the operations in order; the result is the last one's, or the first error.
    fn vector(&mut self) -> Exec<i32> {
        let (mut last, mut answer) = (0, 0);
        for index in 0..self.op.op.ops.len() {
            let before = self.changes.len();
            let result = match ops::apply(self, index) {
                // Some operations leave the result of the one before: after a comparison that holds it is 1.
                Ok(0) if ops::keeps_result(self.op.op.ops[index].code) => last,
                Ok(result) => result,
                Err(Stop::Result(result)) => result,
                Err(stop) => return Err(stop),
            };
            self.results[index].rval = result;
            answer += self.results[index].output.len();
            if self.costs_too_much(index, before) || answer > ANSWER {
                self.results.iter_mut().for_each(|slot| slot.output = types::Rope::new());
                return Ok(Errno::EMSGSIZE.wire());
            }
            last = result;
            if last < 0 {
                if self.op.op.ops[index].flags & op_flags::FAILOK == 0 {
                    return Ok(last);
                }
                last = 0;
            }
        }
        Ok(last)
    }

    fn conclude(mut self, mut result: i32, writes: bool) -> Outcome {
        let changes = !self.changes.is_empty() || self.touched;
        if !writes && (result < 0 || !changes) {
            let user_version = self.after.info.user_version;
            let sides = if result < 0 { Vec::new() } else { self.sides };
            return Outcome::Read { result, results: self.results, user_version, sides, delta: self.delta };
        }
        if result >= 0 && changes && self.grows() && self.full() {
            if self.op.op.flags & flags::FULL_TRY == 0 {
                return Outcome::Drop;
            }
            let errno = if self.env.pool.has_flag(pool_flags::FULL_QUOTA) { Errno::EDQUOT } else { Errno::ENOSPC };
            result = errno.wire();
        }
        let returns = self.op.op.flags & flags::RETURNVEC != 0;
        if result >= 0 && changes {
            if !returns {
                result = 0;
            } else {
                let many = self.results.len() > RETURNS;
                for slot in self.results.iter_mut().filter(|r| many || r.output.len() > self.env.config.max_write_return) {
                    result = Errno::EOVERFLOW.wire();
                    (slot.rval, slot.output) = (result, types::Rope::new());
                }
            }
        }
        if result < 0 || !changes { self.log_only(result) } else { self.write(result) }
    }

    /// Returns true if the change takes space.
    fn grows(&self) -> bool {
        self.delta.bytes > 0 || self.delta.objects > 0
    }

    /// Returns true if the cluster or pool is full and this request is not exempt.
    fn full(&self) -> bool {
        let full = self.env.pool.has_flag(pool_flags::FULL) || self.env.map.flags & maps::flags::FULL != 0;
        full && self.op.op.flags & flags::FULL_FORCE == 0 && self.op.peer.kind != types::EntityType::Mds
    }

    /// Returns what each operation returned, for the log, if the client asked for it.
    fn returns(&self) -> Option<Box<[(i32, Bytes)]>> {
        if self.op.op.flags & flags::RETURNVEC == 0 {
            return None;
        }
        Some(self.results.iter().map(|r| (r.rval, r.output.contiguous())).collect())
    }

    /// A write that failed or changed nothing: only remembered.
    fn log_only(self, result: i32) -> Outcome {
        let missing = result == Errno::ENOENT.wire();
        let user_version = if missing { self.env.info.user_version } else { self.before.info.user_version };
        let mut entry = remembered(self.env, &self.before.at, self.reqid, result, user_version);
        let keep = self.op.op.flags & flags::RETURNVEC != 0
            && self.results.len() <= RETURNS
            && self.results.iter().all(|r| r.output.len() <= self.env.config.max_write_return);
        if keep {
            entry.done.returns = self.returns();
        }
        let change = Body { entries: vec![entry], ..Body::default() }.into();
        let sides = if result < 0 { Vec::new() } else { self.sides };
        Outcome::Write { result, results: self.results, user_version, sides, change }
    }

    fn write(mut self, result: i32) -> Outcome {
        let mut entries = self.preserve();
        let clones = entries.len() as u64;
        let version = EVersion { version: self.env.next_version().version + clones, ..self.env.next_version() };
        let mut user_version = self.after.info.user_version;
        if self.user_modify {
            user_version = (self.env.info.user_version.max(user_version) + 1).max(version.version);
        }
        if let Some(copied) = self.copied_version {
            user_version = copied;
        }
        let reqid = self.reqid;
        let mtime = self.op.op.mtime;
        let done = Done { version, user_version, reqid, result, returns: self.returns() };
        let kind = if self.after.exists { Kind::Modify } else { Kind::Delete };
        let (object, prior) = (self.before.at.object.clone(), self.before.info.version);
        entries.push(LogEntry { kind, object, prior, mtime, snaps: Vec::new(), changed: Changed::All, before: None, done });
        self.count_omap();
        if self.after.exists {
            self.after.info.version = version;
            self.after.info.user_version = user_version;
            self.after.info.size = self.env.map.level.has(Feature::RecordedSizes).then_some(self.after.size);
            if !mtime.is_zero() {
                self.after.info.mtime = mtime;
            }
            let clean = if self.undirty { CLEAN } else { 0 };
            self.after.info.flags = self.after.info.flags & !CLEAN | clean;
            self.changes.push(ObjectChange::SetInfo(self.after.info.encode()));
        }
        self.index_watch();
        let results = match self.op.op.flags & flags::RETURNVEC {
            0 => without_outputs(self.results),
            _ => self.results,
        };
        let mut objects = self.ahead;
        objects.push(ObjectChanges { object: self.after.at, changes: self.changes });
        objects.extend(self.behind);
        let body = Body { objects, index: self.index, entries, delta: self.delta, ..Body::default() };
        let change = Box::new(Change { body, shares: None, whole: self.whole, rehearse: self.before.exists });
        Outcome::Write { result, results, user_version, sides: self.sides, change }
    }

    /// Clones the object if a snapshot was taken since its last change, and accounts for what the newest clone no longer shares.
    fn preserve(&mut self) -> Vec<LogEntry> {
        let mut entries = Vec::new();
        let set = &mut self.after.info.snaps;
        if set.seq > self.snap_seq {
            self.snap_seq = set.seq;
            let newest = set.seq;
            self.snaps.retain(|s| *s <= newest);
        }
        let due = self.before.live() && self.snaps.first().is_some_and(|newest| *newest > set.seq);
        if due {
            let snaps: Vec<u64> = self.snaps.iter().copied().take_while(|s| *s > set.seq).collect();
            entries.push(self.make_clone(snaps));
        }
        let set = &mut self.after.info.snaps;
        if let Some(newest) = set.clones.last_mut() {
            let gone = self.modified.intersection(&newest.overlap);
            self.delta.bytes += gone.total() as i64;
            newest.overlap.subtract(&gone);
        }
        self.delta.bytes += set.bound_overlap(OVERLAPS) as i64;
        set.seq = set.seq.max(self.snap_seq);
        entries
    }

    fn make_clone(&mut self, snaps: Vec<u64>) -> LogEntry {
        let version = self.env.next_version();
        let head = self.before.at.clone();
        let at = head.at(SnapId(self.snap_seq));
        let record = ObjectInfo { version, watchers: Vec::new(), snaps: Default::default(), ..self.before.info.clone() };
        self.index.extend(snaps.iter().map(|s| IndexChange::Snap(*s, HObject::clone(&head.object))));
        let changes = vec![ObjectChange::CloneOf(head), ObjectChange::SetInfo(record.encode())];
        self.ahead.push(ObjectChanges { object: at.clone(), changes });
        self.delta.objects += 1;
        self.delta.clones += 1;
        self.delta.omap_objects += i64::from(self.before.info.omap);
        let size = self.before.size;
        let clone = CloneInfo { id: self.snap_seq, snaps: snaps.clone(), size, overlap: Intervals::of(0..size) };
        self.after.info.snaps.clones.push(clone);
        let done = Done { version, user_version: self.before.info.user_version, ..Done::default() };
        let (prior, mtime) = (self.before.info.version, self.before.info.mtime);
        LogEntry { kind: Kind::Clone, object: at.object, prior, mtime, snaps, changed: Changed::All, before: None, done }
    }

    fn count_omap(&mut self) {
        let had = self.before.exists && self.before.info.omap;
        let has = self.after.exists && self.after.info.omap;
        self.delta.omap_objects += i64::from(has) - i64::from(had);
    }

    /// Keeps the index of watched objects in step.
    fn index_watch(&mut self) {
        let had = self.before.exists && !self.before.info.watchers.is_empty();
        let has = self.after.exists && !self.after.info.watchers.is_empty();
        let head = || HObject::clone(&self.after.at.object);
        match (had, has) {
            (false, true) => self.index.push(IndexChange::Watched(head())),
            (true, false) => self.index.push(IndexChange::Unwatched(head())),
            _ => {}
        }
    }

    /// The object exists from here on; one that was deleted but kept comes back.
    pub(crate) fn create(&mut self) {
        self.touched = true;
        if !self.after.exists {
            // What this vector deleted before keeps its marks, as in Ceph.
            self.after.exists = true;
            self.delta.objects += 1;
            self.changes.push(ObjectChange::Create);
        } else if self.after.info.is_whiteout() {
            self.after.info.flags &= !WHITEOUT;
            self.delta.whiteouts -= 1;
        }
    }

    /// ENOENT unless clients see the object.
    pub(crate) fn must_live(&self) -> Exec {
        if self.after.live() { Ok(()) } else { Err(Errno::ENOENT.into()) }
    }

    /// The holder of watches and locks that this request speaks for.
    pub(crate) fn holder(&self) -> (u8, i64) {
        (self.reqid.kind, self.reqid.num)
    }
}

fn without_outputs(mut results: Vec<OpResult>) -> Vec<OpResult> {
    for result in &mut results {
        result.output = types::Rope::new();
    }
    results
}
