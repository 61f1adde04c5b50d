//! Clients that ask at random, note what they asked and what they were told, and judge nothing.

use crate::history::History;
use crate::model::{Action, Outcome};
use crate::rng::Rng;
use bytes::Bytes;
use denc::Encode;
use messages::code::{self, cmp_mode, cmp_op, flags, op_flags};
use messages::osd::{Op, OpArgs, OsdOpReply};
use node::{Mono, Now};
use objecter::{Driver, Event, Objecter, OpId, OpRequest};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use types::{Locator, PoolId};

/// What a client does.
#[derive(Clone, Debug)]
pub struct Habits {
    /// Where.
    pub pool: String,
    /// On how many objects, `o0`, `o1`, ...
    pub objects: u64,
    /// How many operations under way at once.
    pub depth: usize,
    /// Longest pause before the next operation.
    pub pause: Duration,
    /// Operations in all (of all lives together).
    pub budget: usize,
    /// Largest payload.
    pub largest: u64,
}

impl Default for Habits {
    fn default() -> Self {
        Self { pool: "data".into(), objects: 4, depth: 4, pause: Duration::from_millis(40), budget: 150, largest: 20_000 }
    }
}

/// What a client shares with its world, across its lives.
#[derive(Debug)]
pub struct Shared {
    /// Everything that was asked and answered.
    pub history: Rc<RefCell<History>>,
    /// Operations still to be asked by this client.
    pub left: usize,
    /// Operations under way in its present life.
    pub open: usize,
    /// Asked instead of random ones; then the budget does not count.
    pub script: Vec<(String, Action)>,
    /// Answers that were errors of the disk, by number.
    pub errors: BTreeMap<i32, u64>,
}

impl Shared {
    /// For a client with this budget.
    pub fn new(history: Rc<RefCell<History>>, budget: usize) -> Rc<RefCell<Self>> {
        Rc::new(RefCell::new(Self { history, left: budget, open: 0, script: Vec::new(), errors: BTreeMap::new() }))
    }

    /// Whether all was asked and answered.
    pub fn is_done(&self) -> bool {
        self.left == 0 && self.open == 0 && self.script.is_empty()
    }
}

/// A client in one of its lives.
pub struct Workload {
    habits: Habits,
    shared: Rc<RefCell<Shared>>,
    rng: Rng,
    me: u32,
    open: BTreeMap<OpId, (usize, Action)>,
    next: Mono,
    pool: Option<PoolId>,
    serial: u64,
    /// Wall and monotonic clocks jump and start anywhere: the world's time, for the history.
    world_time: Rc<Cell<u64>>,
}

impl Workload {
    /// A new life.
    pub fn new(habits: Habits, shared: Rc<RefCell<Shared>>, seed: [u8; 32], world_time: Rc<Cell<u64>>) -> Self {
        let seed = u64::from_le_bytes(seed[..8].try_into().expect("eight bytes"));
        let me = shared.borrow().history.borrow_mut().new_client();
        shared.borrow_mut().open = 0;
        Self { habits, shared, rng: Rng::new(seed), me, open: BTreeMap::new(), next: Mono(0), pool: None, serial: 0, world_time }
    }

    /// Bytes that name who wrote them, so that a misplaced one is known.
    fn payload(&mut self) -> Vec<u8> {
        self.serial += 1;
        let tag = format!("[{}.{}]", self.me, self.serial);
        let len = self.rng.magnitude(tag.len() as u64, self.habits.largest.max(64)) as usize;
        tag.bytes().chain(tag.bytes().filter(|b| *b != b'[' && *b != b']').cycle()).take(len).collect()
    }

    fn choose(&mut self) -> Action {
        let largest = self.habits.largest;
        let name = |n: u64| format!("k{n}");
        match self.rng.below(100) {
            0..22 => Action::Read,
            22..26 => Action::Stat,
            26..41 => Action::Append(self.payload()),
            41..52 => Action::WriteFull(self.payload()),
            52..62 => Action::Write(self.rng.magnitude(0, largest), self.payload()),
            62..66 => Action::Truncate(self.rng.magnitude(0, largest)),
            66..70 => Action::Zero(self.rng.magnitude(0, largest), self.rng.magnitude(1, largest)),
            70..74 => Action::Delete,
            74..77 => Action::CreateExclusively,
            77..80 => Action::SetXattr(name(self.rng.below(3)), self.small()),
            80..83 => Action::GetXattr(name(self.rng.below(3))),
            83..88 => {
                let n = self.rng.between(1, 4);
                Action::OmapSet((0..n).map(|_| (name(self.rng.below(9)), self.small())).collect())
            }
            88..91 => Action::OmapRemove((0..3).map(|_| name(self.rng.below(9))).collect()),
            91..95 => Action::OmapGet,
            95..98 => Action::AppendAndMark(self.small(), name(self.rng.below(9))),
            _ => Action::DeleteIf(name(0), Vec::new()),
        }
    }

    fn small(&mut self) -> Vec<u8> {
        self.serial += 1;
        format!("[{}.{}]", self.me, self.serial).into_bytes()
    }

    fn submit(&mut self, pool: PoolId, object: &str, action: Action, objecter: &mut Objecter, now: Now) {
        let time = self.world_time.get();
        let number = self.shared.borrow().history.borrow_mut().begin(self.me, object, action.clone(), time);
        let mut request = request_of(&action);
        request.locator = Locator::pool(pool);
        request.oid = Bytes::copy_from_slice(object.as_bytes());
        request.mtime = now.wall;
        let id = objecter.submit(request);
        self.open.insert(id, (number, action));
        self.shared.borrow_mut().open += 1;
    }

    fn ask(&mut self, now: Now, pool: PoolId, objecter: &mut Objecter) {
        while self.open.len() < self.habits.depth && self.next <= now.mono {
            let scripted = self.shared.borrow_mut().script.pop();
            let (object, action) = match scripted {
                Some(asked) => asked,
                None if self.shared.borrow().left == 0 => return,
                None => {
                    self.shared.borrow_mut().left -= 1;
                    let pause = self.rng.below(self.habits.pause.as_nanos() as u64 + 1);
                    // Bursts, too.
                    self.next = if self.rng.one_in(3) { now.mono } else { now.mono.plus(Duration::from_nanos(pause)) };
                    (format!("o{}", self.rng.below(self.habits.objects)), self.choose())
                }
            };
            self.submit(pool, &object, action, objecter, now);
        }
    }
}

impl Driver for Workload {
    fn event(&mut self, _now: Now, event: Event, _objecter: &mut Objecter) {
        let Event::Done { id, result } = event else { return };
        let Some((number, action)) = self.open.remove(&id) else { return };
        let mut shared = self.shared.borrow_mut();
        shared.open -= 1;
        let Ok(reply) = result else { return };
        if reply.result < 0 {
            *shared.errors.entry(reply.result).or_default() += 1;
        }
        let outcome = outcome_of(&action, &reply);
        let time = self.world_time.get();
        shared.history.borrow_mut().end(number, outcome, reply.user_version, time);
    }

    fn turn(&mut self, now: Now, objecter: &mut Objecter) {
        if self.pool.is_none()
            && let Some(map) = objecter.map()
        {
            self.pool = map.pool_name.iter().find(|(_, name)| **name == self.habits.pool).map(|(id, _)| *id);
            if self.pool.is_none() {
                objecter.want_newer_map();
            }
        }
        if let Some(pool) = self.pool {
            self.ask(now, pool, objecter);
        }
    }

    fn deadline(&self) -> Mono {
        let shared = self.shared.borrow();
        let idle = shared.left == 0 && shared.script.is_empty();
        if idle || self.pool.is_none() || self.open.len() >= self.habits.depth { Mono::NEVER } else { self.next }
    }
}

fn extent(code: u16, offset: u64, length: u64, data: &[u8]) -> Op {
    Op::extent(code, offset, length, Bytes::copy_from_slice(data))
}

fn with_input(code: u16, input: impl Into<Bytes>) -> Op {
    Op { code, flags: 0, args: OpArgs::None, input: input.into() }
}

fn request_of(action: &Action) -> OpRequest {
    let ops = match action {
        // All of it: more than an object here can have.
        Action::Read => vec![extent(code::READ, 0, 1 << 22, &[])],
        Action::Stat => vec![with_input(code::STAT, Bytes::new())],
        Action::WriteFull(data) => vec![extent(code::WRITEFULL, 0, data.len() as u64, data)],
        Action::Write(offset, data) => vec![extent(code::WRITE, *offset, data.len() as u64, data)],
        Action::Append(data) => vec![extent(code::APPEND, 0, data.len() as u64, data)],
        Action::Truncate(size) => vec![extent(code::TRUNCATE, *size, 0, &[])],
        Action::Zero(offset, len) => vec![extent(code::ZERO, *offset, *len, &[])],
        Action::CreateExclusively => vec![Op { flags: op_flags::EXCL, ..with_input(code::CREATE, Bytes::new()) }],
        Action::Delete => vec![with_input(code::DELETE, Bytes::new())],
        Action::SetXattr(name, value) => vec![Op::xattr(code::SETXATTR, name.as_bytes(), value)],
        Action::GetXattr(name) => vec![Op::xattr(code::GETXATTR, name.as_bytes(), &[])],
        Action::OmapSet(map) => vec![with_input(code::OMAPSETVALS, as_bytes(map))],
        Action::OmapRemove(keys) => vec![with_input(code::OMAPRMKEYS, keys.to_bytes())],
        Action::OmapGet => {
            let mut input = Vec::new();
            "".encode(&mut input);
            1000u64.encode(&mut input);
            "".encode(&mut input);
            vec![with_input(code::OMAPGETVALS, input)]
        }
        Action::AppendAndMark(data, key) => {
            let mark = BTreeMap::from([(key.clone(), data.clone())]);
            vec![extent(code::APPEND, 0, data.len() as u64, data), with_input(code::OMAPSETVALS, as_bytes(&mark))]
        }
        Action::DeleteIf(name, value) => {
            let mut compare = Op::xattr(code::CMPXATTR, name.as_bytes(), value);
            if let OpArgs::Xattr { cmp_op, cmp_mode, .. } = &mut compare.args {
                (*cmp_op, *cmp_mode) = (self::cmp_op::EQ, self::cmp_mode::STRING);
            }
            vec![compare, with_input(code::DELETE, Bytes::new())]
        }
    };
    let flags = if action.is_read() { flags::READ } else { flags::WRITE };
    let flags = if matches!(action, Action::DeleteIf(..)) { flags | flags::READ } else { flags };
    OpRequest { ops, flags, ..OpRequest::default() }
}

fn as_bytes(map: &BTreeMap<String, Vec<u8>>) -> Bytes {
    let map: BTreeMap<String, Bytes> = map.iter().map(|(k, v)| (k.clone(), Bytes::copy_from_slice(v))).collect();
    map.to_bytes()
}

fn outcome_of(action: &Action, reply: &OsdOpReply) -> Outcome {
    if reply.result < 0 {
        return Outcome::Error(reply.result);
    }
    let output = reply.ops.first().map(|op| op.output.to_vec()).unwrap_or_default();
    let garbage = || Outcome::Error(i32::MIN);
    match action {
        Action::Read | Action::GetXattr(_) => Outcome::Data(output),
        Action::Stat => denc::Reader::new(&output).u64().map_or_else(|_| garbage(), Outcome::Size),
        Action::OmapGet => {
            let map = denc::Reader::new(&output).get::<BTreeMap<String, Bytes>>();
            map.map_or_else(|_| garbage(), |m| Outcome::Map(m.into_iter().map(|(k, v)| (k, v[..].to_vec())).collect()))
        }
        _ => Outcome::Done,
    }
}

/// Of a client that sends commands to the monitor when it is called, and keeps the answers.
#[derive(Debug, Default)]
pub struct Admin {
    waiting: Rc<RefCell<AdminShared>>,
}

/// What an [`Admin`] shares with its world.
#[derive(Debug, Default)]
pub struct AdminShared {
    /// To be sent.
    pub commands: Vec<String>,
    /// Under way.
    pub open: BTreeMap<OpId, String>,
    /// Command, result, status, output.
    pub answers: Vec<(String, i32, String, Vec<u8>)>,
}

impl Admin {
    /// An administrator.
    pub fn new(waiting: Rc<RefCell<AdminShared>>) -> Self {
        // What an earlier life had asked is asked again.
        let unanswered = std::mem::take(&mut waiting.borrow_mut().open);
        waiting.borrow_mut().commands.extend(unanswered.into_values());
        Self { waiting }
    }
}

impl Driver for Admin {
    fn event(&mut self, _now: Now, event: Event, _objecter: &mut Objecter) {
        let Event::CommandDone { id, result, status, output } = event else { return };
        let mut shared = self.waiting.borrow_mut();
        if let Some(command) = shared.open.remove(&id) {
            shared.answers.push((command, result, status, output.to_vec()));
        }
    }

    fn turn(&mut self, _now: Now, objecter: &mut Objecter) {
        let mut shared = self.waiting.borrow_mut();
        for command in std::mem::take(&mut shared.commands) {
            let id = objecter.command(command.clone(), types::Rope::new());
            shared.open.insert(id, command);
        }
    }

    fn deadline(&self) -> Mono {
        Mono::NEVER
    }

    fn call(&mut self, _now: Now, command: &str, _objecter: &mut Objecter) -> (i32, String) {
        self.waiting.borrow_mut().commands.push(command.into());
        (0, String::new())
    }
}
