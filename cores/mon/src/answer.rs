//! The answer to a command: a reply, or a refusal with the reason. And who asked.

use bytes::Bytes;
use types::{EntityAddr, EntityName, Errno};

/// The refusal of a command: an error number and a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The error number that goes to the client as the result.
    pub(crate) errno: Errno,
    /// A sentence that says what was wrong.
    pub(crate) text: String,
    /// What goes to standard output all the same, for commands that explain themselves there.
    pub(crate) data: Bytes,
}

impl Refusal {
    /// Makes a refusal of an error number and a sentence.
    pub(crate) fn new(errno: Errno, text: impl Into<String>) -> Self {
        Self { errno, text: text.into(), data: Bytes::new() }
    }
}

/// Arguments that do not fit become a refusal with EINVAL.
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

/// The reply to a command that was carried out: a status line and data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reply {
    /// The line for standard error.
    pub(crate) status: String,
    /// The bytes for standard output.
    pub(crate) data: Bytes,
}

impl Reply {
    /// Makes a reply of a status line alone.
    pub(crate) fn status(text: impl Into<String>) -> Self {
        Self { status: text.into(), data: Bytes::new() }
    }

    /// Makes a reply of data alone.
    pub(crate) fn data(data: impl Into<Bytes>) -> Self {
        Self { status: String::new(), data: data.into() }
    }

    /// Adds a status line to the reply.
    pub(crate) fn with_status(mut self, text: impl Into<String>) -> Self {
        self.status = text.into();
        self
    }
}

/// The result of a command's handler.
pub(crate) type Outcome = Result<Reply, Refusal>;

/// Who asks for a command.
#[derive(Clone, Debug)]
pub(crate) struct Asker {
    /// The name that it proved with its key.
    pub(crate) name: EntityName,
    /// The address of its connection.
    pub(crate) addr: EntityAddr,
}
