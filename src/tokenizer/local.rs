//! A `tokenizer.json` and, beside it, which tokens begin and end a text.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tokenizers::PostProcessor as _;
use tokenizers::Tokenizer as Model;

use crate::tokenizer::{TOKENIZER_FILE, TokenizerError};

/// Files that say which tokens begin and end a text; the first that does, counts.
const SIDE_FILES: [&str; 2] = ["tokenizer_config.json", "special_tokens_map.json"];

/// A tokenizer read from a file.
#[derive(Debug)]
pub struct Local {
    name: String,
    model: Model,
    separator: Option<u32>,
    special_tokens_added: usize,
}

impl Local {
    pub(in crate::tokenizer) fn open(path: &Path) -> Result<Self, TokenizerError> {
        let (directory, file) = if path.is_dir() {
            (path.to_path_buf(), path.join(TOKENIZER_FILE))
        } else {
            (path.parent().map_or_else(PathBuf::new, Path::to_path_buf), path.to_path_buf())
        };
        let bytes = fs::read(&file).map_err(|source| match source.kind() {
            std::io::ErrorKind::NotFound => TokenizerError::NoFile {
                directory: if path.is_dir() { directory.clone() } else { path.to_path_buf() },
            },
            _ => TokenizerError::Unreadable { path: file.clone(), source },
        })?;
        let mut model = Model::from_bytes(bytes)
            .map_err(|error| TokenizerError::Unusable { path: file.clone(), reason: error.to_string() })?;
        // A count that stops at the length a model was trained for is no count.
        model.with_padding(None);
        model
            .with_truncation(None)
            .map_err(|error| TokenizerError::Unusable { path: file.clone(), reason: error.to_string() })?;
        let special = |key: &str| {
            SIDE_FILES
                .iter()
                .find_map(|side| special_token(&directory.join(side), key))
                .and_then(|token| model.token_to_id(&token))
        };
        let separator = special("bos_token").or_else(|| special("eos_token"));
        let special_tokens_added = model.get_post_processor().map_or(0, |post| post.added_tokens(false));
        Ok(Self { name: path.display().to_string(), model, separator, special_tokens_added })
    }

    pub(in crate::tokenizer) fn name(&self) -> &str {
        &self.name
    }

    pub(in crate::tokenizer) fn count(&self, text: &str) -> usize {
        self.model.encode_fast(text, false).map_or(0, |encoding| encoding.len())
    }

    pub(in crate::tokenizer) fn encode(&self, text: &str) -> Vec<u32> {
        self.model.encode_fast(text, false).map_or_else(|_| Vec::new(), |found| found.get_ids().to_vec())
    }

    pub(in crate::tokenizer) fn decode(&self, tokens: &[u32]) -> Result<String, TokenizerError> {
        // The library passes over ids that it does not know.
        if let Some(id) = tokens.iter().find(|id| self.model.id_to_token(**id).is_none()) {
            return Err(TokenizerError::UnknownToken { id: *id, tokenizer: self.name.clone() });
        }
        self.model.decode(tokens, false).map_err(|error| TokenizerError::Unusable {
            path: PathBuf::from(&self.name),
            reason: error.to_string(),
        })
    }

    pub(in crate::tokenizer) const fn special_tokens_added(&self) -> usize {
        self.special_tokens_added
    }

    pub(in crate::tokenizer) const fn separator(&self) -> Option<u32> {
        self.separator
    }

    pub(in crate::tokenizer) fn ordinary_tokens(&self) -> Vec<u32> {
        let special = self.model.get_added_tokens_decoder();
        let mut tokens: Vec<u32> = self
            .model
            .get_vocab(true)
            .into_values()
            .filter(|id| special.get(id).is_none_or(|token| !token.special))
            .collect();
        tokens.sort_unstable();
        tokens.dedup();
        tokens
    }
}

/// The text of a special token: a string, or an object with its `content`.
fn special_token(file: &Path, key: &str) -> Option<String> {
    let side: Value = serde_json::from_slice(&fs::read(file).ok()?).ok()?;
    let token = side.get(key)?;
    token.as_str().or_else(|| token.get("content")?.as_str()).map(str::to_owned)
}
