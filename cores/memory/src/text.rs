//! What the kernel's files say about memory. What is not as expected is read as "not told".

use std::path::{Path, PathBuf};

/// Limits from here on are none: version 1 of control groups says "no limit" as the largest multiple of a page.
const NO_LIMIT: u64 = 1 << 60;

/// Bytes of the row `name` (with its colon) of `/proc/meminfo` or `/proc/PID/status`.
fn kib_row(text: &str, name: &str) -> Option<u64> {
    let row = text.lines().find_map(|line| line.strip_prefix(name))?;
    row.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Bytes that the host has in all, and that are available: from `/proc/meminfo`.
pub fn host(meminfo: &str) -> Option<(u64, u64)> {
    Some((kib_row(meminfo, "MemTotal:")?, kib_row(meminfo, "MemAvailable:")?))
}

/// Bytes that a process has for itself, without pages of files: from `/proc/PID/status`.
pub fn resident(status: &str) -> Option<u64> {
    kib_row(status, "RssAnon:")
}

/// Percentage of the last ten seconds in which some task waited: from `memory.pressure` or `/proc/pressure/memory`.
pub fn stalled(pressure: &str) -> Option<f64> {
    let some = pressure.lines().find_map(|line| line.strip_prefix("some "))?;
    let share: f64 = some.split(' ').find_map(|word| word.strip_prefix("avg10="))?.parse().ok()?;
    (0.0..=100.0).contains(&share).then_some(share)
}

/// A limit in bytes; none if there is none.
pub fn limit(text: &str) -> Option<u64> {
    text.trim().parse().ok().filter(|limit| *limit < NO_LIMIT)
}

/// Bytes of a control group that the kernel takes back by itself before it runs out: pages of files, unless they must
/// be written first. From `memory.stat` of either version.
pub fn reclaimable(stat: &str, version: Version) -> u64 {
    let row = |name: &str| {
        let value = stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.and_then(|value| value.parse::<u64>().ok()).unwrap_or(0)
    };
    let sum = |names: &[&str]| names.iter().map(|name| row(name)).fold(0, u64::saturating_add);
    let (goes, waits) = match version {
        Version::One => (sum(&["total_inactive_file", "total_active_file"]), sum(&["total_dirty", "total_writeback"])),
        Version::Two => (sum(&["inactive_file", "active_file", "slab_reclaimable"]), sum(&["file_dirty", "file_writeback"])),
    };
    goes.saturating_sub(waits)
}

/// Of control groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// A hierarchy for each resource.
    One,
    /// One for all.
    Two,
}

impl Version {
    /// Names of the files with limits, the lowest of which holds.
    pub fn limits(self) -> &'static [&'static str] {
        match self {
            Self::One => &["memory.limit_in_bytes"],
            Self::Two => &["memory.max", "memory.high"],
        }
    }

    /// Name of the file with what is in use.
    pub fn usage(self) -> &'static str {
        match self {
            Self::One => "memory.usage_in_bytes",
            Self::Two => "memory.current",
        }
    }
}

/// Place where control groups that count memory are to be seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Of which version.
    pub version: Version,
    /// The group that is seen at `point`.
    pub root: String,
    /// A folder.
    pub point: PathBuf,
}

/// All such places: from `/proc/self/mountinfo`.
pub fn mounts(mountinfo: &str) -> Vec<Mount> {
    mountinfo.lines().filter_map(mount).collect()
}

/// `35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory`
fn mount(line: &str) -> Option<Mount> {
    let (place, kind) = line.split_once(" - ")?;
    let (mut place, mut kind) = (place.split(' ').skip(3), kind.split(' '));
    let version = match kind.next()? {
        "cgroup2" => Version::Two,
        "cgroup" if kind.nth(1)?.split(',').any(|option| option == "memory") => Version::One,
        _ => return None,
    };
    Some(Mount { version, root: unescaped(place.next()?), point: unescaped(place.next()?).into() })
}

/// Blanks and the like are written as a backslash and three octal digits.
fn unescaped(text: &str) -> String {
    let mut parts = text.split('\\');
    let mut out = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        match part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                out.push(byte);
                out.extend(&part.as_bytes()[3..]);
            }
            None => out.extend([b"\\", part.as_bytes()].concat()),
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// The group of a process in the hierarchy of `version` that counts memory: from `/proc/PID/cgroup`.
pub fn group(cgroup: &str, version: Version) -> Option<&str> {
    cgroup.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (number, controllers) = (parts.next()?, parts.next()?);
        let ours = match version {
            Version::One => controllers.split(',').any(|name| name == "memory"),
            Version::Two => number == "0" && controllers.is_empty(),
        };
        parts.next().filter(|_| ours)
    })
}

/// The folders of `group` and of all groups around it that are to be seen, the innermost first. A process that sees
/// only a part of the hierarchy (a container) may be told a path that is not in it: then what is at the mount's own
/// place is as near as it comes.
pub fn levels(mount: &Mount, group: &str) -> Vec<PathBuf> {
    let inside = Path::new(group).strip_prefix(&mount.root).unwrap_or(Path::new(""));
    let inside =
        if inside.components().all(|part| matches!(part, std::path::Component::Normal(_))) { inside } else { Path::new("") };
    let leaf = mount.point.join(inside);
    leaf.ancestors().take_while(|path| path.starts_with(&mount.point)).map(|path| path.components().collect()).collect()
}

#[cfg(test)]
mod tests;
