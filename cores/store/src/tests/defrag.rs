//! Objects that were overwritten at random come into one piece again, and what must not move stays.

use super::aging::{Rig, an_aged_image, dice, object, small};
use crate::Config;
use crate::block::BLOCK;
use crate::sparse::filler;
use bytes::Bytes;
use node::{DiskOp, Mono};
use objectstore::*;
use std::collections::BTreeSet;
use types::{HObject, ObjectId, SnapId};

const OBJECT: u64 = 1024;

/// Reads that a whole object takes with nothing in memory.
fn reads(rig: &mut Rig, n: u64) -> u64 {
    rig.store.drop_caches();
    let before = rig.reads;
    let data = rig.read(|s, hold| s.read(hold, &object(n), 0, u64::MAX));
    assert_eq!(data.len() as u64, OBJECT * BLOCK as u64);
    rig.reads - before
}

fn all_reads(rig: &mut Rig, objects: u64) -> u64 {
    (0..objects).map(|n| reads(rig, n)).sum()
}

/// Lets it walk through all objects so many times at most.
fn walk(rig: &mut Rig, times: u64) {
    rig.store.defragment_eagerly();
    let walks = rig.store.counters().defrag.walks;
    for _ in 0..400_000 {
        rig.round();
        // It rests when a walk has found nothing more to do.
        let rests = rig.store.defragment_at() == Mono::NEVER && !rig.store.defragments();
        if rests || rig.store.counters().defrag.walks >= walks + times {
            rig.store.set_defragment(false);
            rig.checkpoint();
            return;
        }
    }
    panic!("a walk does not end: {:?}", rig.store.counters().defrag);
}

#[test]
fn an_image_overwritten_at_random_is_brought_together() {
    let (mut rig, objects, _) = an_aged_image(60, 1);
    let aged = all_reads(&mut rig, objects);
    assert!(aged > 100 * objects, "{aged} reads of {objects} objects");
    walk(&mut rig, 40);
    let defrag = rig.store.counters().defrag;
    let better = all_reads(&mut rig, objects);
    assert!(better < 20 * objects, "{better} reads of {objects} objects, {aged} before; {defrag:?}");
    assert!(defrag.parts >= objects && defrag.changed == 0 && defrag.damaged == 0, "{defrag:?}");
    // There is nothing left to do.
    rig.check();
    rig.reopen();
    assert_eq!(all_reads(&mut rig, objects), better);
}

#[test]
fn what_others_share_stays() {
    let (mut rig, objects, mut x) = an_aged_image(40, 1);
    for n in 0..objects {
        rig.submit(object(1000 + n), ObjectChange::CloneOf(object(n))).expect("room");
    }
    rig.checkpoint();
    let used = rig.store.space().data;
    walk(&mut rig, 1);
    assert_eq!((rig.store.counters().defrag.parts, rig.store.space().data), (0, used), "all is shared");
    // Half of the first object is its own now, and lies scattered.
    let mut own = BTreeSet::new();
    for _ in 0..800 {
        let at = dice(&mut x) % OBJECT;
        own.insert(at);
        rig.submit(object(0), ObjectChange::Write(at * BLOCK as u64, filler(1))).expect("room");
        rig.submit(object(1 + at % (objects - 1)), ObjectChange::Write(at * BLOCK as u64, filler(1))).expect("room");
    }
    rig.checkpoint();
    let used = rig.store.space().data;
    walk(&mut rig, 1);
    assert_eq!(rig.store.space().data, used, "nothing is there twice");
    for n in 0..objects {
        rig.submit(object(1000 + n), ObjectChange::Remove).expect("removals");
    }
    rig.checkpoint();
    walk(&mut rig, 40);
    let reads = all_reads(&mut rig, objects);
    assert!(reads < 20 * objects, "nothing is shared any more: {reads} reads, {:?}", rig.store.counters().defrag);
    rig.check();
}

/// The clone of an object for a snapshot.
fn clone_of(n: u64, snap: u64) -> ObjectId {
    let head = object(n);
    ObjectId { object: HObject { snap: SnapId(snap), ..HObject::clone(&head.object) }.into(), ..head }
}

#[test]
fn what_snapshots_share_comes_together_in_all_of_them() {
    let (mut rig, objects, mut x) = an_aged_image(40, 1);
    let bytes = |rig: &mut Rig, object: &ObjectId| rig.read(|s, hold| s.read(hold, object, 0, u64::MAX)).to_vec();
    let mut want = Vec::new();
    for snap in [3, 4, 7] {
        for n in 0..objects {
            rig.submit(clone_of(n, snap), ObjectChange::CloneOf(object(n))).expect("room");
        }
        for _ in 0..10 * objects {
            let (n, at) = (dice(&mut x) % objects, dice(&mut x) % OBJECT);
            let data = Bytes::from(vec![dice(&mut x) as u8; BLOCK]);
            rig.submit(object(n), ObjectChange::Write(at * BLOCK as u64, data.into())).expect("room");
        }
    }
    rig.checkpoint();
    let aged = all_reads(&mut rig, objects);
    for n in [0, 1, objects - 1] {
        for object in [object(n), clone_of(n, 3), clone_of(n, 4), clone_of(n, 7)] {
            want.push((object.clone(), bytes(&mut rig, &object)));
        }
    }
    let used = rig.store.space().data;
    walk(&mut rig, 40);
    let defrag = rig.store.counters().defrag;
    let better = all_reads(&mut rig, objects);
    assert!(aged > 100 * objects && better < 20 * objects, "{better} reads of {objects} objects, {aged} before; {defrag:?}");
    assert_eq!((rig.store.space().data, defrag.changed), (used, 0), "nothing is there twice: {defrag:?}");
    rig.check();
    rig.reopen();
    for (object, data) in &want {
        assert!(bytes(&mut rig, object) == *data, "{object} has other bytes");
    }
}

#[test]
fn what_is_damaged_does_not_move() {
    let (mut rig, objects, _) = an_aged_image(40, 1);
    // One block of each of two objects, where it lies on the disk.
    let mut hurt = Vec::new();
    for n in [3, 7] {
        let stat = rig.read(|s, hold| Ok(s.eye(crate::wish::Owner::Hold(hold)).onode(&object(n))?.map(|o| o.id)));
        let id = stat.expect("it is there");
        let patch = rig.read(|s, hold| s.eye(crate::wish::Owner::Hold(hold)).view(None).extents((id, 20)));
        let (_, block) = patch.iter().nth(5).expect("data");
        hurt.push((n, id, block));
        let data = Bytes::from(vec![0xa5; BLOCK]).into();
        rig.disk.answer(DiskOp::Write { offset: block.place.0 * BLOCK as u64, data, durable: true }).expect("a place");
    }
    rig.store.drop_caches();
    walk(&mut rig, 40);
    let defrag = rig.store.counters().defrag;
    assert!(defrag.damaged >= 2 && defrag.parts >= objects - 2, "all others move: {defrag:?}");
    let told: BTreeSet<ObjectId> = rig.rotten.iter().cloned().collect();
    assert_eq!(told, BTreeSet::from([object(3), object(7)]), "their groups are told");
    for (n, id, block) in hurt {
        let patch = rig.read(|s, hold| s.eye(crate::wish::Owner::Hold(hold)).view(None).extents((id, 20)));
        assert!(patch.iter().any(|(_, now)| now == block), "object {n} has the block where it was, with the same checksum");
        rig.store.drop_caches();
        let hold = Hold(5);
        let damage = loop {
            match rig.store.read(hold, &object(n), 20 * 65536 + 5 * BLOCK as u64, BLOCK as u64) {
                Err(Unread::Missing(wish)) => rig.store.fetch(hold, wish),
                other => break other,
            }
            rig.round();
        };
        assert!(matches!(damage, Err(Unread::Damaged(_))), "{damage:?}");
    }
}

#[test]
fn a_full_disk_and_busy_clients_are_left_alone() {
    // Hardly any chunk is wholly free.
    let (mut rig, objects, mut x) = an_aged_image(92, 6);
    rig.store.defragment_eagerly();
    (0..20_000).for_each(|_| rig.round());
    assert_eq!(rig.store.counters().defrag.parts, 0, "{:?}", rig.store.space.empty_chunks());
    // It looks again from time to time, and not all the time.
    rig.store.scattered.haste = crate::scattered::Haste::None;
    rig.round();
    let (now, at) = (Mono(rig.now), rig.store.defragment_at());
    assert!(at == Mono::NEVER || at > now, "{at:?}");
    for n in 0..objects / 2 {
        rig.submit(object(n), ObjectChange::Remove).expect("removals");
    }
    rig.checkpoint();
    // While clients write, the pause behind a step is longer than the step.
    rig.store.defragment_now();
    let (began, mut steps) = (rig.now, 0);
    while rig.now < began + 3_000_000_000 {
        let before = rig.store.counters().defrag;
        let at = dice(&mut x) % OBJECT * BLOCK as u64;
        rig.submit(object(objects - 1), ObjectChange::Write(at, filler(1))).expect("room");
        rig.round();
        steps += u64::from(rig.store.counters().defrag != before);
    }
    assert!(steps > 0 && steps < 300, "{steps} steps in three seconds");
    rig.check();
}

/// A client overwrites a block while the part that it is in is read. Gives whether its bytes are there afterwards.
fn overwritten_meanwhile(mistake: Option<crate::mistake::Mistake>) -> bool {
    let (mut rig, objects, _) = an_aged_image(30, 1);
    rig.store.mistake = mistake;
    rig.store.defragment_eagerly();
    for _ in 0..100_000 {
        rig.round();
        let part = match &rig.store.scattered.stage {
            crate::scattered::Stage::Read(part) if part.moving.len() > 500 && part.read.len() < 400 => part,
            _ => continue,
        };
        let spot = part.spots[7];
        let found = rig.store.scattered.at.clone().expect("an object");
        let object = &found.members[spot.member].object;
        let at = (u64::from(spot.range) * 16 + u64::from(spot.i)) * BLOCK as u64;
        let news = Bytes::from(vec![0x77; BLOCK]);
        rig.submit(object.clone(), ObjectChange::Write(at, news.clone().into())).expect("room");
        let walks = rig.store.counters().defrag.walks;
        while rig.store.counters().defrag.walks == walks {
            rig.round();
        }
        let changed = rig.store.counters().defrag.changed;
        assert_eq!(changed, u64::from(mistake.is_none()), "it sees that the part changed");
        rig.store.set_defragment(false);
        rig.checkpoint();
        rig.store.drop_caches();
        return rig.read(|s, hold| s.read(hold, object, at, BLOCK as u64)).to_vec() == news;
    }
    panic!("no part of {objects} objects is read: {:?}", rig.store.counters().defrag);
}

#[test]
fn what_clients_change_meanwhile_is_not_lost() {
    assert!(overwritten_meanwhile(None));
    assert!(!overwritten_meanwhile(Some(crate::mistake::Mistake::MoveUnlooked)), "who does not look loses it");
}

#[test]
fn a_day_has_an_end() {
    let (mut rig, _, _) = an_aged_image(60, 1);
    rig.store.set_defragment(true);
    let total = rig.store.space.total();
    let mut moved = 0;
    for day in 1..=2 {
        rig.store.defragment_now();
        let morning = rig.now;
        loop {
            rig.round();
            let at = rig.store.deadline();
            if at > Mono(rig.now) {
                rig.now = at.0.min(morning + 3 * 86_400_000_000_000);
            }
            let now = rig.store.counters().defrag.bytes / BLOCK as u64 - moved;
            assert!(now <= total / 8 + 1024, "{now} blocks of {total} on day {day}");
            if rig.now > morning + 80_000_000_000_000 {
                break;
            }
        }
        let now = rig.store.counters().defrag.bytes / BLOCK as u64;
        assert!(now - moved >= total / 8, "{} blocks of {total} on day {day}: the walk did not use what it may", now - moved);
        moved = now;
        // To the end of the day.
        rig.now = rig.now.max(morning + 86_400_000_000_000);
    }
}

#[test]
fn it_is_off_until_it_is_switched_on() {
    let mut rig = Rig::new(Config { journal_bytes: 24 << 20, ..small() }, 64 << 20);
    assert_eq!(rig.store.defragment_at(), Mono::NEVER);
    rig.store.set_defragment(true);
    assert!(rig.store.defragment_at() > Mono(rig.now + 60_000_000_000), "the first walk is not soon");
    rig.store.defragment_now();
    (0..1000).for_each(|_| rig.round());
    assert_eq!(rig.store.counters().defrag.walks, 1);
    assert_eq!(rig.store.defragment_at(), Mono::NEVER, "nothing changed: there is nothing to look for");
    rig.submit(object(1), ObjectChange::Write(0, filler(1))).expect("room");
    (0..100).for_each(|_| rig.round());
    assert_eq!(rig.store.defragment_at(), Mono::NEVER, "what changed since the last checkpoint does not move");
    rig.checkpoint();
    let next = rig.store.defragment_at();
    assert!(next > Mono(rig.now + 60_000_000_000) && next < Mono::NEVER, "nor is the next one soon");
    rig.store.set_defragment(false);
    assert_eq!(rig.store.defragment_at(), Mono::NEVER);
}
