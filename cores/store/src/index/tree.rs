//! Look-ups in the tree.

use super::page::{PageRef, Ptr};
use bytes::Bytes;
use objectstore::{Read, Unread, Wish};

/// The source of pages: memory, or a wish for what is missing.
pub(crate) trait Pages {
    /// Gives the page that `ptr` points to.
    fn page(&self, ptr: &Ptr) -> Read<PageRef>;
    /// Gives the wish for a page, for reading ahead. None if the page is there.
    fn wish(&self, ptr: &Ptr) -> Option<u64>;
    /// Leaves that a scan asks for ahead when it misses one.
    fn ahead(&self) -> usize {
        AHEAD
    }
    /// Says that an inner page points nowhere.
    fn broken(&self, ptr: &Ptr) -> Unread;
}

/// A leaf, and the smallest key that belongs to the next leaf (none: it is the last).
pub(crate) struct Leaf {
    pub(crate) page: PageRef,
    pub(crate) upper: Option<Bytes>,
}

/// Leaves that a short scan asks for ahead. A scan begins anew after each miss, so a long one must ask for more each time.
pub(crate) const AHEAD: usize = 8;

/// Finds the leaf that `key` belongs to, if there is a tree. `scan_to`: how far a scan will go, so that it can miss
/// several leaves at once.
pub(crate) fn leaf(pages: &impl Pages, root: Option<&Ptr>, key: &[u8], scan_to: Option<&[u8]>) -> Read<Option<Leaf>> {
    let Some(mut ptr) = root.cloned() else { return Ok(None) };
    let mut upper: Option<Bytes> = None;
    let mut parent: Option<(PageRef, usize)> = None;
    loop {
        let page = match pages.page(&ptr) {
            Err(Unread::Missing(wish)) => return Err(Unread::Missing(ahead(pages, wish, parent, scan_to))),
            other => other?,
        };
        if page.level() == 0 {
            return Ok(Some(Leaf { page, upper }));
        }
        let i = page.child_for(key);
        let child = page.child(i).ok_or_else(|| pages.broken(&ptr))?;
        if i + 1 < page.len() {
            upper = Some(page.key(i + 1));
        }
        parent = Some((page, i));
        ptr = child;
    }
}

fn ahead(pages: &impl Pages, mut wish: Wish, parent: Option<(PageRef, usize)>, scan_to: Option<&[u8]>) -> Wish {
    if let (Some((page, at)), Some(to)) = (parent, scan_to) {
        let next = (at + 1..page.len()).take(pages.ahead()).take_while(|i| page.cmp_key(*i, to).is_lt());
        wish.0.extend(next.filter_map(|i| pages.wish(&page.child(i)?)));
    }
    wish
}

/// Gives the value of `key` in the tree.
pub(crate) fn get(pages: &impl Pages, root: Option<&Ptr>, key: &[u8]) -> Read<Option<Bytes>> {
    let Some(mut ptr) = root.cloned() else { return Ok(None) };
    loop {
        let page = pages.page(&ptr)?;
        if page.level() == 0 {
            let at = page.lower_bound(key);
            return Ok((at < page.len() && page.cmp_key(at, key).is_eq()).then(|| page.value(at)));
        }
        ptr = page.child(page.child_for(key)).ok_or_else(|| pages.broken(&ptr))?;
    }
}
