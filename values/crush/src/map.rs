//! The data of a placement map.

use std::collections::BTreeMap;

/// The weight 1.0 in 16.16 fixed point.
pub const ONE: u32 = 0x1_0000;

/// The hole in an erasure-coded set: nothing could be placed at this position (`CRUSH_ITEM_NONE`).
pub const NONE: i32 = 0x7fff_ffff;

/// Everything that placement depends on, with the names that people use. Devices are items from 0 up, buckets are
/// negative: bucket `id` is at index `-1 - id`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Map {
    /// One more than the largest device that may occur.
    pub max_devices: i32,
    /// Buckets; gaps are ids that are free.
    pub buckets: Vec<Option<Bucket>>,
    /// Rules by number; gaps are numbers that are free.
    pub rules: Vec<Option<Rule>>,
    /// Tunables of placement: how hard it tries, and how.
    pub tunables: Tunables,
    /// Names of the types of buckets; 0 is the device's.
    pub types: BTreeMap<i32, String>,
    /// Names of buckets and devices. Shadow buckets are called `NAME~CLASS`.
    pub names: BTreeMap<i32, String>,
    /// Names of rules.
    pub rule_names: BTreeMap<i32, String>,
    /// Class of each device and of each shadow bucket.
    pub device_classes: BTreeMap<i32, i32>,
    /// Names of the classes.
    pub class_names: BTreeMap<i32, String>,
    /// Bucket → class → the shadow bucket that holds only that class.
    pub class_buckets: BTreeMap<i32, BTreeMap<i32, i32>>,
    /// Alternative weights and ids by pool; -1 is for pools without their own.
    pub choose_args: BTreeMap<i64, ChooseArgs>,
}

/// Alternative weights and ids, by bucket index (`-1 - id`).
pub type ChooseArgs = BTreeMap<u32, ChooseArg>;

/// Weights and ids that one bucket uses instead of its own when it draws.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChooseArg {
    /// Weights by position of the replica; positions beyond the last use the last. Empty: the bucket's own.
    pub weight_set: Vec<Vec<u32>>,
    /// Ids that are hashed instead of the items'. Empty: the items'.
    pub ids: Vec<i32>,
}

/// An inner node: a weighted set of devices and buckets.
#[derive(Clone, Debug, PartialEq)]
pub struct Bucket {
    /// Its item number, below 0.
    pub id: i32,
    /// Its type, a key of [`Map::types`], above 0.
    pub kind: u16,
    /// Hash function; only 0 (rjenkins) exists.
    pub hash: u8,
    /// Sum of the items' weights.
    pub weight: u32,
    /// Its items.
    pub items: Vec<i32>,
    /// Weights of the items, in the manner of its algorithm.
    pub contents: Contents,
}

/// Algorithm by which a bucket draws among its items.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Alg {
    /// All alike, drawn by a permutation.
    Uniform = 1,
    /// A chain; cheap to append to.
    List = 2,
    /// A binary tree of weights.
    Tree = 3,
    /// Draws scaled by precomputed straw lengths; superseded.
    Straw = 4,
    /// Draws scaled by the weights themselves: what everybody uses.
    Straw2 = 5,
}

/// The weights of a bucket's items. Per-item vectors are as long as [`Bucket::items`].
#[derive(Clone, Debug, PartialEq)]
pub enum Contents {
    /// One weight for all.
    Uniform {
        /// Weight of each item.
        item_weight: u32,
    },
    /// Weights and their running sums.
    List {
        /// Weight of each item.
        weights: Vec<u32>,
        /// `sums[i]` = weights `0..=i` together.
        sums: Vec<u32>,
    },
    /// Weights of a binary tree's nodes; item `i` is node `2i + 1`.
    Tree {
        /// A power of two of them.
        nodes: Vec<u32>,
    },
    /// Weights and straw lengths.
    Straw {
        /// Weight of each item.
        weights: Vec<u32>,
        /// 16.16 factor of each item's draw.
        straws: Vec<u32>,
    },
    /// Just the weights.
    Straw2 {
        /// Weight of each item.
        weights: Vec<u32>,
    },
}

impl Alg {
    /// From its number on the wire.
    pub fn from_number(n: u8) -> Option<Self> {
        [Self::Uniform, Self::List, Self::Tree, Self::Straw, Self::Straw2].into_iter().find(|a| *a as u8 == n)
    }

    /// `straw2`, ...
    pub fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::List => "list",
            Self::Tree => "tree",
            Self::Straw => "straw",
            Self::Straw2 => "straw2",
        }
    }
}

impl Bucket {
    /// Returns how it draws.
    pub fn alg(&self) -> Alg {
        match self.contents {
            Contents::Uniform { .. } => Alg::Uniform,
            Contents::List { .. } => Alg::List,
            Contents::Tree { .. } => Alg::Tree,
            Contents::Straw { .. } => Alg::Straw,
            Contents::Straw2 { .. } => Alg::Straw2,
        }
    }

    /// Weight of the item at `index`; 0 beyond the end.
    pub fn item_weight(&self, index: usize) -> u32 {
        let at = |weights: &[u32]| weights.get(index).copied().unwrap_or(0);
        match &self.contents {
            Contents::Uniform { item_weight } if index < self.items.len() => *item_weight,
            Contents::Uniform { .. } => 0,
            Contents::List { weights, .. } | Contents::Straw { weights, .. } | Contents::Straw2 { weights } => at(weights),
            Contents::Tree { nodes } => nodes.get(2 * index + 1).copied().unwrap_or(0),
        }
    }

    /// Returns where `item` is.
    pub fn position(&self, item: i32) -> Option<usize> {
        self.items.iter().position(|i| *i == item)
    }
}

/// Tunables of placement. The order of the fields is that of the encoding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tunables {
    /// Retries within a bucket after a collision.
    pub choose_local_tries: u32,
    /// Retries within a bucket by permutation.
    pub choose_local_fallback_tries: u32,
    /// Retries from the top.
    pub choose_total_tries: u32,
    /// True if a failed leaf makes the whole descent start again (else the leaf is retried below the same bucket).
    pub chooseleaf_descend_once: u32,
    /// True if a retry of the parent changes the leaf's draw; values above 1 do it more slowly.
    pub chooseleaf_vary_r: u8,
    /// 0: straws with the historic error; 1: without.
    pub straw_calc_version: u8,
    /// Bits of [`Alg`] that the monitor may choose for new buckets.
    pub allowed_bucket_algs: u32,
    /// True if leaves keep their place when the set before them changes.
    pub chooseleaf_stable: u8,
}

/// A named set of tunables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Profile {
    /// The oldest; also called legacy.
    Argonaut,
    /// Release 0.56.
    Bobtail,
    /// Release 0.80.
    Firefly,
    /// Release 0.94.
    Hammer,
    /// Release 10 and later: optimal and default.
    Jewel,
}

const LEGACY_ALGS: u32 = 1 << Alg::Uniform as u32 | 1 << Alg::List as u32 | 1 << Alg::Straw as u32;
const HAMMER_ALGS: u32 = LEGACY_ALGS | 1 << Alg::Straw2 as u32;

impl Profile {
    /// From its name.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "argonaut" | "legacy" => Self::Argonaut,
            "bobtail" => Self::Bobtail,
            "firefly" => Self::Firefly,
            "hammer" => Self::Hammer,
            "jewel" | "optimal" | "default" => Self::Jewel,
            _ => return None,
        })
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Argonaut => "argonaut",
            Self::Bobtail => "bobtail",
            Self::Firefly => "firefly",
            Self::Hammer => "hammer",
            Self::Jewel => "jewel",
        }
    }
}

impl Tunables {
    /// The values of a profile. `straw_calc_version` is 0 for the oldest and 1 for the others.
    pub fn of(profile: Profile) -> Self {
        let bobtail = Self {
            choose_local_tries: 0,
            choose_local_fallback_tries: 0,
            choose_total_tries: 50,
            chooseleaf_descend_once: 1,
            chooseleaf_vary_r: 0,
            straw_calc_version: 1,
            allowed_bucket_algs: LEGACY_ALGS,
            chooseleaf_stable: 0,
        };
        let firefly = Self { chooseleaf_vary_r: 1, ..bobtail.clone() };
        let hammer = Self { allowed_bucket_algs: HAMMER_ALGS, ..firefly.clone() };
        match profile {
            Profile::Argonaut => Self {
                choose_local_tries: 2,
                choose_local_fallback_tries: 5,
                choose_total_tries: 19,
                chooseleaf_descend_once: 0,
                straw_calc_version: 0,
                ..bobtail
            },
            Profile::Bobtail => bobtail,
            Profile::Firefly => firefly,
            Profile::Hammer => hammer,
            Profile::Jewel => Self { chooseleaf_stable: 1, ..hammer },
        }
    }

    /// Takes over a profile's values, but keeps `straw_calc_version`: changing that moves data for no gain.
    pub fn set_profile(&mut self, profile: Profile) {
        *self = Self { straw_calc_version: self.straw_calc_version, ..Self::of(profile) };
    }

    /// Returns which profile these values are, whatever `straw_calc_version`.
    pub fn profile(&self) -> Option<Profile> {
        let all = [Profile::Jewel, Profile::Hammer, Profile::Firefly, Profile::Bobtail, Profile::Argonaut];
        all.into_iter().find(|p| Self { straw_calc_version: self.straw_calc_version, ..Self::of(*p) } == *self)
    }
}

impl Default for Tunables {
    fn default() -> Self {
        Self::of(Profile::Jewel)
    }
}

/// A walk through the map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// Pools that it is for.
    pub mask: Mask,
    /// Its steps, in order.
    pub steps: Vec<Step>,
}

impl Rule {
    /// Returns true if each device that is met and taken is in the answer: there is one choice, as many as the pool
    /// has copies, and all of it is handed out. Then another device that is taken less often leaves the answers as
    /// they are that it was not in.
    pub fn emits_all_it_takes(&self) -> bool {
        let sets = |op: u32| (op::SET_CHOOSE_TRIES..=op::SET_CHOOSELEAF_STABLE).contains(&op) || op == op::NOOP;
        let mut steps = self.steps.iter().filter(|step| !sets(step.op));
        let take = steps.next().is_some_and(|step| step.op == op::TAKE);
        let firstn = |step: &Step| matches!(step.op, op::CHOOSE_FIRSTN | op::CHOOSELEAF_FIRSTN) && step.arg1 == 0;
        let choose = steps.next().is_some_and(firstn);
        take && choose && steps.next().is_some_and(|step| step.op == op::EMIT) && steps.next().is_none()
    }
}

/// Pools that may use a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mask {
    /// The rule's own number.
    pub ruleset: u8,
    /// 1: replicated pools, 3: erasure-coded ones.
    pub kind: u8,
    /// Smallest pool size.
    pub min_size: u8,
    /// Largest pool size.
    pub max_size: u8,
}
denc::plain!(Mask { ruleset, kind, min_size, max_size });

/// One step of a rule: a code of [`op`] with its arguments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// The work to be done.
    pub op: u32,
    /// The bucket to take, the number to choose, or the value to set.
    pub arg1: i32,
    /// The type to choose.
    pub arg2: i32,
}
denc::plain!(Step { op, arg1, arg2 });

/// Codes of a rule's steps.
pub mod op {
    /// Does nothing.
    pub const NOOP: u32 = 0;
    /// Starts at item arg1.
    pub const TAKE: u32 = 1;
    /// Chooses arg1 items of type arg2, without holes.
    pub const CHOOSE_FIRSTN: u32 = 2;
    /// Chooses arg1 items of type arg2, each at its own position.
    pub const CHOOSE_INDEP: u32 = 3;
    /// Hands out what was chosen.
    pub const EMIT: u32 = 4;
    /// As [`CHOOSE_FIRSTN`], then a device below each.
    pub const CHOOSELEAF_FIRSTN: u32 = 6;
    /// As [`CHOOSE_INDEP`], then a device below each.
    pub const CHOOSELEAF_INDEP: u32 = 7;
    /// Sets the number of descents.
    pub const SET_CHOOSE_TRIES: u32 = 8;
    /// Sets the number of descents for a leaf.
    pub const SET_CHOOSELEAF_TRIES: u32 = 9;
    /// Sets the tunable of that name for this rule.
    pub const SET_CHOOSE_LOCAL_TRIES: u32 = 10;
    /// Sets the tunable of that name for this rule.
    pub const SET_CHOOSE_LOCAL_FALLBACK_TRIES: u32 = 11;
    /// Sets the tunable of that name for this rule.
    pub const SET_CHOOSELEAF_VARY_R: u32 = 12;
    /// Sets the tunable of that name for this rule.
    pub const SET_CHOOSELEAF_STABLE: u32 = 13;
}

impl Map {
    /// A map with nothing but the usual types and the current tunables.
    pub fn new() -> Self {
        let types = ["osd", "host", "chassis", "rack", "row", "pdu", "pod", "room", "datacenter", "zone", "region", "root"];
        let types = types.into_iter().enumerate().map(|(n, name)| (n as i32, name.to_owned())).collect();
        Self { types, ..Self::default() }
    }

    /// The bucket with this id.
    #[inline]
    pub fn bucket(&self, id: i32) -> Option<&Bucket> {
        if id >= 0 {
            return None;
        }
        self.buckets.get(index_of(id))?.as_ref()
    }

    /// The bucket with this id, to change.
    pub fn bucket_mut(&mut self, id: i32) -> Option<&mut Bucket> {
        if id >= 0 {
            return None;
        }
        self.buckets.get_mut(index_of(id))?.as_mut()
    }

    /// The rule with this number.
    pub fn rule(&self, number: u32) -> Option<&Rule> {
        self.rules.get(number as usize)?.as_ref()
    }

    /// The item with this name.
    pub fn id_of(&self, name: &str) -> Option<i32> {
        key_of(&self.names, name)
    }

    /// The name of an item.
    pub fn name_of(&self, item: i32) -> Option<&str> {
        self.names.get(&item).map(String::as_str)
    }

    /// The type with this name.
    pub fn type_id(&self, name: &str) -> Option<i32> {
        key_of(&self.types, name)
    }

    /// The name of a type.
    pub fn type_name(&self, kind: i32) -> Option<&str> {
        self.types.get(&kind).map(String::as_str)
    }

    /// The type of an item: 0 for devices, `None` for buckets that do not exist.
    pub fn kind_of(&self, item: i32) -> Option<i32> {
        if item >= 0 { Some(0) } else { self.bucket(item).map(|b| b.kind.into()) }
    }

    /// The rule with this name.
    pub fn rule_id(&self, name: &str) -> Option<i32> {
        key_of(&self.rule_names, name)
    }

    /// The class with this name.
    pub fn class_id(&self, name: &str) -> Option<i32> {
        key_of(&self.class_names, name)
    }

    /// The name of a device's (or shadow bucket's) class.
    pub fn class_of(&self, item: i32) -> Option<&str> {
        self.class_names.get(self.device_classes.get(&item)?).map(String::as_str)
    }
}

/// Index of bucket `id` (below 0) in [`Map::buckets`].
#[inline]
pub(crate) fn index_of(id: i32) -> usize {
    debug_assert!(id < 0);
    !id as usize
}

fn key_of(names: &BTreeMap<i32, String>, name: &str) -> Option<i32> {
    names.iter().find(|(_, n)| *n == name).map(|(id, _)| *id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_are_recognised_whatever_the_straw_version() {
        for profile in [Profile::Argonaut, Profile::Bobtail, Profile::Firefly, Profile::Hammer, Profile::Jewel] {
            let mut tunables = Tunables::default();
            tunables.set_profile(profile);
            assert_eq!(tunables.profile(), Some(profile));
            assert_eq!(tunables.straw_calc_version, 1);
            assert_eq!(Profile::from_name(profile.name()), Some(profile));
        }
        let odd = Tunables { choose_total_tries: 51, ..Tunables::default() };
        assert_eq!(odd.profile(), None);
    }
}
