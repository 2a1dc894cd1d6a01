//! The GPU part of the result tables (spec/telemetry A8).

use crate::artifact::FinishedRun;
use crate::artifact::console::{SHOWN, decimal, section};
use crate::artifact::grid::{Align, Grid};
use crate::artifact::panel::panel;
use crate::artifact::telemetry::profiling_window;
use crate::measure::catalogue::Table;
use crate::measure::summary::{Summary, Value};
use crate::telemetry::gpu::Platform;
use crate::telemetry::gpu::summary::{self, DeviceFigures, SignalFigures, SourceFigures};
use crate::telemetry::{address, numbers::Spread};
use std::fmt::Write;

/// Values from here on are shown with an exponent.
const EXPONENT_FROM: f64 = 1e6;

/// Panel, efficiency and a table per GPU; empty when no GPU gave a sample.
pub(in crate::artifact) fn tables(run: &FinishedRun<'_>, root: &Summary, width: usize) -> String {
    let telemetry = &run.telemetry;
    let Some(window) = profiling_window(run).filter(|_| telemetry.has_gpus()) else { return String::new() };
    let lines = [
        format!("Platform: {}", Platform::Nvidia.name()),
        "Signals of different platforms are measured differently; compare them with care.".to_owned(),
    ];
    let mut text = format!("\n{}", panel("GPU Telemetry Platform", &lines, width));
    section(&mut text, &efficiency(root), width);
    let reached = telemetry.gpus.iter().filter(|source| !source.history.tracks().is_empty()).count();
    let meant = telemetry.gpus_configured.len();
    let _ = write!(text, "\nphasor | GPU Telemetry Summary\n{reached}/{meant} telemetry sources reachable\n");
    for url in &telemetry.gpus_configured {
        let answered = telemetry
            .gpus
            .iter()
            .any(|source| source.history.url() == url.as_str() && !source.history.tracks().is_empty());
        let _ = writeln!(
            text,
            "\u{2022} {} {}",
            address::display(url),
            if answered { '\u{2714}' } else { '\u{2718}' }
        );
    }
    for source in summary::of(telemetry, window) {
        for device in &source.devices {
            section(&mut text, &device_table(&source, device), width);
        }
    }
    text
}

fn efficiency(root: &Summary) -> Grid {
    let mut rows: Vec<_> = root
        .values()
        .filter_map(|(metric, value)| match (metric.console, value) {
            (Some((Table::Energy, order)), Value::Single(value)) => Some((order, metric, *value)),
            _ => None,
        })
        .collect();
    rows.sort_by_key(|(order, _, _)| *order);
    let mut grid =
        Grid::new("GPU Power Efficiency (NVIDIA)", &[("Metric", Align::Right), ("avg", Align::Right)]);
    for (_, metric, value) in rows {
        grid.row(vec![format!("{} ({})", metric.header, metric.unit.name()), shown(value)]);
    }
    grid
}

fn device_table(source: &SourceFigures<'_>, figures: &DeviceFigures<'_>) -> Grid {
    let device = figures.device;
    let mut grid =
        Grid::new(format!("{} | GPU {} | {}", source.endpoint, device.index, device.model), &SHOWN);
    for (signal, value) in &figures.signals {
        let cells = match value {
            SignalFigures::Rise(rise) => [Some(*rise), None, None, None, None, None, None],
            SignalFigures::Spread(Spread { avg, min, max, std, percentiles, .. }) => {
                let [.., p50, _, p90, _, p99] = *percentiles;
                [*avg, *min, *max, p99, p90, p50, *std].map(Some)
            }
        };
        let mut row = vec![format!("{} ({})", signal.header, signal.unit)];
        row.extend(cells.map(|cell| cell.map_or_else(|| "N/A".to_owned(), shown)));
        grid.row(row);
    }
    grid
}

fn shown(value: f64) -> String {
    if value.abs() < EXPONENT_FROM {
        return decimal(value);
    }
    // As Python writes an exponent: with its sign and two digits.
    let text = format!("{value:.2e}");
    match text.split_once('e') {
        Some((mantissa, exponent)) => match exponent.strip_prefix('-') {
            Some(digits) => format!("{mantissa}e-{digits:0>2}"),
            None => format!("{mantissa}e+{exponent:0>2}"),
        },
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_numbers_have_an_exponent() {
        assert_eq!(shown(1_234.5), "1,234.50");
        assert_eq!(shown(1_234_567.0), "1.23e+06");
    }
}
