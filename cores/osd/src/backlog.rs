//! Answers are bounded before they are made: a request of a hundred bytes may ask for megabytes.
//!
//! The messenger receives nothing more from a client that does not take its answers, but one buffer holds hundreds of
//! requests, and reads that wait for the disk have no answer yet that could be counted. So each session has an account
//! of what it will be sent: what its operations under way are expected to give (as soon as a group answered, what it
//! really gave), and what the messenger has queued. An operation that does not fit waits here, and all that follow on
//! its session wait behind it, in their order; meanwhile nothing more is received on that session. One operation always
//! fits, however large its answer.

use crate::groups::addressed;
use crate::ops::Wait;
use crate::{Early, Osd};
use messages::code;
use messages::osd::{OpArgs, OsdOp};
use node::{Now, Outputs};
use objectstore::Hold;
use pg::{Effect, OpKey};
use std::collections::VecDeque;
use types::{EntityType, HObject, ObjectId, SessionId, SnapId};

/// Answers of one session that are not worth the bookkeeping: a usual depth of small reads.
const SMALL: usize = 256 << 10;
/// Reads of more than this are looked up: is there so much to read?
const LARGE: u64 = 64 << 10;
/// Bytes that a read of a whole object is expected to give as long as its size is not in memory: what objects usually hold at
/// most.
const USUAL: usize = 4 << 20;
/// Bytes that are counted for an answer beside what it carries.
const OVERHEAD: usize = 256;

/// An operation that waits until its session's answers have left, or until its group is there.
pub(crate) struct Waiting {
    pub(crate) early: Early,
    /// Bytes that its answer is expected to take.
    pub(crate) owes: usize,
}

/// The operations of one session that wait.
#[derive(Default)]
pub(crate) struct Backlog {
    queue: VecDeque<Waiting>,
    /// Bytes of answers that are expected from the operations under way.
    pub(crate) owed: usize,
}

impl Backlog {
    /// The operations that wait.
    pub(crate) fn keys(&self) -> impl Iterator<Item = OpKey> + '_ {
        self.queue.iter().map(|w| w.early.key)
    }
}

impl Osd {
    /// Returns what the answer to an operation is expected to take. Reads within objects that are known are exact.
    pub(crate) fn expected_answer(&self, op: &OsdOp) -> usize {
        let mut size = None;
        let mut sum = OVERHEAD;
        for one in &op.ops {
            let OpArgs::Extent { offset, length, .. } = one.args else { continue };
            if !matches!(one.code, code::READ | code::SYNC_READ | code::SPARSE_READ) {
                continue;
            }
            let asked = if (1..=LARGE).contains(&length) {
                length as usize
            } else {
                let size = *size.get_or_insert_with(|| self.known_size(op));
                let there = size.map(|size| size.saturating_sub(offset));
                match (there, length) {
                    (None, 0) => USUAL,
                    (None, length) => length.min(self.msgr.config().limits.send_pause as u64) as usize,
                    (Some(there), 0) => there as usize,
                    (Some(there), length) => there.min(length) as usize,
                }
            };
            sum = sum.saturating_add(asked);
        }
        sum
    }

    /// Size of the object that an operation is about, if it is in memory and the newest.
    fn known_size(&self, op: &OsdOp) -> Option<u64> {
        if op.snapid != SnapId::HEAD {
            return None;
        }
        let head = ObjectId::of_shard(HObject::head(op.oid.clone(), &op.locator), addressed(self.maps.current(), op).shard);
        let stat = self.store.stat(Hold(0), &head).ok()?;
        // A shard is shorter than its object.
        Some(
            stat.map_or(
                0,
                |stat| if head.shard.is_none() { stat.size } else { pg::recorded_size(&stat.info).unwrap_or(stat.size) },
            ),
        )
    }

    /// Returns true if a session can be promised an answer of so many bytes.
    fn has_room(&mut self, session: SessionId, owes: usize) -> bool {
        let Some(known) = self.sessions.get(session) else { return true };
        let owed = known.backlog.owed;
        let small = owed + owes <= SMALL;
        if known.peer.kind != EntityType::Client {
            return true;
        }
        let queued = self.msgr.queued(session);
        // What small requests really gave may be large: keys, attributes, what a class says.
        if small && queued <= LARGE as usize {
            return true;
        }
        let backlog = owed + queued;
        let all = self.msgr.config().limits.send_total;
        let together = self.sessions.owed() + self.msgr.lag();
        if small && queued <= self.msgr.config().limits.send_pause && together <= all {
            return true;
        }
        // One session leaves something to the others, but may have several large reads at the disk.
        backlog == 0 || (backlog + owes <= all / 4 * 3 && together + owes <= all)
    }

    /// Keeps an operation back if its answer does not fit, or if others of its session wait already; else gives it
    /// back.
    pub(crate) fn fit(&mut self, now: Now, early: Early, owes: usize) -> Option<Early> {
        let session = early.session;
        let first = self.sessions.get(session).is_none_or(|known| known.backlog.queue.is_empty());
        if first && self.has_room(session, owes) {
            return Some(early);
        }
        self.perf.answers_held += 1;
        let Some(known) = self.sessions.get(session) else {
            self.let_go(early.key);
            return None;
        };
        self.ops.at(early.key).wait(now.mono, Wait::ForRoom);
        known.backlog.queue.push_back(Waiting { early, owes });
        if first {
            self.stalled.push_back(session);
            self.msgr.hold_session(session, true);
        }
        None
    }

    /// Operations that waited for a group are the next of their sessions: whatever waits for room came after them.
    pub(crate) fn rehouse(&mut self) {
        self.copies.objecter.look_again();
        for waiting in std::mem::take(&mut self.homeless).into_iter().rev() {
            let session = waiting.early.session;
            let Some(known) = self.sessions.get(session) else {
                self.let_go(waiting.early.key);
                continue;
            };
            let first = known.backlog.queue.is_empty();
            known.backlog.queue.push_front(waiting);
            if first {
                self.stalled.push_back(session);
                self.msgr.hold_session(session, true);
            }
            self.relieved = true;
        }
    }

    /// Lets operations go on whose answers fit now, once in a round and as long as that changes something. Whether
    /// there were any.
    pub(crate) fn resume(&mut self, now: Now, out: &mut Outputs) -> bool {
        let mut any = false;
        if !std::mem::take(&mut self.relieved) {
            return any;
        }
        for _ in 0..self.stalled.len() {
            let Some(session) = self.stalled.pop_front() else { break };
            while let Some(waiting) = self.next_waiting(session) {
                any = true;
                self.admitted(now, waiting.early, waiting.owes, out);
            }
            match self.sessions.get(session) {
                Some(known) if !known.backlog.queue.is_empty() => self.stalled.push_back(session),
                _ => self.msgr.hold_session(session, false),
            }
        }
        self.relieved = any;
        any
    }

    fn next_waiting(&mut self, session: SessionId) -> Option<Waiting> {
        let owes = self.sessions.get(session)?.backlog.queue.front()?.owes;
        if !self.has_room(session, owes) {
            return None;
        }
        self.sessions.get(session)?.backlog.queue.pop_front()
    }

    /// A group was called: from `first` on, its answers are known to the byte.
    pub(crate) fn count_answers(&mut self, first: usize) {
        for (_, effect) in &self.effects[first..] {
            if let Effect::Reply { op, session, message, .. } = effect {
                let owes = OVERHEAD + message.data.len();
                let before = std::mem::replace(&mut self.ops.at(*op).owes, owes);
                self.sessions.owe(*session, before, owes);
            }
        }
    }
}
