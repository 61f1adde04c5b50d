//! The list of commands, in `cases/*.cases`: one case a line.
//!
//! `MODE NAME` runs the command of recording NAME and compares with its output. `MODE NAME : COMMAND` runs COMMAND
//! instead, still compared with recording NAME. `MODE NAME => FILTER` passes both outputs through a shell filter first.
//! `keys NAME without A,B` does not miss JSON keys that begin with A or B. `do : COMMAND` prepares something and must
//! succeed. Text after ` # ` is for people: it says why a filter or an exception is needed.

use crate::compare::Mode;
use anyhow::{Result, bail};

/// What a line asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Case {
    /// Must exit with 0; prepares what follows.
    Prepare {
        /// Shell command.
        command: String,
    },
    /// Is compared with a recording.
    Compare {
        /// How.
        mode: Mode,
        /// Name of the recording.
        recording: String,
        /// Shell command, if not the recording's own.
        command: Option<String>,
        /// Shell filter for both outputs.
        filter: Option<String>,
        /// Beginnings of JSON keys that may be missing.
        without: Vec<String>,
    },
}

/// Parses a list of cases; the error names the line.
pub fn parse(text: &str) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for (i, line) in text.lines().enumerate() {
        let line = line.split(" # ").next().unwrap_or_default().trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (line, filter) = split(line, " => ");
        let (head, command) = split(line, " : ");
        let words: Vec<&str> = head.split_whitespace().collect();
        let (words, without) = match words[..] {
            [mode, name, "without", list] => (vec![mode, name], list.split(',').map(str::to_owned).collect()),
            _ => (words, Vec::new()),
        };
        cases.push(match (&words[..], command) {
            (["do"], Some(command)) => Case::Prepare { command },
            ([mode, name], command) => match Mode::parse(mode) {
                Some(mode) => Case::Compare { mode, recording: (*name).to_owned(), command, filter, without },
                None => bail!("line {}: no mode is called {mode}", i + 1),
            },
            _ => bail!("line {}: expected `MODE NAME [: COMMAND] [=> FILTER]` or `do : COMMAND`", i + 1),
        });
    }
    Ok(cases)
}

fn split<'a>(line: &'a str, at: &str) -> (&'a str, Option<String>) {
    match line.split_once(at) {
        Some((head, rest)) => (head, Some(rest.to_owned())),
        None => (line, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_parse_and_bad_ones_are_named() {
        let cases = parse("# note\ndo : ceph osd pool create p 32\nsame rados_put\nkeys a : ceph -s -f json  # why\n").unwrap();
        assert_eq!(cases.len(), 3);
        assert!(matches!(&cases[2], Case::Compare { mode: Mode::Keys, command: Some(c), .. } if c == "ceph -s -f json"));
        let filtered = parse("keys a without .x,.y => grep b").unwrap();
        assert!(matches!(&filtered[0], Case::Compare { filter: Some(f), without, .. } if f == "grep b" && without.len() == 2));
        assert!(parse("same\n").unwrap_err().to_string().contains("line 1"));
    }
}
