//! Checks a stopped store: superblocks, journal, pages, onodes, extents against the map of free space, and on request
//! the checksums of all data. A check changes nothing. [`repair`] then mends only what can be proven.
//!
//! The caller brings synchronous access to the disks, so that the command line and the simulator both use it.

mod lost;
mod tree;

use crate::block::{BLOCK, Cell, RANGE, Where};
use crate::config::{Config, OpenError};
use crate::index::keys;
use crate::index::view::Step;
use crate::onode::Onode;
use crate::store::Store;
use crate::superblock::{SLOTS, Superblock};
use crate::wish::Owner;
use bytes::Bytes;
use kernels::{SEED, crc32c};
use node::{DeviceId, DiskDone, DiskError, DiskOp, DiskOutput, DiskRequest, DiskStat, Now, Output, Outputs};
use objectstore::{Read, Unread};
use std::fmt;

/// Reads a stopped store's disks.
pub trait BlockRead {
    /// Fills `buf` from byte `offset` of a disk (0: data, 1: journal). The error says what failed.
    fn read(&mut self, device: DeviceId, offset: u64, buf: &mut [u8]) -> Result<(), String>;

    /// Bytes that exist on a disk; 0 if there is no such disk.
    fn len(&mut self, device: DeviceId) -> u64;

    /// Bytes that the disk may grow to, as its OSD is told. A store that names more is refused, because the check's
    /// memory grows with what the store names.
    fn capacity(&mut self, device: DeviceId) -> u64;
}

/// Writes a stopped store's disks, too.
pub trait BlockWrite: BlockRead {
    /// Writes at byte `offset`, durably.
    fn write(&mut self, device: DeviceId, offset: u64, bytes: &[u8]) -> Result<(), String>;
}

/// Text of a finding about data that was damaged when the store had to move it, and that the store marked so.
pub const MARKED: &str = "was damaged before, and is marked so";

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Nothing is lost: only redundancy or space is.
    Minor,
    /// Some data cannot be read.
    Data,
    /// The store cannot be opened, or its index is wrong.
    Fatal,
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong.
    pub what: String,
    /// Place where it is: disk and byte, or object and byte.
    pub place: String,
    /// True if [`repair`] can mend it.
    pub repairable: bool,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}: {}{}", self.severity, self.place, self.what, if self.repairable { " (can be repaired)" } else { "" })
    }
}

/// What a check found, and how much it looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// What is wrong; empty if nothing is.
    pub findings: Vec<Finding>,
    /// Number of objects, clones included, with those that are only in the journal.
    pub objects: u64,
    /// Number of pages of the index on disk.
    pub pages: u64,
    /// The first names of objects.
    pub first_objects: Vec<String>,
    /// Number of blocks of data that the index on disk refers to.
    pub data_blocks: u64,
    /// Number of references to them beyond the first of each.
    pub shared: u64,
    /// Number of changes in the journal that the index on disk does not have.
    pub journal_changes: u64,
    /// Number of blocks whose checksums were verified; 0 without a deep check.
    pub verified: u64,
}

/// Most names of objects in a report.
const FIRST_OBJECTS: usize = 8;

impl Report {
    /// Says whether nothing is wrong.
    pub fn clean(&self) -> bool {
        self.findings.is_empty()
    }

    fn find(&mut self, severity: Severity, place: impl Into<String>, what: impl Into<String>) {
        self.findings.push(Finding { severity, what: what.into(), place: place.into(), repairable: false });
    }
}

/// Checks the store; `deep` reads all its data. What `config` says of the store's identity must be true; the default
/// takes any store.
pub fn check(disks: &mut dyn BlockRead, config: &Config, deep: bool) -> Report {
    let mut report = Report::default();
    check_slots(disks, &mut report);
    let store = match open(disks, config) {
        Ok(store) => store,
        Err((store, error)) => {
            report.find(Severity::Fatal, "store", error.to_string());
            if error.is_journal() {
                lost::report(disks, &store, &mut report);
            }
            return report;
        }
    };
    report.journal_changes = store.overlay.active().len() as u64;
    tree::check(disks, &store, &mut report);
    let mut checker = Checker { store, disks };
    checker.check_objects(&mut report, deep);
    report
}

/// Checks the store and mends what can be proven: a superblock slot that is not readable while the other one is. The
/// report leaves out what was mended.
pub fn repair(disks: &mut dyn BlockWrite, config: &Config, deep: bool) -> Report {
    let mut report = check(disks, config, deep);
    // A slot that another program may understand is not ours to replace, nor a slot of another store.
    let Ok(slots) = read_slots(disks).into_iter().collect::<Result<Vec<_>, _>>() else { return report };
    if report.findings.iter().any(|f| f.severity == Severity::Fatal) {
        return report;
    }
    let newest = slots.iter().flatten().max_by_key(|sb| sb.generation).cloned();
    // The good slot goes to the other place with the generation before, so that the good one still counts.
    if let Some(good) = newest
        && slots.iter().any(Option::is_none)
    {
        let copy = Superblock { generation: good.generation.saturating_sub(1), ..good };
        match disks.write(DeviceId(0), copy.slot() * BLOCK as u64, &copy.encode()) {
            Ok(()) => report.findings.retain(|f| !f.repairable),
            Err(why) => report.find(Severity::Minor, "superblock", format!("could not be written: {why}")),
        }
    }
    report
}

/// Reads the superblock's slots: none where there is no whole superblock, an error where there is one that this program
/// does not take.
fn read_slots<R: BlockRead + ?Sized>(disks: &mut R) -> Vec<Result<Option<Superblock>, OpenError>> {
    let mut buf = vec![0; BLOCK];
    let slot = |at: &u64| match disks.read(DeviceId(0), at * BLOCK as u64, &mut buf) {
        Ok(()) => Superblock::parse(&buf),
        Err(_) => Ok(None),
    };
    SLOTS.iter().map(slot).collect()
}

fn check_slots(disks: &mut dyn BlockRead, report: &mut Report) {
    let slots = read_slots(disks);
    let Some(newest) = slots.iter().flatten().flatten().max_by_key(|sb| sb.generation) else { return };
    for (slot, at) in slots.iter().zip(SLOTS) {
        // A store that was only just made has written one slot.
        if matches!(slot, Ok(None)) && newest.generation > 1 {
            report.findings.push(Finding {
                severity: Severity::Minor,
                what: "superblock slot is not readable; the other one counts".into(),
                place: format!("data disk, byte {}", at * BLOCK as u64),
                repairable: true,
            });
        }
    }
}

/// Opens the store without writing.
fn open(disks: &mut dyn BlockRead, config: &Config) -> Result<Store, (Box<Store>, OpenError)> {
    let mut store = Store::new(Config { memory: 64 << 20, ..config.clone() }, false);
    store.read_only = true;
    loop {
        if store.ready() {
            return Ok(store);
        }
        if let Some(error) = store.open_error().cloned() {
            return Err((Box::new(store), error));
        }
        if !carry_out(&mut store, disks) && !store.opening_goes_on() && store.open_error().is_none() {
            return Err((Box::new(store), OpenError::Corrupt("opening waits for nothing".into())));
        }
    }
}

/// Does what the store asks for. False if it asked for nothing.
fn carry_out(store: &mut Store, disks: &mut dyn BlockRead) -> bool {
    let mut out = Outputs::default();
    store.turn(Now::default(), &mut out);
    let mut any = false;
    for output in out.0 {
        if let Output::Disk(request) = output {
            any = true;
            let done = answer(disks, request);
            store.disk_done(Now::default(), done);
        }
    }
    any
}

fn answer(disks: &mut dyn BlockRead, request: DiskRequest) -> DiskDone {
    let device = request.device;
    let result = match request.op {
        DiskOp::Read { offset, mut buf } => match disks.read(device, offset, &mut buf) {
            Ok(()) => Ok(DiskOutput::Read(buf)),
            Err(_) => Err(DiskError::Io(5)),
        },
        DiskOp::Stat => {
            let (len, capacity) = (disks.len(device), disks.capacity(device));
            Ok(DiskOutput::Stat(DiskStat { len, capacity, host_free: u64::MAX }))
        }
        // A store that may only read asks for neither.
        DiskOp::Write { .. } | DiskOp::Flush | DiskOp::Trim { .. } => Err(DiskError::Io(30)),
    };
    DiskDone { token: request.token, result }
}

/// Looks at objects as they are with the journal's changes.
struct Checker<'a> {
    store: Store,
    disks: &'a mut dyn BlockRead,
}

/// Objects that are looked at in one go.
const BATCH: usize = 512;

impl Checker<'_> {
    fn need<T>(&mut self, f: impl Fn(&Store) -> Read<T>) -> Result<T, String> {
        loop {
            match f(&self.store) {
                Ok(value) => return Ok(value),
                Err(Unread::Damaged(d)) => {
                    let (expected, found) = (d.expected, d.found);
                    return Err(format!("{} at byte {}: checksum {expected:08x} expected, {found:08x} found", d.what, d.offset));
                }
                Err(Unread::Missing(wish)) => {
                    self.store.fetch_for(Owner::Checkpoint, wish);
                    while !self.store.holds.get(&Owner::Checkpoint).is_none_or(crate::held::Held::complete) {
                        carry_out(&mut self.store, self.disks);
                    }
                }
            }
        }
    }

    fn check_objects(&mut self, report: &mut Report, deep: bool) {
        let mut from = Bytes::from_static(&[keys::NAME]);
        loop {
            let batch = self.need(|store| {
                let mut out = Vec::new();
                store.eye(Owner::Checkpoint).view(None).scan(&from, Some(&[keys::NAME + 1]), |key, value| {
                    out.push((key.clone(), value));
                    if out.len() < BATCH { Step::More } else { Step::Enough }
                })?;
                Ok(out)
            });
            // What was fetched for the last batch may go.
            self.store.holds.remove(&Owner::Checkpoint);
            let batch = match batch {
                Ok(batch) => batch,
                Err(why) => return report.find(Severity::Fatal, "index", why),
            };
            for (key, value) in &batch {
                self.check_object(key, value, report, deep);
            }
            match batch.last() {
                Some((key, _)) if batch.len() == BATCH => from = keys::successor(key),
                _ => return,
            }
        }
    }

    fn check_object(&mut self, key: &Bytes, value: &Bytes, report: &mut Report, deep: bool) {
        report.objects += 1;
        let name = keys::object(key).map_or_else(|| key.escape_ascii().to_string(), |o| o.to_string());
        if report.first_objects.len() < FIRST_OBJECTS {
            report.first_objects.push(name.clone());
        }
        let Some(onode) = Onode::decode(value) else {
            return report.find(Severity::Fatal, name, "its onode is not understood");
        };
        if !deep {
            return;
        }
        let mut range = 0;
        loop {
            let next = self.need(|store| {
                let eye = store.eye(Owner::Checkpoint);
                let view = eye.view(None);
                match view.next_range(onode.id, range)? {
                    Some(next) => Ok(Some((next, view.extents((onode.id, next))?))),
                    None => Ok(None),
                }
            });
            match next {
                Ok(Some((next, patch))) => {
                    let cells = (0..16).map(|i| (u64::from(next) * RANGE + u64::from(i), patch.get(i)));
                    cells.for_each(|(block, cell)| self.check_block(&name, block, cell, report));
                    range = next + 1;
                }
                Ok(None) => break,
                Err(why) => return report.find(Severity::Fatal, name, why),
            }
        }
        self.store.holds.remove(&Owner::Checkpoint);
    }

    fn check_block(&mut self, name: &str, at: u64, cell: Cell, report: &mut Report) {
        let Cell::Data(block) = cell else { return };
        let place = format!("{name}, byte {}", at * BLOCK as u64);
        let (device, offset) = match block.place.place() {
            Where::Disk(n) => (crate::io::DATA, n),
            Where::Journal(seq, index) => match self.store.journal.location(seq) {
                Some((first, n)) if index < n => (self.store.ring_device(), self.store.sb.ring_start + first + u64::from(index)),
                _ => return report.find(Severity::Fatal, place, "lies in a journal record that is not there"),
            },
            Where::Bad | Where::Staged(_) => return report.find(Severity::Data, place, MARKED),
        };
        let mut buf = vec![0; BLOCK];
        report.verified += 1;
        match self.disks.read(device, offset * BLOCK as u64, &mut buf) {
            Err(why) => report.find(Severity::Data, place, format!("cannot be read: {why}")),
            Ok(()) => match crc32c(SEED, &buf) {
                crc if crc == block.crc => (),
                crc => {
                    let (disk, at) = (if device == crate::io::DATA { "data" } else { "journal" }, offset * BLOCK as u64);
                    let what = format!(
                        "is damaged: checksum {:08x} expected, {crc:08x} found at byte {at} of the {disk} disk; write the object anew, or remove it",
                        block.crc
                    );
                    report.find(Severity::Data, place, what);
                }
            },
        }
    }
}
