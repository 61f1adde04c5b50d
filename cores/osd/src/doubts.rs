//! Snapshots that no map of this OSD gave out.
//!
//! A write names the snapshots under which it is done, and each that is new becomes part of the object's record. So only those count that the
//! pool gave out: numbers up to the pool's `snap_seq`. A client may know of one by a newer map than this OSD has, or from another client,
//! whose map is newer than both (an image's header names them). So an operation that names a larger number waits. The monitors are asked
//! which map is the newest, this OSD waits for that one, and looks again. What names a number then that nobody gave out gets EINVAL.
//!
//! Operations of a session are carried out in order: whatever comes behind one that waits, waits with it.

use crate::Osd;
use ::maps::OsdMap;
use messages::mon::{MonGetVersion, MonGetVersionReply};
use messages::osd::{OsdOp, flags};
use msgr::Messenger;
use node::{Now, Outputs};
use pg::OpKey;
use std::collections::BTreeMap;
use types::{Epoch, SessionId};

/// Verdict about an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doubt {
    /// It goes on.
    None,
    /// It waits.
    Open,
    /// It names a snapshot that nobody gave out.
    Certain,
}

/// Operations that name snapshots which are not known, and what the monitors were asked for them.
#[derive(Debug, Default)]
pub(crate) struct Doubts {
    /// The first such operation of each session, and the question whose answer counts for it: it was asked after the operation came.
    waiting: BTreeMap<SessionId, (OpKey, u64)>,
    /// Number of the last question.
    asked: u64,
    /// Number of the last question that was answered, and the newest map then.
    answered: (u64, u64),
}

/// Returns true if a write names a snapshot that its pool never gave out, as far as this map knows.
fn names_unknown(map: &OsdMap, op: &OsdOp) -> bool {
    let newest = op.snaps.first().copied().unwrap_or_default().max(op.snap_seq);
    if newest == 0 || op.flags & flags::WRITE == 0 {
        return false;
    }
    // Where the pool makes its snapshots, the pool's own context counts.
    map.pool(op.locator.pool)
        .is_some_and(|pool| newest > pool.snap_seq && !(pool.is_pool_snaps_mode() && op.flags & flags::ENFORCE_SNAPC == 0))
}

impl Doubts {
    /// A session is gone.
    pub(crate) fn forget(&mut self, session: SessionId) {
        self.waiting.remove(&session);
    }

    /// Returns what is to become of an operation. `unknown`: it names snapshots that the map of `epoch`, this OSD's newest, does not have.
    fn judge(&mut self, session: SessionId, key: OpKey, unknown: bool, epoch: Epoch) -> Doubt {
        match self.waiting.get(&session) {
            Some((first, _)) if *first != key => Doubt::Open,
            Some(_) if !unknown => {
                self.forget(session);
                Doubt::None
            }
            Some((_, question)) => {
                let (answered, newest) = self.answered;
                if answered < *question || newest > u64::from(epoch) {
                    return Doubt::Open;
                }
                self.forget(session);
                Doubt::Certain
            }
            None if unknown => {
                // A question that is under way may have been answered before this operation came.
                self.waiting.insert(session, (key, self.asked + 1));
                Doubt::Open
            }
            None => Doubt::None,
        }
    }

    /// Returns the number of a question to ask now, if there is one and none is under way.
    fn next_question(&mut self) -> Option<u64> {
        let wanted = self.waiting.values().any(|(_, question)| *question > self.asked);
        if !wanted || self.asked > self.answered.0 {
            return None;
        }
        self.asked += 1;
        Some(self.asked)
    }

    /// Another monitor: what was asked of the one before may be lost.
    pub(crate) fn ask_again(&self, session: SessionId, messenger: &mut Messenger) {
        let handle = self.asked;
        if handle > self.answered.0 {
            messenger.send(session, MonGetVersion { handle, what: "osdmap".into() }.encode());
        }
    }
}

impl Osd {
    /// Returns what is to become of an operation, and asks the monitors if that is not certain.
    pub(crate) fn doubt(&mut self, session: SessionId, key: OpKey, op: &OsdOp) -> Doubt {
        let unknown = names_unknown(self.maps.current(), op);
        if !unknown && self.doubts.waiting.is_empty() {
            return Doubt::None;
        }
        let doubt = self.doubts.judge(session, key, unknown, self.maps.epoch());
        self.ask_for_version();
        doubt
    }

    fn ask_for_version(&mut self) {
        if let Some(handle) = self.doubts.next_question()
            && let Some(session) = self.mon.session()
        {
            self.msgr.send(session, MonGetVersion { handle, what: "osdmap".into() }.encode());
        }
    }

    /// The monitors say which map is the newest.
    pub(crate) fn newest_map_is(&mut self, now: Now, reply: &MonGetVersionReply, out: &mut Outputs) {
        if reply.handle != self.doubts.asked || reply.handle <= self.doubts.answered.0 {
            return;
        }
        self.doubts.answered = (reply.handle, reply.version);
        if reply.version > u64::from(self.maps.epoch()) {
            self.ask_for_maps();
        }
        self.ask_for_version();
        self.early_operations(now, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::maps::{Incremental, Pool};
    use types::{Fsid, Locator, UTime};

    const KEY: [OpKey; 3] = [OpKey(1), OpKey(2), OpKey(3)];
    const SESSION: [SessionId; 2] = [SessionId(1), SessionId(2)];

    #[test]
    fn an_unknown_snapshot_is_refused_when_the_newest_map_does_not_have_it() {
        let mut doubts = Doubts::default();
        assert_eq!(doubts.judge(SESSION[0], KEY[0], false, 5), Doubt::None);
        assert_eq!(doubts.next_question(), None);
        assert_eq!(doubts.judge(SESSION[0], KEY[0], true, 5), Doubt::Open);
        assert_eq!((doubts.next_question(), doubts.next_question()), (Some(1), None));
        // What comes behind it waits, whatever it names; so do others that come after the question.
        assert_eq!(doubts.judge(SESSION[0], KEY[1], false, 5), Doubt::Open);
        assert_eq!(doubts.judge(SESSION[1], KEY[2], true, 5), Doubt::Open);
        // There is a newer map: it comes first.
        doubts.answered = (1, 6);
        assert_eq!(doubts.next_question(), Some(2));
        assert_eq!(doubts.judge(SESSION[0], KEY[0], true, 5), Doubt::Open);
        assert_eq!(doubts.judge(SESSION[0], KEY[0], true, 6), Doubt::Certain);
        assert_eq!(doubts.judge(SESSION[0], KEY[1], false, 6), Doubt::None);
        assert_eq!(doubts.judge(SESSION[1], KEY[2], true, 6), Doubt::Open, "its question was asked later");
        // That map has the other one.
        assert_eq!(doubts.judge(SESSION[1], KEY[2], false, 6), Doubt::None);
        assert!(doubts.waiting.is_empty());
    }

    #[test]
    fn what_is_unknown_is_above_what_the_pool_gave_out() {
        let mut change = Incremental::new(1, Fsid::default(), UTime::ZERO);
        let pool = Pool { pg_num: 1, pgp_num: 1, size: 1, snap_seq: 7, ..Pool::default() };
        change.new_pools.insert(1, pool);
        change.new_pool_names.insert(1, "a".into());
        let map = OsdMap::default().apply(&change).expect("a first map");
        let unknown = |flags, snap_seq, snaps: &[u64]| {
            let locator = Locator { pool: 1, ..Locator::default() };
            names_unknown(&map, &OsdOp { flags, snap_seq, snaps: snaps.to_vec(), locator, ..OsdOp::default() })
        };
        assert!(!unknown(flags::WRITE, 7, &[7, 3]) && !unknown(flags::WRITE, 0, &[]));
        assert!(unknown(flags::WRITE, 8, &[7]) && unknown(flags::WRITE, 7, &[8]));
        assert!(!unknown(flags::READ, 8, &[8]), "a read is under no snapshots");
    }
}
