//! The one table of metrics: names, headers, units, where they are shown, and how each is computed.
//!
//! [`SAMPLED`] has a value per request (or a list of them) and gets fifteen statistics, [`SINGLES`] are
//! counters, rates, totals and error-adjusted twins computed from a whole scope. Time-weighted metrics are
//! not here: they need every record at once.

use crate::measure::facts::{Facts, request_end};
use crate::measure::samples::Resolution;

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
    /// Where the values come from.
    pub source: Source,
}

/// Where the values of a metric come from.
#[derive(Clone, Copy, Debug)]
pub enum Source {
    /// A sampled metric with an infinite value for every failed request.
    Adjusted(Sampled),
    /// A single value of a whole scope.
    Derived(Derived),
    /// The gaps between content messages of good requests, in nanoseconds.
    Gaps,
    /// One value of each request that `feed` names.
    Record(Feed, fn(&Facts<'_>) -> Option<f64>),
}

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
    /// `LLM Metrics: Effective`.
    Effective,
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
    /// Bytes, shown in units of 1,024.
    Kilobytes,
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
    /// Seconds.
    Seconds,
    /// Tokens.
    Tokens,
    /// Tokens per second.
    TokensPerSecond,
    /// Tokens per second that one user sees.
    TokensPerSecondPerUser,
}

impl Unit {
    /// The name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Kilobytes => "KB",
            Self::Milliseconds => "ms",
            Self::Percent => "%",
            Self::Ratio => "ratio",
            Self::Requests => "requests",
            Self::RequestsPerSecond => "requests/sec",
            Self::Seconds => "sec",
            Self::Tokens => "tokens",
            Self::TokensPerSecond => "tokens/sec",
            Self::TokensPerSecondPerUser => "tokens/sec/user",
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
            | Self::TokensPerSecondPerUser => false,
        }
    }

    /// How native values are counted beyond the exact ones.
    pub(crate) const fn resolution(self) -> Resolution {
        match self {
            Self::Percent
            | Self::RequestsPerSecond
            | Self::Seconds
            | Self::TokensPerSecond
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
}

/// Single values of a scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Derived {
    /// From the first start to the last content of the good requests, or the sum of the phases' windows.
    BenchmarkDuration,
    /// Good, failed and cancelled requests.
    CompletedRequestCount,
    /// Failed and cancelled requests; absent when there are none.
    ErrorRequestCount,
    /// Prompt tokens of good requests over the window.
    InputTokenThroughput,
    /// Reply tokens over the window.
    OutputTokenThroughput,
    /// Share of prompt tokens that the server read from its cache.
    OverallCacheReadPercent,
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
}

impl Metric {
    const fn of(tag: &'static str, header: &'static str, unit: Unit, source: Source) -> Self {
        Self { tag, header, unit, console: None, streaming: false, source }
    }

    const fn shown(mut self, table: Table, order: u16) -> Self {
        self.console = Some((table, order));
        self
    }

    const fn streaming(mut self) -> Self {
        self.streaming = true;
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
    ];

    /// Its row.
    pub fn metric(self) -> &'static Metric {
        &SAMPLED[self as usize]
    }
}

const fn valid(read: fn(&Facts<'_>) -> Option<f64>) -> Source {
    Source::Record(Feed::Valid, read)
}

const MS: Unit = Unit::Milliseconds;
const TOKENS: Unit = Unit::Tokens;
const PER_USER: Unit = Unit::TokensPerSecondPerUser;

#[expect(clippy::unnecessary_wraps, reason = "the readers of the table have one signature")]
fn whole(value: u64) -> Option<f64> {
    Some(value as f64)
}

fn maybe(value: Option<u64>) -> Option<f64> {
    value.map(|value| value as f64)
}

fn inter_token_ns(facts: &Facts<'_>) -> Option<f64> {
    facts.inter_token_ns()
}

fn rate(amount: u64, span_ns: Option<u64>) -> Option<f64> {
    let span_ns = span_ns.filter(|span| *span > 0)?;
    Some(amount as f64 / (span_ns as f64 / 1e9))
}

/// Metrics with values per request.
pub const SAMPLED: [Metric; 36] = [
    Metric::of("request_latency", "Request Latency", MS, valid(|f| maybe(f.latency_ns)))
        .shown(Table::Main, 300),
    Metric::of("time_to_first_token", "Time to First Token", MS, valid(|f| maybe(f.ttft_ns)))
        .shown(Table::Main, 100)
        .streaming(),
    Metric::of(
        "time_to_second_token",
        "Time to Second Token",
        MS,
        valid(|f| Some(f.record.second_content?.since(f.record.first_content?).0 as f64)),
    )
    .shown(Table::Main, 200)
    .streaming(),
    Metric::of(
        "time_to_first_output_token",
        "Time to First Output Token",
        MS,
        valid(|f| Some(f.record.first_output?.since(f.record.issued).0 as f64)),
    )
    .shown(Table::Main, 210)
    .streaming(),
    Metric::of("inter_token_latency", "Inter Token Latency", MS, valid(inter_token_ns))
        .shown(Table::Main, 400)
        .streaming(),
    Metric::of("inter_chunk_latency", "Inter Chunk Latency", MS, Source::Gaps).streaming(),
    Metric::of("decode_duration", "Decode Duration", MS, valid(|f| maybe(f.decode_ns())))
        .shown(Table::Main, 350)
        .streaming(),
    Metric::of(
        "output_token_throughput_per_user",
        "Output Token Throughput Per User",
        PER_USER,
        valid(|f| f.inter_token_ns().filter(|gap| *gap > 0.0).map(|gap| 1e9 / gap)),
    )
    .shown(Table::Main, 500)
    .streaming(),
    Metric::of(
        "e2e_output_token_throughput",
        "E2E Output Token Throughput",
        PER_USER,
        valid(|f| rate(f.tokens.sequence, f.latency_ns)),
    )
    .shown(Table::Main, 510),
    Metric::of(
        "prefill_throughput_per_user",
        "Prefill Throughput Per User",
        PER_USER,
        valid(|f| rate(f.tokens.input, f.ttft_ns)),
    )
    .streaming(),
    Metric::of(
        "output_sequence_length",
        "Output Sequence Length",
        TOKENS,
        valid(|f| whole(f.tokens.sequence)),
    )
    .shown(Table::Main, 600),
    Metric::of("input_sequence_length", "Input Sequence Length", TOKENS, valid(|f| whole(f.tokens.input)))
        .shown(Table::Main, 700),
    Metric::of("output_token_count", "Output Token Count", TOKENS, valid(|f| maybe(f.tokens.output))),
    Metric::of(
        "reasoning_token_count",
        "Reasoning Token Count",
        TOKENS,
        valid(|f| maybe(f.tokens.reasoning)),
    ),
    Metric::of(
        "error_isl",
        "Error Input Sequence Length",
        TOKENS,
        Source::Record(Feed::Failed, |f| whole(u64::from(f.record.isl_tokens))),
    ),
    Metric::of(
        "usage_prompt_tokens",
        "Usage Prompt Tokens",
        TOKENS,
        valid(|f| maybe(f.record.usage?.prompt_tokens)),
    )
    .shown(Table::Usage, 1_000),
    Metric::of(
        "usage_prompt_cache_read_tokens",
        "Usage Prompt Cache Read Tokens",
        TOKENS,
        valid(|f| maybe(f.record.usage?.cached_tokens)),
    )
    .shown(Table::Usage, 1_010),
    Metric::of(
        "usage_completion_tokens",
        "Usage Completion Tokens",
        TOKENS,
        valid(|f| maybe(f.record.usage?.completion_tokens)),
    )
    .shown(Table::Usage, 1_100),
    Metric::of(
        "usage_reasoning_tokens",
        "Usage Reasoning Tokens",
        TOKENS,
        valid(|f| maybe(f.record.usage?.reasoning_tokens)),
    )
    .shown(Table::Usage, 1_110),
    Metric::of(
        "usage_total_tokens",
        "Usage Total Tokens",
        TOKENS,
        valid(|f| maybe(f.record.usage?.total_tokens)),
    )
    .shown(Table::Usage, 1_200),
    // A request never waits for a connection and never looks up a name: both are settled before it is issued.
    Metric::of("http_req_blocked", "HTTP Blocked", MS, valid(|_| Some(0.0))).shown(Table::Trace, 2_000),
    Metric::of("http_req_dns_lookup", "HTTP DNS Lookup", MS, valid(|_| Some(0.0))).shown(Table::Trace, 2_010),
    Metric::of("http_req_connecting", "HTTP Connecting", MS, valid(|f| whole(f.connecting_ns())))
        .shown(Table::Trace, 2_020),
    Metric::of("http_req_sending", "HTTP Sending", MS, valid(|f| maybe(f.sending_ns())))
        .shown(Table::Trace, 2_030),
    Metric::of("http_req_waiting", "HTTP Waiting (TTFB)", MS, valid(|f| maybe(f.waiting_ns())))
        .shown(Table::Trace, 2_040),
    Metric::of("http_req_receiving", "HTTP Receiving", MS, valid(|f| maybe(f.receiving_ns())))
        .shown(Table::Trace, 2_050),
    Metric::of(
        "http_req_connection_reused",
        "HTTP Connection Reused",
        Unit::Ratio,
        valid(|f| whole(u64::from(f.record.connect.is_none()))),
    )
    .shown(Table::Trace, 2_060),
    Metric::of(
        "http_req_data_sent",
        "HTTP Data Sent",
        Unit::Kilobytes,
        valid(|f| whole(f.record.request_body_bytes)),
    )
    .shown(Table::Trace, 2_070),
    // A body is handed to the kernel as one piece.
    Metric::of("http_req_chunks_sent", "HTTP Chunks Sent", Unit::Count, valid(|_| Some(1.0)))
        .shown(Table::Trace, 2_080),
    Metric::of(
        "http_req_data_received",
        "HTTP Data Received",
        Unit::Kilobytes,
        valid(|f| whole(f.record.body_bytes)),
    )
    .shown(Table::Trace, 2_090),
    Metric::of(
        "http_req_chunks_received",
        "HTTP Chunks Received",
        Unit::Count,
        valid(|f| whole(u64::from(f.record.body_reads))),
    )
    .shown(Table::Trace, 2_100),
    Metric::of(
        "http_req_connection_overhead",
        "HTTP Connection Overhead",
        MS,
        valid(|f| whole(f.connecting_ns())),
    )
    .shown(Table::Trace, 2_110),
    Metric::of(
        "http_req_duration",
        "HTTP Duration (excl. conn)",
        MS,
        valid(|f| Some(f.record.last_body?.since(f.record.issued).0 as f64)),
    )
    .shown(Table::Trace, 2_120),
    Metric::of(
        "http_req_total",
        "HTTP Total Time",
        MS,
        valid(|f| whole(f.connecting_ns() + f.sending_ns()? + f.waiting_ns()? + f.receiving_ns()?)),
    )
    .shown(Table::Trace, 2_130),
    Metric::of(
        "credit_to_start_latency",
        "Credit-to-Start Latency",
        MS,
        Source::Record(Feed::All, |f| whole(f.record.issued.since(f.record.planned).0)),
    ),
    Metric::of(
        "effective_latency",
        "Effective Latency (CO-aware)",
        MS,
        Source::Record(Feed::All, |f| whole(request_end(f.record).since(f.record.planned).0)),
    )
    .shown(Table::Effective, 9_000),
];

const fn derived(tag: &'static str, header: &'static str, unit: Unit, derived: Derived) -> Metric {
    Metric::of(tag, header, unit, Source::Derived(derived))
}

const fn total(tag: &'static str, header: &'static str, sampled: Sampled) -> Metric {
    Metric::of(tag, header, TOKENS, Source::Derived(Derived::Total(sampled)))
}

/// Metrics with one value per scope, and the error-adjusted twins.
pub const SINGLES: [Metric; 24] = [
    derived("request_throughput", "Request Throughput", Unit::RequestsPerSecond, Derived::RequestThroughput)
        .shown(Table::Main, 900),
    derived("request_count", "Request Count", Unit::Requests, Derived::RequestCount)
        .shown(Table::Main, 1_100),
    derived(
        "output_token_throughput",
        "Output Token Throughput",
        Unit::TokensPerSecond,
        Derived::OutputTokenThroughput,
    )
    .shown(Table::Main, 800),
    total("total_output_tokens", "Total Output Tokens", Sampled::OutputTokenCount),
    total("total_reasoning_tokens", "Total Reasoning Tokens", Sampled::ReasoningTokenCount),
    derived("benchmark_duration", "Benchmark Duration", Unit::Seconds, Derived::BenchmarkDuration),
    total("total_isl", "Total Input Sequence Length", Sampled::InputSequenceLength),
    total("total_osl", "Total Output Sequence Length", Sampled::OutputSequenceLength),
    derived("error_request_count", "Error Request Count", Unit::Requests, Derived::ErrorRequestCount),
    total("total_error_isl", "Total Error Input Sequence Length", Sampled::ErrorIsl),
    derived(
        "completed_request_count",
        "Completed Requests (Success + Error)",
        Unit::Requests,
        Derived::CompletedRequestCount,
    )
    .shown(Table::Main, 1_075),
    derived("request_error_rate", "Request Error Rate", Unit::Percent, Derived::RequestErrorRate)
        .shown(Table::Main, 1_080),
    total("total_usage_prompt_tokens", "Total Usage Prompt Tokens", Sampled::UsagePromptTokens)
        .shown(Table::Usage, 2_000),
    total(
        "total_usage_prompt_cache_read_tokens",
        "Total Usage Prompt Cache Read Tokens",
        Sampled::UsagePromptCacheReadTokens,
    )
    .shown(Table::Usage, 2_010),
    derived(
        "overall_usage_prompt_cache_read_pct",
        "Overall Usage Prompt Cache Read %",
        Unit::Percent,
        Derived::OverallCacheReadPercent,
    )
    .shown(Table::Usage, 2_012),
    total("total_usage_completion_tokens", "Total Usage Completion Tokens", Sampled::UsageCompletionTokens)
        .shown(Table::Usage, 2_100),
    total("total_usage_reasoning_tokens", "Total Usage Reasoning Tokens", Sampled::UsageReasoningTokens)
        .shown(Table::Usage, 2_110),
    total("total_usage_total_tokens", "Total Usage Total Tokens", Sampled::UsageTotalTokens)
        .shown(Table::Usage, 2_200),
    derived(
        "input_token_throughput",
        "Input Token Throughput",
        Unit::TokensPerSecond,
        Derived::InputTokenThroughput,
    )
    .shown(Table::Main, 805),
    derived(
        "total_token_throughput",
        "Total Token Throughput",
        Unit::TokensPerSecond,
        Derived::TotalTokenThroughput,
    ),
    adjusted("adj_request_latency", "Request Latency (error-adjusted)", Sampled::RequestLatency, 9_000),
    adjusted(
        "adj_time_to_first_token",
        "Time to First Token (error-adjusted)",
        Sampled::TimeToFirstToken,
        9_001,
    )
    .streaming(),
    adjusted(
        "adj_inter_token_latency",
        "Inter Token Latency (error-adjusted)",
        Sampled::InterTokenLatency,
        9_002,
    )
    .streaming(),
    adjusted("adj_decode_duration", "Decode Duration (error-adjusted)", Sampled::DecodeDuration, 9_003)
        .streaming(),
];

const fn adjusted(tag: &'static str, header: &'static str, sampled: Sampled, order: u16) -> Metric {
    Metric::of(tag, header, MS, Source::Adjusted(sampled)).shown(Table::Main, order)
}

/// Every metric.
pub fn all() -> impl Iterator<Item = &'static Metric> {
    SAMPLED.iter().chain(&SINGLES)
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
    fn tags_are_unique_and_every_metric_has_a_header() {
        let mut tags: Vec<_> = all().map(|metric| metric.tag).collect();
        tags.sort_unstable();
        let all_tags = tags.len();
        tags.dedup();
        assert_eq!(tags.len(), all_tags);
        assert!(all().all(|metric| !metric.header.is_empty() && !metric.header.contains('_')));
    }
}
