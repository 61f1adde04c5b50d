//! What several families of commands need: names, shapes, looks at arguments.

use super::Cx;
use crush::Map;
use denc::Encode;
use grammar::{Args, Refusal, refuse};
use maps::{OsdMap, Pool};
use monstate::pools;
use serde_json::{Value, json};
use types::{AddrType, EntityAddr, EntityAddrVec, Errno, PgId};

/// Names of Ceph's releases by number.
const RELEASES: [(u8, &str); 10] = [
    (9, "infernalis"),
    (10, "jewel"),
    (11, "kraken"),
    (12, "luminous"),
    (13, "mimic"),
    (14, "nautilus"),
    (15, "octopus"),
    (16, "pacific"),
    (17, "quincy"),
    (18, "reef"),
];

/// The name of a release.
pub(super) fn release_name(n: u8) -> &'static str {
    RELEASES.iter().find(|(r, _)| *r == n).map_or("unknown", |(_, name)| name)
}

/// The number of a release.
fn release_number(name: &str) -> Option<u8> {
    RELEASES.iter().find(|(n, r)| *r == name || name == n.to_string()).map(|(n, _)| *n)
}

/// Parses a release's name, or refuses.
pub(super) fn parse_release(name: &str) -> Result<u8, Refusal> {
    match release_number(name) {
        Some(n) => Ok(n),
        None => refuse!(EINVAL, "{name} is not a recognized client release name"),
    }
}

/// Returns what is said of a pool whose rule finds too few OSDs: none at all, so that nobody serves it, or, for a pool of
/// shards, fewer than it has shards. Empty if it finds enough. None is expected of a cluster without OSDs that are in.
/// `crush` is the placement map that the pool will have.
pub(super) fn barren(map: &OsdMap, crush: &Map, pool: &Pool) -> String {
    /// Places that are looked for.
    const TRIED: u32 = 64;
    let found = |rule| {
        let places = |x| crush.place(rule, x, pool.size.into(), &map.osd_weight, None).iter().filter(|o| map.exists(**o)).count();
        (0..TRIED).map(places).max().unwrap_or(0)
    };
    let found = crush.find_rule(pool.crush_rule, pool.type_, pool.size).map_or(0, found);
    let enough = if pool.is_erasure() { usize::from(pool.size) } else { 1 };
    if found >= enough || !map.osds().any(|osd| map.is_in(osd)) {
        return String::new();
    }
    let name = crush.rule_names.get(&i32::from(pool.crush_rule)).map_or("", String::as_str);
    let look = format!("'ceph osd crush rule dump {name}' shows where it looks");
    if found == 0 {
        return format!("; rule '{name}' finds no OSD now, so nobody serves the pool: {look}");
    }
    let so = if found < usize::from(pool.min_size) { "so nobody serves the pool" } else { "so its groups stay undersized" };
    format!("\nrule '{name}' finds {found} places now, and the pool has {} shards, {so}: {look}", pool.size)
}

/// Addresses as structures list them.
pub(super) fn addrs(addrs: &EntityAddrVec) -> Value {
    let one = |a: &EntityAddr| {
        let kind = match a.kind {
            AddrType::None => "none",
            AddrType::Legacy => "v1",
            AddrType::Cidr => "cidr",
            AddrType::Msgr2 => "v2",
            AddrType::Any => "any",
        };
        json!({"type": kind, "addr": a.addr.map_or("(unrecognized address family 0)".into(), |s| s.to_string()), "nonce": a.nonce})
    };
    json!({"addrvec": addrs.0.iter().map(one).collect::<Vec<_>>()})
}

/// The address that old readers look at: the v1 one if there is one.
pub(super) fn legacy(addrs: &EntityAddrVec) -> String {
    let v1 = addrs.0.iter().find(|a| a.kind == AddrType::Legacy).or(addrs.0.first());
    v1.map_or("-".into(), EntityAddr::legacy_str)
}

/// Gives an existing placement group that an argument names, or refuses.
pub(super) fn existing_pg(cx: &Cx<'_>, args: &Args) -> Result<PgId, Refusal> {
    let text = args.str("pgid");
    let Ok(pg) = text.parse::<PgId>() else { refuse!(EINVAL, "invalid pgid '{text}'") };
    match cx.state.osdmap.pools.get(&pg.pool) {
        Some(pool) if pg.seed < pool.pg_num => Ok(pg),
        _ => refuse!(ENOENT, "pgid '{text}' does not exist"),
    }
}

/// Returns what a change of a pool reads.
pub(super) fn ctx<'a>(cx: &Cx<'a>) -> pools::Ctx<'a> {
    pools::Ctx { state: cx.state, env: cx.env, now: cx.now }
}

/// Makes a refusal of what the CRUSH map refused.
pub(super) fn refusal(error: crush::Error) -> Refusal {
    let errno = match error {
        crush::Error::NotFound(_) => Errno::ENOENT,
        crush::Error::Exists(_) => Errno::EEXIST,
        crush::Error::Busy(_) => Errno::ENOTEMPTY,
        crush::Error::Invalid(_) => Errno::EINVAL,
    };
    Refusal::new(errno, error.to_string())
}

/// Changes the CRUSH map.
pub(super) fn edit<T>(cx: &mut Cx<'_>, change: impl FnOnce(&mut Map) -> crush::Result<T>) -> Result<T, Refusal> {
    let mut map = (*cx.state.osdmap.crush).clone();
    let result = change(&mut map).map_err(refusal)?;
    if map != *cx.state.osdmap.crush {
        cx.inc().crush = map.to_bytes();
    }
    Ok(result)
}
