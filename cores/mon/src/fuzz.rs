//! The monitor's disk as an enemy would write it: checksums are made right, so that what lies behind them is reached. Only for
//! `tools/fuzz`.

use crate::commands;
use crate::config::Config;
use crate::log::format::{BLOCK, Group, SLOT, Slot, Super, replay};
use crate::state::change::Proposal;
use crate::state::{State, genesis};
use denc::{Decode as _, Encode as _};
use types::UTime;

const FSID: [u8; 16] = [7; 16];

/// A superblock slot with these bytes behind the magic number.
pub fn superblock(bytes: &[u8]) {
    let mut slot = vec![0; SLOT];
    slot[..8].copy_from_slice(b"nacremon");
    let n = bytes.len().min(BLOCK - 12);
    slot[8..8 + n].copy_from_slice(&bytes[..n]);
    let crc = kernels::crc32c(kernels::SEED, &slot[..BLOCK - 4]);
    slot[BLOCK - 4..BLOCK].copy_from_slice(&crc.to_le_bytes());
    if let Slot::Valid(sb) = Super::from_slot(&slot) {
        let _ = (sb.area_at(), sb.slot_at(), sb.log_at());
        assert_eq!(Super::from_slot(&sb.to_slot()), Slot::Valid(sb));
    }
}

/// A log area that begins with a group of these bytes (behind magic number, checksum and cluster).
pub fn log(bytes: &[u8]) {
    let mut group = 0x6d6f_6e47u32.to_le_bytes().to_vec();
    group.extend_from_slice(&[0; 4]);
    group.extend_from_slice(&FSID);
    group.extend_from_slice(bytes);
    // The length of what is checked is told by the group itself.
    if let Some(payload) = group.get(48..52).and_then(|b| b.try_into().ok()).map(u32::from_le_bytes)
        && let Some(covered) = 60usize.checked_add(payload as usize).and_then(|end| group.get(8..end))
    {
        let crc = kernels::crc32c(kernels::SEED, covered);
        group[4..8].copy_from_slice(&crc.to_le_bytes());
    }
    group.resize(group.len().next_multiple_of(BLOCK), 0);
    if let Some((parsed, ..)) = Group::from_blocks(&FSID, &group) {
        parsed.entries.iter().for_each(|entry| proposal(&entry.data));
    }
    let sb = Super { fsid: FSID, generation: 3, area_bytes: 1 << 20, snapshot_len: 10, snapshot_crc: 0, snapshot_index: 4 };
    let _ = replay(&sb, &group);
}

/// A proposal, and what it does to a new cluster.
pub fn proposal(bytes: &[u8]) {
    let Ok(proposal) = Proposal::from_bytes(bytes) else { return };
    let base = genesis::state(&config(), UTime::ZERO);
    let Ok(state) = base.apply(1, &proposal) else { return };
    let snapshot = state.to_snapshot();
    State::from_snapshot(&snapshot).expect("what was written here is read here");
    assert!(Proposal::from_bytes(&proposal.to_vec()).is_ok());
}

/// A snapshot.
pub fn snapshot(bytes: &[u8]) {
    if let Ok(state) = State::from_snapshot(bytes) {
        let again = state.to_snapshot();
        State::from_snapshot(&again).expect("what was written here is read here");
    }
}

/// A command as clients send it, for each of the tables.
pub fn command(text: &str) {
    for table in [commands::table(), commands::mon_table(), commands::mgr_table()] {
        let _ = commands::parse(table, text);
    }
}

/// The snapshot of a new cluster.
pub fn seed() -> Vec<u8> {
    genesis::state(&config(), UTime::ZERO).to_snapshot()
}

fn config() -> Config {
    let addrs = |text: &str| {
        let socket: std::net::SocketAddr = text.parse().expect("an address");
        types::EntityAddrVec(vec![types::EntityAddr::msgr2(socket, 0)])
    };
    Config {
        fsid: types::Fsid(FSID),
        name: "a".into(),
        addrs: addrs("127.0.0.1:3300"),
        mgr_name: "x".into(),
        mgr_addrs: addrs("127.0.0.1:6800"),
        host: "host".into(),
        auth: crate::AuthMode::Cephx,
        keys: Vec::new(),
        options: Default::default(),
        log_bytes: 0,
    }
}
