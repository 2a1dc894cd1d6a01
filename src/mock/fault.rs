//! What goes wrong on purpose, drawn once per request.

/// Shares of requests, in percent, that go wrong in each way.
///
/// One draw decides per request, so that the ways exclude each other; shares beyond 100 in all are cut off
/// in the order of the fields.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Faults {
    /// An error status (`status_code`) with a JSON body.
    pub status_percent: f64,
    /// The status to answer; zero stands for 503.
    pub status_code: u16,
    /// The connection is accepted and closed before a byte is answered.
    pub refuse_percent: f64,
    /// The connection is reset in the middle of the reply.
    pub reset_percent: f64,
    /// No answer ever.
    pub hang_percent: f64,
    /// The connection closes in the middle of the reply.
    pub truncate_percent: f64,
    /// Bytes that are not HTTP.
    pub garbage_percent: f64,
    /// The head comes a byte at a time.
    pub slow_headers_percent: f64,
}

/// One way to go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Garbage,
    Hang,
    Refuse,
    Reset,
    SlowHeaders,
    Status(u16),
    Truncate,
}

impl Faults {
    /// Draws what goes wrong with the next request.
    pub(super) fn draw(&self, random: &mut fastrand::Rng) -> Option<Fault> {
        let status = if self.status_code == 0 { 503 } else { self.status_code };
        let mut left = random.f64() * 100.0;
        let ways = [
            (self.status_percent, Fault::Status(status)),
            (self.refuse_percent, Fault::Refuse),
            (self.reset_percent, Fault::Reset),
            (self.hang_percent, Fault::Hang),
            (self.truncate_percent, Fault::Truncate),
            (self.garbage_percent, Fault::Garbage),
            (self.slow_headers_percent, Fault::SlowHeaders),
        ];
        for (percent, fault) in ways {
            if left < percent {
                return Some(fault);
            }
            left -= percent.max(0.0);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_come_as_asked_and_exclude_each_other() {
        let faults = Faults { status_percent: 10.0, hang_percent: 5.0, ..Faults::default() };
        let mut random = fastrand::Rng::with_seed(3);
        let draws: Vec<_> = (0..100_000).map(|_| faults.draw(&mut random)).collect();
        let count = |wanted| draws.iter().filter(|fault| **fault == wanted).count();
        assert!(count(Some(Fault::Status(503))).abs_diff(10_000) < 400);
        assert!(count(Some(Fault::Hang)).abs_diff(5_000) < 300);
        assert_eq!(count(None) + count(Some(Fault::Status(503))) + count(Some(Fault::Hang)), draws.len());
    }

    #[test]
    fn a_hundred_percent_is_always_and_nothing_is_never() {
        let mut random = fastrand::Rng::with_seed(3);
        let always = Faults { truncate_percent: 100.0, ..Faults::default() };
        assert!((0..10_000).all(|_| always.draw(&mut random) == Some(Fault::Truncate)));
        assert!((0..10_000).all(|_| Faults::default().draw(&mut random).is_none()));
    }
}
