#!/usr/bin/python3
"""Every command that only reads, as other people's tools send it: what it answers here, and what Ceph answers.

A command is sent through librados, past the checks of the program `ceph`, in each format, with nothing to show, with a
little and with more, with arguments that exist and with some that do not. What is compared is the form of the answer:
result, keys and kinds of values in JSON, names of elements in XML, whether there is a text, the line for standard error.

  sweep.py --nacre target/release/nacre                 our cluster against the recorded forms of Ceph's answers
  sweep.py --peer CEPH_CONF --record                     records the forms anew from a cluster of Ceph that runs and is new;
                                                         its ceph.conf turns the warnings off that come from its host:
                                                         auth_allow_insecure_global_id_reclaim, mon_data_avail_warn
  sweep.py --conf CEPH_CONF                              a cluster that runs already, and is new
  sweep.py --list                                        what is recorded, and what differs on purpose

Without the recording there is nothing to compare with: the script says "skipped" and ends with 77.
"""
import argparse
import errno
import fnmatch
import json
import lzma
import os
import re
import sys
import time
import xml.etree.ElementTree as ET

import rados

HERE = os.path.dirname(os.path.abspath(__file__))
RECORDED = os.path.join(HERE, "..", "cases", "sweep-16.2.15.json.xz")
FORMATS = ["", "json", "json-pretty", "xml", "xml-pretty", "nosuch"]
SKIPPED = 77
# Flag of a description: the command goes to the manager.
TO_MANAGER = 8

# Values for arguments by name (of one command: "command/name"): those that exist, and one that does not.
VALUES = {
    "pool": (["one"], "nosuch"), "poolname": (["one"], "nosuch"), "pool_name": (["one"], "nosuch"),
    "pool_spec": (["one"], "nosuch"), "poolstr": (["one"], "nosuch"),
    "osd pool get/var": (["size", "all", "pg_num", "crush_rule", "pg_autoscale_mode", "hit_set_type", "min_size",
                          "nodelete", "compression_mode", "target_size_ratio"], "nosuch"),
    "osd pool ls/detail": (["detail"], "nosuch"), "df/detail": (["detail"], "nosuch"),
    "health/detail": (["detail"], "nosuch"),
    "osd df/output_method": (["plain", "tree"], "nosuch"), "osd df/filter_by": (["class"], "nosuch"),
    "id": ([0], 99), "ids": ([["0"], ["osd.0", "1"]], ["99"]), "osd": ([0], 99),
    "pg dump/dumpcontents": ([["sum"], ["all"], ["pools"], ["osds"], ["pgs"], ["pgs_brief"], ["delta"]], ["nosuch"]),
    "pg dump_json/dumpcontents": ([["sum"], ["all"], ["pools"], ["osds"], ["pgs"]], ["nosuch"]),
    "pg dump_stuck/stuckops": ([["inactive"], ["unclean"], ["stale"]], ["nosuch"]),
    "states": ([["active"], ["stale"]], ["nosuch"]), "pgid": (["{pgid}"], "77.0"),
    "osd map/object": (["obj"], "nothere"), "object": (["obj"], "nothere"), "objectstr": (["obj"], "nothere"),
    "entity": (["client.admin"], "client.nosuch"), "auth export/entity": (["client.admin"], "client.nosuch"),
    "who": (["osd.0", "mon", "global"], "nosuch.who"), "config show/who": (["osd.0"], "osd.99"),
    "mon metadata/id": (["a"], "nosuch"), "mgr metadata/who": (["x"], "nosuch"),
    "config get/key": (["osd_max_backfills", "osd_op_queue"], "nosuch"),
    "config show/key": (["osd_max_backfills"], "nosuch"), "config help/key": (["osd_max_backfills", "osd_op_queue"], "nosuch"),
    "config log/num": ([1], -1), "key": (["some/key"], "no/key"), "config-key dump/key": (["some"], "no"),
    "name": (["replicated_rule"], "nosuch"), "osd crush class ls-osd/class": (["{class}"], "nosuch"),
    "class": (["{class}"], "nosuch"), "node": (["default"], "nosuch"), "osd crush get-tunable/tunable": (["straw_calc_version"], "nosuch"),
    "osd erasure-code-profile get/name": (["default"], "nosuch"), "property": (["ceph_version", "arch"], "nosuch"),
    "bucket": (["default"], "nosuch"), "epoch": ([1], 99999), "node ls/type": (["all", "osd", "mon", "mgr"], "nosuch"),
    "value": (["client_io_rate"], "nosuch"), "level": (["info"], "nosuch"), "channel": (["*", "audit", "cluster"], "nosuch"),
    "num": ([3], 0), "devid": (["nosuch"], "nosuch"), "host": (["{host}"], "nosuch"), "daemon": (["osd.0"], "nosuch"),
    "module": (["prometheus"], "nosuch"), "crash info/id": ([], "nosuch"),
    "osd tree/states": ([["up"], ["down"], ["in"]], ["nosuch"]), "image": (["img"], "nosuch"), "option": (["mode"], "nosuch"),
    "osd tree-from/bucket": (["default"], "nosuch"), "shadow": (["--show-shadow"], "nosuch"),
    "osd crush tree/shadow": (["--show-shadow"], "nosuch"),
}
# What is no reading, or shows what differs between any two clusters, or ends or keeps the connection.
LEFT_OUT = ["get_command_descriptions", "osd getmap", "osd getcrushmap", "mon getmap", "config generate-minimal-conf", "tell",
            "injectargs", "heap", "ops", "sessions", "rbd perf*", "rbd task*", "iostat", "balancer eval*", "nfs *", "orch *",
            "cephadm *", "rgw *", "dashboard *", "dump_historic*", "mgr self-test*", "log", "osd test-reweight*", "rbd mirror*",
            "diskprediction*", "telegraf*", "k8sevents*", "osd perf query*", "osd perf counters*", "mon ok-to-rm", "telemetry*"]
# Keys that name things: what is below them is compared as one.
NAMES = [r"^[0-9.]+$", r"^(osd|mon|mgr|mds|client)\.", r"^ceph version", r"^[0-9a-f]+\.[0-9a-f]+$", r"^\{", r"^(one|two|three|four)\b"]


class Rados:
    def __init__(self, conf):
        limit = {"rados_mon_op_timeout": "6", "rados_osd_op_timeout": "20"}
        self.cluster = rados.Rados(conffile=conf, rados_id="admin", conf=limit)
        self.cluster.connect(timeout=30)
        self.described = json.loads(self.cluster.mon_command(json.dumps({"prefix": "get_command_descriptions"}), b"")[1])

    def send(self, command, to_manager):
        call = self.cluster.mgr_command if to_manager else self.cluster.mon_command
        return call(json.dumps(command), b"")

    def silent(self, command):
        print(f"no answer: {json.dumps(command)}", flush=True)

    def tell(self, **command):
        for manager in (False, True):
            answer = self.send(command, manager)
            if answer[0] != -22:
                return answer
        return answer

    def rows(self):
        """The commands that only read: words, arguments, whether they go to the manager."""
        for row in self.described.values():
            words = " ".join(x if isinstance(x, str) else x.get("prefix", "") for x in row["sig"] if not isinstance(x, dict) or "prefix" in x)
            args = [x for x in row["sig"] if isinstance(x, dict) and "name" in x]
            yield words, args, bool(row.get("flags", 0) & TO_MANAGER), row["perm"]


def pieces(words, arg, facts):
    name, kind = arg["name"], arg.get("type", "")
    have, none = VALUES.get(f"{words}/{name}", VALUES.get(name, (None, None)))
    if have is None:
        if kind == "CephChoices":
            have, none = arg["strings"].split("|")[:3], "nosuch"
        elif kind == "CephBool":
            have, none = [True], None
        elif kind in ("CephInt", "CephFloat"):
            have, none = [1], None
        elif kind == "CephPgid":
            have, none = ["{pgid}"], "77.0"
        else:
            have, none = ["one"], "nosuch"
    many = arg.get("n") == "N"

    def fill(v):
        v = facts.get(v, v) if isinstance(v, str) else v
        return [v] if many and v is not None and not isinstance(v, list) else v
    return [fill(v) for v in have], fill(none)


def calls(words, args, facts):
    """The command with what it needs; with each argument left out, and with one that is not there."""
    needed = [a for a in args if a.get("req") not in (False, "false")]
    base = {"prefix": words}
    for a in needed:
        have, none = pieces(words, a, facts)
        if not have and none is None:
            return
        base[a["name"]] = have[0] if have else none
    yield dict(base)
    for a in args:
        have, none = pieces(words, a, facts)
        for v in have[(1 if a in needed else 0):]:
            yield {**base, a["name"]: v}
        if none is not None:
            yield {**base, a["name"]: none}
        if a in needed:
            yield {k: v for k, v in base.items() if k != a["name"]}


def form(value):
    """The form of a JSON value: keys and kinds."""
    if isinstance(value, dict):
        out = {}
        for k, v in value.items():
            key = "*" if any(re.search(n, k) for n in NAMES) else k
            out[key] = merged(out[key], form(v)) if key in out else form(v)
        return out
    if isinstance(value, list):
        out = None
        for v in value:
            out = form(v) if out is None else merged(out, form(v))
        return ["empty" if out is None else out]
    if isinstance(value, bool):
        return "bool"
    return "number" if isinstance(value, (int, float)) else "null" if value is None else "string"


def merged(a, b):
    if isinstance(a, dict) and isinstance(b, dict):
        return {k: merged(a[k], b[k]) if k in a and k in b else a.get(k, b.get(k)) for k in {**a, **b}}
    if isinstance(a, list) and isinstance(b, list):
        return a if b == ["empty"] else b if a == ["empty"] else [merged(a[0], b[0])]
    return a if a == b else f"{a}|{b}" if isinstance(a, str) and isinstance(b, str) and b not in a else a


def elements(node, path=""):
    tag = "*" if any(re.search(n, node.tag) for n in NAMES) else node.tag
    path = f"{path}/{tag}"
    found = {path}
    for child in node:
        found |= elements(child, path)
    return found


def mask(text):
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "UUID", text)
    text = re.sub(r"key=[A-Za-z0-9+/]{16,}=*", "KEY", text)
    return re.sub(r"-?[0-9]+(\.[0-9a-f]+)*", "N", text).strip()


def look(answer, fmt):
    """The form of an answer: result, line for standard error, form of what is shown."""
    code, out, err = answer
    text = out.decode(errors="replace")
    shown = None
    if not text.strip():
        shown = ["nothing"]
    elif fmt.startswith("json") or text.lstrip()[:1] in "{[" and not fmt.startswith("xml"):
        try:
            shown = ["json", form(json.loads(text))]
        except ValueError:
            shown = ["text"]
    elif fmt.startswith("xml"):
        try:
            shown = ["xml", sorted(elements(ET.fromstring("<all>" + re.sub(r"<\?xml[^>]*>", "", text) + "</all>")))]
        except ET.ParseError:
            shown = ["text"]
    else:
        first = next(line for line in text.splitlines() if line.strip())
        # The heading of a table is part of its form; other first lines hold values.
        shown = ["text", re.sub(r"\s+", " ", first).strip() if first == first.upper() and re.search("[A-Z]{2}", first) else ""]
    return {"code": code, "err": mask(err), "shown": shown}


def facts_of(c):
    tree = json.loads(c.send({"prefix": "osd tree", "format": "json"}, False)[1])
    host = next((n["name"] for n in tree["nodes"] if n["type"] == "host"), "nosuch")
    cls = next((n["device_class"] for n in tree["nodes"] if n.get("device_class")), "ssd")
    dump = json.loads(c.send({"prefix": "osd dump", "format": "json"}, False)[1])
    pool = next((p["pool"] for p in dump["pools"] if p["pool_name"] == "one"), 1)
    return {"{pgid}": f"{pool}.0", "{host}": host, "{class}": cls}


def fill(c, stage):
    """Brings the cluster to a stage: nothing, a little, more."""
    def do(**command):
        code, _, err = c.tell(**command)
        if code not in (0, -17):
            raise SystemExit(f"{command}: {code} {err}")
    if stage == 0:
        return
    names = ["one"] if stage == 1 else ["two", "three"]
    for pool in names:
        do(prefix="osd pool create", pool=pool, pg_num=8, pool_type="replicated")
        # Groups that split while the commands are sent would be in one cluster's answers only.
        do(prefix="osd pool set", pool=pool, var="pg_autoscale_mode", val="off")
        do(prefix="osd pool application enable", pool=pool, app="rbd")
    do(prefix="config-key set", key=f"some/key{'' if stage == 1 else stage}", val="v")
    do(prefix="config set", who="osd.0", name="osd_max_backfills", value="3")
    if stage == 2:
        do(prefix="config set", who="global", name="osd_max_scrubs", value="2")
        do(prefix="osd set", key="noout")
        do(prefix="osd set-group", flags="nodown", who=["osd.1"])
        do(prefix="osd blocklist", blocklistop="add", addr="10.0.0.1:0/1")
        do(prefix="osd pool set-quota", pool="two", field="max_objects", val="1000")
        do(prefix="auth get-or-create", entity="client.other", caps=["mon", "allow r"])
    for pool in names:
        with c.cluster.open_ioctx(pool) as io:
            for i in range(stage * 2 - 1):
                io.write_full("obj" if i == 0 else f"obj{i}", b"x" * 100)
            if stage == 2:
                io.create_snap("snap")
    end = time.monotonic() + 60
    while time.monotonic() < end:
        states = json.loads(c.tell(prefix="pg stat", format="json")[1])
        states = states.get("pg_summary", states)
        if [s["name"] for s in states["num_pg_by_state"]] == ["active+clean"] and states["num_pgs"] >= 8:
            break
        time.sleep(0.5)
    time.sleep(6)  # reports of the daemons


def prepare(c, conf):
    """Makes a cluster of Ceph what ours is at first: no pool of the manager's own, the administrator in the list."""
    pool = "device_health_metrics"
    end = time.monotonic() + 60
    while pool not in c.cluster.list_pools() and time.monotonic() < end:
        time.sleep(0.5)
    for answer in (c.tell(prefix="osd pool rm", pool=pool, pool2=pool, yes_i_really_really_mean_it=True),
                   c.cluster.mon_command(json.dumps({"prefix": "auth import"}), admin_of(conf))):
        if answer[0]:
            raise SystemExit(f"the peer is not new: {answer}")


def admin_of(conf):
    """The section of client.admin in the keyring beside a ceph.conf."""
    with open(os.path.join(os.path.dirname(conf), "keyring")) as f:
        return re.search(r"(?ms)^\[client\.admin\].*?(?=^\[|\Z)", f.read()).group(0).encode()


def left_out(words):
    return any(fnmatch.fnmatch(words, pattern) for pattern in LEFT_OUT)


def collect(c, known, raw=None):
    """Sends everything in every stage; `known` is the rows of both, or None."""
    found = {}
    for stage in (0, 1, 2):
        fill(c, stage)
        facts = facts_of(c)
        for words, args, manager, perm in known(c):
            for call in calls(words, args, facts):
                for fmt in FORMATS:
                    command = {**call, "format": fmt} if fmt else call
                    name = json.dumps({k: next((f for f, v in facts.items() if v == call[k]), call[k]) if k != "prefix" else call[k] for k in call}, sort_keys=True)
                    answer = c.send(command, manager)
                    if answer[0] == -errno.ETIMEDOUT:
                        c.silent(command)  # Ceph's monitor ends by some of these
                        continue
                    if raw is not None:
                        raw[f"{stage} {fmt or 'plain'} {name}"] = [answer[0], answer[1].decode(errors="replace")[:6000], answer[2]]
                    found.setdefault(name, {})[f"{stage} {fmt or 'plain'}"] = look(answer, fmt)
    return found


def readers(c):
    seen = set()
    for words, args, manager, perm in c.rows():
        if "w" not in perm and not left_out(words) and words not in seen:
            seen.add(words)
            yield words, args, manager, perm


def diff(theirs, ours, path=""):
    """What differs between two forms: lines with a path."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for k in sorted({*theirs, *ours}):
            if k not in ours:
                yield f"{path}.{k}: missing here"
            elif k not in theirs:
                yield f"{path}.{k}: only here"
            else:
                yield from diff(theirs[k], ours[k], f"{path}.{k}")
    elif isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours) == 1:
        if "empty" not in (theirs[0], ours[0]):
            yield from diff(theirs[0], ours[0], f"{path}[]")
    elif theirs != ours and not (isinstance(theirs, str) and isinstance(ours, str) and set(ours.split("|")) & set(theirs.split("|"))):
        yield f"{path}: {kind(theirs)} there, {kind(ours)} here"


def kind(value):
    return "object" if isinstance(value, dict) else "list" if isinstance(value, list) else value


def compare(theirs, ours):
    """The differences of two collections: (command, where) for each sentence."""
    out = {}
    def say(name, where, what):
        out.setdefault((json.loads(name)["prefix"], what), []).append((name, where))
    for name in theirs:
        if name not in ours:
            continue
        for where, t in theirs[name].items():
            o = ours[name].get(where)
            if o is None:
                continue
            if t["code"] != o["code"]:
                say(name, where, f"result {t['code']} there, {o['code']} here")
                continue
            if t["err"] != o["err"]:
                say(name, where, f"line for errors: '{t['err']}' there, '{o['err']}' here")
            a, b = t["shown"], o["shown"]
            if a[0] != b[0]:
                say(name, where, f"{a[0]} there, {b[0]} here")
            elif a[0] == "json":
                for line in diff(a[1], b[1]):
                    say(name, where, f"JSON {line}")
            elif a[0] == "xml":
                gone, more = [x for x in a[1] if x not in b[1]], [x for x in b[1] if x not in a[1]]
                if gone or more:
                    say(name, where, f"XML missing {gone[:4]}, only here {more[:4]}")
            elif a[0] == "text" and len(a) > 1 and len(b) > 1 and a[1] != b[1]:
                say(name, where, f"heading '{a[1]}' there, '{b[1]}' here")
    return out


def load(path=RECORDED):
    if not os.path.exists(path):
        print("skipped: there is no recording of Ceph's answers to compare with")
        raise SystemExit(SKIPPED)
    with lzma.open(path, "rt") as f:
        return json.load(f)


# Commands whose refusals are worded by us: no tool was found that reads the words. Error numbers are Ceph's.
OUR_WORDS = {
    "alerts send", "auth export", "auth get", "balancer dump", "balancer show", "config help", "config show", "config-key get", "crash info",
    "crash json_report", "device get-health-metrics", "device ls-by-daemon", "fs clone cancel", "fs clone status", "fs compat show", "fs dump",
    "fs get", "fs perf stats", "fs snap-schedule list", "fs snap-schedule status", "fs snapshot mirror daemon status",
    "fs snapshot mirror dirmap", "fs snapshot mirror peer_list", "fs snapshot mirror show distribution", "fs subvolume authorized_list",
    "fs subvolume exist", "fs subvolume info", "fs subvolume ls", "fs subvolume metadata get", "fs subvolume metadata ls",
    "fs subvolume snapshot info", "fs subvolume snapshot ls", "fs subvolume snapshot metadata get", "fs subvolume snapshot metadata ls",
    "fs subvolumegroup exist", "fs subvolumegroup getpath", "fs subvolumegroup info", "fs subvolumegroup ls", "fs subvolumegroup snapshot ls",
    "fs volume info", "influx config-show", "insights", "mds dump", "mds getmap", "mds ok-to-stop", "mon ok-to-stop", "osd crush get-tunable",
    "osd find", "osd ok-to-stop", "osd pool get", "osd safe-to-destroy", "osd tree", "osd tree-from", "pg debug", "pg ls", "pg ls-by-osd",
    "pg ls-by-pool", "pg ls-by-primary", "pg map", "prometheus file_sd_config", "zabbix config-show", "zabbix discovery",
}
# Commands of modules of Ceph's manager, which answer in JSON whatever is asked for, and those which answer in a text.
JSON_ALONE = {
    "device ls", "device ls-by-daemon", "device ls-by-host", "device ls-lights", "device query-daemon-health-metrics", "fs volume ls",
    "osd pool autoscale-status", "osd status", "progress json", "restful list-keys",
}
TEXT_ALONE = {"crash ls", "crash ls-new", "fs status", "osd pool autoscale-status", "osd status"}
# Commands whose XML of Ceph has names that are none there, so that no parser reads it.
BROKEN_XML = {
    "config-key dump", "mgr count-metadata", "mgr versions", "mon count-metadata", "mon dump", "mon versions", "osd count-metadata",
    "osd versions", "pg dump", "quorum_status", "report", "status", "versions",
}
# Keys of metadata that a daemon has by what it is: a store of Ceph's, a program of ours, a container.
OWN_KEYS = ["bluefs*", "bluestore_*", "container_name", "network_numa_unknown_ifaces", "objectstore_numa_unknown_devices", "osdspec_affinity",
            "backing", "direct_io", "disk", "nacre_*"]
# What differs on purpose, or by what the two clusters are: command, sentence (shell patterns), why.
BY_DESIGN = [
    *[(command, "line for errors: *", "the words of a refusal are our own") for command in sorted(OUR_WORDS)],
    *[(command, "* there, xml here", "a module of Ceph's manager answers in no XML") for command in sorted(TEXT_ALONE)],
    *[(command, "XML missing ??, only here *", "a module of Ceph's manager answers in no XML") for command in sorted(JSON_ALONE)],
    *[(command, "text there, xml here", "Ceph's XML has names that are none there, and cannot be read; here it can") for command in sorted(BROKEN_XML)],
    *[("osd metadata", f"JSON *.{key}: *", "what a daemon is made of") for key in OWN_KEYS],
    *[(command, f"JSON *.{key}: *", "what a daemon is made of") for command in ("mon metadata", "mgr metadata") for key in ("container_name", "nacre_*")],
    *[(command, "XML missing ?'/all/*_metadata/*", "the same keys") for command in ("osd metadata", "mon metadata", "mgr metadata")],
    *[("report", f"JSON .osd_metadata??.{key}: *", "what a daemon is made of") for key in OWN_KEYS],
    ("config help", "XML missing ?'/all/option/see_also/see_also'?, only here ??", "which options belong together is not told"),
    ("config help", "XML missing ??, only here ?'/all/option/services/service'?", "an option's readers are always told"),
    ("config log", "XML missing *", "Ceph has a change of its own start"), ("config log", "text there, nothing here", "Ceph has a change of its own start"),
    ("config show", "JSON ??.overrides: missing here", "the peer's OSDs have options in their file"),
    ("config show", "XML missing ?'/all/config/value/overrides'*", "the peer's OSDs have options in their file"),
    ("config show-with-defaults", "JSON ??.overrides: missing here", "the peer's OSDs have options in their file"),
    ("config show-with-defaults", "XML missing ?'/all/config/value/overrides'*", "the peer's OSDs have options in their file"),
    ("config show-with-defaults", "JSON ??.without_effect: only here", "an option that nobody reads says so"),
    ("config-key dump", "JSON .config*: missing here", "the store of options is not part of it"),
    ("config-key dump", "JSON .mgr/*: missing here", "what modules of Ceph's manager remember"),
    ("config-key dump", "JSON .nacre/*: only here", "what our monitors remember"),
    ("crash info", "result 22 there, -22 here", "Ceph's module forgets the sign of its error"),
    ("fs status", "result 22 there, -22 here", "Ceph's module forgets the sign of its error"),
    ("osd status", "result 2 there, -2 here", "Ceph's module forgets the sign of its error"),
    ("device predict-life-expectancy", "result -1 there, -95 here", "the health of devices is not collected, and the command says so"),
    ("device scrape-*health-metrics", "result * there, -95 here", "the health of devices is not collected, and the command says so"),
    *[(f"fs {command}", "result -22 there, -2 here", "a file system that is not there is told before an argument that is missing")
      for command in ("clone cancel", "clone status", "subvolume authorized_list", "subvolume info", "subvolume metadata get",
                      "subvolume metadata ls", "subvolume snapshot info", "subvolume snapshot ls", "subvolume snapshot metadata get",
                      "subvolume snapshot metadata ls", "subvolumegroup getpath", "subvolumegroup info", "subvolumegroup snapshot ls")],
    ("healthcheck history ls", "result -95 there, 0 here", "part of a module that is off in Ceph"),
    ("log last", "XML missing *", "what the log holds"), ("log last", "text there, nothing here", "what the log holds"),
    ("log last", "nothing there, text here", "what the log holds"),
    ("log last", "result -22 there, 0 here", "a level that is none counts as none; the program `ceph` refuses it"),
    ("log last", "result 0 there, -22 here", "no lines cannot be asked for; the program `ceph` refuses it on both"),
    ("mds compat show", "result 0 there, -95 here", "there are no file systems"), ("mds ok-to-stop", "result 0 there, -95 here", "there are no file systems"),
    ("mgr dump", "JSON .available_modules??.module_options.*", "modules have no options of their own here"),
    ("mgr dump", "XML missing *", "modules have no options of their own here, and there are no older releases' lists of modules"),
    ("mgr module ls", "JSON .disabled_modules??.module_options.*", "modules have no options of their own here"),
    ("mgr module ls", "XML missing *", "modules have no options of their own here"),
    ("mon ok-to-add-offline", "result -16 there, 0 here", "one monitor bears another here, which joins by itself"),
    ("mon_status", "result -22 there, 0 here", "served here still"),
    ("node ls", "nothing there, * here", "a type that is none counts as none; the program `ceph` refuses it on both"),
    ("osd b*list ls", "text there, json here", "Ceph writes a text into the JSON"),
    ("osd b*list ls", "XML missing ?'/all/range_blocklist'*", "Ceph writes a text into the XML"),
    ("osd crush get-device-class", "result 0 there, -22 here", "OSDs must be named, as the program `ceph` demands on both"),
    ("osd crush weight-set dump", "result 0 there, -95 here", "weight sets are not supported"),
    ("osd crush weight-set ls", "result 0 there, -95 here", "weight sets are not supported"),
    ("osd df", "result -22 there, 0 here", "a filter without its kind is not looked at"),
    ("osd df", "result 0 there, -22 here", "a kind of filter needs its word"),
    ("osd dump", "XML missing ??, only here ?'/all/osdmap/pg_upmap_items/*", "what the balancer did before"),
    ("osd find", "JSON .container_name: missing here", "the peer says that it runs in no container"),
    ("osd find", "XML missing ?'/all/osd_location/container_name'?*", "the peer says that it runs in no container"),
    ("osd last-stat-seq", "nothing there, * here", "has no structure in Ceph"),
    ("osd last-stat-seq", "result 0 there, -2* here", "an OSD that does not exist, or that is not named, is refused"),
    ("osd ls", "text there, nothing here", "epoch 1 had OSDs there"), ("osd ls", "XML missing ?'/all/osds/osd'?*", "epoch 1 had OSDs there"),
    ("osd pool get", "result -2 there, -22 here", "a setting that is none is refused as a word that is none"),
    ("osd pool stats", "*client_io_rate*", "rates of the moment"), ("pg stat", "*_sec*", "rates of the moment"), ("status", "JSON .pgmap.*_sec: *", "rates of the moment"),
    ("osd status", "* there, json here", "Ceph's module answers in no structure"),
    ("osd status", "nothing there, text here", "a bucket is a bucket here, and the name of a host there"),
    ("pg debug", "result 0 there, -22 here", "a question must be asked, as the program `ceph` demands on both"),
    ("pg debug", "text there, json here", "Ceph writes a word before the JSON"), ("pg debug", "XML missing ?'/all/pg_info'*", "Ceph writes a word before the XML"),
    *[(command, "result 0 there, -22 here", "a word that is none is refused, as the program `ceph` refuses it on both")
      for command in ("pg dump", "pg dump_json", "pg dump_stuck")],
    *[(command, "result 0 there, -22 here", "an OSD must be named, as the program `ceph` demands on both") for command in ("pg ls-by-osd", "pg ls-by-primary")],
    ("pg getmap", "result 0 there, -95 here", "there is no binary map of groups, and the command says so"),
]


# Excuses that were needed by a difference.
NEEDED = set()


def designed(words, what):
    for command, pattern, why in BY_DESIGN:
        if fnmatch.fnmatch(words, command) and fnmatch.fnmatch(what.replace("[", "?").replace("]", "?"), pattern.replace("[", "?").replace("]", "?")):
            NEEDED.add((command, pattern))
            return why
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nacre", help="the program; starts a cluster of its own")
    parser.add_argument("--conf", help="the ceph.conf of a new cluster of ours that runs")
    parser.add_argument("--peer", help="the ceph.conf of a new cluster of Ceph that runs, with three OSDs and pools of one copy")
    parser.add_argument("--record", action="store_true", help="keep the forms of the peer's answers")
    parser.add_argument("--all", action="store_true", help="show what differs by design, too")
    parser.add_argument("--list", action="store_true", help="show what is recorded and what differs by design")
    args = parser.parse_args()
    if args.peer:
        peer = Rados(args.peer)
        prepare(peer, args.peer)
        theirs = collect(peer, readers)
        if args.record:
            with lzma.open(RECORDED, "wt", preset=9) as f:
                json.dump(theirs, f, sort_keys=True, separators=(",", ":"))
    else:
        theirs = load()
    if args.list:
        print(f"{len(theirs)} commands with arguments of {len({json.loads(n)['prefix'] for n in theirs})} kinds are recorded in {RECORDED}")
        for command, pattern, why in BY_DESIGN:
            print(f"  {command}: {pattern}: {why}")
        return 0
    if not args.nacre and not args.conf:
        return 0
    server, place = None, None
    if args.nacre:
        from harness import Place, Server, free_port
        place = Place(None, "nacre-sweep-")
        server = Server(args.nacre, place.path, free_port(), 3, "none", ("--osd-size", "2G"))
        server.start()
    try:
        ours = collect(Rados(args.conf or os.path.join(place.path, "ceph.conf")), readers)
    finally:
        if server:
            server.stop()
            place.remove()
    bad = 0
    for (words, what), where in sorted(compare(theirs, ours).items()):
        why = designed(words, what)
        if why and not args.all:
            continue
        bad += why is None
        print(f"{words}: {what[:300]}\n    first of {len(where)}: {where[0][0]} (stage and format {where[0][1]}){f': by design: {why}' if why else ''}")
    if args.all:
        for command, pattern, why in BY_DESIGN:
            if (command, pattern) not in NEEDED:
                print(f"not needed this time: {command}: {pattern}: {why}")
    both = {json.loads(n)["prefix"] for n in theirs} & {json.loads(n)["prefix"] for n in ours}
    print(f"{len(both)} commands of both compared, {sum(len(v) for n, v in ours.items() if n in theirs)} answers; {bad} differences that nobody meant")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
