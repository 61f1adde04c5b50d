#!/usr/bin/python3
"""Makes a Debian package of the release binary.

    dist/deb/build.py --nacre target/release/nacre --out target/deb

The package needs `dpkg-deb` and binutils, and no other tool. Its files are listed in FILES; man pages and completions are made
by the binary itself. Times are those of the commit, so the same commit and binary give the same package.
"""

import argparse
import gzip
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent

# Where each file of the sources goes, and its mode.
FILES = [
    (HERE / "nacre.service", "lib/systemd/system/nacre.service", 0o644),
    (HERE / "nacre.default", "etc/default/nacre", 0o644),
    (HERE / "nacre.logrotate", "etc/logrotate.d/nacre", 0o644),
    (ROOT / "README.md", "usr/share/doc/nacre/README.md", 0o644),
    (ROOT / "docs/operations.md", "usr/share/doc/nacre/operations.md", 0o644),
    *((page, f"usr/share/doc/nacre/operations/{page.name}", 0o644) for page in sorted((ROOT / "docs/operations").glob("*.md"))),
]
CONFFILES = ["/etc/default/nacre", "/etc/logrotate.d/nacre"]
# Folders that are there although they are empty.
FOLDERS = ["var/lib/nacre", "var/log/nacre"]
COMPLETIONS = {
    "nacre.bash": "usr/share/bash-completion/completions/nacre",
    "_nacre": "usr/share/zsh/vendor-completions/_nacre",
    "nacre.fish": "usr/share/fish/vendor_completions.d/nacre.fish",
}
DESCRIPTION = """\
Description: storage cluster in one binary that speaks Ceph's protocol
 Monitors and OSDs for Ceph's own clients: ceph, rados, rbd, librados,
 librbd, QEMU and the Linux kernel's rbd driver work against it unmodified.
 .
 `nacre up` makes a cluster, `nacre join` adds a host; nacre.service runs what
 a host has. The package starts nothing by itself, and no removal of the
 package deletes data.
"""


def run(*command, cwd=ROOT):
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=cwd).stdout.strip()


def version():
    """That of a release at its tag; else one that is older than the release to come, and newer than earlier commits."""
    release = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    tags = run("git", "tag", "--points-at", "HEAD").split()
    if f"v{release}" in tags:
        return release
    when = run("git", "log", "-1", "--format=%cd", "--date=format-local:%Y%m%d%H%M%S")
    return f"{release}~git{when}.{run('git', 'rev-parse', '--short=10', 'HEAD')}"


def newest_glibc(binary):
    """The newest version of the C library of which the binary uses a symbol."""
    symbols = run("objdump", "-T", str(binary))
    found = {tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_([0-9.]+)", symbols)}
    return ".".join(map(str, max(found)))


def put(source, tree, name, mode):
    path = tree / name
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, path)
    path.chmod(mode)
    return path


def compress(text, path, mtime):
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as file, gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=mtime) as packed:
        packed.write(text)
    path.chmod(0o644)


def fill(tree, work, binary, mtime):
    """The files of the package."""
    put(binary, tree, "usr/bin/nacre", 0o755)
    # Names of functions stay: a panic's way is worth more than the megabytes.
    run("strip", "--strip-debug", str(tree / "usr/bin/nacre"))
    for source, name, mode in FILES:
        put(source, tree, name, mode)
    for name in FOLDERS:
        (tree / name).mkdir(parents=True, exist_ok=True)
    for what in ("man", "completions"):
        run(str(binary), "generate", what, str(work / what))
    for page in sorted((work / "man").iterdir()):
        compress(page.read_bytes(), tree / "usr/share/man/man1" / f"{page.name}.gz", mtime)
    for name, place in COMPLETIONS.items():
        put(work / "completions" / name, tree, place, 0o644)
    compress((ROOT / "CHANGELOG.md").read_bytes(), tree / "usr/share/doc/nacre/changelog.gz", mtime)
    copyright_text = (
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n"
        "Upstream-Name: nacre\n\nFiles: *\nCopyright: the authors of Nacre\nLicense: Apache-2.0\n"
        " The text of the licence is in /usr/share/common-licenses/Apache-2.0.\n"
    )
    path = tree / "usr/share/doc/nacre/copyright"
    path.write_text(copyright_text)
    path.chmod(0o644)


def control(tree, binary, architecture):
    """What dpkg reads."""
    files = sorted(p for p in tree.rglob("*") if p.is_file())
    kib = sum((p.stat().st_size + 1023) // 1024 for p in files)
    sums = "".join(f"{hashlib.md5(p.read_bytes()).hexdigest()}  {p.relative_to(tree)}\n" for p in files)
    folder = tree / "DEBIAN"
    folder.mkdir()
    (folder / "control").write_text(
        f"Package: nacre\nVersion: {version()}\nArchitecture: {architecture}\nSection: admin\nPriority: optional\n"
        "Maintainer: the authors of Nacre <nacre@localhost>\n"
        f"Installed-Size: {kib}\nDepends: libc6 (>= {newest_glibc(binary)}), libgcc-s1\n"
        f"Recommends: logrotate\nSuggests: ceph-common\n{DESCRIPTION}"
    )
    (folder / "md5sums").write_text(sums)
    (folder / "conffiles").write_text("".join(f"{name}\n" for name in CONFFILES))
    for name in ("postinst", "prerm", "postrm"):
        put(HERE / name, tree, f"DEBIAN/{name}", 0o755)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nacre", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    args = parser.parse_args()
    for tool in ("dpkg-deb", "objdump", "strip", "git"):
        if not shutil.which(tool):
            sys.exit(f"{tool} is missing: apt-get install dpkg binutils git")
    if not args.nacre.is_file():
        sys.exit(f"{args.nacre} is not there: make build")
    work = args.out.absolute() / "work"
    shutil.rmtree(work, ignore_errors=True)
    tree = work / "tree"
    tree.mkdir(parents=True)
    mtime = int(run("git", "log", "-1", "--format=%ct"))
    binary = args.nacre.absolute()
    fill(tree, work, binary, mtime)
    architecture = run("dpkg", "--print-architecture")
    control(tree, binary, architecture)
    for path in [tree, *tree.rglob("*")]:
        if path.is_dir():
            path.chmod(0o755)
    package = args.out / f"nacre_{version()}_{architecture}.deb"
    environment = dict(os.environ, SOURCE_DATE_EPOCH=str(mtime))
    command = ["dpkg-deb", "--root-owner-group", "-Zxz", "-z3", "--build", str(tree), str(package)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    shutil.rmtree(work)
    print(package)


if __name__ == "__main__":
    main()
