//! Records on their way from a shard to the record file.

use crate::measure::Record;

/// A bounded batch of finished requests and the gaps between their content messages, end to end.
///
/// Filled by one shard, emptied by the writer, and handed back: the memory goes round.
#[derive(Debug, Default)]
pub struct RecordBatch {
    records: Vec<Record>,
    gaps_ns: Vec<u64>,
    gap_ends: Vec<usize>,
}

impl RecordBatch {
    /// A batch for `records` requests; grows with the number of gaps, and keeps what it grew to.
    pub fn with_capacity(records: usize) -> Self {
        Self {
            records: Vec::with_capacity(records),
            gaps_ns: Vec::with_capacity(records * GAPS_EXPECTED),
            gap_ends: Vec::with_capacity(records),
        }
    }

    /// Adds a request, unless the batch is full.
    pub fn push(&mut self, record: &Record, gaps_ns: &[u64]) -> bool {
        if self.is_full() {
            return false;
        }
        self.records.push(record.clone());
        self.gaps_ns.extend_from_slice(gaps_ns);
        self.gap_ends.push(self.gaps_ns.len());
        true
    }

    /// Whether no more requests fit.
    pub fn is_full(&self) -> bool {
        self.records.len() == self.records.capacity()
    }

    /// Whether the batch is worth handing over.
    pub fn is_half_full(&self) -> bool {
        self.records.len() * 2 >= self.records.capacity()
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
        self.gaps_ns.clear();
        self.gap_ends.clear();
    }

    /// The requests, each with its gaps.
    pub fn iter(&self) -> impl Iterator<Item = (&Record, &[u64])> {
        let mut start = 0;
        self.records.iter().zip(&self.gap_ends).map(move |(record, end)| {
            let gaps = self.gaps_ns.get(start..*end).unwrap_or_default();
            start = *end;
            (record, gaps)
        })
    }
}

/// Gaps per request that a fresh batch has room for.
const GAPS_EXPECTED: usize = 32;
