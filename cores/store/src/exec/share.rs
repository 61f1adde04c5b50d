//! Changes of omaps that several objects share: [`crate::family`] says what is done, and why that is right.

use super::{OF_KEY, Run};
use crate::block::BLOCK;
use crate::family::{Family, Omap, family, say};
use crate::index::keys;
use crate::index::view::{Step, nonsense};
use crate::onode::{Onode, Shared};
use crate::read::{all_there, gather};
use crate::superblock::FAMILIES;
use crate::wish::WISH_MARK;
use bytes::Bytes;
use objectstore::{ObjectChange, Read, Unread, Wish};
use std::ops::Bound;

/// Bytes at most of a change of one key in a record besides key and value: also the head of the key, and what a layer says before a value.
const OF_CHANGE: u64 = OF_KEY + keys::INNER_HEAD as u64 + 1;

/// Two layers become one only if that takes less than this part of what is free.
const SPARE: u64 = 64;

impl Run<'_> {
    /// Carries out a change of an omap that is shared. False, and nothing is done: it is not shared any more.
    pub(super) fn share_omap(&mut self, at: usize, change: &ObjectChange) -> Read<bool> {
        let onode = self.objects[at].known.onode.as_ref().expect("a shared omap is an object's");
        let (id, shared) = (onode.id, onode.shared.expect("the caller looked"));
        let omap = Omap::of(&self.eye.view(Some(&self.delta)), onode)?;
        if omap.is_alone() {
            if shared.id == id {
                self.change(at).shared = None;
            }
            return Ok(false);
        }
        self.families.push(keys::family(shared.family));
        match change {
            ObjectChange::OmapSet(entries) => {
                self.change(at).omap |= !entries.is_empty();
                let list = entries.iter().map(|(key, value)| (key.clone(), Some(value.clone()))).collect();
                self.change_keys(at, &omap, list)?;
            }
            ObjectChange::OmapRemove(names) => {
                self.change_keys(at, &omap, names.iter().map(|key| (key.clone(), None)).collect())?;
            }
            ObjectChange::OmapRemoveRange(from, to) => self.remove_keys(at, &omap, from, to)?,
            ObjectChange::OmapClear => {
                self.leave(shared)?;
                // What it gets from now on is its own.
                let own = self.new_id();
                let onode = self.change(at);
                (onode.omap, onode.shared) = (false, Some(Shared { id: own, family: own }));
                self.clear(id, keys::HEADER, keys::HEADER);
            }
            _ => unreachable!("only keys of the omap are shared"),
        }
        Ok(true)
    }

    /// Sets keys, or removes those without a value. Before that, who was cloned from the object gets what it still sees there.
    fn change_keys(&mut self, at: usize, omap: &Omap, list: Vec<(Bytes, Option<Bytes>)>) -> Read<()> {
        let (mut saved, mut wishes, mut bytes) = (Vec::new(), Vec::new(), 0);
        let view = self.eye.view(Some(&self.delta));
        for (key, value) in &list {
            bytes += key.len() as u64 + value.as_ref().map_or(0, |value| value.len() as u64) + OF_CHANGE;
            #[cfg(test)]
            if self.eye.store.mistake == Some(crate::mistake::Mistake::SaveNothing) {
                continue;
            }
            let Some(before) = omap.before else { continue };
            let place = keys::inner(before, keys::SAID, key);
            if let Some(None) = gather(view.get_inner(before, &place), &mut wishes)?
                && let Some(old) = gather(omap.get(&view, key), &mut wishes)?
            {
                bytes += key.len() as u64 + old.as_ref().map_or(0, |old| old.len() as u64) + OF_CHANGE;
                saved.push((place, say(old.as_deref())));
            }
        }
        drop(view);
        all_there(wishes)?;
        if !self.afford(bytes) {
            self.too_large |= self.rehearsal;
            return self.lose(at);
        }
        let keys = &mut self.delta.keys;
        saved.into_iter().for_each(|(key, value)| keys.put(key, Some(value)));
        let (own, kind) = omap.own();
        for (key, value) in list {
            let value = if kind == keys::SAID { Some(say(value.as_deref())) } else { value };
            keys.put(keys::inner(own, kind, &key), value);
        }
        Ok(())
    }

    /// Removes the keys of a range, one by one; if they are too many for that, and what is left is not, the object leaves the family with
    /// what is left.
    fn remove_keys(&mut self, at: usize, omap: &Omap, from: &Bytes, to: &Bytes) -> Read<()> {
        let room = self.room();
        // What it takes at least, and what it takes if an older clone needs all of that.
        let (mut list, mut bytes, mut saved) = (Vec::new(), 0, 0);
        let range = (Bound::Included(&from[..]), Bound::Excluded(&to[..]));
        omap.scan(&self.eye.view(Some(&self.delta)), range, |key, value| {
            bytes += key.len() as u64 + OF_CHANGE;
            saved += key.len() as u64 + value.len() as u64 + OF_CHANGE;
            list.push((key, None));
            if bytes > room { Step::Enough } else { Step::More }
        })?;
        let all = if omap.before.is_some() { bytes + saved } else { bytes };
        if all > room
            && let Some(left) = self.outside(omap, from, to, room)?
        {
            return self.leave_with(at, left);
        }
        // If there were more, these alone are too many.
        self.change_keys(at, omap, list)
    }

    /// Keys of an omap outside of a range, and their values. None: more than `room` bytes.
    fn outside(&self, omap: &Omap, from: &Bytes, to: &Bytes, room: u64) -> Read<Option<Vec<(Bytes, Bytes)>>> {
        let (mut list, mut bytes) = (Vec::new(), 0);
        let view = self.eye.view(Some(&self.delta));
        for range in [(Bound::Unbounded, Bound::Excluded(&from[..])), (Bound::Included(&to[..]), Bound::Unbounded)] {
            omap.scan(&view, range, |key, value| {
                bytes += key.len() as u64 + value.len() as u64 + OF_CHANGE;
                list.push((key, value));
                if bytes > room { Step::Enough } else { Step::More }
            })?;
        }
        Ok((bytes <= room).then_some(list))
    }

    /// The object has these keys from now on, in a layer of its own; what it had stays for who needs it.
    fn leave_with(&mut self, at: usize, left: Vec<(Bytes, Bytes)>) -> Read<()> {
        let bytes = left.iter().map(|(key, value)| key.len() as u64 + value.len() as u64 + OF_CHANGE).sum();
        if !self.afford(bytes) {
            self.too_large |= self.rehearsal;
            return self.lose(at);
        }
        let shared = self.objects[at].known.onode.as_ref().and_then(|onode| onode.shared).expect("the caller looked");
        self.leave(shared)?;
        let own = self.new_id();
        let onode = self.change(at);
        (onode.omap, onode.shared) = (!left.is_empty(), Some(Shared { id: own, family: own }));
        let keys = &mut self.delta.keys;
        left.into_iter().for_each(|(key, value)| keys.put(keys::inner(own, keys::OMAP, &key), Some(value)));
        Ok(())
    }

    /// The object of this layer has no part in its family any more.
    pub(super) fn leave(&mut self, shared: Shared) -> Read<()> {
        let key = keys::family(shared.family);
        let found = family(&self.eye.view(Some(&self.delta)), shared.family)?;
        let Some(mut family) = found else {
            self.drop_layer(shared.id);
            return Ok(());
        };
        family.leave(shared.id).into_iter().for_each(|id| self.drop_layer(id));
        if let Some(before) = family.before_orphan(shared.id)
            && self.unite(before, shared.id)?
        {
            family.take_out(shared.id);
        }
        let value = (family.layers().len() > 1).then(|| family.encode());
        self.delta.keys.put(key.clone(), value);
        self.families.push(key);
        Ok(())
    }

    /// Puts what a layer without an object says into the layer in front of it. False, and nothing is done: it says too much, or the store
    /// is nearly full, and removals must not make it fuller.
    fn unite(&mut self, before: u64, id: u64) -> Read<bool> {
        let spare = self.eye.store.available_blocks() / SPARE * BLOCK as u64;
        let most = self.room().min(self.eye.store.config.copied_omap).min(spare);
        let all = (keys::inner(id, keys::SAID, b""), keys::inner(id, keys::SAID + 1, b""));
        let Some(list) = self.read_below(all, most)? else { return Ok(false) };
        let (mut moved, mut wishes, mut bytes) = (Vec::new(), Vec::new(), 0);
        let view = self.eye.view(Some(&self.delta));
        for (key, value) in list {
            let place = keys::inner(before, keys::SAID, &key[keys::INNER_HEAD..]);
            if let Some(None) = gather(view.get_inner(before, &place), &mut wishes)? {
                bytes += (place.len() + value.len()) as u64 + OF_KEY;
                moved.push((place, value));
            }
        }
        drop(view);
        all_there(wishes)?;
        // No more than was read, and for that there is room. It is there already, so it does not count as new.
        self.room = Some(self.room() - bytes);
        moved.into_iter().for_each(|(key, value)| self.delta.keys.put(key, Some(value)));
        self.drop_layer(id);
        Ok(true)
    }

    /// Removes the keys of a layer.
    fn drop_layer(&mut self, id: u64) {
        self.clear(id, keys::OMAP, keys::SAID);
    }

    /// Copies what hangs below the source's id except for data, or shares it. False: it is too much.
    pub(super) fn clone_inner(&mut self, source: &Onode, at: usize, to: usize) -> Read<bool> {
        let id = self.id(to).expect("the clone was just made");
        if source.xattrs || source.omap {
            let all = (keys::inner_start(source.id), keys::inner(source.id, keys::OMAP, b""));
            let room = self.room();
            let Some(few) = self.read_below(all, room)? else { return Ok(false) };
            self.copy_below(few, id);
        }
        if !source.omap {
            return Ok(true);
        }
        let omap = Omap::of(&self.eye.view(Some(&self.delta)), source)?;
        if omap.is_alone() {
            let (own, kind) = omap.own();
            let all = (keys::inner(own, kind, b""), keys::inner(own, kind + 1, b""));
            let most = self.room().min(self.eye.store.config.copied_omap);
            if let Some(few) = self.read_below(all, most)? {
                self.copy_below(few, id);
                return Ok(true);
            }
        }
        self.share(source, at, to)
    }

    /// Gives the clone a layer in front of its source's. False: the family has too many.
    fn share(&mut self, source: &Onode, at: usize, to: usize) -> Read<bool> {
        if self.eye.store.sb.version < FAMILIES && !self.rehearsal {
            return Err(Unread::Missing(Wish(vec![WISH_MARK])));
        }
        let id = self.id(to).expect("the clone was just made");
        let shared = source.shared.unwrap_or(Shared { id: source.id, family: source.id });
        let key = keys::family(shared.family);
        let found = family(&self.eye.view(Some(&self.delta)), shared.family)?;
        let mut family = found.unwrap_or_else(|| Family::of(shared.id));
        if family.layers().iter().all(|layer| layer.id != shared.id) {
            return Err(nonsense(&key));
        }
        if !family.put_before(shared.id, id) {
            return Ok(false);
        }
        self.delta.keys.put(key.clone(), Some(family.encode()));
        self.families.push(key);
        self.change(at).shared = Some(shared);
        self.change(to).shared = Some(Shared { id, family: shared.family });
        Ok(true)
    }

    /// Gives the keys of `from..to` and their values; none if they take more than `most` bytes of a record.
    fn read_below(&self, (from, to): (Bytes, Bytes), most: u64) -> Read<Option<Vec<(Bytes, Bytes)>>> {
        let (mut found, mut bytes): (Vec<(Bytes, Bytes)>, u64) = (Vec::new(), 0);
        self.eye.view(Some(&self.delta)).scan(&from, Some(&to), |key, value| {
            bytes += (key.len() + value.len()) as u64 + OF_KEY;
            if bytes > most {
                return Step::Enough;
            }
            found.push((key.clone(), value));
            Step::More
        })?;
        Ok((bytes <= most).then_some(found))
    }

    /// Puts copies of keys below another id. The caller knows that there is room for them.
    fn copy_below(&mut self, list: Vec<(Bytes, Bytes)>, id: u64) {
        let bytes = list.iter().map(|(key, value)| (key.len() + value.len()) as u64 + OF_KEY).sum();
        assert!(self.afford(bytes), "no more was read than there is room for");
        for (key, value) in list {
            self.delta.keys.put(keys::inner(id, key[9], &key[keys::INNER_HEAD..]), Some(value));
        }
    }

    /// Takes room for so many bytes of keys. False, and nothing is taken, if there is not so much.
    fn afford(&mut self, bytes: u64) -> bool {
        let room = self.room();
        if bytes > room {
            return false;
        }
        self.room = Some(room - bytes);
        self.copied += bytes;
        true
    }
}
