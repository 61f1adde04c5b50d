//! What a start is refused for: each time a sentence that names the thing, an exit code that is not 0, and nothing
//! changed on disk.

mod common;

use common::{NACRE, Running, folder, free_port, nacre, words};
use std::collections::BTreeMap;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Everything below a folder but logs, locks and sockets: for files their length, blocks, time of change, and what
/// stands at their beginning; for folders that they are there.
fn tree(dir: &Path) -> BTreeMap<PathBuf, (u64, u64, i64, i64, u32)> {
    let mut found = BTreeMap::new();
    let mut todo = vec![dir.to_owned()];
    while let Some(at) = todo.pop() {
        let Ok(entries) = std::fs::read_dir(&at) else { continue };
        for path in entries.map(|e| e.unwrap().path()) {
            let meta = std::fs::symlink_metadata(&path).unwrap();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if name == "log" || name == "lock" || name.ends_with(".asok") {
                continue;
            }
            let mut start = vec![0; 1 << 16];
            let mut state = (0, 0, 0, 0, 0);
            if meta.is_dir() {
                todo.push(path.clone());
            } else if meta.is_file() {
                let n = std::fs::File::open(&path).and_then(|f| f.read_at(&mut start, 0)).unwrap_or(0);
                let crc = kernels::crc32c(kernels::SEED, &start[..n]);
                state = (meta.len(), meta.blocks(), meta.mtime(), meta.mtime_nsec(), crc);
            }
            found.insert(path, state);
        }
    }
    found
}

/// Runs a command that must refuse without changing anything below `watched`; gives its words.
fn refuses_with(command: &mut Command, watched: &Path, what: &str) -> String {
    let before = tree(watched);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let begin = Instant::now();
    while child.try_wait().unwrap().is_none() {
        assert!(begin.elapsed() < Duration::from_secs(60), "{what}: it does not end");
        std::thread::sleep(Duration::from_millis(20));
    }
    let done = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(matches!(done.status.code(), Some(1 | 2)), "{what}: {:?} {text}", done.status);
    assert!(!text.contains("panicked") && !text.is_empty(), "{what}: {text}");
    let after = tree(watched);
    let changed: Vec<_> = after.iter().filter(|(path, state)| before.get(*path) != Some(state)).collect();
    assert!(changed.is_empty() && before.len() == after.len(), "{what}: changed {changed:?}");
    text
}

/// `nacre up` must refuse, with all of `says` in its words.
fn refuses(dir: &Path, more: &str, says: &[&str]) {
    refuses_below(dir.parent().unwrap(), dir, more, says);
}

/// The same where only what is below `watched` must stay as it is: beside it, a cluster is running and writes.
fn refuses_below(watched: &Path, dir: &Path, more: &str, says: &[&str]) {
    let mut command = Command::new(NACRE);
    command.args(["up", "--dir"]).arg(dir).args(["--port", &free_port().to_string()]).args(words(more));
    let text = refuses_with(&mut command, watched, more);
    for part in says {
        assert!(text.contains(part), "'{part}' is not in: {text}");
    }
}

/// A cluster with one small OSD that has served and is stopped.
fn made(dir: &Path, more: &str) {
    let port = free_port();
    assert_eq!(Running::start(dir, &format!("--osds 1 --osd-size 1G --port {port} {more}")).stop("-TERM"), 0);
}

/// Changes a file, tries, and puts it back as it was.
fn with_file(path: &Path, change: impl FnOnce(&mut Vec<u8>), then: impl FnOnce()) {
    let (before, times) = (std::fs::read(path).unwrap(), std::fs::metadata(path).unwrap());
    let mut bytes = before.clone();
    change(&mut bytes);
    std::fs::write(path, bytes).unwrap();
    then();
    std::fs::write(path, before).unwrap();
    std::fs::set_permissions(path, times.permissions()).unwrap();
}

/// Changes bytes of a large file in its place, seals the block again if asked, tries, and puts them back.
fn with_block(path: &Path, at: u64, seal: bool, change: impl FnOnce(&mut [u8]), then: impl FnOnce()) {
    let file = std::fs::File::options().read(true).write(true).open(path).unwrap();
    let mut before = vec![0; 4096];
    file.read_exact_at(&mut before, at).unwrap();
    let mut block = before.clone();
    change(&mut block);
    if seal {
        let crc = kernels::crc32c(kernels::SEED, &block[..4092]);
        block[4092..].copy_from_slice(&crc.to_le_bytes());
    }
    file.write_all_at(&block, at).unwrap();
    file.sync_all().unwrap();
    then();
    file.write_all_at(&before, at).unwrap();
}

/// An OSD with a wrong key: monitor and OSD open their stores before that is seen.
fn wrong_key(dir: &Path) {
    let mut command = Command::new(NACRE);
    command.args(["up", "--dir"]).arg(dir).args(["--port", &free_port().to_string()]);
    let text = refuses_with(&mut command, &dir.join("nothing"), "a wrong key");
    assert!(text.contains("osd.0") && text.contains("refuse the key"), "{text}");
}

#[test]
fn clusters_that_are_not_what_they_should_be() {
    let top = folder();
    let dir = top.path().join("cluster");
    made(&dir, "");
    let (toml, block, store) = (dir.join("nacre.toml"), dir.join("osd.0/block"), dir.join("mon/store"));
    let text = std::fs::read_to_string(&toml).unwrap();
    let fsid = text.lines().find_map(|l| l.strip_prefix("fsid = ")).unwrap().trim_matches('"').to_owned();
    let other = "11111111-2222-4333-8444-555555555555";

    // Another cluster's.
    with_file(&toml, |t| *t = text.replace(&fsid, other).into(), || refuses(&dir, "", &["belongs to", &fsid, other]));
    let uuid = text.lines().find_map(|l| l.strip_prefix("uuid = ")).unwrap().trim_matches('"').to_owned();
    with_file(&toml, |t| *t = text.replace(&uuid, other).into(), || refuses(&dir, "", &["osd.0", "belongs to"]));

    // Written by a newer program.
    with_file(
        &toml,
        |t| *t = text.replace("version = 1", "version = 3").into(),
        || refuses(&dir, "", &["nacre.toml", "newer nacre"]),
    );
    let newer = |block: &mut [u8]| block[8..12].copy_from_slice(&9u32.to_le_bytes());
    with_block(&block, 0, true, newer, || {
        with_block(&block, 8 * 4096, true, newer, || refuses(&dir, "", &["osd.0", "format version 9"]));
    });
    with_block(&store, 0, true, newer, || refuses(&dir, "", &["monitor", "format version 9"]));

    // Broken, emptied, gone.
    with_file(&toml, |t| t.truncate(t.len() / 2), || refuses(&dir, "", &["nacre.toml"]));
    let mess = |block: &mut [u8]| block.fill(0x55);
    with_block(&block, 0, false, mess, || {
        with_block(&block, 8 * 4096, false, mess, || refuses(&dir, "", &["osd.0", "block", "something else"]));
    });
    for (file, says) in [(&block, "osd.0/block is empty"), (&store, "mon/store is empty")] {
        let aside = top.path().join("aside");
        std::fs::rename(file, &aside).unwrap();
        refuses(&dir, "", &["is gone", says]);
        std::fs::write(file, "").unwrap();
        refuses(&dir, "", &["is gone", says]);
        std::fs::write(file, "what is this?").unwrap();
        refuses(&dir, "", &["is gone", "holds something else"]);
        std::fs::rename(&aside, file).unwrap();
    }

    // Keys.
    for keyring in ["keyring", "mon/keyring", "osd.0/keyring"] {
        with_file(
            &dir.join(keyring),
            |k| *k = b"[client.x]\nkey = nonsense\n".to_vec(),
            || refuses(&dir, "", &[keyring, "no usable key"]),
        );
        with_file(&dir.join(keyring), |k| k.truncate(30), || refuses(&dir, "", &[keyring]));
        with_file(&dir.join(keyring), |k| *k = vec![0xff; 100], || refuses(&dir, "", &[keyring]));
    }
    // A key that is one, but not the one that the cluster knows.
    let key = |name: &str| format!("[{name}]\n\tkey = AQAApRhqBQAAABAAAAECAwQFBgcICQoLDA0ODw==\n").into_bytes();
    with_file(&dir.join("osd.0/keyring"), |k| *k = key("osd.0"), || wrong_key(&dir));
    assert_eq!(Running::start(&dir, &format!("--port {}", free_port())).stop("-TERM"), 0, "after all that it is as it was");

    // One OSD alone reads ceph.conf.
    let osd = |says: &[&str]| {
        let mut command = Command::new(NACRE);
        let text = refuses_with(command.args(["osd", "--id", "0", "--dir"]).arg(&dir), top.path(), "osd");
        assert!(says.iter().all(|part| text.contains(part)), "{text}");
    };
    with_file(&dir.join("ceph.conf"), |c| *c = b"mon host = nowhere\n".to_vec(), || osd(&["ceph.conf", "nowhere"]));
    with_file(&dir.join("ceph.conf"), |c| c.clear(), || osd(&["ceph.conf", "mon host"]));
}

#[test]
fn somebodys_data_is_never_overwritten() {
    let top = folder();
    let at = |name: &str| top.path().join(name);
    let dir = at("cluster");
    let shown = |name: &str| at(name).display().to_string();
    std::fs::write(at("letter"), "dear").unwrap();
    // A partition table at the beginning, one at the end, text, zeros and then something.
    let mut end = vec![0; 3 << 20];
    let last = end.len() - 512;
    end[last..last + 8].copy_from_slice(b"EFI PART");
    std::fs::write(at("gpt"), end).unwrap();
    std::fs::create_dir(at("folder")).unwrap();
    std::fs::write(at("folder/block"), "precious").unwrap();
    for data in ["letter", "gpt", "folder"] {
        refuses(&dir, &format!("--disk {}", shown(data)), &["osd.0", &shown(data), "holds data", "clear it first", "--wipe"]);
        refuses(&dir, &format!("--disk {},journal={}", shown("new"), shown("letter")), &["letter", "journal", "holds data"]);
        assert!(!dir.exists() && !at("new").exists(), "nothing was begun");
    }
    for (more, says) in [
        ("--disk /dev/null".to_owned(), "neither a file nor a block device"),
        ("--disk /dev/no-such-disk".to_owned(), "does not exist"),
        (format!("--disk {}", shown("no/where")), "does not exist"),
        (format!("--disk {0} --disk {0}", shown("new")), "twice"),
        (format!("--disk {0},journal={0}", shown("new")), "twice"),
    ] {
        refuses(&dir, &more, &[says]);
    }
    // The disk of another cluster, and the same as an addition to a cluster that works.
    made(&dir, "");
    let second = at("second");
    made(&second, "");
    let theirs = format!("--disk {}", second.join("osd.0").display());
    refuses(&dir, &format!("--disk {}", shown("letter")), &["letter", "holds data"]);
    refuses(&dir, "--disk /dev/no-such-disk", &["does not exist"]);
    refuses(&dir, "--osds 0", &["1 OSDs, not 0"]);
    assert_eq!(Running::start(&dir, &format!("--port {}", free_port())).stop("-TERM"), 0, "the cluster is as it was");
    refuses(&at("third"), &theirs, &["osd.0", "belongs to", "--wipe"]);
    // With --wipe, too: what is of this cluster, in its folder, or in use.
    for (place, says) in [("osd.0", "own folder"), ("mon/store", "own folder")] {
        refuses(&dir, &format!("--wipe --disk {}", dir.join(place).display()), &[says, "--wipe does not"]);
    }
    std::fs::create_dir(at("moved")).unwrap();
    std::fs::copy(dir.join("osd.0/block"), at("moved/block")).unwrap();
    refuses(&dir, &format!("--wipe --disk {}", shown("moved")), &["moved/block", "an OSD of this cluster", "--wipe does not"]);
    let running = Running::start(&second, &format!("--port {}", free_port()));
    refuses_below(&at("third"), &at("third"), &format!("--wipe {theirs}"), &["in use by process", "--wipe clears nothing"]);
    assert!(!at("third").exists(), "nothing was begun");
    assert_eq!(running.stop("-TERM"), 0);
    assert_eq!(Running::start(&second, &format!("--port {}", free_port())).stop("-TERM"), 0, "the other one, too");
}

/// `nacre` as a user whom permissions concern; `None` if that cannot be arranged.
fn as_nobody(args: &[&str]) -> Option<Command> {
    let me = Command::new("id").arg("-u").output().ok()?;
    if me.stdout != b"0\n" {
        let mut command = Command::new(NACRE);
        command.args(args);
        return Some(command);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--", NACRE]);
    let works =
        Command::new("setpriv").args(["--reuid=65534", "--regid=65534", "--clear-groups", "--", NACRE, "--version"]).output();
    works.is_ok_and(|w| w.status.success()).then(|| {
        command.args(args);
        command
    })
}

#[test]
fn folders_without_permission() {
    // Below /tmp, where every user gets to.
    let top = tempfile::tempdir().unwrap();
    std::fs::set_permissions(top.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let port = free_port().to_string();
    for (name, mode) in [("unreadable", 0o000), ("read-only", 0o555)] {
        let dir = top.path().join(name);
        std::fs::create_dir(&dir).unwrap();
        std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(mode)).unwrap();
        let text = dir.display().to_string();
        let disk = format!("{text}/disk");
        let cluster = top.path().join("cluster").display().to_string();
        for (args, says) in [
            (vec!["up", "--dir", &text, "--port", &port], &text),
            (vec!["up", "--dir", &cluster, "--port", &port, "--disk", &disk], &top.path().display().to_string()),
        ] {
            let Some(mut command) = as_nobody(&args) else { return };
            let words = refuses_with(&mut command, top.path(), name);
            assert!(words.contains(says.as_str()) && words.contains("ermission denied"), "{words}");
        }
        std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
}

#[test]
fn options_that_make_no_sense() {
    for (args, says) in [
        ("up", "--dir"),
        ("up --dir x --osds many", "many"),
        ("up --dir x --osds -1", "-1"),
        ("up --dir x --osd-size 1X", "number of bytes"),
        ("up --dir x --memory lots", "number of bytes"),
        ("up --dir x --memory 63M", "at least"),
        ("up --dir x --port 70000", "70000"),
        ("up --dir x --bind here", "here"),
        ("up --dir x --auth maybe", "maybe"),
        ("up --dir x --driver fast", "fast"),
        ("up --dir x --disk", "--disk"),
        ("up --dir x --disk a,b=c", "journal=PATH"),
        ("up --dir x --location r1", "'r1' is not TYPE=NAME"),
        ("up --dir x --location rack=r1,rack=r2", "names a type twice"),
        ("up --dir x --location host=h", "'host' is no type"),
        ("up --dir x --location shelf=s1", "bucket type 'shelf' does not exist"),
        ("join nothing --dir x --bind 10.0.0.1 --location rack=", "'rack=' is not TYPE=NAME"),
        ("osd --dir x", "--id"),
        ("osd --dir /no/where --id 0", "holds no cluster"),
        ("fsck /no/where", "holds no cluster"),
        ("forget --dir /no/where 0", "holds no cluster"),
        ("admin /no/where.asok status", "/no/where.asok"),
        ("demo --seconds 0", "0"),
        ("nonsense", "nonsense"),
    ] {
        let top = folder();
        let done = Command::new(NACRE).args(words(args)).current_dir(top.path()).env_remove("CEPH_CONF").output().unwrap();
        let text = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(matches!(done.status.code(), Some(1 | 2)) && text.contains(says), "{args}: {:?} {text}", done.status);
        assert!(tree(top.path()).is_empty(), "{args}");
    }
    assert!(nacre(&["--version"]).status.success());
}

/// Waits until the process holds signals back; before, a signal ends it as it ends every program.
fn holds_signals(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let blocked = status.lines().find_map(|l| l.strip_prefix("SigBlk:")).and_then(|l| u64::from_str_radix(l.trim(), 16).ok());
    blocked.is_some_and(|mask| mask >> 14 & 1 == 1)
}

#[test]
fn a_signal_at_any_moment_of_the_start_stops_it_cleanly() {
    let top = folder();
    let dir = top.path().join("cluster");
    for (round, millis) in [0, 1, 3, 6, 10, 15, 25, 40, 60, 90, 130, 180, 250, 350, 500, 700, 1000].into_iter().enumerate() {
        // Now and then a new cluster, whose stores are being made.
        if round % 3 == 0 {
            let _ = std::fs::remove_dir_all(&dir);
        }
        let mut command = Command::new(NACRE);
        command.args(["up", "--osds", "2", "--osd-size", "1G", "--port", &free_port().to_string(), "--dir"]).arg(&dir);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        while !holds_signals(child.id()) {
            assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_millis(millis));
        let signal = if round % 2 == 0 { "-TERM" } else { "-INT" };
        let told = Instant::now();
        assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
        while child.try_wait().unwrap().is_none() {
            assert!(told.elapsed() < Duration::from_secs(15), "after {millis} ms: it does not stop");
            std::thread::sleep(Duration::from_millis(2));
        }
        let took = told.elapsed();
        let done = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(0), "after {millis} ms: {text}");
        // Two seconds on a machine that does nothing else.
        assert!(took < Duration::from_secs(8), "after {millis} ms it took {took:?}");
    }
    assert_eq!(Running::start(&dir, &format!("--port {}", free_port())).stop("-TERM"), 0, "what is left is a cluster");
}
