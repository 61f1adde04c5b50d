#!/usr/bin/python3
"""An OSD that is marked out, and comes in again: seconds until all is clean, and what clients feel meanwhile; the same for any cluster.

A pool of --size copies gets --gib GiB: 45 % in objects of 4 MiB, 45 % in objects of 64 KiB, 10 % in omaps (values of
1 KiB, 500 to an object). Then one OSD is marked out. Clean means: all groups are active and clean where the map puts
them now. The balancer rests. Meanwhile --clients threads write 4096 bytes to a pool of their own, one after the other,
all the time. At the end all objects are read and compared.

    outs.py --nacre PATH       a monitor and --osds OSDs of ours, each a process, with --memory each
    outs.py --peer SCRIPT      a real Ceph, started and stopped by peer-ceph.sh, without its pause between recovered objects
    outs.py --conf FILE        a cluster that runs; the pools 'out-data' and 'out-load' are made, and removed at the end

usage: outs.py (--nacre PATH | --peer SCRIPT | --conf FILE) [--gib 10] [--osds 4] [--size 3] [--out 0] [--pgs 64] [--clients 4]
               [--seconds 3600] [--dir DIR] [--port P] [--driver uring|epoll] [--memory 1G] [--json FILE]
"""
import sys
import argparse
import json
import os
import random
import subprocess
import time
import types

import rados

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", room) for room in ("lib",)]
from harness import Failed, Place, connect, free_port
from returns import Writers, quantile
from thrash_cluster import Processes

MIB = 1 << 20
KEYS, VALUE = 500, 1024
# States in which nothing is left to do.
SETTLED = {"active", "clean", "scrubbing", "deep", "snaptrim", "snaptrim_wait"}


class Data:
    """What is written, by number: each object is another part of the same random bytes."""

    def __init__(self, gib):
        total = int(gib * (1 << 30))
        self.bytes = random.Random(1).randbytes(5 * MIB)
        self.large = max(1, total * 45 // 100 // (4 * MIB))
        self.small = max(1, total * 45 // 100 // 65536)
        self.omaps = max(1, total // 10 // (KEYS * VALUE))

    def part(self, number, size):
        start = number * 4099 % (len(self.bytes) - size)
        return self.bytes[start:start + size]

    def objects(self):
        yield from ((f"large.{n}", self.part(n, 4 * MIB)) for n in range(self.large))
        yield from ((f"small.{n}", self.part(n, 65536)) for n in range(self.small))

    def omap(self, number):
        return {f"key.{k:04}": self.part(number * KEYS + k, VALUE) for k in range(KEYS)}

    def fill(self, io):
        """Writes all, 16 at a time."""
        under_way = []
        for name, data in self.objects():
            under_way.append(io.aio_write_full(name, data))
            if len(under_way) >= 16:
                self.done(under_way.pop(0))
        for one in under_way:
            self.done(one)
        for number in range(self.omaps):
            values = self.omap(number)
            with rados.WriteOpCtx() as op:
                io.set_omap(op, tuple(values), tuple(values.values()))
                io.operate_write_op(op, f"omap.{number}")

    @staticmethod
    def done(completion):
        completion.wait_for_complete()
        if completion.get_return_value() < 0:
            raise Failed([f"a write ended with {completion.get_return_value()}"])

    def check(self, io):
        """Reads all; names what differs."""
        wrong = [name for name, data in self.objects() if io.read(name, len(data) + 1) != data]
        for number in range(self.omaps):
            with rados.ReadOpCtx() as op:
                values, _ = io.get_omap_vals(op, "", "", KEYS + 1)
                io.operate_read_op(op, f"omap.{number}")
                if dict(values) != self.omap(number):
                    wrong.append(f"omap.{number}")
        if wrong:
            raise Failed([f"{len(wrong)} objects differ: {', '.join(wrong[:10])}"])


class Asker:
    """Commands, without a process for each."""

    def __init__(self, conf):
        self.cluster = connect(conf)

    def mon(self, **command):
        return self.told(command, *self.cluster.mon_command(json.dumps({**command, "format": "json"}), b""))

    def mgr(self, **command):
        return self.told(command, *self.cluster.mgr_command(json.dumps({**command, "format": "json"}), b""))

    @staticmethod
    def told(command, code, out, text):
        if code != 0:
            raise Failed([f"{command} ended with {code}: {text}"])
        try:
            return json.loads(out) if out.strip() else None
        except ValueError:
            return None

    def pool(self, name, pgs, size):
        self.mon(prefix="osd pool create", pool=name, pg_num=pgs, pgp_num=pgs)
        for var, value in (("pg_autoscale_mode", "off"), ("size", size), ("min_size", size - size // 2)):
            self.mon(prefix="osd pool set", pool=name, var=var, val=str(value))
        self.mon(prefix="osd pool application enable", pool=name, app="test")

    def wait_up(self, osds):
        """Waits until so many OSDs are up."""
        end = time.monotonic() + 60
        while (up := self.mon(prefix="osd stat")["num_up_osds"]) < osds:
            if time.monotonic() > end:
                raise Failed([f"{up} of {osds} OSDs are up"])
            time.sleep(0.2)

    def groups(self):
        found = self.mgr(prefix="pg dump", dumpcontents=["pgs"])
        return found["pg_stats"] if isinstance(found, dict) else found

    def places(self):
        """Where the map puts each group now, and the map's epoch."""
        told = {g["pgid"]: self.mon(prefix="pg map", pgid=g["pgid"]) for g in self.groups()}
        return {pgid: one["up"] for pgid, one in told.items()}, min((one["epoch"] for one in told.values()), default=0)

    def wait_clean(self, seconds, before=None):
        """Waits until all groups are clean where the map puts them, and those that it put elsewhere `before` have said so since."""
        begun = time.monotonic()
        places, epoch = self.places()
        moved = {pgid for pgid, up in places.items() if before is not None and before.get(pgid) != up}
        while True:
            left = [g for g in self.groups() if not self.is_clean(g, places, epoch if g["pgid"] in moved else 0)]
            took = time.monotonic() - begun
            if places and not left:
                return took
            if took > seconds:
                some = [(g["pgid"], g["state"], g["up"], g["acting"]) for g in left[:3]]
                raise Failed([f"{len(left)} groups are not clean after {seconds:.0f} s: {some}"])
            time.sleep(0.25)

    @staticmethod
    def is_clean(group, places, epoch):
        states = set(group["state"].split("+"))
        settled = {"active", "clean"} <= states and not states - SETTLED
        return settled and group["up"] == group["acting"] == places.get(group["pgid"]) and group["reported_epoch"] >= epoch

    def used(self, osd):
        """Bytes of data that an OSD has."""
        row = next(node for node in self.mgr(prefix="osd df")["nodes"] if node["id"] == osd)
        return row.get("kb_used_data", row["kb_used"]) * 1024


def measure(args, conf):
    ask, data, found = Asker(conf), Data(args.gib), {}
    try:
        ask.wait_up(1 if args.conf else args.osds)
        ask.pool("out-data", args.pgs, args.size)
        ask.pool("out-load", 32, args.size)
        ask.mgr(prefix="balancer off")
        ask.wait_clean(120)
        with ask.cluster.open_ioctx("out-data") as io:
            begun = time.monotonic()
            data.fill(io)
            found["filled_s"] = time.monotonic() - begun
            ask.wait_clean(args.seconds)
            time.sleep(10)
            found["bytes"] = ask.used(args.out)
            writers = Writers(conf, "out-load", args.clients)
            time.sleep(10)
            for phase, command in (("out", "osd out"), ("in", "osd in")):
                before, _ = ask.places()
                writers.phase = phase
                ask.mon(prefix=command, ids=[str(args.out)])
                found[f"{phase}_s"] = ask.wait_clean(args.seconds, before)
                writers.phase = f"after {phase}"
                time.sleep(10)
            writers.end()
            data.check(io)
        found["clients"] = {
            phase: {"writes": len(times), "p50_ms": quantile(times, 0.5), "p99_ms": quantile(times, 0.99)}
            for phase, times in writers.times.items()
        }
    finally:
        if args.conf:
            for pool in ("out-data", "out-load"):
                ask.mon(prefix="osd pool rm", pool=pool, pool2=pool, yes_i_really_really_mean_it=True)
            ask.mgr(prefix="balancer on")
        ask.cluster.shutdown()
    return found


def show(found, args):
    moved = found["bytes"]
    print(f"{args.gib:g} GiB in {args.size} copies, filled in {found['filled_s']:.0f} s; osd.{args.out} held {moved / MIB:,.0f} MiB")
    for phase in ("out", "in"):
        took = found[f"{phase}_s"]
        print(f"  {phase:3}  clean after {took:7.1f} s, {moved / MIB / max(took, 0.01):7.1f} MiB/s")
    for phase, told in found["clients"].items():
        print(f"  {phase:9}  {told['writes']:7} writes  p50 {told['p50_ms']:8.2f} ms  p99 {told['p99_ms']:8.2f} ms")
    if args.json:
        with open(args.json, "w") as f:
            json.dump(found, f, indent=1)


def ours(args, place):
    given = types.SimpleNamespace(**{**vars(args), "nacre": os.path.abspath(args.nacre)}, lossy=None, auth="none")
    cluster = Processes(given, place.path, args.port or free_port())
    try:
        cluster.start()
        return measure(args, cluster.conf)
    finally:
        cluster.kill()


def peer(args, place):
    directory = os.path.join(place.path, "peer")
    more = {"SIZE": str(args.size), "MIN_SIZE": str(args.size - args.size // 2), "EXTRA": "osd recovery sleep hdd = 0"}
    port = {"PEER_PORT": str(args.port)} if args.port else {}
    try:
        subprocess.run([args.peer, "start", str(args.osds), directory], check=True, env={**os.environ, **more, **port})
        return measure(args, os.path.join(directory, "ceph.conf"))
    finally:
        subprocess.run([args.peer, "stop", directory], check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    which = parser.add_mutually_exclusive_group(required=True)
    for name in ("nacre", "peer", "conf"):
        which.add_argument(f"--{name}")
    for name, default in (("osds", 4), ("size", 3), ("out", 0), ("pgs", 64), ("clients", 4), ("port", None)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--gib", type=float, default=10)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--memory", default="1G")
    for name in ("dir", "driver", "json"):
        parser.add_argument(f"--{name}")
    args = parser.parse_args()
    if args.conf:
        return show(measure(args, args.conf), args)
    place = Place(args.dir, "nacre-outs-")
    show((ours if args.nacre else peer)(args, place), args)
    place.remove()


if __name__ == "__main__":
    main()
