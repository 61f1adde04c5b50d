//! Putting a stream together.

use super::*;
use bytes::Bytes;
use types::{Message, Rope};

/// Payload pieces up to this many bytes are copied next to their headers; longer ones are shared.
const COPY: usize = 2048;
/// Sealed bodies above this many bytes get a buffer of their own.
const OWN_BODY: usize = 16 << 10;

/// Bytes that will be given to the driver as one rope: small things lie together in one buffer.
#[derive(Default)]
pub(crate) struct Batch {
    small: Vec<u8>,
    parts: Vec<Part>,
    shared: usize,
}

enum Part {
    /// The small bytes up to this offset.
    Small(usize),
    Shared(Bytes),
}

impl Batch {
    pub(crate) fn len(&self) -> usize {
        self.small.len() + self.shared
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The small bytes from `at` on (during a handshake, nothing else is sent).
    pub(crate) fn small_from(&self, at: usize) -> &[u8] {
        &self.small[at..]
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.small.extend_from_slice(bytes);
    }

    fn share(&mut self, piece: Bytes) {
        self.parts.push(Part::Small(self.small.len()));
        self.shared += piece.len();
        self.parts.push(Part::Shared(piece));
    }

    fn put(&mut self, piece: &Bytes) {
        if piece.len() <= COPY {
            self.raw(piece);
        } else {
            self.share(piece.clone());
        }
    }

    /// All of it; the batch is empty afterwards.
    pub(crate) fn take(&mut self) -> Rope {
        let small = Bytes::from(std::mem::take(&mut self.small));
        let mut rope = Rope::new();
        let mut at = 0;
        for part in self.parts.drain(..) {
            match part {
                Part::Small(end) => {
                    rope.push(small.slice(at..end));
                    at = end;
                }
                Part::Shared(piece) => rope.push(piece),
            }
        }
        rope.push(small.slice(at..));
        self.shared = 0;
        rope
    }
}

/// Bytes that a message takes on the wire, nearly: what queues are measured by.
pub(crate) fn wire_size(m: &Message) -> usize {
    PREAMBLE + HEADER + 4 + EPILOGUE + m.front.len() + m.middle.len() + m.data.len()
}

/// Frames in one direction of one connection.
#[derive(Default)]
pub(crate) struct Writer {
    cipher: Option<Cipher>,
}

impl Writer {
    /// Seals everything from now on.
    pub(crate) fn secure(&mut self, cipher: Cipher) {
        self.cipher = Some(cipher);
    }

    /// A frame of one segment.
    pub(crate) fn control(&mut self, tag: Tag, payload: &[u8], batch: &mut Batch) {
        let preamble = Preamble { tag, segments: 1, lengths: [payload.len(), 0, 0, 0] };
        self.first(&preamble, payload, batch);
    }

    /// A message's frame. Empty segments at the end are not written.
    pub(crate) fn message(&mut self, header: &Header, m: &Message, batch: &mut Batch) {
        let mut first = Vec::with_capacity(HEADER);
        header.encode(&mut first);
        let lengths = [HEADER, m.front.len(), m.middle.len(), m.data.len()];
        let segments = 1 + lengths.iter().rposition(|n| *n != 0).unwrap_or_default();
        self.first(&Preamble { tag: Tag::Message, segments, lengths }, &first, batch);
        if segments == 1 {
            return;
        }
        match &mut self.cipher {
            None => plain_body(m, segments, batch),
            Some(cipher) => sealed_body(cipher, m, batch),
        }
    }

    /// Preamble and segment 0.
    fn first(&mut self, preamble: &Preamble, payload: &[u8], batch: &mut Batch) {
        batch.raw(&preamble.encode());
        let Some(cipher) = &mut self.cipher else {
            if !payload.is_empty() {
                batch.raw(payload);
                batch.raw(&kernels::crc32c(kernels::SEED, payload).to_le_bytes());
            }
            return;
        };
        let start = batch.small.len() - PREAMBLE;
        let (inline, rest) = payload.split_at(payload.len().min(INLINE));
        batch.raw(inline);
        batch.small.resize(start + PREAMBLE + INLINE + GCM_TAG, 0);
        cipher.seal(&mut batch.small[start..]);
        if !rest.is_empty() {
            let start = batch.small.len();
            batch.raw(rest);
            batch.small.resize(start + padded(rest.len()) + GCM_TAG, 0);
            cipher.seal(&mut batch.small[start..]);
        }
    }
}

/// Segments 1.. and the epilogue.
fn plain_body(m: &Message, segments: usize, batch: &mut Batch) {
    let mut crcs = [kernels::SEED; 3];
    // A short data rope in many pieces (replies of many operations) is still written next to its header.
    for (crc, bytes) in crcs.iter_mut().zip([&m.front, &m.middle]) {
        *crc = kernels::crc32c(*crc, bytes);
        batch.put(bytes);
    }
    let fold = |crc, piece: &Bytes| kernels::crc32c(crc, piece);
    crcs[2] = m.data.checksum().unwrap_or_else(|| m.data.pieces().iter().fold(crcs[2], fold));
    m.data.pieces().iter().for_each(|piece| batch.put(piece));
    batch.raw(&[COMPLETE]);
    for (i, crc) in crcs.iter().enumerate() {
        // Absent segments have checksum 0, empty ones that of no bytes.
        batch.raw(&if i + 1 < segments { *crc } else { 0 }.to_le_bytes());
    }
}

/// Segments 1.. padded, and the late status in a block of its own, sealed together.
fn sealed_body(cipher: &mut Cipher, m: &Message, batch: &mut Batch) {
    let size = padded(m.front.len()) + padded(m.middle.len()) + padded(m.data.len()) + BLOCK + GCM_TAG;
    let fill = |out: &mut Vec<u8>| {
        let start = out.len();
        out.reserve(size);
        for bytes in [&m.front, &m.middle] {
            out.extend_from_slice(bytes);
            out.resize(start + padded(out.len() - start), 0);
        }
        m.data.pieces().iter().for_each(|piece| out.extend_from_slice(piece));
        out.resize(start + padded(out.len() - start), 0);
        out.push(COMPLETE);
        out.resize(start + size, 0);
        start
    };
    if size <= OWN_BODY {
        let start = fill(&mut batch.small);
        cipher.seal(&mut batch.small[start..]);
    } else {
        let mut body = Vec::new();
        fill(&mut body);
        cipher.seal(&mut body);
        batch.share(body.into());
    }
}
