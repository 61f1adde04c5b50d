#!/usr/bin/python3
"""The laboratory on itself: a bad file, an interruption, the rest of the runs, a report, a comparison. Some 40 seconds.

usage: test.py --nacre target/release/nacre
"""
import argparse
import os
import signal
import subprocess
import tempfile
import time

PLAN = """
[experiment]
name = "tiny"
seconds = 1
prefill = 1
repeats = 3
running = "frozen"
[[cluster]]
name = "nacre"
kind = "nacre"
memory = "256M"
osd_size = "4G"
[[workload]]
kind = "rados"
size = "4K"
mode = ["write", "rand"]
depth = 16
[[workload]]
kind = "custom"
command = "echo broken >&2; exit 7"
"""


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--nacre", required=True)
    nacre = os.path.abspath(args.parse_args().nacre)
    with tempfile.TemporaryDirectory(prefix="nacre-lab-test-") as folder:
        plan, out, page = (os.path.join(folder, name) for name in ("plan.toml", "out", "page.html"))

        def write(text):
            with open(plan, "w") as f:
                f.write(text)

        def lab(*words, code):
            done = subprocess.run([nacre, "lab", *words], capture_output=True, text=True)
            said = done.stdout + done.stderr
            assert done.returncode == code, f"{words}: exit {done.returncode}, not {code}:\n{said}"
            return said

        def left():
            """Command lines of processes that name the folder; they are of this test alone."""
            found = []
            for pid in filter(str.isdigit, os.listdir("/proc")):
                try:
                    with open(f"/proc/{pid}/cmdline") as f:
                        line = f.read().replace("\0", " ")
                except OSError:
                    continue
                if folder in line and int(pid) != os.getpid():
                    found.append(line)
            return found

        def records():
            runs = os.path.join(out, "runs")
            return sum(name.endswith(".json") for name in os.listdir(runs)) if os.path.isdir(runs) else 0

        write(PLAN.replace("repeats", "repeets"))
        said = lab("run", plan, "--out", out, code=1)
        assert "plan.toml:6: key 'repeets' of [experiment] is not known; did you mean 'repeats'?" in said, said
        write(PLAN)
        assert "3 repeats" in lab("dry-run", plan, code=0)

        running = subprocess.Popen([nacre, "lab", "run", plan, "--out", out], stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 60
        while records() < 2:
            assert time.monotonic() < deadline and running.poll() is None, running.stderr.read()
            time.sleep(0.05)
        running.send_signal(signal.SIGINT)
        said = running.communicate(timeout=60)[1]
        assert running.returncode == 130 and "interrupted" in said, said
        assert not left(), left()
        assert not os.path.exists(os.path.join(out, "scratch")), "the scratch folder is left"
        before = records()

        running = subprocess.Popen([nacre, "lab", "run", plan, "--out", out], stderr=subprocess.DEVNULL)
        while records() < before + 2:
            assert time.monotonic() < deadline + 60 and running.poll() is None
            time.sleep(0.05)
        running.kill()
        running.wait()
        assert left(), "a killed laboratory leaves its cluster to the next run"
        said = lab("run", plan, "--out", out, code=0)
        assert "left by an earlier run: ended process" in said and "made before" in said, said
        assert records() == 18 and not left(), (records(), left())

        lab("report", out, "--out", page, code=0)
        with open(page) as f:
            text = f.read()
        assert "write 4K ×16" in text and "broken" in text and "http" not in text
        said = lab("compare", out, out, code=0)
        assert "0 worse, 0 better" in said, said
    print("laboratory: 18 runs through an interruption and a kill, a report and a comparison: all as they should be")


if __name__ == "__main__":
    main()
