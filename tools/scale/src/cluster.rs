//! A monitor and a crowd of OSDs in one world.

use crate::crowd::{Crowd, Identity, StandIn};
use mon::{AuthMode, Monitor};
use objectstore::memory::MemStore;
use osd::{Backend, Osd, OsdConfig};
use sim::disk::DiskConfig;
use sim::world::{Boot, Crash, HostConfig, HostId, World};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use types::{EntityAddr, EntityAddrVec, Fsid, Levels, OsdId, PgState};

const FSID: Fsid = Fsid([0x5c; 16]);
/// Hosts of a large cluster.
const HOSTS: usize = 42;
/// Bytes of an OSD's store.
const OSD_BYTES: u64 = 8 << 40;
/// Virtual time after which something that was waited for counts as failed.
const LIMIT: Duration = Duration::from_secs(600);

/// How large a cluster is.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// OSDs.
    pub osds: usize,
    /// Pools of three copies.
    pub pools: usize,
    /// Groups of each pool.
    pub groups: u32,
}

impl Size {
    /// A thousand OSDs on 42 hosts, and 32,768 groups.
    pub const LARGE: Self = Self { osds: 1_000, pools: 4, groups: 8_192 };

    /// OSDs of each host but the last.
    pub fn per_host(self) -> usize {
        self.osds.div_ceil(HOSTS)
    }

    /// Hosts.
    pub fn hosts(self) -> usize {
        self.osds.div_ceil(self.per_host())
    }

    /// All groups.
    pub fn all_groups(self) -> usize {
        self.pools * self.groups as usize
    }
}

/// The cluster.
pub struct Cluster {
    /// How large it is.
    pub size: Size,
    /// Place where it lives.
    pub world: World,
    /// The monitor.
    pub mon: HostId,
    /// The OSDs, by number.
    pub osds: Vec<HostId>,
    /// What the OSDs know.
    pub crowd: Rc<RefCell<Crowd>>,
}

fn address(at: SocketAddr, nonce: u32) -> EntityAddrVec {
    EntityAddrVec(vec![EntityAddr::msgr2(at, nonce)])
}

fn mon_address() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], 3300))
}

fn osd_address(size: Size, osd: usize) -> SocketAddr {
    let (host, nth) = (osd / size.per_host(), osd % size.per_host());
    SocketAddr::from(([10, 1, (host / 200) as u8, (host % 200) as u8 + 1], 6800 + nth as u16))
}

fn monitor(boot: &Boot) -> Monitor {
    let at = SocketAddr::from(([10, 0, 0, 1], 6800));
    let option = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let config = mon::Config {
        fsid: FSID,
        name: "a".into(),
        addrs: address(mon_address(), 0),
        mgr_name: "x".into(),
        mgr_addrs: address(at, 0),
        host: "mon".into(),
        about: Default::default(),
        auth: AuthMode::None,
        keys: Vec::new(),
        options: [
            option("osd_crush_chooseleaf_type", "1"),
            // Pools keep the groups that they are made with.
            option("osd_pool_default_pg_autoscale_mode", "off"),
            option("mon_osd_down_out_interval", "60"),
        ]
        .into(),
        join: Vec::new(),
        defaults_follow: false,
        levels: Levels::OWN,
        log_bytes: 0,
        services: std::collections::BTreeMap::new(),
    };
    Monitor::new(config, boot.seed)
}

impl Cluster {
    /// A cluster whose machines do not run yet. `meter` tells the processor time of this thread in nanoseconds.
    pub fn new(size: Size, meter: fn() -> u64) -> Self {
        Self::with_real(size, meter, &BTreeSet::new())
    }

    /// As [`Cluster::new`]; these OSDs are the product's.
    pub fn with_real(size: Size, meter: fn() -> u64, real: &BTreeSet<OsdId>) -> Self {
        let mut world = World::new(1);
        world.meter = Some(meter);
        let crowd = Rc::<RefCell<Crowd>>::default();
        let disk = DiskConfig { capacity: 4 << 30, ..DiskConfig::default() };
        let mon = world.add(HostConfig {
            name: "mon.a".into(),
            listen: vec![mon_address(), SocketAddr::from(([10, 0, 0, 1], 6800))],
            disks: vec![disk],
            factory: Box::new(|boot| Box::new(monitor(&boot))),
        });
        let is_real = |osd: usize| real.contains(&(osd as OsdId));
        let osds = (0..size.osds)
            .map(|osd| match is_real(osd) {
                true => Self::real(&mut world, size, osd, Some(osd as OsdId) == real.first().copied()),
                false => Self::stand_in(&mut world, &crowd, size, osd),
            })
            .collect();
        Self { size, world, mon, osds, crowd }
    }

    fn stand_in(world: &mut World, crowd: &Rc<RefCell<Crowd>>, size: Size, osd: usize) -> HostId {
        let (crowd, clock) = (crowd.clone(), world.shared_clock());
        let me = Identity {
            fsid: FSID,
            osd: osd as OsdId,
            addrs: address(osd_address(size, osd), 1),
            host: format!("host{}", osd / size.per_host()),
            monitors: vec![address(mon_address(), 0)],
            bytes: OSD_BYTES,
        };
        world.add(HostConfig {
            name: format!("osd.{osd}"),
            listen: vec![osd_address(size, osd)],
            disks: Vec::new(),
            factory: Box::new(move |boot| Box::new(StandIn::new(me.clone(), crowd.clone(), clock.clone(), boot.seed))),
        })
    }

    /// One of the product's OSDs, over the product's store on a disk or over a store in memory.
    fn real(world: &mut World, size: Size, osd: usize, on_disk: bool) -> HostId {
        let made = Rc::<Cell<bool>>::default();
        let config = move |boot: &Boot| OsdConfig {
            fsid: FSID,
            whoami: osd as OsdId,
            uuid: crate::crowd::uuid(osd as OsdId),
            addrs: address(osd_address(size, osd), boot.life as u32 + 1),
            cluster_addrs: types::EntityAddrVec::default(),
            neighbours: BTreeMap::new(),
            monitors: vec![address(mon_address(), 0)],
            key: None,
            metadata: BTreeMap::from([("hostname".into(), format!("host{}", osd / size.per_host()))]),
            levels: Levels::OWN,
            seed: boot.seed,
            memory: 1 << 30,
            memory_ceiling: Some(1 << 30),
        };
        let store = move |config: &OsdConfig| -> Box<dyn Backend> {
            if !on_disk {
                return Box::new(MemStore::new());
            }
            let (uuid, fsid, whoami) = (config.uuid, config.fsid, config.whoami);
            let config = store::Config { uuid, fsid, whoami, ..store::Config::default() };
            Box::new(if made.replace(true) { store::Store::open(config) } else { store::Store::create(config) })
        };
        world.add(HostConfig {
            name: format!("osd.{osd}"),
            listen: vec![osd_address(size, osd)],
            disks: vec![DiskConfig { capacity: 8 << 30, ..DiskConfig::default() }],
            factory: Box::new(move |boot| {
                let config = config(&boot);
                let store = store(&config);
                Box::new(Osd::new(config, store))
            }),
        })
    }

    /// Processor time that the monitor has taken.
    pub fn taken(&self) -> Duration {
        self.world.taken(self.mon)
    }

    /// Gives the monitor a command, and the answer.
    ///
    /// # Errors
    /// It is not answered, or refused.
    pub fn command(&mut self, json: &str) -> Result<String, String> {
        let (call, mut found) = (self.world.call(self.mon, json), None);
        self.world.run_while(LIMIT, |world| {
            found = world.take_answers().into_iter().find(|(_, id, ..)| *id == call);
            found.is_none()
        });
        match found {
            Some((_, _, 0, text)) => Ok(text),
            Some((_, _, result, text)) => Err(format!("{json}: {result} {text}")),
            None => Err(format!("{json}: no answer")),
        }
    }

    /// Runs until something holds of the crowd, looking every tenth of a second.
    ///
    /// # Errors
    /// It does not hold within [`LIMIT`].
    pub fn wait(&mut self, what: &str, holds: impl Fn(&Crowd) -> bool) -> Result<(), String> {
        let end = self.world.now() + LIMIT;
        while !holds(&self.crowd.borrow()) {
            if self.world.now() > end {
                let tail: Vec<String> = self.world.trace.tail().cloned().collect();
                return Err(format!("not within {} s: {what}\n{}", LIMIT.as_secs(), tail.join("\n")));
            }
            self.world.run_for(Duration::from_millis(100));
        }
        Ok(())
    }

    /// Starts the monitor.
    ///
    /// # Errors
    /// It does not serve.
    pub fn start_monitor(&mut self) -> Result<(), String> {
        self.world.start(self.mon);
        self.command(r#"{"prefix":"ready"}"#).map(drop)
    }

    /// Starts all OSDs and waits until the map has them up.
    ///
    /// # Errors
    /// It never has.
    pub fn start_osds(&mut self) -> Result<(), String> {
        let osds = self.size.osds;
        for (osd, host) in self.osds.clone().into_iter().enumerate() {
            self.world.start(host);
            // Host by host, so that these have the same numbers in the CRUSH map of each cluster of this size.
            if (osd + 1) % self.size.per_host() == 0 {
                self.world.run_for(Duration::from_millis(20));
            }
        }
        self.wait("all OSDs are up", |crowd| crowd.map().is_some_and(|map| map.osd_counts().1 == osds))?;
        // Stores of different kinds have different sizes.
        self.command(r#"{"prefix":"osd crush reweight-subtree","name":"default","weight":1.0}"#).map(drop)
    }

    /// Makes the pools, and waits until all groups are clean.
    ///
    /// # Errors
    /// The monitor refuses, or they never are.
    pub fn make_pools(&mut self) -> Result<(), String> {
        for pool in 0..self.size.pools {
            let groups = self.size.groups;
            self.command(&format!(
                r#"{{"prefix":"osd pool create","pool":"p{pool}","pg_num":{groups},"pgp_num":{groups},"size":3}}"#
            ))?;
        }
        let all = self.size.all_groups();
        self.wait("all groups are clean", |crowd| crowd.count(PgState::CLEAN) == all)?;
        self.world.run_for(Duration::from_secs(10));
        Ok(())
    }

    /// The OSDs of the `n`-th host.
    pub fn of_host(&self, n: usize) -> Vec<OsdId> {
        let each = self.size.per_host();
        (n * each..((n + 1) * each).min(self.size.osds)).map(|osd| osd as OsdId).collect()
    }

    /// The power of a host fails.
    pub fn lose_host(&mut self, n: usize) -> Vec<OsdId> {
        let lost = self.of_host(n);
        for osd in &lost {
            self.world.crash(self.osds[*osd as usize], Crash::Power);
        }
        let now = self.world.now().as_nanos() as u64;
        self.crowd.borrow_mut().lose(&lost, now);
        lost
    }

    /// The newest map's epoch.
    pub fn epoch(&self) -> u32 {
        self.crowd.borrow().map().map_or(0, |map| map.epoch)
    }
}
