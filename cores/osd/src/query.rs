//! `ceph pg N query` and the reports of groups: what a group's figures look like to people and to the monitor.

use crate::Osd;
use messages::internal::PgReport;
use serde_json::{Value, json};
use types::PgId;

/// Everything about a group of this OSD, with Ceph's field names.
pub(crate) fn describe(osd: &mut Osd, id: PgId) -> Value {
    let Some(slot) = osd.groups.find(&id) else { return Value::Null };
    let Some(pg) = osd.groups.get_mut(slot) else { return Value::Null };
    let (query, report) = (pg.query(), pg.stats());
    let sets = osd.maps.current().up_acting(id);
    let trimq: Vec<String> = query.snap_trimq.iter().map(|(first, n)| format!("{first:x}~{n:x}")).collect();
    json!({
        "snap_trimq": format!("[{}]", trimq.join(",")),
        "snap_trimq_len": report.snap_trimq_len,
        "state": query.state,
        "epoch": osd.maps.epoch(),
        "up": sets.up,
        "acting": sets.acting,
        "acting_recovery_backfill": sets.acting.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "info": info(id, &query, &report),
        "peer_info": [],
        "recovery_state": [{ "name": "Started/Primary/Active", "enter_time": report.last_change.iso() }],
        "agent_state": {},
        "ops_in_flight": query.ops_in_flight,
        "watches": query.watches,
    })
}

fn info(id: PgId, query: &pg::Query, report: &PgReport) -> Value {
    let update = query.last_update.to_string();
    json!({
        "pgid": id.to_string(),
        "last_update": update,
        "last_complete": update,
        "log_tail": query.log_tail.to_string(),
        "last_user_version": query.last_user_version,
        "last_backfill": "MAX",
        "purged_snaps": query.purged_snaps.iter().map(|(start, length)| json!({ "start": start, "length": length })).collect::<Vec<_>>(),
        "history": {
            "epoch_created": query.created,
            "epoch_pool_created": query.created,
            "same_up_since": query.same_interval_since,
            "same_interval_since": query.same_interval_since,
            "same_primary_since": query.same_interval_since,
            "last_scrub": report.last_scrub.to_string(),
            "last_scrub_stamp": report.last_scrub_stamp.iso(),
            "last_deep_scrub": report.last_deep_scrub.to_string(),
            "last_deep_scrub_stamp": report.last_deep_scrub_stamp.iso(),
        },
        "stats": {
            "version": report.version.to_string(),
            "reported_seq": report.reported.version,
            "reported_epoch": report.reported.epoch,
            "state": report.state,
            "last_change": report.last_change.iso(),
            "last_active": report.last_active.iso(),
            "log_size": query.log_size,
            "log_dups_size": query.log_dups,
            "created": report.created,
            "stat_sum": stat_sum(report),
        },
        "empty": i32::from(query.last_update == types::EVersion::default()),
    })
}

fn stat_sum(report: &PgReport) -> Value {
    let s = &report.stats;
    json!({
        "num_bytes": s.num_bytes,
        "num_objects": s.num_objects,
        "num_object_clones": s.num_object_clones,
        "num_object_copies": s.num_object_copies,
        "num_whiteouts": s.num_whiteouts,
        "num_read": s.num_rd,
        "num_read_kb": s.num_rd_kb,
        "num_write": s.num_wr,
        "num_write_kb": s.num_wr_kb,
        "num_scrub_errors": s.num_scrub_errors,
        "num_omap_bytes": s.num_omap_bytes,
        "num_omap_keys": s.num_omap_keys,
    })
}
