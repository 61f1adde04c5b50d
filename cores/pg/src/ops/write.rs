//! Changes of data and of the object as a whole.

use super::Extent;
use crate::info::WHITEOUT;
use crate::ops::run::{Exec, Run, Side};
use crate::stats::kb;
use bytes::Bytes;
use messages::osd::{OpArgs, op_flags};
use objectstore::ObjectChange;
use types::{Errno, Rope};

/// A pattern is repeated in memory up to about this many bytes before the pieces are shared.
const PATTERN_BLOCK: usize = 64 << 10;

impl Run<'_> {
    /// EFBIG if the range reaches beyond the largest object.
    fn check_range(&self, offset: u64, length: u64) -> Exec {
        let max = self.env.config.max_object_size;
        if offset >= max || length > max || offset + length > max { Err(Errno::EFBIG.into()) } else { Ok(()) }
    }

    /// The size becomes `size`.
    fn resize(&mut self, size: u64) {
        self.delta.bytes += size as i64 - self.after.size as i64;
        self.after.size = size;
    }

    fn count_write(&mut self, bytes: u64) {
        self.delta.wr += 1;
        self.delta.wr_kb += kb(bytes);
    }

    /// Cuts or grows to `size`, with what that does to snapshots and figures.
    fn cut(&mut self, size: u64) {
        self.changes.push(ObjectChange::Truncate(size));
        self.modified.insert_range(size..self.after.size);
        self.resize(size);
    }

    /// Writes bytes at an offset, without regard to truncation numbers.
    pub(crate) fn write_at(&mut self, offset: u64, data: Rope) -> Exec {
        let length = data.len() as u64;
        self.check_range(offset, length)?;
        self.create();
        if length == 0 {
            if offset > self.after.size {
                self.cut(offset);
            }
        } else {
            self.changes.push(ObjectChange::Write(offset, data));
            self.modified.insert(offset, length);
            if offset + length > self.after.size {
                self.resize(offset + length);
            }
        }
        self.count_write(length);
        Ok(())
    }

    pub(super) fn op_write(&mut self, index: usize) -> Exec<i32> {
        let extent = Extent::of(self.at(index))?;
        let data = self.input(index);
        if extent.length != data.len() as u64 {
            return Err(Errno::EINVAL.into());
        }
        let data = self.order_truncation(extent, data);
        self.write_at(extent.offset, self.summed(index, data))?;
        Ok(0)
    }

    /// An operation's input, of which something may have been cut off at the end, with the checksums that are known of it.
    fn summed(&self, index: usize, data: Bytes) -> Rope {
        Rope::from(data).with_block_sums(self.at(index).sums.clone())
    }

    /// Returns how many bytes at the end of a write were cut off by a truncation that the writer did not know of.
    fn stale_bytes(&self, extent: Extent) -> u64 {
        if self.after.info.truncate_seq <= extent.truncate_seq {
            return 0;
        }
        extent.end().saturating_sub(self.after.size.max(extent.offset))
    }

    /// Brings a write of a file system into order with its truncations: a write from before one is cut, a write from after
    /// one that has not arrived does its work.
    fn order_truncation(&mut self, extent: Extent, mut data: Bytes) -> Bytes {
        let seq = self.after.info.truncate_seq;
        data.truncate(data.len() - (self.stale_bytes(extent) as usize).min(data.len()));
        if extent.truncate_seq > seq {
            if self.after.live() && self.after.size > extent.truncate_size {
                self.cut(extent.truncate_size);
            }
            self.create();
            self.after.info.truncate_seq = extent.truncate_seq;
            self.after.info.truncate_size = extent.truncate_size;
        }
        data
    }

    /// Replaces all bytes.
    pub(crate) fn write_full(&mut self, data: Rope) -> Exec {
        let length = data.len() as u64;
        self.check_range(0, length)?;
        self.create();
        self.whole = true;
        self.modified.insert(0, self.after.size.max(length));
        if length < self.after.size {
            // Not to `length`: of the block that holds the new end nothing is kept, so it need not be read.
            self.changes.push(ObjectChange::Truncate(0));
        }
        if length > 0 {
            self.changes.push(ObjectChange::Write(0, data));
        }
        self.resize(length);
        self.count_write(length);
        Ok(())
    }

    pub(super) fn op_write_full(&mut self, index: usize) -> Exec<i32> {
        let extent = Extent::of(self.at(index))?;
        let data = self.input(index);
        if extent.length != data.len() as u64 {
            return Err(Errno::EINVAL.into());
        }
        self.write_full(self.summed(index, data))?;
        Ok(0)
    }

    pub(super) fn op_append(&mut self, index: usize) -> Exec<i32> {
        let extent = Extent::of(self.at(index))?;
        let data = self.input(index);
        if extent.length != data.len() as u64 {
            return Err(Errno::EINVAL.into());
        }
        self.write_at(self.after.size, self.summed(index, data))?;
        Ok(0)
    }

    pub(super) fn op_write_same(&mut self, index: usize) -> Exec<i32> {
        let OpArgs::WriteSame { offset, length, data_length } = self.at(index).args else {
            return Err(Errno::EINVAL.into());
        };
        let pattern = self.input(index);
        if length == 0 {
            return Ok(0);
        }
        if data_length == 0 || length % data_length != 0 || data_length != pattern.len() as u64 {
            return Err(Errno::EINVAL.into());
        }
        self.check_range(offset, length)?;
        let extent = Extent { offset, length, truncate_size: 0, truncate_seq: 0 };
        let length = length - self.stale_bytes(extent);
        let data = if length == 0 { Rope::new() } else { repeated(&pattern, length as usize) };
        self.write_at(offset, data)?;
        Ok(0)
    }

    pub(crate) fn zero(&mut self, offset: u64, length: u64) -> Exec {
        self.check_range(offset, length)?;
        if length > 0 && self.after.live() {
            self.changes.push(ObjectChange::Zero(offset, length));
            self.modified.insert(offset, length);
            self.delta.wr += 1;
        }
        Ok(())
    }

    /// A zeroed range that reaches the end cuts the object there, and one behind the end does nothing: so does Ceph.
    /// The reply then names a truncation.
    pub(super) fn op_zero(&mut self, index: usize) -> Exec<i32> {
        let extent = Extent::of(self.at(index))?;
        let max = self.env.config.max_object_size;
        let in_range = extent.offset < max && extent.length >= 1 && extent.length <= max;
        if in_range && self.after.exists && extent.end() >= self.after.size {
            if extent.offset < self.after.size {
                self.results[index].code = messages::osd::code::TRUNCATE;
                self.truncate(extent.offset)?;
            }
            return Ok(0);
        }
        self.zero(extent.offset, extent.length)?;
        Ok(0)
    }

    /// Cuts or grows; nothing for an object that is not there.
    pub(crate) fn truncate(&mut self, size: u64) -> Exec {
        if !self.after.live() {
            return Ok(());
        }
        self.check_range(size, 0)?;
        self.touched = true;
        self.cut(size);
        self.delta.wr += 1;
        Ok(())
    }

    pub(super) fn op_truncate(&mut self, index: usize) -> Exec<i32> {
        let mut extent = Extent::of(self.at(index))?;
        if self.at(index).code == messages::osd::code::TRIMTRUNC {
            extent.offset = extent.truncate_size;
        }
        if extent.truncate_seq != 0 && self.after.live() {
            if extent.offset != extent.truncate_size {
                return Err(Errno::EINVAL.into());
            }
            if extent.truncate_seq <= self.after.info.truncate_seq {
                return Ok(0);
            }
            self.after.info.truncate_seq = extent.truncate_seq;
            self.after.info.truncate_size = extent.truncate_size;
        }
        self.truncate(extent.offset)?;
        Ok(0)
    }

    pub(crate) fn create_object(&mut self, exclusive: bool) -> Exec {
        if exclusive && self.after.live() {
            return Err(Errno::EEXIST.into());
        }
        self.create();
        Ok(())
    }

    pub(super) fn op_create(&mut self, index: usize) -> Exec<i32> {
        self.create_object(self.at(index).flags & op_flags::EXCL != 0)?;
        Ok(0)
    }

    pub(super) fn op_delete(&mut self) -> Exec<i32> {
        self.delete()?;
        Ok(0)
    }

    /// Deletes the object; if it has clones (or gets one by this request) an empty head stays behind for them.
    pub(crate) fn delete(&mut self) -> Exec {
        self.must_live()?;
        self.touched = true;
        self.modified.insert(0, self.after.size);
        self.resize(0);
        self.delta.wr += 1;
        for watch in std::mem::take(&mut self.after.info.watchers) {
            self.sides.push(Side::Disconnect { cookie: watch.cookie, holder: watch.holder, tell: true });
        }
        let set = &self.after.info.snaps;
        let cloned_now = self.before.live() && self.snaps.first().is_some_and(|newest| *newest > set.seq);
        if set.clones.is_empty() && !cloned_now {
            self.after.exists = false;
            self.delta.objects -= 1;
            self.changes.push(ObjectChange::Remove);
            return Ok(());
        }
        self.changes.push(ObjectChange::Truncate(0));
        self.changes.push(ObjectChange::ClearXattrs);
        self.changes.push(ObjectChange::OmapClear);
        let info = &mut self.after.info;
        // It still counts as an object with an omap, as in Ceph: clearing that moves its version.
        info.hint = None;
        info.flags |= WHITEOUT;
        self.delta.whiteouts += 1;
        Ok(())
    }

    pub(super) fn op_alloc_hint(&mut self, index: usize) -> Exec<i32> {
        let OpArgs::AllocHint { object_size, write_size, flags } = self.at(index).args else {
            return Err(Errno::EINVAL.into());
        };
        self.create();
        self.after.info.hint = Some((object_size, write_size, flags));
        self.delta.wr += 1;
        Ok(0)
    }
}

/// `length` bytes of `pattern` over and over.
fn repeated(pattern: &Bytes, length: usize) -> Rope {
    let copies = (PATTERN_BLOCK / pattern.len()).clamp(1, (length / pattern.len()).max(1));
    let block = if copies == 1 { pattern.clone() } else { Bytes::from(pattern.repeat(copies)) };
    let mut rope = Rope::new();
    let mut left = length;
    while left > 0 {
        let n = left.min(block.len());
        rope.push(block.slice(..n));
        left -= n;
    }
    rope
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_repeat_to_the_byte() {
        for (pattern, length) in [(&b"a"[..], 5), (b"abc", 3), (b"abc", 300_000), (&[7; 70_000][..], 210_000)] {
            let bytes = repeated(&Bytes::copy_from_slice(pattern), length).to_vec();
            assert_eq!(bytes.len(), length);
            assert!(bytes.iter().enumerate().all(|(i, b)| *b == pattern[i % pattern.len()]));
        }
    }
}
