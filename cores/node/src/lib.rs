//! The contract between a machine and its driver.
//!
//! A *machine* (an OSD, a monitor, a client) decides what happens next. It is given inputs and the time, and gives out
//! outputs; it has no sockets, files, threads, clocks or randomness of its own. A *driver* (a reactor in production,
//! the simulator in tests) carries the outputs out and brings the inputs in.
//!
//! One round of a driver: hand over every input that is there with [`Node::handle`], then call [`Node::turn`] once (the
//! machine closes its batches: journal groups, sends), carry out the outputs in order, say so with
//! [`Node::carried_out`], and wait for the next input or [`Node::deadline`], whichever comes first; a deadline is met
//! by calling `turn`.
//!
//! Buffers belong to whoever they were handed to: a [`Buf`] in a `Receive` or a disk read belongs to the driver until
//! it comes back with the completion, also when the connection is closed meanwhile.

#![forbid(unsafe_code)]

mod buf;
mod mail;
mod memory;

pub use buf::{ALIGN, Buf, HUGE, buffers_kept, keep_buffers};
pub use mail::{Compute, Mail, MailId};
pub use memory::{MemoryBound, MemoryShare, MemoryWish};

use std::net::SocketAddr;
use std::time::Duration;
use types::{Rope, UTime};

/// A moment on the monotonic clock, in nanoseconds from an arbitrary origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mono(pub u64);

impl Mono {
    /// A moment that never comes.
    pub const NEVER: Mono = Mono(u64::MAX);

    /// This moment moved by `d`.
    pub fn plus(self, d: Duration) -> Mono {
        Mono(self.0.saturating_add(d.as_nanos() as u64))
    }

    /// Time since `earlier`; zero if that is later.
    pub fn since(self, earlier: Mono) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// The time, as both clocks tell it. The wall clock may jump; nothing may be ordered by it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// For deadlines and durations.
    pub mono: Mono,
    /// For what people read and for modification times.
    pub wall: UTime,
}

/// A connection. Never used again after it closed. Accepted ones get even numbers from the driver, those that the
/// machine opens get odd numbers from the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId(pub u64);

/// A port that the driver listens on for the machine; numbers are agreed when the machine is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListenerId(pub u32);

/// A disk (file, raw device) that the driver opened for the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId(pub u16);

/// Names a request of the machine, so that its completion can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

/// A request to the machine from its own process (admin socket, signal handler, the command line around it).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// Event that a driver brings to a machine.
#[derive(Debug)]
pub enum Input {
    /// Somebody connected to `listener`.
    Accepted {
        /// The listener.
        listener: ListenerId,
        /// The new connection.
        conn: ConnId,
        /// The other end.
        peer: SocketAddr,
        /// This end.
        local: SocketAddr,
    },
    /// A connection that the machine asked for stands.
    Connected {
        /// The connection.
        conn: ConnId,
        /// This end.
        local: SocketAddr,
    },
    /// Bytes arrived: the first `len` of `buf` (at least one).
    Received {
        /// The connection.
        conn: ConnId,
        /// The buffer of the `Receive`, back.
        buf: Buf,
        /// Number of bytes that are new.
        len: usize,
    },
    /// The kernel took `bytes` more of what was sent.
    Sent {
        /// The connection.
        conn: ConnId,
        /// Number of bytes.
        bytes: usize,
    },
    /// The connection is gone (by the peer, an error, a failed connect). Not given after the machine's own `Close`.
    Closed {
        /// The connection.
        conn: ConnId,
        /// Nobody listens at the port that the machine wanted to connect to, and the host there says so.
        refused: bool,
        /// For the log.
        why: String,
    },
    /// A disk request ended.
    Disk(DiskDone),
    /// The process asks for something; answered by [`Output::Answer`].
    Call {
        /// To answer to.
        call: CallId,
        /// Command, as JSON text.
        command: String,
    },
    /// Another machine of this process sent something: see [`Mail`].
    Mail {
        /// The sender.
        from: MailId,
        /// The value.
        mail: Mail,
    },
    /// Work is done: see [`Output::Compute`].
    Computed {
        /// The request.
        token: Token,
        /// Its result.
        result: Mail,
    },
    /// From now on the machine may take so much memory. What is too much it gives back by and by.
    Memory(MemoryShare),
    /// Finish what was begun, make it durable, then say [`Output::Stopped`].
    Stop,
}

/// Effect that a machine wants done.
#[derive(Debug)]
pub enum Output {
    /// Open a connection.
    Connect {
        /// Its name from now on (odd).
        conn: ConnId,
        /// Address of the peer.
        to: SocketAddr,
    },
    /// Receive at least one byte into `buf`. At most one is outstanding for each connection; a machine that wants
    /// to slow a peer down just does not ask.
    Receive {
        /// The connection.
        conn: ConnId,
        /// Room for the bytes.
        buf: Buf,
    },
    /// Send, after all that was sent before.
    Send {
        /// The connection.
        conn: ConnId,
        /// The bytes.
        data: Rope,
    },
    /// Close, after what was sent has been given to the kernel (or one second has passed).
    Close {
        /// The connection.
        conn: ConnId,
    },
    /// A disk request; completed by [`Input::Disk`]. Requests may complete in any order.
    Disk(DiskRequest),
    /// A line for the log.
    Log(LogLine),
    /// From now on, lines that matter less than this are dropped.
    LogLevel(Level),
    /// The answer to an [`Input::Call`].
    Answer {
        /// The call.
        call: CallId,
        /// 0, or a negative error number.
        result: i32,
        /// Text or JSON.
        text: String,
    },
    /// Something for another machine of this process: see [`Mail`].
    Mail {
        /// The receiver.
        to: MailId,
        /// The value.
        mail: Mail,
    },
    /// Work to be done elsewhere, answered by [`Input::Computed`].
    Compute(Compute),
    /// Memory that the machine would take, if it is not what it was made with. What it gets comes as
    /// [`Input::Memory`].
    Memory(MemoryWish),
    /// After [`Input::Stop`]: all is durable, the driver may end.
    Stopped,
    /// The machine cannot go on (its disk is gone or lies); the driver ends the daemon with this message.
    Fatal(String),
}

/// Importance of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Something failed that should not have.
    Error,
    /// Something that an operator should look at.
    Warn,
    /// Events at the rate of people.
    Info,
    /// Events at the rate of operations.
    Debug,
}

/// A line for the log.
#[derive(Clone, Debug)]
pub struct LogLine {
    /// Its importance.
    pub level: Level,
    /// Part that says it: `msgr`, `pg 1.3`, `store`.
    pub part: String,
    /// The text.
    pub text: String,
}

/// A request to a disk. Offsets and lengths are multiples of 4096.
#[derive(Debug)]
pub struct DiskRequest {
    /// Names it in the completion.
    pub token: Token,
    /// The disk.
    pub device: DeviceId,
    /// The operation.
    pub op: DiskOp,
}

/// Operation that can be asked of a disk.
#[derive(Debug)]
pub enum DiskOp {
    /// Fill `buf` from `offset`. Bytes beyond the end of a file are an error.
    Read {
        /// First byte.
        offset: u64,
        /// Filled and given back.
        buf: Buf,
    },
    /// Write at `offset`; a file grows if it ends before.
    Write {
        /// First byte.
        offset: u64,
        /// The data; pieces at aligned addresses and of aligned lengths are not copied.
        data: Rope,
        /// Complete only when the bytes, and everything completed on this device before, survive a power cut.
        durable: bool,
    },
    /// Make everything that was completed before durable.
    Flush,
    /// Give the space of these bytes back to the file system below, as far as it can take it; they may read as anything
    /// afterwards. Never fails for want of support.
    Trim {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        len: u64,
    },
    /// Ask for the sizes.
    Stat,
}

/// End of a disk request.
#[derive(Debug)]
pub struct DiskDone {
    /// The request.
    pub token: Token,
    /// Its result.
    pub result: Result<DiskOutput, DiskError>,
}

/// Result of a completed disk request.
#[derive(Debug)]
pub enum DiskOutput {
    /// A read's buffer.
    Read(Buf),
    /// A write or a flush is done.
    Done,
    /// The sizes.
    Stat(DiskStat),
}

/// Sizes of a disk, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskStat {
    /// Bytes that exist now (a file's length; a device's size).
    pub len: u64,
    /// Bytes that it may grow to (a file: what was configured; a device: its size).
    pub capacity: u64,
    /// Bytes that the file system below can still give; `u64::MAX` for a device.
    pub host_free: u64,
}

/// Reason why a disk request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskError {
    /// The disk says it cannot (EIO and all that is not below).
    Io(i32),
    /// No space to grow the file.
    NoSpace,
}

/// Collects a machine's outputs in order.
#[derive(Debug, Default)]
pub struct Outputs(pub Vec<Output>);

impl Outputs {
    /// Adds one.
    pub fn push(&mut self, output: Output) {
        self.0.push(output);
    }

    /// Adds a log line.
    pub fn log(&mut self, level: Level, part: impl Into<String>, text: impl Into<String>) {
        self.push(Output::Log(LogLine { level, part: part.into(), text: text.into() }));
    }
}

/// Counts of a driver's calls of a machine, since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wakes {
    /// Turns for which nothing had come in: a deadline had come.
    pub idle: u64,
    /// Those of them that put nothing out, and after which the deadline was past again.
    pub vain: u64,
    /// Those of them after which the driver let the machine wait, since there were too many.
    pub held: u64,
    /// Calls of the machine, for an input or to end a round, that took more than 5 ms. Others of the thread waited.
    pub long: u64,
    /// Time that these took together, in microseconds.
    pub long_us: u64,
}

/// A whole machine.
pub trait Node {
    /// Takes one input in.
    fn handle(&mut self, now: Now, input: Input, out: &mut Outputs);

    /// Ends a round: closes batches, meets deadlines that have come.
    fn turn(&mut self, now: Now, out: &mut Outputs);

    /// Returns when `turn` must be called at the latest, even if nothing comes in.
    fn deadline(&self) -> Mono;

    /// The outputs of the last [`Node::turn`] were carried out: what was to be sent is with the system. For measuring
    /// how long things took; nothing may be put out here.
    fn carried_out(&mut self, _now: Now) {}

    /// Tells, after a turn for which nothing had come in, how many there were. For counters; nothing may be put out
    /// here.
    fn woken(&mut self, _wakes: Wakes) {}
}
