//! The TLS handshakes of a phase: how many, how many of them resumed a session, and how long they took.

use crate::measure::late::LatenessCounts;
use crate::measure::samples::new_histogram;
use crate::time::Nanos;
use crate::wire::tls::Handshake;

/// The handshakes that requests of a phase waited for.
#[derive(Debug, Default)]
pub struct Handshakes {
    full: u64,
    resumed: u64,
    /// Absent until there is one: a phase without TLS has none.
    spans: Option<LatenessCounts>,
}

/// What they came to; spans are at most 0.1 % off, the maximum exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandshakeSummary {
    /// All of them, at least 1.
    pub count: u64,
    /// Those that took an earlier session up again.
    pub resumed: u64,
    /// Half took no longer.
    pub p50: Nanos,
    /// 99 % took no longer.
    pub p99: Nanos,
    /// None took longer.
    pub max: Nanos,
}

impl Handshakes {
    /// One has ended well after `span`, counted from the established socket.
    pub(crate) fn record(&mut self, handshake: Handshake, span: Nanos) {
        match handshake {
            Handshake::Full => self.full += 1,
            Handshake::Resumed => self.resumed += 1,
        }
        self.spans.get_or_insert_with(LatenessCounts::new).record(span);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.full += other.full;
        self.resumed += other.resumed;
        if let Some(spans) = &other.spans {
            self.spans.get_or_insert_with(LatenessCounts::new).merge(spans);
        }
    }

    pub(crate) fn settle(&mut self) {
        if let Some(spans) = &mut self.spans {
            spans.settle();
        }
    }

    /// What those of several phases came to; absent when there was none.
    pub fn summary<'a>(all: impl Iterator<Item = &'a Self>) -> Option<HandshakeSummary> {
        let mut spans = new_histogram();
        let (mut count, mut resumed, mut max) = (0, 0, None);
        for handshakes in all {
            count += handshakes.full + handshakes.resumed;
            resumed += handshakes.resumed;
            if let Some(some) = &handshakes.spans {
                some.add_to(&mut spans);
                max = max.max(some.max());
            }
        }
        let max = max?;
        let at = |quantile| Nanos(spans.value_at_quantile(quantile)).min(max);
        Some(HandshakeSummary { count, resumed, p50: at(0.5), p99: at(0.99), max })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handshakes_add_up_over_shards_and_phases_without_one_say_nothing() {
        let mut left = Handshakes::default();
        assert_eq!(Handshakes::summary(std::iter::once(&left)), None);
        left.record(Handshake::Full, Nanos(900));
        let mut right = Handshakes::default();
        right.record(Handshake::Resumed, Nanos(100));
        right.record(Handshake::Resumed, Nanos(100));
        right.settle();
        let apart = Handshakes::summary([&left, &right].into_iter());
        left.merge(&right);
        assert_eq!(Handshakes::summary(std::iter::once(&left)), apart);
        let summary =
            HandshakeSummary { count: 3, resumed: 2, p50: Nanos(100), p99: Nanos(900), max: Nanos(900) };
        assert_eq!(apart, Some(summary));
    }
}
