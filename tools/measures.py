#!/usr/bin/python3
"""Measures a tree of Rust code: sizes, comments, words that hide faults, structs spread over files, how many files a change touches.

    tools/measures.py                       # this house
    tools/measures.py ../quinn ../redb      # others beside it
    tools/measures.py --circles pg osd      # which files of a crate call each other through one `self`

Product code only: folders named tests, benches, examples, fuzz, and inline modules under #[cfg(test)] are left out. It reads the text with a small lexer,
and does not expand macros: what a macro writes is not seen. Of this house it reads values, cores, edge and bin.
"""
import argparse
import collections
import re
import subprocess
from pathlib import Path

HOUSE = ("values", "cores", "edge", "bin")
NOT_PRODUCT = {"tests", "benches", "examples", "fuzz", "target", "testdata", "tools", "perf", "bench"}
QUESTION = re.compile(r"^(whether|what|who|whom|whose|which|when|where|why|how)\b", re.I)
INTEGERS = "u8|u16|u32|u64|u128|usize|i8|i16|i32|i64|i128|isize"
LEX = re.compile(
    r"""(?P<line>//[^\n]*)|(?P<block>/\*.*?\*/)|(?P<raw>\bb?r(?P<hash>\#*)".*?"(?P=hash))|(?P<str>b?"(?:\\.|[^"\\])*")|(?P<char>b?'(?:\\[^\n]{1,9}?|[^\\'\n])')""",
    re.S | re.X,
)


def blank(text):
    """Returns `text` with all but its line breaks made spaces, so that places and lines stay."""
    return re.sub(r"[^\n]", " ", text)


def lexed(text):
    """Returns the code without comments and strings, and the comments alone, both with the lines of `text`."""
    code, comments, at = [], [], 0
    for found in LEX.finditer(text):
        between = text[at:found.start()]
        code.append(between)
        comments.append(blank(between))
        is_comment = found.lastgroup in ("line", "block") or found.group("line") or found.group("block")
        code.append(blank(found.group()))
        comments.append(found.group() if is_comment else blank(found.group()))
        at = found.end()
    code.append(text[at:])
    comments.append(blank(text[at:]))
    return "".join(code), "".join(comments)


def closing(code, at):
    """Returns the place behind the bracket that closes the `{` at `at`."""
    depth = 0
    for place in re.finditer(r"[{}]", code[at:]):
        depth += 1 if place.group() == "{" else -1
        if depth == 0:
            return at + place.end()
    return len(code)


def body_of(code, at):
    """Returns the range of the next block behind `at`, or None where a `;` comes first."""
    found = re.compile(r"[{;]").search(code, at)
    while found and found.group() == ";" and code.count("[", at, found.start()) > code.count("]", at, found.start()):
        found = re.compile(r"[{;]").search(code, found.end())  # the `;` of an array's type
    if not found or found.group() == ";":
        return None
    return found.start(), closing(code, found.start())


class File:
    """One source file: its text without inline tests, its functions, its impls."""

    def __init__(self, path):
        self.path = path
        text = path.read_text(errors="replace")
        code, _ = lexed(text)
        self.test_lines = 0
        for found in reversed(list(re.finditer(r"#\[cfg\(test\)\]\s*(?:pub(?:\([a-z]+\))?\s+)?mod\s+\w+", code))):
            block = body_of(code, found.end())
            if block:
                self.test_lines += text.count("\n", found.start(), block[1])
                text = text[:found.start()] + text[block[1]:]
                code = code[:found.start()] + code[block[1]:]
        self.text = text
        self.code, self.comments = lexed(text)
        self.lines = [line for line in text.split("\n") if line.strip()]

    def functions(self):
        """Yields the name, the lines and the place of each function with a body."""
        for found in re.finditer(r"\bfn\s+(\w+)", self.code):
            block = body_of(self.code, found.end())
            if block:
                yield found.group(1), self.code.count("\n", found.start(), block[1]) + 1, block

    def impls(self):
        """Yields the type's name and the block of each inherent `impl`."""
        for found in re.finditer(r"^impl\b(?P<head>[^{;]*)\{", self.code, re.M):
            head = re.sub(r"<[^<>]*(?:<[^<>]*>[^<>]*)*>", "", found.group("head"))
            if re.search(r"\bfor\b", head):
                continue
            name = re.match(r"\s*(?:\w+::)*(\w+)", head)
            if name:
                yield name.group(1), (found.end() - 1, closing(self.code, found.end() - 1))


def files_of(root):
    """Returns the product files of a tree."""
    tops = [root / top for top in HOUSE] if all((root / top).is_dir() for top in HOUSE) else [root]
    found = []
    for top in tops:
        for path in sorted(top.rglob("*.rs")):
            inside = path.relative_to(root).parts
            if not NOT_PRODUCT & set(inside[:-1]) and inside[-1] not in ("tests.rs", "build.rs"):
                found.append(File(path))
    return found


def crate_of(path):
    """Returns the folder with the Cargo.toml that a file belongs to."""
    for folder in path.parents:
        if (folder / "Cargo.toml").is_file():
            return folder
    return path.parent


def circles(names, calls):
    """Returns the size of the largest set of files that reach each other (Tarjan's components, by walks: there are few files)."""
    def reach(start):
        seen, open_ = set(), [start]
        while open_:
            for other in calls[open_.pop()]:
                if other not in seen:
                    seen.add(other)
                    open_.append(other)
        return seen
    reached = {name: reach(name) for name in names}
    return max((1 + sum(1 for other in names if other != name and other in reached[name] and name in reached[other]) for name in names), default=0)


class Struct:
    """A type with methods in several files of one crate."""

    def __init__(self):
        self.methods = {}  # name to file
        self.blocks = []  # (file, code)

    def measure(self):
        """Returns its files, methods, lines, calls on `self` that leave a file, and the size of the largest circle of its files."""
        files = sorted({path for path, _ in self.blocks})
        calls, across = collections.defaultdict(set), 0
        for path, code in self.blocks:
            for name in re.findall(r"\bself\s*\.\s*(\w+)\s*\(", code):
                home = self.methods.get(name)
                if home and home != path:
                    across += 1
                    calls[path].add(home)
        lines = sum(sum(1 for line in code.split("\n") if line.strip()) for _, code in self.blocks)
        return len(files), len(self.methods), lines, across, circles(files, calls)


def structs_of(files):
    """Returns the types by crate and name."""
    found = collections.defaultdict(Struct)
    for file in files:
        for name, (start, end) in file.impls():
            struct = found[crate_of(file.path), name]
            code = file.code[start:end]
            struct.blocks.append((file.path, code))
            for method in re.findall(r"\bfn\s+(\w+)", code):
                struct.methods[method] = file.path
    return found


def fields_of(files, crate, name):
    """Returns how many fields a struct has, 0 where it is not found."""
    for file in files:
        if crate_of(file.path) == crate:
            found = re.search(rf"\bstruct\s+{name}\b[^;{{(]*\{{", file.code)
            if found:
                block = file.code[found.end():closing(file.code, found.end() - 1)]
                return len(re.findall(r"^\s*(?:pub(?:\([^)]*\))?\s+)?\w+\s*:(?!:)", block, re.M))
    return 0


def twice(files):
    """Returns the share of lines that stand in two places, by windows of eight lines."""
    seen, marked, total = {}, set(), 0
    for number, file in enumerate(files):
        lines = [line.strip() for line in file.code.split("\n") if re.search(r"\w", line) and not re.match(r"\s*(pub\s+)?use\b", line)]
        total += len(lines)
        for at in range(len(lines) - 7):
            window = "\n".join(lines[at:at + 8])
            if window in seen:
                for offset in range(8):
                    marked.add((number, at + offset))
                    marked.add((seen[window][0], seen[window][1] + offset))
            else:
                seen[window] = (number, at)
    return 100 * len(marked) / max(total, 1)


def locality(root, commits=400):
    """Returns the shares of commits that touch one source file, and at most three, and the busiest file with its share."""
    try:
        log = subprocess.run(["git", "-C", str(root), "log", "--no-merges", f"-{commits}", "--name-only", "--format=%x00"],
                             capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    sets = []
    for commit in log.split("\0")[1:]:
        sources = [line for line in commit.split("\n") if line.endswith(".rs") and not NOT_PRODUCT & set(line.split("/")[:-1])]
        if sources:
            sets.append(sources)
    if not sets:
        return None
    busiest, count = collections.Counter(name for sources in sets for name in sources).most_common(1)[0]
    share = lambda most: 100 * sum(1 for sources in sets if len(sources) <= most) / len(sets)  # noqa: E731
    return share(1), share(3), busiest, 100 * count / len(sets)


def tests_beside(root, files):
    """Returns lines of tests: inline modules, and files in folders of tests."""
    lines = sum(file.test_lines for file in files)
    for path in root.rglob("*.rs"):
        inside = set(path.relative_to(root).parts)
        if inside & {"tests", "tests.rs"} and "target" not in inside:
            lines += sum(1 for line in path.read_text(errors="replace").split("\n") if line.strip())
    return lines


def at(values, share):
    """Returns the value below which `share` of the sorted values lie."""
    return values[min(len(values) - 1, int(len(values) * share))] if values else 0


def measures(root):
    """Returns the rows of one tree, as names and texts."""
    files = files_of(root)
    lines = sum(len(file.lines) for file in files)
    functions = sorted(length for file in files for _, length, _ in file.functions())
    sizes = sorted(len(file.lines) for file in files)
    comment_lines = sum(1 for file in files for line in file.comments.split("\n") if line.strip())
    module_text = sum(1 for file in files if file.text.lstrip().startswith("//!"))
    firsts = []
    for file in files:
        before = False
        for line in file.comments.split("\n"):
            found = re.match(r"\s*///\s*(\S.*)?$", line)
            if found and not before and found.group(1):
                firsts.append(found.group(1))
            before = bool(found)
    asked = sum(1 for first in firsts if QUESTION.match(first))
    code = "\n".join(file.code for file in files)
    words = lambda pattern: len(re.findall(pattern, code))  # noqa: E731
    thousand = max(lines, 1) / 1000
    long = sum(1 for length in functions if length > 70)
    rows = {
        "product lines (files)": f"{lines:,} ({len(files)})",
        "function, lines: median / p90 / p99 / max": f"{at(functions, .5)} / {at(functions, .9)} / {at(functions, .99)} / {at(functions, 1)}",
        "functions above 70 lines": f"{long} of {len(functions):,} ({100 * long / max(len(functions), 1):.2f} %)",
        "file, lines: median / p90 / max": f"{at(sizes, .5)} / {at(sizes, .9)} / {at(sizes, 1)}",
        "comment lines; files with module text": f"{100 * comment_lines / max(lines, 1):.0f} %; {100 * module_text / max(len(files), 1):.0f} %",
        "doc comments that begin with a question word": f"{asked:,} of {len(firsts):,} ({100 * asked / max(len(firsts), 1):.0f} %)",
        "lines that stand twice (windows of 8)": f"{twice(files):.1f} %",
        "`unwrap` / `expect`, `panic!`, `unreachable!` per 1,000 lines":
            f"{words(r'[.]unwrap[(][)]') / thousand:.1f} / {words(r'[.]expect[(]|panic!|unreachable!') / thousand:.1f}",
        "assertions per 1,000 lines": f"{words(r'assert(?:_eq|_ne)?!') / thousand:.1f}",
        "`unsafe` words": f"{words(r'[^_a-z]unsafe[^_a-z]')}",
        "integer `as` per 1,000 lines": f"{words(rf' as (?:{INTEGERS})' + chr(92) + 'b') / thousand:.1f}",
        "lines of tests in Rust per product line": f"{tests_beside(root, files) / max(lines, 1):.2f}",
    }
    lock = root / "Cargo.lock"
    if lock.is_file():
        rows["packages in the lock file"] = str(lock.read_text().count("[[package]]"))
    near = locality(root)
    if near:
        rows["commits of sources that touch one file / at most three (last 400)"] = f"{near[0]:.0f} / {near[1]:.0f} %"
        rows["busiest source file"] = f"{near[3]:.0f} % (`{near[2]}`)"
    found = [(struct.measure(), crate, name) for (crate, name), struct in structs_of(files).items()]
    for rank, ((count, methods, size, across, circle), crate, name) in enumerate(sorted(found, key=lambda row: -row[0][2])[:5], 1):
        rows[f"struct with most code, {rank}"] = (f"`{crate.name}::{name}`: {fields_of(files, crate, name)} fields, {methods} methods, {size:,} lines in {count} files, "
                                                   f"{across} calls leave their file, {circle} files in a circle")
    return rows


def print_circles(root, crates):
    """Prints for each struct of the crates that has two files or more what it calls across them."""
    print("| struct | files | methods | lines | calls that leave a file | files in one circle |\n|---|---|---|---|---|---|")
    found = structs_of(files_of(root))
    for (crate, name), struct in sorted(found.items(), key=lambda row: -row[1].measure()[3]):
        count, methods, size, across, circle = struct.measure()
        if crate.name in crates and count > 1:
            print(f"| `{crate.name}::{name}` | {count} | {methods} | {size:,} | {across} | {circle} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("trees", nargs="*", help="folders of other trees, beside this one")
    parser.add_argument("--circles", nargs="+", metavar="CRATE", help="only the structs of these crates")
    options = parser.parse_args()
    here = Path(__file__).resolve().parent.parent
    if options.circles:
        print_circles(here, options.circles)
        return
    columns = [(root.name if root != here else "here", measures(root)) for root in [here] + [Path(tree).resolve() for tree in options.trees]]
    names = list(dict.fromkeys(name for _, rows in columns for name in rows))
    print("| measure | " + " | ".join(name for name, _ in columns) + " |\n|" + "---|" * (len(columns) + 1))
    for name in names:
        print(f"| {name} | " + " | ".join(rows.get(name, "–") for _, rows in columns) + " |")


if __name__ == "__main__":
    main()
