//! The steps that both sides of a handshake share.

use super::Messenger;
use super::conn::{Conn, Fault, Phase};
use crate::frame::{Hello, REVISION_1, Tag, parse};
use denc::Encode as _;
use node::Now;
use types::EntityAddr;

/// Most frames of one handshake step that may be repeated (authentication rounds, retries).
pub(super) const MOST_ROUNDS: u8 = 8;

impl Messenger {
    /// The peer's banner: both sides say hello.
    pub(super) fn banner(&mut self, conn: &mut Conn, required: u64) -> Result<(), Fault> {
        if required & !REVISION_1 != 0 {
            return Err(Fault::peer(format_args!("the peer requires unknown protocol features {required:#x}")));
        }
        let hello = Hello { kind: self.config.name.kind as u8, peer: EntityAddr::msgr2(conn.remote, 0) };
        conn.control(Tag::Hello, &hello.to_vec());
        conn.phase = Phase::Hello;
        Ok(())
    }

    /// A control frame before the session stands.
    pub(super) fn handshake(&mut self, now: Now, conn: &mut Conn, tag: Tag, payload: &[u8]) -> Result<(), Fault> {
        conn.rounds += 1;
        if conn.rounds > 3 * MOST_ROUNDS || conn.reader.transcript_len() > self.config.limits.control {
            return Err(Fault::peer("a handshake without end"));
        }
        match (conn.phase, tag) {
            (Phase::Hello, Tag::Hello) => {
                let hello: Hello = parse(payload)?;
                if conn.accepted { self.accept_hello(conn, &hello) } else { self.dial_hello(conn, &hello) }
            }
            (Phase::Signature, Tag::AuthSignature) => {
                if !conn.signed(payload) {
                    return Err(Fault::peer("wrong signature of the handshake"));
                }
                conn.phase = Phase::Ident;
                if conn.accepted { Ok(()) } else { self.identify(conn) }
            }
            (Phase::Auth, _) if conn.accepted => self.accept_auth(now, conn, tag, payload),
            (Phase::Auth, _) => self.dial_auth(now, conn, tag, payload),
            (Phase::Ident, _) if conn.accepted => self.accept_ident(now, conn, tag, payload),
            (Phase::Ident, _) => self.dial_ident(now, conn, tag, payload),
            (phase, tag) => Err(unexpected(phase, tag)),
        }
    }

    /// The handshake is over: messages may pass.
    pub(super) fn ready(&mut self, conn: &mut Conn) {
        if conn.accepted {
            self.strangers.remove(&conn.id);
        }
        conn.phase = Phase::Ready;
        conn.granted = None;
        conn.client = None;
        conn.reader.allow_messages();
        self.dirty.insert(conn.id);
    }
}

pub(super) fn unexpected(phase: Phase, tag: Tag) -> Fault {
    Fault::peer(format_args!(
        "{tag:?} where {} was due",
        match phase {
            Phase::Opening | Phase::Banner => "a banner",
            Phase::Hello => "a hello",
            Phase::Auth => "authentication",
            Phase::Signature => "a signature",
            Phase::Ident => "an identification",
            Phase::Ready => "a message",
        }
    ))
}
