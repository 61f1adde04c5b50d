"""Two clusters that are measured in turn: while one works, the servers of the other are stopped with SIGSTOP.

A cluster is given as NAME=CEPH_CONF:PID[,PID...], the process ids being those of its servers.
"""
import argparse
import contextlib
import os
import re
import signal
import statistics
import subprocess
import sys

TICK = os.sysconf("SC_CLK_TCK")


class Cluster:
    def __init__(self, spec):
        self.name, rest = spec.split("=", 1)
        self.conf, pids = rest.rsplit(":", 1)
        self.pids = [int(pid) for pid in pids.split(",")]
        self.env = dict(os.environ, CEPH_CONF=self.conf)

    def signal(self, number):
        for pid in self.pids:
            os.kill(pid, number)

    def cpu(self):
        """Processor seconds of the servers so far, user and system."""
        total = 0
        for pid in self.pids:
            with open(f"/proc/{pid}/stat") as f:
                fields = f.read().rsplit(")", 1)[1].split()
            total += int(fields[11]) + int(fields[12])
        return total / TICK

    def written(self):
        """Bytes that the servers sent to disks so far."""
        total = 0
        for pid in self.pids:
            with open(f"/proc/{pid}/io") as f:
                total += int(re.search(r"^write_bytes: (\d+)", f.read(), re.M)[1])
        return total

    def run(self, *argv):
        done = subprocess.run(argv, env=self.env, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{self.name}: {' '.join(argv)}: exit {done.returncode}: {done.stderr[-300:]}")
        return done.stdout

    def make_pool(self, pool):
        """True if it was not there."""
        if pool in self.run("rados", "lspools").split():
            return False
        self.run("ceph", "osd", "pool", "create", pool, "32", "32")
        return True


def parser(doc):
    made = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--a", required=True, metavar="NAME=CEPH_CONF:PID[,PID...]")
    made.add_argument("--b", required=True, metavar="NAME=CEPH_CONF:PID[,PID...]")
    made.add_argument("--repeat", type=int, default=3, help="runs of each")
    return made


class Pair:
    def __init__(self, args):
        self.all = [Cluster(args.a), Cluster(args.b)]
        self.names = [c.name for c in self.all]

    @contextlib.contextmanager
    def alone(self, cluster):
        """While only this one works."""
        others = [c for c in self.all if c is not cluster]
        for other in others:
            other.signal(signal.SIGSTOP)
        try:
            yield
        finally:
            for other in others:
                other.signal(signal.SIGCONT)

    def measure(self, repeat, work):
        """`work` gives figures by name. A B A B ...: the figures of A's runs, and of B's."""
        samples = [[], []]
        for _ in range(repeat):
            for cluster, into in zip(self.all, samples):
                with self.alone(cluster):
                    into.append(work(cluster))
        return samples


def medians(samples):
    """Of each figure, for both."""
    return [{key: statistics.median(s[key] for s in side) for key in side[0]} for side in samples]


def ratio(samples, key, less=False):
    """How far B is ahead of A: the median of neighbours' ratios. `less`: less is better."""
    return statistics.median((a[key] / b[key] if less else b[key] / a[key]) if a[key] and b[key] else 0 for a, b in zip(*samples))
