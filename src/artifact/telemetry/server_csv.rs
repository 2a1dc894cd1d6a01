//! `server_metrics_export.csv` (spec/telemetry B9): a table for each kind of family.

use crate::artifact::csv::{bytes, writer};
use crate::artifact::json::AIPERF_VERSION;
use crate::artifact::telemetry::server::{Addressed, ServerExport, whole};
use crate::config::PhaseKind;
use crate::prometheus::{Kind, unit};
use crate::telemetry::address;
use crate::telemetry::figures::{Figures, HistogramFigures};
use crate::telemetry::numbers::PERCENTILES;
use std::collections::BTreeSet;

/// The schema of this file.
const SCHEMA_VERSION: &str = "1.0";

impl ServerExport<'_> {
    /// The file of the profiling phases; absent when none ran. An error is one of the writer, which cannot
    /// fail in memory.
    pub fn csv(&self) -> Option<Result<Vec<u8>, csv::Error>> {
        self.profiling_ns?;
        let mut series = self.figures(PhaseKind::Profiling);
        series.sort_by(|left, right| left.1.family.name.cmp(&right.1.family.name));
        Some(file(self.benchmark_id, &series))
    }
}

fn file(benchmark_id: &str, series: &[Addressed<'_>]) -> Result<Vec<u8>, csv::Error> {
    let mut file = format!(
        "# AIPerf Server Metrics Export (CSV)\n# aiperf_version: {AIPERF_VERSION}\n# schema_version: \
         {SCHEMA_VERSION}\n# benchmark_id: {benchmark_id}\n# Note: Same benchmark_id and version appear in JSON \
         and Parquet exports\n#\n"
    )
    .into_bytes();
    let is_info =
        |one: &Addressed<'_>| one.1.family.kind == Kind::Gauge && one.1.family.name.ends_with("_info");
    let mut sections = Vec::new();
    for kind in [Kind::Gauge, Kind::Counter, Kind::Histogram, Kind::Unknown] {
        let of_kind: Vec<&Addressed<'_>> =
            series.iter().filter(|one| one.1.family.kind == kind && !is_info(one)).collect();
        if !of_kind.is_empty() {
            sections.push(section(kind, &of_kind)?);
        }
    }
    let infos: Vec<&Addressed<'_>> = series.iter().filter(|one| is_info(one)).collect();
    if !infos.is_empty() {
        sections.push(info_section(&infos)?);
    }
    for (number, section) in sections.iter().enumerate() {
        if number > 0 {
            file.extend_from_slice(b"\r\n");
        }
        file.extend_from_slice(section);
    }
    Ok(file)
}

fn stat_names(kind: Kind) -> Vec<String> {
    let percentiles = |suffix: &str| PERCENTILES.map(|percent| format!("p{percent}{suffix}"));
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    match kind {
        Kind::Counter => owned(&["total", "rate", "rate_avg", "rate_min", "rate_max", "rate_std"]),
        Kind::Gauge | Kind::Unknown => {
            let mut names = owned(&["avg", "min", "max", "std"]);
            names.extend(percentiles(""));
            names
        }
        Kind::Histogram => {
            let mut names = owned(&["count", "count_rate", "sum", "sum_rate", "avg"]);
            names.extend(percentiles("_estimate"));
            names
        }
    }
}

fn section(kind: Kind, series: &[&Addressed<'_>]) -> Result<Vec<u8>, csv::Error> {
    let columns = label_columns(series);
    let mut writer = writer();
    let mut header: Vec<String> = ["Endpoint", "Type", "Metric", "Unit"]
        .map(str::to_owned)
        .into_iter()
        .chain(stat_names(kind))
        .collect();
    header.extend(columns.iter().cloned());
    header.push("Description".to_owned());
    if kind == Kind::Histogram {
        header.push("buckets".to_owned());
    }
    writer.write_record(&header)?;
    let pattern = |one: &Addressed<'_>| -> String {
        let filled =
            columns.iter().map(|name| one.1.labels.value(name).is_some_and(|value| !value.is_empty()));
        filled.map(|filled| if filled { '1' } else { '0' }).collect()
    };
    let mut rows: Vec<&Addressed<'_>> = series.to_vec();
    rows.sort_by_cached_key(|one| {
        (pattern(one), one.1.family.name.clone(), one.0.to_owned(), one.1.labels.sort_key())
    });
    for one in rows {
        let (url, figures) = one;
        let family = figures.family;
        let mut row = vec![
            address::display(url),
            kind.name().to_owned(),
            family.name.clone(),
            unit::infer(&family.name, &family.help).unwrap_or_default().to_owned(),
        ];
        row.extend(stats(&figures.figures));
        row.extend(columns.iter().map(|name| figures.labels.value(name).unwrap_or_default().to_owned()));
        row.push(family.help.clone());
        if let Figures::Histogram(HistogramFigures { buckets, .. }) = &figures.figures {
            let cells: Vec<String> =
                buckets.iter().map(|(bound, count)| format!("{bound}={}", whole(*count))).collect();
            row.push(cells.join(";"));
        }
        writer.write_record(&row)?;
    }
    bytes(writer)
}

fn stats(figures: &Figures) -> Vec<String> {
    let cell = |value: Option<f64>| value.filter(|value| value.is_finite()).map(number).unwrap_or_default();
    match figures {
        Figures::Counter { total, rate, of_slices } => {
            let of_slices = of_slices
                .map_or([None; 4], |spread| [spread.avg, spread.min, spread.max, spread.std].map(Some));
            [Some(*total), Some(*rate)].into_iter().chain(of_slices).map(cell).collect()
        }
        Figures::Gauge(spread) => {
            let first = [spread.avg, spread.min, spread.max, spread.std];
            first.into_iter().chain(spread.percentiles).map(|value| cell(Some(value))).collect()
        }
        Figures::Histogram(histogram) => {
            let counted = histogram.count > 0.0;
            let shown = |value: Option<f64>| cell(value.filter(|_| counted));
            let mut cells = vec![whole(histogram.count).to_string()];
            cells.extend(
                [Some(histogram.count_rate), histogram.sum, histogram.sum_rate, histogram.avg()].map(shown),
            );
            let estimates = histogram.estimates.map_or([None; 9], |estimates| estimates.map(Some));
            cells.extend(estimates.map(shown));
            cells
        }
    }
}

/// The labels of a section: those that occur together side by side, such groups by their first name.
fn label_columns(series: &[&Addressed<'_>]) -> Vec<String> {
    let mut groups: Vec<BTreeSet<&str>> = Vec::new();
    for one in series {
        let mut together: BTreeSet<&str> = one.1.labels.iter().map(|(name, _)| name).collect();
        if together.is_empty() {
            continue;
        }
        groups.retain(|group| {
            let meets = !group.is_disjoint(&together);
            if meets {
                together.extend(group.iter());
            }
            !meets
        });
        groups.push(together);
    }
    groups.sort_by(|left, right| left.first().cmp(&right.first()));
    groups.into_iter().flatten().map(str::to_owned).collect()
}

fn info_section(series: &[&Addressed<'_>]) -> Result<Vec<u8>, csv::Error> {
    let mut writer = writer();
    writer.write_record(["Endpoint", "Metric", "Key", "Value", "Description"])?;
    for (url, figures) in series {
        for (name, value) in figures.labels.iter() {
            let family = figures.family;
            writer.write_record([&address::display(url), &family.name, name, value, &family.help])?;
        }
    }
    bytes(writer)
}

fn number(value: f64) -> String {
    format!("{value:.4}")
}
