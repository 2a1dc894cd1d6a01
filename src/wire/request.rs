//! Request heads, rendered once and patched per request.

use crate::config::Url;

/// The head of every request to one URL, with the places that vary.
#[derive(Clone, Debug)]
pub struct RequestTemplate {}

impl RequestTemplate {
    /// Headers in AIPerf's order (parity-pitfalls P3): Host, User-Agent, X-Request-ID, X-Correlation-ID,
    /// Accept, Content-Type, X-Session-Affinity, Content-Length.
    pub fn new(_url: &Url, _streaming: bool) -> Self {
        todo!()
    }

    /// Appends the head of one request to `out`; ids are UUIDs as 128-bit numbers. Allocates nothing when
    /// `out` has room.
    pub fn render(&self, _out: &mut Vec<u8>, _request_id: u128, _correlation_id: u128, _body_bytes: usize) {
        todo!()
    }
}
