//! When the kernel received what a stamped receive brings.
//!
//! A socket that was asked to stamp hands its bytes over behind a header and a control message with the wall
//! time at which the packet came. The rest of the layer sees bytes and a number.

use io_uring::types::RecvMsgOut;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Room for the control message: its header and a time, rounded up.
const CONTROL_BYTES: usize = 64;

/// What the kernel is told about the layout of a stamped receive; only two lengths of it count.
pub(super) struct StampedLayout(Box<libc::msghdr>);

impl StampedLayout {
    pub(super) fn new() -> Self {
        // SAFETY: a message header of zeros is a valid one: null pointers with lengths of zero.
        // JUSTIFICATION: its private padding differs between systems, so it cannot be written out.
        let mut header: libc::msghdr = unsafe { mem::zeroed() };
        header.msg_controllen = CONTROL_BYTES as _;
        Self(Box::new(header))
    }

    /// The address of the header, for as long as this lives.
    pub(super) fn address(&self) -> *const libc::msghdr {
        &raw const *self.0
    }

    /// Takes a filled buffer apart: the bytes received, and the wall time in nanoseconds since the Unix
    /// epoch at which the kernel had them, where it says so.
    pub(super) fn parse<'a>(&self, buffer: &'a [u8]) -> (&'a [u8], Option<u64>) {
        match RecvMsgOut::parse(buffer, &self.0) {
            Ok(message) => {
                // The payload stands last; it is cut from the buffer itself, which outlives the message.
                let start = buffer.len() - message.payload_data().len().min(buffer.len());
                (buffer.get(start..).unwrap_or_default(), wall_time(message.control_data()))
            }
            Err(()) => (&[], None),
        }
    }
}

/// Asks the kernel to stamp what a socket receives.
pub(super) fn enable(socket: BorrowedFd<'_>) -> io::Result<()> {
    let on: libc::c_int = 1;
    let length = libc::socklen_t::try_from(size_of::<libc::c_int>()).unwrap_or_default();
    // SAFETY: the option takes an integer, which outlives the call.
    // JUSTIFICATION: no safe crate in use sets this option.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPNS,
            (&raw const on).cast(),
            length,
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The time in the first control message, if it is one: length, level, kind, then seconds and nanoseconds.
fn wall_time(control: &[u8]) -> Option<u64> {
    const HEAD: usize = size_of::<libc::cmsghdr>();
    let word = |at: usize| Some(i32::from_ne_bytes(control.get(at..at + 4)?.try_into().ok()?));
    let long = |at: usize| Some(i64::from_ne_bytes(control.get(at..at + 8)?.try_into().ok()?));
    let (level, kind) = (word(HEAD - 8)?, word(HEAD - 4)?);
    if (level, kind) != (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS) {
        return None;
    }
    let (seconds, nanos) = (long(HEAD)?, long(HEAD + 8)?);
    u64::try_from(seconds).ok()?.checked_mul(1_000_000_000)?.checked_add(u64::try_from(nanos).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_read_and_anything_else_is_not() {
        let mut control = Vec::new();
        control.extend_from_slice(&32_u64.to_ne_bytes());
        control.extend_from_slice(&libc::SOL_SOCKET.to_ne_bytes());
        control.extend_from_slice(&libc::SO_TIMESTAMPNS.to_ne_bytes());
        control.extend_from_slice(&7_i64.to_ne_bytes());
        control.extend_from_slice(&9_i64.to_ne_bytes());
        assert_eq!(wall_time(&control), Some(7_000_000_009));
        assert_eq!(wall_time(&control[..24]), None);
        control[12] ^= 1;
        assert_eq!(wall_time(&control), None);
        assert_eq!(wall_time(&[]), None);
    }

    #[test]
    fn a_buffer_without_its_header_brings_nothing() {
        assert_eq!(StampedLayout::new().parse(&[0; 8]), (&[][..], None));
    }
}
