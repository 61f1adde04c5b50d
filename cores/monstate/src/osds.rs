//! OSDs in the map: marks, flags that they inherit, lists of them.

use crate::state::State;
use maps::{Incremental, OsdMap, pool_flags, state as bits};
use node::Now;
use std::time::Duration;
use types::{OsdId, UTime};

/// Most OSDs of a cluster.
pub const MAX_OSDS: i32 = 10_000;

/// Returns the time of an OSD that is marked down now: `wall`, or later, so that it is not before a pool that is being
/// created was made.
///
/// OSDs decide by these two times whether somebody who is down could have made a group of such a pool. They are of
/// clocks of monitors that led one after the other, and those differ.
fn down_stamp(map: &OsdMap, wall: UTime) -> UTime {
    let creating = map.pools.values().filter(|pool| pool.has_flag(pool_flags::CREATING));
    creating.map(|pool| pool.create_time).fold(wall, UTime::max)
}

/// Returns the time of a pool that is created now: `wall`, or later, so that all who are down were so before, as
/// [`mark_down`] says.
pub fn create_time(map: &OsdMap, wall: UTime) -> UTime {
    let down = map.osds().filter(|osd| !map.is_up(*osd)).filter_map(|osd| map.osd_xinfo.get(osd as usize));
    down.map(|x| x.down_stamp.plus(Duration::from_nanos(1))).fold(wall, UTime::max)
}

/// Marks an OSD as down that is up in the map. `inc` follows `map`.
pub fn mark_down(map: &OsdMap, inc: &mut Incremental, osd: OsdId, now: Now) {
    *inc.new_state.entry(osd).or_default() ^= bits::UP;
    inc.new_last_up_change = now.wall;
    let known = map.osd_xinfo.get(osd as usize).copied().unwrap_or_default();
    inc.new_xinfo.entry(osd).or_insert(known).down_stamp = down_stamp(map, now.wall);
}

/// Returns true if a flag of the cluster (`flag`), or the same one (`bit`) of an OSD, its class or a bucket above it
/// holds for an OSD.
pub fn held(state: &State, osd: OsdId, flag: u32, bit: u32) -> bool {
    state.osdmap.has_flag(flag) || (state.osdmap.state(osd) | node_flags(state, osd)) & bit != 0
}

/// Flags that an OSD inherits from the buckets above it and from its device class.
pub fn node_flags(state: &State, osd: OsdId) -> u32 {
    let map = &state.osdmap;
    let class = map.crush.device_classes.get(&osd).and_then(|c| map.device_class_flags.get(c)).copied().unwrap_or(0);
    let mut all = class;
    for (node, bits) in &map.crush_node_flags {
        if map.crush.is_under(osd, *node) {
            all |= bits;
        }
    }
    all
}

/// A list of OSDs as text: `[0,2]`. A hole is `NONE`.
pub fn set_text(osds: &[OsdId]) -> String {
    let names: Vec<String> = osds.iter().map(|o| if *o == crush::NONE { "NONE".into() } else { o.to_string() }).collect();
    format!("[{}]", names.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use maps::Pool;
    use node::Mono;

    fn at(sec: u32) -> Now {
        Now { mono: Mono(0), wall: UTime { sec, nsec: 0 } }
    }

    /// Returns true if OSDs wait for osd.0 before they make the groups of pool 1 (`is_born` in `cores/pg`).
    fn is_waited_for(map: &OsdMap) -> bool {
        map.osd_xinfo[0].down_stamp >= map.pools[&1].create_time
    }

    #[test]
    fn who_died_after_a_pool_was_made_is_known_to_whatever_clocks_monitors_have() {
        let mut first = Incremental::new(1, types::Fsid::default(), UTime::ZERO);
        first.new_max_osd = 2;
        first.new_state.extend([(0, bits::EXISTS | bits::UP), (1, bits::EXISTS | bits::UP)]);
        let map = OsdMap::default().apply(&first).expect("a map");
        for clocks in [[100, 200], [200, 100], [100, 100]] {
            let pool = |map: &OsdMap, sec| {
                let create_time = create_time(map, at(sec).wall);
                let mut inc = Incremental::new(map.epoch + 1, map.fsid, at(sec).wall);
                inc.new_pools.insert(1, Pool { create_time, flags: pool_flags::CREATING, ..Pool::default() });
                map.apply(&inc).expect("a pool")
            };
            let dies = |map: &OsdMap, sec| {
                let mut inc = Incremental::new(map.epoch + 1, map.fsid, at(sec).wall);
                mark_down(map, &mut inc, 0, at(sec));
                map.apply(&inc).expect("an OSD that is down")
            };
            assert!(is_waited_for(&dies(&pool(&map, clocks[0]), clocks[1])), "{clocks:?}: it may have made a group");
            assert!(!is_waited_for(&pool(&dies(&map, clocks[0]), clocks[1])), "{clocks:?}: it was down before");
        }
    }
}
