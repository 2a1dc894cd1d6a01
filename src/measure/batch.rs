//! Records on their way from a shard to whoever counts their tokens and to the record file.

use crate::measure::Record;
use crate::time::Stamp;

/// A bounded batch of finished requests, the gaps between their content messages and the texts that are
/// still to be counted, end to end.
///
/// Filled by one shard, emptied by the writer, and handed back: the memory goes round.
#[derive(Debug, Default)]
pub struct RecordBatch {
    records: Vec<Record>,
    notes: Vec<Note>,
    gaps_ns: Vec<u64>,
    texts: Vec<u8>,
    text_bytes: usize,
}

/// Where the parts of a record end, and what there is to count of it.
#[derive(Clone, Copy, Debug)]
struct Note {
    gaps_end: usize,
    texts_end: usize,
    /// Lengths of its texts in their order; absent: measured already.
    uncounted: Option<Lengths>,
}

/// Of the parts of [`Said`] in their order.
type Lengths = [Option<usize>; PARTS];

/// Parts of [`Said`].
const PARTS: usize = 5;

/// The texts of a request that are to be counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Said<'a> {
    /// The history that its body carried, as items with a comma behind each; absent without one.
    pub history: Option<&'a [u8]>,
    /// What the reply said; absent when no message had output.
    pub output: Option<&'a [u8]>,
    /// What it thought.
    pub reasoning: Option<&'a [u8]>,
    /// The body as it came, without framing; absent unless it is kept.
    pub raw: Option<&'a [u8]>,
    /// When parts of that body came: see [`RawReads`].
    pub reads: Option<&'a [u8]>,
}

impl<'a> Said<'a> {
    const fn parts(&self) -> [Option<&'a [u8]>; PARTS] {
        [self.history, self.output, self.reasoning, self.raw, self.reads]
    }
}

/// What a body is and when parts of it came, packed to go along with it: for each read its stamp and where it
/// ended.
#[derive(Clone, Debug, Default)]
pub struct RawReads {
    bytes: Vec<u8>,
}

/// What was packed.
#[derive(Clone, Copy, Debug)]
pub struct Unpacked<'a> {
    /// Whether the body is an event stream.
    pub is_stream: bool,
    /// Its media type, without parameters; empty when the server named none.
    pub media_type: &'a [u8],
    reads: &'a [u8],
}

impl<'a> Unpacked<'a> {
    /// Each read in order: its stamp and where in the body it ended.
    pub fn reads(self) -> impl Iterator<Item = (Stamp, usize)> + 'a {
        let number = |bytes: &[u8]| bytes.iter().rev().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
        self.reads.chunks_exact(16).map(move |pair| {
            let (stamp, end) = pair.split_at(8);
            (Stamp::from_nanos(number(stamp)), usize::try_from(number(end)).unwrap_or(usize::MAX))
        })
    }
}

impl RawReads {
    /// Forgets everything and says whether the body is an event stream and of what media type; one of more than
    /// 255 bytes is none.
    pub fn begin(&mut self, is_stream: bool, media_type: &[u8]) {
        self.bytes.clear();
        self.bytes.push(u8::from(is_stream));
        let length = u8::try_from(media_type.len()).unwrap_or(0);
        self.bytes.push(length);
        self.bytes.extend_from_slice(media_type.get(..usize::from(length)).unwrap_or_default());
    }

    /// The body was `end` bytes long at `now`.
    pub fn push(&mut self, now: Stamp, end: usize) {
        self.bytes.extend_from_slice(&now.since(Stamp::ORIGIN).0.to_le_bytes());
        self.bytes.extend_from_slice(&(end as u64).to_le_bytes());
    }

    /// As it goes along.
    pub fn packed(&self) -> &[u8] {
        &self.bytes
    }

    /// What was packed.
    pub fn unpack(packed: &[u8]) -> Unpacked<'_> {
        let (is_stream, rest) =
            packed.split_first().map_or((false, packed), |(first, rest)| (*first == 1, rest));
        let (length, rest) =
            rest.split_first().map_or((0, rest), |(length, rest)| (usize::from(*length), rest));
        let (media_type, reads) = rest.split_at_checked(length).unwrap_or((&[], rest));
        Unpacked { is_stream, media_type, reads }
    }
}

impl RecordBatch {
    /// A batch for `records` requests; grows with the number of gaps, and keeps what it grew to.
    pub fn with_capacity(records: usize) -> Self {
        Self::with_texts(records, 0)
    }

    /// As [`RecordBatch::with_capacity`], with room for `text_bytes` of texts, which never grows.
    pub fn with_texts(records: usize, text_bytes: usize) -> Self {
        Self {
            records: Vec::with_capacity(records),
            notes: Vec::with_capacity(records),
            gaps_ns: Vec::with_capacity(records * GAPS_EXPECTED),
            texts: Vec::with_capacity(text_bytes),
            text_bytes,
        }
    }

    /// Adds a request that has been measured, unless the batch is full.
    pub fn push(&mut self, record: &Record, gaps_ns: &[u64]) -> bool {
        if self.is_full() {
            return false;
        }
        self.add(record, gaps_ns, None);
        true
    }

    /// Adds a request whose tokens are still to be counted, unless there is no room for it or its texts.
    pub fn push_uncounted(&mut self, record: &Record, gaps_ns: &[u64], said: &Said<'_>) -> bool {
        let parts = said.parts();
        let bytes: usize = parts.iter().flatten().map(|part| part.len()).sum();
        if self.text_bytes == 0 || self.is_full() || self.texts.len() + bytes > self.text_bytes {
            return false;
        }
        for part in parts.into_iter().flatten() {
            self.texts.extend_from_slice(part);
        }
        self.add(record, gaps_ns, Some(parts.map(|part| part.map(<[u8]>::len))));
        true
    }

    fn add(&mut self, record: &Record, gaps_ns: &[u64], uncounted: Option<Lengths>) {
        self.records.push(record.clone());
        self.gaps_ns.extend_from_slice(gaps_ns);
        self.notes.push(Note { gaps_end: self.gaps_ns.len(), texts_end: self.texts.len(), uncounted });
    }

    /// Whether no more requests fit.
    pub fn is_full(&self) -> bool {
        self.records.len() == self.records.capacity()
    }

    /// Whether the batch is worth handing over.
    pub fn is_half_full(&self) -> bool {
        self.records.len() * 2 >= self.records.capacity()
            || (self.text_bytes > 0 && self.texts.len() * 2 >= self.text_bytes)
    }

    /// Requests in the batch.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether the batch holds nothing.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Empties the batch and keeps its memory.
    pub fn clear(&mut self) {
        self.records.clear();
        self.notes.clear();
        self.gaps_ns.clear();
        self.texts.clear();
    }

    /// The requests, each with its gaps.
    pub fn iter(&self) -> impl Iterator<Item = (&Record, &[u64])> {
        let mut start = 0;
        self.records.iter().zip(&self.notes).map(move |(record, note)| {
            let gaps = self.gaps_ns.get(start..note.gaps_end).unwrap_or_default();
            start = note.gaps_end;
            (record, gaps)
        })
    }

    /// Lets `count` complete every request whose tokens are still to be counted.
    pub fn count(&mut self, mut count: impl FnMut(&mut Record, &Said<'_>)) {
        let mut at = 0;
        for (record, note) in self.records.iter_mut().zip(&self.notes) {
            let texts = self.texts.get(at..note.texts_end).unwrap_or_default();
            at = note.texts_end;
            if let Some(lengths) = note.uncounted {
                count(record, &said(texts, lengths));
            }
        }
    }

    /// The requests, each with what there was to count of it.
    pub fn said(&self) -> impl Iterator<Item = (&Record, Said<'_>)> {
        let mut at = 0;
        self.records.iter().zip(&self.notes).map(move |(record, note)| {
            let texts = self.texts.get(at..note.texts_end).unwrap_or_default();
            at = note.texts_end;
            (record, note.uncounted.map_or_else(Said::default, |lengths| said(texts, lengths)))
        })
    }

    /// The requests that were handed over to be counted, each with its gaps, for whoever measures them.
    pub fn handed_over(&self) -> impl Iterator<Item = (&Record, &[u64])> {
        self.iter().zip(&self.notes).filter(|(_, note)| note.uncounted.is_some()).map(|(one, _)| one)
    }
}

/// Takes the texts of a request apart.
fn said(texts: &[u8], lengths: Lengths) -> Said<'_> {
    let mut rest = texts;
    let [history, output, reasoning, raw, reads] = lengths.map(|length| {
        let (part, behind) = rest.split_at_checked(length?)?;
        rest = behind;
        Some(part)
    });
    Said { history, output, reasoning, raw, reads }
}

/// Gaps per request that a fresh batch has room for.
const GAPS_EXPECTED: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::record::tests::record;

    #[test]
    fn texts_stay_with_their_requests_and_never_grow_beyond_their_room() {
        let mut batch = RecordBatch::with_texts(8, 10);
        let said = Said { output: Some(b"abc"), reasoning: Some(b""), ..Said::default() };
        assert!(batch.push_uncounted(&record(0), &[1, 2], &said));
        assert!(batch.push(&record(1), &[3]));
        let long = Said { output: Some(b"12345678"), ..Said::default() };
        assert!(!batch.push_uncounted(&record(2), &[], &long), "there is room for 7 bytes");
        let fits = Said { history: Some(b"{},"), output: Some(b"x"), ..Said::default() };
        assert!(batch.push_uncounted(&record(2), &[4], &fits));
        let mut seen = Vec::new();
        batch.count(|record, found| {
            seen.push((record.number, found.output.map(<[u8]>::to_vec), found.history.is_some()));
            record.isl_tokens = Some(9);
        });
        assert_eq!(seen, [(0, Some(b"abc".to_vec()), false), (2, Some(b"x".to_vec()), true)]);
        let lines: Vec<_> = batch.iter().map(|(one, gaps)| (one.number, gaps.to_vec())).collect();
        assert_eq!(lines, [(0, vec![1, 2]), (1, vec![3]), (2, vec![4])]);
        let counted: Vec<_> = batch.handed_over().map(|(one, _)| (one.number, one.isl_tokens)).collect();
        assert_eq!(counted, [(0, Some(9)), (2, Some(9))]);
        let room = batch.texts.capacity();
        batch.clear();
        assert!(batch.is_empty() && batch.texts.capacity() == room);
    }

    #[test]
    fn reads_come_out_as_they_were_packed() {
        let mut reads = RawReads::default();
        reads.begin(true, b"text/event-stream");
        reads.push(Stamp::from_nanos(5), 300);
        reads.push(Stamp::from_nanos(u64::MAX), 70_000);
        let unpacked = RawReads::unpack(reads.packed());
        assert!(unpacked.is_stream && unpacked.media_type == b"text/event-stream");
        let expected = [(Stamp::from_nanos(5), 300), (Stamp::from_nanos(u64::MAX), 70_000)];
        assert_eq!(unpacked.reads().collect::<Vec<_>>(), expected);
        reads.begin(false, &[b'x'; 256]);
        let unpacked = RawReads::unpack(reads.packed());
        assert!(!unpacked.is_stream && unpacked.media_type.is_empty() && unpacked.reads().next().is_none());
    }

    #[test]
    fn a_batch_without_room_for_texts_takes_none() {
        let mut batch = RecordBatch::with_capacity(8);
        assert!(!batch.push_uncounted(&record(0), &[], &Said::default()));
    }
}
