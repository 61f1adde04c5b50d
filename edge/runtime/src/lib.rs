//! Drives a machine ([`node::Node`]), or several together, on the calling thread: sockets, disks, time, and requests
//! from other threads.
//!
//! ```no_run
//! # fn machine() -> Box<dyn node::Node> { unimplemented!() }
//! let listener = std::net::TcpListener::bind("127.0.0.1:3300")?;
//! let disk = runtime::Device::open("store".as_ref(), &runtime::DeviceOptions::default()).expect("opens");
//! let (caller, inbox) = runtime::mailbox()?;
//! let mut setup = runtime::Setup::new();
//! setup.listeners.push((node::ListenerId(0), listener));
//! setup.devices.push((node::DeviceId(0), disk));
//! setup.inbox = Some(inbox);
//! let daemon = std::thread::spawn(move || runtime::run(machine(), setup));
//! caller.stop();
//! daemon.join().expect("no panic").expect("a clean end");
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Two drivers do the work behind one small trait. *io_uring* has network and disk in one ring: one system call for
//! each round. *epoll* does the network itself and gives the disk to threads; it is for systems that forbid io_uring,
//! and for disks without direct IO. Both pass the same tests.
//!
//! A durable write is durable with everything that was completed before it on its device; see `device` for what that
//! takes.

mod chain;
mod compute;
mod device;
mod driver;
mod epoll;
mod job;
mod mailbox;
mod memory;
pub mod process;
mod reactor;
mod seat;
mod slab;
#[cfg(feature = "slowdown")]
mod slowdown;
mod spin;
mod sys;
mod uring;
mod wakes;

pub use device::{Device, DeviceError, DeviceOptions};
pub use mailbox::{Answer, CallError, Caller, Inbox, Outside, PostOffice, mailbox};
pub use memory::Memory;
#[cfg(feature = "mimalloc")]
pub use memory::give_memory_back;
pub use reactor::{MOST_TOGETHER, RunError, drive, run, run_together};

use node::{DeviceId, Level, ListenerId, LogLine, MailId};
use std::net::TcpListener;
use std::time::Duration;
use types::UTime;

/// The choice of a driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// io_uring where it works and every device does direct IO, else epoll.
    #[default]
    Auto,
    /// io_uring, or an error.
    Uring,
    /// epoll, and threads for the disks.
    Epoll,
}

impl std::str::FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Choice::Auto),
            "uring" => Ok(Choice::Uring),
            "epoll" => Ok(Choice::Epoll),
            other => Err(format!("unknown driver '{other}': auto, uring or epoll")),
        }
    }
}

/// Takes the lines of a machine's log. It gets no lines above the level.
pub trait LogSink: Send {
    /// Takes one line, said at `wall`.
    fn line(&mut self, wall: UTime, line: &LogLine);
}

impl<F: FnMut(UTime, &LogLine) + Send> LogSink for F {
    fn line(&mut self, wall: UTime, line: &LogLine) {
        self(wall, line);
    }
}

/// Settings with which a machine is run.
pub struct Setup {
    /// The listeners. They must listen already.
    pub listeners: Vec<(ListenerId, TcpListener)>,
    /// The disks.
    pub devices: Vec<(DeviceId, Device)>,
    /// The choice of the driver.
    pub driver: Choice,
    /// Requests from other threads.
    pub inbox: Option<Inbox>,
    /// The machine's own address for mail, and the office through which it sends. Receivers are registered at the
    /// office with the caller of their inbox.
    pub post: Option<(MailId, PostOffice)>,
    /// Place where log lines go.
    pub log: Box<dyn LogSink>,
    /// Least important level that is logged, until the machine sets another.
    pub level: Level,
    /// Time to look for more work before sleeping, while there is work. It saves a wake-up and burns a processor.
    /// Zero: never. None: some hundred microseconds, for a client that does one thing at a time.
    pub spin: Option<Duration>,
    /// Most connections. Further ones wait in the kernel's queue, unheard: so this is above what the machine's
    /// messengers take, which turn away what is too much and say so.
    pub max_connections: usize,
}

impl Setup {
    /// Makes a setup without listeners and disks that logs nothing.
    pub fn new() -> Self {
        Self {
            listeners: Vec::new(),
            devices: Vec::new(),
            driver: Choice::Auto,
            inbox: None,
            post: None,
            log: Box::new(|_: UTime, _: &LogLine| {}),
            level: Level::Info,
            spin: None,
            max_connections: 65_536,
        }
    }
}

impl Default for Setup {
    fn default() -> Self {
        Self::new()
    }
}

/// Says whether io_uring works here, with all that the driver needs.
///
/// # Errors
/// What the system says.
pub fn uring_works() -> std::io::Result<()> {
    uring::probe().map(drop)
}
