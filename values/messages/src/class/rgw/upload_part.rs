//! What a multipart upload keeps of a part. Only the object gateway knows what is in the manifest: here it is bytes
//! from which two things are read.

use bytes::Bytes;
use denc::{Decode, Encode, Reader, Result, envelope};
use std::collections::BTreeSet;
use types::UTime;

/// Reads an enveloped structure without looking into it.
fn opaque(r: &mut Reader<'_>) -> Result<Bytes> {
    let mut end = r.clone();
    end.skip(2)?;
    let length = end.u32()? as usize;
    Ok(Bytes::copy_from_slice(r.take(6 + length)?))
}

/// Objects that hold a part's data, as the gateway encoded it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    bytes: Bytes,
    prefix: Bytes,
    empty: bool,
}

impl Manifest {
    /// The prefix of the names of its objects.
    pub fn prefix(&self) -> &Bytes {
        &self.prefix
    }

    /// Returns true if it names no objects.
    pub fn is_empty(&self) -> bool {
        self.empty
    }
}

impl Decode for Manifest {
    const MIN_SIZE: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let bytes = opaque(r)?;
        let mut e = Reader::new(&bytes).envelope("Manifest", 8)?;
        // Before version 3 there were no rules, and no prefix.
        e.at_least("Manifest", 3)?;
        let b = &mut e.body;
        b.skip(8)?;
        // Objects by their offsets, from the time before rules.
        let objects = b.count(8 + 6)?;
        for _ in 0..objects {
            b.skip(8)?;
            opaque(b)?;
        }
        let explicit: bool = b.get()?;
        opaque(b)?;
        b.skip(16)?;
        let prefix = b.get()?;
        let rules = b.count(8 + 6)?;
        let empty = if explicit { objects == 0 } else { rules == 0 };
        Ok(Self { bytes, prefix, empty })
    }
}

impl Encode for Manifest {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.bytes);
    }
}

/// A part of a multipart upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UploadPart {
    version: u8,
    /// Number of the part.
    pub number: u32,
    /// Bytes as stored.
    pub size: u64,
    /// ETag.
    pub etag: Bytes,
    /// Time when it was written.
    pub time: UTime,
    /// Place where its data are.
    pub manifest: Manifest,
    /// Its compression, as the gateway encoded it.
    pub compression: Bytes,
    /// Bytes as the client sent them.
    pub accounted_size: u64,
    /// Prefixes of the objects of earlier writes of this part, which are to be removed; not known to version 4.
    pub past_prefixes: BTreeSet<Bytes>,
    /// Bytes that newer gateways add.
    rest: Bytes,
}

impl Decode for UploadPart {
    const MIN_SIZE: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        // Whoever may read version 2 may read this, and what is new stands at the end.
        let mut e = r.envelope("UploadPart", 5)?;
        e.at_least("UploadPart", 4)?;
        let (version, b) = (e.version, &mut e.body);
        Ok(Self {
            version,
            number: b.get()?,
            size: b.get()?,
            etag: b.get()?,
            time: b.get()?,
            manifest: b.get()?,
            compression: opaque(b)?,
            accounted_size: b.get()?,
            past_prefixes: if version >= 5 { b.get()? } else { BTreeSet::new() },
            rest: Bytes::copy_from_slice(b.rest()),
        })
    }
}

impl Encode for UploadPart {
    fn encode(&self, out: &mut Vec<u8>) {
        let version = if self.past_prefixes.is_empty() { self.version } else { self.version.max(5) };
        envelope(out, version, 2, |out| {
            self.number.encode(out);
            self.size.encode(out);
            self.etag.encode(out);
            self.time.encode(out);
            self.manifest.encode(out);
            out.extend_from_slice(&self.compression);
            self.accounted_size.encode(out);
            if version >= 5 {
                self.past_prefixes.encode(out);
            }
            out.extend_from_slice(&self.rest);
        });
    }
}

/// Input of `mp_upload_part_info_update`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdatePartOp {
    /// Key in the omap.
    pub key: Bytes,
    /// The part.
    pub part: UploadPart,
}
denc::versioned!(UpdatePartOp, 1, 1 { key, part });
