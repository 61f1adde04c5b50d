//! How far data is from where it should be: copies that lack objects, copies at the wrong place, objects that are
//! nowhere; and how fast that mends. Words and numbers are those of Ceph's `status`, `pg stat` and `osd pool stats`.

use grammar::units::{bytes, si};
use messages::stats::ObjectStatSum;
use serde_json::{Map, Value};

/// Number of objects or copies in a state that should not be, and of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The state: `degraded`, `misplaced`, `unfound`.
    pub what: &'static str,
    /// Number of bytes.
    pub count: i64,
    /// Of how many; more than 0.
    pub total: i64,
}

impl Part {
    /// The share, from 0 to 1.
    pub fn ratio(&self) -> f64 {
        self.count as f64 / self.total as f64
    }

    /// `2172/8751 objects degraded (24.820%)`
    pub fn text(&self) -> String {
        format!("{}/{} objects {} ({:.3}%)", self.count, self.total, self.what, self.ratio() * 100.0)
    }
}

/// The parts of these objects that are not as they should be.
pub fn parts(sum: &ObjectStatSum) -> Vec<Part> {
    let all = [
        Part { what: "degraded", count: sum.num_objects_degraded, total: sum.num_object_copies },
        Part { what: "misplaced", count: sum.num_objects_misplaced, total: sum.num_object_copies },
        Part { what: "unfound", count: sum.num_objects_unfound, total: sum.num_objects },
    ];
    all.into_iter().filter(|part| part.count > 0 && part.total > 0).collect()
}

/// Adds the parts to a structure: `degraded_objects`, `degraded_total`, `degraded_ratio`, and so on.
pub fn dump_parts(sum: &ObjectStatSum, map: &mut Map<String, Value>) {
    for part in parts(sum) {
        map.insert(format!("{}_objects", part.what), part.count.into());
        map.insert(format!("{}_total", part.what), part.total.into());
        map.insert(format!("{}_ratio", part.what), part.ratio().into());
    }
}

/// Pace of recovery in the last seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pace {
    /// Objects that became whole.
    pub objects: i64,
    /// Bytes that were copied for them.
    pub bytes: i64,
    /// Keys of omaps that were copied for them.
    pub keys: i64,
    /// The seconds in which that happened.
    pub secs: f64,
}

impl Pace {
    /// Returns what happened between two sums, `secs` seconds apart.
    pub fn of(delta: &ObjectStatSum, secs: f64) -> Self {
        let positive = |n: i64| n.max(0);
        Self {
            objects: positive(delta.num_objects_recovered),
            bytes: positive(delta.num_bytes_recovered),
            keys: positive(delta.num_keys_recovered),
            secs,
        }
    }

    /// Returns true if nothing was recovered.
    pub fn is_zero(&self) -> bool {
        self.objects == 0 && self.bytes == 0 && self.keys == 0
    }

    fn per_sec(&self, n: i64) -> u64 {
        if self.secs > 0.0 { (n as f64 / self.secs) as u64 } else { 0 }
    }

    /// `304 KiB/s, 4 objects/s`
    pub fn text(&self) -> String {
        let mut parts = vec![format!("{}/s", bytes(self.per_sec(self.bytes)))];
        if self.keys > 0 {
            parts.push(format!("{} keys/s", si(self.per_sec(self.keys))));
        }
        parts.push(format!("{} objects/s", si(self.per_sec(self.objects))));
        parts.join(", ")
    }

    /// Adds the pace to a structure, if there is any.
    pub fn dump(&self, map: &mut Map<String, Value>) {
        if self.is_zero() {
            return;
        }
        let all = [("objects", self.objects), ("bytes", self.bytes), ("keys", self.keys)];
        for (name, n) in all {
            map.insert(format!("recovering_{name}_per_sec"), self.per_sec(n).into());
        }
        for (name, n) in all {
            map.insert(format!("num_{name}_recovered"), n.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_and_pace_read_as_in_ceph() {
        let sum = ObjectStatSum {
            num_objects: 4428,
            num_object_copies: 13284,
            num_objects_degraded: 541,
            num_objects_misplaced: 277,
            num_objects_unfound: 14,
            ..ObjectStatSum::default()
        };
        let lines: Vec<String> = parts(&sum).iter().map(Part::text).collect();
        let wanted =
            ["541/13284 objects degraded (4.073%)", "277/13284 objects misplaced (2.085%)", "14/4428 objects unfound (0.316%)"];
        assert_eq!(lines, wanted);
        assert!(parts(&ObjectStatSum::default()).is_empty());
        let pace = Pace { objects: 20, bytes: 1_310_720, keys: 0, secs: 8.0 };
        assert_eq!(pace.text(), "160 KiB/s, 2 objects/s");
        assert_eq!(Pace { keys: 16, ..pace }.text(), "160 KiB/s, 2 keys/s, 2 objects/s");
        let mut map = Map::new();
        Pace::default().dump(&mut map);
        assert!(map.is_empty() && Pace::default().is_zero());
        pace.dump(&mut map);
        assert_eq!((&map["recovering_bytes_per_sec"], &map["num_objects_recovered"]), (&163_840.into(), &20.into()));
    }
}
