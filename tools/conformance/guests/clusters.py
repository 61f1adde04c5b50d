"""The cluster that guests talk to, in a network of the test's own."""
import json
import os
import subprocess
import sys

from live import Cluster

# Guests reach it through QEMU's user network; nothing outside the test's own network does.
ADDRESS = "10.77.0.1"
MARK = "NACRE_GUESTS_NETWORK"


def enter_own_network():
    """Starts this program again in a network namespace that has nothing but a loopback with `ADDRESS`. As root, or where users may make
    namespaces; the namespace ends with the program."""
    if os.environ.get(MARK):
        return
    unshare = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--net", "--map-root-user"]
    if subprocess.run([*unshare, "true"], capture_output=True).returncode != 0:
        print("guests: skipped: no network namespace can be made here (root, or user namespaces, are needed)")
        sys.exit(0)
    script = f'ip link set lo up && ip addr add {ADDRESS}/24 dev lo && exec "$@"'
    os.execvpe("unshare", [*unshare, "sh", "-c", script, "sh", sys.executable, *sys.argv], dict(os.environ, **{MARK: "1"}))


class GuestCluster(Cluster):
    """A cluster with pools for images, that guests reach at `ADDRESS`."""

    def __init__(self, nacre, folder, auth):
        super().__init__(nacre, folder, "--bind", ADDRESS, auth=auth)
        self.monitor = f"{ADDRESS}:{self.port}"

    def prepare(self):
        for pool in ("rbd", "data"):
            self.run("ceph", "osd", "pool", "create", pool, "8")
            self.run("rbd", "pool", "init", pool)

    def key(self, name):
        """The key of a client; none without authentication."""
        return self.run("ceph", "auth", "get-key", f"client.{name}").stdout.strip() if self.auth == "cephx" else None

    def client_files(self):
        """ceph.conf and keyring as a client on another host has them: path and text."""
        with open(self.conf) as f:
            conf = f.read().replace(self.dir, "/etc/ceph")
        files = {"/etc/ceph/ceph.conf": conf}
        if self.auth == "cephx":
            with open(os.path.join(self.dir, "keyring")) as f:
                files["/etc/ceph/keyring"] = f.read()
        return files

    def image(self, name, size="64M", features=None, *more):
        """Creates an image in pool `rbd`; gives its name."""
        chosen = ["--image-feature", features] if features else []
        self.run("rbd", "create", f"rbd/{name}", "--size", size, *chosen, *more)
        return name

    def ceph_rbd(self, *words):
        """`rbd ... --format json`, parsed."""
        return json.loads(self.run("rbd", *words, "--format", "json").stdout)

    def digest(self, image):
        """What an image holds, as a client of librbd reads it."""
        argv = ["rbd", "export", "--no-progress", f"rbd/{image}", "-"]
        export = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=dict(self.env, CEPH_CONF=self.conf))
        digest = subprocess.run(["sha256sum"], stdin=export.stdout, capture_output=True, text=True, check=True).stdout.split()[0]
        assert export.wait() == 0, f"rbd export {image} failed"
        return digest
