#!/usr/bin/python3
"""Minutes of mixed load, and a verdict whether memory stays flat.

At the same time: rados bench with 4 KiB, 64 KiB and 4 MiB writes and reads of what they wrote, objects with omaps that grow and are
cleared, pool snapshots that come and go over objects that are overwritten, objects that are made and deleted, watchers that are
notified and that come and go, and clients that connect and leave. The resident memory of the server is looked at every few seconds.

The verdict, after a warm-up of a third of the time: never above the ceiling (256 MiB for each OSD, everything in the process included),
and resident memory without what the OSDs' bounded caches, logs and map histories say they hold (they fill as long as there is something
new to keep) does not rise by more than --rise percent of all resident memory over the rest of the time, by the line through the samples.
The rise of all of it is printed, too.

usage: soak.py --nacre PATH [--minutes 30] [--osds 3] [--osd-size 4G] [--port P] [--auth none|cephx] [--dir DIR] [--series FILE]
"""
import argparse
import json
import os
import random
import subprocess
import sys
import threading
import time

import rados

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", room) for room in ("lib",)]
from harness import Failed, Place, Server, connect, free_port

MIB = 1 << 20
CEILING = 256 * MIB
POOL = "soak"
SAMPLE = 2.0
# What one benchmark writes at most: all of it, and what waits to be trimmed, must fit the smallest OSD.
MOST_BYTES = 512 * MIB
# Seconds after which a command that should take eight stands still.
STANDS_STILL = 120


def resident(pid):
    """Resident memory of a process, in bytes."""
    with open(f"/proc/{pid}/status") as status:
        for line in status:
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
    raise Failed(["the server is gone"])


# What an entry of these caches takes, in bytes; the others tell bytes.
ENTRIES = {"onodes": 1024, "ranges": 512}
# What else an OSD tells in bytes: its groups' logs and its map's history, which are of a bounded length.
OF_GROUPS = ["log_bytes", "map_bytes"]


def held(cluster, osds):
    """Bytes that the stores' caches, journals' data and changes of the index hold, groups' logs and maps, as the OSDs tell."""
    total = 0
    for osd in range(osds):
        code, out, status = cluster.osd_command(osd, json.dumps({"prefix": "perf dump"}), b"", timeout=30)
        if code:
            raise Failed([f"osd.{osd} does not tell its counters: {status}"])
        told = json.loads(out)
        total += sum(n * ENTRIES.get(name, 1) for name, n in told["store_memory"].items() if name != "target")
        total += sum(told["pg"][name] for name in OF_GROUPS)
    return total


class Load:
    """Everything that runs at once. What goes wrong is a finding."""

    def __init__(self, conf):
        self.conf = conf
        self.stopping = threading.Event()
        self.wrong = []
        self.counts = {}
        parts = [self.bench_small, self.bench_middle, self.bench_large, self.omaps, self.snapshots, self.deletes, self.watches, self.clients]
        self.threads = [threading.Thread(target=self.keep_doing, args=(part,), daemon=True) for part in parts]

    def start(self):
        for thread in self.threads:
            thread.start()

    def stop(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join(120)
            if thread.is_alive():
                self.wrong.append("a part of the load does not end")

    def keep_doing(self, part):
        rng, name = random.Random(part.__name__), part.__name__
        try:
            cluster = connect(self.conf)
            while not self.stopping.is_set():
                part(cluster, rng)
                self.counts[name] = self.counts.get(name, 0) + 1
            cluster.shutdown()
        except Exception as e:  # whatever it is, it is a finding
            self.wrong.append(f"{name}: {type(e).__name__}: {e}")
            self.stopping.set()

    def bench(self, name, size, in_flight):
        common = ["rados", "-c", self.conf, "-p", POOL, "--run-name", name]
        at_once, most = ["-t", str(in_flight)], ["--max-objects", str(MOST_BYTES // size)]
        write = ["bench", "8", "write", "-b", str(size), *at_once, *most, "--no-cleanup"]
        for command in (write, ["bench", "4", "rand", *at_once], ["cleanup"]):
            done = subprocess.run(common + command, capture_output=True, text=True, timeout=STANDS_STILL)
            if done.returncode != 0:
                raise Failed([f"rados {' '.join(command)}: {done.stderr.strip()[-300:]}"])

    def bench_small(self, _cluster, _rng):
        self.bench("small", 4096, 16)

    def bench_middle(self, _cluster, _rng):
        self.bench("middle", 65536, 8)

    def bench_large(self, _cluster, _rng):
        self.bench("large", 4 << 20, 4)

    def omaps(self, cluster, rng):
        with cluster.open_ioctx(POOL) as io:
            name = f"omap-{rng.randrange(20)}"
            for _ in range(20):
                keys = tuple(f"{rng.randrange(100000):06}" for _ in range(100))
                with rados.WriteOpCtx() as op:
                    io.set_omap(op, keys, tuple(rng.randbytes(100) for _ in keys))
                    io.operate_write_op(op, name)
            with rados.ReadOpCtx() as op:
                entries, _ = io.get_omap_vals(op, "", "", 1000)
                io.operate_read_op(op, name)
                sum(1 for _ in entries)
            if rng.random() < 0.3:
                with rados.WriteOpCtx() as op:
                    io.clear_omap(op)
                    io.operate_write_op(op, name)

    def snapshots(self, cluster, rng):
        with cluster.open_ioctx(POOL + "-snaps") as io:
            io.create_snap(f"s{rng.randrange(1 << 60)}")
            for _ in range(200):
                io.write(f"object-{rng.randrange(100)}", rng.randbytes(8192), rng.randrange(100) * 8192)
            snaps = sorted(io.list_snaps(), key=lambda s: s.snap_id)
            for snap in snaps[:-3]:
                io.remove_snap(snap.name)

    def deletes(self, cluster, rng):
        with cluster.open_ioctx(POOL) as io:
            names = [f"short-{rng.randrange(1 << 60)}" for _ in range(300)]
            for name in names:
                io.write_full(name, b"x" * rng.choice([1, 5000, 100000]))
                io.set_xattr(name, "a", b"b")
            for name in names:
                io.remove_object(name)

    def watches(self, cluster, rng):
        with cluster.open_ioctx(POOL) as io:
            name, heard = f"watched-{rng.randrange(10)}", []
            io.write_full(name, b"")
            watches = [io.watch(name, lambda *a: heard.append(1)) for _ in range(5)]
            for _ in range(20):
                io.notify(name, "news", 5000)
            for watch in watches:
                watch.close()
            if len(heard) < 100:
                raise Failed([f"5 watchers of 20 notifications heard {len(heard)}"])

    def clients(self, _cluster, _rng):
        cluster = connect(self.conf)
        cluster.get_cluster_stats()
        cluster.mon_command('{"prefix": "status"}', b"")
        with cluster.open_ioctx(POOL) as io:
            io.write_full("client", b"was here")
        cluster.shutdown()
        self.stopping.wait(0.2)


def slope(samples):
    """Least squares: bytes per second."""
    n = len(samples)
    mean_t, mean_m = sum(t for t, _ in samples) / n, sum(m for _, m in samples) / n
    above = sum((t - mean_t) * (m - mean_m) for t, m in samples)
    below = sum((t - mean_t) ** 2 for t, _ in samples)
    return above / below if below else 0.0


def verdict(samples, osds, rise):
    """Sentences about memory, and what is wrong with it."""
    ceiling = osds * CEILING
    most = max(m for _, m, _ in samples)
    last = samples[-1][0]
    late = [s for s in samples if s[0] >= last / 3]
    mean = sum(m for _, m, _ in late) / len(late)
    span = late[-1][0] - late[0][0]
    all_grown = slope([(t, m) for t, m, _ in late]) * span
    grown = slope([(t, m - h) for t, m, h in late]) * span
    said = (
        f"memory: at most {most / MIB:.0f} MiB of {ceiling / MIB:.0f} MiB; after the warm-up on average {mean / MIB:.1f} MiB, of which caches hold "
        f"{sum(h for _, _, h in late) / len(late) / MIB:.1f} MiB; in that time all rises by {all_grown / mean * 100:+.1f} %, and without the caches "
        f"by {grown / mean * 100:+.1f} % of all"
    )
    wrong = []
    if most > ceiling:
        wrong.append(f"memory was {most / MIB:.0f} MiB, above {ceiling / MIB:.0f} MiB")
    if grown > mean * rise / 100:
        wrong.append(f"memory besides caches grew by {grown / MIB:.1f} MiB ({grown / mean * 100:.1f} % of all) after the warm-up")
    return said, wrong


def soak(args, server):
    cluster = connect(server.conf)
    for pool in (POOL, POOL + "-snaps"):
        cluster.create_pool(pool)
    load, samples, begun = Load(server.conf), [], time.monotonic()
    load.start()
    shown = -1
    out = open(args.series, "w", buffering=1) if args.series else None
    while (passed := time.monotonic() - begun) < args.minutes * 60 and not load.stopping.is_set():
        samples.append((passed, resident(server.process.pid), held(cluster, args.osds)))
        if out:
            out.write("{:.1f} {} {}\n".format(*samples[-1]))
        if int(passed // 60) != shown:
            shown = int(passed // 60)
            print(f"minute {shown}: {samples[-1][1] / MIB:.1f} MiB, caches hold {samples[-1][2] / MIB:.1f}", flush=True)
        load.stopping.wait(SAMPLE)
    load.stop()
    print("rounds: " + ", ".join(f"{name} {n}" for name, n in sorted(load.counts.items())))
    said, wrong = verdict(samples, args.osds, args.rise)
    print(said)
    cluster.shutdown()
    return load.wrong + wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nacre", required=True)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--osds", type=int, default=3)
    parser.add_argument("--osd-size", default="4G", help="most bytes of an OSD's file: the load writes many times that, so the disk must not take all")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--auth", default="none")
    parser.add_argument("--dir")
    parser.add_argument("--series", help="write all samples to this file: seconds, resident bytes, bytes in caches")
    parser.add_argument("--rise", type=float, default=5.0, help="percent that memory may rise after the warm-up")
    parser.add_argument("more", nargs="*")
    args = parser.parse_args()
    place = Place(args.dir, "nacre-soak-")
    server = Server(args.nacre, os.path.join(place.path, "cluster"), args.port or free_port(), args.osds, args.auth, ["--osd-size", args.osd_size, "--memory", f"{CEILING // MIB}M", *args.more])
    try:
        server.start()
        wrong = soak(args, server)
        server.stop()
        wrong += server.fsck()
    except Failed as failed:
        wrong = failed.args[0]
    finally:
        if server.running():
            server.kill()
    place.remove()
    print("\n".join(wrong[:20] + ["soak: FAILED"]) if wrong else "soak: passed")
    sys.stdout.flush()
    os._exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
