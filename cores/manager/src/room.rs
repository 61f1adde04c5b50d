//! What a pool can still take: one sum, for `df`, explanations and history.

use crate::soft::Soft;
use maps::Pool;
use monstate::state::State;
use types::{OsdId, PoolId};

/// Room that a pool can still take, and what bounds it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Room {
    /// Bytes that clients can write, copies counted once.
    pub bytes: u64,
    /// The OSD of its rule that is full first.
    pub first: OsdId,
    /// That OSD's share of what the rule places, from 0 to 1.
    pub share: f64,
    /// Bytes that clients could write if all OSDs of the rule were full at the same moment.
    pub even: u64,
    /// OSDs that the rule may use.
    pub osds: u64,
}

/// Returns the room of a pool. None if no OSD of its rule has told how large it is.
pub fn room(state: &State, soft: &Soft, id: PoolId, pool: &Pool) -> Option<Room> {
    let map = &state.osdmap;
    let weights = map.crush.rule_weights(u32::from(pool.crush_rule));
    let usable: Vec<(OsdId, f64)> = weights
        .into_iter()
        .filter(|(osd, _)| map.is_in(*osd))
        .map(|(osd, weight)| (osd, weight * f64::from(map.weight(osd)) / f64::from(crush::ONE)))
        .collect();
    let all: f64 = usable.iter().map(|(_, weight)| weight).sum();
    let full = f64::from(map.full_ratio);
    let copies = map.raw_rate(id);
    let (mut least, mut free, mut osds): (Option<(f64, OsdId, f64)>, f64, u64) = (None, 0.0, 0);
    for (osd, weight) in usable.into_iter().filter(|(_, weight)| *weight > 0.0) {
        let space = soft.space(osd);
        if space.total == 0 {
            continue;
        }
        let unusable = space.total as f64 * (1.0 - full);
        let left = (space.available as f64 - unusable).max(0.0);
        let projected = left * all / weight;
        osds += 1;
        free += left;
        if least.is_none_or(|(bytes, ..)| projected < bytes) {
            least = Some((projected, osd, weight / all));
        }
    }
    let (projected, first, share) = least?;
    Some(Room { bytes: (projected / copies) as u64, first, share, even: (free / copies) as u64, osds })
}
