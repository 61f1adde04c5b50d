#!/usr/bin/python3
"""The page as those see it who come from elsewhere: TLS, links, the password, cookies, forms of elsewhere, strangers who take places. And of a
second host, at addresses of IPv6 (it needs root and network namespaces; without, it says that it is skipped).

usage: page.py --nacre PATH [--dir DIR]
"""
import argparse
import ctypes
import http.client
import os
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.parse

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", room) for room in ("lib",)]
from live import Cluster, free_port  # noqa: E402

PATIENCE = 60


class Browser:
    """Somebody who trusts the cluster's authority, and keeps the cookie that he got."""

    def __init__(self, port, authority, host="localhost"):
        self.port, self.cookie, self.host = port, None, host
        # As it stands in an address.
        self.shown = f"[{host}]" if ":" in host else host
        self.context = ssl.create_default_context(cadata=authority)

    def ask(self, path, form=None, **heads):
        """Status, heads and body; a form is posted as a page of this host would."""
        connection = http.client.HTTPSConnection(self.host, self.port, timeout=PATIENCE, context=self.context)
        heads = {name.replace("_", "-"): value for name, value in heads.items() if value is not None}
        if self.cookie and "cookie" not in heads:
            heads["cookie"] = self.cookie
        body = None
        if form is not None:
            body = urllib.parse.urlencode(form)
            heads.setdefault("origin", f"https://{self.shown}:{self.port}")
            heads["content-type"] = "application/x-www-form-urlencoded"
        connection.request("GET" if form is None else "POST", path, body, {k: v for k, v in heads.items() if v != ""})
        answer = connection.getresponse()
        told = answer.read().decode()
        got = answer.headers.get("set-cookie")
        if got:
            for word in ("Secure", "HttpOnly", "SameSite=Strict", "Path=/"):
                assert word in got, got
            assert got.startswith("__Host-") and "Domain" not in got, got
            self.cookie = got.split(";")[0]
        connection.close()
        return answer.status, answer.headers, told

    def sees(self):
        status, heads, told = self.ask("/")
        assert (status == 200) == ("What is wrong" in told), told
        assert status == 200 or (status, heads["location"]) == (303, "/login"), (status, told)
        return status == 200


def nacre(program, *words, given=None):
    done = subprocess.run([program, *words], input=given, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def secret_of(link):
    return urllib.parse.parse_qs(urllib.parse.urlparse(link).query)["link"][0]


def links(program, directory, port, authority):
    link = nacre(program, "page", "link", "--dir", directory)
    assert f":{port}/login?link=" in link, link
    secret = secret_of(link)
    files = os.path.join(directory, "page", "links")
    for name in os.listdir(files):
        assert secret not in name and os.stat(os.path.join(files, name)).st_mode & 0o077 == 0, "a link can be read"
    assert os.stat(os.path.join(directory, "page", "identity.json")).st_mode & 0o077 == 0, "the host's key can be read"
    one = Browser(port, authority)
    assert not one.sees()
    for path in ("/stream", "/keyring", "/../keyring", "/login/x"):
        assert one.ask(path)[0] == 401, path
    for cookie in ("__Host-nacre=" + secret, "__Host-nacre=", "nacre=x", "__Host-nacre=x" * 50):
        assert one.ask("/", cookie=cookie)[0] == 303, cookie
    # Programs that look at links do not use them up; nor do forms of elsewhere.
    path = "/login?link=" + secret
    for _ in range(3):
        status, heads, told = one.ask(path)
        assert status == 200 and secret in told, told
    assert "frame-ancestors 'none'" in heads["content-security-policy"] and heads["x-frame-options"] == "DENY", heads
    assert heads["cache-control"] == "no-store" and heads["x-content-type-options"] == "nosniff", heads
    for other in ({"origin": "https://evil.example"}, {"origin": "null"}, {"origin": ""}, {"sec_fetch_site": "cross-site"},
                  {"origin": f"http://localhost:{port}"}, {"host": "evil.example"}):
        assert one.ask("/login", {"link": secret}, **other)[0] == 403 and one.cookie is None, other
    status, heads, _ = one.ask("/login", {"link": secret})
    assert (status, heads["location"]) == (303, "/") and one.sees()
    other = Browser(port, authority)
    assert other.ask("/login", {"link": secret})[0] == 403 and not other.sees(), "a link was used twice"
    # What is no page is none for those who are in, either.
    assert one.ask("/keyring")[0] == 404 and one.ask("/stream", sec_fetch_site="cross-site")[0] == 403
    assert one.ask("/x", {"a": "b"})[0] == 405
    # A page that is open ends with its session.
    connection = http.client.HTTPSConnection("localhost", port, timeout=PATIENCE, context=one.context)
    connection.request("GET", "/stream", headers={"cookie": one.cookie})
    stream = connection.getresponse()
    assert stream.readline().startswith(b"data: ")
    former = one.cookie
    assert one.ask("/logout", {}, origin="https://evil.example")[0] == 403 and one.sees()
    assert one.ask("/logout", {})[0] == 303
    assert stream.read() is not None and one.ask("/", cookie=former)[0] == 303, "somebody who went out is in"
    print("page: links", flush=True)


def passwords(program, directory, port, authority, cluster):
    one = Browser(port, authority)
    assert one.ask("/login", {"password": ""})[0] == 403, "there is no password yet"
    first = nacre(program, "page", "password", "--dir", directory)
    assert first not in str(cluster.run("ceph", "config-key", "dump")), "the cluster keeps the password"
    assert one.ask("/login", {"password": first})[0] == 303 and one.sees()
    bad, statuses = Browser(port, authority), []
    for n in range(8):
        status, heads, _ = bad.ask("/login", {"password": f"wrong password {n}"})
        statuses.append(status)
    assert statuses[:3] == [403, 403, 403] and statuses.count(429) >= 4, statuses
    # Even the right one waits then; that is how long.
    begin = time.monotonic()
    while True:
        status, heads, _ = bad.ask("/login", {"password": first})
        if status == 303:
            break
        assert status == 429 and time.monotonic() - begin < PATIENCE, status
        time.sleep(min(float(heads["retry-after"]), 5))
    assert one.sees() and bad.sees()
    second = "a password of a person"
    nacre(program, "page", "password", "--dir", directory, "--stdin", given=second + "\n")
    assert bad.ask("/login", {"password": second})[0] == 303
    assert bad.sees() and not one.sees(), "who came in by the former password is in"
    assert one.ask("/login", {"password": first})[0] == 403
    long = one.ask("/login", {"password": "x" * 10_000})[0]
    assert long == 400, long
    nacre(program, "page", "password", "--dir", directory, "--remove")
    print(f"page: passwords; a guesser waited {time.monotonic() - begin:.0f} s", flush=True)


def strangers(program, directory, port, authority):
    """Places are free again whatever strangers do; somebody who is in sees the page meanwhile, within a while."""
    one = Browser(port, authority)
    assert one.ask("/login", {"link": secret_of(nacre(program, "page", "link", "--dir", directory))})[0] == 303
    held = [socket.create_connection(("127.0.0.1", port)) for _ in range(300)]
    for number, s in enumerate(held):
        try:
            s.sendall([b"", b"GET / HTTP/1.1\r\n", b"\x16\x03\x01\x02\x00\x01", b"\xff" * 4000][number % 4])
        except OSError:
            pass
    begin = time.monotonic()
    while True:
        try:
            if one.sees():
                break
        except (OSError, http.client.HTTPException):
            assert time.monotonic() - begin < PATIENCE, "strangers keep others out"
            time.sleep(0.5)
    for s in held:
        s.close()
    old = ssl.create_default_context(cadata=authority)
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    try:
        old.wrap_socket(socket.create_connection(("127.0.0.1", port)), server_hostname="localhost")
        raise AssertionError("an old TLS is spoken")
    except ssl.SSLError:
        pass
    print(f"page: seen after {time.monotonic() - begin:.1f} s beside 300 strangers", flush=True)
    return one


def given(program, directory, port, cluster, former):
    """The host's certificate stays; one of the operator's goes before it."""
    shown = ssl.get_server_certificate(("127.0.0.1", port))
    cluster.stop()
    cluster.start()
    former.context.check_hostname = True
    assert not former.sees(), "a session is left after a new start"
    assert ssl.get_server_certificate(("127.0.0.1", port)) == shown
    key, crt = (os.path.join(directory, name) for name in ("k.pem", "c.pem"))
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key, "-out", crt,
                    "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-days", "2"], check=True, capture_output=True)
    cluster.run("ceph", "config-key", "set", "mgr/dashboard/crt", "-i", crt)
    cluster.run("ceph", "config-key", "set", "mgr/dashboard/key", "-i", key)
    cluster.stop()
    cluster.start()
    theirs = Browser(port, open(crt).read())
    assert theirs.ask("/login")[0] == 200
    assert cluster.ceph("mgr", "services")["dashboard"] == f"https://127.0.0.1:{port}/"
    print("page: certificates", flush=True)


class Within:
    """What this thread does meanwhile, it does in a network namespace."""

    NEWNET = 0x40000000

    def __init__(self, space):
        self.space = space

    def go(self, namespace):
        if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), self.NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"go to the namespace {self.space}")

    def __enter__(self):
        self.home = open("/proc/thread-self/ns/net")
        with open(f"/run/netns/{self.space}") as there:
            self.go(there)

    def __exit__(self, *_):
        with self.home:
            self.go(self.home)


def two_hosts(program, directory):
    """Two hosts that have addresses of IPv6 alone: each shows the page, with one authority and one password; links and sessions are of one host."""
    spaces = ["nacre-page-a", "nacre-page-b"]
    addrs, homes = ["fd00:77::1", "fd00:77::2"], [os.path.join(directory, name) for name in ("a6", "b6")]
    processes = []

    def ip(*words, check=True):
        return subprocess.run(["ip", *words], capture_output=True, text=True, check=check)

    def within(at, *words):
        hosted = ["unshare", "--uts", "sh", "-c", 'hostname "$0"; exec "$@"', f"page-{at}"]
        return ["ip", "netns", "exec", spaces[at], *hosted, program, *words]

    def run(at, *words, given=None):
        done = subprocess.run(within(at, *words), input=given, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def begin(at, *words):
        process = subprocess.Popen(within(at, *words), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        processes.append(process)
        line = process.stdout.readline()
        assert line.startswith("ready"), line
        return process

    def clear():
        for space in spaces:
            ip("netns", "del", space, check=False)

    clear()
    if ip("netns", "add", spaces[0], check=False).returncode != 0:
        print("page: a second host and IPv6: skipped, no network namespace can be made here", flush=True)
        return
    try:
        ip("netns", "add", spaces[1])
        ip("-n", spaces[0], "link", "add", "p0", "type", "veth", "peer", "name", "p1", "netns", spaces[1])
        for at, space in enumerate(spaces):
            ip("-n", space, "addr", "add", f"{addrs[at]}/64", "dev", f"p{at}", "nodad")
            ip("-n", space, "link", "set", f"p{at}", "up")
            ip("-n", space, "link", "set", "lo", "up")
        first = begin(0, "up", "--dir", homes[0], "--bind", addrs[0], "--osds", "1", "--osd-size", "2G")
        begin(1, "join", run(0, "token", "--dir", homes[0]), "--dir", homes[1], "--bind", addrs[1], "--osds", "1", "--osd-size", "2G")
        port = 8443
        link = run(1, "page", "link", "--dir", homes[1])
        assert f"https://[{addrs[1]}]:{port}/login?link=" in link, link
        authority = run(0, "page", "authority", "--dir", homes[0])
        assert authority == run(1, "page", "authority", "--dir", homes[1]), "each host has an authority of its own"
        password = run(0, "page", "password", "--dir", homes[0])
        # From the other host, by the address.
        with Within(spaces[0]):
            there, here = Browser(port, authority, addrs[1]), Browser(port, authority, addrs[0])
            assert here.ask("/login", {"link": secret_of(link)})[0] == 403 and not here.sees(), "a link is good at another host"
            for other in ({"origin": f"https://[{addrs[0]}]:{port}"}, {"origin": f"https://{addrs[1]}:{port}"}, {"origin": "https://[::1]:8443"}):
                assert there.ask("/login", {"link": secret_of(link)}, **other)[0] == 403, other
            assert there.ask("/login", {"link": secret_of(link)})[0] == 303 and there.sees()
            assert here.ask("/", cookie=there.cookie)[0] == 303, "a session is good at another host"
            assert here.ask("/login", {"password": password})[0] == 303 and here.sees()
            page = there.ask("/")[2]
            assert "page-0" in page and "page-1" in page and "osd.1" in page, page
            # All addresses of a /64 are one guesser.
            statuses = [there.ask("/login", {"password": f"wrong {n}"})[0] for n in range(8)]
            assert 429 in statuses, statuses
        first.kill()
        first.wait()
        begun = time.monotonic()
        with Within(spaces[1]):
            while "do not agree" not in there.ask("/")[2]:
                assert time.monotonic() - begun < PATIENCE, "nobody says that no majority is left"
                time.sleep(0.5)
        print(f"page: a second host, at addresses of IPv6; alone, it says so after {time.monotonic() - begun:.0f} s", flush=True)
    finally:
        for process in processes:
            process.kill()
            process.wait()
        clear()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nacre", required=True)
    parser.add_argument("--dir")
    args = parser.parse_args()
    directory, program = tempfile.mkdtemp(prefix="nacre-page-", dir=args.dir), os.path.abspath(args.nacre)
    port, home = free_port(), os.path.join(directory, "c")
    cluster = Cluster(program, home, "--metrics-port", free_port(), "--page-port", port, "--osds", 1, auth="cephx")
    try:
        cluster.start()
        assert "nacre/page" not in str(cluster.run("ceph", "config-key", "ls")), "nobody asked for an authority"
        try:
            ssl.get_server_certificate(("127.0.0.1", port))
            raise AssertionError("a certificate that nobody made")
        except (ssl.SSLError, OSError):
            pass
        nacre(program, "page", "link", "--dir", home)
        authority = nacre(program, "page", "authority", "--dir", home)
        links(program, home, port, authority)
        passwords(program, home, port, authority, cluster)
        former = strangers(program, home, port, authority)
        given(program, home, port, cluster, former)
        cluster.stop()
        two_hosts(program, directory)
        print("page: passed", flush=True)
    finally:
        cluster.kill()
        shutil.rmtree(directory, ignore_errors=True)


main()
