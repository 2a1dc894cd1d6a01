//! The config's types as the specs of datasets and the settings of endpoints: the one place where they meet.

use std::fs;
use std::path::PathBuf;

use crate::config::{Config, meant};
use crate::dataset::{
    BatchSizes, CacheBust, CommonSpec, Composer, Conversations, Corpus, Dataset, DatasetError, Distribution,
    FileFormat, FileSource, FileSpec, Law, ModelChoice, PrefixSpec, RangeRatio, RangeStyle, Rendering,
    Sampling, SequencePair, Synthesis, SyntheticSpec, load,
};
use crate::endpoint::{Dialect, EndpointSettings, RequestContentType, TemplateSettings};
use crate::tokenizer::Tokenizer;

/// Makes the dataset of `config`: read or composed, then rendered on `threads` threads.
///
/// `progress` is called with the share of the rendering that is done, from 0 to 1, by any of the threads.
///
/// # Errors
/// Whatever keeps the dataset from being made.
pub fn make(
    config: &Config,
    tokenizer: &Tokenizer,
    threads: usize,
    progress: &(dyn Fn(f64) + Sync),
) -> Result<Dataset, DatasetError> {
    let settings = endpoint_settings(config)?;
    let rendering = Rendering { settings: &settings, tokenizer: Some(tokenizer), threads, progress };
    match &config.dataset.source {
        meant::DatasetSource::Synthetic(made) => {
            let composer = Composer::new(&synthetic_spec(config, made)?, tokenizer)?;
            rendering.dataset(Conversations::Composed(&composer))
        }
        meant::DatasetSource::File(file) => {
            let loaded = load(&file_spec(config, file)?, Some(tokenizer))?;
            rendering.dataset(Conversations::Listed(&loaded.conversations))
        }
        meant::DatasetSource::Public(public) => Err(DatasetError::Public(public.dataset.clone())),
    }
}

/// The endpoint of `config` as payloads, headers and replies see it.
///
/// # Errors
/// An endpoint type whose payloads phasor does not make, or a template file that cannot be read.
pub fn endpoint_settings(config: &Config) -> Result<EndpointSettings, DatasetError> {
    let endpoint = &config.endpoint;
    let name = endpoint.kind.name();
    let dialect = Dialect::named(name).ok_or(DatasetError::Dialect(name))?;
    let template = match &endpoint.template {
        None => None,
        Some(template) => template.body.as_ref().map(|body| template_settings(body, template)).transpose()?,
    };
    Ok(EndpointSettings {
        streaming: endpoint.streaming,
        extra: endpoint.extra.clone(),
        headers: endpoint.headers.clone(),
        api_key: endpoint.api_key.clone(),
        session_header: endpoint.session_header.clone(),
        legacy_max_tokens: endpoint.use_legacy_max_tokens,
        server_token_count: endpoint.use_server_token_count,
        per_chunk_usage: endpoint.per_chunk_usage,
        content_type: match endpoint.content_type {
            Some(meant::ContentType::Form) => RequestContentType::Multipart,
            Some(meant::ContentType::Json) | None => RequestContentType::Json,
        },
        template,
        ..EndpointSettings::new(dialect, &config.model)
    })
}

/// A template that is the name of a file is what the file says.
fn template_settings(body: &str, template: &meant::ReplyTemplate) -> Result<TemplateSettings, DatasetError> {
    let is_file = !body.contains(['{', '\n']) && fs::metadata(body).is_ok_and(|found| found.is_file());
    let body = if is_file { read(body)? } else { body.to_owned() };
    Ok(TemplateSettings { body, response_field: template.response_field.clone() })
}

fn read(path: &str) -> Result<String, DatasetError> {
    let expanded = match (path.strip_prefix("~/"), std::env::var_os("HOME")) {
        (Some(rest), Some(home)) => PathBuf::from(home).join(rest),
        (Some(_) | None, _) => PathBuf::from(path),
    };
    fs::read_to_string(&expanded)
        .map_err(|error| DatasetError::Unreadable { path: path.to_owned(), reason: error.to_string() })
}

/// What all datasets have in common.
fn common(config: &Config) -> Result<CommonSpec, DatasetError> {
    let dataset = &config.dataset;
    Ok(CommonSpec {
        seed: config.random_seed,
        numbered_sessions: dataset.random_seed.is_some(),
        models: config.models.items.iter().map(|model| model.name.clone()).collect(),
        model_choice: match config.models.strategy {
            meant::ModelStrategy::Random => ModelChoice::Random,
            meant::ModelStrategy::RoundRobin => ModelChoice::RoundRobin,
            meant::ModelStrategy::Weighted => return Err(DatasetError::WeightedModels),
        },
        system_prompt: match &dataset.system_prompt {
            None => None,
            Some(meant::SystemPrompt::Text(text)) => Some(text.clone()),
            Some(meant::SystemPrompt::File(path)) => Some(read(path)?),
        },
        osl: dataset.prompts.osl.as_ref().map(distribution),
    })
}

/// A dataset that phasor makes.
fn synthetic_spec(config: &Config, made: &meant::SyntheticDataset) -> Result<SyntheticSpec, DatasetError> {
    let (dataset, prompts) = (&config.dataset, &config.dataset.prompts);
    Ok(SyntheticSpec {
        common: common(config)?,
        batch_size: prompts.batch_size,
        corpus: corpus(prompts.corpus),
        sequences: prompts.mix.iter().map(sequence).collect(),
        range_ratio: prompts.random_range.map(|range| RangeRatio {
            input: range.input,
            output: range.output,
            style: match range.style {
                meant::RangeStyle::Sglang => RangeStyle::Sglang,
                meant::RangeStyle::Vllm => RangeStyle::Vllm,
            },
        }),
        turns: made.turns.as_ref().map_or(Distribution::fixed(1.0), distribution),
        turn_delay_ms: made.turn_delay_ms.as_ref().map_or(Distribution::fixed(0.0), distribution),
        turn_delay_ratio: dataset.replay.turn_delay_ratio.unwrap_or(1.0),
        prefix: made.prefix.map(|prefix| match prefix {
            meant::Prefix::Pool { size, length } => PrefixSpec::Pool { size, length },
            meant::Prefix::Shared { system_length, user_context_length } => {
                PrefixSpec::Shared { system_length, user_context_length }
            }
        }),
        cache_bust: cache_bust(&prompts.cache_bust)?,
        ..SyntheticSpec::new(
            dataset.entries.unwrap_or(meant::Dataset::ENTRIES),
            distribution(&prompts.isl),
            &config.model,
        )
    })
}

/// A dataset that stands in a file or in the config.
fn file_spec(config: &Config, file: &meant::FileDataset) -> Result<FileSpec, DatasetError> {
    let format = FileFormat::named(&file.format).ok_or_else(|| DatasetError::Format(file.format.clone()))?;
    let source = match &file.path {
        Some(path) => FileSource::Path(PathBuf::from(path)),
        None => FileSource::Inline(vec![(String::new(), file.records.clone())]),
    };
    Ok(FileSpec {
        common: common(config)?,
        source,
        format: Some(format),
        entries: config.dataset.entries,
        block_size: config.dataset.prompts.block_size,
        corpus: corpus(config.dataset.prompts.corpus),
        synthesis: Synthesis::default(),
        batch_sizes: BatchSizes::default(),
        window_ms: (None, None),
        takes_system: config.endpoint.kind.has_system_role(),
    })
}

/// How the dataset's entries are handed out.
pub const fn sampling(sampling: meant::Sampling) -> Sampling {
    match sampling {
        meant::Sampling::Random => Sampling::Random,
        meant::Sampling::Sequential => Sampling::Sequential,
        meant::Sampling::Shuffle => Sampling::Shuffle,
    }
}

fn corpus(corpus: Option<meant::Corpus>) -> Corpus {
    match corpus {
        Some(meant::Corpus::Coding) => Corpus::Coding,
        Some(meant::Corpus::Random) => Corpus::Random,
        Some(meant::Corpus::Sonnet) | None => Corpus::Words,
    }
}

fn cache_bust(target: &meant::CacheBust) -> Result<CacheBust, DatasetError> {
    match target {
        meant::CacheBust::FirstTurnPrefix => Ok(CacheBust::FirstTurnPrefix),
        meant::CacheBust::FirstTurnSuffix => Ok(CacheBust::FirstTurnSuffix),
        meant::CacheBust::None => Ok(CacheBust::None),
        meant::CacheBust::SystemPrefix => Ok(CacheBust::SystemPrefix),
        meant::CacheBust::SystemSuffix => Ok(CacheBust::SystemSuffix),
        meant::CacheBust::WarmupIsolationFirstTurn => {
            Err(DatasetError::CacheBust("warmup_isolation_first_turn"))
        }
        meant::CacheBust::WarmupIsolationSystem => Err(DatasetError::CacheBust("warmup_isolation_system")),
    }
}

fn sequence(mix: &meant::LengthMix) -> SequencePair {
    let parts = |length: &meant::Distribution| match &length.shape {
        meant::Shape::Normal { mean, stddev } => (*mean, *stddev),
        meant::Shape::Empirical(_)
        | meant::Shape::Fixed(_)
        | meant::Shape::LogNormal { .. }
        | meant::Shape::Multimodal(_) => (length.mean(), 0.0),
    };
    let ((isl, isl_stddev), (osl, osl_stddev)) = (parts(&mix.isl), parts(&mix.osl));
    SequencePair { isl, isl_stddev, osl, osl_stddev, probability_percent: mix.percent }
}

fn distribution(meant: &meant::Distribution) -> Distribution {
    let law = match &meant.shape {
        meant::Shape::Empirical(points) => Law::Empirical(points.clone()),
        meant::Shape::Fixed(value) => Law::Fixed(*value),
        meant::Shape::LogNormal { mean, median } => Law::Lognormal { mean: *mean, median: *median },
        meant::Shape::Multimodal(peaks) => Law::Multimodal(
            peaks.iter().map(|peak| (distribution(&peak.distribution), peak.weight)).collect(),
        ),
        meant::Shape::Normal { mean, stddev } => Law::Normal { mean: *mean, stddev: *stddev },
    };
    Distribution { law, min: meant.min, max: meant.max }
}
