#!/usr/bin/python3
"""Fills an OSD with very many small objects and shows what memory it takes: while it is filled, while it is benchmarked, after a
restart, while it lists; and how long it takes to start after kill -9.

usage: memory.py --nacre PATH [--objects 1000000] [--size 4096] [--seconds 5] [--limit-mib 256] [--start-seconds 2] [--dir DIR] [-- MORE ARGUMENTS OF nacre up]
"""
import argparse
import ctypes
import os
import shutil
import sys
import tempfile
import threading
import time

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", room) for room in ("lib",)]
from live import Cluster  # noqa: E402

MIB = 1 << 20


class Loader:
    """Writes objects with many operations in flight, straight at librados' C functions: the Python binding takes longer than the server."""

    def __init__(self, conf, pool):
        self.lib = ctypes.CDLL("librados.so.2")
        self.cluster, self.ioctx = ctypes.c_void_p(), ctypes.c_void_p()
        self.ok(self.lib.rados_create(ctypes.byref(self.cluster), b"admin"))
        self.ok(self.lib.rados_conf_read_file(self.cluster, conf.encode()))
        self.ok(self.lib.rados_connect(self.cluster))
        self.ok(self.lib.rados_ioctx_create(self.cluster, pool.encode(), ctypes.byref(self.ioctx)))

    def ok(self, result):
        if result < 0:
            raise SystemExit(f"librados: {os.strerror(-result)}")

    def write(self, first, last, size, depth=64):
        data = b"m" * size
        ring = []
        for n in range(first, last):
            completion = ctypes.c_void_p()
            self.ok(self.lib.rados_aio_create_completion2(None, None, ctypes.byref(completion)))
            name = b"object-%d" % n
            self.ok(self.lib.rados_aio_write_full(self.ioctx, name, completion, data, ctypes.c_size_t(size)))
            ring.append(completion)
            if len(ring) == depth:
                self.finish(ring)
        self.finish(ring)

    def finish(self, ring):
        for completion in ring:
            self.lib.rados_aio_wait_for_complete(completion)
            self.ok(self.lib.rados_aio_get_return_value(completion))
            self.lib.rados_aio_release(completion)
        ring.clear()


class Watch:
    """Samples the memory of the process until it is stopped."""

    def __init__(self, cluster):
        self.cluster, self.peak, self.over = cluster, 0, False
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.over:
            try:
                self.peak = max(self.peak, self.cluster.rss()[0])
            except (OSError, KeyError):
                return
            time.sleep(0.1)

    def stop(self):
        self.over = True
        self.thread.join()
        return self.peak


def watched(cluster, what, limit, work):
    """Does something and shows the memory meanwhile."""
    watch, begun = Watch(cluster), time.monotonic()
    work()
    took, peak = time.monotonic() - begun, watch.stop()
    verdict = "" if peak <= limit else "  TOO MUCH"
    print(f"{what:34} {took:8.1f} s   {peak / MIB:7.0f} MiB{verdict}", flush=True)
    return peak <= limit


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nacre", required=True)
    parser.add_argument("--objects", type=int, default=1_000_000)
    parser.add_argument("--size", type=int, default=4096)
    parser.add_argument("--limit-mib", type=int, default=256, help="ceiling of the OSD, which holds for the process: with the monitor")
    parser.add_argument("--start-seconds", type=float, default=2.0)
    parser.add_argument("--seconds", type=int, default=5, help="of each benchmark")
    parser.add_argument("--dir")
    parser.add_argument("more", nargs="*")
    args = parser.parse_args()
    nacre, limit = os.path.abspath(args.nacre), args.limit_mib * MIB
    top = tempfile.mkdtemp(prefix="nacre-memory-", dir=args.dir)
    good = True
    try:
        with Cluster(nacre, os.path.join(top, "c"), "--osds", 1, "--memory", f"{args.limit_mib}M", *args.more) as cluster:
            cluster.start()
            cluster.run("ceph", "osd", "pool", "create", "p", 32)
            loader = Loader(cluster.conf, "p")
            good &= watched(cluster, f"write {args.objects} of {args.size} bytes", limit, lambda: loader.write(0, args.objects, args.size))
            for size, depth in (("4M", 16), ("64K", 64)):
                bench = ["rados", "-p", "p", "bench", args.seconds, "write", "-b", size, "-t", depth, "--no-cleanup"]
                good &= watched(cluster, f"rados bench write {size} x{depth}", limit, lambda: cluster.run(*bench, timeout=120))
                seq = ["rados", "-p", "p", "bench", args.seconds, "seq", "-t", depth]
                good &= watched(cluster, f"rados bench seq {size} x{depth}", limit, lambda: cluster.run(*seq, timeout=120))
            cluster.kill()
            seconds = cluster.start()
            verdict = "" if seconds <= args.start_seconds else "  TOO LONG"
            print(f"{'start after kill -9':34} {seconds:8.2f} s   {cluster.rss()[1] / MIB:7.0f} MiB{verdict}", flush=True)
            good &= seconds <= args.start_seconds
            count = []
            good &= watched(cluster, "rados ls", limit, lambda: count.append(cluster.run("rados", "-p", "p", "ls", timeout=1200).stdout.count("object-")))
            assert count[0] == args.objects, f"{count[0]} objects are listed"
            good &= watched(cluster, "overwrite a tenth", limit, lambda: Loader(cluster.conf, "p").write(0, args.objects // 10, args.size))
            cluster.stop()
    finally:
        shutil.rmtree(top, ignore_errors=True)
    sys.stdout.flush()
    # The C library keeps threads of its own, which Python's end does not wait for.
    os._exit(0 if good else 1)


if __name__ == "__main__":
    main()
