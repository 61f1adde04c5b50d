//! Admin sockets: requests to a daemon of this machine, in the protocol of `ceph daemon`. A request is a command as
//! JSON that ends with a zero byte; an answer is its length (4 bytes, big-endian) and its text.

use anyhow::{Context, Result, bail};
use runtime::Caller;
use serde_json::{Map, Value, json};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest command that is read.
const LONGEST_COMMAND: u64 = 1 << 20;
/// Longest answer that a client takes.
const LONGEST_ANSWER: usize = 256 << 20;
/// Time that a peer may take to say or hear something.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time that a daemon may take to answer.
const ANSWER: Duration = Duration::from_secs(60);
/// An answer that begins so says why there is none.
pub(crate) const ERROR: &str = "ERROR: ";
/// Longest path of a socket (`sun_path`), with its zero byte.
const LONGEST_PATH: usize = 108;

/// The sockets of the daemons of this process. Removed when dropped.
pub(crate) struct Sockets(Vec<PathBuf>);

impl Sockets {
    /// Opens `DIR/NAME.asok` for each daemon. What lies there from an earlier process is replaced: the caller holds
    /// DIR's lock.
    pub(crate) fn open(dir: &Path, daemons: impl Iterator<Item = (String, Caller)>) -> Result<Self> {
        let mut sockets = Self(Vec::new());
        for (name, caller) in daemons {
            sockets.add(dir, &format!("{name}.asok"), move |command| answer(&caller, command))?;
        }
        Ok(sockets)
    }

    /// Opens one socket of another kind: `answer` gives the text for each command, one after the other.
    pub(crate) fn one(dir: &Path, name: &str, answer: impl Fn(String) -> String + Send + 'static) -> Result<Self> {
        let mut sockets = Self(Vec::new());
        sockets.add(dir, name, answer)?;
        Ok(sockets)
    }

    fn add(&mut self, dir: &Path, name: &str, answer: impl Fn(String) -> String + Send + 'static) -> Result<()> {
        let path = dir.join(name);
        let _ = std::fs::remove_file(&path);
        let listener = short(&path, |p| UnixListener::bind(p)).with_context(|| format!("make the socket {}", path.display()))?;
        self.0.push(path);
        let serve = move || listener.incoming().flatten().for_each(|stream| drop(serve(stream, &answer)));
        // Frames of what answers for the whole host are larger.
        let thread = std::thread::Builder::new().name(name.to_owned()).stack_size(512 << 10);
        thread.spawn(serve).context("start a thread for an admin socket").map(drop)
    }
}

impl Drop for Sockets {
    fn drop(&mut self) {
        self.0.iter().for_each(|path| drop(std::fs::remove_file(path)));
    }
}

/// Does something with a path that may be too long for a socket: then through a descriptor of its folder.
fn short<T>(path: &Path, f: impl FnOnce(&Path) -> std::io::Result<T>) -> std::io::Result<T> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return f(path) };
    if path.as_os_str().len() < LONGEST_PATH {
        return f(path);
    }
    let folder = File::open(folder)?;
    f(&Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(name))
}

fn serve(mut stream: UnixStream, answer: &impl Fn(String) -> String) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut command = Vec::new();
    for byte in (&mut std::io::BufReader::new(&stream)).take(LONGEST_COMMAND).bytes() {
        match byte? {
            0 | b'\n' => break,
            byte => command.push(byte),
        }
    }
    let text = answer(String::from_utf8_lossy(&command).into_owned());
    stream.write_all(&(text.len() as u32).to_be_bytes())?;
    stream.write_all(text.as_bytes())
}

/// Answer of a daemon, or the reason why there is none.
fn answer(caller: &Caller, command: String) -> String {
    match caller.call(command, ANSWER) {
        Ok(answer) if answer.result >= 0 => answer.text,
        Ok(answer) => {
            let errno = answer.result.saturating_neg();
            let error = std::io::Error::from_raw_os_error(errno).to_string();
            let words = error.strip_suffix(&format!(" (os error {errno})")).unwrap_or(&error);
            format!("{ERROR}({errno}) {words}\n{}\n", answer.text)
        }
        Err(e) => format!("{ERROR}{e}\n"),
    }
}

/// Runs `nacre admin`; gives the exit code.
pub(crate) fn admin(socket: &str, words: &[String]) -> Result<u8> {
    let path = find(socket)?;
    let raw = words[0].starts_with('{');
    let command = if raw { words.join(" ") } else { command(&ask(&path, r#"{"prefix":"get_command_descriptions"}"#)?, words)? };
    let answer = if command.is_empty() { help(&path)? } else { ask(&path, &command)? };
    let failed = answer.starts_with(ERROR);
    print!("{answer}{}", if answer.ends_with('\n') { "" } else { "\n" });
    Ok(failed.into())
}

/// The socket at a path, or of a daemon of the cluster that CEPH_CONF names.
fn find(socket: &str) -> Result<PathBuf> {
    if socket.contains('/') || Path::new(socket).exists() {
        return Ok(socket.into());
    }
    let conf = std::env::var_os("CEPH_CONF").map(PathBuf::from);
    let dir = conf.as_deref().and_then(Path::parent);
    let dir = dir.with_context(|| {
        format!("'{socket}' is no path; to find a daemon by its name, CEPH_CONF must name the cluster's ceph.conf")
    })?;
    Ok(dir.join(format!("{socket}.asok")))
}

/// Asks the daemon whose socket this is; gives its answer.
pub(crate) fn ask(path: &Path, command: &str) -> Result<String> {
    ask_within(path, command, ANSWER + PATIENCE)
}

/// The same, with a patience of one's own.
pub(crate) fn ask_within(path: &Path, command: &str, patience: Duration) -> Result<String> {
    let mut stream = short(path, |p| UnixStream::connect(p))
        .with_context(|| format!("connect to {} (does the daemon run?)", path.display()))?;
    stream.set_read_timeout(Some(patience))?;
    stream.write_all(command.as_bytes())?;
    stream.write_all(&[0])?;
    let mut len = [0; 4];
    stream.read_exact(&mut len).context("the daemon did not answer")?;
    let len = u32::from_be_bytes(len) as usize;
    if len > LONGEST_ANSWER {
        bail!("the daemon announces an answer of {len} bytes");
    }
    let mut text = vec![0; len];
    stream.read_exact(&mut text).context("the daemon's answer is cut")?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// All commands of a daemon, one in a line.
fn help(path: &Path) -> Result<String> {
    let all: Map<String, Value> = serde_json::from_str(&ask(path, r#"{"prefix":"get_command_descriptions"}"#)?)?;
    let mut lines: Vec<String> =
        all.values().map(|c| format!("{:50} {}\n", signature(c), c["help"].as_str().unwrap_or(""))).collect();
    lines.sort();
    Ok(lines.concat())
}

fn parts(command: &Value) -> &[Value] {
    command["sig"].as_array().map_or(&[], Vec::as_slice)
}

fn signature(command: &Value) -> String {
    let words: Vec<String> = parts(command)
        .iter()
        .map(|part| match (part.as_str(), part["name"].as_str().unwrap_or("?")) {
            (Some(word), _) => word.to_owned(),
            (None, name) if part["req"] == false => format!("[{name}]"),
            (None, name) => format!("<{name}>"),
        })
        .collect();
    words.join(" ")
}

/// Words as a command in JSON, after the descriptions that the daemon gave; empty for `help`.
fn command(descriptions: &str, words: &[String]) -> Result<String> {
    if words == ["help"] {
        return Ok(String::new());
    }
    let all: Map<String, Value> = serde_json::from_str(descriptions).context("the daemon does not describe its commands")?;
    let literal = |c: &Value| parts(c).iter().map_while(|p| p.as_str().map(str::to_owned)).collect::<Vec<_>>();
    let fits = all.values().filter(|c| words.starts_with(&literal(c)));
    let Some(best) = fits.max_by_key(|c| literal(c).len()) else {
        bail!("the daemon has no command '{}'; 'help' lists those it has", words.join(" "));
    };
    let prefix = literal(best);
    let mut given = words[prefix.len()..].iter();
    let mut out = json!({ "prefix": prefix.join(" ") });
    for part in &parts(best)[prefix.len()..] {
        let Some(name) = part["name"].as_str() else { continue };
        let value = match (part["n"] == "N", part["type"].as_str()) {
            (true, _) => Value::from(given.by_ref().cloned().collect::<Vec<_>>()),
            (false, kind) => match given.next() {
                None if part["req"] == false => continue,
                None => bail!("'{}' is missing: {}", name, signature(best)),
                Some(word) if kind == Some("CephInt") => {
                    Value::from(word.parse::<i64>().with_context(|| format!("{name} must be a number, not '{word}'"))?)
                }
                Some(word) => Value::from(word.clone()),
            },
        };
        out[name] = value;
    }
    match given.next() {
        Some(word) => bail!("'{word}' is too much: {}", signature(best)),
        None => Ok(out.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DESCRIPTIONS: &str = r#"{
        "cmd000": {"sig": ["perf", "dump"], "help": "counters"},
        "cmd001": {"sig": ["config", "set", {"name": "var", "type": "CephString"}, {"name": "val", "type": "CephString", "n": "N"}]},
        "cmd002": {"sig": ["bench", {"name": "count", "type": "CephInt", "req": false}]},
        "cmd003": {"sig": ["config", "show"]}}"#;

    fn words(line: &str) -> Result<String> {
        command(DESCRIPTIONS, &line.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn words_become_commands() {
        for (line, json) in [
            ("perf dump", json!({"prefix": "perf dump"})),
            ("config set a b c", json!({"prefix": "config set", "var": "a", "val": ["b", "c"]})),
            ("bench", json!({"prefix": "bench"})),
            ("bench 5", json!({"prefix": "bench", "count": 5})),
        ] {
            assert_eq!(serde_json::from_str::<Value>(&words(line).unwrap()).unwrap(), json, "{line}");
        }
        for (line, says) in
            [("nothing", "'help'"), ("bench x", "number"), ("perf dump x", "too much"), ("config set", "'var' is missing")]
        {
            let error = words(line).unwrap_err().to_string();
            assert!(error.contains(says), "{line}: {error}");
        }
        assert_eq!(words("help").unwrap(), "");
    }

    #[test]
    fn long_paths_work() {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("x".repeat(80)).join("y".repeat(80));
        std::fs::create_dir_all(&deep).unwrap();
        let (caller, inbox) = runtime::mailbox().unwrap();
        let sockets = Sockets::open(&deep, [("osd.0".to_owned(), caller)].into_iter()).unwrap();
        drop(inbox);
        let path = deep.join("osd.0.asok");
        assert_eq!(ask(&path, "{}").unwrap(), "ERROR: the daemon has ended\n");
        drop(sockets);
        assert!(!path.exists());
    }
}
