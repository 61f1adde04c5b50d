//! How a pool keeps an object: the only room of this crate that knows it.
//!
//! A scheme is a value without state. It answers questions; whoever asks acts. Order, intervals, streams, reservations
//! and crashes are the same in every scheme, so they stay where they are.
//!
//! | question | who asks | copies |
//! |---|---|---|
//! | what does each copy get of an update? ([`Scheme::divide`]) | `primary/members.rs` | all get the same |
//! | how many members of an interval are enough to know what it wrote ([`Scheme::least`]), and how many promises to read ([`Scheme::may_read`])? | `history.rs`, `primary/laggy.rs` | one; those of all others |
//! | whose log counts, and who shall serve? ([`Scheme::plan`]) | `peering/mod.rs` | the newest log of the newest interval |
//! | what becomes of an object of an entry that does not count ([`Scheme::undo`]), and what does a copy lack of one that it did not carry out ([`Scheme::lack`])? | `core/log_merge.rs` | it is brought; what the entry says |
//! | who suffices to make an object ([`Scheme::can_make`]), and who is asked for it ([`Scheme::source`])? | `primary/recovery.rs`, `primary/unfound.rs` | one who has it |
//! | through which view does an operation read? ([`Scheme::view`]) | `primary/lanes.rs` | the own store |
//!
//! Places, and the members without which a group does not serve, are counts that the map gives, and the same in every
//! scheme: [`maps::Interval`] compares them. A test of the house says that no other file of this crate asks for a
//! pool's type or for the size of its redundancy. Decisions 36 and 37 say why it is built like this.

mod copies;

use crate::body::Body;
use crate::entry::LogEntry;
use crate::letter::{PeerInfo, Sealed, encoded};
use crate::log::common;
use crate::missing::Lack;
use maps::Interval;
use objectstore::{ObjectStore, View};
use std::collections::BTreeMap;
use types::{CopyId, EVersion, HObject, OsdId};

/// How a pool keeps an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Scheme {
    /// Each copy has all of each object.
    #[default]
    Copies,
}

/// Who shall serve a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Whose log counts.
    pub(crate) leader: CopyId,
    /// Who shall serve: the primary first, or at their positions, with holes, where the group has shards.
    pub(crate) acting: Vec<OsdId>,
    /// Who belongs to the group and must be filled first.
    pub(crate) backfill: Vec<CopyId>,
}

/// What becomes of an object on a copy that carried out an entry that does not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Undo {
    /// Nothing: the entry changed none.
    Nothing,
    /// It goes: it was not there before.
    Remove,
    /// It is missing, and is brought as it was before.
    Bring(Lack),
}

/// An update, as each copy gets it.
pub(crate) enum Divided<'a> {
    /// All get the same, which is encoded once.
    Same(&'a Body, Option<Sealed>),
}

impl Divided<'_> {
    /// Returns what a copy gets.
    pub(crate) fn of(&mut self, _copy: CopyId) -> Sealed {
        match self {
            Self::Same(body, whole) => whole.get_or_insert_with(|| encoded(body)).clone(),
        }
    }

    /// Returns what a copy gets that is being filled: what happens to objects that `reaches` does not name is left out.
    pub(crate) fn limited(&mut self, _copy: CopyId, reaches: impl Fn(&HObject) -> bool) -> Sealed {
        match self {
            Self::Same(body, _) => encoded(&body.limited(reaches)),
        }
    }
}

/// Returns true if a copy can be brought up to the log of `leader`, of which entries behind `tail` are known, by that
/// log alone.
pub(crate) fn continues(peer: &PeerInfo, leader: &PeerInfo, tail: EVersion) -> bool {
    common(&peer.runs, &leader.runs) >= tail
}

impl Scheme {
    /// Returns what each copy gets of an update.
    pub(crate) fn divide(self, body: &Body) -> Divided<'_> {
        match self {
            Self::Copies => Divided::Same(body, None),
        }
    }

    /// Returns how many surviving members of an interval are enough to know, and to have, what was acknowledged in it.
    pub(crate) fn least(self) -> usize {
        match self {
            Self::Copies => 1,
        }
    }

    /// Returns true if a primary may read: so many of the other serving copies promised to stay.
    ///
    /// A later interval hears [`Scheme::least`] of the n copies that serve before it serves. These, those that promised,
    /// and the primary are more than n together, so one that promised is heard, and its promise is waited for.
    pub(crate) fn may_read(self, others: usize, promised: usize) -> bool {
        promised + self.least() > others
    }

    /// Returns whose log counts and who shall serve the group in this interval, by what copies told; `None` if they are
    /// not enough. `me`: the copy that decides.
    pub(crate) fn plan(self, infos: &BTreeMap<CopyId, PeerInfo>, interval: &Interval, me: CopyId) -> Option<Plan> {
        match self {
            Self::Copies => copies::plan(infos, interval, me),
        }
    }

    /// Returns what becomes of an entry's object on a copy that carried it out, and it does not count.
    pub(crate) fn undo(self, entry: &LogEntry) -> Undo {
        match self {
            Self::Copies => copies::undo(entry),
        }
    }

    /// Returns what a copy lacks of an object after an entry that it did not carry out. `before`: what was missing
    /// before; `None` if it had the object as it was then.
    pub(crate) fn lack(self, before: Option<&Lack>, entry: &LogEntry) -> Lack {
        match self {
            Self::Copies => Lack::after(before, entry),
        }
    }

    /// Returns true if an object can be made of what these copies hold of it.
    pub(crate) fn can_make(self, holders: &[CopyId]) -> bool {
        match self {
            Self::Copies => !holders.is_empty(),
        }
    }

    /// Returns whom to ask for an object that these hold; `None`: nobody, yet. `answers`: who can answer now.
    pub(crate) fn source(self, holders: &[CopyId], answers: impl Fn(&CopyId) -> bool) -> Option<CopyId> {
        match self {
            Self::Copies => holders.iter().copied().find(answers),
        }
    }

    /// Returns the view through which operations read objects.
    pub(crate) fn view(self, store: &dyn ObjectStore) -> &dyn View {
        match self {
            Self::Copies => store,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_copies_one_survivor_knows_all_and_no_promise_may_be_missing() {
        let scheme = Scheme::default();
        assert_eq!(scheme.least(), 1);
        assert!((0..12).all(|others| scheme.may_read(others, others)));
        assert!((1..12).all(|others| !scheme.may_read(others, others - 1)));
    }

    #[test]
    fn of_copies_whoever_has_an_object_is_its_source() {
        let scheme = Scheme::default();
        let holders = [CopyId::whole(4), CopyId::whole(2)];
        assert!(scheme.can_make(&holders[1..]) && !scheme.can_make(&[]));
        assert_eq!(scheme.source(&holders, |_| true), Some(holders[0]));
        assert_eq!(scheme.source(&holders, |copy| copy.osd == 2), Some(holders[1]));
        assert_eq!(scheme.source(&holders, |_| false), None, "who has it cannot answer now");
    }
}
