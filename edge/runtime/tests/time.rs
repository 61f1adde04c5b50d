//! Deadlines under both drivers.

mod common;

use common::Running;
use node::{Input, Mono, Node, Now, Output, Outputs};
use runtime::{Choice, Setup};
use std::time::Duration;

both_drivers!(meets_deadlines, sleeps_when_idle, lets_who_asks_for_nothing_wait);

/// Sets deadlines of growing distance and tells how late they were met.
struct Timer {
    next: Option<Mono>,
    met: usize,
    turns: usize,
    late: Vec<Duration>,
    call: Option<node::CallId>,
}

const STEPS: usize = 60;

impl Node for Timer {
    fn handle(&mut self, now: Now, input: Input, out: &mut Outputs) {
        match input {
            Input::Call { call, .. } if self.met == usize::MAX => {
                out.push(Output::Answer { call, result: 0, text: self.turns.to_string() });
            }
            Input::Call { call, .. } => {
                self.call = Some(call);
                self.next = Some(now.mono.plus(Duration::from_micros(100)));
            }
            Input::Stop => out.push(Output::Stopped),
            other => panic!("{other:?}"),
        }
    }

    fn turn(&mut self, now: Now, out: &mut Outputs) {
        self.turns += 1;
        let Some(at) = self.next.filter(|&at| at <= now.mono) else { return };
        self.late.push(now.mono.since(at));
        self.met += 1;
        self.next = (self.met < STEPS).then(|| now.mono.plus(Duration::from_micros(50 * self.met as u64)));
        if self.next.is_none()
            && let Some(call) = self.call.take()
        {
            self.late.sort();
            let text = format!("{} {}", self.late[STEPS / 2].as_micros(), self.turns);
            out.push(Output::Answer { call, result: 0, text });
        }
    }

    fn deadline(&self) -> Mono {
        self.next.unwrap_or(Mono::NEVER)
    }
}

fn meets_deadlines(choice: Choice) {
    let make = || -> Box<dyn Node> { Box::new(Timer { next: None, met: 0, turns: 0, late: Vec::new(), call: None }) };
    let timer = Running::start(choice, Setup::new(), make);
    let text = timer.call("begin");
    let (late, turns) = text.split_once(' ').unwrap();
    assert!(late.parse::<u64>().unwrap() < 5_000, "the median deadline was met {late} µs late");
    // Each deadline takes a wait and a turn; a driver that spins instead takes many.
    assert!(turns.parse::<usize>().unwrap() < 4 * STEPS, "{turns} turns");
    timer.stop().unwrap();
}

fn sleeps_when_idle(choice: Choice) {
    let make = || -> Box<dyn Node> { Box::new(Timer { next: None, met: usize::MAX, turns: 0, late: Vec::new(), call: None }) };
    let mut setup = Setup::new();
    setup.spin = Some(Duration::from_micros(50));
    setup.listeners.push((node::ListenerId(0), std::net::TcpListener::bind("127.0.0.1:0").unwrap()));
    let idle = Running::start(choice, setup, make);
    let before: usize = idle.call("turns").parse().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let after: usize = idle.call("turns").parse().unwrap();
    assert!(after - before < 10, "{} turns without work", after - before);
    idle.stop().unwrap();
}

/// Wants to be woken at a moment that is past, and does nothing then.
struct Restless {
    turns: u64,
    wakes: node::Wakes,
}

impl Node for Restless {
    fn handle(&mut self, _now: Now, input: Input, out: &mut Outputs) {
        match input {
            Input::Call { call, .. } => {
                let text = format!("{} {} {} {}", self.turns, self.wakes.idle, self.wakes.vain, self.wakes.held);
                out.push(Output::Answer { call, result: 0, text });
            }
            Input::Stop => out.push(Output::Stopped),
            other => panic!("{other:?}"),
        }
    }

    fn turn(&mut self, _now: Now, _out: &mut Outputs) {
        self.turns += 1;
    }

    fn deadline(&self) -> Mono {
        Mono(1)
    }

    fn woken(&mut self, wakes: node::Wakes) {
        self.wakes = wakes;
    }
}

/// It is counted, it is written of once, and after a while it takes a small part of a processor.
fn lets_who_asks_for_nothing_wait(choice: Choice) {
    let (send, said) = std::sync::mpsc::channel();
    let mut setup = Setup::new();
    setup.log = Box::new(move |_: types::UTime, line: &node::LogLine| drop(send.send(line.text.clone())));
    let restless =
        Running::start(choice, setup, || -> Box<dyn Node> { Box::new(Restless { turns: 0, wakes: node::Wakes::default() }) });
    let counts = || -> Vec<u64> { restless.call("turns").split(' ').map(|n| n.parse().unwrap()).collect() };
    let end = std::time::Instant::now() + Duration::from_secs(60);
    while counts()[3] == 0 {
        assert!(std::time::Instant::now() < end, "nobody lets it wait: {:?}", counts());
        std::thread::sleep(Duration::from_millis(10));
    }
    // A rate is measured over some time, however long the machine makes of it: 1,000 turns a second that waited for a millisecond,
    // and the 500 a second that are free.
    let (begun, before) = (std::time::Instant::now(), counts());
    std::thread::sleep(Duration::from_millis(500));
    let (after, millis) = (counts(), begun.elapsed().as_millis() as u64);
    assert!(after[0] - before[0] < 2 * millis + 200, "{before:?} {after:?} in {millis} ms");
    assert!(after[1] >= after[2] && after[2] > after[3] && after[3] > before[3], "{after:?}");
    restless.stop().unwrap();
    let lines: Vec<String> = said.try_iter().filter(|line| line.contains("without anything to do")).collect();
    assert_eq!(lines.len(), 1, "{lines:?}");
}
