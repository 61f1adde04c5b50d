//! Finds what is wrong with the cluster. Each finding has one of Ceph's codes; `docs/operations/health.md` has an entry for
//! each code.
//!
//! Findings about groups are in [`groups`], about scrubs in [`scrubs`].

pub mod advice;
pub mod codes;
mod crashes;
pub(crate) mod groups;
mod idle;
mod levels;
mod scrubs;
mod sizes;

use crate::soft::Soft;
use maps::{flags, pool_flags, state as bits};
use messages::internal::OsdReport;
use monstate::context::Env;
use monstate::effective;
use monstate::state::State;
use monstate::state::history::CEILING;
use node::Now;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use types::OsdId;

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Somebody wanted it so, and may have forgotten it: the cluster is `HEALTH_OK` all the same.
    Notice,
    /// Somebody should look at it: `HEALTH_WARN`.
    Warning,
    /// Somebody must mend it: `HEALTH_ERR`.
    Error,
}

impl Severity {
    /// The name for status and JSON: `HEALTH_OK`, `HEALTH_WARN`, `HEALTH_ERR`.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Notice => "HEALTH_OK",
            Severity::Warning => "HEALTH_WARN",
            Severity::Error => "HEALTH_ERR",
        }
    }

    /// The short name for `health detail`: `OK `, `WRN`, `ERR`.
    pub fn short(self) -> &'static str {
        match self {
            Severity::Notice => "OK ",
            Severity::Warning => "WRN",
            Severity::Error => "ERR",
        }
    }
}

/// One finding of a health code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// Its severity.
    pub severity: Severity,
    /// The finding in one line.
    pub summary: String,
    /// Number of things it is about: OSDs, pools, placement groups. A mute ends when the number grows.
    pub count: u64,
    /// One line for each of them, [`DETAILS`] at most where there may be many.
    pub detail: Vec<String>,
}

/// Most lines of detail for one code.
const DETAILS: usize = 50;

struct Checks(BTreeMap<String, Check>);

impl Checks {
    fn add(&mut self, code: &str, severity: Severity, count: u64, summary: String, detail: Vec<String>) {
        self.0.insert(code.into(), Check { severity, summary, count, detail });
    }

    fn warn(&mut self, code: &str, count: u64, summary: String, detail: Vec<String>) {
        self.add(code, Severity::Warning, count, summary, detail);
    }
}

/// Gives all findings, also muted ones, by code.
pub fn checks(state: &State, soft: &Soft, env: &Env, now: Now) -> BTreeMap<String, Check> {
    let mut checks = Checks(BTreeMap::new());
    osds_down(&mut checks, state);
    too_few_osds(&mut checks, state, env);
    maps_held(&mut checks, state, soft);
    osds_full(&mut checks, state);
    osd_flags(&mut checks, state);
    pools(&mut checks, state, soft, env);
    groups::find(&mut checks, state, soft, env, now);
    scrubs::find(&mut checks, state, soft, env, now);
    sizes::find(&mut checks, state, soft, env);
    idle::find(&mut checks, state);
    straws(&mut checks, state);
    crashes::find(&mut checks, state, now.wall);
    monitor(&mut checks, state, env);
    monitors_down(&mut checks, state, env);
    monitors_set_back(&mut checks, env);
    clocks_off(&mut checks, state, soft, env);
    turned_away(&mut checks, soft, env);
    levels::find(&mut checks, state, soft, env, now);
    reported(&mut checks, state, soft);
    checks.0
}

/// The state of the cluster by its worst finding; muted ones do not count.
pub fn status(state: &State, checks: &BTreeMap<String, Check>) -> &'static str {
    let heard = checks.iter().filter(|(code, _)| !state.mutes.contains_key(*code));
    heard.map(|(_, c)| c.severity).max().map_or("HEALTH_OK", Severity::name)
}

/// A CRUSH map that computes straws with the error of the first releases.
fn straws(checks: &mut Checks, state: &State) {
    if state.osdmap.crush.tunables.straw_calc_version == 0 {
        let detail =
            vec!["'ceph osd crush set-tunable straw_calc_version 1' mends it; some data moves with the next change".into()];
        checks.warn("OLD_CRUSH_STRAW_CALC_VERSION", 1, "crush map has straw_calc_version=0".into(), detail);
    }
}

fn osds_down(checks: &mut Checks, state: &State) {
    let map = &state.osdmap;
    // OSDs that are out are not missed.
    let down: Vec<OsdId> = map.osds().filter(|o| !map.is_up(*o) && map.is_in(*o)).collect();
    if down.is_empty() {
        return;
    }
    let place = |item: i32| {
        let above = map.crush.full_location(item).into_iter().rev();
        above.map(|(kind, name)| format!("{kind}={name}")).collect::<Vec<_>>().join(",")
    };
    let detail = down.iter().map(|o| format!("osd.{o} ({}) is down", place(*o))).collect();
    checks.warn("OSD_DOWN", down.len() as u64, format!("{} osds down", down.len()), detail);
    let mut by_type: BTreeMap<i32, Vec<(i32, usize)>> = BTreeMap::new();
    for bucket in map.crush.buckets.iter().flatten().filter(|b| !map.crush.is_shadow(b.id)) {
        let below: Vec<OsdId> =
            map.crush.devices_under(bucket.id).into_iter().filter(|o| map.exists(*o) && map.is_in(*o)).collect();
        if !below.is_empty() && below.iter().all(|o| !map.is_up(*o)) {
            by_type.entry(bucket.kind.into()).or_default().push((bucket.id, below.len()));
        }
    }
    for (kind, buckets) in by_type {
        let name = map.crush.type_name(kind).unwrap_or("bucket");
        let osds: usize = buckets.iter().map(|(_, n)| n).sum();
        let plural = if buckets.len() == 1 { "" } else { "s" };
        let detail = buckets.iter().map(|(id, n)| {
            let above = place(*id);
            let above = if above.is_empty() { above } else { format!("({above}) ") };
            format!("{name} {} {above}({n} osds) is down", map.crush.name_of(*id).unwrap_or("?"))
        });
        let code = format!("OSD_{}_DOWN", name.to_uppercase());
        checks.warn(
            &code,
            buckets.len() as u64,
            format!("{} {name}{plural} ({osds} osds) down", buckets.len()),
            detail.collect(),
        );
    }
}

/// Fewer OSDs than a new pool would have copies.
fn too_few_osds(checks: &mut Checks, state: &State, env: &Env) {
    let (exist, ..) = state.osdmap.osd_counts();
    let size = effective::monitor_number(state, env, "osd_pool_default_size") as usize;
    if exist < size && effective::monitor_flag(state, env, "mon_warn_on_too_few_osds") {
        let text = format!("OSD count {exist} < osd_pool_default_size {size}");
        checks.warn("TOO_FEW_OSDS", (size - exist) as u64, text, Vec::new());
    }
}

/// Groups that are not clean for so long that the maps since then become a burden.
fn maps_held(checks: &mut Checks, state: &State, soft: &Soft) {
    let kept = state.history.kept();
    if kept <= CEILING as usize / 2 {
        return;
    }
    let newest = state.osdmap.epoch;
    let groups: Vec<String> = crate::soft::all_pgs(state)
        .map(|pg| (pg, soft.last_clean(state, pg).unwrap_or(0)))
        .filter(|(_, clean)| clean.saturating_add(CEILING / 2) <= newest)
        .map(|(pg, clean)| format!("pg {pg} was last known to be clean in epoch {clean}"))
        .collect();
    let n = groups.len();
    let text = format!("{kept} OSD maps are kept for {n} pgs that are not clean ({CEILING} at most)");
    checks.warn("OSD_MAPS_HELD", n as u64, text, groups.into_iter().take(DETAILS).collect());
}

fn osds_full(checks: &mut Checks, state: &State) {
    let map = &state.osdmap;
    let kinds = [
        (bits::FULL, "OSD_FULL", Severity::Error, "full", "full"),
        (bits::BACKFILLFULL, "OSD_BACKFILLFULL", Severity::Warning, "backfillfull", "backfill full"),
        (bits::NEARFULL, "OSD_NEARFULL", Severity::Warning, "nearfull", "near full"),
    ];
    for (bit, code, severity, name, words) in kinds {
        let osds: Vec<OsdId> = map.osds().filter(|o| map.state(*o) & bit != 0).collect();
        if !osds.is_empty() {
            let detail = osds.iter().map(|o| format!("osd.{o} is {words}")).collect();
            checks.add(code, severity, osds.len() as u64, format!("{} {name} osd(s)", osds.len()), detail);
        }
    }
}

fn osd_flags(checks: &mut Checks, state: &State) {
    const WARNED: u32 = flags::NEARFULL
        | flags::FULL
        | flags::PAUSERD
        | flags::PAUSEWR
        | flags::PAUSEREC
        | flags::NOUP
        | flags::NODOWN
        | flags::NOIN
        | flags::NOOUT
        | flags::NOBACKFILL
        | flags::NORECOVER
        | flags::NOSCRUB
        | flags::NODEEP_SCRUB
        | flags::NOTIERAGENT
        | flags::NOSNAPTRIM
        | flags::NOREBALANCE;
    let map = &state.osdmap;
    if map.flags & WARNED != 0 {
        let names: Vec<&str> = flags::NAMES.iter().filter(|(bit, _)| map.flags & WARNED & bit != 0).map(|(_, n)| *n).collect();
        checks.warn("OSDMAP_FLAGS", 1, format!("{} flag(s) set", names.join(",")), Vec::new());
    }
    let mut detail = Vec::new();
    let held = [(bits::NOUP, "noup"), (bits::NODOWN, "nodown"), (bits::NOIN, "noin"), (bits::NOOUT, "noout")];
    let names = |set: u32| held.iter().filter(|(b, _)| set & b != 0).map(|(_, n)| *n).collect::<Vec<_>>().join(",");
    detail.extend(
        map.osds().filter(|o| !names(map.state(*o)).is_empty()).map(|o| format!("osd.{o} has flags {}", names(map.state(o)))),
    );
    for (node, set) in &map.crush_node_flags {
        detail.push(format!("{} has flags {}", map.crush.name_of(*node).unwrap_or("?"), names(*set)));
    }
    for (class, set) in &map.device_class_flags {
        let class = map.crush.class_names.get(class).map_or("?", String::as_str);
        detail.push(format!("device class '{class}' has flags {}", names(*set)));
    }
    if !detail.is_empty() {
        let n = detail.len();
        checks.warn(
            "OSD_FLAGS",
            n as u64,
            format!("{n} OSDs or CRUSH {{nodes, device-classes}} have {{NOUP,NODOWN,NOIN,NOOUT}} flags set"),
            detail,
        );
    }
}

fn pools(checks: &mut Checks, state: &State, soft: &Soft, env: &Env) {
    let map = &state.osdmap;
    let named = |bit: u64| map.pools.iter().filter(move |(_, p)| p.has_flag(bit));
    let full: Vec<String> = named(pool_flags::FULL)
        .map(|(id, p)| {
            let why = if p.has_flag(pool_flags::FULL_QUOTA) { "running out of quota" } else { "no space" };
            format!("pool '{}' is full ({why})", state.pool_name(*id))
        })
        .collect();
    if !full.is_empty() {
        checks.warn("POOL_FULL", full.len() as u64, format!("{} pool(s) full", full.len()), full);
    }
    for (bit, code, name) in
        [(pool_flags::BACKFILLFULL, "POOL_BACKFILLFULL", "backfillfull"), (pool_flags::NEARFULL, "POOL_NEARFULL", "nearfull")]
    {
        let pools: Vec<String> = named(bit)
            .filter(|(_, p)| {
                !p.has_flag(pool_flags::FULL) && (bit == pool_flags::BACKFILLFULL || !p.has_flag(pool_flags::BACKFILLFULL))
            })
            .map(|(id, _)| format!("pool '{}' is {name}", state.pool_name(*id)))
            .collect();
        if !pools.is_empty() {
            checks.warn(code, pools.len() as u64, format!("{} pool(s) {name}", pools.len()), pools);
        }
    }
    if effective::monitor_flag(state, env, "mon_warn_on_pool_no_app") {
        let used = |id: i64| soft.pool_sum(id).num_objects > 0;
        let missing = map.pools.iter().filter(|(id, p)| p.application_metadata.is_empty() && used(**id));
        let mut detail: Vec<String> =
            missing.map(|(id, _)| format!("application not enabled on pool '{}'", state.pool_name(*id))).collect();
        if !detail.is_empty() {
            let n = detail.len();
            detail.push("use 'ceph osd pool application enable <pool-name> <app-name>', where <app-name> is 'cephfs', 'rbd', 'rgw', or freeform for custom applications.".into());
            checks.warn("POOL_APP_NOT_ENABLED", n as u64, format!("{n} pool(s) do not have an application enabled"), detail);
        }
    }
    // Shards that are just enough give no object any more when one of them is lost.
    let bare = map
        .pools
        .iter()
        .filter(|(id, p)| map.layout(**id).is_some_and(|layout| p.min_size == layout.data && p.size > layout.data + 1));
    let detail: Vec<String> = bare
        .map(|(id, p)| {
            format!("pool '{}' takes writes with {} shards, all of which are needed", state.pool_name(*id), p.min_size)
        })
        .collect();
    if !detail.is_empty() {
        let n = detail.len();
        checks.warn(
            "POOL_MIN_SIZE_NO_REDUNDANCY",
            n as u64,
            format!("{n} pool(s) take writes that one more loss destroys"),
            detail,
        );
    }
    if wants_redundancy(state, env) {
        let single = map.pools.iter().filter(|(_, p)| p.size <= 1);
        let detail: Vec<String> =
            single.map(|(id, _)| format!("pool '{}' has no replicas configured", state.pool_name(*id))).collect();
        if !detail.is_empty() {
            checks.warn(
                "POOL_NO_REDUNDANCY",
                detail.len() as u64,
                format!("{} pool(s) have no replicas configured", detail.len()),
                detail,
            );
        }
    }
}

/// Returns true if pools of one copy are worth a warning: if somebody says so, or, unless somebody denies it, if the
/// hardware gives new pools more copies by now.
fn wants_redundancy(state: &State, env: &Env) -> bool {
    const OPTION: &str = "mon_warn_on_pool_no_redundancy";
    let said = state.config.sections.values().any(|options| options.contains_key(OPTION));
    effective::monitor_flag(state, env, OPTION) || !said && monstate::defaults::set_here(state).is_some_and(|size| size > 1)
}

fn monitor(checks: &mut Checks, state: &State, env: &Env) {
    let name = &env.config.name;
    if env.cephx() && effective::monitor_flag(state, env, "auth_allow_insecure_global_id_reclaim") {
        let detail = vec![format!("mon.{name} has auth_allow_insecure_global_id_reclaim set to true")];
        checks.warn("AUTH_INSECURE_GLOBAL_ID_RECLAIM_ALLOWED", 1, "mon is allowing insecure global_id reclaim".into(), detail);
    }
    if env.area_bytes > 0 && env.state_is_large() {
        let percent = env.state_bytes.saturating_mul(100) / env.area_bytes;
        let detail = vec![format!("it takes {} of {} bytes ({percent}%)", env.state_bytes, env.area_bytes)];
        checks.warn("MON_STATE_LARGE", 1, "the monitors' state is large".into(), detail);
    }
    if env.disk_full {
        let detail = vec![format!("mon.{name} has 0% avail")];
        checks.add("MON_DISK_CRIT", Severity::Error, 1, format!("mon {name} is very low on available space"), detail);
        return;
    }
    if env.disk_size == 0 {
        return;
    }
    let percent = (env.disk_free as f64 * 100.0 / env.disk_size as f64) as u64;
    let option = |name| effective::monitor_number(state, env, name) as u64;
    let detail = vec![format!("mon.{name} has {percent}% avail")];
    if percent <= option("mon_data_avail_crit") {
        checks.add("MON_DISK_CRIT", Severity::Error, 1, format!("mon {name} is very low on available space"), detail);
    } else if percent <= option("mon_data_avail_warn") {
        checks.warn("MON_DISK_LOW", 1, format!("mon {name} is low on available space"), detail);
    }
}

/// Monitors that the leader does not hear.
fn monitors_down(checks: &mut Checks, state: &State, env: &Env) {
    let standing = &env.standing;
    if !standing.leads || state.quorum.mons.is_empty() {
        return;
    }
    let names: Vec<&String> = state.monmap.ranks.iter().filter(|name| !standing.heard.contains(name)).collect();
    if names.is_empty() {
        return;
    }
    let at = |name: &str| state.monmap.mon_info.get(name).map(|m| m.public_addrs.to_string()).unwrap_or_default();
    let line = |name: &&String| {
        let rank = state.monmap.rank_of(name).unwrap_or(0);
        format!("mon.{name} (rank {rank}) addr {} is down (out of quorum)", at(name))
    };
    let (down, all) = (names.len(), state.monmap.ranks.len());
    let summary = format!("{down}/{all} mons down, quorum {}", standing.quorum.join(","));
    checks.warn("MON_DOWN", down as u64, summary, names.iter().map(line).collect());
}

/// Monitors that started with older stores than they had, and take no part.
fn monitors_set_back(checks: &mut Checks, env: &Env) {
    let names = &env.standing.set_back;
    if !env.standing.leads || names.is_empty() {
        return;
    }
    let line = |name: &String| {
        format!(
            "mon.{name} started with a store that lacks what it had promised to others, and stopped: remove the store of this monitor \
             (DIR/mon*/store on its host) and start it again"
        )
    };
    let (count, verb) = if names.len() == 1 {
        ("store of 1 monitor".to_owned(), "was")
    } else {
        (format!("stores of {} monitors", names.len()), "were")
    };
    checks.warn("MON_STORE_SET_BACK", names.len() as u64, format!("{count} {verb} set back"), names.iter().map(line).collect());
}

/// Daemons that are named in a summary.
const NAMED: usize = 10;

/// Adds operations that take too long, of OSDs that report some.
fn slow_ops(checks: &mut Checks, reports: &[(OsdId, &OsdReport)]) {
    let count: u64 = reports.iter().map(|(_, r)| u64::from(r.slow_ops)).sum();
    let Some(oldest) = reports.iter().map(|(_, r)| r.slow_oldest).max() else { return };
    let daemons: Vec<String> = reports.iter().take(NAMED).map(|(osd, _)| format!("osd.{osd}")).collect();
    let who = match reports.len() {
        1 => format!("{} has slow ops", daemons[0]),
        n => format!("daemons [{}]{} have slow ops.", daemons.join(","), if n > NAMED { "..." } else { "" }),
    };
    checks.warn("SLOW_OPS", count, format!("{count} slow ops, oldest one blocked for {oldest} sec, {who}"), Vec::new());
}

/// Monitors whose clocks differ from the leader's.
fn clocks_off(checks: &mut Checks, state: &State, soft: &Soft, env: &Env) {
    let allowed = effective::monitor_number(state, env, "mon_clock_drift_allowed");
    let off: Vec<_> = soft.clocks.off(allowed).filter(|(name, _)| env.standing.quorum.iter().any(|n| n == name)).collect();
    if off.is_empty() {
        return;
    }
    let names: Vec<String> = off.iter().map(|(name, _)| format!("mon.{name}")).collect();
    let line = |(name, clock): &(&str, crate::clocks::Clock)| {
        format!("mon.{name} clock skew {}s > max {allowed}s (latency {}s)", clock.skew.abs(), clock.latency)
    };
    let summary = format!("clock skew detected on {}", names.join(", "));
    checks.warn("MON_CLOCK_SKEW", off.len() as u64, summary, off.iter().map(line).collect());
}

/// Clients that have too many sessions with this monitor or the manager. OSDs report theirs themselves.
fn turned_away(checks: &mut Checks, soft: &Soft, env: &Env) {
    let Some((name, count)) = soft.turned_away.iter().max_by_key(|(_, count)| *count) else { return };
    let own = &env.config.name;
    let summary = format!("mon.{own} turned away {count} connections of {name}: there are too many sessions");
    let line = |(name, count): &(types::EntityName, u64)| format!("mon.{own} turned away {count} connections of {name}");
    checks.warn("CLIENTS_TURNED_AWAY", soft.turned_away.len() as u64, summary, soft.turned_away.iter().map(line).collect());
}

/// Adds what OSDs report themselves: slow operations, and codes of their own.
fn reported(checks: &mut Checks, state: &State, soft: &Soft) {
    let reports =
        || soft.osds.iter().filter(|(o, _)| state.osdmap.is_up(**o)).filter_map(|(o, s)| s.report.as_ref().map(|r| (*o, r)));
    let slow: Vec<(OsdId, &OsdReport)> = reports().filter(|(_, r)| r.slow_ops > 0).collect();
    slow_ops(checks, &slow);
    let mut notes: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (osd, report) in reports() {
        for (code, text) in report.notes.iter().take(DETAILS) {
            notes.entry(code).or_default().push(format!("osd.{osd} {text}"));
        }
    }
    for (code, mut detail) in notes {
        // A code of an OSD's own must be one that a person can mute: capitals, digits, underscores.
        if code.is_empty() || !code.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_') {
            continue;
        }
        let n = detail.len();
        let summary = if n == 1 { detail[0].clone() } else { format!("{n} reports: {}", detail[0]) };
        detail.truncate(DETAILS);
        let severity = if code.ends_with("_ERR") || code.contains("DAMAGE") { Severity::Error } else { Severity::Warning };
        let known = checks.0.contains_key(code);
        if !known {
            checks.add(code, severity, n as u64, summary, detail);
        }
    }
}

/// Gives findings as `health -f json` has them.
pub fn dump(state: &State, checks: &BTreeMap<String, Check>, detail: bool) -> Value {
    let mut all = serde_json::Map::new();
    for (code, check) in checks {
        let mut one = json!({
            "severity": check.severity.name(),
            "summary": {"message": check.summary, "count": check.count},
        });
        if detail {
            one["detail"] = check.detail.iter().map(|d| json!({"message": d})).collect();
        }
        one["muted"] = json!(state.mutes.contains_key(code));
        all.insert(code.clone(), one);
    }
    let mutes: Vec<Value> = state
        .mutes
        .iter()
        .map(|(code, m)| {
            let mut mute = json!({"code": code, "sticky": m.sticky, "summary": m.summary, "count": m.count});
            if !m.until.is_zero() {
                mute["ttl"] = json!(m.until.iso());
            }
            mute
        })
        .collect();
    json!({"status": status(state, checks), "checks": all, "mutes": mutes})
}
