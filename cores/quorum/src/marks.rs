//! What other members remember of each voter, so that a store that was set back to an older copy is noticed.
//!
//! A voter must never forget its term, its vote and the entries that it acknowledged. An older copy of its store has forgotten some of them. The
//! store cannot tell by itself; so each member keeps a [`Mark`] of each other one: the newest promise that it has shown. Marks go with every
//! message, so they spread through the leader's beats, and each member keeps them on its disk, too.
//!
//! | who | does what |
//! |---|---|
//! | a voter that starts | is *unsure*: it writes nothing, votes for nobody and acknowledges nothing, but asks the others. Their answers have their marks |
//! | anybody who reads a mark of itself that its store does not keep | stops at once ([`Node::broken`]) |
//! | a voter to whom all others answered | takes part |
//! | a voter to whom a majority answered (itself counted) | takes part when a leader is heard, or [`GRACE`] after its start |
//! | a voter that hears a leader [`GRACE`] after its start | takes part: that leader has a majority without it |
//!
//! An answer counts only if it shows that the question of this start had been heard ([`Tail::heard`]): a late one may be older than the copy.
//! What cannot be noticed, and why: `docs/decisions/0032-stores-that-forget.md`.
//!
//! Members also compare checksums of their owners' states after certain entries with those of the leader: who differs stops.

use crate::machine::{Node, Role};
use crate::memory::Unsure;
use crate::message::{Body, MOST, Message, Tail, Verdict};
use crate::types::{Index, Mark, Marks, Position, VoterId};
use node::Mono;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A voter that starts waits so many elections' times for the answers of more than a majority.
const GRACE: u32 = 3;
/// Marks that changed are written alone after so long, if nothing else is to be written meanwhile.
const WRITE_AFTER: Duration = Duration::from_secs(2);
/// Checksums of states that are kept.
const SUMS: usize = 8;
/// A member that spoke as if it had forgotten something is believed to have when it says nothing else for so long: one late message is no sign.
const BELIEVED: Duration = Duration::from_secs(1);

impl Node {
    /// Returns true if marks may be written to the disk in groups. A snapshot always has them: its owner leaves them out where the snapshot's own
    /// level does not allow them.
    pub fn keep_marks(&mut self, keeps: bool) {
        if keeps && !self.memory.keeps && !self.memory.marks.is_empty() {
            // A snapshot of a lower level may have left them out.
            self.memory.dirty.get_or_insert(self.now);
        }
        self.memory.keeps = keeps;
    }

    /// Returns true if it does not know yet whether its store is the newest one: it takes no part.
    pub fn is_unsure(&self) -> bool {
        self.memory.unsure.is_some()
    }

    /// Returns what it remembers of others.
    pub fn marks(&self) -> &Marks {
        &self.memory.marks
    }

    /// Members whose stores were set back: they started with less than they had promised, and have stopped. This node's word for it is what it
    /// remembers of them; who asks nobody is not noticed.
    pub fn set_back(&self) -> BTreeSet<VoterId> {
        let members = self.membership();
        let believed = |(id, since): &(&VoterId, &Mono)| {
            self.now.since(**since) >= BELIEVED && (members.voters.contains(id) || members.learners.contains(id))
        };
        self.memory.forgetful.iter().filter(believed).map(|(id, _)| *id).collect()
    }

    /// Begins to ask, if there is anybody to be asked.
    pub(crate) fn begin_unsure(&mut self) {
        if !self.memory.on || self.membership().voters.is_empty() {
            return;
        }
        self.memory.unsure = Some(Unsure { since: self.now, answered: BTreeSet::new(), led: None });
        self.ask_memory();
        self.perhaps_sure();
    }

    /// Stands aside no longer, whatever others know. A mistake, for tests.
    #[cfg(feature = "sim")]
    pub(crate) fn be_sure(&mut self) {
        self.memory.unsure = None;
    }

    /// Is as a program of before, which remembers nothing of others. For tests.
    #[cfg(feature = "sim")]
    pub(crate) fn remember_nothing(&mut self) {
        self.memory.on = false;
        self.be_sure();
    }

    /// Time passed for one that is unsure.
    pub(crate) fn tick_unsure(&mut self) {
        if self.now >= self.patience {
            self.ask_memory();
        }
        self.perhaps_sure();
    }

    fn ask_memory(&mut self) {
        self.patience = self.now.plus(self.config.beat);
        self.ask(Body::WouldYou(self.log.last()));
    }

    fn perhaps_sure(&mut self) {
        let Some(unsure) = &self.memory.unsure else { return };
        let members = self.membership();
        let me = self.config.id;
        let answered = members.voters.intersection(&unsure.answered).count();
        let all = answered == members.voters.iter().filter(|id| **id != me).count();
        let enough = answered + usize::from(members.voters.contains(&me)) >= members.majority();
        let waited = self.now.since(unsure.since) >= self.config.election * GRACE;
        let led = unsure.led.is_some_and(|at| self.now.since(at) <= self.config.election);
        if all || (enough && (waited || led)) || (waited && led) {
            self.memory.unsure = None;
            self.lose_patience_later();
        }
    }

    /// Takes what goes with a message. False if the message is to be left alone: this node knows that it must stop, or is unsure.
    pub(crate) fn take_tail(&mut self, from: VoterId, message: &Message) -> bool {
        let tail = &message.tail;
        if !self.memory.on || from == self.config.id {
            return true;
        }
        if let Some(why) = tail.marks.get(&self.config.id).and_then(|mark| self.forgotten(mark)) {
            self.fail(why);
            return false;
        }
        let leads = matches!(message.body, Body::Append { .. } | Body::State(_));
        if leads && self.is_alone() && self.reign().is_some() && message.term >= self.hard.term {
            // Nobody can lead a log whose only voter this is: it has forgotten that others vote.
            let (id, term) = (from.0, message.term);
            self.fail(set_back(&format!("member {id:016x} leads in term {term}, and this store knows no other voter")));
            return false;
        }
        if tail.life != 0 {
            let last = if let Body::WouldYou(last) = &message.body { Some(*last) } else { None };
            self.remember(from, tail, last);
        }
        let is_voter = self.membership().voters.contains(&from);
        let Some(unsure) = &mut self.memory.unsure else { return true };
        // A program of before has no tail. It remembers nothing, and says so by answering.
        let fresh = if tail.life == 0 { matches!(message.body, Body::Would(_)) } else { tail.heard == self.memory.life };
        if fresh && is_voter {
            unsure.answered.insert(from);
        }
        if leads && message.term >= self.hard.term && (fresh || tail.life == 0) {
            unsure.led = Some(self.now);
        }
        if matches!(message.body, Body::WouldYou(_)) {
            self.send(from, Body::Would(false));
        } else if leads && !fresh && !is_voter {
            // A leader that the own log does not name yet.
            self.send(from, Body::WouldYou(self.log.last()));
        }
        self.perhaps_sure();
        !self.is_unsure()
    }

    /// Notes whether a member still knows what it promised.
    fn judge_memory(&mut self, from: VoterId, tail: &Tail, last: Option<Position>) {
        let (Some(told), Some(known)) = (tail.marks.get(&from), self.memory.marks.get(&from)) else { return };
        if told.has_forgotten(known, last) {
            let now = self.now;
            self.memory.forgetful.entry(from).or_insert(now);
        } else if last.is_some() || told.hard.term > known.hard.term || told.at.index >= known.at.index {
            self.memory.forgetful.remove(&from);
        }
    }

    fn remember(&mut self, from: VoterId, tail: &Tail, last: Option<Position>) {
        let me = self.config.id;
        self.judge_memory(from, tail, last);
        if self.memory.lives.len() < MOST || self.memory.lives.contains_key(&from) {
            self.memory.lives.insert(from, tail.life);
        }
        let members = self.membership();
        let known = |id: &VoterId| *id != me && (members.voters.contains(id) || members.learners.contains(id));
        let told: Vec<(VoterId, Mark)> = tail.marks.iter().filter(|(id, _)| known(id)).map(|(id, mark)| (*id, *mark)).collect();
        let mut news = false;
        for (id, mark) in told {
            news |= self.memory.marks.entry(id).or_default().join(&mark);
        }
        if news {
            self.memory.dirty.get_or_insert(self.now);
        }
    }

    /// Returns what this node's log and term do not keep of a promise that it has shown.
    fn forgotten(&self, mark: &Mark) -> Option<String> {
        #[cfg(feature = "sim")]
        if self.errs(crate::machine::Mistake::Forgetful) {
            return None;
        }
        // One voter alone raises its term without anybody's consent.
        let own = if self.is_alone() { self.memory.durable } else { self.hard };
        let (last, before) = (self.log.last(), self.log.before());
        if mark.hard.term < own.term {
            return None;
        }
        let other_entry = mark.at.index >= before.index && self.log.term_at(mark.at.index) != Some(mark.at.term);
        let what = if mark.hard.term > own.term {
            format!("it took part in term {}, its store knows terms up to {}", mark.hard.term, own.term)
        } else if mark.hard.vote.is_some() && mark.hard.vote != own.vote {
            format!("it voted in term {}, its store does not know for whom", own.term)
        } else if mark.at.index > last.index {
            format!("it acknowledged entry {} in term {}, its store ends at entry {}", mark.at.index, own.term, last.index)
        } else if mark.at.index > 0 && other_entry {
            format!("it acknowledged entry {} in term {}, its store has another one there", mark.at.index, own.term)
        } else {
            return None;
        };
        Some(set_back(&what))
    }

    // ----- what it says of itself

    /// Notes what leaves: an acknowledgement is a promise.
    pub(crate) fn note_shown(&mut self, message: &Message) {
        if let Body::Appended(Verdict::Matched(index), _) = message.body {
            let (term, before) = self.memory.shown;
            self.memory.shown = (message.term, if term == message.term { before.max(index) } else { index });
        }
    }

    fn position(&self, index: Index) -> Position {
        let before = self.log.before();
        if index <= before.index {
            return before;
        }
        self.log.term_at(index).map_or(before, |term| Position { term, index })
    }

    fn own_mark(&self) -> Mark {
        let hard = self.memory.durable;
        let (term, index) = self.memory.shown;
        let at = match self.reign() {
            // It counts itself.
            Some(_) if hard.term == self.hard.term => self.position(self.stable),
            None if term == hard.term && index > 0 => self.position(index),
            _ => Position::default(),
        };
        Mark { hard, at }
    }

    /// Returns what goes with a message to a member.
    pub(crate) fn tail(&self, to: VoterId) -> Tail {
        if !self.memory.on {
            return Tail::default();
        }
        let mut marks = self.memory.marks.clone();
        marks.insert(self.config.id, self.own_mark());
        let sum = self.memory.own.last_key_value().map_or((0, 0), |(index, sum)| (*index, *sum));
        let heard = self.memory.lives.get(&to).copied().unwrap_or(0);
        Tail { life: self.memory.life, heard, marks, sum }
    }

    // ----- what the disk keeps

    /// Returns true if marks are to be written although nothing else is: a leader is known, and its entries are
    /// durable here.
    pub(crate) fn marks_are_due(&self) -> bool {
        let quiet = self.leader.is_some() && self.stable == self.log.last().index && !self.is_unsure();
        self.memory.keeps && quiet && self.memory.dirty.is_some_and(|since| self.now.since(since) >= WRITE_AFTER)
    }

    /// The marks that go with a write, if there are new ones.
    pub(crate) fn marks_to_write(&mut self) -> Option<Marks> {
        if !self.memory.keeps {
            return None;
        }
        self.memory.dirty.take()?;
        Some(self.marks_to_keep())
    }

    /// All marks of members.
    pub(crate) fn marks_to_keep(&mut self) -> Marks {
        #[cfg(feature = "sim")]
        if self.writing.is_none() && self.errs(crate::machine::Mistake::FoldedMarks) {
            return Marks::new();
        }
        let members = self.membership().clone();
        let known = |id: &VoterId| members.voters.contains(id) || members.learners.contains(id);
        self.memory.marks.retain(|id, _| known(id));
        self.memory.lives.retain(|id, _| known(id));
        self.memory.forgetful.retain(|id, _| known(id));
        self.memory.marks.clone()
    }

    // ----- the owner's state

    /// The checksum of the owner's state after an entry. All members give it after the same ones.
    pub fn note_state(&mut self, index: Index, sum: u32) {
        keep(&mut self.memory.own, index, sum);
        self.compare_states();
    }

    /// The owner took up a leader's state: what it had before does not count.
    pub(crate) fn forget_states(&mut self) {
        self.memory.own.clear();
    }

    /// Takes what the leader says of its state.
    pub(crate) fn leaders_state(&mut self, (index, sum): (Index, u32)) {
        if index != 0 {
            keep(&mut self.memory.leaders, index, sum);
            self.compare_states();
        }
    }

    fn compare_states(&mut self) {
        if matches!(self.role, Role::Leader(_)) {
            return;
        }
        let differs = |(index, sum): (&Index, &u32)| self.memory.own.get(index).is_some_and(|own| own != sum).then_some(*index);
        if let Some(index) = self.memory.leaders.iter().find_map(differs) {
            self.fail(format!(
                "the state of this monitor after entry {index} differs from the leader's: one of the two is damaged. This one takes no part \
                 with this store. Remedy: stop this host's processes, remove the store of this monitor (DIR/mon*/store) while a majority of \
                 the other monitors runs, and start again: it joins as a new member"
            ));
        }
    }
}

/// Returns why a monitor stops whose store was set back, and what to do.
fn set_back(what: &str) -> String {
    format!(
        "this monitor's store was set back: other monitors know newer promises of it ({what}). An older copy was put in place, or the disk \
         lost what it had called durable. It takes no part with this store. Remedy: stop this host's processes, remove the store of this \
         monitor (DIR/mon*/store) while a majority of the other monitors runs, and start again: it joins as a new member"
    )
}

/// Adds a checksum; the oldest ones go.
fn keep(sums: &mut BTreeMap<Index, u32>, index: Index, sum: u32) {
    sums.insert(index, sum);
    while sums.len() > SUMS {
        sums.pop_first();
    }
}
