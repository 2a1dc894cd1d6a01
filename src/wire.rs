//! Bytes into replies, requests into bytes: HTTP/1.1, server-sent events, chat deltas.
//!
//! Everything here is incremental and works in place: a chunk that is whole in the caller's buffer is
//! never copied, an event that is split over two reads is carried over once. It owns no socket and reads
//! no clock: what one [`ReplyDecoder::feed`] completes has arrived together and gets the caller's stamp.
//! Any split of the same bytes gives the same sums (`tests/wire_properties.rs`).

pub mod reply;
pub mod request;

pub use reply::{Fault, Fed, Progress, ReplyDecoder, Usage};
pub use request::RequestTemplate;
