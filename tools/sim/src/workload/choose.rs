//! What clients ask for, by chance.

use crate::model::{Action, Guard};
use crate::rng::Rng;

/// Chooses what one client does.
#[derive(Debug)]
pub(super) struct Chooser {
    pub(super) rng: Rng,
    me: u32,
    serial: u64,
    largest: u64,
    no_omap: bool,
}

/// The same without what changes an omap: data instead.
fn of_data(action: Action) -> Action {
    match action {
        Action::OmapSet(pairs) => {
            let bytes: Vec<u8> = pairs.into_values().flatten().collect();
            Action::Write(bytes.len() as u64 * 700, bytes)
        }
        Action::OmapRemove(_) | Action::OmapRemoveRange(..) => Action::Zero(3000, 9000),
        Action::OmapClear => Action::Truncate(5000),
        Action::OmapSetHeader(bytes) | Action::AppendAndMark(bytes, _) => Action::Append(bytes),
        Action::Add(..) | Action::If(Guard::Omap(..), _) => Action::VersionIncrement,
        Action::All(parts) => Action::All(parts.into_iter().map(of_data).collect()),
        Action::If(guard, change) => Action::If(guard, Box::new(of_data(*change))),
        other => other,
    }
}

fn name(n: u64) -> String {
    format!("k{n}")
}

/// A tag in brackets, and what is in the brackets again and again, up to `len` bytes.
fn tagged(tag: &[u8], len: usize) -> Vec<u8> {
    let mut bytes = tag.to_vec();
    bytes.extend_from_slice(&tag[1..tag.len() - 1]);
    // Whole repetitions are doubled: payloads are large.
    while bytes.len() < len {
        bytes.extend_from_within(tag.len()..);
    }
    bytes.truncate(len);
    bytes
}

impl Chooser {
    pub(super) fn new(rng: Rng, me: u32, largest: u64) -> Self {
        Self { rng, me, serial: 0, largest, no_omap: false }
    }

    /// The same, of a pool that takes no omap if so said.
    pub(super) fn without_omap(self, no_omap: bool) -> Self {
        Self { no_omap, ..self }
    }

    /// Returns an action that the pool takes.
    fn fit(&self, action: Action) -> Action {
        if self.no_omap { of_data(action) } else { action }
    }

    /// Bytes that name who wrote them, so that a misplaced one is known.
    fn payload(&mut self) -> Vec<u8> {
        self.serial += 1;
        let tag = format!("[{}.{}]", self.me, self.serial);
        let len = self.rng.magnitude(tag.len() as u64, self.largest.max(64)) as usize;
        tagged(tag.as_bytes(), len)
    }

    /// The same, and not small.
    fn big(&mut self) -> Vec<u8> {
        let least = self.largest / 4;
        let len = self.rng.between(least, self.largest) as usize;
        tagged(&self.small(), len)
    }

    pub(super) fn small(&mut self) -> Vec<u8> {
        self.serial += 1;
        format!("[{}.{}]", self.me, self.serial).into_bytes()
    }

    fn key(&mut self) -> String {
        name(self.rng.below(9))
    }

    /// Reads and changes of every common kind.
    pub(super) fn plain(&mut self) -> Action {
        let largest = self.largest;
        let action = match self.rng.below(100) {
            0..22 => Action::Read,
            22..26 => Action::Stat,
            26..41 => Action::Append(self.payload()),
            41..52 => Action::WriteFull(self.payload()),
            52..62 => Action::Write(self.rng.magnitude(0, largest), self.payload()),
            62..66 => Action::Truncate(self.rng.magnitude(0, largest)),
            66..70 => Action::Zero(self.rng.magnitude(0, largest), self.rng.magnitude(1, largest)),
            70..74 => Action::Delete,
            74..77 => Action::CreateExclusively,
            77..80 => Action::SetXattr(name(self.rng.below(3)), self.small()),
            80..83 => Action::GetXattr(name(self.rng.below(3))),
            83..88 => self.omap_set(),
            88..91 => Action::OmapRemove((0..3).map(|_| self.key()).collect()),
            91..95 => Action::OmapGet,
            95..98 => Action::AppendAndMark(self.small(), self.key()),
            _ => Action::DeleteIf(name(0), Vec::new()),
        };
        self.fit(action)
    }

    /// Returns what fills a disk, and something else now and then.
    pub(super) fn filling(&mut self) -> Action {
        match self.rng.below(100) {
            0..50 => Action::WriteFull(self.big()),
            50..70 => Action::Write(self.rng.below(self.largest), self.big()),
            70..75 => Action::Append(self.big()),
            75..80 => Action::All(vec![Action::WriteFull(self.big()), self.omap_set()]),
            _ => self.plain(),
        }
    }

    /// Returns what empties a disk, most of the time; the rest wants to know whether there is room.
    pub(super) fn emptying(&mut self) -> Action {
        match self.rng.below(100) {
            0..55 => Action::Delete,
            55..65 => Action::Truncate(self.rng.magnitude(0, self.largest / 2)),
            65..75 => Action::WriteFull(self.small()),
            75..85 => Action::Read,
            85..95 => Action::WriteFull(self.big()),
            _ => Action::Append(self.big()),
        }
    }

    fn omap_set(&mut self) -> Action {
        let n = self.rng.between(1, 4);
        Action::OmapSet((0..n).map(|_| (self.key(), self.small())).collect())
    }

    /// The rest of what a client may ask for; `version` is the newest of the object that this client heard of, `rollback`
    /// snapshots that stay.
    pub(super) fn rare(&mut self, version: Option<u64>, rollback: &[u64]) -> Action {
        let largest = self.largest;
        let action = match self.rng.below(100) {
            0..6 => Action::ReadAt(self.rng.magnitude(0, largest), self.rng.magnitude(1, largest)),
            6..11 => Action::SparseRead,
            11..15 => Action::GetXattrs,
            15..18 => Action::RemoveXattr(name(self.rng.below(3))),
            18..22 => Action::OmapPage(self.key(), self.rng.between(1, 4)),
            22..25 => Action::OmapKeys,
            25..28 => Action::OmapByKeys((0..3).map(|_| self.key()).collect()),
            28..31 => Action::OmapHeader,
            31..34 => Action::OmapSetHeader(self.small()),
            34..37 => {
                let (a, b) = (self.key(), self.key());
                Action::OmapRemoveRange(a.clone().min(b.clone()), a.max(b))
            }
            37..39 => Action::OmapClear,
            39..43 => Action::WriteSame(self.rng.magnitude(0, largest), self.rng.between(1, 40), self.small()),
            43..51 => Action::Add("number".into(), self.rng.between(1, 9) as i64 - 3),
            51..54 => Action::VersionIncrement,
            54..57 => Action::VersionIncrementIf(self.rng.below(4)),
            57..60 => Action::VersionRead,
            60..64 => Action::Lock(self.me),
            64..68 => Action::Unlock(self.me),
            68..71 => Action::RefGet(name(self.rng.below(3))),
            71..74 => Action::RefPut(name(self.rng.below(3))),
            74..76 => Action::RefRead,
            76..84 => Action::All((0..self.rng.between(2, 4)).map(|_| self.part()).collect()),
            84..94 => self.guarded(version),
            _ => match rollback {
                [] => Action::Read,
                snaps => Action::Rollback(*self.rng.pick(snaps)),
            },
        };
        self.fit(action)
    }

    /// A change that may be one of several in a request.
    fn part(&mut self) -> Action {
        match self.rng.below(12) {
            0..3 => Action::Append(self.small()),
            3 => Action::WriteFull(self.payload()),
            4 => Action::Truncate(self.rng.magnitude(0, self.largest)),
            5 | 6 => Action::SetXattr(name(self.rng.below(3)), self.small()),
            7 | 8 => self.omap_set(),
            9 => Action::OmapRemove(vec![self.key()]),
            10 => Action::CreateExclusively,
            _ => Action::Delete,
        }
    }

    fn guarded(&mut self, version: Option<u64>) -> Action {
        let guard = match (self.rng.below(4), version) {
            (0, _) => Guard::Xattr(name(self.rng.below(3)), if self.rng.one_in(2) { Vec::new() } else { self.small() }),
            (1, _) => Guard::Omap(self.key(), Vec::new()),
            (2, Some(version)) if version > 0 => Guard::Version(version),
            _ => Guard::Bytes(self.rng.magnitude(0, self.largest), vec![0; self.rng.between(1, 9) as usize]),
        };
        Action::If(guard, Box::new(self.part()))
    }
}
