//! Images as clients make and use them, and what they should hold by that.

use super::{Key, World};
use bytes::Bytes;
use denc::{Decode, Encode};
use messages::class::rbd::{
    ChildImageSpec, MigrationSpec, ParentImageSpec, SnapshotNamespace, TrashImageSpec, feature, migration_header, migration_state,
};
use messages::code;
use messages::osd::{Op, OpArgs};
use objecter::SnapContext;
use std::collections::BTreeMap;
use types::UTime;

const HEAD: u64 = u64::MAX - 1;
const EXISTS: u8 = 1;

/// What an image shall be.
#[derive(Clone, Copy)]
pub(crate) struct Spec {
    pub(crate) pool: i64,
    pub(crate) name: &'static str,
    pub(crate) size: u64,
    pub(crate) order: u8,
    pub(crate) features: u64,
}

/// An image, as whoever made it knows it.
#[derive(Clone)]
pub(crate) struct Image {
    pub(crate) pool: i64,
    pub(crate) name: String,
    pub(crate) id: String,
    pub(crate) size: u64,
    pub(crate) order: u8,
    pub(crate) features: u64,
    /// Oldest first: id, size.
    pub(crate) snaps: Vec<(u64, u64)>,
    /// Image, snapshot, bytes of the head that lie over it.
    pub(crate) parent: Option<(Box<Image>, u64, u64)>,
}

impl Image {
    pub(crate) fn key(&self, object: &str) -> Key {
        (self.pool, String::new(), Bytes::copy_from_slice(object.as_bytes()))
    }

    fn header(&self) -> Key {
        self.key(&format!("rbd_header.{}", self.id))
    }

    fn map(&self, snap: Option<u64>) -> Key {
        match snap {
            None => self.key(&format!("rbd_object_map.{}", self.id)),
            Some(snap) => self.key(&format!("rbd_object_map.{}.{snap:016x}", self.id)),
        }
    }

    fn object(&self, number: u64) -> Key {
        self.key(&format!("rbd_data.{}.{number:016x}", self.id))
    }

    fn object_size(&self) -> u64 {
        1 << self.order
    }

    fn objects(&self) -> u64 {
        self.size.div_ceil(self.object_size())
    }

    fn snapc(&self) -> SnapContext {
        SnapContext { seq: self.snaps.last().map_or(0, |s| s.0), snaps: self.snaps.iter().rev().map(|s| s.0).collect() }
    }

    fn has(&self, features: u64) -> bool {
        self.features & features == features
    }
}

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn none() -> SnapContext {
    SnapContext::default()
}

impl World {
    pub(crate) fn make(&mut self, spec: Spec) -> Image {
        let Spec { pool, name, size, order, features } = spec;
        let image = Image {
            pool,
            name: name.into(),
            id: format!("1{:x}{}", name.len(), name.bytes().map(|b| format!("{b:x}")).collect::<String>()),
            size,
            order,
            features,
            snaps: Vec::new(),
            parent: None,
        };
        self.give_name(&image);
        let prefix = bytes(&format!("rbd_data.{}", image.id));
        let input = ((size, order), (features & !feature::MIGRATING, prefix)).to_bytes();
        let create = Op::new(code::CREATE, OpArgs::None);
        self.client(&image.header(), vec![create, Op::call("rbd", "create", &input)], none());
        if image.has(feature::OBJECT_MAP) {
            self.exec(&image.map(None), "object_map_resize", &(image.objects(), 0u8).to_bytes());
        }
        image
    }

    fn give_name(&mut self, image: &Image) {
        let create = Op::new(code::CREATE, OpArgs::None);
        let set_id = Op::call("rbd", "set_id", &bytes(&image.id).to_bytes());
        self.client(&image.key(&format!("rbd_id.{}", image.name)), vec![create, set_id], none());
        self.exec(&image.key("rbd_directory"), "dir_add_image", &(bytes(&image.name), bytes(&image.id)).to_bytes());
    }

    pub(crate) fn snapshot(&mut self, image: &mut Image) -> u64 {
        let snap = self.new_snap(image.pool);
        let input = ((bytes(&format!("snap {snap}")), snap), SnapshotNamespace::User).to_bytes();
        self.exec(&image.header(), "snapshot_add", &input);
        if image.has(feature::OBJECT_MAP) {
            let map = self.client(&image.map(None), vec![Op::extent(code::READ, 0, 0, Bytes::new())], none());
            let len = map.len() as u64;
            self.client(&image.map(Some(snap)), vec![Op::extent(code::WRITEFULL, 0, len, map)], none());
            self.exec(&image.map(None), "object_map_snap_add", b"");
        }
        image.snaps.push((snap, image.size));
        snap
    }

    pub(crate) fn resize(&mut self, image: &mut Image, size: u64) {
        assert!(size >= image.size, "this world only knows growth");
        self.exec(&image.header(), "set_size", &size.to_bytes());
        image.size = size;
        if image.has(feature::OBJECT_MAP) {
            self.exec(&image.map(None), "object_map_resize", &(image.objects(), 0u8).to_bytes());
        }
    }

    /// Fills a part of an image with a byte; an object that a clone lacks gets the parent's bytes first.
    pub(crate) fn fill(&mut self, image: &Image, offset: u64, len: u64, byte: u8) {
        for number in offset / image.object_size()..(offset + len).div_ceil(image.object_size()) {
            let first = number * image.object_size();
            let (from, to) = (offset.max(first) - first, (offset + len).min(first + image.object_size()) - first);
            if image.has(feature::OBJECT_MAP) {
                let update = ((number, number + 1), (EXISTS, false)).to_bytes();
                self.exec(&image.map(None), "object_map_update", &update);
            }
            let lacks = self.objects.get(&image.object(number)).is_none_or(|o| o.head.is_none());
            if lacks && image.parent.as_ref().is_some_and(|(_, _, overlap)| first < *overlap) {
                let below = self.content(image, HEAD);
                let end = below.len().min((first + image.object_size()) as usize);
                let data = Bytes::copy_from_slice(&below[first as usize..end]);
                let copy = Op::extent(code::WRITE, 0, data.len() as u64, data);
                self.client(&image.object(number), vec![copy], none());
                // All snapshots see it from now on.
                for (snap, _) in image.snaps.iter().filter(|_| image.has(feature::OBJECT_MAP)) {
                    let update = ((number, number + 1), (EXISTS, false)).to_bytes();
                    self.exec(&image.map(Some(*snap)), "object_map_update", &update);
                }
            }
            let data = Bytes::from(vec![byte; (to - from) as usize]);
            let write = Op::extent(code::WRITE, from, to - from, data);
            self.client(&image.object(number), vec![write], image.snapc());
        }
    }

    /// A clone of the second kind, in the same pool.
    pub(crate) fn clone_of(&mut self, parent: &Image, snap: u64, spec: Spec) -> Image {
        let size = parent.snaps.iter().find(|s| s.0 == snap).expect("a snapshot").1;
        let mut child = self.make(Spec { size, ..spec });
        let spec = ParentImageSpec { pool: parent.pool, namespace: Bytes::new(), image: bytes(&parent.id), snap };
        self.exec(&child.header(), "parent_attach", &(spec, size).to_bytes());
        let child_spec = ChildImageSpec { pool: child.pool, namespace: Bytes::new(), image: bytes(&child.id) };
        self.exec(&parent.header(), "child_attach", &(snap, child_spec).to_bytes());
        child.parent = Some((Box::new(parent.clone()), snap, size));
        child
    }

    /// Returns what an image holds, as its head or a snapshot sees it.
    pub(crate) fn content(&self, image: &Image, snap: u64) -> Vec<u8> {
        let size = image.snaps.iter().find(|s| s.0 == snap).map_or(image.size, |s| s.1);
        let mut all = vec![0; size as usize];
        let below = match &image.parent {
            Some((parent, snap, overlap)) => {
                let mut below = self.content(parent, *snap);
                below.truncate(*overlap as usize);
                below
            }
            None => Vec::new(),
        };
        for number in 0..size.div_ceil(image.object_size()) {
            let first = (number * image.object_size()) as usize;
            let end = all.len().min(first + image.object_size() as usize);
            let own = self.objects.get(&image.object(number)).and_then(|o| o.at(snap));
            let source = match own {
                Some(data) => &data.bytes[..],
                None => below.get(first..).unwrap_or_default(),
            };
            let n = source.len().min(end - first);
            all[first..first + n].copy_from_slice(&source[..n]);
        }
        all
    }

    /// Returns what the head and all snapshots hold.
    pub(crate) fn contents(&self, image: &Image) -> Vec<Vec<u8>> {
        image.snaps.iter().map(|s| s.0).chain([HEAD]).map(|snap| self.content(image, snap)).collect()
    }

    /// Every object that the head or a snapshot sees stands in its object map.
    pub(crate) fn check_maps(&mut self, image: &Image) {
        if !image.has(feature::OBJECT_MAP) {
            return;
        }
        for snap in image.snaps.iter().map(|s| Some(s.0)).chain([None]) {
            let raw = self.exec(&image.map(snap), "object_map_load", b"");
            // A length, a version of six bytes and a count; then two bits for each.
            let bits = &raw[18..];
            for number in 0..image.objects() {
                let there = self.objects.get(&image.object(number)).is_some_and(|o| o.at(snap.unwrap_or(HEAD)).is_some());
                let state = bits.get(number as usize / 4).map_or(0, |b| b >> ((3 - number % 4) * 2) & 3);
                assert!(!there || state != 0, "object {number} of {} at {snap:?} is not in the map", image.name);
            }
        }
    }

    /// Returns how many clones the snapshots of an image have.
    pub(crate) fn clones(&mut self, image: &Image) -> usize {
        let count = |world: &mut Self, snap: u64| {
            let out = world.try_client(&image.header(), vec![Op::call("rbd", "children_list", &snap.to_bytes())], none());
            let output = out.ops[0].output.contiguous();
            if out.result < 0 { 0 } else { Vec::<ChildImageSpec>::from_bytes(&output).expect("a list").len() }
        };
        image.snaps.iter().map(|s| count(self, s.0)).sum()
    }

    /// Moves an image to the trash, for a user (0) or a migration (2).
    pub(crate) fn trash(&mut self, image: &Image, source: u8) {
        let entry = TrashImageSpec { source, name: bytes(&image.name), deleted: UTime::ZERO, deferred: UTime::ZERO, state: 0 };
        self.exec(&image.key("rbd_trash"), "trash_add", &(bytes(&image.id), entry).to_bytes());
        let delete = Op::new(code::DELETE, OpArgs::None);
        self.client(&image.key(&format!("rbd_id.{}", image.name)), vec![delete], none());
        self.exec(&image.key("rbd_directory"), "dir_remove_image", &(bytes(&image.name), bytes(&image.id)).to_bytes());
    }

    /// `rbd migration prepare`: the target is there, and reads through.
    pub(crate) fn prepare(&mut self, source: &Image, spec: Spec, flatten: bool) -> Image {
        self.trash(source, 2);
        let mut target = match source.parent.as_ref().filter(|_| !flatten) {
            Some((parent, snap, _)) => self.clone_of(&parent.clone(), *snap, spec),
            None => self.make(Spec { size: source.snaps.first().map_or(source.size, |s| s.1), ..spec }),
        };
        let mut snap_seqs = BTreeMap::new();
        for (snap, size) in &source.snaps {
            let size = target.size.max(*size);
            self.resize(&mut target, size);
            snap_seqs.insert(*snap, self.snapshot(&mut target));
        }
        self.resize(&mut target, source.size);
        let end = |header_type, to: &Image| MigrationSpec {
            header_type,
            pool: to.pool,
            image_name: bytes(&to.name),
            image: bytes(&to.id),
            snap_seqs: snap_seqs.clone(),
            overlap: source.size,
            flatten,
            state: migration_state::PREPARED,
            ..MigrationSpec::default()
        };
        self.exec(&source.header(), "migration_set", &end(migration_header::SRC, &target).to_bytes());
        self.exec(&target.header(), "migration_set", &end(migration_header::DST, source).to_bytes());
        target
    }

    /// Returns true if an image's header says that it moves.
    pub(crate) fn is_moving(&mut self, image: &Image) -> bool {
        self.try_client(&image.header(), vec![Op::call("rbd", "migration_get", b"")], none()).result == 0
    }

    /// Returns true if an image's name leads to it.
    pub(crate) fn has_name(&self, image: &Image) -> bool {
        let object = self.objects.get(&image.key(&format!("rbd_id.{}", image.name)));
        object.and_then(|o| o.head.as_ref()).is_some_and(|data| data.bytes == bytes(&image.id).to_bytes())
    }

    /// Objects that are left of an image, by name.
    pub(crate) fn left_of(&self, image: &Image) -> Vec<String> {
        let own = |name: &str| name.contains(&image.id) || name.ends_with(&format!("rbd_id.{}", image.name));
        self.left().into_iter().filter(|name| own(name)).collect()
    }
}
