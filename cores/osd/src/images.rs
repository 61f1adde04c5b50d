//! Reads and writes by block image, for metrics and for the manager's `rbd perf image` commands.
//!
//! An image's data is spread over objects named `rbd_data.[POOL.]ID.NUMBER` (its journal's: `journal_data.…`). POOL
//! stands there if the data is in another pool than the image. So the name of an object tells the image, without asking
//! anybody.
//!
//! *Always counted.* An image has a place in a table from its first operation on. A session remembers the place of the
//! image that it used last, and what its objects' names begin with: so the next operation costs a comparison and a few
//! additions.
//!
//! *Reported* every [`SELDOM`]; with each report while somebody looks. The manager says that (`count images`, again and
//! again); each time is good for [`LEASE`].
//!
//! *Figures are differences*: what is handed to a report is forgotten here, and what a report had no room for comes
//! with a later one. If a report is lost with its session, so are its figures.
//!
//! *Bounded*: [`IMAGES`] places. One that did nothing for [`IDLE`] and has nothing to report is given to another image.
//! Without a free one, operations are counted as left out. A report has at most [`ROWS`] images: those that are among
//! the [`TOP`] first by any figure, then the others in turn.

use bytes::Bytes;
use messages::internal::ImageFigures;
use node::Mono;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use types::{Locator, PoolId};

/// Time for which figures come with each report after the manager asked last.
const LEASE: Duration = Duration::from_secs(60);
/// Interval at which they come if nobody looks.
const SELDOM: Duration = Duration::from_secs(10);
/// Time for which a place is kept for an image that does nothing.
const IDLE: Duration = Duration::from_secs(600);
/// Interval at which places to be given away are looked for, while there are none.
const SWEEP: Duration = Duration::from_secs(10);
/// Images that have a place.
const IMAGES: usize = 16_384;
/// Longest id of an image, in bytes. Stock clients make some 12 to 16; what is longer is no image's.
const ID: usize = 64;
/// Longest namespace, in bytes: operations in longer ones are refused.
const NAMESPACE: usize = 256;
/// Images that are reported for each figure, before others.
const TOP: usize = 128;
/// Images of a report.
const ROWS: usize = 1024;

/// An image, as the names of its objects tell it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Image {
    pool: PoolId,
    nspace: Bytes,
    id: Bytes,
}

impl Image {
    /// The image that an object belongs to, if it belongs to one, and how many bytes all names of its objects begin
    /// with.
    fn of(locator: &Locator, object: &Bytes) -> Option<(Self, usize)> {
        let head = [&b"rbd_data."[..], b"journal_data."].into_iter().find(|head| object.starts_with(head))?;
        let mut parts = object[head.len()..].split(|b| *b == b'.');
        let (first, second, third) = (parts.next()?, parts.next()?, parts.next());
        let elsewhere = std::str::from_utf8(first).ok().filter(|t| t.bytes().all(|b| b.is_ascii_digit()));
        let (pool, id, before) = match (elsewhere.and_then(|t| t.parse::<PoolId>().ok()), third) {
            (Some(pool), Some(_)) if !second.is_empty() => (pool, second, head.len() + first.len() + 1 + second.len()),
            _ => (locator.pool, first, head.len() + first.len()),
        };
        // Copies: slices would keep the whole message in memory.
        let copy = Bytes::copy_from_slice;
        let fits = !id.is_empty() && id.len() <= ID && locator.nspace.len() <= NAMESPACE;
        fits.then(|| (Self { pool, nspace: copy(&locator.nspace), id: copy(id) }, before + 1))
    }
}

/// Figures that one answered operation adds.
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

/// The place of an image. It is no place any more once the image gave it up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    at: u32,
    life: u32,
}

/// Memory of a session: the image that it used last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memo {
    pool: PoolId,
    nspace: Bytes,
    /// Beginning of the names of its objects, with the last point.
    prefix: Bytes,
    place: Option<Place>,
}

/// One place of the table.
#[derive(Debug)]
struct Slot {
    image: Image,
    life: u32,
    used: Mono,
    /// Work since it was reported: operations, bytes and nanoseconds, writes and reads in turn.
    sums: [u64; 6],
}

/// The figures that were not reported yet.
#[derive(Default)]
pub(crate) struct Images {
    until: Mono,
    next: Mono,
    swept: Mono,
    places: BTreeMap<Image, u32>,
    slots: Vec<Slot>,
    /// Places without an image.
    free: Vec<u32>,
    /// True if an operation was counted since the last report.
    news: bool,
    /// Place where the next report goes on with those that are not among the first.
    turn: usize,
    left_out: u64,
}

impl Images {
    /// The manager wants figures with each report for a while from now.
    pub(crate) fn want(&mut self, now: Mono) {
        self.until = now.plus(LEASE);
    }

    /// Returns true if a report is to have figures.
    pub(crate) fn due(&self, now: Mono) -> bool {
        self.news && (now < self.until || now >= self.next)
    }

    /// Operations on images that had no place.
    pub(crate) fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Finds the place of the image that an operation is about; none if it is about none.
    pub(crate) fn place(&mut self, now: Mono, memo: &mut Memo, locator: &Locator, object: &Bytes) -> Option<Place> {
        // Most objects of other users are told apart by their first byte.
        if !matches!(object.first(), Some(b'r' | b'j')) {
            return None;
        }
        let same = memo.place.is_some_and(|place| self.slots[place.at as usize].life == place.life)
            && memo.pool == locator.pool
            && object.starts_with(&memo.prefix)
            && memo.nspace == locator.nspace;
        if same {
            return memo.place;
        }
        let (image, before) = Image::of(locator, object)?;
        let place = self.find(now, image)?;
        let prefix = object.get(..before).map(Bytes::copy_from_slice)?;
        *memo = Memo { pool: locator.pool, nspace: Bytes::copy_from_slice(&locator.nspace), prefix, place: Some(place) };
        Some(place)
    }

    fn find(&mut self, now: Mono, image: Image) -> Option<Place> {
        if let Some(at) = self.places.get(&image) {
            return Some(Place { at: *at, life: self.slots[*at as usize].life });
        }
        if self.free.is_empty() && self.slots.len() >= IMAGES {
            self.sweep(now);
        }
        let fresh = |image, life| Slot { image, life, used: now, sums: [0; 6] };
        let at = match self.free.pop() {
            Some(at) => {
                let slot = &mut self.slots[at as usize];
                *slot = fresh(image.clone(), slot.life.wrapping_add(1));
                at
            }
            None if self.slots.len() < IMAGES => {
                self.slots.push(fresh(image.clone(), 0));
                (self.slots.len() - 1) as u32
            }
            None => {
                self.left_out += 1;
                return None;
            }
        };
        self.places.insert(image, at);
        Some(Place { at, life: self.slots[at as usize].life })
    }

    /// Takes places from images that do nothing.
    fn sweep(&mut self, now: Mono) {
        if now < self.swept {
            return;
        }
        self.swept = now.plus(SWEEP);
        let Self { places, slots, free, .. } = self;
        let idle = |slot: &Slot| slot.sums == [0; 6] && slot.used.plus(IDLE) <= now;
        places.retain(|_, at| {
            let slot = &mut slots[*at as usize];
            let goes = idle(slot);
            if goes {
                // What remembers the place must not find it.
                slot.life = slot.life.wrapping_add(1);
                free.push(*at);
            }
            !goes
        });
    }

    /// An operation on an image was answered.
    pub(crate) fn count(&mut self, now: Mono, place: Place, share: Share) {
        let slot = &mut self.slots[place.at as usize];
        if slot.life != place.life {
            self.left_out += 1;
            return;
        }
        (slot.used, self.news) = (now, true);
        let nanos = u64::try_from(share.latency.as_nanos()).unwrap_or(u64::MAX);
        let mut add = |at: usize, n: u64| slot.sums[at] = slot.sums[at].saturating_add(n);
        if share.write {
            add(0, 1);
            add(2, share.bytes_in);
            add(4, nanos);
        }
        if share.read {
            add(1, 1);
            add(3, share.bytes_out);
            add(5, nanos);
        }
    }

    /// The figures for a report. What it has no room for comes with a later one.
    pub(crate) fn take(&mut self, now: Mono) -> Vec<ImageFigures> {
        self.next = now.plus(SELDOM);
        let busy: Vec<usize> = (0..self.slots.len()).filter(|at| self.slots[*at].sums != [0; 6]).collect();
        let chosen = if busy.len() <= ROWS { busy.iter().copied().collect() } else { self.choose(&busy) };
        self.news = chosen.len() < busy.len();
        chosen.into_iter().map(|at| self.slots[at].report()).collect()
    }

    fn choose(&mut self, busy: &[usize]) -> BTreeSet<usize> {
        let mut chosen = BTreeSet::new();
        for figure in 0..6 {
            let mut order: Vec<usize> = busy.iter().copied().filter(|at| self.slots[*at].sums[figure] > 0).collect();
            order.sort_unstable_by_key(|at| std::cmp::Reverse(self.slots[*at].sums[figure]));
            chosen.extend(order.into_iter().take(TOP));
        }
        let begin = busy.partition_point(|at| *at < self.turn);
        for at in busy[begin..].iter().chain(&busy[..begin]) {
            if chosen.len() >= ROWS {
                break;
            }
            chosen.insert(*at);
            self.turn = at + 1;
        }
        chosen
    }
}

impl Slot {
    fn report(&mut self) -> ImageFigures {
        let [write_ops, read_ops, write_bytes, read_bytes, write_nanos, read_nanos] = std::mem::take(&mut self.sums);
        let Image { pool, nspace, id } = self.image.clone();
        ImageFigures { pool, nspace, image: id, write_ops, read_ops, write_bytes, read_bytes, write_nanos, read_nanos }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn locator(pool: PoolId, nspace: &'static str) -> Locator {
        Locator { pool, nspace: Bytes::from_static(nspace.as_bytes()), ..Locator::default() }
    }

    fn image_of(object: &'static str) -> Option<(PoolId, String)> {
        let (image, before) = Image::of(&locator(7, "ns"), &Bytes::from_static(object.as_bytes()))?;
        assert_eq!(&image.nspace[..], b"ns");
        assert!(object[..before].ends_with('.') && before <= object.len(), "{object}: {before}");
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

    fn name(n: usize, object: usize) -> Bytes {
        Bytes::from(format!("rbd_data.id{n}.{object:016x}"))
    }

    fn secs(n: u64) -> Mono {
        Mono(n * 1_000_000_000)
    }

    /// Does an operation on an image of pool 1.
    fn act(images: &mut Images, memo: &mut Memo, now: Mono, n: usize, share: Share) {
        if let Some(place) = images.place(now, memo, &locator(1, ""), &name(n, n % 7)) {
            images.count(now, place, share);
        }
    }

    #[test]
    fn figures_are_summed_by_image_and_forgotten_when_taken() {
        let (mut images, mut memo) = (Images::default(), Memo::default());
        act(&mut images, &mut memo, secs(1), 1, share(true, false));
        act(&mut images, &mut memo, secs(1), 1, share(false, true));
        act(&mut images, &mut memo, secs(1), 2, share(true, true));
        let mut taken = images.take(secs(2));
        taken.sort_by(|a, b| a.image.cmp(&b.image));
        let figures = |f: &ImageFigures| (f.write_ops, f.read_ops, f.write_bytes, f.read_bytes, f.write_nanos, f.read_nanos);
        assert_eq!(taken.iter().map(figures).collect::<Vec<_>>(), [(1, 1, 4096, 512, 3000, 3000); 2]);
        assert_eq!(&taken[0].image[..], b"id1");
        assert!(!images.due(secs(100)) && images.take(secs(100)).is_empty());
    }

    #[test]
    fn a_session_remembers_its_image_and_takes_no_other_for_it() {
        let (mut images, mut memo) = (Images::default(), Memo::default());
        let mut place = |pool, nspace, object: &'static str| {
            images.place(secs(1), &mut memo, &locator(pool, nspace), &Bytes::from_static(object.as_bytes()))
        };
        let first = place(1, "", "rbd_data.ab.1");
        assert!(first.is_some());
        assert_eq!(place(1, "", "rbd_data.ab.2"), first);
        let others = [
            place(1, "", "rbd_data.abc.2"),
            place(2, "", "rbd_data.ab.2"),
            place(1, "ns", "rbd_data.ab.2"),
            place(1, "", "rbd_data.2.ab.c.1"),
        ];
        assert!(others.iter().all(|other| other.is_some() && *other != first), "{others:?}");
        assert_eq!(place(2, "", "rbd_data.2.ab.1"), others[1], "data in another pool than the image's");
        assert_eq!(place(1, "", "rbd_header.ab"), None);
        assert_eq!(place(1, "", "rbd_data.ab.9"), first);
    }

    #[test]
    fn they_come_seldom_unless_somebody_looks() {
        let (mut images, mut memo) = (Images::default(), Memo::default());
        let mut busy = |images: &mut Images, now| {
            act(images, &mut memo, now, 1, share(true, false));
            images.due(now)
        };
        assert!(busy(&mut images, secs(1)));
        images.take(secs(1));
        assert!(!busy(&mut images, secs(2)) && busy(&mut images, secs(11)));
        images.take(secs(11));
        images.want(secs(12));
        assert!(busy(&mut images, secs(12)) && busy(&mut images, secs(71)));
        images.take(secs(71));
        assert!(!busy(&mut images, secs(73)));
    }

    #[test]
    fn nothing_is_lost_of_very_many_images() {
        let (mut images, mut memo) = (Images::default(), Memo::default());
        let many = 3 * ROWS;
        for n in 0..many {
            act(&mut images, &mut memo, secs(1), n, share(true, false));
        }
        // One that reads, and one that writes much: they come first.
        act(&mut images, &mut memo, secs(1), many - 1, share(false, true));
        (0..10).for_each(|_| act(&mut images, &mut memo, secs(1), many - 2, share(true, false)));
        let mut writes = 0;
        let mut reports = 0;
        while images.due(secs(1000 + reports)) {
            let taken = images.take(secs(1));
            reports += 1;
            assert!(!taken.is_empty() && taken.len() <= ROWS);
            let found = |n: usize| taken.iter().find(|f| f.image == format!("id{n}").as_bytes());
            if reports == 1 {
                assert_eq!(found(many - 1).map(|f| f.read_ops), Some(1));
                assert_eq!(found(many - 2).map(|f| f.write_ops), Some(11));
            }
            writes += taken.iter().map(|f| f.write_ops).sum::<u64>();
            // Those that are busy all the time do not keep the others from their turn.
            (0..TOP).for_each(|n| act(&mut images, &mut memo, secs(1), n, share(true, false)));
            if reports > 20 {
                break;
            }
        }
        let rest: u64 = images.slots.iter().map(|slot| slot.sums[0]).sum();
        assert_eq!(writes + rest, many as u64 + 10 + reports * TOP as u64, "each write is told once, or still to be told");
        assert!(rest <= 2 * TOP as u64 * 2, "{rest} are not told after {reports} reports");
    }

    #[test]
    fn places_of_images_that_do_nothing_are_given_to_others() {
        let (mut images, mut memo) = (Images::default(), Memo::default());
        for n in 0..IMAGES {
            act(&mut images, &mut memo, secs(1), n, share(true, false));
        }
        let held = images.place(secs(1), &mut memo, &locator(1, ""), &name(5, 0)).unwrap();
        act(&mut images, &mut Memo::default(), secs(2), IMAGES, share(true, false));
        assert_eq!((images.left_out(), images.slots.len()), (1, IMAGES));
        while images.due(secs(500)) {
            images.take(secs(2));
        }
        act(&mut images, &mut Memo::default(), secs(700), 7, share(true, false));
        act(&mut images, &mut Memo::default(), secs(700), IMAGES, share(true, false));
        assert_eq!((images.left_out(), images.slots.len(), images.places.len()), (1, IMAGES, 2));
        images.count(secs(700), held, share(true, false));
        assert_eq!(images.left_out(), 2, "an operation that began before its image lost its place");
        act(&mut images, &mut memo, secs(701), 5, share(true, false));
        let told: BTreeSet<Bytes> = images.take(secs(702)).into_iter().map(|f| f.image).collect();
        assert_eq!(told, ["id5".into(), "id7".into(), Bytes::from(format!("id{IMAGES}"))].into());
    }
}
