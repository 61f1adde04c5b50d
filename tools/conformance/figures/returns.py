#!/usr/bin/python3
"""A copy that comes back: bytes that it is sent after small random writes into large objects, and what clients feel meanwhile.

Three OSDs and a monitor, each a process; a pool of three copies, filled with objects of --size. osd.2 leads nothing. It is killed,
--writes writes of --write bytes go to random places, it comes back, and all groups become clean. Meanwhile --clients threads
write 4096 bytes to objects of their own, one after the other, all the time.

Prints bytes written while it was away, bytes that were pushed to it (`subop_push_in_bytes`), seconds until clean, and the clients'
latency before, while it was away, and while objects came back.

usage: returns.py --nacre PATH [--objects 64] [--size 4194304] [--writes 2000] [--write 4096] [--clients 4] [--sleep 5] [--seed 1]
                  [--dir DIR] [--port P] [--driver uring|epoll] [--memory 512M]
"""
import sys
import argparse
import os
import random
import threading
import time

import rados

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", room) for room in ("lib",)]
from harness import Failed
from thrash_cluster import options, three_osds


class Writers:
    """Threads that write all the time, and how long each write took, by phase."""

    def __init__(self, conf, pool, number):
        self.phase, self.times, self.ends = "before", {}, False
        self.threads = [threading.Thread(target=self.run, args=(conf, pool, n), daemon=True) for n in range(number)]
        for thread in self.threads:
            thread.start()

    def run(self, conf, pool, n):
        with rados.Rados(conffile=conf) as cluster, cluster.open_ioctx(pool) as io:
            rng = random.Random(n)
            while not self.ends:
                begun, phase = time.monotonic(), self.phase
                io.write(f"load.{n}.{rng.randrange(50)}", b"l" * 4096, 0)
                self.times.setdefault(phase, []).append(time.monotonic() - begun)

    def end(self):
        self.ends = True
        for thread in self.threads:
            thread.join(60)


def quantile(times, q):
    return sorted(times)[min(len(times) - 1, int(len(times) * q))] * 1000 if times else 0.0


def write_all(io, writes):
    """Writes, 16 at a time."""
    under_way = []
    for name, data, offset in writes:
        under_way.append(io.aio_write(name, data, offset))
        if len(under_way) >= 16:
            under_way.pop(0).wait_for_complete()
    for one in under_way:
        one.wait_for_complete()


def wait_clean(cluster, seconds):
    begun = time.monotonic()
    while time.monotonic() - begun < seconds:
        status = cluster.ceph("status")
        states = status["pgmap"].get("pgs_by_state", [])
        up = status["osdmap"].get("num_up_osds", status["osdmap"].get("osdmap", {}).get("num_up_osds"))
        if up == 3 and states and all(state["state_name"].startswith("active+clean") for state in states):
            return time.monotonic() - begun
        time.sleep(0.2)
    raise Failed([f"not clean within {seconds} s: {states}"])


def pushed(cluster):
    dump = cluster.ceph("tell", "osd.2", "perf", "dump")
    return dump["osd"]["subop_push_in_bytes"], dump["osd"]["subop_push"]


def wait_up(cluster, osds, seconds=60):
    begun = time.monotonic()
    while cluster.ceph("osd", "stat")["num_up_osds"] < osds:
        if time.monotonic() - begun > seconds:
            raise Failed([f"{osds} OSDs are not up within {seconds} s"])
        time.sleep(0.1)


def measure(args, cluster):
    rng = random.Random(args.seed)
    wait_up(cluster, 3)
    cluster.ceph("osd", "primary-affinity", "osd.2", "0", text=True)
    for pool in ("large", "load"):
        cluster.ceph("osd", "pool", "create", pool, "16", text=True)
        cluster.ceph("osd", "pool", "set", pool, "size", "3", text=True)
        cluster.ceph("osd", "pool", "set", pool, "min_size", "2", text=True)
    wait_clean(cluster, 120)
    with rados.Rados(conffile=cluster.conf) as client, client.open_ioctx("large") as io:
        write_all(io, ((f"large.{n}", rng.randbytes(args.size), 0) for n in range(args.objects)))
        writers = Writers(cluster.conf, "load", args.clients)
        time.sleep(args.sleep)
        writers.phase = "away"
        cluster.osds[2].kill()
        while cluster.ceph("osd", "stat")["num_up_osds"] > 2:
            time.sleep(0.2)
        places = range(0, args.size - args.write + 1, 4096)
        writes = [(f"large.{rng.randrange(args.objects)}", rng.randbytes(args.write), rng.choice(places)) for _ in range(args.writes)]
        write_all(io, writes)
        # What these writes cost other clients is over then.
        writers.phase = "rest"
        time.sleep(args.sleep)
        writers.phase = "back"
        begun = time.monotonic()
        cluster.osds[2].start()
        wait_up(cluster, 3)
        wait_clean(cluster, 300)
        clean = time.monotonic() - begun
        writers.phase = "after"
        bytes_pushed, pushes = pushed(cluster)
        time.sleep(args.sleep)
        writers.end()
    touched = len({name for name, _, _ in writes})
    print(f"written while it was away: {sum(len(data) for _, data, _ in writes):,} bytes in {touched} objects, and the load")
    print(f"pushed to it: {bytes_pushed:,} bytes in {pushes} changes; clean after {clean:.1f} s")
    for phase in ("before", "away", "rest", "back", "after"):
        times = writers.times.get(phase, [])
        print(f"  {phase:6}  {len(times):6} writes  p50 {quantile(times, 0.5):7.2f} ms  p99 {quantile(times, 0.99):7.2f} ms")
    for osd in (0, 1):
        print(f"  osd.{osd} pace {cluster.ceph('tell', f'osd.{osd}', 'perf', 'dump').get('pace')}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options(parser)
    for name, default in (("objects", 64), ("size", 4 << 20), ("writes", 2000), ("write", 4096), ("clients", 4), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--sleep", type=float, default=5)
    args = parser.parse_args()
    with three_osds(args, "nacre-returns-") as cluster:
        cluster.start()
        measure(args, cluster)


if __name__ == "__main__":
    main()
