#!/usr/bin/python3
"""What people get wrong, with real daemons and stock clients: keys, folders, disks, ports, options, commands.

Each row does one such thing and looks at four:

 a) it ends, with an exit code that is not 0;
 b) it says what is wrong, and names the thing;
 c) nothing has changed: all files of all clusters here and the disks that were given, by their content; while the cluster runs, its
    maps, keys and settings, and the files that it does not write itself (only logs, locks and sockets do not count);
 d) the cluster serves afterwards: what was written is read, and more is written.

What does not hold is told for each row, and the other rows go on: the cluster is put back as it was.

usage: refusals.py --nacre PATH [--dir DIR] [--only WORD] [--verbose]
"""
import argparse
import base64
import contextlib
import hashlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

from formats import MON_COPIES, OSD_SLOTS, make_newer  # noqa: E402
sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", room) for room in ("lib",)]
from live import Cluster, free_port, until  # noqa: E402

# A refusal takes a moment. Who takes longer waits for something, or serves.
LONGEST = 12
SIZE = "64M"
WRITTEN = ("mon/store", "/block")
NOT_COUNTED = re.compile(r"(^|/)(log|lock|[^/]*\.asok)(/|$)")


def hash_of(path):
    """Of what is not zero in a file or device; holes are not read."""
    digest = hashlib.sha256()
    with open(path, "rb") as f:
        end = f.seek(0, os.SEEK_END)
        device = not os.path.isfile(path)
        at = 0
        while at < end:
            if not device:
                try:
                    at = f.seek(at, os.SEEK_DATA)
                except OSError:
                    break  # Nothing but a hole is left.
            f.seek(at)
            piece = f.read(min(1 << 20, end - at))
            if piece.strip(b"\0"):
                digest.update(b"%d" % at + hashlib.sha256(piece).digest())
            at += len(piece)
    return end, digest.hexdigest()


def tree(folder):
    """Everything below a folder: of files their mode, length and hash."""
    found = {}
    for at, folders, files in os.walk(folder):
        for name in folders + files:
            path = os.path.join(at, name)
            if NOT_COUNTED.search(os.path.relpath(path, folder)):
                continue
            state = oct(os.lstat(path).st_mode)
            found[path] = (state, *hash_of(path)) if name in files and os.path.isfile(path) else state
    return found


def difference(before, after):
    """What changed, in a few words."""
    words = [f"{path} is new" for path in sorted(after.keys() - before.keys())]
    words += [f"{path} is gone" for path in sorted(before.keys() - after.keys())]
    words += [f"{path} has changed" for path in sorted(before.keys() & after.keys()) if before[path] != after[path]]
    return words


def copy(source, target):
    """A copy of a file or a folder, with its holes."""
    subprocess.run(["cp", "--archive", "--sparse=always", source, target], check=True)


class Loop:
    """A block device on a file of this size; `make` puts something into the file."""

    def __init__(self, path, size, *more, make=None):
        with open(path, "ab") as f:
            f.truncate(size)
        if make:
            make(path)
        made = subprocess.run(["losetup", "--find", "--show", *more, path], capture_output=True, text=True)
        if made.returncode != 0:
            raise SystemExit(f"no block device can be made here, it needs root: {made.stderr.strip()}")
        self.device = made.stdout.strip()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run(["losetup", "--detach", self.device], check=True)


class Bench:
    """Two clusters; `ours` is what people get wrong, `theirs` is somebody else's."""

    def __init__(self, args, top):
        self.nacre, self.top, self.verbose = args.nacre, top, args.verbose
        self.faults, self.rows = [], 0
        self.row, self.changing = None, False
        self.ours = Cluster(args.nacre, os.path.join(top, "ours"), auth="cephx")
        self.theirs = Cluster(args.nacre, os.path.join(top, "theirs"), auth="cephx")
        for cluster, osds in ((self.ours, 2), (self.theirs, 1)):
            cluster.more = ["--osds", str(osds), "--osd-size", SIZE]
            cluster.start()
            cluster.more = []
            cluster.run("ceph", "osd", "pool", "create", "p", 8)
            # The map says so until all groups have served; it changes once more then.
            until("the pool is made", lambda: "creating" not in cluster.run("ceph", "osd", "dump").stdout)
            cluster.run("ceph", "config", "set", "mon", "mon_allow_pool_delete", "false")
            cluster.run("rados", "-p", "p", "put", "known", "-", input=cluster.dir)
            cluster.stop()
        self.kept = os.path.join(os.path.dirname(top), "kept")
        copy(self.ours.dir, self.kept)

    def path(self, *names):
        return os.path.join(self.top, *names)

    def file(self, name, content):
        """A file beside the clusters."""
        with open(self.path(name), "wb") as f:
            f.write(content)
        return self.path(name)

    def fault(self, what):
        self.faults.append(f"{self.row}: {what}")
        print(f"  FAULT: {what}", flush=True)

    def command(self, argv, codes, says, env=None):
        """Runs what must be refused; (a) and (b). Gives what it said."""
        shown = " ".join(map(str, argv)).replace(self.top + "/", "")
        try:
            done = subprocess.run([str(a) for a in argv], capture_output=True, text=True, timeout=LONGEST, env=env, stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired as e:
            self.fault(f"`{shown}` goes on after {LONGEST} s; it said: {(e.stdout or b'') + (e.stderr or b'')}")
            return ""
        text = done.stdout + done.stderr
        if self.verbose:
            print(f"  {shown}\n    {done.returncode}: {text.strip()}", flush=True)
        if done.returncode not in codes:
            self.fault(f"`{shown}` ends with {done.returncode}, not one of {codes}: {text.strip()[-500:]}")
        if "panicked" in text or "Traceback" in text:
            self.fault(f"`{shown}` broke down: {text}")
        for pattern in says:
            if not re.search(pattern, text):
                self.fault(f"`{shown}` does not say '{pattern}': {text.strip()[-500:]}")
        return text

    def state(self, devices=(), but=()):
        """All files here and some devices, without those whose names end in one of `but`."""
        files = {path: state for path, state in tree(self.top).items() if not path.endswith(tuple(but))}
        return {**files, **{d: hash_of(d) for d in devices}}

    def refuses(self, *argv, says, codes=(1,), devices=(), but=(), again=True):
        """One command that must be refused, with everything below the folder of this test and some devices as they were. Where it was
        not, it is looked whether the cluster starts `again`, and everything is put back."""
        before, faults = self.state(devices, but), len(self.faults)
        self.command(argv, codes, says)
        changes = difference(before, self.state(devices, but))
        if changes:
            shown = " ".join(map(str, argv[1:])).replace(self.top + "/", "")
            self.fault(f"`{shown}` changes things: {', '.join(changes).replace(self.top + '/', '')}")
        for path in (p for p in (self.path("new"), self.path("fresh")) if os.path.exists(p)):
            shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)
        if len(self.faults) > faults and again and not self.changing:
            self.starts()
            self.put_back()

    @contextlib.contextmanager
    def changed(self, part, by=None):
        """Something in our folder is replaced for a moment: by another file or folder, by what a function makes of it, or by nothing."""
        path, faults, self.changing = os.path.join(self.ours.dir, part), len(self.faults), True
        aside = os.path.join(os.path.dirname(self.kept), "aside")
        os.rename(path, aside)
        if callable(by):
            copy(aside, path)
            by(path)
        elif by is not None:
            copy(by, path)
        try:
            yield path
        finally:
            self.changing = False
            if os.path.lexists(path):
                shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)
            os.rename(aside, path)
            if len(self.faults) > faults:
                self.put_back()

    def up(self, *more, dir=None, **checks):
        """`nacre up` on our folder must be refused."""
        self.refuses(self.nacre, "up", "--dir", dir or self.ours.dir, "--port", free_port(), *more, **checks)

    def osd(self, *more, **checks):
        """`nacre osd` must be refused."""
        self.refuses(self.nacre, "osd", "--dir", self.ours.dir, "--id", "0", *more, **checks)

    def starts(self):
        """(d), with the cluster stopped."""
        try:
            self.ours.start()
            self.serves()
            self.ours.stop()
        except (AssertionError, subprocess.SubprocessError) as e:
            self.ours.kill()
            self.fault(f"the cluster does not serve afterwards: {str(e).strip().replace(self.top + '/', '')}")

    def serves(self):
        """(d), with the cluster running."""
        self.ours.alive()
        out = self.ours.run("rados", "-p", "p", "get", "known", "-", timeout=20).stdout
        assert out == self.ours.dir, "what was written is not what is read"
        self.ours.run("rados", "-p", "p", "put", "new", "-", input=self.row, timeout=20)

    def put_back(self):
        self.ours.kill()
        shutil.rmtree(self.ours.dir)
        copy(self.kept, self.ours.dir)

    def stopped(self, row):
        """A row with the cluster stopped, which is started afterwards."""
        self.begin(row)
        faults = len(self.faults)
        row(self)
        self.starts()
        if len(self.faults) > faults:
            self.put_back()

    def view(self):
        """What a running cluster knows, and what it does not write by itself."""
        files = self.state(but=WRITTEN)
        dumps = [("osd", "dump"), ("auth", "ls"), ("config", "dump"), ("config-key", "dump"), ("mon", "dump")]
        said = {f"`ceph {' '.join(d)}`": self.ours.run("ceph", *d, "-f", "json").stdout for d in dumps}
        # Since when rights that ended do not hold is noted there by the monitors themselves.
        stored = json.loads(said["`ceph config-key dump`"])
        said["`ceph config-key dump`"] = {key: value for key, value in stored.items() if not key.startswith("nacre/revoked/")}
        return {**files, **said}

    def running(self, row):
        """A row with the cluster running."""
        self.begin(row)
        faults = len(self.faults)
        before = self.view()
        row(self)
        try:
            for what in difference(before, self.view()):
                self.fault(what.replace(self.top + "/", ""))
            self.serves()
        except (AssertionError, subprocess.SubprocessError) as e:
            self.fault(f"the cluster does not serve afterwards: {e}")
        if len(self.faults) > faults and (self.ours.process.poll() is not None or difference(before, self.view())):
            self.put_back()
            self.ours.start()

    def client(self, *argv, says, codes=range(1, 256)):
        """A stock client that must be refused."""
        self.command(argv, codes, says, env=dict(os.environ, CEPH_CONF=self.ours.conf))

    def begin(self, row):
        self.row = row.__doc__.strip().rstrip(".")
        self.rows += 1
        print(f"{self.row} [{row.__name__}]", flush=True)


def edit(path, change):
    with open(path) as f:
        text = f.read()
    with open(path, "w") as f:
        f.write(change(text))


STOPPED, RUNNING = [], []


def stopped(row):
    STOPPED.append(row)
    return row


def running(row):
    RUNNING.append(row)
    return row


# The cluster is stopped.


@stopped
def no_such_option(b):
    """Options and commands that do not exist, and values that are none."""
    for words, says in [
        (["--colour", "red"], "--colour"), (["--osds", "some"], "some"), (["--osd-size", "64Q"], "64Q"), (["--memory", "-1"], "-1"),
        (["--auth", "kerberos"], "kerberos"), (["--bind", "localhost:1"], "localhost:1"), (["--driver", "spdk"], "spdk"), (["--log", "loud"], "loud"),
    ]:
        b.up(*words, codes=(2,), says=[re.escape(says)])
    b.refuses(b.nacre, "up", "--dir", b.ours.dir, "--port", "66000", codes=(2,), says=["66000"])
    b.refuses(b.nacre, "serve", "--dir", b.ours.dir, codes=(2,), says=["serve"])
    b.refuses(b.nacre, "osd", "--dir", b.ours.dir, codes=(2,), says=["--id"])
    b.refuses(b.nacre, "fsck", "--force", b.ours.dir, codes=(2,), says=["--force"])


@stopped
def other_sizes(b):
    """Fewer OSDs than there are, smaller ones, an OSD that does not exist."""
    b.up("--osds", "1", says=["2 OSDs, not 1"])
    b.up("--osd-size", "32M", says=["osd.0", "smaller"])
    b.up("--osds", "1001", says=["1001"])
    b.refuses(b.nacre, "osd", "--dir", b.ours.dir, "--id", "7", says=["osd.7"])
    b.refuses(b.nacre, "forget", "--dir", b.ours.dir, "7", says=["osd.7"])
    b.refuses(b.nacre, "forget", "--dir", b.ours.dir, "1", says=["osd.1", "yes-i-really-mean-it"])
    b.refuses(b.nacre, "forget", "--dir", b.theirs.dir, "0", "--yes-i-really-mean-it", says=["osd.0 is the only one"])


@stopped
def other_folders(b):
    """A folder that holds other things, a file for a folder, a folder without a cluster."""
    os.makedirs(b.path("home"))
    b.file("home/letters", b"dear")
    b.file("file", b"a file")
    b.up(dir=b.path("home"), says=["home", "letters"])
    b.up(dir=b.path("file"), says=["file"])
    b.up(dir=b.path("file", "below"), says=["file"])
    for words in (["osd", "--id", "0", "--dir"], ["fsck"], ["forget", "0", "--dir"]):
        b.refuses(b.nacre, *words, b.path("home"), says=["home", "holds no cluster"])
    b.refuses(b.nacre, "admin", os.path.join(b.ours.dir, "osd.0.asok"), "status", says=["osd.0.asok"])


@stopped
def another_osd_folder(b):
    """The folder or the disk of another OSD, of another cluster or of this one, in the place of ours."""
    for source in (os.path.join(b.theirs.dir, "osd.0"), os.path.join(b.kept, "osd.1")):
        for part in ("osd.0", "osd.0/block"):
            with b.changed(part, source + part.removeprefix("osd.0")):
                says = ["osd.0/block belongs to another cluster, or to another OSD"]
                b.up(says=says)
                b.osd(says=[f"{says[0]}|osd.0/keyring has no usable key"])
                b.refuses(b.nacre, "mon", "--dir", b.ours.dir, "--port", free_port(), says=says)
                for more in ([], ["--repair"]):
                    b.refuses(b.nacre, "fsck", *more, b.ours.dir, codes=(1, 4), says=["osd.0", "belongs to"])


@stopped
def another_osd_key(b):
    """The key of another cluster's OSD: only the monitor can tell, so the stores are opened, and no more."""
    with b.changed("osd.0/keyring", os.path.join(b.theirs.dir, "osd.0", "keyring")):
        b.up(says=["osd.0", "refuse the key"], but=WRITTEN)
        with Cluster(b.nacre, b.ours.dir, auth="cephx", role="mon") as monitor:
            monitor.start()
            b.osd(says=["osd.0", "refuse the key"], but=WRITTEN)
            monitor.stop()


@stopped
def another_monitor(b):
    """The monitor's store, or the description, of another cluster."""
    with b.changed("mon/store", os.path.join(b.theirs.dir, "mon", "store")):
        b.up(says=["mon/store", "belongs to cluster"])
        b.refuses(b.nacre, "mon", "--dir", b.ours.dir, "--port", free_port(), says=["mon/store", "belongs to cluster"])
        b.refuses(b.nacre, "fsck", b.ours.dir, codes=(1, 4), says=["mon"])
    with b.changed("nacre.toml", os.path.join(b.theirs.dir, "nacre.toml")):
        b.up(says=["belongs to"])
        b.osd(says=["belongs to another cluster"])


@stopped
def missing_parts(b):
    """Parts of a cluster that has served are gone."""
    for part, says in (("osd.0/block", "its store is gone"), ("osd.0", "its store is gone"), ("mon/store", "the monitor's store is gone"),
                       ("mon", "the monitor's store is gone")):
        with b.changed(part):
            b.up(says=[part, says])
            if part.startswith("osd"):
                b.osd(says=[part, says])
    for part in ("osd.0/block", "mon/store"):
        with b.changed(part, lambda path: os.truncate(path, 0)):
            b.up(says=[part, "empty"])
    with b.changed("ceph.conf"):
        b.osd(says=["ceph.conf"])


@stopped
def missing_keys(b):
    """Keyrings of a cluster that has served are gone: one made anew would hold a key that the monitor does not know."""
    with b.changed("osd.0/keyring"):
        b.up(says=["osd.0/keyring", re.escape("osd.0")])
        b.osd(says=["osd.0/keyring"])


@stopped
def lost_admin(b):
    """The administrator's keyring is gone: all others are served, none is made up, and what is said gives it back."""
    with b.changed("keyring") as path:
        b.ours.start()
        said = b.ours.said()
        if not re.search(r"warning: \S*/keyring is gone.*client\.admin", said) or os.path.exists(path):
            b.fault(f"a start without the administrator's keyring says {said!r}; is there one? {os.path.exists(path)}")
        else:
            b.ours.run("sh", "-c", said[said.index("(umask") :].splitlines()[0])
            b.ours.run("ceph", "-s")
            mode = os.stat(path).st_mode & 0o777
            if mode != 0o600:
                b.fault(f"the administrator's keyring that came back has mode {mode:o}")
        b.ours.stop()


@stopped
def broken_texts(b):
    """Keyrings and descriptions that are not what they should be."""
    for part in ("keyring", "osd.0/keyring", "mon/keyring", "mon/mgr.keyring"):
        with b.changed(part, lambda path: edit(path, lambda t: t.replace("AQ", "#Q"))):
            b.up(says=[part, "no usable key"])
    # It ends within a value: at the end of a line it would be a description of less.
    with b.changed("nacre.toml", lambda path: edit(path, lambda t: t[: t.rindex('"') - 3])):
        b.up(says=["nacre.toml"])
        b.osd(says=["nacre.toml"])
    with b.changed("nacre.toml", lambda path: edit(path, lambda t: t.replace("version = 1", "version = 3"))):
        b.up(says=["nacre.toml", "newer"])
        b.refuses(b.nacre, "fsck", b.ours.dir, says=["nacre.toml", "newer"])
    with b.changed("ceph.conf", lambda path: edit(path, lambda t: t.replace("v2:", "v1:"))):
        b.osd(says=["ceph.conf", "mon host"])


@stopped
def newer_stores(b):
    """Stores that a newer program wrote: in all superblocks, or in the last one only."""
    for part, places, who in (("osd.0/block", OSD_SLOTS, "osd.0"), ("mon/store", MON_COPIES, "monitor")):
        for newer in (places, places[:1], places[-1:]):
            path = os.path.join(b.ours.dir, part)
            before = tree(b.ours.dir)[path]
            with b.changed(part, lambda target: make_newer(target, newer)):
                if tree(b.ours.dir)[path] == before:
                    continue  # There is nothing in this slot.
                says = [who, r"format version \d+", r"versions up to \d+"]
                b.up(says=says)
                b.refuses(b.nacre, "fsck", b.ours.dir, codes=(4,), says=[r"versions up to \d+"])
                b.refuses(b.nacre, "fsck", "--repair", b.ours.dir, codes=(4,), says=[r"versions up to \d+"])
                if who == "osd.0":
                    b.osd(says=says)


@stopped
def ports_in_use(b):
    """A port that somebody else has, an address that is not ours."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", free_port()))
        taken.listen()
        port = taken.getsockname()[1]
        b.refuses(b.nacre, "up", "--dir", b.ours.dir, "--port", port, says=[rf"port {port} of 127.0.0.1 is in use"])
        b.refuses(b.nacre, "up", "--dir", b.path("new"), "--port", port, says=[rf"port {port} of 127.0.0.1 is in use"])
        b.refuses(b.nacre, "mon", "--dir", b.ours.dir, "--port", port, says=[rf"port {port} of 127.0.0.1 is in use"])
    b.up("--bind", "192.0.2.1", says=["192.0.2.1"])
    b.osd("--bind", "192.0.2.1", says=["192.0.2.1"])


@stopped
def foreign_files(b):
    """Files that hold something else, given as disks of a cluster that is, of a new one, and as journals."""
    letter = b.file("letter", b"Dear reader, " * 1000)
    table = b.file("table", bytes(8 << 20)[:-512] + b"EFI PART".ljust(512, b"\0"))
    for given in (letter, table):
        for dir in (b.ours.dir, b.path("new")):
            b.up("--disk", given, dir=dir, says=[re.escape(given), "holds data", "clear it first"])
            b.up("--disk", f"{b.path('fresh')},journal={given}", dir=dir, says=[re.escape(given), "holds data", "journal"])
    b.up("--disk", "/dev/null", says=["/dev/null", "neither a file nor a block device"])
    b.up("--disk", "/dev/no-such-disk", says=["/dev/no-such-disk", "does not exist"])
    b.up("--disk", b.path("no", "where"), says=["no/where", "does not exist"])
    b.up("--disk", b.path("fresh"), "--disk", b.path("fresh"), says=["fresh", "twice"])
    b.up("--disk", f"{b.path('fresh')},journal={b.path('fresh')}", says=["fresh", "twice"])


@stopped
def stores_as_disks(b):
    """The disk of another cluster's OSD, and our own OSD's, given as a disk or a journal."""
    theirs, ours = os.path.join(b.theirs.dir, "osd.0", "block"), os.path.join(b.ours.dir, "osd.0", "block")
    for given in (theirs, ours, os.path.dirname(ours)):
        b.up("--disk", given, says=["osd.2", re.escape(given)])
        b.up("--disk", f"{b.path('fresh')},journal={theirs}", says=["osd.2", re.escape(theirs), "journal"])
        b.up("--disk", given, dir=b.path("new"), says=["osd.0", re.escape(given), "belongs to another"])
    b.up("--wipe", "--disk", ours, dir=b.ours.dir, says=["osd.2", "own folder"])
    b.up("--disk", os.path.join(b.ours.dir, "mon", "store"), says=["mon/store", "holds data"])
    moved = b.path("moved")
    shutil.copy(ours, moved)
    b.up("--wipe", "--disk", moved, says=["moved", "an OSD of this cluster"])


@stopped
def places_that_are_none(b):
    """Places of a host in the CRUSH map that cannot be."""
    for place, says in (("r1", "TYPE=NAME"), ("rack=", "TYPE=NAME"), ("rack=a,rack=b", "twice"), ("host=h", "'host'")):
        b.refuses(b.nacre, "up", "--dir", b.ours.dir, "--location", place, codes=(2,), says=["--location", re.escape(says)])
    for dir in (b.ours.dir, b.path("new")):
        b.up("--location", "shelf=s1", dir=dir, says=["--location", "type 'shelf' does not exist"])
        b.up("--location", "rack=default", dir=dir, says=["--location", "not of type 'rack'"])


def loops():
    """Whether block devices can be made here; in some containers they cannot."""
    can = os.geteuid() == 0 and os.path.exists("/dev/loop-control")
    if not can:
        print("  not tried: this needs root and /dev/loop-control", flush=True)
    return can


def ext4(path):
    subprocess.run(["mkfs.ext4", "-q", "-F", path], check=True)


@stopped
def foreign_devices(b):
    """Block devices with a file system, mounted or not, and one with another cluster's OSD."""
    if not loops():
        return
    with Loop(b.path("ext4"), 64 << 20, make=ext4) as loop:
        for dir in (b.ours.dir, b.path("new")):
            b.up("--disk", loop.device, dir=dir, says=[loop.device, "holds an ext2, ext3 or ext4 file system", "clear it first"], devices=[loop.device])
            journal = f"{b.path('fresh')},journal={loop.device}"
            b.up("--disk", journal, dir=dir, says=[loop.device, "holds an ext2, ext3 or ext4 file system", "journal"], devices=[loop.device])
    with Loop(b.path("store"), 64 << 20, make=lambda p: shutil.copy(os.path.join(b.theirs.dir, "osd.0", "block"), p)) as loop:
        for dir in (b.ours.dir, b.path("new")):
            b.up("--disk", loop.device, dir=dir, says=[loop.device, "belongs to another"], devices=[loop.device])
    with Loop(b.path("mounted"), 64 << 20, make=ext4) as loop:
        os.makedirs(b.path("mnt"))
        # Read only: what the kernel writes to a mounted file system by itself is not ours, and the file is compared.
        subprocess.run(["mount", "-o", "ro", loop.device, b.path("mnt")], check=True)
        try:
            b.up("--disk", loop.device, says=[loop.device, "holds an ext2, ext3 or ext4 file system"])
            b.up("--wipe", "--disk", loop.device, says=[loop.device, "in use", "--wipe clears nothing"])
            b.up("--wipe", "--disk", b.path("mounted"), says=["mounted", "behind a loop device"])
        finally:
            subprocess.run(["umount", b.path("mnt")], check=True)
    os.rmdir(b.path("mnt"))


@stopped
def unfit_devices(b):
    """Empty disks that are too small or cannot be written: the cluster does not count on them from then on."""
    if not loops():
        return
    for size in (4096, 1 << 20):
        with Loop(b.path(f"tiny-{size}"), size) as loop:
            says = [loop.device, f"{size} bytes", "needed"]
            b.up("--disk", loop.device, says=["osd.2", *says], devices=[loop.device])
            b.up("--disk", loop.device, dir=b.path("new"), says=["osd.0", *says], devices=[loop.device])
    b.up("--osds", "1", "--osd-size", "1M", dir=b.path("new"), says=["osd.0", "1048576 bytes", "needed"])
    b.up("--osd-size", "1M", "--disk", b.path("fresh"), says=["1048576"])
    with Loop(b.path("read-only"), 64 << 20, "--read-only") as loop:
        b.up("--disk", loop.device, says=["osd.2", loop.device], devices=[loop.device])


@stopped
def parts_in_use(b):
    """A monitor, or an OSD, that runs alone: the whole is in use, too."""
    whole = (["up", "--dir", b.ours.dir, "--port", free_port()], ["fsck", b.ours.dir], ["fsck", "--repair", b.ours.dir])
    with Cluster(b.nacre, b.ours.dir, auth="cephx", role="mon") as monitor:
        monitor.start()
        who = rf"in use by process {monitor.process.pid}\b"
        for argv in (*whole, ["mon", "--dir", b.ours.dir, "--port", free_port()]):
            b.refuses(b.nacre, *argv, says=[who], but=WRITTEN)
        b.refuses(b.nacre, "forget", "--dir", b.ours.dir, "1", "--yes-i-really-mean-it", says=[who], but=WRITTEN, again=False)
        monitor.kill()
    osd = subprocess.Popen([b.nacre, "osd", "--dir", b.ours.dir, "--id", "0"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until("the OSD holds its disk", lambda: subprocess.run(["flock", "--nonblock", os.path.join(b.ours.dir, "osd.0", "block"), "true"]).returncode, 10)
        who = rf"osd.0.* in use by process {osd.pid}\b"
        for argv in (*whole, ["osd", "--dir", b.ours.dir, "--id", "0"], ["forget", "--dir", b.ours.dir, "0", "--yes-i-really-mean-it"]):
            b.refuses(b.nacre, *argv, says=[who], but=WRITTEN, again=False)
    finally:
        osd.kill()
        osd.wait()


# The cluster runs.


@running
def folder_in_use(b):
    """A folder that a running process holds: everything else that wants it."""
    port, who = free_port(), rf"in use by process {b.ours.process.pid}\b"
    for argv in (
        ["up", "--dir", b.ours.dir, "--port", port], ["mon", "--dir", b.ours.dir, "--port", port], ["osd", "--dir", b.ours.dir, "--id", "0"],
        ["fsck", b.ours.dir], ["fsck", "--repair", b.ours.dir], ["forget", "--dir", b.ours.dir, "0", "--yes-i-really-mean-it"],
    ):
        b.command([b.nacre, *argv], (1,), [re.escape(b.ours.dir), who])
    b.command([b.nacre, "up", "--dir", b.path("new"), "--port", b.ours.port], (1,), [rf"port {b.ours.port} of 127.0.0.1 is in use"])
    b.command([b.nacre, "up", "--dir", b.path("new"), "--disk", os.path.join(b.ours.dir, "osd.0"), "--port", port], (1,), ["osd.0", "belongs to another"])


@running
def wrong_keys(b):
    """A wrong key, a key of another cluster, no key, an entity that does not exist."""
    wrong = base64.b64encode(b"\1\0" + bytes(8) + b"\x10\0" + b"sixteen letters!").decode()
    wrong = b.file("wrong.keyring", f"[client.admin]\n\tkey = {wrong}\n[client.nobody]\n\tkey = {wrong}\n".encode())
    junk = b.file("junk.keyring", b"[client.admin]\n\tkey = what\n")
    denied = r"handle_auth_bad_method server allowed_methods \[2\] but i only support \[2\]"
    for keyring in (wrong, os.path.join(b.theirs.dir, "keyring")):
        b.client("ceph", "--connect-timeout", "20", "--keyring", keyring, "-s", says=[denied])
        b.client("rados", "--keyring", keyring, "-p", "p", "put", "new", keyring, says=[denied])
    b.client("ceph", "--connect-timeout", "20", "-n", "client.nobody", "--keyring", wrong, "-s", says=[denied])
    b.client("rados", "-n", "client.nobody", "--keyring", wrong, "lspools", says=[denied])
    missing = b.path("no.keyring")
    b.client("ceph", "--connect-timeout", "20", "--keyring", missing, "-s", says=["unable to find a keyring", re.escape(missing)])
    b.client("rados", "--keyring", missing, "lspools", says=["unable to find a keyring", re.escape(missing)])
    b.client("ceph", "--connect-timeout", "20", "--keyring", junk, "-s", says=["error connecting to the cluster"])
    b.client("ceph", "--connect-timeout", "20", "--auth-client-required", "none", "-s", says=["allowed_methods"])
    for name in ("wrong.keyring", "junk.keyring"):
        os.remove(b.path(name))


@running
def no_rights(b):
    """Entities that may do nothing, or only read."""
    before = len(b.ours.ceph("auth", "ls")["auth_dump"])
    keyring = b.path("entities")
    text = ""
    for name, caps in (("none", []), ("osds", ["osd", "allow *"]), ("reader", ["mon", "allow r", "osd", "allow r"]), ("elsewhere", ["mon", "allow r", "osd", "allow * pool=q"])):
        text += b.ours.run("ceph", "auth", "get-or-create", f"client.{name}", *caps).stdout
    b.file("entities", text.encode())

    def as_(name):
        return ["-n", f"client.{name}", "--keyring", keyring]

    denied = "handle_auth_bad_method server allowed_methods"
    b.client("ceph", "--connect-timeout", "20", *as_("none"), "-s", says=[denied])
    b.client("ceph", "--connect-timeout", "20", *as_("osds"), "-s", says=[denied])
    b.client("rados", *as_("none"), "-p", "p", "put", "new", keyring, says=[denied])
    epoch = b.ours.ceph("osd", "dump")["epoch"]
    for words in (["osd", "pool", "create", "mine", "8"], ["auth", "ls"], ["config", "set", "osd", "debug_osd", "5"], ["osd", "out", "0"]):
        b.client("ceph", *as_("reader"), *words, says=["EACCES"])
    b.client("rados", *as_("reader"), "-p", "p", "put", "known", keyring, says=[r"error putting p/known: \(1\) Operation not permitted"])
    b.client("rados", *as_("reader"), "-p", "p", "rm", "known", says=[r"error removing p>?/?known: \(1\) Operation not permitted"])
    b.client("rados", *as_("elsewhere"), "-p", "p", "get", "known", "-", says=[r"error getting p/known: \(1\) Operation not permitted"])
    if b.ours.ceph("osd", "dump")["epoch"] != epoch:
        b.fault("the map changed")
    for name in ("none", "osds", "reader", "elsewhere"):
        b.ours.run("ceph", "auth", "rm", f"client.{name}")
    assert len(b.ours.ceph("auth", "ls")["auth_dump"]) == before
    os.remove(keyring)


@running
def wrong_conf(b):
    """A ceph.conf with another cluster's id: stock clients do not look at it, and are told the right one."""
    with open(b.ours.conf) as f:
        text = f.read()
    fsid = re.search(r"fsid = (\S+)", text)[1]
    conf = b.file("other.conf", text.replace(fsid, "11111111-2222-4333-8444-555555555555").encode())
    told = b.ours.run("ceph", "-c", conf, "fsid").stdout.strip()
    if told != fsid:
        b.fault(f"the cluster says it is {told}, not {fsid}")
    # The other cluster's conf, at our address: its keys are not ours.
    with open(b.theirs.conf) as f:
        b.file("other.conf", re.sub(r"v2:127.0.0.1:\d+", f"v2:127.0.0.1:{b.ours.port}", f.read()).encode())
    b.client("ceph", "-c", conf, "--connect-timeout", "20", "-s", says=["RADOS permission denied"])
    os.remove(conf)


@running
def wrong_commands(b):
    """Commands with values that make no sense, or that name what does not exist."""
    for words, says in [
        ("no such command", "no valid command found"),
        ("osd pool create q many", "many"),
        ("osd pool create p 8 8 erasure", "pool 'p' cannot change to type erasure"),
        ("osd pool create q 8 8 erasure", "not supported yet.*k=2 m=2"),
        ("osd pool create q 8 8 erasure nosuch", "no 'plugin' entry"),
        ("osd pool create q 8 8 erasure default nosuch", "specified rule nosuch doesn't exist"),
        ("osd pool create q 4 8 replicated", "'pgp_num' must be greater than 0 and lower or equal than 'pg_num'"),
        ("osd pool set p allow_ec_overwrites true", "ec overwrites can only be enabled for an erasure coded pool"),
        ("osd pool set p fast_read 1", "fast read is not supported in replication pool"),
        ("osd erasure-code-profile set q k=1", "k=1 must be >= 2"),
        ("osd erasure-code-profile set q plugin=lrc k=4 m=2 l=3", "use plugin=jerasure"),
        ("osd erasure-code-profile set default k=3 m=2", "will not override erasure code profile default"),
        ("osd erasure-code-profile get q", "unknown erasure code profile 'q'"),
        ("osd crush rule create-erasure q nosuch", "no 'plugin' entry"),
        ("osd pool set p size 11", "between 1 and 10"),
        ("osd pool set p size 1", "yes-i-really-mean-it"),
        ("osd pool set p min_size 9", "min_size"),
        ("osd pool set nowhere size 1", "nowhere"),
        ("osd pool set p colour red", "colour"),
        ("osd pool set p pg_num 0", "."),
        ("osd pool set p pg_num 100000", "."),
        ("osd pool rm p p", "WARNING|mon_allow_pool_delete"),
        ("osd pool rm p p --yes-i-really-really-mean-it", "mon_allow_pool_delete"),
        ("osd pool rename nowhere elsewhere", "nowhere"),
        ("osd pool set-quota nowhere max_objects 1", "nowhere"),
        ("osd pool set-quota p max_objects lots", "lots"),
        ("osd crush reweight osd.9 1.0", "osd.9"),
        ("osd destroy 9", "osd.9"),
        ("osd lost 9", "yes-i-really-mean-it"),
        ("osd purge 0 --yes-i-really-mean-it", "EBUSY"),
        ("osd set nothing", "nothing"),
        ("osd set-full-ratio 7", "."),
        ("auth get client.nobody", "client.nobody"),
        ("auth caps client.nobody mon", "."),
        ("auth add client.half mon", "."),
        ("auth get-or-create client.odd mon nonsense", "nonsense|EINVAL"),
        ("auth import -i /no/where", "/no/where"),
        ("config set osd no_such_option 1", "no_such_option"),
        ("config set osd debug_osd loud", "parsing value: value must take the form N or N/M"),
        ("config set planet debug_osd 1", "planet"),
        ("tell osd.9 version", "osd.9|ENXIO|ENOENT"),
        ("osd getcrushmap -o /no/where/map", "/no/where/map"),
        ("osd setcrushmap -i {letter}", "."),
    ]:
        b.client("ceph", *words.format(letter=b.theirs.conf).split(), says=[says])
    for words, says in [
        ("-p nowhere put a {file}", r"error opening pool nowhere: \(2\) No such file or directory"),
        ("-p p get nothing -", r"p/nothing: \(2\) No such file or directory"),
        ("-p p rm nothing", r"nothing: \(2\) No such file or directory"),
        ("-p p getxattr known nothing", "nothing"),
        ("-p p rollback known nothing", r"known ?\(2\) No such file or directory"),
        ("-p p colour known", "colour"),
    ]:
        b.client("rados", *words.format(file=b.ours.conf).split(), says=[says])
    admin = os.path.join(b.ours.dir, "osd.0.asok")
    b.command([b.nacre, "admin", admin, "colour"], range(1, 256), ["colour"])
    b.command([b.nacre, "admin", b.path("no.asok"), "status"], (1,), ["no.asok"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nacre", required=True)
    parser.add_argument("--dir")
    parser.add_argument("--only", default="")
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    args.nacre = os.path.abspath(args.nacre)
    args.dir_kept = tempfile.mkdtemp(prefix="nacre-refusals-", dir=args.dir)
    top = os.path.join(os.path.abspath(args.dir_kept), "top")
    os.makedirs(top)
    bench = None
    try:
        bench = Bench(args, top)
        begun = time.monotonic()
        for row in (r for r in STOPPED if args.only in r.__name__):
            bench.stopped(row)
        bench.ours.start()
        for row in (r for r in RUNNING if args.only in r.__name__):
            bench.running(row)
        bench.ours.stop()
        done = bench.ours.run(args.nacre, "fsck", "--deep", bench.ours.dir, check=False)
        if done.returncode:
            bench.row = "at the end"
            bench.fault(f"fsck: {done.stdout}{done.stderr}")
    finally:
        if bench:
            bench.ours.kill()
        shutil.rmtree(args.dir_kept, ignore_errors=True)
    if bench.faults:
        raise SystemExit(f"{len(bench.faults)} faults:\n" + "\n".join(bench.faults))
    print(f"{bench.rows} rows in {time.monotonic() - begun:.0f} s: all was refused, named, and left as it was")


if __name__ == "__main__":
    main()
