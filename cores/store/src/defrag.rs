//! Defragmentation: objects that were overwritten at random for years are read as fast as fresh ones again.
//!
//! A block of 4 KiB that is overwritten gets a new place, so an object of 4 MiB ends in up to a thousand. A walk in the
//! background goes through the objects in the order of their names, part by part ([`RANGES`]). A part whose blocks lie in
//! runs of less than [`LEAST`] as a mean is read, and written again in one piece.
//!
//! - **What moves.** Blocks of which all references are known. A head and its clones lie beside each other in the index, so the
//!   walk looks at the same ranges of all of them at once ([`MEMBERS`]). The index says how many references a block has; if those
//!   ranges have as many, the block moves in all of them. Else somebody else shares it, and it stays: it would take its space twice.
//!   What a head has lies in its order afterwards; what only clones have follows. A part gets better by half at least, counted over
//!   all of them, or it is left. What changed since the last checkpoint began, or lies in the journal, is left: it may change again
//!   soon, and who shares it is not known yet.
//! - **How.** As a large write does it: data goes to free places, is flushed, and then a record says where it lies. A
//!   checkpoint takes the record in, and frees the old places. So a crash at any moment leaves the old places or the new
//!   ones, both with the same bytes. One record says it of all objects that share a block, so there is no moment at which some
//!   of them have it at its old place and others at its new one. Were it so, nothing would be lost: a checkpoint counts
//!   references by what changes, and frees a place when the last one is gone. The record has a scope of its own and names the
//!   objects as ones that it changes: no later change overtakes it, and it overtakes none.
//! - **Free runs.** What moves together leaves single free blocks behind, all over the disk. So each walk also empties some
//!   chunks, the next ones on the disk that are not fuller than usual: whatever part of an object lies there moves. At first
//!   all long free runs that can be spared go to that, and come back as more of them. When half of what is free lies in
//!   chunks that are wholly free, half of them go to parts that come together, and only chunks that are half empty are emptied:
//!   what moves gives as much as it takes, so a disk with room is not written again and again. A walk that moved much is
//!   followed by the next one soon.
//! - **Clients' changes.** Reading takes time, and clients may change the object meanwhile. When all is read, the part's
//!   ranges are looked up again in all its objects, in the same call in which the record is made. If one of them differs, the part
//!   is left. A clone that is made meanwhile has the old places: until it goes, what moved takes its space twice.
//! - **Rot.** What is read comes from the disk, and its checksum is compared with the index. What is damaged does not move,
//!   and is not made good by a new checksum: reads go on to say that it is damaged. The object's group is told
//!   ([`Event::Rotten`]), once a day for each block, and takes the object from another copy.
//! - **Room.** It goes on only while a [`SPARE`]th of the chunks is wholly free and an [`AVAILABLE`]th of the disk is
//!   available, and asks for a checkpoint when an [`OWED`]th of the disk waits for one. It is off when the disk or its host
//!   is full. A walk that waits for too long ends.
//! - **Wear.** An eighth of the disk moves in a day at most: what is overwritten at random all the time would move again and
//!   again, many blocks for each that a client writes.
//! - **Rest.** A walk begins ten minutes after the store was opened, then an hour after the last one or later, the longer that took,
//!   and only if a checkpoint has changed the tree meanwhile. So a store that nobody writes to rests.
//! - **Pace.** There is one part in flight, and few reads. While clients ask for something, the pause behind each step is
//!   four times as long as the step took, so a busy disk sees less of it. How long clients' requests take that meet a step is
//!   compared with how long others take; if that is half as long again, pauses become longer, up to 256 times the step
//!   ([`crate::yielding`]). It waits while transactions do, or the store is congested. What it reads enters no cache.

use crate::block::{BLOCK, Block, Cell, PAGE_BLOCKS, Patch, Place, RANGE, blocks};
use crate::cache::Known;
use crate::checked::Checked;
use crate::exec::Plan;
use crate::held::Held;
use crate::index::delta::Delta;
use crate::index::keys;
use crate::index::view::Step as Scan;
use crate::journal::staged::Staged;
use crate::onode::Onode;
use crate::read::{all_there, gather};
#[cfg(any(test, feature = "sim"))]
use crate::scattered::MoveMistake;
use crate::scattered::{Found, Haste, Member, Part, Spot, Stage};
use crate::space::bits::CHUNK;
use crate::space::refs;
use crate::store::Store;
use crate::wish::{Owner, wish_data};
use bytes::Bytes;
use denc::index;
use node::{Level, Mono};
use objectstore::{Event, Read, Ticket, Transaction, Unread, Wish};
use std::collections::BTreeMap;
use std::sync::Arc;
use types::{ObjectId, PgId, Rope, SpgId};

/// Ticket of its transactions. Nobody else's counter comes so far.
pub(crate) const TICKET: Ticket = Ticket(u64::MAX);
/// Ranges of a part (4 MiB), and with little memory.
const RANGES: u64 = 64;
const FEW_RANGES: u64 = 16;
const LITTLE_MEMORY: u64 = 64 << 20;
/// Names that are looked at in one call, about.
const NAMES: usize = 512;
/// Objects that are looked at together: a head and its clones. Of more, so many at a time.
const MEMBERS: usize = 64;
/// Ranges of all objects that are looked at in one call. A part has no more, so its record has a bound, too. Each has 16 blocks, and
/// each of these takes some 500 ns.
const LOOKED: u64 = 256;
/// Runs that are read at a time.
const READS: usize = 32;
/// Parts of the disk: chunks that stay wholly free, blocks that stay available, blocks that wait for a checkpoint.
const SPARE: u64 = 32;
const AVAILABLE: u64 = 16;
const OWED: u64 = 128;
/// What moves in a day at most: this part of the disk's blocks.
const DAILY: u64 = 8;
/// A walk that moved more than this part of the disk's blocks is followed by the next one soon.
const MUCH: u64 = 256;

/// Chunks that are looked at for those that a walk empties.
const REGION: u64 = 4096;

/// The scope of its records.
fn scope() -> SpgId {
    SpgId::whole(PgId::new(i64::MAX, 0))
}

impl Store {
    /// Switches defragmentation on or off. Off at first.
    pub fn set_defragment(&mut self, on: bool) {
        if self.scattered.on != on {
            self.scattered.switch(on, self.now);
            self.holds.remove(&Owner::Defragment);
        }
    }

    /// Begins a walk through all objects at once, if none is under way and it is switched on.
    pub fn defragment_now(&mut self) {
        self.scattered.hurry(self.now);
    }

    /// From now on defragmentation makes no pauses, and moves what is small, too. Only for tests.
    #[cfg(any(test, feature = "sim"))]
    pub fn defragment_eagerly(&mut self) {
        self.defragment_in(Haste::Eager);
    }

    /// From now on it walks five times a second, and moves what is small, too. Only for tests.
    #[cfg(any(test, feature = "sim"))]
    pub fn defragment_briskly(&mut self) {
        self.defragment_in(Haste::Brisk);
    }

    #[cfg(any(test, feature = "sim"))]
    fn defragment_in(&mut self, haste: Haste) {
        self.scattered.haste = haste;
        self.set_defragment(true);
        self.scattered.hurry(self.now);
    }

    /// From now on it makes this mistake.
    #[cfg(any(test, feature = "sim"))]
    pub fn err_in_moves(&mut self, mistake: MoveMistake) {
        self.scattered.mistake = Some(mistake);
    }

    /// Parts of objects that were moved since the store was opened.
    #[cfg(any(test, feature = "sim"))]
    pub fn moved_parts(&self) -> u64 {
        self.counters.defrag.parts
    }

    /// Returns true if a walk is under way.
    #[cfg(any(test, feature = "sim"))]
    pub fn defragments(&self) -> bool {
        !matches!(self.scattered.stage, Stage::Rest)
    }

    /// Returns when [`Self::defragment`] has something to do.
    pub(crate) fn defragment_at(&self) -> Mono {
        if self.stopping { Mono::NEVER } else { self.scattered.due_at() }
    }

    /// Does the next step, if it is time.
    pub(crate) fn defragment(&mut self) {
        if self.defragment_at() > self.now {
            return;
        }
        if self.scattered.has_done(self.space.total() / DAILY, self.now) {
            self.holds.remove(&Owner::Defragment);
            return;
        }
        if !self.may_defragment() {
            self.scattered.wait(self.now);
            if matches!(self.scattered.stage, Stage::Rest) {
                self.holds.remove(&Owner::Defragment);
            }
            return;
        }
        let stage = std::mem::replace(&mut self.scattered.stage, Stage::Walk);
        let stepped = match stage {
            Stage::Rest => {
                self.begin_walk();
                Ok(())
            }
            Stage::Walk => self.walk(),
            Stage::Read(part) => self.read_part(part),
            Stage::Write => unreachable!("it is not due then"),
        };
        match stepped {
            Ok(()) => {
                self.holds.remove(&Owner::Defragment);
                let asked = self.counters.commits + self.tally.data_hits.get() + self.tally.data_misses.get();
                self.scattered.pause(self.now, asked);
                self.counters.defrag.yields = self.scattered.yields();
            }
            Err(Unread::Missing(wish)) => {
                self.scattered.asks(self.now);
                self.fetch_for(Owner::Defragment, wish);
            }
            Err(Unread::Damaged(damage)) => {
                // A page of the index. Who needs it says so; the walk does not know what lies behind it.
                let text = format!("defragmentation ends before its time: {} at byte {} is damaged", damage.what, damage.offset);
                self.log.push((Level::Warn, text));
                self.holds.remove(&Owner::Defragment);
                self.scattered.rest(self.now);
            }
        }
    }

    /// Returns true if there is room and quiet enough.
    fn may_defragment(&mut self) -> bool {
        let starved = self.checkpoint.as_ref().is_some_and(|c| c.starved);
        if starved || self.doubts.hamper() || self.is_congested() || !self.waiting.is_empty() {
            return false;
        }
        let total = self.space.total();
        if self.scattered.owed * OWED > total {
            self.due.want(self.overlay.has_news());
            return false;
        }
        let (empty, chunks) = self.space.empty_chunks();
        let enough = empty >= chunks.div_ceil(SPARE) || self.scattered.haste == Haste::Brisk;
        enough && self.available_blocks() * AVAILABLE >= total && !self.space.host_exhausted(&self.io)
    }

    fn begin_walk(&mut self) {
        // As long as most of what is free lies in pieces, all goes to that.
        let gathered = self.is_gathered();
        let spare = if gathered { self.spare_chunks().div_ceil(2) } else { self.spare_chunks() } * CHUNK;
        // Else only what is cheap to empty is: a block that moves gives a free one at least. Such disks would be written again for ever.
        let fullest = if gathered { CHUNK / 2 } else { CHUNK };
        let (region, usual, left) = self.space.region(self.scattered.region.end, (spare, fullest), REGION);
        let much = self.space.total() / MUCH;
        let s = &mut self.scattered;
        s.begins(much, self.now);
        (s.from, s.region, s.usual, s.left) = (Bytes::from_static(&[keys::NAME]), region, usual, left);
    }

    /// Chunks that are wholly free, beyond those that stay so.
    fn spare_chunks(&self) -> u64 {
        let (empty, chunks) = self.space.empty_chunks();
        empty.saturating_sub(chunks.div_ceil(SPARE))
    }

    /// Returns true if half of what is free lies in chunks that are wholly free.
    fn is_gathered(&self) -> bool {
        2 * self.space.empty_chunks().0 * CHUNK >= self.space.free()
    }

    /// Returns true if a block lies in a chunk that this walk empties.
    fn leaves(&self, at: u64) -> bool {
        let (chunk, _) = refs::chunk_of(at);
        let s = &self.scattered;
        s.left > 0 && s.region.contains(&chunk.into()) && self.space.used_in(chunk.into()) <= s.usual
    }

    /// Looks at the next names, or at the next parts of objects.
    fn walk(&mut self) -> Read<()> {
        let mut looked = 0;
        loop {
            if self.scattered.at.is_none() && !self.next_objects()? {
                return Ok(());
            }
            let Some(found) = self.scattered.at.clone() else { return Ok(()) };
            looked += self.window(&found) * found.members.len() as u64;
            if looked > LOOKED {
                return Ok(());
            }
            let (part, next) = self.look_at(&found)?;
            self.counters.defrag.looked += 1;
            match next {
                Some(next) => self.scattered.at = Some(Found { next, ..found.clone() }),
                None => self.scattered.at = None,
            }
            if let Some(part) = part {
                let next = next.unwrap_or(found.ranges());
                self.scattered.at.get_or_insert(found).next = next;
                self.scattered.stage = Stage::Read(part);
                return Ok(());
            }
        }
    }

    /// Goes to the next object that is large enough, and takes what lies beside it in the index and has the same name: clones of it.
    /// False if these names had none, or there are no more.
    fn next_objects(&mut self) -> Read<bool> {
        let (mut seen, mut last, mut more) = (0, None, false);
        let (mut stem, mut family): (Bytes, Vec<(Bytes, Onode)>) = Default::default();
        let scattered = &self.scattered;
        let large = |family: &[(Bytes, Onode)]| family.iter().any(|(_, onode)| scattered.is_large(onode.size));
        self.eye(Owner::Defragment).view(None).scan(&scattered.from, Some(&[keys::NAME + 1]), |key, value| {
            let of = keys::stem(key).unwrap_or(key.len());
            if key[..of] != stem || family.len() == MEMBERS {
                if seen >= NAMES || large(&family) {
                    more = true;
                    return Scan::Enough;
                }
                family.clear();
                stem = key.slice(..of);
            }
            family.extend(Onode::decode(&value).map(|onode| (key.clone(), onode)));
            (seen, last) = (seen + 1, Some(key.clone()));
            Scan::More
        })?;
        let found = large(&family);
        if !found && !more {
            self.counters.defrag.walks += 1;
            if self.scattered.moved > 0 {
                // The old places are free behind a checkpoint only.
                self.due.want(self.overlay.has_news());
            }
            self.scattered.walked(self.now);
            return Ok(false);
        }
        // A head has the last key of all that have its name.
        let member = |(key, onode): &(Bytes, Onode)| {
            Some(Member { object: keys::object(key)?, id: onode.id, ranges: blocks(onode.size).div_ceil(RANGE) })
        };
        let members: Arc<[Member]> = if found { family.iter().rev().filter_map(member).collect() } else { Arc::default() };
        self.scattered.from = last.map_or_else(Bytes::new, |last| keys::successor(&last));
        self.scattered.at = Some(Found { members, next: 0 }).filter(|found| !found.members.is_empty());
        Ok(self.scattered.at.is_some())
    }

    /// Blocks of an object's part.
    fn part_ranges(&self) -> u64 {
        if self.config.memory < LITTLE_MEMORY { FEW_RANGES } else { RANGES }
    }

    /// Ranges of each object that are looked at together, a power of two: fewer if many objects are.
    fn window(&self, found: &Found) -> u64 {
        1 << (LOOKED / found.members.len() as u64).clamp(1, self.part_ranges()).ilog2()
    }

    /// Looks at the next part of objects. Gives it if it is to move, and the range behind it if there is one.
    fn look_at(&self, found: &Found) -> Read<(Option<Box<Part>>, Option<u64>)> {
        let eye = self.eye(Owner::Defragment);
        let view = eye.view(None);
        let len = self.window(found);
        // An object may be larger than its data.
        let mut first: Option<u64> = None;
        for member in found.members.iter() {
            let next = view.next_range(member.id, found.next as u32)?.map(u64::from).filter(|r| *r < member.ranges);
            first = first.into_iter().chain(next).min();
        }
        let Some(first) = first else { return Ok((None, None)) };
        let end = found.ranges().min((first / len + 1) * len);
        let next = Some(end).filter(|end| *end < found.ranges());
        let touched = |member: &Member| {
            let (from, to) = ((member.id, first as u32), (member.id, end as u32));
            let touched = |delta: &Delta| delta.extents.touches(&from, Some(&to));
            touched(self.overlay.active()) || self.overlay.frozen().is_some_and(touched)
        };
        if found.members.iter().any(touched) {
            return Ok((None, next));
        }
        let (mut ranges, mut wishes) = (Vec::new(), Vec::new());
        for (n, member) in found.members.iter().enumerate() {
            for range in first..end.min(member.ranges) {
                let patch = gather(view.extents((member.id, range as u32)), &mut wishes)?;
                ranges.extend(patch.filter(Patch::has_data).map(|patch| (n, range as u32, patch)));
            }
        }
        all_there(std::mem::take(&mut wishes))?;
        // Most parts need no look at who shares them.
        let whole = self.is_gathered() && self.spare_chunks() > self.scattered.left.div_ceil(CHUNK);
        let worth = match self.scattered.is_restless(self.counters.defrag.looked) {
            true => Some(self.scattered.anything()),
            false => whole.then_some(self.scattered.worth()),
        };
        let most = index(self.part_ranges() * RANGE);
        if Part::of(&ranges, worth, most, |at| self.leaves(at), |_, _| false).is_none() {
            return Ok((None, next));
        }
        let mut tables: BTreeMap<u32, Option<Bytes>> = BTreeMap::new();
        for at in ranges.iter().flat_map(|(_, _, patch)| patch.iter()).map(|(_, block)| block.place.0) {
            let (chunk, _) = refs::chunk_of(at);
            if let std::collections::btree_map::Entry::Vacant(entry) = tables.entry(chunk) {
                entry.insert(gather(view.get(&keys::chunk(keys::SHARED, chunk)), &mut wishes)?.flatten());
            }
        }
        all_there(wishes)?;
        let stays = |at: u64, times: u32| {
            let (chunk, index) = refs::chunk_of(at);
            let others = tables.get(&chunk).and_then(Option::as_ref).map_or(Some(0), |table| refs::others(table, index));
            others.is_none_or(|others| others >= times)
        };
        Ok((Part::of(&ranges, worth, most, |at| self.leaves(at), stays), next))
    }

    /// Takes what was read of a part, and reads on; when all is there, the part is written.
    fn read_part(&mut self, mut part: Box<Part>) -> Read<()> {
        let epoch = self.overlay.epoch();
        let mut again = Vec::new();
        let held = self.holds.get(&Owner::Defragment);
        let mut damaged = None;
        let crcs: BTreeMap<u64, u32> = part.moving.iter().map(|block| (block.place.0, block.crc)).collect();
        for at in part.asked.iter().flat_map(|(start, n)| *start..*start + u64::from(*n)) {
            let crc = crcs[&at];
            match held.and_then(|held| held.data(at, 1, crc)).filter(|(bytes, _)| bytes.crc(0) == crc) {
                Some((bytes, _)) => drop(part.read.insert(at, bytes)),
                None if held.is_some_and(|held| held.data_failed(at, epoch)) => damaged = Some(at),
                None => again.push((at, 1)),
            }
        }
        if let Some(at) = damaged {
            // Its place may have been given to others when the part changed.
            let found = self.scattered.at.clone().expect("a part is of an object");
            let unchanged = self.is_unchanged(&found, &part);
            if !matches!(unchanged, Ok((_, true))) {
                self.scattered.stage = if unchanged.is_err() { Stage::Read(part) } else { Stage::Walk };
                unchanged?;
                self.counters.defrag.changed += 1;
                self.part_left();
                return Ok(());
            }
            self.counters.defrag.damaged += 1;
            // One of those that have it is told at a time: the first one. When it is mended, the next one has it.
            let named = |spot: &&Spot| part.moving[spot.index as usize].place.0 == at;
            let member = part.spots.iter().find(named).map_or(0, |spot| spot.member);
            let Member { object, id, .. } = &found.members[member];
            if self.scattered.is_news(*id, at, self.now) {
                let (name, place) = (object.clone(), at * BLOCK as u64);
                self.log.push((Level::Error, format!("{name}: byte {place} of the data disk is damaged; it stays where it is")));
                self.events.push_back(Event::Rotten(name));
            }
            self.part_left();
            return Ok(());
        }
        if again.is_empty() && !part.asked.is_empty() && !part.unread.is_empty() {
            // The others come behind a pause.
            part.asked.clear();
            self.scattered.stage = Stage::Read(part);
            return Ok(());
        }
        if again.is_empty() && part.unread.is_empty() {
            return self.write_part(part);
        }
        if again.is_empty() {
            // What was held is in the part.
            self.holds.insert(Owner::Defragment, Held::default());
            let most = part.unread.len().min(READS);
            part.asked = part.unread.drain(..most).collect();
            again.clone_from(&part.asked);
        }
        let wish = Wish(again.iter().map(|(start, n)| wish_data(*start, *n)).collect());
        self.scattered.stage = Stage::Read(part);
        Err(Unread::Missing(wish))
    }

    /// The part that the walk is at is left as it is, or is done.
    fn part_left(&mut self) {
        if self.scattered.at.as_ref().is_some_and(|found| found.next >= found.ranges()) {
            self.scattered.at = None;
        }
    }

    /// Writes a part that was read, unless it has changed.
    fn write_part(&mut self, part: Box<Part>) -> Read<()> {
        let found = self.scattered.at.clone().expect("a part is of an object");
        let (objects, same) = match self.is_unchanged(&found, &part) {
            Ok(result) => result,
            Err(unread) => {
                // What it needs of the index is read, and then it looks again.
                self.scattered.stage = Stage::Read(Box::new(Part { asked: Vec::new(), ..*part }));
                return Err(unread);
            }
        };
        #[cfg(test)]
        let same = same || self.mistake == Some(crate::mistake::Mistake::MoveUnlooked);
        #[cfg(any(test, feature = "sim"))]
        let same = same || self.scattered.mistake == Some(MoveMistake::MoveUnlooked);
        if !same {
            self.counters.defrag.changed += 1;
            self.part_left();
            return Ok(());
        }
        let n = part.moving.len() as u64;
        if !self.has_room_for_pages(&part) || self.pipeline.is_full() {
            // The next walk comes here again.
            self.part_left();
            return Ok(());
        }
        let Some(run) = self.space.take_whole(n) else {
            // There is no long run after all. The next walk may find one.
            self.scattered.rest(self.now);
            return Ok(());
        };
        let (mut delta, mut data, mut crcs) = (Delta::default(), Rope::new(), Vec::with_capacity(part.moving.len()));
        for block in &part.moving {
            let bytes: &Checked = &part.read[&block.place.0];
            data.push(bytes.bytes().clone());
            crcs.push(block.crc);
        }
        for spots in part.moves() {
            let mut patch = Patch::default();
            for spot in spots {
                let crc = part.moving[spot.index as usize].crc;
                patch.set(spot.i, Cell::Data(Block { place: Place::staged(spot.index), crc }));
            }
            delta.patch((found.members[spots[0].member].id, spots[0].range), patch);
        }
        let before = crate::scattered::runs(part.moving.iter().map(|block| (0, block.place)));
        let plan = Plan {
            delta,
            staged: Staged::known(data, &crcs),
            objects,
            next_id: self.overlay.next_id(),
            replaced: n,
            damaged: Vec::new(),
            copied: 0,
            families: Vec::new(),
            gone: 0,
            place: Some(run),
        };
        let transaction = Transaction { scope: scope(), hold: None, cold: true, objects: Vec::new(), meta: Vec::new() };
        self.scattered.stage = Stage::Write;
        self.scattered.asks(self.now);
        self.scattered.moves(n);
        let left = part.moving.iter().filter(|block| self.leaves(block.place.0)).count() as u64;
        self.scattered.left -= left.min(self.scattered.left);
        self.counters.defrag.parts += 1;
        self.counters.defrag.bytes += n * BLOCK as u64;
        self.counters.defrag.runs += before as u64;
        self.part_left();
        self.accept_moved(&transaction, TICKET, plan);
        Ok(())
    }

    /// Returns what is known of the part's objects in which something moves; and whether they are the ones that they were, and the
    /// part is as it was.
    fn is_unchanged(&self, found: &Found, part: &Part) -> Read<(Vec<(ObjectId, Known)>, bool)> {
        let eye = self.eye(Owner::Defragment);
        let (view, mut wishes, mut same) = (eye.view(None), Vec::new(), true);
        let mut objects = Vec::new();
        for spots in part.spots.chunk_by(|a, b| a.member == b.member) {
            let member = &found.members[spots[0].member];
            let Some(known) = gather(eye.known(&member.object), &mut wishes)? else { continue };
            same &= known.onode.as_ref().is_some_and(|onode| onode.id == member.id);
            objects.push((member.object.clone(), known));
        }
        for (member, range, patch) in &part.ranges {
            #[cfg(test)]
            if *member > 0 && self.mistake == Some(crate::mistake::Mistake::MoveClonesUnlooked) {
                continue;
            }
            #[cfg(any(test, feature = "sim"))]
            if *member > 0 && self.scattered.mistake == Some(MoveMistake::MoveClonesUnlooked) {
                continue;
            }
            let now = gather(view.extents((found.members[*member].id, *range)), &mut wishes)?;
            same &= now.is_none_or(|now| now == *patch);
        }
        all_there(wishes)?;
        Ok((objects, same))
    }

    /// Returns true if what is kept back for checkpoints is still there when the part's record has come.
    fn has_room_for_pages(&self, part: &Part) -> bool {
        let pages = u64::from(PAGE_BLOCKS) * (3 * part.moves().count() as u64 + 16) + 2 * part.moving.len() as u64;
        self.available_blocks() > part.moving.len() as u64 + pages
    }
}
