//! What is sent, how it is spoken and with what it is counted: everything about a run that is made before it.
//!
//! It starts no run and writes no file. Nothing is fetched: a tokenizer that is not on this machine is an
//! error when it was asked for, and a warning when it was not.

use crate::artifact::names;
use crate::artifact::outputs::{OUTPUTS, Outputs};
use crate::artifact::raw::{RawFile, RawHeader};
use crate::artifact::records::RecordLines;
use crate::artifact::sink::{RecordFile, Sink};
use crate::config::{Config, Model};
use crate::dataset::{Dataset, DatasetError, endpoint_settings, make};
use crate::endpoint::{ContextMode, EndpointError, EndpointSettings, HeaderValue};
use crate::measure::Judgement;
use crate::run::counting::BATCH_TEXT_BYTES;
use crate::shard::peer::Peer;
use crate::time::Clock;
use crate::tokenizer::{HubCache, Tokenizer, TokenizerError, Tokenizers};
use crate::wire::{KeepTexts, Protocol};
use std::net::SocketAddr;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::available_parallelism;

/// What a run sends.
#[derive(Debug)]
pub struct Traffic {
    /// The rendered requests.
    pub dataset: Arc<Dataset>,
    /// `inputs.json` is written: it would say something that no file says yet.
    pub lists_inputs: bool,
    /// The endpoint they are for.
    pub settings: EndpointSettings,
    /// What prompts and replies are counted with, by model; words when there is no tokenizer.
    pub tokenizers: Tokenizers,
    /// What the user should know, one sentence each.
    pub warnings: Vec<String>,
}

/// Why there is nothing to send.
#[derive(Debug, thiserror::Error)]
pub enum TrafficError {
    /// The dataset cannot be made.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// Requests cannot be made, or replies not read.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// The tokenizer that was asked for is not there.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
}

impl Traffic {
    /// Makes everything that `config` sends, on all cores. `variable` looks up the environment, `progress` is
    /// called with the share of the bodies that is rendered, from 0 to 1, by any thread.
    ///
    /// # Errors
    /// A tokenizer, dataset or endpoint that cannot be; the message names the key or the line.
    pub fn prepare(
        config: &Config,
        variable: impl Fn(&str) -> Option<String>,
        progress: &(dyn Fn(f64) + Sync),
    ) -> Result<Self, TrafficError> {
        let mut warnings = Vec::new();
        let tokenizers = choose_all(config, &HubCache::from_environment(), &mut warnings)?;
        let mut settings = endpoint_settings(config)?;
        if let Some(affinity) = variable("AIPERF_HTTP_X_SESSION_AFFINITY_FROM_CORRELATION_ID") {
            settings.session_affinity = !is_off(&affinity);
        }
        if let Some(parts) = variable("AIPERF_ENDPOINT_FORCE_CONTENT_PARTS") {
            settings.force_content_parts = !parts.is_empty() && !is_off(&parts);
        }
        Self::of(config, settings, tokenizers, warnings, progress)
    }

    /// As [`Traffic::prepare`] with nothing but the config: tokens are words.
    ///
    /// # Errors
    /// As [`Traffic::prepare`].
    pub fn in_words(config: &Config) -> Result<Self, TrafficError> {
        Self::of(config, endpoint_settings(config)?, Tokenizer::Words.into(), Vec::new(), &|_| {})
    }

    fn of(
        config: &Config,
        settings: EndpointSettings,
        tokenizers: Tokenizers,
        mut warnings: Vec<String>,
        progress: &(dyn Fn(f64) + Sync),
    ) -> Result<Self, TrafficError> {
        // What no request could carry is known before anything is rendered.
        Protocol::new(&config.endpoint.urls, &settings, KeepTexts::No)?;
        let threads = available_parallelism().map_or(1, NonZero::get);
        let made = make(config, &settings, &tokenizers, threads, progress)?;
        warnings.extend(made.warnings);
        let lists_inputs = made.format.is_none_or(|format| !format.is_trace() && !format.is_verbatim());
        Ok(Self { dataset: Arc::new(made.dataset), lists_inputs, settings, tokenizers, warnings })
    }

    /// How the endpoint at the URLs of `config` is spoken.
    ///
    /// # Errors
    /// A header that HTTP does not allow.
    pub fn protocol(&self, config: &Config) -> Result<Protocol, EndpointError> {
        let keeps = if self.carries(ContextMode::DeltasWithoutResponses) {
            KeepTexts::SentBack
        } else if self.counts_replies() || config.artifacts.export_outputs_json {
            KeepTexts::Yes
        } else {
            KeepTexts::No
        };
        let protocol = Protocol::new(&config.endpoint.urls, &self.settings, keeps)?;
        let protocol = if self.counts_replies() { protocol.counted_by_client() } else { protocol };
        Ok(if config.artifacts.raw { protocol.keeping_raw() } else { protocol })
    }

    /// Bytes of texts that go along with a batch of records; 0: nobody needs any.
    pub fn batch_text_bytes(&self, config: &Config) -> usize {
        let artifacts = &config.artifacts;
        let needed = self.counts() || artifacts.raw || artifacts.export_outputs_json;
        if needed { BATCH_TEXT_BYTES } else { 0 }
    }

    /// The files of single requests that `config` asks for, in `directory`, with the name of the one that
    /// could not be made.
    ///
    /// # Errors
    /// A file cannot be made.
    pub fn sinks(
        &self,
        config: &Config,
        directory: &Path,
        clock: Clock,
        judgement: &Arc<Judgement>,
        peers: &[Peer],
    ) -> Result<Vec<Box<dyn Sink>>, (PathBuf, std::io::Error)> {
        let mut sinks: Vec<Box<dyn Sink>> = Vec::new();
        let artifacts = &config.artifacts;
        if artifacts.records {
            let path = directory.join(names::records(artifacts));
            let lines = RecordLines::new(config, &self.dataset, clock, Arc::clone(judgement))
                .towards(only_address(peers))
                .sending(self.raw_headers(config));
            let file = RecordFile::create(path.clone(), lines).map_err(|error| (path, error))?;
            sinks.push(Box::new(file));
        }
        if artifacts.export_outputs_json {
            let file = Outputs::create(directory, config, &self.dataset, clock)
                .map_err(|error| (directory.join(OUTPUTS), error))?;
            sinks.push(Box::new(file));
        }
        if artifacts.raw {
            let path = directory.join(names::raw(artifacts));
            let file = RawFile::create(path.clone(), self.raw_headers(config), config, &self.dataset, clock)
                .map_err(|error| (path, error))?;
            sinks.push(Box::new(file));
        }
        Ok(sinks)
    }

    fn raw_headers(&self, config: &Config) -> Vec<RawHeader> {
        // They have been made before, or there would be no traffic.
        let headers = self.settings.request_headers(&[]).unwrap_or_default();
        let raw = headers.into_iter().map(|(name, value)| match value {
            HeaderValue::Fixed(value) => RawHeader::Fixed(name, value),
            HeaderValue::RequestId => RawHeader::RequestId(name),
            HeaderValue::SessionId => RawHeader::SessionId(name),
        });
        // With several addresses a record does not tell whose user it was sent for.
        let named = config.endpoint.urls.iter().all(|url| url.user_info.is_some());
        let basic = named.then(|| RawHeader::Fixed("Authorization".to_owned(), "Basic".to_owned()));
        raw.chain(basic).collect()
    }

    /// Whether tokens are counted while the run goes on: those of replies, and those of prompts with a
    /// history.
    pub fn counts(&self) -> bool {
        let has_history = self.carries(ContextMode::DeltasWithoutResponses)
            || self.carries(ContextMode::DeltasWithResponses);
        self.counts_replies() || (has_history && !self.settings.server_token_count)
    }

    fn counts_replies(&self) -> bool {
        let has_tokenizer = !matches!(self.tokenizers.first(), Tokenizer::Words);
        has_tokenizer && self.settings.dialect.can.produce_tokens && !self.settings.server_token_count
    }

    /// Whether some later turn carries the ones before it in this way.
    fn carries(&self, mode: ContextMode) -> bool {
        let details = self.dataset.details();
        self.dataset.sessions().iter().any(|session| {
            let later = details.get(session.rows.clone()).and_then(|turns| turns.get(1..));
            later.is_some_and(|later| {
                later.iter().any(|turn| turn.context_mode == mode && turn.own_items.is_some())
            })
        })
    }
}

/// The address that all requests go to; absent with several, which a record does not tell apart, and with a
/// unix socket, which has none.
fn only_address(peers: &[Peer]) -> Option<SocketAddr> {
    match peers {
        [only] => only.internet(),
        [] | [_, ..] => None,
    }
}

/// What a switch of the environment says when it says no.
fn is_off(value: &str) -> bool {
    matches!(value.trim().to_ascii_lowercase().as_str(), "0" | "f" | "false" | "n" | "no" | "off")
}

/// The tokenizers of all models. Without one for the first none is counted with any; another model without one
/// is counted with the first one's.
fn choose_all(
    config: &Config,
    cache: &HubCache,
    warnings: &mut Vec<String>,
) -> Result<Tokenizers, TokenizerError> {
    let first = choose(config, cache, warnings)?;
    let name_of_first = config.models.items.first().map_or("", |model| model.name.as_str());
    let mut all = Tokenizers::of_first(name_of_first, first.clone());
    let one_for_all = config.tokenizer.name.is_some() || !config.endpoint.kind.counts_tokens();
    // Without a tokenizer at all it has been said already.
    let is_worth_a_word = |model: &&Model| !matches!(first, Tokenizer::Words) || model.tokenizer.is_some();
    let others = config.models.items.iter().skip(1).filter(|_| !one_for_all).filter(is_worth_a_word);
    for model in others {
        let revision = &config.tokenizer.revision;
        let own = match (&first, &model.tokenizer, cache.snapshot(&model.name, revision)) {
            (Tokenizer::Words, _, _) | (_, None, None) => None,
            (_, Some(name), _) => Some(Tokenizer::load_from(name, revision, cache)?),
            (_, None, Some(directory)) => Some(Tokenizer::from_path(&directory)?),
        };
        match own {
            Some(own) if !matches!(own, Tokenizer::Words) => all.add(&model.name, own),
            Some(_) | None => warnings.push(format!(
                "no tokenizer of its own counts `{}`: it is counted with that of `{name_of_first}` ({}). Give it one \
                 with `models.items.tokenizer`, or all of them one with `--tokenizer`",
                model.name,
                first.name()
            )),
        }
    }
    Ok(all)
}

/// The tokenizer that was asked for, else that of the model if it is on this machine, else words.
fn choose(
    config: &Config,
    cache: &HubCache,
    warnings: &mut Vec<String>,
) -> Result<Tokenizer, TokenizerError> {
    if !config.endpoint.kind.counts_tokens() {
        return Ok(Tokenizer::Words);
    }
    let of_model = config.models.items.first().and_then(|model| model.tokenizer.as_ref());
    let revision = &config.tokenizer.revision;
    if let Some(name) = config.tokenizer.name.as_ref().or(of_model) {
        return Tokenizer::load_from(name, revision, cache);
    }
    if let Some(directory) = cache.snapshot(&config.model, revision) {
        return Tokenizer::from_path(&directory);
    }
    warnings.push(format!(
        "no tokenizer of `{}` is in the hub cache `{}`: prompts are counted in words, replies by the server's usage \
         or by messages. Give `--tokenizer` a directory with a tokenizer.json, a name from the cache, or `builtin` \
         (o200k_base); `--tokenizer none` does without one and says nothing",
        config.model,
        cache.directory().display()
    ));
    Ok(Tokenizer::Words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;

    fn config(rest: &str) -> Config {
        let text = format!(
            "benchmark:\n  model: org/model\n  endpoint: {{url: h}}\n  dataset: {{entries: 1, isl: 1}}\n  \
             phases: {{type: concurrency, requests: 1}}\n{rest}"
        );
        config::parse("test.yaml", &text).map_or_else(|faults| panic!("{faults}"), |loaded| loaded.config)
    }

    fn chosen(rest: &str, cache: &HubCache) -> (Result<String, String>, usize) {
        let mut warnings = Vec::new();
        let tokenizer = choose(&config(rest), cache, &mut warnings);
        (tokenizer.map(|found| found.name().to_owned()).map_err(|error| error.to_string()), warnings.len())
    }

    #[test]
    fn only_a_tokenizer_that_nobody_asked_for_may_be_missing() {
        let nothing = HubCache::new("/nonexistent".into());
        assert_eq!(chosen("", &nothing), (Ok("words".to_owned()), 1));
        assert_eq!(chosen("  tokenizer: {name: none}\n", &nothing), (Ok("words".to_owned()), 0));
        assert_eq!(chosen("  tokenizer: {name: p50k_base}\n", &nothing), (Ok("p50k_base".to_owned()), 0));
        let (missing, warnings) = chosen("  tokenizer: {name: org/other}\n", &nothing);
        assert!(missing.is_err_and(|message| message.contains("org/other") && message.contains("builtin")));
        assert_eq!(warnings, 0);
        let silent = "  tokenizer: {}\n";
        assert_eq!(chosen(silent, &nothing).1, 1);
    }

    #[test]
    fn each_model_is_counted_with_its_own_tokenizer() {
        let text = "benchmark:\n  models: {items: [{name: a, tokenizer: {name: o200k_base}}, {name: b, tokenizer: {name: \
                    p50k_base}}, {name: c}]}\n  endpoint: {url: h}\n  dataset: {entries: 6, isl: 30}\n  phases: {type: \
                    concurrency, requests: 1}\n";
        let loaded = config::parse("test.yaml", text).unwrap_or_else(|faults| panic!("{faults}"));
        let traffic = Traffic::prepare(&loaded.config, |_| None, &|_| {}).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(traffic.dataset.isl_rule(), "o200k_base, p50k_base");
        assert_eq!(traffic.warnings.len(), 1, "{:?}", traffic.warnings);
        let numbers: Vec<u16> = traffic.dataset.details().iter().map(|details| details.tokenizer).collect();
        assert_eq!(numbers, [0, 1, 0, 0, 1, 0]);
        for (row, details) in traffic.dataset.rows().iter().zip(traffic.dataset.details()) {
            let body: serde_json::Value =
                serde_json::from_slice(traffic.dataset.body(row)).unwrap_or_default();
            let text = body["messages"][0]["content"].as_str().unwrap_or_default();
            let count = traffic.tokenizers.numbered(details.tokenizer).count(text);
            assert_eq!(row.isl_tokens.map(|tokens| tokens as usize), Some(count), "{text}");
        }
    }

    #[test]
    fn switches_of_the_environment_act() {
        let prepared = |name: &'static str, value: &'static str| {
            let variable = move |asked: &str| (asked == name).then(|| value.to_owned());
            Traffic::prepare(&config("  tokenizer: {name: none}\n"), variable, &|_| {})
                .map(|traffic| (traffic.settings.session_affinity, traffic.settings.force_content_parts))
                .map_err(|error| error.to_string())
        };
        assert_eq!(prepared("NOTHING", "no"), Ok((true, false)));
        assert_eq!(prepared("AIPERF_HTTP_X_SESSION_AFFINITY_FROM_CORRELATION_ID", "no"), Ok((false, false)));
        assert_eq!(prepared("AIPERF_ENDPOINT_FORCE_CONTENT_PARTS", "1"), Ok((true, true)));
    }
}
