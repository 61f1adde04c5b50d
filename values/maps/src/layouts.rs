//! How the objects of pools with shards lie on them: a part of the OSD map that is ours alone.
//!
//! Profiles of erasure codes are for users to edit. What a pool was made by is written down when it is made, so no
//! profile that is replaced or removed changes how its objects are read.
//!
//! A pool has a table of layouts. Each object's record says by its number which one the object has; new objects get the
//! current one. So far a pool has one layout, number 0, for ever.
//!
//! **Format.** Behind Ceph's OSD part of a map stands an envelope with the level; clients leave it unread. Its version
//! is 2 if there are layouts, which then follow the level: pool → layouts. A step has the same, with the level 0 if it
//! does not raise it. Layouts come with [`types::Feature::Erasure`]; programs of older levels read no map of that level.

use denc::{Decode, DecodeError, Encode, Reader, Result, envelope};
use std::collections::BTreeMap;
use types::PoolId;
use types::level::Level;

/// The number of a pool's first layout.
pub const FIRST_LAYOUT: u32 = 0;

/// The version of Ceph's OSD part from which on something else follows it.
const NEWEST_OSD_PART: u8 = 11;

/// Layout of objects on shards.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Data shards of an object (k), from 1 on.
    pub data: u8,
    /// Bytes of a chunk, at most, where the profile names no unit.
    pub most_chunk: u32,
    /// The profile's words when the pool was made, completed. They name the code: `ec::Profile` reads them.
    pub profile: BTreeMap<String, String>,
}
denc::versioned!(Layout, 1, 1 { data, most_chunk, profile });

/// The layouts of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layouts {
    /// The number of the layout that new objects get. The table has it.
    pub current: u32,
    /// Layouts by number.
    pub table: BTreeMap<u32, Layout>,
}

impl Layouts {
    /// Returns those of a pool that has one layout.
    pub fn one(layout: Layout) -> Self {
        Self { current: FIRST_LAYOUT, table: BTreeMap::from([(FIRST_LAYOUT, layout)]) }
    }

    /// Returns the layout that new objects get.
    pub fn current(&self) -> Option<&Layout> {
        self.table.get(&self.current)
    }
}

impl Encode for Layouts {
    fn encode(&self, out: &mut Vec<u8>) {
        envelope(out, 1, 1, |out| {
            self.current.encode(out);
            self.table.encode(out);
        });
    }
}

impl Decode for Layouts {
    const MIN_SIZE: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut e = r.envelope("layouts of a pool", 1)?;
        let layouts = Self { current: e.body.get()?, table: e.body.get()? };
        if layouts.current().is_none() || layouts.table.values().any(|layout| layout.data == 0) {
            return Err(DecodeError::Invalid("layouts of a pool"));
        }
        Ok(layouts)
    }
}

/// Our part, behind Ceph's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Own {
    pub(crate) level: Option<Level>,
    pub(crate) layouts: BTreeMap<PoolId, Layouts>,
}

/// Writes our own part behind all that Ceph's layout has, unless there is nothing to be said.
pub(crate) fn encode_own(level: Option<Level>, layouts: &BTreeMap<PoolId, Layouts>, out: &mut Vec<u8>) {
    if level.is_none() && layouts.is_empty() {
        return;
    }
    // Whoever must know layouts and does not must not read the map.
    let version = if layouts.is_empty() { 1 } else { 2 };
    envelope(out, version, version, |out| {
        level.map_or(0, |level| level.0).encode(out);
        if !layouts.is_empty() {
            layouts.encode(out);
        }
    });
}

/// Reads our own part, if there is one behind an OSD part of that version. What newer ones of Ceph have there is another
/// thing.
pub(crate) fn decode_own(version: u8, b: &mut Reader<'_>) -> Result<Own> {
    if b.remaining() == 0 || version > NEWEST_OSD_PART {
        return Ok(Own::default());
    }
    let mut e = b.envelope("level of the cluster", 2)?;
    let level = match Level(e.body.get()?) {
        Level(0) if e.version >= 2 => None,
        level if level > Level::FIRST => Some(level),
        _ => return Err(DecodeError::Invalid("level of the cluster")),
    };
    Ok(Own { level, layouts: if e.version >= 2 { e.body.get()? } else { BTreeMap::new() } })
}
