//! Disks under both drivers.

mod common;

use bytes::Bytes;
use common::{Random, Running};
use node::{
    ALIGN, Buf, CallId, DeviceId, DiskDone, DiskError, DiskOp, DiskOutput, DiskRequest, Input, Mono, Node, Now, Output, Outputs,
    Token,
};
use runtime::{Choice, Device, DeviceError, DeviceOptions, Setup};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use types::Rope;

both_drivers!(
    reads_after_writes,
    does_what_it_is_told_in_any_alignment,
    load_is_never_mixed_up,
    long_reads_come_a_few_in_a_round,
    two_devices_and_buffered_files,
    tells_sizes_and_errors,
    full_file_systems_are_no_space,
    many_pieces_and_big_requests,
);

const PAGE: u64 = ALIGN as u64;

/// Runs what it is called with: `read AT LEN` (in pages; answers a digest), `write AT LEN FILL CUT durable|volatile`,
/// `flush`, `stat`, `load SEED OPS DEPTH PAGES` (pages of each place); a device number may stand in front (`1:stat`).
#[derive(Default)]
struct Disk {
    next: u64,
    open: BTreeMap<u64, CallId>,
    load: Option<Load>,
}

/// Random writes and reads of disjoint places in flight, each read checked against what was written last.
struct Load {
    call: CallId,
    random: Random,
    left: u64,
    depth: usize,
    pages: u64,
    /// Pages read in this round, and in the fullest.
    round: u64,
    fullest: u64,
    /// By place: the fill of the last write that is complete.
    written: BTreeMap<u64, u8>,
    /// By token: the place, and what is written there; `None` for a read.
    flying: BTreeMap<u64, (u64, Option<u8>)>,
}

fn filled(fill: u8, pages: u64, cut: usize) -> Rope {
    let bytes: Vec<u8> = (0..pages * PAGE).map(|i| fill ^ (i / PAGE) as u8).collect();
    let bytes = Bytes::from(bytes);
    (0..bytes.len()).step_by(cut).map(|at| bytes.slice(at..(at + cut).min(bytes.len()))).collect()
}

fn digest(bytes: &[u8]) -> String {
    let fills: Vec<u8> =
        bytes.chunks(ALIGN).map(|c| if c.iter().all(|b| *b == c[0]) { c[0] } else { panic!("a mixed page") }).collect();
    format!("{fills:?}")
}

impl Disk {
    fn begin(&mut self, device: u8, op: DiskOp, call: Option<CallId>, out: &mut Outputs) -> u64 {
        self.next += 1;
        if let Some(call) = call {
            self.open.insert(self.next, call);
        }
        out.push(Output::Disk(DiskRequest { token: Token(self.next), device: DeviceId(device.into()), op }));
        self.next
    }

    fn call(&mut self, call: CallId, command: &str, out: &mut Outputs) {
        let (device, command) = command.split_once(':').unwrap_or(("0", command));
        let device = device.parse().unwrap();
        let words: Vec<&str> = command.split(' ').collect();
        let number = |i: usize| words[i].parse::<u64>().unwrap();
        let op = match words[0] {
            "read" => DiskOp::Read { offset: number(1) * PAGE, buf: Buf::new((number(2) * PAGE) as usize) },
            "write" => DiskOp::Write {
                offset: number(1) * PAGE,
                data: filled(number(3) as u8, number(2), number(4) as usize),
                durable: words[5] == "durable",
            },
            "crooked" => DiskOp::Write { offset: 5, data: filled(1, 1, 99999), durable: false },
            "flush" => DiskOp::Flush,
            "stat" => DiskOp::Stat,
            "load" => {
                let (random, left, depth, pages) = (Random(number(1)), number(2), number(3) as usize, number(4));
                let (written, flying) = (BTreeMap::new(), BTreeMap::new());
                self.load = Some(Load { call, random, left, depth, pages, round: 0, fullest: 0, written, flying });
                return;
            }
            other => panic!("{other}"),
        };
        self.begin(device, op, Some(call), out);
    }

    fn done(&mut self, done: DiskDone, out: &mut Outputs) {
        let token = done.token.0;
        if let Some(call) = self.open.remove(&token) {
            let text = match done.result {
                Ok(DiskOutput::Read(buf)) => digest(&buf),
                Ok(DiskOutput::Done) => "done".into(),
                Ok(DiskOutput::Stat(s)) => format!("{} {} {}", s.len, s.capacity, s.host_free),
                Err(DiskError::NoSpace) => "no space".into(),
                Err(DiskError::Io(errno)) => format!("error {errno}"),
            };
            return out.push(Output::Answer { call, result: 0, text });
        }
        let load = self.load.as_mut().expect("a token of the load");
        let (place, fill) = load.flying.remove(&token).expect("completes once");
        match (done.result.unwrap(), fill) {
            (DiskOutput::Done, Some(fill)) => drop(load.written.insert(place, fill)),
            (DiskOutput::Read(buf), None) => {
                load.round += load.pages;
                let fill = load.written[&place];
                assert!(buf.iter().enumerate().all(|(i, &b)| b == fill ^ (i / ALIGN) as u8), "place {place}");
            }
            other => panic!("{other:?}"),
        }
    }

    fn feed(&mut self, out: &mut Outputs) {
        let Some(mut load) = self.load.take() else { return };
        load.fullest = load.fullest.max(std::mem::take(&mut load.round));
        let pages = load.pages;
        while load.left > 0 && load.flying.len() < load.depth {
            load.left -= 1;
            let place = load.random.below(200);
            if load.flying.values().any(|f| f.0 == place) {
                continue;
            }
            let (offset, fill) = (place * pages * PAGE, load.random.next() as u8);
            let read = load.written.contains_key(&place) && load.random.below(2) == 0;
            let op = match read {
                true => DiskOp::Read { offset, buf: Buf::new((pages * PAGE) as usize) },
                false => {
                    let (cut, durable) = ([ALIGN, 1000, 70_000][load.random.below(3) as usize], load.random.below(3) == 0);
                    DiskOp::Write { offset, data: filled(fill, pages, cut), durable }
                }
            };
            let token = self.begin(0, op, None, out);
            load.flying.insert(token, (place, (!read).then_some(fill)));
        }
        match load.left == 0 && load.flying.is_empty() {
            true => {
                let text = format!("at most {} pages were read in a round", load.fullest);
                out.push(Output::Answer { call: load.call, result: 0, text });
            }
            false => self.load = Some(load),
        }
    }
}

impl Node for Disk {
    fn handle(&mut self, _: Now, input: Input, out: &mut Outputs) {
        match input {
            Input::Call { call, command } => self.call(call, &command, out),
            Input::Disk(done) => self.done(done, out),
            Input::Stop => out.push(Output::Stopped),
            other => panic!("{other:?}"),
        }
    }

    fn turn(&mut self, _: Now, out: &mut Outputs) {
        self.feed(out);
    }

    fn deadline(&self) -> Mono {
        Mono::NEVER
    }
}

fn start(choice: Choice, devices: Vec<Device>) -> Running {
    let mut setup = Setup::new();
    setup.devices = devices.into_iter().enumerate().map(|(i, d)| (DeviceId(i as u16), d)).collect();
    Running::start(choice, setup, || Box::new(Disk::default()))
}

fn open(path: &Path) -> Device {
    Device::open(path, &DeviceOptions { capacity: 1 << 30, ..DeviceOptions::default() }).unwrap()
}

/// A folder on the file system of the sources: that of temporary files may be in memory.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn reads_after_writes(choice: Choice) {
    let dir = folder();
    let disk = start(choice, vec![open(&dir.path().join("disk"))]);
    assert_eq!(disk.call("write 2 3 16 99999 durable"), "done");
    assert_eq!(disk.call("read 2 3"), "[16, 17, 18]");
    assert_eq!(disk.call("write 3 1 64 99999 volatile"), "done");
    assert_eq!(disk.call("read 0 5"), "[0, 0, 16, 64, 18]");
    assert_eq!(disk.call("flush"), "done");
    assert_eq!(disk.call("write 0 1 9 99999 durable"), "done");
    disk.stop().unwrap();
    let disk = start(choice, vec![open(&dir.path().join("disk"))]);
    assert_eq!(disk.call("read 0 5"), "[9, 0, 16, 64, 18]");
    disk.stop().unwrap();
}

fn does_what_it_is_told_in_any_alignment(choice: Choice) {
    let dir = folder();
    let disk = start(choice, vec![open(&dir.path().join("disk"))]);
    for (i, cut) in [1, 7, 512, 4095, 4096, 4097, 8192, 12_288, 20_000].into_iter().enumerate() {
        let fill = 16 * i;
        assert_eq!(disk.call(&format!("write {} 5 {fill} {cut} durable", 8 * i)), "done");
        let expected: Vec<usize> = (0..5).map(|p| fill ^ p).collect();
        assert_eq!(disk.call(&format!("read {} 5", 8 * i)), format!("{expected:?}"));
    }
    disk.stop().unwrap();
}

fn load_is_never_mixed_up(choice: Choice) {
    let dir = folder();
    let disk = start(choice, vec![open(&dir.path().join("disk"))]);
    disk.call("load 1 1500 32 4");
    assert_eq!(disk.call("load 2 200 1 4"), "at most 4 pages were read in a round");
    disk.stop().unwrap();
}

fn long_reads_come_a_few_in_a_round(choice: Choice) {
    let dir = folder();
    let disk = start(choice, vec![open(&dir.path().join("disk"))]);
    let text = disk.call("load 3 1500 32 32");
    if choice == Choice::Uring {
        let pages: u64 = text.split(' ').nth(2).unwrap().parse().unwrap();
        assert!((32..=64).contains(&pages), "{text}");
    }
    // An end while some wait for their round.
    disk.caller.call("load 4 1000000 64 32", Duration::from_millis(300)).unwrap_err();
    disk.stop().unwrap();
}

fn two_devices_and_buffered_files(choice: Choice) {
    let dir = folder();
    let options = DeviceOptions { capacity: 1 << 24, create: true, direct: false };
    let buffered = Device::open(&dir.path().join("buffered"), &options).unwrap();
    assert!(!buffered.is_direct());
    let disk = start(choice, vec![buffered, open(&dir.path().join("direct"))]);
    assert_eq!(disk.call("0:write 0 2 32 100 volatile"), "done");
    assert_eq!(disk.call("1:write 0 2 48 100 durable"), "done");
    assert_eq!(disk.call("0:write 2 2 64 100 durable"), "done");
    assert_eq!(disk.call("0:read 0 4"), "[32, 33, 64, 65]");
    assert_eq!(disk.call("1:read 0 2"), "[48, 49]");
    disk.call("load 3 500 16 4");
    assert_eq!(disk.call("7:stat"), format!("error {}", libc::ENODEV));
    disk.stop().unwrap();
}

fn tells_sizes_and_errors(choice: Choice) {
    let dir = folder();
    let disk = start(choice, vec![open(&dir.path().join("disk"))]);
    let stat = disk.call("stat");
    assert!(stat.starts_with("0 1073741824 "), "{stat}");
    assert_eq!(disk.call("read 0 1"), format!("error {}", libc::ENODATA), "beyond the end");
    disk.call("write 0 2 1 99999 durable");
    assert!(disk.call("stat").starts_with("8192 1073741824 "));
    assert_eq!(disk.call("read 1 2"), format!("error {}", libc::ENODATA), "across the end");
    assert_eq!(disk.call("write 262143 2 1 99999 durable"), "no space", "beyond the capacity");
    assert_eq!(disk.call("crooked"), format!("error {}", libc::EINVAL));
    disk.stop().unwrap();
}

/// `/dev/full` is no file and no device; a file system that is full is made by a limit on the size of files instead:
/// the kernel refuses to grow a file beyond it. The limit holds for a whole process, so a child runs this alone.
fn full_file_systems_are_no_space(choice: Choice) {
    const ALONE: &str = "RUNTIME_TEST_ALONE";
    if std::env::var_os(ALONE).is_none() {
        let driver = if choice == Choice::Uring { "uring" } else { "epoll" };
        let name = format!("{driver}::full_file_systems_are_no_space");
        // 8 blocks of 1024 bytes; SIGXFSZ, which a write beyond would raise, is ignored by the shell's trap.
        let script = "trap '' XFSZ; ulimit -f 64; exec \"$0\" --exact \"$1\" --test-threads=1 --nocapture > /dev/null";
        let mut child = std::process::Command::new("bash");
        child.args(["-c", script]).arg(std::env::current_exe().unwrap()).arg(name).env(ALONE, "1");
        let done = child.output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        return;
    }
    let dir = folder();
    let disk = start(choice, vec![open(&dir.path().join("disk"))]);
    assert_eq!(disk.call("write 0 16 1 99999 durable"), "done");
    assert_eq!(disk.call("write 16 1 1 99999 durable"), "no space");
    assert_eq!(disk.call("write 1 1 7 99999 durable"), "done", "what is there can be written again");
    assert_eq!(disk.call("read 1 1"), "[7]");
    disk.stop().unwrap();
}

fn many_pieces_and_big_requests(choice: Choice) {
    let dir = folder();
    let disk = start(choice, vec![open(&dir.path().join("disk"))]);
    // 2048 pieces of a page that cannot be passed as they are become one; pieces of 4096 from aligned memory need several
    // calls because one takes 256 at most.
    assert_eq!(disk.call("write 0 2048 3 4096 durable"), "done");
    assert_eq!(disk.call("write 4096 8192 0 1048576 volatile"), "done");
    let text = disk.call("read 0 2048");
    assert!(text.starts_with("[3, 2, 1, 0, 7") && text.matches(',').count() == 2047);
    disk.call("read 4096 8192");
    disk.stop().unwrap();
}

#[test]
fn a_device_has_one_user() {
    let dir = folder();
    let path = dir.path().join("disk");
    let first = open(&path);
    let error = Device::open(&path, &DeviceOptions::default()).unwrap_err();
    let DeviceError::InUse { pid, .. } = &error else { panic!("{error}") };
    assert_eq!(*pid, Some(std::process::id()));
    assert!(error.to_string().contains(&path.display().to_string()));
    drop(first);
    open(&path);
    let missing = Device::open(&dir.path().join("no/disk"), &DeviceOptions::default()).unwrap_err();
    assert!(missing.to_string().contains("no/disk"), "{missing}");
    assert!(matches!(Device::open(dir.path(), &DeviceOptions::default()), Err(DeviceError::NotADisk(_))));
    let strict = DeviceOptions { create: false, ..DeviceOptions::default() };
    assert!(Device::open(&dir.path().join("other"), &strict).is_err() && !dir.path().join("other").exists());
}

#[test]
fn memory_file_systems_work_too() {
    let Ok(dir) = tempfile::tempdir_in("/dev/shm") else { return };
    let disk = start(Choice::Auto, vec![open(&dir.path().join("disk"))]);
    assert_eq!(disk.call("write 0 2 32 100 durable"), "done");
    assert_eq!(disk.call("read 0 2"), "[32, 33]");
    disk.stop().unwrap();
}
