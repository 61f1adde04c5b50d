//! The merge of a checkpoint: walks the tree along the keys of the frozen delta, writes new pages, and shares all
//! others.

use crate::block::{BLOCK, Patch, Place, Where};
use crate::flight::{Ahead, Checkpoint, Frame, LeafWork, Merge, Stage};
use crate::held::Held;
use crate::index::delta::{Delta, Extent};
use crate::index::keys;
use crate::index::page::{self, Entry, Ptr};
use crate::index::tree::Pages;
use crate::io::{DATA, Purpose};
use crate::space::bits::CHUNK;
use crate::space::refs::Differences;
use crate::store::Store;
use crate::superblock::MOST_PIECES;
use crate::wish::Owner;
use bytes::Bytes;
use denc::Reader;
use objectstore::{Unread, Wish};
use std::ops::Range;

/// Changes that are merged in one step.
const CHANGES: usize = 512;
/// Chunks of the map that are merged in one step. Each takes as long as many changes.
const CHUNKS: usize = 32;
/// Blocks of these that gain or lose references, about.
const CHANGED: usize = 4 * CHUNK as usize;
/// Bytes of entries that are kept back before pages are cut from them.
const KEEP: usize = 64 << 10;
/// Most bytes of pages in one write.
const WRITE: usize = 1 << 20;
/// Leaves that are read ahead.
const AHEAD: usize = 16;

/// How a step of the merge went.
enum Went {
    /// There is more to do.
    On,
    /// The tree is complete.
    Done,
    /// There are not enough free blocks. Nothing was done, or only a part that need not be done again.
    Starved,
}

impl Went {
    /// `On` if pages could be written, else `Starved`.
    fn on(written: bool) -> Self {
        if written { Self::On } else { Self::Starved }
    }
}

/// A change to one key.
enum Change {
    Put(Bytes),
    Delete,
    Patch(Patch),
    Shared(u32),
    Free(u32),
}

/// Gives the first extent that is not before `key`.
fn extent_at(key: &[u8]) -> Option<Extent> {
    match key.first() {
        None => Some((0, 0)),
        Some(section) if *section < keys::EXTENT => Some((0, 0)),
        Some(&keys::EXTENT) => {
            let mut padded = [0; 12];
            let n = (key.len() - 1).min(12);
            padded[..n].copy_from_slice(&key[1..1 + n]);
            let (id, range) = padded.split_at(8);
            Some((u64::from_be_bytes(id.try_into().ok()?), u32::from_be_bytes(range.try_into().ok()?)))
        }
        _ => None,
    }
}

fn before(key: &[u8], upper: Option<&Bytes>) -> bool {
    upper.is_none_or(|u| key < &u[..])
}

/// Gives the first key from `from` on that the frozen delta changes, the sections of blocks left out; none: there is none. Only for a
/// delta without range tombstones.
fn next_change(frozen: &Delta, from: &Bytes) -> Option<Bytes> {
    let key = frozen.keys.iter_from(from).next().map(|(key, _)| key.clone());
    let extent = extent_at(from).and_then(|from| frozen.extents.iter_from(&from).next());
    key.into_iter().chain(extent.map(|((id, range), _)| keys::extent(*id, *range))).min()
}

/// Says whether the frozen delta changes anything in `lower..upper`. Where few leaves of many change, most are passed without a search:
/// `ahead` says what comes next.
fn changes(frozen: &Delta, m: &Merge, ahead: &mut Ahead, lower: &Bytes, upper: Option<&Bytes>) -> bool {
    let plain = !frozen.keys.has_ranges() && !frozen.extents.has_ranges();
    if plain && upper.is_some_and(|upper| upper[..] <= [keys::SHARED][..]) {
        if !ahead.reaches(lower) {
            *ahead = Ahead { from: lower.clone(), next: Some(next_change(frozen, lower)) };
        }
        return ahead.next.iter().flatten().any(|next| before(next, upper));
    }
    let extents = extent_at(lower).is_some_and(|from| frozen.extents.touches(&from, upper.and_then(|u| extent_at(u)).as_ref()));
    if extents || frozen.keys.touches(lower, upper) {
        return true;
    }
    if !before(&[keys::SHARED], upper) {
        return false;
    }
    if !m.closed {
        return !m.differences.is_empty() || !frozen.extents.is_empty();
    }
    [keys::SHARED, keys::FREE].into_iter().any(|section| {
        let next = keys::chunk_at(section, lower).and_then(|first| m.differences.chunks_from(first).next());
        next.is_some_and(|chunk| before(&keys::chunk(section, chunk), upper))
    })
}

/// Gives the next changes from `from` on, in order, and the key up to which they are complete (none: `upper`).
fn next_changes(frozen: &Delta, m: &Merge, from: &Bytes, upper: Option<&Bytes>) -> (Vec<(Bytes, Change)>, Option<Bytes>) {
    let section = from.first().copied().unwrap_or(0);
    let mut out = Vec::new();
    let next_section = match section {
        keys::FREE.. => None,
        keys::SHARED.. => Some(keys::FREE),
        keys::EXTENT.. => Some(keys::SHARED),
        _ => Some(keys::EXTENT),
    };
    let end = next_section.map(|s| Bytes::copy_from_slice(&[s])).filter(|end| before(end, upper));
    let stop = end.as_ref().or(upper);
    match section {
        keys::EXTENT => {
            let Some(first) = extent_at(from) else { return (out, end) };
            for ((id, range), patch) in frozen.extents.iter_from(&first) {
                let key = keys::extent(*id, *range);
                if !before(&key, stop) {
                    break;
                }
                if out.len() == CHANGES {
                    return (out, Some(key));
                }
                out.push((key, Change::Patch(patch.clone())));
            }
        }
        keys::SHARED | keys::FREE => {
            let Some(first) = keys::chunk_at(section, from) else { return (out, end) };
            let mut changed = 0;
            for chunk in m.differences.chunks_from(first) {
                let key = keys::chunk(section, chunk);
                if !before(&key, stop) {
                    break;
                }
                if out.len() == CHUNKS || changed >= CHANGED {
                    return (out, Some(key));
                }
                changed += if section == keys::SHARED { m.differences.changed(chunk) } else { 0 };
                out.push((key, if section == keys::SHARED { Change::Shared(chunk) } else { Change::Free(chunk) }));
            }
        }
        _ => {
            for (key, value) in frozen.keys.iter_from(&from[..]) {
                if !before(key, stop) {
                    break;
                }
                if out.len() == CHANGES {
                    return (out, Some(key.clone()));
                }
                out.push((key.clone(), value.clone().map_or(Change::Delete, Change::Put)));
            }
        }
    }
    (out, end)
}

impl Store {
    /// Does one step of the merge. False: pages must be read first.
    pub(super) fn merge_some(&mut self, c: &mut Checkpoint) -> bool {
        let mut stage = std::mem::replace(&mut c.stage, Stage::Drain);
        let Stage::Merge(m) = &mut stage else { unreachable!("only while merging") };
        match self.merge_step(c, m) {
            Ok(Went::Done) => {
                self.shed.differences(std::mem::take(&mut m.differences));
                true
            }
            Ok(Went::On) => {
                c.stage = stage;
                true
            }
            Ok(Went::Starved) => {
                c.stage = stage;
                false
            }
            Err(Unread::Missing(wish)) => {
                c.stage = stage;
                if c.asked != wish.0 {
                    // The count of reads of the same page must not be lost.
                    c.asked.clone_from(&wish.0);
                    self.holds.insert(Owner::Checkpoint, Held::default());
                }
                self.fetch_for(Owner::Checkpoint, wish);
                false
            }
            Err(Unread::Damaged(damage)) => {
                c.stage = stage;
                c.asked.clear();
                self.checkpoint_hurt(&damage);
                false
            }
        }
    }

    /// Descends, merges a part of a leaf, or closes a page.
    fn merge_step(&mut self, c: &mut Checkpoint, m: &mut Merge) -> Result<Went, Unread> {
        if let Some(damage) = &m.hurt {
            return Err(Unread::Damaged(damage.clone()));
        }
        if !m.begun {
            return self.merge_begin(m).map(|()| Went::On);
        }
        if m.leaf.is_some() {
            return self.merge_leaf(c, m).map(Went::on);
        }
        let Some(frame) = m.stack.pop() else {
            let whole = self.merge_end(c, m);
            return Ok(if whole { Went::Done } else { Went::Starved });
        };
        if frame.next == frame.page.len() {
            return Ok(Went::on(self.close_frame(c, m, frame)));
        }
        m.stack.push(frame);
        self.merge_child(m).map(|()| Went::On)
    }

    fn merge_begin(&mut self, m: &mut Merge) -> Result<(), Unread> {
        match m.root.clone() {
            None => m.leaf = Some(LeafWork::new(None, None, Bytes::new(), None)),
            Some(ptr) => {
                let page = self.eye(Owner::Checkpoint).page(&ptr)?;
                m.level = page.level();
                if page.level() == 0 {
                    m.leaf = Some(LeafWork::new(Some(page), Some(ptr), Bytes::new(), None));
                } else {
                    m.stack.push(Frame { page, ptr, lower: Bytes::new(), upper: None, next: 0, out: Vec::new(), dirty: false });
                }
            }
        }
        m.begun = true;
        Ok(())
    }

    /// Takes the next child of the innermost page: as it is if nothing changes below it, else goes down.
    fn merge_child(&mut self, m: &mut Merge) -> Result<(), Unread> {
        let frame = m.stack.last().expect("the caller looked");
        let i = frame.next;
        let ptr = frame.page.child(i).ok_or_else(|| self.eye(Owner::Checkpoint).broken(&frame.ptr))?;
        let key = frame.page.key(i);
        let lower = if i == 0 { frame.lower.clone() } else { key.clone() };
        let upper = if i + 1 < frame.page.len() { Some(frame.page.key(i + 1)) } else { frame.upper.clone() };
        m.close_before(&lower);
        let frozen = self.overlay.frozen().expect("a checkpoint has a frozen delta");
        let mut ahead = std::mem::take(&mut m.ahead);
        let changed = changes(frozen, m, &mut ahead, &lower, upper.as_ref());
        m.ahead = ahead;
        if !changed {
            let frame = m.stack.last_mut().expect("still there");
            frame.out.push((key, ptr.encode().into()));
            frame.next += 1;
            return Ok(());
        }
        let page = match self.eye(Owner::Checkpoint).page(&ptr) {
            Err(Unread::Missing(wish)) => return Err(Unread::Missing(self.read_ahead(m, wish))),
            other => other?,
        };
        m.stack.last_mut().expect("still there").next += 1;
        if page.level() == 0 {
            m.leaf = Some(LeafWork::new(Some(page), Some(ptr), lower, upper));
        } else {
            m.stack.push(Frame { page, ptr, lower, upper, next: 0, out: Vec::new(), dirty: false });
        }
        Ok(())
    }

    /// Adds to `wish` the next pages of the same parent that will be needed.
    fn read_ahead(&self, m: &Merge, mut wish: Wish) -> Wish {
        let (frame, eye) = (m.stack.last().expect("a child is missing"), self.eye(Owner::Checkpoint));
        let frozen = self.overlay.frozen().expect("a checkpoint has a frozen delta");
        let mut ahead = m.ahead.clone();
        for i in (frame.next + 1..frame.page.len()).take(4 * AHEAD) {
            let upper = if i + 1 < frame.page.len() { Some(frame.page.key(i + 1)) } else { frame.upper.clone() };
            if wish.0.len() < AHEAD && changes(frozen, m, &mut ahead, &frame.page.key(i), upper.as_ref()) {
                wish.0.extend(frame.page.child(i).and_then(|ptr| eye.wish(&ptr)));
            }
        }
        wish
    }

    /// Merges a part of a leaf. False: there are not enough free blocks.
    fn merge_leaf(&mut self, c: &mut Checkpoint, m: &mut Merge) -> Result<bool, Unread> {
        let mut leaf = m.leaf.take().expect("the caller looked");
        if leaf.size > KEEP && !leaf.merged && !self.cut_leaf(c, m, &mut leaf, false) {
            m.leaf = Some(leaf);
            return Ok(false);
        }
        if !leaf.merged
            && let Err(unread) = self.merge_changes(c, m, &mut leaf)
        {
            // A part of the changes is merged, and a second time would count them twice. So it stays like this until
            // the store is opened again. To go on without the leaf would lose its keys.
            if let Unread::Damaged(damage) = &unread {
                m.hurt = Some(damage.clone());
            }
            return Err(unread);
        }
        if leaf.merged && page::is_thin(&leaf.entries) {
            match self.join_next(c, m, &mut leaf) {
                Ok(joined) => leaf.merged = !joined,
                Err(unread) => {
                    m.leaf = Some(leaf);
                    return Err(unread);
                }
            }
        }
        if leaf.merged {
            if !self.cut_leaf(c, m, &mut leaf, true) {
                m.leaf = Some(leaf);
                return Ok(false);
            }
            retire(c, &leaf);
            c.shared_pages += leaf.out.iter().map(|(key, ptr)| shared_blocks(key, Ptr::decode(ptr).as_ref())).sum::<i64>();
            self.give_up(m, leaf.out, true);
            return Ok(true);
        }
        m.leaf = Some(leaf);
        Ok(true)
    }

    /// Joins what is left of a leaf with the next leaf of the same parent, so that pages do not become ever emptier as
    /// keys go. Returns false if there is no next.
    fn join_next(&mut self, c: &mut Checkpoint, m: &mut Merge, leaf: &mut LeafWork) -> Result<bool, Unread> {
        let Some(frame) = m.stack.last().filter(|frame| frame.next < frame.page.len() && !leaf.entries.is_empty()) else {
            return Ok(false);
        };
        let i = frame.next;
        let eye = self.eye(Owner::Checkpoint);
        let ptr = frame.page.child(i).ok_or_else(|| eye.broken(&frame.ptr))?;
        let page = match eye.page(&ptr) {
            Err(Unread::Damaged(_)) => return Ok(false),
            other => other?,
        };
        if page.level() > 0 {
            return Ok(false);
        }
        let upper = if i + 1 < frame.page.len() { Some(frame.page.key(i + 1)) } else { frame.upper.clone() };
        let lower = frame.page.key(i);
        m.stack.last_mut().expect("just looked").next += 1;
        retire(c, leaf);
        leaf.first = lower.clone();
        (leaf.page, leaf.ptr, leaf.at, leaf.cursor, leaf.upper) = (Some(page), Some(ptr), 0, lower, upper);
        Ok(true)
    }

    /// Merges the next changes into the entries of a leaf.
    fn merge_changes(&mut self, c: &mut Checkpoint, m: &mut Merge, leaf: &mut LeafWork) -> Result<(), Unread> {
        m.close_before(&leaf.cursor);
        let frozen = self.overlay.frozen().expect("a checkpoint has a frozen delta");
        let (list, next) = next_changes(frozen, m, &leaf.cursor, leaf.upper.as_ref());
        // Each change may concern 16 blocks, and each chunk all of its own.
        c.work += list.len() * 16 + leaf.page.as_ref().map_or(0, |page| 4 * page.len());
        let mut merging = Merging { frozen, c, differences: &mut m.differences, leaf: &mut *leaf };
        for (key, change) in list {
            merging.keep_before(Some(&key))?;
            merging.apply(key, change)?;
        }
        merging.keep_before(next.as_ref())?;
        match next {
            Some(next) => leaf.cursor = next,
            None => leaf.merged = true,
        }
        Ok(())
    }

    /// Cuts pages from the entries of a leaf. Unless `end`, the rest stays for the next pages. False, and nothing done,
    /// if there are not enough free blocks.
    fn cut_leaf(&mut self, c: &mut Checkpoint, m: &mut Merge, leaf: &mut LeafWork, end: bool) -> bool {
        let mut cuts = page::cut(&leaf.entries);
        cuts.truncate(if end { cuts.len() } else { cuts.len().saturating_sub(2) });
        if self.starves(c, blocks_of(&leaf.entries, &cuts)) {
            return false;
        }
        let mut done = 0;
        for range in cuts {
            let entries = &leaf.entries[range.clone()];
            let key = match &leaf.last {
                None => leaf.lower.clone(),
                Some(last) => page::separator(last, &entries[0].0),
            };
            let ptr = self.write_page(c, m, entries, 0);
            leaf.last = entries.last().map(|e| e.0.clone());
            leaf.out.push((key, ptr.encode().into()));
            done = range.end;
        }
        leaf.entries.drain(..done);
        leaf.size = leaf.entries.iter().map(|e| e.0.len() + e.1.len()).sum();
        true
    }

    /// Hands finished children to the page above.
    fn give_up(&mut self, m: &mut Merge, children: Vec<Entry>, dirty: bool) {
        match m.stack.last_mut() {
            Some(parent) => {
                parent.out.extend(children);
                parent.dirty |= dirty;
            }
            None => m.top = children,
        }
    }

    /// Hands a page whose children are merged to the page above. False, and nothing done, if there are not enough free
    /// blocks.
    fn close_frame(&mut self, c: &mut Checkpoint, m: &mut Merge, frame: Frame) -> bool {
        if !frame.dirty {
            let entry = (frame.lower, frame.ptr.encode().into());
            self.give_up(m, vec![entry], false);
            return true;
        }
        let Some(children) = self.write_level(c, m, &frame.out, frame.page.level(), &frame.lower) else {
            m.stack.push(frame);
            return false;
        };
        c.old_pages.extend(frame.ptr.runs());
        self.give_up(m, children, true);
        true
    }

    /// Writes inner pages over these children, and gives the entries that point to the pages. None, and nothing done, if
    /// there are not enough free blocks.
    fn write_level(&mut self, c: &mut Checkpoint, m: &mut Merge, out: &[Entry], level: u8, lower: &Bytes) -> Option<Vec<Entry>> {
        let cuts = page::cut_inner(out);
        if self.starves(c, blocks_of(out, &cuts)) {
            return None;
        }
        let mut children = Vec::with_capacity(cuts.len());
        for (i, range) in cuts.into_iter().enumerate() {
            let entries = &out[range];
            let key = if i == 0 { lower.clone() } else { entries[0].0.clone() };
            let ptr = self.write_page(c, m, entries, level);
            children.push((key, ptr.encode().into()));
        }
        Some(children)
    }

    /// Ends the merge with a root. False: there are not enough free blocks.
    fn merge_end(&mut self, c: &mut Checkpoint, m: &mut Merge) -> bool {
        // A root in more pieces than a superblock has room for gets another one above it, which is shorter: it holds
        // nothing but the pointer.
        let fits =
            |top: &[Entry]| top.len() <= 1 && top.iter().all(|(_, ptr)| ptr.len() <= Ptr::SIZE + (MOST_PIECES - 1) * Ptr::PIECE);
        while !fits(&m.top) {
            let top = std::mem::take(&mut m.top);
            match self.write_level(c, m, &top, m.level + 1, &Bytes::new()) {
                Some(children) => (m.top, m.level) = (children, m.level + 1),
                None => {
                    m.top = top;
                    return false;
                }
            }
        }
        c.root = m.top.first().and_then(|(_, ptr)| Ptr::decode(ptr));
        self.write_run(c, m);
        self.holds.insert(Owner::Checkpoint, Held::default());
        true
    }

    /// Builds a page and adds it to the run that is written next. Its blocks are free: the caller looked.
    fn write_page(&mut self, c: &mut Checkpoint, m: &mut Merge, entries: &[Entry], level: u8) -> Ptr {
        let blocks = page::blocks_for(entries);
        let runs = self.space.take_for_page(blocks).expect("so many blocks are free");
        c.pages_taken += u64::from(blocks);
        c.in_pieces |= runs.len() > 1;
        let (ptr, built) = page::build(entries, level, &runs, self.sb.tree + 1);
        let (bytes, mut at) = (built.bytes(), 0);
        for (block, n) in runs {
            let end = m.run_at + (m.run.len() / BLOCK) as u64;
            if m.run.is_empty() || end != block || m.run.len() >= WRITE {
                self.write_run(c, m);
                m.run_at = block;
            }
            let len = n as usize * BLOCK;
            m.run.push(bytes.slice(at..at + len));
            at += len;
            self.caches.blocks.forget(block, n.into());
        }
        self.caches.pages.insert(ptr.block, built);
        ptr
    }

    fn write_run(&mut self, c: &mut Checkpoint, m: &mut Merge) {
        let run = std::mem::take(&mut m.run);
        if !run.is_empty() {
            c.writes += 1;
            self.counters.index_bytes += run.len() as u64;
            self.io.write(DATA, m.run_at * BLOCK as u64, run, false, Purpose::Checkpoint);
        }
    }
}

/// The page of a leaf that is merged goes.
fn retire(c: &mut Checkpoint, leaf: &LeafWork) {
    c.old_pages.extend(leaf.ptr.iter().flat_map(Ptr::runs));
    c.shared_pages -= shared_blocks(&leaf.first, leaf.ptr.as_ref());
}

/// Number of blocks of a leaf that begins in the section of shared blocks; 0 for others.
fn shared_blocks(first: &[u8], ptr: Option<&Ptr>) -> i64 {
    match ptr {
        Some(ptr) if first.first() == Some(&keys::SHARED) => ptr.blocks.into(),
        _ => 0,
    }
}

/// Number of blocks of the pages that are cut from these entries.
fn blocks_of(entries: &[Entry], cuts: &[Range<usize>]) -> u64 {
    cuts.iter().map(|range| u64::from(page::blocks_for(&entries[range.clone()]))).sum()
}

/// The merge of changes into one leaf.
struct Merging<'a> {
    frozen: &'a Delta,
    c: &'a mut Checkpoint,
    differences: &'a mut Differences,
    leaf: &'a mut LeafWork,
}

fn unreadable(key: &[u8]) -> Unread {
    crate::index::view::nonsense(key)
}

fn decode_patch(key: &[u8], value: &Bytes) -> Result<Patch, Unread> {
    Patch::decode(&mut Reader::new(value)).map_err(|_| unreadable(key))
}

/// Says whether a key counts as omap in the statistics.
fn counts(key: &[u8]) -> bool {
    key.first() == Some(&keys::INNER)
}

impl Merging<'_> {
    /// Keeps the old entries before `key` (none: all that are left) that no range tombstone hides.
    fn keep_before(&mut self, key: Option<&Bytes>) -> Result<(), Unread> {
        let Some(page) = self.leaf.page.clone() else { return Ok(()) };
        let end = key.map_or(page.len(), |key| page.lower_bound(key));
        let kept = self.leaf.at..end.max(self.leaf.at);
        self.leaf.at = kept.end;
        for (old, value) in page.entries(kept) {
            if !self.hidden(&old) {
                self.leaf.push(old, value);
            } else {
                self.removed(&old, &value)?;
            }
        }
        Ok(())
    }

    fn hidden(&self, key: &[u8]) -> bool {
        match keys::extent_of(key) {
            Some(extent) => self.frozen.extents.hidden(&extent).is_some(),
            None => self.frozen.keys.hidden(key).is_some(),
        }
    }

    fn removed(&mut self, key: &[u8], value: &Bytes) -> Result<(), Unread> {
        if key.first() == Some(&keys::EXTENT) {
            self.c.work += 16;
            self.differences.change(&decode_patch(key, value)?, &Patch::holes());
        } else if counts(key) {
            self.c.omap_bytes -= (key.len() + value.len()) as i64;
        }
        Ok(())
    }

    /// Gives the old value of `key`, whose place in the leaf has been reached.
    fn old(&mut self, key: &[u8]) -> Option<Bytes> {
        let page = self.leaf.page.as_ref()?;
        let at = self.leaf.at;
        let found = at < page.len() && page.cmp_key(at, key).is_eq();
        self.leaf.at += usize::from(found);
        found.then(|| page.value(at))
    }

    fn apply(&mut self, key: Bytes, change: Change) -> Result<(), Unread> {
        let old = self.old(&key);
        match change {
            Change::Put(_) | Change::Delete => {
                if let Some(old) = &old {
                    self.removed(&key, old)?;
                }
                if let Change::Put(value) = change {
                    self.c.omap_bytes += if counts(&key) { (key.len() + value.len()) as i64 } else { 0 };
                    self.leaf.push(key, value);
                }
            }
            Change::Patch(patch) => self.apply_patch(key, patch, old)?,
            Change::Shared(chunk) => {
                self.c.work += CHUNK as usize / 16 + self.differences.changed(chunk);
                let (stable, freed) = (&mut self.c.stable, &mut self.c.freed);
                let value = self
                    .differences
                    .resolve(chunk, old.as_deref(), stable, freed)
                    .map_err(|why| Unread::Damaged(objectstore::Damage { what: why, offset: 0, expected: 0, found: 0 }))?;
                if let Some(value) = value {
                    self.leaf.push(key, value.into());
                }
            }
            Change::Free(chunk) => {
                if let Some(value) = self.c.stable.encode_chunk(chunk) {
                    self.leaf.push(key, value.into());
                }
            }
        }
        Ok(())
    }

    fn apply_patch(&mut self, key: Bytes, patch: Patch, old: Option<Bytes>) -> Result<(), Unread> {
        let old = match old {
            Some(value) => decode_patch(&key, &value)?,
            None => Patch::holes(),
        };
        let mut new = patch;
        new.fill_from(&old);
        new.close();
        let moved = &self.c.moved;
        new.replace(|place| match place.place() {
            Where::Journal(..) => Place(*moved.get(&place.0).expect("moved before the merge")),
            _ => place,
        });
        self.differences.change(&old, &new);
        if new.has_data() {
            let mut value = Vec::with_capacity(96);
            new.encode(&mut value);
            self.leaf.push(key, value.into());
        }
        Ok(())
    }
}
