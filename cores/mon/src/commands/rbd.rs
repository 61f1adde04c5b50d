//! What the manager knows of work on images. It does none by itself (`refused` says so), so its lists are empty.

use super::args::Args;
use super::{Cx, Outcome, Reply, Row, refuse, row};
use serde_json::json;

pub(super) const ROWS: &[Row] = &[
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
