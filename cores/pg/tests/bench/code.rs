//! Whether the shards of a group are the code of each other.

use super::several::Several;
use bytes::Bytes;
use objectstore::{Hold, View};
use std::collections::BTreeMap;
use types::object_id::CURRENT;
use types::{HObject, ShardId};

/// What a shard is: the object's record, attributes, bytes.
type Held = (Bytes, Vec<(Bytes, Bytes)>, Vec<u8>);

/// All objects on an OSD. Demands that nothing of the past is kept there.
fn held(all: &Several, osd: i32) -> BTreeMap<HObject, Held> {
    let (store, hold) = (&all.osds[&osd].store, Hold(0));
    let mut found = BTreeMap::new();
    for id in store.objects() {
        assert_eq!(id.generation, CURRENT, "osd.{osd} keeps {id}");
        assert_eq!(id.shard, ShardId(i8::try_from(osd).expect("few OSDs")));
        let stat = store.stat(hold, id).expect("in memory").expect("it is there");
        let data = store.read(hold, id, 0, stat.size).expect("in memory").to_vec();
        found.insert(HObject::clone(&id.object), (stat.info, store.xattrs(hold, id).expect("in memory"), data));
    }
    found
}

/// Demands that all OSDs that are up have the shards of the same objects, whole, of chunks of 4096 bytes; the one at position i
/// has shard i, and all positions have one.
pub(crate) fn check(all: &Several, k: u8, m: u8) {
    let (k, n) = (usize::from(k), usize::from(k + m));
    let words = format!("plugin=jerasure technique=reed_sol_van k={k} m={m}");
    let words = words.split_ascii_whitespace().filter_map(|word| word.split_once('='));
    let profile = words.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    let code = ec::Profile::parse(profile, true).expect("a profile").code();
    let geometry = ec::Geometry::new(k, 4096);
    let shards: Vec<BTreeMap<HObject, Held>> = (0..n).map(|osd| held(all, osd as i32)).collect();
    for (object, first) in &shards[0] {
        let of = |shard: usize| shards[shard].get(object).unwrap_or_else(|| panic!("shard {shard} of {object} is not there"));
        let size = pg::recorded_size(&first.0).expect("a size");
        let longest = geometry.length(size, 0) as usize;
        let mut data = Vec::new();
        for shard in 0..n {
            let (record, attributes, bytes) = of(shard);
            assert_eq!((record, attributes), (&first.0, &first.1), "record of shard {shard} of {object}");
            let length = geometry.length(size, if shard < k { shard } else { 0 }) as usize;
            assert_eq!(bytes.len(), length, "length of shard {shard} of {object}");
            let mut whole = bytes.clone();
            whole.resize(longest, 0);
            data.push(whole);
        }
        let slices: Vec<&[u8]> = data[..k].iter().map(Vec::as_slice).collect();
        let mut parities = vec![vec![0; longest]; n - k];
        code.encode(&slices, &mut parities.iter_mut().map(Vec::as_mut_slice).collect::<Vec<_>>());
        for (i, parity) in parities.iter().enumerate() {
            assert!(*parity == data[k + i], "parity {i} of {object}");
        }
    }
    assert!(shards.iter().all(|of| of.len() == shards[0].len()), "all have the same objects");
}
