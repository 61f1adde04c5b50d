//! Every sample of a structure that is known here, as release 16.2 encoded it, decodes to its last byte and encodes to
//! the same bytes. What is not known is listed with its reason, so that nothing is passed over silently.
//!
//! `NACRE_CORPUS=DIR` runs the same over an unpacked archive (`DIR/.../objects/TYPE/HASH`).

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "the corpus is a file")]

#[path = "corpus/elsewhere.rs"]
mod elsewhere;

use denc::{Decode, Encode};
use messages::{EntityNum, class, mgr, mon, ops, stats};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Reads a sample and writes it again.
type RoundTrip = fn(&[u8]) -> Result<Vec<u8>, denc::DecodeError>;

fn round_trip<T: Decode + Encode>(bytes: &[u8]) -> Result<Vec<u8>, denc::DecodeError> {
    Ok(T::from_bytes(bytes)?.to_vec())
}

/// Name in the corpus, and the structure here.
const KNOWN: &[(&str, RoundTrip)] = &[
    ("DaemonHealthMetric", round_trip::<mgr::HealthMetric>),
    ("EntityName", round_trip::<types::EntityName>),
    ("LogEntry", round_trip::<mon::LogEntry>),
    ("PerfCounterType", round_trip::<mgr::CounterType>),
    ("RGWObjManifest", round_trip::<class::rgw::upload_part::Manifest>),
    ("RGWUploadPartInfo", round_trip::<class::rgw::upload_part::UploadPart>),
    ("SnapContext", round_trip::<ops::SnapContext>),
    ("clone_info", round_trip::<ops::CloneInfo>),
    ("cls_2pc_queue_abort_op", round_trip::<class::two_phase::AbortOp>),
    ("cls_2pc_queue_commit_op", round_trip::<class::two_phase::CommitOp>),
    ("cls_2pc_queue_expire_op", round_trip::<class::two_phase::ExpireOp>),
    ("cls_2pc_queue_reservations_ret", round_trip::<class::two_phase::ReservationsReply>),
    ("cls_2pc_queue_reserve_op", round_trip::<class::two_phase::ReserveOp>),
    ("cls_2pc_queue_reserve_ret", round_trip::<class::two_phase::ReserveReply>),
    ("cls_2pc_reservation", round_trip::<class::two_phase::Reservation>),
    ("cls_2pc_urgent_data", round_trip::<class::two_phase::Urgent>),
    ("cls_lock_assert_op", round_trip::<class::lock::AssertOp>),
    ("cls_lock_break_op", round_trip::<class::lock::BreakOp>),
    ("cls_lock_get_info_op", round_trip::<class::lock::GetInfoOp>),
    ("cls_lock_get_info_reply", round_trip::<class::lock::GetInfoReply>),
    ("cls_lock_list_locks_reply", round_trip::<class::lock::ListLocksReply>),
    ("cls_lock_lock_op", round_trip::<class::lock::LockOp>),
    ("cls_lock_set_cookie_op", round_trip::<class::lock::SetCookieOp>),
    ("cls_lock_unlock_op", round_trip::<class::lock::UnlockOp>),
    ("cls_queue_entry", round_trip::<class::queue::Entry>),
    ("cls_queue_get_capacity_ret", round_trip::<class::queue::CapacityReply>),
    ("cls_queue_head", round_trip::<class::queue::Head>),
    ("cls_queue_init_op", round_trip::<class::queue::InitOp>),
    ("cls_queue_list_op", round_trip::<class::queue::ListOp>),
    ("cls_queue_list_ret", round_trip::<class::queue::ListReply>),
    ("cls_queue_marker", round_trip::<class::queue::Marker>),
    ("cls_queue_remove_op", round_trip::<class::queue::RemoveOp>),
    ("cls_refcount_get_op", round_trip::<class::refcount::GetOp>),
    ("cls_refcount_put_op", round_trip::<class::refcount::PutOp>),
    ("cls_refcount_read_op", round_trip::<class::refcount::ReadOp>),
    ("cls_refcount_read_ret", round_trip::<class::refcount::ReadReply>),
    ("cls_refcount_set_op", round_trip::<class::refcount::SetOp>),
    ("cls_rgw_bi_log_list_op", round_trip::<class::rgw::index_ops::LogListOp>),
    ("cls_rgw_bi_log_list_ret", round_trip::<class::rgw::index_ops::LogListReply>),
    ("cls_rgw_bi_log_trim_op", round_trip::<class::rgw::index_ops::LogTrimOp>),
    ("cls_rgw_bucket_instance_entry", round_trip::<class::rgw::index::Resharding>),
    ("cls_rgw_clear_bucket_resharding_op", round_trip::<class::rgw::index_ops::Nothing>),
    ("cls_rgw_gc_defer_entry_op", round_trip::<class::rgw::gc::DeferOp>),
    ("cls_rgw_gc_list_op", round_trip::<class::rgw::gc::ListOp>),
    ("cls_rgw_gc_list_ret", round_trip::<class::rgw::gc::ListReply>),
    ("cls_rgw_gc_obj_info", round_trip::<class::rgw::gc::Info>),
    ("cls_rgw_gc_queue_init_op", round_trip::<class::rgw_gc::InitOp>),
    ("cls_rgw_gc_remove_op", round_trip::<class::rgw::gc::RemoveOp>),
    ("cls_rgw_gc_set_entry_op", round_trip::<class::rgw::gc::SetOp>),
    ("cls_rgw_gc_urgent_data", round_trip::<class::rgw_gc::Urgent>),
    ("cls_rgw_guard_bucket_resharding_op", round_trip::<class::rgw::index_ops::GuardOp>),
    ("cls_rgw_lc_entry", round_trip::<class::rgw::lc::Entry>),
    ("cls_rgw_lc_set_entry_op", round_trip::<class::rgw::lc::EntryOp>),
    ("cls_rgw_mp_upload_part_info_update_op", round_trip::<class::rgw::upload_part::UpdatePartOp>),
    ("cls_rgw_obj", round_trip::<class::rgw::gc::Object>),
    ("cls_rgw_obj_chain", round_trip::<class::rgw::gc::Chain>),
    ("cls_rgw_obj_key", round_trip::<class::rgw::index::ObjKey>),
    ("cls_rgw_reshard_add_op", round_trip::<class::rgw::reshard::AddOp>),
    ("cls_rgw_reshard_entry", round_trip::<class::rgw::reshard::Entry>),
    ("cls_rgw_reshard_get_op", round_trip::<class::rgw::reshard::GetOp>),
    ("cls_rgw_reshard_get_ret", round_trip::<class::rgw::reshard::GetOp>),
    ("cls_rgw_reshard_list_op", round_trip::<class::rgw::reshard::ListOp>),
    ("cls_rgw_reshard_list_ret", round_trip::<class::rgw::reshard::ListReply>),
    ("cls_rgw_reshard_remove_op", round_trip::<class::rgw::reshard::RemoveOp>),
    ("cls_rgw_set_bucket_resharding_op", round_trip::<class::rgw::index_ops::ReshardingStatus>),
    ("cls_version_check_op", round_trip::<class::version::CheckOp>),
    ("cls_version_inc_op", round_trip::<class::version::IncOp>),
    ("cls_version_read_ret", round_trip::<class::version::ReadReply>),
    ("cls_version_set_op", round_trip::<class::version::SetOp>),
    ("create_meta", round_trip::<class::fifo::CreateMeta>),
    ("data_params", round_trip::<class::fifo::Params>),
    ("entity_addr_t", round_trip::<types::EntityAddr>),
    ("entity_addrvec_t", round_trip::<types::EntityAddrVec>),
    ("entity_name_t", round_trip::<EntityNum>),
    ("entry_header", round_trip::<class::fifo::EntryHeader>),
    ("eversion_t", round_trip::<types::EVersion>),
    ("get_meta", round_trip::<class::fifo::GetMeta>),
    ("get_meta_reply", round_trip::<class::fifo::GetMetaReply>),
    ("hobject_t", round_trip::<types::HObject>),
    ("info", round_trip::<class::fifo::Info>),
    ("lock_info_t", round_trip::<class::lock::LockInfo>),
    ("locker_id_t", round_trip::<class::lock::LockerId>),
    ("locker_info_t", round_trip::<class::lock::LockerInfo>),
    ("obj_list_snap_response_t", round_trip::<ops::SnapList>),
    ("obj_list_watch_response_t", round_trip::<ops::WatchList>),
    ("obj_refcount", round_trip::<class::refcount::Refs>),
    ("obj_version", round_trip::<class::version::ObjVersion>),
    ("obj_version_cond", round_trip::<class::version::Condition>),
    ("object_locator_t", round_trip::<types::Locator>),
    ("object_stat_collection_t", round_trip::<stats::ObjectStats>),
    ("object_stat_sum_t", round_trip::<stats::ObjectStatSum>),
    ("objv", round_trip::<class::fifo::Version>),
    ("osd_reqid_t", round_trip::<types::ReqId>),
    ("pg_ls_response_t", round_trip::<ops::OldListPage>),
    ("pg_nls_response_t", round_trip::<ops::ListPage>),
    ("pg_t", round_trip::<types::PgId>),
    ("pool_stat_t", round_trip::<stats::PoolStat>),
    ("rados::cls::lock::lock_info_t", round_trip::<class::lock::LockInfo>),
    ("rados::cls::lock::locker_id_t", round_trip::<class::lock::LockerId>),
    ("rados::cls::lock::locker_info_t", round_trip::<class::lock::LockerInfo>),
    ("rgw_bi_log_entry", round_trip::<class::rgw::index::LogEntry>),
    ("rgw_bucket_category_stats", round_trip::<class::rgw::index::Stats>),
    ("rgw_bucket_dir", round_trip::<class::rgw::index::Dir>),
    ("rgw_bucket_dir_entry", round_trip::<class::rgw::index::DirEntry>),
    ("rgw_bucket_dir_entry_meta", round_trip::<class::rgw::index::Meta>),
    ("rgw_bucket_dir_header", round_trip::<class::rgw::index::DirHeader>),
    ("rgw_bucket_entry_ver", round_trip::<class::rgw::index::EntryVer>),
    ("rgw_bucket_olh_entry", round_trip::<class::rgw::index::OlhEntry>),
    ("rgw_bucket_olh_log_entry", round_trip::<class::rgw::index::OlhLogEntry>),
    ("rgw_bucket_pending_info", round_trip::<class::rgw::index::Pending>),
    ("rgw_cls_bi_entry", round_trip::<class::rgw::index::RawEntry>),
    ("rgw_cls_bi_get_op", round_trip::<class::rgw::index_ops::RawGetOp>),
    ("rgw_cls_bi_get_ret", round_trip::<class::rgw::index_ops::RawGetReply>),
    ("rgw_cls_bi_list_op", round_trip::<class::rgw::index_ops::RawListOp>),
    ("rgw_cls_bi_list_ret", round_trip::<class::rgw::index_ops::RawListReply>),
    ("rgw_cls_bi_put_op", round_trip::<class::rgw::index_ops::RawPutOp>),
    ("rgw_cls_bucket_clear_olh_op", round_trip::<class::rgw::index_ops::ClearOlhOp>),
    ("rgw_cls_check_index_ret", round_trip::<class::rgw::index_ops::CheckIndexReply>),
    ("rgw_cls_link_olh_op", round_trip::<class::rgw::index_ops::LinkOlhOp>),
    ("rgw_cls_list_op", round_trip::<class::rgw::index_ops::ListOp>),
    ("rgw_cls_list_ret", round_trip::<class::rgw::index_ops::ListReply>),
    ("rgw_cls_obj_check_attrs_prefix", round_trip::<class::rgw::index_ops::CheckAttrsOp>),
    ("rgw_cls_obj_check_mtime", round_trip::<class::rgw::index_ops::CheckMtimeOp>),
    ("rgw_cls_obj_complete_op", round_trip::<class::rgw::index_ops::CompleteOp>),
    ("rgw_cls_obj_prepare_op", round_trip::<class::rgw::index_ops::PrepareOp>),
    ("rgw_cls_obj_remove_op", round_trip::<class::rgw::index_ops::RemoveOp>),
    ("rgw_cls_obj_store_pg_ver_op", round_trip::<class::rgw::index_ops::StorePgVerOp>),
    ("rgw_cls_read_olh_log_op", round_trip::<class::rgw::index_ops::ReadOlhLogOp>),
    ("rgw_cls_read_olh_log_ret", round_trip::<class::rgw::index_ops::ReadOlhLogReply>),
    ("rgw_cls_tag_timeout_op", round_trip::<class::rgw::index_ops::TagTimeoutOp>),
    ("rgw_cls_trim_olh_log_op", round_trip::<class::rgw::index_ops::TrimOlhLogOp>),
    ("rgw_cls_unlink_instance_op", round_trip::<class::rgw::index_ops::UnlinkInstanceOp>),
    ("rgw_cls_usage_log_add_op", round_trip::<class::rgw::usage::AddOp>),
    ("rgw_cls_usage_log_read_op", round_trip::<class::rgw::usage::ReadOp>),
    ("rgw_cls_usage_log_read_ret", round_trip::<class::rgw::usage::ReadReply>),
    ("rgw_cls_usage_log_trim_op", round_trip::<class::rgw::usage::TrimOp>),
    ("rgw_usage_log_entry", round_trip::<class::rgw::usage::Entry>),
    ("rgw_usage_log_info", round_trip::<class::rgw::usage::Entries>),
    ("rgw_user_bucket", round_trip::<class::rgw::usage::UserBucket>),
    ("rgw_zone_set", round_trip::<class::rgw::index::ZoneSet>),
    ("spg_t", round_trip::<types::SpgId>),
    ("store_statfs_t", round_trip::<stats::StoreStatfs>),
    ("utime_t", round_trip::<types::UTime>),
    ("uuid_d", round_trip::<types::Fsid>),
    ("watch_item_t", round_trip::<ops::WatchItem>),
];

/// Samples that are refused or changed on purpose: type, hash, reason.
const EXCEPTIONS: &[(&str, &str, &str)] =
    &[("LogEntry", "7c519e61472ba25163079e3205a10077", "its sender has type 0, which no entity has")];

/// One sample: type, hash, bytes.
type Sample = (String, String, Vec<u8>);

fn sample(path: &Path, bytes: Vec<u8>) -> Option<Sample> {
    let name = |p: &Path| p.file_name().and_then(|n| n.to_str()).map(str::to_owned);
    Some((name(path.parent()?)?, name(path)?, bytes))
}

fn archived() -> Vec<Sample> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/ceph-objects-16.2.0.tar.xz");
    let file = std::fs::File::open(&path).expect("the corpus is in the repository");
    let mut archive = tar::Archive::new(liblzma::read::XzDecoder::new(file));
    let mut samples = Vec::new();
    for entry in archive.entries().expect("a tar archive") {
        let mut entry = entry.expect("a whole archive");
        let path = entry.path().expect("a path").into_owned();
        let mut bytes = Vec::new();
        if entry.header().entry_type().is_file() {
            entry.read_to_end(&mut bytes).expect("a whole file");
            samples.extend(sample(&path, bytes));
        }
    }
    samples
}

fn unpacked(dir: &Path, samples: &mut Vec<Sample>) {
    for entry in std::fs::read_dir(dir).expect("a folder").map(|e| e.expect("an entry").path()) {
        if entry.is_dir() {
            unpacked(&entry, samples);
        } else {
            samples.extend(sample(&entry, std::fs::read(&entry).expect("readable")));
        }
    }
}

#[test]
fn samples_of_known_structures_round_trip_and_the_others_are_listed() {
    let samples = match std::env::var_os("NACRE_CORPUS").map(PathBuf::from) {
        None => archived(),
        Some(dir) => {
            let mut samples = Vec::new();
            unpacked(&dir, &mut samples);
            samples
        }
    };
    let known: BTreeMap<&str, RoundTrip> = KNOWN.iter().copied().collect();
    let elsewhere: BTreeSet<&str> = elsewhere::GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
    let (mut checked, mut failures, mut strange) = (BTreeMap::new(), Vec::new(), BTreeSet::new());
    for (name, hash, bytes) in &samples {
        let Some(round_trip) = known.get(name.as_str()) else {
            if !elsewhere.contains(name.as_str()) {
                strange.insert(name.clone());
            }
            continue;
        };
        let excepted = EXCEPTIONS.iter().any(|(n, h, _)| n == name && h == hash);
        match round_trip(bytes) {
            Ok(again) if again == *bytes => *checked.entry(name.as_str()).or_insert(0) += 1,
            _ if excepted => {}
            other => failures.push(format!("{name}/{hash}: {other:x?} from {bytes:x?}")),
        }
    }
    assert!(strange.is_empty(), "structures neither known nor listed: {strange:?}");
    assert!(failures.is_empty(), "{} samples differ:\n{}", failures.len(), failures.join("\n"));
    let total: u32 = checked.values().sum();
    assert!(checked.len() >= 52 && total >= 396, "only {total} samples of {} structures were checked", checked.len());
    println!("{total} samples of {} structures, of {} in all", checked.len(), samples.len());
}
