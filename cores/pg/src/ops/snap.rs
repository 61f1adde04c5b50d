//! Snapshots: what clones there are, and going back to one.

use crate::info::WHITEOUT;
use crate::ops::run::{Exec, Run};
use denc::Encode;
use messages::ops;
use messages::osd::OpArgs;
use objectstore::ObjectChange;
use types::{Errno, Intervals, SnapId};

impl Run<'_> {
    pub(super) fn op_list_snaps(&mut self, index: usize) -> Exec<i32> {
        let set = &self.after.info.snaps;
        let mut clones: Vec<ops::CloneInfo> = set
            .clones
            .iter()
            .map(|clone| ops::CloneInfo {
                cloneid: SnapId(clone.id),
                snaps: clone.snaps.iter().rev().copied().collect(),
                overlap: clone.overlap.iter().collect(),
                size: clone.size,
            })
            .collect();
        if self.after.live() {
            clones.push(ops::CloneInfo { cloneid: SnapId::HEAD, size: self.after.size, ..Default::default() });
        }
        let seq = set.seq;
        self.delta.rd += 1;
        self.output(index, ops::SnapList { clones, seq }.to_bytes());
        Ok(0)
    }

    /// Back to what a snapshot shows: nothing to do if that is the head, a deletion if the object did not exist then.
    pub(super) fn op_rollback(&mut self, index: usize) -> Exec<i32> {
        let OpArgs::Snap { snap } = self.at(index).args else { return Err(Errno::EINVAL.into()) };
        let serving = if self.env.snap_removed(snap.0) { None } else { self.after.info.snaps.serving(snap.0) };
        match serving {
            Some(SnapId::HEAD) if self.after.live() => {
                // Nothing moves, but it counts as a change: it takes the request's snapshot context on.
                self.touched = true;
                Ok(0)
            }
            Some(clone) if clone != SnapId::HEAD => {
                self.restore(clone)?;
                Ok(0)
            }
            _ if !self.after.info.watchers.is_empty() => Err(Errno::EBUSY.into()),
            _ => {
                if self.after.live() {
                    self.delete()?;
                }
                Ok(0)
            }
        }
    }

    /// The head becomes what the clone is.
    fn restore(&mut self, clone: SnapId) -> Exec {
        let source = self.env.load(&self.after.at.at(clone))?;
        if !source.exists {
            return Err(Errno::EIO.into());
        }
        let set = &self.after.info.snaps;
        let from = set.clones.partition_point(|c| c.id < clone.0);
        // What all clones from that one on share with their newer neighbours is what the head still has of it.
        let mut shared = Intervals::of(0..self.after.size);
        for clone in &set.clones[from..] {
            shared = shared.intersection(&clone.overlap);
        }
        let mut modified = Intervals::of(0..self.after.size);
        modified.subtract(&shared);
        self.modified.add(&modified);
        if !self.after.exists {
            self.delta.objects += 1;
        } else if self.after.info.is_whiteout() {
            self.delta.whiteouts -= 1;
        }
        self.touched = true;
        self.delta.bytes += source.size as i64 - self.after.size as i64;
        self.changes.push(ObjectChange::CloneOf(source.at.clone()));
        self.after.exists = true;
        self.after.size = source.size;
        let info = &mut self.after.info;
        info.flags &= !WHITEOUT;
        info.omap = source.info.omap;
        info.hint = source.info.hint;
        Ok(())
    }
}
