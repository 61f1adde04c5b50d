#!/usr/bin/python3
"""Records what Ceph's erasure codes give, for the tests of values/ec, which then need no Ceph.

usage: erasure_codes.py vectors FILE [--seed N] [--count N]                parities, by ceph-erasure-code-tool (package ceph-osd)
       erasure_codes.py profiles FILE --peer CEPH_CONF [--seed N] [--count N]     profiles, by a monitor that may be played with
       erasure_codes.py commands FILE --peer CEPH_CONF                            commands, by the same, for cores/mon
       erasure_codes.py pools FILE --peer CEPH_CONF                               pools, by the same, with OSDs

`vectors` takes every technique with 2 to 12 data shards and 1 to 4 parities, and random profiles. A line has the profile, the unit
and the SHA-256 of all parities in order. The input is 2·k·unit bytes; byte i is the low byte of xorshift64 (13, 7, 17) behind step
i + 1, from 0x9e3779b97f4a7c15.

`profiles` sets one profile after the other. A line has the words, the error number, the sentence, and the profile as it is stored,
with tabs between them.

`commands` tells a story of profiles, rules and pools that are refused. A line is JSON: the command, the error number, the sentence,
the output. The cluster must be new: no OSDs, the profile and the rule that it begins with.

`pools` tells one of erasure-coded pools, in the same form, to a new cluster with seven OSDs on one host, and no autoscaler. Numbers of
pools are N in it.
"""
import argparse
import concurrent.futures
import errno
import functools
import hashlib
import json
import os
import random
import re
import subprocess
import tempfile

TOOL = "ceph-erasure-code-tool"
MASK = 2**64 - 1
BY_PACKETS = ("cauchy_orig", "cauchy_good")


@functools.lru_cache(maxsize=1)
def noise():
    """Four megabytes of the generator's bytes."""
    x, out = 0x9E3779B97F4A7C15, bytearray()
    for _ in range(1 << 22):
        x ^= x << 13 & MASK
        x ^= x >> 7
        x ^= x << 17 & MASK
        out.append(x & 255)
    return bytes(out)


def unit_step(plugin, technique, packet):
    """What the unit must be a multiple of, for the tool to take it as it is."""
    if plugin == "isa":
        return 32
    grain = 8 * packet if technique in BY_PACKETS else 8
    return grain * 4 if grain * 4 % 16 == 0 else grain * 16


def parities(profile, unit):
    """SHA-256 of the parities that the tool makes."""
    words = dict(word.split("=", 1) for word in profile.split())
    k, m = int(words["k"]), int(words["m"])
    assert 2 * k * unit <= len(noise())
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "data")
        with open(path, "wb") as f:
            f.write(noise()[: 2 * k * unit])
        shards = ",".join(str(i) for i in range(k + m))
        argv = [TOOL, "encode", profile.replace(" ", ","), str(unit), shards, path]
        subprocess.run(argv, check=True, capture_output=True, env={**os.environ, "CEPH_CONF": "/dev/null"})
        digest = hashlib.sha256()
        for i in range(k, k + m):
            with open(f"{path}.{i}", "rb") as f:
                digest.update(f.read())
        return digest.hexdigest()


def all_vectors(rng, count):
    """Profiles and units."""
    techniques = [("jerasure", t) for t in ("reed_sol_van", "reed_sol_r6_op", "cauchy_orig", "cauchy_good")]
    techniques += [("isa", t) for t in ("reed_sol_van", "cauchy")]

    def one(plugin, technique, k, m, packet, unit, more=""):
        packets = f" packetsize={packet}" if technique in BY_PACKETS else ""
        return f"plugin={plugin} technique={technique} k={k} m={m}{packets}{more}", unit

    for plugin, technique in techniques:
        for k in range(2, 13):
            for m in (2,) if technique == "reed_sol_r6_op" else range(1, 5):
                yield one(plugin, technique, k, m, 8, 512)
    # The widest that are taken.
    yield one("jerasure", "reed_sol_van", 60, 4, 0, 64)
    yield one("jerasure", "reed_sol_r6_op", 62, 2, 0, 64)
    yield one("jerasure", "cauchy_good", 62, 2, 4, 256)
    yield one("jerasure", "cauchy_orig", 32, 32, 4, 256)
    yield one("jerasure", "cauchy_good", 32, 32, 4, 256)
    yield one("isa", "cauchy", 54, 10, 0, 64)
    for m, k in ((1, 32), (2, 32), (3, 32), (4, 21)):
        yield one("isa", "reed_sol_van", k, m, 0, 64)
    for _ in range(count):
        plugin, technique = rng.choice(techniques)
        k, m, packet = rng.randint(2, 20), rng.randint(1, 8), rng.choice([4, 8, 12, 24, 32, 64, 100, 128, 256, 512, 2048])
        if technique == "reed_sol_r6_op":
            m = 2
        elif (plugin, technique) == ("isa", "reed_sol_van"):
            m = min(m, 4)
        step = unit_step(plugin, technique, packet)
        unit = step * rng.randint(1, max(1, 8192 // step))
        more = " jerasure-per-chunk-alignment=false" if plugin == "jerasure" and rng.random() < 0.2 else ""
        yield one(plugin, technique, k, m, packet, unit, more)


def vectors(args):
    wanted = list(dict.fromkeys(all_vectors(random.Random(args.seed), args.count)))
    noise()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        digests = list(pool.map(lambda w: parities(*w), wanted))
    with open(args.file, "w") as f:
        for (profile, unit), digest in zip(wanted, digests):
            f.write(f"{profile}\t{unit}\t{digest}\n")
    print(f"{len(wanted)} vectors")


FIXED = """

k=3 m=2
k=1 m=2
k=0 m=2
k=-1 m=1
k=2 m=0
k=1 m=0
k=xx m=2
k=
k= m=
k=2x m=0
k=+3 m=2
k=03 m=+1
k=0x3
k=--3
k=3 m=2.5
k=99999999999
k=99999999999999999999
k=2147483648
m=-2147483649
m=-
plugin=isa
plugin=isa technique=cauchy k=4 m=2
plugin=isa technique=
plugin=isa technique=foo
plugin=isa w=16
plugin=isa k=22 m=4
plugin=isa k=21 m=4
plugin=isa k=33 m=3
plugin=isa k=33 m=4
plugin=isa k=22 m=5
plugin=isa k=32 m=3
plugin=isa technique=cauchy k=40 m=10
plugin=isa stripe_unit=32
plugin=isa stripe_unit=32 --force
plugin=isa stripe_unit=33
plugin=isa stripe_unit=12K
plugin=jerasure
plugin=jerasure technique=
plugin=jerasure technique=foo
technique=foo
technique=reed_sol_r6_op
technique=reed_sol_r6_op k=4 m=2
technique=reed_sol_r6_op k=4 m=3
technique=reed_sol_r6_op k=4 m=3 w=5
technique=reed_sol_r6_op w=9
technique=reed_sol_r6_op m= k=
technique=reed_sol_r6_op w=16
technique=liberation
technique=blaum_roth
technique=liber8tion
technique=cauchy_orig
technique=cauchy_good
technique=cauchy_good k= m= w= packetsize=
technique=cauchy_good packetsize=x
technique=cauchy_good packetsize=0
technique=cauchy_good packetsize=-8
technique=cauchy_good packetsize=7
technique=cauchy_good packetsize=512 stripe_unit=16K
technique=cauchy_good packetsize=512 stripe_unit=4K
technique=cauchy_good w=4
technique=cauchy_good w=9
technique=cauchy_good k=4 m=2 stripe_unit=4096
technique=cauchy_good k=4 m=2 stripe_unit=65536
technique=cauchy_good packetsize=6 stripe_unit=4K
technique=cauchy_good packetsize=6 stripe_unit=768
technique=cauchy_good packetsize=6 stripe_unit=768 --force
technique=cauchy_good jerasure-per-chunk-alignment=true stripe_unit=65536
technique=cauchy_good jerasure-per-chunk-alignment=yes stripe_unit=16K
w=16
w=32
w=7
w=x
w=
foo=bar
foo
foo= a=b=c
=x
crush-root=
crush-root=nowhere
crush-device-class=ssd
crush-failure-domain=rack
crush-failure-domain=osd crush-root=default crush-device-class=
ruleset-root=x
ruleset-failure-domain=osd
ruleset-
ruleset-root
jerasure-per-chunk-alignment=
jerasure-per-chunk-alignment=yes
jerasure-per-chunk-alignment=true stripe_unit=128
jerasure-per-chunk-alignment=true stripe_unit=128 --force
jerasure-per-chunk-alignment=maybe
stripe_unit=4096
stripe_unit=4K
stripe_unit=4Ki
stripe_unit=4KB
stripe_unit=4KiB
stripe_unit=4096B
stripe_unit=4Bi
stripe_unit=1M
stripe_unit=16M
stripe_unit=1234
stripe_unit=2048
stripe_unit=2048 --force
stripe_unit=2048
stripe_unit=100 --force
stripe_unit=x
stripe_unit=Kx
stripe_unit=
stripe_unit=4Q
stripe_unit=4k
stripe_unit=-4096
stripe_unit=+4096
stripe_unit=4-096
stripe_unit=99999999999999999999
stripe_unit=99999999999P
stripe_unit=16E
stripe_unit=0
stripe_unit=5G
mapping=DD_
mapping=DDDD
plugin=lrc k=4 m=2 l=3
plugin=shec
plugin=clay k=4 m=2
plugin=nope
plugin=
plugin=Jerasure
k=100 m=50
k=60 m=5
k=60 m=4
k=150 m=100 technique=cauchy_good
"""


def random_words(rng):
    """A profile that somebody might type, with a mistake now and then."""
    values = {
        "k": ["2", "3", "4", "8", "10", "20", "21", "22", "32", "1", "0", "", "a"],
        "m": ["1", "2", "3", "4", "4", "5", "0", "", "-1"],
        "w": ["8", "8", "8", "", "7", "16", "0"],
        "plugin": ["jerasure", "isa", "isa", "nope"],
        "technique": ["reed_sol_van", "reed_sol_van", "cauchy_good", "cauchy_orig", "reed_sol_r6_op", "cauchy", "liberation", ""],
        "packetsize": ["8", "32", "512", "2048", "1000", "3", "", "x"],
        "stripe_unit": ["4096", "4K", "8K", "16K", "64K", "65536", "1M", "2048", "96", "5000", "", "1Z"],
        "crush-root": ["default", "", "other"],
        "crush-device-class": ["ssd", "hdd", ""],
        "crush-failure-domain": ["osd", "host", "rack"],
        "jerasure-per-chunk-alignment": ["true", "false", "yes", "no", ""],
        "foo": ["bar", ""],
    }
    chances = {"k": 0.8, "m": 0.8, "plugin": 0.5, "technique": 0.6, "stripe_unit": 0.4, "packetsize": 0.3}
    words = [f"{key}={rng.choice(values[key])}" for key in values if rng.random() < chances.get(key, 0.12)]
    rng.shuffle(words)
    # Ceph's monitor ends, or divides by zero, where a chunk must be aligned alone and is smaller than that.
    if any(w.startswith("jerasure-per-chunk") for w in words):
        words = [w for w in words if not w.startswith(("stripe_unit", "packetsize"))]
    return " ".join(words + (["--force"] if rng.random() < 0.1 else []))


def profiles(args):
    import rados

    cluster = rados.Rados(conffile=args.peer)
    cluster.connect(timeout=10)

    def command(**kwargs):
        result, out, status = cluster.mon_command(json.dumps(kwargs), b"")
        return -result, out.decode(), status

    rng = random.Random(args.seed)
    # Plugins are loaded first: what is loaded by a command says so in its answer.
    command(prefix="osd erasure-code-profile set", name="loads", profile=["plugin=jerasure", "technique=reed_sol_van"])
    command(prefix="osd erasure-code-profile set", name="loads", profile=["plugin=isa"], force=True)
    wanted = FIXED.split("\n")[1:-1] + [random_words(rng) for _ in range(args.count)]
    with open(args.file, "w") as f:
        for line in dict.fromkeys(wanted):
            words = [w for w in line.split() if w != "--force"]
            force = {"force": True} if "--force" in line else {}
            code, _, status = command(prefix="osd erasure-code-profile set", name="tried", profile=words, **force)
            stored = ""
            if code == 0:
                stored = " ".join(command(prefix="osd erasure-code-profile get", name="tried")[1].split("\n")).strip(" ")
                command(prefix="osd erasure-code-profile rm", name="tried")
                status = ""
            f.write("\t".join([line, errno.errorcode.get(code, str(code)) if code else "", status, stored]) + "\n")
    cluster.shutdown()


PROFILE, RULE = "osd erasure-code-profile ", "osd crush rule "


def story():
    """The commands."""
    def profile(what, name, *words, **more):
        return {"prefix": PROFILE + what, "name": name, **({"profile": list(words)} if words else {}), **more}

    def rule(what, name, **more):
        return {"prefix": RULE + what, "name": name, **more}

    def pool(name, **more):
        return {"prefix": "osd pool create", "pool": name, "pool_type": "erasure", "pg_num": 1, **more}

    yield {"prefix": PROFILE + "ls"}
    yield profile("get", "default")
    yield profile("get", "default", format="json")
    yield profile("set", "e", "k=2", "m=1", "crush-failure-domain=osd")
    yield profile("set", "e", "crush-failure-domain=osd", "m=1")
    yield profile("set", "e", "k=3", "m=1", "crush-failure-domain=osd")
    yield profile("get", "e")
    yield profile("get", "e", format="json-pretty")
    yield profile("get", "e", format="xml")
    yield profile("set", "default", "k=2", "m=2")
    yield profile("set", "default", "k=2", "m=1")
    yield profile("get", "default")
    yield profile("set", "isa", "plugin=isa", "technique=cauchy")
    yield profile("set", "good", "technique=cauchy_good", "k=4", "m=2", "foo", "bar=x=y")
    yield profile("get", "good")
    yield profile("set", "none")
    yield profile("get", "none")
    yield profile("set", "x", "crush-failure-domain=planet")
    yield profile("set", "x", "crush-failure-domain=")
    yield profile("set", "x", "ruleset-root=default")
    yield profile("set", "x", "k=1")
    yield profile("set", "x", "stripe_unit=100")
    yield profile("set", "x", "stripe_unit=2K")
    yield profile("set", "x", "stripe_unit=2K", force=True)
    yield profile("get", "x")
    yield profile("set", "x", "k=4", "m=2", force=True)
    yield profile("get", "x")
    yield profile("rm", "x")
    yield profile("rm", "x")
    yield profile("get", "x")
    yield {"prefix": PROFILE + "ls"}
    yield {"prefix": PROFILE + "ls", "format": "json"}
    yield {"prefix": PROFILE + "ls", "format": "xml"}
    yield profile("set", "nowhere", "crush-root=nowhere")
    yield profile("set", "classy", "crush-device-class=ssd")
    yield rule("create-erasure", "of-e", profile="e")
    yield rule("create-erasure", "of-e", profile="e")
    yield rule("create-erasure", "of-e", profile="unheard")
    yield rule("create-erasure", "of-default")
    yield rule("create-erasure", "of-good", profile="good")
    yield rule("create-erasure", "of-unheard", profile="unheard")
    yield rule("create-erasure", "of-nowhere", profile="nowhere")
    yield rule("create-erasure", "of-classy", profile="classy")
    for name in ("of-e", "of-default", "of-good"):
        yield rule("dump", name)
    yield {"prefix": RULE + "ls"}
    yield pool("p", erasure_code_profile="unheard")
    yield profile("rm", "classy")
    # A default that was removed is made again by who needs it.
    yield profile("rm", "default")
    yield rule("create-erasure", "again")
    yield profile("get", "default")
    for name in ("of-e", "of-default", "of-good", "again"):
        yield rule("rm", name)
    for name in ("e", "isa", "good", "none", "nowhere"):
        yield profile("rm", name)


def pools_story():
    """The commands on pools."""
    def profile(what, name, *words, **more):
        return {"prefix": PROFILE + what, "name": name, **({"profile": list(words)} if words else {}), **more}

    def pool(name, kind="erasure", **more):
        return {"prefix": "osd pool create", "pool": name, "pool_type": kind, "pg_num": 4, "pgp_num": 4, **more}

    def put(name, var, val, **more):
        return {"prefix": "osd pool set", "pool": name, "var": var, "val": val, **more}

    def get(name, var, **more):
        return {"prefix": "osd pool get", "pool": name, "var": var, **more}

    yield profile("set", "p21", "k=2", "m=1", "crush-failure-domain=osd")
    yield profile("set", "p42", "k=4", "m=2", "crush-failure-domain=osd")
    yield profile("set", "unit", "k=3", "m=2", "crush-failure-domain=osd", "stripe_unit=16K")
    yield profile("set", "good", "k=3", "m=2", "crush-failure-domain=osd", "technique=cauchy_good")
    yield pool("e21", erasure_code_profile="p21")
    yield pool("e21", erasure_code_profile="p21")
    yield pool("e21", "replicated")
    yield {"prefix": "osd pool create", "pool": "e21", "pg_num": 4}
    yield pool("e42", erasure_code_profile="p42")
    yield pool("unitp", erasure_code_profile="unit")
    yield pool("goodp", erasure_code_profile="good")
    yield pool("norule", erasure_code_profile="p21", rule="nosuch")
    yield pool("noprofile", erasure_code_profile="nosuch")
    yield pool("neither", erasure_code_profile="nosuch", rule="nosuch")
    yield pool("reuse", erasure_code_profile="p21", rule="e21")
    yield pool("wide", erasure_code_profile="p42", rule="e21")
    yield pool("sized", erasure_code_profile="p21", size=5)
    yield pool("repl", "replicated", rule="replicated_rule")
    yield pool("repl")
    yield pool("few", pgp_num=8, erasure_code_profile="p21")
    yield {"prefix": RULE + "ls"}
    for name in ("e21", "e42", "sized"):
        yield {"prefix": RULE + "dump", "name": name}
    yield profile("rm", "p21")
    yield profile("rm", "p42")
    yield put("e42", "size", "5")
    yield put("e42", "size", "xx")
    yield put("e42", "min_size", "3")
    yield put("e42", "min_size", "7")
    yield put("e42", "min_size", "4")
    yield put("e42", "min_size", "6")
    yield put("e42", "min_size", "5")
    yield put("e21", "min_size", "1")
    for val in ("maybe", "false", "0", "true", "1", "true", "false"):
        yield put("e42", "allow_ec_overwrites", val)
        yield get("e42", "allow_ec_overwrites")
    yield get("e42", "allow_ec_overwrites", format="json")
    yield put("repl", "allow_ec_overwrites", "true")
    yield get("repl", "allow_ec_overwrites")
    yield get("repl", "erasure_code_profile")
    yield get("e42", "erasure_code_profile")
    yield get("e42", "size")
    yield get("e42", "crush_rule")
    yield put("e42", "fast_read", "5")
    yield put("e42", "fast_read", "xx")
    yield get("e42", "fast_read")
    yield get("e42", "all")
    yield put("e42", "crush_rule", "e21")
    yield put("e42", "crush_rule", "nosuch")
    yield put("repl", "fast_read", "1")
    yield {"prefix": "osd pool mksnap", "pool": "e21", "snap": "s1"}
    yield {"prefix": "osd pool ls"}
    yield {"prefix": "osd pool rm", "pool": "e42", "pool2": "e42", "yes_i_really_really_mean_it": True}
    yield profile("rm", "p42")
    # The rule of a pool that was removed stays, and is taken by the next of its name.
    yield {"prefix": RULE + "ls"}
    yield pool("e42", erasure_code_profile="p21")
    yield get("e42", "crush_rule")


def commands(args):
    tell(args, story())


def pools(args):
    tell(args, pools_story())


def tell(args, wanted_ones):
    import rados

    cluster = rados.Rados(conffile=args.peer)
    cluster.connect(timeout=10)

    def command(**kwargs):
        result, out, status = cluster.mon_command(json.dumps(kwargs), b"")
        return -result, status, out.decode()

    with open(args.file, "w") as f:
        for wanted in wanted_ones:
            code, status, out = command(**wanted)
            status = re.sub(r"^set pool [0-9]+ ", "set pool N ", status)
            f.write(json.dumps({"command": wanted, "errno": code, "status": status, "out": out}) + "\n")
    cluster.shutdown()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["vectors", "profiles", "commands", "pools"])
    parser.add_argument("file")
    parser.add_argument("--peer")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=300)
    args = parser.parse_args()
    if args.what != "vectors" and not args.peer:
        parser.error("that is recorded from a monitor: --peer")
    {"vectors": vectors, "profiles": profiles, "commands": commands, "pools": pools}[args.what](args)


if __name__ == "__main__":
    main()
