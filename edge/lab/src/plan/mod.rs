//! The experiment file: what is measured on what, how often and in which order.
//!
//! [`schema`] says which keys there are; [`reader`] reads a file by it and names file, line, key and the nearest valid
//! word where something is wrong; [`expand`] multiplies lists out into permutations; [`order`] puts the runs in order
//! and tells how long they take.

pub mod expand;
pub mod order;
pub mod reader;
pub mod schema;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// One value of a key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Scalar {
    /// `true` or `false`.
    Bool(bool),
    /// A whole number; sizes are in bytes.
    Int(i64),
    /// Any number.
    Real(f64),
    /// Text.
    Text(String),
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(b) => write!(f, "{b}"),
            Self::Int(n) => write!(f, "{n}"),
            Self::Real(x) => write!(f, "{x}"),
            Self::Text(t) => f.write_str(t),
        }
    }
}

/// One permutation of a table's keys.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Point(pub BTreeMap<String, Scalar>);

impl Point {
    /// The value of a key, as text; empty if it is not given.
    pub fn text(&self, key: &str) -> String {
        self.0.get(key).map(Scalar::to_string).unwrap_or_default()
    }

    /// The value of a key, as text, if it is given and not empty.
    pub fn given(&self, key: &str) -> Option<String> {
        Some(self.text(key)).filter(|t| !t.is_empty())
    }

    /// A whole number; `default` if it is not given.
    pub fn int(&self, key: &str, default: u64) -> u64 {
        match self.0.get(key) {
            Some(Scalar::Int(n)) => u64::try_from(*n).unwrap_or(default),
            Some(Scalar::Real(x)) => *x as u64,
            _ => default,
        }
    }

    /// A number; `default` if it is not given.
    pub fn real(&self, key: &str, default: f64) -> f64 {
        match self.0.get(key) {
            Some(Scalar::Int(n)) => *n as f64,
            Some(Scalar::Real(x)) => *x,
            _ => default,
        }
    }

    /// Yes or no; `default` if it is not given.
    pub fn flag(&self, key: &str, default: bool) -> bool {
        match self.0.get(key) {
            Some(Scalar::Bool(b)) => *b,
            _ => default,
        }
    }

    /// Returns how a key's value is shown to people: sizes as `4K`.
    pub fn shown(&self, key: &str) -> String {
        match (key, self.0.get(key)) {
            ("size" | "image" | "chunk" | "stripe_unit" | "memory" | "osd_size", Some(Scalar::Int(n))) => {
                size_name(u64::try_from(*n).unwrap_or(0))
            }
            ("config", Some(text)) => text.to_string().lines().map(str::trim).collect::<Vec<_>>().join("; "),
            _ => self.text(key),
        }
    }
}

/// `4K`, `128K`, `4M`
pub fn size_name(size: u64) -> String {
    match size {
        s if s > 0 && s.is_multiple_of(1 << 30) => format!("{}G", s >> 30),
        s if s > 0 && s.is_multiple_of(1 << 20) => format!("{}M", s >> 20),
        s if s > 0 && s.is_multiple_of(1 << 10) => format!("{}K", s >> 10),
        s => s.to_string(),
    }
}

/// Settings of the whole experiment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Experiment {
    /// The table `[experiment]`.
    pub settings: Point,
    /// The table `[monitor]`.
    pub monitor: Point,
    /// The table `[tuning]`.
    pub tuning: Point,
    /// The table `[report]`.
    pub report: Point,
    /// Every permutation of every `[[cluster]]`.
    pub clusters: Vec<Point>,
    /// Every `[[disk]]`, by name.
    pub disks: BTreeMap<String, Point>,
    /// Every permutation of every `[[workload]]`.
    pub workloads: Vec<Point>,
    /// If there are any, a permutation has to match one of them.
    pub include: Vec<Rule>,
    /// A permutation must match none of them.
    pub exclude: Vec<Rule>,
}

/// Keys and the values that match.
pub type Rule = BTreeMap<String, Vec<Scalar>>;

impl Experiment {
    /// Short name, for files.
    pub fn name(&self) -> String {
        self.settings.given("name").unwrap_or_else(|| "experiment".into())
    }

    /// Title of the report.
    pub fn title(&self) -> String {
        self.settings.given("title").unwrap_or_else(|| self.name())
    }

    /// Returns how often every permutation is measured.
    pub fn repeats(&self) -> u32 {
        self.settings.int("repeats", 3) as u32
    }

    /// Returns true if this permutation is wanted.
    pub fn wants(&self, cluster: &Point, workload: &Point) -> bool {
        let value = |key: &str| workload.0.get(key).or_else(|| cluster.0.get(key)).cloned();
        let matches = |rule: &Rule| rule.iter().all(|(key, allowed)| value(key).is_some_and(|v| allowed.contains(&v)));
        let here = workload.given("on").is_none_or(|names| names.split(',').any(|n| n.trim() == cluster.text("name")));
        here && (self.include.is_empty() || self.include.iter().any(matches)) && !self.exclude.iter().any(matches)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_short_names() {
        assert_eq!((size_name(4 << 20), size_name(4096), size_name(5)), ("4M".into(), "4K".into(), "5".into()));
        assert_eq!((size_name(0), size_name(2 << 30)), ("0".into(), "2G".into()));
    }
}
