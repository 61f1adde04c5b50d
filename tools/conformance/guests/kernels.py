"""Kernels of Debian's releases for guests: downloaded as packages, unpacked, never installed."""
import glob
import io
import lzma
import os
import re
import subprocess
import tarfile

# What guests load, with all that these depend on. The ciphers are what cephx and the secure mode need.
WANTED = [
    "virtio_pci", "virtio_net", "virtio_blk", "aes_generic", "cbc", "ctr", "gcm", "ghash-generic", "hmac", "sha256_generic",
    "crc32c_generic", "ext4", "xfs", "rbd",
]


class Unavailable(Exception):
    """A kernel cannot be had on this machine. Says why."""


def mirror():
    """The address of the Debian mirror that this machine uses."""
    for path in ["/etc/apt/sources.list", *sorted(glob.glob("/etc/apt/sources.list.d/*"))]:
        if os.path.exists(path):
            with open(path) as f:
                found = re.search(r"^(?:URIs:|deb\b).*?(https?://\S+)", f.read(), re.M)
            if found:
                return found.group(1)
    raise Unavailable("no Debian mirror in /etc/apt")


class Kernel:
    """The kernel of a Debian release: its image, and its modules in the order in which they can be loaded."""

    def __init__(self, suite, cache):
        self.suite = suite
        self.folder = os.path.join(cache, suite)
        package = os.path.join(self.folder, "package.deb")
        if not os.path.exists(package):
            self.download(package)
        self.image, self.version, self.modules = self.unpack(package)

    def apt(self, command, *words):
        """apt with lists of its own, so that the machine's stay as they are."""
        for folder in ("lists/partial", "cache/archives/partial"):
            os.makedirs(os.path.join(self.folder, folder), exist_ok=True)
        sources = os.path.join(self.folder, "sources.list")
        with open(sources, "w") as f:
            f.write(f"deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] {mirror()} {self.suite} main\n")
        options = {
            "Dir::Etc::sourcelist": sources, "Dir::Etc::sourceparts": "/nonexistent",
            "Dir::State::lists": os.path.join(self.folder, "lists"), "Dir::Cache": os.path.join(self.folder, "cache"),
            "APT::Sandbox::User": "",
        }
        argv = [command, "-qq", *(f"-o{name}={value}" for name, value in options.items()), *words]
        done = subprocess.run(argv, cwd=self.folder, capture_output=True, text=True, timeout=300)
        if done.returncode != 0:
            raise Unavailable(f"{' '.join(argv[:1] + list(words))}: {done.stderr.strip()[-300:]}")
        return done.stdout

    def download(self, package):
        self.apt("apt-get", "update")
        depends = self.apt("apt-cache", "depends", "linux-image-amd64")
        found = re.search(r"Depends: (linux-image-\S+)", depends)
        if not found:
            raise Unavailable(f"{self.suite} has no linux-image-amd64")
        self.apt("apt-get", "download", found.group(1))
        [deb] = glob.glob(os.path.join(self.folder, "linux-image-*.deb"))
        os.rename(deb, package)

    def unpack(self, package):
        data = subprocess.run(["dpkg-deb", "--fsys-tarfile", package], capture_output=True, check=True).stdout
        files = {}
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            for member in archive:
                name = os.path.basename(member.name)
                if member.isfile() and (name.startswith("vmlinuz-") or re.search(r"\.ko(\.xz)?$", name)):
                    files[name] = archive.extractfile(member).read()
        [image] = [name for name in files if name.startswith("vmlinuz-")]
        path = os.path.join(self.folder, "vmlinuz")
        with open(path, "wb") as f:
            f.write(files.pop(image))
        return path, image.removeprefix("vmlinuz-"), in_order(files)


def in_order(files):
    """The wanted modules and what they depend on, each behind its dependencies: a list of name and bytes."""
    by_name = {re.sub(r"\.ko(\.xz)?$", "", name).replace("-", "_"): name for name in files}
    done = {}

    def take(name):
        # What is not there as a module is part of the image.
        if name in done or name not in by_name:
            return
        data = files[by_name[name]]
        data = lzma.decompress(data) if by_name[name].endswith(".xz") else data
        depends = re.search(rb"\0depends=([^\0]*)\0", data)
        for other in depends.group(1).decode().split(",") if depends else []:
            take(other.replace("-", "_"))
        done[name] = data

    for name in WANTED:
        take(name.replace("-", "_"))
    return list(done.items())
