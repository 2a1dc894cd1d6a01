//! The only module that reads a clock. Everything else gets `now` as an argument.
//!
//! A [`Stamp`] is a point on the process's monotonic time line, a [`Nanos`] a span on it. All shards share
//! one [`Clock`], so their stamps can be compared. It does not sleep and has no timers.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Nanoseconds in a second.
pub const NANOS_PER_S: u64 = 1_000_000_000;

/// A span of time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Nanos {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// A span of whole milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis * 1_000_000)
    }

    /// A span of whole microseconds.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros * 1_000)
    }

    /// The span of `seconds`, rounded down to a nanosecond; negative and not-a-number give zero, what is
    /// too long for 64 bits (584 years) the longest span.
    pub fn from_secs_f64(seconds: f64) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "float to integer casts saturate, which is the documented behaviour"
        )]
        Self((seconds * 1e9) as u64)
    }

    /// The span in seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The span in milliseconds.
    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }
}

impl From<Duration> for Nanos {
    fn from(duration: Duration) -> Self {
        Self(duration.as_secs() * NANOS_PER_S + u64::from(duration.subsec_nanos()))
    }
}

impl From<Nanos> for Duration {
    fn from(nanos: Nanos) -> Self {
        Self::from_nanos(nanos.0)
    }
}

/// A point in time: nanoseconds since the origin of the process's [`Clock`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp(u64);

impl Stamp {
    /// The origin itself.
    pub const ORIGIN: Self = Self(0);
    /// A point that no run reaches.
    pub const NEVER: Self = Self(u64::MAX);

    /// The stamp `nanos` after the origin.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The span from `earlier` to here; zero when `earlier` is later.
    pub const fn since(self, earlier: Self) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }

    /// The stamp `span` later; [`Stamp::NEVER`] when that is beyond 64 bits.
    pub const fn plus(self, span: Nanos) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    /// The stamp `span` earlier, not before the origin.
    pub const fn minus(self, span: Nanos) -> Self {
        Self(self.0.saturating_sub(span.0))
    }
}

/// The process's clock: a monotonic origin and the wall time at that origin. Copies agree.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: Instant,
    origin_unix_ns: u64,
}

impl Clock {
    /// Starts a clock; call once per process and pass copies on.
    ///
    /// The origin lies one second in the past, so that a stamp of a running process is never zero.
    #[expect(clippy::disallowed_methods, reason = "this module is the home of the clock")]
    pub fn start() -> Self {
        let now = Instant::now();
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let lead = Duration::from_secs(1);
        let (origin, wall) = match now.checked_sub(lead) {
            Some(origin) => (origin, wall.saturating_sub(lead)),
            None => (now, wall),
        };
        Self { origin, origin_unix_ns: Nanos::from(wall).0 }
    }

    /// The present moment.
    #[inline]
    pub fn now(&self) -> Stamp {
        Stamp(Nanos::from(self.origin.elapsed()).0)
    }

    /// Nanoseconds since the Unix epoch at `stamp`, by the wall clock as it stood when the clock started.
    pub const fn unix_ns(&self, stamp: Stamp) -> u64 {
        self.origin_unix_ns.saturating_add(stamp.0)
    }

    /// A clock for tests and golden files: `origin_unix_ns` is the wall time of the origin.
    #[expect(clippy::disallowed_methods, reason = "this module is the home of the clock")]
    pub fn with_wall_origin(origin_unix_ns: u64) -> Self {
        Self { origin: Instant::now(), origin_unix_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_of_one_clock_never_go_back() {
        let clock = Clock::start();
        let mut last = clock.now();
        for _ in 0..1_000 {
            let now = clock.now();
            assert!(now >= last);
            last = now;
        }
    }

    #[test]
    fn seconds_become_nanoseconds_and_saturate() {
        assert_eq!(Nanos::from_secs_f64(1.5), Nanos(1_500_000_000));
        assert_eq!(Nanos::from_secs_f64(-1.0), Nanos::ZERO);
        assert_eq!(Nanos::from_secs_f64(f64::NAN), Nanos::ZERO);
        assert_eq!(Nanos::from_secs_f64(f64::INFINITY), Nanos(u64::MAX));
    }

    #[test]
    fn wall_time_moves_with_the_stamp() {
        let clock = Clock::with_wall_origin(1_000);
        assert_eq!(clock.unix_ns(Stamp::from_nanos(5)), 1_005);
    }
}
