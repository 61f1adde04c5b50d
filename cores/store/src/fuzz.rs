//! Bytes of a disk as an enemy would write them: checksums are made right, so that what lies behind them is reached. Only for
//! `tools/fuzz`.

use crate::block::{BLOCK, Patch};
use crate::index::delta::Delta;
use crate::index::keys;
use crate::index::page::PageRef;
use crate::journal::group::{self, Header};
use crate::onode::Onode;
use crate::superblock::{Superblock, VERSION};
use bytes::Bytes;
use denc::Reader;
use kernels::{SEED, crc32c};

const UUID: [u8; 16] = [7; 16];

/// A block's last four bytes become the checksum of the others.
pub fn seal_block(block: &mut [u8]) {
    let at = block.len() - 4;
    let crc = crc32c(SEED, &block[..at]);
    block[at..].copy_from_slice(&crc.to_le_bytes());
}

/// A superblock with these bytes behind magic number and version.
pub fn superblock(bytes: &[u8]) {
    let mut block = Superblock { version: VERSION, ..Superblock::default() }.encode().to_vec();
    let n = bytes.len().min(BLOCK - 16);
    block[12..12 + n].copy_from_slice(&bytes[..n]);
    seal_block(&mut block);
    if let Ok(Some(sb)) = Superblock::parse(&block) {
        // What opened must survive its own encoding, unless it names more skipped ranges than a block holds.
        if sb.skipped.len() <= crate::superblock::MOST_SKIPPED {
            assert_eq!(Superblock::parse(&sb.encode()), Ok(Some(sb)));
        }
    }
}

/// A journal group: six numbers of its header, then the records and their checksums.
pub fn journal_group(bytes: &[u8]) {
    let Some((head, meta)) = bytes.split_at_checked(32) else { return };
    let mut r = Reader::new(head);
    let mut num = || r.u64().unwrap_or_default();
    let (lsn, durable, counts) = (num(), num(), num());
    let mut header = Header {
        version: 1 + u32::from(meta.len().is_multiple_of(2)),
        uuid: UUID,
        incarnation: 1,
        lsn,
        durable,
        meta_len: meta.len() as u32,
        meta_crc: crc32c(SEED, meta),
        data_blocks: (counts as u32) % 9,
        records: (counts >> 32) as u32 % 99,
        ..Header::default()
    };
    let mut whole = vec![0; header.blocks() as usize * BLOCK];
    whole[..group::HEADER].copy_from_slice(&header.encode());
    whole[group::HEADER..group::HEADER + meta.len()].copy_from_slice(meta);
    let Some(parsed) = Header::parse(&whole, &UUID) else { panic!("a sealed header is one") };
    for record in group::parse(&parsed, &whole).unwrap_or_default() {
        changes(&record.body);
    }
}

/// The changes of a record.
pub fn changes(bytes: &[u8]) {
    let mut delta = Delta::default();
    let _ = delta.apply(&Bytes::copy_from_slice(bytes), |patch| assert!(patch.iter().count() <= 16));
}

/// A page of the index with these bytes behind its magic number; all that is asked of pages.
pub fn page(bytes: &[u8]) {
    let mut page = b"NPg1".to_vec();
    page.extend_from_slice(bytes);
    if page.len() >= 16 {
        page[8..16].copy_from_slice(&9u64.to_le_bytes());
    }
    let Some(page) = PageRef::parse(page.into(), 9) else { return };
    let _ = (page.level(), page.size(), page.lower_bound(b"N"), page.child_for(b""));
    for i in 0..page.len().min(64) {
        let key = page.key(i);
        value(&page.value(i));
        let _ = (keys::object(&key), keys::scope(&key), keys::extent_of(&key), keys::chunk_of(keys::FREE, &key));
        let _ = (page.child(i), page.cmp_key(i, &key));
    }
}

/// A value of the index, as everything that it could be.
pub fn value(bytes: &[u8]) {
    let shared = Bytes::copy_from_slice(bytes);
    let _ = (
        Onode::decode(&shared),
        crate::family::Family::decode(bytes),
        keys::family_of(bytes),
        keys::object(bytes),
        keys::scope(bytes),
        keys::successor(bytes),
    );
    if let Ok(patch) = Patch::decode(&mut Reader::new(bytes)) {
        let mut again = Vec::new();
        patch.encode(&mut again);
        let twice = Patch::decode(&mut Reader::new(&again)).expect("what was encoded here decodes here");
        assert!(patch.iter().eq(twice.iter()));
    }
    crate::space::decode_values(bytes);
}
