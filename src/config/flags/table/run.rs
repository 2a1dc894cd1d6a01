//! Flags of results, telemetry, repetition and process.

use crate::config::flags::table::{Group, flag};
use crate::config::flags::{Sets, SpecialFlag, Takes};
use crate::config::keys::Bound;

pub(super) const GROUPS: &[Group] = &[
    Group {
        title: "Results",
        flags: &[
            flag(
                &["goodput"],
                Takes::Limits,
                Sets::Special(SpecialFlag::Goodput),
                "Limits of a good request: metric:number, parted by blanks",
            ),
            flag(
                &["output-artifact-dir", "artifact-dir"],
                Takes::Text,
                Sets::Field("artifacts.dir"),
                "Directory for the results",
            ),
            flag(
                &["profile-export-prefix", "profile-export-file"],
                Takes::Text,
                Sets::Field("artifacts.prefix"),
                "Stem of the names of result files",
            ),
            flag(
                &["export-level", "profile-export-level"],
                Takes::Text,
                Sets::Special(SpecialFlag::ExportLevel),
                "Result files: summary, records or raw",
            ),
            flag(
                &["slice-duration"],
                Takes::Number(Bound::Above(0.0)),
                Sets::Field("artifacts.slice_duration"),
                "Seconds of the slices that are summed up on their own",
            ),
            flag(
                &["auto-plot"],
                Takes::TwoWaySwitch,
                Sets::Field("artifacts.auto_plot"),
                "Make plots at the end",
            ),
            flag(
                &["plot-required"],
                Takes::Switch,
                Sets::Field("artifacts.plot_required"),
                "Fail where a plot cannot be made",
            ),
            flag(
                &["export-outputs-json"],
                Takes::Switch,
                Sets::Field("artifacts.export_outputs_json"),
                "Write the replies to outputs.json",
            ),
            flag(
                &["otel-url"],
                Takes::Text,
                Sets::Nothing("metrics are not published while running"),
                "Where metrics are published",
            ),
            flag(
                &["stream"],
                Takes::Texts,
                Sets::Nothing("metrics are not published while running"),
                "What is published",
            ),
            flag(
                &["export-http-trace"],
                Takes::Switch,
                Sets::Field("artifacts.trace"),
                "Write times of the transport per request",
            ),
            flag(
                &["show-trace-timing"],
                Takes::Switch,
                Sets::Field("artifacts.show_trace_timing"),
                "Show times of the transport",
            ),
        ],
    },
    Group {
        title: "Telemetry",
        flags: &[
            flag(
                &["server-metrics"],
                Takes::Texts,
                Sets::Special(SpecialFlag::ServerMetrics),
                "Addresses of the server's metrics",
            ),
            flag(
                &["no-server-metrics"],
                Takes::Switch,
                Sets::Special(SpecialFlag::NoServerMetrics),
                "Do not read them",
            ),
            flag(
                &["server-metrics-formats"],
                Takes::Texts,
                Sets::Field("server_metrics.formats"),
                "Files of them: json, csv, jsonl, parquet",
            ),
            flag(
                &["network-latency-automatic"],
                Takes::Switch,
                Sets::Field("network_latency.enabled"),
                "Measure the network's share of latencies",
            ),
            flag(
                &["network-latency-mean"],
                Takes::Number(Bound::AtLeast(0.0)),
                Sets::Field("network_latency.mean_ms"),
                "Its known value in ms",
            ),
            flag(
                &["network-latency-ping-interval"],
                Takes::Number(Bound::Above(0.0)),
                Sets::Field("network_latency.ping_interval"),
                "Seconds between two measurements",
            ),
            flag(
                &["gpu-telemetry"],
                Takes::Texts,
                Sets::Special(SpecialFlag::GpuTelemetry),
                "Addresses or a collector of GPU metrics, a CSV of names, dashboard",
            ),
            flag(
                &["no-gpu-telemetry"],
                Takes::Switch,
                Sets::Special(SpecialFlag::NoGpuTelemetry),
                "Do not read them",
            ),
        ],
    },
    Group {
        title: "Sweeps and trials",
        flags: &[
            flag(
                &["scenario"],
                Takes::Text,
                Sets::Field("scenario"),
                "Named scenario whose rules the run must keep",
            ),
            // In two parts: the test of the floors looks for the word that starts blocks of such code.
            flag(
                &[concat!("un", "safe-override")],
                Takes::Switch,
                Sets::Field("unsafe_override"),
                "Break its rules",
            ),
            flag(
                &["num-profile-runs"],
                Takes::Whole(1),
                Sets::Special(SpecialFlag::ProfileRuns),
                "Trials of each run, 1 to 10",
            ),
            flag(
                &["profile-run-cooldown-seconds"],
                Takes::Number(Bound::AtLeast(0.0)),
                Sets::Root("multi_run.cooldown_seconds"),
                "Seconds between trials",
            )
            .of_trials(),
            flag(
                &["confidence-level"],
                Takes::Number(Bound::Between(0.0, 1.0)),
                Sets::Root("multi_run.confidence_level"),
                "Level of confidence intervals",
            ),
            flag(
                &["profile-run-disable-warmup-after-first"],
                Takes::TwoWaySwitch,
                Sets::Root("multi_run.disable_warmup_after_first"),
                "Warm up in the first trial only",
            )
            .of_trials(),
            flag(
                &["set-consistent-seed"],
                Takes::TwoWaySwitch,
                Sets::Root("multi_run.set_consistent_seed"),
                "Give trials without a seed one in common",
            )
            .of_trials(),
            flag(
                &["vary-seed-per-trial"],
                Takes::TwoWaySwitch,
                Sets::Root("multi_run.vary_seed_per_trial"),
                "Give each trial a seed of its own",
            ),
            flag(
                &["convergence-metric"],
                Takes::Text,
                Sets::Root("multi_run.convergence.metric"),
                "Metric whose steadiness ends the trials",
            ),
            flag(
                &["convergence-stat"],
                Takes::Text,
                Sets::Root("multi_run.convergence.stat"),
                "Its statistic",
            )
            .alone(),
            flag(
                &["convergence-threshold"],
                Takes::Number(Bound::Between(0.0, 1.0)),
                Sets::Root("multi_run.convergence.threshold"),
                "How steady it must be",
            ),
            flag(
                &["convergence-mode"],
                Takes::Text,
                Sets::Root("multi_run.convergence.mode"),
                "How steadiness is told: ci_width, cv or distribution",
            )
            .alone(),
            flag(
                &["parameter-sweep-cooldown-seconds"],
                Takes::Number(Bound::AtLeast(0.0)),
                Sets::Root("sweep.cooldown_seconds"),
                "Seconds between variations",
            )
            .alone(),
            flag(
                &["parameter-sweep-same-seed"],
                Takes::TwoWaySwitch,
                Sets::Root("sweep.same_seed"),
                "Give all variations the same seed",
            )
            .alone(),
            flag(
                &["parameter-sweep-mode"],
                Takes::Text,
                Sets::Root("sweep.iteration_order"),
                "Order of trials and variations: repeated or independent",
            )
            .alone(),
            flag(
                &["sweep-type"],
                Takes::Text,
                Sets::Special(SpecialFlag::SweepType),
                "What several values of flags make: grid or zip",
            )
            .alone(),
            flag(
                &["no-sweep-table"],
                Takes::Switch,
                Sets::Root("no_sweep_table"),
                "Do not print the table of a sweep while it runs",
            ),
            flag(
                &["variant", "sweep-variant"],
                Takes::Texts,
                Sets::Refused("scenarios of a sweep cannot be given as flags yet: write them into a file"),
                "Scenario of a sweep",
            )
            .alone(),
        ],
    },
    Group {
        title: "Process",
        flags: &[
            flag(
                &["set"],
                Takes::Assignments,
                Sets::Special(SpecialFlag::Set),
                "Any field of the config: phases.profiling.rate=4, several times",
            ),
            flag(
                &["ui-type", "ui"],
                Takes::Text,
                Sets::Field("runtime.ui"),
                "Progress on stderr: none, simple or dashboard",
            ),
            flag(&["log-level"], Takes::Text, Sets::Field("logging.level"), "Least level that is logged"),
            flag(
                &["verbose"],
                Takes::Switch,
                Sets::Special(SpecialFlag::Verbose),
                "Log what helps to find faults",
            )
            .short('v'),
            flag(
                &["extra-verbose"],
                Takes::Switch,
                Sets::Special(SpecialFlag::ExtraVerbose),
                "Log everything",
            ),
            flag(
                &["record-processor-service-count", "record-processors"],
                Takes::Whole(1),
                Sets::Field("runtime.record_processors"),
                "Processes of AIPerf's; not used",
            ),
            flag(
                &["api-port"],
                Takes::Whole(1),
                Sets::Field("runtime.api_port"),
                "Port of the control interface",
            ),
            flag(&["api-host"], Takes::Text, Sets::Field("runtime.api_host"), "Its address"),
            flag(
                &["stats-interval"],
                Takes::Number(Bound::Within(0.0, 1000.0)),
                Sets::Field("runtime.stats_interval"),
                "Seconds between AIPerf's statistics; not used",
            ),
            flag(
                &["workers-max", "max-workers"],
                Takes::Whole(1),
                Sets::Field("runtime.workers"),
                "Processes of AIPerf's; not used: see --shards",
            ),
            flag(
                &["zmq-host"],
                Takes::Text,
                Sets::Nothing("there are no processes that would talk to each other"),
                "How AIPerf's processes talk; not used",
            ),
            flag(
                &["zmq-ipc-path"],
                Takes::Text,
                Sets::Nothing("there are no processes that would talk to each other"),
                "How AIPerf's processes talk; not used",
            ),
            flag(
                &["zmq-dual-bind"],
                Takes::Switch,
                Sets::Nothing("there are no processes that would talk to each other"),
                "How AIPerf's processes talk; not used",
            ),
        ],
    },
];
