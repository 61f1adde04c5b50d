//! What an image's header tells those who ask who uses it: nothing is changed, nothing is watched.

use crate::image::{Image, id_of, name_of};
use crate::rados::Place;
use crate::work::Io;
use crate::{Optional, Result};
use denc::Encode;
use messages::class::lock::{GetInfoOp, LockInfo};
use messages::ops::WatchItem;

/// The lock of an image, as librbd and people (`rbd lock add`) take it.
const LOCK: &str = "rbd_lock";

/// An image, and who uses it.
#[derive(Clone, Debug)]
pub struct Described {
    /// The image.
    pub image: Image,
    /// Watchers of its header: each client that has it open for writing, and others who wait for news.
    pub watchers: Vec<WatchItem>,
    /// Holder of its lock.
    pub lock: LockInfo,
    /// The name of its parent, if it has one that has a name.
    pub parent: Option<String>,
}

/// Reads what an image's header tells.
///
/// # Errors
/// ENOENT: there is no image of this name; those of reading.
pub async fn describe(io: &Io, at: &Place, name: &str) -> Result<Described> {
    let image = Image::open(io, at, &id_of(io, at, name).await?).await?;
    let header = image.header();
    let watchers = io.watchers(at, &header).await?;
    let asked = GetInfoOp { name: LOCK.into() }.to_bytes();
    let lock = io.call_class("lock", at, &header, "get_info", &asked).await.optional()?.unwrap_or_default();
    let parent = match &image.parent {
        Some(spec) => {
            let place = Place::new(spec.pool, String::from_utf8_lossy(&spec.namespace));
            // Somebody may have put the parent into the trash: it has no name then.
            name_of(io, &place, &String::from_utf8_lossy(&spec.image)).await.ok().flatten()
        }
        None => None,
    };
    Ok(Described { image, watchers, lock, parent })
}
