//! One connection under epoll.

use crate::chain::Chain;
use node::{Buf, ConnId, Input};
use std::io::{self, Read, Write};
use std::net::TcpStream;

/// State of a connection after it was served.
pub(crate) enum Outcome {
    /// The connection waits for the kernel or the machine.
    Idle,
    /// The connection is over. The machine has been told, unless it closed it itself.
    Gone,
}

/// A socket with what waits to go out, and the buffer that the machine wants filled.
pub(crate) struct Conn {
    pub(crate) id: ConnId,
    pub(crate) stream: TcpStream,
    pub(crate) outbox: Chain,
    /// True if it is in the list of connections to try.
    pub(crate) active: bool,
    receive: Option<Buf>,
    connecting: bool,
    readable: bool,
    writable: bool,
    /// True if the peer sends no more. The end follows what is there, without another edge.
    ended: bool,
    /// True if the machine closed it. What is in the outbox still goes out.
    closing: bool,
    /// Nobody listens where it was to lead.
    refused: bool,
}

impl Conn {
    /// Takes a nonblocking socket that is connected, or being connected.
    pub(crate) fn new(id: ConnId, stream: TcpStream, connecting: bool) -> Self {
        Self {
            id,
            stream,
            outbox: Chain::default(),
            active: false,
            receive: None,
            connecting,
            readable: !connecting,
            writable: !connecting,
            ended: false,
            closing: false,
            refused: false,
        }
    }

    /// Takes events of epoll in.
    pub(crate) fn note(&mut self, events: libc::c_int) {
        let failed = events & (libc::EPOLLERR | libc::EPOLLHUP) != 0;
        self.ended |= failed || events & libc::EPOLLRDHUP != 0;
        self.readable |= self.ended || events & libc::EPOLLIN != 0;
        self.writable |= failed || events & libc::EPOLLOUT != 0;
    }

    /// Gives room for the next bytes.
    pub(crate) fn receive(&mut self, buf: Buf) {
        assert!(self.receive.is_none(), "one receive at a time for each connection");
        self.receive = Some(buf);
    }

    /// Closes it for the machine. Says whether something is still to be sent.
    pub(crate) fn close(&mut self) -> bool {
        self.closing = true;
        self.receive = None;
        !self.connecting && !self.outbox.is_empty()
    }

    /// Does what can be done without waiting. At most one receive, so that connections take turns.
    pub(crate) fn serve(&mut self, inputs: &mut Vec<Input>) -> Outcome {
        match self.try_serve(inputs) {
            Ok(()) if self.closing && self.outbox.is_empty() => Outcome::Gone,
            Ok(()) => Outcome::Idle,
            Err(_) if self.closing => Outcome::Gone,
            Err(why) => {
                inputs.push(Input::Closed { conn: self.id, refused: self.refused, why });
                Outcome::Gone
            }
        }
    }

    fn try_serve(&mut self, inputs: &mut Vec<Input>) -> Result<(), String> {
        if self.connecting && !self.finish_connect(inputs)? {
            return Ok(());
        }
        self.flush(inputs)?;
        self.read(inputs)
    }

    /// Says whether the connection stands now.
    fn finish_connect(&mut self, inputs: &mut Vec<Input>) -> Result<bool, String> {
        if !self.writable {
            return Ok(false);
        }
        if let Some(e) = self.stream.take_error().map_err(|e| e.to_string())? {
            self.refused = e.kind() == io::ErrorKind::ConnectionRefused;
            return Err(format!("connect: {e}"));
        }
        let local = self.stream.local_addr().map_err(|e| format!("connect: {e}"))?;
        self.connecting = false;
        inputs.push(Input::Connected { conn: self.id, local });
        Ok(true)
    }

    fn flush(&mut self, inputs: &mut Vec<Input>) -> Result<(), String> {
        let mut bytes = 0;
        while self.writable && !self.outbox.is_empty() {
            match (&self.stream).write_vectored(&self.outbox.io_slices()) {
                Ok(n) => {
                    self.outbox.advance(n);
                    bytes += n;
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => self.writable = false,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(format!("send: {e}")),
            }
        }
        if bytes > 0 && !self.closing {
            inputs.push(Input::Sent { conn: self.id, bytes });
        }
        Ok(())
    }

    fn read(&mut self, inputs: &mut Vec<Input>) -> Result<(), String> {
        while self.readable
            && let Some(buf) = &mut self.receive
        {
            match (&self.stream).read(buf) {
                Ok(0) => return Err("closed by the peer".into()),
                Ok(len) => {
                    // A short read means that no more is there, unless the end is.
                    self.readable = len == buf.len() || self.ended;
                    let buf = self.receive.take().expect("just used");
                    inputs.push(Input::Received { conn: self.id, buf, len });
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => self.readable = false,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(format!("receive: {e}")),
            }
        }
        Ok(())
    }
}
