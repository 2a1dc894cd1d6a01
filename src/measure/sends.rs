//! How evenly a phase's requests left: the most in any window of time, and how long a closed loop took to
//! start.
//!
//! Both are counted where requests are handed to the kernel, in memory that was reserved before. Windows lie
//! on one grid from the phase's start, so that those of several shards add up exactly.

use crate::measure::samples::trim;
use crate::time::Nanos;

/// Width of a window.
pub const WINDOW: Nanos = Nanos::from_millis(100);

/// Most windows: beyond them each is as wide as two were.
const WINDOWS_MAX: usize = 32_768;

/// When the requests of one phase were handed to the kernel.
#[derive(Debug)]
pub struct Sends {
    /// Requests by window, up to the last that has any.
    windows: Vec<u32>,
    /// Windows are [`WINDOW`] times two to the power of this wide.
    doublings: u32,
    /// Requests that a closed loop begins with; 0 where that has no meaning.
    slots: u64,
    start: Option<Start>,
}

/// The first requests of a closed loop, one for each slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// How many left; fewer than there are slots when the phase sent no more.
    pub requests: u64,
    /// When the first of them was handed to the kernel, from the phase's start.
    pub first: Nanos,
    /// When the last was.
    pub last: Nanos,
}

/// The window with the most requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peak {
    /// Width of the window: 100 ms, or more after 54 minutes.
    pub window: Nanos,
    /// Requests handed to the kernel in it.
    pub sends: u64,
}

impl Sends {
    /// None yet. Reserves room for [`WINDOWS_MAX`] windows, which is touched as it is used.
    pub(crate) fn new() -> Self {
        Self { windows: Vec::with_capacity(WINDOWS_MAX), doublings: 0, slots: 0, start: None }
    }

    /// This shard begins `slots` requests at once when the phase starts.
    pub(crate) fn expect_start(&mut self, slots: u64) {
        self.slots = slots;
    }

    /// A request was handed to the kernel, so long after the phase's start.
    pub(crate) fn push(&mut self, offset: Nanos) {
        let mut window = self.window_of(offset);
        while window >= WINDOWS_MAX {
            self.double();
            window = self.window_of(offset);
        }
        if self.windows.len() <= window {
            self.windows.resize(window + 1, 0);
        }
        self.windows[window] += 1;
        let begun = self.start.map_or(0, |start| start.requests);
        if begun < self.slots {
            let start = self.start.get_or_insert(Start { requests: 0, first: offset, last: offset });
            start.requests += 1;
            start.last = start.last.max(offset);
        }
    }

    /// Takes in another shard's.
    pub(crate) fn merge(&mut self, mut other: Self) {
        while self.doublings < other.doublings {
            self.double();
        }
        while other.doublings < self.doublings {
            other.double();
        }
        if self.windows.len() < other.windows.len() {
            std::mem::swap(&mut self.windows, &mut other.windows);
        }
        for (mine, theirs) in self.windows.iter_mut().zip(&other.windows) {
            *mine += theirs;
        }
        self.slots += other.slots;
        self.start = match (self.start, other.start) {
            (Some(mine), Some(theirs)) => Some(Start {
                requests: mine.requests + theirs.requests,
                first: mine.first.min(theirs.first),
                last: mine.last.max(theirs.last),
            }),
            (one, None) | (None, one) => one,
        };
    }

    /// No request is handed over any more: gives back the memory that was reserved.
    pub(crate) fn settle(&mut self) {
        trim(&mut self.windows);
    }

    /// The window with the most requests; absent when none was sent.
    pub fn peak(&self) -> Option<Peak> {
        let sends = self.windows.iter().copied().max().filter(|most| *most > 0)?;
        Some(Peak { window: self.width(), sends: u64::from(sends) })
    }

    /// How a closed loop started; absent for other loads and where nothing was sent.
    pub fn start(&self) -> Option<Start> {
        self.start
    }

    fn width(&self) -> Nanos {
        Nanos(WINDOW.0 << self.doublings)
    }

    fn window_of(&self, offset: Nanos) -> usize {
        usize::try_from(offset.0 / self.width().0).unwrap_or(usize::MAX)
    }

    /// Makes one window of every two.
    fn double(&mut self) {
        let half = self.windows.len().div_ceil(2);
        for window in 0..half {
            let second = self.windows.get(2 * window + 1).copied().unwrap_or(0);
            self.windows[window] = self.windows[2 * window] + second;
        }
        self.windows.truncate(half);
        self.doublings += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sends(offsets_ms: &[u64], slots: u64) -> Sends {
        let mut sends = Sends::new();
        sends.expect_start(slots);
        for offset in offsets_ms {
            sends.push(Nanos::from_millis(*offset));
        }
        sends
    }

    #[test]
    fn the_fullest_window_is_told_and_nothing_where_nothing_was_sent() {
        let told = sends(&[0, 10, 99, 100, 250, 260, 270, 280, 1_000], 0);
        assert_eq!(told.peak(), Some(Peak { window: WINDOW, sends: 4 }));
        assert_eq!(told.start(), None, "no closed loop");
        assert_eq!(Sends::new().peak(), None);
    }

    #[test]
    fn the_start_is_that_of_the_slots_and_not_of_what_follows() {
        let start = sends(&[3, 4, 9, 50, 60], 3).start();
        let expected = Start { requests: 3, first: Nanos::from_millis(3), last: Nanos::from_millis(9) };
        assert_eq!(start, Some(expected));
        assert_eq!(sends(&[3], 3).start().map(|start| start.requests), Some(1));
    }

    #[test]
    fn a_phase_of_many_hours_has_wider_windows_and_no_more_of_them() {
        let mut long = sends(&[0, 50, 100, 150], 0);
        let day = Nanos::from_millis(24 * 3_600 * 1_000);
        long.push(day);
        let width = long.peak().map(|peak| peak.window);
        assert_eq!(width, Some(Nanos(WINDOW.0 << 5)), "864,000 windows of 100 ms");
        assert_eq!(long.peak().map(|peak| peak.sends), Some(4), "all in the first one now");
        assert!(long.windows.capacity() <= WINDOWS_MAX);
    }

    proptest! {
        #[test]
        fn shards_add_up_to_what_one_would_have_counted(
            left in prop::collection::vec(0_u64..8_000_000, 0..60),
            right in prop::collection::vec(0_u64..20_000, 0..60),
        ) {
            let mut all = left.clone();
            all.extend(&right);
            let mut merged = sends(&left, left.len() as u64);
            merged.settle();
            merged.merge(sends(&right, right.len() as u64));
            let one = sends(&all, all.len() as u64);
            prop_assert_eq!(merged.peak(), one.peak());
            // The latest of one shard's first requests is the last, in whatever order they came.
            prop_assert_eq!(merged.start().map(|start| start.requests), one.start().map(|start| start.requests));
            prop_assert_eq!(merged.start().map(|start| start.last), one.start().map(|start| start.last));
        }
    }
}
