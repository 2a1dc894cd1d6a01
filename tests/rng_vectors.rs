//! The seeded streams against numbers that AIPerf 0.13.0 itself drew.
#![expect(clippy::unwrap_used, reason = "tests")]

use phasor::rng::{self, Mt, child_seed};
use serde_json::Value;

const SEED: u64 = 42;

/// Equal to a few units in the last place: `ln`, `exp` and `pow` are the platform's.
fn assert_near(actual: f64, expected: f64) {
    assert!((actual - expected).abs() <= expected.abs() * 1e-13, "{actual} is not {expected}");
}

#[test]
fn the_poisson_stream_draws_what_aiperf_draws() {
    assert_eq!(child_seed(SEED, rng::POISSON_INTERVAL), 8_134_544_948_104_704_004);
    let mut uniform = Mt::for_stream(SEED, rng::POISSON_INTERVAL);
    for expected in [0.518_854_766_267_132_5, 0.300_759_650_853_237_97, 0.374_223_757_658_784_6] {
        assert_eq!(uniform.uniform().to_bits(), f64::to_bits(expected));
    }
    let mut gaps = Mt::for_stream(SEED, rng::POISSON_INTERVAL);
    for expected in [
        0.014_631_722_264_377_665,
        0.007_155_214_974_321_352,
        0.009_375_248_242_571_261,
        0.011_801_551_443_303_486,
        0.004_113_618_880_044_286,
    ] {
        assert_near(gaps.exponential(50.0), expected);
    }
}

#[test]
fn the_gamma_stream_draws_what_aiperf_draws_for_every_shape() {
    assert_eq!(child_seed(SEED, rng::GAMMA_INTERVAL), 12_706_910_612_985_774_219);
    let table: [(f64, &[f64]); 3] = [
        (
            4.0,
            &[
                0.022_809_691_772_610_403,
                0.033_454_603_254_119_59,
                0.014_738_974_246_814_843,
                0.014_878_724_716_874_821,
                0.010_195_509_184_347_624,
            ],
        ),
        (
            0.5,
            &[
                0.035_520_792_468_599_176,
                0.005_332_923_059_542_581,
                0.001_162_218_577_458_61,
                7.997_210_824_311_075e-5,
                0.000_837_392_725_643_512_5,
            ],
        ),
        (1.0, &[0.017_641_757_027_775_155, 0.048_627_637_594_637_6, 0.031_787_076_696_573_345]),
    ];
    for (shape, gaps) in table {
        let mut stream = Mt::for_stream(SEED, rng::GAMMA_INTERVAL);
        for expected in gaps {
            assert_near(stream.gamma(shape, 1.0 / (50.0 * shape)), *expected);
        }
    }
}

#[test]
fn the_cancellation_stream_picks_the_requests_that_aiperf_picks() {
    assert_eq!(child_seed(SEED, rng::CANCELLATION), 11_686_587_610_284_287_402);
    let mut stream = Mt::for_stream(SEED, rng::CANCELLATION);
    let picked: Vec<u32> = (0..100).filter(|_| stream.uniform() < 0.2).collect();
    assert_eq!(picked, [2, 3, 12, 14, 19, 27, 41, 51, 52, 55, 72, 78, 79, 89, 90, 98]);
}

#[test]
fn the_random_sampler_chooses_what_aiperf_chooses() {
    assert_eq!(child_seed(SEED, rng::SAMPLER_RANDOM), 2_008_847_916_738_778_864);
    let mut stream = Mt::for_stream(SEED, rng::SAMPLER_RANDOM);
    let chosen: Vec<usize> = (0..10).map(|_| stream.choice_index(20)).collect();
    assert_eq!(chosen, [0, 18, 9, 2, 0, 0, 9, 0, 11, 15]);
}

#[test]
fn every_recorded_stream_is_reproduced() {
    let text = include_str!("data/rng/streams.json");
    let streams: Vec<Value> = serde_json::from_str(text).unwrap();
    assert_eq!(streams.len(), 39);
    for stream in streams {
        let seed = stream["root_seed"].as_u64().unwrap();
        let name = stream["identifier"].as_str().unwrap();
        let derived: u64 = stream["derived_seed"].as_str().unwrap().parse().unwrap();
        assert_eq!(child_seed(seed, name), derived, "{seed}:{name}");
        let floats = |key: &str| -> Vec<f64> {
            stream[key].as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect()
        };
        let mut uniform = Mt::new(derived);
        for expected in floats("python_random_first3") {
            assert_near(uniform.uniform(), expected);
        }
        let mut below = Mt::new(derived);
        for expected in stream["python_randrange_1000_first5"].as_array().unwrap() {
            assert_eq!(Some(below.choice_index(1_000) as u64), expected.as_u64(), "{seed}:{name}");
        }
        // The file's exponentials have the rate 10 as their parameter and the mean 0.1.
        let mut gaps = Mt::new(derived);
        for expected in floats("python_expovariate_10_first4") {
            assert_near(gaps.exponential(10.0), expected);
        }
    }
}

#[test]
fn seeds_of_one_word_and_of_two_differ_as_in_cpython() {
    // random.Random(5).random(), random.Random(5 << 32).random(), random.Random(0).random()
    for (seed, expected) in SMALL_AND_LARGE_SEEDS {
        assert_eq!(Mt::new(seed).uniform().to_bits(), expected.to_bits(), "{seed}");
    }
}

#[test]
fn choices_beyond_32_bits_draw_two_words() {
    let mut stream = Mt::new(7);
    let drawn: Vec<usize> = (0..3).map(|_| stream.choice_index(1 << 40)).collect();
    assert_eq!(drawn, LARGE_CHOICES);
}

const SMALL_AND_LARGE_SEEDS: [(u64, f64); 3] =
    [(0, 0.844_421_851_525_048_1), (5, 0.622_901_694_889_701_9), (5 << 32, 0.600_394_294_943_557_2)];
const LARGE_CHOICES: [usize; 3] = [868_231_286_071, 105_874_957_392, 208_460_025_899];
