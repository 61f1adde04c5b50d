//! What a group tells of its operations while they are under way.
//!
//! The OSD keeps one record of each operation, from arrival to reply ([`OpKey`] names it). A group keeps the operation itself, and says
//! through [`Recorder`] what it waits for and how far it has come. It says so at the moment when it happens; nothing is kept here.
//!
//! Streams to other copies remember which operation a change is of. They do not own it: the promise of a copy that nobody waits for may
//! come when the operation is long answered, and the OSD ignores it then.

use node::Mono;
use std::time::Duration;
use types::CopyId;

/// The place of an operation in the OSD's table of operations. It is never used again for another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpKey(pub u64);

impl OpKey {
    /// No client's operation: work of the group itself.
    pub const NONE: OpKey = OpKey(0);
}

/// How far an operation has come in its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It waits until the group serves.
    WaitsForActive,
    /// It waits for work on its object that came before it.
    WaitsForObject,
    /// It waits until its object was brought to a copy that lacks it.
    WaitsForRecovery,
    /// It waits for data or metadata from the disk, or from another object.
    WaitsForData,
    /// It waits until the other copies have promised that this one still leads.
    WaitsForLease,
    /// Its change was given to the own store, and to the streams to other copies.
    Submitted,
    /// Its change is durable here.
    Committed,
}

/// Where the time of a change went on another copy, as that copy tells it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopyTime {
    /// From its arrival until the store took it, in microseconds.
    pub queue: u32,
    /// From then until it was durable, in microseconds.
    pub journal: u32,
}

impl CopyTime {
    /// Of a change that arrived, was taken by the store and became durable at these moments. More than 71 minutes are told as 71.
    pub fn of(arrived: Mono, submitted: Mono, durable: Mono) -> Self {
        Self { queue: micros(submitted.since(arrived)), journal: micros(durable.since(submitted)) }
    }
}

fn micros(d: Duration) -> u32 {
    u32::try_from(d.as_micros()).unwrap_or(u32::MAX)
}

/// Is told how operations get on. The OSD's table of operations is one; whoever wants to know nothing implements nothing.
pub trait Recorder {
    /// An operation has come so far.
    fn step(&mut self, _op: OpKey, _now: Mono, _step: Step) {}

    /// The change of an operation, just submitted, is shipped to a copy that must promise it before the reply.
    fn shipped(&mut self, _op: OpKey, _to: CopyId) {}

    /// A copy promises the change of an operation, which may be over. `time` is known unless the promise was said again.
    fn promised(&mut self, _op: OpKey, _now: Mono, _by: CopyId, _time: Option<CopyTime>) {}

    /// A change that another OSD shipped, of so many bytes, is durable here. `pushes`: it brings what this copy lacked.
    fn carried_out(&mut self, _pushes: bool, _bytes: u64, _time: CopyTime) {}

    /// A client sent a read to this copy, which does not lead. `answered`: it got its answer here; else it asks the primary.
    fn read_aside(&mut self, _answered: bool) {}

    /// An operation was run, or tried; it looked at about so many bytes.
    fn cost(&mut self, _bytes: u64) {}
}

/// Wants to know nothing.
pub struct Nobody;

impl Recorder for Nobody {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_whole_microseconds_and_have_an_end() {
        let at = |micros: u64| Mono(micros * 1000 + 999);
        assert_eq!(CopyTime::of(at(5), at(12), at(1_000_012)), CopyTime { queue: 7, journal: 1_000_000 });
        assert_eq!(CopyTime::of(Mono(0), Mono(u64::MAX), Mono(5)), CopyTime { queue: u32::MAX, journal: 0 });
    }
}
