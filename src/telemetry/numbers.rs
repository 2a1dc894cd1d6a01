//! Statistics of samples as AIPerf makes them of telemetry: the deviation is that of a sample (n - 1), and
//! percentiles are linear between ranks.

pub use crate::prometheus::estimate::PERCENTILES;

/// What is said about a set of samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// Mean.
    pub avg: f64,
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
    /// Standard deviation of a sample; 0 for a single one.
    pub std: f64,
    /// Sum.
    pub sum: f64,
    /// Number of samples, at least 1.
    pub count: usize,
    /// One for each of [`PERCENTILES`].
    pub percentiles: [f64; PERCENTILES.len()],
}

impl Spread {
    /// The spread of `values`; absent when there is none.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let sum: f64 = values.iter().sum();
        let avg = sum / values.len() as f64;
        Some(Self {
            avg,
            min,
            max,
            std: deviation(values, avg),
            sum,
            count: values.len(),
            percentiles: PERCENTILES.map(|percent| linear(&sorted, percent)),
        })
    }
}

/// The deviation of a sample around its mean; 0 below two values.
fn deviation(values: &[f64], avg: f64) -> f64 {
    if values.len() < 2 {
        return 0.0;
    }
    let squares: f64 = values.iter().map(|value| (value - avg).powi(2)).sum();
    (squares / (values.len() - 1) as f64).sqrt()
}

fn linear(sorted: &[f64], percent: u8) -> f64 {
    // In hundredths of a rank, so that no rounding decides between two ranks.
    let hundredths = usize::from(percent) * sorted.len().saturating_sub(1);
    let at = |rank: usize| sorted.get(rank).or_else(|| sorted.last()).copied().unwrap_or_default();
    let (low, rest) = (hundredths / 100, hundredths % 100);
    at(low) + (at(low + 1) - at(low)) * (rest as f64 / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_value_is_everything_but_a_deviation() {
        let spread = Spread::of(&[4.0]);
        assert!(spread.is_some_and(|spread| {
            spread.avg.total_cmp(&4.0).is_eq() && spread.std.total_cmp(&0.0).is_eq() && spread.count == 1
        }));
        assert_eq!(Spread::of(&[]), None);
    }

    #[test]
    fn the_deviation_is_that_of_a_sample() {
        let spread = Spread::of(&[4.0, 6.0]);
        assert!(spread.is_some_and(|spread| (spread.std - 2.0_f64.sqrt()).abs() < 1e-12));
    }
}
