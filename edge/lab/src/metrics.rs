//! What figures are called, and whether more of them is better.

/// The better direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// More is better.
    More,
    /// Less is better.
    Less,
    /// Neither: it explains others.
    Neither,
}

/// One figure.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Name in results.
    pub name: &'static str,
    /// Name in reports.
    pub title: &'static str,
    /// Unit in reports.
    pub unit: &'static str,
    /// The better direction.
    pub better: Better,
    /// True if `compare` judges it; the others are told only.
    pub judged: bool,
}

use Better::{Less, More, Neither};

const fn metric(name: &'static str, title: &'static str, unit: &'static str, better: Better, judged: bool) -> Metric {
    Metric { name, title, unit, better, judged }
}

/// All of them, in the order of reports.
pub const METRICS: [Metric; 43] = [
    metric("ops_per_second", "operations", "op/s", More, true),
    metric("mb_per_second", "throughput", "MB/s", More, false),
    metric("latency_ms", "mean latency", "ms", Less, false),
    metric("p50_ms", "median latency", "ms", Less, false),
    metric("p95_ms", "95th percentile", "ms", Less, false),
    metric("p99_ms", "99th percentile", "ms", Less, true),
    metric("p999_ms", "99.9th percentile", "ms", Less, false),
    metric("longest_ms", "longest", "ms", Less, false),
    metric("server_p99_ms", "99th percentile in the OSD", "ms", Less, false),
    metric("server_us", "server processor time", "µs/op", Less, true),
    metric("machine_us", "all processor time but the client's", "µs/op", Less, true),
    metric("gateway_us", "the object gateway's processor time", "µs/op", Less, false),
    metric("client_us", "client processor time", "µs/op", Less, false),
    metric("machine_cpu", "processors busy", "%", Neither, false),
    metric("server_cpu", "servers' processors", "%", Neither, false),
    metric("client_cpu", "clients' processors", "%", Neither, false),
    metric("busiest_core", "busiest processor", "%", Neither, false),
    metric("wait_cpu", "processors waiting for disks", "%", Neither, false),
    metric("monitor_cpu", "this laboratory's monitor", "%", Neither, false),
    metric("server_memory_mib", "servers' memory", "MiB", Less, false),
    metric("data_wait_ms", "data disk: wait of a request", "ms", Less, false),
    metric("data_util", "data disk: busy", "%", Neither, false),
    metric("data_queue", "data disk: requests under way", "", Neither, false),
    metric("data_requests", "data disk: requests", "1/s", Neither, false),
    metric("data_write_mb", "data disk: written", "MB/s", Neither, false),
    metric("data_read_mb", "data disk: read", "MB/s", Neither, false),
    metric("data_written_per_byte", "data disk: bytes written per client's byte", "", Less, false),
    metric("journal_wait_ms", "journal disk: wait of a request", "ms", Less, false),
    metric("journal_util", "journal disk: busy", "%", Neither, false),
    metric("journal_queue", "journal disk: requests under way", "", Neither, false),
    metric("journal_requests", "journal disk: requests", "1/s", Neither, false),
    metric("journal_write_mb", "journal disk: written", "MB/s", Neither, false),
    metric("journal_written_per_byte", "journal disk: bytes written per client's byte", "", Less, false),
    metric("network_mb", "network", "MB/s", Neither, false),
    metric("slow_ops", "slow operations that OSDs remember", "", Less, false),
    metric("rate_before", "writes before", "op/s", More, false),
    metric("rate_away", "writes while it is away", "op/s", More, false),
    metric("rate_back", "writes after its return", "op/s", More, false),
    metric("gap_away_s", "longest time without a write, event", "s", Less, false),
    metric("gap_back_s", "longest time without a write, return", "s", Less, false),
    metric("recovered_after_s", "four fifths of the rate are back after", "s", Less, false),
    metric("p99_away_ms", "99th percentile while it is away", "ms", Less, false),
    metric("clean_after_s", "all groups clean after its return", "s", Less, false),
];

/// The figure of this name.
pub fn find(name: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|m| m.name == name)
}

/// Three figures, as many as such a measurement is worth, with commas in thousands.
pub fn figures(x: f64) -> String {
    let decimals = match x.abs() {
        a if a >= 100.0 || a == 0.0 => 0,
        a if a >= 10.0 => 1,
        a if a >= 1.0 => 2,
        _ => 3,
    };
    let text = format!("{x:.decimals$}");
    let (whole, rest) = text.split_once('.').map_or((text.as_str(), None), |(w, r)| (w, Some(r)));
    let (sign, digits) = whole.strip_prefix('-').map_or(("", whole), |d| ("-", d));
    let mut grouped = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(c);
    }
    match rest {
        Some(rest) => format!("{sign}{grouped}.{rest}"),
        None => format!("{sign}{grouped}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_figures_are_shown() {
        for (x, text) in [
            (12_345.6, "12,346"),
            (1_234_567.0, "1,234,567"),
            (50.567, "50.6"),
            (1.2345, "1.23"),
            (0.01234, "0.012"),
            (0.0, "0"),
            (-1500.0, "-1,500"),
        ] {
            assert_eq!(figures(x), text);
        }
    }
}
