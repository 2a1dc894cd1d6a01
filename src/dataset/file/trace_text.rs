//! Texts of traces: blocks that equal ids share, and what is a row's own.

use std::collections::HashMap;

use fastrand::Rng;

use crate::dataset::compose::numbered_random;
use crate::dataset::prose::Prose;
use crate::rng::child_seed;

/// Makes the texts of one trace.
pub(in crate::dataset) struct TraceText {
    prose: Prose,
    /// The separator as text, and what stands before the first word behind it.
    separator: Option<String>,
    root: u64,
    trace: String,
    own_seed: u64,
    block_size: u64,
    blocks: HashMap<i64, Block>,
    /// Blocks can be joined as texts without being counted again.
    joins: bool,
}

struct Block {
    size: u64,
    tokens: Vec<u32>,
    text: String,
}

impl TraceText {
    pub(in crate::dataset) fn new(prose: Prose, root: u64, trace: &str, block_size: u64) -> Self {
        let tokenizer = prose.tokenizer().clone();
        let separator = tokenizer.separator().and_then(|token| tokenizer.decode(&[token]).ok());
        let mut text = Self {
            prose,
            separator,
            root,
            trace: trace.to_owned(),
            own_seed: child_seed(root, "dataset.prompt.corpus"),
            block_size,
            blocks: HashMap::new(),
            joins: false,
        };
        text.joins = text.prose.is_exact_by_construction() && text.tried();
        text.blocks.clear();
        text
    }

    /// Whether blocks joined as texts count what they should.
    fn tried(&mut self) -> bool {
        self.joins = true;
        let sample = self.text(&[-1, -2, -3], 3 * self.block_size + 40, 0);
        sample.is_ok_and(|sample| self.prose.tokenizer().count(&sample) as u64 == 3 * self.block_size + 40)
    }

    /// The text of a row: its blocks and, behind them, words of its own.
    pub(in crate::dataset) fn text(
        &mut self,
        hash_ids: &[i64],
        input_length: u64,
        row: usize,
    ) -> Result<String, String> {
        let count = |tokens: u64| usize::try_from(tokens).unwrap_or(usize::MAX);
        let mut random = numbered_random(self.own_seed, row);
        let mut left = input_length;
        let (mut text, mut tokens) = (String::new(), Vec::new());
        for id in hash_ids {
            if left == 0 {
                return Err(format!(
                    "`hash_ids` are {} blocks of {} tokens, more than `input_length` {input_length}: write fewer \
                     or set `dataset.block_size`",
                    hash_ids.len(),
                    self.block_size
                ));
            }
            let size = left.min(self.block_size);
            left -= size;
            let joins = self.joins;
            let block = self.block(*id, size)?;
            if joins {
                if !text.is_empty() && block.text.starts_with(|first: char| first.is_ascii_lowercase()) {
                    text.push(' ');
                }
                text.push_str(&block.text);
            } else {
                tokens.extend_from_slice(&block.tokens);
            }
        }
        if self.joins {
            return Ok(self.prose.text_behind_text(text, &mut random, count(left)));
        }
        tokens.extend(self.prose.sample(&mut random, count(left)));
        Ok(self.prose.settled(tokens, &mut random))
    }

    /// The block `id`, which depends on the trace and the id alone.
    fn block(&mut self, id: i64, size: u64) -> Result<&Block, String> {
        if let Some(known) = self.blocks.get(&id)
            && known.size != size
        {
            return Err(format!(
                "`hash_ids` has {id} with {size} tokens, an earlier row has it with {}: equal ids are equal \
                 texts",
                known.size
            ));
        }
        let (prose, joins, separator) = (&self.prose, self.joins, &self.separator);
        let (root, trace) = (self.root, &self.trace);
        Ok(self.blocks.entry(id).or_insert_with(|| {
            let mut random = Rng::with_seed(child_seed(root, &format!("{trace}:{id}")));
            let count = usize::try_from(size).unwrap_or(usize::MAX);
            if joins {
                let words = count.saturating_sub(usize::from(separator.is_some()));
                let text = prose.text_behind_text(separator.clone().unwrap_or_default(), &mut random, words);
                Block { size, tokens: Vec::new(), text }
            } else {
                Block { size, tokens: prose.block(&mut random, count), text: String::new() }
            }
        }))
    }
}
