//! What the machine tells about itself.

use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::path::Path;
use std::time::{Duration, Instant};

/// First port that managers and OSDs try.
const FIRST_PORT: u16 = 6800;
/// Last one.
const LAST_PORT: u16 = 7568;
/// Time for which a port that is in use may become free.
const AFTERMATH: Duration = Duration::from_millis(1500);

fn line(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

/// Its name, without a domain.
pub(crate) fn name() -> String {
    let name = line("/proc/sys/kernel/hostname");
    match name.split('.').next() {
        Some(short) if !short.is_empty() => short.to_owned(),
        _ => "localhost".to_owned(),
    }
}

/// Returns true if this machine has an address. (A datagram socket can be bound to no other.)
pub(crate) fn has(ip: IpAddr) -> bool {
    UdpSocket::bind((ip, 0)).is_ok()
}

/// Name → value, for `metadata` of OSDs, monitors and managers; named as Ceph does (`collect_sys_info`).
pub(crate) fn metadata() -> BTreeMap<String, String> {
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = |name: &str| {
        let row = memory.lines().find(|l| l.starts_with(name)).unwrap_or_default();
        row.split_whitespace().nth(1).unwrap_or("0").to_owned()
    };
    let release = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    let distribution = |name: &str| {
        let row = release.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix('='));
        row.unwrap_or("unknown").trim_matches('"').to_owned()
    };
    let cpus = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cpu = cpus.lines().find_map(|l| l.strip_prefix("model name")?.split_once(": ")).map_or("", |(_, n)| n).to_owned();
    let rows = [
        ("arch", std::env::consts::ARCH.to_owned()),
        ("cpu", cpu),
        ("distro", distribution("ID")),
        ("distro_description", distribution("PRETTY_NAME")),
        ("distro_version", distribution("VERSION_ID")),
        ("hostname", name()),
        ("kernel_description", line("/proc/sys/kernel/version")),
        ("kernel_version", line("/proc/sys/kernel/osrelease")),
        ("mem_swap_kb", kib("SwapTotal:")),
        ("mem_total_kb", kib("MemTotal:")),
        ("os", "Linux".to_owned()),
        ("nacre_version", env!("CARGO_PKG_VERSION").to_owned()),
        (types::Levels::COMMIT, env!("NACRE_COMMIT").to_owned()),
    ];
    rows.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Returns whether the disk below `path` turns; `None` if the system does not tell.
pub(crate) fn rotational(path: &Path) -> Option<bool> {
    about_disk(path, "queue/rotational").or_else(|| about_disk(path, "../queue/rotational"))
}

/// Returns true if the disk below `path` may only be read. (It can be opened for writing all the same.)
pub(crate) fn read_only(path: &Path) -> bool {
    about_disk(path, "ro") == Some(true)
}

/// The number of the device that `path` is, or lies on: major and minor.
fn device_number(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::{FileTypeExt, MetadataExt};
    let meta = std::fs::metadata(path).ok()?;
    let device = if meta.file_type().is_block_device() { meta.rdev() } else { meta.dev() };
    // Numbers as glibc packs them.
    let major = (device >> 8) & 0xfff | (device >> 32) & 0xffff_f000;
    let minor = device & 0xff | (device >> 12) & 0xffff_ff00;
    Some((major, minor))
}

/// Returns what the system tells of the disk that `path` is, or lies on.
fn about_disk(path: &Path, what: &str) -> Option<bool> {
    let (major, minor) = device_number(path)?;
    let text = std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/{what}")).ok()?;
    Some(text.trim() == "1")
}

/// The disks that paths are, or lie on, for `metadata`, named as Ceph does: `devices` (`sda,sdb`), `device_ids` (`sda=`
/// maker, model and serial number) and `device_paths` (`sda=/dev/disk/by-path/…`), as far as the system tells.
pub(crate) fn disks(paths: &[&Path]) -> BTreeMap<String, String> {
    let mut names: Vec<String> = paths.iter().filter_map(|path| disk_name(path)).collect();
    names.sort();
    names.dedup();
    let list = |of: &dyn Fn(&str) -> Option<String>| {
        let known = names.iter().filter_map(|name| Some(format!("{name}={}", of(name)?)));
        known.collect::<Vec<_>>().join(",")
    };
    let rows = [("devices", names.join(",")), ("device_ids", list(&disk_id)), ("device_paths", list(&disk_path))];
    rows.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// The kernel's name of the whole disk below a path: `sda`, also for its partition `sda1`.
fn disk_name(path: &Path) -> Option<String> {
    let (major, minor) = device_number(path)?;
    let mut at = std::fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    if at.join("partition").exists() {
        at.pop();
    }
    Some(at.file_name()?.to_str()?.to_owned())
}

/// The name of a disk for good, as the system's device manager (udev) knows it.
fn disk_id(name: &str) -> Option<String> {
    let number = line(&format!("/sys/block/{name}/dev"));
    id_of(&std::fs::read_to_string(format!("/run/udev/data/b{number}")).ok()?)
}

/// The name of a disk from udev's record of it: maker, model and serial number as far as they are there, as Ceph joins
/// them (`get_device_id`).
fn id_of(record: &str) -> Option<String> {
    let of = |key: &str| {
        let value = record.lines().find_map(|l| l.strip_prefix("E:")?.strip_prefix(key)?.strip_prefix('='));
        value.map(str::trim).filter(|v| !v.is_empty())
    };
    let serial = of("ID_SCSI_SERIAL").or(of("ID_SERIAL_SHORT"));
    let id = match (of("ID_MODEL"), serial) {
        (Some(model), Some(serial)) => {
            let maker = of("ID_VENDOR").filter(|v| *v != "ATA" && !model.starts_with(v)).map(|v| format!("{v}_"));
            format!("{}{model}_{serial}", maker.unwrap_or_default())
        }
        _ => of("ID_SERIAL")?.to_owned(),
    };
    Some(id.replace([' ', ','], "_"))
}

/// The path of a disk by the place where it is plugged in.
fn disk_path(name: &str) -> Option<String> {
    let links = std::fs::read_dir("/dev/disk/by-path").ok()?.flatten().map(|entry| entry.path());
    let of = |link: &std::path::PathBuf| std::fs::canonicalize(link).is_ok_and(|at| at == Path::new("/dev").join(name));
    links.filter(of).min().map(|link| link.display().to_string())
}

/// The network interface that has an address, as far as the system's tables tell; empty for the host's own (loopback),
/// as in Ceph.
pub(crate) fn interface(ip: IpAddr) -> String {
    let found = match ip {
        _ if ip.is_loopback() => None,
        IpAddr::V4(ip) => by_route(&line("/proc/net/route"), ip.into()),
        IpAddr::V6(ip) => by_address(&line("/proc/net/if_inet6"), ip.into()),
    };
    found.unwrap_or_default()
}

/// The interface of the narrowest network that holds an address and needs no gateway (`/proc/net/route`).
fn by_route(table: &str, ip: u32) -> Option<String> {
    let networks = table.lines().skip(1).filter_map(|l| {
        let fields: Vec<&str> = l.split_whitespace().collect();
        // The kernel writes the bytes of an address as they are in memory.
        let hex = |at: usize| u32::from_str_radix(fields.get(at)?, 16).ok().map(|n| u32::from_be_bytes(n.to_ne_bytes()));
        let (network, gateway, mask) = (hex(1)?, hex(2)?, hex(7)?);
        (gateway == 0 && mask != 0 && ip & mask == network).then(|| (mask, fields[0].to_owned()))
    });
    networks.max_by_key(|(mask, _)| *mask).map(|(_, name)| name)
}

/// The interface that has an address (`/proc/net/if_inet6`).
fn by_address(table: &str, ip: u128) -> Option<String> {
    let rows = table.lines().map(|l| l.split_whitespace().collect::<Vec<_>>());
    let mut found = rows.filter(|f| f.first().is_some_and(|a| u128::from_str_radix(a, 16) == Ok(ip)));
    found.next()?.last().map(|name| (*name).to_owned())
}

/// Listens where it was asked for. A process that was killed a moment ago may keep its port for some more milliseconds,
/// while the kernel ends what it had begun.
pub(crate) fn listen(ip: IpAddr, port: u16) -> Result<TcpListener> {
    let begin = Instant::now();
    loop {
        match TcpListener::bind((ip, port)) {
            Ok(listener) => return Ok(listener),
            Err(e) if e.kind() == io::ErrorKind::AddrInUse => {
                if begin.elapsed() > AFTERMATH {
                    bail!("port {port} of {ip} is in use; --port chooses another");
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            Err(e) => return Err(e).with_context(|| format!("listen on {ip} port {port}")),
        }
    }
}

/// Listens on the first free port of the range that Ceph's daemons use; on any, if all are taken.
pub(crate) fn listen_somewhere(ip: IpAddr) -> Result<TcpListener> {
    for port in FIRST_PORT..=LAST_PORT {
        match TcpListener::bind((ip, port)) {
            Err(e) if e.kind() == io::ErrorKind::AddrInUse => {}
            other => return other.with_context(|| format!("listen on {ip}")),
        }
    }
    TcpListener::bind((ip, 0)).with_context(|| format!("listen on {ip}"))
}

/// Returns where others reach `listener`: if it listens everywhere, at the address that this machine uses to speak to
/// others.
pub(crate) fn public_addr(listener: &TcpListener) -> Result<SocketAddr> {
    Ok(reached(listener.local_addr().context("ask for an own address")?))
}

/// Returns where others reach what listens here.
pub(crate) fn reached(addr: SocketAddr) -> SocketAddr {
    if !addr.ip().is_unspecified() {
        return addr;
    }
    // Connecting a datagram socket sends nothing; it only chooses the route. The target is an address for documentation.
    let (any, target) = if addr.is_ipv4() { ("0.0.0.0:0", "192.0.2.1:9") } else { ("[::]:0", "[2001:db8::1]:9") };
    let route = UdpSocket::bind(any).and_then(|s| s.connect(target).and_then(|()| s.local_addr()));
    let loopback = if addr.is_ipv4() { IpAddr::from([127, 0, 0, 1]) } else { IpAddr::from(std::net::Ipv6Addr::LOCALHOST) };
    SocketAddr::new(route.map_or(loopback, |a| a.ip()), addr.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_are_found_in_the_systems_tables() {
        let routes = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n\
            eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
            eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n\
            eth1\t000200C0\t00000000\t0001\t0\t0\t0\t80FFFFFF\t0\t0\t0\nshort\n";
        let of = |ip: [u8; 4]| by_route(routes, u32::from_be_bytes(ip));
        assert_eq!(of([192, 0, 2, 200]).as_deref(), Some("eth0"));
        assert_eq!(of([192, 0, 2, 5]).as_deref(), Some("eth1"), "the narrowest network");
        assert_eq!(of([10, 0, 0, 1]), None, "what goes through a gateway is no address of this host");
        let addresses =
            "fe800000000000000000000000000001 02 40 20 80     eth3\n00000000000000000000000000000001 01 80 10 80 lo\n";
        assert_eq!(by_address(addresses, (0xfe80 << 112) | 1).as_deref(), Some("eth3"));
        assert_eq!(by_address(addresses, 7), None);
        assert_eq!(interface(IpAddr::from([127, 0, 0, 1])), "");
    }

    #[test]
    fn disks_have_the_names_that_ceph_gives_them() {
        let record = "S:disk/by-id/x\nE:ID_VENDOR=ACME\nE:ID_MODEL=Fast 1\nE:ID_SERIAL_SHORT=S 7\nE:ID_SERIAL=other\n";
        assert_eq!(id_of(record).as_deref(), Some("ACME_Fast_1_S_7"));
        assert_eq!(id_of("E:ID_VENDOR=ATA\nE:ID_MODEL=M\nE:ID_SERIAL_SHORT=1\n").as_deref(), Some("M_1"));
        assert_eq!(id_of("E:ID_SERIAL=drive-scsi0\n").as_deref(), Some("drive-scsi0"));
        assert_eq!(id_of("E:ID_MODEL=M\n"), None);
        let told = disks(&[Path::new("/no/such/path")]);
        assert_eq!((told["devices"].as_str(), told["device_ids"].as_str(), told["device_paths"].as_str()), ("", "", ""));
    }
}
