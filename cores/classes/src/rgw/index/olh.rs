//! The head of a key with versions, and its log.

use super::keys;
use crate::keys::{load, store};
use crate::{Call, Change, Fail, Outcome};
use bytes::Bytes;
use denc::Encode;
use messages::class::rgw::index::{DirEntry, ObjKey, OlhEntry, OlhLogEntry, flag};
use messages::class::rgw::index_ops::{ClearOlhOp, ReadOlhLogOp, ReadOlhLogReply, TrimOlhLogOp};
use types::Errno;

/// Most epochs of the log in one answer.
const MAX_EPOCHS: usize = 1000;
/// The first epoch of a key with versions; 1 is that of what was there before.
const FIRST_EPOCH: u64 = 2;

/// A head during one call.
pub(super) struct Head {
    at: Bytes,
    /// Its contents; as for a key without versions if there is none.
    pub(super) entry: OlhEntry,
    /// True if there was one before the call.
    pub(super) found: bool,
}

impl Head {
    pub(super) fn load(call: &Call<'_>, name: &[u8]) -> Result<Self, Fail> {
        let at = keys::olh(name);
        let entry: Option<OlhEntry> = load(call, &at)?;
        let found = entry.is_some();
        Ok(Self { at, entry: entry.unwrap_or_default(), found })
    }

    /// The head of a key that is given without a version (EINVAL else), if its tag is `tag` (ECANCELED else).
    fn tagged(call: &Call<'_>, key: &ObjKey, tag: &Bytes) -> Result<Self, Fail> {
        if !key.instance.is_empty() {
            return Err(Errno::EINVAL.into());
        }
        let head = Self::load(call, &key.name)?;
        if head.entry.tag == tag { Ok(head) } else { Err(Errno::ECANCELED.into()) }
    }

    pub(super) fn store(&self, call: &mut Call<'_>) {
        store(call, self.at.clone(), &self.entry);
    }

    /// Goes to the given epoch, or to the next if it is 0. False, and nothing changes, if the head is further already.
    pub(super) fn advance(&mut self, to: u64) -> bool {
        let epoch = match (to, self.entry.epoch) {
            (0, 0) => FIRST_EPOCH,
            (0, at) => at.wrapping_add(1),
            (to, at) if to < at => return false,
            (to, _) => to,
        };
        self.entry.epoch = epoch;
        true
    }

    /// Notes a step that the head object must take.
    pub(super) fn log(&mut self, op: u8, op_tag: &Bytes, key: &ObjKey, delete_marker: bool) {
        self.log_at(self.entry.epoch, op, op_tag, key, delete_marker);
    }

    /// Notes a step of another epoch, under the head's own.
    pub(super) fn log_at(&mut self, epoch: u64, op: u8, op_tag: &Bytes, key: &ObjKey, delete_marker: bool) {
        let step = OlhLogEntry { epoch, op, op_tag: op_tag.clone(), key: key.clone(), delete_marker };
        self.entry.log.entry(self.entry.epoch).or_default().push(step);
    }
}

pub(super) fn read_log(call: &mut Call<'_>) -> Outcome {
    let op: ReadOlhLogOp = call.arg()?;
    let mut head = Head::tagged(call, &op.olh, &op.olh_tag)?;
    let mut log = match op.after.checked_add(1) {
        Some(from) => head.entry.log.split_off(&from),
        None => Default::default(),
    };
    let rest = log.keys().nth(MAX_EPOCHS).copied();
    if let Some(rest) = rest {
        log.split_off(&rest);
    }
    Ok(ReadOlhLogReply { log, truncated: rest.is_some() }.to_bytes())
}

pub(super) fn trim_log(call: &mut Call<'_>) -> Outcome {
    let op: TrimOlhLogOp = call.arg()?;
    let mut head = Head::tagged(call, &op.olh, &op.olh_tag)?;
    head.entry.log.retain(|epoch, _| *epoch > op.upto);
    head.store(call);
    Ok(Bytes::new())
}

/// Removes the head, and the mark in the place of the plain entry.
pub(super) fn clear(call: &mut Call<'_>) -> Outcome {
    let op: ClearOlhOp = call.arg()?;
    let head = Head::tagged(call, &op.key, &op.olh_tag)?;
    call.change(Change::OmapRemove(vec![head.at]));
    let plain: Option<DirEntry> = load(call, &op.key.name)?;
    if plain.is_some_and(|entry| entry.has(flag::VERSION_MARKER)) {
        call.change(Change::OmapRemove(vec![op.key.name]));
    }
    Ok(Bytes::new())
}
