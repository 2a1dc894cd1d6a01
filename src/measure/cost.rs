//! What driving a phase, or a run, cost a shard.

use crate::time::Nanos;

/// What driving cost a shard. What the system does not tell is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// How long the shard was watched.
    pub elapsed: Nanos,
    /// Share of the time that the loop neither waited nor spun idle, 0 to 1.
    pub busy_share: f64,
    /// Longest time from one look at the ring to the next.
    pub longest_gap: Nanos,
    /// Processor time of the shard's thread, spinning included.
    pub cpu_time: Option<Nanos>,
    /// Time that the thread could have run and did not, because its core was taken.
    pub run_delay: Option<Nanos>,
    /// How often the kernel took the core away from the thread.
    pub involuntary_switches: Option<u64>,
    /// Time that the hypervisor took from the shard's core.
    pub steal: Option<Nanos>,
    /// From the kernel receiving bytes to the shard taking them, on a sample of the connections.
    pub receive_to_reap: Option<ReapDelay>,
}

/// How long received bytes lay before the shard took them, at most 0.1 % off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReapDelay {
    /// Half lay no longer.
    pub p50: Nanos,
    /// 99 % lay no longer.
    pub p99: Nanos,
    /// None lay longer.
    pub max: Nanos,
    /// Receptions measured, at least 1.
    pub count: u64,
}

impl Cost {
    /// Share of the time that the thread waited for its core, 0 to 1.
    pub fn run_delay_share(&self) -> Option<f64> {
        let delay = self.run_delay?.as_secs_f64();
        (self.elapsed > Nanos::ZERO).then(|| delay / self.elapsed.as_secs_f64())
    }
}
