//! Class `cmpomap`: entries of an omap are compared, and changed if the comparison holds.

use super::{optional, put_optional};
use bytes::Bytes;
use denc::{Decode, Encode, Reader, Result, envelope};
use std::collections::BTreeMap;

/// Ways to compare values.
#[allow(missing_docs)]
pub mod mode {
    pub const STRING: u8 = 1;
    pub const U64: u8 = 2;
}

/// Relations between the given value, on the left, and the stored one.
#[allow(missing_docs)]
pub mod comparison {
    pub const EQ: u8 = 1;
    pub const NE: u8 = 2;
    pub const GT: u8 = 3;
    pub const GE: u8 = 4;
    pub const LT: u8 = 5;
    pub const LE: u8 = 6;
}

/// Input of `cmp_vals` and `cmp_set_vals`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompareOp {
    /// One of [`mode`].
    pub mode: u8,
    /// One of [`comparison`].
    pub comparison: u8,
    /// Given values.
    pub values: BTreeMap<Bytes, Bytes>,
    /// Value that stands for keys that are not there.
    pub default: Option<Bytes>,
}

impl Decode for CompareOp {
    const MIN_SIZE: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut e = r.envelope("CompareOp", 1)?;
        let b = &mut e.body;
        Ok(Self { mode: b.get()?, comparison: b.get()?, values: b.get()?, default: optional(b)? })
    }
}

impl Encode for CompareOp {
    fn encode(&self, out: &mut Vec<u8>) {
        envelope(out, 1, 1, |out| {
            self.mode.encode(out);
            self.comparison.encode(out);
            self.values.encode(out);
            put_optional(self.default.as_ref(), out);
        });
    }
}

/// Input of `cmp_rm_keys`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemoveOp {
    /// One of [`mode`].
    pub mode: u8,
    /// One of [`comparison`].
    pub comparison: u8,
    /// Given values.
    pub values: BTreeMap<Bytes, Bytes>,
}
denc::versioned!(RemoveOp, 1, 1 { mode, comparison, values });
