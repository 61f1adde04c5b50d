//! Commands that make, rename and delete pools; quotas, applications, snapshots, statistics.

use super::osd_dump::{pool_dump, pool_lines};
use super::shared::{barren, ctx};
use super::{Cx, Row, crush_rules, erasure, row};
use grammar::Args;
use grammar::units::{bytes, quota, si};
use grammar::{Outcome, Refusal, Reply, refuse};
use manager::recovery;
use manager::soft::Rates;
use maps::autoscale_mode as mode;
use maps::{OptValue, Pool, opts};
use messages::mon::log_level;
use monstate::effective;
use monstate::pools::{Wanted, changed_crush, check_name};
use serde_json::{Value, json};
use types::{Feature, PoolId};

pub(super) const ROWS: &[Row] = &[
    row(
        "osd pool create <pool:Poolname> <pg_num:Int range=0 req=false> <pgp_num:Int range=0 req=false> <pool_type:Choices req=false strings=replicated|erasure> <erasure_code_profile:String goodchars=[A-Za-z0-9-_.] req=false> <rule:String req=false> <expected_num_objects:Int range=0 req=false> <size:Int range=0 req=false> <pg_num_min:Int range=0 req=false> <pg_num_max:Int range=0 req=false> <autoscale_mode:Choices req=false strings=on|off|warn> <bulk:Bool req=false> <target_size_bytes:Int range=0 req=false> <target_size_ratio:Float range=0.0 req=false>",
        "make a pool of copies, or of shards",
        "osd",
        "rw",
        create,
    ),
    row(
        "osd pool rm <pool:Poolname> <pool2:Poolname req=false> <yes_i_really_really_mean_it:Bool req=false> <yes_i_really_really_mean_it_not_faking:Bool req=false>",
        "delete a pool with all that is in it",
        "osd",
        "rw",
        delete,
    ),
    row(
        "osd pool delete <pool:Poolname> <pool2:Poolname req=false> <yes_i_really_really_mean_it:Bool req=false> <yes_i_really_really_mean_it_not_faking:Bool req=false>",
        "delete a pool with all that is in it",
        "osd",
        "rw",
        delete,
    ),
    row("osd pool rename <srcpool:Poolname> <destpool:Poolname>", "give a pool another name", "osd", "rw", rename),
    row("osd pool ls <detail:Choices req=false strings=detail>", "list the pools", "osd", "r", ls),
    row("osd pool mksnap <pool:Poolname> <snap:String>", "make a snapshot of a pool", "osd", "rw", mksnap),
    row("osd pool rmsnap <pool:Poolname> <snap:String>", "remove a snapshot of a pool", "osd", "rw", rmsnap),
    row(
        "osd pool set-quota <pool:Poolname> <field:Choices strings=max_objects|max_bytes> <val:String>",
        "bound what a pool may hold",
        "osd",
        "rw",
        set_quota,
    ),
    row("osd pool get-quota <pool:Poolname>", "show what a pool may hold", "osd", "r", get_quota),
    row(
        "osd pool application enable <pool:Poolname> <app:String goodchars=[A-Za-z0-9-_.]> <yes_i_really_mean_it:Bool req=false>",
        "tell what a pool is for",
        "osd",
        "rw",
        app_enable,
    ),
    row(
        "osd pool application disable <pool:Poolname> <app:String> <yes_i_really_mean_it:Bool req=false>",
        "take an application off a pool",
        "osd",
        "rw",
        app_disable,
    ),
    row(
        "osd pool application set <pool:Poolname> <app:String> <key:String goodchars=[A-Za-z0-9-_.]> <value:String goodchars=[A-Za-z0-9-_.=]>",
        "set a key of a pool's application",
        "osd",
        "rw",
        app_set,
    ),
    row(
        "osd pool application rm <pool:Poolname> <app:String> <key:String>",
        "remove a key of a pool's application",
        "osd",
        "rw",
        app_rm,
    ),
    row(
        "osd pool application get <pool:Poolname req=false> <app:String req=false> <key:String req=false>",
        "show what pools are for",
        "osd",
        "r",
        app_get,
    ),
    row("osd pool stats <pool_name:Poolname req=false>", "show what clients do in pools", "osd", "r", stats),
    row("osd pool scrub <who:Poolname n=N>", "scrub pools", "osd", "rw", |cx, a| scrub(cx, a, "scrub")),
    row("osd pool deep-scrub <who:Poolname n=N>", "deep-scrub pools", "osd", "rw", |cx, a| scrub(cx, a, "deep-scrub")),
    row("osd pool repair <who:Poolname n=N>", "repair pools", "osd", "rw", |cx, a| scrub(cx, a, "repair")),
];

fn create(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let name = args.str("pool");
    if args.opt("pool_type") == Some("erasure") {
        return create_erasure(cx, args);
    }
    if cx.state.pool_id(name).and_then(|id| cx.state.osdmap.pool(id)).is_some_and(Pool::is_erasure) {
        refuse!(EINVAL, "pool '{name}' cannot change to type replicated");
    }
    let (rule_name, objects) = rule_argument(args);
    let rule = match rule_name {
        None => None,
        Some(rule) => Some(existing_rule(cx, rule)?),
    };
    let mut wanted = wanted(args);
    wanted.rule = rule;
    wanted.expected_num_objects = objects.unwrap_or(wanted.expected_num_objects);
    if cx.state.pool_id(name).is_some() {
        return Ok(Reply::status(format!("pool '{name}' already exists")));
    }
    make(cx, &wanted)
}

/// Gives the number of the rule that an argument names, or refuses.
fn existing_rule(cx: &Cx<'_>, rule: &str) -> Result<u32, Refusal> {
    match cx.state.osdmap.crush.rule_id(rule) {
        Some(id) => Ok(id as u32),
        None => refuse!(ENOENT, "specified rule {rule} doesn't exist"),
    }
}

/// Reads from the arguments what they say of a pool of either kind, but for its rule.
fn wanted(args: &Args) -> Wanted {
    let number = |key: &str| args.int(key).map(|n| u32::try_from(n).unwrap_or(u32::MAX));
    let mut set = Vec::new();
    for (key, opt) in
        [("pg_num_min", opts::PG_NUM_MIN), ("pg_num_max", opts::PG_NUM_MAX), ("target_size_bytes", opts::TARGET_SIZE_BYTES)]
    {
        if let Some(n) = args.int(key).filter(|n| *n > 0) {
            set.push((opt, OptValue::Int(n)));
        }
    }
    if let Some(x) = args.float("target_size_ratio").filter(|x| *x > 0.0) {
        set.push((opts::TARGET_SIZE_RATIO, OptValue::Double(x)));
    }
    Wanted {
        name: args.str("pool").into(),
        pg_num: number("pg_num"),
        pgp_num: number("pgp_num"),
        size: number("size").filter(|n| *n > 0),
        expected_num_objects: args.int("expected_num_objects").unwrap_or(0).max(0) as u64,
        opts: set,
        bulk: args.flag("bulk"),
        autoscale: args.opt("autoscale_mode").and_then(mode::parse),
        ..Wanted::default()
    }
}

/// Makes a pool that is not there, and says if too few OSDs serve it.
fn make(cx: &mut Cx<'_>, wanted: &Wanted) -> Outcome {
    let ctx = ctx(cx);
    let id = ctx.create(cx.inc(), wanted)?;
    let made = cx.inc().new_pools.get(&id).cloned();
    let crush = changed_crush(&cx.state.osdmap, cx.inc())?;
    let barren = made.map_or(String::new(), |pool| barren(&cx.state.osdmap, &crush, &pool));
    Ok(Reply::status(format!("pool '{}' created{barren}", wanted.name)))
}

/// Makes a pool of shards, and its rule if it is not there, in one step. What is wrong with its profile is said first.
fn create_erasure(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let name = args.str("pool");
    match cx.state.pool_id(name).and_then(|id| cx.state.osdmap.pool(id)) {
        Some(pool) if pool.is_erasure() => return Ok(Reply::status(format!("pool '{name}' already exists"))),
        Some(_) => refuse!(EINVAL, "pool '{name}' cannot change to type erasure"),
        None => {}
    }
    // A rule that is not there is said first, as in Ceph.
    let rule = args.opt("rule").filter(|rule| !rule.is_empty()).map(|rule| existing_rule(cx, rule)).transpose()?;
    let of = args.opt("erasure_code_profile").filter(|p| !p.is_empty()).unwrap_or(erasure::DEFAULT);
    let profile = erasure::find(cx, of)?;
    if !effective::monitor_flag(cx.state, cx.env, "mon_allow_erasure") {
        refuse!(
            EOPNOTSUPP,
            "pool '{name}' is not made: erasure-coded pools are not supported yet, they come with a later release (its profile, k={} m={}, is one that they will take)",
            profile.k,
            profile.m
        );
    }
    let level = cx.state.osdmap.level;
    if !level.has(Feature::Erasure) {
        refuse!(
            EPERM,
            "erasure-coded pools are made from level {} on, and the cluster has level {level}",
            Feature::Erasure.level()
        );
    }
    let rule = match rule {
        Some(rule) => rule,
        // Ceph's names: pools of the default profile share a rule.
        None if of == erasure::DEFAULT => crush_rules::of_profile(cx, "erasure-code", &profile)?,
        None => crush_rules::of_profile(cx, name, &profile)?,
    };
    let wanted = Wanted { rule: Some(rule), shards: Some(erasure::shards(cx, of, &profile)?), ..wanted(args) };
    make(cx, &wanted)
}

/// The rule among the arguments. For replicated pools the fourth word may be a rule: its place is that of the erasure
/// code profile.
///
/// If both are there, what looks like the rule is the number of objects that are expected: `... replicated RULE 1000`.
fn rule_argument(args: &Args) -> (Option<&str>, Option<u64>) {
    let place = args.opt("erasure_code_profile").filter(|p| !p.is_empty() && *p != "default");
    match (place, args.opt("rule")) {
        (Some(rule), Some(number)) if number.parse::<u64>().is_ok() => (Some(rule), number.parse().ok()),
        (place, rule) => (rule.or(place), None),
    }
}

fn delete(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let name = args.str("pool");
    let Some(id) = cx.state.pool_id(name) else { return Ok(Reply::status(format!("pool '{name}' does not exist"))) };
    let sure = args.flag("yes_i_really_really_mean_it") || args.flag("yes_i_really_really_mean_it_not_faking");
    if args.str("pool2") != name || !sure {
        refuse!(
            EPERM,
            "WARNING: all data in pool {name} would be gone for good. To delete it, give its name twice and --yes-i-really-really-mean-it."
        );
    }
    let ctx = ctx(cx);
    ctx.delete(cx.inc(), id)?;
    Ok(Reply::status(format!("pool '{name}' removed")))
}

fn rename(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let (from, to) = (args.str("srcpool"), args.str("destpool"));
    match (cx.state.pool_id(from), cx.state.pool_id(to)) {
        (None, Some(_)) => {
            Ok(Reply::status(format!("pool '{from}' does not exist; pool '{to}' does -- assuming successful rename")))
        }
        (None, None) => refuse!(ENOENT, "unrecognized pool '{from}'"),
        (Some(_), Some(_)) => refuse!(EEXIST, "pool '{to}' already exists"),
        (Some(id), None) => {
            check_name(to)?;
            let to = to.to_string();
            cx.inc().new_pool_names.insert(id, to.clone());
            Ok(Reply::status(format!("pool '{from}' renamed to '{to}'")))
        }
    }
}

fn ls(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let map = &cx.state.osdmap;
    if args.opt("detail").is_none() {
        let names: Vec<&str> = map.pools.keys().map(|id| cx.state.pool_name(*id)).collect();
        return Ok(cx.show("pools", json!(names), || names.iter().map(|n| format!("{n}\n")).collect()));
    }
    let value = map
        .pools
        .iter()
        .map(|(id, p)| {
            let mut one = json!({"pool_id": id});
            if let (Value::Object(one), Value::Object(rest)) = (&mut one, pool_dump(map, *id, p)) {
                one.extend(rest.into_iter().filter(|(k, _)| k != "pool"));
            }
            one
        })
        .collect();
    Ok(cx.show("pools", value, || map.pools.iter().map(|(id, p)| pool_lines(map, *id, p)).collect::<String>() + "\n"))
}

fn mksnap(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let (pool, snap) = (cx.existing_pool(args, "pool")?, args.str("snap"));
    let ctx = ctx(cx);
    let mut inc = cx.inc().clone();
    if !ctx.make_snap(&mut inc, pool, snap)? {
        cx.osdmap = None;
        return Ok(Reply::status(format!("pool {} snap {snap} already exists", args.str("pool"))));
    }
    cx.osdmap = Some(inc);
    Ok(Reply::status(format!("created pool {} snap {snap}", args.str("pool"))))
}

fn rmsnap(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let (pool, snap) = (cx.existing_pool(args, "pool")?, args.str("snap"));
    let ctx = ctx(cx);
    let mut inc = cx.inc().clone();
    if !ctx.remove_snap(&mut inc, pool, snap)? {
        cx.osdmap = None;
        return Ok(Reply::status(format!("pool {} snap {snap} does not exist", args.str("pool"))));
    }
    cx.osdmap = Some(inc);
    Ok(Reply::status(format!("removed pool {} snap {snap}", args.str("pool"))))
}

fn set_quota(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let pool = cx.existing_pool(args, "pool")?;
    let (field, text) = (args.str("field"), args.str("val"));
    let value = match quota(text, field == "max_bytes") {
        Ok(value) => value,
        Err(why) => refuse!(EINVAL, "error parsing value '{text}': {why}"),
    };
    let ctx = ctx(cx);
    let p = ctx.edit(cx.inc(), pool)?;
    if field == "max_bytes" {
        p.quota_max_bytes = value;
    } else {
        p.quota_max_objects = value;
    }
    Ok(Reply::status(format!("set-quota {field} = {value} for pool {}", args.str("pool"))))
}

fn get_quota(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let id = cx.existing_pool(args, "pool")?;
    let p = &cx.state.osdmap.pools[&id];
    let sum = cx.soft.pool_sum(id);
    let (objects, data) = (sum.num_objects.max(0) as u64, sum.num_bytes.max(0) as u64);
    let name = args.str("pool");
    let value = json!({
        "pool_name": name,
        "pool_id": id,
        "quota_max_objects": p.quota_max_objects,
        "current_num_objects": objects,
        "quota_max_bytes": p.quota_max_bytes,
        "current_num_bytes": data,
    });
    Ok(cx.show("pool_quotas", value, || {
        let line = |max: u64, now: u64, unit: &str, what: &str, text: fn(u64) -> String| {
            if max == 0 { "N/A".to_string() } else { format!("{}{unit}  (current num {what}: {now} {what})", text(max)) }
        };
        format!(
            "quotas for pool '{name}':\n  max objects: {}\n  max bytes  : {}",
            line(p.quota_max_objects, objects, " objects", "objects", si),
            line(p.quota_max_bytes, data, "", "bytes", bytes)
        )
    }))
}

/// Most applications of a pool and most keys of each, as in Ceph.
const MOST_APPS: usize = 4;
const MOST_KEYS: usize = 64;

fn app_enable(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let (pool, app) = (cx.existing_pool(args, "pool")?, args.str("app").to_string());
    let name = args.str("pool");
    if app.is_empty() || app.len() > 128 {
        refuse!(EINVAL, "application name must be provided, of at most 128 characters");
    }
    let ctx = ctx(cx);
    let p = ctx.edit(cx.inc(), pool)?;
    if !p.application_metadata.contains_key(&app) {
        if !p.application_metadata.is_empty() && !args.flag("yes_i_really_mean_it") {
            refuse!(EPERM, "pool '{name}' already has an application; pass --yes-i-really-mean-it to add another");
        }
        if p.application_metadata.len() >= MOST_APPS {
            refuse!(EINVAL, "pool '{name}' already has {MOST_APPS} applications");
        }
        p.application_metadata.insert(app.clone(), Default::default());
    }
    Ok(Reply::status(format!("enabled application '{app}' on pool '{name}'")))
}

fn app_disable(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let (pool, app, name) = (cx.existing_pool(args, "pool")?, args.str("app"), args.str("pool"));
    if !args.flag("yes_i_really_mean_it") {
        refuse!(EPERM, "without its application pool '{name}' may be unusable for '{app}'; pass --yes-i-really-mean-it to go on");
    }
    let ctx = ctx(cx);
    ctx.edit(cx.inc(), pool)?.application_metadata.remove(app);
    Ok(Reply::status(format!("disable application '{app}' on pool '{name}'")))
}

fn with_app<'p>(p: &'p mut Pool, app: &str, name: &str) -> Result<&'p mut std::collections::BTreeMap<String, String>, Refusal> {
    match p.application_metadata.get_mut(app) {
        Some(keys) => Ok(keys),
        None => refuse!(ENOENT, "application '{app}' is not enabled on pool '{name}'"),
    }
}

fn app_set(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let (pool, app, name) = (cx.existing_pool(args, "pool")?, args.str("app"), args.str("pool"));
    let (key, value) = (args.str("key").to_string(), args.str("value").to_string());
    if key.is_empty() || key.len() > 128 || value.len() > 128 {
        refuse!(EINVAL, "keys and values of applications have at most 128 characters");
    }
    let ctx = ctx(cx);
    let keys = with_app(ctx.edit(cx.inc(), pool)?, app, name)?;
    if keys.len() >= MOST_KEYS && !keys.contains_key(&key) {
        refuse!(EINVAL, "application '{app}' on pool '{name}' already has {MOST_KEYS} keys");
    }
    let status = format!("set application '{app}' key '{key}' to '{value}' on pool '{name}'");
    keys.insert(key, value);
    Ok(Reply::status(status))
}

fn app_rm(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let (pool, app, name, key) = (cx.existing_pool(args, "pool")?, args.str("app"), args.str("pool"), args.str("key"));
    let ctx = ctx(cx);
    with_app(ctx.edit(cx.inc(), pool)?, app, name)?.remove(key);
    Ok(Reply::status(format!("removed application '{app}' key '{key}' on pool '{name}'")))
}

fn app_get(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let map = &cx.state.osdmap;
    if args.opt("pool").is_none() {
        let all: serde_json::Map<String, Value> =
            map.pools.iter().map(|(id, p)| (cx.state.pool_name(*id).to_string(), json!(p.application_metadata))).collect();
        return Ok(cx.structure("pools", &Value::Object(all)));
    }
    let id = cx.existing_pool(args, "pool")?;
    let apps = &map.pools[&id].application_metadata;
    let Some(app) = args.opt("app") else {
        let value = json!(apps);
        return Ok(cx.structure(args.str("pool"), &value));
    };
    let Some(keys) = apps.get(app) else { refuse!(ENOENT, "pool '{}' has no application '{app}'", args.str("pool")) };
    let Some(key) = args.opt("key") else {
        let value = json!(keys);
        return Ok(cx.structure("application", &value));
    };
    match keys.get(key) {
        Some(value) => Ok(Reply::data(format!("{value}\n"))),
        None => refuse!(ENOENT, "application '{app}' on pool '{}' does not have key '{key}'", args.str("pool")),
    }
}

fn rates_dump(r: &Rates) -> Value {
    let mut v = serde_json::Map::new();
    for (name, n) in [("read_bytes_sec", r.read_bytes), ("write_bytes_sec", r.write_bytes)] {
        if n > 0 {
            v.insert(name.into(), n.into());
        }
    }
    if !r.is_zero() {
        v.insert("read_op_per_sec".into(), r.read_ops.into());
        v.insert("write_op_per_sec".into(), r.write_ops.into());
    }
    Value::Object(v)
}

fn stats(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let only = args.opt("pool_name").map(|_| cx.existing_pool(args, "pool_name")).transpose()?;
    let ids: Vec<PoolId> = cx.state.osdmap.pools.keys().copied().filter(|id| only.is_none_or(|o| o == *id)).collect();
    let value = ids.iter().map(|id| stats_dump(cx, *id)).collect();
    let reply = cx.show("pool_stats", value, || ids.iter().map(|id| stats_text(cx, *id)).collect());
    let none = ids.is_empty() && !cx.format.is_structured();
    Ok(if none { reply.with_status("there are no pools!") } else { reply })
}

fn stats_dump(cx: &Cx<'_>, id: PoolId) -> Value {
    let (mut parts, mut pace) = (serde_json::Map::new(), serde_json::Map::new());
    recovery::dump_parts(&cx.soft.pool_sum(id), &mut parts);
    cx.soft.pace(Some(id)).dump(&mut pace);
    json!({
        "pool_name": cx.state.pool_name(id),
        "pool_id": id,
        "recovery": parts,
        "recovery_rate": pace,
        "client_io_rate": rates_dump(&cx.soft.rates(Some(id))),
    })
}

fn stats_text(cx: &Cx<'_>, id: PoolId) -> String {
    let (rates, pace) = (cx.soft.rates(Some(id)), cx.soft.pace(Some(id)));
    let mut lines: Vec<String> = recovery::parts(&cx.soft.pool_sum(id)).iter().map(recovery::Part::text).collect();
    if !pace.is_zero() {
        lines.push(format!("recovery io {}", pace.text()));
    }
    if !rates.is_zero() {
        lines.push(format!("client io {}", super::status::rate_line(&rates)));
    }
    if lines.is_empty() {
        lines.push("nothing is going on".into());
    }
    format!("pool {} id {id}\n  {}\n\n", cx.state.pool_name(id), lines.join("\n  "))
}

fn scrub(cx: &mut Cx<'_>, args: &Args, what: &str) -> Outcome {
    let mut told = Vec::new();
    for name in args.list("who") {
        let Some(id) = cx.state.pool_id(name) else { refuse!(ENOENT, "unrecognized pool '{name}'") };
        let groups: Vec<_> = manager::soft::all_pgs(cx.state).filter(|pg| pg.pool == id).collect();
        for pg in groups {
            super::pg::instruct_scrub(cx, pg, what != "scrub", what == "repair");
        }
        told.push(name.clone());
    }
    let pools = told.join(", ");
    cx.log.push((log_level::INFO, format!("{what} of pool(s) {pools} was asked for")));
    Ok(Reply::status(format!("scheduled {what} of pool(s) {pools}")))
}
