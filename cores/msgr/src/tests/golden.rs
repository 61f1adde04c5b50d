//! Frames of a recorded conversation, byte for byte.

use crate::auth::proto::{Claim, Request};
use crate::frame::*;
use denc::Encode as _;
use std::net::SocketAddr;
use types::{AddrType, EntityAddr, EntityAddrVec, EntityName, EntityType, Message, Rope};

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn control(tag: Tag, payload: &[u8]) -> Vec<u8> {
    let mut batch = Batch::default();
    Writer::default().control(tag, payload, &mut batch);
    batch.take().to_vec()
}

fn mon() -> EntityAddr {
    EntityAddr::msgr2("127.0.0.1:7889".parse::<SocketAddr>().unwrap(), 0)
}

#[test]
fn the_banner() {
    assert_eq!(BANNER[..], hex("636570682076320a 1000 0100000000000000 0000000000000000"));
}

#[test]
fn hello_and_authentication() {
    assert_eq!(
        control(Tag::Hello, &Hello { kind: 8, peer: mon() }.to_vec()),
        hex("01012400000008000000000000000000000000000000000000000000 3fbd6b06
             08 01 0101 1c000000 02000000 00000000 10000000 0200 1ed1 7f000001 0000000000000000 9025bb0b")
    );
    let claim = Claim { kind: 10, name: EntityName::new(EntityType::Client, "admin"), global_id: 0 };
    let request = Request { method: 1, modes: vec![1], payload: claim.to_bytes() };
    assert_eq!(
        control(Tag::AuthRequest, &request.to_vec()),
        hex("02012600000008000000000000000000000000000000000000000000 8c5ee4be
             01000000 01000000 01000000 16000000 0a 08000000 05000000 61646d696e 0000000000000000 d8ede50c")
    );
    assert_eq!(
        control(Tag::AuthDone, &AuthDone { global_id: 0x1119, mode: 1, payload: Default::default() }.to_vec()),
        hex("06011000000008000000000000000000000000000000000000000000 5b0630a6
             1911000000000000 01000000 00000000 6309749a")
    );
    let mut signature = hex("07012000000008000000000000000000000000000000000000000000 a80c9872");
    signature.extend([0; 32]);
    signature.extend(hex("55c96e75"));
    assert_eq!(control(Tag::AuthSignature, &[0; 32]), signature);
}

#[test]
fn identification() {
    let own = EntityAddr { kind: AddrType::Any, nonce: 0xf812_6e85, addr: Some("127.0.0.1:0".parse().unwrap()) };
    let ident = ClientIdent {
        addrs: EntityAddrVec(vec![own]),
        target: mon(),
        gid: -1,
        global_seq: 1,
        supported: types::features::SUPPORTED,
        required: 1 << 59,
        flags: 0,
        cookie: 0x334f_575d_eea5_131a,
    };
    assert_eq!(
        control(Tag::ClientIdent, &ident.to_vec()),
        hex("08017b00000008000000000000000000000000000000000000000000 738a9895
             02 01000000 01 0101 1c000000 03000000 856e12f8 10000000 0200 0000 7f000001 0000000000000000
             01 0101 1c000000 02000000 00000000 10000000 0200 1ed1 7f000001 0000000000000000
             ffffffffffffffff 0100000000000000 fffffdffbdcf013f 0000000000000008 0000000000000000 1a13a5ee5d574f33 e13e839e")
    );
}

#[test]
fn messages_with_and_without_a_front() {
    let frame = |seq, message: &Message| {
        let m = message;
        let header = Header { seq, tid: 0, kind: m.kind, priority: m.priority, version: m.version, ack: 0, compat: m.compat };
        let mut batch = Batch::default();
        Writer::default().message(&header, m, &mut batch);
        batch.take().to_vec()
    };
    let get_map = Message { kind: 5, priority: 127, version: 1, compat: 1, ..Message::default() };
    assert_eq!(
        frame(1, &get_map),
        hex("11012900000008000000000000000000000000000000000000000000 af9604f0
             0100000000000000 0000000000000000 0500 7f00 0100 00000000 0000 0000000000000000 03 0100 0000 073be540")
    );
    let front = hex("02000000 06000000 636f6e666967 0000000000000000 00 06000000 6d6f6e6d6170 0000000000000000 00 02000000 766d");
    let subscribe = Message { kind: 15, priority: 127, version: 3, compat: 1, front: front.into(), ..Message::default() };
    assert_eq!(
        frame(2, &subscribe),
        hex("11022900000008003000000008000000000000000000000000000000 2d2fbe15
             0200000000000000 0000000000000000 0f00 7f00 0300 00000000 0000 0000000000000000 03 0100 0000 1f2504bd
             02000000 06000000 636f6e666967 0000000000000000 00 06000000 6d6f6e6d6170 0000000000000000 00 02000000 766d
             0e 804d2c73 00000000 00000000")
    );
}

#[test]
fn sealed_frames_have_the_recorded_sizes() {
    let secret = [7u8; 64];
    let mut writer = Writer::default();
    writer.secure(Cipher::pair(&secret).unwrap().1);
    let mut size = |payload: &[u8]| {
        let mut batch = Batch::default();
        writer.control(Tag::AuthSignature, payload, &mut batch);
        batch.take().len()
    };
    assert_eq!(size(&[0; 32]), 96);
    assert_eq!(size(&[0; 123]), 192);
    let op = Message { front: vec![1; 213].into(), data: Rope::from(vec![2; 5000]), ..Message::default() };
    let mut batch = Batch::default();
    writer.message(&Header::default(), &op, &mut batch);
    assert_eq!(batch.take().len(), 5360);
}
