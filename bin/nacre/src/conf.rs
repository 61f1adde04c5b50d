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

/// Options that a daemon takes from a `ceph.conf` that was written by [`text`].
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

    /// Reads it by the rules of all files of options, since somebody may have edited it.
    fn parse(text: &str) -> Result<Self> {
        let sections = settings::file::read(text.as_bytes())?;
        let get = |name: &str| sections.get("global").and_then(|section| section.get(name));
        let host = get("mon_host").context("has no 'mon host'")?;
        let one = |h: &str| h.strip_prefix("[v2:").and_then(|h| h.strip_suffix(']')).and_then(|h| h.parse().ok());
        let mons = host.split(',').map(|h| one(h.trim())).collect::<Option<Vec<_>>>();
        let mons = mons.with_context(|| format!("'mon host = {host}' is not [v2:ADDRESS:PORT],..."))?;
        let auth = if get("auth_cluster_required").is_some_and(|auth| auth == "none") { Auth::None } else { Auth::Cephx };
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
        // Edited by hand: underscores, quotes, comments, another section with the same name in it.
        let edited = "[client]\nmon host = elsewhere\n[global]\nmon_host = \"[v2:10.0.0.1:3300]\" ; ours\nauth cluster required = 'none' # off\n";
        let conf = Conf::parse(edited).unwrap();
        assert_eq!((conf.mons, conf.auth), (vec!["10.0.0.1:3300".parse().unwrap()], Auth::None));
        assert!(Conf::parse("[global]\nmon host = \"[v2:10.0.0.1:3300]\n").is_err(), "a quote without its end");
        assert!(Conf::parse("[global]\n").is_err());
        assert!(Conf::parse("mon host = somewhere\n").is_err());
    }
}
