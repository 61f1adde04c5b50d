//! How far back OSD maps are kept: as far as some group may need them, and some more for clients that are behind.

use super::Monitor;
use monstate::state::history::KEPT;
use monstate::state::{Change, State};

/// Part of the monitor's area that maps of the past may take.
const SHARE: u64 = 4;

impl Monitor {
    /// The change that lets go of maps that nobody needs any more, if there are any. It goes with the next map.
    pub(super) fn map_floor(&self, state: &State) -> Option<Change> {
        #[cfg(feature = "sim")]
        if let Some(kept) = self.few_maps {
            let epoch = state.osdmap.epoch.saturating_sub(kept);
            return state.history.has_below(epoch).then_some(Change::MapFloor { epoch });
        }
        // However much is needed: more than this share of the disk they never take.
        let history = &state.history;
        if self.env.area_bytes > 0 && history.bytes() > self.env.area_bytes / SHARE {
            return history.second_full().map(|epoch| Change::MapFloor { epoch });
        }
        let most = state.osdmap.epoch.saturating_sub(KEPT);
        // Looking at all groups is worth it only now and then: when a step of maps could go.
        if !state.history.has_below(most) {
            return None;
        }
        let needed = self.leader.soft.oldest_clean(state)?;
        let epoch = needed.min(most);
        state.history.has_below(epoch).then_some(Change::MapFloor { epoch })
    }
}
