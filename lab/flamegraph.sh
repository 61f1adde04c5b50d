#!/bin/bash
# Draws where the server's processor time goes under a load of the stock `rados bench`:
#
#   lab/flamegraph.sh [-o docs/flamegraph-4k-write.svg] [-b 4096] [-t 16] [-s SECONDS] [-m write|seq|rand] [-p PORT]
#
# Starts a cluster of one OSD in a temporary folder, loads it, samples the daemon with perf (by its clock: virtual machines have no
# hardware counters), and hands the stacks to lab/flamegraph.py. The binary must be built (`make build`). Stacks are unwound from the
# debugger's tables (--call-graph dwarf), so no special build is needed. Needs perf (linux-perf) and the right to use it (root, or
# kernel.perf_event_paranoid <= 1).
set -euo pipefail
cd "$(dirname "$0")/.."

out=docs/flamegraph-4k-write.svg block=4096 threads=16 seconds=10 mode=write port=24200
while getopts o:b:t:s:m:p: flag; do
  case $flag in
    o) out=$OPTARG ;; b) block=$OPTARG ;; t) threads=$OPTARG ;; s) seconds=$OPTARG ;; m) mode=$OPTARG ;; p) port=$OPTARG ;;
    *) exit 2 ;;
  esac
done
nacre=${NACRE:-target/release/nacre}
for tool in perf rados; do
  command -v $tool >/dev/null || { echo "$tool is missing (apt install linux-perf ceph-common)"; exit 1; }
done

scratch=$(mktemp -d)
server=
finish() {
  [ -z "$server" ] || { kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; }
  rm -rf "$scratch"
}
trap finish EXIT

"$nacre" up --dir "$scratch/cluster" --osds 1 --auth none --port "$port" >"$scratch/up" &
server=$!
for _ in $(seq 100); do grep -q ^ready "$scratch/up" && break; sleep 0.1; done
grep -q ^ready "$scratch/up" || { echo "the cluster did not become ready"; exit 1; }
export CEPH_CONF=$scratch/cluster/ceph.conf
ceph osd pool create bench 32 >/dev/null 2>&1
bench=(rados -p bench bench)
[ "$mode" = write ] || "${bench[@]}" 5 write -b "$block" -t 64 --no-cleanup >/dev/null

load=("${bench[@]}" $((seconds + 3)) "$mode" -t "$threads")
[ "$mode" != write ] || load+=(-b "$block")
"${load[@]}" --no-cleanup >"$scratch/bench" 2>&1 &
client=$!
sleep 2
perf record -q -e cpu-clock -F 499 --call-graph dwarf,16384 -p "$server" -o "$scratch/perf.data" -- sleep "$seconds"
wait "$client" || true
perf script -i "$scratch/perf.data" --no-inline -F comm,ip,sym 2>/dev/null >"$scratch/stacks"
title="nacre, rados bench $mode, $block bytes, $threads in flight"
/usr/bin/python3 lab/flamegraph.py --title "$title" <"$scratch/stacks" >"$scratch/svg"
mv "$scratch/svg" "$out"
echo "$out: $(stat -c %s "$out") bytes"
