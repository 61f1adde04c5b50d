//! Messenger, client core, workload and judgement over a faulty network, against a stand-in of a server that keeps
//! objects in a map: what fails here is not the fault of an OSD. Two of the stand-in's sins prove the judgement.

use bytes::Bytes;
use denc::{Encode, Reader};
use maps::{Incremental, OsdMap, Pool};
use messages::code::{self, op_flags};
use messages::mon::{ConfigMsg, MonSubscribe, OsdMapMsg};
use messages::osd::{Op, OpArgs, OpResult, OsdOp, OsdOpReply};
use msgr::auth::{Acceptor, Auth, ClientAuth, GlobalIds, Method, MonAuth};
use msgr::{Event, Messenger};
use node::{Input, Mono, Node, Now, Outputs};
use objecter::ClientNode;
use sim::history::History;
use sim::model::Object;
use sim::rng::Rng;
use sim::workload::{Habits, Shared, Workload};
use sim::world::{Crash, HostConfig, HostId, World};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use types::{EntityAddr, EntityAddrVec, EntityName, EntityType, Fsid, Rope, UTime};

const FSID: Fsid = Fsid([9; 16]);

fn at(host: u8) -> EntityAddrVec {
    EntityAddrVec(vec![EntityAddr::msgr2(socket(host), 0)])
}

fn socket(host: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, host], 6800))
}

/// One OSD, one pool of four groups.
fn map() -> Bytes {
    let empty = OsdMap { fsid: FSID, ..Default::default() };
    let mut crush = crush::Map::new();
    let root = crush.type_id("root").expect("a new map knows its types");
    crush.add_bucket(root, "default", crush::Alg::Straw2).expect("the first bucket");
    let place = crush::Location::parse(["root=default"]).expect("a place");
    crush.insert_item(0, 0x1_0000, "osd.0", &place).expect("an item");
    let text = str::to_string;
    let (name, root, failure_domain) = (text("replicated_rule"), text("default"), text("osd"));
    let spec = crush::RuleSpec { name, root, failure_domain, class: text(""), indep: false, kind: 1, max_size: 0 };
    crush.add_simple_rule(&spec).expect("a rule");
    let mut inc = Incremental::new(1, FSID, UTime::ZERO);
    inc.crush = crush.to_bytes();
    inc.new_max_osd = 1;
    inc.new_state = BTreeMap::new();
    inc.new_up_client = BTreeMap::from([(0, at(2))]);
    inc.new_weight = BTreeMap::from([(0, 0x1_0000)]);
    inc.new_pool_max = 1;
    inc.new_pool_names = BTreeMap::from([(1, "data".into())]);
    inc.new_pools = BTreeMap::from([(1, Pool { type_: 1, size: 1, min_size: 1, pg_num: 4, pgp_num: 4, ..Pool::default() })]);
    inc.seal(&empty).expect("it fits the empty map").full
}

/// What the stand-in does wrong.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sin {
    None,
    /// A request that was executed before is executed again.
    Forgets,
    /// Some writes are acknowledged and dropped.
    Drops,
}

/// What survives the stand-in's deaths.
#[derive(Default)]
struct Kept {
    objects: BTreeMap<Bytes, Option<Object>>,
    replies: BTreeMap<(u64, u64), OsdOpReply>,
    repeats: u64,
    writes: u64,
}

struct StandIn {
    messenger: Messenger,
    map: Bytes,
    kept: Rc<RefCell<Kept>>,
    sin: Sin,
}

impl StandIn {
    fn new(kind: EntityType, host: u8, seed: [u8; 32], kept: Rc<RefCell<Kept>>, sin: Sin, ids: u64) -> Self {
        let name = EntityName::new(kind, if kind == EntityType::Mon { "a" } else { "0" });
        let mut auth = Auth::none(name.clone());
        if kind == EntityType::Mon {
            let mut mon = MonAuth::new(vec![Method::None]);
            mon.global_ids = GlobalIds { next: ids * 1000, end: ids * 1000 + 1000 };
            auth.acceptor = Acceptor::Mon(mon);
        }
        let messenger = Messenger::new(msgr::Config::server(name, at(host), 0), auth, seed);
        Self { messenger, map: map(), kept, sin }
    }

    fn answer(&mut self, session: types::SessionId, message: &types::Message) {
        match message.kind {
            MonSubscribe::KIND => {
                let full = BTreeMap::from([(1, self.map.clone())]);
                let maps = OsdMapMsg { fsid: FSID, full, oldest: 1, newest: 1, ..OsdMapMsg::default() };
                self.messenger.send(session, ConfigMsg::default().encode());
                self.messenger.send(session, maps.encode());
            }
            OsdOp::KIND => {
                let op = OsdOp::decode(message).expect("clients send whole operations");
                let Some(peer) = self.messenger.peer(session).cloned() else { return };
                let reply = self.execute(peer.global_id, message.tid, &op);
                let reply = types::Message { tid: message.tid, ..reply.encode() };
                self.messenger.send(session, reply);
            }
            _ => {}
        }
    }

    fn execute(&mut self, client: u64, tid: u64, op: &OsdOp) -> OsdOpReply {
        let mut kept = self.kept.borrow_mut();
        let mut reply = OsdOpReply { oid: op.oid.clone(), pg: op.pg.pg, epoch: 1, retry: op.retry, ..Default::default() };
        if op.may_write()
            && let Some(known) = kept.replies.get(&(client, tid)).cloned()
        {
            kept.repeats += 1;
            if self.sin != Sin::Forgets {
                return OsdOpReply { retry: op.retry, ..known };
            }
        }
        let mut object = kept.objects.get(&op.oid).cloned().flatten();
        for op in &op.ops {
            let mut slot = OpResult::of(op);
            reply.result = one(&mut object, op, &mut slot.output);
            reply.ops.push(slot);
            if reply.result < 0 {
                break;
            }
        }
        if op.may_write() {
            kept.writes += 1;
            let dropped = self.sin == Sin::Drops && kept.writes.is_multiple_of(20);
            if reply.result == 0 && !dropped {
                kept.objects.insert(op.oid.clone(), object);
            }
            reply.user_version = kept.writes;
            kept.replies.insert((client, tid), reply.clone());
        }
        reply
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("names here are text")
}

/// Executes one operation; gives its result.
fn one(object: &mut Option<Object>, op: &Op, output: &mut Rope) -> i32 {
    let (offset, length) = match op.args {
        OpArgs::Extent { offset, length, .. } => (offset as usize, length as usize),
        _ => (0, 0),
    };
    let is_read = code::reads(op.code) && !code::writes(op.code);
    match (op.code, object.is_some()) {
        (code::ZERO | code::TRUNCATE, false) => return 0,
        (code::DELETE | code::OMAPRMKEYS, false) => return -2,
        (code::CREATE, true) if op.flags & op_flags::EXCL != 0 => return -17,
        (_, false) if is_read => return -2,
        _ => {}
    }
    if op.code == code::DELETE {
        *object = None;
        return 0;
    }
    let o = object.get_or_insert_default();
    let input = op.input[..].to_vec();
    match op.code {
        code::READ => output.push(o.data.clone()),
        code::STAT => output.push([(o.data.len() as u64).to_vec(), UTime::ZERO.to_vec()].concat()),
        code::WRITEFULL => o.data = input,
        code::APPEND => o.data.extend(input),
        code::WRITE => {
            o.data.resize(o.data.len().max(offset + length), 0);
            o.data[offset..offset + length].copy_from_slice(&input);
        }
        code::TRUNCATE => o.data.resize(offset, 0),
        code::ZERO => match o.data.len() {
            size if offset >= size => {}
            size if offset + length >= size => o.data.truncate(offset),
            _ => o.data[offset..offset + length].fill(0),
        },
        code::CREATE => {}
        _ => return attributes(o, op, output),
    }
    0
}

fn attributes(o: &mut Object, op: &Op, output: &mut Rope) -> i32 {
    let mut r = Reader::new(&op.input);
    match op.code {
        code::SETXATTR => {
            let (name, value) = op.name_value().expect("an attribute");
            o.xattrs.insert(text(&name), value[..].to_vec());
        }
        code::GETXATTR | code::CMPXATTR => {
            let (name, value) = op.name_value().expect("an attribute");
            let stored = o.xattrs.get(&text(&name));
            match (op.code, stored) {
                (code::GETXATTR, None) => return -61,
                (code::GETXATTR, Some(stored)) => output.push(stored.clone()),
                _ if stored.map_or(&[][..], |v| v) != &value[..] => return -125,
                _ => {}
            }
        }
        code::OMAPSETVALS => {
            let map: BTreeMap<String, Bytes> = r.get().expect("a map");
            o.omap.extend(map.into_iter().map(|(k, v)| (k, v[..].to_vec())));
        }
        code::OMAPRMKEYS => r.get::<Vec<String>>().expect("keys").iter().for_each(|k| drop(o.omap.remove(k))),
        code::OMAPGETVALS => {
            let map: BTreeMap<String, Bytes> = o.omap.iter().map(|(k, v)| (k.clone(), v.clone().into())).collect();
            output.push([map.to_vec(), vec![0]].concat());
        }
        other => panic!("the workload does not send {other:#x}"),
    }
    0
}

impl Node for StandIn {
    fn handle(&mut self, now: Now, input: Input, out: &mut Outputs) {
        self.messenger.handle(now, input, out);
    }
    fn turn(&mut self, now: Now, out: &mut Outputs) {
        while let Some(event) = self.messenger.poll_event() {
            if let Event::Message { session, message, bytes } = event {
                self.answer(session, &message);
                self.messenger.done(session, bytes);
            }
        }
        self.messenger.turn(now, out);
    }
    fn deadline(&self) -> Mono {
        self.messenger.deadline()
    }
}

struct Town {
    world: World,
    mon: HostId,
    osd: HostId,
    client: HostId,
    shared: Rc<RefCell<Shared>>,
    history: Rc<RefCell<History>>,
    kept: Rc<RefCell<Kept>>,
    rng: Rng,
}

fn host(name: &str, listen: Vec<SocketAddr>, factory: sim::world::Factory) -> HostConfig {
    HostConfig { name: name.into(), listen, disks: vec![], factory }
}

fn town(seed: u64, sin: Sin) -> Town {
    let mut world = World::new(seed);
    let rng = world.fork_rng();
    let kept = Rc::new(RefCell::new(Kept::default()));
    let k = kept.clone();
    let mon = world.add(host(
        "mon.a",
        vec![socket(1)],
        Box::new(move |boot| Box::new(StandIn::new(EntityType::Mon, 1, boot.seed, k.clone(), sin, boot.life + 1))),
    ));
    let k = kept.clone();
    let osd = world.add(host(
        "osd.0",
        vec![socket(2)],
        Box::new(move |boot| Box::new(StandIn::new(EntityType::Osd, 2, boot.seed, k.clone(), sin, 0))),
    ));
    let history = Rc::new(RefCell::new(History::default()));
    let habits = Habits { budget: 400, depth: 6, pause: Duration::from_millis(60), ..Habits::default() };
    let shared = Shared::new(history.clone(), habits.budget);
    let (inside, clock) = (shared.clone(), world.shared_clock());
    let client = world.add(host(
        "client",
        vec![],
        Box::new(move |boot| {
            let name = EntityName::new(EntityType::Client, "admin");
            let config = objecter::Config { monitors: vec![at(1)], ..objecter::Config::default() };
            let driver = Workload::new(habits.clone(), inside.clone(), boot.seed, clock.clone());
            let auth = Auth::client(ClientAuth::none(name.clone()));
            let nonce = u32::from_le_bytes([boot.seed[0], boot.seed[1], boot.seed[2], boot.seed[3]]);
            Box::new(ClientNode::new(msgr::Config::client(name, nonce), auth, config, boot.seed, driver))
        }),
    ));
    [mon, osd, client].into_iter().for_each(|h| world.start(h));
    Town { world, mon, osd, client, shared, history, kept, rng }
}

impl Town {
    fn disturb(&mut self) {
        match self.rng.below(7) {
            0 => drop(self.world.break_any_link()),
            1 | 2 => {
                let bytes = self.rng.magnitude(1, 100_000);
                self.world.net.break_after(bytes);
            }
            3 => {
                self.world.net.partition(self.client, self.osd);
                let wait = self.rng.magnitude(1_000_000, 3_000_000_000);
                self.world.run_for(Duration::from_nanos(wait));
                self.world.heal();
            }
            4 => self.restart(self.osd),
            5 => self.restart(self.mon),
            _ => self.restart(self.client),
        }
    }

    fn restart(&mut self, host: HostId) {
        let how = if self.rng.one_in(2) { Crash::Power } else { Crash::Process };
        self.world.crash(host, how);
        let wait = self.rng.magnitude(1_000_000, 2_000_000_000);
        self.world.run_for(Duration::from_nanos(wait));
        self.world.start(host);
    }

    fn live(&mut self, disturbed: bool) -> Result<(), String> {
        while disturbed && self.shared.borrow().left > 0 {
            let pause = self.rng.below(400_000_000);
            self.world.run_for(Duration::from_nanos(pause));
            self.disturb();
        }
        let shared = self.shared.clone();
        if !self.world.run_while(Duration::from_secs(120), |_| !shared.borrow().is_done()) {
            return Err(format!("operations hang: {} open", shared.borrow().open));
        }
        self.history.borrow().check().map(drop)
    }
}

#[test]
fn a_calm_network_answers_everything() {
    let mut town = town(1, Sin::None);
    town.live(false).expect("nothing went wrong");
    assert_eq!(town.history.borrow().answered(), 400);
    assert!(town.world.now() < Duration::from_secs(60), "it took {:?}", town.world.now());
}

#[test]
fn faults_of_network_and_processes_change_nothing_that_clients_see() {
    let mut repeats = 0;
    for seed in 0..60 {
        let mut town = town(seed, Sin::None);
        if let Err(what) = town.live(true) {
            panic!("seed {seed}: {what}\n{}", town.world.trace.tail().cloned().collect::<Vec<_>>().join("\n"));
        }
        repeats += town.kept.borrow().repeats;
    }
    assert!(repeats > 50, "requests were repeated {repeats} times");
}

#[test]
fn a_run_replays_identically() {
    let run = |seed| {
        let mut town = town(seed, Sin::None);
        town.live(true).expect("a good run");
        (town.world.trace.hash(), town.world.trace.events())
    };
    assert_eq!(run(3), run(3));
}

#[test]
fn a_server_that_forgets_or_drops_is_found() {
    for sin in [Sin::Forgets, Sin::Drops] {
        let found = (0..8).any(|seed| town(seed, sin).live(true).is_err());
        assert!(found);
    }
}
