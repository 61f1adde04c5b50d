//! Network addresses of entities.

use denc::{Decode, DecodeError, Encode, Reader, Result};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Protocol that is spoken at an address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
pub enum AddrType {
    /// No address.
    #[default]
    None = 0,
    /// The first messenger protocol.
    Legacy = 1,
    /// msgr2.
    Msgr2 = 2,
    /// Whatever; a client's own address.
    Any = 3,
    /// A range of addresses; the nonce is the number of leading bits that they have in common.
    Cidr = 4,
}

/// An address with its protocol and the nonce that tells instances on the same address apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntityAddr {
    /// Protocol.
    pub kind: AddrType,
    /// Instance.
    pub nonce: u32,
    /// IP and port; `None` is the blank address.
    pub addr: Option<SocketAddr>,
}

const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;

impl EntityAddr {
    /// A msgr2 address.
    pub fn msgr2(addr: SocketAddr, nonce: u32) -> Self {
        Self { kind: AddrType::Msgr2, nonce, addr: Some(addr) }
    }

    /// Returns true if both name the same IP, port and nonce, whatever the protocol.
    pub fn same_instance(&self, other: &Self) -> bool {
        self.nonce == other.nonce && self.addr == other.addr
    }

    /// Returns true if a range has an address of the same family in it, whatever its port.
    pub fn range_contains(&self, other: &Self) -> bool {
        let (Some(net), Some(addr)) = (self.addr, other.addr) else { return false };
        match (net.ip(), addr.ip()) {
            (IpAddr::V4(a), IpAddr::V4(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros() >= self.nonce.min(32),
            (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros() >= self.nonce.min(128),
            _ => false,
        }
    }

    /// `IP:port/nonce`, without the protocol, as blocklist entries are printed.
    pub fn legacy_str(&self) -> String {
        match self.addr {
            Some(addr) => format!("{addr}/{}", self.nonce),
            None => format!(":/{}", self.nonce),
        }
    }
}

impl fmt::Display for EntityAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(addr) = self.addr else { return f.write_str("-") };
        match self.kind {
            AddrType::None => f.write_str("-"),
            AddrType::Legacy => write!(f, "v1:{addr}/{}", self.nonce),
            AddrType::Msgr2 => write!(f, "v2:{addr}/{}", self.nonce),
            AddrType::Any => write!(f, "{addr}/{}", self.nonce),
            AddrType::Cidr => write!(f, "cidr:{addr}/{}", self.nonce),
        }
    }
}

impl Encode for EntityAddr {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(1);
        denc::envelope(out, 1, 1, |out| {
            (self.kind as u32).encode(out);
            self.nonce.encode(out);
            denc::blob(out, |out| match self.addr {
                // Ceph writes its whole union of socket addresses, all zero.
                None => out.extend_from_slice(&[0; 28]),
                Some(SocketAddr::V4(a)) => {
                    AF_INET.encode(out);
                    out.extend_from_slice(&a.port().to_be_bytes());
                    out.extend_from_slice(&a.ip().octets());
                    out.extend_from_slice(&[0; 8]);
                }
                Some(SocketAddr::V6(a)) => {
                    AF_INET6.encode(out);
                    out.extend_from_slice(&a.port().to_be_bytes());
                    a.flowinfo().encode(out);
                    out.extend_from_slice(&a.ip().octets());
                    a.scope_id().encode(out);
                }
            });
        });
    }
}

impl Decode for EntityAddr {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        if r.u8()? != 1 {
            return Err(DecodeError::Invalid("address marker"));
        }
        let mut e = r.envelope("entity_addr_t", 1)?;
        let kind = match e.body.u32()? {
            0 => AddrType::None,
            1 => AddrType::Legacy,
            2 => AddrType::Msgr2,
            3 => AddrType::Any,
            4 => AddrType::Cidr,
            _ => return Err(DecodeError::Invalid("address type")),
        };
        let nonce = e.body.u32()?;
        let mut sa = Reader::new(e.body.blob()?);
        let addr = if sa.is_empty() {
            None
        } else {
            match sa.u16()? {
                0 => None,
                AF_INET => {
                    let port = u16::from_be_bytes(sa.get()?);
                    Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::from(sa.get::<[u8; 4]>()?)), port))
                }
                AF_INET6 => {
                    let port = u16::from_be_bytes(sa.get()?);
                    let flow = sa.u32()?;
                    let ip = Ipv6Addr::from(sa.get::<[u8; 16]>()?);
                    let scope = if sa.is_empty() { 0 } else { sa.u32()? };
                    Some(SocketAddr::V6(std::net::SocketAddrV6::new(ip, port, flow, scope)))
                }
                _ => return Err(DecodeError::Invalid("address family")),
            }
        };
        Ok(Self { kind, nonce, addr })
    }
}

/// All addresses of one entity, in its order of preference.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntityAddrVec(pub Vec<EntityAddr>);

impl EntityAddrVec {
    /// The first msgr2 address.
    pub fn msgr2(&self) -> Option<&EntityAddr> {
        self.0.iter().find(|a| a.kind == AddrType::Msgr2)
    }
}

impl fmt::Display for EntityAddrVec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [one] = &self.0[..] {
            return one.fmt(f);
        }
        let all: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        write!(f, "[{}]", all.join(","))
    }
}

impl Encode for EntityAddrVec {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(2);
        self.0.encode(out);
    }
}

impl Decode for EntityAddrVec {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        // Marker 1 is a lone address, which older writers put where a vector may stand.
        if r.clone().u8()? == 1 {
            return Ok(Self(vec![r.get()?]));
        }
        if r.u8()? != 2 {
            return Err(DecodeError::Invalid("address vector marker"));
        }
        Ok(Self(r.get()?))
    }
}
