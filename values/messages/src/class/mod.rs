//! Inputs, outputs and stored states of the small object classes. The methods themselves live with the OSD.

pub mod lock;
pub mod refcount;
pub mod version;
