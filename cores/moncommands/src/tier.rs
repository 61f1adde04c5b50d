//! Commands on cache tiers, as far as the map goes: which pool is recorded as a tier of which. Nothing is routed
//! through a tier here, so modes and overlays that would do that are refused.

use super::{Cx, Row, row};
use grammar::{Args, Outcome, Reply, refuse};
use maps::cache_mode;
use monstate::pools::Ctx;
use types::PoolId;

const OVERLAY: &str = "nothing is routed through cache tiers in this cluster";

pub(super) const ROWS: &[Row] = &[
    row(
        "osd tier add <pool:Poolname> <tierpool:Poolname> <force_nonempty:Choices req=false strings=--force-nonempty>",
        "record a pool as a tier of another; nothing is cached",
        "osd",
        "rw",
        add,
    ),
    row("osd tier rm <pool:Poolname> <tierpool:Poolname>", "forget that a pool is a tier of another", "osd", "rw", remove),
    row("osd tier remove <pool:Poolname> <tierpool:Poolname>", "forget that a pool is a tier of another", "osd", "rw", remove),
    row(
        "osd tier cache-mode <pool:Poolname> <mode:Choices strings=writeback|proxy|readproxy|readonly|none> <yes_i_really_mean_it:Bool req=false>",
        "record a tier's mode: none or readonly",
        "osd",
        "rw",
        mode,
    ),
];

fn pair(cx: &Cx<'_>, args: &Args) -> Result<(PoolId, PoolId), super::Refusal> {
    let (base, tier) = (cx.existing_pool(args, "pool")?, cx.existing_pool(args, "tierpool")?);
    if base == tier {
        refuse!(EINVAL, "a pool cannot be a tier of itself");
    }
    Ok((base, tier))
}

fn add(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let (base, tier) = pair(cx, args)?;
    let (base_name, tier_name) = (args.str("pool"), args.str("tierpool"));
    let map = &cx.state.osdmap;
    let done = Reply::status(format!("pool '{tier_name}' is now (or already was) a tier of '{base_name}'"));
    if map.pools[&base].tiers.contains(&(tier as u64)) {
        return Ok(done);
    }
    if map.pools[&base].tier_of >= 0 {
        refuse!(EINVAL, "pool '{base_name}' is a tier itself");
    }
    if map.pools[&tier].tier_of >= 0 || !map.pools[&tier].tiers.is_empty() {
        refuse!(EINVAL, "pool '{tier_name}' is a tier already, or has tiers");
    }
    let forced = args.opt("force_nonempty").is_some_and(|f| !f.is_empty());
    if !forced && cx.soft.pool_sum(tier).num_objects > 0 {
        refuse!(ENOTEMPTY, "pool '{tier_name}' holds objects; --force-nonempty takes it all the same");
    }
    if !forced && (map.pools[&tier].is_unmanaged_snaps_mode() || map.pools[&tier].is_pool_snaps_mode()) {
        refuse!(ENOTEMPTY, "pool '{tier_name}' has snapshots of its own, which a tier may not have");
    }
    edit(cx, base, tier, |pool, tier_pool| {
        pool.tiers.insert(tier as u64);
        tier_pool.tier_of = base;
    })?;
    Ok(done)
}

fn remove(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let (base, tier) = pair(cx, args)?;
    let done =
        Reply::status(format!("pool '{}' is now (or already was) not a tier of '{}'", args.str("tierpool"), args.str("pool")));
    if cx.state.osdmap.pools[&tier].tier_of != base {
        return Ok(done);
    }
    edit(cx, base, tier, |pool, tier_pool| {
        pool.tiers.remove(&(tier as u64));
        tier_pool.tier_of = -1;
        tier_pool.cache_mode = cache_mode::NONE;
    })?;
    Ok(done)
}

fn mode(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let (id, name) = (cx.existing_pool(args, "pool")?, args.str("pool"));
    if cx.state.osdmap.pools[&id].tier_of < 0 {
        refuse!(EINVAL, "pool '{name}' is not a tier");
    }
    let mode = match args.str("mode") {
        "none" => cache_mode::NONE,
        "readonly" if args.flag("yes_i_really_mean_it") => cache_mode::READONLY,
        "readonly" => refuse!(EPERM, "a tier that is only read may show old data; --yes-i-really-mean-it takes it all the same"),
        other => refuse!(EOPNOTSUPP, "mode {other}: {OVERLAY}"),
    };
    let ctx = Ctx { state: cx.state, env: cx.env, now: cx.now };
    ctx.edit(cx.inc(), id)?.cache_mode = mode;
    Ok(Reply::status(format!("set cache-mode for pool '{name}' to {}", args.str("mode"))))
}

/// Changes both pools of a pair.
fn edit(
    cx: &mut Cx<'_>,
    base: PoolId,
    tier: PoolId,
    change: impl FnOnce(&mut maps::Pool, &mut maps::Pool),
) -> Result<(), super::Refusal> {
    let ctx = Ctx { state: cx.state, env: cx.env, now: cx.now };
    let inc = cx.inc();
    let (mut one, mut other) = (ctx.edit(inc, base)?.clone(), ctx.edit(inc, tier)?.clone());
    change(&mut one, &mut other);
    inc.new_pools.insert(base, one);
    inc.new_pools.insert(tier, other);
    Ok(())
}
