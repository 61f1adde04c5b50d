#!/usr/bin/python3
"""Kills a cluster again and again under load and checks that nothing acknowledged is lost.

A client process of the stock librados keeps operations in flight on a set of objects: whole-object writes, partial
overwrites, appends, truncations, removals, and compound writes of data, attribute and omap that carry the same stamp. It keeps a
model of every object. The server gets SIGKILL at a random moment and is started again; librados sends what was not answered once
more. When all is answered, every object must equal its model: what was acknowledged is there, appends happened exactly once, and data,
attribute and omap of one transaction agree. A second client that never saw the first one's traffic does the reading.

usage: kill_rounds.py --nacre PATH --rounds N [--seed S] [--dir DIR] [--seconds 3] [--auth none|cephx] [--osds N] [-- MORE ARGUMENTS OF nacre up]
"""
import argparse
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import rados

POOL = "kill"
IN_FLIGHT = 32


class Server:
    """`nacre up` as a process."""

    def __init__(self, args, directory):
        self.argv = [args.nacre, "up", "--dir", directory, "--osds", str(args.osds), "--port", str(args.port), "--auth", args.auth]
        self.argv += args.more
        self.process = None

    def start(self):
        self.process = subprocess.Popen(self.argv, stdout=subprocess.PIPE, text=True)
        begun = time.monotonic()
        for line in self.process.stdout:
            if line.startswith("ready"):
                return time.monotonic() - begun
        raise SystemExit(f"nacre up ended with {self.process.wait()} before it was ready")

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=30)
        if code != 0:
            raise SystemExit(f"a clean stop ended with {code}")


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


def free_port():
    """A port that is free and below the range of ephemeral ports: a client that dials a dead server on an ephemeral port may
    get that very port as its own, and keep the server from coming back."""
    while True:
        port = random.SystemRandom().randrange(10000, 30000)
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


def connect(conf):
    cluster = rados.Rados(conffile=conf)
    cluster.connect(timeout=30)
    return cluster


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
    listed = {o.key for o in ioctx.list_objects()}
    expected = {name for name, m in models.items() if m.data is not None}
    if listed != expected:
        wrong.append(f"listing differs: missing {expected - listed}, too many {listed - expected}")
    ioctx.close()
    cluster.shutdown()
    return wrong


def describe(data):
    return "nothing" if data is None else f"{len(data)} bytes, ends with {data[-1:]!r}"


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
    parser.add_argument("more", nargs="*")
    args = parser.parse_args()
    args.port = args.port or free_port()
    rng = random.Random(args.seed)
    base = args.dir or tempfile.mkdtemp(prefix="nacre-kill-")
    directory = os.path.join(base, "cluster")
    conf = os.path.join(directory, "ceph.conf")
    server = Server(args, directory)
    server.start()
    try:
        cluster = connect(conf)
        cluster.create_pool(POOL)
        ioctx = cluster.open_ioctx(POOL)
        load = Load(ioctx, rng, 120)
        for number in range(1, args.rounds + 1):
            runner = threading.Thread(target=load.run, args=(time.monotonic() + args.seconds,))
            runner.start()
            time.sleep(rng.uniform(0.3, 1.0) * args.seconds)
            server.kill()
            took = server.start()
            runner.join()
            left = load.drain(60)
            wrong = load.errors + ([f"{left} operations were never answered"] if left else []) + verify(conf, load.models)
            print(f"round {number}: {load.acknowledged} acknowledged, ready again after {took:.2f} s, {len(wrong)} wrong", flush=True)
            if wrong:
                print(f"FAILED with --seed {args.seed}; the cluster is in {directory}")
                print("\n".join(wrong[:20]))
                # The files must stay for whoever looks into it; librados may not be able to shut down.
                server.kill()
                os._exit(1)
        ioctx.close()
        cluster.shutdown()
        server.stop()
    except BaseException:
        if server.process and server.process.poll() is None:
            server.kill()
        raise
    if not args.dir:
        shutil.rmtree(base)
    print(f"kill rounds: {args.rounds} passed, 0 failed")


if __name__ == "__main__":
    sys.exit(main())
