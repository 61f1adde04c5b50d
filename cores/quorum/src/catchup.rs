//! Peers that lack more than the log has: they get the leader's state, in pieces.

use crate::machine::Node;
use crate::message::{Body, Piece};
use crate::reign::Offer;
use crate::types::{Base, Index, Position, VoterId};
use bytes::Bytes;

/// Bytes of a state that one message carries.
const PIECE: usize = 256 << 10;

impl Node {
    /// The owner's applied state, for peers that lack more than the log has: all that was given up to and with entry
    /// `index`.
    pub fn offer(&mut self, index: Index, data: Bytes) {
        let Some(term) = self.term_at(index) else { return };
        let base = Base { at: Position { term, index }, membership: self.members_at(index) };
        let crc = kernels::crc32c(kernels::SEED, &data);
        if let Some(reign) = self.reign_mut() {
            reign.offer = Some(Offer { base, crc, data });
        }
        self.broadcast();
    }

    /// Sends a peer the next piece of the state; asks the owner for a state if there is none that is new enough.
    pub(crate) fn send_state(&mut self, id: VoterId, beat: bool) {
        let before = self.log.before().index;
        let Some(reign) = self.reign_mut() else { return };
        let useful = reign.offer.as_ref().is_some_and(|o| o.base.at.index >= before);
        let Some(peer) = reign.peers.get_mut(&id) else { return };
        if peer.state.is_none() || !useful {
            peer.state = Some(0);
        }
        if !useful {
            reign.offer = None;
            self.wants_state = true;
            return;
        }
        if peer.in_flight > 0 && !beat {
            return;
        }
        peer.in_flight = 1;
        let Some(offer) = &reign.offer else { return };
        let at = peer.state.unwrap_or(0);
        let from = usize::try_from(at).unwrap_or(usize::MAX).min(offer.data.len());
        let data = offer.data.slice(from..(from + PIECE).min(offer.data.len()));
        let piece = Piece { base: offer.base.clone(), total: offer.data.len() as u64, crc: offer.crc, at, data };
        self.send(id, Body::State(piece));
    }

    /// A peer has so much of the state.
    pub(crate) fn piece_taken(&mut self, from: VoterId, index: Index, have: u64) {
        let now = self.now;
        let Some(reign) = self.reign_mut() else { return };
        let same = reign.offer.as_ref().is_some_and(|o| o.base.at.index == index && have <= o.data.len() as u64);
        let Some(peer) = reign.peers.get_mut(&from) else { return };
        (peer.heard, peer.answered) = (now, true);
        // What is older than the last answer changes nothing; from the beginning again is something else.
        if same && peer.state.is_some_and(|at| have > at || (have == 0 && at != 0)) {
            peer.state = Some(have);
            peer.in_flight = 0;
            self.feed(from, false);
        }
    }
}
