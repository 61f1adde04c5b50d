//! Reads words and signs from a capability's text, remembers where reading got furthest, and what would have helped.

use crate::CapsError;
use crate::network::Network;

/// White space.
const SPACES: [char; 4] = [' ', '\t', '\n', '\r'];

/// A position in a text. Ordered choice: the first alternative that reads wins, whatever comes after it.
pub(crate) struct Scan<'a> {
    text: &'a str,
    at: usize,
    furthest: usize,
    wanted: Vec<&'static str>,
}

impl<'a> Scan<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { text, at: 0, furthest: 0, wanted: Vec::new() }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Notes that `what` was wanted here and is not there.
    fn miss(&mut self, what: &'static str) {
        if self.at > self.furthest {
            self.furthest = self.at;
            self.wanted.clear();
        }
        if self.at == self.furthest && !self.wanted.contains(&what) {
            self.wanted.push(what);
        }
    }

    /// Refuses what was read up to here: `what` was wanted instead.
    pub(crate) fn reject<T>(&mut self, what: &'static str) -> Option<T> {
        self.miss(what);
        None
    }

    /// The error of a text that could not be read to its end.
    pub(crate) fn error(&self) -> CapsError {
        CapsError { text: self.text.to_owned(), at: self.furthest, wanted: self.wanted.clone() }
    }

    /// Reads with `f`, or goes back to where it began.
    pub(crate) fn attempt<T>(&mut self, f: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        let at = self.at;
        let got = f(self);
        if got.is_none() {
            self.at = at;
        }
        got
    }

    /// Returns true if all was read.
    pub(crate) fn done(&mut self) -> bool {
        if !self.rest().is_empty() {
            self.miss("the end");
        }
        self.rest().is_empty()
    }

    /// Reads exactly `sign`.
    pub(crate) fn lit(&mut self, sign: &'static str) -> Option<()> {
        if self.rest().starts_with(sign) {
            self.at += sign.len();
            Some(())
        } else {
            self.miss(sign);
            None
        }
    }

    /// Reads white space, at least one character.
    pub(crate) fn spaces(&mut self) -> Option<()> {
        let n = self.rest().len() - self.rest().trim_start_matches(SPACES).len();
        if n == 0 {
            self.miss("a space");
            return None;
        }
        self.at += n;
        Some(())
    }

    /// Reads spaces and tabs if there are some.
    pub(crate) fn maybe_blanks(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start_matches([' ', '\t']).len();
    }

    /// Reads white space if there is some.
    pub(crate) fn maybe_spaces(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start_matches(SPACES).len();
    }

    /// Reads white space and then `word`.
    pub(crate) fn spaced(&mut self, word: &'static str) -> Option<()> {
        self.attempt(|s| {
            s.spaces()?;
            s.lit(word)
        })
    }

    /// Reads white space, `key`, `=` or white space, and a value.
    pub(crate) fn keyed(&mut self, key: &'static str, what: &'static str) -> Option<String> {
        self.attempt(|s| {
            s.spaced(key)?;
            s.equals_or_spaces()?;
            s.word(what)
        })
    }

    /// Reads `=` or white space.
    pub(crate) fn equals_or_spaces(&mut self) -> Option<()> {
        self.lit("=").or_else(|| self.spaces())
    }

    /// Reads one or more characters that `ok` accepts.
    pub(crate) fn run(&mut self, what: &'static str, ok: impl Fn(char) -> bool) -> Option<&'a str> {
        let rest = self.rest();
        let n = rest.find(|c| !ok(c)).unwrap_or(rest.len());
        if n == 0 {
            self.miss(what);
            return None;
        }
        self.at += n;
        Some(&rest[..n])
    }

    /// Reads a value: in quotes, or of letters, digits and `_ . / -`. Not empty.
    pub(crate) fn word(&mut self, what: &'static str) -> Option<String> {
        self.quoted(what, false)
            .or_else(|| self.run(what, |c| c.is_ascii_alphanumeric() || "_./-".contains(c)).map(str::to_owned))
    }

    /// The same, but quotes may enclose nothing.
    pub(crate) fn word_or_empty(&mut self, what: &'static str) -> Option<String> {
        self.quoted(what, true).or_else(|| self.word(what))
    }

    fn quoted(&mut self, what: &'static str, empty: bool) -> Option<String> {
        let rest = self.rest();
        let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\''))?;
        let Some(n) = rest[1..].find(quote) else {
            self.miss("a closing quote (there is none)");
            return None;
        };
        if n == 0 && !empty {
            self.miss(what);
            return None;
        }
        self.at += n + 2;
        Some(rest[1..=n].to_owned())
    }

    /// Reads ` network ADDRESS/BITS` if it is there; false if it is there but wrong.
    pub(crate) fn network(&mut self) -> Option<Option<Network>> {
        if self.spaced("network").is_none() {
            return Some(None);
        }
        self.spaces()?;
        let at = self.at;
        let text = self.run("a network", |c| c.is_ascii_hexdigit() || "/.:[]".contains(c))?;
        let network = text.parse().ok();
        if network.is_none() {
            self.at = at;
            self.miss("a network (ADDRESS/BITS)");
        }
        Some(Some(network?))
    }
}
