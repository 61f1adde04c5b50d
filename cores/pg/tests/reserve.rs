//! Slots for recovery: a group moves objects only while it has one here and one at each target, and gives them back on every way out.

mod bench;

use bench::several::{GROUP, Several};
use pg::{SlotSide, SlotWish, SlotWishes};
use types::{PgState, SpgId};

/// Three copies, of which osd.2 lacks an object, and nobody gives slots.
fn behind() -> Several {
    let mut all = Several::new(3);
    all.write("a", "first");
    all.kill(2);
    all.write("a", "second");
    all.generous.clear();
    all.start(2, &[0, 1, 2]);
    all
}

fn state(all: &mut Several) -> PgState {
    all.pg(0).stats().state
}

fn wishes(all: &mut Several, osd: i32) -> SlotWishes {
    all.pg(osd).slot_wishes()
}

fn because(all: &mut Several) -> String {
    all.pg(0).query().because
}

fn waits(priority: u8) -> Option<SlotWish> {
    Some(SlotWish { priority, held: false })
}

fn has(priority: u8) -> Option<SlotWish> {
    Some(SlotWish { priority, held: true })
}

#[test]
fn nothing_moves_before_all_slots_are_there_and_all_are_given_back() {
    let mut all = behind();
    assert!(state(&mut all).has(PgState::RECOVERY_WAIT) && !state(&mut all).has(PgState::RECOVERING));
    assert_eq!((wishes(&mut all, 0).local, wishes(&mut all, 2).remote), (waits(180), None));
    assert_eq!(because(&mut all), "it waits for one of the slots of this OSD (osd_max_backfills)");
    all.slot(0, SlotSide::Local, true);
    all.pass(1);
    assert_eq!(because(&mut all), "it waits for a slot of osd.2 (osd_max_backfills)");
    // Only who gets objects is asked.
    assert_eq!((wishes(&mut all, 0).local, wishes(&mut all, 1).remote, wishes(&mut all, 2).remote), (has(180), None, waits(180)));
    assert_eq!(all.pg(0).query().peers[1].missing, 1);
    all.slot(2, SlotSide::Remote, true);
    all.pass(1);
    assert!(all.agree(&[0, 1, 2]));
    assert_eq!(because(&mut all), "");
    for osd in 0..3 {
        assert_eq!(wishes(&mut all, osd), SlotWishes::default(), "osd.{osd}");
    }
}

#[test]
fn what_a_client_waits_for_needs_no_slot() {
    let mut all = behind();
    all.write("a", "third");
    assert_eq!(all.read("a").1, Some(Ok("third".into())));
    assert!(all.agree(&[0, 1, 2]));
}

#[test]
fn a_slot_that_is_taken_away_is_asked_for_again_with_all_others() {
    let mut all = behind();
    all.slot(0, SlotSide::Local, true);
    all.pass(1);
    all.slot(2, SlotSide::Remote, false);
    all.pass(1);
    assert_eq!((wishes(&mut all, 0).local, wishes(&mut all, 2).remote), (waits(180), None));
    all.slot(0, SlotSide::Local, true);
    all.pass(1);
    assert_eq!(wishes(&mut all, 2).remote, waits(180));
    // The other way round: the own slot goes, and the target has its own again.
    all.slot(0, SlotSide::Local, false);
    all.pass(1);
    assert_eq!((wishes(&mut all, 0).local, wishes(&mut all, 2).remote), (waits(180), None));
    all.generous = (0..3).collect();
    all.pass(6);
    assert!(all.agree(&[0, 1, 2]));
}

#[test]
fn an_operator_raises_the_priority_here_and_at_the_target() {
    let mut all = behind();
    all.slot(0, SlotSide::Local, true);
    all.pass(1);
    all.osd(0).with(SpgId::whole(GROUP), |pg, ctx| pg.force(ctx, false, true));
    all.pass(1);
    assert_eq!((wishes(&mut all, 0).local, wishes(&mut all, 2).remote), (has(255), waits(255)));
    assert!(state(&mut all).has(PgState::FORCED_RECOVERY));
    all.osd(0).with(SpgId::whole(GROUP), |pg, ctx| pg.force(ctx, false, false));
    all.pass(1);
    assert_eq!((wishes(&mut all, 0).local, wishes(&mut all, 2).remote), (has(180), waits(180)));
}

#[test]
fn slots_end_with_the_interval() {
    let mut all = behind();
    all.slot(0, SlotSide::Local, true);
    all.pass(1);
    assert_eq!(wishes(&mut all, 2).remote, waits(180));
    all.kill(1);
    // Another interval has begun: nothing of the last one is left, and the group waits anew.
    assert_eq!((wishes(&mut all, 0).local, wishes(&mut all, 2).remote), (waits(180), None));
}

#[test]
fn a_target_that_is_too_full_lends_nothing_and_is_asked_later() {
    let mut all = behind();
    all.change(|map| map.full_ratio = 1e-12);
    all.generous = (0..3).collect();
    all.pass(2);
    assert!(state(&mut all).has(PgState::RECOVERY_TOOFULL), "{}", state(&mut all));
    assert_eq!((wishes(&mut all, 0), wishes(&mut all, 2)), Default::default());
    all.change(|map| map.full_ratio = 0.95);
    all.pass(31);
    assert!(all.agree(&[0, 1, 2]));
    assert!(!state(&mut all).has(PgState::RECOVERY_TOOFULL));
}
