//! Flags that make a search: see `docs/sweeps.md`.

use crate::config::flags::search::SearchFlag;
use crate::config::flags::table::{Group, flag};
use crate::config::flags::{Flag, Sets, SpecialFlag, Takes};
use crate::config::keys::Bound;

const fn search(names: &'static [&'static str], takes: Takes, what: SearchFlag, help: &'static str) -> Flag {
    flag(names, takes, Sets::Special(SpecialFlag::Search(what)), help).alone()
}

const fn limit(
    names: &'static [&'static str],
    metric: &'static str,
    stat: &'static str,
    help: &'static str,
) -> Flag {
    search(names, Takes::Number(Bound::AtLeast(0.0)), SearchFlag::LimitOn(metric, stat), help)
}

pub(super) const GROUPS: &[Group] = &[Group {
    title: "Searches for the best load",
    flags: &[
        search(
            &["search-space"],
            Takes::Texts,
            SearchFlag::Space,
            "What is searched: path:low:high, with :int or :real behind it; several are parted by blanks",
        ),
        search(
            &["concurrency-min"],
            Takes::Whole(1),
            SearchFlag::ConcurrencyMin,
            "Least concurrency that is tried, without --search-space",
        ),
        search(
            &["concurrency-max"],
            Takes::Whole(2),
            SearchFlag::ConcurrencyMax,
            "Greatest concurrency that is tried, without --search-space",
        ),
        search(
            &["search-metric"],
            Takes::Text,
            SearchFlag::Objective("metric"),
            "Metric that is to be best; default: request_throughput",
        ),
        search(&["search-stat"], Takes::Text, SearchFlag::Objective("stat"), "Its statistic; default: avg"),
        search(
            &["search-direction"],
            Takes::Text,
            SearchFlag::Objective("direction"),
            "Whether it is to be large or small: maximize or minimize",
        ),
        search(
            &["search-max-iterations"],
            Takes::Whole(2),
            SearchFlag::Field("max_iterations"),
            "Most variations that are run",
        ),
        search(
            &["search-initial-points"],
            Takes::Whole(1),
            SearchFlag::Field("n_initial_points"),
            "Points that are spread over the space first",
        ),
        search(
            &["search-random-seed"],
            Takes::Whole(0),
            SearchFlag::Field("random_seed"),
            "Seed of the points that are spread",
        ),
        search(
            &["search-sla"],
            Takes::Texts,
            SearchFlag::Limit,
            "Limit that must hold, such as request_latency:p95:le:500; several are parted by blanks",
        ),
        limit(&["ttft-sla-ms"], "time_to_first_token", "p95", "Limit of the p95 time to first token, in ms"),
        limit(
            &["itl-sla-ms", "tpot-sla-ms"],
            "inter_token_latency",
            "p95",
            "Limit of the p95 time between tokens, in ms",
        ),
        limit(&["e2e-sla-ms"], "request_latency", "p95", "Limit of the p95 latency, in ms"),
        limit(&["error-rate-sla"], "request_error_rate", "avg", "Limit of failed requests, in percent"),
    ],
}];
