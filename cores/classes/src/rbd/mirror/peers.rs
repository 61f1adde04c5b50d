//! The pool's own id and mode, and its peers.

use crate::rbd::keys::{erase_if_any, key, list, load, need, raw, store, stored};
use crate::{Call, Change, Fail, Method, Outcome, RD, WR, unique};
use bytes::Bytes;
use denc::Encode;
use messages::class::rbd::{MirrorPeer, direction, mirror_mode};
use types::Errno;

pub(in crate::rbd) const METHODS: &[Method] = &[
    Method { name: "mirror_uuid_get", flags: RD, run: |call| Ok(own_uuid(call)?.to_bytes()) },
    Method { name: "mirror_uuid_set", flags: RD | WR, run: uuid_set },
    Method { name: "mirror_mode_get", flags: RD, run: |call| Ok(need::<u32>(call, MODE)?.to_bytes()) },
    Method { name: "mirror_mode_set", flags: RD | WR, run: mode_set },
    Method { name: "mirror_peer_ping", flags: RD | WR, run: peer_ping },
    Method { name: "mirror_peer_list", flags: RD, run: |call| Ok(peers(call)?.to_bytes()) },
    Method { name: "mirror_peer_add", flags: RD | WR, run: peer_add },
    Method { name: "mirror_peer_remove", flags: RD | WR, run: peer_remove },
    Method { name: "mirror_peer_set_client", flags: RD | WR, run: peer_set_client },
    Method { name: "mirror_peer_set_cluster", flags: RD | WR, run: peer_set_cluster },
    Method { name: "mirror_peer_set_direction", flags: RD | WR, run: peer_set_direction },
];

/// The pool's id in mirroring, as bare text.
const UUID: &[u8] = b"mirror_uuid";
const MODE: &[u8] = b"mirror_mode";
/// Keys of peers begin so; the entry's id follows.
const PEER: &str = "mirror_peer_";

fn own_uuid(call: &Call<'_>) -> Result<Bytes, Fail> {
    raw(call, UUID)?.ok_or(Fail::Errno(Errno::ENOENT))
}

fn enabled(call: &Call<'_>) -> Result<bool, Fail> {
    Ok(load::<u32>(call, MODE)?.is_some_and(|mode| mode != mirror_mode::DISABLED))
}

/// Refused while mirroring is on: peers know the old id.
fn uuid_set(call: &mut Call<'_>) -> Outcome {
    let uuid: Bytes = call.arg()?;
    if uuid.is_empty() || enabled(call)? {
        return Err(Errno::EINVAL.into());
    }
    call.change(Change::OmapSet(vec![(Bytes::from_static(UUID), uuid)]));
    Ok(Bytes::new())
}

/// Switching on wants an id, switching off wants no peers.
fn mode_set(call: &mut Call<'_>) -> Outcome {
    let mode: u32 = call.arg()?;
    match mode {
        mirror_mode::IMAGE | mirror_mode::POOL => {
            raw(call, UUID)?.ok_or(Fail::Errno(Errno::EINVAL))?;
            store(call, MODE, &mode);
        }
        mirror_mode::DISABLED => {
            if !peers(call)?.is_empty() {
                return Err(Errno::EBUSY.into());
            }
            erase_if_any(call, MODE)?;
            erase_if_any(call, UUID)?;
        }
        _ => return Err(Errno::EINVAL.into()),
    }
    Ok(Bytes::new())
}

fn peers(call: &Call<'_>) -> Result<Vec<MirrorPeer>, Fail> {
    list(call, PEER, b"", u64::MAX)?.iter().map(|(_, value)| stored(call, value)).collect()
}

fn write(call: &mut Call<'_>, peer: &MirrorPeer) {
    store(call, key(PEER, &peer.uuid), peer);
}

/// Input: a cluster's name, its id, the way its images go (only from here to there). Another cluster says that it is
/// there: it is found by its name or its id, or entered.
fn peer_ping(call: &mut Call<'_>) -> Outcome {
    let (site, uuid, way): (Bytes, Bytes, u8) = call.parse(|r| Ok((r.get()?, r.get()?, r.get()?)))?;
    if way != direction::TX || !enabled(call)? || site.is_empty() || uuid.is_empty() {
        return Err(Errno::EINVAL.into());
    }
    let peers = peers(call)?;
    let by_site = peers.iter().find(|p| p.site_name == site);
    let by_uuid = match by_site {
        Some(peer) if peer.mirror_uuid.is_empty() || peer.mirror_uuid == uuid => None,
        _ => peers.iter().find(|p| p.mirror_uuid == uuid),
    };
    let mut peer = match (by_site, by_uuid) {
        // The name is another entry's: this one keeps its own.
        (Some(_), Some(peer)) => peer.clone(),
        (None, Some(peer)) => MirrorPeer { site_name: site, ..peer.clone() },
        (Some(peer), None) => MirrorPeer { mirror_uuid: uuid, ..peer.clone() },
        (None, None) => {
            let entry = unique::uuid(call).into();
            MirrorPeer { uuid: entry, site_name: site, direction: direction::TX, mirror_uuid: uuid, ..MirrorPeer::default() }
        }
    };
    if peer.direction == direction::RX {
        peer.direction = direction::RX_TX;
    }
    peer.last_seen = call.now;
    if !peer.is_valid() {
        return Err(Errno::EINVAL.into());
    }
    write(call, &peer);
    Ok(Bytes::new())
}

/// ESTALE if the entry's id is taken, EEXIST if the cluster's name or id is.
fn peer_add(call: &mut Call<'_>) -> Outcome {
    let peer: MirrorPeer = call.arg()?;
    if !enabled(call)? || !peer.is_valid() {
        return Err(Errno::EINVAL.into());
    }
    if peer.uuid == own_uuid(call)? || peer.direction == direction::TX {
        return Err(Errno::EINVAL.into());
    }
    for other in peers(call)? {
        if other.uuid == peer.uuid {
            return Err(Errno::ESTALE.into());
        }
        if other.site_name == peer.site_name || !peer.mirror_uuid.is_empty() && other.mirror_uuid == peer.mirror_uuid {
            return Err(Errno::EEXIST.into());
        }
    }
    write(call, &peer);
    Ok(Bytes::new())
}

fn peer_remove(call: &mut Call<'_>) -> Outcome {
    let uuid: Bytes = call.arg()?;
    erase_if_any(call, key(PEER, &uuid))?;
    Ok(Bytes::new())
}

/// Input: entry's id, user.
fn peer_set_client(call: &mut Call<'_>) -> Outcome {
    let (uuid, client_name): (Bytes, Bytes) = call.arg()?;
    let peer: MirrorPeer = need(call, &key(PEER, &uuid))?;
    write(call, &MirrorPeer { client_name, ..peer });
    Ok(Bytes::new())
}

/// Input: entry's id, name of the cluster. EEXIST if another entry has that name.
fn peer_set_cluster(call: &mut Call<'_>) -> Outcome {
    let (uuid, site_name): (Bytes, Bytes) = call.arg()?;
    let (mine, others): (Vec<_>, Vec<_>) = peers(call)?.into_iter().partition(|p| p.uuid == uuid);
    if others.iter().any(|p| p.site_name == site_name) {
        return Err(Errno::EEXIST.into());
    }
    let peer = mine.into_iter().next().ok_or(Fail::Errno(Errno::ENOENT))?;
    write(call, &MirrorPeer { site_name, ..peer });
    Ok(Bytes::new())
}

/// Input: entry's id, way.
fn peer_set_direction(call: &mut Call<'_>) -> Outcome {
    let (uuid, direction): (Bytes, u8) = call.arg()?;
    let peer: MirrorPeer = need(call, &key(PEER, &uuid))?;
    write(call, &MirrorPeer { direction, ..peer });
    Ok(Bytes::new())
}
