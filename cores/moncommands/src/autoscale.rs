//! Commands on the numbers of placement groups that pools should have. Answers have the form of Ceph's.

use super::shared::ctx;
use super::{Cx, Row, row};
use grammar::{Args, Outcome, Reply, Table};
use manager::autoscaler;
use maps::autoscale_mode as mode;
use monstate::state::Change;
use planner::advice::Advice;
use serde_json::{Value, json};
use types::PoolId;

pub(super) const ROWS: &[Row] = &[
    row("osd pool autoscale-status", "show how many placement groups pools should have", "mgr", "r", status),
    row("osd pool get noautoscale", "show whether no pool's number changes by itself", "mgr", "rw", get),
    row("osd pool set noautoscale", "let no pool's number change by itself", "mgr", "rw", |cx, _| set(cx, true)),
    row("osd pool unset noautoscale", "let all pools' numbers change by themselves", "mgr", "rw", |cx, _| set(cx, false)),
];

/// Bytes as this table has them: `20480M`, in the largest binary unit that leaves at least four digits.
fn short_bytes(n: u64) -> String {
    const UNITS: [&str; 6] = ["", "k", "M", "G", "T", "P"];
    let (mut n, mut unit) = (n as f64, 0);
    while n >= 99_999.0 && unit + 1 < UNITS.len() {
        n /= 1024.0;
        unit += 1;
    }
    let digits = if unit == 0 || n >= 1000.0 { 0 } else { 1 };
    format!("{n:.digits$}{}", UNITS[unit])
}

/// A rate as Ceph has it: a number of single precision.
fn shown_rate(rate: f64) -> f64 {
    f64::from(rate as f32)
}

fn dump(cx: &Cx<'_>, advice: &Advice) -> Value {
    let pool = &advice.pool;
    json!({
        "actual_capacity_ratio": advice.actual_raw / advice.capacity as f64,
        "actual_raw_used": advice.actual_raw,
        "bias": pool.bias,
        "bulk": pool.bulk,
        "capacity_ratio": advice.ratio,
        "crush_root_id": pool.root,
        "effective_target_ratio": advice.effective_ratio,
        "logical_used": pool.stored,
        "pg_autoscale_mode": maps::autoscale_mode::name(pool.mode),
        "pg_num_final": advice.final_num,
        "pg_num_ideal": advice.ideal as u64,
        "pg_num_target": pool.pg_num,
        "pool_id": pool.id,
        "pool_name": cx.state.pool_name(pool.id),
        "raw_used": advice.raw,
        "raw_used_rate": shown_rate(pool.rate),
        "subtree_capacity": advice.capacity,
        "target_bytes": if pool.target_ratio == 0.0 { pool.target_bytes } else { 0 },
        "target_ratio": pool.target_ratio,
        "would_adjust": advice.would_adjust(),
    })
}

const COLUMNS: [&str; 13] = [
    "POOL",
    ">SIZE",
    ">TARGET SIZE",
    ">RATE",
    ">RAW CAPACITY",
    ">RATIO",
    ">TARGET RATIO",
    ">EFFECTIVE RATIO",
    ">BIAS",
    ">PG_NUM",
    ">NEW PG_NUM",
    "AUTOSCALE",
    "BULK",
];

fn table(cx: &Cx<'_>, all: &[Advice]) -> String {
    let mut t = Table::simple(&COLUMNS);
    let if_any = |x: f64| if x > 0.0 { format!("{x:.4}") } else { String::new() };
    for advice in all {
        let pool = &advice.pool;
        let expected =
            if pool.target_ratio == 0.0 && pool.target_bytes > 0 { short_bytes(pool.target_bytes) } else { String::new() };
        t.row(vec![
            cx.state.pool_name(pool.id).to_owned(),
            short_bytes(pool.stored),
            expected,
            format!("{:?}", shown_rate(pool.rate)),
            short_bytes(advice.capacity),
            format!("{:.4}", advice.ratio),
            if_any(pool.target_ratio),
            if_any(advice.effective_ratio),
            format!("{:?}", pool.bias),
            pool.pg_num.to_string(),
            if advice.would_adjust() { advice.final_num.to_string() } else { String::new() },
            maps::autoscale_mode::name(pool.mode).to_owned(),
            if pool.bulk { "True" } else { "False" }.to_owned(),
        ]);
    }
    // Each line of this table ends with two more blanks.
    t.render().replace('\n', "  \n")
}

/// Returns which pools keep more groups than they should have, and why.
fn remarks(cx: &Cx<'_>, all: &[Advice]) -> String {
    let high = all.iter().filter(|advice| advice.would_adjust() && !advice.is_to_change());
    let names: Vec<&str> = high.map(|advice| cx.state.pool_name(advice.pool.id)).collect();
    match names.is_empty() {
        true => String::new(),
        false => {
            format!("as long as all OSDs together do not have too many, '{}' keep their placement groups", names.join("', '"))
        }
    }
}

fn status(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    let all = autoscaler::of_cluster(cx.state, cx.soft, cx.env);
    let value = Value::Array(all.iter().map(|advice| dump(cx, advice)).collect());
    let text = || if all.is_empty() { String::new() } else { table(cx, &all) };
    Ok(cx.show("pools", value, text).with_status(remarks(cx, &all)))
}

fn get(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    Ok(Reply::status(if autoscaler::is_off(cx.state) { "noautoscale is on" } else { "noautoscale is off" }))
}

/// Sets or takes off the flag, and with it the mode of all pools, those to come among them.
fn set(cx: &mut Cx<'_>, off: bool) -> Outcome {
    if off == autoscaler::is_off(cx.state) {
        return Ok(Reply::status(format!("noautoscale is already {}set!", if off { "" } else { "un" })));
    }
    let (name, new) = if off { ("off", mode::OFF) } else { ("on", mode::ON) };
    let options = vec![
        ("mgr".to_owned(), autoscaler::NOAUTOSCALE.to_owned(), Some(off.to_string())),
        ("global".to_owned(), "osd_pool_default_pg_autoscale_mode".to_owned(), Some(name.to_owned())),
    ];
    cx.changes.push(Change::Config { by: cx.asker.name.to_string(), set: options });
    let others: Vec<PoolId> =
        cx.state.osdmap.pools.iter().filter(|(_, pool)| pool.pg_autoscale_mode != new).map(|(id, _)| *id).collect();
    let ctx = ctx(cx);
    for id in others {
        ctx.edit(cx.inc(), id)?.pg_autoscale_mode = new;
    }
    Ok(Reply::status(format!("noautoscale is {}set, all pools now have autoscale {name}", if off { "" } else { "un" })))
}
