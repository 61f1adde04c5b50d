//! Gives pools the placement groups that they should have.
//!
//! [`planner::advice`] says how many. Two things differ from Ceph: a pool of eight groups that holds little keeps them,
//! and a pool gets fewer only if all groups together are more than the OSDs should have: until then, more groups do no
//! harm. See docs/decisions/0024 and 0027.

use crate::progress::{About, Events, Note};
use crate::soft::Soft;
use maps::{Incremental, OptValue, Pool, opts, pool_flags, state as bits};
use monstate::context::Env;
use monstate::effective;
use monstate::pools::Ctx;
use monstate::state::State;
use node::{Mono, Now};
use planner::advice::{Advice, PoolFacts, RootFacts, advise};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use types::{OsdId, PoolId};

/// A number that somebody set for a pool.
fn opt_of(pool: &Pool, key: i32) -> Option<f64> {
    match pool.opts.get(&key) {
        Some(OptValue::Int(n)) => Some(*n as f64),
        Some(OptValue::Double(x)) => Some(*x),
        _ => None,
    }
}

/// Advises on the pools of the cluster as it is.
pub fn of_cluster(state: &State, soft: &Soft, env: &Env) -> Vec<Advice> {
    let map = &state.osdmap;
    let mut tops: BTreeMap<i32, BTreeSet<OsdId>> = BTreeMap::new();
    let mut pools = Vec::new();
    for (id, pool) in &map.pools {
        let Some(top) = map.crush.rule_takes(u32::from(pool.crush_rule)).first().copied() else { continue };
        tops.entry(top).or_insert_with(|| map.crush.devices_under(top));
        pools.push(PoolFacts { rate: map.raw_rate(*id), ..facts(*id, pool, top, soft) });
    }
    let overlaps =
        |top: &i32, osds: &BTreeSet<OsdId>| tops.iter().any(|(other, theirs)| other != top && !theirs.is_disjoint(osds));
    let root = |osds: &BTreeSet<OsdId>| RootFacts {
        osds: osds.iter().filter(|osd| map.exists(**osd)).count() as u32,
        capacity: osds.iter().map(|osd| soft.space(*osd).total).sum(),
    };
    let roots = tops.iter().filter(|(top, osds)| !overlaps(top, osds)).map(|(top, osds)| (*top, root(osds))).collect();
    advise(&pools, &roots, effective::monitor_number(state, env, "mon_target_pg_per_osd").max(1.0))
}

fn facts(id: PoolId, pool: &Pool, root: i32, soft: &Soft) -> PoolFacts {
    let bound = |key: i32| opt_of(pool, key).filter(|n| *n > 0.0).map(|n| n as u32);
    PoolFacts {
        id,
        root,
        size: u32::from(pool.size),
        rate: f64::from(pool.size),
        mode: pool.pg_autoscale_mode,
        pg_num: pool.pg_num_target,
        stored: soft.pool_sum(id).num_bytes.max(0) as u64,
        target_bytes: opt_of(pool, opts::TARGET_SIZE_BYTES).unwrap_or(0.0).max(0.0) as u64,
        target_ratio: opt_of(pool, opts::TARGET_SIZE_RATIO).unwrap_or(0.0).max(0.0),
        bias: opt_of(pool, opts::PG_AUTOSCALE_BIAS).filter(|bias| *bias > 0.0).unwrap_or(1.0),
        bulk: pool.has_flag(pool_flags::BULK),
        least: bound(opts::PG_NUM_MIN),
        most: bound(opts::PG_NUM_MAX),
    }
}

/// The option that keeps all numbers as they are.
pub const NOAUTOSCALE: &str = "mgr/pg_autoscaler/noautoscale";

/// Returns true if somebody set that all numbers stay.
pub fn is_off(state: &State) -> bool {
    let set = ["mgr", "global"].iter().find_map(|section| state.config.get(section, NOAUTOSCALE));
    set.is_some_and(|text| matches!(text.to_ascii_lowercase().as_str(), "true" | "1" | "yes" | "on"))
}

/// Time when pools were looked at last, and what was refused then.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    last: Option<Mono>,
    refused: BTreeMap<PoolId, String>,
    /// Pools whose number of groups changes: what it was, and will be.
    changing: BTreeMap<PoolId, (u32, u32)>,
}

impl Clock {
    /// Splits groups of pools that have too few by far, and lets those be merged of which there are too many, if it is
    /// time to look. Gives lines for the cluster log.
    pub fn tick(&mut self, now: Now, state: &State, soft: &Soft, env: &Env, inc: &mut Incremental) -> Vec<String> {
        let set = state.config.get("mgr", "mgr/pg_autoscaler/sleep_interval").and_then(|text| text.parse::<f64>().ok());
        let rest = Duration::from_secs_f64(set.filter(|x| x.is_finite()).unwrap_or(60.0).clamp(0.5, 1e6));
        if self.last.is_some_and(|last| now.mono.since(last) < rest) || is_off(state) || !is_calm(state, soft) {
            return Vec::new();
        }
        self.last = Some(now.mono);
        let ctx = Ctx { state, env, now };
        let mut lines = Vec::new();
        let advice = of_cluster(state, soft, env);
        for one in advice.iter().filter(|one| one.is_to_change()) {
            let name = state.pool_name(one.pool.id);
            match change(&ctx, one, inc) {
                Ok(None) => {}
                Ok(Some(n)) => {
                    lines.push(format!("pool '{name}' gets {n} placement groups, it had {}", one.pool.pg_num));
                    self.changing.insert(one.pool.id, (one.pool.pg_num, n));
                }
                Err(why) if self.refused.get(&one.pool.id) == Some(&why) => {}
                Err(why) => {
                    lines.push(format!("pool '{name}' should have {} placement groups: {why}", one.final_num));
                    self.refused.insert(one.pool.id, why);
                }
            }
        }
        self.refused.retain(|id, _| advice.iter().any(|one| one.pool.id == *id && one.is_to_change()));
        lines
    }
}

impl Clock {
    /// Tells how far pools are that get more groups, until the new ones are where they are placed, or fewer.
    pub fn tell(&mut self, now: Now, state: &State, events: &mut Events) {
        self.changing.retain(|id, (from, to)| {
            let (name, grows) = (format!("autoscale-{id}"), from < to);
            let now_at = state.osdmap.pool(*id).map_or(*to, |pool| if grows { pool.pgp_num } else { pool.pg_num });
            if if grows { now_at >= *to } else { now_at <= *to } {
                events.take(now.wall, Note::Done(name));
                return false;
            }
            if !events.has(&name) {
                let word = if grows { "increasing" } else { "decreasing" };
                let message = format!("PG autoscaler {word} pool {id} PGs from {from} to {to}");
                events.take(now.wall, Note::Begun(name.clone(), About { message, refs: json!([["pool", id]]) }));
            }
            events.take(
                now.wall,
                Note::Far(name, f64::from(now_at.abs_diff(*from).min(from.abs_diff(*to))) / f64::from(from.abs_diff(*to))),
            );
            true
        });
    }
}

/// Returns true if groups may be split and moved by themselves: all serve, and no OSD is too full to take what moves.
fn is_calm(state: &State, soft: &Soft) -> bool {
    let map = &state.osdmap;
    let full = |osd: OsdId| map.is_in(osd) && map.state(osd) & (bits::FULL | bits::BACKFILLFULL) != 0;
    crate::stepping::all_serve(state, soft) && !map.osds().any(full)
}

/// Changes the number of groups of a pool. Gives the number that it gets: none if its last change is still under way.
fn change(ctx: &Ctx<'_>, advice: &Advice, inc: &mut Incremental) -> Result<Option<u32>, String> {
    let Some(pool) = ctx.state.osdmap.pool(advice.pool.id) else { return Ok(None) };
    let moving = pool.pg_num != pool.pg_num_target || pool.pgp_num != pool.pgp_num_target;
    if moving || pool.has_flag(pool_flags::CREATING) || pool.has_flag(pool_flags::NOPGCHANGE) {
        return Ok(None);
    }
    let factor = effective::monitor_number(ctx.state, ctx.env, "mon_osd_max_split_count").max(1.0) as u32;
    let n = advice.final_num.min(pool.pg_num.saturating_mul(factor));
    let untouched = inc.new_pools.get(&advice.pool.id).cloned();
    ctx.set_pg_num(inc, advice.pool.id, n).map(|()| Some(n)).map_err(|refusal| {
        match untouched {
            Some(pool) => drop(inc.new_pools.insert(advice.pool.id, pool)),
            None => drop(inc.new_pools.remove(&advice.pool.id)),
        }
        refusal.text
    })
}
