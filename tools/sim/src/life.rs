//! What happens to a cluster that is used: snapshots come and go, groups split and are merged, pools come and go.

use crate::audit::drop_pool;
use crate::cluster::{CHURN_POOL, Cluster, MonKind};
use crate::fault::Fault;
use crate::workload::{MAKE_SNAP, REMOVE_SNAP, Snaps};
use serde_json::json;
use std::time::Duration;

/// Most snapshots that stand at once.
const MOST_SNAPS: usize = 6;
/// Most groups that the pool gets.
const MOST_GROUPS: u32 = 16;
/// Most groups that the pool loses at a time.
const MOST_FEWER: u32 = 4;

/// Lets it happen, if the cluster can do it.
pub(crate) fn happen(cluster: &mut Cluster, what: Fault) {
    if cluster.plan.mon == MonKind::StandIn {
        return;
    }
    let pool = cluster.plan.habits.pool.clone();
    match what {
        Fault::Snap => make_snap(cluster, &pool),
        Fault::SnapRemove => remove_snap(cluster, &pool),
        Fault::Split if !splitting(cluster) => {
            let groups = other_number(cluster);
            resize(cluster, groups);
        }
        Fault::Scrub => {
            let what = if cluster.rng.one_in(3) { "osd scrub" } else { "osd deep-scrub" };
            let who = cluster.rng.index(cluster.osds.len()).to_string();
            cluster.tell(&json!({ "prefix": what, "who": who }).to_string());
        }
        Fault::Pool if cluster.churn.is_some() => {
            let command = match cluster.rng.one_in(2) {
                true => json!({ "prefix": "osd pool create", "pool": CHURN_POOL, "pg_num": 2, "pgp_num": 2 }).to_string(),
                false => drop_pool(),
            };
            cluster.tell(&command);
        }
        _ => {}
    }
}

/// The pool is to have so many groups.
pub(crate) fn resize(cluster: &mut Cluster, groups: u32) {
    cluster.shrunk |= groups < cluster.plan.pg_num;
    cluster.plan.pg_num = groups;
    let (pool, groups) = (cluster.plan.habits.pool.clone(), groups.to_string());
    for var in ["pg_num", "pgp_num"] {
        cluster.tell(&json!({ "prefix": "osd pool set", "pool": pool, "var": var, "val": groups }).to_string());
    }
}

/// Another number of groups: up to twice as many, or a few less, which are merged one by one.
fn other_number(cluster: &mut Cluster) -> u32 {
    let groups = cluster.plan.pg_num;
    let fewer = groups > 1 && (groups >= MOST_GROUPS || cluster.rng.one_in(2));
    if fewer {
        return groups - cluster.rng.between(1, u64::from(MOST_FEWER.min(groups - 1))) as u32;
    }
    groups + cluster.rng.between(1, u64::from(groups)) as u32
}

/// Returns true if a split was asked for that is not answered yet: commands that are sent again may arrive in another
/// order.
fn splitting(cluster: &Cluster) -> bool {
    let admin = cluster.admin_shared.borrow();
    admin.commands.iter().chain(admin.open.values()).any(|command| command.contains("\"osd pool set\""))
}

fn make_snap(cluster: &mut Cluster, pool: &str) {
    match cluster.plan.habits.snaps {
        Snaps::Own if cluster.history.borrow().own_snaps.1.len() < MOST_SNAPS => cluster.tell(&format!("{MAKE_SNAP}{pool}")),
        Snaps::Pool if cluster.history.borrow().pool_snaps().len() < MOST_SNAPS => {
            let now = cluster.world.now().as_nanos() as u64;
            let name = format!("s{now}");
            cluster.history.borrow_mut().snap_asked(&name, now);
            cluster.tell(&json!({ "prefix": "osd pool mksnap", "pool": pool, "snap": name }).to_string());
        }
        _ => {}
    }
}

/// Removes one that clients do not go back to: the odd ones.
fn remove_snap(cluster: &mut Cluster, pool: &str) {
    let history = cluster.history.clone();
    let own = history.borrow().own_snaps.1.clone();
    let command = match cluster.plan.habits.snaps {
        Snaps::Own => own.into_iter().find(|snap| snap % 2 == 1).map(|snap| (snap, format!("{REMOVE_SNAP}{pool} {snap}"))),
        Snaps::Pool => {
            let odd = history.borrow().pool_snaps().into_iter().find(|(_, id)| id % 2 == 1);
            odd.map(|(name, id)| (id, json!({ "prefix": "osd pool rmsnap", "pool": pool, "snap": name }).to_string()))
        }
        Snaps::None => None,
    };
    let Some((snap, command)) = command else { return };
    history.borrow_mut().snap_removed(snap);
    history.borrow_mut().own_snaps.1.retain(|s| *s != snap);
    cluster.tell(&command);
}

impl Cluster {
    /// The client in the pool that comes and goes asks nothing any more, and has heard of all that it asked; the pool goes.
    pub(crate) fn end_churn(&mut self) -> Result<(), String> {
        let Some((host, shared)) = self.churn.clone() else { return Ok(()) };
        shared.borrow_mut().left = 0;
        self.world.call(host, "");
        if !self.world.run_while(Duration::from_secs(60), |_| shared.borrow().open > 0) {
            return Err(format!("operations hang: {} of them in a pool that comes and goes", shared.borrow().open));
        }
        match self.command(&drop_pool())? {
            (0 | -2, ..) => Ok(()),
            (result, status, _) => Err(format!("a pool cannot be removed: {result}: {status}")),
        }
    }

    /// Waits until all that was told is answered. What could not be done says so, unless it was done before; or could not be done as no
    /// OSD was up at that moment.
    pub(crate) fn wait_told(&mut self) -> Result<(), String> {
        let shared = self.admin_shared.clone();
        let busy = || !shared.borrow().open.is_empty() || !shared.borrow().commands.is_empty();
        if !self.world.run_while(Duration::from_secs(120), |_| busy()) {
            let open: Vec<String> = shared.borrow().open.values().cloned().collect();
            return Err(format!("the monitor does not answer {open:?}"));
        }
        let answers = std::mem::take(&mut shared.borrow_mut().answers);
        // Repeated, a command may find that it is done: EEXIST, ENOENT. EAGAIN: a pool cannot be made while all OSDs are down.
        let refused = answers.iter().find(|(_, result, ..)| ![0, -2, -11, -17].contains(result));
        refused.map_or(Ok(()), |(command, result, status, _)| Err(format!("{command} is answered with {result}: {status}")))
    }
}
