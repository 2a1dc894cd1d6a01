//! Synthetic datasets against AIPerf 0.13.0: every count, limit, delay and name is the same, the words are not.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Mutex;

use phasor::dataset::{
    CacheBust, CommonSpec, Composer, Conversations, Corpus, Dataset, DatasetError, Distribution, Law,
    PrefixSpec, RangeRatio, RangeStyle, RankingsSpec, Rendering, SequencePair, SyntheticSpec,
};
use phasor::endpoint::{Dialect, EndpointSettings};
use phasor::tokenizer::{Tokenizer, Tokenizers};
use serde_json::{Value, json};

/// Distributions that AIPerf flattens to a fixed value and phasor draws as written.
const DRAWN_AS_WRITTEN: [&str; 3] = ["empirical_collapses", "multimodal_collapses", "lognormal_collapses"];
/// A mark costs 6 to 15 tokens, depending on its digits. AIPerf takes off what one of them costs (10), phasor
/// the mean (11).
const MARKED: &str = "cache_bust_first_turn_prefix";
/// Media are not made yet.
const MEDIA: [&str; 1] = ["audio"];

fn distribution(value: &Value) -> Option<Distribution> {
    if let Some(value) = value.as_f64() {
        return Some(Distribution::fixed(value));
    }
    let number = |key: &str| value[key].as_f64();
    let list = |key: &str| value[key].as_array().cloned();
    let law = if let Some(points) = list("points") {
        let pair = |point: &Value| (point["value"].as_f64().unwrap(), point["weight"].as_f64().unwrap());
        Law::Empirical(points.iter().map(pair).collect())
    } else if let Some(peaks) = list("peaks") {
        let pair = |peak: &Value| (distribution(peak).unwrap(), peak["weight"].as_f64().unwrap());
        Law::Multimodal(peaks.iter().map(pair).collect())
    } else if let Some(median) = number("median") {
        Law::Lognormal { mean: number("mean")?, median }
    } else {
        Law::Normal { mean: number("mean")?, stddev: number("stddev").unwrap_or(0.0) }
    };
    Some(Distribution { law, min: number("min"), max: number("max") })
}

fn count(value: &Value) -> Option<u32> {
    value.as_u64().map(|value| u32::try_from(value).unwrap())
}

fn spec(vector: &Value) -> SyntheticSpec {
    let dataset = &vector["dataset"];
    let prompts = &dataset["prompts"];
    let either = |key: &str| distribution(&prompts[key]).or_else(|| distribution(&dataset[key]));
    let models = vector["models"].as_array().map_or_else(
        || vec!["demo-model".to_owned()],
        |models| models.iter().map(|model| model.as_str().unwrap().to_owned()).collect(),
    );
    let sequences = prompts["sequence_distribution"].as_array().into_iter().flatten();
    let prefix = &dataset["prefix_prompts"];
    let prefix = if let Some(size) = count(&prefix["pool_size"]) {
        Some(PrefixSpec::Pool { size, length: count(&prefix["length"]).unwrap_or(0) })
    } else if prefix.is_object() {
        Some(PrefixSpec::Shared {
            system_length: count(&prefix["shared_system_length"]),
            user_context_length: count(&prefix["user_context_length"]),
        })
    } else {
        None
    };
    SyntheticSpec {
        common: CommonSpec {
            seed: vector["seed"].as_u64(),
            models,
            system_prompt: dataset["system_prompt"].as_str().map(str::to_owned),
            osl: either("osl"),
            ..CommonSpec::default()
        },
        entries: count(&dataset["entries"]).unwrap(),
        isl: either("isl"),
        batch_size: count(&prompts["batch_size"]).unwrap_or(1),
        corpus: if prompts["corpus"] == "random" { Corpus::Random } else { Corpus::Words },
        sequences: sequences
            .map(|pair| SequencePair {
                isl: pair["isl"].as_f64().unwrap(),
                isl_stddev: pair["isl_stddev"].as_f64().unwrap_or(0.0),
                osl: pair["osl"].as_f64().unwrap(),
                osl_stddev: pair["osl_stddev"].as_f64().unwrap_or(0.0),
                probability_percent: pair["probability"].as_f64().unwrap(),
            })
            .collect(),
        range_ratio: prompts["random_range_ratio"].as_f64().map(|ratio| RangeRatio {
            input: ratio,
            output: ratio,
            style: match prompts["random_corpus_style"].as_str() {
                Some("sglang") => RangeStyle::Sglang,
                _ => RangeStyle::Vllm,
            },
        }),
        turns: distribution(&dataset["turns"]).unwrap_or_else(|| Distribution::fixed(1.0)),
        turn_delay_ms: distribution(&dataset["turn_delay"]).unwrap_or_else(|| Distribution::fixed(0.0)),
        turn_delay_ratio: dataset["turn_delay_ratio"].as_f64().unwrap_or(1.0),
        prefix,
        cache_bust: match prompts["cache_bust"]["target"].as_str() {
            Some("first_turn_prefix") => CacheBust::FirstTurnPrefix,
            _ => CacheBust::None,
        },
        rankings: dataset["rankings"].as_object().map(|rankings| RankingsSpec {
            passages: distribution(&rankings["passages"]).unwrap(),
            passage_tokens: distribution(&rankings["passage_tokens"]).unwrap(),
            query_tokens: distribution(&rankings["query_tokens"]).unwrap(),
        }),
    }
}

#[test]
fn counts_limits_delays_and_names_are_aiperfs() {
    let vectors: Vec<Value> = serde_json::from_str(include_str!("data/dataset/synthetic.json")).unwrap();
    let builtin = Tokenizer::load("builtin").unwrap();
    let (mut compared, mut refused) = (0, 0);
    for vector in vectors {
        let name = vector["name"].as_str().unwrap();
        if MEDIA.contains(&name) {
            continue;
        }
        let composer = match Composer::new(&spec(&vector), &builtin) {
            Ok(composer) => composer,
            Err(error) => {
                assert!(vector.get("error").is_some(), "{name}: {error}");
                assert_eq!(error, DatasetError::NothingEnabled);
                refused += 1;
                continue;
            }
        };
        assert!(vector.get("error").is_none(), "{name} should be refused");
        let expected = vector["conversations"].as_array().unwrap();
        assert_eq!(composer.len(), expected.len(), "{name}");
        for (index, expected) in expected.iter().enumerate() {
            let conversation = composer.conversation(index);
            assert_eq!(conversation.session_id, expected["session_id"].as_str().unwrap(), "{name}");
            let tokens = |text: &Option<String>| text.as_ref().map(|text| builtin.count(text));
            assert_eq!(json!(tokens(&conversation.system_message)), expected["system"], "{name}");
            assert_eq!(json!(tokens(&conversation.user_context_message)), expected["context"], "{name}");
            let turns: Vec<Value> = conversation
                .turns
                .iter()
                .map(|turn| {
                    let texts: Vec<Value> = turn
                        .texts
                        .iter()
                        .map(|media| {
                            // The mark is put in when a session begins.
                            let count =
                                |text: &String| builtin.count(text.trim_start_matches("[rid:000000000000]\n\n"));
                            json!({"name": media.name, "tokens": media.contents.iter().map(count).collect::<Vec<_>>()})
                        })
                        .collect();
                    json!({"model": turn.model, "max_tokens": turn.max_tokens, "delay_ms": turn.delay_ms, "texts": texts})
                })
                .collect();
            if DRAWN_AS_WRITTEN.contains(&name) {
                assert_eq!(turns.len(), 1, "{name}");
                assert_eq!(turns[0]["max_tokens"], expected["turns"][0]["max_tokens"], "{name}");
            } else if name == MARKED {
                let tokens = |turns: &Value| turns[0]["texts"][0]["tokens"][0].as_u64().unwrap();
                assert_eq!((tokens(&json!(turns)), tokens(&expected["turns"])), (53, 54));
            } else {
                assert_eq!(json!(turns), expected["turns"], "{name} {index}");
            }
        }
        compared += 1;
    }
    assert!(compared >= 18 && refused == 2, "{compared} {refused}");
}

fn rendered(spec: &SyntheticSpec, tokenizer: &Tokenizer, threads: usize) -> Dataset {
    let settings = EndpointSettings { streaming: true, ..EndpointSettings::new(Dialect::chat(), "m") };
    let composer = Composer::new(spec, tokenizer).unwrap();
    let tokenizers = Tokenizers::from(tokenizer.clone());
    let rendering =
        Rendering { settings: &settings, tokenizers: Some(&tokenizers), threads, progress: &|_| {} };
    rendering.dataset(Conversations::Composed(&composer)).unwrap()
}

fn lively(seed: u64) -> SyntheticSpec {
    let mut spec = SyntheticSpec::new(300, Distribution::normal(60.0, 30.0), "m");
    spec.common.seed = Some(seed);
    spec.common.osl = Some(Distribution::normal(40.0, 10.0));
    spec.turns = Distribution::normal(2.0, 1.0);
    spec.turn_delay_ms = Distribution::normal(100.0, 20.0);
    spec.prefix = Some(PrefixSpec::Pool { size: 3, length: 20 });
    spec
}

#[test]
fn bodies_do_not_depend_on_the_number_of_threads() {
    for tokenizer in [Tokenizer::Words, Tokenizer::load("builtin").unwrap()] {
        for corpus in [Corpus::Words, Corpus::Random] {
            let spec = SyntheticSpec { corpus, entries: 100, ..lively(1) };
            let (one, many) = (rendered(&spec, &tokenizer, 1), rendered(&spec, &tokenizer, 7));
            assert_eq!(one.block(), many.block());
            assert_eq!(
                (one.rows(), one.details(), one.sessions()),
                (many.rows(), many.details(), many.sessions())
            );
        }
    }
    let (one, other) =
        (rendered(&lively(1), &Tokenizer::Words, 2), rendered(&lively(2), &Tokenizer::Words, 2));
    assert_ne!(one.block(), other.block());
}

#[test]
fn lengths_in_a_dataset_are_those_of_the_bodies() {
    let builtin = Tokenizer::load("builtin").unwrap();
    let mut with_system = lively(3);
    with_system.prefix = Some(PrefixSpec::Shared { system_length: Some(12), user_context_length: Some(9) });
    let mut with_own = with_system.clone();
    with_own.common.system_prompt = Some("You are terse.".to_owned());
    for spec in [lively(3), with_system, with_own, SyntheticSpec { batch_size: 3, ..lively(3) }] {
        let dataset = rendered(&spec, &builtin, 2);
        for row in dataset.rows() {
            let body: Value = serde_json::from_slice(dataset.body(row)).unwrap();
            let counted = builtin.count(&phasor::endpoint::input_texts(&body).joined().unwrap());
            assert_eq!(row.isl_tokens, Some(u32::try_from(counted).unwrap()));
            assert_eq!(json!(row.osl_tokens), body["max_completion_tokens"]);
        }
    }
}

#[test]
fn every_session_knows_its_rows_and_where_its_history_goes() {
    let dataset = rendered(&lively(4), &Tokenizer::Words, 3);
    assert_eq!(dataset.sessions().len(), 300);
    let mut turns_seen = 0;
    for session in dataset.sessions() {
        let rows = &dataset.rows()[session.rows.clone()];
        let details = &dataset.details()[session.rows.clone()];
        turns_seen = turns_seen.max(rows.len());
        assert!(rows.windows(2).all(|pair| pair[0].conversation_id == pair[1].conversation_id));
        for (turn, (row, details)) in rows.iter().zip(details).enumerate() {
            let own = details.own_items.clone().unwrap();
            assert!(row.body.start < own.start && own.end < row.body.end);
            let item: Value = serde_json::from_slice(&dataset.block()[own]).unwrap();
            assert_eq!(item["role"], "user");
            assert_eq!(details.delay_ms.is_some(), turn > 0);
        }
    }
    assert!(turns_seen > 2);
}

#[test]
fn marks_stand_where_the_details_say() {
    let mut spec = lively(5);
    spec.turns = Distribution::fixed(1.0);
    for target in [CacheBust::FirstTurnPrefix, CacheBust::FirstTurnSuffix, CacheBust::SystemPrefix] {
        spec.cache_bust = target;
        let dataset = rendered(&spec, &Tokenizer::Words, 2);
        for details in dataset.details() {
            let at = details.mark_at.unwrap();
            assert_eq!(&dataset.block()[at - 5..at + 13], b"[rid:000000000000]", "{target:?}");
        }
    }
}

#[test]
fn what_cannot_be_drawn_is_refused_with_its_key() {
    let refuse = |change: &dyn Fn(&mut SyntheticSpec), key: &str| {
        let mut spec = lively(6);
        change(&mut spec);
        let error = Composer::new(&spec, &Tokenizer::Words).unwrap_err().to_string();
        assert!(error.contains(key), "{error}");
    };
    refuse(&|spec| spec.entries = 0, "dataset.entries");
    refuse(&|spec| spec.isl = None, "dataset.prompts.isl");
    refuse(&|spec| spec.prefix = Some(PrefixSpec::Pool { size: 3, length: 0 }), "prefix_prompts");
    refuse(
        &|spec| {
            spec.isl = Some(Distribution::fixed(0.001));
            spec.turns = Distribution::fixed(1e9);
        },
        "dataset.turns",
    );
    refuse(&|spec| spec.isl = Some(Distribution::fixed(1e12)), "dataset.prompts.isl");
    let pair =
        SequencePair { isl: 1.0, isl_stddev: 0.0, osl: 1.0, osl_stddev: 0.0, probability_percent: 99.9 };
    refuse(&|spec| spec.sequences = vec![pair], "sequence_distribution");
}

#[test]
fn progress_runs_from_nothing_to_all() {
    let seen = Mutex::new(Vec::new());
    let settings = EndpointSettings::new(Dialect::chat(), "m");
    let composer = Composer::new(&lively(7), &Tokenizer::Words).unwrap();
    let rendering = Rendering {
        settings: &settings,
        tokenizers: None,
        threads: 2,
        progress: &|share| seen.lock().unwrap().push(share),
    };
    rendering.dataset(Conversations::Composed(&composer)).unwrap();
    let seen = seen.into_inner().unwrap();
    assert!(seen.iter().all(|share| (0.0..=1.0).contains(share)) && seen.last() == Some(&1.0), "{seen:?}");
}
