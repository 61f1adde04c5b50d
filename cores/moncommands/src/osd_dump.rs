//! Commands that write the OSD map in words.

use super::osd::map_at;
use super::shared::{addrs, legacy, release_name};
use super::{Cx, Row, row};
use grammar::{Args, Outcome, refuse, units::number};
use maps::{HitSetParams, OptValue, OsdMap, Pool, flags, pool_flags, state as bits};
use monstate::osds::set_text;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use types::{Intervals, OsdId, PoolId, UTime};

pub(super) const ROWS: &[Row] = &[
    row("osd dump <epoch:Int range=0 req=false>", "show the OSD map", "osd", "r", dump),
    row("osd info <id:OsdName req=false>", "show what the OSD map says about an OSD", "osd", "r", info),
    row("osd blocklist ls", "list the clients that are fenced", "osd", "r", super::osd_admin::blocklist_ls),
    row("osd blacklist ls", "the former name of 'osd blocklist ls'", "osd", "r", super::osd_admin::blocklist_ls),
];

/// Names of the bits that are set.
fn names(table: &[(u32, &str)], set: u32) -> Vec<String> {
    table.iter().filter(|(bit, _)| set & bit != 0).map(|(_, name)| (*name).to_string()).collect()
}

/// Names of a pool's flags, joined.
pub(super) fn pool_flag_names(pool: &Pool) -> String {
    let set = pool_flags::NAMES.iter().filter(|(bit, _)| pool.flags & bit != 0);
    set.map(|(_, name)| *name).collect::<Vec<_>>().join(",")
}

fn time(t: UTime) -> String {
    if t.is_zero() { "0.000000".into() } else { t.iso() }
}

/// The oldest release of clients that could use this map as it is.
fn min_compat(map: &OsdMap) -> u8 {
    let upmap = !map.pg_upmap.is_empty() || !map.pg_upmap_items.is_empty();
    if upmap || !map.crush.choose_args.is_empty() { 12 } else { 10 }
}

fn dump(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let map = map_at(cx, args)?;
    Ok(cx.show("osdmap", map_dump(&map), || text(&map)))
}

fn info(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let map = &cx.state.osdmap;
    if args.opt("id").is_some() {
        let osd = args.osd("id")?;
        if !map.exists(osd) {
            refuse!(EINVAL, "osd.{osd} does not exist");
        }
        return Ok(cx.show("osd_info", osd_dump(map, osd), || osd_line(map, osd) + "\n"));
    }
    let value = map.osds().map(|o| osd_dump(map, o)).collect();
    Ok(cx.show("osds", value, || map.osds().map(|o| osd_line(map, o) + "\n").collect()))
}

/// The map for `osd dump -f json`.
pub(super) fn map_dump(map: &OsdMap) -> Value {
    let mut set = names(&flags::NAMES, map.flags);
    let joined = set.join(",");
    set.sort();
    let mut out = json!({
        "epoch": map.epoch,
        "fsid": map.fsid.to_string(),
        "created": time(map.created),
        "modified": time(map.modified),
        "last_up_change": time(map.last_up_change),
        "last_in_change": time(map.last_in_change),
        "flags": joined,
        "flags_num": map.flags,
        "flags_set": set,
        "crush_version": map.crush_version,
        "full_ratio": f64::from(map.full_ratio),
        "backfillfull_ratio": f64::from(map.backfillfull_ratio),
        "nearfull_ratio": f64::from(map.nearfull_ratio),
        "cluster_snapshot": map.cluster_snapshot,
        "pool_max": map.pool_max,
        "max_osd": map.max_osd,
        "require_min_compat_client": release_name(map.require_min_compat_client),
        "min_compat_client": release_name(min_compat(map)),
        "require_osd_release": release_name(map.require_osd_release),
        "pools": map.pools.iter().map(|(id, p)| pool_dump(map, *id, p)).collect::<Vec<_>>(),
        "osds": map.osds().map(|o| osd_dump(map, o)).collect::<Vec<_>>(),
        "osd_xinfo": map.osds().map(|o| xinfo_dump(map, o)).collect::<Vec<_>>(),
    });
    exceptions(map, &mut out);
    out
}

fn exceptions(map: &OsdMap, out: &mut Value) {
    let snaps = |queue: &BTreeMap<PoolId, Intervals>, key: &str| -> Value {
        queue.iter().map(|(pool, set)| json!({"pool": pool, key: runs_dump(set)})).collect()
    };
    out["pg_upmap"] = map.pg_upmap.iter().map(|(pg, osds)| json!({"pgid": pg.to_string(), "osds": osds})).collect();
    out["pg_upmap_items"] = map
        .pg_upmap_items
        .iter()
        .map(|(pg, pairs)| {
            let mappings: Vec<Value> = pairs.iter().map(|(a, b)| json!({"from": a, "to": b})).collect();
            json!({"pgid": pg.to_string(), "mappings": mappings})
        })
        .collect();
    out["pg_temp"] = map.pg_temp.iter().map(|(pg, osds)| json!({"pgid": pg.to_string(), "osds": osds})).collect();
    out["primary_temp"] = map.primary_temp.iter().map(|(pg, osd)| json!({"pgid": pg.to_string(), "osd": osd})).collect();
    let blocklist: Map<String, Value> = map.blocklist.iter().map(|(a, until)| (a.legacy_str(), time(*until).into())).collect();
    out["blocklist"] = blocklist.into();
    let ranges: Map<String, Value> = map.range_blocklist.iter().map(|(a, until)| (a.to_string(), time(*until).into())).collect();
    out["range_blocklist"] = ranges.into();
    out["erasure_code_profiles"] = json!(map.erasure_code_profiles);
    out["removed_snaps_queue"] = snaps(&map.removed_snaps_queue, "snaps");
    out["new_removed_snaps"] = snaps(&map.new_removed_snaps, "snaps");
    out["new_purged_snaps"] = snaps(&map.new_purged_snaps, "snaps");
    let osd_flags = |set: u32| names(&bits::NAMES, set);
    let nodes: Map<String, Value> =
        map.crush_node_flags.iter().map(|(n, f)| (map.crush.name_of(*n).unwrap_or("?").into(), json!(osd_flags(*f)))).collect();
    out["crush_node_flags"] = nodes.into();
    let classes: Map<String, Value> = map
        .device_class_flags
        .iter()
        .map(|(c, f)| (map.crush.class_names.get(c).cloned().unwrap_or_default(), json!(osd_flags(*f))))
        .collect();
    out["device_class_flags"] = classes.into();
    let stretch = map.stretch_mode.unwrap_or_default();
    out["stretch_mode"] = json!({
        "stretch_mode_enabled": stretch.stretch_mode_enabled,
        "stretch_bucket_count": stretch.stretch_bucket_count,
        "degraded_stretch_mode": stretch.degraded_stretch_mode,
        "recovering_stretch_mode": stretch.recovering_stretch_mode,
        "stretch_mode_bucket": stretch.stretch_mode_bucket,
    });
}

fn runs_dump(set: &Intervals) -> Value {
    set.iter().map(|(begin, length)| json!({"begin": begin, "length": length})).collect()
}

/// A set of snapshots as Ceph prints it, in hex: `[1~2,7~1]`
pub(super) fn runs_text(set: &Intervals) -> String {
    let runs: Vec<String> = set.iter().map(|(start, len)| format!("{start:x}~{len:x}")).collect();
    format!("[{}]", runs.join(","))
}

fn options_dump(pool: &Pool) -> Value {
    let mut options: BTreeMap<&str, Value> = BTreeMap::new();
    for (key, value) in &pool.opts {
        let Some(name) = super::pool_set::opt_name(*key) else { continue };
        let value = match value {
            OptValue::Str(s) => json!(s),
            OptValue::Int(n) => json!(n),
            OptValue::Double(x) => json!(x),
        };
        options.insert(name, value);
    }
    json!(options)
}

/// A pool for `osd dump -f json`.
pub(super) fn pool_dump(map: &OsdMap, id: PoolId, p: &Pool) -> Value {
    let mut out = json!({
        "pool": id,
        "pool_name": map.pool_name.get(&id).cloned().unwrap_or_default(),
        "create_time": time(p.create_time),
        "flags": p.flags,
        "flags_names": pool_flag_names(p),
        "type": p.type_,
        "size": p.size,
        "min_size": p.min_size,
        "crush_rule": p.crush_rule,
        "peering_crush_bucket_count": p.peering_crush_bucket_count,
        "peering_crush_bucket_target": p.peering_crush_bucket_target,
        "peering_crush_bucket_barrier": p.peering_crush_bucket_barrier,
        "peering_crush_bucket_mandatory_member": p.peering_crush_mandatory_member,
        "object_hash": p.object_hash,
        "pg_autoscale_mode": maps::autoscale_mode::name(p.pg_autoscale_mode),
        "pg_num": p.pg_num,
        "pg_placement_num": p.pgp_num,
        "pg_placement_num_target": p.pgp_num_target,
        "pg_num_target": p.pg_num_target,
        "pg_num_pending": p.pg_num_pending,
        "last_pg_merge_meta": {
            "source_pgid": p.last_pg_merge_meta.source_pgid.to_string(),
            "ready_epoch": p.last_pg_merge_meta.ready_epoch,
            "last_epoch_started": p.last_pg_merge_meta.last_epoch_started,
            "last_epoch_clean": p.last_pg_merge_meta.last_epoch_clean,
            "source_version": p.last_pg_merge_meta.source_version.to_string(),
            "target_version": p.last_pg_merge_meta.target_version.to_string(),
        },
        "last_change": p.last_change.to_string(),
        "last_force_op_resend": p.last_force_op_resend.to_string(),
        "last_force_op_resend_prenautilus": p.last_force_op_resend_prenautilus.to_string(),
        "last_force_op_resend_preluminous": p.last_force_op_resend_preluminous.to_string(),
        "auid": p.auid,
        "snap_mode": if p.is_pool_snaps_mode() { "pool" } else { "selfmanaged" },
        "snap_seq": p.snap_seq,
        "snap_epoch": p.snap_epoch,
        "pool_snaps": p.snaps.values().map(|s| json!({"snapid": s.snapid.0, "stamp": time(s.stamp), "name": s.name})).collect::<Vec<_>>(),
        "removed_snaps": runs_text(&p.removed_snaps),
    });
    pool_tail(p, &mut out);
    out
}

fn pool_tail(p: &Pool, out: &mut Value) {
    let hit_set = match &p.hit_set_params {
        HitSetParams::None => json!({"type": "none"}),
        HitSetParams::ExplicitHash => json!({"type": "explicit_hash"}),
        HitSetParams::ExplicitObject => json!({"type": "explicit_object"}),
        HitSetParams::Bloom { fpp_micro, target_size, seed } => json!({
            "type": "bloom", "false_positive_probability": f64::from(*fpp_micro) / 1e6, "target_size": target_size, "seed": seed,
        }),
    };
    let tail = json!({
        "quota_max_bytes": p.quota_max_bytes,
        "quota_max_objects": p.quota_max_objects,
        "tiers": p.tiers,
        "tier_of": p.tier_of,
        "read_tier": p.read_tier,
        "write_tier": p.write_tier,
        "cache_mode": maps::cache_mode::name(p.cache_mode),
        "target_max_bytes": p.target_max_bytes,
        "target_max_objects": p.target_max_objects,
        "cache_target_dirty_ratio_micro": p.cache_target_dirty_ratio_micro,
        "cache_target_dirty_high_ratio_micro": p.cache_target_dirty_high_ratio_micro,
        "cache_target_full_ratio_micro": p.cache_target_full_ratio_micro,
        "cache_min_flush_age": p.cache_min_flush_age,
        "cache_min_evict_age": p.cache_min_evict_age,
        "erasure_code_profile": p.erasure_code_profile,
        "hit_set_params": hit_set,
        "hit_set_period": p.hit_set_period,
        "hit_set_count": p.hit_set_count,
        "use_gmt_hitset": p.use_gmt_hitset,
        "min_read_recency_for_promote": p.min_read_recency_for_promote,
        "min_write_recency_for_promote": p.min_write_recency_for_promote,
        "hit_set_grade_decay_rate": p.hit_set_grade_decay_rate,
        "hit_set_search_last_n": p.hit_set_search_last_n,
        "grade_table": [],
        "stripe_width": p.stripe_width,
        "expected_num_objects": p.expected_num_objects,
        "fast_read": p.fast_read,
        "options": options_dump(p),
        "application_metadata": p.application_metadata,
    });
    if let (Value::Object(out), Value::Object(tail)) = (out, tail) {
        out.extend(tail);
    }
}

fn osd_dump(map: &OsdMap, osd: OsdId) -> Value {
    let n = osd as usize;
    let info = map.info(osd).copied().unwrap_or_default();
    let of = |all: &Vec<types::EntityAddrVec>| all.get(n).cloned().unwrap_or_default();
    let (public, cluster) = (of(&map.client_addrs), of(&map.cluster_addrs));
    let (back, front) = (of(&map.hb_back_addrs), of(&map.hb_front_addrs));
    json!({
        "osd": osd,
        "uuid": map.osd_uuid.get(n).copied().unwrap_or_default().to_string(),
        "up": u32::from(map.is_up(osd)),
        "in": u32::from(map.is_in(osd)),
        "weight": plain(map.weight(osd)),
        "primary_affinity": plain(map.primary_affinity(osd)),
        "last_clean_begin": info.last_clean_begin,
        "last_clean_end": info.last_clean_end,
        "up_from": info.up_from,
        "up_thru": info.up_thru,
        "down_at": info.down_at,
        "lost_at": info.lost_at,
        "public_addrs": addrs(&public),
        "cluster_addrs": addrs(&cluster),
        "heartbeat_back_addrs": addrs(&back),
        "heartbeat_front_addrs": addrs(&front),
        "public_addr": legacy(&public),
        "cluster_addr": legacy(&cluster),
        "heartbeat_back_addr": legacy(&back),
        "heartbeat_front_addr": legacy(&front),
        "state": names(&bits::NAMES, map.state(osd)),
    })
}

/// A 16.16 fraction; whole ones as whole numbers.
fn plain(w: u32) -> Value {
    if w.is_multiple_of(crush::ONE) { json!(w / crush::ONE) } else { json!(f64::from(w) / f64::from(crush::ONE)) }
}

fn xinfo_dump(map: &OsdMap, osd: OsdId) -> Value {
    let x = map.osd_xinfo.get(osd as usize).copied().unwrap_or_default();
    json!({
        "osd": osd,
        "down_stamp": time(x.down_stamp),
        "laggy_probability": f64::from(x.laggy_probability) / f64::from(u32::MAX),
        "laggy_interval": x.laggy_interval,
        "features": x.features,
        "old_weight": x.old_weight,
        "last_purged_snaps_scrub": time(x.last_purged_snaps_scrub),
        "dead_epoch": x.dead_epoch,
    })
}

fn osd_line(map: &OsdMap, osd: OsdId) -> String {
    let info = map.info(osd).copied().unwrap_or_default();
    let fraction = |w: u32| number(f64::from(w) / f64::from(crush::ONE));
    let mut line =
        format!("osd.{osd} {:<4} {} ", if map.is_up(osd) { "up" } else { "down" }, if map.is_in(osd) { "in " } else { "out" });
    line.push_str(&format!("weight {} ", fraction(map.weight(osd))));
    if map.primary_affinity(osd) != crush::ONE {
        line.push_str(&format!("primary_affinity {} ", fraction(map.primary_affinity(osd))));
    }
    line.push_str(&format!(
        "up_from {} up_thru {} down_at {} last_clean_interval [{},{})",
        info.up_from, info.up_thru, info.down_at, info.last_clean_begin, info.last_clean_end
    ));
    if info.lost_at > 0 {
        line.push_str(&format!(" lost_at {}", info.lost_at));
    }
    let blank = types::EntityAddrVec::default();
    let public = map.osd_addr(osd).unwrap_or(&blank);
    let cluster = map.osd_cluster_addr(osd).unwrap_or(&blank);
    let uuid = map.osd_uuid.get(osd as usize).copied().unwrap_or_default();
    line.push_str(&format!(" {public} {cluster} {} {uuid}", names(&bits::NAMES, map.state(osd)).join(",")));
    line
}

/// A pool's line.
pub(super) fn pool_line(map: &OsdMap, id: PoolId, p: &Pool) -> String {
    let name = map.pool_name.get(&id).map_or("", String::as_str);
    let kind = if p.is_erasure() { format!("erasure profile {}", p.erasure_code_profile) } else { "replicated".into() };
    let mut line = format!(
        "pool {id} '{name}' {kind} size {} min_size {} crush_rule {} object_hash rjenkins pg_num {} pgp_num {}",
        p.size, p.min_size, p.crush_rule, p.pg_num, p.pgp_num
    );
    for (what, now, target) in [
        ("pg_num_target", p.pg_num, p.pg_num_target),
        ("pgp_num_target", p.pgp_num, p.pgp_num_target),
        ("pg_num_pending", p.pg_num, p.pg_num_pending),
    ] {
        if now != target {
            line.push_str(&format!(" {what} {target}"));
        }
    }
    if p.pg_autoscale_mode < 3 {
        line.push_str(&format!(" autoscale_mode {}", maps::autoscale_mode::name(p.pg_autoscale_mode)));
    }
    line.push_str(&format!(" last_change {}", p.last_change));
    if p.last_force_op_resend > 0 || p.last_force_op_resend_prenautilus > 0 || p.last_force_op_resend_preluminous > 0 {
        line.push_str(&format!(
            " lfor {}/{}/{}",
            p.last_force_op_resend, p.last_force_op_resend_prenautilus, p.last_force_op_resend_preluminous
        ));
    }
    line.push_str(&format!(" flags {}", pool_flag_names(p)));
    if p.quota_max_bytes > 0 {
        line.push_str(&format!(" max_bytes {}", p.quota_max_bytes));
    }
    if p.quota_max_objects > 0 {
        line.push_str(&format!(" max_objects {}", p.quota_max_objects));
    }
    line.push_str(&format!(" stripe_width {}", p.stripe_width));
    if p.expected_num_objects > 0 {
        line.push_str(&format!(" expected_num_objects {}", p.expected_num_objects));
    }
    if p.fast_read {
        line.push_str(" fast_read 1");
    }
    if let Value::Object(options) = options_dump(p) {
        options.iter().for_each(|(k, v)| line.push_str(&format!(" {k} {}", v.to_string().trim_matches('"'))));
    }
    if !p.application_metadata.is_empty() {
        let apps: Vec<&str> = p.application_metadata.keys().map(String::as_str).collect();
        line.push_str(&format!(" application {}", apps.join(",")));
    }
    line
}

/// The lines of a pool in `osd dump` and `osd pool ls detail`: itself, its snapshots, those on their way out.
pub(super) fn pool_lines(map: &OsdMap, id: PoolId, p: &Pool) -> String {
    let mut out = pool_line(map, id, p) + "\n";
    for snap in p.snaps.values() {
        out.push_str(&format!("\tsnap {} '{}' {}\n", snap.snapid.0, snap.name, time(snap.stamp)));
    }
    if let Some(queue) = map.removed_snaps_queue.get(&id) {
        out.push_str(&format!("\tremoved_snaps_queue {}\n", runs_text(queue)));
    }
    out
}

fn text(map: &OsdMap) -> String {
    let mut out = format!(
        "epoch {}\nfsid {}\ncreated {}\nmodified {}\nflags {}\ncrush_version {}\nfull_ratio {}\nbackfillfull_ratio {}\nnearfull_ratio {}\n",
        map.epoch,
        map.fsid,
        time(map.created),
        time(map.modified),
        names(&flags::NAMES, map.flags).join(","),
        map.crush_version,
        number(map.full_ratio.into()),
        number(map.backfillfull_ratio.into()),
        number(map.nearfull_ratio.into()),
    );
    out.push_str(&format!(
        "require_min_compat_client {}\nmin_compat_client {}\nrequire_osd_release {}\nstretch_mode_enabled {}\n",
        release_name(map.require_min_compat_client),
        release_name(min_compat(map)),
        release_name(map.require_osd_release),
        map.stretch_mode.is_some_and(|s| s.stretch_mode_enabled),
    ));
    map.pools.iter().for_each(|(id, p)| out.push_str(&pool_lines(map, *id, p)));
    out.push_str(&format!("max_osd {}\n", map.max_osd));
    map.osds().for_each(|o| out.push_str(&(osd_line(map, o) + "\n")));
    for (pg, osds) in &map.pg_upmap {
        out.push_str(&format!("pg_upmap {pg} {}\n", set_text(osds)));
    }
    for (pg, pairs) in &map.pg_upmap_items {
        let pairs: Vec<String> = pairs.iter().map(|(a, b)| format!("{a},{b}")).collect();
        out.push_str(&format!("pg_upmap_items {pg} [{}]\n", pairs.join(",")));
    }
    for (pg, osds) in &map.pg_temp {
        out.push_str(&format!("pg_temp {pg} {}\n", set_text(osds)));
    }
    for (addr, until) in &map.blocklist {
        out.push_str(&format!("blocklist {} expires {}\n", addr.legacy_str(), time(*until)));
    }
    for (addr, until) in &map.range_blocklist {
        out.push_str(&format!("range blocklist {addr} expires {}\n", time(*until)));
    }
    out
}
