//! One connection: where its handshake stands, and its two streams.

use crate::auth::{ClientProgress, Granted, Progress, SessionKeys};
use crate::frame::{BANNER, FrameLimits};
use crate::frame::{Batch, Cipher, Frame, FrameError, Reader, Receive, Tag, Writer};
use crate::{Limits, Mode};
use node::{Buf, ConnId, Level, Mono, Output, Outputs};
use std::net::SocketAddr;
use types::{EntityType, SessionId};

/// Progress of a connection's handshake; the same steps on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// TCP is connecting.
    Opening,
    Banner,
    Hello,
    Auth,
    Signature,
    Ident,
    Ready,
}

/// Reason why a connection ends, and how much that matters.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) level: Level,
    pub(super) why: String,
    /// Nobody listens at the peer's port.
    pub(super) refused: bool,
}

impl Fault {
    /// The peer broke the protocol or failed to show who it is.
    pub(super) fn peer(why: impl ToString) -> Self {
        Self { level: Level::Warn, why: why.to_string(), refused: false }
    }

    /// Things that happen, and that an operator may want to know.
    pub(super) fn notable(why: impl ToString) -> Self {
        Self { level: Level::Info, why: why.to_string(), refused: false }
    }

    /// Things that happen.
    pub(super) fn usual(why: impl ToString) -> Self {
        Self { level: Level::Debug, why: why.to_string(), refused: false }
    }
}

impl From<FrameError> for Fault {
    fn from(error: FrameError) -> Self {
        Fault::peer(error)
    }
}

impl From<denc::DecodeError> for Fault {
    fn from(error: denc::DecodeError) -> Self {
        Fault::peer(format_args!("frame payload: {error}"))
    }
}

impl From<crate::auth::AuthError> for Fault {
    fn from(error: crate::auth::AuthError) -> Self {
        Fault::peer(format_args!("authentication: {error}"))
    }
}

/// Smallest and largest buffer for receiving small frames: idle connections hold the smallest.
const SCRATCH: (usize, usize) = (4 << 10, 64 << 10);

pub(super) struct Conn {
    pub(super) id: ConnId,
    /// By the peer; else this side opened it.
    pub(super) accepted: bool,
    /// The other end.
    pub(super) remote: SocketAddr,
    pub(super) phase: Phase,
    pub(super) reader: Reader,
    pub(super) writer: Writer,
    /// Written, not yet given to the driver.
    pub(super) out: Batch,
    /// Given to the driver, not yet taken by the kernel.
    pub(super) in_flight: usize,
    /// All that was sent until authentication ends, for the signature.
    sent: Option<Vec<u8>>,
    /// The driver holds a buffer to receive into; true if it is the reader's own.
    pub(super) receiving: Option<bool>,
    scratch: Option<Buf>,
    scratch_size: usize,
    /// Received and not read, because the throttle is shut: bytes `.1...2` of the buffer.
    pub(super) parked: Option<(Buf, usize, usize)>,
    pub(super) session: Option<SessionId>,
    /// Kind of daemon or client that the peer acts as, from HELLO.
    pub(super) kind: EntityType,
    pub(super) rounds: u8,
    pub(super) progress: Progress,
    /// Of a connection that this side opened.
    pub(super) client: Option<ClientProgress>,
    pub(super) granted: Option<Box<Granted>>,
    pub(super) mode: Mode,
    /// A monitor's challenge in this handshake, for renewals.
    pub(super) challenge: Option<u64>,
    /// Name that the peer claims, once it said so, and how it was refused.
    pub(super) claimed: String,
    pub(super) refused: Option<String>,
    /// The peer's signature must be this.
    pub(super) expected_signature: [u8; 32],
    pub(super) opened: Mono,
    pub(super) last_received: Mono,
    /// While others wait for the room that its message takes: since when it is looked at, and bytes that lacked then.
    pub(super) pace: Option<(Mono, usize)>,
    pub(super) last_probe: Mono,
    /// Time when an ACK frame must be written; `NEVER` if nothing is owed.
    pub(super) ack_at: Mono,
    /// Time when the connection's timer fires.
    pub(super) timer: Mono,
}

impl Conn {
    pub(super) fn new(id: ConnId, accepted: bool, remote: SocketAddr, now: Mono, limits: &Limits) -> Self {
        let frame_limits = FrameLimits { front: limits.front, middle: limits.middle, data: limits.data, control: limits.control };
        Self {
            id,
            accepted,
            remote,
            phase: if accepted { Phase::Banner } else { Phase::Opening },
            reader: Reader::new(frame_limits),
            writer: Writer::default(),
            out: Batch::default(),
            in_flight: 0,
            sent: Some(Vec::new()),
            receiving: None,
            scratch: None,
            scratch_size: SCRATCH.0,
            parked: None,
            session: None,
            kind: EntityType::Client,
            rounds: 0,
            progress: Progress::Start,
            client: None,
            granted: None,
            mode: Mode::Crc,
            challenge: None,
            claimed: "it".into(),
            refused: None,
            expected_signature: [0; 32],
            opened: now,
            last_received: now,
            pace: None,
            last_probe: now,
            ack_at: Mono::NEVER,
            timer: Mono::NEVER,
        }
    }

    pub(super) fn write_banner(&mut self) {
        self.log_sent(|conn| conn.out.raw(BANNER));
    }

    /// Writes a control frame.
    pub(super) fn control(&mut self, tag: Tag, payload: &[u8]) {
        self.log_sent(|conn| conn.writer.control(tag, payload, &mut conn.out));
    }

    /// Remembers what `write` wrote while the transcript is kept.
    fn log_sent(&mut self, write: impl FnOnce(&mut Self)) {
        let before = self.out.len();
        write(self);
        if let Some(sent) = &mut self.sent {
            sent.extend_from_slice(self.out.small_from(before));
        }
    }

    /// Both directions' keys are there: signs what was received, remembers what the peer must have signed, and seals
    /// from now on in secure mode.
    pub(super) fn authenticated(&mut self, keys: &SessionKeys) -> Result<(), Fault> {
        let received = self.reader.take_transcript();
        let sent = self.sent.take().unwrap_or_default();
        let mut signature = [0; 32];
        if let Some(session) = &keys.session {
            let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, session);
            signature.copy_from_slice(ring::hmac::sign(&key, &received).as_ref());
            self.expected_signature.copy_from_slice(ring::hmac::sign(&key, &sent).as_ref());
        }
        if self.mode == Mode::Secure {
            let (from_client, from_server) = Cipher::pair(&keys.secret).ok_or(Fault::peer("connection secret too short"))?;
            let (reads, writes) = if self.accepted { (from_client, from_server) } else { (from_server, from_client) };
            self.reader.secure(reads);
            self.writer.secure(writes);
        }
        self.control(Tag::AuthSignature, &signature);
        self.phase = Phase::Signature;
        Ok(())
    }

    /// Returns true if the peer's signature is right; takes the same time wherever it differs.
    pub(super) fn signed(&self, signature: &[u8]) -> bool {
        signature.len() == 32 && signature.iter().zip(&self.expected_signature).fold(0, |acc, (a, b)| acc | (a ^ b)) == 0
    }

    /// Returns true if it would end in the middle of something if it ended now: of the handshake (if the peer said
    /// anything at all) or of a frame.
    pub(super) fn cut_short(&self) -> bool {
        let said = self.phase != Phase::Banner || self.reader.transcript_len() > 0;
        self.accepted && if self.phase == Phase::Ready { self.reader.mid_frame() } else { said }
    }

    /// Returns true if a message for whose room others wait comes so slowly that it will not be whole in [`Limits::crowded_message`]. It is looked at
    /// once in [`Limits::stall_crowded`].
    pub(super) fn is_too_slow(&mut self, now: Mono, limits: &Limits) -> bool {
        let missing = self.reader.missing();
        let Some((since, before)) = self.pace.filter(|(_, before)| *before >= missing) else {
            self.pace = Some((now, missing));
            return false;
        };
        let span = now.since(since);
        if span < limits.stall_crowded {
            return false;
        }
        self.pace = Some((now, missing));
        let whole = limits.crowded_message.as_nanos().max(1);
        let due = self.reader.reserved() as u128 * span.as_nanos().min(whole) / whole;
        ((before - missing) as u128) < due
    }

    /// Bytes written or given to the driver, but not taken by the kernel.
    pub(super) fn unsent(&self) -> usize {
        self.in_flight + self.out.len()
    }

    /// Gives what was written to the driver.
    pub(super) fn flush(&mut self, out: &mut Outputs) {
        if !self.out.is_empty() {
            self.in_flight += self.out.len();
            out.push(Output::Send { conn: self.id, data: self.out.take() });
        }
    }

    /// Asks the driver for bytes, unless it was asked already or the throttle is shut.
    pub(super) fn ask(&mut self, out: &mut Outputs) {
        if self.receiving.is_some() || self.parked.is_some() || self.phase == Phase::Opening {
            return;
        }
        let (buf, direct) = match self.reader.receive() {
            Receive::Direct(buf) => (buf, true),
            Receive::Scratch => {
                let fitting = self.scratch.take().filter(|buf| buf.len() == self.scratch_size);
                (fitting.unwrap_or_else(|| Buf::new(self.scratch_size)), false)
            }
        };
        self.receiving = Some(direct);
        out.push(Output::Receive { conn: self.id, buf });
    }

    /// Takes a scratch buffer back; `used` bytes of it were filled, which says how large the next should be.
    pub(super) fn give_back(&mut self, buf: Buf, used: usize) {
        self.scratch_size = (used * 2).next_power_of_two().clamp(SCRATCH.0, SCRATCH.1);
        self.scratch = Some(buf);
    }

    /// A directly received piece.
    pub(super) fn direct(&mut self, buf: Buf, len: usize) -> Result<Option<Frame>, FrameError> {
        self.reader.direct(buf, len)
    }
}
