//! What lies on a disk that holds no store of ours, in words: whoever named the wrong disk sees it at once.

use std::os::unix::fs::FileExt;
use std::path::Path;

/// Marks of what disks hold: where, which bytes, and what it is. Sources: the headers of the Linux kernel for each of
/// them (`include/uapi/linux/magic.h` and the folders of the file systems), the UEFI specification (GPT), LUKS's and
/// qcow2's own.
const MARKS: &[(u64, &[u8], &str)] = &[
    (0x438, &[0x53, 0xef], "an ext2, ext3 or ext4 file system"),
    (0, b"XFSB", "an XFS file system"),
    (0x1_0040, b"_BHRfS_M", "a BTRFS file system"),
    (0x400, &[0x10, 0x20, 0xf5, 0xf2], "an F2FS file system"),
    (0, b"LUKS\xba\xbe", "an encrypted volume (LUKS)"),
    (0x200, b"LABELONE", "a physical volume of LVM"),
    (0x1000, &[0xfc, 0x4e, 0x2b, 0xa9], "a member of a RAID array (md)"),
    (0xff6, b"SWAPSPACE2", "swap space"),
    (0, b"bluestore block device", "an OSD of Ceph"),
    (0, b"QFI\xfb", "an image in QEMU's format qcow2"),
    (0x200, b"EFI PART", "a partition table (GPT)"),
    (0x8001, b"CD001", "an ISO 9660 file system"),
    // Last: boot code of file systems ends with it, too.
    (0x1fe, &[0x55, 0xaa], "a partition table (MBR), or a boot sector"),
];

/// Returns what lies on the disk, if it is known.
pub(crate) fn what(path: &Path) -> Option<&'static str> {
    let file = std::fs::File::open(path).ok()?;
    let has = |at: u64, mark: &[u8]| {
        let mut found = vec![0; mark.len()];
        file.read_exact_at(&mut found, at).is_ok() && found == mark
    };
    MARKS.iter().find(|(at, mark, _)| has(*at, mark)).map(|(_, _, what)| *what)
}

#[cfg(test)]
mod tests {
    use super::{MARKS, what};

    #[test]
    fn each_mark_is_found_where_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk");
        for (at, mark, name) in MARKS {
            let mut bytes = vec![0; 0x1_1000];
            bytes[*at as usize..][..mark.len()].copy_from_slice(mark);
            std::fs::write(&path, &bytes).unwrap();
            assert_eq!(what(&path), Some(*name));
        }
        std::fs::write(&path, "text").unwrap();
        assert_eq!(what(&path), None);
    }
}
