//! What a rule keeps apart, for changes that CRUSH does not make itself.
//!
//! A rule starts from an item and descends by types: racks, then hosts in them. A copy may go from one OSD to another
//! if both are below the same start, in the same bucket of each type but the last, and no other copy is in the target's
//! bucket of the last type. That refuses some exchanges that a rule would allow (a whole rack for another), and allows
//! none that it forbids.

use crush::{Map, op};
use std::collections::BTreeMap;
use types::OsdId;

/// Most levels of buckets that are walked; maps are shallower.
const DEEPEST: usize = 32;

/// Place of an OSD, as a rule sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Index of the rule's start that it is below.
    pub(crate) take: usize,
    /// The bucket of each type that the rule chooses, outermost first; the OSD itself where it chooses those.
    pub(crate) at: Vec<i32>,
}

/// The places of all OSDs that a rule can reach.
#[derive(Clone, Debug, Default)]
pub(crate) struct Domains {
    places: BTreeMap<OsdId, Place>,
}

/// One descent of a rule: where it starts, and the types that it chooses.
struct Descent {
    top: i32,
    kinds: Vec<i32>,
}

impl Domains {
    /// Those of a rule. OSDs below several of its starts are left out: which of them a copy is for cannot be told.
    pub(crate) fn of(map: &Map, rule: u32) -> Self {
        let mut places = BTreeMap::new();
        let mut twice = Vec::new();
        for (take, descent) in descents(map, rule).iter().enumerate() {
            walk(map, descent.top, &descent.kinds, &mut Vec::new(), &mut |osd, at| {
                if places.insert(osd, Place { take, at }).is_some() {
                    twice.push(osd);
                }
            });
        }
        twice.iter().for_each(|osd| drop(places.remove(osd)));
        Self { places }
    }

    /// Returns where an OSD is; none if the rule does not reach it.
    pub(crate) fn place(&self, osd: OsdId) -> Option<&Place> {
        self.places.get(&osd)
    }

    /// Returns true if a copy of a group that is on these OSDs may go from one of them to another one.
    pub(crate) fn allow(&self, group: &[OsdId], from: OsdId, to: OsdId) -> bool {
        let (Some(a), Some(b)) = (self.places.get(&from), self.places.get(&to)) else { return false };
        let (Some((last, outer)), Some((_, outer_a))) = (b.at.split_last(), a.at.split_last()) else { return false };
        let taken =
            |osd: &OsdId| *osd == to || self.places.get(osd).is_some_and(|p| p.take == b.take && p.at.last() == Some(last));
        a.take == b.take && outer == outer_a && !group.iter().filter(|osd| **osd != from).any(taken)
    }

    /// Returns true if all OSDs of a group are where the rule may put copies, no two in the same bucket of the last
    /// type.
    pub(crate) fn holds(&self, group: &[OsdId]) -> bool {
        let place = |osd: &OsdId| self.places.get(osd).map(|p| (p.take, p.at.last().copied()));
        let places: Vec<_> = group.iter().map(place).collect();
        let apart = |(n, place): (usize, &Option<_>)| place.is_some() && !places.iter().take(n).any(|other| other == place);
        places.iter().enumerate().all(apart)
    }
}

/// The descents of a rule. Types of which it chooses a single bucket below another one keep nothing apart and are left
/// out.
fn descents(map: &Map, rule: u32) -> Vec<Descent> {
    let mut descents: Vec<Descent> = Vec::new();
    for step in map.rule(rule).map_or(&[][..], |r| &r.steps) {
        match step.op {
            op::TAKE => descents.push(Descent { top: step.arg1, kinds: Vec::new() }),
            op::CHOOSE_FIRSTN | op::CHOOSE_INDEP | op::CHOOSELEAF_FIRSTN | op::CHOOSELEAF_INDEP => {
                if let Some(descent) = descents.last_mut().filter(|d| d.kinds.is_empty() || step.arg1 != 1) {
                    descent.kinds.push(step.arg2);
                }
            }
            _ => {}
        }
    }
    descents
}

/// Calls `found` for each OSD below an item that is below a bucket of each type, in this order. `above`: the buckets of
/// the types that were met.
fn walk(map: &Map, item: i32, kinds: &[i32], above: &mut Vec<(usize, i32)>, found: &mut impl FnMut(OsdId, Vec<i32>)) {
    if above.len() > DEEPEST {
        return;
    }
    let kind = if item >= 0 { Some(0) } else { map.kind_of(item) };
    let met = above.last().map_or(0, |(met, _)| *met);
    let here = usize::from(kinds.get(met).copied() == kind);
    above.push((met + here, item));
    if item >= 0 && met + here == kinds.len() {
        let at = (1..=kinds.len()).filter_map(|n| above.iter().find(|(met, _)| *met == n).map(|(_, item)| *item));
        found(item, at.collect());
    }
    for below in map.bucket(item).map_or(&[][..], |b| &b.items) {
        walk(map, *below, kinds, above, found);
    }
    above.pop();
}
