//! The disk without a mount.

use crate::disk::{Disk, Lies};
use crate::rng::Rng;
use crate::tree::ROOT;
use std::collections::BTreeSet;
use std::ffi::OsStr;

fn disk() -> (tempfile::TempDir, Disk) {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::new(dir.path()).unwrap();
    (dir, disk)
}

fn file(disk: &mut Disk, name: &str) -> u64 {
    let node = disk.make(ROOT, OsStr::new(name), libc::S_IFREG, 0o600, (0, 0)).unwrap();
    flush(disk, ROOT);
    node
}

fn write(disk: &mut Disk, node: u64, offset: u64, data: &[u8], durable: bool) {
    let write = disk.begin_write(node, offset, data.to_vec(), durable).unwrap();
    assert_eq!(disk.end_write(write), Ok(data.len() as u32));
}

fn flush(disk: &mut Disk, node: u64) {
    let flush = disk.begin_flush(node).unwrap();
    disk.end_flush(flush).unwrap();
}

fn read(disk: &mut Disk, node: u64) -> Vec<u8> {
    disk.file(node).unwrap().read(0, 1 << 20).unwrap()
}

fn power_cut(disk: &mut Disk, seed: u64) {
    disk.lose(seed).unwrap();
    assert_eq!(disk.begin_write(ROOT + 1, 0, vec![1], true), Err(libc::EIO));
    disk.back();
}

/// Returns what each of many power cuts leaves of a file that `prepare` made.
fn outcomes(prepare: impl Fn(&mut Disk, u64)) -> BTreeSet<Vec<u8>> {
    (0..200)
        .map(|seed| {
            let (_dir, mut disk) = disk();
            let node = file(&mut disk, "f");
            prepare(&mut disk, node);
            power_cut(&mut disk, seed);
            read(&mut disk, node)
        })
        .collect()
}

fn sectors(fill: &[u8]) -> Vec<u8> {
    fill.iter().flat_map(|b| [*b; 512]).collect()
}

#[test]
fn what_was_flushed_stays_and_what_was_not_may_go() {
    let found = outcomes(|disk, f| {
        write(disk, f, 0, &sectors(b"aa"), false);
        flush(disk, f);
        write(disk, f, 0, &sectors(b"bb"), false);
    });
    let all = [b"aa", b"ab", b"ba", b"bb"].map(|f| sectors(f));
    assert_eq!(found, BTreeSet::from(all));
}

#[test]
fn a_flush_covers_what_was_complete_when_it_began() {
    let found = outcomes(|disk, f| {
        write(disk, f, 0, &sectors(b"a"), true);
        let late = disk.begin_write(f, 0, sectors(b"b"), false).unwrap();
        let flush = disk.begin_flush(f).unwrap();
        disk.end_write(late).unwrap();
        disk.end_flush(flush).unwrap();
    });
    assert_eq!(found, BTreeSet::from([sectors(b"a"), sectors(b"b")]));
}

#[test]
fn a_durable_write_covers_itself_alone() {
    let found = outcomes(|disk, f| {
        write(disk, f, 0, &sectors(b"aaa"), false);
        flush(disk, f);
        write(disk, f, 0, &sectors(b"b"), false);
        write(disk, f, 1024, &sectors(b"b"), false);
        write(disk, f, 1024, &sectors(b"c"), true);
    });
    assert_eq!(found, BTreeSet::from([sectors(b"aac"), sectors(b"bac")]), "and what is older never comes back");
}

#[test]
fn a_write_on_its_way_may_be_there_or_not() {
    let found = outcomes(|disk, f| {
        write(disk, f, 0, &sectors(b"aa"), true);
        disk.begin_write(f, 0, sectors(b"bb"), true).unwrap();
    });
    assert_eq!(found, BTreeSet::from([b"aa", b"ab", b"ba", b"bb"].map(|f| sectors(f))));
    let (_dir, mut disk) = disk();
    let f = file(&mut disk, "f");
    let (late, flush) = (disk.begin_write(f, 0, vec![1], true).unwrap(), disk.begin_flush(f).unwrap());
    power_cut(&mut disk, 1);
    assert_eq!(disk.end_write(late), Err(libc::EIO));
    assert_eq!(disk.end_flush(flush), Err(libc::EIO), "also when the power is back");
}

#[test]
fn flushing_one_file_leaves_the_others() {
    let lost = (0..50).any(|seed| {
        let (_dir, mut disk) = disk();
        let (f, g) = (file(&mut disk, "f"), file(&mut disk, "g"));
        write(&mut disk, f, 0, b"f", false);
        write(&mut disk, g, 0, b"g", false);
        flush(&mut disk, f);
        power_cut(&mut disk, seed);
        assert_eq!(read(&mut disk, f), b"f");
        read(&mut disk, g) != b"g"
    });
    assert!(lost);
}

#[test]
fn lengths_and_holes_go_with_what_was_not_flushed() {
    let found = outcomes(|disk, f| {
        write(disk, f, 0, &sectors(b"aaaa"), true);
        disk.set_len(f, 1024).unwrap();
    });
    assert_eq!(found, BTreeSet::from([sectors(b"aaaa"), sectors(b"aa")]));
    let found = outcomes(|disk, f| {
        write(disk, f, 0, &sectors(b"aaaa"), true);
        disk.set_len(f, 512).unwrap();
        disk.set_len(f, 2048).unwrap();
    });
    assert_eq!(found, BTreeSet::from([sectors(b"aaaa"), sectors(b"a"), sectors(b"a\0\0\0")]), "what was cut off is zeros");
    let found = outcomes(|disk, f| {
        write(disk, f, 0, &sectors(b"aaaa"), true);
        disk.allocate(f, libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE, 512, 512).unwrap();
        disk.allocate(f, 0, 0, 2560).unwrap();
    });
    assert!(found.contains(&sectors(b"aaaa")) && found.contains(&sectors(b"a\0aa\0")), "{}", found.len());
    let found = outcomes(|disk, f| write(disk, f, 5000, b"end", true));
    assert_eq!(found.len(), 1, "a durable write that makes a file longer keeps the length");
    assert_eq!(found.first().unwrap().len(), 5003);
}

#[test]
fn names_are_safe_when_their_folder_was_flushed() {
    let mut found = BTreeSet::new();
    for seed in 0..100 {
        let (_dir, mut disk) = disk();
        let old = file(&mut disk, "old");
        write(&mut disk, old, 0, b"old", true);
        let new = disk.make(ROOT, OsStr::new("new"), libc::S_IFREG, 0o600, (0, 0)).unwrap();
        write(&mut disk, new, 0, b"new", true);
        disk.rename((ROOT, OsStr::new("new")), (ROOT, OsStr::new("old"))).unwrap();
        power_cut(&mut disk, seed);
        let names: Vec<String> = disk.folder(ROOT).unwrap().names().keys().map(|n| n.to_str().unwrap().to_owned()).collect();
        let node = disk.look_up(ROOT, OsStr::new("old")).unwrap();
        found.insert((names.join(" "), String::from_utf8(read(&mut disk, node)).unwrap()));
    }
    let all = [("old", "old"), ("new old", "old"), ("old", "new")].map(|(a, b)| (a.to_owned(), b.to_owned()));
    assert_eq!(found, BTreeSet::from(all));
}

#[test]
fn a_lying_disk_loses_what_it_promised() {
    let lost = |lies: Lies, durable: bool| {
        (0..50).any(|seed| {
            let (_dir, mut disk) = disk();
            let f = file(&mut disk, "f");
            disk.lies = lies;
            write(&mut disk, f, 0, b"x", durable);
            if !durable {
                flush(&mut disk, f);
            }
            power_cut(&mut disk, seed);
            read(&mut disk, f) != b"x"
        })
    };
    for durable in [false, true] {
        assert!(!lost(Lies::default(), durable));
        assert!(!lost(Lies { flushes: durable, durable: !durable }, durable));
        assert!(lost(Lies { flushes: !durable, durable }, durable));
    }
}

/// Random writes, flushes and power cuts against a model that keeps, for each sector, all that may be there.
#[test]
fn every_sector_is_one_of_the_versions_since_it_was_safe() {
    const SECTORS: u64 = 40;
    for seed in 0..40 {
        let (_dir, mut disk) = disk();
        let f = file(&mut disk, "f");
        write(&mut disk, f, 0, &vec![0; SECTORS as usize * 512], true);
        let mut model: Vec<Vec<u8>> = vec![vec![0]; SECTORS as usize];
        let mut rng = Rng::new(seed);
        for fill in 1..250u8 {
            match rng.below(12) {
                0 => {
                    flush(&mut disk, f);
                    model.iter_mut().for_each(|s| *s = vec![*s.last().unwrap()]);
                }
                1 => {
                    power_cut(&mut disk, rng.bits());
                    let found = read(&mut disk, f);
                    for (versions, sector) in model.iter_mut().zip(found.chunks(512)) {
                        assert!(sector.iter().all(|b| *b == sector[0]), "seed {seed}: half a sector");
                        assert!(versions.contains(&sector[0]), "seed {seed}: {} is none of {versions:?}", sector[0]);
                        *versions = vec![sector[0]];
                    }
                }
                n => {
                    let (first, durable) = (rng.below(SECTORS), n < 5);
                    let count = 1 + rng.below(SECTORS - first);
                    write(&mut disk, f, first * 512, &vec![fill; count as usize * 512], durable);
                    for versions in &mut model[first as usize..(first + count) as usize] {
                        if durable {
                            versions.clear();
                        }
                        versions.push(fill);
                    }
                }
            }
            let seen = read(&mut disk, f);
            assert!(model.iter().zip(seen.chunks(512)).all(|(v, s)| *v.last().unwrap() == s[0]), "seed {seed}: what is seen");
        }
    }
}
