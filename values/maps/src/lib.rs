//! The cluster's maps: who the monitors, OSDs and the manager are, which pools exist, and where each placement group
//! lives.
//!
//! - [`OsdMap`] with its [`Incremental`]s: pools, OSDs, placement. [`OsdMap::placed`] answers "who serves this group"
//!   from a cache; [`OsdMap::apply`] makes the next epoch; [`Incremental::seal`] encodes a step with its checksums.
//! - [`MonMap`]: the monitors. [`MgrMap`]: the manager.
//!
//! Layouts are those that release 16.2 writes for a client of release 16.2. Fields have Ceph's names and are public:
//! the monitor edits them. Who edits an [`OsdMap`] that was already asked for placements calls
//! [`OsdMap::forget_placements`]; [`OsdMap::apply`] needs no such care.

#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss))]
#![forbid(unsafe_code)]

mod apply;
mod beats;
mod carried;
mod incremental;
mod interval;
mod layouts;
mod mgrmap;
mod monmap;
mod osd;
mod osdmap;
mod placement;
mod placements;
mod pool;

pub use apply::{ApplyError, Sealed};
pub use beats::MOST_PARTNERS;
pub use incremental::{Incremental, NewStretchMode};
pub use interval::{Interval, share};
pub use layouts::{FIRST_LAYOUT, Layout, Layouts};
pub use mgrmap::{MgrMap, ModuleInfo, ModuleOption, StandbyInfo};
pub use monmap::{ALL_MON_FEATURES, MonInfo, MonMap};
pub use osd::{OsdInfo, OsdXInfo, state};
pub use osdmap::{OsdMap, StretchMode, flags};
pub use placements::{NO_OSD, Placements, UpActing};
pub use pool::{HitSetParams, MergeMeta, OptValue, Pool, PoolSnap, autoscale_mode, cache_mode, opts, pool_flags, pool_type};
