#!/usr/bin/python3
"""Clusters in trouble in which nobody asks for anything: nobody may be busy.

A monitor and three OSDs, each a process. After each plight some seconds pass, then the processor time, the resident memory and the log
lines of those that live are measured for --look seconds:

  alone     the monitor and two OSDs are killed (SIGKILL): one OSD is left
  suspended another OSD and the monitor are suspended (SIGSTOP), with their connections standing
  full      the map calls all OSDs full, and a client waits with a write
  twice     a rule names an OSD twice: epochs of the OSD map are counted, too
  looping   a client asks the monitor in a loop: its share is bounded (a tenth of a processor is allowed, beside --limit)

Processor time is what the process was charged, so it does not depend on what else runs on the machine. `perf dump` of those that live
must say that no turn was in vain. Exits with 1 if a limit is broken.

usage: at_rest.py --nacre PATH [--look 8] [--limit 3] [--dir DIR] [--port P] [--driver uring|epoll] [--only alone,twice]
"""
import sys
import argparse
import json
import os
import subprocess
import threading
import time

import rados

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", room) for room in ("lib",)]
from harness import Failed
from thrash_cluster import options, three_osds

TICKS = os.sysconf("SC_CLK_TCK")
# Seconds in which those that live find out how things are.
SETTLE = 8
# Log lines in a second, and growth of the resident memory in KiB, that a daemon at rest may have.
LINES, GROWTH = 1.0, 4096
# Epochs of the OSD map in a look.
EPOCHS = 3


def charged(daemon):
    """Seconds of processor time of a process."""
    with open(f"/proc/{daemon.process.pid}/stat") as f:
        fields = f.read().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def resident(daemon):
    """KiB of resident memory."""
    with open(f"/proc/{daemon.process.pid}/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))


def lines(daemon):
    with open(daemon.log, errors="replace") as f:
        return f.read().count("\n")


def look(args, what, daemons, extra=0.0):
    """Measures daemons that nobody asks for anything; `extra` percent of a processor are allowed beside the limit."""
    then = {daemon.name: (charged(daemon), resident(daemon), lines(daemon)) for daemon in daemons}
    begun = time.monotonic()
    time.sleep(args.look)
    seconds = time.monotonic() - begun
    wrong = []
    for daemon in daemons:
        cpu, memory, said = then[daemon.name]
        percent = 100 * (charged(daemon) - cpu) / seconds
        grown, more = resident(daemon) - memory, (lines(daemon) - said) / seconds
        print(f"  {what}: {daemon.name} takes {percent:.1f} % of a processor, {grown} KiB more, {more:.1f} lines a second")
        if percent > args.limit + extra:
            wrong.append(f"{what}: {daemon.name} takes {percent:.1f} % of a processor, {args.limit + extra:.1f} % are allowed")
        if grown > GROWTH:
            wrong.append(f"{what}: {daemon.name} takes {grown} KiB more in {seconds:.0f} s, {GROWTH} are allowed")
        if more > LINES:
            wrong.append(f"{what}: {daemon.name} writes {more:.1f} lines a second, {LINES} are allowed: {daemon.said()[-600:]}")
    if wrong:
        raise Failed(wrong)


def epoch(cluster):
    return cluster.ceph("osd", "dump")["epoch"]


def not_in_vain(cluster, names):
    for name in names:
        reactor = cluster.ceph("tell", name, "perf", "dump")["reactor"]
        print(f"  {name}: {reactor}")
        if reactor["held_rounds"] or reactor["vain_rounds"] > 100 + reactor["idle_rounds"] // 2:
            raise Failed([f"{name} was woken for nothing: {reactor}"])


def alone(args, cluster):
    for daemon in (cluster.mon, *cluster.osds[1:]):
        daemon.kill()
    time.sleep(SETTLE)
    look(args, "alone", cluster.osds[:1])
    cluster.start()
    cluster.healed(60)
    not_in_vain(cluster, ["osd.0"])


def suspended(args, cluster):
    for daemon in (cluster.mon, cluster.osds[1]):
        daemon.stop()
    time.sleep(SETTLE)
    look(args, "suspended", [cluster.osds[0], cluster.osds[2]])
    cluster.start()
    cluster.healed(60)


def full(args, cluster):
    ratios = [("full", 0.95), ("backfillfull", 0.9), ("nearfull", 0.85)]
    for what, _ in reversed(ratios):
        cluster.ceph("osd", f"set-{what}-ratio", "0.000001", text=True)
    time.sleep(SETTLE)
    # It waits for room, as stock clients do.
    argv = ["rados", "-c", cluster.conf, "-p", "data", "put", "waits", cluster.conf]
    waiting = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(2)
    try:
        look(args, "full", cluster.all)
        if waiting.poll() is not None:
            raise Failed(["full: a write was answered, though all OSDs are full"])
    finally:
        for what, ratio in ratios:
            cluster.ceph("osd", f"set-{what}-ratio", ratio, text=True)
        try:
            waiting.wait(timeout=30)
        except subprocess.TimeoutExpired:
            waiting.kill()
            raise Failed(["full: there is room again, and a write still waits"]) from None


def twice(args, cluster):
    """A rule that takes an OSD, and the same one again."""
    base = os.path.dirname(cluster.conf)
    binary, text = os.path.join(base, "crush"), os.path.join(base, "crush.txt")
    cluster.ceph("osd", "getcrushmap", "-o", binary, text=True)
    subprocess.run(["crushtool", "-d", binary, "-o", text], check=True)
    with open(text, "a") as f:
        choices = "\n".join(f"step take default\nstep choose firstn {n} type osd\nstep emit" for n in (1, -1))
        f.write(f"rule twice {{\nid 7\ntype replicated\nmin_size 1\nmax_size 10\n{choices}\n}}\n")
    subprocess.run(["crushtool", "-c", text, "-o", binary], check=True)
    cluster.ceph("osd", "setcrushmap", "-i", binary, text=True)
    cluster.ceph("osd", "pool", "create", "twice", "8", "8", "replicated", "twice", text=True)
    for var, value in (("size", 2), ("min_size", 1), ("pg_autoscale_mode", "off")):
        cluster.ceph("osd", "pool", "set", "twice", var, value, text=True)
    time.sleep(SETTLE)
    then = epoch(cluster)
    look(args, "twice", cluster.all)
    more = epoch(cluster) - then
    states = {(g["state"], tuple(g["up"]), tuple(g["acting"])) for g in cluster.groups() if len(set(g["up"])) < len(g["up"])}
    print(f"  twice: {more} epochs; {sorted(states)}")
    if more > EPOCHS:
        raise Failed([f"twice: {more} new epochs in {args.look} s, {EPOCHS} are allowed"])
    # As a real 16.2.15 has it.
    odd = [s for s in states if s[0] != "active+undersized+remapped" or len(s[2]) != 1]
    if odd or not states:
        raise Failed([f"twice: groups must be active+undersized+remapped with one acting OSD: {sorted(states)}"])
    cluster.ceph("config", "set", "mon", "mon_allow_pool_delete", "true", text=True)
    cluster.ceph("osd", "pool", "rm", "twice", "twice", "--yes-i-really-really-mean-it", text=True)


def looping(args, cluster):
    """A client that asks again as soon as it was answered."""
    client = rados.Rados(conffile=cluster.conf)
    client.connect()
    ends, asked = threading.Event(), [0]

    def ask():
        while not ends.is_set():
            client.mon_command(json.dumps({"prefix": "osd dump", "format": "json"}), b"")
            asked[0] += 1

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    # What may come at once is used up.
    time.sleep(SETTLE + 4)
    then = asked[0]
    try:
        look(args, "looping", [cluster.mon], extra=10)
        rate = (asked[0] - then) / args.look
        print(f"  looping: {asked[0]} commands, {rate:.0f} a second at last")
        begun = time.monotonic()
        cluster.ceph("osd", "stat")
        if time.monotonic() - begun > 5:
            raise Failed([f"looping: another client waited {time.monotonic() - begun:.1f} s"])
    finally:
        ends.set()
        thread.join(10)
        client.shutdown()


PLIGHTS = {"alone": alone, "suspended": suspended, "full": full, "twice": twice, "looping": looping}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options(parser)
    parser.add_argument("--look", type=float, default=8)
    parser.add_argument("--limit", type=float, default=3, help="percent of a processor that a daemon at rest may take")
    parser.add_argument("--only", default=",".join(PLIGHTS))
    args = parser.parse_args()
    with three_osds(args, "nacre-at-rest-") as cluster:
        try:
            cluster.begin()
            cluster.ceph("osd", "pool", "create", "data", "8", text=True)
            cluster.ceph("osd", "pool", "application", "enable", "data", "rados", text=True)
            cluster.healed(60)
            for name in args.only.split(","):
                PLIGHTS[name](args, cluster)
            dead = cluster.died()
            if dead:
                raise Failed(dead)
            print("at rest: nobody is busy")
        finally:
            # Those that were frozen go on.
            cluster.start()


if __name__ == "__main__":
    main()
