#!/usr/bin/python3
"""Kills a cluster again and again under load and checks that nothing acknowledged is lost.

A client process of the stock librados keeps operations in flight on a set of objects: whole-object writes, partial
overwrites, appends, truncations, removals, and compound writes of data, attribute and omap that carry the same stamp. It keeps a
model of every object. The server gets SIGKILL at a random moment and is started again; librados sends what was not answered once
more. When all is answered, every object must equal its model: what was acknowledged is there, appends happened exactly once, and data,
attribute and omap of one transaction agree. A second client that never saw the first one's traffic does the reading.

Another client (doomed.py) dies with the server: what it had begun is sent by nobody again, and must be there whole or not at
all. The monitor must know every key that it acknowledged.

kill -9 keeps the page cache, so it proves nothing about flushes. With --lossy everything (DIR with the stores of OSDs and monitor) lies
on a disk of tools/lossydisk, which in each round loses its power: of what was not flushed, any part is gone, torn or reordered. Before
each start `nacre fsck --deep` looks at what is left. --must-fail proves the harness: the disk lies about flushes or about
durable writes, and a run in which that is not noticed fails.

usage: kill_rounds.py --nacre PATH --rounds N [--seed S] [--dir DIR] [--seconds 2] [--auth none|cephx] [--osds N]
                      [--lossy PATH [--latency MICROSECONDS] [--must-fail flushes|durable]] [-- MORE ARGUMENTS OF nacre up]
"""
import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time

import rados

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", room) for room in ("lib",)]
import doomed
from harness import Failed, LossyDisk, Place, Server, connect, free_port

POOL = "kill"
IN_FLIGHT = 32
DOOMED = 12


class Model:
    """What an object must be: bytes, stamp (attribute and omap), or absent."""

    def __init__(self):
        self.data = None
        self.stamp = None


class Load:
    """Operations on objects, one at a time on each, many objects at once."""

    def __init__(self, ioctx, rng, count):
        self.ioctx, self.rng = ioctx, rng
        self.models = {f"object-{i}": Model() for i in range(count)}
        self.idle = list(self.models)
        self.lock = threading.Condition()
        self.busy = 0
        self.acknowledged = 0
        self.errors = []

    def content(self, largest):
        size = self.rng.choice([1, 100, 4096, 5000, 65536, 200000, largest])
        return bytes([self.rng.randrange(256)]) * size

    def begin(self, name):
        """Starts one random operation on an object that is idle; the model changes when it is acknowledged."""
        model, kind = self.models[name], self.rng.random()
        old = model.data or b""
        stamp = model.stamp
        if kind < 0.25:
            new = self.content(1 << 20)
            self.issue(name, new, stamp, lambda done: self.ioctx.aio_write_full(name, new, done, done))
        elif kind < 0.50:
            data, offset = self.content(65536), self.rng.randrange(0, len(old) + 5000)
            new = old[:offset].ljust(offset, b"\0") + data + old[offset + len(data):]
            self.issue(name, new, stamp, lambda done: self.ioctx.aio_write(name, data, offset, done, done))
        elif kind < 0.70:
            data = self.content(65536)
            self.issue(name, old + data, stamp, lambda done: self.ioctx.aio_append(name, data, done, done))
        elif kind < 0.95 or model.data is None:
            data, stamp = self.content(65536), str(self.rng.random()).encode()
            with rados.WriteOpCtx() as op:
                op.write_full(data)
                op.set_xattr("stamp", stamp)
                self.ioctx.set_omap(op, ("stamp", f"k{self.rng.randrange(50)}"), (stamp, stamp))
                self.issue(name, data, stamp, lambda done: self.ioctx.operate_aio_write_op(op, name, done, done))
        else:
            self.issue(name, None, None, lambda done: self.ioctx.aio_remove(name, done, done))

    def issue(self, name, data, stamp, call):
        once = threading.Lock()

        def done(completion, *_):
            # librados calls both callbacks; the first one counts.
            if not once.acquire(blocking=False):
                return
            result = completion.get_return_value()
            with self.lock:
                if result < 0:
                    self.errors.append(f"{name}: an operation ended with {result}")
                else:
                    self.models[name].data, self.models[name].stamp = data, stamp
                    self.acknowledged += 1
                self.idle.append(name)
                self.busy -= 1
                self.lock.notify_all()

        call(done)

    def run(self, until):
        while time.monotonic() < until:
            with self.lock:
                if self.busy >= IN_FLIGHT or not self.idle:
                    self.lock.wait(0.05)
                    continue
                name = self.idle.pop(self.rng.randrange(len(self.idle)))
                self.busy += 1
            self.begin(name)

    def drain(self, seconds):
        end = time.monotonic() + seconds
        with self.lock:
            while self.busy and time.monotonic() < end:
                self.lock.wait(0.2)
            return self.busy


def verify(conf, models):
    """Reads everything with a new client; what differs from the models."""
    wrong = []
    cluster = connect(conf)
    ioctx = cluster.open_ioctx(POOL)
    for name, model in models.items():
        try:
            data = ioctx.read(name, 8 << 20)
        except rados.ObjectNotFound:
            data = None
        if data != model.data:
            wrong.append(f"{name}: has {describe(data)}, was acknowledged as {describe(model.data)}")
        elif model.stamp is not None:
            with rados.ReadOpCtx() as op:
                values, _ = ioctx.get_omap_vals_by_keys(op, ("stamp",))
                ioctx.operate_read_op(op, name)
                omap = dict(values).get("stamp")
            xattr = ioctx.get_xattr(name, "stamp")
            if not model.stamp == xattr == omap:
                wrong.append(f"{name}: data, attribute and omap disagree: {model.stamp} {xattr} {omap}")
    listed = {o.key for o in ioctx.list_objects() if o.key.startswith("object-")}
    expected = {name for name, m in models.items() if m.data is not None}
    if listed != expected:
        wrong.append(f"listing differs: missing {expected - listed}, too many {listed - expected}")
    ioctx.close()
    cluster.shutdown()
    return wrong


def describe(data):
    return "nothing" if data is None else f"{len(data)} bytes, ends with {data[-1:]!r}"


class Doomed:
    """The client that dies with the server, and what it may have left."""

    def __init__(self, conf, seed):
        self.conf, self.seed = conf, seed
        self.states = {name: doomed.State() for name in doomed.names(DOOMED)}
        self.number = 0
        self.acknowledged = 0
        self.unanswered = 0
        self.process = None

    def start(self):
        argv = [sys.executable, doomed.__file__, self.conf, POOL, str(self.seed), str(DOOMED), str(self.number)]
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        self.lines = []
        # From its first words on it works.
        self.lines.append(self.process.stdout.readline())
        self.reader = threading.Thread(target=lambda: self.lines.extend(self.process.stdout))
        self.reader.start()

    def kill(self):
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            self.reader.join()
            self.process.stdout.close()
            self.process = None

    def verify(self, conf):
        """Checks what the client left; gives what is wrong."""
        begun, wrong = {}, []
        for line in self.lines:
            # The last line may be cut off: then it was not said.
            words = line.split() if line.endswith("\n") else []
            if words[:1] == ["begin"]:
                begun[words[1]] = int(words[2])
                self.number = max(self.number, int(words[2]) + 1)
            elif words[:1] == ["done"]:
                name, number = words[1], int(words[2])
                self.states[name], _ = doomed.apply(self.seed, name, number, self.states[name])
                del begun[name]
                self.acknowledged += 1
            elif words:
                wrong.append(f"doomed client: {line.strip()}")
        cluster = connect(conf)
        ioctx = cluster.open_ioctx(POOL)
        for name, before in self.states.items():
            found, allowed = doomed.read(ioctx, name), [before]
            if name in begun:
                self.unanswered += 1
                allowed.append(doomed.apply(self.seed, name, begun[name], before)[0])
            if found not in allowed:
                wrong.append(f"{name}: has {found}, allowed are {allowed}")
            self.states[name] = found
        ioctx.close()
        cluster.shutdown()
        return wrong


class Keys:
    """Keys that the monitor acknowledged."""

    def __init__(self, conf):
        self.cluster = connect(conf)
        self.acknowledged = {}
        self.errors = []
        self.stopping = threading.Event()

    def run(self, first):
        """Sets keys until it is told to stop."""
        number = first
        while not self.stopping.is_set():
            key, value = f"kill/{number % 50}", str(number)
            result, _, text = self.cluster.mon_command(_json(prefix="config-key set", key=key, val=value), b"")
            if result == 0:
                self.acknowledged[key] = value
                number += 1
            else:
                self.errors.append(f"config-key set gave {result} {text}")
            time.sleep(0.01)

    def verify(self, conf):
        cluster, wrong = connect(conf), self.errors
        for key, value in self.acknowledged.items():
            result, found, _ = cluster.mon_command(_json(prefix="config-key get", key=key), b"")
            if result != 0 or found.decode() != value:
                wrong.append(f"the monitor says {found!r} ({result}) for {key}, acknowledged was {value}")
        cluster.shutdown()
        return wrong


def _json(**command):
    return json.dumps(command)


class Rounds:
    """One cluster, killed again and again."""

    def __init__(self, args, base):
        self.args, self.rng = args, random.Random(args.seed)
        self.disk = LossyDisk(args.lossy, base, args.latency) if args.lossy else None
        directory = os.path.join(self.disk.mount if self.disk else base, "cluster")
        self.server = Server(args.nacre, directory, args.port or free_port(), args.osds, args.auth, args.more)
        self.server.start()
        # The clients' own copy: they must not depend on a disk without power.
        self.conf = shutil.copy(self.server.conf, os.path.join(base, "ceph.conf"))
        self.cluster = connect(self.conf)
        self.cluster.create_pool(POOL)
        self.ioctx = self.cluster.open_ioctx(POOL)
        self.load = Load(self.ioctx, self.rng, 120)
        self.doomed = Doomed(self.conf, args.seed)
        self.keys = Keys(self.conf)
        if args.must_fail:
            # From here on, so that it is the stores that suffer.
            self.disk.tell(f"lie {args.must_fail}")

    def crash(self):
        """SIGKILL for the server and the client that dies with it; a disk that forgets loses its power first, or last."""
        cut, seed = "", self.rng.randrange(1 << 62)
        first = self.disk and self.rng.random() < 0.7
        if first:
            cut = self.disk.lose(seed)
        self.server.kill()
        self.doomed.kill()
        if self.disk:
            cut = cut or self.disk.lose(seed)
            self.disk.back()
        return cut

    def one(self, number):
        args, load = self.args, self.load
        runner = threading.Thread(target=load.run, args=(time.monotonic() + args.seconds,))
        self.keys.stopping.clear()
        setter = threading.Thread(target=self.keys.run, args=(number * 100000,))
        runner.start()
        self.doomed.start()
        setter.start()
        time.sleep(self.rng.uniform(0.3, 1.0) * args.seconds)
        try:
            cut = self.crash()
            wrong = self.server.fsck() if self.disk else []
            took = self.server.start()
        finally:
            self.keys.stopping.set()
        runner.join()
        left = load.drain(10 if args.must_fail else 60)
        setter.join(10 if args.must_fail else 60)
        wrong += load.errors + ([f"{left} operations were never answered"] if left else [])
        try:
            wrong += verify(self.conf, load.models) + self.doomed.verify(self.conf) + self.keys.verify(self.conf)
        except rados.Error as e:
            wrong.append(f"the check ended with {type(e).__name__}: {e}")
        told = f", {cut}" if cut else ""
        print(
            f"round {number}: {load.acknowledged} acknowledged, of the doomed {self.doomed.acknowledged} acknowledged and "
            f"{self.doomed.unanswered} unanswered, {len(self.keys.acknowledged)} keys{told}, ready again after {took:.2f} s, "
            f"{len(wrong)} wrong",
            flush=True,
        )
        if wrong:
            raise Failed(wrong)

    def end(self):
        self.ioctx.close()
        self.cluster.shutdown()
        self.keys.cluster.shutdown()
        self.server.stop()
        wrong = self.server.fsck()
        if self.disk:
            stats = self.disk.stats()
            if int(stats["durable"]) == 0 or int(stats["flushes"]) == 0:
                wrong.append(f"the disk saw no flush or no durable write: {stats}")
            print(f"the disk: {stats}")
            self.disk.close()
        if wrong:
            raise Failed(wrong)

    def abandon(self):
        """After a failure: nothing runs on, the files stay for whoever looks into it."""
        self.doomed.kill()
        if self.server.running():
            self.server.kill()
        if self.disk:
            self.disk.back()
            kept = self.disk.tell("keep kept")
            self.disk.close()
            return os.path.join(kept, "cluster")
        return self.server.directory


def run(args, base):
    """Runs the rounds; gives what is wrong, and where to look."""
    rounds = Rounds(args, base)
    try:
        for number in range(1, args.rounds + 1):
            rounds.one(number)
        rounds.end()
    except Failed as failed:
        return failed.args[0], rounds.abandon()
    except BaseException:
        rounds.abandon()
        raise
    return [], None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nacre", required=True)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30))
    parser.add_argument("--dir")
    parser.add_argument("--seconds", type=float, default=2.0, help="load before each kill, at most")
    parser.add_argument("--auth", default="none")
    parser.add_argument("--osds", type=int, default=2)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--lossy", help="path of tools/lossydisk's program")
    parser.add_argument("--latency", type=int, default=300, help="most microseconds that the lossy disk takes for a write or flush")
    parser.add_argument("--must-fail", choices=["flushes", "durable"], help="the lossy disk lies about these; that must be noticed")
    parser.add_argument("more", nargs="*")
    args = parser.parse_args()
    place = Place(args.dir, "nacre-kill-")
    wrong, where = run(args, place.path)
    # librados may not be able to shut down when its server is gone for good: no thread of it may keep this process.
    code = int(bool(wrong) != bool(args.must_fail))
    if wrong:
        print(f"{'NOTICED, as it must be' if args.must_fail else 'FAILED'} with --seed {args.seed}")
        print("\n".join(wrong[:20]))
    if code == 0:
        place.remove()
        print(f"kill rounds: {args.rounds} passed, 0 failed" if not args.must_fail else "kill rounds: the lying disk was noticed")
    elif wrong:
        print(f"the cluster is in {where}")
    else:
        print(f"FAILED with --seed {args.seed}: the disk lied in {args.rounds} rounds and nobody noticed")
    sys.stdout.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
