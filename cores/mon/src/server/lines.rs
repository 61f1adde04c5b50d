//! Lines for the cluster log: who writes them, how long they are, what is told of those who may not.
//!
//! The log is replicated, and kept for 10,000 lines (`monstate`). So each line has a bound in bytes ([`LINE`]), and what is not of
//! this program's own making is told as one line of printable text: nobody can write a second line that looks like another one's.
//!
//! - *Commands* stand in the audit log with their arguments as JSON, each cut after [`VALUE`] bytes, all after [`ARGUMENTS`]. Values that are secrets are left out.
//! - *Denials* are counted. The first one of an entity is told at once; those of the minute that follows are told as a number. Entities
//!   beyond [`ENTITIES`] in one minute share a number. So whoever has any key can make a few lines a minute, and no more.

use super::Monitor;
use grammar::Asker;
use messages::EntityNum;
use messages::mon::{LogEntry, log_level};
use moncommands::Parsed;
use node::{Mono, Now};
use std::collections::BTreeMap;
use std::time::Duration;
use types::{EntityName, EntityType};

/// Bytes of a line's text.
const LINE: usize = 2 << 10;
/// Bytes of a command's arguments in a line, after which no further one is shown.
const ARGUMENTS: usize = 768;
/// Bytes of the value of one argument.
const VALUE: usize = 256;
/// Bytes of the name of a line's channel, and of the name of who wrote it.
const NAME: usize = 64;
/// Addresses of who wrote a line.
const ADDRS: usize = 4;
/// Lines that wait for an entry of the log.
const WAITING: usize = 2_000;
/// Time for which denials of an entity are counted before they are told.
const COUNTED: Duration = Duration::from_secs(60);
/// Entities whose denials are counted each by itself.
const ENTITIES: usize = 64;
/// Words in the names of options whose values are secrets.
const SECRETS: [&str; 6] = ["secret", "password", "passwd", "token", "key", "credential"];

/// Cuts a text after so many bytes, and says that it is cut.
pub(super) fn cut(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = (0..=most).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    format!("{}... ({} bytes)", &text[..end], text.len())
}

/// A line within its bounds, whoever wrote it.
fn bounded(mut entry: LogEntry) -> LogEntry {
    entry.message = grammar::one_line(&cut(&entry.message, LINE));
    if entry.message.len() > 2 * LINE {
        entry.message = cut(&entry.message, LINE);
    }
    entry.channel = grammar::one_line(&cut(&entry.channel, NAME));
    entry.name.id = grammar::one_line(&cut(&entry.name.id, NAME));
    entry.addrs.0.truncate(ADDRS);
    entry
}

/// Returns true if the value of the option of this name is kept out of the log.
fn is_secret(option: &str) -> bool {
    let option = option.to_ascii_lowercase();
    SECRETS.iter().any(|word| option.contains(word))
}

/// A command's arguments as they may be shown: JSON without the braces, cut.
fn arguments(parsed: &Parsed) -> String {
    // Secrets may come in the arguments of these.
    if matches!(parsed.command.row.module, "config-key" | "auth") {
        return String::new();
    }
    let args = parsed.args.texts();
    let named = args.get("name").or(args.get("var")).is_some_and(|name| is_secret(name));
    let mut shown = String::new();
    for (name, value) in &args {
        let hidden = match name.as_str() {
            "val" | "value" => named,
            "injected_args" => is_secret(value),
            _ => false,
        };
        let value = if hidden { "***" } else { value };
        if shown.len() > ARGUMENTS {
            shown += ", \"...\": \"...\"";
            break;
        }
        shown += &format!(", {}: {}", quoted(name), quoted(value));
    }
    shown
}

/// A text as JSON. Only its beginning, if it is long.
fn quoted(text: &str) -> String {
    serde_json::Value::from(cut(text, VALUE)).to_string()
}

/// Denials that were not told yet.
#[derive(Debug, Default)]
pub(super) struct Denials {
    /// By entity: since when they are counted, how many, and the last one.
    counted: BTreeMap<EntityName, (Mono, u64, String)>,
    /// Of entities beyond the bound.
    others: u64,
}

impl Denials {
    /// Notes that a command of an entity was denied. True if that is to be told at once.
    fn note(&mut self, now: Mono, name: &EntityName, what: &str) -> bool {
        if let Some((_, count, last)) = self.counted.get_mut(name) {
            *count += 1;
            what.clone_into(last);
            return false;
        }
        if self.counted.len() >= ENTITIES {
            self.others += 1;
            return false;
        }
        self.counted.insert(name.clone(), (now, 0, String::new()));
        true
    }

    /// Returns what is to be told of those whose time is over.
    fn due(&mut self, now: Mono) -> Vec<String> {
        let over: Vec<EntityName> =
            self.counted.iter().filter(|(_, (since, ..))| now.since(*since) >= COUNTED).map(|(name, _)| name.clone()).collect();
        let mut lines = Vec::new();
        for name in over {
            let Some((_, count @ 1.., last)) = self.counted.remove(&name) else { continue };
            lines.push(format!("entity='{name}': {count} more commands were denied, the last one {last}"));
        }
        if self.others > 0 && self.counted.len() < ENTITIES {
            lines.push(format!("{} commands of further entities were denied", std::mem::take(&mut self.others)));
        }
        lines
    }
}

impl Monitor {
    /// A line for the cluster log, in the monitor's name.
    pub(super) fn line(&mut self, now: Now, level: u16, text: impl Into<String>) {
        let entry = self.entry(now, level, text.into(), "cluster");
        self.keep_lines([entry]);
    }

    /// A command that is carried out stands in the audit log.
    pub(super) fn audit(&mut self, now: Now, asker: &Asker, parsed: &Parsed) {
        let text = shown(asker, parsed, "dispatch");
        let entry = self.entry(now, log_level::INFO, text, "audit");
        self.keep_lines([entry]);
    }

    /// A command was denied.
    pub(super) fn denied(&mut self, now: Now, asker: &Asker, parsed: &Parsed) {
        let prefix = &parsed.command.signature.prefix;
        if self.leader.denials.note(now.mono, &asker.name, &format!("'{prefix}' from {}", asker.addr)) {
            let text = shown(asker, parsed, "access denied");
            let entry = self.entry(now, log_level::INFO, text, "audit");
            self.keep_lines([entry]);
        }
    }

    /// Tells what was counted and not told.
    pub(super) fn tell_denials(&mut self, now: Now) {
        for text in self.leader.denials.due(now.mono) {
            let entry = self.entry(now, log_level::INFO, text, "audit");
            self.keep_lines([entry]);
        }
    }

    /// Keeps lines for the next entry of the log. Who does not lead has no log to write to.
    pub(super) fn keep_lines(&mut self, lines: impl IntoIterator<Item = LogEntry>) {
        if self.leader.reigns() {
            let room = WAITING.saturating_sub(self.leader.lines.len());
            self.leader.lines.extend(lines.into_iter().take(room).map(bounded));
        }
    }

    fn entry(&mut self, now: Now, level: u16, message: String, channel: &str) -> LogEntry {
        self.line_seq += 1;
        LogEntry {
            name: self.env.name(),
            rank: EntityNum { kind: EntityType::Mon as u8, num: self.rank() as i64 },
            addrs: self.env.config.addrs.clone(),
            stamp: now.wall,
            seq: self.line_seq,
            level,
            message,
            channel: channel.into(),
        }
    }
}

fn shown(asker: &Asker, parsed: &Parsed, what: &str) -> String {
    let (prefix, arguments) = (&parsed.command.signature.prefix, arguments(parsed));
    format!("from='{}' entity='{}' cmd=[{{\"prefix\": \"{prefix}\"{arguments}}}]: {what}", asker.addr, asker.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::EntityAddr;

    fn shown_of(command: &str) -> String {
        let table = if command.contains("\"var\"") { moncommands::mon_table() } else { moncommands::table() };
        let parsed = moncommands::parse(table, command).unwrap_or_else(|_| panic!("{command}"));
        shown(
            &Asker { name: "client.x".parse().expect("a name"), addr: EntityAddr::default(), governs_osds: false },
            &parsed,
            "dispatch",
        )
    }

    #[test]
    fn arguments_are_cut_and_cannot_look_like_another_line() {
        let long = shown_of(&format!(r#"{{"prefix":"osd pool create","pool":"{}"}}"#, "x".repeat(8 << 20)));
        assert!(long.len() < ARGUMENTS, "{}", long.len());
        assert!(long.contains("(8388608 bytes)") && long.ends_with("]: dispatch"), "{long}");
        let forged = r#"y\"}]: dispatch\n2026 mon.a audit [INF] entity='client.admin' cmd=[{\"prefix\": \"auth rm\"}]"#;
        let line = shown_of(&format!(r#"{{"prefix":"osd pool create","pool":"{forged}"}}"#));
        assert!(!line.contains('\n') && line.contains(&format!(r#""pool": "{forged}""#)), "{line}");
        let many: Vec<String> = (0..100_000).map(|n| n.to_string()).collect();
        let line = shown_of(&serde_json::json!({"prefix": "osd out", "ids": many}).to_string());
        assert!(line.len() < ARGUMENTS, "{}", line.len());
        let all = r#"{"prefix":"config set","name":"A","value":"A","who":"A"}"#;
        let line = shown_of(&all.replace('A', &"\\u0007".repeat(1 << 20)));
        assert!(line.len() < LINE * 3 && line.contains(r#", "...": "..."}]: dispatch"#), "{line}");
    }

    #[test]
    fn secrets_are_left_out() {
        for command in [
            r#"{"prefix":"config set","who":"client.rgw","name":"rgw_keystone_admin_password","value":"hush"}"#,
            r#"{"prefix":"config set","who":"client","name":"rgw_crypt_vault_token_file","value":"hush"}"#,
            r#"{"prefix":"config set","who":"client","name":"my_SECRET","value":"hush"}"#,
            r#"{"prefix":"config set","var":"rgw_ldap_secret","val":["hush"]}"#,
            r#"{"prefix":"injectargs","injected_args":["--rgw_ldap_secret=hush"],"var":"x"}"#,
            r#"{"prefix":"config-key set","key":"a","val":"hush"}"#,
            r#"{"prefix":"auth get-or-create","entity":"client.hush"}"#,
        ] {
            assert!(!shown_of(command).contains("hush"), "{}", shown_of(command));
        }
        assert!(
            shown_of(r#"{"prefix":"config set","who":"osd","name":"osd_max_scrubs","value":"2"}"#).contains(r#""value": "2""#)
        );
    }

    #[test]
    fn lines_of_others_are_bounded() {
        let entry = LogEntry {
            name: EntityName::new(EntityType::Client, "n".repeat(1 << 20)),
            message: "a\nb\u{7}".to_owned() + &"ü\n".repeat(1 << 20),
            channel: "c".repeat(1 << 20),
            addrs: types::EntityAddrVec(vec![EntityAddr::default(); 10_000]),
            ..LogEntry::default()
        };
        let entry = bounded(entry);
        assert!(entry.message.starts_with("a\\nb\\u{7}ü\\n") && !entry.message.contains('\n'), "{}", entry.message);
        assert!(entry.message.len() <= 2 * LINE && entry.channel.len() < 100 && entry.name.id.len() < 100);
        assert_eq!(entry.addrs.0.len(), ADDRS);
    }

    #[test]
    fn denials_are_counted() {
        let (mut denials, at) = (Denials::default(), |secs: u64| Mono(secs * 1_000_000_000));
        let name = |n: usize| EntityName::new(EntityType::Client, n.to_string());
        assert!(denials.note(at(0), &name(0), "'a'"));
        let more = (0..1_000).filter(|_| denials.note(at(1), &name(0), "'b'")).count();
        assert_eq!((more, denials.due(at(59))), (0, Vec::new()));
        assert_eq!(denials.due(at(60)), ["entity='client.0': 1000 more commands were denied, the last one 'b'"]);
        // One that was alone is told once, and a crowd is one number.
        let told = (0..10_000).filter(|n| denials.note(at(70), &name(*n), "'c'")).count();
        assert_eq!((told, denials.counted.len()), (ENTITIES, ENTITIES));
        assert_eq!(denials.due(at(130)), [format!("{} commands of further entities were denied", 10_000 - ENTITIES)]);
        assert!(denials.counted.is_empty() && denials.note(at(131), &name(0), "'d'"));
    }
}
