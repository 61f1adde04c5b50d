#!/usr/bin/python3
"""Makes the table of docs/benchmarks.md from the JSON that the comparison with a real Ceph writes.

usage: benchmarks.py RESULT.json > TABLE.md

Latency is in flight / operations per second: rados bench prints small averages with an exponent, which is easily misread.
"""
import json
import re
import sys

rows = json.load(open(sys.argv[1]))["rows"]
print("| workload | Ceph ops/s | ours ops/s | ratio | Ceph ms | ours ms | Ceph server µs/op | ours server µs/op | ratio | Ceph all µs/op | ours all µs/op |")
print("|---|---|---|---|---|---|---|---|---|---|---|")
for row in rows:
    depth = int(re.search(r"x(\d+)$", row["workload"])[1])
    a, b = row["a"], row["b"]
    cells = [row["workload"].removeprefix("rados ").replace("x", "×")]
    cells += [f"{a['iops']:,.0f}", f"{b['iops']:,.0f}", f"{row['ops_ratio']:.2f}×"]
    cells += [f"{depth / a['iops'] * 1e3:.3f}", f"{depth / b['iops'] * 1e3:.3f}"]
    cells += [f"{a['server_us']:.1f}", f"{b['server_us']:.1f}", f"{row['cpu_ratio']:.1f}×"]
    cells += [f"{a['all_us']:.1f}", f"{b['all_us']:.1f}"]
    print("| " + " | ".join(cells) + " |")
