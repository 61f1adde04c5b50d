//! A distribution of durations.

use counters::Average;
use serde_json::{Value, json};
use std::time::Duration;

/// Width of the first class, in nanoseconds; each further one is twice as wide as all before it.
const FIRST: u64 = 250;
const CLASSES: usize = 28;

/// Durations in classes of powers of two: below 250 ns, 500 ns, 1 µs, ... 16 s, and more.
#[derive(Clone, Debug, Default)]
pub(crate) struct Latency {
    count: u64,
    nanos: u64,
    classes: [u64; CLASSES],
}

impl Latency {
    pub(crate) fn record(&mut self, d: Duration) {
        let nanos = d.as_nanos() as u64;
        self.count += 1;
        self.nanos += nanos;
        let class = (u64::BITS - (nanos / FIRST).leading_zeros()) as usize;
        self.classes[class.min(CLASSES - 1)] += 1;
    }

    /// Returns how many, and their sum in nanoseconds.
    pub(crate) fn sum(&self) -> (u64, u64) {
        (self.count, self.nanos)
    }

    /// Mean in microseconds, 0 without any.
    pub(crate) fn mean_us(&self) -> u64 {
        self.nanos.checked_div(self.count).unwrap_or(0) / 1000
    }

    /// Upper bound of the class that holds the quantile, in microseconds.
    fn quantile_us(&self, q: f64) -> f64 {
        let wanted = ((self.count as f64 * q).ceil() as u64).max(1);
        let mut seen = 0;
        for (class, n) in self.classes.iter().enumerate() {
            seen += n;
            if seen >= wanted {
                return bound(class) as f64 / 1000.0;
            }
        }
        0.0
    }

    /// Returns count and sum, with quantiles.
    pub(crate) fn whole(&self) -> Average {
        Average { quantiles_us: Some([self.quantile_us(0.5), self.quantile_us(0.99)]), ..average(self.sum()) }
    }

    /// As an axis and its values, in the manner of `perf histogram dump`.
    pub(crate) fn histogram(&self) -> Value {
        let mut ranges = Vec::new();
        let mut from = 0;
        for class in 0..CLASSES - 1 {
            ranges.push(json!({ "min": from, "max": bound(class) - 1 }));
            from = bound(class);
        }
        ranges.push(json!({ "min": from }));
        let axis = json!({
            "name": "Latency (nsec)", "min": 0, "quant_size": FIRST, "buckets": CLASSES, "scale_type": "log2", "ranges": ranges,
        });
        json!({ "axes": [axis], "values": self.classes })
    }
}

/// End of a class, in nanoseconds.
fn bound(class: usize) -> u64 {
    FIRST << class
}

/// Count and sum (nanoseconds) as a counter.
pub(crate) fn average((count, nanos): (u64, u64)) -> Average {
    Average { count, nanos, quantiles_us: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_fall_into_their_classes() {
        let mut l = Latency::default();
        for nanos in [0, 249, 250, 3_000, 100_000, 100_000, 5_000_000] {
            l.record(Duration::from_nanos(nanos));
        }
        assert_eq!((l.sum().0, l.mean_us()), (7, 743));
        assert_eq!((l.classes[0], l.classes[1], l.classes[4]), (2, 1, 1));
        assert_eq!((l.quantile_us(0.5), l.quantile_us(0.99)), (4.0, 8192.0));
        l.record(Duration::from_secs(100_000));
        assert_eq!(l.classes[CLASSES - 1], 1, "the last class has no end");
        assert_eq!(l.histogram()["axes"][0]["ranges"].as_array().map(Vec::len), Some(CLASSES));
    }
}
