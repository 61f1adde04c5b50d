//! Listings of a bucket's keys, in their order.
//!
//! A listing without versions shows the current version of each key and no delete markers; with a delimiter, all keys
//! that have it behind the prefix become one common prefix. Both may step over many entries for each that they answer.
//! So a call makes at most [`MAX_STEPS`] steps of at most as many entries as are still wanted; it then says where it
//! stopped, and fails with EFBIG if it found nothing on the way, so that older gateways notice.

use super::header::Shard;
use super::keys;
use crate::keys::load;
use crate::{Call, Fail, Outcome};
use bytes::Bytes;
use denc::Encode;
use messages::class::rgw::index::{DirEntry, ObjKey, flag};
use messages::class::rgw::index_ops::{ListOp, ListReply};
use types::Errno;

/// Most scans of one call.
const MAX_STEPS: usize = 8;

pub(super) fn list(call: &mut Call<'_>) -> Outcome {
    let op: ListOp = call.arg()?;
    let header = Shard::load(call)?.get().clone();
    let mut reply = ListReply { marker: Some(ObjKey::default()), ..ListReply::default() };
    reply.dir.header = header;
    if op.max == 0 {
        // Only the header is wanted.
        return Ok(reply.to_bytes());
    }
    let mut walk = Walk::begin(call, &op)?;
    let max = op.max as usize;
    for _ in 0..MAX_STEPS {
        let left = max - walk.found.len();
        if left == 0 || !walk.more {
            break;
        }
        let page = names(call, &walk.after, &op.prefix, left)?;
        walk.more = page.more && !page.entries.is_empty();
        walk.step(call, &op, max, &page.entries)?;
    }
    reply.truncated = walk.more;
    reply.dir.entries = walk.found.into_iter().collect();
    if reply.truncated {
        reply.marker = Some(walk.reached);
    }
    let nothing = reply.truncated && reply.dir.entries.is_empty();
    let output = reply.to_bytes();
    if nothing {
        call.excuse = output;
        return Err(Errno::EFBIG.into());
    }
    Ok(output)
}

/// Entries after a key that are names, and not of the sections between them.
fn names(call: &Call<'_>, after: &[u8], prefix: &[u8], max: usize) -> Result<objectstore::Page, Fail> {
    let mut page = call.view.omap_list(after, prefix, max)?;
    let (first, last) = match (page.entries.first(), page.entries.last()) {
        (Some((first, _)), Some((last, _))) => (first.first().copied(), last.first().copied()),
        _ => return Ok(page),
    };
    if last < Some(keys::SECTIONS) || first > Some(keys::SECTIONS) {
        return Ok(page);
    }
    page.entries.retain(|(key, _)| key.first() != Some(&keys::SECTIONS));
    if page.entries.len() == max || !page.more {
        return Ok(page);
    }
    let behind: &[u8] = &[keys::SECTIONS + 1];
    let last = page.entries.last().map_or(behind, |(key, _)| key.as_ref().max(behind));
    let rest = call.view.omap_list(last, prefix, max - page.entries.len())?;
    page.entries.extend(rest.entries);
    page.more = rest.more;
    Ok(page)
}

/// A listing under way.
struct Walk {
    /// Key in the omap after which to go on.
    after: Bytes,
    /// The same as clients give it.
    reached: ObjKey,
    /// True if there is more.
    more: bool,
    /// Entries that were found.
    found: std::collections::BTreeMap<Bytes, DirEntry>,
    /// The key that was found last.
    last: Option<Bytes>,
    /// The common prefix that was found last.
    last_prefix: Option<Bytes>,
}

impl Walk {
    fn begin(call: &Call<'_>, op: &ListOp) -> Result<Self, Fail> {
        let mut after = start(call, &op.start)?;
        if !op.delimiter.is_empty() && after > op.prefix && after.ends_with(&op.delimiter) {
            after = behind(&after);
        }
        let (reached, found) = (ObjKey::default(), Default::default());
        Ok(Self { after, reached, more: true, found, last: None, last_prefix: None })
    }

    /// Takes from a page what belongs into the answer.
    fn step(&mut self, call: &Call<'_>, op: &ListOp, max: usize, page: &[(Bytes, Bytes)]) -> Result<(), Fail> {
        let mut at = 0;
        while let Some((key, value)) = page.get(at) {
            at += 1;
            let entry: DirEntry = call.stored(value, Errno::EINVAL)?;
            self.after = key.clone();
            self.reached = entry.key.clone();
            let Some(name) = keys::listed_name(key) else { continue };
            let hidden = !op.versions && (!entry.visible() || name == op.start.name);
            if entry.has(flag::VERSION_MARKER) || hidden {
                continue;
            }
            if let Some(prefix) = common_prefix(&name, op) {
                if self.last_prefix.as_ref() == Some(&prefix) {
                    continue;
                }
                self.last_prefix = Some(prefix.clone());
                if self.found.len() < max {
                    let key = ObjKey::plain(prefix.clone());
                    let entry = DirEntry { key, flags: flag::COMMON_PREFIX, ..DirEntry::default() };
                    self.found.insert(prefix.clone(), entry);
                }
                // All other keys that have it are skipped.
                self.after = behind(&prefix);
                self.reached = ObjKey::plain(self.after.clone());
                // A key with a byte 0xff behind the prefix is looked at again, and passed over above.
                at = page.partition_point(|(key, _)| *key < self.after);
                continue;
            }
            if self.found.len() < max && self.last.as_ref() != Some(key) {
                self.found.insert(key.clone(), entry);
                self.last = Some(key.clone());
            }
        }
        Ok(())
    }
}

/// The key in the omap that stands for where a client wants to begin. A version that is gone stands before the next
/// key.
fn start(call: &Call<'_>, from: &ObjKey) -> Result<Bytes, Fail> {
    if from.instance.is_empty() {
        return Ok(from.name.clone());
    }
    let mut key = from.clone();
    if &key.instance[..] == b"null" {
        key.instance = Bytes::new();
    }
    match load::<DirEntry>(call, &keys::instance(&key)) {
        Ok(Some(entry)) => Ok(keys::listed(&entry)),
        Ok(None) => Ok(keys::after_versions(&from.name)),
        // One that cannot be read begins the listing at its start, as in Ceph.
        Err(Fail::Errno(_)) => Ok(Bytes::new()),
        Err(unread) => Err(unread),
    }
}

/// A key behind all that begin with `prefix`, if they are UTF-8.
fn behind(prefix: &[u8]) -> Bytes {
    crate::keys::key(prefix, b"\xff")
}

/// The part of a name up to the first delimiter behind the prefix, with the delimiter.
fn common_prefix(name: &Bytes, op: &ListOp) -> Option<Bytes> {
    if op.delimiter.is_empty() {
        return None;
    }
    let rest = name.get(op.prefix.len()..)?;
    let at = rest.windows(op.delimiter.len()).position(|window| window == op.delimiter)?;
    Some(name.slice(..op.prefix.len() + at + op.delimiter.len()))
}
