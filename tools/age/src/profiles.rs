//! What clients do to a store. Each profile fills a share of a disk, and then has days that change it.

use crate::disk::{BLOCK, forgotten};
use crate::rig::{Rig, object};
use bytes::Bytes;
use objectstore::{ObjectChange, ObjectStore};
use std::collections::VecDeque;

/// Blocks of a full object.
const OBJECT: u64 = 1024;
/// Days that a snapshot is kept.
const KEPT: u64 = 7;
/// Objects of the bucket's index, and objects that hold keys.
const INDEXES: u64 = 64;

/// A row of numbers that look like chance.
#[derive(Clone, Debug)]
pub struct Dice(pub u64);

impl Dice {
    /// The next number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) % n.max(1)
    }
}

/// The record of an object.
fn info(n: u64) -> ObjectChange {
    ObjectChange::SetInfo(Bytes::from(vec![n as u8 | 1; 200]))
}

fn write(offset: u64, blocks: u64) -> ObjectChange {
    ObjectChange::Write(offset * BLOCK as u64, forgotten(blocks as usize))
}

/// Which profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Block images, overwritten at random in blocks of 4 KiB.
    Images,
    /// The same, with a snapshot each day that is removed a week later.
    Snapshots,
    /// Objects of 4 KiB to 1 MiB, equally many of each order, that come and go; each has a key in an index.
    Buckets,
    /// Files of 1 to 256 MiB, two written at a time in pieces of 1 MiB, replaced by others of another size.
    Files,
    /// Keys of objects without data, that come and go.
    Omap,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Images, Self::Snapshots, Self::Buckets, Self::Files, Self::Omap];

    /// Its name on the command line and in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Images => "images",
            Self::Snapshots => "snapshots",
            Self::Buckets => "buckets",
            Self::Files => "files",
            Self::Omap => "omap",
        }
    }
}

/// A load: what it has on the disk, and what comes next.
pub struct Load {
    kind: Kind,
    dice: Dice,
    /// Blocks of data that it may fill.
    share: u64,
    /// Blocks of data that it has.
    has: u64,
    /// Next number of an object or a key.
    next: u64,
    /// Objects (or files: first number and blocks) that are there: number, blocks.
    live: Vec<(u64, u32)>,
    /// Today's snapshot, and the day on which each object was cloned last.
    day: u64,
    cloned: Vec<u32>,
    /// Clones by day.
    clones: VecDeque<Vec<u64>>,
    /// The two files that are being written: number, blocks so far, blocks in all.
    open: [(u64, u32, u32); 2],
}

impl Load {
    /// Makes a load that fills `share` bytes of data (omap: of keys).
    pub fn new(kind: Kind, share: u64) -> Self {
        let share = match kind {
            // Of 300 bytes each.
            Kind::Omap => share / 300,
            _ => share / BLOCK as u64,
        };
        Self {
            kind,
            dice: Dice(kind as u64 + 1),
            share,
            has: 0,
            next: 0,
            live: Vec::new(),
            day: 1,
            cloned: Vec::new(),
            clones: VecDeque::new(),
            open: [(0, 0, 0); 2],
        }
    }

    /// Fills its share.
    ///
    /// # Errors
    /// The store failed, or had no room.
    pub fn fill(&mut self, rig: &mut Rig) -> Result<(), String> {
        while self.has < self.share {
            let room = match self.kind {
                Kind::Images | Kind::Snapshots => {
                    let n = self.next;
                    self.next += 1;
                    self.has += OBJECT;
                    self.cloned.push(0);
                    rig.change(object(1, n, None), vec![write(0, OBJECT), info(n)])?
                }
                Kind::Buckets => self.put(rig)?,
                Kind::Files => self.piece(rig)?,
                Kind::Omap => {
                    let (n, keys) = (self.next, 16);
                    self.next += keys;
                    self.has += keys;
                    let entries = (n..n + keys).map(key).collect();
                    rig.change(object(2, self.dice.below(INDEXES), None), vec![ObjectChange::OmapSet(entries)])?
                }
            };
            if !room {
                return Err(format!("there is no room for {} of {} blocks", self.has, self.share));
            }
        }
        rig.keeps(self.bytes());
        Ok(())
    }

    /// Bytes of memory that its lists take.
    fn bytes(&self) -> u64 {
        let clones: usize = self.clones.iter().map(Vec::capacity).sum();
        (self.live.capacity() * size_of::<(u64, u32)>() + self.cloned.capacity() * 4 + clones * 8) as u64
    }

    /// One day of so many operations. Gives how many were carried out: fewer if the disk is full.
    ///
    /// # Errors
    /// The store failed.
    pub fn day(&mut self, rig: &mut Rig, ops: u64) -> Result<u64, String> {
        let mut done = 0;
        if self.kind == Kind::Snapshots {
            self.day += 1;
            self.clones.push_back(Vec::new());
            if self.clones.len() as u64 > KEPT {
                done += self.trim(rig)?;
            }
        }
        for _ in 0..ops {
            let room = match self.kind {
                Kind::Images => {
                    let (o, at) = (self.dice.below(self.next), self.dice.below(OBJECT));
                    rig.change(object(1, o, None), vec![write(at, 1), info(o)])?
                }
                Kind::Snapshots => self.overwrite(rig)?,
                Kind::Buckets => {
                    while self.has >= self.share {
                        self.remove(rig)?;
                        done += 1;
                    }
                    self.put(rig)?
                }
                Kind::Files => {
                    while self.has >= self.share {
                        done += self.remove_file(rig)?;
                    }
                    self.piece(rig)?
                }
                Kind::Omap => {
                    // One comes, and one of the oldest goes.
                    let n = self.next;
                    self.next += 1;
                    let old = n - self.has + self.dice.below(1000.min(self.has));
                    let object = object(2, self.dice.below(INDEXES), None);
                    let changes = vec![ObjectChange::OmapSet(vec![key(n)]), ObjectChange::OmapRemove(vec![key(old).0])];
                    rig.change(object, changes)?
                }
            };
            done += u64::from(room);
        }
        rig.keeps(self.bytes());
        Ok(done)
    }

    /// Overwrites a block of an image; the first of a day in an object makes a clone of it.
    fn overwrite(&mut self, rig: &mut Rig) -> Result<bool, String> {
        let (o, at) = (self.dice.below(self.next), self.dice.below(OBJECT));
        let head = object(1, o, None);
        if u64::from(self.cloned[o as usize]) == self.day {
            return rig.change(head, vec![write(at, 1), info(o)]);
        }
        let clone = object(1, o, Some(self.day));
        let changes = |object, changes| objectstore::ObjectChanges { object, changes };
        let room = rig.submit(vec![
            changes(clone, vec![ObjectChange::CloneOf(head.clone()), info(o)]),
            changes(head, vec![write(at, 1), info(o)]),
        ])?;
        if room {
            self.cloned[o as usize] = self.day as u32;
            self.clones.back_mut().expect("a list for today").push(o);
        }
        Ok(room)
    }

    /// Removes the clones of the oldest snapshot, in no order.
    fn trim(&mut self, rig: &mut Rig) -> Result<u64, String> {
        let snap = self.day - KEPT;
        let mut clones = self.clones.pop_front().unwrap_or_default();
        let n = clones.len() as u64;
        while !clones.is_empty() {
            let o = clones.swap_remove(self.dice.below(clones.len() as u64) as usize);
            rig.change(object(1, o, Some(snap)), vec![ObjectChange::Remove])?;
        }
        Ok(n)
    }

    /// Puts an object into a bucket.
    fn put(&mut self, rig: &mut Rig) -> Result<bool, String> {
        let n = self.next;
        let order = self.dice.below(9);
        let blocks = (1 << order) + self.dice.below(1 << order);
        let changes = vec![
            write(0, blocks.min(256)),
            info(n),
            ObjectChange::SetXattr("user.rgw.acl".into(), Bytes::from(vec![n as u8 | 1; 100])),
            ObjectChange::SetXattr("user.rgw.etag".into(), Bytes::from(vec![n as u8 | 1; 32])),
        ];
        if !rig.change(object(1, n, None), changes)? {
            return Ok(false);
        }
        let blocks = blocks.min(256) as u32;
        (self.next, self.has) = (n + 1, self.has + u64::from(blocks));
        self.live.push((n, blocks));
        rig.change(object(2, n % INDEXES, None), vec![ObjectChange::OmapSet(vec![key(n)])])
    }

    /// Removes one of the objects of a bucket.
    fn remove(&mut self, rig: &mut Rig) -> Result<(), String> {
        let (n, blocks) = self.live.swap_remove(self.dice.below(self.live.len() as u64) as usize);
        self.has -= u64::from(blocks);
        rig.change(object(1, n, None), vec![ObjectChange::Remove])?;
        rig.change(object(2, n % INDEXES, None), vec![ObjectChange::OmapRemove(vec![key(n).0])])?;
        Ok(())
    }

    /// Writes the next piece of one of two files.
    fn piece(&mut self, rig: &mut Rig) -> Result<bool, String> {
        const PIECE: u32 = 256;
        let which = self.dice.below(2) as usize;
        let (n, at, all) = self.open[which];
        if at == all {
            if all > 0 {
                self.live.push((n, all));
            }
            // A file's objects have numbers of its own.
            let order = self.dice.below(9) as u32;
            let blocks = PIECE * ((1 << order) + self.dice.below(1 << order) as u32).min(256);
            self.open[which] = (self.next, 0, blocks);
            self.next += u64::from(blocks).div_ceil(OBJECT);
            return self.piece(rig);
        }
        let (o, from) = (n + u64::from(at) / OBJECT, u64::from(at) % OBJECT);
        let room = rig.change(object(1, o, None), vec![write(from, PIECE.into()), info(o)])?;
        if room {
            self.open[which].1 += PIECE;
            self.has += u64::from(PIECE);
        }
        Ok(room)
    }

    /// Removes one of the files. Gives the number of its objects.
    fn remove_file(&mut self, rig: &mut Rig) -> Result<u64, String> {
        if self.live.is_empty() {
            return Err("all that is there is in two files that are being written".into());
        }
        let (n, blocks) = self.live.swap_remove(self.dice.below(self.live.len() as u64) as usize);
        self.has -= u64::from(blocks);
        let objects = u64::from(blocks).div_ceil(OBJECT);
        for o in n..n + objects {
            rig.change(object(1, o, None), vec![ObjectChange::Remove])?;
        }
        Ok(objects)
    }
}

fn key(n: u64) -> (Bytes, Bytes) {
    // A bucket's keys are in no order.
    let name = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (Bytes::from(format!("key.{name:016x}.{n:x}")), Bytes::from(vec![n as u8 | 1; 260]))
}

/// Takes one block in each 16 MiB of the disk, from one end to the other: the store writes small objects as always, and gives each a
/// place far from all others. So a large disk has a map of free space that nowhere is simple, without the data of years. It is the
/// map that objects of 16 MiB leave which are cut to one block, and takes far less time.
///
/// # Errors
/// The store failed.
pub fn mix(rig: &mut Rig) -> Result<u64, String> {
    const CHUNK: u64 = 4096;
    let space = rig.store.space();
    let chunks = space.available / BLOCK as u64 / CHUNK * 97 / 100;
    rig.store.place_apart(true);
    for n in 0..chunks {
        if !rig.change(object(3, n, None), vec![write(0, 1), info(n)])? {
            return Err("no room to mix the map".into());
        }
    }
    rig.checkpoint()?;
    rig.store.place_apart(false);
    let (free, runs, _) = rig.store.free_runs();
    if runs < chunks / 100 * 98 {
        return Err(format!("the map is not mixed: {free} blocks of {chunks} chunks are free in {runs} runs"));
    }
    Ok(chunks)
}

/// Writes so many small objects with numbers from `from` on.
///
/// # Errors
/// The store failed, or had no room.
pub fn small_objects(rig: &mut Rig, from: u64, to: u64) -> Result<(), String> {
    for n in from..to {
        if !rig.change(object(4, n, None), vec![write(0, 1), info(n)])? {
            return Err(format!("no room for small object {n}"));
        }
    }
    Ok(())
}
