//! A against B: which figures differ beyond the noise, and whether one of them is a regression.
//!
//! A side is a folder with results, or `FOLDER:CLUSTER`. Sides from one folder, whose repeats were made in turn, are
//! compared in pairs, so that what moved both alike counts for nothing; others are compared as they are. Only judged
//! metrics are tested; Holm's correction keeps the probability of any false call at 5 % for all tests together.

use crate::metrics::{self, Better, METRICS, figures};
use crate::plan::{Point, schema};
use crate::report::data::{Cell, Data};
use crate::results::Store;
use crate::stats::noise;
use crate::stats::test::{Outcome, holm, paired, smallest, welch};
use anyhow::{Context, Result, bail};
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};
use serde_json::json;
use std::path::Path;

/// One figure of one workload.
#[derive(Clone, Debug)]
pub struct Row {
    /// The workload.
    pub workload: String,
    /// The figure.
    pub metric: &'static metrics::Metric,
    /// Medians of both sides.
    pub medians: (f64, f64),
    /// The test.
    pub outcome: Outcome,
    /// True if they differ after the correction.
    pub differs: bool,
    /// True if B is worse, then.
    pub worse: bool,
}

/// All that was compared.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// Rows in order.
    pub rows: Vec<Row>,
    /// True if pairs were compared.
    pub pairs: bool,
    /// Repeats of each side.
    pub repeats: usize,
    /// Deviation of the logarithm of the ratio of two measurements of op/s: of one thing twice if A has that, else of
    /// the pairs.
    pub deviation: Option<f64>,
}

struct Side {
    data: Data,
    cluster: Option<Point>,
    folder: std::path::PathBuf,
}

fn side(text: &str) -> Result<Side> {
    let (folder, name) = match text.rsplit_once(':') {
        Some((folder, name)) if Path::new(folder).is_dir() && !name.is_empty() => (folder, Some(name)),
        _ => (text, None),
    };
    let data = Data::load(&Store::open(Path::new(folder))?)?;
    let cluster = match name {
        None => None,
        Some(name) => {
            let found = data.experiment.clusters.iter().find(|c| data.label(c) == name || c.text("name") == name);
            Some(
                found
                    .cloned()
                    .with_context(|| format!("{folder} has no cluster '{name}'; there are {}", data.labels().join(", ")))?,
            )
        }
    };
    Ok(Side { data, cluster, folder: std::fs::canonicalize(folder)? })
}

/// Compares two sides.
///
/// # Errors
/// A side cannot be read, or they have nothing in common.
pub fn compare(a: &str, b: &str) -> Result<Comparison> {
    let (a, b) = (side(a)?, side(b)?);
    let pairs = a.folder == b.folder && a.cluster.is_some() && b.cluster.is_some();
    let itself = pairs && a.cluster == b.cluster;
    let mut rows = Vec::new();
    for first in a.data.cells.iter().filter(|c| a.cluster.as_ref().is_none_or(|k| c.cluster == *k)) {
        let second = b.data.cells.iter().find(|c| {
            c.workload == first.workload
                && b.cluster.as_ref().map_or(same(&c.cluster, &first.cluster) || a.cluster.is_some(), |k| c.cluster == *k)
        });
        if let Some(second) = second {
            let name = if a.cluster.is_some() {
                a.data.title(&first.workload)
            } else {
                format!("{}, {}", a.data.label(&first.cluster), a.data.title(&first.workload))
            };
            rows.extend(METRICS.iter().filter(|m| m.judged).filter_map(|m| row(&name, m, first, second, pairs, itself)));
        }
    }
    if rows.is_empty() {
        bail!("the two have no workload in common that was measured three times or more on both sides");
    }
    let p: Vec<f64> = rows.iter().map(|r| r.outcome.p).collect();
    for (row, differs) in rows.iter_mut().zip(holm(&p, 1.0 - crate::stats::CONFIDENCE)) {
        let up = row.outcome.ratio > 1.0;
        row.differs = differs;
        row.worse = differs && (up == (row.metric.better == Better::Less));
    }
    let deviation = match a.data.noise("ops_per_second") {
        Some(noise) => Some(noise.deviation),
        None if pairs => spread(&a, &b),
        None => None,
    };
    let repeats = a.data.experiment.repeats().min(b.data.experiment.repeats()) as usize;
    Ok(Comparison { rows, pairs, repeats, deviation })
}

/// Deviation of the logarithms of op/s ratios of all pairs of two clusters, whose own differences count for nothing.
fn spread(a: &Side, b: &Side) -> Option<f64> {
    let of = |side: &Side, w: &Point| {
        let cell = side.data.cells.iter().find(|c| c.workload == *w && side.cluster.as_ref() == Some(&c.cluster))?;
        Some(cell.all("ops_per_second"))
    };
    let both = |w| Some((of(a, w)?, of(b, w)?)).filter(|(x, y)| x.len() == y.len());
    let cells: Vec<_> = a.data.experiment.workloads.iter().filter_map(both).collect();
    noise::estimate(&cells, 1).map(|n| n.deviation)
}

/// The same but for what names a build: its name and program.
fn same(a: &Point, b: &Point) -> bool {
    schema::CLUSTER.keys.iter().filter(|k| !matches!(k.name, "name" | "program")).all(|k| a.0.get(k.name) == b.0.get(k.name))
}

fn row(name: &str, metric: &'static metrics::Metric, a: &Cell, b: &Cell, pairs: bool, itself: bool) -> Option<Row> {
    let theirs = if itself { &b.again } else { &b.values };
    let (x, y) = (a.values.get(metric.name)?, theirs.get(metric.name)?);
    let outcome = if pairs {
        let both: Vec<(f64, f64)> = x.iter().filter_map(|(r, v)| Some((*v, y.iter().find(|(s, _)| s == r)?.1))).collect();
        let (x, y): (Vec<f64>, Vec<f64>) = both.into_iter().unzip();
        paired(&x, &y)
    } else {
        welch(&x.iter().map(|v| v.1).collect::<Vec<_>>(), &y.iter().map(|v| v.1).collect::<Vec<_>>())
    }?;
    let median = |values: &[(u32, f64)]| crate::stats::median(&values.iter().map(|v| v.1).collect::<Vec<_>>()).unwrap_or(0.0);
    Some(Row { workload: name.to_owned(), metric, medians: (median(x), median(y)), outcome, differs: false, worse: false })
}

impl Comparison {
    /// Returns true if something is worse.
    pub fn is_regression(&self) -> bool {
        self.rows.iter().any(|r| r.worse)
    }

    /// The smallest difference of op/s that as many repeats show in four of five cases, if the noise was measured.
    pub fn smallest(&self) -> Option<f64> {
        smallest(self.deviation?, self.repeats, self.rows.len())
    }

    /// The same for programs.
    pub fn json(&self) -> String {
        let row = |r: &Row| {
            json!({
                "workload": r.workload, "figure": r.metric.name, "a": r.medians.0, "b": r.medians.1, "ratio": r.outcome.ratio,
                "low": r.outcome.low, "high": r.outcome.high, "p": r.outcome.p, "differs": r.differs, "worse": r.worse,
            })
        };
        let rows: Vec<serde_json::Value> = self.rows.iter().map(row).collect();
        format!(
            "{:#}\n",
            json!({
                "pairs": self.pairs, "repeats": self.repeats, "deviation_of_ops": self.deviation, "smallest_difference_of_ops": self.smallest(),
                "rows": rows,
            })
        )
    }

    /// The table and its sentences.
    pub fn text(&self) -> String {
        let mut table = Table::new();
        table.load_preset(UTF8_FULL_CONDENSED);
        table.set_header(["workload", "figure", "A", "B", "B / A", "95 %", "p", ""]);
        for r in &self.rows {
            let o = r.outcome;
            let verdict = match (r.differs, r.worse) {
                (true, true) => "worse",
                (true, false) => "better",
                _ => "",
            };
            let p = if o.p < 0.0001 { "<0.0001".into() } else { format!("{:.4}", o.p) };
            table.add_row([
                r.workload.clone(),
                format!("{}, {}", r.metric.title, r.metric.unit),
                figures(r.medians.0),
                figures(r.medians.1),
                format!("{:.3}", o.ratio),
                format!("{:.3}–{:.3}", o.low, o.high),
                p,
                verdict.into(),
            ]);
        }
        for column in table.column_iter_mut().skip(2).take(5) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        let (worse, better) =
            (self.rows.iter().filter(|r| r.worse).count(), self.rows.iter().filter(|r| r.differs && !r.worse).count());
        let mut text = format!(
            "{table}\n{} tests, {}; corrected by Holm's method, so any false call has a probability of at most 5 %.\n",
            self.rows.len(),
            if self.pairs { "repeats in pairs" } else { "repeats unpaired" }
        );
        if let Some(least) = self.smallest() {
            text += &format!("The smallest difference of op/s that this many repeats show here: {:.0} %.\n", least * 100.0);
        }
        text + &format!("{worse} worse, {better} better, {} not apart.\n", self.rows.len() - worse - better)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::Environment;
    use crate::plan::{order, reader};
    use crate::results::{Record, Status};

    /// A folder with made-up results of two clusters; `slower` is what B needs of processor time for A's one.
    fn folder(slower: f64) -> tempfile::TempDir {
        let text = "[experiment]\nname = 'x'\nrepeats = 8\n[[cluster]]\nname = ['a', 'b']\nkind = 'nacre'\n[[workload]]\nkind = 'rados'\nsize = '4K'\n";
        let e = reader::parse(text, "x", false).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let store = Store::make(folder.path(), &e).unwrap();
        store.note(&Environment::default()).unwrap();
        let mut dice = 5u64;
        for (i, run) in order::batches(&e).into_iter().flat_map(|b| b.runs).enumerate() {
            let drift = 1.0 + f64::from(run.repeat) / 20.0;
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let jitter = 1.0 + (dice >> 44) as f64 / f64::from(1u32 << 20) / 100.0;
            let us = 30.0 * drift * jitter * if run.cluster.text("name") == "b" { slower } else { 1.0 };
            let figures =
                [("ops_per_second", 20_000.0 / drift * jitter), ("server_us", us)].map(|(n, v)| (n.to_owned(), v)).into();
            let record = Record {
                run,
                status: Status::Done,
                message: String::new(),
                began: i as f64,
                command: String::new(),
                figures,
                series: Vec::new(),
                profiles: Default::default(),
            };
            store.put(&record, "").unwrap();
        }
        folder
    }

    #[test]
    fn a_regression_is_found_and_nothing_else() {
        let results = folder(1.05);
        let at = results.path().display();
        let found = compare(&format!("{at}:a"), &format!("{at}:b")).unwrap();
        assert!(found.is_regression(), "{}", found.text());
        let worse: Vec<&str> = found.rows.iter().filter(|r| r.worse).map(|r| r.metric.name).collect();
        assert_eq!(worse, ["server_us"], "{}", found.text());
        let told: serde_json::Value = serde_json::from_str(&found.json()).unwrap();
        assert_eq!((told["rows"][1]["figure"].as_str(), told["rows"][1]["worse"].as_bool()), (Some("server_us"), Some(true)));
        assert!(!compare(&format!("{at}:b"), &format!("{at}:a")).unwrap().is_regression());
        let itself = compare(&format!("{at}:a"), &format!("{at}:a")).unwrap();
        assert!(!itself.rows.iter().any(|r| r.differs), "{}", itself.text());
        assert!(!compare(&at.to_string(), &at.to_string()).unwrap().is_regression());
        assert!(
            compare(&format!("{at}:c"), &format!("{at}:a")).unwrap_err().to_string().contains("no cluster 'c'; there are a, b")
        );
    }
}
