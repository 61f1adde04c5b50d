#!/usr/bin/python3
"""Runs Ceph's object gateway as Debian installs it on a cluster of ours, and uses it: users, buckets, objects, parts, copies, versions, rules of a
life cycle, garbage, the index of a bucket. Clients are radosgw-admin and plain signed HTTP, so nothing else is needed.

    tools/conformance/foreign/radosgw.py --nacre target/release/nacre [--auth none] [--keep FOLDER] [--serve]
    tools/conformance/foreign/radosgw.py --conf /etc/ceph/ceph.conf        # another cluster, as a real one

--serve leaves the gateway running and says how it is reached, until it is interrupted. Needs the packages radosgw and ceph-common."""

import argparse
import base64
import datetime
import hashlib
import hmac
import http.client
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.parse
import xml.etree.ElementTree as xml

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", room) for room in ("lib",)]
from live import Cluster, free_port, until

NAME = "client.rgw.test"
CONFIG = """
[{name}]
rgw frontends = beast endpoint=127.0.0.1:{port}
keyring = {dir}/rgw.keyring
log file = {dir}/rgw.log
pid file = {dir}/rgw.pid
rgw data = {dir}
run dir = {dir}
rgw enable usage log = true
rgw usage log tick interval = 1
rgw gc obj min wait = 1
rgw lc debug interval = 5
# Without keys radosgw asks the monitor for secure mode alone, which it cannot have then.
ms mon client mode = crc secure
[client]
ms mon client mode = crc secure
"""


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, {k.lower(): v for k, v in headers}, body

    def texts(self, tag):
        """All texts of an element in an XML reply, whatever its namespace."""
        return [e.text or "" for e in xml.fromstring(self.body).iter() if e.tag.rpartition("}")[2] == tag]


class S3:
    """Signed requests (AWS signature 4), with the bucket in the path."""

    def __init__(self, port, access, secret):
        self.port, self.access, self.secret = port, access, secret

    def ask(self, method, path, body=b"", query=(), expect=200, **headers):
        now = datetime.datetime.now(datetime.timezone.utc)
        stamp, day = now.strftime("%Y%m%dT%H%M%SZ"), now.strftime("%Y%m%d")
        quoted = urllib.parse.quote(path, safe="/-_.~")
        asked = "&".join(sorted(f"{urllib.parse.quote(str(k), safe='-_.~')}={urllib.parse.quote(str(v), safe='-_.~')}" for k, v in dict(query).items()))
        digest = hashlib.sha256(body).hexdigest()
        signed = {"host": f"127.0.0.1:{self.port}", "x-amz-content-sha256": digest, "x-amz-date": stamp,
                  **{k.lower().replace("_", "-"): v for k, v in headers.items()}}
        names = ";".join(sorted(signed))
        canonical = "\n".join([method, quoted, asked, *(f"{k}:{signed[k]}" for k in sorted(signed)), "", names, digest])
        scope = f"{day}/us-east-1/s3/aws4_request"
        text = "\n".join(["AWS4-HMAC-SHA256", stamp, scope, hashlib.sha256(canonical.encode()).hexdigest()])
        key = f"AWS4{self.secret}".encode()
        for part in scope.split("/"):
            key = hmac.new(key, part.encode(), hashlib.sha256).digest()
        signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
        signed["Authorization"] = f"AWS4-HMAC-SHA256 Credential={self.access}/{scope}, SignedHeaders={names}, Signature={signature}"
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request(method, quoted + (f"?{asked}" if asked else ""), body, signed)
        reply = connection.getresponse()
        answer = Answer(reply.status, reply.getheaders(), reply.read())
        connection.close()
        wanted = expect if isinstance(expect, tuple) else (expect,)
        assert answer.status in wanted, f"{method} {path} {asked}: {answer.status}, wanted {expect}: {answer.body[:500]!r}"
        return answer


class Gateway:
    """radosgw on a cluster, and radosgw-admin."""

    def __init__(self, conf, directory, auth, root=None, more=""):
        """`root` is a folder with another release's programs (a chroot); `more` are lines for the gateway's section, which win."""
        self.dir, self.port, self.root = os.path.abspath(directory), free_port(), root
        self.conf = os.path.join(self.dir, "rgw.conf")
        self.before = ["chroot", root] if root else []
        own = CONFIG.format(name=NAME, port=self.port, dir=self.dir)
        with open(conf) as there, open(self.conf, "w") as ours:
            ours.write(there.read() + own.replace("[client]", more + "[client]"))
        if auth == "cephx":
            key = subprocess.run(["ceph", "--conf", conf, "auth", "get-or-create", NAME, "mon", "allow rw", "osd", "allow rwx"],
                                 check=True, capture_output=True, text=True).stdout
            with open(os.path.join(directory, "rgw.keyring"), "w") as keyring:
                keyring.write(key)
        self.process, self.mounts = None, []

    def add(self, lines):
        """More lines for the gateway's section."""
        with open(self.conf, "a") as conf:
            conf.write(f"\n[{NAME}]\n{lines}\n")

    def start(self):
        self.said = open(os.path.join(self.dir, "rgw.out"), "w")
        if self.root:
            # The same paths inside: its own folder, and what the kernel shows.
            for path in (self.dir, "/proc", "/dev"):
                inside = self.root + path
                os.makedirs(inside, exist_ok=True)
                if not os.path.ismount(inside):
                    subprocess.run(["mount", "--bind", path, inside], check=True)
                    self.mounts.append(inside)
        self.process = subprocess.Popen([*self.before, "radosgw", "--conf", self.conf, "--name", NAME, "-f", "--admin-socket", f"{self.dir}/rgw.asok"], stdout=self.said, stderr=subprocess.STDOUT)

        def answers():
            assert self.process.poll() is None, f"radosgw ended with {self.process.returncode}: {open(self.said.name).read()[-2000:]}"
            try:
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
                connection.request("GET", "/")
                return connection.getresponse().status == 200
            except OSError:
                return False

        until("radosgw answers", answers, 120)

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        while self.mounts:
            subprocess.run(["umount", self.mounts.pop()], check=False)

    def admin(self, *words, expect=0, parse=True, timeout=120):
        done = subprocess.run([*self.before, "radosgw-admin", "--conf", self.conf, "--name", NAME, *map(str, words)], capture_output=True, text=True, timeout=timeout)
        assert expect is None or done.returncode == expect, f"radosgw-admin {' '.join(map(str, words))}: {done.returncode}: {done.stdout}{done.stderr}"
        return json.loads(done.stdout) if parse and done.stdout.strip() else done.stdout


def objects(s3):
    s3.ask("PUT", "/first")
    s3.ask("PUT", "/first")
    assert s3.ask("GET", "/").texts("Name") == ["first"]
    for name in ("a", "b/1", "b/2", "c d", "ä/ö"):
        s3.ask("PUT", f"/first/{name}", f"body of {name}".encode(), content_type="text/plain", x_amz_meta_colour="blue")
    got = s3.ask("GET", "/first/ä/ö")
    assert got.body == "body of ä/ö".encode() and got.headers["x-amz-meta-colour"] == "blue"
    assert got.headers["etag"].strip('"') == hashlib.md5("body of ä/ö".encode()).hexdigest()
    assert s3.ask("GET", "/first/a", range="bytes=2-5", expect=206).body == b"dy o"
    assert s3.ask("HEAD", "/first/c d").headers["content-length"] == "11"
    assert s3.ask("GET", "/first").texts("Key") == ["a", "b/1", "b/2", "c d", "ä/ö"]
    listed = s3.ask("GET", "/first", query={"delimiter": "/"})
    assert listed.texts("Key") == ["a", "c d"] and "b/" in listed.texts("Prefix"), listed.body
    assert s3.ask("GET", "/first", query={"prefix": "b/", "list-type": 2}).texts("Key") == ["b/1", "b/2"]
    page = s3.ask("GET", "/first", query={"max-keys": 2})
    assert page.texts("Key") == ["a", "b/1"] and page.texts("IsTruncated") == ["true"]
    assert s3.ask("GET", "/first", query={"max-keys": 2, "marker": "b/1"}).texts("Key") == ["b/2", "c d"]
    s3.ask("PUT", "/first/a", b"over", expect=200)
    assert s3.ask("GET", "/first/a").body == b"over"
    s3.ask("DELETE", "/first/a", expect=204)
    s3.ask("GET", "/first/a", expect=404)
    s3.ask("DELETE", "/first/a", expect=204)
    s3.ask("DELETE", "/first", expect=409)
    s3.ask("GET", "/none", expect=404)
    assert S3(s3.port, s3.access, "wrong").ask("GET", "/first", expect=403).texts("Code") == ["SignatureDoesNotMatch"]


def large(s3):
    body = os.urandom(9 << 20)
    s3.ask("PUT", "/first/large", body)
    assert s3.ask("GET", "/first/large").body == body
    assert s3.ask("GET", "/first/large", range="bytes=4194300-4194310", expect=206).body == body[4194300:4194311]
    upload = s3.ask("POST", "/first/parts", query={"uploads": ""}).texts("UploadId")[0]
    pieces = [body[:5 << 20], body[5 << 20:]]
    tags = [s3.ask("PUT", "/first/parts", piece, query={"partNumber": n, "uploadId": upload}).headers["etag"] for n, piece in enumerate(pieces, 1)]
    assert s3.ask("GET", "/first/parts", query={"uploadId": upload}).texts("PartNumber") == ["1", "2"]
    assert s3.ask("GET", "/first", query={"uploads": ""}).texts("Key") == ["parts"]
    done = "".join(f"<Part><PartNumber>{n}</PartNumber><ETag>{tag}</ETag></Part>" for n, tag in enumerate(tags, 1))
    s3.ask("POST", "/first/parts", f"<CompleteMultipartUpload>{done}</CompleteMultipartUpload>".encode(), query={"uploadId": upload})
    got = s3.ask("GET", "/first/parts")
    assert got.body == body and got.headers["etag"].strip('"').endswith("-2")
    upload = s3.ask("POST", "/first/given up", query={"uploads": ""}).texts("UploadId")[0]
    s3.ask("PUT", "/first/given up", pieces[0], query={"partNumber": 1, "uploadId": upload})
    s3.ask("DELETE", "/first/given up", query={"uploadId": upload}, expect=204)
    assert not s3.ask("GET", "/first", query={"uploads": ""}).texts("Key")
    s3.ask("PUT", "/first/copy", x_amz_copy_source="/first/parts")
    s3.ask("DELETE", "/first/parts", expect=204)
    assert s3.ask("GET", "/first/copy").body == body
    keys = "".join(f"<Object><Key>{key}</Key></Object>" for key in ("copy", "large", "none"))
    text = f"<Delete>{keys}</Delete>".encode()
    gone = s3.ask("POST", "/first", text, query={"delete": ""}, content_md5=base64.b64encode(hashlib.md5(text).digest()).decode())
    assert sorted(gone.texts("Key")) == ["copy", "large", "none"]


def versions(s3):
    s3.ask("PUT", "/versions")
    s3.ask("PUT", "/versions/plain", b"before versions")
    s3.ask("PUT", "/versions", b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>", query={"versioning": ""})
    assert s3.ask("GET", "/versions", query={"versioning": ""}).texts("Status") == ["Enabled"]
    ids = [s3.ask("PUT", "/versions/key", f"version {n}".encode()).headers["x-amz-version-id"] for n in range(3)]
    s3.ask("PUT", "/versions/plain", b"after")
    assert s3.ask("GET", "/versions/plain", query={"versionId": "null"}).body == b"before versions"
    assert s3.ask("GET", "/versions/key").body == b"version 2"
    assert s3.ask("GET", "/versions/key", query={"versionId": ids[0]}).body == b"version 0"
    marker = s3.ask("DELETE", "/versions/key", expect=204).headers["x-amz-version-id"]
    s3.ask("GET", "/versions/key", expect=404)
    assert s3.ask("GET", "/versions").texts("Key") == ["plain"]
    listed = s3.ask("GET", "/versions", query={"versions": ""})
    assert listed.texts("VersionId")[:4] == [marker, *reversed(ids)], listed.body
    s3.ask("DELETE", "/versions/key", query={"versionId": marker}, expect=204)
    assert s3.ask("GET", "/versions/key").body == b"version 2"
    s3.ask("DELETE", "/versions/key", query={"versionId": ids[2]}, expect=204)
    assert s3.ask("GET", "/versions/key").body == b"version 1"
    for name, ident in (("key", ids[0]), ("key", ids[1])):
        s3.ask("DELETE", f"/versions/{name}", query={"versionId": ident}, expect=204)
    for ident in s3.ask("GET", "/versions", query={"versions": ""}).texts("VersionId"):
        s3.ask("DELETE", "/versions/plain", query={"versionId": ident}, expect=204)
    s3.ask("DELETE", "/versions", expect=204)


def rules(s3, gateway):
    """A rule that removes what is a day old; with the gateway's option a day has five seconds."""
    s3.ask("PUT", "/rules")
    s3.ask("PUT", "/rules/old/a", b"x" * (5 << 20))
    s3.ask("PUT", "/rules/new/a", b"x")
    rule = "<Rule><ID>r</ID><Filter><Prefix>old/</Prefix></Filter><Status>Enabled</Status><Expiration><Days>1</Days></Expiration></Rule>"
    text = f"<LifecycleConfiguration>{rule}</LifecycleConfiguration>".encode()
    s3.ask("PUT", "/rules", text, query={"lifecycle": ""})
    assert s3.ask("GET", "/rules", query={"lifecycle": ""}).texts("Prefix") == ["old/"]
    assert any("rules" in entry["bucket"] for entry in gateway.admin("lc", "list"))
    until("the rule removes what is old", lambda: s3.ask("GET", "/rules/old/a", expect=(200, 404)).status == 404, 60)
    assert s3.ask("GET", "/rules/new/a").body == b"x"
    s3.ask("DELETE", "/rules", query={"lifecycle": ""}, expect=204)


def administration(s3, gateway):
    """What radosgw-admin sees and does: sums, index, garbage, usage, shards."""
    stats = gateway.admin("bucket", "stats", "--bucket", "first")
    assert stats["usage"]["rgw.main"]["num_objects"] == 4, stats
    gateway.admin("bucket", "check", "--bucket", "first", parse=False)
    entries = gateway.admin("bi", "list", "--bucket", "first")
    assert sorted(entry["idx"] for entry in entries) == sorted(["b/1", "b/2", "c d", "ä/ö"]), entries
    gateway.admin("gc", "process", "--include-all", parse=False)
    assert gateway.admin("gc", "list", "--include-all") == []
    gateway.admin("bucket", "reshard", "--bucket", "first", "--num-shards", 13, parse=False)
    assert s3.ask("GET", "/first").texts("Key") == ["b/1", "b/2", "c d", "ä/ö"]
    s3.ask("PUT", "/first/after", b"resharded")
    assert gateway.admin("bucket", "stats", "--bucket", "first")["num_shards"] == 13
    gateway.admin("reshard", "add", "--bucket", "first", "--num-shards", 17, parse=False)
    assert [entry["bucket_name"] for entry in gateway.admin("reshard", "list")] == ["first"]
    gateway.admin("reshard", "cancel", "--bucket", "first", parse=False)
    assert gateway.admin("reshard", "list") == []
    until("usage is logged", lambda: gateway.admin("usage", "show", "--uid", "anna")["summary"], 60)
    gateway.admin("usage", "trim", "--uid", "anna", parse=False)
    gateway.admin("user", "stats", "--uid", "anna", "--sync-stats")
    gateway.admin("user", "modify", "--uid", "anna", "--max-buckets", 3)
    gateway.admin("user", "rm", "--uid", "bert", parse=False)


def shown(conf):
    """The gateway in `ceph -s`, with its host and zone."""
    line = r"rgw: 1 daemon active \(1 hosts, 1 zones\)"
    ask = lambda: subprocess.run(["ceph", "--conf", conf, "-s"], capture_output=True, text=True).stdout
    until(f"`ceph -s` shows {line}", lambda: re.search(line, ask()), 30)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nacre")
    parser.add_argument("--conf")
    parser.add_argument("--auth", default="cephx", choices=("none", "cephx"))
    parser.add_argument("--keep")
    parser.add_argument("--root", help="a chroot with another release's radosgw")
    parser.add_argument("--serve", action="store_true")
    parser.add_argument("--only", nargs="*", default=[])
    args = parser.parse_args()
    directory = args.keep or tempfile.mkdtemp(prefix="radosgw-")
    os.makedirs(directory, exist_ok=True)
    cluster, conf = None, args.conf
    if not conf:
        cluster = Cluster(args.nacre, os.path.join(directory, "cluster"), "--osds", 3, auth=args.auth)
        cluster.start()
        conf = cluster.conf
    gateway = None
    try:
        gateway = Gateway(conf, directory, args.auth, root=args.root)
        begun = time.monotonic()
        gateway.start()
        print(f"radosgw answers after {time.monotonic() - begun:.1f} s", flush=True)
        if args.conf:
            for uid in ("anna", "bert"):
                gateway.admin("user", "rm", "--uid", uid, "--purge-data", expect=None, parse=False)
        keys = gateway.admin("user", "create", "--uid", "anna", "--display-name", "Anna")["keys"][0]
        gateway.admin("user", "create", "--uid", "bert", "--display-name", "Bert")
        assert sorted(gateway.admin("user", "list")) == ["anna", "bert"]
        if args.serve:
            print(f"http://127.0.0.1:{gateway.port} {keys['access_key']} {keys['secret_key']} conf {gateway.conf}", flush=True)
            gateway.process.wait()
            return
        s3 = S3(gateway.port, keys["access_key"], keys["secret_key"])
        parts = {"objects": lambda: objects(s3), "large": lambda: large(s3), "versions": lambda: versions(s3), "rules": lambda: rules(s3, gateway),
                 "administration": lambda: administration(s3, gateway), "shown": lambda: shown(conf)}
        for name, part in parts.items():
            if not args.only or name in args.only:
                begun = time.monotonic()
                part()
                print(f"{name}: as it should be ({time.monotonic() - begun:.1f} s)", flush=True)
    finally:
        if gateway:
            gateway.stop()
        if cluster:
            cluster.kill()


if __name__ == "__main__":
    sys.exit(main())
