//! Ceph's object gateway (`radosgw`) on a cluster under test, ours or a real one.
//!
//! It is the package of this machine for all clusters, so that two clusters differ by what is below it. Its pools are
//! made before it starts: their copies, groups and erasure code are those of the measured pool, while what needs keys
//! and values beside objects (index, logs) has copies.

use super::client;
use crate::lab::Lab;
use crate::monitor::after;
use crate::plan::Point;
use crate::process::{self, Daemon};
use anyhow::{Context, Result, bail};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Pools with the objects' data and with all else; few groups for those that hold little.
const DATA: &str = "default.rgw.buckets.data";
const INDEX: &str = "default.rgw.buckets.index";
const SMALL: [&str; 5] =
    [".rgw.root", "default.rgw.log", "default.rgw.control", "default.rgw.meta", "default.rgw.buckets.non-ec"];
/// Its name, and the keys of its one user. It listens on this machine alone.
const NAME: &str = "client.rgw.lab";
const ACCESS: &str = "LABORATORY0000000000";
const SECRET: &str = "of-the-laboratory";
/// Seconds that a command of `radosgw-admin` may take.
const COMMAND: Duration = Duration::from_secs(120);

/// A gateway that serves.
pub struct Gateway {
    daemon: Daemon,
    port: u16,
}

impl Gateway {
    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.daemon.pid()
    }

    /// Words by which the client of the workload finds it.
    pub fn words(&self) -> [String; 6] {
        ["--port", &self.port.to_string(), "--access", ACCESS, "--secret", SECRET].map(str::to_owned)
    }
}

/// Makes its pools, starts it and makes its user.
///
/// # Errors
/// `radosgw` is not installed or does not serve within `patience` seconds; a pool cannot be made.
pub(super) fn start(lab: &Lab, point: &Point, folder: &Path, cluster: &Path, patience: f64) -> Result<Gateway> {
    let (port, _) = super::free_ports()?;
    let pgs = point.int("pgs", 32).to_string();
    for (name, pgs, coded) in
        [(DATA, pgs.as_str(), true), (INDEX, pgs.as_str(), false)].into_iter().chain(SMALL.map(|n| (n, "8", false)))
    {
        client::create_pool(lab, point, cluster, name, pgs, coded)?;
        client::ceph(lab, cluster, &["osd", "pool", "application", "enable", name, "rgw"])?;
    }
    let path = |name: &str| folder.join(name).display().to_string();
    let text = std::fs::read_to_string(cluster).with_context(|| format!("read {}", cluster.display()))?;
    let (conf, keyring) = (folder.join("gateway.conf"), path("gateway.keyring"));
    // A cluster without keys has no encrypted connections, for which gateways ask unless they are told.
    let section = format!(
        "\n[{NAME}]\nrgw frontends = beast endpoint=127.0.0.1:{port}\nkeyring = {keyring}\nlog file = {}\nadmin socket = {}\nrgw data = {}\n\
         ms mon client mode = crc secure\nrgw run sync thread = false\n",
        path("gateway.log"),
        path("gateway.asok"),
        folder.display()
    );
    std::fs::write(&conf, text + &section).with_context(|| format!("write {}", conf.display()))?;
    if point.text("auth") == "cephx" {
        let key = client::ceph(lab, cluster, &["auth", "get-or-create", NAME, "mon", "allow rw", "osd", "allow rwx"])?;
        std::fs::write(&keyring, key).with_context(|| format!("write {keyring}"))?;
    }
    let mut command = Command::new("radosgw");
    command.arg("--conf").arg(&conf).args(["--name", NAME, "-f"]);
    let log = folder.join("gateway.out");
    let mut daemon = Daemon::start(command, &log, false, &lab.undo)?;
    let limit = after(patience);
    while !answers(port) {
        if let Some(status) = daemon.has_ended() {
            bail!("radosgw ended with {status}: {}", client::last_log(&conf, "gateway"));
        }
        if std::time::Instant::now() > limit {
            bail!("radosgw does not answer after {patience:.0} s: {}", client::last_log(&conf, "gateway"));
        }
        // radosgw tells nobody that it serves, so it is asked again; `limit` bounds that.
        lab.interrupt.sleep(Duration::from_millis(200))?;
    }
    let mut user = Command::new("radosgw-admin");
    user.arg("--conf").arg(&conf).args([
        "--name",
        NAME,
        "user",
        "create",
        "--uid",
        "lab",
        "--display-name",
        "Laboratory",
        "--max-buckets",
        "0",
    ]);
    user.args(["--access-key", ACCESS, "--secret-key", SECRET]);
    process::output(user, COMMAND, &lab.undo, &lab.interrupt)?;
    Ok(Gateway { daemon, port })
}

/// Returns true if it answers a request.
fn answers(port: u16) -> bool {
    let ask = || -> std::io::Result<bool> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.write_all(b"GET / HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
        let mut head = [0; 12];
        stream.read_exact(&mut head)?;
        Ok(head.ends_with(b" 200"))
    };
    ask().unwrap_or(false)
}
