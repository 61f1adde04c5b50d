//! Faults in a few steps, each made for one rule of copies: whoever breaks that rule loses an answered write.
//!
//! | fault | the rule |
//! |---|---|
//! | [`Fault::SlowTail`] | a copy promises a change when it is durable there |
//! | [`Fault::LateWord`] | a letter is read only in the interval in which it was written |
//! | [`Fault::UnheardReign`] | nobody serves before the map says that the primary was up in the interval |
//!
//! They are for clusters of two OSDs with two copies, each of which may serve alone; with more they do no harm.

use crate::cluster::Cluster;
use crate::fault::{Fault, Later, Nemesis};
use crate::world::{Crash, HostId};
use serde_json::json;
use std::time::Duration;

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// A booting OSD that the monitors turned away asks again after so long.
const BOOT_AGAIN: u64 = 3_000;

impl Nemesis {
    /// Lets one of them happen to `osd`.
    pub(crate) fn trap(&mut self, cluster: &mut Cluster, fault: Fault, osd: HostId) {
        self.later.retain(|(_, later)| !matches!(later, Later::Start(host) if cluster.osds.contains(host)));
        cluster.osds.clone().into_iter().for_each(|osd| cluster.start(osd));
        // Who was marked down comes back while it does not hear all others.
        cluster.tell(
            &json!({ "prefix": "config set", "who": "osd", "name": "osd_heartbeat_min_healthy_ratio", "value": "0" }).to_string(),
        );
        self.run(cluster, 1_500, 2_500);
        match fault {
            Fault::SlowTail => self.slow_tail(cluster, osd),
            Fault::LateWord => self.late_word(cluster, osd),
            _ => self.unheard_reign(cluster, osd),
        }
    }

    fn run(&mut self, cluster: &mut Cluster, least: u64, most: u64) {
        let time = cluster.rng.between(least, most);
        cluster.world.run_for(ms(time));
    }

    fn others(cluster: &Cluster, osd: HostId) -> Vec<HostId> {
        cluster.osds.iter().copied().filter(|other| *other != osd).collect()
    }

    fn start_between(&mut self, cluster: &mut Cluster, host: HostId, least: u64, most: u64) {
        let at = cluster.world.now() + ms(cluster.rng.between(least, most));
        self.later.push((at, Later::Start(host)));
    }

    /// The disk of one copy is slow, so changes wait there. Then all lose their power, and that copy serves alone before others come back.
    fn slow_tail(&mut self, cluster: &mut Cluster, last: HostId) {
        let slower = cluster.rng.between(100, 1_000);
        cluster.world.disk(last, 0).faults.slower = slower;
        self.run(cluster, 100, 1_500);
        for osd in cluster.osds.clone() {
            cluster.world.crash(osd, Crash::Power);
        }
        cluster.world.mend_disks(last);
        cluster.start(last);
        for other in Self::others(cluster, last) {
            self.start_between(cluster, other, 3_000, 9_000);
        }
    }

    /// What the other copy told `osd` when an interval began is late. Meanwhile the other one serves alone. Then `osd` is up again, and
    /// hears the old word before a new one.
    fn late_word(&mut self, cluster: &mut Cluster, osd: HostId) {
        let Some(number) = cluster.osds.iter().position(|other| *other == osd) else { return };
        let others = Self::others(cluster, osd);
        others.iter().for_each(|other| cluster.world.net.cut(*other, osd));
        // Another interval with the same members: all of them are asked what they hold.
        let pool = cluster.plan.habits.pool.clone();
        for least in ["2", "1"] {
            cluster.tell(&json!({ "prefix": "osd pool set", "pool": pool, "var": "min_size", "val": least }).to_string());
            self.run(cluster, 50, 300);
        }
        cluster.tell(&json!({ "prefix": "osd set", "key": "noup" }).to_string());
        cluster.tell(&json!({ "prefix": "osd down", "ids": [number.to_string()] }).to_string());
        cluster.world.run_for(ms(2 * BOOT_AGAIN - 400));
        cluster.tell(&json!({ "prefix": "osd unset", "key": "noup" }).to_string());
        self.run(cluster, 450, 1_000);
        cluster.world.heal();
    }

    /// One serves alone, and what it says does not reach the monitors: it dies before they know that it was up. Then another one
    /// serves.
    fn unheard_reign(&mut self, cluster: &mut Cluster, osd: HostId) {
        for mon in cluster.mons.clone() {
            cluster.world.net.cut(osd, mon);
        }
        let others = Self::others(cluster, osd);
        for other in &others {
            let number = cluster.osds.iter().position(|osd| osd == other).unwrap_or(0);
            cluster.world.crash(*other, Crash::Process);
            cluster.tell(&json!({ "prefix": "osd down", "ids": [number.to_string()] }).to_string());
        }
        self.run(cluster, 2_500, 4_500);
        cluster.world.crash(osd, Crash::Process);
        // What it said is lost with it.
        cluster.world.run_for(ms(20));
        cluster.world.heal();
        others.into_iter().for_each(|other| cluster.start(other));
        self.start_between(cluster, osd, 4_000, 9_000);
    }
}
