//! The owner's side of a node: how it begins, the time, messages that come, what is to be done.

use crate::machine::{Held, News, Node, Ready, Role};
use crate::message::{Body, Message};
use crate::types::{Config, Saved, VoterId};
use node::Mono;

/// Applied entries and their bytes that are kept for peers that are a little behind.
const KEPT_ENTRIES: usize = 1_000;
const KEPT_BYTES: usize = 2 << 20;

impl Node {
    /// A member with what its disk knows. One that is the only voter, and was when its log was written, leads at once,
    /// and all that is durable is committed; nothing needs to be written for that.
    ///
    /// # Panics
    /// If `saved` does not pass [`Saved::check`].
    pub fn new(config: Config, saved: Saved, now: Mono) -> Self {
        let mut node = Self::from_disk(config, saved, now);
        node.begin();
        node
    }

    fn begin(&mut self) {
        let settled = self.members.last().is_none_or(|(index, _)| *index <= self.commit);
        if self.is_alone() && settled {
            // Nobody else's vote was ever needed for what stands behind that membership: it was committed when it was durable.
            self.commit = self.log.last().index;
            self.reign_alone();
        } else {
            self.lose_patience_later();
            self.begin_unsure();
        }
    }

    /// Time passed.
    pub fn tick(&mut self, now: Mono) {
        self.now = self.now.max(now);
        if self.broken().is_some() {
            return;
        }
        if self.is_unsure() {
            return self.tick_unsure();
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
        if self.broken().is_some() || !self.take_tail(from, &message) || stranger {
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
                    self.leaders_state(message.tail.sum);
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

    /// Returns what may be sent now. Its own vote goes to itself.
    fn leaving(&mut self) -> Vec<(VoterId, Message)> {
        loop {
            let (mine, others) = self.take_leaving();
            if mine.is_empty() {
                others.iter().for_each(|held| self.note_shown(&held.message));
                let with_tail = |held: Held| (held.to, Message { tail: self.tail(held.to), ..held.message });
                return others.into_iter().map(with_tail).collect();
            }
            let (me, now) = (self.config.id, self.now);
            mine.into_iter().for_each(|held| self.step(now, me, held.message));
        }
    }

    /// Returns what is to be done. `can_write` says whether the disk takes a write now; one is under way at a time, so
    /// what comes meanwhile shares the next one.
    pub fn ready(&mut self, can_write: bool) -> Ready {
        let mut send = self.leaving();
        self.advance();
        let mut ready = Ready::default();
        if can_write && self.writing.is_none() && self.broken().is_none() {
            ready.install = self.begin_install();
            if ready.install.is_none() {
                ready.write = self.begin_write();
            }
        }
        if !self.writing.as_ref().is_some_and(|w| w.installs) {
            ready.committed = self.log.slice(self.given + 1, self.commit, usize::MAX, usize::MAX);
        }
        self.given = ready.committed.last().map_or(self.given, |e| e.index);
        self.announce();
        ready.news = std::mem::take(&mut self.news);
        ready.reads = std::mem::take(&mut self.reads);
        ready.wants_state = std::mem::take(&mut self.wants_state);
        let peers = self.membership().others(self.config.id).next().is_some();
        let (entries, bytes) = if peers { (KEPT_ENTRIES, KEPT_BYTES) } else { (0, 0) };
        self.log.trim(self.given.min(self.stable), entries, bytes);
        send.extend(self.leaving());
        ready.send = send;
        ready
    }

    /// Tells the owner of a reign when it has applied what was there before.
    fn announce(&mut self) {
        let (given, term) = (self.given, self.hard.term);
        if let Some(reign) = self.reign_mut()
            && !reign.announced
            && given >= reign.began
        {
            reign.announced = true;
            self.news.push(News::Elected(term));
        }
    }
}
