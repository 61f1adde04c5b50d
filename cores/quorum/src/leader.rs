//! What a leader does: copies to peers, commits, reads, members, the handing over.

use crate::machine::Node;
use crate::message::{Body, Verdict};
use crate::reign::{Peer, Waiting};
use crate::types::{Entry, Index, Kind, Membership, Position, ReadId, VoterId};
use bytes::Bytes;
use denc::Encode;
use std::collections::BTreeSet;

/// Most entries and bytes that one message carries.
const SEND_ENTRIES: usize = 256;
const SEND_BYTES: usize = 256 << 10;
/// Messages with entries that a peer may owe an answer to.
const IN_FLIGHT: usize = 8;

/// This node does not lead; perhaps that one does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotLeader(pub Option<VoterId>);

/// Reason why the members stay as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotChanged {
    /// This node does not lead.
    NotLeader(Option<VoterId>),
    /// The change before is not committed yet.
    Pending,
    /// More than one voter would come or go, none would be left, or one would be both voter and learner.
    TooMuch,
    /// The learner that would become a voter lacks too much of the log.
    Behind(VoterId),
}

impl Node {
    /// Adds a command. Returns where it will stand if it is not lost.
    ///
    /// # Errors
    /// If this node does not lead, or hands its leadership over.
    pub fn propose(&mut self, data: Bytes) -> Result<Index, NotLeader> {
        let leads = self.reign().is_some_and(|r| r.announced && r.transferee.is_none());
        if !leads || self.broken().is_some() {
            return Err(NotLeader(self.leader()));
        }
        Ok(self.propose_kind(Kind::Command, data))
    }

    fn propose_kind(&mut self, kind: Kind, data: Bytes) -> Index {
        let index = self.last().index + 1;
        self.append(Entry { index, term: self.hard.term, kind, data });
        self.broadcast();
        index
    }

    /// Returns true if [`Node::propose`] takes commands now.
    pub fn takes_proposals(&self) -> bool {
        self.reign().is_some_and(|r| r.announced && r.transferee.is_none()) && self.broken().is_none()
    }

    /// Changes who takes part, by at most one voter.
    ///
    /// # Errors
    /// Why that cannot be now.
    pub fn change(&mut self, next: Membership) -> Result<Index, NotChanged> {
        if !self.is_leader() {
            return Err(NotChanged::NotLeader(self.leader()));
        }
        let pending = self.members.last().is_some_and(|(index, _)| *index > self.commit);
        if pending {
            return Err(NotChanged::Pending);
        }
        if !self.membership().may_become(&next) {
            return Err(NotChanged::TooMuch);
        }
        let (last, id) = (self.last().index, self.config.id);
        let behind = |v: &&VoterId| **v != id && self.reign().and_then(|r| r.peers.get(v)).is_none_or(|p| !p.is_close(last));
        if let Some(voter) = next.voters.difference(&self.membership().voters).find(behind) {
            return Err(NotChanged::Behind(*voter));
        }
        let index = self.propose_kind(Kind::Membership, next.to_bytes());
        self.know_peers();
        self.beat();
        Ok(index)
    }

    /// Hands the leadership to another voter, as soon as that has everything. Nothing is proposed meanwhile; after an
    /// election's time it is given up.
    ///
    /// # Errors
    /// If this node does not lead, or that is no other voter.
    pub fn transfer(&mut self, transferee: VoterId) -> Result<(), NotLeader> {
        let fits = transferee != self.config.id && self.membership().voters.contains(&transferee);
        let (leader, until) = (self.leader(), self.now.plus(self.config.election));
        match self.reign_mut().filter(|r| r.announced && fits) {
            Some(reign) => reign.transferee = Some((transferee, until)),
            None => return Err(NotLeader(leader)),
        }
        self.hand_over();
        Ok(())
    }

    fn hand_over(&mut self) {
        let last = self.last().index;
        let Some((transferee, _)) = self.reign().and_then(|r| r.transferee) else { return };
        if self.reign().and_then(|r| r.peers.get(&transferee)).is_some_and(|p| p.matched == last) {
            self.send(transferee, Body::TakeOver);
        }
    }

    /// Asks for a read of everything that is committed by now; [`crate::Ready::reads`] names it when it may be
    /// answered. A reign that ends forgets it.
    ///
    /// # Errors
    /// If this node does not lead.
    pub fn read_index(&mut self, id: ReadId) -> Result<(), NotLeader> {
        if !self.is_leader() {
            return Err(NotLeader(self.leader()));
        }
        #[cfg(feature = "sim")]
        let alone = self.is_alone() || self.errs(crate::machine::Mistake::LonelyRead);
        #[cfg(not(feature = "sim"))]
        let alone = self.is_alone();
        if alone {
            self.reads.push(id);
            return Ok(());
        }
        let index = self.commit;
        if let Some(reign) = self.reign_mut() {
            reign.round += 1;
            reign.reads.push(Waiting { id, round: reign.round, index });
        }
        self.beat();
        Ok(())
    }

    /// Knows the peers that the newest membership names, and no others.
    pub(crate) fn know_peers(&mut self) {
        let others: Vec<VoterId> = self.membership().others(self.config.id).collect();
        let (now, next) = (self.now, self.last().index + 1);
        let Some(reign) = self.reign_mut() else { return };
        reign.peers.retain(|id, _| others.contains(id));
        for id in others {
            let fresh = || Peer {
                matched: 0,
                next,
                told: 0,
                in_flight: 0,
                probing: true,
                heard: now,
                answered: false,
                round: 0,
                state: None,
            };
            reign.peers.entry(id).or_insert_with(fresh);
        }
    }

    pub(crate) fn tick_leader(&mut self) {
        let (now, config) = (self.now, self.config.clone());
        let Some(reign) = self.reign_mut() else { return };
        if reign.transferee.is_some_and(|(_, until)| until <= now) {
            reign.transferee = None;
        }
        let (checks, beats) = (reign.check_at <= now, reign.beat_at <= now);
        if checks && !self.is_heard_by_majority() {
            // Others may have elected somebody: this node cannot know.
            self.leader = None;
            return self.step_down();
        }
        let Some(reign) = self.reign_mut() else { return };
        if checks {
            reign.check_at = now.plus(config.election);
        }
        if beats {
            reign.beat_at = now.plus(config.beat);
            reign.peers.values_mut().for_each(|peer| peer.in_flight = 0);
            self.hand_over();
            self.beat();
        }
    }

    fn is_heard_by_majority(&self) -> bool {
        let (voters, election) = (&self.membership().voters, self.config.election);
        let Some(reign) = self.reign() else { return false };
        let hears =
            |id: &&VoterId| **id == self.config.id || reign.peers.get(id).is_some_and(|p| self.now.since(p.heard) <= election);
        voters.iter().filter(hears).count() >= self.membership().majority()
    }

    /// As leader: the members from which it heard within an election's time, itself among them. A voter counts for so
    /// long from the reign's beginning on, a learner only when it has answered. As anybody else: nobody.
    pub fn heard(&self) -> BTreeSet<VoterId> {
        let Some(reign) = self.reign() else { return BTreeSet::new() };
        let lately = |p: &Peer| self.now.since(p.heard) <= self.config.election;
        let voters = &self.membership().voters;
        let peers = reign.peers.iter().filter(|(id, p)| lately(p) && (p.answered || voters.contains(id))).map(|(id, _)| *id);
        peers.chain([self.config.id]).collect()
    }

    /// As leader: whether a member lacks so little of the log that it may become a voter.
    pub fn is_close(&self, member: VoterId) -> bool {
        let last = self.last().index;
        let close = |p: &Peer| p.is_close(last) && self.now.since(p.heard) <= self.config.election;
        self.reign().and_then(|r| r.peers.get(&member)).is_some_and(close)
    }

    fn peer_ids(&self) -> Vec<VoterId> {
        self.reign().map(|r| r.peers.keys().copied().collect()).unwrap_or_default()
    }

    /// Sends peers what they lack.
    pub(crate) fn broadcast(&mut self) {
        self.peer_ids().into_iter().for_each(|id| self.feed(id, false));
    }

    /// Sends every peer something.
    pub(crate) fn beat(&mut self) {
        self.peer_ids().into_iter().for_each(|id| self.feed(id, true));
    }

    /// Sends a peer the next entries, or the next piece of the state; who waits for nothing hears what is committed;
    /// with `beat`, at least a sign of life.
    pub(crate) fn feed(&mut self, id: VoterId, beat: bool) {
        let last = self.last().index;
        #[cfg(not(feature = "sim"))]
        let most = IN_FLIGHT;
        #[cfg(feature = "sim")]
        let most = IN_FLIGHT.min(self.batch);
        loop {
            let Some(peer) = self.reign().and_then(|r| r.peers.get(&id)) else { return };
            // What the owner began with is in no entry, so whoever is taken in and has nothing gets the state.
            let has_nothing = peer.next == 1 && self.membership().learners.contains(&id);
            if peer.state.is_some() || has_nothing || self.term_at(peer.next - 1).is_none() {
                if self.now.since(peer.heard) <= self.config.election * 2 {
                    return self.send_state(id, beat);
                }
                // Nobody is there to take a state. Whoever comes back answers to a beat at the log's end.
                return if beat {
                    self.probe(id, last)
                };
            }
            let more = peer.next <= self.last_for(id) && peer.in_flight < most && !peer.probing;
            if more {
                self.send_entries(id, SEND_ENTRIES);
            } else {
                if beat || (peer.told < self.commit && peer.in_flight == 0) {
                    self.send_entries(id, 0);
                }
                return;
            }
        }
    }

    /// The last entry that a peer may be sent. Who is to vote no more hears of it once that is committed: its copy
    /// counts for nothing. If it alone had the entry when the leader is lost, it would neither be elected nor elect
    /// those who lack it.
    fn last_for(&self, id: VoterId) -> Index {
        let mut votes = false;
        for (index, membership) in &self.members {
            let voted = std::mem::replace(&mut votes, membership.voters.contains(&id));
            if voted && !votes && *index > self.commit {
                return index - 1;
            }
        }
        self.last().index
    }

    fn probe(&mut self, id: VoterId, last: Index) {
        if let Some(peer) = self.reign_mut().and_then(|r| r.peers.get_mut(&id)) {
            (peer.next, peer.in_flight, peer.probing, peer.state) = (last + 1, 0, true, None);
        }
        self.send_entries(id, 0);
    }

    fn send_entries(&mut self, id: VoterId, most: usize) {
        let Some(peer) = self.reign().and_then(|r| r.peers.get(&id)) else { return };
        let index = peer.next - 1;
        let Some(term) = self.term_at(index) else { return };
        #[cfg(feature = "sim")]
        let most = most.min(self.batch);
        let entries = self.log.slice(peer.next, self.last_for(id), most, SEND_BYTES);
        let (count, commit) = (entries.len(), self.commit);
        let round = self.reign().map_or(0, |r| r.round);
        if let Some(peer) = self.reign_mut().and_then(|r| r.peers.get_mut(&id)) {
            peer.next += count as u64;
            peer.told = commit;
            peer.in_flight += usize::from(count > 0);
        }
        self.send(id, Body::Append { previous: Position { term, index }, entries, commit, round });
    }

    /// Takes what a peer says to entries.
    pub(crate) fn take_verdict(&mut self, from: VoterId, verdict: Verdict, round: u64) {
        let (now, last) = (self.now, self.last().index);
        let Some(reign) = self.reign_mut() else { return };
        let rounds = reign.round;
        let Some(peer) = reign.peers.get_mut(&from) else { return };
        (peer.heard, peer.answered) = (now, true);
        peer.round = peer.round.max(round.min(rounds));
        let (feed, beat) = match verdict {
            Verdict::Matched(index) if index > last => return,
            Verdict::Matched(index) => {
                peer.probing &= index + 1 < peer.next;
                // One answer may stand for several messages; one without news only says that somebody is there.
                peer.in_flight = match index + 1 >= peer.next {
                    true => 0,
                    false => peer.in_flight.saturating_sub(usize::from(index > peer.matched)),
                };
                peer.matched = peer.matched.max(index);
                peer.next = peer.next.max(peer.matched + 1);
                peer.state = None;
                (true, false)
            }
            Verdict::Differs(hint) => {
                // It may have lost what it had: its store was set back to an older copy. Then that counts no more.
                peer.matched = peer.matched.min(hint);
                let next = (hint + 1).clamp(peer.matched + 1, peer.next.max(peer.matched + 1));
                let news = peer.state.is_none() && (!peer.probing || next < peer.next);
                if news {
                    (peer.next, peer.in_flight, peer.probing) = (next, 0, true);
                }
                (news, news)
            }
        };
        if let Some(reign) = self.reign_mut().filter(|r| r.peers.values().all(|p| p.state.is_none())) {
            reign.offer = None;
        }
        self.advance();
        if feed {
            self.feed(from, beat);
        }
        self.hand_over();
    }

    /// Commits what is durable on a majority, and lets reads go.
    pub(crate) fn advance(&mut self) {
        let Some(reign) = self.reign() else { return };
        let membership = self.membership();
        let own = |id: &VoterId| *id == self.config.id;
        let matched = |id: &VoterId| if own(id) { self.stable } else { reign.peers.get(id).map_or(0, |p| p.matched) };
        let index = nth_largest(membership.voters.iter().map(matched), membership.majority());
        let round = |id: &VoterId| if own(id) { u64::MAX } else { reign.peers.get(id).map_or(0, |p| p.round) };
        let round = nth_largest(membership.voters.iter().map(round), membership.majority());
        if index > self.commit && self.counts(index) {
            self.commit = index;
            self.broadcast();
        }
        let commit = self.commit;
        if let Some(reign) = self.reign_mut() {
            let may = |read: &mut Waiting| read.round <= round && read.index <= commit;
            let free: Vec<ReadId> = reign.reads.extract_if(.., may).map(|read| read.id).collect();
            self.reads.extend(free);
        }
        self.leave_if_removed();
    }

    /// Returns true if an entry may be committed because a majority has it.
    fn counts(&self, index: Index) -> bool {
        #[cfg(feature = "sim")]
        if self.errs(crate::machine::Mistake::OldTermCounts) {
            return true;
        }
        self.term_at(index) == Some(self.hard.term)
    }

    /// A leader that is no voter any more goes once that is committed.
    fn leave_if_removed(&mut self) {
        let committed = self.members.last().is_some_and(|(index, _)| *index <= self.commit);
        if self.reign().is_some() && committed && !self.membership().voters.contains(&self.config.id) {
            self.leader = None;
            self.step_down();
        }
    }
}

/// The `n`th largest of some numbers; 0 if there are fewer.
fn nth_largest(numbers: impl Iterator<Item = u64>, n: usize) -> u64 {
    let mut numbers: Vec<u64> = numbers.collect();
    numbers.sort_unstable_by(|a, b| b.cmp(a));
    numbers.get(n - 1).copied().unwrap_or(0)
}
