//! What a config may say and phasor cannot run yet. Each line here is a feature to come: who builds it takes
//! its line out.

use crate::config::diagnostic::{Diagnostic, Diagnostics};
use crate::config::meant::{
    CacheBust, Config, ContentType, Control, Dataset, DatasetSource, EndpointKind, GpuCollector, GpuMode,
    Load, MetricsFormat, PhaseKind, SlaRule, SweepKind,
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
        let lora = self.config.models.items.iter().any(|model| model.lora.is_some());
        self.refuse_if(lora, "models", "models.items.lora");
    }

    fn endpoint(&mut self) {
        let endpoint = &self.config.endpoint;
        let kind = endpoint.kind;
        let name = format!("endpoint.type: {}", kind.name());
        self.refuse_if(kind.is_form(), "endpoint.type", &name);
        let form = endpoint.content_type == Some(ContentType::Form);
        self.refuse_if(form, "endpoint.request_content_type", "request_content_type: multipart/form-data");
        let of_body = [
            (endpoint.uuid_and_strip, "endpoint.uuid_and_strip"),
            (endpoint.download_video_content, "endpoint.download_video_content"),
            (endpoint.wait_for_model.is_some(), "endpoint.wait_for_model_timeout"),
            (endpoint.reset_kv_cache.is_some(), "endpoint.reset_kv_cache"),
            (endpoint.server_profiler.is_some(), "endpoint.server_profiler"),
        ];
        for (unsupported, path) in of_body {
            self.refuse_if(unsupported, path, path);
        }
    }

    fn dataset(&mut self) {
        let Dataset { prompts, source, replay, .. } = &self.config.dataset;
        let at = |name: &str| format!("datasets.0.{name}");
        let without_tokens = !self.config.endpoint.kind.produces_tokens();
        self.warn_if(
            without_tokens && prompts.osl.is_some(),
            &at("prompts.osl"),
            "prompts.osl",
            "the endpoint's replies have no tokens, and no limit is sent",
        );
        let stores =
            self.config.endpoint.extra.get("store").is_some_and(|store| store.as_bool() != Some(false));
        self.refuse_if(
            self.config.endpoint.kind == EndpointKind::Responses && stores,
            "endpoint.extra",
            "endpoint.extra.store",
        );
        let warmups_only = matches!(
            prompts.cache_bust,
            CacheBust::WarmupIsolationFirstTurn | CacheBust::WarmupIsolationSystem
        );
        self.refuse_if(warmups_only, &at("cache_bust"), "cache_bust.target: warmup_isolation");
        let think_time = replay.use_think_time_only;
        self.refuse_if(think_time, &at("use_think_time_only"), "dataset.use_think_time_only");
        for name in &replay.others {
            self.refuse_if(true, &at(name), &format!("dataset.{name}"));
        }
        if let DatasetSource::Synthetic(made) = source {
            for name in &made.media {
                self.refuse_if(true, &at(name), &format!("dataset.{name}"));
            }
        }
    }

    fn phase(&mut self, index: usize) {
        let Some(phase) = self.config.phases.get(index) else { return };
        let at = |name: &str| format!("phases.{index}.{name}");
        let what = |rest: &str| format!("phases.{}.{rest}", phase.name);
        let fields = [(phase.timing_mode.is_some_and(|mode| mode != phase.natural_timing()), "timing_mode")];
        for (unsupported, name) in fields {
            self.refuse_if(unsupported, &at(name), &what(name));
        }
        if phase.adaptive.is_some() {
            self.control(index);
            self.limits(index);
        }
        let cancels = phase.kind == PhaseKind::Warmup && phase.cancellation.is_some();
        self.warn_if(cancels, &at("cancellation"), &what("cancellation"), "warmups cancel nothing");
    }

    /// A control variable that the phase does not have.
    fn control(&mut self, index: usize) {
        let Some(phase) = self.config.phases.get(index) else { return };
        let Some(scale) = &phase.adaptive else { return };
        let (has, which) = match scale.control {
            Control::Concurrency => (true, ""),
            Control::PrefillConcurrency => {
                let capped = phase.load.concurrency().is_some();
                (capped, "a phase with `concurrency`")
            }
            Control::RequestRate => {
                let paced =
                    matches!(phase.load, Load::Constant { .. } | Load::Gamma { .. } | Load::Poisson { .. });
                (paced, "phases of type `poisson`, `gamma` and `constant`")
            }
            Control::Users => {
                (matches!(phase.load, Load::UserCentric { .. }), "phases of type `user_centric`")
            }
        };
        if has {
            return;
        }
        let name = scale.control.name();
        let message = format!(
            "`phases.{}.adaptive_scale`: the phase has no `{name}` that could be changed",
            phase.name
        );
        let place = format!("benchmark.phases.{index}.adaptive_scale");
        let fault = Diagnostic::error(message).with_help(format!("`{name}` is for {which}"));
        let fault = self.config.places.at(fault, &place, "nothing to change");
        self.diagnostics.push(fault);
    }

    /// Limits of an adaptive phase on what its windows do not have.
    fn limits(&mut self, index: usize) {
        let Some(phase) = self.config.phases.get(index) else { return };
        for SlaRule { metric, stat, .. } in &phase.sla {
            let (name, known) = if SlaRule::METRICS.contains(&metric.as_str()) {
                (stat, SlaRule::statistics(metric))
            } else {
                (metric, SlaRule::METRICS)
            };
            if known.contains(&name.as_str()) {
                continue;
            }
            let what = if name == stat { "statistic" } else { "metric" };
            let message = format!("`phases.{}.sla`: `{name}` is no {what} of an adaptive phase", phase.name);
            let help = format!("write one of {}", known.join(", "));
            let within = format!("benchmark.phases.{index}.adaptive_scale");
            let place = [format!("{within}.sla"), format!("benchmark.phases.{index}.sla"), within];
            let place = place.iter().find(|place| self.config.places.written(place));
            let fault = Diagnostic::error(message).with_help(help);
            let fault = match place {
                Some(place) => self.config.places.at(fault, place, "no such limit"),
                None => fault,
            };
            self.diagnostics.push(fault);
        }
    }

    fn rest(&mut self) {
        let config = self.config;
        let artifacts = &config.artifacts;
        let files = [
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
            config.tokenizer.apply_chat_template,
            "tokenizer.apply_chat_template",
            "tokenizer.apply_chat_template",
            "prompts are counted without the template",
        );
        self.warn_if(
            config.tokenizer.trust_remote_code,
            "tokenizer.trust_remote_code",
            "tokenizer.trust_remote_code",
            "no code of a repository is run",
        );
        self.refuse_if(artifacts.plot_required, "artifacts.plot_required", "artifacts.plot_required");
        self.refuse_if(config.scenario.is_some(), "scenario", "scenario");
        self.refuse_if(
            config.runtime.cluster,
            "runtime.service_run_type",
            "runtime.service_run_type: kubernetes",
        );
        let drawn = config.sweep.as_ref().map(|sweep| &sweep.kind).filter(|kind| match kind {
            SweepKind::LatinHypercube(_) | SweepKind::Sobol(_) => true,
            SweepKind::AdaptiveSearch(_)
            | SweepKind::Grid(_)
            | SweepKind::Scenarios(_)
            | SweepKind::Zip(_) => false,
        });
        if let Some(kind) = drawn {
            let name = kind.name();
            let fault = Diagnostic::error(format!("`sweep.type: {name}` is valid, phasor cannot run it yet"));
            let fault = config.places.at(fault, "sweep.type", "cannot be run yet");
            self.diagnostics.push(fault);
        }
    }
}
