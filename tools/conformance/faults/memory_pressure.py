#!/usr/bin/python3
"""A cluster in a control group with little memory, under load: nobody is killed, reads and writes go on, and OSDs follow the group's limit when
it is lowered and raised. Needs root and control groups that count memory (version 1 or 2); without them it says so and ends well.

In the first half the limit stands; in the third quarter it is three quarters of that, in the last twice that. A load outside of the group writes
and reads 4 KiB and 4 MiB at once, and is looked at every second.

usage: memory_pressure.py --nacre PATH [--limit-mib 512] [--seconds 40 | --minutes N] [--osds 3] [--dir DIR]
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", room) for room in ("lib",)]
from harness import Failed, Server, free_port

MIB = 1 << 20
POOL = "pressure"
# Seconds without a single finished operation after which a load stands still; and seconds in which a share must follow a limit.
STANDS_STILL = 10
FOLLOWS_DOWN, FOLLOWS_UP = 30, 40
# Objects of one benchmark at most: they are removed before the next, so a long run needs no large disk.
SMALL_OBJECTS, LARGE_OBJECTS = 20_000, 300


def skip(why):
    print(f"skipped: {why}")
    sys.exit(0)


class Group:
    """A control group of our own."""

    def __init__(self, name):
        if os.geteuid() != 0:
            skip("control groups are made by root")
        self.path, self.names = None, None
        for line in open("/proc/self/mountinfo"):
            place, kind = line.split(" - ")
            kind, point = kind.split(), place.split()[4]
            if kind[0] == "cgroup" and "memory" in kind[2].split(","):
                self.path, self.names = point, ("memory.limit_in_bytes", "memory.usage_in_bytes", "memory.oom_control")
                break
            if kind[0] == "cgroup2" and "memory" in self.text(point, "cgroup.subtree_control").split():
                self.path, self.names = point, ("memory.max", "memory.current", "memory.events")
        if self.path is None:
            skip("no control groups count memory here")
        self.path = os.path.join(self.path, name)
        try:
            os.mkdir(self.path)
        except OSError as e:
            skip(f"a control group cannot be made: {e}")

    @staticmethod
    def text(path, name):
        try:
            with open(os.path.join(path, name)) as f:
                return f.read()
        except OSError:
            return ""

    def limit(self, size):
        with open(os.path.join(self.path, self.names[0]), "w") as f:
            f.write(str(size))

    def usage(self):
        return int(self.text(self.path, self.names[1]))

    def approach(self, goal):
        """Lowers the limit as fast as what is in use allows; who lowers it below that has the kernel kill."""
        deadline = time.monotonic() + FOLLOWS_DOWN
        while True:
            step = max(goal, self.usage() + 8 * MIB)
            try:
                self.limit(step)
            except OSError:
                pass  # used meanwhile (version 1 refuses)
            else:
                if step == goal:
                    return
            if time.monotonic() > deadline:
                raise Failed([f"after {FOLLOWS_DOWN} s {self.usage() // MIB} MiB are in use, {goal // MIB} should be the limit"])
            time.sleep(0.5)

    def kills(self):
        rows = dict(line.split() for line in self.text(self.path, self.names[2]).splitlines())
        return int(rows["oom_kill"])

    def wrapper(self, folder, program):
        """A program that begins `program` in the group."""
        path = os.path.join(folder, "in-group")
        with open(path, "w") as f:
            f.write(f'#!/bin/sh\necho $$ > {self.path}/cgroup.procs\nexec {os.path.abspath(program)} "$@"\n')
        os.chmod(path, 0o755)
        return path

    def remove(self):
        for _ in range(50):
            try:
                return os.rmdir(self.path)
            except OSError:
                time.sleep(0.1)  # its last process is still on its way out


class Load(threading.Thread):
    """`rados bench` again and again, and the longest time in which it finished nothing."""

    def __init__(self, conf, name, size, in_flight, most=None):
        super().__init__(daemon=True)
        self.conf, self.name, self.over = conf, name, False
        self.more = ["--max-objects", str(most)] if most else []
        self.size, self.in_flight, self.client = size, in_flight, None
        self.finished = {"write": 0, "rand": 0}
        self.wrong, self.slowest, self.moved, self.cleaning = [], 0.0, time.monotonic(), False

    def run(self):
        while not self.over and not self.wrong:
            self.bench("write", "-b", str(self.size), "--no-cleanup", *self.more)
            self.bench("rand")
            self.clean_up()

    def clean_up(self):
        """Every benchmark has objects of its own, which would fill the OSDs."""
        self.cleaning = True
        command = ["rados", "-c", self.conf, "-p", POOL, "cleanup", "--run-name", self.name]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        if done.returncode != 0 and not self.over:
            self.wrong.append(f"rados cleanup ends with {done.returncode}: {done.stderr.strip()}")
        self.moved, self.cleaning = time.monotonic(), False

    def bench(self, what, *more):
        command = ["rados", "-c", self.conf, "-p", POOL, "--run-name", self.name, "bench", "8", what, "-t", str(self.in_flight), *more]
        done, self.moved = 0, time.monotonic()
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
            self.client = process
            for line in process.stdout:
                words, now = line.split(), done
                # `sec Cur-ops started finished avg-MB/s ...`, and `Total writes made: N` of a benchmark that took less than a second.
                if len(words) >= 5 and words[0].isdigit() and words[3].isdigit():
                    now = int(words[3])
                elif words[:1] == ["Total"] and words[2:3] == ["made:"]:
                    now = int(words[3])
                if now > done:
                    self.finished[what] += now - done
                    done = now
                    self.note()
        if process.returncode != 0 and not self.over:
            self.wrong.append(f"rados bench {what} ends with {process.returncode}: {line.strip()}")
        self.note()

    def note(self):
        now = time.monotonic()
        self.slowest, self.moved = max(self.slowest, now - self.moved), now

    def check(self):
        still = time.monotonic() - self.moved
        if still > STANDS_STILL and self.is_alive() and not self.cleaning:
            self.wrong.append(f"load {self.name}: nothing finished for {still:.0f} s")
        if self.wrong:
            raise Failed(self.wrong)


def targets(server, osds):
    """What the OSDs say is in force, in bytes, and the sources."""
    told = []
    for osd in range(osds):
        done = subprocess.run(
            [server.nacre_plain, "admin", os.path.join(server.directory, f"osd.{osd}.asok"), "config", "get", "osd_memory_target"],
            capture_output=True, text=True, timeout=30,
        )
        if done.returncode != 0:
            raise Failed([f"osd.{osd} does not answer: {done.stderr.strip()}"])
        told.append(json.loads(done.stdout))
    return [int(t["osd_memory_target"]) for t in told], {t["source"] for t in told}


class Watch:
    """Looks every second; what it finds wrong ends the test."""

    def __init__(self, server, group, loads, osds):
        self.server, self.group, self.loads, self.osds = server, group, loads, osds
        self.most = self.seen = 0

    def look(self):
        self.seen += 1
        if self.server.process.poll() is not None:
            raise Failed([f"the server is gone ({self.server.process.returncode}); {self.group.kills()} kills"])
        if self.group.kills():
            raise Failed([f"the kernel killed {self.group.kills()} times"])
        for load in self.loads:
            load.check()
        self.most = max(self.most, self.group.usage())
        return sum(targets(self.server, self.osds)[0])

    def hold(self, seconds, limit):
        """The limit stands for so long, and shares stay below it."""
        self.most = 0
        until = time.monotonic() + seconds
        given = []
        while time.monotonic() < until:
            given.append(self.look())
            if given[-1] > limit:
                raise Failed([f"OSDs take {given[-1] // MIB} MiB of {limit // MIB}"])
            time.sleep(1)
        print(f"{limit // MIB:6} MiB {seconds:6.0f} s   at most {self.most // MIB:5} MiB in use   OSDs together {min(given) // MIB}-{max(given) // MIB} MiB", flush=True)

    def until(self, what, wanted, seconds):
        deadline = time.monotonic() + seconds
        while not wanted(given := self.look()):
            if time.monotonic() > deadline:
                raise Failed([f"{what}: OSDs together have {given // MIB} MiB after {seconds} s"])
            time.sleep(1)


def tell(server, group, osds):
    """What helps to see why the test failed."""
    print(f"in use {group.usage() // MIB} MiB; pressure of disks: {Group.text('/proc/pressure', 'io').splitlines()[:1]}")
    for osd in range(osds if server.running() else 0):
        for command in (["dump_ops_in_flight"], ["perf", "dump", "store"]):
            asked = [server.nacre_plain, "admin", os.path.join(server.directory, f"osd.{osd}.asok"), *command]
            print(f"osd.{osd} {' '.join(command)}: {subprocess.run(asked, capture_output=True, text=True, timeout=30).stdout[:3000]}")


def run(args, top, group):
    limit = args.limit_mib * MIB
    group.limit(limit)
    server = Server(group.wrapper(top, args.nacre), os.path.join(top, "c"), free_port(), args.osds, "none", ["--osd-size", "8G"])
    server.nacre_plain = os.path.abspath(args.nacre)
    loads = []
    try:
        server.start()
        server.run("ceph", "osd", "pool", "create", POOL, 32)
        given, sources = targets(server, args.osds)
        if sources != {"cgroup"} or not limit // 2 < sum(given) < limit:
            raise Failed([f"OSDs begin with {[g // MIB for g in given]} MiB, by {sources}"])
        loads = [Load(server.conf, "small", 4096, 64, SMALL_OBJECTS), Load(server.conf, "large", 4 << 20, 32, LARGE_OBJECTS)]
        for load in loads:
            load.start()
        watch = Watch(server, group, loads, args.osds)
        watch.hold(args.seconds / 2, limit)
        low = limit // 4 * 3
        group.approach(low)
        watch.until("after the limit was lowered", lambda given: given < low, FOLLOWS_DOWN)
        watch.hold(args.seconds / 4, low)
        group.limit(2 * limit)
        watch.until("after the limit was raised", lambda given: given > limit, FOLLOWS_UP)
        watch.hold(args.seconds / 4, 2 * limit)
        for load in loads:
            load.over = True
        for load in loads:
            load.join(120)
            print(f"{load.name:6} {load.finished['write']:8} writes {load.finished['rand']:8} reads   nothing finished for {load.slowest:.1f} s at most")
            if 0 in load.finished.values() or load.is_alive():
                raise Failed([f"load {load.name}: {load.finished}"])
        watch.look()
        server.stop()
    except Failed:
        tell(server, group, args.osds)
        raise
    finally:
        for load in loads:
            load.over = True
            if load.client:
                load.client.kill()  # it would wait for the server for ever
        server.kill()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nacre", required=True)
    parser.add_argument("--limit-mib", type=int, default=512)
    parser.add_argument("--seconds", type=float, default=40)
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--osds", type=int, default=3)
    parser.add_argument("--dir")
    args = parser.parse_args()
    args.seconds = args.minutes * 60 if args.minutes else args.seconds
    group = Group(f"nacre-memory-{os.getpid()}")
    with tempfile.TemporaryDirectory(prefix="nacre-pressure-", dir=args.dir) as top:
        try:
            run(args, top, group)
        except Failed as e:
            print("\n".join(e.args[0]))
            return 1
        finally:
            group.remove()
    return 0


if __name__ == "__main__":
    sys.exit(main())
