"""The Linux kernel's client: what a guest does with `rbd map`, judged from inside and by librbd from outside."""
from live import until

ALL_FEATURES = "layering,exclusive-lock,object-map,fast-diff,deep-flatten"


class KernelClient:
    """A guest that maps images, and the cluster that they are on."""

    def __init__(self, guest, cluster, steps):
        self.guest, self.cluster, self.steps = guest, cluster, steps

    def step(self, sentence):
        return self.steps.begin(sentence, self.guest.name)

    def own(self, image):
        """An image's name, of its own for each guest."""
        return f"{self.guest.name}-{image}"

    def options(self, mode="prefer-crc", name="admin", key=None, more=""):
        key = key or self.cluster.key(name)
        return f"name={name},ms_mode={mode}" + (f",secret={key}" if key else "") + (f",{more}" if more else "")

    def add(self, image, snap="-", **options):
        """The script that maps an image by the kernel's own interface, and says the device's number."""
        line = f"{self.cluster.monitor} {self.options(**options)} rbd {image} {snap}"
        return f"before=$(ls /sys/bus/rbd/devices)\necho '{line}' >/sys/bus/rbd/add_single_major || exit 1\n" \
               'for id in $(ls /sys/bus/rbd/devices); do case " $(echo $before) " in *" $id "*) ;; *) echo $id; esac; done'

    def map(self, image, snap="-", **options):
        """Maps an image; gives its device."""
        said = self.guest.run(self.add(image, snap, **options), seconds=60)
        return f"/dev/rbd{said.split()[-1]}"

    def map_fails(self, image, **options):
        """What the kernel says when an image cannot be mapped."""
        return self.guest.run(f"dmesg -c >/dev/null\n( {self.add(image, **options)}\n) && exit\ndmesg; exit 1", fails=True, seconds=90)

    def unmap(self, device, how=""):
        number = device.removeprefix("/dev/rbd")
        self.guest.run(f"echo '{number} {how}' >/sys/bus/rbd/remove_single_major", seconds=60)

    def digest(self, device):
        return self.guest.run(f"echo 3 >/proc/sys/vm/drop_caches; sha256sum {device}").split()[0]

    def fill(self, device, megabytes, at=0):
        """Random data, durable when this returns."""
        self.guest.run(f"dd if=/dev/urandom of={device} bs=1M seek={at} count={megabytes} conv=fsync 2>/dev/null && blockdev --flushbufs {device}")


def same(what, ours, theirs):
    assert ours == theirs, f"{what}: {ours} in the guest, {theirs} outside"


def alone(client):
    """What one guest does by itself."""
    stock_map(client)
    for mode in ("crc", "secure", "prefer-crc", "prefer-secure"):
        modes(client, mode)
    restricted_key(client)
    features(client)
    data_pool(client)
    snapshots_and_clones(client)
    resize(client)
    discard(client)
    refusals(client)


def stock_map(client):
    guest, cluster = client.guest, client.cluster
    with client.step("stock `rbd map` with nothing but ceph.conf and keyring; mkfs, mount, write, remount, compare"):
        image = cluster.image(client.own("files"), "96M")
        for path, text in cluster.client_files().items():
            guest.run(f"mkdir -p /etc/ceph; cat >{path} <<'END'\n{text}\nEND")
        device = guest.run(f"rbd map -o noudev rbd/{image} 2>&1", seconds=90).split()[-1]
        guest.run(f"mkfs.ext4 -q {device} && mount -t ext4 {device} /mnt && dd if=/dev/urandom of=/mnt/a bs=1M count=24 && cp /mnt/a /mnt/b && sync")
        written = guest.run("cd /mnt && sha256sum a b")
        guest.run(f"umount /mnt && rbd unmap -o noudev {device}", seconds=90)
        device = guest.run(f"rbd map -o noudev rbd/{image} 2>&1", seconds=90).split()[-1]
        guest.run(f"mount -t ext4 {device} /mnt")
        same("files after a remount", guest.run("cd /mnt && sha256sum a b"), written)
        guest.run("umount /mnt")
        same("the whole image", client.digest(device), cluster.digest(image))
        client.unmap(device)


def modes(client, mode):
    with client.step(f"`ms_mode={mode}`"):
        image = client.cluster.image(client.own(f"mode-{mode}"), "16M")
        device = client.map(image, mode=mode)
        client.fill(device, 3, at=2)
        same("the image", client.digest(device), client.cluster.digest(image))
        client.unmap(device)


def restricted_key(client):
    if client.cluster.auth != "cephx":
        return
    with client.step("a client with `profile rbd` on one pool: its pool works, another is refused"):
        name = client.own("user")
        client.cluster.run("ceph", "auth", "get-or-create", f"client.{name}", "mon", "profile rbd", "osd", "profile rbd pool=rbd")
        image = client.cluster.image(client.own("restricted"), "16M")
        device = client.map(image, name=name)
        client.fill(device, 2)
        same("the image", client.digest(device), client.cluster.digest(image))
        client.unmap(device)
        client.cluster.run("rbd", "create", "--size", "8M", f"data/{image}")
        script = client.add(image, name=name).replace(" rbd " + image, " data " + image)
        said = client.guest.run(script, fails=True)
        assert "not permitted" in said, said


def features(client):
    for chosen in ("layering", "layering,exclusive-lock", ALL_FEATURES):
        with client.step(f"features {chosen}"):
            image = client.cluster.image(client.own(f"features-{chosen.count(',')}"), "32M", chosen)
            device = client.map(image)
            client.fill(device, 9, at=6)
            same("the image", client.digest(device), client.cluster.digest(image))
            client.unmap(device)
            if "object-map" in chosen:
                client.cluster.run("rbd", "object-map", "check", f"rbd/{image}")
                flags = client.cluster.ceph_rbd("info", f"rbd/{image}")["flags"]
                assert flags == [], f"flags of the image after the kernel wrote: {flags}"
                used = client.cluster.ceph_rbd("du", f"rbd/{image}")["images"][0]["used_size"]
                assert used == 12 << 20, f"{used} bytes are used of objects 1 to 3"


def data_pool(client):
    with client.step("an image with its data in another pool"):
        image = client.cluster.image(client.own("data-pool"), "16M", None, "--data-pool", "data")
        device = client.map(image)
        client.fill(device, 5, at=1)
        same("the image", client.digest(device), client.cluster.digest(image))
        client.unmap(device)


def snapshots_and_clones(client):
    guest, cluster = client.guest, client.cluster
    with client.step("a snapshot is read-only and stays; a clone reads through it and copies up; flatten under the kernel"):
        parent, clone = client.own("parent"), client.own("clone")
        cluster.image(parent, "24M", ALL_FEATURES)
        device = client.map(parent)
        client.fill(device, 16)
        before = client.digest(device)
        cluster.run("rbd", "snap", "create", f"rbd/{parent}@s")
        cluster.run("rbd", "snap", "protect", f"rbd/{parent}@s")
        client.fill(device, 4, at=3)
        snapshot = client.map(parent, "s")
        same("the snapshot", client.digest(snapshot), before)
        guest.run(f"dd if=/dev/zero of={snapshot} bs=4k count=1 conv=fsync", fails=True)
        assert client.digest(device) != before, "the image did not change"
        cluster.run("rbd", "clone", f"rbd/{parent}@s", f"rbd/{clone}")
        copy = client.map(clone)
        same("a fresh clone", client.digest(copy), before)
        client.fill(copy, 1, at=5)
        same("the clone after a write", client.digest(copy), cluster.digest(clone))
        cluster.run("rbd", "flatten", "--no-progress", f"rbd/{clone}")
        same("the clone after flatten", client.digest(copy), cluster.digest(clone))
        for each in (copy, snapshot, device):
            client.unmap(each)


def resize(client):
    guest, cluster = client.guest, client.cluster
    with client.step("a resize is seen by the guest"):
        image = cluster.image(client.own("resized"), "16M")
        device = client.map(image)
        client.fill(device, 16)
        for size in (40, 8, 24):
            cluster.run("rbd", "resize", "--no-progress", "--allow-shrink", "--size", f"{size}M", f"rbd/{image}")
            guest.run(f"for i in $(seq 100); do [ $(blockdev --getsize64 {device}) = {size << 20} ] && exit; sleep 0.1; done; exit 1")
        same("the image", client.digest(device), cluster.digest(image))
        client.unmap(device)


def discard(client):
    guest, cluster = client.guest, client.cluster
    with client.step("discard and write-zeroes: whole objects go, parts read as zeros"):
        image = cluster.image(client.own("discarded"), "24M", ALL_FEATURES)
        device = client.map(image)
        client.fill(device, 24)
        guest.run(f"/usr/bin/blkdiscard -o {4 << 20} -l {8 << 20} {device} && /usr/bin/blkdiscard -z -o {(16 << 20) + 65536} -l {1 << 20} {device}")
        zeros = guest.run(f"dd if={device} bs=1M skip=4 count=8 2>/dev/null | tr -d '\\0' | wc -c")
        assert zeros == "0", f"{zeros} bytes survived a discard"
        zeros = guest.run(f"dd if={device} bs=64k skip=257 count=16 2>/dev/null | tr -d '\\0' | wc -c")
        assert zeros == "0", f"{zeros} bytes survived write-zeroes"
        same("the image", client.digest(device), cluster.digest(image))
        client.unmap(device)
        cluster.run("rbd", "object-map", "check", f"rbd/{image}")
        used = cluster.ceph_rbd("du", f"rbd/{image}")["images"][0]["used_size"]
        assert used == 16 << 20, f"{used} bytes are used after two objects were discarded"


def refusals(client):
    """The errors that the kernel gets from a real Ceph 16.2.15, word for word."""
    cluster = client.cluster
    with client.step("a missing image, a journaled image, a wrong key, an unknown user: each its error"):
        said = client.map_fails(nothing := client.own("nothing"))
        assert "No such file" in said and f"rbd: image rbd/{nothing} does not exist" in said, said
        journaled = cluster.image(client.own("journaled"), "8M", "exclusive-lock,journaling")
        said = client.map_fails(journaled)
        assert "image uses unsupported features: 0x40" in said and "No such device or address" in said, said
        if cluster.auth == "cephx":
            plain = cluster.image(client.own("plain"), "8M")
            wrong = "AQD//////////xAAAAAAAAAAAAAAAAAAAAAAAAAAAA=="
            for name in ("admin", "nobody"):
                said = client.map_fails(plain, name=name, key=wrong)
                assert "Permission denied" in said and "msgr authentication failed: -13" in said, said


def lock_between(a, b):
    """Two guests with one image: the lock goes where the writes are."""
    cluster = a.cluster
    with a.step("two guests write to one image in turn: the lock moves between them"):
        image = cluster.image("shared", "32M", ALL_FEATURES)
        on_a, on_b = a.map(image), b.map(image)
        for turn in range(3):
            a.fill(on_a, 2, at=4 * turn)
            same("what the other guest reads", b.digest(on_b), cluster.digest(image))
            b.fill(on_b, 2, at=4 * turn + 2)
            same("what the first guest reads", a.digest(on_a), cluster.digest(image))
        owners = cluster.ceph_rbd("lock", "ls", f"rbd/{image}")
        assert len(owners) == 1, f"owners of the lock: {owners}"
        a.unmap(on_a)
        b.unmap(on_b)
    with a.step("a guest that maps with `exclusive` keeps the lock: another maps it read-only or not at all"):
        held = a.map(image, more="exclusive")
        a.fill(held, 1)
        for more in ("exclusive", ""):
            assert "Read-only file system" in (said := b.map_fails(image, more=more)), said
        other = b.map(image, more="ro")
        same("what a reader sees", b.digest(other), cluster.digest(image))
        b.unmap(other)
        a.unmap(held)


def blocklisted(client):
    """A guest that is fenced off: its writes fail, and a new map of the image works again."""
    guest, cluster = client.guest, client.cluster
    with client.step("a guest that is blocklisted gets errors; unmapped and mapped again it writes"):
        image = cluster.image(client.own("fenced"), "16M", ALL_FEATURES)
        device = client.map(image, more="noshare")
        client.fill(device, 2)
        before = cluster.digest(image)
        [watcher] = cluster.ceph_rbd("status", f"rbd/{image}")["watchers"]
        cluster.run("ceph", "osd", "blocklist", "add", watcher["address"])
        guest.run(f"dd if=/dev/urandom of={device} bs=4k count=4 oflag=direct 2>/dev/null", fails=True, seconds=60)
        same("a fenced guest's image", before, cluster.digest(image))
        client.unmap(device, "force")
        device = client.map(image, more="noshare")
        client.fill(device, 1, at=3)
        same("the image", client.digest(device), cluster.digest(image))
        client.unmap(device)


def written(cluster):
    """Bytes that clients have written to all OSDs."""
    return sum(cluster.admin(f"osd.{n}", "perf", "dump")["osd"]["op_in_bytes"] for n in range(3))


def killed_while_writing(victim, heir):
    """A guest loses its power in a write; another takes its lock and goes on. Waits for the watch of the dead to end (30 s)."""
    cluster = victim.cluster
    with heir.step("a guest is killed in a write; the next breaks its lock and writes"):
        image = cluster.image("inherited", "32M", ALL_FEATURES)
        device = victim.map(image)
        victim.fill(device, 4)
        first = victim.guest.run(f"dd if={device} bs=1M count=4 2>/dev/null | sha256sum").split()[0]
        victim.guest.start(f"while true; do dd if=/dev/urandom of={device} bs=64k seek=64 count=128 oflag=direct 2>/dev/null; done")
        before = written(cluster)
        until("the guest writes", lambda: written(cluster) > before + (1 << 20))
        victim.guest.kill()
        device = heir.map(image)
        heir.guest.run(f"dd if=/dev/urandom of={device} bs=1M seek=20 count=4 conv=fsync 2>/dev/null", seconds=90)
        same("what the dead guest had finished", heir.guest.run(f"dd if={device} bs=1M count=4 2>/dev/null | sha256sum").split()[0], first)
        same("the image", heir.digest(device), cluster.digest(image))
        heir.unmap(device)
        cluster.run("rbd", "object-map", "check", f"rbd/{image}")
