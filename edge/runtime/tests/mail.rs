//! Mail between machines, and work on threads.

mod common;

use common::{Make, Running, Together};
use node::{CallId, Compute, Input, Mail, MailId, Mono, Node, Now, Output, Outputs, Token};
use runtime::{CallError, Choice, PostOffice, Setup};
use std::thread::ThreadId;
use std::time::Duration;

both_drivers!(
    mail_comes_in_order,
    mail_within_a_thread,
    mail_goes_to_a_successor_elsewhere,
    threads_send_mail_and_get_answers,
    work_comes_back_in_order,
    a_panic_in_work_ends_the_machine
);

/// Sends on what it gets, less one, until nothing is left; then it answers who called.
struct Juggler {
    other: MailId,
    call: Option<CallId>,
    last: [u64; 3],
}

/// A ball: which, and how often it is still to be thrown.
struct Ball(usize, u64);

impl Node for Juggler {
    fn handle(&mut self, _: Now, input: Input, out: &mut Outputs) {
        match input {
            Input::Call { call, command } => {
                self.call = Some(call);
                let times = command.parse().unwrap();
                (0..3).for_each(|n| out.push(Output::Mail { to: self.other, mail: Box::new(Ball(n, times)) }));
                // Nobody is there: lost without harm.
                out.push(Output::Mail { to: MailId(77), mail: Box::new(()) });
            }
            Input::Mail { from, mail } => {
                assert_eq!(from, self.other);
                let Ball(n, times) = *mail.downcast::<Ball>().unwrap();
                assert!(n == 0 || self.last[n - 1] == times, "balls keep their order");
                self.last[n] = times;
                if times > 0 {
                    out.push(Output::Mail { to: self.other, mail: Box::new(Ball(n, times - 1)) });
                } else if n == 2 {
                    let Some(call) = self.call.take() else { return };
                    out.push(Output::Answer { call, result: 0, text: "done".into() });
                }
            }
            Input::Stop => out.push(Output::Stopped),
            other => panic!("{other:?}"),
        }
    }
    fn turn(&mut self, _: Now, _: &mut Outputs) {}
    fn deadline(&self) -> Mono {
        Mono::NEVER
    }
}

fn mail_comes_in_order(choice: Choice) {
    let office = PostOffice::default();
    let start = |me: u32, other: u32| {
        let mut setup = Setup::new();
        setup.post = Some((MailId(me), office.clone()));
        let juggler = Juggler { other: MailId(other), call: None, last: [0; 3] };
        let running = Running::start(choice, setup, move || Box::new(juggler));
        office.register(MailId(me), &running.caller);
        running
    };
    let (one, two) = (start(1, 2), start(2, 1));
    // An odd number of throws ends with who began.
    assert_eq!(one.call("1001"), "done");
    two.stop().unwrap();
    one.stop().unwrap();
}

/// Two machines of one thread, and a third elsewhere: each throws to the next, in order.
fn mail_within_a_thread(choice: Choice) {
    let office = PostOffice::default();
    let makings = |me: u32, other: u32| -> (Setup, Make) {
        let mut setup = Setup::new();
        setup.post = Some((MailId(me), office.clone()));
        (setup, Box::new(move || Box::new(Juggler { other: MailId(other), call: None, last: [0; 3] })))
    };
    let both = Together::start(choice, vec![makings(1, 2), makings(2, 1), makings(3, 4)]);
    let (setup, make) = makings(4, 3);
    let fourth = Running::start(choice, setup, make);
    both.callers.iter().zip([1, 2, 3]).for_each(|(caller, id)| office.register(MailId(id), caller));
    office.register(MailId(4), &fourth.caller);
    assert_eq!(both.call(0, "1001"), "done");
    assert_eq!(both.call(2, "101"), "done");
    fourth.stop().unwrap();
    both.callers.iter().for_each(|caller| caller.stop());
    let mut ends: Vec<_> = (0..3).map(|_| both.next_end()).collect();
    ends.sort();
    assert_eq!(ends, [(0, None), (1, None), (2, None)]);
    both.join();
}

/// One of two machines of a thread has ended, and another thread runs who has its address now.
fn mail_goes_to_a_successor_elsewhere(choice: Choice) {
    let office = PostOffice::default();
    let makings = |me: u32, other: u32| -> (Setup, Make) {
        let mut setup = Setup::new();
        setup.post = Some((MailId(me), office.clone()));
        (setup, Box::new(move || Box::new(Juggler { other: MailId(other), call: None, last: [0; 3] })))
    };
    let both = Together::start(choice, vec![makings(1, 2), makings(2, 1)]);
    both.callers.iter().zip([1, 2]).for_each(|(caller, id)| office.register(MailId(id), caller));
    assert_eq!(both.call(0, "11"), "done");
    both.callers[1].stop();
    assert_eq!(both.next_end(), (1, None));
    let (setup, make) = makings(2, 1);
    let successor = Running::start(choice, setup, make);
    office.register(MailId(2), &successor.caller);
    assert_eq!(both.call(0, "11"), "done");
    successor.stop().unwrap();
    both.callers[0].stop();
    assert_eq!(both.next_end(), (0, None));
    both.join();
}

/// Answers numbers with their squares, to whoever sent them.
struct Squares;

impl Node for Squares {
    fn handle(&mut self, _: Now, input: Input, out: &mut Outputs) {
        match input {
            Input::Mail { from, mail } => {
                let n = *mail.downcast::<u64>().unwrap();
                out.push(Output::Mail { to: from, mail: Box::new((n, n * n)) });
            }
            Input::Stop => out.push(Output::Stopped),
            other => panic!("{other:?}"),
        }
    }
    fn turn(&mut self, _: Now, _: &mut Outputs) {}
    fn deadline(&self) -> Mono {
        Mono::NEVER
    }
}

fn threads_send_mail_and_get_answers(choice: Choice) {
    let office = PostOffice::default();
    let mut setup = Setup::new();
    setup.post = Some((MailId(1), office.clone()));
    let running = Running::start(choice, setup, || Box::new(Squares));
    office.register(MailId(1), &running.caller);
    let ask = |n: u64| {
        let outside = office.outside();
        for n in n..n + 100 {
            outside.send(MailId(1), Box::new(n)).unwrap();
        }
        for n in n..n + 100 {
            let (from, mail) = outside.receive(Duration::from_secs(60)).unwrap();
            assert_eq!((from, *mail.downcast::<(u64, u64)>().unwrap()), (MailId(1), (n, n * n)), "answers keep their order");
        }
    };
    std::thread::scope(|threads| (0..4u64).for_each(|n| drop(threads.spawn(move || ask(n * 1000)))));
    let outside = office.outside();
    assert_ne!(outside.id(), office.outside().id());
    assert_eq!(outside.send(MailId(77), Box::new(())), Err(CallError::Stopped), "nobody is there");
    assert_eq!(outside.receive(Duration::ZERO).map(drop), Err(CallError::TimedOut));
    running.stop().unwrap();
    assert_eq!(outside.send(MailId(1), Box::new(1u64)), Err(CallError::Stopped), "it has ended");
}

/// Puts out pieces of work, short and long, and answers with the numbers in the order in which results came.
struct Boss {
    call: Option<CallId>,
    pieces: usize,
    came: Vec<(u64, ThreadId)>,
}

impl Node for Boss {
    fn handle(&mut self, _: Now, input: Input, out: &mut Outputs) {
        match input {
            Input::Call { command, .. } if command == "panic" => {
                let work = Box::new(|| -> Mail { panic!("on purpose") });
                out.push(Output::Compute(Compute { token: Token(7), queue: 0, nanos: 1 << 30, work }));
            }
            Input::Call { call, command } => {
                self.call = Some(call);
                self.pieces = command.parse().unwrap();
                for n in 0..self.pieces as u64 {
                    let long = n % 5 == 1;
                    let work = Box::new(move || -> Mail {
                        if long {
                            let spun = (0..200_000u64).fold(n, |x, i| std::hint::black_box(x ^ i));
                            std::hint::black_box(spun);
                        }
                        Box::new((n, std::thread::current().id()))
                    });
                    let nanos = if long { 1_000_000 } else { 100 };
                    out.push(Output::Compute(Compute { token: Token(n), queue: (n / 10 % 3) as u32, nanos, work }));
                }
            }
            Input::Computed { token, result } => {
                let (n, thread) = *result.downcast::<(u64, ThreadId)>().unwrap();
                assert_eq!(n, token.0);
                self.came.push((n, thread));
                if self.came.len() == self.pieces {
                    let in_order = (0..3).all(|queue| {
                        let numbers: Vec<u64> = self.came.iter().map(|(n, _)| *n).filter(|n| n / 10 % 3 == queue).collect();
                        numbers.is_sorted()
                    });
                    let here = std::thread::current().id();
                    let away = self.came.iter().filter(|(_, thread)| *thread != here).count();
                    let text = format!("{in_order} {}", away > 0 && away < self.pieces);
                    out.push(Output::Answer { call: self.call.take().unwrap(), result: 0, text });
                }
            }
            Input::Stop => out.push(Output::Stopped),
            other => panic!("{other:?}"),
        }
    }
    fn turn(&mut self, _: Now, _: &mut Outputs) {}
    fn deadline(&self) -> Mono {
        Mono::NEVER
    }
}

fn boss(choice: Choice) -> Running {
    Running::start(choice, Setup::new(), || Box::new(Boss { call: None, pieces: 0, came: Vec::new() }))
}

fn work_comes_back_in_order(choice: Choice) {
    let running = boss(choice);
    assert_eq!(running.call("300"), "true true", "each queue in order; some work here, some on threads");
    running.stop().unwrap();
}

fn a_panic_in_work_ends_the_machine(choice: Choice) {
    let running = boss(choice);
    drop(running.caller.begin("panic").unwrap());
    let why = running.wait().unwrap_err().to_string();
    assert!(why.contains("long work panicked"), "{why}");
}
