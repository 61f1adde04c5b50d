//! What every voter has: the state that is durable, the log, and the disk that both are on.
//!
//! Its owner gives it disk completions and the time, and takes what follows from them. It applies what is committed, whoever leads; a leader
//! that has made the states ahead of time gives them in instead ([`Replica::commit`]).

use crate::disk::format::Snapshot;
use crate::disk::journal::{Event, Journal};
use crate::disk::v1;
use bytes::Bytes;
use denc::Decode;
use monstate::state::{Proposal, State};
use node::{DeviceId, DiskDone, Now, Outputs};
use quorum::{Config, Entry, Index, Membership, News, Node, Position, ReadId, Saved, VoterId};
use std::sync::Arc;
use types::Feature;
use types::level::Level;

/// The term of everything that a store of version 1 holds.
pub(crate) const FIRST_TERM: u64 = 1;

/// After so many entries each voter takes the checksum of its state. A fold of the log encodes the state as well, and comes about as often.
#[cfg(not(feature = "sim"))]
const SUM_EVERY: Index = 1024;
#[cfg(feature = "sim")]
const SUM_EVERY: Index = 16;

/// A voter that remembers what others promised; its start is told from others by chance.
fn config(voter: VoterId, seed: u64) -> Config {
    Config { life: (seed ^ seed.rotate_left(29)).max(1), ..Config::new(voter, seed) }
}

/// Work that the disk is busy with.
enum UnderWay {
    Nothing,
    Group,
    /// A snapshot of the state.
    Fold,
    /// A leader's state, to be taken up when it is durable.
    Install(Arc<State>),
}

/// Event from the disk.
pub enum Happened {
    /// It has never been used.
    Fresh,
    /// The log is read; this is what people may be told. It can be worked with.
    Opened(String),
    /// The log is read, and a snapshot of it is being written first; then [`Happened::Ready`].
    Mending(String),
    /// The first snapshot is in force.
    Ready,
    /// Something became durable.
    Written,
    /// It is out of space; the write is tried again.
    NoSpace,
    /// It cannot be gone on with.
    Failed(String),
}

/// Work that is to be done after [`Replica::advance`].
#[derive(Default)]
pub struct Next {
    /// For other voters.
    pub send: Vec<(VoterId, Bytes)>,
    /// To be given to [`Replica::commit`], in order.
    pub committed: Vec<Entry>,
    /// News of the leadership.
    pub news: Vec<News>,
    /// Reads that may be answered.
    pub reads: Vec<ReadId>,
    /// The log is to be folded, when all that is committed is applied.
    pub fold: bool,
    /// The applied state is wanted by a peer.
    pub wants_state: bool,
}

/// A voter's part of the monitor.
pub struct Replica {
    /// Everything committed, as far as this voter knows.
    pub applied: Arc<State>,
    /// The disk.
    pub journal: Journal,
    /// The log, as far as voters agree on it.
    pub log: Node,
    fsid: [u8; 16],
    /// Chance for elections' pauses and the number of this start.
    seed: u64,
    under_way: UnderWay,
    /// Bytes of the last snapshot that was written.
    pub snapshot_bytes: u64,
    /// It was not told [`Happened::Ready`] yet.
    mending: bool,
}

impl Replica {
    /// On device 0, for cluster `fsid`; `state` stands in until the disk is read. `voter` is the number of a store that is made or converted;
    /// `seed` is chance.
    pub fn new(fsid: [u8; 16], log_bytes: u64, state: State, voter: VoterId, seed: u64) -> Self {
        let log = Node::new(config(voter, seed), Saved::alone(voter, Position::default()), node::Mono(0));
        let journal = Journal::new(DeviceId(0), fsid, log_bytes);
        let (under_way, mending) = (UnderWay::Nothing, false);
        Self { applied: Arc::new(state), journal, log, fsid, seed, under_way, snapshot_bytes: 0, mending }
    }

    /// A disk request ended.
    pub fn disk_done(&mut self, done: DiskDone, out: &mut Outputs) {
        self.journal.disk_done(done, out);
    }

    /// Returns what came of the disk since.
    pub fn poll(&mut self, now: Now, out: &mut Outputs) -> Option<Happened> {
        Some(match self.journal.poll()? {
            Event::Fresh => Happened::Fresh,
            Event::Opened { snapshot, torn } => self.opened(now, snapshot, torn, out).unwrap_or_else(Happened::Failed),
            Event::Old { index, state, entries } => {
                self.convert(now, index, &state, &entries, out).unwrap_or_else(Happened::Failed)
            }
            Event::Persisted | Event::Snapshotted => self.written(),
            Event::NoSpace => Happened::NoSpace,
            Event::Failed(why) => Happened::Failed(why),
        })
    }

    fn written(&mut self) -> Happened {
        self.log.persisted();
        if let UnderWay::Install(state) = std::mem::replace(&mut self.under_way, UnderWay::Nothing) {
            self.applied = state;
        }
        if std::mem::take(&mut self.mending) { Happened::Ready } else { Happened::Written }
    }

    /// Begins the store of a new cluster.
    pub fn make(&mut self, now: Now, state: State, membership: Option<Membership>, out: &mut Outputs) {
        self.applied = Arc::new(state);
        let id = self.log.id();
        let mut saved = Saved::alone(id, Position::default());
        if let Some(membership) = membership {
            saved.base.membership = membership;
        }
        self.log = Node::new(config(id, self.seed), saved, now.mono);
        self.mend(out);
    }

    fn mend(&mut self, out: &mut Outputs) {
        self.mending = true;
        self.fold(out);
    }

    fn opened(&mut self, now: Now, snapshot: Snapshot, torn: bool, out: &mut Outputs) -> Result<Happened, String> {
        let Snapshot { voter, saved, state } = snapshot;
        let index = saved.base.at.index;
        self.applied = Arc::new(read_state(index, &state)?);
        let text = format!("state read: {} entries after the snapshot of entry {index}", behind(&saved));
        self.log = Node::new(config(voter, self.seed), saved, now.mono);
        if !torn {
            return Ok(Happened::Opened(text));
        }
        self.mend(out);
        Ok(Happened::Mending(format!("{text}; the last write before the stop was cut short, nobody had been told of it")))
    }

    /// A store of version 1: its state and entries become a snapshot of this version. Until that is in force, nothing has changed.
    fn convert(
        &mut self,
        now: Now,
        index: Index,
        state: &[u8],
        entries: &[v1::Entry],
        out: &mut Outputs,
    ) -> Result<Happened, String> {
        let state = recover_old(index, state, entries)?;
        let term = if state.index == 0 { 0 } else { FIRST_TERM };
        let (at, id) = (Position { term, index: state.index }, self.log.id());
        self.applied = Arc::new(state);
        self.log = Node::new(config(id, self.seed), Saved::alone(id, at), now.mono);
        self.mend(out);
        Ok(Happened::Mending(format!("the store of format version 1 is converted at entry {}", at.index)))
    }

    /// Writes the state as a snapshot; the log begins anew behind it.
    pub fn fold(&mut self, out: &mut Outputs) {
        let saved = self.log.fold();
        assert_eq!(saved.base.at.index, self.applied.index, "the state has everything that was committed");
        let state: Bytes = self.applied.to_snapshot().into();
        self.snapshot_bytes = state.len() as u64;
        self.under_way = UnderWay::Fold;
        self.write_snapshot(saved, state, self.applied.osdmap.level, out);
    }

    /// Writes a snapshot of a state of this level. The level decides whether it has marks, not what this voter had applied before: a store whose
    /// last write was torn is written anew before anything is applied, and must forget nothing then.
    fn write_snapshot(&mut self, mut saved: Saved, state: Bytes, level: Level, out: &mut Outputs) {
        if !level.has(Feature::StoreMarks) {
            saved.marks.clear();
        }
        self.journal.snapshot(&Snapshot { voter: self.log.id(), saved, state }, level, out);
    }

    /// Writes what is to be written, and tells what else has become possible.
    ///
    /// # Errors
    /// Why this voter must stop.
    pub fn advance(&mut self, now: Now, out: &mut Outputs) -> Result<Next, String> {
        self.log.keep_marks(self.applied.osdmap.level.has(Feature::StoreMarks));
        self.log.tick(now.mono);
        let idle = self.journal.is_idle() && matches!(self.under_way, UnderWay::Nothing);
        let marked = self.journal.is_marked(self.applied.osdmap.level);
        let fold = idle && (!marked || self.journal.wants_snapshot(self.log.next_write_bytes()));
        let ready = self.log.ready(idle && !fold);
        if let Some(write) = ready.write {
            self.under_way = UnderWay::Group;
            self.journal.append(write, out);
        }
        if let Some(install) = ready.install {
            let state = read_state(install.saved.base.at.index, &install.state)?;
            let level = state.osdmap.level;
            self.under_way = UnderWay::Install(Arc::new(state));
            self.write_snapshot(install.saved, install.state, level, out);
        }
        if let Some(why) = self.log.broken() {
            return Err(why.into());
        }
        let send = ready.send.into_iter().map(|(to, m)| (to, m.to_wire(&self.fsid, self.log.id(), to))).collect();
        let (committed, news, reads) = (ready.committed, ready.news, ready.reads);
        Ok(Next { send, committed, news, reads, fold, wants_state: ready.wants_state })
    }

    /// Takes up a committed entry: with the state that its proposer made ahead of time, or by applying it.
    ///
    /// # Errors
    /// If it does not fit the state.
    pub fn commit(&mut self, entry: &Entry, ahead: Option<Arc<State>>) -> Result<(), String> {
        if entry.index != self.applied.index + 1 {
            return Err(format!("entry {} was committed after entry {}", entry.index, self.applied.index));
        }
        self.applied = match ahead {
            Some(state) => state,
            None => Arc::new(apply(&self.applied, entry)?),
        };
        if entry.index.is_multiple_of(SUM_EVERY) && self.applied.osdmap.level.has(Feature::StoreMarks) && !self.log.is_alone() {
            self.log.note_state(entry.index, kernels::crc32c(kernels::SEED, &self.applied.to_snapshot()));
        }
        Ok(())
    }

    /// Gives the log the applied state, for a peer that lacks too much.
    pub fn offer(&mut self) {
        self.log.offer(self.applied.index, self.applied.to_snapshot().into());
    }
}

/// The state after an entry.
fn apply(state: &State, entry: &Entry) -> Result<State, String> {
    if entry.kind != quorum::Kind::Command {
        return Ok(state.passed(entry.index));
    }
    let proposal = Proposal::from_bytes(&entry.data).map_err(|e| format!("entry {} of the monitor's log: {e}", entry.index))?;
    state.apply(entry.index, &proposal)
}

fn read_state(index: Index, bytes: &[u8]) -> Result<State, String> {
    let state = State::from_snapshot(bytes).map_err(|e| format!("the monitor's snapshot cannot be read: {e}"))?;
    if state.index != index {
        return Err(format!("the monitor's snapshot is of entry {}, its superblock says {index}", state.index));
    }
    Ok(state)
}

/// Entries behind the snapshot.
pub(crate) fn behind(saved: &Saved) -> usize {
    saved.entries.iter().filter(|e| e.index > saved.base.at.index).count()
}

/// The state out of a store of version 1.
///
/// # Errors
/// What cannot be read or applied.
pub(crate) fn recover_old(index: Index, state: &[u8], entries: &[v1::Entry]) -> Result<State, String> {
    let mut state = read_state(index, state)?;
    for entry in entries {
        let proposal =
            Proposal::from_bytes(&entry.data).map_err(|e| format!("entry {} of the monitor's log: {e}", entry.index))?;
        state = state.apply(entry.index, &proposal)?;
    }
    Ok(state)
}

/// The state after everything in the log.
///
/// # Errors
/// What cannot be read or applied.
pub(crate) fn recover(snapshot: &Snapshot) -> Result<State, String> {
    recover_to(snapshot, Index::MAX)
}

/// The state after the log's entries up to `last`; the snapshot's, if that is newer.
///
/// # Errors
/// What cannot be read or applied.
pub(crate) fn recover_to(snapshot: &Snapshot, last: Index) -> Result<State, String> {
    let base = snapshot.saved.base.at.index;
    let mut state = read_state(base, &snapshot.state)?;
    for entry in snapshot.saved.entries.iter().filter(|e| e.index > base && e.index <= last) {
        state = apply(&state, entry)?;
    }
    Ok(state)
}
