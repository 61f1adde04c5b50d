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
pub enum Misdeed {
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
const ALL: &[Misdeed] = &[
    Misdeed::EarlyCommit,
    Misdeed::SplitTransaction,
    Misdeed::UncheckedRead,
    Misdeed::SilentDrop,
    Misdeed::LostFetch,
    Misdeed::MuteBeats,
    Misdeed::Careless,
    Misdeed::Gullible,
    Misdeed::PastDeadline,
    Misdeed::BootAgain,
    Misdeed::AskAgain,
    Misdeed::SendWhole,
    Misdeed::HastyAbsence,
    Misdeed::HuntAtOnce,
    Misdeed::Hoard,
    Misdeed::Chatter,
    Misdeed::Copies(osd::Mistake::AckEarly),
    Misdeed::Copies(osd::Mistake::PromiseEarly),
    Misdeed::Copies(osd::Mistake::ForgetRanges),
    Misdeed::Copies(osd::Mistake::IgnoreDamage),
    Misdeed::Copies(osd::Mistake::OtherInterval),
    Misdeed::Copies(osd::Mistake::NoUpThru),
    Misdeed::Copies(osd::Mistake::ForgetIntervals),
    Misdeed::Copies(osd::Mistake::ForgetMissing),
    Misdeed::Copies(osd::Mistake::ReadWithoutLease),
    Misdeed::Copies(osd::Mistake::IgnoreRests),
    Misdeed::Copies(osd::Mistake::ReadUnsettled),
    Misdeed::Copies(osd::Mistake::ReadAsideWithoutLease),
    Misdeed::Copies(osd::Mistake::FirstLook),
    Misdeed::Copies(osd::Mistake::TrustPrimary),
    Misdeed::Copies(osd::Mistake::IgnoreLevel),
    Misdeed::Copies(osd::Mistake::ForgetSourceDups),
    Misdeed::Copies(osd::Mistake::ForgetSourceSnaps),
    Misdeed::Copies(osd::Mistake::TakeAnySource),
    Misdeed::Copies(osd::Mistake::GoHomeTwice),
    Misdeed::Copies(osd::Mistake::ActivateEarly),
    Misdeed::Copies(osd::Mistake::CollectAlone),
    Misdeed::Copies(osd::Mistake::RepeatEarly),
    Misdeed::Copies(osd::Mistake::TakePartEarly),
    Misdeed::Copies(osd::Mistake::KeepGone),
    Misdeed::Copies(osd::Mistake::PullEarly),
    Misdeed::Copies(osd::Mistake::IgnoreGaps),
    Misdeed::Copies(osd::Mistake::LeapGaps),
    Misdeed::Copies(osd::Mistake::AgelessSource),
    Misdeed::Copies(osd::Mistake::SeekAtOnce),
    Misdeed::Copies(osd::Mistake::ForgetRecords),
    Misdeed::Copies(osd::Mistake::VolunteerEarly),
    Misdeed::Copies(osd::Mistake::NeedAll),
    Misdeed::Copies(osd::Mistake::PurgeAlone),
    Misdeed::Copies(osd::Mistake::WatchInVain),
    Misdeed::Copies(osd::Mistake::TrustEmpty),
    Misdeed::Copies(osd::Mistake::BornAgain),
    Misdeed::Copies(osd::Mistake::CountReplaced),
    Misdeed::Copies(osd::Mistake::ServeBeforeUp),
    Misdeed::Copies(osd::Mistake::NeverHoldBack),
    Misdeed::Copies(osd::Mistake::PassMissing),
    Misdeed::LostHolder,
    Misdeed::LostOperation,
    Misdeed::DoneTwice,
    Misdeed::Monitors(mon::Mistake::EarlyVote),
    Misdeed::Monitors(mon::Mistake::OldTermCounts),
    Misdeed::Monitors(mon::Mistake::TailKept),
    Misdeed::Monitors(mon::Mistake::EarlyAcknowledgement),
    Misdeed::Monitors(mon::Mistake::LonelyRead),
    Misdeed::Monitors(mon::Mistake::Impatient),
    Misdeed::Monitors(mon::Mistake::Forgetful),
    Misdeed::Monitors(mon::Mistake::FoldedMarks),
    Misdeed::HastyRaise,
    Misdeed::ReadToTheEnd,
    Misdeed::ForgetPromises,
    Misdeed::SleepUncounted,
    Misdeed::ForgottenFlush,
    Misdeed::FlushesOther,
    Misdeed::TrimsBeyond,
    Misdeed::Moves(store::MoveMistake::MoveUnlooked),
    Misdeed::Moves(store::MoveMistake::MoveClonesUnlooked),
    Misdeed::Moves(store::MoveMistake::MoveUnflushed),
    Misdeed::Restless,
    Misdeed::HiddenImpairment,
];

impl Misdeed {
    /// Returns what it is called: `EarlyCommit`, `AckEarly`.
    pub fn name(self) -> String {
        match self {
            Misdeed::Copies(mistake) => format!("{mistake:?}"),
            Misdeed::Monitors(mistake) => format!("{mistake:?}"),
            Misdeed::Moves(mistake) => format!("{mistake:?}"),
            other => format!("{other:?}"),
        }
    }

    /// One by its name.
    pub fn by_name(name: &str) -> Option<Misdeed> {
        ALL.iter().copied().find(|misdeed| misdeed.name() == name)
    }

    /// Returns the scenario that finds it first, and from which seed on it is looked for: what is rare is looked for from near where it is.
    pub fn found_by(self) -> (&'static str, u64) {
        use osd::Mistake as Copies;
        let scenario = match self {
            Misdeed::EarlyCommit | Misdeed::SplitTransaction => "torn",
            Misdeed::UncheckedRead | Misdeed::LostHolder | Misdeed::LostOperation => "calm",
            Misdeed::SilentDrop => "full",
            Misdeed::LostFetch | Misdeed::MuteBeats => "peers",
            Misdeed::SendWhole => "copies",
            Misdeed::HastyAbsence => "splits",
            Misdeed::Careless | Misdeed::Gullible => "downs",
            Misdeed::PastDeadline
            | Misdeed::BootAgain
            | Misdeed::AskAgain
            | Misdeed::HuntAtOnce
            | Misdeed::Hoard
            | Misdeed::Chatter => "idle",
            Misdeed::DoneTwice => "quorum",
            Misdeed::HastyRaise => return ("upgrade", 10),
            Misdeed::ReadToTheEnd => "farewells",
            Misdeed::ForgetPromises => "amnesias",
            Misdeed::SleepUncounted => "sleepers",
            Misdeed::ForgottenFlush | Misdeed::Restless => "store-flush",
            Misdeed::FlushesOther => "store-journal",
            Misdeed::Moves(store::MoveMistake::MoveUnflushed) => "store-moves",
            Misdeed::TrimsBeyond | Misdeed::Moves(_) => "store-discard",
            Misdeed::HiddenImpairment => "copies-index",
            Misdeed::Monitors(mistake) => match mistake {
                mon::Mistake::EarlyVote => return ("voters", 130),
                mon::Mistake::OldTermCounts => return ("voters", 40),
                mon::Mistake::LonelyRead => return ("voters", 100),
                mon::Mistake::TailKept
                | mon::Mistake::EarlyAcknowledgement
                | mon::Mistake::Forgetful
                | mon::Mistake::FoldedMarks => "voters",
                mon::Mistake::Impatient => "idle",
            },
            Misdeed::Copies(mistake) => match mistake {
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
            },
        };
        (scenario, 0)
    }

    /// All of them.
    pub fn all() -> &'static [Misdeed] {
        ALL
    }

    /// The names of all.
    pub fn names() -> Vec<String> {
        ALL.iter().map(|misdeed| misdeed.name()).collect()
    }
}

/// Turns between two thorough checks.
const THOROUGH: u32 = 64;

/// A monitor that must keep its own rules after every turn, perhaps with a misdeed.
pub struct Strict {
    monitor: Monitor,
    misdeed: Option<Misdeed>,
    /// The term in which it leads; 0 if it does not.
    reign: Rc<Cell<u64>>,
    pulse: Pulse,
}

impl Strict {
    /// This monitor, which shows in `reign` in which term it leads, and in `pulse` what it does.
    pub fn new(monitor: Monitor, misdeed: Option<Misdeed>, reign: Rc<Cell<u64>>, pulse: Pulse) -> Self {
        reign.set(0);
        pulse.born();
        Self { monitor, misdeed, reign, pulse }
    }
}

impl Node for Strict {
    fn handle(&mut self, now: Now, input: Input, out: &mut Outputs) {
        self.monitor.handle(now, input, out);
    }
    fn turn(&mut self, now: Now, out: &mut Outputs) {
        match self.misdeed {
            Some(Misdeed::Gullible) => self.monitor.believe_of_any_life(),
            Some(Misdeed::Monitors(mistake)) => self.monitor.log_errs(mistake),
            Some(Misdeed::HastyRaise) => self.monitor.raise_hastily(),
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

/// An OSD that must keep its own rules after every turn, perhaps with a misdeed.
pub struct Wayward {
    osd: Osd,
    misdeed: Option<Misdeed>,
    turns: u32,
    pulse: Pulse,
    /// Changes of maps that it keeps, if not as many as always.
    few_maps: Option<usize>,
    /// Its number, and who judges what it acknowledges.
    judged: Option<(i32, Rc<RefCell<Promises>>)>,
    /// What [`Misdeed::Hoard`] keeps.
    hoard: Vec<[u8; 4096]>,
    /// Letters that come are logged.
    letters: bool,
}

impl Wayward {
    /// This OSD, which shows in `pulse` what it does.
    pub fn new(mut osd: Osd, misdeed: Option<Misdeed>, pulse: Pulse) -> Self {
        if misdeed == Some(Misdeed::ForgetPromises) {
            osd.forget_promises();
        }
        pulse.born();
        Self { osd, misdeed, turns: 0, pulse, few_maps: None, judged: None, hoard: Vec::new(), letters: false }
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
        match self.misdeed {
            // Maps come in turns of their own, nearly always.
            Some(Misdeed::SilentDrop) => self.osd.forget_turned_away(),
            Some(Misdeed::LostHolder) if self.turns.is_multiple_of(16) => self.osd.forget_holder(),
            Some(Misdeed::LostOperation) if self.turns.is_multiple_of(16) => self.osd.forget_operation(),
            Some(Misdeed::Copies(mistake)) => self.osd.copies_err(mistake),
            Some(Misdeed::Careless) => self.osd.accuse_carelessly(),
            Some(Misdeed::ReadToTheEnd) => self.osd.read_to_the_end(),
            Some(Misdeed::MuteBeats) => self.osd.give_up_beats(),
            Some(Misdeed::PastDeadline) => self.osd.tell_nobody(),
            Some(Misdeed::BootAgain) => self.osd.boot_again(now),
            Some(Misdeed::AskAgain) if self.turns.is_multiple_of(8) => self.osd.write_all_again(now),
            Some(Misdeed::SendWhole) => self.osd.send_whole(),
            Some(Misdeed::HastyAbsence) => self.osd.answer_before_loading(),
            Some(Misdeed::HuntAtOnce) => self.osd.hunt_at_once(),
            Some(Misdeed::Hoard) => self.hoard.push([0; 4096]),
            Some(Misdeed::Chatter) => out.log(node::Level::Info, "osd", "turns"),
            // The rules would find it; that clients find it, too, is to be shown.
            Some(Misdeed::LostFetch) => return self.osd.forget_resends(),
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

/// A store, perhaps with a misdeed.
pub struct Wrapped {
    store: Box<dyn Backend>,
    misdeed: Option<Misdeed>,
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
        misdeed: Option<Misdeed>,
        seed: u64,
    ) -> Self {
        let rng = RefCell::new(Rng::new(seed));
        let (events, told) = (VecDeque::new(), BTreeSet::new());
        Self {
            store,
            misdeed,
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
        let says = self.misdeed != Some(Misdeed::HiddenImpairment);
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
        if self.misdeed != Some(Misdeed::UncheckedRead) || data.is_empty() || !rng.one_in(50) {
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
        match self.misdeed {
            Some(Misdeed::EarlyCommit) => {
                self.store.submit(transaction, ticket)?;
                self.told.insert(ticket);
                self.events.push_back(Event::Committed(ticket));
                Ok(())
            }
            Some(Misdeed::SplitTransaction) => self.submit_split(transaction, ticket),
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
