//! The bytes of one file: those that are safe, in a file of the host, and above them, in memory, those that are not.
//!
//! Safe is what a completed flush covers (all that was complete when the flush was *asked for*), and what was written
//! durably itself. A durable write covers nothing else, except the changes of the file's size and holes before it, if
//! it needs them to be found again. At a power cut each sector of 512 bytes is one of the versions that were written to
//! it since it was last safe, or the safe one.

use crate::fate::{Fate, SECTORS, Unsafe};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

const SECTOR: u64 = 512;
const BLOCK: u64 = SECTORS * SECTOR;
type Block = [u8; BLOCK as usize];

/// Some sectors of a block, as they were written once.
#[derive(Debug)]
struct Version {
    /// Number of the completion.
    seq: u64,
    /// Which write.
    write: u64,
    /// Which block of that write.
    nth: u64,
    /// Which sectors, as bits.
    sectors: u8,
    /// A hole or the cutting off of an end: it goes with the file's metadata.
    metadata: bool,
    /// The block; `None` is zeros.
    data: Option<Arc<Block>>,
}

/// A file's content.
#[derive(Debug)]
pub(crate) struct Content {
    /// What is safe. Behind its length it reads as zeros.
    safe: File,
    safe_len: u64,
    /// Changes of the length that are not safe: completion number and length, oldest first.
    lens: Vec<(u64, u64)>,
    /// Changes of the bytes that are not safe: for each block, oldest first.
    dirty: BTreeMap<u64, Vec<Version>>,
}

impl Content {
    /// Empty, and safely so, on an empty file of the host.
    pub(crate) fn new(safe: File) -> Self {
        Self { safe, safe_len: 0, lens: Vec::new(), dirty: BTreeMap::new() }
    }

    /// Length in bytes as a reader sees it.
    pub(crate) fn len(&self) -> u64 {
        self.lens.last().map_or(self.safe_len, |l| l.1)
    }

    /// Returns true if a power cut can change anything.
    pub(crate) fn is_safe(&self) -> bool {
        self.lens.is_empty() && self.dirty.is_empty()
    }

    /// Bytes from `offset`, at most `len`, up to the end.
    pub(crate) fn read(&self, offset: u64, len: u64) -> io::Result<Vec<u8>> {
        let end = offset.saturating_add(len).min(self.len());
        if offset >= end {
            return Ok(Vec::new());
        }
        let mut out = vec![0; (end - offset) as usize];
        read_or_zeros(&self.safe, &mut out, offset)?;
        for (&block, _) in self.dirty.range(offset / BLOCK..=(end - 1) / BLOCK) {
            let image = self.block(block)?;
            let (from, to) = ((block * BLOCK).max(offset), ((block + 1) * BLOCK).min(end));
            let within = (from - block * BLOCK) as usize..(to - block * BLOCK) as usize;
            out[(from - offset) as usize..(to - offset) as usize].copy_from_slice(&image[within]);
        }
        Ok(out)
    }

    /// One block as a reader sees it, zeros behind the end.
    fn block(&self, block: u64) -> io::Result<Block> {
        let mut image = [0; BLOCK as usize];
        read_or_zeros(&self.safe, &mut image, block * BLOCK)?;
        for version in self.dirty.get(&block).into_iter().flatten() {
            version.lay_over(&mut image, version.sectors);
        }
        Ok(image)
    }

    /// A write is complete. It is not safe yet.
    pub(crate) fn write(&mut self, seq: u64, write: u64, offset: u64, data: &[u8]) -> io::Result<()> {
        if data.is_empty() {
            return Ok(());
        }
        let end = offset + data.len() as u64;
        for (nth, block) in (offset / BLOCK..=(end - 1) / BLOCK).enumerate() {
            let (from, to) = ((block * BLOCK).max(offset), ((block + 1) * BLOCK).min(end));
            let mut image = self.block(block)?;
            let within = (from - block * BLOCK) as usize..(to - block * BLOCK) as usize;
            image[within].copy_from_slice(&data[(from - offset) as usize..(to - offset) as usize]);
            let sectors = sectors(from - block * BLOCK, to - block * BLOCK);
            let version = Version { seq, write, nth: nth as u64, sectors, metadata: false, data: Some(Arc::new(image)) };
            self.dirty.entry(block).or_default().push(version);
        }
        if end > self.len() {
            self.lens.push((seq, end));
        }
        Ok(())
    }

    /// The length was set. It is not safe yet.
    pub(crate) fn set_len(&mut self, seq: u64, write: u64, len: u64) -> io::Result<()> {
        let old = self.len();
        if len < old {
            self.zero(seq, write, len, old)?;
        }
        if len != old {
            self.lens.push((seq, len));
        }
        Ok(())
    }

    /// Bytes `from..to` became zeros by a change of metadata. It is not safe yet.
    pub(crate) fn zero(&mut self, seq: u64, write: u64, from: u64, to: u64) -> io::Result<()> {
        let to = to.min(self.len());
        if from >= to {
            return Ok(());
        }
        for (nth, block) in (from / BLOCK..=(to - 1) / BLOCK).enumerate() {
            let here = from.max(block * BLOCK) - block * BLOCK..to.min((block + 1) * BLOCK) - block * BLOCK;
            let data = match here.start.is_multiple_of(SECTOR) && (here.end.is_multiple_of(SECTOR) || to == self.len()) {
                true => None,
                false => {
                    let mut image = self.block(block)?;
                    image[here.start as usize..here.end as usize].fill(0);
                    Some(Arc::new(image))
                }
            };
            let version = Version { seq, write, nth: nth as u64, sectors: sectors(here.start, here.end), metadata: true, data };
            self.dirty.entry(block).or_default().push(version);
        }
        Ok(())
    }

    /// A flush that was asked for when `mark` completions were there is complete.
    pub(crate) fn flushed(&mut self, mark: u64) -> io::Result<()> {
        for (&block, versions) in &mut self.dirty {
            let count = versions.iter().take_while(|v| v.seq <= mark).count();
            save(&self.safe, block, versions.drain(..count).map(|v| (v.sectors, v)))?;
        }
        self.dirty.retain(|_, versions| !versions.is_empty());
        self.lens_are_safe(mark);
        Ok(())
    }

    fn lens_are_safe(&mut self, mark: u64) {
        let count = self.lens.iter().take_while(|l| l.0 <= mark).count();
        if let Some((_, len)) = self.lens.drain(..count).next_back() {
            self.safe_len = len;
        }
    }

    /// The write with this number, complete just now, asked to be durable.
    pub(crate) fn made_durable(&mut self, seq: u64, write: u64, end: u64) -> io::Result<()> {
        let metadata = self.dirty.values().flatten().any(|v| v.metadata);
        if metadata || end > self.safe_len {
            self.settle(|v| v.metadata && v.seq < seq)?;
            self.lens_are_safe(seq);
        }
        self.settle(|v| v.write == write)
    }

    /// Makes some versions safe, and with them nothing else. What is older in their sectors can never come back.
    fn settle(&mut self, which: impl Fn(&Version) -> bool) -> io::Result<()> {
        for (&block, versions) in &mut self.dirty {
            while let Some(at) = versions.iter().position(&which) {
                let version = versions.remove(at);
                versions[..at].iter_mut().for_each(|older| older.sectors &= !version.sectors);
                save(&self.safe, block, [(version.sectors, version)].into_iter())?;
            }
            versions.retain(|v| v.sectors != 0);
        }
        self.dirty.retain(|_, versions| !versions.is_empty());
        Ok(())
    }

    /// Adds the writes that are not safe.
    pub(crate) fn list_unsafe(&self, into: &mut BTreeMap<u64, Unsafe>) {
        for version in self.dirty.values().flatten() {
            into.entry(version.write).or_insert(Unsafe { seq: version.seq, blocks: 0 }).blocks += 1;
        }
    }

    /// The power is cut: what was not safe survives as `fate` will have it.
    pub(crate) fn lose(&mut self, fate: &mut Fate) -> io::Result<()> {
        let holes = self.dirty.values().flatten().filter(|v| v.metadata).map(|v| v.seq);
        let changes: BTreeSet<u64> = holes.chain(self.lens.iter().map(|l| l.0)).collect();
        let kept = fate.changes(changes.iter().copied());
        let moment = changes.iter().nth(kept).map_or(u64::MAX, |first_lost| first_lost - 1);
        self.lens_are_safe(moment);
        self.lens.clear();
        for (block, versions) in std::mem::take(&mut self.dirty) {
            // Where a hole or an end is lost, what came after it went to other places of the disk: it is lost, too.
            let mut possible = 0xff;
            let mut kept = Vec::new();
            for version in versions {
                let survives = match version.metadata {
                    true if version.seq <= moment => 0xff,
                    true => {
                        possible &= !version.sectors;
                        0
                    }
                    false => fate.sectors(version.write, version.nth),
                };
                kept.push((survives & possible & version.sectors, version));
            }
            save(&self.safe, block, kept.into_iter())?;
        }
        // Behind the end there are zeros, whatever the length becomes later.
        if self.safe.metadata()?.len() > self.safe_len {
            self.safe.set_len(self.safe_len)?;
        }
        Ok(())
    }

    /// Brings the host's file to the safe length.
    pub(crate) fn trim(&self) -> io::Result<()> {
        self.safe.set_len(self.safe_len)
    }
}

impl Version {
    fn lay_over(&self, image: &mut Block, sectors: u8) {
        for sector in (0..SECTORS as usize).filter(|s| sectors >> s & 1 == 1) {
            let range = sector * SECTOR as usize..(sector + 1) * SECTOR as usize;
            match &self.data {
                Some(data) => image[range.clone()].copy_from_slice(&data[range]),
                None => image[range].fill(0),
            }
        }
    }
}

/// Lays sectors of versions over the safe block, in order.
fn save(safe: &File, block: u64, versions: impl Iterator<Item = (u8, Version)>) -> io::Result<()> {
    let mut image = None;
    for (sectors, version) in versions.filter(|v| v.0 != 0) {
        if image.is_none() {
            let mut read = [0; BLOCK as usize];
            read_or_zeros(safe, &mut read, block * BLOCK)?;
            image = Some(read);
        }
        version.lay_over(image.as_mut().expect("just read"), sectors);
    }
    image.map_or(Ok(()), |image| safe.write_all_at(&image, block * BLOCK))
}

/// Returns which sectors of a block the bytes `from..to` touch.
fn sectors(from: u64, to: u64) -> u8 {
    let (first, last) = (from / SECTOR, (to - 1) / SECTOR);
    ((0xff_u16 << first) as u8) & (0xff_u16 >> (SECTORS - 1 - last)) as u8
}

/// Reads; what is behind the end of the file is zeros.
fn read_or_zeros(file: &File, buf: &mut [u8], offset: u64) -> io::Result<()> {
    let mut at = 0;
    while at < buf.len() {
        match file.read_at(&mut buf[at..], offset + at as u64)? {
            0 => break,
            n => at += n,
        }
    }
    buf[at..].fill(0);
    Ok(())
}
