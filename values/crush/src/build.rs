//! Making and changing buckets. Functions here keep sums, straws and alternative weights in step; those that are public
//! also rebuild the shadow trees.

use crate::error::{Error, Result};
use crate::map::{Alg, Bucket, ChooseArg, Contents, Map, index_of};
use crate::straw;
use std::collections::BTreeMap;

/// Nodes of a tree bucket are counted by a byte.
const MAX_TREE_ITEMS: usize = 64;

/// As many buckets as there is room for at first; doubled when it runs out.
const FIRST_BUCKETS: usize = 8;

impl Bucket {
    /// A bucket over `items`; `weights` are as many. A uniform bucket takes the first weight for all.
    /// `straw_calc_version` matters for straw buckets only.
    pub fn new(id: i32, kind: u16, alg: Alg, items: Vec<i32>, weights: &[u32], straw_calc_version: u8) -> Result<Self> {
        if id >= 0 || kind == 0 || items.len() != weights.len() {
            return Err(Error::Invalid(format!("bucket {id} of type {kind} is malformed")));
        }
        if alg == Alg::Tree && items.len() > MAX_TREE_ITEMS {
            return Err(Error::Invalid(format!("a tree bucket has at most {MAX_TREE_ITEMS} items")));
        }
        let mut bucket = Self { id, kind, hash: 0, weight: 0, items, contents: Contents::Straw2 { weights: Vec::new() } };
        bucket.set_weights(alg, weights, straw_calc_version);
        Ok(bucket)
    }

    /// Weights of the items, in order.
    pub fn item_weights(&self) -> Vec<u32> {
        (0..self.items.len()).map(|i| self.item_weight(i)).collect()
    }

    fn set_weights(&mut self, alg: Alg, weights: &[u32], straw_calc_version: u8) {
        let weights = weights.to_vec();
        let total = |weights: &[u32]| weights.iter().fold(0u32, |sum, w| sum.saturating_add(*w));
        self.weight = total(&weights);
        self.contents = match alg {
            Alg::Uniform => {
                let item_weight = weights.first().copied().unwrap_or(0);
                self.weight = item_weight.saturating_mul(weights.len() as u32);
                Contents::Uniform { item_weight }
            }
            Alg::List => Contents::List { sums: (1..=weights.len()).map(|n| total(&weights[..n])).collect(), weights },
            Alg::Tree => Contents::Tree { nodes: tree_nodes(&weights) },
            Alg::Straw => Contents::Straw { straws: straw::lengths(&weights, straw_calc_version), weights },
            Alg::Straw2 => Contents::Straw2 { weights },
        };
    }
}

/// A binary tree over the weights: item i is node 2i + 1, and the node in the middle of a power of two of them is the
/// root. Inner nodes sum up their children.
fn tree_nodes(weights: &[u32]) -> Vec<u32> {
    if weights.is_empty() {
        return Vec::new();
    }
    let mut nodes = vec![0u32; 2 * weights.len().next_power_of_two()];
    for (i, weight) in weights.iter().enumerate() {
        nodes[2 * i + 1] = *weight;
    }
    let mut half = 1;
    while 2 * half < nodes.len() {
        for n in (2 * half..nodes.len()).step_by(4 * half) {
            nodes[n] = nodes[n - half].saturating_add(nodes[n + half]);
        }
        half *= 2;
    }
    nodes
}

impl Map {
    /// Adds an empty bucket called `name`; its id is the first that is free.
    pub fn add_bucket(&mut self, kind: i32, name: &str, alg: Alg) -> Result<i32> {
        self.check_new_name(name)?;
        let kind = u16::try_from(kind).ok().filter(|k| *k > 0 && self.types.contains_key(&i32::from(*k)));
        let kind = kind.ok_or_else(|| Error::NotFound("this type of bucket".into()))?;
        let id = self.free_bucket_id(&[]);
        self.put_bucket(Bucket::new(id, kind, alg, Vec::new(), &[], self.tunables.straw_calc_version)?);
        self.names.insert(id, name.to_owned());
        for args in self.choose_args.values_mut() {
            // Alternative weights are kept for all buckets or none.
            let positions = args.values().map(|a| a.weight_set.len()).find(|n| *n > 0).unwrap_or(1);
            let arg = ChooseArg { weight_set: vec![Vec::new(); positions], ids: Vec::new() };
            args.insert(index_of(id) as u32, arg);
        }
        Ok(id)
    }

    /// Refuses names that are taken or that no item may have: letters, digits and `-_.` only.
    pub fn check_new_name(&self, name: &str) -> Result<()> {
        if self.id_of(name).is_some() {
            return Err(Error::Exists(format!("bucket or device '{name}'")));
        }
        check_name(name)
    }

    /// Gives a bucket another name.
    pub fn rename_bucket(&mut self, from: &str, to: &str) -> Result<()> {
        let id = self.id_of(from).filter(|id| *id < 0).ok_or_else(|| Error::NotFound(format!("bucket '{from}'")))?;
        self.check_new_name(to)?;
        self.names.insert(id, to.to_owned());
        self.rebuild_shadow_trees();
        Ok(())
    }

    /// The algorithm for new buckets: the newest that the tunables allow.
    pub fn default_alg(&self) -> Alg {
        let order = [Alg::Straw2, Alg::Straw, Alg::Tree, Alg::List, Alg::Uniform];
        order.into_iter().find(|a| self.tunables.allowed_bucket_algs >> *a as u32 & 1 != 0).unwrap_or(Alg::Straw2)
    }

    /// The first id that neither a bucket nor `reserved` has.
    pub(crate) fn free_bucket_id(&self, reserved: &[i32]) -> i32 {
        let free = |id: &i32| self.bucket(*id).is_none() && !reserved.contains(id);
        (i32::MIN..0).rev().find(free).expect("fewer buckets than numbers")
    }

    pub(crate) fn put_bucket(&mut self, bucket: Bucket) {
        let index = index_of(bucket.id);
        if index >= self.buckets.len() {
            let room = (index + 1).next_power_of_two().max(FIRST_BUCKETS);
            self.buckets.resize_with(room, || None);
        }
        self.buckets[index] = Some(bucket);
    }

    /// Buckets (not shadows) that contain `item`.
    pub fn parents(&self, item: i32) -> Vec<i32> {
        let all = self.buckets.iter().flatten().filter(|b| b.items.contains(&item));
        all.map(|b| b.id).filter(|id| !self.is_shadow(*id)).collect()
    }

    /// Rewrites a bucket's items and weights by `change`.
    fn edit(&mut self, id: i32, change: impl FnOnce(&mut Vec<i32>, &mut Vec<u32>)) -> Result<()> {
        let version = self.tunables.straw_calc_version;
        let bucket = self.bucket_mut(id).ok_or_else(|| Error::NotFound(format!("bucket {id}")))?;
        let (mut items, mut weights) = (bucket.items.clone(), bucket.item_weights());
        change(&mut items, &mut weights);
        *bucket = Bucket::new(id, bucket.kind, bucket.alg(), items, &weights, version)?;
        Ok(())
    }

    /// Appends an item to a bucket; the buckets above learn the new weight.
    pub(crate) fn append(&mut self, id: i32, item: i32, weight: u32) -> Result<()> {
        self.edit(id, |items, weights| {
            items.push(item);
            weights.push(weight);
        })?;
        for arg in self.choose_args.values_mut().filter_map(|args| args.get_mut(&(index_of(id) as u32))) {
            arg.weight_set.iter_mut().for_each(|set| set.push(weight));
            if !arg.ids.is_empty() {
                arg.ids.push(item);
            }
        }
        self.tell_parents(id, true)
    }

    /// Takes an item out of a bucket; the buckets above learn the new weight.
    pub(crate) fn take_out(&mut self, id: i32, item: i32) -> Result<()> {
        let at = self.bucket(id).and_then(|b| b.position(item));
        let at = at.ok_or_else(|| Error::NotFound(format!("item {item} in bucket {id}")))?;
        self.edit(id, |items, weights| {
            items.remove(at);
            weights.remove(at);
        })?;
        for arg in self.choose_args.values_mut().filter_map(|args| args.get_mut(&(index_of(id) as u32))) {
            arg.weight_set.iter_mut().for_each(|set| {
                set.remove(at);
            });
            if !arg.ids.is_empty() {
                arg.ids.remove(at);
            }
        }
        self.tell_parents(id, true)
    }

    /// Sets an item's weight in one bucket, and in its alternative weights if `sets`; the buckets above learn it.
    pub(crate) fn set_weight_in(&mut self, id: i32, item: i32, weight: u32, sets: bool) -> Result<()> {
        let at = self.bucket(id).and_then(|b| b.position(item));
        let at = at.ok_or_else(|| Error::NotFound(format!("item {item} in bucket {id}")))?;
        let uniform = self.bucket(id).is_some_and(|b| b.alg() == Alg::Uniform);
        self.edit(id, |_, weights| {
            if uniform {
                weights.fill(weight);
            } else {
                weights[at] = weight;
            }
        })?;
        if sets {
            for arg in self.choose_args.values_mut().filter_map(|args| args.get_mut(&(index_of(id) as u32))) {
                arg.weight_set.iter_mut().for_each(|set| set[at] = weight);
            }
        }
        self.tell_parents(id, sets)
    }

    /// The buckets above `id` take over its weight.
    fn tell_parents(&mut self, id: i32, sets: bool) -> Result<()> {
        let weight = self.bucket(id).map_or(0, |b| b.weight);
        self.parents(id).into_iter().try_for_each(|parent| self.set_weight_in(parent, id, weight, sets))
    }

    /// Sets an item's weight wherever it is. Returns in how many buckets it was.
    pub fn adjust_item_weight(&mut self, item: i32, weight: u32) -> Result<usize> {
        let parents = self.parents(item);
        parents.iter().try_for_each(|parent| self.set_weight_in(*parent, item, weight, true))?;
        self.rebuild_shadow_trees();
        Ok(parents.len())
    }

    /// Sets the weight of every device below `id`. Returns how many there were.
    pub fn adjust_subtree_weight(&mut self, id: i32, weight: u32) -> Result<usize> {
        let mut changed = 0;
        for bucket in self.buckets_under(id) {
            let devices: Vec<i32> = self.bucket(bucket).map_or(Vec::new(), |b| b.items.clone());
            for device in devices.into_iter().filter(|i| *i >= 0) {
                self.set_weight_in(bucket, device, weight, true)?;
                changed += 1;
            }
        }
        self.rebuild_shadow_trees();
        Ok(changed)
    }

    /// Computes the weights of all buckets anew from those of the devices.
    pub fn reweight(&mut self) -> Result<()> {
        let mut done = BTreeMap::new();
        for root in self.roots(false) {
            self.reweight_bucket(root, &mut done)?;
        }
        self.rebuild_shadow_trees();
        Ok(())
    }

    fn reweight_bucket(&mut self, id: i32, done: &mut BTreeMap<i32, u32>) -> Result<u32> {
        if let Some(weight) = done.get(&id) {
            return Ok(*weight);
        }
        let items = self.bucket(id).map_or(Vec::new(), |b| b.items.clone());
        let mut weights = self.bucket(id).map_or(Vec::new(), Bucket::item_weights);
        for (item, weight) in items.iter().zip(&mut weights).filter(|(item, _)| **item < 0) {
            *weight = self.reweight_bucket(*item, done)?;
        }
        self.edit(id, |_, old| *old = weights)?;
        let weight = self.bucket(id).map_or(0, |b| b.weight);
        done.insert(id, weight);
        Ok(weight)
    }

    /// Forgets a bucket and everything said about it. It must not be in another one.
    pub(crate) fn drop_bucket(&mut self, id: i32) {
        self.buckets[index_of(id)] = None;
        self.names.remove(&id);
        self.device_classes.remove(&id);
        self.class_buckets.remove(&id);
        self.choose_args.values_mut().for_each(|args| drop(args.remove(&(index_of(id) as u32))));
    }
}

/// Refuses what no bucket, class or rule may be called.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || !name.chars().all(plain) {
        return Err(Error::Invalid(format!("the name '{name}' has other characters than letters, digits and -_.")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_sums_up_to_its_root() {
        assert_eq!(tree_nodes(&[5]), [0, 5]);
        assert_eq!(tree_nodes(&[1, 2, 4]), [0, 1, 3, 2, 7, 4, 4, 0]);
    }

    #[test]
    fn names_and_ids_are_checked() {
        let mut map = Map::new();
        assert_eq!(map.add_bucket(11, "default", Alg::Straw2), Ok(-1));
        assert!(matches!(map.add_bucket(11, "default", Alg::Straw2), Err(Error::Exists(_))));
        assert!(matches!(map.add_bucket(11, "a~b", Alg::Straw2), Err(Error::Invalid(_))));
        assert!(matches!(map.add_bucket(0, "osd", Alg::Straw2), Err(Error::NotFound(_))));
        assert_eq!(map.buckets.len(), 8);
    }
}
