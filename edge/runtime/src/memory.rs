//! Memory on huge pages, for buffers that ask for their alignment.
//!
//! A disk takes a bounded number of pieces of memory in one request (254 on virtio). So 4 MiB in pages of 4 KiB are
//! eight requests, and one on huge pages. All other memory stays on small pages; `process::refuse_huge_pages` says why.

use crate::sys;
use node::HUGE;
use std::alloc::{GlobalAlloc, Layout};

/// An allocator that maps memory on huge pages, where the kernel has some, for layouts that are aligned to [`HUGE`] and
/// a multiple of it long. It passes all other layouts on. Mapped memory goes back to the kernel when it is freed.
pub struct Memory<A>(pub A);

fn is_huge(layout: Layout) -> bool {
    layout.align() == HUGE && layout.size() > 0 && layout.size().is_multiple_of(HUGE)
}

// SAFETY: a layout decides alone which of the two has an allocation, so each gets back what it gave. What is mapped has the size and the
// alignment asked for, is zero, and belongs to nobody else.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Memory<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_huge(layout) {
            return sys::map_huge(layout.size());
        }
        // SAFETY: the caller's promises are passed on.
        unsafe { self.0.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_huge(layout) {
            return sys::map_huge(layout.size());
        }
        // SAFETY: the caller's promises are passed on.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        if is_huge(layout) {
            // SAFETY: this layout was mapped here, and the caller has let go of all of it.
            return unsafe { sys::unmap(at, layout.size()) };
        }
        // SAFETY: the caller's promises are passed on; the other allocator gave this.
        unsafe { self.0.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if layout.align() != HUGE {
            // SAFETY: the caller's promises are passed on; the alignment stays, so the other allocator has both.
            return unsafe { self.0.realloc(at, layout, size) };
        }
        // SAFETY: the caller promises that the new layout is a valid one and that the old one is what it has; the two do not overlap.
        unsafe {
            let to = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !to.is_null() {
                std::ptr::copy_nonoverlapping(at, to, layout.size().min(size));
                self.dealloc(at, layout);
            }
            to
        }
    }
}

/// Gives free memory of all threads back to the kernel, in a program whose allocator is mimalloc. Freed memory lies
/// with the allocator until then, and that is the same one for all threads. So any thread may do it for the others.
#[cfg(feature = "mimalloc")]
pub fn give_memory_back() {
    // For mimalloc's library, which has the function.
    use mimalloc as _;
    // SAFETY: the declaration is that of mimalloc's header.
    unsafe extern "C" {
        fn mi_collect(force: bool);
    }
    // SAFETY: it may be called at any time from any thread, and takes nothing that anybody uses.
    unsafe { mi_collect(true) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::alloc::System;

    /// Returns what the kernel knows of the mapping that has this address.
    fn flags_at(at: *const u8) -> String {
        let mut inside = false;
        for line in std::fs::read_to_string("/proc/self/smaps").unwrap().lines() {
            let number = |s| usize::from_str_radix(s, 16);
            if let Some((Ok(from), Ok(to))) =
                line.split_once(' ').and_then(|(range, _)| range.split_once('-')).map(|(a, b)| (number(a), number(b)))
            {
                inside = (from..to).contains(&(at as usize));
            }
            if inside && let Some(flags) = line.strip_prefix("VmFlags:") {
                return format!("{flags} ");
            }
        }
        panic!("no mapping has {at:?}");
    }

    #[test]
    fn what_is_aligned_to_huge_pages_asks_for_them() {
        let offered = std::path::Path::new("/sys/kernel/mm/transparent_hugepage").exists();
        let memory = Memory(System);
        let layout = Layout::from_size_align(2 * HUGE, HUGE).unwrap();
        for _ in 0..3 {
            // SAFETY: the layout has a size; what is used is inside it, and it goes back once, with the layout that it has by then.
            unsafe {
                let at = memory.alloc_zeroed(layout);
                assert!(!at.is_null() && (at as usize).is_multiple_of(HUGE));
                assert!(std::slice::from_raw_parts(at, layout.size()).iter().all(|byte| *byte == 0));
                assert_eq!(flags_at(at).contains(" hg "), offered, "{}", flags_at(at));
                at.add(HUGE + 5).write(7);
                let at = memory.realloc(at, layout, 3 * HUGE);
                assert_eq!((at.add(HUGE + 5).read(), at.add(3 * HUGE - 1).read()), (7, 0));
                // Not a multiple: the other allocator has it.
                let layout = Layout::from_size_align(3 * HUGE, HUGE).unwrap();
                let at = memory.realloc(at, layout, HUGE + 6);
                assert_eq!(at.add(HUGE + 5).read(), 7);
                assert!(!flags_at(at).contains(" hg "));
                memory.dealloc(at, Layout::from_size_align(HUGE + 6, HUGE).unwrap());
            }
        }
    }

    #[test]
    fn more_than_there_is_is_refused() {
        let layout = Layout::from_size_align(1 << 60, HUGE).unwrap();
        // SAFETY: the layout has a size.
        assert!(unsafe { Memory(System).alloc(layout) }.is_null());
    }
}
