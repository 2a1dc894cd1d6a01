//! Bytes into replies, requests into bytes: HTTP/1.1, server-sent events, chat deltas.
//!
//! Everything here is incremental and works in place: a chunk that is whole in the caller's buffer is
//! never copied, an event that is split over two reads is carried over once. It owns no socket and reads
//! no clock: what one [`ReplyDecoder::feed`] completes has arrived together and gets the caller's stamp.
//! Any split of the same bytes gives the same sums (`tests/wire_properties.rs`).
//!
//! A reply flows through four readers, each a file:
//!
//! | reader | turns | into |
//! |---|---|---|
//! | `head` | status line and headers | how the body is framed and what it holds |
//! | `body` | counted, chunked or close-delimited bytes | pieces of the body |
//! | `sse` | pieces of a stream | the data of one message after another |
//! | `delta` | the JSON of one message | whether it has content, and its usage |
//!
//! [`tls`] stands before the first of them, and behind the request, where a connection speaks TLS.
//! `likeness` saves the last three the work on a chunk whose message differs from the one before only in its
//! text, `known` saves the first and the last two that on a head or a message that an earlier reply had.

mod body;
#[doc(hidden)]
pub mod check;
mod delta;
mod head;
mod kept;
pub mod known;
mod likeness;
mod plain;
pub mod protocol;
mod raw;
pub mod reply;
pub mod request;
mod sse;
pub mod tls;

pub use crate::endpoint::Usage;
pub use crate::endpoint::usage::{Detail, UsageDetails};
pub use kept::KeepTexts;
pub use known::Known;
pub use protocol::{Protocol, TokenSource};
pub use reply::{Fault, Fed, Progress, ReplyDecoder};
pub use request::{RequestTemplate, uuid_v4, write_hex, write_uuid};
