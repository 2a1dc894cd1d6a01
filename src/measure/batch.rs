//! Records on their way from a shard to whoever counts their tokens and to the record file.

use crate::measure::Record;

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

#[derive(Clone, Copy, Debug)]
struct Lengths {
    history: Option<usize>,
    output: Option<usize>,
    reasoning: Option<usize>,
}

/// The texts of a request that are to be counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Said<'a> {
    /// The history that its body carried, as items with a comma behind each; absent without one.
    pub history: Option<&'a [u8]>,
    /// What the reply said; absent when no message had output.
    pub output: Option<&'a [u8]>,
    /// What it thought.
    pub reasoning: Option<&'a [u8]>,
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
        let parts = [said.history, said.output, said.reasoning];
        let bytes: usize = parts.iter().flatten().map(|part| part.len()).sum();
        if self.text_bytes == 0 || self.is_full() || self.texts.len() + bytes > self.text_bytes {
            return false;
        }
        for part in parts.into_iter().flatten() {
            self.texts.extend_from_slice(part);
        }
        let [history, output, reasoning] = parts.map(|part| part.map(<[u8]>::len));
        self.add(record, gaps_ns, Some(Lengths { history, output, reasoning }));
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
            let mut rest = self.texts.get(at..note.texts_end).unwrap_or_default();
            at = note.texts_end;
            let Some(lengths) = note.uncounted else { continue };
            let mut take = |length: Option<usize>| {
                let (part, behind) = rest.split_at_checked(length?)?;
                rest = behind;
                Some(part)
            };
            let said = Said {
                history: take(lengths.history),
                output: take(lengths.output),
                reasoning: take(lengths.reasoning),
            };
            count(record, &said);
        }
    }

    /// The requests that were handed over to be counted, each with its gaps, for whoever measures them.
    pub fn handed_over(&self) -> impl Iterator<Item = (&Record, &[u64])> {
        self.iter().zip(&self.notes).filter(|(_, note)| note.uncounted.is_some()).map(|(one, _)| one)
    }
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
        let said = Said { history: None, output: Some(b"abc"), reasoning: Some(b"") };
        assert!(batch.push_uncounted(&record(0), &[1, 2], &said));
        assert!(batch.push(&record(1), &[3]));
        let long = Said { output: Some(b"12345678"), ..Said::default() };
        assert!(!batch.push_uncounted(&record(2), &[], &long), "there is room for 7 bytes");
        let fits = Said { history: Some(b"{},"), output: Some(b"x"), reasoning: None };
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
    fn a_batch_without_room_for_texts_takes_none() {
        let mut batch = RecordBatch::with_capacity(8);
        assert!(!batch.push_uncounted(&record(0), &[], &Said::default()));
    }
}
