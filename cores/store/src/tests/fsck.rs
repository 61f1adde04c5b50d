//! The checker of a stopped store.

use super::world::World;
use crate::block::BLOCK;
use crate::block::MOST_BLOCKS;
use crate::config::Config;
use crate::fsck::{Report, Severity, check, repair};
use crate::superblock::{SLOTS, Superblock};

/// A store that was stopped, with objects in it.
fn stopped(seed: u64) -> World {
    let mut world = World::new(seed, false);
    for _ in 0..200 {
        world.submit_one();
        world.settle();
    }
    world.stop();
    world
}

/// Changes both superblocks, and seals them again.
fn forge(world: &mut World, change: impl Fn(&mut Superblock)) {
    for slot in SLOTS {
        let at = slot as usize * BLOCK;
        let Ok(Some(mut sb)) = Superblock::parse(&world.disks[0].bytes()[at..at + BLOCK]) else { continue };
        change(&mut sb);
        world.disks[0].poke(at, &sb.encode());
    }
}

fn fatal(report: &Report) -> Vec<String> {
    report.findings.iter().filter(|f| f.severity == Severity::Fatal).map(|f| f.what.clone()).collect()
}

#[test]
fn a_superblock_that_names_more_than_the_disk_has_is_refused_at_once() {
    let mut world = stopped(5);
    assert_eq!(fatal(&check(&mut world.disks, &Config::default(), true)), [""; 0]);
    forge(&mut world, |sb| sb.blocks = MOST_BLOCKS);
    let report = check(&mut world.disks, &Config::default(), true);
    let told = format!("at least {} are needed", MOST_BLOCKS * BLOCK as u64);
    assert!(matches!(&fatal(&report)[..], [only] if only.contains(&told)), "{report:?}");
    // Nothing behind the superblock was looked at.
    assert_eq!((report.pages, report.objects), (0, 0));
}

#[test]
fn a_ring_that_covers_the_superblocks_or_leaves_the_disk_is_refused() {
    let changes: [fn(&mut Superblock); 5] = [
        |sb| sb.ring_start = 0,
        |sb| sb.ring_len = 0,
        |sb| sb.ring_len = sb.blocks,
        |sb| sb.blocks = sb.ring_start,
        |sb| (sb.separate_journal, sb.blocks) = (true, 3),
    ];
    for (i, change) in changes.into_iter().enumerate() {
        let mut world = stopped(6);
        forge(&mut world, |sb| {
            (sb.claimed, sb.replay_at) = (0, 0);
            change(sb);
        });
        let found = fatal(&check(&mut world.disks, &Config::default(), false));
        assert!(matches!(&found[..], [only] if only.contains("ring lies outside")), "{i}: {found:?}");
    }
}

/// The bytes of the superblock's slots.
fn slots(world: &World) -> Vec<Vec<u8>> {
    SLOTS.iter().map(|slot| world.disks[0].bytes()[*slot as usize * BLOCK..][..BLOCK].to_vec()).collect()
}

#[test]
fn repair_replaces_a_slot_that_is_not_readable_and_no_other() {
    let mut world = stopped(7);
    let whole = slots(&world);
    let at = SLOTS[1] as usize * BLOCK;
    world.disks[0].poke(at, &[0x55; 64]);
    assert!(!check(&mut world.disks, &Config::default(), false).clean());
    assert!(repair(&mut world.disks, &Config::default(), false).clean());
    assert!(check(&mut world.disks, &Config::default(), false).clean());
    // A newer program's slot, sealed as all versions are.
    let mut newer = whole[1].clone();
    newer[8..12].copy_from_slice(&(crate::FORMAT + 1).to_le_bytes());
    let crc = kernels::crc32c(kernels::SEED, &newer[..BLOCK - 4]);
    newer[BLOCK - 4..].copy_from_slice(&crc.to_le_bytes());
    world.disks[0].poke(at, &newer);
    let before = slots(&world);
    let report = repair(&mut world.disks, &Config::default(), false);
    assert!(matches!(&fatal(&report)[..], [only] if only.contains("format version")), "{report:?}");
    assert_eq!(slots(&world), before, "nothing is changed");
}

#[test]
fn somebody_elses_store_is_not_called_clean() {
    let mut world = stopped(8);
    let foreign = Config { uuid: [9; 16], ..Config::default() };
    let report = check(&mut world.disks, &foreign, false);
    assert!(matches!(&fatal(&report)[..], [only] if only.contains("uuid")), "{report:?}");
}
