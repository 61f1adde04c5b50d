//! A report of one cluster: its loads are arranged by what varies in them, and set beside the raw disk.
//!
//! With several clusters each load is a chart, and the clusters are its bars. With one cluster such charts would have
//! one bar of full width. So the number of requests under way is the axis (or their size, if only that varies),
//! operations are the bars, and all that varies besides makes charts of their own.

use super::charts::{self, thumbnails};
use super::data::{Cell, Data};
use super::svg::{Bar, Group, bars};
use crate::metrics::{self, Better, Metric, figures};
use crate::plan::Point;
use crate::workload;
use maud::{Markup, html};

/// Keys that may be the axis, the best one first.
const AXES: [&str; 4] = ["depth", "size", "clients", "image"];
/// Keys that tell operations from each other.
const OPERATIONS: [&str; 9] = ["name", "kind", "mode", "engine", "reads", "target", "layer", "command", "option"];
/// Keys by which nothing is told apart.
const SILENT: [&str; 3] = ["on", "seconds", "result"];

/// Returns true if one cluster was measured, or one beside bare disks.
pub fn is_single(data: &Data) -> bool {
    data.experiment.clusters.iter().filter(|c| !is_bare(c)).count() == 1
        && data.cells.iter().all(|c| c.workload.text("kind") != "failover")
}

/// Returns true if a "cluster" is only disks, for baselines.
pub fn is_bare(cluster: &Point) -> bool {
    cluster.text("kind") == "none"
}

/// Returns the cells of the cluster itself.
fn measured(data: &Data) -> Vec<&Cell> {
    data.cells.iter().filter(|c| !is_bare(&c.cluster)).collect()
}

/// Returns the bare disk's cell for the same direction, size and number of requests under way.
///
/// A cluster acknowledges a write when it is durable. So durable writes of the disk come first, if they were measured.
pub fn baseline<'a>(data: &'a Data, cell: &Cell) -> Option<&'a Cell> {
    let wanted = (writes(&cell.workload), cell.workload.int("size", 4096), cell.workload.int("depth", 16));
    let direction = wanted.0?;
    let of = |c: &&Cell| {
        is_bare(&c.cluster)
            && c.workload.text("kind") == "disk"
            && (writes(&c.workload), c.workload.int("size", 4096), c.workload.int("depth", 16)) == wanted
            && c.median("ops_per_second").is_some_and(|m| m > 0.0)
    };
    let alike = |c: &&Cell| {
        let durable = direction && c.workload.text("target") == "journal";
        let order = is_random(&c.workload) == is_random(&cell.workload);
        (durable, order)
    };
    data.cells.iter().filter(of).max_by_key(alike)
}

/// Returns true for writes, false for reads, none for both.
fn writes(workload: &Point) -> Option<bool> {
    match workload.text("mode").as_str() {
        "write" | "randwrite" => Some(true),
        "seq" | "rand" | "read" | "randread" => Some(false),
        _ => None,
    }
}

fn is_random(workload: &Point) -> bool {
    matches!(workload.text("mode").as_str(), "rand" | "randread" | "randwrite")
}

/// Returns how many times the bare disk's rate this is.
fn share(data: &Data, cell: &Cell) -> Option<f64> {
    Some(cell.median("ops_per_second")? / baseline(data, cell)?.median("ops_per_second")?)
}

fn percent(share: f64) -> String {
    if share < 0.1 { format!("{:.1} %", share * 100.0) } else { format!("{:.0} %", share * 100.0) }
}

/// Arrangement of the loads.
struct Arranged<'a> {
    /// Key of the axis; none if nothing of [`AXES`] varies.
    axis: Option<&'static str>,
    /// Operations, in the order of the experiment: one colour each.
    operations: Vec<String>,
    /// Charts: title and cells.
    charts: Vec<(String, Vec<&'a Cell>)>,
}

impl<'a> Arranged<'a> {
    fn of(cells: &[&'a Cell]) -> Self {
        let varies = |key: &&'static str| {
            let first = cells.first().map(|c| c.workload.shown(key));
            cells.iter().any(|c| Some(c.workload.shown(key)) != first)
        };
        let axis = AXES.iter().copied().find(|key| varies(key));
        let (mut operations, mut charts): (Vec<String>, Vec<(String, Vec<&Cell>)>) = Default::default();
        for cell in cells {
            let operation = Self::operation(cell);
            if !operations.contains(&operation) {
                operations.push(operation);
            }
            let title = Self::chart(cell, axis);
            match charts.iter_mut().find(|(t, _)| *t == title) {
                Some((_, list)) => list.push(cell),
                None => charts.push((title, vec![cell])),
            }
        }
        Self { axis, operations, charts }
    }

    /// Returns what is done, without how much of it.
    fn operation(cell: &Cell) -> String {
        let mut point = cell.workload.clone();
        point.0.retain(|key, _| OPERATIONS.contains(&key.as_str()));
        workload::title(&point)
    }

    /// Returns the title of the chart that a cell is in: what varies beside the axis and the operation.
    fn chart(cell: &Cell, axis: Option<&str>) -> String {
        let rest = cell
            .workload
            .0
            .keys()
            .filter(|k| !OPERATIONS.contains(&k.as_str()) && !SILENT.contains(&k.as_str()) && Some(k.as_str()) != axis);
        let word = |key: &String| match key.as_str() {
            "size" => format!("requests of {}", crate::plan::size_name(cell.workload.int("size", 0))),
            "depth" => format!("{} under way", cell.workload.shown(key)),
            "clients" => format!("{} clients", cell.workload.shown(key)),
            key => format!("{key} {}", cell.workload.shown(key)),
        };
        rest.map(word).collect::<Vec<_>>().join(", ")
    }

    /// Returns where a cell stands on the axis.
    fn place(&self, cell: &Cell) -> String {
        match self.axis {
            Some("depth") => format!("×{}", cell.workload.int("depth", 16)),
            Some("size") => crate::plan::size_name(cell.workload.int("size", 0)),
            Some(key) => format!("{} {key}", cell.workload.shown(key)),
            None => String::new(),
        }
    }

    /// Returns one metric of a chart's cells as bars, a group for each place on the axis.
    fn groups(&self, data: &Data, cells: &[&Cell], metric: &Metric, shares: bool) -> Vec<Group> {
        let mut all: Vec<Group> = Vec::new();
        for cell in cells {
            let operation = Self::operation(cell);
            let found = cell.interval(metric.name);
            let beside = share(data, cell).filter(|_| shares).map(|s| format!("({})", percent(s))).unwrap_or_default();
            let why = || cell.missing.first().cloned().unwrap_or_else(|| "not measured".into());
            let bar = Bar {
                colour: self.operations.iter().position(|o| *o == operation).unwrap_or(0),
                label: operation,
                value: found.map(|f| f.median),
                range: found.filter(|_| cell.all(metric.name).len() > 1).map(|f| (f.low, f.high)),
                note: if found.is_some() { beside } else { why() },
            };
            let label = self.place(cell);
            match all.iter_mut().find(|g| g.label == label) {
                Some(group) => group.bars.push(bar),
                None => all.push(Group { label, bars: vec![bar] }),
            }
        }
        all
    }
}

/// Returns the charts of a single cluster, with a legend of its operations.
pub fn panels(data: &Data) -> Markup {
    let cells = measured(data);
    let arranged = Arranged::of(&cells);
    html! {
        ul.legend { @for (i, name) in arranged.operations.iter().enumerate() { li { span class=(format!("swatch b{}", i % 8)) {} (name) } } }
        div.panels { @for (i, (title, cells)) in arranged.charts.iter().enumerate() { (panel(data, &arranged, title, cells, i)) } }
    }
}

fn panel(data: &Data, arranged: &Arranged<'_>, title: &str, cells: &[&Cell], number: usize) -> Markup {
    let name = cells.first().map_or("ops_per_second", |c| data.main_metric(&c.workload));
    let metric = metrics::find(name).unwrap_or(&metrics::METRICS[0]);
    let main = arranged.groups(data, cells, metric, true);
    let title = if title.is_empty() { "All operations" } else { title };
    let small = |name: &&str| {
        let metric = metrics::find(name).filter(|m| cells.iter().any(|c| c.median(m.name).is_some_and(|v| v > 0.0)))?;
        Some((metric, arranged.groups(data, cells, metric, false)))
    };
    let small: Vec<_> = charts::BESIDE.iter().filter_map(small).collect();
    html! {
        figure.panel {
            figcaption { strong { (title) } span.unit { (metric.title) ", " (metric.unit) @if metric.better == Better::Less { " – less is better" } @if cells.iter().any(|c| share(data, c).is_some()) { " (share of the disk)" } } }
            (bars(&format!("{title}, {}", metric.title), &main, charts::most(&main), false))
            (thumbnails(title, &small, number))
        }
    }
}

/// Returns the answer of the first screen: how much of the bare disk's rate reaches clients.
pub fn verdict(data: &Data) -> Markup {
    let cells = measured(data);
    if !cells.iter().any(|c| share(data, c).is_some()) {
        let bare = data.experiment.clusters.iter().any(is_bare);
        return html! {
            p { @if bare { "The bare disk could not be measured, so the figures have nothing to be set beside; the end of the page says why." }
                @else { "The bare disk was not measured in this run, so the figures have nothing to be set beside." } }
        };
    }
    let arranged = Arranged::of(&cells);
    html! {
        ul.said { @for sentence in sentences(data, &cells) { li { (sentence) } } }
        div.scroll { table {
            thead { tr { th { "load" } @for o in &arranged.operations { th.r { (o) br; span.unit { "share of the disk" } } } } }
            tbody { @for (title, cells) in &arranged.charts { @for row in rows(&arranged, cells) { tr {
                td { (title) @if !title.is_empty() && !row.0.is_empty() { ", " } (row.0) }
                @for o in &arranged.operations { td.r { @match row.1.iter().find(|c| Arranged::operation(c) == *o) {
                    Some(cell) => { (rate(data, cell)) }
                    None => { "–" }
                } } }
            } } } }
        } }
        p.hint {
            "100 % is what fio does on the bare disk (in nacre demo: on a file beside the cluster), with requests of the same size, as many under way, past the page cache; its writes are durable one by one, as a cluster's are. "
            "Above 100 %: writes of many clients share flushes, and reads come from memory."
        }
    }
}

/// Returns the rows of a chart's table: a place on the axis, and its cells.
fn rows<'a>(arranged: &Arranged<'_>, cells: &[&'a Cell]) -> Vec<(String, Vec<&'a Cell>)> {
    let mut all: Vec<(String, Vec<&Cell>)> = Vec::new();
    for cell in cells {
        let place = arranged.place(cell);
        match all.iter_mut().find(|(p, _)| *p == place) {
            Some((_, list)) => list.push(cell),
            None => all.push((place, vec![cell])),
        }
    }
    all
}

fn rate(data: &Data, cell: &Cell) -> Markup {
    let name = data.main_metric(&cell.workload);
    let unit = metrics::find(name).map_or("", |m| m.unit);
    html! {
        @match cell.median(name) {
            Some(value) => { (figures(value)) " " (unit) }
            None => { "–" }
        }
        br; strong { @match share(data, cell) { Some(s) => { (percent(s)) } None => { "–" } } }
    }
}

/// Returns a sentence for writes and one for reads: the best and the worst share, and what they are shares of.
pub fn sentences(data: &Data, cells: &[&Cell]) -> Vec<String> {
    let mut said = Vec::new();
    for (writing, word) in [(true, "Writes"), (false, "Reads")] {
        let mut found: Vec<(f64, &Cell)> =
            cells.iter().filter(|c| writes(&c.workload) == Some(writing)).filter_map(|c| Some((share(data, c)?, *c))).collect();
        found.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (Some(least), Some(best)) = (found.first(), found.last()) else { continue };
        let middle = found[found.len() / 2].0;
        let one = |(share, cell): &(f64, &Cell)| format!("{} at {}", percent(*share), data.title(&cell.workload));
        said.push(match found.len() {
            1 => format!("{word} reach {} of what the bare disk does.", one(best)),
            _ => format!(
                "{word} reach {} of what the bare disk does (median of {} loads): from {} to {}.",
                percent(middle),
                found.len(),
                one(least),
                one(best)
            ),
        });
    }
    said
}

#[cfg(test)]
mod tests {
    use super::super::data::tests::one_cluster;
    use super::*;

    #[test]
    fn loads_are_arranged_by_what_varies() {
        let data = one_cluster(true);
        assert!(is_single(&data));
        let cells = measured(&data);
        let arranged = Arranged::of(&cells);
        assert_eq!(
            (arranged.axis, arranged.operations.as_slice()),
            (Some("depth"), ["write".to_owned(), "rand".to_owned()].as_slice())
        );
        let titles: Vec<&str> = arranged.charts.iter().map(|c| c.0.as_str()).collect();
        assert_eq!(titles, ["requests of 4K", "requests of 4M"]);
        let groups = arranged.groups(&data, &arranged.charts[0].1, &metrics::METRICS[0], true);
        assert_eq!(groups.iter().map(|g| (g.label.as_str(), g.bars.len())).collect::<Vec<_>>(), [("×1", 2), ("×16", 2)]);
        let text = panels(&data).into_string();
        assert!(text.contains("requests of 4M") && text.contains(">×16<"), "{text}");
    }

    #[test]
    fn figures_are_set_beside_the_bare_disk() {
        let data = one_cluster(true);
        let cell = measured(&data)[0];
        let raw = baseline(&data, cell).unwrap();
        assert_eq!((raw.workload.text("target").as_str(), raw.workload.int("depth", 0)), ("journal", 1));
        assert_eq!(share(&data, cell), Some(0.5));
        let text = verdict(&data).into_string();
        assert!(text.contains("50 %") && text.contains("Writes reach"), "{text}");
        let none = verdict(&one_cluster(false)).into_string();
        assert!(none.contains("was not measured in this run"), "{none}");
    }

    #[test]
    fn several_clusters_are_compared_load_by_load() {
        assert!(!is_single(&super::super::data::tests::made_up(1.0)));
    }
}
