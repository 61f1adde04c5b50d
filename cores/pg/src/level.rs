//! The level of a message: what its reader must know at least (`docs/decisions/0028-levels.md`). The simulator checks that nobody is
//! sent what his program does not know.
//!
//! Each part names its own level, and each field is named here: whoever adds a kind of message, or a field to a part, is asked by the
//! compiler what an older reader makes of it.

use crate::body::{Body, Progress};
use crate::changed::Changed;
use crate::entry::{Kind, LogEntry};
use crate::history::History;
use crate::info::ObjectInfo;
use crate::letter::{Letter, LogPart, PeerInfo, Sealed};
use crate::meta::Info;
use crate::missing::Lack;
use crate::object::Piece;
use crate::stats::Stats;
use objectstore::{ObjectChange, ObjectChanges};
use types::{EVersion, Feature, level::Level};

/// A part of a message.
pub(crate) trait Leveled {
    /// Returns the lowest level at which a program reads it rightly.
    fn level(&self) -> Level;
}

/// The level of a feature if it is used.
fn with(feature: Feature, used: bool) -> Level {
    if used { feature.level() } else { Level::FIRST }
}

/// The highest level of some parts.
fn highest(parts: impl IntoIterator<Item = Level>) -> Level {
    parts.into_iter().max().unwrap_or(Level::FIRST)
}

fn of_all<'a, T: Leveled + 'a>(parts: impl IntoIterator<Item = &'a T>) -> Level {
    highest(parts.into_iter().map(Leveled::level))
}

impl Sealed {
    /// The level that whoever reads it must know, for the simulator.
    ///
    /// # Errors
    /// It does not decode.
    pub fn level(&self) -> denc::Result<types::level::Level> {
        Letter::open(self).map(|(_, letter)| Leveled::level(&letter))
    }
}

impl Leveled for Stats {
    fn level(&self) -> Level {
        with(Feature::LargeOmaps, self.large_omaps != 0)
    }
}

impl Leveled for Info {
    fn level(&self) -> Level {
        let Self { last_update: _, user_version: _, log_tail: _, stable, stats } = self;
        stats.level().max(with(Feature::Shards, *stable != EVersion::default()))
    }
}

impl Leveled for History {
    fn level(&self) -> Level {
        // All else stands in layout 2, which every program with peers reads.
        let Self { unions, taken, .. } = self;
        with(Feature::Merges, !unions.is_empty() || !taken.is_empty())
    }
}

impl Leveled for LogEntry {
    fn level(&self) -> Level {
        let Self { kind, object: _, prior: _, mtime: _, snaps: _, changed, before, done: _ } = self;
        let lost = match kind {
            Kind::Modify | Kind::Clone | Kind::Delete | Kind::Error => false,
            Kind::LostRevert | Kind::LostDelete => true,
        };
        let parts = with(Feature::Parts, *changed != Changed::All);
        with(Feature::LostEntries, lost).max(parts).max(with(Feature::Shards, before.is_some()))
    }
}

impl Leveled for Lack {
    fn level(&self) -> Level {
        let Self { need: _, base } = self;
        with(Feature::Parts, base.is_some())
    }
}

impl Leveled for ObjectChanges {
    fn level(&self) -> Level {
        let Self { object: _, changes } = self;
        of_all(changes)
    }
}

impl Leveled for ObjectChange {
    fn level(&self) -> Level {
        match self {
            Self::SetInfo(record) => {
                let info = ObjectInfo::decode(record).unwrap_or_default();
                with(Feature::RecordedSizes, info.size.is_some()).max(with(Feature::Shards, info.layout.is_some()))
            }
            Self::Create
            | Self::Write(..)
            | Self::Zero(..)
            | Self::Truncate(_)
            | Self::Remove
            | Self::SetXattr(..)
            | Self::RemoveXattr(_)
            | Self::ClearXattrs
            | Self::OmapHeader(_)
            | Self::OmapSet(_)
            | Self::OmapRemove(_)
            | Self::OmapRemoveRange(..)
            | Self::OmapClear
            | Self::CloneOf(_) => Level::FIRST,
            // Of groups of shards alone. What copies collected each of them finds out for itself, and no message says it.
            Self::Xor(..) | Self::CloneRange(..) | Self::TakeOver(_) => with(Feature::Shards, true),
        }
    }
}

impl Leveled for Piece {
    fn level(&self) -> Level {
        let Self { changes, next: _ } = self;
        changes.level()
    }
}

impl Leveled for Body {
    fn level(&self) -> Level {
        let Self { entries, objects, index: _, delta, purged: _, clean: _, stable, progress } = self;
        let stable = with(Feature::Shards, *stable != EVersion::default());
        let progress = progress.as_ref().map_or(Level::FIRST, |progress| {
            let Progress { recovered: _, backfill: _, complete: _, bases, lacks } = &**progress;
            with(Feature::Parts, !bases.is_empty()).max(with(Feature::UnfoundPassed, !lacks.is_empty()))
        });
        highest([of_all(entries), of_all(objects), delta.level(), stable, progress])
    }
}

impl Leveled for PeerInfo {
    fn level(&self) -> Level {
        let Self { info, history, runs: _, missing: _, rests: _ } = self;
        info.level().max(history.level())
    }
}

impl Leveled for LogPart {
    fn level(&self) -> Level {
        let Self { info, history, common: _, anew: _, entries, dups: _, missing: _ } = self;
        highest([info.level(), history.level(), of_all(entries)])
    }
}

impl Leveled for Letter {
    fn level(&self) -> Level {
        match self {
            Self::Query | Self::Absent | Self::Unable | Self::LogWish(_) | Self::Remove | Self::Spoilt(_) => Level::FIRST,
            Self::Pull(..) | Self::Scan(..) | Self::Scanned(..) | Self::Survey(_) | Self::Surveyed(_) => Level::FIRST,
            Self::Info(peer) => peer.level(),
            Self::Log(part) | Self::Activate(part) => part.level(),
            Self::Activated(missing) => of_all(missing.iter().map(|(_, lack)| lack)),
            Self::Body(_, body) => body.level(),
            Self::Ack(_, time) => with(Feature::PromiseTimes, time.is_some()),
            Self::AckLacking(..) => Feature::Lacking.level(),
            Self::Pulled(_, _, piece) => of_all(piece.as_deref()),
            Self::PullPart(..) => Feature::Parts.level(),
            Self::PulledPart(_, _, piece) => Feature::Parts.level().max(of_all(piece.as_deref())),
            Self::Seek(_) | Self::Sought(_) => Feature::UnfoundSearch.level(),
            Self::Reserve(..) | Self::Release(_) | Self::Reserved(..) => Feature::RecoverySlots.level(),
            Self::Settle | Self::Settled(_) => Feature::ReplicaReads.level(),
            Self::ReadShard(_) | Self::ShardRead(..) => Feature::Shards.level(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Union;
    use bytes::Bytes;
    use types::HObject;

    /// What came with a level raises that of each message that carries it.
    #[test]
    fn messages_have_the_level_of_the_newest_part_in_them() {
        let figures = Stats { large_omaps: 1, ..Stats::default() };
        let merged = History { unions: vec![Union::default()], ..History::default() };
        let record = ObjectInfo { size: Some(7), ..ObjectInfo::default() }.encode();
        let sized = |name: &'static str| ObjectChanges {
            object: HObject { name: Bytes::from_static(name.as_bytes()), ..HObject::default() }.into(),
            changes: vec![ObjectChange::SetInfo(record.clone())],
        };
        let body = Body { delta: figures, ..Body::default() };
        let info = Info { stats: figures, ..Info::default() };
        let asked = crate::pieces::Question { number: 1, after: 0, wants: Vec::new() };
        let cases = [
            (Letter::Query, Level::FIRST),
            (Letter::Body(1, Box::default()), Level::FIRST),
            (Letter::Body(1, Box::new(body)), Feature::LargeOmaps.level()),
            (Letter::Body(1, Box::new(Body { objects: vec![sized("a")], ..Body::default() })), Feature::RecordedSizes.level()),
            (Letter::ShardRead(Box::new(asked), None), Feature::Shards.level()),
            (Letter::Info(Box::new(PeerInfo { info, ..PeerInfo::default() })), Feature::LargeOmaps.level()),
            (Letter::Log(Box::new(LogPart { history: merged, ..LogPart::default() })), Feature::Merges.level()),
            (
                Letter::Pulled(
                    HObject::default(),
                    crate::object::PieceAt::default(),
                    Some(Box::new(Piece { changes: sized("b"), next: None })),
                ),
                Feature::RecordedSizes.level(),
            ),
        ];
        for (letter, level) in cases {
            assert_eq!(letter.level(), level, "{letter:?}");
        }
    }
}
