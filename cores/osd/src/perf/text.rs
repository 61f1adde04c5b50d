//! What was counted, as values for the table of counters ([`counters::osd`]), and the distributions of `perf histogram
//! dump`.

use super::latency::average;
use super::stages::STAGES;
use super::{KINDS, Latency, PerKind, Perf};
use crate::ops::SubOps;
use counters::Readings;
use node::Mono;
use serde_json::{Map, Value, json};

impl Perf {
    fn total(&self, of: impl Fn(&PerKind) -> (u64, u64)) -> (u64, u64) {
        self.kinds.iter().map(of).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }

    /// Returns values of section `osd`; `in_progress` operations are not answered yet.
    pub(crate) fn readings(&self, now: Mono, in_progress: usize, sub_ops: &SubOps) -> Readings {
        let mut out = Readings::default();
        let latency = |k: &PerKind| k.times.total.sum();
        // Without the time in queues.
        let process = |k: &PerKind| {
            let (count, nanos) = k.times.total.sum();
            (count, nanos - k.times.stages[0].sum().1)
        };
        let prepare = |k: &PerKind| k.times.stages[1].sum();
        out.put("op_wip", in_progress);
        out.put("op", self.total(latency).0);
        out.put("op_in_bytes", self.kinds.iter().map(|k| k.bytes_in).sum::<u64>());
        out.put("op_out_bytes", self.kinds.iter().map(|k| k.bytes_out).sum::<u64>());
        out.put("op_latency", average(self.total(latency)));
        out.put("op_process_latency", average(self.total(process)));
        out.put("op_prepare_latency", average(self.total(prepare)));
        for ((_, name, ours), k) in KINDS.iter().zip(&self.kinds) {
            out.put(*name, latency(k).0);
            if *ours != "read" {
                out.put(format!("{name}_in_bytes"), k.bytes_in);
            }
            if *ours != "write" {
                out.put(format!("{name}_out_bytes"), k.bytes_out);
            }
            out.put(format!("{name}_latency"), average(latency(k)));
            out.put(format!("{name}_process_latency"), average(process(k)));
            out.put(format!("{name}_prepare_latency"), average(prepare(k)));
        }
        out.put_all([
            ("op_dropped", self.dropped),
            ("op_denied", self.denied),
            ("maps_shared", self.maps_shared),
            ("reactor_rounds", self.rounds),
            ("rounds_congested", self.rounds_held),
            ("answers_held", self.answers_held),
            ("letters_sent", self.letters),
            ("boots_asked", self.boots),
            ("uptime", now.since(self.started).as_secs()),
        ]);
        sub_ops.counters(&mut out);
        out
    }

    /// Returns values of section `stages`: where the time goes, for each kind of operation: `write_journaling`.
    pub(crate) fn stage_readings(&self, sub_ops: &SubOps) -> Readings {
        let mut out = Readings::default();
        for (kind, stages) in self.of_each_stage(sub_ops) {
            out.put_all(stages.into_iter().map(|(stage, latency)| (format!("{kind}_{stage}"), latency.whole())));
        }
        out
    }

    /// `perf histogram dump`.
    pub(crate) fn histograms(&self, sub_ops: &SubOps) -> Value {
        let mut osd = Map::new();
        for ((_, name, _), k) in KINDS.iter().zip(&self.kinds) {
            osd.insert(format!("{name}_latency_histogram"), k.times.total.histogram());
        }
        let of_kind = |stages: Vec<(&str, &Latency)>| -> Map<String, Value> {
            stages.into_iter().map(|(stage, latency)| (stage.to_owned(), latency.histogram())).collect()
        };
        let stages: Map<String, Value> =
            self.of_each_stage(sub_ops).into_iter().map(|(kind, stages)| (kind.to_owned(), of_kind(stages).into())).collect();
        json!({ "osd": osd, "stages": stages })
    }

    /// Returns the stages of each kind of operation, and all of them together.
    fn of_each_stage<'a>(&'a self, sub_ops: &'a SubOps) -> Vec<(&'static str, Vec<(&'static str, &'a Latency)>)> {
        let kinds = KINDS.iter().zip(&self.kinds).map(|((_, _, name), k)| {
            let stages = STAGES.into_iter().zip(&k.times.stages);
            (*name, stages.chain([("total", &k.times.total)]).collect())
        });
        kinds.chain([("copy", sub_ops.stages().to_vec())]).collect()
    }
}

/// `perf histogram schema` of a dump: what each of its distributions is.
pub(crate) fn histogram_schema(dump: &Value) -> Value {
    let of = |name: &str| if name == "osd" { counters::osd::OSD } else { counters::osd::STAGES };
    let sections = dump.as_object().into_iter().flatten();
    let flat = |section: &str, value: &Value| {
        let mut rows = Map::new();
        for (name, one) in value.as_object().into_iter().flatten() {
            // Stages stand by kind of operation.
            let names = match one.get("axes").is_some() {
                true => vec![name.clone()],
                false => one.as_object().into_iter().flatten().map(|(stage, _)| format!("{name}_{stage}")).collect(),
            };
            rows.extend(names.into_iter().map(|name| (name.clone(), counters::histogram(&of(section), &name))));
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
    use counters::osd::{OSD, STAGES as OF_STAGES};
    use counters::schema;

    #[test]
    fn priorities_and_short_names_are_those_of_a_real_osd() {
        let schema = schema(counters::osd::SECTIONS);
        // As one of release 16.2.15 tells them.
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
        assert_eq!((&schema["osd"]["op_in_bytes"]["units"], &schema["osd"]["op_wip"]["type"]), (&json!("bytes"), &json!(2)));
        assert_eq!((&schema["stages"]["copy_journaling"]["type"], &schema["store"]["commits"]["type"]), (&json!(5), &json!(10)));
    }

    #[test]
    fn what_is_counted_has_a_row_and_can_be_asked_for_alone() {
        let (perf, sub_ops) = (Perf::default(), SubOps::default());
        let (osd, stages) = (perf.readings(Mono(0), 3, &sub_ops), perf.stage_readings(&sub_ops));
        assert_eq!((osd.strangers(&OSD), stages.strangers(&OF_STAGES)), (Vec::new(), Vec::new()));
        let dump = json!({ "osd": OSD.dump(&osd), "stages": OF_STAGES.dump(&stages) });
        assert_eq!(dump["stages"].as_object().map(Map::len), Some(OF_STAGES.counters.len()));
        assert_eq!(select(dump.clone(), Some("osd"), Some("op_wip")), json!({ "osd": { "op_wip": 3 } }));
        assert_eq!(select(dump.clone(), Some("nothing"), None), json!({}));
        assert_eq!(select(dump.clone(), None, None), dump);
        let of_histograms = histogram_schema(&perf.histograms(&sub_ops));
        assert_eq!(of_histograms["osd"]["op_w_latency_histogram"]["value_type"], "integer-2d-histogram");
        assert!(of_histograms["stages"]["write_journaling"].is_object());
    }
}
