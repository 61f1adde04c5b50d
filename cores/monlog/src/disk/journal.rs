//! Keeps the log and its snapshots on a disk: opens, appends groups, folds the log into snapshots.
//!
//! A monitor has most to say when its host is full: that OSDs are full, so that clients wait. It often shares that host
//! with them. So space is claimed before it is needed, by writing zeros: behind the log's end, and in the other area
//! for the next snapshot and a log behind it. When nothing more can be claimed, the log is folded as soon as it has
//! used up its claim, and goes on in the other area, for as long as the state does not outgrow them.

use super::format::{
    AREAS_AT, BLOCK, GROUP_HEAD, Group, MARKS_BYTES, SLOT, Slot, Snapshot, Super, VERSION, check_snapshot, is_zero,
    read_snapshot, replay, version_at,
};
use super::v1;
use bytes::Bytes;
use denc::{Encode, index};
use node::{Buf, DeviceId, DiskDone, DiskError, DiskOp, DiskOutput, DiskRequest, DiskStat, Mono, Now, Output, Outputs, Token};
use quorum::{Index, Write};
use std::collections::VecDeque;
use std::time::Duration;
use types::Rope;
use types::level::Level;

/// Bytes of one area on a file that may grow; only what is written takes space.
pub(crate) const AREA_BYTES: u64 = 256 << 20;
/// Log bytes after which a snapshot is due, if the configuration does not say.
const LOG_BYTES: u64 = 8 << 20;
/// Most bytes that the log may run over that before the snapshot is made: one group, with a large entry.
const LOG_SLACK: u64 = 24 << 20;
/// Bytes of the log that are read at once.
const LOG_PIECE: u64 = 1 << 20;
/// Bytes that a group takes beside its entries, at most.
const GROUP_SLACK: u64 = (GROUP_HEAD + MARKS_BYTES) as u64;
/// Pause before a write that found no space is tried again.
const RETRY: Duration = Duration::from_secs(1);
/// Bytes that are claimed behind the log's end: a group with as much as one may carry, or some hundred small ones.
const RESERVE: u64 = 5 << 18;
/// Claimed again when less than this is left.
const RESERVE_LOW: u64 = RESERVE / 2;
/// Pause before more is claimed after the file system had nothing to give.
const CLAIM_AGAIN: Duration = Duration::from_secs(10);
/// Interval at which the disk's sizes are asked for.
const STAT_EVERY: Duration = Duration::from_secs(2);
/// The token of that question, which may be asked while anything else is under way.
const STATS: Token = Token(1 << 55);

/// Result of what was asked.
#[derive(Debug)]
pub(crate) enum Event {
    /// The disk has never been used. The owner writes the first snapshot.
    Fresh,
    /// The disk was read. If `torn`, the owner must write a snapshot before it appends.
    Opened {
        /// The state, and what the voter knows after the last group.
        snapshot: Snapshot,
        /// A cut-off write follows the last group.
        torn: bool,
    },
    /// The disk has a store of version 1. The owner must write a snapshot before it appends; until that is in force,
    /// the store is of version 1.
    Old {
        /// Entries up to this one are in the state.
        index: Index,
        /// The state.
        state: Bytes,
        /// Entries after it.
        entries: Vec<v1::Entry>,
    },
    /// The group is durable.
    Persisted,
    /// The snapshot is in force.
    Snapshotted,
    /// The disk is out of space; the write is tried again.
    NoSpace,
    /// Cannot go on.
    Failed(String),
}

#[derive(Debug)]
enum Phase {
    Stat,
    Supers,
    Snapshot(Super),
    Log(Super, Bytes, LogRead),
    /// A flush: what was read may be the last write of a process that was killed, which is in the kernel's memory only.
    Settling(Event),
    /// Waits for the owner: a first snapshot, an append, another snapshot.
    Idle,
    Appending {
        crc: u32,
        len: u64,
    },
    /// The snapshot's bytes, then its superblock.
    Writing(Super),
    Flipping(Super),
    /// Zeros.
    Claiming(Claim),
    Dead,
}

/// The log as far as it is read.
#[derive(Debug)]
struct LogRead {
    /// All up to the last piece that is not zeros only: most of what may hold a log never did.
    bytes: Vec<u8>,
    /// Bytes behind the snapshot that were read, and are to be read.
    at: u64,
    len: u64,
}

/// Space to be had before it is needed.
#[derive(Clone, Copy, Debug)]
enum Claim {
    /// The slot of the next superblock, which was never written.
    Slot,
    /// An area, up to this one of its bytes.
    Area { area: usize, to: u64 },
}

/// The disk under the log.
#[derive(Debug)]
pub struct Journal {
    device: DeviceId,
    fsid: [u8; 16],
    log_bytes: u64,
    phase: Phase,
    stat: DiskStat,
    sb: Option<Super>,
    /// Bytes of the log that are written.
    used: u64,
    last_crc: u32,
    tokens: u64,
    retry: Option<(Mono, u64, Rope)>,
    in_flight: Option<(u64, Rope)>,
    /// A superblock slot was never written.
    slot_missing: bool,
    /// Bytes of each area, from its beginning, for which the file system has given space.
    claimed: [u64; 2],
    /// The last claim found no space.
    short: bool,
    /// Nothing is claimed before this.
    claim_at: Mono,
    /// Time when the disk's sizes are asked for again.
    stat_at: Mono,
    events: VecDeque<Event>,
}

impl Journal {
    /// A journal on `device` of cluster `fsid`; `log_bytes` 0 means the default.
    pub(crate) fn new(device: DeviceId, fsid: [u8; 16], log_bytes: u64) -> Self {
        let log_bytes = if log_bytes == 0 { LOG_BYTES } else { log_bytes };
        Self {
            device,
            fsid,
            log_bytes,
            phase: Phase::Stat,
            stat: DiskStat::default(),
            sb: None,
            used: 0,
            last_crc: 0,
            tokens: 0,
            retry: None,
            in_flight: None,
            slot_missing: false,
            claimed: [0; 2],
            short: false,
            claim_at: Mono(0),
            stat_at: Mono(0),
            events: VecDeque::new(),
        }
    }

    /// Begins to read the disk.
    pub fn open(&mut self, out: &mut Outputs) {
        self.request(DiskOp::Stat, out);
    }

    /// The next event.
    pub(crate) fn poll(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Returns true if an append or a snapshot may be given now.
    pub fn is_idle(&self) -> bool {
        matches!(self.phase, Phase::Idle)
    }

    /// Returns true if the log is to be folded before a group of `next` bytes is written: it is long enough, or there
    /// is no room.
    pub(crate) fn wants_snapshot(&self, next: usize) -> bool {
        let Some(sb) = &self.sb else { return false };
        let end = self.log_end(sb) + (next as u64 + GROUP_SLACK).next_multiple_of(BLOCK as u64);
        let room = if self.short { self.claimed[sb.area()] } else { sb.area_bytes };
        self.used > 0 && (self.used >= self.log_bytes || end > room)
    }

    /// Returns where the log ends, from the beginning of its area.
    fn log_end(&self, sb: &Super) -> u64 {
        sb.log_at() - sb.area_at() + self.used
    }

    /// Returns what is to be claimed next.
    fn unclaimed(&self, sb: &Super) -> Option<Claim> {
        if self.slot_missing {
            return Some(Claim::Slot);
        }
        let (area, other) = (sb.area(), 1 - sb.area());
        let end = self.log_end(sb);
        // The next snapshot may be larger.
        let next = 2 * sb.snapshot_len.next_multiple_of(BLOCK as u64);
        [(area, end + RESERVE_LOW, end + RESERVE), (other, next + RESERVE, next + RESERVE)]
            .into_iter()
            .map(|(area, least, to)| (area, least.min(sb.area_bytes), to.min(sb.area_bytes)))
            .find_map(|(area, least, to)| (self.claimed[area] < least).then_some(Claim::Area { area, to }))
    }

    /// Claims space, if that is due and nothing else is under way. Not before the owner has taken up what was read: it
    /// may have to write a snapshot first.
    pub fn claim(&mut self, now: Now, out: &mut Outputs) {
        if self.claim_at == Mono::NEVER {
            self.claim_at = now.mono.plus(CLAIM_AGAIN);
        }
        if !self.is_idle() || self.retry.is_some() || now.mono < self.claim_at {
            return;
        }
        let Some(sb) = &self.sb else { return };
        let Some(claim) = self.unclaimed(sb) else { return };
        let (offset, bytes) = match claim {
            Claim::Slot => (sb.other_slot_at(), SLOT as u64),
            Claim::Area { area, to } => {
                // What the log holds is never written over, whatever is known of its claim.
                let from = if area == sb.area() { self.claimed[area].max(self.log_end(sb)) } else { self.claimed[area] };
                (sb.start_of(area) + from, to - from)
            }
        };
        let mut data = Rope::new();
        data.push_zeros(index(bytes));
        self.phase = Phase::Claiming(claim);
        self.request(DiskOp::Write { offset, data, durable: true }, out);
    }

    /// Returns true if a write found no space and is to be tried again.
    pub fn waits_for_space(&self) -> bool {
        self.retry.is_some()
    }

    /// Returns when a write is tried again.
    pub fn deadline(&self) -> Mono {
        self.retry.as_ref().map_or(Mono::NEVER, |(at, ..)| *at)
    }

    /// Asks for the disk's sizes now and then, for [`Self::space`].
    pub fn ask_sizes(&mut self, now: Now, out: &mut Outputs) {
        if now.mono < self.stat_at {
            return;
        }
        self.stat_at = now.mono.plus(STAT_EVERY);
        out.push(Output::Disk(DiskRequest { token: STATS, device: self.device, op: DiskOp::Stat }));
    }

    /// Bytes that the disk can still take, and its size, as last told.
    pub fn space(&self) -> DiskStat {
        self.stat
    }

    /// Returns the bytes of one area, which the state and the log behind it must fit; 0 before the disk is read.
    pub fn area(&self) -> u64 {
        self.sb.as_ref().map_or(0, |sb| sb.area_bytes)
    }

    /// Writes a group. Only when idle, after the disk was opened.
    pub(crate) fn append(&mut self, write: Write, out: &mut Outputs) {
        assert!(self.is_idle());
        let sb = self.sb.as_ref().expect("an opened journal has a superblock");
        assert!(sb.version >= VERSION, "an old store is replaced before anything is appended");
        let group = Group { generation: sb.generation, previous: self.last_crc, at: self.used, write };
        let (bytes, crc) = group.to_blocks(&self.fsid);
        let at = sb.log_at() + self.used;
        if at + bytes.len() as u64 > sb.area_at() + sb.area_bytes {
            return self.wait_for_ever(Phase::Appending { crc, len: 0 });
        }
        self.phase = Phase::Appending { crc, len: bytes.len() as u64 };
        self.write(at, aligned(&bytes), out);
    }

    /// Returns true if the store is marked for a cluster of this level; the next snapshot marks it.
    pub(crate) fn is_marked(&self, level: Level) -> bool {
        self.sb.as_ref().is_none_or(|sb| sb.version >= version_at(level))
    }

    /// Writes the state, of this level, and what stands beside it; the log begins anew behind it. Only when idle.
    pub(crate) fn snapshot(&mut self, snapshot: &Snapshot, level: Level, out: &mut Outputs) {
        assert!(self.is_idle());
        let bytes: Vec<u8> = snapshot.to_vec();
        let generation = self.sb.as_ref().map_or(0, |sb| sb.generation + 1);
        let area_bytes = self.sb.as_ref().map_or_else(|| self.area_bytes(), |sb| sb.area_bytes);
        let sb = Super {
            version: version_at(level),
            fsid: self.fsid,
            generation,
            area_bytes,
            snapshot_len: bytes.len() as u64,
            snapshot_crc: kernels::crc32c(kernels::SEED, &bytes),
            snapshot_index: snapshot.saved.base.at.index,
        };
        if (bytes.len() as u64).next_multiple_of(BLOCK as u64) + BLOCK as u64 > area_bytes {
            if self.sb.is_some() {
                return self.wait_for_ever(Phase::Writing(sb));
            }
            return self.fail(format!(
                "the monitor's store is too small: its state takes {} bytes, an area has {area_bytes}",
                bytes.len()
            ));
        }
        let at = sb.area_at();
        self.phase = Phase::Writing(sb);
        self.write(at, aligned(&bytes), out);
    }

    /// Tries a write again that found no space.
    pub fn turn(&mut self, now: Now, out: &mut Outputs) {
        if let Some((at, offset, data)) = self.retry.take() {
            if at == Mono(0) {
                self.retry = Some((now.mono.plus(RETRY), offset, data));
            } else if at <= now.mono {
                self.write(offset, data, out);
            } else {
                self.retry = Some((at, offset, data));
            }
        }
    }

    /// A disk request ended.
    pub(crate) fn disk_done(&mut self, done: DiskDone, out: &mut Outputs) {
        if done.token == STATS {
            if let Ok(DiskOutput::Stat(stat)) = done.result {
                self.stat = stat;
            }
            return;
        }
        if done.token != Token(self.tokens) {
            return;
        }
        let result = match done.result {
            Ok(output) => {
                self.in_flight = None;
                self.advance(output, out)
            }
            Err(DiskError::NoSpace) if self.in_flight.is_some() => {
                if let Some((offset, data)) = self.in_flight.take() {
                    self.retry = Some((Mono(0), offset, data));
                }
                self.events.push_back(Event::NoSpace);
                Ok(())
            }
            Err(DiskError::NoSpace) if matches!(self.phase, Phase::Claiming(_)) => {
                self.phase = Phase::Idle;
                self.short = true;
                self.claim_at = Mono::NEVER;
                Ok(())
            }
            Err(DiskError::NoSpace) => Err("the monitor's disk has no space".into()),
            Err(DiskError::Io(errno)) => Err(format!("the monitor's disk fails: error {errno}")),
        };
        if let Err(why) = result {
            self.fail(why);
        }
    }

    fn advance(&mut self, output: DiskOutput, out: &mut Outputs) -> Result<(), String> {
        match (std::mem::replace(&mut self.phase, Phase::Dead), output) {
            (Phase::Stat, DiskOutput::Stat(stat)) => self.sized(stat, out),
            (Phase::Supers, DiskOutput::Read(buf)) => self.take_supers(&buf, out)?,
            (Phase::Snapshot(sb), DiskOutput::Read(buf)) => {
                let snapshot = check_snapshot(&sb, &buf[..index(sb.snapshot_len)])?;
                self.read_log(sb, snapshot, out)?;
            }
            (Phase::Log(sb, snapshot, mut log), DiskOutput::Read(buf)) => {
                if !is_zero(&buf) {
                    log.bytes.resize(index(log.at), 0);
                    log.bytes.extend_from_slice(&buf);
                }
                log.at += buf.len() as u64;
                self.read_piece(sb, snapshot, log, out)?;
            }
            (Phase::Settling(event), DiskOutput::Done) => {
                self.phase = Phase::Idle;
                self.events.push_back(event);
            }
            (Phase::Appending { crc, len }, DiskOutput::Done) => {
                self.used += len;
                self.last_crc = crc;
                self.phase = Phase::Idle;
                self.note_written();
                self.events.push_back(Event::Persisted);
            }
            (Phase::Writing(sb), DiskOutput::Done) => {
                let (at, block) = (sb.slot_at(), sb.to_slot());
                self.phase = Phase::Flipping(sb);
                self.write(at, aligned(&block), out);
            }
            (Phase::Flipping(sb), DiskOutput::Done) => {
                self.last_crc = sb.snapshot_crc;
                self.slot_missing = sb.generation == 0;
                self.used = 0;
                self.sb = Some(sb);
                self.phase = Phase::Idle;
                self.note_written();
                self.events.push_back(Event::Snapshotted);
            }
            (Phase::Claiming(claim), DiskOutput::Done) => {
                match claim {
                    Claim::Slot => self.slot_missing = false,
                    Claim::Area { area, to } => self.claimed[area] = to,
                }
                self.short = false;
                self.phase = Phase::Idle;
            }
            (phase, output) => return Err(format!("the monitor's disk answered {output:?} in {phase:?}")),
        }
        Ok(())
    }

    /// The file system has given space for what is written.
    fn note_written(&mut self) {
        let Some(sb) = &self.sb else { return };
        let (area, end) = (sb.area(), self.log_end(sb));
        self.claimed[area] = self.claimed[area].max(end);
    }

    fn sized(&mut self, stat: DiskStat, out: &mut Outputs) {
        self.stat = stat;
        if stat.len < AREAS_AT {
            self.phase = Phase::Idle;
            return self.events.push_back(Event::Fresh);
        }
        self.phase = Phase::Supers;
        self.request(DiskOp::Read { offset: 0, buf: Buf::new(index(AREAS_AT)) }, out);
    }

    fn take_supers(&mut self, blocks: &[u8], out: &mut Outputs) -> Result<(), String> {
        let slots = [Super::from_slot(&blocks[..SLOT]), Super::from_slot(&blocks[SLOT..])];
        if let Some(Slot::Newer(version)) = slots.iter().find(|s| matches!(s, Slot::Newer(_))) {
            return Err(format!(
                "the monitor's store has format version {version}, this program knows versions up to {}",
                super::format::NEWEST
            ));
        }
        self.slot_missing = slots.contains(&Slot::Empty);
        let newest =
            slots.iter().filter_map(|s| if let Slot::Valid(sb) = s { Some(sb) } else { None }).max_by_key(|sb| sb.generation);
        let Some(sb) = newest.cloned() else {
            if slots.contains(&Slot::Broken) && slots[0] != Slot::Broken {
                return Err("the monitor's store has no readable superblock".into());
            }
            if slots[0] == Slot::Broken && !is_zero(&blocks[SLOT..]) {
                return Err("the monitor's disk holds something that is not a monitor's store".into());
            }
            if slots[0] == Slot::Broken && !Super::is_torn(&blocks[..SLOT]) {
                return Err("the monitor's first superblock is damaged, or its disk holds something else".into());
            }
            // Nothing, or the torn first superblock of a store that never came to be.
            self.phase = Phase::Idle;
            self.events.push_back(Event::Fresh);
            return Ok(());
        };
        if sb.fsid != self.fsid {
            let (found, wanted) = (types::Fsid(sb.fsid), types::Fsid(self.fsid));
            return Err(format!("the monitor's store belongs to cluster {found}, not to {wanted}"));
        }
        if sb.snapshot_len == 0 {
            return Err("the monitor's superblock names an empty snapshot".into());
        }
        let len = index(sb.snapshot_len).next_multiple_of(BLOCK);
        let offset = sb.area_at();
        if offset.saturating_add(len as u64) > self.stat.len.next_multiple_of(BLOCK as u64) {
            return Err(format!(
                "the monitor's store is cut off: its snapshot should end at byte {}, the store ends at {}",
                offset + len as u64,
                self.stat.len
            ));
        }
        self.phase = Phase::Snapshot(sb);
        self.request(DiskOp::Read { offset, buf: Buf::new(len) }, out);
        Ok(())
    }

    fn read_log(&mut self, sb: Super, snapshot: Bytes, out: &mut Outputs) -> Result<(), String> {
        let offset = sb.log_at();
        let end = self.stat.len.min(sb.area_at() + sb.area_bytes) / BLOCK as u64 * BLOCK as u64;
        let len = end.saturating_sub(offset).min(self.log_bytes + LOG_SLACK);
        self.read_piece(sb, snapshot, LogRead { bytes: Vec::new(), at: 0, len }, out)
    }

    /// Reads the log's next piece, or takes up what was read.
    fn read_piece(&mut self, sb: Super, snapshot: Bytes, log: LogRead, out: &mut Outputs) -> Result<(), String> {
        let len = (log.len - log.at).min(LOG_PIECE);
        if len == 0 {
            return self.replayed(sb, snapshot, &log.bytes, out);
        }
        let offset = sb.log_at() + log.at;
        self.phase = Phase::Log(sb, snapshot, log);
        self.request(DiskOp::Read { offset, buf: Buf::new(index(len)) }, out);
        Ok(())
    }

    /// The log is read: nobody hears of what is in it before it is surely on the disk.
    fn replayed(&mut self, sb: Super, snapshot: Bytes, log: &[u8], out: &mut Outputs) -> Result<(), String> {
        let event = if sb.version < VERSION {
            let (entries, end, _) = v1::replay(&sb, log)?;
            self.used = end as u64;
            Event::Old { index: sb.snapshot_index, state: snapshot, entries }
        } else {
            let mut snapshot = read_snapshot(&sb, &snapshot)?;
            let replayed = replay(&sb, snapshot.saved, log)?;
            (self.used, self.last_crc) = (replayed.end as u64, replayed.last_crc);
            snapshot.saved = replayed.saved;
            Event::Opened { snapshot, torn: replayed.torn }
        };
        self.phase = Phase::Settling(event);
        self.sb = Some(sb);
        self.note_written();
        self.request(DiskOp::Flush, out);
        Ok(())
    }

    /// Two areas share what the disk can hold.
    fn area_bytes(&self) -> u64 {
        let capacity = if self.stat.capacity == 0 { u64::MAX } else { self.stat.capacity };
        (capacity.saturating_sub(AREAS_AT) / 2).min(AREA_BYTES) / BLOCK as u64 * BLOCK as u64
    }

    fn write(&mut self, offset: u64, data: Rope, out: &mut Outputs) {
        self.in_flight = Some((offset, data.clone()));
        self.request(DiskOp::Write { offset, data, durable: true }, out);
    }

    /// Gives up what is to be written: it does not fit the area and never will. The monitor is as one whose host is full: it answers
    /// what reads, and tells.
    fn wait_for_ever(&mut self, phase: Phase) {
        self.phase = phase;
        self.retry = Some((Mono::NEVER, 0, Rope::new()));
        self.events.push_back(Event::NoSpace);
    }

    fn request(&mut self, op: DiskOp, out: &mut Outputs) {
        self.tokens += 1;
        out.push(Output::Disk(DiskRequest { token: Token(self.tokens), device: self.device, op }));
    }

    fn fail(&mut self, why: String) {
        self.phase = Phase::Dead;
        self.events.push_back(Event::Failed(why));
    }
}

/// The bytes at an aligned address, padded to whole blocks.
fn aligned(bytes: &[u8]) -> Rope {
    let mut buf = Buf::zeroed(bytes.len().next_multiple_of(BLOCK).max(BLOCK));
    buf[..bytes.len()].copy_from_slice(bytes);
    buf.freeze().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorum::{Entry, Hard, Kind, Position, Saved, VoterId};

    /// An opened journal whose area has four blocks, one of them taken by the state.
    fn small() -> Journal {
        let mut journal = Journal::new(DeviceId(0), [7; 16], 0);
        journal.phase = Phase::Idle;
        journal.sb = Some(Super {
            version: VERSION,
            fsid: [7; 16],
            generation: 0,
            area_bytes: 4 * BLOCK as u64,
            snapshot_len: 100,
            snapshot_crc: 0,
            snapshot_index: 1,
        });
        journal
    }

    fn waits(journal: &mut Journal, out: &mut Outputs) {
        assert!(matches!(journal.poll(), Some(Event::NoSpace)) && journal.poll().is_none());
        assert!(journal.waits_for_space() && !journal.is_idle() && journal.deadline() == Mono::NEVER);
        journal.turn(Now { mono: Mono(1 << 60), ..Now::default() }, out);
        assert!(out.0.is_empty(), "nothing is written: {:?}", out.0);
    }

    #[test]
    fn what_does_not_fit_the_area_is_no_end_of_the_monitor() {
        let (mut journal, mut out) = (small(), Outputs::default());
        let entry = Entry { index: 2, term: 1, kind: Kind::Command, data: vec![1; 4 * BLOCK].into() };
        journal.append(Write { hard: Hard::default(), commit: 1, cut_from: None, entries: vec![entry], marks: None }, &mut out);
        waits(&mut journal, &mut out);

        let mut journal = small();
        let saved = Saved::alone(VoterId(1), Position { term: 1, index: 2 });
        let snapshot = Snapshot { voter: VoterId(1), saved, state: vec![1; 4 * BLOCK].into() };
        journal.snapshot(&snapshot, Level::FIRST, &mut out);
        waits(&mut journal, &mut out);
    }
}
