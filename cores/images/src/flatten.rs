//! Making a clone independent of its parent: what it only sees through is copied, then the parent is let go.

use crate::image::{Image, object_map};
use crate::lock::{self, Holder};
use crate::parent::{self, Chain};
use crate::rados::Place;
use crate::work::{Io, Progress, each};
use crate::{Fail, Optional, Result};
use bytes::Bytes;
use denc::Encode;
use messages::class::rbd::feature;
use messages::osd::Op;
use objecter::SnapContext;
use std::collections::BTreeMap;
use std::time::Duration;
use types::Errno;

/// Objects that are copied at a time, and bytes that they may have together.
const AT_A_TIME: u64 = 8;
const BYTES: u64 = 32 << 20;
/// Zeros of this length and more are left out of a copy.
const GRAIN: usize = 4096;
/// How often it is looked whether the client that has the image is done.
const LOOK: Duration = Duration::from_secs(1);

/// What the object map says of an object: not there; written since the last snapshot; there, but not written since.
const NONE: u8 = 0;
const EXISTS: u8 = 1;
const EXISTS_CLEAN: u8 = 3;

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
        Err(fail) if fail.errno == Errno::EBUSY => by_holder(io, &image, progress).await,
        Err(fail) => Err(fail),
    }
}

/// Has the client that uses the image flatten it, and waits.
async fn by_holder(io: &Io, image: &Image, progress: &Progress) -> Result<()> {
    lock::ask_to_flatten(io, &image.at, &image.header(), io.now().as_nanos()).await;
    loop {
        progress.check()?;
        io.sleep(LOOK).await;
        let Some(now) = Image::open(io, &image.at, &image.id).await.optional()? else { return Ok(()) };
        if now.overlap.is_none() {
            return Ok(());
        }
        if io.watchers(&image.at, &image.header()).await?.is_empty() {
            return Err(Fail::new(Errno::EAGAIN, "the client that was to flatten the image has closed it"));
        }
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
    if !snaps_keep_it {
        parent::unlink(io, image, spec).await?;
    }
    parent::detach(io, image).await?;
    io.header_changed(&image.at, &image.header()).await;
    Ok(())
}

/// Copies one object's part of the parent, unless the clone has the object or the parent has nothing there.
async fn copy(io: &Io, image: &Image, chain: &Chain, number: u64, overlap: u64, deep: bool) -> Result<()> {
    let object = image.object(number);
    if io.exists(&image.data, &object).await? {
        return Ok(());
    }
    let mut data = Vec::new();
    for part in image.layout.of_object(number, overlap) {
        data.resize((part.offset + part.len) as usize, 0);
        chain.read(io, part.image, &mut data[part.offset as usize..]).await?;
    }
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

/// Enters an object that is about to exist in the object maps of all that will see it. An object that is noted and not there does no harm.
async fn note(io: &Io, image: &Image, number: u64, deep: bool) -> Result<()> {
    if !image.has(feature::OBJECT_MAP) {
        return Ok(());
    }
    let seen_by = image.snaps.iter().filter(|s| deep && s.overlap.is_some()).map(|s| Some(s.info.id));
    let mut state = EXISTS;
    for snap in seen_by.chain([None]) {
        // First object, the one after the last, the new state, and the state that it replaces.
        let update = ((number, number + 1), ((state, true), NONE)).to_bytes();
        // A map that is missing, too short or damaged is marked so by the clients that use it.
        match io.exec(&image.at, &object_map(&image.id, snap), "object_map_update", &update).await {
            Err(fail) if ![Errno::ENOENT, Errno::EINVAL, Errno::ERANGE].contains(&fail.errno) => return Err(fail),
            _ => {}
        }
        // The oldest that sees it has it new; for all that come after it, it was not written since.
        if image.has(feature::FAST_DIFF) {
            state = EXISTS_CLEAN;
        }
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
