//! OSDs whose disks are lost. An operator gives the old data up (`osd destroy`) and puts an empty disk under the old number, or removes the
//! OSD (`osd purge`), and a new one gets the number that became free.
//!
//! One disk is lost at a time, when all groups are clean: then everything that was acknowledged is on another one. Other faults go on.

use crate::cluster::{Cluster, store_name};
use crate::fault::{Later, Nemesis};
use crate::reference::Meaning;
use crate::world::{Crash, HostId};
use serde_json::json;
use std::time::Duration;

/// Until an operator stops asking whether the OSD is down.
const DOWN: Duration = Duration::from_secs(60);
/// Until somebody stops waiting for the first group on an empty disk.
const FILLED: Duration = Duration::from_secs(8);
/// Until all OSDs that lost their disks have told what they hold.
const TOLD: Duration = Duration::from_secs(30);

impl Nemesis {
    /// This OSD loses its disk. Nothing is done while some group is not clean.
    pub(crate) fn disk_lost(&mut self, cluster: &mut Cluster, osd: HostId) {
        if !cluster.is_whole() {
            return;
        }
        let Some(number) = cluster.osds.iter().position(|other| *other == osd) else { return };
        if cluster.plan.osds == 3 && cluster.plan.size == 3 && cluster.rng.one_in(2) {
            return self.disk_lost_beside_others(cluster, osd, number, false);
        }
        self.later.retain(|(_, later)| !matches!(later, Later::Start(host) if *host == osd));
        cluster.lose_disk(osd, number);
        // Who puts an empty disk in without a word to the cluster is turned away.
        if cluster.rng.one_in(4) {
            cluster.start(osd);
            let wait = cluster.rng.between(500, 5_000);
            cluster.world.run_for(Duration::from_millis(wait));
            cluster.world.crash(osd, Crash::Process);
        }
        let wait = cluster.rng.magnitude(10, 8_000);
        cluster.world.run_for(Duration::from_millis(wait));
        if !cluster.give_up(number) {
            return;
        }
        let wait = cluster.rng.magnitude(10, 8_000);
        cluster.world.run_for(Duration::from_millis(wait));
        cluster.start(osd);
    }
}

impl Nemesis {
    /// One of three is away while the others write. Then one of these loses its disk, and the other one dies, too: the only one who has what
    /// was written is away when the first comes back beside the empty disk. Both wait for it.
    ///
    /// `begins`: the third one is there for a moment, too.
    fn disk_lost_beside_others(&mut self, cluster: &mut Cluster, osd: HostId, number: usize, begins: bool) {
        self.later.retain(|(_, later)| !matches!(later, Later::Start(host) if cluster.osds.contains(host)));
        let others: Vec<HostId> = cluster.osds.iter().copied().filter(|other| *other != osd).collect();
        let (behind, alone) = if cluster.rng.one_in(2) { (others[0], others[1]) } else { (others[1], others[0]) };
        cluster.world.crash(behind, Crash::Process);
        let wait = cluster.rng.between(500, 3_000);
        cluster.world.run_for(Duration::from_millis(wait));
        cluster.lose_disk(osd, number);
        cluster.world.crash(alone, Crash::Process);
        if cluster.give_up(number) {
            cluster.start(osd);
        }
        cluster.start(behind);
        let wait = cluster.rng.between(2_000, 8_000);
        cluster.world.run_for(Duration::from_millis(wait));
        if begins {
            self.dies_while_it_fills(cluster, number, behind, alone);
        }
        cluster.start(alone);
    }

    /// As [`Nemesis::disk_lost`] beside others, when the group's log does not reach back to its beginning: the empty disk is filled object by
    /// object.
    pub(crate) fn disk_filled(&mut self, cluster: &mut Cluster, osd: HostId) {
        cluster.configure("osd", "osd_max_pg_log_entries", "20");
        let wait = cluster.rng.between(6_000, 10_000);
        cluster.world.run_for(Duration::from_millis(wait));
        let number = cluster.osds.iter().position(|other| *other == osd);
        if let Some(number) = number.filter(|_| cluster.is_whole()) {
            self.disk_lost_beside_others(cluster, osd, number, true);
        }
    }

    /// The one that has everything begins to fill the empty disk, and dies before the one that is behind has written that down. The disk that
    /// holds something now does not stand for the one that was lost: the others wait.
    fn dies_while_it_fills(&mut self, cluster: &mut Cluster, replaced: usize, behind: HostId, alone: HostId) {
        cluster.world.disk(behind, 0).faults.slower = cluster.rng.between(500, 3_000);
        cluster.start(alone);
        let end = cluster.world.now() + FILLED;
        while cluster.world.now() < end && !cluster.meanings[replaced].borrow_mut().holds_groups() {
            cluster.world.run_for(Duration::from_millis(1));
        }
        cluster.world.crash(alone, Crash::Process);
        cluster.world.crash(behind, Crash::Power);
        cluster.world.mend_disks(behind);
        cluster.start(behind);
        let wait = cluster.rng.between(6_000, 12_000);
        cluster.world.run_for(Duration::from_millis(wait));
    }
}

fn are_clean(status: &serde_json::Value) -> bool {
    let states = status["pgmap"]["pgs_by_state"].as_array().cloned().unwrap_or_default();
    states.iter().all(|state| state["state_name"].as_str() == Some("active+clean"))
}

impl Cluster {
    /// Returns true if all OSDs are up and all groups clean, as far as the monitors say.
    pub(crate) fn is_whole(&mut self) -> bool {
        let Some(status) = self.status() else { return false };
        let up = status["osdmap"]["num_up_osds"].as_u64() == Some(self.plan.osds as u64);
        // What is told may be old: who does not run now has not told that.
        up && are_clean(&status) && self.osds.iter().all(|osd| self.world.is_up(*osd))
    }

    /// Returns true if all groups are clean, as far as the monitors say.
    pub(crate) fn is_clean(&mut self) -> bool {
        self.status().is_some_and(|status| are_clean(&status))
    }

    /// Returns what `ceph status` says.
    fn status(&mut self) -> Option<serde_json::Value> {
        let Ok((0, _, output)) = self.command(r#"{"prefix":"status","format":"json"}"#) else { return None };
        serde_json::from_slice(&output).ok()
    }

    /// The process dies, and nothing is left of what it had.
    fn lose_disk(&mut self, osd: HostId, number: usize) {
        self.world.crash(osd, Crash::Process);
        self.world.empty_disks(osd);
        *self.meanings[number].borrow_mut() = Meaning::default();
        self.bad[number].borrow_mut().clear();
        self.made[number].set(false);
        self.lost[number].set(self.lost[number].get() + 1);
        self.promises.borrow_mut().lose(number as i32);
    }

    /// An operator gives the data of an OSD up. False if the cluster does not take the order.
    fn give_up(&mut self, number: usize) -> bool {
        let ids = [number.to_string()];
        let keeps = self.rng.one_in(2);
        let prefix = if keeps { "osd destroy" } else { "osd purge" };
        let order = json!({ "prefix": prefix, "id": number, "yes_i_really_mean_it": true }).to_string();
        let end = self.world.now() + DOWN;
        while self.world.now() < end {
            self.tell(&json!({ "prefix": "osd down", "ids": ids }).to_string());
            self.world.run_for(Duration::from_millis(200));
            match self.command(&order) {
                Ok((0, ..)) if keeps => return self.give_number(number),
                Ok((0, ..)) => return true,
                Ok((result, status, _)) if result != -16 => {
                    self.wrong.get_or_insert(format!("{order} is answered with {result}: {status}"));
                    return false;
                }
                _ => {}
            }
        }
        self.wrong.get_or_insert(format!("osd.{number}, whose disk is empty, is not down, or {prefix} is not answered"));
        false
    }

    /// An operator gives the number of a destroyed OSD to the new disk.
    fn give_number(&mut self, number: usize) -> bool {
        let uuid = types::Fsid(store_name(number, self.lost[number].get())).to_string();
        let order = json!({ "prefix": "osd new", "uuid": uuid, "id": number }).to_string();
        match self.command_ok(&order) {
            Ok(_) => true,
            Err(why) => {
                self.wrong.get_or_insert(why);
                false
            }
        }
    }

    /// All OSDs lose their disks. The groups that were there are lost: none may serve as if it were new.
    pub(crate) fn lose_everything(&mut self) -> Result<(), String> {
        let all: Vec<(usize, HostId)> = self.osds.iter().copied().enumerate().collect();
        all.iter().for_each(|(number, osd)| self.lose_disk(*osd, *number));
        for (number, osd) in &all {
            self.give_up(*number);
            self.start(*osd);
        }
        if let Some(wrong) = &self.wrong {
            return Err(wrong.clone());
        }
        self.wait_until("all OSDs are up with empty disks", TOLD, |status| {
            status["osdmap"]["num_up_osds"].as_u64() == Some(all.len() as u64)
        })?;
        self.world.run_for(TOLD);
        let output = self.command_ok(r#"{"prefix":"status","format":"json"}"#)?;
        let status: serde_json::Value = serde_json::from_slice(&output).map_err(|e| format!("status is not JSON: {e}"))?;
        let states = status["pgmap"]["pgs_by_state"].as_array().cloned().unwrap_or_default();
        let mut names = states.iter().filter_map(|state| state["state_name"].as_str());
        match names.find(|name| name.contains("active")) {
            Some(name) => Err(format!("all disks are lost, and a group is {name} as if it were new")),
            None => Ok(()),
        }
    }
}
