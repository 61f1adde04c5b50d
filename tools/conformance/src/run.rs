//! Runs a list of cases and says, for each, whether ours counts as the real one's.

use crate::cases::Case;
use crate::cluster::{Client, Outcome, SECONDS};
use crate::compare::{Mode, difference, difference_of_digests, digest};
use crate::recordings::Recording;
use crate::sheet::Shown;
use anyhow::Result;
use std::collections::{BTreeMap, HashMap};
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
    /// What clients of another release showed on a real cluster (digests, by recording's name); the recordings only
    /// give the commands.
    Answers(&'a BTreeMap<String, Recording>, &'a HashMap<String, Vec<Shown>>),
}

/// Files that the commands read.
fn furnish(work: &Path) -> Result<()> {
    std::fs::create_dir_all(work)?;
    std::fs::write(work.join("f5k"), [b'x'; 5000])?;
    Ok(std::fs::write(work.join("empty.conf"), "")?)
}

/// Runs `cases` in order against the cluster of `conf`, with scratch files in `work`.
pub fn run(cases: &[Case], client: &Client, conf: &Path, work: &Path, oracle: &Oracle<'_>) -> Result<Vec<Verdict>> {
    let peer_work = work.join("peer");
    furnish(work)?;
    furnish(&peer_work)?;
    let mut verdicts = Vec::new();
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for case in cases {
        match case {
            Case::Prepare { command } => {
                if let Oracle::Live(_, peer) = oracle {
                    client.shell(command, &peer_work, peer, SECONDS)?;
                }
                let outcome = client.shell(command, work, conf, SECONDS)?;
                if outcome.code != 0 {
                    let difference = Some(format!("must succeed: exit {} {}", outcome.code, outcome.err.trim()));
                    verdicts.push(Verdict { command: command.clone(), mode: Mode::Code, difference });
                }
            }
            Case::Compare { recording, .. } => {
                let nth = seen.entry(recording).or_default();
                verdicts.push(compare(case, *nth, client, conf, (work, &peer_work), oracle)?);
                *nth += 1;
            }
        }
    }
    Ok(verdicts)
}

/// Runs `cases` against a real cluster and gives what is kept of them: in the format of sheets, digests by recordings'
/// names.
pub fn record(
    cases: &[Case],
    client: &Client,
    recordings: &BTreeMap<String, Recording>,
    peer: &Path,
    work: &Path,
) -> Result<String> {
    furnish(work)?;
    let mut kept = String::new();
    for case in cases {
        match case {
            Case::Prepare { command } => drop(client.shell(command, work, peer, SECONDS)?),
            Case::Compare { mode, recording, command, filter, .. } => {
                let command = command.as_ref().or(recordings.get(recording).map(|r| &r.command));
                let Some(command) = command else { anyhow::bail!("there is no recording {recording}") };
                let outcome = client.shell(command, work, peer, SECONDS)?;
                let text = digest(*mode, &shown(&outcome, *mode, filter.as_deref(), work)?);
                kept.push_str(&format!("$ {recording}\n"));
                text.lines().for_each(|line| kept.push_str(&format!("| {line}\n")));
                kept.push_str(&format!("= {}\n", outcome.code));
            }
        }
    }
    Ok(kept)
}

/// Returns what of an outcome is compared, after its filter.
fn shown(outcome: &Outcome, mode: Mode, filter: Option<&str>, work: &Path) -> Result<String> {
    let text = if mode == Mode::Said { &outcome.err } else { &outcome.out };
    match filter {
        Some(filter) => pipe(text, filter, work),
        None => Ok(text.clone()),
    }
}

/// `nth` counts the cases with the same recording; of `works`, the second one is for the real cluster.
fn compare(
    case: &Case,
    nth: usize,
    client: &Client,
    conf: &Path,
    (work, peer_work): (&Path, &Path),
    oracle: &Oracle<'_>,
) -> Result<Verdict> {
    let Case::Compare { mode, recording: name, command, filter, without } = case else {
        anyhow::bail!("a preparation is not compared");
    };
    let (mode, command, filter) = (*mode, command.as_deref(), filter.as_deref());
    let (Oracle::Recorded(recordings) | Oracle::Live(recordings, _) | Oracle::Answers(recordings, _)) = oracle;
    let Some(recording) = recordings.get(name) else {
        let difference = Some(format!("there is no recording {name}"));
        return Ok(Verdict { command: name.into(), mode, difference });
    };
    let command = command.unwrap_or(&recording.command);
    let ours = client.shell(command, work, conf, SECONDS)?;
    let text = shown(&ours, mode, filter, work)?;
    let (code, found) = match oracle {
        Oracle::Answers(_, answers) => match answers.get(name).and_then(|all| all.get(nth)) {
            Some(theirs) => {
                let kept: String = theirs.out.iter().map(|line| format!("{line}\n")).collect();
                (theirs.code, difference_of_digests(mode, &digest(mode, &text), &kept, without))
            }
            None => (ours.code, Some("not recorded with a real cluster".into())),
        },
        Oracle::Recorded(_) => {
            let theirs = Outcome { out: recording.out.clone(), err: recording.err.clone(), code: recording.code };
            (theirs.code, difference(mode, &text, &shown(&theirs, mode, filter, work)?, without))
        }
        Oracle::Live(_, peer) => {
            let theirs = client.shell(command, peer_work, peer, SECONDS)?;
            (theirs.code, difference(mode, &text, &shown(&theirs, mode, filter, work)?, without))
        }
    };
    let difference =
        if ours.code == code { found } else { Some(format!("exit code {} instead of {code}: {}", ours.code, ours.err.trim())) };
    Ok(Verdict { command: command.into(), mode, difference })
}

/// `text` after a shell filter.
fn pipe(text: &str, filter: &str, work: &Path) -> Result<String> {
    let file = work.join("filtered.txt");
    std::fs::write(&file, text)?;
    Ok(Client::host().shell(&format!("{filter} < {}", file.display()), work, &file, SECONDS)?.out)
}

/// The verdicts as a Markdown table, with a column for each client.
pub fn markdown(columns: &[(Client, Vec<Verdict>)]) -> String {
    let mut out = String::from("| command | compared |");
    let many = columns.len() > 1;
    let title = |client: &Client| if many { format!(" {}: difference |", client.name) } else { " difference |".into() };
    columns.iter().for_each(|(client, _)| out.push_str(&title(client)));
    out.push_str(&format!("\n|---|---|{}\n", "---|".repeat(columns.len())));
    let mut rows: Vec<(&Verdict, Vec<String>)> = Vec::new();
    for (at, (_, verdicts)) in columns.iter().enumerate() {
        let mut from = 0;
        for v in verdicts {
            let difference = v.difference.as_deref().unwrap_or("none").replace('|', "\\|").replace('\n', " ");
            let same = (from..rows.len()).find(|row| rows[*row].0.command == v.command);
            let row = same.unwrap_or_else(|| {
                rows.push((v, vec!["none".into(); columns.len()]));
                rows.len() - 1
            });
            from = if same.is_some() { row + 1 } else { from };
            rows[row].1[at] = difference;
        }
    }
    for (v, differences) in rows {
        let mode = format!("{:?}", v.mode).to_lowercase();
        out.push_str(&format!("| `{}` | {mode} | {} |\n", v.command.replace('|', "\\|"), differences.join(" | ")));
    }
    out
}
