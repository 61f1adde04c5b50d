//! Whether the shards of each object are the code of each other, when nothing goes wrong any more.
//!
//! The codes are computed here once more, bit by bit, from matrices that were read off Ceph's own tool: so a wrong table of the
//! product's is found, too.

use crate::cluster::Cluster;
use objectstore::memory::MemStore;
use objectstore::{Hold, View};
use std::collections::BTreeMap;
use types::object_id::CURRENT;
use types::{HObject, ObjectId};

/// Rows of the parities of `jerasure reed_sol_van`, for the codes that scenarios have.
fn rows((k, m): (usize, usize)) -> &'static [&'static [u8]] {
    match (k, m) {
        (2, 1) => &[&[1, 1]],
        (2, 2) => &[&[1, 1], &[1, 143]],
        (4, 2) => &[&[1, 1, 1, 1], &[1, 70, 143, 200]],
        _ => panic!("no scenario has a code of {k} + {m}"),
    }
}

/// The product of two numbers of the field of 256, whose polynomial is 0x11d.
fn product(a: u8, b: u8) -> u8 {
    let (mut a, mut sum) = (u16::from(a), 0);
    for bit in 0..8 {
        if b >> bit & 1 != 0 {
            sum ^= a;
        }
        a <<= 1;
        if a & 0x100 != 0 {
            a ^= 0x11d;
        }
    }
    sum as u8
}

/// What the shards of an object have in common, as text: the record and the attributes.
pub(crate) fn record(store: &MemStore, object: &ObjectId) -> Result<String, String> {
    let read = || -> objectstore::Read<Option<String>> {
        let Some(stat) = store.stat(Hold(0), object)? else { return Ok(None) };
        Ok(Some(format!("record {:?}, {:?}", stat.info, store.xattrs(Hold(0), object)?)))
    };
    match read() {
        Ok(Some(text)) => Ok(text),
        Ok(None) => Err(format!("{object:?} is listed and not there")),
        Err(why) => Err(format!("{object:?} cannot be read: {why:?}")),
    }
}

/// A shard as a store has it.
struct Held {
    osd: usize,
    common: String,
    info: Vec<u8>,
    data: Vec<u8>,
}

/// The bytes that a data shard has of an object, or a parity's length if `shard` is none of data.
fn length(size: u64, chunk: u64, k: u64, shard: u64) -> u64 {
    let (rows, rest) = (size / (chunk * k), size % (chunk * k));
    let shard = if shard < k { shard } else { 0 };
    rows * chunk + rest.saturating_sub(shard * chunk).min(chunk)
}

/// Returns what is wrong with the shards of an object, in the order of their numbers.
fn contradiction((k, m): (usize, usize), shards: &[Held]) -> Option<String> {
    let first = &shards[0];
    if let Some(other) = shards.iter().find(|held| held.common != first.common) {
        return Some(format!("osd.{} has {}\n  osd.{} has {}", first.osd, first.common, other.osd, other.common));
    }
    let Some((_, size, chunk)) = osd::shards_in(&first.info) else {
        return Some("its record is none of an object in shards".into());
    };
    for (n, held) in shards.iter().enumerate() {
        let wanted = length(size, chunk, k as u64, n as u64);
        if held.data.len() as u64 != wanted {
            return Some(format!("shard {n} on osd.{} has {} bytes, and must have {wanted}", held.osd, held.data.len()));
        }
    }
    for (parity, row) in rows((k, m)).iter().enumerate() {
        for (at, found) in shards[k + parity].data.iter().enumerate() {
            let byte = |n: usize| shards[n].data.get(at).copied().unwrap_or(0);
            let right = row.iter().enumerate().fold(0, |sum, (n, factor)| sum ^ product(*factor, byte(n)));
            if right != *found {
                return Some(format!("parity {parity} on osd.{} is not the code of the data at {at}", shards[k + parity].osd));
            }
        }
    }
    None
}

impl Cluster {
    /// Each object has each of its shards once, these are the code of each other, and nothing of the past is kept.
    pub(crate) fn compare_shards(&self) -> Result<(), String> {
        let Some(code) = self.plan.code else { return Ok(()) };
        let mut all: BTreeMap<HObject, BTreeMap<i8, Held>> = BTreeMap::new();
        for (osd, meaning) in self.meanings.iter().enumerate() {
            let store = meaning.borrow().content();
            for object in store.objects().filter(|object| object.pool >= 0) {
                if object.generation != CURRENT {
                    return Err(format!("osd.{osd} keeps {object:?}, which nobody needs"));
                }
                let stat = store.stat(Hold(0), object).ok().flatten().ok_or_else(|| format!("{object:?} cannot be read"))?;
                let data = store.read(Hold(0), object, 0, stat.size).map_err(|why| format!("{object:?}: {why:?}"))?.to_vec();
                let held = Held { osd, common: record(&store, object)?, info: stat.info.to_vec(), data };
                let shards = all.entry(HObject::clone(&object.object)).or_default();
                if let Some(other) = shards.insert(object.shard.0, held) {
                    return Err(format!("{object:?} is on osd.{osd} and on osd.{}", other.osd));
                }
            }
        }
        for (object, shards) in all {
            if !shards.keys().copied().eq(0..(code.0 + code.1) as i8) {
                let there: Vec<(i8, usize)> = shards.iter().map(|(shard, held)| (*shard, held.osd)).collect();
                return Err(format!("{object:?} has only these shards, on these OSDs: {there:?}"));
            }
            let shards: Vec<Held> = shards.into_values().collect();
            if let Some(why) = contradiction(code, &shards) {
                return Err(format!("{object:?}: {why}"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_are_those_of_the_field() {
        assert_eq!((product(1, 143), product(2, 0x80), product(0, 9)), (143, 0x1d, 0));
        assert!((1..=255).all(|a| (1..=255).filter(|b| product(a, *b) == 1).count() == 1), "each has one inverse");
    }
}
