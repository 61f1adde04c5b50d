//! OSDs in the map: marks, flags that they inherit, lists of them.

use crate::state::State;
use maps::{Incremental, OsdMap, state as bits};
use node::Now;
use types::OsdId;

/// Most OSDs of a cluster.
pub const MAX_OSDS: i32 = 10_000;

/// Marks an OSD as down that is up in the map. `inc` follows `map`.
pub fn mark_down(map: &OsdMap, inc: &mut Incremental, osd: OsdId, now: Now) {
    *inc.new_state.entry(osd).or_default() ^= bits::UP;
    inc.new_last_up_change = now.wall;
    let known = map.osd_xinfo.get(osd as usize).copied().unwrap_or_default();
    inc.new_xinfo.entry(osd).or_insert(known).down_stamp = now.wall;
}

/// Whether a flag of the cluster (`flag`), or the same one (`bit`) of an OSD, its class or a bucket above it holds for an OSD.
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
