//! Flags of what is sent.

use crate::config::flags::table::{Group, flag};
use crate::config::flags::{LoadFlag, Part, Sets, SpecialFlag, Takes};
use crate::config::keys::Bound;

pub(super) const GROUPS: &[Group] = &[
    Group {
        title: "Prompts",
        flags: &[
            flag(
                &["prompt-batch-size", "batch-size-text", "batch-size"],
                Takes::Whole(0),
                Sets::Dataset("prompts.batch_size"),
                "Prompts in one request",
            )
            .short('b'),
            flag(
                &["prompt-corpus"],
                Takes::Text,
                Sets::Dataset("prompts.corpus"),
                "What words are taken from: sonnet, coding or random",
            ),
            flag(
                &["cache-bust"],
                Takes::Text,
                Sets::Dataset("prompts.cache_bust.target"),
                "Where a mark that defeats the server's cache is put",
            ),
            flag(
                &["system-prompt"],
                Takes::Text,
                Sets::Dataset("system_prompt"),
                "Text in front of every conversation",
            ),
            flag(
                &["system-prompt-file"],
                Takes::Text,
                Sets::Dataset("system_prompt_file"),
                "The same, in a file",
            ),
            flag(
                &["prompt-prefix-pool-size", "prefix-prompt-pool-size", "num-prefix-prompts"],
                Takes::Whole(0),
                Sets::Dataset("prefix_prompts.pool_size"),
                "Texts of the pool that prefixes are from",
            ),
            flag(
                &["prompt-prefix-length", "prefix-prompt-length"],
                Takes::Whole(0),
                Sets::Dataset("prefix_prompts.length"),
                "Tokens of each",
            ),
            flag(
                &["shared-system-prompt-length"],
                Takes::Whole(1),
                Sets::Dataset("prefix_prompts.shared_system_length"),
                "Tokens of a system prompt for all",
            ),
            flag(
                &["user-context-prompt-length"],
                Takes::Whole(1),
                Sets::Dataset("prefix_prompts.user_context_length"),
                "Tokens of each user's context",
            ),
            flag(
                &["prompt-input-tokens-mean", "synthetic-input-tokens-mean", "isl"],
                Takes::Wholes(0),
                Sets::Distribution("prompts.isl", Part::Mean),
                "Prompt length in tokens",
            ),
            flag(
                &["prompt-input-tokens-stddev", "synthetic-input-tokens-stddev", "isl-stddev"],
                Takes::Numbers(Bound::AtLeast(0.0)),
                Sets::Distribution("prompts.isl", Part::Deviation),
                "Its deviation",
            ),
            flag(
                &["prompt-input-tokens-block-size", "synthetic-input-tokens-block-size", "isl-block-size"],
                Takes::Whole(1),
                Sets::Dataset("prompts.block_size"),
                "Tokens of a block of equal text",
            ),
            flag(
                &["seq-dist", "sequence-distribution"],
                Takes::Text,
                Sets::Special(SpecialFlag::SequenceDistribution),
                "Pairs of lengths with shares: 256,64:60;1024|100,128:40",
            ),
            flag(
                &["random-range-ratio"],
                Takes::Text,
                Sets::Special(SpecialFlag::RandomRange),
                "How far lengths may be from their middle, as a share of it",
            ),
            flag(
                &["random-corpus-style"],
                Takes::Text,
                Sets::Dataset("prompts.random_corpus_style"),
                "Whose rule that is: vllm or sglang",
            ),
            flag(
                &["prompt-output-tokens-mean", "output-tokens-mean", "osl"],
                Takes::Wholes(0),
                Sets::Distribution("prompts.osl", Part::Mean),
                "Reply length in tokens",
            ),
            flag(
                &["prompt-output-tokens-stddev", "output-tokens-stddev", "osl-stddev"],
                Takes::Numbers(Bound::AtLeast(0.0)),
                Sets::Distribution("prompts.osl", Part::Deviation),
                "Its deviation",
            ),
        ],
    },
    Group {
        title: "Conversations",
        flags: &[
            flag(
                &["conversation-num", "num-conversations", "num-sessions"],
                Takes::Wholes(0),
                Sets::Load(LoadFlag::Sessions),
                "Sessions to start",
            ),
            flag(
                &["num-dataset-entries", "num-prompts"],
                Takes::Whole(1),
                Sets::Special(SpecialFlag::Entries),
                "Conversations of the dataset",
            ),
            flag(
                &["conversation-turn-mean", "session-turns-mean"],
                Takes::Wholes(0),
                Sets::Distribution("turns", Part::Mean),
                "Turns of a conversation",
            ),
            flag(
                &["conversation-turn-stddev", "session-turns-stddev"],
                Takes::Whole(0),
                Sets::Distribution("turns", Part::Deviation),
                "Deviation of turns",
            ),
            flag(
                &["conversation-turn-delay-mean", "session-turn-delay-mean"],
                Takes::Number(Bound::AtLeast(0.0)),
                Sets::Distribution("turn_delay", Part::Mean),
                "Time between turns in ms",
            ),
            flag(
                &["conversation-turn-delay-stddev", "session-turn-delay-stddev"],
                Takes::Number(Bound::AtLeast(0.0)),
                Sets::Distribution("turn_delay", Part::Deviation),
                "Deviation of that in ms",
            ),
            flag(
                &["conversation-turn-delay-ratio", "session-delay-ratio"],
                Takes::Number(Bound::AtLeast(0.0)),
                Sets::Dataset("turn_delay_ratio"),
                "Factor on the time between turns",
            ),
            flag(
                &["inter-turn-delay-cap-seconds"],
                Takes::Number(Bound::AtLeast(0.0)),
                Sets::Dataset("inter_turn_delay_cap_seconds"),
                "Longest time between turns",
            ),
            flag(
                &["max-idle-gap-cap-seconds"],
                Takes::Number(Bound::Above(0.0)),
                Sets::Dataset("max_idle_gap_cap_seconds"),
                "Longest gap of a trace",
            ),
            flag(
                &["replay-speedup"],
                Takes::Number(Bound::Above(0.0)),
                Sets::Dataset("replay_speedup"),
                "Factor on the speed of a trace",
            ),
            flag(
                &["open-loop-replay"],
                Takes::TwoWaySwitch,
                Sets::Dataset("open_loop_replay"),
                "Keep a trace's times whatever the server does",
            ),
            flag(
                &["open-loop-strict"],
                Takes::Switch,
                Sets::Dataset("open_loop_strict"),
                "Fail where they cannot be kept",
            ),
            flag(
                &["omit-kv-hints"],
                Takes::Switch,
                Sets::Dataset("omit_kv_hints"),
                "Leave out hints for the cache",
            ),
            flag(
                &["force-min-tokens"],
                Takes::TwoWaySwitch,
                Sets::Dataset("force_min_tokens"),
                "Ask for replies of the recorded length",
            ),
        ],
    },
    Group {
        title: "Input",
        flags: &[
            flag(
                &["extra-inputs"],
                Takes::Pairs,
                Sets::Special(SpecialFlag::ExtraInputs),
                "Members of every request body: name:value,... or JSON",
            ),
            flag(
                &["header"],
                Takes::Pairs,
                Sets::Special(SpecialFlag::Headers),
                "Headers of every request: name:value,... or JSON",
            )
            .short('H'),
            flag(
                &["input-file"],
                Takes::Text,
                Sets::Special(SpecialFlag::InputFile),
                "Records to send, in a file",
            ),
            flag(
                &["public-dataset"],
                Takes::Text,
                Sets::Special(SpecialFlag::PublicDataset),
                "Well-known collection to send",
            )
            .alone(),
            flag(&["hf-subset"], Takes::Text, Sets::Dataset("hf_subset"), "Subset of that collection"),
            flag(
                &["hf-weka-dataset"],
                Takes::Text,
                Sets::Refused("replays of recorded agents are no part of phasor"),
                "Recorded agents to replay",
            )
            .alone(),
            flag(&["dataset-filter"], Takes::Texts, Sets::Dataset("filters"), "Filters of the records"),
            flag(
                &["custom-dataset-type"],
                Takes::Text,
                Sets::Special(SpecialFlag::CustomDatasetType),
                "Format of the records: single_turn, multi_turn, mooncake_trace, ...",
            ),
            flag(
                &["ignore-trace-delays"],
                Takes::Switch,
                Sets::Dataset("ignore_trace_delays"),
                "Leave out the delays of a trace",
            ),
            flag(
                &["use-think-time-only"],
                Takes::Switch,
                Sets::Dataset("use_think_time_only"),
                "Keep only the time that users think",
            ),
            flag(
                &["max-context-length"],
                Takes::Whole(1),
                Sets::Dataset("max_context_length"),
                "Longest context of a record in tokens",
            ),
            flag(
                &["dataset-sampling-strategy"],
                Takes::Text,
                Sets::Dataset("sampling"),
                "Order of entries: sequential, random or shuffle",
            ),
            flag(
                &["allow-dataset-wrap"],
                Takes::TwoWaySwitch,
                Sets::Dataset("synthesis.allow_dataset_wrap"),
                "Start a trace again at its end",
            ),
            flag(
                &["random-seed"],
                Takes::Whole(0),
                Sets::Special(SpecialFlag::RandomSeed),
                "Root of all seeded streams",
            ),
            flag(
                &["trace-session-sample-ratio"],
                Takes::Number(Bound::AboveTo(0.0, 1.0)),
                Sets::Dataset("trace_session_sample_ratio"),
                "Share of a trace's sessions",
            ),
        ],
    },
    Group {
        title: "Rankings",
        flags: &[
            flag(
                &["rankings-passages-mean"],
                Takes::Wholes(1),
                Sets::Distribution("rankings.passages", Part::Mean),
                "Passages of an entry",
            ),
            flag(
                &["rankings-passages-stddev"],
                Takes::Numbers(Bound::AtLeast(0.0)),
                Sets::Distribution("rankings.passages", Part::Deviation),
                "Their deviation",
            ),
            flag(
                &["rankings-passages-prompt-token-mean"],
                Takes::Wholes(1),
                Sets::Distribution("rankings.passage_tokens", Part::Mean),
                "Tokens of a passage",
            ),
            flag(
                &["rankings-passages-prompt-token-stddev"],
                Takes::Numbers(Bound::AtLeast(0.0)),
                Sets::Distribution("rankings.passage_tokens", Part::Deviation),
                "Their deviation",
            ),
            flag(
                &["rankings-query-prompt-token-mean"],
                Takes::Wholes(1),
                Sets::Distribution("rankings.query_tokens", Part::Mean),
                "Tokens of the query",
            ),
            flag(
                &["rankings-query-prompt-token-stddev"],
                Takes::Numbers(Bound::AtLeast(0.0)),
                Sets::Distribution("rankings.query_tokens", Part::Deviation),
                "Their deviation",
            ),
        ],
    },
    Group {
        title: "Synthesis of traces",
        flags: &[
            flag(
                &["synthesis-speedup-ratio"],
                Takes::Number(Bound::Above(0.0)),
                Sets::Dataset("synthesis.speedup_ratio"),
                "Times of a trace are divided by it",
            ),
            flag(
                &["synthesis-prefix-len-multiplier"],
                Takes::Number(Bound::Above(0.0)),
                Sets::Dataset("synthesis.prefix_len_multiplier"),
                "Factor on the part of a prompt that rows share",
            ),
            flag(
                &["synthesis-prefix-root-multiplier"],
                Takes::Whole(1),
                Sets::Dataset("synthesis.prefix_root_multiplier"),
                "Disjoint copies of the shared parts",
            ),
            flag(
                &["synthesis-prompt-len-multiplier"],
                Takes::Number(Bound::Above(0.0)),
                Sets::Dataset("synthesis.prompt_len_multiplier"),
                "Factor on the part of a prompt that is its own",
            ),
            flag(
                &["synthesis-output-len-multiplier"],
                Takes::Number(Bound::AtLeast(0.0)),
                Sets::Dataset("synthesis.output_len_multiplier"),
                "Factor on reply lengths",
            ),
            flag(
                &["synthesis-max-isl"],
                Takes::Whole(0),
                Sets::Dataset("synthesis.max_isl"),
                "Rows with longer prompts are left out",
            ),
            flag(
                &["synthesis-max-osl"],
                Takes::Whole(0),
                Sets::Dataset("synthesis.max_osl"),
                "Longer replies are cut to it",
            ),
        ],
    },
    Group {
        title: "Tokenizer",
        flags: &[
            flag(
                &["tokenizer"],
                Takes::Text,
                Sets::Field("tokenizer.name"),
                "Tokenizer by name or path; the model's unless given",
            ),
            flag(&["tokenizer-revision"], Takes::Text, Sets::Field("tokenizer.revision"), "Its revision"),
            flag(
                &["tokenizer-trust-remote-code"],
                Takes::Switch,
                Sets::Field("tokenizer.trust_remote_code"),
                "Let code of its repository run",
            ),
            flag(
                &["apply-chat-template"],
                Takes::Switch,
                Sets::Field("tokenizer.apply_chat_template"),
                "Count prompts as chat messages",
            ),
        ],
    },
];
