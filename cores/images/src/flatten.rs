//! Making a clone independent of its parent: what it only sees through is copied, then the parent is let go.

use crate::image::Image;
use crate::lock::{self, Holder};
use crate::notice::{self, Work};
use crate::object_map;
use crate::parent::{self, Chain};
use crate::rados::Place;
use crate::remove;
use crate::work::{Io, Progress, each};
use crate::{Fail, Result};
use bytes::Bytes;
use denc::Encode;
use messages::class::rbd::feature;
use messages::osd::Op;
use objecter::SnapContext;
use std::collections::BTreeMap;
use types::Errno;

/// Objects that are copied at a time, and bytes that they may have together.
const AT_A_TIME: u64 = 8;
const BYTES: u64 = 32 << 20;
/// Zeros of this length and more are left out of a copy.
const GRAIN: usize = 4096;

/// Flattens an image. If a living client has its lock, that client is asked to do it.
///
/// # Errors
/// ENOENT: there is no such image. EINVAL: it has no parent. EBUSY: it is used by a client that does not do it.
pub async fn flatten(io: &Io, at: &Place, id: &str, progress: &Progress) -> Result<()> {
    let image = Image::open(io, at, id).await?;
    if image.parent.is_none() || image.overlap.is_none() {
        return Err(Fail::new(Errno::EINVAL, "the image has no parent"));
    }
    if image.has(feature::MIGRATING) {
        return Err(Fail::new(Errno::EBUSY, "the image is being migrated"));
    }
    match lock::take(io, &image, Holder::Respect).await {
        Ok(held) => {
            let done = flatten_locked(io, &image, progress).await;
            held.release(io, &image).await;
            done
        }
        Err(fail) if fail.errno == Errno::EBUSY => notice::order(io, &image, Work::Flatten, progress).await,
        Err(fail) => Err(fail),
    }
}

async fn flatten_locked(io: &Io, image: &Image, progress: &Progress) -> Result<()> {
    // The header is read again: before the lock, somebody may have changed it.
    let image = &Image::open(io, &image.at, &image.id).await?;
    let (Some(spec), Some(overlap)) = (&image.parent, image.overlap) else { return Ok(()) };
    let deep = image.has(feature::DEEP_FLATTEN);
    if deep && image.snaps.iter().any(|s| s.overlap.is_some_and(|o| o > overlap)) {
        return Err(Fail::new(
            Errno::EOPNOTSUPP,
            "the image was larger when a snapshot was made; only `rbd flatten` copies what that one needs",
        ));
    }
    let chain = &Chain::open(io, spec).await?;
    let objects = image.layout.objects(overlap);
    progress.expect(objects);
    let at_a_time = (BYTES / image.layout.object_size).clamp(1, AT_A_TIME) as usize;
    each(at_a_time, 0..objects, |number| {
        let (io, progress) = (io.clone(), progress.clone());
        async move {
            progress.check()?;
            copy(&io, image, chain, number, overlap, deep).await?;
            progress.step()
        }
    })
    .await?;
    let snaps_keep_it = !deep && image.snaps.iter().any(|s| s.overlap.is_some());
    if !snaps_keep_it && let Some(orphan) = parent::unlink(io, image, spec).await? {
        remove::orphan(io, orphan).await;
    }
    parent::detach(io, image).await?;
    notice::header_changed(io, image).await;
    Ok(())
}

/// Copies one object's part of the parent, unless the clone has the object or the parent has nothing there.
async fn copy(io: &Io, image: &Image, chain: &Chain, number: u64, overlap: u64, deep: bool) -> Result<()> {
    let object = image.object(number);
    if io.exists(&image.data, &object).await? {
        return Ok(());
    }
    let data = chain.object(io, &image.layout, number, overlap).await?;
    let (extents, bytes) = without_zeros(&data);
    if extents.is_empty() {
        return Ok(());
    }
    note(io, image, number, deep).await?;
    let call = Op::call("rbd", "sparse_copyup", &(extents, Bytes::from(bytes)).to_bytes());
    // What snapshots shall see, too, is written as if there were none yet.
    let snapc = if deep { SnapContext::default() } else { image.snapc.clone() };
    io.write_ops(&image.data, &object, vec![call], snapc).await
}

/// The parts that are not zeros, and their bytes one after the other.
fn without_zeros(data: &[u8]) -> (BTreeMap<u64, u64>, Vec<u8>) {
    let (mut extents, mut bytes) = (BTreeMap::<u64, u64>::new(), Vec::new());
    let mut end = None;
    for (index, block) in data.chunks(GRAIN).enumerate() {
        if block.iter().all(|b| *b == 0) {
            continue;
        }
        let at = (index * GRAIN) as u64;
        match extents.last_entry().filter(|_| end == Some(at)) {
            Some(mut last) => *last.get_mut() += block.len() as u64,
            None => drop(extents.insert(at, block.len() as u64)),
        }
        end = Some(at + block.len() as u64);
        bytes.extend_from_slice(block);
    }
    (extents, bytes)
}

/// Notes the object in the maps of all that will see it.
async fn note(io: &Io, image: &Image, number: u64, deep: bool) -> Result<()> {
    let seen_by = image.snaps.iter().filter(|s| deep && s.overlap.is_some()).map(|s| Some(s.info.id));
    // The oldest that sees it has it new; for all that come after it, it was not written since.
    let mut state = object_map::EXISTS;
    for snap in seen_by.chain([None]) {
        object_map::note(io, image, snap, number, state).await?;
        state = object_map::unchanged(image);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_are_left_out() {
        let mut data = vec![0; 5 * GRAIN + 100];
        data[GRAIN + 5] = 1;
        data[2 * GRAIN] = 2;
        data[5 * GRAIN + 99] = 3;
        let (extents, bytes) = without_zeros(&data);
        assert_eq!(extents, BTreeMap::from([(GRAIN as u64, 2 * GRAIN as u64), (5 * GRAIN as u64, 100)]));
        assert_eq!(bytes.len(), 2 * GRAIN + 100);
        assert_eq!((bytes[5], bytes[GRAIN], bytes[2 * GRAIN + 99]), (1, 2, 3));
        assert!(without_zeros(&[0; 9000]).0.is_empty());
    }
}
