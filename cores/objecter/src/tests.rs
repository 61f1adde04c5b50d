//! An objecter inside an OSD: maps and sessions come from outside, and some objects are its own.

use crate::{Event, Objecter, OpError, OpId, OpRequest};
use maps::{Incremental, OsdMap, Pool};
use messages::osd::{OsdOp, OsdOpReply, flags};
use msgr::Messenger;
use msgr::auth::Auth;
use node::{Mono, Now, Outputs};
use std::collections::BTreeSet;
use std::sync::Arc;
use types::{EntityAddr, EntityAddrVec, EntityName, EntityType, Fsid, Locator, OsdId, PgId, SessionId, ShardId, SpgId, UTime};

const NOW: Now = Now { mono: Mono(1), wall: UTime::ZERO };
const ONE: SessionId = SessionId(11);
const TWO: SessionId = SessionId(22);

/// OSDs 0 and 1, and a pool of one group that 1 holds.
fn first_map() -> Arc<OsdMap> {
    let mut change = Incremental::new(1, Fsid::default(), UTime::ZERO);
    change.new_max_osd = 2;
    for osd in 0..2 {
        let at = EntityAddr::msgr2(([10, 0, 0, osd as u8], 6800).into(), 1);
        change.new_up_client.insert(osd, EntityAddrVec(vec![at]));
    }
    let pool = Pool { type_: 1, size: 1, min_size: 1, pg_num: 1, pgp_num: 1, object_hash: 2, flags: 1, ..Pool::default() };
    change.new_pools.insert(1, pool);
    change.new_pg_temp.insert(PgId::new(1, 0), vec![1]);
    Arc::new(OsdMap::default().apply(&change).expect("a first map"))
}

fn next_map(map: &OsdMap, edit: impl FnOnce(&mut Incremental)) -> Arc<OsdMap> {
    let mut change = Incremental::new(map.epoch + 1, map.fsid, UTime::ZERO);
    edit(&mut change);
    Arc::new(map.apply(&change).expect("the next map"))
}

fn holder(map: &OsdMap, osd: OsdId) -> Arc<OsdMap> {
    next_map(map, |change| drop(change.new_pg_temp.insert(PgId::new(1, 0), vec![osd])))
}

struct World {
    objecter: Objecter,
    messenger: Messenger,
    out: Outputs,
}

impl World {
    /// Inside osd.0.
    fn new(map: Arc<OsdMap>) -> Self {
        let name = EntityName::new(EntityType::Osd, "0");
        let messenger = Messenger::new(msgr::Config::client(name.clone(), 1), Auth::none(name), [1; 32]);
        let mut objecter = Objecter::embedded(0);
        objecter.set_map(map);
        Self { objecter, messenger, out: Outputs::default() }
    }

    fn read(&mut self) -> OpId {
        let (locator, oid) = (Locator::pool(1), "o".into());
        let id = self.objecter.submit(OpRequest { locator, oid, flags: flags::READ, ..OpRequest::default() });
        self.turn();
        id
    }

    fn turn(&mut self) {
        self.objecter.turn(NOW, &mut self.messenger, &mut self.out);
    }

    /// Returns what happened, but for maps.
    fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.objecter.poll_event()).filter(|event| !matches!(event, Event::Map { .. })).collect()
    }

    fn here(&mut self) -> Option<(OpId, Box<OsdOp>)> {
        match self.events().pop() {
            Some(Event::Here { id, op }) => Some((id, op)),
            _ => None,
        }
    }

    fn answer(&mut self, id: OpId, osd: OsdId, session: SessionId, retry: i32) -> Option<OpId> {
        let message = types::Message { tid: id.0, ..OsdOpReply { retry, ..OsdOpReply::default() }.encode() };
        let taken = self.objecter.message(NOW, osd, session, &message, &mut self.messenger, &mut self.out);
        taken.expect("it decodes");
        match self.events().pop() {
            Some(Event::Done { id, result: Ok(_) }) => Some(id),
            _ => None,
        }
    }
}

#[test]
fn what_the_own_osd_holds_is_given_to_it_and_answered_by_it() {
    let mut world = World::new(holder(&first_map(), 0));
    let id = world.read();
    let (asked, op) = world.here().expect("it is here");
    assert_eq!((asked, op.pg.pg, op.epoch, op.retry), (id, PgId::new(1, 0), 2, 0));
    assert!(world.objecter.take_wanted().is_empty());
    world.objecter.answered_here(NOW, id, OsdOpReply::default());
    assert!(matches!(&world.events()[..], [Event::Done { id: done, result: Ok(_) }] if *done == id));
    assert_eq!(world.objecter.pending(), 0);
}

#[test]
fn a_group_that_is_not_here_yet_is_asked_when_something_changed() {
    let mut world = World::new(holder(&first_map(), 0));
    let id = world.read();
    world.here().expect("it is here");
    world.objecter.not_here(id);
    world.turn();
    assert!(world.here().is_none() && !world.objecter.is_busy(), "nothing changed");
    world.objecter.look_again();
    world.turn();
    let (_, op) = world.here().expect("it is asked again");
    assert_eq!((op.retry, op.flags & flags::RETRY), (1, flags::RETRY));
    // An answer to the first time is none to the second.
    world.objecter.answered_here(NOW, id, OsdOpReply { retry: 0, ..OsdOpReply::default() });
    assert!(world.events().is_empty());
    world.objecter.answered_here(NOW, id, OsdOpReply { retry: 1, ..OsdOpReply::default() });
    assert_eq!(world.events().len(), 1);
}

#[test]
fn a_session_is_wanted_and_what_was_on_a_broken_one_goes_on_the_next() {
    let mut world = World::new(first_map());
    let id = world.read();
    assert_eq!(world.objecter.take_wanted(), BTreeSet::from([1]));
    world.turn();
    world.events();
    assert!(world.objecter.take_wanted().is_empty() && !world.objecter.is_busy(), "it was told once");
    world.objecter.session_begins(1, ONE);
    world.turn();
    world.objecter.session_ends(1);
    world.turn();
    assert_eq!(world.objecter.take_wanted(), BTreeSet::from([1]));
    world.objecter.session_begins(1, TWO);
    world.turn();
    assert_eq!(world.answer(id, 1, TWO, 0), None, "the answer to the first sending");
    assert_eq!(world.answer(id, 1, TWO, 1), Some(id));
    assert_eq!(world.answer(id, 1, TWO, 1), None, "an answer counts once");
}

#[test]
fn an_operation_follows_its_object() {
    let first = first_map();
    let mut world = World::new(first.clone());
    let id = world.read();
    world.objecter.session_begins(1, ONE);
    world.turn();
    let second = holder(&first, 0);
    world.objecter.set_map(second.clone());
    world.turn();
    let (asked, op) = world.here().expect("it came here");
    assert_eq!((asked, op.epoch), (id, 2));
    assert_eq!(world.answer(id, 1, ONE, 0), None, "who holds it no more is not heard");
    // Another map that changes nothing for it is no reason to ask again.
    let third = next_map(&second, |_| {});
    world.objecter.set_map(third.clone());
    world.turn();
    assert!(world.here().is_none());
    let fourth = next_map(&third, |change| change.old_pools = BTreeSet::from([1]));
    world.objecter.set_map(fourth);
    world.turn();
    assert!(matches!(world.events()[..], [Event::Done { result: Err(OpError::NoPool), .. }]));
}

/// Pool 1 has two shards, at these OSDs.
fn shards(map: &OsdMap, osds: &[OsdId]) -> Arc<OsdMap> {
    next_map(map, |change| {
        change.new_pools.insert(1, Pool { type_: maps::pool_type::ERASURE, size: 2, ..map.pools[&1].clone() });
        change.new_pg_temp.insert(PgId::new(1, 0), osds.to_vec());
    })
}

#[test]
fn an_operation_names_the_position_of_its_primary() {
    let first = shards(&first_map(), &[types::HOLE, 0]);
    let mut world = World::new(first.clone());
    let id = world.read();
    let (asked, op) = world.here().expect("it is here");
    assert_eq!((asked, op.pg), (id, SpgId { pg: PgId::new(1, 0), shard: ShardId(1) }));
    // The same OSD leads at another position: that is another copy.
    let second = shards(&first, &[0, 1]);
    world.objecter.set_map(second.clone());
    world.turn();
    let (asked, op) = world.here().expect("it is asked again");
    assert_eq!((asked, op.pg.shard), (id, ShardId(0)));
    // In a pool of copies there is none.
    let third = holder(&next_map(&second, |change| drop(change.new_pools.insert(1, first_map().pools[&1].clone()))), 0);
    world.objecter.set_map(third);
    world.turn();
    assert_eq!(world.here().map(|(_, op)| op.pg.shard), Some(ShardId::NONE));
}

#[test]
fn shards_are_not_read_aside() {
    let mut world = World::new(shards(&first_map(), &[1, 0]));
    for flag in [flags::BALANCE_READS, flags::LOCALIZE_READS] {
        for _ in 0..4 {
            let (locator, oid) = (Locator::pool(1), "o".into());
            world.objecter.submit(OpRequest { locator, oid, flags: flags::READ | flag, ..OpRequest::default() });
            world.turn();
            assert!(world.here().is_none(), "osd.0 holds another part");
        }
    }
    assert_eq!(world.objecter.take_wanted(), BTreeSet::from([1]));
}
