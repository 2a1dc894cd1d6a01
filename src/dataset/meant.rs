//! The config's types as the specs of datasets and the settings of endpoints: the one place where they meet.

use std::fs;
use std::path::PathBuf;

use crate::config::{Config, Load, meant};
use crate::dataset::{
    CacheBust, CommonSpec, Composer, Conversations, Corpus, Dataset, DatasetError, Distribution, FileFormat,
    FileSource, FileSpec, Law, ModelChoice, RankingsSpec, Rendering, SequencePair, SyntheticSpec, load,
};
use crate::endpoint::{Conversation, Dialect, EndpointSettings, RequestContentType, TemplateSettings};
use crate::tokenizer::Tokenizers;

/// A dataset, and what was changed or left out on the way to it.
#[derive(Clone, Debug)]
pub struct Made {
    /// What is sent.
    pub dataset: Dataset,
    /// The format of the file that it was read from.
    pub format: Option<FileFormat>,
    /// One sentence each.
    pub warnings: Vec<String>,
}

/// Makes the dataset of `config` for the endpoint `settings`: read or composed, then rendered on `threads`
/// threads. Texts are made with the first tokenizer; each prompt is counted with that of its model.
///
/// `progress` is called with the share of the rendering that is done, from 0 to 1, by any of the threads.
///
/// # Errors
/// Whatever keeps the dataset from being made.
pub fn make(
    config: &Config,
    settings: &EndpointSettings,
    tokenizers: &Tokenizers,
    threads: usize,
    progress: &(dyn Fn(f64) + Sync),
) -> Result<Made, DatasetError> {
    let rendering = Rendering { settings, tokenizers: Some(tokenizers), threads, progress };
    let file = match &config.dataset.source {
        meant::DatasetSource::Synthetic(made) => {
            let composer = Composer::new(&synthetic_spec(config, made)?, tokenizers.first())?;
            let dataset = rendering.dataset(Conversations::Composed(&composer))?;
            return Ok(Made { dataset, format: None, warnings: Vec::new() });
        }
        meant::DatasetSource::File(file) => file_spec(config, file)?,
        meant::DatasetSource::Public(public) => public_spec(config, &public.dataset)?,
    };
    let mut loaded = load(&file, Some(tokenizers.first()))?;
    replay(&mut loaded.conversations, &config.dataset.replay);
    let dataset = rendering.dataset(Conversations::Listed(&loaded.conversations))?;
    Ok(Made { dataset, format: Some(loaded.format), warnings: loaded.warnings })
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

/// `path`, `~/` being the home directory.
fn expanded(path: &str) -> PathBuf {
    match (path.strip_prefix("~/"), std::env::var_os("HOME")) {
        (Some(rest), Some(home)) => PathBuf::from(home).join(rest),
        (Some(_) | None, _) => PathBuf::from(path),
    }
}

fn read(path: &str) -> Result<String, DatasetError> {
    fs::read_to_string(expanded(path))
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
            meant::ModelStrategy::Weighted => {
                let weights = config.models.items.iter().map(|model| model.weight.unwrap_or(0.0));
                ModelChoice::Weighted(weights.collect())
            }
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
        range_ratio: prompts.random_range,
        turns: made.turns.as_ref().map_or(Distribution::fixed(1.0), distribution),
        turn_delay_ms: made.turn_delay_ms.as_ref().map_or(Distribution::fixed(0.0), distribution),
        turn_delay_ratio: dataset.replay.turn_delay_ratio.unwrap_or(1.0),
        prefix: made.prefix,
        cache_bust: cache_bust(prompts.cache_bust)?,
        rankings: config.endpoint.kind.ranks().then(|| RankingsSpec {
            passages: distribution(&made.rankings.passages),
            passage_tokens: distribution(&made.rankings.passage_tokens),
            query_tokens: distribution(&made.rankings.query_tokens),
        }),
        ..SyntheticSpec::new(
            dataset.entries.unwrap_or(meant::Dataset::ENTRIES),
            distribution(&prompts.isl),
            &config.model,
        )
    })
}

/// A dataset that stands in a file or in the config.
fn file_spec(config: &Config, file: &meant::FileDataset) -> Result<FileSpec, DatasetError> {
    let named =
        |format: &String| FileFormat::named(format).ok_or_else(|| DatasetError::Format(format.clone()));
    let source = match &file.path {
        Some(path) => FileSource::Path(expanded(path)),
        None => FileSource::Inline(vec![(String::new(), file.records.clone())]),
    };
    Ok(FileSpec {
        common: common(config)?,
        source,
        format: file.format.as_ref().map(named).transpose()?,
        entries: config.dataset.entries,
        block_size: config.dataset.prompts.block_size,
        corpus: corpus(config.dataset.prompts.corpus),
        synthesis: file.synthesis,
        batch_sizes: file.batch_sizes,
        window_ms: window_ms(config),
        takes_system: config.endpoint.kind.has_system_role(),
    })
}

/// A collection that lies where its own tools put it.
fn public_spec(config: &Config, name: &str) -> Result<FileSpec, DatasetError> {
    /// Where AIPerf keeps the one collection that needs no account, below the working directory.
    const SHAREGPT: &str = ".cache/aiperf/datasets/ShareGPT_V3_unfiltered_cleaned_split.json";
    let path = PathBuf::from(SHAREGPT);
    if name != "sharegpt" || !path.is_file() {
        return Err(DatasetError::Public(name.to_owned()));
    }
    Ok(FileSpec {
        common: common(config)?,
        format: Some(FileFormat::ShareGpt),
        entries: config.dataset.entries,
        takes_system: config.endpoint.kind.has_system_role(),
        ..FileSpec::new(path, &config.model)
    })
}

/// Scales, caps or takes out the recorded delays.
fn replay(conversations: &mut [Conversation], replay: &meant::Replay) {
    let ratio = replay.turn_delay_ratio.unwrap_or(1.0);
    let cap_ms = replay.inter_turn_delay_cap_s.map_or(f64::INFINITY, |seconds| seconds * 1_000.0);
    for turn in conversations.iter_mut().flat_map(|conversation| &mut conversation.turns) {
        turn.delay_ms =
            turn.delay_ms.filter(|_| !replay.ignore_trace_delays).map(|delay| (delay * ratio).min(cap_ms));
    }
}

/// What no phase will send, when all phases replay the same part of a trace.
fn window_ms(config: &Config) -> (Option<f64>, Option<f64>) {
    let mut windows = config.phases.iter().map(|phase| match phase.load {
        Load::FixedSchedule { start_offset_ms, end_offset_ms, .. } => (start_offset_ms, end_offset_ms),
        Load::Concurrency { .. }
        | Load::Constant { .. }
        | Load::Gamma { .. }
        | Load::Poisson { .. }
        | Load::UserCentric { .. } => (None, None),
    });
    let first = windows.next().unwrap_or_default();
    let same = windows.all(|window| window == first);
    let (start, end) = if same { first } else { (None, None) };
    (start.map(|start| start as f64), end.map(|end| end as f64))
}

fn corpus(corpus: Option<meant::Corpus>) -> Corpus {
    match corpus {
        Some(meant::Corpus::Coding) => Corpus::Coding,
        Some(meant::Corpus::Random) => Corpus::Random,
        Some(meant::Corpus::Sonnet) | None => Corpus::Words,
    }
}

fn cache_bust(target: meant::CacheBust) -> Result<CacheBust, DatasetError> {
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
