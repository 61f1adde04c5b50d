//! A real Ceph from packages: a monitor, a manager and OSDs as children of this process, on loopback.
//!
//! Release 18 lives in a folder of its own. Its daemons run there in a mount namespace of their own, in which /proc,
//! /dev, /sys and the cluster's folder are bound at the same paths, so one ceph.conf serves inside and outside and no
//! mount outlives the daemons.

use super::{Cluster, Place, Restart, client, free_ports, release};
use crate::lab::Lab;
use crate::plan::Point;
use crate::process::{self, Daemon};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Time that one step may take.
const STEP: Duration = Duration::from_secs(60);
/// Bytes of a FileStore journal in a file, in MiB.
const JOURNAL_MIB: u64 = 1024;

/// Command by which programs of a release are started.
#[derive(Clone, Debug)]
struct Home {
    root: Option<PathBuf>,
    folder: PathBuf,
}

impl Home {
    fn command(&self, program: &str) -> Command {
        let Some(root) = &self.root else { return Command::new(program) };
        let script = "for m in proc dev sys; do mount --rbind /$m \"$0/$m\"; done; mkdir -p \"$0$1\"; mount --rbind \"$1\" \"$0$1\"; \
                      d=$1; shift; exec chroot \"$0\" \"$@\"";
        let mut command = Command::new("unshare");
        command.args(["--mount", "--", "sh", "-ec", script]).arg(root).arg(&self.folder).arg(program);
        command
    }

    fn run(&self, lab: &Lab, program: &str, args: &[&str]) -> Result<String> {
        let mut command = self.command(program);
        command.args(args).env_remove("CEPH_ARGS");
        process::output(command, STEP, &lab.undo, &lab.interrupt)
    }
}

pub(super) fn start(lab: &Lab, point: &Point, folder: &Path, places: &[Place], cluster: &mut Cluster) -> Result<()> {
    let root = release::root(lab, point)?;
    let home = Home { root, folder: folder.to_owned() };
    for name in ["mon", "mgr/x", "run", "log"] {
        std::fs::create_dir_all(folder.join(name))?;
    }
    let (v1, v2) = free_ports()?;
    let fsid = std::fs::read_to_string("/proc/sys/kernel/random/uuid")?.trim().to_owned();
    let conf = folder.join("ceph.conf");
    let run = folder.join("run");
    std::fs::create_dir_all(&run)?;
    std::fs::write(&conf, configuration(point, folder, &run, places, &fsid, (v1, v2))).context("write ceph.conf")?;
    let path = |name: &str| folder.join(name).display().to_string();
    let (keyring, c) = (path("keyring"), conf.display().to_string());
    let address = format!("[v2:127.0.0.1:{v2},v1:127.0.0.1:{v1}]");
    home.run(lab, "ceph-authtool", &["--create-keyring", &keyring, "--gen-key", "-n", "mon.", "--cap", "mon", "allow *"])?;
    let admin = ["-n", "client.admin", "--cap", "mon", "allow *", "--cap", "osd", "allow *", "--cap", "mgr", "allow *"];
    home.run(lab, "ceph-authtool", &[&[keyring.as_str(), "--gen-key"][..], &admin].concat())?;
    let release = if home.root.is_some() { "18" } else { "16" };
    let map = path("monmap");
    home.run(lab, "monmaptool", &["--create", "--addv", "a", &address, "--fsid", &fsid, "--set-min-mon-release", release, &map])?;
    home.run(lab, "ceph-mon", &["-c", &c, "--mkfs", "-i", "a", "--monmap", &map, "--keyring", &keyring])?;
    let daemon = |cluster: &mut Cluster, name: &str, command: Command| -> Result<()> {
        cluster.daemons.push((name.to_owned(), Daemon::start(command, &folder.join(format!("{name}.out")), false, &lab.undo)?));
        Ok(())
    };
    let mut mon = home.command("ceph-mon");
    mon.args(["-f", "-c", &c, "-i", "a", "--public-addrv", &address]);
    daemon(cluster, "mon", mon)?;
    cluster.conf = conf.clone();
    let manager =
        client::ceph(lab, &conf, &["auth", "get-or-create", "mgr.x", "mon", "allow *", "osd", "allow *", "mds", "allow *"])?;
    append(&keyring, &manager)?;
    let mut mgr = home.command("ceph-mgr");
    mgr.args(["-f", "-c", &c, "-i", "x"]);
    daemon(cluster, "mgr", mgr)?;
    for (i, place) in places.iter().enumerate() {
        osd(lab, point, &home, &c, &keyring, i, place, cluster)?;
    }
    cluster.sockets = (0..places.len()).map(|i| run.join(format!("osd.{i}.asok"))).collect();
    cluster.conf = client::client_conf(&conf, folder)?;
    Ok(())
}

#[expect(clippy::too_many_arguments, reason = "a step of one sequence")]
fn osd(
    lab: &Lab,
    point: &Point,
    home: &Home,
    c: &str,
    keyring: &str,
    i: usize,
    place: &Place,
    cluster: &mut Cluster,
) -> Result<()> {
    let (id, name) = (i.to_string(), format!("osd.{i}"));
    let uuid = std::fs::read_to_string("/proc/sys/kernel/random/uuid")?.trim().to_owned();
    client::ceph(lab, Path::new(c), &["osd", "new", &uuid, &id])?;
    let caps = ["mon", "allow profile osd", "osd", "allow *", "mgr", "allow profile osd"];
    let key = client::ceph(lab, Path::new(c), &[&["auth", "get-or-create", &name][..], &caps].concat())?;
    append(keyring, &key)?;
    let link = |name: &str, to: &Option<PathBuf>| -> Result<()> {
        match to {
            Some(to) => std::os::unix::fs::symlink(to, place.folder.join(name)).with_context(|| format!("link {name}")),
            None => Ok(()),
        }
    };
    match point.text("store").as_str() {
        "filestore" => {
            if place.raw.is_some() {
                bail!("FileStore needs a file system on its disk: give the cluster an fs");
            }
            link("journal", &place.journal)?;
        }
        "memstore" => {}
        _ => {
            link("block", &place.raw)?;
            link("block.wal", &place.journal)?;
        }
    }
    home.run(lab, "ceph-osd", &["-c", c, "-i", &id, "--mkfs", "--osd-uuid", &uuid, "--no-mon-config"])?;
    let preload = if point.flag("tcmalloc", false) { Some(tcmalloc()?) } else { None };
    let (home, c) = (home.clone(), c.to_owned());
    let command: Restart = Box::new(move || {
        let mut command = home.command("ceph-osd");
        command.args(["-f", "-c", &c, "-i", &id]);
        if let Some(library) = &preload {
            command.env("LD_PRELOAD", library);
        }
        command
    });
    cluster.again.push((name.clone(), command));
    cluster.restart(lab, &name)
}

fn append(path: &str, text: &str) -> Result<()> {
    use std::io::Write;
    let mut file = std::fs::OpenOptions::new().append(true).open(path)?;
    Ok(file.write_all(format!("\n{text}\n").as_bytes())?)
}

fn tcmalloc() -> Result<PathBuf> {
    for folder in std::fs::read_dir("/usr/lib")?.flatten() {
        for name in ["libtcmalloc.so.4", "libtcmalloc_minimal.so.4"] {
            let path = folder.path().join(name);
            if path.exists() {
                return Ok(path);
            }
        }
    }
    Err(crate::disks::Skip("tcmalloc is not there (Debian's package libtcmalloc-minimal4 has it)".into()).into())
}

fn configuration(p: &Point, folder: &Path, run: &Path, places: &[Place], fsid: &str, (v1, v2): (u16, u16)) -> String {
    let d = folder.display();
    let auth = p.given("auth").unwrap_or_else(|| "none".into());
    let copies = p.int("copies", 1);
    let store = p.given("store").unwrap_or_else(|| "bluestore".into());
    let mut text = format!(
        "[global]\nfsid = {fsid}\nmon host = [v2:127.0.0.1:{v2},v1:127.0.0.1:{v1}]\nauth cluster required = {auth}\n\
         auth service required = {auth}\nauth client required = {auth}\nosd pool default size = {copies}\n\
         osd pool default min size = {}\nmon allow pool size one = true\nmon allow pool delete = true\n\
         mon warn on pool no redundancy = false\nosd crush chooseleaf type = 0\nosd objectstore = {store}\n\
         bluestore block size = {}\nmemstore device bytes = 6442450944\nosd memory target = {}\n\
         run dir = {}\nlog file = {d}/log/$name.log\nadmin socket = {}/$name.asok\nkeyring = {d}/keyring\n\
         debug ms = 0/0\ndebug osd = 0/0\ndebug bluestore = 0/0\ndebug rocksdb = 0/0\ndebug bdev = 0/0\ndebug filestore = 0/0\n\
         debug journal = 0/0\nms bind msgr2 = true\nosd op queue = wpq\nmon osd reporter subtree level = osd\n\
         mon data avail warn = 1\nmon data avail crit = 1\nosd pool default pg autoscale mode = off\n",
        copies.saturating_sub(1).max(1),
        p.int("osd_size", 20 << 30),
        p.int("memory", 4 << 30),
        run.display(),
        run.display(),
    );
    for line in p.text("config").lines() {
        text += line.trim();
        text.push('\n');
    }
    text += &format!("[mon]\nmon data = {d}/mon/$id\n[mgr]\nmgr data = {d}/mgr/$id\n[osd]\n");
    if store == "filestore" && p.text("fs") == "ext4" {
        // Attributes of files are small there; so must be names of objects.
        text += "osd max object name len = 256\nosd max object namespace len = 64\n";
    }
    if store == "filestore" && p.text("fs") == "btrfs" {
        text += "enable experimental unrecoverable data corrupting features = btrfs\n";
    }
    for (i, place) in places.iter().enumerate() {
        text += &format!("[osd.{i}]\nosd data = {}\n", place.folder.display());
        if store == "filestore" {
            let size = if place.journal.is_some() { 0 } else { JOURNAL_MIB };
            text += &format!("osd journal = {}/journal\nosd journal size = {size}\n", place.folder.display());
        }
    }
    text
}
