//! Erasure codes over data that lies in a cache of the processor. Throughput is that of the data, without parities.
#![allow(missing_docs)]

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use ec::{Code, Profile, merge};
use kernels::{Kernel, Mix};
use std::hint::black_box;
use std::time::Duration;

fn code(profile: &str) -> Code {
    Profile::parse(merge("plugin=none", profile.split(' ')).expect("words"), true).expect("a profile").code()
}

const JERASURE: &str = "plugin=jerasure technique=reed_sol_van";
const CAUCHY: &str = "plugin=jerasure technique=cauchy_good";

/// One row: k data chunks and what is made of them.
fn chunks(count: usize, len: usize) -> Vec<Vec<u8>> {
    (0..count).map(|i| (0..len as u32).map(|j| (j.wrapping_mul(2_654_435_761) >> (13 + i % 8)) as u8).collect()).collect()
}

fn codes(c: &mut Criterion) {
    for (name, profile, k, m) in [("4+2", JERASURE, 4, 2), ("8+3", JERASURE, 8, 3), ("4+2 cauchy_good", CAUCHY, 4, 2)] {
        let code = code(&format!("{profile} k={k} m={m}"));
        for (size, text) in [(64 << 10, "64 KiB"), (1 << 20, "1 MiB")] {
            let data = chunks(k, size / k);
            let from: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
            let mut group = c.benchmark_group(format!("ec {name}"));
            group.throughput(Throughput::Bytes(size as u64));
            let mut space = vec![vec![0; size / k]; m];
            let mut out: Vec<&mut [u8]> = space.iter_mut().map(Vec::as_mut_slice).collect();
            group.bench_function(BenchmarkId::new("encode", text), |b| b.iter(|| code.encode(black_box(&from), &mut out)));
            // Data shard 1 is lost, and comes from the others and the last parity: the case that is no plain sum.
            let have: Vec<usize> = (0..k).filter(|i| *i != 1).chain([k + m - 1]).collect();
            let lost = code.recover(&have, &[1]).expect("enough");
            let mut back = vec![0; size / k];
            group.bench_function(BenchmarkId::new("decode one", text), |b| {
                b.iter(|| lost.apply(black_box(&from), &mut [&mut back], false));
            });
            group.finish();
        }
    }
    // Each kernel by itself, with the coefficients of jerasure's 4+2 and 8+3.
    for (name, k, rows) in [
        ("4+2", 4, vec![1, 1, 1, 1, 1, 70, 143, 200]),
        ("8+3", 8, vec![1, 1, 1, 1, 1, 1, 1, 1, 1, 55, 39, 73, 84, 181, 225, 217, 1, 172, 70, 235, 143, 34, 200, 101]),
    ] {
        let size = 64 << 10;
        let data = chunks(k, size / k);
        let from: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
        let mix = Mix::new(k, &rows);
        let mut group = c.benchmark_group(format!("ec kernels {name}"));
        group.throughput(Throughput::Bytes(size as u64));
        for kernel in Kernel::all() {
            let mut space = vec![vec![0; size / k]; rows.len() / k];
            let mut out: Vec<&mut [u8]> = space.iter_mut().map(Vec::as_mut_slice).collect();
            group.bench_function(BenchmarkId::from_parameter(format!("{kernel:?}")), |b| {
                b.iter(|| mix.apply_with(*kernel, black_box(&from), &mut out, false));
            });
        }
        group.finish();
    }
    let code = code("plugin=jerasure technique=reed_sol_van k=8 m=3");
    c.bench_function("ec 8+3/make a recipe for one", |b| b.iter(|| code.recover(black_box(&[0, 2, 3, 4, 5, 6, 7, 10]), &[1])));
}

criterion_group! {
    name = benches;
    config = Criterion::default().warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2)).sample_size(50);
    targets = codes
}
criterion_main!(benches);
