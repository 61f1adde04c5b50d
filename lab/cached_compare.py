#!/usr/bin/python3
"""Reads of a set that fits both clusters' caches, by `rados bench`, against two clusters in turn, and prints a table. The set is written once
and read until both had the time to keep it; then A B A B ... is measured.

usage: cached_compare.py --a NAME=CEPH_CONF:PID[,PID...] --b NAME=CEPH_CONF:PID[,PID...] [--repeat 3] [--seconds 3] [--warm 15] [--mib 512]

Processor time is that of the servers' processes, user and system, for each operation. Ratios read B against A; more than 1.00x is B ahead.
"""
import argparse
import re
import signal
import statistics

from rbd_compare import Cluster

POOL, SIZES, DEPTH = "cached", {"4K": 4096, "128K": 131072, "4M": 4 << 20}, "16"


def bench(cluster, label, seconds, kind, *more):
    before = cluster.cpu()
    out = cluster.run("rados", "-p", POOL, "bench", str(seconds), kind, "-t", DEPTH, "--run-name", label, *more)
    spent = cluster.cpu() - before
    total = int(re.search(r"^Total (?:reads|writes) made:\s+(\d+)", out, re.M)[1])
    return total / float(re.search(r"^Total time run:\s+(\S+)", out, re.M)[1]), spent / total * 1e6


def prepare(cluster, mib, warm):
    if POOL not in cluster.run("rados", "lspools").split():
        cluster.run("ceph", "osd", "pool", "create", POOL, "32", "32")
    for label, size in SIZES.items():
        # Small objects are many: no more than what is written and read within a quarter of a minute.
        count = min((mib << 20) // size // len(SIZES), 30_000)
        bench(cluster, label, 60, "write", "-b", str(size), "--max-objects", str(count), "--no-cleanup")
        bench(cluster, label, warm, "rand")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--a", required=True)
    parser.add_argument("--b", required=True)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--warm", type=int, default=15, help="seconds of reads before")
    parser.add_argument("--mib", type=int, default=512, help="of all sets together")
    args = parser.parse_args()
    pair = [Cluster(args.a), Cluster(args.b)]

    def alone(cluster, work):
        others = [c for c in pair if c is not cluster]
        for other in others:
            other.signal(signal.SIGSTOP)
        try:
            return work()
        finally:
            for other in others:
                other.signal(signal.SIGCONT)

    for cluster in pair:
        alone(cluster, lambda: prepare(cluster, args.mib, args.warm))
    a, b = (c.name for c in pair)
    print(f"| rados bench ×{DEPTH}, cached | {a} ops/s | {b} ops/s | ratio | {a} server µs/op | {b} server µs/op | ratio |\n|" + "---|" * 7)
    for label in SIZES:
        for kind in ("seq", "rand"):
            runs = [[alone(c, lambda: bench(c, label, args.seconds, kind)) for c in pair] for _ in range(args.repeat)]
            ops, cpu = ([statistics.median(run[side][i] for run in runs) for side in (0, 1)] for i in (0, 1))
            faster = statistics.median(y[0] / x[0] for x, y in runs)
            cheaper = statistics.median(x[1] / y[1] for x, y in runs)
            print(f"| {kind} {label} | {ops[0]:,.0f} | {ops[1]:,.0f} | {faster:.2f}× | {cpu[0]:.1f} | {cpu[1]:.1f} | {cheaper:.1f}× |", flush=True)


if __name__ == "__main__":
    main()
