//! The store's interface to placement groups: what they read, and what they submit.

use crate::block::BLOCK;
use crate::block::{Cell, RANGE, blocks};
use crate::exec::Run;
use crate::family::Omap;
use crate::index::keys;
use crate::index::view::Step;
use crate::onode::Onode;
use crate::read::{Eye, all_there, gather};
use crate::store::Store;
use crate::wish::Owner;
use bytes::Bytes;
use objectstore::*;
use std::ops::Bound;
use types::{ObjectId, Rope, ShardId, SpgId};

/// The answer to a read before the store is open: fetch nothing, and ask again.
fn not_open<T>() -> Read<T> {
    Err(Unread::Missing(Wish(Vec::new())))
}

/// Collects a page of entries within a limit.
struct Collect {
    page: Page,
    bytes: usize,
    limit: Limit,
}

impl Collect {
    fn new(limit: Limit) -> Self {
        Self { page: Page::default(), bytes: 0, limit }
    }

    fn add(&mut self, key: Bytes, value: Bytes) -> Step {
        let full = self.page.entries.len() >= self.limit.entries || self.bytes + key.len() + value.len() > self.limit.bytes;
        if full && !self.page.entries.is_empty() {
            self.page.more = true;
            return Step::Enough;
        }
        self.bytes += key.len() + value.len();
        self.page.entries.push((key, value));
        Step::More
    }
}

impl Store {
    /// Gives the read view of a hold, and the object's onode. A miss if a transaction on the object still waits.
    fn look(&self, hold: Hold, object: &ObjectId) -> Read<(Eye<'_>, Option<Onode>)> {
        if !self.ready() {
            return not_open();
        }
        self.not_waiting(|t| crate::names::objects_of(&t.objects).any(|o| same(o, object)))?;
        let eye = self.eye(Owner::Hold(hold));
        let onode = eye.onode(object)?;
        Ok((eye, onode))
    }

    /// Gives a miss if a transaction that `touches` takes still waits to be carried out.
    fn not_waiting(&self, touches: impl Fn(&Transaction) -> bool) -> Read<()> {
        match self.waiting.newest(touches) {
            None => Ok(()),
            Some(id) => Err(Unread::Missing(Wish(vec![crate::wish::wish_done(id)]))),
        }
    }

    fn look_meta(&self, hold: Hold, scope: Option<&SpgId>) -> Read<Eye<'_>> {
        if !self.ready() {
            return not_open();
        }
        self.not_waiting(|t| scope.is_none_or(|s| *s == t.scope))?;
        Ok(self.eye(Owner::Hold(hold)))
    }
}

fn same(a: &ObjectId, b: &ObjectId) -> bool {
    a.cmp(b).is_eq()
}

impl View for Store {
    fn stat(&self, hold: Hold, object: &ObjectId) -> Read<Option<ObjectStat>> {
        let (_, onode) = self.look(hold, object)?;
        Ok(onode.map(|o| ObjectStat { size: o.size, info: o.info, has_omap: o.omap }))
    }

    fn read(&self, hold: Hold, object: &ObjectId, offset: u64, len: u64) -> Read<Rope> {
        let (eye, onode) = self.look(hold, object)?;
        let Some(onode) = onode else { return Ok(Rope::new()) };
        let end = offset.saturating_add(len).min(onode.size);
        if offset >= end { Ok(Rope::new()) } else { eye.data(onode.id, offset, end, object) }
    }

    fn extents(&self, hold: Hold, object: &ObjectId, offset: u64, len: u64) -> Read<Vec<(u64, u64)>> {
        let (eye, onode) = self.look(hold, object)?;
        let Some(onode) = onode else { return Ok(Vec::new()) };
        let end = offset.saturating_add(len).min(onode.size);
        let (mut out, mut wishes): (Vec<(u64, u64)>, Vec<u64>) = (Vec::new(), Vec::new());
        let view = eye.view(None);
        let mut at = offset / BLOCK as u64 / RANGE;
        while at < blocks(end).div_ceil(RANGE) {
            let Some(range) = gather(view.next_range(onode.id, at as u32), &mut wishes)?.flatten() else { break };
            if u64::from(range) >= blocks(end).div_ceil(RANGE) {
                break;
            }
            if let Some(patch) = gather(view.extents((onode.id, range)), &mut wishes)? {
                for i in (0..16).filter(|i| matches!(patch.get(*i), Cell::Data(_))) {
                    let start = (u64::from(range) * RANGE + u64::from(i)) * BLOCK as u64;
                    let (a, b) = (start.max(offset), (start + BLOCK as u64).min(end));
                    match out.last_mut() {
                        _ if a >= b => (),
                        Some((from, n)) if *from + *n == a => *n += b - a,
                        _ => out.push((a, b - a)),
                    }
                }
            }
            at = u64::from(range) + 1;
        }
        all_there(wishes)?;
        Ok(out)
    }

    fn xattr(&self, hold: Hold, object: &ObjectId, name: &[u8]) -> Read<Option<Bytes>> {
        let (eye, onode) = self.look(hold, object)?;
        match onode.filter(|o| o.xattrs) {
            None => Ok(None),
            Some(o) => eye.view(None).get_inner(o.id, &keys::inner(o.id, keys::XATTR, name)),
        }
    }

    fn xattrs(&self, hold: Hold, object: &ObjectId) -> Read<Vec<(Bytes, Bytes)>> {
        let (eye, onode) = self.look(hold, object)?;
        let mut out = Vec::new();
        if let Some(o) = onode.filter(|o| o.xattrs) {
            let prefix = keys::inner(o.id, keys::XATTR, b"");
            eye.view(None).scan_prefix(&prefix, (Bound::Unbounded, Bound::Unbounded), |key, value| {
                out.push((key.slice(keys::INNER_HEAD..), value));
                Step::More
            })?;
        }
        Ok(out)
    }

    fn omap_header(&self, hold: Hold, object: &ObjectId) -> Read<Bytes> {
        let (eye, onode) = self.look(hold, object)?;
        match onode.filter(|o| o.omap) {
            None => Ok(Bytes::new()),
            Some(o) => Ok(eye.view(None).get_inner(o.id, &keys::inner(o.id, keys::HEADER, b""))?.unwrap_or_default()),
        }
    }

    fn omap_scan(&self, hold: Hold, object: &ObjectId, range: Range<'_>, limit: Limit) -> Read<Page> {
        let (eye, onode) = self.look(hold, object)?;
        let mut collect = Collect::new(limit);
        if let Some(o) = onode.filter(|o| o.omap) {
            let view = eye.view(None);
            Omap::of(&view, &o)?.scan(&view, range, |key, value| collect.add(key, value))?;
        }
        Ok(collect.page)
    }

    fn omap_get(&self, hold: Hold, object: &ObjectId, names: &[Bytes]) -> Read<Vec<(Bytes, Bytes)>> {
        let (eye, onode) = self.look(hold, object)?;
        let Some(o) = onode.filter(|o| o.omap) else { return Ok(Vec::new()) };
        let (mut out, mut wishes) = (Vec::new(), Vec::new());
        let view = eye.view(None);
        let omap = Omap::of(&view, &o)?;
        for name in names {
            let value = gather(omap.get(&view, name), &mut wishes)?.flatten();
            out.extend(value.map(|v| (name.clone(), v)));
        }
        wishes.sort_unstable();
        wishes.dedup();
        all_there(wishes)?;
        Ok(out)
    }

    fn list(&self, hold: Hold, shard: ShardId, from: &ObjectId, to: &ObjectId, max: usize) -> Read<Vec<ObjectId>> {
        if !self.ready() {
            return not_open();
        }
        self.not_waiting(|t| !t.objects.is_empty())?;
        let eye = self.eye(Owner::Hold(hold));
        let (start, end) = (keys::name(from), keys::name(to));
        let mut out = Vec::new();
        if start < end && max > 0 {
            eye.view(None).scan(&start, Some(&end), |key, _| {
                out.extend(keys::object(key).filter(|object| object.shard == shard));
                if out.len() < max { Step::More } else { Step::Enough }
            })?;
        }
        Ok(out)
    }

    fn meta_get(&self, hold: Hold, scope: &SpgId, key: &[u8]) -> Read<Option<Bytes>> {
        self.look_meta(hold, Some(scope))?.view(None).get(&keys::meta(scope, key))
    }

    fn meta_scan(&self, hold: Hold, scope: &SpgId, range: Range<'_>, limit: Limit) -> Read<Page> {
        let eye = self.look_meta(hold, Some(scope))?;
        let mut collect = Collect::new(limit);
        eye.view(None)
            .scan_prefix(&keys::meta(scope, b""), range, |key, value| collect.add(key.slice(keys::META_HEAD..), value))?;
        Ok(collect.page)
    }

    fn scopes(&self, hold: Hold) -> Read<Vec<SpgId>> {
        let eye = self.look_meta(hold, None)?;
        let view = eye.view(None);
        let mut out: Vec<SpgId> = Vec::new();
        let mut from = Bytes::from_static(&[keys::META]);
        // One look-up for each scope: the many keys of a scope are jumped over.
        loop {
            let mut found = None;
            view.scan(&from, Some(&[keys::META + 1]), |key, _| {
                found = keys::scope(key);
                Step::Enough
            })?;
            let Some(scope) = found else { return Ok(out) };
            out.push(scope);
            let Some(next) = keys::after_prefix(&keys::meta(&scope, b"")) else { return Ok(out) };
            from = next;
        }
    }
}

impl ObjectStore for Store {
    fn fetch(&mut self, hold: Hold, wish: Wish) {
        self.fetch_for(Owner::Hold(hold), wish);
    }

    fn release(&mut self, hold: Hold) {
        self.holds.remove(&Owner::Hold(hold));
    }

    fn rehearse(&self, hold: Hold, objects: &[ObjectChanges]) -> Result<(), Unfit> {
        if !objects.iter().flat_map(|o| &o.changes).any(crate::exec::may_read) {
            return Ok(());
        }
        for object in crate::names::objects_of(objects) {
            self.look(hold, object)?;
        }
        Run::rehearse(self.eye(Owner::Hold(hold)), objects)
    }

    fn submit(&mut self, transaction: Transaction, ticket: Ticket) -> Result<(), Refused> {
        self.take_on(transaction, ticket)
    }

    fn congested(&self) -> bool {
        self.is_congested()
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn space(&self) -> Space {
        const B: u64 = BLOCK as u64;
        if !self.ready() {
            return Space::default();
        }
        let (data, omap) = (self.space.data() * B, self.sb.omap_bytes);
        let available = self.lasting_blocks().saturating_mul(B);
        let copies = self.checkpoint.as_ref().map_or(0, |c| c.pages_taken());
        let pages = self.space.pages().saturating_sub(copies);
        let rest = (self.space.fixed() + pages + self.lasting_reserve()) * B;
        Space {
            total: self.sb.blocks * B,
            available,
            data,
            omap,
            meta: rest.saturating_sub(omap),
            host_full: self.space.host_exhausted(&self.io),
        }
    }
}
