//! What can be said on the command line.

use clap::{ArgMatches, Args, FromArgMatches, Parser, Subcommand, ValueEnum};
use crush::Location;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// A storage cluster in one binary that speaks Ceph's protocol.
#[derive(Parser, Debug)]
#[command(name = "nacre", version, arg_required_else_help = true, after_help = EXAMPLES, max_term_width = 110)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "\
Examples:
  nacre up --dir ./cluster                        a monitor and 3 OSDs, in the foreground; stop with Ctrl-C
  export CEPH_CONF=$PWD/cluster/ceph.conf         from now on Ceph's own tools talk to it
  ceph -s
  ceph osd pool create data 32 && rados -p data put hello ./hello.txt
  nacre up --dir ./cluster --osds 5               the same cluster, with two more OSDs
  nacre up --dir ./c --disk /dev/sdb --disk /dev/sdc,journal=/dev/nvme0n1p1
  nacre admin ./cluster/osd.0.asok perf dump      what an OSD counts
  nacre fsck ./cluster                            check the disks of a cluster that is stopped
  nacre demo                                      a temporary cluster, a table and a page of its speed
  nacre lab run lab/articles/controllers.toml --quick --out results/";

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Run a whole cluster in this process: a monitor (with the manager's duties) and OSDs.
    ///
    /// Everything lives in DIR. If DIR holds a cluster already, it goes on. DIR/ceph.conf and DIR/keyring are written for
    /// clients. When the cluster serves, a line that begins with `ready` is printed. SIGTERM and SIGINT stop it cleanly; a
    /// second one ends it at once.
    Up(Up),
    /// Run only the monitor (with the manager's duties) of the cluster in DIR; the OSDs are run by `nacre osd`. Or save, restore or rescue
    /// the monitors' state.
    Mon(Mon),
    /// Run one OSD of the cluster in DIR; the monitor must have been started once with `nacre mon` or `nacre up`.
    Osd(Osd),
    /// Print a line with which one other host may join the cluster in DIR, which must be running.
    ///
    /// The line is a secret. It is good for one host, and for an hour unless --for says otherwise; `ceph auth ls` shows it as
    /// `client.join.N`, and `ceph auth rm` takes it back.
    Token(Token),
    /// Join a cluster with a line that `nacre token` printed, and run what this host has, as `nacre up` does later.
    Join(Join),
    /// Hosts of the cluster.
    #[command(arg_required_else_help = true)]
    Host(Host),
    /// Say in words why the cluster is as it is: slow, not clean, full, ...
    ///
    /// Without a question: what is wrong. Questions: slow, groups, group PGID, space [POOL], full [POOL], image POOL/IMAGE, osd N, recovery, scrub, clock, monitors, crash,
    /// health CODE. Each answer has what it follows from, with the command that shows it, and what helps. Exit code 3: no majority of
    /// the monitors answers; what this host sees of them is said.
    Explain(Explain),
    /// Show who loads the cluster, as `top` does: images, pools, OSDs, recovery.
    ///
    /// Keys: i, p, o choose what is listed, w and r sort by writes and reads, q ends it.
    Top(Top),
    /// Let people look at the page of the cluster from elsewhere: a link, a password.
    #[command(arg_required_else_help = true)]
    Page(Page),
    /// Write what a person needs who helps from afar into one file: state, figures, logs, crashes. No keys are in it.
    ///
    /// Names of pools, images, hosts and clients, and addresses, are in it: look at it before you give it to somebody. It is a tar file of at
    /// most 50 MB. Without a majority of the monitors it has what this host knows.
    Support(Support),
    /// Add, replace or remove a disk of this host while all its other OSDs go on.
    #[command(arg_required_else_help = true)]
    Disk(Disks),
    /// Let this host leave the cluster: its data moves to the others, then its daemons are stopped and removed.
    ///
    /// The host runs meanwhile (`nacre up`). What is left, and how long that may take, is said. It refuses what would leave too few
    /// copies, too little space or no majority of the monitors. Interrupted, it goes on when it is run again.
    Leave(Leave),
    /// Remove a host from the cluster that is gone for ever; or drop an OSD that was purged, with its data, from DIR.
    ///
    /// `nacre forget --dir DIR HOST` runs on another host while the cluster runs. It says what data is at risk, and asks for
    /// --yes-i-really-mean-it if copies are missing, and for --data-is-lost if some data is nowhere else.
    ///
    /// `nacre forget --dir DIR N` drops osd.N from DIR, with the cluster stopped. First, while it runs: `ceph osd out N`, wait until its data
    /// has moved away, `ceph osd purge N --yes-i-really-mean-it`.
    Forget(Forget),
    /// Put a new disk under the number of an OSD that was destroyed.
    ///
    /// The cluster runs, and the OSD was given up before: `ceph osd stop N`, `ceph osd destroy N
    /// --yes-i-really-mean-it`. Without --disk the new disk is where the old one was. The OSD is made at its next
    /// start, and filled by the others. The old disk is not touched.
    Replace(Replace),
    /// Check the stores of a cluster that is stopped, and say what is wrong where.
    ///
    /// Nothing is changed without --repair, and then only what can be proven. Exit code 0: all is well; 2: something is wrong, but
    /// nothing is lost; 3: some data is damaged, reads of it give EIO; 4: a daemon does not start or cannot write; 1: the check
    /// itself failed.
    Fsck(Fsck),
    /// Ask a running daemon through its admin socket, as `ceph daemon` does.
    ///
    /// Example: `nacre admin ./cluster/osd.0.asok perf dump`. `help` as the command lists what there is.
    #[command(visible_alias = "daemon")]
    Admin(Admin),
    /// Start a temporary cluster, run a matrix of `rados bench` against it, print a table, write a page, and clean up.
    Demo(Demo),
    /// The laboratory: run an experiment file, make a report, compare two results.
    #[command(arg_required_else_help = true)]
    Lab(Lab),
    /// Write the man pages or the completions of shells into a folder, for packages.
    #[command(hide = true)]
    Generate(Generate),
}

#[derive(Args, Debug)]
pub(crate) struct Generate {
    /// What to write.
    #[arg(value_enum)]
    pub(crate) what: Papers,
    /// Where to; made if it is not there.
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: PathBuf,
}

/// What is generated from the command line's description.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Papers {
    /// Man pages: `nacre.1`, and one for each command.
    Man,
    /// Completions: `nacre.bash`, `_nacre` for zsh, `nacre.fish`.
    Completions,
}

#[derive(Args, Debug, Clone)]
pub(crate) struct Up {
    /// Where everything lives. Made if it is not there.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// OSDs that live in DIR [default: 3 for a new cluster without --disk, else as many as there are].
    #[arg(long, value_name = "N")]
    pub(crate) osds: Option<u32>,
    /// Most bytes of the file of an OSD, as `64G`; it grows as it fills [default: 64G].
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub(crate) osd_size: Option<u64>,
    /// Ceiling of memory for each OSD, as `1G`. By default it is found: a fair share of what the host and its control groups have, at most
    /// 4 GiB or what `ceph config set osd osd_memory_target` says. Less is taken in any case where there is less.
    #[arg(long, value_name = "BYTES", value_parser = memory)]
    pub(crate) memory: Option<u64>,
    /// An OSD on this directory, file or block device, its journal elsewhere if given. Repeatable.
    #[arg(long, value_name = "PATH[,journal=PATH]", value_parser = disk)]
    pub(crate) disk: Vec<Disk>,
    /// A new OSD's disk that holds something (a file system, partitions, another store) is cleared and used. One that is in use, or of this
    /// cluster, stays refused.
    #[arg(long)]
    pub(crate) wipe: bool,
    /// Where this host is, as `rack=r1,datacenter=d1`: its bucket in the CRUSH map is made below these, and these are made if they are not
    /// there; below `root=default` if no root is named. It is remembered. Given again for a host that has a bucket, it moves it.
    #[arg(long, value_name = "TYPE=NAME,...", value_parser = location)]
    pub(crate) location: Option<Location>,
    /// Port of the monitor [default: what it was, 3300 for a new cluster].
    #[arg(long, value_name = "P")]
    pub(crate) port: Option<u16>,
    /// Port of the metrics for Prometheus, over HTTP at --bind; 0 for none [default: what it was, 9283 at first]. A port that is taken is
    /// told, and the host starts without.
    #[arg(long, value_name = "P")]
    pub(crate) metrics_port: Option<u16>,
    /// Port of the page for other hosts, over TLS at --bind, with a login; 0 for none [default: what it was, 8443 at first; none at a loopback
    /// address]. A port that is taken is told, and the host starts without. See `nacre page`.
    #[arg(long, value_name = "P")]
    pub(crate) page_port: Option<u16>,
    /// Monitors in this process: 1, 3 or 5 [default: as many as there are]. Further ones get the ports after the first one's. Of several
    /// in one process only their stores are safer; `nacre join` puts them on several hosts.
    #[arg(long, value_name = "N", hide_short_help = true)]
    pub(crate) mons: Option<u32>,
    /// Address to listen on [default: what it was, 127.0.0.1 for a new cluster].
    #[arg(long, value_name = "ADDR")]
    pub(crate) bind: Option<IpAddr>,
    /// Address at which OSDs listen for other OSDs: copies, recovery and heartbeats go through its network, clients and monitors through that
    /// of --bind. All hosts need one, or none. It is remembered; that of --bind ends it.
    #[arg(long, value_name = "ADDR")]
    pub(crate) cluster_bind: Option<IpAddr>,
    /// How clients and daemons prove who they are [default: what it was at the last start, cephx at first].
    #[arg(long, value_enum)]
    pub(crate) auth: Option<Auth>,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Args, Debug, Clone)]
pub(crate) struct Common {
    /// Least important lines to log. Changes later with `ceph tell osd.N config set debug_osd 20` and the like.
    #[arg(long, value_enum, default_value_t = Log::Info)]
    pub(crate) log: Log,
    /// One file for all lines of this process, or `stderr`. By default they go to the journal when systemd runs this process, else to
    /// DIR/log. SIGHUP opens the file anew. `log_file` in DIR/nacre.toml says the same for good.
    #[arg(long, value_name = "FILE")]
    pub(crate) log_file: Option<PathBuf>,
    /// How network and disks are driven.
    #[arg(long, value_enum, default_value_t = Driver::Auto)]
    pub(crate) driver: Driver,
    /// Microseconds to look for more work before sleeping; 0 to sleep at once. If it is not given, the next request of a client that does one
    /// thing at a time is looked for (up to 150), and the end of its write (up to 200): less latency for more processor time.
    #[arg(long, value_name = "MICROSECONDS", hide_short_help = true)]
    pub(crate) spin: Option<u64>,
    /// Threads that the OSDs of this process share [default: one for each OSD, at most one less than there are processors, at least one].
    /// One processor is left to clients, the monitor and the system.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..), hide_short_help = true)]
    pub(crate) osd_threads: Option<u16>,
}

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Mon {
    #[command(subcommand)]
    pub(crate) command: Option<MonCommand>,
    #[command(flatten)]
    pub(crate) up: MaybeUp,
    /// Which monitor, if the cluster has several in DIR.
    #[arg(long, value_name = "NAME", default_value = "a")]
    pub(crate) name: String,
}

/// The arguments of [`Up`], or none beside a command. (clap's own `Option` of flattened arguments does not see those that are nested.)
#[derive(Debug)]
pub(crate) struct MaybeUp(pub(crate) Option<Up>);

impl FromArgMatches for MaybeUp {
    fn from_arg_matches(found: &ArgMatches) -> Result<Self, clap::Error> {
        if found.contains_id("dir") { Up::from_arg_matches(found).map(|up| Self(Some(up))) } else { Ok(Self(None)) }
    }

    fn update_from_arg_matches(&mut self, found: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(found)?;
        Ok(())
    }
}

impl Args for MaybeUp {
    fn augment_args(command: clap::Command) -> clap::Command {
        Up::augment_args(command)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Up::augment_args_for_update(command)
    }
}

#[derive(Subcommand, Debug)]
pub(crate) enum MonCommand {
    /// Write a copy of the monitors' state to a file, or to standard output. The monitor may run.
    Backup {
        /// Where the cluster lives.
        #[arg(long, value_name = "DIR")]
        dir: PathBuf,
        /// Which monitor, if there are several in DIR.
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
        /// The file, or `-`. It is a secret: it holds all keys of the cluster.
        #[arg(value_name = "FILE|-")]
        file: PathBuf,
    },
    /// Make a monitor from a backup, when all monitors are lost.
    ///
    /// What was changed since the backup is lost, but for the OSD map, if OSDs of this host, or files of `nacre mon collect`, have a newer
    /// one. The new monitor is the only one; others join it again.
    Restore {
        /// The backup, or `-`.
        #[arg(value_name = "FILE|-")]
        file: PathBuf,
        #[command(flatten)]
        how: Remaking,
    },
    /// Let a monitor of this host go on alone, when the majority is lost for good.
    ///
    /// It refuses while another monitor answers. Those that are lost must never start again: remove their stores.
    Rescue(Remaking),
    /// Make a monitor of what OSDs know, when all monitors are lost and there is no backup.
    ///
    /// Pools, places and placement come back; keys come back of the administrator and of OSDs of this host and of files of `nacre mon
    /// collect`. Settings, other users and stored values (`ceph config`, `ceph auth`, `ceph config-key`) are lost.
    Rebuild(Remaking),
    /// Write down what the OSDs of this host know, for `restore` and `rebuild` on another host. This host's processes are stopped.
    Collect {
        /// Where the cluster lives.
        #[arg(long, value_name = "DIR")]
        dir: PathBuf,
        /// The file, or `-`. It is a secret: it holds keys.
        #[arg(value_name = "FILE|-")]
        file: PathBuf,
    },
}

/// How a monitor is made that is the only one.
#[derive(Args, Debug)]
pub(crate) struct Remaking {
    /// Where the cluster lives. Its processes are stopped.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// Which monitor [default: the one of DIR that knows most].
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// A file of `nacre mon collect` of another host. Repeatable.
    #[arg(long, value_name = "FILE")]
    pub(crate) known: Vec<PathBuf>,
    /// An epoch of OSD maps that the cluster reached. It is needed only if the cluster made more than a million maps since the newest
    /// one that is found.
    #[arg(long, value_name = "EPOCH")]
    pub(crate) above: Option<u32>,
    /// Address to listen on [default: what it was].
    #[arg(long, value_name = "ADDR")]
    pub(crate) bind: Option<IpAddr>,
    /// Port of the monitor [default: what it was].
    #[arg(long, value_name = "P")]
    pub(crate) port: Option<u16>,
    /// It is known what that costs.
    #[arg(long)]
    pub(crate) yes_i_really_mean_it: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Osd {
    /// Where the cluster lives.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// Which OSD.
    #[arg(long, value_name = "N")]
    pub(crate) id: u32,
    /// Ceiling of memory, as `1G` [default: found; see `nacre up --help`].
    #[arg(long, value_name = "BYTES", value_parser = memory)]
    pub(crate) memory: Option<u64>,
    /// Address to listen on [default: the cluster's here].
    #[arg(long, value_name = "ADDR")]
    pub(crate) bind: Option<IpAddr>,
    /// Address to listen on for other OSDs [default: the cluster's here].
    #[arg(long, value_name = "ADDR")]
    pub(crate) cluster_bind: Option<IpAddr>,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Args, Debug)]
pub(crate) struct Token {
    /// Where the cluster lives.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// How long it is good, as `30m`, `2h` or seconds; at most a week.
    #[arg(long = "for", value_name = "TIME", default_value = "1h", value_parser = span)]
    pub(crate) lasts: u64,
}

#[derive(Args, Debug)]
pub(crate) struct Join {
    /// What `nacre token` printed; `-` reads it from standard input, `@FILE` from a file, so that it is in no list of processes.
    #[arg(value_name = "TOKEN", allow_hyphen_values = true)]
    pub(crate) token: String,
    /// Where everything of this host lives. Made if it is not there.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// Address of this host in the cluster's network.
    #[arg(long, value_name = "ADDR")]
    pub(crate) bind: IpAddr,
    /// Address at which OSDs listen for other OSDs: copies, recovery and heartbeats go through its network, clients and monitors through that
    /// of --bind. All hosts need one, or none. It is remembered; that of --bind ends it.
    #[arg(long, value_name = "ADDR")]
    pub(crate) cluster_bind: Option<IpAddr>,
    /// OSDs that live in DIR [default: 3 without --disk].
    #[arg(long, value_name = "N")]
    pub(crate) osds: Option<u32>,
    /// Most bytes of the file of an OSD, as `64G`; it grows as it fills [default: 64G].
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub(crate) osd_size: Option<u64>,
    /// An OSD on this directory, file or block device, its journal elsewhere if given. Repeatable.
    #[arg(long, value_name = "PATH[,journal=PATH]", value_parser = disk)]
    pub(crate) disk: Vec<Disk>,
    /// A new OSD's disk that holds something (a file system, partitions, another store) is cleared and used. One that is in use, or of this
    /// cluster, stays refused.
    #[arg(long)]
    pub(crate) wipe: bool,
    /// Where this host is, as `rack=r1,datacenter=d1`: its bucket in the CRUSH map is made below these, and these are made if they are not
    /// there; below `root=default` if no root is named. It is remembered.
    #[arg(long, value_name = "TYPE=NAME,...", value_parser = location)]
    pub(crate) location: Option<Location>,
    /// Whether this host gets a monitor; `auto`: while the cluster has fewer than three (five
    /// from seven hosts on). A second one only learns until a third is there.
    #[arg(long, value_enum, default_value_t = YesNo::Auto)]
    pub(crate) monitor: YesNo,
    /// Port of the monitor [default: 3300].
    #[arg(long, value_name = "P")]
    pub(crate) port: Option<u16>,
    /// Port of the metrics for Prometheus, over HTTP at --bind; 0 for none [default: 9283]. A port that is taken is
    /// told, and the host starts without.
    #[arg(long, value_name = "P")]
    pub(crate) metrics_port: Option<u16>,
    /// Port of the page for other hosts, over TLS at --bind, with a login; 0 for none [default: 8443]. A port that is taken is told, and
    /// the host starts without.
    #[arg(long, value_name = "P")]
    pub(crate) page_port: Option<u16>,
    /// Ceiling of memory for each OSD, as `1G` [default: found; see `nacre up --help`].
    #[arg(long, value_name = "BYTES", value_parser = memory)]
    pub(crate) memory: Option<u64>,
    /// The cluster knows a host of this name: it is this one.
    #[arg(long)]
    pub(crate) again: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}

impl Default for Common {
    fn default() -> Self {
        Self { log: Log::Info, log_file: None, driver: Driver::Auto, spin: None, osd_threads: None }
    }
}

/// Yes, no, or as it fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum YesNo {
    /// As it fits.
    Auto,
    /// Yes.
    Yes,
    /// No.
    No,
}

#[derive(Args, Debug)]
pub(crate) struct Forget {
    /// Where the cluster lives.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// Which host, or which OSD.
    #[arg(value_name = "HOST|N")]
    pub(crate) what: String,
    /// It is known what that costs: an OSD's data is deleted with it, a host never comes back.
    #[arg(long)]
    pub(crate) yes_i_really_mean_it: bool,
    /// Data that only this host has is given up.
    #[arg(long)]
    pub(crate) data_is_lost: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Replace {
    /// Where the cluster lives.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// Which OSD.
    #[arg(value_name = "N")]
    pub(crate) id: u32,
    /// The new disk, with its journal elsewhere if given [default: where the old one was].
    #[arg(long, value_name = "PATH[,journal=PATH]", value_parser = disk)]
    pub(crate) disk: Option<Disk>,
    /// A new disk that holds something is cleared and used. One that is in use, or of this cluster, stays refused.
    #[arg(long)]
    pub(crate) wipe: bool,
    /// The file of an OSD that lives in DIR may be deleted.
    #[arg(long)]
    pub(crate) yes_i_really_mean_it: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Disks {
    #[command(subcommand)]
    pub(crate) command: DiskCommand,
}

#[derive(Subcommand, Debug)]
pub(crate) enum DiskCommand {
    /// List the OSDs of this host, the disk of each, and what was begun and interrupted.
    Ls(DiskLs),
    /// Make an OSD on a disk, and start it.
    ///
    /// A name that is not there is refused: nothing is made of a mistyped one. Interrupted, it goes on when it is run again.
    Add(DiskAdd),
    /// Put a new disk under the number of an OSD, and start it. The old disk is not touched.
    ///
    /// The OSD is taken out, and its data moves to others, before the old disk goes: so no copy is missing meanwhile. A disk that is dead is not
    /// waited for, once all it had is elsewhere. --force does not wait: groups have a copy less until the new disk is filled. Interrupted, it goes
    /// on when it is run again.
    Replace(DiskReplace),
    /// Remove an OSD for good. Its disk is not touched; a file in DIR is deleted.
    ///
    /// It is taken out, and its data moves to others; what is left, and how long that may take, is said. It refuses what would leave too few
    /// copies or too little space. Interrupted, it goes on when it is run again.
    Rm(DiskRm),
}

#[derive(Args, Debug)]
pub(crate) struct DiskLs {
    /// Where everything of this host lives.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: PathBuf,
}

#[derive(Args, Debug)]
pub(crate) struct DiskAdd {
    /// Where everything of this host lives. Its process (`nacre up`) runs.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// The disk: a device, a file or a directory that is there; its journal elsewhere if given.
    #[arg(value_name = "PATH[,journal=PATH]", value_parser = disk)]
    pub(crate) disk: Disk,
    /// A disk that holds something is cleared and used. One that is in use, or of this cluster, stays refused.
    #[arg(long)]
    pub(crate) wipe: bool,
}

#[derive(Args, Debug)]
pub(crate) struct DiskReplace {
    /// Where everything of this host lives. Its process (`nacre up`) runs.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// Which OSD.
    #[arg(value_name = "N", value_parser = osd_number)]
    pub(crate) id: u32,
    /// The new disk, with its journal elsewhere if given [default: where the old one was].
    #[arg(value_name = "PATH[,journal=PATH]", value_parser = disk)]
    pub(crate) disk: Option<Disk>,
    /// A disk that holds something is cleared and used. One that is in use, or of this cluster, stays refused.
    #[arg(long)]
    pub(crate) wipe: bool,
    /// Do not wait until all its data is elsewhere: its groups have a copy less until the new disk is filled.
    #[arg(long)]
    pub(crate) force: bool,
    /// With --force: data that only this OSD has is given up.
    #[arg(long)]
    pub(crate) data_is_lost: bool,
}

#[derive(Args, Debug)]
pub(crate) struct DiskRm {
    /// Where everything of this host lives.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// Which OSD.
    #[arg(value_name = "N", value_parser = osd_number)]
    pub(crate) id: u32,
    /// Do not wait until all its data is elsewhere: its groups have a copy less until others are filled.
    #[arg(long)]
    pub(crate) force: bool,
    /// With --force: data that only this OSD has is given up.
    #[arg(long)]
    pub(crate) data_is_lost: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Host {
    #[command(subcommand)]
    pub(crate) command: HostCommand,
}

#[derive(Subcommand, Debug)]
pub(crate) enum HostCommand {
    /// List the hosts, with their addresses, monitors and OSDs.
    Ls(HostLs),
}

#[derive(Args, Debug)]
pub(crate) struct HostLs {
    /// Where the cluster lives.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Page {
    #[command(subcommand)]
    pub(crate) command: PageCommand,
}

#[derive(Subcommand, Debug)]
pub(crate) enum PageCommand {
    /// Print a link to this host's page. It is good once, for ten minutes; who comes in by it stays in for twelve hours.
    Link {
        /// Where the cluster lives.
        #[arg(long, value_name = "DIR")]
        dir: PathBuf,
    },
    /// Make a password for the pages of all hosts, and print it. What was the password before is none any more.
    Password(PagePassword),
    /// Print the certificate that signs those of the hosts' pages, for browsers and programs that shall trust them.
    Authority {
        /// Where the cluster lives.
        #[arg(long, value_name = "DIR")]
        dir: PathBuf,
    },
}

#[derive(Args, Debug)]
pub(crate) struct Support {
    /// Where the cluster lives.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// The file that is written, as `support.tar`. It must not be there.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Hide names of pools, images, hosts and clients, and addresses: each is written as the same word in all archives of the cluster. It needs
    /// a majority of the monitors, who tell which names there are.
    #[arg(long)]
    pub(crate) anonymous: bool,
}

#[derive(Args, Debug)]
pub(crate) struct PagePassword {
    /// Where the cluster lives.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// Take the password from the first line of standard input: 12 characters or more.
    #[arg(long, conflicts_with = "remove")]
    pub(crate) stdin: bool,
    /// Have no password any more; links are left.
    #[arg(long)]
    pub(crate) remove: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Explain {
    /// The question.
    #[arg(value_name = "QUESTION")]
    pub(crate) about: Option<String>,
    /// Which OSD, group, pool or code, for questions that need one.
    #[arg(value_name = "WHICH")]
    pub(crate) which: Option<String>,
    /// Where the cluster lives.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// What `nacre top` lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Listed {
    /// Block images that are in use.
    #[default]
    Images,
    /// Pools.
    Pools,
    /// OSDs.
    Osds,
}

#[derive(Args, Debug)]
pub(crate) struct Top {
    /// Where the cluster lives.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// What is listed at first.
    #[arg(value_enum, default_value_t)]
    pub(crate) listed: Listed,
    /// Print one screen and end. So does output that is no terminal.
    #[arg(long)]
    pub(crate) once: bool,
    /// Print the figures as JSON and end.
    #[arg(long)]
    pub(crate) json: bool,
    /// Seconds between two screens.
    #[arg(long, value_name = "S", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) every: u64,
}

#[derive(Args, Debug)]
pub(crate) struct Leave {
    /// Where the cluster lives.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// Only say whether the host can leave, and what would move.
    #[arg(long)]
    pub(crate) check: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Fsck {
    /// Where the cluster lives.
    #[arg(value_name = "DIR", required_unless_present = "named")]
    dir: Option<PathBuf>,
    /// The same, as other commands take it.
    #[arg(long = "dir", value_name = "DIR", conflicts_with = "dir")]
    named: Option<PathBuf>,
    /// Repair what can be proven.
    #[arg(long)]
    pub(crate) repair: bool,
    /// Read and verify all data, too.
    #[arg(long)]
    pub(crate) deep: bool,
}

impl Fsck {
    /// Returns where the cluster lives.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.as_deref().or(self.named.as_deref()).unwrap_or(Path::new("."))
    }
}

#[derive(Args, Debug)]
pub(crate) struct Admin {
    /// The socket, or a daemon's name (`osd.0`) in the folder of the ceph.conf that CEPH_CONF names.
    #[arg(value_name = "SOCKET|NAME")]
    pub(crate) socket: String,
    /// The command, in words or as JSON.
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) command: Vec<String>,
}

#[derive(Args, Debug)]
pub(crate) struct Demo {
    /// Seconds for each of the 27 measurements.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=600))]
    pub(crate) seconds: u32,
    /// OSDs of the cluster.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) osds: u32,
    /// Folder in which the temporary cluster is made; it needs some 20 GB of room.
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) dir: PathBuf,
    /// Authentication of the cluster.
    #[arg(long, value_enum, default_value_t = Auth::Cephx)]
    pub(crate) auth: Auth,
    /// Only measurements whose name holds this, as `4K` or `rand`.
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) only: String,
    /// Print the table as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Lab {
    #[command(subcommand)]
    pub(crate) command: LabCommand,
}

#[derive(Subcommand, Debug)]
pub(crate) enum LabCommand {
    /// Run an experiment. The same command goes on where it was interrupted.
    Run {
        /// The experiment file, as lab/articles/controllers.toml.
        file: PathBuf,
        /// Folder for the results; made if it is not there.
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
        /// With the values of the tables `quick`: minutes on a small machine.
        #[arg(long)]
        quick: bool,
        /// Disks that hold something may be wiped.
        #[arg(long)]
        wipe: bool,
        /// Measure again what failed before.
        #[arg(long)]
        again: bool,
    },
    /// Print the permutations and the expected time of an experiment.
    DryRun {
        /// The experiment file.
        file: PathBuf,
        /// With the values of the tables `quick`.
        #[arg(long)]
        quick: bool,
    },
    /// Make a page of results, and beside it the same as Markdown, CSV and JSON.
    Report {
        /// Folder with results.
        results: PathBuf,
        /// The page.
        #[arg(long, value_name = "FILE", default_value = "report.html")]
        out: PathBuf,
    },
    /// Compare two results, each FOLDER or FOLDER:CLUSTER. Exit code 1: B is worse at 95 % confidence.
    Compare {
        /// Side A.
        a: String,
        /// Side B.
        b: String,
        /// Print JSON instead of a table.
        #[arg(long)]
        json: bool,
    },
    /// Make an experiment file of a plan of CBT (YAML).
    Import {
        /// The plan.
        plan: PathBuf,
    },
    /// Print the keys that an experiment file may have.
    Keys,
    /// A model of a slower disk; `lab run` starts it.
    #[command(hide = true)]
    ModelDisk {
        /// The file with the data.
        backing: PathBuf,
        /// Where to mount.
        at: PathBuf,
        /// The model, as JSON.
        model: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Auth {
    /// Everybody is believed.
    None,
    /// Shared keys; the administrator's is in DIR/keyring.
    Cephx,
}

impl Auth {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Auth::None => "none",
            Auth::Cephx => "cephx",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Log {
    Error,
    Warn,
    Info,
    Debug,
}

impl From<Log> for node::Level {
    fn from(log: Log) -> Self {
        match log {
            Log::Error => node::Level::Error,
            Log::Warn => node::Level::Warn,
            Log::Info => node::Level::Info,
            Log::Debug => node::Level::Debug,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Driver {
    /// io_uring where it works, else epoll.
    Auto,
    /// io_uring for network and disks.
    Uring,
    /// epoll for the network, threads for the disks.
    Epoll,
}

impl From<Driver> for runtime::Choice {
    fn from(driver: Driver) -> Self {
        match driver {
            Driver::Auto => runtime::Choice::Auto,
            Driver::Uring => runtime::Choice::Uring,
            Driver::Epoll => runtime::Choice::Epoll,
        }
    }
}

/// A disk as it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Disk {
    pub(crate) path: PathBuf,
    pub(crate) journal: Option<PathBuf>,
}

fn disk(text: &str) -> Result<Disk, String> {
    let (path, journal) = match text.split_once(',') {
        None => (text, None),
        Some((path, rest)) => match rest.strip_prefix("journal=") {
            Some(journal) if !journal.is_empty() && !journal.contains(',') => (path, Some(journal)),
            _ => return Err(format!("'{rest}': only journal=PATH may follow the path")),
        },
    };
    if path.is_empty() {
        return Err("the path is missing".into());
    }
    Ok(Disk { path: path.into(), journal: journal.map(PathBuf::from) })
}

/// The number of an OSD: `3` or `osd.3`.
fn osd_number(text: &str) -> Result<u32, String> {
    text.trim_start_matches("osd.").parse().map_err(|_| format!("'{text}' is no number of an OSD"))
}

/// Returns where a host is. Whether there are such types is known by the cluster.
fn location(text: &str) -> Result<Location, String> {
    Location::of_host(text).map_err(|e| e.to_string())
}

/// A number of bytes: `1048576`, `64G`, `256MiB`, `1.5T`; all multiples are of 1024.
fn bytes(text: &str) -> Result<u64, String> {
    let wrong = || format!("'{text}' is not a number of bytes: as 64G, 256MiB or 1048576");
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim().to_ascii_lowercase();
    let unit = unit.strip_suffix("ib").or_else(|| unit.strip_suffix('b')).unwrap_or(&unit);
    let shift = ["", "k", "m", "g", "t", "p"].iter().position(|u| *u == unit).ok_or_else(wrong)? * 10;
    let value = match number.parse::<u64>() {
        Ok(n) => n.checked_mul(1 << shift),
        Err(_) => number.parse::<f64>().ok().map(|f| (f * (1u64 << shift) as f64) as u64),
    };
    value.ok_or_else(wrong)
}

/// A span of time in seconds: `90`, `30m`, `2h`, `7d`; at least a second, at most a week.
fn span(text: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let unit = match &text[digits..] {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => 0,
    };
    let secs = text[..digits].parse::<u64>().ok().and_then(|n| n.checked_mul(unit)).filter(|secs| (1..=604_800).contains(secs));
    secs.ok_or_else(|| format!("'{text}' is no time of at most a week: as 30m, 2h or 7d"))
}

/// A ceiling of memory.
fn memory(text: &str) -> Result<u64, String> {
    let least = node::MemoryWish::LEAST;
    match bytes(text)? {
        few if few < least => Err(format!("an OSD needs {} MiB of memory at least", least >> 20)),
        enough => Ok(enough),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_monitor_is_run_or_something_is_done_with_its_state() {
        let parsed = |line: &str| {
            let cli = Cli::try_parse_from(line.split_whitespace()).map_err(|e| e.to_string())?;
            let Command::Mon(mon) = cli.command else { panic!("{line}") };
            Ok::<_, String>(mon)
        };
        let mon = parsed("nacre mon --dir x --name b --port 3301").unwrap();
        assert!(mon.command.is_none() && mon.name == "b" && mon.up.0.unwrap().port == Some(3301));
        let mon = parsed("nacre mon rescue --dir x --yes-i-really-mean-it").unwrap();
        assert!(matches!(mon.command, Some(MonCommand::Rescue(how)) if how.yes_i_really_mean_it) && mon.up.0.is_none());
        let mon = parsed("nacre mon restore - --dir x --known a --known b").unwrap();
        assert!(matches!(mon.command, Some(MonCommand::Restore { how, .. }) if how.known.len() == 2));
        assert!(parsed("nacre mon").unwrap_err().contains("--dir"));
        assert!(parsed("nacre mon backup x").unwrap_err().contains("--dir"));
        assert!(parsed("nacre mon --port 1 backup x --dir y").is_err());
    }

    #[test]
    fn sizes_and_disks_parse_or_are_refused() {
        for (text, value) in
            [("0", 0), ("1048576", 1 << 20), ("64G", 64 << 30), ("256MiB", 256 << 20), ("1.5k", 1536), ("2tb", 2 << 40)]
        {
            assert_eq!(bytes(text), Ok(value), "{text}");
        }
        for text in ["", "G", "12X", "-1", "1.2.3M", "99999999999P", "1e9"] {
            assert!(bytes(text).is_err(), "{text}");
        }
        assert_eq!(disk("/dev/sdb"), Ok(Disk { path: "/dev/sdb".into(), journal: None }));
        assert_eq!(disk("a,journal=b"), Ok(Disk { path: "a".into(), journal: Some("b".into()) }));
        for (text, value) in [("90", 90), ("30m", 1800), ("2h", 7200), ("7d", 604_800)] {
            assert_eq!(span(text), Ok(value), "{text}");
        }
        for text in ["", "0", "8d", "1w", "h", "-1h", "99999999999999999999h"] {
            assert!(span(text).is_err(), "{text}");
        }
        for text in ["", ",journal=b", "a,b", "a,journal=", "a,journal=b,c"] {
            assert!(disk(text).is_err(), "{text}");
        }
    }
}
