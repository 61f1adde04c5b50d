//! A lost host in a cluster that is small enough for each run of all tests. What is counted in messages and maps is the
//! same in every run; the bound of processor time is far above what a debug build takes on a busy machine, and below
//! what a loop over all OSDs for each message would take.

use scale::cluster::Size;
use scale::figures::{Row, host_lost, made};
use std::time::Duration;

/// 84 OSDs on 42 hosts, about as many groups for each OSD as in a large cluster.
const SIZE: Size = Size { osds: 84, pools: 2, groups: 1_024 };

#[test]
fn a_lost_host_costs_few_maps_and_few_reports() {
    let (mut cluster, mut rows) = made(SIZE).expect("a cluster");
    let [boot, pools] = &rows[..] else { panic!("two rows") };
    assert!(boot.taken > Duration::ZERO && pools.groups as usize >= SIZE.all_groups(), "{pools:?}");
    rows = host_lost(&mut cluster).expect("the groups serve again, and are clean again");
    let [idle, down, peered, waited, moved] = &rows[..] else { panic!("five rows: {rows:?}") };
    assert_eq!((idle.maps, idle.groups), (0, 0), "nothing is changed and told while nothing happens");
    assert!(down.maps <= 12, "both OSDs are marked down at once, or nearly, and those that peer are answered together: {down:?}");
    assert!(peered.maps <= 12, "who asks at once is answered at once: {peered:?}");
    // Each copy of the lost OSDs is one group; each is told when it peers and when it serves.
    let touched = SIZE.all_groups() * 3 / 42 * 2;
    assert!((down.groups + peered.groups) as usize <= 3 * touched, "only groups that changed are told: {down:?} {peered:?}");
    assert!(waited.maps <= 20, "{waited:?}");
    // Wishes that end one by one for ten seconds: not more than two maps a second, and some for those that begin.
    assert!(moved.maps <= 50, "{moved:?}");
    let all: Duration = rows.iter().map(|row: &Row| row.taken).sum();
    assert!(all < Duration::from_secs(20), "the monitor took {all:?}");
}
