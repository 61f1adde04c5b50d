//! The scheme of replicated pools: each copy has all of each object.

use super::{Plan, Undo, continues};
use crate::entry::{Kind, LogEntry};
use crate::letter::PeerInfo;
use crate::missing::Lack;
use maps::Interval;
use std::collections::BTreeMap;
use types::{CopyId, EVersion};

/// Returns what becomes of an entry's object: nothing of it is undone in place, since another copy has it as it was.
pub(super) fn undo(entry: &LogEntry) -> Undo {
    match entry.kind {
        Kind::Error => Undo::Nothing,
        Kind::Clone => Undo::Remove,
        _ if entry.prior == EVersion::default() => Undo::Remove,
        Kind::Modify | Kind::Delete | Kind::LostRevert | Kind::LostDelete => Undo::Bring(Lack::whole(entry.prior)),
    }
}

/// Returns the copy whose log counts: one that exists, complete, of the newest interval that began, with the newest
/// entry; then the longest log, then `me`. `None` if no copy is complete.
fn leader(infos: &BTreeMap<CopyId, PeerInfo>, me: CopyId) -> Option<CopyId> {
    let complete = || infos.iter().filter(|(_, peer)| peer.history.created > 0 && peer.history.is_complete());
    let started = complete().map(|(_, peer)| peer.history.started).max()?;
    let newest = complete().filter(|(_, peer)| peer.history.started == started);
    let best = newest.max_by_key(|(copy, peer)| {
        let tail = std::cmp::Reverse(peer.info.log_tail);
        (peer.info.last_update, tail, **copy == me, std::cmp::Reverse(**copy))
    });
    best.map(|(copy, _)| *copy)
}

/// Returns who shall serve the group in this interval.
pub(super) fn plan(infos: &BTreeMap<CopyId, PeerInfo>, interval: &Interval, me: CopyId) -> Option<Plan> {
    let leader = leader(infos, me)?;
    let authority = &infos[&leader];
    let fit = |copy: CopyId, tail: EVersion| {
        infos.get(&copy).is_some_and(|peer| peer.history.is_complete() && continues(peer, authority, tail))
    };
    let first = CopyId::whole(interval.up_primary);
    let primary = if fit(first, authority.info.log_tail) { first } else { leader };
    // Members are brought up by the primary's log, which may begin later than the leader's.
    let tail = infos[&primary].info.log_tail.max(authority.info.log_tail);
    let mut plan = Plan { leader, cut: None, acting: vec![primary.osd], backfill: Vec::new() };
    for copy in interval.home().map(CopyId::whole).filter(|copy| *copy != primary) {
        if fit(copy, tail) {
            plan.acting.push(copy.osd);
        } else {
            plan.backfill.push(copy);
        }
    }
    let size = interval.places().max(1);
    let others = interval.members().map(CopyId::whole).chain(infos.keys().copied());
    for copy in others.collect::<Vec<_>>() {
        if plan.acting.len() < size && !plan.acting.contains(&copy.osd) && fit(copy, tail) {
            plan.acting.push(copy.osd);
        }
    }
    Some(plan)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::History;
    use crate::meta::Info;
    use types::{HObject, OsdId};

    /// What copies of a replicated pool told.
    fn heard<const N: usize>(told: [(OsdId, PeerInfo); N]) -> BTreeMap<CopyId, PeerInfo> {
        told.into_iter().map(|(osd, peer)| (CopyId::whole(osd), peer)).collect()
    }

    /// A copy of the interval that began at `started`, with entries up to `head`, the first of which follows `tail`.
    fn peer(started: u32, tail: u64, head: (u32, u64)) -> PeerInfo {
        let last_update = EVersion::new(head.0, head.1);
        let info = Info { last_update, log_tail: EVersion::new(1, tail), ..Info::default() };
        PeerInfo {
            info,
            history: History { created: 1, started, ..History::default() },
            runs: vec![(head.0, head.1)],
            rests: Vec::new(),
            missing: 0,
        }
    }

    fn filled(peer: PeerInfo) -> PeerInfo {
        let history = History { backfill: Some(HObject::min()), ..peer.history };
        PeerInfo { history, ..peer }
    }

    fn interval(up: &[OsdId], acting: &[OsdId], size: u32) -> Interval {
        Interval { up: up.to_vec(), acting: acting.to_vec(), up_primary: up[0], primary: acting[0], size, ..Interval::default() }
    }

    #[test]
    fn the_newest_interval_counts_before_the_newest_entry() {
        let infos = heard([(0, peer(5, 0, (1, 90))), (1, peer(6, 0, (1, 80))), (2, filled(peer(9, 0, (1, 99))))]);
        assert_eq!(leader(&infos, CopyId::whole(0)), Some(CopyId::whole(1)));
        let infos = heard([(0, peer(5, 10, (1, 90))), (1, peer(5, 0, (1, 90))), (2, peer(5, 0, (1, 90)))]);
        let led = |me| leader(&infos, CopyId::whole(me)).map(|copy| copy.osd);
        assert_eq!((led(2), led(0)), (Some(2), Some(1)));
        assert_eq!(leader(&heard([(2, filled(peer(9, 0, (1, 99))))]), CopyId::whole(2)), None);
    }

    #[test]
    fn who_is_behind_by_less_than_the_log_serves_and_others_are_filled() {
        let infos = heard([(0, peer(5, 50, (1, 90))), (1, peer(5, 0, (1, 60))), (2, peer(5, 0, (1, 40)))]);
        let chosen = plan(&infos, &interval(&[0, 1, 2], &[0, 1, 2], 3), CopyId::whole(0)).expect("a plan");
        assert_eq!(chosen, Plan { leader: CopyId::whole(0), cut: None, acting: vec![0, 1], backfill: vec![CopyId::whole(2)] });
        // The first choice knows too little: who leads stays, until it is filled.
        let chosen = plan(&infos, &interval(&[2, 1], &[2, 1], 2), CopyId::whole(2)).expect("a plan");
        assert_eq!(chosen, Plan { leader: CopyId::whole(0), cut: None, acting: vec![0, 1], backfill: vec![CopyId::whole(2)] });
        // A copy that is not wanted any more serves as long as there are too few.
        let chosen = plan(&infos, &interval(&[1, 3], &[1], 2), CopyId::whole(1)).expect("a plan");
        assert_eq!(chosen, Plan { leader: CopyId::whole(0), cut: None, acting: vec![1, 0], backfill: vec![CopyId::whole(3)] });
    }
}
