//! The kernel's accounts at one moment.

use super::Watch;
use std::collections::BTreeMap;
use std::time::Instant;

/// Length of the kernel's clock tick for user space (`USER_HZ`, the same on all architectures that we know), in
/// seconds.
const TICK: f64 = 0.01;
/// Bytes of a sector in /proc/diskstats.
const SECTOR: u64 = 512;

/// All that is sampled.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Time.
    pub at: Instant,
    /// Seconds that each processor was busy.
    pub cores: Vec<f64>,
    /// Seconds that processors had nothing to do but to wait for disks.
    pub waiting: f64,
    /// Processor seconds of the servers.
    pub server: f64,
    /// Resident bytes of the servers.
    pub memory: u64,
    /// Bytes that all network interfaces have received and sent; loopback counts once.
    pub network: u64,
    /// Watched disks.
    pub disks: BTreeMap<String, Disk>,
}

/// A disk's counters since the start of the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Disk {
    /// Reads that ended.
    pub reads: u64,
    /// Writes that ended.
    pub writes: u64,
    /// Bytes read.
    pub read: u64,
    /// Bytes written.
    pub written: u64,
    /// Milliseconds that requests took, all added up.
    pub waited_ms: u64,
    /// Milliseconds in which there was a request.
    pub busy_ms: u64,
    /// Milliseconds times requests under way.
    pub queue_ms: u64,
}

impl Disk {
    /// Returns what was counted after `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            reads: self.reads.saturating_sub(earlier.reads),
            writes: self.writes.saturating_sub(earlier.writes),
            read: self.read.saturating_sub(earlier.read),
            written: self.written.saturating_sub(earlier.written),
            waited_ms: self.waited_ms.saturating_sub(earlier.waited_ms),
            busy_ms: self.busy_ms.saturating_sub(earlier.busy_ms),
            queue_ms: self.queue_ms.saturating_sub(earlier.queue_ms),
        }
    }
}

impl Sample {
    /// Now.
    pub fn take(watch: &Watch) -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let (cores, waiting) = processors(&read("/proc/stat"));
        let wanted = |name: &str| watch.data.iter().chain(&watch.journal).any(|n| n == name);
        Self {
            at: Instant::now(),
            cores,
            waiting,
            server: watch.servers.iter().map(|pid| process(*pid)).sum(),
            memory: watch.servers.iter().map(|pid| resident(&read(&format!("/proc/{pid}/status")))).sum(),
            network: network(&read("/proc/net/dev")),
            disks: disks(&read("/proc/diskstats")).into_iter().filter(|(name, _)| wanted(name)).collect(),
        }
    }

    /// Seconds that the processors were busy, all together.
    pub fn busy(&self) -> f64 {
        self.cores.iter().sum()
    }
}

/// Busy seconds of each processor, and those of waiting for disks.
fn processors(stat: &str) -> (Vec<f64>, f64) {
    let mut cores = Vec::new();
    let mut waiting = 0.0;
    for line in stat.lines().filter(|l| l.starts_with("cpu") && !l.starts_with("cpu ")) {
        let row: Vec<f64> = line.split_whitespace().skip(1).map(|w| w.parse().unwrap_or(0.0)).collect();
        let at = |i: usize| row.get(i).copied().unwrap_or(0.0) * TICK;
        // user, nice, system, irq, softirq: all but idle, waiting for disks, and stolen.
        cores.push([0, 1, 2, 5, 6].into_iter().map(at).sum());
        waiting += at(4);
    }
    (cores, waiting)
}

/// Processor seconds of a process: to the nanosecond from its threads' schedules, or by ticks where threads have come
/// and gone.
pub fn process(pid: u32) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let ticks = by_ticks(&text).unwrap_or(0.0);
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return ticks };
    let run = |path: std::path::PathBuf| -> Option<f64> {
        let text = std::fs::read_to_string(path.join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<f64>().ok().map(|ns| ns / 1e9)
    };
    let fine: f64 = threads.flatten().filter_map(|t| run(t.path())).sum();
    // The schedules of threads that have ended are not told; the ticks have them, to a hundredth of a second.
    if (fine - ticks).abs() < 0.05 { fine } else { ticks }
}

fn by_ticks(stat: &str) -> Option<f64> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<f64>().ok();
    Some((number(11)? + number(12)?) * TICK)
}

fn resident(status: &str) -> u64 {
    let row = status.lines().find_map(|l| l.strip_prefix("VmRSS:"));
    row.and_then(|r| r.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0) * 1024
}

fn network(dev: &str) -> u64 {
    let row = |line: &str| -> Option<u64> {
        let (name, rest) = line.split_once(':')?;
        let row: Vec<u64> = rest.split_whitespace().filter_map(|w| w.parse().ok()).collect();
        let (received, sent) = (*row.first()?, *row.get(8)?);
        Some(if name.trim() == "lo" { received } else { received + sent })
    };
    dev.lines().filter_map(row).sum()
}

fn disks(text: &str) -> BTreeMap<String, Disk> {
    let row = |line: &str| -> Option<(String, Disk)> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let n = |i: usize| words.get(i)?.parse::<u64>().ok();
        let disk = Disk {
            reads: n(3)?,
            read: n(5)? * SECTOR,
            writes: n(7)?,
            written: n(9)? * SECTOR,
            waited_ms: n(6)? + n(10)?,
            busy_ms: n(12)?,
            queue_ms: n(13)?,
        };
        Some(((*words.get(2)?).to_owned(), disk))
    };
    text.lines().filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_accounts_are_read() {
        let (cores, waiting) = processors("cpu  9 9 9 9\ncpu0 100 0 50 1000 30 10 5 7 0 0\ncpu1 0 0 1 0 0 0 0 0 0 0\nintr 5\n");
        assert!(cores.iter().zip([1.65, 0.01]).all(|(core, known)| (core - known).abs() < 1e-9), "{cores:?}");
        assert!(cores.len() == 2 && (waiting - 0.3).abs() < 1e-9, "{waiting}");
        let text = "4 (a) (b) S 1 4 4 0 -1 4194560 100 0 0 0 250 50 7 8 20 0 1 0 100 0 0";
        assert_eq!((by_ticks(text), by_ticks("nonsense")), (Some(3.0), None));
        assert_eq!(resident("Name:\tx\nVmRSS:\t    2048 kB\n"), 2 << 20);
        assert_eq!(network("Inter-|\n face |\n    lo: 10 1 0 0 0 0 0 0 10 1\n  eth0: 5 1 0 0 0 0 0 0 7 1\n"), 22);
        let disk = disks(" 254 0 vda 100 1 2000 30 200 2 4000 60 0 50 90 0 0 0 0\n")["vda"];
        assert_eq!((disk.reads, disk.writes, disk.read, disk.written), (100, 200, 1_024_000, 2_048_000));
        assert_eq!((disk.waited_ms, disk.busy_ms, disk.queue_ms), (90, 50, 90));
    }

    #[test]
    fn this_process_uses_the_processor() {
        let watch = Watch { servers: vec![std::process::id()], ..Watch::default() };
        let before = Sample::take(&watch);
        let mut x = 1u64;
        while before.at.elapsed().as_millis() < 50 {
            x = std::hint::black_box(x.wrapping_mul(3));
        }
        let after = Sample::take(&watch);
        assert!(after.server > before.server && after.memory > 0 && !after.cores.is_empty(), "{x} {after:?}");
    }
}
