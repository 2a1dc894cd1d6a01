//! The kernel's shared memory: submission and completion queues, the provided-buffer ring, send stations.
//!
//! Everything here is safe to call. Memory that the kernel may still read or write is owned by `Queues`
//! and is reachable only while the kernel has let go of it: a buffer between its completion and its
//! recycling, a station between the completion of its operation and the next one. It knows no sockets'
//! states and no events; those are [`crate::shard::ring`]'s.

mod buffers;
mod stamps;
mod stations;
mod token;

pub(super) use token::{Operation, Token};

use self::buffers::Buffers;
use self::stamps::StampedLayout;
use self::stations::Stations;
use crate::shard::ring::{RingError, RingOptions};
use crate::time::Nanos;
use io_uring::{IoUring, cqueue, opcode, squeue, types};
use socket2::SockAddr;
use std::collections::VecDeque;
use std::io;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// Lets timed waits of the calling thread end at most this late for the kernel's convenience (at least a
/// nanosecond; Linux grants 50 us unless told otherwise).
///
/// # Errors
/// When the kernel refuses.
pub fn set_timer_slack(slack: Nanos) -> io::Result<()> {
    let slack = libc::c_ulong::try_from(slack.0.max(1)).unwrap_or(libc::c_ulong::MAX);
    // SAFETY: this option takes one number and touches no memory.
    // JUSTIFICATION: no safe crate in use sets the timer slack of a thread.
    if unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, slack) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Lets a bind to port 0 leave the choice of the port to the connect that follows, which can then give the
/// same port to connections of different destinations.
///
/// # Errors
/// When the kernel refuses.
pub(super) fn set_bind_address_no_port(socket: BorrowedFd<'_>) -> io::Result<()> {
    let on: libc::c_int = 1;
    let bytes = libc::socklen_t::try_from(size_of::<libc::c_int>()).unwrap_or(0);
    // SAFETY: the kernel reads `bytes` bytes of `on`, which lives until the call returns; the descriptor is
    // borrowed and open.
    // JUSTIFICATION: no safe crate in use sets this option.
    let refused = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_IP,
            libc::IP_BIND_ADDRESS_NO_PORT,
            (&raw const on).cast(),
            bytes,
        )
    };
    if refused == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The one group of provided buffers of a ring.
const BUFFER_GROUP: u16 = 0;

/// Most completion queue entries that the kernel gives.
const COMPLETIONS_MAX: u32 = 65_536;

/// How often a dropped ring asks the kernel for its memory before it leaks it instead.
const QUIESCE_ROUNDS_MAX: u32 = 64;

/// How long one such round waits.
const QUIESCE_ROUND: Nanos = Nanos::from_millis(20);

/// What one operation came to.
pub(super) struct Completion {
    /// Which operation of which life of which socket.
    pub(super) token: Token,
    /// The count, or an error number below zero.
    pub(super) result: i32,
    /// The operation goes on and completes again.
    pub(super) more: bool,
    /// The buffer that was filled; it is the caller's until [`Queues::recycle`].
    pub(super) buffer: Option<u16>,
    /// The connection that was accepted.
    pub(super) accepted: Option<OwnedFd>,
}

/// What the kernel may read or write after a call has returned.
struct Memory {
    buffers: Buffers,
    stations: Stations,
    layout: StampedLayout,
    block: Arc<[u8]>,
}

/// The queues of one ring and the memory behind them. Belongs to the thread that made it.
pub(super) struct Queues {
    ring: IoUring,
    /// Freed on drop only once the kernel has let go of it.
    memory: ManuallyDrop<Memory>,
    /// Entries that found the submission queue full; they go first.
    backlog: VecDeque<squeue::Entry>,
    /// Operations whose last completion has not been taken.
    in_flight: usize,
}

impl Queues {
    /// Whether nothing is in the kernel's hands or on its way there.
    pub(super) fn is_idle(&self) -> bool {
        self.in_flight == 0 && self.backlog.is_empty()
    }

    /// Takes another block to send from. Nothing may be in the kernel's hands.
    pub(super) fn set_block(&mut self, block: Arc<[u8]>) {
        assert!(self.is_idle(), "the kernel may still read the block");
        self.memory.block = block;
    }

    /// Makes the queues and gives the kernel all buffers.
    ///
    /// # Errors
    /// When the kernel has no io_uring, forbids it, is too old, or has no memory for it.
    pub(super) fn new(options: &RingOptions, block: Arc<[u8]>) -> Result<Self, RingError> {
        let completions = options
            .sockets_max
            .saturating_mul(2)
            .max(options.entries.saturating_mul(4))
            .min(COMPLETIONS_MAX)
            .next_power_of_two();
        let ring = IoUring::builder()
            .setup_clamp()
            .setup_cqsize(completions)
            .setup_submit_all()
            .setup_single_issuer()
            .setup_coop_taskrun()
            .setup_taskrun_flag()
            .setup_defer_taskrun()
            .build(options.entries)
            .map_err(RingError::from_setup)?;
        if !ring.params().is_feature_nodrop() || !ring.params().is_feature_ext_arg() {
            return Err(RingError::TooOld);
        }
        let buffers = Buffers::new(options.buffers, options.buffer_bytes).map_err(RingError::System)?;
        // The buffers are registered while they stand in their final owner, whose drop knows when they may go.
        let queues = Self {
            ring,
            memory: ManuallyDrop::new(Memory {
                buffers,
                stations: Stations::default(),
                layout: StampedLayout::new(),
                block,
            }),
            backlog: VecDeque::with_capacity(options.entries as usize),
            in_flight: 0,
        };
        // SAFETY: the mapping holds `options.buffers` entries, is page-aligned and lives until the ring
        // has been told to forget it, or for ever (see `Drop`).
        // JUSTIFICATION: no safe crate registers a buffer ring.
        unsafe {
            queues.ring.submitter().register_buf_ring_with_flags(
                queues.memory.buffers.ring_address(),
                options.buffers,
                BUFFER_GROUP,
                0,
            )
        }
        .map_err(RingError::from_registration)?;
        Ok(queues)
    }

    /// Adds a station; its index is the number of stations before.
    pub(super) fn add_station(&mut self) {
        self.memory.stations.add();
    }

    /// The head bytes of a station, empty, to be filled for the next send.
    ///
    /// # Panics
    /// While an operation of this station is under way.
    pub(super) fn head(&mut self, station: u32) -> &mut Vec<u8> {
        self.memory.stations.head(station)
    }

    /// The message of a station has been sent, or never will be.
    ///
    /// # Panics
    /// While an operation of this station is under way.
    pub(super) fn clear_head(&mut self, station: u32) {
        self.memory.stations.clear(station);
    }

    /// The bytes that a completion brought.
    ///
    /// # Panics
    /// When the buffer is the kernel's.
    pub(super) fn bytes(&self, buffer: u16) -> &[u8] {
        self.memory.buffers.bytes(buffer)
    }

    /// The bytes that a stamped receive brought, and the wall time in nanoseconds at which the kernel had
    /// received them, where it says so.
    ///
    /// # Panics
    /// When the buffer is the kernel's.
    pub(super) fn stamped_bytes(&self, buffer: u16) -> (&[u8], Option<u64>) {
        self.memory.layout.parse(self.memory.buffers.bytes(buffer))
    }

    /// Asks the kernel to stamp what `socket` receives.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(super) fn enable_stamps(socket: BorrowedFd<'_>) -> io::Result<()> {
        stamps::enable(socket)
    }

    /// Gives a buffer back to the kernel.
    ///
    /// # Panics
    /// When the buffer is the kernel's already.
    pub(super) fn recycle(&mut self, buffer: u16) {
        self.memory.buffers.recycle(buffer);
    }

    /// Starts accepting connections until cancelled.
    pub(super) fn push_accept(&mut self, listener: BorrowedFd<'_>, token: Token) {
        let entry =
            opcode::AcceptMulti::new(types::Fd(listener.as_raw_fd())).flags(libc::SOCK_CLOEXEC).build();
        // SAFETY: the operation names no memory.
        // JUSTIFICATION: the submission queue has no safe interface.
        unsafe { self.push(entry, token) }
    }

    /// Cancels the operation `target`; completes as `token`.
    pub(super) fn push_cancel(&mut self, target: Token, token: Token) {
        let entry = opcode::AsyncCancel::new(target.pack()).build();
        // SAFETY: the operation names no memory.
        // JUSTIFICATION: the submission queue has no safe interface.
        unsafe { self.push(entry, token) }
    }

    /// Closes a descriptor.
    pub(super) fn push_close(&mut self, descriptor: OwnedFd, token: Token) {
        let entry = opcode::Close::new(types::Fd(descriptor.into_raw_fd())).build();
        // SAFETY: the operation names no memory, and the descriptor was ours alone.
        // JUSTIFICATION: the submission queue has no safe interface.
        unsafe { self.push(entry, token) }
    }

    /// Connects; the station of the token's index is busy until the completion is taken.
    pub(super) fn push_connect(&mut self, socket: BorrowedFd<'_>, token: Token, address: SockAddr) {
        let (address, length) = self.memory.stations.occupy_with_address(token.index, address);
        let entry = opcode::Connect::new(types::Fd(socket.as_raw_fd()), address, length).build();
        // SAFETY: the address stands in a station that stays put and untouched until the completion.
        // JUSTIFICATION: the submission queue has no safe interface.
        unsafe { self.push(entry, token) }
    }

    /// Receives into the provided buffers until cancelled, ended or out of buffers.
    pub(super) fn push_receive(&mut self, socket: BorrowedFd<'_>, token: Token) {
        let entry = opcode::RecvMulti::new(types::Fd(socket.as_raw_fd()), BUFFER_GROUP).build();
        // SAFETY: the kernel writes to provided buffers only, which live as long as `memory`.
        // JUSTIFICATION: the submission queue has no safe interface.
        unsafe { self.push(entry, token) }
    }

    /// As [`Queues::push_receive`], for a socket that stamps.
    pub(super) fn push_receive_stamped(&mut self, socket: BorrowedFd<'_>, token: Token) {
        let layout = self.memory.layout.address();
        let entry = opcode::RecvMsgMulti::new(types::Fd(socket.as_raw_fd()), layout, BUFFER_GROUP).build();
        // SAFETY: the layout lives as long as `memory` and is never written; the kernel writes to provided
        // buffers only, which live as long.
        // JUSTIFICATION: the submission queue has no safe interface.
        unsafe { self.push(entry, token) }
    }

    /// Sends the station's head and then `body` of the block, without the first `skip` bytes of both
    /// together. The station is busy until the completion is taken.
    ///
    /// # Panics
    /// When `body` is not a range of the block.
    pub(super) fn push_send(
        &mut self,
        socket: BorrowedFd<'_>,
        token: Token,
        body: Range<usize>,
        skip: usize,
    ) {
        let descriptor = types::Fd(socket.as_raw_fd());
        let memory = &mut *self.memory;
        let body = &memory.block[body];
        let entry = match memory.stations.occupy_with_message(token.index, body, skip) {
            stations::Message::One { address, length } => opcode::Send::new(descriptor, address, length)
                .flags(libc::MSG_NOSIGNAL | libc::MSG_WAITALL)
                .build(),
            stations::Message::Two { header } => opcode::SendMsg::new(descriptor, header)
                .flags((libc::MSG_NOSIGNAL | libc::MSG_WAITALL).cast_unsigned())
                .build(),
        };
        // SAFETY: head, vectors and header stand in a station that stays put and untouched until the
        // completion; the block is never written and is held by `memory`.
        // JUSTIFICATION: the submission queue has no safe interface.
        unsafe { self.push(entry, token) }
    }

    /// Whether [`Queues::pop`] has something, or would after an [`Queues::enter`] without waiting.
    pub(super) fn ready(&mut self) -> bool {
        if !self.ring.completion().is_empty() {
            return true;
        }
        let queue = self.ring.submission();
        queue.taskrun() || queue.cq_overflow()
    }

    /// Submits what is queued, runs the kernel's deferred work, and waits up to `wait` for a completion
    /// when there is none.
    ///
    /// # Errors
    /// When the ring is unusable: used by a second thread, or completions were lost.
    pub(super) fn enter(&mut self, wait: Option<Nanos>) -> io::Result<()> {
        self.flush_backlog();
        let outcome = match wait {
            Some(span) if self.ring.completion().is_empty() => {
                let timeout = types::Timespec::from(Duration::from(span));
                let arguments = types::SubmitArgs::new().timespec(&timeout);
                self.ring.submitter().submit_with_args(1, &arguments)
            }
            Some(_) | None => {
                let queue = self.ring.submission();
                let idle = queue.is_empty() && !queue.taskrun() && !queue.cq_overflow();
                drop(queue);
                if idle { Ok(0) } else { self.ring.submit() }
            }
        };
        match outcome {
            Ok(_) => Ok(()),
            Err(error) => match error.raw_os_error() {
                // The wait ended, a signal came, completions must be taken first, or memory is short:
                // nothing is lost, and the next call goes on.
                Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN) => Ok(()),
                Some(_) | None => Err(error),
            },
        }
    }

    /// Takes one completion.
    pub(super) fn pop(&mut self) -> Option<Completion> {
        loop {
            let entry = self.ring.completion().next()?;
            let flags = entry.flags();
            let more = cqueue::more(flags);
            if !more {
                self.in_flight = self.in_flight.saturating_sub(1);
            }
            let result = entry.result();
            let Some(token) = Token::unpack(entry.user_data()) else {
                debug_assert!(false, "a completion that nobody asked for");
                continue;
            };
            let mut accepted = None;
            match token.operation {
                Operation::Accept if result >= 0 => {
                    // SAFETY: the kernel has just made this descriptor for us, and nobody else knows it.
                    // JUSTIFICATION: descriptors arrive as bare numbers.
                    accepted = Some(unsafe { OwnedFd::from_raw_fd(result) });
                }
                Operation::Connect | Operation::Send => self.memory.stations.release(token.index),
                Operation::Accept
                | Operation::Cancel
                | Operation::Close
                | Operation::Receive
                | Operation::ReceiveStamped => {}
            }
            let buffer = cqueue::buffer_select(flags);
            if let Some(buffer) = buffer {
                self.memory.buffers.take(buffer, u32::try_from(result).unwrap_or(0));
            }
            return Some(Completion { token, result, more, buffer, accepted });
        }
    }

    /// Queues an entry; when the queue is full, submits first; when that does not help, keeps it for the
    /// next [`Queues::enter`].
    ///
    /// # Safety
    /// Memory named by the entry must stay valid, and be left alone, until its last completion is taken.
    unsafe fn push(&mut self, entry: squeue::Entry, token: Token) {
        let entry = entry.user_data(token.pack());
        self.in_flight += 1;
        if self.backlog.is_empty() {
            // SAFETY: passed on to our caller.
            // JUSTIFICATION: the submission queue has no safe interface.
            if unsafe { self.ring.submission().push(&entry) }.is_ok() {
                return;
            }
            // A failure shows as a queue that is still full.
            let _ = self.ring.submit();
            // SAFETY: passed on to our caller.
            // JUSTIFICATION: the submission queue has no safe interface.
            if unsafe { self.ring.submission().push(&entry) }.is_ok() {
                return;
            }
        }
        self.backlog.push_back(entry);
    }

    fn flush_backlog(&mut self) {
        while let Some(entry) = self.backlog.front() {
            // SAFETY: the entry came through `push`, whose caller keeps its memory valid.
            // JUSTIFICATION: the submission queue has no safe interface.
            if unsafe { self.ring.submission().push(entry) }.is_ok() {
                self.backlog.pop_front();
                continue;
            }
            let _ = self.ring.submit();
            if self.ring.submission().is_full() {
                return;
            }
        }
    }

    /// Cancels everything and takes the last completions. Returns whether the kernel has let go of all.
    fn quiesce(&mut self) -> bool {
        for _ in 0..QUIESCE_ROUNDS_MAX {
            if self.in_flight == 0 {
                return true;
            }
            let entry = opcode::AsyncCancel2::new(types::CancelBuilder::any()).build();
            let token = Token { operation: Operation::Cancel, index: Token::INDEX_MAX, generation: 0 };
            // SAFETY: the operation names no memory.
            // JUSTIFICATION: the submission queue has no safe interface.
            unsafe { self.push(entry, token) }
            if self.enter(Some(QUIESCE_ROUND)).is_err() {
                return false;
            }
            while let Some(completion) = self.pop() {
                if let Some(buffer) = completion.buffer {
                    self.memory.buffers.recycle(buffer);
                }
            }
        }
        self.in_flight == 0
    }
}

impl Drop for Queues {
    fn drop(&mut self) {
        // When the kernel does not let go, the memory is leaked: a leak is better than a kernel that
        // writes into what has become something else. The cancels of a round complete within it.
        if self.quiesce() {
            // The ring may never have got the registration; then there is nothing to forget.
            let _ = self.ring.submitter().unregister_buf_ring(BUFFER_GROUP);
            // SAFETY: no operation is under way, so the kernel refers to none of this, and `self.memory`
            // is not used again.
            // JUSTIFICATION: whether to free at all is known only here.
            unsafe { ManuallyDrop::drop(&mut self.memory) }
        }
    }
}
