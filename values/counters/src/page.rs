//! The table as a page of the documents.

use crate::{Counter, Family, Kind, Section, Unit, mon, osd};
use std::fmt::Write;

const HEAD: &str = "# Counters\n\n\
    What daemons count, as `ceph daemon NAME perf dump` shows it (`nacre admin SOCKET perf dump`). `perf schema` tells the same as this page\n\
    to programs, `counter dump` and `counter schema` both with labels. Metrics for Prometheus are [another page](operations/metrics.md);\n\
    the last column says under which name a counter is there.\n\n\
    This page is made of the table in values/counters: `NACRE_WRITE_DOCS=1 cargo test -p counters --test reference`.\n";

/// docs/counters.md.
pub fn page() -> String {
    let mut out = HEAD.to_owned();
    part(&mut out, "An OSD", osd::SECTIONS, true);
    part(&mut out, "A monitor", mon::SECTIONS, false);
    out
}

fn part(out: &mut String, title: &str, sections: &[Section], metrics: bool) {
    put(out, format_args!("\n## {title}\n"));
    for section in sections {
        put(out, format_args!("\nSection `{}`: {}.\n\n", section.name, section.about));
        out.push_str(if metrics {
            "| counter | kind | what | metric |\n|---|---|---|---|\n"
        } else {
            "| counter | kind | what |\n|---|---|---|\n"
        });
        for counter in section.counters {
            let kind = match (counter.kind, counter.unit) {
                (Kind::Average, _) => "times and their sum in seconds",
                (Kind::Count, Unit::Bytes) => "count of bytes",
                (Kind::Count, Unit::None) => "count",
                (Kind::Level, Unit::Bytes) => "bytes now",
                (Kind::Level, Unit::None) => "level",
            };
            put(out, format_args!("| `{}` | {kind} | {} |", counter.name, counter.help));
            if metrics {
                put(out, format_args!(" {} |", metric(counter)));
            }
            out.push('\n');
        }
    }
}

fn metric(counter: &Counter) -> String {
    match counter.family {
        None => String::new(),
        Some(Family::Stage) => "`nacre_osd_op_stage_seconds`".to_owned(),
        Some(Family::Memory) => "`nacre_osd_memory_bytes`".to_owned(),
        Some(_) => counter.family_name().map_or(String::new(), |name| format!("`{name}`")),
    }
}

impl Counter {
    /// Name of the family of metrics that is this counter's alone, if it has one.
    pub fn family_name(&self) -> Option<String> {
        Some(match self.family? {
            Family::Ceph => format!("ceph_osd_{}", self.name),
            Family::Ours if self.kind == Kind::Count => format!("nacre_osd_{}_total", self.name),
            Family::Ours => format!("nacre_osd_{}", self.name),
            Family::Named(name) => name.to_owned(),
            Family::Pace => match self.name.strip_suffix("_us") {
                Some(name) => format!("nacre_osd_pace_{name}_seconds"),
                None => format!("nacre_osd_pace_{}", self.name),
            },
            Family::Stage | Family::Memory => return None,
        })
    }
}

fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a text takes all");
}
