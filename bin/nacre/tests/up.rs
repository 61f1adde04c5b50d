//! The executable as a process: starts, goes on, refuses, stops.

mod common;

use common::{NACRE, Running, admin, folder, free_port, listing, nacre, refused};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

#[test]
fn a_cluster_starts_goes_on_and_grows() {
    let (dir, port) = (folder(), free_port());
    let dir = dir.path().join("deep").join("cluster");
    // Whoever starts it may allow core files.
    let allowed = Command::new("prlimit").args(["--core=4096:", "--pid", &std::process::id().to_string()]).status().unwrap();
    assert!(allowed.success());
    let mut start = Command::new("sh");
    start
        .args(["-c", "umask 000; exec \"$@\"", "sh", NACRE, "up", "--osds", "1", "--port", &port.to_string(), "--dir"])
        .arg(&dir);
    let running = Running::spawn(&mut start);
    // Whoever may write to a socket may do everything.
    let files = Command::new("find").arg(&dir).args(["-perm", "/022"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&files.stdout), "", "others may write these");
    assert!(running.ready.contains("1 monitor, 1 OSD") && running.ready.contains(&format!("127.0.0.1:{port}")));
    let conf = std::fs::read_to_string(dir.join("ceph.conf")).unwrap();
    assert!(
        conf.contains(&format!("mon host = [v2:127.0.0.1:{port}]")) && conf.contains("auth client required = cephx"),
        "{conf}"
    );
    // Its memory has keys in it.
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", running.child.id())).unwrap();
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    assert_eq!(core.split_whitespace().nth(4), Some("0"), "{core}");
    let status = admin(&dir, "osd.0", "status");
    assert_eq!(status["state"], "active");
    assert!(conf.contains(&format!("fsid = {}", status["cluster_fsid"].as_str().unwrap())));
    assert_eq!(running.stop("-TERM"), 0);
    assert!(!dir.join("osd.0.asok").exists());

    // Other port, no authentication, another OSD.
    let port = free_port();
    let running = Running::start(&dir, &format!("--osds 2 --port {port} --auth none --memory 128MiB --driver epoll"));
    let again = admin(&dir, "osd.0", "status");
    assert_eq!((&again["osd_fsid"], &again["cluster_fsid"]), (&status["osd_fsid"], &status["cluster_fsid"]));
    assert_eq!(admin(&dir, "osd.1", "status")["state"], "active");
    assert_eq!(running.stop("-INT"), 0);
    let error = refused(&dir, "--osds 1");
    assert!(error.contains("2 OSDs, not 1") && error.contains("nacre disk rm"), "{error}");

    // What it had is what it has, after a kill, too.
    let mut running = Running::start(&dir, &format!("--port {port}"));
    assert!(running.ready.contains("2 OSDs"));
    running.child.kill().unwrap();
    running.child.wait().unwrap();
    let running = Running::start(&dir, &format!("--port {port}"));
    assert_eq!(running.stop("-TERM"), 0);
    let log = std::fs::read_to_string(dir.join("log/osd.0.log")).unwrap();
    assert!(log.contains("driver: epoll"), "{log}");
    let checked = nacre(&["fsck", dir.to_str().unwrap(), "--deep"]);
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
    assert!(String::from_utf8_lossy(&checked.stdout).contains("osd.1: clean"));
}

#[test]
fn the_log_is_one_file_that_a_hang_up_opens_anew() {
    let (top, port) = (folder(), free_port().to_string());
    let (dir, log, old) = (top.path().join("cluster"), top.path().join("nacre.log"), top.path().join("nacre.log.1"));
    let mut command = Command::new(NACRE);
    command.args(["up", "--osds", "1", "--port", &port, "--dir"]).arg(&dir).arg("--log-file").arg(&log);
    let running = Running::spawn(command.stdin(Stdio::null()));
    std::fs::rename(&log, &old).unwrap();
    running.signal("-HUP");
    let begin = Instant::now();
    while !log.exists() {
        assert!(begin.elapsed() < Duration::from_secs(10), "the log is not opened anew");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(running.stop("-TERM"), 0);
    let (old, new) = (std::fs::read_to_string(old).unwrap(), std::fs::read_to_string(&log).unwrap());
    assert!(old.contains(" nacre process: nacre ") && old.contains(" mon.a mon: ") && old.contains(" osd.0 osd: "), "{old}");
    assert!(new.contains("told to stop by signal 15") && new.contains("osd.0 osd: stopping"), "{new}");
    assert!(!dir.join("log").exists());

    // What nacre.toml says counts, too.
    let path = dir.join("nacre.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("log_file = \"own.log\"\n{text}")).unwrap();
    assert_eq!(Running::start(&dir, &format!("--osds 2 --port {port}")).stop("-TERM"), 0);
    assert!(dir.join("own.log").exists() && std::fs::read_to_string(&path).unwrap().contains("log_file = \"own.log\""));
    let error = refused(&dir, &format!("--port {port} --log-file {}/no/where", top.path().display()));
    assert!(error.contains("no/where cannot be written"), "{error}");
}

#[test]
fn monitors_come_back_from_a_backup_and_from_what_osds_know() {
    let (top, port) = (folder(), free_port());
    let dir = top.path().join("cluster");
    let (backup, at) = (top.path().join("backup"), dir.to_str().unwrap());
    let line = format!("--osds 2 --port {port}");
    let running = Running::start(&dir, &line);
    let map = |daemon: &str| admin(&dir, daemon, "status")["newest_map"].as_u64().unwrap();
    let before = map("osd.1");
    let backup_path = backup.to_str().unwrap();
    let done = nacre(&["mon", "backup", "--dir", at, backup_path]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let says = |args: &[&str], code: i32, words: &str| {
        let done = nacre(args);
        let text = [done.stdout, done.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        assert!(done.status.code() == Some(code) && text.contains(words), "{args:?}: {text}");
    };
    says(&["mon", "restore", backup_path, "--dir", at], 1, "in use by process");
    assert_eq!(running.stop("-TERM"), 0);

    let sure = "--yes-i-really-mean-it";
    says(&["mon", "restore", backup_path, "--dir", at], 1, "has a store already");
    says(&["mon", "restore", backup_path, "--dir", at, sure, "--port", &port.to_string()], 0, "OSD map");
    assert!(dir.join("mon/store.before-1").exists());
    let running = Running::start(&dir, &line);
    let restored = map("osd.1");
    assert!(restored > before + 1_000_000, "{before}, then {restored}");
    assert_eq!(running.stop("-TERM"), 0);

    std::fs::remove_file(dir.join("mon/store")).unwrap();
    says(&["mon", "rebuild", "--dir", at, "--port", &port.to_string()], 0, "start it");
    let running = Running::start(&dir, &line);
    assert!(map("osd.0") > restored + 1_000_000);
    assert_eq!(running.stop("-TERM"), 0);

    says(&["mon", "rescue", "--dir", at], 1, sure);
    says(&["mon", "rescue", "--dir", at, sure], 0, "OSD map");
    assert_eq!(Running::start(&dir, &line).stop("-TERM"), 0);
    let checked = nacre(&["fsck", at]);
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
    says(&["mon", "restore", at, "--dir", at], 1, "read");
    std::fs::write(&backup, "nonsense").unwrap();
    says(&["mon", "restore", backup_path, "--dir", at], 1, "no backup");
}

#[test]
fn what_cannot_be_done_is_refused_and_changes_nothing() {
    let (top, port) = (folder(), free_port());
    let dir = top.path().join("cluster");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken_port = taken.local_addr().unwrap().port();
    let error = refused(&dir, &format!("--port {taken_port}"));
    assert!(error.contains(&format!("port {taken_port} of 127.0.0.1 is in use")) && !dir.exists(), "{error}");

    let running = Running::start(&dir, &format!("--osds 1 --port {port}"));
    let before = listing(&dir);
    let error = refused(&dir, &format!("--port {}", free_port()));
    assert!(error.contains(&format!("in use by process {}", running.child.id())), "{error}");
    let checked = nacre(&["fsck", dir.to_str().unwrap()]);
    assert!(!checked.status.success() && String::from_utf8_lossy(&checked.stderr).contains("in use by process"));
    assert_eq!(listing(&dir), before);
    assert_eq!(running.stop("-TERM"), 0);

    // A folder that is something else, or of a newer version, or whose store is gone.
    let other = top.path().join("other");
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join("letter"), "dear").unwrap();
    assert!(refused(&other, "").contains("letter") && listing(&other).len() == 1);
    let state = std::fs::read_to_string(dir.join("nacre.toml")).unwrap();
    std::fs::write(dir.join("nacre.toml"), state.replace("version = 1", "version = 3")).unwrap();
    assert!(refused(&dir, "").contains("newer nacre"));
    std::fs::write(dir.join("nacre.toml"), state).unwrap();
    std::fs::rename(dir.join("osd.0/block"), dir.join("osd.0/moved")).unwrap();
    let error = refused(&dir, &format!("--port {port}"));
    assert!(error.contains("osd.0") && error.contains("osd.0/block"), "{error}");
    std::fs::rename(dir.join("osd.0/moved"), dir.join("osd.0/block")).unwrap();
    assert_eq!(Running::start(&dir, &format!("--port {port}")).stop("-TERM"), 0);

    for (args, says) in [
        (vec!["up"], "--dir"),
        (vec!["up", "--dir", "x", "--osd-size", "big"], "number of bytes"),
        (vec!["up", "--dir", "x", "--nonsense"], "--nonsense"),
        (vec!["upward"], "upward"),
    ] {
        let done = nacre(&args);
        assert_eq!(done.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&done.stderr).contains(says));
    }
}

#[test]
fn disks_of_ones_own() {
    let (top, port) = (folder(), free_port());
    let at = |name: &str| top.path().join(name);
    std::fs::create_dir(at("folder")).unwrap();
    std::fs::write(at("used"), "precious").unwrap();
    let dir = at("cluster");
    let error = refused(&dir, &format!("--port {port} --disk {}", at("used").display()));
    assert!(error.contains("holds data that is no store"), "{error}");
    assert_eq!(std::fs::read_to_string(at("used")).unwrap(), "precious");
    assert!(!dir.exists(), "a refused start leaves nothing");
    let disks = format!("--disk {} --disk {},journal={}", at("folder").display(), at("file").display(), at("journal").display());
    let running = Running::start(&dir, &format!("--port {port} {disks} --osd-size 8G"));
    assert!(running.ready.contains("2 OSDs"));
    assert!(at("folder/block").exists() && at("file").exists() && at("journal").exists());
    assert_eq!(running.stop("-TERM"), 0);
    let running = Running::start(&dir, &format!("--port {port}"));
    assert_eq!(running.stop("-TERM"), 0);
    let error = refused(&dir, &format!("--port {port} --disk {}", at("folder").display()));
    assert!(error.contains("osd.1"), "{error}");
}

#[test]
fn disks_that_hold_something_are_cleared_if_that_is_said() {
    let (top, port) = (folder(), free_port());
    let at = |name: &str| top.path().join(name);
    for name in ["used", "journal"] {
        std::fs::write(at(name), "precious").unwrap();
    }
    let disks = format!("--port {port} --osd-size 8G --disk {},journal={}", at("used").display(), at("journal").display());
    let first = at("first");
    let error = refused(&first, &disks);
    assert!(error.contains("holds data") && error.contains("--wipe"), "{error}");
    for dir in [&first, &at("second")] {
        // The second time it is the store of another cluster.
        let running = Running::start(dir, &format!("--wipe {disks}"));
        assert!(running.ready.contains("1 OSD"), "{}", running.ready);
        assert_eq!(running.stop("-TERM"), 0);
    }
    let error = refused(&first, &format!("--wipe --port {port}"));
    assert!(error.contains("belongs to another cluster"), "one that has served is never cleared: {error}");
    let running = Running::start(&at("second"), &format!("--wipe {disks}"));
    assert_eq!(running.stop("-TERM"), 0, "its own store is not cleared");
}

/// Returns what `ceph osd crush tree` shows: `TYPE NAME` for each bucket from the root to each OSD.
fn tree(dir: &std::path::Path) -> Vec<String> {
    let dump: serde_json::Value = serde_json::from_str(&ask_monitor(dir, r#"{"prefix":"osd tree","format":"json"}"#)).unwrap();
    let rows = dump["nodes"].as_array().unwrap().iter();
    rows.map(|n| format!("{} {}", n["type"].as_str().unwrap(), n["name"].as_str().unwrap())).collect()
}

#[test]
fn a_host_has_its_place_in_the_crush_map() {
    let (top, port) = (folder(), free_port());
    let dir = top.path().join("cluster");
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let host = format!("host {}", host.trim().split('.').next().unwrap());
    let start = |more: &str| Running::start(&dir, &format!("--port {port} {more}"));
    let running = start("--osds 1 --osd-size 1G --location rack=r1,datacenter=d1");
    assert_eq!(tree(&dir), ["root default", "datacenter d1", "rack r1", &host, "osd osd.0"]);
    assert_eq!(running.stop("-TERM"), 0);
    assert!(
        std::fs::read_to_string(dir.join("nacre.toml")).unwrap().contains("location = \"datacenter=d1 rack=r1 root=default\"")
    );

    // What cannot be is refused before anything starts.
    for (place, says) in [("shelf=s1", "'shelf'"), ("rack=d1", "not of type"), ("rack=r1,datacenter=d2", "not below")] {
        let error = refused(&dir, &format!("--port {port} --location {place}"));
        assert!(error.contains(says), "{place}: {error}");
    }

    // Given again, it moves the host; a start without it moves nothing, and a new OSD goes where its host is.
    let running = start("--location rack=r2,datacenter=d1");
    let moved = tree(&dir);
    assert!(moved.windows(3).any(|w| w == ["rack r2", &host, "osd osd.0"]), "{moved:?}");
    let by_hand = format!(r#"{{"prefix":"osd crush move","name":"{}","args":["rack=r1"]}}"#, &host[5..]);
    ask_monitor(&dir, &by_hand);
    assert_eq!(running.stop("-TERM"), 0);
    let running = start("--osds 2");
    let stays = tree(&dir);
    assert!(stays.windows(4).any(|w| w[..2] == ["rack r1", &*host]) && stays.contains(&"osd osd.1".into()), "{stays:?}");
    assert_eq!(running.stop("-TERM"), 0);
    let running = start("--location rack=r2,datacenter=d1");
    let again = tree(&dir);
    assert!(again.windows(2).any(|w| w == ["rack r2", &*host]), "{again:?}");
    // From the root itself to a rack below it.
    ask_monitor(&dir, &by_hand.replace("rack=r1", "root=default"));
    assert_eq!(running.stop("-TERM"), 0);
    let running = start("--location rack=r2,datacenter=d1");
    let last = tree(&dir);
    assert!(last.windows(2).any(|w| w == ["rack r2", &*host]), "{last:?}");
    assert_eq!(running.stop("-TERM"), 0);
}

#[test]
fn relative_folders_and_memory_file_systems() {
    let Ok(top) = tempfile::tempdir_in("/dev/shm") else { return };
    let port = free_port().to_string();
    let mut command = Command::new(NACRE);
    command.current_dir(top.path()).args(["up", "--dir", "./c", "--osds", "1", "--osd-size", "1G", "--port", &port]);
    let running = Running::spawn(&mut command);
    let conf = std::fs::read_to_string(top.path().join("c/ceph.conf")).unwrap();
    assert!(conf.contains(&format!("keyring = {}/c/keyring", top.path().display())), "{conf}");
    assert_eq!(running.stop("-TERM"), 0);
}

#[test]
fn daemons_by_themselves() {
    let (top, port) = (folder(), free_port().to_string());
    let dir = top.path().join("cluster");
    let text = dir.to_str().unwrap();
    let done = nacre(&["osd", "--dir", text, "--id", "0"]);
    assert!(!done.status.success() && String::from_utf8_lossy(&done.stderr).contains("holds no cluster"));
    let mon = Running::spawn(Command::new(NACRE).args(["mon", "--dir", text, "--osds", "2", "--port", &port]));
    let osd = |id: &str| Running::spawn(Command::new(NACRE).args(["osd", "--dir", text, "--id", id]));
    let (first, second) = (osd("0"), osd("1"));
    assert_eq!(admin(&dir, "osd.1", "status")["state"], "active");
    assert_eq!((first.stop("-TERM"), second.stop("-TERM"), mon.stop("-TERM")), (0, 0, 0));
    let all = Running::start(&dir, &format!("--port {port}"));
    assert!(all.ready.contains("2 OSDs"));
    assert_eq!(all.stop("-TERM"), 0);
}

/// Sends a command to the monitor of a cluster through its admin socket; gives the answer's text.
fn ask_monitor(dir: &std::path::Path, json: &str) -> String {
    let mut stream = std::os::unix::net::UnixStream::connect(dir.join("mon.a.asok")).unwrap();
    stream.write_all(format!("{json}\0").as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer[4..]).into_owned()
}

#[test]
fn a_new_disk_takes_the_number_of_a_destroyed_osd() {
    let (top, port) = (folder(), free_port());
    let dir = top.path().join("cluster");
    let disk = |name: &str| top.path().join(name).display().to_string();
    let (first, second, third) = (disk("first"), disk("second"), disk("third"));
    let running = Running::start(&dir, &format!("--disk {first} --disk {second} --osd-size 2G --port {port}"));
    let before = admin(&dir, "osd.1", "status")["osd_fsid"].clone();
    let says = |words: &[&str], code: i32, text: &str| {
        let done = nacre(&[&["replace", "--dir", dir.to_str().unwrap()], words].concat());
        let said = [done.stdout, done.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        assert!(done.status.code() == Some(code) && said.contains(text), "{words:?}: {said}");
    };
    says(&["1", "--disk", &third], 1, "osd.1 is not destroyed");
    for command in [r#""osd stop","ids":["1"]"#, r#""osd destroy","id":1,"yes_i_really_mean_it":true"#] {
        let said = ask_monitor(&dir, &format!("{{\"prefix\":{command}}}"));
        assert!(!said.contains("ERROR"), "{command}: {said}");
    }
    says(&["7"], 1, "has no osd.7");
    says(&["1", "--disk", &first], 1, "belongs to another OSD of this host");
    says(&["1"], 1, "clear it first");
    says(&["1", "--disk", &third], 0, "osd.1 will be made anew on");
    says(&["1", "--disk", &third], 0, "osd.1 will be made anew on");
    assert_eq!(running.stop("-TERM"), 0);

    let running = Running::start(&dir, "");
    let status = admin(&dir, "osd.1", "status");
    assert!(status["state"] == "active" && status["osd_fsid"] != before, "{status}");
    let dump = ask_monitor(&dir, r#"{"prefix":"osd dump","format":"json"}"#);
    let dump: serde_json::Value = serde_json::from_str(&dump).unwrap();
    assert_eq!(
        (&dump["osds"][1]["up"], &dump["osds"][1]["in"], &dump["osds"][1]["uuid"]),
        (&1.into(), &1.into(), &status["osd_fsid"])
    );
    assert!(std::path::Path::new(&second).exists(), "the old disk is not touched");
    assert_eq!(running.stop("-TERM"), 0);
}
