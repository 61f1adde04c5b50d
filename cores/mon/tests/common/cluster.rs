//! A monitor with OSDs that a test speaks for.

use super::World;
use denc::Decode;
use maps::OsdMap;
use messages::internal::{OsdAlive, OsdReport, PgReport, PgTempWish};
use messages::mon::OsdMapMsg;
use messages::stats::ObjectStatSum;
use std::time::Duration;
use types::{EVersion, OsdId, PgId, PgState};

pub const CLEAN: PgState = PgState::ACTIVE.with(PgState::CLEAN);
/// The state of a group that has too few copies, and serves.
pub const DEGRADED: PgState = PgState::ACTIVE.with(PgState::UNDERSIZED).with(PgState::DEGRADED);

/// Figures of a group with so many objects in three copies.
pub fn objects(n: i64) -> ObjectStatSum {
    ObjectStatSum { num_objects: n, num_object_copies: 3 * n, num_bytes: n << 16, ..ObjectStatSum::default() }
}

/// A monitor with OSDs that are up, and a client.
pub struct Cluster {
    pub world: World,
    /// Their peers, by number.
    pub osds: Vec<usize>,
    pub client: usize,
    reports: u64,
}

impl Cluster {
    pub fn new(osds: i32) -> Self {
        Self::of(World::new(), osds)
    }

    /// The same with this monitor.
    pub fn of(mut world: World, osds: i32) -> Self {
        let osds = (0..osds).map(|osd| world.boot_osd(osd)).collect();
        let client = world.connect("client.admin", None, 0);
        Self { world, osds, client, reports: 0 }
    }

    /// The same, with pool 1 of so many copies and groups.
    pub fn with_pool(osds: i32, size: u32, groups: u32) -> Self {
        let mut cluster = Self::new(osds);
        cluster.pool(size, groups);
        cluster
    }

    /// Three OSDs and a pool of three copies, whose four groups have ten objects each.
    pub fn clean() -> Self {
        let mut cluster = Self::with_pool(3, 3, 4);
        cluster.all(4, CLEAN, objects(10));
        cluster
    }

    /// An OSD ends and is marked down.
    pub fn lose(&mut self, osd: OsdId) {
        let peer = self.osds[osd as usize];
        self.world.hang_up(peer);
        self.world.peers[peer].closed = Some("gone".into());
        self.world.ok(&format!(r#"{{"prefix":"osd down","ids":["{osd}"]}}"#));
    }

    pub fn pool(&mut self, size: u32, groups: u32) {
        self.world
            .ok(&format!(r#"{{"prefix":"osd pool create","pool":"p","pg_num":{groups},"pgp_num":{groups},"size":{size}}}"#));
    }

    pub fn map(&mut self) -> OsdMap {
        self.world.subscribe(self.client, "osdmap", 0, true);
        let messages = self.world.take(self.client, OsdMapMsg::KIND);
        let last = OsdMapMsg::decode(messages.last().expect("a map")).unwrap();
        OsdMap::from_bytes(last.full.last_key_value().expect("a full map").1).unwrap()
    }

    pub fn alive(&mut self, osd: OsdId, epoch: u32, want: u32) {
        self.world.send(self.osds[osd as usize], OsdAlive { osd, epoch, want }.encode());
    }

    pub fn wish(&mut self, osd: OsdId, epoch: u32, wishes: Vec<(PgId, Vec<OsdId>)>) {
        self.world.send(self.osds[osd as usize], PgTempWish { osd, epoch, wishes }.encode());
    }

    pub fn set(&mut self, var: &str, val: &str) -> (i32, String) {
        self.world.call(&format!(r#"{{"prefix":"osd pool set","pool":"p","var":"{var}","val":"{val}"}}"#))
    }

    /// Reports a group in this state, as its primary or as another OSD.
    pub fn report(&mut self, osd: OsdId, seed: u32, state: PgState) {
        self.report_stats(osd, seed, state, ObjectStatSum::default());
    }

    /// The same with figures.
    pub fn report_stats(&mut self, osd: OsdId, seed: u32, state: PgState, stats: ObjectStatSum) {
        self.report_with(osd, PgReport { pg: PgId::new(1, seed), state, stats, ..PgReport::default() });
    }

    /// Sends a report, with the time as it is.
    pub fn report_with(&mut self, osd: OsdId, mut pg: PgReport) {
        self.reports += 1;
        pg.reported = EVersion::new(1, self.reports);
        pg.last_change = self.world.now.wall;
        self.world.report(self.osds[osd as usize], osd, vec![pg]);
    }

    /// An OSD is alive, and has this map.
    pub fn report_epoch(&mut self, osd: OsdId, epoch: u32) {
        let report = OsdReport { osd, epoch, ..OsdReport::default() };
        self.world.send(self.osds[osd as usize], report.encode());
    }

    /// An OSD has so many slow operations, the oldest of which is so many seconds old.
    pub fn report_slow(&mut self, osd: OsdId, slow_ops: u32, slow_oldest: u32) {
        let report = OsdReport { osd, epoch: 1, slow_ops, slow_oldest, ..OsdReport::default() };
        self.world.send(self.osds[osd as usize], report.encode());
    }

    /// Every group of the pool is reported in this state by its primary, with so many objects.
    pub fn all(&mut self, groups: u32, state: PgState, stats: ObjectStatSum) {
        for seed in 0..groups {
            let primary = self.primary(seed);
            self.report_stats(primary, seed, state, stats);
        }
    }

    /// Lets time pass in which the OSDs stay alive.
    pub fn pass(&mut self, secs: u64) {
        for _ in 0..secs {
            for osd in 0..self.osds.len() {
                if self.world.peers[self.osds[osd]].closed.is_none() {
                    self.world.report(self.osds[osd], osd as OsdId, Vec::new());
                }
            }
            self.world.pass(Duration::from_secs(1));
        }
    }

    pub fn primary(&mut self, seed: u32) -> OsdId {
        self.map().placed(PgId::new(1, seed)).acting_primary
    }
}
