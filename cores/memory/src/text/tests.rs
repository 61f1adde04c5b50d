use super::*;

const MIB: u64 = 1 << 20;

#[test]
fn sizes_are_read_and_other_text_is_refused() {
    let meminfo = "MemTotal:       24684096 kB\nMemFree:        22488968 kB\nMemAvailable:   24001216 kB\n";
    assert_eq!(host(meminfo), Some((24_684_096 * 1024, 24_001_216 * 1024)));
    assert_eq!((host("MemTotal: 5 kB\n"), host(""), host("MemTotal: x kB\nMemAvailable: 1 kB")), (None, None, None));
    assert_eq!(host(&format!("MemTotal: {} kB\nMemAvailable: 1 kB", u64::MAX)), None);
    assert_eq!(resident("VmRSS:\t  9000 kB\nRssAnon:\t    2048 kB\nRssFile:\t 6952 kB\n"), Some(2 * MIB));
    assert_eq!(
        (limit("max\n"), limit("536870912\n"), limit("9223372036854771712\n"), limit("")),
        (None, Some(512 * MIB), None, None)
    );
    assert_eq!(
        stalled("some avg10=12.50 avg60=3.00 avg300=0.00 total=55\nfull avg10=1.00 avg60=0 avg300=0 total=1\n"),
        Some(12.5)
    );
    assert_eq!((stalled("some avg10=NaN"), stalled("full avg10=1.00"), stalled("some avg10=-1")), (None, None, None));
}

#[test]
fn pages_of_files_can_be_taken_back_unless_they_must_be_written_first() {
    let one = "cache 1\ninactive_file 7\ntotal_inactive_file 1000\ntotal_active_file 500\ntotal_dirty 100\ntotal_writeback 50\n";
    let two = "anon 9\nfile_dirty 100\nfile_writeback 50\ninactive_file 1000\nactive_file 500\nslab_reclaimable 30\n";
    assert_eq!((reclaimable(one, Version::One), reclaimable(two, Version::Two)), (1350, 1380));
    assert_eq!((reclaimable("file_dirty 9\n", Version::Two), reclaimable("", Version::One)), (0, 0));
}

#[test]
fn hierarchies_are_found_whatever_else_is_mounted() {
    let mountinfo = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
35 31 0:32 /docker/ab /sys/fs/cgroup/memory rw,relatime master:9 - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup/with\\040blank rw,relatime - cgroup2 cgroup2 rw
broken line
";
    let found = mounts(mountinfo);
    let (one, two) = (&found[0], &found[1]);
    assert_eq!(found.len(), 2);
    assert_eq!((one.version, &*one.root, one.point.to_str()), (Version::One, "/docker/ab", Some("/sys/fs/cgroup/memory")));
    assert_eq!((two.version, two.point.to_str()), (Version::Two, Some("/sys/fs/cgroup/with blank")));
    let cgroup = "9:name=systemd:/x\n4:memory,hugetlb:/docker/ab/in:ner\n0::/user.slice/a\n";
    assert_eq!((group(cgroup, Version::One), group(cgroup, Version::Two)), (Some("/docker/ab/in:ner"), Some("/user.slice/a")));
    assert_eq!((group("1:cpu:/\n", Version::One), group("1:cpu:/\n", Version::Two)), (None, None));
}

#[test]
fn all_groups_around_a_process_count_as_far_as_they_are_seen() {
    let mount = |root: &str| Mount { version: Version::Two, root: root.into(), point: "/sys/fs/cgroup".into() };
    let seen = |root: &str, group: &str| {
        levels(&mount(root), group).iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(seen("/", "/a/b"), "/sys/fs/cgroup/a/b /sys/fs/cgroup/a /sys/fs/cgroup");
    assert_eq!((seen("/", "/"), seen("/docker/ab", "/docker/ab")), ("/sys/fs/cgroup".into(), "/sys/fs/cgroup".into()));
    assert_eq!(seen("/docker/ab", "/docker/ab/c"), "/sys/fs/cgroup/c /sys/fs/cgroup");
    assert_eq!((seen("/docker/ab", "/"), seen("/", "/../x")), ("/sys/fs/cgroup".into(), "/sys/fs/cgroup".into()));
}
