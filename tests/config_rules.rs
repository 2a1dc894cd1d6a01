//! Rules of configs one by one: what is accepted and what is refused.

use phasor::config::{self, Source};

const PHASES: &str = "phases: [{name: profiling, type: concurrency, requests: 4}]";
const DATASET: &str = "dataset: {isl: 8}";
const ENDPOINT: &str = "endpoint: {url: \"http://a:1\", streaming: true}";

/// A file whose `benchmark` has `lines`, and what is missing beside them.
fn file(lines: &str) -> String {
    let has = |names: &[&str]| names.iter().any(|name| lines.lines().any(|line| line.starts_with(name)));
    let mut text = String::from("benchmark:\n");
    let mut add = |lines: &str| {
        for line in lines.lines() {
            text.extend(["  ", line, "\n"]);
        }
    };
    if !has(&["model"]) {
        add("model: demo");
    }
    if !has(&["endpoint"]) {
        add(ENDPOINT);
    }
    if !has(&["dataset"]) {
        add(DATASET);
    }
    if !has(&["phases", "profiling", "warmup"]) {
        add(PHASES);
    }
    add(lines);
    text
}

fn judged(text: &str) -> Result<config::Loaded, String> {
    let variables = |name: &str| match name {
        "N" => Some("7".to_owned()),
        "EMPTY" => Some(String::new()),
        _ => None,
    };
    config::read(&Source::file("rule.yaml", text, &variables)).map_err(|faults| faults.to_string())
}

fn check(accepted: &[&str], refused: &[&str], file: impl Fn(&str) -> String) {
    for lines in accepted {
        if let Err(faults) = judged(&file(lines)) {
            panic!("refused: {lines}\n{faults}");
        }
    }
    for lines in refused {
        assert!(judged(&file(lines)).is_err(), "accepted: {lines}");
    }
}

/// One profiling phase with `fields`.
fn phase(fields: &str) -> String {
    file(&format!("phases: [{{name: load, kind: profiling, {fields}}}]"))
}

#[test]
fn forms_of_the_whole_document() {
    check(
        &[
            "{\"benchmark\": {\"model\": \"m\", \"endpoint\": {\"url\": \"http://a:1\"}, \"dataset\": {}, \"profiling\": {\"type\": \"concurrency\", \"requests\": 1}}}",
            "model: m\nendpoint: {url: h}\ndataset: {}\nphases: [{name: profiling, type: concurrency, requests: 1}]\n",
            "---\nbenchmark: {model: m, endpoint: {url: h}, dataset: {}, profiling: {type: concurrency, requests: 1}}\n...\n",
        ],
        &[
            "model: m\nendpoint: {url: h}\ndataset: {}\nprofiling: {type: concurrency, requests: 1}\n",
            "benchmark: []\n",
            "schemaVersion: \"1.0\"\nbenchmark: {model: m, endpoint: {url: h}, dataset: {}, profiling: {type: concurrency, requests: 1}}\n",
            "multiRun: null\nbenchmark: {model: m, endpoint: {url: h}, dataset: {}, profiling: {type: concurrency, requests: 1}}\n",
            "randomSeed: 1.5\nbenchmark: {model: m, endpoint: {url: h}, dataset: {}, profiling: {type: concurrency, requests: 1}}\n",
            "benchmark: {model: m, endpoint: {url: h}, dataset: {}, profiling: {type: concurrency, requests: 1}}\nsweeps: {}\n",
        ],
        str::to_owned,
    );
}

#[test]
fn forms_of_models() {
    check(
        &[
            "models: [a, b]",
            "model: [a]",
            "models: {strategy: WEIGHTED, items: [{name: a, weight: 0.7}, {name: b, weight: 0.305}]}",
            "models: {items: [{name: a, lora: x, tokenizer: {name: t}}]}",
            "model: {items: [{name: a}]}",
        ],
        &[
            "model: 7",
            "model: {name: a}",
            "models: {items: []}",
            "models: {strategy: weighted, items: [{name: a, weight: 0.7}, {name: b, weight: 0.4}]}",
            "models: {strategy: weighted, items: [{name: a, weight: 0.7}, {name: b}]}",
            "models: {items: [{name: a, weigth: 1}]}",
            "models: {items: [{name: a, weight: 2}]}",
        ],
        file,
    );
}

#[test]
fn forms_of_phases() {
    check(
        &[
            "phases: {name: odd, type: concurrency, requests: 1}",
            "warmup: {type: concurrency, requests: 1}\nprofiling: {type: concurrency, requests: 1}",
            "profiling: {name: other, type: concurrency, requests: 1}",
            "phases: [{name: Warmup, kind: profiling, type: concurrency, requests: 1}]",
            "phases: [{name: COM10, kind: profiling, type: concurrency, requests: 1}]",
            "phases: [{name: a-b, kind: profiling, type: concurrency, requests: 1}, {name: a_b, kind: profiling, type: concurrency, requests: 1}]",
            "phases: [{name: p, kind: profiling, type: concurrency, requests: 1}, {name: w, kind: warmup, type: concurrency, requests: 1}]",
        ],
        &[
            "phases: {name: warmup, type: concurrency, requests: 1}",
            "phases: null",
            "phases: text",
            "phases: []",
            "phases: [{name: load, kind: null, type: concurrency, requests: 1}]",
            "phases: [{name: profiling, type: POISSON, rate: 1, requests: 1}]",
            "phases: [{name: profiling, kind: Profiling, type: concurrency, requests: 1}]",
            "phases: [{name: aux, kind: profiling, type: concurrency, requests: 1}]",
            "phases: [text]",
            "phases: [{type: concurrency, requests: 1}]",
        ],
        file,
    );
}

#[test]
fn fields_of_phases() {
    check(
        &[
            "type: concurrency, requests: 2, duration: 5s, sessions: 3",
            "type: constant, rate: true, requests: 1",
            "type: gamma, rate: 1, smoothness: null, requests: 1",
            "type: poisson, rateSeries: {points: [{timeS: 0, qps: 1}, {timeS: 1, qps: 2}]}, requests: 1",
            "type: user_centric, rate: 1, users: 2, sessions: 2",
            "type: fixed_schedule",
            "type: fixed_schedule, endOffset: 4",
            "type: fixed_schedule, autoOffset: false, startOffset: 4, endOffset: 4",
            "type: concurrency, requests: 1, sla: {request_latency: {p95: {lt: 5}}}",
            "type: concurrency, requests: 1, concurrency: 4, prefillConcurrency: 4, prefillRamp: 2",
            "type: concurrency, duration: 5s",
            "type: concurrency, duration: 5s, gracePeriod: 0",
            "type: concurrency, duration: 5s, gracePeriod: 0.5",
            "type: concurrency, duration: 5s, gracePeriod: 30s",
            "type: concurrency, duration: 5s, gracePeriod: inf",
            "type: concurrency, requests: 1, concurrencyRamp: {duration: 1m, strategy: EXPONENTIAL}",
            "type: concurrency, requests: 1, cancellation: null, sessions: null, concurrencyRamp: null",
            "type: concurrency, requests: 1, failedRequestThreshold: 0.5",
            "type: poisson, rate: 2, rateRamp: 5s, concurrency: null, requests: 1",
            "type: concurrency, requests: 1, excludeFromResults: false",
        ],
        &[
            "type: concurrency",
            "type: poisson, rate: 1, rateSeries: [{timeS: 0, qps: 1}, {timeS: 1, qps: 2}], requests: 1",
            "type: user_centric, rateSeries: [{timeS: 0, qps: 1}, {timeS: 1, qps: 2}], users: 1, requests: 1",
            "type: user_centric, rate: 1, users: 4, sessions: 2",
            "type: user_centric, rate: 1, requests: 4",
            "type: fixed_schedule, startOffset: 4",
            "type: fixed_schedule, rate: 4",
            "type: concurrency, requests: 1, gracePeriod: 4",
            "type: concurrency, duration: 5s, gracePeriod: -1",
            "type: concurrency, duration: 5s, gracePeriod: abc",
            "type: concurrency, requests: 1, failedRequestThreshold: 1.5",
            "type: concurrency, requests: 1, seamless: null",
            "type: concurrency, requests: 1, timingMode: none",
            "type: concurrency, requests: 1, sla: [{metricTag: x, op: below, threshold: 1}]",
            "type: poisson, rateSeries: [{timeS: -1, qps: 1}, {timeS: 1, qps: 2}], requests: 1",
            "type: concurrency, duration: 500ms",
            "type: concurrency, requests: 1, trajectoryStartMinRatio: 0.9",
        ],
        phase,
    );
}

#[test]
fn fields_of_endpoints() {
    let endpoint = |fields: &str| file(&format!("endpoint: {{{fields}}}"));
    check(
        &[
            "urls: [a, \"https://b\"]",
            "url: [a, b]",
            "url: h, type: huggingface-generate",
            "url: h, apiKey: null, path: null, template: null",
            "url: h, resetKvCache: true, serverProfiler: false",
            "url: h, resetKvCache: {timeoutSeconds: 3, maxRetrySeconds: 0, path: /x}",
            "url: h, waitForModelInterval: 5",
            "url: h, streaming: \"yes\", useServerTokenCount: true, perChunkUsage: true",
            "url: h, type: image_edit",
            "url: h, timeout: .inf",
        ],
        &[
            "urls: text",
            "urls: []",
            "url: h, resetKvCache: {timeoutSeconds: 0}",
            "url: h, resetKvCache: {maxRetrySeconds: -1}",
            "url: h, resetKvCache: {path: \"http://x\"}",
            "url: h, resetKvCache: maybe",
            "url: h, waitForModelMode: models",
            "url: h, waitForModelMode: Models, waitForModelTimeout: 3",
            "url: h, type: template",
            "url: h, uuidAndStrip: true, type: completions",
            "url: h, perChunkUsage: true, streaming: true",
            "url: h, headers: {A: null}",
            "url: h, extra: [1]",
            "url: \"mailto:x\"",
            "url: \"a b\"",
            "url: h, timeout: null",
        ],
        endpoint,
    );
}

#[test]
fn fields_of_datasets() {
    let dataset = |fields: &str| file(&format!("dataset: {{{fields}}}"));
    check(
        &[
            "isl: {points: [{value: 4, weight: 1}, {value: 8, weight: 3}]}",
            "isl: {value: 4, min: 1, max: 9}",
            "isl: {type: fixed, value: 4}",
            "isl: {mean: 10, median: 5}, osl: null",
            "isl: {mean: 4}, prompts: {isl: {stddev: 2}}",
            "turns: 1, turnDelay: 5, turnDelayRatio: 0",
            "prefixPrompts: {sharedSystemLength: 4, userContextLength: 5}",
            "prompts: {batchSize: 2, blockSize: 4, corpus: CODING, cacheBust: {target: none}}",
            "isl: 8, osl: 8, prompts: {randomRangeRatio: {input: 0.5, output: 0}}",
            "isl: 8, osl: 8, prompts: {randomRangeRatio: 1.5, randomCorpusStyle: sglang}",
            "systemPromptFile: ~/prompt.txt",
            "type: file, path: x.jsonl, format: mooncake_trace, entries: 4",
            "sampling: SHUFFLE, randomSeed: 4",
            "type: file, path: x, format: Mooncake-Trace, osl: {mean: 4}",
            "type: file, path: x, format: random_pool, promptBatchSize: 2",
            "type: public, dataset: spec_al_code, osl: 4, hfSubset: x",
            "prompts: {cacheBust: {target: system_prefix}}",
        ],
        &[
            "isl: true",
            "isl: {mean: 5, median: 10}",
            "isl: {mean: 5, stddev: -1}",
            "isl: {type: uniform, mean: 5}",
            "isl: {points: []}",
            "isl: [1]",
            "type: Synthetic",
            "type: file, path: a, records: [{text: x}]",
            "type: public",
            "systemPrompt: a, systemPromptFile: b",
            "systemPrompt: a, prefixPrompts: {poolSize: 2, length: 4}",
            "entries: 0",
            "prompts: {batchSize: 0}",
            "prompts: {isl_mean: 4}",
            "type: public, dataset: nothing",
            "type: file, path: x, format: excel",
            "type: file, path: x, promptBatchSize: 2",
            "prompts: {cacheBust: {target: everywhere}}",
        ],
        dataset,
    );
    check(
        &["datasets: [{name: a}]"],
        &[
            "endpoint: {url: h, type: completions}\ndataset: {systemPrompt: x}",
            "endpoint: {url: h, type: completions}\ndataset: {prompts: {cacheBust: {target: first_turn_prefix}}}",
            "endpoint: {url: h, type: responses, extra: {store: true}}",
            "datasets: {name: a}",
            "datasets: [{name: a}, {name: b}]",
            "dataset: {}\ndatasets: [{name: a}]",
        ],
        file,
    );
}

#[test]
fn fields_of_the_other_sections() {
    check(
        &[
            "tokenizer: {}",
            "tokenizer: null",
            "artifacts: {dir: \"\", prefix: run_raw.jsonl, summary: [json], records: [jsonl], sliceDuration: 5s}",
            "artifacts: {userFiles: [{path: a.json, format: json, content: {x: \"{{ later }}\"}}]}",
            "gpuTelemetry: {urls: [\"http://a:1\"], collector: dcgm, mode: realtime_dashboard}",
            "serverMetrics: {formats: [JSON], discovery: {mode: kubernetes, namespace: x}}",
            "otel: {metricsUrl: \"http://a\"}\nmlflow: {trackingUri: x}",
            "runtime: {apiPort: 80, apiHost: h}",
            "logging: {level: success}",
            "slos: {}",
            "endpoint: {url: h, type: image_retrieval}\ntokenizer: {}",
        ],
        &[
            "endpoint: {url: h, type: image_retrieval}\ntokenizer: {name: x}",
            "artifacts: {summary: [csv]}",
            "artifacts: {summary: true}",
            "artifacts: {records: true}",
            "artifacts: {records: [csv]}",
            "artifacts: {sliceDuration: 0}",
            "artifacts: {userFiles: [{path: ../a, content: x}]}",
            "gpuTelemetry: true",
            "gpuTelemetry: {collector: pynvml, urls: [a]}",
            "runtime: {apiPort: 0}",
            "accuracy: {benchmark: mmlu}",
            "metrics: {x: 1}",
            "slos: {request_latency: null}",
            "logging: null",
        ],
        file,
    );
}

#[test]
fn references_and_templates() {
    let with = |value: &str| {
        file(&format!(
            "phases: [{{name: load, kind: profiling, type: concurrency, concurrency: 7, requests: {value}}}]"
        ))
    };
    check(
        &[
            "\"${N}\"",
            "\"${N}0\"",
            "\"${X:5}\"",
            "\"${X:{{ 4 * 5 }}}\"",
            "\"{{ 7 // 2 }}\"",
            "\"{{ [4, 6] | max }}\"",
            "\"{% for i in [1, 2] %}{{ i }}{% endfor %}\"",
            "\"{{ phases.load.concurrency }}\"",
            "\"{{ model | length }}\"",
            "\"{{ 2 ** 3 }}\"",
        ],
        &[
            "\"${X}\"",
            "\"${EMPTY:5}\"",
            "\"${N\"",
            "\"{{ 1 / 0 }}\"",
            "\"{{ benchmark.phases.load.concurrency }}\"",
            "\"{{ nothing }}\"",
            "\"{{ 1\"",
            "\"{{ 'x' * 99999999999 }}\"",
            "\"{% for i in range(99999) %}{% for j in range(99999) %}x{% endfor %}{% endfor %}\"",
        ],
        with,
    );
}

#[test]
fn sweeps() {
    let sweep = |lines: &str| {
        format!(
            "{}sweep: {lines}\n",
            file(
                "phases: [{name: calm, kind: profiling, type: concurrency, requests: 4}, {name: storm, kind: profiling, type: poisson, rate: 4, requests: 4}]"
            )
        )
    };
    check(
        &[
            "{type: grid, parameters: {phases.0.concurrency: [1, 2]}}",
            "{type: grid, parameters: {phases.calm.cancellation: [{rate: 4}, null]}}",
            "{type: grid, parameters: {datasets.default.entries: [1, 2]}}",
            "{type: grid, parameters: {datasets.default.prompts.isl: [1, {mean: 4}]}}",
            "{type: zip, parameters: {phases.calm.requests: [1, 2], phases.storm.rate: [1, 2]}, iterationOrder: independent}",
            "{type: scenarios, runs: [{}, {name: x, benchmark: {phases: [{name: new, kind: profiling, type: concurrency, requests: 1}]}}]}",
            "{type: scenarios, runs: [{name: x, benchmark: {model: other, endpoint: {streaming: false}}}]}",
            "null",
            "{type: sobol, samples: 4, dimensions: [{path: phases.storm.rate, lo: 1, hi: 4, scale: log}]}",
        ],
        &[
            "{type: grid, parameters: {phases.profiling.concurrency: [1]}}",
            "{type: grid, parameters: {concurrency: [1]}}",
            "{type: grid, parameters: {phases.calm: [1]}}",
            "{type: grid, parameters: {phases.calm.kind: [warmup, nothing]}}",
            "{type: grid, parameters: {phases.calm.concurrency: [[1, 2]]}}",
            "{type: Grid, parameters: {phases.calm.concurrency: [1]}}",
            "{type: grid, parameters: []}",
            "{type: scenarios, runs: []}",
            "{type: scenarios, runs: [{name: a}, {name: a}]}",
            "{type: scenarios, runs: [{name: a/b}]}",
            "{type: scenarios}",
            "{type: sobol, samples: 4, dimensions: [{path: phases.storm.rate, lo: 0, hi: 4, scale: log}]}",
            "{type: sobol, samples: 4, dimensions: [{path: phases.storm.rate}]}",
            "{type: grid, cooldownSeconds: -1, parameters: {phases.calm.requests: [1]}}",
            "[]",
        ],
        sweep,
    );
    let one = "{name: load, kind: profiling, type: concurrency, requests: 4}";
    let text = format!(
        "{}sweep: {{type: grid, parameters: {{concurrency: [1, 2], phases.profiling.concurrency: [3]}}}}\n",
        file(&format!("phases: [{one}]"))
    );
    assert!(judged(&text).is_err(), "two spellings of one path");
}

#[test]
fn a_sweep_has_a_bounded_number_of_variations() {
    let values: Vec<String> = (1..=200).map(|value| value.to_string()).collect();
    let values = values.join(", ");
    let text = format!(
        "{}sweep: {{type: grid, parameters: {{phases.profiling.concurrency: [{values}], phases.profiling.requests: [{values}]}}}}\n",
        file("")
    );
    let faults = judged(&text).err().unwrap_or_default();
    assert!(faults.contains("40000 variations"), "{faults}");
}
