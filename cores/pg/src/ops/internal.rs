//! Changes that the group makes to an object by itself: removing dead watches, trimming clones. They run over the same
//! view as operations and are logged like them.

use crate::body::{Body, IndexChange};
use crate::changed::Changed;
use crate::entry::{Done, Kind, LogEntry};
use crate::info::SnapSet;
use crate::ops::run::{Env, Exec, Object, Outcome, Side};
use crate::stats::Stats;
use objectstore::{ObjectChange, ObjectChanges};
use types::{EVersion, HObject, ObjectId, SnapId, UTime};

/// A logged change of `object` that users do not see, behind the other entries and changes of `body`.
fn changed(env: &Env<'_>, mut object: Object, mut body: Body) -> Outcome {
    let entries = &mut body.entries;
    let next = env.next_version();
    let version = EVersion { version: next.version + entries.len() as u64, ..next };
    let prior = object.info.version;
    let kind = if object.exists { Kind::Modify } else { Kind::Delete };
    let own = if object.exists {
        object.info.version = version;
        ObjectChange::SetInfo(object.info.encode())
    } else {
        ObjectChange::Remove
    };
    let done = Done { version, user_version: object.info.user_version, ..Done::default() };
    let (object_name, snaps, changed) = (object.at.object.clone(), Vec::new(), Changed::All);
    entries.push(LogEntry { kind, object: object_name, prior, mtime: UTime::ZERO, snaps, changed, before: None, done });
    body.objects.push(ObjectChanges { object: object.at, changes: vec![own] });
    Outcome::Write { result: 0, results: Vec::new(), user_version: 0, sides: Vec::new(), change: body.into() }
}

/// Removes a watch that is over, unless its holder came back meanwhile.
pub(crate) fn expire(env: &Env<'_>, head: &ObjectId, cookie: u64, holder: (u8, i64)) -> Exec<Outcome> {
    if !env.watches.is_dying(head, cookie, holder) {
        return Ok(Outcome::Drop);
    }
    let mut object = env.load(head)?;
    let side = Side::Disconnect { cookie, holder, tell: true };
    let Ok(at) = object.info.watch(cookie, holder) else {
        let sides = vec![side];
        let (results, delta) = (Vec::new(), Stats::default());
        return Ok(Outcome::Read { result: 0, results, user_version: 0, sides, delta });
    };
    object.info.watchers.remove(at);
    let mut body = Body::default();
    if object.info.watchers.is_empty() {
        body.index.push(IndexChange::Unwatched(HObject::clone(&head.object)));
    }
    let mut outcome = changed(env, object, body);
    if let Outcome::Write { sides, .. } = &mut outcome {
        sides.push(side);
    }
    Ok(outcome)
}

/// Bytes of an object's clones that they do not share with a newer neighbour.
pub(crate) fn clone_bytes(set: &SnapSet) -> u64 {
    (0..set.clones.len()).map(|i| set.own_bytes(i)).sum()
}

/// Takes a removed snapshot from the clone that serves it, and removes the clone if it serves no other.
pub(crate) fn trim(env: &Env<'_>, head: &ObjectId, snap: u64) -> Exec<Outcome> {
    let mut object = env.load(head)?;
    let index = vec![IndexChange::NoSnap(snap, HObject::clone(&head.object))];
    let mut body = Body { index, ..Body::default() };
    let delta = &mut body.delta;
    let set = &mut object.info.snaps;
    let Some(at) = set.clones.iter().position(|c| c.snaps.contains(&snap)) else {
        // The index names a clone that is not there (any more): only the index entry goes.
        return Ok(Outcome::Write { result: 0, results: Vec::new(), user_version: 0, sides: Vec::new(), change: body.into() });
    };
    set.clones[at].snaps.retain(|s| *s != snap);
    let clone = head.at(SnapId(set.clones[at].id));
    let loaded = env.load(&clone)?;
    let kind = if set.clones[at].snaps.is_empty() { Kind::Delete } else { Kind::Modify };
    let snaps = set.clones[at].snaps.clone();
    if set.clones[at].snaps.is_empty() {
        let before = clone_bytes(set) as i64;
        let gone = set.clones.remove(at);
        if let Some(older) = at.checked_sub(1).map(|i| &mut set.clones[i]) {
            older.overlap = older.overlap.intersection(&gone.overlap);
        }
        delta.bytes += clone_bytes(set) as i64 - before;
        delta.objects -= 1;
        delta.clones -= 1;
        delta.omap_objects -= i64::from(loaded.exists && loaded.info.omap);
        body.objects.push(crate::object::removal(clone.clone()));
    }
    if object.info.snaps.clones.is_empty() && object.info.is_whiteout() {
        object.exists = false;
        delta.objects -= 1;
        delta.whiteouts -= 1;
        delta.omap_objects -= i64::from(object.info.omap);
    }
    // Clone and head get a version each, as in Ceph: users see how versions move.
    let done = Done { version: env.next_version(), ..Done::default() };
    let (prior, mtime) = (loaded.info.version, UTime::ZERO);
    let entry = LogEntry { kind, object: clone.object, prior, mtime, snaps, changed: Changed::All, before: None, done };
    body.entries.push(entry);
    Ok(changed(env, object, body))
}
