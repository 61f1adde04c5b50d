//! Values of counters, and how a section shows them.

use crate::Section;
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The value of a counter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reading {
    /// A number of things or bytes.
    Number(u64),
    /// A number that may be below zero.
    Signed(i64),
    /// A number with fractions.
    Fraction(f64),
    /// Times and their sum.
    Average(Average),
}

/// Number of measurements, and the time that all of them took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Average {
    /// Number of measurements.
    pub count: u64,
    /// The sum, in nanoseconds.
    pub nanos: u64,
    /// Half, and 99 of 100, took at most so long, in microseconds; if that is known.
    pub quantiles_us: Option<[f64; 2]>,
}

impl Average {
    /// In the form of Ceph's averages: seconds.
    fn json(&self) -> Value {
        let sum = self.nanos as f64 / 1e9;
        let mut value = json!({ "avgcount": self.count, "sum": sum, "avgtime": sum / self.count.max(1) as f64 });
        if let Some([half, most]) = self.quantiles_us {
            value["p50_us"] = json!(half);
            value["p99_us"] = json!(most);
        }
        value
    }
}

impl From<u64> for Reading {
    fn from(n: u64) -> Self {
        Reading::Number(n)
    }
}

impl From<usize> for Reading {
    fn from(n: usize) -> Self {
        Reading::Number(n as u64)
    }
}

impl From<u32> for Reading {
    fn from(n: u32) -> Self {
        Reading::Number(n.into())
    }
}

impl From<i64> for Reading {
    fn from(n: i64) -> Self {
        Reading::Signed(n)
    }
}

impl From<f64> for Reading {
    fn from(n: f64) -> Self {
        Reading::Fraction(n)
    }
}

impl From<Average> for Reading {
    fn from(average: Average) -> Self {
        Reading::Average(average)
    }
}

impl Reading {
    fn json(&self) -> Value {
        match self {
            Reading::Number(n) => json!(n),
            Reading::Signed(n) => json!(n),
            Reading::Fraction(n) => json!(n),
            Reading::Average(average) => average.json(),
        }
    }
}

/// Values of counters of one section, by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Readings(BTreeMap<Cow<'static, str>, Reading>);

impl Readings {
    /// Tells a value.
    pub fn put(&mut self, name: impl Into<Cow<'static, str>>, reading: impl Into<Reading>) {
        self.0.insert(name.into(), reading.into());
    }

    /// Tells several.
    pub fn put_all<N: Into<Cow<'static, str>>, R: Into<Reading>>(&mut self, all: impl IntoIterator<Item = (N, R)>) {
        all.into_iter().for_each(|(name, reading)| self.put(name, reading));
    }

    /// Names of those that are no rows of a section.
    pub fn strangers(&self, section: &Section) -> Vec<&str> {
        let known = |name: &str| section.counters.iter().any(|counter| counter.name == name);
        self.0.keys().map(|name| &**name).filter(|name| !known(name)).collect()
    }
}

impl Section {
    /// Shows values, in the order of the rows. A row without a value is left out; each value must have a row.
    pub fn dump(&self, readings: &Readings) -> Value {
        debug_assert!(readings.strangers(self).is_empty(), "{}: {:?}", self.name, readings.strangers(self));
        let one = |name: &str| Some((name.to_owned(), readings.0.get(name)?.json()));
        Value::Object(self.counters.iter().filter_map(|counter| one(counter.name)).collect::<Map<_, _>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Counter, count, level};

    #[test]
    fn values_stand_in_the_order_of_the_rows() {
        const ROWS: &[Counter] = &[count("b", ""), level("a", ""), level("c", "")];
        let section = Section { name: "x", about: "", counters: ROWS };
        let mut readings = Readings::default();
        readings.put("a", 1.5);
        readings.put("b", Average { count: 2, nanos: 1_000_000_000, quantiles_us: Some([1.0, 2.0]) });
        let told = serde_json::to_string(&section.dump(&readings)).unwrap();
        assert_eq!(told, r#"{"b":{"avgcount":2,"sum":1.0,"avgtime":0.5,"p50_us":1.0,"p99_us":2.0},"a":1.5}"#);
        readings.put("d", 1u64);
        assert_eq!(readings.strangers(&section), ["d"]);
    }
}
