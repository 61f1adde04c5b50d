//! CALL: methods of object classes.

use crate::ops::run::{Exec, Run, Stop};
use bytes::Bytes;
use classes::{Change, Fail, Lookup, Origin, Stat, View};
use messages::osd::code;
use objectstore::{Page, Read, Unread};
use types::{Errno, Rope};

/// Most entries that a method gets from one listing.
const LIST_LIMIT: usize = 1024;

/// A run as a class method sees it.
struct Look<'r, 'a>(&'r Run<'a>);

/// Only the store's own answers come out of the readers that a view uses.
fn unread<T>(read: Exec<T>) -> Read<T> {
    read.map_err(|stop| match stop {
        Stop::Unread(unread) => unread,
        Stop::Result(_) | Stop::Copy(_) | Stop::Shards(..) => unreachable!("plain reads only miss"),
    })
}

impl View for Look<'_, '_> {
    fn stat(&self) -> Read<Option<Stat>> {
        let after = &self.0.after;
        Ok(after.live().then_some(Stat { size: after.size, mtime: after.info.mtime }))
    }

    fn read(&self, offset: u64, len: u64) -> Read<Rope> {
        let run = self.0;
        if !run.before.exists {
            return Ok(Rope::new());
        }
        let data = run.env.store.read(run.env.hold, &run.before.at, offset, len)?;
        run.env.see(data.len());
        Ok(data)
    }

    fn extents(&self, offset: u64, len: u64) -> Read<Vec<(u64, u64)>> {
        let run = self.0;
        if !run.before.exists {
            return Ok(Vec::new());
        }
        run.env.store.extents(run.env.hold, &run.before.at, offset, len)
    }

    fn xattr(&self, name: &[u8]) -> Read<Option<Bytes>> {
        unread(self.0.xattr(name))
    }

    fn xattrs(&self) -> Read<Vec<(Bytes, Bytes)>> {
        let run = self.0;
        if !run.before.exists {
            return Ok(Vec::new());
        }
        let all = run.env.store.xattrs(run.env.hold, &run.before.at)?;
        run.env.see(all.iter().map(|(name, value)| name.len() + value.len()).sum());
        Ok(all)
    }

    fn omap_header(&self) -> Read<Bytes> {
        unread(self.0.omap_header())
    }

    fn omap_list(&self, after: &[u8], prefix: &[u8], max: usize) -> Read<Page> {
        unread(self.0.omap_list(after, prefix, max.min(LIST_LIMIT) as u64))
    }

    fn omap_get(&self, keys: &[Bytes]) -> Read<Vec<(Bytes, Bytes)>> {
        unread(self.0.omap_get(keys))
    }

    fn snap_seq(&self) -> Option<u64> {
        let Run { before, after, .. } = self.0;
        // What is deleted but has clones was written under their snapshots.
        let there = after.live() || after.exists && !before.info.snaps.clones.is_empty();
        there.then_some(before.info.snaps.seq)
    }

    fn watchers(&self) -> Vec<Origin> {
        let watchers = self.0.before.info.watchers.iter();
        watchers.map(|w| Origin { kind: w.holder.0, num: w.holder.1, addr: w.addr }).collect()
    }

    fn user_version(&self) -> u64 {
        self.0.after.info.user_version
    }
}

impl Run<'_> {
    pub(super) fn op_call(&mut self, index: usize) -> Exec<i32> {
        let op = self.op;
        let call = op.op.ops[index].class_call()?;
        let method = match classes::find(call.class, call.method) {
            Lookup::Found(method) => method,
            Lookup::UnknownClass => return Err(Errno::EPERM.into()),
            Lookup::UnknownMethod => return Err(Errno::EOPNOTSUPP.into()),
        };
        if method.writes() {
            self.user_modify = true;
        }
        let look = Look(self);
        let (kind, num) = self.holder();
        let origin = Origin { kind, num, addr: self.op.peer.addr };
        let mut call = classes::Call::new(&look, call.input, origin, self.env.now.wall, self.op.op.oid.clone());
        call.place = (self.env.next_version().version, index);
        let most = self.env.entries();
        call.items.set(most);
        let outcome = (method.run)(&mut call);
        self.env.see_entries(most - call.items.get().min(most));
        self.env.can_afford(call.work.get());
        let changes = std::mem::take(&mut call.changes);
        let (result, excuse) = (call.result, std::mem::take(&mut call.excuse));
        self.delta.rd += i64::from(method.reads());
        let output = match outcome {
            Ok(output) => output,
            Err(Fail::Unread(Unread::Missing(wish))) => return Err(Unread::Missing(wish).into()),
            Err(Fail::Unread(damaged)) => return Err(damaged.into()),
            Err(Fail::Errno(errno)) => {
                self.output(index, excuse);
                return Err(errno.into());
            }
        };
        if !changes.is_empty() && !method.writes() {
            // A class that changes what it did not announce could have slipped past the capabilities.
            return Err(Errno::EIO.into());
        }
        self.must_admit(&changes)?;
        for change in changes {
            self.class_change(change)?;
        }
        self.output(index, output);
        Ok(result)
    }

    /// EOPNOTSUPP if the pool does not take one of these changes: then it gets none of them.
    fn must_admit(&self, changes: &[Change]) -> Exec {
        if self.env.scheme.is_whole() {
            return Ok(());
        }
        let mut size = self.after.live().then_some(self.after.size);
        for change in changes {
            let (op, offset) = match change {
                Change::Create { .. } => (code::CREATE, 0),
                Change::Write(offset, _) => (code::WRITE, *offset),
                Change::WriteFull(_) => (code::WRITEFULL, 0),
                Change::Zero(..) => (code::ZERO, 0),
                Change::Truncate(_) => (code::TRUNCATE, 0),
                Change::Remove => (code::DELETE, 0),
                Change::SetXattr(..) | Change::RemoveXattr(_) => (code::SETXATTR, 0),
                Change::OmapSet(_) => (code::OMAPSETVALS, 0),
                Change::OmapRemove(_) => (code::OMAPRMKEYS, 0),
                Change::OmapRemoveRange(..) => (code::OMAPRMKEYRANGE, 0),
                Change::OmapHeader(_) => (code::OMAPSETHEADER, 0),
                Change::OmapClear => (code::OMAPCLEAR, 0),
            };
            self.env.scheme.admits(self.env.pool, op, offset, size)?;
            size = match change {
                Change::Write(offset, data) => Some(size.unwrap_or(0).max(offset + data.len() as u64)),
                Change::WriteFull(data) => Some(data.len() as u64),
                Change::Remove => None,
                _ => size,
            };
        }
        Ok(())
    }

    fn class_change(&mut self, change: Change) -> Exec {
        match change {
            Change::Create { exclusive } => self.create_object(exclusive),
            Change::Write(offset, data) => self.write_at(offset, data),
            Change::WriteFull(data) => self.write_full(data),
            Change::Zero(offset, length) => self.zero(offset, length),
            Change::Truncate(size) => self.truncate(size),
            Change::Remove => self.delete(),
            Change::SetXattr(name, value) => self.set_xattr(name, value),
            Change::RemoveXattr(name) => self.remove_xattr(name),
            Change::OmapSet(pairs) => {
                self.omap_set(pairs);
                Ok(())
            }
            Change::OmapRemove(keys) => self.omap_remove(keys),
            Change::OmapRemoveRange(first, end) => self.omap_remove_range(first, end),
            Change::OmapHeader(header) => {
                self.omap_set_header(header);
                Ok(())
            }
            Change::OmapClear => self.omap_clear(),
        }
    }
}
