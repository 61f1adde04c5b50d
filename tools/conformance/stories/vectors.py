#!/usr/bin/python3
"""Random operation vectors on a few objects with snapshots, one line of answer each, from a seed: the same seed tells the same story on a
real Ceph and here.

usage: vectors.py [--seed N] [--count N] [--only TEXT] CEPH_CONF           prints the story
       vectors.py [--seed N] [--count N] CEPH_CONF PEER_CONF               runs both side by side, prints where they differ
"""
import os
import argparse
import random
import struct
import sys

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", room) for room in ("lib",)]
import rawosd
from rawosd import Op, call, cmp_u64, extent, keys, omap_assertions, pairs, xattr

OBJECTS = [b"one", b"two", b"three"]
ATTRS = [b"a", b"b", b"number"]
OMAP = [b"k%d" % i for i in range(6)]


class Story:
    """Makes vectors. All chance comes from the seed, none from answers."""

    def __init__(self, seed):
        self.r = random.Random(seed)
        self.snaps = []
        self.biggest = 3

    def data(self, most=24):
        return bytes(self.r.choice(b"abcdefgh") for _ in range(self.r.randint(1, most)))

    def number(self):
        return str(self.r.randint(0, 30)).encode()

    def truncation(self):
        return (self.r.randint(0, 40), self.r.randint(0, 3)) if self.r.random() < 0.05 else (0, 0)

    def flags(self):
        return self.r.choice([0] * 8 + [rawosd.FAILOK])

    def truncate(self, flags):
        """With a number only to the same place: a real OSD stops at anything else."""
        size, seq = self.truncation()
        size = size if seq else self.r.randint(0, 60)
        return extent("truncate", size, 0, truncate=(size if seq else 0, seq), flags=flags)

    def read_op(self):
        r, f = self.r, self.flags()
        attr, key = r.choice(ATTRS + [b"none"]), r.choice(OMAP + [b"none"])
        some = sorted(r.sample(OMAP, r.randint(0, 3)))
        return r.choice([
            lambda: extent("read", r.randint(0, 40), r.choice([0, 5, 100]), truncate=self.truncation(), flags=f),
            lambda: extent("sync_read", r.randint(0, 10), r.choice([0, 5, 100]), flags=f),
            lambda: Op("stat", flags=f),
            lambda: extent("cmpext", r.randint(0, 8), data=self.data(4), flags=f),
            lambda: extent("cmpext", r.randint(0, 8), r.randint(0, 6), data=self.data(4), flags=f),
            lambda: xattr("getxattr", attr, flags=f),
            lambda: Op("getxattrs", flags=f),
            lambda: xattr("cmpxattr", attr, self.data(1), r.randint(0, 7), 1, flags=f),
            lambda: cmp_u64(b"number", r.randint(0, 30), r.randint(0, 7), flags=f),
            lambda: cmp_u64(attr, r.randint(0, 30), r.randint(0, 7), flags=f),
            lambda: xattr("cmpxattr", attr, self.number(), r.randint(0, 7), r.choice([0, 1, 2, 3]), flags=f),
            lambda: Op("omap_get_keys", data=rawosd.bl(r.choice([b"", key])) + struct.pack("<Q", r.choice([0, 1, 2, 100])), flags=f),
            lambda: Op("omap_get_vals", data=rawosd.bl(r.choice([b"", key])) + struct.pack("<Q", r.choice([0, 1, 2, 100]))
                       + rawosd.bl(r.choice([b"", b"k", b"k3", b"x"])), flags=f),
            lambda: Op("omap_get_header", flags=f),
            lambda: Op("omap_get_vals_by_keys", data=keys(some), flags=f),
            lambda: Op("omap_cmp", data=omap_assertions({k: (self.data(1), r.randint(0, 7)) for k in some}), flags=f),
            lambda: Op("omap_cmp", data=omap_assertions({k: (self.data(1), r.choice([1, 3, 5])) for k in some}), flags=f),
            lambda: Op("assert_ver", struct.pack("<QQ", 0, r.choice([0, 1, self.biggest, 1000])), flags=f),
            lambda: Op("list_watchers", flags=f),
            lambda: Op("isdirty", flags=f),
            lambda: Op("checksum", struct.pack("<QQIB", r.choice([0, 0, 4]), r.choice([0, 4, 8, 100]), r.choice([0, 0, 4, 3]), r.randint(0, 3)),
                       struct.pack("<I", 7) + (struct.pack("<I", 0) if r.random() < .3 else b""), flags=f),
            lambda: call(b"hello", b"say_hello", b"you", flags=f),
            lambda: call(b"no", b"class", flags=f),
            lambda: call(b"hello", b"no_method", flags=f),
        ])()

    def write_op(self):
        r, f = self.r, self.flags()
        attr = r.choice(ATTRS)
        some = {k: self.data(4) for k in r.sample(OMAP, r.randint(0, 4))}
        return r.choice([
            lambda: extent("write", r.randint(0, 40), data=self.data(), truncate=self.truncation(), flags=f),
            lambda: extent("write", r.randint(0, 40), data=self.data(), flags=f),
            lambda: extent("write", r.randint(0, 80), 0, flags=f),
            lambda: extent("write", r.randint(0, 40), r.randint(0, 9), data=self.data(5), flags=f),
            lambda: extent("writefull", 0, data=self.data(60), flags=f),
            lambda: extent("writefull", r.randint(0, 3), r.randint(0, 9), data=self.data(8), flags=f),
            lambda: extent("append", r.randint(0, 5), data=self.data(), flags=f),
            lambda: extent("zero", r.randint(0, 40), r.randint(1, 30), flags=f),
            lambda: self.truncate(f),
            lambda: extent("trimtrunc", r.randint(0, 60), 0, truncate=(r.randint(0, 30), r.randint(0, 4)), flags=f),
            lambda: Op("writesame", struct.pack("<QQQ", r.randint(0, 20), r.choice([0, 4, 8, 9]), r.choice([0, 4, 4, 4])), b"wxyz", flags=f),
            lambda: Op("create", flags=f | r.choice([0, 1])),
            lambda: Op("delete", flags=f),
            lambda: xattr("setxattr", attr, r.choice([self.data(4), self.number(), b""]), flags=f),
            lambda: xattr("setxattr", b"number", self.number(), flags=f),
            lambda: xattr("rmxattr", attr, flags=f),
            lambda: Op("omap_set_vals", data=pairs(some), flags=f),
            lambda: Op("omap_set_vals", data=pairs({k: self.data(4) for k in OMAP}), flags=f),
            lambda: Op("omap_set_header", data=r.choice([b"", self.data(9)]), flags=f),
            lambda: Op("omap_clear", flags=f),
            lambda: Op("omap_rm_keys", data=keys(sorted(some)), flags=f),
            lambda: Op("omap_rm_range", data=rawosd.bl(r.choice(OMAP)) + rawosd.bl(r.choice(OMAP)), flags=f),
            lambda: Op("setallochint", struct.pack("<QQI", 4 << 20, 64 << 10, r.choice([0, 1, 8])), flags=f),
            lambda: Op("undirty", flags=f),
            lambda: call(b"version", b"inc", flags=f),
            lambda: Op("startsync", flags=f),
        ])()

    def rollback(self):
        return Op("rollback", struct.pack("<Q", self.r.choice(self.snaps or [2])))

    def context(self):
        """Mostly all living snapshots, sometimes an old or a wrong context. Removed ones are named nowhere: when an OSD forgets them is a matter
        of time."""
        r = self.r
        alive = sorted(self.snaps, reverse=True)
        kind = r.random()
        if kind < 0.75 or not alive:
            return (alive[0] if alive else 0, alive)
        if kind < 0.85:
            some = alive[r.randint(0, len(alive)):]
            return (some[0] if some else 0, some)
        if kind < 0.90:
            return (alive[0] + r.randint(0, 1), alive + alive[:1])
        if kind < 0.95:
            return (alive[0], [])
        return (r.randint(0, alive[0]), alive)

    def step(self):
        """What to do next: a snapshot made or removed, or a vector (object, operations, how)."""
        r = self.r
        kind = r.random()
        if kind < 0.02 and len(self.snaps) < 6:
            return "snap", None
        if kind < 0.03 and len(self.snaps) > 2:
            return "unsnap", r.choice(self.snaps)
        oid, how = r.choice(OBJECTS), {}
        if kind < 0.40:
            ops = [self.read_op() for _ in range(r.choice([1, 1, 1, 2, 3]))]
            if r.random() < 0.35 and self.snaps:
                how["snap"] = r.choice(self.snaps + [self.biggest + 1])
            elif r.random() < 0.15:
                how["snap"], ops = rawosd.DIR, [Op("list_snaps")]
            if r.random() < 0.1:
                how["flags"] = rawosd.READ | r.choice([rawosd.RWORDERED, rawosd.MAP_SNAP_CLONE, 0x100, 0x2000])
        else:
            count = r.choice([1, 1, 1, 2, 3])
            ops = [self.write_op() if r.random() < 0.8 else self.read_op() for _ in range(count)]
            if r.random() < 0.1:
                ops = [self.rollback()]
            how["snapc"] = self.context()
            if r.random() < 0.15:
                how["flags"] = rawosd.READ | rawosd.WRITE | r.choice(
                    [rawosd.RETURNVEC, rawosd.ORDERSNAP, rawosd.ENFORCE_SNAPC, rawosd.FULL_TRY, rawosd.FULL_FORCE, rawosd.MAP_SNAP_CLONE])
            if r.random() < 0.02:
                how["snap"] = self.snaps[0] if self.snaps else 2
        return "vector", (oid, ops, how)

    def play(self, count, clusters):
        """Yields (what was done, each cluster's answer)."""
        for n in range(count):
            kind, what = self.step()
            if kind == "snap":
                numbers = rawosd.on_each(clusters, lambda c: c.new_snap())
                self.biggest = numbers[0]
                self.snaps.append(numbers[0])
                yield f"{n} new snapshot", [str(number) for number in numbers]
            elif kind == "unsnap":
                rawosd.on_each(clusters, lambda c: (c.remove_snap(what), trimmed(c, what)))
                self.snaps.remove(what)
                self.biggest += 1
                yield f"{n} removed snapshot {what}", ["" for _ in clusters]
            else:
                oid, ops, how = what
                replies = rawosd.on_each(clusters, lambda c: c.run(oid, *ops, **how))
                yield f"{n} {oid.decode()} {describe(ops, how)}", [reply.text() if reply else "no answer" for reply in replies]


def trimmed(cluster, snap):
    """Waits until no clone serves the snapshot any more."""
    for oid in OBJECTS:
        while True:
            reply = cluster.run(oid, Op("list_snaps"), snap=rawosd.DIR)
            if not reply or reply.result < 0 or snap not in listed(reply.ops[0][4]):
                break
            cluster.rados.get_cluster_stats()


def listed(output):
    """Snapshots that an answer to list_snaps names."""
    at, snaps = 6, set()
    (n,) = struct.unpack_from("<I", output, at)
    at += 4
    for _ in range(n):
        size = struct.unpack_from("<I", output, at + 2)[0]
        count = struct.unpack_from("<I", output, at + 14)[0]
        snaps.update(struct.unpack_from(f"<{count}Q", output, at + 18))
        at += 6 + size
    return snaps


def describe(ops, how):
    def one(op):
        args = op.args.rstrip(b"\0").hex()
        return rawosd.NAMES[op.code] + (f"({args})" if args else "") + (f"<{op.data.hex()}>" if op.data else "") + ("?" if op.flags & 2 else "") \
            + ("!" if op.flags & 1 else "")
    parts = [one(op) for op in ops]
    if "snap" in how:
        parts.append(f"at {how['snap'] if how['snap'] < 1 << 63 else 'dir'}")
    if "snapc" in how:
        parts.append(f"snapc {how['snapc'][0]}={how['snapc'][1]}")
    if "flags" in how:
        parts.append(f"flags {how['flags']:x}")
    return " ".join(parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--most", type=int, default=20, help="stop after so many differences")
    parser.add_argument("conf", nargs="+")
    args = parser.parse_args()
    clusters = [rawosd.Cluster(conf, f"vectors{args.seed}", pg_num=1) for conf in args.conf]
    differences = 0
    for did, answers in Story(args.seed).play(args.count, clusters):
        if len(answers) == 1:
            print(f"{did}\n  {answers[0]}", flush=True)
        elif len(set(answers)) > 1:
            differences += 1
            print(f"{did}\n  ours {answers[0]}\n  peer {answers[1]}", flush=True)
            if differences >= args.most or "no answer" in answers:
                break
    for cluster in clusters:
        cluster.close()
    sys.exit(1 if differences else 0)


if __name__ == "__main__":
    main()
