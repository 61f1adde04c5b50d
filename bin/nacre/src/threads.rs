//! How many threads the OSDs of a process have, and which share one.
//!
//! An OSD keeps one thread busy at most. Where there are more OSDs than processors, a thread for each is a waste: each
//! is woken for a few requests, works them off, and sleeps again, and its neighbours are woken for the mail between
//! them. OSDs that share a thread take what came for all of them in one round. `docs/performance/threads.md` has the
//! measurements.
//!
//! OSDs of one thread do not fail together: one whose disk is lost ends alone. (A panic ends the whole process in any
//! case.)

/// The number of threads, if nobody says it: a thread for each OSD, but one processor is left to clients, monitor and
/// system.
pub(crate) fn default(osds: usize, processors: usize) -> usize {
    osds.min(processors.saturating_sub(1)).max(1)
}

/// Deals `all` out to as many threads, evenly and in order; to more of them where a thread would have too many.
pub(crate) fn groups<T>(all: Vec<T>, threads: usize) -> Vec<Vec<T>> {
    let least = all.len().div_ceil(runtime::MOST_TOGETHER);
    let threads = threads.max(least).min(all.len()).max(1);
    let (each, longer) = (all.len() / threads, all.len() % threads);
    let mut all = all.into_iter();
    let groups = (0..threads).map(|at| all.by_ref().take(each + usize::from(at < longer)).collect());
    groups.filter(|group: &Vec<T>| !group.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processor_is_left() {
        let cases = [((3, 2), 1), ((3, 1), 1), ((3, 3), 2), ((3, 4), 3), ((3, 64), 3), ((12, 8), 7), ((0, 8), 1), ((1, 0), 1)];
        for ((osds, processors), threads) in cases {
            assert_eq!(default(osds, processors), threads, "{osds} on {processors}");
        }
    }

    #[test]
    fn all_are_dealt_out_evenly() {
        let sizes = |osds: usize, threads| groups((0..osds).collect(), threads).iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!(sizes(3, 1), [3]);
        assert_eq!(sizes(12, 7), [2, 2, 2, 2, 2, 1, 1]);
        assert_eq!(sizes(2, 9), [1, 1]);
        assert_eq!(sizes(0, 2), [0; 0]);
        assert_eq!(sizes(runtime::MOST_TOGETHER + 2, 1).len(), 2, "a thread has a bound");
        assert_eq!(groups(vec![5, 6, 7], 2), [vec![5, 6], vec![7]], "in order");
    }
}
