//! The machine: what it knows, and what it gives to its owner.

use crate::log::Log;
use crate::memory::Memory;
use crate::message::{Body, Message, Piece, Verdict};
use crate::reign::Reign;
use crate::types::{Config, Entry, Hard, Index, Marks, Membership, Position, ReadId, Saved, Term, VoterId};
use bytes::Bytes;
use node::Mono;
use std::collections::{BTreeSet, VecDeque};

/// Records to be made durable with one write, all of them or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// Term and vote.
    pub hard: Hard,
    /// Entries up to this one are known to be committed.
    pub commit: Index,
    /// Entries from here on that are on disk do not count any more.
    pub cut_from: Option<Index>,
    /// Entries that follow what then is there; from `cut_from` on, if that is given.
    pub entries: Vec<Entry>,
    /// Memory of other members, if that is new.
    pub marks: Option<Marks>,
}

/// A leader's state that takes the place of all that is here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Install {
    /// Records to be durable beside the state.
    pub saved: Saved,
    /// The owner's state as of `saved.base`.
    pub state: Bytes,
}

/// News of this node's leadership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// It leads in this term, and everything that was committed before is applied once the entries that come with this are.
    Elected(Term),
    /// It leads no more. What it proposed and what is not committed may be lost, or may be committed by another leader.
    Deposed,
}

/// Work of the owner now, in the order of the fields.
#[derive(Debug, Default)]
pub struct Ready {
    /// To be made durable, then told with [`Node::persisted`].
    pub write: Option<Write>,
    /// To be made durable instead of all that is on the disk, then told with [`Node::persisted`]; the state is to be taken up then.
    pub install: Option<Install>,
    /// To be sent. A message that is lost, doubled, late or overtaken does no harm.
    pub send: Vec<(VoterId, Message)>,
    /// Committed: to be applied in order.
    pub committed: Vec<Entry>,
    /// News of the leadership, after those entries.
    pub news: Vec<News>,
    /// Reads that may be answered, after those entries.
    pub reads: Vec<ReadId>,
    /// A peer lacks more than the log has: the owner's applied state is wanted ([`Node::offer`]).
    pub wants_state: bool,
}

/// A message that waits for the disk.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) to: VoterId,
    pub(crate) message: Message,
    /// Leaves when this version of the hard state, and entries up to `index`, are durable.
    hard: u64,
    index: Index,
}

impl Held {
    /// Takes over what an older answer says more.
    fn take_over(&mut self, old: &Held) {
        let (Body::Appended(Verdict::Matched(index), round), Body::Appended(Verdict::Matched(old_index), old_round)) =
            (&mut self.message.body, &old.message.body)
        else {
            return;
        };
        (*index, *round) = ((*index).max(*old_index), (*round).max(*old_round));
        self.index = self.index.max(old.index);
    }
}

/// Returns true if a message makes an older one to the same peer, of the same term, superfluous.
fn says_more(new: &Body, old: &Body) -> bool {
    match (new, old) {
        (Body::Append { entries, .. }, Body::Append { entries: before, .. }) => entries.is_empty() && before.is_empty(),
        (Body::Appended(Verdict::Matched(_), _), Body::Appended(Verdict::Matched(_), _)) => true,
        (Body::Appended(Verdict::Differs(_), _), Body::Appended(Verdict::Differs(_), _)) => true,
        (Body::Appended(..), Body::Appended(..)) | (Body::State(_), Body::State(_)) => false,
        _ => std::mem::discriminant(new) == std::mem::discriminant(old),
    }
}

/// Records that a write under way makes durable.
#[derive(Debug)]
pub(crate) struct Writing {
    pub(crate) last: Index,
    pub(crate) hard: u64,
    /// That version.
    pub(crate) state: Hard,
    /// It is a leader's state, which the owner takes up when it is durable.
    pub(crate) installs: bool,
}

/// Role of a node in its term.
#[derive(Debug)]
pub(crate) enum Role {
    /// It waits for a leader.
    Follower,
    /// It asks whether it would be elected; these would.
    Asking(BTreeSet<VoterId>),
    /// It wants to lead; these voted for it.
    Candidate(BTreeSet<VoterId>),
    /// It leads.
    Leader(Box<Reign>),
}

/// A state that is being received.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) piece: Piece,
    pub(crate) data: Vec<u8>,
}

/// Mistakes, to see that they are found.
#[cfg(feature = "sim")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// Messages leave before the term and the vote that they tell of are durable.
    EarlyVote,
    /// Entries of older terms are committed by counting.
    OldTermCounts,
    /// A follower keeps what contradicts its leader.
    TailKept,
    /// Entries are acknowledged before they are durable.
    EarlyAcknowledgement,
    /// Reads are answered without asking anybody.
    LonelyRead,
    /// A voter without a leader asks for votes again at once.
    Impatient,
    /// Nobody asks what others remember of it, nor believes them.
    Forgetful,
    /// A snapshot lacks what is remembered of others.
    FoldedMarks,
}

/// A member of a log that several voters agree on.
#[derive(Debug)]
pub struct Node {
    pub(crate) config: Config,
    chance: u64,
    pub(crate) now: Mono,
    pub(crate) hard: Hard,
    pub(crate) role: Role,
    pub(crate) leader: Option<VoterId>,
    /// Time when the leader was heard last.
    pub(crate) heard: Mono,
    /// Time when a follower or candidate loses its patience.
    pub(crate) patience: Mono,
    /// The last term that had a leader, as far as it knows.
    pub(crate) led: Term,
    /// Until when a candidate stands in its term.
    pub(crate) candidate_until: Mono,
    pub(crate) log: Log,
    /// Members by the entry that named them; the first by the snapshot. The last ones count.
    pub(crate) members: Vec<(Index, Membership)>,
    pub(crate) commit: Index,
    /// Entries up to this one were given to the owner.
    pub(crate) given: Index,
    /// Entries up to this one are durable and are the log's.
    pub(crate) stable: Index,
    /// Entries up to this one were given to the disk, and are the log's.
    pub(crate) on_disk: Index,
    /// Index from which on what is on the disk is not the log's.
    pub(crate) cut: Option<Index>,
    pub(crate) writing: Option<Writing>,
    pub(crate) hard_version: u64,
    pub(crate) hard_durable: u64,
    outbox: VecDeque<Held>,
    pub(crate) incoming: Option<Incoming>,
    pub(crate) install: Option<Install>,
    pub(crate) news: Vec<News>,
    pub(crate) reads: Vec<ReadId>,
    pub(crate) wants_state: bool,
    pub(crate) memory: Memory,
    broken: Option<String>,
    #[cfg(feature = "sim")]
    pub(crate) mistake: Option<Mistake>,
    #[cfg(feature = "sim")]
    pub(crate) batch: usize,
}

impl Node {
    /// A follower with what its disk knows.
    pub(crate) fn from_disk(config: Config, saved: Saved, now: Mono) -> Self {
        saved.check().expect("what is saved was checked when it was read");
        let mut members = vec![(saved.base.at.index, saved.base.membership)];
        let behind = saved.entries.iter().filter(|e| e.index > saved.base.at.index);
        members.extend(behind.filter_map(|e| Some((e.index, e.membership()?))));
        let log = Log::new(saved.before, saved.entries);
        let last = log.last().index;
        let memory = Memory::new(config.life, saved.hard, saved.marks);
        Self {
            chance: config.seed ^ config.id.0,
            config,
            now,
            hard: saved.hard,
            role: Role::Follower,
            leader: None,
            heard: now,
            patience: now,
            led: log.last().term,
            candidate_until: now,
            log,
            members,
            commit: saved.commit.max(saved.base.at.index),
            given: saved.base.at.index,
            stable: last,
            on_disk: last,
            cut: None,
            writing: None,
            hard_version: 0,
            hard_durable: 0,
            outbox: VecDeque::new(),
            incoming: None,
            install: None,
            news: Vec::new(),
            reads: Vec::new(),
            wants_state: false,
            memory,
            broken: None,
            #[cfg(feature = "sim")]
            mistake: None,
            #[cfg(feature = "sim")]
            batch: usize::MAX,
        }
    }

    // ----- what it is

    /// Returns who it is.
    pub fn id(&self) -> VoterId {
        self.config.id
    }

    /// The time that it was told last.
    pub fn now(&self) -> Mono {
        self.now
    }

    /// The newest term that it knows.
    pub fn term(&self) -> Term {
        self.hard.term
    }

    /// Returns true if it leads and its owner was told so: proposals are taken.
    pub fn is_leader(&self) -> bool {
        self.reign().is_some_and(|r| r.announced)
    }

    /// Returns true if it was elected in this term, whether its owner knows or not.
    pub fn leads(&self) -> bool {
        self.reign().is_some()
    }

    /// The entries in memory.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.log.iter()
    }

    /// Returns whom it takes for the leader.
    pub fn leader(&self) -> Option<VoterId> {
        self.leader
    }

    /// Returns who takes part, by the newest entry about it.
    pub fn membership(&self) -> &Membership {
        let (_, membership) = self.members.last().expect("a snapshot names members");
        membership
    }

    /// Returns true if it is the only voter.
    pub fn is_alone(&self) -> bool {
        let voters = &self.membership().voters;
        voters.len() == 1 && voters.contains(&self.config.id)
    }

    /// The last entry's place.
    pub fn last(&self) -> Position {
        self.log.last()
    }

    /// Up to where the log is committed, as far as this member knows.
    pub fn committed(&self) -> Index {
        self.commit
    }

    /// The term of the entry at `index`, if that is known.
    pub fn term_at(&self, index: Index) -> Option<Term> {
        self.log.term_at(index)
    }

    /// Returns why it can do nothing any more: its log and the leader's contradict each other where both are
    /// committed, its store was set back, or its owner's state differs from the leader's. The owner must stop.
    pub fn broken(&self) -> Option<&str> {
        self.broken.as_deref()
    }

    /// Returns when [`Node::tick`] must be called at the latest. One voter alone waits for nothing.
    pub fn deadline(&self) -> Mono {
        match &self.role {
            Role::Leader(reign) => reign.deadline(),
            _ if self.is_unsure() => self.patience,
            _ if self.membership().voters.contains(&self.config.id) || self.leader.is_some() => self.patience,
            _ => Mono::NEVER,
        }
    }

    /// Sends at most so many entries in a message, and so many messages without an answer.
    #[cfg(feature = "sim")]
    pub fn send_at_most(&mut self, entries: usize) {
        self.batch = entries;
    }

    /// Switches a mistake on.
    #[cfg(feature = "sim")]
    pub fn err(&mut self, mistake: Option<Mistake>) {
        self.mistake = mistake;
        match mistake {
            Some(Mistake::Forgetful) => self.be_sure(),
            // What members remember of each other hides what a promise that was not kept does. The older rules are judged without it.
            Some(_) => self.remember_nothing(),
            None => {}
        }
    }

    #[cfg(feature = "sim")]
    pub(crate) fn errs(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    pub(crate) fn reign(&self) -> Option<&Reign> {
        if let Role::Leader(reign) = &self.role { Some(reign) } else { None }
    }

    pub(crate) fn reign_mut(&mut self) -> Option<&mut Reign> {
        if let Role::Leader(reign) = &mut self.role { Some(reign) } else { None }
    }

    /// The members as of an entry.
    pub(crate) fn members_at(&self, index: Index) -> Membership {
        let at = self.members.iter().rev().find(|(from, _)| *from <= index).or(self.members.first());
        at.map(|(_, m)| m.clone()).unwrap_or_default()
    }

    /// A number below `n`, which is not 0 (splitmix64).
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.chance = self.chance.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.chance ^ (self.chance >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }

    pub(crate) fn contradicts(&mut self, why: String) {
        self.fail(format!("the monitors' logs contradict each other: {why}"));
    }

    pub(crate) fn fail(&mut self, why: String) {
        self.broken.get_or_insert(why);
    }

    // ----- its log

    /// Adds an entry at the end of the log. A membership counts from now on.
    pub(crate) fn append(&mut self, entry: Entry) {
        if let Some(membership) = entry.membership() {
            self.members.push((entry.index, membership));
        }
        self.log.push(entry);
    }

    /// Takes away the entry at `from` and all after it.
    pub(crate) fn cut(&mut self, from: Index) {
        self.log.cut(from);
        self.members.retain(|(index, _)| *index < from);
        self.stable = self.stable.min(from - 1);
        if let Some(writing) = &mut self.writing {
            writing.last = writing.last.min(from - 1);
        }
        if self.on_disk >= from {
            self.on_disk = from - 1;
            self.cut = Some(self.cut.map_or(from, |cut| cut.min(from)));
        }
        self.outbox.retain(|held| held.index < from);
    }

    /// Notes another term or vote.
    pub(crate) fn set_hard(&mut self, hard: Hard) {
        if self.hard != hard {
            self.hard = hard;
            self.hard_version += 1;
        }
    }

    // ----- messages

    /// Sends something that is true once the hard state and entries up to `index` are durable.
    pub(crate) fn send_after(&mut self, index: Index, to: VoterId, body: Body) {
        let message = Message::new(self.hard.term, body);
        let mut new = Held { to, message, hard: self.hard_version, index };
        let wait = |index: Index| (index > self.stable, index > self.on_disk);
        // A disk may be stuck for long: what says less than the new one and leaves no sooner makes room for it.
        let old = |old: &&mut Held| {
            old.to == to
                && old.hard == new.hard
                && wait(old.index) == wait(index)
                && says_more(&new.message.body, &old.message.body)
        };
        if let Some(old) = self.outbox.iter_mut().find(old) {
            new.take_over(old);
            *old = new;
        } else {
            self.outbox.push_back(new);
        }
    }

    /// Sends something that is true once the hard state is durable.
    pub(crate) fn send(&mut self, to: VoterId, body: Body) {
        self.send_after(0, to, body);
    }

    /// Forgets what was to be said in an older term.
    pub(crate) fn say_nothing(&mut self) {
        self.outbox.clear();
    }

    fn may_leave(&self, held: &Held) -> bool {
        #[cfg(feature = "sim")]
        if self.errs(Mistake::EarlyVote) {
            return held.index <= self.stable;
        }
        #[cfg(feature = "sim")]
        if self.errs(Mistake::EarlyAcknowledgement) {
            return held.hard <= self.hard_durable;
        }
        held.hard <= self.hard_durable && held.index <= self.stable
    }

    /// Messages that wait for the disk.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.outbox.len()
    }

    /// Returns what may leave now: to itself, and to others. While there is something to itself, nothing else leaves.
    pub(crate) fn take_leaving(&mut self) -> (Vec<Held>, Vec<Held>) {
        let (leaves, stays) = std::mem::take(&mut self.outbox).into_iter().partition(|held| self.may_leave(held));
        self.outbox = stays;
        let leaves: VecDeque<Held> = leaves;
        let (mine, others): (Vec<Held>, Vec<Held>) = leaves.into_iter().partition(|held| held.to == self.config.id);
        if mine.is_empty() {
            return (mine, others);
        }
        self.outbox.extend(others);
        (mine, Vec::new())
    }
}
