//! What the GPUs used, and what that makes per token, request and user (spec/metrics 11).

use crate::telemetry::Telemetry;
use crate::telemetry::gpu::summary::{Window, rise, spread};
use crate::telemetry::gpu::{Nvidia, Track};

/// Joules in a megajoule.
const J_PER_MJ: f64 = 1e6;

/// Power and energy of all GPUs of a source set over a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Used {
    /// Sum of the mean power of each GPU, in W; absent without a sample of power.
    pub power_w: Option<f64>,
    /// Energy in J: the rise of the counters, else power times duration.
    pub energy_j: Option<f64>,
    /// The energy was read from counters.
    pub is_counted: bool,
}

/// What all GPUs used in `window`; energy counters are read up to `grace_ns` after it.
pub fn used(telemetry: &Telemetry, window: Window, grace_ns: u64) -> Used {
    let graced = Window { end_ns: window.end_ns.saturating_add(grace_ns), ..window };
    let tracks = || telemetry.gpus.iter().flat_map(|source| source.history.tracks());
    let power_w = sum(tracks().filter_map(|track: &Track| {
        spread(track, Nvidia::PowerUsage as usize, window).map(|spread| spread.avg)
    }));
    let counted = sum(tracks().filter_map(|track| {
        rise(track, Nvidia::EnergyConsumption as usize, graced).map(|rise| rise * J_PER_MJ)
    }));
    let seconds = window.end_ns.saturating_sub(window.start_ns) as f64 / 1e9;
    Used {
        power_w,
        energy_j: counted.or_else(|| power_w.map(|power| power * seconds)),
        is_counted: counted.is_some(),
    }
}

fn sum(values: impl Iterator<Item = f64>) -> Option<f64> {
    values.fold(None, |sum, value| Some(sum.unwrap_or(0.0) + value))
}

/// What the requests of the same window did, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// Length of the window in seconds.
    pub duration_s: f64,
    /// Good requests.
    pub requests: Option<f64>,
    /// Output tokens.
    pub output_tokens: Option<f64>,
    /// Input tokens.
    pub input_tokens: Option<f64>,
    /// Concurrency of the first profiling phase.
    pub users: Option<f64>,
    /// Mean latency of a request in seconds.
    pub latency_s: Option<f64>,
    /// Good requests per second.
    pub request_throughput: Option<f64>,
    /// Output tokens per second.
    pub token_throughput: Option<f64>,
    /// Requests per second that held all objectives.
    pub goodput: Option<f64>,
}

/// The metrics of energy, by tag without its vendor; what cannot be computed is not there.
pub fn metrics(used: &Used, work: &Work) -> Vec<(&'static str, f64)> {
    let energy = used.energy_j.filter(|energy| *energy > 0.0);
    let average = energy.filter(|_| work.duration_s > 0.0).map(|energy| energy / work.duration_s);
    let per = |amount: Option<f64>| {
        energy.zip(amount.filter(|amount| *amount > 0.0)).map(|(energy, amount)| energy / amount)
    };
    let per_watt = |rate: Option<f64>| {
        rate.filter(|rate| *rate > 0.0).zip(average).map(|(rate, average)| rate / average)
    };
    let all_tokens = work.output_tokens.zip(work.input_tokens).map(|(output, input)| output + input);
    let per_request = per(work.requests);
    let found = [
        ("total_gpu_power", used.power_w.filter(|power| *power > 0.0)),
        ("average_gpu_power", average),
        ("total_gpu_energy", energy),
        (
            "output_tokens_per_joule",
            work.output_tokens
                .filter(|tokens| *tokens > 0.0)
                .zip(energy)
                .map(|(tokens, energy)| tokens / energy),
        ),
        ("energy_per_output_token", per(work.output_tokens).map(|joules| joules * 1e3)),
        ("energy_per_total_token", per(all_tokens).map(|joules| joules * 1e3)),
        ("energy_per_request", per_request),
        ("energy_per_user", per(work.users)),
        ("energy_delay_product", per_request.zip(work.latency_s).map(|(energy, latency)| energy * latency)),
        ("performance_per_watt", per_watt(work.request_throughput)),
        ("output_tps_per_watt", per_watt(work.token_throughput)),
        ("goodput_per_watt", per_watt(work.goodput)),
    ];
    let finite =
        |(tag, value): (&'static str, Option<f64>)| Some((tag, value.filter(|value| value.is_finite())?));
    found.into_iter().filter_map(finite).collect()
}
