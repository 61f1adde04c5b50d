//! Who votes next, and who only learns: one step from the members that are to those that shall be.
//!
//! - A monitor that is taken in learns first. It votes when it has caught up, and when the number of voters is odd
//!   with it: two voters are worse than one, since both are needed. So of two monitors one learns, until a third one
//!   is there.
//! - A voter that is gone, because it was removed or its store was replaced, stays a member while another one is about
//!   to take its place. It goes out when that one has caught up. Of two voters it goes at once: nothing could be
//!   decided without it.
//! - When two voters are left and nobody is about to become the third one, the one that does not lead learns again.
//!
//! *About to take its place* is a learner that is heard, however far it is behind; in the first minute also one that
//! is not heard yet. Two living voters wait for it for ten minutes at most: each decision is then on two disks, and
//! both are needed.

use quorum::{Membership, VoterId};
use std::collections::BTreeSet;
use std::time::Duration;

/// Time for which a learner that is not heard is hoped for.
const UNHEARD: Duration = Duration::from_secs(60);
/// Time for which two voters hope for a third one that is heard.
const TWO: Duration = Duration::from_secs(600);

/// Knowledge on which it is decided.
pub(super) struct Look<'a> {
    /// Members of now.
    pub(super) members: &'a Membership,
    /// Numbers of the monitors that the cluster has.
    pub(super) known: BTreeSet<VoterId>,
    /// Members that are heard; learners only if they have answered.
    pub(super) heard: BTreeSet<VoterId>,
    /// Members that lack so little that they may vote.
    pub(super) close: BTreeSet<VoterId>,
    /// Orders about who leads.
    pub(super) leader: VoterId,
    /// It wants another one to lead.
    pub(super) hands_over: bool,
    /// Time for which the answer was [`Next::Wait`].
    pub(super) waited: Duration,
}

/// The step to be taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// These are to be the members.
    Change(Membership),
    /// Somebody is to go as soon as a learner has caught up.
    Wait,
    /// All is as it shall be.
    Stay,
}

impl Look<'_> {
    /// Returns the next step.
    pub(super) fn next(&self) -> Next {
        let mut next = self.members.clone();
        if let Some(gone) = next.learners.iter().find(|id| !self.known.contains(id)).copied() {
            next.learners.remove(&gone);
            return Next::Change(next);
        }
        if let Some(new) = self.known.iter().find(|id| !next.voters.contains(id) && !next.learners.contains(id)) {
            next.learners.insert(*new);
            return Next::Change(next);
        }
        let ready: Vec<VoterId> = next.learners.intersection(&self.close).copied().collect();
        if let Some(gone) = next.voters.iter().find(|id| !self.known.contains(id)).copied() {
            if next.voters.len() > 2 && ready.is_empty() && self.hopes(Duration::MAX) {
                return Next::Wait;
            }
            next.voters.remove(&gone);
            return Next::Change(next);
        }
        // With `hands_over` two vote for a moment. When the other one leads, this one learns.
        let wanted = match self.hands_over {
            true if next.voters.len() == 1 => 1,
            true => return Next::Stay,
            false if next.voters.len() % 2 == 1 => 2,
            false => 1,
        };
        if let Some(first) = ready.first().filter(|_| ready.len() >= wanted) {
            next.learners.remove(first);
            next.voters.insert(*first);
            return Next::Change(next);
        }
        if self.hands_over || next.voters.len() != 2 {
            return Next::Stay;
        }
        if self.hopes(TWO) {
            return Next::Wait;
        }
        let Some(other) = next.voters.iter().copied().find(|id| *id != self.leader) else { return Next::Stay };
        next.voters.remove(&other);
        next.learners.insert(other);
        Next::Change(next)
    }

    /// Returns true if some learner may catch up; one that is heard is hoped for so long.
    fn hopes(&self, heard: Duration) -> bool {
        let learners = &self.members.learners;
        let most = if learners.is_disjoint(&self.heard) { UNHEARD } else { heard };
        !learners.is_empty() && self.waited < most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(ids: &[u64]) -> BTreeSet<VoterId> {
        ids.iter().map(|id| VoterId(*id)).collect()
    }

    fn members(voters: &[u64], learners: &[u64]) -> Membership {
        Membership { voters: ids(voters), learners: ids(learners) }
    }

    /// Voter 1 leads; all members are heard except those in `deaf`, and close except those in `behind`.
    fn step(members: &Membership, known: &[u64], deaf: &[u64], behind: &[u64], waited: u64) -> Next {
        let all: BTreeSet<VoterId> = members.voters.union(&members.learners).copied().collect();
        let heard: BTreeSet<VoterId> = all.difference(&ids(deaf)).copied().collect();
        let close = heard.difference(&ids(behind)).copied().collect();
        let (known, leader, waited) = (ids(known), VoterId(1), Duration::from_secs(waited));
        Look { members, known, heard, close, leader, hands_over: false, waited }.next()
    }

    fn change(voters: &[u64], learners: &[u64]) -> Next {
        Next::Change(members(voters, learners))
    }

    #[test]
    fn a_replaced_store_keeps_its_number_until_the_new_one_has_caught_up() {
        let (before, taken_in) = (members(&[1, 2, 3], &[]), members(&[1, 2, 3], &[4]));
        assert_eq!(step(&before, &[1, 2, 4], &[3], &[], 0), change(&[1, 2, 3], &[4]), "the new number first");
        assert_eq!(step(&taken_in, &[1, 2, 4], &[3, 4], &[], 0), Next::Wait, "not heard yet");
        for waited in [0, 3600] {
            assert_eq!(step(&taken_in, &[1, 2, 4], &[3], &[4], waited), Next::Wait, "not close yet");
        }
        assert_eq!(step(&taken_in, &[1, 2, 4], &[3], &[], 0), change(&[1, 2], &[4]));
        assert_eq!(step(&members(&[1, 2], &[4]), &[1, 2, 4], &[], &[], 0), change(&[1, 2, 4], &[]));
        assert_eq!(step(&taken_in, &[1, 2, 4], &[3, 4], &[], 60), change(&[1, 2], &[4]), "it never answered");
    }

    #[test]
    fn who_is_removed_and_replaced_by_nobody_goes_at_once() {
        assert_eq!(step(&members(&[1, 2, 3], &[]), &[1, 2], &[], &[], 0), change(&[1, 2], &[]));
        assert_eq!(step(&members(&[1, 2], &[]), &[1, 2], &[], &[], 0), change(&[1], &[2]));
        assert_eq!(step(&members(&[1], &[2]), &[1, 2], &[], &[], 0), Next::Stay);
        assert_eq!(step(&members(&[1, 2], &[3]), &[1, 3], &[2], &[3], 0), change(&[1], &[3]), "nothing is decided without 2");
    }

    #[test]
    fn two_voters_stay_two_while_a_third_one_is_about_to_come() {
        let two = members(&[1, 2], &[3]);
        assert_eq!(step(&two, &[1, 2, 3], &[], &[3], 0), Next::Wait);
        assert_eq!(step(&two, &[1, 2, 3], &[], &[3], 599), Next::Wait);
        assert_eq!(step(&two, &[1, 2, 3], &[], &[3], 600), change(&[1], &[2, 3]));
        assert_eq!(step(&two, &[1, 2, 3], &[3], &[], 59), Next::Wait);
        assert_eq!(step(&two, &[1, 2, 3], &[3], &[], 60), change(&[1], &[2, 3]));
        assert_eq!(step(&two, &[1, 2, 3], &[], &[], 0), change(&[1, 2, 3], &[]));
        assert_eq!(step(&members(&[1, 2, 3], &[4]), &[1, 2, 3, 4], &[], &[], 0), Next::Stay, "a fourth one learns");
    }

    #[test]
    fn who_hands_over_alone_makes_an_heir() {
        let now = members(&[1], &[2]);
        let look = |members: &Membership| {
            let (known, leader, waited) = (ids(&[1, 2]), VoterId(1), Duration::ZERO);
            Look { members, known, heard: ids(&[1, 2]), close: ids(&[1, 2]), leader, hands_over: true, waited }.next()
        };
        assert_eq!(look(&now), change(&[1, 2], &[]));
        assert_eq!(look(&members(&[1, 2], &[])), Next::Stay);
    }
}
