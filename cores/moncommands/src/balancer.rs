//! Commands on the balancer. Answers have the form of Ceph's.

use super::{Ask, Cx, Row, row};
use grammar::{Args, Format, Outcome, Refusal, Reply, refuse};
use manager::balancer::{self, Plan, Round};
use monstate::state::Change;
use planner::score::{Counts, Eval, METRICS, Spread};
use planner::upmap;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use types::{Errno, OsdId, PgId, PoolId};

pub(super) const ROWS: &[Row] = &[
    row("balancer status", "show what the balancer does", "mgr", "r", status),
    row("balancer mode <mode:Choices strings=none|crush-compat|upmap>", "choose how the balancer works", "mgr", "rw", set_mode),
    row("balancer on", "let the balancer work by itself", "mgr", "rw", |cx, _| turn(cx, true)),
    row("balancer off", "let the balancer rest", "mgr", "rw", |cx, _| turn(cx, false)),
    row("balancer pool ls", "list the pools that the balancer is bound to", "mgr", "r", pool_ls),
    row("balancer pool add <pools:String n=N>", "bind the balancer to pools", "mgr", "rw", pool_add),
    row("balancer pool rm <pools:String n=N>", "do not bind the balancer to pools any more", "mgr", "rw", pool_rm),
    row("balancer eval <option:String req=false>", "say how even the cluster, a pool or a plan is", "mgr", "r", |cx, args| {
        eval(cx, args, false)
    }),
    row("balancer eval-verbose <option:String req=false>", "the same with all figures", "mgr", "r", |cx, args| {
        eval(cx, args, true)
    }),
    row("balancer optimize <plan:String> <pools:String n=N req=false>", "make a plan", "mgr", "rw", optimize),
    row("balancer show <plan:String>", "show a plan as commands", "mgr", "r", show),
    row("balancer rm <plan:String>", "discard a plan", "mgr", "rw", rm),
    row("balancer reset", "discard all plans", "mgr", "rw", reset),
    row("balancer dump <plan:String>", "show a plan", "mgr", "r", dump),
    row("balancer ls", "list the balancer's plans", "mgr", "r", ls),
    row("balancer execute <plan:String>", "carry a plan out", "mgr", "rw", execute),
];

fn json_of(value: &Value) -> Reply {
    Reply::data(Format::JsonPretty.render("", value))
}

fn status(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    let desk = &cx.duties.balancer;
    Ok(json_of(&json!({
        "active": balancer::is_active(cx.state),
        // Time does not pass while a round looks for moves.
        "last_optimize_duration": if desk.started.is_some() { "0:00:00" } else { "" },
        "last_optimize_started": desk.started.map_or(String::new(), |at| at.ctime()),
        "mode": balancer::mode(cx.state),
        "no_optimization_needed": desk.no_need,
        "optimize_result": desk.result,
        "plans": desk.plans.keys().collect::<Vec<_>>(),
    })))
}

/// Sets an option of the balancer.
fn set(cx: &mut Cx<'_>, name: &str, value: String) {
    let name = format!("mgr/balancer/{name}");
    if cx.state.config.get("mgr", &name) != Some(&value) {
        cx.changes.push(Change::Config { by: cx.asker.name.to_string(), set: vec![("mgr".into(), name, Some(value))] });
    }
}

fn set_mode(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    if args.str("mode") == "crush-compat" {
        refuse!(EOPNOTSUPP, "weight sets are not made here, so mode crush-compat has nothing to work with; use upmap");
    }
    set(cx, "mode", args.str("mode").to_owned());
    Ok(Reply::default())
}

fn turn(cx: &mut Cx<'_>, on: bool) -> Outcome {
    if on != balancer::is_active(cx.state) {
        set(cx, "active", on.to_string());
    }
    Ok(Reply::default())
}

/// The pools that an argument names, or the names that no pool has.
fn pools(cx: &Cx<'_>, args: &Args) -> Result<Vec<PoolId>, String> {
    let unknown: Vec<String> =
        args.list("pools").iter().filter(|name| cx.state.pool_id(name).is_none()).map(|name| format!("'{name}'")).collect();
    match unknown.is_empty() {
        true => Ok(args.list("pools").iter().filter_map(|name| cx.state.pool_id(name)).collect()),
        false => Err(format!("[{}]", unknown.join(", "))),
    }
}

fn pool_ls(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    let mut names: Vec<&str> = balancer::bound_pools(cx.state).into_iter().map(|id| cx.state.pool_name(id)).collect();
    names.sort_unstable();
    Ok(if names.is_empty() { Reply::default() } else { json_of(&json!(names)) })
}

fn bind(cx: &mut Cx<'_>, mut ids: Vec<PoolId>) -> Outcome {
    ids.sort_unstable();
    ids.dedup();
    let text: Vec<String> = ids.iter().map(PoolId::to_string).collect();
    set(cx, "pool_ids", text.join(","));
    Ok(Reply::default())
}

fn pool_add(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let more = match pools(cx, args) {
        Ok(ids) => ids,
        Err(unknown) => refuse!(EINVAL, "pool(s) {unknown} not found"),
    };
    let ids = balancer::bound_pools(cx.state).into_iter().chain(more).collect();
    bind(cx, ids)
}

fn pool_rm(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let gone: Vec<PoolId> = args.list("pools").iter().filter_map(|name| cx.state.pool_id(name)).collect();
    let bound = balancer::bound_pools(cx.state);
    if !bound.iter().any(|id| gone.contains(id)) {
        return Ok(Reply::default());
    }
    bind(cx, bound.into_iter().filter(|id| !gone.contains(id)).collect())
}

/// The map that an evaluation looks at, the pools of it, and what it is called.
fn eval(cx: &mut Cx<'_>, args: &Args, verbose: bool) -> Outcome {
    let (what, map, pools) = match args.opt("option") {
        None => ("current cluster".to_owned(), cx.state.osdmap.clone(), balancer::bound_pools(cx.state)),
        Some(name) => match (cx.duties.balancer.plans.get(name), cx.state.pool_id(name)) {
            (Some(plan), _) => (format!("plan \"{name}\""), after(cx, plan).into(), plan.pools.clone()),
            (None, Some(id)) => (format!("pool \"{name}\""), cx.state.osdmap.clone(), vec![id]),
            (None, None) => refuse!(EINVAL, "option \"{name}\" not a plan or a pool"),
        },
    };
    let stats = |pg| cx.soft.pgs.get(&pg).map(|p| &p.report.stats);
    let eval = Eval::of(&cx.state.osdmap, &pools, |pg| map.placed(pg).up.as_slice(), stats);
    let score = format!("score {:.6} (lower is better)", eval.score());
    Ok(match verbose {
        false => Reply::data(format!("{what} {score}\n")),
        true => Reply::data(format!("{what}\n{}{score}\n", figures(cx, &eval))),
    })
}

/// The map as it would be after a plan; as it is, if the plan does not fit it any more.
fn after(cx: &Cx<'_>, plan: &Plan) -> maps::OsdMap {
    let map = &cx.state.osdmap;
    let mut inc = maps::Incremental::new(map.epoch + 1, map.fsid, cx.now.wall);
    plan.changes.apply(map, &mut inc);
    map.apply(&inc).unwrap_or_else(|_| (**map).clone())
}

/// Text as Python shows a dictionary: Ceph prints these so.
fn python<K: std::fmt::Display>(items: impl IntoIterator<Item = (K, String)>) -> String {
    let items: Vec<String> = items.into_iter().map(|(key, value)| format!("{key}: {value}")).collect();
    format!("{{{}}}", items.join(", "))
}

fn quoted(text: &str) -> String {
    format!("'{text}'")
}

fn totals(counts: &Counts) -> [f64; 3] {
    counts.values().fold([0.0; 3], |sum, held| [sum[0] + held[0], sum[1] + held[1], sum[2] + held[2]])
}

/// Returns what each OSD holds, or which part of all, as a dictionary for each metric.
fn by_metric(counts: &Counts, part: bool) -> String {
    let sums = totals(counts);
    python(METRICS.iter().enumerate().map(|(n, metric)| {
        let one = |(osd, held): (&OsdId, &[f64; 3])| match part {
            true if sums[n] > 0.0 => (*osd, format!("{:?}", held[n] / sums[n])),
            true => (*osd, "0.0".into()),
            false => (*osd, format!("{:?}", held[n])),
        };
        (quoted(metric), python(counts.iter().map(one)))
    }))
}

/// The lines of `eval-verbose`.
fn figures(cx: &Cx<'_>, eval: &Eval) -> String {
    let pools: BTreeMap<String, &Counts> = eval.pools.iter().map(|(id, c)| (quoted(cx.state.pool_name(*id)), c)).collect();
    let roots = || eval.roots.iter().map(|(name, root)| (quoted(name), root));
    let sum =
        |counts: &Counts| python(METRICS.iter().zip(totals(counts)).map(|(metric, n)| (quoted(metric), format!("{}", n as u64))));
    let spread = |s: Spread| {
        let fields = [
            ("max", s.max),
            ("min", s.min),
            ("avg", s.avg),
            ("stddev", s.stddev),
            ("sum_weight", s.sum_weight),
            ("score", s.score),
        ];
        python(fields.map(|(name, x)| (quoted(name), format!("{x:?}"))))
    };
    let target = |t: &BTreeMap<OsdId, f64>| python(t.iter().map(|(osd, x)| (*osd, format!("{x:?}"))));
    let lines = [
        ("target_by_root", python(roots().map(|(name, root)| (name, target(&root.target))))),
        ("actual_by_pool", python(pools.iter().map(|(name, c)| (name, by_metric(c, true))))),
        ("actual_by_root", python(roots().map(|(name, root)| (name, by_metric(&root.counts, true))))),
        ("count_by_pool", python(pools.iter().map(|(name, c)| (name, by_metric(c, false))))),
        ("count_by_root", python(roots().map(|(name, root)| (name, by_metric(&root.counts, false))))),
        ("total_by_pool", python(pools.iter().map(|(name, c)| (name, sum(c))))),
        ("total_by_root", python(roots().map(|(name, root)| (name, sum(&root.counts))))),
        (
            "stats_by_root",
            python(roots().map(|(name, root)| {
                (name, python(METRICS.iter().enumerate().map(|(n, metric)| (quoted(metric), spread(root.spread(n))))))
            })),
        ),
        ("score_by_pool", python::<String>([])),
        (
            "score_by_root",
            python(roots().map(|(name, root)| {
                (
                    name,
                    python(METRICS.iter().enumerate().map(|(n, metric)| (quoted(metric), format!("{:?}", root.spread(n).score)))),
                )
            })),
        ),
    ];
    lines.iter().map(|(name, value)| format!("{name} {value}\n")).collect()
}

fn refuse_while_active(cx: &Cx<'_>, what: &str) -> Result<(), Refusal> {
    if balancer::is_active(cx.state) {
        refuse!(EINVAL, "Balancer enabled, disable to {what}");
    }
    Ok(())
}

fn optimize(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    refuse_while_active(cx, "optimize manually")?;
    let pools = match pools(cx, args) {
        Ok(ids) => ids,
        Err(unknown) => refuse!(EINVAL, "pools {unknown} not found"),
    };
    if balancer::mode(cx.state) != "upmap" {
        refuse!(ENOEXEC, "Please do \"ceph balancer mode\" to choose a valid mode first");
    }
    let name = args.str("plan");
    if cx.duties.balancer.plans.len() >= balancer::MOST_PLANS && !cx.duties.balancer.plans.contains_key(name) {
        refuse!(E2BIG, "there are {} plans; 'balancer reset' discards them", balancer::MOST_PLANS);
    }
    let round = balancer::round(cx.state, cx.soft, cx.env, &pools, 0);
    cx.asks.push(Ask::NoteRound(round.clone()));
    let errno = match &round {
        Round::Moves(changes) => {
            let plan = Plan { epoch: cx.state.osdmap.epoch, pools, changes: changes.clone() };
            cx.asks.push(Ask::KeepPlan(name.to_owned(), plan));
            return Ok(Reply::default());
        }
        Round::Even => Errno::EALREADY,
        Round::Later(_) => Errno::EAGAIN,
        Round::NoPools => Errno::ENOENT,
    };
    Err(Refusal::new(errno, round.says()))
}

fn plan<'a>(cx: &'a Cx<'_>, args: &Args) -> Result<&'a Plan, Refusal> {
    let name = args.str("plan");
    if name.is_empty() {
        refuse!(EINVAL, "no plan is named");
    }
    match cx.duties.balancer.plans.get(name) {
        Some(plan) => Ok(plan),
        None => refuse!(ENOENT, "plan {name} not found"),
    }
}

fn show(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let plan = plan(cx, args)?;
    let mut text = format!(
        "# starting osdmap epoch {}\n# starting crush version {}\n# mode upmap\n",
        plan.epoch, cx.state.osdmap.crush_version
    );
    for (pg, pairs) in &plan.changes.copies {
        let osds: String = pairs.iter().map(|(from, to)| format!(" {from} {to}")).collect();
        text += &match pairs.is_empty() {
            true => format!("ceph osd rm-pg-upmap-items {pg}\n"),
            false => format!("ceph osd pg-upmap-items {pg}{osds}\n"),
        };
    }
    for (pg, order) in &plan.changes.leaders {
        text += &match order {
            None => format!("ceph osd rm-pg-upmap {pg}\n"),
            Some(osds) => format!("ceph osd pg-upmap {pg}{}\n", osds.iter().map(|osd| format!(" {osd}")).collect::<String>()),
        };
    }
    Ok(Reply::data(text))
}

fn dump(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let plan = plan(cx, args)?;
    let mapping = |(from, to): &(OsdId, OsdId)| json!({"from": from, "to": to});
    let new = |(pg, pairs): (&PgId, &upmap::Pairs)| json!({"pgid": pg.to_string(), "mappings": pairs.iter().map(mapping).collect::<Vec<_>>()});
    let changed: Vec<Value> = plan.changes.copies.iter().filter(|(_, pairs)| !pairs.is_empty()).map(new).collect();
    let removed: Vec<String> =
        plan.changes.copies.iter().filter(|(_, pairs)| pairs.is_empty()).map(|(pg, _)| pg.to_string()).collect();
    let orders = plan.changes.leaders.iter();
    let ordered: Vec<Value> =
        orders.clone().filter_map(|(pg, order)| Some(json!({"pgid": pg.to_string(), "osds": order.as_ref()?}))).collect();
    let unordered: Vec<String> = orders.filter(|(_, order)| order.is_none()).map(|(pg, _)| pg.to_string()).collect();
    Ok(json_of(&json!({
        "epoch": plan.epoch + 1,
        "fsid": cx.state.fsid.to_string(),
        "new_pg_upmap": ordered,
        "new_pg_upmap_items": changed,
        "old_pg_upmap": unordered,
        "old_pg_upmap_items": removed,
    })))
}

fn rm(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    cx.asks.push(Ask::DropPlan(args.str("plan").to_owned()));
    Ok(Reply::default())
}

fn reset(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    let all: Vec<String> = cx.duties.balancer.plans.keys().cloned().collect();
    cx.asks.extend(all.into_iter().map(Ask::DropPlan));
    Ok(Reply::default())
}

fn ls(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    Ok(json_of(&json!(cx.duties.balancer.plans.keys().collect::<Vec<_>>())))
}

fn execute(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    refuse_while_active(cx, "execute a plan")?;
    let mut changes = plan(cx, args)?.changes.clone();
    let map = cx.state.osdmap.clone();
    changes.retain(|pg| map.pool(pg.pool).is_some_and(|pool| pg.seed < pool.pg_num));
    changes.apply(&map, cx.inc());
    cx.asks.push(Ask::DropPlan(args.str("plan").to_owned()));
    Ok(Reply::default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dictionaries_look_like_python_s() {
        assert_eq!(python([(0, "0.5".to_owned()), (1, "1".to_owned())]), "{0: 0.5, 1: 1}");
        let counts = Counts::from([(0, [3.0, 0.0, 0.0]), (1, [1.0, 0.0, 0.0])]);
        assert_eq!(
            by_metric(&counts, true),
            "{'pgs': {0: 0.75, 1: 0.25}, 'objects': {0: 0.0, 1: 0.0}, 'bytes': {0: 0.0, 1: 0.0}}"
        );
    }
}
