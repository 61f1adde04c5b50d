//! What comes of a command: an answer, or the word why nothing is done. And who asked.

use bytes::Bytes;
use types::{EntityAddr, EntityName, Errno};

/// A command that is not carried out: an error number and a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// Goes to the client as the result.
    pub(crate) errno: Errno,
    /// Says what was wrong.
    pub(crate) text: String,
    /// Goes to standard output all the same (commands that explain themselves there).
    pub(crate) data: Bytes,
}

impl Refusal {
    /// With an error number and a sentence.
    pub(crate) fn new(errno: Errno, text: impl Into<String>) -> Self {
        Self { errno, text: text.into(), data: Bytes::new() }
    }
}

/// Arguments that do not fit.
impl From<grammar::Wrong> for Refusal {
    fn from(wrong: grammar::Wrong) -> Self {
        Self::new(Errno::EINVAL, wrong.0)
    }
}

/// Shorthand for `Err(Refusal::new(Errno::…, format!(…)))`.
macro_rules! refuse {
    ($errno:ident, $($text:tt)*) => {
        return Err($crate::answer::Refusal::new(types::Errno::$errno, format!($($text)*)))
    };
}
pub(crate) use refuse;

/// An answer: a status line and data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reply {
    /// For standard error.
    pub(crate) status: String,
    /// For standard output.
    pub(crate) data: Bytes,
}

impl Reply {
    /// Only a status line.
    pub(crate) fn status(text: impl Into<String>) -> Self {
        Self { status: text.into(), data: Bytes::new() }
    }

    /// Only data.
    pub(crate) fn data(data: impl Into<Bytes>) -> Self {
        Self { status: String::new(), data: data.into() }
    }

    /// This with a status line.
    pub(crate) fn with_status(mut self, text: impl Into<String>) -> Self {
        self.status = text.into();
        self
    }
}

/// Result of a handler.
pub(crate) type Outcome = Result<Reply, Refusal>;

/// Who asks.
#[derive(Clone, Debug)]
pub(crate) struct Asker {
    /// Under which name.
    pub(crate) name: EntityName,
    /// From where.
    pub(crate) addr: EntityAddr,
}
