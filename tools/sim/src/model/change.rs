//! Changes of an object's head.

use super::{Action, EBUSY, ECANCELED, EEXIST, ENOENT, EOVERFLOW, ERANGE, Guard, MAX_ERRNO, Object, Outcome, State, Told};
use std::collections::BTreeSet;
use std::rc::Rc;

/// Whether something changed, or an error number.
type Change = Result<bool, i32>;

/// Changes the head; `None` if nothing is known of it any more.
pub(super) fn apply(state: &mut State, action: &Action, told: Told<'_>) -> Option<Change> {
    match action {
        Action::If(Guard::Version(wanted), action) => match version_holds(state, *wanted, told)? {
            Err(errno) => Some(Err(errno)),
            Ok(()) => apply(state, action, told),
        },
        Action::If(guard @ Guard::Xattr(..), action) => match attribute_holds(state, guard, told)? {
            Err(errno) => Some(Err(errno)),
            Ok(()) => apply(state, action, told),
        },
        Action::If(guard, action) => match holds(state.head.as_deref(), guard) {
            Err(errno) => Some(Err(errno)),
            Ok(()) => apply(state, action, told),
        },
        Action::DeleteIf(name, value) => match attribute_holds(state, &Guard::Xattr(name.clone(), value.clone()), told)? {
            Err(errno) => Some(Err(errno)),
            Ok(()) => Some(alone(&mut state.head, &Action::Delete)),
        },
        Action::Rollback(snap) => {
            let target = match state.seen(Some(*snap)) {
                Ok(target) => target.cloned(),
                Err(()) => return None,
            };
            let changed = target.is_some() || state.head.is_some();
            state.head = target.map(Rc::new);
            Some(Ok(changed))
        }
        Action::All(actions) => {
            let before = state.head.clone();
            let mut changed = false;
            for action in actions {
                match alone(&mut state.head, action) {
                    Ok(more) => changed |= more,
                    Err(errno) => {
                        state.head = before;
                        return Some(Err(errno));
                    }
                }
            }
            Some(Ok(changed))
        }
        action => Some(alone(&mut state.head, action)),
    }
}

/// Returns whether the object has this version. If the model does not know its version, the answer that was given is
/// taken for right.
fn version_holds(state: &State, wanted: u64, told: Told<'_>) -> Option<Result<(), i32>> {
    let errno = match (state.head.is_some(), state.version, told.outcome) {
        (true, Some(version), _) => match version.cmp(&wanted) {
            std::cmp::Ordering::Less => EOVERFLOW,
            std::cmp::Ordering::Greater => ERANGE,
            std::cmp::Ordering::Equal => return Some(Ok(())),
        },
        // An object that is not there has the version 0, unless it left a mark: see `marked`.
        (false, ..) if !marked(state) => EOVERFLOW,
        (_, _, Some(Outcome::Error(errno))) if [EOVERFLOW, ERANGE].contains(errno) => *errno,
        (_, _, Some(_)) => return Some(Ok(())),
        (_, _, None) => return None,
    };
    Some(Err(errno))
}

/// Returns true if a deleted object may have left a mark: one that snapshots still show does, until the last of them
/// is trimmed. The mark has no attributes, and the version of the deletion, as in Ceph. The model knows of no
/// trimming: where it cannot tell, it takes the answer that was given for right.
fn marked(state: &State) -> bool {
    state.head.is_none() && !(state.snaps.is_empty() && state.blurred.is_empty())
}

/// Returns whether an attribute compares.
fn attribute_holds(state: &State, guard: &Guard, told: Told<'_>) -> Option<Result<(), i32>> {
    if !marked(state) {
        return Some(holds(state.head.as_deref(), guard));
    }
    match told.outcome? {
        Outcome::Error(ENOENT) => Some(Err(ENOENT)),
        _ => Some(holds(Some(&Object::default()), guard)),
    }
}

fn holds(object: Option<&Object>, guard: &Guard) -> Result<(), i32> {
    let empty = Object::default();
    let there = object.unwrap_or(&empty);
    let equal = |have: Option<&Vec<u8>>, value: &Vec<u8>| have.map_or(&[][..], |v| v) == value;
    match guard {
        Guard::Xattr(..) | Guard::Omap(..) if object.is_none() => Err(ENOENT),
        Guard::Xattr(name, value) if equal(there.xattrs.get(name), value) => Ok(()),
        Guard::Omap(key, value) if equal(there.omap.get(key), value) => Ok(()),
        Guard::Xattr(..) | Guard::Omap(..) => Err(ECANCELED),
        Guard::Bytes(offset, bytes) => {
            let mut have = there.data.iter().skip(*offset as usize).copied().chain(std::iter::repeat(0));
            let differs = bytes.iter().position(|byte| Some(*byte) != have.next());
            differs.map_or(Ok(()), |at| Err(-MAX_ERRNO - at as i32))
        }
        Guard::Version(_) => unreachable!("versions are looked at elsewhere"),
    }
}

/// A change that needs nothing but the head.
fn alone(head: &mut Option<Rc<Object>>, action: &Action) -> Change {
    match action {
        Action::Delete => head.take().map(|_| true).ok_or(ENOENT),
        Action::CreateExclusively if head.is_some() => Err(EEXIST),
        // Zeroing or cutting what is not there is no error, and creates nothing.
        Action::Zero(..) | Action::Truncate(_) if head.is_none() => Ok(false),
        Action::Zero(offset, _) if head.as_ref().is_some_and(|o| *offset as usize >= o.data.len()) => Ok(false),
        Action::OmapRemove(_) | Action::OmapRemoveRange(..) | Action::OmapClear | Action::RemoveXattr(_) | Action::Unlock(_)
            if head.is_none() =>
        {
            Err(ENOENT)
        }
        Action::RefGet(_) | Action::RefPut(_) if head.is_none() => Err(ENOENT),
        Action::OmapClear if head.as_ref().is_some_and(|o| !o.has_omap) => Ok(false),
        Action::Lock(client) => match head.as_ref().and_then(|o| o.locker) {
            Some(holder) => Err(if holder == *client { EEXIST } else { EBUSY }),
            None => content(head, |o| o.locker = Some(*client)),
        },
        Action::Unlock(client) => match head.as_ref().and_then(|o| o.locker) {
            Some(holder) if holder == *client => content(head, |o| o.locker = None),
            _ => Err(ENOENT),
        },
        Action::VersionIncrementIf(count) if head.as_ref().map_or(0, |o| o.count) != *count => Err(ECANCELED),
        Action::RefPut(tag) => put_reference(head, tag),
        Action::CopyOf(number) => content(head, |object| *object = super::source(*number)),
        action => content(head, |object| change(object, action)),
    }
}

fn content(head: &mut Option<Rc<Object>>, change: impl FnOnce(&mut Object)) -> Change {
    change(Rc::make_mut(head.get_or_insert_default()));
    Ok(true)
}

/// References of an object that never heard of them: one, that anybody may give back.
fn references(object: &mut Object) -> &mut (BTreeSet<String>, BTreeSet<String>) {
    object.references.get_or_insert_with(|| (BTreeSet::from([String::new()]), BTreeSet::new()))
}

fn put_reference(head: &mut Option<Rc<Object>>, tag: &str) -> Change {
    let mut object = head.as_deref().cloned().unwrap_or_default();
    let (held, retired) = references(&mut object);
    let found = if held.contains(tag) { tag } else { "" };
    if !held.contains(found) || retired.contains(tag) {
        return Ok(false);
    }
    held.remove(found);
    retired.insert(tag.into());
    *head = if held.is_empty() { None } else { Some(Rc::new(object)) };
    Ok(true)
}

fn write(data: &mut Vec<u8>, from: usize, bytes: &[u8]) {
    data.resize(data.len().max(from + bytes.len()), 0);
    data[from..from + bytes.len()].copy_from_slice(bytes);
}

fn change(object: &mut Object, action: &Action) {
    match action {
        Action::WriteFull(data) => object.data.clone_from(data),
        Action::Write(offset, data) => write(&mut object.data, *offset as usize, data),
        Action::WriteSame(offset, times, data) => write(&mut object.data, *offset as usize, &data.repeat(*times as usize)),
        Action::Append(data) => object.data.extend_from_slice(data),
        Action::Truncate(size) => object.data.resize(*size as usize, 0),
        Action::Zero(offset, len) => {
            let (from, to) = (*offset as usize, (offset + len) as usize);
            match object.data.len() {
                size if from >= size => {}
                size if to >= size => object.data.truncate(from),
                _ => object.data[from..to].fill(0),
            }
        }
        Action::SetXattr(name, value) => {
            object.xattrs.insert(name.clone(), value.clone());
        }
        Action::RemoveXattr(name) => {
            object.xattrs.remove(name);
        }
        Action::CreateExclusively => {}
        Action::VersionIncrement | Action::VersionIncrementIf(_) => object.count += 1,
        Action::RefGet(tag) => {
            references(object).0.insert(tag.clone());
        }
        action => change_omap(object, action),
    }
}

fn change_omap(object: &mut Object, action: &Action) {
    match action {
        Action::OmapSet(map) => {
            object.omap.extend(map.clone());
            object.has_omap = true;
        }
        Action::OmapSetHeader(header) => {
            object.header.clone_from(header);
            object.has_omap = true;
        }
        Action::OmapRemove(keys) => object.omap.retain(|key, _| !keys.contains(key)),
        Action::OmapRemoveRange(first, end) => object.omap.retain(|key, _| key < first || key >= end),
        Action::OmapClear => {
            object.omap.clear();
            object.header.clear();
            object.has_omap = false;
        }
        Action::AppendAndMark(data, key) => {
            object.data.extend_from_slice(data);
            object.omap.insert(key.clone(), data.clone());
            object.has_omap = true;
        }
        Action::Add(key, number) => {
            let text = object.omap.get(key).map(|v| String::from_utf8_lossy(v).into_owned());
            let sum = text.map_or(0, |t| t.parse::<i64>().unwrap_or(0)) + number;
            object.omap.insert(key.clone(), sum.to_string().into_bytes());
            object.has_omap = true;
        }
        other => unreachable!("{other:?} is not a change in place"),
    }
}
