#!/usr/bin/python3
"""What `nacre support` gives away: no keys; with --anonymous no names either, and the same name is the same word in the next archive.

usage: support.py --nacre PATH [--dir DIR]
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", room) for room in ("lib",)]
from live import Cluster, free_port, until  # noqa: E402

POOL, NSPACE, IMAGE, TRASHED, ODD = "zebrapool", "zebraspace", "zebra.disk-1", "zebratrash", "zebra's own disk"
CLIENT, OBJECT, GONE = "zebraclient", "zebraobject", "zebragone"
NAMES = ["zebra", "Zebra", "10.9.9.9"]


def parts(path):
    """Names of the parts, and what is in each."""
    with tarfile.open(path) as tar:
        return {member.name: tar.extractfile(member).read().decode() for member in tar}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nacre", required=True)
    parser.add_argument("--dir")
    args = parser.parse_args()
    program = os.path.abspath(args.nacre)
    top = tempfile.mkdtemp(prefix="nacre-support-", dir=args.dir)
    cluster = Cluster(program, os.path.join(top, "zebrafolder"), "--osds", 2, "--metrics-port", free_port(), "--location", "rack=zebrarack",
                      auth="cephx")
    try:
        cluster.start()
        for pool in (POOL, GONE):
            cluster.run("ceph", "osd", "pool", "create", pool, "8")
        cluster.run("rbd", "pool", "init", POOL)
        cluster.run("rbd", "namespace", "create", f"{POOL}/{NSPACE}")
        for image in (f"{POOL}/{IMAGE}", f"{POOL}/{NSPACE}/{IMAGE}", f"{POOL}/{TRASHED}", f"{POOL}/{ODD}"):
            cluster.run("rbd", "create", "--size", "64M", image)
        cluster.run("rbd", "trash", "mv", f"{POOL}/{TRASHED}")
        keyring = os.path.join(top, "zebrakeyring")
        cluster.run("ceph", "auth", "get-or-create", f"client.{CLIENT}", "mon", "allow *", "osd", f"profile rbd pool={POOL}", "-o", keyring)
        cluster.run("ceph", "--id", CLIENT, "--keyring", keyring, "osd", "out", "1")
        cluster.run("ceph", "--id", CLIENT, "--keyring", keyring, "osd", "in", "1")
        cluster.run("rbd", "bench", "--io-type", "write", "--io-total", "4M", f"{POOL}/{IMAGE}")

        def is_named():
            """Names of images are known to the monitors while somebody looks."""
            told = cluster.run(program, "top", "--dir", cluster.dir, "--json").stdout
            return IMAGE in told

        until("the image has a name", is_named, 60)
        # Large: operations that took long are remembered with what they were about.
        large = os.path.join(top, "large")
        with open(large, "wb") as f:
            f.write(os.urandom(32 << 20))
        cluster.run("rados", "-p", POOL, "put", OBJECT, large)
        cluster.run("ceph", "osd", "blocklist", "add", "10.9.9.9:0/1")
        cluster.run("ceph", "config", "set", "mon", "mon_allow_pool_delete", "true")
        cluster.run("ceph", "config", "set", "mgr", "mgr/prometheus/rbd_stats_pools", f"{POOL}/{NSPACE}")
        cluster.run("ceph", "osd", "pool", "delete", GONE, GONE, "--yes-i-really-really-mean-it")

        def support(name, *more):
            path = os.path.join(top, name)
            done = subprocess.run([program, "support", "--dir", cluster.dir, path, *more], capture_output=True, text=True, timeout=300)
            assert done.returncode == 0, done.stderr
            return parts(path)

        keys = re.findall(r"key = (\S+)", open(os.path.join(cluster.dir, "keyring")).read())
        open_, first, second = support("open.tar"), support("first.tar", "--anonymous"), support("second.tar", "--anonymous")
        for archive in (open_, first, second):
            assert len(archive) > 30, sorted(archive)
            assert keys and not any(key in text for text in archive.values() for key in keys), "a key is in it"
        # The test can find what it looks for.
        told = "".join(open_.values())
        for name in (POOL, NSPACE, IMAGE, CLIENT, OBJECT, "zebrarack", "10.9.9.9", GONE):
            assert name in told, f"{name} is not in the open archive: the test is blind for it"
        for archive in (first, second):
            for part, text in archive.items():
                for name in NAMES:
                    at = text.find(name)
                    assert at < 0 and name not in part, f"{part} has {text[max(at - 60, 0):at + 60]!r}"
            host = os.uname().nodename.split(".")[0]
            found = [part for part, text in archive.items() if len(host) > 3 and re.search(rf"\b{re.escape(host)}\b", part + text)]
            assert not found, f"the host's name is in {found[:5]}"
        words = [set(re.findall(r"\b(?:pool|image|client|namespace)-[0-9a-f]{10}\b", "".join(archive.values()))) for archive in (first, second)]
        kinds = {word.split("-")[0] for word in words[0]}
        assert {"pool", "image", "client"} <= kinds and words[0] == words[1], f"names look otherwise: {words}"
        df = next(text for part, text in first.items() if part.endswith("cluster/df.txt"))
        assert "pool-" in df and "%" in df, df
        print(f"support: {len(first)} parts, {len(words[0])} names are hidden in each and look the same")
    finally:
        cluster.kill()
        shutil.rmtree(top, ignore_errors=True)


if __name__ == "__main__":
    main()
