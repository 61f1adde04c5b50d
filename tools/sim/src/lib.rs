//! A deterministic simulator: virtual time, network and disks, and chance from one seed; clusters of the product's own
//! machines in it, and judges of what their clients see.
#![forbid(unsafe_code)]

pub mod cluster;
pub mod disk;
pub mod fault;
pub mod history;
pub mod misdeed;
pub mod model;
pub mod net;
pub mod reference;
pub mod rng;
pub mod scenario;
mod schedule;
pub mod standmon;
pub mod storeworld;
pub mod trace;
pub mod workload;
pub mod world;
