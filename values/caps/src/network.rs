//! Networks that limit a grant.

use std::net::IpAddr;
use std::str::FromStr;

/// An address and how many of its leading bits count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Network {
    addr: IpAddr,
    bits: u32,
}

impl FromStr for Network {
    type Err = ();

    /// `10.1.0.0/16`, `fd00::/8`, `[fd00::]/8`.
    fn from_str(s: &str) -> Result<Self, ()> {
        let (addr, bits) = s.split_once('/').ok_or(())?;
        let addr: IpAddr = addr.trim_start_matches('[').trim_end_matches(']').parse().map_err(|_| ())?;
        let bits = bits.parse().map_err(|_| ())?;
        if bits > Self::width(addr) { Err(()) } else { Ok(Self { addr, bits }) }
    }
}

impl Network {
    fn width(addr: IpAddr) -> u32 {
        if addr.is_ipv4() { 32 } else { 128 }
    }

    fn number(addr: IpAddr) -> u128 {
        match addr {
            IpAddr::V4(a) => u32::from(a).into(),
            IpAddr::V6(a) => a.into(),
        }
    }

    /// Returns true if `addr` is inside. IPv4 addresses in IPv6 clothes count as IPv4.
    pub(crate) fn contains(&self, addr: IpAddr) -> bool {
        let addr = addr.to_canonical();
        if addr.is_ipv4() != self.addr.is_ipv4() {
            return false;
        }
        let differ = Self::number(addr) ^ Self::number(self.addr);
        differ.checked_shr(Self::width(addr) - self.bits).unwrap_or(0) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inside(network: &str, addr: &str) -> bool {
        let network: Network = network.parse().expect("a network");
        network.contains(addr.parse().expect("an address"))
    }

    #[test]
    fn leading_bits_decide() {
        assert!(inside("10.1.0.0/16", "10.1.200.3") && !inside("10.1.0.0/16", "10.2.0.1"));
        assert!(inside("0.0.0.0/0", "255.1.2.3") && !inside("0.0.0.0/0", "::1"));
        assert!(inside("::/0", "fd00::1") && !inside("fd00::/8", "fe00::1") && inside("[fd00::]/8", "fd12::1"));
        assert!(inside("127.0.0.1/32", "127.0.0.1") && !inside("127.0.0.1/32", "127.0.0.2"));
        assert!(inside("10.1.0.0/16", "::ffff:10.1.2.3"));
    }

    #[test]
    fn what_is_no_network() {
        for bad in ["", "/", "10.0.0.0", "10.0.0.0/33", "10.0.0/8", "::/129", "10.0.0.0/x", "a/8"] {
            assert_eq!(bad.parse::<Network>(), Err(()), "{bad}");
        }
    }
}
