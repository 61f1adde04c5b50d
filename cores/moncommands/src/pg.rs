//! Commands on placement groups: where they are, how they are, scrubs.

use super::shared::existing_pg;
use super::{Cx, Row, row};
use grammar::Args;
use grammar::units::{bytes, si};
use grammar::{Outcome, Refusal, Reply, refuse};
use manager::recovery;
use manager::soft::Rates;
use monstate::osds::set_text;
use serde_json::{Map, Value, json};
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
    row(
        "pg debug <debugop:Choices strings=unfound_objects_exist|degraded_pgs_exist>",
        "answer a question about all placement groups",
        "pg",
        "r",
        debug,
    ),
];

fn stat(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    let value = json!({"pg_ready": true, "pg_summary": summary(cx)});
    Ok(cx.show("pg_info", value, || line(cx)))
}

fn summary(cx: &Cx<'_>) -> Map<String, Value> {
    let states = cx.soft.pg_states(cx.state);
    let pgs: u64 = states.iter().map(|(_, n)| n).sum();
    let (sum, space) = (cx.soft.total(), cx.soft.total_space(cx.state));
    let used = space.total.saturating_sub(space.available);
    let mut map = Map::new();
    let by_state: Vec<Value> = states.iter().map(|(s, n)| json!({"name": s.to_string(), "num": n})).collect();
    map.insert("num_pg_by_state".into(), by_state.into());
    for (name, n) in [
        ("num_pgs", pgs),
        ("num_bytes", sum.num_bytes.max(0).cast_unsigned()),
        ("total_bytes", space.total),
        ("total_avail_bytes", space.available),
        ("total_used_bytes", used),
        ("total_used_raw_bytes", used),
    ] {
        map.insert(name.into(), n.into());
    }
    let rates = cx.soft.rates(None);
    let shown = [
        ("read_bytes_sec", rates.read_bytes),
        ("write_bytes_sec", rates.write_bytes),
        ("io_sec", rates.read_ops + rates.write_ops),
    ];
    map.extend(shown.into_iter().filter(|(_, n)| *n > 0).map(|(name, n)| (name.to_string(), n.into())));
    recovery::dump_parts(&sum, &mut map);
    cx.soft.pace(None).dump(&mut map);
    map
}

/// The line of `pg stat`.
fn line(cx: &Cx<'_>) -> String {
    let states = cx.soft.pg_states(cx.state);
    let pgs: u64 = states.iter().map(|(_, n)| n).sum();
    let (sum, space) = (cx.soft.total(), cx.soft.total_space(cx.state));
    let list: Vec<String> = states.iter().map(|(s, n)| format!("{n} {s}")).collect();
    let mut parts = vec![format!(
        "{pgs} pgs: {}; {} data, {} used, {} / {} avail",
        list.join(", "),
        bytes(sum.num_bytes.max(0).cast_unsigned()),
        bytes(space.total.saturating_sub(space.available)),
        bytes(space.available),
        bytes(space.total)
    )];
    let rates = cx.soft.rates(None);
    if !rates.is_zero() {
        parts.push(brief_rates(&rates));
    }
    parts.extend(recovery::parts(&sum).iter().map(recovery::Part::text));
    let pace = cx.soft.pace(None);
    if !pace.is_zero() {
        parts.push(format!("{} recovering", pace.text()));
    }
    parts.join("; ") + "\n"
}

/// `20 MiB/s wr, 323 op/s`
fn brief_rates(rates: &Rates) -> String {
    let mut parts = Vec::new();
    if rates.read_bytes > 0 {
        parts.push(format!("{}/s rd", bytes(rates.read_bytes)));
    }
    if rates.write_bytes > 0 {
        parts.push(format!("{}/s wr", bytes(rates.write_bytes)));
    }
    parts.push(format!("{} op/s", si(rates.read_ops + rates.write_ops)));
    parts.join(", ")
}

fn map(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let text = args.str("pgid");
    let Ok(raw) = text.parse::<PgId>() else { refuse!(EINVAL, "invalid pgid '{text}'") };
    let Some(pg) = cx.state.osdmap.fold(raw) else { refuse!(ENOENT, "pg '{text}' does not exist") };
    let at = cx.state.osdmap.up_acting(pg);
    let epoch = cx.state.osdmap.epoch;
    let value = json!({"epoch": epoch, "raw_pgid": raw.to_string(), "pgid": pg.to_string(), "up": at.up, "acting": at.acting});
    Ok(cx.show("pg_map", value, || {
        format!("osdmap e{epoch} pg {raw} ({pg}) -> up {} acting {}\n", set_text(&at.up), set_text(&at.acting))
    }))
}

/// Gives the OSD that leads a placement group and is up, or refuses.
pub(super) fn primary(cx: &Cx<'_>, pg: PgId) -> Result<OsdId, Refusal> {
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
        let prefix = match (repair, deep) {
            (true, _) => "repair",
            (false, true) => "deep_scrub",
            (false, false) => "scrub",
        };
        cx.instruct.push((osd, json!({"prefix": prefix, "pgid": pg.to_string()})));
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
            manager::soft::all_pgs(cx.state).filter(|pg| cx.state.osdmap.placed(*pg).acting_primary == osd).collect();
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

fn debug(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let sum = cx.soft.total();
    let exist = match args.str("debugop") {
        "unfound_objects_exist" => sum.num_objects_unfound > 0,
        _ => sum.num_objects_degraded > 0,
    };
    let value: Value = json!(exist);
    Ok(cx.show("debug", value, || if exist { "TRUE\n".into() } else { "FALSE\n".into() }))
}
