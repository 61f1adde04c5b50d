//! Runs a list of cases and says, for each, whether ours counts as the real one's.

use crate::cases::Case;
use crate::cluster::{Outcome, shell};
use crate::compare::{Mode, difference};
use crate::recordings::Recording;
use anyhow::Result;
use std::collections::BTreeMap;
use std::path::Path;

/// What became of a case.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The command line.
    pub command: String,
    /// How it was compared.
    pub mode: Mode,
    /// What differs; `None` if nothing that counts.
    pub difference: Option<String>,
}

/// Where the real one's answers come from.
pub enum Oracle<'a> {
    /// What was recorded.
    Recorded(&'a BTreeMap<String, Recording>),
    /// A real cluster that runs now, by its `ceph.conf`; the recordings only give the commands.
    Live(&'a BTreeMap<String, Recording>, &'a Path),
}

/// Runs `cases` in order against the cluster of `conf`, with scratch files in `work`.
pub fn run(cases: &[Case], conf: &Path, work: &Path, oracle: &Oracle<'_>) -> Result<Vec<Verdict>> {
    let peer_work = work.join("peer");
    std::fs::create_dir_all(&peer_work)?;
    for dir in [work, &peer_work] {
        std::fs::write(dir.join("f5k"), [b'x'; 5000])?;
        std::fs::write(dir.join("empty.conf"), "")?;
    }
    let mut verdicts = Vec::new();
    for case in cases {
        match case {
            Case::Prepare { command } => {
                if let Oracle::Live(_, peer) = oracle {
                    shell(command, &peer_work, peer)?;
                }
                let outcome = shell(command, work, conf)?;
                if outcome.code != 0 {
                    let difference = Some(format!("must succeed: exit {} {}", outcome.code, outcome.err.trim()));
                    verdicts.push(Verdict { command: command.clone(), mode: Mode::Code, difference });
                }
            }
            Case::Compare { .. } => verdicts.push(compare(case, conf, work, &peer_work, oracle)?),
        }
    }
    Ok(verdicts)
}

fn compare(case: &Case, conf: &Path, work: &Path, peer_work: &Path, oracle: &Oracle<'_>) -> Result<Verdict> {
    let Case::Compare { mode, recording: name, command, filter, without } = case else {
        anyhow::bail!("a preparation is not compared");
    };
    let (mode, command) = (*mode, command.as_deref());
    let (Oracle::Recorded(recordings) | Oracle::Live(recordings, _)) = oracle;
    let Some(recording) = recordings.get(name) else {
        let difference = Some(format!("there is no recording {name}"));
        return Ok(Verdict { command: name.into(), mode, difference });
    };
    let command = command.unwrap_or(&recording.command);
    let theirs = match oracle {
        Oracle::Recorded(_) => Outcome { out: recording.out.clone(), err: recording.err.clone(), code: recording.code },
        Oracle::Live(_, peer) => shell(command, peer_work, peer)?,
    };
    let ours = shell(command, work, conf)?;
    let text = |outcome: &Outcome| match (mode, filter) {
        (Mode::Said, None) => Ok(outcome.err.clone()),
        (Mode::Said, Some(filter)) => pipe(&outcome.err, filter, work),
        (_, None) => Ok(outcome.out.clone()),
        (_, Some(filter)) => pipe(&outcome.out, filter, work),
    };
    let difference = if ours.code == theirs.code {
        difference(mode, &text(&ours)?, &text(&theirs)?, without)
    } else {
        Some(format!("exit code {} instead of {}: {}", ours.code, theirs.code, ours.err.trim()))
    };
    Ok(Verdict { command: command.into(), mode, difference })
}

/// `text` after a shell filter.
fn pipe(text: &str, filter: &str, work: &Path) -> Result<String> {
    let file = work.join("filtered.txt");
    std::fs::write(&file, text)?;
    Ok(shell(&format!("{filter} < {}", file.display()), work, &file)?.out)
}

/// The verdicts as a Markdown table.
pub fn markdown(verdicts: &[Verdict]) -> String {
    let mut out = String::from("| command | compared | difference |\n|---|---|---|\n");
    for v in verdicts {
        let difference = v.difference.as_deref().unwrap_or("none").replace('|', "\\|").replace('\n', " ");
        let mode = format!("{:?}", v.mode).to_lowercase();
        out.push_str(&format!("| `{}` | {mode} | {difference} |\n", v.command.replace('|', "\\|")));
    }
    out
}
