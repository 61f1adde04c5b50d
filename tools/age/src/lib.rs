//! Ages a store as years of use would, and measures what it costs then.
//!
//! The store is the product's, and its time is virtual. Its disk is a sparse file in memory that forgets data (see
//! [`disk`]), so a disk of 16 TiB takes as much memory as its index has bytes. Counted is the processor time of the
//! store's own calls; what the disk and the clients here cost is not.
//!
//! | module | what it is |
//! |---|---|
//! | `disk` | the disk |
//! | `rig` | a store, its disk, and a meter of both |
//! | `profiles` | what clients do: images, snapshots, buckets, files, omap, many objects |
//! | `figures` | fills, ages, measures; rows of tables; bounds |
//! | `goals` | what figures must be; reading before and after defragmentation |

#![forbid(unsafe_code)]

pub mod disk;
pub mod figures;
pub mod goals;
pub mod profiles;
pub mod rig;
