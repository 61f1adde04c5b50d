#!/usr/bin/python3
"""Two sites by Ceph's object gateway (multisite): one realm, one zone group, a zone on each of two clusters, each with a gateway. What is written at one
site comes to the other: users, buckets, objects, parts, versions, deletions, in both directions, also what was written while a gateway was away.

    tools/conformance/foreign/radosgw_sites.py --nacre target/release/nacre
    tools/conformance/foreign/radosgw_sites.py --nacre target/release/nacre --conf /etc/ceph/ceph.conf    # the second site is another cluster, as a real one

Needs the packages radosgw and ceph-common."""

import argparse
import os
import shutil
import sys
import tempfile
import time

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", room) for room in ("lib",)]
from live import Cluster, until
from radosgw import S3, Gateway

REALM, GROUP = "world", "continent"
ACCESS, SECRET = "SYSTEM00000000000000", "secret-of-the-sites"
KEYS = ["--access-key", ACCESS, "--secret", SECRET]
MORE = "rgw data log backing = fifo\nrgw meta sync poll interval = 2\nrgw data sync poll interval = 2\nrgw md log max shards = 4\nrgw data log num shards = 8\n"


def first(gateway):
    """Makes the realm and its master zone."""
    url = f"http://127.0.0.1:{gateway.port}"
    gateway.admin("realm", "create", "--rgw-realm", REALM, "--default")
    gateway.admin("zonegroup", "create", "--rgw-zonegroup", GROUP, "--rgw-realm", REALM, "--endpoints", url, "--master", "--default")
    gateway.admin("zone", "create", "--rgw-zonegroup", GROUP, "--rgw-zone", "east", "--endpoints", url, "--master", "--default", *KEYS)
    gateway.admin("user", "create", "--rgw-zone", "east", "--uid", "system", "--display-name", "System", "--system", *KEYS)
    gateway.admin("period", "update", "--commit", "--rgw-realm", REALM, parse=False)
    gateway.add(f"rgw realm = {REALM}\nrgw zonegroup = {GROUP}\nrgw zone = east")
    gateway.start()


def second(gateway, master):
    """Joins another cluster with a zone of its own."""
    there, url = f"http://127.0.0.1:{master.port}", f"http://127.0.0.1:{gateway.port}"
    gateway.admin("realm", "pull", "--url", there, "--default", *KEYS)
    gateway.admin("period", "pull", "--url", there, *KEYS, parse=False)
    gateway.admin("zone", "create", "--rgw-zonegroup", GROUP, "--rgw-zone", "west", "--endpoints", url, "--default", *KEYS)
    gateway.add(f"rgw realm = {REALM}\nrgw zonegroup = {GROUP}\nrgw zone = west")
    gateway.admin("period", "update", "--commit", parse=False)
    gateway.start()


def comes(s3, path, body, seconds=120):
    until(f"{path} comes to the other site", lambda: (lambda a: a.status == 200 and a.body == body)(s3.ask("GET", path, expect=(200, 403, 404, 500, 503))), seconds)


def goes(s3, path, seconds=120):
    until(f"{path} goes at the other site", lambda: s3.ask("GET", path, expect=(200, 404, 500, 503)).status == 404, seconds)


def story(east, west):
    keys = east.admin("user", "create", "--uid", "anna", "--display-name", "Anna")["keys"][0]
    here, there = (S3(g.port, keys["access_key"], keys["secret_key"]) for g in (east, west))
    until("the user comes to the other site", lambda: there.ask("GET", "/", expect=(200, 403)).status == 200, 120)
    here.ask("PUT", "/one")
    until("the bucket comes to the other site", lambda: there.ask("GET", "/", expect=(200, 500, 503)).texts("Name") == ["one"], 120)
    large = os.urandom(9 << 20)
    begun = time.monotonic()
    here.ask("PUT", "/one/small", b"small", x_amz_meta_colour="blue")
    comes(there, "/one/small", b"small")
    print(f"sites: an object came to the other site after {time.monotonic() - begun:.1f} s", flush=True)
    assert there.ask("GET", "/one/small").headers["x-amz-meta-colour"] == "blue"
    upload = here.ask("POST", "/one/parts", query={"uploads": ""}).texts("UploadId")[0]
    tags = [here.ask("PUT", "/one/parts", piece, query={"partNumber": n, "uploadId": upload}).headers["etag"] for n, piece in enumerate((large[:5 << 20], large[5 << 20:]), 1)]
    done = "".join(f"<Part><PartNumber>{n}</PartNumber><ETag>{tag}</ETag></Part>" for n, tag in enumerate(tags, 1))
    here.ask("POST", "/one/parts", f"<CompleteMultipartUpload>{done}</CompleteMultipartUpload>".encode(), query={"uploadId": upload})
    comes(there, "/one/parts", large)
    # The other way.
    there.ask("PUT", "/one/from-west", large)
    comes(here, "/one/from-west", large)
    there.ask("PUT", "/one/small", b"changed in the west")
    comes(here, "/one/small", b"changed in the west")
    here.ask("DELETE", "/one/parts", expect=204)
    goes(there, "/one/parts")
    # A bucket that is made where the master is not.
    there.ask("PUT", "/two")
    there.ask("PUT", "/two", b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>", query={"versioning": ""})
    for n in range(3):
        there.ask("PUT", "/two/key", b"version %d" % n)
    comes(here, "/two/key", b"version 2")
    versions = lambda s3: s3.ask("GET", "/two", query={"versions": ""}).texts("VersionId")
    until("all versions come", lambda: versions(here) == versions(there), 120)
    there.ask("DELETE", "/two/key", expect=204)
    goes(here, "/two/key")
    until("the delete marker comes", lambda: versions(here) == versions(there), 120)
    # What was written while the other gateway was away.
    west.stop()
    for n in range(50):
        here.ask("PUT", f"/one/away/{n:02}", b"written %d" % n)
    west.start()
    # A gateway that ends may leave its leases of the other site's logs, which last two minutes.
    for n in range(50):
        comes(there, f"/one/away/{n:02}", b"written %d" % n, 400)
    assert there.ask("GET", "/one", query={"prefix": "away/"}).texts("Key") == [f"away/{n:02}" for n in range(50)]
    caught = lambda: "data is caught up with source" in west.admin("sync", "status", parse=False)
    until("`sync status` says that nothing is behind", caught, 180)
    print("sites: users, buckets, objects, parts, versions and deletions came over, both ways, also after a gateway was away", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nacre", required=True)
    parser.add_argument("--conf", help="ceph.conf of another cluster for the second site")
    parser.add_argument("--keep", action="store_true")
    args = parser.parse_args()
    directory = tempfile.mkdtemp(prefix="radosgw-sites-")
    clusters, gateways = [], []
    try:
        for name in ("east",) if args.conf else ("east", "west"):
            clusters.append(Cluster(args.nacre, os.path.join(directory, f"{name}-cluster"), "--osds", 3, auth="cephx"))
            clusters[-1].start()
        confs = [c.conf for c in clusters] + ([args.conf] if args.conf else [])
        for name, conf in zip(("east", "west"), confs):
            folder = os.path.join(directory, name)
            os.mkdir(folder)
            gateways.append(Gateway(conf, folder, "cephx", more=MORE))
        first(gateways[0])
        second(gateways[1], gateways[0])
        story(*gateways)
    finally:
        for gateway in gateways:
            gateway.stop()
        for cluster in clusters:
            cluster.kill()
        if args.keep:
            print(f"logs are in {directory}")
        else:
            shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
