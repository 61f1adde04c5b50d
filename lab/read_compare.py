#!/usr/bin/python3
"""Reads by `rados bench` from two clusters in turn, and prints a table.

Cached: sets that fit both clusters' caches, written once and read until both had the time to keep them. Cold (--cold): both forget what they
cache before every run (`ceph tell osd.N cache drop`), and a run ends before it comes to what it has read; beside it stands what fio reads
from a file on the same file system right after, with as many requests under way, and what part of that B reads. That file should be B's own (DIR/osd.0/block):
a small one is soon in the memory of the disk's host, which no store's gigabytes are.

usage: read_compare.py --a NAME=CEPH_CONF:PID[,PID...] --b NAME=CEPH_CONF:PID[,PID...] [--repeat 3] [--seconds 3] [--warm 15] [--mib 512]
                       [--cold --raw FILE] [--only REGEX]

Processor time is that of the servers' processes, user and system, for each operation. Ratios read B against A; more than 1.00x is B ahead.
"""
import json
import os
import re
import statistics
import subprocess

from pair import Pair, medians, parser, ratio

POOL, SIZES, DEPTH = "reads", {"4K": 4096, "128K": 131072, "4M": 4 << 20}, 16
# Small objects are many: no more than what is written and read within a quarter of a minute.
MOST_OBJECTS = 60_000


def bench(cluster, label, seconds, kind, *more):
    before = cluster.cpu()
    out = cluster.run("rados", "-p", POOL, "bench", str(seconds), kind, "-t", str(DEPTH), "--run-name", label, *more)
    spent = cluster.cpu() - before
    total = int(re.search(r"^Total (?:reads|writes) made:\s+(\d+)", out, re.M)[1])
    return {"ops": total / float(re.search(r"^Total time run:\s+(\S+)", out, re.M)[1]), "cpu": spent / total * 1e6}


def prepare(cluster, sizes, mib, warm):
    cluster.make_pool(POOL)
    for label, size in sizes.items():
        count = min((mib << 20) // size // len(sizes), MOST_OBJECTS)
        bench(cluster, label, 120, "write", "-b", str(size), "--max-objects", str(count), "--no-cleanup")
        if warm:
            bench(cluster, label, warm, "rand")


def forget(cluster):
    for osd in cluster.run("ceph", "osd", "ls").split():
        cluster.run("ceph", "tell", f"osd.{osd}", "cache", "drop")


def raw(path, kind, size, seconds, turn):
    """Operations per second that fio reads of the written part of a file, each turn elsewhere in it."""
    if not os.path.exists(path):
        subprocess.run(["dd", "if=/dev/urandom", f"of={path}", "bs=1M", "count=2048", "conv=fsync"], check=True, capture_output=True)
    written = os.stat(path).st_blocks * 512 >> 30
    offset = min(turn, max(written - 2, 0))
    argv = ["fio", "--name=raw", f"--filename={path}", "--rw=" + {"seq": "read", "rand": "randread"}[kind], f"--bs={size}", f"--iodepth={DEPTH}",
            "--ioengine=libaio", "--direct=1", "--time_based", f"--runtime={seconds}", "--readonly", f"--offset={offset}g",
            f"--size={max(written - offset, 1)}g", "--output-format=json"]
    out = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    return json.loads(out[out.index("{"):])["jobs"][0]["read"]["iops"]


def main():
    args = parser(__doc__)
    args.add_argument("--seconds", type=int, default=3)
    args.add_argument("--warm", type=int, default=15, help="seconds of reads before")
    args.add_argument("--mib", type=int, default=512, help="of all sets together")
    args.add_argument("--cold", action="store_true")
    args.add_argument("--raw", help="a file for fio, made with 2 GiB if it is not there")
    args.add_argument("--only", default="", help="sizes, as a regular expression")
    args = args.parse_args()
    pair = Pair(args)
    sizes = {label: size for label, size in SIZES.items() if re.fullmatch(args.only or ".*", label)}

    for cluster in pair.all:
        with pair.alone(cluster):
            prepare(cluster, sizes, args.mib, 0 if args.cold else args.warm)

    a, b = pair.names
    with_raw = f" fio, the same disk | {b} of it |" if args.raw else ""
    what = "cold" if args.cold else "cached"
    print(f"| rados bench ×{DEPTH}, {what} | {a} ops/s | {b} ops/s | ratio | {a} server µs/op | {b} server µs/op | ratio |" + with_raw)
    print("|" + "---|" * (9 if args.raw else 7))
    for label, size in sizes.items():
        for kind in ("seq", "rand"):
            def once(cluster):
                if args.cold:
                    forget(cluster)
                return bench(cluster, label, args.seconds, kind)
            samples, disk = [[], []], []
            for turn in range(args.repeat):
                for side, more in zip(samples, pair.measure(1, once)):
                    side += more
                if args.raw:
                    disk.append(raw(args.raw, kind, size, args.seconds, turn))
            x, y = medians(samples)
            row = f"| {kind} {label} | {x['ops']:,.0f} | {y['ops']:,.0f} | {ratio(samples, 'ops'):.2f}× | {x['cpu']:.1f} | {y['cpu']:.1f} | {ratio(samples, 'cpu', True):.1f}× |"
            if disk:
                part = statistics.median(run["ops"] / most for run, most in zip(samples[1], disk))
                row += f" {statistics.median(disk):,.0f} | {part:.0%} |"
            print(row, flush=True)


if __name__ == "__main__":
    main()
