//! Conversations into request bodies, on all cores, end to end in one block.
//!
//! The work is done in two passes: the first says how long each body is, the second writes it where it belongs.
//! A body that is cheap to make is made twice and never held twice, so that the memory taken is that of the
//! bytes sent; one that is expensive (texts that have to be counted again and again) is kept from the first
//! pass. What is written depends on the conversation alone and not on the number of threads.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use serde_json::Value;

use crate::dataset::compose::{Composer, MARK};
use crate::dataset::{Dataset, DatasetError, Row, Session, TurnDetails};
use crate::endpoint::{ContextMode, Conversation, EndpointSettings, Request, input_texts, render};
use crate::tokenizer::Tokenizers;

/// Most bytes of all bodies together. They stay in memory for the whole run, and the kernel reads sends from
/// them.
pub const BLOCK_BYTES_MAX: usize = 8 << 30;
/// Conversations that a thread takes at a time.
const BATCH: usize = 32;
/// Digits of a mark begin so many bytes into it.
const MARK_DIGITS_AT: usize = "[rid:".len();

/// What is rendered.
#[derive(Clone, Copy, Debug)]
pub enum Conversations<'a> {
    /// Made one by one.
    Composed(&'a Composer),
    /// Read before.
    Listed(&'a [Conversation]),
}

impl Conversations<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Composed(composer) => composer.len(),
            Self::Listed(list) => list.len(),
        }
    }

    fn is_cheap(&self) -> bool {
        match self {
            Self::Composed(composer) => composer.is_cheap(),
            Self::Listed(_) => true,
        }
    }
}

/// How bodies are rendered.
pub struct Rendering<'a> {
    /// The endpoint they are for.
    pub settings: &'a EndpointSettings,
    /// Counts prompts; absent: their length is not known.
    pub tokenizers: Option<&'a Tokenizers>,
    /// Threads that render, at least 1.
    pub threads: usize,
    /// Called now and then with the share of the work that is done, from 0 to 1, by any of the threads.
    pub progress: &'a (dyn Fn(f64) + Sync),
}

impl std::fmt::Debug for Rendering<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rendering").field("threads", &self.threads).finish_non_exhaustive()
    }
}

/// One turn as the first pass leaves it; places count from the body's beginning.
struct Turned {
    bytes: usize,
    own_items: Option<Range<usize>>,
    mark: Option<usize>,
    isl_tokens: Option<u32>,
    osl_tokens: Option<u32>,
    delay_ms: Option<f64>,
    timestamp_ms: Option<f64>,
    tokenizer: u16,
}

/// One conversation as the first pass leaves it.
struct Passed {
    session_id: String,
    context_mode: ContextMode,
    turns: Vec<Turned>,
}

/// A batch as the first pass leaves it, with its bytes when making them again is expensive.
struct Batch {
    conversations: Vec<Passed>,
    bytes: usize,
    kept: Option<Vec<u8>>,
}

impl Rendering<'_> {
    /// Renders every turn alone, without the history of its session.
    ///
    /// # Errors
    /// There is nothing to render, a turn that the endpoint cannot send, or more bytes than
    /// [`BLOCK_BYTES_MAX`].
    pub fn dataset(&self, conversations: Conversations<'_>) -> Result<Dataset, DatasetError> {
        if conversations.len() == 0 {
            return Err(DatasetError::Empty);
        }
        let batches = self.first_pass(conversations)?;
        let bytes = batches.iter().try_fold(0_usize, |sum, batch| sum.checked_add(batch.bytes));
        let bytes = bytes.filter(|bytes| *bytes <= BLOCK_BYTES_MAX).ok_or(DatasetError::BlockFull)?;
        let mut block: Arc<[u8]> = std::iter::repeat_n(0, bytes).collect();
        if let Some(block) = Arc::get_mut(&mut block) {
            self.second_pass(conversations, &batches, block)?;
        }
        (self.progress)(1.0);
        let counted_with = self.tokenizers.map_or_else(|| "none".to_owned(), Tokenizers::name);
        Ok(assemble(batches, block).counted_with(&counted_with))
    }

    fn batches(conversations: Conversations<'_>) -> usize {
        conversations.len().div_ceil(BATCH)
    }

    /// Runs `work` for every number below `count`, on all threads; the first error ends it.
    fn share<T: Send>(
        &self,
        count: usize,
        done_before: f64,
        work: impl Fn(usize) -> Result<T, DatasetError> + Sync,
    ) -> Result<Vec<T>, DatasetError> {
        let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
        let run = || {
            let mut done = Vec::new();
            while !failed.load(Ordering::Relaxed) {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= count {
                    break;
                }
                done.push((number, work(number).inspect_err(|_| failed.store(true, Ordering::Relaxed))?));
                (self.progress)(done_before + number as f64 / count as f64 / 2.0);
            }
            Ok(done)
        };
        let threads = self.threads.clamp(1, count.max(1));
        let parts = thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(run)).collect();
            let own = run();
            let joined = others.into_iter().map(|other| match other.join() {
                Ok(part) => part,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            std::iter::once(own).chain(joined).collect::<Result<Vec<_>, DatasetError>>()
        })?;
        let mut done: Vec<(usize, T)> = parts.into_iter().flatten().collect();
        done.sort_unstable_by_key(|(number, _)| *number);
        Ok(done.into_iter().map(|(_, part)| part).collect())
    }

    fn first_pass(&self, conversations: Conversations<'_>) -> Result<Vec<Batch>, DatasetError> {
        let keeps = !conversations.is_cheap();
        let taken = AtomicUsize::new(0);
        self.share(Self::batches(conversations), 0.0, |number| {
            let mut bytes = Vec::new();
            let mut batch = Batch { conversations: Vec::with_capacity(BATCH), bytes: 0, kept: None };
            for index in batch_range(number, conversations.len()) {
                batch.conversations.push(self.conversation(conversations, index, &mut bytes)?);
                if !keeps {
                    batch.bytes += bytes.len();
                    bytes.clear();
                }
            }
            if keeps {
                batch.bytes = bytes.len();
                bytes.shrink_to_fit();
                batch.kept = Some(bytes);
            }
            // What is too large is known before it is all made.
            if taken.fetch_add(batch.bytes, Ordering::Relaxed) + batch.bytes > BLOCK_BYTES_MAX {
                return Err(DatasetError::BlockFull);
            }
            Ok(batch)
        })
    }

    fn second_pass(
        &self,
        conversations: Conversations<'_>,
        batches: &[Batch],
        block: &mut [u8],
    ) -> Result<(), DatasetError> {
        let mut rest = block;
        let mut places = Vec::with_capacity(batches.len());
        for batch in batches {
            let (place, behind) = rest.split_at_mut(batch.bytes.min(rest.len()));
            places.push(Mutex::new(place));
            rest = behind;
        }
        self.share(batches.len(), 0.5, |number| {
            let (Some(batch), Some(place)) = (batches.get(number), places.get(number)) else { return Ok(()) };
            let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(kept) = &batch.kept {
                place.copy_from_slice(kept);
                return Ok(());
            }
            let mut at = 0;
            let mut bytes = Vec::new();
            for index in batch_range(number, conversations.len()) {
                bytes.clear();
                self.conversation(conversations, index, &mut bytes)?;
                let end = at + bytes.len();
                assert!(end <= place.len(), "a conversation is the same whenever it is made");
                if let Some(place) = place.get_mut(at..end) {
                    place.copy_from_slice(&bytes);
                }
                at = end;
            }
            assert!(at == place.len(), "a conversation is the same whenever it is made");
            Ok(())
        })?;
        Ok(())
    }

    /// Appends the bodies of a conversation's turns.
    fn conversation(
        &self,
        conversations: Conversations<'_>,
        index: usize,
        out: &mut Vec<u8>,
    ) -> Result<Passed, DatasetError> {
        let made;
        let conversation = match conversations {
            Conversations::Composed(composer) => {
                made = composer.conversation(index);
                &made
            }
            Conversations::Listed(list) => match list.get(index) {
                Some(conversation) => conversation,
                None => return Err(DatasetError::Empty),
            },
        };
        let context_mode = conversation.context_mode.unwrap_or_default();
        if let (0, Some(two)) = (index, conversation.turns.get(..2))
            && context_mode != ContextMode::MessageArrayWithResponses
            && two.iter().all(|turn| turn.raw_payload.is_none())
        {
            // Later turns carry this one: an endpoint that takes but one says so here.
            let request = Request { turns: two, ..Request::default() };
            render(self.settings, &request).map_err(|source| DatasetError::Endpoint {
                conversation: conversation.session_id.clone(),
                turn: 1,
                source,
            })?;
        }
        let mut turns = Vec::with_capacity(conversation.turns.len());
        for (position, turn) in conversation.turns.iter().enumerate() {
            let Some(request) = conversation.request(position) else { continue };
            let payload = render(self.settings, &request).map_err(|source| DatasetError::Endpoint {
                conversation: conversation.session_id.clone(),
                turn: position,
                source,
            })?;
            let begin = out.len();
            let own_items = payload.write(out);
            let body = out.get(begin..).unwrap_or_default();
            let (mark, known) = match conversations {
                Conversations::Composed(composer) => (
                    composer.has_mark().then(|| memchr::memmem::find(body, MARK.as_bytes())).flatten(),
                    composer.known_tokens(index, position, self.settings.dialect),
                ),
                Conversations::Listed(_) => (None, None),
            };
            // What the request says counts, wherever its model came from.
            let model = payload.value().get("model").and_then(Value::as_str);
            let number = self.tokenizers.zip(model).map_or(0, |(all, model)| all.number_of(model));
            let counted = || {
                let tokenizer = self.tokenizers?.numbered(number);
                let input = input_texts(payload.value());
                let tokens = tokenizer.count(&input.joined()?) as u64 + input.pretokenised;
                u32::try_from(tokens).ok()
            };
            turns.push(Turned {
                bytes: out.len() - begin,
                own_items,
                mark: mark.map(|at| at + MARK_DIGITS_AT),
                // It is known by the first tokenizer.
                isl_tokens: known.filter(|_| number == 0).or_else(counted),
                osl_tokens: turn.max_tokens.and_then(|tokens| u32::try_from(tokens).ok()),
                delay_ms: turn.delay_ms,
                timestamp_ms: turn.timestamp_ms,
                tokenizer: number,
            });
        }
        Ok(Passed { session_id: conversation.session_id.clone(), context_mode, turns })
    }
}

fn batch_range(number: usize, count: usize) -> Range<usize> {
    number * BATCH..((number + 1) * BATCH).min(count)
}

fn assemble(batches: Vec<Batch>, block: Arc<[u8]>) -> Dataset {
    let (mut rows, mut details, mut sessions) = (Vec::new(), Vec::new(), Vec::new());
    let mut at = 0;
    for conversation in batches.into_iter().flat_map(|batch| batch.conversations) {
        let first = rows.len();
        for turn in conversation.turns {
            let end = at + turn.bytes;
            let absolute = |place: usize| at + place;
            rows.push(Row {
                conversation_id: conversation.session_id.clone(),
                body: at..end,
                isl_tokens: turn.isl_tokens,
                osl_tokens: turn.osl_tokens,
            });
            details.push(TurnDetails {
                context_mode: conversation.context_mode,
                own_items: turn.own_items.map(|items| absolute(items.start)..absolute(items.end)),
                mark_at: turn.mark.map(absolute),
                delay_ms: turn.delay_ms,
                timestamp_ms: turn.timestamp_ms,
                tokenizer: turn.tokenizer,
            });
            at = end;
        }
        sessions.push(Session { rows: first..rows.len(), context_mode: conversation.context_mode });
    }
    Dataset::with_sessions(rows, details, sessions, block)
}
