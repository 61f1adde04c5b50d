//! Migration: an image moves to another header while it is in use; both headers say so.

use super::keys::{erase_if_any, load, need, raw, store};
use crate::{Call, Change, Fail, Method, Outcome, RD, WR};
use bytes::Bytes;
use denc::Encode;
use messages::class::rbd::{MigrationSpec, feature, migration_header};
use types::{Errno, Rope};

pub(super) const METHODS: &[Method] = &[
    Method { name: "migration_set", flags: RD | WR, run: set },
    Method { name: "migration_set_state", flags: RD | WR, run: set_state },
    Method { name: "migration_get", flags: RD, run: |call| Ok(current(call)?.to_bytes()) },
    Method { name: "migration_remove", flags: RD | WR, run: remove },
];

const KEY: &str = "migration";
/// Beginning of headers of format 1, and the one they do while the image migrates. A zero follows.
const TEXT: &[u8; 33] = b"<<< Rados Block Device Image >>>\n";
const MIGRATING_TEXT: &[u8; 33] = b"<<< Migrating RBD Image      >>>\n";

/// State of migration as a header tells it.
enum Header {
    /// Format 2, with these features.
    Features(u64),
    /// Format 1.
    Old {
        /// True if it says that the image migrates.
        migrating: bool,
    },
}

/// ENXIO if it is no header.
fn header(call: &Call<'_>) -> Result<Header, Fail> {
    if let Some(features) = load(call, b"features")? {
        return Ok(Header::Features(features));
    }
    let text = call.view.read(0, TEXT.len() as u64 + 1)?.to_vec();
    match text.split_last() {
        Some((0, text)) if text == TEXT => Ok(Header::Old { migrating: false }),
        Some((0, text)) if text == MIGRATING_TEXT => Ok(Header::Old { migrating: true }),
        _ => Err(Errno::ENXIO.into()),
    }
}

/// EEXIST if the image migrates already. A header of format 1 can only be a source.
fn set(call: &mut Call<'_>) -> Outcome {
    let spec: MigrationSpec = call.arg()?;
    if raw(call, KEY.as_bytes())?.is_some() {
        return Err(Errno::EEXIST.into());
    }
    match header(call)? {
        Header::Old { migrating: true } => return Err(Errno::EEXIST.into()),
        Header::Old { .. } if spec.header_type != migration_header::SRC => return Err(Errno::EINVAL.into()),
        Header::Old { .. } => call.change(Change::Write(0, Rope::from(&MIGRATING_TEXT[..]))),
        Header::Features(features) if features & feature::MIGRATING == 0 => {
            store(call, "features", &(features | feature::MIGRATING));
        }
        Header::Features(_) if spec.header_type != migration_header::DST => return Err(Errno::EEXIST.into()),
        Header::Features(_) => {}
    }
    store(call, KEY, &spec);
    Ok(Bytes::new())
}

/// The migration; EINVAL if there is none.
fn current(call: &Call<'_>) -> Result<MigrationSpec, Fail> {
    match header(call)? {
        Header::Features(features) if features & feature::MIGRATING != 0 => {}
        Header::Old { migrating: true } => {}
        _ => return Err(Errno::EINVAL.into()),
    }
    need(call, KEY.as_bytes())
}

/// Input: state, the same for people.
fn set_state(call: &mut Call<'_>) -> Outcome {
    let (state, description): (u8, Bytes) = call.arg()?;
    let mut spec = current(call)?;
    spec.state = state;
    spec.state_description = description;
    store(call, KEY, &spec);
    Ok(Bytes::new())
}

fn remove(call: &mut Call<'_>) -> Outcome {
    let header = header(call)?;
    erase_if_any(call, KEY)?;
    match header {
        Header::Features(features) if features & feature::MIGRATING != 0 => {
            store(call, "features", &(features & !feature::MIGRATING));
        }
        Header::Features(_) => {}
        Header::Old { migrating: true } => call.change(Change::Write(0, Rope::from(&TEXT[..]))),
        Header::Old { migrating: false } => return Err(Errno::EINVAL.into()),
    }
    Ok(Bytes::new())
}
