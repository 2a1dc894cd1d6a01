//! Time-weighted metrics: step functions over the wall clock, and what they came to over a window
//! (spec/metrics 10).
//!
//! [`sweep`] turns the requests of a scope into changes in time order, [`segments`] keeps how long each value
//! held. Times are wall nanoseconds as 64-bit floats, 256 ns apart in this century, as the reference has
//! them: shorter spans than that are zero there and must be here. It reads intervals only.

mod segments;
mod sweep;

use crate::measure::intervals::Intervals;
use crate::measure::weighted::segments::Segments;
use crate::measure::weighted::sweep::{CURVES, Curve, Sweep};
use crate::time::{Clock, Stamp};

/// What a curve came to over a window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TimeWeighted {
    /// Mean over time.
    pub avg: f64,
    /// Half of the time it was no higher.
    pub p50: f64,
    /// 90 % of the time it was no higher.
    pub p90: f64,
    /// 95 % of the time it was no higher.
    pub p95: f64,
    /// 99 % of the time it was no higher.
    pub p99: f64,
    /// Lowest.
    pub min: f64,
    /// Highest.
    pub max: f64,
    /// Deviation over time.
    pub std: f64,
}

/// The curves that are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
#[expect(missing_docs, reason = "each is described by its row in the catalogue")]
pub enum Series {
    EffectiveConcurrency,
    EffectiveDecodeThroughput,
    EffectivePrefillThroughput,
    EffectiveDecodeConcurrency,
    EffectivePrefillConcurrency,
    EffectiveTotalThroughput,
    EffectiveDecodeThroughputPerUser,
    EffectivePrefillThroughputPerUser,
    TokensInFlight,
    ActiveDecodeThroughput,
    ActivePrefillThroughput,
    ActiveDecodeThroughputPerUser,
    ActivePrefillThroughputPerUser,
    ActiveTotalThroughput,
}

impl Series {
    /// All of them, in the order of the files.
    pub const ALL: [Self; 14] = [
        Self::EffectiveConcurrency,
        Self::EffectiveDecodeThroughput,
        Self::EffectivePrefillThroughput,
        Self::EffectiveDecodeConcurrency,
        Self::EffectivePrefillConcurrency,
        Self::EffectiveTotalThroughput,
        Self::EffectiveDecodeThroughputPerUser,
        Self::EffectivePrefillThroughputPerUser,
        Self::TokensInFlight,
        Self::ActiveDecodeThroughput,
        Self::ActivePrefillThroughput,
        Self::ActiveDecodeThroughputPerUser,
        Self::ActivePrefillThroughputPerUser,
        Self::ActiveTotalThroughput,
    ];

    /// The value while the curves stand at `levels`; absent while this series is not looked at.
    fn value(self, levels: &[f64; CURVES]) -> Option<f64> {
        let level = |curve: Curve| levels[curve as usize];
        let while_any = |mask: Curve, value: f64| (level(mask) > 0.0).then_some(value);
        let share = |of: Curve, over: Curve| {
            if level(over) > 0.0 { level(of) / level(over) } else { 0.0 }
        };
        let decode_per_user = || share(Curve::DecodeThroughput, Curve::DecodeConcurrency);
        let prefill_per_user = || share(Curve::PrefillThroughput, Curve::PrefillConcurrency);
        match self {
            Self::EffectiveConcurrency => Some(level(Curve::Concurrency)),
            Self::EffectiveDecodeThroughput => Some(level(Curve::DecodeThroughput)),
            Self::EffectivePrefillThroughput => Some(level(Curve::PrefillThroughput)),
            Self::EffectiveDecodeConcurrency => Some(level(Curve::DecodeConcurrency)),
            Self::EffectivePrefillConcurrency => Some(level(Curve::PrefillConcurrency)),
            Self::EffectiveTotalThroughput => Some(level(Curve::TotalThroughput)),
            Self::EffectiveDecodeThroughputPerUser => Some(decode_per_user()),
            Self::EffectivePrefillThroughputPerUser => Some(prefill_per_user()),
            Self::TokensInFlight => Some(level(Curve::TokensInFlight)),
            Self::ActiveDecodeThroughput => {
                while_any(Curve::DecodeConcurrency, level(Curve::DecodeThroughput))
            }
            Self::ActivePrefillThroughput => {
                while_any(Curve::PrefillConcurrency, level(Curve::PrefillThroughput))
            }
            Self::ActiveDecodeThroughputPerUser => while_any(Curve::DecodeConcurrency, decode_per_user()),
            Self::ActivePrefillThroughputPerUser => while_any(Curve::PrefillConcurrency, prefill_per_user()),
            Self::ActiveTotalThroughput => while_any(Curve::Concurrency, level(Curve::TotalThroughput)),
        }
    }

    /// Rates are per nanosecond inside, per second outside.
    const fn scale(self) -> f64 {
        match self {
            Self::EffectiveConcurrency
            | Self::EffectiveDecodeConcurrency
            | Self::EffectivePrefillConcurrency
            | Self::TokensInFlight => 1.0,
            Self::ActiveDecodeThroughput
            | Self::ActiveDecodeThroughputPerUser
            | Self::ActivePrefillThroughput
            | Self::ActivePrefillThroughputPerUser
            | Self::ActiveTotalThroughput
            | Self::EffectiveDecodeThroughput
            | Self::EffectiveDecodeThroughputPerUser
            | Self::EffectivePrefillThroughput
            | Self::EffectivePrefillThroughputPerUser
            | Self::EffectiveTotalThroughput => 1e9,
        }
    }
}

/// How fine the time-weighted metrics of a scope are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grain {
    /// More requests than fit: there are none.
    Absent,
    /// From the gaps between content messages.
    Chunks,
    /// The gaps of some requests did not fit, or no request had any: decode rates are even from the first
    /// content to the end of each request.
    Requests,
}

impl Grain {
    /// Of scopes pooled.
    pub fn of(scopes: &[&Intervals]) -> Self {
        if !scopes.iter().all(|scope| scope.is_whole()) {
            return Self::Absent;
        }
        let any_gap =
            || scopes.iter().flat_map(|scope| scope.iter()).any(|(_, mut gaps)| gaps.next().is_some());
        if scopes.iter().all(|scope| scope.has_all_gaps()) && any_gap() {
            Self::Chunks
        } else {
            Self::Requests
        }
    }

    /// The name in `client_report.json`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Chunks => "chunks",
            Self::Requests => "requests",
        }
    }
}

/// Where the curves are looked at.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// Turns stamps into wall time.
    pub clock: Clock,
    /// From here on.
    pub start: Stamp,
    /// Up to here.
    pub end: Stamp,
    /// Whether requests have a first token before their last.
    pub streaming: bool,
}

/// Every series over a window, in the order of [`Series::ALL`]; absent when more requests were made than
/// are kept. A curve without any request is zero throughout.
pub fn time_weighted(scopes: &[&Intervals], window: Window) -> Option<[TimeWeighted; Series::ALL.len()]> {
    let chunks = match Grain::of(scopes) {
        Grain::Absent => return None,
        Grain::Chunks => true,
        Grain::Requests => false,
    };
    let sweep = Sweep::of(scopes, window.clock, chunks, window.streaming);
    let wall = |stamp: Stamp| window.clock.unix_ns(stamp) as f64;
    over(&sweep, &[(wall(window.start), wall(window.end))]).pop()
}

/// Every series over each of `windows` of wall nanoseconds, which rise and do not overlap. All requests
/// must be kept.
pub(crate) fn slices_of(
    scopes: &[&Intervals],
    clock: Clock,
    streaming: bool,
    windows: &[(f64, f64)],
) -> Vec<[TimeWeighted; Series::ALL.len()]> {
    let chunks = matches!(Grain::of(scopes), Grain::Chunks);
    over(&Sweep::of(scopes, clock, chunks, streaming), windows)
}

/// What is below this share of a curve's largest value is what rounding left over.
const RESIDUE: f64 = 1e-9;

fn over(sweep: &Sweep<'_>, windows: &[(f64, f64)]) -> Vec<[TimeWeighted; Series::ALL.len()]> {
    let mut largest = [0.0_f64; CURVES];
    sweep.walk(|_, levels| {
        for (largest, level) in largest.iter_mut().zip(levels) {
            *largest = largest.max(level.abs());
        }
    });
    let mut looking = Looking {
        windows: windows.iter().peekable(),
        position: f64::NEG_INFINITY,
        series: fresh(),
        seen: Vec::new(),
    };
    let mut held = [0.0; CURVES];
    sweep.walk(|time, levels| {
        looking.hold(&held, time);
        held = std::array::from_fn(|curve| {
            if levels[curve].abs() < RESIDUE * largest[curve] { 0.0 } else { levels[curve] }
        });
    });
    looking.hold(&held, f64::INFINITY);
    looking.seen
}

fn fresh() -> [Segments; Series::ALL.len()] {
    std::array::from_fn(|_| Segments::default())
}

/// Windows being filled, one after the other.
struct Looking<'a> {
    windows: std::iter::Peekable<std::slice::Iter<'a, (f64, f64)>>,
    /// Everything before this time has been taken in.
    position: f64,
    series: [Segments; Series::ALL.len()],
    seen: Vec<[TimeWeighted; Series::ALL.len()]>,
}

impl Looking<'_> {
    /// The curves stood at `levels` from the position up to `until`.
    fn hold(&mut self, levels: &[f64; CURVES], until: f64) {
        while let Some((start, end)) = self.windows.peek().copied().copied() {
            let (from, to) = (self.position.max(start), until.min(end));
            if to > from {
                for (which, segments) in Series::ALL.into_iter().zip(&mut self.series) {
                    if let Some(value) = which.value(levels) {
                        segments.push(value, to - from);
                    }
                }
            }
            if until < end {
                break;
            }
            self.windows.next();
            let mut which = Series::ALL.into_iter();
            let full = std::mem::replace(&mut self.series, fresh());
            self.seen.push(full.map(|segments| segments.statistics(which.next().map_or(1.0, Series::scale))));
        }
        self.position = self.position.max(until);
    }
}
