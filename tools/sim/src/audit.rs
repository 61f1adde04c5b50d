//! What is found on the disks of a cluster, apart from what its clients are told: the structure of the stores, and that nothing is
//! left when everything was deleted.

use crate::cluster::{CHURN_POOL, Cluster, StoreKind};
use crate::disk::Disk;
use crate::model::Action;
use crate::workload::{REMOVE_SNAP, Snaps};
use crate::world::{HostId, World};
use node::DeviceId;
use std::time::Duration;
use store::fsck::{BlockRead, Finding, Report, Severity, check};

/// The disks of a host that is down.
struct Image<'a>(&'a [Disk]);

impl BlockRead for Image<'_> {
    fn read(&mut self, device: DeviceId, offset: u64, buf: &mut [u8]) -> Result<(), String> {
        let disk = self.0.get(device.0 as usize).ok_or("there is no such disk")?;
        disk.look(offset, buf);
        Ok(())
    }

    fn len(&mut self, device: DeviceId) -> u64 {
        self.0.get(device.0 as usize).map_or(0, |disk| disk.stat().len)
    }

    fn capacity(&mut self, device: DeviceId) -> u64 {
        self.0.get(device.0 as usize).map_or(0, |disk| disk.stat().capacity)
    }
}

/// Checks the store on a host's disks, checksums of all data included.
fn fsck(world: &World, host: HostId) -> Report {
    check(&mut Image(world.disks(host)), &store::Config::default(), true)
}

fn lines(findings: &[Finding]) -> String {
    findings.iter().take(8).map(|f| format!("\n  {f}")).collect()
}

impl Cluster {
    /// Looks at the store of an OSD that is down; what is wrong is kept in [`Cluster::wrong`]. A superblock slot that was being
    /// written may be torn.
    pub(crate) fn check_store(&mut self, number: usize) {
        if self.plan.store == StoreKind::Reference || !self.made[number].get() || self.history.borrow().rotten {
            return;
        }
        self.checked += 1;
        let mut report = fsck(&self.world, self.osds[number]);
        report.findings.retain(|f| f.severity > Severity::Minor);
        if !report.clean() {
            let (at, found) = (self.world.now().as_secs_f64(), lines(&report.findings));
            self.wrong.get_or_insert(format!("the disk of osd.{number} is not whole at {at:.3} s:{found}"));
        }
    }

    /// Deletes everything: objects, snapshots, pools that come and go.
    pub(crate) fn delete_everything(&mut self) -> Result<(), String> {
        let objects = (0..self.plan.habits.objects).map(|n| format!("o{n}"));
        let watched = (0..self.plan.habits.watched).map(|n| format!("w{n}"));
        let sources = (0..self.plan.habits.sources).map(|n| format!("s{n}"));
        self.perform(objects.chain(watched).chain(sources).map(|object| (object, Action::Delete, None)).collect())?;
        let pool = self.plan.habits.pool.clone();
        match self.plan.habits.snaps {
            Snaps::None => {}
            Snaps::Own => {
                let snaps = std::mem::take(&mut self.history.borrow_mut().own_snaps.1);
                for snap in snaps {
                    self.history.borrow_mut().snap_removed(snap);
                    self.command_ok(&format!("{REMOVE_SNAP}{pool} {snap}"))?;
                }
            }
            Snaps::Pool => {
                let dump = self.command_ok(r#"{"prefix":"osd dump","format":"json"}"#)?;
                let dump: serde_json::Value = serde_json::from_slice(&dump).map_err(|e| format!("osd dump is not JSON: {e}"))?;
                let pools = dump["pools"].as_array().cloned().unwrap_or_default();
                let snaps = pools.iter().filter(|p| p["pool_name"] == *pool).filter_map(|p| p["pool_snaps"].as_array());
                for snap in snaps.flatten() {
                    let rmsnap = serde_json::json!({ "prefix": "osd pool rmsnap", "pool": pool, "snap": snap["name"] });
                    self.command_ok(&rmsnap.to_string())?;
                }
            }
        }
        Ok(())
    }

    /// The same of stores that can be looked at while they run.
    fn check_trusted_empty(&self) -> Result<(), String> {
        for (osd, store) in self.meanings.iter().enumerate() {
            if let Some(object) = store.borrow().content().objects().next() {
                return Err(format!("space leaks: everything was deleted, and osd.{osd} holds {object:?}"));
            }
        }
        Ok(())
    }

    /// After everything was deleted and trimmed: the OSDs stop, and on their disks is no object and no block of data.
    pub(crate) fn check_empty(&mut self) -> Result<(), String> {
        if matches!(self.plan.store, StoreKind::Reference) {
            return self.check_trusted_empty();
        }
        for osd in self.osds.clone() {
            self.world.stop(osd);
        }
        let osds = self.osds.clone();
        let running = |world: &mut World| osds.iter().any(|osd| world.is_up(*osd));
        if !self.world.run_while(Duration::from_secs(60), running) {
            return Err("without faults, an OSD does not stop".into());
        }
        for (number, osd) in osds.into_iter().enumerate() {
            let report = fsck(&self.world, osd);
            if !report.clean() {
                return Err(format!("the disk of osd.{number} is not whole after a clean stop:{}", lines(&report.findings)));
            }
            if (report.objects, report.data_blocks) != (0, 0) {
                let (objects, blocks, names) = (report.objects, report.data_blocks, report.first_objects.join(", "));
                return Err(format!(
                    "space leaks: everything was deleted, and osd.{number} holds {objects} objects, {blocks} blocks: {names}"
                ));
            }
        }
        Ok(())
    }
}

/// The command that removes the pool that comes and goes.
pub(crate) fn drop_pool() -> String {
    let sure = "yes_i_really_really_mean_it";
    serde_json::json!({ "prefix": "osd pool delete", "pool": CHURN_POOL, "pool2": CHURN_POOL, sure: true }).to_string()
}
