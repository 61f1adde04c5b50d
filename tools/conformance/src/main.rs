//! Runs the lists of cases against a cluster of ours, or against ours and a real one side by side.

use anyhow::{Context, Result};
use clap::Parser;
use conformance::cluster::{Cluster, Options};
use conformance::compare::{Mode, difference};
use conformance::run::{self, Oracle};
use conformance::{cases, recordings};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Compare what stock clients print against a cluster of ours with what a real Ceph 16.2.15 makes them print.
#[derive(Parser)]
struct Args {
    /// The nacre executable.
    #[arg(long, default_value = "target/release/nacre")]
    nacre: PathBuf,
    /// Authentication of the cluster: none or cephx.
    #[arg(long, default_value = "cephx")]
    auth: String,
    /// Clients encrypt all their traffic (needs cephx).
    #[arg(long)]
    secure: bool,
    /// ceph.conf of a real cluster that runs now; without it, the recordings are the oracle.
    #[arg(long)]
    peer: Option<PathBuf>,
    /// Write the table here (Markdown).
    #[arg(long)]
    report: Option<PathBuf>,
    /// Lists of cases; all by default.
    lists: Vec<PathBuf>,
}

fn main() -> Result<ExitCode> {
    let args = Args::parse();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let recordings = recordings::load(&root.join("../../tests/data/recordings.tar.xz"))?;
    let oracle = match &args.peer {
        Some(conf) => Oracle::Live(&recordings, conf),
        None => Oracle::Recorded(&recordings),
    };
    let lists = if args.lists.is_empty() { all_lists(&root.join("cases"))? } else { args.lists.clone() };
    let (mut table, mut failed, mut passed) = (String::new(), 0, 0);
    for list in lists {
        let text = std::fs::read_to_string(&list).with_context(|| list.display().to_string())?;
        let cases = cases::parse(&text).with_context(|| list.display().to_string())?;
        let dir = tempfile::tempdir()?;
        let cluster = Cluster::start(&dir.path().join("cluster"), options(&args, 1))?;
        let verdicts = run::run(&cases, &cluster.conf(), dir.path(), &oracle)?;
        for v in &verdicts {
            match &v.difference {
                None => passed += 1,
                Some(difference) => {
                    failed += 1;
                    let shown: String = difference.chars().take(600).collect();
                    println!("DIFFERS {}\n        {shown}", v.command);
                }
            }
        }
        let name = list.file_stem().and_then(|s| s.to_str()).unwrap_or("cases").to_owned();
        table.push_str(&format!("## {name}\n\n{}\n", run::markdown(&verdicts)));
    }
    if args.lists.is_empty() {
        for (script, recorded, only_without_auth) in STORIES {
            if only_without_auth && args.auth != "none" {
                continue;
            }
            match story(&args, root, script, recorded)? {
                None => passed += 1,
                Some(difference) => {
                    failed += 1;
                    println!("DIFFERS {script}\n        {difference}");
                }
            }
        }
    }
    if let Some(report) = &args.report {
        std::fs::write(report, table)?;
    }
    println!("conformance: {passed} passed, {failed} failed");
    Ok(if failed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn options(args: &Args, osds: u32) -> Options {
    Options { binary: args.nacre.clone(), osds, auth: args.auth.clone(), secure: args.secure, more: Vec::new() }
}

/// Scripts that tell what a client experiences, where it was recorded with a real cluster, and whether the script's client knows no
/// authentication.
const STORIES: [(&str, &str, bool); 3] = [
    ("librados_story.py", "librados.txt", false),
    ("classes_story.py", "classes.txt", false),
    ("vectors.py --seed 1 --count 600", "vectors.txt", true),
];

/// What a client experiences, step by step: the first step that differs from what was recorded with a real cluster, or from the one
/// that runs now.
fn story(args: &Args, root: &Path, script: &str, recorded: &str) -> Result<Option<String>> {
    let script = format!("/usr/bin/python3 {}/{script} \"$CEPH_CONF\" 2>&1", root.display());
    let dir = tempfile::tempdir()?;
    let cluster = Cluster::start(&dir.path().join("cluster"), options(args, 3))?;
    let ours = cluster.shell(&script, dir.path())?.out;
    let theirs = match &args.peer {
        Some(conf) => conformance::cluster::shell(&script, dir.path(), conf)?.out,
        None => std::fs::read_to_string(root.join("stories").join(recorded))?,
    };
    Ok(difference(Mode::Same, &ours, &theirs, &[]))
}

fn all_lists(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut lists: Vec<PathBuf> = std::fs::read_dir(folder)?.map(|e| e.map(|e| e.path())).collect::<std::io::Result<_>>()?;
    lists.retain(|p| p.extension().is_some_and(|e| e == "cases"));
    lists.sort();
    Ok(lists)
}
