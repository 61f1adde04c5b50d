//! `ceph.conf`, which clients read.

use crate::cli::Auth;
use anyhow::{Context, Result};
use std::net::SocketAddr;
use std::path::Path;
use types::Fsid;

/// The text of `ceph.conf` in `dir` (absolute).
pub(crate) fn text(dir: &Path, fsid: Fsid, mons: &[SocketAddr], auth: Auth) -> String {
    let (dir, auth) = (dir.display(), auth.name());
    let mons = mons.iter().map(|mon| format!("[v2:{mon}]")).collect::<Vec<_>>().join(",");
    format!(
        "# Written by nacre at each start.\n\
         [global]\n\
         fsid = {fsid}\n\
         mon host = {mons}\n\
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
    /// The monitors.
    pub(crate) mons: Vec<SocketAddr>,
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
        let one = |h: &str| h.strip_prefix("[v2:").and_then(|h| h.strip_suffix(']')).and_then(|h| h.parse().ok());
        let mons = host.split(',').map(|h| one(h.trim())).collect::<Option<Vec<_>>>();
        let mons = mons.with_context(|| format!("'mon host = {host}' is not [v2:ADDRESS:PORT],..."))?;
        let auth = if get("auth cluster required").as_deref() == Some("none") { Auth::None } else { Auth::Cephx };
        Ok(Self { mons, auth })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for (addrs, auth) in [(vec!["127.0.0.1:3300"], Auth::None), (vec!["[::1]:4000", "10.0.0.1:3300"], Auth::Cephx)] {
            let mons: Vec<SocketAddr> = addrs.iter().map(|a| a.parse().unwrap()).collect();
            let text = text(Path::new("/a b"), Fsid([7; 16]), &mons, auth);
            let conf = Conf::parse(&text).unwrap();
            assert_eq!(conf.mons, mons);
            assert_eq!(conf.auth, auth);
        }
        assert!(Conf::parse("[global]\n").is_err());
        assert!(Conf::parse("mon host = somewhere\n").is_err());
    }
}
