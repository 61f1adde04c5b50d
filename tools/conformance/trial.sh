#!/usr/bin/env bash
# What clients of any release can do with a cluster: one line for each command, the last lines of what it said if it failed.
# usage: CEPH_CONF=... trial.sh POOL        or, with clients of another release: CEPH_CONF=... release.sh run ROOT .../trial.sh POOL
# POOL and POOL-images are made for it and removed again. Ends with 1 if a command failed.
set -u
pool=${1:?a name for a new pool} work=$(mktemp -d) failed=0
trap 'rm -rf "$work"' EXIT

try() {
  if timeout 60 "$@" >"$work/said" 2>&1; then echo "ok    $*"; return; fi
  echo "FAIL  $* (exit $?)"
  tail -3 "$work/said" | sed 's/^/      /'
  failed=$((failed + 1))
}

# The output of a command, as the last argument of the one before.
lock_owner() { rbd -p "$images" lock ls image | tail -1 | awk '{print $1}'; }

ceph --version
head -c 5000000 /dev/urandom >"$work/data"
images=$pool-images

try ceph -s
try ceph osd pool create "$pool" 8 8
try ceph osd pool application enable "$pool" rados
for what in df "osd tree" "osd dump" "osd df" "osd perf" "pg dump" "pg ls" "health detail" "tell osd.0 version" "tell mon.a version" "config dump" \
  "config show osd.0" "auth ls" versions features "balancer status" "log last 3"; do
  # shellcheck disable=SC2086
  try ceph $what
done
try ceph auth get-or-create client.trial mon 'profile rbd' osd 'profile rbd'
try ceph auth rm client.trial

try rados -p "$pool" put object "$work/data"
try rados -p "$pool" get object "$work/back"
try cmp "$work/data" "$work/back"
try rados -p "$pool" bench 2 write -b 65536 -t 8 --no-cleanup
try rados -p "$pool" bench 2 seq -t 8
try rados -p "$pool" bench 2 rand -t 8
try rados -p "$pool" cleanup
try rados -p "$pool" setxattr object name value
try rados -p "$pool" listxattr object
try rados -p "$pool" setomapval object key value
try rados -p "$pool" listomapvals object
for what in ls "stat object" df "mksnap s1" lssnap "rmsnap s1" "listwatchers object"; do
  # shellcheck disable=SC2086
  try rados -p "$pool" $what
done

try ceph osd pool create "$images" 8 8
try rbd pool init "$images"
try rbd -p "$images" create image --size 64M
try rbd -p "$images" info image
try rbd -p "$images" bench image --io-type write --io-size 4096 --io-threads 8 --io-total 2M
try rbd -p "$images" bench image --io-type read --io-total 2M
try rbd -p "$images" snap create image@s
try rbd -p "$images" snap protect image@s
try rbd clone "$images/image@s" "$images/clone"
try rbd -p "$images" flatten clone
try rbd -p "$images" du
try rbd -p "$images" resize image --size 128M
try rbd -p "$images" lock add image me
try rbd -p "$images" lock rm image me "$(lock_owner)"
try rbd -p "$images" export image "$work/exported"
try rbd -p "$images" import "$work/data" imported
try rbd -p "$images" status image
try rbd -p "$images" trash mv imported
try rbd -p "$images" trash ls
try rbd trash purge "$images"
try rbd -p "$images" snap unprotect image@s
try rbd -p "$images" snap purge image
try rbd -p "$images" rm image
try rbd -p "$images" create striped --size 64M --object-size 1M --stripe-unit 64K --stripe-count 4
try rbd -p "$images" migration prepare striped "$images/moved"
try rbd migration execute "$images/moved"
try rbd migration commit "$images/moved"
try rbd -p "$images" create all --size 32M --image-feature layering,exclusive-lock,object-map,fast-diff,deep-flatten
try rbd -p "$images" object-map check all
try rbd -p "$images" feature disable all object-map
try rbd namespace create "$images/inner"
try rbd create --size 8M "$images/inner/image"
try rbd group create "$images/group"
try rbd group image add "$images/group" "$images/all"
try rbd group snap create "$images/group@s"
try /usr/bin/python3 -c "
import os, rados, rbd
cluster = rados.Rados(conffile=os.environ['CEPH_CONF'])
cluster.connect(timeout=20)
io = cluster.open_ioctx('$images')
io.write_full('object', b'y' * 70000)
assert io.read('object', 70000) == b'y' * 70000
with rados.WriteOpCtx() as op:
    io.set_omap(op, ('a', 'b'), (b'1', b'2'))
    io.operate_write_op(op, 'omap')
rbd.RBD().create(io, 'python', 1 << 24)
with rbd.Image(io, 'python') as image:
    image.write(b'z' * 4096, 0)
    image.flush()
    assert image.read(0, 4096) == b'z' * 4096
    image.create_snap('s')
    assert [s['name'] for s in image.list_snaps()] == ['s']
io.close()
cluster.shutdown()
"
try fio --name=trial --ioengine=rbd --clientname=admin --pool="$images" --rbdname=python --rw=randwrite --bs=4k --size=2M --iodepth=8 --verify=crc32c
try qemu-img info "rbd:$images/python:conf=$CEPH_CONF"
try ceph osd pool rm "$images" "$images" --yes-i-really-really-mean-it
try ceph osd pool rm "$pool" "$pool" --yes-i-really-really-mean-it
echo "trial: $failed failed"
[ "$failed" = 0 ]
