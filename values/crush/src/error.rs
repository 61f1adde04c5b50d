//! Why a change of a map was refused.

use std::fmt;

/// Reason why a builder function refused. The fault is the caller's: the map is unchanged unless the function says otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// Nothing has this name or number.
    NotFound(String),
    /// The name or number is taken.
    Exists(String),
    /// The bucket still has items, or the rule or class is in use.
    Busy(String),
    /// The change makes no sense.
    Invalid(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound(what) => write!(f, "{what} does not exist"),
            Self::Exists(what) => write!(f, "{what} already exists"),
            Self::Busy(what) => write!(f, "{what} is in use"),
            Self::Invalid(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Error {}

/// Result of a builder function.
pub type Result<T> = std::result::Result<T, Error>;
