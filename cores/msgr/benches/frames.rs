//! Frames of msgr2.1 around a client's write of 4 KiB and of 4 MiB, with checksums and sealed.
//!
//! Parsing copies the bytes once, as the kernel does when it receives; sealed frames need another copy each time, as
//! they are opened in place.
#![allow(missing_docs)]

use bytes::Bytes;
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use msgr::bench::Pair;
use std::hint::black_box;
use std::time::Duration;
use types::{Message, Rope};

/// An MOSDOp as librados sends it: 230 bytes of front, the data of one write.
fn write(size: usize) -> Message {
    let data: Vec<u8> = (0..size as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    Message {
        kind: 42,
        tid: 1,
        priority: 63,
        version: 8,
        compat: 3,
        front: Bytes::from(vec![5; 230]),
        middle: Bytes::new(),
        data: Rope::from(data),
    }
}

fn frames(c: &mut Criterion) {
    let mut group = c.benchmark_group("frame");
    for (name, size) in [("4 KiB", 4 << 10), ("4 MiB", 4 << 20)] {
        for (mode, secure) in [("crc", false), ("secure", true)] {
            let message = write(size);
            group.throughput(Throughput::Bytes(size as u64));
            let mut pair = Pair::new(secure);
            group.bench_function(format!("build {name}, {mode}"), |b| b.iter(|| pair.build(black_box(&message))));
            // Each sealed frame has a nonce of its own, so it is built beside the measurement, by the same pair.
            let pair = std::cell::RefCell::new(Pair::new(secure));
            group.bench_function(format!("parse {name}, {mode}"), |b| {
                let build = || pair.borrow_mut().build(&message).to_vec();
                b.iter_batched(build, |bytes| pair.borrow_mut().parse(&bytes), BatchSize::PerIteration);
            });
        }
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2)).sample_size(50);
    targets = frames
}
criterion_main!(benches);
