//! What a process hears: of its services, of who runs it, of the cluster.

use crate::cli::Common;
use crate::osds::Prepared;
use runtime::Caller;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::mpsc::Sender;

/// News for the process.
pub(crate) enum Event {
    /// SIGTERM or SIGINT; SIGHUP of a terminal that is gone.
    Signal(i32),
    /// A service is over: its name.
    Ended(String, Ended),
    /// Duties that the cluster gives to this host.
    Duties(Duties),
    /// Wish of somebody at this host.
    Wanted(Wanted),
}

/// Wish of somebody at this host for the process. An answer that is never given says that the process is ending.
pub(crate) enum Wanted {
    /// That this OSD runs. The answer is its mailbox, or why it does not run.
    Start(Box<Prepared>, Common, Sender<Result<Caller, String>>),
    /// That a service ends. The answer comes when it has.
    Stop(String, Sender<()>),
}

/// End of a service.
pub(crate) enum Ended {
    /// As it was told.
    Clean,
    /// It said why it cannot go on.
    Failed(String),
    /// A bug. Its log has the place.
    Panicked,
}

impl Ended {
    /// Returns how a service ended, as a sentence.
    pub(crate) fn sentence(&self, name: &str) -> String {
        match self {
            Ended::Clean => format!("{name} has stopped although nobody asked"),
            Ended::Failed(why) => format!("{name}: {why}"),
            Ended::Panicked => format!("{name} ended by a panic, which is a bug; the log of `nacre` has its place"),
        }
    }
}

/// Duties that the monitors give to this host.
pub(crate) struct Duties {
    /// Names of the monitors that this host is to run.
    pub(crate) mons: BTreeSet<String>,
    /// All monitors of the cluster.
    pub(crate) all: Vec<(String, SocketAddr)>,
}
