//! What the server counts, one tally per thread, and the Prometheus text of all of them under vLLM's names.

use crate::telemetry::gpu::{Device, Nvidia, dcgm};
use crate::time::Nanos;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

/// Upper bounds of the buckets of the time to the first token, in seconds.
const TTFT_BOUNDS_S: [f64; 18] =
    [0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0];

/// Upper bounds of the buckets of the whole latency, in seconds.
const E2E_BOUNDS_S: [f64; 16] =
    [0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0];

/// A number that one thread changes and others read.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    pub(super) fn add(&self, more: u64) {
        // One writer, so that no locked instruction is needed.
        self.0.store(self.read().wrapping_add(more), Ordering::Relaxed);
    }

    pub(super) fn subtract(&self, less: u64) {
        self.0.store(self.read().wrapping_sub(less), Ordering::Relaxed);
    }

    pub(super) fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counts per bucket, and the sum.
#[derive(Debug)]
pub(super) struct Buckets<const N: usize> {
    counts: [Count; N],
    beyond: Count,
    sum_ns: Count,
}

impl<const N: usize> Default for Buckets<N> {
    fn default() -> Self {
        Self {
            counts: std::array::from_fn(|_| Count::default()),
            beyond: Count::default(),
            sum_ns: Count::default(),
        }
    }
}

impl<const N: usize> Buckets<N> {
    fn record(&self, bounds_s: &[f64; N], span: Nanos) {
        let seconds = span.as_secs_f64();
        let bucket = bounds_s.iter().position(|bound| seconds <= *bound);
        bucket.and_then(|bucket| self.counts.get(bucket)).unwrap_or(&self.beyond).add(1);
        self.sum_ns.add(span.0);
    }
}

/// What one thread counts.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Requests that were answered, or failed on purpose.
    pub(super) requests: Count,
    /// Requests whose client went away.
    pub(super) cancelled: Count,
    /// Requests being answered.
    pub(super) running: Count,
    /// Requests that are never answered (hanging on purpose) and not gone.
    pub(super) waiting: Count,
    pub(super) prompt_tokens: Count,
    pub(super) generation_tokens: Count,
    /// Whole answers whose length the request named.
    pub(super) finished_length: Count,
    /// Other whole answers.
    pub(super) finished_stop: Count,
    ttft: Buckets<18>,
    e2e: Buckets<16>,
}

impl Tally {
    /// Notes a first token.
    pub(super) fn record_ttft(&self, span: Nanos) {
        self.ttft.record(&TTFT_BOUNDS_S, span);
    }

    /// Notes a whole answer.
    pub(super) fn record_e2e(&self, span: Nanos) {
        self.e2e.record(&E2E_BOUNDS_S, span);
    }
}

/// The Prometheus text of all threads together.
pub(super) fn render(tallies: &[Tally]) -> String {
    let sum = |count: fn(&Tally) -> &Count| tallies.iter().map(|tally| count(tally).read()).sum::<u64>();
    // Two gauges of threads that are read one after the other may be out of step, never below zero.
    let mut text = String::with_capacity(8_192);
    let mut single = |name: &str, kind: &str, help: &str, label: &str, value: u64| {
        header(&mut text, name, kind, help);
        let _ = writeln!(text, "{name}{{model_name=\"mock-model\"{label}}} {value}");
    };
    single("vllm:num_requests_running", "gauge", "Requests being answered.", "", sum(|tally| &tally.running));
    single(
        "vllm:num_requests_waiting",
        "gauge",
        "Requests that wait to be answered.",
        "",
        sum(|tally| &tally.waiting),
    );
    single(
        "vllm:prompt_tokens_total",
        "counter",
        "Prompt tokens taken.",
        "",
        sum(|tally| &tally.prompt_tokens),
    );
    single(
        "vllm:generation_tokens_total",
        "counter",
        "Tokens sent.",
        "",
        sum(|tally| &tally.generation_tokens),
    );
    single(
        "vllm:request_success_total",
        "counter",
        "Whole answers.",
        ",finished_reason=\"length\"",
        sum(|tally| &tally.finished_length),
    );
    let stop = sum(|tally| &tally.finished_stop);
    let _ = writeln!(
        text,
        "vllm:request_success_total{{model_name=\"mock-model\",finished_reason=\"stop\"}} {stop}"
    );
    let requests = sum(|tally| &tally.requests);
    header(
        &mut text,
        "mock:requests_total",
        "counter",
        "Chat completion requests that were answered, or failed on purpose.",
    );
    let _ = writeln!(text, "mock:requests_total {requests}");
    let cancelled = sum(|tally| &tally.cancelled);
    header(
        &mut text,
        "mock:cancelled_requests_total",
        "counter",
        "Chat completion requests whose client left.",
    );
    let _ = writeln!(text, "mock:cancelled_requests_total {cancelled}");
    histogram(
        &mut text,
        "vllm:time_to_first_token_seconds",
        "From the request to its first token.",
        &TTFT_BOUNDS_S,
        tallies.iter().map(|tally| &tally.ttft),
    );
    histogram(
        &mut text,
        "vllm:e2e_request_latency_seconds",
        "From the request to the end of the answer.",
        &E2E_BOUNDS_S,
        tallies.iter().map(|tally| &tally.e2e),
    );
    text
}

/// Power of the made-up GPU when nothing runs, and for each request that does, in watts.
const GPU_IDLE_W: f64 = 80.0;
const GPU_REQUEST_W: f64 = 5.0;
/// Energy of a token in joules.
const GPU_TOKEN_J: f64 = 0.05;
/// More than that no GPU takes.
const GPU_MOST_W: f64 = 700.0;

/// The page of a GPU exporter for a GPU that does not exist: its numbers are made up and follow the load.
pub(super) fn render_gpu(tallies: &[Tally], since_start: Nanos) -> String {
    let sum =
        |count: fn(&Tally) -> &Count| tallies.iter().map(|tally| count(tally).read()).sum::<u64>() as f64;
    let (running, tokens) = (sum(|tally| &tally.running), sum(|tally| &tally.generation_tokens));
    let busy = (running * 3.0).min(100.0);
    let energy_j = GPU_IDLE_W * since_start.as_secs_f64() + GPU_TOKEN_J * tokens;
    let device = Device {
        index: 0,
        uuid: "GPU-00000000-mock".to_owned(),
        model: "made-up GPU of phasor mock".to_owned(),
        pci_bus_id: None,
        device: Some("nvidia0".to_owned()),
        hostname: Some("mock".to_owned()),
        namespace: None,
        pod_name: None,
    };
    let values = vec![
        (Nvidia::PowerUsage, (GPU_IDLE_W + GPU_REQUEST_W * running).min(GPU_MOST_W)),
        (Nvidia::EnergyConsumption, energy_j / 1e6),
        (Nvidia::GpuUtilization, busy),
        (Nvidia::MemoryUtilization, busy / 2.0),
        (Nvidia::MemoryUsed, 60.0),
        (Nvidia::Temperature, 40.0 + busy / 5.0),
        (Nvidia::SmUtilization, busy),
        (Nvidia::XidErrors, 0.0),
        (Nvidia::PowerViolation, 0.0),
    ];
    dcgm::render(&[(device, values)])
}

fn header(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn histogram<'a, const N: usize>(
    text: &mut String,
    name: &str,
    help: &str,
    bounds_s: &[f64; N],
    tallies: impl Iterator<Item = &'a Buckets<N>> + Clone,
) {
    header(text, name, "histogram", help);
    let mut total = 0;
    for (bucket, bound) in bounds_s.iter().enumerate() {
        total += tallies.clone().map(|buckets| buckets.counts[bucket].read()).sum::<u64>();
        let _ = writeln!(text, "{name}_bucket{{model_name=\"mock-model\",le=\"{bound:?}\"}} {total}");
    }
    total += tallies.clone().map(|buckets| buckets.beyond.read()).sum::<u64>();
    let sum_s = tallies.map(|buckets| Nanos(buckets.sum_ns.read()).as_secs_f64()).sum::<f64>();
    let _ = writeln!(text, "{name}_bucket{{model_name=\"mock-model\",le=\"+Inf\"}} {total}");
    let _ = writeln!(text, "{name}_sum{{model_name=\"mock-model\"}} {sum_s}");
    let _ = writeln!(text, "{name}_count{{model_name=\"mock-model\"}} {total}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histograms_of_threads_add_up() {
        let tallies: [Tally; 2] = std::array::from_fn(|_| Tally::default());
        tallies[0].record_ttft(Nanos::from_millis(5));
        tallies[1].record_ttft(Nanos::from_millis(6));
        tallies[1].record_ttft(Nanos::from_millis(60_000));
        let text = render(&tallies);
        let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let bucket = |le: &str| {
            value(&format!(
                "vllm:time_to_first_token_seconds_bucket{{model_name=\"mock-model\",le=\"{le}\"}}"
            ))
        };
        assert_eq!(bucket("0.001"), Some("0"));
        assert_eq!(bucket("0.005"), Some("1"));
        assert_eq!(bucket("0.01"), Some("2"));
        assert_eq!(bucket("40.0"), Some("2"));
        assert_eq!(bucket("+Inf"), Some("3"));
        assert_eq!(value("vllm:time_to_first_token_seconds_sum{model_name=\"mock-model\"}"), Some("60.011"));
    }
}
