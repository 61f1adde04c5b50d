"""A client that dies together with the server, so that nobody sends again what was not acknowledged.

It does one operation after the other on each of its objects, and says on its standard output what it is about to do (`begin OBJECT NUMBER`)
and what was acknowledged (`done OBJECT NUMBER`). What operation NUMBER does to an object follows from the seed, so the checker
knows the only two states that are allowed afterwards: that before and that after the operation that was begun last.

usage: doomed.py CEPH_CONF POOL SEED OBJECTS FIRST_NUMBER
"""
import os
import random
import sys
import threading

import rados


class State:
    """An object: bytes (`None` if it is not there), its attribute and its omap."""

    def __init__(self, data=None, stamp=None, omap=None):
        self.data, self.stamp, self.omap = data, stamp, omap or {}

    def __eq__(self, other):
        return (self.data, self.stamp, self.omap) == (other.data, other.stamp, other.omap)

    def __repr__(self):
        if self.data is None:
            return "nothing"
        return f"{len(self.data)} bytes ending with {self.data[-1:]!r}, stamp {self.stamp}, {len(self.omap)} keys"


def apply(seed, name, number, old):
    """Operation `number` on an object: the state after it, and the steps of the write operation."""
    rng = random.Random(f"{seed} {name} {number}")
    stamp = f"{name} {number}".encode()
    keys = tuple(f"k{rng.randrange(40):02}" for _ in range(rng.choice([1, 3, 20])))
    data = bytes([rng.randrange(256)]) * rng.choice([1, 512, 4096, 5000, 65536, 65537, 300000, 1 << 20])
    # Bytes that differ from place to place: a write of which some sectors are missing must not look whole.
    data = bytes(a ^ b for a, b in zip(data[:4096], rng.randbytes(4096))) + data[4096:-4096] + rng.randbytes(min(4096, max(0, len(data) - 4096)))
    was = old.data or b""
    kind = rng.random()
    if kind < 0.10 and old.data is not None:
        return State(), [("remove",)]
    steps = [("set_xattr", "stamp", stamp), ("omap", keys, stamp)]
    omap = {**old.omap, **{k: stamp for k in keys}}
    if kind < 0.4:
        return State(data, stamp, omap), [("write_full", data), *steps]
    if kind < 0.7:
        offset = rng.randrange(len(was) + 4096)
        new = was[:offset].ljust(offset, b"\0") + data + was[offset + len(data):]
        return State(new, stamp, omap), [("write", data, offset), *steps]
    if kind < 0.9 and len(was) < 4 << 20:
        return State(was + data, stamp, omap), [("append", data), *steps]
    size = rng.randrange(len(was) + 1)
    return State(was[:size], stamp, {}), [("create",), ("clear",), ("truncate", size), ("set_xattr", "stamp", stamp)]


def carry_out(ioctx, name, steps, done):
    with rados.WriteOpCtx() as op:
        for step, *args in steps:
            if step == "omap":
                ioctx.set_omap(op, args[0], (args[1],) * len(args[0]))
            elif step == "clear":
                ioctx.clear_omap(op)
            elif step == "create":
                op.new(rados.LIBRADOS_CREATE_IDEMPOTENT)
            else:
                getattr(op, step)(*args)
        ioctx.operate_aio_write_op(op, name, done, None)


def read(ioctx, name):
    """An object as it is."""
    try:
        data = ioctx.read(name, 32 << 20)
    except rados.ObjectNotFound:
        return State()
    with rados.ReadOpCtx() as op:
        values, _ = ioctx.get_omap_vals(op, "", "", 1000)
        ioctx.operate_read_op(op, name)
        omap = dict(values)
    try:
        stamp = ioctx.get_xattr(name, "stamp")
    except rados.NoData:
        stamp = None
    return State(data, stamp, omap)


def names(count):
    return [f"doomed-{i}" for i in range(count)]


def main():
    conf, pool, seed, count, first = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
    cluster = rados.Rados(conffile=conf)
    cluster.connect(timeout=30)
    ioctx = cluster.open_ioctx(pool)
    lock = threading.Lock()

    def say(text):
        with lock:
            os.write(1, text.encode() + b"\n")

    def work(name):
        state, number, over = read(ioctx, name), first, threading.Event()
        while True:
            after, steps = apply(seed, name, number, state)
            say(f"begin {name} {number}")
            results = []

            def done(completion):
                results.append(completion.get_return_value())
                over.set()

            carry_out(ioctx, name, steps, done)
            over.wait()
            over.clear()
            say(f"{'done' if results[0] == 0 else f'error {results[0]}'} {name} {number}")
            state, number = after, number + 1

    for name in names(count):
        threading.Thread(target=work, args=(name,), daemon=True).start()
    threading.Event().wait()


if __name__ == "__main__":
    main()
