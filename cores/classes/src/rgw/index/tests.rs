//! What the recording does not show: where we differ from Ceph on purpose, methods of newer releases, objects beside
//! the index, and the bounds.

use crate::testing::Bench;
use bytes::Bytes;
use denc::{Decode, Encode, envelope};
use messages::class::rgw::index::{DirEntry, EntryVer, Meta, ObjKey, RawEntry, Resharding, flag, modify};
use messages::class::rgw::index_ops::{
    CheckAttrsOp, CheckMtimeOp, CompleteOp, GuardOp, ListOp, ListReply, PrepareOp, RawPutOp, RemoveOp, ReshardingStatus,
    StorePgVerOp, compare,
};
use messages::class::rgw::upload_part::UploadPart;
use std::collections::BTreeSet;
use types::{Errno, UTime};

fn call(bench: &mut Bench, method: &str, input: &impl Encode) -> Result<Bytes, Errno> {
    bench.call("rgw", method, &input.to_vec())
}

fn index() -> Bench {
    let mut bench = Bench::default();
    bench.call("rgw", "bucket_init_index", &[]).expect("a new index");
    bench
}

fn put(bench: &mut Bench, entry: &DirEntry, key: &[u8]) {
    let raw = RawEntry { kind: 1, key: Bytes::copy_from_slice(key), value: entry.to_bytes() };
    call(bench, "bi_put", &RawPutOp { entry: raw }).expect("an entry");
}

fn entry(bench: &Bench, key: &str) -> DirEntry {
    let pairs = bench.pairs();
    let (_, value) = pairs.iter().find(|(at, _)| at == key).expect("an entry");
    DirEntry::from_bytes(value).expect("a whole entry")
}

fn write(bench: &mut Bench, op: u8, tag: &'static str, epoch: u64) {
    let key = ObjKey::plain("key");
    let (tag, ver) = (Bytes::from(tag), EntryVer { pool: 3, epoch });
    let announced = PrepareOp { op, key: key.clone(), tag: tag.clone(), ..PrepareOp::default() };
    call(bench, "bucket_prepare_op", &announced).expect("announced");
    let meta = Meta { category: 1, size: epoch, accounted_size: epoch, ..Meta::default() };
    call(bench, "bucket_complete_op", &CompleteOp { op, key, tag, ver, meta, ..CompleteOp::default() }).expect("complete");
}

/// Ceph sets the version all the same, and takes the older write as soon as it comes again.
#[test]
fn an_older_or_cancelled_operation_leaves_what_the_entry_knows() {
    let mut bench = index();
    write(&mut bench, modify::ADD, "new", 9);
    write(&mut bench, modify::ADD, "old", 5);
    write(&mut bench, modify::CANCEL, "none", 0);
    write(&mut bench, modify::ADD, "old again", 7);
    let entry = entry(&bench, "key");
    assert_eq!((entry.ver.epoch, entry.meta.size, entry.pending.is_empty()), (9, 9, true));
}

#[test]
fn a_listing_that_steps_over_too_much_says_where_it_stopped() {
    let mut bench = index();
    let marker = |name: String| DirEntry {
        key: ObjKey::plain(name),
        flags: flag::VERSION | flag::DELETE_MARKER,
        exists: true,
        ..DirEntry::default()
    };
    for n in 0..100 {
        let entry = marker(format!("gone{n:03}"));
        put(&mut bench, &entry, &entry.key.name.clone());
    }
    let last = DirEntry { key: ObjKey::plain("here"), exists: true, ..DirEntry::default() };
    put(&mut bench, &last, b"here");
    let mut op = ListOp { max: 3, ..ListOp::default() };
    assert_eq!(call(&mut bench, "bucket_list", &op), Err(Errno::EFBIG));
    let (mut calls, mut found) = (0, Vec::new());
    // The gateway goes on where the answer of the failed call says: after 8 steps of 3.
    while found.is_empty() {
        calls += 1;
        op.start = ObjKey::plain(format!("gone{:03}", calls * 24 - 1));
        if let Ok(output) = call(&mut bench, "bucket_list", &op) {
            let reply = ListReply::from_bytes(&output).expect("a reply");
            found.extend(reply.dir.entries.into_keys());
        }
    }
    assert_eq!((calls, found), (4, vec![Bytes::from("here")]));
}

#[test]
fn the_guard_fails_with_what_the_client_says() {
    let mut bench = index();
    assert_eq!(call(&mut bench, "guard_bucket_resharding", &GuardOp { result: -2300 }), Ok(Bytes::new()));
    let entry = Resharding { status: 1, ..Resharding::default() };
    call(&mut bench, "set_bucket_resharding", &ReshardingStatus { entry }).expect("set");
    for (result, told) in [(-2300, Err(Errno(2300))), (i32::MIN, Err(Errno::EINVAL)), (7, Ok(Bytes::new()))] {
        assert_eq!(call(&mut bench, "guard_bucket_resharding", &GuardOp { result }), told, "{result}");
    }
}

#[test]
fn a_removal_spares_attributes_with_the_given_prefixes() {
    let mut bench = Bench::default();
    let keep = |prefixes: &[&'static str]| RemoveOp { keep: prefixes.iter().copied().map(Bytes::from).collect() };
    assert_eq!(call(&mut bench, "obj_remove", &keep(&[])), Err(Errno::ENOENT));
    bench.write_raw(0, b"data");
    for name in ["user.rgw.acl", "user.rgw.olh.info", "user.rgw.olh.x", "user.z"] {
        bench.set_xattr(name, name.as_bytes());
    }
    call(&mut bench, "obj_remove", &keep(&["user.rgw.olh.", "user.y"])).expect("removed");
    let names: Vec<_> = bench.xattrs().into_iter().map(|(name, _)| name).collect();
    assert_eq!((names, bench.data()), (vec!["user.rgw.olh.info".into(), "user.rgw.olh.x".into()], Vec::new()));
    call(&mut bench, "obj_remove", &keep(&["user.y"])).expect("removed");
    assert!(!bench.exists());
}

#[test]
fn conditions_on_attributes_and_times() {
    let mut bench = Bench { mtime: UTime { sec: 100, nsec: 5 }, place: (77, 1), ..Bench::default() };
    bench.set_xattr("user.rgw.olh.pending", b"");
    let has = |prefix: &'static str, fail_if_exists| CheckAttrsOp { prefix: prefix.into(), fail_if_exists };
    let attrs = [
        (has("", true), Err(Errno::EINVAL)),
        (has("user.rgw.olh.", true), Err(Errno::ECANCELED)),
        (has("user.rgw.olh.", false), Ok(Bytes::new())),
        (has("user.rgw.olh.z", true), Ok(Bytes::new())),
        (has("user.rgw.olh.z", false), Err(Errno::ECANCELED)),
    ];
    for (op, told) in attrs {
        assert_eq!(call(&mut bench, "obj_check_attrs_prefix", &op), told, "{op:?}");
    }
    let cancelled = Err(Errno::ECANCELED);
    let times = [
        (compare::EQ, 100, 5, true, Ok(())),
        (compare::EQ, 100, 6, true, cancelled),
        (compare::EQ, 100, 6, false, Ok(())),
        (compare::LT, 100, 6, true, Ok(())),
        (compare::LT, 100, 6, false, cancelled),
        (compare::LE, 100, 4, true, cancelled),
        (compare::LE, 100, 4, false, Ok(())),
        (compare::GT, 100, 4, true, Ok(())),
        (compare::GT, 100, 4, false, cancelled),
        (compare::GE, 101, 0, false, cancelled),
        (5, 100, 5, true, Err(Errno::EINVAL)),
    ];
    for (kind, sec, nsec, precise, told) in times {
        let op = CheckMtimeOp { mtime: UTime { sec, nsec }, kind, precise };
        assert_eq!(call(&mut bench, "obj_check_mtime", &op).map(drop), told, "{op:?}");
    }
    call(&mut bench, "obj_store_pg_ver", &StorePgVerOp { attr: "user.rgw.pg_ver".into() }).expect("stored");
    assert!(bench.xattrs().contains(&("user.rgw.pg_ver".into(), 77u64.to_bytes())));
}

/// A part as a gateway of 18.2 sends it, with rules in its manifest if it has a prefix.
fn part(prefix: &str, past: &[&'static str]) -> Vec<u8> {
    let mut out = Vec::new();
    envelope(&mut out, 5, 2, |out| {
        1u32.encode(out);
        4096u64.encode(out);
        "etag".encode(out);
        UTime { sec: 7, nsec: 8 }.encode(out);
        envelope(out, 8, 6, |out| {
            4096u64.encode(out);
            0u32.encode(out);
            false.encode(out);
            envelope(out, 6, 6, |_| {});
            [0u8; 16].encode(out);
            prefix.encode(out);
            u32::from(!prefix.is_empty()).encode(out);
            if !prefix.is_empty() {
                0u64.encode(out);
                envelope(out, 2, 1, |_| {});
            }
        });
        envelope(out, 2, 1, |_| {});
        4096u64.encode(out);
        past.iter().copied().map(Bytes::from).collect::<BTreeSet<_>>().encode(out);
    });
    out
}

#[test]
fn a_part_that_is_written_again_remembers_its_earlier_prefixes() {
    let mut bench = Bench::default();
    let mut update = |part: &[u8]| {
        let mut input = Vec::new();
        envelope(&mut input, 1, 1, |out| {
            "part.00000001".encode(out);
            out.extend_from_slice(part);
        });
        let result = bench.call("rgw", "mp_upload_part_info_update", &input);
        (result, bench.pairs())
    };
    assert_eq!(update(&part("one", &[])).1, [("part.00000001".into(), part("one", &[]).into())]);
    assert_eq!(update(&part("two", &[])).1[0].1, part("two", &["one"]));
    assert_eq!(update(&part("one", &[])).0, Err(Errno::EEXIST));
    assert_eq!(update(&part("two", &[])).0, Err(Errno::EEXIST));
    let (_, after) = update(&part("three", &[]));
    assert_eq!(after[0].1, part("three", &["one", "two"]));
    let stored = UploadPart::from_bytes(&after[0].1).expect("a part");
    assert_eq!((stored.manifest.prefix(), stored.manifest.is_empty()), (&Bytes::from("three"), false));
    assert_eq!(update(&part("three", &[])[..60]).0, Err(Errno::EINVAL));
}

/// Suggestions and removals of one call, and of several calls in one vector, have ids of their own.
#[test]
fn nothing_in_the_log_is_overwritten() {
    let mut bench = index();
    for name in ["a", "b", "c"] {
        put(&mut bench, &DirEntry { key: ObjKey::plain(name), exists: true, ..DirEntry::default() }, name.as_bytes());
    }
    let update = |name: &'static str| {
        let entry = DirEntry { key: ObjKey::plain(name), exists: true, ..DirEntry::default() };
        [&[b'u' | 0x80][..], &entry.to_vec()].concat()
    };
    let before = bench.clone();
    let ids = |bench: &Bench| bench.pairs().into_iter().filter(|(key, _)| key.starts_with(b"\x800_")).count();
    bench.call("rgw", "dir_suggest_changes", &[update("a"), update("b")].concat()).expect("suggestions");
    assert_eq!(ids(&bench), 2);
    // The second call of a vector sees the header of before.
    let log = bench.pairs();
    bench = Bench { place: (0, 1), ..before };
    bench.call("rgw", "dir_suggest_changes", &update("c")).expect("a suggestion");
    assert!(bench.pairs().iter().all(|(key, _)| !key.starts_with(b"\x800_") || log.iter().all(|(other, _)| other != key)));
    let remove = vec![ObjKey::plain("a"), ObjKey::plain("nothing"), ObjKey::plain("b")];
    let op = CompleteOp { op: modify::DEL, key: ObjKey::plain("c"), log: true, remove, ..CompleteOp::default() };
    call(&mut bench, "bucket_complete_op", &op).expect("complete");
    assert_eq!(ids(&bench), 4);
}

#[test]
fn an_announced_operation_is_lost_after_its_time() {
    let mut bench = index();
    bench.now = UTime { sec: 1000, nsec: 0 };
    let announced = PrepareOp { key: ObjKey::plain("key"), tag: "tag".into(), ..PrepareOp::default() };
    call(&mut bench, "bucket_prepare_op", &announced).expect("announced");
    let waiting = |bench: &Bench| bench.pairs().len() == 1;
    let remove = [&b"r"[..], &DirEntry { key: ObjKey::plain("key"), ..DirEntry::default() }.to_vec()].concat();
    for (sec, still) in [(1000, true), (1120, true), (1121, false)] {
        bench.now.sec = sec;
        bench.call("rgw", "dir_suggest_changes", &remove).expect("a suggestion");
        assert_eq!(waiting(&bench), still, "{sec}");
    }
}
