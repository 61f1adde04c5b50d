//! Stories of several copies of a group, as text: what is done, and all that they then say to each other.
//!
//! Each file of `transcripts/` is one story. A line at its beginning is a command (below) or a comment (`#`); lines that begin with two
//! blanks are what came of the command: messages (`from→to what`), what monitors did, answers to clients, lines of the cluster log. The
//! test carries the commands out and compares. `NACRE_TRANSCRIPTS=write cargo test -p pg --test transcripts` writes anew what came; the
//! difference is then read before it is committed.
//!
//! | command | what |
//! |---|---|
//! | `copies N` | N OSDs that are up, with one group that all of them serve; each story begins so |
//! | `size N` | copies that the pool wants |
//! | `log N` | entries that a log keeps |
//! | `fill N` | writes objects o00, o01, … |
//! | `large NAME BYTES` | writes so many bytes |
//! | `write NAME TEXT`, `append NAME TEXT`, `delete NAME`, `read NAME` | a client's request; if no answer came, `answer` shows it later |
//! | `omap NAME KEY VALUE` | sets a key |
//! | `answer` | the answer to the newest request that had none |
//! | `kill N`, `start N ACTING…` | an OSD dies, and starts again; then these serve |
//! | `serve ACTING…` | these serve, the first one leads |
//! | `home UP…` | CRUSH wants the group there |
//! | `recovery on`, `recovery off` | the flag `norecover` |
//! | `reservations N on`, `reservations N off` | an OSD grants reservations, or does not |
//! | `hold A B`, `release A B` | messages from A to B are kept, and brought |
//! | `break A B` | the session breaks: what is kept is lost |
//! | `disk N hold`, `disk N release` | what an OSD writes does not become durable; it does |
//! | `lost N` | an operator says that an OSD that is down never comes back |
//! | `give-up revert`, `give-up delete` | `ceph pg mark_unfound_lost` |
//! | `scrub`, `deep-scrub`, `repair` | of the group |
//! | `rot N NAME` | an OSD's copy of an object is another one |
//! | `pass SECONDS` | time |
//! | `state` | what each copy says of itself |
//! | `same N…` | whether these hold the same objects |

// Stories are files of the repository.
#![allow(clippy::disallowed_methods)]

mod bench;

use bench::several::{GROUP, Several};
use bytes::Bytes;
use denc::Encode;
use messages::osd::{Op, OpArgs, code};
use pg::Mercy;
use std::fmt::Write as _;
use std::path::Path;
use types::SpgId;

/// A story while it is carried out.
struct Story {
    all: Several,
    /// The newest request without an answer.
    open: Option<u64>,
    /// Lines of each OSD's log that were shown.
    shown: Vec<usize>,
}

fn numbers(words: &[&str]) -> Vec<i32> {
    words.iter().map(|word| word.parse().unwrap_or_else(|_| panic!("a number: {word}"))).collect()
}

fn data(what: u16, text: &str) -> Op {
    Op::extent(what, 0, text.len() as u64, Bytes::copy_from_slice(text.as_bytes()))
}

impl Story {
    fn new(copies: i32) -> Self {
        let mut all = Several::new(copies);
        all.maps = Some(Vec::new());
        Self { all, open: None, shown: vec![0; copies as usize] }
    }

    fn id() -> SpgId {
        SpgId::whole(GROUP)
    }

    /// Lets a client ask, and notes the answer.
    fn request(&mut self, name: &str, op: Op) {
        let (tid, _) = self.all.ask(name, vec![op]);
        if !self.answer(tid) {
            self.open = Some(tid);
            self.all.trace.push("client: no answer yet".into());
        }
    }

    fn answer(&mut self, tid: u64) -> bool {
        let Some(reply) = self.all.answer(tid) else { return false };
        let output = reply.ops.last().map(|op| op.output.contiguous()).unwrap_or_default();
        let output = if output.is_empty() { String::new() } else { format!(" {:?}", output.escape_ascii().to_string()) };
        self.all.trace.push(format!("client: {}{output}, version {}", reply.result, reply.user_version));
        true
    }

    fn leader(&self) -> i32 {
        self.all.leads().expect("a primary")
    }

    /// Carries a command out.
    fn run(&mut self, words: &[&str]) {
        let (name, rest) = words.split_first().expect("a command");
        let all = &mut self.all;
        match (*name, rest) {
            ("size", [n]) => {
                let n = n.parse().expect("a number");
                all.change(|map| map.pools.get_mut(&bench::POOL).expect("the pool").size = n);
                all.pass(1);
            }
            ("fill", [n]) => {
                let n: usize = n.parse().expect("a number");
                for i in 0..n {
                    all.write(&format!("o{i:02}"), "fill");
                }
                all.trace = vec![format!("{n} objects, and what was said of them")];
            }
            ("large", [name, bytes]) => {
                let bytes: usize = bytes.parse().expect("a number");
                self.request(name, data(code::WRITEFULL, &"x".repeat(bytes)));
            }
            ("log", [n]) => {
                let n = n.parse().expect("a number");
                all.osds.values_mut().for_each(|osd| osd.config.log_entries = n);
            }
            ("write", [name, text @ ..]) => self.request(name, data(code::WRITEFULL, &text.join(" "))),
            ("append", [name, text @ ..]) => self.request(name, data(code::APPEND, &text.join(" "))),
            ("delete", [name]) => self.request(name, Op::new(code::DELETE, OpArgs::default())),
            ("read", [name]) => self.request(name, data(code::READ, "")),
            ("omap", [name, key, value]) => {
                let keys: std::collections::BTreeMap<Bytes, Bytes> =
                    [(Bytes::copy_from_slice(key.as_bytes()), Bytes::copy_from_slice(value.as_bytes()))].into();
                self.request(name, Op { input: keys.to_bytes(), ..Op::new(code::OMAPSETVALS, OpArgs::None) });
            }
            ("answer", []) => {
                let Some(tid) = self.open else { return self.all.trace.push("client: every request has its answer".into()) };
                match self.answer(tid) {
                    true => self.open = None,
                    false => self.all.trace.push("client: no answer yet".into()),
                }
            }
            ("kill", [n]) => all.kill(numbers(&[n])[0]),
            ("start", [n, acting @ ..]) => all.start(numbers(&[n])[0], &numbers(acting)),
            ("serve", acting) => all.serve(&numbers(acting)),
            ("home", up) => {
                let up = numbers(up);
                all.change(|map| {
                    map.osd_weight = vec![0x1_0000; map.osd_state.len()];
                    map.pg_upmap.insert(GROUP, up);
                });
                all.pass(2);
            }
            ("recovery", [on]) => all.recover(*on == "on"),
            ("reservations", [n, on]) => {
                let n = numbers(&[n])[0];
                let _ = if *on == "on" { all.generous.insert(n) } else { all.generous.remove(&n) };
            }
            ("hold", [a, b]) => drop(all.held.insert((numbers(&[a])[0], numbers(&[b])[0]))),
            ("release", [a, b]) => all.release(numbers(&[a])[0], numbers(&[b])[0]),
            ("break", [a, b]) => all.break_session(numbers(&[a])[0], numbers(&[b])[0]),
            ("disk", [n, "hold"]) => all.osd(numbers(&[n])[0]).store.hold_commits = true,
            ("disk", [n, "release"]) => {
                let store = &mut all.osd(numbers(&[n])[0]).store;
                store.hold_commits = false;
                store.commit(store.uncommitted());
                all.settle();
            }
            ("lost", [n]) => {
                let n = numbers(&[n])[0] as usize;
                all.change(|map| {
                    map.osd_info[n].lost_at = map.epoch;
                    map.osd_info[n].up_from = 1;
                });
                all.pass(1);
            }
            ("give-up", [how]) => {
                let mercy = if *how == "revert" { Mercy::Revert } else { Mercy::Delete };
                let leader = self.leader();
                let gone = self.all.osd(leader).with(Self::id(), |pg, ctx| pg.mark_unfound_lost(ctx, mercy));
                self.all.trace.push(format!("operator: {gone:?}"));
                self.all.pass(2);
            }
            ("scrub" | "deep-scrub" | "repair", []) => {
                let leader = self.leader();
                self.all.osd(leader).with(Self::id(), |pg, ctx| match *name {
                    "repair" => pg.start_repair(ctx),
                    name => pg.start_scrub(ctx, name == "deep-scrub"),
                });
                self.all.pass(5);
            }
            ("rot", [n, name]) => self.rot(numbers(&[n])[0], name),
            ("pass", [seconds]) => all.pass(seconds.parse().expect("seconds")),
            ("state", []) => self.state(),
            ("same", osds) => {
                let same = self.all.agree(&numbers(osds));
                self.all.trace.push(if same { "the same objects".into() } else { "different objects".into() });
            }
            _ => panic!("no such command: {words:?}"),
        }
    }

    /// Changes what one OSD holds of an object, behind everybody's back.
    fn rot(&mut self, osd: i32, name: &str) {
        use objectstore::{Hold, ObjectChange, ObjectChanges, ObjectStore, Ticket, Transaction};
        let store = &mut self.all.osd(osd).store;
        let object = store.objects().find(|object| &object.object.name[..] == name.as_bytes()).expect("an object").clone();
        let size = objectstore::View::stat(store, Hold(0), &object).expect("in memory").expect("it is there").size;
        let changes = vec![ObjectChange::Write(0, Bytes::from(vec![b'?'; size as usize]).into())];
        let transaction = Transaction { objects: vec![ObjectChanges { object, changes }], ..Transaction::default() };
        store.submit(transaction, Ticket(0)).expect("room");
        self.all.settle();
    }

    fn state(&mut self) {
        let mut lines = Vec::new();
        for (osd, bench) in &self.all.osds {
            if !self.all.map.is_up(*osd) {
                lines.push(format!("osd.{osd}: down"));
                continue;
            }
            let Some(pg) = bench.pgs.get(&Self::id()) else {
                lines.push(format!("osd.{osd}: nothing"));
                continue;
            };
            let query = pg.query();
            let mut line =
                format!("osd.{osd}: {} {}", query.step, if pg.is_active() { query.state.to_string() } else { String::new() });
            let _ = write!(line, " last {} since {}", query.last_update, query.same_interval_since);
            let _ = write!(line, " started {} clean {}", query.last_epoch_started, query.last_epoch_clean);
            if query.missing + query.unfound > 0 {
                let _ = write!(line, " missing {} unfound {}", query.missing, query.unfound);
            }
            if !query.past.is_empty() {
                let _ = write!(line, " past {:?}", query.past);
            }
            if !query.because.is_empty() {
                let _ = write!(line, " because {}", query.because);
            }
            for peer in &query.peers {
                let _ = write!(line, "; osd.{}{}", peer.copy, if peer.activated { "" } else { " not activated" });
                if peer.missing > 0 {
                    let _ = write!(line, " missing {}", peer.missing);
                }
                if let Some(cursor) = &peer.backfill {
                    let _ = write!(line, " backfilled to {cursor}");
                }
            }
            lines.push(line.replace("  ", " "));
        }
        self.all.trace.extend(lines);
    }

    /// Takes what came of a command, with what was logged.
    fn take(&mut self) -> Vec<String> {
        let mut lines = std::mem::take(&mut self.all.trace);
        for (shown, (osd, bench)) in self.shown.iter_mut().zip(&self.all.osds) {
            lines.extend(bench.logged[*shown..].iter().map(|line| format!("osd.{osd} logs: {line}")));
            *shown = bench.logged.len();
        }
        shortened(lines)
    }
}

/// Returns the lines with the middle of each long run of one kind of message (same way, same first word) left out.
fn shortened(lines: Vec<String>) -> Vec<String> {
    let kind = |line: &str| line.split(' ').take(2).collect::<Vec<_>>().join(" ");
    let runs = lines.chunk_by(|a, b| kind(a) == kind(b));
    let short = |run: &[String]| match run {
        [first, middle @ .., last] if middle.len() > 2 && first.contains('→') => {
            vec![first.clone(), format!("… {} more", middle.len()), last.clone()]
        }
        run => run.to_vec(),
    };
    runs.flat_map(short).collect()
}

/// Carries a story out, and returns it with what came.
fn told(text: &str) -> String {
    let (mut out, mut story) = (String::new(), None::<Story>);
    for line in text.lines().filter(|line| !line.starts_with("  ")) {
        out += line;
        out.push('\n');
        let words: Vec<_> = line.split_whitespace().collect();
        match (&words[..], &mut story) {
            ([], _) => {}
            ([comment, ..], _) if comment.starts_with('#') => {}
            (["copies", n], None) => story = Some(Story::new(n.parse().expect("a number"))),
            (_, Some(story)) => story.run(&words),
            (_, None) => panic!("a story begins with `copies N`"),
        }
        for line in story.iter_mut().flat_map(Story::take) {
            out += "  ";
            out += line.trim_end();
            out.push('\n');
        }
    }
    out
}

#[test]
fn stories_go_as_they_were_told() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts");
    let write = std::env::var_os("NACRE_TRANSCRIPTS").is_some_and(|how| how == "write");
    let mut files: Vec<_> = std::fs::read_dir(folder).expect("the folder").map(|file| file.expect("a file").path()).collect();
    files.sort();
    assert!(files.len() >= 20, "{} stories", files.len());
    let mut differ = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a story");
        let told = told(&text);
        if told == text {
            continue;
        }
        if write {
            std::fs::write(&file, told).expect("written");
            continue;
        }
        let (at, lines) = (text.lines().zip(told.lines()).take_while(|(a, b)| a == b).count(), told.lines().collect::<Vec<_>>());
        let was = text.lines().nth(at).unwrap_or("(the end)");
        differ.push(format!("{}:{}\n    was: {was}\n    is:  {}", file.display(), at + 1, lines.get(at).unwrap_or(&"(the end)")));
    }
    assert!(
        differ.is_empty(),
        "{} stories go otherwise (NACRE_TRANSCRIPTS=write notes how):\n{}",
        differ.len(),
        differ.join("\n")
    );
}
