//! What daemons count: one table of names, kinds, units and texts, and its views.
//!
//! - [`osd`] and [`mon`] are the tables. A counter is one row there, and nowhere else.
//! - [`Section::dump`] lays values out as `perf dump` does, in the order of the table; a value without a row is a
//!   mistake.
//! - [`schema`] is `perf schema`. `counter dump` and `counter schema` are both with labels around
//!   (`grammar::labelled`).
//! - [`Counter::family`] says how Prometheus gets it; `edge/face` writes these families.
//! - [`page`] is docs/counters.md.

mod page;
mod reading;
mod schema;

pub mod mon;
pub mod osd;

pub use page::page;
pub use reading::{Average, Reading, Readings};
pub use schema::{histogram, schema};

/// Kind of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A sum of the past: it only grows, but for a start from zero.
    Count,
    /// A state of the present.
    Level,
    /// A number of times, and their sum in seconds.
    Average,
}

/// In what a counter is told, as `perf schema` has it: it knows bytes, and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Things, or something that has no word in Ceph.
    None,
    /// Bytes.
    Bytes,
}

/// Form in which Prometheus gets a counter of an OSD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// `ceph_osd_NAME`: Ceph has it, too.
    Ceph,
    /// `nacre_osd_NAME`, with `_total` if it only grows: Ceph has none.
    Ours,
    /// By this name, with the row's own text.
    Named(&'static str),
    /// `nacre_osd_op_stage_seconds`, by kind of operation and stage.
    Stage,
    /// `nacre_osd_memory_bytes`, by part.
    Memory,
    /// `nacre_osd_pace_NAME`; microseconds become seconds.
    Pace,
}

/// A counter: a row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    /// Its name within its section.
    pub name: &'static str,
    /// Its kind.
    pub kind: Kind,
    /// In what.
    pub unit: Unit,
    /// Its meaning, in words.
    pub help: &'static str,
    /// The short name that `ceph daemonperf` shows; Ceph's, or empty.
    pub nick: &'static str,
    /// Worth a place in everybody's tables, 0 to 10; that of Ceph, if Ceph has it. Exporters leave out what is below
    /// [`USEFUL`].
    pub priority: u8,
    /// Form in which Prometheus gets it; none: it does not.
    pub family: Option<Family>,
}

/// Priority of what is worth a place in everybody's tables (Ceph's `PRIO_USEFUL`).
pub const USEFUL: u8 = 5;

/// Counters that stand together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Section {
    /// Its name in `perf dump`.
    pub name: &'static str,
    /// Subject of its counters.
    pub about: &'static str,
    /// Its rows, in the order in which they are shown.
    pub counters: &'static [Counter],
}

const fn row(name: &'static str, kind: Kind, help: &'static str) -> Counter {
    Counter { name, kind, unit: Unit::None, help, nick: "", priority: 0, family: None }
}

const fn count(name: &'static str, help: &'static str) -> Counter {
    row(name, Kind::Count, help)
}

const fn level(name: &'static str, help: &'static str) -> Counter {
    row(name, Kind::Level, help)
}

const fn average(name: &'static str, help: &'static str) -> Counter {
    row(name, Kind::Average, help)
}

impl Counter {
    const fn bytes(self) -> Self {
        Self { unit: Unit::Bytes, ..self }
    }

    const fn useful(self) -> Self {
        Self { priority: USEFUL, ..self }
    }

    const fn ranked(self, priority: u8, nick: &'static str) -> Self {
        Self { priority, nick, ..self }
    }

    const fn told(self, family: Family) -> Self {
        Self { family: Some(family), ..self }
    }

    const fn ceph(self) -> Self {
        self.told(Family::Ceph)
    }

    const fn ours(self) -> Self {
        self.told(Family::Ours)
    }
}
