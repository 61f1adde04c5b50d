#!/usr/bin/python3
"""Raw disks, as loop devices with sectors of 512 and 4096 bytes; real daemons and stock clients.

 a) a new OSD discards what the disk held; objects that are removed are discarded, too, and others stay whole;
 b) the path of the disk stays as it was given, a link for example; another name of the same disk is the same disk;
 c) a disk whose name changed is found again by its identity; another disk under its name is refused;
 d) a disk that was made smaller is refused, and one with sectors of 16 KiB.

usage: raw_disks.py --nacre PATH [--dir DIR]
"""
import argparse
import filecmp
import os
import subprocess
import sys
import tempfile

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", room) for room in ("lib",)]
from live import Cluster, until  # noqa: E402

MIB = 1 << 20
SIZE = 1024 * MIB


class Loop:
    """A loop device on a file."""

    def __init__(self, path, *more, size=SIZE):
        with open(path, "ab") as f:
            f.truncate(size)
        self.path = path
        made = subprocess.run(["losetup", "--find", "--show", *map(str, more), path], capture_output=True, text=True)
        self.error = made.stderr.strip()
        self.device = made.stdout.strip() if made.returncode == 0 else None

    def used(self):
        """Bytes that the file takes, once all is written."""
        subprocess.run(["sync", "--data", self.path], check=True)
        return os.stat(self.path).st_blocks * 512

    def detach(self):
        if self.device:
            subprocess.run(["losetup", "--detach", self.device], check=True)
            self.device = None


def check(holds, what):
    if not holds:
        raise AssertionError(what)
    print(f"  {what}", flush=True)


def refused(cluster, *says):
    code, text = cluster.start(expect_ready=False)
    for word in says:
        check(code != 0 and word in text, f"refused with `{word}`" if word in text else f"{code}, and not `{word}`: {text}")


def story(args, top, sector):
    print(f"sectors of {sector} bytes", flush=True)
    loops = []

    def loop(name, *more, **of):
        loops.append(Loop(os.path.join(top, f"{name}-{sector}"), "--sector-size", sector, *more, **of))
        return loops[-1]

    link = f"/dev/nacre-raw-disks-{os.getpid()}"
    cluster = Cluster(args.nacre, os.path.join(top, f"cluster-{sector}"))
    try:
        old = os.path.join(top, f"disk-{sector}")
        with open(old, "wb") as f:
            f.truncate(SIZE)
            f.seek(SIZE // 2)
            f.write(os.urandom(MIB) * 400)
            # A file system counts blocks when it writes them.
            os.fsync(f.fileno())
        disk = loop("disk")
        os.symlink(disk.device, link)
        before = disk.used()
        cluster.more = ["--osds", "0", "--disk", link]
        cluster.start()
        check(disk.used() < before - 200 * MIB, "what the disk held is discarded when an OSD is made on it")
        check(cluster.ceph("osd", "metadata", "0")["backing"] == link, "the path stays as it was given")
        cluster.run("ceph", "osd", "pool", "create", "p", "8")
        source, target = (os.path.join(top, name) for name in ("source", "target"))
        with open(source, "wb") as f:
            f.write(os.urandom(4 * MIB))
        for n in range(41):
            cluster.run("rados", "-p", "p", "put", f"o{n}", source)
        full = disk.used()
        check(full > 160 * MIB, "objects take space of the disk")
        for n in range(40):
            cluster.run("rados", "-p", "p", "rm", f"o{n}")
        cluster.run("ceph", "tell", "osd.0", "compact")
        until("removed objects are discarded", lambda: disk.used() < full - 150 * MIB, 60)
        check(True, "removed objects are discarded")
        cluster.stop()
        cluster.more = ["--disk", disk.device]
        cluster.start()
        cluster.run("rados", "-p", "p", "get", "o40", target)
        check(filecmp.cmp(source, target, shallow=False), "what was not removed is whole after a restart")
        check(cluster.ceph("osd", "metadata", "0")["backing"] == disk.device, "another name of the disk is the same disk")
        cluster.stop()
        cluster.more = []

        # The kernel gives its name to another disk.
        name = disk.device
        other = loop("other")
        held = [other]
        disk.detach()
        while other.device != name:
            other = loop("other" + "x" * len(held))
            held.append(other)
            if len(held) > 64:
                raise AssertionError(f"{name} is not given again")
        moved = loop("disk")
        cluster.start()
        check(cluster.ceph("osd", "metadata", "0")["backing"] == moved.device, "a disk whose name changed is found again")
        check(f"its disk is {moved.device} now" in cluster.said(), "and it says so")
        cluster.stop()
        moved.detach()
        refused(cluster, "osd.0")
        small = loop("disk", "--sizelimit", SIZE // 2)
        cluster.more = ["--disk", small.device]
        for at in held:
            at.detach()
        refused(cluster, "osd.0", "made smaller")
        small.detach()
    finally:
        cluster.kill()
        if os.path.lexists(link):
            os.remove(link)
        for each in loops:
            each.detach()


def large_sectors(args, top):
    loop = Loop(os.path.join(top, "large"), "--sector-size", 16384)
    try:
        if not loop.device:
            print(f"sectors of 16384 bytes: skipped, this system has no such loop devices ({loop.error})")
            return
        print("sectors of 16384 bytes", flush=True)
        cluster = Cluster(args.nacre, os.path.join(top, "cluster-large"), "--osds", 0, "--disk", loop.device)
        refused(cluster, "sectors of 16384 bytes")
    finally:
        loop.detach()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nacre", required=True)
    parser.add_argument("--dir")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="nacre-raw-disks-", dir=args.dir) as top:
        probe = Loop(os.path.join(top, "probe"), "--sector-size", 4096, size=MIB)
        if not probe.device:
            print(f"raw disks: skipped, no loop devices can be made here (they need root): {probe.error}")
            return
        probe.detach()
        for sector in (512, 4096):
            story(args, top, sector)
        large_sectors(args, top)
    print("raw disks: all of it holds")


if __name__ == "__main__":
    main()
