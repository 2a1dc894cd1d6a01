//! One answer under way: what is due when, and what the next write holds. No socket, no clock.

use crate::mock::Writes;
use crate::mock::delay::Delay;
use crate::mock::fault::Fault;
use crate::mock::log::Outcome;
use crate::mock::reply::{self, Extent, Identity, Model};
use crate::time::{Nanos, Stamp};

/// Between two bytes of a slow head.
const SLOW_BYTE: Nanos = Nanos::from_millis(1);

/// The form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// A JSON document.
    Json,
    /// A stream, a write per message.
    Messages,
    /// A stream in one write.
    Whole,
}

/// What is to be done about an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Write now.
    Write,
    /// Nothing to do before this.
    WaitUntil(Stamp),
}

/// An answer from the request to its last byte.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    /// The request's last byte.
    pub(super) arrival: Stamp,
    /// When the first write was handed over.
    pub(super) first_byte: Option<Stamp>,
    /// When the last write so far was handed over.
    pub(super) last_byte: Option<Stamp>,
    /// The connection closes after the answer.
    pub(super) close: bool,
    /// Which model answers.
    pub(super) model: usize,
    pub(super) extent: Extent,
    identity: Identity,
    form: Form,
    /// Content messages of the answer.
    messages: u32,
    /// Content messages to write before it ends or is cut.
    messages_until: u32,
    /// Content messages written.
    written: u32,
    /// When the next message is due, computed from the arrival, never from a write.
    due: Stamp,
    /// Bytes of the head written; as many as there are when it goes with the first message.
    head_written: usize,
    fault: Option<Fault>,
}

/// What an answer is to be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    /// The request's last byte.
    pub(super) arrival: Stamp,
    /// How long it waits in the queue before that.
    pub(super) queued: Nanos,
    /// As a stream.
    pub(super) stream: bool,
    /// The connection closes after it.
    pub(super) close: bool,
    pub(super) extent: Extent,
    pub(super) identity: Identity,
    pub(super) writes: Writes,
    pub(super) fault: Option<Fault>,
}

/// Where an answer's delays come from.
pub(super) struct Pace<'a> {
    pub(super) ttft: Delay,
    pub(super) itl: Delay,
    pub(super) random: &'a mut fastrand::Rng,
}

impl Answer {
    /// Plans the answer to a request.
    pub(super) fn new(wanted: Wanted, (model_index, model): (usize, &Model), pace: &mut Pace<'_>) -> Self {
        let Wanted { arrival, queued, stream, close, extent, identity, writes, fault } = wanted;
        let messages = model.messages(extent.tokens);
        let form = match (stream, writes) {
            (false, _) => Form::Json,
            (true, Writes::PerMessage) => Form::Messages,
            (true, Writes::Whole) => Form::Whole,
        };
        let mut due = arrival.plus(queued).plus(pace.ttft.draw(pace.random));
        if form != Form::Messages {
            due = match pace.itl {
                Delay::Fixed(itl) => due.plus(Nanos(itl.0.saturating_mul(u64::from(messages - 1)))),
                law => (1..messages).fold(due, |due, _| due.plus(law.draw(pace.random))),
            };
        }
        let cut = matches!(fault, Some(Fault::Reset | Fault::Truncate));
        Self {
            arrival,
            first_byte: None,
            last_byte: None,
            close,
            model: model_index,
            extent,
            identity,
            form,
            messages,
            messages_until: if cut && form == Form::Messages { messages.div_ceil(2) } else { messages },
            written: 0,
            due,
            head_written: 0,
            fault,
        }
    }

    /// Whether everything has been written.
    pub(super) fn done(&self) -> bool {
        self.written >= self.messages_until
    }

    /// What to do at `now`, unless all is done.
    pub(super) fn step(&self, now: Stamp) -> Step {
        let due = if self.slow_head() {
            self.arrival.plus(Nanos(SLOW_BYTE.0 * self.head_written as u64))
        } else {
            self.due
        };
        if due <= now { Step::Write } else { Step::WaitUntil(due) }
    }

    /// Whether the next write brings the first content.
    pub(super) fn starts_content(&self) -> bool {
        self.written == 0 && !self.slow_head()
    }

    /// Tokens written so far, whole messages only.
    pub(super) fn tokens_written(&self) -> u64 {
        match self.form {
            Form::Json | Form::Whole => 0,
            Form::Messages => {
                u64::from(self.extent.tokens) * u64::from(self.written) / u64::from(self.messages)
            }
        }
    }

    /// How it has ended once everything has been written.
    pub(super) fn outcome(&self) -> Outcome {
        match self.fault {
            None | Some(Fault::Garbage | Fault::Hang | Fault::Refuse | Fault::Status(_)) => Outcome::Ok,
            Some(Fault::Reset) => Outcome::Reset,
            Some(Fault::SlowHeaders) => Outcome::SlowHeaders,
            Some(Fault::Truncate) => Outcome::Truncated,
        }
    }

    /// Appends the next write to `out`, which is empty, and moves on. `scratch` is a buffer to work in.
    pub(super) fn write(
        &mut self,
        out: &mut Vec<u8>,
        scratch: &mut Vec<u8>,
        model: &Model,
        pace: &mut Pace<'_>,
    ) {
        if self.slow_head() {
            scratch.clear();
            self.write_head(scratch, model);
            if let Some(byte) = scratch.get(self.head_written) {
                out.push(*byte);
                self.head_written += 1;
            }
            if self.head_written == scratch.len() {
                // The head is out; from here on it is an answer like any other.
                self.head_written = usize::MAX;
            }
            return;
        }
        let start = out.len();
        let head_missing = self.written == 0 && self.head_written == 0;
        if head_missing && self.form != Form::Json {
            self.write_head(out, model);
        }
        match self.form {
            Form::Json => {
                if head_missing {
                    model.write_whole(out, self.identity, self.extent, self.close);
                } else {
                    scratch.clear();
                    model.write_whole(scratch, self.identity, self.extent, self.close);
                    out.extend_from_slice(scratch.get(head_bytes(scratch)..).unwrap_or_default());
                }
                self.written = self.messages;
            }
            Form::Messages => {
                let next = self.written + 1;
                model.write_messages(out, self.identity, self.extent, self.written..next);
                self.written = next;
                if next < self.messages_until {
                    self.due = self.due.plus(pace.itl.draw(pace.random));
                }
            }
            Form::Whole => {
                model.write_messages(out, self.identity, self.extent, 0..self.messages);
                self.written = self.messages;
            }
        }
        let cut = matches!(self.fault, Some(Fault::Reset | Fault::Truncate));
        if cut && self.written == self.messages {
            // The middle of the write is after the head and before the end.
            out.truncate(start + (out.len() - start).div_ceil(2).max(1));
        }
    }

    fn slow_head(&self) -> bool {
        self.fault == Some(Fault::SlowHeaders) && self.head_written != usize::MAX
    }

    fn write_head(&self, out: &mut Vec<u8>, model: &Model) {
        match self.form {
            Form::Json => {
                model.write_whole(out, self.identity, self.extent, self.close);
                out.truncate(head_bytes(out));
            }
            Form::Messages | Form::Whole => reply::write_stream_head(out, self.close),
        }
    }
}

/// Length of the head at the start of a reply.
fn head_bytes(reply: &[u8]) -> usize {
    memchr::memmem::find(reply, b"\r\n\r\n").map_or(reply.len(), |end| end + 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(writes: Writes, stream: bool, fault: Option<Fault>, random: &mut fastrand::Rng) -> Answer {
        let model = Model::new(b"m", 1, crate::mock::tongue::Tongue::Chat);
        let extent = Extent { tokens: 10, prompt_tokens: 3, limited: true, usage: false };
        let identity = Identity { id: 1, created_s: 1_700_000_000 };
        let [ttft, itl] = [Delay::Fixed(Nanos(1_000)), Delay::Fixed(Nanos(100))];
        let mut pace = Pace { ttft, itl, random };
        let arrival = Stamp::from_nanos(5_000);
        let queued = Nanos::ZERO;
        let wanted = Wanted { arrival, queued, stream, close: false, extent, identity, writes, fault };
        Answer::new(wanted, (0, &model), &mut pace)
    }

    /// Times and sizes of all writes when each happens `late` after it is due.
    fn writes(mut answer: Answer, late: Nanos, random: &mut fastrand::Rng) -> Vec<(u64, usize)> {
        let model = Model::new(b"m", 1, crate::mock::tongue::Tongue::Chat);
        let [ttft, itl] = [Delay::Fixed(Nanos(1_000)), Delay::Fixed(Nanos(100))];
        let (mut found, mut now, mut scratch) = (Vec::new(), answer.arrival, Vec::new());
        while !answer.done() {
            match answer.step(now) {
                Step::WaitUntil(due) => now = due.plus(late),
                Step::Write => {
                    let mut out = Vec::new();
                    answer.write(&mut out, &mut scratch, &model, &mut Pace { ttft, itl, random });
                    found.push((now.as_nanos(), out.len()));
                }
            }
        }
        found
    }

    #[test]
    fn messages_are_due_from_the_arrival_however_late_a_write_is() {
        let mut random = fastrand::Rng::with_seed(1);
        let plan = answer(Writes::PerMessage, true, None, &mut random);
        let times = |late| -> Vec<u64> {
            writes(plan, late, &mut fastrand::Rng::with_seed(1)).iter().map(|(time, _)| *time).collect()
        };
        assert_eq!(times(Nanos(0)), (0..10).map(|n| 6_000 + 100 * n).collect::<Vec<_>>());
        // 250 late: three are due then, and the next wait is for the fourth, not for an interval.
        assert_eq!(times(Nanos(250))[..4], [6_250, 6_250, 6_250, 6_550]);
    }

    #[test]
    fn a_whole_answer_waits_for_its_last_message() {
        let mut random = fastrand::Rng::with_seed(1);
        for stream in [true, false] {
            let plan = answer(Writes::Whole, stream, None, &mut random);
            let found = writes(plan, Nanos(0), &mut random);
            assert_eq!(found.len(), 1);
            assert_eq!(found[0].0, 6_900);
        }
    }

    #[test]
    fn a_cut_answer_stops_before_its_end() {
        let mut random = fastrand::Rng::with_seed(1);
        let bytes = |writes: Vec<(u64, usize)>| writes.iter().map(|(_, bytes)| bytes).sum::<usize>();
        for (form, stream) in [(Writes::PerMessage, true), (Writes::Whole, true), (Writes::Whole, false)] {
            let whole = answer(form, stream, None, &mut random);
            let cut = answer(form, stream, Some(Fault::Truncate), &mut random);
            assert_eq!(cut.outcome(), Outcome::Truncated);
            let whole = bytes(writes(whole, Nanos(0), &mut random));
            let cut = bytes(writes(cut, Nanos(0), &mut random));
            assert!(cut > whole / 3 && cut < whole * 2 / 3, "{cut} of {whole}");
        }
    }

    #[test]
    fn a_slow_head_comes_a_byte_a_millisecond_and_changes_nothing_else() {
        let mut random = fastrand::Rng::with_seed(1);
        for stream in [true, false] {
            let plain = answer(Writes::PerMessage, stream, None, &mut random);
            let slow = answer(Writes::PerMessage, stream, Some(Fault::SlowHeaders), &mut random);
            let plain = writes(plain, Nanos(0), &mut random);
            let slow = writes(slow, Nanos(0), &mut random);
            let total = |writes: &[(u64, usize)]| writes.iter().map(|(_, bytes)| bytes).sum::<usize>();
            assert_eq!(total(&plain), total(&slow));
            let head = slow.iter().take_while(|(_, bytes)| *bytes == 1).count();
            assert!(head > 50, "{head}");
            assert_eq!(slow[1].0 - slow[0].0, 1_000_000);
            assert_eq!(slow[head - 1].0, 5_000 + 1_000_000 * (head as u64 - 1));
        }
    }
}
