//! Replay applies the journal behind the checkpoint, and makes sure that nothing durable is missing from it.

use crate::block::{BLOCK, MOST_SEQ, Where};
use crate::config::OpenError;
use crate::journal::group::{self, Header, Replayed};
use crate::opening::Replay;
use crate::store::Store;
use bytes::Bytes;
use kernels::{SEED, crc32c};

/// Blocks of one read.
const WINDOW: u64 = 256;
/// How often the journal's end is read at most until two reads agree.
const MOST_LOOKS: u32 = 16;

impl Store {
    /// Goes on with what was read. True: all is replayed.
    pub(super) fn replay_more(&mut self, r: &mut Replay, read: Option<Bytes>) -> Result<bool, OpenError> {
        if let Some(bytes) = read {
            r.window.1 = bytes;
        }
        while r.scan.is_none() {
            match self.next_group(r)? {
                Next::Applied => (),
                Next::Read(at, n) => {
                    self.read_ring(r, at, n);
                    return Ok(false);
                }
                Next::End => self.end_seen(r)?,
            }
        }
        while let Some(at) = r.scan.filter(|at| *at < r.limit) {
            let n = WINDOW.min(r.limit - at);
            let Some(bytes) = r.blocks(at, n) else {
                self.read_ring(r, at, n);
                return Ok(false);
            };
            for (i, block) in bytes.chunks_exact(BLOCK).enumerate() {
                if let Some(header) = Header::parse(block, &self.sb.uuid) {
                    r.stated = r.stated.max((header.durable, at + i as u64));
                }
            }
            r.scan = Some(at + n);
        }
        if r.stated.0 > self.journal.lsn() {
            let (durable, at) = r.stated;
            return Err(OpenError::Corrupt(format!(
                "journal: group {} is missing or broken, but the group at block {at} of the ring says that all up to {durable} were durable",
                self.journal.lsn() + 1
            )));
        }
        self.journal.all_found(self.pipeline.next());
        Ok(true)
    }

    /// Notes that no group follows, as far as the last read tells.
    fn end_seen(&mut self, r: &mut Replay) -> Result<(), OpenError> {
        let looked = std::mem::replace(&mut r.looked, SEED);
        r.at = r.wrapped.take().unwrap_or(r.at);
        // The next read must not use what was read for this.
        r.window = (0, Bytes::new());
        if r.end.replace(looked) == Some(looked) {
            r.scan = Some(0);
        }
        r.looks += 1;
        if r.scan.is_none() && r.looks >= MOST_LOOKS {
            let at = (self.sb.ring_start + r.at) * BLOCK as u64;
            return Err(OpenError::Disk(format!(
                "each of {MOST_LOOKS} reads of the journal's end, at byte {at}, gave something else"
            )));
        }
        Ok(())
    }

    fn read_ring(&mut self, r: &mut Replay, at: u64, n: u64) {
        r.window = (at, Bytes::new());
        self.open_read_raw(self.ring_device(), self.sb.ring_start + at, n);
    }

    fn next_group(&mut self, r: &mut Replay) -> Result<Next, OpenError> {
        let whole = if r.at < r.limit {
            let Some(head) = r.blocks(r.at, 1) else { return Ok(Next::Read(r.at, WINDOW.min(r.limit - r.at))) };
            let mut looked = head.clone();
            let whole = match Header::parse(&head, &self.sb.uuid).filter(|h| self.follows(r, h)) {
                None => None,
                Some(header) if r.at + header.blocks() > r.limit => None,
                Some(header) => match r.blocks(r.at, header.blocks()) {
                    None => return Ok(Next::Read(r.at, header.blocks().max(WINDOW.min(r.limit - r.at)))),
                    Some(bytes) => {
                        looked = bytes.clone();
                        group::parse(&header, &bytes).map(|records| (header, records))
                    }
                },
            };
            if whole.is_none() {
                r.looked = crc32c(r.looked, &looked);
            }
            whole
        } else {
            None
        };
        match whole {
            Some((header, records)) => {
                self.journal.found(r.at, &header);
                for record in records {
                    self.replay_record(r.at, record)?;
                }
                r.incarnation = header.incarnation;
                (r.at, r.wrapped) = (r.at + header.blocks(), None);
                (r.end, r.looked, r.looks) = (None, SEED, 0);
                Ok(Next::Applied)
            }
            None if r.wrapped.is_some() || r.at == 0 => Ok(Next::End),
            None => {
                (r.at, r.wrapped) = (0, Some(r.at));
                Ok(Next::Applied)
            }
        }
    }

    fn follows(&self, r: &Replay, header: &Header) -> bool {
        self.journal.follows(header) && header.incarnation >= r.incarnation && header.incarnation <= self.sb.incarnation
    }

    fn replay_record(&mut self, group: u64, record: Replayed) -> Result<(), OpenError> {
        let head = record.head;
        let corrupt = |what: &str| OpenError::Corrupt(format!("journal: record {} {what}", head.seq));
        if self.sb.skipped.iter().any(|(first, n)| (*first..*first + u64::from(*n)).contains(&head.seq)) {
            return Ok(());
        }
        if head.parts != 0 {
            return Err(corrupt(&format!("has parts ({:#x}) that this program does not know", head.parts)));
        }
        if head.seq >= MOST_SEQ {
            return Err(corrupt("has a number that no store reaches"));
        }
        if head.seq < self.sb.next_seq {
            return Err(corrupt("is older than the checkpoint"));
        }
        let (space, mut fits) = (&mut self.space, true);
        let applied = self.overlay.apply(&record.body, head.next_id, |patch| {
            for (_, block) in patch.iter() {
                if let Where::Disk(at) = block.place.place() {
                    fits &= space.replayed(at);
                }
            }
        });
        applied.map_err(|e| corrupt(&e.to_string()))?;
        if !fits {
            return Err(corrupt("names blocks that the disk does not have"));
        }
        self.pipeline.found(head.seq);
        self.space.promise(head.data_blocks.into());
        self.journal.found_record(head.seq, group + record.data_at, head.data_blocks);
        Ok(())
    }
}

enum Next {
    Applied,
    Read(u64, u64),
    End,
}
