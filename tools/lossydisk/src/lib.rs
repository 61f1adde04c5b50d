//! A disk that forgets: a file system that keeps what was not flushed in memory, and loses it when the power is cut.
//!
//! kill -9 keeps the page cache, so it proves nothing about flushes. A program whose files lie here, and that gets
//! SIGKILL together with [`Disk::lose`], finds what a real power cut may leave: of the writes that no flush and no
//! durable write covered any part, torn at sectors of 512 bytes, in any order; files of another length; names that
//! their folder was never told to keep.
//!
//! - [`content`](self): the bytes of a file, with all versions that a sector may have;
//! - `tree`: names in folders;
//! - [`Disk`]: both, requests on their way, and the power;
//! - [`mount`]: the disk as a file system of the kernel, by FUSE.

#![forbid(unsafe_code)]

mod content;
mod delay;
mod disk;
mod fate;
mod mount;
mod rng;
mod tree;

#[cfg(test)]
mod tests;

pub use disk::{Counters, Disk, Lies, Loss};
pub use fate::Cut;
pub use mount::{Mounted, mount};
