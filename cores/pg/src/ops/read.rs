//! Reads of data and of the object as a whole.

use super::Extent;
use crate::ops::run::{Exec, Run};
use denc::Encode;
use messages::ops;
use messages::osd::OpArgs;
use types::{Errno, Rope};

/// Errors below this are an offset, not an error number: what CMPEXT answers where the bytes differ (`MAX_ERRNO`).
const MAX_ERRNO: i32 = 4095;

impl Run<'_> {
    /// Bytes of the object as it was before the vector, with a length of 0 for "all", cut at the present end.
    pub(crate) fn read_extent(&mut self, extent: Extent) -> Exec<Rope> {
        let mut size = self.after.size;
        // A truncation that the client knows of and that has not arrived yet.
        let early = extent.truncate_seq > self.after.info.truncate_seq && extent.end() > extent.truncate_size;
        if early && size > extent.truncate_size {
            size = extent.truncate_size;
        }
        let length = if extent.length == 0 { size } else { extent.length };
        let length = length.min(size.saturating_sub(extent.offset));
        let data = match self.before.exists {
            _ if length == 0 => Rope::new(),
            true => self.env.store.read(self.env.hold, &self.before.at, extent.offset, length)?,
            // The vector itself made it: it is not there to be read yet.
            false => return Err(Errno::ENOENT.into()),
        };
        self.env.see(data.len());
        self.count_read(data.len() as u64);
        Ok(data)
    }

    pub(super) fn op_read(&mut self, index: usize) -> Exec<i32> {
        let extent = Extent::of(self.at(index))?;
        let data = self.read_extent(extent)?;
        self.set_length(index, data.len() as u64);
        self.output(index, data);
        Ok(0)
    }

    /// The reply says how much was read.
    fn set_length(&mut self, index: usize, read: u64) {
        if let OpArgs::Extent { length, .. } = &mut self.results[index].args {
            *length = read;
        }
    }

    fn extents(&self, extent: Extent) -> Exec<Vec<(u64, u64)>> {
        if !self.before.exists {
            return Ok(Vec::new());
        }
        Ok(self.env.store.extents(self.env.hold, &self.before.at, extent.offset, extent.length)?)
    }

    pub(super) fn op_sparse_read(&mut self, index: usize) -> Exec<i32> {
        let extent = Extent::of(self.at(index))?;
        let extents = self.extents(extent)?;
        let mut data = Rope::new();
        for (offset, length) in &extents {
            data.append(self.env.store.read(self.env.hold, &self.before.at, *offset, *length)?);
        }
        let total = data.len() as u64;
        self.env.see(data.len() + extents.len());
        self.set_length(index, total);
        self.count_read(total);
        self.output(index, ops::sparse_read(&extents, data));
        Ok(0)
    }

    pub(super) fn op_mapext(&mut self, index: usize) -> Exec<i32> {
        let extent = Extent::of(self.at(index))?;
        let extents: ops::Extents = self.extents(extent)?.into_iter().collect();
        self.count_read(extent.length.min(self.after.size));
        self.output(index, extents.to_bytes());
        Ok(0)
    }

    pub(super) fn op_stat(&mut self, index: usize) -> Exec<i32> {
        self.delta.rd += 1;
        self.must_live()?;
        let stat = ops::Stat { size: self.after.size, mtime: self.after.info.mtime };
        self.output(index, stat.to_bytes());
        Ok(0)
    }

    pub(super) fn op_cmpext(&mut self, index: usize) -> Exec<i32> {
        let extent = Extent::of(self.at(index))?;
        let wanted = self.input(index);
        // Unlike in a read, a length of 0 means nothing: then all is compared with zeros.
        let stored = if extent.length == 0 { Rope::new() } else { self.read_extent(extent)? };
        let mut have = stored.pieces().iter().flatten();
        // What lies beyond the end compares as zeros.
        let differs = wanted.iter().position(|byte| have.next().copied().unwrap_or(0) != *byte);
        match differs {
            None => Ok(0),
            Some(at) => Err(crate::ops::run::Stop::Result(-MAX_ERRNO - i32::try_from(at).unwrap_or(i32::MAX - MAX_ERRNO))),
        }
    }

    pub(super) fn op_assert_version(&mut self, index: usize) -> Exec<i32> {
        let OpArgs::AssertVer { version } = self.at(index).args else { return Err(Errno::EINVAL.into()) };
        match version.cmp(&self.after.info.user_version) {
            _ if version == 0 => Err(Errno::EINVAL.into()),
            std::cmp::Ordering::Less => Err(Errno::ERANGE.into()),
            std::cmp::Ordering::Greater => Err(Errno::EOVERFLOW.into()),
            std::cmp::Ordering::Equal => Ok(0),
        }
    }
}
