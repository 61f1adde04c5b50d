//! What clients asked for and what they were told, and the judgement over it.
//!
//! An object's history is *linearizable* if all its operations can be put in one order that keeps what came before what
//! in real time (and, for one client's changes, their order of submission) and in which the model gives the answers that were given.
//! That takes in the rest: an acknowledged write that is lost, a retried append that happened twice, a transaction that
//! happened in part, wrong bytes. The search is Wing and Gong's, with the states that were seen kept (Lowe).

use crate::model::{Action, Context, Outcome, State, Told, apply, brief};
use crate::trace::seconds;
use crate::watchlog::WatchLog;
use foldhash::quality::FixedState;
use std::collections::{BTreeMap, HashSet};
use std::hash::BuildHasher;
use std::rc::Rc;

/// Answers that say nothing of what happened: EIO (the disk may be broken), ENOSPC.
const UNTOLD: [i32; 1] = [-5];
const ENOSPC: i32 = -28;
const EDQUOT: i32 = -122;

/// One operation.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Who: a number for each life of each client.
    pub client: u32,
    /// On what.
    pub object: String,
    /// What.
    pub action: Action,
    /// With what snapshots in mind.
    pub context: Context,
    /// Time when it was submitted, and as the how-manieth thing that happened to any client.
    pub begun: (u64, u64),
    /// Time when the answer came, and as the how-manieth thing.
    pub ended: Option<(u64, u64)>,
    /// The answer.
    pub outcome: Option<Outcome>,
    /// The version that the reply named; 0 if none.
    pub version: u64,
    /// A read that any copy may answer: it has no place among what its client asks of the primary.
    pub aside: bool,
}

/// All operations of a run.
#[derive(Debug, Default)]
pub struct History {
    /// In order of submission.
    pub entries: Vec<Entry>,
    moments: u64,
    /// Lives of clients so far.
    pub clients: u32,
    /// The cluster was full for a while: it drops writes that take room and goes on with what was asked after them, as Ceph
    /// does, so that one client's operations under way at the same time have no order.
    pub was_full: bool,
    /// Disks rot for good in this run: nobody can demand that they be whole.
    pub rotten: bool,
    /// Snapshots that clients keep themselves: the newest number ever, and those that stand, ascending.
    pub own_snaps: (u64, Vec<u64>),
    /// Watches and notifications.
    pub watches: WatchLog,
    /// Snapshots of the pool, by name.
    pool_snaps: BTreeMap<String, PoolSnap>,
    /// Snapshots whose removal was asked for, and as the how-manieth thing.
    removed: BTreeMap<u64, u64>,
}

/// A snapshot of the whole pool.
#[derive(Debug)]
struct PoolSnap {
    /// Time when it was asked for.
    begun: (u64, u64),
    /// Its number, once a client saw it.
    id: Option<u64>,
}

/// Who takes the pool's snapshots, among clients.
const POOL: u32 = 0;

impl History {
    /// A new life of a client.
    pub fn new_client(&mut self) -> u32 {
        self.clients += 1;
        self.clients
    }

    /// An operation was submitted; gives its number.
    pub fn begin(&mut self, client: u32, object: &str, action: Action, at: u64) -> usize {
        self.begin_with(client, object, action, Context::default(), at)
    }

    /// The same, with snapshots in mind.
    pub fn begin_with(&mut self, client: u32, object: &str, action: Action, context: Context, at: u64) -> usize {
        self.moments += 1;
        let begun = (at, self.moments);
        let object = object.to_string();
        self.entries.push(Entry { client, object, action, context, begun, ended: None, outcome: None, version: 0, aside: false });
        self.entries.len() - 1
    }

    /// A snapshot of the pool is asked for.
    pub fn snap_asked(&mut self, name: &str, at: u64) {
        self.moments += 1;
        self.pool_snaps.insert(name.into(), PoolSnap { begun: (at, self.moments), id: None });
    }

    /// A client sees a snapshot of the pool in its map.
    pub fn snap_seen(&mut self, name: &str, id: u64) {
        if let Some(snap) = self.pool_snaps.get_mut(name) {
            snap.id = Some(id);
        }
    }

    /// Names and numbers of the pool's snapshots that were seen and not removed.
    pub fn pool_snaps(&self) -> Vec<(String, u64)> {
        let seen = self.pool_snaps.iter().filter_map(|(name, snap)| Some((name.clone(), snap.id?)));
        seen.filter(|(_, id)| !self.removed.contains_key(id)).collect()
    }

    /// Snapshots whose removal was asked for, newest first.
    pub fn removed_snaps(&self) -> Vec<u64> {
        self.removed.keys().rev().copied().collect()
    }

    /// A snapshot's removal is asked for: what it shows from now on is not judged.
    pub fn snap_removed(&mut self, id: u64) {
        self.moments += 1;
        self.removed.entry(id).or_insert(self.moments);
    }

    /// Snapshots of the pool as they reach an object: each once, at any time after it was asked for, in order.
    fn taken_snaps(&self, object: &str) -> Vec<Entry> {
        let mut seen: Vec<(u64, &PoolSnap)> = self.pool_snaps.values().filter_map(|snap| Some((snap.id?, snap))).collect();
        seen.sort_unstable_by_key(|(id, _)| *id);
        let taken = seen.into_iter().map(|(id, snap)| Entry {
            client: POOL,
            object: object.into(),
            action: Action::TakeSnap(id),
            context: Context::default(),
            begun: snap.begun,
            ended: None,
            outcome: None,
            version: 0,
            aside: false,
        });
        taken.collect()
    }

    /// Returns true if it says something that must fit: what is seen of a snapshot that goes away does not.
    fn counts(&self, entry: &Entry) -> bool {
        let removed = entry.context.at.and_then(|snap| self.removed.get(&snap));
        removed.is_none_or(|removed| entry.ended.is_some_and(|(_, ended)| ended < *removed))
    }

    /// Its answer came.
    pub fn end(&mut self, number: usize, outcome: Outcome, version: u64, at: u64) {
        self.moments += 1;
        let entry = &mut self.entries[number];
        assert!(entry.ended.is_none(), "an operation ends once: {entry:?}");
        entry.ended = Some((at, self.moments));
        entry.outcome = Some(outcome);
        entry.version = version;
    }

    /// Operations with an answer.
    pub fn answered(&self) -> usize {
        self.entries.iter().filter(|e| e.ended.is_some()).count()
    }

    /// Judges the whole history; the error says what cannot be. Gives the number of objects whose history was too wild to judge:
    /// many operations that nobody was told the end of.
    pub fn check(&self) -> Result<u64, String> {
        let mut objects: BTreeMap<&str, Vec<&Entry>> = BTreeMap::new();
        for entry in &self.entries {
            objects.entry(&entry.object).or_default().push(entry);
        }
        let mut undecided = 0;
        for (name, entries) in objects {
            if !self.was_full {
                check_order_of_replies(name, &entries)?;
            }
            check_versions(name, &entries)?;
            let taken = self.taken_snaps(name);
            let all: Vec<&Entry> = taken.iter().chain(entries.into_iter().filter(|entry| self.counts(entry))).collect();
            undecided += u64::from(!linearize(name, &all, !self.was_full)?);
        }
        self.watches.check()?;
        Ok(undecided)
    }
}

/// Answers to one client about one object come in the order of its questions. Only a change may be answered before an earlier
/// read: when both are asked again, the change is answered out of the log, while the read sees what is not durable yet.
fn check_order_of_replies(name: &str, entries: &[&Entry]) -> Result<(), String> {
    // Of each client: the latest answer among its earlier changes, and among its earlier reads. What is seen at a snapshot is
    // another object.
    let mut latest: BTreeMap<(u32, Option<u64>), [Option<&Entry>; 2]> = BTreeMap::new();
    let moment = |entry: &Entry| entry.ended.map_or(0, |(_, moment)| moment);
    for entry in entries.iter().filter(|e| e.ended.is_some() && !e.aside) {
        let is_read = entry.action.is_read();
        let [change, read] = latest.entry((entry.client, entry.context.at)).or_default();
        let before = [*change, if is_read { *read } else { None }];
        if let Some(before) = before.into_iter().flatten().find(|before| moment(before) > moment(entry)) {
            return Err(format!("object {name}: answers out of order:\n  {}\n  {}", line(before), line(entry)));
        }
        let slot = if is_read { read } else { change };
        if slot.is_none_or(|known| moment(known) < moment(entry)) {
            *slot = Some(entry);
        }
    }
    Ok(())
}

/// Returns true if this certainly changed its object, and the answer names the version that it made.
fn makes_version(entry: &Entry) -> bool {
    let changes =
        matches!(entry.action, Action::WriteFull(_) | Action::Write(..) | Action::Append(_) | Action::AppendAndMark(..));
    changes && entry.version > 0 && entry.outcome == Some(Outcome::Done)
}

/// Every change has a version of its own, and versions grow with time.
fn check_versions(name: &str, entries: &[&Entry]) -> Result<(), String> {
    let mut writes: Vec<&&Entry> = entries.iter().filter(|e| makes_version(e)).collect();
    writes.sort_by_key(|e| e.version);
    for pair in writes.windows(2) {
        let (a, b) = (pair[0], pair[1]);
        if a.version == b.version || b.ended.is_some_and(|end| end.1 < a.begun.1) {
            return Err(format!("object {name}: versions do not follow time:\n  {}\n  {}", line(a), line(b)));
        }
    }
    Ok(())
}

/// One line of a report.
fn line(entry: &Entry) -> String {
    let end = entry.ended.map_or("never".into(), |(at, _)| seconds(at));
    let outcome = entry.outcome.as_ref().map_or("?".into(), |o| format!("{o:?}"));
    let begin = seconds(entry.begun.0);
    let context = match &entry.context {
        Context { at: Some(snap), .. } => format!(" at {snap}"),
        Context { seq: 0, .. } => String::new(),
        Context { seq, snaps, .. } => format!(" with {seq}:{snaps:?}"),
    };
    format!("{begin} to {end} client {}: {}{context} -> {outcome} v{}", entry.client, entry.action.brief(), entry.version)
}

/// An operation as the search sees it.
struct Item<'a> {
    entry: &'a Entry,
    /// What must come first: the same client's last change before, the change with the version before this one's (which keeps
    /// the search short), and the snapshots that the client knew of.
    after: Vec<usize>,
    /// `None`: the answer is not known, anything is right.
    expected: Option<&'a Outcome>,
    /// It may not have happened at all: the client's next change, after which it cannot happen any more.
    before: Option<usize>,
}

/// Returns what may be left out of the search, what is known of the rest; `ordered` if each client's order of
/// submission counts.
fn items<'a>(entries: &[&'a Entry], ordered: bool) -> Vec<Item<'a>> {
    let mut items: Vec<Item<'a>> = Vec::new();
    let mut last: BTreeMap<u32, usize> = BTreeMap::new();
    let mut untold: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    let mut snaps: Vec<(u64, usize)> = Vec::new();
    for entry in entries {
        let expected = match &entry.outcome {
            Some(Outcome::Error(e)) if UNTOLD.contains(e) => None,
            // What was refused for lack of room did not happen.
            Some(Outcome::Error(e)) if *e == ENOSPC || *e == EDQUOT => continue,
            other => other.as_ref(),
        };
        if expected.is_none() && entry.action.is_read() {
            continue;
        }
        let mut after: Vec<usize> = last.get(&entry.client).copied().into_iter().collect();
        if entry.client != POOL && (!ordered || entry.aside || entry.context.at.is_some()) {
            after.clear();
        }
        after.extend(snaps.iter().filter(|(id, _)| *id <= entry.context.known).map(|(_, i)| *i));
        // A read that is asked again, because its answer was lost, may see what its client wrote after it.
        if !entry.action.is_read() {
            if expected.is_none() && entry.ended.is_some() {
                // The client went on without it, and so may everything else.
                untold.entry(entry.client).or_default().push(items.len());
            } else {
                last.insert(entry.client, items.len());
                for left in untold.remove(&entry.client).into_iter().flatten().filter(|_| ordered) {
                    items[left].before = Some(items.len());
                }
            }
        }
        if let Action::TakeSnap(id) = entry.action {
            snaps.push((id, items.len()));
        }
        items.push(Item { entry, after, expected, before: None });
    }
    let mut versions: Vec<(u64, usize)> =
        items.iter().enumerate().filter(|(_, item)| makes_version(item.entry)).map(|(i, item)| (item.entry.version, i)).collect();
    versions.sort_unstable();
    for pair in versions.windows(2) {
        items[pair[1].1].after.push(pair[0].1);
    }
    items
}

impl Item<'_> {
    fn apply(&self, state: &mut State) -> Option<Outcome> {
        let told = Told { outcome: self.expected, version: self.entry.version };
        apply(state, &self.entry.action, &self.entry.context, told)
    }
}

type Bits = Vec<u64>;

/// A state, and its hash: an object may have hundreds of kilobytes.
#[derive(Clone)]
struct Hashed {
    state: Rc<State>,
    hash: u64,
}

impl Hashed {
    fn of(state: Rc<State>) -> Self {
        let hash = FixedState::default().hash_one(&*state);
        Self { state, hash }
    }
}

struct Search<'a> {
    items: Vec<Item<'a>>,
    done: Bits,
    /// Calls and returns in order of time, as `(item, is_return)`; unanswered ones return at the end of time.
    moments: Vec<(usize, bool)>,
    /// The moments of items that are not done, as a ring; the last place stands for both ends.
    ring: Vec<(usize, usize)>,
    /// Places in `moments` of an item's call and return.
    places: Vec<[usize; 2]>,
    /// Which items were done in which states already.
    seen: HashSet<(Bits, u64), FixedState>,
    longest: Vec<usize>,
    steps: u64,
}

/// Searches beyond this are given up.
const MOST_STEPS: u64 = 3_000_000;

/// Returns whether an order was found; false if the search was given up.
fn linearize(name: &str, entries: &[&Entry], ordered: bool) -> Result<bool, String> {
    let mut search = Search::new(items(entries, ordered));
    match search.run() {
        Some(false) => Err(search.report(name)),
        decided => Ok(decided.is_some()),
    }
}

impl<'a> Search<'a> {
    fn new(items: Vec<Item<'a>>) -> Self {
        let mut times = Vec::new();
        for (i, item) in items.iter().enumerate() {
            let end = item.entry.ended.filter(|_| item.expected.is_some()).map_or(u64::MAX, |e| e.1);
            times.extend([(item.entry.begun.1, i, false), (end, i, true)]);
        }
        times.sort_unstable();
        let n = times.len() + 1;
        let mut places = vec![[0; 2]; items.len()];
        for (at, (_, i, is_return)) in times.iter().enumerate() {
            places[*i][usize::from(*is_return)] = at;
        }
        Self {
            done: vec![0; items.len().div_ceil(64)],
            moments: times.into_iter().map(|(_, i, is_return)| (i, is_return)).collect(),
            ring: (0..n).map(|at| ((at + n - 1) % n, (at + 1) % n)).collect(),
            items,
            places,
            seen: HashSet::default(),
            longest: Vec::new(),
            steps: 0,
        }
    }

    fn is_done(&self, i: usize) -> bool {
        self.done[i / 64] >> (i % 64) & 1 == 1
    }

    fn take_out(&mut self, i: usize) {
        for at in self.places[i] {
            let (before, after) = self.ring[at];
            self.ring[before].1 = after;
            self.ring[after].0 = before;
        }
    }

    /// Undoes the last `take_out`.
    fn put_back(&mut self, i: usize) {
        for at in self.places[i].into_iter().rev() {
            let (before, after) = self.ring[at];
            self.ring[before].1 = at;
            self.ring[after].0 = at;
        }
    }

    /// Depth first, without recursion: `stack` holds the chosen items with the state before each.
    fn run(&mut self) -> Option<bool> {
        let mut stack: Vec<(usize, Hashed)> = Vec::new();
        let mut state = Hashed::of(Rc::default());
        let end = self.moments.len();
        let mut at = self.ring[end].1;
        while at != end {
            self.steps += 1;
            if self.steps > MOST_STEPS {
                return None;
            }
            let (i, is_return) = self.moments[at];
            if is_return && self.items[i].before.is_some() {
                // It did not happen.
                at = self.ring[at].1;
            } else if is_return {
                // It must have happened by now, and has not: the last choice was wrong.
                let Some((i, before)) = stack.pop() else { return Some(false) };
                self.done[i / 64] &= !(1 << (i % 64));
                self.put_back(i);
                state = before;
                at = self.ring[self.places[i][0]].1;
            } else if let Some(next) = self.try_item(i, &state) {
                stack.push((i, std::mem::replace(&mut state, next)));
                if stack.len() > self.longest.len() {
                    self.longest = stack.iter().map(|(i, _)| *i).collect();
                }
                self.take_out(i);
                at = self.ring[end].1;
            } else {
                at = self.ring[at].1;
            }
        }
        Some(true)
    }

    /// The state after item `i`, if it may come next, gives the right answer, and leads somewhere new.
    fn try_item(&mut self, i: usize, state: &Hashed) -> Option<Hashed> {
        let item = &self.items[i];
        if !item.after.iter().all(|before| self.is_done(*before)) || item.before.is_some_and(|next| self.is_done(next)) {
            return None;
        }
        let mut next = (*state.state).clone();
        if let (Some(expected), Some(outcome)) = (item.expected, item.apply(&mut next))
            && *expected != outcome
        {
            return None;
        }
        self.done[i / 64] |= 1 << (i % 64);
        // Reads are most of what is tried.
        let next = if item.entry.action.is_read() { state.clone() } else { Hashed::of(Rc::new(next)) };
        if self.seen.insert((self.done.clone(), next.hash)) {
            return Some(next);
        }
        self.done[i / 64] &= !(1 << (i % 64));
        None
    }

    fn report(&self, name: &str) -> String {
        let mut state = State::default();
        let mut text = format!("object {name}: its history is not linearizable. The longest order that fits ends with:\n");
        let from = self.longest.len().saturating_sub(8);
        for (n, i) in self.longest.iter().enumerate() {
            self.items[*i].apply(&mut state);
            if n >= from {
                text += &format!("  {}\n", line(self.items[*i].entry));
            }
        }
        let now = state.head.as_ref().map_or("no object".into(), |o| {
            let (xattrs, omap) = (Outcome::Map(o.xattrs.clone()), Outcome::Map(o.omap.clone()));
            format!("{:?}, xattrs {xattrs:?}, omap {omap:?}, header {}", Outcome::Data(o.data.clone()), brief(&o.header))
        });
        text += &format!("  which leaves {now}, version {:?}, newest snapshot {}\n", state.version, state.seq);
        for (snap, object) in &state.snaps {
            text += &format!("  and in snapshot {snap}: {:?}\n", Outcome::Data(object.data.clone()));
        }
        text += "and none of these can come next:\n";
        let rest = (0..self.items.len()).filter(|i| !self.longest.contains(i));
        for i in rest.take(12) {
            let mut after = state.clone();
            let expected = self.items[i].apply(&mut after);
            text += &format!("  {} (would be {expected:?})\n", line(self.items[i].entry));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Script(History);

    impl Script {
        fn begin(&mut self, client: u32, action: Action) -> usize {
            let at = self.0.entries.len() as u64 * 1_000_000_000;
            self.0.begin(client, "o", action, at)
        }
        fn end(&mut self, n: usize, outcome: Outcome) {
            self.0.end(n, outcome, 0, 1);
        }
        fn both(&mut self, client: u32, action: Action, outcome: Outcome) {
            let n = self.begin(client, action);
            self.end(n, outcome);
        }
    }

    fn script() -> Script {
        Script(History::default())
    }
    fn full(text: &str) -> Action {
        Action::WriteFull(text.as_bytes().to_vec())
    }
    fn append(text: &str) -> Action {
        Action::Append(text.as_bytes().to_vec())
    }
    fn data(text: &str) -> Outcome {
        Outcome::Data(text.as_bytes().to_vec())
    }

    #[test]
    fn what_can_be_is_accepted() {
        let mut s = script();
        let a = s.begin(1, full("a"));
        let b = s.begin(2, full("b"));
        s.both(3, Action::Read, data("b"));
        s.end(a, Outcome::Done);
        s.end(b, Outcome::Done);
        s.both(3, Action::Read, data("a"));
        // Never answered: may have happened, and may happen late.
        s.begin(4, append("x"));
        s.both(3, Action::Read, data("a"));
        s.both(3, Action::Read, data("ax"));
        s.both(3, Action::Delete, Outcome::Done);
        s.both(3, Action::Read, Outcome::Error(-2));
        s.0.check().expect("linearizable");
    }

    #[test]
    fn a_lost_write_a_double_append_and_a_stale_read_are_found() {
        let mut lost = script();
        lost.both(1, full("a"), Outcome::Done);
        lost.both(1, full("b"), Outcome::Done);
        lost.both(2, Action::Read, data("a"));
        assert!(lost.0.check().is_err_and(|e| e.contains("not linearizable")));

        let mut twice = script();
        twice.both(1, append("a"), Outcome::Done);
        twice.begin(1, append("b"));
        twice.both(2, Action::Read, data("abb"));
        assert!(twice.0.check().is_err());

        let mut flicker = script();
        flicker.begin(1, full("a"));
        flicker.both(2, Action::Read, data("a"));
        flicker.both(2, Action::Read, Outcome::Error(-2));
        assert!(flicker.0.check().is_err());
    }

    #[test]
    fn one_clients_order_is_kept() {
        let mut s = script();
        let a = s.begin(1, full("a"));
        let b = s.begin(1, full("b"));
        s.end(a, Outcome::Done);
        s.end(b, Outcome::Done);
        s.both(2, Action::Read, data("a"));
        assert!(s.0.check().is_err());

        let mut s = script();
        let a = s.begin(1, full("a"));
        let b = s.begin(1, full("b"));
        s.end(b, Outcome::Done);
        s.end(a, Outcome::Done);
        assert!(s.0.check().is_err_and(|e| e.contains("out of order")));
    }

    #[test]
    fn half_a_transaction_is_found() {
        let mut s = script();
        s.begin(1, Action::AppendAndMark(b"a".to_vec(), "k".into()));
        s.both(2, Action::Read, data("a"));
        s.both(2, Action::OmapGet, Outcome::Map(BTreeMap::new()));
        assert!(s.0.check().is_err());
    }

    #[test]
    fn versions_must_follow_time() {
        let mut h = History::default();
        for version in [5, 4] {
            let n = h.begin(1, "o", full("a"), 0);
            h.end(n, Outcome::Done, version, 0);
        }
        assert!(h.check().is_err_and(|e| e.contains("versions")));
    }

    #[test]
    fn long_histories_are_judged_fast() {
        let mut s = script();
        let mut text = String::new();
        for i in 0..400 {
            let open: Vec<usize> = (0..4).map(|c| s.begin(c, append(&format!("[{i}.{c}]")))).collect();
            for (c, n) in open.into_iter().enumerate() {
                text += &format!("[{i}.{c}]");
                s.end(n, Outcome::Done);
            }
            s.both(9, Action::Read, data(&text));
        }
        assert_eq!(s.0.check(), Ok(0));
    }
}
