//! What was before a change, as its log entries say it, and what undoes it.
//!
//! Each entry of a group of shards says what its object was before ([`crate::entry::Was`]), the same on all shards. Each
//! copy keeps its own shard for that ([`crate::core::kept`]). So a copy can go back by itself, whoever else is there.

use super::Shards;
use crate::body::Body;
use crate::entry::{Before, Kind, LogEntry, Was};
use crate::missing::Lack;
use crate::scheme::Undo;
use crate::stats::Stats;
use objectstore::{Hold, Read, View};
use types::EVersion;

impl Shards {
    /// Lets the entries of a change say what was before it. `body` has what happens on the own shard.
    ///
    /// # Errors
    /// Records must be read first, or cannot be read.
    pub(crate) fn note_before(&self, store: &dyn View, hold: Hold, body: &mut Body) -> Read<()> {
        let last = body.entries.len().saturating_sub(1);
        for (n, entry) in body.entries.iter_mut().enumerate() {
            let delta = if n == last { body.delta } else { Stats::default() };
            let was = match entry.kind {
                Kind::Error => Was::Same,
                Kind::Clone => Was::Absent,
                _ if entry.prior == EVersion::default() => Was::Absent,
                _ => match body.objects.iter().find(|of| of.object.object == entry.object) {
                    Some(of) => store.stat(hold, &of.object)?.map_or(Was::Absent, |stat| Was::Kept(stat.info)),
                    // A clone serves one snapshot less: only its head's record says so.
                    None => Was::Same,
                },
            };
            entry.before = Some(Box::new(Before { was, delta }));
        }
        Ok(())
    }

    /// Returns what becomes of an entry's object on a copy that carried it out, and it does not count.
    pub(crate) fn undo(&self, entry: &LogEntry) -> Undo {
        let Some(before) = &entry.before else {
            // Of what an operator gave up nothing is kept.
            return if entry.kind == Kind::Error { Undo::Nothing } else { Undo::Bring(Lack::whole(entry.prior)) };
        };
        match &before.was {
            Was::Same => Undo::Nothing,
            Was::Absent => Undo::Remove,
            Was::Kept(record) => Undo::Restore { generation: entry.done.version.version, record: record.clone() },
        }
    }
}
