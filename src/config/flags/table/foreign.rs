//! Flags of parts that AIPerf alone has: each is refused or warned of by name.

use crate::config::flags::table::{Group, flag};
use crate::config::flags::{Sets, Takes};

pub(super) const GROUPS: &[Group] = &[Group {
    title: "Of AIPerf alone",
    flags: &[
        flag(
            &["audio-batch-size"],
            Takes::Texts,
            Sets::Refused("audio is not generated"),
            "Audio is not generated",
        ),
        flag(
            &["audio-length-mean"],
            Takes::Texts,
            Sets::Refused("audio is not generated"),
            "Audio is not generated",
        ),
        flag(
            &["audio-length-stddev"],
            Takes::Texts,
            Sets::Refused("audio is not generated"),
            "Audio is not generated",
        ),
        flag(
            &["audio-format"],
            Takes::Texts,
            Sets::Refused("audio is not generated"),
            "Audio is not generated",
        ),
        flag(
            &["audio-depths"],
            Takes::Texts,
            Sets::Refused("audio is not generated"),
            "Audio is not generated",
        ),
        flag(
            &["audio-sample-rates"],
            Takes::Texts,
            Sets::Refused("audio is not generated"),
            "Audio is not generated",
        ),
        flag(
            &["audio-num-channels"],
            Takes::Texts,
            Sets::Refused("audio is not generated"),
            "Audio is not generated",
        ),
        flag(
            &["image-width-mean"],
            Takes::Texts,
            Sets::Refused("images are not generated"),
            "Images are not generated",
        ),
        flag(
            &["image-width-stddev"],
            Takes::Texts,
            Sets::Refused("images are not generated"),
            "Images are not generated",
        ),
        flag(
            &["image-height-mean"],
            Takes::Texts,
            Sets::Refused("images are not generated"),
            "Images are not generated",
        ),
        flag(
            &["image-height-stddev"],
            Takes::Texts,
            Sets::Refused("images are not generated"),
            "Images are not generated",
        ),
        flag(
            &["image-batch-size"],
            Takes::Texts,
            Sets::Refused("images are not generated"),
            "Images are not generated",
        ),
        flag(
            &["image-format"],
            Takes::Texts,
            Sets::Refused("images are not generated"),
            "Images are not generated",
        ),
        flag(
            &["image-source"],
            Takes::Texts,
            Sets::Refused("images are not generated"),
            "Images are not generated",
        ),
        flag(
            &["image-source-sampling"],
            Takes::Texts,
            Sets::Refused("images are not generated"),
            "Images are not generated",
        ),
        flag(
            &["video-batch-size"],
            Takes::Texts,
            Sets::Refused("videos are not generated"),
            "Videos are not generated",
        ),
        flag(
            &["video-duration"],
            Takes::Texts,
            Sets::Refused("videos are not generated"),
            "Videos are not generated",
        ),
        flag(
            &["video-fps"],
            Takes::Texts,
            Sets::Refused("videos are not generated"),
            "Videos are not generated",
        ),
        flag(
            &["video-width"],
            Takes::Texts,
            Sets::Refused("videos are not generated"),
            "Videos are not generated",
        ),
        flag(
            &["video-height"],
            Takes::Texts,
            Sets::Refused("videos are not generated"),
            "Videos are not generated",
        ),
        flag(
            &["video-synth-type"],
            Takes::Texts,
            Sets::Refused("videos are not generated"),
            "Videos are not generated",
        ),
        flag(
            &["video-format"],
            Takes::Texts,
            Sets::Refused("videos are not generated"),
            "Videos are not generated",
        ),
        flag(
            &["video-codec"],
            Takes::Texts,
            Sets::Refused("videos are not generated"),
            "Videos are not generated",
        ),
        flag(
            &["video-audio-sample-rate"],
            Takes::Texts,
            Sets::Refused("videos are not generated"),
            "Videos are not generated",
        ),
        flag(
            &["video-audio-num-channels"],
            Takes::Texts,
            Sets::Refused("videos are not generated"),
            "Videos are not generated",
        ),
        flag(
            &["video-audio-codec"],
            Takes::Texts,
            Sets::Refused("videos are not generated"),
            "Videos are not generated",
        ),
        flag(
            &["video-audio-depth"],
            Takes::Texts,
            Sets::Refused("videos are not generated"),
            "Videos are not generated",
        ),
        flag(
            &["otel-resource-attributes"],
            Takes::Texts,
            Sets::Nothing("results are not published"),
            "Results are not published",
        ),
        flag(
            &["gen-ai-provider"],
            Takes::Texts,
            Sets::Nothing("results are not published"),
            "Results are not published",
        ),
        flag(
            &["mlflow-tracking-uri"],
            Takes::Texts,
            Sets::Nothing("results are not published"),
            "Results are not published",
        ),
        flag(
            &["mlflow-experiment"],
            Takes::Texts,
            Sets::Nothing("results are not published"),
            "Results are not published",
        ),
        flag(
            &["mlflow-run-name"],
            Takes::Texts,
            Sets::Nothing("results are not published"),
            "Results are not published",
        ),
        flag(
            &["mlflow-tag"],
            Takes::Texts,
            Sets::Nothing("results are not published"),
            "Results are not published",
        ),
        flag(
            &["mlflow-parent-run-id"],
            Takes::Texts,
            Sets::Nothing("results are not published"),
            "Results are not published",
        ),
        flag(
            &["mlflow-artifact-glob"],
            Takes::Texts,
            Sets::Nothing("results are not published"),
            "Results are not published",
        ),
        flag(
            &["wandb-project"],
            Takes::Texts,
            Sets::Nothing("results are not published"),
            "Results are not published",
        ),
        flag(
            &["wandb-entity"],
            Takes::Texts,
            Sets::Nothing("results are not published"),
            "Results are not published",
        ),
        flag(
            &["wandb-run-name"],
            Takes::Texts,
            Sets::Nothing("results are not published"),
            "Results are not published",
        ),
        flag(
            &["wandb-tag"],
            Takes::Texts,
            Sets::Nothing("results are not published"),
            "Results are not published",
        ),
        flag(
            &["search-planner"],
            Takes::Texts,
            Sets::Refused("only AIPerf's planners have this: see docs/sweeps.md for the searches there are"),
            "Of AIPerf's planners",
        )
        .alone(),
        flag(
            &["optuna-sampler"],
            Takes::Texts,
            Sets::Refused("only AIPerf's planners have this: see docs/sweeps.md for the searches there are"),
            "Of AIPerf's planners",
        )
        .alone(),
        flag(
            &["optuna-acquisition"],
            Takes::Texts,
            Sets::Refused("only AIPerf's planners have this: see docs/sweeps.md for the searches there are"),
            "Of AIPerf's planners",
        )
        .alone(),
        flag(
            &["optuna-terminator"],
            Takes::Texts,
            Sets::Refused("only AIPerf's planners have this: see docs/sweeps.md for the searches there are"),
            "Of AIPerf's planners",
        )
        .alone(),
        flag(
            &["search-percentile-pooling"],
            Takes::Texts,
            Sets::Refused("only AIPerf's planners have this: see docs/sweeps.md for the searches there are"),
            "Of AIPerf's planners",
        )
        .alone(),
        flag(
            &["bo-constraint-mode"],
            Takes::Texts,
            Sets::Refused("only AIPerf's planners have this: see docs/sweeps.md for the searches there are"),
            "Of AIPerf's planners",
        )
        .alone(),
        flag(
            &["search-sla-tier"],
            Takes::Texts,
            Sets::Refused("only AIPerf's planners have this: see docs/sweeps.md for the searches there are"),
            "Of AIPerf's planners",
        )
        .alone(),
        flag(
            &["search-recipe"],
            Takes::Texts,
            Sets::Refused("only AIPerf's planners have this: see docs/sweeps.md for the searches there are"),
            "Of AIPerf's planners",
        )
        .alone(),
        flag(
            &["isl-osl-pairs"],
            Takes::Texts,
            Sets::Refused("only AIPerf's planners have this: see docs/sweeps.md for the searches there are"),
            "Of AIPerf's planners",
        )
        .alone(),
        flag(
            &["slo-attainment-fraction"],
            Takes::Texts,
            Sets::Refused("only AIPerf's planners have this: see docs/sweeps.md for the searches there are"),
            "Of AIPerf's planners",
        )
        .alone(),
        flag(
            &["search-style"],
            Takes::Texts,
            Sets::Refused("only AIPerf's planners have this: see docs/sweeps.md for the searches there are"),
            "Of AIPerf's planners",
        )
        .alone(),
        flag(
            &["degradation-threshold"],
            Takes::Texts,
            Sets::Refused("only AIPerf's planners have this: see docs/sweeps.md for the searches there are"),
            "Of AIPerf's planners",
        )
        .alone(),
        flag(
            &["degradation-metric-tag"],
            Takes::Texts,
            Sets::Refused("only AIPerf's planners have this: see docs/sweeps.md for the searches there are"),
            "Of AIPerf's planners",
        )
        .alone(),
        flag(
            &["degradation-stat"],
            Takes::Texts,
            Sets::Refused("only AIPerf's planners have this: see docs/sweeps.md for the searches there are"),
            "Of AIPerf's planners",
        )
        .alone(),
        flag(
            &["isl-min"],
            Takes::Texts,
            Sets::Refused("only AIPerf's planners have this: see docs/sweeps.md for the searches there are"),
            "Of AIPerf's planners",
        )
        .alone(),
        flag(
            &["isl-max"],
            Takes::Texts,
            Sets::Refused("only AIPerf's planners have this: see docs/sweeps.md for the searches there are"),
            "Of AIPerf's planners",
        )
        .alone(),
        flag(
            &["isl-steps"],
            Takes::Texts,
            Sets::Refused("only AIPerf's planners have this: see docs/sweeps.md for the searches there are"),
            "Of AIPerf's planners",
        )
        .alone(),
        flag(
            &["concurrency-steps"],
            Takes::Texts,
            Sets::Refused("only AIPerf's planners have this: see docs/sweeps.md for the searches there are"),
            "Of AIPerf's planners",
        )
        .alone(),
        flag(
            &["osl-min"],
            Takes::Texts,
            Sets::Refused("only AIPerf's planners have this: see docs/sweeps.md for the searches there are"),
            "Of AIPerf's planners",
        )
        .alone(),
        flag(
            &["osl-max"],
            Takes::Texts,
            Sets::Refused("only AIPerf's planners have this: see docs/sweeps.md for the searches there are"),
            "Of AIPerf's planners",
        )
        .alone(),
        flag(
            &["osl-steps"],
            Takes::Texts,
            Sets::Refused("only AIPerf's planners have this: see docs/sweeps.md for the searches there are"),
            "Of AIPerf's planners",
        )
        .alone(),
        flag(
            &["accuracy-benchmark"],
            Takes::Texts,
            Sets::Refused("accuracy is not measured"),
            "Accuracy is not measured",
        ),
        flag(
            &["accuracy-tasks"],
            Takes::Texts,
            Sets::Refused("accuracy is not measured"),
            "Accuracy is not measured",
        ),
        flag(
            &["accuracy-n-shots"],
            Takes::Texts,
            Sets::Refused("accuracy is not measured"),
            "Accuracy is not measured",
        ),
        flag(
            &["accuracy-enable-cot"],
            Takes::Switch,
            Sets::Refused("accuracy is not measured"),
            "Accuracy is not measured",
        ),
        flag(
            &["accuracy-grader"],
            Takes::Texts,
            Sets::Refused("accuracy is not measured"),
            "Accuracy is not measured",
        ),
        flag(
            &["accuracy-system-prompt"],
            Takes::Texts,
            Sets::Refused("accuracy is not measured"),
            "Accuracy is not measured",
        ),
        flag(
            &["accuracy-verbose"],
            Takes::Switch,
            Sets::Refused("accuracy is not measured"),
            "Accuracy is not measured",
        ),
    ],
}];
