//! What daemons say about mirrored images. A daemon lives as long as it watches the object.

use super::images::{id_of, image, images};
use crate::rbd::keys::{erase, erase_if_any, key, list, load, store, stored};
use crate::{Call, Fail, Method, Origin, Outcome, PROMOTE, RD, WR};
use bytes::Bytes;
use denc::{Encode, Reader};
use messages::EntityNum;
use messages::class::rbd::{
    MirrorImage, MirrorImageStatus, MirrorPeer, SiteStatus, StoredSiteStatus, direction, image_status, mirror_image_state,
};
use std::collections::{BTreeMap, BTreeSet};
use types::{AddrType, EntityAddr, Errno};

pub(in crate::rbd) const METHODS: &[Method] = &[
    Method { name: "mirror_image_status_set", flags: RD | WR | PROMOTE, run: status_set },
    Method { name: "mirror_image_status_remove", flags: RD | WR, run: status_remove },
    Method { name: "mirror_image_status_get", flags: RD, run: status_get },
    Method { name: "mirror_image_status_list", flags: RD, run: status_list },
    Method { name: "mirror_image_status_get_summary", flags: RD, run: summary },
    Method { name: "mirror_image_status_remove_down", flags: RD | WR, run: remove_down },
    Method { name: "mirror_image_instance_get", flags: RD, run: instance_get },
    Method { name: "mirror_image_instance_list", flags: RD, run: instance_list },
];

/// Keys of what the own daemon says begin so; the image's global id follows.
const LOCAL: &str = "status_global_";
/// Keys of what other clusters' daemons say begin so; global id, `_` and the cluster's id follow.
const REMOTE: &str = "remote_status_global_";

/// A daemon: name and address, without the protocol that it happens to speak.
type Instance = (EntityNum, EntityAddr);

fn instance(origin: &Origin) -> Instance {
    (EntityNum { kind: origin.kind, num: origin.num }, EntityAddr { kind: AddrType::Any, ..origin.addr })
}

fn said_by(status: &StoredSiteStatus) -> Instance {
    (status.origin, EntityAddr { kind: AddrType::Any, ..status.addr })
}

fn lives(call: &Call<'_>, who: &Instance) -> bool {
    call.view.watchers().iter().any(|watcher| instance(watcher) == *who)
}

/// Prefix of the keys of what other clusters say about an image.
fn remote_prefix(global_id: &[u8]) -> Bytes {
    key(REMOTE, &[global_id, b"_"].concat())
}

fn status_key(global_id: &[u8], cluster: &[u8]) -> Bytes {
    match cluster {
        b"" => key(LOCAL, global_id),
        _ => key(remote_prefix(global_id), cluster),
    }
}

/// Returns what clusters other than this say about an image: their ids, and the values.
fn remotes(call: &Call<'_>, global_id: &[u8]) -> Result<Vec<(Bytes, Bytes)>, Fail> {
    list(call, remote_prefix(global_id), b"", u64::MAX)
}

/// Forgets all that was said about an image.
pub(super) fn forget(call: &mut Call<'_>, global_id: &Bytes) -> Result<(), Fail> {
    for (cluster, _) in remotes(call, global_id)? {
        erase_if_any(call, status_key(global_id, &cluster))?;
    }
    erase_if_any(call, status_key(global_id, b""))
}

/// Input: global id, status. Said about an image that is not mirrored, it is ignored.
fn status_set(call: &mut Call<'_>) -> Outcome {
    let (global_id, status): (Bytes, SiteStatus) = call.arg()?;
    let known = match id_of(call, &global_id)? {
        Some(id) => image(call, &id)?,
        None => None,
    };
    if known.is_none_or(|i| i.state != mirror_image_state::ENABLED) {
        return Ok(Bytes::new());
    }
    let (origin, addr) = instance(&call.origin);
    let entry = status_key(&global_id, &status.mirror_uuid);
    let status = SiteStatus { mirror_uuid: Bytes::new(), up: false, last_update: call.now, ..status };
    store(call, entry, &StoredSiteStatus { origin, addr, status });
    Ok(Bytes::new())
}

fn status_remove(call: &mut Call<'_>) -> Outcome {
    let global_id: Bytes = call.arg()?;
    forget(call, &global_id)?;
    Ok(Bytes::new())
}

/// All that is said about an image; `None` if nothing is.
fn status_of(call: &Call<'_>, global_id: &Bytes) -> Result<Option<MirrorImageStatus>, Fail> {
    let mut said = remotes(call, global_id)?;
    if let Some(local) = crate::rbd::keys::raw(call, &status_key(global_id, b""))? {
        said.insert(0, (Bytes::new(), local));
    }
    let mut sites = Vec::with_capacity(said.len());
    for (mirror_uuid, value) in said {
        let record: StoredSiteStatus = stored(call, &value)?;
        let up = lives(call, &said_by(&record));
        sites.push(SiteStatus { mirror_uuid, up, ..record.status });
    }
    Ok(Some(MirrorImageStatus { sites }).filter(|s| !s.sites.is_empty()))
}

fn status_get(call: &mut Call<'_>) -> Outcome {
    let global_id: Bytes = call.arg()?;
    Ok(status_of(call, &global_id)?.ok_or(Fail::Errno(Errno::ENOENT))?.to_bytes())
}

/// Input: id after which to begin, most entries. Output: images, and what is said about them.
fn status_list(call: &mut Call<'_>) -> Outcome {
    let (after, max): (Bytes, u64) = call.arg()?;
    let found: BTreeMap<Bytes, MirrorImage> = images(call, &after, max)?.into_iter().collect();
    let mut statuses = BTreeMap::new();
    for (id, image) in &found {
        match status_of(call, &image.global_id) {
            Ok(Some(status)) => drop(statuses.insert(id.clone(), status)),
            Ok(None) | Err(Fail::Errno(_)) => {}
            Err(fail) => return Err(fail),
        }
    }
    Ok((found, statuses).to_bytes())
}

/// Returns which ways the pool's images go, and the clusters that take them.
fn ways(peers: &[MirrorPeer]) -> (u8, BTreeSet<Bytes>) {
    let mut way = peers.first().map_or(direction::RX, |p| p.direction);
    let mut takers = BTreeSet::new();
    for peer in peers.iter().filter(|p| p.direction != direction::RX) {
        takers.insert(peer.mirror_uuid.clone());
        if way != direction::RX_TX && way != peer.direction {
            way = direction::RX_TX;
        }
    }
    (way, takers)
}

/// One state for an image: an error anywhere, else the least that any living daemon says; unknown if one says nothing.
fn overall(way: u8, takers: &BTreeSet<Bytes>, status: &MirrorImageStatus) -> u8 {
    let mut state = None;
    if way != direction::TX {
        state = status.local().filter(|s| s.up).map(|s| s.state);
    }
    let mut silent = 0;
    if way == direction::TX || way == direction::RX_TX {
        silent = takers.len();
        for site in status.remote() {
            silent -= usize::from(silent > 0 && takers.contains(&site.mirror_uuid));
            let said = if site.up { site.state } else { image_status::UNKNOWN };
            state = match state {
                _ if site.state == image_status::ERROR => Some(image_status::ERROR),
                Some(image_status::ERROR) => state,
                Some(other) => Some(other.min(said)),
                None => Some(said),
            };
        }
    }
    state.filter(|_| silent == 0).unwrap_or(image_status::UNKNOWN)
}

/// Input: perhaps the pool's peers. Output: states, and how many images are in each.
fn summary(call: &mut Call<'_>) -> Outcome {
    let peers: Vec<MirrorPeer> = call.parse(|r| if r.is_empty() { Ok(Vec::new()) } else { r.get() })?;
    let (way, takers) = ways(&peers);
    let mut counts: BTreeMap<u8, i32> = BTreeMap::new();
    for (_, image) in images(call, b"", u64::MAX)? {
        let status = status_of(call, &image.global_id)?.unwrap_or_default();
        *counts.entry(overall(way, &takers, &status)).or_default() += 1;
    }
    Ok(counts.to_bytes())
}

/// Forgets what daemons said that live no longer.
fn remove_down(call: &mut Call<'_>) -> Outcome {
    for prefix in [LOCAL, REMOTE] {
        for (name, value) in list(call, prefix, b"", u64::MAX)? {
            let mut r = Reader::new(&value);
            let head = r.envelope("StoredSiteStatus", 1).and_then(|mut e| Ok((e.body.get()?, e.body.get()?)));
            let (origin, addr): (EntityNum, EntityAddr) = head.map_err(|_| Fail::Errno(Errno::EIO))?;
            let record = StoredSiteStatus { origin, addr, status: SiteStatus::default() };
            if !lives(call, &said_by(&record)) {
                erase(call, key(prefix, &name))?;
            }
        }
    }
    Ok(Bytes::new())
}

/// The own daemon that looks after an image; ESTALE if it lives no longer.
fn daemon_of(call: &Call<'_>, global_id: &Bytes) -> Result<Instance, Fail> {
    let record: StoredSiteStatus = load(call, &status_key(global_id, b""))?.ok_or(Fail::Errno(Errno::ENOENT))?;
    let who = said_by(&record);
    if lives(call, &who) { Ok(who) } else { Err(Errno::ESTALE.into()) }
}

fn instance_get(call: &mut Call<'_>) -> Outcome {
    let global_id: Bytes = call.arg()?;
    Ok(daemon_of(call, &global_id)?.to_bytes())
}

/// Input: id after which to begin, most entries. Output: images and their daemons; images without one are left out.
fn instance_list(call: &mut Call<'_>) -> Outcome {
    let (after, max): (Bytes, u64) = call.arg()?;
    let mut found: BTreeMap<Bytes, Instance> = BTreeMap::new();
    for (id, image) in images(call, &after, u64::MAX)? {
        if found.len() as u64 >= max {
            break;
        }
        match daemon_of(call, &image.global_id) {
            Ok(who) => drop(found.insert(id, who)),
            Err(Fail::Errno(_)) => {}
            Err(fail) => return Err(fail),
        }
    }
    Ok(found.to_bytes())
}
