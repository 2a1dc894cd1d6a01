//! File datasets against AIPerf 0.13.0: formats, conversations and the payload of every turn.
//!
//! Where texts are made from lengths, the words differ and everything else is the same: token counts, and
//! which texts begin alike.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::path::Path;

use phasor::dataset::{
    BatchSizes, Conversations, Distribution, FAULTS_MAX, FileError, FileFormat, FileSource, FileSpec, Loaded,
    Rendering, Synthesis, load,
};
use phasor::endpoint::{ContextMode, Dialect, EndpointSettings, render};
use phasor::tokenizer::Tokenizer;
use serde_json::{Value, json};

fn count(value: &Value) -> Option<u32> {
    value.as_u64().map(|value| u32::try_from(value).unwrap())
}

fn builtin() -> Tokenizer {
    Tokenizer::load("builtin").unwrap()
}

/// Lays the files of a vector into `directory` and says what is asked.
fn spec(vector: &Value, directory: &Path) -> FileSpec {
    let lines = |rows: &Value| -> String {
        rows.as_array().unwrap().iter().flat_map(|row| [row.to_string(), "\n".to_owned()]).collect()
    };
    let path = vector["dataset"]["path"].as_str().unwrap().trim_start_matches("<dir>/");
    let path = directory.join(path);
    if let Some(raw) = vector["file_raw"].as_str() {
        fs::write(&path, raw).unwrap();
    } else if let Some(files) = vector["files"].as_object() {
        for (name, rows) in files {
            fs::write(directory.join(name), lines(rows)).unwrap();
        }
    } else {
        fs::write(&path, lines(&vector["file_rows"])).unwrap();
    }
    let dataset = &vector["dataset"];
    let synthesis = &dataset["synthesis"];
    let number = |key: &str| synthesis[key].as_f64();
    let mut spec = FileSpec {
        format: dataset["format"].as_str().map(|name| FileFormat::named(name).unwrap()),
        entries: count(&dataset["entries"]),
        block_size: count(&dataset["block_size"]),
        synthesis: Synthesis {
            speedup_ratio: number("speedup_ratio").unwrap_or(1.0),
            prefix_len_multiplier: number("prefix_len_multiplier").unwrap_or(1.0),
            max_isl: synthesis["max_isl"].as_u64(),
            max_osl: synthesis["max_osl"].as_u64(),
            ..Synthesis::default()
        },
        batch_sizes: BatchSizes {
            prompts: count(&dataset["prompt_batch_size"]).unwrap_or(1),
            ..BatchSizes::default()
        },
        ..FileSpec::new(path, "demo-model")
    };
    spec.common.seed = vector["seed"].as_u64();
    spec.common.system_prompt = dataset["system_prompt"].as_str().map(str::to_owned);
    spec.common.osl = dataset["osl"].as_f64().map(Distribution::fixed);
    spec
}

fn vectors() -> Vec<Value> {
    serde_json::from_str(include_str!("data/dataset/files.json")).unwrap()
}

/// The texts of a payload's messages.
fn texts(payload: &Value) -> Option<Vec<&str>> {
    payload["messages"].as_array()?.iter().map(|message| message["content"].as_str()).collect()
}

/// Bytes that two texts have in common at their beginning, in tokens.
fn shared_tokens(tokenizer: &Tokenizer, one: &str, other: &str) -> usize {
    let (one, other) = (tokenizer.encode(one), tokenizer.encode(other));
    one.iter().zip(&other).take_while(|(one, other)| one == other).count()
}

#[test]
fn rows_become_the_conversations_that_aiperf_makes_of_them() {
    let builtin = builtin();
    let (mut compared, mut refused, mut generated) = (0, 0, 0);
    for vector in vectors() {
        let name = vector["name"].as_str().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let loaded = match load(&spec(&vector, directory.path()), Some(&builtin)) {
            Ok(loaded) => loaded,
            Err(error) => {
                assert!(vector.get("error").is_some(), "{name}: {error}");
                refused += 1;
                continue;
            }
        };
        assert!(vector.get("error").is_none(), "{name} should be refused");
        assert_eq!(loaded.format.name(), vector["format"].as_str().unwrap(), "{name}");
        let expected = vector["conversations"].as_array().unwrap();
        assert_eq!(loaded.conversations.len(), expected.len(), "{name}");
        let kind = vector["type"].as_str().unwrap_or("chat");
        let settings = EndpointSettings {
            streaming: vector["streaming"].as_bool().unwrap_or(true),
            ..EndpointSettings::new(Dialect::named(kind).unwrap(), "demo-model")
        };
        let mut made: Vec<(String, String)> = Vec::new();
        for (index, (conversation, expected)) in loaded.conversations.iter().zip(expected).enumerate() {
            assert_eq!(conversation.session_id, expected["session_id"].as_str().unwrap(), "{name}");
            let mode = conversation.context_mode.map(ContextMode::name);
            assert_eq!(json!(mode), expected["context_mode"], "{name}");
            assert_eq!(json!(conversation.system_message), expected["system_message"], "{name}");
            let turns = expected["turns"].as_array().unwrap();
            assert_eq!(conversation.turns.len(), turns.len(), "{name}");
            for (number, (turn, expected)) in conversation.turns.iter().zip(turns).enumerate() {
                assert_eq!(turn.timestamp_ms, expected["timestamp"].as_f64(), "{name}");
                assert_eq!(turn.delay_ms, expected["delay"].as_f64(), "{name}");
                let payload = render(&settings, &conversation.request(number).unwrap()).unwrap();
                let (ours, theirs) = (payload.value(), &vector["payloads"][index][number]);
                if ours == theirs {
                    continue;
                }
                // Made from a length: everything but the words is the same.
                let (mut ours, mut theirs) = (ours.clone(), theirs.clone());
                let (our_texts, their_texts) = (texts(&ours).unwrap(), texts(&theirs).unwrap());
                assert_eq!(our_texts.len(), their_texts.len(), "{name}");
                for (ours, theirs) in our_texts.into_iter().zip(their_texts) {
                    assert_eq!(builtin.count(ours), builtin.count(theirs), "{name}: {ours:?} {theirs:?}");
                    made.push((ours.to_owned(), theirs.to_owned()));
                }
                ours["messages"] = Value::Null;
                theirs["messages"] = Value::Null;
                assert_eq!(ours, theirs, "{name}");
                generated += 1;
            }
        }
        for (index, one) in made.iter().enumerate() {
            for other in made.iter().skip(index + 1) {
                let ours = shared_tokens(&builtin, &one.0, &other.0);
                let theirs = shared_tokens(&builtin, &one.1, &other.1);
                assert_eq!(ours, theirs, "{name}");
            }
        }
        compared += 1;
    }
    assert!(compared >= 26 && refused >= 6 && generated >= 13, "{compared} {refused} {generated}");
}

#[test]
fn pairs_of_a_sharegpt_file_are_aiperfs() {
    let vector: Value = serde_json::from_str(include_str!("data/dataset/sharegpt.json")).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("dataset.json");
    fs::write(&path, vector["entries"].to_string()).unwrap();
    let mut spec = FileSpec::new(path, "demo-model");
    spec.common.seed = Some(42);
    let loaded = load(&spec, Some(&builtin())).unwrap();
    assert_eq!(loaded.format, FileFormat::ShareGpt);
    let conversations: Vec<Value> = loaded
        .conversations
        .iter()
        .map(|conversation| {
            let turns: Vec<Value> = conversation
                .turns
                .iter()
                .map(|turn| {
                    let texts: Vec<Value> =
                        turn.texts.iter().map(|media| json!({"contents": media.contents})).collect();
                    json!({"model": "demo-model", "max_tokens": turn.max_tokens, "texts": texts})
                })
                .collect();
            json!({"session_id": conversation.session_id, "turns": turns})
        })
        .collect();
    assert_eq!(json!(conversations), vector["conversations"]);
    assert_eq!(loaded.warnings.len(), 1);
}

fn load_text(name: &str, text: &str, change: impl Fn(&mut FileSpec)) -> Result<Loaded, FileError> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(name);
    fs::write(&path, text).unwrap();
    let mut spec = FileSpec::new(path, "m");
    spec.common.seed = Some(1);
    change(&mut spec);
    load(&spec, Some(&builtin()))
}

#[test]
fn every_broken_row_is_named_with_its_line_up_to_a_limit() {
    let text =
        "{\"text\":\"a\"}\n{\"text\": \n\n{\"text\":5}\n[1]\n{\"turns\":[]}\n{\"text\":\"b\",\"delay\":-1}\n";
    let error = load_text("rows.jsonl", text, |spec| spec.format = Some(FileFormat::SingleTurn)).unwrap_err();
    let FileError::Rows { faults, more: 0 } = &error else { panic!("{error}") };
    let lines: Vec<(usize, Option<usize>)> = faults.iter().map(|fault| (fault.line, fault.column)).collect();
    assert_eq!(lines, [(2, Some(9)), (5, None)]);
    assert!(error.to_string().contains("rows.jsonl:2:9: this is not JSON"), "{error}");
    let text = text.replace("{\"text\": \n", "\n").replace("[1]\n", "\n");
    let error =
        load_text("rows.jsonl", &text, |spec| spec.format = Some(FileFormat::SingleTurn)).unwrap_err();
    let message = error.to_string();
    for part in ["rows.jsonl:4: `text` is a number", ":6: the row says nothing", ":7: `delay` is -1"] {
        assert!(message.contains(part), "{message}");
    }
    let many = "{\"text\":1}\n".repeat(FAULTS_MAX + 5);
    let error = load_text("rows.jsonl", &many, |_| {}).unwrap_err();
    assert!(error.to_string().ends_with("and 5 more rows that cannot be used"), "{error}");
}

#[test]
fn what_is_no_dataset_is_refused_with_a_cure() {
    for (name, text, part) in [
        ("empty.jsonl", "\n  \n", "has no row"),
        ("other.jsonl", "{\"prompt\":\"x\"}\n", "dataset.format"),
        ("both.jsonl", "{\"messages\":[]}\n", "`mooncake_trace` or `raw_payload`"),
        ("bytes.jsonl", "plain words\n", "fit no format"),
    ] {
        let error = load_text(name, text, |_| {}).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
    }
    let missing = load(&FileSpec::new("/not/there.jsonl".into(), "m"), None).unwrap_err();
    assert!(missing.to_string().contains("/not/there.jsonl"), "{missing}");
    let directory = tempfile::tempdir().unwrap();
    let nothing = load(&FileSpec::new(directory.path().into(), "m"), None).unwrap_err();
    assert!(matches!(nothing, FileError::Empty { .. }), "{nothing}");
    let path = directory.path().join("latin.jsonl");
    fs::write(&path, b"{\"text\":\"a\"}\n{\"text\":\"\xff\"}\n").unwrap();
    let latin = load(&FileSpec::new(path, "m"), None).unwrap_err();
    assert!(latin.to_string().contains("line 2 is not UTF-8"), "{latin}");
    let trace = "{\"input_length\":5}\n";
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("trace.jsonl");
    fs::write(&path, trace).unwrap();
    let error = load(&FileSpec::new(path, "m"), None).unwrap_err();
    assert!(error.to_string().contains("tokenizer.name"), "{error}");
}

#[test]
fn settings_that_mean_nothing_to_a_format_are_refused() {
    let faster = Synthesis { speedup_ratio: 2.0, ..Synthesis::default() };
    let error = load_text("a.jsonl", "{\"text\":\"a\"}\n", |spec| spec.synthesis = faster).unwrap_err();
    assert!(error.to_string().contains("dataset.synthesis"), "{error}");
    let two = BatchSizes { prompts: 2, ..BatchSizes::default() };
    let error = load_text("a.jsonl", "{\"text\":\"a\"}\n", |spec| spec.batch_sizes = two).unwrap_err();
    assert!(error.to_string().contains("prompt_batch_size"), "{error}");
}

#[test]
fn a_packed_file_is_unpacked() {
    use std::io::Write as _;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("rows.jsonl.gz");
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(b"{\"text\":\"a\"}\n{\"text\":\"b\"}\n").unwrap();
    fs::write(&path, packed.finish().unwrap()).unwrap();
    assert_eq!(load(&FileSpec::new(path, "m"), None).unwrap().conversations.len(), 2);
}

#[test]
fn blocks_are_the_same_in_any_order_of_rows_and_differ_between_traces() {
    let row = |ids: &[u32]| json!({"input_length": ids.len() * 16, "hash_ids": ids}).to_string() + "\n";
    let (one, other) = (row(&[1, 2]), row(&[2, 3]));
    let body = |text: &str, change: &dyn Fn(&mut FileSpec)| {
        let loaded = load_text("t.jsonl", text, |spec| {
            spec.block_size = Some(16);
            change(spec);
        });
        let conversations = loaded.unwrap().conversations;
        conversations.iter().map(|found| found.turns[0].texts[0].contents[0].clone()).collect::<Vec<_>>()
    };
    let forward = body(&(one.clone() + &other), &|_| {});
    let builtin = builtin();
    assert_eq!(shared_tokens(&builtin, &forward[0], &forward[1]), 1);
    let second = |text: &str| builtin.encode(text).split_off(16);
    assert_eq!(second(&forward[0]), builtin.encode(&forward[1])[..16]);
    assert_ne!(forward, body(&(one.clone() + &other), &|spec| spec.common.seed = Some(2)));
    let alike = "{\"input_length\":32,\"hash_ids\":[1]}\n";
    let error = load_text("t.jsonl", &format!("{alike}{{\"input_length\":8,\"hash_ids\":[1]}}\n"), |spec| {
        spec.block_size = Some(16);
    })
    .unwrap_err();
    assert!(error.to_string().contains("t.jsonl:2: `hash_ids` has 1 with 8 tokens"), "{error}");
    let error = load_text("t.jsonl", "{\"input_length\":8,\"hash_ids\":[1,2]}\n", |spec| {
        spec.block_size = Some(16);
    })
    .unwrap_err();
    assert!(error.to_string().contains("dataset.block_size"), "{error}");
}

#[test]
fn a_table_of_lengths_is_a_trace() {
    let text = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,x,472,18,490,l\n\
                45,x,1087,230,1317,l\n";
    let loaded = load_text("burst.csv", text, |_| {}).unwrap();
    assert_eq!(loaded.format, FileFormat::BurstGptTrace);
    let builtin = builtin();
    let found: Vec<(Option<f64>, usize, Option<u64>)> = loaded
        .conversations
        .iter()
        .map(|found| &found.turns[0])
        .map(|turn| (turn.timestamp_ms, builtin.count(&turn.texts[0].contents[0]), turn.max_tokens))
        .collect();
    assert_eq!(found, [(Some(5_000.0), 472, Some(18)), (Some(45_000.0), 1_087, Some(230))]);
    let error = load_text("burst.csv", &text.replace("1087", "many"), |_| {}).unwrap_err();
    assert!(error.to_string().contains("burst.csv:3: `Request tokens` is `many`"), "{error}");
}

#[test]
fn rows_outside_of_the_window_and_beyond_the_limits_are_left_out() {
    let rows: String = [0, 100, 200, 300, 400]
        .iter()
        .flat_map(|stamp| [json!({"timestamp": stamp, "text_input": "t"}).to_string(), "\n".to_owned()])
        .collect();
    let loaded = load_text("t.jsonl", &rows, |spec| spec.window_ms = (Some(100.0), Some(300.0))).unwrap();
    assert_eq!(loaded.conversations.len(), 3);
}

#[test]
fn pictures_of_this_machine_become_data() {
    let directory = tempfile::tempdir().unwrap();
    let picture = directory.path().join("a.png");
    fs::write(&picture, b"\x89PNG\r\n\x1a\nrest").unwrap();
    let row = json!({"text": "look", "image": picture}).to_string();
    let loaded = load_text("a.jsonl", &row, |_| {}).unwrap();
    let image = &loaded.conversations[0].turns[0].images[0].contents[0];
    assert_eq!(image, "data:image/png;base64,iVBORw0KGgpyZXN0");
    let missing = json!({"text": "look", "image": directory.path().join("no.png")}).to_string();
    let error = load_text("a.jsonl", &missing, |_| {}).unwrap_err();
    assert!(error.to_string().contains("a.jsonl:1:") && error.to_string().contains("no.png"), "{error}");
}

#[test]
fn rows_of_the_config_are_read_like_those_of_a_file() {
    let rows = vec![json!({"text": "a"}), json!({"text": "b", "output_length": 3})];
    let mut spec = FileSpec::new(String::new().into(), "m");
    spec.source = FileSource::Inline(vec![(String::new(), rows)]);
    spec.common.numbered_sessions = true;
    let loaded = load(&spec, None).unwrap();
    let settings = EndpointSettings::new(Dialect::chat(), "m");
    let rendering = Rendering { settings: &settings, tokenizers: None, threads: 1, progress: &|_| {} };
    let dataset = rendering.dataset(Conversations::Listed(&loaded.conversations)).unwrap();
    assert_eq!(dataset.rows().len(), 2);
    assert_eq!(
        String::from_utf8_lossy(dataset.body(&dataset.rows()[1])),
        r#"{"messages":[{"role":"user","content":"b"}],"model":"m","stream":false,"max_completion_tokens":3}"#
    );
    assert!(dataset.rows().iter().all(|row| row.isl_tokens.is_none()));
}
