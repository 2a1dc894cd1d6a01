//! What driving costs a shard: waiting, gaps between looks at the ring, processor time, wake-up error.

use crate::measure::Cost;
use crate::measure::ReapDelay;
use crate::measure::samples::new_histogram;
use crate::time::Nanos;
use crate::time::Stamp;
use hdrhistogram::Histogram;

/// First guess of how late the kernel wakes a waiting shard; the loop learns the real figure.
const WAKE_ERROR_FIRST: Nanos = Nanos::from_micros(60);

/// The spin before a due time is never longer than this.
const SPIN_WINDOW_MAX: Nanos = Nanos::from_micros(200);

/// Accounts for a loop's time.
#[derive(Debug)]
pub(super) struct Meter {
    cpu: usize,
    waited: Nanos,
    last_look: Stamp,
    wake_error: Nanos,
    /// From the kernel receiving bytes to this loop taking them, on the connections that are stamped.
    received: Histogram<u64>,
}

/// The meter at the beginning of something, and the longest gap since.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    at: Stamp,
    waited: Nanos,
    scheduled: Scheduled,
    longest_gap: Nanos,
}

impl Mark {
    /// The loop did not look at the ring for this long.
    pub(super) fn gap(&mut self, gap: Nanos) {
        self.longest_gap = self.longest_gap.max(gap);
    }
}

impl Meter {
    /// The meter of a loop that runs on core `cpu`.
    pub(super) fn new(cpu: usize, now: Stamp) -> Self {
        Self {
            cpu,
            waited: Nanos::ZERO,
            last_look: now,
            wake_error: WAKE_ERROR_FIRST,
            received: new_histogram(),
        }
    }

    /// Remembers where the meter stands. Reads the kernel's accounts, so only at the edges of phases.
    pub(super) fn mark(&self, now: Stamp) -> Mark {
        Mark { at: now, waited: self.waited, scheduled: Scheduled::read(self.cpu), longest_gap: Nanos::ZERO }
    }

    /// The loop is about to look at the ring: how long it did not.
    pub(super) fn look(&self, now: Stamp) -> Nanos {
        now.since(self.last_look)
    }

    /// Bytes were taken so long after the kernel had received them.
    pub(super) fn received(&mut self, delay_ns: u64) {
        self.received.saturating_record(delay_ns);
    }

    /// The loop waited or spun idle from `from` to `to`.
    pub(super) fn waited(&mut self, from: Stamp, to: Stamp) {
        self.waited.0 += to.since(from).0;
        self.last_look = to;
    }

    /// How long before a due time a sleep in the kernel must end.
    pub(super) fn spin_window(&self) -> Nanos {
        Nanos(self.wake_error.0 * 2).min(SPIN_WINDOW_MAX)
    }

    /// A sleep that was to end at `until` ended at `woken`. One that ran to its end shows how late the
    /// kernel wakes this thread: a moving average that follows a worse figure at once and forgets it slowly.
    pub(super) fn learn_wake_error(&mut self, woken: Stamp, until: Stamp) {
        if woken >= until {
            let error = woken.since(until).min(SPIN_WINDOW_MAX);
            self.wake_error = if error > self.wake_error {
                Nanos(u64::midpoint(self.wake_error.0, error.0))
            } else {
                Nanos((self.wake_error.0 * 63 + error.0) / 64)
            };
        }
    }

    /// What it cost from `mark` to `now`.
    pub(super) fn cost(&self, mark: &Mark, now: Stamp) -> Cost {
        let elapsed = now.since(mark.at);
        let waited = self.waited.0.saturating_sub(mark.waited.0) as f64;
        let busy_share = if elapsed > Nanos::ZERO { 1.0 - waited / elapsed.0 as f64 } else { 0.0 };
        let (before, after) = (mark.scheduled, Scheduled::read(self.cpu));
        let span = |of: fn(&Scheduled) -> Option<u64>| Some(of(&after)?.saturating_sub(of(&before)?));
        Cost {
            elapsed,
            busy_share: busy_share.clamp(0.0, 1.0),
            longest_gap: mark.longest_gap,
            cpu_time: span(|scheduled| scheduled.cpu_ns).map(Nanos),
            run_delay: span(|scheduled| scheduled.delay_ns).map(Nanos),
            involuntary_switches: span(|scheduled| scheduled.involuntary),
            receive_to_reap: (!self.received.is_empty()).then(|| ReapDelay {
                p50: Nanos(self.received.value_at_quantile(0.5)),
                p99: Nanos(self.received.value_at_quantile(0.99)),
                max: Nanos(self.received.max()),
                count: self.received.len(),
            }),
            steal: span(|scheduled| scheduled.steal_ticks).map(|ticks| Nanos::from_millis(ticks * TICK_MS)),
        }
    }
}

/// The spin window of a shard that woke up this late after each of its last waits, in their order.
pub fn spin_window_after(errors: &[Nanos]) -> Nanos {
    let mut meter = Meter::new(0, Stamp::ORIGIN);
    for error in errors {
        meter.learn_wake_error(Stamp::ORIGIN.plus(*error), Stamp::ORIGIN);
    }
    meter.spin_window()
}

/// The processor time of the calling thread so far; absent where the system does not tell.
pub fn thread_cpu_time() -> Option<Nanos> {
    let schedstat = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    schedstat.split_whitespace().next()?.parse().ok().map(Nanos)
}

/// Length of the ticks in which the kernel counts stolen time.
const TICK_MS: u64 = 10;

/// What the kernel's accounts say of this thread and its core.
#[derive(Clone, Copy, Debug, Default)]
struct Scheduled {
    cpu_ns: Option<u64>,
    delay_ns: Option<u64>,
    involuntary: Option<u64>,
    steal_ticks: Option<u64>,
}

impl Scheduled {
    fn read(cpu: usize) -> Self {
        // Time on a core and time waiting for one, in nanoseconds.
        let schedstat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        let mut numbers = schedstat.split_whitespace().map(|number| number.parse().ok());
        let (cpu_ns, delay_ns) = (numbers.next().flatten(), numbers.next().flatten());
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
        let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        Self {
            cpu_ns,
            delay_ns,
            involuntary: field(&status, "nonvoluntary_ctxt_switches:", 0),
            // user nice system idle iowait irq softirq steal
            steal_ticks: field(&stat, &format!("cpu{cpu}"), 7),
        }
    }
}

/// The number at `position` behind `name` on the line that begins with it.
fn field(text: &str, name: &str, position: usize) -> Option<u64> {
    let line = text.lines().find(|line| line.split_whitespace().next() == Some(name))?;
    line.split_whitespace().nth(position + 1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_follows_a_worse_wake_up_at_once_and_a_better_one_slowly() {
        let mut meter = Meter::new(0, Stamp::ORIGIN);
        let at = |micros: u64| Stamp::ORIGIN.plus(Nanos::from_micros(micros));
        let first = meter.spin_window();
        meter.learn_wake_error(at(1_090), at(1_000));
        let after_worse = meter.spin_window();
        assert!(after_worse > first);
        meter.learn_wake_error(at(1_010), at(1_000));
        assert!(meter.spin_window() < after_worse);
        for _ in 0..1_000 {
            meter.learn_wake_error(at(1_010), at(1_000));
        }
        assert!(meter.spin_window() < Nanos::from_micros(25), "{:?}", meter.spin_window());
    }

    #[test]
    fn a_sleep_ended_by_a_completion_teaches_nothing() {
        let mut meter = Meter::new(0, Stamp::ORIGIN);
        let before = meter.spin_window();
        meter.learn_wake_error(Stamp::from_nanos(5), Stamp::from_nanos(1_000_000));
        assert_eq!(meter.spin_window(), before);
    }

    #[test]
    fn waiting_is_not_busy_and_a_mark_begins_anew() {
        let mut meter = Meter::new(0, Stamp::ORIGIN);
        meter.waited(Stamp::from_nanos(0), Stamp::from_nanos(750));
        let mut mark = meter.mark(Stamp::from_nanos(1_000));
        meter.waited(Stamp::from_nanos(1_000), Stamp::from_nanos(1_500));
        mark.gap(Nanos(40));
        mark.gap(Nanos(30));
        let cost = meter.cost(&mark, Stamp::from_nanos(2_000));
        assert!((cost.busy_share - 0.5).abs() < 1e-9);
        assert_eq!((cost.elapsed, cost.longest_gap), (Nanos(1_000), Nanos(40)));
    }

    #[test]
    fn a_field_that_is_not_there_is_absent() {
        let stat = "cpu  1 2\ncpu0 1 2 3 4 5 6 7 8 9\ncpu10 0 0 0 0 0 0 0 5\n";
        assert_eq!(field(stat, "cpu0", 7), Some(8));
        assert_eq!(field(stat, "cpu1", 7), None);
        assert_eq!(field("", "cpu0", 7), None);
    }
}
