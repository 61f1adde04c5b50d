#!/usr/bin/python3
"""`nacre disk`: disks of a host are added, replaced and removed while it runs, under a load that never fails.

 a) what is refused: a mistyped name, a disk that holds something, one that is too small, one of another OSD; nothing has changed then;
 b) a disk is added, one is replaced under its number, one is removed: no other OSD of the host stops, the process stays, clients go on;
 c) a disk that returns errors is replaced while the host runs;
 d) the command, or the whole host, is killed at each step that `nacre.toml` shows; run again, it goes on to its end;
 e) what cannot end well is refused with the reason, and done if it is said to be meant.

usage: disks.py --nacre PATH [--lossy PATH] [--dir DIR] [--kills N] [--seed N]
"""
import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tomllib

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", room) for room in ("lib",)]
from harness import LossyDisk, connect  # noqa: E402
from live import Cluster, until  # noqa: E402

MIB = 1 << 20
SIZE = 2048 * MIB
# Seconds that one write may take while disks come and go: an OSD that stops says so, and one that dies is known to be dead by its ports.
LONGEST = 5.0
PATIENCE = 120


def check(holds, what):
    if not holds:
        raise AssertionError(what)
    print(f"  {what}", flush=True)


class Load:
    """Writes objects all the time; knows what was acknowledged, and how long the slowest took."""

    def __init__(self, conf):
        self.conf, self.written, self.longest, self.failed, self.ends = conf, {}, 0.0, None, False
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        try:
            cluster = connect(self.conf)
            io, n = cluster.open_ioctx("data"), 0
            while not self.ends:
                n += 1
                name, data = f"o{n % 600}", f"{n} ".encode() * 2000
                begun = time.monotonic()
                io.write_full(name, data)
                self.longest = max(self.longest, time.monotonic() - begun)
                self.written[name] = data
            cluster.shutdown()
        except Exception as e:  # noqa: BLE001 - whatever it is, the test says it
            self.failed = e

    def stop(self, most=LONGEST):
        self.ends = True
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive(), "a write waits for ever"
        assert self.failed is None, f"a write failed: {self.failed}"
        assert most is None or self.longest < most, f"a write took {self.longest:.1f} s"
        print(f"  {len(self.written)} objects under load, the slowest write took {self.longest * 1000:.0f} ms", flush=True)
        return self.written


class Host:
    """A cluster of one host with disks as files, and what `nacre disk` says to it."""

    def __init__(self, args, top):
        self.args, self.top = args, top
        self.files = []
        disks = [word for n in range(4) for word in ("--disk", self.file(f"disk{n}"))]
        self.cluster = Cluster(args.nacre, os.path.join(top, "c"), "--metrics-port", 0, *disks, auth="cephx")
        self.cluster.start()
        # Later starts need no `--disk`.
        self.cluster.more = ["--metrics-port", "0"]
        self.cluster.run("ceph", "osd", "pool", "create", "data", "16")
        until("a pool is clean", self.clean, PATIENCE)

    def tell(self):
        """What somebody wants to see after a failure."""
        print(self.cluster.said(), self.toml(), sep="\n", flush=True)
        for words in (["ceph", "-s"], ["ceph", "osd", "tree"], ["ceph", "health", "detail"], ["ceph", "pg", "dump", "pgs_brief"], self.argv("ls")):
            print(self.cluster.run(*words, check=False).stdout, flush=True)

    def file(self, name, size=SIZE, fill=b""):
        path = os.path.join(self.top, name)
        with open(path, "wb") as f:
            f.write(fill)
            f.truncate(size)
        return path

    def argv(self, *words):
        return [self.args.nacre, "disk", words[0], "--dir", self.cluster.dir, *map(str, words[1:])]

    def disk(self, *words, code=0):
        done = subprocess.run(self.argv(*words), capture_output=True, text=True, timeout=300)
        said = done.stdout + done.stderr
        assert (done.returncode == 0) == (code == 0), f"nacre disk {' '.join(map(str, words))}: {done.returncode}: {said}"
        return said

    def refused(self, *words, says):
        before = self.toml()
        said = self.disk(*words, code=1)
        assert says in said, f"'{says}' is not in: {said}"
        assert self.toml() == before, "something has changed"
        print(f"  refused: {said.strip().splitlines()[-1]}", flush=True)

    def toml(self):
        with open(os.path.join(self.cluster.dir, "nacre.toml"), "rb") as f:
            return tomllib.load(f)

    def osds(self):
        """The map's OSDs."""
        return {osd["osd"]: osd for osd in self.cluster.ceph("osd", "dump")["osds"]}

    def lives(self):
        """When each OSD came up: another number is another life."""
        return {osd: entry["up_from"] for osd, entry in self.osds().items() if entry["up"]}

    def clean(self):
        states = self.cluster.ceph("pg", "stat")["pg_summary"]["num_pg_by_state"]
        return all(state["name"].startswith("active+clean") for state in states)

    def is_whole(self, osds):
        until(f"{osds} are up and all is clean", lambda: set(self.lives()) == set(osds) and self.clean(), PATIENCE)
        state = self.toml()
        assert sorted(osd["id"] for osd in state["osd"]) == sorted(osds), state
        assert all(osd["made"] and not osd.get("held") for osd in state["osd"]), state

    def read(self, written):
        cluster = connect(self.cluster.conf)
        io = cluster.open_ioctx("data")
        wrong = [name for name, data in written.items() if io.read(name, len(data) + 1) != data]
        cluster.shutdown()
        check(not wrong, f"{len(written)} objects are what was acknowledged") if not wrong else check(False, f"lost: {wrong[:5]}")


def no_sockets(host):
    """OSDs of one process send each other mail, also those that came later."""
    ports = {int(addr["addr"].rsplit(":", 1)[1]) for osd in host.osds().values() for addr in osd["public_addrs"]["addrvec"]}
    lines = subprocess.run(["ss", "-tnpH", "state", "established"], capture_output=True, text=True).stdout.splitlines()
    own = [line.split() for line in lines if f"pid={host.cluster.process.pid}," in line]
    # What the process dialled: the peer's port is that of an OSD.
    dialled = [row for row in own if int(row[3].rsplit(":", 1)[1]) in ports]
    check(len(own) > 0 and not dialled, "its OSDs, old and new, are neighbours without sockets")


def others_stay(host, pid, before, but=()):
    after = host.lives()
    ended = [osd for osd, life in before.items() if osd not in but and after.get(osd) != life]
    check(host.cluster.process.pid == pid and host.cluster.running() and not ended, "no other OSD of the host has stopped")


def refusals(host):
    print("what is refused", flush=True)
    host.refused("add", "/dev/nacre-mistyped", says="does not exist")
    host.refused("add", os.path.join(host.top, "mistyped"), says="does not exist")
    check(not os.path.exists(os.path.join(host.top, "mistyped")), "nothing is made of a mistyped name")
    host.refused("add", host.file("full", fill=b"dear" * 1000), says="to use it, clear it first")
    host.refused("add", host.file("small", size=2 * MIB), says="too small for an OSD")
    host.refused("add", os.path.join(host.top, "disk0"), says="belongs to osd.0")
    host.refused("add", "--wipe", os.path.join(host.top, "disk0"), says="belongs to osd.0")
    host.refused("replace", "0", os.path.join(host.top, "disk1"), says="belongs to osd.1")
    host.refused("replace", "0", says="is still the old disk of osd.0")
    host.refused("replace", "7", os.path.join(host.top, "full"), says="has no osd.7")
    host.refused("rm", "7", says="has no osd.7")


def under_load(host):
    print("a disk is added, replaced, removed", flush=True)
    pid, load = host.cluster.process.pid, Load(host.cluster.conf)
    before = host.lives()
    said = host.disk("add", "--wipe", os.path.join(host.top, "full"))
    assert "osd.4" in said and "serves" in said, said
    host.is_whole(range(5))
    others_stay(host, pid, before)
    check(len(host.cluster.admin("osd.4", "status")) > 1, "the new OSD has an admin socket")
    no_sockets(host)
    before, uuid = host.lives(), host.osds()[2]["uuid"]
    said = host.disk("replace", "osd.2", host.file("new2"))
    assert "no data depends on osd.2" in said and "serves" in said, said
    host.is_whole(range(5))
    others_stay(host, pid, before, but=(2,))
    no_sockets(host)
    check(host.osds()[2]["uuid"] != uuid and host.osds()[2]["weight"] == 1, "the new disk has the number, and data comes to it")
    before = host.lives()
    said = host.disk("rm", "1")
    assert "osd.1 is removed" in said, said
    host.is_whole([0, 2, 3, 4])
    others_stay(host, pid, before, but=(1,))
    check(1 not in host.osds() and not os.path.exists(os.path.join(host.cluster.dir, "osd.1")), "nothing of it is left")
    # The number is free: the next disk gets it.
    before = host.lives()
    host.disk("add", host.file("again1"))
    host.is_whole(range(5))
    others_stay(host, pid, before)
    host.read(load.stop())
    host.cluster.stop()
    host.cluster.start()
    host.is_whole(range(5))
    check(True, "a later start runs what there is now")


def dead_disk(host):
    """One whose disk returns errors: its OSD ends, the host goes on, and the disk is replaced."""
    if not host.args.lossy or not os.path.exists("/dev/fuse"):
        print("a dead disk: skipped, it needs tools/lossydisk and /dev/fuse", flush=True)
        return
    print("a disk dies", flush=True)
    base = os.path.join(host.top, "lossy")
    os.makedirs(base)
    lossy = LossyDisk(host.args.lossy, base, 0)
    try:
        path = os.path.join(lossy.mount, "disk")
        with open(path, "wb") as f:
            f.truncate(SIZE)
        said = host.disk("add", path)
        dead = next(osd for osd in range(9) if f"osd.{osd} " in said)
        host.is_whole([*range(5), dead])
        pid, load, before = host.cluster.process.pid, Load(host.cluster.conf), host.lives()
        lossy.lose(1)
        until("the OSD of the dead disk is down", lambda: not host.osds()[dead]["up"], PATIENCE)
        others_stay(host, pid, before, but=(dead,))
        until("all is clean without it", lambda: host.cluster.run("ceph", "osd", "out", str(dead)) and host.clean(), PATIENCE)
        said = host.disk("replace", dead, host.file("instead"))
        assert "serves" in said, said
        host.is_whole([*range(5), dead])
        others_stay(host, pid, before, but=(dead,))
        host.read(load.stop())
        host.disk("rm", dead)
        host.is_whole(range(5))
    finally:
        lossy.close()


def kill_at(host, words, when, whom):
    """Runs a command and kills somebody when `when(state)` holds; true if it was killed before it was done."""
    process = subprocess.Popen(host.argv(*words), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    end = time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < end:
        if when(host.toml()):
            if whom == "command":
                process.send_signal(signal.SIGKILL)
            else:
                host.cluster.kill()
            process.wait(timeout=PATIENCE)
            if whom != "command":
                print(f"  the host is back after {host.cluster.start():.1f} s", flush=True)
            return True
        time.sleep(0.001)
    assert process.wait(timeout=1) == 0, process.stdout.read()
    return False


def kills(host, rng, rounds):
    """Each command is interrupted at a step, and run again to its end."""
    print("killed in the middle", flush=True)

    def entry(state, disk):
        return next((osd for osd in state["osd"] if osd.get("disk") == disk), None)

    def held(disk):
        return lambda state: (entry(state, disk) or {}).get("held", False)

    def numbered(disk):
        return lambda state: (entry(state, disk) or {"id": 1 << 30})["id"] < 1 << 24

    def given(disk):
        return lambda state: entry(state, disk) is not None and not entry(state, disk).get("held", False)

    def gone(disk):
        return lambda state: entry(state, disk) is None

    def after(seconds):
        begun = time.monotonic()
        return lambda _: time.monotonic() - begun > seconds

    load, cut = Load(host.cluster.conf), 0
    for number in range(rounds):
        osds, new = sorted(host.lives()), host.file(f"kill{number}")
        osd = rng.choice(osds)
        old = next(entry["disk"] for entry in host.toml()["osd"] if entry["id"] == osd)
        verb, steps = rng.choice([
            ("add", [held(new), numbered(new), given(new)]),
            ("replace", [held(old), held(new), given(new)]),
            ("rm", [held(old), gone(old)]),
        ] if len(osds) > 4 else [("add", [held(new), numbered(new), given(new)])])
        words = {"add": ["add", new], "replace": ["replace", osd, new], "rm": ["rm", osd]}[verb]
        step, whom = rng.randrange(len(steps) + 1), rng.choice(["command", "host"])
        when, begun = [*steps, after(rng.uniform(0, 3))][step], time.monotonic()
        if kill_at(host, words, when, whom):
            cut += 1
            again = subprocess.run(host.argv(*words), capture_output=True, text=True, timeout=300)
            said = again.stdout + again.stderr
            # What was killed right after its last step is done, and says so in its own way.
            done = "belongs to" in said or "has no osd" in said or "is still the old disk" in said
            assert again.returncode == 0 or done, f"{words} after a kill of the {whom}: {said}"
            print(f"  again: {said.strip().splitlines()[-1]}", flush=True)
        osds = {"add": len(osds) + 1, "replace": len(osds), "rm": len(osds) - 1}[verb]
        until("all is whole", lambda: len(host.lives()) == osds and host.clean(), PATIENCE)
        host.is_whole(host.lives())
        assert len(host.osds()) == osds, f"the cluster has {sorted(host.osds())}"
        print(f"  {verb}, {whom} killed at step {step}: whole after {time.monotonic() - begun:.1f} s", flush=True)
    check(cut > rounds // 2, f"{cut} of {rounds} were cut off, and went on to the end")
    host.read(load.stop(most=None))


def meant(host):
    """Too few places: refused, and done if it is meant."""
    print("too few places", flush=True)
    while len(host.lives()) > 3:
        host.disk("rm", max(host.lives()))
    host.is_whole(host.lives())
    one = min(host.lives())
    host.refused("rm", one, says="cannot give its data away")
    host.refused("replace", one, host.file("fast"), says="--force")
    load, before, pid = Load(host.cluster.conf), host.lives(), host.cluster.process.pid
    host.disk("replace", one, os.path.join(host.top, "fast"), "--force")
    host.is_whole(before)
    others_stay(host, pid, before, but=(one,))
    host.read(load.stop())
    host.cluster.run("ceph", "osd", "pool", "create", "single", "8")
    host.cluster.run("ceph", "osd", "pool", "set", "single", "size", "1", "--yes-i-really-mean-it")
    until("a pool of one copy", host.clean, PATIENCE)
    alone = next(iter(host.cluster.ceph("pg", "ls-by-pool", "single")["pg_stats"]))["acting"][0]
    host.refused("rm", alone, "--force", says="--data-is-lost")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nacre", required=True)
    parser.add_argument("--lossy")
    parser.add_argument("--dir")
    parser.add_argument("--kills", type=int, default=8)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    args = parser.parse_args()
    args.nacre = os.path.abspath(args.nacre)
    print(f"seed {args.seed}", flush=True)
    top = tempfile.mkdtemp(prefix="nacre-disks-", dir=args.dir)
    host = Host(args, top)
    try:
        refusals(host)
        under_load(host)
        dead_disk(host)
        kills(host, random.Random(args.seed), args.kills)
        meant(host)
    except BaseException:
        host.tell()
        raise
    finally:
        host.cluster.kill()
        shutil.rmtree(top, ignore_errors=True)
    print("disks: all of it holds")


if __name__ == "__main__":
    main()
