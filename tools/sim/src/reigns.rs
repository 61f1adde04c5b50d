//! What goes wrong with the monitor that leads, and with their number: the leader dies, is cut off, gets no processor; one monitor is
//! removed, and another one with an empty disk comes in its place.

use crate::cluster::Cluster;
use crate::fault::{Fault, Later, Nemesis};
use crate::world::{Crash, HostId};
use serde_json::json;
use std::time::Duration;

const EBUSY: i32 = -16;

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// A monitor that is being replaced.
#[derive(Debug)]
pub(crate) struct Replacement {
    /// The command that removes it.
    command: String,
    host: HostId,
    /// Time when the new one starts, once the command was answered.
    start: Option<Duration>,
}

impl Nemesis {
    /// Lets something happen to the leader, or to the members.
    pub(crate) fn depose(&mut self, cluster: &mut Cluster, fault: Fault) {
        if fault == Fault::MonReplace {
            return cluster.begin_replacement();
        }
        let Some(leader) = cluster.leading_monitor() else { return };
        match fault {
            Fault::LeaderKill => {
                let how = if cluster.rng.one_in(2) { Crash::Power } else { Crash::Process };
                self.kill(cluster, leader, how);
            }
            Fault::LeaderAtWrite => Self::arm(cluster, leader),
            Fault::LeaderFreeze => {
                let wait = cluster.rng.between(300, 6_000);
                cluster.world.freeze(leader, ms(wait));
            }
            _ => self.cut_leader(cluster, leader),
        }
    }

    /// The others do not hear it, or it does not hear them, or both; clients reach all.
    fn cut_leader(&mut self, cluster: &mut Cluster, leader: HostId) {
        let (hears, is_heard) = *cluster.rng.pick(&[(false, false), (true, false), (false, true)]);
        for other in cluster.mons.clone().into_iter().filter(|mon| *mon != leader) {
            if !hears {
                cluster.world.net.cut(other, leader);
            }
            if !is_heard {
                cluster.world.net.cut(leader, other);
            }
        }
        let wait = cluster.rng.between(1_000, 7_000);
        self.later.push((cluster.world.now() + ms(wait), Later::Heal));
    }
}

impl Cluster {
    /// The monitor that leads; the one that began to last, if an old one does not know yet.
    fn leading_monitor(&self) -> Option<HostId> {
        let leads = |n: &usize| self.world.is_up(self.mons[*n]) && self.reigns[*n].get() > 0;
        (0..self.mons.len()).filter(leads).max_by_key(|n| self.reigns[*n].get()).map(|n| self.mons[n])
    }

    /// One of the monitors that came later is removed; at most one in a run, as more could take the majority with them.
    fn begin_replacement(&mut self) {
        if self.mons.len() < 3 || self.decrees.replacement.is_some() {
            return;
        }
        let n = 1 + self.rng.index(self.mons.len() - 1);
        let host = self.mons[n];
        let name = self.world.name(host).trim_start_matches("mon.").to_owned();
        let command = json!({ "prefix": "mon rm", "name": name }).to_string();
        self.tell(&command);
        self.decrees.replacement = Some(Replacement { command, host, start: None });
    }

    /// Returns true if a monitor is removed and the next one not there yet. Takes the next step, if it is time to.
    pub(crate) fn replaces_monitor(&mut self) -> bool {
        let now = self.world.now();
        let Some(Replacement { command, host, start }) = &mut self.decrees.replacement else { return false };
        match *start {
            None => {
                let mut admin = self.admin_shared.borrow_mut();
                if let Some(at) = admin.answers.iter().position(|(asked, ..)| asked == command) {
                    let (_, result, status, _) = admin.answers.remove(at);
                    match result {
                        0 => *start = Some(now + ms(self.rng.between(500, 6_000))),
                        // Too many are away; it may be tried again.
                        EBUSY => self.decrees.replacement = None,
                        _ => {
                            self.decrees.wrong.get_or_insert(format!("{command} is answered with {result}: {status}"));
                        }
                    }
                }
                self.decrees.replacement.is_some()
            }
            Some(at) if at <= now && at > Duration::ZERO => {
                *start = Some(Duration::ZERO);
                let host = *host;
                self.world.crash(host, Crash::Process);
                self.world.empty_disks(host);
                self.world.start(host);
                false
            }
            Some(at) => at > Duration::ZERO,
        }
    }
}
