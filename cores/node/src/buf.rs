//! Buffers that disks and sockets fill: aligned for direct IO, and used again.

use bytes::Bytes;
use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// Alignment of every buffer, in bytes: what O_DIRECT asks for on every disk that we know.
pub const ALIGN: usize = 4096;
/// Bytes of a huge page. A buffer that is a multiple of it long (in whole pages) is aligned to it, so that an allocator
/// may put it on such pages.
pub const HUGE: usize = 2 << 20;
/// Buffers above this size go back to the system when they are dropped, in pages.
const LARGEST_KEPT: usize = (8 << 20) / ALIGN;
/// Bytes that each thread keeps for the next taker, if nobody says how many.
const KEPT: usize = 24 << 20;

/// Sets how many bytes this thread keeps for the next taker (24 MiB if nobody does): as much as requests and answers on
/// their way take, or the system is asked for memory again and again. What is above it goes.
pub fn keep_buffers(bytes: usize) {
    POOL.with_borrow_mut(|pool| {
        pool.most = bytes;
        pool.make_room(0, None);
    });
}

/// Bytes that this thread keeps now.
pub fn buffers_kept() -> usize {
    POOL.with_borrow(|pool| pool.bytes)
}

/// Unit of memory: asking for these asks for alignment.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(4096))]
struct Page([u8; ALIGN]);

/// The same for huge pages.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(2097152))]
struct HugePage([u8; HUGE]);

/// Memory of a buffer.
enum Memory {
    Pages(Vec<Page>),
    Huge(Vec<HugePage>),
}

impl Memory {
    /// So many zero pages. Without memory the process ends, as with any vector.
    fn zeroed(pages: usize) -> Self {
        const PER_HUGE: usize = HUGE / ALIGN;
        match pages.is_multiple_of(PER_HUGE) {
            true => Self::Huge(HugePage::new_vec_zeroed(pages / PER_HUGE).expect("memory")),
            false => Self::Pages(Page::new_vec_zeroed(pages).expect("memory")),
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::Pages(pages) => pages.as_bytes(),
            Self::Huge(pages) => pages.as_bytes(),
        }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Pages(pages) => pages.as_mut_bytes(),
            Self::Huge(pages) => pages.as_mut_bytes(),
        }
    }
}

/// An owned buffer of bytes at an aligned address. [`Buf::freeze`] makes it shareable without a copy; when the last
/// owner lets go, the memory is kept by that thread for the next buffer of its size.
pub struct Buf {
    memory: Memory,
    start: usize,
    len: usize,
    skipped: usize,
}

/// Buffers of one size that nobody uses now.
#[derive(Default)]
struct Class {
    free: Vec<Memory>,
    /// Time when one was last taken or came back, in uses of all classes.
    used: u64,
}

/// Buffers that a thread keeps for the next taker.
struct Kept {
    by_class: Vec<Class>,
    bytes: usize,
    most: usize,
    uses: u64,
}

impl Default for Kept {
    fn default() -> Self {
        Self { by_class: Vec::new(), bytes: 0, most: KEPT, uses: 0 }
    }
}

impl Kept {
    fn class(&mut self, class: usize) -> &mut Class {
        if self.by_class.len() <= class {
            self.by_class.resize_with(class + 1, Class::default);
        }
        self.uses += 1;
        self.by_class[class].used = self.uses;
        &mut self.by_class[class]
    }

    fn take(&mut self, class: usize) -> Option<Memory> {
        let memory = self.class(class).free.pop()?;
        self.bytes -= memory.bytes().len();
        Some(memory)
    }

    /// Keeps one more. Sizes that nobody asked for of late make room for it.
    fn put(&mut self, class: usize, memory: Memory) {
        self.class(class);
        if self.make_room(memory.bytes().len(), Some(class)) {
            self.bytes += memory.bytes().len();
            self.by_class[class].free.push(memory);
        }
    }

    /// Lets go of what was not asked for the longest, but nothing of size class `except`, until `more` bytes fit. False
    /// if they do not.
    fn make_room(&mut self, more: usize, except: Option<usize>) -> bool {
        while self.bytes + more > self.most {
            let others = self.by_class.iter_mut().enumerate().filter(|(i, c)| Some(*i) != except && !c.free.is_empty());
            let Some((_, oldest)) = others.min_by_key(|(_, c)| c.used) else { return false };
            self.bytes -= oldest.free.pop().map_or(0, |gone| gone.bytes().len());
        }
        true
    }
}

thread_local! {
    static POOL: RefCell<Kept> = RefCell::default();
}

/// Size class for so many pages, and how many it has: all sizes up to 4 pages, then four for each doubling. What is
/// frozen may be kept for long (a cached block keeps its whole buffer), so little may be lost to rounding.
fn class(pages: usize) -> (usize, usize) {
    let step = (pages.next_power_of_two() / 8).max(1);
    let size = pages.next_multiple_of(step);
    let (doubling, quarter) = (step.trailing_zeros() as usize, size / step);
    (doubling * 4 + quarter, size)
}

impl Buf {
    /// A buffer of `len` bytes whose content is arbitrary (left over from an earlier use, or zero).
    pub fn new(len: usize) -> Self {
        let (class, size) = class(len.div_ceil(ALIGN).max(1));
        let memory = POOL.with_borrow_mut(|pool| pool.take(class)).unwrap_or_else(|| Memory::zeroed(size));
        Self { memory, start: 0, len, skipped: 0 }
    }

    /// A buffer of `len` zero bytes.
    pub fn zeroed(len: usize) -> Self {
        let mut buf = Self::new(len);
        buf.fill(0);
        buf
    }

    /// Cuts the buffer to its first `len` bytes.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Hides the first `n` bytes (at most all), so that the next receive continues where the last one ended. They stay
    /// where they are; what is left to see is not aligned any more.
    pub fn skip(&mut self, n: usize) {
        let n = n.min(self.len);
        self.start += n;
        self.len -= n;
        self.skipped += n;
    }

    /// Shows again what was skipped.
    pub fn unskip(&mut self) {
        self.start -= self.skipped;
        self.len += self.skipped;
        self.skipped = 0;
    }

    /// Makes it shareable. The bytes stay where they are.
    pub fn freeze(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl Drop for Buf {
    fn drop(&mut self) {
        let memory = std::mem::replace(&mut self.memory, Memory::Pages(Vec::new()));
        let pages = memory.bytes().len() / ALIGN;
        if pages > LARGEST_KEPT {
            return;
        }
        let (class, size) = class(pages);
        assert_eq!(size, pages, "every buffer is as long as its class says");
        // A thread that ends has no pool any more; then the memory just goes.
        let _ = POOL.try_with(|pool| pool.borrow_mut().put(class, memory));
    }
}

impl Deref for Buf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.memory.bytes()[self.start..self.start + self.len]
    }
}

impl DerefMut for Buf {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory.bytes_mut()[self.start..self.start + self.len]
    }
}

impl AsRef<[u8]> for Buf {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl std::fmt::Debug for Buf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buf({} bytes)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skipped_bytes_come_back() {
        let mut buf = Buf::new(10);
        buf.copy_from_slice(b"0123456789");
        buf.skip(4);
        buf.skip(3);
        assert_eq!(&buf[..], b"789");
        buf.skip(9);
        assert!(buf.is_empty());
        buf.unskip();
        assert_eq!(&buf[..], b"0123456789");
    }

    #[test]
    fn classes_waste_little_and_are_told_apart() {
        let mut before = (0, 0);
        for pages in 1..5000 {
            let now = class(pages);
            assert!(now.1 >= pages && now.1 <= pages + pages / 4, "{pages} pages become {}", now.1);
            assert_eq!(class(now.1), now);
            assert_eq!(now.0 == before.0, now.1 == before.1);
            assert!(now >= before);
            before = now;
        }
    }

    #[test]
    fn buffers_are_aligned_and_used_again() {
        for len in [1, 4096, 4097, 65_536, 4 << 20, (8 << 20) + 1] {
            let mut buf = Buf::new(len);
            assert_eq!((buf.as_ptr() as usize % ALIGN, buf.len()), (0, len));
            assert!(len % HUGE > 0 || (buf.as_ptr() as usize).is_multiple_of(HUGE));
            buf[len - 1] = 7;
            let frozen = buf.freeze();
            assert_eq!((frozen.as_ptr() as usize % ALIGN, frozen[len - 1]), (0, 7));
        }
        // Sizes of long ago make room for those of now; those of now stay within the bound.
        let mut pool = Kept { most: 64 * ALIGN, ..Kept::default() };
        let pages = Memory::zeroed;
        (0..4).for_each(|_| pool.put(class(16).0, pages(16)));
        (0..40).for_each(|_| pool.put(class(1).0, pages(1)));
        assert_eq!((pool.by_class[class(16).0].free.len(), pool.by_class[class(1).0].free.len()), (1, 40));
        (0..40).for_each(|_| pool.put(class(1).0, pages(1)));
        assert_eq!((pool.bytes / ALIGN, pool.by_class[class(1).0].free.len()), (64, 64));
        pool.most = 10 * ALIGN;
        assert!(pool.make_room(0, None));
        assert_eq!((pool.bytes / ALIGN, pool.by_class[class(1).0].free.len()), (10, 10));
        let first = Buf::new(5000).as_ptr() as usize;
        assert_eq!(Buf::new(8000).as_ptr() as usize, first, "the same class gives the same memory");
    }
}
