#!/usr/bin/python3
"""Measures block images with fio's rbd engine (stock librbd, rbd cache off) against two clusters in turn, A B A B ..., and prints a table.

usage: rbd_compare.py --a NAME=CEPH_CONF:PID[,PID...] --b NAME=CEPH_CONF:PID[,PID...] [--repeat 3] [--seconds 5] [--only REGEX]
                      [--json FILE] [--pool lab] [--size 1G]

A cluster is its ceph.conf and the process ids of its servers. While one is measured the servers of the other are stopped with SIGSTOP.
For each workload: operations/s, mean and 99th-percentile latency, processor time of the servers for each operation (user and system, from
/proc/PID/stat), and bytes that the servers sent to disk for each byte of user data (write_bytes of /proc/PID/io; what a server still holds
in memory when a run ends is written by the next one, so after each write workload the servers are given SETTLE seconds, which are counted in the bytes
and not in the rest).

Ratios read B against A; more than 1.00x is B ahead.
"""
import json
import re
import time

from pair import Pair, medians, parser, ratio

SETTLE = 6

WORKLOADS = [
    ("4K randwrite x32", "randwrite", "4k", 32),
    ("4K randread x32", "randread", "4k", 32),
    ("4K randwrite x1", "randwrite", "4k", 1),
    ("4K randread x1", "randread", "4k", 1),
    ("4M write x4", "write", "4M", 4),
    ("4M read x4", "read", "4M", 4),
]


def prepare(cluster, pool, size):
    """An image that is fully written, so that what is measured are overwrites."""
    if cluster.make_pool(pool):
        cluster.run("rbd", "pool", "init", pool)
    if "img" not in cluster.run("rbd", "ls", pool).split():
        cluster.run("rbd", "create", f"{pool}/img", "--size", size)
        cluster.run("rbd", "config", "pool", "set", pool, "rbd_cache", "false")
        cluster.run("rbd", "bench", f"{pool}/img", "--io-type", "write", "--io-size", "4M", "--io-total", size)


def measure(cluster, pool, size, seconds, rw, block, depth):
    argv = ["fio", "--name=lab", "--ioengine=rbd", "--clientname=admin", f"--pool={pool}", "--rbdname=img", f"--rw={rw}", f"--bs={block}",
            f"--iodepth={depth}", "--direct=1", "--time_based", f"--runtime={seconds}", f"--size={size}", "--output-format=json", "--randrepeat=0"]
    cpu, written = cluster.cpu(), cluster.written()
    out = cluster.run(*argv)
    cpu = cluster.cpu() - cpu
    job = json.loads(out[out.index("{"):])["jobs"][0]
    side = job["write" if "write" in rw else "read"]
    result = {
        "iops": side["iops"],
        "mbs": side["bw_bytes"] / 1e6,
        "lat_us": side["clat_ns"]["mean"] / 1e3,
        "p99_us": side["clat_ns"]["percentile"]["99.000000"] / 1e3,
        "server_us": cpu / max(side["total_ios"], 1) * 1e6,
    }
    if "write" in rw:
        time.sleep(SETTLE)
        result["written"] = (cluster.written() - written) / max(side["io_bytes"], 1)
    return result


def row(name, samples):
    """Medians of both, and the medians of the ratios of neighbours."""
    a, b = medians(samples)
    return {
        "workload": name,
        "a": a,
        "b": b,
        "iops": ratio(samples, "iops"),
        "latency": ratio(samples, "lat_us", True),
        "cpu": ratio(samples, "server_us", True),
    }


def cells(r, names):
    a, b = r["a"], r["b"]
    large = r["workload"].startswith("4M")
    speed = lambda s: f"{s['mbs']:,.0f} MB/s" if large else f"{s['iops']:,.0f}"
    disk = lambda s: f"{s['written']:.2f}" if "written" in s else "–"
    return [r["workload"].replace("x", "×"), speed(a), speed(b), f"{r['iops']:.2f}×", f"{a['lat_us']:,.0f}", f"{b['lat_us']:,.0f}", f"{r['latency']:.2f}×",
            f"{a['p99_us']:,.0f}", f"{b['p99_us']:,.0f}", f"{a['server_us']:.1f}", f"{b['server_us']:.1f}", f"{r['cpu']:.1f}×", disk(a), disk(b)]


def main():
    args = parser(__doc__)
    args.add_argument("--seconds", type=int, default=5)
    args.add_argument("--only", default="")
    args.add_argument("--json")
    args.add_argument("--pool", default="lab")
    args.add_argument("--size", default="1G")
    args = args.parse_args()
    pair = Pair(args)
    names = pair.names
    for cluster in pair.all:
        prepare(cluster, args.pool, args.size)
    head = ["workload", *(f"{n} ops/s" for n in names), "ratio", *(f"{n} µs" for n in names), "ratio", *(f"{n} p99 µs" for n in names),
            *(f"{n} server µs/op" for n in names), "ratio", *(f"{n} disk bytes/byte" for n in names)]
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    rows = []
    for name, rw, block, depth in WORKLOADS:
        if not re.search(args.only, name):
            continue
        samples = pair.measure(args.repeat, lambda cluster: measure(cluster, args.pool, args.size, args.seconds, rw, block, depth))
        rows.append(row(name, samples))
        print("| " + " | ".join(cells(rows[-1], names)) + " |", flush=True)
    if args.json:
        with open(args.json, "w") as f:
            json.dump({"a": names[0], "b": names[1], "rows": rows}, f, indent=1)


if __name__ == "__main__":
    main()
