//! Capabilities: what an entity may do at monitors, manager and OSDs, written as text by administrators.
//!
//! `allow rw pool=images, profile rbd pool=vms` and the like, in Ceph's grammar and with its meanings: [`OsdCaps`] say
//! which operations on which objects, [`MonCaps`] which services and commands. Text is parsed when a session opens;
//! then [`OsdCaps::allows`] and [`MonCaps::allows_command`] answer per request.
//!
//! A grant may be limited to a network. Caps as parsed count such grants as not given; [`OsdCaps::seen_from`] and
//! [`MonCaps::seen_from`] make the caps that hold for a peer at an address.

#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss))]
#![forbid(unsafe_code)]

mod constraint;
mod grant;
mod mon;
mod network;
mod osd;
mod profile;
mod scan;

pub use mon::{MgrCaps, MonCaps};
pub use osd::{OsdCaps, OsdNeed};

use std::fmt;

/// Reason why a capability's text was refused. The fault is the text's author's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapsError {
    /// The whole text.
    pub text: String,
    /// Byte in the text where it stopped making sense.
    pub at: usize,
    /// Words that could have stood there.
    pub wanted: Vec<&'static str>,
}

impl fmt::Display for CapsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rest = self.text.get(self.at..).unwrap_or_default();
        match &self.wanted[..] {
            [] => f.write_str("capability not understood")?,
            [one] => write!(f, "expected {one}")?,
            [most @ .., last] => write!(f, "expected {} or {last}", most.join(", "))?,
        }
        if rest.is_empty() {
            write!(f, " at the end of '{}'", self.text)
        } else {
            write!(f, " at '{rest}' (byte {}) of '{}'", self.at, self.text)
        }
    }
}

impl std::error::Error for CapsError {}
