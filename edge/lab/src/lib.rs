//! The laboratory: measures a cluster with stock clients and shows what came out.
//!
//! - [`demo`]: a temporary cluster, the matrix, the table;
//! - [`rados`]: one run of the stock `rados bench`, and what it printed;
//! - [`matrix`]: the measurements of a matrix, in order;
//! - [`cluster`]: `nacre up` as a process;
//! - [`cpu`]: who used the processor meanwhile;
//! - [`table`], [`progress`]: how it looks.

pub mod cluster;
pub mod cpu;
pub mod demo;
pub mod matrix;
pub mod progress;
pub mod rados;
pub mod table;
