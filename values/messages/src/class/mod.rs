//! Inputs, outputs and stored states of the object classes. The methods themselves live with the OSD.

pub mod lock;
pub mod rbd;
pub mod refcount;
pub mod version;
