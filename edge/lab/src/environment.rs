//! Where an experiment ran: kept with every result.

use serde::{Deserialize, Serialize};
use std::path::Path;
use std::process::{Command, Stdio};

/// Names and values, in the order in which a report shows them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Environment(pub Vec<(String, String)>);

/// This machine, now.
pub fn record(nacre: &Path, scratch: &Path) -> Environment {
    let read = |path: &str| std::fs::read_to_string(path).map(|t| t.trim().to_owned()).unwrap_or_default();
    let mut all = Vec::new();
    let mut put = |name: &str, value: String| {
        if !value.is_empty() {
            all.push((name.to_owned(), value));
        }
    };
    put("kernel", read("/proc/sys/kernel/osrelease"));
    put("system", field(&read("/etc/os-release"), "PRETTY_NAME=").trim_matches('"').to_owned());
    let cpus = read("/proc/cpuinfo");
    let model = field(&cpus, "model name").trim_start_matches([':', ' ', '\t']).to_owned();
    put("processors", format!("{} × {model}", cpus.lines().filter(|l| l.starts_with("processor")).count()));
    put("governor", read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"));
    put("memory", gibibytes(field(&read("/proc/meminfo"), "MemTotal:").trim()));
    put("congestion control", read("/proc/sys/net/ipv4/tcp_congestion_control"));
    put("huge pages", chosen(&read("/sys/kernel/mm/transparent_hugepage/enabled")));
    if let Some(disk) = crate::disks::device_below(scratch) {
        put("scratch folder", format!("{} on {disk}", scratch.display()));
        let queue = |name: &str| read(&format!("/sys/class/block/{disk}/queue/{name}"));
        put("scheduler", chosen(&queue("scheduler")));
        put("read-ahead", with_unit(queue("read_ahead_kb"), "KiB"));
        put("rq_affinity", queue("rq_affinity"));
        put("disk cache", queue("write_cache"));
        put("rotational", queue("rotational"));
    }
    put("nacre", version(&nacre.display().to_string(), &["--version"]));
    put("nacre build", digest(nacre));
    put("clients", version("ceph", &["--version"]));
    put("fio", version("fio", &["--version"]));
    put("commit", version("git", &["rev-parse", "--short=12", "HEAD"]));
    put("load before", read("/proc/loadavg").split(' ').take(3).collect::<Vec<_>>().join(" "));
    Environment(all)
}

fn field(text: &str, name: &str) -> String {
    text.lines().find_map(|l| l.strip_prefix(name)).unwrap_or_default().to_owned()
}

/// `24684096 kB` as `23.5 GiB`.
fn gibibytes(text: &str) -> String {
    let kib = text.trim_end_matches(" kB").parse::<f64>();
    kib.map_or_else(|_| text.to_owned(), |kib| format!("{:.1} GiB", kib / f64::from(1 << 20)))
}

fn chosen(text: &str) -> String {
    text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map_or(text, |(word, _)| word).to_owned()
}

fn with_unit(text: String, unit: &str) -> String {
    if text.is_empty() { text } else { format!("{text} {unit}") }
}

fn version(program: &str, args: &[&str]) -> String {
    let done = Command::new(program).args(args).stdin(Stdio::null()).stderr(Stdio::null()).output();
    let text = done.map(|d| String::from_utf8_lossy(&d.stdout).trim().to_owned()).unwrap_or_default();
    text.lines().next().unwrap_or_default().to_owned()
}

/// First figures of the SHA-256 of a program: two builds with one version differ in it.
fn digest(program: &Path) -> String {
    use sha2::{Digest, Sha256};
    let Ok(bytes) = std::fs::read(program) else { return String::new() };
    Sha256::digest(&bytes).iter().take(6).map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_is_described() {
        let Environment(all) = record(Path::new("/proc/self/exe"), Path::new("/"));
        let names: Vec<&str> = all.iter().map(|(n, _)| n.as_str()).collect();
        assert!(names.contains(&"kernel") && names.contains(&"processors") && names.contains(&"memory"), "{names:?}");
        assert_eq!((gibibytes("24684096 kB").as_str(), gibibytes("?").as_str()), ("23.5 GiB", "?"));
        assert_eq!(chosen("none [mq-deadline] bfq"), "mq-deadline");
    }
}
