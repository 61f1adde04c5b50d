//! Moving an image to another place, pool or layout while it is used: the target exists already and reads through to
//! the source, and both headers say so (`rbd migration prepare` made them so). What is left is to copy the data, and
//! then to let go of the source; or to give the target up.
//!
//! # What is copied, and in which order
//!
//! An object of the target gets what each of the source's snapshots saw, oldest first, each written as if the target's
//! newer snapshots were not made yet, and the head's last. A write asks the OSD to refuse it if the object was written
//! under that snapshot or a newer one: then it was copied already, by an earlier attempt or by a client that wanted to
//! write there. So a client needs not wait, and doing it again changes nothing.
//!
//! An object stays as it was between snapshots that see the same versions of the source's objects; only where they
//! differ is it read.
//!
//! # What holds after an interruption
//!
//! To commit, the target forgets the source first, then the source goes; its place in the trash is what it is found by
//! until then. To abort, the target goes first, then the source gets its name back, forgets that it moved, and leaves
//! the trash last.
//!
//! Sources of format 1 and outside the cluster, and ends with clones, groups or mirroring, are left to the rbd command.

use crate::image::{self, Image};
use crate::layout::Layout;
use crate::lock::{self, Holder};
use crate::notice::{self, Work};
use crate::object_map;
use crate::parent::Chain;
use crate::rados::{Place, text};
use crate::work::{Io, Progress, each};
use crate::{Fail, Optional, Result};
use crate::{remove, trash};
use bytes::Bytes;
use denc::Encode;
use messages::class::rbd::{GroupSpec, MigrationSpec, NO_SNAP, feature, migration_header, migration_state as state};
use messages::code;
use messages::ops::SnapList;
use messages::osd::{Op, OpArgs};
use objecter::SnapContext;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use types::{Errno, SnapId};

/// Objects that are copied at a time, and bytes that they may have together.
const AT_A_TIME: u64 = 8;
const BYTES: u64 = 32 << 20;
/// Bytes that are compared and written as a whole.
const GRAIN: usize = 4096;
/// For `assert_snapc_seq`: the object was not written under a snapshot.
const NOT_WRITTEN: u8 = 0;

/// A migration, as its target says.
#[derive(Clone, Debug)]
pub struct Migration {
    /// Place where the target is, and its id.
    pub target: (Place, String),
    /// Its header.
    pub spec: MigrationSpec,
}

/// The migration whose target or source has a name.
///
/// # Errors
/// Those of reading. An image that is not moving is none.
pub async fn by_name(io: &Io, at: &Place, name: &str) -> Result<Option<Migration>> {
    if let Some(id) = image::id_of(io, at, name).await.optional()? {
        return Ok(said(io, at, &id).await?.filter(|spec| spec.header_type == migration_header::DST).map(|spec| {
            let target = (at.clone(), id);
            Migration { target, spec }
        }));
    }
    // The source has lost its name, but the trash knows it.
    for (id, entry) in trash::entries(io, at).await? {
        if entry.source != trash::OF_MIGRATION || entry.name != name {
            continue;
        }
        if let Some(source) = said(io, at, &id).await? {
            let (at, id) = (Place::new(source.pool, text(&source.namespace)?), text(&source.image)?);
            return Ok(said(io, &at, &id).await?.map(|spec| Migration { target: (at, id), spec }));
        }
    }
    Ok(None)
}

/// Returns what an image's header says about moving, if it does.
async fn said(io: &Io, at: &Place, id: &str) -> Result<Option<MigrationSpec>> {
    match io.call(at, &image::header(id), "migration_get", b"").await {
        Ok(spec) => Ok(Some(spec)),
        Err(fail) if [Errno::ENOENT, Errno::EINVAL].contains(&fail.errno) => Ok(None),
        Err(fail) => Err(fail),
    }
}

/// Both ends.
struct Ends {
    source: Image,
    target: Image,
    spec: MigrationSpec,
}

impl Migration {
    /// Returns why only the rbd command can go on with it, if so.
    pub fn refusal(&self) -> Option<Fail> {
        if !self.spec.source_spec.is_empty() {
            return Some(for_the_command("its source is not in this cluster"));
        }
        self.spec.image.is_empty().then(|| for_the_command("its source is of format 1"))
    }
}

impl Ends {
    async fn open(io: &Io, at: &Place, id: &str) -> Result<Self> {
        let target = Image::open(io, at, id).await?;
        let Some(spec) = said(io, at, id).await?.filter(|spec| spec.header_type == migration_header::DST) else {
            return Err(not_moving());
        };
        let migration = Migration { target: (at.clone(), id.to_owned()), spec };
        if let Some(refusal) = migration.refusal() {
            return Err(refusal);
        }
        let spec = migration.spec;
        let source = Image::open(io, &Place::new(spec.pool, text(&spec.namespace)?), &text(&spec.image)?).await?;
        Ok(Self { source, target, spec })
    }

    async fn set_state(&self, io: &Io, state: u8, description: &str) -> Result<()> {
        let input = (state, Bytes::copy_from_slice(description.as_bytes())).to_bytes();
        for end in [&self.source, &self.target] {
            io.exec(&end.at, &end.header(), "migration_set_state", &input).await?;
        }
        Ok(())
    }
}

fn not_moving() -> Fail {
    Fail::new(Errno::EINVAL, "the image is not migrating")
}

fn for_the_command(why: &str) -> Fail {
    Fail::new(Errno::EOPNOTSUPP, format!("the manager does not migrate this image, as {why}; the rbd command does"))
}

/// Copies all that the target still reads from the source. A client that has the target's lock is asked to do it.
///
/// # Errors
/// ENOENT: there is no such image. EINVAL: it is not moving, or not ready. EOPNOTSUPP: only the rbd command can.
pub async fn execute(io: &Io, at: &Place, id: &str, progress: &Progress) -> Result<()> {
    let ends = Ends::open(io, at, id).await?;
    match ends.spec.state {
        state::PREPARED | state::EXECUTING => {}
        state::EXECUTED => return Ok(()),
        _ => return Err(Fail::new(Errno::EINVAL, "the migration is not prepared, or is being given up")),
    }
    ends.set_state(io, state::EXECUTING, "").await?;
    match lock::take(io, &ends.target, Holder::Respect).await {
        Ok(held) => {
            let copied = copy_all(io, &ends, progress).await;
            held.release(io, &ends.target).await;
            copied?;
        }
        Err(fail) if fail.errno == Errno::EBUSY => notice::order(io, &ends.target, Work::Migrate, progress).await?,
        Err(fail) => return Err(fail),
    }
    ends.set_state(io, state::EXECUTED, "").await?;
    notice::header_changed(io, &ends.target).await;
    Ok(())
}

/// A state of the target that is made: what a snapshot sees, or the head.
struct Step {
    /// The source's snapshot, or [`NO_SNAP`].
    from: u64,
    /// The target's; none for its head.
    to: Option<u64>,
    chain: Chain,
    /// Bytes of the image that are copied.
    end: u64,
    /// Under which it is written.
    snapc: SnapContext,
}

async fn steps(io: &Io, ends: &Ends) -> Result<Vec<Step>> {
    let (source, target) = (&ends.source, &ends.target);
    let (mut steps, mut snapc) = (Vec::new(), SnapContext::default());
    for (from, to) in &ends.spec.snap_seqs {
        // One that was removed from the target meanwhile needs nothing.
        let Some(here) = target.snaps.iter().find(|s| s.info.id == *to) else { continue };
        let Some(there) = source.snaps.iter().find(|s| s.info.id == *from) else {
            return Err(Fail::new(Errno::EIO, format!("the source has lost its snapshot {from}")));
        };
        let end = ends.spec.overlap.min(there.info.image_size).min(here.info.image_size);
        let chain = Chain::of(io, source.clone(), *from).await?;
        steps.push(Step { from: *from, to: Some(*to), chain, end, snapc: snapc.clone() });
        snapc.seq = *to;
        snapc.snaps.insert(0, *to);
    }
    // Snapshots that were made since see the source's head, as the target's does.
    let mapped = snapc.seq;
    let newer = target.snaps.iter().filter(|s| s.info.id > mapped).map(|s| (Some(s.info.id), s.info.image_size));
    for (to, size) in newer.chain([(None, target.size)]) {
        let end = ends.spec.overlap.min(source.size).min(size);
        let chain = Chain::of(io, source.clone(), NO_SNAP).await?;
        steps.push(Step { from: NO_SNAP, to, chain, end, snapc: snapc.clone() });
        if let Some(to) = to {
            snapc.seq = to;
            snapc.snaps.insert(0, to);
        }
    }
    Ok(steps)
}

async fn copy_all(io: &Io, ends: &Ends, progress: &Progress) -> Result<()> {
    // The target is read again: before the lock, somebody may have changed it.
    let target = Image::open(io, &ends.target.at, &ends.target.id).await?;
    let ends = &Ends { source: ends.source.clone(), target, spec: ends.spec.clone() };
    let steps = &steps(io, ends).await?;
    let layout = ends.target.layout;
    let objects = layout.objects(steps.iter().map(|s| s.end).max().unwrap_or(0));
    progress.expect(objects);
    let at_a_time = (BYTES / layout.object_size).clamp(1, AT_A_TIME) as usize;
    let told = &Cell::new(0);
    each(at_a_time, 0..objects, |number| {
        let (io, progress) = (io.clone(), progress.clone());
        async move {
            progress.check()?;
            Copying { io: &io, ends, number }.run(steps).await?;
            progress.step()?;
            let percent = (progress.share() * 10.0) as u32 * 10;
            if percent < 100 && told.replace(percent) < percent {
                ends.set_state(&io, state::EXECUTING, &format!("{percent}% complete")).await?;
            }
            Ok(())
        }
    })
    .await
}

/// An object of the target that is made.
struct Copying<'a> {
    io: &'a Io,
    ends: &'a Ends,
    number: u64,
}

/// Mark that tells two states of an object apart: versions of the source's objects, how much of it the image has.
type Look = (Vec<Option<SnapId>>, u64);

impl Copying<'_> {
    async fn run(&self, steps: &[Step]) -> Result<()> {
        let versions = self.versions(steps).await?;
        if !self.ends.spec.flatten && versions.values().all(Option::is_none) {
            return Ok(());
        }
        let target = &self.ends.target;
        let (mut seen, mut before) = (None, None);
        for step in steps {
            let look = self.look(step, &versions);
            let (now, changes) = if seen.as_ref() == Some(&look) {
                (before.take(), Vec::new())
            } else {
                let now = self.content(step, &look).await?;
                let changes = difference(before.as_deref(), now.as_deref(), target.parent.is_some());
                (now, changes)
            };
            if now.is_some() {
                let state = if changes.is_empty() { object_map::unchanged(target) } else { object_map::EXISTS };
                object_map::note(self.io, target, step.to, self.number, state).await?;
            }
            self.write(step, changes).await?;
            (seen, before) = (Some(look), now);
        }
        Ok(())
    }

    /// The source's objects under this one, with all their versions.
    async fn versions(&self, steps: &[Step]) -> Result<BTreeMap<u64, Option<SnapList>>> {
        let source = &self.ends.source;
        let numbers: BTreeSet<u64> = steps.iter().flat_map(|step| self.under(step.end)).collect();
        let mut versions = BTreeMap::new();
        for number in numbers {
            versions.insert(number, self.io.versions(&source.data, &source.object(number)).await?);
        }
        Ok(versions)
    }

    /// Numbers of the source's objects under this one, up to the image's byte `end`.
    fn under(&self, end: u64) -> Vec<u64> {
        let parts = self.ends.target.layout.of_object(self.number, end);
        let below = |layout: Layout| parts.iter().flat_map(move |p| layout.of_image(p.image, p.len)).map(|e| e.object);
        below(self.ends.source.layout).collect()
    }

    fn look(&self, step: &Step, versions: &BTreeMap<u64, Option<SnapList>>) -> Look {
        let seen = |number: u64| versions.get(&number)?.as_ref().and_then(|list| seen_by(list, step.from));
        let size = self.ends.target.layout.of_object(self.number, step.end).iter().map(|p| p.len).sum();
        (self.under(step.end).into_iter().map(seen).collect(), size)
    }

    /// Returns what the object holds; nothing where only what the source is a clone of has something, as the target is
    /// a clone of that, too.
    async fn content(&self, step: &Step, look: &Look) -> Result<Option<Vec<u8>>> {
        let own = look.0.iter().any(Option::is_some);
        if !own && !self.ends.spec.flatten {
            return Ok(None);
        }
        let data = step.chain.object(self.io, &self.ends.target.layout, self.number, step.end).await?;
        Ok(Some(data).filter(|data| own || data.iter().any(|byte| *byte != 0)))
    }

    async fn write(&self, step: &Step, changes: Vec<Op>) -> Result<()> {
        if changes.is_empty() {
            return Ok(());
        }
        let target = &self.ends.target;
        let assert = Op::call("rbd", "assert_snapc_seq", &(step.snapc.seq, NOT_WRITTEN).to_bytes());
        let ops = std::iter::once(assert).chain(changes).collect();
        match self.io.write_ops(&target.data, &target.object(self.number), ops, step.snapc.clone()).await {
            Err(fail) if fail.errno == Errno::ERANGE => Ok(()),
            other => other,
        }
    }
}

/// The version of an object that a snapshot sees ([`NO_SNAP`]: the head).
fn seen_by(list: &SnapList, snap: u64) -> Option<SnapId> {
    if snap > list.seq {
        return list.clones.iter().map(|c| c.cloneid).find(|id| *id == SnapId::HEAD);
    }
    let clone = list.clones.iter().find(|c| c.cloneid != SnapId::HEAD && c.cloneid.0 >= snap)?;
    clone.snaps.contains(&snap).then_some(clone.cloneid)
}

/// Returns what makes an object of one content one of another. `hides`: an object that is there, though empty, is not
/// like none, as something lies below it.
fn difference(before: Option<&[u8]>, after: Option<&[u8]>, hides: bool) -> Vec<Op> {
    let (had, before) = (before.is_some(), before.unwrap_or_default());
    let Some(after) = after else {
        return if had { vec![Op::extent(code::TRUNCATE, 0, 0, Bytes::new())] } else { Vec::new() };
    };
    let mut ops = Vec::new();
    if !had && hides {
        ops.push(Op::new(code::CREATE, OpArgs::None));
    }
    if after.len() < before.len() {
        ops.push(Op::extent(code::TRUNCATE, after.len() as u64, 0, Bytes::new()));
    }
    let mut at = 0;
    while at < after.len() {
        let kind = change(before, after, at);
        let mut end = at + GRAIN;
        while end < after.len() && change(before, after, end) == kind {
            end += GRAIN;
        }
        let end = end.min(after.len());
        match kind {
            None => {}
            Some(code::WRITE) => {
                let data = Bytes::copy_from_slice(&after[at..end]);
                ops.push(Op::extent(code::WRITE, at as u64, (end - at) as u64, data));
            }
            Some(code) => ops.push(Op::extent(code, at as u64, (end - at) as u64, Bytes::new())),
        }
        at = end;
    }
    ops
}

/// Returns what has to be done to the grain at an offset: an operation, if any.
fn change(before: &[u8], after: &[u8], at: usize) -> Option<u16> {
    let grain = |data: &'_ [u8]| data.get(at..data.len().min(at + GRAIN)).unwrap_or_default().to_vec();
    let (mut before, after) = (grain(before), grain(after));
    before.resize(after.len(), 0);
    if before == after {
        None
    } else if after.iter().all(|byte| *byte == 0) {
        Some(code::ZERO)
    } else {
        Some(code::WRITE)
    }
}

/// Lets go of the source: the target stands by itself, the source goes with all its snapshots.
///
/// # Errors
/// ENOENT: there is no such image. EINVAL: it is not moving, or not all is copied. EBUSY: the source is in use.
/// EOPNOTSUPP: only the rbd command can.
pub async fn commit(io: &Io, at: &Place, id: &str, progress: &Progress) -> Result<()> {
    let target = Image::open(io, at, id).await?;
    let (source, source_id) = if target.has(feature::MIGRATING) {
        let ends = Ends::open(io, at, id).await?;
        if ends.spec.state != state::EXECUTED {
            return Err(Fail::new(Errno::EINVAL, "not all is copied yet"));
        }
        if ends.spec.mirroring {
            return Err(for_the_command("it is to be mirrored again"));
        }
        io.exec(at, &target.header(), "migration_remove", b"").await?;
        notice::header_changed(io, &target).await;
        (ends.source.at, ends.source.id)
    } else {
        // An earlier attempt came so far.
        find_source(io, at, id, Left::Entry).await?.ok_or_else(not_moving)?
    };
    remove::end_of_migration(io, &source, &source_id, progress).await?;
    trash::forget(io, &source, &source_id).await
}

/// Gives the target up: it goes, and the source is what it was.
///
/// # Errors
/// ENOENT: there is no such image. EINVAL: it is not moving. EBUSY: it is in use. EEXIST: the source's name is taken.
/// EOPNOTSUPP: only the rbd command can.
pub async fn abort(io: &Io, at: &Place, id: &str, progress: &Progress) -> Result<()> {
    let (source, source_id) = match Image::open(io, at, id).await.optional()? {
        Some(_) => {
            let ends = Ends::open(io, at, id).await?;
            if ends.spec.mirroring {
                return Err(for_the_command("its source is to be mirrored again"));
            }
            refuse_ties(io, &ends.target).await?;
            ends.set_state(io, state::ABORTING, "").await?;
            (ends.source.at, ends.source.id)
        }
        None => find_source(io, at, id, Left::Name).await?.ok_or_else(not_moving)?,
    };
    remove::end_of_migration(io, at, id, progress).await?;
    // By its header nothing leads to the target's name any more, but the name does to the target.
    if let Some(spec) = said(io, &source, &source_id).await? {
        trash::take_name(io, at, id, &text(&spec.image_name)?).await?;
    }
    let entry = trash::get(io, &source, &source_id).await?;
    trash::restore(io, &source, &source_id, &entry).await?;
    io.exec(&source, &image::header(&source_id), "migration_remove", b"").await?;
    notice::header_changed(io, &Image::open(io, &source, &source_id).await?).await;
    trash::forget(io, &source, &source_id).await
}

/// Returns what others have to do with an image that is to go would have to be moved back.
async fn refuse_ties(io: &Io, target: &Image) -> Result<()> {
    let group: GroupSpec = io.call(&target.at, &target.header(), "image_group_get", b"").await?;
    if group.pool >= 0 {
        return Err(for_the_command("it is in a group"));
    }
    let of = Bytes::copy_from_slice(target.id.as_bytes());
    for snap in &target.snaps {
        let mut clones = snap.info.child_count > 0;
        for (pool, _) in io.pools()? {
            let input = ((target.at.pool, of.clone()), snap.info.id).to_bytes();
            let old: Option<BTreeSet<Bytes>> =
                io.call(&Place::new(pool, ""), "rbd_children", "get_children", &input).await.optional()?;
            clones |= old.is_some_and(|old| !old.is_empty());
        }
        if clones {
            return Err(for_the_command("it has clones"));
        }
    }
    Ok(())
}

/// Remains that an earlier attempt may have left of a source that does not say any more where it moves to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Left {
    /// Its entry in the trash: all else is gone.
    Entry,
    /// All: it has its name back already.
    Name,
}

/// The image that was to move to one that does not know it any more.
async fn find_source(io: &Io, at: &Place, id: &str, left: Left) -> Result<Option<(Place, String)>> {
    for (pool, _) in io.pools()? {
        for nspace in io.namespaces(pool).await? {
            let here = Place::new(pool, nspace);
            for (candidate, entry) in trash::entries(io, &here).await? {
                if entry.source != trash::OF_MIGRATION {
                    continue;
                }
                let found = match said(io, &here, &candidate).await? {
                    Some(spec) => {
                        let end = (spec.header_type, spec.pool) == (migration_header::SRC, at.pool);
                        end && spec.namespace == at.nspace && spec.image == id
                    }
                    // One that has a header and is not on its way back may just be about to move.
                    None if left == Left::Entry => !io.exists(&here, &image::header(&candidate)).await?,
                    None => trash::is_restored(&entry),
                };
                if found {
                    return Ok(Some((here, candidate)));
                }
            }
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use messages::ops::CloneInfo;

    fn apply(before: Option<&[u8]>, ops: &[Op]) -> Option<Vec<u8>> {
        let mut data = before.map(<[u8]>::to_vec);
        for op in ops {
            let data = data.get_or_insert_with(Vec::new);
            match (op.code, &op.args) {
                (code::CREATE, _) => {}
                (code::TRUNCATE, OpArgs::Extent { offset, .. }) => data.resize(*offset as usize, 0),
                (code::WRITE, OpArgs::Extent { offset, length, .. }) => {
                    let (from, to) = (*offset as usize, (*offset + *length) as usize);
                    data.resize(data.len().max(to), 0);
                    data[from..to].copy_from_slice(&op.input);
                }
                (code::ZERO, OpArgs::Extent { offset, length, .. }) => {
                    let to = data.len().min((*offset + *length) as usize);
                    data[*offset as usize..to].fill(0);
                }
                other => panic!("{other:?}"),
            }
        }
        data
    }

    #[test]
    fn a_difference_makes_one_of_the_other_and_writes_no_more_than_that() {
        let mut contents: Vec<Option<Vec<u8>>> =
            vec![None, Some(Vec::new()), Some(vec![0; 3 * GRAIN]), Some(vec![7; 2 * GRAIN + 5])];
        let mut mixed = vec![0; 5 * GRAIN];
        mixed[GRAIN..2 * GRAIN].fill(7);
        mixed[4 * GRAIN + 9] = 1;
        contents.push(Some(mixed));
        for before in &contents {
            for after in &contents {
                let ops = difference(before.as_deref(), after.as_deref(), false);
                let made = apply(before.as_deref(), &ops);
                let (mut made, mut wanted) = (made.unwrap_or_default(), after.clone().unwrap_or_default());
                let len = made.len().max(wanted.len());
                made.resize(len, 0);
                wanted.resize(len, 0);
                assert_eq!(made, wanted);
                assert!(before != after || ops.is_empty());
            }
        }
        let ops = difference(Some(&[1; 4 * GRAIN]), Some(&[[1; 2 * GRAIN], [2; 2 * GRAIN]].concat()), false);
        assert_eq!(ops.iter().map(|op| (op.code, op.input.len())).collect::<Vec<_>>(), [(code::WRITE, 2 * GRAIN)]);
    }

    #[test]
    fn zeros_hide_what_lies_below() {
        assert!(difference(None, Some(&[0; 100]), false).is_empty());
        assert_eq!(difference(None, Some(&[0; 100]), true).len(), 1);
        assert_eq!(difference(Some(&[1; 100]), None, true).len(), 1);
    }

    #[test]
    fn snapshots_see_the_version_that_was_there() {
        let clone = |id: u64, snaps: &[u64]| CloneInfo { cloneid: SnapId(id), snaps: snaps.to_vec(), ..CloneInfo::default() };
        let head = CloneInfo { cloneid: SnapId::HEAD, ..CloneInfo::default() };
        let list = SnapList { clones: vec![clone(4, &[3, 4]), clone(9, &[9]), head.clone()], seq: 9 };
        let seen: Vec<_> = [2, 3, 4, 7, 9, 12, NO_SNAP].map(|snap| seen_by(&list, snap).map(|id| id.0)).into();
        let now = Some(SnapId::HEAD.0);
        assert_eq!(seen, [None, Some(4), Some(4), None, Some(9), now, now]);
        let removed = SnapList { clones: vec![clone(4, &[4])], seq: 6 };
        assert_eq!([4, 5, 7, NO_SNAP].map(|snap| seen_by(&removed, snap).is_some()), [true, false, false, false]);
        let made_late = SnapList { clones: vec![head], seq: 6 };
        assert_eq!([5, 6, 7].map(|snap| seen_by(&made_late, snap).is_some()), [false, false, true]);
    }
}
