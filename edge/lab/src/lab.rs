//! What every part of a running experiment needs.

use crate::process::Interrupt;
use crate::undo::Undo;
use std::path::PathBuf;

/// The surroundings of an experiment.
#[derive(Clone, Debug)]
pub struct Lab {
    /// The `nacre` program: our own clusters, and helpers of this laboratory.
    pub nacre: PathBuf,
    /// Place where results go.
    pub out: PathBuf,
    /// Place where clusters and disk files are made.
    pub scratch: PathBuf,
    /// True if disks that hold something may be wiped.
    pub wipe: bool,
    /// Processes and mounts that have to end with the experiment.
    pub undo: Undo,
    /// True if the user wants the end.
    pub interrupt: Interrupt,
}
