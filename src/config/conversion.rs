//! The config as written into the config as meant.
//!
//! All defaults outside the phases are here, and the rules between sections. Success and failure both carry
//! what was noticed on the way.

use std::path::PathBuf;

use crate::config::diagnostic::Diagnostic;
use crate::config::keys::Written;
use crate::config::meant::{Artifacts, Config, Endpoint, EndpointKind, Prompts, SyntheticDataset, Url};
use crate::config::normal;
use crate::config::phases;
use crate::config::url;
use crate::config::written;
use crate::time::Nanos;

/// Seconds after which a request is a failure unless written.
const TIMEOUT_S: f64 = 21_600.0;
/// Conversations unless written.
const ENTRIES: u32 = 100;
/// Prompt length unless written.
const ISL_TOKENS: u32 = 550;

/// Converts `file`; absent when a fault stands in the way, which is then among `faults`.
pub fn convert(file: &written::File, faults: &mut Vec<Diagnostic>) -> Option<Config> {
    let benchmark = file.benchmark.value()?;
    // Each part is converted before the first missing one ends the matter, so that all faults are found.
    let endpoint = benchmark.endpoint.value().and_then(|endpoint| convert_endpoint(endpoint, faults));
    let phases = benchmark.phases.present().and_then(|phases| phases::convert(phases, faults));
    let dataset = benchmark.dataset.value().and_then(dataset);
    let dir = match &benchmark.artifacts {
        Written::Present(artifacts) => artifacts.value.dir.value(),
        Written::Absent | Written::Faulty => None,
    };
    let endpoint = endpoint?;
    let input_config = normal::input_config(benchmark, &endpoint, phases.as_deref()?);
    Some(Config {
        model: benchmark.model.value()?.clone(),
        endpoint,
        dataset: dataset?,
        phases: phases?,
        artifacts: Artifacts {
            // An empty text is the working directory, as for AIPerf.
            dir: dir.map(|dir| PathBuf::from(if dir.is_empty() { "." } else { dir.as_str() })),
        },
        random_seed: file.random_seed.value().copied(),
        input_config,
    })
}

fn convert_endpoint(endpoint: &written::Endpoint, faults: &mut Vec<Diagnostic>) -> Option<Endpoint> {
    let kind = endpoint.kind.value().copied().unwrap_or(EndpointKind::Chat);
    let texts = endpoint.urls.value()?;
    let mut urls: Vec<Url> = Vec::with_capacity(texts.len());
    for text in texts {
        match url::parse(&text.value, kind) {
            Ok(url) => urls.push(url),
            Err(error) => {
                let shown = crate::config::source::shown(&text.value);
                let message = format!("the address `{shown}` cannot be used: {error}");
                faults.push(
                    Diagnostic::error(message)
                        .at(text.span.clone(), "not an address phasor can use")
                        .with_help("for example `http://127.0.0.1:8000`"),
                );
            }
        }
    }
    let timeout_s = endpoint.timeout_s.value().copied().unwrap_or(TIMEOUT_S);
    (urls.len() == texts.len()).then(|| Endpoint {
        urls,
        kind,
        streaming: endpoint.streaming.value().copied().unwrap_or(false),
        timeout: (timeout_s > 0.0 && timeout_s.is_finite()).then(|| Nanos::from_secs_f64(timeout_s)),
    })
}

fn dataset(dataset: &written::Dataset) -> Option<SyntheticDataset> {
    if dataset.kind == Written::Faulty {
        return None;
    }
    Some(SyntheticDataset {
        entries: dataset.entries.value().copied().unwrap_or(ENTRIES),
        prompts: Prompts {
            isl: dataset.isl.value().map_or(ISL_TOKENS, |length| length.tokens),
            osl: dataset.osl.value().map(|length| length.tokens),
        },
    })
}
