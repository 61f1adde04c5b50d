//! A disk that does what disks may do, and no more.
//!
//! A write that is complete can be read at once. It survives a power cut only when a flush that was *issued* after its
//! completion has completed, or when it was durable itself. What is not yet safe may, at a power cut, be there or not, sector by
//! sector (512 bytes), in any order between places; one sector holds one of the versions that were written to it. The
//! death of the process alone loses nothing that was complete, and leaves writes in flight in any state.

use crate::rng::Rng;
use bytes::Bytes;
use node::{Buf, DiskDone, DiskError, DiskOp, DiskOutput, DiskStat, Token};
use std::collections::{BTreeMap, BTreeSet};
use types::Rope;

/// Unit of requests.
pub const BLOCK: u64 = 4096;
/// Unit of tearing.
pub const SECTOR: usize = 512;
const SECTORS: usize = BLOCK as usize / SECTOR;
static ZEROS: [u8; BLOCK as usize] = [0; BLOCK as usize];

/// How a disk is.
#[derive(Clone, Debug)]
pub struct DiskConfig {
    /// Most bytes that it holds.
    pub capacity: u64,
    /// Bytes that exist at first (a device: all of them; a file: none).
    pub len: u64,
    /// Latency of a request without payload, nanoseconds.
    pub latency: u64,
    /// Nanoseconds for each KiB.
    pub per_kib: u64,
}

impl Default for DiskConfig {
    fn default() -> Self {
        Self { capacity: 1 << 30, len: 0, latency: 100_000, per_kib: 500 }
    }
}

/// Things that are wrong with a disk now.
#[derive(Clone, Debug, Default)]
pub struct DiskFaults {
    /// Latencies are multiplied by 1 plus this.
    pub slower: u64,
    /// Reads fail once in so many (0: never).
    pub read_errors: u64,
    /// Writes and flushes fail once in so many (0: never).
    pub write_errors: u64,
    /// Flushes find no space once in so many (0: never): the file system below promised space that it does not have.
    /// Some of what the flush was to make safe is gone at once. In half of the cases no later flush succeeds until
    /// the process begins anew.
    pub full_flushes: u64,
    /// Reads come back with a flipped bit once in so many (0: never); the medium is right.
    pub flipped_reads: u64,
    /// Reads give another place's bytes once in so many (0: never).
    pub misdirected_reads: u64,
    /// Writes go to another place once in so many (0: never).
    pub misdirected_writes: u64,
    /// Bytes that the file system below can still give.
    pub host_free: Option<u64>,
    /// Flushes and durable writes are complete without having made anything safe. Not in the fault model: it is there
    /// to prove that the checkers find a reply that is given before its promise is kept.
    pub lies: bool,
    /// Completions are held back until this is taken away again.
    pub stopped: bool,
    /// Nanoseconds that each write and flush takes longer, at most; at least half of it.
    pub delay: u64,
    /// Nanoseconds that the next write or flush takes longer.
    pub stall: u64,
}

#[derive(Debug)]
struct Version {
    /// Number of the completion, from 1.
    seq: u64,
    /// Which write made it.
    write: u64,
    data: Bytes,
}

#[derive(Debug)]
struct InFlight {
    token: Token,
    op: DiskOp,
    /// Completions before it was issued.
    mark: u64,
}

/// What a disk did, for tests and reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskCounters {
    /// Completed reads.
    pub reads: u64,
    /// Completed writes.
    pub writes: u64,
    /// Completed flushes and durable writes.
    pub flushes: u64,
    /// Requests that a fault touched.
    pub faults: u64,
}

/// A virtual disk. It outlives the machines that use it.
#[derive(Debug)]
pub struct Disk {
    config: DiskConfig,
    /// What is wrong with it.
    pub faults: DiskFaults,
    /// What it did.
    pub counters: DiskCounters,
    rng: Rng,
    /// What a read sees; a block that is not there is zero.
    view: BTreeMap<u64, Bytes>,
    /// What survives for certain.
    stable: BTreeMap<u64, Bytes>,
    /// Versions that may or may not survive, oldest first.
    dirty: BTreeMap<u64, Vec<Version>>,
    /// Blocks of the last durable write.
    newest: std::ops::Range<u64>,
    len: u64,
    stable_len: u64,
    completions: u64,
    /// A flush found no space in this life of the process.
    flush_failed: bool,
    /// And none succeeds after it, as nobody knows what it would make safe.
    poisoned: bool,
    in_flight: BTreeMap<u64, InFlight>,
    next: u64,
}

/// A copy of a disk.
#[derive(Clone, Debug)]
pub struct DiskCopy {
    blocks: BTreeMap<u64, Bytes>,
    len: u64,
}

/// How much of one write survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Survival {
    Nothing,
    All,
    /// Its first so many sectors.
    Prefix(u64),
    /// Any of its sectors.
    Sectors,
}

impl Survival {
    /// Returns which of the sectors of a write's `nth` block survive, as bits.
    fn sectors(self, nth: u64, rng: &mut Rng) -> u8 {
        match self {
            Survival::Nothing => 0,
            Survival::All => 0xff,
            Survival::Sectors => rng.next() as u8,
            Survival::Prefix(n) => {
                let here = n.saturating_sub(nth * SECTORS as u64).min(SECTORS as u64);
                (0xff_u16 >> (SECTORS as u64 - here)) as u8
            }
        }
    }

    /// A tear of a write of so many blocks.
    fn torn(blocks: u64, rng: &mut Rng) -> Self {
        if rng.one_in(3) { Survival::Sectors } else { Survival::Prefix(rng.below(blocks * SECTORS as u64 + 1)) }
    }
}

impl Disk {
    /// A fresh disk full of zeros.
    pub fn new(config: DiskConfig, rng: Rng) -> Self {
        Self {
            len: config.len,
            stable_len: config.len,
            config,
            faults: DiskFaults::default(),
            counters: DiskCounters::default(),
            rng,
            view: BTreeMap::new(),
            stable: BTreeMap::new(),
            dirty: BTreeMap::new(),
            newest: 0..0,
            completions: 0,
            flush_failed: false,
            poisoned: false,
            in_flight: BTreeMap::new(),
            next: 0,
        }
    }

    /// Returns how it is.
    pub fn config(&self) -> DiskConfig {
        self.config.clone()
    }

    /// Takes a request. Gives its number, and how many nanoseconds it will take.
    pub fn submit(&mut self, token: Token, op: DiskOp) -> (u64, u64) {
        let bytes = match &op {
            DiskOp::Read { offset, buf } => aligned(*offset, buf.len() as u64),
            DiskOp::Write { offset, data, .. } => aligned(*offset, data.len() as u64),
            DiskOp::Flush | DiskOp::Stat | DiskOp::Trim { .. } => 0,
        };
        let base = match op {
            DiskOp::Stat => 1_000,
            _ => self.config.latency + bytes / 1024 * self.config.per_kib,
        };
        let time = (base / 2 + self.rng.below(base + 1)) * (1 + self.faults.slower);
        let time = time + if matches!(op, DiskOp::Write { .. } | DiskOp::Flush) { self.held_up() } else { 0 };
        let id = self.next;
        self.next += 1;
        self.in_flight.insert(id, InFlight { token, op, mark: self.completions });
        (id, time)
    }

    /// Returns how much longer a write takes.
    fn held_up(&mut self) -> u64 {
        let stall = std::mem::take(&mut self.faults.stall);
        match self.faults.delay {
            0 => stall,
            delay => stall + self.rng.between(delay / 2, delay),
        }
    }

    /// Returns what survives a power cut for certain, as somebody copies it away.
    pub fn copy(&self) -> DiskCopy {
        DiskCopy { blocks: self.stable.clone(), len: self.stable_len }
    }

    /// Puts an older copy in the place of all that is there. The machine must be off.
    pub fn set_back(&mut self, copy: &DiskCopy) {
        assert!(self.in_flight.is_empty(), "the machine is off");
        (self.view, self.stable) = (copy.blocks.clone(), copy.blocks.clone());
        (self.len, self.stable_len) = (copy.len, copy.len);
        self.dirty.clear();
        self.newest = 0..0;
    }

    /// Ends a request. `None` if a crash has swallowed it.
    pub fn complete(&mut self, id: u64) -> Option<DiskDone> {
        let InFlight { token, op, mark } = self.in_flight.remove(&id)?;
        let result = match op {
            DiskOp::Read { offset, buf } => self.read(offset, buf),
            DiskOp::Write { offset, data, durable } => self.write(id, offset, &data, durable.then_some(mark)),
            DiskOp::Trim { offset, len } => {
                self.trim(offset / BLOCK, len / BLOCK);
                Ok(DiskOutput::Done)
            }
            DiskOp::Flush => self.flush(mark),
            DiskOp::Stat => Ok(DiskOutput::Stat(self.stat())),
        };
        Some(DiskDone { token, result })
    }

    /// Sizes as the machine sees them.
    pub fn stat(&self) -> DiskStat {
        let host_free = self.faults.host_free.unwrap_or(u64::MAX);
        DiskStat { len: self.len, capacity: self.config.capacity, host_free }
    }

    fn fault(&mut self, one_in: u64) -> bool {
        let hit = one_in > 0 && self.rng.one_in(one_in);
        self.counters.faults += u64::from(hit);
        hit
    }

    fn read(&mut self, offset: u64, mut buf: Buf) -> Result<DiskOutput, DiskError> {
        self.counters.reads += 1;
        if offset + buf.len() as u64 > self.len || self.fault(self.faults.read_errors) {
            return Err(DiskError::Io(5));
        }
        let from = if self.fault(self.faults.misdirected_reads) { self.another_place(offset, buf.len() as u64) } else { offset };
        copy_blocks(&self.view, from / BLOCK, &mut buf);
        if !buf.is_empty() && self.fault(self.faults.flipped_reads) {
            let at = self.rng.index(buf.len());
            buf[at] ^= 1 << self.rng.below(8);
        }
        Ok(DiskOutput::Read(buf))
    }

    fn another_place(&mut self, offset: u64, len: u64) -> u64 {
        let blocks = (self.len.saturating_sub(len)) / BLOCK;
        if blocks == 0 { offset } else { self.rng.below(blocks) * BLOCK }
    }

    fn write(&mut self, id: u64, offset: u64, data: &Rope, durable: Option<u64>) -> Result<DiskOutput, DiskError> {
        self.counters.writes += 1;
        let end = offset + data.len() as u64;
        if end > self.config.capacity {
            return Err(DiskError::NoSpace);
        }
        self.grow(end)?;
        if self.fault(self.faults.write_errors) || durable.is_some() && self.poisoned {
            return Err(DiskError::Io(5));
        }
        let at = if self.fault(self.faults.misdirected_writes) { self.another_place(offset, data.len() as u64) } else { offset };
        self.completions += 1;
        let seq = self.completions;
        let safe = durable.filter(|_| !self.faults.lies);
        for (block, bytes) in blocks(at, data) {
            self.view.insert(block, bytes.clone());
            match safe {
                Some(_) => {
                    self.dirty.remove(&block);
                    self.stable.insert(block, bytes);
                }
                None => self.dirty.entry(block).or_default().push(Version { seq, write: id, data: bytes }),
            }
        }
        if durable.is_some() {
            self.newest = at / BLOCK..(at + data.len() as u64).div_ceil(BLOCK);
        }
        if let Some(mark) = safe {
            self.counters.flushes += 1;
            self.make_safe(mark);
        }
        Ok(DiskOutput::Done)
    }

    fn grow(&mut self, end: u64) -> Result<(), DiskError> {
        let more = end.saturating_sub(self.len);
        if let Some(free) = &mut self.faults.host_free {
            *free = free.checked_sub(more).ok_or(DiskError::NoSpace)?;
        }
        self.len = self.len.max(end);
        Ok(())
    }

    fn flush(&mut self, mark: u64) -> Result<DiskOutput, DiskError> {
        if self.poisoned || self.fault(self.faults.write_errors) {
            return Err(DiskError::Io(5));
        }
        if self.fault(self.faults.full_flushes) {
            self.lose(mark);
            (self.flush_failed, self.poisoned) = (true, self.poisoned || self.rng.one_in(2));
            return Err(DiskError::NoSpace);
        }
        if !self.faults.lies {
            self.counters.flushes += 1;
            self.make_safe(mark);
        }
        Ok(DiskOutput::Done)
    }

    /// Of the writes up to completion `mark` that are not safe, some are gone: what was there before is read again.
    fn lose(&mut self, mark: u64) {
        let writes: BTreeSet<u64> = self.dirty.values().flatten().filter(|v| v.seq <= mark).map(|v| v.write).collect();
        let lost: BTreeSet<u64> = writes.into_iter().filter(|_| self.rng.one_in(2)).collect();
        let (view, stable) = (&mut self.view, &self.stable);
        self.dirty.retain(|block, versions| {
            let all = versions.len();
            versions.retain(|version| !lost.contains(&version.write));
            if versions.len() < all {
                match versions.last().map(|version| &version.data).or_else(|| stable.get(block)) {
                    Some(data) => drop(view.insert(*block, data.clone())),
                    None => drop(view.remove(block)),
                }
            }
            !versions.is_empty()
        });
    }

    /// Blocks are given back: they read as something else from now on, so that whoever still needs them is found out.
    fn trim(&mut self, first: u64, n: u64) {
        let garbage = Bytes::from(vec![0xdb; BLOCK as usize]);
        let written: Vec<u64> = self.view.range(first..first + n).map(|(block, _)| *block).collect();
        for block in written {
            self.view.insert(block, garbage.clone());
            self.stable.insert(block, garbage.clone());
            self.dirty.remove(&block);
        }
    }

    /// All versions up to completion `mark` are safe.
    fn make_safe(&mut self, mark: u64) {
        let stable = &mut self.stable;
        self.dirty.retain(|block, versions| {
            let safe = versions.iter().take_while(|v| v.seq <= mark).count();
            if let Some(last) = versions.drain(..safe).next_back() {
                stable.insert(*block, last.data);
            }
            !versions.is_empty()
        });
        self.stable_len = self.len;
    }

    /// The process died: what was in flight is in any state, everything complete is kept.
    pub fn process_died(&mut self) {
        (self.flush_failed, self.poisoned) = (false, false);
        for (id, request) in std::mem::take(&mut self.in_flight) {
            let DiskOp::Write { offset, data, .. } = request.op else { continue };
            if offset + data.len() as u64 > self.config.capacity {
                continue;
            }
            let survival = match self.rng.below(3) {
                0 => continue,
                1 => Survival::All,
                _ => Survival::torn(data.len() as u64 / BLOCK, &mut self.rng),
            };
            self.completions += 1;
            for (nth, (block, bytes)) in blocks(offset, &data).enumerate() {
                let keep = survival.sectors(nth as u64, &mut self.rng);
                if keep == 0 {
                    continue;
                }
                let mixed = mix(self.view.get(&block), &bytes, |sector| keep >> sector & 1 == 1);
                self.view.insert(block, mixed.clone());
                self.dirty.entry(block).or_default().push(Version { seq: self.completions, write: id, data: mixed });
                self.len = self.len.max((block + 1) * BLOCK);
            }
        }
    }

    /// The power is cut: what was not safe survives in part.
    pub fn power_cut(&mut self) {
        (self.flush_failed, self.poisoned) = (false, false);
        for (id, request) in std::mem::take(&mut self.in_flight) {
            let DiskOp::Write { offset, data, .. } = request.op else { continue };
            if offset + data.len() as u64 > self.config.capacity {
                continue;
            }
            self.completions += 1;
            for (block, data) in blocks(offset, &data) {
                self.dirty.entry(block).or_default().push(Version { seq: self.completions, write: id, data });
            }
        }
        let survivals = self.choose_survivals();
        let mut seen: BTreeMap<u64, u64> = BTreeMap::new();
        for (block, versions) in std::mem::take(&mut self.dirty) {
            let mut now = self.stable.get(&block).cloned();
            for version in versions {
                let nth = seen.entry(version.write).or_default();
                let keep = survivals[&version.write].sectors(*nth, &mut self.rng);
                *nth += 1;
                if keep != 0 {
                    now = Some(mix(now.as_ref(), &version.data, |sector| keep >> sector & 1 == 1));
                    self.stable_len = self.stable_len.max((block + 1) * BLOCK);
                }
            }
            // What a read sees differs from what is safe in these blocks alone.
            match now {
                Some(now) => {
                    self.view.insert(block, now.clone());
                    self.stable.insert(block, now);
                }
                None => drop(self.view.remove(&block)),
            }
        }
        self.len = self.stable_len.max(self.config.len);
    }

    /// Returns what becomes of each write that is not safe.
    fn choose_survivals(&mut self) -> BTreeMap<u64, Survival> {
        let mut sizes: BTreeMap<u64, u64> = BTreeMap::new();
        let mut last: BTreeMap<u64, u64> = BTreeMap::new();
        for version in self.dirty.values().flatten() {
            *sizes.entry(version.write).or_default() += 1;
            last.insert(version.write, version.seq);
        }
        let (mode, cut) = (self.rng.below(6), self.rng.below(self.completions + 1));
        let torn = self.rng.below(sizes.len().max(1) as u64) as usize;
        let rng = &mut self.rng;
        let each = sizes.iter().enumerate().map(|(i, (write, blocks))| {
            let survival = match mode {
                0 => Survival::Nothing,
                1 => Survival::All,
                // What was written up to some moment.
                2 if last[write] <= cut => Survival::All,
                2 => Survival::Nothing,
                3 if i != torn => Survival::All,
                3 => Survival::torn(*blocks, rng),
                4 => Survival::Sectors,
                _ => match rng.below(3) {
                    0 => Survival::Nothing,
                    1 => Survival::All,
                    _ => Survival::torn(*blocks, rng),
                },
            };
            (*write, survival)
        });
        each.collect()
    }

    /// Flips one bit of one block that was ever written, for good. Gives the byte offset, or `None` if nothing was written. The last
    /// durable write is spared: a journal's last group that has rotted cannot be told from one that a crash has cut short.
    pub fn rot(&mut self) -> Option<u64> {
        let written = self.view.iter().filter(|(block, data)| data[..] != ZEROS[..] && !self.newest.contains(block));
        let blocks: Vec<u64> = written.map(|(block, _)| *block).collect();
        if blocks.is_empty() {
            return None;
        }
        let (block, at, bit) = (*self.rng.pick(&blocks), self.rng.index(BLOCK as usize), self.rng.below(8));
        self.rot_at(block * BLOCK + at as u64, 1 << bit);
        Some(block * BLOCK + at as u64)
    }

    /// Changes the bits of `mask` in the byte at `offset`, for good.
    pub fn rot_at(&mut self, offset: u64, mask: u8) {
        self.counters.faults += 1;
        let (block, at) = (offset / BLOCK, (offset % BLOCK) as usize);
        let flip = |data: Option<&Bytes>| {
            let mut data = data.map_or_else(|| ZEROS.to_vec(), |d| d.to_vec());
            data[at] ^= mask;
            Bytes::from(data)
        };
        let rotten = flip(self.view.get(&block));
        self.view.insert(block, rotten);
        let rotten = flip(self.stable.get(&block));
        self.stable.insert(block, rotten);
        for version in self.dirty.get_mut(&block).into_iter().flatten() {
            version.data = flip(Some(&version.data));
        }
    }

    /// Returns what is on the disk now: for tools that look at stopped stores.
    pub fn image(&self, offset: u64, len: usize) -> Vec<u8> {
        let mut out = vec![0; len];
        self.look(offset, &mut out);
        out
    }

    /// The same, into a buffer.
    pub fn look(&self, offset: u64, buf: &mut [u8]) {
        let (first, skipped) = (offset / BLOCK, (offset % BLOCK) as usize);
        if skipped == 0 {
            return copy_blocks(&self.view, first, buf);
        }
        let (head, rest) = buf.split_at_mut(buf.len().min(BLOCK as usize - skipped));
        let block = self.view.get(&first).map_or(&ZEROS[..], |block| &block[..]);
        head.copy_from_slice(&block[skipped..skipped + head.len()]);
        copy_blocks(&self.view, first + 1, rest);
    }

    /// Returns true if a flush found no space in this life of the process.
    pub fn flush_failed(&self) -> bool {
        self.flush_failed
    }

    /// Requests that are not complete.
    pub fn busy(&self) -> usize {
        self.in_flight.len()
    }
}

fn aligned(offset: u64, len: u64) -> u64 {
    assert!(
        offset.is_multiple_of(BLOCK) && len.is_multiple_of(BLOCK) && len > 0,
        "disk request at {offset} of {len} bytes is not made of whole blocks"
    );
    len
}

/// Fills a buffer with blocks, from `first` on; most of a large one may never have been written.
fn copy_blocks(view: &BTreeMap<u64, Bytes>, first: u64, buf: &mut [u8]) {
    let mut filled = 0;
    for (block, bytes) in view.range(first..first + (buf.len() as u64).div_ceil(BLOCK)) {
        let at = (block - first) as usize * BLOCK as usize;
        buf[filled..at].fill(0);
        filled = buf.len().min(at + BLOCK as usize);
        buf[at..filled].copy_from_slice(&bytes[..filled - at]);
    }
    buf[filled..].fill(0);
}

/// Cuts a write into blocks; those that are zero share one static block.
fn blocks(offset: u64, data: &Rope) -> impl Iterator<Item = (u64, Bytes)> {
    let first = offset / BLOCK;
    (0..data.len() / BLOCK as usize).map(move |i| {
        let bytes = data.slice(i * BLOCK as usize, BLOCK as usize).contiguous();
        let bytes = if bytes[..] == ZEROS[..] { Bytes::from_static(&ZEROS) } else { bytes };
        (first + i as u64, bytes)
    })
}

fn mix(old: Option<&Bytes>, new: &Bytes, keep: impl Fn(usize) -> bool) -> Bytes {
    if (0..SECTORS).all(&keep) {
        return new.clone();
    }
    let mut out = old.map_or_else(|| ZEROS.to_vec(), |o| o.to_vec());
    for sector in (0..SECTORS).filter(|s| keep(*s)) {
        let at = sector * SECTOR..(sector + 1) * SECTOR;
        out[at.clone()].copy_from_slice(&new[at]);
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(disk: &mut Disk, offset: u64, byte: u8, blocks: usize, durable: bool) -> u64 {
        let data = Rope::from(vec![byte; blocks * BLOCK as usize]);
        disk.submit(Token(0), DiskOp::Write { offset, data, durable }).0
    }

    fn done(disk: &mut Disk, id: u64) {
        assert!(disk.complete(id).is_some_and(|d| d.result.is_ok()));
    }

    #[test]
    fn what_a_flush_covered_survives_and_what_came_later_may_not() {
        let mut lost = 0;
        for seed in 0..200 {
            let mut disk = Disk::new(DiskConfig::default(), Rng::new(seed));
            let first = write(&mut disk, 0, 1, 2, false);
            done(&mut disk, first);
            let flush = disk.submit(Token(1), DiskOp::Flush).0;
            let second = write(&mut disk, 8192, 2, 1, false);
            done(&mut disk, second);
            done(&mut disk, flush);
            disk.power_cut();
            assert_eq!(disk.image(0, 8192), vec![1; 8192], "seed {seed}");
            let tail = disk.image(8192, 4096);
            assert!(tail.chunks(SECTOR).all(|s| s.iter().all(|b| *b == s[0] && [0, 2].contains(b))));
            lost += usize::from(tail.iter().any(|b| *b != 2));
        }
        assert!((50..190).contains(&lost), "the write that no flush covered was lost {lost} times of 200");
    }

    #[test]
    fn a_durable_write_takes_with_it_what_was_complete_when_it_was_issued() {
        for seed in 0..100 {
            let mut disk = Disk::new(DiskConfig::default(), Rng::new(seed));
            let before = write(&mut disk, 4096, 7, 1, false);
            done(&mut disk, before);
            let durable = write(&mut disk, 0, 8, 1, true);
            let beside = write(&mut disk, 0, 9, 1, false);
            done(&mut disk, beside);
            done(&mut disk, durable);
            disk.power_cut();
            assert_eq!((disk.image(0, 4096), disk.image(4096, 4096)), (vec![8; 4096], vec![7; 4096]), "seed {seed}");
        }
    }

    #[test]
    fn a_flush_without_space_loses_some_of_what_it_was_for_and_perhaps_none_succeeds_after_it() {
        let (mut lost, mut kept, mut for_ever) = (0, 0, 0);
        for seed in 0..100 {
            let mut disk = Disk::new(DiskConfig::default(), Rng::new(seed));
            let safe = write(&mut disk, 0, 1, 1, true);
            done(&mut disk, safe);
            let over = write(&mut disk, 0, 2, 2, false);
            done(&mut disk, over);
            disk.faults.full_flushes = 1;
            let flush = disk.submit(Token(1), DiskOp::Flush).0;
            assert!(matches!(disk.complete(flush), Some(DiskDone { result: Err(DiskError::NoSpace), .. })));
            let image = disk.image(0, 8192);
            match image[0] {
                1 => assert!(image[..4096] == [1; 4096] && image[4096..] == [0; 4096], "a write goes as a whole"),
                _ => assert!(image == [2; 8192]),
            }
            (lost, kept) = (lost + u32::from(image[0] == 1), kept + u32::from(image[0] == 2));
            disk.faults.full_flushes = 0;
            let again = disk.submit(Token(2), DiskOp::Flush).0;
            let fails = disk.complete(again).is_some_and(|done| done.result.is_err());
            let durable = write(&mut disk, 8192, 3, 1, true);
            assert_eq!(disk.complete(durable).is_some_and(|done| done.result.is_err()), fails);
            for_ever += u32::from(fails);
            disk.process_died();
            let later = disk.submit(Token(3), DiskOp::Flush).0;
            done(&mut disk, later);
        }
        assert!([lost, kept, for_ever].iter().all(|n| (20..80).contains(n)), "lost {lost}, kept {kept}, for ever {for_ever}");
    }

    #[test]
    fn a_dead_process_loses_only_what_was_in_flight() {
        let mut torn = 0;
        for seed in 0..100 {
            let mut disk = Disk::new(DiskConfig::default(), Rng::new(seed));
            let complete = write(&mut disk, 0, 1, 1, false);
            done(&mut disk, complete);
            let in_flight = write(&mut disk, 4096, 2, 1, true);
            disk.process_died();
            assert!(disk.complete(in_flight).is_none());
            assert_eq!(disk.image(0, 4096), vec![1; 4096]);
            let image = disk.image(4096, 4096);
            torn += usize::from(image.contains(&0) && image.contains(&2));
        }
        assert!(torn > 10, "torn {torn} times");
    }

    #[test]
    fn after_a_power_cut_a_read_sees_what_is_safe() {
        for seed in 0..50 {
            let mut disk = Disk::new(DiskConfig::default(), Rng::new(seed));
            for n in 0..40 {
                let (offset, blocks) = (disk.rng.below(16) * BLOCK, disk.rng.between(1, 4) as usize);
                let durable = disk.rng.one_in(3);
                let id = write(&mut disk, offset, n, blocks, durable);
                if disk.rng.one_in(8) {
                    disk.submit(Token(2), DiskOp::Trim { offset, len: BLOCK });
                }
                match disk.rng.below(4) {
                    0 => {}
                    _ => done(&mut disk, id),
                }
                match disk.rng.below(10) {
                    0 => disk.process_died(),
                    1 => drop(disk.rot()),
                    _ => {}
                }
            }
            disk.power_cut();
            assert!(disk.view == disk.stable, "seed {seed}");
        }
    }

    #[test]
    fn a_look_at_any_bytes_gives_those() {
        let mut disk = Disk::new(DiskConfig::default(), Rng::new(1));
        for block in [1, 2, 5] {
            let id = write(&mut disk, block * BLOCK, block as u8, 1, true);
            done(&mut disk, id);
        }
        let all = disk.image(0, 8 * BLOCK as usize);
        assert_eq!(all.iter().filter(|byte| **byte == 5).count(), BLOCK as usize);
        for _ in 0..200 {
            let (at, len) = (disk.rng.index(7 * BLOCK as usize), disk.rng.index(BLOCK as usize));
            assert_eq!(disk.image(at as u64, len), all[at..at + len]);
        }
    }

    #[test]
    fn a_lying_disk_loses_durable_writes_and_a_full_one_says_so() {
        let lost = (0..100).filter(|seed| {
            let mut disk = Disk::new(DiskConfig::default(), Rng::new(*seed));
            disk.faults.lies = true;
            let id = write(&mut disk, 0, 1, 1, true);
            done(&mut disk, id);
            disk.power_cut();
            disk.image(0, 4096) != vec![1; 4096]
        });
        assert!(lost.count() > 20);
        let mut disk = Disk::new(DiskConfig { capacity: 8192, ..DiskConfig::default() }, Rng::new(1));
        let id = write(&mut disk, 8192, 1, 1, true);
        assert!(matches!(disk.complete(id), Some(DiskDone { result: Err(DiskError::NoSpace), .. })));
    }
}
