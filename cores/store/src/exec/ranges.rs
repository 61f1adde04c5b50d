//! Changes of parts of an object that take in what is there: exclusive or, and ranges of another object.
//!
//! Both are resolved here: a record holds whole blocks, or the places of blocks that are shared. So replay carries nothing out twice.

use super::{Content, Run};
use crate::block::{BLOCK, Block, Cell, Patch, Place, RANGE, Where, blocks};
use crate::onode::Onode;
use crate::read::{all_there, gather};
use node::Buf;
use objectstore::Read;
use types::{ObjectId, Rope};

const B: u64 = BLOCK as u64;

impl Run<'_> {
    /// Combines bytes with those that are there by exclusive or. A block of which the old bytes are damaged stays damaged.
    pub(super) fn xor(&mut self, at: usize, offset: u64, data: &Rope) -> Read<()> {
        let Some(onode) = &self.objects[at].known.onode else {
            let object = self.objects[at].object.clone();
            return self.without_source(&object, at);
        };
        let (id, size, end) = (onode.id, onode.size, offset + data.len() as u64);
        if data.is_empty() {
            self.grow(at, end);
            return Ok(());
        }
        let (first, stop) = (offset / B, end.div_ceil(B));
        let there = blocks(size).clamp(first, stop);
        let mut wishes = Vec::new();
        let mut old = Vec::with_capacity((there - first) as usize);
        for block in first..there {
            old.push(gather(self.content(id, block, at), &mut wishes)?);
        }
        all_there(wishes)?;
        let mut buf = Buf::zeroed(((stop - first) * B) as usize);
        let from = (offset - first * B) as usize;
        data.copy_to(&mut buf[from..from + data.len()]);
        let mut bad = Vec::new();
        for (block, (content, new)) in (first..).zip(old.into_iter().flatten().zip(buf.chunks_exact_mut(BLOCK))) {
            match content {
                Content::Zeros => (),
                Content::Bytes(bytes) => new.iter_mut().zip(&bytes[..]).for_each(|(new, old)| *new ^= old),
                Content::Bad => bad.push(block),
            }
        }
        self.grow(at, end);
        self.replaced += there - first;
        let all = buf.freeze();
        let mut next = first;
        for block in bad.iter().copied().chain([stop]) {
            if next < block {
                let good = all.slice(((next - first) * B) as usize..((block - first) * B) as usize);
                self.stage(id, next, good.into());
            }
            next = block + 1;
        }
        for block in bad {
            self.met_damage = true;
            self.delta.set_block(id, block, Cell::Data(Block { place: Place::BAD, crc: 0 }));
        }
        Ok(())
    }

    /// Lets an object end at `end` or later. It is made if it does not exist. Gives its id, and its size then.
    fn grow(&mut self, at: usize, end: u64) -> (u64, u64) {
        let onode = self.change(at);
        onode.size = onode.size.max(end);
        (onode.id, onode.size)
    }

    /// Gives an object ranges of another one: places of whole blocks, and copies of what is named in part.
    pub(super) fn clone_ranges(&mut self, from: &ObjectId, to: usize, ranges: &[(u64, u64)]) -> Read<()> {
        let at = self.touch(from)?;
        let Some(source) = self.objects[at].known.onode.clone() else { return self.without_source(from, to) };
        self.grow(to, 0);
        if at == to {
            return Ok(());
        }
        // What must be read of any of them is wished for at once.
        let mut wishes = Vec::new();
        for (start, end) in cut(ranges, source.size) {
            self.look_at(&source, (start, end), at, &mut wishes)?;
        }
        all_there(wishes)?;
        for (start, end) in cut(ranges, source.size) {
            self.clone_range(&source, (start, end), (at, to))?;
        }
        Ok(())
    }

    /// Wishes for what a range's copy misses.
    fn look_at(&self, source: &Onode, (start, end): (u64, u64), at: usize, wishes: &mut Vec<u64>) -> Read<()> {
        let view = self.eye.view(Some(&self.delta));
        let (mut range, last) = ((start / B / RANGE) as u32, ((end - 1) / B / RANGE) as u32);
        while let Some(next) = gather(view.next_range(source.id, range), wishes)?.flatten().filter(|next| *next <= last) {
            gather(view.extents((source.id, next)), wishes)?;
            range = next + 1;
        }
        for block in [start / B, (end - 1) / B] {
            gather(self.content(source.id, block, at), wishes)?;
        }
        Ok(())
    }

    /// Gives an object the bytes from `start` to `end` of another one.
    fn clone_range(&mut self, source: &Onode, (start, end): (u64, u64), (at, to): (usize, usize)) -> Read<()> {
        let size = self.objects[to].known.onode.as_ref().map_or(0, |onode| onode.size);
        // The source's last block goes as a whole if nothing of the object lies behind: there are zeros in both.
        let end = if end == source.size && size <= end { blocks(end) * B } else { end };
        let (first, stop) = (start.div_ceil(B), end / B);
        if first >= stop {
            // It lies within two neighbours at most.
            for (from, to_end) in [(start, end.min(first * B)), (start.max(first * B), end)] {
                self.copy_piece(source, (from, to_end.min(source.size)), (at, to))?;
            }
            return Ok(());
        }
        self.copy_piece(source, (start, first * B), (at, to))?;
        self.share_blocks(source, first..stop, (at, to))?;
        self.copy_piece(source, (stop * B, end), (at, to))?;
        self.grow(to, end.min(source.size));
        Ok(())
    }

    /// Copies a piece of one block.
    fn copy_piece(&mut self, source: &Onode, (start, end): (u64, u64), (at, to): (usize, usize)) -> Read<()> {
        if start >= end {
            return Ok(());
        }
        let (block, from) = (start / B, (start % B) as usize);
        let len = (end - start) as usize;
        match self.content(source.id, block, at)? {
            Content::Bytes(bytes) => self.write(to, start, &bytes.slice(from..from + len).into()),
            Content::Zeros => self.write(to, start, &Rope::from(vec![0; len])),
            Content::Bad => {
                self.met_damage = true;
                let (id, _) = self.grow(to, end);
                self.delta.set_block(id, block, Cell::Data(Block { place: Place::BAD, crc: 0 }));
                Ok(())
            }
        }
    }

    /// Shares whole blocks. What was at their place in the object is gone.
    fn share_blocks(&mut self, source: &Onode, all: std::ops::Range<u64>, (at, to): (usize, usize)) -> Read<()> {
        let (mut wishes, mut found): (Vec<u64>, Vec<(u32, Patch)>) = (Vec::new(), Vec::new());
        let view = self.eye.view(Some(&self.delta));
        let mut range = (all.start / RANGE) as u32;
        while let Some(next) = gather(view.next_range(source.id, range), &mut wishes)?.flatten() {
            if u64::from(next) * RANGE >= all.end {
                break;
            }
            found.extend(gather(view.extents((source.id, next)), &mut wishes)?.map(|patch| (next, patch)));
            range = next + 1;
        }
        drop(view);
        all_there(std::mem::take(&mut wishes))?;
        let object = self.objects[at].object.clone();
        let mut shared: Vec<(u32, Patch)> = Vec::new();
        for (range, patch) in found {
            let mut cells = Patch::default();
            for (i, block) in patch.iter() {
                let number = u64::from(range) * RANGE + u64::from(i);
                if !all.contains(&number) {
                    continue;
                }
                self.met_damage |= block.place == Place::BAD;
                let cell = match block.place.place() {
                    #[cfg(test)]
                    _ if self.eye.store.mistake == Some(crate::mistake::Mistake::ShareJournalled) => Some(Cell::Data(block)),
                    Where::Journal(..) => self.copied(block, &object, number, &mut wishes)?,
                    _ => Some(Cell::Data(block)),
                };
                cells.set(i, cell.unwrap_or(Cell::Hole));
            }
            shared.push((range, cells));
        }
        all_there(wishes)?;
        let (id, size) = self.grow(to, 0);
        let end = blocks(size).min(all.end);
        if all.start < end {
            self.replaced += end - all.start;
            self.clear_data(to, (id, size), all.start * B, end * B)?;
        }
        for (range, cells) in shared.into_iter().filter(|(_, cells)| cells.has_data()) {
            self.delta.patch((id, range), cells);
        }
        Ok(())
    }
}

/// Returns the parts of these ranges that are there, as starts and ends.
fn cut(ranges: &[(u64, u64)], size: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
    ranges.iter().map(move |(start, len)| (*start, start.saturating_add(*len).min(size))).filter(|(start, end)| start < end)
}
