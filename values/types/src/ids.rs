//! Names and numbers of things.

use denc::{Decode, DecodeError, Encode, Reader, Result};
use std::fmt;
use std::str::FromStr;

/// A single-field struct that is encoded as that field.
macro_rules! denc_newtype {
    ($name:ident, $inner:ty) => {
        impl denc::Decode for $name {
            const MIN_SIZE: usize = <$inner as denc::Decode>::MIN_SIZE;
            fn decode(r: &mut denc::Reader<'_>) -> denc::Result<Self> {
                Ok(Self(r.get()?))
            }
        }
        impl denc::Encode for $name {
            fn encode(&self, out: &mut Vec<u8>) {
                denc::Encode::encode(&self.0, out);
            }
        }
    };
}

/// Version of a cluster map; 0 is "none yet".
pub type Epoch = u32;
/// A pool's number, from 1 up; negative values are internal.
pub type PoolId = i64;
/// An OSD's number, from 0 up; -1 is "none", 0x7fffffff is CRUSH's hole in an erasure-coded set.
pub type OsdId = i32;

/// The place of a set that no OSD has, as CRUSH leaves it where places have positions (`CRUSH_ITEM_NONE`).
pub const HOLE: OsdId = 0x7fff_ffff;

/// Returns true if this is the number of an OSD: neither "none", which is negative, nor [`HOLE`].
pub const fn is_osd(osd: OsdId) -> bool {
    osd >= 0 && osd != HOLE
}

/// Identifies a cluster.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fsid(pub [u8; 16]);
impl Decode for Fsid {
    const MIN_SIZE: usize = 16;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        Ok(Self(r.get()?))
    }
}
impl Encode for Fsid {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
    }
}
impl fmt::Display for Fsid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, byte) in self.0.iter().enumerate() {
            if matches!(i, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}
impl fmt::Debug for Fsid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
impl FromStr for Fsid {
    type Err = DecodeError;
    fn from_str(s: &str) -> Result<Self> {
        let digits: Vec<u8> = s.bytes().filter(|b| *b != b'-').collect();
        if digits.len() != 32 || !digits.iter().all(u8::is_ascii_hexdigit) {
            return Err(DecodeError::Invalid("fsid"));
        }
        let nibble = |b: u8| u8::try_from((b as char).to_digit(16).unwrap_or_default()).unwrap_or_default();
        let mut id = [0; 16];
        for (byte, pair) in id.iter_mut().zip(digits.chunks(2)) {
            *byte = nibble(pair[0]) << 4 | nibble(pair[1]);
        }
        Ok(Self(id))
    }
}

/// Kind of an entity; the values are bits on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum EntityType {
    /// A monitor.
    Mon = 1,
    /// A metadata server.
    Mds = 2,
    /// An OSD.
    Osd = 4,
    /// A client.
    #[default]
    Client = 8,
    /// A manager.
    Mgr = 16,
    /// The authentication service (only as the service of a ticket).
    Auth = 32,
}

impl EntityType {
    /// From the number on the wire.
    pub fn from_wire(n: u32) -> Result<Self> {
        Ok(match n {
            1 => Self::Mon,
            2 => Self::Mds,
            4 => Self::Osd,
            8 => Self::Client,
            16 => Self::Mgr,
            32 => Self::Auth,
            _ => return Err(DecodeError::Invalid("entity type")),
        })
    }

    /// `mon`, `osd`, `client`, ...
    pub fn name(self) -> &'static str {
        match self {
            Self::Mon => "mon",
            Self::Mds => "mds",
            Self::Osd => "osd",
            Self::Client => "client",
            Self::Mgr => "mgr",
            Self::Auth => "auth",
        }
    }
}

/// A name as in the auth database: `client.admin`, `osd.0`. On the wire: u32 type, string id.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntityName {
    /// Kind.
    pub kind: EntityType,
    /// Part behind the dot.
    pub id: String,
}
impl EntityName {
    /// From its parts.
    pub fn new(kind: EntityType, id: impl Into<String>) -> Self {
        Self { kind, id: id.into() }
    }
}
impl fmt::Display for EntityName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.kind.name(), self.id)
    }
}
impl FromStr for EntityName {
    type Err = DecodeError;
    fn from_str(s: &str) -> Result<Self> {
        let (kind, id) = s.split_once('.').ok_or(DecodeError::Invalid("entity name"))?;
        let kind = match kind {
            "mon" => EntityType::Mon,
            "mds" => EntityType::Mds,
            "osd" => EntityType::Osd,
            "client" => EntityType::Client,
            "mgr" => EntityType::Mgr,
            "auth" => EntityType::Auth,
            _ => return Err(DecodeError::Invalid("entity type")),
        };
        Ok(Self::new(kind, id))
    }
}
impl Decode for EntityName {
    const MIN_SIZE: usize = 8;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        Ok(Self { kind: EntityType::from_wire(r.u32()?)?, id: r.get()? })
    }
}
impl Encode for EntityName {
    fn encode(&self, out: &mut Vec<u8>) {
        (self.kind as u32).encode(out);
        self.id.encode(out);
    }
}

/// A point in a placement group's history: `epoch'version` in print, version first on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct EVersion {
    /// Counts the group's writes.
    pub version: u64,
    /// Map epoch in which the primary ordered the write.
    pub epoch: Epoch,
}
denc::plain!(EVersion { version, epoch });
impl EVersion {
    /// From `epoch` and `version`.
    pub const fn new(epoch: Epoch, version: u64) -> Self {
        Self { version, epoch }
    }
}
/// Epoch first, then version.
impl Ord for EVersion {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.epoch, self.version).cmp(&(other.epoch, other.version))
    }
}
impl PartialOrd for EVersion {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl fmt::Display for EVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}'{}", self.epoch, self.version)
    }
}

/// A placement group: `pool.seed` with the seed in hex. On the wire: u8 1, u64 pool, u32 seed, s32 -1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PgId {
    /// Pool.
    pub pool: PoolId,
    /// Number within the pool, below pg_num (or a raw object hash before it is folded).
    pub seed: u32,
}
impl PgId {
    /// From its parts.
    pub const fn new(pool: PoolId, seed: u32) -> Self {
        Self { pool, seed }
    }
}
impl fmt::Display for PgId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:x}", self.pool, self.seed)
    }
}
impl FromStr for PgId {
    type Err = DecodeError;
    fn from_str(s: &str) -> Result<Self> {
        let (pool, seed) = s.split_once('.').ok_or(DecodeError::Invalid("pg id"))?;
        Ok(Self {
            pool: pool.parse().map_err(|_| DecodeError::Invalid("pool of a pg id"))?,
            seed: u32::from_str_radix(seed, 16).map_err(|_| DecodeError::Invalid("seed of a pg id"))?,
        })
    }
}
impl Decode for PgId {
    const MIN_SIZE: usize = 17;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        if r.u8()? != 1 {
            return Err(DecodeError::Invalid("pg_t version"));
        }
        let pg = Self { pool: r.get()?, seed: r.get()? };
        r.get::<i32>()?;
        Ok(pg)
    }
}
impl Encode for PgId {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(1);
        self.pool.encode(out);
        self.seed.encode(out);
        (-1i32).encode(out);
    }
}

/// Position in an erasure-coded group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardId(pub i8);
impl ShardId {
    /// Replicated groups have no shards.
    pub const NONE: ShardId = ShardId(-1);

    /// Returns true if the group has no shards: all its copies are equal, and have no positions.
    pub const fn is_none(self) -> bool {
        self.0 == Self::NONE.0
    }

    /// Returns the shard that a position of a group has one of whose copies has this shard: position i holds shard i.
    pub fn at(self, position: usize) -> Self {
        if self.is_none() { self } else { Self(i8::try_from(position).unwrap_or(i8::MAX)) }
    }

    /// Returns the copies that OSDs at these positions are, in a group one of whose copies has this shard. Holes are left
    /// out.
    pub fn copies(self, places: &[OsdId]) -> impl Iterator<Item = CopyId> + Clone {
        let named = move |(position, osd): (usize, &OsdId)| CopyId { osd: *osd, shard: self.at(position) };
        places.iter().enumerate().map(named).filter(|copy| is_osd(copy.osd))
    }

    /// Returns all copies that an OSD may be, in a group of so many positions one of whose copies has this shard.
    pub fn copies_on(self, osd: OsdId, positions: usize) -> impl Iterator<Item = CopyId> {
        (0..if self.is_none() { 1 } else { positions }).map(move |position| CopyId { osd, shard: self.at(position) })
    }
}
impl Default for ShardId {
    fn default() -> Self {
        Self::NONE
    }
}

/// A copy of a placement group: where it is, and which shard it holds (`pg_shard_t`). One OSD may be several copies of a
/// group that has shards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CopyId {
    /// The OSD that holds it.
    pub osd: OsdId,
    /// Its shard; [`ShardId::NONE`] in a replicated pool.
    pub shard: ShardId,
}
impl CopyId {
    /// A copy in a replicated pool.
    pub const fn whole(osd: OsdId) -> Self {
        Self { osd, shard: ShardId::NONE }
    }

    /// Returns the range in which all copies on an OSD lie.
    pub const fn on(osd: OsdId) -> std::ops::RangeInclusive<Self> {
        Self { osd, shard: ShardId(i8::MIN) }..=Self { osd, shard: ShardId(i8::MAX) }
    }
}
/// As Ceph shows it: `3`, or `3(2)` with a shard.
impl fmt::Display for CopyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.shard.is_none() { self.osd.fmt(f) } else { write!(f, "{}({})", self.osd, self.shard.0) }
    }
}

/// A shard of a placement group: `pool.seed` or `pool.seedsN`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpgId {
    /// The group.
    pub pg: PgId,
    /// The shard.
    pub shard: ShardId,
}
impl SpgId {
    /// A replicated group's only shard.
    pub const fn whole(pg: PgId) -> Self {
        Self { pg, shard: ShardId::NONE }
    }
}
impl fmt::Display for SpgId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.pg.fmt(f)?;
        if self.shard == ShardId::NONE { Ok(()) } else { write!(f, "s{}", self.shard.0) }
    }
}
impl FromStr for SpgId {
    type Err = DecodeError;
    fn from_str(s: &str) -> Result<Self> {
        let Some((pg, shard)) = s.split_once('s') else { return Ok(Self::whole(s.parse()?)) };
        let shard: i8 = shard.parse().map_err(|_| DecodeError::Invalid("shard of a pg id"))?;
        if shard < 0 {
            Err(DecodeError::Invalid("shard of a pg id"))
        } else {
            Ok(Self { pg: pg.parse()?, shard: ShardId(shard) })
        }
    }
}
impl Decode for SpgId {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut e = r.envelope("spg_t", 1)?;
        Ok(Self { pg: e.body.get()?, shard: ShardId(e.body.get()?) })
    }
}
impl Encode for SpgId {
    fn encode(&self, out: &mut Vec<u8>) {
        denc::envelope(out, 1, 1, |out| {
            self.pg.encode(out);
            self.shard.0.encode(out);
        });
    }
}

/// A snapshot's number. Object ids carry one to name a clone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SnapId(pub u64);
impl SnapId {
    /// The object as it is now (`CEPH_NOSNAP`, -2).
    pub const HEAD: SnapId = SnapId(u64::MAX - 1);
    /// All of an object's snapshots together (`CEPH_SNAPDIR`, -1).
    pub const DIR: SnapId = SnapId(u64::MAX);
    /// The largest number that a snapshot may have (`CEPH_MAXSNAP`, -3).
    pub const MAX: u64 = u64::MAX - 2;
}
impl Default for SnapId {
    fn default() -> Self {
        Self::HEAD
    }
}
denc_newtype!(SnapId, u64);

/// A session with a peer on one daemon's messenger: outlives the connections under it. Never used again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

/// Identifies a client's request across retries: who, which instance, which transaction. Encoded v2/c2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReqId {
    /// Kind of the requester, as on the wire.
    pub kind: u8,
    /// Its global id.
    pub num: i64,
    /// The request's transaction id on its session.
    pub tid: u64,
    /// Incarnation of the client.
    pub inc: i32,
}
impl fmt::Display for ReqId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = EntityType::from_wire(self.kind.into()).map_or("unknown", EntityType::name);
        write!(f, "{kind}.{}.{}:{}", self.num, self.inc, self.tid)
    }
}
denc::versioned!(ReqId, 2, 2 { kind, num, tid, inc });

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_named_by_its_osd_and_where_places_have_positions_by_its_shard() {
        let names = |shard: ShardId, places: &[OsdId]| shard.copies(places).map(|copy| copy.to_string()).collect::<Vec<_>>();
        assert_eq!(names(ShardId::NONE, &[4, -1, 2]), ["4", "2"]);
        assert_eq!(names(ShardId(1), &[4, HOLE, 2, -1, 4]), ["4(0)", "2(2)", "4(4)"]);
        let on = |shard: ShardId| shard.copies_on(7, 3).collect::<Vec<_>>();
        assert_eq!((on(ShardId::NONE).len(), on(ShardId(0)).len()), (1, 3));
        let all = on(ShardId(0)).into_iter().chain(on(ShardId::NONE));
        assert!(all.into_iter().all(|copy| CopyId::on(7).contains(&copy) && !CopyId::on(8).contains(&copy)));
        assert_eq!(size_of::<CopyId>(), 8);
    }

    #[test]
    fn names_parse_back() {
        assert_eq!("2.1f".parse(), Ok(PgId::new(2, 0x1f)));
        assert_eq!("client.admin".parse::<EntityName>().map(|n| n.to_string()), Ok("client.admin".into()));
        let id = "c9b6a0b4-0e3a-4e49-9a45-1c2d3e4f5a6b";
        assert_eq!(id.parse::<Fsid>().map(|f| f.to_string()), Ok(id.into()));
        assert!("c9b6a0b4".parse::<Fsid>().is_err());
    }

    #[test]
    fn versions_order_by_epoch_first() {
        assert!(EVersion::new(1, 9) < EVersion::new(2, 3));
        assert_eq!(EVersion::new(4, 12).to_string(), "4'12");
    }
}
