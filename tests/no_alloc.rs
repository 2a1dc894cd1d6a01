//! In steady state neither the engine nor the ring allocates: counted on the thread that runs them.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "support/allocations.rs"]
mod counting;
#[path = "../benches/support/feeder.rs"]
mod feeder;
#[path = "../benches/support/recorded.rs"]
mod recorded;

use counting::allocations;
use feeder::Feeder;
use phasor::shard::ring::{Event, Ring, RingOptions, SocketId, Wait};
use phasor::time::{Clock, Nanos};
use phasor::wire::KeepTexts;
use recorded::{Reply, Split, Text};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

const WARM_UP: u64 = 3_000;
const COUNTED: u64 = 10_000;
const TOKENS: u32 = 32;

/// The engine in `phase`, every connection it will need made, with replies that carry `text` and are cut as
/// `split` says.
fn engine_allocates_nothing(phase: &str, in_flight: usize, text: Text, split: Split) {
    let replies = Reply::recording(text, TOKENS, split);
    let mut feeder = Feeder::new(phase, &replies, 1 << 20);
    feeder.hold_to(in_flight);
    feeder.run_to(WARM_UP);
    assert_eq!(allocations(|| feeder.run_to(WARM_UP + COUNTED)), 0, "{phase}, {text:?}, {split:?}");
    let (tally, _) = feeder.finish();
    let counts = tally.counts();
    assert!(counts.ok >= WARM_UP + COUNTED);
    assert_eq!((counts.failed, counts.cancelled), (0, 0));
    assert_eq!(counts.osl_by_usage, counts.ok, "the replies were read to their usage");
}

#[test]
fn the_counter_counts() {
    assert_eq!(allocations(|| std::hint::black_box(Box::new(1_u64))), 1);
}

const SPLITS: [Split; 3] = [Split::Whole, Split::PerMessage, Split::Random];
const CLOSED: &str = "type: concurrency, concurrency: 64, duration: 3600";

#[test]
fn ten_thousand_requests_of_a_closed_loop_allocate_nothing() {
    for split in SPLITS {
        engine_allocates_nothing(CLOSED, 64, Text::Plain, split);
    }
}

#[test]
fn ten_thousand_replies_with_escapes_or_reasoning_allocate_nothing() {
    for text in [Text::Escapes, Text::Reasoning] {
        engine_allocates_nothing(CLOSED, 64, text, Split::Random);
    }
}

#[test]
fn ten_thousand_requests_of_an_open_loop_allocate_nothing() {
    for split in SPLITS {
        engine_allocates_nothing("type: poisson, rate: 20000, duration: 3600", 128, Text::Plain, split);
    }
}

#[test]
fn ten_thousand_requests_of_an_open_loop_with_a_cap_allocate_nothing() {
    let phase = "type: poisson, rate: 20000, concurrency: 20, duration: 3600";
    for split in SPLITS {
        engine_allocates_nothing(phase, 20, Text::Plain, split);
    }
}

#[test]
fn ten_thousand_requests_of_every_other_law_allocate_nothing() {
    for (phase, in_flight) in [
        ("type: constant, rate: 20000, duration: 3600", 128),
        ("type: gamma, rate: 20000, smoothness: 0.5, duration: 3600", 128),
        ("type: poisson, rate: 20000, rateRamp: 0.2, duration: 3600", 128),
        ("type: concurrency, concurrency: 64, concurrencyRamp: 0.01, duration: 3600", 64),
        ("type: concurrency, concurrency: 64, prefillConcurrency: 8, duration: 3600", 8),
        ("type: user_centric, users: 64, rate: 20000, duration: 3600", 64),
    ] {
        engine_allocates_nothing(phase, in_flight, Text::Plain, Split::PerMessage);
    }
}

#[test]
fn nothing_is_allocated_beyond_the_exact_samples_either() {
    let replies = Reply::recording(Text::Plain, TOKENS, Split::Whole);
    let mut feeder = Feeder::new(CLOSED, &replies, 1_000);
    feeder.run_to(WARM_UP);
    assert_eq!(allocations(|| feeder.run_to(WARM_UP + COUNTED)), 0);
    let (tally, _) = feeder.finish();
    assert!(!tally.is_exact());
}

#[test]
fn texts_that_are_counted_elsewhere_cost_no_allocation() {
    for text in [Text::Plain, Text::Escapes, Text::Reasoning] {
        for split in SPLITS {
            let replies = Reply::recording(text, TOKENS, split);
            let mut feeder = Feeder::keeping(CLOSED, &replies, 1 << 20, KeepTexts::Yes);
            feeder.hold_to(64);
            feeder.run_to(WARM_UP);
            let allocated = allocations(|| feeder.run_to(WARM_UP + COUNTED));
            assert_eq!(allocated, 0, "{text:?}, {split:?}");
            let (tally, _) = feeder.finish();
            assert!(tally.handed_over() >= WARM_UP + COUNTED);
            assert_eq!((tally.counts().not_counted, tally.counts().osl_by_usage), (0, 0));
        }
    }
}

const MESSAGE: &[u8] = &[b'm'; 700];

/// Answers every whole message with the same bytes until the peer leaves.
fn echo(mut stream: TcpStream) {
    let mut message = [0; MESSAGE.len()];
    while stream.read_exact(&mut message).is_ok() {
        stream.write_all(&message).unwrap();
    }
}

#[test]
fn a_ring_that_sends_and_receives_allocates_nothing() {
    const SOCKETS: usize = 16;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let peer = std::thread::spawn(move || {
        let echoes: Vec<_> = (0..SOCKETS)
            .map(|_| {
                let (stream, _) = listener.accept().unwrap();
                std::thread::spawn(move || echo(stream))
            })
            .collect();
        for echo in echoes {
            echo.join().unwrap();
        }
    });
    let options = RingOptions { sockets_max: 64, entries: 64, buffers: 64, buffer_bytes: 16_384 };
    let (head, body) = MESSAGE.split_at(100);
    let mut ring = Ring::new(options, Arc::from(body)).unwrap();
    let clock = Clock::start();
    let mut idle: Vec<SocketId> = (0..SOCKETS)
        .map(|_| {
            let socket = ring.open(TcpStream::connect(address).unwrap().into()).unwrap();
            ring.receive(socket);
            socket
        })
        .collect();
    // Bytes still to come, by socket.
    let mut missing = [0_usize; SOCKETS];
    let mut answers = 0;
    let mut run_to = |wanted: u64| {
        let deadline = clock.now().plus(Nanos::from_millis(20_000));
        while answers < wanted {
            assert!(clock.now() < deadline, "{answers} answers of {wanted}");
            for socket in idle.drain(..) {
                missing[socket.index as usize] = MESSAGE.len();
                ring.send(socket, |bytes| bytes.extend_from_slice(head), 0..body.len());
            }
            ring.enter(Wait::AtMost(Nanos::from_micros(500))).unwrap();
            ring.reap(&clock, 128, |_, event| match event {
                Event::Received { socket, bytes, .. } => {
                    let missing = &mut missing[socket.index as usize];
                    *missing -= bytes.len();
                    if *missing == 0 {
                        answers += 1;
                        idle.push(socket);
                    }
                }
                Event::Sent { result, .. } => assert_eq!(result, Ok(MESSAGE.len())),
                Event::Accepted { .. }
                | Event::Closed { .. }
                | Event::Connected { .. }
                | Event::Ended { .. } => {
                    panic!("{event:?}")
                }
            });
        }
    };
    run_to(1_000);
    assert_eq!(allocations(|| run_to(5_000)), 0);
    drop(ring);
    peer.join().unwrap();
}
