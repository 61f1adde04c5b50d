# Targets for people and for CI. What is missing on the machine is installed with apt (as root, or with sudo); Rust, cc, git and
# apt must be there. Each target is quick when there is nothing to do.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

CARGO ?= cargo
PYTHON := /usr/bin/python3
BUILT := $(or $(CARGO_TARGET_DIR),target)
NACRE := $(BUILT)/release/nacre
LOSSY := $(BUILT)/release/lossydisk
CASES_PROGRAM := $(BUILT)/release/conformance
SHEETS_PROGRAM := $(BUILT)/release/sheets

# Every release build names these packages: cargo chooses features for the whole set, so what they share is built once.
RELEASE = $(CARGO) build --release -p nacre -p lossydisk -p instructions -p conformance

SECONDS_EACH ?= 3
SEEDS ?= 200
START ?= 1000
SIM_SECONDS ?= 60
ROUNDS ?= 20
LOSSY_ROUNDS ?= 6
MODEL_SECONDS ?= 45
SOAK_MINUTES ?= 30
FUZZ_SECONDS ?= 60
FUZZ_EACH ?= 600
# Mappings of each map that are compared with crushtool and osdmaptool.
export NACRE_CRUSH_MAPPINGS ?= 100000

.PHONY: full-disk bit-rot refusals formats memory help build test test-long check-fast lint fmt unit fuzz fuzz-long hostile sim mistakes-sim conformance kill-rounds demo deps-build deps-test clean
.PHONY: seeds instructions instructions-profile instructions-update idle flamegraph

help:          ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/|/' | while IFS='|' read -r t h; do printf '  make %-22s%s\n' "$$t" "$$h"; done

# $(call need,COMMAND...,PACKAGE...): installs the packages if one of the commands is missing. One installation at a time.
define need
	@for c in $(1); do command -v $$c >/dev/null || missing=1; done; \
	if [ -n "$${missing:-}" ]; then \
	  echo "installing: $(2)"; \
	  sudo=; [ "$$(id -u)" = 0 ] || sudo=sudo; \
	  exec 9>/tmp/nacre-apt.lock; flock 9; \
	  $$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $(2) >/dev/null 2>&1 \
	  || { $$sudo apt-get update -qq; $$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $(2); }; \
	fi
endef

deps-build:
	$(call need,cc,gcc libc6-dev)
	@command -v $(CARGO) >/dev/null || { echo "Rust is missing: see https://rustup.rs"; exit 1; }

# ceph-base has crushtool, osdmaptool and monmaptool, which the tests of placement and maps compare with.
deps-test: deps-build
	$(call need,ceph rados crushtool osdmaptool monmaptool ceph-authtool,ceph-common ceph-base)
	@$(PYTHON) -c 'import rados' 2>/dev/null || $(MAKE) --no-print-directory deps-python

.PHONY: deps-python
deps-python:
	$(call need,a-command-that-is-not-there,python3 python3-rados python3-rbd)

build: deps-build   ## the release binary, target/release/nacre
	$(RELEASE) --bin nacre

.PHONY: release-build unit-build
release-build: deps-build   ## all programs of `make test` that are built for release
	$(RELEASE) --bins

# It takes what others leave.
unit-build: deps-build   ## all that `make unit fuzz sim` run
	nice -n 19 $(CARGO) test --workspace --no-run

TARGETS ?=
test: deps-test   ## all that CI runs, several targets beside each other; some of them: TARGETS="sim hosts"
	$(PYTHON) tools/suite.py $(TARGETS)

check-fast: deps-build   ## does it compile, and do the tests of one room pass: make check-fast P=store
	$(CARGO) clippy $(if $(P),-p $(P),--workspace) --all-targets -- -D warnings
	$(if $(P),$(CARGO) test -p $(P))

# Modules whose functions all have type hints.
TYPED := $(addprefix tools/conformance/lib/,calls.py harness.py live.py prometheus.py)

lint: deps-build   ## rustfmt, clippy, pyflakes and mypy, warnings denied
	$(call need,pyflakes3 mypy,pyflakes3 mypy)
	pyflakes3 tools/*.py tools/conformance/*/*.py
	mypy --config-file tools/mypy.ini --cache-dir target/mypy $(TYPED)
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings

fmt:   ## format the code
	$(CARGO) fmt --all

unit: deps-test fuse unit-python   ## unit and property tests
	$(CARGO) test --workspace --no-fail-fast

.PHONY: unit-python
unit-python:   ## unit tests of what scripts share and of tools that stand alone: a second
	@$(PYTHON) -c 'import rados' 2>/dev/null || $(MAKE) --no-print-directory deps-python
	PYTHONDONTWRITEBYTECODE=1 $(PYTHON) -m unittest discover -s tools/conformance/unit

fuzz: deps-build   ## enemies of all decoders and state machines, FUZZ_SECONDS=60 for all of them
	$(CARGO) build --workspace --bin fuzz
	$(BUILT)/debug/fuzz --seconds $(FUZZ_SECONDS)

# Each of them keeps one processor busy.
seeds: deps-build   ## `fuzz` and `sim` beside each other
	$(CARGO) build --workspace --bin fuzz --bin sim
	$(MAKE) --no-print-directory -j2 --output-sync=target fuzz sim

# Sanitizers need a nightly compiler; counting the reached code does not.
FUZZ_FLAGS := -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
  -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares -Cdebug-assertions

fuzz-long: deps-build   ## the same under libFuzzer, FUZZ_EACH=600 seconds for each target; what it finds lies in target/fuzz
	$(call need,g++,g++)
	RUSTFLAGS="$(FUZZ_FLAGS)" $(CARGO) build --release -p fuzz --features libfuzzer --bin libfuzzer \
	  --target $$(rustc -vV | sed -n 's/^host: //p') --target-dir target/fuzz
	@program=$$(ls target/fuzz/*/release/libfuzzer); \
	for target in $$($(CARGO) run -q -p fuzz --bin fuzz -- --list); do \
	  mkdir -p target/fuzz/corpus/$$target; \
	  echo "fuzz: $$target"; \
	  NACRE_FUZZ_TARGET=$$target $$program -max_total_time=$(FUZZ_EACH) -max_len=65536 -rss_limit_mb=2048 -timeout=20 -print_final_stats=0 \
	    -verbosity=0 -artifact_prefix=target/fuzz/$$target- target/fuzz/corpus/$$target || exit 1; \
	done

hostile: deps-test build   ## garbage, replays, idle crowds, greedy clients and tenants with bad intent against a running cluster
	@$(PYTHON) -c 'import rbd' 2>/dev/null || $(MAKE) --no-print-directory deps-python
	$(PYTHON) tools/conformance/faults/tenants.py --nacre $(NACRE)
	$(PYTHON) tools/conformance/faults/hostile_peers.py --nacre $(NACRE)
	$(PYTHON) tools/conformance/faults/greedy_reads.py --nacre $(NACRE)
	$(PYTHON) tools/conformance/faults/costly_requests.py --nacre $(NACRE)

# For a machine that has time: nearly all is built once more, into target/mistakes.
.PHONY: mistakes
mistakes: deps-test fuse   ## puts mistakes of before back, in a copy of the tree: does a test find each (half an hour)
	$(PYTHON) tools/mistakes.py $(NAMES)

# Debug: `make unit` has built it already, and an optimized build costs more time than it saves on so few seeds. `make unit` runs the first seeds.
sim: deps-build   ## the simulator, SEEDS=200 seeds of each scenario from START=1000, or as many as begin within SIM_SECONDS=60
	$(CARGO) build --workspace --bin sim
	$(BUILT)/debug/sim --seeds $(SEEDS) --start $(START) --seconds $(SIM_SECONDS)

# The profile `seeds` is optimized and has the assertions of tests. Each process takes the next ten seeds of all scenarios: 100,000 runs take six
# hours of a processor. A log whose runs failed stays; those of others are removed.
.PHONY: sim-long sim-optimized
sim-optimized: deps-build
	$(CARGO) build -p sim --bin sim --profile seeds

sim-long: sim-optimized   ## hours: SEEDS=200 seeds of each scenario from START=1000, a process for each processor; failures lie in target/seeds
	@seq $(START) 10 $$(($(START) + $(SEEDS) - 1)) | xargs -P $$(nproc) -I{} sh -c \
	  '$(BUILT)/seeds/sim --seeds 10 --start {} > $(BUILT)/seeds/from-{}.log 2>&1 && tail -n 1 $(BUILT)/seeds/from-{}.log && rm $(BUILT)/seeds/from-{}.log'

mistakes-sim: sim-optimized   ## puts each mistake that the simulator knows in, and says with which seed its scenario finds it: some minutes
	$(BUILT)/seeds/sim --mistakes --seeds 400

# They compare answers of clients with those of a real Ceph. Built for release, so that no target waits for `unit-build`.
.PHONY: judges
judges: deps-build
	$(RELEASE) --bin conformance --bin sheets

conformance: deps-test build judges   ## stock clients against our cluster, compared with a real one's answers
	$(CASES_PROGRAM) --nacre $(NACRE) --auth none
	$(CASES_PROGRAM) --nacre $(NACRE) --auth cephx --secure

.PHONY: guests
KERNELS ?= bookworm,trixie
ALONE ?= trixie
guests: deps-test build   ## virtual machines as clients: the kernel's rbd driver, and virtio disks on QEMU's (3 min)
	$(call need,qemu-system-x86_64 busybox fio mkfs.ext4 ip blkdiscard,qemu-system-x86 qemu-block-extra busybox-static fio e2fsprogs iproute2 util-linux)
	timeout 900 $(PYTHON) tools/conformance/guests/run.py --nacre $(NACRE) --kernels $(KERNELS) --alone $(ALONE) --cache $(BUILT)/guests

.PHONY: images compatibility
# About eight minutes; SHEETS= runs all there are.
SHEETS ?= bench clones details diffs encryption fio groups images locks migration perf qemu schedules snapshots tasks trash
images: deps-test build judges   ## stock rbd, librbd, fio and QEMU on block images, compared with a real one's answers
	$(call need,fio qemu-img,fio qemu-utils qemu-block-extra)
	@$(PYTHON) -c 'import rbd' 2>/dev/null || $(MAKE) --no-print-directory deps-python
	$(SHEETS_PROGRAM) --nacre $(NACRE) --auth cephx $(SHEETS)

compatibility: deps-test build judges clients-18.2   ## writes docs/compatibility.md from a run, with this host's clients and those of release 18.2
	$(CASES_PROGRAM) --nacre $(NACRE) --client 18.2=$(CLIENTS) --report target/conformance.md
	$(SHEETS_PROGRAM) --nacre $(NACRE) --client 18.2=$(CLIENTS) --report target/sheets.md
	$(PYTHON) tools/conformance/guests/run.py --nacre $(NACRE) --cache $(BUILT)/guests --report target/guests.md
	cat tools/conformance/compatibility-head.md target/conformance.md tools/conformance/sheets-head.md target/sheets.md \
	  tools/conformance/guests-head.md target/guests.md > docs/compatibility.md

# Clients of release 18.2, from Debian 13, in a folder of their own. Needs root and an archive.
.PHONY: clients-18.2 newer-clients deps-mmdebstrap
CLIENTS ?= $(abspath $(BUILT))/clients/18.2
deps-mmdebstrap:
	$(call need,mmdebstrap,mmdebstrap)

clients-18.2:
	@command -v mmdebstrap >/dev/null || $(MAKE) --no-print-directory deps-mmdebstrap || true
	tools/conformance/release.sh install trixie $(CLIENTS)

# Some two minutes, half of which the first run takes to install them.
newer-clients: deps-test build judges   ## clients of release 18.2 against our cluster, compared with a real one's answers; skipped where they cannot be had
	@if $(MAKE) --no-print-directory clients-18.2; then \
	  $(CASES_PROGRAM) --nacre $(NACRE) --client 18.2=$(CLIENTS) --others-only tools/conformance/cases/*.cases && \
	  $(SHEETS_PROGRAM) --nacre $(NACRE) --client 18.2=$(CLIENTS) --others-only images trash; \
	else echo "newer-clients: SKIPPED, clients of release 18.2 cannot be installed here (see above)"; fi

# A FUSE mount for the disk that forgets: the device must be there, and the right to mount.
.PHONY: fuse lossydisk kill-rounds-long model model-long soak
fuse:
	$(call need,fusermount3,fuse3)
	@test -c /dev/fuse || { echo "/dev/fuse is missing: the disk that forgets is a FUSE file system"; exit 1; }

lossydisk: deps-build fuse
	$(RELEASE) --bin lossydisk

.PHONY: lost-shards
lost-shards: deps-test build   ## six OSDs with a pool of 4 + 2 shards: one, then two are killed and come back under stock rados
	$(PYTHON) tools/conformance/faults/lost_shards.py --nacre $(NACRE)

kill-rounds: deps-test build lossydisk   ## ROUNDS=20 times kill -9, LOSSY_ROUNDS=6 power cuts on each driver, with a checker
	$(PYTHON) tools/conformance/faults/kill_rounds.py --nacre $(NACRE) --rounds $(ROUNDS) --seconds 1.5
	$(PYTHON) tools/conformance/faults/kill_rounds.py --nacre $(NACRE) --rounds 4 --auth cephx -- --driver epoll
	$(PYTHON) tools/conformance/faults/kill_rounds.py --nacre $(NACRE) --rounds $(LOSSY_ROUNDS) --seconds 1.5 --lossy $(LOSSY)
	$(PYTHON) tools/conformance/faults/kill_rounds.py --nacre $(NACRE) --rounds $(LOSSY_ROUNDS) --seconds 1.5 --lossy $(LOSSY) -- --driver epoll
	$(PYTHON) tools/conformance/faults/kill_rounds.py --nacre $(NACRE) --rounds 10 --seconds 1.5 --lossy $(LOSSY) --must-fail durable
	$(PYTHON) tools/conformance/faults/kill_rounds.py --nacre $(NACRE) --rounds 10 --seconds 1.5 --lossy $(LOSSY) --must-fail flushes

kill-rounds-long: deps-test build lossydisk   ## an hour or two: 500 times kill -9, 250 power cuts on each driver
	$(PYTHON) tools/conformance/faults/kill_rounds.py --nacre $(NACRE) --rounds 500
	$(PYTHON) tools/conformance/faults/kill_rounds.py --nacre $(NACRE) --rounds 250 --lossy $(LOSSY)
	$(PYTHON) tools/conformance/faults/kill_rounds.py --nacre $(NACRE) --rounds 250 --lossy $(LOSSY) -- --driver epoll

model: deps-test build   ## MODEL_SECONDS=45 of random operations of librados against a model, with kills
	$(PYTHON) tools/conformance/faults/model_test.py --nacre $(NACRE) --seconds $(MODEL_SECONDS)

model-long: deps-test build lossydisk   ## half an hour of it, on a disk that forgets, too
	$(PYTHON) tools/conformance/faults/model_test.py --nacre $(NACRE) --seconds 600 --workers 10
	$(PYTHON) tools/conformance/faults/model_test.py --nacre $(NACRE) --seconds 600 --lossy $(LOSSY)
	$(PYTHON) tools/conformance/faults/model_test.py --nacre $(NACRE) --seconds 600 --lossy $(LOSSY) -- --driver epoll

.PHONY: thrash
THRASH_SECONDS ?= 120
thrash: deps-test build   ## THRASH_SECONDS=120 of kills, stops, moves and splits of a cluster of processes; then all copies are compared
	@$(PYTHON) -c 'import rbd' 2>/dev/null || $(MAKE) --no-print-directory deps-python
	$(PYTHON) tools/conformance/faults/thrash.py --nacre $(NACRE) --seconds $(THRASH_SECONDS)

replica-reads: deps-test build   ## reads from replicas with stock clients: copies answer, and never with old data (about 1 minute)
	@$(PYTHON) -c 'import rbd' 2>/dev/null || $(MAKE) --no-print-directory deps-python
	$(PYTHON) tools/conformance/faults/replica_reads.py --nacre $(NACRE)

radosgw: deps-test build   ## Ceph's object gateway on our cluster: users, buckets, objects, parts, versions, rules, garbage (about 1 minute)
	$(call need,radosgw radosgw-admin,radosgw)
	$(PYTHON) tools/conformance/foreign/radosgw.py --nacre $(NACRE) --auth cephx
	$(PYTHON) tools/conformance/foreign/radosgw.py --nacre $(NACRE) --auth none --only objects shown
	$(PYTHON) tools/conformance/foreign/radosgw_clients.py --nacre $(NACRE) --tools $(BUILT)/s3-clients --only s3cmd boto3-old

# What users have: some of it comes from Debian, PyPI and the Go registry, into a folder.
.PHONY: radosgw radosgw-clients radosgw-faults radosgw-scale
RADOSGW_SECONDS ?= 300
RADOSGW_KEYS ?= 1000000
RADOSGW_ENTRIES ?= 300000
radosgw-clients: deps-test build   ## Ceph's gateway with aws CLI 1 and 2, boto3 old and new, s3cmd, rclone, restic, minio-go, s3fs (about 5 minutes)
	$(call need,radosgw radosgw-admin,radosgw)
	$(PYTHON) tools/conformance/foreign/radosgw_clients.py --nacre $(NACRE) --tools $(BUILT)/s3-clients --must 5

radosgw-faults: deps-test build   ## the gateway while OSDs are killed every 20 s for RADOSGW_SECONDS=300, and on full disks
	$(call need,radosgw radosgw-admin,radosgw)
	$(PYTHON) tools/conformance/foreign/radosgw_scale.py --nacre $(NACRE) --only kills full --seconds $(RADOSGW_SECONDS)

radosgw-scale: deps-test build   ## long: RADOSGW_KEYS=1000000 keys resharded while written, RADOSGW_ENTRIES=300000 in one shard, garbage for RADOSGW_SECONDS=300
	$(call need,radosgw radosgw-admin,radosgw)
	$(PYTHON) tools/conformance/foreign/radosgw_scale.py --nacre $(NACRE) --only reshard shard garbage --keys $(RADOSGW_KEYS) --entries $(RADOSGW_ENTRIES) --seconds $(RADOSGW_SECONDS)

# Boards and rules of Debian's packages, and a Prometheus, which asks all of them.
.PHONY: metrics deps-metrics
deps-metrics:
	$(call need,prometheus promtool prometheus-node-exporter,prometheus prometheus-node-exporter)
	@test -d /etc/grafana/dashboards/ceph-dashboard && test -f /etc/prometheus/ceph/ceph_default_alerts.yml || $(MAKE) --no-print-directory deps-boards

.PHONY: deps-boards
deps-boards:
	$(call need,a-command-that-is-not-there,ceph-grafana-dashboards ceph-prometheus-alerts)

metrics: deps-test build deps-metrics   ## a real Prometheus asks every query of Ceph's boards, and rules fire; who sees the page (about 3 minutes)
	@$(PYTHON) -c 'import rbd' 2>/dev/null || $(MAKE) --no-print-directory deps-python
	timeout 300 $(PYTHON) tools/conformance/foreign/page.py --nacre $(NACRE)
	timeout 300 $(PYTHON) tools/conformance/foreign/support.py --nacre $(NACRE)
	timeout 600 $(PYTHON) tools/conformance/foreign/metrics.py --nacre $(NACRE)

.PHONY: alerts
alerts: deps-test build deps-metrics   ## each of Ceph's alerts that can fire is made to fire (about 8 minutes)
	timeout 1200 $(PYTHON) tools/conformance/foreign/alerts.py --nacre $(NACRE)

soak: deps-test build   ## SOAK_MINUTES=30 of mixed load: is memory flat?
	$(PYTHON) tools/conformance/faults/soak.py --nacre $(NACRE) --minutes $(SOAK_MINUTES)

full-disk: deps-test build   ## fills disks and hosts: writes wait, the rest goes on, and all recovers (about 2 minutes)
	$(call need,mkfs.ext4 losetup,e2fsprogs mount)
	$(PYTHON) tools/conformance/faults/full_disk.py --nacre $(NACRE)

.PHONY: raw-disks
raw-disks: deps-test build   ## OSDs on loop devices of 512 and 4096 bytes a sector: discards, names, sizes (skipped without loop devices)
	$(call need,losetup,mount)
	timeout 300 $(PYTHON) tools/conformance/faults/raw_disks.py --nacre $(NACRE)

.PHONY: disks
disks: deps-test build lossydisk   ## disks are added, replaced, removed while a host runs, under load; killed in the middle (about 4 minutes)
	$(call need,ss,iproute2)
	timeout 900 $(PYTHON) tools/conformance/faults/disks.py --nacre $(NACRE) --lossy $(LOSSY)

refusals: deps-test build   ## wrong keys, disks, folders, commands: refused with a name, and nothing changed (about 1 minute)
	$(call need,mkfs.ext4 losetup,e2fsprogs mount)
	$(PYTHON) tools/conformance/faults/refusals.py --nacre $(NACRE)

hosts: deps-test build   ## three hosts as network namespaces: up, token, join, a lost leader, cuts (1 min; skipped without root)
	@/usr/bin/python3 -c 'import rbd' 2>/dev/null || $(MAKE) --no-print-directory deps-python
	flock /tmp/nacre-hosts.lock /usr/bin/python3 tools/conformance/faults/hosts.py --nacre $(NACRE)
	flock /tmp/nacre-hosts.lock /usr/bin/python3 tools/conformance/faults/thrash_hosts.py --nacre $(NACRE) --seconds 12 --every 1 --longest 3

# Not beside `hosts`: both use the same names.
.PHONY: thrash-hosts hosts-figures
thrash-hosts: deps-test build lossydisk   ## THRASH_SECONDS=120 of cuts, kills and lost power of whole hosts under load (skipped without root)
	@$(PYTHON) -c 'import rbd' 2>/dev/null || $(MAKE) --no-print-directory deps-python
	flock /tmp/nacre-hosts.lock /usr/bin/python3 tools/conformance/faults/thrash_hosts.py --nacre $(NACRE) --lossy $(LOSSY) --seconds $(THRASH_SECONDS)

hosts-figures: deps-test build   ## figures of three hosts: made, leader killed, cut off (3 min; for a quiet machine)
	flock /tmp/nacre-hosts.lock /usr/bin/python3 tools/conformance/faults/hosts.py --nacre $(NACRE) --story figures

# Not beside `hosts`: both use the same names.
UPGRADE = /usr/bin/python3 tools/conformance/faults/upgrade.py --nacre $(NACRE) --built $(BUILT)
.PHONY: upgrade before-build
upgrade: deps-test build before-build   ## three hosts of the version before get this program one by one, under load (2 min; skipped without root)
	$(call need,fio rbd,fio ceph-common)
	flock /tmp/nacre-hosts.lock $(UPGRADE)

before-build: deps-build   ## the program of the version before, for `upgrade`
	nice -n 19 $(UPGRADE) --build

.PHONY: deb deb-test
DEB := $(BUILT)/deb
deb: build   ## a Debian package of the release binary, in target/deb
	$(call need,dpkg-deb objdump strip,dpkg binutils)
	$(PYTHON) dist/deb/build.py --nacre $(NACRE) --out $(DEB)

# The first run makes a root of bookworm, which takes a minute.
deb-test: deps-test deb   ## installs the package in a root of its own, runs its service, removes it (skipped without root or mmdebstrap)
	@command -v mmdebstrap >/dev/null || $(MAKE) --no-print-directory deps-mmdebstrap || true
	timeout 300 $(PYTHON) dist/deb/test.py --package "$$(ls -t $(DEB)/nacre_*.deb | head -1)" --cache $(DEB)

bit-rot: deps-test build   ## flips bits in files of a stopped cluster: never wrong data (some 15 seconds)
	$(PYTHON) tools/conformance/faults/bit_rot.py --nacre $(NACRE)

formats: deps-test build   ## opens the clusters of every format version (some seconds)
	$(PYTHON) tools/conformance/faults/formats.py check --nacre $(NACRE)

OBJECTS ?= 1000000
memory: deps-test build   ## memory of an OSD with OBJECTS=1000000 small objects, and its start after kill -9
	$(PYTHON) tools/conformance/figures/memory.py --nacre $(NACRE) --objects $(OBJECTS)

MIB ?= 1024
.PHONY: large-omaps
large-omaps: deps-test build   ## an object with MIB=1024 of omap: snapshot, scrub, second copy, split, removal; how long others wait
	$(PYTHON) tools/conformance/figures/large_omap.py --nacre $(NACRE) --mib $(MIB)

# Root, and control groups that count memory; skipped where these are not.
.PHONY: memory-pressure memory-pressure-long
memory-pressure: deps-test build   ## three OSDs in a control group of 512 MiB, under load, its limit lowered and raised (1 min)
	timeout 400 $(PYTHON) tools/conformance/faults/memory_pressure.py --nacre $(NACRE) --dir .

MINUTES ?= 10
memory-pressure-long: deps-test build   ## the same for MINUTES=10, and in one of 2 GiB
	$(PYTHON) tools/conformance/faults/memory_pressure.py --nacre $(NACRE) --dir . --minutes $(MINUTES)
	$(PYTHON) tools/conformance/faults/memory_pressure.py --nacre $(NACRE) --dir . --minutes $(MINUTES) --limit-mib 2048

.PHONY: memory-hosts
memory-hosts: deps-test build   ## MINUTES=10 of load in virtual machines: a host of 2 GiB, and a control group (version 2) of 512 MiB
	$(call need,qemu-system-x86_64 busybox mkfs.ext4 strip,qemu-system-x86 busybox-static e2fsprogs binutils)
	$(PYTHON) tools/conformance/guests/small_host.py --nacre $(NACRE) --minutes $(MINUTES) --cache $(BUILT)/guests

.PHONY: memory-small bench
memory-small: deps-test build   ## the same with 50,000 objects (half a minute)
	timeout 300 $(PYTHON) tools/conformance/figures/memory.py --nacre $(NACRE) --objects 50000 --seconds 2

BENCH ?=
bench: deps-build   ## micro-benchmarks: medians against demands; BENCH= part of a name, as `make bench BENCH=crush`
	$(PYTHON) tools/microbench.py $(BENCH)

SCALE = timeout 1800 $(CARGO) run --release -p scale --

.PHONY: scale
scale: deps-build   ## figures of a monitor among 1,000 OSDs, and of changes of the map by stock librados (10 min)
	$(SCALE) lost
	$(SCALE) commands
	$(SCALE) changes 10000 16
	$(PYTHON) tools/conformance/figures/map_changes.py --nacre target/release/nacre

# Sizes of disks, operations of a day, and numbers of objects of the table. 20 million objects need 8 GiB of memory for the disk's model.
AGE_SIZES ?= 4G
AGE_OPS ?= 10000
AGE_OBJECTS ?= 60000,1500000
.PHONY: age age-long aged
age-long:      ## the same with disks up to 16 TiB and 20 million objects (hours)
	$(MAKE) --no-print-directory age AGE_SIZES="4G 256G 16T" AGE_OPS=40000 AGE_OBJECTS=60000,1500000,10000000,20000000

# A real Ceph beside it, if AGED_PEER names a script that starts and stops one: AGED_FORM="" is the long form, on 16 GiB.
AGED_FORM ?= --short
aged: deps-test build   ## operations per second on a disk just filled, and on the same disk aged by stock clients (10 min)
	$(call need,fio,fio)
	cd tools/conformance/figures && $(PYTHON) aged.py --nacre $(abspath $(NACRE)) $(if $(AGED_PEER),--peer $(AGED_PEER)) $(AGED_FORM)

age: deps-build   ## writes docs/performance/aging.md: what a store costs that is years old (15 min; for a quiet machine)
	$(CARGO) build --release -p age
	$(BUILT)/release/age page "$$(git rev-parse --short HEAD)" $(AGE_OPS) $(AGE_OBJECTS) $(AGE_SIZES) > $(BUILT)/aging.md
	mv $(BUILT)/aging.md docs/performance/aging.md

INSTRUCTIONS = $(RELEASE) --bin instructions && timeout 900 $(BUILT)/release/instructions

instructions: deps-build   ## instructions for each operation, compared with docs/instructions.json (2 min)
	$(call need,valgrind,valgrind)
	$(INSTRUCTIONS) check docs/instructions.json

instructions-profile: deps-build   ## the same by function, in target/instructions/*.txt
	$(call need,valgrind,valgrind)
	$(INSTRUCTIONS) profile target/instructions

instructions-update: deps-build   ## write docs/instructions.json anew, after a change that is meant
	$(call need,valgrind,valgrind)
	$(INSTRUCTIONS) update docs/instructions.json

idle: deps-test build   ## seconds to `ready`, memory and processor time of a cluster that nobody uses
	timeout 180 $(PYTHON) tools/conformance/figures/idle.py --nacre $(NACRE)

.PHONY: at-rest
.PHONY: tools-of-others
tools-of-others: deps-test build   ## answers to every command that reads, as other people's tools ask, against Ceph's (LIST=1: what else there is)
	$(PYTHON) tools/conformance/foreign/tools_of_others.py --nacre $(NACRE) $(if $(LIST),--list)

at-rest: deps-test build   ## processor time of OSDs that lost their monitors and peers, are full or suspended; a client in a loop (5 min)
	timeout 300 $(PYTHON) tools/conformance/faults/at_rest.py --nacre $(NACRE)

flamegraph: build   ## make docs/laboratory/flamegraph.html anew: where the processor time of 4 KiB operations goes
	$(call need,perf,linux-perf)
	$(call need,ceph rados,ceph-common)
	rm -rf target/flamegraph
	$(NACRE) lab run lab/experiments/flamegraph.toml --out target/flamegraph
	$(NACRE) lab report target/flamegraph --out docs/laboratory/flamegraph.html
	rm docs/laboratory/flamegraph.csv docs/laboratory/flamegraph.json docs/laboratory/flamegraph.md

test-long: lint unit build   ## hours: many seeds, 500 kill rounds, a million mappings
	NACRE_CRUSH_MAPPINGS=1000000 $(CARGO) test --release -p crush -p maps
	$(MAKE) sim-long SEEDS=20000
	$(MAKE) conformance
	$(MAKE) kill-rounds-long model-long soak memory

.PHONY: lab-test
lab-test: deps-test build   ## the laboratory on itself: wrong files, an interruption, a kill, hard times, a report, a comparison (2 min)
	$(call need,fio mkfs.ext4 losetup,fio e2fsprogs mount)
	timeout 300 $(PYTHON) lab/test.py --nacre $(NACRE)

demo: build   ## a temporary cluster, a matrix of rados bench, a table
	$(call need,ceph rados,ceph-common)
	$(NACRE) demo --seconds $(SECONDS_EACH)

clean:   ## remove what was built
	$(CARGO) clean
