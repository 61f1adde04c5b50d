//! A network that does what networks may do: it cuts streams anywhere, delays them, breaks them at any byte, tells one
//! end and not the other, and partitions. What arrives arrives in order and unchanged, as TCP has it.

use crate::rng::Rng;
use crate::schedule::{Happening, HostId, Schedule};
use bytes::Bytes;
use node::{Buf, ConnId, Input, ListenerId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use types::Rope;

/// A connection between two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkId(pub u64);

/// Which end of a link: 0 opened it, 1 accepted it.
pub(crate) type Side = usize;

/// How the network is.
#[derive(Clone, Debug)]
pub struct NetConfig {
    /// Least one-way delay, nanoseconds.
    pub delay: u64,
    /// Most that chance adds to it.
    pub jitter: u64,
    /// One segment in so many is late by up to `late` (0: none).
    pub late_one_in: u64,
    /// See `late_one_in`.
    pub late: u64,
    /// Most bytes in flight and unread in each direction.
    pub window: usize,
    /// Largest segment.
    pub segment: u64,
}

impl Default for NetConfig {
    fn default() -> Self {
        Self { delay: 20_000, jitter: 60_000, late_one_in: 200, late: 5_000_000, window: 256 << 10, segment: 64 << 10 }
    }
}

#[derive(Debug)]
struct End {
    host: HostId,
    conn: ConnId,
    /// The machine knows of it, and it has not been closed here.
    open: bool,
}

/// Bytes from one end to the other.
#[derive(Debug, Default)]
struct Pipe {
    unsent: VecDeque<Bytes>,
    flying: VecDeque<Bytes>,
    arrived: VecDeque<Bytes>,
    /// Bytes in `flying` and `arrived`.
    held: usize,
    want: Option<Buf>,
    last_arrival: u64,
    /// The sender closed: after the last byte comes the end.
    ended: bool,
    /// Nothing leaves any more.
    dead: bool,
}

#[derive(Debug)]
struct Link {
    ends: [End; 2],
    pipes: [Pipe; 2],
    to: SocketAddr,
    standing: bool,
    /// Segments that a partition holds back: this many arrivals were due.
    stuck: [usize; 2],
    connect_stuck: bool,
    /// Milliseconds that an end which does not read may still take before it is told that the link is gone.
    patience: u32,
}

/// An input for a host.
pub(crate) type Delivery = (HostId, Input);

/// Hosts that have no connection to a network.
#[derive(Debug, Default)]
struct Unplugged {
    /// To that of the clients and monitors.
    clients: BTreeSet<HostId>,
    /// To that of the OSDs alone.
    own: BTreeSet<HostId>,
}

impl Unplugged {
    /// Returns true if one of these hosts has no connection to the network of the address.
    fn cuts(&self, to: &SocketAddr, hosts: [HostId; 2]) -> bool {
        let lacking = if is_own(to) { &self.own } else { &self.clients };
        hosts.iter().any(|host| lacking.contains(host))
    }
}

/// All connections.
#[derive(Debug)]
pub struct Network {
    /// How it is; may be changed at any time.
    pub config: NetConfig,
    rng: Rng,
    links: BTreeMap<LinkId, Link>,
    ends: BTreeMap<(HostId, ConnId), (LinkId, Side)>,
    listeners: BTreeMap<SocketAddr, (HostId, ListenerId)>,
    /// Nothing that the first sends reaches the second.
    blocked: BTreeSet<(HostId, HostId)>,
    unplugged: Unplugged,
    next_link: u64,
    /// Bytes that still pass before the link that carries the last of them breaks.
    break_after: Option<u64>,
    /// Links that were broken by faults.
    pub broken: u64,
}

impl Network {
    /// A network without hosts.
    pub(crate) fn new(config: NetConfig, rng: Rng) -> Self {
        Self {
            config,
            rng,
            links: BTreeMap::new(),
            ends: BTreeMap::new(),
            listeners: BTreeMap::new(),
            blocked: BTreeSet::new(),
            unplugged: Unplugged::default(),
            next_link: 1,
            break_after: None,
            broken: 0,
        }
    }

    pub(crate) fn listen(&mut self, at: SocketAddr, host: HostId, listener: ListenerId) {
        self.listeners.insert(at, (host, listener));
    }

    pub(crate) fn stop_listening(&mut self, host: HostId) {
        self.listeners.retain(|_, (h, _)| *h != host);
    }

    fn delay(&mut self) -> u64 {
        let late = self.config.late_one_in > 0 && self.rng.one_in(self.config.late_one_in);
        self.config.delay + self.rng.below(self.config.jitter + 1) + if late { self.rng.below(self.config.late + 1) } else { 0 }
    }

    fn is_blocked(&self, from: HostId, to: HostId) -> bool {
        self.blocked.contains(&(from, to))
    }

    /// The machine of `host` connects.
    pub(crate) fn connect(&mut self, schedule: &mut Schedule, host: HostId, conn: ConnId, to: SocketAddr) {
        assert!(conn.0 % 2 == 1, "a machine numbers its own connections odd: {conn:?}");
        let id = LinkId(self.next_link);
        self.next_link += 1;
        let near = End { host, conn, open: true };
        let far = End { host, conn: ConnId(id.0 * 2), open: false };
        let pipes = Default::default();
        let link = Link { ends: [near, far], pipes, to, standing: false, stuck: [0, 0], connect_stuck: false, patience: 2_000 };
        self.links.insert(id, link);
        let twice = self.ends.insert((host, conn), (id, 0));
        assert!(twice.is_none(), "{conn:?} of {host:?} is used twice");
        schedule.after(self.delay(), Happening::Connect(id));
    }

    /// The first packet of a link arrives.
    pub(crate) fn connected(&mut self, schedule: &mut Schedule, id: LinkId, out: &mut Vec<Delivery>) {
        let Some(link) = self.links.get_mut(&id) else { return };
        let near = link.ends[0].host;
        let Some(&(host, listener)) = self.listeners.get(&link.to) else {
            schedule.after(self.config.delay, Happening::Gone(id, 0));
            return;
        };
        let unplugged = self.unplugged.cuts(&link.to, [near, host]);
        if unplugged || self.blocked.contains(&(near, host)) || self.blocked.contains(&(host, near)) {
            link.connect_stuck = true;
            link.ends[1].host = host;
            return;
        }
        if !link.ends[0].open {
            self.links.remove(&id);
            return;
        }
        link.ends[1] = End { host, conn: ConnId(id.0 * 2), open: true };
        link.standing = true;
        let from = SocketAddr::from(([127, 0, 0, 1], 20_000 + (id.0 % 40_000) as u16));
        let (conn, local) = (link.ends[1].conn, link.to);
        let near_conn = link.ends[0].conn;
        self.ends.insert((host, conn), (id, 1));
        out.push((host, Input::Accepted { listener, conn, peer: from, local }));
        out.push((near, Input::Connected { conn: near_conn, local: from }));
    }

    /// The machine sends.
    pub(crate) fn send(&mut self, schedule: &mut Schedule, host: HostId, conn: ConnId, data: &Rope) {
        let Some(&(id, side)) = self.ends.get(&(host, conn)) else { return };
        let Some(link) = self.links.get_mut(&id) else { return };
        link.pipes[side].unsent.extend(data.pieces().iter().cloned());
        schedule.after(1_000, Happening::Drain(id, side));
    }

    /// The kernel takes what it has room for, and says so to its machine.
    pub(crate) fn drain(&mut self, schedule: &mut Schedule, id: LinkId, side: Side, out: &mut Vec<Delivery>) {
        let mut taken = 0;
        while let Some(n) = self.take_segment(schedule, id, side) {
            taken += n;
        }
        let Some(link) = self.links.get(&id) else { return };
        let end = &link.ends[side];
        if taken > 0 && end.open {
            out.push((end.host, Input::Sent { conn: end.conn, bytes: taken }));
        }
    }

    fn take_segment(&mut self, schedule: &mut Schedule, id: LinkId, side: Side) -> Option<usize> {
        let delay = self.delay();
        let most = self.rng.magnitude(1, self.config.segment.max(2)) as usize;
        let window = self.config.window;
        let link = self.links.get_mut(&id)?;
        let pipe = &mut link.pipes[side];
        if !link.standing && side == 1 || pipe.held >= window {
            return None;
        }
        let mut segment = pipe.unsent.pop_front()?;
        // A dead link's kernel swallows what it is given.
        if pipe.dead {
            return Some(segment.len());
        }
        if segment.len() > most {
            pipe.unsent.push_front(segment.split_off(most));
        }
        let n = segment.len();
        pipe.held += n;
        pipe.flying.push_back(segment);
        pipe.last_arrival = pipe.last_arrival.max(schedule.now + delay);
        schedule.at(pipe.last_arrival, Happening::Arrive(id, side));
        self.count_down(schedule, id, n);
        Some(n)
    }

    fn count_down(&mut self, schedule: &mut Schedule, id: LinkId, passed: usize) {
        let Some(left) = &mut self.break_after else { return };
        match left.checked_sub(passed as u64) {
            Some(rest) => *left = rest,
            None => {
                self.break_after = None;
                self.break_link(schedule, id);
            }
        }
    }

    /// The oldest segment in flight from `side` arrives.
    pub(crate) fn arrive(&mut self, schedule: &mut Schedule, id: LinkId, side: Side, out: &mut Vec<Delivery>) {
        let Some(link) = self.links.get_mut(&id) else { return };
        let (from, to) = (link.ends[side].host, link.ends[1 - side].host);
        let unplugged = self.unplugged.cuts(&link.to, [from, to]);
        if unplugged || self.blocked.contains(&(from, to)) {
            link.stuck[side] += 1;
            return;
        }
        let pipe = &mut link.pipes[side];
        match pipe.flying.pop_front() {
            Some(segment) => pipe.arrived.push_back(segment),
            // The end of the stream, unless a break has swallowed the segment.
            None if pipe.ended => schedule.after(0, Happening::Gone(id, 1 - side)),
            None => {}
        }
        self.deliver(schedule, id, side, out);
    }

    /// Fills the buffer that the receiver offered.
    fn deliver(&mut self, schedule: &mut Schedule, id: LinkId, side: Side, out: &mut Vec<Delivery>) {
        let Some(link) = self.links.get_mut(&id) else { return };
        let (end, pipe) = (&link.ends[1 - side], &mut link.pipes[side]);
        if !end.open || pipe.arrived.is_empty() {
            return;
        }
        let Some(mut buf) = pipe.want.take() else { return };
        let mut len = 0;
        while let Some(mut segment) = pipe.arrived.pop_front() {
            let n = segment.len().min(buf.len() - len);
            buf[len..len + n].copy_from_slice(&segment.split_to(n));
            len += n;
            if !segment.is_empty() {
                pipe.arrived.push_front(segment);
            }
            if len == buf.len() || self.rng.one_in(4) {
                break;
            }
        }
        pipe.held -= len;
        out.push((end.host, Input::Received { conn: end.conn, buf, len }));
        if !pipe.unsent.is_empty() {
            schedule.after(1_000, Happening::Drain(id, side));
        }
    }

    /// The machine offers a buffer.
    pub(crate) fn receive(&mut self, schedule: &mut Schedule, host: HostId, conn: ConnId, buf: Buf, out: &mut Vec<Delivery>) {
        let Some(&(id, side)) = self.ends.get(&(host, conn)) else { return };
        let Some(link) = self.links.get_mut(&id) else { return };
        let pipe = &mut link.pipes[1 - side];
        assert!(pipe.want.is_none(), "{host:?} receives twice on {conn:?}");
        assert!(!buf.is_empty(), "{host:?} receives into nothing on {conn:?}");
        pipe.want = Some(buf);
        self.deliver(schedule, id, 1 - side, out);
    }

    /// The machine closes: what it sent still arrives, then the other end is told.
    pub(crate) fn close(&mut self, schedule: &mut Schedule, host: HostId, conn: ConnId) {
        let Some((id, side)) = self.ends.remove(&(host, conn)) else { return };
        let delay = self.delay();
        let Some(link) = self.links.get_mut(&id) else { return };
        link.ends[side].open = false;
        // Nobody reads here any more.
        link.pipes[1 - side].dead = true;
        link.pipes[1 - side].want = None;
        let pipe = &mut link.pipes[side];
        pipe.ended = true;
        while let Some(rest) = pipe.unsent.pop_front().filter(|_| !pipe.dead) {
            pipe.held += rest.len();
            pipe.flying.push_back(rest);
            pipe.last_arrival = pipe.last_arrival.max(schedule.now + delay);
            schedule.at(pipe.last_arrival, Happening::Arrive(id, side));
        }
        pipe.last_arrival = pipe.last_arrival.max(schedule.now + delay);
        schedule.at(pipe.last_arrival, Happening::Arrive(id, side));
    }

    /// This side learns that the link is gone.
    pub(crate) fn gone(&mut self, schedule: &mut Schedule, id: LinkId, side: Side, out: &mut Vec<Delivery>) {
        let Some(link) = self.links.get_mut(&id) else { return };
        // What arrived before is read first.
        let (end, pipe) = (&mut link.ends[side], &link.pipes[1 - side]);
        if end.open && !pipe.arrived.is_empty() && link.patience > 0 {
            link.patience -= 1;
            schedule.after(1_000_000, Happening::Gone(id, side));
            return;
        }
        if end.open {
            end.open = false;
            let (host, conn) = (end.host, end.conn);
            self.ends.remove(&(host, conn));
            let why = if link.standing { "connection reset" } else { "connection refused" };
            out.push((host, Input::Closed { conn, refused: !link.standing, why: why.into() }));
        }
        if !link.ends.iter().any(|e| e.open) {
            self.links.remove(&id);
        }
    }

    /// Breaks a link: some of what is in flight is lost, and each end learns of it at its own time.
    pub(crate) fn break_link(&mut self, schedule: &mut Schedule, id: LinkId) {
        let Some(link) = self.links.get_mut(&id) else { return };
        self.broken += 1;
        for side in 0..2 {
            let pipe = &mut link.pipes[side];
            pipe.dead = true;
            pipe.unsent.clear();
            cut_somewhere(&mut self.rng, pipe);
            // Usually at once; sometimes one end keeps a connection that the other has forgotten.
            let wait = match self.rng.below(4) {
                0 => self.rng.below(3_000_000_000),
                _ => self.rng.below(2_000_000),
            };
            schedule.after(wait, Happening::Gone(id, side));
        }
    }

    /// Breaks a link of the network's choice; false if there is none.
    pub(crate) fn break_any(&mut self, schedule: &mut Schedule) -> bool {
        let links: Vec<LinkId> = self.links.keys().copied().collect();
        if links.is_empty() {
            return false;
        }
        let id = *self.rng.pick(&links);
        self.break_link(schedule, id);
        true
    }

    /// Breaks a link between two of these hosts, of the network's choice; false if there is none.
    pub(crate) fn break_among(&mut self, schedule: &mut Schedule, hosts: &[HostId]) -> bool {
        let among = |link: &Link| link.standing && link.ends.iter().all(|end| hosts.contains(&end.host));
        let links: Vec<LinkId> = self.links.iter().filter(|(_, link)| among(link)).map(|(id, _)| *id).collect();
        if links.is_empty() {
            return false;
        }
        let id = *self.rng.pick(&links);
        self.break_link(schedule, id);
        true
    }

    /// Breaks all links between this host and these.
    pub(crate) fn break_all(&mut self, schedule: &mut Schedule, host: HostId, others: &[HostId]) {
        let between =
            |[a, b]: &[End; 2]| a.host == host && others.contains(&b.host) || b.host == host && others.contains(&a.host);
        let links: Vec<LinkId> =
            self.links.iter().filter(|(_, link)| link.standing && between(&link.ends)).map(|(id, _)| *id).collect();
        links.into_iter().for_each(|id| self.break_link(schedule, id));
    }

    /// The link that carries the `bytes`-th byte from now on breaks there.
    pub fn break_after(&mut self, bytes: u64) {
        self.break_after = Some(bytes);
    }

    /// No bytes pass between these two until [`Network::heal`].
    pub fn partition(&mut self, a: HostId, b: HostId) {
        self.cut(a, b);
        self.cut(b, a);
    }

    /// Nothing that `from` sends reaches `to` until [`Network::heal`]; what `to` sends arrives.
    pub fn cut(&mut self, from: HostId, to: HostId) {
        self.blocked.insert((from, to));
    }

    /// Nothing passes between this host and others but in the network of the OSDs alone, until [`Network::heal`].
    pub fn unplug(&mut self, host: HostId) {
        self.unplugged.clients.insert(host);
    }

    /// Nothing passes between this host and others in the network of the OSDs, until [`Network::heal`].
    pub fn unplug_own(&mut self, host: HostId) {
        self.unplugged.own.insert(host);
    }

    /// All partitions end; what they held back goes on.
    pub(crate) fn heal(&mut self, schedule: &mut Schedule) {
        self.blocked.clear();
        self.unplugged = Unplugged::default();
        let delay = self.delay();
        for (id, link) in &mut self.links {
            if std::mem::take(&mut link.connect_stuck) {
                schedule.after(delay, Happening::Connect(*id));
            }
            for side in 0..2 {
                for _ in 0..std::mem::take(&mut link.stuck[side]) {
                    schedule.after(delay, Happening::Arrive(*id, side));
                }
            }
        }
    }

    /// The host's process is gone. With `silent` (power cut) the other ends learn only when they say something later,
    /// which is modelled as some seconds; else at once.
    pub(crate) fn host_died(&mut self, schedule: &mut Schedule, host: HostId, silent: bool) {
        self.stop_listening(host);
        self.ends.retain(|(h, _), _| *h != host);
        let ids: Vec<LinkId> =
            self.links.iter().filter(|(_, l)| l.ends.iter().any(|e| e.host == host)).map(|(id, _)| *id).collect();
        for id in ids {
            let wait = if silent { 100_000_000 + self.rng.below(5_000_000_000) } else { self.delay() };
            let Some(link) = self.links.get_mut(&id) else { continue };
            for side in 0..2 {
                let pipe = &mut link.pipes[side];
                pipe.dead = true;
                pipe.unsent.clear();
                if link.ends[side].host == host {
                    link.ends[side].open = false;
                    cut_somewhere(&mut self.rng, pipe);
                }
                schedule.after(wait, Happening::Gone(id, side));
            }
        }
    }

    /// Links that exist.
    pub fn links(&self) -> usize {
        self.links.len()
    }

    /// Returns true if the two hosts cannot reach each other.
    pub fn partitioned(&self, a: HostId, b: HostId) -> bool {
        self.is_blocked(a, b) && self.is_blocked(b, a)
    }
}

/// Returns true if an address is in the network of the OSDs alone (10.0.2.0/24, see `cluster.rs`).
fn is_own(at: &SocketAddr) -> bool {
    matches!(at, SocketAddr::V4(at) if at.ip().octets()[..3] == [10, 0, 2])
}

/// Loses the end of what is in flight, from a byte that chance chooses.
fn cut_somewhere(rng: &mut Rng, pipe: &mut Pipe) {
    let total: usize = pipe.flying.iter().map(Bytes::len).sum();
    let mut left = rng.below(total as u64 + 1) as usize;
    pipe.flying.retain_mut(|segment| {
        segment.truncate(left);
        left -= segment.len();
        !segment.is_empty()
    });
}
