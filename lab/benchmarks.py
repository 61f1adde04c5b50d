#!/usr/bin/python3
"""Makes the tables of docs/benchmarks.md from the JSON that the comparison with a real Ceph writes.

usage: benchmarks.py [--release 18.2] SHIPPED.json [TUNED.json] > TABLE.md

SHIPPED: Ceph as Debian ships it against Nacre. TUNED: the same with Ceph's OSD on tcmalloc. --release: which Ceph it is, 16.2 by
default; what is demanded differs. Several files may stand for one, joined by commas: their rows follow each other. Ratios are medians over the alternating
runs, Nacre ahead where they are above 1. Latency is in flight / operations per second: rados bench prints small averages with an
exponent, which is easily misread.
"""
import argparse
import json
import re
import sys

# What is demanded against Ceph as shipped: operations (or latency, at depth 1) and all processor time of the machine but the client's.
MUSTS = [
    (r"rados write 4K x16", 3, 5),
    (r"rados write 4K x1", 3, None),
    (r"rados (seq|rand) 4K x16", 1.5, 4),
    (r"rados (seq|rand) 4K x1", 1.25, None),
    (r"rados \w+ 128K x16", 1.5, None),
    (r"rados write 4M x16", 1.4, 3),
    (r"rados (seq|rand) 4M x16", 1.2, 2),
    (r"rbd randwrite 4k x32", 2.5, 4),
    (r"rbd randread 4k x32", 1.5, 4),
    (r"rbd randwrite 4k x1", 2.5, None),
    (r"rbd randread 4k x1", 1 / 0.7, None),
    (r"rbd write 4M x4", 1.3, None),
    (r"rbd read 4M x4", 1.2, None),
]
# The same against release 18.2.
MUSTS_18 = [
    (r"rados write 4K x16", 2.5, 5),
    (r"rados (seq|rand) 4K x16", 1.5, 4),
    (r"rados rand 4M x16", 1.2, 1.5),
]


def must(workload):
    demands = MUSTS_18 if RELEASE == "18.2" else MUSTS
    return next(((ops, cpu) for pattern, ops, cpu in demands if re.fullmatch(pattern, workload)), (None, None))


def ratio(value, least):
    if least is None:
        return f"{value:.2f}×"
    return f"{value:.2f}× ({'' if value >= least else '**not** '}≥ {least:.3g})"


def figures(side, depth):
    return [f"{side['iops']:,.0f}", f"{depth / side['iops'] * 1e3:.3f}", f"{side['server_us']:.1f}", f"{side['all_us']:.1f}"]


def table(rows, name):
    columns = ["ops/s", "ms", "server µs/op", "all µs/op"]
    head = ["workload"] + [f"{name} {c}" for c in columns] + [f"ours {c}" for c in columns] + ["operations", "all processor time"]
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for row in rows:
        depth = int(re.search(r"x(\d+)$", row["workload"])[1])
        ops, cpu = must(row["workload"]) if name == "Ceph" else (None, None)
        cells = [row["workload"].replace(" x", " ×")] + figures(row["a"], depth) + figures(row["b"], depth)
        print("| " + " | ".join(cells + [ratio(row["ops_ratio"], ops), ratio(row["all_ratio"], cpu)]) + " |")


def rows(paths):
    return [row for path in paths.split(",") for row in json.load(open(path))["rows"]]


arguments = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1])
arguments.add_argument("--release", default="16.2", choices=["16.2", "18.2"])
arguments.add_argument("files", nargs="+")
given = arguments.parse_args()
RELEASE = given.release
for paths, name in zip(given.files, ["Ceph", "tuned Ceph"]):
    table(rows(paths), name)
    print()
