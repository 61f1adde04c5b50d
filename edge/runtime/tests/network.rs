//! Connections under both drivers.

mod common;

use bytes::Bytes;
use common::{Random, Running, echo};
use node::{Buf, CallId, ConnId, Input, Mono, Node, Now, Output, Outputs};
use runtime::{CallError, Choice, RunError, Setup};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

both_drivers!(
    echoes_on_many_connections,
    echoes_big_transfers,
    pushes_back,
    notices_cut_connections,
    closes_after_the_last_word,
    closes_on_a_silent_peer,
    connects_and_transfers,
    tells_failed_connects,
    answers_calls_and_stops,
    gives_last_words,
    ends_on_fatal,
    survives_a_panic_with_buffers_in_flight,
    leaks_nothing,
    limits_connections,
);

fn client(addr: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(addr).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut random = Random(seed);
    (0..len.div_ceil(8)).flat_map(|_| random.next().to_le_bytes()).take(len).collect()
}

/// Sends `data` in random portions and reads it back.
fn transfer(stream: &TcpStream, data: &[u8], seed: u64) {
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let (mut random, mut at) = (Random(seed), 0);
            while at < data.len() {
                let n = (random.below(300_000) as usize + 1).min(data.len() - at);
                (&mut &*stream).write_all(&data[at..at + n]).unwrap();
                at += n;
            }
        });
        let mut back = vec![0; data.len()];
        (&mut &*stream).read_exact(&mut back).unwrap();
        assert!(back == data, "what comes back is what was sent");
    });
}

fn eventually(what: &str, mut check: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !check() {
        assert!(begin.elapsed() < Duration::from_secs(10), "not in time: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn echoes_on_many_connections(choice: Choice) {
    let (server, addr) = echo(choice, usize::MAX, |_| ());
    std::thread::scope(|scope| {
        for t in 0..8 {
            scope.spawn(move || {
                let streams: Vec<_> = (0..40).map(|_| client(addr)).collect();
                for round in 0..20 {
                    for (i, stream) in streams.iter().enumerate() {
                        let data = pattern(t * 1000 + i as u64, 1 + (round * 37 + i * 101) % 5000);
                        (&mut &*stream).write_all(&data).unwrap();
                    }
                    for (i, stream) in streams.iter().enumerate() {
                        let data = pattern(t * 1000 + i as u64, 1 + (round * 37 + i * 101) % 5000);
                        let mut back = vec![0; data.len()];
                        (&mut &*stream).read_exact(&mut back).unwrap();
                        assert_eq!(back, data);
                    }
                }
            });
        }
    });
    assert_eq!(server.call("accepted"), "320");
    eventually("all are closed", || server.call("connections") == "0");
    server.stop().unwrap();
}

fn echoes_big_transfers(choice: Choice) {
    let (server, addr) = echo(choice, usize::MAX, |_| ());
    std::thread::scope(|scope| {
        for (i, mib) in [4, 9, 33].into_iter().enumerate() {
            scope.spawn(move || transfer(&client(addr), &pattern(i as u64, (mib << 20) + 4321 * i), i as u64));
        }
    });
    server.stop().unwrap();
}

fn pushes_back(choice: Choice) {
    let window = 300_000;
    let (server, addr) = echo(choice, window, |_| ());
    let stream = client(addr);
    // Nobody reads: the server must stop to receive, and the kernel's buffers end the writing.
    stream.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
    let data = vec![1; 1 << 16];
    let mut written = 0u64;
    loop {
        match (&stream).write(&data) {
            Ok(n) => written += n as u64,
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => break,
            Err(e) => panic!("{e}"),
        }
        assert!(written < 1 << 30, "nothing holds the writer back");
    }
    let most: usize = server.call("most unsent").parse().unwrap();
    assert!(most < window + (1 << 16), "{most} bytes were waiting");
    // Reading sets it free again.
    let mut back = vec![0; 1 << 20];
    while written > 0 {
        let n = (&stream).read(&mut back).unwrap();
        assert!(n > 0 && back[..n].iter().all(|&b| b == 1));
        written -= n as u64;
    }
    drop(stream);
    eventually("it is closed", || server.call("connections") == "0");
    server.stop().unwrap();
}

fn notices_cut_connections(choice: Choice) {
    let (server, addr) = echo(choice, usize::MAX, |_| ());
    for round in 0..30 {
        let stream = client(addr);
        (&stream).write_all(&pattern(round, 100_000)).unwrap();
        match round % 3 {
            0 => drop(stream), // with unread bytes: a reset
            1 => {
                // Half-open: the echo of everything may or may not come, then the end does.
                stream.shutdown(Shutdown::Write).unwrap();
                let mut all = Vec::new();
                let _ = (&stream).read_to_end(&mut all);
                assert!(all.len() <= 100_000);
            }
            _ => {
                let mut some = [0; 1000];
                (&stream).read_exact(&mut some).unwrap();
                stream.shutdown(Shutdown::Both).unwrap();
            }
        }
    }
    eventually("all are closed", || server.call("connections") == "0");
    assert_eq!(server.call("accepted"), "30");
    transfer(&client(addr), &pattern(1, 100_000), 1);
    server.stop().unwrap();
}

fn closes_after_the_last_word(choice: Choice) {
    let (server, addr) = echo(choice, usize::MAX, |_| ());
    let mut stream = client(addr);
    stream.write_all(b"close me").unwrap();
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    assert_eq!(all, b"farewell");
    assert_eq!(server.call("connections"), "0");
    server.stop().unwrap();
}

fn closes_on_a_silent_peer(choice: Choice) {
    let (server, addr) = echo(choice, 64 << 20, |_| ());
    let stream = client(addr);
    stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    // The server's sends stick, then it is told to close: it may wait a second, not for ever.
    let data = vec![1; 1 << 16];
    let mut sent = 0;
    while sent < 30 << 20 && (&stream).write_all(&data).is_ok() {
        sent += data.len();
    }
    std::thread::sleep(Duration::from_millis(50));
    let _ = (&stream).write_all(b"close me");
    eventually("the machine is rid of it", || server.call("connections") == "0" || (&stream).write_all(b"close me").is_err());
    let begin = Instant::now();
    server.stop().unwrap();
    assert!(begin.elapsed() < Duration::from_secs(3), "a peer that does not read holds nobody up");
}

/// Connects, sends `left` bytes in one rope, and checks that they come back.
struct Sender {
    to: SocketAddr,
    data: Bytes,
    got: usize,
    sent: usize,
    call: Option<CallId>,
    started: bool,
    outcome: Option<String>,
}

impl Node for Sender {
    fn handle(&mut self, _: Now, input: Input, out: &mut Outputs) {
        let conn = ConnId(1);
        match input {
            Input::Connected { conn: c, local } => {
                assert!(c == conn && local.port() != 0);
                let mut data = types::Rope::new();
                let mut random = Random(5);
                let mut at = 0;
                while at < self.data.len() {
                    let n = (random.below(20_000) as usize + 1).min(self.data.len() - at);
                    data.push(self.data.slice(at..at + n));
                    at += n;
                }
                out.push(Output::Send { conn, data });
                out.push(Output::Receive { conn, buf: Buf::new(100_000) });
            }
            Input::Received { conn, buf, len } => {
                assert!(buf[..len] == self.data[self.got..self.got + len], "the same bytes come back");
                self.got += len;
                match self.got == self.data.len() {
                    false => out.push(Output::Receive { conn, buf }),
                    true => {
                        out.push(Output::Close { conn });
                        self.outcome = Some(format!("{} back, {} sent", self.got, self.sent));
                    }
                }
            }
            Input::Sent { bytes, .. } => self.sent += bytes,
            Input::Closed { why, refused, .. } => self.outcome = Some(if refused { format!("no listener: {why}") } else { why }),
            Input::Call { call, .. } => self.call = Some(call),
            Input::Stop => out.push(Output::Stopped),
            other => panic!("not expected: {other:?}"),
        }
    }

    fn turn(&mut self, _: Now, out: &mut Outputs) {
        if !self.started {
            self.started = true;
            out.push(Output::Connect { conn: ConnId(1), to: self.to });
        }
        if let (Some(text), Some(call)) = (&self.outcome, self.call.take_if(|_| self.outcome.is_some())) {
            out.push(Output::Answer { call, result: 0, text: text.clone() });
        }
    }

    fn deadline(&self) -> Mono {
        Mono::NEVER
    }
}

fn sender(choice: Choice, to: SocketAddr, len: usize) -> Running {
    let data = Bytes::from(pattern(3, len));
    let make =
        move || -> Box<dyn Node> { Box::new(Sender { to, data, got: 0, sent: 0, call: None, started: false, outcome: None }) };
    Running::start(choice, Setup::new(), make)
}

fn connects_and_transfers(choice: Choice) {
    let (server, addr) = echo(choice, usize::MAX, |_| ());
    let len = (16 << 20) + 17;
    let sender = sender(choice, addr, len);
    assert_eq!(sender.call("outcome"), format!("{len} back, {len} sent"));
    sender.stop().unwrap();
    eventually("it is closed", || server.call("connections") == "0");
    server.stop().unwrap();
}

fn tells_failed_connects(choice: Choice) {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let sender = sender(choice, nobody, 1);
    let why = sender.call("outcome");
    assert!(why.starts_with("no listener: connect") && why.contains("refused"), "{why}");
    sender.stop().unwrap();
}

fn answers_calls_and_stops(choice: Choice) {
    let (server, _) = echo(choice, usize::MAX, |_| ());
    let caller = server.caller.clone();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..200 {
                    assert_eq!(caller.call("connections", Duration::from_secs(20)).unwrap().text, "0");
                }
            });
        }
    });
    assert_eq!(caller.call("nonsense", Duration::from_secs(20)).unwrap().result, -22);
    assert_eq!(caller.call("silence", Duration::from_millis(20)).unwrap_err(), CallError::TimedOut);
    let open = caller.begin("silence").unwrap();
    server.stop().unwrap();
    assert!(open.recv().is_err(), "who waits is told that the machine has ended");
    assert_eq!(caller.call("connections", Duration::from_secs(1)).unwrap_err(), CallError::Stopped);
}

fn gives_last_words(choice: Choice) {
    let (server, addr) = echo(choice, usize::MAX, |_| ());
    let mut stream = client(addr);
    transfer(&stream, b"hello", 1);
    server.call("last words");
    let reader = std::thread::spawn(move || {
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        all.len()
    });
    server.stop().unwrap();
    assert_eq!(reader.join().unwrap(), 3 << 20);
}

fn ends_on_fatal(choice: Choice) {
    let (server, addr) = echo(choice, usize::MAX, |_| ());
    let _stream = client(addr);
    server.call("fatal");
    assert!(matches!(server.wait(), Err(RunError::Fatal(text)) if text == "as told"));
}

fn survives_a_panic_with_buffers_in_flight(choice: Choice) {
    let (server, addr) = echo(choice, usize::MAX, |_| ());
    let streams: Vec<_> = (0..20).map(|_| client(addr)).collect();
    streams.iter().for_each(|s| transfer(s, b"x", 1));
    assert_eq!(server.caller.call("panic", Duration::from_secs(5)).unwrap_err(), CallError::Stopped);
    for mut stream in streams {
        assert!(matches!(stream.read(&mut [0; 10]), Ok(0) | Err(_)), "the sockets are closed");
    }
    let joined = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| server.wait()));
    assert!(joined.is_err());
}

/// Descriptors of this process that are sockets to or from `port`, or not sockets at all, cannot be told apart from
/// those of tests that run beside; so the count is taken in a child process that runs this test alone.
fn leaks_nothing(choice: Choice) {
    const ALONE: &str = "RUNTIME_TEST_ALONE";
    if std::env::var_os(ALONE).is_none() {
        let name = if choice == Choice::Uring { "uring::leaks_nothing" } else { "epoll::leaks_nothing" };
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        let done = child.args(["--exact", name, "--test-threads=1"]).env(ALONE, "1").output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
        return;
    }
    let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let round = || {
        let (server, addr) = echo(choice, usize::MAX, |_| ());
        for _ in 0..30 {
            transfer(&client(addr), &pattern(1, 10_000), 1);
        }
        let kept = client(addr);
        transfer(&kept, b"hello", 1);
        eventually("the others are closed", || server.call("connections") == "1");
        server.stop().unwrap();
    };
    round();
    let before = open();
    (0..5).for_each(|_| round());
    assert_eq!(open(), before);
}

fn limits_connections(choice: Choice) {
    let (server, addr) = echo(choice, usize::MAX, |setup| setup.max_connections = 3);
    let mut streams: Vec<_> = (0..5).map(|_| client(addr)).collect();
    streams.iter().take(3).for_each(|s| transfer(s, b"in", 1));
    assert_eq!(server.call("connections"), "3");
    // When one leaves, the next gets in.
    streams.remove(0);
    transfer(&streams[2], b"next", 1);
    assert_eq!(server.call("connections"), "3");
    streams.remove(0);
    transfer(&streams[2], b"last", 1);
    server.stop().unwrap();
}
