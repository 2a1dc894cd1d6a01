//! Per-socket memory that the kernel reads while it sends or connects.

use socket2::SockAddr;
use std::ptr::{self, NonNull};

/// A body up to this size is copied behind its head: one piece costs the kernel less than two.
const COPIED_BYTES_MAX: usize = 4 * 1024;

/// What a head and such a body take, as a rule.
const MESSAGE_BYTES: usize = COPIED_BYTES_MAX + 512;

/// Largest buffer, and most of them, that are kept for later messages.
const SPARE_BYTES_MAX: usize = 64 * 1024;
const SPARE_MAX: usize = 256;

/// What the kernel reads for one socket. Lives at one address from `add` to the end.
struct Station {
    /// The head of a message, from its making to the end of its sending.
    head: Vec<u8>,
    /// The body has been copied behind the head.
    whole: bool,
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
    /// Buffers of messages that have gone. Most sends end as soon as they begin, so few buffers do for many
    /// sockets, and the one used last is the warmest.
    spare: Vec<Vec<u8>>,
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
        let station = Station {
            head: Vec::new(),
            whole: false,
            vectors: [empty; 2],
            header,
            address: None,
            busy: false,
        };
        self.table.push(NonNull::from(Box::leak(Box::new(station))));
    }

    /// The head bytes of an idle station, empty.
    pub(super) fn head(&mut self, index: u32) -> &mut Vec<u8> {
        if self.idle(index).head.capacity() == 0 {
            let buffer = self.spare.pop().unwrap_or_else(|| Vec::with_capacity(MESSAGE_BYTES));
            self.idle(index).head = buffer;
        }
        let head = &mut self.idle(index).head;
        head.clear();
        head
    }

    /// The message of an idle station is over: its buffer can serve another.
    pub(super) fn clear(&mut self, index: u32) {
        let head = std::mem::take(&mut self.idle(index).head);
        if (1..=SPARE_BYTES_MAX).contains(&head.capacity()) && self.spare.len() < SPARE_MAX {
            self.spare.push(head);
        }
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

    /// Names the head and `body`, less their first `skip` bytes, and makes the station busy. What begins with
    /// no byte skipped goes on with the same body.
    pub(super) fn occupy_with_message(&mut self, index: u32, body: &[u8], skip: usize) -> Message {
        let station = self.idle(index);
        station.busy = true;
        if skip == 0 {
            station.whole = body.len() <= COPIED_BYTES_MAX;
            if station.whole {
                station.head.extend_from_slice(body);
            }
        }
        let body = if station.whole { &[] } else { body };
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

    /// The lengths of the pieces of a message, sent from its beginning and again from behind `skip` bytes.
    fn pieces(head: &[u8], body: &[u8], skip: usize) -> Vec<usize> {
        let mut stations = Stations::default();
        stations.add();
        stations.head(0).extend_from_slice(head);
        if skip > 0 {
            stations.occupy_with_message(0, body, 0);
            stations.release(0);
        }
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
        for (skip, left) in [(0, 9), (3, 6), (4, 5), (7, 2)] {
            assert_eq!(pieces(b"head", b"body!", skip), [left]);
        }
        assert_eq!(pieces(b"head", b"", 1), [3]);
        assert_eq!(pieces(b"", b"body!", 0), [5]);
        let large = vec![0; COPIED_BYTES_MAX + 1];
        assert_eq!(pieces(b"head", &large, 0), [4, large.len()]);
        assert_eq!(pieces(b"head", &large, 3), [1, large.len()]);
        assert_eq!(pieces(b"head", &large, 4), [large.len()]);
        assert_eq!(pieces(b"head", &large, 14), [large.len() - 10]);
        assert_eq!(pieces(b"", &large, 0), [large.len()]);
    }

    #[test]
    fn a_buffer_serves_one_message_after_the_other() {
        let mut stations = Stations::default();
        (0..3).for_each(|_| stations.add());
        let addresses: Vec<*const u8> = (0..3)
            .map(|index| {
                stations.head(index).extend_from_slice(b"head");
                let address = stations.head(index).as_ptr();
                stations.occupy_with_message(index, b"body", 0);
                stations.release(index);
                stations.clear(index);
                address
            })
            .collect();
        assert!(addresses.iter().all(|address| *address == addresses[0]));
        assert_eq!(stations.spare.len(), 1);
        stations.clear(0);
        assert_eq!(stations.spare.len(), 1, "an empty one is no buffer");
        stations.head(0).reserve(SPARE_BYTES_MAX + 1);
        stations.clear(0);
        assert!(stations.spare.is_empty(), "a large one is given back");
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
