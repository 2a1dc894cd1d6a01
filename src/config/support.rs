//! What a config may say and phasor cannot run yet. Each line here is a feature to come: who builds it takes
//! its line out.

use crate::config::diagnostic::{Diagnostic, Diagnostics};
use crate::config::meant::{
    CacheBust, Config, Dataset, DatasetSource, EndpointKind, GpuCollector, GpuMode, MetricsFormat,
    ModelStrategy, PhaseKind, Sampling,
};

/// The faults of a valid config that keep it from being run; they are for the start of a run, not for
/// reading.
pub fn unsupported(config: &Config) -> Diagnostics {
    let mut found = Found { config, diagnostics: config.places.diagnostics() };
    found.models();
    found.endpoint();
    found.dataset();
    for index in 0..config.phases.len() {
        found.phase(index);
    }
    found.rest();
    found.diagnostics
}

struct Found<'c> {
    config: &'c Config,
    diagnostics: Diagnostics,
}

impl Found<'_> {
    fn refuse_if(&mut self, unsupported: bool, path: &str, what: &str) {
        if unsupported {
            let message = format!("`{what}` is valid, phasor cannot run it yet");
            let place = format!("benchmark.{path}");
            let fault = self.config.places.at(Diagnostic::error(message), &place, "cannot be run yet");
            self.diagnostics.push(fault);
        }
    }

    fn warn_if(&mut self, unused: bool, path: &str, what: &str, instead: &str) {
        if unused {
            let message = format!("`{what}` is valid, phasor does not do it yet: {instead}");
            let place = format!("benchmark.{path}");
            let doubt = self.config.places.at(Diagnostic::warning(message), &place, "not done yet");
            self.diagnostics.push(doubt);
        }
    }

    fn models(&mut self) {
        let models = &self.config.models;
        let several = models.items.len() > 1;
        let weighted = models.strategy == ModelStrategy::Weighted && several;
        let lora = models.items.iter().any(|model| model.lora.is_some());
        self.refuse_if(several, "models", "several models");
        self.refuse_if(weighted, "models.strategy", "models.strategy: weighted");
        self.refuse_if(lora, "models", "models.items.lora");
    }

    fn endpoint(&mut self) {
        let endpoint = &self.config.endpoint;
        let kind = endpoint.kind;
        let user_info = endpoint.urls.iter().any(|url| url.user_info.is_some());
        self.refuse_if(
            kind != EndpointKind::Chat,
            "endpoint.type",
            &format!("endpoint.type: {}", kind.name()),
        );
        self.refuse_if(user_info, "endpoint.urls", "an address with a user name");
        self.refuse_if(endpoint.api_key.is_some(), "endpoint.api_key", "endpoint.api_key");
        self.refuse_if(!endpoint.headers.is_empty(), "endpoint.headers", "endpoint.headers");
        self.refuse_if(!endpoint.extra.is_empty(), "endpoint.extra", "endpoint.extra");
        let of_body = [
            (endpoint.use_legacy_max_tokens, "endpoint.use_legacy_max_tokens"),
            (endpoint.use_server_token_count, "endpoint.use_server_token_count"),
            (endpoint.per_chunk_usage, "endpoint.per_chunk_usage"),
            (endpoint.uuid_and_strip, "endpoint.uuid_and_strip"),
            (endpoint.download_video_content, "endpoint.download_video_content"),
            (endpoint.session_header.is_some(), "endpoint.session_header"),
            (endpoint.wait_for_model.is_some(), "endpoint.wait_for_model_timeout"),
            (endpoint.reset_kv_cache.is_some(), "endpoint.reset_kv_cache"),
            (endpoint.server_profiler.is_some(), "endpoint.server_profiler"),
        ];
        for (unsupported, path) in of_body {
            self.refuse_if(unsupported, path, path);
        }
    }

    fn dataset(&mut self) {
        let Dataset { prompts, source, sampling, system_prompt, replay, random_seed, .. } =
            &self.config.dataset;
        let at = |name: &str| format!("datasets.0.{name}");
        let kind = format!("dataset.type: {}", source.name());
        let made = matches!(source, DatasetSource::Synthetic(_));
        self.refuse_if(!made, &at("type"), &kind);
        let order = format!("dataset.sampling: {}", sampling.name());
        self.refuse_if(*sampling == Sampling::Shuffle, &at("sampling"), &order);
        self.refuse_if(system_prompt.is_some(), &at("system_prompt"), "dataset.system_prompt");
        let own_seed = random_seed.is_some() && *random_seed != self.config.random_seed;
        self.refuse_if(own_seed, &at("random_seed"), "dataset.random_seed");
        self.refuse_if(prompts.isl.fixed_tokens().is_none(), &at("prompts.isl"), "a distribution of isl");
        let osl_spreads = prompts.osl.as_ref().is_some_and(|osl| osl.fixed_tokens().is_none());
        self.refuse_if(osl_spreads, &at("prompts.osl"), "a distribution of osl");
        self.refuse_if(prompts.block_size.is_some(), &at("prompts.block_size"), "prompts.block_size");
        self.refuse_if(prompts.batch_size > 1, &at("prompts.batch_size"), "prompts.batch_size above 1");
        self.refuse_if(
            prompts.cache_bust != CacheBust::None,
            &at("prompts.cache_bust"),
            "prompts.cache_bust",
        );
        self.refuse_if(prompts.corpus.is_some(), &at("prompts.corpus"), "prompts.corpus");
        self.refuse_if(
            !prompts.mix.is_empty(),
            &at("prompts.sequence_distribution"),
            "prompts.sequence_distribution",
        );
        self.refuse_if(
            prompts.random_range.is_some(),
            &at("prompts.random_range_ratio"),
            "prompts.random_range_ratio",
        );
        if made {
            self.refuse_if(
                replay.turn_delay_ratio.is_some(),
                &at("turn_delay_ratio"),
                "dataset.turn_delay_ratio",
            );
            self.refuse_if(!replay.others.is_empty(), &at("synthesis"), &replay.others.join(", "));
        }
        if let DatasetSource::Synthetic(made) = source {
            let turns = made.turns.as_ref().is_some_and(|turns| turns.fixed_tokens() != Some(1));
            self.refuse_if(made.prefix.is_some(), &at("prefix_prompts"), "dataset.prefix_prompts");
            self.refuse_if(turns, &at("turns"), "dataset.turns");
            self.refuse_if(made.turn_delay_ms.is_some(), &at("turn_delay"), "dataset.turn_delay");
            for name in &made.media {
                self.refuse_if(true, &at(name), &format!("dataset.{name}"));
            }
        }
    }

    fn phase(&mut self, index: usize) {
        let Some(phase) = self.config.phases.get(index) else { return };
        let at = |name: &str| format!("phases.{index}.{name}");
        let what = |rest: &str| format!("phases.{}.{rest}", phase.name);
        let fields = [
            (phase.adaptive.is_some(), "adaptive_scale"),
            (phase.timing_mode.is_some_and(|mode| mode != phase.natural_timing()), "timing_mode"),
        ];
        for (unsupported, name) in fields {
            self.refuse_if(unsupported, &at(name), &what(name));
        }
        let cancels = phase.kind == PhaseKind::Warmup && phase.cancellation.is_some();
        self.warn_if(cancels, &at("cancellation"), &what("cancellation"), "warmups cancel nothing");
    }

    fn rest(&mut self) {
        let config = self.config;
        let artifacts = &config.artifacts;
        let files = [
            (artifacts.raw, "artifacts.raw", "no raw records are written"),
            (artifacts.export_outputs_json, "artifacts.export_outputs_json", "no `outputs.json` is written"),
            (artifacts.auto_plot, "artifacts.auto_plot", "no plots are made"),
            (!artifacts.user_files.is_empty(), "artifacts.user_files", "they are not written"),
            (config.network_latency.enabled, "network_latency", "it is not measured"),
            (config.runtime.api_port.is_some(), "runtime.api_port", "no interface is served"),
        ];
        for (unused, path, instead) in files {
            self.warn_if(unused, path, path, instead);
        }
        let gpu = &config.gpu_telemetry;
        self.refuse_if(
            gpu.enabled && gpu.collector == GpuCollector::Amdsmi,
            "gpu_telemetry.collector",
            "gpu_telemetry.collector: amdsmi",
        );
        self.warn_if(
            gpu.enabled && gpu.mode == GpuMode::RealtimeDashboard,
            "gpu_telemetry.mode",
            "gpu_telemetry.mode: realtime_dashboard",
            "GPUs are shown at the end",
        );
        let server = &config.server_metrics;
        self.warn_if(
            server.enabled && server.formats.contains(&MetricsFormat::Parquet),
            "server_metrics.formats",
            "server_metrics.formats: parquet",
            "the other formats are written",
        );
        self.warn_if(
            server.enabled && server.discovery.as_deref() == Some("kubernetes"),
            "server_metrics.discovery",
            "server_metrics.discovery: kubernetes",
            "give the addresses in `server_metrics.urls`",
        );
        self.warn_if(
            config.tokenizer.name.is_some() || config.tokenizer.apply_chat_template,
            "tokenizer",
            "tokenizer",
            "token counts come from the server's usage or, where it sends none, from the chunks of the reply",
        );
        self.refuse_if(artifacts.plot_required, "artifacts.plot_required", "artifacts.plot_required");
        self.refuse_if(config.scenario.is_some(), "scenario", "scenario");
        self.refuse_if(
            config.runtime.cluster,
            "runtime.service_run_type",
            "runtime.service_run_type: kubernetes",
        );
        for (unsupported, path) in
            [(config.sweep.is_some(), "sweep"), (config.multi_run.runs > 1, "multi_run")]
        {
            if unsupported {
                let fault = Diagnostic::error(format!("`{path}` is valid, phasor cannot run it yet"));
                let fault = config.places.at(fault, path, "cannot be run yet");
                self.diagnostics.push(fault);
            }
        }
    }
}
