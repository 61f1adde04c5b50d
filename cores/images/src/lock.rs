//! To be the only one who changes an image.
//!
//! The lock is librbd's: `rbd_lock` on the header, exclusive, with a cookie that names a watch on the same object; who
//! holds the lock lives as long as the watch does. The object map has a lock of the same name. An image without the
//! feature is only watched.

use crate::image::{Image, object_map};
use crate::notice;
use crate::rados::Place;
use crate::work::Io;
use crate::{Fail, Optional, Result};
use denc::Encode;
use messages::class::lock::{BreakOp, GetInfoOp, LockInfo, LockOp, UnlockOp, kind};
use messages::class::rbd::feature;
use objecter::WatchId;
use std::time::Duration;
use types::Errno;

const NAME: &str = "rbd_lock";
const TAG: &str = "internal";
/// Number of times that the holder is asked to let go.
const TRIES: u32 = 40;
const PATIENCE: Duration = Duration::from_millis(500);

/// Step against a living client that has the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    /// Leave it alone: EBUSY.
    Respect,
    /// Ask it to let go for a moment, as librbd's clients do among themselves.
    Ask,
}

/// A lock that is held.
pub(crate) struct Held {
    watch: WatchId,
    locked: bool,
    map: bool,
}

impl Held {
    /// Returns whether somebody else has the image open.
    pub(crate) async fn is_shared(&self, io: &Io, image: &Image) -> Result<bool> {
        Ok(io.watchers(&image.at, &image.header()).await?.len() > 1)
    }

    /// Lets go. What cannot be done any more (the header is gone) needs not be done.
    pub(crate) async fn release(self, io: &Io, image: &Image) {
        let header = image.header();
        if self.map {
            let unlock = UnlockOp { name: NAME.into(), cookie: String::new() }.to_bytes();
            let _ = io.exec_class("lock", &image.at, &object_map(&image.id, None), "unlock", &unlock).await;
        }
        if self.locked {
            let unlock = UnlockOp { name: NAME.into(), cookie: cookie(self.watch) }.to_bytes();
            let _ = io.exec_class("lock", &image.at, &header, "unlock", &unlock).await;
        }
        io.unwatch(self.watch).await;
    }
}

fn cookie(watch: WatchId) -> String {
    format!("auto {}", watch.0)
}

/// Takes the lock of an image.
///
/// # Errors
/// EBUSY: a living client has it.
pub(crate) async fn take(io: &Io, image: &Image, holder: Holder) -> Result<Held> {
    let watch = io.watch(&image.at, &image.header()).await?;
    let mut held = Held { watch, locked: false, map: false };
    match lock_all(io, image, holder, &mut held).await {
        Ok(()) => Ok(held),
        Err(fail) => {
            held.release(io, image).await;
            Err(fail)
        }
    }
}

async fn lock_all(io: &Io, image: &Image, holder: Holder, held: &mut Held) -> Result<()> {
    if !image.has(feature::EXCLUSIVE_LOCK) {
        return Ok(());
    }
    let header = image.header();
    lock_one(io, held.watch, &image.at, &header, &header, (&cookie(held.watch), TAG), holder).await?;
    held.locked = true;
    if image.has(feature::OBJECT_MAP) {
        // Who has the header's lock may break one that was left on the object map.
        lock_one(io, held.watch, &image.at, &header, &object_map(&image.id, None), ("", ""), holder).await?;
        held.map = true;
    }
    Ok(())
}

async fn lock_one(
    io: &Io,
    watch: WatchId,
    at: &Place,
    header: &str,
    oid: &str,
    (cookie, tag): (&str, &str),
    holder: Holder,
) -> Result<()> {
    let op = LockOp { name: NAME.into(), kind: kind::EXCLUSIVE, cookie: cookie.into(), tag: tag.into(), ..LockOp::default() };
    let op = op.to_bytes();
    for _ in 0..TRIES {
        match io.exec_class("lock", at, oid, "lock", &op).await {
            Err(fail) if fail.errno == Errno::EBUSY => {}
            Err(fail) if fail.errno == Errno::EEXIST => return Ok(()),
            other => return other,
        }
        if break_dead(io, at, header, oid).await? {
            continue;
        }
        if holder == Holder::Respect {
            return Err(Fail::new(Errno::EBUSY, "another client uses the image (it has the exclusive lock)"));
        }
        // A client that writes takes the lock again at once: who listens is faster.
        notice::ask_to_release(io, watch, at, header, PATIENCE).await;
    }
    Err(Fail::new(Errno::EBUSY, "the client that uses the image does not let go of its exclusive lock"))
}

/// Breaks the lock if its holder is dead, and sees to it that nothing of that client comes late. Says whether to try
/// again.
async fn break_dead(io: &Io, at: &Place, header: &str, oid: &str) -> Result<bool> {
    let get = GetInfoOp { name: NAME.into() }.to_bytes();
    let Some(info) = io.call_class::<LockInfo>("lock", at, oid, "get_info", &get).await.optional()? else { return Ok(true) };
    let Some((id, locker)) = info.lockers.into_iter().next() else { return Ok(true) };
    let watchers = io.watchers(at, header).await?;
    // The lock's record has the address as of the old protocol.
    let same = |w: &messages::ops::WatchItem| (w.addr.nonce, w.addr.addr) == (locker.addr.nonce, locker.addr.addr);
    let handle: Option<u64> = id.cookie.strip_prefix("auto ").and_then(|n| n.parse().ok());
    let lives = watchers.iter().any(|w| same(w) && handle.is_none_or(|handle| handle == w.cookie));
    if lives {
        return Ok(false);
    }
    io.fence(locker.addr).await?;
    let op = BreakOp { name: NAME.into(), locker: id.locker, cookie: id.cookie }.to_bytes();
    match io.exec_class("lock", at, oid, "break_lock", &op).await {
        Err(fail) if fail.errno == Errno::ENOENT => Ok(true),
        other => other.map(|()| true),
    }
}
