//! What an object is, in the simplest words: the judge of what the cluster answers.
//!
//! Snapshots are modelled from their meaning: a snapshot shows the object as it was before the first change that was made with
//! the snapshot in its context. What a store keeps for that (clones, what they share) is no business of the model.

mod action;
mod change;

pub use action::{Action, Guard, Outcome, Pairs, brief};

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

const ENOENT: i32 = -2;
const EEXIST: i32 = -17;
const EBUSY: i32 = -16;
const ERANGE: i32 = -34;
const ENODATA: i32 = -61;
const EOVERFLOW: i32 = -75;
const ECANCELED: i32 = -125;
/// Below this, an error number tells an offset: where bytes differ from those that a client expected.
const MAX_ERRNO: i32 = 4095;

/// An object's content.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Object {
    /// Its bytes.
    pub data: Vec<u8>,
    /// Its attributes, those of classes left out.
    pub xattrs: Pairs,
    /// Its omap.
    pub omap: Pairs,
    /// The omap's header.
    pub header: Vec<u8>,
    /// Something was put into its omap, and the omap not cleared since.
    pub has_omap: bool,
    /// What class `version` counts.
    pub count: u64,
    /// Who holds the lock.
    pub locker: Option<u32>,
    /// What class `refcount` knows: references, and those that were given back. `None`: nothing yet.
    pub references: Option<(BTreeSet<String>, BTreeSet<String>)>,
}

/// Returns what clients copy: objects that are made once, `s0`, `s1`, ...
pub fn source(number: u64) -> Object {
    let tag = format!("[source{number}]").into_bytes();
    let lengths = [0, 10, 5_000, 150_000];
    let length = lengths[number as usize % lengths.len()];
    let data: Vec<u8> = tag.iter().chain(tag[1..tag.len() - 1].iter().cycle()).copied().take(length).collect();
    // Of some the omap does not fit into one answer between OSDs either, as those are cut in the simulator.
    let value: Vec<u8> = if number % 4 == 2 { tag.repeat(60) } else { tag.clone() };
    let keys = if number % 4 == 2 { 9 } else { 1 };
    let omap: Pairs = match number.is_multiple_of(2) {
        true => (0..keys).map(|key| (format!("k{}", (key + 1) % 9), value.clone())).collect(),
        false => Pairs::new(),
    };
    let xattrs = if number.is_multiple_of(3) { Pairs::new() } else { Pairs::from([("k0".to_owned(), tag)]) };
    Object { data, xattrs, has_omap: !omap.is_empty(), omap, ..Object::default() }
}

/// Returns what makes [`source`].
pub fn source_change(number: u64) -> Action {
    let object = source(number);
    let mut parts = vec![Action::WriteFull(object.data)];
    parts.extend(object.xattrs.into_iter().map(|(name, value)| Action::SetXattr(name, value)));
    if object.has_omap {
        parts.push(Action::OmapSet(object.omap));
    }
    Action::All(parts)
}

/// With what an operation was asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Context {
    /// Newest snapshot that a change must preserve.
    pub seq: u64,
    /// All of them, newest first.
    pub snaps: Vec<u64>,
    /// The snapshot that is looked at; `None` for the head.
    pub at: Option<u64>,
    /// Newest snapshot of the pool in the client's map.
    pub known: u64,
}

/// What a client was told, as far as the model has to follow it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Told<'a> {
    /// The outcome, if the operation was answered.
    pub outcome: Option<&'a Outcome>,
    /// The version in the answer; 0 if there is none.
    pub version: u64,
}

/// An object with its snapshots.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    /// What is seen without a snapshot.
    pub head: Option<Rc<Object>>,
    /// Its version, if a reply told.
    pub version: Option<u64>,
    /// Newest snapshot of the last change.
    pub seq: u64,
    /// What snapshots up to `seq` show, if it was anything.
    pub snaps: BTreeMap<u64, Rc<Object>>,
    /// Snapshots that show anything or nothing: somebody created the object with an older context than somebody before.
    pub blurred: BTreeSet<u64>,
    /// Nothing is known any more.
    pub lost: bool,
}

impl State {
    /// Returns what is seen at a snapshot, or without one. `Err` if nothing can be said.
    fn seen(&self, at: Option<u64>) -> Result<Option<&Object>, ()> {
        let object = match at {
            _ if self.lost => return Err(()),
            Some(snap) if self.blurred.contains(&snap) => return Err(()),
            Some(snap) if snap <= self.seq => self.snaps.get(&snap),
            _ => self.head.as_ref(),
        };
        Ok(object.map(|o| &**o))
    }

    /// What a change leaves to the snapshots in its context.
    fn preserve(&mut self, before: Option<Rc<Object>>, context: &Context) {
        match &before {
            Some(head) => {
                let new = context.snaps.iter().filter(|s| **s > self.seq);
                self.snaps.extend(new.map(|snap| (*snap, head.clone())));
            }
            None => self.blurred.extend((context.seq + 1..=self.seq).filter(|s| !self.snaps.contains_key(s))),
        }
        self.seq = self.seq.max(context.seq);
    }
}

/// Applies an action to an object, as the cluster must. `None`: the model does not know what the answer must be.
pub fn apply(state: &mut State, action: &Action, context: &Context, told: Told<'_>) -> Option<Outcome> {
    if let Action::TakeSnap(snap) = action {
        let context = Context { seq: *snap, snaps: vec![*snap], ..Context::default() };
        state.preserve(state.head.clone(), &context);
        return Some(Outcome::Done);
    }
    if action.is_read() {
        let Ok(object) = state.seen(context.at) else { return None };
        return Some(look(object, action));
    }
    let before = state.head.clone();
    let outcome = match change::apply(state, action, told) {
        Some(outcome) if !state.lost => outcome,
        _ => {
            state.lost = true;
            return None;
        }
    };
    let version = (told.version > 0 && told.outcome == Some(&Outcome::Done)).then_some(told.version);
    match outcome {
        Ok(true) => {
            state.preserve(before, context);
            state.version = version;
        }
        // Clearing an omap that is empty may count as a change, after a deletion that left a mark.
        Ok(false) if state.head.is_some() => state.version = version,
        _ => {}
    }
    Some(outcome.map_or_else(Outcome::Error, |_| Outcome::Done))
}

fn look(object: Option<&Object>, action: &Action) -> Outcome {
    let Some(object) = object else { return Outcome::Error(ENOENT) };
    match action {
        Action::Read | Action::SparseRead => Outcome::Data(object.data.clone()),
        Action::ReadAt(offset, length) => {
            let from = (*offset as usize).min(object.data.len());
            let to = (offset + length).min(object.data.len() as u64) as usize;
            Outcome::Data(object.data[from..to.max(from)].to_vec())
        }
        Action::Stat => Outcome::Size(object.data.len() as u64),
        Action::GetXattr(name) => object.xattrs.get(name).map_or(Outcome::Error(ENODATA), |v| Outcome::Data(v.clone())),
        Action::GetXattrs => Outcome::Map(object.xattrs.clone()),
        Action::OmapGet => Outcome::Map(object.omap.clone()),
        Action::OmapKeys => Outcome::Map(object.omap.keys().map(|k| (k.clone(), Vec::new())).collect()),
        Action::OmapByKeys(keys) => {
            Outcome::Map(keys.iter().filter_map(|k| Some((k.clone(), object.omap.get(k)?.clone()))).collect())
        }
        Action::OmapHeader => Outcome::Data(object.header.clone()),
        Action::OmapPage(after, most) => {
            let mut behind = object.omap.iter().filter(|(k, _)| *k > after).map(|(k, v)| (k.clone(), v.clone()));
            let page = behind.by_ref().take(*most as usize).collect();
            Outcome::Page(page, behind.next().is_some())
        }
        Action::VersionRead => Outcome::Size(object.count),
        Action::RefRead => {
            let none = || BTreeSet::from([String::new()]);
            let references = object.references.as_ref().map_or_else(none, |(references, _)| references.clone());
            Outcome::Map(references.into_iter().map(|r| (r, Vec::new())).collect())
        }
        other => unreachable!("{other:?} is no read"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(text: &str) -> Action {
        Action::WriteFull(text.as_bytes().to_vec())
    }

    fn with(seq: u64, snaps: &[u64]) -> Context {
        Context { seq, snaps: snaps.to_vec(), ..Context::default() }
    }

    fn read(state: &mut State, at: Option<u64>) -> Option<Outcome> {
        apply(state, &Action::Read, &Context { at, ..Context::default() }, Told::default())
    }

    fn data(text: &str) -> Option<Outcome> {
        Some(Outcome::Data(text.as_bytes().to_vec()))
    }

    #[test]
    fn snapshots_show_what_was_there_before_the_next_change() {
        let mut state = State::default();
        let none = Told::default();
        apply(&mut state, &write("a"), &with(0, &[]), none);
        assert_eq!(read(&mut state, Some(3)), data("a"), "nothing was written since");
        apply(&mut state, &write("b"), &with(3, &[3, 2]), none);
        assert_eq!((read(&mut state, Some(3)), read(&mut state, None)), (data("a"), data("b")));
        // The first write after a snapshot may be a deletion; then the snapshot still shows the object.
        apply(&mut state, &Action::Delete, &with(5, &[5, 3]), none);
        assert_eq!(read(&mut state, Some(5)), data("b"));
        assert_eq!(read(&mut state, None), Some(Outcome::Error(ENOENT)));
        apply(&mut state, &write("c"), &with(7, &[7]), none);
        assert_eq!(read(&mut state, Some(7)), Some(Outcome::Error(ENOENT)), "there was nothing");
        apply(&mut state, &Action::Rollback(3), &with(7, &[7]), none);
        assert_eq!(read(&mut state, None), data("a"));
        apply(&mut state, &Action::TakeSnap(9), &with(0, &[]), none);
        apply(&mut state, &write("d"), &with(0, &[]), none);
        assert_eq!((read(&mut state, Some(9)), read(&mut state, None)), (data("a"), data("d")));
    }

    #[test]
    fn a_change_of_several_parts_happens_whole_or_not_at_all() {
        let mut state = State::default();
        let both = |second| Action::All(vec![write("a"), second]);
        let refused = apply(&mut state, &both(Action::CreateExclusively), &Context::default(), Told::default());
        assert_eq!((refused, &state.head), (Some(Outcome::Error(EEXIST)), &None));
        apply(&mut state, &both(Action::Append(b"b".to_vec())), &Context::default(), Told::default());
        assert_eq!(read(&mut state, None), data("ab"));
        let guarded = Action::If(Guard::Bytes(1, b"x".to_vec()), Box::new(Action::Delete));
        let refused = apply(&mut state, &guarded, &Context::default(), Told::default());
        assert_eq!(refused, Some(Outcome::Error(-MAX_ERRNO)));
    }
}
