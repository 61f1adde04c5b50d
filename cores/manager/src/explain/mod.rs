//! Answers to what operators ask of a cluster, in words with evidence: `nacre explain`.
//!
//! An answer is a sentence, what it follows from, what helps, what was excluded, and what was not looked at. Each line of evidence
//! has the command that shows it. Two causes are two sentences, with what each of them holds up. Nothing is guessed: what only a daemon
//! knows is named as not looked at, with the command that asks it.
//!
//! *Rules are functions* of what monitors know anyway ([`Scene`]): the map, the last report of each daemon, the findings. A
//! question has a file of its own. No daemon is asked, so an answer costs one walk over groups at most.
//!
//! *Bounds*: [`SHOWN`] lines of a kind. What is left out is counted.

mod cluster;
mod disk;
mod groups;
mod recovery;
mod slow;
pub mod space;

use crate::duties::Duties;
use crate::health::Check;
use crate::soft::Soft;
use grammar::units::span;
use grammar::{Refusal, refuse};
use monstate::context::Env;
use monstate::state::State;
use node::Now;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use types::{OsdId, PgId};

/// Most lines of one kind in an answer.
const SHOWN: usize = 8;

/// Questions that can be asked, as a command's choices.
pub const QUESTIONS: &str = "slow|groups|group|space|full|osd|recovery|scrub|clock|monitors|crash|health";

/// Knowledge of monitors at one moment.
pub struct Scene<'a> {
    /// The durable state.
    pub state: &'a State,
    /// Reports of daemons.
    pub soft: &'a Soft,
    /// Memory of the manager's duties.
    pub duties: &'a Duties,
    /// This monitor.
    pub env: &'a Env,
    /// The time.
    pub now: Now,
    /// All findings by code.
    pub checks: BTreeMap<String, Check>,
}

/// A line of an answer, and the command that shows or does what it says; empty without one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Line {
    text: String,
    command: String,
}

/// An answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The answer in short: a sentence for each cause.
    sentences: Vec<String>,
    because: Vec<Line>,
    helps: Vec<Line>,
    /// Causes that were looked at and are none.
    excluded: Vec<String>,
    unknown: Vec<Line>,
}

impl Answer {
    fn say(&mut self, sentence: impl Into<String>) {
        self.sentences.push(sentence.into());
    }

    fn because(&mut self, text: impl Into<String>, command: impl Into<String>) {
        self.because.push(Line { text: text.into(), command: command.into() });
    }

    fn helps(&mut self, text: impl Into<String>, command: impl Into<String>) {
        let line = Line { text: text.into(), command: command.into() };
        if !self.helps.contains(&line) {
            self.helps.push(line);
        }
    }

    fn excludes(&mut self, text: impl Into<String>) {
        self.excluded.push(text.into());
    }

    fn unknown(&mut self, text: impl Into<String>, command: impl Into<String>) {
        self.unknown.push(Line { text: text.into(), command: command.into() });
    }

    /// Writes the answer for a terminal.
    pub fn text(&self) -> String {
        let mut out = self.sentences.join("\n");
        out.push('\n');
        let mut part = |head: &str, lines: &[Line]| {
            for (at, line) in lines.iter().enumerate() {
                let head = if at == 0 { head } else { "" };
                out.push_str(&format!("  {head:<9} {}\n", line.text));
                if !line.command.is_empty() {
                    out.push_str(&format!("  {:<9} $ {}\n", "", line.command));
                }
            }
        };
        part("because", &self.because);
        let excluded: Vec<Line> = self.excluded.iter().map(|text| Line { text: text.clone(), command: String::new() }).collect();
        part("it is not", &excluded);
        part("helps", &self.helps);
        part("not seen", &self.unknown);
        out
    }

    /// Gives the answer as a structure.
    pub fn dump(&self) -> Value {
        let lines = |all: &[Line]| all.iter().map(|l| json!({"text": l.text, "command": l.command})).collect::<Vec<_>>();
        json!({
            "answer": self.sentences,
            "because": lines(&self.because),
            "excluded": self.excluded,
            "helps": lines(&self.helps),
            "not_seen": lines(&self.unknown),
        })
    }
}

/// Answers a question of [`QUESTIONS`], or the one of what is wrong altogether. `which` names an OSD, a group, a pool or a code for
/// those that need one.
pub fn answer(scene: &Scene<'_>, about: Option<&str>, which: Option<&str>) -> Result<Answer, Refusal> {
    let named = |what: &str| match which {
        Some(which) => Ok(which),
        None => Err(Refusal::new(types::Errno::EINVAL, format!("nacre explain {what}: say which"))),
    };
    Ok(match about {
        None => cluster::overview(scene),
        Some("slow") => slow::answer(scene),
        Some("groups") => groups::answer(scene),
        Some("group") => {
            let text = named("group")?;
            let pg: PgId =
                text.parse().map_err(|_| Refusal::new(types::Errno::EINVAL, format!("'{text}' is no group: as 2.1f")))?;
            if scene.state.osdmap.pool(pg.pool).is_none_or(|pool| pg.seed >= pool.pg_num) {
                refuse!(ENOENT, "there is no group {pg}");
            }
            groups::one(scene, pg)
        }
        Some("space") => match which {
            None => space::answer(scene),
            Some(name) => match scene.state.pool_id(name) {
                Some(id) => space::of_pool(scene, id),
                None => refuse!(ENOENT, "unrecognized pool '{name}'"),
            },
        },
        Some("full") => match which {
            None => space::when_full(scene, None),
            Some(name) => match scene.state.pool_id(name) {
                Some(id) => space::when_full(scene, Some(id)),
                None => refuse!(ENOENT, "unrecognized pool '{name}'"),
            },
        },
        Some("osd") => {
            let text = named("osd")?;
            let id: OsdId = match text.strip_prefix("osd.").unwrap_or(text).parse() {
                Ok(id) if scene.state.osdmap.exists(id) => id,
                _ => refuse!(ENOENT, "there is no OSD '{text}'"),
            };
            disk::answer(scene, id)
        }
        Some("recovery") => recovery::answer(scene),
        Some("scrub") => cluster::scrubs(scene),
        Some("clock") => cluster::clocks(scene),
        Some("monitors") => cluster::monitors(scene),
        Some("crash") => cluster::crashes(scene),
        Some("health") => cluster::finding(scene, named("health")?)?,
        Some(other) => refuse!(EINVAL, "nothing is known about '{other}': ask about {}", QUESTIONS.replace('|', ", ")),
    })
}

impl Scene<'_> {
    /// Names an OSD with its host: `osd.3 (host-b)`.
    fn osd(&self, osd: OsdId) -> String {
        let told = self.state.osd_metadata.get(&osd);
        let host = told.and_then(|told| told.get("hostname")).filter(|host| !host.is_empty());
        host.map_or_else(|| format!("osd.{osd}"), |host| format!("osd.{osd} ({host})"))
    }

    /// Names OSDs, as far as [`SHOWN`] go.
    fn osds(&self, osds: &[OsdId]) -> String {
        let mut named: Vec<String> = osds.iter().take(SHOWN).map(|osd| self.osd(*osd)).collect();
        if osds.len() > SHOWN {
            named.push(format!("{} others", osds.len() - SHOWN));
        }
        named.join(", ")
    }

    /// Says since when an OSD is down; nothing of one that is up.
    fn down_for(&self, osd: OsdId) -> Option<String> {
        let map = &self.state.osdmap;
        if map.is_up(osd) {
            return None;
        }
        if !map.exists(osd) {
            return Some("does not exist any more".into());
        }
        let stamp = usize::try_from(osd).ok().and_then(|at| map.osd_xinfo.get(at)).map(|xinfo| xinfo.down_stamp);
        Some(match stamp.filter(|stamp| !stamp.is_zero()) {
            Some(stamp) => format!("is down for {}", span(u64::from(self.now.wall.sec.saturating_sub(stamp.sec)))),
            None => "has not started yet".into(),
        })
    }

    /// Share of an OSD that is in use, from 0 to 1; none if it told nothing.
    fn fullness(&self, osd: OsdId) -> Option<f64> {
        let space = self.soft.space(osd);
        (space.total > 0).then(|| 1.0 - space.available as f64 / space.total as f64)
    }
}

/// `1 group` or `4 groups`.
fn counted(n: u64, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// A share as a percentage without digits behind the point: `78 %`.
fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}
