//! Frames of msgr2.1: what lies on the wire between the banner and the end.
//!
//! A frame is a preamble (tag, lengths of up to four segments, its own checksum), the segments, and what protects them:
//! checksums, or AES-128-GCM. [`Reader`] takes a stream apart, [`Writer`] puts one together.

#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss))]

mod control;
mod read;
mod secure;
mod sums;
mod write;

pub(crate) use control::*;
pub(crate) use read::{Frame, FrameLimits, Reader, Receive};
pub(crate) use secure::Cipher;
pub(crate) use write::{Batch, Writer, wire_size};

use denc::{Decode, DecodeError, Encode as _, Reader as Bytewise};
use std::fmt;

/// Tags of frames, by the protocol's own names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Tag {
    Hello = 1,
    AuthRequest = 2,
    AuthBadMethod = 3,
    AuthReplyMore = 4,
    AuthRequestMore = 5,
    AuthDone = 6,
    AuthSignature = 7,
    ClientIdent = 8,
    ServerIdent = 9,
    IdentMissingFeatures = 10,
    SessionReconnect = 11,
    SessionReset = 12,
    SessionRetry = 13,
    SessionRetryGlobal = 14,
    SessionReconnectOk = 15,
    Wait = 16,
    Message = 17,
    Keepalive2 = 18,
    Keepalive2Ack = 19,
    Ack = 20,
}

impl Tag {
    pub(crate) fn from_wire(n: u8) -> Option<Tag> {
        use Tag::*;
        const ALL: [Tag; 20] = [
            Hello,
            AuthRequest,
            AuthBadMethod,
            AuthReplyMore,
            AuthRequestMore,
            AuthDone,
            AuthSignature,
            ClientIdent,
            ServerIdent,
            IdentMissingFeatures,
            SessionReconnect,
            SessionReset,
            SessionRetry,
            SessionRetryGlobal,
            SessionReconnectOk,
            Wait,
            Message,
            Keepalive2,
            Keepalive2Ack,
            Ack,
        ];
        ALL.get(usize::from(n).wrapping_sub(1)).copied()
    }
}

/// Bytes of a preamble.
pub(crate) const PREAMBLE: usize = 32;
/// Most segments of a frame.
pub(crate) const SEGMENTS: usize = 4;
/// Bytes after the last segment in crc mode: late status, checksums of segments 1 to 3.
pub(crate) const EPILOGUE: usize = 13;
/// Late status of a complete frame (all four bits differ from an aborted one's).
pub(crate) const COMPLETE: u8 = 0x0e;
/// Low bits of the late status of a frame that its sender gave up.
pub(crate) const ABORTED: u8 = 0x01;
/// Bytes of a GCM tag.
pub(crate) const GCM_TAG: usize = 16;
/// Bytes of segment 0 that share the preamble's sealed block.
pub(crate) const INLINE: usize = 48;
/// Unit to which sealed segments are padded.
pub(crate) const BLOCK: usize = 16;
/// Bytes of a message's header.
pub(crate) const HEADER: usize = 41;

/// Rounded up to [`BLOCK`].
pub(crate) const fn padded(n: usize) -> usize {
    n.div_ceil(BLOCK) * BLOCK
}

/// Reason why a stream cannot be read any further. The fault is the sender's, or the network's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FrameError {
    NotMsgr2,
    Unsupported,
    PreambleCrc,
    Tag(u8),
    Segments(u8),
    TooLong { what: &'static str, len: usize, limit: usize },
    Crc { segment: usize },
    LateStatus(u8),
    Sealed,
    Payload(DecodeError),
}

impl From<DecodeError> for FrameError {
    fn from(error: DecodeError) -> Self {
        Self::Payload(error)
    }
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotMsgr2 => f.write_str("the peer does not speak msgr2"),
            Self::Unsupported => f.write_str("the peer does not speak msgr2.1"),
            Self::PreambleCrc => f.write_str("wrong checksum of a frame's preamble"),
            Self::Tag(tag) => write!(f, "unknown frame tag {tag}"),
            Self::Segments(n) => write!(f, "frame with {n} segments"),
            Self::TooLong { what, len, limit } => write!(f, "{what} of {len} bytes, {limit} are allowed"),
            Self::Crc { segment } => write!(f, "wrong checksum of segment {segment}"),
            Self::LateStatus(n) => write!(f, "unknown late status {n:#x}"),
            Self::Sealed => f.write_str("a sealed block does not open"),
            Self::Payload(error) => write!(f, "frame payload: {error}"),
        }
    }
}

/// A decoded preamble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Preamble {
    pub(crate) tag: Tag,
    pub(crate) segments: usize,
    pub(crate) lengths: [usize; SEGMENTS],
}

impl Preamble {
    pub(crate) fn encode(&self) -> [u8; PREAMBLE] {
        let mut bytes = [0; PREAMBLE];
        bytes[0] = self.tag as u8;
        bytes[1] = u8::try_from(self.segments).expect("four segments at most");
        for i in 0..self.segments {
            let at = 2 + 6 * i;
            // Data is asked to lie at a page's start, everything else at a word's.
            let alignment: u16 = if i == 3 { 4096 } else { 8 };
            bytes[at..at + 4].copy_from_slice(&denc::len32(self.lengths[i]).to_le_bytes());
            bytes[at + 4..at + 6].copy_from_slice(&alignment.to_le_bytes());
        }
        let crc = kernels::crc32c(0, &bytes[..28]);
        bytes[28..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8; PREAMBLE]) -> Result<Self, FrameError> {
        let mut r = Bytewise::new(bytes);
        let (tag, segments) = (r.u8()?, r.u8()?);
        let mut lengths = [0; SEGMENTS];
        for length in &mut lengths {
            *length = r.u32()? as usize;
            r.u16()?;
        }
        r.u16()?;
        if r.u32()? != kernels::crc32c(0, &bytes[..28]) {
            return Err(FrameError::PreambleCrc);
        }
        let count = usize::from(segments);
        if !(1..=SEGMENTS).contains(&count) || lengths[count..].iter().any(|n| *n != 0) {
            return Err(FrameError::Segments(segments));
        }
        Ok(Self { tag: Tag::from_wire(tag).ok_or(FrameError::Tag(tag))?, segments: count, lengths })
    }
}

/// The fixed part of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) seq: u64,
    pub(crate) tid: u64,
    pub(crate) kind: u16,
    pub(crate) priority: u16,
    pub(crate) version: u16,
    pub(crate) ack: u64,
    pub(crate) compat: u16,
}

impl Header {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        self.seq.encode(out);
        self.tid.encode(out);
        self.kind.encode(out);
        self.priority.encode(out);
        self.version.encode(out);
        0u32.encode(out);
        0u16.encode(out);
        self.ack.encode(out);
        // Flags: always 3 on the wire of release 16.
        3u8.encode(out);
        self.compat.encode(out);
        0u16.encode(out);
    }
}

impl Decode for Header {
    const MIN_SIZE: usize = HEADER;
    fn decode(r: &mut Bytewise<'_>) -> denc::Result<Self> {
        let (seq, tid, kind, priority, version) = (r.get()?, r.get()?, r.get()?, r.get()?, r.get()?);
        r.skip(4 + 2)?;
        let ack = r.get()?;
        r.u8()?;
        let compat = r.get()?;
        r.u16()?;
        Ok(Self { seq, tid, kind, priority, version, ack, compat })
    }
}
