#!/usr/bin/python3
"""Tells what `rbd perf image` and the commands behind it show while stock clients write and read, in a form that can be compared: one
line a step, nothing in it that differs from run to run. Run against a real cluster it makes the expected story; run against ours it must
tell the same.

usage: perf_story.py CEPH_CONF
The pools `rbd` and `volumes` exist and are for images.
"""
import json
import os
import re
import subprocess
import sys
import time

os.environ["CEPH_CONF"] = sys.argv[1]
FIGURES = ["write_ops", "read_ops", "write_bytes", "read_bytes", "write_latency", "read_latency"]
# What is done to each image: bytes of an operation, and whether it writes or reads.
LOADS = {"rbd/writes": ("write", 4096), "rbd/reads": ("read", 8192), "rbd/apart/inside": ("write", 16384), "rbd/spread": ("write", 4096)}
PATIENCE = 90


def run(*command, seconds=120):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds)
    return done.returncode, done.stdout, done.stderr


def must(*command):
    code, _, err = run(*command)
    assert code == 0, (command, err)


def tell(step, result):
    print(f"{step}: {result}", flush=True)


def bench(image, kind, size):
    # No cache: each operation reaches an OSD as it is.
    return subprocess.Popen(
        ["rbd", "bench", image, "--rbd-cache=false", "--io-type", kind, "--io-size", str(size), "--io-threads", "2", "--io-total", "1T",
         "--io-pattern", "rand"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def figures(what, *args):
    """The figures by full image name, and the whole answer."""
    code, out, err = run("ceph", "rbd", "perf", "image", what, *args, "--format", "json")
    assert code == 0, err
    answer = json.loads(out)
    images = {}
    for entry in answer[what]:
        (key, values), = entry.items()
        index, name = key.split("/", 1)
        images[answer["pool_descriptors"][index] + "/" + name] = values
    return images, answer


def wait_for(names, what, *args):
    """Asks until images of these names (and their figures) are there."""
    until = time.monotonic() + PATIENCE
    while True:
        images, answer = figures(what, *args)
        if names <= set(images):
            return images, answer
        if time.monotonic() > until:
            return images, answer
        time.sleep(1)


def judge(image, values, rates):
    """In words: whether figures are what its load must make of them."""
    kind, size = LOADS[image]
    get = dict(zip(FIGURES, values))
    other = "read" if kind == "write" else "write"
    said = []
    said.append(f"{kind}s" if get[f"{kind}_ops"] > 0 else f"no {kind}s")
    mean = get[f"{kind}_bytes"] / max(get[f"{kind}_ops"], 1e-9)
    said.append(f"of {size} bytes" if size * 0.9 < mean < size * 1.1 else f"of {mean} bytes instead of {size}")
    nanos = get[f"{kind}_latency"] / (1 if rates else max(get[f"{kind}_ops"], 1))
    said.append("in a plausible time" if 1e3 < nanos < 2e10 else f"in {nanos} ns")
    # The lock of an image is taken with its header, not with its data.
    said.append(f"no {other}s" if get[f"{other}_ops"] == 0 else f"{other}s too")
    return " ".join(said)


def stories():
    for what, rates in (("stats", True), ("counters", False)):
        images, answer = wait_for(set(LOADS), what)
        tell(f"{what} fields", sorted(k.replace(what, "LIST") for k in answer))
        tell(f"{what} figures", answer[f"{what[:-1]}_descriptors"])
        tell(f"{what} numbers", sorted({type(v).__name__ for values in images.values() for v in values}))
        tell(f"{what} clock", abs(answer["timestamp"] - time.time()) < 60)
        for image in sorted(LOADS):
            tell(f"{what} of {image}", judge(image, images[image], rates) if image in images else "not shown")
        tell(f"{what} of others", sorted(set(images) - set(LOADS)))
    for spec, names in (("rbd/apart", {"rbd/apart/inside"}), ("rbd", {"rbd/writes", "rbd/reads"}), ("volumes", set())):
        images, answer = wait_for(names, "stats", spec)
        tell(f"stats of {spec}", sorted(set(images) - {"rbd/spread"}))
    images, _ = wait_for({"rbd/writes"}, "stats", "rbd", "write_bytes")
    order = [dict(zip(FIGURES, v))["write_bytes"] for v in images.values()]
    tell("sorted by write_bytes", order == sorted(order, reverse=True))
    for args in (["rbd/"], ["/"], ["a/b/c"], ["nosuch"], ["rbd", "nothing"]):
        code, _, err = run("ceph", "rbd", "perf", "image", "stats", *args)
        tell(f"stats {' '.join(args)}", f"{code} {err.strip().splitlines()[-1]}")
    cli()


def cli():
    code, out, err = run("rbd", "perf", "image", "iostat", "--format", "json")
    rows = json.loads(out) if code == 0 else []
    tell("iostat json", (code, sorted(rows[0]) if rows else err))
    tell("iostat json images", sorted("/".join(filter(None, (r["pool"], r["pool_namespace"], r["image"]))) for r in rows))
    code, out, _ = run("rbd", "perf", "image", "iostat", "--iterations", "1")
    lines = [line.split() for line in out.splitlines() if line.strip()]
    tell("iostat columns", (code, lines[0]))
    tell("iostat images", sorted(line[0] for line in lines[1:]))
    code, out, _ = run("rbd", "perf", "image", "iostat", "rbd/apart", "--iterations", "1", "--sort-by", "write-bytes")
    lines = [line.split() for line in out.splitlines() if line.strip()]
    tell("iostat of a namespace", (code, [line[0] for line in lines]))
    # It draws on a terminal until it is interrupted.
    _, out, _ = run("timeout", "-s", "INT", "20", "script", "-qec", "env TERM=xterm COLUMNS=120 LINES=24 rbd perf image iotop", "/dev/null")
    tell("iotop shows", sorted(name for name in LOADS if re.search(re.escape(name), out)))


def main():
    must("rbd", "namespace", "create", "rbd/apart")
    for image in ("rbd/writes", "rbd/reads", "rbd/apart/inside", "rbd/idle"):
        must("rbd", "create", image, "--size", "16M")
    must("rbd", "create", "rbd/spread", "--size", "16M", "--data-pool", "volumes")
    # So that reads find something.
    must("rbd", "bench", "rbd/reads", "--io-type", "write", "--io-size", "4M", "--io-total", "16M", "--io-pattern", "full-seq")
    loads = [bench(image, *load) for image, load in LOADS.items()]
    try:
        stories()
    finally:
        for load in loads:
            load.terminate()
        for load in loads:
            load.wait()


main()
