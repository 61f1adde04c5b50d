//! The level of a cluster: what all its daemons may say to each other and write (`docs/decisions/0028-levels.md`).
//!
//! Daemons read all that their program knows, at any level. What they *send to each other, and write to disks and to the monitors' log,*
//! depends on the level. So a new program lives beside older ones, and an older one can come back, until the level is raised.
//!
//! A new thing that an older program would misread or refuse is a [`Feature`] here, with the level that it comes with. Whoever writes it
//! asks first: `map.level.has(Feature::X)`. The level is in the OSD map, so a group asks the map of its call, a monitor that of its state.

use std::fmt;
use std::str::FromStr;

/// A cluster's level, from 1. It never falls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Level(pub u8);

/// Something that is said or written from some level on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// A promise tells how long the copy took (the tail of letter 9).
    PromiseTimes,
    /// Everybody is asked for objects that no member has (letters 23 and 24).
    UnfoundSearch,
    /// Objects that nobody has can be given up: kinds 5 and 6 of log entries.
    LostEntries,
    /// Objects are moved with slots of those that get them (letters 25 to 27).
    RecoverySlots,
    /// The leader asks other monitors for their time (message 0x4e26).
    MonClocks,
    /// Log entries say what they changed of their object (layout 2), and objects are brought in part (letters 28 to 30).
    Parts,
    /// A copy tells with its promises what it lacks all the same (letter 31).
    Lacking,
    /// Pools get fewer groups: layout 3 of a group's history, and maps that merge groups.
    Merges,
    /// Members that do not lead answer reads (letters 32 and 33), and a new primary waits for what was promised to them.
    ReplicaReads,
    /// Objects with large omaps are counted: layout 2 of a group's figures, in its info and in bodies.
    LargeOmaps,
    /// OSDs are told whose rights have ended, and end their sessions.
    Revocations,
    /// Records of objects say how large they are.
    RecordedSizes,
    /// Monitors keep on their disks what other monitors promised (version 4 of their store), and compare checksums of their states.
    StoreMarks,
    /// Monitors remember answers by their age, not their number: layout 3 of the monitors' state.
    AnswersByAge,
    /// Orders of groups in `pg_upmap` say who leads. A leader of the monitors that does not know them would not let them go.
    LeaderOrders,
    /// Letters that are too long for one message come in parts (message 0x4e11), so fronts of letters may be as long as a request can make them.
    LongLetters,
    /// All monitors sign tickets: a key that is made from then on is shown to services as one that signs, and other tickets under it are
    /// refused.
    SignedTickets,
    /// A copy that is being filled is told what is unfound, and lacks that: backfill passes it.
    UnfoundPassed,
    /// Pools of shards: what they are made by stands in the OSD map, behind the level.
    Erasure,
    /// Groups whose copies have shards (letters 34 and 35, records of objects that say how these lie on shards).
    Shards,
}

impl Feature {
    /// All of them.
    pub const ALL: &[Feature] = &[
        Self::PromiseTimes,
        Self::UnfoundSearch,
        Self::LostEntries,
        Self::RecoverySlots,
        Self::MonClocks,
        Self::Parts,
        Self::Lacking,
        Self::Merges,
        Self::ReplicaReads,
        Self::LargeOmaps,
        Self::Revocations,
        Self::RecordedSizes,
        Self::StoreMarks,
        Self::AnswersByAge,
        Self::LeaderOrders,
        Self::LongLetters,
        Self::SignedTickets,
        Self::UnfoundPassed,
        Self::Erasure,
        Self::Shards,
    ];

    /// The level that it comes with.
    pub const fn level(self) -> Level {
        match self {
            Self::PromiseTimes | Self::UnfoundSearch | Self::LostEntries | Self::RecoverySlots | Self::MonClocks => Level(2),
            Self::Parts | Self::Lacking | Self::Merges => Level(2),
            Self::ReplicaReads => Level(3),
            Self::LargeOmaps => Level(4),
            Self::Revocations | Self::RecordedSizes | Self::StoreMarks | Self::AnswersByAge => Level(5),
            Self::LeaderOrders | Self::LongLetters | Self::SignedTickets | Self::UnfoundPassed => Level(5),
            Self::Erasure | Self::Shards => Level(5),
        }
    }
}

impl Level {
    /// That of clusters whose programs knew no levels.
    pub const FIRST: Level = Level(1);

    /// Returns true if that may be said and written.
    pub const fn has(self, feature: Feature) -> bool {
        self.0 >= feature.level().0
    }
}

impl Default for Level {
    fn default() -> Self {
        Self::FIRST
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The levels that a program can run at. As text: `1-2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Levels {
    /// The oldest one.
    pub oldest: Level,
    /// The newest one.
    pub newest: Level,
}

impl Levels {
    /// Those of this program.
    pub const OWN: Levels = Levels { oldest: Level::FIRST, newest: Level(5) };
    /// Those of a daemon that does not say any: its program is older than levels.
    pub const UNSAID: Levels = Levels { oldest: Level::FIRST, newest: Level::FIRST };
    /// The name under which daemons tell theirs among their metadata.
    pub const KEY: &str = "nacre_levels";
    /// The name under which an OSD tells the highest level that its cluster had as far as it knows, as a number. What it wrote may be of it.
    pub const REACHED: &str = "nacre_level";
    /// The name under which a daemon tells the commit that its program is built of: 40 hexadecimal digits.
    pub const COMMIT: &str = "nacre_commit";

    /// Returns true if a program that has these can be part of a cluster at that level.
    pub fn can_run(self, level: Level) -> bool {
        self.oldest <= level && level <= self.newest
    }

    /// The levels that a daemon told; [`Levels::UNSAID`] if it told none. Text that is none counts as that, too.
    pub fn told(text: Option<&String>) -> Levels {
        text.and_then(|text| text.parse().ok()).unwrap_or(Self::UNSAID)
    }

    /// The level that an OSD told that its cluster had; [`Level::FIRST`] if it told none.
    pub fn reached(text: Option<&String>) -> Level {
        text.and_then(|text| text.parse().ok()).map_or(Level::FIRST, Level)
    }

    /// Returns why a program that has these cannot be part of a cluster at that level, in a sentence; nothing if it
    /// can.
    pub fn refusal(self, level: Level) -> Option<String> {
        match self.can_run(level) {
            true => None,
            false if self.newest < level => Some(format!(
                "the cluster's level is {level}, and the program runs levels {self}: it is too old, install a newer one"
            )),
            false => Some(format!(
                "the cluster's level is {level}, and the program runs levels {self}: it is too new, raise the cluster's level with the \
                 program before it first"
            )),
        }
    }
}

impl fmt::Display for Levels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.oldest, self.newest)
    }
}

impl FromStr for Levels {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (oldest, newest) = text.split_once('-').ok_or(())?;
        let level = |text: &str| text.parse().map(Level).map_err(drop);
        let levels = Levels { oldest: level(oldest)?, newest: level(newest)? };
        if levels.oldest >= Level::FIRST && levels.oldest <= levels.newest { Ok(levels) } else { Err(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_told_as_text() {
        let levels = |oldest, newest| Levels { oldest: Level(oldest), newest: Level(newest) };
        assert_eq!(Levels::OWN.to_string().parse(), Ok(Levels::OWN));
        assert_eq!("3-12".parse(), Ok(levels(3, 12)));
        for wrong in ["", "2", "-", "0-2", "2-1", "1-256", "a-b", "1-2-3", " 1-2"] {
            assert_eq!(wrong.parse::<Levels>(), Err(()), "{wrong:?}");
            assert_eq!(Levels::told(Some(&wrong.to_owned())), Levels::UNSAID);
        }
        assert_eq!(Levels::told(None), Levels::UNSAID);
    }

    #[test]
    fn a_program_runs_the_levels_that_it_has() {
        let two = Levels { oldest: Level(2), newest: Level(3) };
        assert_eq!([1, 2, 3, 4].map(|n| two.can_run(Level(n))), [false, true, true, false]);
        assert!(two.refusal(Level(1)).is_some_and(|why| why.contains("too new")));
        assert!(two.refusal(Level(4)).is_some_and(|why| why.contains("too old")));
        assert_eq!(two.refusal(Level(3)), None);
    }

    #[test]
    fn this_program_has_the_levels_of_all_its_features_and_no_others() {
        let newest = Feature::ALL.iter().map(|feature| feature.level()).max();
        assert_eq!(newest, Some(Levels::OWN.newest));
        assert!(Feature::ALL.iter().all(|feature| !Level::FIRST.has(*feature) && Levels::OWN.newest.has(*feature)));
    }
}
