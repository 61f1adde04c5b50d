//! Clients that ask at random, note what they asked and what they were told, and judge nothing.

mod admin;
mod choose;
mod ebb;
mod petitioner;
mod request;
mod watcher;

pub use admin::{Admin, AdminShared, MAKE_SNAP, REMOVE_SNAP};
pub use petitioner::{Petitioner, Petitions};

use crate::history::History;
use crate::model::{Action, Context};
use crate::rng::Rng;
use bytes::Bytes;
use choose::Chooser;
use ebb::Ebb;
use messages::code::flags;
use node::{Mono, Now};
use objecter::{Driver, Event, Objecter, OpId, SnapContext};
use request::{outcome_of, request_of};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use types::{Locator, PoolId, SnapId};
use watcher::Watching;

/// Who makes snapshots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Snaps {
    /// Nobody.
    #[default]
    None,
    /// The pool.
    Pool,
    /// Clients, each write with the context that they keep.
    Own,
}

/// What a client does about the space on the disks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tide {
    /// Nothing in particular.
    #[default]
    None,
    /// It fills them.
    Fills,
    /// It follows the maps and makes room when the pool is full, with changes that a full cluster must carry out or refuse at once. It
    /// does so as long as anybody fills: it has no budget.
    Empties,
}

/// What a client does.
#[derive(Clone, Debug)]
pub struct Habits {
    /// The pool.
    pub pool: String,
    /// On how many objects, `o0`, `o1`, ...
    pub objects: u64,
    /// Number of operations under way at once.
    pub depth: usize,
    /// Longest pause before the next operation.
    pub pause: Duration,
    /// Operations in all (of all lives together).
    pub budget: usize,
    /// Largest payload.
    pub largest: u64,
    /// Of so many operations (percent) one is of the rarer kinds: classes, compounds with guards, snapshots.
    pub rare: u64,
    /// Who makes snapshots.
    pub snaps: Snaps,
    /// Number of objects, `w0`, `w1`, ..., clients watch and notify.
    pub watched: u64,
    /// What it does about space.
    pub tide: Tide,
    /// Percent of the operations that only read the data.
    pub reads: u64,
    /// Number of objects, `s0`, `s1`, ..., that are made at first and copied.
    pub sources: u64,
    /// One of so many operations copies one of them.
    pub copies: u64,
    /// Percent of the reads that go to any copy, not to the primary.
    pub asides: u64,
    /// They go to the same copy of a group, not to each in turn.
    pub near: bool,
    /// The pool takes no omap.
    pub no_omap: bool,
}

impl Default for Habits {
    fn default() -> Self {
        Self {
            pool: "data".into(),
            objects: 4,
            depth: 4,
            pause: Duration::from_millis(40),
            budget: 150,
            largest: 20_000,
            rare: 0,
            snaps: Snaps::None,
            watched: 0,
            tide: Tide::None,
            reads: 0,
            sources: 0,
            copies: 3,
            asides: 0,
            near: false,
            no_omap: false,
        }
    }
}

/// What a client shares with its world, across its lives.
#[derive(Debug)]
pub struct Shared {
    /// Everything that was asked and answered.
    pub history: Rc<RefCell<History>>,
    /// Operations still to be asked by this client.
    pub left: usize,
    /// Operations under way in its present life.
    pub open: usize,
    /// Asked instead of random ones; then the budget does not count.
    pub script: Vec<(String, Action, Option<u64>)>,
    /// Answers that were errors of the disk, by number.
    pub errors: BTreeMap<i32, u64>,
    /// No room is made, however full the pool is.
    pub holds_back: bool,
    /// The flags that its maps ever showed of its pool.
    pub pool_flags: u64,
}

impl Shared {
    /// For a client with this budget.
    pub fn new(history: Rc<RefCell<History>>, budget: usize) -> Rc<RefCell<Self>> {
        let (script, errors) = (Vec::new(), BTreeMap::new());
        Rc::new(RefCell::new(Self { history, left: budget, open: 0, script, errors, holds_back: false, pool_flags: 0 }))
    }

    /// Returns true if all was asked and answered.
    pub fn is_done(&self) -> bool {
        self.left == 0 && self.open == 0 && self.script.is_empty()
    }
}

/// A client in one of its lives.
pub struct Workload {
    habits: Habits,
    shared: Rc<RefCell<Shared>>,
    chooser: Chooser,
    me: u32,
    open: BTreeMap<OpId, (usize, Action)>,
    next: Mono,
    pool: Option<PoolId>,
    watching: Watching,
    ebb: Ebb,
    /// Which reads go to any copy.
    aside: Rng,
    /// Newest version of each object that an answer named.
    versions: BTreeMap<String, u64>,
    /// Wall and monotonic clocks jump and start anywhere: the world's time, for the history.
    world_time: Rc<Cell<u64>>,
}

impl Workload {
    /// A new life.
    pub fn new(habits: Habits, shared: Rc<RefCell<Shared>>, seed: [u8; 32], world_time: Rc<Cell<u64>>) -> Self {
        let seed = u64::from_le_bytes(seed[..8].try_into().expect("eight bytes"));
        let history = shared.borrow().history.clone();
        let me = history.borrow_mut().new_client();
        shared.borrow_mut().open = 0;
        Self {
            chooser: Chooser::new(Rng::new(seed), me, habits.largest).without_omap(habits.no_omap),
            watching: Watching::new(me, history, world_time.clone()),
            ebb: Ebb::default(),
            aside: Rng::new(!seed),
            habits,
            shared,
            me,
            open: BTreeMap::new(),
            next: Mono(0),
            pool: None,
            versions: BTreeMap::new(),
            world_time,
        }
    }

    /// The snapshots that stand, and the context of a change now.
    fn snapshots(&self, objecter: &Objecter) -> (Vec<u64>, Context) {
        let shared = self.shared.borrow();
        let history = shared.history.borrow();
        match self.habits.snaps {
            Snaps::None => (Vec::new(), Context::default()),
            Snaps::Own => {
                let (seq, snaps) = history.own_snaps.clone();
                let context = Context { seq, snaps: snaps.iter().rev().copied().collect(), ..Context::default() };
                (snaps, context)
            }
            Snaps::Pool => {
                let pool = self.pool.and_then(|id| objecter.map()?.pool(id));
                let known = pool.map_or(0, |pool| pool.snap_seq);
                let there = history.pool_snaps().into_iter().map(|(_, id)| id);
                let seen = there.filter(|id| pool.is_some_and(|pool| pool.snaps.contains_key(id)));
                (seen.collect(), Context { known, ..Context::default() })
            }
        }
    }

    /// Notes the pool's snapshots that the map shows.
    fn look_at_snaps(&self, objecter: &Objecter) {
        if self.habits.snaps != Snaps::Pool {
            return;
        }
        let Some(pool) = self.pool.and_then(|id| objecter.map()?.pool(id)) else { return };
        let shared = self.shared.borrow();
        let mut history = shared.history.borrow_mut();
        pool.snaps.values().for_each(|snap| history.snap_seen(&snap.name, snap.snapid.0));
    }

    /// Notes how full the map shows the pool.
    fn look_at_space(&mut self, now: Now, pool: PoolId, objecter: &Objecter) {
        if self.habits.tide != Tide::Empties {
            return;
        }
        let map = objecter.map().map(|map| &**map);
        self.shared.borrow_mut().pool_flags |= map.and_then(|map| map.pool(pool)).map_or(0, |pool| pool.flags);
        self.ebb.look(map, pool, now.mono, &mut self.chooser.rng);
    }

    fn choose(&mut self, object: &str, snaps: &[u64]) -> (Action, Option<u64>) {
        // Odd ones may be removed at any time: they are only looked at.
        let stay: Vec<u64> = snaps.iter().copied().filter(|snap| snap % 2 == 0).collect();
        match self.habits.tide {
            Tide::Fills if !self.chooser.rng.one_in(4) => return (self.chooser.filling(), None),
            Tide::Empties => return (self.chooser.emptying(), None),
            _ => {}
        }
        if self.habits.sources > 0 && self.chooser.rng.one_in(self.habits.copies) {
            return (Action::CopyOf(self.chooser.rng.below(self.habits.sources)), None);
        }
        if self.habits.reads > 0 && self.chooser.rng.below(100) < self.habits.reads {
            return (Action::Read, None);
        }
        let rare = self.habits.rare > 0 && self.chooser.rng.below(100) < self.habits.rare;
        let action = match rare {
            true => self.chooser.rare(self.versions.get(object).copied(), &stay),
            false => self.chooser.plain(),
        };
        let back = action.is_read() && !action.is_call() && !snaps.is_empty() && self.chooser.rng.one_in(2);
        let at = back.then(|| *self.chooser.rng.pick(snaps));
        (action, at)
    }

    /// Some clients do not know yet which snapshots are gone, however long ago that was.
    fn perhaps_late(&mut self, mut context: Context) -> Context {
        if self.habits.snaps == Snaps::Own && !context.snaps.is_empty() | (context.seq > 0) && self.aside.one_in(4) {
            context.snaps.extend(self.shared.borrow().history.borrow().removed_snaps());
            context.snaps.sort_unstable_by(|a, b| b.cmp(a));
        }
        context
    }

    fn submit(&mut self, pool: PoolId, object: &str, action: Action, context: Context, objecter: &mut Objecter, now: Now) {
        let context = if action.is_read() { context } else { self.perhaps_late(context) };
        let mut request = request_of(&action, pool);
        request.locator = Locator::pool(pool);
        request.oid = Bytes::copy_from_slice(object.as_bytes());
        request.mtime = now.wall;
        if !action.is_read() {
            request.snapc = SnapContext { seq: context.seq, snaps: context.snaps.clone() };
            // It must not wait for the room that it makes.
            if self.habits.tide == Tide::Empties {
                request.flags |=
                    if action == Action::Delete && self.chooser.rng.one_in(2) { flags::FULL_FORCE } else { flags::FULL_TRY };
            }
        }
        let aside = action.is_read() && self.habits.asides > 0 && self.aside.below(100) < self.habits.asides;
        if aside {
            request.flags |= if self.habits.near { flags::LOCALIZE_READS } else { flags::BALANCE_READS };
        }
        request.snapid = context.at.map_or(SnapId::HEAD, SnapId);
        let time = self.world_time.get();
        let number = self.shared.borrow().history.borrow_mut().begin_with(self.me, object, action.clone(), context, time);
        self.shared.borrow().history.borrow_mut().entries[number].aside = aside;
        let id = objecter.submit(request);
        self.open.insert(id, (number, action));
        self.shared.borrow_mut().open += 1;
    }

    fn ask(&mut self, now: Now, pool: PoolId, objecter: &mut Objecter) {
        while self.open.len() < self.habits.depth && self.next <= now.mono {
            let (snaps, context) = self.snapshots(objecter);
            let scripted = self.shared.borrow_mut().script.pop();
            let (object, action, at) = match scripted {
                Some(asked) => asked,
                // Notifications keep the place of operations.
                None if self.shared.borrow().open >= self.habits.depth => return,
                None if self.habits.tide == Tide::Empties => {
                    if self.shared.borrow().holds_back || self.ebb.due() > now.mono {
                        return;
                    }
                    let n = self.ebb.step(self.habits.objects, now.mono, &mut self.chooser.rng);
                    let object = format!("o{n}");
                    let (action, at) = self.choose(&object, &snaps);
                    (object, action, at)
                }
                None if self.shared.borrow().left == 0 => return,
                None => {
                    self.shared.borrow_mut().left -= 1;
                    let pause = self.chooser.rng.below(self.habits.pause.as_nanos() as u64 + 1);
                    // Bursts, too.
                    let burst = self.chooser.rng.one_in(3);
                    self.next = if burst { now.mono } else { now.mono.plus(Duration::from_nanos(pause)) };
                    if self.habits.watched > 0 && self.chooser.rng.one_in(12) {
                        let object = format!("w{}", self.chooser.rng.below(self.habits.watched));
                        self.watch_or_notify(pool, object, objecter, now);
                        continue;
                    }
                    let object = format!("o{}", self.chooser.rng.below(self.habits.objects));
                    let (action, at) = self.choose(&object, &snaps);
                    (object, action, at)
                }
            };
            let context = if action.is_read() { Context { at, known: context.known, ..Context::default() } } else { context };
            self.submit(pool, &object, action, context, objecter, now);
        }
    }

    fn watch_or_notify(&mut self, pool: PoolId, object: String, objecter: &mut Objecter, now: Now) {
        let (_, context) = self.snapshots(objecter);
        match self.watching.watches(&object) {
            false if self.chooser.rng.one_in(2) => self.submit(pool, &object, Action::CreateExclusively, context, objecter, now),
            false => self.watching.watch(pool, object, objecter),
            true if self.chooser.rng.one_in(8) => self.watching.unwatch(&object, objecter),
            true => {
                let text = String::from_utf8_lossy(&self.chooser.small()).into_owned();
                self.watching.notify(pool, object, text, objecter);
                self.shared.borrow_mut().open += 1;
            }
        }
    }
}

impl Driver for Workload {
    fn event(&mut self, _now: Now, event: Event, objecter: &mut Objecter) {
        let Event::Done { id, result } = event else {
            let ended = self.watching.event(event, objecter);
            self.shared.borrow_mut().open -= usize::from(ended);
            return;
        };
        let Some((number, action)) = self.open.remove(&id) else { return };
        let mut shared = self.shared.borrow_mut();
        shared.open -= 1;
        let Ok(reply) = result else {
            // The pool is gone; another of its name may come.
            self.pool = None;
            return;
        };
        if reply.result < 0 {
            *shared.errors.entry(reply.result).or_default() += 1;
        }
        let outcome = outcome_of(&action, &reply);
        let time = self.world_time.get();
        let mut history = shared.history.borrow_mut();
        if reply.result >= 0 && reply.user_version > 0 {
            self.versions.insert(history.entries[number].object.clone(), reply.user_version);
        }
        history.end(number, outcome, reply.user_version, time);
    }

    fn turn(&mut self, now: Now, objecter: &mut Objecter) {
        self.watching.alive();
        self.look_at_snaps(objecter);
        if self.pool.is_none()
            && let Some(map) = objecter.map()
        {
            self.pool = map.pool_name.iter().find(|(_, name)| **name == self.habits.pool).map(|(id, _)| *id);
            if self.pool.is_none() {
                objecter.want_newer_map();
            }
        }
        if let Some(pool) = self.pool {
            self.look_at_space(now, pool, objecter);
            self.ask(now, pool, objecter);
        }
    }

    fn deadline(&self) -> Mono {
        let shared = self.shared.borrow();
        let idle = shared.left == 0 && shared.script.is_empty();
        if self.habits.tide == Tide::Empties && shared.script.is_empty() {
            let waits = shared.holds_back || self.pool.is_none() || self.open.len() >= self.habits.depth;
            return if waits { Mono::NEVER } else { self.ebb.due() };
        }
        let busy = self.open.len() >= self.habits.depth || shared.script.is_empty() && shared.open >= self.habits.depth;
        if idle || busy || self.pool.is_none() { Mono::NEVER } else { self.next }
    }

    fn call(&mut self, _now: Now, _command: &str, objecter: &mut Objecter) -> (i32, String) {
        objecter.want_newer_map();
        (0, String::new())
    }
}
