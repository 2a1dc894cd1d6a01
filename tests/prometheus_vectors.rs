//! Pages, units and percentile estimates against what AIPerf 0.13 made of the same input.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use phasor::prometheus::estimate::{self, PERCENTILES, Reading};
use phasor::prometheus::{Dialect, Exposition, Labels, Value, read, unit};
use serde_json::{Map, Value as Json, json};

/// Where phasor is more lenient on purpose: nothing is lost that the page says.
const LENIENT: [&str; 4] = ["info_openmetrics", "no_type", "no_type_histogram_like", "stateset"];

fn cases(text: &str) -> Vec<Json> {
    serde_json::from_str(text).unwrap()
}

fn close(left: f64, right: f64) -> bool {
    (left - right).abs() <= 1e-9 * left.abs().max(right.abs()).max(1e-12)
}

fn shown(page: &Exposition) -> Json {
    let labels = |labels: &Labels| -> Json {
        labels.iter().map(|(name, value)| (name.to_owned(), json!(value))).collect::<Map<_, _>>().into()
    };
    let families = page.families.iter().map(|family| {
        let samples: Vec<Json> = family
            .samples
            .iter()
            .map(|sample| {
                let mut shown = Map::new();
                if !sample.labels.is_empty() {
                    shown.insert("labels".to_owned(), labels(&sample.labels));
                }
                match &sample.value {
                    Value::Number(number) => {
                        shown.insert("value".to_owned(), json!(number));
                    }
                    Value::Histogram(histogram) => {
                        let buckets =
                            histogram.buckets.iter().map(|(bound, count)| (bound.clone(), json!(count)));
                        shown.insert("buckets".to_owned(), Json::Object(buckets.collect()));
                        for (name, number) in [("sum", histogram.sum), ("count", histogram.count)] {
                            shown.extend(number.map(|number| (name.to_owned(), json!(number))));
                        }
                    }
                }
                shown.into()
            })
            .collect();
        let family_json =
            json!({ "type": family.kind.name(), "description": family.help, "samples": samples });
        (family.name.clone(), family_json)
    });
    families.collect::<Map<_, _>>().into()
}

#[test]
fn pages_are_read_as_the_reference_reads_them() {
    let cases = cases(include_str!("data/telemetry/prometheus_parse.json"));
    assert_eq!(cases.len(), 34);
    let mut compared = 0;
    for case in &cases {
        let name = case["name"].as_str().unwrap();
        let dialect = Dialect::of_content_type(case["content_type"].as_str());
        let page = read(case["text"].as_str().unwrap(), dialect);
        if LENIENT.contains(&name) {
            assert!(page.is_ok_and(|page| !page.families.is_empty()), "{name}");
            continue;
        }
        compared += 1;
        let expected = &case["metrics"];
        match page {
            Err(_) => assert!(expected.get("error").is_some(), "{name}: refused"),
            Ok(page) if page.families.is_empty() => assert!(expected.is_null(), "{name}: nothing left"),
            Ok(page) => assert_eq!(&shown(&page), expected, "{name}"),
        }
    }
    assert_eq!(compared, cases.len() - LENIENT.len());
}

#[test]
fn units_are_those_of_the_reference() {
    let cases = cases(include_str!("data/telemetry/unit_inference.json"));
    assert_eq!(cases.len(), 45);
    let wrong: Vec<String> = cases
        .iter()
        .filter_map(|case| {
            let unit =
                unit::infer(case["name"].as_str().unwrap(), case["description"].as_str().unwrap_or(""));
            (unit != case["unit"].as_str()).then(|| format!("{case}: {unit:?}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn percentiles_are_estimated_as_the_reference_does() {
    let cases = cases(include_str!("data/telemetry/histogram_percentiles.json"));
    assert_eq!(cases.len(), 40);
    for (number, case) in cases.iter().enumerate() {
        let texts: Vec<&str> =
            case["les"].as_array().unwrap().iter().map(|le| le.as_str().unwrap()).collect();
        let bounds: Vec<f64> = texts.iter().map(|le| le.parse().unwrap()).collect();
        let numbers = |value: &Json| -> Vec<f64> {
            value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
        };
        let scrapes: Vec<(Vec<f64>, f64, f64)> = case["scrapes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|scrape| {
                let count = scrape["count"].as_f64().unwrap();
                (numbers(&scrape["cumulative"]), scrape["sum"].as_f64().unwrap(), count)
            })
            .collect();
        let readings =
            scrapes.iter().map(|(cumulative, sum, count)| Reading { cumulative, sum: *sum, count: *count });
        let learned = estimate::learn(bounds.len(), readings);
        for (text, learned) in texts.iter().zip(&learned) {
            let expected = case["learned"].get(text);
            assert_eq!(learned.is_some(), expected.is_some(), "{number}: le {text}");
            if let (Some(learned), Some(expected)) = (learned, expected) {
                assert!(close(learned.mean, expected["mean"].as_f64().unwrap()), "{number}: le {text}");
                assert_eq!(learned.scrapes as u64, expected["intervals"].as_u64().unwrap());
                if let Some(variance) = learned.variance {
                    assert!(close(variance, expected["variance"].as_f64().unwrap()), "{number}: le {text}");
                }
            }
        }
        let cumulative: Vec<f64> =
            texts.iter().map(|le| case["bucket_deltas"][le].as_f64().unwrap()).collect();
        let delta = Reading {
            cumulative: &cumulative,
            sum: case["total_sum"].as_f64().unwrap(),
            count: case["total_count"].as_f64().unwrap(),
        };
        let estimates = estimate::estimate(&bounds, delta, &learned);
        match (estimates, case["estimates"].as_object()) {
            (Some(estimates), Some(expected)) => {
                for (percent, value) in PERCENTILES.iter().zip(estimates) {
                    let expected = expected[&format!("p{percent}_estimate")].as_f64().unwrap();
                    assert!(
                        close(value, expected),
                        "{number} ({}): p{percent} {value}, not {expected}",
                        case["kind"]
                    );
                }
            }
            (estimates, expected) => assert_eq!(estimates.is_some(), expected.is_some(), "{number}"),
        }
    }
}
