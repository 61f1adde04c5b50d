//! Commands that make and remove OSDs, fence clients, set ratios and releases, and place groups by hand.

use super::osd_secrets::Secrets;
use super::shared::{existing_pg, parse_release, release_name};
use super::{Cx, Row, row};
use grammar::{Args, Outcome, Refusal, Reply, parse_addr, parse_osd, refuse, units::number};
use maps::{OsdMap, state as bits};
use monstate::effective;
use monstate::osds::MAX_OSDS;
use monstate::osds::set_text;
use monstate::pools;
use monstate::state::Change;
use serde_json::json;
use types::{EntityAddr, Fsid, OsdId, PgId, UTime};

/// OSDs that wait for their first boot beside which none is made by who may do nothing else.
const UNBORN: usize = 256;

pub(super) const ROWS: &[Row] = &[
    row(
        "osd new <uuid:UUID> <id:OsdName req=false>",
        "make an OSD with this identity, or find the one that has it",
        "osd",
        "rw",
        new,
    ),
    row("osd create <uuid:UUID req=false> <id:OsdName req=false>", "make an OSD (before 'osd new')", "osd", "rw", new),
    row("osd rm <ids:String n=N>", "remove OSDs that are down from the map", "osd", "rw", rm),
    row("osd setmaxosd <newmax:Int range=0>", "set how many OSDs there may be", "osd", "rw", setmaxosd),
    row(
        "osd blocklist <range:String goodchars=[range] req=false> <blocklistop:Choices strings=add|rm> <addr:EntityAddr> <expire:Float range=0.0 req=false>",
        "fence a client, or with 'range' all clients of a range of addresses, or let them in again",
        "osd",
        "rw",
        blocklist,
    ),
    row(
        "osd blacklist <blacklistop:Choices strings=add|rm> <addr:EntityAddr> <expire:Float range=0.0 req=false>",
        "the former name of 'osd blocklist'",
        "osd",
        "rw",
        blocklist,
    ),
    row("osd blocklist clear", "let all fenced clients in again", "osd", "rw", blocklist_clear),
    row("osd blacklist clear", "the former name of 'osd blocklist clear'", "osd", "rw", blocklist_clear),
    row("osd set-full-ratio <ratio:Float range=0.0|1.0>", "set the fill level at which writes stop", "osd", "rw", |cx, a| {
        ratio(cx, a, "full")
    }),
    row(
        "osd set-backfillfull-ratio <ratio:Float range=0.0|1.0>",
        "set the fill level at which moved data is refused",
        "osd",
        "rw",
        |cx, a| ratio(cx, a, "backfillfull"),
    ),
    row(
        "osd set-nearfull-ratio <ratio:Float range=0.0|1.0>",
        "set the fill level at which health warns",
        "osd",
        "rw",
        |cx, a| ratio(cx, a, "nearfull"),
    ),
    row(
        "osd set-require-min-compat-client <version:String> <yes_i_really_mean_it:Bool req=false>",
        "set the oldest release of clients that is let in",
        "osd",
        "rw",
        min_compat,
    ),
    row(
        "osd require-osd-release <release:Choices strings=luminous|mimic|nautilus|octopus|pacific> <yes_i_really_mean_it:Bool req=false>",
        "set the oldest release of OSDs that is let in",
        "osd",
        "rw",
        require_release,
    ),
    row("osd pg-temp <pgid:Pgid> <id:OsdName n=N req=false>", "let other OSDs act for a group", "osd", "rw", pg_temp),
    row("osd primary-temp <pgid:Pgid> <id:OsdName>", "let another OSD lead a group", "osd", "rw", primary_temp),
    row("osd pg-upmap <pgid:Pgid> <id:OsdName n=N>", "place a group by hand", "osd", "rw", upmap),
    row("osd rm-pg-upmap <pgid:Pgid>", "place a group by rule again", "osd", "rw", rm_upmap),
    row(
        "osd pg-upmap-items <pgid:Pgid> <id:OsdName n=N>",
        "replace OSDs of a group: pairs of from and to",
        "osd",
        "rw",
        upmap_items,
    ),
    row("osd rm-pg-upmap-items <pgid:Pgid>", "replace no OSDs of a group", "osd", "rw", rm_upmap_items),
];

fn new(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let map = cx.state.osdmap.clone();
    let uuid = args.str("uuid").parse::<Fsid>().unwrap_or_default();
    let wanted = args.opt("id").map(|_| args.osd("id")).transpose()?;
    let has_uuid = uuid != Fsid::default();
    let of_uuid = map.osds().find(|o| has_uuid && map.osd_uuid.get(*o as usize) == Some(&uuid));
    let told = |osd: OsdId| Reply::data(format!("{osd}\n"));
    let secrets = if has_uuid { Secrets::parse(&cx.input)? } else { None };
    if let Some(osd) = of_uuid {
        if wanted.is_some_and(|w| w != osd) {
            refuse!(EEXIST, "uuid {uuid} already in use for different id {osd}");
        }
        if secrets.map(|s| s.changes(cx, osd, uuid)).transpose()?.is_some_and(|changes| !changes.is_empty()) {
            refuse!(EEXIST, "osd.{osd} exists without these secrets");
        }
        return Ok(cx.show("created_osd", json!({"osdid": osd}), || format!("{osd}\n")));
    }
    let osd = match wanted {
        Some(osd) if map.exists(osd) && map.state(osd) & bits::DESTROYED == 0 => {
            refuse!(EINVAL, "id {osd} already in use and does not match uuid {uuid}")
        }
        Some(osd) => osd,
        None => (0..=map.max_osd).find(|o| !map.exists(*o)).unwrap_or(map.max_osd),
    };
    if osd >= MAX_OSDS {
        refuse!(EINVAL, "numbers of OSDs are below {MAX_OSDS}");
    }
    // Who may only make OSDs makes the map of all clients no longer than OSDs do that begin to serve.
    if !cx.asker.governs_osds {
        if osd > map.max_osd {
            refuse!(EINVAL, "osd.{osd} leaves numbers out: the next one is {}", map.max_osd);
        }
        let waiting = map.osds().filter(|osd| map.state(*osd) & bits::NEW != 0 && !map.is_up(*osd)).count();
        if waiting >= UNBORN {
            refuse!(EDQUOT, "{waiting} OSDs were made and never booted: `osd purge-new` takes them away");
        }
    }
    if let Some(secrets) = secrets {
        let changes = secrets.changes(cx, osd, uuid)?;
        cx.changes.extend(changes);
    }
    let state = map.state(osd);
    let inc = cx.inc();
    if osd >= map.max_osd {
        inc.new_max_osd = osd + 1;
    }
    // A number that is used again is that of a new OSD, which comes in when it boots.
    let used = bits::DESTROYED | state & bits::STOP | !state & bits::NEW;
    inc.new_state.insert(osd, if state & bits::EXISTS == 0 { bits::EXISTS | bits::NEW } else { used });
    if state & bits::EXISTS != 0 {
        // Whatever its store has learnt of the cluster before it may boot.
        inc.new_lost.insert(osd, map.epoch);
    }
    if has_uuid {
        inc.new_uuid.insert(osd, uuid);
    }
    let structured = cx.format.is_structured();
    Ok(if structured { cx.structure("created_osd", &json!({"osdid": osd})) } else { told(osd) })
}

fn rm(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let map = cx.state.osdmap.clone();
    let mut status = String::new();
    for osd in super::osd_state::named(&map, args.list("ids"))? {
        if !map.exists(osd) {
            status.push_str(&format!("osd.{osd} does not exist. "));
        } else if map.is_up(osd) {
            refuse!(EBUSY, "osd.{osd} is still up; must be down before removal. ");
        } else {
            erase(cx, osd);
            status.push_str(&format!("removed osd.{osd} "));
        }
    }
    Ok(Reply::status(status.trim_end().to_string()))
}

/// Takes an OSD out of the map.
pub(super) fn erase(cx: &mut Cx<'_>, osd: OsdId) {
    let (state, epoch) = (cx.state.osdmap.state(osd), cx.state.osdmap.epoch);
    let inc = cx.inc();
    // Another OSD may get the number. Groups then know that its store is not the one that members of earlier intervals had: that it knows
    // nothing of them proves nothing.
    inc.new_lost.insert(osd, epoch);
    inc.new_state.insert(osd, state);
    inc.new_weight.insert(osd, 0);
    cx.changes.push(Change::OsdMetadata { osd, metadata: None });
}

fn setmaxosd(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let n = args.int("newmax").unwrap_or(0);
    if n > i64::from(MAX_OSDS) {
        refuse!(ERANGE, "there may be at most {MAX_OSDS} OSDs, not {n}");
    }
    let n = n as i32;
    if let Some(osd) = cx.state.osdmap.osds().find(|o| *o >= n) {
        refuse!(EBUSY, "max_osd cannot be {n}: osd.{osd} exists");
    }
    cx.inc().new_max_osd = n;
    Ok(Reply::status(format!("set new max_osd = {n}")))
}

/// Parses an address as the blocklist names clients, without protocol, or a range of addresses.
fn fenced(args: &Args) -> Result<EntityAddr, Refusal> {
    let text = args.str("addr");
    let Some(addr) = parse_addr(text) else { refuse!(EINVAL, "unable to parse address {text}") };
    if args.opt("range").is_none() {
        return Ok(EntityAddr { kind: types::AddrType::Any, ..addr });
    }
    let bits = match addr.addr {
        Some(net) if net.port() == 0 && addr.nonce != 0 => {
            if net.is_ipv4() {
                32
            } else {
                128
            }
        }
        _ => {
            // An address without a protocol is one of msgr2.
            let kind = if addr.kind == types::AddrType::Any { types::AddrType::Msgr2 } else { addr.kind };
            let addr = EntityAddr { kind, ..addr };
            refuse!(EINVAL, "You specified a range command, but {addr} does not parse as a CIDR range")
        }
    };
    if addr.nonce > bits {
        refuse!(EINVAL, "Too many bits in range for that protocol!");
    }
    Ok(EntityAddr { kind: types::AddrType::Cidr, ..addr })
}

fn blocklist(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let op = args.opt("blocklistop").or(args.opt("blacklistop")).unwrap_or_default();
    let addr = fenced(args)?;
    let range = addr.kind == types::AddrType::Cidr;
    let map = &cx.state.osdmap;
    let listed = if range { &map.range_blocklist } else { &map.blocklist }.contains_key(&addr);
    let text = if range { addr.to_string() } else { addr.legacy_str() };
    if op == "rm" {
        if !listed {
            return Ok(Reply::status(format!("{text} isn't blocklisted")));
        }
        let inc = cx.inc();
        if range { &mut inc.old_range_blocklist } else { &mut inc.old_blocklist }.push(addr);
        return Ok(Reply::status(format!("un-blocklisting {text}")));
    }
    let default = effective::monitor_number(cx.state, cx.env, "mon_osd_blocklist_default_expire");
    let secs = args.float("expire").unwrap_or(default);
    let until = pools::after(cx.now.wall, secs);
    if !listed {
        cx.soft.fences.has_room(map, (!cx.asker.governs_osds).then_some(&cx.asker.name))?;
        let inc = cx.inc();
        if range { &mut inc.new_range_blocklist } else { &mut inc.new_blocklist }.insert(addr, until);
    }
    Ok(Reply::status(format!("blocklisting {text} until {} ({} sec)", until.iso(), number(secs))))
}

fn blocklist_clear(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    let map = &cx.state.osdmap;
    let all: Vec<EntityAddr> = map.blocklist.keys().copied().collect();
    let ranges: Vec<EntityAddr> = map.range_blocklist.keys().copied().collect();
    if !all.is_empty() || !ranges.is_empty() {
        let inc = cx.inc();
        inc.old_blocklist = all;
        inc.old_range_blocklist = ranges;
    }
    Ok(Reply::status(" removed all blocklist entries"))
}

/// The fenced clients, and until when: clients first, then ranges of addresses.
fn all_fenced(map: &OsdMap) -> Vec<(String, UTime)> {
    let ranges = map.range_blocklist.iter().map(|(range, until)| (range.to_string(), *until));
    map.blocklist.iter().map(|(addr, until)| (addr.legacy_str(), *until)).chain(ranges).collect()
}

/// Lists the blocklist; the table of `osd_dump` uses it.
pub(super) fn blocklist_ls(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    let list: Vec<(String, UTime)> = all_fenced(&cx.state.osdmap);
    let value = list.iter().map(|(a, until)| json!({"addr": a, "until": until.iso()})).collect();
    let reply = cx.show("blocklist", value, || list.iter().map(|(a, until)| format!("{a} {}\n", until.iso())).collect());
    Ok(reply.with_status(format!("listed {} entries", list.len())))
}

fn ratio(cx: &mut Cx<'_>, args: &Args, which: &str) -> Outcome {
    let x = args.float("ratio").unwrap_or(0.0) as f32;
    let inc = cx.inc();
    match which {
        "full" => inc.new_full_ratio = x,
        "backfillfull" => inc.new_backfillfull_ratio = x,
        _ => inc.new_nearfull_ratio = x,
    }
    Ok(Reply::status(format!("osd set-{which}-ratio {}", number(x.into()))))
}

fn min_compat(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let release = parse_release(args.str("version"))?;
    let name = release_name(release);
    if release < 12 && (!cx.state.osdmap.pg_upmap_items.is_empty() || !cx.state.osdmap.pg_upmap.is_empty()) {
        refuse!(EPERM, "the map has upmap entries, which clients of {name} do not understand");
    }
    if release > monstate::context::RELEASE_NUMBER {
        refuse!(
            EINVAL,
            "this cluster speaks at the level of {}; no client of {name} would be let in",
            monstate::context::RELEASE
        );
    }
    cx.inc().new_require_min_compat_client = release;
    Ok(Reply::status(format!("set require_min_compat_client to {name}")))
}

fn require_release(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let release = parse_release(args.str("release"))?;
    let current = cx.state.osdmap.require_osd_release;
    if release < current {
        refuse!(EINVAL, "require_osd_release cannot be lowered once it has been set");
    }
    if release > current {
        cx.inc().new_require_osd_release = release;
    }
    Ok(Reply::default())
}

fn osd_list(cx: &Cx<'_>, args: &Args) -> Result<Vec<OsdId>, Refusal> {
    let mut osds = Vec::new();
    for name in args.list("id") {
        match parse_osd(name).filter(|o| cx.state.osdmap.exists(*o)) {
            Some(osd) => osds.push(osd),
            None => refuse!(ENOENT, "osd.{name} does not exist"),
        }
    }
    Ok(osds)
}

fn pg_temp(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let (pg, osds) = (existing_pg(cx, args)?, osd_list(cx, args)?);
    if !osds.is_empty() {
        check_positions(cx, pg, osds.len())?;
    }
    let status = match osds.is_empty() {
        true => format!("done cleaning up pg_temp of {pg}"),
        false => format!("set {pg} pg_temp mapping to {}", set_text(&osds)),
    };
    cx.inc().new_pg_temp.insert(pg, osds);
    Ok(Reply::status(status))
}

fn primary_temp(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let (pg, osd) = (existing_pg(cx, args)?, cx.existing_osd(args, "id")?);
    cx.inc().new_primary_temp.insert(pg, osd);
    Ok(Reply::status(format!("set {pg} primary_temp mapping to {osd}")))
}

fn check_size(cx: &Cx<'_>, pg: PgId, n: usize) -> Result<(), Refusal> {
    let (least, most) = cx.state.osdmap.pools.get(&pg.pool).map_or((0, 0), |p| (usize::from(p.min_size), usize::from(p.size)));
    if n < least {
        refuse!(EINVAL, "num of osds ({n}) < pool min size ({least})");
    }
    if n > most {
        refuse!(EINVAL, "num of osds ({n}) > pool size ({most})");
    }
    check_positions(cx, pg, n)
}

/// Refuses a list of OSDs that leaves positions of an erasure-coded pool unnamed.
fn check_positions(cx: &Cx<'_>, pg: PgId, n: usize) -> Result<(), Refusal> {
    match cx.state.osdmap.pool(pg.pool) {
        Some(pool) if pool.is_erasure() && n != usize::from(pool.size) => {
            refuse!(EINVAL, "num of osds ({n}) is not pool size ({}): each shard has its place", pool.size)
        }
        _ => Ok(()),
    }
}

fn upmap(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let (pg, osds) = (existing_pg(cx, args)?, osd_list(cx, args)?);
    check_size(cx, pg, osds.len())?;
    let text = set_text(&osds);
    cx.inc().new_pg_upmap.insert(pg, osds);
    Ok(Reply::status(format!("set {pg} pg_upmap mapping to {text}")))
}

fn rm_upmap(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let pg = existing_pg(cx, args)?;
    cx.inc().old_pg_upmap.insert(pg);
    Ok(Reply::status(format!("clear {pg} pg_upmap mapping")))
}

fn upmap_items(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let (pg, osds) = (existing_pg(cx, args)?, osd_list(cx, args)?);
    if osds.is_empty() || !osds.len().is_multiple_of(2) {
        refuse!(EINVAL, "you must specify pairs of OSDs");
    }
    let pairs: Vec<(OsdId, OsdId)> = osds.chunks(2).map(|c| (c[0], c[1])).collect();
    let text: Vec<String> = pairs.iter().map(|(a, b)| format!("{a}->{b}")).collect();
    cx.inc().new_pg_upmap_items.insert(pg, pairs);
    Ok(Reply::status(format!("set {pg} pg_upmap_items mapping to [{}]", text.join(","))))
}

fn rm_upmap_items(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let pg = existing_pg(cx, args)?;
    cx.inc().old_pg_upmap_items.insert(pg);
    Ok(Reply::status(format!("clear {pg} pg_upmap_items mapping")))
}
