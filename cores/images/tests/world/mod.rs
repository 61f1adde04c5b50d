//! Objects in memory with their snapshots and classes, as OSDs keep them, for work on images; and images made in it step by step as
//! clients make them. Written for the tests alone: nothing here is how the product does it.

mod image;
mod object;
mod reach;

pub(crate) use image::{Image, Spec};

use bytes::Bytes;
use denc::{Decode, Encode};
use images::work::{Answer, Io, Request, Works};
use maps::{OsdMap, Pool};
use messages::EntityNum;
use messages::code::{self, flags};
use messages::ops::{CloneInfo, OmapGetVals, OmapVals, Pairs, SnapList, WatchItem, WatchList};
use messages::osd::{Op, OpArgs, OpResult, OsdOpReply};
use object::{Data, Look, Object};
use objecter::{OpRequest, SnapContext, WatchId};
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Arc;
use types::{EntityAddr, Errno, Rope, SnapId, UTime};

/// Two pools for images.
pub(crate) const POOL: i64 = 1;
pub(crate) const OTHER: i64 = 2;

/// Pool, namespace, name.
pub(crate) type Key = (i64, String, Bytes);

#[derive(Clone, Default)]
pub(crate) struct World {
    objects: BTreeMap<Key, Object>,
    watches: BTreeMap<Key, BTreeSet<u64>>,
    next_watch: u64,
    next_snap: u64,
    now: UTime,
    /// Which of the requests that could be carried out next is.
    dice: u64,
    /// Snapshots that nobody gave back yet.
    snaps: BTreeSet<(i64, u64)>,
}

/// Whoever works in this world.
fn addr() -> EntityAddr {
    EntityAddr { nonce: 7, ..EntityAddr::default() }
}

fn text(bytes: &Bytes) -> String {
    String::from_utf8(bytes[..].into()).expect("text")
}

fn map() -> Arc<OsdMap> {
    let mut map = OsdMap::default();
    for (id, name) in [(POOL, "rbd"), (OTHER, "other")] {
        let mut pool = Pool::default();
        pool.application_metadata.insert("rbd".into(), BTreeMap::new());
        map.pools.insert(id, pool);
        map.pool_name.insert(id, name.into());
    }
    Arc::new(map)
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        Self { next_snap: 3, now: UTime { sec: 1_000_000, nsec: 0 }, dice: seed, ..Self::default() }
    }

    fn roll(&mut self, n: usize) -> usize {
        self.dice = self.dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.dice >> 33) as usize % n
    }

    /// Does a job. After `most` requests it is cut off, and whoever did it is dead: `None`.
    pub(crate) fn work<T, F: Future<Output = T> + 'static>(&mut self, most: usize, job: impl FnOnce(Io) -> F) -> Option<T> {
        let mut works = Works::new([self.next_watch as u8; 16]);
        works.set_map(map());
        works.start(job(works.io()));
        let (mut open, mut done) = (Vec::new(), 0);
        loop {
            works.run(self.now);
            if let Some((_, result)) = works.poll_done() {
                assert!(self.watches.values().all(BTreeSet::is_empty), "a watch was left behind");
                return Some(result);
            }
            open.extend(std::iter::from_fn(|| works.poll_request()));
            assert!(!open.is_empty(), "the job waits for nothing");
            if done == most {
                self.watches.clear();
                return None;
            }
            done += 1;
            let (id, request) = open.swap_remove(self.roll(open.len()));
            let answer = self.carry_out(request);
            works.answer(id, answer);
        }
    }

    fn carry_out(&mut self, request: Request) -> Answer {
        match request {
            Request::Op(op) => Answer::Op(Ok(Box::new(self.operate(&op)))),
            Request::Watch(locator, oid) => {
                let key = (locator.pool, text(&locator.nspace), oid);
                if !self.objects.contains_key(&key) {
                    return Answer::Failed(Errno::ENOENT);
                }
                self.next_watch += 1;
                self.watches.entry(key).or_default().insert(self.next_watch);
                Answer::Watching(WatchId(self.next_watch))
            }
            Request::Unwatch(watch) => {
                for all in self.watches.values_mut() {
                    all.remove(&watch.0);
                }
                Answer::Done
            }
            Request::Notify(..) => Answer::Told(Vec::new()),
            Request::NewSnap(pool) => Answer::Snap(self.new_snap(pool)),
            Request::FreeSnap(pool, snap) => {
                self.trim(pool, snap);
                Answer::Done
            }
            Request::Fence(..) => Answer::Done,
            Request::Sleep(until) | Request::Listen(_, until) => {
                self.now = self.now.max(until);
                Answer::Done
            }
        }
    }

    pub(crate) fn new_snap(&mut self, pool: i64) -> u64 {
        self.next_snap += 1;
        self.snaps.insert((pool, self.next_snap));
        self.next_snap
    }

    fn trim(&mut self, pool: i64, snap: u64) {
        self.snaps.remove(&(pool, snap));
        for ((_, _, _), object) in self.objects.iter_mut().filter(|((p, _, _), _)| *p == pool) {
            object.trim(snap);
        }
        self.objects.retain(|_, object| object.exists());
    }

    fn operate(&mut self, request: &OpRequest) -> OsdOpReply {
        let nspace = text(&request.locator.nspace);
        let key = (request.locator.pool, nspace, request.oid.clone());
        let writes = request.flags & flags::WRITE != 0;
        let object = self.objects.get(&key).cloned().unwrap_or_default();
        let mut data = object.at(request.snapid.0).cloned();
        let (mut ops, mut result) = (Vec::new(), 0);
        let lists = |op: &Op| op.code == code::LIST_SNAPS;
        if !writes && data.is_none() && !request.ops.iter().any(lists) {
            return OsdOpReply { oid: request.oid.clone(), result: Errno::ENOENT.wire(), ..OsdOpReply::default() };
        }
        for op in &request.ops {
            let output = self.one(&key, &object, &mut data, op);
            let rval = output.as_ref().err().map_or(0, |errno| errno.wire());
            let output = Rope::from(output.unwrap_or_default());
            ops.push(OpResult { code: op.code, flags: op.flags, args: op.args, rval, output });
            result = rval;
            if rval < 0 {
                break;
            }
        }
        if writes && result == 0 {
            let mut object = object;
            object.write(data, &request.snapc);
            self.objects.insert(key, object);
            self.objects.retain(|_, object| object.exists());
        }
        OsdOpReply { oid: request.oid.clone(), result, ops, ..OsdOpReply::default() }
    }

    fn one(&self, key: &Key, object: &Object, data: &mut Option<Data>, op: &Op) -> Result<Bytes, Errno> {
        let range = match op.args {
            OpArgs::Extent { offset, length, .. } => (offset as usize, length as usize),
            _ => (0, 0),
        };
        match op.code {
            code::STAT => data.as_ref().map(|_| Bytes::new()).ok_or(Errno::ENOENT),
            code::READ => data.as_ref().ok_or(Errno::ENOENT).map(|data| data.read(range)),
            code::LIST_SNAPS => Ok(self.versions(object)?.to_bytes()),
            code::LIST_WATCHERS => {
                data.as_ref().ok_or(Errno::ENOENT)?;
                let all = self.watches.get(key).into_iter().flatten();
                let name = EntityNum::default();
                let entries = all.map(|cookie| WatchItem { name, cookie: *cookie, timeout: 30, addr: addr() }).collect();
                Ok(WatchList { entries }.to_bytes())
            }
            code::OMAPGETVALS => {
                let wanted = OmapGetVals::from_bytes(&op.input).unwrap();
                let all = data.as_ref().ok_or(Errno::ENOENT)?.omap.iter();
                let after = all.filter(|(k, _)| wanted.start_after.is_empty() || **k > wanted.start_after);
                let pairs: Pairs = after.map(|(k, v)| (k.clone(), v.clone())).collect();
                Ok(OmapVals { pairs, more: false }.to_bytes())
            }
            code::DELETE => data.take().map(|_| Bytes::new()).ok_or(Errno::ENOENT),
            code::CALL => self.call(object, data, op),
            _ => {
                let data = data.get_or_insert_default();
                match op.code {
                    code::CREATE => {}
                    code::WRITE => data.write(range.0, &op.input),
                    code::WRITEFULL => data.bytes = op.input[..].into(),
                    code::ZERO => data.zero(range),
                    code::TRUNCATE => data.bytes.resize(range.0, 0),
                    code::OMAPSETVALS => data.omap.extend(Pairs::from_bytes(&op.input).unwrap()),
                    code::OMAPRMKEYS => {
                        for key in Vec::<Bytes>::from_bytes(&op.input).unwrap() {
                            data.omap.remove(&key);
                        }
                    }
                    other => panic!("operation {other:#x} is not known in this world"),
                }
                Ok(Bytes::new())
            }
        }
    }

    fn versions(&self, object: &Object) -> Result<SnapList, Errno> {
        if !object.exists() {
            return Err(Errno::ENOENT);
        }
        let clone = |(id, (snaps, data)): (&u64, &(Vec<u64>, Data))| CloneInfo {
            cloneid: SnapId(*id),
            snaps: snaps.clone(),
            size: data.bytes.len() as u64,
            ..CloneInfo::default()
        };
        let head = object.head.iter().map(|data| CloneInfo {
            cloneid: SnapId::HEAD,
            size: data.bytes.len() as u64,
            ..CloneInfo::default()
        });
        Ok(SnapList { clones: object.clones.iter().map(clone).chain(head).collect(), seq: object.seq })
    }

    fn call(&self, object: &Object, data: &mut Option<Data>, op: &Op) -> Result<Bytes, Errno> {
        let OpArgs::Call { class_len, method_len, .. } = op.args else { panic!("a call without names") };
        let (class, rest) = op.input.split_at(class_len.into());
        let (method, input) = rest.split_at(method_len.into());
        let classes::Lookup::Found(found) = classes::find(class, method) else {
            panic!("no method {}.{}", String::from_utf8_lossy(class), String::from_utf8_lossy(method))
        };
        let before = data.clone();
        let look = Look { data: &before, seq: object.exists().then_some(object.seq) };
        let origin = classes::Origin { kind: 8, num: 1, addr: addr() };
        let mut call = classes::Call::new(&look, Bytes::copy_from_slice(input), origin, self.now, Bytes::new());
        let output = (found.run)(&mut call).map_err(|fail| match fail {
            classes::Fail::Errno(errno) => errno,
            classes::Fail::Unread(_) => panic!("all is in memory"),
        })?;
        for change in std::mem::take(&mut call.changes) {
            object::apply(data, change)?;
        }
        Ok(output)
    }

    /// Operations of a client that waits for each: all must succeed.
    fn client(&mut self, key: &Key, ops: Vec<Op>, snapc: SnapContext) -> Bytes {
        let reply = self.try_client(key, ops, snapc);
        assert_eq!(reply.result, 0, "{key:?}");
        reply.ops.last().map(|op| op.output.contiguous()).unwrap_or_default()
    }

    fn try_client(&mut self, (pool, nspace, oid): &Key, ops: Vec<Op>, snapc: SnapContext) -> OsdOpReply {
        let locator = images::Place::new(*pool, nspace.clone());
        let request = OpRequest {
            locator: types::Locator { nspace: Bytes::from(locator.nspace), ..types::Locator::pool(*pool) },
            oid: oid.clone(),
            ops,
            snapc,
            flags: flags::WRITE,
            ..OpRequest::default()
        };
        self.operate(&request)
    }

    fn exec(&mut self, key: &Key, method: &str, input: &[u8]) -> Bytes {
        self.client(key, vec![Op::call("rbd", method, input)], SnapContext::default())
    }

    /// Names of all objects that hold anything, without what belongs to no image.
    pub(crate) fn left(&self) -> Vec<String> {
        let mut names = Vec::new();
        for ((pool, nspace, oid), object) in &self.objects {
            let name = format!("{pool}/{nspace}/{}", String::from_utf8_lossy(oid));
            let empty = object.head.as_ref().is_some_and(|d| d.omap.is_empty() && d.bytes.is_empty()) && object.clones.is_empty();
            let lists = ["rbd_directory", "rbd_trash", "rbd_children", "rbd_mirroring"];
            if !(empty && lists.iter().any(|list| oid == list)) {
                names.push(name);
            }
        }
        names.extend(self.snaps.iter().map(|(pool, snap)| format!("snapshot {snap} of pool {pool}")));
        names
    }
}
