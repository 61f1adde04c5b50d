//! Everything at once.

use super::args::Args;
use super::{Cx, Outcome, Row, crush, health, mon, osd, osd_dump, row};
use crate::context::{COMMIT, VERSION};
use serde_json::json;

pub(super) const ROWS: &[Row] =
    &[row("report <tags:String n=N req=false>", "show everything that the monitor knows", "mon", "r", report)];

fn report(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let state = cx.state;
    let (first, last) = (state.history.first(), state.history.last());
    let states: Vec<_> = cx.soft.pg_states(state).into_iter().map(|(s, n)| json!({"state": s, "num": n})).collect();
    let mut value = json!({
        "cluster_fingerprint": state.fsid.to_string(),
        "version": VERSION,
        "commit": COMMIT,
        "timestamp": cx.now.wall.iso(),
        "tag": args.list("tags").join(" "),
        "health": health::dump(cx, true),
        "monmap_first_committed": 1,
        "monmap_last_committed": state.monmap.epoch,
        "monmap": mon::map_dump(cx),
        "quorum": [0],
        "osdmap": osd_dump::map_dump(&state.osdmap),
        "osd_metadata": osd::all_metadata(cx),
        "osdmap_clean_epochs": {"min_last_epoch_clean": last, "last_epoch_clean": {"per_pool": []}, "osd_epochs": []},
        "osdmap_first_committed": first,
        "osdmap_last_committed": last,
        "crushmap": crush::map_dump(&state.osdmap.crush),
    });
    let fsmap = json!({
        "epoch": 1, "default_fscid": -1, "standbys": [], "filesystems": [],
        "compat": {"compat": {}, "ro_compat": {}, "incompat": {}},
        "feature_flags": {"enable_multiple": true, "ever_enabled_multiple": false},
    });
    value["fsmap"] = fsmap;
    value["num_pg"] = json!(crate::soft::all_pgs(state).count());
    value["num_pg_active"] = json!(cx.soft.pgs.values().filter(|p| p.report.state.split('+').any(|w| w == "active")).count());
    value["num_pg_unknown"] = json!(crate::soft::all_pgs(state).filter(|pg| !cx.soft.pgs.contains_key(pg)).count());
    value["num_osd"] = json!(state.osdmap.osds().count());
    value["num_pg_by_state"] = json!(states);
    value["paxos"] = json!({"first_committed": 1, "last_committed": state.index, "last_pn": 100, "accepted_pn": 100});
    let crc = kernels::crc32c(kernels::SEED, value.to_string().as_bytes());
    Ok(cx.structure("report", &value).with_status(format!("report {crc}")))
}
