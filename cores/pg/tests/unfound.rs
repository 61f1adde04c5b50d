//! Objects that nobody has: they are looked for everywhere, waited for, found again, or given up.

mod bench;

use bench::several::Several;
use bytes::Bytes;
use messages::code;
use messages::osd::Op;
use objectstore::{ObjectChange, ObjectChanges, ObjectStore as _, Ticket, Transaction};
use pg::{Gone, MaybeHas, Mercy};
use types::level::Level;
use types::{Errno, Feature, Levels, PgState, SessionId};

/// Three copies; `old` has a version that only osd.0 holds, and `new` is nowhere else. All three know of it; osd.0 is dead, osd.1
/// leads.
fn lost() -> Several {
    let mut all = Several::new(3);
    all.write("old", "first");
    all.write("whole", "whole");
    all.kill(1);
    all.kill(2);
    all.write("old", "second");
    all.write("new", "new");
    all.recover(false);
    all.start(1, &[0, 1]);
    all.start(2, &[0, 1, 2]);
    assert_eq!(all.pg(0).query().peers.iter().map(|peer| peer.missing).collect::<Vec<_>>(), [2, 2]);
    all.kill(0);
    all.recover(true);
    all
}

fn unfound(all: &mut Several) -> (i64, PgState) {
    let leader = all.leads().expect("a primary");
    let stats = all.pg(leader).stats();
    (stats.stats.num_objects_unfound, stats.state)
}

fn mark(all: &mut Several, mercy: Mercy) -> Gone {
    let (leader, id) = (all.leads().expect("a primary"), types::SpgId::whole(bench::several::GROUP));
    let gone = all.osd(leader).with(id, |pg, ctx| pg.mark_unfound_lost(ctx, mercy));
    all.pass(12);
    gone
}

fn list(all: &mut Several) -> pg::UnfoundPage {
    let (leader, id) = (all.leads().expect("a primary"), types::SpgId::whole(bench::several::GROUP));
    all.osd(leader).with(id, |pg, ctx| pg.list_unfound(ctx, None, 10))
}

fn give_up_osd_0(all: &mut Several) {
    all.change(|map| {
        map.osd_info[0].lost_at = map.epoch;
        map.osd_info[0].up_from = 1;
    });
    all.pass(1);
}

#[test]
fn what_nobody_has_waits_and_all_else_goes_on() {
    let mut all = lost();
    let (waits, answer) = all.read("old");
    assert_eq!(answer, None);
    let (count, state) = unfound(&mut all);
    assert_eq!(count, 2);
    assert!(state.has(PgState::RECOVERY_UNFOUND) && state.has(PgState::DEGRADED) && state.has(PgState::ACTIVE), "{state}");
    assert_eq!(all.read("whole").1, Some(Ok("whole".into())));
    all.write("whole", "more");
    let page = list(&mut all);
    assert_eq!((page.missing, page.unfound, page.more, page.active), (2, 2, false, true));
    assert_eq!(page.objects.len(), 2);
    assert!(page.maybe.contains(&(types::CopyId::whole(0), MaybeHas::Down)), "{:?}", page.maybe);
    // It comes back before anybody gave up: it has what was missed.
    all.start(0, &[1, 2, 0]);
    all.pass(12);
    assert_eq!(all.content(waits).or(all.read("old").1), Some(Ok("second".into())));
    assert_eq!(all.read("new").1, Some(Ok("new".into())));
    assert_eq!(unfound(&mut all).0, 0);
    assert!(all.agree(&[0, 1, 2]));
}

#[test]
fn nothing_is_given_up_that_somebody_who_is_down_may_have() {
    let mut all = lost();
    all.pass(1);
    assert_eq!(mark(&mut all, Mercy::Delete), Gone::Unheard { objects: 2, osds: vec![0] });
    assert_eq!(unfound(&mut all).0, 2);
    all.start(0, &[1, 2, 0]);
    all.pass(12);
    assert_eq!(mark(&mut all, Mercy::Delete), Gone::Nothing);
    assert_eq!(all.read("old").1, Some(Ok("second".into())));
}

#[test]
fn a_change_waits_until_what_it_follows_is_durable_where_it_was_brought() {
    let mut all = Several::new(2);
    all.write("old", "first");
    all.kill(1);
    all.write("old", "second");
    all.recover(false);
    all.start(1, &[0, 1]);
    // osd.0 brings the second version to osd.1, and dies with a third one before anything of that arrives.
    let third = Op::extent(code::WRITEFULL, 0, 5, Bytes::from_static(b"third"));
    all.osd(0).deliver(SessionId(10), bench::peer(10), 99, bench::request("old", vec![third]));
    all.osd(0).settle();
    all.kill(0);
    all.write("other", "goes on");
    all.start(0, &[0, 1]);
    all.recover(true);
    assert_eq!(all.read("old").1, Some(Ok(Bytes::from_static(b"second"))), "it was answered");
}

#[test]
fn an_older_version_counts_again_at_all_copies() {
    let mut all = lost();
    give_up_osd_0(&mut all);
    let (old, _) = all.read("old");
    let (new, _) = all.read("new");
    assert_eq!(mark(&mut all, Mercy::Revert), Gone::Marked(2));
    // What waited goes on.
    assert_eq!(all.content(old), Some(Ok("first".into())));
    assert_eq!(all.content(new), Some(Err(Errno::ENOENT.wire())));
    let (count, state) = unfound(&mut all);
    assert!(count == 0 && !state.has(PgState::RECOVERY_UNFOUND), "{count} {state}");
    assert!(all.agree(&[1, 2]));
    // Who leads after a restart knows the same, and the log tells the one that was lost.
    all.serve(&[2, 1]);
    assert_eq!(all.read("old").1, Some(Ok("first".into())));
    all.start(0, &[2, 1, 0]);
    all.pass(12);
    assert!(all.agree(&[0, 1, 2]));
    assert_eq!(all.read("new").1, Some(Err(Errno::ENOENT.wire())));
    all.write("old", "third");
    assert_eq!(all.read("old").1, Some(Ok("third".into())));
}

#[test]
fn what_is_deleted_is_gone_at_all_copies_and_can_be_written_anew() {
    let mut all = lost();
    give_up_osd_0(&mut all);
    assert_eq!(mark(&mut all, Mercy::Delete), Gone::Marked(2));
    for name in ["old", "new"] {
        assert_eq!(all.read(name).1, Some(Err(Errno::ENOENT.wire())), "{name}");
    }
    assert!(all.agree(&[1, 2]));
    all.write("old", "third");
    all.start(0, &[1, 2, 0]);
    all.pass(12);
    assert!(all.agree(&[0, 1, 2]));
    assert_eq!(all.read("old").1, Some(Ok("third".into())));
    let leader = all.leads().expect("a primary");
    assert_eq!(all.pg(leader).stats().stats.num_objects, 2, "the statistics were counted again");
}

#[test]
fn the_next_primary_goes_on_with_a_version_that_counts_again_before_it_was_brought() {
    let mut all = lost();
    give_up_osd_0(&mut all);
    all.recover(false);
    assert_eq!(mark(&mut all, Mercy::Revert), Gone::Marked(2));
    // osd.2 only knows of it; osd.1, which has it, comes back after a while.
    all.kill(1);
    assert_eq!(all.read("old").1, None);
    all.recover(true);
    assert_eq!(unfound(&mut all).0, 1);
    all.start(1, &[2, 1]);
    all.pass(12);
    assert_eq!(all.read("old").1, Some(Ok("first".into())));
    assert!(all.agree(&[1, 2]));
}

#[test]
fn a_copy_that_is_no_member_and_whose_log_is_behind_gives_what_it_has() {
    let mut all = lost();
    // The others go on, so its log is not theirs; and the pool wants only two copies now.
    all.change(|map| map.pools.get_mut(&bench::POOL).expect("the pool").size = 2);
    all.pass(5);
    all.write("whole", "later");
    let (waits, answer) = all.read("old");
    assert_eq!((answer, unfound(&mut all).0), (None, 2));
    all.start(0, &[1, 2]);
    all.pass(12);
    assert_eq!(all.leads(), Some(1));
    assert_eq!(all.content(waits), Some(Ok("second".into())));
    assert_eq!(all.read("new").1, Some(Ok("new".into())));
    assert_eq!(unfound(&mut all).0, 0);
    assert!(all.agree(&[1, 2]));
}

/// Three copies; osd.2 has an empty disk and was to be filled by osd.1, which leads, and where there is no object `new`: that is nowhere but on
/// osd.0, which is dead.
fn filled(level: Level) -> Several {
    let mut all = Several::new(3);
    all.change(|map| map.level = level);
    all.osds.values_mut().for_each(|osd| osd.config.log_entries = 20);
    all.write("whole", "whole");
    (0..300).for_each(|n| all.write(&format!("o{n}"), "older than the log"));
    all.leave_with_osd_0("new");
    all.kill(2);
    all.replace_disk(2);
    all.recover(true);
    all.change(|map| {
        map.osd_weight = vec![0x1_0000; map.osd_state.len()];
        map.pg_upmap.insert(bench::several::GROUP, vec![1, 2, 0]);
    });
    all.start(2, &[1]);
    all.pass(40);
    all
}

/// How far osd.2 is, and how many objects it lacks.
fn progress(all: &mut Several) -> (bool, u64) {
    let peers = all.pg(1).query().peers;
    let peer = peers.into_iter().find(|peer| peer.copy.osd == 2).expect("a member");
    (peer.backfill.is_none(), peer.missing)
}

#[test]
fn a_copy_that_is_filled_does_not_pass_for_one_that_has_what_is_unfound() {
    let mut all = filled(Levels::OWN.newest);
    let (waits, answer) = all.read("new");
    assert_eq!((answer, unfound(&mut all).0), (None, 1));
    assert_eq!(all.read("whole").1, Some(Ok("whole".into())));
    // All else is there; it knows what it lacks, and waits for that as the others do.
    assert_eq!((progress(&mut all), all.osds[&2].store.objects().count()), ((true, 1), 301));
    all.write("later", "is written everywhere");
    // The next one to lead knows the same.
    all.serve(&[2, 1]);
    all.pass(12);
    assert_eq!((all.read("new").1, unfound(&mut all).0), (None, 1));
    all.serve(&[1, 2]);
    all.start(0, &[1, 2, 0]);
    all.pass(20);
    assert_eq!(all.content(waits).or(all.read("new").1), Some(Ok("new".into())));
    assert!(all.agree(&[0, 1, 2]));
}

#[test]
fn what_is_unfound_may_be_given_up_where_it_was_passed() {
    let mut all = filled(Levels::OWN.newest);
    give_up_osd_0(&mut all);
    assert_eq!(mark(&mut all, Mercy::Delete), Gone::Marked(1));
    assert_eq!((all.read("new").1, progress(&mut all)), (Some(Err(Errno::ENOENT.wire())), (true, 0)));
    all.write("new", "anew");
    assert!(all.agree(&[1, 2]));
}

#[test]
fn below_the_level_that_knows_it_a_backfill_waits_before_what_is_unfound() {
    let mut all = filled(Feature::LargeOmaps.level());
    assert!(!progress(&mut all).0);
    assert_eq!(all.read("new").1, None);
    all.start(0, &[1, 2, 0]);
    all.pass(40);
    assert_eq!(all.read("new").1, Some(Ok("new".into())));
    assert!(all.agree(&[0, 1, 2]));
}

#[test]
fn who_lacks_what_its_log_names_does_not_make_it_gone() {
    let mut all = lost();
    // The only copy loses it, and does not know.
    let bench = all.osd(0);
    let object = bench.store.objects().find(|object| object.name == "new").expect("it is there").clone();
    let objects = vec![ObjectChanges { object, changes: vec![ObjectChange::Remove] }];
    bench.store.submit(Transaction { objects, ..Transaction::default() }, Ticket(1 << 40)).expect("room");
    while bench.store.poll_event().is_some() {}
    all.start(0, &[1, 2]);
    all.pass(12);
    assert_eq!((all.leads(), all.read("old").1), (Some(1), Some(Ok("second".into()))));
    assert_eq!((all.read("new").1, unfound(&mut all).0), (None, 1), "it waits for somebody who has it, or to be given up");
}
