//! Taking a stream apart, however it is cut.

use super::sums::Sums;
use super::*;
use bytes::Bytes;
use node::{ALIGN, Buf};
use types::{Message, Rope};

/// Bodies up to this many bytes are gathered in one plain buffer; data of longer ones gets an aligned one of its own.
const SMALL_BODY: usize = 32 << 10;
/// From this many missing bytes on, an aligned buffer is received into directly.
const DIRECT: usize = 32 << 10;
/// Accounted for each message beside its bytes, so that empty ones are bounded too.
const OVERHEAD: usize = 256;

/// Result of reading a stream.
#[derive(Debug)]
pub(crate) enum Frame {
    /// The peer's banner, with the features that it requires.
    Banner { required: u64 },
    /// A message will take so many bytes. Nothing more is read until [`Reader::grant`].
    Announce { bytes: usize },
    /// A message; its bytes were announced.
    Message { header: Header, message: Message, bytes: usize },
    /// The sender gave the announced message up.
    Aborted { bytes: usize },
    /// Everything else.
    Control { tag: Tag, payload: Vec<u8> },
}

/// Into what the next bytes should be received.
pub(crate) enum Receive {
    /// Any buffer, to be passed to [`Reader::feed`].
    Scratch,
    /// This one, to be given back to [`Reader::direct`].
    Direct(Buf),
}

/// Longest parts that are accepted, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameLimits {
    pub(crate) front: usize,
    pub(crate) middle: usize,
    pub(crate) data: usize,
    pub(crate) control: usize,
}

enum Stage {
    /// `ceph v2` and the length of the rest.
    BannerHead,
    BannerRest,
    /// Preamble, in secure mode with the beginning of segment 0.
    Head,
    /// The (rest of the) first segment and its protection.
    First {
        preamble: Preamble,
        segment: Vec<u8>,
        missing: usize,
    },
    /// A message waits for its grant.
    Announced {
        preamble: Preamble,
        header: Header,
    },
    Body {
        preamble: Preamble,
        header: Header,
        body: Body,
    },
}

enum Body {
    /// Segments 1.. and what protects them, together.
    Joined { bytes: Vec<u8>, size: usize },
    /// Checksummed: front and middle in one buffer, data in an aligned one, epilogue in the block.
    Split { head: Vec<u8>, data: Option<Buf>, filled: usize, sums: Sums },
    /// Sealed: all in one buffer whose data lies at an aligned offset; the body starts at `start`.
    Sealed { buf: Option<Buf>, start: usize, filled: usize },
}

/// One direction of one connection.
pub(crate) struct Reader {
    limits: FrameLimits,
    stage: Stage,
    cipher: Option<Cipher>,
    /// Gathers banner, head, epilogue.
    block: [u8; PREAMBLE + INLINE + GCM_TAG],
    filled: usize,
    /// True if messages may come (only after the handshake).
    messages: bool,
    transcript: Option<Vec<u8>>,
    reserved: usize,
}

impl Reader {
    pub(crate) fn new(limits: FrameLimits) -> Self {
        Self {
            limits,
            stage: Stage::BannerHead,
            cipher: None,
            block: [0; PREAMBLE + INLINE + GCM_TAG],
            filled: 0,
            messages: false,
            transcript: Some(Vec::new()),
            reserved: 0,
        }
    }

    /// Everything from now on is sealed.
    pub(crate) fn secure(&mut self, cipher: Cipher) {
        self.cipher = Some(cipher);
    }

    /// All bytes so far; ends the recording.
    pub(crate) fn take_transcript(&mut self) -> Vec<u8> {
        self.transcript.take().unwrap_or_default()
    }

    /// Bytes recorded so far.
    pub(crate) fn transcript_len(&self) -> usize {
        self.transcript.as_ref().map_or(0, Vec::len)
    }

    /// The handshake is over.
    pub(crate) fn allow_messages(&mut self) {
        self.messages = true;
    }

    /// Returns true if the stream stands in the middle of a frame.
    pub(crate) fn mid_frame(&self) -> bool {
        self.filled > 0 || !matches!(self.stage, Stage::Head)
    }

    /// Bytes of the message that waits for its grant.
    pub(crate) fn announced(&self) -> usize {
        match &self.stage {
            Stage::Announced { preamble, .. } => announced(preamble),
            _ => 0,
        }
    }

    /// Bytes granted for a message that was not handed over.
    pub(crate) fn reserved(&self) -> usize {
        self.reserved
    }

    /// Bytes of the announced message that have not come; 0 if none is under way.
    pub(crate) fn missing(&self) -> usize {
        let Stage::Body { preamble, body, .. } = &self.stage else { return 0 };
        let [_, front, middle, data] = preamble.lengths;
        match body {
            Body::Joined { bytes, size } => size.saturating_sub(bytes.len()),
            Body::Split { head, filled, .. } => (front + middle + data).saturating_sub(head.len() + filled),
            Body::Sealed { filled, .. } => {
                (padded(front) + padded(middle) + padded(data) + BLOCK + GCM_TAG).saturating_sub(*filled)
            }
        }
    }

    /// Takes bytes from the front of `input` until a frame is complete (it is returned) or `input` is empty.
    pub(crate) fn feed(&mut self, input: &mut &[u8]) -> Result<Option<Frame>, FrameError> {
        let before = *input;
        let result = loop {
            match self.step(input) {
                Ok(Some(Step::Frame(frame))) => break Ok(Some(frame)),
                Ok(Some(Step::Next)) => {}
                Ok(None) => break Ok(None),
                Err(error) => break Err(error),
            }
        };
        if let Some(transcript) = &mut self.transcript {
            transcript.extend_from_slice(&before[..before.len() - input.len()]);
        }
        result
    }

    /// Does what the stage needs; `None` if it needs more bytes.
    fn step(&mut self, input: &mut &[u8]) -> Result<Option<Step>, FrameError> {
        match &mut self.stage {
            Stage::BannerHead => {
                let Some(head) = gather(&mut self.block, &mut self.filled, BANNER_HEAD, input) else {
                    // A foreign protocol is recognised by its first bytes.
                    return if BANNER.starts_with(&self.block[..self.filled]) { Ok(None) } else { Err(FrameError::NotMsgr2) };
                };
                if head != &BANNER[..BANNER_HEAD] {
                    return Err(FrameError::NotMsgr2);
                }
                self.stage = Stage::BannerRest;
                Ok(Some(Step::Next))
            }
            Stage::BannerRest => {
                let Some(rest) = gather(&mut self.block, &mut self.filled, 16, input) else { return Ok(None) };
                let mut r = Bytewise::new(rest);
                let (supported, required) = (r.u64()?, r.u64()?);
                if supported & REVISION_1 == 0 {
                    return Err(FrameError::Unsupported);
                }
                self.stage = Stage::Head;
                Ok(Some(Step::Frame(Frame::Banner { required })))
            }
            Stage::Head => self.head(input),
            Stage::First { segment, missing, .. } => {
                if !fill(segment, missing, input) {
                    return Ok(None);
                }
                self.first().map(Some)
            }
            Stage::Announced { .. } => Ok(None),
            Stage::Body { .. } => self.body(input),
        }
    }

    /// The preamble, and in secure mode the beginning of segment 0.
    fn head(&mut self, input: &mut &[u8]) -> Result<Option<Step>, FrameError> {
        let size = if self.cipher.is_some() { PREAMBLE + INLINE + GCM_TAG } else { PREAMBLE };
        if gather(&mut self.block, &mut self.filled, size, input).is_none() {
            return Ok(None);
        }
        if let Some(cipher) = &mut self.cipher {
            cipher.open(&mut self.block)?;
        }
        let (head, rest) = self.block.split_first_chunk::<PREAMBLE>().expect("the block holds a preamble");
        let preamble = Preamble::decode(head)?;
        self.check(&preamble)?;
        let len = preamble.lengths[0];
        let (segment, missing) = match &self.cipher {
            None => (Vec::with_capacity(len + 4), if len == 0 { 0 } else { len + 4 }),
            Some(_) if len <= INLINE => (rest[..len].to_vec(), 0),
            Some(_) => {
                let mut segment = Vec::with_capacity(INLINE + padded(len - INLINE) + GCM_TAG);
                segment.extend_from_slice(&rest[..INLINE]);
                (segment, padded(len - INLINE) + GCM_TAG)
            }
        };
        self.stage = Stage::First { preamble, segment, missing };
        Ok(Some(Step::Next))
    }

    fn check(&self, preamble: &Preamble) -> Result<(), FrameError> {
        let limit = |what, len, limit| if len > limit { Err(FrameError::TooLong { what, len, limit }) } else { Ok(()) };
        let [first, front, middle, data] = preamble.lengths;
        if preamble.tag != Tag::Message {
            if preamble.segments != 1 {
                return Err(FrameError::Segments(u8::try_from(preamble.segments).unwrap_or(u8::MAX)));
            }
            return limit("control frame", first, self.limits.control);
        }
        if !self.messages {
            return Err(FrameError::Payload(DecodeError::Invalid("message before the handshake's end")));
        }
        if first != HEADER {
            return Err(FrameError::TooLong { what: "message header", len: first, limit: HEADER });
        }
        limit("front", front, self.limits.front)?;
        limit("middle", middle, self.limits.middle)?;
        limit("data", data, self.limits.data)
    }

    /// Segment 0 is there.
    fn first(&mut self) -> Result<Step, FrameError> {
        let Stage::First { preamble, mut segment, .. } = std::mem::replace(&mut self.stage, Stage::Head) else {
            unreachable!("called in this stage only");
        };
        let len = preamble.lengths[0];
        match &mut self.cipher {
            Some(cipher) if len > INLINE => cipher.open(&mut segment[INLINE..])?,
            None if len > 0 && !crc_fits(&segment[..len], &segment[len..]) => return Err(FrameError::Crc { segment: 0 }),
            _ => {}
        }
        segment.truncate(len);
        if preamble.tag != Tag::Message {
            return Ok(Step::Frame(Frame::Control { tag: preamble.tag, payload: segment }));
        }
        let header = parse(&segment)?;
        self.stage = Stage::Announced { preamble, header };
        Ok(Step::Frame(Frame::Announce { bytes: announced(&preamble) }))
    }

    /// Lets the announced message come; takes the memory for it. Without a body it is already complete.
    pub(crate) fn grant(&mut self) -> Option<Frame> {
        let Stage::Announced { preamble, header } = &self.stage else { return None };
        let (preamble, header) = (*preamble, *header);
        if preamble.segments == 1 {
            self.stage = Stage::Head;
            let message = assemble(&header, Bytes::new(), Bytes::new(), Rope::new());
            return Some(Frame::Message { header, message, bytes: announced(&preamble) });
        }
        let [_, front, middle, data] = preamble.lengths;
        let plain = front + middle + data + EPILOGUE;
        let sealed = padded(front) + padded(middle) + padded(data) + BLOCK + GCM_TAG;
        let body = match self.cipher.is_some() {
            true if sealed > SMALL_BODY => {
                let before = padded(front) + padded(middle);
                let start = before.next_multiple_of(ALIGN) - before;
                Body::Sealed { buf: Some(Buf::new(start + sealed)), start, filled: 0 }
            }
            false if plain > SMALL_BODY => {
                let sums = Sums::new(data);
                Body::Split { head: Vec::with_capacity(front + middle), data: Some(Buf::new(data)), filled: 0, sums }
            }
            secure => {
                let size = if secure { sealed } else { plain };
                Body::Joined { bytes: Vec::with_capacity(size), size }
            }
        };
        self.stage = Stage::Body { preamble, header, body };
        self.reserved = announced(&preamble);
        None
    }

    /// Segments 1.. and what protects them.
    fn body(&mut self, input: &mut &[u8]) -> Result<Option<Step>, FrameError> {
        let Stage::Body { preamble, body, .. } = &mut self.stage else { unreachable!("called in this stage only") };
        let complete = match body {
            Body::Joined { bytes, size } => {
                let mut missing = *size - bytes.len();
                fill(bytes, &mut missing, input)
            }
            Body::Split { head, data, filled, sums } => {
                let mut missing = preamble.lengths[1] + preamble.lengths[2] - head.len();
                let data = data.as_mut().expect("not lent while bytes are fed");
                fill(head, &mut missing, input)
                    && {
                        let taken = copy(&mut data[*filled..], input);
                        sums.add(taken);
                        *filled += taken.len();
                        *filled == data.len()
                    }
                    && gather_len(&mut self.block, &mut self.filled, EPILOGUE, input)
            }
            Body::Sealed { buf, start, filled } => {
                let buf = buf.as_mut().expect("not lent while bytes are fed");
                *filled += copy(&mut buf[*start + *filled..], input).len();
                *start + *filled == buf.len()
            }
        };
        if complete { self.complete().map(|frame| Some(Step::Frame(frame))) } else { Ok(None) }
    }

    fn complete(&mut self) -> Result<Frame, FrameError> {
        let Stage::Body { preamble, header, body } = std::mem::replace(&mut self.stage, Stage::Head) else {
            unreachable!("called in this stage only");
        };
        let bytes = announced(&preamble);
        let [_, front, middle, data] = preamble.lengths;
        let parts = match body {
            Body::Joined { bytes, .. } if self.cipher.is_none() => {
                let crcs = [0..front, front..front + middle, front + middle..front + middle + data]
                    .map(|range| kernels::crc32c(kernels::SEED, &bytes[range]));
                let whole = Bytes::from(bytes);
                check_epilogue(&preamble, &whole[front + middle + data..], crcs)?
                    .then(|| unsummed(cut(&whole, [0, front, front + middle], &preamble.lengths)))
            }
            Body::Joined { mut bytes, .. } => {
                let late = open_body(self.cipher.as_mut(), &mut bytes)?;
                let offsets = [0, padded(front), padded(front) + padded(middle)];
                late_status(late)?.then(|| unsummed(cut(&bytes.into(), offsets, &preamble.lengths)))
            }
            Body::Sealed { buf, start, .. } => {
                let mut buf = buf.expect("not lent when complete");
                let late = open_body(self.cipher.as_mut(), &mut buf[start..])?;
                let offsets = [start, start + padded(front), start + padded(front) + padded(middle)];
                late_status(late)?.then(|| unsummed(cut(&buf.freeze(), offsets, &preamble.lengths)))
            }
            Body::Split { head, data, sums, .. } => {
                let (crc, sums) = sums.finish();
                let crcs = [kernels::crc32c(kernels::SEED, &head[..front]), kernels::crc32c(kernels::SEED, &head[front..]), crc];
                let head = Bytes::from(head);
                let data = data.expect("not lent when complete").freeze();
                check_epilogue(&preamble, &self.block[..EPILOGUE], crcs)?
                    .then(|| (head.slice(..front), head.slice(front..), Rope::from(data).with_block_sums(sums)))
            }
        };
        self.reserved = 0;
        Ok(match parts {
            None => Frame::Aborted { bytes },
            Some((front, middle, data)) => Frame::Message { header, message: assemble(&header, front, middle, data), bytes },
        })
    }

    /// Returns how the next bytes should be received.
    pub(crate) fn receive(&mut self) -> Receive {
        let Stage::Body { preamble, body, .. } = &mut self.stage else { return Receive::Scratch };
        let (buf, at) = match body {
            Body::Split { head, data, filled, .. } if head.len() == preamble.lengths[1] + preamble.lengths[2] => (data, *filled),
            Body::Sealed { buf, start, filled } => (buf, *start + *filled),
            _ => return Receive::Scratch,
        };
        match buf.take_if(|buf| buf.len() - at >= DIRECT) {
            Some(mut buf) => {
                buf.skip(at);
                Receive::Direct(buf)
            }
            None => Receive::Scratch,
        }
    }

    /// Gives a directly received buffer back, with `len` new bytes.
    pub(crate) fn direct(&mut self, mut buf: Buf, len: usize) -> Result<Option<Frame>, FrameError> {
        let Stage::Body { body, .. } = &mut self.stage else { return Ok(None) };
        match body {
            Body::Split { data, filled, sums, .. } => {
                sums.add(&buf[..len]);
                *filled += len;
                buf.unskip();
                *data = Some(buf);
            }
            Body::Sealed { buf: slot, filled, .. } => {
                *filled += len;
                buf.unskip();
                *slot = Some(buf);
            }
            Body::Joined { .. } => return Ok(None),
        }
        self.feed(&mut &[][..])
    }
}

enum Step {
    Next,
    Frame(Frame),
}

/// Returns what a message is accounted for.
fn announced(preamble: &Preamble) -> usize {
    OVERHEAD + preamble.lengths[1..].iter().sum::<usize>()
}

fn assemble(header: &Header, front: Bytes, middle: Bytes, data: Rope) -> Message {
    Message {
        kind: header.kind,
        tid: header.tid,
        priority: header.priority,
        version: header.version,
        compat: header.compat,
        front,
        middle,
        data,
    }
}

fn cut(whole: &Bytes, [a, b, c]: [usize; 3], lengths: &[usize; SEGMENTS]) -> (Bytes, Bytes, Bytes) {
    (whole.slice(a..a + lengths[1]), whole.slice(b..b + lengths[2]), whole.slice(c..c + lengths[3]))
}

/// Parts of which no more is known than that they are right.
fn unsummed((front, middle, data): (Bytes, Bytes, Bytes)) -> (Bytes, Bytes, Rope) {
    (front, middle, data.into())
}

/// Opens a sealed body and gives its late status.
fn open_body(cipher: Option<&mut Cipher>, body: &mut [u8]) -> Result<u8, FrameError> {
    cipher.ok_or(FrameError::Sealed)?.open(body)?;
    Ok(body[body.len() - GCM_TAG - BLOCK])
}

/// Returns whether the frame is complete (true) or was given up (false).
fn late_status(status: u8) -> Result<bool, FrameError> {
    match status & 0x0f {
        COMPLETE => Ok(true),
        ABORTED => Ok(false),
        _ => Err(FrameError::LateStatus(status)),
    }
}

fn check_epilogue(preamble: &Preamble, epilogue: &[u8], crcs: [u32; 3]) -> Result<bool, FrameError> {
    let mut r = Bytewise::new(epilogue);
    if !late_status(r.u8()?)? {
        return Ok(false);
    }
    for (i, crc) in crcs.into_iter().enumerate().take(preamble.segments - 1) {
        if r.u32()? != crc {
            return Err(FrameError::Crc { segment: i + 1 });
        }
    }
    Ok(true)
}

fn crc_fits(bytes: &[u8], crc: &[u8]) -> bool {
    kernels::crc32c(kernels::SEED, bytes).to_le_bytes() == crc
}

/// Fills `block` to `size` bytes from the front of `input`; gives them when they are all there.
fn gather<'a>(block: &'a mut [u8], filled: &mut usize, size: usize, input: &mut &[u8]) -> Option<&'a [u8]> {
    *filled += copy(&mut block[*filled..size], input).len();
    if *filled < size {
        return None;
    }
    *filled = 0;
    Some(&block[..size])
}

fn gather_len(block: &mut [u8], filled: &mut usize, size: usize, input: &mut &[u8]) -> bool {
    gather(block, filled, size, input).is_some()
}

/// Copies as much as fits from the front of `input`; gives what was copied.
fn copy<'a>(room: &mut [u8], input: &mut &'a [u8]) -> &'a [u8] {
    let (taken, rest) = input.split_at(room.len().min(input.len()));
    room[..taken.len()].copy_from_slice(taken);
    *input = rest;
    taken
}

/// Appends up to `missing` bytes from the front of `input`; true when none is missing any more.
fn fill(out: &mut Vec<u8>, missing: &mut usize, input: &mut &[u8]) -> bool {
    let (taken, rest) = input.split_at((*missing).min(input.len()));
    out.extend_from_slice(taken);
    *missing -= taken.len();
    *input = rest;
    *missing == 0
}
