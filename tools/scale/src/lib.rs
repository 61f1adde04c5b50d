//! Figures of large clusters: the product's own monitor among a thousand OSDs, in one process, with virtual time.
//!
//! The monitor is the real machine ([`mon::Monitor`]), driven by the simulator's world with its network and its disk.
//! The OSDs are stand-ins ([`crowd`]): each has a real messenger and a session of its own, boots, follows the maps,
//! asks for `up_thru` and `pg_temp` as its groups need it, reports groups and failures when and how the product's OSDs
//! do, and holds no data. What is counted is the processor time of the monitor's rounds alone, in this thread.
//!
//! | room | what it has |
//! |---|---|
//! | [`crowd`] | the stand-ins, and what they know together |
//! | [`cluster`] | a monitor, so many OSDs on so many hosts, pools |
//! | [`figures`] | what is measured, and the tables |
#![forbid(unsafe_code)]

pub mod cluster;
pub mod crowd;
pub mod figures;
