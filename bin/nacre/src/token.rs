//! `nacre token`: a line with which one host may join. It is a secret, ends, and is good for one host.

use crate::cli::{Auth, Token};
use crate::client::Client;
use crate::conf::Conf;
use crate::keys;
use crate::state::State;
use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::time::{SystemTime, UNIX_EPOCH};
use types::Fsid;

/// Beginning of a token; the number is that of its layout.
const HEAD: &str = "nacre1-";

/// Bytes of a token at most, with room for many monitors.
const LONGEST: u64 = 16 << 10;

/// Contents of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Invitation {
    /// The cluster.
    pub(crate) fsid: Fsid,
    /// Number of the key: it is that of `client.join.N`.
    pub(crate) number: u64,
    /// The key.
    pub(crate) key: [u8; 16],
    /// Time when it ends, in seconds since 1970.
    pub(crate) ends: u64,
    /// True if the cluster asks for keys.
    pub(crate) cephx: bool,
    /// Addresses of monitors.
    pub(crate) monitors: Vec<SocketAddr>,
}

impl Invitation {
    /// The line.
    pub(crate) fn text(&self) -> String {
        let mut bytes = self.fsid.0.to_vec();
        bytes.extend(self.number.to_le_bytes());
        bytes.extend(self.key);
        bytes.extend(self.ends.to_le_bytes());
        bytes.push(self.cephx.into());
        bytes.extend(self.monitors.iter().map(ToString::to_string).collect::<Vec<_>>().join(",").bytes());
        bytes.extend(kernels::crc32c(kernels::SEED, &bytes).to_le_bytes());
        format!("{HEAD}{}", URL_SAFE_NO_PAD.encode(bytes))
    }

    /// Takes what was given on the command line: the line itself, `-` for standard input, `@FILE` for a file. The last
    /// two keep it out of the list of processes.
    pub(crate) fn given(text: &str) -> Result<Self> {
        let mut line = String::new();
        match (text, text.strip_prefix('@')) {
            ("-", _) => Self::read_from(std::io::stdin().lock(), &mut line).context("the token from standard input")?,
            (_, Some(path)) => {
                let file = std::fs::File::open(path).with_context(|| format!("the token from {path}"))?;
                Self::read_from(file, &mut line).with_context(|| format!("the token from {path}"))?;
            }
            _ => return Self::parse(text),
        }
        Self::parse(&line)
    }

    /// Reads one line; what is longer than any token is cut and will be no token.
    fn read_from(from: impl Read, line: &mut String) -> Result<()> {
        BufReader::new(from.take(LONGEST)).read_line(line)?;
        Ok(())
    }

    /// Reads a line.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let Some(body) = text.trim().strip_prefix(HEAD) else {
            bail!("this is no token: one begins with {HEAD} and is printed by `nacre token`");
        };
        let read = || {
            let bytes = URL_SAFE_NO_PAD.decode(body).ok()?;
            let (rest, crc) = bytes.split_last_chunk::<4>()?;
            (kernels::crc32c(kernels::SEED, rest) == u32::from_le_bytes(*crc)).then(|| Self::fields(rest)).flatten()
        };
        read().context("the token is damaged: copy the whole line once more")
    }

    fn fields(bytes: &[u8]) -> Option<Self> {
        let (fsid, rest) = bytes.split_first_chunk::<16>()?;
        let (number, rest) = rest.split_first_chunk::<8>()?;
        let (key, rest) = rest.split_first_chunk::<16>()?;
        let (ends, rest) = rest.split_first_chunk::<8>()?;
        let (cephx, addrs) = rest.split_first()?;
        let monitors = std::str::from_utf8(addrs).ok()?.split(',').map(|a| a.parse().ok()).collect::<Option<_>>()?;
        let (number, ends) = (u64::from_le_bytes(*number), u64::from_le_bytes(*ends));
        Some(Self { fsid: Fsid(*fsid), number, key: *key, ends, cephx: *cephx != 0, monitors })
    }

    /// The name of the entity whose key it holds.
    pub(crate) fn name(&self) -> String {
        format!("client.join.{}", self.number)
    }

    /// Returns true if its time is over, by the clock of this host.
    pub(crate) fn has_ended(&self) -> bool {
        SystemTime::now().duration_since(UNIX_EPOCH).is_ok_and(|now| now.as_secs() >= self.ends)
    }
}

/// Returns where monitors are, out of an answer that lists them.
pub(crate) fn monitors(answer: &Value) -> Result<Vec<(String, SocketAddr)>> {
    let one = |m: &Value| Some((m["name"].as_str()?.to_owned(), m["addr"].as_str()?.parse().ok()?));
    let all: Option<Vec<_>> = answer["monitors"].as_array().map(|all| all.iter().map(one).collect()).unwrap_or_default();
    all.context("the monitors' answer names no monitors")
}

/// A client with the administrator's rights for the cluster in DIR.
pub(crate) fn administrator(dir: &std::path::Path) -> Result<Client> {
    let conf = Conf::load(dir)?;
    let key = match conf.auth {
        Auth::None => None,
        Auth::Cephx => Some(keys::load(&dir.join("keyring"), "client.admin")?),
    };
    Client::new("client.admin", key, &conf.mons)
}

/// Runs `nacre token`; gives the exit code.
pub(crate) fn token(args: &Token) -> Result<u8> {
    let dir = std::path::absolute(&args.dir).with_context(|| args.dir.display().to_string())?;
    State::load(&dir)?.with_context(|| format!("{} holds no cluster", dir.display()))?;
    let reply = administrator(&dir)?.run(&json!({"prefix": "nacre token", "secs": args.lasts}))?;
    let answer: Value = serde_json::from_str(&reply.output).context("the monitors' answer cannot be read")?;
    let key = answer["key"].as_str().and_then(keys::from_text).context("the monitors' answer has no key")?;
    let fsid = answer["fsid"].as_str().and_then(|f| f.parse().ok()).context("the monitors' answer names no cluster")?;
    let invitation = Invitation {
        fsid,
        number: answer["number"].as_u64().unwrap_or_default(),
        key,
        ends: answer["ends"].as_u64().unwrap_or_default(),
        cephx: answer["cephx"].as_bool().unwrap_or(true),
        monitors: monitors(&answer)?.into_iter().map(|(_, addr)| addr).collect(),
    };
    println!("{}", invitation.text());
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one() -> Invitation {
        let monitors = vec!["10.0.0.1:3300".parse().unwrap(), "[fd00::1]:3301".parse().unwrap()];
        Invitation { fsid: Fsid([7; 16]), number: 12, key: [3; 16], ends: 1_900_000_000, cephx: true, monitors }
    }

    #[test]
    fn what_is_printed_is_read() {
        assert_eq!(Invitation::parse(&format!(" {}\n", one().text())).unwrap(), one());
        assert!(!one().has_ended() && Invitation { ends: 1, ..one() }.has_ended());
    }

    #[test]
    fn a_token_comes_from_a_file_too() {
        let file = std::env::temp_dir().join(format!("nacre-token-{}", std::process::id()));
        std::fs::write(&file, format!("{}\nanother line\n", one().text())).unwrap();
        let given = Invitation::given(&format!("@{}", file.display()));
        // What is longer than any token is no token, and is not read whole.
        std::fs::write(&file, "x".repeat(1 << 20)).unwrap();
        let long = Invitation::given(&format!("@{}", file.display()));
        std::fs::remove_file(&file).unwrap();
        assert_eq!(given.unwrap(), one());
        assert!(long.is_err() && Invitation::given(&format!("@{}", file.display())).is_err());
        assert_eq!(Invitation::given(&one().text()).unwrap(), one());
    }

    #[test]
    fn every_changed_letter_is_noticed() {
        let text = one().text();
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
            let error = Invitation::parse(std::str::from_utf8(&bytes).unwrap()).unwrap_err().to_string();
            assert!(error.contains(if at < HEAD.len() { "no token" } else { "damaged" }), "{at}: {error}");
        }
        for cut in [&text[..text.len() - 1], "", "nacre1-", "nacre1-AAAA"] {
            assert!(Invitation::parse(cut).is_err(), "{cut}");
        }
    }
}
