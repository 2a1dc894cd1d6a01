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

    /// The curves that the value depends on, one bit each.
    const fn curves(self) -> u8 {
        let decode = Curve::DecodeThroughput.bit() | Curve::DecodeConcurrency.bit();
        let prefill = Curve::PrefillThroughput.bit() | Curve::PrefillConcurrency.bit();
        match self {
            Self::EffectiveConcurrency => Curve::Concurrency.bit(),
            Self::EffectiveDecodeThroughput => Curve::DecodeThroughput.bit(),
            Self::EffectivePrefillThroughput => Curve::PrefillThroughput.bit(),
            Self::EffectiveDecodeConcurrency => Curve::DecodeConcurrency.bit(),
            Self::EffectivePrefillConcurrency => Curve::PrefillConcurrency.bit(),
            Self::EffectiveTotalThroughput => Curve::TotalThroughput.bit(),
            Self::TokensInFlight => Curve::TokensInFlight.bit(),
            Self::ActiveDecodeThroughput
            | Self::ActiveDecodeThroughputPerUser
            | Self::EffectiveDecodeThroughputPerUser => decode,
            Self::ActivePrefillThroughput
            | Self::ActivePrefillThroughputPerUser
            | Self::EffectivePrefillThroughputPerUser => prefill,
            Self::ActiveTotalThroughput => Curve::TotalThroughput.bit() | Curve::Concurrency.bit(),
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
    let mut largest = [0.0; CURVES];
    let first = look(sweep, windows, &mut largest);
    // Residues were told by the largest values so far. That is right unless one that was let stand is small
    // beside a later one; then the largest are known now.
    let stands = |(smallest, largest): (f64, f64)| smallest >= RESIDUE * largest;
    if first.smallest.into_iter().zip(largest).all(stands) {
        return first.seen;
    }
    look(sweep, windows, &mut largest).seen
}

/// What was seen in one walk.
struct Seen {
    seen: Vec<[TimeWeighted; Series::ALL.len()]>,
    /// Per curve, the smallest value above zero that was let stand.
    smallest: [f64; CURVES],
}

/// Walks once; `largest` are the largest values of the curves, as far as they are known, and grow.
fn look(sweep: &Sweep<'_>, windows: &[(f64, f64)], largest: &mut [f64; CURVES]) -> Seen {
    let mut held = [0.0; CURVES];
    let mut smallest = [f64::INFINITY; CURVES];
    let mut looking = Looking::new(windows);
    sweep.walk(|time, levels, touched| {
        for curve in ones(u32::from(touched)) {
            let magnitude = levels[curve].abs();
            largest[curve] = largest[curve].max(magnitude);
            held[curve] = if magnitude <= 0.0 || magnitude < RESIDUE * largest[curve] {
                0.0
            } else {
                smallest[curve] = smallest[curve].min(magnitude);
                levels[curve]
            };
        }
        looking.change(time, &held, touched);
    });
    looking.close_until(f64::INFINITY);
    Seen { seen: looking.seen, smallest }
}

/// The places of the ones in `bits`, from the lowest on.
fn ones(mut bits: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let place = bits.trailing_zeros() as usize;
        let rest = bits & bits.wrapping_sub(1);
        (std::mem::replace(&mut bits, rest) != 0).then_some(place)
    })
}

/// For each set of curves, the series that depend on any of them, one bit each.
const DEPENDING: [u32; 1 << CURVES] = {
    let mut depending = [0; 1 << CURVES];
    let mut curves = 0;
    while curves < depending.len() {
        let mut place = 0;
        while place < Series::ALL.len() {
            if Series::ALL[place].curves() as usize & curves != 0 {
                depending[curves] |= 1 << place;
            }
            place += 1;
        }
        curves += 1;
    }
    depending
};

/// Windows being filled, one after the other.
struct Looking<'a> {
    windows: std::iter::Peekable<std::slice::Iter<'a, (f64, f64)>>,
    series: [Standing; Series::ALL.len()],
    seen: Vec<[TimeWeighted; Series::ALL.len()]>,
}

/// A series that has stood at one value for some time. Most changes are of other curves, so it is looked at
/// only when it moves.
struct Standing {
    value: Option<f64>,
    since: f64,
    segments: Segments,
}

impl Standing {
    /// The value held until `until`; of that, what lies in the window counts.
    fn hold(&mut self, until: f64, (start, end): (f64, f64)) {
        let (from, to) = (self.since.max(start), until.min(end));
        if let Some(value) = self.value
            && to > from
        {
            self.segments.push(value, to - from);
        }
    }
}

impl<'a> Looking<'a> {
    fn new(windows: &'a [(f64, f64)]) -> Self {
        let series = Series::ALL.map(|which| Standing {
            value: which.value(&[0.0; CURVES]),
            since: f64::NEG_INFINITY,
            segments: Segments::default(),
        });
        Self { windows: windows.iter().peekable(), series, seen: Vec::with_capacity(windows.len()) }
    }

    /// From `time` on the curves stand at `levels`; those in `touched` may have changed.
    fn change(&mut self, time: f64, levels: &[f64; CURVES], touched: u8) {
        self.close_until(time);
        let Some(&&window) = self.windows.peek() else { return };
        for place in ones(DEPENDING[usize::from(touched)]) {
            let standing = &mut self.series[place];
            let value = Series::ALL[place].value(levels);
            if value.map(f64::to_bits) != standing.value.map(f64::to_bits) {
                standing.hold(time, window);
                standing.since = time;
                standing.value = value;
            }
        }
    }

    /// Closes the windows that end at `time` or before.
    fn close_until(&mut self, time: f64) {
        while let Some(&window) = self.windows.next_if(|(_, end)| *end <= time) {
            let mut which = Series::ALL.into_iter();
            self.seen.push(self.series.each_mut().map(|standing| {
                standing.hold(window.1, window);
                let full = std::mem::take(&mut standing.segments);
                full.statistics(which.next().map_or(1.0, Series::scale))
            }));
        }
    }
}
