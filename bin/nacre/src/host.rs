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
/// How long a port that is in use may become free.
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

/// Whether this machine has an address. (A datagram socket can be bound to no other.)
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

/// Whether the disk below `path` turns; `None` if the system does not tell.
pub(crate) fn rotational(path: &Path) -> Option<bool> {
    about_disk(path, "queue/rotational").or_else(|| about_disk(path, "../queue/rotational"))
}

/// Whether the disk below `path` may only be read. (It can be opened for writing all the same.)
pub(crate) fn read_only(path: &Path) -> bool {
    about_disk(path, "ro") == Some(true)
}

/// What the system tells of the disk that `path` is, or lies on.
fn about_disk(path: &Path, what: &str) -> Option<bool> {
    use std::os::unix::fs::{FileTypeExt, MetadataExt};
    let meta = std::fs::metadata(path).ok()?;
    let device = if meta.file_type().is_block_device() { meta.rdev() } else { meta.dev() };
    // Numbers as glibc packs them.
    let major = (device >> 8) & 0xfff | (device >> 32) & 0xffff_f000;
    let minor = device & 0xff | (device >> 12) & 0xffff_ff00;
    let text = std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/{what}")).ok()?;
    Some(text.trim() == "1")
}

/// Listens where it was asked for. A process that was killed a moment ago may keep its port for some more milliseconds, while
/// the kernel ends what it had begun.
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

/// Where others reach `listener`: if it listens everywhere, at the address that this machine uses to speak to others.
pub(crate) fn public_addr(listener: &TcpListener) -> Result<SocketAddr> {
    Ok(reached(listener.local_addr().context("ask for an own address")?))
}

/// Where others reach what listens here.
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
