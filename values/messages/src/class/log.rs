//! Classes `log` and `timeindex`: entries by time.

use bytes::Bytes;
use denc::{Decode, Encode, Reader, Result, envelope};
use types::UTime;

/// An entry of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogEntry {
    /// The caller's.
    pub section: Bytes,
    /// The caller's.
    pub name: Bytes,
    /// Time.
    pub timestamp: UTime,
    /// The data.
    pub data: Bytes,
    /// Its key; made if it is empty. Not known to version 1.
    pub id: Bytes,
}

impl Decode for LogEntry {
    const MIN_SIZE: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut e = r.envelope("LogEntry", 2)?;
        let b = &mut e.body;
        let (section, name, timestamp, data) = (b.get()?, b.get()?, b.get()?, b.get()?);
        let id = if e.version >= 2 { b.get()? } else { Bytes::new() };
        Ok(Self { section, name, timestamp, data, id })
    }
}

impl Encode for LogEntry {
    fn encode(&self, out: &mut Vec<u8>) {
        envelope(out, 2, 1, |out| {
            self.section.encode(out);
            self.name.encode(out);
            self.timestamp.encode(out);
            self.data.encode(out);
            self.id.encode(out);
        });
    }
}

/// Header of a log; output of `info` in an envelope of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogHeader {
    /// The largest key.
    pub max_marker: Bytes,
    /// The latest time.
    pub max_time: UTime,
}
denc::versioned!(LogHeader, 1, 1 { max_marker, max_time });

/// Input of `add`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddOp {
    /// Entries to add.
    pub entries: Vec<LogEntry>,
    /// True if no entry may be earlier than the latest; not known to version 1, which meant so.
    pub monotonic: bool,
}

impl Decode for AddOp {
    const MIN_SIZE: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut e = r.envelope("AddOp", 2)?;
        let entries = e.body.get()?;
        let monotonic = if e.version >= 2 { e.body.get()? } else { true };
        Ok(Self { entries, monotonic })
    }
}

impl Encode for AddOp {
    fn encode(&self, out: &mut Vec<u8>) {
        envelope(out, 2, 1, |out| {
            self.entries.encode(out);
            self.monotonic.encode(out);
        });
    }
}

/// Input of `list`, of both classes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListOp {
    /// First time.
    pub from: UTime,
    /// Key after which to begin, if not empty.
    pub marker: Bytes,
    /// Time after the last.
    pub to: UTime,
    /// Most entries.
    pub max: i32,
}
denc::versioned!(ListOp, 1, 1 { from, marker, to, max });

/// Output of `list`, of both classes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListReply<T> {
    /// Found.
    pub entries: Vec<T>,
    /// Place to go on.
    pub marker: Bytes,
    /// True if there is more.
    pub truncated: bool,
}

impl<T: Decode> Decode for ListReply<T> {
    const MIN_SIZE: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut e = r.envelope("ListReply", 1)?;
        Ok(Self { entries: e.body.get()?, marker: e.body.get()?, truncated: e.body.get()? })
    }
}

impl<T: Encode> Encode for ListReply<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        envelope(out, 1, 1, |out| {
            self.entries.encode(out);
            self.marker.encode(out);
            self.truncated.encode(out);
        });
    }
}

/// Input of `trim`, of both classes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrimOp {
    /// First time.
    pub from: UTime,
    /// Last time.
    pub to: UTime,
    /// First key, instead of the time.
    pub from_marker: Bytes,
    /// Last key, instead of the time.
    pub to_marker: Bytes,
}

impl Decode for TrimOp {
    const MIN_SIZE: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut e = r.envelope("TrimOp", 2)?;
        let mut op = Self { from: e.body.get()?, to: e.body.get()?, ..Self::default() };
        // Version 1 of a log's had no keys; that of a time index ends with them.
        if e.version >= 2 || !e.body.is_empty() {
            op.from_marker = e.body.get()?;
            op.to_marker = e.body.get()?;
        }
        Ok(op)
    }
}

impl Encode for TrimOp {
    fn encode(&self, out: &mut Vec<u8>) {
        envelope(out, 1, 1, |out| {
            self.from.encode(out);
            self.to.encode(out);
            self.from_marker.encode(out);
            self.to_marker.encode(out);
        });
    }
}

/// An entry of a time index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexEntry {
    /// Time.
    pub time: UTime,
    /// Tells entries of one time apart.
    pub ext: Bytes,
    /// The value.
    pub value: Bytes,
}
denc::versioned!(IndexEntry, 1, 1 { time, ext, value });

/// Input of a time index's `add`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexAddOp {
    /// Entries to add.
    pub entries: Vec<IndexEntry>,
}
denc::versioned!(IndexAddOp, 1, 1 { entries });
