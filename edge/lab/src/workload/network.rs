//! The network baseline: requests of a size and small answers over TCP on loopback, as many under way as asked.

use super::{Bench, Outcome};
use anyhow::{Context, Result};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// Bytes of an answer.
const ANSWER: usize = 64;

pub(super) fn run(bench: &mut Bench<'_>) -> Result<Outcome> {
    let (size, depth) = (bench.size() as usize, bench.depth() as usize);
    let listener = TcpListener::bind("127.0.0.1:0").context("listen on loopback")?;
    let address = listener.local_addr()?;
    let server = std::thread::spawn(move || listener.accept().map(|(stream, _)| answer(stream, size)));
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    let (ops, latency, seconds) = ask(stream, size, depth, Duration::from_secs_f64(bench.seconds()))?;
    let _ = server.join();
    let mut outcome = Outcome { ops, bytes: ops * size as f64, seconds, ..Outcome::default() };
    outcome.command = format!("{size} bytes over TCP on loopback, {depth} under way");
    outcome.figures.insert("latency_ms".into(), latency * 1e3);
    Ok(outcome)
}

fn answer(mut stream: TcpStream, size: usize) {
    let _ = stream.set_nodelay(true);
    let mut request = vec![0; size];
    while stream.read_exact(&mut request).is_ok() && stream.write_all(&[1; ANSWER]).is_ok() {}
}

/// Operations, mean latency and time.
fn ask(mut stream: TcpStream, size: usize, depth: usize, time: Duration) -> Result<(f64, f64, f64)> {
    let (request, mut reply) = (vec![7; size], [0; ANSWER]);
    let begun = Instant::now();
    let mut sent = std::collections::VecDeque::new();
    let (mut ops, mut waited) = (0u64, Duration::ZERO);
    loop {
        while sent.len() < depth && begun.elapsed() < time {
            sent.push_back(Instant::now());
            stream.write_all(&request)?;
        }
        let Some(at) = sent.pop_front() else { break };
        stream.read_exact(&mut reply)?;
        waited += at.elapsed();
        ops += 1;
    }
    Ok((ops as f64, waited.as_secs_f64() / ops.max(1) as f64, begun.elapsed().as_secs_f64()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_answers() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let server = std::thread::spawn(move || answer(listener.accept().unwrap().0, 100));
        let (ops, latency, seconds) = ask(stream, 100, 4, Duration::from_millis(20)).unwrap();
        server.join().unwrap();
        assert!(ops >= 4.0 && latency > 0.0 && seconds >= 0.02);
    }
}
