//! Disk requests in flight, and what each one is for.

use crate::block::Run;
use crate::checked::Checked;
use crate::journal::staged::Staged;
use crate::wish::{Item, Owner};
use node::{Buf, DeviceId, DiskOp, DiskRequest, Mono, Output, Outputs, Token};
use std::collections::BTreeMap;
use std::time::Duration;
use types::Rope;

/// The disk with the data and the index.
pub(crate) const DATA: DeviceId = DeviceId(0);
/// The journal's own disk, if there is one.
pub(crate) const JOURNAL: DeviceId = DeviceId(1);

/// Wait until a write is tried again for which the host had no space.
const HOST_FULL: Duration = Duration::from_secs(1);

/// What a request is for.
#[derive(Debug)]
pub(crate) enum Purpose {
    /// A step of opening.
    Open,
    /// Something that a read missed: for whom, what, and the number of flips when the request began.
    Fetch(Owner, Item, u64),
    /// A piece of a page that a read missed: the number of the page's fetch, and the piece's first byte in the page.
    Piece(u64, usize),
    /// Data of a large write: the record's sequence number, the first block.
    Direct(u64, u64),
    /// Flush of the data that was written for these records.
    Settle(Vec<u64>),
    /// The write of a journal group, by its number.
    Group(u64),
    /// Zeros ahead in the ring: number of blocks.
    Claim(u64),
    /// Zeros in blocks that are kept ready for data.
    Ahead(Run),
    /// A moved run of blocks, or pages, of the checkpoint.
    Checkpoint,
    /// The flush before the flip.
    Flush,
    /// The superblock that marks the store with a later version.
    Mark,
    /// The flip's superblock.
    Flip,
    /// The sizes of the data disk.
    Stat,
    /// Free blocks that go back to the host. True: the search of all free blocks found them.
    Trim(Run, bool),
    /// Free blocks that the disk is told of.
    Discard(Run),
}

/// A write that is repeated if the host has no space for it.
#[derive(Debug)]
struct Again {
    device: DeviceId,
    offset: u64,
    data: Rope,
    durable: bool,
}

/// A request that has not ended.
#[derive(Debug)]
struct Waiting {
    purpose: Purpose,
    again: Option<Again>,
}

/// All requests of the store.
#[derive(Debug, Default)]
pub(crate) struct Io {
    next: u64,
    waiting: BTreeMap<u64, Waiting>,
    out: Vec<DiskRequest>,
    refused: Vec<(Purpose, Again)>,
    retry_at: Option<Mono>,
}

impl Io {
    fn issue(&mut self, device: DeviceId, op: DiskOp, purpose: Purpose, again: Option<Again>) {
        self.next += 1;
        self.waiting.insert(self.next, Waiting { purpose, again });
        self.out.push(DiskRequest { token: Token(self.next), device, op });
    }

    /// Reads `len` bytes from byte `offset`.
    pub(crate) fn read(&mut self, device: DeviceId, offset: u64, len: usize, purpose: Purpose) {
        self.issue(device, DiskOp::Read { offset, buf: Buf::new(len) }, purpose, None);
    }

    /// Writes from byte `offset` on; `durable` as in [`DiskOp::Write`].
    pub(crate) fn write(&mut self, device: DeviceId, offset: u64, data: Rope, durable: bool, purpose: Purpose) {
        let again = Again { device, offset, data: data.clone(), durable };
        self.issue(device, DiskOp::Write { offset, data, durable }, purpose, Some(again));
    }

    pub(crate) fn flush(&mut self, device: DeviceId, purpose: Purpose) {
        self.issue(device, DiskOp::Flush, purpose, None);
    }

    pub(crate) fn stat(&mut self, device: DeviceId, purpose: Purpose) {
        self.issue(device, DiskOp::Stat, purpose, None);
    }

    pub(crate) fn trim(&mut self, device: DeviceId, offset: u64, len: u64, purpose: Purpose) {
        self.issue(device, DiskOp::Trim { offset, len }, purpose, None);
    }

    /// Says whether a request writes the ring ahead.
    pub(crate) fn is_claim(&self, token: Token) -> bool {
        matches!(self.waiting.get(&token.0), Some(Waiting { purpose: Purpose::Claim(_), .. }))
    }

    /// Gives the blocks that a request writes ahead for data, if it does that.
    pub(crate) fn ahead(&self, token: Token) -> Option<Run> {
        match self.waiting.get(&token.0) {
            Some(Waiting { purpose: Purpose::Ahead(run), .. }) => Some(*run),
            _ => None,
        }
    }

    /// Number of writes that have not ended.
    pub(crate) fn writes_under_way(&self) -> usize {
        self.waiting.values().filter(|w| w.again.is_some()).count()
    }

    /// Gives what an ended request was for. None if it is none of the store's.
    pub(crate) fn ended(&mut self, token: Token) -> Option<Purpose> {
        self.waiting.remove(&token.0).map(|w| w.purpose)
    }

    /// Notes that the host had no space for a write: it will be tried again. False if it was no write of the store's.
    pub(crate) fn refused(&mut self, token: Token, now: Mono) -> bool {
        // What cannot be repeated stays: a flush that found no space lost data, and whoever waits for it must hear of that.
        if self.waiting.get(&token.0).is_none_or(|waiting| waiting.again.is_none()) {
            return false;
        }
        let Some(Waiting { purpose, again: Some(again) }) = self.waiting.remove(&token.0) else { return false };
        self.refused.push((purpose, again));
        self.retry_at.get_or_insert(now.plus(HOST_FULL));
        true
    }

    /// Says whether writes wait for space on the host.
    pub(crate) fn host_full(&self) -> bool {
        !self.refused.is_empty()
    }

    /// Tries those writes again whose time has come.
    pub(crate) fn retry(&mut self, now: Mono) {
        if self.retry_at.is_some_and(|at| at <= now) {
            self.retry_at = None;
            for (purpose, again) in std::mem::take(&mut self.refused) {
                self.write(again.device, again.offset, again.data, again.durable, purpose);
            }
        }
    }

    /// Returns when [`Self::retry`] has something to do.
    pub(crate) fn deadline(&self) -> Mono {
        self.retry_at.unwrap_or(Mono::NEVER)
    }

    /// Hands the requests over to the driver.
    pub(crate) fn drain(&mut self, out: &mut Outputs) {
        out.0.extend(self.out.drain(..).map(Output::Disk));
    }
}

/// Data of large writes that is not on disk yet, by first block.
#[derive(Debug, Default)]
pub(crate) struct Writing(BTreeMap<u64, Staged>);

impl Writing {
    pub(crate) fn begin(&mut self, block: u64, data: Rope, crcs_of: &Staged, first: u32) {
        let n = (data.len() / crate::block::BLOCK) as u32;
        self.0.insert(block, Staged::known(data, &crcs_of.crcs()[first as usize..(first + n) as usize]));
    }

    pub(crate) fn end(&mut self, block: u64) {
        self.0.remove(&block);
    }

    pub(crate) fn get(&self, block: u64) -> Option<Checked> {
        let (start, staged) = self.0.range(..=block).next_back()?;
        staged.get((block - start) as u32)
    }
}
