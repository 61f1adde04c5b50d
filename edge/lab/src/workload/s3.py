#!/usr/bin/python3
"""A client of an S3 service that makes load, and says in JSON what it did: operations, bytes, percentiles of latency.

    s3.py --port P --access A --secret S --bucket B --mode put|get|mixed|list|fill [--size N] [--depth N] [--seconds S] [--objects N] [--reads PERCENT]
          [--prefix P] [--tool http|boto3]

`put` writes new objects, `get` reads objects of the prefix at random, `mixed` does both, `list` lists the prefix page by page, `fill` writes --objects objects.
`http` signs links (AWS signature 4, one for each request) and keeps its connections; bodies are neither signed nor hashed, so that the service is measured
rather than the client. `boto3` is Amazon's library for Python, as users have it: it costs more than most services do. Each of --depth threads has one
request under way. Requests that fail are counted, and the reason of the first is told; if all fail, it ends with 1."""

import argparse
import hashlib
import hmac
import http.client
import json
import os
import random
import re
import sys
import threading
import time
import urllib.parse


class Signed:
    """One connection to the service."""

    def __init__(self, args):
        self.args, self.host = args, f"127.0.0.1:{args.port}"
        self.connection = http.client.HTTPConnection("127.0.0.1", args.port, timeout=120)
        self.day = self.key = None

    def link(self, method, path, query):
        now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        day = now[:8]
        if day != self.day:
            key = f"AWS4{self.args.secret}".encode()
            for part in (day, "us-east-1", "s3", "aws4_request"):
                key = hmac.new(key, part.encode(), hashlib.sha256).digest()
            self.day, self.key = day, key
        scope = f"{day}/us-east-1/s3/aws4_request"
        query = {**query, "X-Amz-Algorithm": "AWS4-HMAC-SHA256", "X-Amz-Credential": f"{self.args.access}/{scope}", "X-Amz-Date": now, "X-Amz-Expires": "3600",
                 "X-Amz-SignedHeaders": "host"}
        quote = lambda text: urllib.parse.quote(str(text), safe="-_.~")
        asked = "&".join(f"{quote(k)}={quote(v)}" for k, v in sorted(query.items()))
        canonical = "\n".join([method, path, asked, f"host:{self.host}", "", "host", "UNSIGNED-PAYLOAD"])
        text = "\n".join(["AWS4-HMAC-SHA256", now, scope, hashlib.sha256(canonical.encode()).hexdigest()])
        return f"{path}?{asked}&X-Amz-Signature={hmac.new(self.key, text.encode(), hashlib.sha256).hexdigest()}"

    def ask(self, method, path, body=None, query=None):
        try:
            self.connection.request(method, self.link(method, path, query or {}), body)
            reply = self.connection.getresponse()
            data = reply.read()
        except (OSError, http.client.HTTPException):
            self.connection.close()
            raise
        if reply.status // 100 != 2:
            raise OSError(f"{method} {path}: {reply.status} {data[:200]!r}")
        return data

    def make(self, bucket):
        self.ask("PUT", f"/{bucket}")

    def put(self, bucket, key, body):
        self.ask("PUT", f"/{bucket}/{key}", body)

    def get(self, bucket, key):
        return len(self.ask("GET", f"/{bucket}/{key}"))

    def page(self, bucket, prefix, after):
        """Keys of a page, and where the next one begins; `None` behind the last."""
        data = self.ask("GET", f"/{bucket}", query={"prefix": prefix, "marker": after}).decode()
        keys = re.findall("<Key>([^<]*)</Key>", data)
        return keys, keys[-1] if keys and "<IsTruncated>true" in data else None


class Boto:
    """The same by boto3."""

    def __init__(self, args):
        try:
            import boto3
            from botocore.config import Config
        except ImportError:
            sys.exit("boto3 is not installed (Debian's package python3-boto3 has it)")
        self.client = boto3.client("s3", endpoint_url=f"http://127.0.0.1:{args.port}", aws_access_key_id=args.access, aws_secret_access_key=args.secret,
                                   region_name="us-east-1", config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 1}))

    def make(self, bucket):
        self.client.create_bucket(Bucket=bucket)

    def put(self, bucket, key, body):
        self.client.put_object(Bucket=bucket, Key=key, Body=body)

    def get(self, bucket, key):
        return len(self.client.get_object(Bucket=bucket, Key=key)["Body"].read())

    def page(self, bucket, prefix, after):
        got = self.client.list_objects(Bucket=bucket, Prefix=prefix, Marker=after)
        keys = [o["Key"] for o in got.get("Contents", [])]
        return keys, keys[-1] if keys and got["IsTruncated"] else None


class Load:
    """Threads with one request under way each."""

    def __init__(self, args):
        self.args, self.lock = args, threading.Lock()
        # Not zeros: a store may leave them out. One body for all, cut to size.
        self.body = os.urandom(args.size)
        self.done, self.bytes, self.failed, self.why, self.next = [], 0, 0, None, 0
        self.keys = []

    def client(self):
        return Boto(self.args) if self.args.tool == "boto3" else Signed(self.args)

    def prepare(self):
        client = self.client()
        client.make(self.args.bucket)
        if self.args.mode in ("get", "mixed"):
            after = ""
            while after is not None and len(self.keys) < 100_000:
                page, after = client.page(self.args.bucket, self.args.prefix, after)
                self.keys += page
            if not self.keys:
                sys.exit(f"there is nothing to read: no object of {self.args.bucket} begins with {self.args.prefix}")

    def one(self, client, rng, number, state):
        """One operation; gives the bytes it moved, and how many objects it was about."""
        mode = self.args.mode
        if mode == "mixed":
            mode = "get" if rng.randrange(100) < self.args.reads else "put"
        if mode == "get":
            return client.get(self.args.bucket, rng.choice(self.keys)), 1
        if mode == "list":
            keys, state["after"] = client.page(self.args.bucket, self.args.prefix, state["after"] or "")
            return 0, len(keys)
        client.put(self.args.bucket, f"{self.args.prefix}{number}", self.body)
        return self.args.size, 1

    def thread(self, index, start):
        client, rng, state = self.client(), random.Random(index), {"after": ""}
        own = f"{os.getpid()}-{index}-"
        start.wait()
        count = 0
        while True:
            begun = time.monotonic()
            with self.lock:
                if self.args.mode == "fill":
                    if self.next >= self.args.objects:
                        return
                elif begun >= self.ends:
                    return
                number = self.next
                self.next += 1
            count += 1
            try:
                size, about = self.one(client, rng, f"{number:08}" if self.args.mode == "fill" else f"{own}{count:07}", state)
            except Exception as e:  # Each library has errors of its own.
                with self.lock:
                    self.failed += 1
                    self.why = self.why or f"{type(e).__name__}: {e}"
                    if self.failed > 1000:
                        return
                continue
            with self.lock:
                self.done.append((time.monotonic(), time.monotonic() - begun, about))
                self.bytes += size

    def run(self):
        self.prepare()
        start = threading.Event()
        threads = [threading.Thread(target=self.thread, args=(n, start)) for n in range(self.args.depth)]
        for thread in threads:
            thread.start()
        begun = time.monotonic()
        self.ends = begun + self.args.seconds
        start.set()
        for thread in threads:
            thread.join()
        took = time.monotonic() - begun
        return self.told(begun, took)

    def told(self, begun, took):
        waits = sorted(wait for _, wait, _ in self.done)
        at = lambda share: waits[min(int(len(waits) * share), len(waits) - 1)] * 1e3 if waits else 0.0
        seconds = [0] * (int(took) + 1)
        for when, _, about in self.done:
            seconds[min(int(when - begun), len(seconds) - 1)] += about
        return {"ops": len(self.done), "objects": sum(about for _, _, about in self.done), "bytes": self.bytes, "seconds": took, "failed": self.failed, "why": self.why,
                "latency_ms": sum(waits) / max(len(waits), 1) * 1e3, "p50_ms": at(0.5), "p95_ms": at(0.95), "p99_ms": at(0.99), "p999_ms": at(0.999),
                "longest_ms": waits[-1] * 1e3 if waits else 0.0, "each_second": seconds[:-1] if len(seconds) > 1 else seconds}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--access", "--secret", "--bucket"):
        parser.add_argument(name, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--mode", required=True, choices=("put", "get", "mixed", "list", "fill"))
    parser.add_argument("--tool", choices=("http", "boto3"), default="http")
    parser.add_argument("--prefix", default="")
    for name, default in (("--size", 4096), ("--depth", 16), ("--objects", 1000), ("--reads", 80)):
        parser.add_argument(name, type=int, default=default)
    parser.add_argument("--seconds", type=float, default=5.0)
    args = parser.parse_args()
    told = Load(args).run()
    print(json.dumps(told))
    return 1 if told["failed"] and not told["ops"] else 0


if __name__ == "__main__":
    sys.exit(main())
