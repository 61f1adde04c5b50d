//! The file of a backup; `docs/format/monitor.md` is the description in words.

use denc::{Encode, Reader};
use monstate::state::State;
use types::{Fsid, UTime};

const MAGIC: [u8; 8] = *b"nacrebak";
/// Layout of the file.
const VERSION: u32 = 1;

/// Contents of a backup.
pub(super) struct Backup {
    pub(super) stamp: UTime,
    pub(super) term: u64,
    pub(super) state: State,
}

/// Header of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// The cluster.
    pub fsid: Fsid,
    /// Time when it was made.
    pub stamp: UTime,
    /// Epoch of its OSD map.
    pub epoch: types::Epoch,
    /// Place where its monitors were, by name.
    pub monitors: Vec<(String, types::EntityAddrVec)>,
}

/// Looks into a backup.
///
/// # Errors
/// It is none, or is damaged.
pub fn about(file: &[u8]) -> Result<About, String> {
    let Backup { stamp, state, .. } = decode(file)?;
    let monitors = state.monmap.mon_info.values().map(|m| (m.name.clone(), m.public_addrs.clone())).collect();
    Ok(About { fsid: state.fsid, stamp, epoch: state.osdmap.epoch, monitors })
}

pub(super) fn encode(state: &State, term: u64, stamp: UTime) -> Vec<u8> {
    let mut body = Vec::new();
    stamp.encode(&mut body);
    term.encode(&mut body);
    bytes::Bytes::from(state.to_snapshot()).encode(&mut body);
    let mut file = MAGIC.to_vec();
    VERSION.encode(&mut file);
    (body.len() as u64).encode(&mut file);
    kernels::crc32c(kernels::SEED, &body).encode(&mut file);
    file.extend_from_slice(&body);
    file
}

pub(super) fn decode(file: &[u8]) -> Result<Backup, String> {
    let Some(head) = file.strip_prefix(&MAGIC) else { return Err("this is no backup of a monitor".into()) };
    let short = |_| "the backup is cut off".to_owned();
    let mut r = Reader::new(head);
    let version = r.u32().map_err(short)?;
    if version > VERSION {
        return Err(format!("the backup has format version {version}, this program knows versions up to {VERSION}"));
    }
    let (len, crc) = (r.u64().map_err(short)?, r.u32().map_err(short)?);
    let body = r.rest();
    if body.len() as u64 != len {
        return Err(format!("the backup is cut off, or more was added: it has {} bytes, and says {len}", body.len()));
    }
    if kernels::crc32c(kernels::SEED, body) != crc {
        return Err("the backup is damaged: its checksum is wrong".into());
    }
    let read = || -> denc::Result<Backup> {
        let mut r = Reader::new(body);
        let (stamp, term, bytes): (UTime, u64, bytes::Bytes) = (r.get()?, r.get()?, r.get()?);
        r.finish()?;
        Ok(Backup { stamp, term, state: State::from_snapshot(&bytes)? })
    };
    let backup = read().map_err(|e| format!("the backup cannot be read: {e}"))?;
    // It becomes a position in a log.
    if backup.term >= 1 << 61 || backup.state.index >= 1 << 61 {
        return Err("the backup has a term or an index that no log has".into());
    }
    Ok(backup)
}
