//! Reads and writes by block image, for the manager's `rbd perf image` commands.
//!
//! An image's data is spread over objects named `rbd_data.[POOL.]ID.NUMBER` (its journal's: `journal_data.…`). POOL stands
//! there if the data is in another pool than the image. So the name of an object tells the image, without asking anybody.
//!
//! *Counted only on demand.* The manager asks (`count images`, again and again while somebody looks); each request is good for
//! [`LEASE`]. Without one, an operation costs one comparison more.
//!
//! *Figures are differences*: what is handed to a report is forgotten here. If the report is lost with its session, so are its figures.
//!
//! *Bounded*: at most [`IMAGES`] images between two reports (operations on others are left out until the next one), of which
//! those are reported that are among the [`TOP`] first by any figure.

use bytes::Bytes;
use messages::internal::ImageFigures;
use node::Mono;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use types::{Locator, PoolId};

/// How long images are counted after the manager asked last.
const LEASE: Duration = Duration::from_secs(60);
/// Images that are counted between two reports.
const IMAGES: usize = 4096;
/// Longest id of an image, in bytes. Stock clients make some 12 to 16; what is longer is no image's.
const ID: usize = 64;
/// Longest namespace, in bytes: operations in longer ones are refused.
const NAMESPACE: usize = 256;
/// Images that are reported for each figure.
const TOP: usize = 128;

/// An image, as the names of its objects tell it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Image {
    pool: PoolId,
    nspace: Bytes,
    id: Bytes,
}

impl Image {
    /// The image that an object belongs to, if it belongs to one.
    pub(crate) fn of(locator: &Locator, object: &Bytes) -> Option<Self> {
        let rest = object.strip_prefix(b"rbd_data.").or_else(|| object.strip_prefix(b"journal_data."))?;
        let mut parts = rest.split(|b| *b == b'.');
        let (first, second, third) = (parts.next()?, parts.next()?, parts.next());
        let elsewhere = std::str::from_utf8(first).ok().filter(|t| t.bytes().all(|b| b.is_ascii_digit()));
        let (pool, id) = match (elsewhere.and_then(|t| t.parse::<PoolId>().ok()), third) {
            (Some(pool), Some(_)) if !second.is_empty() => (pool, second),
            _ => (locator.pool, first),
        };
        // Copies: slices would keep the whole message in memory.
        let copy = Bytes::copy_from_slice;
        (!id.is_empty() && id.len() <= ID && locator.nspace.len() <= NAMESPACE).then(|| Self {
            pool,
            nspace: copy(&locator.nspace),
            id: copy(id),
        })
    }
}

/// What one answered operation adds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Share {
    /// It wrote.
    pub(crate) write: bool,
    /// It read.
    pub(crate) read: bool,
    /// Bytes that came with it.
    pub(crate) bytes_in: u64,
    /// Bytes of its answer.
    pub(crate) bytes_out: u64,
    /// From its arrival until its answer was handed to the system.
    pub(crate) latency: Duration,
}

/// The figures since the last report, while they are wanted.
#[derive(Default)]
pub(crate) struct Images {
    until: Mono,
    figures: BTreeMap<Image, [u64; 6]>,
}

impl Images {
    /// The manager wants figures for a while from now.
    pub(crate) fn want(&mut self, now: Mono) {
        self.until = now.plus(LEASE);
    }

    /// Whether operations are counted.
    pub(crate) fn wanted(&self, now: Mono) -> bool {
        now < self.until
    }

    /// An operation on an image was answered.
    pub(crate) fn count(&mut self, image: Image, share: Share) {
        if self.figures.len() >= IMAGES && !self.figures.contains_key(&image) {
            return;
        }
        let sums = self.figures.entry(image).or_default();
        let latency = u64::try_from(share.latency.as_nanos()).unwrap_or(u64::MAX);
        let writes = [1, 0, share.bytes_in, 0, latency, 0].map(|n| if share.write { n } else { 0 });
        let reads = [0, 1, 0, share.bytes_out, 0, latency].map(|n| if share.read { n } else { 0 });
        for ((sum, write), read) in sums.iter_mut().zip(writes).zip(reads) {
            *sum = sum.saturating_add(write).saturating_add(read);
        }
    }

    /// Whether there is something to report.
    pub(crate) fn is_empty(&self) -> bool {
        self.figures.is_empty()
    }

    /// The figures for a report; counting begins anew.
    pub(crate) fn take(&mut self) -> Vec<ImageFigures> {
        let all: Vec<(Image, [u64; 6])> = std::mem::take(&mut self.figures).into_iter().collect();
        let mut chosen = BTreeSet::new();
        for figure in 0..6 {
            let mut order: Vec<usize> = (0..all.len()).filter(|i| all[*i].1[figure] > 0).collect();
            order.sort_unstable_by_key(|i| std::cmp::Reverse(all[*i].1[figure]));
            chosen.extend(order.into_iter().take(TOP));
        }
        let report = |(image, sums): &(Image, [u64; 6])| ImageFigures {
            pool: image.pool,
            nspace: image.nspace.clone(),
            image: image.id.clone(),
            write_ops: sums[0],
            read_ops: sums[1],
            write_bytes: sums[2],
            read_bytes: sums[3],
            write_nanos: sums[4],
            read_nanos: sums[5],
        };
        chosen.into_iter().map(|i| report(&all[i])).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn locator(pool: PoolId, nspace: &'static str) -> Locator {
        Locator { pool, nspace: Bytes::from_static(nspace.as_bytes()), ..Locator::default() }
    }

    fn image_of(object: &'static str) -> Option<(PoolId, String)> {
        let image = Image::of(&locator(7, "ns"), &Bytes::from_static(object.as_bytes()))?;
        assert_eq!(&image.nspace[..], b"ns");
        Some((image.pool, String::from_utf8(image.id.to_vec()).unwrap()))
    }

    #[test]
    fn names_of_objects_tell_the_image() {
        assert_eq!(image_of("rbd_data.10226b8b4567.0000000000000001"), Some((7, "10226b8b4567".into())));
        assert_eq!(image_of("rbd_data.3.10226b8b4567.0000000000000001"), Some((3, "10226b8b4567".into())));
        assert_eq!(image_of("journal_data.3.10226b8b4567.12"), Some((3, "10226b8b4567".into())));
        // An id of digits alone is no pool.
        assert_eq!(image_of("rbd_data.123456.0000000000000001"), Some((7, "123456".into())));
        assert_eq!(image_of("rbd_data.99999999999999999999.1.2"), Some((7, "99999999999999999999".into())));
        for other in ["rbd_header.10226b8b4567", "rbd_data.", "rbd_data.abc", "rbd_data..1", "rbd_directory", ""] {
            assert_eq!(image_of(other), None, "{other}");
        }
    }

    fn share(write: bool, read: bool) -> Share {
        Share { write, read, bytes_in: 4096, bytes_out: 512, latency: Duration::from_micros(3) }
    }

    fn some(n: usize) -> Image {
        Image::of(&locator(1, ""), &Bytes::from(format!("rbd_data.id{n}.0"))).unwrap()
    }

    #[test]
    fn figures_are_summed_by_image_and_forgotten_when_taken() {
        let mut images = Images::default();
        images.count(some(1), share(true, false));
        images.count(some(1), share(false, true));
        images.count(some(2), share(true, true));
        let mut taken = images.take();
        taken.sort_by(|a, b| a.image.cmp(&b.image));
        let figures = |f: &ImageFigures| (f.write_ops, f.read_ops, f.write_bytes, f.read_bytes, f.write_nanos, f.read_nanos);
        assert_eq!(taken.iter().map(figures).collect::<Vec<_>>(), [(1, 1, 4096, 512, 3000, 3000); 2]);
        assert_eq!(&taken[0].image[..], b"id1");
        assert!(images.is_empty() && images.take().is_empty());
    }

    #[test]
    fn they_are_wanted_only_for_a_while() {
        let mut images = Images::default();
        assert!(!images.wanted(Mono(1)));
        images.want(Mono(1));
        assert!(images.wanted(Mono(1).plus(LEASE / 2)));
        assert!(!images.wanted(Mono(1).plus(LEASE)));
    }

    #[test]
    fn of_very_many_images_the_first_of_each_figure_are_reported() {
        let mut images = Images::default();
        for n in 0..IMAGES + 100 {
            images.count(some(n), share(true, false));
        }
        assert_eq!(images.figures.len(), IMAGES);
        // One that reads, and one that writes much.
        images.count(some(5), share(false, true));
        (0..10).for_each(|_| images.count(some(6), share(true, false)));
        let taken = images.take();
        assert!(taken.len() <= 6 * TOP);
        let found = |id: &str| taken.iter().find(|f| f.image == id.as_bytes());
        assert_eq!(found("id5").map(|f| f.read_ops), Some(1));
        assert_eq!(found("id6").map(|f| f.write_ops), Some(11));
    }
}
