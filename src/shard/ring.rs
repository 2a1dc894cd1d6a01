//! Sockets on one io_uring: commands in, events out.
//!
//! Commands queue operations, [`Ring::enter`] hands them to the kernel in one call, [`Ring::reap`] turns
//! completions into events. The layer continues short sends and re-arms receiving by itself. It knows no
//! protocol, has no timers and starts no thread; in steady state it allocates nothing. The client's driver
//! and the built-in server use it.

use crate::shard::sys::{Completion, Operation, Queues, Token};
use crate::time::{Clock, Nanos, Stamp};
use socket2::SockAddr;
use socket2::Socket;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// Sizes of a ring, all fixed at creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingOptions {
    /// Most sockets open at once.
    pub sockets_max: u32,
    /// Submission queue entries (a power of two).
    pub entries: u32,
    /// Receive buffers shared by all sockets (a power of two, at most 32,768).
    pub buffers: u16,
    /// Size of one receive buffer in bytes.
    pub buffer_bytes: u32,
}

/// Fewest and most receive buffers that [`RingOptions::buffers_for`] gives a ring.
const BUFFERS_MIN: u64 = 64;
const BUFFERS_MAX: u64 = 4_096;

impl RingOptions {
    /// Receive buffers for so many sockets, of which about one in two is busy at a time: one for each busy one,
    /// as a power of two from 64 to 4,096.
    ///
    /// The kernel fills them in turn, so all of them pass through the processor's caches: more than are needed
    /// make every byte that is received slower. A socket that finds none is only read a little later.
    pub fn buffers_for(sockets: u64) -> u16 {
        let buffers = sockets.div_ceil(2).clamp(BUFFERS_MIN, BUFFERS_MAX).next_power_of_two();
        u16::try_from(buffers).unwrap_or(u16::MAX)
    }

    /// Whether a ring of this size serves where one of size `other` is asked for.
    pub fn covers(&self, other: &Self) -> bool {
        self.sockets_max >= other.sockets_max
            && self.entries >= other.entries
            && self.buffers >= other.buffers
            && self.buffer_bytes == other.buffer_bytes
    }
}

/// Why there is no ring.
#[derive(Debug, thiserror::Error)]
pub enum RingError {
    /// No descriptor is left.
    #[error("no file descriptor is left for an io_uring: raise the limit (`ulimit -n`)")]
    Descriptors,
    /// The kernel or its guard says no.
    #[error(
        "io_uring is forbidden here: set the sysctl kernel.io_uring_disabled to 0, and in a container allow \
         io_uring_setup, io_uring_enter and io_uring_register (Docker: --security-opt seccomp=unconfined)"
    )]
    Forbidden,
    /// Not enough memory, most often the limit of locked memory.
    #[error(
        "the kernel has no memory for an io_uring: raise the limit of locked memory (`ulimit -l unlimited`)"
    )]
    Memory,
    /// The kernel has no io_uring.
    #[error("this kernel has no io_uring: Linux 6.1 or newer with CONFIG_IO_URING is needed")]
    Missing,
    /// The sizes asked for cannot be had.
    #[error("a ring cannot have {what}")]
    Sizes {
        /// The size at fault.
        what: &'static str,
    },
    /// Anything else that the system says.
    #[error("the io_uring could not be made: {0}")]
    System(#[source] io::Error),
    /// The kernel's io_uring lacks what is needed.
    #[error("this kernel's io_uring is too old: Linux 6.1 or newer is needed")]
    TooOld,
}

impl RingError {
    /// What a failed `io_uring_setup` means.
    pub(super) fn from_setup(error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::EACCES | libc::EPERM) => Self::Forbidden,
            Some(libc::EINVAL) => Self::TooOld,
            Some(libc::EMFILE | libc::ENFILE) => Self::Descriptors,
            Some(libc::ENOMEM) => Self::Memory,
            Some(libc::ENOSYS) => Self::Missing,
            Some(_) | None => Self::System(error),
        }
    }

    /// What a failed registration of buffers means: as [`RingError::from_setup`].
    pub(super) fn from_registration(error: io::Error) -> Self {
        Self::from_setup(error)
    }
}

/// One life of one socket: an index and its generation. An event of an earlier life is never delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SocketId {
    /// Slot in the ring's table.
    pub index: u32,
    /// Life of that slot.
    pub generation: u32,
}

/// What happened.
#[derive(Debug)]
pub enum Event<'a> {
    /// A listener accepted a connection, which is open in this ring (not receiving yet).
    Accepted {
        /// The listener.
        listener: SocketId,
        /// The new socket.
        socket: SocketId,
    },
    /// The socket and everything about it is gone; the last event of its life.
    Closed {
        /// The socket.
        socket: SocketId,
    },
    /// Connecting ended.
    Connected {
        /// The socket.
        socket: SocketId,
        /// Established, or why not.
        result: Result<(), i32>,
    },
    /// Nothing more will be received (or, on a listener, accepted): end of stream (`None`) or an error number. The socket stays open
    /// until [`Ring::close`].
    Ended {
        /// The socket.
        socket: SocketId,
        /// The error number.
        errno: Option<i32>,
    },
    /// Bytes arrived; the slice lives until the handler returns.
    Received {
        /// The socket.
        socket: SocketId,
        /// The bytes, never empty.
        bytes: &'a [u8],
        /// Wall time in nanoseconds at which the kernel had received the last of them, where it was asked
        /// to say so ([`Ring::stamp_arrivals`]).
        arrived_unix_ns: Option<u64>,
    },
    /// A send ended: all of it was taken by the kernel, or an error number.
    Sent {
        /// The socket.
        socket: SocketId,
        /// Bytes taken.
        result: Result<usize, i32>,
    },
}

/// How long [`Ring::enter`] may wait for the first completion.
#[derive(Clone, Copy, Debug)]
pub enum Wait {
    /// At most this long.
    AtMost(Nanos),
    /// Not at all.
    No,
}

/// The state of a slot of the table.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "the operations are pending independently of each other")]
struct Slot {
    /// Present from opening until the close is queued.
    socket: Option<Socket>,
    generation: u32,
    /// The slot holds a life, from opening until [`Event::Closed`].
    taken: bool,
    /// [`Ring::close`] was called: no more events but the last.
    closing: bool,
    // Operations in the kernel's hands.
    accepting: bool,
    connecting: bool,
    receiving: bool,
    /// Receiving says when the kernel received.
    stamped: bool,
    sending: bool,
    /// What of the current send the kernel has taken, of how much.
    sent: usize,
    sent_total: usize,
    body: Range<usize>,
}

impl Slot {
    fn busy(&self) -> bool {
        self.accepting || self.connecting || self.receiving || self.sending
    }
}

/// A ring and the sockets on it. Belongs to one thread.
///
/// Dropping it cancels what is pending, waits briefly for the kernel to let go, and closes the sockets.
pub struct Ring {
    // Before the slots: operations end before the sockets are closed.
    queues: Queues,
    slots: Vec<Slot>,
    /// Slots without a life; as much capacity as there are slots.
    free: Vec<u32>,
    sockets_max: u32,
    block_bytes: usize,
    /// Listeners that found no descriptor left; tried again at the next enter.
    starved: Vec<SocketId>,
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Ring")
            .field("sockets", &self.sockets())
            .field("sockets_max", &self.sockets_max)
            .finish_non_exhaustive()
    }
}

impl Ring {
    /// Makes a ring. `block` holds the bytes that [`Ring::send`] may name by range; it lives as long as
    /// the kernel may read it. Call it on the thread that will use the ring: the kernel refuses any other.
    ///
    /// # Errors
    /// When the kernel gives no io_uring, or the sizes cannot be had; the message names the cure.
    pub fn new(options: RingOptions, block: Arc<[u8]>) -> Result<Self, RingError> {
        let sizes: [(bool, &str); 4] = [
            (
                options.buffers.is_power_of_two() && options.buffers <= 32_768,
                "a number of buffers that is not a power of two up to 32,768",
            ),
            ((1..=1 << 30).contains(&options.buffer_bytes), "buffers that are empty or above 1 GiB"),
            (options.entries.is_power_of_two(), "a submission queue that is not a power of two"),
            (
                (1..=Token::INDEX_MAX).contains(&options.sockets_max),
                "a table of no socket or of more than 16,777,215",
            ),
        ];
        if let Some(&(_, what)) = sizes.iter().find(|(good, _)| !good) {
            return Err(RingError::Sizes { what });
        }
        let block_bytes = block.len();
        Ok(Self {
            queues: Queues::new(&options, block)?,
            slots: Vec::new(),
            free: Vec::new(),
            sockets_max: options.sockets_max,
            block_bytes,
            starved: Vec::new(),
        })
    }

    /// Whether nothing is open or pending, so that the ring can be given to other work.
    pub fn is_idle(&self) -> bool {
        self.sockets() == 0 && self.queues.is_idle()
    }

    /// Sends from another block from now on; the table and its buffers stay.
    ///
    /// # Panics
    /// When the ring is not idle: see [`Ring::is_idle`].
    pub fn set_block(&mut self, block: Arc<[u8]>) {
        self.block_bytes = block.len();
        self.queues.set_block(block);
    }

    /// Takes over a socket (connected, listening or fresh), which becomes a blocking one: the ring waits
    /// for readiness in the kernel, where a non-blocking socket would fail instead.
    ///
    /// # Errors
    /// Gives the socket back when the table is full.
    pub fn open(&mut self, socket: Socket) -> Result<SocketId, Socket> {
        if self.free.is_empty() && self.slots.len() >= self.sockets_max as usize {
            return Err(socket);
        }
        if socket.set_nonblocking(false).is_err() {
            return Err(socket);
        }
        self.adopt(socket)
    }

    /// Starts connecting; answered by [`Event::Connected`].
    pub fn connect(&mut self, socket: SocketId, address: impl Into<SockAddr>) {
        let Some((slot, queues)) = self.alive(socket) else { return };
        let Some(descriptor) = &slot.socket else { return };
        slot.connecting = true;
        queues.push_connect(descriptor.as_fd(), token(Operation::Connect, socket), address.into());
    }

    /// Starts accepting on a listener until it is closed. While no descriptor is left, or memory is short,
    /// each [`Ring::enter`] tries again; when the table is full, the new connection is closed at once.
    pub fn accept(&mut self, listener: SocketId) {
        let Some((slot, queues)) = self.alive(listener) else { return };
        let Some(descriptor) = &slot.socket else { return };
        if !slot.accepting {
            slot.accepting = true;
            queues.push_accept(descriptor.as_fd(), token(Operation::Accept, listener));
        }
    }

    /// Starts receiving (once per life); continues until [`Event::Ended`].
    pub fn receive(&mut self, socket: SocketId) {
        let Some((slot, queues)) = self.alive(socket) else { return };
        let Some(descriptor) = &slot.socket else { return };
        if !slot.receiving {
            slot.receiving = true;
            if slot.stamped {
                queues.push_receive_stamped(descriptor.as_fd(), token(Operation::ReceiveStamped, socket));
            } else {
                queues.push_receive(descriptor.as_fd(), token(Operation::Receive, socket));
            }
        }
    }

    /// Asks the kernel to say of all that this socket receives when it came. Call it before
    /// [`Ring::receive`]; where the kernel refuses, bytes come without a time.
    pub fn stamp_arrivals(&mut self, socket: SocketId) {
        let Some((slot, _)) = self.alive(socket) else { return };
        let Some(descriptor) = &slot.socket else { return };
        slot.stamped = !slot.receiving && Queues::enable_stamps(descriptor.as_fd()).is_ok();
    }

    /// Sends what `head` appends to an empty buffer, then `body` of the block: in order, whole, a long body
    /// without a copy. Answered by one [`Event::Sent`]. At most one send at a time per socket.
    /// On a socket that is closing or gone this does nothing.
    ///
    /// # Panics
    /// When a send of this socket is under way, or `body` is not a range of the block.
    pub fn send(&mut self, socket: SocketId, head: impl FnOnce(&mut Vec<u8>), body: Range<usize>) {
        assert!(body.start <= body.end && body.end <= self.block_bytes, "a send outside the block");
        let Some((slot, queues)) = self.alive(socket) else { return };
        let Some(descriptor) = &slot.socket else { return };
        assert!(!slot.sending, "a second send before the first has ended");
        let bytes = queues.head(socket.index);
        head(bytes);
        slot.sending = true;
        slot.sent = 0;
        slot.sent_total = bytes.len() + body.len();
        slot.body = body.clone();
        queues.push_send(descriptor.as_fd(), token(Operation::Send, socket), body, 0);
    }

    /// Closes the socket: cancels what is pending, lets sent bytes go out, then [`Event::Closed`]. No other
    /// event of this life is delivered once this was called. Closing twice is one closing.
    pub fn close(&mut self, socket: SocketId) {
        let Some((slot, queues)) = self.alive(socket) else { return };
        slot.closing = true;
        cancel_pending(slot, queues, socket);
        close_if_idle(slot, queues, socket);
    }

    /// Closes as [`Ring::close`] does, but drops unsent bytes and tells the peer by a reset.
    pub fn reset(&mut self, socket: SocketId) {
        let Some((slot, _)) = self.alive(socket) else { return };
        if let Some(descriptor) = &slot.socket {
            // A socket that cannot linger (not TCP) is closed in the ordinary way.
            let _ = descriptor.set_linger(Some(Duration::ZERO));
        }
        self.close(socket);
    }

    /// The socket itself, for its options; nothing when it is closing or gone.
    pub fn socket(&self, socket: SocketId) -> Option<&Socket> {
        let slot = self.slots.get(socket.index as usize)?;
        if slot.generation == socket.generation && !slot.closing { slot.socket.as_ref() } else { None }
    }

    /// Sockets open now, closing ones included.
    pub fn sockets(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether completions wait to be reaped, or the kernel has work to run for this ring: a look at
    /// shared memory, no system call. Work of the kernel is run by [`Ring::enter`].
    pub fn ready(&mut self) -> bool {
        self.queues.ready()
    }

    /// Submits what is queued and waits for a completion as told. With [`Wait::No`] it is a system call
    /// only when something is queued or the kernel has work to run.
    ///
    /// # Errors
    /// When the ring is unusable: called on another thread than made it, or completions were lost. A wait
    /// that ends, a signal and a shortage that passes are no errors.
    pub fn enter(&mut self, wait: Wait) -> Result<(), io::Error> {
        while let Some(listener) = self.starved.pop() {
            self.accept(listener);
        }
        match wait {
            Wait::AtMost(span) => self.queues.enter(Some(span)),
            Wait::No => self.queues.enter(None),
        }
    }

    /// Hands up to `limit` completions to `handler`, each with a stamp taken when it was reaped, before
    /// anything is parsed. Returns how many completions were taken; some are the ring's own and bring no
    /// event. Makes no system call but to submit when the submission queue is full.
    pub fn reap(&mut self, clock: &Clock, limit: usize, mut handler: impl FnMut(Stamp, Event<'_>)) -> usize {
        for taken in 0..limit {
            let Some(completion) = self.queues.pop() else { return taken };
            let now = clock.now();
            self.complete(completion, &mut |event: Event<'_>| handler(now, event));
        }
        limit
    }

    /// Gives a socket a slot.
    fn adopt(&mut self, socket: Socket) -> Result<SocketId, Socket> {
        let index = match self.free.pop() {
            Some(index) => index,
            None if self.slots.len() < self.sockets_max as usize => {
                let index = u32::try_from(self.slots.len()).unwrap_or(Token::INDEX_MAX);
                self.slots.push(Slot::default());
                self.free.reserve(self.slots.len());
                self.queues.add_station();
                index
            }
            None => return Err(socket),
        };
        let slot = &mut self.slots[index as usize];
        debug_assert!(!slot.taken && !slot.busy(), "a free slot has no life");
        *slot = Slot { socket: Some(socket), generation: slot.generation, taken: true, ..Slot::default() };
        Ok(SocketId { index, generation: slot.generation })
    }

    /// The slot of a life that is neither over nor closing.
    fn alive(&mut self, socket: SocketId) -> Option<(&mut Slot, &mut Queues)> {
        let slot = self.slots.get_mut(socket.index as usize)?;
        let alive = slot.taken && !slot.closing && slot.generation == socket.generation;
        alive.then_some((slot, &mut self.queues))
    }

    fn complete(&mut self, completion: Completion, handler: &mut impl FnMut(Event<'_>)) {
        let Token { operation, index, generation } = completion.token;
        let socket = SocketId { index, generation };
        let known =
            self.slots.get(index as usize).is_some_and(|slot| slot.taken && slot.generation == generation);
        if !known {
            // An earlier life: the late answer to a cancel.
            if let Some(buffer) = completion.buffer {
                self.queues.recycle(buffer);
            }
            return;
        }
        match operation {
            Operation::Accept => self.complete_accept(socket, completion, handler),
            Operation::Cancel => self.complete_cancel(socket, completion.result),
            Operation::Close => {
                let slot = &mut self.slots[index as usize];
                *slot = Slot { generation: generation.wrapping_add(1), ..Slot::default() };
                self.free.push(index);
                handler(Event::Closed { socket });
            }
            Operation::Connect => {
                let slot = &mut self.slots[index as usize];
                slot.connecting = false;
                if slot.closing {
                    close_if_idle(slot, &mut self.queues, socket);
                } else {
                    let result = if completion.result < 0 { Err(-completion.result) } else { Ok(()) };
                    handler(Event::Connected { socket, result });
                }
            }
            Operation::Receive | Operation::ReceiveStamped => {
                self.complete_receive(socket, &completion, handler);
            }
            Operation::Send => self.complete_send(socket, completion.result, handler),
        }
    }

    fn complete_accept(
        &mut self,
        listener: SocketId,
        completion: Completion,
        handler: &mut impl FnMut(Event<'_>),
    ) {
        let slot = &mut self.slots[listener.index as usize];
        slot.accepting = completion.more;
        if slot.closing {
            close_if_idle(slot, &mut self.queues, listener);
            return;
        }
        if let Some(accepted) = completion.accepted {
            // A connection that finds the table full is closed by dropping it.
            if let Ok(socket) = self.adopt(Socket::from(accepted)) {
                handler(Event::Accepted { listener, socket });
            }
        }
        if completion.more {
            return;
        }
        match -completion.result {
            ..=0 | libc::ECONNABORTED | libc::EINTR | libc::EPROTO => self.accept(listener),
            libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM | libc::EAGAIN => {
                self.starved.push(listener);
            }
            errno => handler(Event::Ended { socket: listener, errno: Some(errno) }),
        }
    }

    fn complete_cancel(&mut self, socket: SocketId, result: i32) {
        let slot = &mut self.slots[socket.index as usize];
        if result >= 0 || !slot.busy() {
            return;
        }
        // The kernel did not find the operation, or could not stop it, and yet it has not ended: end the
        // stream itself, which ends every operation on it, and ask again.
        if let Some(descriptor) = &slot.socket {
            let _ = descriptor.shutdown(std::net::Shutdown::Both);
        }
        cancel_pending(slot, &mut self.queues, socket);
    }

    fn complete_receive(
        &mut self,
        socket: SocketId,
        completion: &Completion,
        handler: &mut impl FnMut(Event<'_>),
    ) {
        let slot = &mut self.slots[socket.index as usize];
        slot.receiving = completion.more;
        let closing = slot.closing;
        let mut result = completion.result;
        if let Some(buffer) = completion.buffer {
            let (bytes, arrived_unix_ns) = match completion.token.operation {
                Operation::ReceiveStamped => self.queues.stamped_bytes(buffer),
                _ => (self.queues.bytes(buffer), None),
            };
            if bytes.is_empty() {
                // Behind its header a stamped receive brings nothing at the end of the stream.
                result = result.min(0);
            } else if !closing && result > 0 {
                handler(Event::Received { socket, bytes, arrived_unix_ns });
            }
            self.queues.recycle(buffer);
        }
        if closing {
            close_if_idle(&mut self.slots[socket.index as usize], &mut self.queues, socket);
        } else if result <= 0 && result != -libc::ENOBUFS {
            let errno = (result < 0).then_some(-result);
            handler(Event::Ended { socket, errno });
        } else if !completion.more {
            // The kernel ended a multishot receive for its own reasons, or found no buffer. Completions
            // come in order, so the buffers that others filled before are back in the ring by now.
            self.receive(socket);
        }
    }

    fn complete_send(&mut self, socket: SocketId, result: i32, handler: &mut impl FnMut(Event<'_>)) {
        let slot = &mut self.slots[socket.index as usize];
        slot.sending = false;
        let count = usize::try_from(result).unwrap_or(0);
        slot.sent += count;
        if let Some(descriptor) = &slot.socket
            && !slot.closing
            && count > 0
            && slot.sent < slot.sent_total
        {
            slot.sending = true;
            let token = token(Operation::Send, socket);
            self.queues.push_send(descriptor.as_fd(), token, slot.body.clone(), slot.sent);
            return;
        }
        self.queues.clear_head(socket.index);
        if slot.closing {
            close_if_idle(slot, &mut self.queues, socket);
        } else if result < 0 {
            handler(Event::Sent { socket, result: Err(-result) });
        } else if slot.sent < slot.sent_total {
            handler(Event::Sent { socket, result: Err(libc::EIO) });
        } else {
            handler(Event::Sent { socket, result: Ok(slot.sent) });
        }
    }
}

fn token(operation: Operation, socket: SocketId) -> Token {
    Token { operation, index: socket.index, generation: socket.generation }
}

fn cancel_pending(slot: &Slot, queues: &mut Queues, socket: SocketId) {
    let pending: [_; 5] = [
        (slot.accepting, Operation::Accept),
        (slot.connecting, Operation::Connect),
        (slot.receiving && !slot.stamped, Operation::Receive),
        (slot.receiving && slot.stamped, Operation::ReceiveStamped),
        (slot.sending, Operation::Send),
    ];
    for (_, operation) in pending.into_iter().filter(|(pending, _)| *pending) {
        queues.push_cancel(token(operation, socket), token(Operation::Cancel, socket));
    }
}

/// Closes the descriptor of a closing slot once the kernel has let go of its operations.
fn close_if_idle(slot: &mut Slot, queues: &mut Queues, socket: SocketId) {
    if !slot.busy()
        && let Some(descriptor) = slot.socket.take()
    {
        queues.push_close(OwnedFd::from(descriptor), token(Operation::Close, socket));
    }
}
