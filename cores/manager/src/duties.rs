//! What the manager's duties remember between their rounds. A new leader begins with nothing of it but the history.

use crate::autoscaler;
use crate::balancer;
use crate::figures::Images;
use crate::health::Check;
use crate::history::History;
use crate::merging::Merging;
use crate::progress::Events;
use crate::recovering::Recovering;
use crate::stepping::Placements;
use messages::stats::ObjectStatSum;
use std::collections::BTreeMap;
use types::UTime;

/// The memory of all duties.
#[derive(Clone, Debug, Default)]
pub struct Duties {
    /// The health findings of the last look.
    pub health: BTreeMap<String, Check>,
    /// History of the cluster.
    pub history: History,
    /// Figures by block image.
    pub images: Images,
    /// Events in progress.
    pub progress: Events,
    /// Time when numbers of groups are looked at next.
    pub autoscaler: autoscaler::Clock,
    /// Rounds and plans of the balancer.
    pub balancer: balancer::Desk,
    /// Since when groups are placed as they are.
    pub placements: Placements,
    /// Pools of which groups are being merged.
    pub merging: Merging,
    recovering: Recovering,
}

impl Duties {
    /// Takes in the sums over all groups as they are now: how far recovery is.
    pub fn follow_recovery(&mut self, now: UTime, sum: &ObjectStatSum) {
        self.recovering.follow(now, sum, &mut self.progress);
    }
}
