//! What reaches a machine late and in order: mail of other machines of its process, and results of work done elsewhere.
//!
//! Each sender and each queue of work is a *line* of its own: within a line order is kept, between lines chance decides.

use crate::rng::Rng;
use crate::schedule::{Happening, HostId, Schedule};
use node::{Compute, Input, Mail, MailId};
use std::collections::BTreeMap;

/// What keeps its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Line {
    /// Mail of this host.
    From(HostId),
    /// Work of this queue.
    Queue(u32),
}

enum Content {
    Mail(MailId, Mail),
    Work(Compute),
}

struct Parcel {
    to: HostId,
    life: u64,
    content: Content,
}

/// Everything that is under way.
#[derive(Default)]
pub(crate) struct Parcels {
    under_way: BTreeMap<u64, Parcel>,
    next: u64,
    /// Time when the last parcel of a line is due.
    due: BTreeMap<(HostId, Line), u64>,
    addresses: BTreeMap<MailId, HostId>,
}

impl Parcels {
    /// Gives a host an address.
    pub(crate) fn register(&mut self, id: MailId, host: HostId) {
        self.addresses.insert(id, host);
    }

    /// The host with this address.
    pub(crate) fn host(&self, id: MailId) -> Option<HostId> {
        self.addresses.get(&id).copied()
    }

    fn address(&self, host: HostId) -> Option<MailId> {
        self.addresses.iter().find(|(_, at)| **at == host).map(|(id, _)| *id)
    }

    /// Sends mail to a host that is in its `life`; one without an address has none to be answered at, and sends nothing.
    pub(crate) fn mail(&mut self, schedule: &mut Schedule, rng: &mut Rng, from: HostId, to: (HostId, u64), mail: Mail) {
        let Some(sender) = self.address(from) else { return };
        // Mostly at once; now and then the other thread has no processor.
        let after = if rng.one_in(10) { rng.below(5_000_000) } else { rng.below(20_000) };
        self.send(schedule, Line::From(from), after, Parcel { to: to.0, life: to.1, content: Content::Mail(sender, mail) });
    }

    /// Begins work of a host.
    pub(crate) fn compute(&mut self, schedule: &mut Schedule, rng: &mut Rng, host: (HostId, u64), work: Compute) {
        let after = rng.below(1 + 2 * work.nanos.min(1 << 30)) + if rng.one_in(10) { rng.below(5_000_000) } else { 0 };
        self.send(schedule, Line::Queue(work.queue), after, Parcel { to: host.0, life: host.1, content: Content::Work(work) });
    }

    fn send(&mut self, schedule: &mut Schedule, line: Line, after: u64, parcel: Parcel) {
        let due = self.due.entry((parcel.to, line)).or_default();
        *due = (*due).max(schedule.now + after);
        schedule.at(*due, Happening::Parcel(self.next));
        self.under_way.insert(self.next, parcel);
        self.next += 1;
    }

    /// A parcel arrives: at whom, in which of its lives, and what.
    pub(crate) fn arrive(&mut self, number: u64) -> Option<(HostId, u64, Input)> {
        let Parcel { to, life, content } = self.under_way.remove(&number)?;
        let input = match content {
            Content::Mail(from, mail) => Input::Mail { from, mail },
            Content::Work(Compute { token, work, .. }) => Input::Computed { token, result: work() },
        };
        Some((to, life, input))
    }
}
