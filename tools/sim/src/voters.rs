//! Voters of the monitors' log, alone: the product's consensus and its journal over disks that tear and forget, and a network that loses,
//! doubles, reorders, and cuts one way.
//!
//! The judge looks at all of them after every step:
//!
//! | rule | what it says |
//! |---|---|
//! | election safety | a term has one leader |
//! | log matching | an entry of one index and term is the same everywhere, and so is the one before it |
//! | leader completeness | who is elected has every entry that anybody has applied |
//! | state equality | who applied the same number of entries has applied the same ones, and has the same state |
//! | answers | what was answered is in every later reign, and in every read that is asked later |
//! | life | when faults stop, there is a leader, a proposal is applied by all, and nobody has stopped |
//!
//! In some runs stores are set back to older copies, writes take seconds, or a new member fails while it learns: `trouble` says what is demanded
//! then.

mod trouble;

use crate::disk::{Disk, DiskConfig};
use crate::rng::Rng;
use crate::trace::Trace;
use bytes::Bytes;
use mon::{Mistake, Told, Voter};
use node::{Mono, Now, Output, Outputs};
use std::collections::{BTreeMap, BTreeSet};
use trouble::{Trouble, Troubles};
use types::UTime;

const MS: u64 = 1_000_000;
/// How long things go wrong, and how long they then may take to be well again.
const RAGE: u64 = 60_000 * MS;
const PEACE: u64 = 20_000 * MS;

/// What a run is made of.
#[derive(Clone, Debug)]
struct Plan {
    /// Stores in all; the first three vote at first.
    stores: u64,
    proposals: u64,
    largest: u64,
    log_bytes: u64,
    /// Most entries in a message.
    batch: usize,
    /// A message is lost, doubled, late once in so many.
    lost: u64,
    doubled: u64,
    late: u64,
    /// Power fails at a disk write once in so many.
    at_write: u64,
    /// Disks are so many times slower at most.
    slower: u64,
    /// Longest pause between two faults.
    pause: u64,
    /// Members come and go.
    changes: bool,
}

fn plan(rng: &mut Rng) -> Plan {
    let stores = if rng.one_in(3) { rng.between(4, 5) } else { 3 };
    Plan {
        stores,
        proposals: rng.between(100, 500),
        largest: if rng.one_in(4) { 20_000 } else { rng.magnitude(1, 500) },
        log_bytes: *rng.pick(&[32 << 10, 128 << 10, 1 << 20]),
        batch: *rng.pick(&[1, 1, 3, 256]),
        lost: *rng.pick(&[5, 20, 100, 1000]),
        doubled: *rng.pick(&[5, 50, 1000]),
        late: *rng.pick(&[5, 50, 1000]),
        at_write: *rng.pick(&[10, 40, 200, 100_000]),
        slower: *rng.pick(&[0, 50, 500, 2000]),
        pause: *rng.pick(&[200, 600, 3000]) * MS,
        changes: stores > 3,
    }
}

enum Happening {
    /// A voter looks at its deadline.
    Wake(u64),
    Disk(u64, u64),
    Message(u64, u64, Bytes),
    Start(u64),
    /// A leader dies soon after it was elected.
    Fall(u64),
    Fault,
    Ask,
    /// Somebody copies a store.
    Copy,
}

struct Place {
    voter: Option<Voter>,
    disk: Disk,
    /// Proposals that it took in this reign and that are not answered: keys.
    asked: BTreeSet<String>,
    /// Reads under way: number and the keys that had been answered when they were asked.
    reads: BTreeMap<u64, Vec<String>>,
    /// Time when it is woken next.
    wake: u64,
    /// Its last entry and the number of applied ones when the judge looked at it last.
    looked: ((u64, u64), u64),
}

/// What is known of all.
#[derive(Default)]
struct Judge {
    leaders: BTreeMap<u64, u64>,
    /// By index and term: the term before, and what it says.
    entries: BTreeMap<(u64, u64), (u64, u32)>,
    /// By index: term, and what it says.
    applied: BTreeMap<u64, (u64, u32)>,
    states: BTreeMap<u64, u32>,
    answered: Vec<String>,
}

/// What a run did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Done {
    /// Proposals that were taken, and answered.
    pub asked: u64,
    /// See `asked`.
    pub answered: u64,
    /// Reads that were answered.
    pub reads: u64,
    /// Faults.
    pub faults: u64,
    /// Reigns.
    pub reigns: u64,
    /// States that took the place of a log.
    pub installed: u64,
    /// Changes of the members.
    pub changes: u64,
    /// Stores that were set back, and how often a voter stopped for that.
    pub set_back: u64,
    /// See `set_back`.
    pub noticed: u64,
    /// With slow disks: milliseconds until somebody led, and percent of the time after that in which somebody did.
    pub slow_first: u64,
    /// See `slow_first`.
    pub slow_led: u64,
    /// Members that were taken in while their stores failed, and vote.
    pub taken_in: u64,
}

/// Some voters, their disks and their network.
pub struct VoterTown {
    plan: Plan,
    rng: Rng,
    now: u64,
    next: u64,
    queue: BTreeMap<(u64, u64), Happening>,
    places: BTreeMap<u64, Place>,
    cuts: BTreeSet<(u64, u64)>,
    judge: Judge,
    raging: bool,
    troubles: Troubles,
    mistake: Option<Mistake>,
    /// What it did.
    pub done: Done,
    /// What happened.
    pub trace: Trace,
}

impl VoterTown {
    /// The town of a seed.
    pub fn new(seed: u64, mistake: Option<Mistake>) -> Self {
        let mut rng = Rng::new(seed);
        let mut plan = plan(&mut rng);
        let troubles = Troubles::new(seed, mistake);
        if troubles.kind == Trouble::Learner {
            (plan.stores, plan.changes) = (4, false);
        }
        let places = (1..=plan.stores).map(|id| {
            let capacity = if plan.largest > 1000 { 32 << 20 } else { 4 << 20 };
            let disk = Disk::new(DiskConfig { capacity, ..DiskConfig::default() }, rng.fork());
            let (asked, reads) = (BTreeSet::new(), BTreeMap::new());
            (id, Place { voter: None, disk, asked, reads, wake: u64::MAX, looked: Default::default() })
        });
        let places = places.collect();
        Self {
            plan,
            rng,
            now: MS,
            next: 0,
            queue: BTreeMap::new(),
            places,
            cuts: BTreeSet::new(),
            judge: Judge::default(),
            raging: true,
            troubles,
            mistake,
            done: Done::default(),
            trace: Trace::default(),
        }
    }

    /// The time, from the beginning.
    pub fn time(&self) -> std::time::Duration {
        std::time::Duration::from_nanos(self.now)
    }

    fn after(&mut self, time: u64, what: Happening) {
        self.queue.insert((self.now + time, self.next), what);
        self.next += 1;
    }

    fn clock(&self) -> Now {
        Now { mono: Mono(self.now), wall: UTime { sec: 1_790_000_000, nsec: 0 }.plus(self.time()) }
    }

    fn note(&mut self, text: impl FnOnce() -> String) {
        self.trace.line(self.now, "voters", &text());
    }

    /// Lives through a time of faults, and then one of peace.
    ///
    /// # Errors
    /// What is wrong.
    pub fn live(&mut self) -> Result<(), String> {
        for id in 1..=self.plan.stores {
            self.after(0, Happening::Start(id));
        }
        self.after(5000 * MS, Happening::Fault);
        self.after(1000 * MS, Happening::Ask);
        self.rage()?;
        if self.troubles.headless {
            return Ok(());
        }
        self.raging = false;
        self.cuts.clear();
        for id in 1..=self.plan.stores {
            let faults = &mut self.place(id).disk.faults;
            (faults.slower, faults.delay, faults.stall) = (0, 0, 0);
            if self.place(id).voter.is_none() {
                self.start(id)?;
            }
        }
        self.run_until(self.now + PEACE)?;
        if self.troubles.amnesty { self.check_agreement() } else { self.check_peace() }
    }

    fn run_until(&mut self, end: u64) -> Result<(), String> {
        while let Some((&(at, seq), _)) = self.queue.first_key_value()
            && at <= end
        {
            let Some(what) = self.queue.remove(&(at, seq)) else { break };
            self.now = self.now.max(at);
            self.happen(what)?;
        }
        self.now = end;
        Ok(())
    }

    fn place(&mut self, id: u64) -> &mut Place {
        self.places.get_mut(&id).expect("a store of this town")
    }

    fn happen(&mut self, what: Happening) -> Result<(), String> {
        match what {
            Happening::Wake(id) if self.place(id).wake != self.now => Ok(()),
            Happening::Wake(id) => {
                self.place(id).wake = u64::MAX;
                self.turn(id, Outputs::default())
            }
            Happening::Disk(id, request) => {
                let mut out = Outputs::default();
                let place = self.place(id);
                let Some(done) = place.disk.complete(request) else { return Ok(()) };
                let Some(voter) = &mut place.voter else { return Ok(()) };
                voter.disk_done(done, &mut out);
                self.turn(id, out)
            }
            Happening::Message(from, to, bytes) => {
                let now = self.clock();
                if self.cuts.contains(&(from, to)) {
                    return Ok(());
                }
                self.trace.event(self.now, "voters", "message", from, to);
                let Some(voter) = &mut self.place(to).voter else { return Ok(()) };
                voter.receive(now, &bytes).map_err(|why| format!("voter {to} refuses a message of {from}: {why}"))?;
                self.turn(to, Outputs::default())
            }
            Happening::Start(id) => self.start(id),
            Happening::Fall(id) => {
                if self.raging {
                    self.stop(id, true);
                }
                Ok(())
            }
            Happening::Fault => self.fault(),
            Happening::Ask => self.ask(),
            Happening::Copy => {
                self.copy_store();
                Ok(())
            }
        }
    }

    fn start(&mut self, id: u64) -> Result<(), String> {
        if self.place(id).voter.is_some() {
            return Ok(());
        }
        let voters: &[u64] = if id <= 3 { &[1, 2, 3] } else { &[] };
        let seed = self.rng.next();
        let voter = Voter::new(id, voters, self.plan.log_bytes, self.plan.batch, seed, self.mistake);
        self.place(id).voter = Some(voter);
        self.note(|| format!("voter {id} starts"));
        self.turn(id, Outputs::default())
    }

    fn stop(&mut self, id: u64, power: bool) {
        let place = self.place(id);
        if place.voter.take().is_none() {
            return;
        }
        (place.wake, place.looked) = (u64::MAX, Default::default());
        if power {
            place.disk.power_cut()
        } else {
            place.disk.process_died()
        }
        place.asked.clear();
        place.reads.clear();
        self.done.faults += 1;
        self.note(|| format!("voter {id} dies{}", if power { " without power" } else { "" }));
        let back = if self.rng.one_in(3) { self.rng.between(100, 5000) } else { self.rng.between(1, 100) };
        self.after(back * MS, Happening::Start(id));
    }

    /// One voter's turn, and what comes of it.
    fn turn(&mut self, id: u64, mut out: Outputs) -> Result<(), String> {
        let now = self.clock();
        let Some(voter) = &mut self.place(id).voter else { return Ok(()) };
        let told = voter.turn(now, &mut out);
        let wake = voter.deadline().0.max(now.mono.0 + 1);
        if wake < self.place(id).wake && wake != Mono::NEVER.0 {
            self.place(id).wake = wake;
            self.after(wake - now.mono.0, Happening::Wake(id));
        }
        for told in told {
            self.hear(id, told)?;
        }
        self.look_at(id)?;
        self.requests(id, out);
        Ok(())
    }

    fn requests(&mut self, id: u64, out: Outputs) {
        let mut dies = false;
        for output in out.0 {
            let Output::Disk(request) = output else { continue };
            let write = matches!(request.op, node::DiskOp::Write { .. });
            let (number, time) = self.place(id).disk.submit(request.token, request.op);
            self.after(time, Happening::Disk(id, number));
            dies |= write && self.raging && self.rng.one_in(self.plan.at_write);
        }
        if dies {
            let power = !self.rng.one_in(3);
            self.stop(id, power);
        }
    }

    fn hear(&mut self, id: u64, told: Told) -> Result<(), String> {
        match told {
            Told::Send(to, bytes) => self.send(id, to, &bytes),
            Told::Applied { index, term, what, key } => {
                self.note(|| format!("voter {id} applies entry {index} of term {term}"));
                if !self.troubles.amnesty {
                    self.judge.apply(id, index, (term, what))?;
                }
                if let Some(key) = key
                    && self.place(id).asked.remove(&key)
                {
                    self.done.answered += 1;
                    self.judge.answered.push(key);
                }
            }
            Told::Installed(index) => {
                self.done.installed += 1;
                self.note(|| format!("voter {id} takes the state as of entry {index}"));
            }
            Told::Elected(term) => {
                self.done.reigns += 1;
                self.note(|| format!("voter {id} leads in term {term}"));
                let answered = if self.troubles.amnesty { Vec::new() } else { self.judge.answered.clone() };
                let voter = self.place(id).voter.as_ref();
                if let Some(lost) = voter.and_then(|v| answered.iter().find(|key| !v.has(key))) {
                    return Err(format!("'{lost}' was answered, and is not in the reign of voter {id} in term {term}"));
                }
            }
            Told::Deposed => {
                self.note(|| format!("voter {id} leads no more"));
                let place = self.place(id);
                place.asked.clear();
                place.reads.clear();
            }
            Told::Read(read) => self.answer_read(id, read)?,
            Told::Stopped(why)
                if self.troubles.amnesty || (self.troubles.set_back.contains(&id) && why.contains("was set back")) =>
            {
                self.done.noticed += 1;
                self.note(|| format!("voter {id} stops: {why}"));
            }
            Told::Stopped(why) => return Err(format!("voter {id} stops: {why}")),
        }
        Ok(())
    }

    fn answer_read(&mut self, id: u64, read: u64) -> Result<(), String> {
        let amnesty = self.troubles.amnesty;
        let place = self.place(id);
        let (Some(keys), Some(voter)) = (place.reads.remove(&read), &place.voter) else { return Ok(()) };
        let keys = if amnesty { Vec::new() } else { keys };
        if let Some(missing) = keys.iter().find(|key| !voter.has(key)) {
            return Err(format!("a read at voter {id} does not see '{missing}', which had been answered before it was asked"));
        }
        self.done.reads += 1;
        Ok(())
    }

    fn send(&mut self, from: u64, to: u64, bytes: &Bytes) {
        let raging = self.raging;
        if !self.places.contains_key(&to) || (raging && self.rng.one_in(self.plan.lost)) {
            return;
        }
        let copies = 1 + u64::from(raging && self.rng.one_in(self.plan.doubled));
        for _ in 0..copies {
            let late = raging && self.rng.one_in(self.plan.late);
            let time = if late { self.rng.between(1, 3000) * MS } else { self.rng.between(100_000, 2 * MS) };
            self.after(time, Happening::Message(from, to, bytes.clone()));
        }
    }

    fn fault(&mut self) -> Result<(), String> {
        if !self.raging {
            return Ok(());
        }
        let id = self.rng.between(1, self.plan.stores);
        match self.rng.below(8) {
            0 => self.stop(id, false),
            1 => self.stop(id, true),
            2 => (1..=self.plan.stores).for_each(|id| self.stop(id, true)),
            3 | 4 => {
                self.done.faults += 1;
                self.cuts.clear();
                // One alone, or any links.
                let alone = self.rng.one_in(2);
                for from in 1..=self.plan.stores {
                    for to in 1..=self.plan.stores {
                        if if alone { from == id || to == id } else { self.rng.one_in(3) } {
                            self.cuts.insert((from, to));
                        }
                    }
                }
                let cuts = self.cuts.clone();
                self.note(|| format!("links are cut: {cuts:?}"));
            }
            5 => self.cuts.clear(),
            6 => {
                let slower = self.rng.magnitude(0, self.plan.slower);
                self.place(id).disk.faults.slower = slower;
            }
            _ => self.change(),
        }
        let pause = self.rng.between(1, self.plan.pause);
        self.after(pause, Happening::Fault);
        Ok(())
    }

    /// Those who take proposals; the one with the newest term last.
    fn leaders(&self) -> Vec<u64> {
        let leads = |(id, place): (&u64, &Place)| {
            let voter = place.voter.as_ref().filter(|v| v.is_leader())?;
            Some((voter.leads()?, *id))
        };
        let leaders: BTreeSet<(u64, u64)> = self.places.iter().filter_map(leads).collect();
        leaders.into_iter().map(|(_, id)| id).collect()
    }

    /// Another set of members, or another leader.
    fn change(&mut self) {
        let Some(leader) = self.leaders().last().copied() else { return };
        let id = self.rng.between(1, self.plan.stores);
        let changes = self.plan.changes;
        let Some(voter) = &mut self.place(leader).voter else { return };
        let (mut voters, mut learners) = voter.members();
        if !changes {
            voter.transfer(id);
        } else if voters.contains(&id) {
            if voters.len() <= 2 {
                return;
            }
            voters.retain(|v| *v != id);
            learners.push(id);
        } else if learners.contains(&id) {
            learners.retain(|v| *v != id);
            voters.push(id);
        } else {
            learners.push(id);
        }
        if changes && voter.change(&voters, &learners) {
            self.done.changes += 1;
            self.note(|| format!("voter {leader} changes the members to {voters:?} and {learners:?}"));
        }
    }

    fn ask(&mut self) -> Result<(), String> {
        let leaders = self.leaders();
        // An old leader that does not know of a newer one must not answer reads.
        if let (Some(oldest), Some(newest)) = (leaders.first().copied(), leaders.last().copied()) {
            if self.done.asked < self.plan.proposals || !self.raging {
                self.propose(newest);
            }
            if oldest != newest || self.rng.one_in(4) {
                self.ask_read(oldest);
            }
            self.turn(newest, Outputs::default())?;
            self.turn(oldest, Outputs::default())?;
        }
        let pause = self.rng.between(1, 300) * MS;
        self.after(pause, Happening::Ask);
        Ok(())
    }

    fn ask_read(&mut self, leader: u64) {
        let (read, answered) = (self.next, self.judge.answered.clone());
        let place = self.place(leader);
        if place.voter.as_mut().is_some_and(|v| v.read(read)) {
            place.reads.insert(read, answered);
        }
    }

    fn propose(&mut self, leader: u64) {
        let (now, key, len) = (self.clock(), format!("k{}", self.done.asked), self.rng.magnitude(0, self.plan.largest));
        let place = self.place(leader);
        if place.voter.as_mut().is_some_and(|v| v.propose(now, &key, len as usize)) {
            place.asked.insert(key);
            self.done.asked += 1;
        }
    }

    // ----- the judge

    /// Looks at one voter, whose turn it was.
    fn look_at(&mut self, id: u64) -> Result<(), String> {
        self.check_part(id)?;
        if self.troubles.amnesty {
            return Ok(());
        }
        let falls = self.raging && self.rng.one_in(3);
        let fall = self.rng.between(100_000, 20 * MS);
        let judge = &mut self.judge;
        let place = self.places.get_mut(&id).expect("a store of this town");
        let Some(voter) = &place.voter else { return Ok(()) };
        let (before, now) = (place.looked, (voter.last(), voter.applied()));
        place.looked = now;
        if before.0 != now.0 {
            judge.match_logs(id, voter)?;
        }
        if before.1 != now.1 && now.1.is_multiple_of(16) {
            judge.equal_state(id, voter)?;
        }
        let Some(term) = voter.leads() else { return Ok(()) };
        let first = !judge.leaders.contains_key(&term);
        let leader = *judge.leaders.entry(term).or_insert(id);
        if leader != id {
            return Err(format!("election safety: voters {leader} and {id} both lead in term {term}"));
        }
        if !first {
            return Ok(());
        }
        judge.complete(id, voter)?;
        if falls {
            self.after(fall, Happening::Fall(id));
        }
        Ok(())
    }

    fn check_peace(&mut self) -> Result<(), String> {
        let leaders: Vec<u64> =
            self.places.iter().filter(|(_, p)| p.voter.as_ref().is_some_and(Voter::is_leader)).map(|(id, _)| *id).collect();
        let [leader] = leaders[..] else { return Err(format!("life: after all faults the leaders are {leaders:?}")) };
        self.plan.proposals = 0;
        self.propose(leader);
        let key = format!("k{}", self.done.asked - 1);
        self.turn(leader, Outputs::default())?;
        // Nobody asks any more.
        self.queue.retain(|_, what| !matches!(what, Happening::Ask));
        self.run_until(self.now + 5000 * MS)?;
        let (voters, learners) = self.place(leader).voter.as_ref().map(Voter::members).unwrap_or_default();
        for id in voters.into_iter().chain(learners) {
            if self.troubles.set_back.contains(&id) {
                match self.places[&id].voter.as_ref().is_some_and(Voter::has_stopped) {
                    true => continue,
                    false => return Err(format!("the store of voter {id} was set back, and that is not noticed")),
                }
            }
            let answered = self.judge.answered.clone();
            let Some(voter) = &self.places[&id].voter else { return Err(format!("life: voter {id} is not there")) };
            if let Some(lost) = answered.iter().chain([&key]).find(|key| !voter.has(key)) {
                return Err(format!("life: '{lost}' is not at voter {id}, which has applied {} entries", voter.applied()));
            }
        }
        Ok(())
    }
}

impl Judge {
    fn match_logs(&mut self, id: u64, voter: &Voter) -> Result<(), String> {
        for (index, term, before, what) in voter.entries() {
            let known = *self.entries.entry((index, term)).or_insert((before, what));
            if known != (before, what) {
                return Err(format!("log matching: entry {index} of term {term} differs at voter {id}"));
            }
        }
        Ok(())
    }

    fn equal_state(&mut self, id: u64, voter: &Voter) -> Result<(), String> {
        let (index, state) = (voter.applied(), voter.state());
        if *self.states.entry(index).or_insert(state) != state {
            return Err(format!("state equality: after entry {index} voter {id} has another state than others had"));
        }
        Ok(())
    }

    fn apply(&mut self, id: u64, index: u64, what: (u64, u32)) -> Result<(), String> {
        let known = *self.applied.entry(index).or_insert(what);
        if known != what {
            return Err(format!(
                "state equality: voter {id} applies entry {index} of term {}, another one had one of term {} there",
                what.0, known.0
            ));
        }
        Ok(())
    }

    /// A new leader has all that anybody has applied.
    fn complete(&self, id: u64, voter: &Voter) -> Result<(), String> {
        let (last, _) = voter.last();
        for (index, (term, _)) in self.applied.iter().rev().take(2000) {
            let here = voter.term_at(*index);
            let forgotten = *index <= voter.applied() && here.is_none();
            if *index > last || (here != Some(*term) && !forgotten) {
                return Err(format!("leader completeness: voter {id} is elected without entry {index} of term {term}"));
            }
        }
        Ok(())
    }
}
