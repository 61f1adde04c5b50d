//! What a driver costs: a server that answers each request of 4 KiB with 64 bytes, after it wrote all that came in one
//! round durably in one piece (`write`), or without (`echo`).
//!
//! `measure [uring|epoll] [spin µs] [FOLDER of the file]`: prints for one and for 16 requests in flight the requests
//! per second, the median latency, and processor time per request: of the server's threads, and of the whole machine
//! beside the client (which is this process's other thread).

use bytes::Bytes;
use node::{Buf, ConnId, DeviceId, DiskOp, DiskRequest, Input, ListenerId, Mono, Node, Now, Output, Outputs, Token};
use runtime::{Choice, Device, DeviceOptions, Setup};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};
use types::Rope;

const REQUEST: usize = 4096 + 64;
const REPLY: usize = 64;
/// The journal is a ring of this many bytes, written once before it is used.
const RING: u64 = 64 << 20;
const MOST_GROUPS: usize = 2;

struct Server {
    durable: bool,
    conn: Option<ConnId>,
    /// Bytes of a request that is not complete.
    partial: usize,
    /// Requests that wait for the next group.
    waiting: usize,
    /// Requests of the groups in flight, by token.
    groups: Vec<(u64, usize)>,
    next: u64,
    at: u64,
    memory: Bytes,
}

impl Node for Server {
    fn handle(&mut self, _: Now, input: Input, out: &mut Outputs) {
        match input {
            Input::Accepted { conn, .. } => {
                self.conn = Some(conn);
                out.push(Output::Receive { conn, buf: Buf::new(1 << 17) });
            }
            Input::Received { conn, buf, len } => {
                self.partial += len;
                self.waiting += self.partial / REQUEST;
                self.partial %= REQUEST;
                out.push(Output::Receive { conn, buf });
            }
            Input::Disk(done) => {
                done.result.expect("the disk works");
                let at = self.groups.iter().position(|g| g.0 == done.token.0).expect("a group");
                let (_, requests) = self.groups.remove(at);
                self.reply(requests, out);
            }
            Input::Closed { .. } => (self.conn, self.partial) = (None, 0),
            Input::Sent { .. } => {}
            Input::Stop => out.push(Output::Stopped),
            Input::Call { call, .. } => {
                let text = runtime::process::thread_cpu().as_nanos().to_string();
                out.push(Output::Answer { call, result: 0, text });
            }
            other => panic!("{other:?}"),
        }
    }

    fn turn(&mut self, _: Now, out: &mut Outputs) {
        if self.waiting == 0 {
            return;
        }
        if !self.durable {
            let requests = std::mem::take(&mut self.waiting);
            return self.reply(requests, out);
        }
        if self.groups.len() >= MOST_GROUPS {
            return;
        }
        let len = (self.waiting * 4096).min(self.memory.len());
        if self.at + len as u64 > RING {
            self.at = 0;
        }
        self.next += 1;
        self.groups.push((self.next, len / 4096));
        self.waiting -= len / 4096;
        let op = DiskOp::Write { offset: self.at, data: Rope::from(self.memory.slice(..len)), durable: true };
        out.push(Output::Disk(DiskRequest { token: Token(self.next), device: DeviceId(0), op }));
        self.at += len as u64;
    }

    fn deadline(&self) -> Mono {
        Mono::NEVER
    }
}

impl Server {
    fn reply(&self, requests: usize, out: &mut Outputs) {
        static ANSWERS: [u8; REPLY * 256] = [1; REPLY * 256];
        if let Some(conn) = self.conn {
            out.push(Output::Send { conn, data: Rope::from(Bytes::from_static(&ANSWERS[..requests * REPLY])) });
        }
    }
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let choice: Choice = args.get(1).map_or("auto", String::as_str).parse().expect("auto, uring or epoll");
    let spin = args.get(2).map(|s| Duration::from_micros(s.parse().expect("microseconds")));
    let folder = args.get(3).map_or(".", String::as_str);
    let path = std::path::Path::new(folder).join(format!("measure.{}", std::process::id()));
    std::fs::write(&path, vec![1; RING as usize]).expect("the folder can be written");
    std::fs::File::open(&path).and_then(|f| f.sync_all()).expect("it can be synced");
    for (name, durable) in [("echo", false), ("write", true)] {
        for depth in [1, 16] {
            measure(name, durable, depth, choice, spin, &path);
        }
    }
    let _ = std::fs::remove_file(&path);
}

fn measure(name: &str, durable: bool, depth: usize, choice: Choice, spin: Option<Duration>, path: &std::path::Path) {
    let device = Device::open(path, &DeviceOptions::default()).expect("the file opens");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let addr = listener.local_addr().expect("an address");
    let (caller, inbox) = runtime::mailbox().expect("a mailbox");
    let setup = Setup {
        listeners: vec![(ListenerId(0), listener)],
        devices: vec![(DeviceId(0), device)],
        driver: choice,
        inbox: Some(inbox),
        spin,
        ..Setup::new()
    };
    let memory = Buf::zeroed(256 * 4096).freeze();
    let server = std::thread::spawn(move || {
        let node = Server { durable, conn: None, partial: 0, waiting: 0, groups: Vec::new(), next: 0, at: 0, memory };
        runtime::run(Box::new(node), setup)
    });
    let cpu = || caller.call("cpu", Duration::from_secs(5)).expect("answers").text.parse::<u64>().expect("a number");
    let (all, process, main, before) = (machine_cpu(), process_cpu(), runtime::process::thread_cpu(), cpu());
    let (requests, took, median) = client(addr, depth, Duration::from_secs(2));
    let per = |nanos: u64| nanos as f64 / 1000.0 / requests as f64;
    let reactor = per(cpu() - before);
    let own = (runtime::process::thread_cpu() - main).as_nanos() as u64;
    let threads = per((process_cpu() - process).saturating_sub(own));
    let machine = per((machine_cpu() - all).saturating_sub(own));
    println!(
        "{choice:?} {name:5} x{depth:<2} {:8.0}/s  median {median:4} µs  reactor {reactor:5.1}  server {threads:5.1}  machine {machine:5.1} µs/request",
        requests as f64 / took.as_secs_f64()
    );
    caller.stop();
    server.join().expect("no panic").expect("a clean end");
}

/// Keeps `depth` requests in flight; gives how many, the time, and the median latency in microseconds.
fn client(addr: SocketAddr, depth: usize, time: Duration) -> (u64, Duration, u128) {
    let mut stream = TcpStream::connect(addr).expect("connects");
    stream.set_nodelay(true).expect("an option");
    let request = vec![2u8; REQUEST * depth];
    let mut replies = vec![0u8; REPLY * depth];
    let (begin, mut done, mut partial) = (Instant::now(), 0u64, 0);
    let mut sent: std::collections::VecDeque<Instant> = (0..depth).map(|_| begin).collect();
    let mut latencies = Vec::new();
    stream.write_all(&request).expect("sends");
    while begin.elapsed() < time {
        partial += stream.read(&mut replies).expect("receives");
        let (whole, now) = (partial / REPLY, Instant::now());
        partial %= REPLY;
        done += whole as u64;
        for _ in 0..whole {
            latencies.push((now - sent.pop_front().expect("in flight")).as_micros());
            sent.push_back(now);
        }
        stream.write_all(&request[..whole * REQUEST]).expect("sends");
    }
    latencies.sort_unstable();
    (done, begin.elapsed(), latencies[latencies.len() / 2])
}

/// Processor time of all threads of this process, in nanoseconds.
fn process_cpu() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").expect("threads");
    let each = tasks.flatten().filter_map(|t| std::fs::read_to_string(t.path().join("schedstat")).ok());
    each.map(|text| text.split(' ').next().and_then(|n| n.parse::<u64>().ok()).unwrap_or(0)).sum()
}

/// Processor time that the machine was busy, in nanoseconds.
fn machine_cpu() -> u64 {
    let text = std::fs::read_to_string("/proc/stat").expect("statistics");
    let fields: Vec<u64> = text.lines().next().unwrap_or("").split_whitespace().skip(1).flat_map(str::parse).collect();
    [0, 1, 2, 5, 6].iter().map(|&i| fields.get(i).copied().unwrap_or(0)).sum::<u64>() * 10_000_000
}
