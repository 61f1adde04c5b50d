//! Single steps: operations on objects, with their answers taken apart.

use crate::work::{Answer, Io, Request};
use crate::{Fail, Result};
use bytes::Bytes;
use denc::{Decode, Encode};
use maps::OsdMap;
use messages::code;
use messages::ops::{OmapGetVals, OmapVals, Pairs, SnapList, WatchItem, WatchList};
use messages::osd::{Op, OpArgs, OsdOpReply, flags};
use objecter::{OpError, OpRequest, SnapContext, WatchId};
use types::{EntityAddr, Errno, Locator, PoolId, Rope, SnapId};

/// Pools with this application have images.
const POOL_APPLICATION: &str = "rbd";
/// Entries of an omap or a directory that are asked for at a time.
const PAGE: u64 = 512;
/// Bytes of an omap, and entries of a directory, that are read at most: what clients wrote there may be of any length.
const MOST_BYTES: usize = 16 << 20;
const MOST_ENTRIES: usize = 1 << 20;

/// A pool, and a namespace in it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Pool.
    pub pool: PoolId,
    /// Namespace; empty for the default one.
    pub nspace: String,
}

impl Place {
    /// A place.
    pub fn new(pool: PoolId, nspace: impl Into<String>) -> Self {
        Self { pool, nspace: nspace.into() }
    }

    /// The same namespace in another pool.
    pub(crate) fn in_pool(&self, pool: PoolId) -> Self {
        Self { pool, nspace: self.nspace.clone() }
    }

    pub(crate) fn locator(&self) -> Locator {
        Locator { nspace: Bytes::copy_from_slice(self.nspace.as_bytes()), ..Locator::pool(self.pool) }
    }
}

/// Returns true if a pool is one for images.
pub fn is_for_images(map: &OsdMap, pool: PoolId) -> bool {
    map.pool(pool).is_some_and(|p| p.application_metadata.contains_key(POOL_APPLICATION))
}

/// Bytes as text; EIO for what no client of this kind writes.
pub(crate) fn text(bytes: &Bytes) -> Result<String> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.to_owned()),
        Err(_) => Err(Fail::new(Errno::EIO, "a name is not text")),
    }
}

fn decoded<T: Decode>(what: &str, bytes: &Bytes) -> Result<T> {
    T::from_bytes(bytes).map_err(|e| Fail::new(Errno::EIO, format!("the answer to {what}: {e}")))
}

fn too_many(oid: &str) -> Fail {
    Fail::new(Errno::EFBIG, format!("{oid} has more than {MOST_ENTRIES} entries"))
}

fn request(at: &Place, oid: &str, ops: Vec<Op>, flags: u32) -> OpRequest {
    OpRequest { locator: at.locator(), oid: Bytes::copy_from_slice(oid.as_bytes()), ops, flags, ..OpRequest::default() }
}

impl Io {
    async fn operate(&self, mut request: OpRequest) -> Result<Box<OsdOpReply>> {
        request.mtime = self.now();
        let (oid, pool) = (String::from_utf8_lossy(&request.oid).into_owned(), request.locator.pool);
        let reply = match self.ask(Request::Op(request)).await {
            Answer::Op(Ok(reply)) => reply,
            Answer::Op(Err(OpError::NoPool)) => return Err(Fail::new(Errno::ENOENT, "the pool does not exist")),
            Answer::Failed(Errno::EPERM) => {
                let why = format!("{oid}: whoever ordered this has no right to it in pool {pool}");
                return Err(Fail::new(Errno::EPERM, why));
            }
            Answer::Failed(errno) => return Err(Fail::new(errno, format!("{oid}: {}", errno.text()))),
            _ => return Err(Fail::new(Errno::ECANCELED, "it was cancelled")),
        };
        if reply.result < 0 {
            let errno = Errno(-reply.result);
            return Err(Fail::new(errno, format!("{oid}: {}", errno.text())));
        }
        Ok(reply)
    }

    fn output(reply: &OsdOpReply, index: usize) -> Bytes {
        reply.ops.get(index).map(|op| op.output.contiguous()).unwrap_or_default()
    }

    /// Reads with one operation.
    pub(crate) async fn read_op(&self, at: &Place, oid: &str, op: Op) -> Result<Bytes> {
        Ok(Self::output(&*self.operate(request(at, oid, vec![op], flags::READ)).await?, 0))
    }

    /// Changes with operations that happen together or not at all.
    pub(crate) async fn write_ops(&self, at: &Place, oid: &str, ops: Vec<Op>, snapc: SnapContext) -> Result<()> {
        self.operate(OpRequest { snapc, ..request(at, oid, ops, flags::WRITE) }).await?;
        Ok(())
    }

    /// Calls a method that reads.
    pub(crate) async fn call<T: Decode>(&self, at: &Place, oid: &str, method: &str, input: &[u8]) -> Result<T> {
        self.call_class("rbd", at, oid, method, input).await
    }

    /// Calls a method of some class that reads.
    pub(crate) async fn call_class<T: Decode>(
        &self,
        class: &str,
        at: &Place,
        oid: &str,
        method: &str,
        input: &[u8],
    ) -> Result<T> {
        let output = self.read_op(at, oid, Op::call(class, method, input)).await?;
        decoded(&format!("{class}.{method}"), &output)
    }

    /// Calls a method that changes.
    pub(crate) async fn exec(&self, at: &Place, oid: &str, method: &str, input: &[u8]) -> Result<()> {
        self.exec_class("rbd", at, oid, method, input).await
    }

    /// Calls a method of some class that changes.
    pub(crate) async fn exec_class(&self, class: &str, at: &Place, oid: &str, method: &str, input: &[u8]) -> Result<()> {
        self.write_ops(at, oid, vec![Op::call(class, method, input)], SnapContext::default()).await
    }

    /// Bytes of an object as a snapshot sees it; fewer than asked for at its end.
    pub(crate) async fn read(&self, at: &Place, oid: &str, snap: u64, offset: u64, len: u64) -> Result<Rope> {
        let op = Op::extent(code::READ, offset, len, Bytes::new());
        let mut reply = self.operate(OpRequest { snapid: SnapId(snap), ..request(at, oid, vec![op], flags::READ) }).await?;
        Ok(reply.ops.first_mut().map(|op| std::mem::take(&mut op.output)).unwrap_or_default())
    }

    /// Returns which versions of an object there are, and what sees them; `None` if it was never there.
    pub(crate) async fn versions(&self, at: &Place, oid: &str) -> Result<Option<SnapList>> {
        let op = Op::new(code::LIST_SNAPS, OpArgs::None);
        let request = OpRequest { snapid: SnapId::DIR, ..request(at, oid, vec![op], flags::READ) };
        match self.operate(request).await {
            Ok(reply) => Ok(Some(decoded("a look at versions", &Self::output(&reply, 0))?)),
            Err(fail) if fail.errno == Errno::ENOENT => Ok(None),
            Err(fail) => Err(fail),
        }
    }

    /// Removes an object; one that is not there is no failure.
    pub(crate) async fn delete(&self, at: &Place, oid: &str, snapc: SnapContext) -> Result<()> {
        match self.write_ops(at, oid, vec![Op::new(code::DELETE, OpArgs::None)], snapc).await {
            Err(fail) if fail.errno == Errno::ENOENT => Ok(()),
            other => other,
        }
    }

    /// Returns whether an object exists.
    pub(crate) async fn exists(&self, at: &Place, oid: &str) -> Result<bool> {
        match self.read_op(at, oid, Op::new(code::STAT, OpArgs::None)).await {
            Ok(_) => Ok(true),
            Err(fail) if fail.errno == Errno::ENOENT => Ok(false),
            Err(fail) => Err(fail),
        }
    }

    /// All of an object's omap; nothing if there is no object.
    ///
    /// # Errors
    /// EFBIG: there is more than anybody needs. Those of reading.
    pub async fn omap(&self, at: &Place, oid: &str) -> Result<Pairs> {
        let mut all = Pairs::new();
        let (mut start_after, mut bytes) = (Bytes::new(), 0);
        loop {
            let input = OmapGetVals { start_after, max: PAGE, prefix: Bytes::new() }.to_bytes();
            let op = Op { input, ..Op::new(code::OMAPGETVALS, OpArgs::None) };
            let page: OmapVals = match self.read_op(at, oid, op).await {
                Err(fail) if fail.errno == Errno::ENOENT => return Ok(all),
                other => decoded("a look into an omap", &other?)?,
            };
            bytes += page.pairs.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>();
            if bytes > MOST_BYTES {
                return Err(Fail::new(Errno::EFBIG, format!("{oid} has more than {MOST_BYTES} bytes of keys and values")));
            }
            let Some(last) = page.pairs.keys().next_back().cloned().filter(|_| page.more) else {
                all.extend(page.pairs);
                return Ok(all);
            };
            all.extend(page.pairs);
            start_after = last;
        }
    }

    /// Sets a key of an object's omap.
    pub async fn omap_set(&self, at: &Place, oid: &str, key: String, value: String) -> Result<()> {
        let input = Pairs::from([(Bytes::from(key), Bytes::from(value))]).to_bytes();
        let op = Op { input, ..Op::new(code::OMAPSETVALS, OpArgs::None) };
        self.write_ops(at, oid, vec![op], SnapContext::default()).await
    }

    /// Removes a key of an object's omap. A key that is not there is no failure.
    ///
    /// # Errors
    /// ENOENT: there is no object.
    pub async fn omap_remove(&self, at: &Place, oid: &str, key: String) -> Result<()> {
        let op = Op { input: vec![Bytes::from(key)].to_bytes(), ..Op::new(code::OMAPRMKEYS, OpArgs::None) };
        self.write_ops(at, oid, vec![op], SnapContext::default()).await
    }

    /// All entries of a directory that a class lists by pages: `input` says where a page begins.
    pub(crate) async fn list<V: Decode>(&self, at: &Place, oid: &str, method: &str) -> Result<Vec<(Bytes, V)>> {
        let mut all: Vec<(Bytes, V)> = Vec::new();
        loop {
            let after = all.last().map(|(key, _)| key.clone()).unwrap_or_default();
            let page: Vec<(Bytes, V)> = match self.call(at, oid, method, &(after, PAGE).to_bytes()).await {
                Err(fail) if fail.errno == Errno::ENOENT => return Ok(all),
                other => other?,
            };
            let last = (page.len() as u64) < PAGE;
            all.extend(page);
            if last {
                return Ok(all);
            }
            if all.len() > MOST_ENTRIES {
                return Err(too_many(oid));
            }
        }
    }

    /// All pools for images, with their names.
    pub fn pools(&self) -> Result<Vec<(PoolId, String)>> {
        let map = self.map()?;
        let pools = map.pools.keys().filter(|id| is_for_images(&map, **id));
        Ok(pools.map(|id| (*id, map.pool_name.get(id).cloned().unwrap_or_default())).collect())
    }

    /// The namespaces of a pool that images can be in, the default one first.
    pub async fn namespaces(&self, pool: PoolId) -> Result<Vec<String>> {
        let at = Place::new(pool, "");
        let mut all = vec![String::new()];
        loop {
            let after = Bytes::from(all.last().cloned().unwrap_or_default());
            let page: Vec<Bytes> = match self.call(&at, "rbd_namespace", "namespace_list", &(after, PAGE).to_bytes()).await {
                Err(fail) if fail.errno == Errno::ENOENT => return Ok(all),
                other => other?,
            };
            let last = (page.len() as u64) < PAGE;
            for name in page {
                all.push(text(&name)?);
            }
            if last {
                return Ok(all);
            }
            if all.len() > MOST_ENTRIES {
                return Err(too_many("rbd_namespace"));
            }
        }
    }

    /// Returns who watches an object.
    pub(crate) async fn watchers(&self, at: &Place, oid: &str) -> Result<Vec<WatchItem>> {
        let output = self.read_op(at, oid, Op::new(code::LIST_WATCHERS, OpArgs::None)).await?;
        Ok(decoded::<WatchList>("a look at watchers", &output)?.entries)
    }

    /// Watches an object, as a sign that we live: notifications are answered with nothing.
    pub(crate) async fn watch(&self, at: &Place, oid: &str) -> Result<WatchId> {
        match self.ask(Request::Watch(at.locator(), Bytes::copy_from_slice(oid.as_bytes()))).await {
            Answer::Watching(id) => Ok(id),
            Answer::Failed(errno) => Err(Fail::new(errno, format!("{oid} cannot be watched: {}", errno.text()))),
            _ => Err(Fail::new(Errno::EIO, format!("{oid} cannot be watched"))),
        }
    }

    pub(crate) async fn unwatch(&self, watch: WatchId) {
        self.ask(Request::Unwatch(watch)).await;
    }

    /// A number for a new snapshot.
    pub(crate) async fn new_snap(&self, pool: PoolId) -> Result<u64> {
        match self.ask(Request::NewSnap(pool)).await {
            Answer::Snap(id) => Ok(id),
            Answer::Failed(errno) => Err(Fail::new(errno, "there is no number for a snapshot")),
            _ => Err(Fail::new(Errno::EIO, "there is no number for a snapshot")),
        }
    }

    pub(crate) async fn free_snap(&self, pool: PoolId, snap: u64) -> Result<()> {
        match self.ask(Request::FreeSnap(pool, snap)).await {
            Answer::Failed(errno) if errno != Errno::ENOENT => {
                Err(Fail::new(errno, format!("snapshot {snap} cannot be given back")))
            }
            _ => Ok(()),
        }
    }

    /// Sees to it that nothing of a client comes late. Its address is what a lock's record says, which others may have written: a whole host
    /// is not fenced, and a daemon that runs neither.
    pub(crate) async fn fence(&self, addr: EntityAddr) -> Result<()> {
        if addr.nonce == 0 {
            return Err(Fail::new(Errno::EIO, format!("the lock of an image names {addr}, which is no client")));
        }
        match self.ask(Request::Fence(addr, self.who())).await {
            Answer::Failed(errno) => Err(Fail::new(errno, format!("{addr} cannot be put on the blocklist"))),
            _ => Ok(()),
        }
    }
}
