//! CRC-32C over data that lies in a cache of the processor.
#![allow(missing_docs)]

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use kernels::{SEED, crc32c, crc32c_concat_4k};
use std::hint::black_box;
use std::time::Duration;

fn checksums(c: &mut Criterion) {
    let data: Vec<u8> = (0..1u32 << 20).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let mut group = c.benchmark_group("crc32c");
    for (name, size) in [("64 B", 64), ("4 KiB", 4 << 10), ("64 KiB", 64 << 10), ("1 MiB", 1 << 20)] {
        group.throughput(Throughput::Bytes(size as u64));
        group.bench_function(BenchmarkId::from_parameter(name), |b| b.iter(|| crc32c(black_box(SEED), black_box(&data[..size]))));
    }
    group.finish();
    c.bench_function("crc32c/join a block's", |b| b.iter(|| crc32c_concat_4k(black_box(1), black_box(2))));
}

criterion_group! {
    name = benches;
    config = Criterion::default().warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2)).sample_size(50);
    targets = checksums
}
criterion_main!(benches);
