//! Parities against those of Ceph's own plugins. `tools/conformance/foreign/erasure_codes.py vectors` records them with
//! `ceph-erasure-code-tool` of 16.2.15.
#![allow(missing_docs)]

use ec::{Code, Profile, merge};
use sha2::{Digest, Sha256};

/// Low bytes of xorshift64.
fn noise(n: usize) -> Vec<u8> {
    let mut x = 0x9e37_79b9_7f4a_7c15u64;
    (0..n)
        .map(|_| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            x as u8
        })
        .collect()
}

fn code(profile: &str) -> Code {
    let pairs = merge("plugin=none", profile.split(' ')).unwrap();
    Profile::parse(pairs, true).unwrap_or_else(|e| panic!("{profile}: {}", e.text)).code()
}

/// SHA-256 of the parities of two rows of chunks of `unit` bytes.
fn digest(code: &Code, unit: usize, input: &[u8]) -> String {
    let k = code.k();
    let shards: Vec<Vec<u8>> = (0..k).map(|i| [&input[i * unit..][..unit], &input[(k + i) * unit..][..unit]].concat()).collect();
    let data: Vec<&[u8]> = shards.iter().map(Vec::as_slice).collect();
    let mut space = vec![vec![0xee; 2 * unit]; code.m()];
    let mut parities: Vec<&mut [u8]> = space.iter_mut().map(Vec::as_mut_slice).collect();
    code.encode(&data, &mut parities);
    let mut hash = Sha256::new();
    space.iter().for_each(|parity| hash.update(parity));
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn parities_are_those_of_cephs_plugins() {
    let input = noise(1 << 22);
    let mut tried = 0;
    for line in include_str!("../testdata/vectors.txt").lines() {
        let [profile, unit, right] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
        assert_eq!(digest(&code(profile), unit.parse().unwrap(), &input), right, "{profile} of {unit} bytes");
        tried += 1;
    }
    assert!(tried >= 500, "{tried} vectors");
}

/// Vectors of whole chunks, each written down by hand from the tool's output.
#[test]
fn parities_of_chunks_as_pools_have_them() {
    let cases = [
        (
            "plugin=jerasure technique=reed_sol_van k=2 m=1",
            16384,
            "3b0d2d1719237fc6d89fa056a108c3b55faf4dbce455bae28625040483dac7e6",
        ),
        ("plugin=isa technique=cauchy k=2 m=1", 16384, "3b0d2d1719237fc6d89fa056a108c3b55faf4dbce455bae28625040483dac7e6"),
        (
            "plugin=jerasure technique=reed_sol_van k=2 m=2",
            16384,
            "160f90c7d838c94d94ef41628fa722ebde9c5cb4579a14052e1aa741323fdbdb",
        ),
        (
            "plugin=jerasure technique=reed_sol_van k=4 m=2",
            16384,
            "a44732155545d4ac423e5104a3a8f672d200a1f85485e4892e650bb0d018d08e",
        ),
        (
            "plugin=jerasure technique=reed_sol_van k=6 m=3",
            16384,
            "11376f86aac06605ae720f83680140d11edc831c9bb62f11f134359c466e8e52",
        ),
        (
            "plugin=jerasure technique=reed_sol_van k=8 m=3",
            16384,
            "7567a0620be35df953aa86eae08d67c983527dd437c13f29167eb9d928c3e42f",
        ),
        (
            "plugin=jerasure technique=reed_sol_r6_op k=4 m=2",
            16384,
            "3d731753c9376e1238602bcdb1b2b987963122585d8f5eb4f3ec4304cd7d062e",
        ),
        ("plugin=isa technique=reed_sol_van k=4 m=2", 16384, "3d731753c9376e1238602bcdb1b2b987963122585d8f5eb4f3ec4304cd7d062e"),
        ("plugin=isa technique=reed_sol_van k=8 m=3", 16384, "2040f83c4b681fe88f5aaaa413367c81725a985e535dab2fc685c33f4873cb48"),
        ("plugin=isa technique=cauchy k=4 m=2", 16384, "f8f1350f5508417f13e145c6dbbe62ba76dcd33712105220eba6c7c83d520680"),
        ("plugin=isa technique=cauchy k=8 m=3", 16384, "74b51fa0349d15b92b8448524a23bce6e5c950652edf39093a2a2a38b16501e6"),
        (
            "plugin=jerasure technique=cauchy_good k=4 m=2 packetsize=512",
            16384,
            "0b0f26ce2eb00b3258ea67fee097d173d132520df5b0c8ac1c5afd847748e3f2",
        ),
        (
            "plugin=jerasure technique=cauchy_good k=8 m=3 packetsize=512",
            16384,
            "95535b99c69aa6270a3f531eab859afe0deae2fe297af8b278f26c081b6835ba",
        ),
        (
            "plugin=jerasure technique=cauchy_good k=2 m=1 packetsize=2048",
            65536,
            "19a54cac316e4dfa77ec300bbe2fc62e14d486d1a8cd3e67a347678974aca6c6",
        ),
        (
            "plugin=jerasure technique=cauchy_good k=4 m=2 packetsize=2048",
            65536,
            "56e7b25c53bb80f245040e17397718f67448b1e8fe9f8691aa8f5d49e45ad1aa",
        ),
        (
            "plugin=jerasure technique=cauchy_good k=6 m=3 packetsize=2048",
            65536,
            "bd330c2a27dc760b59f504e15b46e2c6e5130d2d8ce75bc114dd3542f586bbd6",
        ),
        (
            "plugin=jerasure technique=cauchy_good k=8 m=3 packetsize=2048",
            65536,
            "536433d7d5cf416ae2875d609c9539866519c6efcccd84cb7e55a50a32733188",
        ),
    ];
    let input = noise(2 * 8 * 65536);
    for (profile, unit, right) in cases {
        assert_eq!(digest(&code(profile), unit, &input), right, "{profile}");
    }
}

#[test]
fn equal_matrices_are_one_code() {
    assert_eq!(code("plugin=jerasure technique=reed_sol_r6_op k=5 m=2"), code("plugin=isa technique=reed_sol_van k=5 m=2"));
    assert_eq!(code("plugin=jerasure technique=cauchy_good k=5 m=1 packetsize=512"), code("plugin=isa technique=cauchy k=5 m=1"));
    assert_ne!(code("plugin=jerasure technique=reed_sol_van k=5 m=2"), code("plugin=isa technique=reed_sol_van k=5 m=2"));
    assert_ne!(
        code("plugin=jerasure technique=cauchy_good k=5 m=2 packetsize=512"),
        code("plugin=jerasure technique=cauchy_good k=5 m=2 packetsize=8")
    );
}
