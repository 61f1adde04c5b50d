#!/usr/bin/python3
"""Makes a table of docs/benchmarks.md from the JSON of a report of the laboratory.

    nacre lab run lab/articles/nacre-vs-ceph.toml --out results/
    nacre lab report results/ --out report.html
    lab/benchmarks.py report.json --against "Ceph 18.2" --demands 18.2

A row is a workload; figures are medians over the repeats. Ratios are medians of the ratios of repeats, ours ahead where they are above 1.
--demands names the list of what is demanded; without it nothing is.
"""
import argparse
import json
import re
import statistics

# What is demanded: operations (or latency, at depth 1), and all processor time of the machine but the client's.
DEMANDS = {
    "none": [],
    "16.2": [
        (r"write 4K ×16", 3, 5),
        (r"write 4K ×1", 3, None),
        (r"(seq|rand) 4K ×16", 1.5, 4),
        (r"(seq|rand) 4K ×1", 1.25, None),
        (r"\w+ 128K ×16", 1.5, None),
        (r"write 4M ×16", 1.4, 3),
        (r"(seq|rand) 4M ×16", 1.2, 2),
        (r"rbd randwrite 4K ×32", 2.5, 4),
        (r"rbd randread 4K ×32", 1.5, 4),
        (r"rbd randwrite 4K ×1", 2.5, None),
        (r"rbd randread 4K ×1", 1 / 0.7, None),
    ],
    "18.2": [
        (r"write 4K ×16", 2.5, 5),
        (r"(seq|rand) 4K ×16", 1.5, 4),
        (r"rand 4M ×16", 1.2, 1.5),
    ],
    # Three copies, against release 16.2.
    "copies": [
        (r"write 4K ×16", 5, 8),
        (r"write 4K ×1", 4, None),
        (r"(seq|rand) 4K ×16", 2, 5),
        (r"write 4M ×16", 2, None),
    ],
}
FIGURES = ("ops_per_second", "latency_ms", "server_us", "machine_us")


def demanded(workload, demands):
    return next(((ops, cpu) for pattern, ops, cpu in demands if re.fullmatch(pattern, workload)), (None, None))


def ratio(value, least):
    if value is None:
        return "–"
    if least is None:
        return f"{value:.2f}×"
    return f"{value:.2f}× ({'' if value >= least else '**not** '}≥ {least:.3g})"


def figures(cell):
    values = [statistics.median(v for _, v in cell["values"][name]) if cell["values"].get(name) else None for name in FIGURES]
    return [f"{value:{form}}" if value is not None else "–" for value, form in zip(values, (",.0f", ".3f", ".1f", ".1f"))]


def ratios(above, below, name):
    """Median over the repeats that both have; None if there is none."""
    first, second = (dict(map(tuple, cell["values"].get(name, []))) for cell in (above, below))
    pairs = [first[repeat] / second[repeat] for repeat in first if second.get(repeat)]
    return statistics.median(pairs) if pairs else None


def table(cells, against, ours, demands):
    columns = ["ops/s", "ms", "server µs/op", "all µs/op"]
    head = ["workload"] + [f"Ceph {c}" for c in columns] + [f"ours {c}" for c in columns] + ["operations", "all processor time"]
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for workload in dict.fromkeys(cell["workload"] for cell in cells):
        of = {cell["cluster"]: cell for cell in cells if cell["workload"] == workload}
        if against not in of or ours not in of:
            continue
        ceph, nacre = of[against], of[ours]
        ops, cpu = demanded(workload, demands)
        row = [workload] + figures(ceph) + figures(nacre)
        row += [ratio(ratios(nacre, ceph, "ops_per_second"), ops), ratio(ratios(ceph, nacre, "machine_us"), cpu)]
        yield "| " + " | ".join(row) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", help="report.json")
    parser.add_argument("--against", default="Ceph 16.2", help="name of the cluster to compare with [%(default)s]")
    parser.add_argument("--ours", default="Nacre", help="name of our cluster [%(default)s]")
    parser.add_argument("--demands", default="none", choices=sorted(DEMANDS))
    args = parser.parse_args()
    with open(args.report) as f:
        cells = json.load(f)["cells"]
    names = sorted({cell["cluster"] for cell in cells})
    for name in (args.against, args.ours):
        if name not in names:
            parser.error(f"the report has no cluster {name!r}; it has {', '.join(names)}")
    print("\n".join(table(cells, args.against, args.ours, DEMANDS[args.demands])))


if __name__ == "__main__":
    main()
