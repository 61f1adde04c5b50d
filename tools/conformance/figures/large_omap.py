#!/usr/bin/python3
"""An object whose omap is very large is written, cloned by a snapshot, overwritten, read at the snapshot, scrubbed, copied to a second OSD,
moved by a split, trimmed and removed. Another client writes and reads 4 KiB objects of another pool all the time: the table says how long
it waited at most during each of these. All that is read is compared.

usage: large_omap.py --nacre PATH [--mib 128] [--most-ms 0] [--dir DIR]
  --most-ms N: fails if the other client waited longer than N milliseconds (0: the table alone)
"""
import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

import rados  # noqa: E402
sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", room) for room in ("lib",)]
from live import Cluster, until  # noqa: E402

MIB = 1 << 20
VALUE = 1000
BATCH = 500
NAME = "large"


def key(i):
    return f"key {i:09d}"


def value(i, version):
    return (f"{i}.{version} " * (VALUE // 8))[:VALUE].encode()


def neighbour(conf, path):
    """Writes and reads one object after the other, and notes when each ended and how long it took."""
    with rados.Rados(conffile=conf) as client, client.open_ioctx("other") as pool, open(path, "w", buffering=1) as notes:
        data, n = os.urandom(4096), 0
        while True:
            n += 1
            for what, call in (("write", lambda: pool.write_full(f"small {n % 200}", data)), ("read", lambda: pool.read(f"small {n % 200}"))):
                begun = time.monotonic()
                call()
                ended = time.monotonic()
                notes.write(f"{ended} {ended - begun} {what}\n")
            time.sleep(0.002)


class Story:
    def __init__(self, cluster, mib, top):
        self.cluster, self.keys = cluster, mib * MIB // (VALUE + len(key(0)))
        self.notes, self.rows = os.path.join(top, "notes"), []
        self.client = rados.Rados(conffile=cluster.conf)
        self.client.connect()
        self.pool = self.client.open_ioctx("big")
        self.head = {}
        self.kept = None

    def reactors(self):
        """How many pieces of work held an OSD's thread for more than 5 ms so far, and how long these took together, in ms."""
        calls, micros = 0, 0
        for osd in (0, 1):
            code, out, status = self.client.osd_command(osd, json.dumps({"prefix": "perf dump"}), b"", timeout=120)
            assert code == 0, status
            reactor = json.loads(out)["reactor"]
            calls, micros = calls + reactor["long_calls"], micros + reactor["long_calls_us"]
        return calls, micros // 1000

    def stage(self, what, call):
        before, begun = self.reactors(), time.monotonic()
        call()
        # What it left behind in the background counts, too.
        took = time.monotonic() - begun
        time.sleep(3)
        after = self.reactors()
        self.rows.append((what, begun, time.monotonic(), took, (after[0] - before[0], after[1] - before[1])))
        print(f"{what}: {took:.1f} s", flush=True)

    def set(self, items, wait=True):
        with rados.WriteOpCtx() as op:
            self.pool.set_omap(op, tuple(key(i) for i, _ in items), tuple(value(i, v) for i, v in items))
            done = self.pool.operate_aio_write_op(op, NAME)
        self.head.update(items)
        if wait:
            self.finish([done])
        return done

    @staticmethod
    def finish(waiting):
        for done in waiting:
            done.wait_for_complete()
            assert done.get_return_value() == 0, f"a write ended with {done.get_return_value()}"

    def write(self):
        waiting = []
        for first in range(0, self.keys, BATCH):
            waiting.append(self.set([(i, 0) for i in range(first, min(first + BATCH, self.keys))], wait=False))
            if len(waiting) >= 4:
                self.finish([waiting.pop(0)])
        self.finish(waiting)

    def snapshot(self):
        self.pool.create_snap("kept")
        self.kept = dict(self.head)
        # The first write behind it makes the clone.
        self.set([(0, 1)])

    def overwrite(self):
        dice = random.Random(1)
        for _ in range(40):
            self.set([(dice.randrange(self.keys + 1000), dice.randrange(1000)) for _ in range(100)])
            gone = {dice.randrange(self.keys) for _ in range(20)}
            with rados.WriteOpCtx() as op:
                self.pool.remove_omap_keys(op, tuple(key(i) for i in gone))
                self.pool.operate_write_op(op, NAME)
            for i in gone:
                self.head.pop(i, None)

    def compare(self, snap, want):
        if snap:
            self.pool.set_read(self.pool.lookup_snap(snap).snap_id)
        after, expected = "", iter(sorted(want.items()))
        while True:
            with rados.ReadOpCtx() as op:
                found, _ = self.pool.get_omap_vals(op, after, "", 1000)
                self.pool.operate_read_op(op, NAME)
                page = list(found)
            for name, data in page:
                i, version = next(expected, (None, None))
                assert name == key(i) and data == value(i, version), f"at {snap or 'the head'}: {name}, and not key {i} of version {version}"
            if not page:
                break
            after = page[-1][0]
        assert next(expected, None) is None, "keys are missing"
        self.pool.set_read(rados.LIBRADOS_SNAP_HEAD)

    def compare_both(self):
        self.compare(None, self.head)
        if self.kept is not None:
            self.compare("kept", self.kept)

    def clean(self, copies):
        rows = self.cluster.ceph("pg", "ls-by-pool", "big")["pg_stats"]
        return rows and all(row["state"] == "active+clean" and len(row["acting"]) == copies for row in rows)

    def scrub(self):
        def stamps():
            return {row["pgid"]: row["last_deep_scrub_stamp"] for row in self.cluster.ceph("pg", "ls-by-pool", "big")["pg_stats"]}
        before = stamps()
        for group in before:
            self.cluster.run("ceph", "pg", "deep-scrub", group)
        until("a deep scrub", lambda: all(stamp != before.get(pg) for pg, stamp in stamps().items()), 600)
        bad = [row["pgid"] for row in self.cluster.ceph("pg", "ls-by-pool", "big")["pg_stats"] if "inconsistent" in row["state"]]
        assert not bad, f"a scrub found something in {bad}"

    def size(self, copies):
        more = ["--yes-i-really-mean-it"] if copies == 1 else []
        self.cluster.run("ceph", "osd", "pool", "set", "big", "size", copies, *more)
        until(f"{copies} copies", lambda: self.clean(copies), 900)

    def split(self):
        self.cluster.run("ceph", "osd", "pool", "set", "big", "pg_num", 4)
        until("four groups", lambda: len(self.cluster.ceph("pg", "ls-by-pool", "big")["pg_stats"]) == 4 and self.clean(2), 900)

    def trim(self):
        self.pool.remove_snap("kept")
        self.kept = None

        def objects():
            rows = self.cluster.ceph("pg", "ls-by-pool", "big")["pg_stats"]
            return sum(row["stat_sum"]["num_object_clones"] for row in rows)
        until("the clone is trimmed", lambda: objects() == 0, 300)

    def clear(self):
        with rados.WriteOpCtx() as op:
            self.pool.clear_omap(op)
            self.pool.operate_write_op(op, NAME)
        self.head = {}

    def remove(self):
        self.pool.remove_object(NAME)

    def waits(self):
        found = [line.split() for line in open(self.notes) if line.count(" ") == 2 and line.endswith("\n")]
        found = [(float(ended), float(took), what) for ended, took, what in found]
        print("| what | seconds | longest write ms | longest read ms | 99.9 % of both ms | calls over 5 ms: number, mean ms |\n"
              "|---|---|---|---|---|---|")
        worst = 0
        for stage, begun, ended, seconds, (calls, millis) in self.rows:
            row = {w: [took for at, took, what in found if what == w and at >= begun and at - took <= ended] for w in ("write", "read")}
            both = sorted(row["write"] + row["read"]) or [float("inf")]
            longest = {w: max(row[w], default=float("inf")) * 1000 for w in row}
            worst = max(worst, *longest.values())
            print(f"| {stage} | {seconds:.1f} | {longest['write']:.0f} | {longest['read']:.0f} | {both[int(len(both) * 0.999) - 1] * 1000:.0f} | {calls}, {millis / max(calls, 1):.1f} |")
        return worst

    def tell(self):
        self.stage("nothing else", lambda: time.sleep(5))
        self.stage(f"write {self.keys:,} keys", self.write)
        self.stage("snapshot, first write", self.snapshot)
        self.stage("overwrite 4,000 keys, remove 800", self.overwrite)
        self.stage("read head and snapshot", self.compare_both)
        self.stage("deep scrub", self.scrub)
        self.stage("a second copy (backfill)", lambda: self.size(2))
        self.stage("overwrite again", self.overwrite)
        self.stage("deep scrub of both", self.scrub)
        self.stage("split into 4 groups", self.split)
        self.stage("read both again", self.compare_both)
        self.stage("one copy goes", lambda: self.size(1))
        self.stage("trim the snapshot", self.trim)
        self.stage("snapshot, clear the omap", lambda: (self.snapshot(), self.clear()))
        self.stage("read both", self.compare_both)
        self.stage("trim", self.trim)
        self.stage("remove", self.remove)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nacre")
    parser.add_argument("--mib", type=int, default=128)
    parser.add_argument("--most-ms", type=float, default=0)
    parser.add_argument("--dir")
    parser.add_argument("--neighbour", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.neighbour:
        return neighbour(*args.neighbour)
    top = args.dir or tempfile.mkdtemp(prefix="nacre-large-omap-")
    os.makedirs(top, exist_ok=True)
    other = None
    try:
        with Cluster(os.path.abspath(args.nacre), os.path.join(top, "c"), "--osds", 2) as cluster:
            cluster.start()
            for pool, groups in (("big", 1), ("other", 8)):
                cluster.run("ceph", "osd", "pool", "create", pool, groups, groups)
                cluster.run("ceph", "osd", "pool", "set", pool, "pg_autoscale_mode", "off")
                cluster.run("ceph", "osd", "pool", "set", pool, "size", 1, "--yes-i-really-mean-it")
            story = Story(cluster, args.mib, top)
            command = [sys.executable, os.path.abspath(__file__), "--neighbour", cluster.conf, story.notes]
            other = subprocess.Popen(command)
            until("the other client works", lambda: os.path.exists(story.notes) and os.path.getsize(story.notes) > 0)
            try:
                story.tell()
            finally:
                worst = story.waits()
            assert other.poll() is None, "the other client ended"
            other.kill()
            story.client.shutdown()
            print(f"memory: {cluster.rss()[1] / MIB:.0f} MiB at most", flush=True)
            cluster.stop()
            done = subprocess.run([cluster.nacre, "fsck", "--deep", cluster.dir], capture_output=True, text=True)
            assert done.returncode == 0, f"fsck: {done.stdout}{done.stderr}"
            if args.most_ms and worst > args.most_ms:
                sys.exit(f"the other client waited {worst:.0f} ms")
    finally:
        if other:
            other.kill()
        if not args.dir:
            shutil.rmtree(top, ignore_errors=True)


if __name__ == "__main__":
    main()
