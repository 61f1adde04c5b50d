//! The program as it is used: mounted, written to, cut off. Needs /dev/fuse and the right to mount.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

/// The program; its mount goes with it.
struct Disk {
    program: Child,
    answers: BufReader<ChildStdout>,
    dir: tempfile::TempDir,
}

impl Disk {
    fn new(more: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for folder in ["backing", "mount"] {
            std::fs::create_dir(dir.path().join(folder)).unwrap();
        }
        let mut program = Command::new(env!("CARGO_BIN_EXE_lossydisk"))
            .arg(dir.path().join("backing"))
            .arg(dir.path().join("mount"))
            .args(more)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let answers = BufReader::new(program.stdout.take().unwrap());
        let mut disk = Self { program, answers, dir };
        assert_eq!(disk.answer(), "ok mounted");
        disk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join("mount").join(name)
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    fn tell(&mut self, command: &str) -> String {
        writeln!(self.program.stdin.as_ref().unwrap(), "{command}").unwrap();
        self.answer()
    }

    fn open(&self, name: &str, flags: i32) -> File {
        OpenOptions::new().read(true).write(true).create(true).truncate(false).custom_flags(flags).open(self.path(name)).unwrap()
    }

    /// Cuts the power with seeds until `gone` says that something was lost, writing again each time.
    fn lost_with_some_seed(&mut self, write: impl Fn(&Self), gone: impl Fn(&Self) -> bool) -> bool {
        (0..50).any(|seed| {
            write(self);
            assert!(self.tell(&format!("lose {seed}")).starts_with("ok cut"));
            assert!(std::fs::metadata(self.path("f")).is_err(), "there is no power");
            assert!(self.tell("back").starts_with("ok"));
            gone(self)
        })
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        drop(self.program.stdin.take());
        let _ = self.program.wait();
    }
}

/// O_DIRECT wants memory at an aligned address.
fn aligned(memory: &mut [u8]) -> &mut [u8] {
    let at = memory.as_ptr().align_offset(4096);
    &mut memory[at..at + 4096]
}

#[test]
fn a_power_cut_takes_only_what_was_not_flushed() {
    let mut disk = Disk::new(&["--latency", "200"]);
    let mut memory = vec![0; 8192];
    let page = aligned(&mut memory);
    for direct in [0, libc::O_DIRECT] {
        page.fill(b'a');
        let file = disk.open("f", direct);
        file.write_all_at(page, 0).unwrap();
        file.sync_data().unwrap();
        disk.open("f", direct | libc::O_DSYNC).write_all_at(page, 4096).unwrap();
        disk.open("f", direct | libc::O_SYNC).write_all_at(page, 8192).unwrap();
        drop(file);
        File::open(disk.path("")).unwrap().sync_all().unwrap();
        let safe = vec![b'a'; 3 * 4096];
        let write = |disk: &Disk| {
            let file = disk.open("f", 0);
            file.set_len(12288).unwrap();
            file.sync_all().unwrap();
            file.write_all_at(&[b'b'; 4096], 12288).unwrap();
        };
        let gone = |disk: &Disk| {
            let found = std::fs::read(disk.path("f")).unwrap();
            assert_eq!(found[..safe.len()], safe, "what was flushed");
            found[safe.len()..] != [b'b'; 4096]
        };
        assert!(disk.lost_with_some_seed(write, gone));
    }
    let stats = disk.tell("stats");
    assert!(stats.contains("durable 4 "), "O_DSYNC and O_SYNC arrive, also with O_DIRECT: {stats}");
}

#[test]
fn files_behave_like_files() {
    let mut disk = Disk::new(&["--latency", "0"]);
    let folder = disk.path("folder");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("a"), b"hello").unwrap();
    std::fs::rename(folder.join("a"), folder.join("b")).unwrap();
    assert_eq!(std::fs::read(folder.join("b")).unwrap(), b"hello");
    let file = File::options().append(true).open(folder.join("b")).unwrap();
    (&file).write_all(b", world").unwrap();
    file.set_len(8).unwrap();
    assert_eq!(std::fs::read(folder.join("b")).unwrap(), b"hello, w");
    assert!(std::fs::remove_dir(&folder).is_err(), "it is not empty");
    assert!(std::fs::rename(folder.join("b"), disk.path("b")).is_err(), "between folders");
    let _socket = std::os::unix::net::UnixListener::bind(disk.path("socket")).unwrap();
    assert!(std::os::unix::net::UnixStream::connect(disk.path("socket")).is_ok());
    let names: Vec<_> = std::fs::read_dir(disk.path("")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["folder", "socket"]);
    std::fs::remove_file(folder.join("b")).unwrap();
    std::fs::remove_dir(&folder).unwrap();
    assert!(disk.tell("nonsense").starts_with("error"));
    assert!(disk.tell("keep looked").starts_with("ok"));
}

#[test]
fn the_mount_goes_away_with_the_input_even_when_it_is_in_use() {
    let mut disk = Disk::new(&[]);
    let _open = disk.open("f", 0);
    let mount = disk.path("").canonicalize().unwrap();
    let mounted = |mounts: String| mounts.lines().any(|l| l.split(' ').nth(1) == mount.to_str());
    assert!(mounted(std::fs::read_to_string("/proc/mounts").unwrap()));
    drop(disk.program.stdin.take());
    assert!(disk.program.wait().unwrap().success());
    assert!(!mounted(std::fs::read_to_string("/proc/mounts").unwrap()));
}

/// `ip netns exec` makes mount namespaces. Beside a test that uses it, the program once did not end.
#[test]
fn a_mount_namespace_that_was_made_meanwhile_does_not_keep_it() {
    let mut disk = Disk::new(&[]);
    let there = ["--mount", "sh", "-c", "echo there; exec sleep 600"];
    let mut elsewhere = Command::new("unshare").args(there).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(elsewhere.stdout.take().unwrap()).read_line(&mut line).unwrap();
    drop(disk.program.stdin.take());
    let ended = (0..200).any(|_| {
        std::thread::sleep(Duration::from_millis(50));
        disk.program.try_wait().unwrap().is_some()
    });
    elsewhere.kill().unwrap();
    elsewhere.wait().unwrap();
    assert!(ended, "after ten seconds it runs on");
    if line != "there\n" {
        eprintln!("skipped: no right to make a mount namespace");
    }
}
