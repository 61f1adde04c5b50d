#!/usr/bin/python3
"""A client asks for much more than it takes: a thousand requests of some hundred bytes, each for megabytes, at once. The OSD must make
answers only as they leave: its memory stays where it is, others are served meanwhile, and once the client reads, it gets all of them.

 1. 1,000 reads of 4 MiB each on one session that reads nothing: memory, and a stock client meanwhile. Then the answers: all, whole, once.
 2. Requests whose answers are larger each than may ever wait: they come one by one.
 3. Reads of whole objects (a length of 0), where the request does not say how much.
 4. Sessions that ask and go away leave nothing behind.

usage: greedy_reads.py --nacre PATH [--dir DIR] [--growth-mib 64]
"""
import argparse
import os
import shutil
import socket
import struct
import sys
import tempfile
import threading
import time

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", room) for room in ("lib",)]
import rawosd  # noqa: E402
from live import Cluster, until  # noqa: E402

MIB = 1 << 20
OBJECTS = 150
SIZE = 4 * MIB


class Greedy(rawosd.Connection):
    """A session whose answers are read only when it is told to, and requests that are sent in one piece."""

    def __init__(self, ip, port, nonce):
        self.batch, self.go = None, threading.Event()
        self.sizes = {}
        super().__init__(ip, port, nonce)
        self.batch = []

    def frame(self, tag, *segments):
        if self.batch is None:
            return super().frame(tag, *segments)
        sock, self.sock = self.sock, self
        super().frame(tag, *segments)
        self.sock = sock

    def sendall(self, data):
        self.batch.append(data)

    def post(self):
        """Sends what was collected, from a thread: it may take long."""
        data, self.batch = b"".join(self.batch), []
        sender = threading.Thread(target=self.push, args=(data,), daemon=True)
        sender.start()
        return len(data)

    def push(self, data):
        try:
            self.sock.sendall(data)
        except OSError:
            pass  # The session was closed on purpose.

    def listen(self):
        """Bytes of data of each answer, by request; an answer that comes twice counts twice."""
        self.go.wait()
        room = memoryview(bytearray(64 * MIB))
        try:
            self.sock.settimeout(30)
            while True:
                head = self.exactly(32)
                lengths = [struct.unpack_from("<I", head, 2 + 6 * i)[0] for i in range(head[1])] + [0] * (4 - head[1])
                first = self.exactly(lengths[0] + 4)
                rest = sum(lengths[1:]) + (13 if head[1] > 1 else 0)
                got = 0
                while got < rest:
                    n = self.sock.recv_into(room[got:rest])
                    if not n:
                        raise ConnectionError("cut off")
                    got += n
                if head[0] == 17 and struct.unpack_from("<H", first, 16)[0] == 43:
                    tid = struct.unpack_from("<Q", first, 8)[0]
                    with self.arrived:
                        self.sizes.setdefault(tid, []).append(lengths[3])
                        self.arrived.notify_all()
        except (OSError, ConnectionError) as e:
            with self.arrived:
                self.closed = str(e)
                self.arrived.notify_all()

    def take(self, count, timeout=60):
        self.go.set()
        with self.arrived:
            self.arrived.wait_for(lambda: len(self.sizes) == count or self.closed, timeout)
            return self.sizes, self.closed


class Story:
    def __init__(self, cluster, growth):
        self.cluster, self.growth = cluster, growth
        self.raw = rawosd.Cluster(cluster.conf, "greedy")
        self.names = [b"large-%d" % n for n in range(OBJECTS)]
        for first in range(0, OBJECTS, 8):
            writes = [self.raw.io.aio_write_full(n.decode(), bytes([i % 251]) * SIZE) for i, n in enumerate(self.names[first:first + 8])]
            [w.wait_for_complete() for w in writes]
        self.base = cluster.rss()[0]

    def session(self):
        addr = self.raw.osds[0]
        ip, port = addr["addr"].rsplit(":", 1)
        return Greedy(ip, int(port), addr["nonce"])

    def ask(self, session, count, length=SIZE, each=1):
        for n in range(count):
            ops = [rawosd.extent("read", 0, length) for _ in range(each)]
            self.raw.send(self.names[n % OBJECTS], ops, session=session)
        return session.post()

    def watch(self, what, seconds):
        """Memory meanwhile, and that another client is served."""
        peak, slowest, end = 0, 0, time.monotonic() + seconds
        while time.monotonic() < end:
            begun = time.monotonic()
            self.raw.io.write_full("other", b"o" * 4096)
            assert self.raw.io.read("other") == b"o" * 4096
            slowest = max(slowest, time.monotonic() - begun)
            peak = max(peak, self.cluster.rss()[0])
        self.cluster.alive()
        grown = (peak - self.base) / MIB
        print(f"{what}: memory {self.base >> 20} MiB, then {grown:+.0f} MiB; another client waited {slowest * 1000:.0f} ms at most", flush=True)
        assert grown <= self.growth, f"{what}: memory grew by {grown:.0f} MiB, {self.growth} are allowed"
        assert slowest < 5, "another client was not served"

    def check(self, session, count, size):
        sizes, closed = session.take(count)
        assert len(sizes) == count, f"{len(sizes)} answers of {count} came; {closed}"
        wrong = {tid: got for tid, got in sizes.items() if got != [size]}
        assert not wrong, f"answers of other sizes, or more than one: {list(wrong.items())[:5]}"
        session.close()

    def pipelined(self):
        session = self.session()
        asked = self.ask(session, 1000)
        self.watch(f"1000 reads of 4 MiB, asked for in {asked >> 10} KiB, nothing taken", 3)
        held = self.cluster.admin("osd.0", "perf", "dump")["osd"]["answers_held"]
        assert held > 0, "nothing was held back: this test shows nothing"
        self.check(session, 1000, SIZE)

    def huge(self):
        session = self.session()
        self.ask(session, 20, each=12)
        self.watch("20 reads of 48 MiB, nothing taken", 1)
        self.check(session, 20, 12 * SIZE)

    def whole(self):
        session = self.session()
        self.ask(session, 300, length=0)
        self.watch("300 reads of whole objects, nothing taken", 1)
        self.check(session, 300, SIZE)

    def goes_away(self):
        for _ in range(5):
            session = self.session()
            self.ask(session, 200)
            time.sleep(0.2)
            # As a process that was killed: the kernel says that nobody is there any more.
            session.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            session.sock.close()
        until("operations of clients that went away end", lambda: self.cluster.admin("osd.0", "perf", "dump")["osd"]["op_wip"] == 0, 10)
        self.watch("5 clients that asked and went away", 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nacre", required=True)
    parser.add_argument("--dir")
    parser.add_argument("--growth-mib", type=int, default=64)
    args = parser.parse_args()
    top = tempfile.mkdtemp(prefix="nacre-greedy-", dir=args.dir)
    try:
        with Cluster(os.path.abspath(args.nacre), os.path.join(top, "c"), "--osds", 1, "--memory", "256M") as cluster:
            cluster.start()
            story = Story(cluster, args.growth_mib)
            story.pipelined()
            story.huge()
            story.whole()
            story.goes_away()
            cluster.stop()
    finally:
        shutil.rmtree(top, ignore_errors=True)
    print("no more was made than could leave", flush=True)
    # Threads that wait for sockets do not end by themselves.
    os._exit(0)


if __name__ == "__main__":
    main()
