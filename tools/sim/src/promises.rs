//! What an answer promises, judged at the moment in which it leaves: an acknowledged write is whole, and durable, on every member that
//! serves.
//!
//! Clients see a broken promise only when a disk is lost just then. So nobody waits for that: the stores of all members are looked at, as
//! they would be after a power cut. Only where the stores are trusted ones ([`crate::reference`]): no other store can be looked at while it
//! runs.
//!
//! A disk may be lost between a member's promise and the answer. What members promised before their disks were lost is not looked for.

use crate::copies::content;
use crate::reference::{Meaning, version_of};
use messages::code::flags;
use messages::osd::OsdOpReply;
use objectstore::memory::MemStore;
use osd::Answered;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use types::object_id::CURRENT;
use types::{EVersion, Epoch, HObject, ObjectId};

/// The judge, shared by all OSDs of a cluster.
#[derive(Default)]
pub(crate) struct Promises {
    /// What the stores hold.
    stores: Vec<Rc<RefCell<Meaning>>>,
    /// OSDs whose disks were lost, and the epochs since which they are up with the new ones; [`Epoch::MAX`] before they are.
    lost: BTreeMap<i32, Epoch>,
    /// The first promise that was not kept.
    pub(crate) broken: Option<String>,
    /// Acknowledged writes that were looked at.
    pub(crate) looked: u64,
}

impl Promises {
    pub(crate) fn of(stores: Vec<Rc<RefCell<Meaning>>>) -> Self {
        Self { stores, ..Self::default() }
    }

    /// The disk of an OSD, whose process does not run, is lost.
    pub(crate) fn lose(&mut self, osd: i32) {
        self.lost.insert(osd, Epoch::MAX);
    }

    /// The map has an OSD that runs up since `epoch`.
    pub(crate) fn lives(&mut self, osd: i32, epoch: Epoch) {
        if let Some(since) = self.lost.get_mut(&osd) {
            *since = epoch.min(*since);
        }
    }

    /// An answer of the OSD `primary` leaves.
    pub(crate) fn look(&mut self, primary: i32, Answered { group, members: acting, message }: &Answered) {
        let Ok(reply) = OsdOpReply::decode(message) else { return };
        let wrote = reply.flags & i64::from(flags::WRITE) != 0 && reply.replay_version != EVersion::default();
        if reply.result < 0 || !wrote || self.broken.is_some() {
            return;
        }
        let (name, version) = (&reply.oid[..], reply.replay_version);
        // What changed nothing is answered with the version of something else.
        let Some(removal) = self.stores.iter().find_map(|store| store.borrow().noted(group.pg.pool, name, version)) else {
            return;
        };
        // Who is filled may have taken up a log in which the removal is not any more.
        let gone = self.stores.iter().any(|store| store.borrow().removed_after(group.pg.pool, name, version));
        self.looked += 1;
        let held: Vec<(i32, Held)> = acting
            .iter()
            .filter(|(osd, life)| self.lost.get(osd).is_none_or(|since| life >= since))
            .filter_map(|(osd, _)| Some((*osd, self.stores.get(usize::try_from(*osd).ok()?)?)))
            .map(|(osd, store)| (osd, Held::look(&mut store.borrow_mut(), group.pg.pool, name, version)))
            .collect();
        if let Some(why) = unkept(&held, version, removal || gone) {
            let name = String::from_utf8_lossy(name);
            let what = if removal { "a removal" } else { "a change" };
            let acting: Vec<i32> = acting.iter().map(|(osd, _)| *osd).collect();
            let text = format!(
                "osd.{primary} acknowledges version {version} of {name} for the members {acting:?} of {group}, {what}: {why}"
            );
            self.broken = Some(text);
        }
    }
}

/// What a member holds durably of an object.
struct Held {
    /// The version of the object, if it is there.
    version: Option<EVersion>,
    /// The version that was promised was there, now or before, or was removed before it came here.
    reached: bool,
    /// Its content, and that of its clones, if it has just the version that was promised.
    content: Vec<(ObjectId, String)>,
}

impl Held {
    fn look(store: &mut Meaning, pool: i64, name: &[u8], promised: EVersion) -> Self {
        let image = store.durable();
        let named = |o: &&ObjectId| o.generation == CURRENT && o.pool == pool && o.name[..] == *name;
        let all: Vec<ObjectId> = image.objects().filter(named).cloned().collect();
        let head = all.iter().find(|object| object.is_head());
        let version = head.and_then(|head| version_of(image, head));
        let content = if version == Some(promised) { contents(image, all.clone()) } else { Vec::new() };
        let ever = store.newest(pool, name);
        let reached = ever.is_some_and(|ever| ever >= promised) || store.removed_after(pool, name, promised);
        Self { version, reached, content }
    }
}

fn contents(image: &MemStore, objects: Vec<ObjectId>) -> Vec<(ObjectId, String)> {
    let same = |object: ObjectId| {
        // Shards have the record and the attributes in common.
        let text = if object.shard.is_none() { content(image, &object) } else { crate::shards::record(image, &object) };
        (ObjectId::whole(HObject::clone(&object.object)), text.unwrap_or_else(|why| why))
    };
    objects.into_iter().map(same).collect()
}

/// Returns what is wrong with what the members hold.
fn unkept(held: &[(i32, Held)], promised: EVersion, removal: bool) -> Option<String> {
    for (osd, member) in held {
        match member.version {
            Some(version) if version < promised => return Some(format!("osd.{osd} holds version {version} durably")),
            None if !removal && !member.reached => return Some(format!("osd.{osd} does not hold it durably")),
            _ => {}
        }
    }
    let mut exact = held.iter().filter(|(_, held)| held.version == Some(promised));
    let (first, one) = exact.next()?;
    for (osd, other) in exact {
        for (object, text) in &one.content {
            // Of clones one may be trimmed here and not yet there.
            let differs = other.content.iter().find(|(known, there)| known == object && there != text);
            if let Some((_, there)) = differs {
                return Some(format!("copies of {object:?} differ: on osd.{first} {text}\n  on osd.{osd} {there}"));
            }
        }
    }
    None
}
