//! Groups of records, as they lie in the ring.

use super::staged::Staged;
use crate::block::{BLOCK, blocks};
use crate::superblock::{OLDEST, PLAIN, VERSION};
use bytes::Bytes;
use denc::{DecodeError, Encode, Reader, Result, index, len32};
use kernels::{SEED, crc32c};
use node::Buf;
use types::{PgId, ShardId, SpgId};

const MAGIC: u64 = u64::from_le_bytes(*b"NACREGRP");
/// Bytes of the header; records follow at once.
pub(crate) const HEADER: usize = 96;

/// What a group's header says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Header {
    /// Version of the format of this group and its records.
    pub(crate) version: u32,
    pub(crate) uuid: [u8; 16],
    pub(crate) incarnation: u64,
    /// Number of the group.
    pub(crate) lsn: u64,
    /// Checksum of the predecessor's header.
    pub(crate) chain: u32,
    /// Highest number known durable when this group was formed.
    pub(crate) durable: u64,
    pub(crate) meta_len: u32,
    pub(crate) meta_crc: u32,
    pub(crate) data_blocks: u32,
    pub(crate) records: u32,
    /// Checksum of this header: the successor's `chain`.
    pub(crate) crc: u32,
}

impl Header {
    pub(crate) fn encode(&mut self) -> [u8; HEADER] {
        let mut out = Vec::with_capacity(HEADER);
        (MAGIC, 0u32).encode(&mut out);
        self.version.encode(&mut out);
        out.extend_from_slice(&self.uuid);
        (self.incarnation, self.lsn).encode(&mut out);
        (self.chain, self.meta_crc).encode(&mut out);
        (self.durable, self.meta_len).encode(&mut out);
        (self.data_blocks, self.records).encode(&mut out);
        out.resize(HEADER, 0);
        self.crc = crc32c(SEED, &out[12..]);
        out[8..12].copy_from_slice(&self.crc.to_le_bytes());
        let mut header = [0; HEADER];
        header.copy_from_slice(&out);
        header
    }

    /// Reads a header. None if these bytes are no whole header of store `uuid`.
    pub(crate) fn parse(bytes: &[u8], uuid: &[u8; 16]) -> Option<Self> {
        let bytes = bytes.get(..HEADER)?;
        let mut r = Reader::new(bytes);
        let (magic, crc) = (r.u64().ok()?, r.u32().ok()?);
        if magic != MAGIC || bytes[16..32] != uuid[..] || crc32c(SEED, &bytes[12..]) != crc {
            return None;
        }
        let version = Some(r.u32().ok()?).filter(|version| (OLDEST..=VERSION).contains(version))?;
        let uuid = r.array().ok()?;
        let (incarnation, lsn, chain, meta_crc) = (r.u64().ok()?, r.u64().ok()?, r.u32().ok()?, r.u32().ok()?);
        let (durable, meta_len) = (r.u64().ok()?, r.u32().ok()?);
        let (data_blocks, records) = (r.u32().ok()?, r.u32().ok()?);
        Some(Self { version, uuid, incarnation, lsn, chain, durable, meta_len, meta_crc, data_blocks, records, crc })
    }

    /// Blocks before the data.
    pub(crate) fn meta_blocks(&self) -> u64 {
        blocks(HEADER as u64 + u64::from(self.meta_len))
    }

    /// Blocks of the whole group.
    pub(crate) fn blocks(&self) -> u64 {
        self.meta_blocks() + u64::from(self.data_blocks)
    }
}

/// A record's head; its changes follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RecordHead {
    pub(crate) seq: u64,
    pub(crate) scope: SpgId,
    /// The object id counter after this transaction.
    pub(crate) next_id: u64,
    /// Blocks of data in the group that are this record's.
    pub(crate) data_blocks: u32,
    /// What else the record holds, by bits; none is defined yet. See `docs/format/store.md`, section 3.
    pub(crate) parts: u8,
}

/// A version and a request id, which records of version 1 have and nobody ever read.
const UNREAD: usize = 12 + 21;

// A record is encoded before its group is formed, and a flip that marks the store may come between.
const _: () = assert!(record_head(PLAIN) == record_head(VERSION));

/// Bytes of an encoded head, the record's length in front included.
pub(crate) const fn record_head(version: u32) -> usize {
    4 + 8 + 13 + 8 + 4 + if version == 1 { UNREAD } else { 1 }
}

impl RecordHead {
    /// Begins a record in `out` (which is empty); its length is filled in by [`finish`].
    pub(crate) fn encode(&self, version: u32, out: &mut Vec<u8>) {
        0u32.encode(out);
        self.seq.encode(out);
        (self.scope.pg.pool, self.scope.pg.seed).encode(out);
        self.scope.shard.0.encode(out);
        if version == 1 {
            out.extend_from_slice(&[0; UNREAD]);
        }
        (self.next_id, self.data_blocks).encode(out);
        if version != 1 {
            self.parts.encode(out);
        }
        debug_assert_eq!(out.len(), record_head(version));
    }

    fn decode(version: u32, r: &mut Reader<'_>) -> Result<Self> {
        let seq = r.u64()?;
        let pg = PgId::new(r.get()?, r.u32()?);
        let scope = SpgId { pg, shard: ShardId(r.get()?) };
        if version == 1 {
            r.take(UNREAD)?;
        }
        let (next_id, data_blocks) = (r.u64()?, r.u32()?);
        Ok(Self { seq, scope, next_id, data_blocks, parts: if version == 1 { 0 } else { r.u8()? } })
    }
}

/// Fills in the length of a record that `out` holds.
pub(crate) fn finish(out: &mut [u8]) {
    let len = u32::try_from(out.len()).expect("records are bounded by the ring");
    out[..4].copy_from_slice(&len.to_le_bytes());
}

/// A record on its way into a group: head and changes, and its blocks.
pub(crate) struct Outgoing {
    pub(crate) meta: Bytes,
    pub(crate) data: Staged,
}

/// Bytes that the meta of records with these lengths takes.
pub(crate) fn meta_len(records: usize, blocks: usize) -> usize {
    records + 4 * blocks
}

/// Lays a group out in one buffer. The data of record `i` begins at the block told in the result's second part.
pub(crate) fn build(header: &mut Header, records: &[Outgoing]) -> (Buf, Vec<u64>) {
    let data_blocks: usize = records.iter().map(|r| r.data.len()).sum();
    header.meta_len = len32(meta_len(records.iter().map(|r| r.meta.len()).sum(), data_blocks));
    (header.data_blocks, header.records) = (len32(data_blocks), len32(records.len()));
    let meta_blocks = index(header.meta_blocks());
    let mut buf = Buf::new(index(header.blocks()) * BLOCK);
    let mut at = HEADER;
    for record in records {
        buf[at..at + record.meta.len()].copy_from_slice(&record.meta);
        at += record.meta.len();
    }
    let mut starts = Vec::with_capacity(records.len());
    let mut block = meta_blocks;
    for record in records {
        starts.push(block as u64);
        for crc in record.data.crcs() {
            buf[at..at + 4].copy_from_slice(&crc.to_le_bytes());
            at += 4;
        }
        let end = block + record.data.len();
        record.data.copy_to(&mut buf[block * BLOCK..end * BLOCK]);
        block = end;
    }
    header.meta_crc = crc32c(SEED, &buf[HEADER..at]);
    buf[at..meta_blocks * BLOCK].fill(0);
    let head = header.encode();
    buf[..HEADER].copy_from_slice(&head);
    (buf, starts)
}

/// A record as replay sees it.
pub(crate) struct Replayed {
    pub(crate) head: RecordHead,
    /// Its changes.
    pub(crate) body: Bytes,
    /// Place where its data begins, in blocks from the group's start.
    pub(crate) data_at: u64,
}

/// Takes a whole group apart. None if it is not whole: `bytes` are all its blocks.
pub(crate) fn parse(header: &Header, bytes: &[u8]) -> Option<Vec<Replayed>> {
    let meta = bytes.get(HEADER..HEADER + header.meta_len as usize)?;
    if crc32c(SEED, meta) != header.meta_crc {
        return None;
    }
    let table = meta.len().checked_sub(header.data_blocks as usize * 4)?;
    for (i, crc) in meta[table..].chunks_exact(4).enumerate() {
        let at = (index(header.meta_blocks()) + i) * BLOCK;
        if crc32c(SEED, bytes.get(at..at + BLOCK)?).to_le_bytes() != crc {
            return None;
        }
    }
    records(header, Bytes::copy_from_slice(&meta[..table])).ok()
}

fn records(header: &Header, meta: Bytes) -> Result<Vec<Replayed>> {
    let mut out = Vec::new();
    let (mut at, mut data_at, head_len) = (0, header.meta_blocks(), record_head(header.version));
    for _ in 0..header.records {
        let mut r = Reader::new(&meta[at..]);
        let len = r.u32()? as usize;
        let head = RecordHead::decode(header.version, &mut r)?;
        if len < head_len || len > meta.len() - at {
            return Err(DecodeError::Invalid("length of a record"));
        }
        out.push(Replayed { head, body: meta.slice(at + head_len..at + len), data_at });
        at += len;
        data_at += u64::from(head.data_blocks);
    }
    if at != meta.len() || data_at != header.blocks() {
        return Err(DecodeError::Invalid("records of a group"));
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(version: u32) -> (Header, Vec<u8>) {
        let mut records = Vec::new();
        for seq in 0..3u64 {
            let head = RecordHead { seq, next_id: 5, data_blocks: seq as u32, ..RecordHead::default() };
            let mut meta = Vec::new();
            head.encode(version, &mut meta);
            meta.extend_from_slice(&vec![seq as u8; 1000 * seq as usize]);
            finish(&mut meta);
            let mut data = Staged::default();
            for _ in 0..seq {
                data.push(vec![seq as u8; BLOCK].into());
            }
            records.push(Outgoing { meta: meta.into(), data });
        }
        let mut header = Header { version, uuid: [3; 16], incarnation: 2, lsn: 9, chain: 77, durable: 8, ..Header::default() };
        let (buf, starts) = build(&mut header, &records);
        assert_eq!(starts, [1, 1, 2]);
        (header, buf.to_vec())
    }

    #[test]
    fn groups_come_back() {
        for version in OLDEST..=VERSION {
            let (header, bytes) = group(version);
            assert_eq!(Header::parse(&bytes, &[3; 16]), Some(header));
            assert_eq!(Header::parse(&bytes, &[4; 16]), None, "another store's");
            let records = parse(&header, &bytes).expect("whole");
            assert_eq!(
                records.iter().map(|r| (r.head.seq, r.head.next_id, r.body.len(), r.data_at)).collect::<Vec<_>>(),
                [(0, 5, 0, 1), (1, 5, 1000, 1), (2, 5, 2000, 2)]
            );
        }
    }

    #[test]
    fn a_group_of_an_unknown_version_is_none() {
        for version in [OLDEST - 1, VERSION + 1] {
            let (_, bytes) = group(version);
            assert_eq!(Header::parse(&bytes, &[3; 16]), None);
        }
    }

    #[test]
    fn any_torn_sector_is_seen() {
        let (header, bytes) = group(VERSION);
        for sector in 0..bytes.len() / 512 {
            let mut torn = bytes.clone();
            torn[sector * 512..(sector + 1) * 512].fill(0xee);
            let padding = (HEADER + header.meta_len as usize).div_ceil(512)..8;
            let whole = Header::parse(&torn, &[3; 16]) == Some(header) && parse(&header, &torn).is_some();
            assert_eq!(whole, padding.contains(&sector), "sector {sector}");
        }
    }
}
