//! Sections of the page that are tables.

use super::charts::{look, with_range};
use super::data::{Cell, Data};
use crate::metrics::{self, METRICS, figures};
use crate::plan::Point;
use crate::stats::noise::flagged;
use maud::{Markup, html};

/// Metrics of the large table.
const TABLE: [&str; 9] = [
    "ops_per_second",
    "mb_per_second",
    "latency_ms",
    "p99_ms",
    "server_us",
    "machine_us",
    "data_wait_ms",
    "journal_wait_ms",
    "data_written_per_byte",
];

/// Medians with intervals, a row for each workload on each cluster.
pub fn medians(data: &Data) -> Markup {
    let used: Vec<&metrics::Metric> =
        TABLE.iter().filter_map(|n| metrics::find(n)).filter(|m| data.cells.iter().any(|c| c.median(m.name).is_some())).collect();
    html! {
        div.scroll { table {
            thead { tr { th { "workload" } th { "cluster" } @for m in &used { th.r { (m.title) br; span.unit { (m.unit) } } } } }
            tbody { @for (workload, cells) in data.workloads() { @for (i, cell) in cells.iter().enumerate() {
                tr class=[(i == 0).then_some("first")] {
                    td { @if i == 0 { (data.title(workload)) } }
                    td { span class=(format!("swatch b{}", look(data, &cell.cluster).colour % 8)) {} (data.label(&cell.cluster)) }
                    @if cell.median("ops_per_second").is_none() {
                        td.missing colspan=(used.len()) { (cell.missing.first().cloned().unwrap_or_else(|| "not measured".into())) }
                    } @else {
                        @for m in &used { td.r { (stacked(&with_range(cell, m.name))) } }
                    }
                }
            } } }
        } }
    }
}

/// Figures of the last tables: what each is about, and the first of its metrics.
const CHAPTERS: [(&str, &str); 5] = [
    ("What clients saw", "ops_per_second"),
    ("Processors and memory", "server_us"),
    ("Data disks", "data_wait_ms"),
    ("Journal disks, network, OSDs", "journal_wait_ms"),
    ("While an OSD was away", "rate_before"),
];

/// Returns tables of all figures: a row for each cell, a table for each chapter that has a value.
pub fn everything(data: &Data) -> Markup {
    let begins = |name: &str| METRICS.iter().position(|m| m.name == name).unwrap_or(METRICS.len());
    let ends = CHAPTERS.iter().skip(1).map(|c| begins(c.1)).chain([METRICS.len()]);
    let is_there = |m: &&metrics::Metric| data.cells.iter().any(|c| c.median(m.name).is_some_and(|v| v != 0.0));
    let chapters =
        CHAPTERS.iter().zip(ends).map(|(c, end)| (c.0, METRICS[begins(c.1)..end].iter().filter(is_there).collect::<Vec<_>>()));
    html! {
        @for (title, used) in chapters.filter(|c| !c.1.is_empty()) {
            h3 { (title) }
            div.scroll { table {
                thead { tr { th { "workload" } th { "cluster" } @for m in &used { th.r { (m.title.trim_start_matches("data disk: ").trim_start_matches("journal disk: ")) br; span.unit { (m.unit) } } } } }
                tbody { @for cell in data.cells.iter().filter(|c| used.iter().any(|m| c.median(m.name).is_some())) { tr {
                    td { (data.title(&cell.workload)) } td { (data.label(&cell.cluster)) }
                    @for m in &used { td.r { (cell.median(m.name).map_or("–".into(), figures)) } }
                } } }
            } }
        }
    }
}

/// A median above its interval: narrow columns.
fn stacked(text: &str) -> Markup {
    match text.split_once(' ') {
        Some((median, range)) => html! { (median) br; span.unit { (range) } },
        None => html! { (text) },
    }
}

/// The table of the NVMe article: rates by block size.
pub fn by_size(data: &Data) -> Markup {
    let mut sizes: Vec<u64> =
        data.experiment.workloads.iter().filter(|w| w.0.contains_key("size")).map(|w| w.int("size", 0)).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let rest = |w: &Point| {
        let mut w = w.clone();
        w.0.remove("size");
        w
    };
    let mut rows: Vec<(Point, Point)> = Vec::new();
    for cell in &data.cells {
        let row = (cell.cluster.clone(), rest(&cell.workload));
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    let find = |row: &(Point, Point), size: u64| {
        data.cells.iter().find(|c| c.cluster == row.0 && rest(&c.workload) == row.1 && c.workload.int("size", 0) == size)
    };
    html! {
        div.scroll { table {
            thead { tr { th { "load" } th { "cluster" } @for s in &sizes { th.r { (crate::plan::size_name(*s)) br; span.unit { "op/s · MB/s" } } } } }
            tbody { @for row in &rows { tr {
                td { (data.title(&row.1)) } td { (data.label(&row.0)) }
                @for s in &sizes { td.r { @if let Some(cell) = find(row, *s) { (rate(cell)) } @else { "–" } } }
            } } }
        } }
    }
}

fn rate(cell: &Cell) -> String {
    match (cell.median("ops_per_second"), cell.median("mb_per_second")) {
        (Some(ops), Some(mb)) => format!("{} · {}", figures(ops), figures(mb)),
        _ => "–".into(),
    }
}

/// Per-stage latencies inside of the OSDs.
pub fn stages(data: &Data) -> Option<Markup> {
    let mut names: Vec<&String> = data.cells.iter().flat_map(|c| c.values.keys().filter(|k| k.starts_with("stage "))).collect();
    names.sort();
    names.dedup();
    (!names.is_empty()).then(|| html! {
        div.scroll { table {
            thead { tr { th { "workload" } th { "cluster" } @for n in &names { th.r { (n.trim_start_matches("stage ")) br; span.unit { "µs" } } } } }
            tbody { @for cell in data.cells.iter().filter(|c| names.iter().any(|n| c.median(n).is_some())) { tr {
                td { (data.title(&cell.workload)) } td { (data.label(&cell.cluster)) }
                @for n in &names { td.r { (cell.median(n).map_or("–".into(), figures)) } }
            } } }
        } }
    })
}

/// Returns what the machine's noise is, from a cluster that was measured against itself.
pub fn noise(data: &Data) -> Option<Markup> {
    let rows: Vec<_> = METRICS
        .iter()
        .filter(|m| m.judged || m.name == "latency_ms")
        .filter_map(|m| Some((m, data.noise(m.name)?, flagged(&data.twice(m.name)))))
        .collect();
    (!rows.is_empty()).then(|| html! {
        div.scroll { table {
            thead { tr { th { "figure" } th.r { "noise of a pair" br; span.unit { "standard deviation" } } th.r { "smallest difference" br; span.unit { "that " (data.experiment.repeats()) " repeats show in four of five cases" } } th.r { "pairs" } th.r { "differs from itself" br; span.unit { "at 95 %, of workloads" } } } }
            tbody { @for (m, noise, (found, of)) in &rows { tr {
                td { (m.title) } td.r { (format!("{:.1} %", noise.deviation * 100.0)) }
                td.r { (noise.smallest.map_or("–".into(), |s| format!("{:.0} %", s * 100.0))) }
                td.r { (noise.pairs) } td.r { (found) " of " (of) }
            } } }
        } }
    })
}

/// Returns what is missing, and why.
pub fn missing(data: &Data) -> Option<Markup> {
    let mut all: Vec<(String, Vec<String>)> = Vec::new();
    for cell in &data.cells {
        for why in &cell.missing {
            let what = format!("{}: {}", data.label(&cell.cluster), data.title(&cell.workload));
            match all.iter_mut().find(|(w, _)| w == why) {
                Some((_, list)) => list.push(what),
                None => all.push((why.clone(), vec![what])),
            }
        }
    }
    (!all.is_empty()).then(|| html! {
        ul.missing { @for (why, what) in &all { li { strong { (why) } br; span { (what.len()) " runs: " (super::svg::shorten(&what.join("; "), 300)) } } } }
    })
}

/// Figures outside of the middle's reach.
pub fn outliers(data: &Data) -> Vec<String> {
    let mut said = Vec::new();
    for cell in &data.cells {
        let name = data.main_metric(&cell.workload);
        for value in crate::stats::outliers(&cell.all(name)) {
            let median = cell.median(name).unwrap_or(value);
            said.push(format!(
                "{}, {}: {} where the median is {}",
                data.label(&cell.cluster),
                data.title(&cell.workload),
                figures(value),
                figures(median)
            ));
        }
    }
    said
}
