//! Block images as their clients see them: what an image is made of, and work on whole images. Cores only: no IO in
//! here.
//!
//! - [`work`]: jobs of many steps, continued by whoever owns them;
//! - [`rados`]: single steps, as operations on objects with their answers taken apart;
//! - [`describe`]: who uses an image;
//! - [`image`]: an image's header, [`layout`]: where its bytes are;
//! - [`lock`]: to be the only one who changes an image;
//! - [`notice`]: what clients of an image say to one another; [`object_map`]: which objects it has;
//! - [`parent`]: reading through to parents, and letting go of them; [`snapshot`]: taking one away;
//! - [`trash`]: the list of images that are on their way out;
//! - [`remove`], [`flatten`], [`migrate`], [`mirror`]: the work itself; `mirror_state`: what mirrored snapshots tell
//!   beside data.
//!
//! # What holds after an interruption
//!
//! All work can be cut off between any two steps and begun anew. Removal takes the name first and leaves an entry in
//! the trash; then the data, the link to the parent, the header, and the entry last: whatever is left leads to the
//! rest. Flattening copies first, then lets go of the parent; a copy is made by the object's class and only where the
//! clone has nothing (`copyup`), so doing it again changes nothing.
//!
//! # Two at the same image
//!
//! Work takes the image's exclusive lock, if it has that feature, as librbd does: with a watch that shows that the
//! holder lives. An image that is open elsewhere is not removed (EBUSY); a living client that has the lock is asked to
//! flatten or migrate the image itself. The lock of a client that died (its watch is gone) is broken after its address
//! was fenced off, so that nothing of it comes late.

#![forbid(unsafe_code)]

pub mod describe;
pub mod flatten;
pub mod image;
pub mod layout;
mod lock;
pub mod migrate;
pub mod mirror;
mod mirror_state;
mod notice;
mod object_map;
pub mod parent;
pub mod rados;
pub mod remove;
mod snapshot;
pub mod trash;
pub mod work;

pub use image::Image;
pub use rados::{Place, is_for_images};
pub use work::{Answer, Io, JobId, Progress, Reach, Request, RequestId, Works};

use std::fmt;
use types::Errno;

/// Reason why work ended before its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fail {
    /// For programs.
    pub errno: Errno,
    /// The fault.
    pub what: String,
}

impl Fail {
    /// With an error number and a sentence.
    pub fn new(errno: Errno, what: impl Into<String>) -> Self {
        Self { errno, what: what.into() }
    }

    /// Returns true if it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.errno == Errno::ECANCELED
    }
}

impl fmt::Display for Fail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[errno {}] {}", self.errno.0, self.what)
    }
}

/// Result of work.
pub type Result<T> = std::result::Result<T, Fail>;

/// Result of a step that found nothing: `None` instead of ENOENT.
pub trait Optional<T> {
    /// `None` for ENOENT.
    ///
    /// # Errors
    /// All others.
    fn optional(self) -> Result<Option<T>>;
}

impl<T> Optional<T> for Result<T> {
    fn optional(self) -> Result<Option<T>> {
        match self {
            Ok(value) => Ok(Some(value)),
            Err(fail) if fail.errno == Errno::ENOENT => Ok(None),
            Err(fail) => Err(fail),
        }
    }
}
