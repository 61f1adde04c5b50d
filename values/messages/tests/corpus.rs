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
    ("SnapContext", round_trip::<ops::SnapContext>),
    ("clone_info", round_trip::<ops::CloneInfo>),
    ("cls_lock_assert_op", round_trip::<class::lock::AssertOp>),
    ("cls_lock_break_op", round_trip::<class::lock::BreakOp>),
    ("cls_lock_get_info_op", round_trip::<class::lock::GetInfoOp>),
    ("cls_lock_get_info_reply", round_trip::<class::lock::GetInfoReply>),
    ("cls_lock_list_locks_reply", round_trip::<class::lock::ListLocksReply>),
    ("cls_lock_lock_op", round_trip::<class::lock::LockOp>),
    ("cls_lock_set_cookie_op", round_trip::<class::lock::SetCookieOp>),
    ("cls_lock_unlock_op", round_trip::<class::lock::UnlockOp>),
    ("cls_refcount_get_op", round_trip::<class::refcount::GetOp>),
    ("cls_refcount_put_op", round_trip::<class::refcount::PutOp>),
    ("cls_refcount_read_op", round_trip::<class::refcount::ReadOp>),
    ("cls_refcount_read_ret", round_trip::<class::refcount::ReadReply>),
    ("cls_refcount_set_op", round_trip::<class::refcount::SetOp>),
    ("cls_version_check_op", round_trip::<class::version::CheckOp>),
    ("cls_version_inc_op", round_trip::<class::version::IncOp>),
    ("cls_version_read_ret", round_trip::<class::version::ReadReply>),
    ("cls_version_set_op", round_trip::<class::version::SetOp>),
    ("entity_addr_t", round_trip::<types::EntityAddr>),
    ("entity_addrvec_t", round_trip::<types::EntityAddrVec>),
    ("entity_name_t", round_trip::<EntityNum>),
    ("eversion_t", round_trip::<types::EVersion>),
    ("hobject_t", round_trip::<types::HObject>),
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
    ("osd_reqid_t", round_trip::<types::ReqId>),
    ("pg_ls_response_t", round_trip::<ops::OldListPage>),
    ("pg_nls_response_t", round_trip::<ops::ListPage>),
    ("pg_t", round_trip::<types::PgId>),
    ("pool_stat_t", round_trip::<stats::PoolStat>),
    ("rados::cls::lock::lock_info_t", round_trip::<class::lock::LockInfo>),
    ("rados::cls::lock::locker_id_t", round_trip::<class::lock::LockerId>),
    ("rados::cls::lock::locker_info_t", round_trip::<class::lock::LockerInfo>),
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
