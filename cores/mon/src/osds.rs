//! Helpers about OSDs in the map, for the server and for commands.

use crate::state::State;
use maps::{Incremental, state as bits};
use node::Now;
use types::OsdId;

/// Most OSDs of a cluster.
pub(crate) const MAX_OSDS: i32 = 10_000;

/// Marks an OSD as down that is up in the map.
pub(crate) fn mark_down(inc: &mut Incremental, osd: OsdId, now: Now) {
    *inc.new_state.entry(osd).or_default() ^= bits::UP;
    inc.new_last_up_change = now.wall;
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
