//! Commands on states of OSDs: up and down, in and out, flags.

use super::{Cx, Row, row};
use grammar::{Args, Outcome, Reply, parse_osd, refuse, units::number};
use maps::{OsdMap, flags, state as bits};
use messages::mon::log_level;
use monstate::osds::mark_down;
use std::collections::BTreeMap;
use types::OsdId;

pub(super) const ROWS: &[Row] = &[
    row("osd out <ids:String n=N>", "take OSDs out: they get no data", "osd", "rw", out),
    row("osd in <ids:String n=N>", "take OSDs in: they get data", "osd", "rw", in_),
    row(
        "osd down <ids:String n=N> <definitely_dead:Bool req=false>",
        "mark OSDs down; those that run come back",
        "osd",
        "rw",
        down,
    ),
    row("osd stop <ids:String n=N>", "mark OSDs down, and let them not come back by themselves", "osd", "rw", stop),
    row(
        "osd set <key:Choices strings=full|pause|noup|nodown|noout|noin|nobackfill|norebalance|norecover|noscrub|nodeep-scrub|notieragent|nosnaptrim|pglog_hardlimit> <yes_i_really_mean_it:Bool req=false>",
        "set a flag of the cluster",
        "osd",
        "rw",
        set,
    ),
    row(
        "osd unset <key:Choices strings=full|pause|noup|nodown|noout|noin|nobackfill|norebalance|norecover|noscrub|nodeep-scrub|notieragent|nosnaptrim>",
        "clear a flag of the cluster",
        "osd",
        "rw",
        unset,
    ),
    row("osd pause", "hold all reads and writes", "osd", "rw", pause),
    row("osd unpause", "let reads and writes go on", "osd", "rw", unpause),
    row("osd set-group <flags:String> <who:String n=N>", "set flags of OSDs, buckets or classes", "osd", "rw", set_group),
    row("osd unset-group <flags:String> <who:String n=N>", "clear flags of OSDs, buckets or classes", "osd", "rw", unset_group),
    row("osd add-noup <ids:String n=N>", "keep OSDs from being marked up", "osd", "rw", |cx, a| flag_osds(cx, a, "noup", true)),
    row("osd add-nodown <ids:String n=N>", "keep OSDs from being marked down", "osd", "rw", |cx, a| {
        flag_osds(cx, a, "nodown", true)
    }),
    row("osd add-noin <ids:String n=N>", "keep OSDs from being marked in", "osd", "rw", |cx, a| flag_osds(cx, a, "noin", true)),
    row("osd add-noout <ids:String n=N>", "keep OSDs from being marked out", "osd", "rw", |cx, a| {
        flag_osds(cx, a, "noout", true)
    }),
    row("osd rm-noup <ids:String n=N>", "let OSDs be marked up again", "osd", "rw", |cx, a| flag_osds(cx, a, "noup", false)),
    row("osd rm-nodown <ids:String n=N>", "let OSDs be marked down again", "osd", "rw", |cx, a| {
        flag_osds(cx, a, "nodown", false)
    }),
    row("osd rm-noin <ids:String n=N>", "let OSDs be marked in again", "osd", "rw", |cx, a| flag_osds(cx, a, "noin", false)),
    row("osd rm-noout <ids:String n=N>", "let OSDs be marked out again", "osd", "rw", |cx, a| flag_osds(cx, a, "noout", false)),
    row(
        "osd reweight <id:OsdName> <weight:Float range=0.0|1.0>",
        "let an OSD keep only a fraction of its groups",
        "osd",
        "rw",
        reweight,
    ),
    row(
        "osd reweightn <weights:String>",
        "the same for many OSDs: JSON of number and weight in 65536ths",
        "osd",
        "rw",
        reweightn,
    ),
    row(
        "osd primary-affinity <id:OsdName> <weight:Float range=0.0|1.0>",
        "set how willing an OSD is to be primary",
        "osd",
        "rw",
        affinity,
    ),
];

/// Parses a list of OSDs: numbers, `osd.N`, `any`, `all`, `*`. Each comes once.
pub(super) fn named(map: &OsdMap, ids: &[String]) -> Result<Vec<OsdId>, super::Refusal> {
    let mut osds = Vec::new();
    for id in ids {
        if matches!(id.as_str(), "any" | "all" | "*") {
            return Ok(map.osds().collect());
        }
        match parse_osd(id) {
            Some(osd) if osds.contains(&osd) => {}
            Some(osd) => osds.push(osd),
            None => refuse!(EINVAL, "invalid osd id '{id}'"),
        }
    }
    Ok(osds)
}

/// Does something to each named OSD that exists, and names those that do not.
fn each(cx: &mut Cx<'_>, args: &Args, mut act: impl FnMut(&mut Cx<'_>, OsdId) -> String) -> Outcome {
    let mut status = String::new();
    for osd in named(&cx.state.osdmap, args.list("ids"))? {
        if cx.state.osdmap.exists(osd) {
            status.push_str(&act(cx, osd));
        } else {
            status.push_str(&format!("osd.{osd} does not exist. "));
        }
    }
    Ok(Reply::status(status))
}

fn out(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    each(cx, args, |cx, osd| {
        let map = cx.state.osdmap.clone();
        if map.weight(osd) == 0 {
            return format!("osd.{osd} is already out. ");
        }
        let who = cx.asker.name.clone();
        let now = cx.now.wall;
        let inc = cx.inc();
        inc.new_weight.insert(osd, 0);
        inc.new_last_in_change = now;
        if let Some(x) = map.osd_xinfo.get(osd as usize).filter(|x| x.old_weight > 0) {
            inc.new_xinfo.insert(osd, maps::OsdXInfo { old_weight: 0, ..*x });
        }
        cx.log.push((
            log_level::INFO,
            format!(
                "Client {who} marked osd.{osd} out, while it was still marked {}",
                if map.is_up(osd) { "up" } else { "down" }
            ),
        ));
        format!("marked out osd.{osd}. ")
    })
}

fn in_(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    each(cx, args, |cx, osd| {
        let map = cx.state.osdmap.clone();
        if map.weight(osd) > 0 {
            return format!("osd.{osd} is already in. ");
        }
        let old = map.osd_xinfo.get(osd as usize).map_or(0, |x| x.old_weight);
        let now = cx.now.wall;
        let inc = cx.inc();
        inc.new_weight.insert(osd, if old > 0 { old } else { crush::ONE });
        inc.new_last_in_change = now;
        format!("marked in osd.{osd}. ")
    })
}

fn down(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    each(cx, args, |cx, osd| {
        if !cx.state.osdmap.is_up(osd) {
            return format!("osd.{osd} is already down. ");
        }
        let (now, map) = (cx.now, cx.state.osdmap.clone());
        mark_down(&map, cx.inc(), osd, now);
        format!("marked down osd.{osd}. ")
    })
}

fn stop(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    each(cx, args, |cx, osd| {
        let (up, now) = (cx.state.osdmap.is_up(osd), cx.now);
        if !up {
            return format!("osd.{osd} is already down. ");
        }
        let map = cx.state.osdmap.clone();
        let inc = cx.inc();
        mark_down(&map, inc, osd, now);
        *inc.new_state.entry(osd).or_default() ^= bits::STOP;
        format!("stop down osd.{osd}. ")
    })
}

fn bit_of(key: &str) -> u32 {
    match key {
        "pause" => flags::PAUSERD | flags::PAUSEWR,
        _ => flags::NAMES.iter().find(|(_, name)| *name == key).map_or(0, |(bit, _)| *bit),
    }
}

fn set(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let key = args.str("key");
    if key == "pglog_hardlimit" && !args.flag("yes_i_really_mean_it") {
        refuse!(EPERM, "the flag pglog_hardlimit is always set in this cluster");
    }
    flip(cx, key, true)
}

fn unset(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    flip(cx, args.str("key"), false)
}

fn pause(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    flip(cx, "pause", true)
}

fn unpause(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    flip(cx, "pause", false)
}

fn flip(cx: &mut Cx<'_>, key: &str, on: bool) -> Outcome {
    let (bit, current) = (bit_of(key), cx.state.osdmap.flags);
    let wanted = if on { current | bit } else { current & !bit };
    let name = if key == "pause" { "pauserd,pausewr" } else { key };
    if wanted != current {
        cx.inc().new_flags = wanted as i32;
    }
    Ok(Reply::status(format!("{name} is {}", if on { "set" } else { "unset" })))
}

fn osd_bits(list: &str) -> Result<u32, super::Refusal> {
    let mut all = 0;
    for name in list.split(',').map(str::trim).filter(|n| !n.is_empty()) {
        all |= match name {
            "noup" => bits::NOUP,
            "nodown" => bits::NODOWN,
            "noin" => bits::NOIN,
            "noout" => bits::NOOUT,
            other => refuse!(EINVAL, "unrecognized flag '{other}'; only noup, nodown, noin and noout can be set for a group"),
        };
    }
    if all == 0 {
        refuse!(EINVAL, "must specify flag(s) {{noup,nodown,noin,noout}} to set/unset");
    }
    Ok(all)
}

fn set_group(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    group(cx, osd_bits(args.str("flags"))?, args.list("who"), true)
}

fn unset_group(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    group(cx, osd_bits(args.str("flags"))?, args.list("who"), false)
}

fn flag_osds(cx: &mut Cx<'_>, args: &Args, flag: &str, on: bool) -> Outcome {
    group(cx, osd_bits(flag)?, args.list("ids"), on)
}

fn group(cx: &mut Cx<'_>, set: u32, who: &[String], on: bool) -> Outcome {
    let map = cx.state.osdmap.clone();
    let crush = &map.crush;
    // Who may be marked up again may do so after 'osd stop', too.
    let also = if set & bits::NOUP != 0 { bits::STOP } else { 0 };
    let change = |old: u32| if on { old | set } else { old & !(set | also) };
    let mut state: BTreeMap<OsdId, u32> = BTreeMap::new();
    for name in who {
        if matches!(name.as_str(), "any" | "all" | "*") {
            state.extend(map.osds().map(|o| (o, map.state(o) ^ change(map.state(o)))));
        } else if let Some(osd) = parse_osd(name) {
            if !map.exists(osd) {
                refuse!(ENOENT, "osd.{osd} does not exist");
            }
            state.insert(osd, map.state(osd) ^ change(map.state(osd)));
        } else if let Some(node) = crush.id_of(name).filter(|id| *id < 0) {
            let old = map.crush_node_flags.get(&node).copied().unwrap_or(0);
            cx.inc().new_crush_node_flags.insert(node, change(old));
        } else if let Some(class) = crush.class_id(name) {
            let old = map.device_class_flags.get(&class).copied().unwrap_or(0);
            cx.inc().new_device_class_flags.insert(class, change(old));
        } else {
            refuse!(EINVAL, "'{name}' is neither an OSD nor a bucket nor a device class");
        }
    }
    state.retain(|_, flip| *flip != 0);
    if !state.is_empty() {
        cx.inc().new_state.extend(state);
    }
    Ok(Reply::default())
}

/// A fraction from 0 to 1 in 65536ths.
fn fixed(x: f64) -> u32 {
    (x * f64::from(crush::ONE)) as u32
}

fn reweight(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let osd = cx.existing_osd(args, "id")?;
    let weight = args.float("weight").unwrap_or(1.0);
    set_weight(cx, osd, fixed(weight));
    Ok(Reply::status(format!("reweighted osd.{osd} to {} ({:x})", number(weight), fixed(weight))))
}

fn set_weight(cx: &mut Cx<'_>, osd: OsdId, weight: u32) {
    let was = cx.state.osdmap.is_in(osd);
    let now = cx.now.wall;
    let inc = cx.inc();
    inc.new_weight.insert(osd, weight);
    if was != (weight > 0) {
        inc.new_last_in_change = now;
    }
}

fn reweightn(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let Ok(weights) = serde_json::from_str::<BTreeMap<String, serde_json::Value>>(args.str("weights")) else {
        refuse!(EINVAL, "weights must be a JSON object of OSD number and weight in 65536ths");
    };
    let mut parsed = Vec::new();
    for (osd, weight) in &weights {
        let number = weight.as_u64().or_else(|| weight.as_str()?.parse().ok()).filter(|w| *w <= crush::ONE.into());
        match (parse_osd(osd).filter(|o| cx.state.osdmap.exists(*o)), number) {
            (Some(osd), Some(weight)) => parsed.push((osd, weight as u32)),
            (None, _) => refuse!(ENOENT, "osd.{osd} does not exist"),
            (_, None) => refuse!(EINVAL, "weight {weight} of osd.{osd} is not a number from 0 to {}", crush::ONE),
        }
    }
    parsed.into_iter().for_each(|(osd, weight)| set_weight(cx, osd, weight));
    Ok(Reply::status("reweighted item(s)"))
}

fn affinity(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let osd = cx.existing_osd(args, "id")?;
    let weight = args.float("weight").unwrap_or(1.0);
    cx.inc().new_primary_affinity.insert(osd, fixed(weight));
    Ok(Reply::status(format!("set osd.{osd} primary-affinity to {} ({:x})", number(weight), fixed(weight))))
}
