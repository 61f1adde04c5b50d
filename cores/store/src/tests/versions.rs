//! Versions of stores: one that is older is marked before anything is written, and what it holds stays. One that
//! needs no later version goes back to the program before.

use super::world::World;
use crate::OpenError;
use crate::block::BLOCK;
use crate::flight::Marking;
use crate::index::page::{PageRef, Ptr};
use crate::journal::group::Header;
use crate::mistake::Mistake;
use crate::superblock::{FAMILIES, FIRST, OLDEST, PIECES, PLAIN, SLOTS, Superblock, VERSION};
use bytes::Bytes;

/// The slots that are whole.
fn slots(world: &World) -> [Option<Superblock>; 2] {
    SLOTS.map(|slot| {
        let at = slot as usize * BLOCK;
        let slot = world.disks[0].bytes().get(at..at + BLOCK).map(Superblock::parse);
        slot.and_then(Result::ok).flatten()
    })
}

/// Versions that the slots state; 0 for one that is not whole.
fn marks(world: &World) -> [u32; 2] {
    slots(world).map(|slot| slot.map_or(0, |sb| sb.version))
}

/// Number of pages in pieces below a pointer, as they are on the disk.
fn pages_in_pieces(disk: &[u8], ptr: &Ptr) -> usize {
    let bytes: Vec<u8> = ptr.runs().flat_map(|(at, n)| &disk[at as usize * BLOCK..][..n as usize * BLOCK]).copied().collect();
    let page = PageRef::parse(Bytes::from(bytes), ptr.block).expect("a page of the tree that counts");
    assert_eq!(page.crc, ptr.crc);
    let children = if page.level() > 0 { page.len() } else { 0 };
    let below: usize = (0..children).map(|i| pages_in_pieces(disk, &page.child(i).expect("a pointer"))).sum();
    below + usize::from(ptr.pieces.is_some())
}

/// Returns what a program that knows versions up to [`PLAIN`] must not find, if it opens the store as it is now: by
/// the slot that counts, or by the one that is left if the other rots. None: it finds nothing of that kind, or
/// refuses.
fn misleads_the_older_program(world: &World) -> Option<&'static str> {
    let found: Vec<Superblock> = slots(world).into_iter().flatten().collect();
    for sb in found.iter().filter(|sb| sb.version <= PLAIN) {
        // It would take such a group for the journal's end.
        let (at, ring) = (usize::from(sb.separate_journal), sb.ring_start..sb.ring_start + sb.ring_len);
        assert_eq!(sb.ring_start, FIRST);
        let newer = |block: u64| {
            let head = world.disks[at].bytes().get(block as usize * BLOCK..)?;
            Header::parse(head, &sb.uuid).filter(|head| head.version > PLAIN && head.lsn > sb.replay_lsn)
        };
        if ring.into_iter().any(|block| newer(block).is_some()) {
            return Some("a group of a newer version behind a slot of the older one");
        }
    }
    let newest = found.iter().max_by_key(|sb| sb.generation)?;
    let refuses = found.iter().any(|sb| sb.version > PLAIN);
    let pieces = newest.root.as_ref().map_or(0, |root| pages_in_pieces(world.disks[0].bytes(), root));
    (pieces > 0 && !refuses).then_some("a page in pieces")
}

/// A store of version 1: with an index, and with records in its journal.
fn old(seed: u64) -> World {
    let mut world = World::new(seed, seed.is_multiple_of(2));
    world.store.sb.version = OLDEST;
    // Programs of that version knew no pieces.
    (world.scattered, world.store.space.scatter) = (false, false);
    while marks(&world) != [OLDEST; 2] {
        (0..30).for_each(|_| world.submit_one());
        world.store.due.want(true);
        world.settle();
    }
    for _ in 0..30 {
        world.submit_one();
        world.pump();
    }
    world
}

#[test]
fn a_store_of_version_1_is_opened_and_marked_before_anything_is_written() {
    for seed in 0..4 {
        let mut world = old(seed);
        world.crash();
        assert_eq!((marks(&world), world.store.sb.version), ([PLAIN; 2], PLAIN), "seed {seed}");
        world.check_all();
        world.life(60);
    }
}

#[test]
fn a_marking_that_is_cut_at_any_moment_leaves_a_store_that_goes_on() {
    let mut seen = Vec::new();
    for seed in 0..4 {
        for pumps in 0.. {
            let mut world = old(seed);
            world.settle();
            world.cut();
            world.begin_open();
            for _ in 0..pumps {
                world.pump();
            }
            let (cut, done) = (marks(&world), world.store.ready());
            seen.push(cut);
            world.crash();
            assert_eq!(marks(&world), [PLAIN; 2], "seed {seed}, cut at {cut:?}");
            world.check_all();
            if done {
                break;
            }
        }
    }
    let halves = [[OLDEST, OLDEST], [PLAIN, OLDEST], [OLDEST, PLAIN], [PLAIN, PLAIN]];
    let missed: Vec<_> = halves.iter().filter(|marks| !seen.contains(marks)).collect();
    assert!(missed.len() <= 1, "a cut was never made at {missed:?}");
}

#[test]
fn a_newer_store_is_refused_and_left_as_it_is() {
    let mut world = World::new(1, false);
    world.store.sb.version = VERSION + 1;
    while marks(&world) != [0; 2] {
        (0..30).for_each(|_| world.submit_one());
        world.store.due.want(true);
        world.settle();
    }
    let before = world.disks[0].bytes().to_vec();
    world.begin_open();
    while world.store.open_error().is_none() {
        assert!(!world.store.ready());
        world.pump();
    }
    assert_eq!(world.store.open_error(), Some(&OpenError::TooNew { found: VERSION + 1, known: VERSION }));
    assert_eq!(before, world.disks[0].bytes());
}

#[test]
fn a_store_without_pages_in_pieces_keeps_the_version_of_the_program_before() {
    for seed in 0..6 {
        let mut world = World::new(seed, seed.is_multiple_of(2));
        (world.scattered, world.store.space.scatter) = (false, false);
        copy_omaps(&mut world);
        for _ in 0..4 {
            world.life(60);
            world.store.due.want(true);
            world.settle();
            assert_eq!((marks(&world), misleads_the_older_program(&world)), ([PLAIN; 2], None), "seed {seed}");
            world.restart();
        }
    }
}

/// Clones copy their omaps, however large those are.
fn copy_omaps(world: &mut World) {
    world.config.copied_omap = u64::MAX;
    world.store.config.copied_omap = u64::MAX;
}

/// A store of [`PLAIN`], about to make its first checkpoint with pages in pieces.
fn before_the_first_pieces(seed: u64, mistake: Option<Mistake>) -> World {
    let mut world = World::new(seed, seed.is_multiple_of(2));
    (world.scattered, world.store.space.scatter) = (false, false);
    copy_omaps(&mut world);
    // The slot that is written first is not always the same.
    for _ in 0..2 + seed / 2 {
        (0..40).for_each(|_| world.submit_one());
        world.store.due.want(true);
        world.settle();
    }
    assert_eq!(marks(&world), [PLAIN; 2]);
    (0..20).for_each(|_| world.submit_one());
    world.store.mistake = mistake;
    (world.scattered, world.store.space.scatter) = (true, true);
    world.store.due.want(true);
    world
}

#[test]
fn the_first_page_in_pieces_is_marked_before_it_counts_whenever_power_is_lost() {
    let mut seen = Vec::new();
    for seed in 1..6 {
        for pumps in 0.. {
            let mut world = before_the_first_pieces(seed, None);
            for i in 0..pumps {
                // Records of the older version go on while the mark is made.
                if i % 7 == 0 {
                    world.submit_one();
                }
                world.pump();
            }
            assert_eq!(misleads_the_older_program(&world), None, "seed {seed}, after {pumps}");
            let done = marks(&world) == [PIECES; 2];
            world.cut();
            assert_eq!(misleads_the_older_program(&world), None, "seed {seed}, cut after {pumps}");
            seen.push(marks(&world));
            world.reopen();
            world.check_all();
            world.life(10);
            world.store.due.want(true);
            world.settle();
            assert_eq!(misleads_the_older_program(&world), None, "seed {seed}, later");
            if done {
                break;
            }
        }
    }
    let kinds = [[PLAIN, PLAIN], [PIECES, PLAIN], [PLAIN, PIECES], [PIECES, PIECES]];
    let missed: Vec<_> = kinds.iter().filter(|marks| !seen.contains(marks)).collect();
    assert!(missed.is_empty(), "a cut was never made at {missed:?}");
}

#[test]
fn a_mark_that_comes_with_the_flip_only_would_be_seen() {
    let misled = (0..4).any(|seed| {
        let mut world = before_the_first_pieces(seed, Some(Mistake::FlipUnmarked));
        (0..4000).any(|i| {
            if i % 7 == 0 {
                world.submit_one();
            }
            world.pump();
            misleads_the_older_program(&world).is_some()
        })
    });
    assert!(misled, "the mistake was not seen");
}

/// Returns true if something in memory says that omaps are shared, which the version before does not understand.
fn shares(world: &World) -> bool {
    let overlay = &world.store.overlay;
    let shared =
        |delta: &crate::index::delta::Delta| delta.keys.iter().any(|(key, _)| key.first() == Some(&crate::index::keys::FAMILY));
    shared(overlay.active()) || overlay.frozen().is_some_and(shared)
}

/// A store of [`PLAIN`] whose next clone of an omap shares it.
fn before_the_first_shared(seed: u64) -> World {
    let mut world = World::new(seed, seed.is_multiple_of(2));
    (world.scattered, world.store.space.scatter) = (false, false);
    copy_omaps(&mut world);
    world.omaps = true;
    for _ in 0..2 + seed {
        (0..20).for_each(|_| world.submit_one());
        world.store.due.want(true);
        world.settle();
    }
    // The slot that is written first is not always the same.
    if seed % 2 == 1 {
        let before = world.store.sb.generation;
        world.submit_one();
        world.store.due.want(true);
        while world.store.sb.generation == before {
            // What was submitted may have changed nothing.
            if world.store.checkpoint.is_none() && !world.store.overlay.has_news() {
                world.submit_one();
                world.store.due.want(true);
            }
            world.pump();
        }
    }
    assert!(marks(&world).iter().all(|mark| *mark <= PLAIN) && !shares(&world));
    world.store.config.copied_omap = 0;
    world
}

#[test]
fn the_first_shared_omap_waits_for_the_mark_whenever_power_is_lost() {
    let mut seen = Vec::new();
    for seed in 0..6 {
        for pumps in 0.. {
            let mut world = before_the_first_shared(seed);
            for i in 0..pumps {
                if i % 5 == 0 {
                    world.submit_one();
                }
                assert!(!shares(&world) || marks(&world) == [FAMILIES; 2], "seed {seed}, after {i} of {pumps}");
                world.pump();
            }
            let done = shares(&world);
            world.cut();
            seen.push(marks(&world));
            world.fsck();
            world.reopen();
            world.check_all();
            world.life(10);
            if done {
                break;
            }
        }
    }
    for half in [[PLAIN, FAMILIES], [FAMILIES, PLAIN], [PLAIN, PLAIN], [FAMILIES, FAMILIES]] {
        assert!(seen.contains(&half), "a cut was never made at {half:?}");
    }
}

#[test]
fn a_mark_in_one_slot_only_would_be_seen() {
    let seen = (0..4).any(|seed| {
        let mut world = before_the_first_shared(seed);
        world.store.mistake = Some(Mistake::MarkOnce);
        (0..2000).any(|i| {
            if i % 5 == 0 {
                world.submit_one();
            }
            world.pump();
            shares(&world) && marks(&world) != [FAMILIES; 2]
        })
    });
    assert!(seen, "the mistake was not seen");
}

#[test]
fn the_mark_of_shared_omaps_waits_for_no_checkpoint() {
    let mut beside = 0;
    for seed in 0..20 {
        let mut world = before_the_first_shared(seed);
        // A checkpoint is under way most of the time.
        while world.store.marking == Marking::None {
            world.submit_one();
            world.store.due.want(true);
            world.pump();
        }
        let (tree, under_way) = (world.store.sb.tree, world.store.checkpoint.is_some());
        while world.store.sb.version < FAMILIES {
            world.pump();
        }
        // One that writes its superblock already may end first.
        let flips = world.store.sb.tree - tree;
        assert!(flips <= 1, "seed {seed}: {flips} checkpoints ended first");
        beside += u64::from(under_way && flips == 0);
        world.settle();
        world.fsck();
        world.check_all();
    }
    assert!(beside >= 5, "{beside} of 20 marks were made beside a checkpoint");
}

#[test]
fn a_store_that_waits_for_the_mark_stops_cleanly() {
    for seed in 0..6 {
        let mut world = World::new(seed, false);
        (world.omaps, world.store.config.copied_omap) = (true, 0);
        while world.store.marking == Marking::None {
            world.submit_one();
        }
        world.restart();
        world.check_all();
        assert_eq!(world.store.sb.version, FAMILIES);
    }
}
