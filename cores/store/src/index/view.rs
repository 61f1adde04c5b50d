//! The index as it is now: layers of changes over the tree.

use super::delta::{Delta, Extent};
use super::keys;
use super::page::Ptr;
use super::tree::{self, Leaf, Pages};
use crate::block::Patch;
use bytes::Bytes;
use denc::Reader;
use objectstore::{Damage, Read, Unread};
use smallvec::SmallVec;
use std::ops::Bound;

/// Layers, topmost first, over a tree.
pub(crate) struct View<'a, P> {
    pub(crate) layers: SmallVec<[&'a Delta; 3]>,
    pub(crate) root: Option<&'a Ptr>,
    /// Onode ids from here on are not in the tree.
    pub(crate) next_id: u64,
    pub(crate) pages: &'a P,
}

/// The answer of whoever scans keys.
pub(crate) enum Step {
    /// The scan goes on.
    More,
    /// The scan ends here.
    Enough,
}

/// Describes a value of the index that cannot be understood though its page's checksum is right.
pub(crate) fn nonsense(key: &[u8]) -> Unread {
    Unread::Damaged(Damage { what: format!("index value of {}", key.escape_ascii()), offset: 0, expected: 0, found: 0 })
}

impl<P: Pages> View<'_, P> {
    /// Gives the value of a key of any section but the extents.
    pub(crate) fn get(&self, key: &[u8]) -> Read<Option<Bytes>> {
        for layer in &self.layers {
            if let Some(value) = layer.keys.get(key) {
                return Ok(value.clone());
            }
            if layer.keys.hidden(key).is_some() {
                return Ok(None);
            }
        }
        tree::get(self.pages, self.root, key)
    }

    /// Gives the value of a key below onode `id`. An id newer than the tree is not looked up in it.
    pub(crate) fn get_inner(&self, id: u64, key: &[u8]) -> Read<Option<Bytes>> {
        let root = if id < self.next_id { self.root } else { None };
        View { layers: self.layers.clone(), root, next_id: self.next_id, pages: self.pages }.get(key)
    }

    /// Gives the blocks of a range. Nothing is unset in the result.
    pub(crate) fn extents(&self, key: Extent) -> Read<Patch> {
        let mut all = self.extents_above(key);
        if all.complete() {
            return Ok(all);
        }
        if key.0 < self.next_id {
            let bytes = keys::extent(key.0, key.1);
            if let Some(value) = tree::get(self.pages, self.root, &bytes)? {
                all.fill_from(&Patch::decode(&mut Reader::new(&value)).map_err(|_| nonsense(&bytes))?);
            }
        }
        all.close();
        Ok(all)
    }

    /// Gives what the layers over the tree say of a range: all that is known of it if the tree's page is damaged.
    pub(crate) fn extents_above(&self, key: Extent) -> Patch {
        let mut all = Patch::default();
        for layer in &self.layers {
            if let Some(patch) = layer.extents.get(&key) {
                all.fill_from(patch);
            } else if layer.extents.hidden(&key).is_some() {
                all.close();
            }
            if all.complete() {
                break;
            }
        }
        all
    }

    /// Gives the first range at or after `from` of which a layer or the tree says something.
    pub(crate) fn next_range(&self, id: u64, from: u32) -> Read<Option<u32>> {
        let in_layer = |l: &&Delta| l.extents.iter_from(&(id, from)).next().filter(|(k, _)| k.0 == id).map(|(k, _)| k.1);
        let mut least = self.layers.iter().filter_map(in_layer).min();
        let mut at = keys::extent(id, from);
        let end = keys::extent(id + 1, 0);
        while id < self.next_id && at < end {
            let Some(Leaf { page, upper }) = tree::leaf(self.pages, self.root, &at, Some(&end))? else { break };
            let i = page.lower_bound(&at);
            if i < page.len() {
                let found = keys::extent_of(&page.key(i)).filter(|(i, _)| *i == id).map(|(_, range)| range);
                least = least.into_iter().chain(found).min();
                break;
            }
            let Some(upper) = upper else { break };
            at = upper;
        }
        Ok(least)
    }

    /// Calls `f` with the keys of `from..to` and their values in order, until it has enough.
    pub(crate) fn scan(&self, from: &[u8], to: Option<&[u8]>, mut f: impl FnMut(&Bytes, Bytes) -> Step) -> Read<()> {
        let mut layers: SmallVec<[_; 3]> = self.layers.iter().map(|l| l.keys.iter_from(from).peekable()).collect();
        let mut tree = TreeScan { root: self.root, leaf: None, at: 0, next: Some(Bytes::copy_from_slice(from)), to, done: false };
        loop {
            let mut least: Option<(Bytes, usize, Option<Bytes>)> = None;
            for (i, layer) in layers.iter_mut().enumerate() {
                if let Some((key, value)) = layer.peek()
                    && least.as_ref().is_none_or(|(k, ..)| *key < k)
                {
                    least = Some(((*key).clone(), i, (*value).clone()));
                }
            }
            while let Some(key) = tree.key(self.pages)? {
                let hidden = self.layers.iter().find_map(|l| l.keys.hidden(&key[..]));
                match hidden {
                    Some(end) => tree.seek(end.clone()),
                    None => {
                        if least.as_ref().is_none_or(|(k, ..)| key < *k) {
                            least = Some((key, self.layers.len(), Some(tree.value())));
                        }
                        break;
                    }
                }
            }
            let Some((key, from, value)) = least else { return Ok(()) };
            if to.is_some_and(|to| &key[..] >= to) {
                return Ok(());
            }
            for layer in layers.iter_mut() {
                if layer.peek().is_some_and(|(k, _)| **k == key) {
                    layer.next();
                }
            }
            tree.skip(&key);
            // A range tombstone of a higher layer may hide a change in a lower one.
            let hidden = self.layers[..from.min(self.layers.len())].iter().any(|l| l.keys.hidden(&key[..]).is_some());
            if let (Some(value), false) = (value, hidden)
                && matches!(f(&key, value), Step::Enough)
            {
                return Ok(());
            }
        }
    }

    /// Scans with bounds as the store's interface has them, below a common prefix. See [`Self::scan`].
    pub(crate) fn scan_prefix(
        &self,
        prefix: &[u8],
        range: (Bound<&[u8]>, Bound<&[u8]>),
        f: impl FnMut(&Bytes, Bytes) -> Step,
    ) -> Read<()> {
        match bounds(prefix, range) {
            Some((from, to)) => self.scan(&from, to.as_deref(), f),
            None => Ok(()),
        }
    }
}

/// Gives the first key of a range below a prefix, and the first one behind it (none: there is no key behind). None for an empty range.
pub(crate) fn bounds(prefix: &[u8], (from, to): (Bound<&[u8]>, Bound<&[u8]>)) -> Option<(Bytes, Option<Bytes>)> {
    let with = |tail: &[u8]| Bytes::from([prefix, tail].concat());
    let from = match from {
        Bound::Unbounded => with(b""),
        Bound::Included(key) => with(key),
        Bound::Excluded(key) => keys::successor(&with(key)),
    };
    let to = match to {
        Bound::Unbounded => keys::after_prefix(prefix),
        Bound::Excluded(key) => Some(with(key)),
        Bound::Included(key) => Some(keys::successor(&with(key))),
    };
    to.as_ref().is_none_or(|to| from < *to).then_some((from, to))
}

/// A place in the tree that moves forward.
struct TreeScan<'t> {
    root: Option<&'t Ptr>,
    leaf: Option<Leaf>,
    at: usize,
    /// The key to look for next when there is no leaf.
    next: Option<Bytes>,
    to: Option<&'t [u8]>,
    done: bool,
}

impl TreeScan<'_> {
    /// Gives the key at this place.
    fn key(&mut self, pages: &impl Pages) -> Read<Option<Bytes>> {
        loop {
            if self.done || self.root.is_none() {
                return Ok(None);
            }
            if let Some(leaf) = &self.leaf {
                if self.at < leaf.page.len() {
                    return Ok(Some(leaf.page.key(self.at)));
                }
                self.next = leaf.upper.clone();
                self.leaf = None;
            }
            let Some(next) = self.next.take().filter(|n| self.to.is_none_or(|to| &n[..] < to)) else {
                self.done = true;
                return Ok(None);
            };
            self.leaf = tree::leaf(pages, self.root, &next, Some(self.to.unwrap_or(&[255; 16])))?;
            self.at = self.leaf.as_ref().map_or(0, |l| l.page.lower_bound(&next));
        }
    }

    fn value(&self) -> Bytes {
        self.leaf.as_ref().expect("at a key").page.value(self.at)
    }

    /// Leaves `key`, if that is the key at this place.
    fn skip(&mut self, key: &[u8]) {
        if let Some(leaf) = &self.leaf
            && self.at < leaf.page.len()
            && leaf.page.cmp_key(self.at, key).is_eq()
        {
            self.at += 1;
        }
    }

    /// Goes to the first key that is not before `key`.
    fn seek(&mut self, key: Bytes) {
        match &self.leaf {
            Some(leaf) if leaf.upper.as_ref().is_none_or(|upper| key < *upper) => {
                self.at = leaf.page.lower_bound(&key).max(self.at)
            }
            _ => {
                self.leaf = None;
                self.next = Some(key);
            }
        }
    }
}
