//! Texts count exactly what they should, for every kind of text and tokenizer.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use fastrand::Rng;
use phasor::dataset::{Corpus, Prose};
use phasor::tokenizer::Tokenizer;

fn tokenizers() -> Vec<Tokenizer> {
    let local = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/tokenizer");
    ["builtin", "cl100k_base", "r50k_base", local, "words"]
        .iter()
        .map(|name| Tokenizer::load(name).unwrap())
        .collect()
}

#[test]
fn every_text_has_exactly_the_tokens_asked_for() {
    let mut random = Rng::with_seed(1);
    for tokenizer in tokenizers() {
        for corpus in [Corpus::Words, Corpus::Coding, Corpus::Random] {
            let prose = Prose::new(&tokenizer, corpus);
            for count in [1, 2, 7, 128, 1_024] {
                let text = prose.text(&mut random, count);
                assert_eq!(tokenizer.count(&text), count, "{} {corpus:?} {text:?}", tokenizer.name());
            }
            assert_eq!(prose.text(&mut random, 0), "");
        }
    }
}

#[test]
fn words_are_exact_without_being_counted_again() {
    for tokenizer in tokenizers() {
        let prose = Prose::new(&tokenizer, Corpus::Words);
        assert!(prose.is_exact_by_construction(), "{}", tokenizer.name());
        let mut random = Rng::with_seed(2);
        for count in [1, 7, 128, 4_096] {
            for _ in 0..40 {
                assert_eq!(tokenizer.count(&prose.text(&mut random, count)), count);
            }
        }
    }
}

#[test]
fn a_prefix_adds_its_own_tokens_and_no_other() {
    for tokenizer in tokenizers() {
        for corpus in [Corpus::Words, Corpus::Coding] {
            let prose = Prose::new(&tokenizer, corpus);
            let mut random = Rng::with_seed(3);
            for (front, behind) in [(50, 100), (1, 1), (6, 10), (20, 0)] {
                let prefix = prose.prefix(&mut random, front);
                assert_eq!((prefix.count(), tokenizer.count(prefix.text())), (front, front));
                let text = prose.text_behind(&prefix, &mut random, behind);
                assert_eq!(tokenizer.count(&text), front + behind, "{} {corpus:?}", tokenizer.name());
            }
        }
    }
}

#[test]
fn blocks_of_a_trace_begin_with_the_separator_and_join_exactly() {
    for tokenizer in tokenizers() {
        let prose = Prose::new(&tokenizer, Corpus::Words);
        let mut random = Rng::with_seed(4);
        let mut tokens = Vec::new();
        for count in [12, 12, 6] {
            let block = prose.block(&mut random, count);
            assert_eq!(block.len(), count, "{}", tokenizer.name());
            assert!(tokenizer.separator().is_none_or(|separator| block[0] == separator));
            tokens.extend(block);
        }
        let text = prose.settled(tokens, &mut random);
        assert_eq!(tokenizer.count(&text), 30, "{} {text:?}", tokenizer.name());
    }
}

#[test]
fn the_same_seed_gives_the_same_text_and_another_one_another() {
    let tokenizer = Tokenizer::load("builtin").unwrap();
    let prose = Prose::new(&tokenizer, Corpus::Words);
    let text = |seed| prose.text(&mut Rng::with_seed(seed), 50);
    assert_eq!(text(7), text(7));
    assert_ne!(text(7), text(8));
}
