//! The bounds of a server.

use std::time::Duration;

/// Bounds on what strangers may take of a server.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections at a time. Who comes then is answered 503 and let go.
    pub connections: usize,
    /// Connections of one IP address at a time.
    pub connections_of_one: usize,
    /// Bytes of a request's head. hyper allows no less than 8 KiB.
    pub head_bytes: usize,
    /// Lines of a request's head.
    pub head_lines: usize,
    /// Bytes of a request's body.
    pub body_bytes: usize,
    /// Time until a head is whole, from the connection or from the end of the answer before it.
    pub head_time: Duration,
    /// Time until a body is whole.
    pub body_time: Duration,
    /// Time that a site may take for an answer.
    pub answer_time: Duration,
    /// Span in which a client that has something to read must take [`Limits::pace_bytes`].
    pub pace_time: Duration,
    /// Bytes that such a client must take in that span.
    pub pace_bytes: usize,
    /// Threads for [`crate::blocking`] at a time.
    pub threads: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 256,
            connections_of_one: 64,
            head_bytes: 16 << 10,
            head_lines: 64,
            body_bytes: 64 << 10,
            head_time: Duration::from_secs(10),
            body_time: Duration::from_secs(20),
            answer_time: Duration::from_secs(30),
            pace_time: Duration::from_secs(20),
            pace_bytes: 64 << 10,
            threads: 2,
        }
    }
}
