#!/usr/bin/python3
"""Reads what `perf script -F comm,ip,sym` prints, writes a flame graph as SVG: each box is a function, as wide as the share of the
samples in which it was on the stack, above its callers. Hover over a box for its name and share."""

import argparse
import html
import re
import sys
import zlib

WIDTH, ROW, MARGIN, LETTER = 1200, 17, 30, 6.6


class Frame:
    def __init__(self):
        self.samples = 0
        self.callees = {}


def tidy(name):
    """A function's name without hashes, offsets and type arguments: they are noise in a picture."""
    name = re.sub(r"\+0x[0-9a-f]+$", "", name)
    name = re.sub(r"::h[0-9a-f]{16}$", "", name)
    before = None
    while before != name:
        before, name = name, re.sub(r"::<[^<>]*>|(?<=\w)<[^<>]*>", "", name)
    return name


# What is outside of it is the same for all, and not always found.
OUTERMOST = "runtime::reactor::drive"


def whole(thread, frames):
    """A stack from the thread on inwards."""
    frames = frames[::-1]
    if OUTERMOST in frames:
        frames = frames[frames.index(OUTERMOST):]
    return [thread, *frames]


def stacks(lines):
    """Each sample's thread and functions, outermost first."""
    thread, frames = None, []
    for line in lines:
        if not line.strip():
            if thread is not None:
                yield whole(thread, frames)
            thread, frames = None, []
        elif not line[0].isspace():
            thread = line.strip()
        elif thread is None:
            thread = line.strip()
        else:
            parts = line.split(maxsplit=1)
            frames.append(tidy(parts[1].strip()) if len(parts) > 1 else "[unknown]")
    if thread is not None:
        yield whole(thread, frames)


def collect(lines):
    root = Frame()
    for stack in stacks(lines):
        root.samples += 1
        frame = root
        for name in stack:
            frame = frame.callees.setdefault(name, Frame())
            frame.samples += 1
    return root


def depth(frame, least):
    below = [depth(f, least) for f in frame.callees.values() if f.samples >= least]
    return 1 + max(below, default=0)


def colour(name):
    """The kernel's part blue, memory's and copies' yellow, ours in shades of red that a name keeps."""
    shade = zlib.crc32(name.encode()) % 40
    if re.search(r"^(_*x64_sys|do_|__|sys_|tcp_|ip_|io_|ext4|blk_|entry_|asm_|nf_|sock|skb|virt|net_|fdatasync|jbd2)", name):
        return f"rgb({120 + shade},{160 + shade},{215 + shade % 30})"
    if re.search(r"mi_|malloc|free|memcpy|memmove|memset|Bytes|Rope|Buf", name):
        return f"rgb({235},{195 + shade},{90 + shade})"
    return f"rgb({225 + shade % 25},{95 + shade * 2},{70 + shade})"


def draw(name, frame, x, level, height, scale, total, least, out):
    width = frame.samples * scale
    y = height - MARGIN - (level + 1) * ROW
    share = 100 * frame.samples / total
    shown = html.escape(name)
    out.append(f'<g><title>{shown} ({share:.2f} %)</title>'
               f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{ROW - 1}" fill="{colour(name)}"/>')
    letters = int(width / LETTER)
    if letters > 3:
        text = name if len(name) <= letters else name[: letters - 2] + ".."
        out.append(f'<text x="{x + 2:.1f}" y="{y + 12}">{html.escape(text)}</text>')
    out.append("</g>\n")
    for callee, below in sorted(frame.callees.items()):
        if below.samples >= least:
            draw(callee, below, x, level + 1, height, scale, total, least, out)
            x += below.samples * scale


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--title", default="flame graph")
    parser.add_argument("--least", type=float, default=0.1, help="boxes below this share (percent) are left out")
    args = parser.parse_args()
    sys.setrecursionlimit(10_000)
    root = collect(sys.stdin)
    if root.samples == 0:
        sys.exit("no samples: was the server loaded, and may perf look at it?")
    least = max(1, root.samples * args.least / 100)
    height = depth(root, least) * ROW + 2 * MARGIN
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
        'font-family="monospace" font-size="11">\n<rect width="100%" height="100%" fill="#fdfbf5"/>\n'
        f'<text x="10" y="20" font-size="14">{html.escape(args.title)}: {root.samples} samples</text>\n'
    ]
    draw("all", root, 10, 0, height, (WIDTH - 20) / root.samples, root.samples, least, out)
    out.append("</svg>\n")
    sys.stdout.write("".join(out))


if __name__ == "__main__":
    main()
