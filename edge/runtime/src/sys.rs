//! The few system calls that the standard library does not offer, behind safe functions.

use std::fs::File;
use std::io;
use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6, TcpListener};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// Turns a return value of -1 into the error that it stands for.
fn check(value: libc::c_int) -> io::Result<libc::c_int> {
    if value < 0 { Err(io::Error::last_os_error()) } else { Ok(value) }
}

/// The number of an error; EIO if it has none.
pub(crate) fn errno(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::EIO)
}

/// A counter in the kernel that one thread waits for and others raise.
#[derive(Debug)]
pub(crate) struct EventFd(File);

impl EventFd {
    /// Makes a counter that is not raised.
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: eventfd takes no pointers; the descriptor that it returns is owned by nobody else.
        let fd = unsafe { OwnedFd::from_raw_fd(check(libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK))?) };
        Ok(Self(File::from(fd)))
    }

    /// Wakes the waiting thread. A counter that is full already wakes it as well, so errors do not matter.
    pub(crate) fn raise(&self) {
        let _ = io::Write::write(&mut &self.0, &1u64.to_ne_bytes());
    }

    /// Takes the counter back to zero.
    pub(crate) fn clear(&self) {
        let _ = io::Read::read(&mut &self.0, &mut [0; 8]);
    }

    /// The descriptor, for poll.
    pub(crate) fn raw(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// A socket address in the kernel's form.
#[derive(Clone, Copy)]
pub(crate) struct RawAddr {
    storage: libc::sockaddr_storage,
    len: libc::socklen_t,
}

impl RawAddr {
    /// Converts an address.
    pub(crate) fn new(addr: SocketAddr) -> Self {
        // SAFETY: all-zero bytes are a valid sockaddr_storage.
        let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
        let at = &raw mut storage;
        let len = match addr {
            SocketAddr::V4(v4) => {
                // SAFETY: sockaddr_storage is large enough and aligned for every address family.
                unsafe { at.cast::<libc::sockaddr_in>().write(ipv4(v4)) };
                size_of::<libc::sockaddr_in>()
            }
            SocketAddr::V6(v6) => {
                // SAFETY: as above.
                unsafe { at.cast::<libc::sockaddr_in6>().write(ipv6(v6)) };
                size_of::<libc::sockaddr_in6>()
            }
        };
        Self { storage, len: len as libc::socklen_t }
    }

    /// Address and length for a system call. Valid as long as `self` stays where it is.
    pub(crate) fn parts(&self) -> (*const libc::sockaddr, libc::socklen_t) {
        ((&raw const self.storage).cast(), self.len)
    }
}

fn ipv4(addr: SocketAddrV4) -> libc::sockaddr_in {
    libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: addr.port().to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(addr.ip().octets()) },
        sin_zero: [0; 8],
    }
}

fn ipv6(addr: SocketAddrV6) -> libc::sockaddr_in6 {
    libc::sockaddr_in6 {
        sin6_family: libc::AF_INET6 as libc::sa_family_t,
        sin6_port: addr.port().to_be(),
        sin6_flowinfo: addr.flowinfo(),
        sin6_addr: libc::in6_addr { s6_addr: addr.ip().octets() },
        sin6_scope_id: addr.scope_id(),
    }
}

/// Makes an unconnected TCP socket of the family of `to`.
pub(crate) fn tcp_socket(to: SocketAddr, nonblocking: bool) -> io::Result<OwnedFd> {
    let family = if to.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | if nonblocking { libc::SOCK_NONBLOCK } else { 0 };
    // SAFETY: socket takes no pointers; the descriptor that it returns is owned by nobody else.
    let socket = unsafe { OwnedFd::from_raw_fd(check(libc::socket(family, kind, 0))?) };
    if to.ip().is_loopback() {
        do_not_pace(&socket);
    }
    Ok(socket)
}

/// Takes plain congestion control for the connections that this listener accepts, if all of them come from this
/// machine.
pub(crate) fn tune_listener(listener: &TcpListener) {
    if listener.local_addr().is_ok_and(|addr| addr.ip().is_loopback()) {
        do_not_pace(listener);
    }
}

/// Takes congestion control that does not pace. Within a machine nothing is congested, but a system whose default is
/// BBR spreads what is sent over time there, too, with a timer for each 64 KiB. Call it before there is a connection:
/// one that was paced stays so. Every kernel has `reno`; without it the default will do.
fn do_not_pace(socket: &impl AsRawFd) {
    const PLAIN: &[u8] = b"reno";
    let len = PLAIN.len() as libc::socklen_t;
    // SAFETY: setsockopt reads `len` bytes of a constant.
    let _ = unsafe { libc::setsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_CONGESTION, PLAIN.as_ptr().cast(), len) };
}

/// A peer that does not answer for so long is gone. Keepalive probes begin when nothing came for half of it.
const VANISHED: Duration = Duration::from_secs(60);

/// Sends at once, and lets the kernel notice a peer that vanished without a word: its machine died, a firewall forgot
/// it. Else an idle connection would stay for as long as nothing is sent.
pub(crate) fn tune(socket: &impl AsRawFd) -> io::Result<()> {
    let seconds = VANISHED.as_secs() as libc::c_int;
    for (level, name, value) in [
        (libc::IPPROTO_TCP, libc::TCP_NODELAY, 1),
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1),
        (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, seconds / 2),
        (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, seconds / 6),
        (libc::IPPROTO_TCP, libc::TCP_KEEPCNT, 3),
        (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, VANISHED.as_millis() as libc::c_int),
    ] {
        let len = size_of::<libc::c_int>() as libc::socklen_t;
        // SAFETY: setsockopt reads `len` bytes of `value`, which outlives the call.
        check(unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const value).cast(), len) })?;
    }
    Ok(())
}

/// Begins to connect a nonblocking socket. The outcome shows when it becomes writable.
pub(crate) fn connect(fd: &OwnedFd, to: SocketAddr) -> io::Result<()> {
    let raw = RawAddr::new(to);
    let (addr, len) = raw.parts();
    // SAFETY: addr points to len bytes of `raw`, which outlives the call.
    match check(unsafe { libc::connect(fd.as_raw_fd(), addr, len) }) {
        Err(e) if e.raw_os_error() == Some(libc::EINPROGRESS) => Ok(()),
        other => other.map(drop),
    }
}

/// Writes `slices` at byte `offset`; durable before it returns if `dsync`.
pub(crate) fn write_vectored_at(file: &File, slices: &[io::IoSlice<'_>], offset: u64, dsync: bool) -> io::Result<usize> {
    let flags = if dsync { libc::RWF_DSYNC } else { 0 };
    let (base, count) = (slices.as_ptr().cast::<libc::iovec>(), slices.len().min(libc::UIO_MAXIOV as usize));
    // SAFETY: IoSlice is guaranteed to have the layout of iovec; base points to `count` of them, each to live memory.
    let written = unsafe { libc::pwritev2(file.as_raw_fd(), base, count as libc::c_int, offset as libc::off_t, flags) };
    if written < 0 { Err(io::Error::last_os_error()) } else { Ok(written as usize) }
}

/// Size of a block device, in bytes.
pub(crate) fn block_device_size(file: &File) -> io::Result<u64> {
    /// `_IOR(0x12, 114, size_t)` from linux/fs.h
    const BLKGETSIZE64: libc::Ioctl = 0x8008_1272u32 as libc::Ioctl;
    let mut size = 0u64;
    // SAFETY: BLKGETSIZE64 writes one u64 to the address given.
    check(unsafe { libc::ioctl(file.as_raw_fd(), BLKGETSIZE64, &raw mut size) })?;
    Ok(size)
}

/// Size of the sectors of a block device, in bytes: of what it reads and writes as a whole.
pub(crate) fn sector_size(file: &File) -> io::Result<u32> {
    /// `_IO(0x12, 104)` from linux/fs.h
    const BLKSSZGET: libc::Ioctl = 0x1268;
    let mut size: libc::c_int = 0;
    // SAFETY: BLKSSZGET writes one int to the address given.
    check(unsafe { libc::ioctl(file.as_raw_fd(), BLKSSZGET, &raw mut size) })?;
    Ok(size as u32)
}

/// Discards a part of a block device. What it reads as afterwards is not known.
pub(crate) fn discard(file: &File, offset: u64, len: u64) -> io::Result<()> {
    /// `_IO(0x12, 119)` from linux/fs.h
    const BLKDISCARD: libc::Ioctl = 0x1277;
    let range = [offset, len];
    // SAFETY: BLKDISCARD reads two u64 at the address given.
    check(unsafe { libc::ioctl(file.as_raw_fd(), BLKDISCARD, range.as_ptr()) }).map(drop)
}

/// Bytes that an unprivileged process may still take in the file system of `file`, and the file system's magic number.
pub(crate) fn file_system(file: &File) -> io::Result<(u64, i64)> {
    // SAFETY: all-zero bytes are a valid statfs.
    let mut out: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: fstatfs fills one statfs at the address given.
    check(unsafe { libc::fstatfs(file.as_raw_fd(), &raw mut out) })?;
    #[allow(clippy::unnecessary_cast)] // the type of the field depends on the architecture
    Ok(((out.f_bavail as u64).saturating_mul(out.f_bsize as u64), out.f_type as i64))
}

/// Gives a part of a file back to its file system. It reads as zeros afterwards, and the file keeps its length.
pub(crate) fn punch_hole(file: &File, offset: u64, len: u64) -> io::Result<()> {
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    let number = |n: u64| i64::try_from(n).map_err(|_| io::Error::from_raw_os_error(libc::EFBIG));
    // SAFETY: fallocate takes numbers only.
    check(unsafe { libc::fallocate(file.as_raw_fd(), mode, number(offset)?, number(len)?) }).map(drop)
}

/// Nanoseconds of `clock` now.
fn clock(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: clock_gettime fills one timespec at the address given; it cannot fail for the clocks used here.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Nanoseconds on the monotonic clock that goes on while the host is suspended: what others promised runs out
/// meanwhile.
pub(crate) fn monotonic() -> u64 {
    clock(libc::CLOCK_BOOTTIME)
}

/// Nanoseconds since 1970.
pub(crate) fn realtime() -> u64 {
    clock(libc::CLOCK_REALTIME)
}

/// Lets threads run that wait for this processor.
pub(crate) fn let_others_run() {
    // SAFETY: no arguments; it cannot fail on Linux.
    unsafe { libc::sched_yield() };
}

/// Processor time of the calling thread.
pub(crate) fn thread_cpu() -> Duration {
    Duration::from_nanos(clock(libc::CLOCK_THREAD_CPUTIME_ID))
}

/// Report of epoll about one descriptor: the key it was added with, and its events.
pub(crate) type Ready = libc::epoll_event;

/// An epoll instance.
pub(crate) struct Epoll(OwnedFd);

impl Epoll {
    /// Makes an instance.
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: epoll_create1 takes no pointers; the descriptor that it returns is owned by nobody else.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(check(libc::epoll_create1(libc::EPOLL_CLOEXEC))?) }))
    }

    /// Watches `fd` for `events`, to be told under `key`. A closed descriptor is forgotten.
    pub(crate) fn add(&self, fd: RawFd, events: libc::c_int, key: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events: events as u32, u64: key };
        // SAFETY: epoll_ctl reads one epoll_event at the address given.
        check(unsafe { libc::epoll_ctl(self.0.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &raw mut event) }).map(drop)
    }

    /// Waits at most `timeout` (for ever if none) and fills `ready`. Gives the number of events.
    pub(crate) fn wait(&self, ready: &mut [Ready], timeout: Option<Duration>) -> io::Result<usize> {
        let result = match self.wait_precise(ready, timeout) {
            Err(e) if matches!(e.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => self.wait_millis(ready, timeout),
            other => other,
        };
        match result {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(0),
            other => other,
        }
    }

    /// Waits with epoll_pwait2 (Linux 5.11), whose timeout is in nanoseconds.
    fn wait_precise(&self, ready: &mut [Ready], timeout: Option<Duration>) -> io::Result<usize> {
        let spec = timeout.map(|t| libc::timespec {
            tv_sec: t.as_secs().min(1 << 40) as libc::time_t,
            tv_nsec: t.subsec_nanos() as libc::c_long,
        });
        let spec = spec.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        let (events, room) = (ready.as_mut_ptr(), ready.len().min(4096) as libc::c_int);
        let no_mask = std::ptr::null::<libc::sigset_t>();
        // SAFETY: the kernel fills at most `room` events at `events` and reads one timespec if it is not null.
        let n = unsafe { libc::syscall(libc::SYS_epoll_pwait2, self.0.as_raw_fd(), events, room, spec, no_mask, 0usize) };
        if n < 0 { Err(io::Error::last_os_error()) } else { Ok(n as usize) }
    }

    /// Waits with the older call, whose timeout is in milliseconds, rounded up so that no deadline is met too early.
    fn wait_millis(&self, ready: &mut [Ready], timeout: Option<Duration>) -> io::Result<usize> {
        let millis = timeout.map_or(-1, |t| t.as_nanos().div_ceil(1_000_000).min(i32::MAX as u128) as libc::c_int);
        let (events, room) = (ready.as_mut_ptr(), ready.len().min(4096) as libc::c_int);
        // SAFETY: the kernel fills at most `room` events at `events`.
        Ok(check(unsafe { libc::epoll_wait(self.0.as_raw_fd(), events, room, millis) })? as usize)
    }
}

/// Blocks SIGTERM, SIGINT and SIGHUP in this thread and those that it starts, so that [`next_signal`] gets them.
pub(crate) fn hold_signals() -> io::Result<()> {
    let set = held_signals();
    // SAFETY: reads one sigset_t; a null pointer for the old set is allowed.
    match unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) } {
        0 => Ok(()),
        e => Err(io::Error::from_raw_os_error(e)),
    }
}

/// Waits for SIGTERM, SIGINT or SIGHUP and gives its number.
pub(crate) fn next_signal() -> i32 {
    let set = held_signals();
    let mut signal = 0;
    // SAFETY: reads one sigset_t and writes one int. It fails only for an invalid set, which this is not.
    unsafe { libc::sigwait(&raw const set, &raw mut signal) };
    signal
}

/// Sends SIGTERM to a process.
pub(crate) fn terminate(pid: u32) -> io::Result<()> {
    // Zero and negative numbers would mean groups of processes.
    let pid = libc::pid_t::try_from(pid).ok().filter(|pid| *pid > 0).ok_or(io::ErrorKind::InvalidInput)?;
    // SAFETY: takes two numbers and touches no memory.
    check(unsafe { libc::kill(pid, libc::SIGTERM) }).map(drop)
}

fn held_signals() -> libc::sigset_t {
    // SAFETY: all-zero bytes are valid memory for sigemptyset, which initializes it; the signal numbers are valid.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGTERM);
        libc::sigaddset(&raw mut set, libc::SIGINT);
        libc::sigaddset(&raw mut set, libc::SIGHUP);
        set
    }
}

/// Ignores SIGCHLD: the kernel then forgets children that end, also those that this process inherits.
pub(crate) fn ignore_children() -> io::Result<()> {
    // SAFETY: sets the disposition of one signal to a constant; no handler of ours ever runs.
    match unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) } {
        libc::SIG_ERR => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Raises the soft limit of open files to the hard one, and gives the limit.
pub(crate) fn raise_file_limit() -> io::Result<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: fills one rlimit.
    check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) })?;
    if limit.rlim_cur < limit.rlim_max {
        limit.rlim_cur = limit.rlim_max;
        // SAFETY: reads one rlimit.
        check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) })?;
    }
    Ok(limit.rlim_cur)
}

/// Keeps this process's memory out of core files, and from other processes of the same user (ptrace, `/proc/PID/mem`).
/// Programs that it starts can be looked into again, but leave no core file either.
pub(crate) fn keep_memory_private() -> io::Result<()> {
    // SAFETY: changes a flag of the process; no memory is passed.
    check(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) })?;
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: fills one rlimit.
    check(unsafe { libc::getrlimit(libc::RLIMIT_CORE, &raw mut limit) })?;
    limit.rlim_cur = 0;
    // SAFETY: reads one rlimit.
    check(unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const limit) }).map(drop)
}

/// Files, folders and sockets of this process are written by its user alone, whatever mask it was started with.
pub(crate) fn keep_files_private() {
    // SAFETY: changes the mask of the process; no memory is passed.
    let before = unsafe { libc::umask(0o077) };
    // SAFETY: as above.
    unsafe { libc::umask(before | 0o022) };
}

/// Asks the kernel for pages of 4 KiB from now on, except for memory with advice for huge ones, if the kernel can tell
/// the two apart (Linux 6.18). Where huge pages are given on advice only, nothing has to be asked for.
pub(crate) fn refuse_huge_pages() -> io::Result<()> {
    // linux/prctl.h; not in libc yet.
    const EXCEPT_ADVISED: libc::c_ulong = 1 << 1;
    const SETTING: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
    let refuse = |flags: libc::c_ulong| {
        let (on, unused): (libc::c_ulong, libc::c_ulong) = (1, 0);
        // SAFETY: takes numbers only.
        check(unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, on, flags, unused, unused) }).map(drop)
    };
    refuse(EXCEPT_ADVISED).or_else(|_| match std::fs::read_to_string(SETTING) {
        Ok(setting) if setting.contains("[madvise]") => Ok(()),
        _ => refuse(0),
    })
}

/// Maps zeroed memory at a multiple of [`node::HUGE`], on huge pages where the kernel gives them. Null if there is
/// none. `size`: a multiple of that, above zero.
pub(crate) fn map_huge(size: usize) -> *mut u8 {
    let Some(span) = size.checked_add(node::HUGE) else { return std::ptr::null_mut() };
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping, wherever the kernel likes.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), span, protection, flags, -1, 0) };
    if start == libc::MAP_FAILED {
        return std::ptr::null_mut();
    }
    let start = start.cast::<u8>();
    let before = start.align_offset(node::HUGE);
    // SAFETY: both ends are parts of the mapping that was just made, outside of what is given away; advice changes no content, and without
    // huge pages it is memory all the same.
    unsafe {
        let at = start.add(before);
        if before > 0 {
            unmap(start, before);
        }
        unmap(at.add(size), node::HUGE - before);
        libc::madvise(at.cast(), size, libc::MADV_HUGEPAGE);
        at
    }
}

/// Gives memory back to the kernel. Where the kernel does not take it (a process has too many mappings), the pages go
/// back and their addresses stay unused.
///
/// # Safety
/// It was mapped, and nobody uses it any more.
pub(crate) unsafe fn unmap(at: *mut u8, size: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        if libc::munmap(at.cast(), size) != 0 {
            libc::madvise(at.cast(), size, libc::MADV_DONTNEED);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn option(socket: &impl AsRawFd, level: libc::c_int, name: libc::c_int) -> libc::c_int {
        let (mut value, mut len) = (0, size_of::<libc::c_int>() as libc::socklen_t);
        // SAFETY: getsockopt writes at most `len` bytes to `value`.
        check(unsafe { libc::getsockopt(socket.as_raw_fd(), level, name, (&raw mut value).cast(), &raw mut len) }).unwrap();
        value
    }

    #[test]
    fn connections_within_the_machine_are_not_paced() {
        let congestion = |socket: &dyn AsRawFd| {
            let (mut name, mut len) = ([0u8; 16], 16);
            let at = name.as_mut_ptr().cast();
            // SAFETY: getsockopt writes at most `len` bytes to `name`.
            check(unsafe { libc::getsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_CONGESTION, at, &raw mut len) })
                .unwrap();
            String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned()
        };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        tune_listener(&listener);
        let to = listener.local_addr().unwrap();
        let socket = tcp_socket(to, false).unwrap();
        connect(&socket, to).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        assert_eq!((congestion(&socket), congestion(&accepted)), ("reno".to_owned(), "reno".to_owned()));
        // Elsewhere the system's choice stays.
        let default = congestion(&TcpListener::bind("127.0.0.1:0").unwrap());
        let anywhere = TcpListener::bind("0.0.0.0:0").unwrap();
        tune_listener(&anywhere);
        let away = tcp_socket(SocketAddr::from(([192, 0, 2, 1], 1)), false).unwrap();
        assert_eq!((congestion(&anywhere), congestion(&away)), (default.clone(), default));
    }

    #[test]
    fn vanished_peers_are_noticed_within_a_minute() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        tune(&stream).unwrap();
        assert_eq!(option(&stream, libc::SOL_SOCKET, libc::SO_KEEPALIVE), 1);
        assert_eq!(option(&stream, libc::IPPROTO_TCP, libc::TCP_NODELAY), 1);
        let tcp = |name| option(&stream, libc::IPPROTO_TCP, name);
        assert_eq!(tcp(libc::TCP_KEEPIDLE) + tcp(libc::TCP_KEEPINTVL) * tcp(libc::TCP_KEEPCNT), 60);
        assert_eq!(tcp(libc::TCP_USER_TIMEOUT), 60_000);
    }
}
