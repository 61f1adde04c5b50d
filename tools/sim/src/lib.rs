//! A deterministic simulator: virtual time, network and disks, and chance from one seed; clusters of the product's own
//! machines in it, and judges of what their clients see. `docs/testing.md` says what is covered, how to replay and how to add.
//!
//! | room | what it has |
//! |---|---|
//! | `world`, `schedule`, `net`, `disk`, `rng`, `trace` | time, hosts, connections, disks, chance, the record of a run |
//! | `cluster`, `workload`, `life`, `tide`, `upgrade` | daemons and clients, what they ask for, what happens to a cluster in use, to one that is full, to one that gets newer programs |
//! | `fault`, `traps`, `replaced`, `reigns`, `misdeed` | what goes wrong; historic bugs, put back to prove that they are found |
//! | `model`, `history`, `watchlog`, `audit`, `beats`, `vitals`, `idle` | the judges |
//! | `reference`, and the crate `standmon` | trusted stand-ins for the store and the monitor |
//! | `scenario`, `storeworld`, `voters` | kinds of runs, of clusters, of a store alone and of the monitors' log alone |
#![forbid(unsafe_code)]

mod audit;
mod beats;
pub mod cluster;
mod copies;
mod decrees;
pub mod disk;
mod downs;
pub mod fault;
pub mod history;
mod idle;
mod life;
pub mod misdeed;
pub mod model;
pub mod net;
mod parcel;
mod promises;
pub mod reference;
mod reigns;
mod replaced;
pub mod rng;
pub mod scenario;
mod schedule;
mod scrubs;
mod shards;
pub mod storeworld;
mod tide;
pub mod trace;
mod traps;
pub mod upgrade;
pub mod vitals;
pub mod voters;
pub mod watchlog;
pub mod workload;
pub mod world;
mod wounds;
