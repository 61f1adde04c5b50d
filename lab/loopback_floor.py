#!/usr/bin/python3
"""What it costs the sender to hand blocks of bytes to another process over loopback TCP, and nothing else: no storage server on this machine can
answer a read of that size for less.

usage: loopback_floor.py [--size BYTES] [--seconds 3] [--repeat 3] [--sendfile] [--congestion reno]

The sender's processor time includes what the kernel does for it: the copy into the socket, and on loopback also the receiver's side of TCP up to its
queue and waking it. The receiver copies out and drops what it gets. With --sendfile nothing is copied into the socket: the pages of a file in
memory are handed over, which makes smaller packets. --congestion says which congestion control the sender takes; without it, the system's.
"""
import argparse
import os
import resource
import socket
import statistics
import time


def receive(listener, size):
    connection, _ = listener.accept()
    buffer = bytearray(size)
    while connection.recv_into(buffer):
        pass
    os._exit(0)


def sender(connection, size, sendfile):
    """What sends one block."""
    block = memoryview(os.urandom(size))
    if not sendfile:
        return lambda: connection.sendall(block)
    file = os.memfd_create("block")
    os.write(file, block)

    def hand_over():
        sent = 0
        while sent < size:
            sent += os.sendfile(connection.fileno(), file, sent, size - sent)

    return hand_over


def send(address, size, seconds, sendfile, congestion):
    """Blocks in a second, and microseconds of processor time for each."""
    connection = socket.socket()
    if congestion:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, congestion.encode())
    connection.connect(address)
    send_block = sender(connection, size, sendfile)
    begun, before, blocks = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF), 0
    while time.monotonic() - begun < seconds:
        send_block()
        blocks += 1
    after = resource.getrusage(resource.RUSAGE_SELF)
    connection.close()
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return blocks / (time.monotonic() - begun), spent / blocks * 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=4 << 20)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--sendfile", action="store_true")
    parser.add_argument("--congestion", metavar="NAME")
    args = parser.parse_args()
    rounds = []
    for _ in range(args.repeat):
        listener = socket.create_server(("127.0.0.1", 0))
        child = os.fork()
        if child == 0:
            receive(listener, args.size)
        address = listener.getsockname()
        listener.close()
        rounds.append(send(address, args.size, args.seconds, args.sendfile, args.congestion))
        os.waitpid(child, 0)
    rate, spent = (statistics.median(column) for column in zip(*rounds))
    print(f"{args.size} bytes: {rate:,.0f} a second ({rate * args.size / 1e6:,.0f} MB/s), {spent:,.1f} µs of the sender's processor time for each")


main()
