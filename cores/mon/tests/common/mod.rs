//! A monitor in a small world: a disk that may lose or tear what was not acknowledged, and peers over a perfect
//! network.

#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]

pub mod cluster;

use messages::internal::{OsdBoot, OsdReport, PgReport, Space};
use messages::mon::{Command, CommandReply, MonCommand, MonCommandAck, MonSubscribe, SubscribeItem};
use mon::{AuthMode, Config, InitialKey, Monitor};
use msgr::auth::{Auth, ClientAuth, Key};
use msgr::{Event, Messenger, Policy};
use node::{
    Buf, CallId, ConnId, DiskDone, DiskError, DiskOp, DiskOutput, DiskRequest, DiskStat, Input, ListenerId, Mono, Node, Now,
    Output, Outputs,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;
use types::{EVersion, EntityAddr, EntityAddrVec, EntityName, EntityType, Fsid, Message, PgId, SessionId, UTime};

pub const FSID: Fsid = Fsid(*b"a-cluster-of-16b");
const START: u32 = 1_790_000_000;

/// What OSDs have.
pub const SPACE: Space = Space { total: 20 << 30, available: (20 << 30) - (290 << 20), data: 1 << 20, omap: 0, meta: 289 << 20 };

pub fn addr(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

pub fn config(auth: AuthMode) -> Config {
    let addrs = |port, nonce| EntityAddrVec(vec![EntityAddr::msgr2(addr(port), nonce)]);
    let caps = |list: &[(&str, &str)]| list.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    let key = |name: &str, n: u8, c: BTreeMap<String, String>| InitialKey { name: name.parse().unwrap(), key: [n; 16], caps: c };
    Config {
        addrs: addrs(3300, 0),
        mgr_addrs: addrs(6800, 77),
        host: "vm".into(),
        auth,
        keys: vec![
            key("client.admin", 1, caps(&[("mon", "allow *"), ("osd", "allow *"), ("mgr", "allow *")])),
            key("client.reader", 2, caps(&[("mon", "allow r")])),
            key("osd.0", 3, caps(&[("mon", "allow profile osd"), ("osd", "allow *")])),
            key("osd.1", 4, caps(&[("mon", "allow profile osd"), ("osd", "allow *")])),
        ],
        ..Config::bare(FSID, "a")
    }
}

/// The same with keys for hosts that join.
pub fn inviting() -> Config {
    let mut config = config(AuthMode::None);
    config.keys.push(InitialKey { name: "mon.".parse().unwrap(), key: [8; 16], caps: BTreeMap::new() });
    for n in 1..=9 {
        let caps = [("mon", "allow command \"nacre join\""), ("ends", "2000000000")];
        let caps = caps.map(|(k, v)| (k.to_string(), v.to_string())).into();
        config.keys.push(InitialKey { name: format!("client.join.{n}").parse().unwrap(), key: [9; 16], caps });
    }
    config
}

/// A file: what is durable, and writes that are under way.
#[derive(Clone, Default)]
pub struct Disk {
    pub bytes: Vec<u8>,
    /// Blocks that were ever written: a file system with nothing left still takes these.
    backed: BTreeSet<u64>,
}

fn blocks(offset: u64, len: usize) -> std::ops::Range<u64> {
    offset / 4096..(offset + len as u64).div_ceil(4096)
}

impl Disk {
    /// A file with this content.
    pub fn of(bytes: Vec<u8>) -> Self {
        let backed = blocks(0, bytes.len()).collect();
        Self { bytes, backed }
    }

    pub fn write(&mut self, offset: u64, data: &[u8]) {
        let end = offset as usize + data.len();
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes[offset as usize..end].copy_from_slice(data);
        self.backed.extend(blocks(offset, data.len()));
    }
}

struct Pipe {
    /// The monitor's name for the connection, and whose it is.
    peer: usize,
    theirs: ConnId,
    to_monitor: VecDeque<u8>,
    to_peer: VecDeque<u8>,
    monitor_buf: Option<Buf>,
    peer_buf: Option<Buf>,
}

/// A client or OSD.
pub struct Peer {
    pub messenger: Messenger,
    pub session: SessionId,
    pub inbox: Vec<Message>,
    pub closed: Option<String>,
    tid: u64,
}

pub struct World {
    pub monitor: Monitor,
    pub disk: Disk,
    pub now: Now,
    /// Writes wait here while `hold` is set.
    pub held: VecDeque<DiskRequest>,
    pub hold: bool,
    /// No write finds space.
    pub no_space: bool,
    /// Nothing can be written where nothing was written before.
    pub host_full: bool,
    pub answers: BTreeMap<u64, (i32, String)>,
    pub fatal: Option<String>,
    pub stopped: bool,
    /// What the monitor wrote to its log.
    pub log: Vec<String>,
    pub peers: Vec<Peer>,
    /// Place where the monitor's process wanted to connect to; nobody is there.
    pub dialed: Vec<SocketAddr>,
    pipes: BTreeMap<ConnId, Pipe>,
    calls: u64,
    conns: u64,
    /// Hosts that joined so far.
    joined: u32,
    disk_inputs: VecDeque<DiskDone>,
}

impl World {
    pub fn new() -> Self {
        Self::with(config(AuthMode::None), Disk::default())
    }

    pub fn with(config: Config, disk: Disk) -> Self {
        let mut world = Self::resting(config, disk);
        world.run();
        world
    }

    /// A monitor that had no turn yet.
    pub fn resting(config: Config, disk: Disk) -> Self {
        let now = Now { mono: Mono(1_000_000_000), wall: UTime { sec: START, nsec: 0 } };
        Self {
            monitor: Monitor::new(config, [9; 32]),
            disk,
            now,
            held: VecDeque::new(),
            hold: false,
            no_space: false,
            host_full: false,
            answers: BTreeMap::new(),
            fatal: None,
            stopped: false,
            log: Vec::new(),
            peers: Vec::new(),
            dialed: Vec::new(),
            pipes: BTreeMap::new(),
            calls: 0,
            conns: 0,
            joined: 0,
            disk_inputs: VecDeque::new(),
        }
    }

    /// Lets time pass.
    pub fn pass(&mut self, d: Duration) {
        let steps = (d.as_millis() / 500).max(1) as u32;
        for _ in 0..steps {
            self.now.mono = self.now.mono.plus(d / steps);
            self.now.wall = self.now.wall.plus(d / steps);
            self.run();
        }
    }

    /// Lets time pass in which the monitor does not run, as when its process or its machine is stopped.
    pub fn sleep(&mut self, d: Duration) {
        self.now.mono = self.now.mono.plus(d);
        self.now.wall = self.now.wall.plus(d);
    }

    /// Runs until nothing more happens at this moment.
    pub fn run(&mut self) {
        for _ in 0..100_000 {
            let mut busy = false;
            while let Some(done) = self.disk_inputs.pop_front() {
                busy = true;
                self.feed(Input::Disk(done));
            }
            let mut out = Outputs::default();
            self.monitor.turn(self.now, &mut out);
            busy |= self.carry_out(out);
            busy |= self.peers_turn();
            busy |= self.move_bytes();
            if !busy && self.disk_inputs.is_empty() {
                return;
            }
        }
        panic!("the world never comes to rest");
    }

    pub fn feed(&mut self, input: Input) {
        let mut out = Outputs::default();
        self.monitor.handle(self.now, input, &mut out);
        self.carry_out(out);
    }

    fn carry_out(&mut self, out: Outputs) -> bool {
        let busy = out.0.iter().any(|o| !matches!(o, Output::Log(_)));
        for output in out.0 {
            match output {
                Output::Disk(request) if self.hold => self.held.push_back(request),
                Output::Disk(request) => self.do_disk(request),
                Output::Answer { call, result, text } => drop(self.answers.insert(call.0, (result, text))),
                Output::Fatal(why) => self.fatal = Some(why),
                Output::Stopped => self.stopped = true,
                Output::Receive { conn, buf } => {
                    if let Some(pipe) = self.pipes.get_mut(&conn) {
                        pipe.monitor_buf = Some(buf);
                    }
                }
                Output::Send { conn, data } => {
                    if let Some(pipe) = self.pipes.get_mut(&conn) {
                        pipe.to_peer.extend(data.to_vec());
                        let mut more = Outputs::default();
                        self.monitor.handle(self.now, Input::Sent { conn, bytes: data.len() }, &mut more);
                        self.carry_out(more);
                    }
                }
                Output::Close { conn } => self.drop_pipe(conn),
                Output::Connect { conn, to } => {
                    self.dialed.push(to);
                    let mut more = Outputs::default();
                    self.monitor.handle(
                        self.now,
                        Input::Closed { conn, refused: false, why: "nobody is there".into() },
                        &mut more,
                    );
                    self.carry_out(more);
                }
                Output::Log(line) => self.log.push(format!("{}: {}", line.part, line.text)),
                _ => {}
            }
        }
        busy
    }

    fn drop_pipe(&mut self, conn: ConnId) {
        let Some(mut pipe) = self.pipes.remove(&conn) else { return };
        // What was sent before the close still arrives.
        let peer = pipe.peer;
        let mut out = Outputs::default();
        if let (Some(mut buf), false) = (pipe.peer_buf.take(), pipe.to_peer.is_empty()) {
            let n = buf.len().min(pipe.to_peer.len());
            pipe.to_peer.drain(..n).enumerate().for_each(|(i, b)| buf[i] = b);
            self.peers[peer].messenger.handle(self.now, Input::Received { conn: pipe.theirs, buf, len: n }, &mut out);
        }
        self.peers[peer].messenger.handle(
            self.now,
            Input::Closed { conn: pipe.theirs, refused: false, why: "closed".into() },
            &mut out,
        );
    }

    /// Completes a disk request as a disk would.
    pub fn do_disk(&mut self, request: DiskRequest) {
        let result = match request.op {
            DiskOp::Stat => {
                let host_free = if self.host_full { 0 } else { 1 << 40 };
                Ok(DiskOutput::Stat(DiskStat { len: self.disk.bytes.len() as u64, capacity: 8 << 20, host_free }))
            }
            DiskOp::Flush | DiskOp::Trim { .. } => Ok(DiskOutput::Done),
            DiskOp::Read { offset, mut buf } => {
                let end = offset as usize + buf.len();
                match self.disk.bytes.get(offset as usize..end) {
                    Some(bytes) => {
                        buf.copy_from_slice(bytes);
                        Ok(DiskOutput::Read(buf))
                    }
                    None => {
                        // A file that ends within the last block reads as if zeros followed: drivers round lengths up.
                        let have = self.disk.bytes.get(offset as usize..).unwrap_or_default();
                        buf.fill(0);
                        buf[..have.len()].copy_from_slice(have);
                        Ok(DiskOutput::Read(buf))
                    }
                }
            }
            DiskOp::Write { .. } if self.no_space => Err(DiskError::NoSpace),
            DiskOp::Write { offset, ref data, .. }
                if self.host_full && blocks(offset, data.len()).any(|b| !self.disk.backed.contains(&b)) =>
            {
                Err(DiskError::NoSpace)
            }
            DiskOp::Write { offset, data, .. } => {
                self.disk.write(offset, &data.to_vec());
                Ok(DiskOutput::Done)
            }
        };
        self.disk_inputs.push_back(DiskDone { token: request.token, result });
    }

    /// A command of the own process: result and text.
    pub fn call(&mut self, json: &str) -> (i32, String) {
        let id = self.begin_call(json);
        for _ in 0..20 {
            if let Some(answer) = self.answers.remove(&id) {
                return answer;
            }
            self.pass(Duration::from_millis(100));
        }
        panic!("no answer to {json}");
    }

    pub fn begin_call(&mut self, json: &str) -> u64 {
        self.calls += 1;
        let id = self.calls;
        self.feed(Input::Call { call: CallId(id), command: json.into() });
        self.run();
        id
    }

    /// A command that must succeed.
    pub fn ok(&mut self, json: &str) -> String {
        let (result, text) = self.call(json);
        assert_eq!(result, 0, "{json}: {text}");
        text
    }

    /// A command that must be refused with this error number; gives the sentence.
    pub fn refused(&mut self, errno: i32, json: &str) -> String {
        let (result, text) = self.call(json);
        assert_eq!(result, -errno, "{json}: {text}");
        text
    }

    /// Connects a peer to the monitor (listener 0) or the manager (1).
    pub fn connect(&mut self, name: &str, key: Option<[u8; 16]>, listener: u32) -> usize {
        self.connect_as(name, key, listener, None)
    }

    /// The same for a peer that says to be at an address.
    pub fn connect_as(&mut self, name: &str, key: Option<[u8; 16]>, listener: u32, says: Option<EntityAddr>) -> usize {
        let name: EntityName = name.parse().unwrap();
        let client = match key {
            None => ClientAuth::none(name.clone()),
            Some(key) => ClientAuth::cephx(name.clone(), Key::new(UTime::ZERO, key)),
        };
        let n = self.peers.len();
        let mut config = msgr::Config::client(name.clone(), 1000 + n as u32);
        if name.kind == EntityType::Osd {
            config.id = name.id.parse().unwrap_or(-1);
        }
        config.addrs.0.extend(says);
        let mut messenger = Messenger::new(config, Auth::client(client), [n as u8; 32]);
        let mut out = Outputs::default();
        let (kind, to) = if listener == 0 {
            (EntityType::Mon, EntityAddr::msgr2(addr(3300), 0))
        } else {
            (EntityType::Mgr, EntityAddr::msgr2(addr(6800), 77))
        };
        let session = messenger.connect(self.now, to, kind, Policy::Lossy, &mut out);
        self.peers.push(Peer { messenger, session, inbox: Vec::new(), closed: None, tid: 0 });
        self.peer_out(n, out);
        self.run();
        n
    }

    fn peer_out(&mut self, peer: usize, out: Outputs) -> bool {
        let busy = out.0.iter().any(|o| !matches!(o, Output::Log(_)));
        for output in out.0 {
            match output {
                Output::Connect { conn: theirs, to } => {
                    self.conns += 2;
                    let conn = ConnId(self.conns);
                    let (to_monitor, to_peer) = (VecDeque::new(), VecDeque::new());
                    self.pipes.insert(conn, Pipe { peer, theirs, to_monitor, to_peer, monitor_buf: None, peer_buf: None });
                    let listener = ListenerId(u32::from(to.port() == 6800));
                    let from = addr(40_000 + self.conns as u16);
                    self.feed(Input::Accepted { listener, conn, peer: from, local: to });
                    let mut more = Outputs::default();
                    self.peers[peer].messenger.handle(self.now, Input::Connected { conn: theirs, local: from }, &mut more);
                    self.peer_out(peer, more);
                }
                Output::Receive { conn, buf } => {
                    if let Some(pipe) = self.pipes.values_mut().find(|p| p.peer == peer && p.theirs == conn) {
                        pipe.peer_buf = Some(buf);
                    }
                }
                Output::Send { conn, data } => {
                    if let Some(pipe) = self.pipes.values_mut().find(|p| p.peer == peer && p.theirs == conn) {
                        pipe.to_monitor.extend(data.to_vec());
                        let mut more = Outputs::default();
                        self.peers[peer].messenger.handle(self.now, Input::Sent { conn, bytes: data.len() }, &mut more);
                        self.peer_out(peer, more);
                    }
                }
                Output::Close { conn } => {
                    let found = self.pipes.iter().find(|(_, p)| p.peer == peer && p.theirs == conn).map(|(c, _)| *c);
                    if let Some(conn) = found {
                        self.pipes.remove(&conn);
                        self.feed(Input::Closed { conn, refused: false, why: "peer closed".into() });
                    }
                }
                _ => {}
            }
        }
        busy
    }

    fn peers_turn(&mut self) -> bool {
        let mut busy = false;
        for n in 0..self.peers.len() {
            let mut out = Outputs::default();
            self.peers[n].messenger.turn(self.now, &mut out);
            busy |= self.peer_out(n, out);
            while let Some(event) = self.peers[n].messenger.poll_event() {
                busy = true;
                match event {
                    Event::Message { session, message, bytes } => {
                        self.peers[n].inbox.push(message);
                        self.peers[n].messenger.done(session, bytes);
                    }
                    Event::Closed { why, .. } => self.peers[n].closed = Some(why),
                    _ => {}
                }
            }
        }
        busy
    }

    fn move_bytes(&mut self) -> bool {
        let mut busy = false;
        let conns: Vec<ConnId> = self.pipes.keys().copied().collect();
        for conn in conns {
            if let Some(pipe) = self.pipes.get_mut(&conn) {
                let waiting = if pipe.to_monitor.is_empty() { None } else { pipe.monitor_buf.take() };
                if let Some(mut buf) = waiting {
                    let n = buf.len().min(pipe.to_monitor.len());
                    pipe.to_monitor.drain(..n).enumerate().for_each(|(i, b)| buf[i] = b);
                    busy = true;
                    self.feed(Input::Received { conn, buf, len: n });
                }
            }
            if let Some(pipe) = self.pipes.get_mut(&conn) {
                let waiting = if pipe.to_peer.is_empty() { None } else { pipe.peer_buf.take() };
                if let Some(mut buf) = waiting {
                    let n = buf.len().min(pipe.to_peer.len());
                    pipe.to_peer.drain(..n).enumerate().for_each(|(i, b)| buf[i] = b);
                    let (peer, theirs) = (pipe.peer, pipe.theirs);
                    let mut out = Outputs::default();
                    self.peers[peer].messenger.handle(self.now, Input::Received { conn: theirs, buf, len: n }, &mut out);
                    busy = true;
                    self.peer_out(peer, out);
                }
            }
        }
        busy
    }

    /// Breaks a peer's connection.
    pub fn hang_up(&mut self, peer: usize) {
        let conns: Vec<ConnId> = self.pipes.iter().filter(|(_, p)| p.peer == peer).map(|(c, _)| *c).collect();
        for conn in conns {
            self.pipes.remove(&conn);
            self.feed(Input::Closed { conn, refused: false, why: "broken".into() });
        }
        let session = self.peers[peer].session;
        self.peers[peer].messenger.close(session);
        self.run();
    }

    pub fn send(&mut self, peer: usize, mut message: Message) -> u64 {
        let p = &mut self.peers[peer];
        p.tid += 1;
        message.tid = p.tid;
        let tid = p.tid;
        p.messenger.send(p.session, message);
        self.run();
        tid
    }

    /// Takes the messages of one kind out of a peer's inbox.
    pub fn take(&mut self, peer: usize, kind: u16) -> Vec<Message> {
        let (taken, left) = std::mem::take(&mut self.peers[peer].inbox).into_iter().partition(|m| m.kind == kind);
        self.peers[peer].inbox = left;
        taken
    }

    /// A command of a client to the cluster.
    pub fn command(&mut self, peer: usize, json: &str, input: &[u8]) -> MonCommandAck {
        let message = MonCommand { fsid: FSID, cmd: vec![json.into()], input: input.to_vec().into() }.encode();
        self.send(peer, message);
        for _ in 0..20 {
            if let Some(m) = self.take(peer, MonCommandAck::KIND).first() {
                return MonCommandAck::decode(m).unwrap();
            }
            self.pass(Duration::from_millis(100));
        }
        panic!("no answer to {json}");
    }

    /// A command of a client to the daemon itself.
    pub fn tell(&mut self, peer: usize, json: &str) -> CommandReply {
        self.send(peer, Command { fsid: FSID, cmd: vec![json.into()], input: types::Rope::new() }.encode());
        CommandReply::decode(self.take(peer, CommandReply::KIND).first().expect("an answer")).unwrap()
    }

    pub fn subscribe(&mut self, peer: usize, what: &str, start: u64, once: bool) {
        let item = SubscribeItem { start, flags: u8::from(once) };
        self.send(peer, MonSubscribe { what: [(what.to_string(), item)].into(), hostname: "vm".into() }.encode());
    }

    /// Boots an OSD and lets it report every group that it leads as clean and empty.
    pub fn boot_osd(&mut self, osd: i32) -> usize {
        let peer = self.connect(&format!("osd.{osd}"), None, 0);
        self.boot_on(peer, osd);
        peer
    }

    /// The same in a cluster with keys.
    pub fn boot_osd_with_key(&mut self, osd: i32, key: u8) -> usize {
        let peer = self.connect(&format!("osd.{osd}"), Some([key; 16]), 0);
        self.boot_on(peer, osd);
        peer
    }

    pub fn boot_on(&mut self, peer: usize, osd: i32) {
        self.boot_at(peer, osd, &[("hostname", "vm")]);
    }

    /// An OSD boots that says this about where it is.
    pub fn boot_at(&mut self, peer: usize, osd: i32, place: &[(&str, &str)]) {
        self.boot_as(peer, osd, 500 + osd as u32, place);
    }

    /// The same; each start has a nonce of its own.
    pub fn boot_as(&mut self, peer: usize, osd: i32, nonce: u32, place: &[(&str, &str)]) {
        let addrs = EntityAddrVec(vec![EntityAddr::msgr2(addr(6802 + osd as u16), nonce)]);
        let levels = types::Levels::OWN.to_string();
        let metadata = [("default_device_class", "hdd"), ("ceph_version", "ceph version test"), (types::Levels::KEY, &levels)];
        let boot = OsdBoot {
            fsid: FSID,
            osd,
            uuid: [osd as u8 + 1; 16],
            addrs,
            total_bytes: 20 << 30,
            metadata: metadata.iter().chain(place).map(|(k, v)| (k.to_string(), v.to_string())).collect(),
            newest_map: 0,
            cluster_addrs: EntityAddrVec::default(),
        };
        self.send(peer, boot.encode());
        self.report(peer, osd, Vec::new());
    }

    pub fn report(&mut self, peer: usize, osd: i32, pgs: Vec<PgReport>) {
        let report = OsdReport { osd, epoch: 1, space: SPACE, pgs, ..OsdReport::default() };
        self.send(peer, report.encode());
    }

    /// Lets each group of a pool be reported as clean by the OSD that leads it. `osds`: their peers, by number.
    pub fn all_active(&mut self, osds: &[usize], pool: i64, groups: u32) {
        for seed in 0..groups {
            let text = self.ok(&format!(r#"{{"prefix":"pg map","pgid":"{pool}.{seed:x}","format":"json"}}"#));
            let (_, acting) = text.split_once("\"acting\":[").expect("an acting set");
            let osd: usize = acting.split([',', ']']).next().and_then(|osd| osd.trim().parse().ok()).expect("a primary");
            let report = self.clean_pg(pool, seed, 0, 0);
            self.report(osds[osd], osd as i32, vec![report]);
        }
    }

    /// A host joins, of a world of [`inviting`]; gives the name of the monitor that it gets.
    pub fn join(&mut self, host: &str, monitor: &str) -> Option<String> {
        self.joined += 1;
        let peer = self.connect(&format!("client.join.{}", self.joined), None, 0);
        let ask = format!(r#"{{"prefix":"nacre join","host":"{host}","again":true,"monitor":"{monitor}"}}"#);
        let reply = self.command(peer, &ask, &[]);
        assert_eq!(reply.result, 0, "{}", reply.status);
        let answer = String::from_utf8(reply.output.contiguous().to_vec()).expect("text");
        let (_, name) = answer.split_once("\"monitor\":")?;
        Some(name.trim_start().strip_prefix('"')?.split('"').next()?.to_owned())
    }

    /// An OSD says that it turns writes away, or no more.
    pub fn report_full(&mut self, peer: usize, osd: i32, full: bool) {
        let report = OsdReport { osd, epoch: 1, space: SPACE, full, ..OsdReport::default() };
        self.send(peer, report.encode());
    }

    pub fn clean_pg(&self, pool: i64, seed: u32, objects: i64, bytes: i64) -> PgReport {
        let mut report = PgReport {
            pg: PgId::new(pool, seed),
            state: types::PgState::ACTIVE.with(types::PgState::CLEAN),
            reported: EVersion::new(1, u64::from(self.now.wall.sec)),
            last_change: self.now.wall,
            last_active: self.now.wall,
            ..PgReport::default()
        };
        report.stats.num_objects = objects;
        report.stats.num_bytes = bytes;
        report
    }
}
