//! Why groups are not clean.

use super::{Answer, SHOWN, Scene, counted, percent};
use crate::health::groups::{nowhere, too_few_places};
use crate::soft::all_pgs;
use grammar::units::span;
use maps::flags;
use monstate::effective;
use monstate::osds::set_text;
use std::collections::BTreeMap;
use types::{OsdId, PgId, PgState};

/// A reason why a group is not clean. The worst come first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Reason {
    /// Its rule finds no OSD at all.
    Nowhere(String),
    /// Nobody reported it yet.
    Unheard(Vec<OsdId>),
    /// All that have it are down.
    AllDown(Vec<OsdId>),
    /// These may have what is newer.
    WaitsFor(Vec<OsdId>),
    /// Those that are there are not enough.
    Incomplete,
    /// Objects whose newest version nobody has.
    Unfound,
    /// Its members agree what is newest.
    Agrees,
    /// Copies differ.
    Differs,
    /// OSDs that are to get copies have no room.
    TooFull(Vec<OsdId>),
    /// Its rule finds too few OSDs.
    FewPlaces(String),
    /// These have a copy and are down.
    MembersDown(Vec<OsdId>),
    /// Somebody set a flag.
    Held(&'static str),
    /// It waits until others are done.
    Queues,
    /// Copies are made.
    Copies,
    /// Copies move.
    Moves,
}

fn is_osd(osd: &&OsdId) -> bool {
    **osd >= 0 && **osd != crush::NONE
}

/// Returns why a group is not clean; nothing for one that is.
fn reason(s: &Scene<'_>, pg: PgId) -> Option<Reason> {
    let map = &s.state.osdmap;
    let state = s.soft.pg_state(s.state, pg);
    let placed = map.placed(pg);
    let soft = s.soft.pgs.get(&pg);
    let home: Vec<OsdId> = map.home(pg).iter().filter(is_osd).copied().collect();
    let down: Vec<OsdId> = home.iter().copied().filter(|osd| !map.is_up(*osd)).collect();
    let has = |bit| state.has(bit);
    if let Some(why) = nowhere(s.state, pg) {
        return Some(Reason::Nowhere(why));
    }
    if placed.acting_primary < 0 {
        return Some(Reason::AllDown(home));
    }
    if state.is_unknown() || has(PgState::STALE) {
        return Some(Reason::Unheard(placed.acting.iter().filter(is_osd).copied().collect()));
    }
    let blocked = soft.map_or(&[][..], |soft| &soft.report.blocked_by);
    if !has(PgState::ACTIVE) && !blocked.is_empty() {
        return Some(Reason::WaitsFor(blocked.to_vec()));
    }
    if has(PgState::INCOMPLETE) || has(PgState::DOWN) {
        return Some(Reason::Incomplete);
    }
    if soft.is_some_and(|soft| soft.report.stats.num_objects_unfound > 0) {
        return Some(Reason::Unfound);
    }
    if !has(PgState::ACTIVE) {
        return Some(Reason::Agrees);
    }
    if has(PgState::INCONSISTENT) {
        return Some(Reason::Differs);
    }
    if has(PgState::BACKFILL_TOOFULL) || has(PgState::RECOVERY_TOOFULL) {
        return Some(Reason::TooFull(placed.up.iter().filter(is_osd).copied().collect()));
    }
    if has(PgState::CLEAN) {
        return None;
    }
    if has(PgState::UNDERSIZED) || has(PgState::DEGRADED) {
        if let Some(why) = too_few_places(s.state, pg) {
            return Some(Reason::FewPlaces(why));
        }
        if !down.is_empty() && has(PgState::UNDERSIZED) {
            return Some(Reason::MembersDown(down));
        }
    }
    let waits = has(PgState::RECOVERY_WAIT) || has(PgState::BACKFILL_WAIT);
    let held = [(flags::NORECOVER, "norecover"), (flags::NOBACKFILL, "nobackfill"), (flags::NOREBALANCE, "norebalance")];
    let running = has(PgState::RECOVERING) || has(PgState::BACKFILLING);
    if let Some((_, name)) = held.iter().find(|(bit, _)| map.has_flag(*bit)).filter(|_| !running) {
        return Some(Reason::Held(name));
    }
    Some(match () {
        () if running && has(PgState::DEGRADED) => Reason::Copies,
        () if running => Reason::Moves,
        () if waits => Reason::Queues,
        () if has(PgState::DEGRADED) => Reason::Copies,
        () => Reason::Moves,
    })
}

/// Writes a reason as the rest of a sentence about groups, and adds what is known of those that it names.
fn tell(s: &Scene<'_>, reason: &Reason, a: &mut Answer) -> String {
    let down = |osds: &[OsdId], a: &mut Answer| {
        for osd in osds.iter().take(SHOWN) {
            if let Some(since) = s.down_for(*osd) {
                a.because(format!("{} {since}", s.osd(*osd)), format!("nacre explain osd {osd}"));
            }
        }
    };
    match reason {
        Reason::Nowhere(why) => {
            a.helps("let the rule name what is there, or give the pool another rule", "ceph osd tree");
            format!("can be nowhere: {why}")
        }
        Reason::Unheard(osds) => {
            down(osds, a);
            format!(
                "were not reported by those who serve them, {}: they begin just now, or do not reach the monitors",
                s.osds(osds)
            )
        }
        Reason::AllDown(osds) => {
            down(osds, a);
            a.helps("start one of these OSDs", "ceph osd tree down");
            format!("serve nobody, because all OSDs that have them are down: {}", s.osds(osds))
        }
        Reason::WaitsFor(osds) => {
            down(osds, a);
            a.helps(
                "start these OSDs; only if their disks are lost for good, say so: what they alone had is lost then",
                "ceph osd lost N",
            );
            format!("do not serve, because {} may have writes that the others have not", s.osds(osds))
        }
        Reason::Incomplete => {
            a.helps("see which copies are missing", "ceph pg PGID query");
            "do not serve, because too few complete copies are there".into()
        }
        Reason::Unfound => {
            a.helps("start OSDs that had them; see which objects", "ceph pg PGID list_unfound");
            "have objects whose newest version is on no OSD that runs".into()
        }
        Reason::Agrees => "find out which copy is the newest; that takes seconds".into(),
        Reason::Differs => {
            a.helps("see which objects, and let the group repair them", "rados list-inconsistent-obj PGID");
            "have copies that differ, as a scrub found".into()
        }
        Reason::TooFull(osds) => {
            for osd in osds.iter().take(SHOWN) {
                if let Some(full) = s.fullness(*osd) {
                    a.because(format!("{} is {} full", s.osd(*osd), percent(full)), "ceph osd df");
                }
            }
            a.helps("add disks, or remove data", "nacre explain space");
            "get no further copies, because an OSD that is to have one is too full".into()
        }
        Reason::FewPlaces(why) => format!("have too few copies: {why}"),
        Reason::MembersDown(osds) => {
            down(osds, a);
            let after = effective::monitor_number(s.state, s.env, "mon_osd_down_out_interval");
            let stay = s.state.osdmap.has_flag(flags::NOOUT);
            let then = if stay {
                "the flag noout is set: nobody else gets their copies".to_owned()
            } else {
                format!("once they are down for {}, others get their copies", span(after as u64))
            };
            a.because(then, "ceph osd tree down");
            a.helps("start these OSDs", "ceph osd tree down");
            format!("serve with fewer copies, because {} cannot be reached", s.osds(osds))
        }
        Reason::Held(flag) => {
            a.helps("let copies be made again", format!("ceph osd unset {flag}"));
            format!("get no further copies, because somebody set the flag {flag}")
        }
        Reason::Queues => {
            a.because("each OSD fills some groups at a time", "nacre explain recovery");
            "wait until other groups have got their copies".into()
        }
        Reason::Copies => "get copies that they lack; clients are served meanwhile".into(),
        Reason::Moves => "move to where they belong; all copies are there meanwhile".into(),
    }
}

pub(super) fn answer(s: &Scene<'_>) -> Answer {
    let mut reasons: BTreeMap<Reason, (u64, PgId)> = BTreeMap::new();
    let mut all = 0;
    for pg in all_pgs(s.state) {
        all += 1;
        if let Some(reason) = reason(s, pg) {
            reasons.entry(reason).or_insert((0, pg)).0 += 1;
        }
    }
    let mut a = Answer::default();
    if reasons.is_empty() {
        a.say(if all == 0 { "There are no groups: no pool was made.".into() } else { format!("All {all} groups are clean.") });
        return a;
    }
    let left = reasons.len().saturating_sub(SHOWN);
    for (reason, (n, example)) in reasons.iter().take(SHOWN) {
        let rest = tell(s, reason, &mut a);
        a.say(format!("{} of {all} {rest}.", counted(*n, "group")));
        a.because(format!("{example} is one of these {n}"), format!("nacre explain group {example}"));
    }
    if left > 0 {
        a.say(format!("There are {left} other reasons."));
    }
    a
}

pub(super) fn one(s: &Scene<'_>, pg: PgId) -> Answer {
    let mut a = Answer::default();
    let map = &s.state.osdmap;
    let placed = map.placed(pg);
    match reason(s, pg) {
        None => a.say(format!("Group {pg} of pool {} is clean.", s.state.pool_name(pg.pool))),
        Some(reason) => {
            let rest = tell(s, &reason, &mut a);
            a.say(format!("Group {pg} of pool {}: such groups {rest}.", s.state.pool_name(pg.pool)));
        }
    }
    for line in a.helps.iter_mut().chain(&mut a.because) {
        line.command = line.command.replace("PGID", &pg.to_string());
    }
    let state = s.soft.pg_state(s.state, pg);
    a.because(format!("its state is {state}"), format!("ceph pg {pg} query"));
    let text = format!("it belongs on {}, and is served by {}", set_text(&placed.up), set_text(&placed.acting));
    a.because(text, format!("ceph pg map {pg}"));
    if let Some(soft) = s.soft.pgs.get(&pg) {
        let since = u64::from(s.now.wall.sec.saturating_sub(soft.report.last_change.sec));
        a.because(format!("it is so for {}, as osd.{} told", span(since), soft.osd), "");
        let sum = &soft.report.stats;
        for (n, what) in [(sum.num_objects_degraded, "copies are missing"), (sum.num_objects_misplaced, "copies are elsewhere")] {
            if n > 0 {
                a.because(format!("{n} {what} of {}", sum.num_object_copies), "");
            }
        }
    }
    a
}
