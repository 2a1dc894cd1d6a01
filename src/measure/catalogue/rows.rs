//! The rows of the catalogue.

use crate::measure::catalogue::{Derived, Feed, LagAt, Metric, Sampled, Source, Table, Unit};
use crate::measure::facts::{Facts, UsageDifference, request_end};
use crate::measure::weighted::Series;
use crate::wire::{Detail, UsageDetails};

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

/// A count that few servers report.
fn detail(facts: &Facts<'_>, read: fn(&UsageDetails) -> Option<Detail>) -> Option<f64> {
    maybe(read(&facts.record.usage?.details).map(Detail::count))
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
pub const SAMPLED: [Metric; 48] = [
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
    .larger()
    .shown(Table::Main, 500)
    .streaming(),
    Metric::of(
        "e2e_output_token_throughput",
        "E2E Output Token Throughput",
        PER_USER,
        valid(|f| rate(f.tokens.sequence?, f.latency_ns)),
    )
    .larger()
    .shown(Table::Main, 510),
    Metric::of(
        "prefill_throughput_per_user",
        "Prefill Throughput Per User",
        PER_USER,
        valid(|f| rate(f.tokens.input?, f.ttft_ns)),
    )
    .larger()
    .streaming(),
    Metric::of(
        "output_sequence_length",
        "Output Sequence Length",
        TOKENS,
        valid(|f| maybe(f.tokens.sequence)),
    )
    .larger()
    .shown(Table::Main, 600),
    Metric::of("input_sequence_length", "Input Sequence Length", TOKENS, valid(|f| maybe(f.tokens.input)))
        .larger()
        .shown(Table::Main, 700),
    Metric::of("output_token_count", "Output Token Count", TOKENS, valid(|f| maybe(f.tokens.output)))
        .larger(),
    Metric::of(
        "reasoning_token_count",
        "Reasoning Token Count",
        TOKENS,
        valid(|f| maybe(f.tokens.reasoning)),
    )
    .larger(),
    Metric::of(
        "error_isl",
        "Error Input Sequence Length",
        TOKENS,
        Source::Record(Feed::Failed, |f| maybe(f.record.isl_tokens.map(u64::from))),
    )
    .larger(),
    Metric::of(
        "usage_prompt_tokens",
        "Usage Prompt Tokens",
        TOKENS,
        valid(|f| maybe(f.record.usage?.prompt_tokens)),
    )
    .larger()
    .shown(Table::Usage, 1_000),
    Metric::of(
        "usage_prompt_cache_read_tokens",
        "Usage Prompt Cache Read Tokens",
        TOKENS,
        valid(|f| maybe(f.record.usage?.cached_tokens)),
    )
    .larger()
    .shown(Table::Usage, 1_010),
    Metric::of(
        "usage_completion_tokens",
        "Usage Completion Tokens",
        TOKENS,
        valid(|f| maybe(f.record.usage?.completion_tokens)),
    )
    .larger()
    .shown(Table::Usage, 1_100),
    Metric::of(
        "usage_reasoning_tokens",
        "Usage Reasoning Tokens",
        TOKENS,
        valid(|f| maybe(f.record.usage?.reasoning_tokens)),
    )
    .larger()
    .shown(Table::Usage, 1_110),
    Metric::of(
        "usage_total_tokens",
        "Usage Total Tokens",
        TOKENS,
        valid(|f| maybe(f.record.usage?.total_tokens)),
    )
    .larger()
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
    Metric::of(
        "osl_mismatch_diff_pct",
        "OSL Mismatch Diff %",
        Unit::Percent,
        valid(|f| {
            let requested = f64::from(f.record.osl_tokens.filter(|requested| *requested > 0)?);
            Some((f.tokens.sequence? as f64 - requested) / requested * 100.0)
        }),
    ),
    Metric::of(
        "usage_prompt_tokens_diff_pct",
        "Usage Prompt Diff %",
        Unit::Percent,
        valid(|f| UsageDifference::of(f).prompt),
    ),
    Metric::of(
        "usage_completion_tokens_diff_pct",
        "Usage Completion Diff %",
        Unit::Percent,
        valid(|f| UsageDifference::of(f).completion),
    ),
    Metric::of(
        "usage_reasoning_tokens_diff_pct",
        "Usage Reasoning Diff %",
        Unit::Percent,
        valid(|f| UsageDifference::of(f).reasoning),
    ),
    // From here on few servers report anything, and the others' requests skip the rest of the table.
    usage(
        "usage_prompt_cache_write_tokens",
        "Usage Prompt Cache Write Tokens",
        valid(|f| detail(f, |details| details.cache_write_tokens)),
        1_015,
    ),
    usage(
        "usage_prompt_cache_miss_tokens",
        "Usage Prompt Cache Miss Tokens",
        valid(|f| detail(f, |details| details.cache_miss_tokens)),
        1_017,
    ),
    usage(
        "usage_prompt_audio_tokens",
        "Usage Prompt Audio Tokens",
        valid(|f| detail(f, |details| details.prompt_audio_tokens)),
        1_020,
    )
    .larger(),
    Metric::of(
        "usage_prompt_audio_seconds",
        "Usage Prompt Audio Seconds",
        Unit::Seconds,
        valid(|f| detail(f, |details| details.prompt_audio_seconds)),
    )
    .larger()
    .shown(Table::Usage, 1_040),
    usage(
        "usage_tool_use_prompt_tokens",
        "Usage Tool Use Prompt Tokens",
        valid(|f| detail(f, |details| details.tool_use_prompt_tokens)),
        1_030,
    ),
    usage(
        "usage_completion_audio_tokens",
        "Usage Completion Audio Tokens",
        valid(|f| detail(f, |details| details.completion_audio_tokens)),
        1_120,
    )
    .larger(),
    usage(
        "usage_accepted_prediction_tokens",
        "Usage Accepted Prediction Tokens",
        valid(|f| detail(f, |details| details.accepted_prediction_tokens)),
        1_130,
    )
    .larger(),
    usage(
        "usage_rejected_prediction_tokens",
        "Usage Rejected Prediction Tokens",
        valid(|f| detail(f, |details| details.rejected_prediction_tokens)),
        1_140,
    ),
];

const fn usage(tag: &'static str, header: &'static str, source: Source, order: u16) -> Metric {
    Metric::of(tag, header, TOKENS, source).shown(Table::Usage, order)
}

const fn lag(tag: &'static str, header: &'static str, at: LagAt) -> Metric {
    derived(tag, header, Unit::Milliseconds, Derived::ReplaySchedLag(at))
}

const fn derived(tag: &'static str, header: &'static str, unit: Unit, derived: Derived) -> Metric {
    Metric::of(tag, header, unit, Source::Derived(derived))
}

const fn total(tag: &'static str, header: &'static str, sampled: Sampled) -> Metric {
    Metric::of(tag, header, TOKENS, Source::Derived(Derived::Total(sampled)))
}

/// Metrics with one value per scope, and the error-adjusted twins.
pub const SINGLES: [Metric; 42] = [
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
    derived("goodput", "Goodput", Unit::RequestsPerSecond, Derived::Goodput).shown(Table::Main, 1_000),
    derived("good_request_count", "Good Request Count", Unit::Requests, Derived::GoodRequestCount),
    derived("good_request_fraction", "GoodRequestFraction", Unit::Ratio, Derived::GoodRequestFraction),
    total("total_output_tokens", "Total Output Tokens", Sampled::OutputTokenCount),
    total("total_reasoning_tokens", "Total Reasoning Tokens", Sampled::ReasoningTokenCount),
    derived("benchmark_duration", "Benchmark Duration", Unit::Seconds, Derived::BenchmarkDuration),
    total("total_isl", "Total Input Sequence Length", Sampled::InputSequenceLength),
    total("total_osl", "Total Output Sequence Length", Sampled::OutputSequenceLength),
    derived("error_request_count", "Error Request Count", Unit::Requests, Derived::ErrorRequestCount),
    derived(
        "context_overflow_count",
        "Context Overflow Count",
        Unit::Requests,
        Derived::ContextOverflowCount,
    ),
    derived("osl_mismatch_count", "OSL Mismatch Count", Unit::Requests, Derived::OslMismatchCount),
    derived(
        "usage_discrepancy_count",
        "Usage Discrepancy Count",
        Unit::Requests,
        Derived::UsageDiscrepancyCount,
    ),
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
    total(
        "total_usage_prompt_cache_write_tokens",
        "Total Usage Prompt Cache Write Tokens",
        Sampled::UsagePromptCacheWriteTokens,
    )
    .shown(Table::Usage, 2_015),
    total(
        "total_usage_prompt_cache_miss_tokens",
        "Total Usage Prompt Cache Miss Tokens",
        Sampled::UsagePromptCacheMissTokens,
    )
    .shown(Table::Usage, 2_017),
    total(
        "total_usage_prompt_audio_tokens",
        "Total Usage Prompt Audio Tokens",
        Sampled::UsagePromptAudioTokens,
    )
    .shown(Table::Usage, 2_020),
    total(
        "total_usage_tool_use_prompt_tokens",
        "Total Usage Tool Use Prompt Tokens",
        Sampled::UsageToolUsePromptTokens,
    )
    .shown(Table::Usage, 2_030),
    derived(
        "total_usage_prompt_audio_seconds",
        "Total Usage Prompt Audio Seconds",
        Unit::Seconds,
        Derived::Total(Sampled::UsagePromptAudioSeconds),
    )
    .shown(Table::Usage, 2_040),
    total("total_usage_completion_tokens", "Total Usage Completion Tokens", Sampled::UsageCompletionTokens)
        .shown(Table::Usage, 2_100),
    total("total_usage_reasoning_tokens", "Total Usage Reasoning Tokens", Sampled::UsageReasoningTokens)
        .shown(Table::Usage, 2_110),
    total(
        "total_usage_completion_audio_tokens",
        "Total Usage Completion Audio Tokens",
        Sampled::UsageCompletionAudioTokens,
    )
    .shown(Table::Usage, 2_120),
    total(
        "total_usage_accepted_prediction_tokens",
        "Total Usage Accepted Prediction Tokens",
        Sampled::UsageAcceptedPredictionTokens,
    )
    .shown(Table::Usage, 2_130),
    total(
        "total_usage_rejected_prediction_tokens",
        "Total Usage Rejected Prediction Tokens",
        Sampled::UsageRejectedPredictionTokens,
    )
    .shown(Table::Usage, 2_140),
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
    lag("replay_sched_lag_p50", "Replay Schedule Lag p50", LagAt::P50),
    lag("replay_sched_lag_p90", "Replay Schedule Lag p90", LagAt::P90),
    lag("replay_sched_lag_p99", "Replay Schedule Lag p99", LagAt::P99),
    derived("replay_sched_degraded", "Replay Schedule Degraded", Unit::Count, Derived::ReplaySchedDegraded),
];

const fn adjusted(tag: &'static str, header: &'static str, sampled: Sampled, order: u16) -> Metric {
    Metric::of(tag, header, MS, Source::Adjusted(sampled)).shown(Table::Main, order)
}

const fn curve(tag: &'static str, header: &'static str, unit: Unit, table: Table, series: Series) -> Metric {
    Metric::of(tag, header, unit, Source::Curve(series)).shown(table, series as u16)
}

/// Time-weighted metrics, in the order of [`Series::ALL`].
pub const WEIGHTED: [Metric; Series::ALL.len()] = [
    curve(
        "effective_concurrency",
        "Effective Concurrency",
        Unit::Requests,
        Table::Effective,
        Series::EffectiveConcurrency,
    ),
    curve(
        "effective_decode_throughput",
        "Effective Decode Throughput",
        Unit::TokensPerSecond,
        Table::Effective,
        Series::EffectiveDecodeThroughput,
    ),
    curve(
        "effective_prefill_throughput",
        "Effective Prefill Throughput",
        Unit::TokensPerSecond,
        Table::Effective,
        Series::EffectivePrefillThroughput,
    ),
    curve(
        "effective_decode_concurrency",
        "Effective Decode Concurrency",
        Unit::Requests,
        Table::Effective,
        Series::EffectiveDecodeConcurrency,
    ),
    curve(
        "effective_prefill_concurrency",
        "Effective Prefill Concurrency",
        Unit::Requests,
        Table::Effective,
        Series::EffectivePrefillConcurrency,
    ),
    curve(
        "effective_total_throughput",
        "Effective Total Throughput",
        Unit::TokensPerSecond,
        Table::Effective,
        Series::EffectiveTotalThroughput,
    ),
    curve(
        "effective_decode_throughput_per_user",
        "Effective Decode Throughput Per User",
        Unit::TokensPerSecondPerUser,
        Table::Effective,
        Series::EffectiveDecodeThroughputPerUser,
    ),
    curve(
        "effective_prefill_throughput_per_user",
        "Effective Prefill Throughput Per User",
        Unit::TokensPerSecondPerUser,
        Table::Effective,
        Series::EffectivePrefillThroughputPerUser,
    ),
    curve("tokens_in_flight", "Tokens In Flight", Unit::Tokens, Table::Effective, Series::TokensInFlight),
    curve(
        "active_decode_throughput",
        "Active Decode Throughput",
        Unit::TokensPerSecond,
        Table::Active,
        Series::ActiveDecodeThroughput,
    ),
    curve(
        "active_prefill_throughput",
        "Active Prefill Throughput",
        Unit::TokensPerSecond,
        Table::Active,
        Series::ActivePrefillThroughput,
    ),
    curve(
        "active_decode_throughput_per_user",
        "Active Decode Throughput Per User",
        Unit::TokensPerSecondPerUser,
        Table::Active,
        Series::ActiveDecodeThroughputPerUser,
    ),
    curve(
        "active_prefill_throughput_per_user",
        "Active Prefill Throughput Per User",
        Unit::TokensPerSecondPerUser,
        Table::Active,
        Series::ActivePrefillThroughputPerUser,
    ),
    curve(
        "active_total_throughput",
        "Active Total Throughput",
        Unit::TokensPerSecond,
        Table::Active,
        Series::ActiveTotalThroughput,
    ),
];
