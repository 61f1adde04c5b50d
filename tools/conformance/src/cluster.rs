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
    pub fn shell(&self, command: &str, work: &Path) -> Result<Outcome> {
        shell(command, work, &self.conf())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A port that is free now and below the range of ephemeral ports: a client that dials a dead server on an ephemeral port may get
/// that very port as its own, and keep the server from coming back.
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

/// Runs a shell command with `CEPH_CONF` set, ended after a minute. `DIR` stands for `work`.
pub fn shell(command: &str, work: &Path, conf: &Path) -> Result<Outcome> {
    shell_for(command, work, conf, 60)
}

/// [`shell`], ended after `seconds`.
pub fn shell_for(command: &str, work: &Path, conf: &Path, seconds: u32) -> Result<Outcome> {
    let command = command.replace("DIR", &work.display().to_string());
    let output = Command::new("timeout")
        .args(["-k", "5", &seconds.to_string(), "bash", "-c", &command])
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
