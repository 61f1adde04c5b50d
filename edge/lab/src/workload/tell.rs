//! `ceph tell osd.N bench`: an OSD's store without network and clients.

use super::{Bench, Outcome};
use crate::cluster;
use anyhow::{Context, Result};
use serde_json::Value;

/// Bytes that a run writes for each second of its length; the OSD's own limits are above it.
const RATE: u64 = 8 << 20;
/// Most bytes: what OSDs allow of small writes.
const MOST_WRITES: u64 = 2500;

pub(super) fn run(bench: &mut Bench<'_>) -> Result<Outcome> {
    let size = bench.size();
    let total = ((bench.seconds() * RATE as f64) as u64).max(size * 16).min(size.saturating_mul(MOST_WRITES)).to_string();
    let words = ["tell", "osd.0", "bench", &total, &size.to_string()].map(str::to_owned);
    let said = cluster::tell(bench.lab, &bench.cluster.conf, &words.each_ref().map(String::as_str))?;
    let mut outcome = parse(&said).with_context(|| format!("the OSD said something unknown: {said}"))?;
    outcome.command = format!("ceph {}", words.join(" "));
    outcome.said = said;
    Ok(outcome)
}

/// `bytes_written`, `blocksize`, `elapsed_sec`.
pub fn parse(said: &str) -> Option<Outcome> {
    let value: Value = serde_json::from_str(said.get(said.find('{')?..)?.trim()).ok()?;
    let bytes = value["bytes_written"].as_f64()?;
    let ops = bytes / value["blocksize"].as_f64().filter(|b| *b > 0.0)?;
    Some(Outcome { ops, bytes, seconds: value["elapsed_sec"].as_f64()?, ..Outcome::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_output_is_read() {
        let ours = parse(include_str!("testdata/tell-nacre.txt")).unwrap();
        assert_eq!((ours.ops, ours.seconds), (2048.0, 1.040890558));
        let theirs = parse(include_str!("testdata/tell-ceph16.txt")).unwrap();
        assert_eq!(theirs.bytes, 8_388_608.0);
        assert_eq!(parse("Error EINVAL: too much"), None);
    }
}
