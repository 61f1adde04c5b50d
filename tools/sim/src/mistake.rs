//! Stores and OSDs that misbehave in ways that have cost data or time in the past, to prove that the checkers see it; and the
//! product's store as its host starts it.

use crate::promises::Promises;
use crate::rng::Rng;
use crate::vitals::{Pulse, Signs};
use crate::wounds::Wounds;
use bytes::Bytes;
use mon::Monitor;
use node::{DiskDone, Input, Mono, Node, Now, Outputs};
use objectstore::{
    Event, Hold, Limit, ObjectChanges, ObjectStat, ObjectStore, Page, Range, Read, Refused, Space, Ticket, Transaction, Unfit,
    View, Wish,
};
use osd::{Backend, Counted, Osd, Readiness};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;
use types::{ObjectId, Rope, ShardId, SpgId};

/// What a store or an OSD does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// A commit is told at once, before the disk has it.
    EarlyCommit,
    /// A group's own keys (its log) go into a transaction of their own, after the objects'.
    SplitTransaction,
    /// Data is read without looking at its checksum while the disk rots: now and then a bit is wrong.
    UncheckedRead,
    /// Nobody hands the maps to clients whose writes were dropped for want of room.
    SilentDrop,
    /// What another OSD did not answer before its session broke is never asked again.
    LostFetch,
    /// A session for heartbeats that broke is never opened again.
    MuteBeats,
    /// OSDs accuse others of what passed while they were late themselves.
    Careless,
    /// The monitor believes of the present life of an OSD what is said of an earlier one.
    Gullible,
    /// An OSD without monitors wants to be woken for what it cannot tell them.
    PastDeadline,
    /// An OSD asks to be marked up again and again.
    BootAgain,
    /// Letters of a round go in one message, however long it gets.
    SendWhole,
    /// Who asks for a group that came out of a split in this turn, and is not loaded yet, hears that there is nothing.
    HastyAbsence,
    /// Groups say in every eighth turn again what was not answered.
    AskAgain,
    /// An OSD that a monitor lets in and refuses comes back at once.
    HuntAtOnce,
    /// An OSD keeps 4 KiB of each turn.
    Hoard,
    /// An OSD writes a line in each turn.
    Chatter,
    /// The copies of groups err.
    Copies(osd::Mistake),
    /// Now and then a placement group forgets which job holds an object.
    LostHolder,
    /// A placement group forgets an operation that it has not answered.
    LostOperation,
    /// Monitors do again what comes again.
    DoneTwice,
    /// The monitors' log errs.
    Monitors(mon::Mistake),
    /// Monitors raise the level while older programs run.
    HastyRaise,
    /// An OSD that stops relies on promises to its end.
    ReadToTheEnd,
    /// An OSD that starts does not know what its former life promised.
    ForgetPromises,
    /// Clocks stand while their host sleeps.
    SleepUncounted,
    /// A store is not told of a flush that found no space.
    ForgottenFlush,
    /// Flushes of a store's data disk go to its journal's disk.
    FlushesOther,
    /// What a store tells its disk of as free gets one block more at its end.
    TrimsBeyond,
    /// What stores bring together errs.
    Moves(store::MoveMistake),
    /// A store that a fault has met wants to be woken at once from then on.
    Restless,
    /// A store that takes no writes does not say so.
    HiddenImpairment,
}

/// All of them.
const ALL: &[Mistake] = &[
    Mistake::EarlyCommit,
    Mistake::SplitTransaction,
    Mistake::UncheckedRead,
    Mistake::SilentDrop,
    Mistake::LostFetch,
    Mistake::MuteBeats,
    Mistake::Careless,
    Mistake::Gullible,
    Mistake::PastDeadline,
    Mistake::BootAgain,
    Mistake::AskAgain,
    Mistake::SendWhole,
    Mistake::HastyAbsence,
    Mistake::HuntAtOnce,
    Mistake::Hoard,
    Mistake::Chatter,
    Mistake::Copies(osd::Mistake::AckEarly),
    Mistake::Copies(osd::Mistake::PromiseEarly),
    Mistake::Copies(osd::Mistake::ForgetRanges),
    Mistake::Copies(osd::Mistake::IgnoreDamage),
    Mistake::Copies(osd::Mistake::OtherInterval),
    Mistake::Copies(osd::Mistake::NoUpThru),
    Mistake::Copies(osd::Mistake::ForgetIntervals),
    Mistake::Copies(osd::Mistake::ForgetMissing),
    Mistake::Copies(osd::Mistake::ReadWithoutLease),
    Mistake::Copies(osd::Mistake::IgnoreRests),
    Mistake::Copies(osd::Mistake::ReadUnsettled),
    Mistake::Copies(osd::Mistake::ReadAsideWithoutLease),
    Mistake::Copies(osd::Mistake::FirstLook),
    Mistake::Copies(osd::Mistake::TrustPrimary),
    Mistake::Copies(osd::Mistake::IgnoreLevel),
    Mistake::Copies(osd::Mistake::ForgetSourceDups),
    Mistake::Copies(osd::Mistake::ForgetSourceSnaps),
    Mistake::Copies(osd::Mistake::TakeAnySource),
    Mistake::Copies(osd::Mistake::GoHomeTwice),
    Mistake::Copies(osd::Mistake::ActivateEarly),
    Mistake::Copies(osd::Mistake::CollectAlone),
    Mistake::Copies(osd::Mistake::RepeatEarly),
    Mistake::Copies(osd::Mistake::TakePartEarly),
    Mistake::Copies(osd::Mistake::KeepGone),
    Mistake::Copies(osd::Mistake::PullEarly),
    Mistake::Copies(osd::Mistake::IgnoreGaps),
    Mistake::Copies(osd::Mistake::LeapGaps),
    Mistake::Copies(osd::Mistake::AgelessSource),
    Mistake::Copies(osd::Mistake::SeekAtOnce),
    Mistake::Copies(osd::Mistake::ForgetRecords),
    Mistake::Copies(osd::Mistake::VolunteerEarly),
    Mistake::Copies(osd::Mistake::NeedAll),
    Mistake::Copies(osd::Mistake::PurgeAlone),
    Mistake::Copies(osd::Mistake::WatchInVain),
    Mistake::Copies(osd::Mistake::TrustEmpty),
    Mistake::Copies(osd::Mistake::BornAgain),
    Mistake::Copies(osd::Mistake::CountReplaced),
    Mistake::Copies(osd::Mistake::ServeBeforeUp),
    Mistake::Copies(osd::Mistake::NeverHoldBack),
    Mistake::Copies(osd::Mistake::PassMissing),
    Mistake::Copies(osd::Mistake::StableEarly),
    Mistake::Copies(osd::Mistake::ForgetKept),
    Mistake::Copies(osd::Mistake::UndoElsewhere),
    Mistake::Copies(osd::Mistake::LongestLog),
    Mistake::Copies(osd::Mistake::LowestOfAll),
    Mistake::Copies(osd::Mistake::AckByMost),
    Mistake::LostHolder,
    Mistake::LostOperation,
    Mistake::DoneTwice,
    Mistake::Monitors(mon::Mistake::EarlyVote),
    Mistake::Monitors(mon::Mistake::OldTermCounts),
    Mistake::Monitors(mon::Mistake::TailKept),
    Mistake::Monitors(mon::Mistake::EarlyAcknowledgement),
    Mistake::Monitors(mon::Mistake::LonelyRead),
    Mistake::Monitors(mon::Mistake::Impatient),
    Mistake::Monitors(mon::Mistake::Forgetful),
    Mistake::Monitors(mon::Mistake::FoldedMarks),
    Mistake::HastyRaise,
    Mistake::ReadToTheEnd,
    Mistake::ForgetPromises,
    Mistake::SleepUncounted,
    Mistake::ForgottenFlush,
    Mistake::FlushesOther,
    Mistake::TrimsBeyond,
    Mistake::Moves(store::MoveMistake::MoveUnlooked),
    Mistake::Moves(store::MoveMistake::MoveClonesUnlooked),
    Mistake::Moves(store::MoveMistake::MoveUnflushed),
    Mistake::Restless,
    Mistake::HiddenImpairment,
];

impl Mistake {
    /// Returns what it is called: `EarlyCommit`, `AckEarly`.
    pub fn name(self) -> String {
        match self {
            Mistake::Copies(mistake) => format!("{mistake:?}"),
            Mistake::Monitors(mistake) => format!("{mistake:?}"),
            Mistake::Moves(mistake) => format!("{mistake:?}"),
            other => format!("{other:?}"),
        }
    }

    /// Returns the mistake of the monitors' log, if it is one.
    pub fn of_monitors(self) -> Option<mon::Mistake> {
        if let Mistake::Monitors(mistake) = self { Some(mistake) } else { None }
    }

    /// One by its name.
    pub fn by_name(name: &str) -> Option<Mistake> {
        ALL.iter().copied().find(|mistake| mistake.name() == name)
    }

    /// Returns the scenario that finds it first, and from which seed on it is looked for: what is rare is looked for from near where it is.
    pub fn found_by(self) -> (&'static str, u64) {
        use osd::Mistake as Copies;
        let scenario = match self {
            Mistake::EarlyCommit | Mistake::SplitTransaction => "torn",
            Mistake::UncheckedRead | Mistake::LostHolder | Mistake::LostOperation => "calm",
            Mistake::SilentDrop => "full",
            Mistake::LostFetch | Mistake::MuteBeats => "peers",
            Mistake::SendWhole => "copies",
            Mistake::HastyAbsence => "splits",
            Mistake::Careless | Mistake::Gullible => "downs",
            Mistake::PastDeadline
            | Mistake::BootAgain
            | Mistake::AskAgain
            | Mistake::HuntAtOnce
            | Mistake::Hoard
            | Mistake::Chatter => "idle",
            Mistake::DoneTwice => "quorum",
            Mistake::HastyRaise => return ("upgrade", 10),
            Mistake::ReadToTheEnd => "farewells",
            Mistake::ForgetPromises => "amnesias",
            Mistake::SleepUncounted => "sleepers",
            Mistake::ForgottenFlush | Mistake::Restless => "store-flush",
            Mistake::FlushesOther => "store-journal",
            Mistake::Moves(store::MoveMistake::MoveUnflushed) => "store-moves",
            Mistake::TrimsBeyond | Mistake::Moves(_) => "store-discard",
            Mistake::HiddenImpairment => "copies-index",
            Mistake::Monitors(mistake) => match mistake {
                mon::Mistake::EarlyVote => return ("voters", 130),
                mon::Mistake::OldTermCounts => return ("voters", 40),
                mon::Mistake::LonelyRead => return ("voters", 100),
                mon::Mistake::TailKept
                | mon::Mistake::EarlyAcknowledgement
                | mon::Mistake::Forgetful
                | mon::Mistake::FoldedMarks => "voters",
                mon::Mistake::Impatient => "idle",
            },
            Mistake::Copies(mistake) => match mistake {
                Copies::AckEarly
                | Copies::ForgetMissing
                | Copies::ForgetRanges
                | Copies::ActivateEarly
                | Copies::CollectAlone
                | Copies::RepeatEarly
                | Copies::VolunteerEarly => "copies-dense",
                Copies::PromiseEarly | Copies::OtherInterval | Copies::NoUpThru => "copies-traps",
                Copies::ForgetIntervals => "copies-turns",
                Copies::IgnoreDamage => "copies-rot",
                Copies::ReadWithoutLease | Copies::IgnoreRests => "islands",
                Copies::ReadUnsettled | Copies::ReadAsideWithoutLease => "asides",
                Copies::FirstLook | Copies::TrustPrimary => "copies-scrub",
                Copies::IgnoreLevel => "upgrade",
                Copies::ForgetSourceSnaps => "merges",
                Copies::ForgetSourceDups | Copies::TakeAnySource => "merges-traps",
                Copies::GoHomeTwice | Copies::WatchInVain => "idle",
                Copies::TakePartEarly => "blackouts",
                Copies::KeepGone | Copies::NeedAll => "strays",
                Copies::PassMissing => return ("strays", 9_000_018),
                Copies::PullEarly => "rot-beside",
                Copies::IgnoreGaps => "gaps",
                Copies::LeapGaps => "gaps-moved",
                Copies::AgelessSource | Copies::SeekAtOnce => "rot-everywhere",
                Copies::ForgetRecords => "few-records",
                Copies::PurgeAlone => "late-snaps",
                Copies::TrustEmpty | Copies::BornAgain => "disks-lost",
                Copies::CountReplaced => "disks-filled",
                Copies::ServeBeforeUp => "deaths",
                Copies::NeverHoldBack => "floods",
                Copies::LongestLog | Copies::UndoElsewhere | Copies::StableEarly => "shards-torn",
                Copies::ForgetKept | Copies::LowestOfAll | Copies::AckByMost => "shards-turns",
            },
        };
        (scenario, 0)
    }

    /// All of them.
    pub fn all() -> &'static [Mistake] {
        ALL
    }

    /// The names of all.
    pub fn names() -> Vec<String> {
        ALL.iter().map(|mistake| mistake.name()).collect()
    }
}

/// Turns between two thorough checks.
const THOROUGH: u32 = 64;

/// A monitor that must keep its own rules after every turn, perhaps with a mistake.
pub struct Strict {
    monitor: Monitor,
    mistake: Option<Mistake>,
    /// The term in which it leads; 0 if it does not.
    reign: Rc<Cell<u64>>,
    pulse: Pulse,
}

impl Strict {
    /// This monitor, which shows in `reign` in which term it leads, and in `pulse` what it does.
    pub fn new(monitor: Monitor, mistake: Option<Mistake>, reign: Rc<Cell<u64>>, pulse: Pulse) -> Self {
        reign.set(0);
        pulse.born();
        Self { monitor, mistake, reign, pulse }
    }
}

impl Node for Strict {
    fn handle(&mut self, now: Now, input: Input, out: &mut Outputs) {
        self.monitor.handle(now, input, out);
    }
    fn turn(&mut self, now: Now, out: &mut Outputs) {
        match self.mistake {
            Some(Mistake::Gullible) => self.monitor.believe_of_any_life(),
            Some(Mistake::Monitors(mistake)) => self.monitor.log_errs(mistake),
            Some(Mistake::HastyRaise) => self.monitor.raise_hastily(),
            _ => {}
        }
        self.monitor.turn(now, out);
        self.reign.set(self.monitor.reign());
        let (epoch, term, entries) = self.monitor.progress();
        self.pulse.shows(Signs { epoch: epoch.into(), term, entries, ..Signs::default() });
        self.monitor.self_check().unwrap_or_else(|why| panic!("the monitor breaks its own rules: {why}"));
    }
    fn deadline(&self) -> Mono {
        self.monitor.deadline()
    }
    fn carried_out(&mut self, now: Now) {
        self.monitor.carried_out(now);
    }
}

/// An OSD that must keep its own rules after every turn, perhaps with a mistake.
pub struct Wayward {
    osd: Osd,
    mistake: Option<Mistake>,
    turns: u32,
    pulse: Pulse,
    /// Changes of maps that it keeps, if not as many as always.
    few_maps: Option<usize>,
    /// Its number, and who judges what it acknowledges.
    judged: Option<(i32, Rc<RefCell<Promises>>)>,
    /// What [`Mistake::Hoard`] keeps.
    hoard: Vec<[u8; 4096]>,
    /// Letters that come are logged.
    letters: bool,
}

impl Wayward {
    /// This OSD, which shows in `pulse` what it does.
    pub fn new(mut osd: Osd, mistake: Option<Mistake>, pulse: Pulse) -> Self {
        if mistake == Some(Mistake::ForgetPromises) {
            osd.forget_promises();
        }
        pulse.born();
        Self { osd, mistake, turns: 0, pulse, few_maps: None, judged: None, hoard: Vec::new(), letters: false }
    }

    /// The same, which logs the letters that come, if so.
    pub(crate) fn telling(self, letters: bool) -> Self {
        Self { letters, ..self }
    }

    /// The same, which keeps no more changes of maps than so many.
    pub(crate) fn keeping(self, few_maps: Option<usize>) -> Self {
        Self { few_maps, ..self }
    }

    /// The same, whose acknowledgements are judged.
    pub(crate) fn judged(mut self, number: i32, judge: Rc<RefCell<Promises>>) -> Self {
        self.osd.keep_answers();
        self.judged = Some((number, judge));
        self
    }

    fn look_at_answers(&mut self) {
        let Some((number, judge)) = &self.judged else { return };
        self.osd.life().into_iter().for_each(|life| judge.borrow_mut().lives(*number, life));
        for answered in self.osd.take_answered() {
            judge.borrow_mut().look(*number, &answered);
        }
    }
}

impl Node for Wayward {
    fn handle(&mut self, now: Now, input: Input, out: &mut Outputs) {
        self.osd.handle(now, input, out);
    }
    fn turn(&mut self, now: Now, out: &mut Outputs) {
        if let Some(most) = self.few_maps {
            self.osd.keep_maps(most);
        }
        self.osd.turn(now, out);
        if self.letters {
            self.osd.heard_letters().into_iter().for_each(|line| out.log(node::Level::Debug, "letter", line));
        }
        self.turns += 1;
        self.look_at_answers();
        let (letters, boots) = self.osd.asked();
        self.pulse.shows(Signs { letters, boots, waits_for: self.osd.waits_for(), ..Signs::default() });
        match self.mistake {
            // Maps come in turns of their own, nearly always.
            Some(Mistake::SilentDrop) => self.osd.forget_turned_away(),
            Some(Mistake::LostHolder) if self.turns.is_multiple_of(16) => self.osd.forget_holder(),
            Some(Mistake::LostOperation) if self.turns.is_multiple_of(16) => self.osd.forget_operation(),
            Some(Mistake::Copies(mistake)) => self.osd.copies_err(mistake),
            Some(Mistake::Careless) => self.osd.accuse_carelessly(),
            Some(Mistake::ReadToTheEnd) => self.osd.read_to_the_end(),
            Some(Mistake::MuteBeats) => self.osd.give_up_beats(),
            Some(Mistake::PastDeadline) => self.osd.tell_nobody(),
            Some(Mistake::BootAgain) => self.osd.boot_again(now),
            Some(Mistake::AskAgain) if self.turns.is_multiple_of(8) => self.osd.write_all_again(now),
            Some(Mistake::SendWhole) => self.osd.send_whole(),
            Some(Mistake::HastyAbsence) => self.osd.answer_before_loading(),
            Some(Mistake::HuntAtOnce) => self.osd.hunt_at_once(),
            Some(Mistake::Hoard) => self.hoard.push([0; 4096]),
            Some(Mistake::Chatter) => out.log(node::Level::Info, "osd", "turns"),
            // The rules would find it; that clients find it, too, is to be shown.
            Some(Mistake::LostFetch) => return self.osd.forget_resends(),
            _ => {}
        }
        let checked = self.osd.self_check(self.turns.is_multiple_of(THOROUGH));
        checked.unwrap_or_else(|why| panic!("the OSD breaks its own rules: {why}"));
    }
    fn deadline(&self) -> Mono {
        self.osd.deadline()
    }
    fn carried_out(&mut self, now: Now) {
        self.osd.carried_out(now);
    }
}

/// Tickets of the second halves of split transactions lie above all others.
const SECOND_HALF: u64 = 1 << 63;

/// Opens a store that turned out to be there.
pub type Reopen = Box<dyn FnOnce() -> Box<dyn Backend>>;

/// Turns between two checkpoints of a store that is to move much.
pub(crate) const COMPACTS: u32 = 64;
/// The same of a store that is to move as much as it can.
pub(crate) const OFTEN: u32 = 8;

/// A store, perhaps with a mistake.
pub struct Wrapped {
    store: Box<dyn Backend>,
    mistake: Option<Mistake>,
    /// For a store that was asked to be made, and may have been made before a crash.
    reopen: Option<Reopen>,
    /// True if it was ever ready.
    made: Rc<Cell<bool>>,
    events: VecDeque<Event>,
    told: BTreeSet<Ticket>,
    halves: u64,
    rng: RefCell<Rng>,
    wounds: Option<Wounds>,
    /// True if it takes no writes now.
    impaired: Option<Rc<Cell<bool>>>,
    /// Parts of objects that defragmentation moved, of all stores and lives; and in this one.
    pub(crate) moved: Rc<Cell<u64>>,
    moved_here: u64,
    /// Turns between two checkpoints, if what lies scattered comes together all the time; and turns so far.
    compacts: Option<u32>,
    turns: u32,
}

impl Wrapped {
    /// This store. `made` is set when it is ready.
    pub fn new(
        store: Box<dyn Backend>,
        reopen: Option<Reopen>,
        made: Rc<Cell<bool>>,
        mistake: Option<Mistake>,
        seed: u64,
    ) -> Self {
        let rng = RefCell::new(Rng::new(seed));
        let (events, told) = (VecDeque::new(), BTreeSet::new());
        Self {
            store,
            mistake,
            reopen,
            made,
            events,
            told,
            halves: 0,
            rng,
            wounds: None,
            impaired: None,
            moved: Rc::default(),
            moved_here: 0,
            compacts: None,
            turns: 0,
        }
    }

    /// The same store. If it brings together what lies scattered all the time, it makes checkpoints often: what changed since the last
    /// one does not move.
    pub(crate) fn in_haste(self, compacts: Option<u32>) -> Self {
        Self { compacts, ..self }
    }

    /// The same store, which takes no writes while `impaired` says so, as if a page of its index were damaged.
    pub(crate) fn impaired_by(self, impaired: Option<Rc<Cell<bool>>>) -> Self {
        Self { impaired, ..self }
    }

    fn is_impaired(&self) -> bool {
        self.impaired.as_ref().is_some_and(|impaired| impaired.get())
    }

    /// The same store, whose old data turn out to be damaged now and then.
    pub(crate) fn wounded(self, wounds: Wounds) -> Self {
        Self { wounds: Some(wounds), ..self }
    }

    fn submit_split(&mut self, whole: Transaction, ticket: Ticket) -> Result<(), Refused> {
        if whole.meta.is_empty() || whole.objects.is_empty() {
            return self.store.submit(whole, ticket);
        }
        let objects = Transaction { meta: Vec::new(), ..whole.clone() };
        let meta = Transaction { objects: Vec::new(), ..whole };
        self.halves += 1;
        self.store.submit(objects, Ticket(SECOND_HALF | self.halves))?;
        self.store.submit(meta, ticket)
    }
}

impl Backend for Wrapped {
    fn disk_done(&mut self, now: Now, done: DiskDone) {
        self.store.disk_done(now, done);
    }
    fn turn(&mut self, now: Now, out: &mut Outputs) {
        match self.store.readiness() {
            Readiness::Failed(_) if !self.made.get() => {
                if let Some(reopen) = self.reopen.take() {
                    self.store = reopen();
                }
            }
            Readiness::Ready => self.made.set(true),
            _ => {}
        }
        if let Some(wounds) = &mut self.wounds {
            self.events.extend(wounds.tell().map(Event::Rotten));
        }
        self.turns += 1;
        if self.compacts.is_some_and(|compacts| self.turns.is_multiple_of(compacts)) && self.store.readiness() == Readiness::Ready
        {
            self.store.compact();
        }
        self.store.turn(now, out);
        let moved = self.store.moved_parts();
        self.moved.set(self.moved.get() + moved.saturating_sub(self.moved_here));
        self.moved_here = moved;
    }
    fn deadline(&self) -> Mono {
        let reopens = self.reopen.is_some() && matches!(self.store.readiness(), Readiness::Failed(_));
        if reopens { Mono(0) } else { self.store.deadline() }
    }
    fn readiness(&self) -> Readiness {
        match self.store.readiness() {
            Readiness::Failed(_) if self.reopen.is_some() && !self.made.get() => Readiness::Opening,
            readiness => readiness,
        }
    }
    fn impairment(&self) -> Option<String> {
        let says = self.mistake != Some(Mistake::HiddenImpairment);
        let why =
            (says && self.is_impaired()).then(|| "a page of the index, as the simulator wants it, cannot be read".to_owned());
        why.or_else(|| self.store.impairment())
    }
    fn begin_stop(&mut self) {
        self.store.begin_stop();
    }
    fn stopped(&self) -> bool {
        self.store.stopped()
    }
    fn self_check(&self, thorough: bool) -> Result<(), String> {
        self.store.self_check(thorough)
    }
    fn kind(&self) -> &'static str {
        self.store.kind()
    }
    fn counted(&self) -> Option<Counted> {
        self.store.counted()
    }
}

impl View for Wrapped {
    fn stat(&self, hold: Hold, object: &ObjectId) -> Read<Option<ObjectStat>> {
        self.store.stat(hold, object)
    }
    fn read(&self, hold: Hold, object: &ObjectId, offset: u64, len: u64) -> Read<Rope> {
        self.wounds.as_ref().map_or(Ok(()), |wounds| wounds.look(object))?;
        let data = self.store.read(hold, object, offset, len)?;
        let mut rng = self.rng.borrow_mut();
        if self.mistake != Some(Mistake::UncheckedRead) || data.is_empty() || !rng.one_in(50) {
            return Ok(data);
        }
        let mut rotten = data.to_vec();
        let at = rng.index(rotten.len());
        rotten[at] ^= 1 << rng.below(8);
        Ok(rotten.into())
    }
    fn extents(&self, hold: Hold, object: &ObjectId, offset: u64, len: u64) -> Read<Vec<(u64, u64)>> {
        self.store.extents(hold, object, offset, len)
    }
    fn xattr(&self, hold: Hold, object: &ObjectId, name: &[u8]) -> Read<Option<Bytes>> {
        self.store.xattr(hold, object, name)
    }
    fn xattrs(&self, hold: Hold, object: &ObjectId) -> Read<Vec<(Bytes, Bytes)>> {
        self.store.xattrs(hold, object)
    }
    fn omap_header(&self, hold: Hold, object: &ObjectId) -> Read<Bytes> {
        self.store.omap_header(hold, object)
    }
    fn omap_scan(&self, hold: Hold, object: &ObjectId, range: Range<'_>, limit: Limit) -> Read<Page> {
        self.store.omap_scan(hold, object, range, limit)
    }
    fn omap_get(&self, hold: Hold, object: &ObjectId, keys: &[Bytes]) -> Read<Vec<(Bytes, Bytes)>> {
        self.store.omap_get(hold, object, keys)
    }
    fn list(&self, hold: Hold, shard: ShardId, from: &ObjectId, to: &ObjectId, max: usize) -> Read<Vec<ObjectId>> {
        self.store.list(hold, shard, from, to, max)
    }
    fn meta_get(&self, hold: Hold, scope: &SpgId, key: &[u8]) -> Read<Option<Bytes>> {
        self.store.meta_get(hold, scope, key)
    }
    fn meta_scan(&self, hold: Hold, scope: &SpgId, range: Range<'_>, limit: Limit) -> Read<Page> {
        self.store.meta_scan(hold, scope, range, limit)
    }
    fn scopes(&self, hold: Hold) -> Read<Vec<SpgId>> {
        self.store.scopes(hold)
    }
}

impl ObjectStore for Wrapped {
    fn fetch(&mut self, hold: Hold, wish: Wish) {
        self.store.fetch(hold, wish);
    }
    fn release(&mut self, hold: Hold) {
        self.store.release(hold);
    }
    fn rehearse(&self, hold: Hold, objects: &[ObjectChanges]) -> Result<(), Unfit> {
        self.wounds.as_ref().map_or(Ok(()), |wounds| wounds.rehearse(objects))?;
        self.store.rehearse(hold, objects)
    }
    fn submit(&mut self, mut transaction: Transaction, ticket: Ticket) -> Result<(), Refused> {
        if self.is_impaired() {
            return Err(Refused::Damaged);
        }
        if let Some(wounds) = &mut self.wounds {
            let harmed = wounds.harm(&mut transaction);
            self.store.submit(transaction, ticket)?;
            self.events.extend((!harmed.is_empty()).then_some(Event::Damaged(ticket, harmed)));
            return Ok(());
        }
        match self.mistake {
            Some(Mistake::EarlyCommit) => {
                self.store.submit(transaction, ticket)?;
                self.told.insert(ticket);
                self.events.push_back(Event::Committed(ticket));
                Ok(())
            }
            Some(Mistake::SplitTransaction) => self.submit_split(transaction, ticket),
            _ => self.store.submit(transaction, ticket),
        }
    }
    fn congested(&self) -> bool {
        self.store.congested()
    }
    fn poll_event(&mut self) -> Option<Event> {
        if let Some(event) = self.events.pop_front() {
            return Some(event);
        }
        loop {
            let event = self.store.poll_event()?;
            match &event {
                Event::Committed(ticket) if self.told.remove(ticket) || ticket.0 & SECOND_HALF != 0 => {}
                _ => return Some(event),
            }
        }
    }
    fn space(&self) -> Space {
        self.store.space()
    }
}
