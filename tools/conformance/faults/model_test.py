#!/usr/bin/python3
"""A randomized workload of the stock librados against a model in memory, while the server is killed and restarted.

Several clients. Each worker owns objects and does to them, many at once: write, write_full, append, writesame, truncate, zero,
remove, exclusive create, attributes, omap (set, remove, clear), compound operations of these, guarded ones that must fail, copy-from,
snapshots (of the pool, or self-managed) with reads at them, rollback to them, and their removal. Readers with clients of their own read objects of
others: what they see must be a state that the object had between the beginning and the end of the read. All workers append to a few shared
objects: each record must be there exactly once, those of one worker in order. When the server is killed, librados sends what was
not answered again: everything must happen exactly once, results included (an exclusive create that is sent again must not find itself).

The choices of a worker follow from the seed alone; the moments of the kills do not.

usage: model_test.py --nacre PATH [--seed S] [--seconds 60] [--every 5] [--workers 6] [--auth none|cephx] [--osds 2]
                     [--dir DIR] [--lossy PATH] [-- MORE ARGUMENTS OF nacre up]
       model_test.py --conf CEPH_CONF [--seed S] [--seconds 60]      the same against a cluster that runs already, without kills
"""
import argparse
import collections
import hashlib
import os
import random
import shutil
import sys
import threading
import time

import rados

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", room) for room in ("lib",)]
import librados_c
from harness import Failed, LossyDisk, Place, Server, connect, free_port
from librados_c import State

OBJECTS = 8
SHARED = 3
LARGEST = 1500000
MOST_SNAPS = 3
MOST_RECORDS = 4000
CLIENTS = 3
STUCK = 90


class Stopped(Exception):
    """Something was found by another thread: stop."""


class Test:
    """What all threads share."""

    def __init__(self, seed):
        self.seed = seed
        self.stopping = threading.Event()
        self.wrong = []
        self.counts = collections.Counter()
        self.lock = threading.Lock()
        self.progress = time.monotonic()

    def fail(self, sentence):
        with self.lock:
            self.wrong.append(sentence)
        self.stopping.set()

    def count(self, what):
        with self.lock:
            self.counts[what] += 1
            self.progress = time.monotonic()


class History:
    """The states that an object had, one for each operation that was begun, as digests; and how many are acknowledged."""

    def __init__(self):
        self.lock = threading.Lock()
        self.state = State()
        self.digests = [digest(self.state)]
        # The last states, with what led to them, for the sentence about a difference.
        self.recent = collections.deque([(self.state, "nothing yet")], maxlen=8)
        self.acknowledged = 0

    def begin(self, state, what):
        with self.lock:
            self.state = state
            self.recent.append((state, what))
            self.digests.append(digest(state))
            return len(self.digests) - 1

    def done(self, number):
        with self.lock:
            self.acknowledged = max(self.acknowledged, number)

    def bounds(self):
        with self.lock:
            return self.acknowledged, len(self.digests) - 1


def digest(state):
    return hashlib.sha1(repr(state.key()).encode()).digest()


def content(rng, largest=LARGEST):
    size = min(rng.choice([1, 100, 512, 4096, 5000, 16384, 65536, 70000, 200000]), largest)
    pattern = rng.randbytes(min(size, 251))
    return (pattern * (size // max(len(pattern), 1) + 1))[:size]


class Steps:
    """Builds a write operation and the state after it."""

    def __init__(self, rng, state):
        self.rng, self.steps, self.names = rng, [], []
        self.exists = state.data is not None
        self.data, self.xattrs, self.omap = bytearray(state.data or b""), dict(state.xattrs), dict(state.omap)

    def state(self):
        return State(bytes(self.data), self.xattrs, self.omap) if self.exists else State()

    def add(self):
        """One random step."""
        rng = self.rng
        kinds = ["write", "write_full", "append", "writesame", "set_xattr", "omap_set"]
        if self.exists:
            kinds += ["truncate", "zero", "omap_clear", "omap_rm", "rm_xattr", "write", "append"]
        kind = rng.choice(kinds)
        self.names.append(kind)
        getattr(self, kind)(rng)
        self.exists = True

    def write(self, rng):
        data = content(rng)
        offset = rng.randrange(min(len(self.data) + 3000, LARGEST - len(data)))
        self.data.extend(bytes(max(0, offset - len(self.data))))
        self.data[offset : offset + len(data)] = data
        self.steps.append(lambda io, op: op.write(data, offset))

    def write_full(self, rng):
        data = content(rng)
        self.data = bytearray(data)
        self.steps.append(lambda io, op: op.write_full(data))

    def append(self, rng):
        if len(self.data) > LARGEST:
            return self.write_full(rng)
        data = content(rng)
        self.data.extend(data)
        self.steps.append(lambda io, op: op.append(data))

    def writesame(self, rng):
        data, times, offset = rng.randbytes(rng.choice([1, 16, 512])), rng.randrange(1, 100), rng.randrange(100000)
        whole = data * times
        self.data.extend(bytes(max(0, offset - len(self.data))))
        self.data[offset : offset + len(whole)] = whole
        self.steps.append(lambda io, op: op.writesame(data, len(whole), offset))

    def truncate(self, rng):
        size = rng.randrange(min(len(self.data) + 5000, LARGEST))
        self.data = self.data[:size] + bytes(max(0, size - len(self.data)))
        self.steps.append(lambda io, op: op.truncate(size))

    def zero(self, rng):
        if not self.data:
            return self.append(rng)
        offset = rng.randrange(len(self.data))
        size = rng.randrange(1, len(self.data) - offset + 1)
        # Zeros up to the end, or beyond, are a truncation. The binding takes its arguments the other way round than it says.
        self.data[offset : offset + size] = bytes(size) if offset + size < len(self.data) else b""
        self.steps.append(lambda io, op: op.zero(size, offset))

    def set_xattr(self, rng):
        name, value = f"x{rng.randrange(6)}", rng.randbytes(rng.choice([0, 1, 20, 3000]))
        self.xattrs[name] = value
        self.steps.append(lambda io, op: op.set_xattr(name, value))

    def rm_xattr(self, rng):
        if not self.xattrs:
            return self.set_xattr(rng)
        name = rng.choice(sorted(self.xattrs))
        del self.xattrs[name]
        self.steps.append(lambda io, op: op.rm_xattr(name))

    def omap_set(self, rng):
        keys = tuple(f"k{rng.randrange(300):03}" for _ in range(rng.choice([1, 2, 10, 60])))
        values = tuple(rng.randbytes(rng.choice([0, 3, 100])) for _ in keys)
        self.omap.update(zip(keys, values))
        self.steps.append(lambda io, op: io.set_omap(op, keys, values))

    def omap_rm(self, rng):
        keys = tuple(f"k{rng.randrange(300):03}" for _ in range(20))
        for key in keys:
            self.omap.pop(key, None)
        self.steps.append(lambda io, op: io.remove_omap_keys(op, keys))

    def omap_clear(self, rng):
        self.omap.clear()
        self.steps.append(lambda io, op: io.clear_omap(op))


class Worker(threading.Thread):
    """Owner of some objects."""

    def __init__(self, test, number, cluster, c_cluster, pool, shared, self_managed):
        super().__init__(daemon=True)
        self.test, self.number, self.pool = test, number, pool
        self.rng = random.Random(f"{test.seed}/{number}")
        self.io, self.c = cluster.open_ioctx(pool), c_cluster.pool(pool)
        self.shared = cluster.open_ioctx(shared)
        self.self_managed = self_managed
        self.objects = {f"w{number}-{i}": History() for i in range(OBJECTS)}
        # Snapshots that live: id, name (those of the pool), and the states of all objects then. Oldest first.
        self.snaps = []
        self.made_snaps = 0
        self.records = [0] * SHARED
        self.pending = []

    def run(self):
        try:
            while not self.test.stopping.is_set():
                self.turn()
        except Stopped:
            pass
        except Exception as e:  # whatever it is, it is a finding
            self.test.fail(f"worker {self.number}: {type(e).__name__}: {e}")

    def turn(self):
        rng = self.rng
        turns = [(70, self.burst), (8, self.look), (6, self.make_snap), (4, self.remove_snap), (6, self.roll_back), (5, self.copy)]
        rng.choices([t for _, t in turns], [w for w, _ in turns])[0]()

    # Operations in flight.

    def burst(self):
        for _ in range(self.rng.randrange(1, 8)):
            self.rng.choices([self.change, self.remove, self.refuse, self.record], [20, 1, 2, 3])[0]()
        self.settle()

    def begin(self, history, state, what, expected, call):
        """Starts an operation; `call` gets the callback."""
        number, over, result = history.begin(state, what) if history else 0, threading.Event(), []

        def done(completion, *_):
            result.append(completion.get_return_value())
            if history and result[0] == expected:
                history.done(number)
            over.set()

        self.pending.append((what, expected, over, result))
        call(done)

    def settle(self):
        """Waits for what is in flight."""
        for what, expected, over, result in self.pending:
            while not over.wait(1):
                if self.test.wrong:
                    raise Stopped
            if result[0] != expected:
                self.test.fail(f"{what} gave {result[0]}, expected {expected}")
                raise Stopped
            self.test.count("operations")
        self.pending = []

    def pick(self):
        name = self.rng.choice(list(self.objects))
        return name, self.objects[name]

    def change(self):
        name, history = self.pick()
        steps = Steps(self.rng, history.state)
        for _ in range(self.rng.choice([1, 1, 1, 2, 3, 5])):
            steps.add()
        exclusive = history.state.data is None and self.rng.random() < 0.5
        with rados.WriteOpCtx() as op:
            if exclusive:
                op.new(rados.LIBRADOS_CREATE_EXCLUSIVE)
            for step in steps.steps:
                step(self.io, op)
            call = lambda done: self.io.operate_aio_write_op(op, name, done, None)
            self.begin(history, steps.state(), f"{name}: {' '.join(steps.names)}, exclusive {exclusive},", 0, call)

    def remove(self):
        name, history = self.pick()
        expected = -2 if history.state.data is None else 0
        self.begin(history, State(), f"{name}: remove", expected, lambda done: self.io.aio_remove(name, done, None))

    def refuse(self):
        """A write that must fail as a whole: behind a guard that does not hold."""
        name, history = self.pick()
        if history.state.data is None:
            return
        with rados.WriteOpCtx() as op:
            op.append(b"this must not stay")
            op.new(rados.LIBRADOS_CREATE_EXCLUSIVE)
            call = lambda done: self.io.operate_aio_write_op(op, name, done, None)
            self.begin(history, history.state, f"{name}: an exclusive create of what is there", -17, call)

    def record(self):
        """Appends to an object that all append to."""
        at = self.rng.randrange(SHARED)
        if self.records[at] >= MOST_RECORDS:
            return
        text = b"%02d:%08d;" % (self.number, self.records[at])
        self.records[at] += 1
        self.begin(None, None, f"append to shared-{at}", 0, lambda done: self.shared.aio_append(f"shared-{at}", text, done, None))

    # Snapshots, one thing at a time.

    def make_snap(self):
        if len(self.snaps) >= MOST_SNAPS:
            return self.remove_snap()
        self.made_snaps += 1
        if self.self_managed:
            name, snap = None, self.io.create_self_managed_snap()
        else:
            name = f"snap-{self.made_snaps}"
            self.io.create_snap(name)
            snap = self.io.lookup_snap(name).snap_id
            # The other connection may know of it later than this one, and so may an OSD: what it changed meanwhile would be in the snapshot.
            self.c.follow()
        self.snaps.append((snap, name, {n: h.state for n, h in self.objects.items()}))
        self.say_snaps()
        self.test.count("snapshots")

    def say_snaps(self):
        if self.self_managed:
            snaps = [snap for snap, _, _ in reversed(self.snaps)]
            self.io.set_self_managed_snap_write(snaps)
            self.c.set_snaps(snaps)

    def remove_snap(self):
        if not self.snaps:
            return
        snap, name, _ = self.snaps.pop(self.rng.randrange(len(self.snaps)))
        if self.self_managed:
            self.say_snaps()
            self.io.remove_self_managed_snap(snap)
        else:
            self.io.remove_snap(name)
        self.test.count("snapshots removed")

    def roll_back(self):
        name, history = self.pick()
        if not self.snaps:
            return
        snap, snap_name, states = self.rng.choice(self.snaps)
        state = states[name]
        if state.data is None and history.state.data is None:
            return
        number = history.begin(state, f"rollback to {snap}")
        if self.self_managed:
            self.io.rollback_self_managed_snap(name, snap)
        else:
            self.io.snap_rollback(name, snap_name)
        history.done(number)
        self.test.count("rollbacks")
        self.check(name, self.c.read(name), state, "after a rollback")

    def copy(self):
        (source, from_), (target, to) = self.pick(), self.pick()
        if source == target:
            return
        state = from_.state
        if state.data is None:
            result, expected = self.c.copy_from(target, source), -2
        else:
            number = to.begin(state, f"copy of {source}")
            result, expected = self.c.copy_from(target, source), 0
            to.done(number)
        if result != expected:
            self.test.fail(f"copy-from {source} to {target} gave {result}, expected {expected}")
            raise Stopped
        self.test.count("copies")

    # Looking.

    def look(self):
        name, history = self.pick()
        self.check(name, self.c.read(name), history.state, "now")
        if self.snaps:
            snap, _, states = self.rng.choice(self.snaps)
            self.check(name, self.c.read(name, snap), states[name], f"at snapshot {snap}")
        self.test.count("own reads")

    def check(self, name, found, expected, when):
        if found != expected:
            recent = ", ".join(what for _, what in self.objects[name].recent)
            self.test.fail(f"{self.pool}/{name} {when}: {found.differs(expected)}; the last operations: {recent}")
            raise Stopped


class Reader(threading.Thread):
    """Reads what others write."""

    def __init__(self, test, number, conf, workers):
        super().__init__(daemon=True)
        self.test, self.rng = test, random.Random(f"{test.seed}/reader {number}")
        cluster = librados_c.Cluster(conf)
        self.objects = [(cluster.pool(w.pool), name, history) for w in workers for name, history in w.objects.items()]

    def run(self):
        try:
            while not self.test.stopping.is_set():
                self.turn()
        except Exception as e:  # whatever it is, it is a finding
            self.test.fail(f"reader: {type(e).__name__}: {e}")

    def turn(self):
        pool, name, history = self.rng.choice(self.objects)
        oldest, _ = history.bounds()
        found = pool.read(name)
        seen = digest(found)
        _, newest = history.bounds()
        if seen not in history.digests[oldest : newest + 1]:
            older = [i for i, d in enumerate(history.digests) if d == seen]
            known = f"state {older[-1]}" if older else "a state that it never had"
            sentence = f"{name}: a reader saw {known}, between {oldest} and {newest} are possible"
            recent = "; ".join(f"({what}): {found.differs(state)}" for state, what in history.recent)
            self.test.fail(f"{sentence}; differences to the last states: {recent}")
        self.test.count("reads of others")


def final_check(test, conf, workers, shared):
    """Everything, with a client that has seen nothing of it."""
    cluster = librados_c.Cluster(conf)
    listed = connect(conf)
    for worker in workers:
        pool = cluster.pool(worker.pool)
        for name, history in worker.objects.items():
            looks = [(None, history.state, "at the end")]
            looks += [(snap, states[name], f"at the end, at snapshot {snap}") for snap, _, states in worker.snaps]
            for snap, expected, when in looks:
                found = pool.read(name, snap)
                if found != expected:
                    test.fail(f"{worker.pool}/{name} {when}: {found.differs(expected)}")
    for pool in {w.pool for w in workers}:
        io = listed.open_ioctx(pool)
        names = {o.key for o in io.list_objects()}
        expected = {n for w in workers if w.pool == pool for n, h in w.objects.items() if h.state.data is not None}
        # Objects whose head is gone but that live on in a snapshot may be listed or not.
        ghosts = {n for w in workers if w.pool == pool for _, _, states in w.snaps for n, s in states.items() if s.data is not None}
        if not expected <= names <= expected | ghosts:
            test.fail(f"{pool}: listing differs: missing {expected - names}, too many {names - expected - ghosts}")
    pool = cluster.pool(shared)
    for at in range(SHARED):
        found = collections.defaultdict(list)
        for text in (pool.read(f"shared-{at}").data or b"").split(b";")[:-1]:
            worker, number = text.split(b":")
            found[int(worker)].append(int(number))
        for worker in workers:
            if found[worker.number] != list(range(worker.records[at])):
                test.fail(f"shared-{at}: worker {worker.number} appended {worker.records[at]} records, found {odd(found[worker.number])}")


def odd(numbers):
    wrong = [n for i, n in enumerate(numbers) if n != i]
    return f"{len(numbers)}, the first that is out of place: {wrong[:3]}"


def pools(args):
    """Names of the pools: of self-managed snapshots, of objects that all append to, and of pool snapshots."""
    return [f"model-{args.seed}-{what}" for what in ("own", "shared", *(f"pool-{i}" for i in range(args.workers // 2)))]


def work(args, test, conf, crash, heal=None):
    """Makes the pools, runs workers and readers, crashes the server meanwhile, and heals it while they still work."""
    admin = connect(conf)
    names = pools(args)
    for pool in names:
        admin.create_pool(pool)
    # Whoever makes a self-managed snapshot first decides what kind of snapshots the pool has.
    clients = [(connect(conf), librados_c.Cluster(conf)) for _ in range(CLIENTS)]
    workers = []
    for number in range(args.workers):
        self_managed = number % 2 == 0
        pool = names[0] if self_managed else names[2 + number // 2]
        workers.append(Worker(test, number, *clients[number % CLIENTS], pool, names[1], self_managed))
    threads = workers + [Reader(test, i, conf, workers) for i in range(2)]
    for thread in threads:
        thread.start()
    end, rng = time.monotonic() + args.seconds, random.Random(f"{test.seed}/kills")
    while time.monotonic() < end and not test.stopping.is_set():
        test.stopping.wait(min(rng.uniform(0.2, 2) * args.every, max(0.1, end - time.monotonic())))
        if time.monotonic() - test.progress > STUCK:
            test.fail(f"nothing was answered for {STUCK} seconds")
        if not test.wrong and crash:
            crash(rng)
            test.count("kills")
    if heal and not test.wrong:
        heal()
    test.stopping.set()
    for thread in threads:
        # Who waits for what was found to be stuck is not waited for.
        thread.join(1 if test.wrong else STUCK)
        if thread.is_alive() and not test.wrong:
            test.fail(f"{type(thread).__name__} still waits for an answer")
    if not test.wrong:
        final_check(test, conf, workers, names[1])
    return names, admin


def own_cluster(args, test, place):
    disk = LossyDisk(args.lossy, place.path, 300) if args.lossy else None
    directory = os.path.join(disk.mount if disk else place.path, "cluster")
    server = Server(args.nacre, directory, args.port or free_port(), args.osds, args.auth, args.more)
    server.start()

    def crash(rng):
        # A server that lives on without its disk may answer reads with EIO, rightly. So it dies first here; the kill rounds do both.
        server.kill()
        if disk:
            disk.lose(rng.randrange(1 << 62))
            disk.back()
        server.start()

    try:
        # The clients' own copy: they must not depend on a disk without power.
        work(args, test, shutil.copy(server.conf, os.path.join(place.path, "ceph.conf")), crash)
        if not test.wrong:
            server.stop()
            test.wrong += server.fsck()
    except Failed as failed:
        test.wrong += failed.args[0]
    finally:
        if server.running():
            server.kill()
        if disk:
            if test.wrong:
                disk.tell("keep kept")
            disk.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nacre")
    parser.add_argument("--conf")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30))
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--every", type=float, default=5, help="seconds between kills, on average")
    parser.add_argument("--workers", type=int, default=6)
    parser.add_argument("--auth", default="none")
    parser.add_argument("--osds", type=int, default=2)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--dir")
    parser.add_argument("--lossy", help="path of tools/lossydisk's program: each kill is a power cut")
    parser.add_argument("more", nargs="*")
    args = parser.parse_args()
    if bool(args.nacre) == bool(args.conf):
        parser.error("one of --nacre and --conf is needed")
    test, place = Test(args.seed), None
    print(f"model test with --seed {args.seed}", flush=True)
    if args.conf:
        names, admin = work(args, test, args.conf, None)
        for pool in names if not test.wrong else []:
            admin.delete_pool(pool)
    else:
        place = Place(args.dir, "nacre-model-")
        own_cluster(args, test, place)
    print(", ".join(f"{n} {what}" for what, n in sorted(test.counts.items())))
    if test.wrong:
        print("\n".join(test.wrong[:20]))
        print(f"FAILED; to try again: {' '.join(a for a in sys.argv if not a.startswith('--seed'))} --seed {args.seed}")
        if place:
            print(f"the cluster is in {place.path}")
    else:
        if place:
            place.remove()
        print("model test: passed")
    sys.stdout.flush()
    # Threads of librados may wait for a server that is gone.
    os._exit(1 if test.wrong else 0)


if __name__ == "__main__":
    main()
