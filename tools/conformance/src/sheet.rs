//! Sheets: long sequences of commands, each with what a real cluster printed for it, in two files beside each other.
//!
//! `NAME.steps` is written by people. A line is `SIGN COMMAND`; the sign says how the step is compared:
//!
//! - `$` output, error output and exit code, after what differs from run to run is masked;
//! - `~` the same with every number masked too, and blanks squeezed;
//! - `%` the exit code only;
//! - `&` as `$`, and each line that it prints, `STEP: RESULT`, is a row of the table: a script that tells what it
//!   experiences;
//! - `!` must succeed on both, and is not listed: prepares something.
//!
//! ` # text` says why a step is compared less strictly. A line of its own `differs: REASON` before a step says that
//! ours is meant to differ: then it must (a difference that is gone must be taken off the list), and the table shows
//! the reason. `differs RELEASE: REASON` holds for clients of that release only. `without RELEASE: REASON` leaves a
//! step out with them.
//!
//! `NAME.expected` is written by `--record`, from a real cluster: for each step `$ COMMAND`, its output as `| ` lines,
//! its error output as `2 ` lines, and `= CODE`.

use crate::cluster::{Client, Outcome};
use crate::mask;
use anyhow::{Context, Result, bail};
use std::collections::{HashMap, VecDeque};
use std::fmt::Write;
use std::path::Path;

/// Seconds that one step may take.
const STEP_SECONDS: u32 = 240;

/// How a step is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strictness {
    /// All but what differs from run to run.
    Same,
    /// Numbers masked.
    Shape,
    /// Exit code.
    Code,
    /// Line by line, each a row.
    Story,
    /// Must succeed.
    Prepare,
}

/// One line of a sheet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// How it is compared.
    pub strictness: Strictness,
    /// Shell command.
    pub command: String,
    /// Why it is compared less strictly.
    pub note: String,
    /// Why ours is meant to differ; empty if it is not.
    pub differs: String,
}

/// What a step printed, masked: what is written to and read from `NAME.expected`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// Lines of output.
    pub out: Vec<String>,
    /// Lines of error output.
    pub err: Vec<String>,
    /// Exit code.
    pub code: i32,
}

/// A compared step.
#[derive(Clone, Debug)]
pub struct Row {
    /// The step.
    pub step: Step,
    /// First line and exit code of ours.
    pub ours: String,
    /// The same of the real one.
    pub theirs: String,
    /// What differs; `None` if nothing.
    pub difference: Option<String>,
}

impl Row {
    /// Returns true if the row is as it should be.
    pub fn passed(&self) -> bool {
        self.difference.is_some() != self.step.differs.is_empty()
    }
}

/// The title of a sheet: its first line, if that is a comment.
pub fn title(text: &str, name: &str) -> String {
    text.lines().next().and_then(|line| line.strip_prefix("# ")).unwrap_or(name).to_owned()
}

/// Reads `NAME.steps`, as they are for clients of a release.
pub fn parse(text: &str, release: &str) -> Result<Vec<Step>> {
    let mut steps: Vec<Step> = Vec::new();
    let (mut differs, mut left_out) = (String::new(), false);
    let (ours_only, not_with) = (format!("differs {release}: "), format!("without {release}: "));
    for (i, line) in text.lines().enumerate() {
        if let Some(reason) = line.strip_prefix("differs: ").or(line.strip_prefix(&ours_only)) {
            differs = reason.trim().to_owned();
            continue;
        }
        if line.starts_with("differs ") || line.starts_with("without ") {
            left_out |= line.starts_with(&not_with);
            continue;
        }
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let (sign, rest) = line.split_once(' ').with_context(|| format!("line {}: a sign and a command", i + 1))?;
        let strictness = match sign {
            "$" => Strictness::Same,
            "~" => Strictness::Shape,
            "%" => Strictness::Code,
            "&" => Strictness::Story,
            "!" => Strictness::Prepare,
            _ => bail!("line {}: no sign is {sign:?}", i + 1),
        };
        let (command, note) = rest.split_once(" # ").unwrap_or((rest, ""));
        let step = Step {
            strictness,
            command: command.trim().to_owned(),
            note: note.trim().to_owned(),
            differs: std::mem::take(&mut differs),
        };
        if !std::mem::take(&mut left_out) {
            steps.push(step);
        }
    }
    Ok(steps)
}

/// Runs all steps in order against the cluster of `conf`, in `work`. Ends with an error at a preparation that fails.
pub fn run(steps: &[Step], client: &Client, conf: &Path, work: &Path) -> Result<Vec<Shown>> {
    let mut shown = Vec::new();
    for step in steps {
        let outcome = client.shell(&step.command, work, conf, STEP_SECONDS)?;
        if step.strictness == Strictness::Prepare && outcome.code != 0 {
            bail!("{:?} must succeed: exit {} {}{}", step.command, outcome.code, outcome.out, outcome.err);
        }
        shown.push(show(step, &outcome, work));
    }
    Ok(shown)
}

fn show(step: &Step, outcome: &Outcome, work: &Path) -> Shown {
    let (out, err) = match step.strictness {
        Strictness::Code | Strictness::Prepare => (Vec::new(), Vec::new()),
        how => {
            let numbers = how == Strictness::Shape;
            (mask::lines(&outcome.out, work, numbers), mask::error_lines(&outcome.err, work, numbers))
        }
    };
    Shown { out, err, code: outcome.code }
}

/// `NAME.expected` of what was shown.
pub fn write(steps: &[Step], shown: &[Shown]) -> String {
    let mut out = String::new();
    for (step, shown) in steps.iter().zip(shown).filter(|(step, _)| step.strictness != Strictness::Prepare) {
        let _ = writeln!(out, "$ {}", step.command);
        for (prefix, lines) in [("|", &shown.out), ("2", &shown.err)] {
            for line in lines {
                let _ = writeln!(out, "{prefix} {line}");
            }
        }
        let _ = writeln!(out, "= {}", shown.code);
    }
    out
}

/// Reads `NAME.expected`: for each command what it showed each time, in order.
pub fn read(text: &str) -> HashMap<String, Vec<Shown>> {
    let mut all: HashMap<String, Vec<Shown>> = HashMap::new();
    let (mut command, mut shown) = (String::new(), Shown::default());
    for line in text.lines() {
        match line.split_at_checked(2) {
            Some(("$ ", rest)) => (command, shown) = (rest.to_owned(), Shown::default()),
            Some(("| ", rest)) => shown.out.push(rest.to_owned()),
            Some(("2 ", rest)) => shown.err.push(rest.to_owned()),
            Some(("= ", rest)) => {
                shown.code = rest.parse().unwrap_or(-1);
                all.entry(std::mem::take(&mut command)).or_default().push(std::mem::take(&mut shown));
            }
            _ => {}
        }
    }
    all
}

/// Compares what ours showed with what is expected.
pub fn compare(steps: &[Step], ours: &[Shown], expected: &HashMap<String, Vec<Shown>>) -> Vec<Row> {
    let mut nth: HashMap<&str, usize> = HashMap::new();
    let mut rows = Vec::new();
    for (step, ours) in steps.iter().zip(ours).filter(|(step, _)| step.strictness != Strictness::Prepare) {
        let n = nth.entry(&step.command).or_default();
        let theirs = expected.get(&step.command).and_then(|all| all.get(*n));
        *n += 1;
        let difference = match theirs {
            None => Some("not recorded with a real cluster".to_owned()),
            Some(theirs) if step.strictness == Strictness::Story => {
                rows.extend(story(step, ours, theirs));
                continue;
            }
            Some(theirs) => difference(step.strictness, ours, theirs),
        };
        let theirs = theirs.map(brief).unwrap_or_default();
        rows.push(Row { step: step.clone(), ours: brief(ours), theirs, difference });
    }
    rows
}

/// One row for each line that was told. A line that ours lacks is missing in its place, so that what follows is still
/// compared.
fn story(step: &Step, ours: &Shown, theirs: &Shown) -> Vec<Row> {
    let split =
        |line: &str| line.split_once(": ").map_or((line.to_owned(), String::new()), |(a, b)| (a.to_owned(), b.to_owned()));
    let mut told: HashMap<String, VecDeque<String>> = HashMap::new();
    for (what, ours) in ours.out.iter().map(|line| split(line)) {
        told.entry(what).or_default().push_back(ours);
    }
    let mut rows = Vec::new();
    for (what, theirs) in theirs.out.iter().map(|line| split(line)) {
        let ours = told.get_mut(&what).and_then(VecDeque::pop_front).unwrap_or("(not told)".into());
        let difference = (ours != theirs).then(|| format!("ours {ours:?}, Ceph {theirs:?}"));
        let cut = |text: String| text.chars().take(80).collect();
        let step = Step { command: what, ..step.clone() };
        rows.push(Row { step, ours: cut(ours), theirs: cut(theirs), difference });
    }
    rows
}

fn difference(strictness: Strictness, ours: &Shown, theirs: &Shown) -> Option<String> {
    if ours.code != theirs.code {
        let said = ours.err.last().or(ours.out.last()).map(String::as_str).unwrap_or_default();
        return Some(format!("exit {} instead of {}: {said}", ours.code, theirs.code));
    }
    if strictness == Strictness::Code {
        return None;
    }
    let first = |what: &str, ours: &[String], theirs: &[String]| {
        let at = (0..ours.len().max(theirs.len())).find(|&i| ours.get(i) != theirs.get(i))?;
        let line = |lines: &[String]| lines.get(at).cloned().unwrap_or("(nothing)".into());
        Some(format!("{what}line {}: ours {:?}, Ceph {:?}", at + 1, line(ours), line(theirs)))
    };
    // A client that ends writes the last lines of its log, or does not.
    let said = |shown: &Shown| shown.err.iter().filter(|line| !line.starts_with("LOG ")).cloned().collect::<Vec<_>>();
    first("", &ours.out, &theirs.out).or_else(|| first("error output, ", &said(ours), &said(theirs)))
}

/// The first line and the exit code, for the table.
fn brief(shown: &Shown) -> String {
    let line = shown.out.first().or(shown.err.first()).map(String::as_str).unwrap_or("(silent)");
    let line: String = line.chars().take(48).collect();
    if shown.code == 0 { line } else { format!("{line} (exit {})", shown.code) }
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

/// Returns what differs, for the table.
fn verdict(row: &Row) -> String {
    match (&row.difference, row.step.differs.as_str()) {
        (None, _) if row.step.strictness == Strictness::Code => {
            let note = if row.step.note.is_empty() { "" } else { ": " };
            format!("none (exit code{note}{})", cell(&row.step.note))
        }
        (None, _) if row.step.strictness == Strictness::Shape => "none (numbers aside)".to_owned(),
        (None, _) => "none".to_owned(),
        (Some(difference), "") => format!("**{}**", cell(difference)),
        (Some(_), reason) => cell(reason),
    }
}

/// The rows as a Markdown table: all of the first client, and of each further one whether it differs.
pub fn markdown(columns: &[(Client, Vec<Row>)]) -> String {
    let Some(((_, rows), others)) = columns.split_first() else { return String::new() };
    let mut out = String::from("| command | ours | Ceph 16.2.15 | difference |");
    others.iter().for_each(|(client, _)| out.push_str(&format!(" with {}'s clients |", client.name)));
    let _ = writeln!(out, "\n|---|---|---|---|{}", "---|".repeat(others.len()));
    let mut further: Vec<HashMap<&str, VecDeque<&Row>>> = Vec::new();
    for (_, rows) in others {
        let mut by_command: HashMap<&str, VecDeque<&Row>> = HashMap::new();
        rows.iter().for_each(|row| by_command.entry(&row.step.command).or_default().push_back(row));
        further.push(by_command);
    }
    for row in rows {
        let command = &row.step.command;
        let _ = write!(out, "| `{}` | {} | {} | {} |", cell(command), cell(&row.ours), cell(&row.theirs), verdict(row));
        for by_command in &mut further {
            let same = by_command.get_mut(command.as_str()).and_then(VecDeque::pop_front);
            let _ = write!(out, " {} |", same.map_or("not run".to_owned(), verdict));
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_story_is_compared_line_by_line() {
        let steps = parse("& tell\n", "16.2").unwrap();
        let told = |lines: &[&str]| vec![Shown { out: lines.iter().map(|l| (*l).to_owned()).collect(), ..Shown::default() }];
        let expected = read(&write(&steps, &told(&["open: 0", "read: b'x'", "close: 0"])));
        let rows = compare(&steps, &told(&["open: 0", "close: 1"]), &expected);
        assert_eq!(rows.iter().map(Row::passed).collect::<Vec<_>>(), [true, false, false]);
        assert_eq!((rows[1].ours.as_str(), rows[1].step.command.as_str()), ("(not told)", "read"));
    }

    #[test]
    fn steps_may_differ_or_be_left_out_for_clients_of_one_release() {
        let text = "differs 18.2: newer words\n$ a\nwithout 18.2: gone\n$ b\n$ c\n";
        let of = |release: &str| parse(text, release).unwrap().into_iter().map(|s| (s.command, s.differs)).collect::<Vec<_>>();
        let step = |command: &str, differs: &str| (command.to_owned(), differs.to_owned());
        assert_eq!(of("16.2"), [step("a", ""), step("b", ""), step("c", "")]);
        assert_eq!(of("18.2"), [step("a", "newer words"), step("c", "")]);
    }

    #[test]
    fn what_is_written_is_read_back() {
        let steps = parse("# title\n! true\n$ rbd ls\n% rbd bench x # speed\ndiffers: because\n~ rbd ls\n", "16.2").unwrap();
        assert_eq!(steps.len(), 4);
        assert_eq!((steps[2].note.as_str(), steps[3].differs.as_str()), ("speed", "because"));
        let shown = |out: &str, code| Shown { out: vec![out.to_owned()], err: vec!["e".to_owned()], code };
        let first = vec![Shown::default(), shown("a", 0), shown("", 1), shown("b", 2)];
        let expected = read(&write(&steps, &first));
        assert_eq!(expected["rbd ls"], [shown("a", 0), shown("b", 2)]);
        let rows = compare(&steps, &first, &expected);
        assert_eq!(rows.iter().map(Row::passed).collect::<Vec<_>>(), [true, true, false], "the last one is meant to differ");
        let other = vec![Shown::default(), shown("b", 0), shown("", 2), shown("b", 1)];
        let rows = compare(&steps, &other, &expected);
        assert_eq!(rows.iter().map(Row::passed).collect::<Vec<_>>(), [false, false, true]);
        assert!(parse("? what\n", "16.2").is_err());
    }
}
