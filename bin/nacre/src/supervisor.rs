//! What a process owes to who runs it: a service manager that waits to hear that it serves, and who sends it signals.
//!
//! | signal | what it does |
//! |---|---|
//! | SIGTERM, SIGINT | stops cleanly; a second one ends at once |
//! | SIGHUP | opens the log files anew. If the process was started at a terminal, that is gone: it stops cleanly |
//!
//! systemd's protocol (`sd_notify(3)`): datagrams of lines `NAME=VALUE` to the socket that `NOTIFY_SOCKET` names. A
//! name that begins with `@` is one of the abstract name space.

use crate::events::Event;
use crate::log::Logs;
use anyhow::{Context, Result};
use runtime::process::{SIGHUP, Signals};
use std::ffi::OsStr;
use std::io::{self, IsTerminal};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::mpsc::Sender;

/// Tells the service manager, if there is one, in lines `NAME=VALUE`. A manager that does not listen is no reason not
/// to serve.
pub(crate) fn tell(lines: &str) {
    if let Some(socket) = std::env::var_os("NOTIFY_SOCKET") {
        let _ = send(&socket, lines);
    }
}

fn send(socket: &OsStr, lines: &str) -> io::Result<()> {
    let to = match socket.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(socket)?,
    };
    UnixDatagram::unbound()?.send_to_addr(lines.as_bytes(), &to).map(drop)
}

/// Waits for signals on a thread of its own: opens `logs` anew, or tells `events`.
pub(crate) fn hear_signals(signals: Signals, logs: Logs, events: Sender<Event>) -> Result<()> {
    let at_terminal = io::stdin().is_terminal();
    let wait = move || loop {
        match signals.next() {
            SIGHUP if !at_terminal => logs.reopen(),
            signal => {
                if events.send(Event::Signal(signal)).is_err() {
                    return;
                }
            }
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(wait).context("start a thread for signals").map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_manager_hears_what_it_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let name = format!("nacre-test-{}", std::process::id());
        let abstract_name = SocketAddr::from_abstract_name(&name).unwrap();
        let ways = [
            (UnixDatagram::bind(&path).unwrap(), path.display().to_string()),
            (UnixDatagram::bind_addr(&abstract_name).unwrap(), format!("@{name}")),
        ];
        for (manager, socket) in ways {
            send(OsStr::new(&socket), "READY=1\nSTATUS=ready").unwrap();
            let mut heard = [0; 64];
            let n = manager.recv(&mut heard).unwrap();
            assert_eq!(&heard[..n], b"READY=1\nSTATUS=ready", "{socket}");
        }
        assert!(send(OsStr::new("/no/such/socket"), "READY=1").is_err());
    }
}
