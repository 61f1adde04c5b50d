//! Tests of the whole messenger; what concerns one file alone is tested there.

mod cephx;
mod corpus;
mod golden;
mod net;
mod noise;
mod reconnect;
mod recorded;
mod sessions;
mod streams;

use std::io::Read as _;
use std::path::PathBuf;

#[expect(clippy::disallowed_methods, reason = "tests read their data")]
/// Files of an archive in the workspace's tests/data whose path `wanted` accepts.
fn archive(name: &str, wanted: impl Fn(&str) -> bool) -> Vec<(String, Vec<u8>)> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/data").join(name);
    let file = std::fs::File::open(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut archive = tar::Archive::new(liblzma::read::XzDecoder::new(std::io::BufReader::new(file)));
    let mut files = Vec::new();
    for entry in archive.entries().unwrap() {
        // The archive ends without the usual trailer.
        let Ok(mut entry) = entry else { break };
        let path = entry.path().unwrap().to_string_lossy().into_owned();
        if entry.header().entry_type().is_file() && wanted(&path) {
            let mut bytes = Vec::new();
            if entry.read_to_end(&mut bytes).is_err() {
                break;
            }
            files.push((path, bytes));
        }
    }
    files
}

/// A small generator for tests.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// Below `n`.
    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    fn bytes(&mut self, n: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..n / 8 + 1).flat_map(|_| self.next().to_le_bytes()).collect();
        bytes.truncate(n);
        bytes
    }
}

use crate::auth::{Acceptor, Auth, ClientAuth, MonAuth};
use crate::{Config, Messenger};
use std::net::SocketAddr;
use types::{EntityAddr, EntityAddrVec, EntityName, Message, Rope};

fn socket(n: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, n], 6800))
}

fn addr(n: u8) -> EntityAddr {
    EntityAddr::msgr2(socket(n), 7)
}

fn name(text: &str) -> EntityName {
    text.parse().unwrap()
}

/// A daemon at `socket(n)`.
fn daemon(n: u8, who: &str, id: i64, auth: Auth) -> (Messenger, SocketAddr) {
    let config = Config::server(name(who), EntityAddrVec(vec![addr(n)]), id);
    (Messenger::new(config, auth, [n; 32]), socket(n))
}

/// A client.
fn client(n: u8, who: &str, auth: Auth) -> (Messenger, SocketAddr) {
    (Messenger::new(Config::client(name(who), 0x1234), auth, [n; 32]), socket(n))
}

/// A monitor's judgement without authentication.
fn open_mon() -> Auth {
    let mut mon = MonAuth::new(vec![crate::auth::Method::None]);
    mon.global_ids = crate::auth::GlobalIds { next: 4100, end: 5000 };
    Auth { acceptor: Acceptor::Mon(mon), client: ClientAuth::none(name("mon.a")) }
}

/// A message that can be told from others.
fn message(tid: u64, front: usize, data: usize) -> Message {
    let mut dice = Dice(tid);
    Message {
        kind: 42,
        tid,
        priority: 63,
        version: 8,
        compat: 3,
        front: dice.bytes(front).into(),
        middle: Default::default(),
        data: Rope::from(dice.bytes(data)),
    }
}
