//! The table as `perf schema` shows it.

use crate::{Counter, Kind, Section, USEFUL, Unit};
use serde_json::{Map, Value, json};

/// Ceph's types of counters: `PERFCOUNTER_TIME | PERFCOUNTER_LONGRUNAVG`, `PERFCOUNTER_U64 | PERFCOUNTER_COUNTER`,
/// without the counter: a level; and with `PERFCOUNTER_HISTOGRAM`: a distribution.
const AVERAGE: u32 = 5;
const COUNTER: u32 = 10;
const LEVEL: u32 = 2;
const HISTOGRAM: u32 = 26;

/// `perf schema`: what each counter of these sections is.
pub fn schema(sections: &[Section]) -> Value {
    let rows =
        |section: &Section| section.counters.iter().map(|c| (c.name.to_owned(), section.describe(c))).collect::<Map<_, _>>();
    sections.iter().map(|section| (section.name.to_owned(), rows(section).into())).collect::<Map<_, _>>().into()
}

/// Describes a distribution, for `perf histogram schema`.
pub fn histogram(section: &Section, name: &str) -> Value {
    json!({
        "type": HISTOGRAM, "metric_type": "counter", "value_type": "integer-2d-histogram",
        "description": section.title(name), "nick": "", "priority": USEFUL, "units": "none",
    })
}

impl Section {
    /// A name within it, as words.
    fn title(&self, name: &str) -> String {
        format!("{}: {}", self.about, name.replace('_', " "))
    }

    fn describe(&self, counter: &Counter) -> Value {
        let (kind, metric, value) = match counter.kind {
            Kind::Average => (AVERAGE, "gauge", "real-integer-pair"),
            Kind::Level => (LEVEL, "gauge", "integer"),
            Kind::Count => (COUNTER, "counter", "integer"),
        };
        let units = match counter.unit {
            Unit::Bytes => "bytes",
            Unit::None => "none",
        };
        json!({
            "type": kind, "metric_type": metric, "value_type": value, "description": counter.help,
            "nick": counter.nick, "priority": counter.priority, "units": units,
        })
    }
}
