//! Terms, votes, the beginning and the end of a reign.

use crate::leader::Reign;
use crate::machine::{News, Node, Role};
use crate::message::{Body, Message};
use crate::types::{Entry, Hard, Kind, Position, Term, VoterId};
use bytes::Bytes;
use node::Mono;
use std::collections::BTreeSet;

impl Node {
    /// Time passed.
    pub fn tick(&mut self, now: Mono) {
        self.now = self.now.max(now);
        if self.broken().is_some() {
            return;
        }
        match &self.role {
            Role::Leader(_) => self.tick_leader(),
            _ if self.now < self.patience => {}
            _ if self.membership().voters.contains(&self.config.id) => self.ask_around(),
            // Who does not vote cannot ask for another leader, but knows that none is heard: so does one that was removed.
            _ => {
                self.leader = None;
                self.lose_patience_later();
            }
        }
    }

    /// Takes a message that [`Message::from_wire`] let through.
    pub fn step(&mut self, now: Mono, from: VoterId, message: Message) {
        self.now = self.now.max(now);
        // A voter alone needs nobody's consent, so nobody can take its reign away; learners answer in its term.
        let answers = matches!(message.body, Body::Appended(..) | Body::StateTaken(..)) && message.term == self.hard.term;
        let stranger = self.is_alone() && from != self.config.id && !answers;
        if self.broken().is_some() || stranger {
            return;
        }
        if message.term > self.hard.term {
            self.adopt(message.term);
        }
        if message.term < self.hard.term {
            return self.answer_stale(from, &message.body);
        }
        match message.body {
            Body::WouldYou(last) => {
                let yes = !self.hears_leader() && last >= self.log.last();
                self.send(from, Body::Would(yes));
            }
            Body::Would(yes) => self.count(from, yes, false),
            Body::Vote(last) => self.vote(from, last),
            Body::Voted(yes) => self.count(from, yes, true),
            Body::Append { previous, entries, commit, round } => {
                if self.follow(from) {
                    self.take_entries(from, previous, entries, commit, round);
                }
            }
            Body::State(piece) => {
                if self.follow(from) {
                    self.take_piece(from, piece);
                }
            }
            Body::Appended(verdict, round) => self.take_verdict(from, verdict, round),
            Body::StateTaken(index, have) => self.piece_taken(from, index, have),
            Body::TakeOver => {
                if self.leader == Some(from) && self.membership().voters.contains(&self.config.id) {
                    self.campaign();
                }
            }
            Body::Stale => {}
        }
    }

    fn answer_stale(&mut self, from: VoterId, body: &Body) {
        match body {
            Body::WouldYou(_) => self.send(from, Body::Would(false)),
            Body::Vote(_) => self.send(from, Body::Voted(false)),
            Body::Append { .. } | Body::State(_) => self.send(from, Body::Stale),
            _ => {}
        }
    }

    /// There is a newer term: whatever this node was, it is over.
    fn adopt(&mut self, term: Term) {
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

    /// Whether a leader, perhaps itself, was heard lately.
    fn hears_leader(&self) -> bool {
        let other = self.leader.is_some() && self.now.since(self.heard) < self.config.election;
        self.reign().is_some() || other
    }

    /// This term's leader spoke. Two of them in one term cannot be.
    fn follow(&mut self, leader: VoterId) -> bool {
        if self.reign().is_some() || self.leader.is_some_and(|known| known != leader) {
            self.fail(format!("members {:016x} and {:016x} both lead in term {}", self.config.id.0, leader.0, self.hard.term));
            return false;
        }
        if !matches!(self.role, Role::Follower) {
            self.step_down();
        }
        self.leader = Some(leader);
        self.heard = self.now;
        self.lose_patience_later();
        true
    }

    /// A pause of one to two elections' times from now.
    pub(crate) fn lose_patience_later(&mut self) {
        let least = self.config.election;
        let more = self.below(u64::try_from(least.as_nanos()).unwrap_or(u64::MAX).max(1));
        self.patience = if self.is_alone() { self.now } else { self.now.plus(least).plus(std::time::Duration::from_nanos(more)) };
    }

    /// Asks whether it would be elected.
    fn ask_around(&mut self) {
        self.lose_patience_later();
        if self.is_alone() {
            return self.campaign();
        }
        self.leader = None;
        self.role = Role::Asking([self.config.id].into());
        self.ask(Body::WouldYou(self.log.last()));
    }

    fn ask(&mut self, question: Body) {
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
        if self.is_alone() {
            return self.reign_over();
        }
        self.ask(Body::Vote(self.log.last()));
        // The own vote counts when it is durable, like any other.
        self.send(self.config.id, Body::Voted(true));
    }

    fn vote(&mut self, candidate: VoterId, last: Position) {
        let free = self.hard.vote.is_none_or(|vote| vote == candidate);
        let yes = free && self.leader.is_none() && last >= self.log.last() && self.reign().is_none();
        if yes {
            self.set_hard(Hard { vote: Some(candidate), ..self.hard });
            self.lose_patience_later();
        }
        self.send(candidate, Body::Voted(yes));
    }

    fn count(&mut self, from: VoterId, yes: bool, real: bool) {
        let membership = self.membership();
        let (enough, counts) = (membership.majority(), membership.voters.contains(&from));
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
        self.begin_reign(began);
        self.append(Entry { index: began, term: self.hard.term, kind: Kind::Blank, data: Bytes::new() });
        self.beat();
    }

    /// The only voter goes on where it stopped. There is nothing to be committed, so no entry is needed.
    pub(crate) fn reign_alone(&mut self) {
        self.set_hard(Hard { term: self.hard.term + 1, vote: Some(self.config.id) });
        self.begin_reign(self.log.last().index);
    }

    fn begin_reign(&mut self, began: u64) {
        self.leader = Some(self.config.id);
        let reign = Reign::new(began, self.now, &self.config);
        self.role = Role::Leader(Box::new(reign));
        self.know_peers();
    }

    /// Takes the leadership away, as a leader of a newer term would. With `lose`, what is not committed is lost. For tests.
    #[cfg(feature = "sim")]
    pub fn depose(&mut self, now: Mono, lose: bool) {
        self.now = self.now.max(now);
        self.adopt(self.hard.term + 1);
        if lose {
            self.cut(self.commit + 1);
        }
    }
}
