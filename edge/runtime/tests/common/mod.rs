//! Machines to drive, and a thread to drive them in.
#![allow(dead_code, unreachable_pub, missing_docs)] // each test file uses a part

use bytes::Bytes;
use node::{Buf, CallId, ConnId, Input, ListenerId, Mono, Node, Now, Output, Outputs};
use runtime::{Caller, Choice, RunError, Setup};
use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::thread::JoinHandle;
use std::time::Duration;
use types::Rope;

/// Runs `$test` under each driver.
#[macro_export]
macro_rules! both_drivers {
    ($($test:ident),* $(,)?) => {
        mod epoll { $( #[test] fn $test() { super::$test(runtime::Choice::Epoll); } )* }
        mod uring { $( #[test] fn $test() {
            match runtime::uring_works() {
                Ok(()) => super::$test(runtime::Choice::Uring),
                Err(e) => eprintln!("not run: io_uring does not work here: {e}"),
            }
        } )* }
    };
}

/// A machine on a thread of its own.
pub struct Running {
    pub caller: Caller,
    thread: Option<JoinHandle<Result<(), RunError>>>,
}

impl Running {
    pub fn start(choice: Choice, mut setup: Setup, make: impl FnOnce() -> Box<dyn Node> + Send + 'static) -> Self {
        let (caller, inbox) = runtime::mailbox().unwrap();
        setup.inbox = Some(inbox);
        setup.driver = choice;
        let thread = std::thread::spawn(move || runtime::run(make(), setup));
        Self { caller, thread: Some(thread) }
    }

    pub fn call(&self, command: &str) -> String {
        let answer = self.caller.call(command, Duration::from_secs(20)).unwrap();
        assert_eq!(answer.result, 0, "{command}: {}", answer.text);
        answer.text
    }

    pub fn stop(mut self) -> Result<(), RunError> {
        self.caller.stop();
        self.thread.take().unwrap().join().unwrap()
    }

    /// Waits for an end that the machine makes itself.
    pub fn wait(mut self) -> Result<(), RunError> {
        self.thread.take().unwrap().join().unwrap()
    }
}

/// Machines that share a thread.
pub struct Together {
    pub callers: Vec<Caller>,
    /// Which has ended, and how.
    pub ended: std::sync::mpsc::Receiver<(usize, Result<(), RunError>)>,
    thread: JoinHandle<Result<(), RunError>>,
}

/// Makes a machine in its thread.
pub type Make = Box<dyn FnOnce() -> Box<dyn Node> + Send>;

impl Together {
    pub fn start(choice: Choice, machines: Vec<(Setup, Make)>) -> Self {
        let (tell, ended) = std::sync::mpsc::channel();
        let mut callers = Vec::new();
        let mut all = Vec::new();
        for (mut setup, make) in machines {
            let (caller, inbox) = runtime::mailbox().unwrap();
            setup.inbox = Some(inbox);
            setup.driver = choice;
            callers.push(caller);
            all.push((setup, make));
        }
        let thread = std::thread::spawn(move || {
            let all = all.into_iter().map(|(setup, make)| (make(), setup)).collect();
            runtime::run_together(all, &mut |at, end| tell.send((at, end)).unwrap())
        });
        Self { callers, ended, thread }
    }

    pub fn call(&self, at: usize, command: &str) -> String {
        self.callers[at].call(command, Duration::from_secs(20)).unwrap().text
    }

    /// Returns which ends next, and why if it was not told to.
    pub fn next_end(&self) -> (usize, Option<String>) {
        let (at, end) = self.ended.recv_timeout(Duration::from_secs(20)).unwrap();
        (at, end.err().map(|e| e.to_string()))
    }

    pub fn join(self) {
        self.thread.join().unwrap().unwrap();
    }
}

/// An echo server; gives its address.
pub fn echo(choice: Choice, window: usize, setup: impl FnOnce(&mut Setup)) -> (Running, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let mut with = Setup::new();
    with.listeners.push((ListenerId(0), listener));
    setup(&mut with);
    (Running::start(choice, with, move || Box::new(Echo { window, ..Echo::default() })), addr)
}

/// The makings of an echo server, and its address.
pub fn echo_parts(window: usize) -> ((Setup, Make), SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let mut with = Setup::new();
    with.listeners.push((ListenerId(0), listener));
    ((with, Box::new(move || Box::new(Echo { window, ..Echo::default() }))), addr)
}

/// Sends back what comes; stops receiving while `window` bytes of a connection are unsent.
#[derive(Default)]
pub struct Echo {
    window: usize,
    conns: BTreeMap<ConnId, EchoConn>,
    accepted: u64,
    most_unsent: usize,
    last_words: bool,
}

#[derive(Default)]
struct EchoConn {
    unsent: usize,
    paused: bool,
}

impl Echo {
    fn received(&mut self, conn: ConnId, buf: Buf, len: usize, out: &mut Outputs) {
        let state = self.conns.get_mut(&conn).expect("no bytes after the end");
        assert!(len > 0 && len <= buf.len());
        let bytes = buf.freeze().slice(..len);
        if &bytes[..] == b"close me" {
            out.push(Output::Send { conn, data: Bytes::from_static(b"farewell").into() });
            out.push(Output::Close { conn });
            self.conns.remove(&conn);
            return;
        }
        state.unsent += len;
        self.most_unsent = self.most_unsent.max(state.unsent);
        // Cut in pieces, so that vectored sends are exercised.
        let mut data = Rope::new();
        let cut = len / 3;
        data.push(bytes.slice(..cut));
        data.push(bytes.slice(cut..));
        out.push(Output::Send { conn, data });
        match state.unsent < self.window {
            true => out.push(Output::Receive { conn, buf: Buf::new(1 << 16) }),
            false => state.paused = true,
        }
    }

    fn sent(&mut self, conn: ConnId, bytes: usize, out: &mut Outputs) {
        let state = self.conns.get_mut(&conn).expect("nothing is told after the end");
        state.unsent = state.unsent.checked_sub(bytes).expect("no more is sent than was to be");
        if state.paused && state.unsent < self.window {
            state.paused = false;
            out.push(Output::Receive { conn, buf: Buf::new(1 << 16) });
        }
    }

    fn call(&mut self, call: CallId, command: &str, out: &mut Outputs) {
        let text = match command {
            "connections" => self.conns.len().to_string(),
            "accepted" => self.accepted.to_string(),
            "most unsent" => self.most_unsent.to_string(),
            "panic" => panic!("as told"),
            "fatal" => {
                out.push(Output::Fatal("as told".into()));
                String::new()
            }
            "silence" => return,
            "last words" => {
                self.last_words = true;
                String::new()
            }
            other => return out.push(Output::Answer { call, result: -22, text: format!("unknown: {other}") }),
        };
        out.push(Output::Answer { call, result: 0, text });
    }
}

impl Node for Echo {
    fn handle(&mut self, _: Now, input: Input, out: &mut Outputs) {
        match input {
            Input::Accepted { listener, conn, peer, local } => {
                assert!(listener == ListenerId(0) && conn.0 % 2 == 0 && peer.ip().is_loopback() && local.ip().is_loopback());
                assert!(self.conns.insert(conn, EchoConn::default()).is_none(), "names are not used again");
                self.accepted += 1;
                out.push(Output::Receive { conn, buf: Buf::new(1 << 16) });
            }
            Input::Received { conn, buf, len } => self.received(conn, buf, len, out),
            Input::Sent { conn, bytes } => self.sent(conn, bytes, out),
            Input::Closed { conn, why, .. } => {
                assert!(!why.is_empty());
                assert!(self.conns.remove(&conn).is_some(), "a connection closes once");
            }
            Input::Call { call, command } => self.call(call, &command, out),
            Input::Stop => {
                if self.last_words {
                    for &conn in self.conns.keys() {
                        out.push(Output::Send { conn, data: vec![7u8; 3 << 20].into() });
                    }
                }
                out.push(Output::Stopped);
            }
            other => panic!("not for an echo: {other:?}"),
        }
    }

    fn turn(&mut self, _: Now, _: &mut Outputs) {}

    fn deadline(&self) -> Mono {
        Mono::NEVER
    }
}

/// A small generator of pseudo-random numbers (splitmix64).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}
