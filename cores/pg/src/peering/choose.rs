//! Who has the log that counts, and who shall serve: decisions over what the copies told, without anything around them.

use crate::core::log_merge::common;
use crate::letter::PeerInfo;
use maps::Interval;
use std::collections::BTreeMap;
use types::{EVersion, OsdId};

/// What was decided.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Whose log counts.
    pub(crate) leader: OsdId,
    /// Who shall serve, the primary first.
    pub(crate) acting: Vec<OsdId>,
    /// Who belongs to the group and must be filled first.
    pub(crate) backfill: Vec<OsdId>,
}

/// The copy whose log counts: one that exists, complete, of the newest interval that began, with the newest entry; then the longest log, then `whoami`.
/// `None` if no copy is complete.
pub(crate) fn leader(infos: &BTreeMap<OsdId, PeerInfo>, whoami: OsdId) -> Option<OsdId> {
    let complete = || infos.iter().filter(|(_, peer)| peer.history.created > 0 && peer.history.is_complete());
    let started = complete().map(|(_, peer)| peer.history.started).max()?;
    let newest = complete().filter(|(_, peer)| peer.history.started == started);
    let best = newest.max_by_key(|(osd, peer)| {
        let tail = std::cmp::Reverse(peer.info.log_tail);
        (peer.info.last_update, tail, **osd == whoami, std::cmp::Reverse(**osd))
    });
    best.map(|(osd, _)| *osd)
}

/// Returns true if a copy can be brought up to the log of `leader`, of which entries behind `tail` are known, by that
/// log alone.
pub(crate) fn continues(peer: &PeerInfo, leader: &PeerInfo, tail: EVersion) -> bool {
    common(&peer.runs, &leader.runs) >= tail
}

/// Returns who shall serve the group in this interval.
pub(crate) fn plan(infos: &BTreeMap<OsdId, PeerInfo>, interval: &Interval, whoami: OsdId) -> Option<Plan> {
    let leader = leader(infos, whoami)?;
    let authority = &infos[&leader];
    let fit = |osd: OsdId, tail: EVersion| {
        infos.get(&osd).is_some_and(|peer| peer.history.is_complete() && continues(peer, authority, tail))
    };
    let first = interval.up_primary;
    let primary = if fit(first, authority.info.log_tail) { first } else { leader };
    // Members are brought up by the primary's log, which may begin later than the leader's.
    let tail = infos[&primary].info.log_tail.max(authority.info.log_tail);
    let mut plan = Plan { leader, acting: vec![primary], backfill: Vec::new() };
    for osd in interval.home().filter(|osd| *osd != primary) {
        if fit(osd, tail) {
            plan.acting.push(osd);
        } else {
            plan.backfill.push(osd);
        }
    }
    let size = interval.size.max(1) as usize;
    let others = interval.members().chain(infos.keys().copied());
    for osd in others.collect::<Vec<_>>() {
        if plan.acting.len() < size && !plan.acting.contains(&osd) && fit(osd, tail) {
            plan.acting.push(osd);
        }
    }
    Some(plan)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::History;
    use crate::meta::Info;
    use types::HObject;

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
        let infos = [(0, peer(5, 0, (1, 90))), (1, peer(6, 0, (1, 80))), (2, filled(peer(9, 0, (1, 99))))].into();
        assert_eq!(leader(&infos, 0), Some(1));
        let infos = [(0, peer(5, 10, (1, 90))), (1, peer(5, 0, (1, 90))), (2, peer(5, 0, (1, 90)))].into();
        assert_eq!((leader(&infos, 2), leader(&infos, 0)), (Some(2), Some(1)));
        assert_eq!(leader(&[(2, filled(peer(9, 0, (1, 99))))].into(), 2), None);
    }

    #[test]
    fn who_is_behind_by_less_than_the_log_serves_and_others_are_filled() {
        let infos = [(0, peer(5, 50, (1, 90))), (1, peer(5, 0, (1, 60))), (2, peer(5, 0, (1, 40)))].into();
        let chosen = plan(&infos, &interval(&[0, 1, 2], &[0, 1, 2], 3), 0).expect("a plan");
        assert_eq!(chosen, Plan { leader: 0, acting: vec![0, 1], backfill: vec![2] });
        // The first choice knows too little: who leads stays, until it is filled.
        let chosen = plan(&infos, &interval(&[2, 1], &[2, 1], 2), 2).expect("a plan");
        assert_eq!(chosen, Plan { leader: 0, acting: vec![0, 1], backfill: vec![2] });
        // A copy that is not wanted any more serves as long as there are too few.
        let chosen = plan(&infos, &interval(&[1, 3], &[1], 2), 1).expect("a plan");
        assert_eq!(chosen, Plan { leader: 0, acting: vec![1, 0], backfill: vec![3] });
    }
}
