"""A Prometheus that asks a cluster, with the rules of Debian's package; and what metrics say, read without one."""
import json
import os
import re
import signal
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable
from typing import Any

from live import free_port

RULES = "/etc/prometheus/ceph/ceph_default_alerts.yml"


class Prometheus:
    """A Prometheus, and a node_exporter beside it."""

    def __init__(self, directory: str, target: str, host: str) -> None:
        self.port, node = free_port(), free_port()
        config, data = os.path.join(directory, "prometheus.yml"), os.path.join(directory, "prometheus")
        # Rules are asked once a second, and wait for nothing.
        rules = re.sub(r'for: "[^"]*"', 'for: "1s"', open(RULES).read())
        with open(os.path.join(directory, "rules.yml"), "w") as out:
            out.write(rules)
        with open(config, "w") as out:
            self.config = config
            json.dump({
                "global": {"scrape_interval": "1s", "evaluation_interval": "1s", "scrape_timeout": "1s"},
                "rule_files": [os.path.join(directory, "rules.yml")],
                "scrape_configs": [
                    {"job_name": "ceph", "honor_labels": True, "static_configs": [{"targets": [target]}]},
                    {"job_name": "node", "static_configs": [{"targets": [f"127.0.0.1:{node}"], "labels": {"instance": host}}]},
                ],
            }, out)
        said = open(os.path.join(directory, "prometheus.log"), "wb")
        self.processes = [
            subprocess.Popen(["prometheus-node-exporter", f"--web.listen-address=127.0.0.1:{node}"], stdout=said, stderr=said),
            subprocess.Popen(["prometheus", f"--config.file={config}", f"--storage.tsdb.path={data}", "--query.lookback-delta=20s",
                              f"--web.listen-address=127.0.0.1:{self.port}"], stdout=said, stderr=said),
        ]

    def ask(self, what: str, **arguments: str) -> Any:
        url = f"http://127.0.0.1:{self.port}/api/v1/{what}?{urllib.parse.urlencode(arguments)}"
        with urllib.request.urlopen(url, timeout=20) as answer:
            return json.load(answer)["data"]

    def query(self, expression: str) -> Any:
        return self.ask("query", query=expression)["result"]

    def firing(self) -> set[str]:
        return {alert["labels"]["alertname"] for alert in self.ask("alerts")["alerts"] if alert["state"] == "firing"}

    def until(self, what: str, test: Callable[[], Any], seconds: float = 60) -> Any:
        end, seen = time.monotonic() + seconds, None  # type: float, Any
        while time.monotonic() < end:
            try:
                seen = test()
                if seen:
                    return seen
            except OSError as e:
                seen = e
            time.sleep(0.5)
        raise AssertionError(f"never: {what} ({seen})")

    def forget(self) -> None:
        """Asks the cluster no more."""
        with open(self.config) as old:
            told = json.load(old)
        told["scrape_configs"] = told["scrape_configs"][1:]
        with open(self.config, "w") as out:
            json.dump(told, out)
        self.processes[1].send_signal(signal.SIGHUP)

    def stop(self) -> None:
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait()


def get(port: int, path: str = "/metrics") -> tuple[str, str]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
        return answer.headers["content-type"], answer.read().decode()


SAMPLE = re.compile(r'^([a-z0-9_]+)(?:\{(.*)\})? (\S+)$')
LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"')


def samples(text: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Name → list of (labels, value)."""
    unescape = {"\\n": "\n", '\\"': '"', "\\\\": "\\"}

    def plain(escaped: re.Match[str]) -> str:
        return unescape[escaped.group()]

    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        fits = SAMPLE.match(line)
        assert fits, f"no sample: {line}"
        name, tags, value = fits.groups()
        labels = {k: re.sub(r'\\[n"\\]', plain, v) for k, v in LABEL.findall(tags or "")}
        found.setdefault(name, []).append((labels, float(value)))
    return found


def value(found: dict[str, list[tuple[dict[str, str], float]]], name: str, **labels: str) -> float:
    fits = [v for have, v in found.get(name, []) if all(have.get(k) == v for k, v in labels.items())]
    assert len(fits) == 1, f"{name}{labels}: {len(fits)} samples"
    return fits[0]
