//! Bytes that were seen on the wire, word for word.

use bytes::Bytes;
use messages::mon::{
    Auth, AuthReply, ConfigMsg, MonCommand, MonGetMap, MonMapMsg, MonSubscribe, Ping, StatfsReply, SubscribeItem,
};
use messages::osd::{Op, OpArgs, OsdOp, OsdOpReply, code, flags};
use types::{Locator, Message, PgId, SnapId, SpgId};

/// Bytes from hexadecimal digits; white space between them is for the reader.
fn hex(digits: &str) -> Vec<u8> {
    let digits: Vec<u8> = digits.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    let text = |pair: &[u8]| String::from_utf8(pair.to_vec()).expect("ASCII");
    digits.chunks(2).map(|pair| u8::from_str_radix(&text(pair), 16).expect("hexadecimal")).collect()
}

fn read_obj1() -> OsdOp {
    OsdOp {
        pg: SpgId::whole(PgId::new(2, 0x1f)),
        hash: 0x6cf8_deff,
        epoch: 43,
        flags: flags::ONDISK | flags::READ | flags::KNOWN_REDIR,
        locator: Locator::pool(2),
        oid: Bytes::from_static(b"obj1"),
        ops: vec![Op::extent(code::READ, 0, 4_194_304, Bytes::new())],
        snapid: SnapId::HEAD,
        features: types::features::SUPPORTED,
        ..OsdOp::default()
    }
}

const READ_OBJ1: &str = "
    0101 12000000 01 0200000000000000 1f000000 ffffffff ff
    ffdef86c 2b000000 14004000
    0202 15000000 000000000000000000000000000000000000000000
    000000000000000000000000000000000000000000000000
    00000000 0000000000000000
    0603 1c000000 0200000000000000 ffffffff 00000000 00000000 ffffffffffffffff
    04000000 6f626a31 0100
    0112 00000000 0000000000000000 0000400000000000 0000000000000000 00000000 00000000
    feffffffffffffff 0000000000000000 00000000 00000000 fffffdffbdcf013f";

#[test]
fn a_read() {
    let m = read_obj1().encode();
    assert_eq!(m.front.len(), 213);
    assert_eq!(m.front, hex(READ_OBJ1));
    assert_eq!((m.kind, m.version, m.compat, m.priority), (42, 8, 3, 63));
    assert_eq!(OsdOp::decode(&m), Ok(read_obj1()));
}

#[test]
fn a_request_needs_one_allocation_for_its_front() {
    let mut op = read_obj1();
    op.oid = Bytes::from(vec![b'x'; 300]);
    op.ops = vec![op.ops[0].clone(); 5];
    op.snaps = vec![9, 8, 7];
    // Everything but names, operations and snapshots, as the encoder reserves it.
    let fixed = hex(READ_OBJ1).len() - 4 - 38;
    assert!(fixed <= 176, "{fixed}");
    let mut reply = OsdOpReply { oid: op.oid.clone(), ..OsdOpReply::default() };
    reply.ops = op.ops.iter().map(messages::osd::OpResult::of).collect();
    assert!(reply.encode().front.len() <= 110 + 300 + 42 * 5, "{}", reply.encode().front.len());
}

#[test]
fn a_subscription() {
    let mut what = MonSubscribe { hostname: "vm".into(), ..MonSubscribe::default() };
    what.what.insert("config".into(), SubscribeItem::default());
    what.what.insert("monmap".into(), SubscribeItem::default());
    let m = what.encode();
    let front = "02000000 06000000 636f6e666967 0000000000000000 00 06000000 6d6f6e6d6170 0000000000000000 00
                 02000000 766d";
    assert_eq!(m.front, hex(front));
    assert_eq!((m.kind, m.version, m.compat), (15, 3, 1));
    assert_eq!(MonSubscribe::decode(&m), Ok(what));
}

/// A message as the Linux kernel sends it: most have version 0.
fn from_the_kernel(kind: u16, version: u16, front: &str) -> Message {
    Message { kind, version, front: hex(front).into(), ..Message::default() }
}

#[test]
fn a_subscription_of_the_kernel_tells_no_host() {
    let m = from_the_kernel(15, 2, "01000000 06000000 6f73646d6170 0500000000000000 01");
    let read = MonSubscribe::decode(&m).expect("version 2 is read");
    assert_eq!(read.what["osdmap"], SubscribeItem { start: 5, flags: 1 });
    assert_eq!(read.hostname, "");
    let older = MonSubscribe::decode(&Message { version: 1, ..m }).expect_err("version 1 is not");
    assert!(older.to_string().contains("the oldest read is 2"), "{older}");
}

#[test]
fn a_command_of_the_kernel_does_not_fill_its_front() {
    let paxos = "0000000000000000 ffff 0000000000000000";
    let front = format!("{paxos} 07070707070707070707070707070707 01000000 02000000 7b7d 000000000000");
    let m = from_the_kernel(50, 0, &front);
    assert_eq!(MonCommand::decode(&m).expect("the rest is no part of it").cmd, ["{}"]);
    let other = MonCommand::decode(&Message { version: 1, ..m }).expect_err("others fill it");
    assert!(other.to_string().contains("6 bytes too many"), "{other}");
}

#[test]
fn a_renewal_of_the_kernel_tells_no_epoch() {
    let m = from_the_kernel(17, 0, "0000000000000000 ffff 0000000000000000 02000000 02000000 0002");
    let read = Auth::decode(&m).expect("version 0 is read");
    assert_eq!((read.protocol, &read.payload[..], read.monmap_epoch), (2, &[0, 2][..], 0));
}

#[test]
fn a_locator_of_the_kernel_has_no_hash() {
    let locator: Locator =
        denc::Reader::new(&hex("0504 18000000 0200000000000000 ffffffff 00000000 04000000 6e616d65")).get().expect("read");
    assert_eq!(locator, Locator { nspace: Bytes::from_static(b"name"), ..Locator::pool(2) });
}

#[test]
fn the_small_ones() {
    assert!(MonGetMap::default().encode().front.is_empty());
    assert_eq!(ConfigMsg::default().encode().front, hex("00000000"));
    let map = MonMapMsg { monmap: Bytes::from(vec![7; 201]) };
    assert_eq!(map.encode().front.len(), 205);
    let statfs = StatfsReply { version: 0x156, kb: 20_971_520, kb_used: 297_432, kb_avail: 20_674_088, ..Default::default() };
    assert_eq!(statfs.encode().front.len(), 16 + 5 * 8);
    let pong = Ping::answer("{}").encode();
    assert_eq!((pong.front, pong.version, pong.compat), (hex("02000000 7b7d").into(), 1, 0));
    let auth = AuthReply { protocol: 2, result: -13, global_id: 4121, ..AuthReply::default() };
    assert_eq!(auth.encode().front, hex("02000000 f3ffffff 1910000000000000 00000000 00000000"));
}

#[test]
fn every_operation_keeps_its_arguments() {
    for code in code::ALL {
        let mut op = read_obj1();
        let raw: Vec<u8> = (1..=28).collect();
        let mut front = op.encode().front.to_vec();
        let at = front.len() - 32 - 38;
        front[at..at + 2].copy_from_slice(&code.to_le_bytes());
        front[at + 6..at + 34].copy_from_slice(&raw);
        let m = Message { front: front.into(), ..op.encode() };
        op = OsdOp::decode(&m).expect("arguments of any value are read");
        let known = !matches!(op.ops[0].args, OpArgs::Raw(_));
        let again = op.encode().front[at + 6..at + 34].to_vec();
        let kept = again.iter().zip(&raw).filter(|(a, b)| a == b).count();
        let zeros = again.iter().filter(|b| **b == 0).count();
        assert!(kept + zeros == 28 && (known || kept == 28), "{code:#x}: {again:x?}");
    }
}

#[test]
fn messages_of_other_layouts_are_refused() {
    let m = read_obj1().encode();
    for version in [1, 6, 7] {
        assert!(OsdOp::decode(&Message { version, ..m.clone() }).is_err());
    }
    assert!(OsdOp::decode(&Message { compat: 9, version: 9, ..m.clone() }).is_err());
    // A newer sender may append.
    let longer = [&m.front[..], &[1, 2, 3]].concat();
    assert!(OsdOp::decode(&Message { version: 9, front: longer.clone().into(), ..m.clone() }).is_ok());
    assert!(OsdOp::decode(&Message { front: longer.into(), ..m.clone() }).is_err());
    // Data that no operation claims, and operations that claim data which is not there.
    assert!(OsdOp::decode(&Message { data: vec![0].into(), ..m.clone() }).is_err());
    let mut write = read_obj1();
    write.ops = vec![Op::extent(code::WRITE, 0, 4, &b"abcd"[..])];
    let m = write.encode();
    assert!(OsdOp::decode(&Message { data: m.data.slice(0, 3), ..m.clone() }).is_err());
    assert_eq!(OsdOp::decode(&m).map(|o| o.ops[0].input.clone()), Ok(Bytes::from_static(b"abcd")));
}

#[test]
fn inputs_share_the_data_section() {
    let data = Bytes::from(vec![5u8; 4096]);
    let mut write = read_obj1();
    write.ops =
        vec![Op::extent(code::WRITE, 0, 1000, data.slice(..1000)), Op::extent(code::WRITE, 8192, 3096, data.slice(1000..))];
    let m = Message { data: data.clone().into(), ..write.encode() };
    let op = OsdOp::decode(&m).expect("well formed");
    assert_eq!(op.ops[0].input.as_ptr(), data.as_ptr());
    assert_eq!(op.ops[1].input.as_ptr(), data[1000..].as_ptr());
}
