//! Plans for the OSD map: where copies are, how many placement groups pools have.
//!
//! Each plan is a function of a map, and of figures that the caller has. It knows no sessions, no time and no monitor.
//! Who carries plans out, and when, is the manager's business.
//!
//! - [`upmap`]: which single copies to move, so that each OSD holds its share;
//! - [`leaders`]: who leads groups, so that each OSD leads its share; [`orders`]: how that is said in the map;
//! - [`score`]: how even a cluster is, as Ceph tells people;
//! - [`initial_placement`]: where the groups of new pools begin;
//! - [`temps`]: exceptions that mean nothing any more;
//! - [`advice`]: how many groups a pool should have; [`merge`]: which have more than they should, and what is outdated
//!   after.

#![forbid(unsafe_code)]

pub mod advice;
pub mod initial_placement;
pub mod leaders;
pub mod merge;
pub mod orders;
pub mod score;
pub mod temps;
#[cfg(test)]
mod testmaps;
pub mod upmap;
