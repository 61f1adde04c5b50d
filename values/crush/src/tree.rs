//! Walks over the whole forest.

use crate::map::{Map, ONE};
use std::collections::{BTreeMap, BTreeSet};

/// Levels of buckets that are accepted; there are no more than eleven types of them by default.
const MAX_DEPTH: usize = 32;

/// Lines of a tree: more come only from maps in which buckets have many parents each.
const MAX_LINES: usize = 1 << 20;

/// Returns true if no bucket contains itself, and no descent is deeper than recursion should go.
pub(crate) fn is_shallow(map: &Map) -> bool {
    #[derive(Clone, Copy, PartialEq)]
    enum Seen {
        No,
        /// Something below it is being looked at: to meet it again is a cycle.
        Open,
        /// All below it was looked at.
        Done {
            levels: usize,
        },
    }
    let mut seen = vec![Seen::No; map.buckets.len()];
    for root in 0..map.buckets.len() {
        // Depth-first; the stack is explicit because a forged map may be as deep as it is large.
        let mut stack = vec![(root, 0usize, 1)];
        while let Some((index, next, mut levels)) = stack.pop() {
            if next == 0 && seen[index] != Seen::No {
                continue;
            }
            seen[index] = Seen::Open;
            let items = map.buckets[index].as_ref().map_or(&[][..], |b| &b.items);
            let mut open = None;
            for (at, item) in items.iter().enumerate().skip(next.saturating_sub(1)).filter(|(_, i)| map.bucket(**i).is_some()) {
                match seen[!*item as usize] {
                    Seen::Open => return false,
                    Seen::Done { levels: below } => levels = levels.max(below + 1),
                    Seen::No => {
                        open = Some((at, !*item as usize));
                        break;
                    }
                }
            }
            match open {
                // To be continued with the same item when that is done. 0 stands for a first visit.
                Some((at, child)) => stack.extend([(index, at + 1, levels), (child, 0, 1)]),
                None => seen[index] = Seen::Done { levels },
            }
            if levels > MAX_DEPTH {
                return false;
            }
        }
    }
    true
}

/// A line of the tree as people see it.
#[derive(Clone, Debug, PartialEq)]
pub struct TreeNode {
    /// The bucket or device.
    pub id: i32,
    /// The bucket that it is in; `None` for roots.
    pub parent: Option<i32>,
    /// Levels above it.
    pub depth: usize,
    /// Its weight in its parent; a root's own.
    pub weight: u32,
    /// Items directly below, in the order in which Ceph lists children.
    pub children: Vec<i32>,
}

impl Map {
    /// Buckets that no bucket contains, by ascending id; shadow trees only if asked for.
    pub fn roots(&self, shadow: bool) -> Vec<i32> {
        let inner: BTreeSet<i32> = self.buckets.iter().flatten().flat_map(|b| b.items.iter().copied()).collect();
        let outer = self.buckets.iter().flatten().map(|b| b.id).filter(|id| !inner.contains(id));
        let mut roots: Vec<i32> = outer.filter(|id| shadow || !self.is_shadow(*id)).collect();
        roots.sort_unstable();
        roots
    }

    /// The forest, each node before what is below it, in the order of Ceph's `osd tree`: by class and number, buckets
    /// by name.
    pub fn tree(&self, shadow: bool) -> Vec<TreeNode> {
        let mut nodes = Vec::new();
        for root in self.roots(shadow) {
            let weight = self.bucket(root).map_or(0, |b| b.weight);
            self.walk(root, None, 0, weight, &mut nodes);
        }
        nodes
    }

    fn walk(&self, id: i32, parent: Option<i32>, depth: usize, weight: u32, nodes: &mut Vec<TreeNode>) {
        if nodes.len() >= MAX_LINES {
            return;
        }
        let mut below: Vec<(String, i32, u32)> = self.bucket(id).map_or(Vec::new(), |b| {
            let items = b.items.iter().zip(b.item_weights());
            items.map(|(item, weight)| (self.sort_key(*item), *item, weight)).collect()
        });
        below.sort();
        let children = below.iter().rev().map(|(_, item, _)| *item).collect();
        nodes.push(TreeNode { id, parent, depth, weight, children });
        for (_, item, weight) in below {
            self.walk(item, Some(id), depth + 1, weight, nodes);
        }
    }

    fn sort_key(&self, item: i32) -> String {
        if item >= 0 {
            format!("{}_osd.{item:08}", self.class_of(item).unwrap_or_default())
        } else {
            format!("_{}", self.name_of(item).unwrap_or_default())
        }
    }

    /// `id` and all buckets below it, each before what is below it.
    pub fn buckets_under(&self, id: i32) -> Vec<i32> {
        let (mut found, mut next) = (Vec::new(), vec![id]);
        while let Some(id) = next.pop() {
            if let Some(bucket) = self.bucket(id).filter(|_| !found.contains(&id)) {
                found.push(id);
                next.extend(bucket.items.iter().filter(|i| **i < 0));
            }
        }
        found
    }

    /// Devices below `id` (or `id` itself), ascending.
    pub fn devices_under(&self, id: i32) -> BTreeSet<i32> {
        if id >= 0 {
            return BTreeSet::from([id]);
        }
        let items = self.buckets_under(id).into_iter().filter_map(|id| self.bucket(id)).flat_map(|b| b.items.iter().copied());
        items.filter(|i| *i >= 0).collect()
    }

    /// Returns true if `item` is `top` or below it.
    pub fn is_under(&self, item: i32, top: i32) -> bool {
        item == top
            || self
                .buckets_under(top)
                .into_iter()
                .any(|id| id == item || self.bucket(id).is_some_and(|b| b.items.contains(&item)))
    }

    /// Names of the buckets above an item, from its parent to the root: (type, name). Of several places the first.
    pub fn full_location(&self, item: i32) -> Vec<(String, String)> {
        let (mut place, mut at) = (Vec::new(), item);
        while let Some(parent) = self.parents(at).first().copied().filter(|_| place.len() < self.buckets.len()) {
            let kind = self.kind_of(parent).and_then(|k| self.type_name(k)).unwrap_or_default();
            place.push((kind.to_owned(), self.name_of(parent).unwrap_or_default().to_owned()));
            at = parent;
        }
        place
    }

    /// The bucket of type `kind` above an item.
    pub fn ancestor_of_kind(&self, item: i32, kind: i32) -> Option<i32> {
        let mut at = item;
        for _ in 0..=self.buckets.len() {
            if self.kind_of(at) == Some(kind) {
                return Some(at);
            }
            at = *self.parents(at).first()?;
        }
        None
    }

    /// The share of a pool's data that each device gets by a rule; the shares of each "take" add up to 1.
    pub fn rule_weights(&self, rule: u32) -> BTreeMap<i32, f64> {
        let mut shares = BTreeMap::new();
        for top in self.rule_takes(rule) {
            let mut weights = BTreeMap::new();
            if top >= 0 {
                weights.insert(top, 1.0);
            }
            for bucket in self.buckets_under(top).into_iter().filter_map(|id| self.bucket(id)) {
                let devices = bucket.items.iter().zip(bucket.item_weights()).filter(|(i, _)| **i >= 0);
                weights.extend(devices.map(|(i, w)| (*i, f64::from(w) / f64::from(ONE))));
            }
            let sum: f64 = weights.values().sum();
            for (device, weight) in weights.into_iter().filter(|_| sum > 0.0) {
                *shares.entry(device).or_insert(0.0) += weight / sum;
            }
        }
        shares
    }
}
