//! What driving costs a shard: waiting, gaps between looks at the ring, processor time, wake-up error.

use crate::time::Nanos;
use crate::time::Stamp;

/// First guess of how late the kernel wakes a waiting shard; the loop learns the real figure.
const WAKE_ERROR_FIRST: Nanos = Nanos::from_micros(60);

/// The spin before a due time is never longer than this.
const SPIN_WINDOW_MAX: Nanos = Nanos::from_micros(200);

/// What driving cost a shard.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// Share of the time that the loop neither waited nor spun idle, 0 to 1.
    pub busy_share: f64,
    /// Longest time from one look at the ring to the next.
    pub longest_gap: Nanos,
    /// Processor time of the shard's thread, spinning included; absent where the system does not tell.
    pub cpu_time: Option<Nanos>,
    /// Time that the thread could have run and did not, because its core was taken; absent where the
    /// system does not tell.
    pub run_delay: Option<Nanos>,
}

/// Accounts for a loop's time.
#[derive(Debug)]
pub(super) struct Meter {
    started: Stamp,
    scheduled_before: Option<Scheduled>,
    waited: Nanos,
    last_look: Stamp,
    longest_gap: Nanos,
    wake_error: Nanos,
}

impl Meter {
    pub(super) fn new(now: Stamp) -> Self {
        Self {
            started: now,
            scheduled_before: Scheduled::read(),
            waited: Nanos::ZERO,
            last_look: now,
            longest_gap: Nanos::ZERO,
            wake_error: WAKE_ERROR_FIRST,
        }
    }

    /// The loop is about to look at the ring.
    pub(super) fn look(&mut self, now: Stamp) {
        self.longest_gap = self.longest_gap.max(now.since(self.last_look));
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

    /// The sum up to `now`.
    pub(super) fn cost(&self, now: Stamp) -> Cost {
        let elapsed = now.since(self.started).as_secs_f64();
        let busy_share = if elapsed > 0.0 { 1.0 - self.waited.as_secs_f64() / elapsed } else { 0.0 };
        let spent = self.scheduled_before.zip(Scheduled::read());
        Cost {
            busy_share: busy_share.clamp(0.0, 1.0),
            longest_gap: self.longest_gap,
            cpu_time: spent.map(|(before, after)| Nanos(after.cpu.0.saturating_sub(before.cpu.0))),
            run_delay: spent.map(|(before, after)| Nanos(after.delay.0.saturating_sub(before.delay.0))),
        }
    }
}

/// The spin window of a shard that woke up this late after each of its last waits, in their order.
pub fn spin_window_after(errors: &[Nanos]) -> Nanos {
    let mut meter = Meter::new(Stamp::ORIGIN);
    for error in errors {
        meter.learn_wake_error(Stamp::ORIGIN.plus(*error), Stamp::ORIGIN);
    }
    meter.spin_window()
}

/// What the kernel's scheduler says of this thread.
#[derive(Clone, Copy, Debug)]
struct Scheduled {
    cpu: Nanos,
    delay: Nanos,
}

impl Scheduled {
    /// Reads `/proc/thread-self/schedstat`: time on a core, time waiting for one, both in nanoseconds.
    fn read() -> Option<Self> {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
        let mut numbers = text.split_whitespace().map(str::parse);
        let cpu = Nanos(numbers.next()?.ok()?);
        let delay = Nanos(numbers.next()?.ok()?);
        Some(Self { cpu, delay })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_follows_a_worse_wake_up_at_once_and_a_better_one_slowly() {
        let mut meter = Meter::new(Stamp::ORIGIN);
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
        let mut meter = Meter::new(Stamp::ORIGIN);
        let before = meter.spin_window();
        meter.learn_wake_error(Stamp::from_nanos(5), Stamp::from_nanos(1_000_000));
        assert_eq!(meter.spin_window(), before);
    }

    #[test]
    fn waiting_is_not_busy() {
        let mut meter = Meter::new(Stamp::ORIGIN);
        meter.waited(Stamp::from_nanos(0), Stamp::from_nanos(750));
        let cost = meter.cost(Stamp::from_nanos(1_000));
        assert!((cost.busy_share - 0.25).abs() < 1e-9);
    }
}
