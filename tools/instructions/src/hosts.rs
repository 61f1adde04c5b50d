//! A few machines joined by queues, with disks in memory. Nothing here is random or late: the same program does the
//! same things in the same order, instruction for instruction.

use bytes::Bytes;
use node::{Buf, ConnId, DiskDone, DiskError, DiskOp, DiskOutput, DiskRequest, DiskStat, Input, Level, ListenerId};
use node::{Mono, Node, Now, Output, Outputs};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use types::{Rope, UTime};

/// Time that passes with each round of everybody, in nanoseconds.
const ROUND: u64 = 50_000;
const EPOCH_WALL: u64 = 1_767_225_600_000_000_000;

/// One end of a connection.
struct End {
    peer: (usize, ConnId),
    waiting: VecDeque<Bytes>,
    room: Option<Buf>,
}

/// A disk that completes everything at once.
struct Disk {
    bytes: Vec<u8>,
    len: usize,
}

impl Disk {
    fn run(&mut self, op: DiskOp) -> Result<DiskOutput, DiskError> {
        match op {
            DiskOp::Read { offset, mut buf } => {
                let from = offset as usize;
                if from + buf.len() > self.len {
                    return Err(DiskError::Io(5));
                }
                let end = from + buf.len();
                buf.copy_from_slice(&self.bytes[from..end]);
                Ok(DiskOutput::Read(buf))
            }
            DiskOp::Write { offset, data, .. } => {
                let end = offset as usize + data.len();
                let place = self.bytes.get_mut(offset as usize..end).ok_or(DiskError::NoSpace)?;
                data.copy_to(place);
                self.len = self.len.max(end);
                Ok(DiskOutput::Done)
            }
            DiskOp::Flush | DiskOp::Trim { .. } => Ok(DiskOutput::Done),
            DiskOp::Stat => {
                let (len, capacity) = (self.len as u64, self.bytes.len() as u64);
                Ok(DiskOutput::Stat(DiskStat { len, capacity, host_free: u64::MAX }))
            }
        }
    }
}

/// A machine and what it has.
struct Host {
    node: Box<dyn Node>,
    listen: Option<SocketAddr>,
    inbox: Vec<Input>,
    ends: BTreeMap<ConnId, End>,
    disk: Disk,
    counted: bool,
    started: bool,
}

/// All machines.
#[derive(Default)]
pub(crate) struct Hosts {
    hosts: Vec<Host>,
    now: u64,
    accepted: u64,
}

impl Hosts {
    /// Adds a machine. What a `counted` one does is what callgrind counts.
    pub(crate) fn add(&mut self, node: Box<dyn Node>, listen: Option<SocketAddr>, disk: usize, counted: bool) {
        let disk = Disk { bytes: vec![0; disk], len: 0 };
        self.hosts.push(Host { node, listen, inbox: Vec::new(), ends: BTreeMap::new(), disk, counted, started: false });
    }

    /// Nanoseconds since the beginning.
    pub(crate) fn now(&self) -> u64 {
        self.now
    }

    /// One round of every machine that has something to do; if none has, time jumps to the next deadline.
    pub(crate) fn round(&mut self) {
        self.now += ROUND;
        let mut idle = true;
        for i in 0..self.hosts.len() {
            let host = &mut self.hosts[i];
            if host.started && host.inbox.is_empty() && host.node.deadline().0 > self.now {
                continue;
            }
            idle = false;
            host.started = true;
            let now = Now { mono: Mono(self.now), wall: UTime::from_nanos(EPOCH_WALL + self.now) };
            let inputs = std::mem::take(&mut host.inbox);
            let mut out = Outputs::default();
            let run = if host.counted { counted_round } else { other_round };
            run(&mut *host.node, now, inputs, &mut out);
            out.0.into_iter().for_each(|output| self.carry_out(i, output));
            let Host { node, counted, .. } = &mut self.hosts[i];
            if *counted { counted_end(&mut **node, now) } else { node.carried_out(now) }
        }
        if idle {
            let next = self.hosts.iter().map(|h| h.node.deadline().0).min().unwrap_or(u64::MAX);
            assert_ne!(next, u64::MAX, "nobody will ever do anything again");
            self.now = self.now.max(next);
        }
    }

    fn carry_out(&mut self, me: usize, output: Output) {
        match output {
            Output::Connect { conn, to } => self.connect(me, conn, to),
            Output::Receive { conn, buf } => {
                if let Some(end) = self.hosts[me].ends.get_mut(&conn) {
                    end.room = Some(buf);
                    self.pump(me, conn);
                }
            }
            Output::Send { conn, data } => self.send(me, conn, &data),
            Output::Close { conn } => self.close(me, conn),
            Output::Disk(DiskRequest { token, op, .. }) => {
                let result = self.hosts[me].disk.run(op);
                self.hosts[me].inbox.push(Input::Disk(DiskDone { token, result }));
            }
            Output::Mail { .. } => panic!("the hosts are processes of their own"),
            Output::Compute(node::Compute { token, work, .. }) => {
                self.hosts[me].inbox.push(Input::Computed { token, result: work() });
            }
            Output::Log(line) if line.level <= Level::Warn => eprintln!("{}: {}", line.part, line.text),
            Output::Fatal(why) => panic!("a machine cannot go on: {why}"),
            Output::Log(_) | Output::LogLevel(_) | Output::Memory(_) | Output::Answer { .. } | Output::Stopped => {}
        }
    }

    fn connect(&mut self, me: usize, conn: ConnId, to: SocketAddr) {
        let Some(other) = self.hosts.iter().position(|h| h.listen == Some(to)) else {
            return self.hosts[me].inbox.push(Input::Closed { conn, refused: false, why: "nobody listens".into() });
        };
        self.accepted += 2;
        let theirs = ConnId(self.accepted);
        let local = SocketAddr::from(([10, 0, 9, me as u8], 1000));
        for (host, conn, peer) in [(me, conn, (other, theirs)), (other, theirs, (me, conn))] {
            self.hosts[host].ends.insert(conn, End { peer, waiting: VecDeque::new(), room: None });
        }
        self.hosts[me].inbox.push(Input::Connected { conn, local });
        let accepted = Input::Accepted { listener: ListenerId(0), conn: theirs, peer: local, local: to };
        self.hosts[other].inbox.push(accepted);
    }

    fn send(&mut self, me: usize, conn: ConnId, data: &Rope) {
        let Some(end) = self.hosts[me].ends.get(&conn) else { return };
        let (other, theirs) = end.peer;
        self.hosts[me].inbox.push(Input::Sent { conn, bytes: data.len() });
        if let Some(end) = self.hosts[other].ends.get_mut(&theirs) {
            end.waiting.extend(data.pieces().iter().cloned());
            self.pump(other, theirs);
        }
    }

    /// Gives a machine what waits for it, as far as it made room.
    fn pump(&mut self, host: usize, conn: ConnId) {
        let Host { ends, inbox, .. } = &mut self.hosts[host];
        let Some(end) = ends.get_mut(&conn) else { return };
        if end.waiting.is_empty() {
            return;
        }
        let Some(mut buf) = end.room.take() else { return };
        let mut len = 0;
        while len < buf.len()
            && let Some(mut piece) = end.waiting.pop_front()
        {
            let take = piece.len().min(buf.len() - len);
            buf[len..len + take].copy_from_slice(&piece.split_to(take));
            len += take;
            if !piece.is_empty() {
                end.waiting.push_front(piece);
            }
        }
        inbox.push(Input::Received { conn, buf, len });
    }

    fn close(&mut self, me: usize, conn: ConnId) {
        let Some(End { peer: (other, theirs), .. }) = self.hosts[me].ends.remove(&conn) else { return };
        if self.hosts[other].ends.remove(&theirs).is_some() {
            self.hosts[other].inbox.push(Input::Closed { conn: theirs, refused: false, why: "the other end closed".into() });
        }
    }
}

fn round(node: &mut dyn Node, now: Now, inputs: Vec<Input>, out: &mut Outputs) {
    for input in inputs {
        node.handle(now, input, out);
    }
    node.turn(now, out);
}

/// What callgrind is told to count, by this name.
#[inline(never)]
fn counted_round(node: &mut dyn Node, now: Now, inputs: Vec<Input>, out: &mut Outputs) {
    round(node, now, inputs, out);
    std::hint::black_box(&out);
}

/// Counted, too, though a call of its own.
#[inline(never)]
fn counted_end(node: &mut dyn Node, now: Now) {
    node.carried_out(now);
    std::hint::black_box(&node);
}

#[inline(never)]
fn other_round(node: &mut dyn Node, now: Now, inputs: Vec<Input>, out: &mut Outputs) {
    round(node, now, inputs, out);
}
