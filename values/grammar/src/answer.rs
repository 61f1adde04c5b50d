//! The answer to a command: a reply, or a refusal with the reason. And who asked.

use bytes::Bytes;
use types::{EntityAddr, EntityName, Errno};

/// The refusal of a command: an error number and a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The error number that goes to the client as the result.
    pub errno: Errno,
    /// A sentence that says what was wrong.
    pub text: String,
    /// Bytes that go to standard output all the same, for commands that explain themselves there.
    pub data: Bytes,
}

impl Refusal {
    /// Makes a refusal of an error number and a sentence.
    pub fn new(errno: Errno, text: impl Into<String>) -> Self {
        Self { errno, text: text.into(), data: Bytes::new() }
    }
}

/// Arguments that do not fit become a refusal with EINVAL.
impl From<crate::Wrong> for Refusal {
    fn from(wrong: crate::Wrong) -> Self {
        Self::new(Errno::EINVAL, wrong.0)
    }
}

/// Shorthand for `Err(Refusal::new(Errno::…, format!(…)))`.
#[macro_export]
macro_rules! refuse {
    ($errno:ident, $($text:tt)*) => {
        return Err($crate::Refusal::new($crate::Errno::$errno, format!($($text)*)))
    };
}

/// The reply to a command that was carried out: a status line and data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// The line for standard error.
    pub status: String,
    /// The bytes for standard output.
    pub data: Bytes,
}

impl Reply {
    /// Makes a reply of a status line alone.
    pub fn status(text: impl Into<String>) -> Self {
        Self { status: text.into(), data: Bytes::new() }
    }

    /// Makes a reply of data alone.
    pub fn data(data: impl Into<Bytes>) -> Self {
        Self { status: String::new(), data: data.into() }
    }

    /// Adds a status line to the reply.
    pub fn with_status(mut self, text: impl Into<String>) -> Self {
        self.status = text.into();
        self
    }
}

/// The result of a command's handler.
pub type Outcome = Result<Reply, Refusal>;

/// The one who asks for a command.
#[derive(Clone, Debug)]
pub struct Asker {
    /// The name that it proved with its key.
    pub name: EntityName,
    /// The address of its connection.
    pub addr: EntityAddr,
    /// True if it may change what concerns OSDs and their clients (`rw` of `osd` at the monitors): it may lift fences, and has no share of them.
    pub governs_osds: bool,
}
