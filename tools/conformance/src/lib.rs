//! Foreign clients as judges: Debian's own `ceph`, `rados` and their libraries run against a cluster of ours, as
//! processes, and what they print is compared with what a real Ceph 16.2.15 printed for the same command.
//!
//! - [`cluster`]: a `nacre up` of its own in a temporary folder, and how to kill it;
//! - [`recordings`]: what the real cluster answered;
//! - [`cases`]: the list of commands and how strictly each is compared;
//! - [`compare`]: what counts as the same;
//! - [`sheet`]: long sequences of commands beside what a real cluster printed, [`mask`] takes out what differs from run
//!   to run.

pub mod cases;
pub mod cluster;
pub mod compare;
pub mod mask;
pub mod recordings;
pub mod run;
pub mod sheet;
