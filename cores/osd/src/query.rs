//! `ceph pg N query` and the reports of groups: what a group's figures look like to people and to the monitor.

use crate::Osd;
use messages::internal::PgReport;
use serde_json::{Value, json};
use types::SpgId;

/// Everything about a group of this OSD, with Ceph's field names.
pub(crate) fn describe(osd: &mut Osd, id: SpgId) -> Value {
    let Some(slot) = osd.groups.find(&id) else { return Value::Null };
    let Some(pg) = osd.groups.get_mut(slot) else { return Value::Null };
    let (query, report) = (pg.query(), pg.stats());
    let sets = osd.maps.current().up_acting(id.pg);
    let trimq: Vec<String> = query.snap_trimq.iter().map(|(first, n)| format!("{first:x}~{n:x}")).collect();
    json!({
        "snap_trimq": format!("[{}]", trimq.join(",")),
        "snap_trimq_len": report.snap_trimq_len,
        "state": query.state.to_string(),
        "epoch": osd.maps.epoch(),
        "up": sets.up,
        "acting": sets.acting,
        "acting_recovery_backfill": sets.acting.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "info": info(id, &query, &report, &sets),
        "peer_info": query.peers.iter().map(peer).collect::<Vec<_>>(),
        "recovery_state": [recovery(&query, &report)],
        "agent_state": {},
        "ops_in_flight": query.ops_in_flight,
        "watches": query.watches,
    })
}

/// Another copy of the group.
fn peer(peer: &pg::PeerQuery) -> Value {
    json!({
        "peer": peer.copy.to_string(),
        "acting": peer.acting,
        "activated": peer.activated,
        "last_backfill": peer.backfill.clone().unwrap_or_else(|| "MAX".into()),
        "stats": { "stat_sum": { "num_objects_missing": peer.missing } },
        "bytes_under_way": peer.under_way,
    })
}

/// Returns where the group is, and who or what is waited for.
fn recovery(query: &pg::Query, report: &PgReport) -> Value {
    let past = query.past.iter().map(|(first, last, acting)| json!({ "first": first, "last": last, "acting": acting }));
    json!({
        "name": query.step,
        "enter_time": report.last_change.iso(),
        "blocked": query.because,
        "blocked_by": query.blocked_by,
        "past_intervals": past.collect::<Vec<_>>(),
        "num_missing": query.missing,
        "num_unfound": query.unfound,
    })
}

fn info(id: SpgId, query: &pg::Query, report: &PgReport, sets: &::maps::UpActing) -> Value {
    let update = query.last_update.to_string();
    let purged = query.purged_snaps.iter().map(|(start, length)| json!({ "start": start, "length": length }));
    json!({
        "pgid": id.to_string(),
        "last_update": update,
        "last_complete": update,
        "log_tail": query.log_tail.to_string(),
        "last_user_version": query.last_user_version,
        "last_backfill": query.last_backfill.clone().unwrap_or_else(|| "MAX".into()),
        "purged_snaps": purged.collect::<Vec<_>>(),
        "history": history(query, report),
        "stats": stats(query, report, sets),
        "dne": 0,
        "incomplete": 0,
        "last_epoch_started": query.last_epoch_started,
        "empty": i32::from(query.last_update == types::EVersion::default()),
    })
}

fn history(query: &pg::Query, report: &PgReport) -> Value {
    let since = query.same_interval_since;
    json!({
        "epoch_created": query.created,
        "epoch_pool_created": query.created,
        "last_epoch_started": query.last_epoch_started,
        "last_interval_started": query.last_epoch_started,
        "last_epoch_clean": query.last_epoch_clean,
        "last_interval_clean": query.last_epoch_clean,
        "last_epoch_split": 0,
        "last_epoch_marked_full": 0,
        "same_up_since": since,
        "same_interval_since": since,
        "same_primary_since": since,
        "last_scrub": report.last_scrub.to_string(),
        "last_scrub_stamp": report.last_scrub_stamp.iso(),
        "last_deep_scrub": report.last_deep_scrub.to_string(),
        "last_deep_scrub_stamp": report.last_deep_scrub_stamp.iso(),
        "last_clean_scrub_stamp": report.last_scrub_stamp.iso(),
        "prior_readable_until_ub": 0,
    })
}

fn stats(query: &pg::Query, report: &PgReport, sets: &::maps::UpActing) -> Value {
    let mut out = times(report);
    let more = json!({
        "version": report.version.to_string(),
        "reported_seq": report.reported.version,
        "reported_epoch": report.reported.epoch,
        "state": report.state.to_string(),
        "log_start": query.log_tail.to_string(),
        "ondisk_log_start": query.log_tail.to_string(),
        "log_size": query.log_size,
        "log_dups_size": query.log_dups,
        "ondisk_log_size": query.log_size,
        "created": report.created,
        "mapping_epoch": query.same_interval_since,
        "last_epoch_clean": query.last_epoch_clean,
        "parent": "0.0",
        "parent_split_bits": 0,
        "stats_invalid": false,
        "dirty_stats_invalid": false,
        "snaptrimq_len": report.snap_trimq_len,
        "stat_sum": stat_sum(report),
        "up": sets.up,
        "acting": sets.acting,
        "avail_no_missing": [],
        "object_location_counts": [],
        "blocked_by": query.blocked_by,
        "purged_snaps": [],
        "up_primary": sets.up_primary,
        "acting_primary": sets.acting_primary,
    });
    if let (Value::Object(out), Value::Object(more)) = (&mut out, more) {
        out.extend(more);
    }
    out
}

fn times(report: &PgReport) -> Value {
    let (active, change) = (report.last_active.iso(), report.last_change.iso());
    json!({
        "last_fresh": active,
        "last_change": change,
        "last_active": active,
        "last_peered": active,
        "last_clean": active,
        "last_became_active": change,
        "last_became_peered": change,
        "last_unstale": active,
        "last_undegraded": active,
        "last_fullsized": active,
        "last_scrub": report.last_scrub.to_string(),
        "last_scrub_stamp": report.last_scrub_stamp.iso(),
        "last_deep_scrub": report.last_deep_scrub.to_string(),
        "last_deep_scrub_stamp": report.last_deep_scrub_stamp.iso(),
        "last_clean_scrub_stamp": report.last_scrub_stamp.iso(),
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
