//! Which charts a report has.

use super::data::{Cell, Data};
use super::svg::{Bar, Group, Line, Look, bars, lines};
use crate::metrics::{self, Metric, figures};
use crate::plan::expand::varying;
use crate::plan::{Point, schema};
use maud::{Markup, html};
use std::collections::BTreeMap;

/// Arrangement of clusters: names of groups on the axis, and of the bars in each.
#[derive(Clone, Debug, PartialEq)]
pub struct Arrangement {
    /// Key whose values are groups; none is one group.
    pub group: Option<String>,
}

/// As the experiment asks, or by the file system if that varies beside something else.
pub fn arrangement(data: &Data) -> Arrangement {
    let all: Vec<&Point> = data.experiment.clusters.iter().collect();
    let keys: Vec<&str> = schema::CLUSTER.keys.iter().map(|k| k.name).collect();
    let differ = varying(&all, &keys);
    let asked = data.experiment.report.given("group");
    let group = asked.or_else(|| differ.iter().find(|k| *k == "fs").filter(|_| differ.len() > 1).cloned());
    Arrangement { group }
}

/// The label of a cluster inside of its group.
fn inner(data: &Data, cluster: &Point, group: &Option<String>) -> String {
    let Some(key) = group else { return data.label(cluster) };
    let shown = cluster.shown(key);
    let shown = if shown == "none" { "raw".into() } else { shown };
    let parts: Vec<String> = data.label(cluster).split(" · ").filter(|p| *p != shown).map(str::to_owned).collect();
    parts.join(" · ")
}

/// Bars of the second level keep their colour in every group.
fn colours(data: &Data, group: &Option<String>) -> BTreeMap<String, usize> {
    let mut all = BTreeMap::new();
    for cluster in &data.experiment.clusters {
        let next = all.len();
        all.entry(inner(data, cluster, group)).or_insert(next);
    }
    all
}

/// Groups of bars of one metric.
pub fn groups(data: &Data, cells: &[&Cell], metric: &Metric) -> Vec<Group> {
    let key = arrangement(data).group;
    let colour = colours(data, &key);
    let baseline = data.experiment.report.given("baseline");
    let base =
        cells.iter().find(|c| baseline.as_ref().is_none_or(|b| c.cluster.text("name") == *b)).and_then(|c| c.median(metric.name));
    let mut all: Vec<Group> = Vec::new();
    for (i, cell) in cells.iter().enumerate() {
        let label = key
            .as_ref()
            .map(|k| cell.cluster.shown(k))
            .map(|v| if v == "none" { "raw device".into() } else { v })
            .unwrap_or_default();
        let name = inner(data, &cell.cluster, &key);
        let found = cell.interval(metric.name);
        let ratio = match (base, found) {
            (Some(base), Some(found)) if base > 0.0 && i > 0 && key.is_none() => format!("{:.2}×", found.median / base),
            _ => String::new(),
        };
        let note = if found.is_some() { ratio } else { cell.missing.first().cloned().unwrap_or_else(|| "not measured".into()) };
        let range = found.filter(|_| cell.all(metric.name).len() > 1).map(|f| (f.low, f.high));
        let bar =
            Bar { colour: colour.get(&name).copied().unwrap_or(0), label: name, value: found.map(|f| f.median), range, note };
        match all.iter_mut().find(|g| g.label == label) {
            Some(group) => group.bars.push(bar),
            None => all.push(Group { label, bars: vec![bar] }),
        }
    }
    all
}

/// Returns the largest value of the bars, ends of intervals included.
pub fn most(groups: &[Group]) -> f64 {
    let value = |b: &Bar| b.range.map_or(0.0, |r| r.1).max(b.value.unwrap_or(0.0));
    groups.iter().flat_map(|g| g.bars.iter().map(value)).fold(0.0, f64::max)
}

/// The colour of a cluster in all charts and tables, and the dashes of its lines: one kind for each group.
pub fn look(data: &Data, cluster: &Point) -> Look {
    let key = arrangement(data).group;
    let colour = colours(data, &key).get(&inner(data, cluster, &key)).copied().unwrap_or(0);
    let dash = key.map_or(0, |k| group_names(data, &k).iter().position(|g| *g == cluster.shown(&k)).unwrap_or(0));
    Look { colour, dash }
}

fn group_names(data: &Data, key: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for name in data.experiment.clusters.iter().map(|c| c.shown(key)) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// The legend of colours; of lines' dashes, too, if there are `lines`.
pub fn legend(data: &Data, lines: bool) -> Markup {
    let key = arrangement(data).group;
    let colour = colours(data, &key);
    let mut all: Vec<(&String, &usize)> = colour.iter().collect();
    all.sort_by_key(|(_, i)| **i);
    let groups = key.filter(|_| lines).map(|k| group_names(data, &k)).unwrap_or_default();
    html! {
        ul.legend {
            @for (name, i) in all { li { span class=(format!("swatch b{}", i % 8)) {} (name) } }
            @for (i, name) in groups.iter().enumerate() {
                li { svg.sample viewBox="0 0 30 8" aria-hidden="true" { line class=(format!("d{}", i % 4)) x1="0" x2="30" y1="4" y2="4" {} } (if name.as_str() == "none" { "raw device" } else { name.as_str() }) }
            }
        }
    }
}

/// Small charts beside a large one, enlarged on a click.
pub const BESIDE: [&str; 6] = ["latency_ms", "p99_ms", "server_us", "machine_cpu", "data_wait_ms", "journal_wait_ms"];

/// The panel of a workload: one large chart and small ones.
pub fn panel(data: &Data, workload: &Point, cells: &[&Cell], number: usize) -> Markup {
    let metric = metrics::find(data.main_metric(workload)).unwrap_or(&metrics::METRICS[0]);
    let main = groups(data, cells, metric);
    let single = data.experiment.clusters.len() <= 1;
    let small = |name: &&str| {
        let metric = metrics::find(name).filter(|m| cells.iter().any(|c| c.median(m.name).is_some_and(|v| v > 0.0)))?;
        Some((metric, groups(data, cells, metric)))
    };
    let small: Vec<_> = BESIDE.iter().filter_map(small).collect();
    html! {
        figure.panel {
            figcaption { strong { (data.title(workload)) } span.unit { (metric.title) ", " (metric.unit) @if metric.better == metrics::Better::Less { " – less is better" } } }
            (bars(&format!("{}, {}", data.title(workload), metric.title), &main, most(&main), !single))
            (thumbnails(&data.title(workload), &small, number))
        }
    }
}

/// Returns small charts, each with its values; a click enlarges one.
pub fn thumbnails(title: &str, all: &[(&Metric, Vec<Group>)], number: usize) -> Markup {
    html! { @if !all.is_empty() { div class=(if all.len() % 3 == 1 { "small two" } else { "small" }) { @for (i, (metric, groups)) in all.iter().enumerate() { (thumbnail(title, metric, groups, &format!("z{number}-{i}"))) } } } }
}

fn thumbnail(title: &str, metric: &Metric, groups: &[Group], id: &str) -> Markup {
    let top = most(groups);
    let heading = format!("{title}: {}, {}", metric.title, metric.unit);
    html! {
        button type="button" popovertarget=(id) title=(format!("{heading} – click to enlarge")) {
            span { (metric.title) @if !metric.unit.is_empty() { ", " (metric.unit) } }
            @for group in groups {
                @if !group.label.is_empty() { i { (group.label) } }
                @for bar in &group.bars { @if let Some(v) = bar.value { div.row title=(bar.label) {
                    u class=(format!("b{}", bar.colour % 8)) style=(format!("width:{:.1}%", v / top.max(1e-12) * 62.0)) {}
                    b { (figures(v)) }
                } } }
            }
        }
        div.enlarged popover id=(id) { h4 { (heading) } (bars(&heading, groups, top, true)) }
    }
}

/// Curves over time of a workload's first repeat.
pub fn curves(data: &Data, workload: &Point, cells: &[&Cell], name: &str) -> Option<Markup> {
    let line = |cell: &&Cell| {
        let series = cell.series.iter().find(|s| s.name == name).filter(|s| s.points.len() > 2)?;
        Some(Line {
            label: data.label(&cell.cluster),
            look: look(data, &cell.cluster),
            points: series.points.clone(),
            marks: Vec::new(),
        })
    };
    let all: Vec<Line> = cells.iter().filter_map(line).collect();
    let title = metrics::find(name).map_or_else(|| name.to_owned(), |m| m.title.to_owned());
    let unit = metrics::find(name).map_or("", |m| m.unit);
    (!all.is_empty()).then(|| {
        html! { figure.panel { figcaption { strong { (data.title(workload)) } span.unit { (title) } } (lines(&data.title(workload), &all, "seconds since the start", unit)) } }
    })
}

/// Response curves: for workloads that differ in depth only, operations against latency.
pub fn responses(data: &Data) -> Vec<Markup> {
    let without_depth = |w: &Point| {
        let mut w = w.clone();
        w.0.remove("depth");
        w
    };
    let is_single = super::loads::is_single(data);
    let mut kinds: Vec<Point> = Vec::new();
    for w in &data.experiment.workloads {
        let kind = without_depth(w);
        let is_beside = is_single && w.text("kind") == "disk";
        if w.0.contains_key("depth") && !is_beside && !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    let one = |kind: &Point| {
        let line = |cluster: &Point| {
            let cells = data.cells.iter().filter(|c| c.cluster == *cluster && without_depth(&c.workload) == *kind);
            let found: Vec<(f64, f64, String)> = cells
                .filter_map(|c| Some((c.median("ops_per_second")?, c.median("latency_ms")?, c.workload.text("depth"))))
                .collect();
            let line = Line {
                label: data.label(cluster),
                look: look(data, cluster),
                points: found.iter().map(|f| (f.0, f.1)).collect(),
                marks: found.iter().map(|f| format!("×{}", f.2)).collect(),
            };
            (found.len() > 1).then_some(line)
        };
        let all: Vec<Line> = data.experiment.clusters.iter().filter_map(line).collect();
        (!all.is_empty()).then(|| {
            html! { figure.panel { figcaption { strong { (data.title(kind)) } span.unit { "down and right is better" } } (lines(&data.title(kind), &all, "op/s", "mean latency, ms")) } }
        })
    };
    kinds.iter().filter_map(one).collect()
}

/// Layer by layer: what is left of the raw disk.
pub fn waterfall(data: &Data) -> Vec<Markup> {
    let with_layer = |c: &&Cell| c.workload.given("layer").is_some();
    let cells: Vec<&Cell> = data.cells.iter().filter(with_layer).collect();
    let mut keys: Vec<(String, String)> = cells.iter().map(|c| (direction(&c.workload), c.workload.shown("size"))).collect();
    keys.dedup();
    let mut seen = Vec::new();
    keys.retain(|k| {
        !seen.contains(k) && {
            seen.push(k.clone());
            true
        }
    });
    let one = |(mode, size): &(String, String)| {
        let of: Vec<&&Cell> =
            cells.iter().filter(|c| direction(&c.workload) == *mode && c.workload.shown("size") == *size).collect();
        let first = of.iter().find_map(|c| c.median("ops_per_second"))?;
        let bar = |c: &&&Cell| {
            let found = c.interval("ops_per_second");
            let note = found
                .map_or_else(|| c.missing.first().cloned().unwrap_or_default(), |f| format!("{:.0} %", f.median / first * 100.0));
            let label = format!("{} – {}, {}", c.workload.text("layer"), data.label(&c.cluster), data.title(&c.workload));
            Bar { label, colour: look(data, &c.cluster).colour, value: found.map(|f| f.median), range: None, note }
        };
        let groups = [Group { label: String::new(), bars: of.iter().map(bar).collect() }];
        Some(
            html! { figure.panel.wide { figcaption { strong { (mode) " " (size) } span.unit { "operations per second, and the share of the first layer" } } (bars("layers", &groups, most(&groups), true)) } },
        )
    };
    seen.iter().filter_map(one).collect()
}

fn direction(workload: &Point) -> String {
    let mode =
        workload.given("mode").unwrap_or_else(|| if workload.text("kind") == "tell" { "write".into() } else { String::new() });
    if mode.contains("write") { "writes".into() } else { "reads".into() }
}

/// Median and interval in a table's cell.
pub fn with_range(cell: &Cell, metric: &str) -> String {
    match cell.interval(metric) {
        Some(i) if i.high > i.low => format!("{} ({}–{})", figures(i.median), figures(i.low), figures(i.high)),
        Some(i) => figures(i.median),
        None => "–".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::data::tests::made_up;
    use super::*;

    #[test]
    fn charts_show_every_cluster_and_what_is_missing() {
        let data = made_up(1.5);
        let (workload, cells) = &data.workloads()[0];
        let text = panel(&data, workload, cells, 1).into_string();
        assert!(text.contains("xfs") && text.contains("1.50×") && text.contains("popover"), "{text}");
        assert_eq!(responses(&data).len(), 2);
        assert!(curves(&data, workload, cells, "ops_per_second").is_some());
        assert!(curves(&data, workload, cells, "nothing").is_none());
        assert!(waterfall(&data).is_empty());
    }
}
