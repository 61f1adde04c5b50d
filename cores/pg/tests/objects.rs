//! The operations on objects, family by family.

mod bench;

use bench::{Bench, POOL, request};
use bytes::Bytes;
use denc::{Decode, Encode};
use messages::class::otp;
use messages::class::queue::{EnqueueOp, InitOp};
use messages::ops;
use messages::osd::{Op, OpArgs, OsdOp, code::*};
use types::{Errno, Locator, SnapId, UTime};

fn op(code: u16) -> Op {
    Op::new(code, OpArgs::None)
}

fn data(code: u16, offset: u64, text: &[u8]) -> Op {
    Op::extent(code, offset, text.len() as u64, Bytes::copy_from_slice(text))
}

fn range(code: u16, offset: u64, length: u64) -> Op {
    Op::extent(code, offset, length, Bytes::new())
}

fn input(code: u16, input: &impl Encode) -> Op {
    Op { input: input.to_bytes(), ..op(code) }
}

fn content(bench: &mut Bench, name: &str) -> Bytes {
    bench.output(name, vec![range(READ, 0, 0)])
}

fn result(bench: &mut Bench, ops: Vec<Op>) -> i32 {
    bench.run("a", ops).result
}

fn stat(bench: &mut Bench, name: &str) -> ops::Stat {
    ops::Stat::from_bytes(&bench.output(name, vec![op(STAT)])).expect("a stat")
}

#[test]
fn reading_and_writing() {
    let mut bench = Bench::new(1);
    assert_eq!(result(&mut bench, vec![range(READ, 0, 10)]), Errno::ENOENT.wire());
    bench.run("a", vec![data(WRITE, 3, b"abc")]);
    assert_eq!(content(&mut bench, "a"), &b"\0\0\0abc"[..]);
    bench.run("a", vec![data(APPEND, 0, b"def")]);
    assert_eq!(bench.output("a", vec![range(READ, 5, 100)]), "cdef");
    let reply = bench.run("a", vec![range(READ, 5, 100)]);
    assert_eq!(reply.ops[0].args, OpArgs::extent(5, 4), "the reply says how much was read");
    assert_eq!(result(&mut bench, vec![data(APPEND, 0, b"")]), 0);
    bench.run("a", vec![range(TRUNCATE, 4, 0)]);
    assert_eq!(content(&mut bench, "a"), &b"\0\0\0a"[..]);
    bench.run("a", vec![range(TRUNCATE, 6, 0)]);
    assert_eq!(content(&mut bench, "a"), &b"\0\0\0a\0\0"[..]);
    bench.run("a", vec![data(WRITEFULL, 99, b"full")]);
    assert_eq!(content(&mut bench, "a"), "full");
    assert_eq!(stat(&mut bench, "a"), ops::Stat { size: 4, mtime: UTime { sec: 7, nsec: 0 } });
    assert_eq!(result(&mut bench, vec![op(DELETE)]), 0);
    assert_eq!(result(&mut bench, vec![op(DELETE)]), Errno::ENOENT.wire());
    assert_eq!(bench.store.objects().count(), 0);
}

#[test]
fn sizes_and_names_are_limited() {
    let mut bench = Bench::new(1);
    let max = bench.config.max_object_size;
    assert_eq!(result(&mut bench, vec![data(WRITE, max, b"x")]), Errno::EFBIG.wire());
    assert_eq!(result(&mut bench, vec![data(WRITE, max - 1, b"xy")]), Errno::EFBIG.wire());
    assert_eq!(result(&mut bench, vec![data(WRITE, u64::MAX, b"xy")]), Errno::EFBIG.wire());
    assert_eq!(result(&mut bench, vec![op(CREATE), range(TRUNCATE, max + 1, 0)]), Errno::EFBIG.wire());
    assert_eq!(result(&mut bench, vec![op(CREATE), range(ZERO, u64::MAX, u64::MAX)]), Errno::EFBIG.wire());
    assert_eq!(result(&mut bench, vec![Op::extent(WRITE, 0, 5, Bytes::from_static(b"xy"))]), Errno::EINVAL.wire());
    assert_eq!(bench.run(&"n".repeat(2049), vec![op(CREATE)]).result, Errno::ENAMETOOLONG.wire());
    assert_eq!(bench.run(&"n".repeat(2048), vec![op(CREATE)]).result, 0);
    assert_eq!(bench.run("", vec![op(CREATE)]).result, Errno::EINVAL.wire());
    assert_eq!(result(&mut bench, vec![]), Errno::EINVAL.wire());
    assert_eq!(result(&mut bench, vec![op(0x2fff)]), Errno::EOPNOTSUPP.wire());
    assert_eq!(result(&mut bench, vec![Op::xattr(SETXATTR, &[b'n'; 101], b"v")]), Errno::ENAMETOOLONG.wire());
}

#[test]
fn zeros_at_the_end_cut_the_object() {
    let mut bench = Bench::new(1);
    bench.run("a", vec![data(WRITE, 0, b"abcdef")]);
    bench.run("a", vec![range(ZERO, 1, 2)]);
    assert_eq!(content(&mut bench, "a"), &b"a\0\0def"[..]);
    assert_eq!(result(&mut bench, vec![range(ZERO, 0, 0)]), 0, "no bytes is no crash");
    bench.run("a", vec![range(ZERO, 4, 100)]);
    assert_eq!(content(&mut bench, "a"), &b"a\0\0d"[..]);
    assert_eq!(result(&mut bench, vec![range(ZERO, 50, 5)]), 0);
    assert_eq!(content(&mut bench, "a").len(), 4);
    assert_eq!(bench.run("none", vec![range(ZERO, 0, 5)]).result, 0);
    assert_eq!(bench.run("none", vec![op(STAT)]).result, Errno::ENOENT.wire());
}

#[test]
fn patterns_and_comparisons() {
    let mut bench = Bench::new(1);
    let same = |length, data_length, text: &'static [u8]| Op {
        input: Bytes::from_static(text),
        ..Op::new(WRITESAME, OpArgs::WriteSame { offset: 1, length, data_length })
    };
    assert_eq!(result(&mut bench, vec![same(6, 3, b"xyz")]), 0);
    assert_eq!(content(&mut bench, "a"), &b"\0xyzxyz"[..]);
    assert_eq!(result(&mut bench, vec![same(7, 3, b"xyz")]), Errno::EINVAL.wire());
    assert_eq!(result(&mut bench, vec![same(6, 2, b"xyz")]), Errno::EINVAL.wire());
    assert_eq!(result(&mut bench, vec![same(6, 0, b"")]), Errno::EINVAL.wire());
    assert_eq!(result(&mut bench, vec![same(0, 0, b"")]), 0);
    assert_eq!(result(&mut bench, vec![data(CMPEXT, 1, b"xyz"), data(WRITE, 1, b"XYZ")]), 0);
    assert_eq!(result(&mut bench, vec![data(CMPEXT, 1, b"XYz"), data(WRITE, 1, b"...")]), -4095 - 2);
    assert_eq!(content(&mut bench, "a"), &b"\0XYZxyz"[..]);
    assert_eq!(result(&mut bench, vec![data(CMPEXT, 6, b"z\0\0")]), 0, "beyond the end are zeros");
}

#[test]
fn checksums() {
    let mut bench = Bench::new(1);
    bench.run("a", vec![data(WRITE, 0, b"123456789123456789")]);
    let sum = |offset, length, chunk_size, kind, seed: Bytes| Op {
        input: seed,
        ..Op::new(CHECKSUM, OpArgs::Checksum { offset, length, chunk_size, kind })
    };
    let seed32 = || u32::MAX.to_bytes();
    let crcs = bench.output("a", vec![sum(0, 18, 9, checksum_type::CRC32C, seed32())]);
    assert_eq!(Vec::<u32>::from_bytes(&crcs), Ok(vec![!0xe306_9283, !0xe306_9283]));
    let one = bench.output("a", vec![sum(0, 9, 0, checksum_type::CRC32C, seed32())]);
    assert_eq!(Vec::<u32>::from_bytes(&one), Ok(vec![!0xe306_9283]));
    let xx = bench.output("a", vec![sum(0, 0, 0, checksum_type::XXHASH64, 0u64.to_bytes())]);
    assert_eq!(xx.len(), 12);
    assert_eq!(result(&mut bench, vec![sum(0, 10, 9, checksum_type::CRC32C, seed32())]), Errno::EINVAL.wire());
    assert_eq!(result(&mut bench, vec![sum(0, 9, 9, 77, seed32())]), Errno::EINVAL.wire());
    assert_eq!(result(&mut bench, vec![sum(0, 9, 9, checksum_type::CRC32C, Bytes::new())]), Errno::EINVAL.wire());
}

#[test]
fn holes() {
    let mut bench = Bench::new(1);
    bench.run("a", vec![data(WRITE, 8192, b"tail"), data(WRITE, 0, b"head")]);
    let extents = ops::Extents::from_bytes(&bench.output("a", vec![range(MAPEXT, 0, 1 << 20)])).expect("extents");
    assert_eq!(extents.into_iter().collect::<Vec<_>>(), [(0, 4), (8192, 4)]);
    let sparse = bench.output("a", vec![range(SPARSE_READ, 0, 1 << 20)]);
    let (extents, bytes) = ops::parse_sparse_read(&sparse).expect("a sparse read");
    assert_eq!((extents, &bytes[..]), (vec![(0, 4), (8192, 4)], &b"headtail"[..]));
}

#[test]
fn creation_versions_and_hints() {
    let mut bench = Bench::new(1);
    let exclusive = Op { flags: 1, ..op(CREATE) };
    assert_eq!(result(&mut bench, vec![exclusive.clone()]), 0);
    assert_eq!(result(&mut bench, vec![exclusive]), Errno::EEXIST.wire());
    let version = bench.run("a", vec![op(CREATE)]).user_version;
    let assert_version = |version| Op::new(ASSERT_VER, OpArgs::AssertVer { version });
    assert_eq!(result(&mut bench, vec![assert_version(version)]), 0);
    assert_eq!(result(&mut bench, vec![assert_version(version - 1)]), Errno::ERANGE.wire());
    assert_eq!(result(&mut bench, vec![assert_version(version + 1)]), Errno::EOVERFLOW.wire());
    assert_eq!(result(&mut bench, vec![assert_version(0)]), Errno::EINVAL.wire());
    let hint = Op::new(SETALLOCHINT, OpArgs::AllocHint { object_size: 4 << 20, write_size: 4096, flags: 0 });
    assert_eq!(bench.run("hinted", vec![hint]).result, 0);
    assert_eq!(stat(&mut bench, "hinted").size, 0);
}

#[test]
fn attributes() {
    let mut bench = Bench::new(1);
    assert_eq!(result(&mut bench, vec![Op::xattr(RMXATTR, b"n", b"")]), Errno::ENOENT.wire());
    bench.run("a", vec![Op::xattr(SETXATTR, b"n", b"12"), Op::xattr(SETXATTR, b"m", b"x")]);
    assert_eq!(bench.output("a", vec![Op::xattr(GETXATTR, b"n", b"")]), "12");
    assert_eq!(result(&mut bench, vec![Op::xattr(GETXATTR, b"o", b"")]), Errno::ENODATA.wire());
    let all = ops::Pairs::from_bytes(&bench.output("a", vec![op(GETXATTRS)])).expect("attributes");
    assert_eq!(all.keys().collect::<Vec<_>>(), ["m", "n"]);
    let compare = |op: u8, mode: u8, value: &[u8]| {
        let mut compare = Op::xattr(CMPXATTR, b"n", value);
        if let OpArgs::Xattr { cmp_op, cmp_mode, .. } = &mut compare.args {
            (*cmp_op, *cmp_mode) = (op, mode);
        }
        compare
    };
    let canceled = Errno::ECANCELED.wire();
    let texts = [(cmp_op::EQ, 1, canceled), (cmp_op::NE, canceled, 1), (cmp_op::GT, canceled, 1), (cmp_op::GTE, 1, 1)];
    for (op, equal, greater) in texts {
        assert_eq!(result(&mut bench, vec![compare(op, cmp_mode::STRING, b"12")]), equal, "{op}");
        assert_eq!(result(&mut bench, vec![compare(op, cmp_mode::STRING, b"13")]), greater, "{op}");
    }
    let numbers = [(cmp_op::LT, 9u64, 1), (cmp_op::LTE, 12, 1), (cmp_op::LT, 12, canceled), (cmp_op::GT, 100, 1)];
    for (op, number, expected) in numbers {
        assert_eq!(result(&mut bench, vec![compare(op, cmp_mode::U64, &number.to_le_bytes())]), expected, "{op} {number}");
    }
    assert_eq!(result(&mut bench, vec![compare(9, cmp_mode::STRING, b"x")]), Errno::EINVAL.wire());
    assert_eq!(result(&mut bench, vec![compare(cmp_op::EQ, 9, b"x")]), Errno::EINVAL.wire());
    bench.run("a", vec![Op::xattr(RMXATTR, b"n", b"")]);
    assert_eq!(result(&mut bench, vec![Op::xattr(GETXATTR, b"n", b"")]), Errno::ENODATA.wire());
}

fn pairs(of: &[(&str, &str)]) -> ops::Pairs {
    of.iter().map(|(k, v)| (Bytes::copy_from_slice(k.as_bytes()), Bytes::copy_from_slice(v.as_bytes()))).collect()
}

fn vals(bench: &mut Bench, after: &str, max: u64, prefix: &str) -> (Vec<Bytes>, bool) {
    let bytes = |s: &str| Bytes::copy_from_slice(s.as_bytes());
    let wanted = ops::OmapGetVals { start_after: bytes(after), max, prefix: bytes(prefix) };
    let output = bench.output("a", vec![input(OMAPGETVALS, &wanted)]);
    let vals = ops::OmapVals::from_bytes(&output).expect("values");
    (vals.pairs.into_keys().collect(), vals.more)
}

#[test]
fn omap() {
    let mut bench = Bench::new(1);
    assert_eq!(result(&mut bench, vec![op(OMAPCLEAR)]), Errno::ENOENT.wire());
    bench.run("a", vec![input(OMAPSETVALS, &pairs(&[("a1", "1"), ("a2", "2"), ("b1", "3"), ("c", "4")]))]);
    assert_eq!(vals(&mut bench, "", 10, ""), (vec!["a1".into(), "a2".into(), "b1".into(), "c".into()], false));
    assert_eq!(vals(&mut bench, "a1", 1, ""), (vec!["a2".into()], true));
    assert_eq!(vals(&mut bench, "", 10, "b"), (vec!["b1".into()], false));
    assert_eq!(vals(&mut bench, "a1", 10, "a"), (vec!["a2".into()], false));
    assert_eq!(vals(&mut bench, "", 0, ""), (vec![], true));
    let wanted = ops::OmapGetKeys { start_after: "a2".into(), max: 1 };
    let keys = ops::OmapKeys::from_bytes(&bench.output("a", vec![input(OMAPGETKEYS, &wanted)])).expect("keys");
    assert_eq!(keys, ops::OmapKeys { keys: vec!["b1".into()], more: true });
    let keys: ops::Keys = vec!["c".into(), "nosuch".into(), "a1".into()];
    let found = ops::Pairs::from_bytes(&bench.output("a", vec![input(OMAPGETVALSBYKEYS, &keys)])).expect("pairs");
    assert_eq!(found, pairs(&[("a1", "1"), ("c", "4")]));
    bench.run("a", vec![Op { input: "head".into(), ..op(OMAPSETHEADER) }]);
    assert_eq!(bench.output("a", vec![op(OMAPGETHEADER)]), "head");
    let gone: ops::Keys = vec!["a1".into()];
    bench.run("a", vec![input(OMAPRMKEYS, &gone)]);
    bench.run("a", vec![input(OMAPRMKEYRANGE, &ops::OmapRange { first: "b".into(), end: "c".into() })]);
    assert_eq!(vals(&mut bench, "", 10, "").0, ["a2", "c"]);
    assert_eq!(result(&mut bench, vec![Op { input: "x".into(), ..op(OMAPSETVALS) }]), Errno::EINVAL.wire());
    bench.run("a", vec![op(OMAPCLEAR)]);
    assert_eq!(vals(&mut bench, "", 10, ""), (vec![], false));
    assert_eq!(bench.output("a", vec![op(OMAPGETHEADER)]), "");
}

#[test]
fn omap_comparisons() {
    let mut bench = Bench::new(1);
    bench.run("a", vec![input(OMAPSETVALS, &pairs(&[("k", "m")]))]);
    let compare = |key: &'static str, value: &'static str, op: u8| {
        let assertions: ops::OmapAssertions = [(key.into(), (value.into(), i32::from(op)))].into();
        vec![input(OMAP_CMP, &assertions)]
    };
    let canceled = Errno::ECANCELED.wire();
    for (value, op, expected) in [
        ("m", cmp_op::EQ, 0),
        ("n", cmp_op::EQ, canceled),
        ("n", cmp_op::LT, 0),
        ("n", cmp_op::GT, canceled),
        ("a", cmp_op::GT, 0),
    ] {
        assert_eq!(result(&mut bench, compare("k", value, op)), expected, "{value} {op}");
    }
    assert_eq!(result(&mut bench, compare("nosuch", "", cmp_op::EQ)), 0);
    assert_eq!(result(&mut bench, compare("k", "m", cmp_op::GTE)), Errno::EINVAL.wire());
}

#[test]
fn listing() {
    let mut bench = Bench::new(4);
    let mut names: Vec<String> = (0..300).map(|n| format!("object{n}")).collect();
    for name in &names {
        bench.run(name, vec![op(CREATE)]);
    }
    let other = Locator { nspace: "ns".into(), ..Locator::pool(POOL) };
    bench.ask(OsdOp { locator: other.clone(), ..request("hidden", vec![op(CREATE)]) });
    let mut found: Vec<String> = list(&mut bench, 7, Locator::pool(POOL)).into_iter().map(|e| text(&e.name)).collect();
    found.sort();
    names.sort();
    assert_eq!(found, names);
    let hidden = list(&mut bench, 100, other);
    assert_eq!(hidden.iter().map(|e| text(&e.name)).collect::<Vec<_>>(), ["hidden"]);
    let all = list(&mut bench, 1000, Locator { nspace: Bytes::from_static(&[1]), ..Locator::pool(POOL) });
    assert_eq!(all.len(), 301);
    assert_eq!(all.iter().filter(|e| e.nspace == "ns").count(), 1);
}

fn text(bytes: &Bytes) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// All objects of the pool at `locator`, in pages of `count`.
fn list(bench: &mut Bench, count: u64, locator: Locator) -> Vec<ops::ListEntry> {
    let mut entries = Vec::new();
    for id in bench.pgs.keys().copied().collect::<Vec<_>>() {
        let mut cursor = types::HObject { snap: SnapId::HEAD, ..types::HObject::start_of_hash(POOL, id.pg.seed) };
        loop {
            let list = Op { input: cursor.to_bytes(), ..Op::new(PGNLS, OpArgs::List { count, start_epoch: 0 }) };
            let reply = bench.ask(OsdOp { pg: id, locator: locator.clone(), oid: Bytes::new(), ..request("", vec![list]) });
            let page = ops::ListPage::from_bytes(&reply.ops[0].output.contiguous()).expect("a page");
            assert!(page.entries.len() as u64 <= count);
            entries.extend(page.entries);
            cursor = page.next;
            match reply.result {
                0 => {}
                1 => break,
                other => panic!("listing: {other}"),
            }
        }
    }
    entries
}

#[test]
fn what_a_request_looks_at_and_makes_has_a_bound() {
    let mut bench = Bench::new(1);
    let (max, refused) = (bench.config.max_object_size, Errno::EMSGSIZE.wire());
    // The largest object, which is a hole.
    assert_eq!(result(&mut bench, vec![data(WRITE, max - 1, b"x")]), 0);
    let kind = checksum_type::CRC32C;
    let args = OpArgs::Checksum { offset: 0, length: 0, chunk_size: 0, kind };
    let sum = || Op { input: 0u32.to_bytes(), ..Op::new(CHECKSUM, args) };
    assert_eq!(result(&mut bench, vec![sum(), sum()]), 0);
    let reply = bench.run("a", vec![sum(); 800]);
    assert_eq!((reply.result, reply.ops.iter().map(|op| op.output.len()).sum::<usize>()), (refused, 0), "bytes looked at");
    // What makes much out of little.
    let same = |bytes| Op {
        input: Bytes::from_static(b"x"),
        ..Op::new(WRITESAME, OpArgs::WriteSame { offset: 0, length: bytes, data_length: 1 })
    };
    assert_eq!(bench.run("b", vec![same(64 << 20), range(DELETE, 0, 0)]).result, 0);
    assert_eq!(bench.run("b", vec![same(64 << 20), same(64 << 20)]).result, refused, "bytes written");
    let map = || Op::call("rbd", "object_map_resize", &(256_000_000u64, 1u8).to_bytes());
    assert_eq!(bench.run("c", vec![map()]).result, 0);
    assert_eq!(bench.run("c", vec![map(); 20]).result, refused, "bytes that a class makes");
    // What was refused changed nothing.
    assert_eq!(result(&mut bench, vec![range(STAT, 0, 0)]), 0);
    assert_eq!(bench.run("b", vec![range(STAT, 0, 0)]).result, Errno::ENOENT.wire());
    // Pages of a listing, even if they give nothing.
    let id = *bench.pgs.keys().next().expect("a group");
    let page = || Op { input: types::HObject::end().to_bytes(), ..Op::new(PGNLS, OpArgs::List { count: 1000, start_epoch: 0 }) };
    let mut pages = |many| bench.ask(OsdOp { pg: id, ..request("", vec![page(); many]) }).result;
    assert_eq!((pages(4), pages(20)), (1, refused));
}

/// What takes much time or memory and shows in few bytes.
#[test]
fn what_a_request_lists_and_computes_has_a_bound() {
    let mut bench = Bench::new(1);
    let (max, refused) = (bench.config.max_object_size, Errno::EMSGSIZE.wire());
    // A checksum for each byte of a hole.
    assert_eq!(result(&mut bench, vec![data(WRITE, max - 1, b"x")]), 0);
    let mut sums = |chunk_size| {
        let args = OpArgs::Checksum { offset: 0, length: max, chunk_size, kind: checksum_type::CRC32C };
        result(&mut bench, vec![Op { input: 0u32.to_bytes(), ..Op::new(CHECKSUM, args) }])
    };
    assert_eq!([sums(4096), sums(512), sums(8), sums(1)], [0, 0, refused, refused]);
    // Keys: short ones, which need not be there.
    let keys = |n: u32| (0..n).map(|n| Bytes::copy_from_slice(&n.to_be_bytes()[1..])).collect::<Vec<_>>();
    let pairs = |n: u32| keys(n).into_iter().map(|key| (key, Bytes::new())).collect::<Vec<_>>();
    let (few, many) = (100_000, 400_000);
    assert_eq!(bench.run("k", vec![input(OMAPSETVALS, &pairs(many))]).result, refused);
    assert_eq!(bench.run("k", vec![input(OMAPSETVALS, &pairs(few))]).result, 0);
    for (code, input) in [(OMAPGETVALSBYKEYS, keys(many).to_bytes()), (OMAPRMKEYS, keys(many).to_bytes())] {
        assert_eq!(bench.run("k", vec![Op { input, ..op(code) }]).result, refused, "{code:x}");
    }
    let thrice = vec![input(OMAPGETVALSBYKEYS, &keys(few)); 4];
    assert_eq!(bench.run("k", thrice).result, refused, "all operations of a request together");
    // (The store of tests takes long for many.)
    assert_eq!(bench.run("k", vec![input(OMAPRMKEYS, &keys(100))]).result, 0);
    let map = (Bytes::new(), pairs(many)).to_bytes();
    assert_eq!(bench.run("t", vec![Op { input: map, ..op(TMAPPUT) }]).result, refused);
    // What calls of classes list, and what a stored value lists.
    let make = InitOp { size: 1 << 40, ..InitOp::default() };
    assert_eq!(bench.run("q", vec![Op::call("queue", "queue_init", &make.to_bytes())]).result, 0);
    let enqueue = |n: u32| Op::call("queue", "queue_enqueue", &EnqueueOp { entries: vec![Bytes::new(); n as usize] }.to_bytes());
    assert_eq!(bench.run("q", vec![enqueue(many)]).result, refused);
    assert_eq!(bench.run("q", vec![enqueue(few)]).result, 0);
    // (That there are so many devices, another class's call or a plain write says.)
    let header = otp::Header { ids: keys(300_000).into_iter().collect() };
    assert_eq!(bench.run("p", vec![input(OMAPSETVALS, &vec![(Bytes::from_static(b"header"), header.to_bytes())])]).result, 0);
    let get = || Op::call("otp", "otp_get", &otp::GetOp { all: true, ids: Vec::new() }.to_bytes());
    assert_eq!(bench.run("p", vec![get()]).result, Errno::ENOENT.wire(), "what it may list");
    assert_eq!(bench.run("p", vec![range(STAT, 0, 0), get(), get()]).result, Errno::ENOENT.wire());
    let header = otp::Header { ids: keys(many).into_iter().collect() };
    assert_eq!(bench.run("p", vec![input(OMAPSETVALS, &vec![(Bytes::from_static(b"header"), header.to_bytes())])]).result, 0);
    assert_eq!(bench.run("p", vec![get()]).result, refused);
    // Digests that a class makes.
    let id = Bytes::from_static(b"d");
    let device = otp::Info {
        id: id.clone(),
        seed: Bytes::from_static(b"00"),
        seed_kind: 1,
        step: 30,
        window: 100_000,
        ..otp::Info::default()
    };
    let set = otp::SetOp { entries: vec![device] };
    assert_eq!(bench.run("o", vec![Op::call("otp", "otp_set", &set.to_bytes())]).result, 0);
    let trial = otp::CheckOp { id, value: Bytes::from_static(b"000000"), token: Bytes::new() };
    let check = || Op::call("otp", "otp_check", &trial.to_bytes());
    assert_eq!(bench.run("o", vec![check(); 4]).result, 0);
    assert_eq!(bench.run("o", vec![check(); 1_000]).result, refused);
    // Parts of blocks, each of which must be read for what is written.
    let writes = |n: u64| (0..n).map(|n| data(WRITE, n * 1_601, b"x")).collect::<Vec<_>>();
    assert_eq!(bench.run("w", writes(2_000)).result, 0);
    assert_eq!(bench.run("w", writes(5_000)).result, refused);
}

#[test]
fn listing_refuses_cursors_of_other_groups() {
    let mut bench = Bench::new(4);
    let id = *bench.pgs.keys().next().expect("a group");
    let ask = |bench: &mut Bench, input: Bytes| {
        let list = Op { input, ..Op::new(PGNLS, OpArgs::List { count: 5, start_epoch: 0 }) };
        bench.ask(OsdOp { pg: id, ..request("", vec![list]) }).result
    };
    assert_eq!(ask(&mut bench, types::HObject::start_of_hash(POOL, 3).to_bytes()), Errno::EINVAL.wire());
    assert_eq!(ask(&mut bench, Bytes::from_static(b"junk")), Errno::EINVAL.wire());
    assert_eq!(ask(&mut bench, types::HObject::end().to_bytes()), 1);
}

#[test]
fn filtered_and_old_listings() {
    let mut bench = Bench::new(1);
    for (name, value) in [("a", "red"), ("b", "blue"), ("c", "red")] {
        bench.run(name, vec![Op::xattr(SETXATTR, b"color", value.as_bytes())]);
    }
    let id = *bench.pgs.keys().next().expect("a group");
    let args = OpArgs::List { count: 10, start_epoch: 0 };
    let mut ask = |list: Op| bench.ask(OsdOp { pg: id, ..request("", vec![list]) });
    let mut filtered = |kind: &'static str| {
        let (xattr, value) = ("_color".into(), "red".into());
        let filter = ops::ListFilter { kind: kind.into(), xattr, value, cursor: types::HObject::min() };
        let reply = ask(Op { input: filter.to_bytes(), ..Op::new(PGNLS_FILTER, args) });
        let page = ops::ListPage::from_bytes(&reply.ops[0].output.contiguous()).unwrap_or_default();
        let mut names: Vec<String> = page.entries.iter().map(|e| text(&e.name)).collect();
        names.sort();
        (reply.result, names)
    };
    assert_eq!(filtered("plain"), (1, vec!["a".into(), "c".into()]));
    assert_eq!(filtered("hello.hello"), (1, vec!["a".into(), "c".into()]));
    for (kind, refusal) in
        [("hello.nosuch", Errno::EINVAL), ("nosuch.hello", Errno::EPERM), (".", Errno::EINVAL), ("other", Errno::EINVAL)]
    {
        assert_eq!(filtered(kind), (refusal.wire(), Vec::new()), "{kind}");
    }
    let reply = ask(Op { input: types::HObject::min().to_bytes(), ..Op::new(PGLS, args) });
    let page = ops::OldListPage::from_bytes(&reply.ops[0].output.contiguous()).expect("a page");
    assert_eq!((reply.result, page.entries.len()), (1, 3));
}

#[test]
fn copies() {
    let mut bench = Bench::new(4);
    let large: Vec<u8> = (0..20 << 20).map(|n: u32| (n >> 8) as u8).collect();
    for (name, bytes) in [("small", b"content".to_vec()), ("large", large)] {
        bench.run(
            name,
            vec![data(WRITEFULL, 0, &bytes), Op::xattr(SETXATTR, b"n", b"v"), Op { input: "h".into(), ..op(OMAPSETHEADER) }],
        );
        bench.run(name, vec![input(OMAPSETVALS, &pairs(&[("k", "v"), ("l", "w")]))]);
        let copy = |version| {
            let source =
                ops::CopySource { name: Bytes::copy_from_slice(name.as_bytes()), locator: Locator::pool(POOL), truncate: None };
            let args = OpArgs::CopyFrom { snap: SnapId::HEAD, src_version: version, flags: 0, src_fadvise: 0 };
            vec![Op { input: source.to_bytes(), ..Op::new(COPY_FROM, args) }]
        };
        bench.run("a", vec![data(WRITE, 0, &[1; 99]), Op::xattr(SETXATTR, b"old", b"v")]);
        let reply = bench.run("a", copy(0));
        assert_eq!(reply.result, 0);
        let source = bench.run(name, vec![op(STAT)]);
        assert_eq!(reply.user_version, source.user_version, "a copy has its source's version");
        assert_eq!(content(&mut bench, "a"), bytes);
        let all = ops::Pairs::from_bytes(&bench.output("a", vec![op(GETXATTRS)])).expect("attributes");
        assert_eq!(all, pairs(&[("n", "v")]));
        assert_eq!(vals(&mut bench, "", 10, "").0, ["k", "l"]);
        assert_eq!(bench.output("a", vec![op(OMAPGETHEADER)]), "h");
        assert_eq!(result(&mut bench, copy(source.user_version + 1)), Errno::EOVERFLOW.wire());
        assert_eq!(bench.store.objects().filter(|o| o.pool < 0).count(), 0, "nothing is left of what was staged");
    }
    let nosuch = ops::CopySource { name: "nosuch".into(), locator: Locator::pool(POOL), truncate: None };
    let args = OpArgs::CopyFrom { snap: SnapId::HEAD, src_version: 0, flags: 0, src_fadvise: 0 };
    assert_eq!(result(&mut bench, vec![Op { input: nosuch.to_bytes(), ..Op::new(COPY_FROM, args) }]), Errno::ENOENT.wire());
    let own = ops::CopySource { name: "a".into(), locator: Locator::pool(POOL), truncate: None };
    let itself = result(&mut bench, vec![Op { input: own.to_bytes(), ..Op::new(COPY_FROM, args) }]);
    assert_eq!(itself, Errno::EINVAL.wire(), "no copy of itself");
}

#[test]
fn one_request_takes_few_copies_on() {
    let mut bench = Bench::new(1);
    bench.run("source", vec![data(WRITEFULL, 0, b"content")]);
    let source = ops::CopySource { name: "source".into(), locator: Locator::pool(POOL), truncate: None };
    let args = OpArgs::CopyFrom { snap: SnapId::HEAD, src_version: 0, flags: 0, src_fadvise: 0 };
    let mut copies = |many| result(&mut bench, vec![Op { input: source.to_bytes(), ..Op::new(COPY_FROM, args) }; many]);
    assert_eq!((copies(4), copies(5)), (0, Errno::EINVAL.wire()));
    assert_eq!(content(&mut bench, "a"), "content");
}

#[test]
fn only_daemons_read_for_copies() {
    let mut bench = Bench::new(1);
    bench.run("a", vec![op(CREATE)]);
    assert_eq!(result(&mut bench, vec![Op::new(COPY_READ, OpArgs::CopyGet { max: 1 })]), Errno::EPERM.wire());
}

#[test]
fn truncation_numbers_order_writes() {
    let mut bench = Bench::new(1);
    let numbered = |code, offset, length, seq, size, text: &'static [u8]| Op {
        input: Bytes::from_static(text),
        ..Op::new(code, OpArgs::Extent { offset, length, truncate_size: size, truncate_seq: seq })
    };
    bench.run("a", vec![data(WRITE, 0, b"0123456789")]);
    bench.run("a", vec![numbered(TRUNCATE, 4, 0, 2, 4, b"")]);
    assert_eq!(content(&mut bench, "a"), "0123");
    // From before that truncation: only what still exists is written.
    bench.run("a", vec![numbered(WRITE, 2, 6, 1, u64::MAX, b"abcdef")]);
    assert_eq!(content(&mut bench, "a"), "01ab");
    // From after one that has not arrived.
    bench.run("a", vec![numbered(WRITE, 5, 1, 3, 1, b"z")]);
    assert_eq!(content(&mut bench, "a"), &b"0\0\0\0\0z"[..]);
    bench.run("a", vec![numbered(TRUNCATE, 1, 0, 3, 1, b"")]);
    assert_eq!(content(&mut bench, "a").len(), 6, "it arrived already");
    assert_eq!(result(&mut bench, vec![numbered(TRUNCATE, 5, 0, 9, 1, b"")]), Errno::EINVAL.wire());
}

#[test]
fn full_pools_take_deletions_only() {
    let mut bench = Bench::new(1);
    bench.run("a", vec![data(WRITE, 0, b"x")]);
    bench.take_map(|map| map.pools.get_mut(&POOL).expect("the pool").flags |= maps::pool_flags::FULL);
    let try_it = |ops| OsdOp { flags: flags::FULL_TRY, ..request("b", ops) };
    assert_eq!(bench.ask(try_it(vec![data(WRITE, 0, b"x")])).result, Errno::ENOSPC.wire());
    let force = OsdOp { flags: flags::FULL_FORCE, ..request("b", vec![data(WRITE, 0, b"x")]) };
    assert_eq!(bench.ask(force).result, 0);
    let before = bench.sent.len();
    bench.deliver(types::SessionId(10), bench::peer(10), 777, request("c", vec![data(WRITE, 0, b"x")]));
    bench.settle();
    assert_eq!(bench.sent.len(), before, "the client sends it again when the pool is not full");
    assert_eq!(bench.dropped, [(types::SessionId(10), 777)], "what it held is given back");
    assert_eq!(result(&mut bench, vec![op(DELETE)]), 0);
    bench.take_map(|map| {
        map.pools.get_mut(&POOL).expect("the pool").flags = 0;
        map.flags |= maps::flags::FULL;
    });
    assert_eq!(bench.ask(try_it(vec![data(WRITE, 0, b"xy")])).result, Errno::ENOSPC.wire());
}

#[test]
fn blocklisted_clients_are_fenced() {
    let mut bench = Bench::new(1);
    assert_eq!(result(&mut bench, vec![op(CREATE)]), 0);
    let addr = bench::peer(10).addr;
    bench.take_map(|map| {
        map.blocklist.insert(addr, UTime { sec: u32::MAX, nsec: 0 });
    });
    assert_eq!(result(&mut bench, vec![op(STAT)]), Errno::ESHUTDOWN.wire());
}

#[test]
fn calls() {
    let mut bench = Bench::new(1);
    assert_eq!(bench.output("a", vec![Op::call("version", "inc", &messages::class::version::IncOp::default().to_vec())]), "");
    let read = bench.output("a", vec![Op::call("version", "read", b"")]);
    let version = messages::class::version::ReadReply::from_bytes(&read).expect("a version");
    assert_eq!(version.objv.ver, 1);
    assert_eq!(result(&mut bench, vec![Op::call("nosuch", "x", b"")]), Errno::EPERM.wire());
    assert_eq!(result(&mut bench, vec![Op::call("version", "x", b"")]), Errno::EOPNOTSUPP.wire());
    assert_eq!(bench.run("none", vec![Op::call("version", "read", b"")]).result, Errno::ENOENT.wire());
    let short = Op { input: Bytes::from_static(b"ver"), ..Op::call("version", "read", b"") };
    assert_eq!(result(&mut bench, vec![short]), Errno::EINVAL.wire());
}

#[test]
fn statistics_follow_every_change() {
    let mut bench = Bench::new(1);
    bench.run("a", vec![data(WRITE, 0, &[1; 5000])]);
    bench.run("b", vec![data(WRITEFULL, 0, &[1; 100]), input(OMAPSETVALS, &pairs(&[("k", "v")]))]);
    bench.run("a", vec![range(TRUNCATE, 1000, 0)]);
    bench.run("c", vec![op(CREATE)]);
    bench.run("c", vec![op(DELETE)]);
    let stats = |bench: &mut Bench| bench.pgs.values_mut().next().expect("a group").stats().stats;
    let before = stats(&mut bench);
    assert_eq!((before.num_objects, before.num_bytes, before.num_objects_omap), (2, 1100, 1));
    bench.restart();
    let after = stats(&mut bench);
    assert_eq!((after.num_objects, after.num_bytes, after.num_objects_omap), (2, 1100, 1));
}

/// The steps of an update of a trivial map.
fn steps(list: &[(u8, &str, Option<&str>)]) -> Op {
    let mut bytes = Vec::new();
    for (what, first, second) in list {
        what.encode(&mut bytes);
        Bytes::copy_from_slice(first.as_bytes()).encode(&mut bytes);
        second.iter().for_each(|s| Bytes::copy_from_slice(s.as_bytes()).encode(&mut bytes));
    }
    Op { input: bytes.into(), ..op(TMAPUP) }
}

fn tmap(header: &str, pairs: &[(&str, &str)]) -> Bytes {
    let mut bytes = Vec::new();
    Bytes::copy_from_slice(header.as_bytes()).encode(&mut bytes);
    let bytes_of = |s: &str| Bytes::copy_from_slice(s.as_bytes());
    pairs.iter().map(|(k, v)| (bytes_of(k), bytes_of(v))).collect::<ops::Pairs>().encode(&mut bytes);
    bytes.into()
}

#[test]
fn trivial_maps() {
    let mut bench = Bench::new(1);
    assert_eq!(result(&mut bench, vec![op(TMAPGET)]), Errno::ENOENT.wire());
    // An update makes the object; steps come in any order, and the map is kept sorted.
    assert_eq!(result(&mut bench, vec![steps(&[(b's', "b", Some("2")), (b'c', "a", Some("1")), (b'h', "head", None)])]), 0);
    assert_eq!(bench.output("a", vec![op(TMAPGET)]), tmap("head", &[("a", "1"), ("b", "2")]));
    assert_eq!(content(&mut bench, "a"), tmap("head", &[("a", "1"), ("b", "2")]));
    for (list, errno) in [
        (&[(b's', "x", Some("9")), (b'c', "a", Some("3"))][..], Errno::EEXIST),
        (&[(b's', "x", Some("9")), (b'r', "z", None)][..], Errno::ENOENT),
        (&[(b'?', "a", None)][..], Errno::EINVAL),
        (&[(b's', "a", None)][..], Errno::EINVAL),
    ] {
        assert_eq!(result(&mut bench, vec![steps(list)]), errno.wire(), "{list:?}");
    }
    assert_eq!(result(&mut bench, vec![steps(&[])]), 0);
    assert_eq!(result(&mut bench, vec![steps(&[(b'r', "a", None), (b'R', "z", None), (b's', "b", Some(""))])]), 0);
    assert_eq!(bench.output("a", vec![op(TMAPGET)]), tmap("head", &[("b", "")]), "what failed changed nothing");
    // What is put is checked.
    assert_eq!(result(&mut bench, vec![Op { input: Bytes::from_static(b"abc"), ..op(TMAPPUT) }]), Errno::EINVAL.wire());
    assert_eq!(result(&mut bench, vec![op(TMAPPUT)]), Errno::EINVAL.wire());
    assert_eq!(result(&mut bench, vec![Op { input: tmap("h", &[("k", "v")]), ..op(TMAPPUT) }]), 0);
    // Over to the omap, where nothing stays in the data; an empty object is an error unless the client allows it.
    let convert = |flags: u8| {
        let mut args = [0; 28];
        args[0] = flags;
        Op::new(TMAP2OMAP, OpArgs::Raw(args))
    };
    assert_eq!(result(&mut bench, vec![convert(0)]), 0);
    assert_eq!(content(&mut bench, "a"), "");
    assert_eq!(bench.output("a", vec![op(OMAPGETHEADER)]), "h");
    let all = input(OMAPGETVALS, &ops::OmapGetVals { start_after: Bytes::new(), max: 9, prefix: Bytes::new() });
    let vals = ops::OmapVals::from_bytes(&bench.output("a", vec![all])).unwrap();
    assert_eq!(vals.pairs.into_iter().collect::<Vec<_>>(), [("k".into(), "v".into())]);
    assert_eq!(result(&mut bench, vec![convert(0)]), Errno::ENODATA.wire());
    assert_eq!(result(&mut bench, vec![convert(1)]), 0);
    bench.run("b", vec![data(WRITE, 0, b"abc")]);
    for bad in [convert(0), steps(&[(b's', "a", Some("1"))])] {
        assert_eq!(bench.run("b", vec![bad]).result, Errno::EINVAL.wire());
    }
}
