//! Helpers about OSDs in the map, for the server and for commands.

use crate::state::State;
use maps::{Incremental, OsdMap, state as bits};
use node::Now;
use types::OsdId;

/// Most OSDs of a cluster.
pub(crate) const MAX_OSDS: i32 = 10_000;

/// Marks an OSD as down that is up in the map. `inc` follows `map`.
pub(crate) fn mark_down(map: &OsdMap, inc: &mut Incremental, osd: OsdId, now: Now) {
    *inc.new_state.entry(osd).or_default() ^= bits::UP;
    inc.new_last_up_change = now.wall;
    let known = map.osd_xinfo.get(osd as usize).copied().unwrap_or_default();
    inc.new_xinfo.entry(osd).or_insert(known).down_stamp = now.wall;
}

/// Whether a flag of the cluster (`flag`), or the same one (`bit`) of an OSD, its class or a bucket above it holds for an OSD.
pub(crate) fn held(state: &State, osd: OsdId, flag: u32, bit: u32) -> bool {
    state.osdmap.has_flag(flag) || (state.osdmap.state(osd) | node_flags(state, osd)) & bit != 0
}

/// Flags that an OSD inherits from the buckets above it and from its device class.
pub(crate) fn node_flags(state: &State, osd: OsdId) -> u32 {
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
