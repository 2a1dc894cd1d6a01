//! Token counts as AIPerf 0.13.0 has them, and the ways to find a tokenizer.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::path::PathBuf;

use phasor::tokenizer::{HubCache, Tokenizer, TokenizerError, is_placeholder};

fn local_directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/tokenizer")
}

fn load(name: &str) -> Tokenizer {
    Tokenizer::load(name).unwrap()
}

#[test]
fn builtin_counts_as_o200k_base() {
    let builtin = load("builtin");
    assert_eq!(builtin.name(), "o200k_base");
    for (text, tokens) in [
        ("Name two rivers.", 4),
        ("alpha beta", 2),
        ("Answer in French. Context: geography quiz. Name two rivers.", 13),
        ("f{\"x\":1}g{}", 8),
        ("Nile Rhine[DONE]", 6),
        ("", 0),
    ] {
        assert_eq!((builtin.count(text), builtin.encode(text).len()), (tokens, tokens), "{text}");
    }
}

#[test]
fn every_tokenizer_gives_its_own_text_back() {
    let texts = ["", "Name two rivers.", "  blanks  and\nlines\t", "größer – 東京 🦀", "a\u{0}b"];
    let names = ["cl100k_base", "o200k_base", "o200k_harmony", "p50k_base", "p50k_edit", "r50k_base"];
    let local = local_directory().display().to_string();
    for name in names.into_iter().chain([local.as_str()]) {
        let tokenizer = load(name);
        for text in texts {
            let tokens = tokenizer.encode(text);
            assert_eq!(tokenizer.decode(&tokens).unwrap(), text, "{name}");
            assert_eq!(tokenizer.count(text), tokens.len(), "{name} {text:?}");
        }
        let ordinary = tokenizer.ordinary_tokens();
        assert!(ordinary.len() > 3_000 && ordinary.iter().all(|id| Some(*id) != tokenizer.separator()));
        assert!(tokenizer.decode(&ordinary).is_ok(), "{name}");
        let unknown = tokenizer.decode(&[u32::MAX]).unwrap_err();
        assert!(unknown.to_string().contains("4294967295"), "{unknown}");
    }
}

#[test]
fn the_text_of_a_special_token_is_that_token() {
    let builtin = load("builtin");
    assert_eq!(builtin.encode("<|endoftext|> how"), [199_999, 1_495]);
    assert_eq!(builtin.decode(&[199_999]).unwrap(), "<|endoftext|>");
    assert_eq!(builtin.separator(), Some(199_999));
    let local = load(&local_directory().display().to_string());
    assert_eq!(local.encode("<s>").len(), 1);
    assert_eq!(local.separator(), local.encode("<s>").first().copied());
    assert_eq!(local.special_tokens_added(), 0);
}

#[test]
fn a_repository_is_found_in_the_cache_of_the_hub() {
    let cache = tempfile::tempdir().unwrap();
    let repository = cache.path().join("models--org--name");
    let snapshot = repository.join("snapshots/c0ffee");
    fs::create_dir_all(&snapshot).unwrap();
    fs::create_dir_all(repository.join("refs")).unwrap();
    fs::write(repository.join("refs/main"), "c0ffee\n").unwrap();
    fs::copy(local_directory().join("tokenizer.json"), snapshot.join("tokenizer.json")).unwrap();
    let hub = HubCache::new(cache.path().to_path_buf());
    for revision in ["main", "c0ffee"] {
        let found = Tokenizer::load_from("org/name", revision, &hub).unwrap();
        assert!(found.count("two words") > 1);
    }
    for (name, revision) in
        [("org/name", "other"), ("org/other", "main"), ("org/../name", "main"), ("gpt2", "main")]
    {
        let error = Tokenizer::load_from(name, revision, &hub).unwrap_err();
        assert!(matches!(error, TokenizerError::NotFound { .. }), "{error}");
        let message = error.to_string();
        assert!(["builtin", "none", "tokenizer.json", "hf download"].iter().all(|way| message.contains(way)));
    }
}

#[test]
fn what_is_no_tokenizer_is_refused_with_the_ways_out() {
    let directory = tempfile::tempdir().unwrap();
    let name = directory.path().display().to_string();
    assert!(matches!(Tokenizer::load(&name), Err(TokenizerError::NoFile { .. })));
    assert!(matches!(Tokenizer::load("./not/there"), Err(TokenizerError::NoFile { .. })));
    fs::write(directory.path().join("tokenizer.json"), "{\"version\":").unwrap();
    let error = Tokenizer::load(&name).unwrap_err();
    assert!(matches!(error, TokenizerError::Unusable { .. }), "{error}");
    assert!(error.to_string().contains("tokenizer.json"));
    let file = local_directory().join("tokenizer.json").display().to_string();
    assert!(load(&file).count("x") > 0);
}

#[test]
fn placeholder_names_of_models_are_told_apart() {
    for name in ["test", "Mock", "my_model", "fake-llm", "x-mock", "your-model-1", "demo-model-name"] {
        assert!(is_placeholder(name), "{name}");
    }
    for name in ["org/test", "./mock", "~fake", "gpt-4o", "demo-model", "testing"] {
        assert!(!is_placeholder(name), "{name}");
    }
}

#[test]
fn many_threads_share_one_tokenizer() {
    let tokenizer = load("cl100k_base");
    let text = "several threads count the same text at once ".repeat(50);
    let alone = tokenizer.count(&text);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let (tokenizer, text) = (tokenizer.clone(), &text);
            scope.spawn(move || assert_eq!(tokenizer.count(text), alone));
        }
    });
}
