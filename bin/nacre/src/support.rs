//! `nacre support`: one file for a person who helps from afar.
//!
//! | part | what |
//! |---|---|
//! | `cluster/` | what the monitors say: state, findings, maps, places, figures with a day of history, logs, crashes |
//! | `daemons/NAME/` | what each daemon of this host says: figures, slow operations, options that differ |
//! | `host/` | this host: system, disks, memory, this program |
//! | `logs/` | the end of each log |
//! | `left-out.txt` | what is not in it, and why |
//!
//! *No secrets.* No keyring is read, nor `config-key` nor `auth`. What looks like a key, a token or a link is written over wherever it stands
//! ([`clean`]), and so are values of options whose names speak of secrets.
//!
//! *With --anonymous* names are hidden ([`crate::anonymous`]); the audit log and the list of mounts, which are full of what people typed, are left out.
//!
//! *Bounds*: [`MOST`] bytes in all, [`OF_ONE`] for a part, [`OF_LOG`] for a log. It never waits longer than [`PATIENCE`] for one answer, and does not ask
//! monitors again that were silent.

use crate::anonymous::Hider;
use crate::cli::Support;
use crate::client::{Client, Failure};
use crate::state::State;
use crate::{admin, crash, host, log, token};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Most bytes of the file, of a part, of a log.
const MOST: usize = 50 << 20;
const OF_ONE: usize = 8 << 20;
const OF_LOG: usize = 1 << 20;
const PATIENCE: Duration = Duration::from_secs(10);

/// Commands to the monitors: the part's name, and the command.
const ASKED: [(&str, &str); 27] = [
    ("status", r#"{"prefix":"status"}"#),
    ("health", r#"{"prefix":"health","detail":"detail"}"#),
    ("versions", r#"{"prefix":"versions"}"#),
    ("picture", r#"{"prefix":"nacre picture","format":"json-pretty"}"#),
    ("explain", r#"{"prefix":"nacre explain"}"#),
    ("explain-slow", r#"{"prefix":"nacre explain","about":"slow"}"#),
    ("explain-groups", r#"{"prefix":"nacre explain","about":"groups"}"#),
    ("explain-space", r#"{"prefix":"nacre explain","about":"space"}"#),
    ("explain-recovery", r#"{"prefix":"nacre explain","about":"recovery"}"#),
    ("level", r#"{"prefix":"nacre level"}"#),
    ("quorum", r#"{"prefix":"quorum_status"}"#),
    ("mon-dump", r#"{"prefix":"mon dump"}"#),
    ("mon-metadata", r#"{"prefix":"mon metadata"}"#),
    ("mgr-dump", r#"{"prefix":"mgr dump"}"#),
    ("time-sync", r#"{"prefix":"time-sync-status"}"#),
    ("osd-dump", r#"{"prefix":"osd dump"}"#),
    ("osd-tree", r#"{"prefix":"osd tree"}"#),
    ("osd-df", r#"{"prefix":"osd df"}"#),
    ("osd-perf", r#"{"prefix":"osd perf"}"#),
    ("osd-metadata", r#"{"prefix":"osd metadata","format":"json-pretty"}"#),
    ("df", r#"{"prefix":"df","detail":"detail"}"#),
    ("pg-dump", r#"{"prefix":"pg dump","format":"json"}"#),
    ("balancer", r#"{"prefix":"balancer status"}"#),
    ("config", r#"{"prefix":"config dump","format":"json-pretty"}"#),
    ("log", r#"{"prefix":"log last","num":2000}"#),
    ("audit", r#"{"prefix":"log last","num":500,"channel":"audit"}"#),
    ("crashes", r#"{"prefix":"crash ls","format":"json-pretty"}"#),
];

/// Questions to the daemons of this host.
const OF_DAEMONS: [&str; 8] = [
    "status",
    "mon_status",
    "perf dump",
    "dump_ops_in_flight",
    "dump_blocked_ops",
    "dump_historic_ops",
    "config diff",
    "dump_watchers",
];

/// Files of the system.
const OF_HOST: [&str; 8] = [
    "/proc/meminfo",
    "/proc/loadavg",
    "/proc/uptime",
    "/proc/diskstats",
    "/proc/mounts",
    "/proc/pressure/io",
    "/proc/pressure/memory",
    "/etc/os-release",
];

/// Words in names of options whose values are kept out.
const SECRETS: [&str; 4] = ["secret", "password", "token", "key"];

/// Runs `nacre support`; gives the exit code.
pub(crate) fn support(args: &Support) -> Result<u8> {
    let dir = std::path::absolute(&args.dir).with_context(|| args.dir.display().to_string())?;
    State::load(&dir)?.with_context(|| format!("{} holds no cluster", dir.display()))?;
    // What cannot be hidden is found before there is a file.
    let hider = if args.anonymous { Some(Hider::of(&dir, &token::administrator(&dir)?)?) } else { None };
    let file = File::options().write(true).create_new(true).mode(0o600).open(&args.file);
    let file = file.with_context(|| format!("write {}", args.file.display()))?;
    let host = hider.as_ref().map_or_else(host::name, |hider| hider.hide(&host::name()));
    let root = format!("nacre-support-{host}-{}", log::now().iso().get(..19).unwrap_or_default().replace(':', ""));
    let mut archive = Archive { file, root, written: 0, left_out: Vec::new(), hider };
    of_host(&dir, &mut archive)?;
    of_daemons(&dir, &mut archive)?;
    of_cluster(&dir, &mut archive)?;
    of_logs(&dir, &mut archive)?;
    let left_out = archive.left_out.join("\n") + "\n";
    archive.add("left-out.txt", left_out.as_bytes())?;
    let bytes = archive.finish()?;
    let names = match args.anonymous {
        true => "Names of pools, images, hosts and clients, and addresses, are hidden in it",
        false => "Names of pools, images, hosts and clients, and addresses, are in it (--anonymous hides them)",
    };
    println!("{} has {} KiB. {names}; keys are not in it.", args.file.display(), bytes >> 10);
    Ok(0)
}

fn of_host(dir: &Path, archive: &mut Archive) -> Result<()> {
    archive.add("host/facts.json", serde_json::to_string_pretty(&host::metadata())?.as_bytes())?;
    let anonymous = archive.hider.is_some();
    for path in OF_HOST.into_iter().filter(|path| !anonymous || *path != "/proc/mounts") {
        let name = format!("host/{}.txt", path.trim_start_matches('/').replace('/', "-"));
        archive.add_file(&name, Path::new(path), OF_LOG)?;
    }
    for name in ["nacre.toml", "ceph.conf"] {
        archive.add_file(&format!("host/{name}"), &dir.join(name), OF_LOG)?;
    }
    Ok(())
}

fn of_daemons(dir: &Path, archive: &mut Archive) -> Result<()> {
    for path in files(dir, ".asok") {
        let name = stem(&path, ".asok");
        let of_other = if name.starts_with("mon.") { "dump_watchers" } else { "mon_status" };
        for question in OF_DAEMONS.into_iter().filter(|question| *question != of_other) {
            match admin::ask(&path, &json!({"prefix": question}).to_string()) {
                Ok(told) => archive.add(&format!("daemons/{name}/{}.json", question.replace(' ', "-")), told.as_bytes())?,
                Err(e) => archive.left_out.push(format!("daemons/{name}: {question}: {e:#}")),
            }
        }
    }
    Ok(())
}

fn of_cluster(dir: &Path, archive: &mut Archive) -> Result<()> {
    let client = token::administrator(dir)?;
    let anonymous = archive.hider.is_some();
    for (name, command) in ASKED.into_iter().filter(|(name, _)| !anonymous || *name != "audit") {
        let command: Value = serde_json::from_str(command).context("a command of this program")?;
        if !ask(&client, &format!("cluster/{name}.txt"), &command, archive)? {
            archive.left_out.push("no monitor answers: nothing else of the cluster is in it".into());
            return Ok(());
        }
    }
    let crashes = client.command_within(&json!({"prefix": "crash ls", "format": "json"}), PATIENCE).map(|reply| reply.output);
    let crashes: Value = crashes.ok().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    for id in crashes.as_array().into_iter().flatten().rev().take(20).filter_map(|crash| crash["crash_id"].as_str()) {
        let name: String = id.chars().filter(|c| c.is_ascii_alphanumeric() || "-_.".contains(*c)).take(80).collect();
        ask(&client, &format!("cluster/crashes/{name}.json"), &json!({"prefix": "crash info", "id": id}), archive)?;
    }
    Ok(())
}

/// Adds an answer of the monitors. Returns false if nobody answers.
fn ask(client: &Client, name: &str, command: &Value, archive: &mut Archive) -> Result<bool> {
    match client.command_within(command, PATIENCE) {
        Ok(reply) => archive.add(name, (reply.output + &reply.status).as_bytes())?,
        Err(Failure::Refused(_, why)) => archive.left_out.push(format!("{name}: {why}")),
        Err(Failure::Silence | Failure::Key) => return Ok(false),
    }
    Ok(true)
}

fn of_logs(dir: &Path, archive: &mut Archive) -> Result<()> {
    for path in files(&dir.join("log"), ".log") {
        archive.add_file(&format!("logs/{}.log", stem(&path, ".log")), &path, OF_LOG)?;
    }
    let waiting = std::fs::read_dir(crash::folder(dir)).into_iter().flatten().flatten().map(|entry| entry.path().join("meta"));
    for (number, path) in waiting.filter(|path| path.is_file()).take(32).enumerate() {
        archive.add_file(&format!("crashes-not-told/{number}.json"), &path, OF_LOG)?;
    }
    Ok(())
}

/// The files of a folder whose names end so, in order.
fn files(folder: &Path, end: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut found: Vec<PathBuf> = entries.filter(|path| path.to_string_lossy().ends_with(end)).collect();
    found.sort();
    found
}

fn stem(path: &Path, end: &str) -> String {
    let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    name.trim_end_matches(end).to_owned()
}

/// A text without what looks like a secret: keys as keyrings have them, tokens, links; and values of options that are secrets.
fn clean(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let word = |c: char| c.is_ascii_alphanumeric() || "+/=_-".contains(c);
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|c| !word(c)).unwrap_or(rest.len());
        let (one, after) = rest.split_at(end);
        // `key=AQ…==`, without spaces, too.
        let value = one.split_once('=').map_or(one, |(name, value)| if name.len() < 24 { value } else { one });
        let key = |text: &str| text.starts_with("AQ") && text.len() >= 38;
        let secret = one.contains("nacre1-") || key(one) || key(value) || one.starts_with("link=");
        out.push_str(if secret { "(left out)" } else { one });
        let mut chars = after.chars();
        out.extend(chars.next());
        rest = chars.as_str();
    }
    out
}

/// The same for a structure: values whose names speak of secrets go, too. None if the text is no structure.
fn clean_structure(text: &str) -> Option<Value> {
    fn go(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                let named = fields.get("name").and_then(Value::as_str).is_some_and(is_secret);
                for (name, value) in fields.iter_mut() {
                    if value.is_string() && (is_secret(name) || named && matches!(name.as_str(), "value" | "default" | "final")) {
                        *value = json!("(left out)");
                    } else {
                        go(value);
                    }
                }
            }
            Value::Array(all) => all.iter_mut().for_each(go),
            _ => {}
        }
    }
    let mut value: Value = serde_json::from_str(text).ok()?;
    go(&mut value);
    Some(value)
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    // `keys` are counted, and `keyring` is the name of a file.
    SECRETS.iter().any(|word| name.split(['_', '/', '-', ' ']).any(|part| part == *word))
}

/// A tar file that is written.
struct Archive {
    file: File,
    root: String,
    written: usize,
    left_out: Vec<String>,
    /// Words in place of names, if that is wanted.
    hider: Option<Hider>,
}

impl Archive {
    /// Adds a part; without secrets, and cut if it is too long.
    fn add(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        let text = String::from_utf8_lossy(bytes);
        let hider = self.hider.as_ref();
        let text = match clean_structure(&text) {
            Some(mut value) => {
                hider.iter().for_each(|hider| hider.hide_structure(&mut value));
                serde_json::to_string_pretty(&value).context("write a structure")?
            }
            None => hider.map_or_else(|| text.to_string(), |hider| hider.hide(&text)),
        };
        let text = clean(&text);
        let name = &hider.map_or_else(|| name.to_owned(), |hider| hider.hide(name));
        let most = OF_ONE.min(MOST.saturating_sub(self.written + 64 * 1024));
        let mut bytes = text.as_bytes();
        if bytes.len() > most {
            self.left_out.push(format!("{name}: {} of {} bytes", bytes.len() - most, bytes.len()));
            bytes = &bytes[..most];
        }
        let head = head(&format!("{}/{name}", self.root), bytes.len());
        self.file.write_all(&head)?;
        self.file.write_all(bytes)?;
        let pad = bytes.len().next_multiple_of(512) - bytes.len();
        self.file.write_all(&[0; 512][..pad])?;
        self.written += head.len() + bytes.len() + pad;
        Ok(())
    }

    /// Adds the end of a file, if there is one.
    fn add_file(&mut self, name: &str, path: &Path, most: usize) -> Result<()> {
        let read = || -> std::io::Result<Vec<u8>> {
            let mut file = File::open(path)?;
            let length = file.metadata()?.len();
            if length > most as u64 {
                file.seek(SeekFrom::Start(length - most as u64))?;
            }
            let mut bytes = Vec::new();
            file.take(most as u64).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        match read() {
            Ok(bytes) => self.add(name, &bytes)?,
            Err(e) => self.left_out.push(format!("{name}: {e}")),
        }
        Ok(())
    }

    /// Ends the file. Gives its bytes.
    fn finish(mut self) -> Result<usize> {
        self.file.write_all(&[0; 1024])?;
        self.file.sync_all()?;
        Ok(self.written + 1024)
    }
}

/// The head of a file in a tar file, as POSIX (ustar) has it: name, mode, owner, group, length, time, check, kind. A long name is cut.
fn head(name: &str, length: usize) -> [u8; 512] {
    let mut head = [0; 512];
    let mut put = |at: usize, text: &str| {
        let end = (at + text.len()).min(512);
        head[at..end].copy_from_slice(&text.as_bytes()[..end - at]);
    };
    put(0, &name.chars().filter(char::is_ascii).take(99).collect::<String>());
    put(100, "0000600\0");
    put(108, "0000000\0");
    put(116, "0000000\0");
    put(124, &format!("{length:011o}\0"));
    put(136, &format!("{:011o}\0", log::now().sec));
    put(148, "        ");
    put(156, "0");
    put(257, "ustar\0");
    put(263, "00");
    let sum: u32 = head.iter().map(|byte| u32::from(*byte)).sum();
    head[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    head
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_looks_like_a_secret_is_left() {
        let key = keys_text();
        for text in [
            format!("[client.admin]\n\tkey = {key}\n"),
            format!("key={key} caps"),
            format!("{{\"key\":\"{key}\"}}"),
            format!("nacre1-{key}"),
            "https://h/login?link=abcdef".to_owned(),
        ] {
            let out = clean(&text);
            assert!(!out.contains(&key) && !out.contains("abcdef") && out.contains("(left out)"), "{out}");
        }
        for text in ["osd.0 = up, 3 keys\n", "AQ is short", "ä=ö", "", "=", "a==b"] {
            assert_eq!(clean(text), text);
        }
        let config = r#"[{"name":"rgw_keystone_admin_password","value":"hush"},{"name":"osd_memory_target","value":"4"},{"secret":"hush","keys":"3"}]"#;
        let out = clean_structure(config).unwrap().to_string();
        assert!(!out.contains("hush") && out.contains("\"4\"") && out.contains("\"3\""), "{out}");
        assert!(clean_structure("no structure").is_none());
    }

    fn keys_text() -> String {
        crate::keys::to_text(&[0x5a; 16])
    }

    #[test]
    fn a_file_is_what_tar_reads() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.tar");
        let mut archive =
            Archive { file: File::create(&path).unwrap(), root: "r".into(), written: 0, left_out: Vec::new(), hider: None };
        archive.add("a/b.txt", b"hello").unwrap();
        archive.add(&"long".repeat(60), &vec![b'y'; OF_ONE + 1]).unwrap();
        archive.add_file("c", &dir.path().join("none"), 10).unwrap();
        assert_eq!(archive.left_out.len(), 2, "{:?}", archive.left_out);
        let bytes = archive.finish().unwrap();
        assert_eq!((bytes % 512, std::fs::metadata(&path).unwrap().len() as usize), (0, bytes));
        let done = std::process::Command::new("tar").arg("-xOf").arg(&path).arg("r/a/b.txt").output().unwrap();
        assert_eq!(done.stdout, b"hello", "{}", String::from_utf8_lossy(&done.stderr));
    }
}
