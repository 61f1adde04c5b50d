#!/usr/bin/python3
"""Reads from replicas with stock clients: copies that do not lead answer, and never with old data.

Three OSDs and a monitor, each a process; a pool of three copies. Then:

  1. an image is written, and read with rbd_read_from_replica_policy=balance and =localize: each OSD must have answered reads of groups
     that it does not lead (its perf counters say so), and what is read must be what was written
  2. omaps are read with LIBRADOS_OPERATION_BALANCE_READS, in the same way
  3. blocks are written and read at once by another client, all the time: no read may be older than the write before it. Meanwhile
     one OSD after the other is stopped (SIGSTOP) for some seconds and goes on, and one is killed and comes back

usage: replica_reads.py --nacre PATH [--seconds 30] [--seed 1] [--dir DIR] [--port P] [--driver uring|epoll] [--memory 512M]
"""
import sys
import argparse
import os
import random
import threading
import time

import rados
import rbd

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", room) for room in ("lib",)]
from harness import Failed
from thrash_cluster import options, three_osds

BLOCK = 4096
# Many objects, since their names differ each time: each OSD must lead some, and must not lead others.
ORDER = 20
OBJECT = 1 << ORDER
OBJECTS = 64


def served(cluster):
    """What each OSD says of reads of groups that it does not lead: how many it answered, and how many it sent to the primary."""
    counts = []
    for osd in range(3):
        dump = cluster.ceph("tell", f"osd.{osd}", "perf", "dump")["osd"]
        assert dump["replica_read"] == dump["replica_read_served"] + dump["replica_read_redirect"], dump
        counts.append((dump["replica_read_served"], dump["replica_read_redirect"]))
    return counts


def all_answered(cluster, before, least, what):
    after = served(cluster)
    grown = [(now[0] - then[0], now[1] - then[1]) for then, now in zip(before, after)]
    print(f"  {what}: answered by replicas, sent back, of each OSD: {grown}")
    if any(answered < least for answered, _ in grown):
        raise Failed([f"{what}: each OSD must answer {least} reads at least as a replica: {grown}"])
    return after


def wait_clean(cluster, seconds):
    end = time.monotonic() + seconds
    while True:
        states = cluster.ceph("status")["pgmap"].get("pgs_by_state", [])
        if states and all(state["state_name"].startswith("active+clean") for state in states):
            return
        if time.monotonic() > end:
            raise Failed([f"not clean within {seconds} s: {states}"])
        time.sleep(0.2)


class Client:
    """A client of its own with a policy for reads, and the image, if it exists."""

    def __init__(self, conf, policy="default", image=True):
        options = {"rbd_read_from_replica_policy": policy, "rbd_cache": "false"}
        self.cluster = rados.Rados(conffile=conf, conf=options)
        self.cluster.connect()
        self.io = self.cluster.open_ioctx("data")
        self.image = rbd.Image(self.io, "image") if image else None

    def close(self):
        if self.image:
            self.image.close()
        self.io.close()
        self.cluster.shutdown()


def read_image(cluster, conf, data):
    before = served(cluster)
    for policy in ("balance", "localize"):
        client = Client(conf, policy)
        for _ in range(6):
            for number in range(OBJECTS):
                for offset in range(0, OBJECT, OBJECT // 2):
                    at = number * OBJECT + offset
                    if client.image.read(at, BLOCK) != data[at:at + BLOCK]:
                        raise Failed([f"{policy}: wrong bytes at {at}"])
        client.close()
        if policy == "balance":
            before = all_answered(cluster, before, 20, "image, balance")
    # Clients that do not know where they are read from primaries.
    print(f"  image, localize: {served(cluster)} in all")


def read_omaps(cluster, conf):
    before = served(cluster)
    client = Client(conf, image=False)
    for number in range(32):
        with rados.WriteOpCtx() as op:
            client.io.set_omap(op, (f"k{number}",), (f"v{number}".encode(),))
            client.io.operate_write_op(op, f"omap.{number}")
    for _ in range(20):
        for number in range(32):
            with rados.ReadOpCtx() as op:
                pairs, _ = client.io.get_omap_vals(op, "", "", 10)
                client.io.operate_read_op(op, f"omap.{number}", rados.LIBRADOS_OPERATION_BALANCE_READS)
                if dict(pairs) != {f"k{number}": f"v{number}".encode()}:
                    raise Failed([f"the omap of omap.{number} is not what was written"])
    client.close()
    all_answered(cluster, before, 20, "omaps")


class Pair(threading.Thread):
    """Writes a block with one client, and reads it with another one when that is answered."""

    def __init__(self, conf, number, seed):
        super().__init__(daemon=True)
        self.conf, self.number, self.rng = conf, number, random.Random(f"{seed} {number}")
        self.ends, self.rounds, self.wrong = False, 0, None

    def run(self):
        try:
            writer, reader = Client(self.conf, "default"), Client(self.conf, "balance")
            newest = {}
            while not self.ends:
                at = (self.number * 4 + self.rng.randrange(4)) * OBJECT + self.rng.randrange(4) * BLOCK
                if self.rng.randrange(3) == 0 or at not in newest:
                    self.rounds += 1
                    newest[at] = f"{self.number} {self.rounds} ".encode().ljust(BLOCK, b".")
                    writer.image.write(newest[at], at)
                found = reader.image.read(at, BLOCK)
                if found != newest[at]:
                    self.wrong = f"at {at}: written {newest[at][:20]}, read {found[:20]}"
                    return
            writer.close()
            reader.close()
        except Exception as why:
            self.wrong = f"{type(why).__name__}: {why}"


def read_what_was_written(args, cluster):
    before = served(cluster)
    pairs = [Pair(cluster.conf, number, args.seed) for number in range(4)]
    for pair in pairs:
        pair.start()
    rng, end, victim = random.Random(args.seed), time.monotonic() + args.seconds, 0
    time.sleep(3)
    all_answered(cluster, before, 1, "while blocks are written")
    while time.monotonic() < end and not any(pair.wrong for pair in pairs):
        osd = cluster.osds[victim % 3]
        if victim % 4 == 3:
            osd.kill()
            time.sleep(rng.uniform(0.5, 4))
            osd.start()
        else:
            osd.stop()
            time.sleep(rng.uniform(0.5, 6))
            osd.go_on()
        victim += 1
        time.sleep(rng.uniform(1, 3))
    for pair in pairs:
        pair.ends = True
    for pair in pairs:
        pair.join(60)
    wrong = [pair.wrong for pair in pairs if pair.wrong] + [f"pair {p.number} hangs" for p in pairs if p.is_alive()]
    if wrong:
        raise Failed(wrong)
    rounds = [pair.rounds for pair in pairs]
    print(f"  writes that were read at once: {rounds}, while OSDs stopped and died {victim} times; no read was old")
    if min(rounds) < 20:
        raise Failed([f"the pairs hardly did anything: {rounds}"])
    wait_clean(cluster, 60)


def wait_up(cluster, seconds):
    end = time.monotonic() + seconds
    while cluster.ceph("osd", "stat")["num_up_osds"] < 3:
        if time.monotonic() > end:
            raise Failed([f"not all OSDs are up within {seconds} s"])
        time.sleep(0.2)


def check(args, cluster):
    wait_up(cluster, 60)
    cluster.ceph("osd", "pool", "create", "data", "16", text=True)
    cluster.ceph("osd", "pool", "set", "data", "size", "3", text=True)
    cluster.ceph("osd", "pool", "set", "data", "min_size", "2", text=True)
    wait_clean(cluster, 60)
    data = random.Random(args.seed).randbytes(OBJECTS * OBJECT)
    maker = Client(cluster.conf, image=False)
    rbd.RBD().create(maker.io, "image", len(data), order=ORDER, old_format=False, features=rbd.RBD_FEATURE_LAYERING)
    with rbd.Image(maker.io, "image") as image:
        for number in range(OBJECTS):
            image.write(data[number * OBJECT:(number + 1) * OBJECT], number * OBJECT)
    maker.close()
    read_image(cluster, cluster.conf, data)
    read_omaps(cluster, cluster.conf)
    read_what_was_written(args, cluster)
    dead = cluster.died()
    if dead:
        raise Failed(dead)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options(parser)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    with three_osds(args, "nacre-replica-reads-") as cluster:
        cluster.start()
        check(args, cluster)
        print("replica reads: all as it must be")


if __name__ == "__main__":
    main()
