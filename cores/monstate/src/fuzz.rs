//! Changes and states as an enemy would write them. Only for `tools/fuzz`.

use crate::config::{AuthMode, Config};
use crate::state::change::Proposal;
use crate::state::{State, genesis};
use denc::{Decode as _, Encode as _};
use types::UTime;

const FSID: [u8; 16] = [7; 16];

/// A proposal, and what it does to a new cluster.
pub fn proposal(bytes: &[u8]) {
    let Ok(proposal) = Proposal::from_bytes(bytes) else { return };
    let base = genesis::state(&config(), UTime::ZERO);
    let Ok(state) = base.apply(1, &proposal) else { return };
    let snapshot = state.to_snapshot();
    State::from_snapshot(&snapshot).expect("what was written here is read here");
    assert!(Proposal::from_bytes(&proposal.to_vec()).is_ok());
}

/// A snapshot.
pub fn snapshot(bytes: &[u8]) {
    if let Ok(state) = State::from_snapshot(bytes) {
        let again = state.to_snapshot();
        State::from_snapshot(&again).expect("what was written here is read here");
    }
}

/// The snapshot of a new cluster.
pub fn seed() -> Vec<u8> {
    genesis::state(&config(), UTime::ZERO).to_snapshot()
}

fn config() -> Config {
    let addrs = |text: &str| {
        let socket: std::net::SocketAddr = text.parse().expect("an address");
        types::EntityAddrVec(vec![types::EntityAddr::msgr2(socket, 0)])
    };
    Config {
        addrs: addrs("127.0.0.1:3300"),
        mgr_addrs: addrs("127.0.0.1:6800"),
        auth: AuthMode::Cephx,
        ..Config::bare(types::Fsid(FSID), "a")
    }
}
