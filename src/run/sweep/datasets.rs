//! Rendered prompts that several runs send: kept as long as they are not too many.

use crate::config;
use crate::config::Config;
use crate::config::Endpoint;
use crate::config::Models;
use crate::config::Tokenizer;
use crate::run::traffic::Traffic;
use std::collections::VecDeque;
use std::sync::Arc;

/// Most bytes of bodies that are kept for later runs.
const KEPT_BYTES_MAX: usize = 512 << 20;

/// Most datasets that are kept.
const KEPT_MAX: usize = 64;

/// Makes what a config sends, or says why it cannot be made.
pub type Build<'b> = dyn FnMut(&Config) -> Result<Traffic, String> + 'b;

/// All that the bodies of a dataset follow from.
#[derive(Debug, PartialEq)]
struct Key {
    dataset: config::Dataset,
    seed: Option<u64>,
    models: Models,
    endpoint: Endpoint,
    tokenizer: Tokenizer,
}

/// The datasets made so far that may serve again.
pub(super) struct Datasets<'b> {
    build: &'b mut Build<'b>,
    kept: VecDeque<(Key, Arc<Traffic>)>,
}

impl<'b> Datasets<'b> {
    pub(super) fn new(build: &'b mut Build<'b>) -> Self {
        Self { build, kept: VecDeque::new() }
    }

    /// The dataset of `config`: one that was made before if it would be the same. Without a seed a dataset is
    /// another one each time.
    pub(super) fn of(&mut self, config: &Config) -> Result<Arc<Traffic>, String> {
        let key = Key {
            dataset: config.dataset.clone(),
            seed: config.random_seed,
            models: config.models.clone(),
            endpoint: config.endpoint.clone(),
            tokenizer: config.tokenizer.clone(),
        };
        if key.seed.is_some()
            && let Some((_, traffic)) = self.kept.iter().find(|(known, _)| *known == key)
        {
            return Ok(Arc::clone(traffic));
        }
        let traffic = Arc::new((self.build)(config)?);
        self.kept.push_back((key, Arc::clone(&traffic)));
        let bytes = |kept: &VecDeque<(Key, Arc<Traffic>)>| -> usize {
            kept.iter().map(|(_, traffic)| traffic.dataset.block().len()).sum()
        };
        while self.kept.len() > KEPT_MAX || (self.kept.len() > 1 && bytes(&self.kept) > KEPT_BYTES_MAX) {
            self.kept.pop_front();
        }
        Ok(traffic)
    }
}
