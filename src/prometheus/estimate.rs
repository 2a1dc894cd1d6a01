//! Where the percentiles of a histogram lie: an estimate from counts per bucket, the exact sum, and what
//! single scrapes taught about the mean inside of buckets.
//!
//! The rule is AIPerf's (spec/artifacts 10.6), followed step by step so that the numbers agree: values are
//! laid out in every bucket such that they add up to the sum that the server reports, and percentiles are
//! read off them. An estimate always lies in the bucket that holds the percentile; a finite bucket is the
//! resolution of the server's own measurement, and no estimate is better than that.

/// The percentiles that are estimated, in per cent.
pub const PERCENTILES: [u8; 9] = [1, 5, 10, 25, 50, 75, 90, 95, 99];

/// Most values that are laid out; beyond, all counts are scaled down.
const VALUES_MAX: f64 = 100_000.0;

/// A bucket with this share of the finite observations or more is taken to hold the mean of all.
const DOMINANT_SHARE: f64 = 0.95;

/// What single scrapes taught about one bucket.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Learned {
    /// Mean of the values that fell into it.
    pub mean: f64,
    /// Variance of the means of scrapes; absent below three of them.
    pub variance: Option<f64>,
    /// Values the mean was learned from.
    pub values: f64,
    /// Scrapes it was learned from.
    pub scrapes: usize,
}

/// The state of a histogram at one scrape: cumulative counts, one per bound and in their order.
#[derive(Clone, Copy, Debug)]
pub struct Reading<'a> {
    /// Values at or below each bound.
    pub cumulative: &'a [f64],
    /// Sum of all values.
    pub sum: f64,
    /// Number of all values.
    pub count: f64,
}

/// Learns from pairs of neighbouring scrapes between which exactly one bucket grew; one entry per bound.
pub fn learn<'a>(bounds: usize, readings: impl IntoIterator<Item = Reading<'a>>) -> Vec<Option<Learned>> {
    let mut means: Vec<Vec<(f64, f64)>> = vec![Vec::new(); bounds];
    let mut before: Option<Reading<'a>> = None;
    for reading in readings {
        if let Some(before) = before
            && let Some((bucket, mean, values)) = only_growth(before, reading)
            && let Some(means) = means.get_mut(bucket)
        {
            means.push((mean, values));
        }
        before = Some(reading);
    }
    means.iter().map(|means| learned(means)).collect()
}

/// The one bucket that grew, the mean of what fell into it, and how many values that were.
fn only_growth(before: Reading<'_>, after: Reading<'_>) -> Option<(usize, f64, f64)> {
    let values = after.count - before.count;
    if values <= 0.0 {
        return None;
    }
    let mut grown = None;
    let mut below = 0.0;
    for (bucket, (after, before)) in after.cumulative.iter().zip(before.cumulative).enumerate() {
        let cumulative = after - before;
        if cumulative - below > 0.0 {
            if grown.is_some() {
                return None;
            }
            grown = Some(bucket);
        }
        below = cumulative;
    }
    grown.map(|bucket| (bucket, (after.sum - before.sum) / values, values))
}

fn learned(means: &[(f64, f64)]) -> Option<Learned> {
    let values: f64 = means.iter().map(|(_, values)| values).sum();
    if values <= 0.0 {
        return None;
    }
    let mean = means.iter().map(|(mean, values)| mean * values).sum::<f64>() / values;
    let number = means.len() as f64;
    let plain = means.iter().map(|(mean, _)| mean).sum::<f64>() / number;
    let squares: f64 = means.iter().map(|(mean, _)| (mean - plain).powi(2)).sum();
    let variance = (means.len() >= 3).then(|| squares / (number - 1.0));
    Some(Learned { mean, variance, values, scrapes: means.len() })
}

/// Estimates the [`PERCENTILES`] of what a histogram counted in a window.
///
/// `bounds` rise and may end with infinity; `delta` has the cumulative counts, sum and number of the window.
/// Absent when there is nothing to estimate from: no values, no finite bound, or a sum that is negative or
/// not finite.
pub fn estimate(bounds: &[f64], delta: Reading<'_>, learned: &[Option<Learned>]) -> Option<[f64; 9]> {
    let largest = bounds.iter().copied().filter(|bound| bound.is_finite()).reduce(f64::max)?;
    if !delta.sum.is_finite() || delta.sum < 0.0 || delta.count <= 0.0 {
        return None;
    }
    if delta.sum == 0.0 {
        return Some([0.0; 9]);
    }
    let mut buckets = buckets_of(bounds, delta.cumulative, learned);
    let total: f64 = buckets.iter().map(|bucket| bucket.count).sum();
    let scale = if total > VALUES_MAX { VALUES_MAX / total } else { 1.0 };
    for bucket in &mut buckets {
        bucket.count *= scale;
    }
    let sum = delta.sum * scale;

    let (finite, infinite): (Vec<Bucket>, Vec<Bucket>) =
        buckets.into_iter().partition(|bucket| bucket.upper.is_finite());
    let beyond = infinite.first().map_or(0.0, |bucket| bucket.count);
    let expected: f64 = finite.iter().map(|bucket| bucket.count * bucket.center()).sum();
    let overflow = overflow(beyond, sum - expected, largest);
    let target = sum - overflow.iter().sum::<f64>();

    let mut laid = lay_out(&finite, target);
    correct(&mut laid, target);
    let mut values: Vec<f64> = laid.into_iter().flat_map(|(_, values)| values).chain(overflow).collect();
    values.sort_unstable_by(f64::total_cmp);
    (!values.is_empty()).then(|| PERCENTILES.map(|percent| linear(&values, percent)))
}

/// Counts between two bounds.
#[derive(Clone, Copy)]
struct Bucket {
    lower: f64,
    upper: f64,
    count: f64,
    /// Only where the mean lies strictly inside.
    learned: Option<Learned>,
}

impl Bucket {
    fn width(&self) -> f64 {
        self.upper - self.lower
    }

    fn middle(&self) -> f64 {
        f64::midpoint(self.lower, self.upper)
    }

    fn center(&self) -> f64 {
        self.learned.map_or_else(|| self.middle(), |learned| learned.mean)
    }

    fn clip(&self, value: f64) -> f64 {
        value.max(self.lower).min(self.upper)
    }
}

fn buckets_of(bounds: &[f64], cumulative: &[f64], learned: &[Option<Learned>]) -> Vec<Bucket> {
    let mut lower = 0.0;
    let mut below = 0.0;
    let mut buckets = Vec::with_capacity(bounds.len());
    for (number, (&upper, &cumulative)) in bounds.iter().zip(cumulative).enumerate() {
        let learned = learned.get(number).copied().flatten();
        buckets.push(Bucket {
            lower,
            upper,
            count: (cumulative - below).max(0.0),
            learned: learned.filter(|learned| learned.mean > lower && learned.mean < upper),
        });
        lower = upper;
        below = cumulative;
    }
    buckets
}

/// Values above the largest finite bound that account for `rest`.
fn overflow(count: f64, rest: f64, largest: f64) -> Vec<f64> {
    let number = whole(count.ceil());
    if number == 0 {
        return Vec::new();
    }
    let mean = rest / number as f64;
    let mean = if rest <= 0.0 || mean <= largest { 1.5 * largest } else { mean };
    if number == 1 {
        return vec![mean];
    }
    let farthest = 2.0 * mean - largest;
    let farthest = if farthest <= largest { 2.0 * largest } else { farthest };
    let step = (farthest - largest) / (number - 1) as f64;
    (0..number).map(|at| largest + step * at as f64).collect()
}

/// Values for every finite bucket that add up to about `target`.
fn lay_out(finite: &[Bucket], target: f64) -> Vec<(Bucket, Vec<f64>)> {
    let observed: f64 = finite.iter().map(|bucket| bucket.count).sum();
    finite
        .iter()
        .filter_map(|bucket| {
            let number = whole(bucket.count);
            if number == 0 {
                return None;
            }
            let mean = target / observed;
            let dominant =
                bucket.count / observed >= DOMINANT_SHARE && mean > bucket.lower && mean < bucket.upper;
            let values = match bucket.learned {
                Some(Learned { mean, variance: Some(variance), .. }) if variance > 0.0 => {
                    shaped_by_variance(bucket, number, mean, variance)
                }
                Some(_) | None => {
                    shifted_uniform(bucket, number, if dominant { mean } else { bucket.center() })
                }
            };
            Some((*bucket, values))
        })
        .collect()
}

fn fractions(number: usize) -> impl Iterator<Item = f64> {
    (0..number).map(move |at| (at as f64 + 0.5) / number as f64)
}

fn shifted_uniform(bucket: &Bucket, number: usize, center: f64) -> Vec<f64> {
    let shift = center - bucket.middle();
    fractions(number).map(|f| bucket.clip(bucket.lower + bucket.width() * f + shift)).collect()
}

fn shaped_by_variance(bucket: &Bucket, number: usize, mean: f64, variance: f64) -> Vec<f64> {
    let deviation = variance.sqrt();
    let spread = 4.0 * deviation / bucket.width();
    let offset = (mean - bucket.middle()).abs() / bucket.width();
    if spread < 0.01 {
        // Two points with the learned mean and variance, one of them the lower bound.
        let distance = mean - bucket.lower;
        let share = variance / (variance + distance * distance);
        let low = whole((number as f64 * share).floor());
        let high = bucket.clip(mean + variance / distance);
        return (0..number).map(|at| if at < low { bucket.lower } else { high }).collect();
    }
    let down = ((mean - bucket.lower) / deviation).min(3.0);
    let up = ((bucket.upper - mean) / deviation).min(3.0);
    let shaped = fractions(number).map(|f| {
        let away =
            if f < 0.5 { -down * deviation * (1.0 - 2.0 * f) } else { up * deviation * (2.0 * f - 1.0) };
        bucket.clip(mean + away)
    });
    if spread < 0.2 && offset < 0.3 {
        let uniform = shifted_uniform(bucket, number, mean);
        return shaped.zip(uniform).map(|(one, other)| bucket.clip(f64::midpoint(one, other))).collect();
    }
    shaped.collect()
}

/// Moves the values of every bucket, in proportion to what it adds, so that all together come closer to
/// `target`: once, and no further than its bounds allow.
fn correct(laid: &mut [(Bucket, Vec<f64>)], target: f64) {
    let sums: Vec<f64> = laid.iter().map(|(_, values)| values.iter().sum()).collect();
    let sum: f64 = sums.iter().sum();
    if sum <= 0.0 || target <= 0.0 || (target - sum).abs() / target < 0.001 {
        return;
    }
    for ((bucket, values), own) in laid.iter_mut().zip(sums) {
        let most = 0.4 * bucket.width();
        let shift = ((target - sum) * (own / sum) / values.len() as f64).clamp(-most, most);
        for value in values {
            *value = bucket.clip(*value + shift);
        }
    }
}

/// The percentile between neighbouring ranks of `sorted`, which has a value.
fn linear(sorted: &[f64], percent: u8) -> f64 {
    let last = sorted.len().saturating_sub(1);
    let rank = f64::from(percent) / 100.0 * last as f64;
    let low = whole(rank.floor());
    let at = |rank: usize| sorted.get(rank.min(last)).copied().unwrap_or_default();
    at(low) + (at(low + 1) - at(low)) * (rank - rank.floor())
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts of at most VALUES_MAX, never negative; the fraction is dropped on purpose"
)]
fn whole(count: f64) -> usize {
    count as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: [f64; 4] = [0.1, 0.5, 1.0, f64::INFINITY];

    fn reading(cumulative: &[f64], sum: f64) -> Reading<'_> {
        Reading { cumulative, sum, count: cumulative.last().copied().unwrap_or_default() }
    }

    #[test]
    fn nothing_is_estimated_from_nothing() {
        assert_eq!(estimate(&BOUNDS, reading(&[0.0; 4], 0.5), &[]), None);
        assert_eq!(estimate(&BOUNDS, reading(&[1.0; 4], -0.5), &[]), None);
        assert_eq!(estimate(&BOUNDS, reading(&[1.0; 4], f64::NAN), &[]), None);
        assert_eq!(estimate(&[f64::INFINITY], reading(&[1.0], 0.5), &[]), None);
        assert_eq!(estimate(&BOUNDS, reading(&[1.0; 4], 0.0), &[]), Some([0.0; 9]));
    }

    #[test]
    fn every_estimate_lies_in_the_bucket_of_its_percentile() {
        let cumulative = [10.0, 60.0, 99.0, 100.0];
        let estimates = estimate(&BOUNDS, reading(&cumulative, 45.0), &[]).unwrap_or_default();
        for (percent, value) in PERCENTILES.iter().zip(estimates) {
            let rank = f64::from(*percent);
            let bucket = cumulative.iter().position(|count| rank <= *count).unwrap_or(3);
            let lower = if bucket == 0 { 0.0 } else { BOUNDS[bucket - 1] };
            assert!(value >= lower && value <= BOUNDS[bucket], "p{percent} = {value}");
        }
    }

    #[test]
    fn a_bucket_that_alone_grew_teaches_its_mean() {
        let readings = [
            reading(&[0.0; 4], 0.0),
            reading(&[0.0, 2.0, 2.0, 2.0], 0.6),
            reading(&[1.0, 4.0, 4.0, 4.0], 1.0),
        ];
        let learned = learn(4, readings);
        // The second pair fed two buckets and teaches nothing.
        let expected = Learned { mean: 0.3, variance: None, values: 2.0, scrapes: 1 };
        assert_eq!(learned, [None, Some(expected), None, None]);
    }
}
