//! Per-socket memory that the kernel reads while it sends or connects.

use socket2::SockAddr;
use std::ptr::{self, NonNull};

/// What the kernel reads for one socket. Lives at one address from `add` to the end.
struct Station {
    head: Vec<u8>,
    vectors: [libc::iovec; 2],
    header: libc::msghdr,
    address: Option<SockAddr>,
    /// An operation of this station is under way: hands off.
    busy: bool,
}

/// One station per socket slot. They are reused for every life of the slot.
///
/// Raw pointers, not boxes: a box that moves when the table grows would claim to be the only way to its
/// content while the kernel has another.
#[derive(Default)]
pub(super) struct Stations {
    table: Vec<NonNull<Station>>,
}

/// Where a message stands.
pub(super) enum Message {
    /// In one piece.
    One {
        /// First byte.
        address: *const u8,
        /// Bytes.
        length: u32,
    },
    /// In two pieces.
    Two {
        /// The filled message header.
        header: *const libc::msghdr,
    },
}

impl Stations {
    /// Adds a station at the end.
    pub(super) fn add(&mut self) {
        let empty = libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 };
        // SAFETY: all fields of this C struct are integers and pointers, for which zero is valid.
        // JUSTIFICATION: the struct has private padding on some targets, so it cannot be written out.
        let header: libc::msghdr = unsafe { std::mem::zeroed() };
        let station = Station { head: Vec::new(), vectors: [empty; 2], header, address: None, busy: false };
        self.table.push(NonNull::from(Box::leak(Box::new(station))));
    }

    /// The head bytes of an idle station.
    pub(super) fn head(&mut self, index: u32) -> &mut Vec<u8> {
        &mut self.idle(index).head
    }

    /// Keeps `address` for the kernel and makes the station busy.
    pub(super) fn occupy_with_address(
        &mut self,
        index: u32,
        address: SockAddr,
    ) -> (*const libc::sockaddr, libc::socklen_t) {
        let station = self.idle(index);
        station.busy = true;
        let address = station.address.insert(address);
        (address.as_ptr().cast(), address.len())
    }

    /// Names the head and `body`, less their first `skip` bytes, and makes the station busy.
    pub(super) fn occupy_with_message(&mut self, index: u32, body: &[u8], skip: usize) -> Message {
        let station = self.idle(index);
        station.busy = true;
        let head = station.head.get(skip..).unwrap_or_default();
        let body = body.get(skip.saturating_sub(station.head.len())..).unwrap_or_default();
        let one = match (head, body) {
            (one, []) | ([], one) => one,
            (head, body) => {
                station.vectors = [head, body].map(|piece| libc::iovec {
                    iov_base: piece.as_ptr().cast_mut().cast(),
                    iov_len: piece.len(),
                });
                station.header.msg_iov = station.vectors.as_mut_ptr();
                station.header.msg_iovlen = station.vectors.len();
                return Message::Two { header: &raw const station.header };
            }
        };
        // What does not fit 32 bits is a short send, which goes on later.
        Message::One { address: one.as_ptr(), length: u32::try_from(one.len()).unwrap_or(1 << 30) }
    }

    /// Notes that the kernel has let go of a station.
    pub(super) fn release(&mut self, index: u32) {
        let station = self.table[index as usize];
        // SAFETY: the pointer is from `add` and lives until drop; `&mut self` makes this the only access
        // on our side, and the kernel is done with the station.
        // JUSTIFICATION: the station must not move while the kernel knows its address.
        unsafe { (*station.as_ptr()).busy = false }
    }

    fn idle(&mut self, index: u32) -> &mut Station {
        let station = self.table[index as usize];
        // SAFETY: as in `release`; reading the flag alone makes no reference to what the kernel reads.
        // JUSTIFICATION: the station must not move while the kernel knows its address.
        let busy = unsafe { (*station.as_ptr()).busy };
        assert!(!busy, "socket {index}: one operation at a time");
        // SAFETY: as above, and the kernel has let go of the station.
        // JUSTIFICATION: as above.
        unsafe { &mut *station.as_ptr() }
    }
}

impl Drop for Stations {
    fn drop(&mut self) {
        for station in self.table.drain(..) {
            // SAFETY: the pointer came from a box in `add`; our owner drops us only when the kernel has
            // let go of every station.
            // JUSTIFICATION: the counterpart of `Box::leak` in `add`.
            drop(unsafe { Box::from_raw(station.as_ptr()) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(head: &[u8], body: &[u8], skip: usize) -> Vec<usize> {
        let mut stations = Stations::default();
        stations.add();
        stations.head(0).extend_from_slice(head);
        match stations.occupy_with_message(0, body, skip) {
            Message::One { length, .. } => vec![length as usize],
            Message::Two { .. } => stations.table.iter().fold(Vec::new(), |mut lengths, station| {
                // SAFETY: the station is alive and no kernel knows it.
                // JUSTIFICATION: the test looks at what the kernel would read.
                lengths.extend(unsafe { (*station.as_ptr()).vectors }.map(|vector| vector.iov_len));
                lengths
            }),
        }
    }

    #[test]
    fn a_short_send_goes_on_where_it_stopped() {
        assert_eq!(pieces(b"head", b"body!", 0), [4, 5]);
        assert_eq!(pieces(b"head", b"body!", 3), [1, 5]);
        assert_eq!(pieces(b"head", b"body!", 4), [5]);
        assert_eq!(pieces(b"head", b"body!", 7), [2]);
        assert_eq!(pieces(b"head", b"", 1), [3]);
        assert_eq!(pieces(b"", b"body!", 0), [5]);
    }

    #[test]
    fn a_busy_station_is_not_touched() {
        let mut stations = Stations::default();
        stations.add();
        let _ = stations.occupy_with_message(0, b"body", 0);
        let touch = std::panic::AssertUnwindSafe(|| stations.head(0).len());
        assert!(std::panic::catch_unwind(touch).is_err());
    }
}
