//! Parts of a multipart upload, in the omap of the upload's own object.

use crate::keys::{load, store};
use crate::{Call, Outcome};
use bytes::Bytes;
use messages::class::rgw::upload_part::{UpdatePartOp, UploadPart};
use types::Errno;

/// Notes a part that was written. If it was written before, the objects of earlier writes are remembered by their
/// prefixes, so that the end of the upload removes them; EEXIST if the new write has the prefix of an earlier one.
pub(super) fn update(call: &mut Call<'_>) -> Outcome {
    let UpdatePartOp { key, mut part } = call.arg()?;
    if let Some(old) = load::<UploadPart>(call, &key)? {
        if !old.manifest.is_empty() {
            part.past_prefixes.insert(old.manifest.prefix().clone());
        }
        part.past_prefixes.extend(old.past_prefixes);
    }
    if part.past_prefixes.contains(part.manifest.prefix()) {
        return Err(Errno::EEXIST.into());
    }
    store(call, key, &part);
    Ok(Bytes::new())
}
