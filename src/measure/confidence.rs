//! How far a percentile can be trusted: intervals from order statistics, whatever the distribution.
//!
//! How many of `count` independent values lie below the true quantile is binomial, so two ranks of the
//! sorted values enclose it with a known probability and nothing need be assumed about the values. It knows
//! ranks only; the values are the caller's.

/// Probability that an interval encloses the true quantile, at least.
pub const CONFIDENCE: f64 = 0.95;

/// Weights below this share of the largest one cannot change which rank is chosen.
const NEGLIGIBLE: f64 = 1e-20;

/// The two ranks, from 0, whose values enclose the quantile `q` with [`CONFIDENCE`], each side missing it
/// with at most half of the rest. Absent when `count` values are too few for that, or `q` is not inside 0
/// to 1.
pub fn ranks(count: u64, q: f64) -> Option<(u64, u64)> {
    if count == 0 || !(q > 0.0 && q < 1.0) {
        return None;
    }
    let tail = (1.0 - CONFIDENCE) / 2.0;
    let (first, weights) = binomial(count, q);
    let total: f64 = weights.iter().sum();
    // The lower rank (from 1) is the largest l with P(fewer than l below) <= tail.
    let mut below = 0.0;
    let mut lower = first;
    for weight in &weights {
        below += weight / total;
        if below > tail {
            break;
        }
        lower += 1;
    }
    // The upper rank (from 1) is the smallest u with P(u or more below) <= tail.
    let mut above = 0.0;
    let mut upper = first + weights.len() as u64;
    for weight in weights.iter().rev() {
        above += weight / total;
        if above > tail {
            break;
        }
        upper -= 1;
    }
    // From 1 they are `lower` and `upper`; a rank outside the values means that there are too few of them.
    (lower >= 1 && upper <= count).then(|| (lower - 1, upper - 1))
}

/// The binomial weights around their peak as far as they matter, unscaled, and the number of the first one.
fn binomial(count: u64, q: f64) -> (u64, Vec<f64>) {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not negative, at most the count, and rounding down is meant"
    )]
    let peak = (((count + 1) as f64 * q) as u64).min(count);
    let odds = q / (1.0 - q);
    let mut falling = Vec::new();
    let (mut number, mut weight) = (peak, 1.0);
    while number > 0 {
        weight *= number as f64 / ((count - number + 1) as f64 * odds);
        if weight < NEGLIGIBLE {
            break;
        }
        falling.push(weight);
        number -= 1;
    }
    let first = peak - falling.len() as u64;
    let mut weights: Vec<f64> = falling.into_iter().rev().collect();
    weights.push(1.0);
    let (mut number, mut weight) = (peak, 1.0);
    while number < count {
        weight *= (count - number) as f64 * odds / (number + 1) as f64;
        if weight < NEGLIGIBLE {
            break;
        }
        weights.push(weight);
        number += 1;
    }
    (first, weights)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_ranks_are_found() {
        // Textbook: of 20 values the 6th and the 15th enclose the median (95.9 %).
        assert_eq!(ranks(20, 0.5), Some((5, 14)));
        // Of 6 values the smallest and the largest enclose the median (96.9 %), of 5 they do not (93.8 %).
        assert_eq!(ranks(6, 0.5), Some((0, 5)));
        assert_eq!(ranks(5, 0.5), None);
        // 0.99^n <= 0.025 needs 368 values.
        assert_eq!(ranks(367, 0.99), None);
        assert_eq!(ranks(368, 0.99).map(|(_, high)| high), Some(367));
        assert_eq!(ranks(0, 0.5), None);
        assert_eq!(ranks(1_000, 1.0), None);
    }

    #[test]
    fn many_values_have_the_width_of_the_normal_law() {
        let count = 1_000_000_u64;
        for q in [0.5_f64, 0.9, 0.99, 0.999] {
            let half = 1.959_964 * (count as f64 * q * (1.0 - q)).sqrt();
            let (low, high) = ranks(count, q).unwrap_or_default();
            assert!((low as f64 - (count as f64 * q - half)).abs() < 3.0, "{q}: {low}");
            assert!((high as f64 - (count as f64 * q + half)).abs() < 3.0, "{q}: {high}");
        }
    }

    #[test]
    fn the_interval_holds_the_true_quantile_as_often_as_promised() {
        // Even values from a seeded generator, so that the true quantile is known.
        let mut state = 7_u64;
        let mut next = || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
        };
        for q in [0.5, 0.9, 0.99] {
            let mut held = 0;
            for _ in 0..1_000 {
                let mut values: Vec<f64> = (0..500).map(|_| next()).collect();
                values.sort_by(f64::total_cmp);
                let (low, high) = crate::measure::statistics::confidence(&values, q).unwrap_or_default();
                held += u32::from(low <= q && q <= high);
            }
            // 950 promised; five standard deviations of the count are 35.
            assert!((925..=1_000).contains(&held), "{q}: {held} of 1000");
        }
    }

    proptest! {
        #[test]
        fn the_interval_encloses_the_percentile_of_the_sample(count in 1_u64..5_000, q in 0.01..0.99_f64) {
            if let Some((low, high)) = ranks(count, q) {
                let position = q * (count - 1) as f64;
                prop_assert!(low as f64 <= position && position <= high as f64);
                prop_assert!(low < high && high < count);
            }
        }
    }
}
