//! Whose log counts, up to where, and who serves.
//!
//! A change was acknowledged only if all copies that served its interval had it. So of the newest interval that may have
//! served, *what all of its copies that are heard have in common* counts: what one of them has not was never
//! acknowledged. k of them are heard ([`crate::history::Prior`]), so what counts is on k shards, and can be made for the others.
//!
//! | copies | part in it |
//! |---|---|
//! | whole ones that served the newest interval that may have served: *witnesses* | decide |
//! | whole ones of earlier intervals | lack what came since; that is no evidence |
//! | those that hold nothing, or are being filled | none |
//!
//! *An interval did not serve* if a copy that was to serve in it never wrote down that it began: all of them do that
//! before the first one serves. Its copies then stand for the interval before it, as what they are now: they may have
//! less than they had, where that interval undid something, but nothing that was acknowledged is less.
//!
//! *Guard.* What some copy knows to be stable is at all copies of an interval. If less than that is in common,
//! something is wrong with a store, and nothing is undone.

use super::Shards;
use crate::history::PastInterval;
use crate::letter::PeerInfo;
use crate::log::common;
use crate::scheme::{Plan, continues};
use maps::Interval;
use std::collections::BTreeMap;
use types::{CopyId, EVersion, Epoch, HOLE, OsdId, is_osd};

/// Reasons for which a group does not serve: see [`Shards::plan`].
const TOO_FEW: &str = "too few of its shards are there and whole: OSDs that hold others must come back as they were";
/// See [`Shards::plan`].
const CONTRADICTION: &str = "its copies contradict each other (inconsistent log): one of them knows to be on all shards what another \
                             one does not have, so nothing is undone, and nothing is served";

type Infos = BTreeMap<CopyId, PeerInfo>;

/// Returns true if a copy has all that its log tells, but for what it knows to be missing.
fn is_whole(peer: &PeerInfo) -> bool {
    peer.history.created > 0 && peer.history.is_complete()
}

/// Returns the interval that began with this epoch, as some copy remembers it; `None`: nothing was served in it.
fn interval_at(infos: &Infos, started: Epoch) -> Option<&PastInterval> {
    let past = infos.values().flat_map(|peer| &peer.history.past);
    past.filter(|past| !past.acting.is_empty()).find(|past| (past.first..=past.last).contains(&started))
}

/// Returns the copies that decide, and whether anything was served. `lost`: whether an OSD was given up since an epoch, so that it may have another store now.
fn witnesses(infos: &Infos, me: CopyId, lost: impl Fn(OsdId, Epoch) -> bool) -> (Vec<CopyId>, bool) {
    let mut begun: Vec<Epoch> = infos.values().filter(|peer| is_whole(peer)).map(|peer| peer.history.started).collect();
    begun.sort_unstable();
    begun.dedup();
    for started in begun.iter().rev() {
        let Some(interval) = interval_at(infos, *started) else { continue };
        let members = || me.shard.copies(&interval.acting).filter_map(|copy| Some((copy, infos.get(&copy)?)));
        let whole = || members().filter(|(_, peer)| is_whole(peer));
        if members().any(|(copy, peer)| peer.history.created == 0 && !lost(copy.osd, interval.last)) {
            // It has the store that it had, and nothing of the group in it.
            continue;
        }
        if whole().all(|(_, peer)| peer.history.started >= *started) {
            return (whole().map(|(copy, _)| copy).collect(), true);
        }
    }
    // Nothing was ever served.
    let newest = begun.last().copied();
    let all = infos.iter().filter(|(_, peer)| is_whole(peer) && Some(peer.history.started) == newest);
    (all.map(|(copy, _)| *copy).collect(), false)
}

impl Shards {
    /// Returns whose log counts, up to where, and who shall serve: at each position the copy that is up there, or acts there, or
    /// any other that has the shard and can be brought up by the log; else nobody. `lost`: whether an OSD was given up since
    /// an epoch.
    ///
    /// # Errors
    /// A sentence that says why nobody can serve.
    pub(crate) fn plan(
        &self,
        infos: &Infos,
        interval: &Interval,
        me: CopyId,
        lost: impl Fn(OsdId, Epoch) -> bool,
    ) -> Result<Plan, &'static str> {
        let (witnesses, served) = witnesses(infos, me, lost);
        let first = |copy: &CopyId| (infos[copy].info.log_tail, *copy != me, *copy);
        let leader = witnesses.iter().copied().min_by_key(first).ok_or(TOO_FEW)?;
        if served && witnesses.len() < self.k() {
            return Err(TOO_FEW);
        }
        let authority = &infos[&leader];
        let shared =
            |copy: &CopyId| if *copy == leader { authority.info.last_update } else { common(&infos[copy].runs, &authority.runs) };
        let cut = witnesses.iter().map(shared).min().unwrap_or_default();
        if infos.values().any(|peer| peer.info.stable > cut) {
            return Err(CONTRADICTION);
        }
        // The primary brings the others up, by its own log.
        let tail = infos.get(&me).map_or(EVersion::default(), |own| own.info.log_tail).max(authority.info.log_tail);
        let fit =
            |copy: &CopyId| infos.get(copy).is_some_and(|peer| peer.history.is_complete() && continues(peer, authority, tail));
        let mut plan = Plan { leader, cut: Some(cut), ..Plan::default() };
        for position in 0..self.count() {
            let named = |places: &[OsdId]| {
                let osd = places.get(position).filter(|osd| is_osd(**osd))?;
                Some(CopyId { osd: *osd, shard: me.shard.at(position) })
            };
            let others = infos.keys().filter(|copy| copy.shard == me.shard.at(position)).copied();
            let candidates = named(&interval.up).into_iter().chain(named(&interval.acting)).chain(others);
            // An OSD at two positions would write letters to itself, which nobody brings.
            let free = |copy: &CopyId| !plan.acting.contains(&copy.osd);
            let chosen = candidates.filter(free).find(fit);
            plan.acting.push(chosen.map_or(HOLE, |copy| copy.osd));
        }
        let home = me.shard.copies(&interval.up);
        plan.backfill = home.filter(|copy| !fit(copy) && !plan.acting.contains(&copy.osd)).collect();
        let there = plan.acting.iter().filter(|osd| is_osd(**osd)).count();
        if there < self.k() { Err(TOO_FEW) } else { Ok(plan) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::shards;
    use super::*;
    use crate::history::History;
    use crate::meta::Info;
    use types::{HObject, ShardId};

    /// A copy that began at `started` last, with entries up to `head`, all of epoch 1.
    fn peer(started: Epoch, head: u64) -> PeerInfo {
        let last_update = if head > 0 { EVersion::new(1, head) } else { EVersion::default() };
        let runs = if head > 0 { vec![(1, head)] } else { Vec::new() };
        let history = History { created: u32::from(started > 0), started, ..History::default() };
        PeerInfo { info: Info { last_update, ..Info::default() }, history, runs, ..PeerInfo::default() }
    }

    fn at(osd: OsdId, shard: i8) -> CopyId {
        CopyId { osd, shard: ShardId(shard) }
    }

    fn interval(acting: &[OsdId]) -> Interval {
        Interval { up: acting.to_vec(), acting: acting.to_vec(), size: 4, ..Interval::default() }
    }

    /// Copies of OSDs at the positions of their numbers, who remember these intervals: first, last, who served.
    fn heard(peers: &[(OsdId, PeerInfo)], past: &[(Epoch, Epoch, &[OsdId])]) -> Infos {
        let past = past.iter().map(|(first, last, acting)| PastInterval {
            first: *first,
            last: *last,
            acting: acting.to_vec(),
            primary: acting[0],
        });
        let past: Vec<PastInterval> = past.collect();
        let of = |(osd, peer): &(OsdId, PeerInfo)| {
            let history = History { past: past.clone(), ..peer.history.clone() };
            (at(*osd, i8::try_from(*osd).expect("few")), PeerInfo { history, ..peer.clone() })
        };
        peers.iter().map(of).collect()
    }

    /// What a group of 2 + 2 comes to, led by OSD 0: up to where the log counts, and who serves.
    fn plan(infos: &Infos, acting: &[OsdId]) -> Result<(u64, Vec<OsdId>), &'static str> {
        let plan = shards(2, 2, "").plan(infos, &interval(acting), at(0, 0), |_, _| false)?;
        Ok((plan.cut.unwrap_or_default().version, plan.acting))
    }

    const ALL: [OsdId; 4] = [0, 1, 2, 3];

    #[test]
    fn what_all_have_counts_and_what_one_has_not_does_not() {
        let served: &[(Epoch, Epoch, &[OsdId])] = &[(5, 9, &ALL)];
        let whole = heard(&[(0, peer(5, 7)), (1, peer(5, 7)), (2, peer(5, 7)), (3, peer(5, 7))], served);
        assert_eq!(plan(&whole, &ALL), Ok((7, ALL.to_vec())));
        let torn = heard(&[(0, peer(5, 9)), (1, peer(5, 7)), (2, peer(5, 8)), (3, peer(5, 9))], served);
        assert_eq!(plan(&torn, &ALL), Ok((7, ALL.to_vec())));
        // Who lacks it is not heard: it counts.
        let away = heard(&[(0, peer(5, 9)), (2, peer(5, 9)), (3, peer(5, 9))], served);
        assert_eq!(plan(&away, &[0, HOLE, 2, 3]), Ok((9, vec![0, HOLE, 2, 3])));
        // k are enough, fewer are not.
        let two = heard(&[(0, peer(5, 9)), (3, peer(5, 8))], served);
        assert_eq!(plan(&two, &[0, HOLE, HOLE, 3]), Ok((8, vec![0, HOLE, HOLE, 3])));
        assert_eq!(plan(&heard(&[(0, peer(5, 9))], served), &[0, HOLE, HOLE, HOLE]), Err(TOO_FEW));
    }

    #[test]
    fn who_was_away_lacks_what_was_acknowledged_since_and_undoes_nothing() {
        let served: &[(Epoch, Epoch, &[OsdId])] = &[(5, 9, &ALL), (10, 12, &[0, HOLE, 2, 3])];
        let back = heard(&[(0, peer(10, 9)), (1, peer(5, 4)), (2, peer(10, 9)), (3, peer(10, 9))], served);
        assert_eq!(plan(&back, &ALL), Ok((9, ALL.to_vec())));
        // One that is being filled is no evidence either, and does not serve.
        let mut filled = back.clone();
        let cursor = Some(HObject::min());
        filled.get_mut(&at(2, 2)).expect("it is there").history.backfill = cursor;
        assert_eq!(plan(&filled, &ALL), Ok((9, vec![0, 1, HOLE, 3])));
        let plan = shards(2, 2, "").plan(&filled, &interval(&ALL), at(0, 0), |_, _| false).expect("a plan");
        assert_eq!((plan.leader, plan.backfill), (at(0, 0), vec![at(2, 2)]));
    }

    #[test]
    fn an_interval_in_which_a_copy_never_began_did_not_serve() {
        // Interval 10 was begun by three of its copies. Copy 1 wrote nothing of it, and lacks entry 9: it may be undone.
        let past: &[(Epoch, Epoch, &[OsdId])] = &[(5, 9, &ALL), (10, 12, &ALL)];
        let begun = heard(&[(0, peer(10, 9)), (1, peer(5, 8)), (2, peer(10, 9)), (3, peer(10, 9))], past);
        assert_eq!(plan(&begun, &ALL), Ok((8, ALL.to_vec())));
        // If it is not heard, or was no member of that interval, that interval decides.
        let silent = heard(&[(0, peer(10, 9)), (2, peer(10, 9)), (3, peer(10, 9))], past);
        assert_eq!(plan(&silent, &[0, HOLE, 2, 3]), Ok((9, vec![0, HOLE, 2, 3])));
        // One that no copy remembers could not serve: there were too few members, or the map did not know the primary.
        let short = heard(&[(0, peer(10, 9)), (1, peer(5, 8)), (2, peer(10, 9)), (3, peer(5, 9))], &past[..1]);
        assert_eq!(plan(&short, &ALL), Ok((8, ALL.to_vec())));
    }

    #[test]
    fn who_has_nothing_proves_that_nothing_was_served_unless_it_was_given_up() {
        let begun = heard(&[(0, peer(5, 0)), (1, peer(5, 0)), (2, peer(0, 0)), (3, peer(0, 0))], &[(5, 9, &ALL)]);
        assert_eq!(plan(&begun, &ALL), Ok((0, ALL.to_vec())));
        let one = heard(&[(0, peer(5, 0)), (1, peer(0, 0)), (2, peer(0, 0)), (3, peer(0, 0))], &[(5, 9, &ALL)]);
        assert_eq!(plan(&one, &ALL), Ok((0, ALL.to_vec())));
        let lost = shards(2, 2, "").plan(&one, &interval(&ALL), at(0, 0), |_, since| since == 9);
        assert_eq!(lost, Err(TOO_FEW), "others may have had what was written");
    }

    #[test]
    fn what_a_copy_knows_to_be_stable_is_never_undone() {
        let mut torn = heard(&[(0, peer(5, 9)), (1, peer(5, 7)), (2, peer(5, 9)), (3, peer(5, 9))], &[(5, 9, &ALL)]);
        torn.get_mut(&at(2, 2)).expect("it is there").info.stable = EVersion::new(1, 7);
        assert_eq!(plan(&torn, &ALL).map(|plan| plan.0), Ok(7));
        torn.get_mut(&at(2, 2)).expect("it is there").info.stable = EVersion::new(1, 8);
        assert_eq!(plan(&torn, &ALL), Err(CONTRADICTION));
    }

    #[test]
    fn a_shard_that_is_elsewhere_serves_from_there_and_that_of_another_position_is_none() {
        let served: &[(Epoch, Epoch, &[OsdId])] = &[(5, 9, &ALL)];
        let whole = heard(&[(0, peer(5, 7)), (1, peer(5, 7)), (2, peer(5, 7)), (3, peer(5, 7))], served);
        let moved = plan(&whole, &[0, 4, 2, 3]);
        assert_eq!(moved, Ok((7, ALL.to_vec())));
        let mut swapped = whole.clone();
        swapped.remove(&at(1, 1));
        swapped.insert(at(1, 2), peer(5, 7));
        assert_eq!(plan(&swapped, &ALL), Ok((7, vec![0, HOLE, 2, 3])));
        // An OSD has one position.
        swapped.remove(&at(2, 2));
        swapped.insert(at(1, 1), peer(5, 7));
        assert_eq!(plan(&swapped, &ALL), Ok((7, vec![0, 1, HOLE, 3])));
    }

    #[test]
    fn who_is_behind_the_log_does_not_serve() {
        let mut infos = heard(
            &[(0, peer(10, 90)), (1, peer(5, 4)), (2, peer(10, 90)), (3, peer(10, 90))],
            &[(5, 9, &ALL), (10, 12, &[0, HOLE, 2, 3])],
        );
        for (copy, peer) in &mut infos {
            peer.info.log_tail = EVersion::new(1, if copy.osd == 1 { 0 } else { 50 });
        }
        assert_eq!(plan(&infos, &ALL), Ok((90, vec![0, HOLE, 2, 3])));
    }

    #[test]
    fn a_new_group_has_nothing_that_could_be_lacking() {
        let infos = heard(&[(0, peer(1, 0)), (1, peer(0, 0)), (2, peer(0, 0)), (3, peer(0, 0))], &[]);
        assert_eq!(plan(&infos, &ALL), Ok((0, ALL.to_vec())));
    }
}
