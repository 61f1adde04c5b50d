//! A stand-in for the monitor that is trusted: its state outlives it, it knows two commands, and it believes everybody.
//! With it, what fails is the OSD's fault or the client's.
#![forbid(unsafe_code)]

use bytes::Bytes;
use denc::Encode;
use maps::{Incremental, OsdMap, Pool};
use messages::internal::{OsdBoot, OsdDown, OsdReport};
use messages::mon::{
    ConfigMsg, MonCommand, MonCommandAck, MonGetVersion, MonGetVersionReply, MonMapMsg, MonSubscribe, OsdMapMsg,
};
use msgr::auth::{Acceptor, Auth, GlobalIds, Method, MonAuth};
use msgr::{Event, Messenger};
use node::{Input, Mono, Node, Now, Output, Outputs};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use types::{EntityAddrVec, EntityName, EntityType, Fsid, Message, OsdId, PgId, PgState, Rope, SessionId, UTime};

/// `CEPH_OSD_UP`, as a change of state: xor.
const UP: u32 = 2;
/// An OSD whose session is gone for so long is marked down.
const GRACE: Duration = Duration::from_secs(2);

/// What survives the stand-in's deaths.
pub struct Kept {
    map: OsdMap,
    full: Bytes,
    incrementals: BTreeMap<u32, Bytes>,
    pgs: BTreeMap<PgId, PgState>,
    next_id: u64,
}

impl Kept {
    /// Of a new cluster.
    pub fn new(fsid: Fsid) -> Self {
        let empty = OsdMap { fsid, ..OsdMap::default() };
        let mut crush = crush::Map::new();
        let root = crush.type_id("root").expect("a new map knows its types");
        crush.add_bucket(root, "default", crush::Alg::Straw2).expect("the first bucket");
        let text = str::to_string;
        let (name, root, failure_domain) = (text("replicated_rule"), text("default"), text("osd"));
        let spec = crush::RuleSpec { name, root, failure_domain, class: text(""), indep: false, kind: 1, max_size: 0 };
        crush.add_simple_rule(&spec).expect("the first rule");
        let mut inc = Incremental::new(1, fsid, UTime::ZERO);
        inc.crush = crush.to_bytes();
        inc.new_level = Some(types::Levels::OWN.newest);
        let sealed = inc.seal(&empty).expect("it fits the empty map");
        let incrementals = BTreeMap::from([(1, sealed.incremental)]);
        Self { map: sealed.map, full: sealed.full, incrementals, pgs: BTreeMap::new(), next_id: 4000 }
    }

    fn change(&mut self, edit: impl FnOnce(&mut Incremental, &OsdMap)) {
        let mut inc = Incremental::new(self.map.epoch + 1, self.map.fsid, UTime::ZERO);
        edit(&mut inc, &self.map);
        let sealed = inc.seal(&self.map).expect("it fits the map");
        self.incrementals.insert(inc.epoch, sealed.incremental);
        (self.map, self.full) = (sealed.map, sealed.full);
    }

    fn boot(&mut self, boot: &OsdBoot) {
        let osd = boot.osd;
        self.change(|inc, map| {
            if osd >= map.max_osd {
                inc.new_max_osd = osd + 1;
            }
            if map.crush.item_weight(osd) == 0 {
                let mut crush = (*map.crush).clone();
                let place = crush::Location::parse(["root=default"]).expect("a place");
                crush.insert_item(osd, 0x1_0000, &format!("osd.{osd}"), &place).expect("a new item");
                inc.crush = crush.to_bytes();
            }
            inc.new_up_client.insert(osd, boot.addrs.clone());
            inc.new_weight.insert(osd, 0x1_0000);
            inc.new_uuid.insert(osd, Fsid(boot.uuid));
        });
    }

    fn down(&mut self, osd: OsdId) {
        if self.map.is_up(osd) {
            self.change(|inc, _| {
                inc.new_state.insert(osd, UP);
            });
        }
    }

    fn create_pool(&mut self, name: &str, pg_num: u32) {
        if self.map.pool_name.values().any(|n| n == name) {
            return;
        }
        self.change(|inc, map| {
            let id = i64::from(map.pool_max.max(0)) + 1;
            inc.new_pool_max = id;
            inc.new_pool_names.insert(id, name.into());
            let pool = Pool {
                type_: 1,
                size: 1,
                min_size: 1,
                pg_num,
                pgp_num: pg_num,
                pg_num_target: pg_num,
                pgp_num_target: pg_num,
                pg_num_pending: pg_num,
                object_hash: 2,
                flags: 1,
                ..Pool::default()
            };
            inc.new_pools.insert(id, pool);
        });
    }

    fn status(&self) -> Value {
        let up = (0..self.map.max_osd).filter(|osd| self.map.is_up(*osd)).count();
        let total: u32 = self.map.pools.values().map(|p| p.pg_num).sum();
        let mut states: BTreeMap<PgState, u64> = BTreeMap::new();
        for (pg, state) in &self.pgs {
            let there = self.map.pool(pg.pool).is_some() && self.map.placed(*pg).acting_primary >= 0;
            *states.entry(if there { *state } else { PgState::STALE }).or_default() += 1;
        }
        let states: Vec<Value> = states.iter().map(|(s, n)| json!({ "state_name": s.to_string(), "count": n })).collect();
        json!({
            "osdmap": { "epoch": self.map.epoch, "num_osds": self.map.max_osd, "num_up_osds": up },
            "pgmap": { "num_pgs": total, "pgs_by_state": states },
        })
    }
}

/// The stand-in.
pub struct StandMon {
    messenger: Messenger,
    kept: Rc<RefCell<Kept>>,
    /// Who follows the maps, from which epoch on.
    followers: BTreeMap<SessionId, u32>,
    osds: BTreeMap<SessionId, OsdId>,
    gone: BTreeMap<OsdId, Mono>,
}

impl StandMon {
    /// A new life of it.
    pub fn new(addrs: EntityAddrVec, kept: Rc<RefCell<Kept>>, now: Mono, seed: [u8; 32]) -> Self {
        let name = EntityName::new(EntityType::Mon, "a");
        let mut auth = Auth::none(name.clone());
        let mut mon = MonAuth::new(vec![Method::None]);
        let first = kept.borrow().next_id;
        kept.borrow_mut().next_id += 1000;
        mon.global_ids = GlobalIds { next: first, end: first + 1000 };
        auth.acceptor = Acceptor::Mon(mon);
        let messenger = Messenger::new(msgr::Config::server(name, addrs, 0), auth, seed);
        // Whoever does not come back within the grace is down.
        let ups: Vec<OsdId> = (0..kept.borrow().map.max_osd).filter(|osd| kept.borrow().map.is_up(*osd)).collect();
        let gone = ups.into_iter().map(|osd| (osd, now.plus(GRACE))).collect();
        Self { messenger, kept, followers: BTreeMap::new(), osds: BTreeMap::new(), gone }
    }

    fn message(&mut self, session: SessionId, message: &Message) -> denc::Result<()> {
        match message.kind {
            MonSubscribe::KIND => self.subscribe(session, &MonSubscribe::decode(message)?),
            MonCommand::KIND => {
                let command = MonCommand::decode(message)?;
                let (result, output) = self.command(&command.cmd);
                let ack = MonCommandAck { version: 1, result, status: String::new(), cmd: command.cmd, output };
                self.messenger.send(session, Message { tid: message.tid, ..ack.encode() });
            }
            MonGetVersion::KIND => {
                let handle = MonGetVersion::decode(message)?.handle;
                let version = u64::from(self.kept.borrow().map.epoch);
                self.messenger.send(session, MonGetVersionReply { handle, version, oldest: 1 }.encode());
            }
            OsdBoot::KIND => {
                let boot = OsdBoot::decode(message)?;
                self.osds.retain(|_, osd| *osd != boot.osd);
                self.osds.insert(session, boot.osd);
                self.gone.remove(&boot.osd);
                // A restarted OSD was down in between, whether anybody saw it or not.
                let mut kept = self.kept.borrow_mut();
                kept.down(boot.osd);
                kept.boot(&boot);
            }
            OsdReport::KIND => {
                let report = OsdReport::decode(message)?;
                self.osds.insert(session, report.osd);
                self.gone.remove(&report.osd);
                self.kept.borrow_mut().pgs.extend(report.pgs.into_iter().map(|pg| (pg.pg, pg.state)));
            }
            OsdDown::KIND => self.kept.borrow_mut().down(OsdDown::decode(message)?.osd),
            _ => {}
        }
        Ok(())
    }

    fn subscribe(&mut self, session: SessionId, wanted: &MonSubscribe) {
        if wanted.what.contains_key("config") {
            self.messenger.send(session, ConfigMsg::default().encode());
        }
        if wanted.what.contains_key("monmap") {
            let monmap = maps::MonMap { fsid: self.kept.borrow().map.fsid, epoch: 1, ..maps::MonMap::default() };
            self.messenger.send(session, MonMapMsg { monmap: monmap.to_bytes() }.encode());
        }
        if let Some(item) = wanted.what.get("osdmap") {
            self.followers.insert(session, item.start as u32);
        }
    }

    fn publish(&mut self) {
        let kept = self.kept.borrow();
        let newest = kept.map.epoch;
        for (session, start) in &mut self.followers {
            if *start > newest {
                continue;
            }
            let mut maps = OsdMapMsg { fsid: kept.map.fsid, oldest: 1, newest, ..OsdMapMsg::default() };
            if *start == 0 {
                maps.full.insert(newest, kept.full.clone());
            } else {
                maps.incremental = kept.incrementals.range(*start..).map(|(e, b)| (*e, b.clone())).collect();
            }
            *start = newest + 1;
            self.messenger.send(*session, maps.encode());
        }
    }

    fn command(&mut self, cmd: &[String]) -> (i32, Rope) {
        let command: Value = serde_json::from_str(&cmd.join("")).unwrap_or_default();
        match command["prefix"].as_str() {
            Some("status") => (0, Rope::from(self.kept.borrow().status().to_string().into_bytes())),
            Some("osd pool create") => {
                let (name, pg_num) = (command["pool"].as_str().unwrap_or("?"), command["pg_num"].as_u64().unwrap_or(8));
                self.kept.borrow_mut().create_pool(name, pg_num as u32);
                (0, Rope::new())
            }
            _ => (-22, Rope::new()),
        }
    }

    fn event(&mut self, now: Now, event: Event, out: &mut Outputs) {
        match event {
            Event::Message { session, message, bytes } => {
                if let Err(error) = self.message(session, &message) {
                    out.log(node::Level::Error, "standmon", format!("message of kind {}: {error}", message.kind));
                }
                self.messenger.done(session, bytes);
            }
            Event::Closed { session, .. } => {
                self.followers.remove(&session);
                if let Some(osd) = self.osds.remove(&session) {
                    self.gone.insert(osd, now.mono.plus(GRACE));
                }
            }
            Event::Opened { .. } | Event::Reset { .. } => {}
        }
    }
}

impl Node for StandMon {
    fn handle(&mut self, now: Now, input: Input, out: &mut Outputs) {
        match input {
            Input::Stop => out.push(Output::Stopped),
            input => self.messenger.handle(now, input, out),
        }
    }

    fn turn(&mut self, now: Now, out: &mut Outputs) {
        while let Some(event) = self.messenger.poll_event() {
            self.event(now, event, out);
        }
        let due: Vec<OsdId> = self.gone.iter().filter(|(_, at)| **at <= now.mono).map(|(osd, _)| *osd).collect();
        for osd in due {
            self.gone.remove(&osd);
            self.kept.borrow_mut().down(osd);
        }
        self.publish();
        self.messenger.turn(now, out);
    }

    fn deadline(&self) -> Mono {
        self.gone.values().copied().min().unwrap_or(Mono::NEVER).min(self.messenger.deadline())
    }
}
