//! Commands on images that the manager serves: figures by image, tasks, schedules.

use super::{Ask, Cx, Row, Run, row};
use grammar::{Args, Outcome, Reply, refuse};
use manager::desk::{Action, DEFAULT_POOL, Kind as Schedule, Order, Plan};
use manager::figures::{FIGURES, Kind, Spec};
use std::collections::BTreeMap;

pub(super) const ROWS: &[Row] = &[
    row(
        "rbd perf image stats <pool_spec:String req=false> <sort_by:Choices req=false strings=write_ops|write_bytes|write_latency|read_ops|read_bytes|read_latency>",
        "show what clients do to images, by second",
        "mgr",
        "r",
        |cx, args| figures(cx, args, Kind::Stats),
    ),
    row(
        "rbd perf image counters <pool_spec:String req=false> <sort_by:Choices req=false strings=write_ops|write_bytes|write_latency|read_ops|read_bytes|read_latency>",
        "show what clients did to images since somebody began to look",
        "mgr",
        "r",
        |cx, args| figures(cx, args, Kind::Counters),
    ),
    order("rbd task add flatten <image_spec:String>", "make a clone independent of its parent, in the background", "w", |args| {
        add(args, Action::Flatten)
    }),
    order("rbd task add remove <image_spec:String>", "remove an image, in the background", "w", |args| add(args, Action::Remove)),
    order("rbd task add trash remove <image_id_spec:String>", "remove an image from the trash, in the background", "w", |args| {
        Order::Add(Action::TrashRemove, args.str("image_id_spec").into())
    }),
    order(
        "rbd task add migration execute <image_spec:String>",
        "copy an image that is being migrated to where it moves, in the background",
        "w",
        |args| add(args, Action::MigrationExecute),
    ),
    order(
        "rbd task add migration commit <image_spec:String>",
        "end a migration: the source goes, in the background",
        "w",
        |args| add(args, Action::MigrationCommit),
    ),
    order(
        "rbd task add migration abort <image_spec:String>",
        "give a migration up: the source is what it was, in the background",
        "w",
        |args| add(args, Action::MigrationAbort),
    ),
    order("rbd task list <task_id:String req=false>", "list background tasks of images", "r", |args| {
        Order::List(args.opt("task_id").map(str::to_owned))
    }),
    order("rbd task cancel <task_id:String>", "cancel a background task of an image", "r", |args| {
        Order::Cancel(args.str("task_id").into())
    }),
    order(
        "rbd trash purge schedule add <level_spec:String> <interval:String> <start_time:String req=false>",
        "purge the trash on a schedule",
        "w",
        |args| plan(args, Schedule::Purge, add_to_schedule(args)),
    ),
    order(
        "rbd trash purge schedule remove <level_spec:String> <interval:String req=false> <start_time:String req=false>",
        "remove a schedule of trash purges",
        "w",
        |args| plan(args, Schedule::Purge, remove_from_schedule(args)),
    ),
    order("rbd trash purge schedule list <level_spec:String req=false>", "list schedules of trash purges", "r", |args| {
        plan(args, Schedule::Purge, Plan::List)
    }),
    order("rbd trash purge schedule status <level_spec:String req=false>", "show when trash is purged next", "r", |args| {
        plan(args, Schedule::Purge, Plan::Status)
    }),
    order(
        "rbd mirror snapshot schedule add <level_spec:String> <interval:String> <start_time:String req=false>",
        "make mirror snapshots on a schedule",
        "w",
        |args| plan(args, Schedule::Mirror, add_to_schedule(args)),
    ),
    order(
        "rbd mirror snapshot schedule remove <level_spec:String> <interval:String req=false> <start_time:String req=false>",
        "remove a schedule of mirror snapshots",
        "w",
        |args| plan(args, Schedule::Mirror, remove_from_schedule(args)),
    ),
    order("rbd mirror snapshot schedule list <level_spec:String req=false>", "list schedules of mirror snapshots", "r", |args| {
        plan(args, Schedule::Mirror, Plan::List)
    }),
    order(
        "rbd mirror snapshot schedule status <level_spec:String req=false>",
        "show when mirror snapshots are made next",
        "r",
        |args| plan(args, Schedule::Mirror, Plan::Status),
    ),
];

/// Makes a row whose command the manager carries out.
const fn order(sig: &'static str, help: &'static str, perm: &'static str, order: fn(&Args) -> Order) -> Row {
    Row { sig, help, module: "mgr", perm, run: Run::Order(order) }
}

fn add(args: &Args, action: Action) -> Order {
    Order::Add(action, args.str("image_spec").into())
}

fn plan(args: &Args, kind: Schedule, plan: Plan) -> Order {
    Order::Schedule(kind, args.opt("level_spec").unwrap_or_default().into(), plan)
}

fn add_to_schedule(args: &Args) -> Plan {
    Plan::Add { interval: args.str("interval").into(), start: args.opt("start_time").map(str::to_owned) }
}

fn remove_from_schedule(args: &Args) -> Plan {
    let text = |name: &str| args.opt(name).map(str::to_owned);
    Plan::Remove { interval: text("interval"), start: text("start_time") }
}

/// The pool and namespace that a command on images names, for capabilities.
pub fn place_of_images(args: &Args) -> BTreeMap<String, String> {
    let texts = args.texts();
    let spec = ["pool_spec", "level_spec", "image_spec", "image_id_spec"].iter().find_map(|name| texts.get(*name));
    let mut parts = spec.map_or("", String::as_str).splitn(3, '/');
    let first = parts.next().unwrap_or_default();
    // In POOL/X, X is a namespace or an image. An image alone is in the default pool.
    let image_alone =
        spec.is_some_and(|s| !s.contains('/')) && ["image_spec", "image_id_spec"].iter().any(|name| texts.contains_key(*name));
    let pool = if image_alone { DEFAULT_POOL } else { first };
    let second = parts.next().filter(|_| texts.contains_key("pool_spec") || parts.next().is_some());
    let mut place = BTreeMap::new();
    if !pool.is_empty() {
        place.insert("pool".to_string(), pool.to_string());
        place.insert("namespace".to_string(), second.unwrap_or_default().to_string());
    }
    place
}

fn figures(cx: &mut Cx<'_>, args: &Args, kind: Kind) -> Outcome {
    let spec = Spec::parse(args.opt("pool_spec").unwrap_or_default())?;
    if let Some((pool, _)) = &spec.0
        && cx.state.pool_id(pool).is_none()
    {
        refuse!(ENOENT, "[errno 2] RADOS object not found (Pool '{pool}' not found)");
    }
    let sort_by = args.opt("sort_by").unwrap_or(FIGURES[0]);
    let answer = cx.duties.images.answer(cx.state, cx.now, &spec, kind, sort_by);
    cx.asks.push(Ask::Look(spec));
    Ok(Reply::data(answer.to_string() + "\n"))
}
