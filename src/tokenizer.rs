//! Texts into tokens and back: what a prompt length means.
//!
//! A [`Tokenizer`] is one of three: an encoding of tiktoken, whose vocabulary is compiled in; a
//! `tokenizer.json` from a directory, a file or the local hub cache; or the rule of [`words`], which needs
//! neither. It never goes to the network. Encoding adds no special tokens, decoding keeps them, and the text
//! of a special token inside a prompt is that token, as AIPerf counts.
//!
//! A tokenizer is shared by threads as it is; a clone costs nothing.

mod hub;
mod local;
mod several;
pub mod words;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tiktoken_rs::CoreBPE;

pub use hub::HubCache;
use local::Local;
pub use several::Tokenizers;

/// The name that AIPerf gives to `o200k_base`.
pub const BUILTIN: &str = "builtin";
/// The names of the rule of [`words`].
pub const WORDS_NAMES: [&str; 2] = ["none", "words"];
/// The file that a tokenizer is read from.
pub const TOKENIZER_FILE: &str = "tokenizer.json";

/// An encoding of tiktoken.
#[derive(Clone, Copy)]
pub struct Encoding {
    name: &'static str,
    bpe: fn() -> &'static CoreBPE,
    /// Ids below this one are ordinary tokens, but for holes.
    ordinary: u32,
    /// The id of `<|endoftext|>`.
    end_of_text: u32,
}

impl std::fmt::Debug for Encoding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// Every encoding there is.
const ENCODINGS: [Encoding; 6] = [
    Encoding {
        name: "cl100k_base",
        bpe: tiktoken_rs::cl100k_base_singleton,
        ordinary: 100_256,
        end_of_text: 100_257,
    },
    Encoding {
        name: "o200k_base",
        bpe: tiktoken_rs::o200k_base_singleton,
        ordinary: 199_998,
        end_of_text: 199_999,
    },
    Encoding {
        name: "o200k_harmony",
        bpe: tiktoken_rs::o200k_harmony_singleton,
        ordinary: 199_998,
        end_of_text: 199_999,
    },
    Encoding {
        name: "p50k_base",
        bpe: tiktoken_rs::p50k_base_singleton,
        ordinary: 50_256,
        end_of_text: 50_256,
    },
    Encoding {
        name: "p50k_edit",
        bpe: tiktoken_rs::p50k_edit_singleton,
        ordinary: 50_256,
        end_of_text: 50_256,
    },
    Encoding {
        name: "r50k_base",
        bpe: tiktoken_rs::r50k_base_singleton,
        ordinary: 50_256,
        end_of_text: 50_256,
    },
];

/// Counts, encodes and decodes.
#[derive(Clone, Debug)]
pub enum Tokenizer {
    /// An encoding of tiktoken.
    Encoding(Encoding),
    /// A `tokenizer.json`.
    Local(Arc<Local>),
    /// A token is a word between blanks.
    Words,
}

/// Why there is no tokenizer. Every message names the ways out.
#[derive(Debug, thiserror::Error)]
pub enum TokenizerError {
    /// The directory has no `tokenizer.json`.
    #[error(
        "`{}` holds no {TOKENIZER_FILE}: save the tokenizer in that form (`AutoTokenizer...save_pretrained`), \
         or set `tokenizer.name` to `{BUILTIN}` or `none`; SentencePiece and tekken files cannot be read",
        directory.display()
    )]
    NoFile {
        /// Where it was looked for.
        directory: PathBuf,
    },
    /// No such encoding, directory or cached repository.
    #[error(
        "the tokenizer `{name}` is neither an encoding, nor a directory, nor in the hub cache `{}`: give \
         `--tokenizer` a directory with a {TOKENIZER_FILE}, or `{BUILTIN}` (o200k_base), or `none` to do \
         without one; or fetch it once with `hf download {name} {TOKENIZER_FILE}`",
        cache.display()
    )]
    NotFound {
        /// What was asked for.
        name: String,
        /// The cache that was searched.
        cache: PathBuf,
    },
    /// The file is there and cannot be used.
    #[error("the tokenizer file `{}` cannot be used: {reason}; `{BUILTIN}` and `none` need no file", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What the reader says.
        reason: String,
    },
    /// The file cannot be read.
    #[error("the tokenizer file `{}` cannot be read: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The tokens are none of this tokenizer's.
    #[error("token {id} is not in the vocabulary of `{tokenizer}`")]
    UnknownToken {
        /// The token.
        id: u32,
        /// The tokenizer's name.
        tokenizer: String,
    },
}

impl Tokenizer {
    /// The tokenizer `name`: `builtin`, an encoding, `none`, a directory or file, or a repository in the
    /// local hub cache at its revision `main`.
    ///
    /// The vocabulary of an encoding is unpacked here and not at the first use.
    ///
    /// # Errors
    /// [`TokenizerError`], with the ways out.
    pub fn load(name: &str) -> Result<Self, TokenizerError> {
        Self::load_from(name, "main", &HubCache::from_environment())
    }

    /// As [`Tokenizer::load`], with another revision and another cache.
    ///
    /// # Errors
    /// [`TokenizerError`], with the ways out.
    pub fn load_from(name: &str, revision: &str, cache: &HubCache) -> Result<Self, TokenizerError> {
        if WORDS_NAMES.contains(&name) {
            return Ok(Self::Words);
        }
        let encoding = if name == BUILTIN { "o200k_base" } else { name };
        if let Some(encoding) = ENCODINGS.iter().find(|known| known.name == encoding) {
            (encoding.bpe)();
            return Ok(Self::Encoding(*encoding));
        }
        let path = hub::expand_home(name);
        if path.exists() || hub::looks_like_a_path(name) {
            return Self::from_path(&path);
        }
        match cache.snapshot(name, revision) {
            Some(directory) => Self::from_path(&directory),
            None => Err(TokenizerError::NotFound {
                name: name.to_owned(),
                cache: cache.directory().to_path_buf(),
            }),
        }
    }

    /// The tokenizer of a directory that holds a `tokenizer.json`, or of such a file.
    ///
    /// # Errors
    /// The file is missing, unreadable or no tokenizer.
    pub fn from_path(path: &Path) -> Result<Self, TokenizerError> {
        Ok(Self::Local(Arc::new(Local::open(path)?)))
    }

    /// What it is called in reports.
    pub fn name(&self) -> &str {
        match self {
            Self::Encoding(encoding) => encoding.name,
            Self::Local(local) => local.name(),
            Self::Words => "words",
        }
    }

    /// Whether no token reaches over a blank with something else than white space in front of it: then the
    /// tokens of texts with a blank between them are those of each text, all but the first with the blank.
    pub const fn splits_at_blanks(&self) -> bool {
        match self {
            // The patterns of tiktoken take a blank to what follows it.
            Self::Encoding(_) | Self::Words => true,
            // Some merge across blanks, and their normalisers may do anything.
            Self::Local(_) => false,
        }
    }

    /// Tokens of `text`.
    pub fn count(&self, text: &str) -> usize {
        match self {
            Self::Encoding(encoding) => (encoding.bpe)().count_with_special_tokens(text),
            Self::Local(local) => local.count(text),
            Self::Words => words::count(text),
        }
    }

    /// The tokens of `text`; no special token is added.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        match self {
            Self::Encoding(encoding) => (encoding.bpe)().encode_with_special_tokens(text),
            Self::Local(local) => local.encode(text),
            Self::Words => words::encode(text),
        }
    }

    /// The text of `tokens`, special ones included; bytes that are no UTF-8 become replacement characters.
    ///
    /// # Errors
    /// A token that the vocabulary does not have.
    pub fn decode(&self, tokens: &[u32]) -> Result<String, TokenizerError> {
        match self {
            Self::Encoding(encoding) => match (encoding.bpe)().decode_bytes(tokens) {
                Ok(bytes) => Ok(String::from_utf8(bytes)
                    .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())),
                Err(error) => {
                    Err(TokenizerError::UnknownToken { id: error.token, tokenizer: self.name().to_owned() })
                }
            },
            Self::Local(local) => local.decode(tokens),
            Self::Words => Ok(words::decode(tokens)),
        }
    }

    /// Special tokens that a server puts around a single text (a beginning-of-sequence token, as a rule).
    pub fn special_tokens_added(&self) -> usize {
        match self {
            Self::Local(local) => local.special_tokens_added(),
            Self::Encoding(_) | Self::Words => 0,
        }
    }

    /// The token that separates blocks of a trace: the beginning-of-sequence token, else the end-of-sequence
    /// token, else none.
    pub fn separator(&self) -> Option<u32> {
        match self {
            Self::Encoding(encoding) => Some(encoding.end_of_text),
            Self::Local(local) => local.separator(),
            Self::Words => None,
        }
    }

    /// The ids of all ordinary tokens, in order; never empty for a usable vocabulary.
    pub fn ordinary_tokens(&self) -> Vec<u32> {
        match self {
            Self::Encoding(encoding) => (0..encoding.ordinary).collect(),
            Self::Local(local) => local.ordinary_tokens(),
            Self::Words => (0..words::KNOWN).collect(),
        }
    }
}

/// Whether a model's name stands for no real model, so that AIPerf counts with `builtin`.
pub fn is_placeholder(model: &str) -> bool {
    const WHOLE: [&str; 7] = ["dummy", "example", "fake", "mock", "placeholder", "sample", "test"];
    const PARTS: [&str; 9] = [
        "-fake",
        "-mock",
        "fake-",
        "mock-",
        "model-id",
        "model-name",
        "my-model",
        "test-model",
        "your-model",
    ];
    let name = model.to_lowercase().replace('_', "-");
    if name.contains('/') || name.starts_with(['.', '~']) {
        return false;
    }
    WHOLE.contains(&name.as_str()) || PARTS.iter().any(|part| name.contains(part))
}
