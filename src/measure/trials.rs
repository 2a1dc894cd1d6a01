//! What several runs of the same thing say together: means with confidence intervals, and whether more runs
//! are worth their time.
//!
//! It compares numbers that runs came to; it starts no run and knows no metric.

/// One number over several runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// Mean of the runs.
    pub mean: f64,
    /// Deviation with `n - 1`; 0 for one run.
    pub std: f64,
    /// Least value.
    pub min: f64,
    /// Greatest value.
    pub max: f64,
    /// Deviation over mean; absent where the mean is 0.
    pub cv: Option<f64>,
    /// Standard error of the mean.
    pub se: f64,
    /// Lower end of the confidence interval of the mean.
    pub ci_low: f64,
    /// Upper end.
    pub ci_high: f64,
    /// Student's quantile that the interval is made with; absent for one run.
    pub t_critical: Option<f64>,
}

impl Spread {
    /// The spread of the finite ones among `values` at `level` (above 0, below 1); absent without one.
    pub fn of(values: &[f64], level: f64) -> Option<Self> {
        let values: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
        let count = values.len() as f64;
        let first = *values.first()?;
        let mean = values.iter().sum::<f64>() / count;
        let min = values.iter().copied().fold(first, f64::min);
        let max = values.iter().copied().fold(first, f64::max);
        if values.len() == 1 {
            let (ci_low, ci_high) = (mean, mean);
            return Some(Self {
                mean,
                std: 0.0,
                min,
                max,
                cv: Some(0.0),
                se: 0.0,
                ci_low,
                ci_high,
                t_critical: None,
            });
        }
        let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
        let std = (squares / (count - 1.0)).sqrt();
        let se = std / count.sqrt();
        let t = t_critical(level, count - 1.0);
        Some(Self {
            mean,
            std,
            min,
            max,
            cv: Some(std / mean).filter(|cv| cv.is_finite()),
            se,
            ci_low: mean - t * se,
            ci_high: mean + t * se,
            t_critical: Some(t),
        })
    }

    /// Half the width of the interval over the mean; absent where the mean is 0.
    pub fn relative_half_width(&self) -> Option<f64> {
        Some(((self.ci_high - self.ci_low) / 2.0 / self.mean).abs()).filter(|width| width.is_finite())
    }
}

/// Student's two-sided quantile: the `t` that a value with `degrees` degrees of freedom (at least 1) stays
/// within, on both sides, with probability `level`.
pub fn t_critical(level: f64, degrees: f64) -> f64 {
    let outside = (1.0 - level).clamp(f64::MIN_POSITIVE, 1.0);
    // P(|T| > t) = I(v / (v + t^2); v / 2, 1 / 2) falls with t: the crossing is enclosed, then halved.
    let tail = |t: f64| incomplete_beta(degrees / (degrees + t * t), degrees / 2.0, 0.5);
    let mut high = 1.0;
    while tail(high) > outside && high < 1e150 {
        high *= 2.0;
    }
    let mut low = 0.0;
    for _ in 0..200 {
        let middle = f64::midpoint(low, high);
        if tail(middle) > outside {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

/// The regularised incomplete beta function by its continued fraction (Numerical Recipes 6.4).
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    let front = (a * x.ln() + b * (-x).ln_1p() + ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b)).exp();
    if x < (a + 1.0) / (a + b + 2.0) {
        front * fraction(x, a, b) / a
    } else {
        1.0 - front * fraction(1.0 - x, b, a) / b
    }
}

/// Lentz's evaluation of the continued fraction.
fn fraction(x: f64, a: f64, b: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let bounded = |value: f64| if value.abs() < TINY { TINY } else { value };
    let mut upper = 1.0;
    let mut lower = 1.0 / bounded(1.0 - (a + b) * x / (a + 1.0));
    let mut value = lower;
    for step in 1..=500_u32 {
        let place = f64::from(step);
        let even = place * (b - place) * x / ((a + 2.0 * place - 1.0) * (a + 2.0 * place));
        let odd = -(a + place) * (a + b + place) * x / ((a + 2.0 * place) * (a + 2.0 * place + 1.0));
        let mut change = 1.0;
        for numerator in [even, odd] {
            lower = 1.0 / bounded(1.0 + numerator * lower);
            upper = bounded(1.0 + numerator / upper);
            change = lower * upper;
            value *= change;
        }
        if (change - 1.0).abs() < 1e-16 {
            break;
        }
    }
    value
}

/// The logarithm of the gamma function for `x` above 0 (Lanczos, g = 7, nine coefficients).
fn ln_gamma(x: f64) -> f64 {
    const COEFFICIENTS: [f64; 8] = [
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    if x < 0.5 {
        let pi = std::f64::consts::PI;
        return (pi / (pi * x).sin()).ln() - ln_gamma(1.0 - x);
    }
    let x = x - 1.0;
    let mut sum = 0.999_999_999_999_809_9;
    for (place, coefficient) in (1_u32..).zip(COEFFICIENTS) {
        sum += coefficient / (x + f64::from(place));
    }
    let t = x + 7.5;
    0.5 * (2.0 * std::f64::consts::PI).ln() + (x + 0.5) * t.ln() - t + sum.ln()
}

/// Probability of two samples being at least as far apart as these, if they come from one law (the two-sample
/// test of Kolmogorov and Smirnov, with the asymptotic law). Both are sorted; absent where one is empty.
pub fn same_law(left: &[f64], right: &[f64]) -> Option<f64> {
    if left.is_empty() || right.is_empty() {
        return None;
    }
    let (n, m) = (left.len() as f64, right.len() as f64);
    let (mut i, mut j, mut distance) = (0, 0, 0.0_f64);
    while let (Some(one), Some(other)) = (left.get(i), right.get(j)) {
        let value = one.min(*other);
        i += left.iter().skip(i).take_while(|next| **next <= value).count();
        j += right.iter().skip(j).take_while(|next| **next <= value).count();
        distance = distance.max((i as f64 / n - j as f64 / m).abs());
    }
    let effective = (n * m / (n + m)).sqrt();
    let lambda = (effective + 0.12 + 0.11 / effective) * distance;
    if lambda < 0.2 {
        // The series needs many terms here, and its value is 1 to eight digits.
        return Some(1.0);
    }
    let term = |k: f64| (-1.0_f64).powf(k - 1.0) * (-2.0 * k * k * lambda * lambda).exp();
    let sum: f64 = (1..=100).map(|k| term(f64::from(k))).sum();
    Some((2.0 * sum).clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (level, degrees, expected) in [
            (0.95, 1.0, 12.706_204_736_174_694),
            (0.95, 2.0, 4.302_652_729_749_462),
            (0.95, 9.0, 2.262_157_162_798_205),
            (0.99, 4.0, 4.604_094_871_349_993),
            (0.5, 3.0, 0.764_892_328_404_345),
            (0.999, 1.0, 636.619_248_768_719),
        ] {
            let t = t_critical(level, degrees);
            assert!((t / expected - 1.0).abs() < 1e-10, "{level} {degrees}: {t} instead of {expected}");
        }
    }

    #[test]
    fn three_runs_have_the_interval_of_the_textbook() {
        let spread = Spread::of(&[1.0, 2.0, 3.0], 0.95);
        let half = 4.302_652_729_749_462 / 3.0_f64.sqrt();
        let near = |left: f64, right: f64| (left - right).abs() < 1e-9;
        assert!(spread.is_some_and(|spread| {
            near(spread.mean, 2.0)
                && near(spread.std, 1.0)
                && near(spread.ci_low, 2.0 - half)
                && near(spread.ci_high, 2.0 + half)
                && spread.cv.is_some_and(|cv| near(cv, 0.5))
                && spread.relative_half_width().is_some_and(|width| near(width, half / 2.0))
        }));
    }

    #[test]
    fn one_run_is_a_point_and_a_mean_of_zero_has_no_cv() {
        let one = Spread::of(&[5.0, f64::NAN], 0.95);
        assert!(one.is_some_and(|one| one.t_critical.is_none()
            && one.cv == Some(0.0)
            && (one.ci_low - 5.0).abs() < 1e-12));
        let zero = Spread::of(&[0.0, 0.0], 0.95);
        assert!(zero.is_some_and(|zero| zero.cv.is_none() && zero.std == 0.0));
        assert_eq!(Spread::of(&[f64::INFINITY], 0.95), None);
    }

    #[test]
    fn samples_of_one_law_are_told_from_samples_of_two() {
        let even: Vec<f64> = (0..500).map(f64::from).collect();
        let same: Vec<f64> = (0..500).map(|value| f64::from(value) + 0.5).collect();
        let moved: Vec<f64> = (0..500).map(|value| f64::from(value) + 100.0).collect();
        assert!(same_law(&even, &same).is_some_and(|p| p > 0.99));
        assert!(same_law(&even, &moved).is_some_and(|p| p < 1e-6));
        assert_eq!(same_law(&even, &[]), None);
        // scipy.stats.ks_2samp(range(20), [v + 5 for v in range(20)], method="asymp") has D = 0.25.
        let small: Vec<f64> = (0..20).map(f64::from).collect();
        let shifted: Vec<f64> = (5..25).map(f64::from).collect();
        assert!(same_law(&small, &shifted).is_some_and(|p| (0.3..0.7).contains(&p)));
    }
}
