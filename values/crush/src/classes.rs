//! Device classes. For each root and class there is a shadow tree, `NAME~CLASS`, that holds only the devices of that
//! class; rules for a class start there. Shadow trees are made anew after every change of the map, and their buckets
//! keep their ids, because the ids are part of every draw.

use crate::build::check_name;
use crate::error::{Error, Result};
use crate::map::{Bucket, ChooseArg, Map, index_of};
use std::collections::BTreeMap;

type ClassBuckets = BTreeMap<i32, BTreeMap<i32, i32>>;

/// Alternative weights of finished shadow buckets: (pool, shadow) → weight by position.
type ShadowWeights = BTreeMap<(i64, i32), Vec<u32>>;

impl Map {
    /// Returns true if a bucket belongs to a shadow tree.
    pub fn is_shadow(&self, id: i32) -> bool {
        id < 0 && self.names.get(&id).is_some_and(|n| n.contains('~'))
    }

    /// Name of the original and class of a shadow bucket.
    pub fn split_shadow(&self, id: i32) -> Option<(i32, i32)> {
        let of = |(original, shadows): (&i32, &BTreeMap<i32, i32>)| {
            shadows.iter().find(|(_, shadow)| **shadow == id).map(|(class, _)| (*original, *class))
        };
        self.class_buckets.iter().find_map(of)
    }

    /// Puts a device into a class, which is made if it does not exist. A device that has another class keeps it, and
    /// the call is refused.
    pub fn set_device_class(&mut self, device: i32, class: &str) -> Result<()> {
        check_name(class)?;
        if device < 0 || device >= self.max_devices {
            return Err(Error::NotFound(format!("device {device}")));
        }
        if let Some(old) = self.class_of(device).filter(|old| *old != class) {
            return Err(Error::Busy(format!("osd.{device} has class '{old}' already, which")));
        }
        let id = self.class_id(class).unwrap_or_else(|| {
            let free = (0..).find(|id| !self.class_names.contains_key(id)).expect("fewer classes than numbers");
            self.class_names.insert(free, class.to_owned());
            free
        });
        self.device_classes.insert(device, id);
        self.rebuild_shadow_trees();
        Ok(())
    }

    /// Takes a device out of its class. Returns whether it had one.
    pub fn remove_device_class(&mut self, device: i32) -> bool {
        let had = device >= 0 && self.device_classes.remove(&device).is_some();
        if had {
            self.rebuild_shadow_trees();
        }
        had
    }

    /// Gives a class another name.
    pub fn rename_class(&mut self, from: &str, to: &str) -> Result<()> {
        check_name(to)?;
        let id = self.class_id(from).ok_or_else(|| Error::NotFound(format!("class '{from}'")))?;
        if self.class_id(to).is_some() {
            return Err(Error::Exists(format!("class '{to}'")));
        }
        self.class_names.insert(id, to.to_owned());
        self.rebuild_shadow_trees();
        Ok(())
    }

    /// Devices of a class.
    pub fn devices_of_class(&self, class: i32) -> Vec<i32> {
        self.device_classes.iter().filter(|(item, c)| **item >= 0 && **c == class).map(|(item, _)| *item).collect()
    }

    /// Makes the shadow trees anew. The functions of this crate do that themselves; it is for those who edit fields.
    pub fn rebuild_shadow_trees(&mut self) {
        let old = self.class_buckets.clone();
        self.drop_unused_classes();
        self.remove_shadow_trees();
        if self.class_names.is_empty() {
            return;
        }
        let reserved: Vec<i32> = old.values().flat_map(|s| s.values().copied()).collect();
        let classes: Vec<i32> = self.class_names.keys().copied().collect();
        let mut weights = ShadowWeights::new();
        for root in self.roots(false) {
            for class in &classes {
                self.shadow(root, *class, &old, &reserved, &mut weights);
            }
        }
    }

    /// Removes classes without devices that no rule uses.
    fn drop_unused_classes(&mut self) {
        let used_by_rule = |map: &Self, class: i32| {
            let shadows: Vec<i32> = map.class_buckets.values().filter_map(|s| s.get(&class).copied()).collect();
            (0..map.rules.len()).flat_map(|n| map.rule_takes(n as u32)).any(|take| shadows.contains(&take))
        };
        let unused = |class: &i32| self.devices_of_class(*class).is_empty() && !used_by_rule(self, *class);
        let unused: Vec<i32> = self.class_names.keys().copied().filter(unused).collect();
        self.class_names.retain(|class, _| !unused.contains(class));
    }

    /// Removes all shadow trees.
    fn remove_shadow_trees(&mut self) {
        let shadows: Vec<i32> = self.buckets.iter().flatten().map(|b| b.id).filter(|id| self.is_shadow(*id)).collect();
        shadows.into_iter().for_each(|id| self.drop_bucket(id));
        self.class_buckets.clear();
    }

    /// Makes the shadow of bucket `id` and of all below it, and returns its id.
    fn shadow(&mut self, id: i32, class: i32, old: &ClassBuckets, reserved: &[i32], weights: &mut ShadowWeights) -> i32 {
        if let Some(done) = self.class_buckets.get(&id).and_then(|s| s.get(&class)) {
            return *done;
        }
        let original = self.bucket(id).expect("a root, or checked below").clone();
        let (mut items, mut item_weights, mut positions) = (Vec::new(), Vec::new(), Vec::new());
        for (position, item) in original.items.iter().enumerate() {
            if *item >= 0 && self.device_classes.get(item) == Some(&class) {
                items.push(*item);
                item_weights.push(original.item_weight(position));
                positions.push(position);
            } else if self.bucket(*item).is_some() {
                let below = self.shadow(*item, class, old, reserved, weights);
                items.push(below);
                item_weights.push(self.bucket(below).map_or(0, |b| b.weight));
                positions.push(position);
            }
        }
        let known = old.get(&id).and_then(|shadows| shadows.get(&class)).copied();
        let free = |id: &i32| *id < 0 && self.buckets.get(index_of(*id)).is_some_and(Option::is_none);
        let shadow_id = known.filter(free).unwrap_or_else(|| self.free_bucket_id(reserved));
        let version = self.tunables.straw_calc_version;
        let bucket = Bucket::new(shadow_id, original.kind, original.alg(), items, &item_weights, version);
        let bucket = bucket.expect("a part of a sound bucket is sound");
        self.shadow_choose_args(&original, &bucket, &positions, weights);
        self.put_bucket(bucket);
        let name = format!("{}~{}", self.name_of(id).unwrap_or_default(), self.class_names[&class]);
        self.names.insert(shadow_id, name);
        self.device_classes.insert(shadow_id, class);
        self.class_buckets.entry(id).or_default().insert(class, shadow_id);
        shadow_id
    }

    /// Alternative weights of a shadow: those of the original, as far as its items are in the shadow.
    fn shadow_choose_args(&mut self, original: &Bucket, shadow: &Bucket, positions: &[usize], sums: &mut ShadowWeights) {
        for (pool, args) in &mut self.choose_args {
            let Some(arg) = args.get(&(index_of(original.id) as u32)).filter(|a| !a.weight_set.is_empty()) else { continue };
            let weight_of = |set: &[u32], n: usize, item: i32, position: usize| match sums.get(&(*pool, item)) {
                Some(by_position) => by_position.get(n).or(by_position.last()).copied().unwrap_or(0),
                None if item >= 0 => set[position],
                None => shadow.item_weight(shadow.position(item).unwrap_or(usize::MAX)),
            };
            let sets = arg.weight_set.iter().enumerate();
            let weight_set: Vec<Vec<u32>> = sets
                .map(|(n, set)| shadow.items.iter().zip(positions).map(|(i, p)| weight_of(set, n, *i, *p)).collect())
                .collect();
            let total = |set: &Vec<u32>| set.iter().fold(0u32, |sum, w| sum.saturating_add(*w));
            sums.insert((*pool, shadow.id), weight_set.iter().map(total).collect());
            args.insert(index_of(shadow.id) as u32, ChooseArg { weight_set, ids: Vec::new() });
        }
    }
}
