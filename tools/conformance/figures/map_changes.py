#!/usr/bin/python3
"""Changes of the OSD map a second, and of keys a second, as stock librados gives them to three monitors.

Starts a cluster of three monitors and three OSDs in a temporary folder. So many clients, each with a connection
of its own, give `osd pool set POOL noscrub` one after the other, each to a pool of its own; each change makes a
map, unless changes that come together share one. The same is done with `config-key set`, which makes no map.
Exits with 1 if fewer changes than `--least` a second are acknowledged by the most clients."""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

sys.path.append("/usr/lib/python3/dist-packages")
import rados


def start(nacre, folder, port):
    command = [nacre, "up", "--dir", str(folder), "--port", str(port), "--auth", "none", "--osds", "3", "--mons", "3"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    for line in process.stdout:
        if line.startswith("ready"):
            return process
    raise SystemExit(f"{' '.join(command)} ended with {process.wait()} before it was ready")


def processor_seconds(pid):
    tasks = pathlib.Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def say(cluster, **command):
    result, out, status = cluster.mon_command(json.dumps(command), b"")
    if result != 0:
        raise SystemExit(f"{command}: {result} {status}")
    return out


class Giver(threading.Thread):
    """One client that gives one command after the other until it is told to stop."""

    def __init__(self, conf, number, kind):
        super().__init__()
        self.cluster = rados.Rados(conffile=conf)
        self.cluster.connect()
        self.number, self.kind, self.done, self.goes_on = number, kind, 0, True

    def command(self):
        if self.kind == "keys":
            return dict(prefix="config-key set", key=f"k{self.number}", val=str(self.done))
        return dict(prefix="osd pool set", pool=f"p{self.number}", var="noscrub", val=str(self.done % 2))

    def run(self):
        while self.goes_on:
            say(self.cluster, **self.command())
            self.done += 1


def measure(conf, admin, process, kind, clients, seconds):
    epoch = lambda: json.loads(say(admin, prefix="osd stat", format="json"))["epoch"]
    givers = [Giver(conf, number, kind) for number in range(clients)]
    maps, processor, began = epoch(), processor_seconds(process.pid), time.monotonic()
    for giver in givers:
        giver.start()
    time.sleep(seconds)
    for giver in givers:
        giver.goes_on = False
    for giver in givers:
        giver.join()
    took = time.monotonic() - began
    done = sum(giver.done for giver in givers)
    spent = (processor_seconds(process.pid) - processor) / max(done, 1) * 1e6
    print(f"| {kind} | {clients} | {done / took:.0f} | {(epoch() - maps) / took:.0f} | {spent:.0f} |", flush=True)
    for giver in givers:
        giver.cluster.shutdown()
    return done / took


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nacre", default="target/release/nacre")
    parser.add_argument("--port", type=int, default=3420)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--clients", type=int, nargs="*", default=[1, 4, 16])
    parser.add_argument("--least", type=float, default=200)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="map-changes") as folder:
        folder = pathlib.Path(folder) / "c"
        process = start(args.nacre, folder, args.port)
        try:
            conf = str(folder / "ceph.conf")
            admin = rados.Rados(conffile=conf)
            admin.connect()
            for number in range(max(args.clients)):
                say(admin, prefix="osd pool create", pool=f"p{number}", pg_num=1, size=3)
            while len(json.loads(say(admin, prefix="quorum_status"))["quorum"]) < 3:
                time.sleep(0.2)
            print("| changes of | clients | changes/s | maps/s | processor µs for each change, all monitors and OSDs |")
            print("|---|---|---|---|---|")
            found = 0
            for kind in ["maps", "keys"]:
                for clients in args.clients:
                    rate = measure(conf, admin, process, kind, clients, args.seconds)
                    found = rate if kind == "maps" else found
            admin.shutdown()
        finally:
            process.terminate()
            process.wait(timeout=60)
    if found < args.least:
        print(f"{found:.0f} changes a second, at least {args.least:.0f} are demanded")
        raise SystemExit(1)


if __name__ == "__main__":
    main()
