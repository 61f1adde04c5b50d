//! Commands on placement groups: where they are, how they are, scrubs.

use super::osd_admin::existing_pg;
use super::{Cx, Row, row};
use crate::answer::{Outcome, Refusal, Reply, refuse};
use crate::text::units::bytes;
use grammar::Args;
use serde_json::{Value, json};
use types::{OsdId, PgId};

pub(super) const ROWS: &[Row] = &[
    row("pg stat", "show how many placement groups are in which state", "pg", "r", stat),
    row("pg map <pgid:Pgid>", "show where a placement group is", "pg", "r", map),
    row("pg scrub <pgid:Pgid>", "scrub a placement group", "pg", "rw", |cx, a| scrub(cx, a, "scrub")),
    row("pg deep-scrub <pgid:Pgid>", "deep-scrub a placement group", "pg", "rw", |cx, a| scrub(cx, a, "deep-scrub")),
    row("pg repair <pgid:Pgid>", "repair a placement group", "pg", "rw", |cx, a| scrub(cx, a, "repair")),
    row("pg repeer <pgid:Pgid>", "let a placement group peer again", "osd", "rw", repeer),
    row("osd scrub <who:String>", "scrub all placement groups that an OSD leads", "osd", "rw", |cx, a| scrub_osd(cx, a, "scrub")),
    row("osd deep-scrub <who:String>", "deep-scrub all placement groups that an OSD leads", "osd", "rw", |cx, a| {
        scrub_osd(cx, a, "deep-scrub")
    }),
    row("osd repair <who:String>", "repair all placement groups that an OSD leads", "osd", "rw", |cx, a| {
        scrub_osd(cx, a, "repair")
    }),
    row("pg force-recovery <pgid:Pgid n=N>", "recover placement groups first", "pg", "rw", force),
    row("pg force-backfill <pgid:Pgid n=N>", "backfill placement groups first", "pg", "rw", force),
    row("pg cancel-force-recovery <pgid:Pgid n=N>", "recover placement groups in their turn", "pg", "rw", force),
    row("pg cancel-force-backfill <pgid:Pgid n=N>", "backfill placement groups in their turn", "pg", "rw", force),
    row(
        "pg debug <debugop:Choices strings=unfound_objects_exist|degraded_pgs_exist>",
        "answer a question about all placement groups",
        "pg",
        "r",
        debug,
    ),
];

/// A list of OSDs: `[0,2]`
pub(super) fn set_text(osds: &[OsdId]) -> String {
    let names: Vec<String> = osds.iter().map(|o| if *o == crush::NONE { "NONE".into() } else { o.to_string() }).collect();
    format!("[{}]", names.join(","))
}

fn stat(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    let states = cx.soft.pg_states(cx.state);
    let pgs: u64 = states.iter().map(|(_, n)| n).sum();
    let sum = cx.soft.total();
    let space = cx.soft.total_space(cx.state);
    let used = space.total.saturating_sub(space.available);
    let data = sum.num_bytes.max(0) as u64;
    let value = json!({
        "pg_ready": true,
        "pg_summary": {
            "num_pg_by_state": states.iter().map(|(s, n)| json!({"name": s.to_string(), "num": n})).collect::<Vec<_>>(),
            "num_pgs": pgs,
            "num_bytes": data,
            "raw_bytes_used": used,
            "raw_bytes_avail": space.available,
            "raw_bytes": space.total,
        },
    });
    let rates = cx.soft.rates(None);
    Ok(cx.show("pg_stat", value, || {
        let list: Vec<String> = states.iter().map(|(s, n)| format!("{n} {s}")).collect();
        let mut line = format!(
            "{pgs} pgs: {}; {} data, {} used, {} / {} avail",
            list.join(", "),
            bytes(data),
            bytes(used),
            bytes(space.available),
            bytes(space.total)
        );
        if !rates.is_zero() {
            line.push_str(&format!("; {}", super::status::rate_line(&rates)));
        }
        line + "\n"
    }))
}

fn map(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let text = args.str("pgid");
    let Ok(raw) = text.parse::<PgId>() else { refuse!(EINVAL, "invalid pgid '{text}'") };
    let Some(pg) = cx.state.osdmap.fold(raw) else { refuse!(ENOENT, "there is no pool {}", raw.pool) };
    let at = cx.state.osdmap.up_acting(pg);
    let epoch = cx.state.osdmap.epoch;
    let value = json!({"epoch": epoch, "raw_pgid": raw.to_string(), "pgid": pg.to_string(), "up": at.up, "acting": at.acting});
    Ok(cx.show("pg_map", value, || {
        format!("osdmap e{epoch} pg {raw} ({pg}) -> up {} acting {}\n", set_text(&at.up), set_text(&at.acting))
    }))
}

/// Gives the OSD that leads a placement group and is up, or refuses.
fn primary(cx: &Cx<'_>, pg: PgId) -> Result<OsdId, Refusal> {
    let osd = cx.state.osdmap.placed(pg).acting_primary;
    if osd < 0 {
        refuse!(EAGAIN, "pg {pg} has no primary osd");
    }
    if !cx.state.osdmap.is_up(osd) {
        refuse!(EAGAIN, "pg {pg} primary osd.{osd} is not up");
    }
    Ok(osd)
}

/// Asks the OSD that leads a placement group to scrub it. Does nothing if no OSD leads it.
pub(super) fn instruct_scrub(cx: &mut Cx<'_>, pg: PgId, deep: bool, repair: bool) {
    if let Ok(osd) = primary(cx, pg) {
        cx.instruct.push((osd, json!({"prefix": "scrub", "pgid": pg.to_string(), "deep": deep, "repair": repair})));
    }
}

fn scrub(cx: &mut Cx<'_>, args: &Args, what: &str) -> Outcome {
    let pg = existing_pg(cx, args)?;
    let osd = primary(cx, pg)?;
    instruct_scrub(cx, pg, what != "scrub", what == "repair");
    let told = json!({"pgid": pg.to_string(), "osd": osd, "what": what});
    let format = cx.format;
    let text = format!("instructing pg {pg} on osd.{osd} to {what}");
    Ok(if format.is_structured() { cx.structure("scrub", &told).with_status(text) } else { Reply::status(text) })
}

fn scrub_osd(cx: &mut Cx<'_>, args: &Args, what: &str) -> Outcome {
    let osds = super::osd_state::named(&cx.state.osdmap, &[args.str("who").to_string()])?;
    let mut told = Vec::new();
    for osd in osds {
        if !cx.state.osdmap.is_up(osd) {
            refuse!(EAGAIN, "osd.{osd} is not up");
        }
        let led: Vec<PgId> =
            crate::soft::all_pgs(cx.state).filter(|pg| cx.state.osdmap.placed(*pg).acting_primary == osd).collect();
        led.into_iter().for_each(|pg| instruct_scrub(cx, pg, what != "scrub", what == "repair"));
        told.push(osd.to_string());
    }
    Ok(Reply::status(format!("instructed osd(s) {} to {what}", told.join(","))))
}

fn repeer(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let pg = existing_pg(cx, args)?;
    let osd = primary(cx, pg)?;
    cx.instruct.push((osd, json!({"prefix": "repeer", "pgid": pg.to_string()})));
    Ok(Reply::status(format!("instructing pg {pg} on osd.{osd} to repeer")))
}

fn force(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    for name in args.list("pgid") {
        let known = name.parse::<PgId>().ok().and_then(|pg| cx.state.osdmap.pools.get(&pg.pool).filter(|p| pg.seed < p.pg_num));
        if known.is_none() {
            refuse!(ENOENT, "pg {name} does not exist");
        }
    }
    // Placement groups of one copy never recover.
    Ok(Reply::status(format!("pg(s) {} have nothing to recover", args.list("pgid").join(", "))))
}

fn debug(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let sum = cx.soft.total();
    let exist = match args.str("debugop") {
        "unfound_objects_exist" => sum.num_objects_unfound > 0,
        _ => sum.num_objects_degraded > 0,
    };
    let value: Value = json!(exist);
    Ok(cx.show("debug", value, || if exist { "TRUE\n".into() } else { "FALSE\n".into() }))
}
