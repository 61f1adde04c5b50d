//! Files of options as Ceph reads them: `ceph.conf`, what `config assimilate-conf` takes, and keyrings.
//!
//! One reader for all of them, with the rules of release 16.2 (its `ConfUtils`), which are stricter than files that
//! people write by hand look:
//!
//! - A value may stand in double or in single quotes. The quotes are not part of it, and nothing but a comment may
//!   follow them.
//! - `#` and `;` begin a comment wherever they stand, also behind a value and between quotes, unless a backslash stands
//!   before them. So a quote whose end is behind one of them has no end, and the file is refused.
//! - A backslash stands for the character behind it. At the end of a line it joins the line to the next one, but not
//!   between quotes.
//! - Every assignment and every heading ends with the end of a line, the last one of the file as well.
//! - Blanks in a name count as underscores; dashes do not. Blanks around a value are not part of it.
//! - Of two assignments to one name in one section the later one counts, also if the section is there twice.
//! - Before the first heading only empty lines and comments may stand; a file may also be one assignment alone, which
//!   then is `[global]`'s.
//!
//! Where Ceph's reader skips comments and joined lines is its grammar's own matter, and shows at the edges (a name that
//! goes over two lines keeps the backslash). [`Reader`] follows it step by step, and `testdata/files.json` holds what a
//! real one made of odd files.

use std::collections::BTreeMap;
use std::fmt;

/// Most bytes of a file. (Ceph: 1 GiB. What comes with a command is below this anyway.)
const MOST_BYTES: usize = 16 << 20;

/// Sections by heading, each with its values by name. Names have underscores for blanks.
pub type Sections = BTreeMap<String, BTreeMap<String, String>>;

/// Reason why a text is no file of options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError {
    /// The line, from 1.
    pub line: usize,
    /// Text that was expected there, or the fault.
    pub what: &'static str,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "parse error: expected '{}' in line {}", self.what, self.line)
    }
}

impl std::error::Error for FileError {}

/// Reads a file of options.
///
/// # Errors
/// The text is not UTF-8, is too long, or breaks the rules above.
pub fn read(bytes: &[u8]) -> Result<Sections, FileError> {
    let line_of = |at: usize| 1 + bytes[..at].iter().filter(|b| **b == b'\n').count();
    if bytes.len() > MOST_BYTES {
        return Err(FileError { line: 1, what: "less than 16 MiB" });
    }
    if let Err(e) = std::str::from_utf8(bytes) {
        return Err(FileError { line: line_of(e.valid_up_to()), what: "UTF-8" });
    }
    let mut reader = Reader { text: bytes, at: 0 };
    reader.file().map_err(|Fault(what)| FileError { line: line_of(reader.at), what })
}

/// The name under which a name is looked up: without blanks around it, and with an underscore for those within.
fn name(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).split(is_space).filter(|word| !word.is_empty()).collect::<Vec<_>>().join("_")
}

/// Blanks as C's `isspace` tells them.
fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c')
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The file is refused: something must stand here and does not.
struct Fault(&'static str);

/// A place in the text. What a step returns says whether the thing was there; a step that did not find it leaves the
/// place behind comments that it skipped while it looked.
struct Reader<'a> {
    text: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// Length of the end of a line that is at this place; 0 if there is none.
    fn end_of_line(&self, at: usize) -> usize {
        match (self.text.get(at), self.text.get(at + 1)) {
            (Some(b'\r'), Some(b'\n')) => 2,
            (Some(b'\r' | b'\n'), _) => 1,
            _ => 0,
        }
    }

    /// Skips comments, with the blanks before them, and ends of lines behind a backslash.
    fn skip(&mut self) {
        loop {
            if self.peek() == Some(b'\\') && self.end_of_line(self.at + 1) > 0 {
                self.at += 1 + self.end_of_line(self.at + 1);
                continue;
            }
            let blanks = self.text[self.at..].iter().take_while(|b| matches!(b, b' ' | b'\t')).count();
            if !matches!(self.text.get(self.at + blanks), Some(b'#' | b';')) {
                return;
            }
            self.at += blanks;
            self.at += self.text[self.at..].iter().take_while(|b| !matches!(b, b'\r' | b'\n')).count();
        }
    }

    fn literal(&mut self, wanted: u8) -> bool {
        self.skip();
        let found = self.peek() == Some(wanted);
        self.at += usize::from(found);
        found
    }

    fn eol(&mut self) -> bool {
        self.skip();
        let len = self.end_of_line(self.at);
        self.at += len;
        len > 0
    }

    /// Takes one character of a name, a heading or a value, without skipping before it.
    fn bare_character(&mut self) -> Option<u8> {
        let first = self.peek()?;
        if first == b'\\' && self.at + 1 < self.text.len() && self.end_of_line(self.at + 1) == 0 {
            self.at += 2;
            return Some(self.text[self.at - 1]);
        }
        if matches!(first, b'#' | b';' | b'\r' | b'\n') {
            return None;
        }
        self.at += 1;
        Some(first)
    }

    fn blanks(&mut self) {
        self.skip();
        while matches!(self.peek(), Some(b' ' | b'\t')) {
            self.at += 1;
        }
    }

    /// Takes the rest of a line if nothing but blanks and a comment is on it.
    fn empty_line(&mut self) -> bool {
        self.skip();
        let begin = self.at;
        while matches!(self.peek(), Some(b' ' | b'\t')) {
            self.at += 1;
        }
        let len = self.end_of_line(self.at);
        if len == 0 {
            self.at = begin;
            return false;
        }
        self.at += len;
        true
    }

    fn empty_lines(&mut self) -> Result<(), Fault> {
        if !self.empty_line() {
            return Err(Fault("end of line"));
        }
        while self.empty_line() {}
        Ok(())
    }

    /// Takes characters up to one of `ends`, each with what is skipped before it.
    fn word(&mut self, ends: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        loop {
            self.skip();
            if self.peek().is_some_and(|b| ends.contains(&b)) {
                return out;
            }
            match self.bare_character() {
                Some(c) => out.push(c),
                None => return out,
            }
        }
    }

    /// Takes a name: words between blanks, as they stand in the text.
    fn key(&mut self) -> Option<String> {
        self.skip();
        let begin = self.at;
        if self.word(b"=[ ").is_empty() {
            return None;
        }
        loop {
            let saved = self.at;
            let mut blanks = 0;
            loop {
                self.skip();
                if !matches!(self.peek(), Some(b' ' | b'\t')) {
                    break;
                }
                self.at += 1;
                blanks += 1;
            }
            if blanks == 0 || self.word(b"=[ ").is_empty() {
                self.at = saved;
                return Some(name(&self.text[begin..self.at]));
            }
        }
    }

    /// Takes a value between quotes, if one begins here.
    fn quoted(&mut self) -> Result<Option<Vec<u8>>, Fault> {
        self.skip();
        let Some(quote @ (b'"' | b'\'')) = self.peek() else { return Ok(None) };
        self.at += 1;
        let mut out = Vec::new();
        loop {
            if self.peek() == Some(quote) {
                self.at += 1;
                return Ok(Some(out));
            }
            out.push(self.bare_character().ok_or(Fault("closing quote"))?);
        }
    }

    /// Takes an assignment. `None`: there is none here, and the place is as before.
    fn assignment(&mut self) -> Result<Option<(String, String)>, Fault> {
        let begin = self.at;
        self.blanks();
        let Some(key) = self.key() else {
            self.at = begin;
            return Ok(None);
        };
        self.blanks();
        if !self.literal(b'=') {
            self.at = begin;
            return Ok(None);
        }
        self.blanks();
        let value = match self.quoted()? {
            Some(value) => value,
            None => self.word(&[]),
        };
        self.empty_lines()?;
        Ok(Some((key, text(value).trim_matches(is_space).to_owned())))
    }

    /// Takes a heading.
    fn heading(&mut self) -> Result<Option<String>, Fault> {
        let begin = self.at;
        if !self.literal(b'[') {
            self.at = begin;
            return Ok(None);
        }
        let heading = self.word(b"]");
        if heading.is_empty() {
            return Err(Fault("section name"));
        }
        if !self.literal(b']') {
            return Err(Fault("]"));
        }
        self.empty_lines()?;
        Ok(Some(text(heading)))
    }

    fn file(&mut self) -> Result<Sections, Fault> {
        let mut sections = Sections::new();
        if let Some((key, value)) = self.assignment()? {
            sections.entry("global".into()).or_default().insert(key, value);
        } else {
            while self.eol() {}
            while let Some(heading) = self.heading()? {
                let section = sections.entry(heading).or_default();
                while let Some((key, value)) = self.assignment()? {
                    section.insert(key, value);
                }
                while self.eol() {}
            }
        }
        self.skip();
        match self.at == self.text.len() {
            true => Ok(sections),
            false => Err(Fault("a section, an assignment or the end")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    /// Returns what `ceph config assimilate-conf` gives back of a file of which it takes nothing.
    fn printed(sections: &Sections) -> String {
        let mut out = String::new();
        for (heading, values) in sections {
            let lines: Vec<String> =
                values.iter().filter(|(k, _)| !k.is_empty()).map(|(k, v)| format!("\t{k} = {v}\n")).collect();
            if !lines.is_empty() {
                out.push_str(&format!("\n[{heading}]\n{}", lines.concat()));
            }
        }
        out
    }

    #[test]
    fn odd_files_are_read_as_recorded() {
        let cases: Vec<Value> = serde_json::from_str(include_str!("../testdata/files.json")).unwrap();
        assert!(cases.len() > 300, "{}", cases.len());
        let wrong: Vec<String> = cases
            .iter()
            .filter_map(|case| {
                let file = case["file"].as_str().unwrap();
                let ours = read(file.as_bytes()).ok().map(|sections| printed(&sections));
                let theirs = case["printed"].as_str().map(str::to_owned);
                (ours != theirs).then(|| format!("{file:?}: ours {ours:?}, Ceph {theirs:?}"))
            })
            .collect();
        assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong[..wrong.len().min(20)].join("\n"));
    }

    #[test]
    fn what_is_no_text_is_refused_with_its_line() {
        assert_eq!(read(b"[a]\nb = \xff\n"), Err(FileError { line: 2, what: "UTF-8" }));
        assert_eq!(read(b"[a]\nb = \"c\n"), Err(FileError { line: 2, what: "closing quote" }));
        assert_eq!(read(b"[a]\nb = c"), Err(FileError { line: 2, what: "end of line" }));
    }
}
