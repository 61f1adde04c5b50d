"""What clients do beside the model while a cluster is thrashed: watches, an image, large objects, `rados bench`. And the reading of all copies."""
import hashlib
import random
import subprocess
import threading
import time

import rados
import rbd

import librados_c
from harness import connect

IMAGE = 16 << 20
BLOCK = 4096


class Image(threading.Thread):
    """Writes blocks of an image, reads them, and compares; from time to time flushes, and opens it anew."""

    def __init__(self, test, conf, pool):
        super().__init__(daemon=True)
        self.test, self.rng = test, random.Random(f"{test.seed}/image")
        self.io = connect(conf).open_ioctx(pool)
        rbd.RBD().create(self.io, "thrashed", IMAGE, order=20)
        self.content = bytearray(IMAGE)

    def run(self):
        try:
            while not self.test.stopping.is_set():
                with rbd.Image(self.io, "thrashed") as image:
                    self.session(image)
        except Exception as e:  # whatever it is, it is a finding
            self.test.fail(f"image: {type(e).__name__}: {e}")

    def session(self, image):
        for _ in range(200):
            if self.test.stopping.is_set():
                return
            size = BLOCK * self.rng.choice([1, 1, 2, 16, 64])
            offset = self.rng.randrange((IMAGE - size) // BLOCK) * BLOCK
            if self.rng.random() < 0.7:
                data = self.rng.randbytes(256) * (size // 256)
                image.write(data, offset)
                self.content[offset : offset + size] = data
                self.test.count("image writes")
            else:
                self.compare(image, offset, size)
        image.flush()

    def compare(self, image, offset, size):
        found = image.read(offset, size)
        if found != bytes(self.content[offset : offset + size]):
            at = next(i for i in range(size) if found[i] != self.content[offset + i])
            self.test.fail(f"image: byte {offset + at} differs from what was written")

    def verify(self):
        """All of it, with a client that saw nothing of it."""
        with rbd.Image(self.io, "thrashed") as image:
            for offset in range(0, IMAGE, 1 << 20):
                self.compare(image, offset, 1 << 20)


class Bench(threading.Thread):
    """`rados bench` again and again."""

    def __init__(self, test, conf, pool):
        super().__init__(daemon=True)
        self.test, self.conf, self.pool, self.process = test, conf, pool, None

    def run(self):
        turns = [["4", "write", "-b", "4096", "-t", "4"], ["3", "write", "-b", "1048576", "-t", "2"]]
        number = 0
        while not self.test.stopping.is_set():
            argv = ["rados", "-c", self.conf, "-p", self.pool, "bench", *turns[number % 2]]
            self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            said, _ = self.process.communicate()
            if self.process.returncode == 0:
                self.test.count("runs of rados bench")
            elif not self.test.wrong:
                self.test.fail(f"{' '.join(argv)} ended with {self.process.returncode}: {said[-500:]}")
            number += 1

    def end(self):
        """Ends it if it did not end itself."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()


class Large(threading.Thread):
    """Writes objects of up to 64 MiB, changes parts of them, copies one to another, and reads them.

    A copy of more than 8 MiB comes in portions, and an object of more than 4 MiB is brought to a copy that lacks it in pieces.
    """

    SIZES = [5 << 20, 9 << 20, 9 << 20, 17 << 20, 17 << 20, 64 << 20]
    NAMES = [f"large{n}" for n in range(6)]
    BLOCK = 1 << 20

    def __init__(self, test, conf, pool):
        super().__init__(daemon=True)
        self.test, self.rng = test, random.Random(f"{test.seed}/large")
        self.io = connect(conf).open_ioctx(pool)
        self.copies = librados_c.Cluster(conf).pool(pool)
        # Seeds of the blocks of each object.
        self.objects = {name: [] for name in self.NAMES}

    def block(self, seed):
        return random.Random(seed).randbytes(4096) * (self.BLOCK // 4096)

    def run(self):
        try:
            while not self.test.stopping.is_set():
                self.rng.choice([self.write, self.change, self.copy, self.copy, self.look])()
                self.test.stopping.wait(0.5)
        except Exception as e:  # whatever it is, it is a finding
            self.test.fail(f"large objects: {type(e).__name__}: {e}")

    def write(self):
        name, blocks = self.rng.choice(self.NAMES), self.rng.choice(self.SIZES) // self.BLOCK
        seeds = [self.rng.randrange(1 << 30) for _ in range(blocks)]
        self.io.write_full(name, b"".join(self.block(seed) for seed in seeds))
        self.objects[name] = seeds
        self.test.count("large objects written")

    def change(self):
        name = self.rng.choice(self.NAMES)
        if self.objects[name]:
            at, seed = self.rng.randrange(len(self.objects[name])), self.rng.randrange(1 << 30)
            self.io.write(name, self.block(seed), at * self.BLOCK)
            self.objects[name] = [seed if n == at else old for n, old in enumerate(self.objects[name])]
            self.test.count("blocks of large objects changed")

    def copy(self):
        source, target = self.rng.sample(self.NAMES, 2)
        if self.objects[source]:
            result = self.copies.copy_from(target, source)
            if result != 0:
                self.test.fail(f"copy-from {source} to {target} of {len(self.objects[source])} MiB gave {result}")
            self.objects[target] = list(self.objects[source])
            self.test.count("large objects copied")

    def look(self):
        self.compare(self.rng.choice(self.NAMES))
        self.test.count("large objects read")

    def compare(self, name):
        seeds = self.objects[name]
        if not seeds:
            return
        size, _ = self.io.stat(name)
        if size != len(seeds) * self.BLOCK:
            return self.test.fail(f"{name} has {size} bytes, not {len(seeds) * self.BLOCK}")
        for at, seed in enumerate(seeds):
            if self.io.read(name, self.BLOCK, at * self.BLOCK) != self.block(seed):
                return self.test.fail(f"{name} differs at {at} MiB from what was written")

    def verify(self):
        """All of them, at the end."""
        for name in self.NAMES:
            self.compare(name)


class Notifier(threading.Thread):
    """Watches an object and notifies of it. A notify that was answered while the watch held was heard."""

    def __init__(self, test, conf, pool):
        super().__init__(daemon=True)
        self.test, self.heard, self.watch = test, 0, None
        self.io = connect(conf).open_ioctx(pool)
        self.io.write_full("watched", b"watched")

    def hear(self, *_):
        self.heard += 1

    def rewatch(self):
        """A watch that was lost for a while ends with an error, and its owner makes another one."""
        self.lost = False
        self.watch = self.io.watch("watched", self.hear, self.lose)
        self.test.count("watches")

    def lose(self, *_):
        self.lost = True

    def holds(self):
        """Whether the watch is known to hold."""
        try:
            self.watch.check()
        except rados.Error:
            return False
        return not self.lost

    def turn(self):
        if not self.holds():
            self.watch.close()
            self.rewatch()
        before = self.heard
        try:
            self.io.notify("watched", "hello", 10000)
        except rados.TimedOut:
            # Somebody whose watch is lost did not answer.
            return self.test.count("notifies that timed out")
        self.test.count("notifies")
        if self.heard == before and self.holds():
            self.test.fail("a notify was answered, and the watch that holds has not heard of it")

    def run(self):
        try:
            self.rewatch()
            while not self.test.stopping.is_set():
                self.turn()
                self.test.stopping.wait(0.3)
        except rados.Error as e:
            self.test.fail(f"watch and notify: {type(e).__name__}: {e}")


def lead(processes, osd, seconds):
    """Makes an OSD the primary of all groups that it has a copy of."""
    for other in range(processes.args.osds):
        processes.ceph("osd", "primary-affinity", other, 1 if other == osd else 0)
    end = time.monotonic() + seconds
    while True:
        others = [g for g in processes.groups() if osd in g["acting"] and g["acting_primary"] != osd or "active" not in g["state"]]
        if not others or time.monotonic() > end:
            return [f"{g['pgid']} ({g['state']}) is led by osd.{g['acting_primary']}, not by osd.{osd}" for g in others[:5]]
        time.sleep(0.3)


def digests(conf, pools):
    """What each object has, as a digest: data, attributes, omap, as its group's primary tells it."""
    listed, reader, found = connect(conf), librados_c.Cluster(conf), {}
    for pool in pools:
        io, reading = listed.open_ioctx(pool), reader.pool(pool)
        for name in sorted(o.key for o in io.list_objects()):
            state = reading.read(name)
            digest, size = hashlib.sha1(repr(state.key()).encode()), len(state.data) if state.data is not None else None
            # One read of the model's ends with its buffer.
            while size and size % librados_c.LARGEST == 0 and (more := io.read(name, librados_c.LARGEST, size)):
                digest.update(more)
                size += len(more)
            found[pool, name] = (digest.hexdigest(), f"{size} bytes")
        io.close()
    listed.shutdown()
    return found


def unequal(processes, pools, seconds):
    """Reads all through each OSD in turn; gives how many objects there are, and sentences about those that are not the same on all."""
    seen, wrong = {}, []
    for osd in range(processes.args.osds):
        wrong += lead(processes, osd, seconds)
        seen[osd] = digests(processes.conf, pools)
    keys = sorted({key for found in seen.values() for key in found})
    for key in keys:
        told = {osd: found.get(key) for osd, found in seen.items()}
        if len(set(told.values())) > 1:
            wrong.append(f"copies of {'/'.join(key)} differ, read with each OSD as primary: {told}")
    for osd in range(processes.args.osds):
        processes.ceph("osd", "primary-affinity", osd, 1)
    return len(keys), wrong
