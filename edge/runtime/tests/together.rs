//! Several machines in one thread.

mod common;

use common::{Echo, Make, Together, echo_parts};
use node::{ConnId, DeviceId, DiskOp, DiskRequest, Input, Mono, Node, Now, Output, Outputs, Token};
use runtime::{CallError, Choice, Device, DeviceOptions, Setup};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

both_drivers!(each_has_its_own_connections, one_that_ends_leaves_the_others, a_disk_is_free_when_its_machine_has_ended);

fn echoes(stream: &mut TcpStream, text: &[u8]) {
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(text).unwrap();
    let mut back = vec![0; text.len()];
    stream.read_exact(&mut back).unwrap();
    assert_eq!(back, text);
}

fn three(choice: Choice) -> (Together, Vec<SocketAddr>) {
    let (makings, addrs) = (0..3).map(|_| echo_parts(1 << 20)).unzip::<_, _, Vec<_>, Vec<_>>();
    (Together::start(choice, makings), addrs)
}

fn each_has_its_own_connections(choice: Choice) {
    let (all, addrs) = three(choice);
    let mut streams: Vec<_> = (0..9).map(|n| (n, TcpStream::connect(addrs[n % 3]).unwrap())).collect();
    for round in 0..20 {
        streams.iter_mut().for_each(|(n, stream)| echoes(stream, format!("{round} of {n}").repeat(50).as_bytes()));
    }
    streams.retain(|(n, _)| n % 3 != 1);
    while all.call(1, "connections") != "0" {
        std::thread::yield_now();
    }
    assert_eq!([0, 1, 2].map(|at| all.call(at, "connections")), ["3", "0", "3"]);
    assert_eq!([0, 1, 2].map(|at| all.call(at, "accepted")), ["3", "3", "3"]);
    all.callers.iter().for_each(|caller| caller.stop());
    (0..3).for_each(|_| assert_eq!(all.next_end().1, None));
    all.join();
}

fn one_that_ends_leaves_the_others(choice: Choice) {
    let (all, addrs) = three(choice);
    let mut streams = addrs.iter().map(|addr| TcpStream::connect(addr).unwrap()).collect::<Vec<_>>();
    streams.iter_mut().for_each(|stream| echoes(stream, b"hello"));
    let silent = all.callers[1].begin("silence").unwrap();
    // One ends because it cannot go on: peers see that at once, and who asked it something is told.
    all.callers[1].begin("fatal").unwrap();
    assert_eq!(all.next_end(), (1, Some("as told".into())));
    assert_eq!(streams[1].read(&mut [0; 1]).unwrap_or(0), 0, "its connections are closed");
    assert!(TcpStream::connect(addrs[1]).is_err(), "its port is closed");
    assert!(silent.recv_timeout(Duration::from_secs(20)).is_err());
    assert_eq!(all.callers[1].call("accepted", Duration::from_secs(20)).unwrap_err(), CallError::Stopped);
    for at in [0, 2] {
        echoes(&mut streams[at], b"still here");
        echoes(&mut TcpStream::connect(addrs[at]).unwrap(), b"and open");
    }
    // One ends as it was told, with much to say.
    all.call(0, "last words");
    all.callers[0].stop();
    let mut words = Vec::new();
    streams[0].read_to_end(&mut words).unwrap();
    assert_eq!((words.len(), all.next_end()), (3 << 20, (0, None)));
    echoes(&mut streams[2], b"alone");
    all.callers[2].stop();
    assert_eq!(all.next_end(), (2, None));
    all.join();
}

/// Begins a write for each call, and does not wait for its end. Whatever else it is told, an echo does.
#[derive(Default)]
struct Writer {
    echo: Echo,
    begun: u64,
}

impl Node for Writer {
    fn handle(&mut self, now: Now, input: Input, out: &mut Outputs) {
        match input {
            Input::Call { call, command } if command == "write" => {
                self.begun += 1;
                let (offset, data) = (self.begun << 20, vec![1u8; 1 << 20].into());
                let op = DiskOp::Write { offset, data, durable: true };
                out.push(Output::Disk(DiskRequest { token: Token(self.begun), device: DeviceId(0), op }));
                out.push(Output::Answer { call, result: 0, text: String::new() });
            }
            Input::Disk(done) => assert!(done.token.0 <= self.begun && done.result.is_ok()),
            other => self.echo.handle(now, other, out),
        }
    }
    fn turn(&mut self, _: Now, out: &mut Outputs) {
        // Connections have numbers of their own in each machine; one that was never made harms nobody.
        out.push(Output::Close { conn: ConnId(1) });
    }
    fn deadline(&self) -> Mono {
        Mono::NEVER
    }
}

fn writer(path: &Path) -> (Setup, Make) {
    let mut setup = Setup::new();
    let options = DeviceOptions { capacity: 64 << 20, create: true, direct: true };
    setup.devices.push((DeviceId(0), Device::open(path, &options).unwrap()));
    (setup, Box::new(|| Box::new(Writer::default())))
}

fn a_disk_is_free_when_its_machine_has_ended(choice: Choice) {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = |n: u32| dir.path().join(format!("disk.{n}"));
    let all = Together::start(choice, vec![writer(&path(0)), writer(&path(1))]);
    let taken = Device::open(&path(1), &DeviceOptions { capacity: 64 << 20, create: false, direct: true });
    assert!(taken.is_err(), "a machine has it");
    (0..8).for_each(|_| drop((all.call(0, "write"), all.call(1, "write"))));
    all.callers[1].stop();
    assert_eq!(all.next_end(), (1, None));
    drop(Device::open(&path(1), &DeviceOptions { capacity: 64 << 20, create: false, direct: true }).expect("free"));
    assert_eq!(std::fs::read(path(1)).unwrap()[1 << 20..9 << 20], vec![1; 8 << 20], "what was begun was done");
    all.call(0, "write");
    all.callers[0].stop();
    assert_eq!(all.next_end(), (0, None));
    all.join();
}
