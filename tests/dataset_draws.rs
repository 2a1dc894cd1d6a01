//! Draws and samplers against numbers that AIPerf 0.13.0 itself drew.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use phasor::config::Sampling;
use phasor::dataset::{Distribution, Draws, Law};
use phasor::rng::child_seed;
use phasor::rng::numpy::Pcg64;
use phasor::schedule::Cursor;
use serde_json::{Value, json};

#[test]
fn every_stream_draws_what_aiperf_draws() {
    let vectors: Value = serde_json::from_str(include_str!("data/dataset/draws.json")).unwrap();
    let streams = vectors["streams"].as_array().unwrap();
    assert!(streams.len() >= 50);
    for stream in streams {
        let (seed, name) = (stream["root_seed"].as_u64().unwrap(), stream["identifier"].as_str().unwrap());
        let mut draws = Draws::new(seed, name);
        for expected in stream["python_gauss_0_1_first4"].as_array().unwrap() {
            let (actual, expected) = (draws.gauss(0.0, 1.0), expected.as_f64().unwrap());
            assert!((actual - expected).abs() <= expected.abs() * 1e-13, "{actual} {expected}");
        }
        for (mean, stddev, key) in [
            (100.0, 30.0, "positive_normal_int_100_30_first6"),
            (2.0, 10.0, "positive_normal_int_2_10_first6"),
        ] {
            let mut draws = Draws::new(seed, name);
            let law = Distribution::normal(mean, stddev);
            let drawn: Vec<u64> = (0..6).map(|_| law.positive(&mut draws, 0.0, 1)).collect();
            assert_eq!(json!(drawn), stream[key], "{seed} {name}");
        }
        let mut numpy = Pcg64::new(child_seed(seed, name));
        let mut order: Vec<u32> = (0..8).collect();
        let mut orders = Vec::new();
        for _ in 0..2 {
            numpy.shuffle(&mut order);
            orders.push(order.clone());
        }
        assert_eq!(json!(orders), stream["numpy_shuffle_range8_twice"], "{seed} {name}");
        let mut numpy = Pcg64::new(child_seed(seed, name));
        let integers: Vec<u64> = (0..5).map(|_| numpy.integer(0, 999)).collect();
        assert_eq!(json!(integers), stream["numpy_integers_1000_first5"], "{seed} {name}");
    }
    for pair in vectors["rounding"].as_array().unwrap() {
        let mut draws = Draws::new(0, "x");
        assert_eq!(json!(draws.positive(pair[0].as_f64().unwrap(), 0.0)), pair[1]);
    }
}

#[test]
fn samplers_hand_out_what_aiperfs_do() {
    let vectors: Vec<Value> = serde_json::from_str(include_str!("data/dataset/samplers.json")).unwrap();
    assert!(vectors.len() >= 20);
    for vector in vectors {
        let sampling = match vector["strategy"].as_str().unwrap() {
            "random" => Sampling::Random,
            "sequential" => Sampling::Sequential,
            "shuffle" => Sampling::Shuffle,
            other => panic!("{other}"),
        };
        let ids = vector["ids"].as_array().unwrap();
        let conversations = u32::try_from(ids.len()).unwrap();
        let mut cursor = Cursor::new(sampling, conversations, vector["root_seed"].as_u64().unwrap());
        let first: Vec<Value> =
            (0..20).map(|position| ids[cursor.conversation(position) as usize].clone()).collect();
        assert_eq!(json!(first), vector["first_20"], "{sampling:?} of {}", ids.len());
    }
}

/// Mean, and mean of the logarithms.
fn moments(law: Law, seed: u64) -> (f64, f64) {
    const DRAWS: u32 = 40_000;
    let law = Distribution { law, min: None, max: None };
    let mut draws = Draws::new(seed, "test");
    let drawn: Vec<f64> = (0..DRAWS).map(|_| law.draw(&mut draws)).collect();
    let mean = |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / f64::from(DRAWS);
    (mean(&mut drawn.iter().copied()), mean(&mut drawn.iter().map(|value| value.ln())))
}

#[test]
fn distributions_are_drawn_as_they_are_written() {
    let (mean, log) = moments(Law::Lognormal { mean: 600.0, median: 400.0 }, 1);
    assert!((mean / 600.0 - 1.0).abs() < 0.03 && (log.exp() / 400.0 - 1.0).abs() < 0.03, "{mean} {log}");
    let (mean, _) = moments(Law::Empirical(vec![(10.0, 1.0), (30.0, 3.0)]), 2);
    assert!((mean - 25.0).abs() < 0.3, "{mean}");
    let peaks = vec![(Distribution::normal(10.0, 1.0), 1.0), (Distribution::normal(50.0, 1.0), 1.0)];
    let (mean, _) = moments(Law::Multimodal(peaks), 3);
    assert!((mean - 30.0).abs() < 0.5, "{mean}");
    let mut draws = Draws::new(4, "test");
    let fraction = Distribution::normal(40.9, 0.9);
    let drawn: Vec<u64> = (0..100).map(|_| fraction.positive(&mut draws, 0.0, 1)).collect();
    assert!(drawn.contains(&41) && drawn.contains(&42), "{drawn:?}");
}

#[test]
fn bounds_hold_and_nothing_is_below_one() {
    let mut draws = Draws::new(5, "test");
    let bounded = Distribution { min: Some(90.0), max: Some(110.0), ..Distribution::normal(100.0, 50.0) };
    let drawn: Vec<u64> = (0..500).map(|_| bounded.positive(&mut draws, 0.0, 1)).collect();
    assert!(drawn.iter().all(|value| (90..=110).contains(value)));
    assert!(drawn.contains(&90) && drawn.contains(&110));
    for law in [Distribution::fixed(0.0), Distribution::fixed(-3.0), Distribution::normal(0.0, 0.5)] {
        assert!(law.positive(&mut draws, 0.0, 1) >= 1);
    }
    assert_eq!(Distribution::fixed(3.0).positive(&mut draws, 5.0, 0), 0);
}
