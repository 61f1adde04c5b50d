//! What a grant demands of a command's argument.

use crate::scan::Scan;
use regex_lite::{Regex, RegexBuilder};
use std::net::SocketAddr;

/// Longest pattern taken; compiled patterns are bounded too.
const MAX_PATTERN: usize = 1024;
/// Bytes that a compiled pattern may take.
const MAX_COMPILED: usize = 1 << 20;

/// A demand.
#[derive(Clone, Debug)]
pub(crate) enum Constraint {
    Equal(String),
    Prefix(String),
    /// The whole argument must match. Matching takes time linear in the argument.
    Pattern(Regex),
    /// The argument must not be there.
    Absent,
    /// The argument is capabilities made of profiles of the RBD family, and of nothing else.
    RbdProfiles,
    /// The same, or the argument is not there.
    RbdProfilesOrAbsent,
    /// The argument is the address of one client instance: no host, no range, no daemon.
    Client,
}

impl Constraint {
    /// A pattern; `None` if it is malformed or too large.
    pub(crate) fn pattern(text: &str) -> Option<Self> {
        if text.len() > MAX_PATTERN {
            return None;
        }
        let whole = RegexBuilder::new(&format!("^(?:{text})$")).size_limit(MAX_COMPILED).build().ok()?;
        Some(Self::Pattern(whole))
    }

    /// Says whether an argument is as demanded; `None` if the command has no such argument.
    pub(crate) fn holds(&self, argument: Option<&str>) -> bool {
        let Some(argument) = argument else { return matches!(self, Self::Absent | Self::RbdProfilesOrAbsent) };
        match self {
            Self::Equal(value) => argument == value,
            Self::Prefix(prefix) => argument.starts_with(prefix.as_str()),
            Self::Pattern(pattern) => pattern.is_match(argument),
            Self::Absent => false,
            Self::RbdProfiles | Self::RbdProfilesOrAbsent => only_rbd_profiles(argument),
            Self::Client => is_client(argument),
        }
    }
}

/// Says whether capabilities are a list of `profile rbd...`, each perhaps limited to a pool, a namespace, a network.
/// The words are read as the parsers of capabilities read them, so that what looks like one clause here is not two
/// there.
fn only_rbd_profiles(text: &str) -> bool {
    fn clause(s: &mut Scan<'_>) -> Option<()> {
        s.maybe_blanks();
        s.lit("profile")?;
        s.equals_or_spaces()?;
        let name = s.word("a profile")?;
        s.keyed("pool", "a pool");
        s.attempt(|s| {
            s.spaced("namespace")?;
            s.equals_or_spaces()?;
            s.word_or_empty("a namespace")
        });
        s.network()?;
        s.maybe_blanks();
        name.starts_with("rbd").then_some(())
    }
    fn list(s: &mut Scan<'_>) -> Option<()> {
        clause(s)?;
        while s.lit(",").is_some() {
            clause(s)?;
        }
        s.done().then_some(())
    }
    list(&mut Scan::new(text)).is_some()
}

/// Says whether a text is `IP:0/NONCE`, perhaps with the protocol before it. Clients have port 0; a nonce of 0 stands
/// for all clients of a host, and an address of zeros for all hosts.
fn is_client(text: &str) -> bool {
    let text = ["v1:", "v2:", "any:"].iter().find_map(|kind| text.strip_prefix(kind)).unwrap_or(text);
    let Some((place, nonce)) = text.split_once('/') else { return false };
    let digits = !nonce.is_empty() && nonce.bytes().all(|b| b.is_ascii_digit());
    let Ok(addr) = place.parse::<SocketAddr>() else { return false };
    digits && nonce.parse::<u32>().is_ok_and(|n| n != 0) && addr.port() == 0 && !addr.ip().to_canonical().is_unspecified()
}

impl PartialEq for Constraint {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Equal(a), Self::Equal(b)) | (Self::Prefix(a), Self::Prefix(b)) => a == b,
            (Self::Pattern(a), Self::Pattern(b)) => a.as_str() == b.as_str(),
            (Self::Absent, Self::Absent)
            | (Self::RbdProfiles, Self::RbdProfiles)
            | (Self::RbdProfilesOrAbsent, Self::RbdProfilesOrAbsent)
            | (Self::Client, Self::Client) => true,
            _ => false,
        }
    }
}

impl Eq for Constraint {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_client_is_no_host_no_range_and_no_daemon() {
        for one in ["10.0.0.1:0/1234", "v1:10.0.0.1:0/1", "v2:10.0.0.1:0/1", "any:[fd00::1]:0/4294967295", "[fd00::1]:0/7"] {
            assert!(is_client(one), "{one}");
        }
        for other in [
            "10.0.0.0/8",
            "127.0.0.0/8",
            "10.0.0.1",
            "10.0.0.1/32",
            "10.0.0.1:0/0",
            "10.0.0.1:0/00",
            "10.0.0.1:6800/1234",
            "10.0.0.1:0/",
            "10.0.0.1:0/1/2",
            "10.0.0.1:0/4294967296",
            "10.0.0.1:0/+1",
            "0.0.0.0:0/1",
            "[::]:0/1",
            "[::ffff:0.0.0.0]:0/1",
            "cidr:10.0.0.0:0/8",
            "v1:v1:10.0.0.1:0/1",
            " 10.0.0.1:0/1",
            "",
        ] {
            assert!(!is_client(other), "{other}");
        }
    }

    #[test]
    fn lists_of_profiles_hold_nothing_else() {
        for good in [
            "profile rbd",
            "profile=rbd pool=a, profile rbd-read-only pool 'b;c'",
            "profile rbd pool=a namespace=n network 10.0.0.0/8",
            "profile 'rbd'",
        ] {
            assert!(only_rbd_profiles(good), "{good}");
        }
        for bad in [
            "",
            "allow *",
            "profile rbd, allow rwx",
            "profile rbd; allow *",
            "profile rbd pool=a; allow *",
            "profile rbd pool=a;allow *",
            "profile rbd pool='a'; allow *",
            "profile rbd pool='a', allow * pool='b'",
            "profile rbd pool=a allow *",
            "profile rbd,",
            "profile rgw",
            "profile read-write",
            "profile rbd\n, allow *",
            "allow profile rbd pool=a, allow *",
        ] {
            assert!(!only_rbd_profiles(bad), "{bad}");
        }
    }
}
