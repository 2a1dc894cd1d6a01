//! The floor: a bare io_uring loop that sends a request and looks for the end of the reply.
//!
//! Same ring flags, same way of receiving and sending as the client, but no HTTP, no events, no stamps, no
//! statistics: what is left is the kernel and the least that any client must do.

use io_uring::{IoUring, cqueue, opcode, types};
use phasor::shard::ring::RingOptions;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

const BUFFER_BYTES: usize = 16 * 1_024;
const GROUP: u16 = 7;
const RECEIVE: u64 = 0;
const SEND: u64 = 1;

/// What a run came to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bare {
    pub(crate) requests: u64,
    pub(crate) cpu_ns: u64,
    pub(crate) wall: Duration,
}

struct BufferRing {
    entries: *mut types::BufRingEntry,
    entries_bytes: usize,
    memory: Vec<u8>,
    buffers: u16,
    tail: u16,
}

impl BufferRing {
    fn new(ring: &IoUring, count: u16) -> Self {
        let entries_bytes = usize::from(count) * std::mem::size_of::<types::BufRingEntry>();
        // SAFETY: an anonymous private mapping; checked below, unmapped never (the bench ends with it).
        let entries = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                entries_bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_ANONYMOUS | libc::MAP_PRIVATE,
                -1,
                0,
            )
        };
        assert_ne!(entries, libc::MAP_FAILED);
        // SAFETY: the mapping lives as long as the process.
        unsafe { ring.submitter().register_buf_ring_with_flags(entries as u64, count, GROUP, 0) }.unwrap();
        let mut buffers = Self {
            entries: entries.cast(),
            entries_bytes,
            memory: vec![0; usize::from(count) * BUFFER_BYTES],
            buffers: count,
            tail: 0,
        };
        for id in 0..count {
            buffers.give_back(id);
        }
        buffers
    }

    fn give_back(&mut self, id: u16) {
        let at = usize::from(self.tail & (self.buffers - 1));
        assert!(at * std::mem::size_of::<types::BufRingEntry>() < self.entries_bytes);
        // SAFETY: the index is inside the ring, the buffer inside the memory, and the kernel reads the entry
        // only after the tail has been published.
        unsafe {
            let entry = &mut *self.entries.add(at);
            entry.set_addr(self.memory.as_mut_ptr().add(usize::from(id) * BUFFER_BYTES) as u64);
            entry.set_len(u32::try_from(BUFFER_BYTES).unwrap());
            entry.set_bid(id);
        }
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the tail lies in the first entry of the ring.
        let tail = unsafe { &*types::BufRingEntry::tail(self.entries).cast::<AtomicU16>() };
        tail.store(self.tail, Ordering::Release);
    }

    fn bytes(&self, id: u16, length: usize) -> &[u8] {
        let start = usize::from(id) * BUFFER_BYTES;
        &self.memory[start..start + length]
    }
}

fn thread_cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split_whitespace().next().unwrap().parse().unwrap()
}

/// Keeps `connections` requests in flight for `length`, each `request` as it stands.
pub(crate) fn run(address: SocketAddr, request: &[u8], connections: usize, length: Duration) -> Bare {
    let sockets: Vec<OwnedFd> = (0..connections)
        .map(|_| {
            let stream = TcpStream::connect(address).unwrap();
            stream.set_nodelay(true).unwrap();
            stream.into()
        })
        .collect();
    let mut ring: IoUring = IoUring::builder()
        .setup_clamp()
        .setup_cqsize(16_384)
        .setup_submit_all()
        .setup_single_issuer()
        .setup_coop_taskrun()
        .setup_taskrun_flag()
        .setup_defer_taskrun()
        .build(1_024)
        .unwrap();
    // As many as the client has for these: it makes room for twice its connections.
    let mut buffers = BufferRing::new(&ring, RingOptions::buffers_for(connections as u64 * 2));
    for (index, socket) in sockets.iter().enumerate() {
        let fd = types::Fd(socket.as_raw_fd());
        let receive = opcode::RecvMulti::new(fd, GROUP).build().user_data(index as u64 * 2 + RECEIVE);
        push(&mut ring, &receive);
        push(&mut ring, &send(socket, request, index));
    }
    let cpu_before = thread_cpu_ns();
    let begun = Instant::now();
    let mut requests = 0_u64;
    let mut in_flight = connections;
    let mut completions: Vec<cqueue::Entry> = Vec::with_capacity(16_384);
    // As the client does: nothing is sent after the end, what is in flight is waited for.
    while in_flight > 0 {
        let wait = types::Timespec::new().nsec(500_000);
        let arguments = types::SubmitArgs::new().timespec(&wait);
        match ring.submitter().submit_with_args(1, &arguments) {
            Ok(_) => {}
            Err(error) if error.raw_os_error() == Some(libc::ETIME) => {}
            Err(error) => panic!("{error}"),
        }
        completions.extend(ring.completion());
        for completion in completions.drain(..) {
            let index = usize::try_from(completion.user_data() / 2).unwrap();
            if completion.user_data() % 2 == SEND {
                assert!(completion.result() > 0, "send: {}", completion.result());
                continue;
            }
            let received = completion.result();
            if received > 0 {
                let id = cqueue::buffer_select(completion.flags()).unwrap();
                let bytes = buffers.bytes(id, usize::try_from(received).unwrap());
                let ended = bytes.ends_with(b"\r\n0\r\n\r\n");
                buffers.give_back(id);
                if ended {
                    requests += 1;
                    if begun.elapsed() < length {
                        push(&mut ring, &send(&sockets[index], request, index));
                    } else {
                        in_flight -= 1;
                    }
                }
            } else {
                assert_eq!(-received, libc::ENOBUFS, "receive");
            }
            if !cqueue::more(completion.flags()) {
                let fd = types::Fd(sockets[index].as_raw_fd());
                let receive = opcode::RecvMulti::new(fd, GROUP).build().user_data(index as u64 * 2 + RECEIVE);
                push(&mut ring, &receive);
            }
        }
    }
    let bare = Bare { requests, cpu_ns: thread_cpu_ns() - cpu_before, wall: begun.elapsed() };
    // The kernel may write into the buffers until the ring is gone.
    drop(ring);
    drop(buffers);
    bare
}

fn send(socket: &OwnedFd, request: &[u8], index: usize) -> io_uring::squeue::Entry {
    let length = u32::try_from(request.len()).unwrap();
    opcode::Send::new(types::Fd(socket.as_raw_fd()), request.as_ptr(), length)
        .flags(libc::MSG_NOSIGNAL | libc::MSG_WAITALL)
        .build()
        .user_data(index as u64 * 2 + SEND)
}

fn push(ring: &mut IoUring, entry: &io_uring::squeue::Entry) {
    loop {
        // SAFETY: the request outlives the ring, the sockets too.
        if unsafe { ring.submission().push(entry) }.is_ok() {
            return;
        }
        ring.submit().unwrap();
    }
}
