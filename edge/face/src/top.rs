//! What `nacre top` shows: who loads the cluster, as lines for a terminal.
//!
//! Names come from people whom the reader may not know. So nothing that is told here moves a cursor or changes a colour: see [`plain`].

use crate::values::{number, rows, scaled, text};
use serde_json::Value;

/// Things that are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listed {
    /// Block images that are in use.
    Images,
    /// Pools.
    Pools,
    /// OSDs.
    Osds,
}

/// By what rows are sorted, the largest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sorted {
    /// By all operations; OSDs by the time that a write takes.
    Load,
    /// By writes.
    Writes,
    /// By reads.
    Reads,
}

/// The room on a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Characters of a line, at least 1.
    pub columns: usize,
    /// Lines.
    pub lines: usize,
}

/// Text with which a terminal does nothing but show it: control characters, and those that change the direction of writing, become `?`.
pub fn plain(text: &str) -> String {
    let moves =
        |c: char| c.is_control() || matches!(c, '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.chars().map(|c| if moves(c) { '?' } else { c }).collect()
}

fn count(n: f64) -> String {
    scaled(n, 1000.0, &["", "k", "M", "G"], "")
}

fn bytes(n: f64) -> String {
    scaled(n, 1024.0, &["", "K", "M", "G", "T", "P"], "")
}

fn millis(nanos: f64) -> String {
    if nanos > 0.0 { format!("{:.1}", nanos / 1e6) } else { "-".into() }
}

/// A row of the list: its name, its cells, and by what it is sorted.
struct Line {
    name: String,
    cells: Vec<String>,
    writes: f64,
    reads: f64,
    load: f64,
    /// The last day, as [`day`] draws it.
    day: String,
}

/// Columns of a day.
const DAY: usize = 16;

/// A day as one line of blocks, the oldest first, as high as the largest value is; a space where nothing is known.
fn day(values: &Value) -> String {
    let all: Vec<Option<f64>> = rows(values).map(Value::as_f64).collect();
    let per = all.len().div_ceil(DAY).max(1);
    let mean = |steps: &[Option<f64>]| {
        let known: Vec<f64> = steps.iter().flatten().copied().collect();
        (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
    };
    let steps: Vec<Option<f64>> = all.chunks(per).map(mean).collect();
    let most = steps.iter().flatten().copied().fold(0.0, f64::max);
    let block = |value: f64| {
        ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'][((value / most.max(f64::MIN_POSITIVE)) * 7.0).round().clamp(0.0, 7.0) as usize]
    };
    steps.iter().map(|step| step.map_or(' ', block)).collect()
}

fn images(picture: &Value) -> Vec<Line> {
    let one = |image: &Value| {
        let rate = |at: usize| number(&image["rates"][at]);
        let names = [&image["pool"], &image["namespace"], &image["name"]].map(text);
        let name = names.iter().filter(|name| !name.is_empty()).copied().collect::<Vec<_>>().join("/");
        let cells = vec![count(rate(0)), count(rate(1)), bytes(rate(2)), bytes(rate(3)), millis(rate(4)), millis(rate(5))];
        Line { name, cells, writes: rate(0), reads: rate(1), load: rate(0) + rate(1), day: day(&image["history"]["ops"]) }
    };
    rows(&picture["images"]).map(one).filter(|line| line.load > 0.0).collect()
}

fn pools(picture: &Value) -> Vec<Line> {
    let df =
        |id: &Value| rows(&picture["df"]["pools"]).find(|pool| pool["id"] == *id).map_or(&Value::Null, |pool| &pool["stats"]);
    let one = |pool: &Value| {
        let rate = |name: &str| number(&pool["rates"][name]);
        let space = df(&pool["id"]);
        let cells = vec![
            count(rate("write_ops")),
            count(rate("read_ops")),
            bytes(rate("write_bytes")),
            bytes(rate("read_bytes")),
            bytes(number(&space["stored"])),
            bytes(number(&space["max_avail"])),
        ];
        let (writes, reads) = (rate("write_ops"), rate("read_ops"));
        let day = day(&picture["history"]["pools"][pool["id"].to_string()]["write_ops"]);
        Line { name: text(&pool["name"]).to_owned(), cells, writes, reads, load: writes + reads, day }
    };
    rows(&picture["pools"]).map(one).collect()
}

fn osds(picture: &Value) -> Vec<Line> {
    let one = |osd: &Value| {
        let (total, free) = (number(&osd["total"]), number(&osd["available"]));
        let full = if total > 0.0 { (total - free) / total * 100.0 } else { 0.0 };
        let up = match (osd["up"] == true, osd["in"] == true) {
            (true, true) => "up",
            (true, false) => "out",
            (false, true) => "DOWN",
            (false, false) => "down, out",
        };
        let write = number(&osd["commit_us"]);
        let cells = vec![
            up.to_owned(),
            millis(write * 1000.0),
            count(number(&osd["slow_ops"])),
            format!("{full:.0}%"),
            bytes(total),
            count(number(&osd["groups"])),
        ];
        let name = format!("osd.{} {}", osd["id"], text(&osd["hostname"]));
        Line { name, cells, writes: write, reads: full, load: write, day: day(&osd["history"]["commit_us"]) }
    };
    rows(&picture["osds"]).map(one).collect()
}

/// Rows and columns of the list, and the kind of thing whose day is shown.
const HEADS: [(&str, [&str; 6], &str); 3] = [
    ("IMAGE", ["writes/s", "reads/s", "written/s", "read/s", "write ms", "read ms"], "24 h, ops"),
    ("POOL", ["writes/s", "reads/s", "written/s", "read/s", "stored", "can take"], "24 h, writes"),
    ("OSD", ["state", "write ms", "slow ops", "full", "size", "groups"], "24 h, write ms"),
];

/// Columns of a cell.
const CELL: usize = 10;

/// Returns the lines of one screen, none of them longer than the terminal is wide: health, load, recovery, and the list.
pub fn screen(picture: &Value, listed: Listed, sorted: Sorted, size: Size) -> Vec<String> {
    let (mut list, head) = match listed {
        Listed::Images => (images(picture), &HEADS[0]),
        Listed::Pools => (pools(picture), &HEADS[1]),
        Listed::Osds => (osds(picture), &HEADS[2]),
    };
    let key = |line: &Line| match sorted {
        Sorted::Load => line.load,
        Sorted::Writes => line.writes,
        Sorted::Reads => line.reads,
    };
    list.sort_by(|a, b| key(b).total_cmp(&key(a)).then_with(|| a.name.cmp(&b.name)));
    let rates = &picture["rates"];
    let rate = |name: &str| number(&rates[name]);
    let checks = picture["health"]["checks"].as_object().map_or(0, |c| c.values().filter(|c| c["muted"] != true).count());
    let mut out = vec![
        format!(
            "{}  {checks} findings   {} of {} monitors agree   {}",
            text(&picture["health"]["status"]),
            rows(&picture["mons"]).filter(|mon| mon["in_quorum"] == true).count(),
            rows(&picture["mons"]).count(),
            text(&picture["at"]).get(..19).unwrap_or_default().replace('T', " "),
        ),
        format!(
            "writes {}/s {}B/s   reads {}/s {}B/s",
            count(rate("write_ops")),
            bytes(rate("write_bytes")),
            count(rate("read_ops")),
            bytes(rate("read_bytes")),
        ),
    ];
    let objects = &picture["objects"];
    let left = number(&objects["degraded"]) + number(&objects["misplaced"]);
    if left > 0.0 {
        let pace = &picture["recovery"];
        let (objects, copied) = (number(&pace["objects"]), number(&pace["bytes"]));
        out.push(format!(
            "recovery: {} copies left, {}/s {}B/s   (nacre explain recovery)",
            count(left),
            count(objects),
            bytes(copied)
        ));
    }
    out.push(String::new());
    let name = size.columns.saturating_sub(6 * (CELL + 1) + DAY + 2).clamp(12, 60);
    let line = |first: &str, cells: &[String]| {
        let first: String = plain(first).chars().take(name).collect();
        cells.iter().fold(format!("{first:<name$}"), |line, cell| format!("{line} {cell:>CELL$}"))
    };
    // A narrow terminal has no room for the day.
    let with_day =
        |line: String, day: &str| if line.chars().count() + 2 + DAY <= size.columns { format!("{line}  {day}") } else { line };
    out.push(with_day(line(head.0, &head.1.map(str::to_owned)), head.2));
    let room = size.lines.saturating_sub(out.len() + 1).max(1);
    for row in list.iter().take(room) {
        out.push(with_day(line(&row.name, &row.cells), &row.day));
    }
    if list.len() > room {
        out.push(format!("... {} others", list.len() - room));
    } else if list.is_empty() {
        out.push(if listed == Listed::Images { "no image is in use" } else { "there are none" }.into());
    }
    let cut = |line: String| plain(&line).chars().take(size.columns).collect::<String>().trim_end().to_owned();
    out.into_iter().map(cut).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn picture(name: &str) -> Value {
        let image = |name: &str, writes: f64, reads: f64| json!({"pool": "volumes", "namespace": "", "name": name, "rates": [writes, reads, 4096.0 * writes, 0.0, 1_900_000.0, 0.0]});
        json!({
            "at": "2026-11-29T05:00:01.123456+0000",
            "health": {"status": "HEALTH_WARN", "checks": {"OSD_DOWN": {"muted": false}, "X": {"muted": true}}},
            "mons": [{"in_quorum": true}, {"in_quorum": true}, {"in_quorum": false}],
            "rates": {"write_ops": 12_400, "read_ops": 3, "write_bytes": 310_u64 << 20, "read_bytes": 0},
            "objects": {"degraded": 40, "misplaced": 2},
            "recovery": {"objects": 4, "bytes": 1 << 20},
            "images": [image(name, 10.0, 900.0), image("db-1", 4100.0, 0.0), image("idle", 0.0, 0.0)],
            "pools": [{"id": 1, "name": "volumes", "rates": {"write_ops": 5}}],
            "df": {"pools": [{"id": 1, "stats": {"stored": 3_u64 << 30, "max_avail": 5_u64 << 40}}]},
            "osds": [
                {"id": 0, "hostname": "a", "up": true, "in": true, "commit_us": 1100, "total": 100, "available": 22, "groups": 61},
                {"id": 1, "hostname": "b", "up": false, "in": true, "commit_us": 0, "total": 100, "available": 50, "groups": 60},
            ],
        })
    }

    const WIDE: Size = Size { columns: 120, lines: 24 };

    #[test]
    fn the_busiest_come_first_and_the_head_says_how_it_is() {
        let lines = screen(&picture("web"), Listed::Images, Sorted::Load, WIDE);
        assert_eq!(lines[0], "HEALTH_WARN  1 findings   2 of 3 monitors agree   2026-11-29 05:00:01");
        assert_eq!(lines[1], "writes 12.4k/s 310MB/s   reads 3/s 0B/s");
        assert!(lines[2].starts_with("recovery: 42 copies left, 4/s 1.0MB/s"), "{}", lines[2]);
        assert!(lines[5].starts_with("volumes/db-1") && lines[5].contains("4.1k") && lines[5].contains("1.9"), "{}", lines[5]);
        assert!(lines[6].starts_with("volumes/web"), "{}", lines[6]);
        assert_eq!(lines.len(), 7, "an image that nobody uses is not listed");
        let by_reads = screen(&picture("web"), Listed::Images, Sorted::Reads, WIDE);
        assert!(by_reads[5].starts_with("volumes/web"), "{}", by_reads[5]);
        let osds = screen(&picture("web"), Listed::Osds, Sorted::Load, WIDE);
        assert!(osds[5].starts_with("osd.0 a") && osds[5].contains("78%") && osds[6].contains("DOWN"), "{osds:?}");
        let pools = screen(&picture("web"), Listed::Pools, Sorted::Load, WIDE);
        assert!(pools[5].contains("3.0G") && pools[5].contains("5.0T"), "{}", pools[5]);
    }

    #[test]
    fn names_move_no_cursor_and_no_line_is_too_long() {
        let evil = "a\u{1b}[2J\u{9b}1m\nfake\u{202e}b".repeat(20);
        for columns in [1, 20, 80] {
            for line in screen(&picture(&evil), Listed::Images, Sorted::Load, Size { columns, lines: 3 }) {
                assert!(
                    line.chars().count() <= columns && !line.chars().any(char::is_control) && !line.contains('\u{202e}'),
                    "{line:?}"
                );
            }
        }
        let mut all = picture("web");
        all["images"][1]["history"] =
            json!({"ops": (0..48).map(|n| if n < 6 { Value::Null } else { json!(n) }).collect::<Vec<_>>()});
        let line = &screen(&all, Listed::Images, Sorted::Load, WIDE)[5];
        assert!(line.ends_with("  ▂▂▃▃▃▄▄▅▅▆▆▇▇█") || line.contains("  ▂") && line.ends_with('█'), "{line}");
        assert!(
            !screen(&all, Listed::Images, Sorted::Load, Size { columns: 90, lines: 24 })[5].contains('█'),
            "there is no room"
        );
        assert_eq!(screen(&Value::Null, Listed::Osds, Sorted::Load, WIDE).last().map(String::as_str), Some("there are none"));
    }
}
