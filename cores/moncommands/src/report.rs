//! The command `report`: everything at once.

use super::{Cx, Row, crush, health, mgr, mon, osd, osd_dump, pg_dump, row};
use grammar::{Args, Outcome};
use manager::soft::all_pgs;
use messages::internal::Space;
use monstate::context::{VERSION, commit};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use types::{OsdId, PgState};

pub(super) const ROWS: &[Row] =
    &[row("report <tags:String n=N req=false>", "show everything that the monitor knows", "mon", "r", report)];

fn report(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let state = cx.state;
    let (first, last) = (state.history.first(), state.history.last());
    let clean: Vec<Value> = state.osdmap.pools.keys().map(|id| json!({"poolid": id, "floor": last})).collect();
    let mut value = json!({
        "cluster_fingerprint": state.fsid.to_string(),
        "version": VERSION,
        "commit": commit(&cx.env.config.metadata()),
        "timestamp": cx.now.wall.iso(),
        "tag": args.list("tags").join(" "),
        "health": health::dump(cx, true),
        "monmap_first_committed": 1,
        "monmap_last_committed": state.monmap.epoch,
        "monmap": mon::map_dump(cx),
        "quorum": [0],
        "osdmap": osd_dump::map_dump(&state.osdmap),
        "osd_metadata": osd::all_metadata(cx),
        "osdmap_clean_epochs": {"min_last_epoch_clean": last, "last_epoch_clean": {"per_pool": clean}, "osd_epochs": []},
        "osdmap_first_committed": first,
        "osdmap_last_committed": last,
        "crushmap": crush::map_dump(&state.osdmap.crush),
    });
    value["fsmap"] = mgr::fsmap();
    value["mdsmap_first_committed"] = json!(1);
    value["mdsmap_last_committed"] = json!(1);
    value["auth"] =
        json!({"first_committed": 1, "last_committed": state.auth.version, "num_secrets": state.auth.keyring.entities.len()});
    figures(cx, &mut value);
    value["servicemap"] = mgr::service_map(cx);
    value["paxos"] = json!({"first_committed": 1, "last_committed": state.index, "last_pn": 0, "accepted_pn": 0});
    let crc = kernels::crc32c(kernels::SEED, value.to_string().as_bytes());
    Ok(cx.structure("report", &value).with_status(format!("report {crc}")))
}

/// Adds what placement groups and OSDs reported.
fn figures(cx: &Cx<'_>, value: &mut Value) {
    let (state, soft) = (cx.state, cx.soft);
    let map = &state.osdmap;
    let counts = soft.pgs_per_osd(state);
    let by_text: BTreeMap<String, u64> = soft.pg_states(state).into_iter().map(|(s, n)| (s.to_string(), n)).collect();
    let states: Vec<Value> = by_text.into_iter().map(|(s, n)| json!({"state": s, "num": n})).collect();
    let active = soft.pgs.values().filter(|p| p.report.state.has(PgState::ACTIVE)).count();
    value["num_pg"] = json!(all_pgs(state).count());
    value["num_pg_active"] = json!(active);
    value["num_pg_unknown"] = json!(all_pgs(state).filter(|pg| !soft.pgs.contains_key(pg)).count());
    value["num_osd"] = json!(map.osds().count());
    value["pool_sum"] = pg_dump::total_dump(cx, false);
    let pgs: u64 = counts.values().sum();
    value["osd_sum"] = pg_dump::osd_fields(&soft.total_space(state), pgs, map.osds().count(), 0, 0, (0, 0));
    let mut classes: BTreeMap<&str, (Space, u64, usize)> = BTreeMap::new();
    for osd in map.osds() {
        let (space, n, osds) = classes.entry(map.crush.class_of(osd).unwrap_or("unknown")).or_default();
        let s = soft.space(osd);
        space.total += s.total;
        space.available += s.available;
        space.data += s.data;
        space.omap += s.omap;
        space.meta += s.meta;
        *n += counts.get(&osd).copied().unwrap_or(0);
        *osds += 1;
    }
    let by_class: Map<String, Value> =
        classes.into_iter().map(|(c, (s, n, osds))| (c.to_string(), pg_dump::osd_fields(&s, n, osds, 0, 0, (0, 0)))).collect();
    value["osd_sum_by_class"] = by_class.into();
    value["pool_stats"] = pg_dump::pools_dump(cx).into();
    value["osd_stats"] = map.osds().map(|osd| json!({"osd": osd, "seq": soft.version})).collect();
    value["num_pg_by_state"] = json!(states);
    value["num_pg_by_osd"] = by_osd(cx, &counts);
    let purged = map.pools.keys().map(|pool| json!({"pool": pool, "purged_snaps": {}}));
    value["purged_snaps"] = purged.collect();
}

fn by_osd(cx: &Cx<'_>, counts: &BTreeMap<OsdId, u64>) -> Value {
    let mut led: BTreeMap<OsdId, u64> = BTreeMap::new();
    all_pgs(cx.state).for_each(|pg| *led.entry(cx.state.osdmap.placed(pg).acting_primary).or_default() += 1);
    let row = |osd: OsdId| {
        let of = |all: &BTreeMap<OsdId, u64>| all.get(&osd).copied().unwrap_or(0);
        json!({"osd": osd, "num_primary_pg": of(&led), "num_acting_pg": of(counts), "num_up_not_acting_pg": 0})
    };
    cx.state.osdmap.osds().map(row).collect()
}
