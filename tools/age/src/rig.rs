//! A store on its disk, and what both cost.

use crate::disk::{Disk, Traffic};
use bytes::Bytes;
use nix::time::{ClockId, clock_gettime};
use node::{DiskDone, DiskRequest, Mono, Now, Output, Outputs};
use objectstore::{
    Event, Hold, MetaChange, ObjectChange, ObjectChanges, ObjectStore, Read, Refused, Ticket, Transaction, Unread,
};
use std::collections::{BTreeMap, VecDeque};
use store::{Config, Store};
use types::{HObject, ObjectId, PgId, SnapId, SpgId};

/// Groups whose logs are written.
const GROUPS: u64 = 64;
/// Entries of a group's log.
const LOG: u64 = 500;
/// Transactions that come together at most, and bytes of data in them.
const BATCH: u64 = 16;
const BATCH_BYTES: usize = 4 << 20;
/// A night without requests, in nanoseconds: six hours.
const NIGHT: u64 = 6 * 3600 * 1_000_000_000;
/// Most rounds that anything may take to come to an end.
const PATIENCE: usize = 10_000_000;

/// Processor time of this thread so far, in nanoseconds.
fn processor() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("the kernel has this clock");
    time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64
}

/// Bytes of this process that are in memory.
pub fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
}

/// Says what a call did, as far as counters tell.
fn what(name: &'static str, before: &store::Counters, after: &store::Counters) -> &'static str {
    match name {
        "turn" if after.checkpoints > before.checkpoints => "end of a checkpoint",
        "turn" if after.defrag.parts > before.defrag.parts => "defragmentation moves",
        "turn" if after.defrag != before.defrag => "defragmentation looks",
        "turn" if after.index_bytes > before.index_bytes => "merge",
        "turn" if after.moved_bytes > before.moved_bytes => "checkpoint moves data",
        "turn" if after.groups > before.groups => "group",
        _ => name,
    }
}

/// What was used since a moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Used {
    /// Processor time of the store, in nanoseconds.
    pub processor: u64,
    /// Calls.
    pub calls: u64,
    /// Requests to the disk.
    pub traffic: Traffic,
    /// Checkpoints that ended.
    pub checkpoints: u64,
    /// Bytes of pages of the index that were written.
    pub index_bytes: u64,
    /// Bytes that were written to the journal.
    pub journal_bytes: u64,
}

impl Used {
    /// Adds what was used at another time.
    pub fn add(&mut self, other: &Self) {
        self.processor += other.processor;
        self.calls += other.calls;
        self.traffic.reads += other.traffic.reads;
        self.traffic.read_bytes += other.traffic.read_bytes;
        self.traffic.writes += other.traffic.writes;
        self.traffic.written_bytes += other.traffic.written_bytes;
        self.checkpoints += other.checkpoints;
        self.index_bytes += other.index_bytes;
        self.journal_bytes += other.journal_bytes;
    }
}

/// From so many nanoseconds of processor time on a call is remembered.
const SLOW: u64 = 1_000_000;

/// Calls that took long since the disk was empty.
///
/// The clock of processor time counts what the machine does meanwhile for others, too: a call that does nothing takes milliseconds
/// now and then. But the same calls come in the same order whenever the same is done, so they are made several times, and the
/// shortest time of each is the one that it needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slow {
    /// By the number of the call: nanoseconds of processor time, and what it did.
    slow: BTreeMap<u64, (u64, &'static str)>,
    /// Calls that there were.
    calls: u64,
}

impl Slow {
    fn note(&mut self, took: u64, what: impl FnOnce() -> &'static str) {
        if took >= SLOW {
            self.slow.insert(self.calls, (took, what()));
        }
        self.calls += 1;
    }

    /// Takes the shorter time of each call, of this run and another one of the same.
    ///
    /// # Errors
    /// The other run did not do the same.
    pub fn meet(&mut self, other: &Self) -> Result<(), String> {
        if self.calls != other.calls {
            return Err(format!("two runs of the same have {} and {} calls of the store", self.calls, other.calls));
        }
        self.slow.retain(|call, _| other.slow.contains_key(call));
        for (call, (took, _)) in &mut self.slow {
            *took = other.slow[call].0.min(*took);
        }
        Ok(())
    }

    /// Bytes of memory that they take here, about.
    fn bytes(&self) -> u64 {
        self.slow.len() as u64 * 48
    }

    /// Returns the longest call, in nanoseconds of processor time, and what it did. What takes less than 1 ms is not known.
    pub fn longest(&self) -> (u64, &'static str) {
        self.slow.values().copied().max().unwrap_or((SLOW, "none"))
    }

    /// Returns how many calls took over so many nanoseconds; at least 1 ms.
    pub fn over(&self, nanos: u64) -> usize {
        self.slow.values().filter(|(took, _)| *took > nanos).count()
    }
}

/// A store, its disk, and the meter.
pub struct Rig {
    /// The store.
    pub store: Store,
    /// Its disk.
    pub disk: Disk,
    config: Config,
    now: u64,
    tickets: u64,
    /// Transactions that became durable.
    pub committed: u64,
    queue: VecDeque<DiskRequest>,
    /// Transactions and bytes of data since the last round.
    batch: (u64, usize),
    used: Used,
    slow: Slow,
    since: (Traffic, store::Counters),
    /// Next entry of each group's log.
    logs: Vec<u64>,
    /// Resident bytes before the store was made, and the most since, less what the disk takes.
    before: u64,
    peak: u64,
    /// Bytes of lists of the clients, and the most that the tool had in lists when it was looked at.
    lists: u64,
    own: u64,
    /// What the store said that it held when it took the most.
    says: u64,
}

/// The object of an image or a bucket: number `n` of `pool`, as a clone of snapshot `snap` if there is one.
pub fn object(pool: i64, n: u64, snap: Option<u64>) -> ObjectId {
    let name = Bytes::from(format!("rbd_data.10226b8b4567.{n:016x}"));
    let hash = types::hash::rjenkins(&name);
    let snap = snap.map_or(SnapId::HEAD, SnapId);
    HObject { pool, hash, nspace: Bytes::new(), key: Bytes::new(), name, snap, max: false }.into()
}

impl Rig {
    /// Makes a store on an empty disk of `capacity` bytes.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn new(config: Config, capacity: u64) -> Result<Self, String> {
        let before = resident();
        let disk = Disk::new(capacity)?;
        let mut rig = Self {
            store: Store::create(config.clone()),
            disk,
            config,
            now: 0,
            tickets: 0,
            committed: 0,
            queue: VecDeque::new(),
            batch: (0, 0),
            used: Used::default(),
            slow: Slow::default(),
            since: Default::default(),
            logs: vec![0; GROUPS as usize],
            before,
            peak: before,
            lists: 0,
            own: 0,
            says: 0,
        };
        rig.open()?;
        rig.store.set_defragment(true);
        Ok(rig)
    }

    fn open(&mut self) -> Result<(), String> {
        for _ in 0..PATIENCE {
            if self.store.ready() {
                return Ok(());
            }
            if let Some(error) = self.store.open_error() {
                return Err(format!("the store does not open: {error}"));
            }
            self.round()?;
        }
        Err("the store does not open, and does not say why".into())
    }

    fn now(&self) -> Now {
        Now { mono: Mono(self.now), ..Now::default() }
    }

    /// Carries out a call of the store, and counts its processor time.
    fn call<T>(&mut self, name: &'static str, call: impl FnOnce(&mut Store) -> T) -> T {
        let before = self.store.counters();
        let began = processor();
        let result = call(&mut self.store);
        let took = processor() - began;
        self.slow.note(took, || what(name, &before, &self.store.counters()));
        self.used.processor += took;
        self.used.calls += 1;
        result
    }

    /// One turn, and the ends of all requests.
    ///
    /// # Errors
    /// The store failed.
    pub fn round(&mut self) -> Result<(), String> {
        self.now += 100_000;
        let (now, mut out) = (self.now(), Outputs::default());
        self.call("turn", |store| store.turn(now, &mut out));
        self.queue.extend(out.0.into_iter().filter_map(|output| match output {
            Output::Disk(request) => Some(request),
            _ => None,
        }));
        while let Some(DiskRequest { token, op, .. }) = self.queue.pop_front() {
            let result = self.disk.answer(op);
            self.call("completion", |store| store.disk_done(now, DiskDone { token, result }));
        }
        while let Some(event) = self.store.poll_event() {
            match event {
                Event::Committed(_) => self.committed += 1,
                Event::Fetched(_) => {}
                Event::Damaged(..) | Event::Rotten(_) => return Err("the store says that an object is damaged".into()),
            }
        }
        self.store.failure().map_or(Ok(()), |why| Err(format!("the store failed: {why}")))
    }

    /// Submits one transaction as a group does, with an entry of its log. True if there was room.
    ///
    /// # Errors
    /// It was refused for another reason, or the store failed.
    pub fn submit(&mut self, objects: Vec<ObjectChanges>) -> Result<bool, String> {
        let data = |change: &ObjectChange| match change {
            ObjectChange::Write(_, data) => data.len(),
            _ => 0,
        };
        let bytes: usize = objects.iter().flat_map(|o| &o.changes).map(data).sum();
        let group = objects.first().map_or(0, |o| u64::from(o.object.hash) % GROUPS);
        let entry = self.logs[group as usize];
        let key = |n: u64| Bytes::from(format!("log {n:016x}"));
        let mut meta = vec![MetaChange::Set(key(entry), Bytes::from(vec![entry as u8 | 1; 180]))];
        if let Some(old) = entry.checked_sub(LOG) {
            meta.push(MetaChange::Remove(key(old)));
        }
        let scope = SpgId::whole(PgId::new(1, group as u32));
        let transaction = Transaction { cold: false, scope, hold: None, objects, meta };
        let ticket = Ticket(self.tickets);
        match self.call("submission", |store| store.submit(transaction, ticket)) {
            Ok(()) => {}
            Err(Refused::NoSpace) => {
                self.round()?;
                return Ok(false);
            }
            Err(why) => return Err(format!("the store refuses a change: {why:?}")),
        }
        self.tickets += 1;
        self.logs[group as usize] += 1;
        self.batch = (self.batch.0 + 1, self.batch.1 + bytes);
        if self.batch.0 >= BATCH || self.batch.1 >= BATCH_BYTES {
            self.batch = (0, 0);
            self.round()?;
            for _ in 0..PATIENCE {
                if !self.store.congested() {
                    break;
                }
                self.round()?;
            }
            if self.store.congested() {
                return Err("the store is congested, and stays so".into());
            }
        }
        if self.tickets.is_multiple_of(4096) {
            self.look();
        }
        Ok(true)
    }

    /// [`Self::submit`] of changes of one object.
    ///
    /// # Errors
    /// As there.
    pub fn change(&mut self, object: ObjectId, changes: Vec<ObjectChange>) -> Result<bool, String> {
        self.submit(vec![ObjectChanges { object, changes }])
    }

    /// The clients keep so many bytes in lists from now on.
    pub fn keeps(&mut self, lists: u64) {
        self.lists = lists;
    }

    /// Bytes of memory that this tool has in lists, the disk's not counted.
    fn own(&self) -> u64 {
        let queue = self.queue.capacity() * size_of::<DiskRequest>() + self.logs.capacity() * 8;
        self.lists + queue as u64 + self.slow.bytes()
    }

    fn look(&mut self) {
        let own = self.own();
        self.own = self.own.max(own);
        let beside = self.disk.overhead() + own;
        let mut now = resident().saturating_sub(beside);
        if now > self.peak {
            // What was freed lies with the allocator for a while. The product gives it back once a second when memory is short.
            runtime::give_memory_back();
            now = resident().saturating_sub(beside);
        }
        if now > self.peak {
            let held = self.store.memory();
            let all = held.blocks + held.pages + held.records + held.delta + held.maps + (held.onodes + held.ranges) * 512;
            (self.peak, self.says) = (now, all as u64);
        }
    }

    /// Returns the most bytes that the tool had in lists. [`Self::memory`] does not have them.
    pub fn own_lists(&self) -> u64 {
        self.own
    }

    /// Returns what the store said that it held when it took the most memory, in bytes.
    pub fn says(&self) -> u64 {
        self.says
    }

    /// Turns the store until it has nothing to do now and all that was submitted is durable.
    ///
    /// # Errors
    /// It failed, or never comes to rest.
    pub fn rest(&mut self) -> Result<(), String> {
        for _ in 0..PATIENCE {
            self.round()?;
            if self.committed == self.tickets && self.store.deadline() > Mono(self.now) {
                self.look();
                return Ok(());
            }
        }
        Err(format!("the store finds no rest: {} of {} transactions are durable", self.committed, self.tickets))
    }

    /// Makes a checkpoint of all that was submitted, and a second one of what the first one left.
    ///
    /// # Errors
    /// As [`Self::rest`].
    pub fn checkpoint(&mut self) -> Result<(), String> {
        for _ in 0..2 {
            self.rest()?;
            let before = self.store.counters().checkpoints;
            if !self.store.compact() {
                continue;
            }
            for _ in 0..PATIENCE {
                self.round()?;
                if self.store.counters().checkpoints > before {
                    break;
                }
            }
        }
        self.rest()
    }

    /// Lets a night of virtual time pass without requests: the store does what it put off, and defragments.
    ///
    /// # Errors
    /// As [`Self::rest`].
    pub fn night(&mut self) -> Result<(), String> {
        let morning = self.now + NIGHT;
        while self.now < morning {
            self.rest()?;
            self.now = self.store.deadline().0.clamp(self.now + 1, morning.max(self.now + 1));
        }
        Ok(())
    }

    /// Lets defragmentation walk through all objects once.
    ///
    /// # Errors
    /// The store failed, or the walk does not end.
    pub fn walk(&mut self) -> Result<(), String> {
        let walks = self.store.counters().defrag.walks;
        self.store.defragment_now();
        for _ in 0..PATIENCE {
            self.round()?;
            if self.store.counters().defrag.walks > walks {
                return Ok(());
            }
        }
        Err(format!("a walk does not end: {:?}", self.store.counters().defrag))
    }

    /// Kills the store and opens it again. What that used is counted.
    ///
    /// # Errors
    /// It does not open.
    pub fn reopen(&mut self) -> Result<(), String> {
        self.queue.clear();
        self.store = Store::open(self.config.clone());
        self.store.set_defragment(true);
        self.committed = self.tickets;
        self.open()?;
        self.look();
        Ok(())
    }

    /// Reads, and fetches what is missing.
    ///
    /// # Errors
    /// What is there is damaged, or the store failed.
    pub fn read<T>(&mut self, read: impl Fn(&Store, Hold) -> Read<T>) -> Result<T, String> {
        let hold = Hold(1);
        let result = loop {
            match self.call("read", |store| read(store, hold)) {
                Ok(value) => break Ok(value),
                Err(Unread::Damaged(damage)) => break Err(format!("{damage:?}")),
                Err(Unread::Missing(wish)) => {
                    self.store.fetch(hold, wish);
                    self.round()?;
                }
            }
        };
        self.store.release(hold);
        result
    }

    /// Begins to count anew.
    pub fn zero(&mut self) {
        self.used = Used::default();
        self.since = (self.disk.traffic, self.store.counters());
    }

    /// Returns what was used since [`Self::zero`].
    pub fn used(&self) -> Used {
        let (traffic, counters) = &self.since;
        let (now, count) = (self.disk.traffic, self.store.counters());
        Used {
            traffic: Traffic {
                reads: now.reads - traffic.reads,
                read_bytes: now.read_bytes - traffic.read_bytes,
                writes: now.writes - traffic.writes,
                written_bytes: now.written_bytes - traffic.written_bytes,
            },
            checkpoints: count.checkpoints.saturating_sub(counters.checkpoints),
            index_bytes: count.index_bytes.saturating_sub(counters.index_bytes),
            journal_bytes: count.journal_bytes.saturating_sub(counters.journal_bytes),
            ..self.used
        }
    }

    /// Returns the calls that took long since the disk was empty.
    pub fn slow(&self) -> &Slow {
        &self.slow
    }

    /// Bytes that the store took of this process's memory at most.
    pub fn memory(&self) -> u64 {
        self.peak - self.before
    }

    /// Per mille of the disk that is available.
    pub fn available(&self) -> u64 {
        let space = self.store.space();
        space.available * 1000 / space.total.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_took_long_once_only_was_somebody_else() {
        let run = |times: &[u64]| {
            let mut slow = Slow::default();
            times.iter().for_each(|took| slow.note(*took, || "turn"));
            slow
        };
        let mut slow = run(&[2 * SLOW, 10, 9 * SLOW, 6 * SLOW]);
        assert_eq!((slow.longest().0, slow.over(5 * SLOW)), (9 * SLOW, 2));
        slow.meet(&run(&[3 * SLOW, 8 * SLOW, 10, 5 * SLOW])).expect("as many calls");
        assert_eq!((slow.longest(), slow.over(SLOW)), ((5 * SLOW, "turn"), 2));
        assert!(slow.meet(&run(&[10, 10, 10])).is_err());
    }
}
