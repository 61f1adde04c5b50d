//! A deterministic simulator: virtual time, network and disks, and chance from one seed.
#![forbid(unsafe_code)]

pub mod disk;
pub mod history;
pub mod model;
pub mod net;
pub mod rng;
mod schedule;
pub mod trace;
pub mod workload;
pub mod world;
