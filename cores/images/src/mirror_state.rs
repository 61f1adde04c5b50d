//! What is written down of a mirrored image beside its data, for each of its mirror snapshots.

use crate::Result;
use crate::image::{self, Image};
use crate::work::Io;
use bytes::Bytes;
use denc::{Encode, envelope};
use messages::class::rbd::{SnapshotNamespace, feature};
use messages::code;
use messages::osd::Op;
use objecter::SnapContext;
use std::collections::BTreeMap;

/// Features that follow from others or from how the image was made, and are not part of its mirrored state.
const IMPLICIT: u64 = feature::STRIPINGV2
    | feature::DATA_POOL
    | feature::FAST_DIFF
    | feature::OPERATIONS
    | feature::MIGRATING
    | feature::NON_PRIMARY
    | feature::DIRTY_CACHE;
/// Entries of an image's metadata that one request asks for.
const METADATA_PAGE: u64 = 64;

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

/// The object that holds the state of an image at a snapshot.
fn object(image: &Image, snap: u64) -> String {
    format!("rbd_mirror_snapshot.{}.{snap}.0", image.id)
}

/// Writes down what an image is besides its data, for those who copy the snapshot.
pub(crate) async fn write(io: &Io, image: &Image, snap: u64) -> Result<()> {
    let header = image.header();
    let name = image::name_of(io, &image.at, &image.id).await?.unwrap_or_default();
    let limit: u64 = io.call(&image.at, &header, "snapshot_get_limit", b"").await?;
    let mut snaps = BTreeMap::new();
    for s in image.snaps.iter().filter(|s| s.info.namespace == SnapshotNamespace::User) {
        let status: u8 = io.call(&image.at, &header, "get_protection_status", &s.info.id.to_bytes()).await?;
        snaps.insert(s.info.id, (s.info.name.clone(), status));
    }
    let metadata = metadata(io, image).await?;
    let mut out = Vec::new();
    // How many objects the state takes, then the state.
    envelope(&mut out, 1, 1, |out| 1u32.encode(out));
    envelope(&mut out, 1, 1, |out| {
        bytes(&name).encode(out);
        (image.features & !IMPLICIT).encode(out);
        limit.encode(out);
        denc::put_count(out, snaps.len());
        for (id, (name, status)) in &snaps {
            id.encode(out);
            envelope(out, 1, 1, |out| {
                SnapshotNamespace::User.encode(out);
                name.encode(out);
                status.encode(out);
            });
        }
        metadata.encode(out);
    });
    let write = Op::extent(code::WRITEFULL, 0, out.len() as u64, out);
    io.write_ops(&image.at, &object(image, snap), vec![write], SnapContext::default()).await
}

async fn metadata(io: &Io, image: &Image) -> Result<BTreeMap<Bytes, Bytes>> {
    let mut all = BTreeMap::new();
    loop {
        let after = all.last_key_value().map(|(key, _): (&Bytes, &Bytes)| key.clone()).unwrap_or_default();
        let page: BTreeMap<Bytes, Bytes> =
            io.call(&image.at, &image.header(), "metadata_list", &(after, METADATA_PAGE).to_bytes()).await?;
        let last = (page.len() as u64) < METADATA_PAGE;
        all.extend(page);
        if last {
            return Ok(all);
        }
    }
}

/// Removes what was written down for a snapshot.
pub(crate) async fn remove(io: &Io, image: &Image, snap: u64) -> Result<()> {
    io.delete(&image.at, &object(image, snap), SnapContext::default()).await
}
