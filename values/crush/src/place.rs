//! Running a rule.

use crate::choose::{choose, permuted};
use crate::hash::hash2;
use crate::map::{Alg, Bucket, ChooseArgs, Map, NONE, ONE, Step, op};

/// Not decided yet: never leaves this module.
const UNDECIDED: i32 = 0x7fff_fffe;

/// Most descents and retries that a rule or the tunables may ask for: bounds what a forged map can cost.
const MAX_TRIES: u32 = 10_000;

/// Inputs of a draw besides its bucket.
struct Context<'a> {
    map: &'a Map,
    weights: &'a [u32],
    args: Option<&'a ChooseArgs>,
    x: u32,
    /// Items among which this placement may still draw.
    fuel: u32,
}

/// Values of the tunables, as the rule changed them.
#[derive(Clone, Copy)]
struct Knobs {
    tries: u32,
    leaf_tries: u32,
    local_retries: u32,
    local_fallback_retries: u32,
    vary_r: u32,
    stable: bool,
    descend_once: bool,
}

/// One "choose" of a rule below one bucket.
#[derive(Clone, Copy)]
struct Choice {
    numrep: u32,
    kind: i32,
    tries: u32,
    leaf_tries: u32,
    to_leaf: bool,
    parent_r: u32,
}

/// End of a descent.
enum Fall {
    /// At an item of the wanted type.
    Landed(i32),
    /// In an empty bucket: try again.
    Empty,
    /// Nowhere: this position cannot be filled.
    Lost,
}

/// Items among which one placement may draw, over all its draws: far more than any sane map needs, few enough to bound
/// a forged one.
const FUEL: u32 = 1 << 22;

impl Map {
    /// Runs rule `rule` for input `x`: at most `numrep` devices. In rules that choose "indep" the positions count and
    /// [`NONE`] marks those that could not be filled. A rule that does not exist places nothing.
    ///
    /// `weights` are the 16.16 fractions that devices keep (0: none; devices beyond the end: none). `choose_args`
    /// names the set of alternative weights: the pool's, else that of pool -1, else none; `None` ignores all sets.
    pub fn place(&self, rule: u32, x: u32, numrep: usize, weights: &[u32], choose_args: Option<i64>) -> Vec<i32> {
        let mut placed = Vec::with_capacity(numrep);
        let Some(rule) = self.rule(rule) else { return placed };
        let args = choose_args.and_then(|pool| self.choose_args.get(&pool).or_else(|| self.choose_args.get(&-1)));
        let mut cx = Context { map: self, weights, args, x, fuel: FUEL };
        let mut knobs = Knobs::of(self);
        let mut walk = Walk { taken: Vec::with_capacity(numrep.max(1)), chosen: vec![0; numrep], leaves: vec![0; numrep] };
        for step in &rule.steps {
            match step.op {
                op::TAKE => walk.take(self, step.arg1),
                op::CHOOSE_FIRSTN | op::CHOOSELEAF_FIRSTN | op::CHOOSE_INDEP | op::CHOOSELEAF_INDEP => {
                    walk.choose(&mut cx, &knobs, step);
                }
                op::EMIT => {
                    let room = numrep - placed.len();
                    placed.extend(walk.taken.drain(..).take(room));
                }
                _ => knobs.set(step),
            }
        }
        placed
    }
}

impl Knobs {
    fn of(map: &Map) -> Self {
        let t = &map.tunables;
        Self {
            // The tunable counts retries.
            tries: t.choose_total_tries.saturating_add(1).min(MAX_TRIES),
            leaf_tries: 0,
            local_retries: t.choose_local_tries,
            local_fallback_retries: t.choose_local_fallback_tries,
            vary_r: t.chooseleaf_vary_r.into(),
            stable: t.chooseleaf_stable != 0,
            descend_once: t.chooseleaf_descend_once != 0,
        }
    }

    /// Takes over what a "set" step says; negative values, and 0 tries, leave things as they are.
    fn set(&mut self, step: &Step) {
        let Ok(value) = u32::try_from(step.arg1) else { return };
        match step.op {
            op::SET_CHOOSE_TRIES if value > 0 => self.tries = value.min(MAX_TRIES),
            op::SET_CHOOSELEAF_TRIES if value > 0 => self.leaf_tries = value.min(MAX_TRIES),
            op::SET_CHOOSE_LOCAL_TRIES => self.local_retries = value,
            op::SET_CHOOSE_LOCAL_FALLBACK_TRIES => self.local_fallback_retries = value,
            op::SET_CHOOSELEAF_VARY_R => self.vary_r = value,
            op::SET_CHOOSELEAF_STABLE => self.stable = value != 0,
            _ => {}
        }
    }
}

/// The items that a rule has in hand, and room for those that it chooses next.
struct Walk {
    taken: Vec<i32>,
    chosen: Vec<i32>,
    leaves: Vec<i32>,
}

impl Walk {
    fn take(&mut self, map: &Map, item: i32) {
        if (0..map.max_devices).contains(&item) || map.bucket(item).is_some() {
            self.taken.clear();
            self.taken.push(item);
        }
    }

    /// Replaces what is in hand by what is chosen below each of it.
    fn choose(&mut self, cx: &mut Context<'_>, knobs: &Knobs, step: &Step) {
        let room = self.chosen.len();
        let to_leaf = matches!(step.op, op::CHOOSELEAF_FIRSTN | op::CHOOSELEAF_INDEP);
        let firstn = matches!(step.op, op::CHOOSE_FIRSTN | op::CHOOSELEAF_FIRSTN);
        // A count of 0 or less is meant relative to the number wanted in all.
        let wanted = if step.arg1 > 0 { i64::from(step.arg1) } else { i64::from(step.arg1) + room as i64 };
        let mut done = 0;
        for item in self.taken.iter().copied().filter(|_| wanted > 0) {
            let Some(top) = cx.map.bucket(item) else { continue };
            let leaf_tries = match knobs.leaf_tries {
                0 if !firstn || knobs.descend_once => 1,
                0 => knobs.tries,
                n => n,
            };
            let numrep = wanted as u32;
            let choice = Choice { numrep, kind: step.arg2, tries: knobs.tries, leaf_tries, to_leaf, parent_r: 0 };
            let (out, leaves) = (&mut self.chosen[done..], &mut self.leaves[done..]);
            done += if firstn {
                cx.firstn(knobs, top, choice, out, 0, room - done, Some(leaves))
            } else {
                let n = (room - done).min(wanted as usize);
                cx.indep(top, choice, out, 0, n, Some(leaves));
                n
            };
        }
        self.taken.clear();
        self.taken.extend_from_slice(if to_leaf { &self.leaves[..done] } else { &self.chosen[..done] });
    }
}

impl<'a> Context<'a> {
    /// Returns true if a device declines this input, by its weight.
    fn is_out(&self, device: i32) -> bool {
        match self.weights.get(device as usize) {
            None | Some(0) => true,
            Some(w) => *w < ONE && hash2(self.x, device as u32) & 0xffff >= *w,
        }
    }

    fn draw(&self, b: &Bucket, r: u32, position: usize) -> Option<i32> {
        let arg = self.args.and_then(|args| args.get(&(!b.id as u32)));
        choose(b, self.x, r, arg, position)
    }

    /// Draws from `within` downwards until an item of type `kind` comes; `within` ends as the bucket that had it.
    /// `attempt` gives the attempt number for each bucket on the way; `permute` whether it is asked by permutation.
    #[inline]
    fn fall(
        &mut self,
        within: &mut &'a Bucket,
        kind: i32,
        position: usize,
        attempt: impl Fn(&Bucket) -> u32,
        permute: impl Fn(&Bucket) -> bool,
    ) -> Fall {
        // A decoded map has no cycles; an edited one is stopped when its fuel ends.
        loop {
            let b = *within;
            // An empty bucket costs something, too: else a map with large numbers of retries is asked for ever.
            self.fuel = self.fuel.saturating_sub(1 + b.items.len() as u32);
            if self.fuel == 0 {
                return Fall::Lost;
            }
            if b.items.is_empty() {
                return Fall::Empty;
            }
            let r = attempt(b);
            let drawn = if permute(b) { permuted(b, self.x, r) } else { self.draw(b, r, position) };
            let Some(item) = drawn else { return Fall::Lost };
            if item >= 0 {
                let wanted = kind == 0 && item < self.map.max_devices;
                return if wanted { Fall::Landed(item) } else { Fall::Lost };
            }
            let Some(next) = self.map.bucket(item) else { return Fall::Lost };
            if i32::from(next.kind) == kind {
                return Fall::Landed(item);
            }
            *within = next;
        }
    }

    /// Fills `out[start..]` with up to `room` different items without leaving holes, and `leaves` with a device below
    /// each. Returns where it stopped.
    #[allow(clippy::too_many_arguments)]
    fn firstn(
        &mut self,
        knobs: &Knobs,
        top: &'a Bucket,
        c: Choice,
        out: &mut [i32],
        start: usize,
        room: usize,
        mut leaves: Option<&mut [i32]>,
    ) -> usize {
        let (mut filled, end) = (start, start + room);
        let first = if knobs.stable { 0 } else { start as u32 };
        for rep in first..c.numrep {
            if filled == end || self.fuel == 0 {
                break;
            }
            let found = self.find(knobs, top, c, rep, &out[..filled], end - filled, leaves.as_deref_mut());
            if let Some(item) = found {
                out[filled] = item;
                filled += 1;
            }
        }
        filled
    }

    /// An item that is not among `taken`, for replica `rep`; its device goes to `leaves[taken.len()]`.
    #[allow(clippy::too_many_arguments)]
    fn find(
        &mut self,
        knobs: &Knobs,
        top: &'a Bucket,
        c: Choice,
        rep: u32,
        taken: &[i32],
        room: usize,
        mut leaves: Option<&mut [i32]>,
    ) -> Option<i32> {
        let (position, fallback) = (taken.len(), knobs.local_fallback_retries);
        let mut failures = 0u32;
        let (mut within, mut local) = (top, 0u32);
        loop {
            let r = rep.wrapping_add(c.parent_r).wrapping_add(failures);
            let permute = |b: &Bucket| fallback > 0 && local >= b.items.len() as u32 >> 1 && local > fallback;
            let mut collided = false;
            match self.fall(&mut within, c.kind, position, |_| r, permute) {
                Fall::Lost => return None,
                Fall::Empty => {}
                Fall::Landed(item) => {
                    collided = taken.contains(&item);
                    if !collided && self.accept(knobs, c, item, r, position, room, leaves.as_deref_mut()) {
                        return Some(item);
                    }
                }
            }
            failures += 1;
            local += 1;
            let here = (collided && local <= knobs.local_retries)
                || (fallback > 0 && u64::from(local) <= within.items.len() as u64 + u64::from(fallback));
            if self.fuel == 0 || (!here && failures >= c.tries) {
                return None;
            }
            if !here {
                (within, local) = (top, 0);
            }
        }
    }

    /// Returns true if `item` can be used: a device that is in, or a bucket with such a device if leaves are wanted.
    #[allow(clippy::too_many_arguments)]
    fn accept(
        &mut self,
        knobs: &Knobs,
        c: Choice,
        item: i32,
        r: u32,
        position: usize,
        room: usize,
        leaves: Option<&mut [i32]>,
    ) -> bool {
        if c.to_leaf
            && let Some(leaves) = leaves
        {
            if item >= 0 {
                leaves[position] = item;
            } else {
                let Some(below) = self.map.bucket(item) else { return false };
                let parent_r = if knobs.vary_r > 0 { r.checked_shr(knobs.vary_r - 1).unwrap_or(0) } else { 0 };
                let numrep = if knobs.stable { 1 } else { position as u32 + 1 };
                let leaf = Choice { numrep, kind: 0, tries: c.leaf_tries, leaf_tries: 0, to_leaf: false, parent_r };
                if self.firstn(knobs, below, leaf, leaves, position, room, None) <= position {
                    return false;
                }
            }
        }
        item < 0 || !self.is_out(item)
    }

    /// Fills each position of `out[start..start + n]` that can be filled, independently of the others, and `leaves`
    /// with a device below each.
    fn indep(&mut self, top: &'a Bucket, c: Choice, out: &mut [i32], start: usize, n: usize, mut leaves: Option<&mut [i32]>) {
        let slots = start..start + n;
        out[slots.clone()].fill(UNDECIDED);
        if let Some(leaves) = leaves.as_deref_mut() {
            leaves[slots.clone()].fill(UNDECIDED);
        }
        let mut left = n;
        for round in 0..c.tries {
            if left == 0 || self.fuel == 0 {
                break;
            }
            for slot in slots.clone() {
                if out[slot] != UNDECIDED {
                    continue;
                }
                let found = self.find_for_slot(top, c, round, slot, &out[slots.clone()], start, leaves.as_deref_mut());
                if let Some(item) = found {
                    out[slot] = item;
                    left -= 1;
                }
            }
        }
        let settle = |items: &mut [i32]| items.iter_mut().filter(|i| **i == UNDECIDED).for_each(|i| *i = NONE);
        settle(&mut out[slots.clone()]);
        if let Some(leaves) = leaves {
            settle(&mut leaves[slots]);
        }
    }

    /// An item for one position: `Some(NONE)` if it can never be filled, `None` if the next round may.
    #[allow(clippy::too_many_arguments)]
    fn find_for_slot(
        &mut self,
        top: &'a Bucket,
        c: Choice,
        round: u32,
        slot: usize,
        taken: &[i32],
        position: usize,
        leaves: Option<&mut [i32]>,
    ) -> Option<i32> {
        // A permutation whose length the number of replicas divides would offer the same items in every round.
        let stride = |b: &Bucket| {
            let skewed = b.alg() == Alg::Uniform && (b.items.len() as u32).is_multiple_of(c.numrep);
            if skewed { c.numrep.wrapping_add(1) } else { c.numrep }
        };
        let attempt = |b: &Bucket| (slot as u32).wrapping_add(c.parent_r).wrapping_add(stride(b).wrapping_mul(round));
        let mut within = top;
        let item = match self.fall(&mut within, c.kind, position, attempt, |_| false) {
            Fall::Empty => return None,
            Fall::Lost => {
                if let Some(leaves) = leaves {
                    leaves[slot] = NONE;
                }
                return Some(NONE);
            }
            Fall::Landed(item) => item,
        };
        if taken.contains(&item) {
            return None;
        }
        if c.to_leaf
            && let Some(leaves) = leaves
        {
            if item >= 0 {
                leaves[slot] = item;
            } else {
                let below = self.map.bucket(item)?;
                let (tries, parent_r) = (c.leaf_tries, attempt(within));
                let leaf = Choice { kind: 0, tries, leaf_tries: 0, to_leaf: false, parent_r, ..c };
                self.indep(below, leaf, leaves, slot, 1, None);
                if leaves[slot] == NONE {
                    return None;
                }
            }
        }
        if item >= 0 && self.is_out(item) { None } else { Some(item) }
    }
}
