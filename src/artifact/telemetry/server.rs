//! `server_metrics_export.json` and the data of `phases/<name>/server_metrics.json` (spec/telemetry B8, B12).

use crate::artifact::json::{AIPERF_VERSION, local_time};
use crate::config::PhaseKind;
use crate::prometheus::{Labels, unit};
use crate::telemetry::figures::{
    self, FetchFigures, Figures, HistogramFigures, Scope, SeriesFigures, Slice, SliceFigures,
};
use crate::telemetry::history::History;
use crate::telemetry::numbers::{PERCENTILES, Spread};
use crate::telemetry::{ServerSource, Telemetry, address};
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;

/// The schema that the members follow.
const SCHEMA_VERSION: &str = "1.1";

/// What is written about servers.
#[derive(Clone, Copy, Debug)]
pub struct ServerExport<'a> {
    /// What was read.
    pub telemetry: &'a Telemetry,
    /// 12 hex digits.
    pub benchmark_id: &'a str,
    /// First start and last end of the profiling phases; absent when none ran.
    pub profiling_ns: Option<(u64, u64)>,
    /// The same of the warmups.
    pub warmup_ns: Option<(u64, u64)>,
    /// Length of slices of time, if they are asked for.
    pub slice_ns: Option<u64>,
}

/// A series with the address it comes from.
pub(super) type Addressed<'a> = (&'a str, SeriesFigures<'a>);

impl<'a> ServerExport<'a> {
    /// The file of the run, without the config; absent when no profiling phase ran.
    pub fn json(&self) -> Option<Json> {
        let (start_ns, end_ns) = self.profiling_ns?;
        let mut info = Map::new();
        for source in self.answering() {
            if let Some(fetches) = figures::fetches(&source.history, None) {
                info.insert(source.history.url().to_owned(), fetch_info(&fetches));
            }
        }
        let mut ranges = Map::new();
        let mut range = |name: &str, (start, end): (u64, u64)| {
            ranges.insert(name.to_owned(), json!({ "start_ns": start, "end_ns": end }));
        };
        range("profiling", (start_ns, end_ns));
        let warmup_ns = self.warmup_window();
        if let Some(warmup) = warmup_ns {
            range("warmup", warmup);
        }
        let mut members = Map::new();
        let mut add = |name: &str, value: Json| members.insert(name.to_owned(), value);
        add("schema_version", json!(SCHEMA_VERSION));
        add("aiperf_version", json!(AIPERF_VERSION));
        add("benchmark_id", json!(self.benchmark_id));
        add(
            "summary",
            json!({
                "endpoints_configured": self.telemetry.servers_configured,
                "endpoints_successful": self.successful(),
                "start_time": local_time(start_ns),
                "end_time": local_time(end_ns),
                "endpoint_info": info,
                "phase_time_ranges": ranges,
            }),
        );
        add("metrics_phase", json!(PhaseKind::Profiling.name()));
        add("metrics", families(self.figures(PhaseKind::Profiling)));
        if warmup_ns.is_some() {
            add("warmup_metrics", families(self.figures(PhaseKind::Warmup)));
        }
        Some(Json::Object(members))
    }

    /// What is said about one phase; absent when nothing was read while it ran.
    pub fn phase(&self, index: u16) -> Option<Json> {
        let key = self.telemetry.phases.iter().find(|key| key.index == index)?;
        let scope = Scope { phases: vec![index], otherwise_ns: None, slice_ns: self.slice_ns };
        let mut endpoints = Map::new();
        let mut span: Option<(u64, u64)> = None;
        for source in self.answering() {
            let Some(fetches) = figures::fetches(&source.history, Some(index)) else { continue };
            let (first, last) = span.unwrap_or((fetches.first_ns, fetches.last_ns));
            span = Some((first.min(fetches.first_ns), last.max(fetches.last_ns)));
            let mut metrics = Map::new();
            for series in figures::of(&source.history, &scope) {
                let metric = metrics.entry(series.family.name.clone()).or_insert_with(|| {
                    json!({ "type": series.family.kind.name(), "description": series.family.help, "series": [] })
                });
                if let Some(Json::Array(list)) = metric.get_mut("series") {
                    list.push(series_json(None, &series));
                }
            }
            let summary = json!({
                "endpoint_url": source.history.url(),
                "info": fetch_info(&fetches),
                "metrics": metrics,
            });
            endpoints.insert(address::display(source.history.url()), summary);
        }
        let (start_ns, end_ns) = span?;
        let mut data = Map::new();
        let mut add = |name: &str, value: Json| data.insert(name.to_owned(), value);
        add("benchmark_id", json!(self.benchmark_id));
        add("phase", json!(key.kind.name()));
        add("phase_index", json!(key.index));
        if let Some(profiling_index) = key.profiling_index {
            add("profiling_index", json!(profiling_index));
        }
        add("phase_name", json!(key.name));
        add("phase_kind", json!(key.kind.name()));
        add("endpoint_summaries", Json::Object(endpoints));
        add("start_ns", json!(start_ns));
        add("end_ns", json!(end_ns));
        add("endpoints_configured", json!(self.telemetry.servers_configured));
        add("endpoints_successful", json!(self.successful()));
        add("error_summary", json!([]));
        add("phase_results", json!([]));
        Some(Json::Object(data))
    }

    fn answering(&self) -> impl Iterator<Item = &'a ServerSource> {
        self.telemetry.servers.iter().filter(|source| !source.history.fetches().is_empty())
    }

    fn successful(&self) -> Vec<&'a str> {
        self.answering().map(|source| source.history.url()).collect()
    }

    fn phases(&self, kind: PhaseKind) -> Vec<u16> {
        self.telemetry.phases.iter().filter(|key| key.kind == kind).map(|key| key.index).collect()
    }

    /// The warmups' range, up to the last page that belongs to one.
    fn warmup_window(&self) -> Option<(u64, u64)> {
        let (start, end) = self.warmup_ns?;
        let phases = self.phases(PhaseKind::Warmup);
        let tagged = |history: &'a History| {
            history
                .fetches()
                .iter()
                .filter(|kept| kept.fetch.phase.is_some_and(|phase| phases.contains(&phase)))
                .map(|kept| kept.fetch.at_ns)
                .max()
        };
        let last = self.answering().filter_map(|source| tagged(&source.history)).max();
        Some((start, last.map_or(end, |last| last.max(end))))
    }

    /// The series of all phases of a kind, by address and labels.
    pub(super) fn figures(&self, kind: PhaseKind) -> Vec<Addressed<'a>> {
        let phases = self.phases(kind);
        let mut all: Vec<Addressed<'a>> = Vec::new();
        for source in self.answering() {
            let window = match kind {
                PhaseKind::Profiling => self.profiling_ns.map(|(start, end)| {
                    let updates =
                        figures::fetches(&source.history, None).and_then(|fetches| fetches.update_ns);
                    (start, updates.map_or(end, |(_, last)| last.max(end)))
                }),
                PhaseKind::Warmup => self.warmup_window(),
            };
            let scope = Scope { phases: phases.clone(), otherwise_ns: window, slice_ns: self.slice_ns };
            all.extend(
                figures::of(&source.history, &scope).into_iter().map(|one| (source.history.url(), one)),
            );
        }
        all.sort_by_cached_key(|(url, series)| ((*url).to_owned(), series.labels.sort_key()));
        all
    }
}

/// Families by name, each with its series.
fn families(series: Vec<Addressed<'_>>) -> Json {
    let mut families: BTreeMap<String, Map<String, Json>> = BTreeMap::new();
    for (url, one) in series {
        let family = families.entry(one.family.name.clone()).or_insert_with(|| {
            let mut members = Map::new();
            members.insert("type".to_owned(), json!(one.family.kind.name()));
            members.insert("description".to_owned(), json!(one.family.help));
            if let Some(unit) = unit::infer(&one.family.name, &one.family.help) {
                members.insert("unit".to_owned(), json!(unit));
            }
            members.insert("series".to_owned(), json!([]));
            members
        });
        if let Some(Json::Array(list)) = family.get_mut("series") {
            list.push(series_json(Some(url), &one));
        }
    }
    families.into_iter().map(|(name, family)| (name, Json::Object(family))).collect::<Map<_, _>>().into()
}

fn series_json(url: Option<&str>, series: &SeriesFigures<'_>) -> Json {
    let mut members = Map::new();
    let mut add = |name: &str, value: Json| members.insert(name.to_owned(), value);
    if let Some(url) = url {
        add("endpoint_url", json!(url));
    }
    if !series.labels.is_empty() {
        add("labels", labels_json(series.labels));
    }
    match &series.figures {
        Figures::Counter { total, rate, of_slices } => {
            let mut stats = json!({ "total": total, "rate": rate });
            if let (Some(slices), Some(members)) = (of_slices, stats.as_object_mut()) {
                let Spread { avg, min, max, std, .. } = *slices;
                for (name, value) in
                    [("rate_avg", avg), ("rate_min", min), ("rate_max", max), ("rate_std", std)]
                {
                    members.insert(name.to_owned(), json!(value));
                }
            }
            add("stats", stats);
        }
        Figures::Gauge(spread) => {
            let Spread { avg, min, max, std, percentiles, .. } = *spread;
            let mut stats = Map::new();
            for (name, value) in [("avg", avg), ("min", min), ("max", max), ("std", std)] {
                stats.insert(name.to_owned(), json!(value));
            }
            for (percent, value) in PERCENTILES.iter().zip(percentiles) {
                stats.insert(format!("p{percent}"), json!(value));
            }
            add("stats", Json::Object(stats));
        }
        Figures::Histogram(histogram) => {
            add("stats", histogram_json(histogram));
            if !histogram.buckets.is_empty() {
                add("buckets", buckets_json(&histogram.buckets));
            }
        }
    }
    if !series.slices.is_empty() {
        add("timeslices", series.slices.iter().map(slice_json).collect());
    }
    Json::Object(members)
}

fn histogram_json(histogram: &HistogramFigures) -> Json {
    let mut stats = Map::new();
    stats.insert("count".to_owned(), whole(histogram.count));
    if histogram.count <= 0.0 {
        return Json::Object(stats);
    }
    let mut add = |name: &str, value: Option<f64>| {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            stats.insert(name.to_owned(), json!(value));
        }
    };
    add("sum", histogram.sum);
    add("avg", histogram.avg());
    add("count_rate", Some(histogram.count_rate));
    add("sum_rate", histogram.sum_rate);
    for (percent, value) in PERCENTILES.iter().zip(histogram.estimates.unwrap_or([f64::NAN; 9])) {
        add(&format!("p{percent}_estimate"), Some(value));
    }
    Json::Object(stats)
}

fn buckets_json(buckets: &[(String, f64)]) -> Json {
    buckets.iter().map(|(bound, count)| (bound.clone(), whole(*count))).collect::<Map<_, _>>().into()
}

/// Labels as an object.
pub(super) fn labels_json(labels: &Labels) -> Json {
    labels.iter().map(|(name, value)| (name.to_owned(), json!(value))).collect::<Map<_, _>>().into()
}

fn slice_json(slice: &Slice) -> Json {
    let mut members = Map::new();
    let mut add = |name: &str, value: Json| members.insert(name.to_owned(), value);
    add("start_ns", json!(slice.start_ns));
    add("end_ns", json!(slice.end_ns));
    if !slice.whole {
        add("is_complete", json!(false));
    }
    match &slice.figures {
        SliceFigures::Counter(total, rate) => {
            add("total", json!(total));
            add("rate", json!(rate));
        }
        SliceFigures::Gauge(avg, min, max) => {
            add("avg", json!(avg));
            add("min", json!(min));
            add("max", json!(max));
        }
        SliceFigures::Histogram(count, sum, buckets) => {
            add("count", whole(*count));
            add("sum", json!(sum));
            let avg = if *count > 0.0 { sum / count } else { 0.0 };
            add("avg", json!(avg));
            add("buckets", buckets_json(buckets));
        }
    }
    Json::Object(members)
}

fn fetch_info(fetches: &FetchFigures) -> Json {
    let mut info = Map::new();
    let mut add = |name: &str, value: Json| info.insert(name.to_owned(), value);
    add("total_fetches", json!(fetches.fetches));
    add("first_fetch_ns", json!(fetches.first_ns));
    add("last_fetch_ns", json!(fetches.last_ns));
    add("avg_fetch_latency_ms", json!(fetches.latency_ms));
    add("unique_updates", json!(fetches.updates));
    if let Some((first, last)) = fetches.update_ns {
        let (mean, median) = fetches.update_interval_ms;
        add("first_update_ns", json!(first));
        add("last_update_ns", json!(last));
        add("duration_seconds", json!(last.saturating_sub(first) as f64 / 1e9));
        add("avg_update_interval_ms", json!(mean));
        if let Some(median) = median {
            add("median_update_interval_ms", json!(median));
        }
    }
    Json::Object(info)
}

/// A count as a whole number.
#[expect(clippy::cast_possible_truncation, reason = "counts of a server lie far below 2^53")]
pub(super) fn whole(count: f64) -> Json {
    json!(count.round() as i64)
}
