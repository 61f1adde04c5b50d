"""Guests on QEMU's own driver: images as virtio disks, with each way of caching."""
import os

CACHES = ("none", "writeback", "unsafe")


def drives(cluster, name):
    """Images for a guest, one for each way of caching, and QEMU's options for them: the first is /dev/vda."""
    options = []
    for cache in CACHES:
        image = cluster.image(f"{name}-{cache}", "64M")
        file = f"rbd:rbd/{image}:conf={cluster.conf}"
        options += ["-drive", f"if=virtio,format=raw,discard=unmap,cache={cache},file={file}"]
    return options


def disks(guest, cluster, steps):
    """Writes, flushes and discards on each disk, judged by librbd."""
    for letter, cache in zip("abc", CACHES):
        device = f"/dev/vd{letter}"
        with steps.begin(f"virtio disk, cache={cache}: fio with verify, flush, discard", guest.name):
            guest.run(verify(device, "16M", "--fsync=16"), seconds=120)
            guest.run(f"mkfs.ext4 -q -E nodiscard {device} && mount -t ext4 {device} /mnt && dd if=/dev/urandom of=/mnt/x bs=1M count=8 conv=fsync 2>/dev/null")
            written = guest.run("sha256sum /mnt/x; umount /mnt")
            guest.run(f"mount -t ext4 {device} /mnt")
            assert guest.run("sha256sum /mnt/x; umount /mnt") == written, "a file changed over a remount"
            guest.run(f"blkdiscard -o {32 << 20} -l {16 << 20} {device} && sync")
            left = guest.run(f"dd if={device} bs=1M skip=32 count=16 2>/dev/null | tr -d '\\0' | wc -c")
            assert left == "0", f"{left} bytes survived a discard"
            if cache != "unsafe":
                inside = guest.run(f"echo 3 >/proc/sys/vm/drop_caches; sha256sum {device}").split()[0]
                assert inside == cluster.digest(f"{guest.name}-{cache}"), "the image differs from what the guest reads"


def verify(device, size, *more):
    """fio: random writes, each read again and compared."""
    return " ".join([
        f"fio --name=verify --filename={device} --rw=randwrite --bs=4k-64k --size={size} --ioengine=libaio --iodepth=8 --direct=1",
        "--verify=crc32c --verify_fatal=1 --randseed=7 --output=/tmp/fio.out", *more, "|| { cat /tmp/fio.out; exit 1; }",
    ])


def under_load(device, seconds):
    """The same for a time, over and over."""
    return verify(device, "24M", "--time_based", f"--runtime={seconds}", "--verify_backlog=64")


def environment(cluster):
    """What QEMU's driver finds its cluster by."""
    return dict(os.environ, CEPH_CONF=cluster.conf)
