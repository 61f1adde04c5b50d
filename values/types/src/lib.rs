//! The shared vocabulary: who (entities, addresses), when (epochs, versions, times), where (pools, placement groups),
//! what (object names, snapshots, request ids), with Ceph's encodings and orders.
//!
//! Layouts are those of release 16.2, as `docs/format/wire.md` lists them.

#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss))]
#![forbid(unsafe_code)]

pub mod addr;
pub mod errno;
pub mod features;
pub mod hash;
pub mod ids;
pub mod intervals;
pub mod level;
pub mod message;
pub mod object;
pub mod object_id;
pub mod pg_state;
pub mod rope;
pub mod time;

pub use addr::{AddrType, EntityAddr, EntityAddrVec};
pub use errno::Errno;
pub use ids::{
    CopyId, EVersion, EntityName, EntityType, Epoch, Fsid, HOLE, OsdId, PgId, PoolId, ReqId, SessionId, ShardId, SnapId, SpgId,
    is_osd,
};
pub use intervals::Intervals;
pub use level::{Feature, Levels};
pub use message::Message;
pub use object::{HObject, Locator};
pub use object_id::ObjectId;
pub use pg_state::PgState;
pub use rope::{BlockSums, Rope};
pub use time::UTime;
