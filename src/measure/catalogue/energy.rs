//! The rows of the metrics of energy (spec/metrics 11): their values come from the telemetry of GPUs.

use crate::measure::catalogue::{Metric, Source, Table, Unit};

/// NVIDIA's, in the order in which files have them.
pub static ENERGY: [Metric; 12] = [
    row("nvidia_total_gpu_power", "Total GPU Power", Unit::Watts, 740),
    row("nvidia_average_gpu_power", "Average GPU Power", Unit::Watts, 720),
    row("nvidia_total_gpu_energy", "Total GPU Energy", Unit::Joules, 730),
    better(row("nvidia_output_tokens_per_joule", "Output Tokens per Joule", Unit::TokensPerJoule, 760)),
    row("nvidia_energy_per_output_token", "Energy per Output Token", Unit::MillijoulesPerToken, 750),
    row("nvidia_energy_per_total_token", "Energy per Total Token", Unit::MillijoulesPerToken, 745),
    row("nvidia_energy_per_request", "Energy per Request", Unit::JoulesPerRequest, 755),
    row("nvidia_energy_per_user", "Energy per User", Unit::JoulesPerUser, 765),
    row("nvidia_energy_delay_product", "Energy Delay Product", Unit::JouleSeconds, 700),
    better(row("nvidia_performance_per_watt", "Performance per Watt", Unit::RequestsPerSecondPerWatt, 710)),
    better(row(
        "nvidia_output_tps_per_watt",
        "Output Tokens per Second per Watt",
        Unit::TokensPerSecondPerWatt,
        712,
    )),
    better(row("nvidia_goodput_per_watt", "Goodput per Watt", Unit::GoodPerSecondPerWatt, 714)),
];

const fn row(tag: &'static str, header: &'static str, unit: Unit, order: u16) -> Metric {
    Metric {
        tag,
        header,
        unit,
        console: Some((Table::Energy, order)),
        streaming: false,
        larger_is_better: false,
        source: Source::Elsewhere,
    }
}

const fn better(metric: Metric) -> Metric {
    Metric { larger_is_better: true, ..metric }
}
