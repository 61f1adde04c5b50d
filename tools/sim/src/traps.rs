//! Faults in a few steps, each made for one rule of copies: whoever breaks that rule loses an answered write.
//!
//! | fault | the rule |
//! |---|---|
//! | [`Fault::SlowTail`] | a copy promises a change when it is durable there |
//! | [`Fault::LateWord`] | a letter is read only in the interval in which it was written |
//! | [`Fault::UnheardReign`] | nobody serves before the map says that the primary was up in the interval |
//! | [`Fault::Exile`] | a new primary waits until what was promised to an earlier one is over |
//! | [`Fault::DeafMerge`] | requests that were done are known when their group was merged |
//! | [`Fault::AbsentMerge`] | a copy that was not up to date when its group was merged is filled anew |
//! | [`Fault::LateSplit`] | a group that is still to come out of a split is not denied |
//!
//! The first three are for clusters of two OSDs with two copies, each of which may serve alone; with more they do no harm. The fourth is for
//! clusters with a client that only reads, the others for clusters with more OSDs than copies.

use crate::cluster::Cluster;
use crate::fault::{Fault, Later, Nemesis};
use crate::mistake::Mistake;
use crate::world::{Crash, HostId};
use serde_json::json;
use std::time::Duration;
use types::ObjectId;

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// A booting OSD that the monitors turned away asks again after so long.
const BOOT_AGAIN: u64 = 3_000;
/// How long a host is switched off that nobody needs.
const GONE: Duration = Duration::from_secs(25);
/// More maps than the changes that are kept, where few are.
const MANY_MAPS: u32 = 80;
/// A pool with more groups gets few again before it gets more.
const MANY_GROUPS: u32 = 8;
/// Until nobody waits for groups to become clean any more.
const SETTLED: Duration = Duration::from_secs(20);
/// Until a merge is given up: groups may not become clean.
const MERGED: Duration = Duration::from_secs(40);

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

    /// One is cut off together with a client, and does not hear that it is called down: the others agree on another primary while promises
    /// to this one run.
    pub(crate) fn exile(&mut self, cluster: &mut Cluster, osd: HostId) {
        let Some(number) = cluster.osds.iter().position(|other| *other == osd) else { return };
        if self.island(cluster, osd) {
            cluster.tell(&json!({ "prefix": "osd down", "ids": [number.to_string()] }).to_string());
        }
    }

    /// One is stopped as it should be. What the monitors say is late, for it and for a client that reads.
    pub(crate) fn farewell(&mut self, cluster: &mut Cluster, osd: HostId) {
        if self.later.iter().any(|(_, later)| matches!(later, Later::Heal)) {
            return;
        }
        let Some((client, _)) = cluster.clients.first().cloned() else { return };
        for mon in cluster.mons.clone() {
            cluster.world.net.cut(mon, osd);
            cluster.world.net.cut(mon, client);
        }
        for other in Self::others(cluster, osd) {
            cluster.world.net.partition(client, other);
        }
        cluster.world.stop(osd);
        let wait = cluster.rng.between(600, 3_000);
        self.later.push((cluster.world.now() + ms(wait), Later::Heal));
    }

    /// One is cut off together with a client and called down; all others start anew at that moment. Heartbeats are as rare as Ceph's.
    pub(crate) fn amnesia(&mut self, cluster: &mut Cluster, osd: HostId) {
        let Some(number) = cluster.osds.iter().position(|other| *other == osd) else { return };
        let set = json!({ "prefix": "config set", "who": "osd", "name": "osd_heartbeat_interval", "value": "6" }).to_string();
        cluster.tell(&set);
        cluster.world.run_for(ms(13_000));
        if self.island(cluster, osd) {
            for other in Self::others(cluster, osd) {
                cluster.world.crash(other, Crash::Process);
            }
            cluster.world.run_for(ms(100));
            Self::others(cluster, osd).into_iter().for_each(|other| cluster.start(other));
            cluster.tell(&json!({ "prefix": "osd down", "ids": [number.to_string()] }).to_string());
        }
    }

    /// A host with an OSD and a client sleeps. What others tell it meanwhile comes some time after it woke, as connections find that they
    /// are broken.
    pub(crate) fn suspend(&mut self, cluster: &mut Cluster, osd: HostId) {
        let Some((client, _)) = cluster.clients.first().cloned() else { return };
        if !self.island(cluster, osd) {
            return;
        }
        let counted = cluster.plan.mistake != Some(Mistake::SleepUncounted);
        let asleep = self.later.iter().filter(|(_, later)| matches!(later, Later::Heal)).map(|(at, _)| *at).max();
        let asleep = asleep.unwrap_or_default().saturating_sub(cluster.world.now());
        let late = ms(cluster.rng.between(200, 2_000));
        for host in [osd, client] {
            cluster.world.suspend(host, asleep, counted);
        }
        self.later.retain(|(_, later)| !matches!(later, Later::Heal));
        self.later.push((cluster.world.now() + asleep + late, Later::Heal));
    }

    /// An OSD writes down what nobody else hears of, is taken out, tells of it, and is switched off for long. All that was acknowledged is on
    /// the others: they go on without it.
    pub(crate) fn stray_dies(&mut self, cluster: &mut Cluster, osd: HostId) {
        let Some(number) = cluster.osds.iter().position(|other| *other == osd) else { return };
        self.later.retain(|(_, later)| !matches!(later, Later::Start(host) if cluster.osds.contains(host)));
        cluster.osds.clone().into_iter().for_each(|osd| cluster.start(osd));
        self.run(cluster, 5_000, 9_000);
        for other in Self::others(cluster, osd) {
            cluster.world.net.cut(osd, other);
        }
        self.run(cluster, 50, 600);
        let ids = [number.to_string()];
        cluster.tell(&json!({ "prefix": "osd out", "ids": ids }).to_string());
        if cluster.rng.one_in(2) {
            self.run(cluster, 5, 200);
        }
        cluster.world.heal();
        // It answers what it is asked, and dies between two questions.
        cluster.world.net.config.jitter = cluster.rng.between(20, 300) * 1_000_000;
        self.run(cluster, 20, 1_200);
        cluster.world.crash(osd, Crash::Power);
        cluster.world.net.config = crate::net::NetConfig::default();
        cluster.world.run_for(GONE);
        cluster.must_not_peer(&format!("osd.{number}, which was out, is gone for {} s", GONE.as_secs()));
        cluster.tell(&json!({ "prefix": "osd in", "ids": ids }).to_string());
        cluster.start(osd);
    }

    /// A change is durable at one copy and not at the other, whose disk is slow, when power is cut. Both come back, and the object is asked
    /// for; power is cut again before what is brought to the slow one is durable. That one comes back alone.
    pub(crate) fn two_blackouts(&mut self, cluster: &mut Cluster, slow: HostId) {
        self.later.retain(|(_, later)| !matches!(later, Later::Start(host) if cluster.osds.contains(host)));
        cluster.osds.clone().into_iter().for_each(|osd| cluster.start(osd));
        self.run(cluster, 1_500, 2_500);
        let all = cluster.osds.clone();
        for (least, most) in [(100, 1_000), (2_000, 4_500)] {
            cluster.world.disk(slow, 0).faults.slower = cluster.rng.between(300, 3_000);
            self.run(cluster, least, most);
            all.iter().for_each(|osd| cluster.world.crash(*osd, Crash::Power));
            cluster.world.mend_disks(slow);
            cluster.start(slow);
            if least == 100 {
                all.iter().for_each(|osd| cluster.start(*osd));
            }
        }
        for other in Self::others(cluster, slow) {
            self.start_between(cluster, other, 3_000, 9_000);
        }
    }

    /// A copy is filled whose disk does nothing, and nobody may be marked down: clients wait for it when much is under way.
    pub(crate) fn flood(&mut self, cluster: &mut Cluster) {
        let acting = cluster.acting();
        let Some(member) = acting.last().copied().filter(|_| acting.len() > 1) else { return };
        let Some(target) = (0..cluster.osds.len()).find(|osd| !acting.contains(osd)) else { return };
        let host = cluster.osds[target];
        let ids = [member.to_string()];
        cluster.tell(&json!({ "prefix": "osd set", "key": "nodown" }).to_string());
        cluster.tell(&json!({ "prefix": "osd out", "ids": ids }).to_string());
        self.run(cluster, 50, 600);
        cluster.world.disk(host, 0).faults.stopped = true;
        self.run(cluster, 4_000, 9_000);
        cluster.world.mend_disks(host);
        cluster.tell(&json!({ "prefix": "osd unset", "key": "nodown" }).to_string());
        self.run(cluster, 500, 3_000);
        cluster.tell(&json!({ "prefix": "osd in", "ids": ids }).to_string());
    }

    /// Changes of objects wait at all copies but the leader's. There some objects rot, which clients find that read them.
    pub(crate) fn rot_beside(&mut self, cluster: &mut Cluster) {
        let Some(leader) = cluster.primary().and_then(|leader| cluster.osds.iter().position(|osd| *osd == leader)) else {
            return;
        };
        cluster.history.borrow_mut().was_full = true;
        for (_, store) in cluster.meanings.iter().enumerate().filter(|(osd, _)| *osd != leader) {
            store.borrow_mut().full = true;
        }
        self.run(cluster, 5, 300);
        let content = cluster.meanings[leader].borrow().content();
        // An object that rots twice while its group has the same leader is not brought again.
        let heads: Vec<ObjectId> = content.objects().filter(|object| object.pool >= 0 && object.is_head()).cloned().collect();
        let fresh: Vec<ObjectId> = heads.into_iter().filter(|object| !self.rotten.contains(object)).collect();
        let some: Vec<ObjectId> = fresh.into_iter().filter(|_| cluster.rng.one_in(3)).collect();
        self.rotten.extend(some.iter().cloned());
        cluster.bad[leader].borrow_mut().extend(some);
        self.run(cluster, 50, 1_500);
        cluster.meanings.iter().for_each(|store| store.borrow_mut().full = false);
    }

    /// One is away for many maps. Another one serves alone, and is away when the first returns.
    pub(crate) fn skipped_maps(&mut self, cluster: &mut Cluster, away: HostId) {
        self.later.retain(|(_, later)| !matches!(later, Later::Start(host) if cluster.osds.contains(host)));
        cluster.osds.clone().into_iter().for_each(|osd| cluster.start(osd));
        self.run(cluster, 5_000, 8_000);
        let Some(number) = cluster.osds.iter().position(|other| *other == away) else { return };
        let ids = [number.to_string()];
        cluster.world.crash(away, Crash::Process);
        // Else the one copy may have its place there.
        cluster.tell(&json!({ "prefix": "osd out", "ids": ids }).to_string());
        self.run(cluster, 500, 1_500);
        let pool = cluster.plan.habits.pool.clone();
        let size = |size: u32| {
            let value = size.to_string();
            json!({ "prefix": "osd pool set", "pool": pool, "var": "size", "val": value, "yes_i_really_mean_it": true })
                .to_string()
        };
        cluster.tell(&size(1));
        self.run(cluster, 1_000, 2_000);
        self.make_maps(cluster);
        let alone = cluster.primary();
        // Who joins now hears which intervals there were, and has not got the objects when the one that has them goes.
        let joins: Vec<usize> =
            (0..cluster.osds.len()).filter(|other| cluster.osds[*other] != away && Some(cluster.osds[*other]) != alone).collect();
        let slow = cluster.rng.one_in(2);
        let held = ["norecover", "nobackfill"];
        if slow {
            for other in &joins {
                cluster.world.disk(cluster.osds[*other], 0).faults.slower = cluster.rng.between(200, 3_000);
            }
        } else {
            held.iter().for_each(|flag| cluster.tell(&json!({ "prefix": "osd set", "key": flag }).to_string()));
        }
        // It leads only where the one that was away does not.
        let affinity = |osd: usize, weight: f64| {
            json!({ "prefix": "osd primary-affinity", "id": format!("osd.{osd}"), "weight": weight }).to_string()
        };
        joins.iter().for_each(|other| cluster.tell(&affinity(*other, 0.0)));
        cluster.tell(&json!({ "prefix": "osd in", "ids": ids }).to_string());
        cluster.tell(&size(cluster.plan.size));
        let (least, most) = if slow { (20, 800) } else { (2_000, 5_000) };
        self.run(cluster, least, most);
        joins.iter().for_each(|other| cluster.world.mend_disks(cluster.osds[*other]));
        if let Some(alone) = alone {
            cluster.world.crash(alone, Crash::Process);
            self.start_between(cluster, alone, 12_000, 18_000);
        }
        cluster.start(away);
        self.run(cluster, 6_000, 9_000);
        held.iter().for_each(|flag| cluster.tell(&json!({ "prefix": "osd unset", "key": flag }).to_string()));
        joins.iter().for_each(|other| cluster.tell(&affinity(*other, 1.0)));
    }

    /// One is away for many maps. All groups move to two others meanwhile, and become clean: who had them before removes its copy. These two are
    /// away when the first returns, and whoever it asks holds nothing.
    pub(crate) fn moved_away(&mut self, cluster: &mut Cluster, away: HostId) {
        self.later.retain(|(_, later)| !matches!(later, Later::Start(host) if cluster.osds.contains(host)));
        cluster.osds.clone().into_iter().for_each(|osd| cluster.start(osd));
        // Three of four are down in the end.
        cluster.configure("mon", "mon_osd_min_up_ratio", "0.1");
        if !Self::wait(cluster, SETTLED, Cluster::is_whole) {
            return;
        }
        let all: Vec<usize> = (0..cluster.osds.len()).collect();
        let number = |host: HostId| cluster.osds.iter().position(|other| *other == host);
        let Some(number) = number(away) else { return };
        let mut others: Vec<usize> = all.into_iter().filter(|other| *other != number).collect();
        let beside = others.swap_remove(cluster.rng.index(others.len()));
        let order = |what: &str, osds: &[usize]| {
            let ids: Vec<String> = osds.iter().map(usize::to_string).collect();
            json!({ "prefix": what, "ids": ids }).to_string()
        };
        cluster.world.crash(away, Crash::Process);
        cluster.tell(&order("osd out", &[number, beside]));
        cluster.world.run_for(ms(2_000));
        let moved = Self::wait(cluster, SETTLED, Cluster::is_clean);
        // Something is written there, and the other copies go.
        self.run(cluster, 2_000, 4_000);
        if moved {
            others.iter().for_each(|other| cluster.world.crash(cluster.osds[*other], Crash::Process));
        }
        self.run(cluster, 500, 1_500);
        cluster.tell(&order("osd in", &[number, beside]));
        if moved {
            cluster.tell(&order("osd out", &others));
        }
        self.make_maps(cluster);
        cluster.start(away);
        self.run(cluster, 6_000, 9_000);
        cluster.tell(&order("osd in", &others));
        others.iter().for_each(|other| cluster.start(cluster.osds[*other]));
        self.run(cluster, 6_000, 9_000);
    }

    /// More maps than are kept.
    fn make_maps(&mut self, cluster: &mut Cluster) {
        for n in 0..MANY_MAPS {
            let what = if n % 2 == 0 { "osd set" } else { "osd unset" };
            let _ = cluster.command(&json!({ "prefix": what, "key": "noscrub" }).to_string());
        }
    }

    /// Waits until something is so, and says whether it is.
    fn wait(cluster: &mut Cluster, most: Duration, is_so: fn(&mut Cluster) -> bool) -> bool {
        let end = cluster.world.now() + most;
        loop {
            if is_so(cluster) {
                return true;
            }
            if cluster.world.now() >= end {
                return false;
            }
            cluster.world.run_for(ms(200));
        }
    }

    /// The last of three copies is no member any more, and has everything. It stays, as the second one lacks objects for a while. Then objects that
    /// were written since rot at both members, and clients read them.
    pub(crate) fn rot_everywhere(&mut self, cluster: &mut Cluster) {
        self.later.retain(|(_, later)| !matches!(later, Later::Start(host) if cluster.osds.contains(host)));
        cluster.osds.clone().into_iter().for_each(|osd| cluster.start(osd));
        if !Self::wait(cluster, SETTLED, Cluster::is_whole) {
            return;
        }
        let acting = cluster.acting();
        let [first, second, _third] = acting[..] else { return };
        cluster.world.crash(cluster.osds[second], Crash::Process);
        self.run(cluster, 1_000, 3_000);
        let held = ["norecover", "nobackfill"];
        held.iter().for_each(|flag| cluster.tell(&json!({ "prefix": "osd set", "key": flag }).to_string()));
        cluster.start(cluster.osds[second]);
        self.run(cluster, 1_500, 2_500);
        let pool = cluster.plan.habits.pool.clone();
        let size = |value: &str| {
            json!({ "prefix": "osd pool set", "pool": pool, "var": "size", "val": value, "yes_i_really_mean_it": true })
                .to_string()
        };
        cluster.tell(&size("2"));
        self.run(cluster, 300, 2_000);
        let content = cluster.meanings[first].borrow().content();
        let heads: Vec<ObjectId> = content.objects().filter(|object| object.pool >= 0 && object.is_head()).cloned().collect();
        let some: Vec<ObjectId> = heads.into_iter().filter(|_| cluster.rng.one_in(2)).collect();
        for osd in [first, second] {
            cluster.bad[osd].borrow_mut().extend(some.iter().cloned());
        }
        self.run(cluster, 1_000, 3_000);
        cluster.bad.iter().for_each(|bad| bad.borrow_mut().clear());
        held.iter().for_each(|flag| cluster.tell(&json!({ "prefix": "osd unset", "key": flag }).to_string()));
        cluster.tell(&size("3"));
    }

    /// What OSDs answer a client is lost for a while. Then it asks all of that again.
    pub(crate) fn deaf(&mut self, cluster: &mut Cluster) {
        let clients: Vec<HostId> = cluster.clients.iter().map(|(host, _)| *host).collect();
        let client = *cluster.rng.pick(&clients);
        let osds = cluster.osds.clone();
        osds.iter().for_each(|osd| cluster.world.net.cut(*osd, client));
        self.run(cluster, 200, 1_500);
        cluster.world.break_all(client, &osds);
        cluster.world.heal();
    }

    /// What OSDs answer a client is lost, from before a group is merged until after it. Then the client asks again.
    pub(crate) fn deaf_merge(&mut self, cluster: &mut Cluster) {
        if cluster.plan.pg_num < 2 {
            return crate::life::resize(cluster, 4);
        }
        let clients: Vec<HostId> = cluster.clients.iter().map(|(host, _)| *host).collect();
        let client = *cluster.rng.pick(&clients);
        let osds = cluster.osds.clone();
        osds.iter().for_each(|osd| cluster.world.net.cut(*osd, client));
        self.run(cluster, 200, 2_000);
        self.merge_one(cluster);
        cluster.world.break_all(client, &osds);
        cluster.world.heal();
    }

    /// One dies, and others take its place. Then a group is merged, and it comes back with what it had.
    pub(crate) fn absent_merge(&mut self, cluster: &mut Cluster, osd: HostId) {
        let Some(number) = cluster.osds.iter().position(|other| *other == osd) else { return };
        if cluster.plan.pg_num < 2 {
            return crate::life::resize(cluster, 4);
        }
        let ids = [number.to_string()];
        self.later.retain(|(_, later)| !matches!(later, Later::Start(host) if *host == osd));
        cluster.world.crash(osd, Crash::Process);
        cluster.tell(&json!({ "prefix": "osd out", "ids": ids }).to_string());
        self.run(cluster, 1_000, 4_000);
        self.merge_one(cluster);
        cluster.tell(&json!({ "prefix": "osd in", "ids": ids }).to_string());
        cluster.start(osd);
    }

    /// The pool gets twice as many groups, or few again, while the monitors do not reach an OSD. Whoever has the map asks it for groups that are to
    /// come out of its own, all of which split at once when it has the map, too.
    pub(crate) fn late_split(&mut self, cluster: &mut Cluster, osd: HostId) {
        let groups = cluster.plan.pg_num;
        if groups > MANY_GROUPS {
            return crate::life::resize(cluster, 2);
        }
        for mon in cluster.mons.clone() {
            cluster.world.net.cut(mon, osd);
        }
        crate::life::resize(cluster, 2 * groups);
        self.run(cluster, 100, 1_000);
        cluster.world.heal();
    }

    /// The pool gets a group less; runs until it has.
    fn merge_one(&mut self, cluster: &mut Cluster) {
        let (wanted, end) = (cluster.plan.pg_num - 1, cluster.world.now() + MERGED);
        crate::life::resize(cluster, wanted);
        while cluster.world.now() < end && cluster.groups().is_none_or(|groups| groups > wanted) {
            cluster.world.run_for(ms(100));
        }
    }
}

impl Cluster {
    /// Returns who serves the pool's first group, as the monitors tell, the primary first.
    fn acting(&mut self) -> Vec<usize> {
        let ask = json!({ "prefix": "osd map", "pool": self.plan.habits.pool, "object": "o0", "format": "json" });
        let Ok((_, _, output)) = self.command(&ask.to_string()) else { return Vec::new() };
        let value: serde_json::Value = serde_json::from_slice(&output).unwrap_or_default();
        let acting = value["acting"].as_array().cloned().unwrap_or_default();
        acting.iter().filter_map(|osd| usize::try_from(osd.as_u64()?).ok()).collect()
    }

    /// Returns who leads the pool's first group, as the monitors tell.
    fn primary(&mut self) -> Option<HostId> {
        let ask = json!({ "prefix": "osd map", "pool": self.plan.habits.pool, "object": "o0", "format": "json" });
        let (_, _, output) = self.command(&ask.to_string()).ok()?;
        let value: serde_json::Value = serde_json::from_slice(&output).ok()?;
        self.osds.get(usize::try_from(value["acting_primary"].as_i64()?).ok()?).copied()
    }

    /// No group is still finding out whose log counts, or waits for somebody who is gone: nothing went wrong for long, and what was acknowledged is
    /// on those who are there.
    fn must_not_peer(&mut self, why: &str) {
        let Ok(output) = self.command_ok(r#"{"prefix":"status","format":"json"}"#) else { return };
        let Ok(status) = serde_json::from_slice::<serde_json::Value>(&output) else { return };
        let states = status["pgmap"]["pgs_by_state"].as_array().cloned().unwrap_or_default();
        let names = states.iter().filter_map(|state| state["state_name"].as_str());
        let undecided = |name: &&str| ["peering", "down", "incomplete"].iter().any(|bad| name.contains(bad));
        if let Some(name) = names.into_iter().find(undecided) {
            self.wrong.get_or_insert(format!("{why}, and a group is still {name}"));
        }
    }

    /// Returns how many groups the map gives the pool; nothing if the monitors do not tell.
    fn groups(&mut self) -> Option<u32> {
        let get = json!({ "prefix": "osd pool get", "pool": self.plan.habits.pool, "var": "pg_num", "format": "json" });
        let (_, _, output) = self.command(&get.to_string()).ok()?;
        let value: serde_json::Value = serde_json::from_slice(&output).ok()?;
        u32::try_from(value["pg_num"].as_u64()?).ok()
    }
}
