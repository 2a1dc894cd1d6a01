//! One reply, fed as it arrives.
//!
//! The decoder carries bytes only when a head, an event or a text is split over reads; its one buffer is
//! empty until then and is given back when an exceptional reply made it large. What is no event stream is
//! one message, read when the body is whole. A fault of the content (an array for an object, nothing with
//! content) is reported where the reply ends, so that the connection can be used again; an error event ends
//! the reply where it stands.

use std::mem;
use std::ops::Range;

use crate::endpoint::{Capture, EndpointError, EndpointSettings, Reader, Texts, Usage};
use crate::wire::body::{Framing, FramingFault, LINE_BYTES_MAX, Piece};
use crate::wire::delta::{self, Delta, Reading};
use crate::wire::head::{self, Head, HeadEnd, Holds};
use crate::wire::kept::{KeepTexts, Kept, read_any, speech};
use crate::wire::known::{Found, Known};
use crate::wire::likeness::{Alike, Likeness};
use crate::wire::plain::offset_in;
use crate::wire::raw::Raw;
use crate::wire::sse::{EVENT_BYTES_MAX, Event, Events, Message, Next};

/// Largest head, in bytes.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Bytes of a head that are looked at before it is whole: empty lines may come first.
const BEGIN_BYTES: usize = 64;
/// First byte of the record in which a server that speaks TLS refuses a request without.
const TLS_ALERT: u8 = 21;
/// Largest text that is not an event stream, in bytes.
const TEXT_BYTES_MAX: usize = 64 * 1024 * 1024;
/// What is kept of the body of an error status, in bytes; the rest is read and dropped.
const ERROR_BODY_BYTES_MAX: usize = 64 * 1024;
/// A buffer larger than this is given back when the reply is over.
const RETAINED_BYTES_MAX: usize = 64 * 1024;

/// Decodes the reply to one request on one connection; reset and used again for the next.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "facts that change independently of each other")]
pub struct ReplyDecoder {
    place: Place,
    /// A head, an event or a text that is not whole yet.
    carried: Vec<u8>,
    /// Data of an event that does not stand in one piece.
    scratch: Vec<u8>,
    events: Events,
    likeness: Likeness,
    /// Reads the messages of every endpoint type but chat.
    reader: Option<Box<Reader>>,
    /// What the reply says, when it is kept.
    kept: Option<Box<Kept>>,
    /// The body as it comes, when that is kept.
    raw: Option<Box<Raw>>,
    /// The body is, or was, an event stream.
    is_stream: bool,
    usage: Option<Usage>,
    /// A fault of the content, reported where the reply ends.
    content_fault: Option<Box<Fault>>,
    any_message: bool,
    any_content: bool,
    /// Servers are asked for usage in every message.
    usage_per_message: bool,
    /// Completion tokens by the first message with content, where servers are asked for them.
    first_content_tokens: Option<u64>,
}

/// What the next byte belongs to.
#[derive(Debug)]
enum Place {
    Body(Body),
    /// The reply is over, whatever it was.
    Done,
    Head {
        end: HeadEnd,
    },
}

impl Default for Place {
    fn default() -> Self {
        Self::Head { end: HeadEnd::default() }
    }
}

#[derive(Debug)]
struct Body {
    framing: Framing,
    holds: Holds,
    keeps_alive: bool,
    /// The text stood whole in the caller's buffer and was read there.
    read_in_place: bool,
    /// Status and reason of an error.
    error: Option<Box<(u16, String)>>,
}

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

impl Fed {
    const fn nothing() -> Self {
        Self {
            status: None,
            body_bytes: 0,
            messages: 0,
            contents: 0,
            outputs: 0,
            progress: Progress::Pending,
        }
    }
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

impl Progress {
    fn broken(fault: Fault) -> Self {
        Self::Failed { fault: Box::new(fault), reusable: false }
    }
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
    /// A JSON number, string or `true` stands where an object belongs.
    JsonScalar {
        /// The type's name in Python, as AIPerf's error text has it: `bool`, `float`, `int` or `str`.
        type_name: &'static str,
    },
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

impl From<FramingFault> for Fault {
    fn from(fault: FramingFault) -> Self {
        match fault {
            FramingFault::Malformed(detail) => Self::NotHttp { detail: detail.to_owned() },
            FramingFault::TooLong => Self::TooLarge { what: "head", limit_bytes: LINE_BYTES_MAX },
        }
    }
}

impl ReplyDecoder {
    /// A decoder of replies of this endpoint. [`ReplyDecoder::default`] is that of chat, keeping nothing.
    ///
    /// # Errors
    /// The place of the content in a reply is not one.
    pub fn new(settings: &EndpointSettings, keeps: KeepTexts) -> Result<Self, EndpointError> {
        let reader = Reader::new(settings)?;
        let kept = match keeps {
            KeepTexts::No => None,
            KeepTexts::SentBack => Some(Box::new(Kept::new(reader.clone(), true))),
            KeepTexts::Yes => Some(Box::new(Kept::new(reader.clone(), false))),
        };
        let reader = (!settings.dialect.is_chat()).then(|| Box::new(reader));
        Ok(Self { reader, kept, usage_per_message: settings.per_chunk_usage, ..Self::default() })
    }

    /// Keeps the body of each reply as it comes, too.
    #[must_use]
    pub fn keeping_raw(mut self) -> Self {
        self.raw = Some(Box::default());
        self
    }

    /// The body so far, without framing; absent unless bodies are kept, and when it is longer than 512 KiB.
    pub fn raw(&self) -> Option<&[u8]> {
        self.raw.as_deref().and_then(Raw::body)
    }

    /// The media type of a body that is kept; empty when the server names none.
    pub fn media_type(&self) -> &[u8] {
        self.raw.as_deref().map_or(&[], Raw::media_type)
    }

    /// Whether the body is an event stream.
    pub const fn is_stream(&self) -> bool {
        self.is_stream
    }

    /// Another decoder of the same kind, with nothing read yet.
    pub fn fresh(&self) -> Self {
        Self {
            reader: self.reader.clone(),
            kept: self.kept.as_ref().map(|kept| Box::new(kept.fresh())),
            raw: self.raw.as_ref().map(|_| Box::default()),
            usage_per_message: self.usage_per_message,
            ..Self::default()
        }
    }

    /// What the reply has said so far; absent unless texts are kept.
    pub fn texts(&self) -> Option<&Texts> {
        self.kept.as_deref().map(Kept::texts)
    }

    /// The reply as later turns send it back; absent unless it is put together.
    pub fn answer(&mut self) -> Option<&mut Capture> {
        self.kept.as_deref_mut().and_then(Kept::answer)
    }

    /// Gets ready for the next reply; keeps its buffers.
    pub fn reset(&mut self) {
        for buffer in [&mut self.carried, &mut self.scratch] {
            buffer.clear();
            buffer.shrink_to(RETAINED_BYTES_MAX);
        }
        self.place = Place::default();
        self.events = Events::default();
        self.usage = None;
        self.first_content_tokens = None;
        if let Some(reader) = &mut self.reader {
            reader.reset();
        }
        if let Some(kept) = &mut self.kept {
            kept.reset();
        }
        if let Some(raw) = &mut self.raw {
            raw.reset(RETAINED_BYTES_MAX);
        }
        self.is_stream = false;
        self.content_fault = None;
        self.any_message = false;
        self.any_content = false;
    }

    /// Takes the next bytes of the reply, as if it were the first one: for one reply by itself.
    ///
    /// Once the answer was not [`Progress::Pending`], bytes belong to no reply: they are counted nowhere and
    /// the answer is a completion that leaves the connection unusable, until [`ReplyDecoder::reset`].
    pub fn feed(&mut self, bytes: &[u8]) -> Fed {
        self.feed_knowing(bytes, &mut Known::default())
    }

    /// As [`ReplyDecoder::feed`], the faster for what earlier replies left in `known`; the answer is the same.
    pub fn feed_knowing(&mut self, bytes: &[u8], known: &mut Known) -> Fed {
        let mut fed = Fed::nothing();
        let mut rest = bytes;
        fed.progress = self.advance(&mut rest, &mut fed, known).unwrap_or_else(Progress::broken);
        self.settle(&fed.progress);
        fed
    }

    /// The peer closed its side: what is left becomes the last message, or a fault. `progress` is never
    /// [`Progress::Pending`].
    pub fn close(&mut self) -> Fed {
        let mut fed = Fed::nothing();
        fed.progress = match &self.place {
            Place::Head { .. } => Progress::broken(Fault::Disconnected),
            Place::Body(Body { framing: Framing::UntilClose, .. }) => {
                self.finish(false, &mut fed).unwrap_or_else(Progress::broken)
            }
            Place::Body(_) => Progress::broken(Fault::Truncated),
            Place::Done => Progress::Complete { reusable: false },
        };
        self.settle(&fed.progress);
        fed
    }

    /// The last non-empty usage object seen.
    pub fn usage(&self) -> Option<Usage> {
        self.usage
    }

    /// The tokens that the first message with content brought, where every message was to tell its usage.
    pub fn first_content_tokens(&self) -> Option<u64> {
        self.first_content_tokens
    }

    fn settle(&mut self, progress: &Progress) {
        match progress {
            Progress::Complete { .. } | Progress::Failed { .. } => self.place = Place::Done,
            Progress::Pending => {}
        }
    }

    /// Reads on until the bytes or the reply are at their end.
    fn advance(&mut self, bytes: &mut &[u8], fed: &mut Fed, known: &mut Known) -> Result<Progress, Fault> {
        loop {
            self.chunks_like_the_last(bytes, fed);
            match &mut self.place {
                Place::Done => return Ok(Progress::Complete { reusable: false }),
                Place::Head { .. } => {
                    if !self.head(bytes, fed, known)? {
                        return Ok(Progress::Pending);
                    }
                }
                Place::Body(body) => match body.framing.next(bytes)? {
                    Piece::Data(data) => {
                        if let Some(raw) = &mut self.raw {
                            raw.extend(data);
                        }
                        let is_last = body.framing.is_counted_out();
                        match body.holds {
                            Holds::Binary => fed.body_bytes += data.len(),
                            Holds::Error => {
                                fed.body_bytes += data.len();
                                let room = ERROR_BODY_BYTES_MAX.saturating_sub(self.carried.len());
                                self.carried.extend_from_slice(data.get(..room).unwrap_or(data));
                            }
                            Holds::Events => self.stream(data, fed, known)?,
                            Holds::Text if is_last && self.carried.is_empty() => {
                                fed.body_bytes += data.len();
                                body.read_in_place = true;
                                self.content(data, fed);
                            }
                            Holds::Text => {
                                fed.body_bytes += data.len();
                                self.carry(data, "body", TEXT_BYTES_MAX)?;
                            }
                        }
                    }
                    Piece::End => return self.finish(bytes.is_empty(), fed),
                    Piece::Starved => return Ok(Progress::Pending),
                },
            }
        }
    }

    /// Reads the head; false when it goes on beyond the bytes.
    fn head(&mut self, bytes: &mut &[u8], fed: &mut Fed, known: &mut Known) -> Result<bool, Fault> {
        let Place::Head { end } = &mut self.place else { return Ok(true) };
        if self.carried.is_empty()
            && let Some((head, length)) = known.find_head(bytes)
        {
            let (whole, rest) = bytes.split_at_checked(length).unwrap_or((bytes, &[]));
            *bytes = rest;
            if let Some(raw) = &mut self.raw {
                raw.begin(whole);
            }
            self.begin_body(head.clone(), fed);
            return Ok(true);
        }
        let found = end.find(bytes);
        let (part, rest) = bytes.split_at(found.unwrap_or(bytes.len()));
        *bytes = rest;
        if self.carried.len() + part.len() > HEAD_BYTES_MAX {
            return Err(Fault::TooLarge { what: "head", limit_bytes: HEAD_BYTES_MAX });
        }
        let whole = if self.carried.is_empty() && found.is_some() {
            part
        } else {
            self.carried.extend_from_slice(part);
            &self.carried
        };
        // The first bytes tell whether this is HTTP: a peer that speaks something else may never end a head.
        if !head::can_begin(whole.get(..BEGIN_BYTES).unwrap_or(whole)) {
            let detail = match whole.first() {
                Some(&TLS_ALERT) => {
                    "the server speaks TLS on this port: write `https://` in place of `http://`"
                }
                Some(_) | None => "the reply does not begin with HTTP/1",
            };
            return Err(Fault::NotHttp { detail: detail.to_owned() });
        }
        if found.is_none() {
            return Ok(false);
        }
        let head = Head::read(whole).map_err(|detail| Fault::NotHttp { detail })?;
        known.learn_head(whole, &head);
        if let Some(raw) = &mut self.raw {
            raw.begin(whole);
        }
        self.carried.clear();
        if matches!(head.status, 100..=199 if head.status != 101) {
            // An interim reply; the real one follows.
            self.place = Place::default();
            return Ok(true);
        }
        self.begin_body(head, fed);
        Ok(true)
    }

    /// The head is read; the body follows.
    fn begin_body(&mut self, head: Head, fed: &mut Fed) {
        fed.status = Some(head.status);
        let error = (!head.is_success()).then(|| Box::new((head.status, head.reason)));
        let Head { framing, holds, keeps_alive, .. } = head;
        self.is_stream = matches!(holds, Holds::Events);
        self.place = Place::Body(Body { framing, holds, keeps_alive, read_in_place: false, error });
    }

    /// Takes whole chunks off `bytes` that each hold one event like the last one.
    #[inline]
    fn chunks_like_the_last(&mut self, bytes: &mut &[u8], fed: &mut Fed) {
        if !self.takes_likeness() || self.raw.is_some() {
            return;
        }
        let Place::Body(Body { framing: Framing::Chunked(chunked), .. }) = &mut self.place else { return };
        let (mut messages, mut body_bytes) = (0, 0);
        while let Some((event, rest)) = chunked.whole(bytes)
            && let Some(text) = self.likeness.text_of(event)
        {
            chunked.pass();
            messages += 1;
            body_bytes += event.len();
            *bytes = rest;
            if let Some(kept) = &mut self.kept {
                kept.piece(text, speech(self.likeness.has_output()));
            }
        }
        fed.body_bytes += body_bytes;
        fed.messages += messages;
        fed.contents += messages;
        fed.outputs += if self.likeness.has_output() { messages } else { 0 };
    }

    /// Whether an event like the last one, of this reply or an earlier one, says the same as that.
    #[inline]
    const fn takes_likeness(&self) -> bool {
        self.any_content && self.carried.is_empty() && self.events.is_between()
    }

    fn carry(&mut self, bytes: &[u8], what: &'static str, limit_bytes: usize) -> Result<(), Fault> {
        if self.carried.len() + bytes.len() > limit_bytes {
            return Err(Fault::TooLarge { what, limit_bytes });
        }
        self.carried.extend_from_slice(bytes);
        Ok(())
    }

    /// Takes a piece of an event stream.
    fn stream(&mut self, piece: &[u8], fed: &mut Fed, known: &mut Known) -> Result<(), Fault> {
        let mut rest = piece;
        while !rest.is_empty() {
            while let Some(Alike { taken, text, output }) = self.like_the_last(rest) {
                fed.body_bytes += taken;
                fed.messages += 1;
                fed.contents += 1;
                fed.outputs += u32::from(output);
                if let Some(kept) = &mut self.kept {
                    kept.piece(rest.get(text).unwrap_or_default(), speech(output));
                }
                rest = rest.get(taken..).unwrap_or_default();
            }
            if let Some(found) = self.known(rest, known) {
                let (event, next) = rest.split_at(found.taken);
                self.events.pass();
                fed.body_bytes += found.taken;
                fed.messages += 1;
                self.any_message = true;
                self.take_delta(&found.delta, fed);
                if let Some(text) = &found.text {
                    if found.delta.usage.is_none() {
                        self.likeness.learn(event, text, found.delta.output);
                    }
                    if let Some(kept) = &mut self.kept {
                        let text = event.get(text.clone()).unwrap_or_default();
                        kept.piece(text, speech(found.delta.output));
                    }
                }
                rest = next;
                continue;
            }
            match self.events.next(rest) {
                Next::Event { text, taken } => {
                    let (event, next) = (rest.get(..text), rest.get(taken..));
                    let (event, next) = (event.unwrap_or_default(), next.unwrap_or_default());
                    fed.body_bytes += taken;
                    if self.carried.is_empty() {
                        if event.len() > EVENT_BYTES_MAX {
                            return Err(Fault::TooLarge { what: "event", limit_bytes: EVENT_BYTES_MAX });
                        }
                        let event = self.events.event(event);
                        self.event(event, rest.get(..taken), fed, known)?;
                    } else {
                        self.carry(event, "event", EVENT_BYTES_MAX)?;
                        self.carried_event(fed)?;
                    }
                    rest = next;
                }
                Next::Starved { skipped } => {
                    fed.body_bytes += rest.len();
                    let tail = rest.get(skipped..).unwrap_or_default();
                    return self.carry(tail, "event", EVENT_BYTES_MAX);
                }
            }
        }
        Ok(())
    }

    /// Reads the event that was carried over.
    fn carried_event(&mut self, fed: &mut Fed) -> Result<(), Fault> {
        let mut carried = mem::take(&mut self.carried);
        let event = self.events.event(&carried);
        let result = self.event(event, None, fed, &mut Known::default());
        carried.clear();
        carried.shrink_to(RETAINED_BYTES_MAX);
        self.carried = carried;
        result
    }

    /// The event at the start of `bytes` that is like the last one. Asked only between events.
    #[inline]
    fn like_the_last(&self, bytes: &[u8]) -> Option<Alike> {
        if self.takes_likeness() { self.likeness.matches(bytes) } else { None }
    }

    /// Reads one event; `whole` are its bytes up to the next event, if they stand in one piece.
    fn event(
        &mut self,
        event: Event,
        whole: Option<&[u8]>,
        fed: &mut Fed,
        known: &mut Known,
    ) -> Result<(), Fault> {
        let mut scratch = mem::take(&mut self.scratch);
        let result = match Message::read(event, &mut scratch) {
            Message::Data(b"" | b"[DONE]") => {
                fed.messages += 1;
                self.any_message = true;
                Ok(())
            }
            Message::Data(data) => {
                if let Some((delta, text)) = self.content(data, fed)
                    && let Some(whole) = whole
                    && let Some(start) = offset_in(whole, data)
                {
                    let text = text.map(|text| start + text.start..start + text.end);
                    known.learn(whole, text.as_ref(), delta);
                    if let Some(text) = text.filter(|_| delta.usage.is_none()) {
                        self.likeness.learn(whole, &text, delta.output);
                    }
                }
                Ok(())
            }
            Message::Empty => Ok(()),
            Message::Error(message) => Err(Fault::SseError { message }),
        };
        self.scratch = scratch;
        result
    }

    /// The event at the start of `bytes`, if an earlier reply had it. Asked only between events of chat.
    #[inline]
    fn known(&self, bytes: &[u8], known: &mut Known) -> Option<Found> {
        let at_event = self.reader.is_none() && self.carried.is_empty() && self.events.is_at_event();
        if at_event { known.find(bytes) } else { None }
    }

    /// Reads the JSON of one message: what it says and where its one text is, unless it says more than these.
    fn content(&mut self, data: &[u8], fed: &mut Fed) -> Option<(Delta, Option<Range<usize>>)> {
        fed.messages += 1;
        self.any_message = true;
        let (reading, text) = match &mut self.reader {
            Some(reader) => (read_any(reader, self.kept.as_deref_mut(), data), None),
            None => delta::read(data),
        };
        let mut is_call = false;
        if let (None, Some(kept), Reading::Delta(delta)) = (&self.reader, &mut self.kept, &reading) {
            // A call is more than its text, and its name may come in a message that has nothing to count: such
            // a message is read again whenever it comes.
            is_call = kept.sends_back() && memchr::memmem::find(data, b"tool_calls").is_some();
            match &text {
                Some(text) if !is_call => {
                    kept.piece(data.get(text.clone()).unwrap_or_default(), speech(delta.output));
                }
                Some(_) => kept.chat(data),
                None if delta.content || is_call => kept.chat(data),
                None => {}
            }
        }
        let fault = match reading {
            Reading::Delta(delta) => {
                self.take_delta(&delta, fed);
                return (!is_call).then_some((delta, text));
            }
            Reading::Nothing => return None,
            Reading::Array => Fault::JsonArray,
            Reading::Scalar(type_name) => Fault::JsonScalar { type_name },
        };
        if self.content_fault.is_none() {
            self.content_fault = Some(Box::new(fault));
        }
        None
    }

    /// Takes in what a message says, however it was read.
    #[inline]
    fn take_delta(&mut self, delta: &Delta, fed: &mut Fed) {
        fed.contents += u32::from(delta.content);
        fed.outputs += u32::from(delta.output);
        if delta.usage.is_some() {
            if self.usage_per_message && delta.content && !self.any_content {
                self.first_content_tokens = delta.usage.and_then(|usage| usage.completion_tokens);
            }
            self.usage = delta.usage;
        }
        self.any_content |= delta.content;
    }

    /// The body is whole; `clean` when no byte stands behind it.
    fn finish(&mut self, clean: bool, fed: &mut Fed) -> Result<Progress, Fault> {
        let Place::Body(body) = &mut self.place else { return Ok(Progress::Complete { reusable: false }) };
        let reusable = clean && body.keeps_alive;
        let error = body.error.take();
        match body.holds {
            Holds::Binary => {
                fed.messages += 1;
                self.any_message = true;
            }
            Holds::Error => {
                let (status, reason) = error.map_or_else(Default::default, |error| *error);
                let body = text(&self.carried);
                return Ok(Progress::Failed {
                    fault: Box::new(Fault::Status { status, reason, body }),
                    reusable,
                });
            }
            Holds::Events => self.carried_event(fed)?,
            Holds::Text if body.read_in_place => {}
            Holds::Text => {
                let carried = mem::take(&mut self.carried);
                self.content(&carried, fed);
                self.carried = carried;
            }
        }
        Ok(match self.content_fault.take() {
            Some(fault) => Progress::Failed { fault, reusable },
            None if self.any_content => Progress::Complete { reusable },
            None => {
                let fault = Box::new(Fault::NoContent { any_message: self.any_message });
                Progress::Failed { fault, reusable }
            }
        })
    }
}

/// The kept bytes of an error body as text, without a character that the limit cut.
fn text(bytes: &[u8]) -> String {
    let bytes = match str::from_utf8(bytes) {
        Err(error) if bytes.len() == ERROR_BODY_BYTES_MAX && error.error_len().is_none() => {
            bytes.get(..error.valid_up_to()).unwrap_or(bytes)
        }
        Ok(_) | Err(_) => bytes,
    };
    String::from_utf8_lossy(bytes).into_owned()
}
