//! Schedules in which a copy of what was acknowledged could be lost, or an older one come back.
//!
//! Several copies of one group run over stores in memory. A test holds letters and commits back, lets copies die and come back,
//! and looks at what a client then reads.

mod bench;

use bench::several::{GROUP, Several};
use bytes::Bytes;
use denc::Encode;
use messages::ops;
use messages::osd::{Op, OpArgs, code};
use types::{Locator, SessionId, SnapId};

fn full(n: usize, byte: u8) -> Op {
    Op::extent(code::WRITEFULL, 0, n as u64, Bytes::from(vec![byte; n]))
}

fn part(at: u64, n: usize, byte: u8) -> Op {
    Op::extent(code::WRITE, at, n as u64, Bytes::from(vec![byte; n]))
}

fn copy_from(name: &str) -> Op {
    let source =
        ops::CopySource { name: Bytes::copy_from_slice(name.as_bytes()), locator: Locator::pool(bench::POOL), truncate: None };
    let args = OpArgs::CopyFrom { snap: SnapId::HEAD, src_version: 0, flags: 0, src_fadvise: 0 };
    Op { input: source.to_bytes(), ..Op::new(code::COPY_FROM, args) }
}

#[test]
fn a_copied_object_of_more_than_a_portion_is_on_all_copies() {
    for mib in [4usize, 9] {
        let mut all = Several::new(2);
        let (_, answer) = all.ask("source", vec![full(mib << 20, 7)]);
        assert_eq!(answer.expect("an answer").result, 0);
        let (_, answer) = all.ask("target", vec![full(10, 1)]);
        assert_eq!(answer.expect("an answer").result, 0);
        let (_, answer) = all.ask("target", vec![copy_from("source")]);
        assert_eq!(answer.expect("an answer").result, 0, "acknowledged");
        let (_, got) = all.read("target");
        assert_eq!(got.unwrap().unwrap().len(), mib << 20, "the primary has it");
        let agree = all.agree(&[0, 1]);
        all.kill(0);
        let (_, got) = all.read("target");
        let got = got.unwrap().unwrap();
        assert!(agree && got.len() == mib << 20, "{mib} MiB: agree {agree}, {} bytes after failover", got.len());
    }
}

/// The pool gets two copies, on these OSDs.
fn two_of_three(all: &mut Several, up: [i32; 2]) {
    all.change(|map| {
        map.osd_weight = vec![0x1_0000; 3];
        let pool = map.pools.get_mut(&bench::POOL).expect("the pool");
        (pool.size, pool.min_size) = (2, 1);
        map.pg_upmap.insert(GROUP, up.to_vec());
        map.pg_temp.insert(GROUP, up.to_vec());
    });
}

/// Another map, told to these OSDs one after the other. No message that comes of it is delivered.
fn tell_map(all: &mut Several, order: &[i32], change: impl FnOnce(&mut maps::OsdMap)) {
    all.map.epoch += 1;
    change(&mut all.map);
    all.map.forget_placements();
    let map = std::sync::Arc::new(all.map.clone());
    for osd in order {
        let bench = all.osd(*osd);
        bench.map = map.clone();
        bench.announce_map();
    }
}

fn homes(all: &mut Several, up: &[i32]) {
    let up = up.to_vec();
    all.change(|map| {
        map.osd_weight = vec![0x1_0000; map.osd_state.len()];
        map.pg_upmap.insert(GROUP, up);
    });
    all.pass(5);
}

/// `whole`: the object is brought whole to the primary; else in part. No map is skipped by anybody.
fn brought_here(whole: bool) -> Option<Result<Bytes, i32>> {
    let mut all = Several::new(2);
    homes(&mut all, &[0, 1]);
    assert_eq!(all.ask("old", vec![full(65536, 1)]).1.unwrap().result, 0);
    all.recover(false);
    // A second version is durable at osd.1 alone when both lose their power.
    let second = if whole { full(65536, 2) } else { part(0, 4096, 2) };
    all.osd(0).store.hold_commits = true;
    all.osd(0).deliver(SessionId(10), bench::peer(10), 77, bench::request("old", vec![second.clone()]));
    all.settle();
    assert!(all.answer(77).is_none());
    all.osd(0).store.hold_commits = false;
    for osd in [0, 1] {
        all.osd(osd).restart();
    }
    // Both are back in one map; another interval begins.
    all.change(|map| map.pools.get_mut(&bench::POOL).unwrap().last_force_op_resend = map.epoch);
    all.pass(5);
    assert!(all.leads() == Some(0) && all.pg(0).is_active());
    assert_eq!(all.pg(0).query().missing, 1);
    // The client asks again.
    all.osd(0).deliver(SessionId(10), bench::peer(10), 77, bench::request("old", vec![second]));
    all.settle();
    // A third version is asked for. osd.0 brings the second from osd.1; nothing of that is durable at osd.0 yet.
    all.osd(0).store.hold_commits = true;
    all.osd(0).deliver(SessionId(10), bench::peer(10), 99, bench::request("old", vec![part(8192, 4096, 3)]));
    all.settle();
    assert!(all.answer(99).is_none(), "the third version is not acknowledged");
    // Both die at once; osd.0 comes back first.
    all.kill(1);
    all.osd(0).store.hold_commits = false;
    all.osd(0).restart();
    all.pass(5);
    assert_eq!(all.leads(), Some(0));
    all.write("other", "goes on");
    all.start(1, &[0, 1]);
    all.recover(true);
    all.pass(20);
    let (_, got) = all.read("old");
    got
}

#[test]
fn a_change_waits_until_an_object_that_was_brought_here_is_durable() {
    let got = brought_here(true);
    assert_eq!(got.expect("an answer").expect("found")[0], 2);
}

#[test]
fn a_change_waits_until_a_part_that_was_brought_here_is_durable() {
    let got = brought_here(false);
    assert_eq!(got.expect("the second version was acknowledged: an answer").expect("found")[0], 2);
}

#[test]
fn a_repeated_request_is_answered_when_all_members_have_the_object() {
    let mut all = Several::new(3);
    all.write("a", "first");
    all.recover(false);
    // The change reaches nobody else.
    all.osd(0).deliver(SessionId(10), bench::peer(10), 99, bench::request("a", vec![full(6, b's')]));
    all.osd(0).settle();
    all.osd(0).letters.clear();
    assert!(all.answer(99).is_none());
    // Another interval, with the same primary: osd.2 goes.
    all.kill(2);
    assert_eq!(all.leads(), Some(0));
    let lacks = all.pg(0).query().peers.iter().map(|peer| peer.missing).collect::<Vec<_>>();
    let answered = all.answer(99).map(|reply| reply.result);
    assert_eq!((answered, &lacks[..]), (Some(0), &[0][..]), "the object is brought before it is answered");
    // The disk of the primary is lost.
    all.kill(0);
    assert_eq!(all.read("a").1, Some(Ok(Bytes::from_static(b"ssssss"))));
}

#[test]
fn a_copy_that_told_of_itself_and_died_does_not_hold_up_the_group() {
    let mut all = Several::new(3);
    two_of_three(&mut all, [2, 1]);
    all.pass(20);
    assert!(all.pg(2).is_active(), "{}", all.pg(2).query().because);
    all.write("a", "first");
    // osd.2 has a change that it told nobody of, and that was not acknowledged.
    all.osd(2).deliver(SessionId(10), bench::peer(10), 99, bench::request("a", vec![full(6, b's')]));
    all.osd(2).settle();
    all.osd(2).letters.clear();
    // It is taken out: osd.0 takes its place. osd.1 stays, and leads.
    tell_map(&mut all, &[2, 0, 1], |map| {
        map.pg_upmap.insert(GROUP, vec![1, 0]);
        map.pg_temp.insert(GROUP, vec![1, 0]);
    });
    // What osd.2 tells unasked arrives; then it dies.
    let info = all.osd(2).letters.pop_front().expect("it shows up");
    all.osd(1).with(types::SpgId::whole(GROUP), |pg, ctx| pg.letter(ctx, 2, ctx.now.mono, &info.1)).unwrap();
    all.osd(2).letters.clear();
    all.map.osd_state[2] &= !maps::state::UP;
    all.change(|_| {});
    all.pass(60);
    assert!(all.pg(1).is_active(), "osd.1 and osd.0 have all that was acknowledged: {}", all.pg(1).query().step);
}

#[test]
fn clients_wait_for_a_copy_that_is_filled_when_much_is_under_way_to_it() {
    let mut all = Several::new(3);
    two_of_three(&mut all, [0, 1]);
    all.pass(10);
    for osd in 0..2 {
        all.osd(osd).config.log_entries = 50;
    }
    for n in 0..400 {
        assert_eq!(all.ask(&format!("o{n}"), vec![full(100, 1)]).1.unwrap().result, 0);
    }
    // osd.2 is to take osd.1's place. Its disk stops when some of it is filled.
    all.change(|map| {
        map.pg_upmap.insert(GROUP, vec![0, 2]);
    });
    all.generous.clear();
    all.generous.extend([0, 1, 2]);
    for _ in 0..1000 {
        if all.pg(0).query().peers.iter().any(|p| p.copy.osd == 2 && p.activated) {
            break;
        }
        all.pass(1);
    }
    all.osd(2).store.hold_commits = true;
    all.pass(20);
    let mut asked = Vec::new();
    loop {
        let (tid, answer) = all.ask(&format!("o{}", asked.len() % 400), vec![full(65536, 2)]);
        asked.push(tid);
        if answer.is_none() {
            break;
        }
        assert!(asked.len() < 1000, "64 MiB are kept for a copy that takes nothing");
    }
    assert!(asked.len() > 400, "nobody waits for a copy that is filled while there is little: {}", asked.len());
    // It takes them: who waits is answered.
    let held = all.osd(2).store.uncommitted();
    all.osd(2).store.hold_commits = false;
    all.osd(2).store.commit(held);
    all.pass(5);
    assert!(asked.iter().all(|tid| all.answer(*tid).is_some_and(|reply| reply.result == 0)));
}

#[test]
fn an_object_is_asked_for_when_its_changes_have_arrived() {
    let mut all = Several::new(2);
    homes(&mut all, &[0, 1]);
    assert_eq!(all.ask("a", vec![full(65536, 1)]).1.unwrap().result, 0);
    // osd.1 has no room for a moment: the second change waits there.
    all.osd(1).store.full = true;
    let (_, answer) = all.ask("a", vec![part(0, 4096, 2)]);
    assert!(answer.is_none());
    // Another block of osd.0's copy is rotten; a client reads it.
    let object = all.osd(0).store.objects().find(|o| o.name == "a").unwrap().clone();
    all.osd(0).store.damaged.insert(object.clone());
    all.read("a");
    all.osd(0).store.damaged.clear();
    all.settle();
    all.osd(1).store.full = false;
    all.pass(10);
    let first = |got: Option<Result<Bytes, i32>>| got.map(|g| g.map(|b| b[0]));
    let (_, got) = all.read("a");
    let got = first(got);
    assert_eq!(got, Some(Ok(2)), "the change was acknowledged");
    assert!(all.agree(&[0, 1]));
}

#[test]
fn a_new_primary_knows_which_snapshots_are_gone() {
    for failover in [false, true] {
        let mut all = Several::new(2);
        let old_context = |name: &str, byte: u8| messages::osd::OsdOp {
            snap_seq: 1,
            snaps: vec![1],
            ..bench::request(name, vec![full(6, byte)])
        };
        all.write("a", "first");
        all.write("b", "first");
        let send = |all: &mut Several, tid: u64, op| {
            let leader = all.leads().unwrap();
            all.osd(leader).deliver(SessionId(10), bench::peer(10), tid, op);
            all.settle();
            assert_eq!(all.answer(tid).expect("an answer").result, 0);
        };
        send(&mut all, 900, old_context("a", 2));
        // The snapshot is removed and trimmed; then the map forgets it.
        all.change(|map| map.removed_snaps_queue.entry(bench::POOL).or_default().insert(1, 1));
        all.pass(20);
        let clones = |all: &Several, osd: i32| all.osds[&osd].store.objects().filter(|o| !o.is_head()).count();
        assert_eq!((clones(&all, 0), clones(&all, 1)), (0, 0));
        assert!(!all.pg(0).stats().purged_snaps.is_empty(), "the monitors are told");
        all.change(|map| drop(map.removed_snaps_queue.remove(&bench::POOL)));
        if failover {
            all.kill(0);
        }
        // A write that was long under way.
        send(&mut all, 901, old_context("b", 3));
        all.pass(60);
        let leader = all.leads().unwrap();
        assert_eq!(clones(&all, leader), 0, "failover {failover}");
    }
}

/// What is collected of a large object at a copy is left there when the object goes before all of it came.
#[test]
fn pieces_of_an_object_that_is_gone_are_removed() {
    let mut all = Several::new(3);
    assert_eq!(all.ask("large", vec![full(9 << 20, 1)]).1.unwrap().result, 0);
    all.kill(2);
    assert_eq!(all.ask("large", vec![full(9 << 20, 2)]).1.unwrap().result, 0);
    all.recover(false);
    all.start(2, &[0, 1, 2]);
    // The first piece arrives, and then the primary dies.
    tell_map(&mut all, &[0, 1, 2], |map| map.flags = 0);
    let staged = |all: &Several, osd: i32| all.osds[&osd].store.objects().filter(|o| o.pool < 0).count();
    'outer: for _ in 0..2000 {
        for osd in 0..3 {
            all.osd(osd).settle();
            if let Some((to, letter)) = all.osd(osd).letters.pop_front() {
                all.osd(to).with(types::SpgId::whole(GROUP), |pg, ctx| pg.letter(ctx, osd, ctx.now.mono, &letter)).unwrap();
                if staged(&all, 2) > 0 {
                    break 'outer;
                }
            } else {
                all.osd(osd).pass(std::time::Duration::from_millis(100));
            }
        }
        for osd in [0, 2] {
            all.slot(osd, pg::SlotSide::Local, true);
            all.slot(osd, pg::SlotSide::Remote, true);
        }
    }
    assert!(staged(&all, 2) > 0, "a piece came");
    all.kill(0);
    // Nobody needs it any more.
    all.ask("large", vec![Op::new(code::DELETE, OpArgs::None)]);
    all.pass(30);
    all.start(0, &[1, 2, 0]);
    all.pass(30);
    assert_eq!(staged(&all, 2), 0);
}

/// osd.0 was away for so long that the monitors do not have the maps between any more: it goes on with a full map.
#[test]
fn who_skipped_maps_takes_earlier_intervals_from_others() {
    let mut all = Several::new(3);
    all.write("a", "first");
    all.kill(0);
    // osd.1 serves alone for a while; osd.2 is up, and notes that.
    let size = |map: &mut maps::OsdMap, size: u8| map.pools.get_mut(&bench::POOL).unwrap().size = size;
    all.change(|map| {
        size(map, 1);
        map.pg_temp.insert(GROUP, vec![1]);
    });
    all.pass(5);
    assert_eq!(all.leads(), Some(1));
    all.write("a", "second");
    // osd.1 dies. osd.0 comes back, and did not see any map since it went.
    all.kill(1);
    all.osd(0).restart();
    all.change(|map| {
        size(map, 3);
        map.osd_state[0] |= maps::state::UP;
        map.osd_info[0].up_from = map.epoch;
        map.osd_weight = vec![0x1_0000; 3];
        map.pg_upmap.insert(GROUP, vec![0, 2, 1]);
        map.pg_temp.insert(GROUP, vec![0, 2]);
    });
    all.pass(10);
    let (_, got) = all.read("a");
    assert!(got.is_none(), "only osd.1 has the second version, which was acknowledged: {got:?}");
}

/// osd.1 loses its disk, and osd.0 alone has the newest write. It begins to fill the new disk, and dies before osd.2, which is behind, hears of
/// that write. The new disk holds something, but not what the lost one held.
#[test]
fn a_disk_that_is_being_filled_does_not_stand_for_the_one_that_was_lost() {
    let mut all = Several::new(3);
    homes(&mut all, &[0, 1, 2]);
    (0..3).for_each(|osd| all.osd(osd).config.log_entries = 10);
    all.write("a", "first");
    for n in 0..400 {
        assert_eq!(all.ask(&format!("o{n}"), vec![full(100, 1)]).1.unwrap().result, 0);
    }
    all.hears = [0, 2].into();
    all.kill(2);
    all.write("a", "second");
    all.kill(0);
    all.kill(1);
    // Another disk comes in the place of osd.1's, which is given up.
    all.replace_disk(1);
    let comes = |map: &mut maps::OsdMap, osd: usize, acting: &[i32]| {
        map.osd_state[osd] |= maps::state::UP;
        map.osd_info[osd].up_from = map.epoch;
        map.pg_temp.insert(GROUP, acting.to_vec());
    };
    all.change(|map| {
        map.osd_info[1].lost_at = map.epoch - 1;
        comes(map, 1, &[2, 1]);
        comes(map, 2, &[2, 1]);
    });
    all.pass(5);
    assert!(all.leads() == Some(2) && !all.pg(2).is_active(), "osd.0 has what osd.1 had");
    // osd.0 agrees with the others, and osd.2 does not hear the end of it.
    all.loses = Some(|all, from, to| {
        let step = all.osds[&0].pgs[&types::SpgId::whole(GROUP)].query().step;
        (from, to) == (0, 2) && step == "Started/Primary/Active/Activating"
    });
    all.change(|map| comes(map, 0, &[0, 2, 1]));
    all.pass(2);
    let filled = all.pg(1).query();
    assert!(!all.pg(0).is_active() && all.leads() == Some(0) && filled.created > 0, "{}", all.pg(0).query().step);
    all.kill(0);
    all.pass(10);
    let (tid, got) = all.read("a");
    assert!(got.is_none(), "only osd.0 has the second version, which was acknowledged: {got:?}");
    all.loses = None;
    all.change(|map| comes(map, 0, &[0, 2, 1]));
    all.pass(20);
    let now = all.content(tid).or_else(|| all.read("a").1);
    assert_eq!(now, Some(Ok(Bytes::from_static(b"second"))));
}

/// A stray was complete when the interval began. What was written since it does not have.
#[test]
fn a_source_gives_nothing_that_changed_since() {
    let mut all = Several::new(3);
    assert_eq!(all.ask("a", vec![full(65536, 1)]).1.unwrap().result, 0);
    // osd.2 lacks an object, so the group does not become clean.
    all.kill(2);
    all.write("b", "b");
    all.recover(false);
    all.start(2, &[0, 1, 2]);
    // osd.1 is no member any more; it is up, and has everything.
    two_of_three(&mut all, [0, 2]);
    all.pass(3);
    assert!(all.pg(0).is_active());
    assert_eq!(all.ask("a", vec![part(0, 4096, 2)]).1.unwrap().result, 0, "acknowledged by osd.0 and osd.2");
    // Another block rots on both.
    for osd in [0, 2] {
        let object = all.osd(osd).store.objects().find(|o| o.name == "a").unwrap().clone();
        all.osd(osd).store.damaged.insert(object);
    }
    let tid = 999;
    let read = vec![Op::extent(code::READ, 0, 4096, Bytes::new())];
    all.osd(0).deliver(SessionId(10), bench::peer(10), tid, bench::request("a", read));
    all.osd(0).settle();
    // What takes its place can be read.
    all.osd(0).store.damaged.clear();
    all.settle();
    all.pass(12);
    let (_, now) = all.ask("a", vec![Op::extent(code::READ, 0, 4096, Bytes::new())]);
    let first = |reply: Option<messages::osd::OsdOpReply>| {
        reply.map(|r| (r.result, r.ops.last().map(|op| op.output.contiguous().first().copied())))
    };
    let now = first(now);
    assert!(
        now.is_none_or(|(result, byte)| result < 0 || byte == Some(Some(2))),
        "the version before the acknowledged one: {now:?}"
    );
}

/// osd.2 is taken out, and is wished for as a member for a time, since osd.0 has nothing yet. It dies before the map has it.
#[test]
fn a_wish_for_a_copy_that_died_is_taken_back() {
    let mut all = Several::new(3);
    two_of_three(&mut all, [1, 2]);
    all.pass(20);
    for osd in 0..3 {
        all.osd(osd).config.log_entries = 10;
    }
    all.kill(0);
    for n in 0..400 {
        assert_eq!(all.ask(&format!("o{n}"), vec![full(100, 1)]).1.unwrap().result, 0);
    }
    // osd.0 is back with what it had, long ago.
    all.osd(0).restart();
    tell_map(&mut all, &[0, 2, 1], |map| {
        map.osd_state[0] |= maps::state::UP;
        map.pg_upmap.insert(GROUP, vec![1, 0]);
        map.pg_temp.remove(&GROUP);
    });
    for _ in 0..50 {
        for osd in 0..3 {
            all.osd(osd).settle();
            if let Some((to, letter)) = all.osd(osd).letters.pop_front() {
                let id = types::SpgId::whole(GROUP);
                if all.osd(to).pgs.contains_key(&id) {
                    all.osd(to).with(id, |pg, ctx| pg.letter(ctx, osd, ctx.now.mono, &letter)).unwrap();
                } else if let pg::OfNone::Answers(answer) = pg::answer_of_none(&letter, all.map.epoch, false).unwrap() {
                    all.osd(osd).with(id, |pg, ctx| pg.letter(ctx, to, ctx.now.mono, &answer)).unwrap();
                }
            }
        }
    }
    // That is lost on its way. osd.2 dies.
    let wish = all.osd(1).wants_acting.take();
    assert_eq!(wish, Some(vec![1, 2]));
    all.osds.values_mut().for_each(|bench| bench.letters.clear());
    all.map.osd_state[2] &= !maps::state::UP;
    all.change(|_| {});
    all.pass(60);
    assert!(all.pg(1).is_active(), "osd.1 has everything: {}", all.pg(1).query().step);
}

/// What was collected for an operation that fails at last is left at no copy.
#[test]
fn what_is_collected_for_an_operation_that_fails_is_removed() {
    let mut all = Several::new(2);
    assert_eq!(all.ask("source", vec![full(9 << 20, 7)]).1.expect("an answer").result, 0);
    // The copy is collected, and then there is no such attribute to compare with.
    let compared = Op {
        input: Bytes::from_static(b"namevalue"),
        ..Op::new(code::CMPXATTR, OpArgs::Xattr { name_len: 4, value_len: 5, cmp_op: 1, cmp_mode: 1 })
    };
    let (_, answer) = all.ask("target", vec![copy_from("source"), compared]);
    assert!(answer.expect("an answer").result < 0);
    all.pass(1);
    let staged = |osd: i32| all.osds[&osd].store.objects().filter(|o| o.pool < 0).count();
    assert_eq!((staged(0), staged(1)), (0, 0));
}

/// Brings letters one at a time until something is so.
fn until(all: &mut Several, so: impl Fn(&mut Several) -> bool) {
    let id = types::SpgId::whole(GROUP);
    let osds: Vec<i32> = all.osds.keys().copied().collect();
    for _ in 0..10_000 {
        for osd in &osds {
            all.osd(*osd).settle();
            if so(all) {
                return;
            }
            if let Some((to, letter)) = all.osd(*osd).letters.pop_front() {
                all.osd(to).with(id, |pg, ctx| pg.letter(ctx, *osd, ctx.now.mono, &letter)).unwrap();
            } else {
                all.osd(*osd).pass(std::time::Duration::from_millis(100));
                let wishes = all.pg(*osd).slot_wishes();
                for (side, wish) in [(pg::SlotSide::Local, wishes.local), (pg::SlotSide::Remote, wishes.remote)] {
                    if wish.is_some_and(|wish| !wish.held) {
                        all.slot(*osd, side, true);
                    }
                }
            }
        }
    }
    panic!("it never comes to be so");
}

/// An object is copied from another one while a copy of the group begins to be filled: a part of it comes before the first objects are
/// brought (`listed`: they are listed already), the rest after that, when the copy is filled up to this object.
#[test]
fn a_copy_that_is_filled_meanwhile_has_all_that_was_collected() {
    for listed in [false, true] {
        let mut all = Several::new(3);
        all.change(|map| {
            map.osd_weight = vec![0x1_0000; 3];
            let pool = map.pools.get_mut(&bench::POOL).unwrap();
            (pool.size, pool.min_size) = (2, 1);
            map.pg_upmap.insert(GROUP, vec![0, 1]);
            map.pg_temp.insert(GROUP, vec![0, 1]);
        });
        all.pass(10);
        for osd in 0..2 {
            all.osd(osd).config.log_entries = 50;
        }
        all.kill(2);
        assert_eq!(all.ask("source", vec![full(17 << 20, 7)]).1.unwrap().result, 0);
        for n in 0..400 {
            assert_eq!(all.ask(&format!("o{n}"), vec![full(100, 1)]).1.unwrap().result, 0);
        }
        // The first one in order.
        let written = |object: &types::ObjectId| (0..400).map(|n| format!("o{n}")).find(|name| object.name == *name);
        let target = all.osd(0).store.objects().filter(|object| written(object).is_some()).min().and_then(written).unwrap();
        assert_eq!(all.ask(&target, vec![Op::new(code::DELETE, OpArgs::None)]).1.unwrap().result, 0);
        all.change(|map| map.flags |= maps::flags::NOBACKFILL);
        all.start(2, &[0, 1]);
        all.change(|map| drop(map.pg_upmap.insert(GROUP, vec![0, 2])));
        all.pass(20);
        let cursor = |all: &mut Several| {
            let peers = all.pg(0).query().peers;
            peers.into_iter().find(|peer| peer.copy.osd == 2 && peer.activated).and_then(|peer| peer.backfill)
        };
        assert_eq!((all.leads(), cursor(&mut all).as_deref()), (Some(0), Some("MIN")), "osd.2 is to be filled");
        let fill = |map: &mut maps::OsdMap| map.flags &= !maps::flags::NOBACKFILL;
        if listed {
            tell_map(&mut all, &[0, 1, 2], fill);
            // osd.2 is asked for what it has.
            all.slot(0, pg::SlotSide::Local, true);
            all.osd(0).pass(std::time::Duration::from_secs(3));
        }
        all.osd(0).free_copies = 1;
        all.osd(0).deliver(SessionId(10), bench::peer(10), 99, bench::request(&target, vec![copy_from("source")]));
        all.osd(0).settle();
        assert_eq!(all.osd(0).held_copies.len(), 1, "the second portion is on its way");
        if !listed {
            tell_map(&mut all, &[0, 1, 2], fill);
        }
        until(&mut all, |all| cursor(all).is_some_and(|cursor| cursor != "MIN"));
        all.osd(0).free_copies();
        all.settle();
        assert_eq!(all.answer(99).expect("an answer").result, 0);
        all.pass(60);
        assert!(all.agree(&[0, 2]), "listed {listed}: osd.2 has it whole");
        let left = |osd: i32| all.osds[&osd].store.objects().filter(|object| object.name.starts_with(b"copy")).count();
        assert_eq!((left(0), left(2)), (0, 0));
    }
}

#[test]
fn a_change_below_which_two_copies_are_rotten_comes_to_its_end() {
    let mut all = Several::new(3);
    homes(&mut all, &[0, 1, 2]);
    assert_eq!(all.ask("a", vec![full(65536, 1)]).1.unwrap().result, 0);
    for osd in [0, 1] {
        let object = all.osd(osd).store.objects().find(|o| o.name == "a").unwrap().clone();
        all.osd(osd).store.damaged.insert(object);
    }
    let (tid, _) = all.ask("a", vec![part(100, 4096, 2)]);
    for osd in [0, 1] {
        all.osd(osd).store.damaged.clear();
    }
    all.pass(60);
    assert_eq!(all.answer(tid).expect("an answer").result, 0);
    assert!(all.agree(&[0, 1, 2]));
}

/// Rot that comes long after an object was mended is new damage, in the same interval, too.
#[test]
fn an_object_that_rots_again_much_later_is_mended_again() {
    let mut all = Several::new(2);
    assert_eq!(all.ask("a", vec![full(65536, 1)]).1.unwrap().result, 0);
    let rot_and_read = |all: &mut Several, tid: u64| {
        let object = all.osd(0).store.objects().find(|o| o.name == "a").unwrap().clone();
        all.osd(0).store.damaged.insert(object);
        all.osd(0).deliver(
            SessionId(10),
            bench::peer(10),
            tid,
            bench::request("a", vec![Op::extent(code::READ, 0, 0, Bytes::new())]),
        );
        all.osd(0).settle();
        all.osd(0).store.damaged.clear();
        all.settle();
        all.pass(12);
        all.content(tid).map(|content| content.map(|bytes| bytes.len()))
    };
    assert_eq!(rot_and_read(&mut all, 700), Some(Ok(65536)));
    for _ in 0..8 {
        // Beats of the clock, not of the test: nothing happens meanwhile.
        all.osds.values_mut().for_each(|bench| bench.pass(std::time::Duration::from_secs(500)));
        all.pass(1);
    }
    assert_eq!(rot_and_read(&mut all, 701), Some(Ok(65536)));
}
