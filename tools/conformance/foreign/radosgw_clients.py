#!/usr/bin/python3
"""Uses Ceph's object gateway on a cluster of ours with the clients that people have: aws CLI 1 and 2, boto3 old and new, s3cmd, rclone, restic, minio-go and
s3fs. Each one puts, gets, lists and deletes, sends an object in parts, goes on with what was interrupted, and is refused with a wrong key. What a client
stored is read with another program, too (signed HTTP of radosgw.py).

    tools/conformance/foreign/radosgw_clients.py --nacre target/release/nacre --tools target/s3-clients [--only s3cmd rclone]
    tools/conformance/foreign/radosgw_clients.py --conf /etc/ceph/ceph.conf --tools FOLDER     # another cluster, as a real one

A client that is not installed is fetched from Debian, PyPI or the Go registry into the folder, and nothing of the machine is changed. One that cannot be had
is skipped with a sentence; `--must N` fails if fewer than N were tried. Needs radosgw and ceph-common."""

import argparse
import filecmp
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", room) for room in ("lib",)]
from live import Cluster, until
from radosgw import S3, Gateway

PART = 5 << 20


class Missing(Exception):
    """A client cannot be had here; the reason is a sentence."""


class Tools:
    """Where clients come from."""

    def __init__(self, folder):
        self.folder = Path(folder).resolve()
        self.folder.mkdir(parents=True, exist_ok=True)

    def quiet(self, what, *argv, **more):
        try:
            done = subprocess.run([str(a) for a in argv], capture_output=True, text=True, timeout=540, stdin=subprocess.DEVNULL, **more)
        except (OSError, subprocess.TimeoutExpired) as e:
            raise Missing(f"{what}: {e}") from None
        if done.returncode:
            raise Missing(f"{what}: {(done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]}")
        return done.stdout

    def debian(self, package, command):
        """A command of a Debian package, and the environment it needs. What the machine has is taken; otherwise the package and what it lacks are unpacked."""
        there = Path("/usr/bin", command)
        if there.exists():
            return str(there), {}
        root = self.folder / package
        if not (root / "done").exists():
            shutil.rmtree(root, ignore_errors=True)
            (root / "debs/partial").mkdir(parents=True)
            self.quiet(f"Debian's {package}", "apt-get", "install", "-qq", "-y", "--no-install-recommends", "--download-only", "-o", f"Dir::Cache::archives={root}/debs", package)
            for deb in sorted(root.glob("debs/*.deb")):
                self.quiet(f"Debian's {package}", "dpkg", "-x", deb, root)
            (root / "done").touch()
        env = {"LD_LIBRARY_PATH": f"{root}/usr/lib/x86_64-linux-gnu:{root}/lib/x86_64-linux-gnu", "PYTHONPATH": f"{root}/usr/lib/python3/dist-packages",
               "PATH": f"{root}/usr/bin:{os.environ['PATH']}"}
        return str(root / "usr/bin" / command), env

    def pypi(self, name, *packages):
        """The Python of a virtual environment that has the packages."""
        venv = self.folder / name
        if not (venv / "done").exists():
            shutil.rmtree(venv, ignore_errors=True)
            # Debian's own Python may come without what makes such environments.
            pythons = [p for p in ("/usr/bin/python3", shutil.which("python3")) if p]
            for python in pythons:
                if subprocess.run([python, "-m", "venv", venv], capture_output=True).returncode == 0:
                    break
            else:
                raise Missing(f"{name}: no Python here makes virtual environments")
            self.quiet(f"PyPI's {name}", venv / "bin/python", "-m", "pip", "-q", "install", "--only-binary", ":all:", *packages)
            (venv / "done").touch()
        return str(venv / "bin/python")

    def go(self, name, source, module):
        """A program in Go with one module."""
        go = shutil.which("go") or next((p for p in ("/usr/local/go/bin/go",) if os.path.exists(p)), None)
        if not go:
            raise Missing(f"{name}: Go is not installed")
        place = self.folder / name
        place.mkdir(exist_ok=True)
        digest = hashlib.sha256((source + module).encode()).hexdigest()
        if not (place / "done").exists() or (place / "done").read_text() != digest:
            (place / "main.go").write_text(source)
            if not (place / "go.mod").exists():
                self.quiet(name, go, "mod", "init", "client", cwd=place)
            self.quiet(f"the Go module {module}", go, "get", module, cwd=place)
            self.quiet(name, go, "build", "-o", "client", ".", cwd=place)
            (place / "done").write_text(digest)
        return str(place / "client")


class Bench:
    """What each client's script gets: the gateway, keys, files, and a bucket of its own."""

    def __init__(self, port, access, secret, directory, name):
        self.port, self.access, self.secret, self.bucket = port, access, secret, f"of-{name}"
        self.url, self.dir = f"http://127.0.0.1:{port}", Path(directory, name)
        self.dir.mkdir()
        self.s3 = S3(port, access, secret)
        self.small, self.large, self.back = self.dir / "small", self.dir / "large", self.dir / "back"
        self.small.write_bytes(b"a small object\n" * 10)
        self.large.write_bytes(os.urandom(3 * PART + 12345))
        # What the machine says about Amazon is not for these.
        self.env = {**{k: v for k, v in os.environ.items() if not k.startswith("AWS_")}, "HOME": str(self.dir), "AWS_ACCESS_KEY_ID": access, "AWS_SECRET_ACCESS_KEY": secret, "AWS_DEFAULT_REGION": "us-east-1",
                    "AWS_EC2_METADATA_DISABLED": "true", "AWS_MAX_ATTEMPTS": "3"}

    def run(self, *argv, expect=0, env=None, timeout=180, **more):
        argv = [str(a) for a in argv]
        done = subprocess.run(argv, capture_output=True, text=True, env={**self.env, **(env or {})}, timeout=timeout, stdin=subprocess.DEVNULL, **more)
        good = done.returncode == 0 if expect == 0 else done.returncode != 0
        assert good, f"{' '.join(argv)} ended with {done.returncode}: {done.stdout[-1500:]}{done.stderr[-1500:]}"
        return done.stdout + (done.stderr if expect else "")

    def interrupted(self, once, *argv, env=None):
        """Starts a program, and kills it with -9 when `once` is true."""
        process = subprocess.Popen([str(a) for a in argv], env={**self.env, **(env or {})}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        try:
            until("the client has begun", lambda: once() or process.poll() is not None, 120)
            assert process.poll() is None, f"{argv[0]} ended with {process.returncode} before it could be interrupted"
        finally:
            process.kill()
            process.wait()

    def stored(self, key, path):
        """The object has the file's bytes, as another client reads it."""
        got = self.s3.ask("GET", f"/{self.bucket}/{key}")
        assert got.body == Path(path).read_bytes(), f"{self.bucket}/{key} has other bytes than {path}"
        return got

    def in_parts(self, key, path):
        etag = self.stored(key, path).headers["etag"].strip('"')
        assert "-" in etag, f"{key} was not sent in parts: its tag is {etag}"

    def same(self, path):
        assert filecmp.cmp(self.back, path, shallow=False), f"what came back differs from {path}"
        self.back.unlink()

    def keys(self):
        return self.s3.ask("GET", f"/{self.bucket}").texts("Key")

    def uploads(self):
        return self.s3.ask("GET", f"/{self.bucket}", query={"uploads": ""}).texts("UploadId")

    def parts(self, key):
        """Parts of the one upload that has begun; none before it has."""
        begun = self.uploads()
        return self.s3.ask("GET", f"/{self.bucket}/{key}", query={"uploadId": begun[0]}, expect=(200, 404)).texts("PartNumber") if begun else []

    def empty(self, *left):
        assert self.keys() == list(left), f"left in {self.bucket}: {self.keys()}"


def aws(b, command, env):
    """Both releases of the aws CLI: `s3`, and `s3api` where `s3` cannot go on."""
    aws = lambda *words, **more: b.run(*command, "--endpoint-url", b.url, *words, env={**env, **more.pop("env", {})}, **more)
    at = f"s3://{b.bucket}"
    aws("s3", "mb", at)
    aws("s3", "cp", b.small, f"{at}/small")
    aws("s3", "cp", b.large, f"{at}/dir/large")
    b.stored("small", b.small)
    b.in_parts("dir/large", b.large)
    for key, path in (("small", b.small), ("dir/large", b.large)):
        aws("s3", "cp", f"{at}/{key}", b.back)
        b.same(path)
    assert "PRE dir/" in aws("s3", "ls", at + "/") and "dir/large" in aws("s3", "ls", "--recursive", at)
    # An upload by parts that another process goes on with.
    api = lambda *words: json.loads(aws("s3api", *words, "--bucket", b.bucket, "--key", "resumed", "--output", "json") or "null")
    upload, data, tags = api("create-multipart-upload")["UploadId"], b.large.read_bytes(), []
    for number in (1, 2):
        piece = b.dir / f"piece{number}"
        piece.write_bytes(data[:PART] if number == 1 else data[PART:])
        assert len(api("list-parts", "--upload-id", upload).get("Parts", [])) == number - 1
        tags.append(api("upload-part", "--upload-id", upload, "--part-number", str(number), "--body", str(piece))["ETag"])
    api("complete-multipart-upload", "--upload-id", upload, "--multipart-upload", json.dumps({"Parts": [{"PartNumber": n, "ETag": t} for n, t in enumerate(tags, 1)]}))
    b.in_parts("resumed", b.large)
    # A folder again: what is there is not sent again.
    tree = b.dir / "tree"
    tree.mkdir()
    for n in range(3):
        (tree / f"f{n}").write_bytes(b.small.read_bytes())
    assert aws("s3", "sync", "--no-progress", tree, f"{at}/tree").count("upload:") == 3
    (tree / "f3").write_bytes(b"new")
    assert aws("s3", "sync", "--no-progress", tree, f"{at}/tree").count("upload:") == 1
    # The gateway's refusal has a code and no message; these releases of the CLI stumble over that when they want to print it.
    for words in (("ls", at), ("cp", b.small, f"{at}/with-a-wrong-key"), ("rm", f"{at}/small")):
        said = aws("s3", *words, env={"AWS_SECRET_ACCESS_KEY": "wrong"}, expect=1)
        assert any(w in said for w in ("SignatureDoesNotMatch", "'NoneType' is not iterable", "403")), said
    assert "small" in b.keys() and "with-a-wrong-key" not in b.keys()
    aws("s3", "rm", f"{at}/small")
    aws("s3", "rm", "--recursive", at)
    b.empty()
    aws("s3", "rb", at)


def aws1(tools, b):
    python = tools.pypi("awscli1", "awscli")
    aws(b, [python, str(Path(python).parent / "aws")], {})
    return b.run(python, Path(python).parent / "aws", "--version").split()[0]


def aws2(tools, b):
    command, env = tools.debian("awscli", "aws")
    aws(b, [command], env)
    return b.run(command, "--version", env=env).split()[0]


BOTO = r'''
import boto3, botocore, hashlib, io, sys
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from botocore.exceptions import ClientError

url, access, secret, bucket, small, large, back = sys.argv[1:]
client = lambda secret: boto3.client("s3", endpoint_url=url, aws_access_key_id=access, aws_secret_access_key=secret, region_name="us-east-1", config=Config(s3={"addressing_style": "path"}))
c = client(secret)
c.create_bucket(Bucket=bucket)
c.put_object(Bucket=bucket, Key="put", Body=open(small, "rb").read(), Metadata={"colour": "blue"})
got = c.get_object(Bucket=bucket, Key="put")
assert got["Body"].read() == open(small, "rb").read() and got["Metadata"] == {"colour": "blue"}
c.upload_file(large, bucket, "large", Config=TransferConfig(multipart_threshold=5 << 20, multipart_chunksize=5 << 20))
c.download_file(bucket, "large", back)
data = open(large, "rb").read()
assert open(back, "rb").read() == data
assert c.get_object(Bucket=bucket, Key="large", Range="bytes=100-199")["Body"].read() == data[100:200]
# An upload that another client goes on with.
upload = c.create_multipart_upload(Bucket=bucket, Key="resumed")["UploadId"]
c.upload_part(Bucket=bucket, Key="resumed", UploadId=upload, PartNumber=1, Body=data[:5 << 20])
d = client(secret)
there = d.list_parts(Bucket=bucket, Key="resumed", UploadId=upload)["Parts"]
assert [p["Size"] for p in there] == [5 << 20]
tag = d.upload_part(Bucket=bucket, Key="resumed", UploadId=upload, PartNumber=2, Body=data[5 << 20:])["ETag"]
d.complete_multipart_upload(Bucket=bucket, Key="resumed", UploadId=upload, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": there[0]["ETag"]}, {"PartNumber": 2, "ETag": tag}]})
assert d.get_object(Bucket=bucket, Key="resumed")["Body"].read() == data
for n in range(25):
    c.put_object(Bucket=bucket, Key=f"many/{n:02}", Body=b"x")
pages = c.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix="many/", PaginationConfig={"PageSize": 7})
assert [o["Key"] for page in pages for o in page["Contents"]] == [f"many/{n:02}" for n in range(25)]
try:
    client("wrong").list_objects(Bucket=bucket)
    sys.exit("a wrong key was let in")
except ClientError as e:
    assert e.response["Error"]["Code"] == "SignatureDoesNotMatch", e
link = c.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "put"})
import urllib.request
assert urllib.request.urlopen(link).read() == open(small, "rb").read()
for key in ["put", "large", "resumed"] + [f"many/{n:02}" for n in range(25)]:
    c.delete_object(Bucket=bucket, Key=key)
assert "Contents" not in c.list_objects(Bucket=bucket)
c.delete_bucket(Bucket=bucket)
print("boto3", boto3.__version__)
'''


def boto(b, python):
    said = b.run(python, "-c", BOTO, b.url, b.access, b.secret, b.bucket, b.small, b.large, b.back)
    return said.strip()


def boto_old(tools, b):
    """Debian's, or the last release before clients began to send checksums of their own."""
    if subprocess.run(["/usr/bin/python3", "-c", "import boto3"], capture_output=True).returncode == 0:
        return boto(b, "/usr/bin/python3")
    return boto(b, tools.pypi("boto3-old", "boto3==1.26.27", "botocore==1.29.27"))


def boto_new(tools, b):
    return boto(b, tools.pypi("boto3-new", "boto3"))


def s3cmd(tools, b):
    command, env = tools.debian("s3cmd", "s3cmd")
    host = f"127.0.0.1:{b.port}"
    config = b.dir / "s3cfg"
    config.write_text("[default]\n")

    def words(secret):
        return [command, "--config", config, f"--access_key={b.access}", f"--secret_key={secret}", f"--host={host}", f"--host-bucket={host}", "--no-ssl", "--no-progress"]

    s3cmd = lambda *more, **how: b.run(*words(b.secret), *more, env=env, **how)
    at = f"s3://{b.bucket}"
    s3cmd("mb", at)
    s3cmd("put", b.small, f"{at}/small")
    s3cmd("--multipart-chunk-size-mb=5", "put", b.large, f"{at}/large")
    b.stored("small", b.small)
    b.in_parts("large", b.large)
    for key, path in (("small", b.small), ("large", b.large)):
        s3cmd("get", f"{at}/{key}", b.back)
        b.same(path)
    assert [line.split()[-1] for line in s3cmd("ls", at).splitlines()] == [f"{at}/large", f"{at}/small"]
    # Killed while it sends parts; what is there is not sent again.
    b.interrupted(lambda: b.parts("resumed"), *words(b.secret), "--multipart-chunk-size-mb=5", "--limit-rate=3m", "put", b.large, f"{at}/resumed", env=env)
    upload = b.uploads()
    s3cmd("--multipart-chunk-size-mb=5", "--continue-put", f"--upload-id={upload[0]}", "put", b.large, f"{at}/resumed")
    b.in_parts("resumed", b.large)
    assert not b.uploads()
    b.back.write_bytes(b.large.read_bytes()[:PART])
    s3cmd("--continue", "get", f"{at}/resumed", b.back)
    b.same(b.large)
    assert "SignatureDoesNotMatch" in b.run(*words("wrong"), "ls", at, env=env, expect=1)
    s3cmd("del", f"{at}/small")
    s3cmd("del", "--recursive", "--force", at)
    b.empty()
    s3cmd("rb", at)
    return b.run(command, "--version", env=env).strip()


def rclone(tools, b):
    command, env = tools.debian("rclone", "rclone")
    env = {**env, "RCLONE_CONFIG": str(b.dir / "rclone.conf"), "RCLONE_CONFIG_R_TYPE": "s3", "RCLONE_CONFIG_R_PROVIDER": "Ceph", "RCLONE_CONFIG_R_ENDPOINT": b.url,
           "RCLONE_CONFIG_R_ACCESS_KEY_ID": b.access, "RCLONE_CONFIG_R_SECRET_ACCESS_KEY": b.secret, "RCLONE_S3_CHUNK_SIZE": "5M", "RCLONE_S3_UPLOAD_CUTOFF": "5M", "RCLONE_RETRIES": "1"}
    Path(env["RCLONE_CONFIG"]).touch()
    rclone = lambda *words, **more: b.run(command, *words, env={**env, **more.pop("env", {})}, **more)
    at = f"r:{b.bucket}"
    rclone("mkdir", at)
    rclone("copyto", b.small, f"{at}/small")
    rclone("copyto", b.large, f"{at}/large")
    b.stored("small", b.small)
    b.in_parts("large", b.large)
    rclone("copyto", f"{at}/large", b.back)
    b.same(b.large)
    assert rclone("lsf", at).split() == ["large", "small"]
    # A folder whose copy is killed in the middle: the next run copies what lacks.
    tree = b.dir / "tree"
    (tree / "sub").mkdir(parents=True)
    for n in range(40):
        (tree / "sub" / f"f{n:02}").write_bytes(os.urandom(200_000))
    b.interrupted(lambda: any(k.startswith("tree/") for k in b.keys()), command, "sync", "--transfers=1", "--bwlimit=1M", tree, f"{at}/tree", env=env)
    there = sum(k.startswith("tree/") for k in b.keys())
    assert 0 < there < 40, there
    rclone("sync", tree, f"{at}/tree")
    rclone("check", "--download", tree, f"{at}/tree")
    (tree / "sub" / "f00").unlink()
    rclone("sync", tree, f"{at}/tree")
    assert "tree/sub/f00" not in b.keys()
    assert "SignatureDoesNotMatch" in rclone("ls", at, env={"RCLONE_CONFIG_R_SECRET_ACCESS_KEY": "wrong"}, expect=1)
    rclone("deletefile", f"{at}/small")
    rclone("purge", at)
    return rclone("version").splitlines()[0]


def restic(tools, b):
    command, env = tools.debian("restic", "restic")
    env = {**env, "RESTIC_REPOSITORY": f"s3:{b.url}/{b.bucket}/repo", "RESTIC_PASSWORD": "of the test", "RESTIC_CACHE_DIR": str(b.dir / "cache")}
    restic = lambda *words, **more: b.run(command, *words, env={**env, **more.pop("env", {})}, **more)
    tree = b.dir / "tree"
    tree.mkdir()
    for n in range(30):
        (tree / f"f{n}").write_bytes(os.urandom(1 << 20))
    restic("init")
    # Killed while it writes; the next backup goes on with what lies there.
    b.interrupted(lambda: any("/data/" in k for k in b.keys()), command, "backup", "--limit-upload", "3000", tree, env=env)
    restic("unlock", "--remove-all")
    restic("backup", tree)
    restic("backup", tree)
    assert len(json.loads(restic("snapshots", "--json"))) == 2
    restic("check", "--read-data")
    restic("restore", "latest", "--target", b.dir / "restored")
    for n in range(30):
        assert filecmp.cmp(tree / f"f{n}", Path(f"{b.dir}/restored{tree}", f"f{n}"), shallow=False), f"file f{n} of the backup differs"
    restic("forget", "--keep-last", "1", "--prune")
    restic("check")
    said = restic("snapshots", env={"AWS_SECRET_ACCESS_KEY": "wrong"}, expect=1)
    assert any(w in said for w in ("Access Denied", "does not match", "SignatureDoesNotMatch")), said
    return restic("version").split(" compiled")[0]


GO = r'''
package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

func must(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func expect(good bool, what string) {
	if !good {
		fmt.Println(what)
		os.Exit(1)
	}
}

func main() {
	host, access, secret, bucket, small, large, back := os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5], os.Args[6], os.Args[7]
	ctx := context.Background()
	options := func(secret string) *minio.Options {
		return &minio.Options{Creds: credentials.NewStaticV4(access, secret, ""), Region: "us-east-1"}
	}
	c, err := minio.New(host, options(secret))
	must(err)
	must(c.MakeBucket(ctx, bucket, minio.MakeBucketOptions{}))
	_, err = c.FPutObject(ctx, bucket, "small", small, minio.PutObjectOptions{UserMetadata: map[string]string{"colour": "blue"}})
	must(err)
	_, err = c.FPutObject(ctx, bucket, "large", large, minio.PutObjectOptions{PartSize: 5 << 20})
	must(err)
	must(c.FGetObject(ctx, bucket, "large", back, minio.GetObjectOptions{}))
	data, err := os.ReadFile(large)
	must(err)
	got, err := os.ReadFile(back)
	must(err)
	expect(bytes.Equal(data, got), "what came back differs")
	object, err := c.GetObject(ctx, bucket, "large", minio.GetObjectOptions{})
	must(err)
	piece := make([]byte, 100)
	_, err = object.ReadAt(piece, 6<<20)
	must(err)
	expect(bytes.Equal(piece, data[6<<20:6<<20+100]), "a range differs")
	core, err := minio.NewCore(host, options(secret))
	must(err)
	upload, err := core.NewMultipartUpload(ctx, bucket, "resumed", minio.PutObjectOptions{})
	must(err)
	put := func(core *minio.Core, number int, data []byte) minio.CompletePart {
		part, err := core.PutObjectPart(ctx, bucket, "resumed", upload, number, bytes.NewReader(data), int64(len(data)), minio.PutObjectPartOptions{})
		must(err)
		return minio.CompletePart{PartNumber: number, ETag: part.ETag}
	}
	first := put(core, 1, data[:5<<20])
	other, err := minio.NewCore(host, options(secret))
	must(err)
	there, err := other.ListObjectParts(ctx, bucket, "resumed", upload, 0, 100)
	must(err)
	expect(len(there.ObjectParts) == 1 && there.ObjectParts[0].Size == 5<<20, "the first part is not listed")
	second := put(other, 2, data[5<<20:])
	_, err = other.CompleteMultipartUpload(ctx, bucket, "resumed", upload, []minio.CompletePart{first, second}, minio.PutObjectOptions{})
	must(err)
	whole, err := c.GetObject(ctx, bucket, "resumed", minio.GetObjectOptions{})
	must(err)
	got, err = io.ReadAll(whole)
	must(err)
	expect(bytes.Equal(data, got), "what was sent in two goes differs")
	var names []string
	for o := range c.ListObjects(ctx, bucket, minio.ListObjectsOptions{Recursive: true, WithMetadata: false}) {
		must(o.Err)
		names = append(names, o.Key)
	}
	expect(fmt.Sprint(names) == "[large resumed small]", fmt.Sprint(names))
	wrong, err := minio.New(host, options("wrong"))
	must(err)
	_, err = wrong.StatObject(ctx, bucket, "small", minio.StatObjectOptions{})
	expect(err != nil, "a wrong key was let in")
	_, err = wrong.PutObject(ctx, bucket, "small", bytes.NewReader(nil), 0, minio.PutObjectOptions{})
	expect(err != nil && minio.ToErrorResponse(err).Code == "SignatureDoesNotMatch", fmt.Sprint("a wrong key: ", err))
	for _, name := range names {
		must(c.RemoveObject(ctx, bucket, name, minio.RemoveObjectOptions{}))
	}
	must(c.RemoveBucket(ctx, bucket))
}
'''


def minio_go(tools, b):
    module = "github.com/minio/minio-go/v7@v7.4.1"
    b.run(tools.go("minio-go", GO, module), f"127.0.0.1:{b.port}", b.access, b.secret, b.bucket, b.small, b.large, b.back)
    return module.split("/", 1)[1]


def s3fs(tools, b):
    if not os.path.exists("/dev/fuse") or os.geteuid() != 0:
        raise Missing("s3fs: FUSE and root are needed")
    command, env = tools.debian("s3fs", "s3fs")
    secrets, at = b.dir / "passwd", b.dir / "mount"
    at.mkdir()

    options = f"url={b.url},use_path_request_style,passwd_file={secrets},multipart_size=5,retries=2"

    def mount(secret):
        secrets.write_text(f"{b.access}:{secret}\n")
        secrets.chmod(0o600)
        b.run(command, b.bucket, at, "-o", options, env=env)

    def unmount():
        subprocess.run(["umount", "-l", at], capture_output=True)

    b.s3.ask("PUT", f"/{b.bucket}")
    try:
        # In the foreground: what runs in the background has said that it is well before it asks. It ends with 0 all the same.
        secrets.write_text(f"{b.access}:wrong\n")
        secrets.chmod(0o600)
        done = subprocess.run([command, b.bucket, at, "-f", "-o", options], capture_output=True, text=True, env={**b.env, **env}, timeout=60)
        assert "invalid credentials" in done.stdout + done.stderr and not os.path.ismount(at), done
        mount(b.secret)
        shutil.copy(b.small, at / "small")
        (at / "dir").mkdir()
        shutil.copy(b.large, at / "dir" / "large")
        b.stored("small", b.small)
        b.in_parts("dir/large", b.large)
        assert sorted(os.listdir(at)) == ["dir", "small"]
        with open(at / "dir" / "large", "r+b") as f:
            f.seek(PART)
            f.write(b"changed in the middle")
        changed = bytearray(b.large.read_bytes())
        changed[PART:PART + 21] = b"changed in the middle"
        b.large.write_bytes(changed)
        b.stored("dir/large", b.large)
        os.rename(at / "dir" / "large", at / "moved")
        b.stored("moved", b.large)
        # s3fs dies; the mount after it sees what was stored.
        for pid in subprocess.run(["pgrep", "-f", f"^{command} {b.bucket} {at}"], capture_output=True, text=True).stdout.split():
            os.kill(int(pid), signal.SIGKILL)
        unmount()
        mount(b.secret)
        assert filecmp.cmp(at / "moved", b.large, shallow=False)
        os.unlink(at / "moved")
        os.unlink(at / "small")
        os.rmdir(at / "dir")
        until("what was removed is gone", lambda: not b.keys(), 20)
    finally:
        unmount()
    return b.run(command, "--version", env=env).splitlines()[0]


CLIENTS = {"s3cmd": s3cmd, "boto3-old": boto_old, "boto3-new": boto_new, "aws1": aws1, "aws2": aws2, "rclone": rclone, "restic": restic, "minio-go": minio_go, "s3fs": s3fs}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nacre")
    parser.add_argument("--conf")
    parser.add_argument("--tools", required=True, help="folder in which clients are kept")
    parser.add_argument("--root", help="a chroot with another release's radosgw")
    parser.add_argument("--only", nargs="*", choices=sorted(CLIENTS), default=list(CLIENTS))
    parser.add_argument("--must", type=int, default=1, help="how many clients must have been tried")
    args = parser.parse_args()
    if bool(args.nacre) == bool(args.conf):
        parser.error("one of --nacre and --conf is needed")
    tools, directory = Tools(args.tools), tempfile.mkdtemp(prefix="s3-clients-")
    cluster, gateway, conf, bad, tried = None, None, args.conf, 0, 0
    try:
        if args.nacre:
            cluster = Cluster(args.nacre, os.path.join(directory, "cluster"), "--osds", 3, auth="cephx")
            cluster.start()
            conf = cluster.conf
        gateway = Gateway(conf, directory, "cephx", root=args.root)
        gateway.start()
        gateway.admin("user", "rm", "--uid", "clients", "--purge-data", expect=None, parse=False)
        keys = gateway.admin("user", "create", "--uid", "clients", "--display-name", "Clients", "--access-key", "CLIENTSKEY0000000000", "--secret-key", "secretofclients")["keys"][0]
        for name in args.only:
            begun = time.monotonic()
            bench = Bench(gateway.port, keys["access_key"], keys["secret_key"], directory, name)
            try:
                version = CLIENTS[name](tools, bench)
                tried += 1
                print(f"{name}: as it should be ({version}; {time.monotonic() - begun:.1f} s)", flush=True)
            except Missing as why:
                print(f"{name}: skipped: it cannot be had here: {why}", flush=True)
            except (AssertionError, subprocess.TimeoutExpired, OSError) as e:
                tried, bad = tried + 1, bad + 1
                print(f"{name}: FAILED: {e}", flush=True)
        if cluster:
            cluster.alive()
    finally:
        if gateway:
            gateway.stop()
        if cluster:
            cluster.kill()
        shutil.rmtree(directory, ignore_errors=True)
    print(f"{tried - bad} of {tried} clients as they should be, {len(args.only) - tried} skipped")
    return 1 if bad or tried < args.must else 0


if __name__ == "__main__":
    sys.exit(main())
