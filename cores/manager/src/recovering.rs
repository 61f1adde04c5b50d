//! The recovery of all data as one event in progress: how much of what was missing or at the wrong place is where it
//! belongs. Ceph calls it the global recovery event.

use crate::progress::{About, Events, Note};
use messages::stats::ObjectStatSum;
use serde_json::json;
use types::UTime;

/// The event's id.
const ID: &str = "global-recovery";

/// Most that there was to do since it began; 0 while there is nothing to do.
#[derive(Clone, Copy, Debug, Default)]
pub struct Recovering {
    most: i64,
}

impl Recovering {
    /// Takes in the sums over all groups as they are now.
    pub fn follow(&mut self, now: UTime, sum: &ObjectStatSum, events: &mut Events) {
        let left = sum.num_objects_degraded.max(0).saturating_add(sum.num_objects_misplaced.max(0));
        match (self.most, left) {
            (0, 0) => return,
            (0, _) => {
                let about = About { message: "Global Recovery Event".into(), refs: json!([["global", ""]]) };
                events.take(now, Note::Begun(ID.into(), about));
            }
            (_, 0) => events.take(now, Note::Done(ID.into())),
            _ => {}
        }
        self.most = if left == 0 { 0 } else { self.most.max(left) };
        if left > 0 {
            events.take(now, Note::Far(ID.into(), 1.0 - left as f64 / self.most as f64));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_begins_with_the_first_missing_copy_and_ends_with_the_last() {
        let (mut recovering, mut events) = (Recovering::default(), Events::default());
        let mut see = |sec: u32, degraded: i64, misplaced: i64| {
            let sum = ObjectStatSum { num_objects_degraded: degraded, num_objects_misplaced: misplaced, ..Default::default() };
            recovering.follow(UTime { sec, nsec: 0 }, &sum, &mut events);
            events.text(UTime { sec, nsec: 0 })
        };
        assert_eq!(see(1, 0, 0), "");
        assert_eq!(see(10, 100, 0), "Global Recovery Event (0s)\n    [............................] \n");
        assert_eq!(see(15, 100, 100), "Global Recovery Event (5s)\n    [............................] \n", "there is more to do");
        assert_eq!(see(20, 0, 50), "Global Recovery Event (10s)\n    [=====================.......] (remaining: 3s)\n");
        assert!(see(25, 0, 0).starts_with("[Complete]: Global Recovery Event (15s)\n"));
        assert!(see(30, 7, 0).starts_with("Global Recovery Event (0s)\n"), "the next one");
    }
}
