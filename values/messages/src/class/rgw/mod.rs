//! Class `rgw`: the index of a bucket of the object gateway, and the gateway's logs and queues of work.
//!
//! Names and tags are bytes: an S3 key need not be UTF-8 to the class. Numbers that name a kind are kept as they came,
//! since a newer client may know more of them.

pub mod gc;
pub mod index;
pub mod index_ops;
pub mod lc;
pub mod reshard;
pub mod upload_part;
pub mod usage;
