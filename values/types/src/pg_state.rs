//! States of a placement group, as a set of bits.

use denc::{Decode, Encode, Reader, Result};

/// States of a placement group. Bits and names are Ceph's (`PG_STATE_*`); the empty set is called `unknown`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PgState(u64);

macro_rules! states {
    ($($(#[$about:meta])* $name:ident = $bit:literal, $word:literal;)*) => {
        impl PgState {
            $($(#[$about])* pub const $name: PgState = PgState(1 << $bit);)*

            /// Every bit with its word, in the order in which words are written.
            pub const ALL: &'static [(PgState, &'static str)] = &[$((PgState::$name, $word)),*];
        }
    };
}

// In the order of Ceph's texts.
states! {
    /// No OSD reports about it any more.
    STALE = 17, "stale";
    /// It is being made.
    CREATING = 0, "creating";
    /// It serves clients.
    ACTIVE = 1, "active";
    /// It is peered and becomes active.
    ACTIVATING = 24, "activating";
    /// All copies are where they belong and complete.
    CLEAN = 2, "clean";
    /// It waits for its turn to recover.
    RECOVERY_WAIT = 22, "recovery_wait";
    /// It cannot recover: an OSD is too full.
    RECOVERY_TOOFULL = 28, "recovery_toofull";
    /// Objects are copied to members whose logs say what they lack.
    RECOVERING = 14, "recovering";
    /// It recovers before others.
    FORCED_RECOVERY = 30, "forced_recovery";
    /// It does not serve: an OSD that it needs is gone.
    DOWN = 4, "down";
    /// It cannot recover: an object is nowhere.
    RECOVERY_UNFOUND = 5, "recovery_unfound";
    /// It cannot backfill: an object is nowhere.
    BACKFILL_UNFOUND = 6, "backfill_unfound";
    /// It has fewer members than its pool's size.
    UNDERSIZED = 23, "undersized";
    /// Objects have fewer copies than they should.
    DEGRADED = 10, "degraded";
    /// It does not lie where the map would place it.
    REMAPPED = 18, "remapped";
    /// It waits to be merged.
    PREMERGE = 7, "premerge";
    /// It is being scrubbed.
    SCRUBBING = 8, "scrubbing";
    /// The scrub reads all data.
    DEEP = 19, "deep";
    /// A scrub found what should not be.
    INCONSISTENT = 11, "inconsistent";
    /// Its members agree on what it holds.
    PEERING = 12, "peering";
    /// A scrub repairs what it finds.
    REPAIR = 13, "repair";
    /// It waits for its turn to backfill.
    BACKFILL_WAIT = 15, "backfill_wait";
    /// Objects are copied to members whose logs do not say what they lack.
    BACKFILLING = 20, "backfilling";
    /// It backfills before others.
    FORCED_BACKFILL = 31, "forced_backfill";
    /// It cannot backfill: an OSD is too full.
    BACKFILL_TOOFULL = 21, "backfill_toofull";
    /// Not enough of it is there to serve.
    INCOMPLETE = 16, "incomplete";
    /// It is peered and cannot become active.
    PEERED = 25, "peered";
    /// Removed snapshots are trimmed.
    SNAPTRIM = 26, "snaptrim";
    /// It waits for its turn to trim snapshots.
    SNAPTRIM_WAIT = 27, "snaptrim_wait";
    /// Snapshots could not be trimmed.
    SNAPTRIM_ERROR = 29, "snaptrim_error";
    /// A repair did not repair.
    FAILED_REPAIR = 32, "failed_repair";
    /// It waits for read leases of members that answer late.
    LAGGY = 33, "laggy";
    /// It waits until read leases of an earlier interval end.
    WAIT = 34, "wait";
}

impl PgState {
    /// Nothing is known.
    pub const UNKNOWN: PgState = PgState(0);

    /// Returns what is true of either.
    #[must_use]
    pub const fn with(self, other: PgState) -> Self {
        PgState(self.0 | other.0)
    }

    /// Returns true if all of `other` is true.
    pub const fn has(self, other: PgState) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns true if any of `other` is true.
    pub const fn any(self, other: PgState) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns true if nothing is known.
    pub const fn is_unknown(self) -> bool {
        self.0 == 0
    }

    /// The state of one word, or `unknown`; `None` for a word that is none of them.
    pub fn of_word(word: &str) -> Option<Self> {
        let known = Self::ALL.iter().find(|(_, name)| *name == word).map(|(state, _)| *state);
        known.or_else(|| (word == "unknown").then_some(Self::UNKNOWN))
    }

    /// Returns true if the state's text contains this word.
    pub fn has_word(self, word: &str) -> bool {
        Self::of_word(word).is_some_and(|state| if state.is_unknown() { self.is_unknown() } else { self.has(state) })
    }

    /// The words, in the order in which they are written.
    pub fn words(self) -> impl Iterator<Item = &'static str> {
        let unknown = self.is_unknown().then_some("unknown");
        Self::ALL.iter().filter(move |(state, _)| self.has(*state)).map(|(_, word)| *word).chain(unknown)
    }
}

/// `active+clean`
impl std::fmt::Display for PgState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (i, word) in self.words().enumerate() {
            if i > 0 {
                f.write_str("+")?;
            }
            f.write_str(word)?;
        }
        Ok(())
    }
}

impl Encode for PgState {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
    }
}

impl Decode for PgState {
    const MIN_SIZE: usize = 8;
    /// Bits without a name are kept: a newer daemon may know them.
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        Ok(PgState(r.u64()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_written_in_one_order_whatever_came_first() {
        let state = PgState::SNAPTRIM.with(PgState::DEEP).with(PgState::CLEAN).with(PgState::SCRUBBING).with(PgState::ACTIVE);
        assert_eq!(state.to_string(), "active+clean+scrubbing+deep+snaptrim");
        assert!(state.has(PgState::ACTIVE.with(PgState::CLEAN)) && !state.has(PgState::DOWN));
        assert!(state.has_word("deep") && !state.has_word("down") && !state.has_word("unknown") && !state.has_word("dee"));
    }

    #[test]
    fn nothing_known_is_called_unknown() {
        assert_eq!(PgState::UNKNOWN.to_string(), "unknown");
        assert!(PgState::UNKNOWN.has_word("unknown") && !PgState::UNKNOWN.has_word("active"));
    }

    #[test]
    fn each_word_has_a_bit_of_its_own_and_survives_encoding() {
        let mut all = PgState::UNKNOWN;
        for (state, word) in PgState::ALL {
            assert!(!all.has(*state), "{word}");
            assert_eq!((PgState::of_word(word), state.to_string()), (Some(*state), (*word).to_owned()));
            assert_eq!(PgState::from_bytes(&state.to_vec()), Ok(*state));
            all = all.with(*state);
        }
        assert_eq!((PgState::ALL.len(), all.words().count()), (33, 33));
    }
}
