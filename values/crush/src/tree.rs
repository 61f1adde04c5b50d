//! Walks over the whole forest.

use crate::map::Map;

/// Whether every descent ends.
pub(crate) fn is_forest_of_finite_depth(map: &Map) -> bool {
    // Depth-first with an explicit stack: a bucket is done when all below it is; meeting an open one is a cycle.
    #[derive(Clone, Copy, PartialEq)]
    enum Seen {
        No,
        Open,
        Done,
    }
    let mut seen = vec![Seen::No; map.buckets.len()];
    for root in 0..map.buckets.len() {
        let mut stack = vec![(root, 0)];
        while let Some((index, next)) = stack.pop() {
            if next == 0 {
                if seen[index] == Seen::Done {
                    continue;
                }
                seen[index] = Seen::Open;
            }
            let items = map.buckets[index].as_ref().map_or(&[][..], |b| &b.items);
            let below = items.iter().enumerate().skip(next).find(|(_, i)| **i < 0 && map.bucket(**i).is_some());
            let Some((at, item)) = below else {
                seen[index] = Seen::Done;
                continue;
            };
            let child = !*item as usize;
            if seen[child] == Seen::Open {
                return false;
            }
            stack.push((index, at + 1));
            stack.push((child, 0));
        }
    }
    true
}
