#!/usr/bin/python3
"""Says to every port of a running cluster what an enemy would say, and checks that nothing comes of it.

At each step of the handshake and after it: random bytes, other protocols, lengths of 4 GiB, too many segments, wrong checksums, frames
out of turn, frames cut off, frames said again, sessions of others taken up again, messages that do not decode; then thousands of
connections that say nothing or one byte. Each such connection must be closed, with one line in the log (lines come at a bounded rate; what was
left out is counted in the next one), while a stock client writes and reads. Afterwards no thread has panicked, and memory and open files
are what they were.

usage: hostile_peers.py --nacre PATH [--dir DIR] [--port P] [--idle N] [--rounds N]
"""
import argparse
import ctypes
import ctypes.util
import json
import os
import random
import re
import resource
import shutil
import socket
import struct
import sys
import tempfile
import threading
import time

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", room) for room in ("lib",)]
import live  # noqa: E402
import rados  # noqa: E402
from rawosd import crc32c  # noqa: E402

BANNER = b"ceph v2\n\x10\0\x01\0\0\0\0\0\0\0" + bytes(8)
FEATURES = 0x3F01CFBDFFFDFFFF
HELLO, AUTH_REQUEST, AUTH_BAD_METHOD, AUTH_MORE, AUTH_REQUEST_MORE, AUTH_DONE, SIGNATURE = 1, 2, 3, 4, 5, 6, 7
CLIENT_IDENT, RECONNECT, RETRY_GLOBAL, MESSAGE, KEEPALIVE = 8, 10, 14, 17, 18
EPILOGUE = b"\x0e"
CLOSED_WITHIN = 8.0

def preamble(tag, lengths, segments=None):
    head = struct.pack("<BB", tag, len(lengths) if segments is None else segments)
    for length in (list(lengths) + [0, 0, 0, 0])[:4]:
        head += struct.pack("<IH", length, 8)
    head += bytes(2)
    return head + struct.pack("<I", crc32c(head, 0))


def frame(tag, *segments):
    segments = list(segments)
    while len(segments) > 1 and not segments[-1]:
        segments.pop()
    out = preamble(tag, [len(s) for s in segments])
    out += segments[0] + (struct.pack("<I", crc32c(segments[0], 0xFFFFFFFF)) if segments[0] else b"")
    if len(segments) > 1:
        out += b"".join(segments[1:])
        crcs = [crc32c(s, 0xFFFFFFFF) if s else 0 for s in segments[1:]]
        out += EPILOGUE + struct.pack("<III", *(crcs + [0, 0, 0])[:3])
    return out


def address(host, port, nonce, kind=2):
    body = struct.pack("<IIIH", kind, nonce, 16, 2) + struct.pack(">H", port) + socket.inet_aton(host) + bytes(8)
    return b"\x01\x01\x01" + struct.pack("<I", len(body)) + body


def text(data):
    return struct.pack("<I", len(data)) + data


def auth_request(method, payload):
    return frame(AUTH_REQUEST, struct.pack("<III", method, 1, 1) + text(payload))


def claim(gid=0):
    return b"\x0a" + struct.pack("<I", 8) + text(b"admin") + struct.pack("<Q", gid)


def message(seq, kind, front, data=b"", version=1, tid=1):
    header = struct.pack("<QQHHHIHQBHH", seq, tid, kind, 63, version, 0, 0, 0, 3, 1, 0)
    return frame(MESSAGE, header, front, b"", data)


class Cephx:
    """As much of cephx as a client needs to prove that it knows its key."""

    def __init__(self, key):
        import base64

        self.secret = base64.b64decode(key)[12:28]
        self.crypto = ctypes.CDLL(ctypes.util.find_library("crypto"))
        self.crypto.EVP_CIPHER_CTX_new.restype = ctypes.c_void_p
        self.crypto.EVP_aes_128_cbc.restype = ctypes.c_void_p

    def encrypt(self, plain):
        c = self.crypto
        ctx = ctypes.c_void_p(c.EVP_CIPHER_CTX_new())
        out, n, m = ctypes.create_string_buffer(len(plain) + 32), ctypes.c_int(), ctypes.c_int()
        assert c.EVP_EncryptInit_ex(ctx, ctypes.c_void_p(c.EVP_aes_128_cbc()), None, self.secret, b"cephsageyudagreg") == 1
        assert c.EVP_EncryptUpdate(ctx, out, ctypes.byref(n), plain, len(plain)) == 1
        assert c.EVP_EncryptFinal_ex(ctx, ctypes.byref(out, n.value), ctypes.byref(m)) == 1
        c.EVP_CIPHER_CTX_free(ctx)
        return out.raw[: n.value + m.value]

    def prove(self, server_challenge):
        mine = 0x1122334455667788
        sealed = self.encrypt(b"\x01" + struct.pack("<QQQ", 0xFF009CAD8826AA55, server_challenge, mine))
        framed, proof = text(sealed), 0
        for at in range(0, len(framed) - 7, 8):
            proof ^= struct.unpack_from("<Q", framed, at)[0]
        no_ticket = b"\x01" + struct.pack("<Q", 0) + text(b"")
        payload = struct.pack("<H", 0x0100) + b"\x03" + struct.pack("<QQ", mine, proof) + no_ticket + struct.pack("<I", 32 + 4)
        return frame(AUTH_REQUEST_MORE, text(payload))


class Peer:
    """One port, and how to speak to it."""

    def __init__(self, daemon, kind, host, port, nonce, auth):
        self.daemon, self.kind, self.host, self.port, self.nonce, self.auth = daemon, kind, host, port, nonce, auth

    def steps(self, lossy=True, cookie=0, seq=1):
        """What a client says, in pieces; without authentication nothing depends on the answers."""
        addr = address(self.host, self.port, self.nonce)
        own = address("127.0.0.1", 0, random.getrandbits(31), kind=3)
        ident = b"\x02" + struct.pack("<I", 1) + own + addr
        ident += struct.pack("<qQQQQQ", random.getrandbits(31), seq, FEATURES, 0, 1 if lossy else 0, cookie)
        return [
            ("banner", BANNER),
            ("hello", frame(HELLO, b"\x08" + addr)),
            ("auth", auth_request(1 if self.auth == "none" else 2, claim())),
            ("signature", frame(SIGNATURE, bytes(32))),
            ("ident", frame(CLIENT_IDENT, ident)),
            ("message", message(1, 2, b"")),
        ]


class Cluster(live.Cluster):
    """A cluster, a stock client of it, and its ports."""

    def __init__(self, args, auth):
        super().__init__(args.nacre, os.path.join(args.dir, auth), "--osds", 1, "--memory", "256M", port=args.port, auth=auth)
        self.start()
        self.client = rados.Rados(conffile=self.conf, conf={"client_mount_timeout": "20"})
        self.client.connect()
        self.command({"prefix": "osd pool create", "pool": "p", "pg_num": 8})
        self.ioctx = self.client.open_ioctx("p")
        osd = self.command({"prefix": "osd dump", "format": "json"})["osds"][0]["public_addrs"]["addrvec"][0]
        mgr = self.command({"prefix": "mgr dump", "format": "json"})["active_addrs"]["addrvec"][0]
        split = lambda a: (a["addr"].rsplit(":", 1)[0], int(a["addr"].rsplit(":", 1)[1]), a["nonce"])
        self.peers = [
            Peer("mon.a", 1, "127.0.0.1", self.port, 0, auth),
            Peer("mon.a", 16, *split(mgr), auth),
            Peer("osd.0", 4, *split(osd), auth),
        ]

    def command(self, what):
        code, out, err = self.client.mon_command(json.dumps(what), b"")
        if code:
            raise SystemExit(f"{what}: {code} {err}")
        return json.loads(out) if out.strip().startswith(b"{") else out

    def files(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def lines(self, daemon):
        return self.log(daemon).splitlines()

    def stop(self):
        self.client.shutdown()
        super().stop()
        panics = [line for d in ("nacre", "mon.a", "osd.0") for line in self.lines(d) if "panicked" in line]
        if panics:
            raise SystemExit(f"threads panicked: {panics[:3]}")


class Load(threading.Thread):
    """A stock client that writes and reads meanwhile."""

    def __init__(self, ioctx):
        super().__init__(daemon=True)
        self.ioctx, self.done, self.rounds, self.slowest, self.error = ioctx, threading.Event(), 0, 0.0, None

    def run(self):
        rng = random.Random(7)
        try:
            while not self.done.is_set():
                data, begun = rng.randbytes(rng.choice([10, 4096, 20_000])), time.monotonic()
                self.ioctx.write_full("o", data)
                if self.ioctx.read("o", 200_000) != data:
                    raise AssertionError("another content was read than was written")
                self.rounds += 1
                self.slowest = max(self.slowest, time.monotonic() - begun)
                time.sleep(0.01)
        except Exception as e:  # told at the end
            self.error = e


class Enemy:
    count = 0

    def __init__(self, cluster):
        self.cluster, self.cases = cluster, {}
        self.begin = {daemon: len(cluster.lines(daemon)) for daemon in ("mon.a", "osd.0")}

    def connect(self, peer):
        """From an address of its own, by which the log is searched."""
        Enemy.count += 1
        own = f"127.7.{Enemy.count >> 8}.{Enemy.count & 255}"
        return socket.create_connection((peer.host, peer.port), timeout=CLOSED_WITHIN, source_address=(own, 0))

    def said(self, peer, data, end=None):
        """One hostile connection; its own address, and what was answered. It must be closed by the other side, or is ended as `end` says."""
        s = self.connect(peer)
        own, answer = s.getsockname()[0], b""
        try:
            s.sendall(data)
            if end == "reset":
                # Until it was read, a reset would take it away.
                time.sleep(0.005)
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                return own, answer
            if end == "fin":
                s.shutdown(socket.SHUT_WR)
            while True:
                got = s.recv(65536)
                if not got:
                    break
                answer += got
        except (ConnectionResetError, BrokenPipeError):
            pass
        except socket.timeout:
            raise SystemExit(f"{peer.daemon} port {peer.port} does not close a connection that said {data[-80:].hex()}")
        finally:
            s.close()
        return own, answer

    def case(self, peer, what, data, end=None):
        own, answer = self.said(peer, data, end)
        self.cases.setdefault(peer.daemon, {})[own] = what
        return answer

    def strangers(self, peer):
        rng = random.Random(3)
        for what, data in [
            ("http", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
            ("tls", bytes.fromhex("16030100c2010000be0303") + rng.randbytes(60)),
            ("msgr1", b"ceph v027" + bytes(200)),
            ("zeros", bytes(4096)),
            ("random", rng.randbytes(4096)),
            ("banner length", b"ceph v2\n\xff\xff" + bytes(70_000)),
            ("banner features", b"ceph v2\n\x10\0" + b"\xff" * 16),
        ]:
            self.case(peer, what, data)

    def steps(self, peer):
        """Everything wrong, at every step."""
        rng = random.Random(5)
        steps = peer.steps()
        if peer.auth != "none":
            steps = steps[:3]
        for cut in range(1, len(steps) + 1):
            name, prefix = steps[cut - 1][0], b"".join(data for _, data in steps[:cut])
            after = f"after {name}: "
            self.case(peer, after + "random bytes", prefix + rng.randbytes(300))
            for tag in (HELLO, MESSAGE):
                self.case(peer, after + "4 GiB", prefix + preamble(tag, [0xFFFFFFFF] * 4) + bytes(3000))
            self.case(peer, after + "a large front", prefix + preamble(MESSAGE, [41, 1 << 30, 0, 0]) + bytes(3000))
            self.case(peer, after + "five segments", prefix + preamble(MESSAGE, [8, 8, 8, 8], segments=5) + bytes(100))
            self.case(peer, after + "no segment", prefix + preamble(MESSAGE, [8], segments=0) + bytes(100))
            for tag in (0, 21, 255):
                self.case(peer, after + f"tag {tag}", prefix + preamble(tag, [8]) + bytes(100))
            wrong = bytearray(frame(KEEPALIVE, bytes(8)))
            wrong[-1] ^= 1
            self.case(peer, after + "checksum of a segment", prefix + bytes(wrong))
            wrong[3] ^= 1
            self.case(peer, after + "checksum of a preamble", prefix + bytes(wrong))
            for tag in (AUTH_DONE, RETRY_GLOBAL, 13, 16):
                self.case(peer, after + f"tag {tag} out of turn", prefix + frame(tag, bytes(8)))
            for again, data in steps[:cut]:
                if again != "banner" and not (again == "auth" and name == "auth"):
                    self.case(peer, after + f"{again} again", prefix + data)
            if cut < len(steps):
                half = steps[cut][1][: len(steps[cut][1]) // 2]
                for end in ("fin", "reset"):
                    self.case(peer, after + f"half of {steps[cut][0]}, then {end}", prefix + half, end)

    def sessions(self, peer):
        """On a session that stands: messages again, out of order, that do not decode; sessions of others."""
        ready = b"".join(data for _, data in peer.steps()[:5])
        self.case(peer, "the same message twice", ready + message(1, 2, b"") * 2)
        self.case(peer, "a message skipped", ready + message(3, 2, b""))
        self.case(peer, "a message without a number", ready + message(0, 2, b""))
        kinds = {1: (15, 50, 97, 17), 4: (42,), 16: (0x709, 0x702)}[peer.kind]
        for kind in kinds:
            self.case(peer, f"message {kind} of junk", ready + message(1, kind, b"\xff" * 90, b"junk", version=99))
        self.case(peer, "a message cut off", ready + message(1, 42, bytes(500))[:300], "fin")
        wrong = bytearray(message(1, 2, bytes(50)))
        wrong[-20] ^= 1
        self.case(peer, "a front with a wrong checksum", ready + bytes(wrong))
        self.case(peer, "a session's start again", ready + peer.steps()[4][1])
        handshake = b"".join(data for _, data in peer.steps()[:4])
        addr = b"\x02" + struct.pack("<I", 1) + address("127.0.0.1", 0, 5, kind=3)
        for numbers in [(1, 2, 3, 4, 5), (0, 0, 0, 0, 0), (2**64 - 1,) * 5]:
            again = frame(RECONNECT, addr + struct.pack("<QQQQQ", *numbers))
            self.case(peer, "a reconnection to nobody's session, then junk", handshake + again + bytes(50))
        lossless = b"".join(data for _, data in peer.steps(lossy=False, cookie=77)[:5])
        self.case(peer, "a reconnection on a session", lossless + again)

    def replays(self, peer, key):
        """A proof of the right key, recorded and said again, proves nothing."""
        cephx, begin = Cephx(key), b"".join(data for _, data in peer.steps()[:3])
        s = self.connect(peer)
        s.sendall(begin)
        more = self.frames(s, AUTH_MORE)
        challenge = struct.unpack_from("<Q", more, 5)[0]
        proof = cephx.prove(challenge)
        s.sendall(proof)
        if self.frames(s, AUTH_DONE, AUTH_BAD_METHOD, start=0) is None:
            raise SystemExit("the right proof was refused: the replay would show nothing")
        s.sendall(frame(SIGNATURE, bytes(32)))
        self.cases.setdefault(peer.daemon, {})[s.getsockname()[0]] = "a wrong signature"
        while s.recv(65536):
            pass  # its signature, and then nothing but the end
        s.close()
        answer = self.case(peer, "a recorded proof", begin + proof, "fin")
        if AUTH_DONE in self.tags(answer):
            raise SystemExit("a recorded proof was taken for one")

    @staticmethod
    def tags(answer):
        found, at = [], len(BANNER)
        while at + 32 <= len(answer):
            lengths = [struct.unpack_from("<I", answer, at + 2 + 6 * i)[0] for i in range(4)]
            found.append(answer[at])
            at += 32 + lengths[0] + 4
        return found

    @staticmethod
    def frames(s, wanted, refused=None, start=len(BANNER)):
        """The payload of the first frame with a tag; None for the refused one."""
        buf = b""
        while True:
            at = start
            while at + 32 <= len(buf):
                length = struct.unpack_from("<I", buf, at + 2)[0]
                if at + 36 + length > len(buf):
                    break
                if buf[at] == wanted:
                    return buf[at + 32 : at + 32 + length]
                if buf[at] == refused:
                    return None
                at += 36 + length
            got = s.recv(65536)
            if not got:
                raise SystemExit(f"closed while frame {wanted} was due")
            buf += got

    def check_log(self):
        """One line for each connection, but for those that the bounded rate left out."""
        for daemon, cases in self.cases.items():
            lines, left_out = {}, 0
            for line in self.cluster.lines(daemon)[self.begin.get(daemon, 0) :]:
                skipped = re.search(r"\((\d+) lines before this one", line)
                left_out += int(skipped[1]) if skipped else 0
                for own in re.findall(r"127\.7\.\d+\.\d+", line):
                    if own in cases:
                        lines.setdefault(own, []).append(line)
            twice = [v for v in lines.values() if len(v) > 1]
            if twice:
                raise SystemExit(f"{daemon}: several lines for one connection: {twice[0]}")
            silent = [cases[p] for p in cases if p not in lines]
            # A reset may overtake what was said before it: then nothing was said.
            resets = sum(what.endswith("reset") for what in silent)
            if not left_out <= len(silent) <= left_out + resets:
                raise SystemExit(f"{daemon}: {len(silent)} connections without a line, {left_out} lines left out: {silent[:9]}")
            print(f"  {daemon}: {len(cases)} hostile connections, {len(lines)} lines, {left_out} left out by the rate")


def crowd(cluster, count):
    """Many connections that do not go on; they must not keep a client out, nor stay."""
    before, held, most = cluster.files(), [], 0
    for i in range(count):
        peer = cluster.peers[i % len(cluster.peers)]
        s = socket.create_connection((peer.host, peer.port), timeout=CLOSED_WITHIN)
        try:
            s.sendall([b"", b"c", BANNER, BANNER + peer.steps()[1][1][:20]][i // len(cluster.peers) % 4])
        except OSError:
            pass
        held.append(s)
        if i % 500 == 0:
            most = max(most, cluster.files())
    most = max(most, cluster.files())
    late = rados.Rados(conffile=cluster.conf, conf={"client_mount_timeout": "10"})
    late.connect()
    late.shutdown()
    deadline = time.monotonic() + 15
    while cluster.files() > before + 20:
        if time.monotonic() > deadline:
            raise SystemExit(f"{cluster.files() - before} connections that say nothing are still open")
        time.sleep(0.1)
    for s in held:
        s.close()
    print(f"  {count} connections that say nothing: at most {most - before} open at once, all closed, a client got through")


def story(args, auth):
    print(f"auth {auth}", flush=True)
    cluster = Cluster(args, auth)
    try:
        besiege(args, auth, cluster)
    finally:
        cluster.kill()


def besiege(args, auth, cluster):
    load = Load(cluster.ioctx)
    load.start()
    sizes = []
    for _ in range(args.rounds if auth == "none" else 1):
        # What a crowd left out is counted before the round, not in it.
        time.sleep(1)
        for peer in cluster.peers:
            Enemy(cluster).said(peer, b"GET /")
        time.sleep(0.3)
        enemy = Enemy(cluster)
        for peer in cluster.peers:
            enemy.strangers(peer)
            enemy.steps(peer)
            if auth == "none":
                enemy.sessions(peer)
        if auth == "cephx":
            with open(os.path.join(cluster.dir, "keyring")) as f:
                key = re.search(r"key = (\S+)", f.read())[1]
            enemy.replays(cluster.peers[0], key)
        # The line that counts what was left out before it; each messenger has a rate of its own.
        time.sleep(0.3)
        for peer in cluster.peers:
            enemy.case(peer, "the last", b"GET /")
        time.sleep(0.2)
        enemy.check_log()
        crowd(cluster, args.idle)
        sizes.append(cluster.rss()[0])
    load.done.set()
    load.join(timeout=30)
    if load.error or load.rounds < 20 or load.slowest > 5:
        raise SystemExit(f"the client meanwhile: {load.rounds} rounds, slowest {load.slowest:.1f} s, {load.error}")
    growth = (sizes[-1] - sizes[0]) >> 20
    print(f"  client meanwhile: {load.rounds} writes and reads, the slowest {load.slowest * 1000:.0f} ms; memory {sizes[0] >> 20} MiB, then {growth:+} MiB")
    if growth > 24:
        raise SystemExit(f"memory grew: {[s >> 20 for s in sizes]} MiB")
    cluster.stop()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nacre", required=True)
    parser.add_argument("--dir")
    parser.add_argument("--port", type=int)
    parser.add_argument("--idle", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=2)
    args = parser.parse_args()
    args.nacre = os.path.abspath(args.nacre)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    args.idle = min(args.idle, hard - 200)
    parent = args.dir or tempfile.mkdtemp(prefix="nacre-hostile-", dir=".")
    args.dir = parent
    os.makedirs(parent, exist_ok=True)
    try:
        for auth in ("none", "cephx"):
            story(args, auth)
    finally:
        shutil.rmtree(parent, ignore_errors=True)
    print("no harm done", flush=True)
    # Threads of the client library may still sit in a call of a cluster that was killed.
    os._exit(0)


if __name__ == "__main__":
    main()
