//! What clients with few rights can do to an OSD: what it keeps of their longest requests has a bound, they keep nobody out, and rights that
//! are taken back end within seconds on sessions that are open.

use bytes::Bytes;
use denc::Encode;
use messages::osd::{Op, OpArgs, OsdOp, code, code::watch_op, flags};
use messages::{class, ops};
use msgr::auth::{Auth, ClientAuth, Key};
use msgr::{Config, Event as Wire, Messenger, Policy};
use node::{Input, Mono, Node, Now, Outputs};
use objecter::{ClientNode, Driver, Event, Objecter, OpId, OpRequest, SnapContext};
use peak_alloc::PeakAlloc;
use sim::cluster::{Cluster, MonKind, Plan};
use sim::world::{Boot, HostConfig, HostId};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use types::{EntityAddr, EntityAddrVec, EntityName, EntityType, Errno, Locator, SessionId, SpgId};

/// Counts what is in use.
#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;
/// The memory is that of the process: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

const POOL: &str = "p";
const NAMESPACE: &str = "t";
/// Bytes of a long field.
const LONG: usize = 2 << 20;
/// Bytes by which what is in use may have grown, of 16 times that.
const GROWTH: usize = 24 << 20;

/// A request without the place of its object.
#[derive(Clone, Default)]
struct Request {
    object: Bytes,
    key: Bytes,
    nspace: Option<Bytes>,
    ops: Vec<Op>,
    snaps: Vec<u64>,
    flags: u32,
}

/// What a client is to do, and what became of it: when it ended, in nanoseconds of the world, the result, bytes of all outputs.
#[derive(Default)]
struct Shared {
    queue: VecDeque<Request>,
    ended: Vec<(u64, i32, usize)>,
    asked: usize,
}

/// A client that does what it is told.
struct Tenant {
    shared: Rc<RefCell<Shared>>,
    open: BTreeSet<OpId>,
    clock: Rc<Cell<u64>>,
}

impl Driver for Tenant {
    fn event(&mut self, _now: Now, event: Event, _objecter: &mut Objecter) {
        let Event::Done { id, result } = event else { return };
        self.open.remove(&id);
        let (result, bytes) = match result {
            Ok(reply) => (reply.result, reply.ops.iter().map(|op| op.output.len()).sum()),
            Err(_) => (i32::MIN, 0),
        };
        self.shared.borrow_mut().ended.push((self.clock.get(), result, bytes));
    }

    fn turn(&mut self, _now: Now, objecter: &mut Objecter) {
        let Some(map) = objecter.map().cloned() else { return };
        let pool = map.pool_name.iter().find(|(_, name)| *name == POOL).map(|(id, _)| *id).expect("the pool");
        while objecter.has_room() {
            let next = self.shared.borrow_mut().queue.pop_front();
            let Some(request) = next else { break };
            let nspace = request.nspace.unwrap_or(Bytes::from_static(NAMESPACE.as_bytes()));
            let snapc = SnapContext { seq: request.snaps.first().copied().unwrap_or(0), snaps: request.snaps };
            let locator = Locator { pool, nspace, key: request.key, ..Locator::default() };
            let flags = request.flags | flags::WRITE | flags::READ;
            let request = OpRequest { locator, oid: request.object, ops: request.ops, snapc, flags, ..OpRequest::default() };
            self.shared.borrow_mut().asked += 1;
            self.open.insert(objecter.submit(request));
        }
    }

    fn deadline(&self) -> Mono {
        Mono::NEVER
    }
}

/// A cluster of one OSD with cephx, and clients in it.
struct Town {
    cluster: Cluster,
    nonce: u32,
}

impl Town {
    fn new() -> Self {
        Self::with(1)
    }

    /// A cluster of so many OSDs, each with a copy of everything.
    fn with(osds: usize) -> Self {
        let plan = Plan {
            osds,
            size: osds as u32,
            min_size: 1,
            clients: 0,
            mon: MonKind::Real,
            cephx: true,
            pg_num: 1,
            ..Plan::default()
        };
        // Requests here are as large as they may be, and so are messages.
        let plan = Plan { sizes: if osds > 1 { osd::Sizes::default() } else { plan.sizes }, ..plan };
        let mut cluster =
            Cluster::new(7, Plan { habits: sim::workload::Habits { pool: POOL.into(), ..plan.habits.clone() }, ..plan });
        cluster.begin().expect("nothing goes wrong");
        Self { cluster, nonce: 100 }
    }

    /// Gives an entity rights, and its key.
    fn entity(&mut self, name: &str, osd: &str) -> Key {
        let make = serde_json::json!({
            "prefix": "auth get-or-create", "entity": name, "caps": ["mon", "allow r", "osd", osd], "format": "json"
        });
        let output = self.cluster.command_ok(&make.to_string()).expect("an entity");
        let all: serde_json::Value = serde_json::from_slice(&output).expect("JSON");
        Key::from_base64(all[0]["key"].as_str().expect("a key")).expect("a key")
    }

    fn client(&mut self, name: &str, key: &Key) -> (HostId, Rc<RefCell<Shared>>) {
        self.nonce += 1;
        let (shared, name, key, nonce) =
            (Rc::<RefCell<Shared>>::default(), name.parse::<EntityName>().unwrap(), *key, self.nonce);
        let (inside, clock) = (shared.clone(), self.cluster.world.shared_clock());
        let factory = move |boot: Boot| -> Box<dyn Node> {
            let mon = EntityAddrVec(vec![EntityAddr::msgr2(([10, 0, 0, 1], 3300).into(), 0)]);
            let config = objecter::Config { monitors: vec![mon], ..objecter::Config::default() };
            let auth = Auth::client(ClientAuth::cephx(name.clone(), key));
            let driver = Tenant { shared: inside.clone(), open: BTreeSet::new(), clock: clock.clone() };
            Box::new(ClientNode::new(Config::client(name.clone(), nonce), auth, config, boot.seed, driver))
        };
        let host = HostConfig { name: format!("tenant.{nonce}"), listen: vec![], disks: vec![], factory: Box::new(factory) };
        let host = self.cluster.world.add(host);
        self.cluster.world.start(host);
        self.cluster.world.run_for(Duration::from_secs(2));
        (host, shared)
    }

    /// A client does something; waits a while, and gives the results.
    fn ask(&mut self, client: &(HostId, Rc<RefCell<Shared>>), requests: Vec<Request>) -> Vec<i32> {
        let before = client.1.borrow().ended.len();
        client.1.borrow_mut().queue.extend(requests);
        self.cluster.world.call(client.0, "");
        self.cluster.world.run_for(Duration::from_secs(2));
        client.1.borrow().ended[before..].iter().map(|(_, result, _)| *result).collect()
    }
}

fn on(object: &'static str, ops: Vec<Op>) -> Request {
    Request { object: Bytes::from_static(object.as_bytes()), ops, ..Request::default() }
}

fn write(object: &'static str) -> Request {
    on(object, vec![Op::new(code::CREATE, OpArgs::None)])
}

fn watch(cookie: u64) -> Op {
    Op::new(code::WATCH, OpArgs::Watch { cookie, version: 0, op: watch_op::WATCH, generation: 0, timeout: 100_000 })
}

fn notify(bytes: usize) -> Op {
    let input = ops::Notify { version: 1, timeout: u32::MAX, payload: vec![7; bytes].into() }.to_bytes();
    Op { input, ..Op::new(code::NOTIFY, OpArgs::Notify { cookie: 7 }) }
}

fn xattr(name: &str, value: usize) -> Op {
    let input: Vec<u8> = name.bytes().chain(std::iter::repeat_n(7, value)).collect();
    let args = OpArgs::Xattr { name_len: name.len() as u32, value_len: value as u32, cmp_op: 0, cmp_mode: 0 };
    Op { input: input.into(), ..Op::new(code::SETXATTR, args) }
}

/// The longest requests of each kind, by a word for it.
fn floods() -> Vec<(&'static str, Request)> {
    let long = || Bytes::from(vec![b'x'; LONG]);
    let stat = || Op::new(code::STAT, OpArgs::None);
    let ack = ops::NotifyAck { notify_id: 1, cookie: 1, reply: long() }.to_bytes();
    let lock = class::lock::LockOp {
        name: "l".into(),
        kind: class::lock::kind::SHARED,
        cookie: "c".repeat(LONG / 2),
        description: "d".repeat(LONG / 2),
        ..class::lock::LockOp::default()
    };
    vec![
        ("name", Request { object: long(), ..on("", vec![stat()]) }),
        ("name of what is to be made", Request { object: long(), ..write("") }),
        ("key", Request { key: long(), ..write("o") }),
        ("namespace", Request { nspace: Some(long()), ..write("o") }),
        ("snapshots", Request { snaps: (1..=(LONG as u64 / 8)).rev().collect(), ..write("o") }),
        ("operations", on("o", vec![stat(); 10_000])),
        (
            "results that are told again",
            Request { flags: flags::RETURNVEC, ..on("o", vec![Op::new(code::CREATE, OpArgs::None); 60_000]) },
        ),
        ("watches", on("o", (0..10_000).map(watch).collect())),
        ("notification", on("o", vec![notify(LONG)])),
        ("notifications", on("o", vec![notify(5); 10_000])),
        ("answer to a notification", on("o", vec![Op { input: ack, ..Op::new(code::NOTIFY_ACK, OpArgs::Notify { cookie: 0 }) }])),
        ("attribute's name", on("o", vec![xattr(&"n".repeat(LONG), 1)])),
        ("holder of a lock", on("o", vec![Op::call("lock", "lock", &lock.to_bytes())])),
        ("input of a class", on("o", vec![Op::call("refcount", "get", &long())])),
        ("unknown class", on("o", vec![Op::call(&"c".repeat(200), "m", &long())])),
    ]
}

#[test]
fn what_an_osd_keeps_of_long_requests_has_a_bound() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut town = Town::new();
    let admin = town.entity("client.all", "allow *");
    let admin = town.client("client.all", &admin);
    assert_eq!(town.ask(&admin, vec![write("o")]), [0]);
    let tenant = format!("allow rwx pool={POOL} namespace={NAMESPACE}");
    for (name, caps) in [("client.none", "allow r pool=another"), ("client.reads", "allow r"), ("client.tenant", tenant.as_str())]
    {
        let key = town.entity(name, caps);
        for (what, request) in floods() {
            let client = town.client(name, &key);
            // Somebody who watches and never answers.
            assert!(town.ask(&client, vec![on("o", vec![watch(1)])]).len() == 1);
            let before = MEMORY.current_usage();
            let results = town.ask(&client, vec![request; 16]);
            client.1.borrow_mut().ended.clear();
            let grown = MEMORY.current_usage().saturating_sub(before);
            println!("{name} {what}: {} KiB, {results:?}", grown >> 10);
            assert!(grown < GROWTH, "{name} {what}: {} MiB more", grown >> 20);
            if caps == "allow r pool=another" {
                assert!(results.iter().all(|result| *result < 0), "{what}: {results:?}");
            }
            town.cluster.world.stop(client.0);
            town.cluster.world.run_for(Duration::from_secs(1));
        }
        // Who has nothing at all does not get in.
        let wrong = town.client(name, &Key::new(types::UTime::ZERO, [9; 16]));
        assert_eq!(town.ask(&wrong, vec![write("o")]), [0; 0]);
        // It serves others.
        assert_eq!(town.ask(&admin, vec![write("o2")]), [0]);
    }
}

#[test]
fn the_answer_to_one_request_has_a_bound() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut town = Town::new();
    let key = town.entity("client.tenant", &format!("allow rwx pool={POOL} namespace={NAMESPACE}"));
    let client = town.client("client.tenant", &key);
    assert_eq!(town.ask(&client, vec![on("o", vec![xattr("a", 1 << 20)])]), [0]);
    let get = || Op::new(code::GETXATTRS, OpArgs::None);
    assert_eq!(town.ask(&client, vec![on("o", vec![get(); 10])]), [0]);
    let before = MEMORY.current_usage();
    assert_eq!(town.ask(&client, vec![on("o", vec![get(); 5_000])]), [Errno::EMSGSIZE.wire()]);
    assert!(MEMORY.current_usage() < before + GROWTH);
}

#[test]
fn what_goes_to_other_copies_fits_their_messages() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut town = Town::with(2);
    let key = town.entity("client.tenant", &format!("allow rwx pool={POOL} namespace={NAMESPACE}"));
    let client = town.client("client.tenant", &key);
    let pairs = |bytes: usize| {
        let pairs = ops::Pairs::from([(Bytes::from_static(b"k"), Bytes::from(vec![7; bytes]))]);
        Op { input: pairs.to_bytes(), ..Op::new(code::OMAPSETVALS, OpArgs::None) }
    };
    let same = |bytes| {
        let args = OpArgs::WriteSame { offset: 0, length: bytes, data_length: 1 };
        Op { input: Bytes::from_static(b"x"), ..Op::new(code::WRITESAME, args) }
    };
    // As much as an input may have: keys, which are in the front of a letter, and data.
    assert_eq!(town.ask(&client, vec![on("keys", vec![pairs(80 << 20)])]), [0]);
    assert_eq!(town.ask(&client, vec![on("data", vec![same(90 << 20)])]), [0]);
    // More would be refused by the messenger of the other copy, again and again, and keep all other letters out.
    assert_eq!(town.ask(&client, vec![on("data", vec![same(127 << 20); 2])]), [Errno::EMSGSIZE.wire()]);
    // Letters of a round fit together, too.
    let many = ["a", "b", "c", "d"].map(|name| on(name, vec![same(60 << 20)]));
    assert_eq!(town.ask(&client, many.to_vec()), [0; 4]);
    assert_eq!(town.ask(&client, vec![write("last")]), [0]);
}

#[test]
fn snapshots_that_nobody_gave_out_are_refused_in_order() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut town = Town::new();
    let key = town.entity("client.tenant", &format!("allow rwx pool={POOL} namespace={NAMESPACE}"));
    let client = town.client("client.tenant", &key);
    let (other, exists) = (town.client("client.tenant", &key), || Op::new(code::STAT, OpArgs::None));
    assert_eq!(town.ask(&client, vec![write("o")]), [0]);
    let made_up = |from: u64| Request { snaps: (from..from + 1_000).rev().collect(), ..write("o") };
    let wrong = Errno::EINVAL.wire();
    for round in 0..3 {
        // What stands behind is done all the same, and other clients do not wait for it.
        let requests = vec![made_up(1 + 1_000 * round), on("o", vec![exists()]), made_up(7), write("p")];
        assert_eq!(town.ask(&client, requests), [wrong, 0, wrong, 0]);
        assert_eq!(town.ask(&other, vec![write("o")]), [0]);
    }
}

/// Sends operations of a map that never comes.
struct Hasty {
    messenger: Messenger,
    left: usize,
    session: Option<SessionId>,
    closed: Rc<RefCell<usize>>,
}

impl Node for Hasty {
    fn handle(&mut self, now: Now, input: Input, out: &mut Outputs) {
        self.messenger.handle(now, input, out);
    }

    fn turn(&mut self, now: Now, out: &mut Outputs) {
        if self.session.is_none() {
            let osd = EntityAddr::msgr2(([10, 0, 1, 0], 6800).into(), 1);
            self.session = Some(self.messenger.connect(now, osd, EntityType::Osd, Policy::Lossy, out));
        }
        while let Some(event) = self.messenger.poll_event() {
            match event {
                Wire::Opened { session, .. } => {
                    for tid in 0..std::mem::take(&mut self.left) {
                        let locator = Locator::pool(1);
                        let stat = Op::new(code::STAT, OpArgs::None);
                        let op = OsdOp {
                            epoch: 1_000_000,
                            oid: "o".into(),
                            locator,
                            pg: SpgId::default(),
                            ops: vec![stat],
                            ..OsdOp::default()
                        };
                        let mut message = op.encode();
                        message.tid = tid as u64 + 1;
                        self.messenger.send(session, message);
                    }
                }
                Wire::Closed { .. } => *self.closed.borrow_mut() += 1,
                Wire::Message { session, bytes, .. } => self.messenger.done(session, bytes),
                Wire::Reset { .. } => {}
            }
        }
        self.messenger.turn(now, out);
    }

    fn deadline(&self) -> Mono {
        self.messenger.deadline()
    }
}

#[test]
fn who_asks_by_maps_that_never_come_keeps_nobody_out() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut cluster = Cluster::new(1, Plan { osds: 1, clients: 0, ..Plan::default() });
    cluster.begin().expect("nothing goes wrong");
    let mut hasty = |nonce: u32, asks: usize| {
        let closed = Rc::new(RefCell::new(0));
        let inside = closed.clone();
        let name = EntityName::new(EntityType::Client, "x");
        let factory = move |boot: Boot| -> Box<dyn Node> {
            let messenger = Messenger::new(Config::client(name.clone(), nonce), Auth::none(name.clone()), boot.seed);
            Box::new(Hasty { messenger, left: asks, session: None, closed: inside.clone() })
        };
        let host = HostConfig { name: format!("hasty.{nonce}"), listen: vec![], disks: vec![], factory: Box::new(factory) };
        let host = cluster.world.add(host);
        cluster.world.start(host);
        cluster.world.run_for(Duration::from_secs(5));
        closed
    };
    let greedy = hasty(1, 4_000);
    let others: Vec<_> = (2..6).map(|nonce| hasty(nonce, 40)).collect();
    assert_eq!(*greedy.borrow(), 1, "it made room for the others");
    assert!(others.iter().all(|closed| *closed.borrow() == 0));
}

#[test]
fn rights_that_are_taken_back_end_on_open_sessions_within_seconds() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut town = Town::new();
    let rw = format!("allow rwx pool={POOL}");
    let keys: Vec<Key> = ["client.gone", "client.less", "client.stays"].iter().map(|name| town.entity(name, &rw)).collect();
    let clients: Vec<_> =
        ["client.gone", "client.less", "client.stays"].iter().zip(&keys).map(|(name, key)| town.client(name, key)).collect();
    for client in &clients {
        assert_eq!(town.ask(client, vec![write("o")]), [0]);
    }
    town.cluster.command_ok(r#"{"prefix":"auth rm","entity":"client.gone"}"#).expect("it is removed");
    let caps = format!(r#"{{"prefix":"auth caps","entity":"client.less","caps":["mon","allow r","osd","allow r pool={POOL}"]}}"#);
    town.cluster.command_ok(&caps).expect("it may do less");
    let changed = town.cluster.world.now();
    // They go on all the time.
    for _ in 0..100 {
        for client in &clients {
            client.1.borrow_mut().queue.push_back(write("o"));
            town.cluster.world.call(client.0, "");
        }
        town.cluster.world.run_for(Duration::from_millis(100));
    }
    let bound = changed + Duration::from_secs(3);
    let late = |n: usize, result: i32| {
        let ended = &clients[n].1.borrow().ended;
        ended.iter().filter(|(at, r, _)| Duration::from_nanos(*at) > bound && *r == result).count()
    };
    assert_eq!(late(0, 0), 0, "removed, and writes: {:?}", clients[0].1.borrow().ended);
    assert_eq!(late(1, 0), 0, "it may only read, and writes");
    assert!(late(1, Errno::EPERM.wire()) > 30, "it has a session with the new rights");
    assert!(late(2, 0) > 60, "others notice nothing");
    assert_eq!(town.ask(&clients[1], vec![on("o", vec![Op::new(code::STAT, OpArgs::None)])]).last(), Some(&0));
}
