//! The monitor's disk as an enemy would write it: checksums are made right, so that what lies behind them is reached.
//! Only for `tools/fuzz`.

use crate::disk::format::{BLOCK, GROUP_HEAD, Group, SLOT, Slot, Snapshot, Super, VERSION, replay};
use crate::disk::v1;
use denc::{Decode as _, Encode as _};
use monstate::fuzz::{proposal, seed};
use quorum::{Config as VoterConfig, Node, Position, Saved, VoterId};

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
    let group = group(*b"Hnom", GROUP_HEAD, bytes);
    if let Some((parsed, ..)) = Group::from_blocks(&FSID, &group) {
        parsed.write.entries.iter().for_each(|entry| proposal(&entry.data));
    }
    let saved = Saved::alone(VoterId(5), Position { term: 1, index: 4 });
    if let Ok(replayed) = replay(&sb(VERSION), saved, &group) {
        assert_eq!(replayed.saved.check(), Ok(()));
        let _ = Node::new(VoterConfig::new(VoterId(5), 1), replayed.saved, node::Mono(0));
    }
}

/// The same for a store of version 1.
pub fn log_1(bytes: &[u8]) {
    let group = group(*b"Gnom", 60, bytes);
    if let Ok((entries, ..)) = v1::replay(&sb(1), &group) {
        entries.iter().for_each(|entry| proposal(&entry.data));
    }
}

fn sb(version: u32) -> Super {
    Super { version, fsid: FSID, generation: 3, area_bytes: 1 << 20, snapshot_len: 10, snapshot_crc: 0, snapshot_index: 4 }
}

/// Blocks with a group of so many bytes of head; its checksum is right.
fn group(magic: [u8; 4], head: usize, bytes: &[u8]) -> Vec<u8> {
    let mut group = magic.to_vec();
    group.extend_from_slice(&[0; 4]);
    group.extend_from_slice(&FSID);
    group.extend_from_slice(bytes);
    // The length of what is checked is told by the group itself: last in the new head, before the first index in the old one.
    let at = if head == 60 { 48 } else { head - 4 };
    if let Some(payload) = group.get(at..at + 4).and_then(|b| b.try_into().ok()).map(u32::from_le_bytes)
        && let Some(covered) = head.checked_add(payload as usize).and_then(|end| group.get(8..end))
    {
        let crc = kernels::crc32c(kernels::SEED, covered);
        group[4..8].copy_from_slice(&crc.to_le_bytes());
    }
    group.resize(group.len().next_multiple_of(BLOCK), 0);
    group
}

/// Reads the beginning of an area.
pub fn beginning(bytes: &[u8]) {
    if let Ok(snapshot) = Snapshot::from_bytes(bytes) {
        let again: Vec<u8> = snapshot.to_vec();
        assert_eq!(Snapshot::from_bytes(&again), Ok(snapshot));
    }
}

/// A message of another voter, and what it does to one of three.
pub fn message(bytes: &[u8]) {
    let mut wire = bytes.to_vec();
    wire.extend(kernels::crc32c(kernels::SEED, bytes).to_le_bytes());
    let voters: std::collections::BTreeSet<VoterId> = [VoterId(1), VoterId(2), VoterId(3)].into();
    let membership = quorum::Membership { voters, ..Default::default() };
    let saved = Saved { base: quorum::Base { membership, ..Default::default() }, ..Saved::default() };
    let mut node = Node::new(VoterConfig::new(VoterId(2), 1), saved, node::Mono(0));
    let Ok((from, message)) = quorum::Message::from_wire(&wire, &FSID, VoterId(2)) else { return };
    assert_eq!(
        quorum::Message::from_wire(&message.to_wire(&FSID, from, VoterId(2)), &FSID, VoterId(2)),
        Ok((from, message.clone()))
    );
    node.step(node::Mono(1), from, message);
    if node.ready(true).write.is_some() {
        node.persisted();
    }
    let _ = node.ready(true);
}

/// Seeds for [`message`].
pub fn messages() -> Vec<Vec<u8>> {
    let entry = quorum::Entry { index: 1, term: 1, kind: quorum::Kind::Command, data: b"a".as_slice().into() };
    let bodies = [
        quorum::Body::Vote(Position { term: 1, index: 7 }),
        quorum::Body::Append { previous: Position::default(), entries: vec![entry], commit: 1, round: 3 },
        quorum::Body::Appended(quorum::Verdict::Matched(3), 3),
        quorum::Body::StateTaken(3, 17),
    ];
    let wire = |body| quorum::Message::new(3, body).to_wire(&FSID, VoterId(1), VoterId(2));
    bodies.into_iter().map(wire).map(|w| w[..w.len() - 4].to_vec()).collect()
}

/// A seed for [`log`].
pub fn groups() -> Vec<Vec<u8>> {
    let entry = quorum::Entry { index: 5, term: 1, kind: quorum::Kind::Command, data: b"\x01\x01\0\0\0\0".as_slice().into() };
    let hard = quorum::Hard { term: 1, vote: Some(VoterId(5)) };
    let write = quorum::Write { hard, commit: 4, cut_from: None, entries: vec![entry], marks: None };
    let (bytes, _) = Group { generation: 3, previous: 0, at: 0, write }.to_blocks(&FSID);
    vec![bytes[24..200].to_vec()]
}

/// The beginning of a new store.
pub fn first() -> Vec<u8> {
    let saved = Saved::alone(VoterId(5), Position::default());
    Snapshot { voter: VoterId(5), saved, state: seed().into() }.to_vec()
}
