#!/usr/bin/python3
"""How often does `nacre lab compare` err? Trials of one build against itself, and against itself with a slow-down of a known size.

    cargo build --release -p nacre --features slowdown --target-dir target/slowdown
    lab/trials.py --nacre target/slowdown/release/nacre --trials 20 --out trials/

Each trial is an experiment of two clusters, A and B, under load at the same moment, and a comparison of them. In half of the trials B wastes
`--slower` per cent of the processor time of its reactors beside its work (the feature `slowdown` of the program); in the others B is A.
A trial that is there already is not made again, so the trials may be made in pieces (`--most`). The table is printed at the end.
"""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time

PLAN = """
[experiment]
name = "trial"
seconds = {seconds}
repeats = {repeats}
running = "{running}"
noise = false
cooldown = 0
{clients}prefill_objects = 4000
[monitor]
stages = false
[[cluster]]
name = "A"
kind = "nacre"
program = "{a}"
memory = "1G"
{pin}[[cluster]]
name = "B"
kind = "nacre"
program = "{b}"
memory = "1G"
{pin}[[workload]]
kind = "rados"
size = "4K"
depth = {depth}
mode = [{modes}]
"""


def program(folder, name, nacre, slower):
    """A program that is `nacre` with a slow-down; the shell gives its place to it, so processor time is counted as ever."""
    path = os.path.join(folder, name)
    with open(path, "w") as f:
        f.write(f"#!/bin/sh\nNACRE_SLOWDOWN={slower} exec {nacre} \"$@\"\n")
    os.chmod(path, 0o755)
    return path


def trial(args, folder, slower):
    os.makedirs(folder, exist_ok=True)
    plan, results = os.path.join(folder, "plan.toml"), os.path.join(folder, "results")
    with open(plan, "w") as f:
        f.write(PLAN.format(running=args.running, depth=args.depth, pin="" if args.loose else 'cpus = "1"\n', clients="" if args.loose else 'client_cpus = "0"\n',
                             seconds=args.seconds, repeats=args.repeats, modes=", ".join(f'"{m}"' for m in args.mode.split(",")),
                            a=program(folder, "a", args.nacre, 0), b=program(folder, "b", args.nacre, slower)))
    begun = time.monotonic()
    subprocess.run([args.lab, "lab", "run", plan, "--out", results], check=True, stderr=subprocess.DEVNULL)
    took = time.monotonic() - begun
    done = subprocess.run([args.lab, "lab", "compare", "--json", results + ":A", results + ":B"], capture_output=True, text=True)
    if done.returncode not in (0, 1) or not done.stdout:
        sys.exit(f"compare: {done.stderr}")
    found = json.loads(done.stdout)
    found["took"], found["exit"] = took, done.returncode
    with open(os.path.join(folder, "found.json"), "w") as f:
        json.dump(found, f)


def load(folder):
    path = os.path.join(folder, "found.json")
    if os.path.exists(path):
        with open(path) as f:
            return json.load(f)
    return None


def table(trials):
    """Markdown: one row for each figure, with counts over both kinds of trials."""
    figures = sorted({(r["workload"], r["figure"]) for found in trials["slower"] + trials["same"] for r in found["rows"]})
    lines = ["| workload | figure | B / A slowed, middle (least–most) | called worse | B / A same | called different |", "|---|---|---|---|---|---|"]
    for workload, figure in figures:
        cells = []
        for kind, call in (("slower", "worse"), ("same", "differs")):
            rows = [r for found in trials[kind] for r in found["rows"] if (r["workload"], r["figure"]) == (workload, figure)]
            ratios = [r["ratio"] for r in rows]
            span = f"{statistics.median(ratios):.3f} ({min(ratios):.3f}–{max(ratios):.3f})" if ratios else "–"
            cells += [span, f"{sum(r[call] for r in rows)} of {len(rows)}"]
        lines.append(f"| {workload} | {figure} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def verdict(trials):
    lines = []
    for kind, what in (("slower", "slowed"), ("same", "the same")):
        found = trials[kind]
        if not found:
            continue
        server = [f for f in found if any(r["worse"] and r["figure"] == "server_us" for r in f["rows"])]
        tests = sum(len(f["rows"]) for f in found)
        calls = sum(r["differs"] for f in found for r in f["rows"])
        lines.append(f"{len(found)} trials, B {what}: exit 1 in {sum(f['exit'] == 1 for f in found)}, server processor time called worse in "
                     f"{len(server)}, {calls} of {tests} tests called different, in {sum(any(r['differs'] for r in f['rows']) for f in found)} trials; "
                     f"{sum(f['took'] for f in found) / len(found):.0f} s each")
    everything = trials["slower"] + trials["same"]
    deviations = [f["deviation_of_ops"] for f in everything if f["deviation_of_ops"]]
    if deviations:
        pooled = math.sqrt(sum(d * d for d in deviations) / len(deviations))
        least = statistics.median(f["smallest_difference_of_ops"] for f in everything if f["smallest_difference_of_ops"])
        lines.append(f"op/s: two measurements of one thing differ by {100 * pooled:.1f} % (standard deviation of the logarithm of a pair); the smallest "
                     f"difference that one comparison shows in four of five cases is {100 * least:.1f} %")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nacre", required=True, help="a program that was built with the feature `slowdown`")
    parser.add_argument("--lab", help="the program that measures [the same]")
    parser.add_argument("--out", required=True, help="folder for the trials")
    parser.add_argument("--trials", type=int, default=20, help="of each kind")
    parser.add_argument("--most", type=int, default=1000, help="trials to make now, at most")
    parser.add_argument("--slower", type=float, default=5, help="per cent")
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--running", default="together", help="together or frozen, as in an experiment file")
    parser.add_argument("--loose", action="store_true", help="servers and clients on any processor, not on one each")
    parser.add_argument("--depth", type=int, default=64, help="requests under way")
    parser.add_argument("--mode", default="rand", help="of rados bench; several with commas")
    args = parser.parse_args()
    args.nacre = os.path.abspath(args.nacre)
    args.lab = os.path.abspath(args.lab or args.nacre)
    out, made = os.path.abspath(args.out), 0
    trials = {"slower": [], "same": []}
    for i in range(args.trials):
        for kind in ("slower", "same"):
            folder = os.path.join(out, f"{kind}-{i:02}")
            if load(folder) is None and made < args.most:
                trial(args, folder, args.slower if kind == "slower" else 0)
                made += 1
            found = load(folder)
            if found:
                trials[kind].append(found)
    print(table(trials))
    print()
    print(verdict(trials))


if __name__ == "__main__":
    main()
