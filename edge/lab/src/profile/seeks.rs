//! A seek picture: each request of the data disks as a point, by time and position.

use maud::html;
use std::path::Path;

/// Size of the drawing, and of its margins.
const WIDTH: f64 = 1200.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 70.0;
const BOTTOM: f64 = 24.0;
/// Most points; of more, each n-th is drawn.
const MOST: usize = 20_000;
/// Bytes of a sector in the kernel's accounts.
const SECTOR: f64 = 512.0;

#[derive(Clone, Copy, Debug, PartialEq)]
struct Request {
    seconds: f64,
    device: (u32, u32),
    write: bool,
    bytes: f64,
    at: f64,
}

/// Numbers of a disk of /proc/diskstats; of the whole disk, if it is a partition.
pub(super) fn device(name: &str) -> Option<(u32, u32)> {
    let mut folder = std::fs::canonicalize(Path::new("/sys/class/block").join(name)).ok()?;
    if folder.join("partition").exists() {
        folder.pop();
    }
    numbers(std::fs::read_to_string(folder.join("dev")).ok()?.trim(), ':')
}

fn numbers(text: &str, between: char) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once(between)?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// One line of `perf script -F time,trace` for `block:block_rq_issue`: `55215.283968: 254,0 RA 16384 () 12911720 + 32
/// ...`.
fn request(line: &str) -> Option<Request> {
    let mut words = line.split_whitespace();
    let seconds = words.next()?.trim_end_matches(':').parse().ok()?;
    let device = numbers(words.next()?, ',')?;
    let kind = words.next()?;
    let bytes: f64 = words.next()?.parse().ok()?;
    let sector: f64 = words.nth(1)?.parse().ok()?;
    // A flush alone has no bytes and no place.
    (bytes > 0.0).then_some(Request { seconds, device, write: kind.contains('W'), bytes, at: sector * SECTOR })
}

/// Draws the requests of these disks. `None` if there are none.
pub(super) fn draw(said: &str, devices: &[(u32, u32)]) -> Option<String> {
    let all: Vec<Request> = said.lines().filter_map(request).filter(|r| devices.contains(&r.device)).collect();
    let (first, last) = (all.first()?.seconds, all.last()?.seconds);
    let (low, high) = all.iter().fold((f64::MAX, 0.0f64), |(l, h), r| (l.min(r.at), h.max(r.at + r.bytes)));
    let (span, size) = ((last - first).max(1e-3), (high - low).max(1.0));
    let x = |r: &Request| LEFT + (r.seconds - first) / span * (WIDTH - LEFT - 6.0);
    let y = |at: f64| (HEIGHT - BOTTOM) * (1.0 - (at - low) / size);
    let shown = all.iter().step_by(all.len().div_ceil(MOST));
    let gib = |bytes: f64| format!("{:.1} GiB", bytes / f64::from(1u32 << 30));
    let (reads, writes): (Vec<&Request>, Vec<&Request>) = shown.partition(|r| !r.write);
    let path = |of: &[&Request]| of.iter().map(|r| format!("M{:.1} {:.1}h2", x(r), y(r.at))).collect::<String>();
    let count = |write: bool| all.iter().filter(|r| r.write == write).count();
    let drawing = html! {
        svg.seeks viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role="img" aria-label="seek picture" font-family="monospace" font-size="11" {
            rect x=(LEFT) y="0" width=(WIDTH - LEFT) height=(HEIGHT - BOTTOM) fill="none" stroke="#888" {}
            text x="2" y="11" fill="#888" { (gib(high)) }
            text x="2" y=(HEIGHT - BOTTOM) fill="#888" { (gib(low)) }
            path d=(path(&writes)) stroke="#e07030" stroke-width="2" {}
            path d=(path(&reads)) stroke="#3f7fd0" stroke-width="2" {}
            text x=(LEFT) y=(HEIGHT - 6.0) fill="#888" { (format!("{:.1} s: ", last - first)) tspan fill="#e07030" { (count(true)) " writes" } ", " tspan fill="#3f7fd0" { (count(false)) " reads" } ", " (format!("{:.1}", mean(&all) / 1024.0)) " KiB on average, by position on the disk" }
        }
    };
    Some(drawing.into_string())
}

fn mean(all: &[Request]) -> f64 {
    all.iter().map(|r| r.bytes).sum::<f64>() / all.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `perf` 6.1 prints it.
    const SAID: &str = "55215.283968: 254,0 RA 16384 () 12911720 + 32 0x2,0,4 [sleep]\n\
        55215.538941: 7,1 WS 4096 () 8 + 8 0x2,0,4 [osd.0]\n\
        55215.600000: 7,1 FF 0 () 0 + 0 0x2,0,4 [osd.0]\n\
        55216.538941: 7,1 R 8192 () 2097152 + 16 none,0,0 [osd.0]\n";

    #[test]
    fn requests_are_read_as_perf_prints_them() {
        let found: Vec<Request> = SAID.lines().filter_map(request).collect();
        assert_eq!(found.len(), 3, "a flush has no place");
        assert_eq!(found[1], Request { seconds: 55215.538941, device: (7, 1), write: true, bytes: 4096.0, at: 4096.0 });
    }

    #[test]
    fn only_the_data_disks_are_drawn() {
        let svg = draw(SAID, &[(7, 1)]).unwrap();
        assert!(svg.contains("1 writes") && svg.contains("1 reads") && svg.contains("1.0 GiB"), "{svg}");
        assert_eq!(draw(SAID, &[(8, 0)]), None);
    }
}
