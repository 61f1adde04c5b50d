//! Records gathered into cells: one for each workload on each cluster, with all repeats.

use crate::environment::Environment;
use crate::metrics::{self, Better};
use crate::plan::expand::varying;
use crate::plan::{Experiment, Point, schema};
use crate::profile::Profiles;
use crate::results::{Record, Series, Status, Store};
use crate::stats::noise::{self, Noise};
use crate::stats::{self, Interval};
use crate::workload;
use anyhow::Result;
use std::collections::BTreeMap;

/// All repeats of a workload on a cluster.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    /// The cluster's permutation.
    pub cluster: Point,
    /// The workload's permutation.
    pub workload: Point,
    /// Values by metric: repeat and value.
    pub values: BTreeMap<String, Vec<(u32, f64)>>,
    /// The same of the measurements for the noise.
    pub again: BTreeMap<String, Vec<(u32, f64)>>,
    /// Curves of the first repeat.
    pub series: Vec<Series>,
    /// Reason why repeats are missing.
    pub missing: Vec<String>,
    /// Profiles that were made after the last repeat.
    pub profiles: Profiles,
}

impl Cell {
    /// Values of a metric.
    pub fn all(&self, metric: &str) -> Vec<f64> {
        self.values.get(metric).into_iter().flatten().map(|v| v.1).collect()
    }

    /// Median and interval of a metric.
    pub fn interval(&self, metric: &str) -> Option<Interval> {
        stats::interval(&self.all(metric))
    }

    /// Median of a metric.
    pub fn median(&self, metric: &str) -> Option<f64> {
        stats::median(&self.all(metric))
    }
}

/// All that a report is made from.
#[derive(Clone, Debug, Default)]
pub struct Data {
    /// The experiment that was asked for.
    pub experiment: Experiment,
    /// Place where it ran.
    pub environment: Environment,
    /// Cells in the experiment's order, workload by workload.
    pub cells: Vec<Cell>,
    /// Seconds since 1970 of the first record.
    pub began: f64,
    /// Seconds between the first and the last record.
    pub took: f64,
    /// Number of runs that were measured.
    pub runs: usize,
}

impl Data {
    /// Reads a folder with results.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn load(store: &Store) -> Result<Self> {
        Ok(Self::gather(store.experiment()?, store.environment().unwrap_or_default(), &store.records()?))
    }

    /// From records.
    pub fn gather(experiment: Experiment, environment: Environment, records: &[Record]) -> Self {
        let mut cells = Vec::new();
        for workload in &experiment.workloads {
            for cluster in experiment.clusters.iter().filter(|c| experiment.wants(c, workload)) {
                let of = records.iter().filter(|r| r.run.cluster == *cluster && r.run.workload == *workload);
                cells.push(cell(cluster, workload, of));
            }
        }
        let began = records.iter().map(|r| r.began).fold(f64::INFINITY, f64::min);
        let ended = records.iter().map(|r| r.began).fold(0.0, f64::max);
        let runs = records.iter().filter(|r| r.status == Status::Done).count();
        Self {
            experiment,
            environment,
            cells,
            began: if began.is_finite() { began } else { 0.0 },
            took: (ended - began).max(0.0),
            runs,
        }
    }

    /// A cluster's name, with the keys in which clusters of that name differ.
    pub fn label(&self, cluster: &Point) -> String {
        let same: Vec<&Point> = self.experiment.clusters.iter().filter(|c| c.text("name") == cluster.text("name")).collect();
        let keys: Vec<&str> = schema::CLUSTER.keys.iter().map(|k| k.name).collect();
        let differ = varying(&same, &keys);
        let parts = differ.iter().map(|k| part(cluster, k)).filter(|p| !p.is_empty());
        std::iter::once(cluster.text("name")).chain(parts).collect::<Vec<_>>().join(" · ")
    }

    /// Labels of all clusters, in order.
    pub fn labels(&self) -> Vec<String> {
        self.experiment.clusters.iter().map(|c| self.label(c)).collect()
    }

    /// Workloads in order, each with its cells.
    pub fn workloads(&self) -> Vec<(&Point, Vec<&Cell>)> {
        let of = |w: &Point| self.cells.iter().filter(|c| c.workload == *w).collect::<Vec<_>>();
        self.experiment.workloads.iter().map(|w| (w, of(w))).collect()
    }

    /// The metric of a workload's large chart.
    pub fn main_metric(&self, workload: &Point) -> &'static str {
        let asked = self.experiment.report.given("metric").and_then(|m| metrics::find(&m)).map(|m| m.name);
        match workload.text("kind").as_str() {
            "failover" => "gap_away_s",
            _ => asked.unwrap_or(if workload.int("size", 0) >= 1 << 18 { "mb_per_second" } else { "ops_per_second" }),
        }
    }

    /// The noise of a metric, from the cells that were measured twice.
    pub fn noise(&self, metric: &str) -> Option<Noise> {
        noise::estimate(&self.twice(metric), self.experiment.repeats() as usize)
    }

    /// First and second values of the cells that were measured twice.
    pub fn twice(&self, metric: &str) -> Vec<(Vec<f64>, Vec<f64>)> {
        let both = |cell: &Cell| {
            let again = cell.again.get(metric)?;
            let pairs = cell.values.get(metric)?.iter().filter_map(|(r, v)| Some((*v, again.iter().find(|(s, _)| s == r)?.1)));
            Some(pairs.unzip()).filter(|(a, _): &(Vec<f64>, Vec<f64>)| !a.is_empty())
        };
        self.cells.iter().filter_map(both).collect()
    }

    /// The best cell of a workload by a metric.
    pub fn best<'a>(&self, cells: &[&'a Cell], metric: &str) -> Option<&'a Cell> {
        let sign = if metrics::find(metric).is_some_and(|m| m.better == Better::Less) { -1.0 } else { 1.0 };
        let measured = cells.iter().filter_map(|c| Some((*c, c.median(metric)? * sign)));
        measured.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(c, _)| c)
    }

    /// The name of a workload.
    pub fn title(&self, workload: &Point) -> String {
        workload::title(workload)
    }
}

fn part(cluster: &Point, key: &str) -> String {
    match (key, cluster.shown(key)) {
        ("tcmalloc", t) => {
            if t == "true" {
                "tcmalloc".into()
            } else {
                String::new()
            }
        }
        ("osds", n) => format!("{n} OSDs"),
        ("copies", n) => format!("{n} copies"),
        ("fs", f) if f == "none" => "raw".into(),
        ("disk" | "journal" | "fs" | "store" | "erasure", text) => text,
        ("release", n) => format!("release {n}"),
        (_, text) if text.is_empty() => text,
        (key, text) => format!("{key} {text}"),
    }
}

fn cell<'a>(cluster: &Point, workload: &Point, records: impl Iterator<Item = &'a Record>) -> Cell {
    let mut cell = Cell { cluster: cluster.clone(), workload: workload.clone(), ..Cell::default() };
    for record in records {
        if record.status != Status::Done {
            if !cell.missing.contains(&record.message) {
                cell.missing.push(record.message.clone());
            }
            continue;
        }
        if record.profiles != Profiles::default() {
            cell.profiles.clone_from(&record.profiles);
        }
        if cell.series.is_empty() && !record.run.again {
            cell.series.clone_from(&record.series);
        }
        let into = if record.run.again { &mut cell.again } else { &mut cell.values };
        for (name, value) in &record.figures {
            into.entry(name.clone()).or_default().push((record.run.repeat, *value));
        }
    }
    for values in cell.values.values_mut().chain(cell.again.values_mut()) {
        values.sort_by_key(|v| v.0);
    }
    cell
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::plan::{order, reader};

    /// An experiment of two clusters and two workloads whose figures are made up, `factor` of them for the second
    /// cluster.
    pub(crate) fn made_up(factor: f64) -> Data {
        let text = "[experiment]\nname = 'x'\ntitle = 'Made up'\nrepeats = 4\n[[cluster]]\nname = 'a'\nkind = 'ceph'\nfs = ['xfs', 'ext4']\nstore = 'filestore'\n\
            [[workload]]\nkind = 'rados'\nmode = ['write', 'rand']\nsize = '4K'\ndepth = [1, 16]\n";
        let e = reader::parse(text, "x", false).unwrap();
        let mut records = Vec::new();
        for (i, run) in order::batches(&e).iter().flat_map(|b| b.runs.clone()).enumerate() {
            let ops = 1000.0 * (1.0 + i as f64 / 500.0) * if run.cluster.text("fs") == "ext4" { factor } else { 1.0 };
            let figures = [
                ("ops_per_second", ops),
                ("latency_ms", 1e3 / ops),
                ("server_us", 30.0),
                ("data_wait_ms", 2.0),
                ("data_util", 97.0),
            ];
            let figures = figures.into_iter().map(|(n, v)| (n.to_owned(), v)).collect();
            let series =
                vec![Series { name: "ops_per_second".into(), points: vec![(1.0, ops), (2.0, ops * 1.1), (3.0, ops * 0.9)] }];
            records.push(Record {
                run,
                status: Status::Done,
                message: String::new(),
                began: i as f64,
                command: String::new(),
                figures,
                series,
                profiles: Default::default(),
            });
        }
        records[3].status = Status::Failed;
        records[3].message = "the disk was full".into();
        Data::gather(e, Environment(vec![("kernel".into(), "6.18".into())]), &records)
    }

    /// An experiment of one cluster, with loads of two sizes, depths and operations; with the bare disk at twice its
    /// rates.
    pub(crate) fn one_cluster(with_disk: bool) -> Data {
        let mut text = "[experiment]\nname = 'x'\nrepeats = 1\nnoise = false\n[[cluster]]\nname = 'ours'\nkind = 'nacre'\n\
            [[workload]]\nkind = 'rados'\non = 'ours'\nmode = ['write', 'rand']\nsize = ['4K', '4M']\ndepth = [1, 16]\n"
            .to_owned();
        if with_disk {
            text += "[[disk]]\nname = 'here'\nkind = 'file'\n[[cluster]]\nname = 'disk'\nkind = 'none'\ndisk = 'here'\njournal = 'here'\n\
                [[workload]]\nkind = 'disk'\non = 'disk'\nmode = ['write', 'randread']\nsize = '4K'\ndepth = [1, 16]\n\
                [[workload]]\nkind = 'disk'\ntarget = 'journal'\non = 'disk'\nmode = 'write'\nsize = '4K'\ndepth = [1, 16]\n";
        }
        let e = reader::parse(&text, "x", false).unwrap();
        let record = |run: order::Run| {
            let bare = run.cluster.text("kind") == "none";
            let ops = run.workload.int("depth", 1) as f64 * if bare { 2000.0 } else { 1000.0 };
            let figures = [("ops_per_second", ops), ("mb_per_second", ops / 250.0), ("latency_ms", 1.0), ("server_us", 30.0)];
            let figures = figures.into_iter().map(|(n, v)| (n.to_owned(), v)).collect();
            Record {
                run,
                status: Status::Done,
                message: String::new(),
                began: 0.0,
                command: String::new(),
                figures,
                series: Vec::new(),
                profiles: Default::default(),
            }
        };
        let records: Vec<Record> = order::batches(&e).iter().flat_map(|b| b.runs.clone()).map(record).collect();
        Data::gather(e, Environment::default(), &records)
    }

    #[test]
    fn records_become_cells() {
        let data = made_up(1.5);
        assert_eq!((data.cells.len(), data.runs), (8, 47));
        assert_eq!(data.labels(), ["a · xfs", "a · ext4"]);
        assert_eq!(data.cells.iter().map(|c| c.missing.len()).sum::<usize>(), 1);
        assert!(data.noise("ops_per_second").is_some());
        let (_, cells) = &data.workloads()[0];
        assert_eq!(data.best(cells, "ops_per_second").map(|c| c.cluster.text("fs")).as_deref(), Some("ext4"));
        assert_eq!(data.best(cells, "latency_ms").map(|c| c.cluster.text("fs")).as_deref(), Some("ext4"));
    }
}
