use crate::driver::{Driver, Parts};
pub(crate) struct Uring;
pub(crate) fn probe() -> std::io::Result<()> {
    Err(std::io::Error::from_raw_os_error(libc::ENOSYS))
}
impl Uring {
    pub(crate) fn new(_r: (), p: Parts) -> std::io::Result<crate::epoll::Epoll> {
        crate::epoll::Epoll::new(p)
    }
}
