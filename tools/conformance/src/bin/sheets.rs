//! Runs sheets (see `conformance::sheet`) against a cluster of ours, compares with what is recorded of a real one, and
//! writes the table.

use anyhow::{Context, Result};
use clap::Parser;
use conformance::cluster::{Client, Cluster, Options, clients};
use conformance::sheet::{self, Row};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

/// Compare long sequences of stock `rbd` commands with what a real Ceph 16.2.15 answers.
#[derive(Parser)]
struct Args {
    /// The nacre executable.
    #[arg(long, default_value = "target/release/nacre")]
    nacre: PathBuf,
    /// Authentication of the cluster: none or cephx.
    #[arg(long, default_value = "cephx")]
    auth: String,
    /// ceph.conf of a cluster of ours that runs already, instead of a new one.
    #[arg(long)]
    ours: Option<PathBuf>,
    /// ceph.conf of a real cluster that runs now; without it, what is recorded is the oracle.
    #[arg(long)]
    peer: Option<PathBuf>,
    /// Only record what the real cluster answers.
    #[arg(long, requires = "peer")]
    record: bool,
    /// Clients of another release as well: RELEASE=FOLDER, where `release.sh install` has put them. Repeatable.
    #[arg(long, value_name = "RELEASE=FOLDER")]
    client: Vec<String>,
    /// Only those, not this host's.
    #[arg(long, requires = "client")]
    others_only: bool,
    /// Write the table here (Markdown).
    #[arg(long)]
    report: Option<PathBuf>,
    /// Sheets, by name; all by default.
    sheets: Vec<String>,
}

/// Pools that sheets use; they are made anew before each, by one process: starting `ceph` nine times takes longer.
const POOLS: &str = r#"/usr/bin/python3 -c "
import os, rados, rbd
c = rados.Rados(conffile=os.environ['CEPH_CONF'], rados_id='admin')
c.connect()
for name in ('rbd', 'rbd2', 'volumes'):
    if c.pool_exists(name):
        c.delete_pool(name)
    c.create_pool(name)
    io = c.open_ioctx(name)
    io.application_enable('rbd')
    rbd.RBD().pool_init(io, True)
" "#;

/// Seconds that making them may take.
const POOLS_SECONDS: u32 = 300;

fn main() -> Result<ExitCode> {
    let args = Args::parse();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("sheets");
    let names = if args.sheets.is_empty() { all(&folder)? } else { args.sheets.clone() };
    let dir = tempfile::tempdir()?;
    let cluster = match (&args.ours, args.record) {
        (None, false) => Some(Cluster::start(&dir.path().join("cluster"), options(&args))?),
        _ => None,
    };
    let conf = args.ours.clone().or(cluster.as_ref().map(Cluster::conf)).unwrap_or_default();
    let clients = clients(&args.client, args.others_only)?;
    let (mut table, mut passed, mut failed) = (String::new(), 0, 0);
    for name in names {
        let file = folder.join(format!("{name}.steps"));
        let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        let mut columns = Vec::new();
        for client in &clients {
            if !args.record && args.peer.is_none() && !client.recorded(&folder).join(format!("{name}.expected")).exists() {
                println!("{} {name}: left out, nothing is recorded with these clients", client.name);
                continue;
            }
            let sheet = Sheet { name: &name, text: &text, folder: &folder, work: &dir.path().join(&client.name) };
            match sheet.rows(&args, client, &conf) {
                Ok(rows) => columns.push((client.clone(), rows)),
                Err(e) => {
                    failed += 1;
                    println!("DIFFERS {} {name}: {e:#}", client.name);
                }
            }
        }
        let all = || columns.iter().flat_map(|(_, rows)| rows);
        let good = all().filter(|row| Row::passed(row)).count();
        (passed, failed) = (passed + good, failed + all().count() - good);
        if !columns.is_empty() {
            table.push_str(&format!("## {}\n\n{}\n", sheet::title(&text, &name), sheet::markdown(&columns)));
        }
    }
    if let Some(report) = &args.report {
        std::fs::write(report, table)?;
    }
    println!("sheets: {passed} passed, {failed} failed");
    Ok(if failed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// One sheet.
struct Sheet<'a> {
    name: &'a str,
    text: &'a str,
    folder: &'a Path,
    work: &'a Path,
}

impl Sheet<'_> {
    /// Runs it with one client, and compares; no rows if it was only recorded.
    fn rows(&self, args: &Args, client: &Client, conf: &Path) -> Result<Vec<Row>> {
        let name = self.name;
        let steps = sheet::parse(self.text, &client.name)?;
        let expected = client.recorded(self.folder).join(format!("{name}.expected"));
        if let Some(peer) = &args.peer {
            let shown = run(&steps, client, peer, &self.work.join(format!("{name}.peer"))).context("peer")?;
            std::fs::create_dir_all(expected.parent().unwrap_or(self.folder))?;
            std::fs::write(&expected, sheet::write(&steps, &shown))?;
            println!("{} {name}: recorded", client.name);
        }
        if args.record {
            return Ok(Vec::new());
        }
        let began = Instant::now();
        let ours = run(&steps, client, conf, &self.work.join(name))?;
        let expected = std::fs::read_to_string(&expected).with_context(|| expected.display().to_string())?;
        let rows = sheet::compare(&steps, &ours, &sheet::read(&expected));
        for row in rows.iter().filter(|row| !row.passed()) {
            let difference = row.difference.as_deref().unwrap_or("not any more");
            println!("DIFFERS {} {name}: {}\n        {difference}", client.name, row.step.command);
        }
        let good = rows.iter().filter(|row| Row::passed(row)).count();
        println!("{} {name}: {good} of {} as expected, {:.0} s", client.name, rows.len(), began.elapsed().as_secs_f64());
        Ok(rows)
    }
}

fn run(steps: &[sheet::Step], client: &Client, conf: &Path, work: &Path) -> Result<Vec<sheet::Shown>> {
    std::fs::create_dir_all(work)?;
    for story in ["librbd_story.py", "caps_story.py", "perf_story.py", "details_story.py"] {
        std::os::unix::fs::symlink(Path::new(env!("CARGO_MANIFEST_DIR")).join("stories").join(story), work.join(story))?;
    }
    let made = client.shell(POOLS, work, conf, POOLS_SECONDS)?;
    anyhow::ensure!(made.code == 0, "pools were not made: {}", made.err);
    sheet::run(steps, client, conf, work)
}

fn options(args: &Args) -> Options {
    Options { binary: args.nacre.clone(), osds: 1, auth: args.auth.clone(), secure: false, more: Vec::new() }
}

fn all(folder: &Path) -> Result<Vec<String>> {
    let mut names: Vec<String> = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == "steps") {
            names.extend(path.file_stem().and_then(|s| s.to_str()).map(str::to_owned));
        }
    }
    names.sort();
    Ok(names)
}
