//! Findings about placement groups: those that do not serve, lack copies, are damaged, or wait for space.
//!
//! Some states are findings at once; others, through which each group passes when OSDs come and go, only after
//! `mon_pg_stuck_threshold` seconds. Codes, texts and order are Ceph's.

use super::{Checks, DETAILS, Severity};
use crate::recovery;
use crate::soft::{PgSoft, Soft, all_pgs};
use grammar::units;
use monstate::context::Env;
use monstate::effective;
use monstate::osds::set_text;
use monstate::state::State;
use node::Now;
use std::collections::{BTreeMap, BTreeSet};
use types::{PgId, PgState, UTime, is_osd};

/// Harm that a state of a group does to its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Harm {
    Unavailable,
    Degraded,
    BackfillFull,
    Damaged,
    RecoveryFull,
}

impl Harm {
    /// Code, severity, and the beginning of the finding's line.
    fn named(self) -> (&'static str, Severity, &'static str) {
        match self {
            Harm::Unavailable => ("PG_AVAILABILITY", Severity::Warning, "Reduced data availability: "),
            Harm::Degraded => ("PG_DEGRADED", Severity::Warning, "Degraded data redundancy: "),
            Harm::BackfillFull => (
                "PG_BACKFILL_FULL",
                Severity::Warning,
                "Low space hindering backfill (add storage if this doesn't resolve itself): ",
            ),
            Harm::Damaged => ("PG_DAMAGED", Severity::Error, "Possible data damage: "),
            Harm::RecoveryFull => ("PG_RECOVERY_FULL", Severity::Error, "Full OSDs blocking recovery: "),
        }
    }
}

/// Time when a group was last without something.
type Since = fn(&Seen<'_>) -> UTime;

/// A state that is a finding.
struct Sign {
    /// Word of the finding for it.
    word: &'static str,
    /// True if a group shows it.
    shows: fn(PgState) -> bool,
    harm: Harm,
    /// For states that are findings only when they last: since when.
    lasts: Option<Since>,
}

const fn now(word: &'static str, shows: fn(PgState) -> bool, harm: Harm) -> Sign {
    Sign { word, shows, harm, lasts: None }
}

const fn later(word: &'static str, shows: fn(PgState) -> bool, harm: Harm, since: Since) -> Sign {
    Sign { word, shows, harm, lasts: Some(since) }
}

/// All of them, in the order in which a finding names them.
const SIGNS: [Sign; 13] = [
    later("inactive", |s| !s.has(PgState::ACTIVE), Harm::Unavailable, |g| g.stamp(|p| p.stamps.active)),
    now("down", |s| s.has(PgState::DOWN), Harm::Unavailable),
    now("recovery_unfound", |s| s.has(PgState::RECOVERY_UNFOUND), Harm::Damaged),
    now("backfill_unfound", |s| s.has(PgState::BACKFILL_UNFOUND), Harm::Damaged),
    now("degraded", |s| s.has(PgState::DEGRADED), Harm::Degraded),
    now("inconsistent", |s| s.has(PgState::INCONSISTENT), Harm::Damaged),
    later("peering", |s| s.has(PgState::PEERING), Harm::Unavailable, |g| g.stamp(|p| p.stamps.peered)),
    now("incomplete", |s| s.has(PgState::INCOMPLETE), Harm::Unavailable),
    later("stale", |s| s.has(PgState::STALE), Harm::Unavailable, |g| g.gone),
    now("backfill_toofull", |s| s.has(PgState::BACKFILL_TOOFULL), Harm::BackfillFull),
    later("undersized", |s| s.has(PgState::UNDERSIZED), Harm::Degraded, |g| g.stamp(|p| p.stamps.fullsized)),
    now("recovery_toofull", |s| s.has(PgState::RECOVERY_TOOFULL), Harm::RecoveryFull),
    now("snaptrim_error", |s| s.has(PgState::SNAPTRIM_ERROR), Harm::Damaged),
];

/// One group as it is looked at.
struct Seen<'a> {
    pg: PgId,
    state: PgState,
    soft: Option<&'a PgSoft>,
    /// Time when its pool was made: a group that was never reported counts from then.
    made: UTime,
    /// Time when it was reported for the last time: the OSD went down, or the map places it nowhere.
    gone: UTime,
}

impl<'a> Seen<'a> {
    fn of(state: &State, soft: &'a Soft, pg: PgId) -> Self {
        let map = &state.osdmap;
        let known = soft.pgs.get(&pg);
        let made = map.pool(pg.pool).map_or(UTime::ZERO, |p| p.create_time);
        let last = |p: &PgSoft| match map.osd_xinfo.get(usize::try_from(p.osd).ok()?) {
            Some(xinfo) if !map.is_up(p.osd) => Some(xinfo.down_stamp),
            _ => Some(p.at),
        };
        Self { pg, state: soft.pg_state(state, pg), soft: known, made, gone: known.and_then(last).unwrap_or(made) }
    }

    fn stamp(&self, of: impl Fn(&PgSoft) -> UTime) -> UTime {
        let stamp = self.soft.map_or(self.made, |p| if of(p).is_zero() { p.report.last_change } else { of(p) });
        stamp.max(self.made)
    }

    fn acting(&self, state: &State) -> String {
        set_text(&state.osdmap.placed(self.pg).acting)
    }

    /// The line of detail for a sign.
    fn text(&self, state: &State, sign: &Sign, age: Option<u64>) -> String {
        let (pg, is, acting) = (self.pg, self.state, self.acting(state));
        let mut text = match age {
            Some(age) => {
                format!("pg {pg} is stuck {} for {}, current state {is}, last acting {acting}", sign.word, units::span(age))
            }
            None => format!("pg {pg} is {is}, acting {acting}"),
        };
        let unfound = self.soft.map_or(0, |p| p.report.stats.num_objects_unfound);
        if age.is_none() && unfound > 0 {
            text.push_str(&format!(", {unfound} unfound"));
        }
        if sign.harm == Harm::Unavailable
            && let Some(why) = nowhere(state, pg)
        {
            text.push_str(&format!(" ({why})"));
        }
        if is.has(PgState::UNDERSIZED)
            && let Some(why) = too_few_places(state, pg)
        {
            text.push_str(&format!(" ({why})"));
        }
        let least = state.osdmap.pool(pg.pool).map_or(0, |p| p.min_size);
        if is.has(PgState::INCOMPLETE) && least > 1 {
            let pool = state.pool_name(pg.pool);
            text.push_str(&format!(" (reducing pool {pool} min_size from {least} may help; see 'ceph pg {pg} query')"));
        }
        text
    }
}

/// The sentence for a group that the map places on no OSD at all, although there are some that are up and in.
pub(crate) fn nowhere(state: &State, pg: PgId) -> Option<String> {
    let map = &state.osdmap;
    let pool = map.pool(pg.pool)?;
    let (placed, usable) = (map.placed(pg), map.osds().any(|osd| map.is_up(osd) && map.is_in(osd)));
    if !usable || is_osd(placed.acting_primary) || !placed.up.iter().all(|osd| !is_osd(*osd)) {
        return None;
    }
    let (name, rule) = (state.pool_name(pg.pool), rule_name(state, pool));
    Some(format!("rule '{rule}' of pool '{name}' finds no OSD; 'ceph osd crush rule dump {rule}' shows where it looks"))
}

/// The sentence for a group for which its rule finds some OSDs, up or down, but fewer than the pool's size.
pub(crate) fn too_few_places(state: &State, pg: PgId) -> Option<String> {
    let pool = state.osdmap.pool(pg.pool)?;
    let places = state.osdmap.home(pg).iter().filter(|osd| is_osd(**osd)).count();
    if places == 0 || places as u64 >= u64::from(pool.size) {
        return None;
    }
    let (name, rule) = (state.pool_name(pg.pool), rule_name(state, pool));
    // The number of shards is for ever.
    let or = if pool.is_erasure() { "put what is in it into a pool of fewer shards than" } else { "lower size of" };
    Some(format!(
        "rule '{rule}' finds {places} of {} places: add OSDs or hosts that it can use, take OSDs in, or {or} pool '{name}'",
        pool.size
    ))
}

fn rule_name<'a>(state: &'a State, pool: &maps::Pool) -> &'a str {
    state.osdmap.crush.rule_names.get(&i32::from(pool.crush_rule)).map_or("", String::as_str)
}

/// Groups that were found with one harm.
#[derive(Default)]
struct Found {
    /// Number of groups that show a sign, by its place in [`SIGNS`].
    signs: BTreeMap<usize, u64>,
    groups: BTreeSet<PgId>,
    detail: BTreeMap<PgId, String>,
}

/// Adds what groups and their objects show.
pub(super) fn find(checks: &mut Checks, state: &State, soft: &Soft, env: &Env, now: Now) {
    let mut found: BTreeMap<Harm, Found> = BTreeMap::new();
    let stuck = effective::monitor_number(state, env, "mon_pg_stuck_threshold").max(0.0) as u64;
    // What was before this monitor served was before anybody could report it.
    let served = now.mono.since(env.started.mono).as_secs();
    for pg in all_pgs(state) {
        let seen = Seen::of(state, soft, pg);
        for (at, sign) in SIGNS.iter().enumerate().filter(|(_, sign)| (sign.shows)(seen.state)) {
            let age = sign.lasts.map(|since| u64::from(now.wall.sec.saturating_sub(since(&seen).sec)));
            if age.is_some_and(|age| age.min(served) < stuck) {
                continue;
            }
            let of_harm = found.entry(sign.harm).or_default();
            *of_harm.signs.entry(at).or_default() += 1;
            of_harm.groups.insert(pg);
            if of_harm.detail.len() < DETAILS {
                of_harm.detail.insert(pg, seen.text(state, sign, age));
            }
        }
    }
    let total = soft.total();
    for (harm, found) in found {
        let (code, severity, begin) = harm.named();
        let mut summary = begin.to_string();
        let degraded = recovery::parts(&total).into_iter().find(|part| part.what == "degraded");
        if let (Harm::Degraded, Some(part)) = (harm, degraded) {
            summary.push_str(&format!("{}, ", part.text()));
        }
        let plural = |n: u64| if n == 1 { "" } else { "s" };
        let counts: Vec<String> = found.signs.iter().map(|(at, n)| format!("{n} pg{} {}", plural(*n), SIGNS[*at].word)).collect();
        summary.push_str(&counts.join(", "));
        debug_assert!(found.detail.len() <= found.groups.len());
        checks.add(code, severity, found.signs.values().sum(), summary, found.detail.into_values().collect());
    }
    objects(checks, state, soft, env);
}

/// Adds what is known of objects: copies at the wrong place, objects that are nowhere.
fn objects(checks: &mut Checks, state: &State, soft: &Soft, env: &Env) {
    let total = soft.total();
    for part in recovery::parts(&total) {
        let count = part.count.max(0).cast_unsigned();
        match part.what {
            "misplaced" if effective::monitor_flag(state, env, "mon_warn_on_misplaced") => {
                checks.warn("OBJECT_MISPLACED", count, part.text(), Vec::new());
            }
            "unfound" => {
                let with = soft.pgs.iter().map(|(pg, p)| (pg, p.report.stats.num_objects_unfound)).filter(|(_, n)| *n > 0);
                let detail = with.take(DETAILS).map(|(pg, n)| format!("pg {pg} has {n} unfound objects")).collect();
                checks.warn("OBJECT_UNFOUND", count, part.text(), detail);
            }
            _ => {}
        }
    }
}
