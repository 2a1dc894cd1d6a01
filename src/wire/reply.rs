//! One reply, fed as it arrives.

/// Decodes the reply to one request on one connection; reset and used again for the next.
#[derive(Debug, Default)]
pub struct ReplyDecoder {}

/// What one feed brought.
#[derive(Debug)]
pub struct Fed {
    /// The status line and headers were completed by this feed; the status.
    pub status: Option<u16>,
    /// Decoded body bytes (chunk framing taken off).
    pub body_bytes: usize,
    /// Messages of any kind completed: SSE messages, or 1 for a whole body that is not a stream.
    pub messages: u32,
    /// Messages with content: text, reasoning or tool-call text that is not empty.
    pub contents: u32,
    /// Of those, messages with output: text or tool-call text (not reasoning alone).
    pub outputs: u32,
    /// Where the reply stands now.
    pub progress: Progress,
}

/// Where a reply stands.
#[derive(Debug)]
pub enum Progress {
    /// The reply is whole.
    Complete {
        /// The connection may carry the next request.
        reusable: bool,
    },
    /// The reply is a failure; the connection must be closed unless `reusable`.
    Failed {
        /// What is wrong.
        fault: Box<Fault>,
        /// The connection may carry the next request (an error status with a whole body).
        reusable: bool,
    },
    /// More bytes are needed.
    Pending,
}

/// Why a reply is a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The connection closed before the first byte of a reply.
    Disconnected,
    /// One event or head is larger than the decoder's limit.
    TooLarge {
        /// What was too large: `head`, `event` or `body`.
        what: &'static str,
        /// The limit in bytes.
        limit_bytes: usize,
    },
    /// A JSON array stands where an object belongs.
    JsonArray,
    /// The reply ended without one message with content.
    NoContent {
        /// Whether any message came at all.
        any_message: bool,
    },
    /// The bytes are not HTTP/1.x.
    NotHttp {
        /// What the parser says.
        detail: String,
    },
    /// The stream carried an error event.
    SseError {
        /// Its first comment, else the whole message.
        message: String,
    },
    /// A status outside 200 to 299.
    Status {
        /// The status code.
        status: u16,
        /// The reason phrase, possibly empty.
        reason: String,
        /// The body as text, cut at the decoder's limit.
        body: String,
    },
    /// The connection closed inside a chunked or counted body.
    Truncated,
}

/// Token counts as the server reports them, whatever names it uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt_tokens: Option<u64>,
    /// Tokens of the reply, reasoning included.
    pub completion_tokens: Option<u64>,
    /// As reported; never summed here.
    pub total_tokens: Option<u64>,
    /// Part of the completion that was reasoning.
    pub reasoning_tokens: Option<u64>,
    /// Part of the prompt that came from the server's cache.
    pub cached_tokens: Option<u64>,
}

impl ReplyDecoder {
    /// Gets ready for the next reply; keeps its buffers.
    pub fn reset(&mut self) {
        todo!()
    }

    /// Takes the next bytes of the reply.
    pub fn feed(&mut self, _bytes: &[u8]) -> Fed {
        todo!()
    }

    /// The peer closed its side: what is left becomes the last message, or a fault. `progress` is never
    /// [`Progress::Pending`].
    pub fn close(&mut self) -> Fed {
        todo!()
    }

    /// The last non-empty usage object seen.
    pub fn usage(&self) -> Option<Usage> {
        todo!()
    }
}
