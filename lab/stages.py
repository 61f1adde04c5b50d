#!/usr/bin/python3
"""Where the time of a small write goes, in two clusters: stages that their OSDs tell in `perf dump`, beside what `rados bench` sees.

usage: stages.py --a NAME=CEPH_CONF:PID[,PID...] --b NAME=CEPH_CONF:PID[,PID...] [--seconds 5] [--depths 1,16]

Stages have other borders in each: see the column of explanations. Means in µs; what the client sees and no stage shows is the network, the client
and waiting for a processor.
"""
import json
import re

from pair import Pair, parser

POOL = "stages"
# A path in `perf dump`, and what it is.
STAGES = {
    "ceph": [
        ("osd.op_w_latency", "in the OSD, from its queue on"),
        ("osd.op_w_prepare_latency", "until it is given to the store"),
        ("bluestore.txc_submit_lat", "until the store's transaction is submitted"),
        ("bluestore.txc_throttle_lat", "held back by the store"),
        ("bluestore.state_kv_queued_lat", "until the thread that commits takes it"),
        ("bluestore.state_kv_commiting_lat", "until RocksDB has committed it"),
        ("bluestore.kv_flush_lat", "of that, one flush of the disk"),
        ("bluestore.txc_commit_lat", "in the store, until it is durable"),
    ],
    "nacre": [
        ("stages.write.total", "in the OSD, from its message's end to its reply's hand-over"),
        ("stages.write.queued", "until its group takes it"),
        ("stages.write.executing", "until the store has it"),
        ("stages.write.journaling", "until it is durable"),
        ("stages.write.replying", "until the reply is handed to the kernel"),
    ],
}


def counters(cluster):
    dump = json.loads(cluster.run("ceph", "tell", "osd.0", "perf", "dump"))
    # Both tell who they are by what they count.
    kind = "nacre" if "stages" in dump else "ceph"
    found = {}
    for path, what in STAGES[kind]:
        value = dump
        for name in path.split("."):
            value = value.get(name, {})
        found[path] = (value.get("avgcount", 0), value.get("sum", 0), what)
    return found


def measure(cluster, depth, seconds):
    cluster.make_pool(POOL)
    run = f"{depth}.{len(cluster.run('rados', '-p', POOL, 'ls'))}"
    before = counters(cluster)
    out = cluster.run("rados", "-p", POOL, "bench", str(seconds), "write", "-b", "4096", "-t", str(depth), "--no-cleanup", "--run-name", run)
    after = counters(cluster)
    ops = int(re.search(r"^Total writes made:\s+(\d+)", out, re.M)[1])
    took = float(re.search(r"^Total time run:\s+(\S+)", out, re.M)[1])
    print(f"| {cluster.name} ×{depth} | rados bench | {depth * took / ops * 1e6:,.0f} | what the client sees |")
    for path, (count, total, what) in after.items():
        n = count - before[path][0]
        if n:
            print(f"| | `{path}` | {(total - before[path][1]) / n * 1e6:,.0f} | {what} |", flush=True)


def main():
    args = parser(__doc__)
    args.add_argument("--seconds", type=int, default=5)
    args.add_argument("--depths", default="1,16")
    args = args.parse_args()
    pair = Pair(args)
    print("| 4 KiB writes | stage | mean µs | |\n|---|---|---|---|")
    for depth in map(int, args.depths.split(",")):
        for cluster in pair.all:
            with pair.alone(cluster):
                measure(cluster, depth, args.seconds)


if __name__ == "__main__":
    main()
