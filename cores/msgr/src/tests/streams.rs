//! Streams of frames, cut anywhere, plain and sealed, into scratch and direct buffers.

use super::*;
use crate::frame::*;

const LIMITS: FrameLimits = FrameLimits { front: 1 << 20, middle: 1 << 20, data: 8 << 20, control: 64 << 10 };

fn reader(secret: Option<&[u8]>) -> Reader {
    let mut reader = Reader::new(LIMITS);
    assert!(matches!(reader.feed(&mut &BANNER[..]), Ok(Some(Frame::Banner { required: 0 }))));
    reader.take_transcript();
    reader.allow_messages();
    if let Some(secret) = secret {
        reader.secure(Cipher::pair(secret).unwrap().0);
    }
    reader
}

fn writer(secret: Option<&[u8]>) -> Writer {
    let mut writer = Writer::default();
    if let Some(secret) = secret {
        // The client's cipher: what the server reads with.
        writer.secure(Cipher::pair(secret).unwrap().0);
    }
    writer
}

fn header(seq: u64, m: &Message) -> Header {
    Header { seq, tid: m.tid, kind: m.kind, priority: m.priority, version: m.version, ack: 3, compat: m.compat }
}

/// Reads a stream as a driver would, in pieces of random size.
fn read(reader: &mut Reader, mut stream: &[u8], dice: &mut Dice, grain: usize) -> (Vec<Frame>, usize) {
    let mut frames = Vec::new();
    let mut direct = 0;
    while !stream.is_empty() {
        let n = (1 + dice.below(grain)).min(stream.len());
        match reader.receive() {
            Receive::Direct(mut buf) => {
                let n = n.min(buf.len());
                buf[..n].copy_from_slice(&stream[..n]);
                stream = &stream[n..];
                direct += n;
                frames.extend(reader.direct(buf, n).unwrap());
            }
            Receive::Scratch => {
                let mut input = &stream[..n];
                stream = &stream[n..];
                while let Some(frame) = reader.feed(&mut input).unwrap() {
                    match frame {
                        Frame::Announce { .. } => frames.extend(reader.grant()),
                        frame => frames.push(frame),
                    }
                }
            }
        }
    }
    (frames, direct)
}

#[test]
fn frames_come_out_as_they_went_in_however_the_stream_is_cut() {
    let sizes = [0, 1, 15, 16, 17, 48, 2048, 2049, 31_000, 33_000, 70_000, 300_000];
    for secret in [None, Some(&[9u8; 64][..])] {
        for seed in 0..40 {
            let mut dice = Dice(seed);
            let mut writer = writer(secret);
            let mut batch = Batch::default();
            let mut sent = Vec::new();
            for seq in 1..12 {
                let mut m = message(seq, sizes[dice.below(11)], sizes[dice.below(12)]);
                if dice.below(4) == 0 {
                    let size = sizes[dice.below(8)];
                    m.middle = dice.bytes(size).into();
                }
                writer.message(&header(seq, &m), &m, &mut batch);
                let size = sizes[dice.below(10)];
                let payload = dice.bytes(size);
                writer.control(Tag::Keepalive2, &payload, &mut batch);
                sent.push((m, payload));
            }
            let rope = batch.take();
            let grain = [5, 1000, 80_000][seed as usize % 3];
            let (frames, _) = read(&mut reader(secret), &rope.to_vec(), &mut dice, grain);
            assert_eq!(frames.len(), 2 * sent.len());
            for (pair, (m, control)) in frames.chunks(2).zip(&sent) {
                let [Frame::Message { header: h, message, .. }, Frame::Control { tag, payload }] = pair else {
                    panic!("{pair:?}")
                };
                assert_eq!((message, *h), (m, header(h.seq, m)));
                assert_eq!((*tag, payload), (Tag::Keepalive2, control));
            }
        }
    }
}

#[test]
fn large_data_arrives_in_one_aligned_buffer_without_a_copy() {
    for secret in [None, Some(&[9u8; 64][..])] {
        let m = message(1, 213, 4 << 20);
        let mut batch = Batch::default();
        writer(secret).message(&header(1, &m), &m, &mut batch);
        let rope = batch.take();
        if secret.is_none() {
            assert!(rope.pieces().iter().any(|p| p.as_ptr() == m.data.pieces()[0].as_ptr()), "data is sent from where it lies");
            assert_eq!(rope.pieces().len(), 3);
        }
        let (frames, direct) = read(&mut reader(secret), &rope.to_vec(), &mut Dice(1), 60_000);
        let [Frame::Message { message: got, .. }] = &frames[..] else { panic!("one message") };
        assert_eq!(*got, m);
        let [data] = got.data.pieces() else { panic!("one piece") };
        assert_eq!(data.as_ptr() as usize % node::ALIGN, 0);
        assert!(direct > (4 << 20) - 200_000, "{direct}");
    }
}

#[test]
fn every_changed_bit_is_noticed() {
    for secret in [None, Some(&[9u8; 64][..])] {
        let m = message(1, 30, 50);
        let mut batch = Batch::default();
        writer(secret).message(&header(1, &m), &m, &mut batch);
        let stream = batch.take().to_vec();
        for bit in 0..stream.len() * 8 {
            let mut bad = stream.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            let mut reader = reader(secret);
            let mut input = &bad[..];
            let result = loop {
                match reader.feed(&mut input) {
                    Ok(Some(Frame::Announce { .. })) => assert!(reader.grant().is_none()),
                    other => break other,
                }
            };
            match result {
                Err(_) => {}
                // The upper half of the late status and the checksum of an absent segment carry nothing.
                Ok(Some(Frame::Message { message, .. })) => assert!(secret.is_none() && message == m, "bit {bit}"),
                other => panic!("bit {bit}: {other:?}"),
            }
        }
    }
}

#[test]
fn lengths_are_checked_before_memory_is_taken() {
    let preamble = |tag, lengths: [usize; 4]| {
        let segments = 1 + lengths.iter().rposition(|n| *n != 0).unwrap_or_default();
        Preamble { tag, segments, lengths }.encode()
    };
    let refuse = |bytes: &[u8]| reader(None).feed(&mut &bytes[..]).unwrap_err().to_string();
    assert!(refuse(&preamble(Tag::Hello, [70_000, 0, 0, 0])).contains("control frame of 70000 bytes"));
    assert!(refuse(&preamble(Tag::Message, [41, 2 << 20, 0, 0])).contains("front of"));
    assert!(refuse(&preamble(Tag::Message, [41, 0, 2 << 20, 0])).contains("middle of"));
    assert!(refuse(&preamble(Tag::Message, [41, 1, 0, 0xffff_ffff])).contains("data of"));
    assert!(refuse(&preamble(Tag::Message, [42, 1, 0, 0])).contains("message header of 42"));
    assert!(refuse(&preamble(Tag::Hello, [8, 8, 0, 0])).contains("2 segments"));
    let mut early = Reader::new(LIMITS);
    let mut bytes = BANNER.to_vec();
    bytes.extend(preamble(Tag::Message, [41, 1, 0, 0]));
    let mut input = &bytes[..];
    assert!(early.feed(&mut input).is_ok());
    assert!(early.feed(&mut input).unwrap_err().to_string().contains("before the handshake's end"));
    assert!(Reader::new(LIMITS).feed(&mut &b"ceph v027"[..]).is_err());
    assert!(Reader::new(LIMITS).feed(&mut &b"GET"[..]).is_err());
}

#[test]
fn an_aborted_frame_is_dropped() {
    let m = message(1, 30, 50);
    let mut batch = Batch::default();
    let mut writer = writer(None);
    writer.message(&header(1, &m), &m, &mut batch);
    writer.message(&header(1, &m), &m, &mut batch);
    let mut stream = batch.take().to_vec();
    let status = stream.len() / 2 - EPILOGUE;
    assert_eq!(stream[status], COMPLETE);
    stream[status] = ABORTED;
    let (frames, _) = read(&mut reader(None), &stream, &mut Dice(1), 1000);
    assert!(matches!(&frames[..], [Frame::Aborted { .. }, Frame::Message { .. }]), "{frames:?}");
}
