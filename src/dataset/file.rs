//! File datasets: rows into conversations, or every broken row with its line.
//!
//! [`load`] reads the source, finds out the format unless it is given, and hands the rows to the format's own
//! reader. It renders nothing. Formats as in AIPerf; `docs/datasets.md` lists them.

mod media;
mod row;
mod sharegpt;
mod synthesis;
mod trace;
mod trace_text;
mod turns;
mod verbatim;

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::dataset::compose::{MAX_TOKENS, Models, SessionNames, limit};
use crate::dataset::draw::Draws;
use crate::dataset::file::row::Rows;
use crate::dataset::{FileFormat, FileSource, FileSpec, Synthesis};
use crate::endpoint::Conversation;
use crate::tokenizer::Tokenizer;

/// Broken rows that are named before the rest is only counted.
pub const FAULTS_MAX: usize = 20;
/// Largest file, unpacked, in bytes.
pub const FILE_BYTES_MAX: u64 = 16 << 30;

/// A dataset that was read.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The format, given or found out.
    pub format: FileFormat,
    /// The conversations in dataset order; never empty.
    pub conversations: Vec<Conversation>,
    /// What was changed or left out, one sentence each.
    pub warnings: Vec<String>,
}

/// A row that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowFault {
    /// The file; empty for rows that stand in the config.
    pub file: String,
    /// The line, from 1 (the record's number where the file is one document).
    pub line: usize,
    /// The column, from 1, where the row is not JSON.
    pub column: Option<usize>,
    /// What is wrong and what to write.
    pub reason: String,
}

impl std::fmt::Display for RowFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.file.is_empty() {
            write!(f, "{}:", self.file)?;
        }
        write!(f, "{}:", self.line)?;
        if let Some(column) = self.column {
            write!(f, "{column}:")?;
        }
        write!(f, " {}", self.reason)
    }
}

/// Why a file dataset cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// More than one format fits.
    #[error(
        "the rows of `{file}` could be `{}`: say which with `dataset.format`", candidates.join("` or `")
    )]
    Ambiguous {
        /// The file.
        file: String,
        /// Names of the formats.
        candidates: Vec<&'static str>,
    },
    /// There is no row.
    #[error("the dataset `{file}` has no row: write at least one")]
    Empty {
        /// The file.
        file: String,
    },
    /// A setting that the format does not know.
    #[error("`dataset.{key}` has no meaning for the format `{format}`: take it out")]
    Setting {
        /// The key.
        key: &'static str,
        /// The format's name.
        format: &'static str,
    },
    /// A text of given length needs a tokenizer.
    #[error("a dataset of the format `{format}` needs a tokenizer: set `tokenizer.name`")]
    NoTokenizer {
        /// The format's name.
        format: &'static str,
    },
    /// Rows that cannot be used.
    #[error("{}{}", faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"), more_text(*more))]
    Rows {
        /// The first of them.
        faults: Vec<RowFault>,
        /// How many more there are.
        more: usize,
    },
    /// No format fits.
    #[error(
        "the rows of `{file}` fit no format: write rows with `text`, `turns`, `messages` or `input_length`, or \
         say the format with `dataset.format`"
    )]
    Unknown {
        /// The file.
        file: String,
    },
    /// The file cannot be read.
    #[error("the dataset `{}` cannot be read: {reason}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        reason: String,
    },
}

fn more_text(more: usize) -> String {
    if more == 0 { String::new() } else { format!("\nand {more} more rows that cannot be used") }
}

/// What the readers of all formats share.
pub(in crate::dataset) struct Reading<'a> {
    spec: &'a FileSpec,
    tokenizer: Option<&'a Tokenizer>,
    root: u64,
    names: SessionNames,
    /// Names given so far.
    named: usize,
    faults: Vec<RowFault>,
    more: usize,
    warnings: Vec<String>,
    /// Of the whole source, for traces.
    digest: String,
}

impl Reading<'_> {
    /// The next name for a conversation that has none.
    fn next_name(&mut self) -> String {
        self.named += 1;
        self.names.name(self.named - 1)
    }

    /// Notes a row that cannot be used.
    fn fault(&mut self, file: &str, line: usize, reason: String) {
        self.fault_at(RowFault { file: file.to_owned(), line, column: None, reason });
    }

    fn fault_at(&mut self, fault: RowFault) {
        if self.faults.len() < FAULTS_MAX {
            self.faults.push(fault);
        } else {
            self.more += 1;
        }
    }
}

/// Reads a file dataset.
///
/// # Errors
/// [`FileError`]; broken rows are all named, up to [`FAULTS_MAX`] of them.
pub fn load(spec: &FileSpec, tokenizer: Option<&Tokenizer>) -> Result<Loaded, FileError> {
    let root = spec.common.seed.unwrap_or_else(|| fastrand::u64(..));
    let (sources, digest) = read_sources(&spec.source)?;
    let label = match &spec.source {
        FileSource::Inline(_) => "dataset.records".to_owned(),
        FileSource::Path(path) => path.display().to_string(),
    };
    let format = match (spec.format, &spec.source) {
        (Some(format), _) => format,
        (None, FileSource::Inline(_)) => FileFormat::SingleTurn,
        (None, FileSource::Path(path)) => detect(&label, path.is_dir(), &sources)?,
    };
    if !format.is_trace() && spec.synthesis != Synthesis::default() {
        return Err(FileError::Setting { key: "synthesis", format: format.name() });
    }
    let batches = spec.batch_sizes != crate::dataset::BatchSizes::default();
    if batches && format != FileFormat::RandomPool {
        return Err(FileError::Setting { key: "prompt_batch_size", format: format.name() });
    }
    let mut reading = Reading {
        spec,
        tokenizer,
        root,
        names: SessionNames::new(&spec.common, root),
        named: 0,
        faults: Vec::new(),
        more: 0,
        warnings: Vec::new(),
        digest,
    };
    let mut conversations = read_format(&mut reading, format, &sources)?;
    if !reading.faults.is_empty() {
        return Err(FileError::Rows { faults: reading.faults, more: reading.more });
    }
    if conversations.is_empty() {
        return Err(FileError::Empty { file: label });
    }
    finish(&mut conversations, spec, root);
    Ok(Loaded { format, conversations, warnings: reading.warnings })
}

fn read_format(
    reading: &mut Reading<'_>,
    format: FileFormat,
    sources: &[Source],
) -> Result<Vec<Conversation>, FileError> {
    if format == FileFormat::BurstGptTrace {
        return trace::burst_gpt(reading, sources);
    }
    let rows: Vec<Rows> = match format {
        FileFormat::InputsJson | FileFormat::ShareGpt => {
            sources.iter().map(|source| Rows::of_document(source, reading)).collect()
        }
        FileFormat::BailianTrace
        | FileFormat::BurstGptTrace
        | FileFormat::MooncakeTrace
        | FileFormat::MultiTurn
        | FileFormat::RandomPool
        | FileFormat::RawPayload
        | FileFormat::SingleTurn => sources.iter().map(|source| Rows::of_lines(source, reading)).collect(),
    };
    if !reading.faults.is_empty() {
        return Ok(Vec::new());
    }
    match format {
        FileFormat::BailianTrace => trace::bailian(reading, &rows),
        FileFormat::BurstGptTrace => Ok(Vec::new()),
        FileFormat::InputsJson => Ok(verbatim::inputs_json(reading, &rows)),
        FileFormat::MooncakeTrace => trace::mooncake(reading, &rows),
        FileFormat::MultiTurn => Ok(turns::multi_turn(reading, &rows)),
        FileFormat::RandomPool => Ok(turns::random_pool(reading, &rows)),
        FileFormat::RawPayload => {
            let directory = matches!(&reading.spec.source, FileSource::Path(path) if path.is_dir());
            Ok(verbatim::raw_payload(reading, &rows, directory))
        }
        FileFormat::ShareGpt => sharegpt::sharegpt(reading, &rows),
        FileFormat::SingleTurn => Ok(turns::single_turn(reading, &rows)),
    }
}

/// Models, limits and the configured system prompt.
fn finish(conversations: &mut [Conversation], spec: &FileSpec, root: u64) {
    let mut models = Models::new(&spec.common, root);
    let mut limits = Draws::new(root, MAX_TOKENS);
    for conversation in conversations {
        if let Some(configured) = &spec.common.system_prompt {
            conversation.system_message = Some(match conversation.system_message.take() {
                Some(own) => format!("{configured}\n\n{own}"),
                None => configured.clone(),
            });
        }
        for turn in &mut conversation.turns {
            let model = models.next();
            if spec.common.models.len() > 1 && turn.model.is_none() {
                turn.model = spec.common.models.get(model).cloned();
            }
            if turn.max_tokens.is_none() && turn.raw_payload.is_none() {
                turn.max_tokens = limit(spec.common.osl.as_ref(), &mut limits);
            }
        }
    }
}

/// A file, or the rows of a pool that stand in the config.
pub(in crate::dataset) struct Source {
    /// Shown in faults; empty for rows of the config.
    label: String,
    /// The file's name without its endings.
    stem: String,
    content: Content,
}

enum Content {
    Text(String),
    Values(Vec<Value>),
}

/// The sources in order of their names, and the digest of all bytes.
fn read_sources(source: &FileSource) -> Result<(Vec<Source>, String), FileError> {
    let mut digest = Sha256::new();
    let sources = match source {
        FileSource::Inline(pools) => pools
            .iter()
            .map(|(name, rows)| {
                for row in rows {
                    digest.update(row.to_string());
                }
                Source { label: String::new(), stem: name.clone(), content: Content::Values(rows.clone()) }
            })
            .collect(),
        FileSource::Path(path) => {
            let mut sources = Vec::new();
            for path in files(path)? {
                let text = read_text(&path)?;
                digest.update(&text);
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                let stem = name.split('.').next().unwrap_or_default().to_owned();
                sources.push(Source {
                    label: path.display().to_string(),
                    stem,
                    content: Content::Text(text),
                });
            }
            sources
        }
    };
    let digest = digest.finalize().iter().take(8).fold(0, |sum, byte| (sum << 8) | u64::from(*byte));
    Ok((sources, format!("{digest:016x}")))
}

/// The file itself, or the `.jsonl` files of a directory by name.
fn files(path: &Path) -> Result<Vec<PathBuf>, FileError> {
    let unreadable =
        |error: std::io::Error| FileError::Unreadable { path: path.to_path_buf(), reason: error.to_string() };
    if !path.is_dir() {
        return Ok(vec![path.to_path_buf()]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?.path();
        let name = entry.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let unpacked = name.strip_suffix(".gz").unwrap_or(&name);
        if entry.is_file() && Path::new(unpacked).extension().is_some_and(|ending| ending == "jsonl") {
            files.push(entry);
        }
    }
    files.sort();
    if files.is_empty() {
        return Err(FileError::Empty { file: path.display().to_string() });
    }
    Ok(files)
}

fn read_text(path: &Path) -> Result<String, FileError> {
    let unreadable = |reason: String| FileError::Unreadable { path: path.to_path_buf(), reason };
    let file = fs::File::open(path).map_err(|error| unreadable(error.to_string()))?;
    let mut bytes = Vec::new();
    let limit = FILE_BYTES_MAX + 1;
    let read = if path.extension().is_some_and(|extension| extension == "gz") {
        MultiGzDecoder::new(file).take(limit).read_to_end(&mut bytes)
    } else {
        file.take(limit).read_to_end(&mut bytes)
    };
    read.map_err(|error| unreadable(error.to_string()))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(unreadable(format!("it is larger than {FILE_BYTES_MAX} bytes")));
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let line = error.as_bytes().iter().take(valid).filter(|byte| **byte == b'\n').count() + 1;
        unreadable(format!("line {line} is not UTF-8"))
    })
}

/// The one format that the source can be.
fn detect(label: &str, directory: bool, sources: &[Source]) -> Result<FileFormat, FileError> {
    let texts = sources.iter().filter_map(|source| match &source.content {
        Content::Text(text) => Some(text.as_str()),
        Content::Values(_) => None,
    });
    let text = texts.into_iter().find(|text| !text.trim().is_empty());
    let text = text.ok_or_else(|| FileError::Empty { file: label.to_owned() })?;
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    if let Ok(row) = serde_json::from_str::<Value>(first)
        && row.is_object()
    {
        if let Some(format) = row.get("type").and_then(Value::as_str).and_then(FileFormat::named) {
            return Ok(format);
        }
        let candidates: Vec<FileFormat> =
            FileFormat::ALL.into_iter().filter(|format| fits(*format, &row)).collect();
        match candidates.as_slice() {
            [] => {}
            [format] => return Ok(*format),
            _ if directory && candidates.contains(&FileFormat::RawPayload) => {
                return Ok(FileFormat::RawPayload);
            }
            several => {
                let candidates = several.iter().map(|format| format.name()).collect();
                return Err(FileError::Ambiguous { file: label.to_owned(), candidates });
            }
        }
    }
    if trace::is_burst_gpt(first) {
        return Ok(FileFormat::BurstGptTrace);
    }
    match serde_json::from_str::<Value>(text) {
        Ok(Value::Object(document)) if document.get("data").is_some_and(Value::is_array) => {
            Ok(FileFormat::InputsJson)
        }
        Ok(Value::Array(items)) if items.iter().any(|item| item.get("conversations").is_some()) => {
            Ok(FileFormat::ShareGpt)
        }
        Ok(_) | Err(_) => Err(FileError::Unknown { file: label.to_owned() }),
    }
}

/// Whether a row could be one of this format.
fn fits(format: FileFormat, row: &Value) -> bool {
    let has = |key: &str| row.get(key).is_some_and(|value| !value.is_null());
    match format {
        FileFormat::BailianTrace => has("chat_id") && has("input_length"),
        FileFormat::InputsJson => row.get("data").is_some_and(Value::is_array),
        FileFormat::MooncakeTrace => trace::MOONCAKE_INPUTS.iter().any(|key| has(key)) && !has("chat_id"),
        FileFormat::MultiTurn => has("turns"),
        FileFormat::RawPayload => row.get("messages").is_some_and(Value::is_array),
        FileFormat::ShareGpt => row.get("conversations").is_some_and(Value::is_array),
        FileFormat::SingleTurn => turns::KEYS.iter().any(|key| has(key)) && !has("turns"),
        FileFormat::BurstGptTrace | FileFormat::RandomPool => false,
    }
}
