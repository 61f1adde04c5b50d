//! The other copies, as a primary sees them: what they hold, what they lack, and the stream of changes to each.
//!
//! A stream numbers the bodies for one copy from 1, in one interval. It keeps each until the copy says that it is durable there, and
//! sends all that is not acknowledged again when the session was broken. So it does not matter what gets lost, or comes twice.

use crate::api::PeerQuery;
use crate::body::Body;
use crate::letter::{self, Envelope, Sealed};
use crate::missing::{Lack, Missing, is_missing};
use crate::object::is_staged;
use crate::primary::backfill::Backfill;
use crate::recorder::OpKey;
use crate::scheme::{Scheme, Shares};
use crate::sizes::Sizes;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use types::{CopyId, EVersion, HObject, ObjectId, ShardId, SnapId};

/// A body on its way to a copy.
pub(crate) struct Shipped {
    number: u64,
    /// Its place among all changes of the group in this interval.
    order: u64,
    /// The client's operation that it is of, which may be over.
    op: OpKey,
    /// It brings what the copy lacked.
    pushes: bool,
    body: Sealed,
}

/// OSDs by their names, with commas between them.
pub(crate) fn named(copies: &[CopyId]) -> String {
    copies.iter().map(|copy| format!("osd.{copy}")).collect::<Vec<_>>().join(", ")
}

fn size(body: &Sealed) -> usize {
    body.front.len() + body.data.len()
}

/// The bodies for one copy that are not durable there.
#[derive(Default)]
pub(crate) struct Stream {
    last: u64,
    under_way: VecDeque<Shipped>,
    bytes: usize,
    /// How many of them bring what the copy lacked.
    pushes: usize,
}

impl Stream {
    /// Adds a body; gives its letter. `to`: the copy that the stream goes to.
    pub(crate) fn add(&mut self, to: CopyId, envelope: &Envelope, order: u64, op: OpKey, pushes: bool, body: &Sealed) -> Sealed {
        self.last += 1;
        self.bytes += size(body);
        self.pushes += usize::from(pushes);
        self.under_way.push_back(Shipped { number: self.last, order, op, pushes, body: body.clone() });
        letter::with_body(&envelope.to(to), self.last, body)
    }

    /// Number of the newest.
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// All up to this number are durable; `each` is told whose they are, with their numbers. False if no such body was sent.
    pub(crate) fn acknowledged(&mut self, number: u64, mut each: impl FnMut(u64, OpKey)) -> bool {
        while let Some(first) = self.under_way.front().filter(|first| first.number <= number) {
            self.bytes -= size(&first.body);
            self.pushes -= usize::from(first.pushes);
            each(first.number, first.op);
            self.under_way.pop_front();
        }
        number <= self.last
    }

    /// The letters that are not acknowledged, in order; the envelope is that of letters to the copy.
    pub(crate) fn unacknowledged<'a>(&'a self, envelope: &'a Envelope) -> impl Iterator<Item = Sealed> + 'a {
        self.under_way.iter().map(|shipped| letter::with_body(envelope, shipped.number, &shipped.body))
    }

    /// The place of the oldest change that is not durable there; none comes before `u64::MAX`.
    pub(crate) fn oldest(&self) -> u64 {
        self.under_way.front().map_or(u64::MAX, |first| first.order)
    }

    /// Returns true once so much is under way that clients must wait for it, whoever it is for.
    fn is_full(&self, sizes: &Sizes) -> bool {
        self.bytes > sizes.ahead || self.under_way.len() > sizes.ahead_bodies
    }

    /// Bodies under way.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn bodies(&self) -> usize {
        self.under_way.len()
    }

    /// Bytes under way.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bodies under way that bring what the copy lacked.
    pub(crate) fn pushes(&self) -> usize {
        self.pushes
    }
}

/// Another copy of the group.
#[derive(Default)]
pub(crate) struct Member {
    /// It serves: no write is acknowledged before it is durable there. Others are only filled.
    pub(crate) acting: bool,
    /// It has taken up the group's log.
    pub(crate) activated: bool,
    /// Objects that the log names and that it lacks.
    pub(crate) missing: Missing,
    /// Objects on their way to it: those of `missing` whose last piece is in the stream, by the place of that piece.
    pub(crate) pushed: BTreeMap<HObject, u64>,
    /// Objects that a change left damaged there, by the first change that may be: these count as not durable there until the objects are.
    pub(crate) owed: BTreeMap<HObject, u64>,
    pub(crate) stream: Stream,
    /// What its log does not tell is compared object by object.
    pub(crate) backfill: Option<Box<Backfill>>,
}

impl Member {
    /// Returns what is shown of it.
    pub(crate) fn query(&self, copy: CopyId) -> PeerQuery {
        PeerQuery {
            copy,
            acting: self.acting,
            activated: self.activated,
            missing: (self.missing.len() + self.pushed.len()) as u64,
            backfill: self.backfill.as_ref().map(|backfill| backfill.cursor().to_string()),
            under_way: self.stream.bytes(),
        }
    }

    /// Returns true if a change of this head's objects is to be carried out there.
    pub(crate) fn reaches(&self, head: &HObject) -> bool {
        self.backfill.as_ref().is_none_or(|backfill| backfill.reaches(head))
    }

    /// Returns true if it lacks the object, head or clone, and it is not on its way.
    pub(crate) fn lacks(&self, object: &HObject) -> bool {
        self.missing.contains_key(object)
    }

    /// Returns true if it has the object, as far as is known.
    pub(crate) fn has(&self, object: &HObject) -> bool {
        self.activated && !self.lacks(object) && !self.pushed.contains_key(object) && self.reaches(&object.at(SnapId::HEAD))
    }

    /// The place of the oldest change that is not durable there as it should be; none comes before `u64::MAX`.
    fn oldest(&self) -> u64 {
        self.owed.values().copied().fold(self.stream.oldest(), u64::min)
    }

    /// Returns true if nothing is left to be brought to it.
    pub(crate) fn is_complete(&self) -> bool {
        self.activated && self.missing.is_empty() && self.pushed.is_empty() && self.backfill.is_none()
    }
}

/// A copy that is no member: nothing that is written in this interval comes to be there.
#[derive(Clone, Debug, Default)]
pub(crate) struct Source {
    /// The newest entry of its log. Of what came after it, it has nothing.
    pub(crate) head: EVersion,
    /// Objects that it lacks.
    pub(crate) missing: BTreeMap<HObject, EVersion>,
}

/// All other copies.
#[derive(Default)]
pub(crate) struct Members {
    pub(crate) all: BTreeMap<CopyId, Member>,
    /// Copies that are no members, and what they have: what is missing here can be had from them.
    pub(crate) sources: BTreeMap<CopyId, Source>,
    /// Objects that copies hold of which the log does not tell it, with the versions that were missed: they were asked, and said so.
    pub(crate) finds: BTreeMap<CopyId, BTreeMap<HObject, EVersion>>,
    /// Copies that are no members and wait to be removed.
    pub(crate) strays: BTreeSet<CopyId>,
    /// Number of the last change that was shipped.
    pub(crate) order: u64,
}

impl Members {
    /// Returns true if a change at this place is not durable at everybody who serves. A copy that is being filled is
    /// waited for, too, while too much is under way to it: clients then write as fast as it takes that.
    pub(crate) fn wait_for(&self, order: u64, sizes: &Sizes) -> bool {
        let holds = |member: &Member| member.acting || member.stream.is_full(sizes);
        order > 0 && self.all.values().any(|member| holds(member) && member.oldest() <= order)
    }

    /// Encodes a change for each copy. What copies that backfill has not brought so far need not carry out is left out for them. What is
    /// collected goes to all: backfill may have come to the object that is made of it when that happens.
    /// `shares`: what happens on each shard, in a pool of shards.
    pub(crate) fn encode(&mut self, scheme: &Scheme, body: &Body, shares: Option<&Shares>) -> Vec<(CopyId, Sealed)> {
        let mut divided = scheme.divide(body, shares);
        let mut encoded = Vec::with_capacity(self.all.len());
        for (copy, member) in &mut self.all {
            let sealed = match &mut member.backfill {
                None => divided.of(*copy),
                Some(backfill) => {
                    body.entries.iter().for_each(|entry| backfill.changed(&entry.object.at(SnapId::HEAD)));
                    let own = body.objects.iter().filter(|of| !is_staged(&of.object.object));
                    own.for_each(|of| backfill.changed(&of.object.object.at(SnapId::HEAD)));
                    divided.limited(*copy, |head| is_staged(head) || backfill.reaches(head))
                }
            };
            encoded.push((*copy, sealed));
        }
        encoded
    }

    /// Gives a change of `op`, as [`Members::encode`] made it, to all streams. Gives the change's place, and the letters for those who can read
    /// them.
    pub(crate) fn ship(
        &mut self,
        envelope: &Envelope,
        op: OpKey,
        encoded: Vec<(CopyId, Sealed)>,
    ) -> (u64, Vec<(CopyId, Sealed)>) {
        self.order += 1;
        let mut letters = Vec::with_capacity(encoded.len());
        for (copy, body) in encoded {
            let Some(member) = self.all.get_mut(&copy) else { continue };
            let letter = member.stream.add(copy, envelope, self.order, op, false, &body);
            if member.activated {
                letters.push((copy, letter));
            }
        }
        (self.order, letters)
    }

    /// Gives a body to the streams of some.
    pub(crate) fn ship_to(&mut self, envelope: &Envelope, to: &[CopyId], body: &Body) -> Vec<(CopyId, Sealed)> {
        self.order += 1;
        let encoded = letter::encoded(body);
        let order = self.order;
        let member = |copy: &CopyId| {
            Some((*copy, self.all.get_mut(copy)?.stream.add(*copy, envelope, order, OpKey::NONE, true, &encoded)))
        };
        to.iter().filter_map(member).collect()
    }

    /// The last piece of an object is in the stream to a copy that lacked it, as the last change.
    pub(crate) fn note_pushed(&mut self, copy: CopyId, object: &HObject) {
        if let Some(member) = self.all.get_mut(&copy)
            && member.missing.remove(object).is_some()
        {
            member.pushed.insert(object.clone(), self.order);
        }
    }

    /// Returns true if somebody lacks this head or one of its clones.
    pub(crate) fn anybody_lacks(&self, head: &ObjectId) -> bool {
        self.all.values().any(|member| is_missing(&member.missing, head))
    }

    /// Returns true if this head, or one of its clones, is on its way to somebody who has all else that his log names.
    pub(crate) fn is_on_its_way(&self, head: &HObject) -> bool {
        self.all.values().any(|member| member.backfill.is_none() && is_missing(&member.pushed, head))
    }

    /// Returns who has the object whole in version `need`: activated copies that do not lack it and that backfill has brought so far, and
    /// copies that are no members and whose log, or whose answer, reaches so far.
    pub(crate) fn holders(&self, object: &HObject, need: EVersion) -> Vec<CopyId> {
        let members = self.all.iter().filter(|(_, member)| member.has(object)).map(|(copy, _)| *copy);
        let gives = |source: &Source| source.head >= need && !source.missing.contains_key(object);
        let sources = self.sources.iter().filter(|(copy, source)| !self.all.contains_key(copy) && gives(source));
        let mut all: Vec<CopyId> = members.chain(sources.map(|(copy, _)| *copy)).collect();
        let found = |objects: &BTreeMap<HObject, EVersion>| objects.get(object).is_some_and(|version| *version >= need);
        all.extend(self.finds.iter().filter(|(_, objects)| found(objects)).map(|(copy, _)| *copy));
        all
    }

    /// Returns the copy that serves with a shard.
    pub(crate) fn of_shard(&self, shard: ShardId) -> Option<(CopyId, &Member)> {
        let found = self.all.iter().find(|(copy, member)| copy.shard == shard && member.acting && member.activated);
        found.map(|(copy, member)| (*copy, member))
    }

    /// Returns who serves and has an object: of shards, those that others are made of.
    pub(crate) fn shards_of(&self, object: &HObject) -> Vec<CopyId> {
        self.all.iter().filter(|(_, member)| member.acting && member.has(object)).map(|(copy, _)| *copy).collect()
    }

    /// Notes that a copy lacks an object of which nobody knew it. Returns false if it is known, or on its way.
    pub(crate) fn note_lack(&mut self, copy: CopyId, object: &HObject, need: EVersion) -> bool {
        let Some(member) = self.all.get_mut(&copy).filter(|member| member.has(object)) else { return false };
        member.missing.insert(object.clone(), Lack::whole(need));
        true
    }

    /// Returns true if a copy said that it holds an object, which its log does not tell.
    pub(crate) fn is_find(&self, copy: CopyId, object: &HObject) -> bool {
        self.finds.get(&copy).is_some_and(|objects| objects.contains_key(object))
    }
}
