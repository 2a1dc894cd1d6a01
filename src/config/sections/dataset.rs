//! A dataset: its common part, and what belongs to its type.

use serde_json::json;

use crate::config::diagnostic::Diagnostic;
use crate::config::keys::{Bound, Keys, Spelling, Words, Written, json_of};
use crate::config::meant::{
    BatchSizes, CacheBust, Corpus, Dataset, DatasetSource, FileDataset, LengthMix, Prefix, Prompts,
    PublicDataset, RandomRange, RangeStyle, Rankings, Replay, Sampling, Synthesis, SyntheticDataset,
    SystemPrompt,
};
use crate::config::scalar::Scalar;
use crate::config::sections::distribution::distribution;
use crate::config::sections::{NOT_NEGATIVE, require};
use crate::config::source::{Value, shown};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    File,
    Public,
    Synthetic,
}

const KINDS: Words<Kind> = Words {
    known: &[("synthetic", Kind::Synthetic), ("file", Kind::File), ("public", Kind::Public)],
    spelling: Spelling::Exact,
};
const SAMPLINGS: Words<Sampling> = Words {
    known: &[
        ("sequential", Sampling::Sequential),
        ("random", Sampling::Random),
        ("shuffle", Sampling::Shuffle),
    ],
    spelling: Spelling::Lenient,
};
const CORPORA: Words<Corpus> = Words {
    known: &[("sonnet", Corpus::Sonnet), ("coding", Corpus::Coding), ("random", Corpus::Random)],
    spelling: Spelling::Lenient,
};
const STYLES: Words<RangeStyle> = Words {
    known: &[("vllm", RangeStyle::Vllm), ("sglang", RangeStyle::Sglang)],
    spelling: Spelling::Lenient,
};

const TARGETS: Words<CacheBust> = Words {
    known: &[
        ("none", CacheBust::None),
        ("system_prefix", CacheBust::SystemPrefix),
        ("system_suffix", CacheBust::SystemSuffix),
        ("first_turn_prefix", CacheBust::FirstTurnPrefix),
        ("first_turn_suffix", CacheBust::FirstTurnSuffix),
        ("warmup_isolation_system", CacheBust::WarmupIsolationSystem),
        ("warmup_isolation_first_turn", CacheBust::WarmupIsolationFirstTurn),
    ],
    spelling: Spelling::Lenient,
};

/// Formats of records; a name with `*` stands for all that start so.
const FORMATS: &[&str] = &[
    "single_turn",
    "multi_turn",
    "random_pool",
    "mooncake_trace",
    "bailian_trace",
    "burst_gpt_trace",
    "raw_payload",
    "inputs_json",
    "dag_jsonl",
    "baseten_trace",
    "sagemaker_data_capture",
    "speed_bench_*",
    "tracelab",
    "weka_trace",
];
/// Well-known collections; a name with `*` stands for all that start so.
const COLLECTIONS: &[&str] = &[
    "sharegpt",
    "aimo",
    "aimo_aime",
    "aimo_numina_cot",
    "aimo_numina_1_5",
    "mmstar",
    "mmvu",
    "vision_arena",
    "llava_onevision",
    "spec_bench",
    "spec_al_*",
    "instruct_coder",
    "blazedit_5k",
    "blazedit_10k",
    "librispeech",
    "voxpopuli",
    "gigaspeech",
    "ami",
    "spgispeech",
    "exgentic",
    "exgentic_v2",
    "semianalysis_cc_traces_weka*",
    "weka_hf",
];

/// Fields for recorded traces that AIPerf has beside those that are read one by one.
const TRACE_FIELDS: &[&str] = &[
    "hf_subset",
    "filters",
    "max_context_length",
    "trace_session_sample_ratio",
    "max_idle_gap_cap_seconds",
    "replay_speedup",
    "open_loop_replay",
    "open_loop_strict",
    "omit_kv_hints",
    "force_min_tokens",
    "trace_idle_gap_cap_seconds",
];

/// The largest whole number that fields without a bound of their own may have.
const COUNT_MAX: u32 = u32::MAX;

pub(super) fn dataset(mut keys: Keys<'_>) -> Dataset {
    let name = keys.key("name").text();
    require(&mut keys, &name, "name");
    let kind = keys.key("type").word(KINDS);
    let entries = keys.key("entries").or_null().whole(1..=COUNT_MAX).optional();
    let random_seed = keys.key("random_seed").or_null().whole(0..=u64::MAX).optional();
    let sampling = keys.key("sampling").word(SAMPLINGS).or(Sampling::Sequential);
    let system_prompt = system_prompt(&mut keys);
    let replay = replay(&mut keys);
    let mut prompts = Prompts::default();
    let source = match kind {
        Written::Faulty => {
            // The keys of another type would only repeat the fault.
            keys.forgive();
            DatasetSource::Synthetic(SyntheticDataset::default())
        }
        Written::Absent => DatasetSource::Synthetic(synthetic(&mut keys, &mut prompts)),
        Written::Present(kind) => match kind.value {
            Kind::Synthetic => DatasetSource::Synthetic(synthetic(&mut keys, &mut prompts)),
            Kind::File => DatasetSource::File(file(&mut keys, &mut prompts)),
            Kind::Public => DatasetSource::Public(public(&mut keys, &mut prompts)),
        },
    };
    let own_count = match &source {
        DatasetSource::Synthetic(_) => Some(Dataset::ENTRIES),
        DatasetSource::File(_) | DatasetSource::Public(_) => None,
    };
    if let (Some(_), DatasetSource::Synthetic(SyntheticDataset { prefix: Some(_), .. })) =
        (&system_prompt, &source)
    {
        let (path, place) = (keys.path().to_owned(), keys.place());
        keys.fault(
            Diagnostic::error(format!(
                "`{path}`: `system_prompt` and `prefix_prompts` cannot stand together"
            ))
            .at(place, "two texts for one place")
            .with_help("keep one of the two"),
        );
    }
    keys.finish();
    Dataset {
        name: name.or(String::new()),
        entries: entries.or(own_count),
        sampling,
        random_seed,
        system_prompt,
        replay,
        prompts,
        source,
    }
}

fn system_prompt(keys: &mut Keys<'_>) -> Option<SystemPrompt> {
    let text = keys.key("system_prompt").or_null().text_or_empty();
    let file = keys.key("system_prompt_file").or_null().text_or_empty();
    for (written, name) in [(&text, "system_prompt"), (&file, "system_prompt_file")] {
        if written.value().is_some_and(|text| text.trim().is_empty()) {
            let message = format!("`{}.{name}` must not be blank", keys.path());
            keys.fault_at(written, message, "nothing in it", "take it out");
        }
    }
    if text.present().is_some() && file.present().is_some() {
        let message =
            format!("`{}`: `system_prompt` and `system_prompt_file` exclude each other", keys.path());
        keys.fault_at(&file, message, "one of the two", "keep one of the two");
    }
    text.optional().map(SystemPrompt::Text).or_else(|| file.optional().map(SystemPrompt::File))
}

fn replay(keys: &mut Keys<'_>) -> Replay {
    let turn_delay_ratio = keys.key("turn_delay_ratio").or_null().number(NOT_NEGATIVE).optional();
    let inter_turn_delay_cap_s =
        keys.key("inter_turn_delay_cap_seconds").or_null().seconds(NOT_NEGATIVE).optional();
    let ignore_trace_delays = keys.key("ignore_trace_delays").switch().or(false);
    let use_think_time_only = keys.key("use_think_time_only").switch().or(false);
    let mut others = Vec::new();
    for name in TRACE_FIELDS {
        if keys.key(name).or_null().any().present().is_some() {
            others.push((*name).to_owned());
        }
    }
    Replay { turn_delay_ratio, inter_turn_delay_cap_s, ignore_trace_delays, use_think_time_only, others }
}

fn synthetic(keys: &mut Keys<'_>, meant: &mut Prompts) -> SyntheticDataset {
    if let Some(prompts) = keys.key("prompts").or_null().section(prompts).optional() {
        *meant = prompts;
    }
    let prefix = keys.key("prefix_prompts").or_null().section(prefix).optional().flatten();
    let turns = distribution(keys, "turns");
    if turns.value().is_some_and(|turns| turns.mean() < 1.0) {
        let message = format!("`{}.turns` must be at least 1 on average", keys.path());
        keys.fault_at(&turns, message, "a conversation has a turn", "write `turns: 1`, or take it out");
    }
    let turn_delay_ms = distribution(keys, "turn_delay").optional();
    let mut media = Vec::new();
    let rankings = keys.key("rankings").or_null().section(rankings).or(Rankings::default());
    for name in ["images", "audio", "video"] {
        let written = keys.key(name).or_null();
        let given = written.entry().is_some();
        written.section(|keys: Keys<'_>| keys.pass());
        if given {
            media.push(name);
        }
    }
    SyntheticDataset { prefix, turns: turns.optional(), turn_delay_ms, media, rankings }
}

fn file(keys: &mut Keys<'_>, meant: &mut Prompts) -> FileDataset {
    let path = keys.key("path").or_null().text_or_empty();
    let records =
        keys.key("records").or_null().list("a list of records", |node| Some((json_of(node), json_of(node))));
    let format = one_of(keys, "format", FORMATS, "a format of records").optional();
    let osl = distribution(keys, "osl");
    let block_size = keys.key("block_size").or_null().whole(1..=COUNT_MAX).optional();
    let cache_bust = cache_bust(keys);
    let names = ["prompt_batch_size", "image_batch_size", "audio_batch_size", "video_batch_size"];
    let [prompts_drawn, images, audios, videos] = names.map(|name| {
        let size = keys.key(name).or_null().whole(0..=COUNT_MAX);
        if size.value().is_some() && format.as_deref() != Some("random_pool") {
            let message = format!("`{}.{name}` belongs to records of `format: random_pool`", keys.path());
            keys.fault_at(&size, message, "not with this format", "take it out");
        }
        size.or(1)
    });
    let batch_sizes = BatchSizes { prompts: prompts_drawn, images, audios, videos };
    let synthesis = keys.key("synthesis").or_null().section(synthesis).or(Synthesis::default());
    if let Some(prompts) = keys.key("prompts").or_null().section(prompts).optional() {
        *meant = prompts;
    }
    meant.osl = osl.optional().or_else(|| meant.osl.take());
    meant.block_size = block_size.or(meant.block_size);
    if cache_bust != CacheBust::None {
        meant.cache_bust = cache_bust;
    }
    match (path.is_absent(), records.is_absent()) {
        (true, true) => {
            let (at, place) = (keys.path().to_owned(), keys.place());
            keys.fault(
                Diagnostic::error(format!("`{at}` of type `file` has neither `path` nor `records`"))
                    .at(place, "where are the records?")
                    .with_help("add `path: trace.jsonl`"),
            );
        }
        (false, false) => {
            let message = format!("`{}`: `path` and `records` exclude each other", keys.path());
            keys.fault_at(&records, message, "one of the two", "keep one of the two");
        }
        (true, false) | (false, true) => {}
    }
    FileDataset { path: path.optional(), records: records.or(Vec::new()), format, synthesis, batch_sizes }
}

fn rankings(mut keys: Keys<'_>) -> Rankings {
    let defaults = Rankings::default();
    let passages = distribution(&mut keys, "passages").or(defaults.passages);
    let passage_tokens = distribution(&mut keys, "passage_tokens").or(defaults.passage_tokens);
    let query_tokens = distribution(&mut keys, "query_tokens").or(defaults.query_tokens);
    keys.pass();
    Rankings { passages, passage_tokens, query_tokens }
}

/// Changes to a trace; what else AIPerf has here does not touch what is sent.
fn synthesis(mut keys: Keys<'_>) -> Synthesis {
    let defaults = Synthesis::default();
    let above_zero = Bound::Above(0.0);
    let mut ratio = |name, bound, default| keys.key(name).or_null().number(bound).or(default);
    let speedup_ratio = ratio("speedup_ratio", above_zero, defaults.speedup_ratio);
    let prefix_len_multiplier = ratio("prefix_len_multiplier", above_zero, defaults.prefix_len_multiplier);
    let prompt_len_multiplier = ratio("prompt_len_multiplier", above_zero, defaults.prompt_len_multiplier);
    let output_len_multiplier = ratio("output_len_multiplier", NOT_NEGATIVE, defaults.output_len_multiplier);
    let prefix_root_multiplier = keys.key("prefix_root_multiplier").or_null().whole(1..=COUNT_MAX);
    let max_isl = keys.key("max_isl").or_null().whole(0..=u64::MAX).optional();
    let max_osl = keys.key("max_osl").or_null().whole(0..=u64::MAX).optional();
    keys.pass();
    Synthesis {
        speedup_ratio,
        prefix_len_multiplier,
        prefix_root_multiplier: prefix_root_multiplier.or(defaults.prefix_root_multiplier),
        prompt_len_multiplier,
        output_len_multiplier,
        max_isl,
        max_osl,
    }
}

fn public(keys: &mut Keys<'_>, meant: &mut Prompts) -> PublicDataset {
    let dataset = one_of(keys, "dataset", COLLECTIONS, "a well-known collection");
    require(keys, &dataset, "dataset");
    let osl = distribution(keys, "osl");
    if let Some(prompts) = keys.key("prompts").or_null().section(prompts).optional() {
        *meant = prompts;
    }
    meant.osl = osl.optional().or_else(|| meant.osl.take());
    PublicDataset { dataset: dataset.or(String::new()) }
}

/// A text that is one of `known`, in any case and with `-` for `_`.
fn one_of(keys: &mut Keys<'_>, name: &'static str, known: &[&str], what: &str) -> Written<String> {
    let written = keys.key(name).text().map(|text| text.to_ascii_lowercase().replace('-', "_"));
    let Some(text) = written.value() else { return written };
    let fits = known.iter().any(|known| match known.strip_suffix('*') {
        Some(start) => text.starts_with(start),
        None => text == known,
    });
    if !fits {
        let message = format!("`{}.{name}` must be {what}, found `{}`", keys.path(), shown(text));
        keys.fault_at(
            &written,
            message,
            "not one that is known",
            &format!("for example `{}`", known.first().unwrap_or(&"")),
        );
        return Written::Faulty;
    }
    keys.set_form(name, json!(text));
    written
}

fn prompts(mut keys: Keys<'_>) -> Prompts {
    let isl = distribution(&mut keys, "isl");
    let osl = distribution(&mut keys, "osl");
    let block_size = keys.key("block_size").or_null().whole(1..=COUNT_MAX).optional();
    let batch_size = keys.key("batch_size").whole(1..=COUNT_MAX).or(1);
    let cache_bust = cache_bust(&mut keys);
    let corpus = keys.key("corpus").or_null().word(CORPORA).optional();
    let mix = mix(&mut keys);
    let style = keys.key("random_corpus_style").or_null().word(STYLES).or(RangeStyle::Vllm);
    let random_range = random_range(&mut keys, style, isl.value().is_some(), osl.value().is_some());
    keys.finish();
    let defaults = Prompts::default();
    Prompts {
        isl: isl.or(defaults.isl),
        osl: osl.optional(),
        block_size,
        batch_size,
        cache_bust,
        corpus,
        mix,
        random_range,
    }
}

fn cache_bust(keys: &mut Keys<'_>) -> CacheBust {
    let read = keys.key("cache_bust").or_null().section(|mut keys| {
        let target = keys.key("target").word(TARGETS);
        keys.finish();
        target.or(CacheBust::None)
    });
    read.or(CacheBust::None)
}

/// How far shares may be from 100 percent in sum.
const PERCENT_TOLERANCE: f64 = 1.0;

fn mix(keys: &mut Keys<'_>) -> Vec<LengthMix> {
    if keys.key("sequence_distribution").or_null().entry().is_none() {
        return Vec::new();
    }
    let mix = keys.items("sequence_distribution", "a list of pairs of lengths", |mut keys| {
        let isl = with_spread(&mut keys, "isl", "isl_stddev");
        let osl = with_spread(&mut keys, "osl", "osl_stddev");
        let percent = keys.key("probability").number(Bound::Within(0.0, 100.0));
        require(&mut keys, &percent, "probability");
        keys.finish();
        LengthMix { isl, osl, percent: percent.or(0.0) }
    });
    if let Some(pairs) = mix.value() {
        let sum: f64 = pairs.iter().map(|pair| pair.percent).sum();
        if (sum - 100.0).abs() > PERCENT_TOLERANCE {
            let message = format!(
                "`{}.sequence_distribution`: the probabilities sum to {sum}, not to 100",
                keys.path()
            );
            keys.fault_at(&mix, message, "shares do not fit", "change the probabilities");
        }
    }
    mix.or(Vec::new())
}

/// A distribution, with the short form that gives the deviation of a number beside it.
fn with_spread(
    keys: &mut Keys<'_>,
    name: &'static str,
    spread: &'static str,
) -> crate::config::meant::Distribution {
    use crate::config::meant::{Distribution, Shape};
    let written = distribution(keys, name);
    require(keys, &written, name);
    let spread = keys.key(spread).number(NOT_NEGATIVE).optional();
    match (written.optional(), spread) {
        (Some(Distribution { shape: Shape::Fixed(mean), min, max }), Some(stddev)) => {
            keys.set_form(name, json!({ "mean": mean, "stddev": stddev }));
            Distribution { shape: Shape::Normal { mean, stddev }, min, max }
        }
        (Some(distribution), _) => distribution,
        (None, _) => Distribution::fixed(1.0),
    }
}

fn random_range(keys: &mut Keys<'_>, style: RangeStyle, isl: bool, osl: bool) -> Option<RandomRange> {
    let key = keys.key("random_range_ratio").or_null();
    let entry = key.entry()?;
    let read = match &entry.node.value {
        Value::Mapping(_) => key.section(|mut keys| {
            let input = keys.key("input").number(NOT_NEGATIVE);
            let output = keys.key("output").number(NOT_NEGATIVE);
            keys.finish();
            (input.or(0.0), output.or(0.0))
        }),
        Value::Scalar(Scalar::Integer(_) | Scalar::Float(_) | Scalar::Text(_)) => {
            key.number(NOT_NEGATIVE).map(|ratio| (ratio, ratio))
        }
        Value::Scalar(_) | Value::Sequence(_) => {
            key.refuse("a number or `{input, output}`");
            return None;
        }
    };
    let (input, output) = *read.value()?;
    let at = keys.path().to_owned();
    if !(isl && osl) {
        let message = format!("`{at}.random_range_ratio` needs `isl` and `osl`");
        keys.fault_at(&read, message, "around what?", "add both");
    } else if style == RangeStyle::Vllm && (input >= 1.0 || output >= 1.0) {
        let message = format!("`{at}.random_range_ratio` must be below 1 for the style `vllm`");
        keys.fault_at(&read, message, "lengths would reach 0", "write a number below 1");
    }
    Some(RandomRange { input, output, style })
}

fn prefix(mut keys: Keys<'_>) -> Option<Prefix> {
    let size = keys.key("pool_size").or_null().whole(0..=COUNT_MAX);
    let length = keys.key("length").or_null().whole(0..=COUNT_MAX);
    let system_length = keys.key("shared_system_length").or_null().whole(1..=COUNT_MAX);
    let user_context_length = keys.key("user_context_length").or_null().whole(1..=COUNT_MAX);
    let pool = size.value().is_some_and(|size| *size > 0) || length.value().is_some_and(|length| *length > 0);
    let shared = system_length.value().is_some() || user_context_length.value().is_some();
    if pool && shared {
        let message = format!("`{}`: a pool of prefixes and shared contexts exclude each other", keys.path());
        keys.fault_at(
            &Written::<()>::Absent,
            message,
            "two kinds of prefix",
            "keep `pool_size` and `length`, or `shared_system_length` and `user_context_length`",
        );
    }
    keys.finish();
    match (pool, shared) {
        (true, _) => Some(Prefix::Pool { size: size.or(0), length: length.or(0) }),
        (false, true) => Some(Prefix::Shared {
            system_length: system_length.optional(),
            user_context_length: user_context_length.optional(),
        }),
        (false, false) => None,
    }
}
