//! A simulated disk: completes requests in any order, and loses, tears and reorders what was not flushed when it crashes.

use node::{DiskDone, DiskError, DiskOp, DiskOutput, DiskRequest, DiskStat};
use std::collections::BTreeSet;

/// What tears: a sector, in bytes.
const SECTOR: usize = 512;

/// A small deterministic source of numbers (splitmix64).
#[derive(Clone, Debug)]
pub struct Dice(pub u64);

impl Dice {
    /// The next number.
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A number below `n` (which is not 0).
    pub fn below(&mut self, n: u64) -> u64 {
        self.roll() % n
    }

    /// True once in `n`.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

#[derive(Debug)]
struct Write {
    offset: usize,
    bytes: Vec<u8>,
    /// Time when it completed; none: it has not.
    completed: Option<u64>,
}

/// A disk in memory.
#[derive(Debug)]
pub struct TestDisk {
    /// What survives a crash for certain.
    durable: Vec<u8>,
    /// What reads see.
    visible: Vec<u8>,
    /// Writes that are not durable yet, by number.
    writes: Vec<(u64, Write)>,
    /// Requests under way, with the number of completions when they were issued.
    queue: Vec<(u64, u64, DiskRequest)>,
    /// Ends of the file: as written, and at most.
    len: usize,
    capacity: usize,
    issued: u64,
    completions: u64,
    /// Sectors that give an error when they are read.
    pub bad: BTreeSet<u64>,
    /// From this many requests on, all writes fail.
    pub fail_after: Option<u64>,
    /// The file may not grow beyond this, for the host has no more space.
    pub host_limit: Option<usize>,
}

impl TestDisk {
    /// An empty file that may grow to `capacity` bytes.
    pub fn new(capacity: usize) -> Self {
        Self {
            durable: Vec::new(),
            visible: Vec::new(),
            writes: Vec::new(),
            queue: Vec::new(),
            len: 0,
            capacity,
            issued: 0,
            completions: 0,
            bad: BTreeSet::new(),
            fail_after: None,
            host_limit: None,
        }
    }

    /// Takes a request.
    pub fn submit(&mut self, request: DiskRequest) {
        self.issued += 1;
        if let DiskOp::Write { offset, data, .. } = &request.op {
            assert!(offset.is_multiple_of(4096) && data.len().is_multiple_of(4096), "requests are whole blocks");
            let write = Write { offset: *offset as usize, bytes: data.to_vec(), completed: None };
            assert!(write.offset + write.bytes.len() <= self.capacity, "a write beyond the disk");
            for (_, other) in self.writes.iter().filter(|(_, w)| w.completed.is_none()) {
                let apart = other.offset + other.bytes.len() <= write.offset || write.offset + write.bytes.len() <= other.offset;
                assert!(apart, "two writes of the same block are under way");
            }
            self.writes.push((self.issued, write));
        }
        self.queue.push((self.issued, self.completions, request));
    }

    /// Returns true if nothing is under way.
    pub fn idle(&self) -> bool {
        self.queue.is_empty()
    }

    /// Requests taken so far.
    pub fn issued(&self) -> u64 {
        self.issued
    }

    /// Completes one of the requests under way, any of them.
    pub fn step(&mut self, dice: &mut Dice) -> Option<DiskDone> {
        if self.queue.is_empty() {
            return None;
        }
        let at = dice.below(self.queue.len() as u64) as usize;
        let (number, before, request) = self.queue.swap_remove(at);
        self.completions += 1;
        let result = match request.op {
            DiskOp::Read { offset, buf } => self.read(offset as usize, buf),
            DiskOp::Write { durable, .. } => self.write(number, before, durable),
            // What was given back may read as anything.
            DiskOp::Trim { offset, len } => {
                let end = (offset + len).min(self.len as u64) as usize;
                let from = (offset as usize).min(end);
                self.poke(from, &vec![0xdd; end - from]);
                Ok(DiskOutput::Done)
            }
            DiskOp::Flush if self.failing(number) => Err(DiskError::Io(5)),
            DiskOp::Flush => {
                self.flush(before);
                Ok(DiskOutput::Done)
            }
            DiskOp::Stat => Ok(DiskOutput::Stat(DiskStat {
                len: self.len as u64,
                capacity: self.capacity as u64,
                host_free: self.host_limit.map_or(u64::MAX, |limit| limit.saturating_sub(self.len) as u64),
            })),
        };
        Some(DiskDone { token: request.token, result })
    }

    fn failing(&self, number: u64) -> bool {
        self.fail_after.is_some_and(|n| number >= n)
    }

    fn read(&self, offset: usize, mut buf: node::Buf) -> Result<DiskOutput, DiskError> {
        let end = offset + buf.len();
        if end > self.len || (offset / SECTOR..end / SECTOR).any(|s| self.bad.contains(&(s as u64))) {
            return Err(DiskError::Io(5));
        }
        buf.copy_from_slice(&self.visible[offset..end]);
        Ok(DiskOutput::Read(buf))
    }

    fn write(&mut self, number: u64, before: u64, durable: bool) -> Result<DiskOutput, DiskError> {
        let at = self.writes.iter().position(|(n, _)| *n == number).expect("every write is noted");
        let end = self.writes[at].1.offset + self.writes[at].1.bytes.len();
        if self.failing(number) {
            self.writes.remove(at);
            return Err(DiskError::Io(5));
        }
        if self.host_limit.is_some_and(|limit| end > limit.max(self.len)) {
            self.writes.remove(at);
            return Err(DiskError::NoSpace);
        }
        self.len = self.len.max(end);
        self.visible.resize(self.len, 0);
        let write = &mut self.writes[at].1;
        write.completed = Some(self.completions);
        self.visible[write.offset..end].copy_from_slice(&write.bytes);
        if durable {
            self.flush(before);
            let at = self.writes.iter().position(|(n, _)| *n == number).expect("it completed just now");
            let (_, write) = self.writes.remove(at);
            put(&mut self.durable, write.offset, &write.bytes);
        }
        Ok(DiskOutput::Done)
    }

    /// Makes durable what had completed when a flush was issued.
    fn flush(&mut self, before: u64) {
        let done = |w: &Write| w.completed.is_some_and(|c| c <= before);
        let mut flushed: Vec<Write> = Vec::new();
        for (number, write) in std::mem::take(&mut self.writes) {
            if done(&write) { flushed.push(write) } else { self.writes.push((number, write)) }
        }
        flushed.sort_by_key(|w| w.completed);
        flushed.iter().for_each(|w| put(&mut self.durable, w.offset, &w.bytes));
    }

    /// Power is lost: each write that is not durable is lost, whole, or torn, in any order.
    pub fn crash(&mut self, dice: &mut Dice) {
        let mut writes: Vec<Write> = self.writes.drain(..).map(|(_, w)| w).collect();
        while !writes.is_empty() {
            let write = writes.swap_remove(dice.below(writes.len() as u64) as usize);
            match dice.below(3) {
                0 => (),
                1 => put(&mut self.durable, write.offset, &write.bytes),
                _ => {
                    for (i, sector) in write.bytes.chunks(SECTOR).enumerate() {
                        if dice.one_in(2) {
                            put(&mut self.durable, write.offset + i * SECTOR, sector);
                        }
                    }
                }
            }
        }
        self.queue.clear();
        let whole = self.durable.len().next_multiple_of(4096);
        self.durable.resize(whole, 0);
        self.visible = self.durable.clone();
        self.len = self.visible.len();
    }

    /// Flips one bit, durably.
    pub fn flip(&mut self, bit: u64) {
        for bytes in [&mut self.visible, &mut self.durable] {
            if let Some(byte) = bytes.get_mut((bit / 8) as usize) {
                *byte ^= 1 << (bit % 8);
            }
        }
    }

    /// Bytes that the file has.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if nothing was ever written.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns what is there.
    pub fn bytes(&self) -> &[u8] {
        &self.visible
    }

    /// Overwrites bytes, durably, without the store's knowledge.
    pub fn poke(&mut self, offset: usize, bytes: &[u8]) {
        put(&mut self.visible, offset, bytes);
        put(&mut self.durable, offset, bytes);
    }
}

/// Data disk and journal disk, as the checker reads them.
impl crate::fsck::BlockRead for Vec<TestDisk> {
    fn read(&mut self, device: node::DeviceId, offset: u64, buf: &mut [u8]) -> Result<(), String> {
        let disk = self.get(usize::from(device.0)).ok_or("no such disk")?;
        let from = offset as usize;
        let bytes = disk.visible.get(from..from + buf.len()).ok_or("beyond the end")?;
        if (from / SECTOR..(from + buf.len()) / SECTOR).any(|s| disk.bad.contains(&(s as u64))) {
            return Err("bad sector".into());
        }
        buf.copy_from_slice(bytes);
        Ok(())
    }

    fn len(&mut self, device: node::DeviceId) -> u64 {
        self.get(usize::from(device.0)).map_or(0, |d| d.len as u64)
    }

    fn capacity(&mut self, device: node::DeviceId) -> u64 {
        self.get(usize::from(device.0)).map_or(0, |d| d.capacity as u64)
    }
}

impl crate::fsck::BlockWrite for Vec<TestDisk> {
    fn write(&mut self, device: node::DeviceId, offset: u64, bytes: &[u8]) -> Result<(), String> {
        self.get_mut(usize::from(device.0)).ok_or("no such disk")?.poke(offset as usize, bytes);
        Ok(())
    }
}

fn put(image: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    if image.len() < offset + bytes.len() {
        image.resize(offset + bytes.len(), 0);
    }
    image[offset..offset + bytes.len()].copy_from_slice(bytes);
}
