//! Frames as the benchmarks of this crate build and parse them. Only for `benches/`.

use crate::frame::{BANNER, Batch, Cipher, Frame, FrameLimits, Header, Reader, Receive, Writer};
use types::{Message, Rope};

/// Frames of one connection, both ends of it: what is built is what is parsed.
pub struct Pair {
    writer: Writer,
    reader: Reader,
    seq: u64,
}

const LIMITS: FrameLimits = FrameLimits { front: 16 << 20, middle: 1 << 20, data: 128 << 20, control: 64 << 10 };

impl Pair {
    /// With checksums, or sealed.
    pub fn new(secure: bool) -> Self {
        let (mut writer, mut reader) = (Writer::default(), Reader::new(LIMITS));
        let banner = reader.feed(&mut &BANNER[..]);
        assert!(matches!(banner, Ok(Some(Frame::Banner { .. }))));
        reader.take_transcript();
        reader.allow_messages();
        if secure {
            let ends = || Cipher::pair(&[7; 64]).expect("the secret is long enough").0;
            writer.secure(ends());
            reader.secure(ends());
        }
        Self { writer, reader, seq: 0 }
    }

    /// A message as bytes for the driver.
    pub fn build(&mut self, m: &Message) -> Rope {
        self.seq += 1;
        let (version, compat) = (m.version, m.compat);
        let header = Header { seq: self.seq, tid: m.tid, kind: m.kind, priority: m.priority, version, ack: 0, compat };
        let mut batch = Batch::default();
        self.writer.message(&header, m, &mut batch);
        batch.take()
    }

    /// One message from bytes as a driver receives them: large data straight into the reader's buffer, all else in
    /// pieces of 64 KiB.
    pub fn parse(&mut self, bytes: &[u8]) -> Message {
        let mut rest = bytes;
        while !rest.is_empty() {
            let frame = match self.reader.receive() {
                Receive::Direct(mut buf) => {
                    let n = rest.len().min(buf.len());
                    buf[..n].copy_from_slice(&rest[..n]);
                    rest = &rest[n..];
                    self.reader.direct(buf, n).expect("what was built here")
                }
                Receive::Scratch => {
                    let mut piece = &rest[..rest.len().min(64 << 10)];
                    let before = piece.len();
                    let mut frame = self.reader.feed(&mut piece).expect("what was built here");
                    if matches!(frame, Some(Frame::Announce { .. })) {
                        frame = self.reader.grant();
                    }
                    rest = &rest[before - piece.len()..];
                    frame
                }
            };
            if let Some(Frame::Message { message, .. }) = frame {
                assert!(rest.is_empty(), "one message");
                return message;
            }
        }
        panic!("the message ends in the middle")
    }
}
