#!/usr/bin/python3
"""Builds Ceph's own C++ suites for librados, the object classes and librbd from a checkout of Ceph's source, against the libraries
that Debian installs, and runs them against a cluster: ours, or any other (--conf). It runs their shell scripts, command-line tests and Python tests, too
(ceph_scripts.py).

    tools/conformance/foreign/ceph_suites.py --source ~/ceph --nacre target/release/nacre
    tools/conformance/foreign/ceph_suites.py --source ~/ceph --conf /etc/ceph/ceph.conf librados/io librbd
    tools/conformance/foreign/ceph_suites.py --source ~/ceph --nacre target/release/nacre --scripts              # all scripts, a cluster for each
    tools/conformance/foreign/ceph_suites.py --source ~/ceph --nacre target/release/nacre --scripts mon/ cephtool/mon_pg

The checkout must be of about the installed release: the suites' headers describe what the libraries look like inside. Nothing of it is kept
here. What cannot be built is said and left out; suites whose name is given are the only ones that run. Needs the packages g++
librados-dev libradospp-dev librbd-dev libgtest-dev libboost-dev libboost-system-dev libboost-thread-dev libfmt-dev libssl-dev
libxxhash-dev.

Left out of all runs: erasure-coded pools and cache tiers (EC, Tier), which Nacre does not have."""

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from ceph_scripts import run_scripts, scripts, shims
sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", room) for room in ("lib",)]
from live import Cluster

LIBRADOS = ["aio", "aio_cxx", "c_read_operations", "c_write_operations", "cls", "cmd", "cmd_cxx", "io", "io_cxx", "list", "list_cxx", "lock",
            "lock_cxx", "misc", "misc_cxx", "pool", "snapshots", "snapshots_cxx", "stat", "stat_cxx", "watch_notify", "watch_notify_cxx"]
HELPERS = ["librados/TestCase", "librados/testcase_cxx", "librados/test", "librados/test_cxx", "librados/test_shared", "librados/test_common"]
CLASSES = {"hello": [], "lock": [], "log": ["cls_log_client"], "numops": ["cls_numops_client"], "version": ["cls_version_client", "cls_version_types"],
           "refcount": ["cls_refcount_client", "cls_refcount_ops"], "journal": ["cls_journal_client", "cls_journal_types"],
           "rbd": ["cls_rbd_client", "cls_rbd_types"], "cmpomap": ["client"], "queue": ["cls_queue_client"],
           "2pc_queue": ["cls_2pc_queue_client", "../queue/cls_queue_client"],
           "rgw_gc": ["cls_rgw_gc_client", "../queue/cls_queue_client", "../rgw/cls_rgw_types", "../rgw/cls_rgw_ops"],
           "rgw": ["cls_rgw_client", "cls_rgw_types", "cls_rgw_ops"]}
# Programs that are no suites of their own: what scripts call them, and their sources.
PROGRAMS = {"ceph_test_rados": ["test/osd/TestRados", "test/osd/RadosModel", "test/osd/TestOpStat", "test/osd/Object", "cls/cas/cls_cas_client",
                                "cls/cas/cls_cas_internal"],
            "ceph_test_stress_watch": ["test/test_stress_watch"], "ceph_multi_stress_watch": ["test/multi_stress_watch"]}
LOCKS = ["cls/lock/cls_lock_client", "cls/lock/cls_lock_ops", "cls/lock/cls_lock_types"]

# What the sources' configure step would find out; only what their headers ask for.
CONFIG = "\n".join(["#pragma once", "#define CEPH_LIBDIR \"/usr/lib\""] + [
    f"#define {name} 1" for name in ["HAVE_SYS_TYPES_H", "HAVE_STDINT_H", "HAVE_LINUX_TYPES_H", "HAVE_PTHREAD_SETNAME_NP", "HAVE_ENDIAN_H", "STRERROR_R_CHAR_P"]
    + [f"HAVE___{sign}{bits}" for sign in "US" for bits in (8, 16, 32, 64)]])
PRELUDE = "\n".join(["#pragma once"] + [f"#include <{h}>" for h in ["climits", "cstdint", "iostream", "list", "map", "memory", "mutex", "optional", "set", "string", "vector"]]
                    + ["#include \"include/buffer.h\"", "#include \"include/ceph_assert.h\"", "#include <gtest/gtest.h>",
                       "using ceph::bufferlist; using ceph::bufferptr;"])
# Their build makes these of tables of options. Empty ones do: a member of the configuration that they declare would lie at
# another place than in the installed library, so that options are given as constants below.
OPTIONS = ["cephfs-mirror", "crimson", "global", "immutable-object-cache", "mds", "mds-client", "mgr", "mon", "osd", "rbd", "rbd-mirror", "rgw"]

# Programs of Ceph's build set up a global configuration first; these ask for it.
GLOBALS = {"osd_max_object_name_len": "2048", "osd_max_object_namespace_len": "256", "osd_max_attr_name_len": "100", "osd_max_attr_size": "0",
           "osd_copyfrom_max_chunk": "(8ull << 20)", "mon_fake_pool_delete": "false",
           "osd_max_omap_entries_per_request": "uint64_t(1024)"}
# Tests that every server fails here: they are older than the libraries (an option's or a call's name, a structure's layout).
OLDER = ["*ScatterGather*", "*Quiesce*"]
LEFT_OUT = ["*EC*", "*Tiered*", "*WatchNotifyPP*/1", *OLDER]


class Builder:
    def __init__(self, source, out):
        self.src, self.out = source / "src", out
        (out / "stub" / "xxHash").mkdir(parents=True, exist_ok=True)
        (out / "stub" / "acconfig.h").write_text(CONFIG)
        (out / "stub" / "prelude.h").write_text(PRELUDE)
        (out / "stub" / "xxHash" / "xxhash.h").write_text("#include <xxhash.h>\n")
        for group in OPTIONS:
            (out / "stub" / f"{group}_legacy_options.h").touch()

    def object(self, name):
        """Compiles src/NAME.cc, unless that is done; None if it does not compile."""
        source, made = self.src / f"{name}.cc", self.out / (name.replace("/", "_") + ".o")
        if made.exists():
            return made
        text = source.read_text()
        for option, value in GLOBALS.items():
            text = re.sub(rf"(g_conf\(\)|cct->_conf)->{option}\b", value, text)
        # A call that was renamed since has no test that could run.
        text = re.sub(r"^.*\bquiesce_complete\(\);.*$", ";", text, flags=re.M)
        adapted = self.out / (name.replace("/", "_") + ".cc")
        adapted.write_text(text)
        flags = ["-std=c++17", "-O0", "-w", "-fpermissive", "-ffunction-sections", "-include", self.out / "stub/prelude.h", f"-I{self.out}/stub", f"-I{self.src}",
                 f"-I{self.src}/include", f"-I{self.src}/test", f"-I{source.parent}"]
        done = subprocess.run(["g++", *flags, "-c", adapted, "-o", made], capture_output=True, text=True)
        if done.returncode:
            print(f"{name}: not built: {next((l for l in done.stderr.splitlines() if 'error' in l), done.stderr[:200])}")
            return None
        return made

    def program(self, name, parts, libraries=()):
        objects = [self.object(part) for part in [*parts, *("test/" + h for h in HELPERS)]]
        if None in objects:
            return None
        made, ceph = self.out / name.replace("/", "_"), "/usr/lib/x86_64-linux-gnu/ceph"
        # Sections without a use go: some call what only Ceph's own build links.
        link = ["g++", "-Wl,--gc-sections", "-o", made, *objects, *libraries, f"-L{ceph}", f"-Wl,-rpath,{ceph}", "-l:libceph-common.so.2", "-l:librados.so.2", "-lgtest",
                "-lgtest_main", "-lpthread", "-lboost_system", "-lboost_thread"]
        done = subprocess.run(link, capture_output=True, text=True)
        if done.returncode:
            print(f"{name}: not linked: {next((l for l in done.stderr.splitlines() if 'undefined' in l), done.stderr[-200:])}")
            return None
        return made


def suites():
    """Name, sources, libraries, environments."""
    for name in LIBRADOS:
        yield f"librados/{name}", [f"test/librados/{name}", *(LOCKS if name.startswith("lock") else [])], [], [{}]
    for name, parts in CLASSES.items():
        parts = LOCKS if name == "lock" else [os.path.normpath(f"cls/{name}/{part}") for part in parts]
        yield f"cls_{name}", [f"test/cls_{name}/test_cls_{name}", *parts], [], [{}]
    features = [{"RBD_FEATURES": "0"}, {"RBD_FEATURES": "61"}, {"RBD_FEATURES": "125"}]
    yield "librbd", ["test/librbd/test_librbd", "test/librbd/test_support"], ["-l:librbd.so.1"], features


def run(program, name, conf, more, seconds):
    command = [program, "--gtest_filter=-" + ":".join(LEFT_OUT)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=seconds, env={**os.environ, "CEPH_CONF": str(conf), **more})
        text, end = done.stdout + done.stderr, "" if done.returncode in (0, 1) else f"ended by {done.returncode}"
    except subprocess.TimeoutExpired as late:
        text, end = (late.stdout or b"").decode(errors="replace"), f"not done after {seconds} s"
    passed = len(re.findall(r"^\[       OK \]", text, re.M))
    failed = sorted(set(re.findall(r"^\[  FAILED  \] ([\w/]+\.[\w/]+)", text, re.M)))
    what = " ".join([name, *(f"{k}={v}" for k, v in more.items())])
    print(f"{what}: {passed} passed, {len(failed)} failed{': ' + ', '.join(failed) if failed else ''}{'; ' + end if end else ''}", flush=True)
    return text, bool(failed or end)


def run_all(programs, conf, args):
    """Runs what could be built; gives the names of what was not, and of what failed."""
    # Each test makes pools, and some shrink them to the number of groups that Ceph's own test clusters begin with.
    for option, value in (("mon_max_pg_per_osd", "10000"), ("osd_pool_default_pg_num", "8")):
        subprocess.run(["ceph", "--conf", conf, "config", "set", "global", option, value], check=True)
    subprocess.run(["ceph", "--conf", conf, "osd", "pool", "create", "rbd", "8"], check=True, capture_output=True)
    bad = [name for name, program, _ in programs if program is None]
    for name, program, environments in programs:
        for more in environments if program else []:
            text, failed = run(program, name, conf, more, args.seconds)
            (args.out / ("-".join([name.replace("/", "_"), *more.values()]) + ".log")).write_text(text)
            bad += [name] if failed else []
    return bad


def run_chosen_scripts(builder, args):
    programs = {name: made for name, parts in PROGRAMS.items() if (made := builder.program(name, parts, ["-lcrypto"]))}
    known = list(scripts(args.source.resolve()))
    # In the order in which they are asked for.
    wanted = [s for start in args.suites for s in known if s.name.startswith(start)] if args.suites else known
    path = shims(args.out / "path", programs)
    return run_scripts(wanted, args.nacre, args.conf, args.out, path, args.size)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, required=True, help="checkout of Ceph's source")
    parser.add_argument("--out", type=Path, default=Path("target/ceph-suites"), help="where to build, and for the suites' output")
    parser.add_argument("--nacre", type=Path, help="start a cluster with this program, and end it afterwards")
    parser.add_argument("--conf", type=Path, help="a cluster that runs")
    parser.add_argument("--seconds", type=int, default=600, help="for each suite at most")
    parser.add_argument("--osds", type=int, default=1, help="OSDs of the cluster that is started (scripts have three, or as many as they need)")
    parser.add_argument("--size", type=int, default=3, help="copies of pools under scripts")
    parser.add_argument("--scripts", action="store_true", help="scripts instead of C++ suites; what is given are beginnings of their names")
    parser.add_argument("suites", nargs="*")
    args = parser.parse_args()
    # Whoever ends this ends what it started.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if bool(args.nacre) == bool(args.conf):
        parser.error("one of --nacre and --conf is needed")
    args.out = args.out.resolve()
    builder = Builder(args.source.resolve(), args.out)
    if args.scripts:
        return 1 if run_chosen_scripts(builder, args) else 0
    wanted = [s for s in suites() if not args.suites or s[0] in args.suites]
    if not wanted:
        parser.error("no such suite: " + ", ".join(s[0] for s in suites()))
    programs = [(name, builder.program(name, parts, libraries), environments) for name, parts, libraries, environments in wanted]
    with tempfile.TemporaryDirectory(prefix="nacre-suites-") as place:
        cluster = Cluster(str(args.nacre), f"{place}/c", "--osds", args.osds, auth="cephx") if args.nacre else None
        if cluster:
            cluster.start()
        conf = Path(cluster.conf) if cluster else args.conf
        try:
            bad = run_all(programs, conf, args)
            if cluster:
                cluster.alive()
        finally:
            if cluster:
                cluster.stop()
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
