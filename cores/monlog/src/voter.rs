//! A voter alone: the log, its disk and the state that it gives, without what a monitor does with them. For the
//! simulator, which lets several of them talk.

use crate::replica::{Happened, Replica};
use bytes::Bytes;
use denc::Encode;
use monstate::config::Config;
use monstate::state::{Change, Proposal, genesis};
use node::{DiskDone, Mono, Now, Outputs};
use quorum::{Membership, Message, Mistake, News, ReadId, VoterId};
use types::{Fsid, UTime};

/// The cluster of all of them.
const FSID: [u8; 16] = [7; 16];

/// Word of a voter to the world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// A message for another one.
    Send(u64, Bytes),
    /// An entry is committed and applied.
    Applied {
        /// The entry.
        index: u64,
        /// Its term.
        term: u64,
        /// Checksum of what it says.
        what: u32,
        /// The key that it sets, if it is a proposal.
        key: Option<String>,
    },
    /// A leader's state took the place of its own, up to this entry.
    Installed(u64),
    /// Its reign begins.
    Elected(u64),
    /// Its reign is over.
    Deposed,
    /// This read may be answered.
    Read(u64),
    /// It cannot go on.
    Stopped(String),
}

/// One voter.
pub struct Voter {
    replica: Replica,
    members: Membership,
    working: bool,
    stopped: bool,
    begun: bool,
    mistake: Option<Mistake>,
    /// Most entries in a message.
    batch: usize,
}

impl Voter {
    /// Member `id` (not 0). A disk that was never used begins a log of these voters; none: it waits to be taken in.
    /// It sends at most `batch` entries in a message.
    pub fn new(id: u64, voters: &[u64], log_bytes: u64, batch: usize, seed: u64, mistake: Option<Mistake>) -> Self {
        let replica = Replica::new(FSID, log_bytes, genesis::state(&config(), UTime::ZERO), VoterId(id), seed);
        let voters = voters.iter().map(|v| VoterId(*v)).collect();
        let members = Membership { voters, ..Membership::default() };
        Self { replica, members, working: false, stopped: false, begun: false, mistake, batch }
    }

    /// A disk request ended.
    pub fn disk_done(&mut self, done: DiskDone, out: &mut Outputs) {
        self.replica.disk_done(done, out);
    }

    /// A message came.
    ///
    /// # Errors
    /// Why it is not taken.
    pub fn receive(&mut self, now: Now, bytes: &[u8]) -> Result<(), String> {
        if self.working && !self.stopped {
            let (from, message) = Message::from_wire(bytes, &FSID, self.replica.log.id()).map_err(|e| e.to_string())?;
            self.replica.log.step(now.mono, from, message);
        }
        Ok(())
    }

    /// Does what has become possible.
    pub fn turn(&mut self, now: Now, out: &mut Outputs) -> Vec<Told> {
        let mut told = Vec::new();
        if !std::mem::replace(&mut self.begun, true) {
            self.replica.journal.open(out);
        }
        self.replica.journal.turn(now, out);
        loop {
            let from = told.len();
            self.disk_events(now, out, &mut told);
            if self.working
                && !self.stopped
                && let Err(why) = self.advance(now, out, &mut told)
            {
                self.stopped = true;
                told.push(Told::Stopped(why));
            }
            if told.len() == from {
                break;
            }
        }
        if self.working {
            self.replica.journal.claim(now, out);
        }
        told
    }

    fn disk_events(&mut self, now: Now, out: &mut Outputs, told: &mut Vec<Told>) {
        let before = self.replica.applied.index;
        while let Some(happened) = self.replica.poll(now, out) {
            match happened {
                Happened::Fresh => {
                    let state = genesis::state(&config(), UTime::ZERO);
                    self.replica.make(now, state, Some(self.members.clone()), out);
                }
                Happened::Opened(_) | Happened::Ready => self.working = true,
                Happened::Failed(why) => {
                    self.stopped = true;
                    told.push(Told::Stopped(why));
                }
                Happened::Mending(_) | Happened::Written | Happened::NoSpace => {}
            }
            self.replica.log.err(self.mistake);
            self.replica.log.send_at_most(self.batch);
        }
        let after = self.replica.applied.index;
        if after != before {
            told.push(Told::Installed(after));
        }
    }

    fn advance(&mut self, now: Now, out: &mut Outputs, told: &mut Vec<Told>) -> Result<(), String> {
        let next = self.replica.advance(now, out)?;
        told.extend(next.send.into_iter().map(|(to, bytes)| Told::Send(to.0, bytes)));
        for entry in &next.committed {
            self.replica.commit(entry, None)?;
            let what = digest(&entry.data);
            let key = if entry.kind == quorum::Kind::Command { key_of(&entry.data) } else { None };
            told.push(Told::Applied { index: entry.index, term: entry.term, what, key });
        }
        told.extend(next.news.into_iter().map(|news| match news {
            News::Elected(term) => Told::Elected(term),
            News::Deposed => Told::Deposed,
        }));
        told.extend(next.reads.into_iter().map(|id| Told::Read(id.0)));
        if next.wants_state {
            self.replica.offer();
        }
        if next.fold {
            self.replica.fold(out);
        }
        Ok(())
    }

    /// Returns when [`Voter::turn`] must be called at the latest.
    pub fn deadline(&self) -> Mono {
        let log = if self.working && !self.stopped { self.replica.log.deadline() } else { Mono::NEVER };
        log.min(self.replica.journal.deadline())
    }

    /// Proposes to set a key to so many bytes. Whether that was taken.
    pub fn propose(&mut self, now: Now, key: &str, len: usize) -> bool {
        let change = Change::Key { key: key.into(), value: Some(vec![b'x'; len].into()) };
        let proposal = Proposal { stamp: now.wall, changes: vec![change] };
        self.working && self.replica.log.propose(proposal.to_bytes()).is_ok()
    }

    /// Asks for a read.
    pub fn read(&mut self, id: u64) -> bool {
        self.working && self.replica.log.read_index(ReadId(id)).is_ok()
    }

    /// Returns true if the applied state has a key.
    pub fn has(&self, key: &str) -> bool {
        self.replica.applied.keys.contains_key(key)
    }

    /// Changes the members; whether that was taken.
    pub fn change(&mut self, voters: &[u64], learners: &[u64]) -> bool {
        let set = |ids: &[u64]| ids.iter().map(|id| VoterId(*id)).collect();
        self.working && self.replica.log.change(Membership { voters: set(voters), learners: set(learners) }).is_ok()
    }

    /// Returns who votes, and who only learns.
    pub fn members(&self) -> (Vec<u64>, Vec<u64>) {
        let members = self.replica.log.membership();
        let ids = |set: &std::collections::BTreeSet<VoterId>| set.iter().map(|id| id.0).collect();
        (ids(&members.voters), ids(&members.learners))
    }

    /// Hands the leadership over; whether that was taken.
    pub fn transfer(&mut self, to: u64) -> bool {
        self.working && self.replica.log.transfer(VoterId(to)).is_ok()
    }

    /// Returns true if it takes part: it has read its store, has not stopped, and knows that nobody remembers newer
    /// promises of it.
    pub fn takes_part(&self) -> bool {
        self.working && !self.stopped && !self.replica.log.is_unsure() && self.replica.log.broken().is_none()
    }

    /// Returns true if it has stopped for good.
    pub fn has_stopped(&self) -> bool {
        self.stopped
    }

    /// The term that it leads in, told of or not.
    pub fn leads(&self) -> Option<u64> {
        let log = &self.replica.log;
        (self.working && !self.stopped && log.leads()).then(|| log.term())
    }

    /// Returns true if proposals are taken.
    pub fn is_leader(&self) -> bool {
        self.working && !self.stopped && self.replica.log.is_leader()
    }

    /// The last entry that is applied.
    pub fn applied(&self) -> u64 {
        self.replica.applied.index
    }

    /// The last entry's index and term.
    pub fn last(&self) -> (u64, u64) {
        let last = self.replica.log.last();
        (last.index, last.term)
    }

    /// The term of an entry, if that is in memory.
    pub fn term_at(&self, index: u64) -> Option<u64> {
        self.replica.log.term_at(index)
    }

    /// The entries in memory: index, term, the term of the one before, checksum of what it says.
    pub fn entries(&self) -> Vec<(u64, u64, u64, u32)> {
        let log = &self.replica.log;
        let before = |index: u64| log.term_at(index - 1).unwrap_or_default();
        log.entries().map(|e| (e.index, e.term, before(e.index), digest(&e.data))).collect()
    }

    /// Checksum of the applied state.
    pub fn state(&self) -> u32 {
        kernels::crc32c(kernels::SEED, &self.replica.applied.to_snapshot())
    }
}

/// Tells proposals apart: their keys stand at the beginning.
fn digest(data: &[u8]) -> u32 {
    kernels::crc32c(denc::len32(data.len()), &data[..data.len().min(64)])
}

fn key_of(data: &Bytes) -> Option<String> {
    let proposal = <Proposal as denc::Decode>::from_bytes(data).ok()?;
    proposal.changes.into_iter().find_map(|change| if let Change::Key { key, .. } = change { Some(key) } else { None })
}

fn config() -> Config {
    Config::bare(Fsid(FSID), "a")
}
