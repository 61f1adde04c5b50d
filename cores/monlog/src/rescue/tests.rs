//! Stores that were made are read again; epochs and numbers only go up; what is wrong is refused.

use super::*;
use crate::disk::format::{BLOCK, Group, Super};
use bytes::Bytes;
use maps::{Incremental, Pool};
use monstate::state::{Change, IdRange, MonRecord, Proposal};
use quorum::{Entry, Hard, Kind, Membership, Saved, Write};
use types::{EntityAddr, EntityAddrVec, Fsid};

const FSID: [u8; 16] = [7; 16];

fn config() -> Config {
    Config { addrs: at(3300), mgr_name: "b".into(), ..Config::bare(Fsid(FSID), "b") }
}

fn at(port: u16) -> EntityAddrVec {
    EntityAddrVec(vec![EntityAddr::msgr2(([10, 0, 0, 1], port).into(), 0)])
}

fn time(sec: u32) -> UTime {
    UTime { sec, nsec: 0 }
}

fn seat(sec: u32) -> Seat {
    Seat { name: "b".into(), addrs: at(3300), voter: 99, now: time(sec) }
}

/// A map after `map` with what `change` does to it.
fn next(map: &OsdMap, change: impl FnOnce(&mut Incremental)) -> OsdMap {
    let mut inc = Incremental::new(map.epoch + 1, map.fsid, time(50));
    change(&mut inc);
    inc.seal(map).unwrap().map
}

/// Two OSDs that were up, of which the second is down, and a pool.
fn with_osds(map: &OsdMap) -> OsdMap {
    let up = next(map, |inc| {
        inc.new_max_osd = 3;
        inc.new_pool_max = 1;
        for osd in 0..2 {
            inc.new_state.insert(osd, bits::EXISTS);
            inc.new_up_client.insert(osd, at(6800 + osd as u16));
        }
        inc.new_state.insert(2, bits::EXISTS);
        inc.new_pools.insert(1, Pool { size: 2, min_size: 1, snap_seq: 5, ..Pool::default() });
        inc.new_pool_names.insert(1, "data".into());
    });
    next(&up, |inc| {
        inc.new_state.insert(1, bits::UP);
    })
}

/// A monitor among three, with two entries in its log of which it knows that the first is committed.
fn store_of_three() -> Vec<u8> {
    let mut state = genesis::state(&config(), time(40)).passed(10);
    let map = with_osds(&state.osdmap);
    take_map(&mut state, map);
    let mut monmap = (*state.monmap).clone();
    monmap.add(MonInfo { name: "c".into(), public_addrs: at(3301), ..MonInfo::default() });
    state.monmap_bytes = monmap.to_bytes();
    state.monmap = Arc::new(monmap);
    let quorum = Arc::make_mut(&mut state.quorum);
    for (name, voter) in [("a", 1), ("b", 2), ("c", 3)] {
        quorum.mons.insert(name.into(), MonRecord { voter, mgr_name: name.into(), ..MonRecord::default() });
    }
    quorum.ranges.insert(1, IdRange { life: 4, from: 10, to: 20 });
    let ids = |ids: &[u64]| ids.iter().map(|id| VoterId(*id)).collect();
    let mut saved = Saved::alone(VoterId(2), quorum::Position { term: 6, index: 10 });
    saved.base.membership = Membership { voters: ids(&[1, 2, 3]), learners: ids(&[]) };
    let bytes: Vec<u8> = crate::disk::format::Snapshot { voter: VoterId(2), saved, state: state.to_snapshot().into() }.to_vec();
    let sb = Super {
        version: crate::disk::format::VERSION,
        fsid: FSID,
        generation: 0,
        area_bytes: 1 << 20,
        snapshot_len: bytes.len() as u64,
        snapshot_crc: kernels::crc32c(kernels::SEED, &bytes),
        snapshot_index: 10,
    };
    let mut disk = sb.to_slot();
    disk.resize(sb.area_at() as usize, 0);
    disk.extend_from_slice(&bytes);
    disk.resize(disk.len().next_multiple_of(BLOCK), 0);
    let entry = |index: u64, key: &str| {
        let change = Change::Key { key: key.into(), value: Some(Bytes::from_static(b"x")) };
        let data = Proposal { stamp: time(60), changes: vec![change] }.to_bytes();
        Entry { index, term: 7, kind: Kind::Command, data }
    };
    let hard = Hard { term: 7, vote: Some(VoterId(1)) };
    let write =
        Write { hard, commit: 11, cut_from: None, entries: vec![entry(11, "committed"), entry(12, "perhaps")], marks: None };
    let group = Group { generation: 0, previous: sb.snapshot_crc, at: 0, write };
    disk.extend_from_slice(&group.to_blocks(&FSID).0);
    disk
}

fn reader(disk: &[u8]) -> impl FnMut(u64, &mut [u8]) -> Result<(), String> + '_ {
    move |offset, buf| {
        let from = disk.get(offset as usize..).and_then(|rest| rest.get(..buf.len()));
        from.map(|bytes| buf.copy_from_slice(bytes)).ok_or_else(|| "behind the end".to_owned())
    }
}

fn disk_of(made: &Remade) -> Vec<u8> {
    let mut disk = Vec::new();
    for (offset, bytes) in &made.image {
        let end = *offset as usize + bytes.len();
        disk.resize(disk.len().max(end), 0);
        disk[*offset as usize..end].copy_from_slice(bytes);
    }
    disk
}

/// The state in a store that was made; a monitor's own check has nothing against it.
fn state_of(made: &Remade) -> (State, u64) {
    let disk = disk_of(made);
    let report = crate::fsck::check_store(&mut reader(&disk), disk.len() as u64, FSID);
    assert_eq!((report.fatal, report.minor, report.epoch), (Vec::new(), Vec::new(), made.epoch));
    let stored = stored(&mut reader(&disk), disk.len() as u64, FSID).unwrap();
    assert_eq!(stored.committed.index, stored.last.index, "all of it is committed");
    (stored.last, stored.term)
}

fn rescued(disk: &[u8], known: &Known) -> Remade {
    rescue(&mut reader(disk), disk.len() as u64, FSID, &seat(100), known).unwrap()
}

#[test]
fn who_goes_on_alone_keeps_all_that_it_has() {
    let disk = store_of_three();
    let made = rescued(&disk, &Known { osds: [0, 1].into(), ..Known::default() });
    assert_eq!((made.base, made.epoch, &made.unseen[..]), (3, 3 + JUMP, &[][..]));
    assert_eq!(made.dropped, ["c"]);
    let (state, term) = state_of(&made);
    assert!(term > 7 && state.index > 12, "its log is newer than any other");
    assert!(state.keys.contains_key("committed") && state.keys.contains_key("perhaps"));
    assert_eq!(state.monmap.ranks, ["b"]);
    let voters: Vec<_> = state.quorum.mons.iter().map(|(name, record)| (name.as_str(), record.voter)).collect();
    assert_eq!((voters, state.quorum.ranges.is_empty()), (vec![("b", 99)], true));
    let map = &state.osdmap;
    assert_eq!((state.history.first(), state.history.kept()), (made.epoch, 0), "whoever has an older map gets this one");
    assert!(map.is_up(0) && !map.is_up(1) && !map.has_flag(flags::NODOWN), "who is up goes on");
    assert_eq!(map.pools[&1].last_force_op_resend, made.epoch, "every group begins an interval");
}

/// The monitor may have been cut off while the others decided: OSDs of theirs may hold what it never heard of.
#[test]
fn who_goes_on_alone_lets_nobody_serve_before_all_are_there_whose_maps_were_not_seen() {
    let disk = store_of_three();
    for (seen, unseen) in [(&[][..], &[0, 1][..]), (&[0], &[1]), (&[0, 1], &[])] {
        let made = rescued(&disk, &Known { osds: seen.iter().copied().collect(), ..Known::default() });
        assert_eq!(made.unseen, unseen);
        let map = state_of(&made).0.osdmap;
        let held = !unseen.is_empty();
        assert_eq!((map.has_flag(flags::NODOWN), map.is_up(1), map.is_up(2)), (held, held, false), "seen {seen:?}");
    }
}

#[test]
fn stores_are_compared_by_the_last_entry() {
    let disk = store_of_three();
    let last = |disk: &[u8]| last_entry(&mut reader(disk), disk.len() as u64, FSID);
    assert_eq!(
        last(&disk),
        Ok((7, 12)),
        "its term, not the newest that the voter knew; an entry that may not be committed counts"
    );
    let made = disk_of(&rescued(&disk, &Known::default()));
    assert_eq!(last(&made), Ok((8, 13)), "the snapshot's, when no entry is behind it");
    assert!(last_entry(&mut reader(&disk), disk.len() as u64, [8; 16]).is_err());
}

#[test]
fn rescued_twice_is_higher_again() {
    let once = rescued(&store_of_three(), &Known::default());
    let twice = rescued(&disk_of(&once), &Known::default());
    let ((before, first), (after, second)) = (state_of(&once), state_of(&twice));
    assert!(twice.epoch > once.epoch && second > first);
    assert!(after.auth.global_id_limit > before.auth.global_id_limit);
    assert!(after.osdmap.pool_max > before.osdmap.pool_max);
    assert!(after.osdmap.pools[&1].snap_seq > before.osdmap.pools[&1].snap_seq);
    assert!(after.monmap.epoch > before.monmap.epoch && after.mgrmap.epoch > before.mgrmap.epoch);
}

#[test]
fn a_backup_holds_what_was_committed_and_is_restored_above_all_epochs() {
    let disk = store_of_three();
    let file = backup(&mut reader(&disk), disk.len() as u64, FSID, time(1000)).unwrap();
    let told = about(&file).unwrap();
    assert_eq!((told.fsid, told.stamp, told.epoch), (Fsid(FSID), time(1000), 3));
    assert_eq!(told.monitors.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["b", "c"]);

    let first = restore(&file, &seat(1000), &Known::default()).unwrap();
    let later = restore(&file, &seat(1500), &Known::default()).unwrap();
    assert_eq!(later.epoch, first.epoch + 5000);
    let (state, _) = state_of(&later);
    assert!(state.keys.contains_key("committed") && !state.keys.contains_key("perhaps"));
    // Nobody saw the OSDs' maps: none of them is missed.
    assert_eq!(later.unseen, [0, 1]);
    assert!(state.osdmap.is_up(0) && state.osdmap.is_up(1) && !state.osdmap.is_up(2) && state.osdmap.has_flag(flags::NODOWN));

    let epoch = restore(&file, &seat(1000), &Known { above: 5_000_000, ..Known::default() }).unwrap().epoch;
    assert!(epoch > 5_000_000);
    let why = restore(&file, &seat(999), &Known::default()).unwrap_err();
    assert!(why.contains("in the future"), "{why}");
    let why = restore(&file, &seat(1000), &Known { above: u32::MAX, ..Known::default() }).unwrap_err();
    assert!(why.contains("no room above"), "{why}");
}

#[test]
fn the_newest_map_of_an_osd_counts() {
    let disk = store_of_three();
    let file = backup(&mut reader(&disk), disk.len() as u64, FSID, time(1000)).unwrap();
    let all = Known { osds: [0, 1].into(), ..Known::default() };
    let newer = next(&next(&state_of(&rescued(&disk, &all)).0.osdmap, |_| {}), |inc| {
        inc.new_pool_names.insert(1, "renamed".into());
    });
    let known = Known { map: Some(newer.to_vec()), osds: [0, 1].into(), above: 0 };
    let made = restore(&file, &seat(1000), &known).unwrap();
    assert_eq!((made.base, made.epoch), (newer.epoch, newer.epoch + JUMP));
    let (state, _) = state_of(&made);
    assert_eq!(state.osdmap.pool_name[&1], "renamed");
    assert!(made.unseen.is_empty() && !state.osdmap.has_flag(flags::NODOWN), "all OSDs were asked");

    let made = rebuild(&config(), &seat(2000), &known).unwrap();
    let (state, _) = state_of(&made);
    assert_eq!((state.osdmap.pool_name[&1].as_str(), &state.monmap.ranks[..]), ("renamed", &["b".to_owned()][..]));
    assert!(rebuild(&config(), &seat(2000), &Known::default()).unwrap_err().contains("no OSD gave a map"));
    let foreign = OsdMap { fsid: Fsid([8; 16]), ..newer };
    let known = Known { map: Some(foreign.to_vec()), ..Known::default() };
    assert!(rebuild(&config(), &seat(2000), &known).unwrap_err().contains("is of cluster"));
}

#[test]
fn the_highest_level_that_is_known_counts_if_this_program_runs_it() {
    let disk = store_of_three();
    let file = backup(&mut reader(&disk), disk.len() as u64, FSID, time(1000)).unwrap();
    let level = |made: &Remade| state_of(made).0.osdmap.level.0;
    let base = state_of(&restore(&file, &seat(1000), &Known::default()).unwrap()).0.osdmap;
    let with = |level: u8, epoch| {
        let map = OsdMap { level: types::level::Level(level), epoch, ..(*base).clone() };
        Known { map: Some(map.to_vec()), ..Known::default() }
    };
    let newest = types::Levels::OWN.newest.0;
    // The OSD's map may be older than the backup's and the raise newer, after an earlier restoration.
    for epoch in [2, base.epoch + 1] {
        assert_eq!(level(&restore(&file, &seat(1000), &with(newest, epoch)).unwrap()), newest);
    }
    let why = restore(&file, &seat(1000), &with(newest + 1, base.epoch + 1)).unwrap_err();
    assert!(why.contains("too old, install a newer one"), "{why}");
}

#[test]
fn what_is_no_backup_or_is_damaged_is_refused() {
    let disk = store_of_three();
    let file = backup(&mut reader(&disk), disk.len() as u64, FSID, time(1000)).unwrap();
    assert!(about(b"").is_err() && about(b"nacrebak").unwrap_err().contains("cut off"));
    assert!(about(&file[..file.len() - 1]).unwrap_err().contains("cut off"));
    for at in [30, 200, file.len() - 1] {
        let mut damaged = file.clone();
        damaged[at] ^= 1;
        assert!(about(&damaged).unwrap_err().contains("damaged"), "byte {at}");
    }
    let mut newer = file;
    newer[8] = 2;
    assert!(about(&newer).unwrap_err().contains("format version 2"));
    let why = rescue(&mut reader(&disk), disk.len() as u64, [8; 16], &seat(1), &Known::default()).unwrap_err();
    assert!(why.contains("belongs to cluster"), "{why}");
}
