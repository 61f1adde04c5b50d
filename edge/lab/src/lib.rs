//! The laboratory: an experiment file becomes permutations, runs, results, statistics and a report.
//!
//! - [`plan`]: the experiment file; [`import`]: other tools' plans;
//! - [`run`]: the loop; [`lab`]: its surroundings; [`results`]: what it keeps; [`undo`]: what has to end with it;
//! - [`cluster`], [`disks`]: what is measured; [`workload`]: what makes the load; [`monitor`]: what the machine does
//!   meanwhile;
//! - [`stats`]: medians, noise, tests; [`compare`]: A against B;
//! - [`report`]: pages, tables, files; [`articles`]: what published articles found;
//! - [`demo`]: a quick experiment; [`process`], [`progress`], [`environment`], [`command`]: the rest.

pub mod articles;
pub mod cluster;
pub mod command;
pub mod compare;
pub mod demo;
pub mod disks;
pub mod environment;
pub mod import;
pub mod lab;
mod measure;
pub mod metrics;
pub mod monitor;
pub mod plan;
pub mod process;
pub mod profile;
pub mod progress;
pub mod report;
pub mod results;
pub mod run;
pub mod stats;
pub mod undo;
pub mod workload;
