"""An upgrade without a pause: three hosts of the program before, restarted one by one with the program as built, under load.

    python3 tools/conformance/faults/upgrade.py --nacre target/release/nacre [--old PROGRAM] [--dir DIR] [--keep]

The program before is built from the newest tag, or from the commit BEFORE while there is none, in a work tree below target/ that is kept.
It is built without optimization, as programs of tests are.
Hosts are network namespaces, as in hosts.py: it needs root; without, it says that it is skipped.

Under fio with verify on an image, a writer of objects, and commands, all of which run from the first step to the last:
  1. each host gets the new program; one goes back to the older one, and forward again. The level stays as it was all the while
  2. the level is raised by a command
  3. the older program is refused on a host, as a monitor and as an OSD, with sentences that say why; the newer one starts there again
No operation fails, none waits longer than 2 s, and all that was acknowledged is there.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib

import hosts
from hosts import Net, clean, holds_all, osds_up, quorum, run, says, until

# The last commit before the newest level of `types::Levels::OWN`. It changes with that.
BEFORE = "aec5de6aeef0"
# Seconds for which an operation may wait.
PAUSE = 2.0
# Seconds of load.
LOAD = 60

# Runs in a host's namespace: writes objects; prints the time and the number of each that was acknowledged.
WRITES = hosts.WRITES.replace("import os,", "import os, time,").replace("print(n,", "print(time.time(), n,")


def before(root, built):
    """The program before, built if it is not there; None if the repository does not have its commit.

    It is built like the tests, in their folder, so that what both programs are made of is compiled once."""
    tag = run("git", "-C", root, "describe", "--tags", "--abbrev=0", "--match", "v*", check=False).stdout.strip() or BEFORE
    tree = os.path.join(built, "before", tag)
    program = os.path.join(tree, "target", "debug", "nacre")
    if os.path.exists(program):
        return program
    if run("git", "-C", root, "cat-file", "-e", f"{tag}^{{commit}}", check=False).returncode != 0:
        return None
    if not os.path.exists(tree):
        run("git", "-C", root, "worktree", "prune")
        run("git", "-C", root, "worktree", "add", "--force", "--detach", tree, tag)
    print(f"building {tag}", flush=True)
    env = dict(os.environ, CARGO_BUILD_BUILD_DIR=built, CARGO_TARGET_DIR=os.path.join(tree, "target"))
    # Only its own packages: what they share with this program's tests must have the same settings.
    with open(os.path.join(tree, "Cargo.lock"), "rb") as lock:
        own = [package["name"] for package in tomllib.load(lock)["package"] if "source" not in package]
    settings = [f"--config=profile.dev.package.{name}.opt-level=0" for name in own]
    argv = ["cargo", *settings, "build", "-q", "--workspace", "--bin", "nacre"]
    subprocess.run(argv, cwd=tree, env=env, check=True)
    return program


class Writer:
    """Puts objects, one after the other; knows those that were acknowledged, and the longest time between two."""

    def __init__(self, host):
        self.out = tempfile.TemporaryFile("w+")
        argv = host.argv("/usr/bin/python3", "-c", WRITES, os.path.join(host.dir, "ceph.conf"))
        self.process = subprocess.Popen(argv, stdout=self.out, stderr=subprocess.PIPE, text=True)
        until("a first object", lambda: os.fstat(self.out.fileno()).st_size > 0)

    def so_far(self):
        """Pairs of time and number."""
        self.out.flush()
        with open(f"/proc/self/fd/{self.out.fileno()}") as f:
            return [(float(at), int(n)) for at, n in (line.split() for line in f if line.endswith("\n"))]

    def pause(self, since):
        """The longest time between two acknowledgements since then."""
        times = [since] + [at for at, _ in self.so_far() if at >= since] + [time.time()]
        return max(b - a for a, b in zip(times, times[1:]))

    def stop(self):
        assert self.process.poll() is None, f"the writer ended: {self.process.stderr.read()}"
        self.process.kill()
        self.process.wait()
        return [n for _, n in self.so_far()]


class Fio:
    """Random writes of 4 KiB to an image, each of which is read again and compared."""

    def __init__(self, host, base):
        conf = os.path.join(host.dir, "ceph.conf")
        host.exec("rbd", "-c", conf, "create", "--size", "256M", "data/image")
        self.said = os.path.join(base, "fio.json")
        argv = ["fio", "--name=image", "--ioengine=rbd", "--clientname=admin", "--pool=data", "--rbdname=image", "--rw=randwrite",
                "--bs=4k", "--iodepth=4", "--verify=crc32c", "--verify_backlog=256", "--verify_state_save=0", "--time_based", f"--runtime={LOAD}", "--size=256M",
                "--rate_iops=400", "--output-format=json", f"--output={self.said}"]
        self.process = subprocess.Popen(host.argv("env", f"CEPH_CONF={conf}", *argv), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        text=True)

    def end(self):
        """Waits for its end; gives the longest time of a write in seconds."""
        said, _ = self.process.communicate(timeout=LOAD + 60)
        assert self.process.returncode == 0, f"fio ended with {self.process.returncode}: {said[-2000:]}"
        text = open(self.said).read()
        job = json.loads(text[text.index("{"):])["jobs"][0]
        assert job["error"] == 0 and job["write"]["total_ios"] > 0, job
        return max(job[kind]["clat_ns"]["max"] for kind in ("read", "write")) / 1e9


def level(host):
    told = host.json("nacre", "level")
    return told and told["level"]


class Story:
    def __init__(self, net, old, new):
        self.old, self.new = old, new
        self.hosts = [net.host() for _ in range(3)]
        self.worst = 0.0
        self.level = 0  # that of the program before

    def whole(self, seen_by=None):
        host = seen_by or self.hosts[0]
        until("three monitors, three OSDs, all copies", lambda: quorum(host, 3) and osds_up(host, 3) and clean(host), 90)

    def begin(self, base):
        a, b, c = self.hosts
        small = ("--osds", 1, "--osd-size", "4G")
        a.up("--bind", a.addr, *small)
        for host in (b, c):
            host.start("join", a.token(), "--dir", host.dir, "--bind", host.addr, *small)
        a.ceph("osd", "pool", "create", "data", 16, 16, "--size", 3)
        a.ceph("osd", "pool", "application", "enable", "data", "rbd")
        until("three monitors and three OSDs", lambda: quorum(a, 3) and osds_up(a, 3) and clean(a), 60)
        self.level = level(a)

    def restart(self, host, program, what):
        """Stops a host and starts it with that program; the load goes on."""
        begin = time.time()
        host.stop()
        host.nacre = program
        host.up()
        self.whole(next(h for h in self.hosts if h is not host))
        pause = self.writer.pause(begin)
        self.worst = max(self.worst, pause)
        print(f"{host.name} {what}: back after {time.time() - begin:.1f} s; the longest time without an object {pause:.2f} s", flush=True)

    def tell(self, base):
        self.begin(base)
        a, b, c = self.hosts
        self.writer, fio = Writer(a), Fio(a, base)
        began = time.time()
        for host in (c, b):
            self.restart(host, self.new, "gets the new program")
        self.restart(a, self.new, "gets the new program")
        assert level(a) == self.level, f"the level is {level(a)}, and nobody raised it"
        self.restart(c, self.old, "goes back")
        mixed = a.json("versions")["osd"]
        assert len(mixed) == 2, f"`ceph versions` does not tell two programs apart: {mixed}"
        refused = a.ceph("nacre", "level", "raise", check=False)
        assert refused.returncode != 0, "the level is raised while an older program runs"
        says(refused.stderr, "osd.2", "mon.")
        self.restart(c, self.new, "gets the new program again")
        print(a.ceph("nacre", "level").stdout, end="")
        a.ceph("nacre", "level", "raise")
        for host in self.hosts:
            until(f"level {self.level + 1}, as {host.name} sees it", lambda: level(host) == self.level + 1)
        self.whole()
        self.refusals(c)
        pause = fio.end()
        written = self.writer.stop()
        worst = max(pause, self.worst)
        print(f"fio: {pause:.2f} s for the longest operation; {len(written)} objects; the load ran for {time.time() - began:.0f} s")
        holds_all(a, written)
        assert worst <= PAUSE, f"an operation waited for {worst:.2f} s"
        for host in self.hosts:
            host.stop()

    def refusals(self, host):
        """The program before is refused on a host, as a whole and as an OSD alone."""
        host.stop()
        host.nacre = self.old
        says(host.refused("up", "--dir", host.dir), "the monitor's store", "format version 4", "knows versions up to 3")
        said = host.refused("osd", "--dir", host.dir, "--id", 2)
        says(said, f"level is {self.level + 1}", "too old")
        print(f"the program before: {said.strip()}")
        self.restart(host, self.new, "runs the new program again")


def main():
    args = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    args.add_argument("--nacre", default="target/release/nacre")
    args.add_argument("--old", help="the program before; built if it is not given")
    args.add_argument("--built", default="target", help="the folder of what cargo built")
    args.add_argument("--build", action="store_true", help="only build the program before")
    args.add_argument("--dir")
    args.add_argument("--keep", action="store_true")
    args = args.parse_args()
    if os.geteuid() != 0 or not all(shutil.which(p) for p in ("ip", "unshare", "fio", "rbd")):
        print("upgrade: skipped: network namespaces need root, iproute2 and util-linux; the load needs fio and rbd")
        return 0
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    old = os.path.abspath(args.old) if args.old else before(root, os.path.abspath(args.built))
    if old is None:
        print(f"upgrade: skipped: this clone does not have {BEFORE}, of which the program before is built")
    if old is None or args.build:
        return 0
    base = args.dir or tempfile.mkdtemp(prefix="nacre-upgrade-")
    os.makedirs(base, exist_ok=True)
    net = Net(old, base)
    try:
        Story(net, old, os.path.abspath(args.nacre)).tell(base)
    except Exception as e:
        print(f"upgrade: FAILED: {e}\nthe folders are in {base}")
        return 1
    finally:
        net.close()
    if not args.keep and not args.dir:
        shutil.rmtree(base)
    print("upgrade: ok")
    return 0


if __name__ == "__main__":
    sys.exit(main())
