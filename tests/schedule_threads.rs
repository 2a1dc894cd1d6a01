//! The counters that shards share, under threads.

use phasor::schedule::InFlight;
use phasor::schedule::Ticket;

#[test]
fn threads_share_a_limit_without_loss() {
    let ticket = Ticket::default();
    let in_flight = InFlight::default();
    let taken = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let mut numbers = Vec::new();
                    while let Some(number) = ticket.take(Some(10_000)) {
                        while !in_flight.enter(Some(3)) {
                            std::thread::yield_now();
                        }
                        assert!(in_flight.count() <= 3);
                        numbers.push(number);
                        in_flight.leave();
                    }
                    numbers
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect::<Vec<_>>()
    });
    let mut sorted = taken;
    sorted.sort_unstable();
    assert_eq!(sorted, (0..10_000).collect::<Vec<_>>());
    assert_eq!(in_flight.count(), 0);
}
