//! Which run comes when, and what names its parameters.

use crate::artifact::json::sorted;
use crate::artifact::trials::Parameters;
use crate::config::IterationOrder;
use crate::config::SweepKind;
use crate::config::Variation;
use crate::config::keys::json_of;
use serde_json::Map;
use serde_json::Value as Json;

/// Variation and trial of each run, both from 0.
pub(super) fn runs(variations: usize, trials: u32, order: IterationOrder) -> Vec<(usize, u32)> {
    match order {
        IterationOrder::Independent => {
            (0..variations).flat_map(|variation| (0..trials).map(move |trial| (variation, trial))).collect()
        }
        IterationOrder::Repeated => {
            (0..trials).flat_map(|trial| (0..variations).map(move |variation| (variation, trial))).collect()
        }
    }
}

/// The parameters of a sweep as its files name them.
#[derive(Debug)]
pub(super) struct Parametrised {
    /// Each parameter with its values, in the order in which they come.
    pub(super) values: Vec<(String, Vec<Json>)>,
    /// Those of each variation.
    pub(super) of_each: Vec<Parameters>,
}

impl Parametrised {
    /// Parameters are named by the last part of their path, or by all of it where two would be named alike. The
    /// one parameter of scenarios is `benchmark`: what each changes there.
    pub(super) fn of(variations: &[Variation]) -> Self {
        let of_each: Vec<Parameters> = variations.iter().map(parameters).collect();
        let paths: Vec<&str> = of_each
            .first()
            .map(|first| first.iter().map(|(path, _)| path.as_str()).collect())
            .unwrap_or_default();
        let last = |path: &str| path.rsplit('.').next().unwrap_or(path).to_owned();
        let alike = (1..paths.len()).any(|at| {
            let (earlier, rest) = paths.split_at(at);
            rest.first().is_some_and(|path| earlier.iter().any(|other| last(other) == last(path)))
        });
        let name = |path: &str| if alike { path.to_owned() } else { last(path) };
        let of_each: Vec<Parameters> = of_each
            .iter()
            .map(|parameters| parameters.iter().map(|(path, value)| (name(path), value.clone())).collect())
            .collect();
        let mut values: Vec<(String, Vec<Json>)> = Vec::new();
        for (name, value) in of_each.iter().flatten() {
            match values.iter_mut().find(|(known, _)| known == name) {
                Some((_, values)) if values.contains(value) => {}
                Some((_, values)) => values.push(value.clone()),
                None => values.push((name.clone(), vec![value.clone()])),
            }
        }
        Self { values, of_each }
    }
}

fn parameters(variation: &Variation) -> Parameters {
    let kind = variation.config.sweep.as_ref().map(|sweep| &sweep.kind);
    match kind {
        Some(SweepKind::Scenarios(runs)) => {
            let change = runs.get(variation.index).and_then(|run| run.benchmark.as_ref());
            let change = change.map_or_else(|| Json::Object(Map::new()), |change| sorted(json_of(change)));
            vec![("benchmark".to_owned(), Json::String(change.to_string()))]
        }
        Some(
            SweepKind::AdaptiveSearch(_)
            | SweepKind::Grid(_)
            | SweepKind::LatinHypercube(_)
            | SweepKind::Sobol(_)
            | SweepKind::Zip(_),
        )
        | None => variation.values.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_runs_all_variations_before_any_again() {
        assert_eq!(runs(2, 2, IterationOrder::Repeated), [(0, 0), (1, 0), (0, 1), (1, 1)]);
        assert_eq!(runs(2, 2, IterationOrder::Independent), [(0, 0), (0, 1), (1, 0), (1, 1)]);
    }

    #[test]
    fn parameters_that_would_be_named_alike_keep_their_whole_paths() {
        let named = |yaml: &str| {
            let text = format!(
                "benchmark:\n  model: m\n  endpoint: {{url: 'http://127.0.0.1:1'}}\n  dataset: {{type: synthetic, entries: 2, isl: 4}}\n  phases:\n    - {{name: a, kind: profiling, type: concurrency, requests: 2, cancellation: {{rate: 1}}}}\n    - {{name: b, kind: profiling, type: concurrency, requests: 2}}\nsweep: {{type: grid, parameters: {{{yaml}}}}}\n"
            );
            let variations = crate::config::parse("t.yaml", &text).map(|loaded| loaded.variations);
            let parametrised = variations.map(|variations| Parametrised::of(&variations).values);
            parametrised.map(|values| values.into_iter().map(|(name, _)| name).collect::<Vec<_>>())
        };
        let apart = named("phases.a.concurrency: [1, 2], phases.a.cancellation.rate: [5]");
        assert_eq!(apart.ok(), Some(vec!["rate".to_owned(), "concurrency".to_owned()]));
        let alike = named("phases.a.concurrency: [1, 2], phases.b.concurrency: [3]");
        assert_eq!(
            alike.ok(),
            Some(vec!["phases.a.concurrency".to_owned(), "phases.b.concurrency".to_owned()])
        );
    }
}
