//! Which runs there are, in which order, and how long they will take.

use super::{Experiment, Point};
use crate::workload;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// One measurement to make.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Name of its files; the same for the same permutation and repeat.
    pub id: String,
    /// The cluster's permutation.
    pub cluster: Point,
    /// The workload's permutation.
    pub workload: Point,
    /// Number of the repeat, from 0.
    pub repeat: u32,
    /// A second measurement of the first cluster, for the noise.
    pub again: bool,
}

/// Runs that share a cluster that is started for them.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// The cluster's permutation.
    pub cluster: Point,
    /// Its runs, in order.
    pub runs: Vec<Run>,
}

/// All runs: one batch for each cluster that is started.
///
/// Interleaved: within each repeat all clusters in turn, every other repeat backwards. Grouped: all repeats of a
/// cluster, then the next.
pub fn batches(e: &Experiment) -> Vec<Batch> {
    let (repeats, clusters) = (e.repeats(), &e.clusters);
    let noise = e.settings.flag("noise", true) && repeats > 1 && e.settings.text("running") != "together";
    let mut all = Vec::new();
    let batch = |cluster: &Point, repeat: u32, again: bool| {
        let wanted = e.workloads.iter().filter(|w| e.wants(cluster, w));
        let run =
            |w: &Point| Run { id: id(cluster, w, repeat, again), cluster: cluster.clone(), workload: w.clone(), repeat, again };
        Batch { cluster: cluster.clone(), runs: wanted.map(run).collect() }
    };
    let turn = |repeat: u32| {
        let mut turn: Vec<Batch> = clusters.iter().map(|c| batch(c, repeat, false)).collect();
        turn.extend(clusters.iter().take(usize::from(noise)).map(|c| batch(c, repeat, true)));
        if repeat % 2 == 1 {
            turn.reverse();
        }
        turn
    };
    match e.settings.text("order").as_str() {
        "grouped" => {
            for (i, c) in clusters.iter().enumerate() {
                all.extend((0..repeats).map(|r| batch(c, r, false)));
                all.extend((0..repeats).filter(|_| noise && i == 0).map(|r| batch(c, r, true)));
            }
        }
        "random" => {
            all.extend((0..repeats).flat_map(turn));
            shuffle(&mut all, e.settings.int("seed", 1));
        }
        _ => all.extend((0..repeats).flat_map(turn)),
    }
    all.retain(|b: &Batch| !b.runs.is_empty());
    all
}

/// Runs that are made at the same moment if all clusters are under load together: one repeat of a workload on each of
/// them, all workloads of a repeat before those of the next.
pub fn rounds(batches: &[Batch]) -> Vec<Vec<Run>> {
    let mut all: Vec<Vec<Run>> = Vec::new();
    for run in batches.iter().flat_map(|b| &b.runs) {
        match all.iter_mut().find(|r| r[0].repeat == run.repeat && r[0].workload == run.workload) {
            Some(round) => round.push(run.clone()),
            None => all.push(vec![run.clone()]),
        }
    }
    all.sort_by_key(|round| round[0].repeat);
    all
}

/// Returns how often a cluster is started.
pub fn starts(e: &Experiment, batches: &[Batch]) -> usize {
    let frozen = e.settings.text("running") == "frozen";
    let begins = |i: usize| !frozen || batches[..i].iter().all(|b| b.cluster != batches[i].cluster);
    (0..batches.len()).filter(|i| begins(*i)).count()
}

/// Seconds that the runs will take, starts of clusters included.
pub fn seconds(e: &Experiment, batches: &[Batch]) -> f64 {
    let running = e.settings.text("running");
    let at_once = if running == "together" { e.clusters.len().max(1) as f64 } else { 1.0 };
    let frozen = running == "frozen";
    let mut started: Vec<&Point> = Vec::new();
    let mut total = 0.0;
    for batch in batches {
        if !frozen || !started.contains(&&batch.cluster) {
            started.push(&batch.cluster);
            total += start_seconds(&batch.cluster);
        }
        let cooldown = e.settings.real("cooldown", 0.3);
        total += batch.runs.iter().map(|run| workload::seconds(e, &run.workload) + cooldown).sum::<f64>() / at_once;
        total += workload::prefill_seconds(e, &batch.runs);
    }
    total
}

/// Seconds to start and stop it, from experience on two processors.
fn start_seconds(cluster: &Point) -> f64 {
    let osds = cluster.int("osds", 1) as f64;
    let disks = if cluster.given("disk").is_some() { 1.0 } else { 0.0 };
    match cluster.text("kind").as_str() {
        "nacre" => 1.5 + disks * osds,
        "ceph" => 7.0 + osds * (2.0 + disks),
        _ => disks,
    }
}

fn id(cluster: &Point, workload: &Point, repeat: u32, again: bool) -> String {
    let text = serde_json::to_string(&(cluster, workload)).unwrap_or_default();
    let digest = Sha256::digest(text.as_bytes());
    let hex: String = digest.iter().take(4).map(|b| format!("{b:02x}")).collect();
    let plain = |t: String| t.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect::<String>();
    let (c, w) = (plain(cluster.text("name")), plain(workload::title(workload)));
    format!("{c}.{w}.{hex}.{repeat}{}", if again { "a" } else { "" })
}

/// The same order for the same seed (an xorshift of 64 bits).
fn shuffle<T>(items: &mut [T], seed: u64) {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    for i in (1..items.len()).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        items.swap(i, (state % (i as u64 + 1)) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::reader;

    fn experiment(more: &str) -> Experiment {
        let text = format!(
            "[experiment]\nname = 'x'\nrepeats = 2\n{more}\n[[cluster]]\nname = ['a', 'b']\nkind = 'nacre'\n[[workload]]\nkind = 'rados'\nmode = ['write', 'seq']\n"
        );
        reader::parse(&text, "x", false).unwrap()
    }

    fn order(e: &Experiment) -> String {
        batches(e).iter().map(|b| b.cluster.text("name") + if b.runs[0].again { "'" } else { "" }).collect()
    }

    #[test]
    fn clusters_take_turns() {
        assert_eq!(order(&experiment("")), "aba'a'ba");
        assert_eq!(order(&experiment("noise = false")), "abba");
        let frozen = experiment("noise = false\nrunning = 'frozen'");
        assert_eq!((starts(&experiment(""), &batches(&experiment(""))), starts(&frozen, &batches(&frozen))), (6, 2));
        assert_eq!(order(&experiment("order = 'grouped'")), "aaa'a'bb");
        let grouped = rounds(&batches(&experiment("order = 'grouped'\nrunning = 'together'")));
        assert_eq!(grouped.iter().map(|r| r[0].repeat).collect::<Vec<_>>(), [0, 0, 1, 1]);
        let together = rounds(&batches(&experiment("running = 'together'")));
        assert_eq!(together.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2, 2, 2]);
        assert!(together.iter().all(|r| r[0].workload == r[1].workload && r[0].cluster != r[1].cluster));
        let random = experiment("order = 'random'\nseed = 3");
        assert_eq!(order(&random), order(&random));
        assert_eq!(order(&random).len(), order(&experiment("")).len());
    }

    #[test]
    fn every_run_has_a_name_of_its_own() {
        let all = batches(&experiment(""));
        let mut ids: Vec<String> = all.iter().flat_map(|b| b.runs.iter().map(|r| r.id.clone())).collect();
        ids.sort();
        let count = ids.len();
        ids.dedup();
        assert_eq!((count, ids.len()), (12, 12));
        assert!(seconds(&experiment(""), &all) > 12.0);
    }
}
