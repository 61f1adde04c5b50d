//! Runs the lists of cases against a cluster of ours, or against ours and a real one side by side.

use anyhow::{Context, Result};
use clap::Parser;
use conformance::cluster::{Client, Cluster, Options, SECONDS, clients};
use conformance::compare::{Mode, difference};
use conformance::run::{self, Oracle};
use conformance::{cases, recordings, sheet};
use std::collections::HashMap;
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
    /// Clients of another release as well: RELEASE=FOLDER, where `release.sh install` has put them. Repeatable.
    #[arg(long, value_name = "RELEASE=FOLDER")]
    client: Vec<String>,
    /// Only those, not this host's.
    #[arg(long, requires = "client")]
    others_only: bool,
    /// Only record what the real cluster answers to clients of other releases.
    #[arg(long, requires_all = ["peer", "client"])]
    record: bool,
    /// Write the table here (Markdown).
    #[arg(long)]
    report: Option<PathBuf>,
    /// Lists of cases; all by default.
    lists: Vec<PathBuf>,
}

/// Counts, and names what differs.
#[derive(Default)]
struct Tally {
    passed: u32,
    failed: u32,
}

impl Tally {
    fn count(&mut self, client: &Client, what: &str, difference: Option<&str>) {
        match difference {
            None => self.passed += 1,
            Some(difference) => {
                self.failed += 1;
                let shown: String = difference.chars().take(600).collect();
                println!("DIFFERS {} {what}\n        {shown}", client.name);
            }
        }
    }
}

fn main() -> Result<ExitCode> {
    let args = Args::parse();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let recordings = recordings::load(&root.join("../../tests/data/recordings.tar.xz"))?;
    let lists = if args.lists.is_empty() { all_lists(&root.join("cases"))? } else { args.lists.clone() };
    let clients = clients(&args.client, args.others_only || args.record)?;
    let (mut table, mut tally) = (String::new(), Tally::default());
    for list in lists {
        let text = std::fs::read_to_string(&list).with_context(|| list.display().to_string())?;
        let cases = cases::parse(&text).with_context(|| list.display().to_string())?;
        let name = list.file_stem().and_then(|s| s.to_str()).unwrap_or("cases").to_owned();
        let mut columns = Vec::new();
        for client in &clients {
            let dir = tempfile::tempdir()?;
            let kept = client.recorded(&root.join("cases")).join(format!("{name}.expected"));
            if let (true, Some(peer)) = (args.record, &args.peer) {
                std::fs::create_dir_all(kept.parent().unwrap_or(root))?;
                std::fs::write(&kept, run::record(&cases, client, &recordings, peer, dir.path())?)?;
                continue;
            }
            let answers = if client.root.is_some() { sheet::read(&std::fs::read_to_string(&kept)?) } else { HashMap::new() };
            let oracle = match (&args.peer, &client.root) {
                (Some(conf), _) => Oracle::Live(&recordings, conf),
                (None, None) => Oracle::Recorded(&recordings),
                (None, Some(_)) => Oracle::Answers(&recordings, &answers),
            };
            let cluster = Cluster::start(&dir.path().join("cluster"), options(&args, 1))?;
            let verdicts = run::run(&cases, client, &cluster.conf(), dir.path(), &oracle)?;
            verdicts.iter().for_each(|v| tally.count(client, &v.command, v.difference.as_deref()));
            columns.push((client.clone(), verdicts));
        }
        table.push_str(&format!("## {name}\n\n{}\n", run::markdown(&columns)));
    }
    if args.lists.is_empty() && !args.record {
        for (client, (script, recorded, only_without_auth)) in clients.iter().flat_map(|c| STORIES.map(|story| (c, story))) {
            if !only_without_auth || args.auth == "none" {
                tally.count(client, script, story(&args, client, root, script, recorded)?.as_deref());
            }
        }
    }
    if let Some(report) = &args.report {
        std::fs::write(report, table)?;
    }
    println!("conformance: {} passed, {} failed", tally.passed, tally.failed);
    Ok(if tally.failed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn options(args: &Args, osds: u32) -> Options {
    Options { binary: args.nacre.clone(), osds, auth: args.auth.clone(), secure: args.secure, more: Vec::new() }
}

/// Scripts that tell what a client experiences, where it was recorded with a real cluster, and whether the script's
/// client knows no authentication.
const STORIES: [(&str, &str, bool); 4] = [
    ("librados_story.py", "librados.txt", false),
    ("classes_story.py", "classes.txt", false),
    ("gateway_story.py", "gateway.txt", false),
    ("vectors.py --seed 1 --count 600", "vectors.txt", true),
];

/// Returns what a client experiences, step by step: the first step that differs from what was recorded with a real
/// cluster, or from the one that runs now.
fn story(args: &Args, client: &Client, root: &Path, script: &str, recorded: &str) -> Result<Option<String>> {
    let script = format!("/usr/bin/python3 {}/stories/{script} \"$CEPH_CONF\" 2>&1", root.display());
    let dir = tempfile::tempdir()?;
    let cluster = Cluster::start(&dir.path().join("cluster"), options(args, 3))?;
    let ours = cluster.shell(client, &script, dir.path())?.out;
    let theirs = match &args.peer {
        Some(conf) => client.shell(&script, dir.path(), conf, SECONDS)?.out,
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
