//! Finds how much memory the OSDs of this process may take, and tells them when that changes: reads what the kernel
//! says of the host, of the process's control groups and of other servers, once a second. What follows from it is
//! decided in `memory::Governor`.

use crate::log::Log;
use memory::text::{self, Mount, Version};
use memory::{Domain, Governor, Others, Reading};
use node::{Level, MemoryBound, MemoryShare, MemoryWish, Mono};
use runtime::{CallError, Caller};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Interval at which memory is looked at.
const PERIOD: Duration = Duration::from_secs(1);
/// Interval at which other servers are looked for at most; it must not take more than a thousandth of the time either.
const SEARCH: Duration = Duration::from_secs(10);
const SEARCH_COST: u32 = 1000;
/// How long after a share was lowered what becomes free goes back to the kernel at once.
const AFTERMATH: Duration = Duration::from_secs(20);

/// Another server on this host that may be seen and belongs to the same user.
struct Server {
    osds: usize,
    resident: u64,
    /// Its control group.
    group: String,
}

/// Files that are read.
struct Probe {
    began: Instant,
    /// Place where control groups that count memory are.
    mount: Option<Mount>,
    servers: Vec<Server>,
    search_at: Instant,
}

fn read(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

impl Probe {
    fn new() -> Self {
        let cgroup = read("/proc/self/cgroup");
        let mounts = text::mounts(&read("/proc/self/mountinfo"));
        // Where both versions are mounted, one of them counts memory: the first, if it is there.
        let has = |version| mounts.iter().find(|mount| mount.version == version && text::group(&cgroup, version).is_some());
        let mount = has(Version::One).or(has(Version::Two)).cloned();
        Self { began: Instant::now(), mount, servers: Vec::new(), search_at: Instant::now() }
    }

    /// Returns how things stand; `None` if the kernel does not tell what the host has.
    fn look(&mut self) -> Option<Reading> {
        if Instant::now() >= self.search_at {
            self.search();
        }
        let (size, available) = text::host(&read("/proc/meminfo"))?;
        let stalled = text::stalled(&read("/proc/pressure/memory")).unwrap_or(0.0);
        let others = self.others(None);
        let mut domains = vec![Domain { bound: MemoryBound::Host, size, available, stalled, others }];
        domains.extend(self.groups());
        let at = Mono(u64::try_from(self.began.elapsed().as_nanos()).ok()?);
        Some(Reading { at, resident: text::resident(&read("/proc/self/status"))?, domains })
    }

    /// Groups around this process that have a limit. It may be moved to others, so they are looked up each time.
    fn groups(&self) -> Vec<Domain> {
        let Some(mount) = &self.mount else { return Vec::new() };
        let cgroup = read("/proc/self/cgroup");
        let Some(group) = text::group(&cgroup, mount.version) else { return Vec::new() };
        text::levels(mount, group).iter().filter_map(|folder| self.group(mount, folder)).collect()
    }

    fn group(&self, mount: &Mount, folder: &Path) -> Option<Domain> {
        let limits = mount.version.limits().iter().filter_map(|name| text::limit(&read(folder.join(name))));
        let size = limits.min()?;
        let usage = text::limit(&read(folder.join(mount.version.usage())))?;
        let goes = text::reclaimable(&read(folder.join("memory.stat")), mount.version);
        let available = size.saturating_sub(usage.saturating_sub(goes));
        let stalled = text::stalled(&read(folder.join("memory.pressure"))).unwrap_or(0.0);
        Some(Domain { bound: MemoryBound::Group, size, available, stalled, others: self.others(Some((mount, folder))) })
    }

    /// Other servers, of a group or of the host.
    fn others(&self, of: Option<(&Mount, &Path)>) -> Others {
        let inside = |server: &&Server| {
            of.is_none_or(|(mount, folder)| text::levels(mount, &server.group).iter().any(|level| level == folder))
        };
        let sum = |all: Others, one: &Server| Others { osds: all.osds + one.osds, resident: all.resident + one.resident };
        self.servers.iter().filter(inside).fold(Others::default(), sum)
    }

    /// Looks for other servers: processes of this name and user whose threads are called as those of OSDs.
    fn search(&mut self) {
        let begun = Instant::now();
        let (name, me) = (read("/proc/self/comm"), std::process::id().to_string());
        let user = fs::metadata("/proc/self").map(|meta| meta.uid()).ok();
        let all = fs::read_dir("/proc").into_iter().flatten().flatten();
        let candidates = all.filter(|entry| {
            let process = entry.file_name();
            let process = process.to_string_lossy();
            process.starts_with(|c: char| c.is_ascii_digit()) && *process != me && read(entry.path().join("comm")) == name
        });
        let ours = candidates.filter(|entry| entry.metadata().map(|meta| meta.uid()).ok() == user);
        self.servers = ours.filter_map(|entry| self.server(&entry.path())).collect();
        self.search_at = begun + SEARCH.max(begun.elapsed() * SEARCH_COST);
    }

    fn server(&self, process: &Path) -> Option<Server> {
        let threads = fs::read_dir(process.join("task")).ok()?.flatten();
        let names: BTreeSet<String> = threads.map(|thread| read(thread.path().join("comm"))).collect();
        let osds = names.iter().map(|name| osds_of(name)).sum();
        let cgroup = read(process.join("cgroup"));
        let group = self.mount.as_ref().and_then(|mount| text::group(&cgroup, mount.version)).unwrap_or_default();
        let resident = text::resident(&read(process.join("status")))?;
        (osds > 0).then(|| Server { osds, resident, group: group.to_owned() })
    }
}

/// Returns how many OSDs run in a thread of this name: one in `osd.0`, three in `osd.0+2`. (Threads that it begins
/// have its name, too; `osd.0.asok` only answers.)
fn osds_of(name: &str) -> usize {
    let Some(name) = name.trim_end().strip_prefix("osd.") else { return 0 };
    let (first, more) = name.split_once('+').unwrap_or((name, "0"));
    match (first.parse::<u32>(), more.parse::<usize>()) {
        (Ok(_), Ok(more)) => more.saturating_add(1),
        _ => 0,
    }
}

/// An OSD that is told.
struct Member {
    caller: Caller,
    told: Option<MemoryShare>,
}

/// Shares out the memory of a process.
pub(crate) struct Watch {
    probe: Probe,
    governor: Governor,
    /// Memory that each OSD would take as long as it says nothing else.
    wish: MemoryWish,
    members: Vec<Member>,
    /// Until when what becomes free goes back to the kernel.
    collect_until: Instant,
    short: bool,
    log: Log,
}

impl Watch {
    /// For OSDs with this ceiling.
    pub(crate) fn new(ceiling: Option<u64>, log: Log) -> Self {
        let wish = MemoryWish { most: ceiling.unwrap_or(MemoryWish::MOST), fixed: false };
        let (probe, governor, now) = (Probe::new(), Governor::new(), Instant::now());
        Self { probe, governor, wish, members: Vec::new(), collect_until: now, short: false, log }
    }

    /// Returns what each of so many OSDs begins with, in bytes.
    pub(crate) fn begin(&mut self, osds: usize) -> u64 {
        let wishes = vec![self.wish; osds];
        let shares = self.probe.look().map(|reading| self.governor.decide(&reading, &wishes)).unwrap_or_default();
        shares.first().map_or(self.wish.most, |share| share.bytes)
    }

    /// Shares out, on a thread of its own: to these OSDs, and to those that come later.
    pub(crate) fn run(mut self, osds: impl Iterator<Item = Caller>, later: Receiver<Caller>) -> std::io::Result<()> {
        self.members = osds.map(|caller| Member { caller, told: None }).collect();
        let body = move || loop {
            self.round();
            match later.recv_timeout(PERIOD) {
                Ok(caller) => self.members.push(Member { caller, told: None }),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        };
        std::thread::Builder::new().name("memory".into()).spawn(body).map(drop)
    }

    fn round(&mut self) {
        if self.members.is_empty() {
            return;
        }
        let wishes: Vec<_> = self.members.iter().map(|member| member.caller.memory_wish().unwrap_or(self.wish)).collect();
        if let Some(reading) = self.probe.look() {
            let shares = self.governor.decide(&reading, &wishes);
            self.note_shortage(&reading);
            self.tell(&shares);
        }
        if Instant::now() < self.collect_until {
            // Here, so that no OSD has to wait for it.
            runtime::give_memory_back();
        }
    }

    /// Tells those whose share has changed, and forgets those that have ended.
    fn tell(&mut self, shares: &[MemoryShare]) {
        let mut less = false;
        let mut shares = shares.iter();
        self.members.retain_mut(|member| {
            let Some(share) = shares.next().filter(|share| member.told != Some(**share)) else { return true };
            less |= member.told.is_some_and(|told| share.bytes < told.bytes);
            member.told = Some(*share);
            member.caller.give_memory(*share) != Err(CallError::Stopped)
        });
        if less {
            self.collect_until = Instant::now() + AFTERMATH;
        }
    }

    fn note_shortage(&mut self, reading: &Reading) {
        let short = self.governor.short();
        if std::mem::replace(&mut self.short, short) == short {
            return;
        }
        let narrowest = reading.domains.iter().min_by_key(|domain| domain.available);
        let left = narrowest.map_or(0, |domain| domain.available >> 20);
        match short {
            true => self.log.say(
                Level::Warn,
                format!(
                    "memory is short: {left} MiB are left, and OSDs need {} MiB each; they go on with that, slowly",
                    MemoryWish::LEAST >> 20
                ),
            ),
            false => self.log.say(Level::Info, format!("memory is not short any more: {left} MiB are left")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_osds_are_known_by_their_names() {
        let names = ["osd.0\n", "osd.12", "osd.3+2\n", "osd.0.asok\n", "osd.", "osd.1+x", "mon.a"];
        assert_eq!(names.map(osds_of), [1, 1, 3, 0, 0, 0, 0]);
    }

    #[test]
    fn this_machine_tells_what_it_has() {
        let mut probe = Probe::new();
        let reading = probe.look().expect("the kernel tells");
        let host = &reading.domains[0];
        assert!(host.size > 0 && host.available <= host.size && reading.resident > 0 && reading.resident < host.size);
        assert!(reading.domains[1..].iter().all(|group| group.bound == MemoryBound::Group && group.available <= group.size));
    }

    /// A hierarchy of version 2 as files: the limit of the parent is narrower than that of the group.
    #[test]
    fn groups_are_read_at_every_level() {
        let dir = tempfile::tempdir().expect("a folder");
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().expect("has one")).expect("is made");
            fs::write(path, text).expect("is written");
        };
        write("a/b/memory.max", "max\n");
        write("a/b/memory.high", "1073741824\n");
        write("a/b/memory.current", "1000\n");
        write("a/memory.max", "536870912\n");
        write("a/memory.current", "536870912\n");
        write("a/memory.stat", "anon 1\ninactive_file 4096\n");
        write("a/memory.pressure", "some avg10=11.00 avg60=0 avg300=0 total=0\n");
        let mount = Mount { version: Version::Two, root: "/".into(), point: dir.path().into() };
        let group = |group: &str| Server { osds: 2, resident: 10, group: group.into() };
        let servers = vec![group("/a/b/c"), group("/a/x"), group("/y")];
        let probe = Probe { began: Instant::now(), mount: None, servers, search_at: Instant::now() };
        let found: Vec<_> = text::levels(&mount, "/a/b").iter().filter_map(|folder| probe.group(&mount, folder)).collect();
        let (inner, outer) = (&found[0], &found[1]);
        assert_eq!((found.len(), inner.size, inner.available, inner.others.osds), (2, 1 << 30, (1 << 30) - 1000, 2));
        assert_eq!((outer.size, outer.available, outer.stalled, outer.others.osds), (512 << 20, 4096, 11.0, 4));
        assert_eq!(probe.others(None), Others { osds: 6, resident: 30 });
    }
}
