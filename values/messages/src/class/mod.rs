//! Inputs, outputs and stored states of the object classes. The methods themselves live with the OSD.

pub mod journal;
pub mod lock;
pub mod log;
pub mod rbd;
pub mod refcount;
pub mod user;
pub mod version;
