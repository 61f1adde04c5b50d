//! A small OSD around placement groups, for tests: it owns a store in memory and a map, and carries effects out.

#![allow(dead_code)]

pub(crate) mod code;
pub(crate) mod several;

use bytes::Bytes;
use maps::{OsdMap, Pool, pool_type};
use messages::osd::{Op, OsdOp, OsdOpReply};
use node::{Mono, Now};
use objectstore::ObjectStore;
use objectstore::memory::MemStore;
use pg::{ClientOp, Config, Ctx, Effect, Peer, Pg};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use types::{EntityName, EntityType, Locator, Message, PgId, SessionId, SnapId, SpgId, UTime};

/// Session and peer of the bench itself, as it reads for copies.
const SELF: SessionId = SessionId(u64::MAX);
pub(crate) const POOL: i64 = 1;

pub(crate) struct Bench {
    pub(crate) store: MemStore,
    pub(crate) map: Arc<OsdMap>,
    pub(crate) pgs: BTreeMap<SpgId, Pg>,
    pub(crate) config: Config,
    pub(crate) now: Now,
    pub(crate) whoami: i32,
    slots: BTreeMap<SpgId, u32>,
    last_slot: u32,
    /// What clients were sent, in order.
    pub(crate) sent: Vec<(SessionId, Message)>,
    pub(crate) logged: Vec<String>,
    /// Copies under way: the tid of the internal read, the group and id that wait for it.
    copies: BTreeMap<u64, (SpgId, u64)>,
    /// Reads for copies that are sent before others are held back.
    pub(crate) free_copies: usize,
    /// Reads for copies that are held back: the group, its id, and the read.
    pub(crate) held_copies: Vec<(SpgId, u64, Box<OsdOp>)>,
    tid: u64,
    /// Removed groups.
    pub(crate) removed: Vec<SpgId>,
    /// Operations that get no answer.
    pub(crate) dropped: Vec<(SessionId, u64)>,
    /// Writes that found the store full.
    pub(crate) overran: usize,
    /// For a bench that is one OSD of several: letters for others, and what the monitors are asked for.
    pub(crate) letters: VecDeque<(i32, pg::Sealed)>,
    pub(crate) wants_up_thru: bool,
    pub(crate) wants_acting: Option<Vec<i32>>,
}

/// A map with one pool and no OSDs: everything is led by nobody, number -1, which is who the bench is.
pub(crate) fn map(pg_num: u32) -> OsdMap {
    let mut map = OsdMap { epoch: 5, level: types::Levels::OWN.newest, ..OsdMap::default() };
    let pool = Pool { type_: pool_type::REPLICATED, size: 1, pg_num, pgp_num: pg_num, object_hash: 2, ..Pool::default() };
    map.pools.insert(POOL, pool);
    map.pool_name.insert(POOL, "pool".into());
    map
}

pub(crate) fn peer(id: u64) -> Arc<Peer> {
    let kind = if id == 0 { EntityType::Osd } else { EntityType::Client };
    let addr = types::EntityAddr { kind: types::AddrType::Any, nonce: id as u32, addr: "127.0.0.1:0".parse().ok() };
    Arc::new(Peer { name: EntityName::new(kind, "x"), kind, global_id: id, addr })
}

impl Bench {
    pub(crate) fn new(pg_num: u32) -> Self {
        let mut bench = Self::empty(map(pg_num));
        bench.create_all();
        bench
    }

    pub(crate) fn empty(map: OsdMap) -> Self {
        Self {
            store: MemStore::new(),
            map: Arc::new(map),
            pgs: BTreeMap::new(),
            config: Config::default(),
            now: Now { mono: Mono(1_000_000_000), wall: UTime { sec: 1000, nsec: 0 } },
            whoami: -1,
            slots: BTreeMap::new(),
            last_slot: 0,
            sent: Vec::new(),
            logged: Vec::new(),
            copies: BTreeMap::new(),
            free_copies: usize::MAX,
            held_copies: Vec::new(),
            tid: 1 << 40,
            removed: Vec::new(),
            dropped: Vec::new(),
            overran: 0,
            letters: VecDeque::new(),
            wants_up_thru: false,
            wants_acting: None,
        }
    }

    pub(crate) fn create_all(&mut self) {
        let pools: Vec<(i64, u32)> = self.map.pools.iter().map(|(id, pool)| (*id, pool.pg_num)).collect();
        for (pool, pg_num) in pools {
            for seed in 0..pg_num {
                let id = SpgId::whole(PgId::new(pool, seed));
                if !self.pgs.contains_key(&id) {
                    self.begin(id, Pg::create);
                }
            }
        }
        self.settle();
    }

    /// Loads one group.
    pub(crate) fn load(&mut self, id: SpgId) {
        self.begin(id, Pg::load);
    }

    /// Every other OSD has just promised to take part in no other interval.
    fn leases(&self) -> pg::Leases {
        let mut leases = pg::Leases::default();
        leases.begin(Mono(0), pg::Leases::LEAST);
        self.map.osds().for_each(|osd| leases.promised(osd, self.now.mono, pg::Leases::LEAST, 0, 0));
        leases
    }

    pub(crate) fn begin(&mut self, id: SpgId, how: fn(SpgId, &mut Ctx<'_>) -> Pg) {
        self.last_slot += 1;
        let slot = self.last_slot;
        self.slots.insert(id, slot);
        let mut out = Vec::new();
        let leases = self.leases();
        let mut ctx = Ctx {
            now: self.now,
            map: &self.map,
            store: &mut self.store,
            out: &mut out,
            slot,
            whoami: self.whoami,
            is_up: true,
            config: &self.config,
            leases: &leases,
            room: &mut usize::MAX.clone(),
            steps_aside: false,
            recorder: &mut pg::Nobody,
        };
        let pg = how(id, &mut ctx);
        self.pgs.insert(id, pg);
        self.carry_out(id, out);
    }

    /// Calls into one group and carries its effects out.
    pub(crate) fn with<T>(&mut self, id: SpgId, f: impl FnOnce(&mut Pg, &mut Ctx<'_>) -> T) -> T {
        let mut out = Vec::new();
        let leases = self.leases();
        let mut ctx = Ctx {
            now: self.now,
            map: &self.map,
            store: &mut self.store,
            out: &mut out,
            slot: self.slots[&id],
            whoami: self.whoami,
            is_up: true,
            config: &self.config,
            leases: &leases,
            room: &mut usize::MAX.clone(),
            steps_aside: false,
            recorder: &mut pg::Nobody,
        };
        let result = f(self.pgs.get_mut(&id).expect("a group of the bench"), &mut ctx);
        self.carry_out(id, out);
        result
    }

    fn carry_out(&mut self, id: SpgId, effects: Vec<Effect>) {
        let mut effects: VecDeque<Effect> = effects.into();
        while let Some(effect) = effects.pop_front() {
            match effect {
                Effect::Reply { session: SELF, message, .. } => {
                    let (id, fetch) = self.copies.remove(&message.tid).expect("a read of the bench");
                    let reply = OsdOpReply::decode(&message).expect("a reply");
                    self.with(id, |pg, ctx| pg.fetched(ctx, fetch, Ok(reply)));
                }
                Effect::Reply { session, message, .. } | Effect::Send { session, message } => self.sent.push((session, message)),
                Effect::ClusterLog { text, .. } => self.logged.push(text),
                Effect::Log(line) => self.logged.push(line.text),
                Effect::Fetch { id: fetch, op } if self.free_copies == 0 => self.held_copies.push((id, fetch, op)),
                Effect::Fetch { id: fetch, op } => {
                    self.free_copies -= 1;
                    self.tid += 1;
                    self.copies.insert(self.tid, (id, fetch));
                    let tid = self.tid;
                    self.deliver(SELF, peer(0), tid, *op);
                }
                Effect::Split { children } => {
                    for child in children {
                        self.begin(child, Pg::load);
                    }
                }
                Effect::Removed => {
                    self.pgs.remove(&id);
                    self.removed.push(id);
                }
                Effect::Dropped { session, tid, .. } => self.dropped.push((session, tid)),
                Effect::NoSpace { .. } => self.overran += 1,
                // Only whole OSDs bring two groups together.
                Effect::Unite | Effect::United { .. } | Effect::Ready => {}
                Effect::StoreStopped => panic!("the store stopped"),
                Effect::Tell { to, letter } if self.whoami >= 0 => self.letters.push_back((to.osd, letter)),
                Effect::WantUpThru(_) if self.whoami >= 0 => self.wants_up_thru = true,
                Effect::WantActing(acting) if self.whoami >= 0 => self.wants_acting = Some(acting),
                Effect::WantLease if self.whoami >= 0 => {}
                Effect::Tell { .. } | Effect::WantUpThru(_) | Effect::WantLease | Effect::WantActing(_) => {
                    panic!("the bench is alone")
                }
            }
        }
    }

    /// Sends the reads that were held back for copies from other objects, and holds none back any more.
    pub(crate) fn free_copies(&mut self) {
        self.free_copies = usize::MAX;
        for (id, fetch, op) in std::mem::take(&mut self.held_copies) {
            self.carry_out(id, vec![Effect::Fetch { id: fetch, op }]);
        }
        self.settle();
    }

    /// Hands an operation to its group.
    pub(crate) fn deliver(&mut self, session: SessionId, peer: Arc<Peer>, tid: u64, mut op: OsdOp) {
        if op.pg == SpgId::default() {
            let pg = self.map.object_pg(&op.locator, &op.oid).expect("the pool exists");
            op.pg = SpgId::whole(pg);
        }
        let id = op.pg;
        if !self.pgs.contains_key(&id) {
            return;
        }
        let op = ClientOp { key: pg::OpKey::NONE, session, peer, tid, received: self.now.mono, op };
        self.with(id, |pg, ctx| pg.handle_op(ctx, op));
    }

    /// Passes the store's events on until there are none. Commits must be made by the test if it holds them back.
    pub(crate) fn settle(&mut self) {
        while self.settle_one() {}
    }

    /// Passes one event on; false if there is none.
    pub(crate) fn settle_one(&mut self) -> bool {
        if let Some(event) = self.store.poll_event() {
            let number = match event {
                objectstore::Event::Fetched(hold) => hold.0,
                objectstore::Event::Committed(ticket) | objectstore::Event::Damaged(ticket, _) => ticket.0,
                objectstore::Event::Rotten(_) => return true,
            };
            let id = self.slots.iter().find(|(_, slot)| u64::from(**slot) == number >> 40).map(|(id, _)| *id);
            // Groups that are gone may still have events under way.
            if let Some(id) = id.filter(|id| self.pgs.contains_key(id)) {
                self.with(id, |pg, ctx| pg.store_event(ctx, event));
            }
            return true;
        }
        false
    }

    /// Lets time pass, with turns at every deadline on the way.
    pub(crate) fn pass(&mut self, time: Duration) {
        let end = self.now.mono.plus(time);
        loop {
            self.settle();
            let due = self.pgs.values().map(Pg::deadline).min().unwrap_or(Mono::NEVER);
            let next = due.max(self.now.mono).min(end);
            self.now.wall = self.now.wall.plus(next.since(self.now.mono));
            self.now.mono = next;
            for id in self.pgs.keys().copied().collect::<Vec<_>>() {
                if self.pgs.contains_key(&id) {
                    self.with(id, |pg, ctx| pg.turn(ctx));
                }
            }
            self.settle();
            let quiet = self.pgs.values().map(Pg::deadline).min().is_none_or(|d| d > self.now.mono);
            if next == end && quiet {
                return;
            }
        }
    }

    /// Takes a new map.
    pub(crate) fn take_map(&mut self, change: impl FnOnce(&mut OsdMap)) {
        let mut map = (*self.map).clone();
        map.epoch += 1;
        change(&mut map);
        map.forget_placements();
        self.map = Arc::new(map);
        self.announce_map();
    }

    pub(crate) fn announce_map(&mut self) {
        for id in self.pgs.keys().copied().collect::<Vec<_>>() {
            self.with(id, |pg, ctx| pg.new_map(ctx));
        }
        self.settle();
    }

    /// The daemon dies: what is durable is loaded again.
    pub(crate) fn restart(&mut self) {
        let store = std::mem::take(&mut self.store);
        self.store = store.crash();
        let miss = self.store.miss;
        // An OSD loads whatever has keys.
        self.store.miss = false;
        let ids = objectstore::View::scopes(&self.store, objectstore::Hold(0)).expect("nothing misses");
        self.store.miss = miss;
        self.pgs.clear();
        self.slots.clear();
        self.copies.clear();
        for id in ids {
            self.begin(id, Pg::load);
        }
        self.settle();
    }

    /// A request of client `client` on session `client`, carried out to its end; the last reply with its tid.
    pub(crate) fn request(&mut self, client: u64, tid: u64, op: OsdOp) -> OsdOpReply {
        let from = self.sent.len();
        self.deliver(SessionId(client), peer(client), tid, op);
        self.settle();
        let reply =
            self.sent[from..].iter().rev().find(|(s, m)| *s == SessionId(client) && m.tid == tid && m.kind == OsdOpReply::KIND);
        OsdOpReply::decode(&reply.expect("a reply").1).expect("a reply that decodes")
    }

    /// A request of client 10 with a fresh tid.
    pub(crate) fn ask(&mut self, op: OsdOp) -> OsdOpReply {
        self.tid += 1;
        self.request(10, self.tid, op)
    }

    /// Operations on an object, by client 10; the reply.
    pub(crate) fn run(&mut self, name: &str, ops: Vec<Op>) -> OsdOpReply {
        self.ask(request(name, ops))
    }

    /// Output of the last of some operations that must succeed.
    pub(crate) fn output(&mut self, name: &str, ops: Vec<Op>) -> Bytes {
        let reply = self.run(name, ops);
        assert!(reply.result >= 0, "{name}: {}", reply.result);
        reply.ops.last().map(|op| op.output.contiguous()).unwrap_or_default()
    }
}

/// A request on an object of the pool.
pub(crate) fn request(name: &str, ops: Vec<Op>) -> OsdOp {
    OsdOp {
        oid: Bytes::copy_from_slice(name.as_bytes()),
        locator: Locator::pool(POOL),
        ops,
        mtime: UTime { sec: 7, nsec: 0 },
        snapid: SnapId::HEAD,
        ..OsdOp::default()
    }
}
