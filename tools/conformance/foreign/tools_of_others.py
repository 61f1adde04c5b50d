#!/usr/bin/python3
"""Runs other people's suites that can run on this machine, and says which cannot and what they need.

  tools_of_others.py --nacre target/release/nacre [--peer CEPH_CONF]
  tools_of_others.py --list
"""
import argparse
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))

# Suites whose sources are not here: name and version, what it drives, what it needs, how it is run against CEPH_CONF.
ABSENT = [
    ("go-ceph v0.24.0", "rados, rbd, rbd/admin, common/admin/manager", "network (Go modules), go, librados-dev, librbd-dev",
     "go test -tags pacific,ceph_preview ./rados/ ./rbd/... ./common/admin/manager/"),
    ("ceph-csi v3.9.0", "the RBD controller under csi-sanity 5.2.0", "network (Go modules), go", "csi-sanity --csi.endpoint SOCKET"),
    ("cinder 29.0.0, glance_store 5.7.0, nova 34.0.0", "their drivers for RBD", "network (PyPI)", "the drivers' classes, with CEPH_CONF in their options"),
    ("gnocchi 4.7.1", "storage, incoming, aggregates, chef", "network (PyPI)", "pytest gnocchi/tests with the ceph driver"),
    ("rados-java 0.7.0", "TestRados, TestRbd, TestRadosStriper", "network (Maven), a JDK", "mvn test"),
    ("crate ceph 3.2.5", "commands with typed answers", "network (crates.io), librados-dev", "cargo run"),
    ("libradosstriper's tests", "striped objects", "Ceph's sources, a C++ compiler", "ceph_test_rados_striper_api_*"),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nacre", default="target/release/nacre")
    parser.add_argument("--peer", help="the ceph.conf of a new cluster of Ceph that runs; without it recorded answers stand for it")
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    peer = shutil.which("ceph-mon") and shutil.which("ceph-mgr") and shutil.which("ceph-osd")
    print("sweep.py: every command that reads, in every format: runs here, against recorded answers of Ceph 16.2.15"
          + (f", or with --peer against a cluster of the installed {peer}" if peer else "; no Ceph is installed to record them anew"))
    for name, what, needs, how in ABSENT:
        print(f"{name} ({what}): not run here: needs {needs}; then: {how}")
    if args.list:
        return 0
    more = ["--peer", args.peer] if args.peer else []
    return subprocess.run([sys.executable, os.path.join(HERE, "sweep.py"), "--nacre", args.nacre, *more], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
