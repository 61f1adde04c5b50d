//! The simulator itself, with machines small enough to know what they must see.

use bytes::Bytes;
use node::{Buf, Compute, ConnId, DeviceId, DiskOp, DiskRequest, Input, MailId, Mono, Node, Now, Output, Outputs, Token};
use sim::disk::DiskConfig;
use sim::world::{Boot, Crash, HostConfig, HostId, World};
use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use types::Rope;

fn address() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 7000))
}

/// Sends back what it receives.
struct Echo;

impl Node for Echo {
    fn handle(&mut self, _: Now, input: Input, out: &mut Outputs) {
        match input {
            Input::Accepted { conn, .. } => out.push(Output::Receive { conn, buf: Buf::new(5000) }),
            Input::Received { conn, buf, len } => {
                out.push(Output::Send { conn, data: Rope::from(Bytes::copy_from_slice(&buf[..len])) });
                out.push(Output::Receive { conn, buf });
            }
            _ => {}
        }
    }
    fn turn(&mut self, _: Now, _: &mut Outputs) {}
    fn deadline(&self) -> Mono {
        Mono::NEVER
    }
}

#[derive(Default)]
struct Seen {
    bytes: usize,
    breaks: usize,
    sent: usize,
}

/// Streams a pattern, checks that the echo has it, reconnects 100 ms after a break.
struct Talker {
    conn: u64,
    sent: usize,
    back: usize,
    again: Mono,
    seen: Rc<RefCell<Seen>>,
}

const MOST: usize = 300_000;

fn pattern(at: usize) -> u8 {
    (at as u32).wrapping_mul(2_654_435_761).to_be_bytes()[0]
}

impl Node for Talker {
    fn handle(&mut self, now: Now, input: Input, out: &mut Outputs) {
        match input {
            Input::Connected { conn, .. } => {
                assert_eq!(conn.0, self.conn);
                let data: Vec<u8> = (0..MOST).map(pattern).collect();
                out.push(Output::Send { conn, data: data.into() });
                out.push(Output::Receive { conn, buf: Buf::new(9000) });
            }
            Input::Received { conn, buf, len } => {
                assert!(buf[..len].iter().enumerate().all(|(i, b)| *b == pattern(self.back + i)), "wrong at {}", self.back);
                self.back += len;
                self.seen.borrow_mut().bytes += len;
                if self.back == MOST {
                    out.push(Output::Close { conn });
                    self.again = now.mono.plus(Duration::from_millis(100));
                } else {
                    out.push(Output::Receive { conn, buf });
                }
            }
            Input::Sent { bytes, .. } => {
                self.sent += bytes;
                self.seen.borrow_mut().sent += bytes;
                assert!(self.sent <= MOST);
            }
            Input::Closed { .. } => {
                self.seen.borrow_mut().breaks += 1;
                self.again = now.mono.plus(Duration::from_millis(100));
            }
            _ => {}
        }
    }
    fn turn(&mut self, now: Now, out: &mut Outputs) {
        if self.again <= now.mono {
            self.again = Mono::NEVER;
            self.conn += 2;
            (self.sent, self.back) = (0, 0);
            out.push(Output::Connect { conn: ConnId(self.conn), to: address() });
        }
    }
    fn deadline(&self) -> Mono {
        self.again
    }
}

fn host(name: &str, listen: Vec<SocketAddr>, mut make: impl FnMut(Boot) -> Box<dyn Node> + 'static) -> HostConfig {
    HostConfig { name: name.into(), listen, disks: vec![DiskConfig::default()], factory: Box::new(move |boot| make(boot)) }
}

fn talk(seed: u64) -> (World, HostId, HostId, Rc<RefCell<Seen>>) {
    let mut world = World::new(seed);
    let server = world.add(host("echo", vec![address()], |_| Box::new(Echo)));
    let seen = Rc::new(RefCell::new(Seen::default()));
    let shared = seen.clone();
    let client = world.add(host("talker", vec![], move |boot| {
        Box::new(Talker { conn: 1, sent: 0, back: 0, again: boot.now.mono, seen: shared.clone() })
    }));
    world.start(server);
    world.start(client);
    (world, server, client, seen)
}

#[test]
fn streams_arrive_in_order_and_whole() {
    let (mut world, .., seen) = talk(1);
    world.run_for(Duration::from_secs(2));
    let seen = seen.borrow();
    assert!(seen.bytes > 10 * MOST && seen.sent >= seen.bytes, "{} bytes came back", seen.bytes);
    assert_eq!(seen.breaks, 0);
}

#[test]
fn breaks_crashes_and_partitions_are_seen_and_life_goes_on() {
    for seed in 0..10 {
        let (mut world, server, client, seen) = talk(seed);
        for round in 0..20 {
            world.run_for(Duration::from_millis(50 + 13 * round));
            match round % 4 {
                0 => world.net.break_after(20_000 * round),
                1 => assert!(world.break_any_link() || world.net.links() == 0),
                2 => {
                    world.crash(server, if round % 8 == 2 { Crash::Process } else { Crash::Power });
                    world.run_for(Duration::from_millis(300));
                    world.start(server);
                }
                _ => {
                    world.net.partition(server, client);
                    let before = seen.borrow().bytes;
                    world.run_for(Duration::from_secs(3));
                    assert_eq!(seen.borrow().bytes, before, "nothing passes a partition");
                    world.heal();
                }
            }
        }
        let before = seen.borrow().bytes;
        world.run_for(Duration::from_secs(8));
        assert!(seen.borrow().breaks >= 8, "seed {seed}: {} breaks", seen.borrow().breaks);
        assert!(seen.borrow().bytes > before + MOST, "seed {seed}: it goes on");
    }
}

#[test]
fn a_seed_replays_identically_and_another_does_not() {
    let run = |seed| {
        let (mut world, server, ..) = talk(seed);
        world.run_for(Duration::from_millis(300));
        world.crash(server, Crash::Power);
        world.run_for(Duration::from_millis(300));
        world.start(server);
        world.run_for(Duration::from_secs(1));
        (world.trace.hash(), world.trace.events())
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5), run(6));
}

/// Writes its life's number durably at block `life`, then one that is not durable, and reads the first back.
struct Scribe {
    life: u64,
    state: u8,
    log: Rc<RefCell<Vec<(u64, u8)>>>,
}

impl Node for Scribe {
    fn handle(&mut self, _: Now, input: Input, _: &mut Outputs) {
        if let Input::Disk(done) = input {
            assert!(done.result.is_ok());
            self.state += 1;
            self.log.borrow_mut().push((self.life, self.state));
        }
    }
    fn turn(&mut self, _: Now, out: &mut Outputs) {
        if self.state.is_multiple_of(2) && self.state < 4 {
            let (offset, data) = (self.life * 8192 + u64::from(self.state) * 2048, vec![self.life as u8; 4096].into());
            let op = DiskOp::Write { offset, data, durable: self.state == 0 };
            out.push(Output::Disk(DiskRequest { token: Token(1), device: DeviceId(0), op }));
            self.state += 1;
        }
    }
    fn deadline(&self) -> Mono {
        Mono::NEVER
    }
}

#[test]
fn a_host_is_rebuilt_from_its_disk() {
    let mut world = World::new(3);
    let log = Rc::new(RefCell::new(Vec::new()));
    let shared = log.clone();
    let scribe =
        world.add(host("scribe", vec![], move |boot| Box::new(Scribe { life: boot.life + 1, state: 0, log: shared.clone() })));
    for life in 1..=50u64 {
        world.start(scribe);
        world.crash_at_write(scribe, 2, Crash::Power);
        world.run_for(Duration::from_millis(10));
        assert!(!world.is_up(scribe), "it died at its second write");
        for earlier in 1..=life {
            assert_eq!(world.disk(scribe, 0).image(earlier * 8192, 4096), vec![earlier as u8; 4096]);
        }
    }
    assert_eq!((world.armed_crashes, log.borrow().len()), (50, 50));
}

/// What came, as queue (100 for mail) and number.
type Came = Rc<RefCell<Vec<(u32, u64)>>>;

/// Puts work of two queues out and mails each result to the other; keeps what came in which order.
struct Clerk {
    other: MailId,
    put: u64,
    at: Mono,
    seen: Came,
}

const PIECES: u64 = 60;

impl Node for Clerk {
    fn handle(&mut self, now: Now, input: Input, out: &mut Outputs) {
        match input {
            Input::Computed { token, result } => {
                let squared = *result.downcast::<u64>().expect("a number");
                assert_eq!(squared, token.0 * token.0);
                self.seen.borrow_mut().push(((token.0 % 2) as u32, token.0));
                out.push(Output::Mail { to: self.other, mail: Box::new(token.0) });
            }
            Input::Mail { from, mail } => {
                assert_eq!(from, self.other);
                self.seen.borrow_mut().push((100, *mail.downcast::<u64>().expect("a number")));
            }
            _ => {}
        }
        self.at = self.at.max(now.mono);
    }

    fn turn(&mut self, now: Now, out: &mut Outputs) {
        if now.mono >= self.at && self.put < PIECES {
            self.put += 1;
            let n = self.put;
            let work = Box::new(move || -> node::Mail { Box::new(n * n) });
            out.push(Output::Compute(Compute { token: Token(n), queue: (n % 2) as u32, nanos: 100_000 * (n % 7), work }));
            self.at = now.mono.plus(Duration::from_micros(30));
        }
    }

    fn deadline(&self) -> Mono {
        if self.put < PIECES { self.at } else { Mono::NEVER }
    }
}

fn two_clerks(seed: u64, crash: bool) -> Vec<(u32, u64)> {
    let mut world = World::new(seed);
    let seen: [Came; 2] = Default::default();
    let hosts: Vec<HostId> = (0..2u32)
        .map(|i| {
            let seen = seen[i as usize].clone();
            let make = move |boot: Boot| -> Box<dyn Node> {
                Box::new(Clerk { other: MailId(1 - i), put: 0, at: boot.now.mono, seen: seen.clone() })
            };
            let host =
                world.add(HostConfig { name: format!("clerk.{i}"), listen: vec![], disks: vec![], factory: Box::new(make) });
            world.give_address(host, MailId(i));
            world.start(host);
            host
        })
        .collect();
    if crash {
        world.run_for(Duration::from_micros(900));
        world.crash(hosts[1], Crash::Process);
        seen[1].borrow_mut().clear();
        world.run_for(Duration::from_micros(300));
        world.start(hosts[1]);
    }
    world.run_for(Duration::from_secs(1));
    let seen = seen[1].borrow();
    seen.clone()
}

fn of_line(seen: &[(u32, u64)], line: u32) -> Vec<u64> {
    seen.iter().filter(|(of, _)| *of == line).map(|(_, n)| *n).collect()
}

#[test]
fn work_and_mail_come_late_in_order_and_mixed_with_others() {
    let mut mixed = 0;
    for seed in 0..20 {
        let seen = two_clerks(seed, false);
        let results: Vec<u64> = seen.iter().filter(|(line, _)| *line < 100).map(|(_, n)| *n).collect();
        let sorted = |line| (1..=PIECES).filter(|n| n % 2 == line).collect::<Vec<_>>();
        assert_eq!((of_line(&seen, 0), of_line(&seen, 1)), (sorted(0), sorted(1)), "each queue in order");
        mixed += usize::from(!results.is_sorted());
        let mail = of_line(&seen, 100);
        assert_eq!(mail.len() as u64, PIECES);
        assert_eq!(two_clerks(seed, false), seen, "the same seed is the same run");
    }
    assert!(mixed > 10, "results of two queues overtake each other: {mixed} of 20");
}

#[test]
fn a_machine_that_died_gets_no_result_and_no_mail_of_its_earlier_life() {
    for seed in 0..20 {
        let seen = two_clerks(seed, true);
        let sorted = |line| (1..=PIECES).filter(|n| n % 2 == line).collect::<Vec<_>>();
        assert_eq!((of_line(&seen, 0), of_line(&seen, 1)), (sorted(0), sorted(1)), "the second life's work, once");
        assert!((of_line(&seen, 100).len() as u64) < PIECES, "what was sent to the dead is lost");
    }
}
