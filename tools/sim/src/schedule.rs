//! What will happen, in order of virtual time.

use crate::net::{LinkId, Side};
use std::collections::BTreeMap;

/// A host of the world, by its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub usize);

/// Something that will happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Happening {
    /// A host looks at its inputs and its deadline.
    Wake(HostId, u64),
    /// A disk request ends.
    Disk { host: HostId, life: u64, device: u16, request: u64 },
    /// The first packet of a link arrives.
    Connect(LinkId),
    /// The oldest segment in flight from this side arrives.
    Arrive(LinkId, Side),
    /// This side learns that the link is gone.
    Gone(LinkId, Side),
    /// Mail or a result of work arrives.
    Parcel(u64),
    /// This side's kernel takes what it has room for.
    Drain(LinkId, Side),
}

/// The queue of happenings, and the time.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    pub(crate) now: u64,
    next: u64,
    queue: BTreeMap<(u64, u64), Happening>,
}

impl Schedule {
    /// Something happens `after` nanoseconds from now.
    pub(crate) fn after(&mut self, after: u64, what: Happening) {
        self.at(self.now.saturating_add(after), what);
    }

    /// Something happens at a moment (now, if that is past). What happens at the same moment keeps the order of the calls.
    pub(crate) fn at(&mut self, at: u64, what: Happening) {
        self.queue.insert((at.max(self.now), self.next), what);
        self.next += 1;
    }

    /// Returns when the next thing happens.
    pub(crate) fn peek(&self) -> Option<u64> {
        self.queue.first_key_value().map(|((at, _), _)| *at)
    }

    /// Moves the time to the next thing, and takes it.
    pub(crate) fn pop(&mut self) -> Option<Happening> {
        let ((at, _), what) = self.queue.pop_first()?;
        self.now = at;
        Some(what)
    }
}
