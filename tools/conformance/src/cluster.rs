//! A cluster of ours as a process, in a folder of its own.

use anyhow::{Context, Result, bail};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// How long a cluster may take to say that it is ready. Much more than it should, for loaded machines.
const READY: Duration = Duration::from_secs(60);

/// How the cluster is started.
#[derive(Clone, Debug)]
pub struct Options {
    /// The `nacre` executable.
    pub binary: PathBuf,
    /// Number of OSDs.
    pub osds: u32,
    /// `none` or `cephx`.
    pub auth: String,
    /// Clients encrypt all their traffic (needs cephx).
    pub secure: bool,
    /// Further arguments of `nacre up`.
    pub more: Vec<String>,
}

/// A running `nacre up`. Killed when dropped.
pub struct Cluster {
    /// Its folder.
    pub dir: PathBuf,
    options: Options,
    port: u16,
    child: Option<Child>,
}

impl Cluster {
    /// Starts a cluster in `dir` and waits until it is ready.
    pub fn start(dir: &Path, options: Options) -> Result<Self> {
        let port = free_port().context("no port is free")?;
        let mut cluster = Self { dir: dir.to_owned(), options, port, child: None };
        cluster.up()?;
        Ok(cluster)
    }

    /// Starts it (again) in the same folder, on the same port.
    pub fn up(&mut self) -> Result<()> {
        let o = &self.options;
        let mut child = Command::new(&o.binary)
            .args(["up", "--dir"])
            .arg(&self.dir)
            .args(["--osds", &o.osds.to_string(), "--port", &self.port.to_string(), "--auth", &o.auth])
            .args(&o.more)
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("start {}", o.binary.display()))?;
        let stdout = child.stdout.take().context("standard output of nacre up")?;
        self.child = Some(child);
        let (ready, is_ready) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(std::result::Result::ok) {
                if line.starts_with("ready") {
                    let _ = ready.send(());
                }
            }
        });
        match is_ready.recv_timeout(READY) {
            Ok(()) if self.options.secure => self.make_clients_secure(),
            Ok(()) => Ok(()),
            Err(_) => bail!("nacre up in {} did not become ready; see {}/log", self.dir.display(), self.dir.display()),
        }
    }

    /// Adds to the clients' section, which is the last one.
    fn make_clients_secure(&self) -> Result<()> {
        let mut conf = std::fs::OpenOptions::new().append(true).open(self.conf())?;
        conf.write_all(b"ms client mode = secure\nms mon client mode = secure\n").context("write ceph.conf")
    }

    /// `ceph.conf` for clients.
    pub fn conf(&self) -> PathBuf {
        self.dir.join("ceph.conf")
    }

    /// Process id, 0 if it does not run.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().map_or(0, Child::id)
    }

    /// SIGKILL, now.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// SIGTERM, and the exit code.
    pub fn stop(&mut self) -> Result<Option<i32>> {
        let Some(mut child) = self.child.take() else { return Ok(None) };
        let killed = Command::new("kill").arg(child.id().to_string()).status()?;
        if !killed.success() {
            bail!("cannot signal process {}", child.id());
        }
        Ok(child.wait()?.code())
    }

    /// Runs a shell command as a client of this cluster, in `work`. `DIR` in it stands for `work`.
    pub fn shell(&self, client: &Client, command: &str, work: &Path) -> Result<Outcome> {
        client.shell(command, work, &self.conf(), SECONDS)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A port that is free now and below the range of ephemeral ports: a client that dials a dead server on an ephemeral
/// port may get that very port as its own, and keep the server from coming back.
fn free_port() -> Option<u16> {
    let start = std::process::id() as u16 % 1000;
    (0..1000).map(|i| 10_000 + (start + i * 17) % 20_000).find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
}

/// What a command did.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
    /// Exit code; 124 if it hung and was ended.
    pub code: i32,
}

/// Whose commands are run: this host's, or those of another release, which `release.sh` installed in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// Release, as `18.2`: names its column and the folder of what is recorded with it.
    pub name: String,
    /// Place where it is installed; `None` for this host's.
    pub root: Option<PathBuf>,
}

impl Client {
    /// This host's commands, which are of release 16.2.
    pub fn host() -> Self {
        Self { name: "16.2".into(), root: None }
    }

    /// Reads `18.2=/tmp/ceph18`.
    ///
    /// # Errors
    /// There is no release, or no `ceph` in the folder.
    pub fn parse(text: &str) -> Result<Self> {
        let (name, root) = text.split_once('=').context("a client is RELEASE=FOLDER")?;
        let root = Path::new(root).canonicalize().with_context(|| root.to_owned())?;
        if name.is_empty() || name.contains('/') || !root.join("usr/bin/ceph").exists() {
            bail!("{text:?}: no release, or no ceph in the folder; `release.sh install SUITE FOLDER` makes one");
        }
        Ok(Self { name: name.into(), root: Some(root) })
    }

    /// Returns where what is recorded with this client lies in `folder`.
    pub fn recorded(&self, folder: &Path) -> PathBuf {
        if self.root.is_some() { folder.join(&self.name) } else { folder.to_owned() }
    }

    /// Runs a shell command with `CEPH_CONF` set, ended after `seconds`. `DIR` stands for `work`.
    pub fn shell(&self, command: &str, work: &Path, conf: &Path, seconds: u32) -> Result<Outcome> {
        let mut call = Command::new("timeout");
        call.args(["-k", "5", &seconds.to_string()]);
        if let Some(root) = &self.root {
            call.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/release.sh")).arg("run").arg(root);
        }
        let command = command.replace("DIR", &work.display().to_string());
        let output = call
            .args(["bash", "-c", &command])
            .current_dir(work)
            .env("CEPH_CONF", conf)
            .env("CEPH_ARGS", "")
            .env("LC_ALL", "C.UTF-8")
            .stdin(Stdio::null())
            .output()
            .context("run a client")?;
        Ok(Outcome {
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
            code: output.status.code().unwrap_or(-1),
        })
    }
}

/// The clients of a run: this host's unless `others_only`, then those given as `RELEASE=FOLDER`.
///
/// # Errors
/// One is not of that form, or not there.
pub fn clients(given: &[String], others_only: bool) -> Result<Vec<Client>> {
    let host = (!others_only).then(|| Ok(Client::host()));
    host.into_iter().chain(given.iter().map(|text| Client::parse(text))).collect()
}

/// Seconds that a command may take, if nothing else is said.
pub const SECONDS: u32 = 60;
