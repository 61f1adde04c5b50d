//! What a grant demands of a command's argument.

use regex_lite::{Regex, RegexBuilder};

/// Longest pattern taken; compiled patterns are bounded too.
const MAX_PATTERN: usize = 1024;
/// Bytes that a compiled pattern may take.
const MAX_COMPILED: usize = 1 << 20;

/// A demand.
#[derive(Clone, Debug)]
pub(crate) enum Constraint {
    Equal(String),
    Prefix(String),
    /// The whole argument must match. Matching takes time linear in the argument.
    Pattern(Regex),
}

impl Constraint {
    /// A pattern; `None` if it is malformed or too large.
    pub(crate) fn pattern(text: &str) -> Option<Self> {
        if text.len() > MAX_PATTERN {
            return None;
        }
        let whole = RegexBuilder::new(&format!("^(?:{text})$")).size_limit(MAX_COMPILED).build().ok()?;
        Some(Self::Pattern(whole))
    }

    pub(crate) fn holds(&self, argument: &str) -> bool {
        match self {
            Self::Equal(value) => argument == value,
            Self::Prefix(prefix) => argument.starts_with(prefix.as_str()),
            Self::Pattern(pattern) => pattern.is_match(argument),
        }
    }
}

impl PartialEq for Constraint {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Equal(a), Self::Equal(b)) | (Self::Prefix(a), Self::Prefix(b)) => a == b,
            (Self::Pattern(a), Self::Pattern(b)) => a.as_str() == b.as_str(),
            _ => false,
        }
    }
}

impl Eq for Constraint {}
