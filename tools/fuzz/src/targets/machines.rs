//! Whole machines: a monitor that is given commands, a placement group that is given operations.

#[path = "../../../../cores/mon/tests/common/mod.rs"]
#[allow(missing_docs)]
mod monitor;
#[path = "../../../../cores/pg/tests/bench/mod.rs"]
mod osd;

use super::MACHINE;
use crate::Target;
use bytes::Bytes;
use messages::osd::{Op, OpArgs, OsdOp, code};
use types::{Message, Rope};

pub(super) fn targets() -> Vec<Target> {
    vec![
        Target { name: "command-parse", run: parse, seeds: command_seeds, slack: MACHINE },
        Target { name: "command", run: command, seeds: command_seeds, slack: MACHINE },
        Target { name: "operation", run: operation, seeds: operation_seeds, slack: MACHINE },
    ]
}

fn parse(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        mon::fuzz::command(text);
    }
}

/// Commands, one a line, to a monitor with an OSD and a pool; afterwards it still answers, and its disk opens.
fn command(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let mut world = monitor::World::new();
    world.boot_osd(0);
    for line in text.lines().take(4) {
        world.begin_call(line);
        world.run();
    }
    assert_eq!(world.fatal, None);
    assert_eq!(world.call(r#"{"prefix":"status"}"#).0, 0);
    let again = monitor::World::with(monitor::config(mon::AuthMode::None), world.disk.clone());
    assert_eq!(again.fatal, None);
}

fn command_seeds() -> Vec<Vec<u8>> {
    let lines = [
        r#"{"prefix":"osd pool create","pool":"p","pg_num":8,"pool_type":"replicated","size":1}"#,
        r#"{"prefix":"osd pool set","pool":"p","var":"pg_num","val":"16"}"#,
        r#"{"prefix":"osd pool application enable","pool":"p","app":"rbd"}"#,
        r#"{"prefix":"osd pool delete","pool":"p","pool2":"p","yes_i_really_really_mean_it":true}"#,
        r#"{"prefix":"auth get-or-create","entity":"client.foo","caps":["mon","allow r","osd","allow rw pool=p"]}"#,
        r#"{"prefix":"config set","who":"osd","name":"osd_max_backfills","value":"3"}"#,
        r#"{"prefix":"config-key set","key":"k","val":"v"}"#,
        r#"{"prefix":"osd crush add-bucket","name":"rack1","type":"rack"}"#,
        r#"{"prefix":"osd crush move","name":"host","args":["rack=rack1","root=default"]}"#,
        r#"{"prefix":"osd crush reweight","name":"osd.0","weight":1.5}"#,
        r#"{"prefix":"osd crush rule create-replicated","name":"r","root":"default","type":"osd","class":"ssd"}"#,
        r#"{"prefix":"osd reweight","id":0,"weight":0.5}"#,
        r#"{"prefix":"osd out","ids":["0"]}"#,
        r#"{"prefix":"osd blocklist","blocklistop":"add","addr":"10.0.0.1:0/5","expire":5.5}"#,
        r#"{"prefix":"osd df","format":"json","output_method":"tree"}"#,
        r#"{"prefix":"pg dump","dumpcontents":["all"],"format":"json-pretty"}"#,
        r#"{"prefix":"status","format":"xml"}"#,
        r#"{"prefix":"health","detail":"detail"}"#,
        r#"{"prefix":"health mute","code":"POOL_APP_NOT_ENABLED","ttl":"5m","sticky":true}"#,
        r#"{"prefix":"log","logtext":["hello"]}"#,
        r#"{"prefix":"log last","num":3,"level":"info","channel":"cluster"}"#,
        r#"{"prefix":"osd set","key":"noout"}"#,
        r#"{"prefix":"osd set-full-ratio","ratio":0.9}"#,
        r#"{"prefix":"osd purge-new","id":0,"yes_i_really_mean_it":true}"#,
        r#"{"prefix":"osd new","uuid":"11111111-2222-3333-4444-555555555555","id":5}"#,
        r#"{"prefix":"osd map","pool":"p","object":"o","nspace":"n"}"#,
        r#"{"prefix":"get_command_descriptions"}"#,
        r#"{"prefix":"osd pool set-quota","pool":"p","field":"max_bytes","val":"10G"}"#,
        r#"{"prefix":"osd pool rename","srcpool":"p","destpool":"q"}"#,
        r#"{"prefix":"osd pool mksnap","pool":"p","snap":"s"}"#,
        r#"{"prefix":"osd primary-affinity","id":0,"weight":0.1}"#,
        r#"{"prefix":"osd tree","states":["up"],"format":"json"}"#,
        r#"{"prefix":"osd getmap","epoch":1}"#,
        r#"{"prefix":"report","tags":["x"]}"#,
    ];
    let create = lines[0];
    lines.iter().map(|line| format!("{create}\n{line}").into_bytes()).collect()
}

/// Several vectors of operations on a few objects of a group. Each operation: code, three numbers, input.
fn operation(bytes: &[u8]) {
    let mut bench = osd::Bench::new(1);
    bench.config.max_object_size = 1 << 20;
    let mut rest = bytes;
    let mut ops: Vec<Op> = Vec::new();
    for _ in 0..40 {
        let Some((head, tail)) = rest.split_at_checked(12) else { break };
        let number = |at: usize| u64::from(u32::from_le_bytes([head[at], head[at + 1], head[at + 2], 0]));
        let (input, tail) = tail.split_at(usize::from(head[11]).min(tail.len()));
        rest = tail;
        ops.push(op(u16::from_le_bytes([head[0], head[1]]), number(2), number(5), head[8], input));
        if head[9] & 3 == 0 {
            send(&mut bench, std::mem::take(&mut ops), head[10]);
        }
    }
    send(&mut bench, ops, 0);
    let reply = bench.run("last", vec![Op::extent(code::WRITEFULL, 0, 1, Bytes::from_static(b"x"))]);
    assert_eq!(reply.result, 0, "the group goes on");
    bench.restart();
    assert!(bench.pgs.values().all(pg::Pg::is_active), "the group loads again");
}

/// Through the encoding, as a client would send it.
fn send(bench: &mut osd::Bench, ops: Vec<Op>, how: u8) {
    let name = ["a", "b", "object with a longer name"][usize::from(how) % 3];
    let mut request = osd::request(name, ops);
    if how & 4 != 0 {
        (request.snap_seq, request.snaps) = (u64::from(how), vec![u64::from(how)]);
    }
    let Ok(request) = OsdOp::decode(&Message { tid: 1, ..request.encode() }) else { return };
    let tid = u64::from(how) + 5_000 + bench.sent.len() as u64;
    bench.deliver(types::SessionId(10), osd::peer(10), tid, request);
    bench.settle();
    bench.pass(std::time::Duration::from_millis(10));
}

fn op(code: u16, a: u64, b: u64, c: u8, input: &[u8]) -> Op {
    let codes = [
        code::READ,
        code::WRITE,
        code::WRITEFULL,
        code::APPEND,
        code::ZERO,
        code::TRUNCATE,
        code::DELETE,
        code::CREATE,
        code::STAT,
        code::SETXATTR,
        code::GETXATTR,
        code::OMAPSETVALS,
        code::OMAPGETVALS,
        code::OMAPGETKEYS,
        code::CALL,
        code::CALL,
        code::CALL,
        code::WATCH,
        code::NOTIFY,
        code::ROLLBACK,
        code::LIST_SNAPS,
        code::SPARSE_READ,
    ];
    let code = if code & 0x8000 != 0 { code } else { codes[usize::from(code) % codes.len()] };
    match code {
        code::CALL => {
            let classes = [
                ("lock", "lock"),
                ("lock", "get_info"),
                ("version", "set"),
                ("refcount", "get"),
                ("hello", "say_hello"),
                ("numops", "add"),
            ];
            let (class, method) = classes[a as usize % classes.len()];
            Op::call(class, method, input)
        }
        code::SETXATTR | code::GETXATTR => {
            let (name, value) = input.split_at(usize::from(c).min(input.len()));
            Op::xattr(code, name, value)
        }
        code::WATCH => Op::new(code, OpArgs::Watch { cookie: a, version: 0, op: c, generation: 0, timeout: b as u32 }),
        code::DELETE | code::CREATE | code::STAT => Op::new(code, OpArgs::None),
        _ => Op {
            input: Rope::from(Bytes::copy_from_slice(input)).contiguous(),
            ..Op::extent(code, a, b, Bytes::copy_from_slice(input))
        },
    }
}

fn operation_seeds() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for first in 0..22u8 {
        let mut bytes = Vec::new();
        for code in [1, first, 0, (first + 7) % 22] {
            bytes.extend([code, 0, 10, 0, 0, 20, 0, 0, 3, code & 1, first, 16]);
            bytes.extend([1, 0, 0, 0, 4, 0, 0, 0, b'n', b'a', b'm', b'e', 2, 0, 0, 0]);
        }
        all.push(bytes);
    }
    all
}
