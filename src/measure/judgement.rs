//! What a good request is held against: the objectives of the user, and how far a reply's length may be from
//! the one asked for.
//!
//! It judges one request at a time and keeps no counts.

use crate::measure::catalogue::{Feed, Metric, SAMPLED, Source};
use crate::measure::facts::{Facts, UsageDifference};

/// The environment variables that AIPerf reads, and what they stand at otherwise.
const OSL_MISMATCH_PERCENT: (&str, f64) = ("AIPERF_METRICS_OSL_MISMATCH_PCT_THRESHOLD", 5.0);
const USAGE_PERCENT: (&str, f64) = ("AIPERF_METRICS_USAGE_PCT_DIFF_THRESHOLD", 10.0);
const OSL_MISMATCH_TOKENS: (&str, f64) = ("AIPERF_METRICS_OSL_MISMATCH_MAX_TOKEN_THRESHOLD", 50.0);

/// A limit on one metric.
#[derive(Clone, Debug)]
pub struct Objective {
    metric: &'static Metric,
    /// In the metric's native unit.
    limit: f64,
}

/// What good requests are held against.
#[derive(Clone, Debug)]
pub struct Judgement {
    /// All of them must hold; none: requests are not judged.
    objectives: Vec<Objective>,
    osl_mismatch_percent: f64,
    osl_mismatch_tokens: f64,
    usage_percent: f64,
}

/// Why a judgement cannot be made of what was asked.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum JudgementError {
    /// An environment variable holds no number.
    #[error("{name} is `{text}`: set it to a number that is not negative, or unset it")]
    Environment {
        /// The variable.
        name: &'static str,
        /// What it holds.
        text: String,
    },
    /// An objective names no metric that every request has one value of.
    #[error(
        "`slos.{tag}` names no metric of single requests; `request_latency` and `time_to_first_token` are two"
    )]
    Metric {
        /// What it names.
        tag: String,
    },
    /// An objective has no finite limit.
    #[error("`slos.{tag}` is {limit}: give a finite number, in the unit in which the metric is shown")]
    Limit {
        /// The metric.
        tag: String,
        /// What was asked.
        limit: f64,
    },
}

impl Default for Judgement {
    fn default() -> Self {
        Self {
            objectives: Vec::new(),
            osl_mismatch_percent: OSL_MISMATCH_PERCENT.1,
            osl_mismatch_tokens: OSL_MISMATCH_TOKENS.1,
            usage_percent: USAGE_PERCENT.1,
        }
    }
}

impl Judgement {
    /// Holds requests against `slos`: metric tags and limits in the units in which they are shown.
    ///
    /// # Errors
    /// A tag that names no metric with one value per good request, or a limit that is no number.
    pub fn new<'a>(slos: impl IntoIterator<Item = (&'a str, f64)>) -> Result<Self, JudgementError> {
        let objective = |(tag, limit): (&str, f64)| {
            let single = |metric: &&Metric| {
                metric.tag == tag && matches!(metric.source, Source::Record(Feed::All | Feed::Valid, _))
            };
            let metric =
                SAMPLED.iter().find(single).ok_or_else(|| JudgementError::Metric { tag: tag.to_owned() })?;
            if !limit.is_finite() {
                return Err(JudgementError::Limit { tag: tag.to_owned(), limit });
            }
            Ok(Objective { metric, limit: limit * metric.unit.divisor() })
        };
        let objectives = slos.into_iter().map(objective).collect::<Result<_, _>>()?;
        Ok(Self { objectives, ..Self::default() })
    }

    /// With the thresholds that the environment sets; `variable` looks one up.
    ///
    /// # Errors
    /// A variable that is set to something else than a number.
    pub fn with_environment(
        mut self,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, JudgementError> {
        let read = |(name, otherwise): (&'static str, f64)| match variable(name) {
            None => Ok(otherwise),
            Some(text) => match text.trim().parse::<f64>() {
                Ok(number) if number.is_finite() && number >= 0.0 => Ok(number),
                Ok(_) | Err(_) => Err(JudgementError::Environment { name, text }),
            },
        };
        self.osl_mismatch_percent = read(OSL_MISMATCH_PERCENT)?;
        self.osl_mismatch_tokens = read(OSL_MISMATCH_TOKENS)?;
        self.usage_percent = read(USAGE_PERCENT)?;
        Ok(self)
    }

    /// Whether there are objectives.
    pub fn has_objectives(&self) -> bool {
        !self.objectives.is_empty()
    }

    /// Whether a good request meets every objective; a metric that it lacks is missed.
    pub fn holds(&self, facts: &Facts<'_>) -> bool {
        self.objectives.iter().all(|Objective { metric, limit }| match metric.source {
            Source::Record(_, read) => match read(facts) {
                Some(value) if metric.larger_is_better => value >= *limit,
                Some(value) => value <= *limit,
                None => false,
            },
            Source::Adjusted(_)
            | Source::Curve(_)
            | Source::Derived(_)
            | Source::Elsewhere
            | Source::Gaps => false,
        })
    }

    /// Whether a reply's length is further from the one asked for than allowed; absent when none was.
    pub fn mismatched(&self, facts: &Facts<'_>) -> Option<bool> {
        let requested = f64::from(facts.record.osl_tokens.filter(|requested| *requested > 0)?);
        let allowed = (requested * self.osl_mismatch_percent / 100.0).min(self.osl_mismatch_tokens);
        Some((facts.tokens.sequence? as f64 - requested).abs() > allowed)
    }

    /// Whether the server's counts are further from the client's own than allowed; absent when they cannot be
    /// compared.
    pub fn discrepant(&self, facts: &Facts<'_>) -> Option<bool> {
        UsageDifference::of(facts).largest().map(|difference| difference > self.usage_percent)
    }

    /// How far the server's counts may be from the client's own, in per cent of those.
    pub fn usage_threshold(&self) -> f64 {
        self.usage_percent
    }

    /// The share of the length asked for, in per cent, and the tokens that a reply may be off by: the
    /// smaller one counts.
    pub fn osl_thresholds(&self) -> (f64, f64) {
        (self.osl_mismatch_percent, self.osl_mismatch_tokens)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objectives_that_name_no_metric_of_a_request_are_refused() {
        for tag in ["ttft", "request_count", "inter_chunk_latency", "error_isl", "adj_request_latency"] {
            assert!(matches!(Judgement::new([(tag, 1.0)]), Err(JudgementError::Metric { .. })), "{tag}");
        }
        assert!(matches!(Judgement::new([("request_latency", f64::NAN)]), Err(JudgementError::Limit { .. })));
        assert!(Judgement::new([("request_latency", 1.0)]).is_ok_and(|judgement| judgement.has_objectives()));
    }

    #[test]
    fn thresholds_come_from_the_environment_and_must_be_numbers() {
        let set = |value: &'static str| {
            Judgement::default()
                .with_environment(move |name| (name == OSL_MISMATCH_PERCENT.0).then(|| value.to_owned()))
        };
        let thresholds = set("20").map(|judgement| judgement.osl_thresholds());
        assert_eq!(thresholds, Ok((20.0, 50.0)));
        let refused = set("-1").map(|judgement| judgement.osl_thresholds());
        assert!(refused.is_err_and(|error| error.to_string().contains("PCT_THRESHOLD is `-1`")));
    }
}
