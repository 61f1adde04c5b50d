//! A flame graph: each box is a function, as wide as the share of the samples in which it was on the stack, above its
//! callers.

use maud::html;
use std::collections::BTreeMap;

/// Width of the drawing, height of a row, and width of a letter, in units of the drawing.
const WIDTH: f64 = 1200.0;
const ROW: f64 = 17.0;
const LETTER: f64 = 6.7;
/// Boxes below this share of the samples are left out.
const LEAST: f64 = 0.002;
/// Most rows. Deeper stacks are cut.
const DEEPEST: usize = 60;
/// Outermost frames: what is outside of these is the same for all samples of a thread, and not always found.
const OUTERMOST: [&str; 1] = ["runtime::reactor::drive"];

#[derive(Debug, Default)]
struct Frame {
    samples: u64,
    callees: BTreeMap<String, Frame>,
}

/// Draws what `perf script -F comm,ip,sym` printed. `None` if there is no sample in it.
pub(super) fn draw(said: &str) -> Option<String> {
    let mut root = Frame::default();
    stacks(said).for_each(|stack| root.add(&stack));
    if root.samples == 0 {
        return None;
    }
    let least = (root.samples as f64 * LEAST).max(1.0) as u64;
    let rows = root.depth(least).min(DEEPEST);
    let mut boxes = Vec::new();
    root.boxes("all", 0.0, 0, least, WIDTH / root.samples as f64, &mut boxes);
    let (height, total) = (rows as f64 * ROW, root.samples as f64);
    let drawing = html! {
        svg.flames viewBox=(format!("0 0 {WIDTH} {height}")) role="img" aria-label="flame graph" font-family="monospace" font-size="11" {
            @for b in boxes.iter().filter(|b| b.level < rows) {
                @let y = height - (b.level as f64 + 1.0) * ROW;
                g {
                    title { (b.name) " (" (format!("{:.1}", 100.0 * b.samples as f64 / total)) " %)" }
                    rect x=(format!("{:.1}", b.x)) y=(format!("{y:.0}")) width=(format!("{:.1}", b.width)) height=(ROW - 1.0) fill=(colour(b.name)) {}
                    @if b.width > 4.0 * LETTER { text x=(format!("{:.1}", b.x + 2.0)) y=(format!("{:.0}", y + 12.0)) fill="#111" { (shorten(b.name, b.width)) } }
                }
            }
        }
    };
    Some(drawing.into_string())
}

struct Box<'a> {
    name: &'a str,
    samples: u64,
    x: f64,
    width: f64,
    level: usize,
}

impl Frame {
    fn add(&mut self, stack: &[String]) {
        self.samples += 1;
        let mut frame = self;
        for name in stack {
            frame = frame.callees.entry(name.clone()).or_default();
            frame.samples += 1;
        }
    }

    fn depth(&self, least: u64) -> usize {
        1 + self.callees.values().filter(|f| f.samples >= least).map(|f| f.depth(least)).max().unwrap_or(0)
    }

    fn boxes<'a>(&'a self, name: &'a str, x: f64, level: usize, least: u64, scale: f64, out: &mut Vec<Box<'a>>) {
        out.push(Box { name, samples: self.samples, x, width: self.samples as f64 * scale, level });
        let mut x = x;
        for (callee, below) in self.callees.iter().filter(|(_, f)| f.samples >= least) {
            below.boxes(callee, x, level + 1, least, scale, out);
            x += below.samples as f64 * scale;
        }
    }
}

/// The stacks, each from its thread on inwards. A sample is the thread's name and a line for each function, innermost
/// first; an empty line ends it.
fn stacks(said: &str) -> impl Iterator<Item = Vec<String>> {
    said.split("\n\n").filter_map(|sample| {
        let mut lines = sample.lines().filter(|line| !line.trim().is_empty());
        let thread = lines.next()?.trim().to_owned();
        let mut frames: Vec<String> = lines.map(|line| tidy(line.trim().split_once(' ').map_or("", |(_, name)| name))).collect();
        frames.reverse();
        if let Some(at) = frames.iter().position(|f| OUTERMOST.contains(&f.as_str())) {
            frames.drain(..at);
        }
        frames.insert(0, thread);
        frames.truncate(DEEPEST);
        Some(frames)
    })
}

/// A function's name without offsets and type arguments, which are noise in a picture.
fn tidy(name: &str) -> String {
    let (mut out, mut depth) = (String::new(), 0);
    let name = name.trim().split("+0x").next().unwrap_or_default();
    if name.is_empty() {
        return "[unknown]".into();
    }
    let mut before = ' ';
    for c in name.chars() {
        match c {
            // Only what follows a name are its arguments: `<A as B>::c` and `(anonymous)` are part of it.
            '<' if depth > 0 || before.is_alphanumeric() || before == '_' || before == ':' => depth += 1,
            '>' if depth > 0 && before != '-' => depth -= 1,
            _ if depth == 0 => out.push(c),
            _ => {}
        }
        before = c;
    }
    out.trim_end_matches("::").to_owned()
}

fn shorten(name: &str, width: f64) -> String {
    let letters = (width / LETTER) as usize;
    if name.chars().count() <= letters {
        return name.to_owned();
    }
    name.chars().take(letters.saturating_sub(2)).collect::<String>() + ".."
}

/// The kernel's part is blue, that of memory and copies yellow, the rest in shades of red that a name keeps.
fn colour(name: &str) -> String {
    let shade = name.bytes().fold(7u32, |hash, b| hash.wrapping_mul(31).wrapping_add(b.into())) % 40;
    let kernel = [
        "__x64_sys",
        "do_",
        "__",
        "sys_",
        "tcp_",
        "ip_",
        "io_",
        "ext4",
        "xfs",
        "blk_",
        "entry_",
        "asm_",
        "nf_",
        "sock",
        "skb",
        "virt",
        "net_",
        "jbd2",
    ];
    let memory = ["mi_", "malloc", "free", "memcpy", "memmove", "memset", "Bytes", "Rope", "Buf"];
    let (red, green, blue) = match () {
        () if kernel.iter().any(|k| name.starts_with(k)) => (125 + shade, 165 + shade, 220),
        () if memory.iter().any(|m| name.contains(m)) => (238, 195 + shade, 95 + shade),
        () => (228, 100 + shade * 2, 75 + shade),
    };
    format!("rgb({red},{green},{blue})")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `perf` 6.1 prints it.
    const SAID: &str = "osd.0 \n\t        1a2b runtime::reactor::Reactor<N>::poll\n\t        3c4d <pg::Pg as node::Node>::turn\n\t   5e6f runtime::reactor::drive\n\t 7a clone3\n\n\
        osd.0 \n\t        1a2b memcpy+0x10\n\t        9 mi_free::<alloc::vec::Vec<u8>>\n\t   5e6f runtime::reactor::drive\n\n\
        rados \n\t ffffffff8 do_syscall_64\n\t aaa \n\n";

    #[test]
    fn stacks_begin_at_their_thread() {
        let found: Vec<Vec<String>> = stacks(SAID).collect();
        assert_eq!(
            found[0],
            ["osd.0", "runtime::reactor::drive", "<pg::Pg as node::Node>::turn", "runtime::reactor::Reactor::poll"]
        );
        assert_eq!(found[1], ["osd.0", "runtime::reactor::drive", "mi_free", "memcpy"]);
        assert_eq!(found[2], ["rados", "[unknown]", "do_syscall_64"]);
    }

    #[test]
    fn boxes_are_as_wide_as_their_share() {
        let svg = draw(SAID).unwrap();
        assert!(svg.contains("osd.0 (66.7 %)") && svg.contains("memcpy (33.3 %)"), "{svg}");
        assert!(svg.contains(&format!("width=\"{:.1}\"", WIDTH * 2.0 / 3.0)), "{svg}");
        assert_eq!(draw(""), None);
    }
}
