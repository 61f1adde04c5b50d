//! A short cut of what `make age` does: what costs more as a disk grows and ages, and by how much it may.

use age::figures::{Aged, Plan, age};
use age::profiles::Kind;

const MIB: u64 = 1 << 20;

fn aged(kind: Kind, size: u64, part: u64, ops: u64) -> Aged {
    let plan = Plan { kind, size, part, memory: 32 * MIB, journal: 8 * MIB, days: (2, 2), ops, runs: 1 };
    let aged = age(&plan).unwrap_or_else(|why| panic!("{}: {why}", kind.name()));
    print!("{}", age::figures::row(&plan, &aged));
    assert!(aged.says <= plan.memory + plan.memory / 10, "{}: the store says that it holds {} bytes", kind.name(), aged.says);
    aged
}

/// One test: they share the process, whose memory is measured.
#[test]
fn costs_do_not_grow_with_the_disk_nor_with_age() {
    let small = aged(Kind::Images, 512 * MIB, 512 * MIB, 6000);
    let large = aged(Kind::Images, 32 << 30, 512 * MIB, 6000);
    let each = |aged: &Aged, bytes: u64| bytes as f64 / aged.ops as f64;
    let written = |aged: &Aged| each(aged, aged.used.traffic.written_bytes);
    assert!(written(&large) <= 2.0 * written(&small), "bytes of an overwrite: {} and {}", written(&small), written(&large));
    let processor = |aged: &Aged| each(aged, aged.used.processor);
    let (a, b) = (processor(&small), processor(&large));
    assert!(b <= 4.0 * a, "processor time of an overwrite: {a} and {b} ns");
    aged(Kind::Snapshots, 512 * MIB, 512 * MIB, 1500);
    aged(Kind::Buckets, 512 * MIB, 512 * MIB, 1000);
    aged(Kind::Omap, 1 << 30, 256 * MIB, 3000);
    let files = aged(Kind::Files, 1 << 30, 1 << 30, 500);
    let writes = files.long_write.expect("it was full");
    assert!(writes <= 64.0, "an object of 4 MiB takes {writes} writes beside files");
}
