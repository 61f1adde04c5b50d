//! `ceph.conf`, which clients read.

use crate::cli::Auth;
use anyhow::{Context, Result};
use std::net::SocketAddr;
use std::path::Path;
use types::{EntityAddr, EntityAddrVec, Fsid};

/// The text of `ceph.conf` in `dir` (absolute).
pub(crate) fn text(dir: &Path, fsid: Fsid, mon: SocketAddr, auth: Auth) -> String {
    let (dir, auth) = (dir.display(), auth.name());
    format!(
        "# Written by nacre at each start.\n\
         [global]\n\
         fsid = {fsid}\n\
         mon host = [v2:{mon}]\n\
         auth cluster required = {auth}\n\
         auth service required = {auth}\n\
         auth client required = {auth}\n\
         keyring = {dir}/keyring\n\
         admin socket = {dir}/$name.asok\n\
         \n\
         [client]\n\
         log file =\n\
         admin socket =\n\
         # The Linux kernel's client speaks the first messenger protocol unless it is told not to.\n\
         rbd default map options = ms_mode=prefer-crc\n"
    )
}

/// What a daemon takes from a `ceph.conf` that was written by [`text`].
pub(crate) struct Conf {
    /// The monitor.
    pub(crate) mon: EntityAddrVec,
    /// How to authenticate.
    pub(crate) auth: Auth,
}

impl Conf {
    /// Reads that of `dir`.
    pub(crate) fn load(dir: &Path) -> Result<Self> {
        let path = dir.join("ceph.conf");
        let text = std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        Self::parse(&text).with_context(|| path.display().to_string())
    }

    fn parse(text: &str) -> Result<Self> {
        let get = |name: &str| {
            let values = text.lines().filter_map(|line| line.split_once('='));
            values.into_iter().find(|(n, _)| n.trim() == name).map(|(_, v)| v.trim().to_owned())
        };
        let host = get("mon host").context("has no 'mon host'")?;
        let addr = host.strip_prefix("[v2:").and_then(|h| h.strip_suffix(']')).and_then(|h| h.parse().ok());
        let addr = addr.with_context(|| format!("'mon host = {host}' is not [v2:ADDRESS:PORT]"))?;
        let auth = if get("auth cluster required").as_deref() == Some("none") { Auth::None } else { Auth::Cephx };
        Ok(Self { mon: EntityAddrVec(vec![EntityAddr::msgr2(addr, 0)]), auth })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for (addr, auth) in [("127.0.0.1:3300", Auth::None), ("[::1]:4000", Auth::Cephx)] {
            let text = text(Path::new("/a b"), Fsid([7; 16]), addr.parse().unwrap(), auth);
            let conf = Conf::parse(&text).unwrap();
            assert_eq!(conf.mon.to_string(), format!("v2:{addr}/0"));
            assert_eq!(conf.auth, auth);
        }
        assert!(Conf::parse("[global]\n").is_err());
        assert!(Conf::parse("mon host = somewhere\n").is_err());
    }
}
