//! Sockets on one io_uring: commands in, events out.

use crate::time::{Clock, Nanos, Stamp};
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;

/// Sizes of a ring, all fixed at creation.
#[derive(Clone, Copy, Debug)]
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
    /// Nothing more will be received: end of stream (`None`) or an error number. The socket stays open
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

/// A ring and the sockets on it. Belongs to one thread.
#[derive(Debug)]
pub struct Ring {}

impl Ring {
    /// Makes a ring. `block` holds the bytes that [`Ring::send`] may name by range; it lives as long as
    /// the kernel may read it.
    pub fn new(_options: RingOptions, _block: Arc<[u8]>) -> Result<Self, io::Error> {
        todo!()
    }

    /// Takes over a socket (connected, listening or fresh). Fails when the table is full.
    pub fn open(&mut self, _socket: socket2::Socket) -> Result<SocketId, socket2::Socket> {
        todo!()
    }

    /// Starts connecting; answered by [`Event::Connected`].
    pub fn connect(&mut self, _socket: SocketId, _address: SocketAddr) {
        todo!()
    }

    /// Starts accepting on a listener until it is closed.
    pub fn accept(&mut self, _listener: SocketId) {
        todo!()
    }

    /// Starts receiving (once per life); continues until [`Event::Ended`].
    pub fn receive(&mut self, _socket: SocketId) {
        todo!()
    }

    /// Sends what `head` appends to the socket's own buffer, then `body` of the block: in order, whole,
    /// without a copy of the body. Answered by one [`Event::Sent`]. At most one send at a time per socket.
    pub fn send(&mut self, _socket: SocketId, _head: impl FnOnce(&mut Vec<u8>), _body: Range<usize>) {
        todo!()
    }

    /// Closes the socket: cancels what is pending, lets sent bytes go out, then [`Event::Closed`]. No other
    /// event of this life is delivered once this was called. Closing twice is one closing.
    pub fn close(&mut self, _socket: SocketId) {
        todo!()
    }

    /// Sockets open now, closing ones included.
    pub fn sockets(&self) -> usize {
        todo!()
    }

    /// Whether completions wait to be reaped, or the kernel has work to run for this ring: a look at
    /// shared memory, no system call.
    pub fn ready(&mut self) -> bool {
        todo!()
    }

    /// Submits what is queued and waits for a completion as told.
    pub fn enter(&mut self, _wait: Wait) -> Result<(), io::Error> {
        todo!()
    }

    /// Hands up to `limit` completions to `handler`, each with a stamp taken when it was reaped, before
    /// anything is parsed. Returns how many completions were taken.
    pub fn reap(&mut self, _clock: &Clock, _limit: usize, _handler: impl FnMut(Stamp, Event<'_>)) -> usize {
        todo!()
    }
}
