#!/usr/bin/python3
"""Runs ceph/s3-tests against Ceph's object gateway on a cluster of ours, or on another one, and keeps what each test said. Two such files are compared
test by test.

    s3_tests.py --source CHECKOUT --python VENV/bin/python --nacre target/release/nacre --out ours.json [--root ROOT] [--kill 20] [TEST...]
    s3_tests.py --source CHECKOUT --python VENV/bin/python --conf /etc/ceph/ceph.conf --out theirs.json
    s3_tests.py --compare theirs.json ours.json        # exit 1 if a test passes there and not here

CHECKOUT is a checkout of ceph/s3-tests, the branch of the gateway's release. The virtual environment has what its requirements.txt names; branches that
have no pytest.ini are run by nose, which needs Python 3.9 or older. --root is a folder with another release's radosgw (a chroot). With --kill an OSD of
ours, each a process with three copies between them, is killed with -9 that often and comes back after five seconds. Needs radosgw and ceph-common."""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml
from pathlib import Path

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", room) for room in ("lib",)]
from live import Cluster
from radosgw import Gateway
from radosgw_scale import Kills, processes

# What the suite's own configuration for its nightly runs asks for: rules' days are some seconds, keys for encryption come from the configuration.
OPTIONS = """
rgw lc debug interval = 10
rgw crypt require ssl = false
rgw crypt s3 kms backend = testing
rgw crypt s3 kms encryption keys = testkey-1=YmluCmJvb3N0CmJvb3N0LWJ1aWxkCmNlcGguY29uZgo= testkey-2=aWIKTWFrZWZpbGUKbWFuCm91dApzcmMKVGVzdGluZwo=
rgw sts key = abcdefghijklmnop
rgw s3 auth use sts = true
"""
USERS = {"s3 main": "main", "s3 alt": "alt", "s3 tenant": "tenant", "iam": "iam"}
CAPS = "user-policy=*;roles=*;oidc-provider=*"


def settings(gateway):
    """Makes the suite's users; gives its configuration."""
    text = f"[DEFAULT]\nhost = localhost\nport = {gateway.port}\nis_secure = False\nssl_verify = False\n[fixtures]\nbucket prefix = s3t-{{random}}-\n"
    for section, uid in USERS.items():
        email, name = f"{uid}@example.com", f"testx${uid}" if uid == "tenant" else uid
        more = ["--tenant", "testx"] if uid == "tenant" else []
        ident = [f"--uid={uid}", *more]
        gateway.admin("user", "rm", *ident, "--purge-data", expect=None, parse=False)
        access, secret = f"{uid.upper()}0KEY000000000"[:16], f"{uid}-secret-of-the-suite"
        gateway.admin("user", "create", *ident, "--display-name", name, "--email", email, "--access-key", access, "--secret", secret, "--caps", CAPS)
        text += f"[{section}]\ndisplay_name = {name}\nuser_id = {uid}\nemail = {email}\napi_name = default\naccess_key = {access}\nsecret_key = {secret}\n"
        text += "tenant = testx\n" if uid == "tenant" else ""
        text += "kms_keyid = testkey-1\nkms_keyid2 = testkey-2\nlc_debug_interval = 10\n" if section == "s3 main" else ""
    zeros = "x" * 20
    return text + f"[webidentity]\ntoken = {zeros}\naud = {zeros}\nthumbprint = {zeros}\nKC_REALM = {zeros}\nsub = {zeros}\nazp = {zeros}\nuser_token = {zeros}\n"


def results(junit):
    """What each test said: `passed`, `failed` or `skipped`, and the first line of the reason."""
    found = {}
    for case in xml.parse(junit).iter("testcase"):
        name = f"{case.get('classname')}.{case.get('name')}"
        bad = [e for e in case if e.tag in ("failure", "error")]
        state = "failed" if bad else "skipped" if case.find("skipped") is not None else "passed"
        said = ((bad[0].get("message") or "").strip().splitlines() or [""])[0][:200] if bad else ""
        # A test whose tear-down fails has two entries.
        if name not in found or state == "failed":
            found[name] = [state, said]
    return found


def suite(args, gateway, directory):
    config, junit = Path(directory, "s3tests.conf"), Path(directory, "junit.xml")
    config.write_text(settings(gateway))
    env = {**os.environ, "S3TEST_CONF": str(config), "S3_USE_SIGV4": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    new = Path(args.source, "pytest.ini").exists()
    runner = ["-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={junit}"] if new else ["-m", "nose", "--with-xunit", f"--xunit-file={junit}"]
    folders = [d for d in ("s3tests/functional", "s3tests_boto3/functional") if Path(args.source, d).exists()]
    words = args.tests or folders
    with open(Path(directory, "suite.log"), "w") as log:
        done = subprocess.run([args.python, *runner, *(args.select or []), *words], cwd=args.source, env=env, stdout=log, stderr=log, timeout=args.seconds)
    assert junit.exists(), f"the suite ended with {done.returncode}: {Path(directory, 'suite.log').read_text()[-2000:]}"
    return results(junit)


def compare(theirs, ours):
    """Prints what passes there and not here; gives how many that are."""
    there, here = (json.loads(Path(p).read_text()) for p in (theirs, ours))
    count = lambda found: ", ".join(f"{sum(v[0] == state for v in found.values())} {state}" for state in ("passed", "failed", "skipped"))
    print(f"there: {count(there)}; here: {count(here)}")
    worse = [n for n, (state, _) in sorted(there.items()) if state == "passed" and here.get(n, ["missing", ""])[0] != "passed"]
    for name in worse:
        print(f"passes there, not here: {name}: {': '.join(here.get(name, ['missing', '']))}")
    better = [n for n, (state, _) in sorted(here.items()) if state == "passed" and there.get(n, ["missing", ""])[0] != "passed"]
    for name in better:
        print(f"passes here, not there: {name}: {': '.join(there.get(name, ['missing', '']))}")
    return len(worse)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compare", nargs=2, metavar=("THEIRS", "OURS"))
    parser.add_argument("--source", help="checkout of ceph/s3-tests")
    parser.add_argument("--python", help="of the suite's virtual environment")
    parser.add_argument("--nacre")
    parser.add_argument("--conf", help="another cluster, with a key in its keyring that may make keys")
    parser.add_argument("--root", help="a chroot with another release's radosgw")
    parser.add_argument("--kill", type=int, default=0, metavar="SECONDS", help="kill an OSD that often; at least 10")
    parser.add_argument("--seconds", type=int, default=5400, help="for the whole suite")
    parser.add_argument("--out", help="where the results are kept")
    parser.add_argument("--keep", help="folder for logs, which stays")
    parser.add_argument("--select", action="append", help="a word for the runner, as --select=-a --select='!lifecycle' (nose), --select=-k --select=multipart (pytest)")
    parser.add_argument("tests", nargs="*", help="files or tests as the runner names them; all if none is given")
    args = parser.parse_args()
    if args.compare:
        return 1 if compare(*args.compare) else 0
    if bool(args.nacre) == bool(args.conf) or not args.source or not args.python or args.kill and (args.conf or args.kill < 10):
        parser.error("needs --source, --python, and one of --nacre and --conf; --kill needs --nacre and 10 or more")
    directory = args.keep or tempfile.mkdtemp(prefix="s3-tests-")
    os.makedirs(directory, exist_ok=True)
    cluster, conf, gateway, kills = None, args.conf, None, None
    try:
        if args.kill:
            cluster = processes(args.nacre, directory, 3)
        elif args.nacre:
            cluster = Cluster(args.nacre, os.path.join(directory, "cluster"), "--osds", 3, auth="cephx")
            cluster.start()
        conf = conf or cluster.conf
        gateway = Gateway(conf, directory, "cephx", root=args.root, more=OPTIONS)
        gateway.start()
        if args.kill:
            kills = Kills(cluster, args.kill)
            kills.start()
        found = suite(args, gateway, directory)
        if kills:
            kills.end()
            print(f"{kills.count} OSDs killed; clean {cluster.healed(120):.0f} s after the last", flush=True)
        if args.out:
            Path(args.out).write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
        failed = [n for n, (state, _) in sorted(found.items()) if state == "failed"]
        print(f"{sum(v[0] == 'passed' for v in found.values())} passed, {len(failed)} failed, {sum(v[0] == 'skipped' for v in found.values())} skipped")
        for name in failed:
            print(f"failed: {name}: {found[name][1]}")
    finally:
        if kills and kills.is_alive():
            kills.end()
        if gateway:
            gateway.stop()
        if cluster:
            cluster.kill()
        if not args.keep:
            shutil.rmtree(directory, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
