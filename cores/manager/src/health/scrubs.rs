//! Findings about scrubs: errors that they found, repairs of reads, groups that wait for one too long. Codes and texts
//! are Ceph's.

use super::{Checks, DETAILS, Severity};
use crate::soft::Soft;
use maps::{OptValue, Pool, opts, pool_flags};
use messages::internal::PgReport;
use monstate::context::Env;
use monstate::effective;
use monstate::state::State;
use node::Now;
use std::collections::BTreeMap;
use types::{OsdId, PoolId, UTime};

/// Adds what scrubs found, and which did not happen.
pub(super) fn find(checks: &mut Checks, state: &State, soft: &Soft, env: &Env, now: Now) {
    let errors = soft.total().num_scrub_errors;
    if errors > 0 {
        let text = format!("{errors} scrub errors");
        checks.add("OSD_SCRUB_ERRORS", Severity::Error, errors.cast_unsigned(), text, Vec::new());
    }
    repaired(checks, state, soft, env);
    large_omaps(checks, state, soft);
    pool_flags_set(checks, state);
    for kind in [LIGHT, DEEP] {
        waiting(checks, state, soft, env, now, &kind);
    }
}

/// Pools that somebody excluded from scrubs. A notice, since it is how somebody wanted it; what is not scrubbed for too
/// long is a warning.
fn pool_flags_set(checks: &mut Checks, state: &State) {
    let kinds = [(pool_flags::NOSCRUB, "noscrub"), (pool_flags::NODEEP_SCRUB, "nodeep-scrub")];
    let pools = &state.osdmap.pools;
    let set: Vec<&str> =
        kinds.iter().filter(|(bit, _)| pools.values().any(|p| p.has_flag(*bit))).map(|(_, name)| *name).collect();
    if set.is_empty() {
        return;
    }
    let named = |(id, p): (&PoolId, &Pool)| {
        let id = *id;
        let has = kinds.map(|(bit, name)| p.has_flag(bit).then(|| format!("Pool {} has {name} flag", state.pool_name(id))));
        has.into_iter().flatten()
    };
    let detail: Vec<String> = pools.iter().flat_map(named).take(DETAILS).collect();
    checks.add("POOL_SCRUB_FLAGS", Severity::Notice, 0, format!("Some pool(s) have the {} flag(s) set", set.join(", ")), detail);
}

/// OSDs that led reads which had to be repaired from other copies.
fn repaired(checks: &mut Checks, state: &State, soft: &Soft, env: &Env) {
    let most = effective::monitor_number(state, env, "mon_osd_warn_num_repaired") as i64;
    let mut by_osd: BTreeMap<OsdId, i64> = BTreeMap::new();
    for p in soft.pgs.values() {
        *by_osd.entry(p.osd).or_default() += p.report.stats.num_objects_repaired;
    }
    by_osd.retain(|_, n| most > 0 && *n > most);
    if !by_osd.is_empty() {
        let detail = by_osd.iter().take(DETAILS).map(|(osd, n)| format!("osd.{osd} had {n} reads repaired")).collect();
        let n = by_osd.len();
        checks.warn("OSD_TOO_MANY_REPAIRS", n as u64, format!("Too many repaired reads on {n} OSDs"), detail);
    }
}

/// Objects whose omap is larger than the OSDs' options allow, as the last deep scrubs of their groups counted them.
fn large_omaps(checks: &mut Checks, state: &State, soft: &Soft) {
    let counts = state.osdmap.pools.keys().map(|pool| (*pool, soft.pool_sum(*pool).num_large_omap_objects));
    let counts: Vec<(PoolId, i64)> = counts.filter(|(_, n)| *n > 0).collect();
    let all: i64 = counts.iter().map(|(_, n)| n).sum();
    if all == 0 {
        return;
    }
    let of_pool = |(pool, n): &(PoolId, i64)| format!("{n} large objects found in pool '{}'", state.pool_name(*pool));
    let mut detail: Vec<String> = counts.iter().take(DETAILS).map(of_pool).collect();
    detail.push("Search the cluster log for 'Large omap object found' for more details.".to_owned());
    checks.warn("LARGE_OMAP_OBJECTS", all.cast_unsigned(), format!("{all} large omap objects"), detail);
}

/// A kind of scrub: its code, the pool's own interval and the option for it, how much later it may be, its word, its
/// stamp.
struct Kind {
    code: &'static str,
    own: i32,
    interval: &'static str,
    ratio: &'static str,
    word: &'static str,
    stamp: fn(&PgReport) -> UTime,
}

const LIGHT: Kind = Kind {
    code: "PG_NOT_SCRUBBED",
    own: opts::SCRUB_MAX_INTERVAL,
    interval: "osd_scrub_max_interval",
    ratio: "mon_warn_pg_not_scrubbed_ratio",
    word: "scrubbed",
    stamp: |r| r.last_scrub_stamp,
};

const DEEP: Kind = Kind {
    code: "PG_NOT_DEEP_SCRUBBED",
    own: opts::DEEP_SCRUB_INTERVAL,
    interval: "osd_deep_scrub_interval",
    ratio: "mon_warn_pg_not_deep_scrubbed_ratio",
    word: "deep-scrubbed",
    stamp: |r| r.last_deep_scrub_stamp,
};

/// Groups whose last scrub is longer ago than its interval and the part of it that it may be late.
fn waiting(checks: &mut Checks, state: &State, soft: &Soft, env: &Env, now: Now, kind: &Kind) {
    let ratio = effective::monitor_number(state, env, kind.ratio);
    if ratio <= 0.0 {
        return;
    }
    let usual = effective::number_for_osds(state, env, kind.interval);
    let (mut count, mut detail) = (0u64, Vec::new());
    for (pg, p) in &soft.pgs {
        let Some(pool) = state.osdmap.pool(pg.pool) else { continue };
        let interval = own_interval(pool, kind.own).unwrap_or(usual);
        // A group that was never scrubbed waits since its pool was made.
        let stamp = (kind.stamp)(&p.report).max(pool.create_time);
        let age = f64::from(now.wall.sec.saturating_sub(stamp.sec));
        if interval > 0.0 && age > interval * (1.0 + ratio) {
            count += 1;
            if detail.len() < DETAILS {
                detail.push(format!("pg {pg} not {} since {}", kind.word, stamp.iso()));
            }
        }
    }
    if count as usize > detail.len() {
        detail.push(format!("{} more pgs... ", count as usize - detail.len()));
    }
    if count > 0 {
        checks.warn(kind.code, count, format!("{count} pgs not {} in time", kind.word), detail);
    }
}

fn own_interval(pool: &Pool, key: i32) -> Option<f64> {
    match pool.opts.get(&key)? {
        OptValue::Double(x) => Some(*x).filter(|x| *x > 0.0),
        _ => None,
    }
}
