//! Stores of every format version: opened, converted, cut off at any moment of it.

mod common;

use common::{Disk, World, config};
use mon::{AuthMode, Config};
use node::DiskOp;
use std::io::Read;
use types::Fsid;

const BLOCK: usize = 4096;
/// Bytes of an area in these tests; the archive's store has so large ones that copies of it would take long.
const AREA: u64 = 1 << 20;

fn path(name: &str) -> String {
    format!("{}/../../tests/data/formats/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// The monitor's store in the archive of version 1, as that program left it when it was killed; its second area, which
/// was never used, is moved.
#[allow(clippy::disallowed_methods, reason = "a test reads its data")]
fn version_1() -> Disk {
    let file = std::fs::File::open(path("v1.tar.xz")).expect("the archive is in the repository");
    let mut archive = tar::Archive::new(liblzma::read::XzDecoder::new(file));
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        if !entry.path().unwrap().ends_with("mon/store") {
            continue;
        }
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        assert!(bytes[2 * BLOCK..4 * BLOCK].iter().all(|b| *b == 0), "one superblock");
        for block in bytes[..2 * BLOCK].chunks_exact_mut(BLOCK) {
            block[36..44].copy_from_slice(&AREA.to_le_bytes());
            let crc = kernels::crc32c(kernels::SEED, &block[..BLOCK - 4]);
            block[BLOCK - 4..].copy_from_slice(&crc.to_le_bytes());
        }
        return Disk::of(bytes);
    }
    panic!("no store in the archive")
}

fn of_cluster(disk: &Disk) -> Config {
    let fsid = Fsid(std::array::from_fn(|i| disk.bytes[12 + i]));
    Config { fsid, ..config(AuthMode::Cephx) }
}

/// The format version in each slot; 0 for one that was never written.
fn versions(disk: &Disk) -> [u32; 2] {
    [0, 2 * BLOCK].map(|slot| u32::from_le_bytes(std::array::from_fn(|i| disk.bytes[slot + 8 + i])))
}

fn opened(disk: Disk) -> World {
    let world = World::with(of_cluster(&disk), disk);
    assert_eq!(world.fatal, None);
    world
}

/// What users had in the cluster of version 1.
fn check_content(world: &mut World) {
    let pools = world.ok(r#"{"prefix":"osd lspools"}"#);
    assert!(pools.contains("data") && pools.contains("snaps"), "{pools}");
    let reader = world.ok(r#"{"prefix":"auth get","entity":"client.reader"}"#);
    assert!(reader.contains("allow r pool=data"), "{reader}");
    assert_eq!(world.ok(r#"{"prefix":"config get","who":"osd.0","key":"osd_max_object_size"}"#).trim(), "130000000");
}

fn set(world: &mut World, key: &str) {
    world.ok(&format!(r#"{{"prefix":"config-key set","key":"{key}","val":"v"}}"#));
}

fn has(world: &mut World, key: &str) -> bool {
    world.call(&format!(r#"{{"prefix":"config-key exists","key":"{key}"}}"#)).0 == 0
}

#[test]
fn a_store_of_version_1_is_converted_with_all_that_is_in_it() {
    let old = version_1();
    assert_eq!(versions(&old), [1, 0]);
    let mut world = opened(old.clone());
    check_content(&mut world);
    assert!(world.log.iter().any(|l| l.contains("version 1 is converted")), "{:?}", world.log);
    assert_eq!(versions(&world.disk), [1, 2]);
    set(&mut world, "new");
    let mut again = opened(world.disk.clone());
    check_content(&mut again);
    assert!(has(&mut again, "new"));
    assert!(!again.log.iter().any(|l| l.contains("converted")), "once is enough");
    let checked = |disk: &Disk| {
        let mut read = |at: u64, buf: &mut [u8]| {
            buf.copy_from_slice(&disk.bytes[at as usize..at as usize + buf.len()]);
            Ok(())
        };
        mon::check_store(&mut read, disk.bytes.len() as u64, of_cluster(disk).fsid.0)
    };
    let (before, after) = (checked(&old), checked(&again.disk));
    assert!(before.fatal.is_empty() && after.fatal.is_empty(), "{before:?} {after:?}");
    assert!(after.epoch >= before.epoch && after.last > before.last);
}

/// A kill or a power cut at any sector of any write of the conversion: the store is of version 1 still, or of version
/// 2, and has everything.
#[test]
fn a_conversion_that_is_cut_off_anywhere_is_done_again_or_is_done() {
    let old = version_1();
    let mut world = World::resting(of_cluster(&old), old.clone());
    world.hold = true;
    world.run();
    let (mut writes, mut found) = (0, [0; 2]);
    while let Some(request) = world.held.pop_front() {
        if let DiskOp::Write { offset, data, .. } = &request.op
            && versions(&world.disk)[1] == 0
        {
            writes += 1;
            let data = data.to_vec();
            for cut in (0..=data.len()).step_by(512) {
                let mut disk = world.disk.clone();
                disk.write(*offset, &data[..cut]);
                let second = versions(&disk)[1];
                found[usize::from(second == 2)] += 1;
                let mut cut_off = opened(disk);
                check_content(&mut cut_off);
                assert_eq!(versions(&cut_off.disk), [1, 2], "write {writes} cut at {cut}");
                set(&mut cut_off, "after");
                let mut again = opened(cut_off.disk.clone());
                check_content(&mut again);
                assert!(has(&mut again, "after"), "write {writes} cut at {cut}");
            }
        }
        let before = world.disk.bytes[..2 * BLOCK].to_vec();
        world.do_disk(request);
        assert!(world.disk.bytes[..2 * BLOCK] == before[..], "the old superblock stays until version 2 is in force");
        world.run();
        if world.monitor.is_serving() {
            break;
        }
    }
    assert!(writes == 2 && found.iter().all(|n| *n > 2), "{writes} writes, {found:?} stores of version 1 and 2");
}

#[test]
fn a_full_host_keeps_a_store_of_version_1_as_it_is_until_there_is_space() {
    let old = version_1();
    let mut world = World::resting(of_cluster(&old), old.clone());
    world.no_space = true;
    world.run();
    assert!(world.fatal.is_none() && !world.monitor.is_serving());
    assert!(world.log.iter().any(|l| l.contains("disk is full")), "{:?}", world.log);
    assert!(world.disk.bytes[..old.bytes.len()] == old.bytes[..]);
    world.no_space = false;
    world.pass(std::time::Duration::from_secs(3));
    check_content(&mut world);
}

/// What a program of version 1 looks at: a whole block whose version is larger than its own.
#[test]
fn a_program_of_version_1_sees_that_the_store_is_newer() {
    let world = opened(version_1());
    let block = &world.disk.bytes[2 * BLOCK..3 * BLOCK];
    assert_eq!(&block[..8], b"nacremon");
    assert_eq!(block[BLOCK - 4..], kernels::crc32c(kernels::SEED, &block[..BLOCK - 4]).to_le_bytes());
    assert_eq!(u32::from_le_bytes(std::array::from_fn(|i| block[8 + i])), 2);
}

/// A store of version 2 as it was written when that version was made.
#[test]
#[allow(clippy::disallowed_methods, reason = "a test reads its data")]
fn a_store_of_version_2_is_read() {
    let file = std::fs::File::open(path("monitor-v2.xz")).expect("the archive is in the repository");
    let mut bytes = Vec::new();
    liblzma::read::XzDecoder::new(file).read_to_end(&mut bytes).unwrap();
    let mut world = opened(Disk::of(bytes));
    assert!((0..8).all(|n| has(&mut world, &format!("folded{n}"))), "behind the snapshot and in it");
    assert!(has(&mut world, "last"));
    assert!(world.ok(r#"{"prefix":"osd lspools"}"#).contains("pool"));
}

/// Writes the archive of the version that is current: `cargo test -p mon --test formats -- --ignored`.
#[test]
#[ignore = "makes an archive"]
#[allow(clippy::disallowed_methods, reason = "a tool for whoever makes the next version")]
fn make_an_archive() {
    let config = Config { log_bytes: 32 << 10, ..config(AuthMode::None) };
    let mut world = World::with(config, Disk::default());
    world.boot_osd(0);
    world.ok(r#"{"prefix":"osd pool create","pool":"pool","pg_num":8}"#);
    for n in 0..8 {
        let text = "x".repeat(3000);
        world.ok(&format!(r#"{{"prefix":"config-key set","key":"folded{n}","val":"{text}"}}"#));
    }
    set(&mut world, "last");
    let mut end = world.disk.bytes.len();
    while end > BLOCK && world.disk.bytes[end - BLOCK..end].iter().all(|b| *b == 0) {
        end -= BLOCK;
    }
    let mut packed = Vec::new();
    liblzma::read::XzEncoder::new(&world.disk.bytes[..end], 9).read_to_end(&mut packed).unwrap();
    std::fs::write(path("monitor-v2.xz"), packed).unwrap();
}
