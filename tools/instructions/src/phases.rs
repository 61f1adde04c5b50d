//! The fixed run: one OSD with its store, a client and a stand-in for the monitor in one thread.

use crate::hosts::Hosts;
use crate::load::{Kind, Load, Orders};
use msgr::auth::{Auth, ClientAuth};
use objecter::ClientNode;
use osd::{Osd, OsdConfig};
use standmon::{Kept, StandMon};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use types::{EntityAddr, EntityAddrVec, EntityName, EntityType, Fsid};

const FSID: Fsid = Fsid([0x5a; 16]);
const DISK: usize = 512 << 20;

/// A measured phase.
pub(crate) struct Phase {
    /// Name in tables and in the committed file.
    pub(crate) name: &'static str,
    /// In words.
    pub(crate) about: &'static str,
    kind: Kind,
    /// Operations that reach the OSD in one round.
    depth: usize,
}

/// All of them, in the order in which they run.
pub(crate) const PHASES: &[Phase] = &[
    Phase { name: "write", about: "4 KiB to a new object, 4 in a round", kind: Kind::Write, depth: 4 },
    Phase { name: "overwrite", about: "4 KiB into a 4 MiB object, 4 in a round", kind: Kind::Overwrite, depth: 4 },
    Phase { name: "read", about: "4 KiB of a cached object, 4 in a round", kind: Kind::Read, depth: 4 },
    Phase { name: "write-1", about: "4 KiB to a new object, alone", kind: Kind::Write, depth: 1 },
    Phase { name: "read-1", about: "4 KiB of a cached object, alone", kind: Kind::Read, depth: 1 },
];

/// Operations before each measurement, which warm caches and tables.
const WARM_UP: u64 = 500;

/// Rounds without load before the first phase.
const SETTLE: u32 = 300;

fn addresses(port: u16) -> (SocketAddr, EntityAddrVec) {
    let at = SocketAddr::from(([10, 0, 0, 1], port));
    (at, EntityAddrVec(vec![EntityAddr::msgr2(at, 1)]))
}

fn cluster(orders: &Rc<RefCell<Orders>>) -> Hosts {
    let mut hosts = Hosts::default();
    let ((mon_at, mon_addrs), (osd_at, osd_addrs)) = (addresses(3300), addresses(6800));
    let kept = Rc::new(RefCell::new(Kept::new(FSID)));
    let mon = StandMon::new(mon_addrs.clone(), kept, node::Mono(0), [1; 32]);
    hosts.add(Box::new(mon), Some(mon_at), 0, false);

    let store = store::Config { uuid: [3; 16], fsid: FSID, whoami: 0, ..store::Config::default() };
    let config = OsdConfig {
        memory: 256 << 20,
        memory_ceiling: Some(256 << 20),
        fsid: FSID,
        whoami: 0,
        uuid: [3; 16],
        addrs: osd_addrs,
        cluster_addrs: EntityAddrVec::default(),
        neighbours: BTreeMap::new(),
        monitors: vec![mon_addrs.clone()],
        key: None,
        metadata: BTreeMap::from([("hostname".into(), "here".into())]),
        levels: types::Levels::OWN,
        seed: [2; 32],
    };
    hosts.add(Box::new(Osd::new(config, Box::new(store::Store::create(store)))), Some(osd_at), DISK, true);

    let name = EntityName::new(EntityType::Client, "admin");
    let config = objecter::Config { monitors: vec![mon_addrs], ..objecter::Config::default() };
    let auth = Auth::client(ClientAuth::none(name.clone()));
    let client = ClientNode::new(msgr::Config::client(name, 7), auth, config, [4; 32], Load::new(orders.clone()));
    hosts.add(Box::new(client), None, 0, false);
    hosts
}

fn run_until_done(hosts: &mut Hosts, orders: &Rc<RefCell<Orders>>) {
    let end = hosts.now() + 600_000_000_000;
    while orders.borrow().left > 0 || orders.borrow().open > 0 {
        hosts.round();
        assert!(hosts.now() < end, "operations hang");
    }
}

fn order(hosts: &mut Hosts, orders: &Rc<RefCell<Orders>>, kind: Kind, depth: usize, ops: u64) {
    {
        let mut o = orders.borrow_mut();
        (o.kind, o.depth, o.left) = (Some(kind), depth, ops);
    }
    run_until_done(hosts, orders);
}

/// What is counted before this is left is none of the phase's: callgrind writes its counters down then, and begins
/// anew.
#[inline(never)]
fn warm_up(hosts: &mut Hosts, orders: &Rc<RefCell<Orders>>, phase: &Phase) {
    order(hosts, orders, phase.kind, phase.depth, WARM_UP);
    std::hint::black_box(&hosts);
}

/// Here too, when it is left.
#[inline(never)]
fn measured(hosts: &mut Hosts, orders: &Rc<RefCell<Orders>>, phase: &Phase, ops: u64) {
    order(hosts, orders, phase.kind, phase.depth, ops);
    std::hint::black_box(&hosts);
}

/// Runs every phase with so many operations.
pub(crate) fn run(ops: u64) {
    let orders = Rc::new(RefCell::new(Orders::default()));
    let mut hosts = cluster(&orders);
    order(&mut hosts, &orders, Kind::Prepare, 2, 16);
    // A new store writes its journal's ring ahead; that is not a part of any operation.
    for _ in 0..SETTLE {
        hosts.round();
    }
    for phase in PHASES {
        warm_up(&mut hosts, &orders, phase);
        measured(&mut hosts, &orders, phase, ops);
    }
}
