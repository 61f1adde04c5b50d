#!/usr/bin/python3
"""Starts a cluster of one monitor and three OSDs, and looks how long it takes to `ready`, what memory it has then, and how much
processor time it takes while nobody asks for anything. Exits with 1 if a limit is broken.

The start is measured five times and the fastest counts: what else runs on the machine makes it only slower. Idle processor time
is what the process was charged, so it does not depend on the others."""

import argparse
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

STARTS = 5
READY_SECONDS = 1.0
MEMORY_MIB = 64.0
IDLE_PERCENT = 0.5


def start(nacre, folder, port):
    """Gives the process, and the seconds from its start to `ready`."""
    command = [nacre, "up", "--dir", str(folder), "--port", str(port), "--auth", "none"]
    if not folder.exists():
        command += ["--osds", "3"]
    began = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    for line in process.stdout:
        if line.startswith("ready"):
            return process, time.monotonic() - began
    raise SystemExit(f"{' '.join(command)} ended with {process.wait()} before it was ready")


def stop(process):
    process.send_signal(signal.SIGTERM)
    if process.wait(timeout=60) != 0:
        raise SystemExit(f"nacre up ended with {process.returncode}")


def memory_mib(pid):
    """What the process has for itself, and its part of what it shares."""
    for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    raise SystemExit("the kernel does not tell the memory of processes")


def processor_seconds(pid):
    """All threads, in the program and in the kernel, in nanoseconds' resolution."""
    total = 0
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        total += int((task / "schedstat").read_text().split()[0])
    return total / 1e9


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nacre", default="target/release/nacre")
    parser.add_argument("--port", type=int, default=24100)
    parser.add_argument("--seconds", type=float, default=20, help="how long idle time is measured")
    parser.add_argument("--settle", type=float, default=5, help="how long to wait for the start's after-effects")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="nacre-idle-") as scratch:
        folder = pathlib.Path(scratch) / "cluster"
        starts = []
        for n in range(STARTS):
            process, seconds = start(os.path.abspath(args.nacre), folder, args.port)
            starts.append(seconds)
            if n < STARTS - 1:
                stop(process)
        time.sleep(args.settle)
        before, began = processor_seconds(process.pid), time.monotonic()
        time.sleep(args.seconds)
        idle = (processor_seconds(process.pid) - before) / (time.monotonic() - began) * 100
        memory = memory_mib(process.pid)
        stop(process)
    rows = [
        ("`nacre up` to `ready`, new cluster (s)", starts[0], None),
        ("`nacre up` to `ready`, fastest (s)", min(starts), READY_SECONDS),
        ("memory, 1 monitor and 3 OSDs, idle (MiB)", memory, MEMORY_MIB),
        ("processor time, idle (% of a core)", idle, IDLE_PERCENT),
    ]
    broken = False
    for what, value, limit in rows:
        wrong = limit is not None and value > limit
        broken |= wrong
        bound = f"at most {limit}" if limit is not None else ""
        print(f"{what:45} {value:8.2f}  {bound}{'  BROKEN' if wrong else ''}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
