//! Several benches as the OSDs of one group: letters go between them, and a map that a test changes says who is up and who serves.

use super::{Bench, POOL, map, request};
use bytes::Bytes;
use maps::{OsdInfo, OsdMap, flags, state};
use messages::osd::{Op, OsdOpReply};
use node::Now;
use pg::{OfNone, Pg, SlotSide, SlotWish};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use types::{PgId, SessionId, ShardId, SpgId, is_osd};

/// The one group.
pub(crate) const GROUP: PgId = PgId { pool: POOL, seed: 0 };

/// A copy of the group for each OSD, from 0 on.
pub(crate) struct Several {
    pub(crate) osds: BTreeMap<i32, Bench>,
    pub(crate) map: OsdMap,
    /// OSDs that give slots for recovery to whoever wishes one.
    pub(crate) generous: BTreeSet<i32>,
    /// Ways on which messages are kept: from, to.
    pub(crate) held: BTreeSet<(i32, i32)>,
    /// Messages that are kept, in order.
    pub(crate) kept: VecDeque<(i32, i32, pg::Sealed)>,
    /// All maps, if an OSD that starts takes each of them in turn, as from monitors that still have them; else it takes the newest alone.
    pub(crate) maps: Option<Vec<Arc<OsdMap>>>,
    /// What happened since this was looked at, a line each.
    pub(crate) trace: Vec<String>,
    /// OSDs that hear of each map though they are down, as one does that starts and reads what it missed.
    pub(crate) hears: BTreeSet<i32>,
    /// True if what the first one says to the second is lost just now.
    pub(crate) loses: Option<fn(&Several, i32, i32) -> bool>,
    tid: u64,
    /// The OSD at position i has shard i of the group, which has shards.
    shards: bool,
}

impl Several {
    fn without_group(n: i32) -> Self {
        let mut map = map(1);
        map.set_max_osd(n);
        map.osd_state.iter_mut().for_each(|osd| *osd = state::EXISTS | state::UP);
        map.osd_info = vec![OsdInfo::default(); n as usize];
        let pool = map.pools.get_mut(&POOL).expect("the pool");
        (pool.size, pool.min_size) = (n as u8, 1);
        map.pg_temp.insert(GROUP, (0..n).collect());
        let osds = (0..n).map(|osd| (osd, Bench { whoami: osd, ..Bench::empty(map.clone()) })).collect();
        let generous = (0..n).collect();
        let (held, kept, trace) = (BTreeSet::new(), VecDeque::new(), Vec::new());
        let hears = BTreeSet::new();
        Self { osds, map, generous, held, kept, maps: None, trace, hears, loses: None, tid: 100, shards: false }
    }

    /// The name of the group's copy on an OSD.
    pub(crate) fn group_at(&self, osd: i32) -> SpgId {
        let shard = if self.shards { ShardId(i8::try_from(osd).expect("few OSDs")) } else { ShardId::NONE };
        SpgId { pg: GROUP, shard }
    }

    /// All OSDs are up, and the group is on all of them.
    pub(crate) fn new(n: i32) -> Self {
        let mut several = Self::without_group(n);
        several.osd(0).begin(SpgId::whole(GROUP), Pg::create);
        several.pass(1);
        assert!(several.leads().is_some_and(|osd| several.pg(osd).is_active()), "the group serves");
        several
    }

    /// As many OSDs as a code has shards, and the group, of a pool that takes overwrites, on all of them: OSD i has shard i.
    pub(crate) fn of_shards(k: u8, m: u8, more: &str) -> Self {
        let n = i32::from(k + m);
        let mut several = Self::without_group(n);
        several.shards = true;
        let words = format!("plugin=jerasure technique=reed_sol_van k={k} m={m} {more}");
        let words = words.split_ascii_whitespace().filter_map(|word| word.split_once('='));
        let profile = words.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        let layout = maps::Layout { data: k, most_chunk: 64 << 10, profile };
        several.map.layouts.insert(POOL, maps::Layouts::one(layout));
        let pool = several.map.pools.get_mut(&POOL).expect("the pool");
        (pool.type_, pool.size, pool.min_size) = (maps::pool_type::ERASURE, k + m, k);
        pool.flags |= maps::pool_flags::EC_OVERWRITES;
        pool.stripe_width = u32::from(k) * 4096;
        // Where they belong: as long as one is down, its place is a hole.
        several.map.osd_weight = vec![0x1_0000; n as usize];
        several.map.pg_upmap.insert(GROUP, (0..n).collect());
        several.map.forget_placements();
        let map = Arc::new(several.map.clone());
        several.osds.values_mut().for_each(|bench| bench.map = map.clone());
        let id = several.group_at(0);
        several.osd(0).begin(id, Pg::create);
        several.pass(1);
        several
    }

    pub(crate) fn osd(&mut self, osd: i32) -> &mut Bench {
        self.osds.get_mut(&osd).expect("an OSD")
    }

    pub(crate) fn pg(&mut self, osd: i32) -> &mut Pg {
        let id = self.group_at(osd);
        self.osd(osd).pgs.get_mut(&id).expect("a copy")
    }

    /// Returns who leads the group by the map.
    pub(crate) fn leads(&self) -> Option<i32> {
        Some(self.map.compute_up_acting(GROUP).acting_primary).filter(|osd| is_osd(*osd))
    }

    fn is_up(&self, osd: i32) -> bool {
        self.map.is_up(osd)
    }

    /// Another map, which everybody who is up hears of.
    pub(crate) fn change(&mut self, change: impl FnOnce(&mut OsdMap)) {
        self.map.epoch += 1;
        change(&mut self.map);
        self.map.forget_placements();
        let map = Arc::new(self.map.clone());
        self.maps.iter_mut().for_each(|maps| maps.push(map.clone()));
        for (osd, bench) in &mut self.osds {
            if map.is_up(*osd) || self.hears.contains(osd) {
                bench.map = map.clone();
                bench.announce_map();
            }
        }
        self.settle();
    }

    /// Those serve the group, the first one leads it.
    pub(crate) fn serve(&mut self, acting: &[i32]) {
        self.change(|map| drop(map.pg_temp.insert(GROUP, acting.to_vec())));
        self.pass(5);
    }

    /// An OSD dies; the others go on.
    pub(crate) fn kill(&mut self, osd: i32) {
        self.osd(osd).letters.clear();
        let shards = self.shards;
        self.change(|map| {
            map.osd_state[osd as usize] &= !state::UP;
            map.osd_info[osd as usize].down_at = map.epoch;
            let acting = map.pg_temp.get_mut(&GROUP).expect("members");
            if shards {
                acting.iter_mut().filter(|member| **member == osd).for_each(|member| *member = types::HOLE);
            } else {
                acting.retain(|member| *member != osd);
            }
        });
        self.pass(5);
    }

    /// An OSD that died gets an empty disk.
    pub(crate) fn replace_disk(&mut self, osd: i32) {
        let empty = Bench { whoami: osd, now: self.now(), ..Bench::empty(self.map.clone()) };
        self.osds.insert(osd, empty);
    }

    /// An OSD that died starts again, as a member if `acting` has it.
    pub(crate) fn start(&mut self, osd: i32, acting: &[i32]) {
        self.osd(osd).restart();
        for map in self.maps.clone().unwrap_or_default() {
            let bench = self.osd(osd);
            if map.epoch > bench.map.epoch {
                bench.map = map;
                bench.announce_map();
            }
        }
        self.change(|map| {
            map.osd_state[osd as usize] |= state::UP;
            map.osd_info[osd as usize].up_from = map.epoch;
            map.pg_temp.insert(GROUP, acting.to_vec());
        });
        self.pass(5);
    }

    pub(crate) fn recover(&mut self, on: bool) {
        self.change(|map| if on { map.flags &= !flags::NORECOVER } else { map.flags |= flags::NORECOVER });
        self.pass(12);
    }

    /// Makes an object that only osd.0 of three has, and kills it: osd.1 leads, and osd.2 is beside it. Recovery is held back.
    pub(crate) fn leave_with_osd_0(&mut self, object: &'static str) {
        self.kill(1);
        self.kill(2);
        self.write(object, object);
        self.recover(false);
        self.start(1, &[0, 1]);
        self.start(2, &[0, 1, 2]);
        self.kill(0);
    }

    /// Brings what was kept on the way, and keeps nothing there any more.
    pub(crate) fn release(&mut self, from: i32, to: i32) {
        self.held.remove(&(from, to));
        let kept = std::mem::take(&mut self.kept).into_iter();
        let (due, kept): (Vec<_>, Vec<_>) = kept.partition(|(a, b, _)| (*a, *b) == (from, to));
        self.kept = kept.into();
        for (from, to, letter) in &due {
            self.deliver(*from, *to, letter);
        }
        self.settle();
    }

    /// The session between two breaks: what is kept between them is lost, and both begin anew.
    pub(crate) fn break_session(&mut self, a: i32, b: i32) {
        let between = |from: i32, to: i32| (from, to) == (a, b) || (from, to) == (b, a);
        self.kept.retain(|(from, to, _)| !between(*from, *to));
        self.held.retain(|(from, to)| !between(*from, *to));
        for (osd, peer) in [(a, b), (b, a)] {
            let id = self.group_at(osd);
            if !self.is_up(osd) || !self.osds[&osd].pgs.contains_key(&id) {
                continue;
            }
            self.osd(osd).with(id, |pg, ctx| pg.peer_returns(ctx, peer));
        }
        self.settle();
    }

    /// Brings letters to where they go, and does what the monitors are asked for.
    pub(crate) fn settle(&mut self) {
        loop {
            self.osds.values_mut().for_each(Bench::settle);
            let letter = self.osds.iter_mut().find_map(|(osd, bench)| Some((*osd, bench.letters.pop_front()?)));
            match letter {
                Some((from, (to, letter))) => self.deliver(from, to, &letter),
                None if !self.give_slots() && !self.ask_monitors() => return,
                None => {}
            }
        }
    }

    /// Gives slots for recovery, where there are some. False if nobody got one.
    fn give_slots(&mut self) -> bool {
        let mut given = Vec::new();
        for osd in &self.generous {
            let wishes = self.osds[osd].pgs.get(&self.group_at(*osd)).map(Pg::slot_wishes).unwrap_or_default();
            let waits = |wish: Option<SlotWish>| wish.is_some_and(|wish| !wish.held);
            given.extend(waits(wishes.local).then_some((*osd, SlotSide::Local)));
            given.extend(waits(wishes.remote).then_some((*osd, SlotSide::Remote)));
        }
        for (osd, side) in &given {
            self.trace.push(format!("osd.{osd} grants a {} reservation", format!("{side:?}").to_lowercase()));
            self.slot(*osd, *side, true);
        }
        !given.is_empty()
    }

    /// An OSD gives its copy a slot, or takes it away.
    pub(crate) fn slot(&mut self, osd: i32, side: SlotSide, granted: bool) {
        let id = self.group_at(osd);
        self.osd(osd).with(id, |pg, ctx| pg.slot_changed(ctx, side, granted));
    }

    fn deliver(&mut self, from: i32, to: i32, letter: &pg::Sealed) {
        if !self.is_up(from) || !self.is_up(to) || self.loses.is_some_and(|loses| loses(self, from, to)) {
            return;
        }
        if self.held.contains(&(from, to)) {
            return self.kept.push_back((from, to, letter.clone()));
        }
        self.trace.push(format!("{from}→{to} {}", letter.line().expect("a message")));
        let epoch = self.map.epoch;
        let id = letter.envelope().expect("a letter").pg;
        if !self.osd(to).pgs.contains_key(&id) {
            match pg::answer_of_none(letter, epoch, false).expect("a letter") {
                OfNone::Answers(answer) => return self.deliver(to, from, &answer),
                OfNone::Ignores => return,
                OfNone::Joins => self.osd(to).begin(id, Pg::join),
            }
        }
        self.osd(to).with(id, |pg, ctx| pg.letter(ctx, from, ctx.now.mono, letter)).expect("a letter");
    }

    fn ask_monitors(&mut self) -> bool {
        let up = self.osds.iter_mut().filter(|(osd, _)| self.map.is_up(**osd));
        let mut wants = (Vec::new(), None);
        for (osd, bench) in up {
            if std::mem::take(&mut bench.wants_up_thru) {
                wants.0.push(*osd);
            }
            wants.1 = bench.wants_acting.take().or(wants.1);
        }
        // As the monitors: nobody acts who is down (`may_act` in cores/mon/src/server/peering.rs).
        let may = |acting: &Vec<i32>| acting.iter().all(|osd| !is_osd(*osd) || self.map.is_up(*osd));
        let fresh = wants.1.filter(may).filter(|acting| self.map.pg_temp.get(&GROUP) != Some(acting));
        if wants.0.is_empty() && fresh.is_none() {
            return false;
        }
        let epoch = self.map.epoch;
        self.trace.extend(wants.0.iter().map(|osd| format!("osd.{osd} wants up_thru {epoch}")));
        self.trace.extend(fresh.iter().map(|acting| format!("monitor: acting set {acting:?}")));
        self.change(|map| {
            wants.0.iter().for_each(|osd| map.osd_info[*osd as usize].up_thru = epoch);
            fresh.map(|acting| map.pg_temp.insert(GROUP, acting));
        });
        true
    }

    /// Lets seconds pass everywhere.
    pub(crate) fn pass(&mut self, seconds: u64) {
        for _ in 0..seconds * 10 {
            self.osds.values_mut().for_each(|bench| bench.pass(Duration::from_millis(100)));
            self.settle();
        }
    }

    /// The time, which is the same everywhere.
    pub(crate) fn now(&self) -> Now {
        self.osds[&0].now
    }

    /// A request to whoever leads; its answer, if there is one at once.
    pub(crate) fn ask(&mut self, name: &str, ops: Vec<Op>) -> (u64, Option<OsdOpReply>) {
        self.tid += 1;
        let (tid, leader) = (self.tid, self.leads().expect("a primary"));
        let op = messages::osd::OsdOp { pg: self.group_at(leader), ..request(name, ops) };
        self.osd(leader).deliver(SessionId(10), super::peer(10), tid, op);
        self.settle();
        (tid, self.answer(tid))
    }

    /// The answer to a request, if it came.
    pub(crate) fn answer(&self, tid: u64) -> Option<OsdOpReply> {
        let sent = self.osds.values().flat_map(|bench| &bench.sent);
        let reply = sent.filter(|(_, message)| message.tid == tid && message.kind == OsdOpReply::KIND).last();
        reply.map(|(_, message)| OsdOpReply::decode(message).expect("a reply"))
    }

    /// Writes an object; it must succeed.
    pub(crate) fn write(&mut self, name: &str, text: &'static str) {
        let data = Bytes::from_static(text.as_bytes());
        let op = Op::extent(messages::osd::code::WRITEFULL, 0, text.len() as u64, data);
        let (_, answer) = self.ask(name, vec![op]);
        assert_eq!(answer.expect("an answer").result, 0, "{name}");
    }

    /// Asks for an object.
    pub(crate) fn read(&mut self, name: &str) -> (u64, Option<Result<Bytes, i32>>) {
        let (tid, _) = self.ask(name, vec![Op::extent(messages::osd::code::READ, 0, 0, Bytes::new())]);
        (tid, self.content(tid))
    }

    /// Returns what a read gave, if it was answered.
    pub(crate) fn content(&self, tid: u64) -> Option<Result<Bytes, i32>> {
        let reply = self.answer(tid)?;
        let output = |reply: &OsdOpReply| reply.ops.last().map(|op| op.output.contiguous()).unwrap_or_default();
        Some(if reply.result < 0 { Err(reply.result) } else { Ok(output(&reply)) })
    }

    /// Returns true if these hold the same objects, with the same records and data.
    pub(crate) fn agree(&self, osds: &[i32]) -> bool {
        let held = |osd: &i32| {
            let store = &self.osds[osd].store;
            let of = |object: &types::ObjectId| {
                let hold = objectstore::Hold(0);
                let stat = objectstore::View::stat(store, hold, object).expect("in memory").expect("it is there");
                let data = objectstore::View::read(store, hold, object, 0, stat.size).expect("in memory").contiguous();
                (stat.info, data)
            };
            store.objects().map(|object| (object.clone(), of(object))).collect::<BTreeMap<_, _>>()
        };
        osds.windows(2).all(|pair| held(&pair[0]) == held(&pair[1]))
    }
}
