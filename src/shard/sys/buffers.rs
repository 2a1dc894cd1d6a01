//! Receive buffers that the kernel picks from: one mapping of bytes and the ring that names them.

use io_uring::types::BufRingEntry;
use std::io;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU16, Ordering};

/// The mark of a buffer that is the kernel's.
const WITH_KERNEL: u32 = u32::MAX;

/// Anonymous memory of this process, page-aligned and zero.
struct Mapping {
    start: NonNull<u8>,
    length: usize,
}

impl Mapping {
    fn new(length: usize) -> io::Result<Self> {
        // SAFETY: a fresh private anonymous mapping touches no existing memory.
        // JUSTIFICATION: the kernel wants page-aligned memory that is not touched before its first use.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        match NonNull::new(start.cast()) {
            Some(start) => Ok(Self { start, length }),
            None => Err(io::Error::from_raw_os_error(libc::ENOMEM)),
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and nothing borrows from it any more.
        // JUSTIFICATION: the counterpart of `mmap`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}

/// The buffers, and who has each.
pub(super) struct Buffers {
    ring: Mapping,
    bytes: Mapping,
    /// A power of two.
    count: u16,
    buffer_bytes: u32,
    /// Entries ever put in the ring; wraps, as the kernel's does.
    tail: u16,
    /// Per buffer the filled length while it is ours, else [`WITH_KERNEL`].
    lengths: Box<[u32]>,
}

impl Buffers {
    /// Makes `count` buffers (a power of two, at most 32,768), all in the ring.
    pub(super) fn new(count: u16, buffer_bytes: u32) -> io::Result<Self> {
        let mut buffers = Self {
            ring: Mapping::new(usize::from(count) * size_of::<BufRingEntry>())?,
            bytes: Mapping::new(usize::from(count) * buffer_bytes as usize)?,
            count,
            buffer_bytes,
            tail: 0,
            lengths: vec![0; usize::from(count)].into_boxed_slice(),
        };
        for buffer in 0..count {
            buffers.recycle(buffer);
        }
        Ok(buffers)
    }

    /// Where the ring of entries starts.
    pub(super) fn ring_address(&self) -> u64 {
        self.ring.start.as_ptr().addr() as u64
    }

    /// Notes that the kernel has filled a buffer with `length` bytes.
    pub(super) fn take(&mut self, buffer: u16, length: u32) {
        assert!(length <= self.buffer_bytes, "the kernel filled more than a buffer");
        self.lengths[usize::from(buffer)] = length;
    }

    /// The filled bytes of a buffer that is ours.
    pub(super) fn bytes(&self, buffer: u16) -> &[u8] {
        let length = self.lengths[usize::from(buffer)];
        assert!(length != WITH_KERNEL, "buffer {buffer} is the kernel's");
        // SAFETY: the buffer lies inside the mapping, is initialised (zero pages or received bytes) and,
        // being ours, is not written by the kernel until `recycle`, which needs `&mut self`.
        // JUSTIFICATION: reading what the kernel wrote, without a copy.
        unsafe { std::slice::from_raw_parts(self.address(buffer), length as usize) }
    }

    /// Puts a buffer of ours back into the ring.
    pub(super) fn recycle(&mut self, buffer: u16) {
        let length = &mut self.lengths[usize::from(buffer)];
        assert!(*length != WITH_KERNEL, "buffer {buffer} is the kernel's already");
        *length = WITH_KERNEL;
        let address = self.address(buffer).addr() as u64;
        let entries: *mut BufRingEntry = self.ring.start.as_ptr().cast();
        let place = usize::from(self.tail & (self.count - 1));
        // SAFETY: `place` is below `count`, the mapping is aligned and large enough, and the kernel reads
        // an entry only once the tail has passed it. The tail's own bytes in entry 0 are not written here.
        // JUSTIFICATION: the ring is memory shared with the kernel.
        let entry = unsafe { &mut *entries.add(place) };
        entry.set_addr(address);
        entry.set_len(self.buffer_bytes);
        entry.set_bid(buffer);
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the tail is an aligned 16-bit field of entry 0, inside the mapping; the kernel only reads
        // it. The release store makes the entry visible before the tail.
        // JUSTIFICATION: the ring is memory shared with the kernel.
        unsafe { AtomicU16::from_ptr(BufRingEntry::tail(entries).cast_mut()) }
            .store(self.tail, Ordering::Release);
    }

    fn address(&self, buffer: u16) -> *mut u8 {
        self.bytes.start.as_ptr().wrapping_add(usize::from(buffer) * self.buffer_bytes as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fresh_buffer_is_the_kernels() -> io::Result<()> {
        let buffers = Buffers::new(4, 64)?;
        let peek = std::panic::AssertUnwindSafe(|| buffers.bytes(0).len());
        assert!(std::panic::catch_unwind(peek).is_err());
        Ok(())
    }

    #[test]
    fn a_buffer_is_ours_from_filling_to_recycling() -> io::Result<()> {
        let mut buffers = Buffers::new(4, 64)?;
        buffers.take(2, 7);
        assert_eq!(buffers.bytes(2), &[0; 7]);
        buffers.recycle(2);
        assert_eq!(buffers.lengths[2], WITH_KERNEL);
        assert_eq!(buffers.tail, 5);
        Ok(())
    }
}
