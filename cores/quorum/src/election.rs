//! Terms, votes, the beginning and the end of a reign.

use crate::machine::{News, Node, Role};
use crate::message::Body;
use crate::reign::Reign;
use crate::types::{Entry, Hard, Kind, Position, Term, VoterId};
use bytes::Bytes;
use std::collections::BTreeSet;

/// A candidate stands for so many elections' times at first. Two writes of 3 s each fit in.
const CANDIDACY: u32 = 8;
/// That, and the room for chance in pauses, are doubled so many times at most.
const DOUBLED: u64 = 3;

impl Node {
    /// Says to a peer of an older term that its term is over.
    pub(crate) fn answer_stale(&mut self, from: VoterId, body: &Body) {
        match body {
            Body::WouldYou(_) => self.send(from, Body::Would(false)),
            Body::Vote(_) => self.send(from, Body::Voted(false)),
            Body::Append { .. } | Body::State(_) => self.send(from, Body::Stale),
            _ => {}
        }
    }

    /// There is a newer term: whatever this node was, it is over.
    pub(crate) fn adopt(&mut self, term: Term) {
        self.say_nothing();
        self.set_hard(Hard { term, vote: None });
        self.leader = None;
        self.step_down();
    }

    /// Becomes a follower.
    pub(crate) fn step_down(&mut self) {
        if let Role::Leader(reign) = std::mem::replace(&mut self.role, Role::Follower)
            && reign.announced
        {
            self.news.push(News::Deposed);
        }
        self.incoming = None;
        self.lose_patience_later();
    }

    /// Returns true if a leader, perhaps itself, was heard lately.
    pub(crate) fn hears_leader(&self) -> bool {
        let other = self.leader.is_some() && self.now.since(self.heard) < self.config.election;
        self.reign().is_some() || other
    }

    /// This term's leader spoke. Two of them in one term cannot be.
    pub(crate) fn follow(&mut self, leader: VoterId) -> bool {
        if self.reign().is_some() || self.leader.is_some_and(|known| known != leader) {
            self.contradicts(format!(
                "members {:016x} and {:016x} both lead in term {}",
                self.config.id.0, leader.0, self.hard.term
            ));
            return false;
        }
        if !matches!(self.role, Role::Follower) {
            self.step_down();
        }
        self.leader = Some(leader);
        self.led = self.hard.term;
        self.heard = self.now;
        self.lose_patience_later();
        true
    }

    /// Terms without a leader since the last one that had one, this one among them.
    fn failed(&self) -> u64 {
        self.hard.term.saturating_sub(self.led)
    }

    /// A pause of one to two elections' times from now. Chance gets twice as much room after each term that had no
    /// leader: where disks are slow, votes would be split again and again.
    pub(crate) fn lose_patience_later(&mut self) {
        let least = self.config.election;
        let room = least * (1 << self.failed().min(DOUBLED));
        let more = self.below(u64::try_from(room.as_nanos()).unwrap_or(u64::MAX).max(1));
        self.patience = if self.is_alone() { self.now } else { self.now.plus(least).plus(std::time::Duration::from_nanos(more)) };
    }

    /// A vote became durable and leaves only now: its candidate gets time to lead.
    pub(crate) fn voted_durably(&mut self) {
        if matches!(self.role, Role::Follower) && self.leader.is_none() {
            self.lose_patience_later();
        }
    }

    /// Asks whether it would be elected. A candidate that may still win asks again for votes: a message may be lost, a
    /// disk may be slow.
    pub(crate) fn ask_around(&mut self) {
        self.lose_patience_later();
        if self.is_alone() {
            return self.campaign();
        }
        #[cfg(feature = "sim")]
        if self.errs(crate::machine::Mistake::Impatient) {
            self.patience = self.now.plus(std::time::Duration::from_millis(10));
        }
        if matches!(self.role, Role::Candidate(_)) && self.now < self.candidate_until {
            return self.ask(Body::Vote(self.log.last()));
        }
        if self.hard_version > self.hard_durable && matches!(self.role, Role::Follower) {
            // Its vote is on the way to the disk. Nothing that it asks would leave before.
            return;
        }
        self.leader = None;
        self.role = Role::Asking([self.config.id].into());
        self.ask(Body::WouldYou(self.log.last()));
    }

    pub(crate) fn ask(&mut self, question: Body) {
        let others: Vec<VoterId> = self.membership().voters.iter().copied().filter(|v| *v != self.config.id).collect();
        others.into_iter().for_each(|to| self.send(to, question.clone()));
    }

    /// Wants to lead, in a new term.
    pub(crate) fn campaign(&mut self) {
        self.say_nothing();
        self.step_down();
        self.set_hard(Hard { term: self.hard.term + 1, vote: Some(self.config.id) });
        self.leader = None;
        self.role = Role::Candidate(BTreeSet::new());
        self.candidate_until = self.now.plus(self.candidacy());
        if self.is_alone() {
            return self.reign_over();
        }
        self.ask(Body::Vote(self.log.last()));
        // The own vote counts when it is durable, like any other.
        self.send(self.config.id, Body::Voted(true));
    }

    /// Returns how long it stands for election in a term: its own term and then votes of others must become durable.
    /// Twice as long after each term that had no leader.
    fn candidacy(&self) -> std::time::Duration {
        self.config.election * CANDIDACY * (1 << self.failed().saturating_sub(1).min(DOUBLED))
    }

    /// Somebody wants to lead, and its log ends at `last`.
    pub(crate) fn vote(&mut self, candidate: VoterId, last: Position) {
        let free = self.hard.vote.is_none_or(|vote| vote == candidate);
        let yes = free && self.leader.is_none() && last >= self.log.last() && self.reign().is_none();
        if yes {
            self.set_hard(Hard { vote: Some(candidate), ..self.hard });
            self.lose_patience_later();
        }
        self.send(candidate, Body::Voted(yes));
    }

    /// A voter's answer: to a candidate (`real`), or to one that asks first.
    pub(crate) fn count(&mut self, from: VoterId, yes: bool, real: bool) {
        let membership = self.membership();
        let (enough, counts) = (membership.majority(), membership.voters.contains(&from));
        if real && !yes && counts && matches!(self.role, Role::Candidate(_)) {
            // Votes are split, or another one has more: no use to stand any longer than a usual pause.
            self.candidate_until = self.now;
        }
        let votes = match (&mut self.role, real) {
            (Role::Asking(votes), false) | (Role::Candidate(votes), true) if yes && counts => votes,
            _ => return,
        };
        votes.insert(from);
        if votes.len() < enough {
            return;
        }
        if real { self.reign_over() } else { self.campaign() }
    }

    /// It is elected. Entries of older terms are committed with the blank one that comes first.
    fn reign_over(&mut self) {
        let began = self.log.last().index + 1;
        self.become_leader(began);
        self.append(Entry { index: began, term: self.hard.term, kind: Kind::Blank, data: Bytes::new() });
        self.beat();
    }

    /// The only voter goes on where it stopped. There is nothing to be committed, so no entry is needed.
    pub(crate) fn reign_alone(&mut self) {
        self.set_hard(Hard { term: self.hard.term + 1, vote: Some(self.config.id) });
        self.become_leader(self.log.last().index);
    }

    fn become_leader(&mut self, began: u64) {
        self.leader = Some(self.config.id);
        self.led = self.hard.term;
        let reign = Reign::new(began, self.now, &self.config);
        self.role = Role::Leader(Box::new(reign));
        self.know_peers();
    }

    /// Takes the leadership away, as a leader of a newer term would. With `lose`, what is not committed is lost. For
    /// tests.
    #[cfg(feature = "sim")]
    pub fn depose(&mut self, now: node::Mono, lose: bool) {
        self.now = self.now.max(now);
        self.adopt(self.hard.term + 1);
        if lose {
            self.cut(self.commit + 1);
        }
    }
}
