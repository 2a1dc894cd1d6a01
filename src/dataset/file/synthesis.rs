//! Changes to the lengths of a trace: what rows share and what is their own, longer or shorter.

use std::collections::HashMap;

use crate::dataset::Synthesis;
use crate::dataset::draw::to_count;

/// A row that is a length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::dataset) struct LengthRow {
    /// Tokens of the prompt.
    pub(in crate::dataset) input_length: u64,
    /// The blocks that its beginning is made of.
    pub(in crate::dataset) hash_ids: Vec<i64>,
}

/// Changes the rows as asked.
///
/// The shared part of a row is the longest beginning of its blocks that another row has, too. A longer shared
/// part goes on with blocks that depend on the part it continues, so that rows that shared something share
/// what was added.
pub(in crate::dataset) fn reshape(mut rows: Vec<&mut LengthRow>, synthesis: &Synthesis, block_size: u64) {
    let changes_lengths = synthesis.prefix_len_multiplier.to_bits() != 1.0_f64.to_bits()
        || synthesis.prompt_len_multiplier.to_bits() != 1.0_f64.to_bits();
    if changes_lengths {
        let mut seen: HashMap<Vec<i64>, u32> = HashMap::new();
        for row in &rows {
            for length in 1..=row.hash_ids.len() {
                *seen.entry(row.hash_ids.get(..length).unwrap_or_default().to_vec()).or_insert(0) += 1;
            }
        }
        let mut next_id = rows.iter().flat_map(|row| row.hash_ids.iter()).max().copied().unwrap_or(0) + 1;
        let mut added: HashMap<(Vec<i64>, u64), i64> = HashMap::new();
        for row in &mut rows {
            let shared = (1..=row.hash_ids.len())
                .take_while(|length| {
                    let part = row.hash_ids.get(..*length).unwrap_or_default();
                    seen.get(part).is_some_and(|count| *count > 1)
                })
                .count();
            let (part, own) = row.hash_ids.split_at_checked(shared).unwrap_or_default();
            let shared_tokens = (shared as u64 * block_size).min(row.input_length);
            let own_tokens = row.input_length - shared_tokens;
            let scaled = |value: u64, by: f64| to_count((value as f64 * by).round());
            let blocks = scaled(shared as u64, synthesis.prefix_len_multiplier);
            let own_tokens = scaled(own_tokens, synthesis.prompt_len_multiplier);
            let kept = usize::try_from(blocks).unwrap_or(usize::MAX).min(shared);
            let mut ids = part.get(..kept).unwrap_or_default().to_vec();
            for place in shared as u64..blocks {
                let id = *added.entry((part.to_vec(), place)).or_insert_with(|| {
                    next_id += 1;
                    next_id - 1
                });
                ids.push(id);
            }
            let own_blocks = usize::try_from(own_tokens.div_ceil(block_size)).unwrap_or(usize::MAX);
            ids.extend(own.iter().take(own_blocks));
            // A last block that was whole for other rows stays whole here only if it is its own anyway.
            row.input_length = (blocks * block_size + own_tokens).max(1);
            row.hash_ids = ids;
        }
    }
    let roots = i64::from(synthesis.prefix_root_multiplier);
    if roots > 1 {
        let span = rows.iter().flat_map(|row| row.hash_ids.iter()).max().copied().unwrap_or(0) + 1;
        for (row, root) in rows.iter_mut().zip((0..roots).cycle()) {
            for id in &mut row.hash_ids {
                *id += root * span;
            }
        }
    }
}
