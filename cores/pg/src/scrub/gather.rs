//! What the copies say of a range of objects, put together by the primary.

use super::compare::Copy;
use super::entry::{Answer, Ask, Entry};
use std::collections::{BTreeMap, BTreeSet};
use types::{CopyId, HObject};

/// Entries of one copy for one range at most: more than that is no answer to a question of ours.
const MOST: usize = 1 << 16;

/// Words of another copy.
#[derive(Clone, Debug)]
struct Other {
    /// The rest is asked from here on.
    from: HObject,
    done: bool,
    unreadable: bool,
    found: Vec<Entry>,
}

/// A question to all other copies, and their answers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gathering {
    ask: Ask,
    others: BTreeMap<CopyId, Other>,
}

/// One object: what each copy has of it.
pub(crate) type Row<'a> = (&'a HObject, Vec<Copy<'a>>);

impl Gathering {
    /// A question to `whom`.
    pub(crate) fn new(ask: Ask, whom: impl Iterator<Item = CopyId>) -> Self {
        let other = Other { from: ask.from.clone(), done: false, unreadable: false, found: Vec::new() };
        Self { others: whom.map(|copy| (copy, other.clone())).collect(), ask }
    }

    /// Returns true if all have said everything.
    pub(crate) fn is_complete(&self) -> bool {
        self.others.values().all(|other| other.done)
    }

    /// Returns what is to be asked of a copy now, if something is.
    pub(crate) fn question(&self, copy: CopyId) -> Option<Ask> {
        let other = self.others.get(&copy).filter(|other| !other.done)?;
        Some(Ask { from: other.from.clone(), ..self.ask.clone() })
    }

    /// Copies whose list of objects cannot be read.
    pub(crate) fn unreadable(&self) -> impl Iterator<Item = CopyId> + '_ {
        self.others.iter().filter(|(_, other)| other.unreadable).map(|(copy, _)| *copy)
    }

    /// Takes an answer. False if it answers nothing that was asked.
    pub(crate) fn hear(&mut self, from: CopyId, answer: Answer) -> bool {
        let Some(other) = self.others.get_mut(&from).filter(|other| !other.done && answer.serial == self.ask.serial) else {
            return false;
        };
        let begins = answer.found.first().is_none_or(|first| first.object >= other.from);
        // An earlier part may come twice. One that does not get on would be asked for again for ever.
        if !begins || answer.upto <= other.from || answer.upto > self.ask.to {
            return false;
        }
        other.found.extend(answer.found);
        other.unreadable = answer.unreadable || other.found.len() > MOST;
        other.done = other.unreadable || answer.upto == self.ask.to;
        other.from = answer.upto;
        true
    }

    /// All objects of the range, and what each copy that tells all has of them. `skips` says of which copy nothing is expected.
    pub(crate) fn rows<'a>(&'a self, me: CopyId, own: &'a [Entry], skips: impl Fn(CopyId, &HObject) -> bool) -> Vec<Row<'a>> {
        let others = self.others.iter().filter(|(_, other)| other.done && !other.unreadable);
        let lists: Vec<(CopyId, &[Entry])> =
            std::iter::once((me, own)).chain(others.map(|(copy, other)| (*copy, &other.found[..]))).collect();
        let names: BTreeSet<&HObject> = lists.iter().flat_map(|(_, list)| list.iter().map(|entry| &entry.object)).collect();
        let entry =
            |list: &'a [Entry], name: &HObject| list.binary_search_by(|entry| entry.object.cmp(name)).ok().map(|at| &list[at]);
        let row = |name: &'a HObject| {
            let there = lists.iter().filter(|(copy, _)| !skips(*copy, name));
            (name, there.map(|(copy, list)| Copy { id: *copy, primary: *copy == me, entry: entry(list, name) }).collect())
        };
        names.into_iter().map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scrub::compare::agree;
    use bytes::Bytes;
    use types::{Locator, SnapId};

    fn entry(name: &'static str, size: u64) -> Entry {
        let object = HObject::head(Bytes::from_static(name.as_bytes()), &Locator { hash: 0, ..Locator::pool(1) });
        Entry { object, size, ..Entry::default() }
    }

    fn copy(osd: i32) -> CopyId {
        CopyId::whole(osd)
    }

    fn gathering() -> Gathering {
        let (from, to) = (HObject::start_of_hash(1, 0), HObject::start_of_hash(1, 1 << 31));
        Gathering::new(Ask { serial: 5, from, to, ..Ask::default() }, [copy(1), copy(2)].into_iter())
    }

    fn answer(found: Vec<Entry>, upto: Option<HObject>) -> Answer {
        let upto = upto.unwrap_or_else(|| HObject::start_of_hash(1, 1 << 31));
        Answer { serial: 5, upto, unreadable: false, found }
    }

    #[test]
    fn answers_come_in_parts_and_twice() {
        let mut g = gathering();
        let first = answer(vec![entry("a", 1)], Some(entry("b", 1).object));
        assert!(g.hear(copy(1), first.clone()));
        assert!(!g.hear(copy(1), first), "it came twice");
        assert_eq!(g.question(copy(1)).map(|ask| ask.from), Some(entry("b", 1).object));
        assert!(!g.hear(copy(3), answer(vec![], None)), "nobody asked osd.3");
        assert!(!g.hear(copy(1), Answer { serial: 4, ..answer(vec![], None) }), "of another question");
        assert!(g.hear(copy(1), answer(vec![entry("b", 1)], None)) && !g.is_complete());
        assert!(g.question(copy(1)).is_none());
        assert!(g.question(copy(2)).is_some(), "osd.2 has said nothing");
        assert!(g.hear(copy(2), answer(vec![entry("b", 2)], None)) && g.is_complete());
        let own = [entry("a", 1), entry("b", 1)];
        let rows = g.rows(copy(0), &own, |_, _| false);
        assert_eq!(rows.len(), 2);
        assert!(rows.iter().all(|(_, copies)| copies.len() == 3 && !agree(copies)));
        let rows = g.rows(copy(0), &own, |of, _| of == copy(2));
        assert!(rows.iter().all(|(_, copies)| copies.len() == 2 && agree(copies)));
    }

    #[test]
    fn an_answer_that_does_not_get_on_or_leaves_the_range_counts_for_nothing() {
        let mut g = gathering();
        assert!(!g.hear(copy(1), answer(vec![], Some(HObject::start_of_hash(1, 0)))));
        assert!(!g.hear(copy(1), answer(vec![], Some(HObject::start_of_hash(2, 0)))));
        let behind = Entry { object: HObject::start_of_hash(0, 0).at(SnapId::HEAD), ..Entry::default() };
        assert!(!g.hear(copy(1), answer(vec![behind], None)));
        assert!(g.hear(copy(1), Answer { unreadable: true, ..answer(vec![], None) }));
        assert_eq!(g.unreadable().collect::<Vec<_>>(), [copy(1)]);
        assert_eq!(g.rows(copy(0), &[entry("a", 1)], |_, _| false)[0].1.len(), 1);
    }
}
