//! Omaps that several objects share, so that a clone of a large one copies no key.
//!
//! A *family* is a chain of layers. Each layer has an id, and belongs to one object or, when that object is gone, to none. The last layer,
//! the *base*, has keys of section I, kind `o`. Each of the others has kind `p`: what its object, and those before it in the chain, see
//! instead of what the layers behind it say. An object sees, for each key, what the first layer from its own on says.
//!
//! | event | what is done |
//! |---|---|
//! | an object is cloned | the clone gets a layer in front of the object's own one. No key is read or written |
//! | a key of an object changes | first, what the layer in front of the object's does not say yet of that key is saved there: the value, or that there is none. Then the key changes in the object's own layer |
//! | an object goes, or its whole omap does | its layer belongs to nobody. Layers at the front that belong to nobody are removed: no object looks there |
//! | ... and its layer is in the middle, and small | what it says goes into the layer in front of it, where that says nothing; then it is removed. A larger one stays until it is at the front |
//!
//! So a head, which is cloned but never a clone, reads as if it were alone. It pays for a snapshot once for each key that it changes. The
//! oldest clone pays most for reading, and its removal gives back what only it saw.
//!
//! **Why it is right.** Let *S(x, k)* be what the object of layer *x* sees of key *k*. A layer that is put in front of *x* and says nothing
//! has *S* of *x*, and changes no other. Saving *S(x, k)* in the layer in front of *x* changes no *S*: that layer said nothing of *k*, so its
//! object saw *S(x, k)* before. After that a change of *k* in *x* is seen by the object of *x* alone: who is in front of *x* finds *k* earlier,
//! and who is behind never looks there. A layer at the front that belongs to nobody is looked at by nobody. One in the middle that belongs to
//! nobody is looked at only by those who looked at the layer in front of it before, so the two may be one.
//!
//! All of that is in the record of the change itself. There is no work in the background, and no state between.

use crate::index::keys;
use crate::index::tree::Pages;
use crate::index::view::{Step, View, bounds, nonsense};
use crate::onode::Onode;
use crate::read::{all_there, gather};
use bytes::{BufMut, Bytes};
use objectstore::{Range, Read};
use smallvec::SmallVec;
use std::collections::VecDeque;

/// Most layers of a family. A clone of an object whose family has so many is refused.
pub(crate) const MOST_LAYERS: usize = 512;

/// Entries, and bytes of them, of each layer that are read at a time.
const ENTRIES: usize = 64;
const BYTES: usize = 64 << 10;

/// A layer of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layer {
    /// Its keys are below this id.
    pub(crate) id: u64,
    /// True if it belongs to an object.
    pub(crate) lives: bool,
}

/// The layers of a family, the oldest first, the base last. There are two at least: what one object has alone is no family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Family(Vec<Layer>);

/// Bytes of an encoded layer.
const LAYER: usize = 9;

impl Family {
    /// Gives the family of an omap that one object has.
    pub(crate) fn of(base: u64) -> Self {
        Self(vec![Layer { id: base, lives: true }])
    }

    /// Encodes the value of the S key.
    pub(crate) fn encode(&self) -> Bytes {
        let mut out = Vec::with_capacity(LAYER * self.0.len());
        for layer in &self.0 {
            out.put_u64_le(layer.id);
            out.put_u8(layer.lives.into());
        }
        out.into()
    }

    /// Decodes a value. None for what is no family.
    pub(crate) fn decode(value: &[u8]) -> Option<Self> {
        let layers = value.chunks(LAYER).map(|chunk| {
            let (id, lives) = chunk.split_first_chunk::<8>()?;
            let &[lives @ 0..=1] = lives else { return None };
            Some(Layer { id: u64::from_le_bytes(*id), lives: lives == 1 })
        });
        let layers: Vec<Layer> = layers.collect::<Option<_>>()?;
        // At the front is a layer of an object: others there are removed.
        let front = layers.first().is_some_and(|layer| layer.lives);
        (front && (2..=MOST_LAYERS).contains(&layers.len())).then_some(Self(layers))
    }

    /// Gives the layers, the oldest first.
    pub(crate) fn layers(&self) -> &[Layer] {
        &self.0
    }

    /// Puts a layer in front of another. False if there is no room for one more, or no such other.
    pub(crate) fn put_before(&mut self, other: u64, id: u64) -> bool {
        match self.0.iter().position(|layer| layer.id == other) {
            Some(at) if self.0.len() < MOST_LAYERS => {
                self.0.insert(at, Layer { id, lives: true });
                true
            }
            _ => false,
        }
    }

    /// The object of this layer is gone. Gives the layers that are looked at by nobody any more. If less than two are left, they are no
    /// family.
    pub(crate) fn leave(&mut self, id: u64) -> Vec<u64> {
        self.0.iter_mut().filter(|layer| layer.id == id).for_each(|layer| layer.lives = false);
        let gone = self.0.iter().take_while(|layer| !layer.lives).count();
        self.0.drain(..gone).map(|layer| layer.id).collect()
    }

    /// Gives the layer in front of one that belongs to nobody and is not the base.
    pub(crate) fn before_orphan(&self, id: u64) -> Option<u64> {
        let at = self.0.iter().position(|layer| layer.id == id && !layer.lives)?;
        (at + 1 < self.0.len()).then(|| at.checked_sub(1).map(|before| self.0[before].id))?
    }

    /// Takes a layer out.
    pub(crate) fn take_out(&mut self, id: u64) {
        self.0.retain(|layer| layer.id != id);
    }
}

/// Reads a family. None if there is no such family: the omap belongs to one object.
pub(crate) fn family<P: Pages>(view: &View<'_, P>, id: u64) -> Read<Option<Family>> {
    let key = keys::family(id);
    match view.get(&key)? {
        None => Ok(None),
        Some(value) => Family::decode(&value).map(Some).ok_or_else(|| nonsense(&key)),
    }
}

/// Encodes what a layer says of a key.
pub(crate) fn say(value: Option<&[u8]>) -> Bytes {
    match value {
        None => Bytes::from_static(&[0]),
        Some(value) => [&[1], value].concat().into(),
    }
}

/// Returns what a layer says of a key.
fn said(key: &[u8], value: &Bytes) -> Read<Option<Bytes>> {
    match value.first() {
        Some(0) if value.len() == 1 => Ok(None),
        Some(1) => Ok(Some(value.slice(1..))),
        _ => Err(nonsense(key)),
    }
}

/// Where an object finds its omap.
#[derive(Clone, Debug)]
pub(crate) struct Omap {
    /// The layer in front of the object's own.
    pub(crate) before: Option<u64>,
    /// Layers that it looks at before the base; the first one is its own.
    said: SmallVec<[u64; 2]>,
    base: u64,
}

impl Omap {
    /// Finds out where the omap of an object is.
    pub(crate) fn of<P: Pages>(view: &View<'_, P>, onode: &Onode) -> Read<Self> {
        let alone = |base| Self { before: None, said: SmallVec::new(), base };
        let Some(shared) = onode.shared else { return Ok(alone(onode.id)) };
        let Some(family) = family(view, shared.family)? else { return Ok(alone(shared.id)) };
        let layers = family.layers();
        let Some(at) = layers.iter().position(|layer| layer.id == shared.id) else {
            return Err(nonsense(&keys::family(shared.family)));
        };
        let base = layers[layers.len() - 1].id;
        let said = layers[at..layers.len() - 1].iter().map(|layer| layer.id).collect();
        Ok(Self { before: at.checked_sub(1).map(|before| layers[before].id), said, base })
    }

    /// Says whether no other object has a part of it.
    pub(crate) fn is_alone(&self) -> bool {
        self.before.is_none() && self.said.is_empty()
    }

    /// The id below which the object's own layer is, and its kind of keys.
    pub(crate) fn own(&self) -> (u64, u8) {
        self.said.first().map_or((self.base, keys::OMAP), |own| (*own, keys::SAID))
    }

    /// Gives the value of a key.
    pub(crate) fn get<P: Pages>(&self, view: &View<'_, P>, key: &[u8]) -> Read<Option<Bytes>> {
        for id in &self.said {
            let inner = keys::inner(*id, keys::SAID, key);
            if let Some(value) = view.get_inner(*id, &inner)? {
                return said(&inner, &value);
            }
        }
        view.get_inner(self.base, &keys::inner(self.base, keys::OMAP, key))
    }

    /// Calls `f` with the keys of a range and their values, in order, until it has enough.
    pub(crate) fn scan<P: Pages>(
        &self,
        view: &View<'_, P>,
        range: Range<'_>,
        mut f: impl FnMut(Bytes, Bytes) -> Step,
    ) -> Read<()> {
        if self.said.is_empty() {
            let prefix = keys::inner(self.base, keys::OMAP, b"");
            return view.scan_prefix(&prefix, range, |key, value| f(key.slice(keys::INNER_HEAD..), value));
        }
        let layers = self.said.iter().map(|id| (*id, keys::SAID)).chain([(self.base, keys::OMAP)]);
        let mut parts: Vec<Part> = layers.filter_map(|(id, kind)| Part::new(id, kind, range)).collect();
        loop {
            let mut wishes = Vec::new();
            for part in &mut parts {
                gather(part.fill(view), &mut wishes)?;
            }
            all_there(wishes)?;
            let Some(key) = parts.iter().filter_map(|part| part.ahead.front()).map(|(key, _)| key).min().cloned() else {
                return Ok(());
            };
            // What the first layer says counts, and all of them go on behind the key.
            let mut first: Option<Option<Bytes>> = None;
            for part in &mut parts {
                if part.ahead.front().is_some_and(|(next, _)| *next == key) {
                    let (_, value) = part.ahead.pop_front().expect("just seen");
                    first.get_or_insert(value);
                }
            }
            if let Some(Some(value)) = first
                && matches!(f(key, value), Step::Enough)
            {
                return Ok(());
            }
        }
    }
}

/// A layer that is being read in order.
struct Part {
    kind: u8,
    /// Place to go on reading; none at the end.
    next: Option<Bytes>,
    to: Option<Bytes>,
    /// What was read of it, and is not handed out yet.
    ahead: VecDeque<(Bytes, Option<Bytes>)>,
}

impl Part {
    /// None if the range is empty.
    fn new(id: u64, kind: u8, range: Range<'_>) -> Option<Self> {
        let (from, to) = bounds(&keys::inner(id, kind, b""), range)?;
        Some(Self { kind, next: Some(from), to, ahead: VecDeque::new() })
    }

    /// Reads on if nothing is left. If nothing is there then, the layer is at its end.
    fn fill<P: Pages>(&mut self, view: &View<'_, P>) -> Read<()> {
        let Some(from) = self.next.as_ref().filter(|_| self.ahead.is_empty()) else { return Ok(()) };
        let (mut found, mut bytes, mut wrong, mut next) = (VecDeque::new(), 0, None, None);
        view.scan(from, self.to.as_deref(), |key, value| {
            bytes += key.len() + value.len();
            let value = if self.kind == keys::SAID { said(key, &value) } else { Ok(Some(value)) };
            match value {
                Ok(value) => found.push_back((key.slice(keys::INNER_HEAD..), value)),
                Err(unread) => {
                    wrong = Some(unread);
                    return Step::Enough;
                }
            }
            if found.len() < ENTRIES && bytes < BYTES {
                return Step::More;
            }
            next = Some(keys::successor(key));
            Step::Enough
        })?;
        if let Some(unread) = wrong {
            return Err(unread);
        }
        (self.ahead, self.next) = (found, next);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_come_back_and_nonsense_does_not() {
        let mut family = Family::of(7);
        assert!(family.put_before(7, 9) && family.put_before(9, 11) && family.put_before(7, 12) && !family.put_before(8, 13));
        assert_eq!(family.layers().iter().map(|layer| layer.id).collect::<Vec<_>>(), [11, 9, 12, 7]);
        assert_eq!(Family::decode(&family.encode()).as_ref(), Some(&family));
        let bytes = family.encode().to_vec();
        assert!((0..bytes.len()).filter(|n| n % LAYER != 0).all(|n| Family::decode(&bytes[..n]).is_none()));
        assert_eq!(Family::decode(&bytes[..LAYER]), None, "one layer is no family");
        let wrong = |at: usize, byte: u8| Family::decode(&[&bytes[..at], &[byte], &bytes[at + 1..]].concat());
        assert_eq!((wrong(8, 0), wrong(17, 2)), (None, None), "nobody at the front; a flag without a meaning");
        while family.put_before(7, 1000 + family.layers().len() as u64) {}
        assert_eq!(family.layers().len(), MOST_LAYERS);
    }

    #[test]
    fn layers_go_when_nobody_looks_at_them() {
        let mut family = Family::of(1);
        assert!(family.put_before(1, 3) && family.put_before(3, 2));
        assert_eq!(family.before_orphan(3), None, "it has an object");
        assert!(family.leave(1).is_empty() && family.leave(3).is_empty());
        assert_eq!((family.before_orphan(3), family.before_orphan(1)), (Some(2), None));
        let mut other = family.clone();
        other.take_out(3);
        assert_eq!((family.leave(2), other.leave(2)), (vec![2, 3, 1], vec![2, 1]));
        assert!(family.layers().is_empty());
    }
}
