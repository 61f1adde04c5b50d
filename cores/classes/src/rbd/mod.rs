//! Class `rbd`: block images. An image is a header object with everything about it in its omap, an object that leads
//! from its name to its id, perhaps an object map, and its data objects; a pool has directories of images, groups,
//! namespaces, clones, the trash, and the objects of mirroring. What is in them is private to the class: clients call
//! methods only, except that they copy object maps as they are.

mod data;
mod directory;
mod group;
mod image;
mod keys;
mod metadata;
mod migration;
mod mirror;
mod object_map;
mod old;
mod parent;
mod snapshots;
#[cfg(test)]
mod tests;

use crate::Method;

pub(crate) const METHODS: &[&[Method]] = &[
    image::METHODS,
    snapshots::METHODS,
    parent::METHODS,
    object_map::METHODS,
    data::METHODS,
    directory::METHODS,
    metadata::METHODS,
    group::METHODS,
    migration::METHODS,
    mirror::PEERS,
    mirror::IMAGES,
    mirror::STATUS,
    old::METHODS,
];
