//! A network in memory: cuts bytes anywhere, reorders nothing, loses connections.

use super::Dice;
use crate::{Event, Messenger};
use node::{Buf, ConnId, Input, ListenerId, Mono, Now, Output, Outputs};
use std::collections::VecDeque;
use std::net::SocketAddr;
use types::{SessionId, UTime};

/// One end of a connection.
struct End {
    node: usize,
    conn: ConnId,
    /// Bytes on their way to this end.
    pipe: VecDeque<u8>,
    buf: Option<Buf>,
    /// Bytes that this end sent and the kernel did not take yet.
    unsent: VecDeque<u8>,
    closed: bool,
    /// It said `Close` itself.
    finished: bool,
}

/// Session, bytes and tid of a message that was not given back.
type Held = (SessionId, usize, u64);

pub(super) struct Net {
    pub(super) nodes: Vec<Messenger>,
    pub(super) events: Vec<Vec<Event>>,
    pub(super) logs: Vec<String>,
    links: Vec<[End; 2]>,
    addrs: Vec<SocketAddr>,
    next_conn: u64,
    pub(super) now: u64,
    pub(super) dice: Dice,
    /// Chance in a million that a step breaks a connection.
    pub(super) breaks: u64,
    /// A node whose messages are not given back, and what it holds.
    pub(super) held: Option<(usize, VecDeque<Held>)>,
    /// A node that receives nothing.
    pub(super) deaf: Option<usize>,
    /// Time stands still when nothing else happens.
    pub(super) still: bool,
    /// Most bytes delivered at once.
    pub(super) grain: usize,
}

impl Net {
    pub(super) fn new(nodes: Vec<(Messenger, SocketAddr)>, seed: u64) -> Self {
        let (nodes, addrs): (Vec<_>, Vec<_>) = nodes.into_iter().unzip();
        Self {
            events: nodes.iter().map(|_| Vec::new()).collect(),
            nodes,
            addrs,
            logs: Vec::new(),
            links: Vec::new(),
            next_conn: 2,
            now: 1_000_000_000,
            dice: Dice(seed),
            breaks: 0,
            still: false,
            deaf: None,
            held: None,
            grain: 100_000,
        }
    }

    pub(super) fn time(&self) -> Now {
        Now { mono: Mono(self.now), wall: UTime::from_nanos(1_700_000_000_000_000_000 + self.now) }
    }

    /// Lets a node do something.
    pub(super) fn act<R>(&mut self, node: usize, f: impl FnOnce(&mut Messenger, Now, &mut Outputs) -> R) -> R {
        let mut out = Outputs::default();
        let now = self.time();
        let result = f(&mut self.nodes[node], now, &mut out);
        self.nodes[node].turn(now, &mut out);
        self.carry(node, out);
        while let Some(event) = self.nodes[node].poll_event() {
            match (&event, &mut self.held) {
                (Event::Message { session, bytes, message }, Some((holder, held))) if *holder == node => {
                    held.push_back((*session, *bytes, message.tid));
                }
                (Event::Message { session, bytes, .. }, _) => self.nodes[node].done(*session, *bytes),
                _ => {}
            }
            self.events[node].push(event);
        }
        result
    }

    fn end(&mut self, node: usize, conn: ConnId) -> Option<(&mut End, &mut End)> {
        self.links.iter_mut().find_map(|[a, b]| {
            if (a.node, a.conn) == (node, conn) {
                Some((a, b))
            } else if (b.node, b.conn) == (node, conn) {
                Some((b, a))
            } else {
                None
            }
        })
    }

    fn carry(&mut self, node: usize, out: Outputs) {
        for output in out.0 {
            match output {
                Output::Connect { conn, to } => self.connect(node, conn, to),
                Output::Receive { conn, buf } => {
                    if let Some((end, _)) = self.end(node, conn) {
                        assert!(end.buf.is_none(), "one receive at a time");
                        assert!(!buf.is_empty());
                        end.buf = Some(buf);
                    }
                }
                Output::Send { conn, data } => {
                    if let Some((end, _)) = self.end(node, conn) {
                        end.unsent.extend(data.to_vec());
                    }
                }
                Output::Close { conn } => {
                    if let Some((end, peer)) = self.end(node, conn) {
                        end.finished = true;
                        peer.pipe.extend(end.unsent.drain(..));
                    }
                }
                Output::Log(line) => self.logs.push(format!("{node} {:?} {}", line.level, line.text)),
                other => panic!("unexpected output {other:?}"),
            }
        }
    }

    fn connect(&mut self, node: usize, conn: ConnId, to: SocketAddr) {
        let Some(server) = self.addrs.iter().position(|a| *a == to) else {
            let end = |node, conn| End {
                node,
                conn,
                pipe: VecDeque::new(),
                buf: None,
                unsent: VecDeque::new(),
                closed: false,
                finished: true,
            };
            let mut mine = end(node, conn);
            mine.finished = false;
            self.links.push([mine, end(usize::MAX, ConnId(0))]);
            return;
        };
        let accepted = ConnId(self.next_conn);
        self.next_conn += 2;
        let end = |node, conn| End {
            node,
            conn,
            pipe: VecDeque::new(),
            buf: None,
            unsent: VecDeque::new(),
            closed: false,
            finished: false,
        };
        self.links.push([end(node, conn), end(server, accepted)]);
        let client: SocketAddr = format!("10.0.0.{}:4000", node + 1).parse().unwrap();
        self.act(server, |m, now, out| {
            m.handle(now, Input::Accepted { listener: ListenerId(0), conn: accepted, peer: client, local: to }, out)
        });
        self.act(node, |m, now, out| m.handle(now, Input::Connected { conn, local: client }, out));
    }

    /// Breaks every connection.
    pub(super) fn break_all(&mut self) {
        for i in 0..self.links.len() {
            self.break_link(i);
        }
    }

    fn break_link(&mut self, i: usize) {
        for end in &mut self.links[i] {
            end.unsent.clear();
            end.closed = true;
            // Some of what was under way still arrives.
            let keep = self.dice.below(end.pipe.len() + 1);
            end.pipe.truncate(keep);
        }
    }

    /// One random thing happens. False if nothing could.
    pub(super) fn step(&mut self) -> bool {
        if self.breaks > 0 && !self.links.is_empty() && self.dice.next() % 1_000_000 < self.breaks {
            let i = self.dice.below(self.links.len());
            self.break_link(i);
        }
        let mut possible = Vec::new();
        for (i, ends) in self.links.iter().enumerate() {
            for side in 0..2 {
                let (end, peer) = (&ends[side], &ends[1 - side]);
                let deaf = self.deaf == Some(end.node);
                if !end.finished && end.buf.is_some() && !end.pipe.is_empty() && !deaf {
                    possible.push((i, side, 0));
                }
                let stuffed = self.deaf == Some(peer.node) && peer.pipe.len() > 50_000;
                if !end.finished && !end.closed && !end.unsent.is_empty() && !stuffed {
                    possible.push((i, side, 1));
                }
                if !end.finished && end.pipe.is_empty() && (end.closed || peer.finished) {
                    possible.push((i, side, 2));
                }
            }
        }
        if possible.is_empty() {
            return !self.still && self.pass();
        }
        let (i, side, what) = possible[self.dice.below(possible.len())];
        let grain = 1 + self.dice.below(self.grain);
        let [a, b] = &mut self.links[i];
        let (end, peer) = if side == 0 { (a, b) } else { (b, a) };
        let (node, conn) = (end.node, end.conn);
        let input = match what {
            0 => {
                let mut buf = end.buf.take().unwrap();
                let n = grain.min(buf.len()).min(end.pipe.len());
                for (to, from) in buf.iter_mut().zip(end.pipe.drain(..n)) {
                    *to = from;
                }
                Input::Received { conn, buf, len: n }
            }
            1 => {
                let n = grain.min(end.unsent.len());
                peer.pipe.extend(end.unsent.drain(..n));
                Input::Sent { conn, bytes: n }
            }
            _ => {
                end.finished = true;
                Input::Closed { conn, refused: false, why: "connection reset".into() }
            }
        };
        self.now += 1_000;
        self.act(node, |m, now, out| m.handle(now, input, out));
        self.links.retain(|ends| !ends.iter().all(|end| end.finished || end.node == usize::MAX));
        true
    }

    /// Time goes on to the next deadline, if it is less than a minute away.
    fn pass(&mut self) -> bool {
        let next = self.nodes.iter().map(|m| m.deadline().0).min().unwrap_or(u64::MAX);
        if next > self.now + 60_000_000_000 {
            return false;
        }
        self.now = self.now.max(next);
        for node in 0..self.nodes.len() {
            self.act(node, |_, _, _| ());
        }
        true
    }

    /// Until `done`, at most `steps`.
    pub(super) fn run(&mut self, steps: usize, mut done: impl FnMut(&Net) -> bool) -> bool {
        for _ in 0..steps {
            if done(self) {
                return true;
            }
            if !self.step() {
                break;
            }
        }
        done(self)
    }
}
