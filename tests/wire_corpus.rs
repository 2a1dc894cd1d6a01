//! The fuzz corpus, replayed through the checks that the fuzz targets call.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::Path;

use phasor::wire::check;

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    fs::read_dir(folder).unwrap().map(|entry| fs::read(entry.unwrap().path()).unwrap()).collect()
}

#[test]
fn every_reply_of_the_corpus_gives_the_same_sums_at_every_cut() {
    let corpus = corpus("reply");
    assert!(corpus.len() >= 30, "the corpus was not found");
    for input in corpus {
        check::reply_input(&input);
    }
}

#[test]
fn scanner_and_tree_agree_on_every_message_of_the_corpus_and_the_scanner_knows_most() {
    let corpus = corpus("delta");
    assert!(corpus.len() >= 30, "the corpus was not found");
    let scanned = corpus.iter().filter(|data| check::delta(data)).count();
    assert!(scanned * 2 > corpus.len(), "{scanned} of {}", corpus.len());
}
