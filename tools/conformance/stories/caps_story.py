#!/usr/bin/python3
"""What entities with certain capabilities may do, told line by line: `CAPS: OPERATION=RESULT ...`.

Needs CEPH_CONF of a cluster with cephx, and the pools rbd and rbd2. Each entity does the same operations with stock librados; a
result is `ok` or the name of the error. The sheet `caps` compares the lines with those of a real cluster.
"""

import errno
import json
import os
import struct

import rados

# Monitor's caps, OSDs' caps, manager's caps.
ENTITIES = [
    ("", "", ""),
    ("allow r", "", ""),
    ("allow r", "allow r", "allow r"),
    ("allow r", "allow w", ""),
    ("allow r", "allow x", ""),
    ("allow r", "allow rw", ""),
    ("allow r", "allow rwx", ""),
    ("allow r", "allow *", ""),
    ("allow r", "allow class-read", ""),
    ("allow r", "allow r class-read", ""),
    ("allow r", "allow rw class-write", ""),
    ("allow r", "allow class rbd", ""),
    ("allow r", "allow class rbd metadata_set", ""),
    ("allow r", "allow rw class rbd metadata_set", ""),
    ("allow r", "allow r, allow class hello say_hello", ""),
    ("allow r", "allow rwx pool=rbd", ""),
    ("allow r", "allow rwx pool rbd", ""),
    ("allow r", "allow rwx pool=rbd namespace=n", ""),
    ("allow r", "allow rwx namespace=n", ""),
    ("allow r", "allow rwx namespace=n*", ""),
    ("allow r", 'allow rwx namespace=""', ""),
    ("allow r", "allow rw object_prefix rbd_data", ""),
    ("allow r", "allow rwx pool=rbd object_prefix rbd_data, allow r pool=rbd2", ""),
    ("allow r", "allow rwx tag rbd *=*", ""),
    ("allow r", "allow rw tag other *=*", ""),
    ("allow r", "allow rw tag mine kind=fast", ""),
    ("allow r", "allow rw tag mine kind=slow", ""),
    ("allow r", "allow rwx network 10.0.0.0/8", ""),
    ("allow r", "allow rwx network 127.0.0.0/8", ""),
    ("profile rbd", "profile rbd", "profile rbd"),
    ("profile rbd", "profile rbd pool=rbd", "profile rbd pool=rbd"),
    ("profile rbd", "profile rbd pool=rbd namespace=n", "profile rbd pool=rbd namespace=n"),
    ("profile rbd", "profile rbd-read-only", "profile rbd-read-only"),
    ("profile rbd", "profile rbd-read-only pool=rbd, profile rbd pool=rbd2", ""),
    ("profile rbd-read-only", "profile rbd-read-only namespace=n", ""),
    ("profile simple-rados-client", "allow rw pool=rbd2", ""),
    ("allow rw", "", "allow rw"),
    ("allow *", "", "allow *"),
    ("allow r, allow command \"osd pool create\"", "", ""),
    ("allow r, allow command \"osd pool op unmanaged-snap\" with poolname=rbd2", "", ""),
]

# A network that nobody here is in. Ceph lets who has such rights number snapshots all the same, Nacre does not.
FAR = "network 10.0.0.0/8"
SNAPS = ("snap-rbd", "snap-rbd2")

PAIR = struct.pack("<II", 1, 1) + b"k" + struct.pack("<I", 1) + b"v"


def name_of(error):
    """An error's name."""
    number = getattr(error, "errno", None) or 0
    return errno.errorcode.get(abs(number), type(error).__name__)


def result(call):
    """`ok`, or the error's name."""
    try:
        call()
        return "ok"
    except (rados.Error, OSError) as error:
        return name_of(error)


def command(cluster, prefix, **more):
    """A command to the monitor, which must succeed."""
    code, out, status = cluster.mon_command(json.dumps({"prefix": prefix, **more}), b"")
    if code:
        raise OSError(-code, status)
    return out


def prepare(admin):
    """Objects to meet."""
    for pool in ("rbd", "rbd2"):
        io = admin.open_ioctx(pool)
        for namespace in ("", "n", "nn"):
            io.set_namespace(namespace)
            io.write_full("a", b"content")
            io.write_full("rbd_data.1", b"content")
    command(admin, "osd pool application enable", pool="rbd2", app="mine", yes_i_really_mean_it=True)
    command(admin, "osd pool application set", pool="rbd2", app="mine", key="kind", value="fast")
    command(admin, "config-key set", key="story", val="x")


def operations(cluster):
    """What everyone tries: name and call."""

    def pool(name, namespace=""):
        io = cluster.open_ioctx(name)
        io.set_namespace(namespace)
        return io

    one, two, inner, other = pool("rbd"), pool("rbd2"), pool("rbd", "n"), pool("rbd", "nn")

    return [
        ("read", lambda: one.read("a")),
        ("stat", lambda: one.stat("a")),
        ("xattrs", lambda: list(one.get_xattrs("a"))),
        ("write", lambda: one.write("a", b"content")),
        ("remove", lambda: one.remove_object("nothing")),
        ("read-data", lambda: one.read("rbd_data.1")),
        ("write-data", lambda: one.write("rbd_data.1", b"content")),
        ("read-n", lambda: inner.read("a")),
        ("write-n", lambda: inner.write("a", b"content")),
        ("write-nn", lambda: other.write("a", b"content")),
        ("read-rbd2", lambda: two.read("a")),
        ("write-rbd2", lambda: two.write("a", b"content")),
        ("list", lambda: next(one.list_objects(), None)),
        ("list-n", lambda: next(inner.list_objects(), None)),
        ("class-read", lambda: one.execute("a", "hello", "say_hello", b"")),
        ("class-write", lambda: one.execute("a", "hello", "record_hello", b"x")),
        ("metadata-get", lambda: one.execute("a", "rbd", "metadata_get", struct.pack("<I", 1) + b"k")),
        ("metadata-set", lambda: one.execute("a", "rbd", "metadata_set", PAIR)),
        ("children", lambda: one.execute("rbd_children", "rbd", "get_children", b"")),
        ("directory", lambda: one.execute("rbd_directory", "rbd", "dir_get_name", struct.pack("<I", 1) + b"x")),
        ("unknown-method", lambda: one.execute("a", "hello", "nothing", b"")),
        ("unknown-class", lambda: one.execute("a", "nothing", "nothing", b"")),
        ("snap-rbd", one.create_self_managed_snap),
        ("snap-rbd2", two.create_self_managed_snap),
        ("pool-snap", lambda: pool("rbd2").create_snap("s")),
        ("osd-dump", lambda: command(cluster, "osd dump")),
        ("blocklist-add", lambda: command(cluster, "osd blocklist", blocklistop="add", addr="10.1.1.1:0/5")),
        ("blocklist-host", lambda: command(cluster, "osd blocklist", blocklistop="add", addr="10.1.1.1")),
        ("blocklist-rm", lambda: command(cluster, "osd blocklist", blocklistop="rm", addr="10.1.1.1:0/5")),
        ("pool-set", lambda: command(cluster, "osd pool set", pool="rbd", var="nodelete", val="false")),
        ("auth-ls", lambda: command(cluster, "auth ls")),
        ("key-get", lambda: command(cluster, "config-key get", key="story")),
        ("key-set", lambda: command(cluster, "config-key set", key="story", val="x")),
    ]


def tell(admin, number, caps):
    """One entity: its caps, and what became of each operation."""
    name = f"client.story{number}"
    pairs = [word for kind, text in zip(("mon", "osd", "mgr"), caps) if text for word in (kind, text)]
    command(admin, "auth rm", entity=name)
    title = "; ".join(f"{kind} {text}" for kind, text in zip(pairs[::2], pairs[1::2])) or "none"
    try:
        key = json.loads(command(admin, "auth get-or-create-key", entity=name, caps=pairs, format="json"))["key"]
        cluster = rados.Rados(conffile=os.environ["CEPH_CONF"], name=name, conf={"key": key, "keyring": "", "client_mount_timeout": "20"})
        cluster.connect()
    except (rados.Error, OSError) as error:
        print(f"{title}: refused={name_of(error)}")
        return
    try:
        told = [f"{what}={result(call)}" for what, call in operations(cluster) if not (what in SNAPS and FAR in title)]
    except rados.Error as error:
        told = [f"pools={name_of(error)}"]
    print(f"{title}: {' '.join(told)}", flush=True)
    cluster.shutdown()
    command(admin, "auth rm", entity=name)


def main():
    """Tells of all entities."""
    with rados.Rados(conffile=os.environ["CEPH_CONF"], rados_id="admin") as admin:
        prepare(admin)
        for number, caps in enumerate(ENTITIES):
            tell(admin, number, caps)


if __name__ == "__main__":
    main()
