#!/usr/bin/python3
"""Virtual machines as clients: the Linux kernel's rbd driver, and virtio disks on QEMU's.

    run.py --nacre target/release/nacre [--kernels bookworm,trixie] [--alone trixie] [--auth cephx|none|both] [--report FILE]

Kernels are Debian's, unpacked from their packages and kept in --cache. QEMU translates instructions, so no KVM is needed. What is missing on the
machine is said in one line, and the run is skipped.
"""
import argparse
import os
import shutil
import sys
import threading
import time
import traceback

sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)), os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib")]

import clusters
import initramfs
import kernel_client
import virtio_disk
from guest import Guest
from harness import Place
from kernel_client import KernelClient
from kernels import Kernel, Unavailable

PROGRAMS = ["rbd", "fio", "mkfs.ext4", "blkdiscard", "blockdev"]
# In this order: the last one kills a guest.
ACTS = ["alone", "storm", "lock", "fence", "heir"]
NEEDED = ["qemu-system-x86_64", "busybox", "rbd", "ceph", "fio", "mkfs.ext4", "ip", "unshare", "dpkg-deb"]


class Steps:
    """What was tried, on which guest, and how it ended."""

    def __init__(self):
        self.rows, self.lock = [], threading.Lock()

    def begin(self, sentence, guest):
        return Step(self, sentence, guest)

    def failed(self):
        return [row for row in self.rows if row[2]]

    def report(self, guests):
        """A table for people: a row for each step, a column for each guest."""
        sentences = list(dict.fromkeys(sentence for sentence, _, _ in self.rows))
        ended = {(sentence, guest): error for sentence, guest, error in self.rows}
        lines = ["| what | " + " | ".join(guests.values()) + " |", "|---" * (len(guests) + 1) + "|"]
        for sentence in sentences:
            cells = [{None: "works", "absent": ""}.get(ended.get((sentence, guest), "absent"), "**fails**") for guest in guests]
            lines.append(f"| {sentence} | " + " | ".join(cells) + " |")
        return "\n".join(lines) + "\n"


class Step:
    """One of them: notes how it ends."""

    def __init__(self, steps, sentence, guest):
        self.steps, self.sentence, self.guest = steps, sentence, guest

    def __enter__(self):
        self.begun = time.monotonic()

    def __exit__(self, kind, error, trace):
        took = time.monotonic() - self.begun
        with self.steps.lock:
            self.steps.rows.append((self.sentence, self.guest, str(error) if error else None))
            print(f"{'FAILED' if error else 'ok':6} {took:5.1f} s  {self.guest}: {self.sentence}", flush=True)
            if error:
                traceback.print_exception(kind, error, trace)
        return isinstance(error, Exception)


def together(*calls):
    """Runs calls beside each other; the first exception is raised when all have ended."""
    errors = []

    def guarded(call):
        try:
            call()
        except BaseException as error:  # noqa: B902
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(call,)) for call in calls]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    if errors:
        raise errors[0]


def storm(cluster, clients, virtual, steps):
    """The cluster is killed twice while all guests write; they go on, and what they wrote is what they read."""
    sentence = "the cluster is killed with -9 and started again, twice, while guests write: they go on, their data is right"
    devices = []
    for client in clients:
        device = client.map(cluster.image(client.own("storm"), "32M", kernel_client.ALL_FEATURES))
        devices.append(device)
        client.guest.start(virtio_disk.under_load(device, 20))
    virtual.start(virtio_disk.under_load("/dev/vda", 20))
    for _ in range(2):
        time.sleep(4)
        cluster.kill()
        time.sleep(1)
        cluster.start()
    for guest in [virtual, *(client.guest for client in clients)]:
        with steps.begin(sentence, guest.name):
            code, said = guest.finish(150)
            assert code == 0, said
    for client, device in zip(clients, devices):
        client.unmap(device)


def with_keys(nacre, kernels, images, folder, steps, only, alone):
    """Everything, or the acts `only`, on a cluster with authentication: a guest for each kernel, and one with virtio disks.

    What a kernel does alone is done by those of `alone`."""
    with clusters.GuestCluster(nacre, os.path.join(folder, "cephx"), "cephx") as cluster:
        cluster.start()
        cluster.prepare()
        newest = list(kernels)[-1]
        disks = virtio_disk.drives(cluster, "virtio")
        virtual = Guest("virtio", kernels[newest], images[newest], folder, more=disks, env=virtio_disk.environment(cluster))
        guests = [Guest(suite, kernel, images[suite], folder) for suite, kernel in kernels.items()]
        try:
            together(*(guest.up for guest in [virtual, *guests]))
            clients = [KernelClient(guest, cluster, steps) for guest in guests]
            stories = [lambda client=client: kernel_client.alone(client) for client in clients if client.guest.name in alone]
            acts = {
                "alone": lambda: together(lambda: virtio_disk.disks(virtual, cluster, steps), *stories),
                "storm": lambda: storm(cluster, clients, virtual, steps),
                "lock": lambda: kernel_client.lock_between(clients[0], clients[-1]),
                "fence": lambda: kernel_client.blocklisted(clients[-1]),
                "heir": lambda: kernel_client.killed_while_writing(clients[0], clients[-1]),
            }
            [acts[name]() for name in ACTS if not only or name in only]
        finally:
            [guest.kill() for guest in [virtual, *guests]]
        cluster.stop()


def without_keys(nacre, kernels, images, folder, steps):
    """The way in without authentication, by the newest kernel."""
    with clusters.GuestCluster(nacre, os.path.join(folder, "none"), "none") as cluster:
        cluster.start()
        cluster.prepare()
        newest = list(kernels)[-1]
        with Guest("open", kernels[newest], images[newest], folder) as guest:
            client = KernelClient(guest.up(), cluster, steps)
            kernel_client.modes(client, "crc")
            kernel_client.refusals(client)
        cluster.stop()


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nacre", required=True)
    parser.add_argument("--kernels", default="bookworm,trixie", help="Debian releases whose kernels are tried")
    parser.add_argument("--alone", help="those of them that try all that a kernel does alone; all by default")
    parser.add_argument("--auth", choices=["cephx", "none", "both"], default="both")
    parser.add_argument("--cache", default="target/guests", help="folder that keeps the kernels")
    parser.add_argument("--only", choices=ACTS, nargs="+", help="parts of the run with authentication")
    parser.add_argument("--report", help="file for the table")
    parser.add_argument("--keep", help="folder for clusters and consoles, kept")
    return parser.parse_args()


def main():
    args = arguments()
    missing = [name for name in NEEDED if not shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin:/sbin")]
    if missing:
        print(f"guests: skipped: missing on this machine: {', '.join(missing)}")
        return 0
    try:
        # Before the own network, which reaches no mirror.
        kernels = {suite: Kernel(suite, os.path.abspath(args.cache)) for suite in args.kernels.split(",")}
    except Unavailable as why:
        print(f"guests: skipped: {why}")
        return 0
    clusters.enter_own_network()
    begun, steps, place = time.monotonic(), Steps(), Place(args.keep, "guests-")
    images = {}
    for suite, kernel in kernels.items():
        images[suite] = os.path.join(place.path, f"{suite}.cpio")
        initramfs.build(kernel, PROGRAMS, images[suite])
    names = {suite: f"Linux {kernel.version}" for suite, kernel in kernels.items()}
    if args.auth in ("cephx", "both"):
        alone = args.alone.split(",") if args.alone else list(kernels)
        with_keys(args.nacre, kernels, images, place.path, steps, args.only, alone)
    if args.auth in ("none", "both"):
        without_keys(args.nacre, kernels, images, place.path, steps)
        names["open"] = "without authentication"
    names["virtio"] = "QEMU's driver"
    if args.report:
        with open(args.report, "w") as f:
            f.write(steps.report(names))
    failed = steps.failed()
    print(f"guests: {len(steps.rows) - len(failed)} passed, {len(failed)} failed in {time.monotonic() - begun:.0f} s")
    if failed:
        print(f"files stay in {place.path}")
        return 1
    place.remove()
    return 0


if __name__ == "__main__":
    sys.exit(main())
