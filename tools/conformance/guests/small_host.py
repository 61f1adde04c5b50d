#!/usr/bin/python3
"""Small hosts: a virtual machine of 2 GiB, and one whose control group (version 2) has 512 MiB, each with three OSDs and their clients.
Under a load of 4 KiB and 4 MiB writes and reads nothing is killed, and reads and writes go on.

    small_host.py --nacre target/release/nacre [--minutes 10] [--kernel trixie] [--cache DIR] [--keep DIR] [--only host|group]

QEMU translates instructions, so the load is slow; memory is what is tried here. A machine without QEMU or a kernel's package skips it.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import time

sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)), os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib")]

import initramfs
from guest import Guest
from harness import Place
from kernels import Kernel, Unavailable
from live import Cluster

HOST_MIB, GROUP_MIB = 2048, 512
# Seconds of one benchmark, and how many operations it must finish: fewer would be a cluster that stands still.
EACH, FEWEST = 10, 4
# Bytes of the disk that the folder of the cluster lies on; the file has holes.
DISK = 24 << 30
FOLDER = "/mnt/cluster"
LOADS = [("small", 4096, 16), ("large", 4 << 20, 4)]


def disk(nacre, place):
    """A disk with a cluster that was made and stopped here: making pools needs more programs than a guest has."""
    folder, image = os.path.join(place, "made"), os.path.join(place, "disk")
    cluster = Cluster(nacre, os.path.join(folder, "cluster"), "--osd-size", "6G")
    os.makedirs(folder)
    cluster.start()
    for name, _, _ in LOADS:
        cluster.run("ceph", "osd", "pool", "create", name, "16")
    cluster.stop()
    with open(image, "wb") as f:
        f.truncate(DISK)
    subprocess.run(["mkfs.ext4", "-q", "-d", folder, image], check=True)
    shutil.rmtree(folder)
    return image, cluster.port


class SmallHost:
    """A guest with a cluster and its clients."""

    def __init__(self, guest, limit_mib):
        self.guest, self.limit = guest, limit_mib

    def start(self, port):
        """Mounts the disk, makes the control group if there is a limit, and starts the cluster in it."""
        enter = ""
        if self.limit:
            self.guest.run("mkdir -p /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup && echo +memory >/sys/fs/cgroup/cgroup.subtree_control"
                           f" && mkdir /sys/fs/cgroup/small && echo {self.limit << 20} >/sys/fs/cgroup/small/memory.max")
            enter = "echo $$ >/sys/fs/cgroup/small/cgroup.procs; "
        self.guest.run("mount -t ext4 /dev/vda /mnt", seconds=120)
        self.guest.run(f"(sh -c '{enter}exec nacre up --dir {FOLDER} --port {port} --auth none' >/tmp/up 2>&1 &) ; "
                       "for i in $(seq 200); do grep -q ^ready /tmp/up && exit; sleep 0.5; done; cat /tmp/up; exit 1", seconds=150)

    def rados(self, *words):
        return f"CEPH_CONF={FOLDER}/ceph.conf rados {' '.join(words)}"

    def round(self, turn):
        """One benchmark of writes and one of reads for each size, beside each other; what each finished."""
        script = []
        for name, size, depth in LOADS:
            bench = self.rados("bench", "-p", name, str(EACH))
            script.append(f"({bench} write -b {size} -t {depth} --no-cleanup --run-name r{turn}; {bench} rand -t {depth} --run-name r{turn}; "
                          f"{self.rados('cleanup', '-p', name, '--run-name', f'r{turn}')}) >/tmp/{name} 2>&1 &")
        said = self.guest.run("\n".join([*script, "wait", *(f"cat /tmp/{name}" for name, _, _ in LOADS)]), seconds=EACH * 30)
        done = [int(n) for n in re.findall(r"Total (?:writes|reads) made:\s+(\d+)", said)]
        assert len(done) == 2 * len(LOADS), f"a benchmark failed: {said[-1500:]}"
        assert min(done) >= FEWEST, f"operations of the four benchmarks: {done}"
        return done

    def check(self):
        """Nobody was killed; gives the resident memory of the cluster in MiB, and what the group has in use."""
        assert "Out of memory" not in self.guest.said() and "oom-kill" not in self.guest.run("dmesg"), "the kernel killed for memory"
        status = self.guest.run("cat /proc/$(pidof nacre)/status")
        used = int(self.guest.run("cat /sys/fs/cgroup/small/memory.current")) >> 20 if self.limit else None
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) >> 10, used


def run(host, minutes, port):
    """Load for some minutes; prints what was seen."""
    host.start(port)
    end, rounds, rss, slowest = time.monotonic() + 60 * minutes, 0, 0, None
    while time.monotonic() < end:
        done = host.round(rounds)
        now, used = host.check()
        rounds, rss, slowest = rounds + 1, max(rss, now), min(done) if slowest is None else min(slowest, *done)
        print(f"  round {rounds}: finished {done}, resident {now} MiB" + (f", group {used} MiB" if used else ""), flush=True)
    what = f"a control group of {host.limit} MiB" if host.limit else f"a host of {HOST_MIB} MiB"
    print(f"ok: {what}, {minutes} min, {rounds} rounds: nothing killed, resident at most {rss} MiB, fewest operations of a benchmark {slowest}")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nacre", required=True)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--kernel", default="trixie", help="Debian release whose kernel is booted")
    parser.add_argument("--cache", default="target/guests", help="folder that keeps the kernels")
    parser.add_argument("--keep", help="folder for disks and consoles, kept")
    parser.add_argument("--only", choices=["host", "group"], help="one of the two")
    return parser.parse_args()


def main():
    args = arguments()
    try:
        kernel = Kernel(args.kernel, os.path.abspath(args.cache))
    except Unavailable as why:
        print(f"small hosts: skipped: {why}")
        return 0
    place = Place(args.keep, "small-host-")
    os.makedirs(place.path, exist_ok=True)
    stripped = os.path.join(place.path, "nacre")
    subprocess.run(["strip", "-o", stripped, args.nacre], check=True)
    archive = os.path.join(place.path, "guest.cpio")
    initramfs.build(kernel, [stripped, "rados"], archive)
    for name, memory, limit in (("host", HOST_MIB, None), ("group", 2 * HOST_MIB, GROUP_MIB)):
        if args.only not in (None, name):
            continue
        image, port = disk(args.nacre, place.path)
        drive = ["-drive", f"if=virtio,format=raw,cache=unsafe,file={image}"]
        with Guest(name, kernel, archive, place.path, memory, drive) as guest:
            run(SmallHost(guest.up(), limit), args.minutes, port)
        os.unlink(image)
    place.remove()
    return 0


if __name__ == "__main__":
    sys.exit(main())
