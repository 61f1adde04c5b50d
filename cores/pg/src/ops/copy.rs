//! Copies from another object: taking one on, and giving one out to whoever copies.

use crate::ops::portion::{Copied, Portion, PortionWish};
use crate::ops::run::{CopyWish, Exec, Run, Stop};
use bytes::Bytes;
use denc::Reader;
use messages::ops::CopySource;
use messages::osd::code::{self, copy_from_flags};
use messages::osd::{OpArgs, flags};
use objectstore::{Limit, ObjectChange, ObjectChanges};
use std::ops::Bound;
use types::{Errno, SnapId};

/// Bytes of a portion at most, with attributes, which have no bound of their own, and an entry of the omap that is larger than what was
/// asked for. A message may have 128 MiB of data.
const PORTION: usize = 112 << 20;
/// Copies that one request may take on. Each is staged, whole, before the request runs, and counts in no quota until then; stock clients ask
/// for one.
const COPIES: usize = 4;

impl Run<'_> {
    pub(super) fn op_copy_from(&mut self, index: usize) -> Exec<i32> {
        let copies = self.op.op.ops.iter().filter(|op| matches!(op.code, code::COPY_FROM | code::COPY_FROM2));
        if copies.count() > COPIES {
            return Err(Errno::EINVAL.into());
        }
        let OpArgs::CopyFrom { snap, src_version, flags: wanted, .. } = self.at(index).args else {
            return Err(Errno::EINVAL.into());
        };
        let source: CopySource = Reader::new(&self.at(index).input).get()?;
        let (name, place) = (&self.op.op.oid, &self.op.op.locator);
        let itself = source.name == *name
            && (source.locator.pool, &source.locator.key, &source.locator.nspace) == (place.pool, &place.key, &place.nspace)
            && snap == SnapId::HEAD;
        if itself || wanted & copy_from_flags::TRUNCATE_SEQ != 0 && source.truncate.is_none() {
            return Err(Errno::EINVAL.into());
        }
        let truncate = source.truncate.filter(|_| wanted & copy_from_flags::TRUNCATE_SEQ != 0);
        let copied = match self.copies.get(&index) {
            Some(Ok(copied)) => copied,
            Some(Err(result)) => return Err(Stop::Result(*result)),
            None => {
                let mut read = flags::READ;
                if wanted & copy_from_flags::MAP_SNAP_CLONE != 0 {
                    read |= flags::MAP_SNAP_CLONE;
                }
                let (name, locator) = (source.name, source.locator);
                let wish = CopyWish { index, name, locator, snap, version: src_version, flags: read };
                return Err(Stop::Copy(Box::new(wish)));
            }
        };
        self.take_copy(copied, truncate);
        Ok(0)
    }

    /// The object becomes the copy: what it was is replaced, its watchers and clones stay.
    fn take_copy(&mut self, copied: &Copied, truncate: Option<(u32, u64)>) {
        self.create();
        self.modified.insert(0, self.after.size.max(copied.size));
        if let Some(staged) = &copied.staged {
            self.changes.push(ObjectChange::CloneOf(staged.clone()));
            self.behind.push(ObjectChanges { object: staged.clone(), changes: vec![ObjectChange::Remove] });
        } else {
            self.changes.extend([ObjectChange::Truncate(0), ObjectChange::ClearXattrs, ObjectChange::OmapClear]);
            self.changes.extend(copied.changes());
        }
        self.delta.bytes += copied.size as i64 - self.after.size as i64;
        self.delta.wr += 1;
        self.delta.wr_kb += crate::stats::kb(copied.size);
        self.after.size = copied.size;
        let info = &mut self.after.info;
        info.omap = copied.omap;
        info.mtime = copied.mtime;
        (info.truncate_seq, info.truncate_size) = truncate.unwrap_or((copied.truncate_seq, copied.truncate_size));
        self.copied_version = Some(copied.user_version);
    }

    /// Gives out a part of the object: attributes first, then data, then omap, as far as one answer goes.
    pub(super) fn op_copy_read(&mut self, index: usize) -> Exec<i32> {
        if self.op.peer.kind != types::EntityType::Osd {
            return Err(Errno::EPERM.into());
        }
        self.must_live()?;
        let wish = PortionWish::decode(&self.at(index).input)?;
        let (store, hold, at) = (self.env.store, self.env.hold, &self.before.at);
        let info = &self.before.info;
        let mut portion = Portion {
            size: self.before.size,
            mtime: info.mtime,
            user_version: info.user_version,
            truncate: (info.truncate_seq, info.truncate_size),
            omap: info.omap,
            ..Portion::default()
        };
        if wish.offset == 0 && wish.after.is_empty() {
            portion.xattrs = store.xattrs(hold, at)?;
            portion.header = if info.omap { store.omap_header(hold, at)? } else { Bytes::new() };
        }
        if wish.offset < self.before.size {
            portion.data = store.read(hold, at, wish.offset, u64::from(wish.max))?;
        }
        portion.more = wish.offset + (portion.data.len() as u64) < self.before.size;
        if !portion.more && info.omap {
            let from = if wish.after.is_empty() { Bound::Unbounded } else { Bound::Excluded(&wish.after[..]) };
            let limit = Limit { entries: usize::MAX, bytes: wish.max as usize };
            let page = store.omap_scan(hold, at, (from, Bound::Unbounded), limit)?;
            (portion.entries, portion.more) = (page.entries, page.more);
        }
        self.count_read(portion.data.len() as u64);
        let portion = portion.encode();
        self.env.see(portion.len());
        if portion.len() > PORTION {
            return Err(Errno::EFBIG.into());
        }
        self.output(index, portion);
        Ok(0)
    }
}
