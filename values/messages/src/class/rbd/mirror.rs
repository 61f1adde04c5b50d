//! Mirroring: peers, images, their state.

use crate::frame::EntityNum;
use bytes::Bytes;
use denc::{Decode, Encode, Reader, Result, envelope, put_count};
use types::{EntityAddr, UTime};

/// Modes of mirroring of a pool.
#[allow(missing_docs)]
pub mod mirror_mode {
    pub const DISABLED: u32 = 0;
    pub const IMAGE: u32 = 1;
    pub const POOL: u32 = 2;
}

/// Directions in which a peer's images go.
#[allow(missing_docs)]
pub mod direction {
    pub const RX: u8 = 0;
    pub const TX: u8 = 1;
    pub const RX_TX: u8 = 2;
}

/// States of an image's mirroring.
#[allow(missing_docs)]
pub mod mirror_image_state {
    pub const DISABLING: u8 = 0;
    pub const ENABLED: u8 = 1;
    pub const DISABLED: u8 = 2;
}

/// States of an image as a mirroring daemon tells them.
#[allow(missing_docs)]
pub mod image_status {
    pub const UNKNOWN: u8 = 0;
    pub const ERROR: u8 = 1;
}

/// Another cluster (`cls::rbd::MirrorPeer`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MirrorPeer {
    /// Id of this entry.
    pub uuid: Bytes,
    /// Name of the other cluster.
    pub site_name: Bytes,
    /// The user there.
    pub client_name: Bytes,
    /// See [`direction`]; version 1 meant both ways.
    pub direction: u8,
    /// The other cluster's own id.
    pub mirror_uuid: Bytes,
    /// Time when it was last heard of.
    pub last_seen: UTime,
}

impl MirrorPeer {
    /// Returns true if it has all that an entry needs.
    pub fn is_valid(&self) -> bool {
        let direction = match self.direction {
            direction::TX => true,
            direction::RX | direction::RX_TX => !self.client_name.is_empty(),
            _ => false,
        };
        direction && !self.uuid.is_empty() && !self.site_name.is_empty()
    }
}

impl Decode for MirrorPeer {
    const MIN_SIZE: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut e = r.envelope("MirrorPeer", 2)?;
        let b = &mut e.body;
        let (uuid, site_name, client_name) = (b.get()?, b.get()?, b.get()?);
        b.u64()?;
        let mut peer = Self { uuid, site_name, client_name, direction: direction::RX_TX, ..Self::default() };
        if e.version >= 2 {
            peer.direction = b.get()?;
            peer.mirror_uuid = b.get()?;
            peer.last_seen = b.get()?;
        }
        Ok(peer)
    }
}

impl Encode for MirrorPeer {
    fn encode(&self, out: &mut Vec<u8>) {
        envelope(out, 2, 1, |out| {
            self.uuid.encode(out);
            self.site_name.encode(out);
            self.client_name.encode(out);
            // A pool that nobody uses any more.
            (-1i64).encode(out);
            self.direction.encode(out);
            self.mirror_uuid.encode(out);
            self.last_seen.encode(out);
        });
    }
}

/// A mirrored image (`cls::rbd::MirrorImage`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MirrorImage {
    /// Its id in all clusters.
    pub global_id: Bytes,
    /// See [`mirror_image_state`].
    pub state: u8,
    /// 0 by journal, 1 by snapshots; not known to version 1.
    pub mode: u8,
}

impl Decode for MirrorImage {
    const MIN_SIZE: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut e = r.envelope("MirrorImage", 2)?;
        let (global_id, state) = (e.body.get()?, e.body.get()?);
        let mode = if e.version >= 2 { e.body.get()? } else { 0 };
        Ok(Self { global_id, state, mode })
    }
}

impl Encode for MirrorImage {
    fn encode(&self, out: &mut Vec<u8>) {
        envelope(out, 2, 1, |out| {
            self.global_id.encode(out);
            self.state.encode(out);
            self.mode.encode(out);
        });
    }
}

/// Status of an image as one cluster's daemon tells it (`cls::rbd::MirrorImageSiteStatus`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SiteStatus {
    /// The cluster; empty for the own one.
    pub mirror_uuid: Bytes,
    /// See [`image_status`].
    pub state: u8,
    /// For people.
    pub description: Bytes,
    /// Time when it was said.
    pub last_update: UTime,
    /// True if the daemon lives.
    pub up: bool,
}

impl SiteStatus {
    fn encode_rest(&self, out: &mut Vec<u8>) {
        self.state.encode(out);
        self.description.encode(out);
        self.last_update.encode(out);
        self.up.encode(out);
    }

    fn decode_rest(mirror_uuid: Bytes, r: &mut Reader<'_>) -> Result<Self> {
        Ok(Self { mirror_uuid, state: r.get()?, description: r.get()?, last_update: r.get()?, up: r.get()? })
    }
}

impl Decode for SiteStatus {
    const MIN_SIZE: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut e = r.envelope("SiteStatus", 2)?;
        let uuid = if e.version >= 2 { e.body.get()? } else { Bytes::new() };
        Self::decode_rest(uuid, &mut e.body)
    }
}

impl Encode for SiteStatus {
    /// The own cluster's at version 1, which older readers know; another's at version 2.
    fn encode(&self, out: &mut Vec<u8>) {
        let version = if self.mirror_uuid.is_empty() { 1 } else { 2 };
        envelope(out, version, version, |out| {
            if version == 2 {
                self.mirror_uuid.encode(out);
            }
            self.encode_rest(out);
        });
    }
}

/// A [`SiteStatus`] as it is stored: with the daemon that said it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredSiteStatus {
    /// The daemon.
    pub origin: EntityNum,
    /// Its address.
    pub addr: EntityAddr,
    /// Its status; without the cluster, which is in the key.
    pub status: SiteStatus,
}

impl Decode for StoredSiteStatus {
    const MIN_SIZE: usize = 12;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut e = r.envelope("StoredSiteStatus", 1)?;
        Ok(Self { origin: e.body.get()?, addr: e.body.get()?, status: r.get()? })
    }
}

impl Encode for StoredSiteStatus {
    fn encode(&self, out: &mut Vec<u8>) {
        envelope(out, 1, 1, |out| {
            self.origin.encode(out);
            self.addr.encode(out);
        });
        self.status.encode(out);
    }
}

/// Status of an image at all clusters (`cls::rbd::MirrorImageStatus`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MirrorImageStatus {
    /// One for each cluster.
    pub sites: Vec<SiteStatus>,
}

impl MirrorImageStatus {
    /// Returns what the own daemon says.
    pub fn local(&self) -> Option<&SiteStatus> {
        self.sites.iter().find(|s| s.mirror_uuid.is_empty())
    }

    /// Returns what the others say.
    pub fn remote(&self) -> impl Iterator<Item = &SiteStatus> {
        self.sites.iter().filter(|s| !s.mirror_uuid.is_empty())
    }
}

impl Decode for MirrorImageStatus {
    const MIN_SIZE: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut e = r.envelope("MirrorImageStatus", 2)?;
        let b = &mut e.body;
        let local = SiteStatus::decode_rest(Bytes::new(), b)?;
        let mut sites = Vec::new();
        if e.version < 2 {
            sites.push(local);
            return Ok(Self { sites });
        }
        if b.get()? {
            sites.push(local);
        }
        for _ in 0..b.count(18)? {
            let uuid = b.get()?;
            sites.push(SiteStatus::decode_rest(uuid, b)?);
        }
        Ok(Self { sites })
    }
}

impl Encode for MirrorImageStatus {
    fn encode(&self, out: &mut Vec<u8>) {
        envelope(out, 2, 1, |out| {
            match self.local() {
                Some(local) => local.encode_rest(out),
                None => SiteStatus::default().encode_rest(out),
            }
            self.local().is_some().encode(out);
            put_count(out, self.remote().count());
            for site in self.remote() {
                site.mirror_uuid.encode(out);
                site.encode_rest(out);
            }
        });
    }
}

/// Daemon that looks after an image (`cls::rbd::MirrorImageMap`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MirrorImageMap {
    /// The daemon.
    pub instance: Bytes,
    /// Since when.
    pub mapped: UTime,
    /// The daemons' own.
    pub data: Bytes,
}
denc::versioned!(MirrorImageMap, 1, 1 { instance, mapped, data });
