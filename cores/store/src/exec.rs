//! Carrying a transaction out: on a layer of its own, so that it happens as a whole or, if something is missing, not at all.

mod ranges;
mod share;

use crate::block::{BLOCK, Block, Cell, LARGE, Place, RANGE, Where, blocks};
use crate::cache::Known;
use crate::index::delta::Delta;
use crate::index::keys;
use crate::journal::staged::Staged;
use crate::names::plain;
use crate::onode::Onode;
use crate::read::{Eye, all_there, gather};
use bytes::Bytes;
use node::Buf;
use objectstore::{Damage, MetaChange, ObjectChange, ObjectChanges, Read, Transaction, Unfit, Unread};
use types::{ObjectId, Rope, SpgId};

/// Largest size of an object, in bytes.
pub(crate) const LARGEST_OBJECT: u64 = 1 << 46;

/// An object in a transaction.
struct Touched {
    object: ObjectId,
    known: Known,
    dirty: bool,
}

/// What a transaction does.
pub(crate) struct Plan {
    pub(crate) delta: Delta,
    pub(crate) staged: Staged,
    /// Objects as they are afterwards.
    pub(crate) objects: Vec<(ObjectId, Known)>,
    pub(crate) next_id: u64,
    /// Blocks at most that were there before and are written as a whole.
    pub(crate) replaced: u64,
    /// Objects of which blocks cannot be read any more, as what they were made of could not.
    pub(crate) damaged: Vec<ObjectId>,
    /// Bytes of keys that it holds beside what was submitted: those of clones.
    pub(crate) copied: u64,
    /// Keys of the families of omaps in which it changes something.
    pub(crate) families: Vec<Bytes>,
    /// Blocks at most that whole ranges had which are taken from objects.
    pub(crate) gone: u64,
    /// Place where its data goes, if that was chosen before.
    pub(crate) place: Option<crate::block::Run>,
}

impl Plan {
    /// Units of work that it takes to carry it out and to record it, about: blocks that it names, and the rest by weight.
    pub(crate) fn work(&self) -> usize {
        // A block in a patch has 16 bytes.
        self.delta.len() + self.delta.bytes / 16 + 8 * self.staged.len()
    }
}

/// A transaction being carried out.
pub(crate) struct Run<'a> {
    eye: Eye<'a>,
    /// What it is to carry out: that gives how much room there is.
    orders: Orders<'a>,
    delta: Delta,
    staged: Staged,
    objects: Vec<Touched>,
    next_id: u64,
    replaced: u64,
    gone: u64,
    damaged: Vec<ObjectId>,
    /// The object that is being changed got a block that cannot be read.
    met_damage: bool,
    /// Nothing will come of it: what is damaged is told.
    rehearsal: bool,
    /// Bytes of keys that clones may still put into the transaction's record; none before somebody asks.
    room: Option<u64>,
    /// Bytes of keys that clones put into it.
    copied: u64,
    /// Keys of the families of omaps in which something changes.
    families: Vec<Bytes>,
    /// A rehearsal found a clone, or a change of what is shared with one, for which there is not enough of that room.
    too_large: bool,
}

/// What a run carries out.
#[derive(Clone, Copy)]
enum Orders<'a> {
    /// A transaction.
    All(&'a Transaction),
    /// Changes of objects, as a rehearsal.
    Objects(&'a [ObjectChanges]),
}

/// What a block holds.
enum Content {
    Zeros,
    Bytes(Bytes),
    Bad,
}

impl<'a> Run<'a> {
    /// Carries `transaction` out over what `eye` sees.
    pub(crate) fn carry_out(eye: Eye<'a>, transaction: &'a Transaction) -> Read<Plan> {
        let mut run = Self::new(eye, Orders::All(transaction));
        for changes in &transaction.objects {
            run.change_object(changes)?;
        }
        transaction.meta.iter().for_each(|change| run.change_meta(&transaction.scope, change));
        Ok(run.finish())
    }

    /// Returns what carrying out changes of `objects` would miss, or find damaged.
    pub(crate) fn rehearse(eye: Eye<'a>, objects: &'a [ObjectChanges]) -> Result<(), Unfit> {
        let mut run = Self::new(eye, Orders::Objects(objects));
        objects.iter().try_for_each(|changes| run.change_object(changes))?;
        if run.too_large { Err(Unfit::TooLarge) } else { Ok(()) }
    }

    fn new(eye: Eye<'a>, orders: Orders<'a>) -> Self {
        let next_id = eye.store.overlay.next_id();
        Self {
            eye,
            orders,
            delta: Delta::default(),
            staged: Staged::default(),
            objects: Vec::new(),
            next_id,
            replaced: 0,
            gone: 0,
            damaged: Vec::new(),
            met_damage: false,
            rehearsal: matches!(orders, Orders::Objects(_)),
            room: None,
            copied: 0,
            families: Vec::new(),
            too_large: false,
        }
    }

    fn finish(mut self) -> Plan {
        let mut objects = Vec::with_capacity(self.objects.len());
        for Touched { object, known, dirty } in self.objects {
            if dirty {
                self.delta.keys.put(known.key.clone(), known.onode.as_ref().map(Onode::encode));
            }
            objects.push((object, known));
        }
        let Self { delta, staged, next_id, replaced, damaged, copied, families, gone, .. } = self;
        Plan { delta, staged, objects, next_id, replaced, damaged, copied, families, gone, place: None }
    }

    fn change_meta(&mut self, scope: &SpgId, change: &MetaChange) {
        let keys = &mut self.delta.keys;
        match change {
            MetaChange::Set(key, value) => keys.put(keys::meta(scope, key), Some(value.clone())),
            MetaChange::Remove(key) => keys.put(keys::meta(scope, key), None),
            MetaChange::RemoveRange(from, to) => keys.remove_range(keys::meta(scope, from), keys::meta(scope, to)),
        }
    }

    /// Bytes of keys that may still go into the record beside what was submitted.
    fn room(&mut self) -> u64 {
        let (orders, largest) = (self.orders, self.eye.store.largest_record());
        *self.room.get_or_insert_with(|| {
            let (takes, rest) = match orders {
                Orders::All(transaction) => (size_of(transaction), 0),
                Orders::Objects(objects) => (size_of_objects(objects), META),
            };
            largest.saturating_sub(takes.map_or(0, Takes::in_record) + rest)
        })
    }

    /// Carries out the changes of one object. A rehearsal leaves out those that need nothing of what is there.
    fn change_object(&mut self, changes: &ObjectChanges) -> Read<()> {
        if self.rehearsal && !changes.changes.iter().any(|change| changes_data(change) || changes_keys(change)) {
            return Ok(());
        }
        let at = self.touch(&changes.object)?;
        for change in &changes.changes {
            // Keys are neither read nor do they lead anywhere, unless others share them.
            if !self.rehearsal || changes_data(change) || (changes_keys(change) && self.is_shared(at)) {
                self.apply(at, change)?;
            }
        }
        if std::mem::take(&mut self.met_damage) {
            self.damaged.push(changes.object.clone());
        }
        Ok(())
    }

    /// Carries one change out, of the object that is at place `at` among those that were touched.
    fn apply(&mut self, at: usize, change: &ObjectChange) -> Read<()> {
        match change {
            ObjectChange::Create => drop(self.change(at)),
            ObjectChange::Write(offset, data) => self.write(at, *offset, data)?,
            ObjectChange::Xor(offset, data) => self.xor(at, *offset, data)?,
            ObjectChange::Zero(offset, len) => self.zero(at, *offset, *len)?,
            ObjectChange::Truncate(size) => self.truncate(at, *size)?,
            ObjectChange::Remove => self.remove(at)?,
            ObjectChange::SetInfo(info) => self.change(at).info = info.clone(),
            ObjectChange::CloneOf(source) => self.clone_object(source, at)?,
            ObjectChange::CloneRange(source, ranges) => self.clone_ranges(source, at, ranges)?,
            ObjectChange::TakeOver(source) => self.take_over(source, at)?,
            ObjectChange::SetXattr(..) | ObjectChange::RemoveXattr(_) | ObjectChange::ClearXattrs => self.xattrs(at, change),
            ObjectChange::OmapHeader(_)
            | ObjectChange::OmapSet(_)
            | ObjectChange::OmapRemove(_)
            | ObjectChange::OmapRemoveRange(..)
            | ObjectChange::OmapClear => self.omap(at, change)?,
        }
        Ok(())
    }

    fn xattrs(&mut self, at: usize, change: &ObjectChange) {
        match change {
            ObjectChange::SetXattr(name, value) => {
                let onode = self.change(at);
                onode.xattrs = true;
                let key = keys::inner(onode.id, keys::XATTR, name);
                self.delta.keys.put(key, Some(value.clone()));
            }
            ObjectChange::RemoveXattr(name) => {
                if let Some(id) = self.id(at) {
                    self.delta.keys.put(keys::inner(id, keys::XATTR, name), None);
                }
            }
            ObjectChange::ClearXattrs => {
                let onode = self.change(at);
                let (had, id) = (std::mem::take(&mut onode.xattrs), onode.id);
                if had {
                    self.clear(id, keys::XATTR, keys::XATTR);
                }
            }
            _ => unreachable!("only attributes come here"),
        }
    }

    fn omap(&mut self, at: usize, change: &ObjectChange) -> Read<()> {
        let header = matches!(change, ObjectChange::OmapHeader(_));
        if !header && self.is_shared(at) && self.share_omap(at, change)? {
            return Ok(());
        }
        match change {
            ObjectChange::OmapHeader(header) => {
                let onode = self.change(at);
                onode.omap = true;
                let key = keys::inner(onode.id, keys::HEADER, b"");
                self.delta.keys.put(key, Some(header.clone()));
            }
            ObjectChange::OmapSet(entries) => {
                let onode = self.change(at);
                onode.omap |= !entries.is_empty();
                let id = onode.omap_id();
                for (key, value) in entries {
                    self.delta.keys.put(keys::inner(id, keys::OMAP, key), Some(value.clone()));
                }
            }
            ObjectChange::OmapRemove(names) => {
                if let Some(id) = self.omap_id(at) {
                    names.iter().for_each(|k| self.delta.keys.put(keys::inner(id, keys::OMAP, k), None));
                }
            }
            ObjectChange::OmapRemoveRange(from, to) => {
                if let Some(id) = self.omap_id(at) {
                    self.delta.keys.remove_range(keys::inner(id, keys::OMAP, from), keys::inner(id, keys::OMAP, to));
                }
            }
            ObjectChange::OmapClear => {
                let onode = self.change(at);
                let (had, id, omap) = (std::mem::take(&mut onode.omap), onode.id, onode.omap_id());
                if had && omap == id {
                    self.clear(id, keys::HEADER, keys::OMAP);
                } else if had {
                    self.clear(id, keys::HEADER, keys::HEADER);
                    self.clear(omap, keys::OMAP, keys::OMAP);
                }
            }
            _ => unreachable!("only the omap comes here"),
        }
        Ok(())
    }

    /// Removes the sections `first..=last` below an id.
    fn clear(&mut self, id: u64, first: u8, last: u8) {
        self.delta.keys.remove_range(keys::inner(id, first, b""), keys::inner(id, last + 1, b""));
    }

    /// The place of an object among those that were touched, which it joins.
    fn touch(&mut self, object: &ObjectId) -> Read<usize> {
        let object = plain(object);
        if let Some(at) = self.objects.iter().position(|t| t.object == *object) {
            return Ok(at);
        }
        let known = self.eye.known(&object)?;
        self.objects.push(Touched { object: object.into_owned(), known, dirty: false });
        Ok(self.objects.len() - 1)
    }

    /// The object, which is created if it does not exist.
    fn change(&mut self, at: usize) -> &mut Onode {
        let touched = &mut self.objects[at];
        touched.dirty = true;
        touched.known.onode.get_or_insert_with(|| {
            self.next_id += 1;
            Onode { id: self.next_id - 1, ..Onode::default() }
        })
    }

    /// An id that nothing has.
    fn new_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id - 1
    }

    /// Below which id the object's omap is.
    fn omap_id(&self, at: usize) -> Option<u64> {
        self.objects[at].known.onode.as_ref().map(Onode::omap_id)
    }

    /// Returns true if others may see the object's omap, too.
    fn is_shared(&self, at: usize) -> bool {
        self.objects[at].known.onode.as_ref().is_some_and(|onode| onode.shared.is_some())
    }

    fn id(&self, at: usize) -> Option<u64> {
        self.objects[at].known.onode.as_ref().map(|o| o.id)
    }

    fn content(&self, id: u64, block: u64, at: usize) -> Read<Content> {
        let patch = self.eye.view(Some(&self.delta)).extents((id, (block / RANGE) as u32))?;
        let Cell::Data(found) = patch.get((block % RANGE) as u32) else { return Ok(Content::Zeros) };
        if let Where::Staged(index) = found.place.place() {
            return Ok(Content::Bytes(self.staged.get(index).expect("staged by this transaction").bytes().clone()));
        }
        match self.eye.blocks(found, 1, &|| self.objects[at].object.to_string(), block * BLOCK as u64) {
            Ok(run) => Ok(Content::Bytes(run.bytes().slice(..BLOCK))),
            // Damaged data stays damaged, whatever is written beside it in its block.
            Err(Unread::Damaged(_)) if !self.rehearsal => Ok(Content::Bad),
            Err(unread) => Err(unread),
        }
    }

    fn stage(&mut self, id: u64, block: u64, data: Rope) {
        let n = (data.len() / BLOCK) as u64;
        let first = if self.rehearsal { self.staged.push_unsummed(data) } else { self.staged.push(data) };
        let mut at = 0;
        while at < n {
            let range = (block + at) / RANGE;
            let stop = n.min((range + 1) * RANGE - block);
            let mut patch = crate::block::Patch::default();
            for i in at..stop {
                let index = first + i as u32;
                let data = Block { place: Place::staged(index), crc: self.staged.crc(index) };
                patch.set(((block + i) % RANGE) as u32, Cell::Data(data));
            }
            self.delta.patch((id, range as u32), patch);
            at = stop;
        }
    }

    /// Changes part of one block: `piece` (none: zeros) from `from` to `to` within it. `size` is the object's before.
    fn merge(
        &mut self,
        at: usize,
        (id, size): (u64, u64),
        block: u64,
        (from, to): (usize, usize),
        piece: Option<Rope>,
    ) -> Read<()> {
        let start = block * BLOCK as u64;
        let needs_old = (from > 0 && start < size) || start + (to as u64) < size;
        let old = if needs_old { self.content(id, block, at)? } else { Content::Zeros };
        let mut buf = Buf::zeroed(BLOCK);
        match old {
            Content::Bad => {
                self.met_damage = true;
                self.delta.set_block(id, block, Cell::Data(Block { place: Place::BAD, crc: 0 }));
                return Ok(());
            }
            Content::Zeros if piece.is_none() => return Ok(()),
            Content::Zeros => (),
            Content::Bytes(bytes) => buf.copy_from_slice(&bytes),
        }
        match piece {
            Some(piece) => piece.copy_to(&mut buf[from..to]),
            None => buf[from..to].fill(0),
        }
        self.stage(id, block, buf.freeze().into());
        Ok(())
    }

    fn write(&mut self, at: usize, offset: u64, data: &Rope) -> Read<()> {
        let onode = self.change(at);
        let (id, size, end) = (onode.id, onode.size, offset + data.len() as u64);
        onode.size = size.max(end);
        if data.is_empty() {
            return Ok(());
        }
        const B: u64 = BLOCK as u64;
        let (mut first, mut last) = (offset / B, (end - 1) / B);
        if !offset.is_multiple_of(B) {
            let to = B.min(end - first * B) as usize;
            let from = (offset % B) as usize;
            self.merge(at, (id, size), first, (from, to), Some(data.slice(0, to - from)))?;
            first += 1;
        }
        if first <= last && !end.is_multiple_of(B) {
            let start = last * B;
            let piece = data.slice((start - offset) as usize, (end - start) as usize);
            self.merge(at, (id, size), last, (0, (end - start) as usize), Some(piece))?;
            if last == first {
                return Ok(());
            }
            last -= 1;
        }
        if first <= last {
            self.replaced += blocks(size).min(last + 1).saturating_sub(first);
            let whole = if offset == first * B && end == (last + 1) * B {
                data.clone()
            } else {
                data.slice((first * B - offset) as usize, ((last + 1 - first) * B) as usize)
            };
            self.stage(id, first, whole);
        }
        Ok(())
    }

    fn zero(&mut self, at: usize, offset: u64, len: u64) -> Read<()> {
        let onode = self.change(at);
        let (id, size) = (onode.id, onode.size);
        let end = offset.saturating_add(len).min(size);
        if offset < end {
            // Behind the end all is zero already, so the last block may go as a whole.
            let end = if end == size { blocks(size) * BLOCK as u64 } else { end };
            self.clear_data(at, (id, size), offset, end)?;
        }
        Ok(())
    }

    /// Makes `offset..end` read as zeros.
    fn clear_data(&mut self, at: usize, (id, size): (u64, u64), offset: u64, end: u64) -> Read<()> {
        const B: u64 = BLOCK as u64;
        let (mut first, mut stop) = (offset / B, end / B);
        if !offset.is_multiple_of(B) {
            let to = B.min(end - first * B) as usize;
            self.merge(at, (id, size), first, ((offset % B) as usize, to), None)?;
            first += 1;
        }
        if stop >= first && !end.is_multiple_of(B) {
            self.merge(at, (id, size), stop, (0, (end % B) as usize), None)?;
        }
        stop = stop.max(first);
        // Whole ranges in one go, the rest block by block.
        let (whole, whole_end) = (first.div_ceil(RANGE), stop / RANGE);
        if whole < whole_end {
            self.gone += (whole_end - whole) * RANGE;
            self.delta.extents.remove_range((id, whole as u32), (id, whole_end as u32));
            (first..whole * RANGE).chain(whole_end * RANGE..stop).for_each(|b| self.delta.set_block(id, b, Cell::Hole));
        } else {
            (first..stop).for_each(|b| self.delta.set_block(id, b, Cell::Hole));
        }
        Ok(())
    }

    fn truncate(&mut self, at: usize, size: u64) -> Read<()> {
        let onode = self.change(at);
        let (id, old) = (onode.id, onode.size);
        onode.size = size;
        if size < old {
            self.clear_data(at, (id, old), size, blocks(old) * BLOCK as u64)?;
        }
        Ok(())
    }

    fn remove(&mut self, at: usize) -> Read<()> {
        let touched = &mut self.objects[at];
        let Some(onode) = touched.known.onode.take() else { return Ok(()) };
        // What comes in its place has an id, and blocks, of its own.
        touched.known.first = None;
        touched.dirty = true;
        if onode.size > 0 {
            self.gone += blocks(onode.size);
            self.delta.extents.remove_range((onode.id, 0), (onode.id + 1, 0));
        }
        match onode.shared {
            // Others may see what hangs below its id.
            Some(shared) => {
                self.clear(onode.id, keys::XATTR, keys::HEADER);
                self.leave(shared)?;
            }
            None if onode.xattrs || onode.omap => {
                self.delta.keys.remove_range(keys::inner_start(onode.id), keys::inner_start(onode.id + 1));
            }
            None => (),
        }
        Ok(())
    }

    fn clone_object(&mut self, from: &ObjectId, to: usize) -> Read<()> {
        let at = self.touch(from)?;
        let Some(source) = self.objects[at].known.onode.clone() else { return self.without_source(from, to) };
        if at == to {
            return Ok(());
        }
        self.remove(to)?;
        let target = self.change(to);
        let id = target.id;
        *target = Onode { id, shared: None, ..source.clone() };
        if !self.clone_inner(&source, at, to)? {
            self.too_large |= self.rehearsal;
            return self.lose(to);
        }
        self.clone_data(&source, id, from)
    }

    /// Gives an object another's name: its id, and with it all that hangs below it.
    fn take_over(&mut self, from: &ObjectId, to: usize) -> Read<()> {
        let at = self.touch(from)?;
        if self.objects[at].known.onode.is_none() {
            return self.without_source(from, to);
        }
        if at == to {
            return Ok(());
        }
        self.remove(to)?;
        let source = &mut self.objects[at];
        source.dirty = true;
        let (onode, first) = (source.known.onode.take(), source.known.first.take());
        let target = &mut self.objects[to];
        target.dirty = true;
        (target.known.onode, target.known.first) = (onode, first);
        Ok(())
    }

    /// An object is to be made of what does not exist.
    fn without_source(&mut self, from: &ObjectId, to: usize) -> Read<()> {
        if self.rehearsal {
            let what = format!("{from}, which is to be copied and does not exist");
            return Err(Unread::Damaged(Damage { what, offset: 0, expected: 0, found: 0 }));
        }
        self.lose(to)
    }

    /// Makes an object one of which nothing is known but that it should be there: nobody reads what it was for what it became.
    fn lose(&mut self, at: usize) -> Read<()> {
        self.remove(at)?;
        let onode = self.change(at);
        onode.size = BLOCK as u64;
        let id = onode.id;
        self.met_damage = true;
        self.delta.set_block(id, 0, Cell::Data(Block { place: Place::BAD, crc: 0 }));
        Ok(())
    }

    fn clone_data(&mut self, source: &Onode, id: u64, object: &ObjectId) -> Read<()> {
        let mut wishes = Vec::new();
        let mut found = Vec::new();
        let view = self.eye.view(Some(&self.delta));
        let mut range = 0;
        let ranges = blocks(source.size).div_ceil(RANGE);
        while let Some(next) = gather(view.next_range(source.id, range), &mut wishes)?.flatten() {
            if u64::from(next) >= ranges {
                break;
            }
            if let Some(patch) = gather(view.extents((source.id, next)), &mut wishes)? {
                found.push((next, patch));
            }
            range = next + 1;
        }
        drop(view);
        all_there(std::mem::take(&mut wishes))?;
        for (range, mut patch) in found.into_iter().filter(|(_, p)| p.has_data()) {
            for (i, block) in patch.clone().iter() {
                self.met_damage |= block.place == Place::BAD;
                if let Where::Journal(..) = block.place.place() {
                    let cell = self.copied(block, object, u64::from(range) * RANGE + u64::from(i), &mut wishes)?;
                    patch.set(i, cell.unwrap_or(Cell::Hole));
                }
            }
            self.delta.patch((id, range), patch);
        }
        all_there(wishes)
    }

    /// A block of a clone's source that lies in the journal: staged again, as records refer only to their own blocks there.
    fn copied(&mut self, block: Block, object: &ObjectId, at: u64, wishes: &mut Vec<u64>) -> Read<Option<Cell>> {
        match self.eye.blocks(block, 1, &|| object.to_string(), at * BLOCK as u64) {
            Ok(run) => {
                let index = self.staged.push(run.bytes().slice(..BLOCK).into());
                Ok(Some(Cell::Data(Block { place: Place::staged(index), crc: block.crc })))
            }
            Err(Unread::Damaged(_)) if !self.rehearsal => {
                self.met_damage = true;
                Ok(Some(Cell::Data(Block { place: Place::BAD, crc: block.crc })))
            }
            unread => gather(unread, wishes).map(|_| None),
        }
    }
}

/// Returns true if a change is of data, and not only of keys or the record.
fn changes_data(change: &ObjectChange) -> bool {
    use ObjectChange::*;
    matches!(change, Create | Write(..) | Xor(..) | Zero(..) | Truncate(_) | Remove | CloneOf(_) | CloneRange(..) | TakeOver(_))
}

/// Returns true if a change is of keys of the omap, which others may share.
fn changes_keys(change: &ObjectChange) -> bool {
    use ObjectChange::*;
    matches!(change, OmapSet(_) | OmapRemove(_) | OmapRemoveRange(..) | OmapClear)
}

/// Returns true if what was there before may have to be read to carry it out: a block of which a part changes, what a
/// clone copies, keys that are shared with one.
pub(crate) fn may_read(change: &ObjectChange) -> bool {
    let aligned = |at: u64| at.is_multiple_of(BLOCK as u64);
    match change {
        ObjectChange::Write(offset, data) => !aligned(*offset) || !aligned(data.len() as u64),
        ObjectChange::Zero(offset, len) => !aligned(*offset) || !aligned(*len),
        ObjectChange::Truncate(size) => !aligned(*size),
        ObjectChange::Xor(..) | ObjectChange::CloneOf(_) | ObjectChange::CloneRange(..) | ObjectChange::TakeOver(_) => true,
        change => changes_keys(change),
    }
}

/// Bytes at most that one key adds to a record besides itself and its value.
const OF_KEY: u64 = 16;
/// Bytes of a transaction's meta keys that a rehearsal, which does not know them, leaves room for.
const META: u64 = 64 << 10;

/// Blocks of data and bytes of index that it takes, if it is not larger than the store can take at all.
type Size = Option<(u64, u64)>;

/// What a transaction takes at most, clones' sources left out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Takes {
    /// Blocks of data.
    pub(crate) blocks: u64,
    /// Bytes of index.
    pub(crate) index: u64,
}

impl Takes {
    /// Bytes of its record, with the data that goes along.
    pub(crate) fn in_record(self) -> u64 {
        let data = self.blocks * BLOCK as u64;
        self.index + if data < LARGE as u64 { data } else { 0 } + 2 * BLOCK as u64
    }
}

fn size_of_change(change: &ObjectChange) -> Size {
    let (data, index, fits) = match change {
        ObjectChange::Write(offset, bytes) | ObjectChange::Xor(offset, bytes) => {
            let end = offset.checked_add(bytes.len() as u64)?;
            (blocks(bytes.len() as u64) + 1, 64 + bytes.len() / 512, end <= LARGEST_OBJECT)
        }
        ObjectChange::Zero(..) => (2, 256, true),
        ObjectChange::Truncate(size) => (1, 256, *size <= LARGEST_OBJECT),
        ObjectChange::SetInfo(v) | ObjectChange::OmapHeader(v) => (0, v.len(), true),
        ObjectChange::SetXattr(k, v) => (0, k.len() + v.len() + 64, k.len() <= keys::LONGEST),
        ObjectChange::OmapSet(entries) => {
            let bytes = entries.iter().map(|(k, v)| k.len() + v.len() + 32).sum();
            (0, bytes, entries.iter().all(|(k, _)| k.len() <= keys::LONGEST))
        }
        ObjectChange::OmapRemove(names) => (0, names.iter().map(|k| k.len() + 32).sum(), true),
        ObjectChange::CloneOf(source) | ObjectChange::TakeOver(source) => (0, 64 + size_of_name(source), true),
        ObjectChange::CloneRange(source, ranges) => {
            let fits = ranges.iter().all(|(at, len)| at.checked_add(*len).is_some_and(|end| end <= LARGEST_OBJECT));
            (2 * ranges.len() as u64, 64 + size_of_name(source) + 256 * ranges.len(), fits)
        }
        _ => (0, 64, true),
    };
    fits.then_some((data, index as u64))
}

fn size_of_name(object: &ObjectId) -> usize {
    2 * object.name.len() + object.key.len() + object.nspace.len() + 105
}

fn size_of_meta(change: &MetaChange) -> Size {
    match change {
        MetaChange::Set(k, v) => (k.len() <= keys::LONGEST).then_some((0, (k.len() + v.len() + 64) as u64)),
        MetaChange::Remove(_) | MetaChange::RemoveRange(..) => Some((0, 64)),
    }
}

/// Returns what changes of objects take at most; none if that is more than the store can take at all.
fn size_of_objects(objects: &[ObjectChanges]) -> Option<Takes> {
    let mut takes = Takes { blocks: 0, index: 256 };
    for ObjectChanges { object, changes } in objects {
        let names = size_of_name(object) as u64;
        for change in changes {
            let (blocks, index) = size_of_change(change)?;
            takes.blocks += blocks;
            takes.index += index + names;
        }
    }
    Some(takes)
}

/// Returns what a transaction takes at most; none if that is more than the store can take at all.
pub(crate) fn size_of(transaction: &Transaction) -> Option<Takes> {
    let mut takes = size_of_objects(&transaction.objects)?;
    for change in &transaction.meta {
        takes.index += size_of_meta(change)?.1;
    }
    Some(takes)
}
