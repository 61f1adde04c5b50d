#!/usr/bin/python3
"""Runs the micro-benchmarks (criterion, beside the crates that they measure) and prints the medians against what is demanded. Fails if
something takes more than twice what it may: a neighbour on the machine may cost that much, a mistake costs more.

usage: microbench.py [--markdown] [FILTER]      FILTER: part of a benchmark's name
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import time

# Crates, and what their benchmarks are called.
BENCHES = {"kernels": "checksums", "ec": "codes", "crush": "placement", "maps": "lookup", "msgr": "frames", "store": "store"}
FEATURES = "msgr/bench,store/bench"
TARGET = os.environ.get("CARGO_TARGET_DIR", "target")
RESULTS = os.path.join(TARGET, "criterion")
MAP = os.path.join(TARGET, "tmp", "bench-crush.map")
MAPPINGS = 300_000
SLACK = 2.0

# Most nanoseconds, or least gigabytes per second.
DEMANDS = {
    "crc32c/64 KiB": ("GB/s", 20.0),
    # What GFNI with AVX-512 gives; processors without may take three times as much.
    "ec 4+2/encode/64 KiB": ("GB/s", 30.0),
    "ec 8+3/encode/64 KiB": ("GB/s", 30.0),
    "ec 4+2/decode one/64 KiB": ("GB/s", 30.0),
    "ec 8+3/decode one/64 KiB": ("GB/s", 30.0),
    "crush/3 of 1,000 OSDs": ("ns", 2600.0),
    "map/pool, group and OSDs, cached": ("ns", 50.0),
}


def crushtool():
    """Nanoseconds that Ceph's own tool takes for one mapping of the same map; None if it is not installed."""
    if not shutil.which("crushtool") or not os.path.exists(MAP):
        return None

    def run(count):
        begun = time.monotonic()
        argv = ["crushtool", "-i", MAP, "--test", "--rule", "0", "--num-rep", "3", "--min-x", "0", "--max-x", str(count - 1)]
        subprocess.run(argv, check=True, capture_output=True)
        return time.monotonic() - begun

    start = min(run(1) for _ in range(3))
    return min(run(MAPPINGS) - start for _ in range(3)) / MAPPINGS * 1e9


def results(since):
    """Name, median in nanoseconds and bytes of what was measured since then, in order."""
    found = []
    for top, _, files in os.walk(RESULTS):
        path = os.path.join(top, "estimates.json")
        if os.path.basename(top) != "new" or "estimates.json" not in files or os.path.getmtime(path) < since:
            continue
        with open(os.path.join(top, "benchmark.json")) as f:
            about = json.load(f)
        with open(path) as f:
            median = json.load(f)["median"]["point_estimate"]
        size = (about["throughput"] or {}).get("Bytes")
        found.append((os.path.getmtime(path), about["full_id"], median, size))
    return [row[1:] for row in sorted(found)]


def human(ns):
    for unit, scale in (("ms", 1e6), ("µs", 1e3)):
        if ns >= scale:
            return f"{ns / scale:.2f} {unit}"
    return f"{ns:.1f} ns"


def judge(name, ns, speed):
    """What is demanded, in words, and how far from it the result is: 1.0 just meets it."""
    if name not in DEMANDS:
        return "", 0.0
    unit, limit = DEMANDS[name]
    if unit == "ns":
        return f"≤ {human(limit)}", ns / limit
    return f"≥ {limit:g} GB/s", limit / speed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("filter", nargs="?", default="")
    parser.add_argument("--markdown", action="store_true")
    args = parser.parse_args()
    begun = time.time()
    argv = [os.environ.get("CARGO", "cargo"), "bench", "--features", FEATURES]
    argv += [word for crate, bench in BENCHES.items() for word in ("-p", crate, "--bench", bench)]
    done = subprocess.run([*argv, "--", "--noplot", *filter(None, [args.filter])], stdout=subprocess.DEVNULL)
    if done.returncode:
        sys.exit(done.returncode)
    rows, worst = [], 0.0
    for name, ns, size in results(begun):
        speed = size / ns if size else 0.0
        demand, factor = judge(name, ns, speed)
        worst = max(worst, factor)
        verdict = f"{demand} {'' if factor <= 1 else '**missed**'}".strip() if demand else ""
        rows.append((name, human(ns), f"{speed:.1f} GB/s" if size else "", verdict))
        if name.startswith("crush/"):
            theirs = crushtool()
            rows.append(("crushtool --test, the same map", human(theirs) if theirs else "not installed", "", ""))
    if not rows:
        sys.exit(f"no benchmark is called {args.filter}")
    head = ("what", "median", "", "demanded")
    if args.markdown:
        print("\n".join("| " + " | ".join(row) + " |" for row in [head, ("---",) * 4, *rows]))
    else:
        widths = [max(len(row[i]) for row in [head, *rows]) for i in range(4)]
        for row in [head, *rows]:
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
    if worst > SLACK:
        sys.exit(f"something takes {worst:.1f} times what it may")


if __name__ == "__main__":
    main()
