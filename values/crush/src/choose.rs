//! Drawing one item from one bucket.

use crate::hash::{hash3, hash4};
use crate::map::{Bucket, ChooseArg, Contents};
use crate::straw2::winner;

/// The item that bucket `b` (not empty) draws for input `x` and attempt `r`. `arg` overrides weights and ids of
/// straw2 buckets, by `position`. `None` if the bucket's weights lead nowhere.
#[inline]
pub(crate) fn choose(b: &Bucket, x: u32, r: u32, arg: Option<&ChooseArg>, position: usize) -> Option<i32> {
    match &b.contents {
        Contents::Straw2 { weights } => straw2(b, weights, x, r, arg, position),
        Contents::Straw { straws, .. } => straw(b, straws, x, r),
        Contents::Uniform { .. } => permuted(b, x, r),
        Contents::List { weights, sums } => list(b, weights, sums, x, r),
        Contents::Tree { nodes } => tree(b, nodes, x, r),
    }
}

/// The winner of a draw by weight; `arg` may replace the weights and the ids that are hashed.
fn straw2(b: &Bucket, weights: &[u32], x: u32, r: u32, arg: Option<&ChooseArg>, position: usize) -> Option<i32> {
    let (mut ids, mut weights) = (&b.items[..], weights);
    if let Some(arg) = arg {
        if let Some(last) = arg.weight_set.len().checked_sub(1) {
            weights = &arg.weight_set[position.min(last)];
        }
        if !arg.ids.is_empty() {
            ids = &arg.ids;
        }
    }
    b.items.get(winner(ids, weights, x, r)).copied()
}

/// Each item draws 16 bits, scaled by its straw; the longest wins, the first among equals.
fn straw(b: &Bucket, straws: &[u32], x: u32, r: u32) -> Option<i32> {
    let mut best: Option<(u64, i32)> = None;
    for (item, straw) in b.items.iter().zip(straws) {
        let draw = u64::from(hash3(x, *item as u32, r) & 0xffff) * u64::from(*straw);
        if best.is_none_or(|(high, _)| draw > high) {
            best = Some((draw, *item));
        }
    }
    best.map(|(_, item)| item)
}

/// The `r`-th item of a shuffle that depends on `x`.
///
/// The shuffle swaps places p = 0, 1, ... with a later one; who ends up at place `r` is found by following the swaps
/// backwards, without a permutation in memory.
pub(crate) fn permuted(b: &Bucket, x: u32, r: u32) -> Option<i32> {
    let size = b.items.len() as u32;
    let place = r % size;
    let partner = |p: u32| p + if p + 1 < size { hash3(x, b.id as u32, p) % (size - p) } else { 0 };
    let origin = (0..place).rev().fold(partner(place), |at, p| if at == partner(p) { p } else { at });
    b.items.get(origin as usize).copied()
}

/// From the last item to the first, each takes its chance against all before it.
fn list(b: &Bucket, weights: &[u32], sums: &[u32], x: u32, r: u32) -> Option<i32> {
    for ((item, weight), sum) in b.items.iter().zip(weights).zip(sums).rev() {
        let draw = u64::from(hash4(x, *item as u32, r, b.id as u32) & 0xffff);
        if (draw * u64::from(*sum)) >> 16 < u64::from(*weight) {
            return Some(*item);
        }
    }
    b.items.first().copied()
}

/// Down a binary tree, left or right by weight. Node n at height h (its trailing zeros) has children n ± 2^(h-1).
fn tree(b: &Bucket, nodes: &[u32], x: u32, r: u32) -> Option<i32> {
    let mut n = nodes.len() >> 1;
    while n != 0 && n & 1 == 0 {
        let target = (u64::from(hash4(x, n as u32, r, b.id as u32)) * u64::from(nodes[n])) >> 32;
        let half = 1 << (n.trailing_zeros() - 1);
        n = if target < u64::from(nodes[n - half]) { n - half } else { n + half };
    }
    b.items.get(n >> 1).copied()
}
