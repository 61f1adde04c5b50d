//! The journal: a ring of groups of records. `docs/format/store.md` has the layout in section 3 and the order of writes in section 5.
//!
//! [`Journal`] knows where groups go, in which order they become durable, and where the data of records is. It does no input or
//! output: the store hands groups to the disk and tells when they are written.

#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss))]

pub(crate) mod group;
mod records;
mod ring;
pub(crate) mod staged;

use crate::block::BLOCK;
use crate::checked::Checked;
use crate::superblock::Superblock;
use bytes::Bytes;
use denc::index;
use group::{Header, Outgoing};
use node::Mono;
use objectstore::Ticket;
use records::Records;
use ring::{Mark, Ring};
use staged::Staged;
use std::collections::VecDeque;

/// Groups in flight at most.
const FLIGHTS: usize = 2;
/// A group takes no more records when it has this many bytes.
const GROUP: usize = 1 << 20;
/// Bytes that are written ahead in the ring at a time.
pub(crate) const CLAIM: u64 = 4 << 20;

/// A record that goes into a group.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) seq: u64,
    /// Its head and its changes, encoded.
    pub(crate) meta: Bytes,
    /// Blocks of data that go into the group with it.
    pub(crate) blocks: u32,
    pub(crate) ticket: Ticket,
    pub(crate) submitted: Mono,
}

/// A group that is to be written.
#[derive(Debug)]
pub(crate) struct Formed {
    pub(crate) lsn: u64,
    pub(crate) bytes: Bytes,
}

/// A group in flight.
#[derive(Debug)]
struct Flight {
    lsn: u64,
    done: bool,
    commits: Vec<(Ticket, Mono)>,
    /// Records, and where in the ring their data is.
    records: Vec<(u64, u64)>,
}

/// The place behind the last group that was formed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    mark: Mark,
    /// Number of the group.
    pub(crate) lsn: u64,
    /// Checksum of its header.
    pub(crate) chain: u32,
}

impl End {
    /// The block of the ring where the next group goes, if it fits there.
    pub(crate) fn at(&self) -> u64 {
        self.mark.at
    }
}

/// What is known of the journal. All positions are blocks from the ring's start.
#[derive(Debug)]
pub(crate) struct Journal {
    ring: Ring,
    records: Records,
    /// Last group formed, and its header's checksum.
    lsn: u64,
    chain: u32,
    /// Last group known durable, with all before it.
    durable: u64,
    flights: VecDeque<Flight>,
    /// True if a part of the ring is being written ahead.
    claiming: bool,
}

impl Journal {
    /// A journal of which nothing is known.
    pub(crate) fn unknown() -> Self {
        Self::of(&Superblock::default())
    }

    /// The journal behind the checkpoint that a superblock tells of; replay fills it.
    pub(crate) fn of(sb: &Superblock) -> Self {
        Self {
            ring: Ring::new(sb.ring_len, sb.claimed, sb.replay_at),
            records: Records::new(sb.next_seq),
            lsn: sb.replay_lsn,
            chain: sb.replay_chain,
            durable: sb.replay_lsn,
            flights: VecDeque::new(),
            claiming: false,
        }
    }

    /// Number of the last group formed or replayed.
    pub(crate) fn lsn(&self) -> u64 {
        self.lsn
    }

    /// The place behind the last group.
    pub(crate) fn end(&self) -> End {
        End { mark: self.ring.mark(), lsn: self.lsn, chain: self.chain }
    }

    /// Returns true if no group is in flight.
    pub(crate) fn is_quiet(&self) -> bool {
        self.flights.is_empty()
    }

    /// Blocks of the ring that can be used, now or soon.
    pub(crate) fn size(&self) -> u64 {
        self.ring.size()
    }

    /// Blocks of the ring that are in use.
    pub(crate) fn used(&self) -> u64 {
        self.ring.used()
    }

    /// Most bytes of a group that has more than one record.
    pub(crate) fn largest_group(&self) -> usize {
        GROUP.min(index(self.ring.size()) * BLOCK / 8)
    }
}

/// Groups on their way to the disk.
impl Journal {
    /// Returns true if another group may be formed.
    pub(crate) fn takes_groups(&self) -> bool {
        self.flights.len() < FLIGHTS
    }

    /// Room for a group of `blocks` blocks. `None` if the ring has none now.
    pub(crate) fn reserve(&mut self, blocks: u64) -> Option<u64> {
        self.ring.place(blocks)
    }

    /// Takes the data of a record that goes into some later group; none if its data has a place of its own.
    pub(crate) fn push(&mut self, seq: u64, data: Staged, cold: bool) {
        self.records.push(seq, data, cold);
    }

    /// Forms the next group, which goes to block `at` that was reserved for it.
    pub(crate) fn form(&mut self, sb: &Superblock, at: u64, members: Vec<Member>) -> Formed {
        let outgoing: Vec<Outgoing> = members
            .iter()
            .map(|member| Outgoing { meta: member.meta.clone(), data: self.records.outgoing(member.seq) })
            .collect();
        let mut header = Header {
            version: sb.version,
            uuid: sb.uuid,
            incarnation: sb.incarnation,
            lsn: self.lsn + 1,
            chain: self.chain,
            durable: self.durable,
            ..Header::default()
        };
        let (buf, starts) = group::build(&mut header, &outgoing);
        assert_eq!(buf.len() as u64, header.blocks() * BLOCK as u64);
        let bytes = buf.freeze();
        (self.lsn, self.chain) = (header.lsn, header.crc);
        let mut flight = Flight { lsn: header.lsn, done: false, commits: Vec::with_capacity(members.len()), records: Vec::new() };
        // Data of the group that is in memory keeps all of the group there. It goes in the order of the records.
        let last = members.iter().filter(|member| member.blocks > 0).map(|member| member.seq).max();
        let beside = bytes.len() - members.iter().map(|member| member.blocks as usize * BLOCK).sum::<usize>();
        for (member, start) in members.iter().zip(starts) {
            let from = index(start) * BLOCK;
            let beside = if last == Some(member.seq) { beside } else { 0 };
            self.records.formed(member.seq, bytes.slice(from..from + member.blocks as usize * BLOCK), beside);
            flight.commits.push((member.ticket, member.submitted));
            flight.records.push((member.seq, at + start));
        }
        self.flights.push_back(flight);
        Formed { lsn: header.lsn, bytes }
    }

    /// Notes that a group is written. It is durable when all before it are: [`Self::next_durable`].
    pub(crate) fn written(&mut self, lsn: u64) {
        if let Some(flight) = self.flights.iter_mut().find(|f| f.lsn == lsn) {
            flight.done = true;
        }
    }

    /// The commits of the next group that is durable with all before it.
    pub(crate) fn next_durable(&mut self) -> Option<Vec<(Ticket, Mono)>> {
        let flight = self.flights.pop_front_if(|flight| flight.done)?;
        self.durable = flight.lsn;
        flight.records.into_iter().for_each(|(seq, at)| self.records.placed(seq, at));
        Some(flight.commits)
    }

    /// A mistake to be found: groups count as durable in the order in which their writes end.
    #[cfg(test)]
    pub(crate) fn forget_order(&mut self) {
        self.flights.make_contiguous().sort_by_key(|f| (!f.done, f.lsn));
    }

    /// Forgets what a checkpoint made superfluous: groups before its end, and records before `seq`.
    pub(crate) fn trim(&mut self, end: &End, seq: u64) {
        self.ring.trim(end.mark);
        self.records.trim(seq);
    }
}

/// The part of the ring that was written once, so that groups go where the file system below has nothing left to decide.
impl Journal {
    /// Blocks from the ring's start that were written once.
    pub(crate) fn claimed(&self) -> u64 {
        self.ring.claimed()
    }

    /// The next blocks to write zeros to: first, and number. `None` if that is done, or in flight.
    pub(crate) fn claim_next(&mut self) -> Option<(u64, u64)> {
        let blocks = (self.ring.len() - self.ring.claimed()).min(CLAIM / BLOCK as u64);
        if self.claiming || blocks == 0 {
            return None;
        }
        self.claiming = true;
        Some((self.ring.claimed(), blocks))
    }

    /// So many more blocks are written ahead.
    pub(crate) fn claim_written(&mut self, blocks: u64) {
        self.claiming = false;
        self.ring.claim(blocks);
    }

    /// There was no space: the ring goes on in the part that exists.
    pub(crate) fn claim_refused(&mut self) {
        self.claiming = false;
        self.ring.settle_for_claimed();
    }

    /// Returns true if the ring is written to its end.
    pub(crate) fn is_claimed(&self) -> bool {
        self.ring.claimed() == self.ring.len()
    }
}

/// Where the data of records is.
impl Journal {
    /// A block of a record, if it is in memory.
    pub(crate) fn block(&self, seq: u64, index: u32) -> Option<Checked> {
        self.records.get(seq, index)
    }

    /// Returns true if a record's data need not stay in memory when it is in its place.
    pub(crate) fn is_cold(&self, seq: u64) -> bool {
        self.records.is_cold(seq)
    }

    /// First block in the ring and number of blocks of a record's data, once its group is written.
    pub(crate) fn location(&self, seq: u64) -> Option<(u64, u32)> {
        self.records.location(seq)
    }

    /// Returns true if the record is remembered.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn knows(&self, seq: u64) -> bool {
        self.records.knows(seq)
    }

    /// Bytes of memory that data takes, with all of the groups that it is a part of, and where it is found.
    pub(crate) fn bytes(&self) -> usize {
        self.records.bytes() + self.beside()
    }

    /// Bytes of these that are no data.
    pub(crate) fn beside(&self) -> usize {
        self.records.beside() + self.records.table()
    }

    /// Keeps data in memory that takes at most `limit` bytes, the newest. What is not in the ring stays.
    pub(crate) fn thin(&mut self, limit: usize) {
        self.records.thin(limit);
    }
}

/// Replay.
impl Journal {
    /// Returns true if a group that was found is the next one.
    pub(crate) fn follows(&self, header: &Header) -> bool {
        header.lsn == self.lsn + 1 && header.chain == self.chain
    }

    /// The next group was found at block `at`.
    pub(crate) fn found(&mut self, at: u64, header: &Header) {
        debug_assert!(self.follows(header));
        self.ring.found(at, header.blocks());
        (self.lsn, self.chain, self.durable) = (header.lsn, header.crc, header.lsn);
    }

    /// A record of it was found, with its data at block `at`.
    pub(crate) fn found_record(&mut self, seq: u64, at: u64, blocks: u32) {
        self.records.found(seq, at, blocks);
    }

    /// Nothing more was found. Records up to `next` that were not found never were.
    pub(crate) fn all_found(&mut self, next: u64) {
        self.records.fill(next);
    }
}

/// What always holds.
#[cfg(any(test, feature = "sim"))]
impl Journal {
    /// Groups become durable in their order.
    ///
    /// # Errors
    /// A sentence that says what does not hold.
    pub(crate) fn self_check(&self) -> Result<(), String> {
        let flights: Vec<u64> = self.flights.iter().map(|flight| flight.lsn).collect();
        if flights == (self.durable + 1..=self.lsn).collect::<Vec<_>>() {
            return Ok(());
        }
        Err(format!("groups {flights:?} are in flight, {} is durable and {} the last formed", self.durable, self.lsn))
    }
}
