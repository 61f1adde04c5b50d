//! The manager: what daemons reported, what follows from it, and work on whole images.
//!
//! None of it is durable but a day of [`history`]. A new leader begins with what daemons report to it. What the manager wants to be durable, the monitor
//! around it proposes as changes of the state.
//!
//! | question | modules |
//! |---|---|
//! | what do daemons say | [`soft`], with [`stamps`] of groups, [`creating`] pools, [`clocks`] of monitors, [`recovery`] |
//! | what is wrong, and why | [`health`], [`explain`] |
//! | what should move, split or go on | [`balancer`], [`autoscaler`], [`stepping`], [`merging`]; the crate `planner` says where to |
//! | what is in progress | [`progress`], [`recovering`] |
//! | what can a pool take | [`room`] |
//! | what did the cluster do, and when will it be full | [`history`] |
//! | who may fence how many clients | [`fences`] |
//! | what do clients do to images | [`figures`] |
//! | what is to be done to whole images | [`desk`] takes orders, [`client`] does them as any client would |
//!
//! [`duties`] is what is remembered between rounds.

#![forbid(unsafe_code)]

pub mod autoscaler;
pub mod balancer;
pub mod client;
pub mod clocks;
pub mod crashes;
pub mod creating;
pub mod desk;
pub mod duties;
pub mod explain;
pub mod fences;
pub mod figures;
pub mod health;
pub mod history;
pub mod merging;
pub mod progress;
pub mod recovering;
pub mod recovery;
pub mod room;
pub mod soft;
pub mod stamps;
pub mod stepping;
