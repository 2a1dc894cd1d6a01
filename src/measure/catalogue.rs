//! The one table of metrics: names, headers, units, where they are shown, and how each is computed.
//!
//! [`SAMPLED`] has a value per request (or a list of them) and gets fifteen statistics, [`SINGLES`] are
//! counters, rates, totals and error-adjusted twins computed from a whole scope, [`WEIGHTED`] are step
//! functions over time. [`ENERGY`] are single values that come from the telemetry of GPUs. The rows themselves
//! stand in [`rows`] and [`energy`].

mod energy;
mod rows;

pub use energy::ENERGY;
pub use rows::{SAMPLED, SINGLES, WEIGHTED};

use crate::measure::facts::Facts;
use crate::measure::samples::Resolution;
use crate::measure::weighted::Series;

/// One metric.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Name in every file.
    pub tag: &'static str,
    /// Name for people: CSV rows and console tables.
    pub header: &'static str,
    /// Unit in the files.
    pub unit: Unit,
    /// Console table and the place in it; absent: not on the console.
    pub console: Option<(Table, u16)>,
    /// Exists for streaming endpoints only.
    pub streaming: bool,
    /// Larger is better: what an objective for it demands is a least value.
    pub larger_is_better: bool,
    /// Where the values come from.
    pub source: Source,
}

/// Where the values of a metric come from.
#[derive(Clone, Copy, Debug)]
pub enum Source {
    /// A sampled metric with an infinite value for every failed request.
    Adjusted(Sampled),
    /// A step function over time.
    Curve(Series),
    /// A single value of a whole scope.
    Derived(Derived),
    /// A single value that is not computed from requests alone and is added to the summary.
    Elsewhere,
    /// The gaps between content messages of good requests, in nanoseconds.
    Gaps,
    /// One value of each request that `feed` names.
    Record(Feed, Read),
}

/// Reads the value of one request; absent when it has none.
pub type Read = fn(&Facts<'_>) -> Option<f64>;

/// Which requests feed a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feed {
    /// All that leave a record: good, failed and cancelled.
    All,
    /// Failed and cancelled ones.
    Failed,
    /// Good ones.
    Valid,
}

impl Feed {
    /// Whether a request that was `good`, or was not, feeds the metric.
    pub const fn takes(self, good: bool) -> bool {
        match self {
            Self::All => true,
            Self::Failed => !good,
            Self::Valid => good,
        }
    }
}

/// A console table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// `LLM Metrics: Active`.
    Active,
    /// `LLM Metrics: Effective`.
    Effective,
    /// `GPU Power Efficiency`.
    Energy,
    /// `LLM Metrics`.
    Main,
    /// `HTTP Trace Timing`, shown on request.
    Trace,
    /// `LLM Metrics: Usage`.
    Usage,
}

/// A unit as files name it. Values are kept in native units (nanoseconds, bytes) and divided when shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Things counted.
    Count,
    /// Good requests per second and watt.
    GoodPerSecondPerWatt,
    /// Joules.
    Joules,
    /// Joules times seconds.
    JouleSeconds,
    /// Joules per request.
    JoulesPerRequest,
    /// Joules per user.
    JoulesPerUser,
    /// Bytes, shown in units of 1,024.
    Kilobytes,
    /// Millijoules per token.
    MillijoulesPerToken,
    /// Nanoseconds, shown as milliseconds.
    Milliseconds,
    /// Per cent.
    Percent,
    /// 0 to 1.
    Ratio,
    /// Requests.
    Requests,
    /// Requests per second.
    RequestsPerSecond,
    /// Requests per second and watt.
    RequestsPerSecondPerWatt,
    /// Seconds.
    Seconds,
    /// Tokens.
    Tokens,
    /// Tokens per second.
    TokensPerSecond,
    /// Tokens per second that one user sees.
    TokensPerSecondPerUser,
    /// Tokens per second and watt.
    TokensPerSecondPerWatt,
    /// Tokens per joule.
    TokensPerJoule,
    /// Watts.
    Watts,
}

impl Unit {
    /// The name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::GoodPerSecondPerWatt => "good-req/s/W",
            Self::JouleSeconds => "J*s",
            Self::Joules => "J",
            Self::JoulesPerRequest => "joules/request",
            Self::JoulesPerUser => "joules/user",
            Self::Kilobytes => "KB",
            Self::MillijoulesPerToken => "mJ/token",
            Self::Milliseconds => "ms",
            Self::Percent => "%",
            Self::Ratio => "ratio",
            Self::Requests => "requests",
            Self::RequestsPerSecond => "requests/sec",
            Self::RequestsPerSecondPerWatt => "requests/sec/W",
            Self::Seconds => "sec",
            Self::Tokens => "tokens",
            Self::TokensPerSecond => "tokens/sec",
            Self::TokensPerSecondPerUser => "tokens/sec/user",
            Self::TokensPerSecondPerWatt => "tokens/sec/W",
            Self::TokensPerJoule => "tokens/J",
            Self::Watts => "W",
        }
    }

    /// What a native value is divided by to be shown.
    pub const fn divisor(self) -> f64 {
        match self {
            Self::Kilobytes => 1_024.0,
            Self::Milliseconds => 1e6,
            Self::Count
            | Self::Percent
            | Self::Ratio
            | Self::Requests
            | Self::RequestsPerSecond
            | Self::Seconds
            | Self::Tokens
            | Self::TokensPerSecond
            | Self::GoodPerSecondPerWatt
            | Self::JouleSeconds
            | Self::Joules
            | Self::JoulesPerRequest
            | Self::JoulesPerUser
            | Self::MillijoulesPerToken
            | Self::RequestsPerSecondPerWatt
            | Self::TokensPerJoule
            | Self::TokensPerSecondPerWatt
            | Self::Watts
            | Self::TokensPerSecondPerUser => 1.0,
        }
    }

    /// Whether one request's value is a whole number in the record file.
    pub const fn is_whole(self) -> bool {
        match self {
            Self::Count | Self::Ratio | Self::Requests | Self::Tokens => true,
            Self::Kilobytes
            | Self::Milliseconds
            | Self::Percent
            | Self::RequestsPerSecond
            | Self::Seconds
            | Self::TokensPerSecond
            | Self::GoodPerSecondPerWatt
            | Self::JouleSeconds
            | Self::Joules
            | Self::JoulesPerRequest
            | Self::JoulesPerUser
            | Self::MillijoulesPerToken
            | Self::RequestsPerSecondPerWatt
            | Self::TokensPerJoule
            | Self::TokensPerSecondPerWatt
            | Self::Watts
            | Self::TokensPerSecondPerUser => false,
        }
    }

    /// How native values are counted beyond the exact ones.
    pub(crate) const fn resolution(self) -> Resolution {
        match self {
            Self::Percent => Resolution::SignedThousandths,
            Self::RequestsPerSecond
            | Self::Seconds
            | Self::TokensPerSecond
            | Self::GoodPerSecondPerWatt
            | Self::JouleSeconds
            | Self::Joules
            | Self::JoulesPerRequest
            | Self::JoulesPerUser
            | Self::MillijoulesPerToken
            | Self::RequestsPerSecondPerWatt
            | Self::TokensPerJoule
            | Self::TokensPerSecondPerWatt
            | Self::Watts
            | Self::TokensPerSecondPerUser => Resolution::Thousandths,
            Self::Count
            | Self::Kilobytes
            | Self::Milliseconds
            | Self::Ratio
            | Self::Requests
            | Self::Tokens => Resolution::Whole,
        }
    }
}

/// The metrics with values per request, in the order of [`SAMPLED`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
#[expect(missing_docs, reason = "each is described by its row in the table below")]
pub enum Sampled {
    RequestLatency,
    TimeToFirstToken,
    TimeToSecondToken,
    TimeToFirstOutputToken,
    InterTokenLatency,
    InterChunkLatency,
    DecodeDuration,
    OutputTokenThroughputPerUser,
    E2eOutputTokenThroughput,
    PrefillThroughputPerUser,
    OutputSequenceLength,
    InputSequenceLength,
    OutputTokenCount,
    ReasoningTokenCount,
    ErrorIsl,
    UsagePromptTokens,
    UsagePromptCacheReadTokens,
    UsageCompletionTokens,
    UsageReasoningTokens,
    UsageTotalTokens,
    HttpReqBlocked,
    HttpReqDnsLookup,
    HttpReqConnecting,
    HttpReqSending,
    HttpReqWaiting,
    HttpReqReceiving,
    HttpReqConnectionReused,
    HttpReqDataSent,
    HttpReqChunksSent,
    HttpReqDataReceived,
    HttpReqChunksReceived,
    HttpReqConnectionOverhead,
    HttpReqDuration,
    HttpReqTotal,
    CreditToStartLatency,
    EffectiveLatency,
    OslMismatchDiffPct,
    UsagePromptTokensDiffPct,
    UsageCompletionTokensDiffPct,
    UsageReasoningTokensDiffPct,
}

/// Single values of a scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Derived {
    /// From the first start to the last content of the good requests, or the sum of the phases' windows.
    BenchmarkDuration,
    /// Good, failed and cancelled requests.
    CompletedRequestCount,
    /// Failed requests that the server found too long; absent when none failed.
    ContextOverflowCount,
    /// Failed and cancelled requests; absent when there are none.
    ErrorRequestCount,
    /// Good requests that met every objective; absent without objectives.
    GoodRequestCount,
    /// Their share among the completed ones.
    GoodRequestFraction,
    /// The same over the window.
    Goodput,
    /// Prompt tokens of good requests over the window.
    InputTokenThroughput,
    /// Good requests whose reply's length is further from the one asked for than allowed; absent when no
    /// length was asked for.
    OslMismatchCount,
    /// Reply tokens over the window.
    OutputTokenThroughput,
    /// Share of prompt tokens that the server read from its cache.
    OverallCacheReadPercent,
    /// 1 when a replayed schedule was kept so badly that a slow client looks like a slow server, else 0; absent
    /// where no schedule was replayed.
    ReplaySchedDegraded,
    /// How much later than the least late request of a replayed schedule the others were let go, in
    /// milliseconds; absent where no schedule was replayed.
    ReplaySchedLag(LagAt),
    /// Good requests.
    RequestCount,
    /// Failed and cancelled among the completed ones, in per cent.
    RequestErrorRate,
    /// Good requests over the window.
    RequestThroughput,
    /// Sum over the requests that have the metric.
    Total(Sampled),
    /// Prompt and reply tokens over the window.
    TotalTokenThroughput,
    /// Good requests whose tokens the server counts otherwise than the client; absent when they cannot be
    /// compared.
    UsageDiscrepancyCount,
}

/// Which percentile of the lag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum LagAt {
    P50,
    P90,
    P99,
}

impl Metric {
    const fn of(tag: &'static str, header: &'static str, unit: Unit, source: Source) -> Self {
        Self { tag, header, unit, console: None, streaming: false, larger_is_better: false, source }
    }

    const fn shown(mut self, table: Table, order: u16) -> Self {
        self.console = Some((table, order));
        self
    }

    const fn streaming(mut self) -> Self {
        self.streaming = true;
        self
    }

    const fn larger(mut self) -> Self {
        self.larger_is_better = true;
        self
    }

    /// Header and unit as CSV rows name them: units that say nothing more are left out.
    pub fn csv_name(&self) -> String {
        match self.unit {
            Unit::Count | Unit::Requests => self.header.to_owned(),
            unit => format!("{} ({})", self.header, unit.name()),
        }
    }
}

impl Sampled {
    /// Number of metrics with values per request.
    pub const COUNT: usize = SAMPLED.len();

    /// All of them, in the order of the table.
    pub const ALL: [Self; Self::COUNT] = [
        Self::RequestLatency,
        Self::TimeToFirstToken,
        Self::TimeToSecondToken,
        Self::TimeToFirstOutputToken,
        Self::InterTokenLatency,
        Self::InterChunkLatency,
        Self::DecodeDuration,
        Self::OutputTokenThroughputPerUser,
        Self::E2eOutputTokenThroughput,
        Self::PrefillThroughputPerUser,
        Self::OutputSequenceLength,
        Self::InputSequenceLength,
        Self::OutputTokenCount,
        Self::ReasoningTokenCount,
        Self::ErrorIsl,
        Self::UsagePromptTokens,
        Self::UsagePromptCacheReadTokens,
        Self::UsageCompletionTokens,
        Self::UsageReasoningTokens,
        Self::UsageTotalTokens,
        Self::HttpReqBlocked,
        Self::HttpReqDnsLookup,
        Self::HttpReqConnecting,
        Self::HttpReqSending,
        Self::HttpReqWaiting,
        Self::HttpReqReceiving,
        Self::HttpReqConnectionReused,
        Self::HttpReqDataSent,
        Self::HttpReqChunksSent,
        Self::HttpReqDataReceived,
        Self::HttpReqChunksReceived,
        Self::HttpReqConnectionOverhead,
        Self::HttpReqDuration,
        Self::HttpReqTotal,
        Self::CreditToStartLatency,
        Self::EffectiveLatency,
        Self::OslMismatchDiffPct,
        Self::UsagePromptTokensDiffPct,
        Self::UsageCompletionTokensDiffPct,
        Self::UsageReasoningTokensDiffPct,
    ];

    /// Its row.
    pub fn metric(self) -> &'static Metric {
        &SAMPLED[self as usize]
    }
}

/// Every metric.
pub fn all() -> impl Iterator<Item = &'static Metric> {
    SAMPLED.iter().chain(&SINGLES).chain(&WEIGHTED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_named_metric_stands_in_its_row() {
        for (row, sampled) in Sampled::ALL.iter().enumerate() {
            assert_eq!(*sampled as usize, row);
            let words: String = sampled.metric().tag.split('_').collect();
            assert_eq!(format!("{sampled:?}").to_lowercase(), words);
        }
    }

    #[test]
    fn every_series_stands_in_its_row() {
        for (metric, series) in WEIGHTED.iter().zip(Series::ALL) {
            assert!(matches!(metric.source, Source::Curve(found) if found == series));
            let words: String = metric.tag.split('_').collect();
            assert_eq!(format!("{series:?}").to_lowercase(), words);
        }
    }

    #[test]
    fn tags_are_unique_and_every_metric_has_a_header() {
        let mut tags: Vec<_> = all().map(|metric| metric.tag).collect();
        tags.sort_unstable();
        let all_tags = tags.len();
        tags.dedup();
        assert_eq!(tags.len(), all_tags);
        assert!(all().all(|metric| !metric.header.is_empty() && !metric.header.contains('_')));
    }
}
