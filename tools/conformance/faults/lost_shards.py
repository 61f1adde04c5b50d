#!/usr/bin/python3
"""A pool of 4 + 2 shards on six OSDs, driven by the stock `rados`: one OSD, then two at once, are killed and come back.

Objects of many sizes are put, written in part, appended, cut and removed while OSDs are away, and while they get what they
missed. After each step all is read and compared with a model; at the end all groups must be active and clean, each pair of OSDs is
killed once more, all is read again, and `nacre fsck --deep` looks at all stores.

usage: lost_shards.py --nacre PATH [--dir DIR] [--port N] [--seed S]
"""
import argparse
import os
import random
import subprocess
import sys
import time
import types

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib")]
from harness import Failed, Place, asked, free_port
from thrash_cluster import Processes, options

POOL = "shards"
SIZES = [1, 4096, 20_000, 70_000, 300_000, 1_500_000, 4 << 20]


class Objects:
    """What the pool must hold, and how it comes there."""

    def __init__(self, cluster, rng, folder):
        self.cluster, self.rng, self.folder = cluster, rng, folder
        self.models = {}

    def rados(self, *words, check=True, seconds=60):
        return asked(["rados", "-c", self.cluster.conf, "-p", POOL, *map(str, words)], check, seconds)

    def file(self, data):
        path = os.path.join(self.folder, "data")
        with open(path, "wb") as f:
            f.write(data)
        return path

    def put(self, name, size):
        data = self.rng.randbytes(size)
        self.rados("put", name, self.file(data))
        self.models[name] = bytearray(data)

    def change(self):
        """One change of one object."""
        name, model = self.rng.choice(list(self.models.items()))
        what = self.rng.choice(["put", "part", "part", "append", "truncate", "remove"])
        if what == "put":
            self.put(name, self.rng.choice(SIZES))
        elif what == "part":
            at, data = self.rng.randrange(len(model) + 1), self.rng.randbytes(self.rng.choice([1, 500, 5000, 90_000]))
            self.rados("put", name, self.file(data), "--offset", at)
            model.extend(bytes(max(0, at + len(data) - len(model))))
            model[at : at + len(data)] = data
        elif what == "append":
            data = self.rng.randbytes(self.rng.choice([10, 4096, 50_000]))
            self.rados("append", name, self.file(data))
            model.extend(data)
        elif what == "truncate":
            size = self.rng.randrange(len(model) + 1)
            self.rados("truncate", name, size)
            del model[size:]
        else:
            self.rados("rm", name)
            del self.models[name]
            self.put(name + "x", self.rng.choice(SIZES))

    def compare(self, when):
        listed = sorted(self.rados("ls").stdout.split())
        if listed != sorted(self.models):
            raise Failed([f"{when}: {len(listed)} objects are listed, {len(self.models)} are there"])
        path = os.path.join(self.folder, "got")
        for name, model in self.models.items():
            self.rados("get", name, path)
            with open(path, "rb") as f:
                got = f.read()
            if got != model:
                at = next((i for i, (a, b) in enumerate(zip(got, model)) if a != b), None)
                raise Failed([f"{when}: {name} has {len(got)} bytes of {len(model)}, the first difference at {at}"])
        print(f"{when}: {len(self.models)} objects are as they must be", flush=True)


def wait_down(cluster, count):
    end = time.monotonic() + 30
    while cluster.ceph("osd", "stat")["num_up_osds"] != 6 - count:
        if time.monotonic() > end:
            raise Failed([f"{count} OSDs were killed, and are not down"])
        time.sleep(0.2)


def story(cluster, rng, folder):
    cluster.begin()
    cluster.ceph("config", "set", "mon", "mon_allow_erasure", "true", text=True)
    cluster.ceph("osd", "erasure-code-profile", "set", "p42", "k=4", "m=2", "crush-failure-domain=osd", text=True)
    cluster.ceph("osd", "pool", "create", POOL, 8, 8, "erasure", "p42", text=True)
    cluster.ceph("osd", "pool", "set", POOL, "allow_ec_overwrites", "true", text=True)
    # Two may be away.
    cluster.ceph("osd", "pool", "set", POOL, "min_size", 4, text=True)
    cluster.healed(60)
    objects = Objects(cluster, rng, folder)
    for n in range(30):
        objects.put(f"object-{n}", SIZES[n % len(SIZES)])
    objects.rados("bench", 3, "write", "-b", 65536, "-t", 8)
    objects.compare("healthy")
    for away in [[1], [4, 2], [0, 5]]:
        load = subprocess.Popen(
            ["rados", "-c", cluster.conf, "-p", POOL, "bench", "8", "write", "-b", "200000", "-t", "4"],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )
        for osd in away:
            cluster.osds[osd].kill()
            for _ in range(4):
                objects.change()
        wait_down(cluster, len(away))
        for _ in range(25):
            objects.change()
        said = load.communicate(timeout=120)[1]
        if load.returncode != 0:
            raise Failed([f"rados bench ended with {load.returncode}: {said}"])
        objects.rados("cleanup", seconds=120)
        objects.compare(f"without {away}")
        cluster.start()
        for _ in range(10):
            objects.change()
        print(f"clean after {cluster.healed(120):.0f} s", flush=True)
        objects.compare(f"{away} are back")
    for away in [[1, 2], [0, 4], [3, 5]]:
        for osd in away:
            cluster.osds[osd].kill()
        wait_down(cluster, 2)
        objects.compare(f"of others than {away}")
        cluster.start()
        cluster.healed(120)
    states = sorted({group["state"] for group in cluster.groups()})
    print(f"pg dump: all groups are {', '.join(states)}", flush=True)
    wrong = cluster.end()
    if wrong:
        raise Failed(wrong)


def main():
    parser = argparse.ArgumentParser()
    options(parser)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    args.nacre = os.path.abspath(args.nacre)
    place = Place(args.dir, "nacre-shards-")
    given = types.SimpleNamespace(**vars(args), lossy=None, auth="none", osds=6)
    cluster = Processes(given, place.path, args.port or free_port())
    try:
        story(cluster, random.Random(args.seed), place.path)
    except Failed as failed:
        for sentence in failed.args[0]:
            print(sentence, file=sys.stderr)
        print(f"what it left is in {place.path}", file=sys.stderr)
        sys.exit(1)
    finally:
        cluster.kill()
    place.remove()


main()
