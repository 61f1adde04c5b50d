//! Whatever bytes arrive, decoding ends with a value or an error; never with a panic or much memory.

mod decoders;

use bytes::Bytes;
use decoders::{MESSAGES, decode_payloads, empty, exercise};
use messages::osd;
use proptest::prelude::*;
use types::{Message, Rope};

/// A request with all that can be in one.
fn rich_request() -> Message {
    let mut op = osd::OsdOp { oid: Bytes::from_static(b"object"), snaps: vec![3, 2, 1], ..osd::OsdOp::default() };
    op.locator.nspace = Bytes::from_static(b"space");
    op.ops = vec![
        osd::Op::call("lock", "lock", &[1, 1, 0, 0, 0, 0]),
        osd::Op::xattr(osd::code::SETXATTR, b"name", b"value"),
        osd::Op::extent(osd::code::WRITE, 0, 3, &b"abc"[..]),
    ];
    op.encode()
}

#[test]
fn empty_messages_round_trip() {
    for m in empty() {
        let (kind, version, decode) = MESSAGES.iter().find(|(kind, ..)| *kind == m.kind).expect("a known kind");
        assert_eq!(m.version, *version, "kind {kind:#x}");
        assert_eq!(decode(&m).as_ref(), Some(&m), "kind {kind:#x}");
        assert!(messages::kind_name(*kind).is_some(), "kind {kind:#x} has no name");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn random_bytes(front in prop::collection::vec(any::<u8>(), 0..300), data in prop::collection::vec(any::<u8>(), 0..80)) {
        for (kind, version, _) in MESSAGES {
            let m = Message { kind: *kind, version: *version, compat: 1, front: front.clone().into(), data: Rope::from(data.clone()), ..Message::default() };
            exercise(&m);
        }
        decode_payloads(&front);
    }

    #[test]
    fn cut_and_flipped(which in 0..38usize, cut in any::<prop::sample::Index>(), flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4)) {
        let mut all = empty();
        all.push(rich_request());
        let mut m = all[which].clone();
        let mut front = m.front.to_vec();
        if !front.is_empty() {
            for (at, value) in flips {
                let at = at.index(front.len());
                front[at] ^= value;
            }
            front.truncate(cut.index(front.len() * 2));
        }
        m.front = front.into();
        exercise(&m);
    }
}
