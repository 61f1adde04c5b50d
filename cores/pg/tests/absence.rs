//! Schedules in which something is not there, or was not heard, and that is no knowledge.
//!
//! A copy that has not taken up a log, a list of which a part is on its way, a copy that was not asked, an OSD that came back and has said
//! nothing: each of them was once counted as an answer.

mod bench;

use bench::Bench;
use bench::several::{GROUP, Several};
use bytes::Bytes;
use maps::OsdMap;
use messages::osd::{Op, OpArgs, code};
use objectstore::{MetaChange, ObjectStore as _, Ticket, Transaction};
use pg::{Gone, Mercy};
use std::sync::Arc;
use types::{PgId, SessionId, SpgId};

fn full(text: &'static str) -> Op {
    Op::extent(code::WRITEFULL, 0, text.len() as u64, Bytes::from_static(text.as_bytes()))
}

fn delete(all: &mut Several, name: &str) {
    let (_, answer) = all.ask(name, vec![Op::new(code::DELETE, OpArgs::None)]);
    assert_eq!(answer.expect("an answer").result, 0, "{name}");
}

/// Brings letters one at a time until something is so.
fn until(all: &mut Several, so: impl Fn(&mut Several) -> bool) {
    let id = SpgId::whole(GROUP);
    let up: Vec<i32> = all.osds.keys().copied().filter(|osd| all.map.is_up(*osd)).collect();
    for _ in 0..100_000 {
        for osd in &up {
            all.osd(*osd).settle();
            if so(all) {
                return;
            }
            match all.osd(*osd).letters.pop_front() {
                Some((to, letter)) if up.contains(&to) => {
                    all.osd(to).with(id, |pg, ctx| pg.letter(ctx, *osd, ctx.now.mono, &letter)).expect("a letter");
                }
                Some(_) => {}
                None => {
                    all.osd(*osd).pass(std::time::Duration::from_millis(10));
                    let wishes = all.pg(*osd).slot_wishes();
                    for (side, wish) in [(pg::SlotSide::Local, wishes.local), (pg::SlotSide::Remote, wishes.remote)] {
                        if wish.is_some_and(|wish| !wish.held) {
                            all.slot(*osd, side, true);
                        }
                    }
                }
            }
        }
    }
    panic!("it never comes to be so");
}

/// Another map, of which each OSD hears; letters are not brought.
fn tell_map(all: &mut Several, change: impl FnOnce(&mut maps::OsdMap)) {
    all.map.epoch += 1;
    change(&mut all.map);
    all.map.forget_placements();
    let map = std::sync::Arc::new(all.map.clone());
    for bench in all.osds.values_mut() {
        bench.map = map.clone();
        bench.announce_map();
    }
}

/// The next letter from one OSD to another, in words.
fn next_letter(all: &mut Several, from: i32, to: i32) -> String {
    let letters = &all.osd(from).letters;
    letters.iter().find(|(osd, _)| *osd == to).map(|(_, letter)| letter.line().expect("a letter")).unwrap_or_default()
}

/// osd.2 has a change that nobody else has, and was not answered. It comes back, and reads that from its disk to undo it, when the primary dies.
#[test]
fn a_copy_that_is_about_to_take_up_a_log_does_not_say_that_it_has() {
    let mut all = Several::new(3);
    all.serve(&[2, 0, 1]);
    all.write("a", "first");
    all.osd(2).deliver(SessionId(10), bench::peer(10), 99, bench::request("a", vec![full("nobody was told")]));
    all.osd(2).settle();
    all.osd(2).letters.clear();
    all.kill(2);
    all.write("a", "second");
    all.osd(2).restart();
    tell_map(&mut all, |map| {
        map.osd_state[2] |= maps::state::UP;
        map.osd_info[2].up_from = map.epoch;
        map.pg_temp.insert(GROUP, vec![0, 1, 2]);
    });
    // osd.1 does not hear the end of what osd.0 has to say.
    let activates = |all: &mut Several| next_letter(all, 0, 2).starts_with("activate");
    until(&mut all, activates);
    let letters = std::mem::take(&mut all.osd(0).letters);
    let (_, activation) = letters.into_iter().find(|(to, _)| *to == 2).expect("a letter");
    all.osd(2).store.miss = true;
    all.osd(2).with(SpgId::whole(GROUP), |pg, ctx| pg.letter(ctx, 0, ctx.now.mono, &activation)).expect("a letter");
    all.kill(0);
    all.osd(2).store.miss = false;
    all.pass(10);
    assert_eq!(all.read("a").1, Some(Ok(Bytes::from_static(b"second"))), "it was answered");
    assert!(all.agree(&[1, 2]));
}

/// osd.2 has forty objects that are gone, and tells six at a time of what it has. It is to be filled, and nobody has begun.
fn with_what_is_gone() -> Several {
    let mut all = Several::new(3);
    for osd in 0..3 {
        (all.osd(osd).config.log_entries, all.osd(osd).config.sizes.scan) = (20, 6);
    }
    (0..40).for_each(|n| all.write(&format!("gone{n}"), "gone"));
    all.write("stays", "stays");
    all.kill(2);
    (0..40).for_each(|n| delete(&mut all, &format!("gone{n}")));
    (0..300).for_each(|_| all.write("stays", "longer than the log"));
    all.change(|map| {
        map.flags |= maps::flags::NOBACKFILL;
        map.osd_weight = vec![0x1_0000; 3];
        map.pg_upmap.insert(GROUP, vec![0, 1, 2]);
    });
    all.start(2, &[0, 1]);
    all
}

fn is_filled_and_agrees(all: &mut Several) -> bool {
    all.pass(60);
    assert!(all.pg(0).query().peers.iter().all(|peer| peer.backfill.is_none()), "{:?}", all.pg(0).query().peers);
    all.agree(&[0, 2])
}

#[test]
fn a_copy_that_is_filled_tells_all_that_it_has() {
    let mut all = with_what_is_gone();
    all.change(|map| map.flags &= !maps::flags::NOBACKFILL);
    assert!(is_filled_and_agrees(&mut all), "osd.2 has what is gone");
    all.serve(&[2, 1]);
    assert_eq!(all.read("gone39").1, Some(Err(types::Errno::ENOENT.wire())));
}

/// The primary loses patience and asks for all of what a copy has again when a part is on its way that is not the first.
#[test]
fn a_part_of_a_list_is_not_the_whole_list() {
    let mut all = with_what_is_gone();
    tell_map(&mut all, |map| map.flags &= !maps::flags::NOBACKFILL);
    let is_later_part = |all: &mut Several| {
        let first = all.osd(2).letters.front().map(|(_, letter)| letter.line().expect("a letter")).unwrap_or_default();
        first.contains("scanned") && !first.contains("scanned after MIN")
    };
    until(&mut all, is_later_part);
    all.osd(0).pass(std::time::Duration::from_secs(6));
    assert!(is_filled_and_agrees(&mut all), "osd.2 has what is gone");
}

/// Three copies, of which only osd.0 has `new`; it is dead, and osd.1 leads.
fn lost(more: usize) -> Several {
    let mut all = Several::new(3);
    all.osds.values_mut().for_each(|osd| osd.config.log_entries = 20);
    all.write("whole", "whole");
    all.leave_with_osd_0("new");
    all.recover(true);
    (0..more).for_each(|_| all.write("whole", "goes on"));
    all
}

/// The only copy comes back when the others' log does not go back so far, so it is filled. Recovery is held back, so nobody has asked it.
#[test]
fn who_is_filled_gives_what_only_it_has() {
    let mut all = lost(300);
    all.recover(false);
    all.change(|map| {
        map.osd_weight = vec![0x1_0000; 3];
        map.pg_upmap.insert(GROUP, vec![1, 2, 0]);
    });
    all.start(0, &[1, 2]);
    all.pass(40);
    all.recover(true);
    all.pass(60);
    assert_eq!(all.read("new").1, Some(Ok(Bytes::from_static(b"new"))), "osd.0 has it");
    assert!(all.agree(&[0, 1, 2]));
}

/// An OSD that may have what is unfound is up again, and nothing was heard of it.
#[test]
fn nothing_is_given_up_that_somebody_who_has_said_nothing_may_have() {
    let mut all = lost(0);
    let (tid, _) = all.read("new");
    all.held.extend([(0, 1), (0, 2)]);
    all.start(0, &[1, 2]);
    let id = SpgId::whole(GROUP);
    let gone = all.osd(1).with(id, |pg, ctx| pg.mark_unfound_lost(ctx, Mercy::Delete));
    assert_eq!(gone, Gone::Unheard { objects: 1, osds: vec![0] });
    all.release(0, 1);
    all.release(0, 2);
    all.pass(12);
    assert_eq!(all.content(tid), Some(Ok(Bytes::from_static(b"new"))));
}

/// The only OSD that has what is unfound is up, and cannot read what it holds. Later it can.
#[test]
fn nothing_is_given_up_that_somebody_may_have_who_cannot_read_it() {
    let mut all = lost(0);
    let (tid, _) = all.read("new");
    let id = SpgId::whole(GROUP);
    let write = |all: &mut Several, record: &Bytes| {
        let store = &mut all.osd(0).store;
        let meta = vec![MetaChange::Set(Bytes::from_static(b"i"), record.clone())];
        store.submit(Transaction { scope: id, meta, ..Transaction::default() }, Ticket(1 << 60)).expect("room");
        while store.poll_event().is_some() {}
    };
    let record = objectstore::View::meta_get(&all.osds[&0].store, objectstore::Hold(0), &id, b"i");
    let record = record.expect("in memory").expect("it is there");
    write(&mut all, &Bytes::from_static(b"rotten"));
    all.start(0, &[1, 2]);
    all.pass(12);
    assert!(all.pg(0).load_failed());
    let gone = all.osd(1).with(id, |pg, ctx| pg.mark_unfound_lost(ctx, Mercy::Delete));
    assert_eq!(gone, Gone::Unheard { objects: 1, osds: vec![0] });
    write(&mut all, &record);
    all.osd(0).with(id, |pg, ctx| pg.reload(ctx));
    all.pass(12);
    assert_eq!(all.content(tid), Some(Ok(Bytes::from_static(b"new"))));
}

/// OSD 0 of two, with a group that both have.
fn of_two() -> Bench {
    let mut map = bench::map(1);
    map.set_max_osd(2);
    map.osd_state.iter_mut().for_each(|osd| *osd = maps::state::EXISTS | maps::state::UP);
    map.osd_info = vec![maps::OsdInfo { up_thru: 1000, ..Default::default() }; 2];
    map.pools.get_mut(&bench::POOL).expect("the pool").size = 2;
    map.pg_temp.insert(GROUP, vec![0, 1]);
    let mut bench = Bench::empty(map);
    bench.whoami = 0;
    bench.begin(SpgId::whole(GROUP), pg::Pg::create);
    bench.settle();
    bench
}

/// The group that comes out of a split of the first one.
const CHILD: PgId = PgId { pool: bench::POOL, seed: 1 };

/// Maps in which the pool gets a second group, which is on both, then on osd.1 alone, then on both again.
fn maps_of_a_split(bench: &Bench) -> Vec<Arc<OsdMap>> {
    let mut map = (*bench.map).clone();
    let step = |acting: &[i32]| {
        map.epoch += 1;
        let pool = map.pools.get_mut(&bench::POOL).expect("the pool");
        (pool.pg_num, pool.pgp_num) = (2, 2);
        map.pg_temp.insert(CHILD, acting.to_vec());
        map.forget_placements();
        Arc::new(map.clone())
    };
    [&[0, 1][..], &[1], &[0, 1]].into_iter().map(step).collect()
}

fn take(bench: &mut Bench, map: &Arc<OsdMap>) {
    bench.map = map.clone();
    bench.with(SpgId::whole(GROUP), |pg, ctx| pg.new_map(ctx));
}

fn knows_who_served(bench: &Bench) -> bool {
    bench.pgs[&SpgId::whole(CHILD)].query().past.iter().any(|(_, _, acting)| acting[..] == [1])
}

#[test]
fn a_group_that_comes_out_of_a_split_knows_of_maps_that_came_while_its_parent_was_read() {
    let mut bench = of_two();
    let maps = maps_of_a_split(&bench);
    bench.store.miss = true;
    bench.load(SpgId::whole(GROUP));
    maps.iter().for_each(|map| take(&mut bench, map));
    bench.settle();
    assert!(knows_who_served(&bench), "{:?}", bench.pgs[&SpgId::whole(CHILD)].query().past);
}

#[test]
fn a_group_that_comes_out_of_a_split_knows_after_a_crash_of_maps_that_came_meanwhile() {
    let mut bench = of_two();
    let maps = maps_of_a_split(&bench);
    bench.store.hold_commits = true;
    take(&mut bench, &maps[0]);
    // Its keys are written, and its parent's are about to go.
    for _ in 0..2 {
        bench.settle();
        let under_way = bench.store.uncommitted();
        bench.store.commit(under_way);
    }
    bench.settle();
    maps[1..].iter().for_each(|map| take(&mut bench, map));
    // All this is durable before the OSD remembers the map. Then it dies.
    let under_way = bench.store.uncommitted();
    bench.store.commit(under_way);
    assert!(!bench.pgs.contains_key(&SpgId::whole(CHILD)));
    bench.store.hold_commits = false;
    bench.restart();
    assert!(knows_who_served(&bench), "{:?}", bench.pgs[&SpgId::whole(CHILD)].query().past);
}
