//! `nacre demo`: a quick experiment on a temporary cluster, a table, and a page at its end.

use crate::command::{self, RunOptions};
use crate::metrics::figures;
use crate::plan::{Experiment, Point, reader};
use crate::process::Interrupt;
use crate::report::{self, data::Data};
use crate::results::Store;
use crate::workload;
use anyhow::{Context, Result, bail};
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};
use serde_json::json;
use std::path::PathBuf;

/// The work to be done.
#[derive(Clone, Debug)]
pub struct Options {
    /// The `nacre` program.
    pub nacre: PathBuf,
    /// Place where the cluster's folder is made, and the page.
    pub folder: PathBuf,
    /// Number of OSDs.
    pub osds: u32,
    /// `none` or `cephx`.
    pub auth: String,
    /// Seconds of each measurement.
    pub seconds: u32,
    /// Only measurements whose name holds this.
    pub only: String,
    /// Print JSON instead of a table.
    pub json: bool,
    /// True if the user wants the end.
    pub interrupt: Interrupt,
}

/// Columns of the table.
const COLUMNS: [(&str, &str); 7] = [
    ("ops_per_second", "ops/s"),
    ("mb_per_second", "MB/s"),
    ("latency_ms", "mean ms"),
    ("server_p99_ms", "p99 ms (OSD)"),
    ("longest_ms", "max ms"),
    ("server_us", "server µs/op"),
    ("machine_us", "machine µs/op"),
];

fn experiment(options: &Options, has_fio: bool) -> Result<Experiment> {
    let text = format!(
        "[experiment]\nname = 'demo'\ntitle = 'What this machine does with Nacre'\n\
         about = 'A quick look: stock rados bench against a temporary cluster of {} OSDs, every measurement once.'\n\
         seconds = {}\nrepeats = 1\nnoise = false\nprefill = {}\n\
         [[cluster]]\nname = 'nacre'\nkind = 'nacre'\nosds = {}\nauth = '{}'\nmemory = '256M'\nosd_size = '64G'\n\
         [[workload]]\nkind = 'rados'\non = 'nacre'\nsize = ['4K', '128K', '4M']\ndepth = [1, 16, 256]\nmode = ['write', 'seq', 'rand']\n",
        options.osds,
        options.seconds,
        options.seconds.min(5),
        options.osds,
        options.auth,
    );
    let mut experiment = reader::parse(&(text + if has_fio { DISK } else { "" }), "demo", false)?;
    let wanted = options.only.replace(" x", " ×");
    experiment.workloads.retain(|w| is_of_disk(w) || workload::title(w).contains(&wanted));
    let loads: Vec<Point> = experiment.workloads.iter().filter(|w| !is_of_disk(w)).cloned().collect();
    if loads.is_empty() {
        bail!("no measurement has '{}' in its name; they are called like 'rand 128K x16'", options.only);
    }
    let alike = |w: &Point| loads.iter().any(|l| (l.text("size"), l.text("depth")) == (w.text("size"), w.text("depth")));
    experiment.workloads.retain(|w| !is_of_disk(w) || alike(w));
    Ok(experiment)
}

/// Plan for the bare disk: a file beside the cluster's folder, past the page cache, written durably.
const DISK: &str = "[[disk]]\nname = 'here'\nkind = 'file'\nsize = '512M'\n\
    [[cluster]]\nname = 'bare disk'\nkind = 'none'\ndisk = 'here'\njournal = 'here'\n\
    [[workload]]\nkind = 'disk'\non = 'bare disk'\ntarget = 'journal'\nmode = 'write'\nsize = ['4K', '128K', '4M']\ndepth = [1, 16, 256]\n\
    seconds = 1\nimage = '512M'\n\
    [[workload]]\nkind = 'disk'\non = 'bare disk'\nmode = ['read', 'randread']\nsize = ['4K', '128K', '4M']\ndepth = [1, 16, 256]\n\
    seconds = 1\nimage = '512M'\n";

fn is_of_disk(workload: &Point) -> bool {
    workload.text("kind") == "disk"
}

/// Returns true if fio is there; without it the bare disk is not measured.
fn has_fio() -> bool {
    std::env::var_os("PATH").is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join("fio").is_file()))
}

/// Runs it; gives the exit code. The cluster is stopped and removed also if a measurement fails.
///
/// # Errors
/// The cluster or a client fails.
pub fn run(options: &Options) -> Result<u8> {
    let has_fio = has_fio();
    if !has_fio {
        eprintln!("fio is not installed, so the figures are not set beside the bare disk's (Debian's package fio has it)");
    }
    let experiment = experiment(options, has_fio)?;
    let out = options.folder.join(format!("nacre-demo-{}", std::process::id()));
    let run = RunOptions {
        nacre: options.nacre.clone(),
        file: PathBuf::new(),
        out: out.clone(),
        quick: false,
        wipe: false,
        again: false,
    };
    eprintln!("starting a cluster of {} OSDs in {}", options.osds, options.folder.display());
    let ended = command::execute(&run, &experiment, options.interrupt.clone());
    let shown = match ended {
        Ok(0) => show(options, &out),
        Ok(code) => Ok(code),
        Err(e) => Err(e),
    };
    std::fs::remove_dir_all(&out).with_context(|| format!("remove {}", out.display()))?;
    shown
}

fn show(options: &Options, out: &std::path::Path) -> Result<u8> {
    let data = Data::load(&Store::open(out)?)?;
    if let Some(why) = of_cluster(&data).find_map(|c| c.missing.first()) {
        bail!("{why}");
    }
    match options.json {
        true => println!("{}", serde_json::to_string_pretty(&rows(&data))?),
        false => println!("{}", table(&data)),
    }
    let page = options.folder.join("nacre-demo.html");
    std::fs::write(&page, report::html::page(&data, "", None))?;
    eprintln!("the page: {}", page.display());
    Ok(0)
}

/// Returns the cells of the cluster, without those of the bare disk.
fn of_cluster(data: &Data) -> impl Iterator<Item = &report::data::Cell> {
    data.cells.iter().filter(|c| !is_of_disk(&c.workload))
}

fn rows(data: &Data) -> Vec<serde_json::Value> {
    let row = |cell: &report::data::Cell| {
        let mut row = json!({"name": workload::title(&cell.workload).replace('×', "x")});
        for (name, _) in COLUMNS {
            row[name] = json!(cell.median(name));
        }
        row
    };
    of_cluster(data).map(row).collect()
}

fn table(data: &Data) -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_FULL_CONDENSED);
    table.set_header(std::iter::once("rados bench").chain(COLUMNS.map(|c| c.1)));
    for cell in of_cluster(data) {
        let values = COLUMNS.map(|(name, _)| cell.median(name).map_or("-".into(), figures));
        table.add_row(std::iter::once(workload::title(&cell.workload)).chain(values));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(only: &str) -> Options {
        Options {
            nacre: PathBuf::new(),
            folder: PathBuf::new(),
            osds: 3,
            auth: "cephx".into(),
            seconds: 3,
            only: only.into(),
            json: false,
            interrupt: Interrupt::default(),
        }
    }

    #[test]
    fn measurements_are_chosen_by_name() {
        let names = |only| experiment(&options(only), false).map(|e| e.workloads.iter().map(workload::title).collect::<Vec<_>>());
        assert_eq!(names("").unwrap().len(), 27);
        assert_eq!(names("rand 4K").unwrap(), ["rand 4K ×1", "rand 4K ×16", "rand 4K ×256"]);
        assert_eq!(names("seq 4M x16").unwrap(), ["seq 4M ×16"]);
        assert!(names("nothing").unwrap_err().to_string().contains("no measurement has 'nothing'"));
        let beside = experiment(&options("rand 4K x16"), true).unwrap();
        let titles: Vec<String> = beside.workloads.iter().map(workload::title).collect();
        assert_eq!(titles, ["rand 4K ×16", "disk write 4K ×16", "disk read 4K ×16", "disk randread 4K ×16"]);
    }
}
