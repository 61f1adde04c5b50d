//! The counters as `perf dump`, `perf schema` and `perf histogram dump` show them.

use super::latency::average;
use super::stages::STAGES;
use super::{KINDS, PerKind, Perf};
use crate::ops::SubOps;
use node::Mono;
use serde_json::{Map, Value, json};

/// `PERFCOUNTER_TIME | PERFCOUNTER_LONGRUNAVG`, `PERFCOUNTER_U64 | PERFCOUNTER_COUNTER`, and without the counter: a level.
const AVERAGE: u32 = 5;
const COUNTER: u32 = 10;
const LEVEL: u32 = 2;

impl Perf {
    fn total(&self, of: impl Fn(&PerKind) -> (u64, u64)) -> (u64, u64) {
        self.kinds.iter().map(of).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }

    /// Section `osd` of `perf dump`; `in_progress` operations are not answered yet.
    pub(crate) fn json(&self, now: Mono, in_progress: usize, sub_ops: &SubOps) -> Value {
        let mut out = Map::new();
        let latency = |k: &PerKind| k.times.total.sum();
        // Without the time in queues.
        let process = |k: &PerKind| {
            let (count, nanos) = k.times.total.sum();
            (count, nanos - k.times.stages[0].sum().1)
        };
        let prepare = |k: &PerKind| k.times.stages[1].sum();
        let mut put = |name: String, value: Value| out.insert(name, value);
        put("op_wip".into(), json!(in_progress));
        put("op".into(), json!(self.total(latency).0));
        put("op_in_bytes".into(), json!(self.kinds.iter().map(|k| k.bytes_in).sum::<u64>()));
        put("op_out_bytes".into(), json!(self.kinds.iter().map(|k| k.bytes_out).sum::<u64>()));
        put("op_latency".into(), average(self.total(latency)));
        put("op_process_latency".into(), average(self.total(process)));
        put("op_prepare_latency".into(), average(self.total(prepare)));
        for ((_, name, ours), k) in KINDS.iter().zip(&self.kinds) {
            put((*name).into(), json!(latency(k).0));
            if *ours != "read" {
                put(format!("{name}_in_bytes"), json!(k.bytes_in));
            }
            if *ours != "write" {
                put(format!("{name}_out_bytes"), json!(k.bytes_out));
            }
            put(format!("{name}_latency"), average(latency(k)));
            put(format!("{name}_process_latency"), average(process(k)));
            put(format!("{name}_prepare_latency"), average(prepare(k)));
        }
        put("op_dropped".into(), json!(self.dropped));
        put("op_denied".into(), json!(self.denied));
        put("maps_shared".into(), json!(self.maps_shared));
        put("reactor_rounds".into(), json!(self.rounds));
        put("rounds_congested".into(), json!(self.rounds_held));
        put("answers_held".into(), json!(self.answers_held));
        put("letters_sent".into(), json!(self.letters));
        put("boots_asked".into(), json!(self.boots));
        put("uptime".into(), json!(now.since(self.started).as_secs()));
        sub_ops.counters(&mut out);
        Value::Object(out)
    }

    /// Section `stages` of `perf dump`: where the time goes, for each kind of operation: `write_journaling`. Readers of
    /// Ceph's counters expect numbers and averages in a section, and nothing deeper.
    pub(crate) fn stages_json(&self, sub_ops: &SubOps) -> Value {
        let mut flat = Map::new();
        if let Value::Object(kinds) = self.of_each_stage(sub_ops, super::Latency::json) {
            for (kind, stages) in kinds {
                let Value::Object(stages) = stages else { unreachable!("stages of a kind are an object") };
                flat.extend(stages.into_iter().map(|(stage, average)| (format!("{kind}_{stage}"), average)));
            }
        }
        Value::Object(flat)
    }

    /// `perf histogram dump`.
    pub(crate) fn histograms(&self, sub_ops: &SubOps) -> Value {
        let mut osd = Map::new();
        for ((_, name, _), k) in KINDS.iter().zip(&self.kinds) {
            osd.insert(format!("{name}_latency_histogram"), k.times.total.histogram());
        }
        json!({ "osd": osd, "stages": self.of_each_stage(sub_ops, super::Latency::histogram) })
    }

    fn of_each_stage(&self, sub_ops: &SubOps, show: impl Fn(&super::Latency) -> Value) -> Value {
        let kinds = KINDS.iter().zip(&self.kinds).map(|((_, _, name), k)| {
            let stages = STAGES.iter().zip(&k.times.stages).map(|(stage, l)| ((*stage).to_owned(), show(l)));
            let total = std::iter::once(("total".to_owned(), show(&k.times.total)));
            ((*name).to_owned(), Value::Object(stages.chain(total).collect()))
        });
        let copies = std::iter::once(("copy".to_owned(), sub_ops.stages(&show)));
        Value::Object(kinds.chain(copies).collect())
    }
}

/// `perf schema` of a dump: what each of its counters is.
pub(crate) fn schema(dump: &Value) -> Value {
    let Value::Object(sections) = dump else { return json!({}) };
    let described = sections.iter().map(|(section, counters)| {
        let counters = counters.as_object().into_iter().flatten();
        let rows = counters.filter_map(|(name, value)| Some((name.clone(), describe(section, name, value)?)));
        (section.clone(), Value::Object(rows.collect()))
    });
    Value::Object(described.collect())
}

/// Sections that say what is, not what was.
const OF_LEVELS: [&str; 3] = ["pg", "store_memory", "pace"];

/// Counters of section `osd` that say what is.
const LEVELS: [&str; 8] =
    ["op_wip", "uptime", "numpg", "numpg_primary", "numpg_replica", "stat_bytes", "stat_bytes_used", "stat_bytes_avail"];

/// What is worth a place in everybody's tables: `PRIO_USEFUL` of Ceph. Exporters leave out what is below.
const USEFUL: u8 = 5;

/// The priority and the short name of a counter. Those that Ceph has are Ceph's; of ours those count that say that something is wrong.
fn rank(section: &str, name: &str) -> (u8, &'static str) {
    match (section, name) {
        ("osd", "op") => (10, "ops"),
        ("osd", "op_latency") => (9, "l"),
        ("osd", "op_in_bytes") => (8, "wr"),
        ("osd", "op_out_bytes") => (8, "rd"),
        ("osd", "op_dropped" | "op_denied") => (0, ""),
        ("osd", "numpg" | "stat_bytes" | "stat_bytes_used") => (USEFUL, ""),
        ("osd", name) if name.starts_with("op_") => (USEFUL, ""),
        ("store", "damaged" | "stalled") | ("reactor", "long_calls") => (USEFUL, ""),
        ("stages", name) if name.ends_with("_total") => (USEFUL, ""),
        _ => (0, ""),
    }
}

/// Returns what a counter is, in words: what its name says, and the kinds of the name's parts.
fn about(section: &str, name: &str) -> String {
    let words = name.replace('_', " ");
    match section {
        "stages" => format!("time of operations by stage: {words}"),
        "store" => format!("what the store did: {words}"),
        "store_memory" => format!("memory of the store: {words}"),
        "pace" => format!("pace of recovery: {words}"),
        "pg" => format!("what groups and maps hold: {words}"),
        "reactor" => format!("turns of the thread: {words}"),
        _ => format!("of this OSD: {words}"),
    }
}

fn describe(section: &str, name: &str, value: &Value) -> Option<Value> {
    let (kind, metric, value_type) = match value {
        Value::Object(o) if o.contains_key("avgcount") => (AVERAGE, "gauge", "real-integer-pair"),
        Value::Number(_) if OF_LEVELS.contains(&section) || LEVELS.contains(&name) => (LEVEL, "gauge", "integer"),
        Value::Number(_) => (COUNTER, "counter", "integer"),
        _ => return None,
    };
    let units = if name.ends_with("bytes") || name.starts_with("stat_bytes") { "bytes" } else { "none" };
    let (priority, nick) = rank(section, name);
    Some(json!({
        "type": kind, "metric_type": metric, "value_type": value_type, "description": about(section, name), "nick": nick,
        "priority": priority, "units": units,
    }))
}

/// `PERFCOUNTER_U64 | PERFCOUNTER_COUNTER | PERFCOUNTER_HISTOGRAM`.
const HISTOGRAM: u32 = 26;

/// `perf histogram schema` of a dump: what each of its distributions is.
pub(crate) fn histogram_schema(dump: &Value) -> Value {
    let sections = dump.as_object().into_iter().flatten();
    let flat = |section: &str, value: &Value| {
        let mut rows = Map::new();
        for (name, one) in value.as_object().into_iter().flatten() {
            // Stages stand by kind of operation.
            let names = match one.get("axes").is_some() {
                true => vec![name.clone()],
                false => one.as_object().into_iter().flatten().map(|(stage, _)| format!("{name}_{stage}")).collect(),
            };
            rows.extend(names.into_iter().map(|name| {
                let about = json!({
                    "type": HISTOGRAM, "metric_type": "counter", "value_type": "integer-2d-histogram",
                    "description": about(section, &name), "nick": "", "priority": USEFUL, "units": "none",
                });
                (name, about)
            }));
        }
        Value::Object(rows)
    };
    sections.map(|(section, value)| (section.clone(), flat(section, value))).collect::<Map<_, _>>().into()
}

/// The part of a dump that `perf dump SECTION COUNTER` asks for.
pub(crate) fn select(dump: Value, section: Option<&str>, counter: Option<&str>) -> Value {
    let (Value::Object(all), Some(section)) = (&dump, section.filter(|s| !s.is_empty())) else { return dump };
    let chosen = all.get(section).map(|counters| match counter.filter(|c| !c.is_empty()) {
        Some(name) => json!({ name: counters[name] }),
        None => counters.clone(),
    });
    chosen.map_or(json!({}), |chosen| json!({ section: chosen }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_has_a_schema_and_can_be_asked_for_alone() {
        let (perf, sub_ops) = (Perf::default(), SubOps::default());
        let dump = json!({
            "osd": perf.json(Mono(0), 3, &sub_ops), "stages": perf.stages_json(&sub_ops), "pg": { "log_bytes": 1 },
            "store": { "commits": 1 }, "store_memory": { "blocks": 4096 },
        });
        let schema = schema(&dump);
        for (section, counters) in dump.as_object().unwrap() {
            for (name, value) in counters.as_object().unwrap() {
                let kind = &schema[section][name]["type"];
                let average = value["avgcount"].is_u64() && value["sum"].is_number();
                assert!(value.is_number() || average, "{section}.{name}: {value}");
                assert_eq!(*kind == AVERAGE, average, "{section}.{name}: {kind}");
                assert!(kind.is_number(), "{section}.{name} has no schema");
            }
        }
        assert_eq!((&schema["osd"]["op_in_bytes"]["units"], &schema["osd"]["op_wip"]["type"]), (&json!("bytes"), &json!(LEVEL)));
        // Priorities and short names as a real OSD of release 16.2.15 tells them.
        for (name, priority, nick) in [
            ("op_wip", 5, ""),
            ("op", 10, "ops"),
            ("op_in_bytes", 8, "wr"),
            ("op_out_bytes", 8, "rd"),
            ("op_latency", 9, "l"),
            ("op_process_latency", 5, ""),
            ("op_r", 5, ""),
            ("op_r_out_bytes", 5, ""),
            ("op_w_latency", 5, ""),
            ("op_rw_prepare_latency", 5, ""),
            ("subop", 0, ""),
            ("subop_w_latency", 0, ""),
            ("op_dropped", 0, ""),
        ] {
            let of = &schema["osd"][name];
            assert_eq!((&of["priority"], &of["nick"]), (&json!(priority), &json!(nick)), "{name}");
            assert!(!of["description"].as_str().unwrap().is_empty(), "{name}");
        }
        let of_histograms = histogram_schema(&perf.histograms(&sub_ops));
        assert_eq!(of_histograms["osd"]["op_w_latency_histogram"]["value_type"], "integer-2d-histogram");
        assert!(of_histograms["stages"]["write_journaling"].is_object());
        assert_eq!(schema["stages"]["write_journaling"]["type"], AVERAGE);
        assert_eq!(schema["stages"]["copy_journaling"]["type"], AVERAGE);
        assert_eq!((&schema["pg"]["log_bytes"]["type"], &schema["pg"]["log_bytes"]["units"]), (&json!(LEVEL), &json!("bytes")));
        assert_eq!(
            (&schema["store_memory"]["blocks"]["type"], &schema["store"]["commits"]["type"]),
            (&json!(LEVEL), &json!(COUNTER))
        );
        assert_eq!(select(dump.clone(), Some("osd"), Some("op_wip")), json!({ "osd": { "op_wip": 3 } }));
        assert_eq!(select(dump.clone(), Some("nothing"), None), json!({}));
        assert_eq!(select(dump.clone(), None, None), dump);
    }
}
