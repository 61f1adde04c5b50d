//! Profiles against a monitor of 16.2.15. `tools/conformance/foreign/erasure_codes.py profiles` records them.
#![allow(missing_docs)]

use ec::{Pairs, Profile, Refusal, merge, print};
use types::Errno;

const DEFAULTS: &str = "plugin=jerasure technique=reed_sol_van k=2 m=2";

/// Sets a profile as a monitor does.
fn set(line: &str) -> Result<Pairs, Refusal> {
    let words: Vec<&str> = line.split(' ').filter(|w| !w.is_empty() && *w != "--force").collect();
    let pairs = merge(DEFAULTS, words)?;
    let profile = Profile::parse(pairs, line.contains("--force"))?;
    // What is stored is complete: it reads as itself.
    let again = Profile::parse(profile.pairs.clone(), line.contains("--force")).unwrap();
    assert_eq!(again, profile, "{line}");
    Ok(profile.pairs)
}

/// Returns what Ceph takes, or refuses in other words, and this program refuses with a reason of its own.
fn is_ours(refusal: &Refusal) -> bool {
    let reasons = [
        (Errno::EOPNOTSUPP, " is not supported: "),
        (Errno::EINVAL, "packetsize=0 must be >= 1"),
        (Errno::EINVAL, "packetsize=-8 must be >= 1"),
        (Errno::EINVAL, "must be from 1 to 16777216 bytes"),
    ];
    reasons.iter().any(|(errno, text)| refusal.errno == *errno && refusal.text.contains(text))
}

#[test]
fn profiles_are_taken_completed_and_refused_as_by_ceph() {
    let (mut equal, mut ours) = (0, 0);
    for line in include_str!("../testdata/profiles.txt").lines() {
        let [typed, errno, text, stored] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
        match set(typed) {
            Ok(pairs) => {
                let words: Vec<String> = pairs.iter().map(|(k, v)| format!("{k}={v}")).collect();
                assert_eq!((errno, words.join(" ").as_str()), ("", stored), "{typed}");
                equal += 1;
            }
            Err(refusal) if is_ours(&refusal) => {
                // Where Ceph refuses too, it is for what we do not have at all.
                let known = ["mapping", "lrc", "technique=liber", "w="];
                assert!(errno.is_empty() || known.iter().any(|word| typed.contains(word)), "{typed}: {}", refusal.text);
                ours += 1;
            }
            Err(refusal) => {
                let said = refusal.text.strip_suffix("; the plugins are jerasure and isa").unwrap_or(&refusal.text);
                assert_eq!((refusal.errno.name().unwrap_or(""), said), (errno, text), "{typed}");
                equal += 1;
            }
        }
    }
    assert!(equal > 350 && ours < 80, "{equal} as Ceph, {ours} with a reason of our own");
}

#[test]
fn what_is_not_here_names_what_serves() {
    for (typed, serves) in [
        ("plugin=lrc k=4 m=2 l=3", "use plugin=jerasure with the same k and m"),
        ("plugin=shec", "use plugin=jerasure with the same k and m"),
        ("plugin=clay k=4 m=2", "use plugin=jerasure with the same k and m"),
        ("plugin=jerasure_sse4 technique=reed_sol_van", "use plugin=jerasure"),
        ("technique=liberation", "use technique=reed_sol_r6_op"),
        ("w=16", "use w=8"),
        ("technique=cauchy_good w=4", "use w=8"),
        ("k=60 m=5", "at most 64 together"),
        ("mapping=DD__", "leave it out"),
        ("technique=cauchy_good packetsize=1000003", "use 2048"),
        ("technique=cauchy_good packetsize=2147483647", "use 2048"),
    ] {
        let refusal = set(typed).unwrap_err();
        assert_eq!(refusal.errno, Errno::EOPNOTSUPP, "{typed}");
        assert!(refusal.text.contains(serves), "{typed}: {}", refusal.text);
    }
}

#[test]
fn numbers_that_pools_get() {
    let of = |typed: &str| Profile::parse(merge(DEFAULTS, typed.split_ascii_whitespace()).unwrap(), true).unwrap();
    let widths = |typed: &str| (of(typed).stripe_width(4096), of(typed).min_size(), of(typed).chunk_step());
    // `ceph osd pool get P stripe_width` has no such key; `ceph osd dump` of 16.2.15 says these.
    assert_eq!(widths(""), (8192, 3, Some(4096)));
    assert_eq!(widths("k=4 m=1"), (16384, 4, Some(4096)));
    assert_eq!(widths("k=4 m=2 stripe_unit=64K"), (262_144, 5, Some(4096)));
    assert_eq!(widths("k=4 m=2 technique=cauchy_good"), (262_144, 5, Some(16384)));
    assert_eq!(widths("k=3 m=2 technique=cauchy_good packetsize=7"), (3 * 4256, 4, Some(28672)));
    assert_eq!(widths("plugin=isa k=5 m=2 stripe_unit=96"), (480, 6, Some(4096)));
}

#[test]
fn profiles_are_printed_as_in_sentences() {
    assert_eq!(print(&merge(DEFAULTS, ["foo"]).unwrap()), "{foo=,k=2,m=2,plugin=jerasure,technique=reed_sol_van}");
    assert_eq!(print(&Pairs::new()), "{}");
}

#[test]
fn a_profile_has_a_bound() {
    let long = format!("x={}", "y".repeat(9000));
    assert_eq!(merge(DEFAULTS, [long.as_str()]).unwrap_err().errno, Errno::EINVAL);
}
