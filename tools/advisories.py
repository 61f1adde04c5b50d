#!/usr/bin/python3
"""Compares Cargo.lock with a copy of RustSec's list of advisories, without a network.

    git clone https://github.com/rustsec/advisory-db FOLDER    # on a machine that has one
    tools/advisories.py FOLDER

Prints each advisory that concerns a version in Cargo.lock (holes, unsound code, crates that nobody maintains), and ends with 1 if there
is one. Yanked versions are not looked at: the list does not have them. FOLDER is a work tree, or a git directory without one.
"""
import pathlib
import re
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^```toml\n(.*?)^```", re.S | re.M)


def numbers(text):
    """A version as something that can be compared. A pre-release comes before its release."""
    plain, _, early = text.strip().split("+")[0].partition("-")
    parts = [int(part) for part in plain.split(".")]
    return tuple(parts + [0] * (3 - len(parts))), early == "", early


def caret(least):
    """The first version that is not compatible with `least`."""
    major, minor, patch = least
    return (major + 1, 0, 0) if major else (0, minor + 1, 0) if minor else (0, 0, patch + 1)


def fits(version, requirement):
    """Whether a version meets all parts of a requirement such as `>= 1.2, < 2` or `^0.3.1`."""
    have = numbers(version)
    for part in requirement.split(","):
        sign, text = re.fullmatch(r"\s*(>=|<=|>|<|=|\^|~)?\s*(\S+)\s*", part).groups()
        want = numbers(text)
        if sign == "~":
            raise SystemExit(f"the requirement {requirement!r} is not understood")
        met = {
            ">=": have >= want,
            "<=": have <= want,
            ">": have > want,
            "<": have < want,
            "=": have == want,
            "^": have >= want and have[0] < caret(want[0]),
        }[sign or "^"]
        if not met:
            return False
    return True


def advisories(folder):
    """Each advisory of the list: its name, and its text."""
    if list(folder.glob("crates/*/RUSTSEC-*.md")):
        for path in sorted(folder.glob("crates/*/RUSTSEC-*.md")):
            yield path.stem, path.read_text()
        return
    git = ["git", "--git-dir", str(folder)]
    names = subprocess.run([*git, "ls-tree", "-r", "--name-only", "HEAD", "crates/"], check=True, capture_output=True, text=True).stdout
    for name in names.split():
        if re.search(r"/RUSTSEC-[^/]*\.md$", name):
            yield pathlib.Path(name).stem, subprocess.run([*git, "show", f"HEAD:{name}"], check=True, capture_output=True, text=True).stdout


def concerns(version, rules):
    """Whether an advisory's rules leave this version in."""
    return not any(fits(version, requirement) for kind in ("patched", "unaffected") for requirement in rules.get(kind, []))


def check_matcher():
    assert fits("1.2.3", ">= 1.2, < 2") and not fits("2.0.0", ">= 1.2, < 2") and not fits("1.1.9", ">= 1.2, < 2")
    assert fits("0.3.5", "^0.3.1") and not fits("0.4.0", "^0.3.1") and not fits("0.3.0", "^ 0.3.1") and fits("1.9.0", "1.2")
    assert numbers("1.0.0-alpha.1") < numbers("1.0.0") and fits("1.8.1", ">= 1.0.0-alpha.1") and not fits("1.0.0-rc.1", ">= 1.0.0")
    assert concerns("1.0.0", {"patched": []}) and not concerns("0.17.14", {"patched": [], "unaffected": [">= 0.17"]})


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    check_matcher()
    packages = {}
    for package in tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]:
        packages.setdefault(package["name"], []).append(package["version"])
    seen, found = 0, 0
    for name, text in advisories(pathlib.Path(sys.argv[1])):
        seen += 1
        said = tomllib.loads(BLOCK.search(text)[1])
        advisory, rules = said["advisory"], said.get("versions", {})
        if "withdrawn" in advisory:
            continue
        for version in filter(lambda version: concerns(version, rules), packages.get(advisory["package"], [])):
            found += 1
            title = re.search(r"^# (.*)", text, re.M)
            print(f"{advisory['package']} {version}: {name} ({advisory.get('informational', 'vulnerability')}): {title and title[1]}")
    if seen < 100:
        sys.exit(f"{sys.argv[1]} holds {seen} advisories: that is not the list")
    print(f"{seen} advisories, {sum(map(len, packages.values()))} packages, {found} concerned")
    sys.exit(found > 0)


main()
