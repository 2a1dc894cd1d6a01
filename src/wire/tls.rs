//! TLS between the bytes of a socket and the bytes of HTTP: bytes in, bytes out.
//!
//! A [`TlsSession`] is one end of one connection. Received bytes go in and plain ones come out
//! ([`TlsSession::receive`]); plain ones go in and records come out ([`TlsSession::seal`],
//! [`TlsSession::take_records`]). What it has to say by itself - its part of the handshake, alerts, the
//! farewell - comes out with the records, too. [`TlsClient`] is what all connections of a run share: whom it
//! trusts and who it is.
//!
//! It owns no socket, reads no file and starts no thread. rustls does the work, asks the system for the date
//! when it looks at a certificate and for random bytes, and allocates: one vector for each record that it
//! seals or opens (up to 16 KiB of payload), gone once its bytes have been handed over here, and its intake,
//! 4 KiB, which grows while a record is split between reads and shrinks again. Nothing else is allocated
//! once a connection is established (`tests/tls_no_alloc.rs`).

mod client;
mod fault;

pub use client::{Identity, IdentityFault, PemFault, Roots, TlsClient, TlsTarget, Verification};
pub use fault::TlsFault;

use rustls::{ClientConnection, Connection, HandshakeKind, ServerConfig, ServerConnection};
use std::io::{BufRead, Write};
use std::sync::Arc;

/// Types of records: the first byte of whatever a peer that speaks TLS sends.
const RECORD_TYPES: std::ops::RangeInclusive<u8> = 20..=24;

/// One end of one connection.
pub struct TlsSession {
    connection: Connection,
    /// The peer has sent something, and it was TLS.
    greeted: bool,
    peer_closed: bool,
}

impl std::fmt::Debug for TlsSession {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("TlsSession")
            .field("established", &self.is_established())
            .field("peer_closed", &self.peer_closed)
            .finish_non_exhaustive()
    }
}

/// How a session came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handshake {
    /// With certificates.
    Full,
    /// From what an earlier one left.
    Resumed,
}

impl TlsSession {
    fn client(connection: ClientConnection) -> Self {
        Self::of(connection.into())
    }

    /// The server's end of a new connection.
    ///
    /// # Errors
    /// When `config` cannot serve at all.
    pub fn server(config: &Arc<ServerConfig>) -> Result<Self, TlsFault> {
        Ok(Self::of(ServerConnection::new(Arc::clone(config)).map_err(TlsFault::of)?.into()))
    }

    fn of(mut connection: Connection) -> Self {
        // A body of any size is sealed at once: the caller has it in memory anyway.
        connection.set_buffer_limit(None);
        Self { connection, greeted: false, peer_closed: false }
    }

    /// Takes received bytes in and appends what they say to `plain`. On an error, too, `plain` has what came
    /// whole before it; the session is of no use any more but to [`TlsSession::take_records`] its last words.
    ///
    /// # Errors
    /// What the peer, or somebody between, did wrong.
    pub fn receive(&mut self, mut bytes: &[u8], plain: &mut Vec<u8>) -> Result<(), TlsFault> {
        if let Some(first) = bytes.first().filter(|_| !self.greeted) {
            if !RECORD_TYPES.contains(first) {
                let fault = TlsFault::NotTls { http: first.is_ascii_alphabetic() };
                if matches!(self.connection, Connection::Server(_)) {
                    // rustls minds it, too, and has an alert for the client, which tells it what this port is.
                    let _ = self.connection.read_tls(&mut bytes);
                    let _ = self.connection.process_new_packets();
                }
                return Err(fault);
            }
            self.greeted = true;
        }
        while !bytes.is_empty() && !self.peer_closed {
            // Reading from a slice fails only when the session has no room, which processing makes.
            let taken = self
                .connection
                .read_tls(&mut bytes)
                .map_err(|error| TlsFault::Broken { detail: error.to_string() })?;
            let processed = self.connection.process_new_packets();
            self.open(plain);
            let state = processed.map_err(TlsFault::of)?;
            self.peer_closed = state.peer_has_closed();
            if taken == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Hands over what has been opened.
    fn open(&mut self, plain: &mut Vec<u8>) {
        let mut reader = self.connection.reader();
        // Nothing more, for now or for ever, is no error here: the state of the session tells.
        while let Ok(chunk) = reader.fill_buf() {
            let length = chunk.len();
            if length == 0 {
                return;
            }
            plain.extend_from_slice(chunk);
            reader.consume(length);
        }
    }

    /// Seals `plain`; the records come out with [`TlsSession::take_records`].
    pub fn seal(&mut self, plain: &[u8]) {
        // Writing into a session without a limit cannot fail.
        let _ = self.connection.writer().write_all(plain);
    }

    /// Appends every record that waits to be sent to `out`.
    pub fn take_records(&mut self, out: &mut Vec<u8>) {
        while self.connection.wants_write() {
            // Writing to a vector cannot fail.
            if self.connection.write_tls(out).is_err() {
                return;
            }
        }
    }

    /// Whether records wait to be sent.
    pub fn has_records(&self) -> bool {
        self.connection.wants_write()
    }

    /// Says farewell (`close_notify`): what was sent is all there is.
    pub fn close(&mut self) {
        self.connection.send_close_notify();
    }

    /// Whether the handshake is over, and well.
    pub fn is_established(&self) -> bool {
        !self.connection.is_handshaking()
    }

    /// Whether the peer has said farewell: a stream that ends without it may have been cut by anybody.
    pub fn is_peer_closed(&self) -> bool {
        self.peer_closed
    }

    /// How the session came about; absent until it is established.
    pub fn handshake(&self) -> Option<Handshake> {
        if self.connection.is_handshaking() {
            return None;
        }
        self.connection.handshake_kind().map(|kind| match kind {
            HandshakeKind::Full | HandshakeKind::FullWithHelloRetryRequest => Handshake::Full,
            HandshakeKind::Resumed => Handshake::Resumed,
        })
    }
}
