//! What the manager knows of images: figures by image, and work on images. It does no such work by itself (`refused` says so), so
//! those lists are empty.

use super::args::Args;
use super::{Ask, Cx, Outcome, Reply, Row, refuse, row};
use crate::manager::images::{FIGURES, Kind, Spec};
use serde_json::json;
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
    row("rbd task list <task_id:String req=false>", "list background tasks of images", "mgr", "r", tasks),
    row("rbd task cancel <task_id:String>", "cancel a background task of an image", "mgr", "r", cancel),
    row("rbd trash purge schedule list <level_spec:String req=false>", "list schedules of trash purges", "mgr", "r", |_, _| {
        Ok(Reply::data("{}"))
    }),
    row(
        "rbd trash purge schedule status <level_spec:String req=false>",
        "show when trash is purged next",
        "mgr",
        "r",
        |cx, _| Ok(cx.structure("schedules", &json!({"scheduled": []}))),
    ),
    row(
        "rbd trash purge schedule remove <level_spec:String> <interval:String req=false> <start_time:String req=false>",
        "remove a schedule of trash purges",
        "mgr",
        "w",
        no_schedule,
    ),
    row(
        "rbd mirror snapshot schedule list <level_spec:String req=false>",
        "list schedules of mirror snapshots",
        "mgr",
        "r",
        |_, _| Ok(Reply::data("{}")),
    ),
    row(
        "rbd mirror snapshot schedule status <level_spec:String req=false>",
        "show when mirror snapshots are made next",
        "mgr",
        "r",
        |cx, _| Ok(cx.structure("schedules", &json!({"scheduled_images": []}))),
    ),
    row(
        "rbd mirror snapshot schedule remove <level_spec:String> <interval:String req=false> <start_time:String req=false>",
        "remove a schedule of mirror snapshots",
        "mgr",
        "w",
        no_schedule,
    ),
];

/// The pool and namespace that a command on images names, for capabilities.
pub(crate) fn place_of_images(args: &Args) -> BTreeMap<String, String> {
    let texts = args.texts();
    let spec = ["pool_spec", "level_spec", "image_spec", "image_id_spec"].iter().find_map(|name| texts.get(*name));
    let mut parts = spec.map_or("", String::as_str).splitn(3, '/');
    let pool = parts.next().unwrap_or_default();
    // Of POOL/X, X is a namespace or an image.
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
    let answer = cx.soft.images.answer(cx.state, cx.now, &spec, kind, sort_by);
    cx.asks.push(Ask::Look(spec));
    Ok(Reply::data(answer.to_string()))
}

fn tasks(_: &mut Cx<'_>, args: &Args) -> Outcome {
    match args.opt("task_id") {
        Some(id) => refuse!(ENOENT, "No such task {id}"),
        None => Ok(Reply::data("[]")),
    }
}

fn cancel(_: &mut Cx<'_>, args: &Args) -> Outcome {
    refuse!(ENOENT, "No such task {}", args.str("task_id"))
}

fn no_schedule(_: &mut Cx<'_>, args: &Args) -> Outcome {
    refuse!(ENOENT, "no schedule is set for {}", args.str("level_spec"))
}
