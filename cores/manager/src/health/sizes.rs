//! Findings about the numbers of placement groups of pools, and the sizes that are expected of them. Codes and texts
//! are Ceph's.

use super::Checks;
use crate::autoscaler;
use crate::soft::Soft;
use maps::autoscale_mode as mode;
use maps::{OptValue, opts};
use monstate::context::Env;
use monstate::state::State;
use planner::advice::Advice;

/// Adds pools that have too few or too many groups and are only watched, and those that cannot get fewer although all
/// together have too many.
pub(super) fn find(checks: &mut Checks, state: &State, soft: &Soft, env: &Env) {
    both_targets(checks, state);
    odd_numbers(checks, state);
    if state.osdmap.pools.is_empty() || autoscaler::is_off(state) {
        return;
    }
    let all = autoscaler::of_cluster(state, soft, env);
    let watched = |advice: &&Advice| advice.pool.mode == mode::WARN;
    let few: Vec<&Advice> = all.iter().filter(watched).filter(|advice| advice.is_low()).collect();
    let stuck = |advice: &Advice| advice.pool.mode == mode::ON && advice.crowded;
    let many: Vec<&Advice> =
        all.iter().filter(|advice| advice.is_high() && (advice.pool.mode == mode::WARN || stuck(advice))).collect();
    for (code, word, pools) in [("POOL_TOO_FEW_PGS", "few", few), ("POOL_TOO_MANY_PGS", "many", many)] {
        if pools.is_empty() {
            continue;
        }
        let line = |advice: &&Advice| {
            let name = state.pool_name(advice.pool.id);
            format!("Pool {name} has {} placement groups, should have {}", advice.pool.pg_num, advice.final_num)
        };
        let (n, detail) = (pools.len(), pools.iter().map(line).collect());
        checks.warn(code, n as u64, format!("{n} pools have too {word} placement groups"), detail);
    }
}

/// Pools whose number of groups is no power of two and stays so, because it is not changed by itself: some groups hold
/// twice as much.
fn odd_numbers(checks: &mut Checks, state: &State) {
    let odd = |p: &maps::Pool| p.pg_autoscale_mode == mode::OFF && !p.pg_num.is_power_of_two();
    let pools = state.osdmap.pools.iter().filter(|(_, pool)| odd(pool));
    let line =
        |(id, pool): (&i64, &maps::Pool)| format!("pool '{}' pg_num {} is not a power of two", state.pool_name(*id), pool.pg_num);
    let detail: Vec<String> = pools.map(line).collect();
    if !detail.is_empty() {
        let n = detail.len() as u64;
        checks.warn("POOL_PG_NUM_NOT_POWER_OF_TWO", n, format!("{n} pool(s) have non-power-of-two pg_num"), detail);
    }
}

/// Pools of which two sizes are expected.
fn both_targets(checks: &mut Checks, state: &State) {
    let positive = |value: Option<&OptValue>| match value {
        Some(OptValue::Int(n)) => *n > 0,
        Some(OptValue::Double(x)) => *x > 0.0,
        _ => false,
    };
    let both = |p: &maps::Pool| positive(p.opts.get(&opts::TARGET_SIZE_BYTES)) && positive(p.opts.get(&opts::TARGET_SIZE_RATIO));
    let pools = state.osdmap.pools.iter().filter(|(_, pool)| both(pool));
    let detail: Vec<String> =
        pools.map(|(id, _)| format!("Pool {} has target_size_bytes and target_size_ratio set", state.pool_name(*id))).collect();
    if !detail.is_empty() {
        let (n, text) = (detail.len(), "pools have both target_size_bytes and target_size_ratio set");
        checks.warn("POOL_HAS_TARGET_SIZE_BYTES_AND_RATIO", n as u64, format!("{n} {text}"), detail);
    }
}
