//! Mirroring of images between clusters: what the pool's object `rbd_mirroring` and its like know.

mod images;
mod peers;
mod status;

pub(super) use images::METHODS as IMAGES;
pub(super) use peers::METHODS as PEERS;
pub(super) use status::METHODS as STATUS;
