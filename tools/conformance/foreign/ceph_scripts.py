"""Ceph's own shell scripts, command-line tests and Python tests, each against a cluster of its own: the second half of ceph_suites.py.

A script runs as root in namespaces of its own for mounts and processes. There, /etc/ceph has the cluster's configuration and keyring, and a
script that ends daemons by name finds none but those that it started. `sudo` is a shim, since nobody else is there to become. What a script
leaves behind, processes included, ends with it.

Data: a table of scripts (name, seconds, and what its cluster must have), and one line of result for each. A script passes when it ends with 0 in time.
What is left out, and why, stands beside the table."""

import sys
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", room) for room in ("lib",)]
from live import Cluster

# Name below qa/workunits, and the seconds that it may take when that is more than usual.
WORKUNITS = {
    "mon/auth_caps.sh": 240, "mon/caps.sh": 720, "mon/config.sh": 240, "mon/crush_ops.sh": 240, "mon/osd.sh": 60, "mon/ping.py": 60, "mon/pool_ops.sh": 120,
    "mon/rbd_snaps_ops.sh": 120, "mon/test_config_key_caps.sh": 300, "mon/test_mon_config_key.py": 120, "mon/pg_autoscaler.sh": 600,
    "rados/stress_watch.sh": 600, "rados/test_health_warnings.sh": 300, "rados/test_large_omap_detection.py": 300,
    "rados/test_pool_access.sh": 60, "rados/test_pool_quota.sh": 300, "rados/test_rados_timeouts.sh": 120, "rados/test_rados_tool.sh": 600,
    "rados/version_number_sanity.sh": 30, "rados/test_libcephsqlite.sh": 300, "rados/load-gen-mix-small.sh": 700,
    "rbd/cli_generic.sh": 1800, "rbd/cli_migration.sh": 900, "rbd/concurrent.sh": 300, "rbd/diff.sh": 300, "rbd/diff_continuous.sh": 600, "rbd/image_read.sh": 600,
    "rbd/import_export.sh": 600, "rbd/issue-20295.sh": 300, "rbd/journal.sh": 600, "rbd/luks-encryption.sh": 600, "rbd/map-unmap.sh": 60, "rbd/merge_diff.sh": 900,
    "rbd/permissions.sh": 600, "rbd/qemu_dynamic_features.sh": 120, "rbd/qemu_rebuild_object_map.sh": 120, "rbd/qos.sh": 600, "rbd/rbd_groups.sh": 300,
    "rbd/read-flags.sh": 120, "rbd/test_admin_socket.sh": 120, "rbd/test_lock_fence.sh": 120, "rbd/test_rbd_tasks.sh": 300, "rbd/verify_pool.sh": 60, "rbd/huge-tickets.sh": 300,
    "caps/mon_commands.sh": 60, "ceph-tests/ceph-admin-commands.sh": 60,
}
CLI = ["rbd/defaults", "rbd/formatted-output", "rbd/snap-diff", "rbd/unmap", "balancer/misplaced"]
PYTHON = ["test_rados", "test_rbd", "test_ceph_argparse", "test_ceph_daemon"]
# Parts of cephtool/test.sh that are of metadata servers and cache tiers.
TIERS = ["tiering", "tiered", "mds", "erasure"]

# What a script needs beside three OSDs and one monitor: by its name, or by its folder.
OSDS = {"rados/test_health_warnings.sh": 10, "mon/pg_autoscaler.sh": 6}
MONS = {"mon/ping.py": 3, "cephtool": 3}
# The script writes 20,001 keys into one object and 8.9 MB of values into another one.
OPTIONS = {"rados/test_large_omap_detection.py": {"osd_deep_scrub_large_omap_object_key_threshold": "20000",
                                                  "osd_deep_scrub_large_omap_object_value_sum_threshold": "8800000"}}
ARGUMENTS = {"rados/test_libcephsqlite.sh": ["rbd"], "mon/test_mon_config_key.py": ["-d", "60"]}


class Script:
    """One thing to run: its name, its command, and the seconds that it may take."""

    def __init__(self, name, command, seconds, osds=3):
        self.name, self.command, self.seconds = name, [str(c) for c in command], seconds
        self.osds, self.mons = osds, MONS.get(name, MONS.get(name.split("/")[0], 1))


def scripts(source):
    """All scripts that can be run with this checkout."""
    units = source / "qa/workunits"
    for name, seconds in WORKUNITS.items():
        how = "python3" if name.endswith(".py") else "bash"
        yield Script(name, [how, *([] if how == "python3" else ["-x"]), units / name, *ARGUMENTS.get(name, [])], seconds, OSDS.get(name, 3))
    listed = subprocess.run(["bash", units / "cephtool/test.sh", "-l"], capture_output=True, text=True).stdout.split()[2:]
    for part in listed:
        if not any(word in part for word in TIERS):
            yield Script(f"cephtool/{part}", ["bash", units / "cephtool/test.sh", "--asok-does-not-need-root", "-t", part], 300)
    for name in CLI:
        yield Script(f"cli/{name}", ["cram3", "-v", source / f"src/test/cli-integration/{name}.t"], 300)
    for name in PYTHON:
        yield Script(f"python/{name}", ["python3", "-m", "nose", "-v", source / f"src/test/pybind/{name}.py"], 900)


def shims(folder, programs):
    """A folder for PATH: `sudo` that runs what it is given, and the programs that were built under the names that scripts call them."""
    folder.mkdir(parents=True, exist_ok=True)
    sudo = folder / "sudo"
    sudo.write_text('#!/bin/sh\nwhile :; do case "$1" in -*) shift;; *=*) export "$1"; shift;; *) break;; esac; done\nexec "$@"\n')
    sudo.chmod(0o755)
    for name, program in programs.items():
        link = folder / name
        link.unlink(missing_ok=True)
        link.symlink_to(program)
    return folder


def run_script(script, conf, path, folder):
    """Runs a script against the cluster of `conf` in a folder of its own; gives how it ended ("" if well), the seconds it took, and
    writes what it said to out.log there."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "etc").mkdir(parents=True)
    (folder / "tmp").mkdir()
    place = Path(conf).parent
    for name in ("ceph.conf", "keyring"):
        if (place / name).exists():
            shutil.copy(place / name, folder / "etc" / ("ceph.keyring" if name == "keyring" else name))
    # The cluster's folder stays where it is, for its sockets.
    inner = 'mkdir -p /etc/ceph && mount --bind "$0" /etc/ceph && exec "$@"'
    argv = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", inner, str(folder / "etc"), *script.command]
    env = {k: v for k, v in os.environ.items() if not k.startswith("CEPH")}
    # The system's Python has Ceph's modules, whatever comes first in the PATH of who runs this.
    env |= {"PATH": f"{path}:/usr/sbin:/usr/bin:/sbin:/bin", "CEPH_CONF": str(conf), "CEPH_ARGS": "", "SUDO": "", "TESTDIR": str(folder), "TMPDIR": str(folder / "tmp"),
            "XMLSTARLET": "xmlstarlet", "CEPH_ROOT": str(folder), "RBD_FEATURES": "61", "HOME": str(folder)}
    begun = time.monotonic()
    with open(folder / "out.log", "wb") as out:
        process = subprocess.Popen(argv, cwd=folder / "tmp", env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            code = process.wait(script.seconds)
            end = "" if code == 0 else f"exit code {code}"
        except subprocess.TimeoutExpired:
            end = f"not done after {script.seconds} s"
        finally:
            # It dies with its namespace.
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    shutil.rmtree(folder / "tmp", ignore_errors=True)
    return end, time.monotonic() - begun


def last_words(folder, lines=2):
    """The last lines of a script's output, for the report."""
    text = (folder / "out.log").read_text(errors="replace").strip().splitlines()
    return " | ".join(line.strip()[:160] for line in text[-lines:])


def prepare(conf, size, more):
    """Settings that the scripts' own test clusters have: small pools, and room for many; and `more`, by name."""
    for option, value in (("mon_max_pg_per_osd", "10000"), ("osd_pool_default_pg_num", "8"), ("osd_pool_default_size", str(size)), ("mon_allow_pool_delete", "true"),
                          ("mon_allow_pool_size_one", "true"), ("osd_pool_default_pg_autoscale_mode", "off"), *more.items()):
        subprocess.run(["ceph", "--conf", conf, "config", "set", "global", option, value], check=True)


def run_scripts(wanted, nacre, conf, out, path, size):
    """Runs scripts one after the other and prints a row of a table for each; gives the names of those that failed. With `nacre` each gets a
    cluster of its own; else all use the one of `conf`."""
    print("| script | result | seconds | last words |\n|---|---|---|---|", flush=True)
    bad = []
    for script in wanted:
        folder = out / "scripts" / script.name.replace("/", "_")
        # Before the cluster, which may lie below.
        shutil.rmtree(folder, ignore_errors=True)
        cluster = Cluster(str(nacre), str(out / "cluster"), "--osds", script.osds, "--mons", script.mons, auth="cephx") if nacre else None
        try:
            if cluster:
                shutil.rmtree(out / "cluster", ignore_errors=True)
                cluster.start()
                prepare(cluster.conf, size, OPTIONS.get(script.name, {}))
                # As Ceph's test clusters have it.
                cluster.run("ceph", "osd", "pool", "create", "rbd", "8")
                cluster.run("rbd", "pool", "init", "rbd")
            end, took = run_script(script, cluster.conf if cluster else conf, path, folder)
            if cluster:
                cluster.alive()
                cluster.stop()
        except AssertionError as error:
            end, took = str(error), 0
        finally:
            if cluster:
                cluster.kill()
        words = last_words(folder) if end and (folder / "out.log").exists() else ""
        print(f"| `{script.name}` | {end or 'passed'} | {took:.0f} | {words} |", flush=True)
        bad += [script.name] if end else []
    return bad
