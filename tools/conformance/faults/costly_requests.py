#!/usr/bin/python3
"""One request of a client that may read and write in a pool, made to cost as much as it can: the OSD refuses it or carries it out soon, its
memory stays where it is, and another client is served meanwhile.

 1. A checksum of each byte of an object that is a hole.
 2. Hundreds of thousands of short keys: looked up, compared, set, removed.
 3. Calls of classes that list as many empty entries, or that make digests.
 4. States of a quarter of a billion objects of an image.
 5. Tens of thousands of writes and zeroed ranges, each a part of a block that must be read for it.
 6. Pages of a listing that lists nothing, in one request.

usage: costly_requests.py --nacre PATH [--dir DIR] [--longest SECONDS] [--growth-mib 700]
"""
import argparse
import os
import shutil
import struct
import sys
import tempfile
import threading
import time

import rados

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", room) for room in ("lib",)]
import rawosd  # noqa: E402
from live import Cluster  # noqa: E402
from rawosd import Op, bl, call, envelope, extent  # noqa: E402

MIB = 1 << 20
OBJECTS = 6000
EMSGSIZE = -90


class Neighbour(threading.Thread):
    """A stock client that writes and reads; how long it waited at most."""

    def __init__(self, conf, pool):
        super().__init__(daemon=True)
        self.client = rados.Rados(conffile=conf)
        self.client.connect()
        self.io, self.since, self.worst = self.client.open_ioctx(pool), None, 0.0

    def run(self):
        n = 0
        while True:
            self.since = time.monotonic()
            self.io.write_full(f"neighbour-{n % 8}", b"n" * 4096)
            waited, self.since = time.monotonic() - self.since, None
            self.worst, n = max(self.worst, waited), n + 1
            time.sleep(0.005)

    def take(self):
        begun = self.since
        worst = max(self.worst, time.monotonic() - begun if begun else 0.0)
        self.worst = 0.0
        return worst


def short_keys(count, values=False, verdicts=False):
    """So many keys of three bytes."""
    each = (b"\3\0\0\0" + n.to_bytes(3, "big") + (b"\0\0\0\0" if values else b"") + (b"\1\0\0\0" if verdicts else b"") for n in range(count))
    return struct.pack("<I", count) + b"".join(each)


class Story:
    def __init__(self, cluster, longest, growth):
        self.cluster, self.longest, self.growth = cluster, longest, growth
        self.raw = rawosd.Cluster(cluster.conf, "costly")
        self.neighbour = Neighbour(cluster.conf, "costly")
        self.neighbour.start()
        self.failed = []

    def ask(self, what, oid, *ops, expect=(EMSGSIZE,), **more):
        """Sends one request; what became of it, of memory and of the other client."""
        time.sleep(0.3)
        self.neighbour.take()
        base, peak, begun = self.cluster.rss()[0], 0, time.monotonic()
        session, tid = self.raw.send(oid, list(ops), **more)
        sent, reply = time.monotonic(), None
        while reply is None and time.monotonic() < sent + 60:
            reply = session.wait(tid, 0.02)
            peak = max(peak, self.cluster.rss()[0])
        took, waited, grown = time.monotonic() - sent, self.neighbour.take(), (peak - base) / MIB
        result = reply.result if reply else None
        print(f"{what}: {result} after {took:.2f} s (sent in {sent - begun:.1f} s); another one waited {waited:.2f} s, memory {grown:+.0f} MiB", flush=True)
        self.cluster.alive()
        if result not in expect or waited > self.longest or grown > self.growth:
            self.failed.append(what)
        return reply

    def checksums(self):
        self.raw.run(b"hole", Op("create"), extent("truncate", 100 * MIB))
        each = Op("checksum", struct.pack("<QQIB", 0, 100 * MIB, 1, 2), struct.pack("<I", 0xFFFFFFFF))
        self.ask("checksums of bytes", b"hole", each)
        blocks = Op("checksum", struct.pack("<QQIB", 0, 100 * MIB, 4096, 2), struct.pack("<I", 0xFFFFFFFF))
        self.ask("checksums of blocks", b"hole", blocks, expect=(0,))

    def keys(self):
        self.ask("a hundred thousand keys set", b"keys", Op("omap_set_vals", b"", short_keys(100_000, values=True)), expect=(0,))
        for what, name, data in [
            ("keys looked up", "omap_get_vals_by_keys", short_keys(400_000)),
            ("keys compared", "omap_cmp", short_keys(400_000, values=True, verdicts=True)),
            ("keys set", "omap_set_vals", short_keys(400_000, values=True)),
            ("keys removed", "omap_rm_keys", short_keys(400_000)),
        ]:
            self.ask(what, b"keys", Op(name, b"", data))

    def classes(self):
        empty = struct.pack("<I", 400_000) + bytes(1_600_000)
        self.raw.run(b"queue", call(b"queue", b"queue_init", envelope(1, 1, struct.pack("<QQ", 1 << 40, 0) + bl(b""))))
        self.ask("entries of a queue", b"queue", call(b"queue", b"queue_enqueue", envelope(1, 1, empty)))
        sizes = envelope(1, 1, struct.pack("<QQQ", 1 << 62, 1 << 61, 1 << 61))
        self.raw.run(b"part", call(b"fifo", b"init_part", envelope(1, 1, bl(b"") + sizes)))
        self.ask("entries of a part", b"part", call(b"fifo", b"push_part", envelope(1, 1, bl(b"") + empty + struct.pack("<Q", 0))))
        device = b"".join(envelope(1, 1, b"\1" + bl(b"d%d" % n) + bl(b"00" * 32) + b"\1" + bl(b"") + struct.pack("<iII", 0, 30, 100_000)) for n in range(2000))
        self.raw.run(b"otp", call(b"otp", b"otp_set", envelope(1, 1, struct.pack("<I", 2000) + device)))
        checks = [call(b"otp", b"otp_check", envelope(1, 1, bl(b"d%d" % n) + bl(b"000000") + bl(b"t"))) for n in range(2000)]
        self.ask("one-time passwords", b"otp", *checks)

    def images(self):
        self.raw.run(b"map", call(b"rbd", b"object_map_resize", struct.pack("<QB", 256_000_000, 1)))
        update = call(b"rbd", b"object_map_update", struct.pack("<QQBB", 0, 256_000_000, 1, 0))
        self.ask("states of all objects", b"map", *[update] * 4, expect=(0,))
        self.ask("a snapshot of all objects", b"map", call(b"rbd", b"object_map_snap_add", b""), expect=(0,))

    def parts(self):
        self.raw.io.write_full("written", b"w" * (64 * MIB))
        self.ask("tens of thousands of writes", b"written", *[extent("write", n * 1601, None, b"x") for n in range(40_000)])
        self.ask("tens of thousands of zeroed ranges", b"written", *[extent("zero", n * 1601, 800) for n in range(40_000)])
        self.ask("two thousand writes", b"written", *[extent("write", n * 16_001, None, b"x") for n in range(2_000)], expect=(0,))

    def listings(self):
        done = [self.raw.io.aio_write_full(f"listed-{n}", b"") for n in range(OBJECTS)]
        [one.wait_for_complete() for one in done]
        begin = envelope(4, 3, bl(b"") + bl(b"") + struct.pack("<QIB", 0, 0, 0) + bl(b"") + struct.pack("<q", -(1 << 63)))
        page = Op("pgnls_filter", struct.pack("<QI", 1024, 0), bl(b"") + bl(b"") + bl(b"plain") + bl(b"_none") + bl(b"v") + begin)
        flags = rawosd.READ | rawosd.PGOP
        self.ask("pages of a listing", b"", *[page] * 300, pg_seed=0, hash=0, flags=flags)
        self.ask("a page of a listing", b"", page, pg_seed=0, hash=0, flags=flags, expect=(0, 1))

    def run(self):
        for part in (self.checksums, self.keys, self.classes, self.images, self.parts, self.listings):
            part()
        assert not self.failed, f"too long, too large or answered otherwise: {self.failed}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nacre", required=True)
    parser.add_argument("--dir")
    parser.add_argument("--longest", type=float, default=1.5)
    parser.add_argument("--growth-mib", type=int, default=700)
    args = parser.parse_args()
    top = tempfile.mkdtemp(prefix="nacre-costly-", dir=args.dir)
    try:
        with Cluster(os.path.abspath(args.nacre), os.path.join(top, "c"), "--osds", 1) as cluster:
            cluster.start()
            Story(cluster, args.longest, args.growth_mib).run()
            cluster.stop()
    finally:
        shutil.rmtree(top, ignore_errors=True)
    print("no request cost more than it may", flush=True)
    # Threads that wait for sockets do not end by themselves.
    os._exit(0)


if __name__ == "__main__":
    main()
