//! Scrub without a group around it: what a copy holds, what copies tell each other, what all of them say, and who is
//! right.
//!
//! All of it is plain data and functions. The walk is the primary's ([`crate::primary::scrub`]); a copy that is asked
//! answers with [`crate::replica::inquiry`].

pub(crate) mod compare;
pub(crate) mod entry;
pub(crate) mod findings;
pub(crate) mod gather;
pub(crate) mod survey;
