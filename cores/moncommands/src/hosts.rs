//! Commands on hosts: which there are, whether one can go, how far its data has gone, and its end.

use super::osd_spare::{Need, drop_keys, list};
use super::{Ask, Cx, Row, row};
use denc::Encode;
use grammar::{Args, Outcome, Refusal, Reply, Table, refuse, units};
use manager::soft::all_pgs;
use maps::OsdMap;
use messages::mon::log_level;
use monstate::hosts::{self, Host};
use monstate::state::State;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use types::{Errno, OsdId, PgId, PgState, PoolId};

pub(super) const ROWS: &[Row] = &[
    row("nacre host ls", "list the hosts and what runs on them", "mon", "r", ls),
    row("nacre host ok-to-leave <host:String>", "check whether a host can be spared for good", "mon", "r", ok_to_leave),
    row(
        "nacre host hand-over <host:String>",
        "let another monitor vote in place of that of a host that is about to go",
        "mon",
        "rw",
        hand_over,
    ),
    row("nacre host drain-status <host:String>", "show what data of a host is not elsewhere yet", "mon", "r", drain_status),
    row(
        "nacre osd drain-status <id:OsdName>",
        "show what data of an OSD is not elsewhere yet, and whether it can be",
        "mon",
        "r",
        osd_drain_status,
    ),
    row("nacre host duties <host:String>", "show which monitors a host is to run, and where all are", "mon", "r", duties),
    row(
        "nacre host rm <host:String> <yes_i_really_mean_it:Bool req=false> <data_is_lost:Bool req=false>",
        "remove a host that is stopped, with its OSDs and monitors",
        "mon",
        "rw",
        rm,
    ),
];

/// Returns a host that is there.
pub(super) fn existing(cx: &Cx<'_>, name: &str) -> Result<Host, Refusal> {
    let mut all = hosts::all(cx.state, &cx.env.config);
    match all.remove(name) {
        Some(host) => Ok(host),
        None => {
            let names: Vec<String> = all.into_keys().collect();
            refuse!(ENOENT, "there is no host {name}; there are: {}", names.join(", "))
        }
    }
}

/// Returns what runs of a host, in a word.
pub(super) fn standing(cx: &Cx<'_>, host: &Host) -> &'static str {
    let (up, _) = host.counts(cx.state);
    let heard = host.mons.iter().filter(|m| cx.env.standing.heard.contains(m)).count();
    match (up + heard, host.osds.len() + host.mons.len()) {
        (0, _) => "down",
        (here, all) if here < all => "partly up",
        _ => "up",
    }
}

fn ls(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    let all = hosts::all(cx.state, &cx.env.config);
    let rows: Vec<Value> = all.iter().map(|(name, host)| described(cx, name, host)).collect();
    Ok(cx.show("hosts", json!(rows), || {
        let mut table = Table::simple(&["HOST", "ADDRESSES", "STATUS", "MONITORS", "OSDS", ">UP", ">IN"]);
        for (name, host) in &all {
            let (up, inside) = host.counts(cx.state);
            let dash = |text: String| if text.is_empty() { "-".to_owned() } else { text };
            let (addrs, mons, osds) = (dash(host.addresses()), dash(host.mons.join(",")), dash(list(&host.osds)));
            table.row(vec![name.clone(), addrs, standing(cx, host).into(), mons, osds, up.to_string(), inside.to_string()]);
        }
        table.render()
    }))
}

fn described(cx: &Cx<'_>, name: &str, host: &Host) -> Value {
    let (up, inside) = host.counts(cx.state);
    let addrs: Vec<String> = host.addrs.iter().map(ToString::to_string).collect();
    json!({
        "host": name, "addrs": addrs, "status": standing(cx, host), "mons": host.mons, "osds": host.osds, "up": up, "in": inside,
    })
}

fn ok_to_leave(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let name = args.str("host");
    let host = existing(cx, name)?;
    if cx.soft.pg_states(cx.state).iter().any(|(s, _)| s.is_unknown()) {
        refuse!(EAGAIN, "not all placement groups were reported yet; ask again");
    }
    let majority = Majority::without(cx, &host);
    let ends = matches!(majority, Majority::Ends).then(|| no_majority(&host, cx));
    let why: Vec<String> = [ends, too_few_copies(cx.state, &host.osds), no_space(cx, &host.osds)].into_iter().flatten().collect();
    if !why.is_empty() {
        refuse!(EBUSY, "{}", why.join("; "));
    }
    let passes = match majority {
        Majority::Passes { heir } => format!("; mon.{heir} votes and leads in place of mon.{} then", host.mons.join(", mon.")),
        Majority::Stays | Majority::Ends => String::new(),
    };
    Ok(Reply::status(format!("{name} can leave{passes}")))
}

/// Fate of the monitors' majority when those of a host stop, before they are removed.
enum Majority {
    /// The others are one, and decide.
    Stays,
    /// This one only learns as yet, or is about to take the vote over: it must, before the host's monitor stops.
    Passes { heir: String },
    /// Nobody could decide anything.
    Ends,
}

impl Majority {
    fn without(cx: &Cx<'_>, host: &Host) -> Self {
        let (standing, here) = (&cx.env.standing, |mon: &String| host.mons.contains(mon));
        let names: Vec<&str> = host.mons.iter().map(String::as_str).collect();
        if names.is_empty() || standing.without(&names, false).is_ok() {
            return Self::Stays;
        }
        // One votes alone. That two do is so for a moment only, while the vote passes from one to the other.
        let heir = standing.heard.iter().find(|mon| !here(mon)).filter(|_| standing.voters.len() <= 2);
        heir.map_or(Self::Ends, |heir| Self::Passes { heir: heir.clone() })
    }
}

/// That the monitors could not go on without those of a host.
fn no_majority(host: &Host, cx: &Cx<'_>) -> String {
    let voters = cx.env.standing.voters.join(", ");
    format!("without mon.{} no majority of the monitors would be left (those that vote: {voters})", host.mons.join(", mon."))
}

/// One step of it: asked again and again, it is done when another monitor decides without those of this host.
fn hand_over(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let name = args.str("host");
    let host = existing(cx, name)?;
    let heir = match Majority::without(cx, &host) {
        Majority::Stays => None,
        Majority::Passes { heir } => Some(heir),
        Majority::Ends => refuse!(EBUSY, "{}", no_majority(&host, cx)),
    };
    if heir.is_some() && cx.env.standing.leader.as_ref().is_some_and(|leader| host.mons.contains(leader)) {
        cx.asks.push(Ask::HandOver);
    }
    let status = match &heir {
        None => format!("the monitors decide without {name}"),
        Some(heir) => format!("mon.{heir} is about to vote and lead in place of mon.{}", host.mons.join(", mon.")),
    };
    let value = json!({"host": name, "done": heir.is_none(), "heir": heir});
    Ok(Reply { status, ..cx.structure("hand_over", &value) })
}

/// The map as it would be with these OSDs in, or out.
fn weighed(map: &OsdMap, osds: &[OsdId], weight: u32) -> OsdMap {
    let mut map = map.clone();
    for at in osds.iter().filter_map(|o| usize::try_from(*o).ok()) {
        if let Some(w) = map.osd_weight.get_mut(at) {
            *w = weight;
        }
    }
    map.forget_placements();
    map
}

/// Returns why pools would have too few copies without some OSDs.
fn too_few_copies(state: &State, osds: &[OsdId]) -> Option<String> {
    let (with, without) = (weighed(&state.osdmap, osds, crush::ONE), weighed(&state.osdmap, osds, 0));
    let places = |map: &OsdMap, pg: PgId| map.compute_up_acting(pg).up.into_iter().filter(|o| *o != crush::NONE).count();
    let mut short: BTreeMap<PoolId, (usize, usize)> = BTreeMap::new();
    for pg in all_pgs(state) {
        let left = places(&without, pg);
        let size = state.osdmap.pool(pg.pool).map_or(0, |p| usize::from(p.size));
        if left < size && left < places(&with, pg) {
            let (n, least) = short.entry(pg.pool).or_insert((0, left));
            (*n, *least) = (*n + 1, left.min(*least));
        }
    }
    let one = |(pool, (n, least)): (PoolId, (usize, usize))| {
        let size = state.osdmap.pool(pool).map_or(0, |p| p.size);
        format!("{n} groups of pool '{}' would find {least} places for {size} copies", state.pool_name(pool))
    };
    let text: Vec<String> = short.into_iter().map(one).collect();
    (!text.is_empty()).then(|| format!("{}: add a host or OSDs first, or lower `size`", text.join(", ")))
}

/// Returns why the data of some OSDs would not fit on the others.
fn no_space(cx: &Cx<'_>, osds: &[OsdId]) -> Option<String> {
    let map = &cx.state.osdmap;
    let used = |osd: &OsdId| cx.soft.space(*osd).data;
    let moves: u64 = osds.iter().map(used).sum();
    let others = map.osds().filter(|o| !osds.contains(o) && map.is_in(*o) && map.is_up(*o));
    let room = |osd: OsdId| {
        let space = cx.soft.space(osd);
        let limit = (space.total as f64 * f64::from(map.backfillfull_ratio)) as u64;
        limit.saturating_sub(space.total.saturating_sub(space.available))
    };
    let room: u64 = others.map(room).sum();
    (moves > room).then(|| format!("it holds {}, and the others can take {}", units::bytes(moves), units::bytes(room)))
}

/// Part of a host's data that is not elsewhere yet.
#[derive(Default)]
struct Left {
    pgs: u64,
    objects: u64,
    bytes: u64,
}

impl Left {
    fn of(cx: &Cx<'_>, osds: &[OsdId]) -> Self {
        let mut left = Self::default();
        for pg in all_pgs(cx.state) {
            let placed = cx.state.osdmap.placed(pg);
            let here: BTreeSet<OsdId> = placed.acting.iter().chain(&placed.up).copied().filter(|o| osds.contains(o)).collect();
            if here.is_empty() {
                continue;
            }
            left.pgs += 1;
            let Some(soft) = cx.soft.pgs.get(&pg) else { continue };
            let stats = &soft.report.stats;
            let all = stats.num_objects.max(0) as u64 * here.len() as u64;
            let away = (stats.num_objects_misplaced.max(0) + stats.num_objects_degraded.max(0)) as u64;
            let objects = if away > 0 { away.min(all) } else { all };
            let each = stats.num_bytes.max(0) as u64 / (stats.num_objects.max(1) as u64);
            left.objects += objects;
            left.bytes += objects.saturating_mul(each);
        }
        left
    }
}

fn drain_status(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let name = args.str("host");
    let host = existing(cx, name)?;
    let left = Left::of(cx, &host.osds);
    let why = match Need::of(cx, &host.osds) {
        Ok(need) => need.why().map(|(_, why)| why),
        Err(refusal) => Some(refusal.text),
    };
    let map = &cx.state.osdmap;
    let osds: Vec<Value> = host.osds.iter().map(|o| json!({"osd": o, "up": map.is_up(*o), "in": map.is_in(*o)})).collect();
    let value = json!({
        "host": name, "osds": osds, "mons": host.mons, "pgs": left.pgs, "objects": left.objects, "bytes": left.bytes,
        "safe": why.is_none(), "why": why.unwrap_or_default(),
    });
    Ok(cx.structure("drain", &value))
}

/// The same for one OSD; and what would become of it if it went at once, or why its data cannot go elsewhere.
fn osd_drain_status(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let osd = args.osd("id")?;
    let map = &cx.state.osdmap;
    if !map.exists(osd) {
        refuse!(ENOENT, "osd.{osd} does not exist");
    }
    let (up, inside, osds) = (map.is_up(osd), map.is_in(osd), [osd]);
    let (left, risk) = (Left::of(cx, &osds), risk(cx, &osds));
    let stopped = super::osd_spare::without(cx, osd);
    let lost = stopped.is_some() || risk.as_ref().is_some_and(|risk| risk.missed);
    let words: Vec<String> = risk.iter().map(|risk| risk.text.clone()).chain(stopped).collect();
    let cannot: Vec<String> = [too_few_copies(cx.state, &osds), no_space(cx, &osds)].into_iter().flatten().collect();
    let value = json!({
        "osd": osd, "up": up, "in": inside, "pgs": left.pgs, "objects": left.objects, "bytes": left.bytes,
        "safe": risk.is_none(), "unknown": risk.as_ref().is_some_and(|risk| risk.unknown),
        "why": risk.map(|risk| risk.text).unwrap_or_default(), "lost": lost, "risk": words.join(". "), "cannot": cannot.join("; "),
    });
    Ok(cx.structure("drain", &value))
}

/// Returns what the process of a host asks now and then.
fn duties(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let name = args.str("host");
    let listed = hosts::all(cx.state, &cx.env.config).remove(name).unwrap_or_default().mons;
    let given = hosts::seats(cx.state).into_iter().filter(|(_, host)| host == name).map(|(mon, _)| mon);
    let mons: BTreeSet<String> = listed.into_iter().chain(given).collect();
    let value = json!({"mons": mons, "monitors": super::join::monitors(cx.state)});
    Ok(cx.structure("duties", &value))
}

/// Data that may be lost with some OSDs: in words, and whether it is lost for sure or already missed.
struct Risk {
    text: String,
    /// Some data is on no OSD that can be reached.
    missed: bool,
    /// Not all was reported yet: the next answer may be another one.
    unknown: bool,
}

/// Returns what would be lost; none if everything is elsewhere.
fn risk(cx: &Cx<'_>, osds: &[OsdId]) -> Option<Risk> {
    let why = match Need::of(cx, osds) {
        Ok(need) => need.why()?,
        Err(refusal) => (refusal.errno, refusal.text),
    };
    let (errno, why) = why;
    let serves = |pg: PgId| {
        let state = cx.soft.pg_state(cx.state, pg);
        state.has(PgState::ACTIVE) && !state.has(PgState::STALE)
    };
    let mut idle: BTreeMap<PoolId, u64> = BTreeMap::new();
    all_pgs(cx.state).filter(|pg| !serves(*pg)).for_each(|pg| *idle.entry(pg.pool).or_default() += 1);
    let unfound = cx.soft.total().num_objects_unfound.max(0);
    let mut text = vec![why.trim_end().trim_end_matches('.').to_owned()];
    if !idle.is_empty() {
        let pools: Vec<String> = idle.iter().map(|(pool, n)| format!("{n} of pool '{}'", cx.state.pool_name(*pool))).collect();
        text.push(format!("groups that serve nobody now, perhaps for want of it: {}", pools.join(", ")));
    }
    if unfound > 0 {
        text.push(format!("{unfound} objects are found nowhere"));
    }
    let missed = !idle.is_empty() || unfound > 0;
    Some(Risk { text: text.join(". "), missed, unknown: !missed && errno == Errno::EAGAIN })
}

fn rm(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let name = args.str("host").to_owned();
    let host = match existing(cx, &name) {
        Ok(host) => host,
        Err(_) if cx.state.osdmap.crush.id_of(&name).is_some() => Host::default(),
        Err(refusal) => return Err(refusal),
    };
    if host.runs(cx.state, &cx.env.standing) {
        let up: Vec<OsdId> = host.osds.iter().copied().filter(|o| cx.state.osdmap.is_up(*o)).collect();
        let what = if up.is_empty() { format!("mon.{}", host.mons.join(", mon.")) } else { format!("OSD(s) {}", list(&up)) };
        refuse!(EBUSY, "{name} still runs: {what}");
    }
    // It is stopped: the others must be able to decide when its monitors are not counted any more.
    let names: Vec<&str> = host.mons.iter().map(String::as_str).collect();
    if !names.is_empty() && cx.env.standing.without(&names, true).is_err() {
        refuse!(EBUSY, "{}", no_majority(&host, cx));
    }
    check_risk(&name, risk(cx, &host.osds), args)?;
    remove(cx, &name, &host)?;
    let asker = cx.asker.name.clone();
    cx.log.push((
        log_level::INFO,
        format!("{asker} removed host {name} (OSDs: {}; monitors: {})", list(&host.osds), host.mons.join(",")),
    ));
    Ok(Reply::status(format!("removed host {name}: {} OSDs, {} monitors", host.osds.len(), host.mons.len())))
}

/// Refuses what would cost data, unless that was said: once if copies are still missing, twice if some data is on no
/// OSD that can be reached.
fn check_risk(name: &str, risk: Option<Risk>, args: &Args) -> Result<(), Refusal> {
    let Some(Risk { text, missed, unknown }) = risk else { return Ok(()) };
    if !args.flag("yes_i_really_mean_it") {
        let both = if missed { " and --data-is-lost" } else { "" };
        if unknown {
            refuse!(
                EAGAIN,
                "{text}. Ask again when all groups are active+clean; or, if you are SURE that {name} will never come back, say --yes-i-really-mean-it"
            );
        }
        refuse!(EPERM, "{text}. Are you SURE that {name} will never come back? Then say --yes-i-really-mean-it{both}");
    }
    if missed && !args.flag("data_is_lost") {
        refuse!(
            EPERM,
            "{text}. What only {name} has is lost for ever with this: groups go on with what others have. If that is meant, add --data-is-lost"
        );
    }
    Ok(())
}

fn remove(cx: &mut Cx<'_>, name: &str, host: &Host) -> Result<(), Refusal> {
    let mut crush = (*cx.state.osdmap.crush).clone();
    for osd in &host.osds {
        if crush.name_of(*osd).is_some() || !crush.parents(*osd).is_empty() {
            crush.remove_item(*osd).map_err(super::shared::refusal)?;
        }
    }
    // A bucket that holds something else, or that a rule takes, stays.
    if let Some(id) = crush.id_of(name).filter(|id| *id < 0) {
        let _ = crush.remove_item(id);
    }
    if crush != *cx.state.osdmap.crush {
        cx.inc().crush = crush.to_bytes();
    }
    for osd in &host.osds {
        super::osd_admin::erase(cx, *osd);
        drop_keys(cx, *osd);
    }
    super::mon_admin::take_out(cx, &host.mons);
    super::marks::forget_rest(cx, name);
    Ok(())
}
