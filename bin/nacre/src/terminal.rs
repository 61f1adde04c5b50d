//! A terminal from which single keys are read.

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::termios::{InputFlags, LocalFlags, SetArg, Termios, tcgetattr, tcsetattr};
use std::io::{Read, stdin};
use std::os::fd::AsFd;
use std::time::Duration;

/// Keys come one by one and are not shown, until this is dropped: the terminal is as before then.
pub(crate) struct Keys(Termios);

impl Keys {
    /// Begins to read keys from standard input.
    ///
    /// # Errors
    /// If standard input is no terminal.
    pub(crate) fn begin() -> std::io::Result<Self> {
        let before = tcgetattr(stdin())?;
        let mut raw = before.clone();
        raw.local_flags.remove(LocalFlags::ICANON | LocalFlags::ECHO | LocalFlags::ISIG);
        raw.input_flags.remove(InputFlags::ICRNL | InputFlags::IXON);
        tcsetattr(stdin(), SetArg::TCSANOW, &raw)?;
        Ok(Self(before))
    }

    /// Waits so long for a key; gives its byte. Ctrl-C is 3, like the end of the input.
    pub(crate) fn wait(&self, most: Duration) -> Option<u8> {
        let input = stdin();
        let mut ready = [PollFd::new(input.as_fd(), PollFlags::POLLIN)];
        let most = PollTimeout::try_from(most).unwrap_or(PollTimeout::MAX);
        match poll(&mut ready, most) {
            Ok(1..) => {
                let mut key = [3];
                let read = input.lock().read(&mut key);
                if matches!(read, Ok(1)) { Some(key[0]) } else { Some(3) }
            }
            _ => None,
        }
    }

    /// Returns columns and lines of the terminal, if it tells.
    pub(crate) fn size(&self) -> Option<(usize, usize)> {
        terminal_size::terminal_size().map(|(columns, lines)| (columns.0.into(), lines.0.into()))
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        let _ = tcsetattr(stdin(), SetArg::TCSANOW, &self.0);
    }
}
