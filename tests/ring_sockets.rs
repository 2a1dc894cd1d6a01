//! The ring against ordinary blocking peers on the loopback: nothing is lost, doubled or delivered late.
#![expect(clippy::unwrap_used, reason = "tests")]

#[path = "support/nowhere.rs"]
mod nowhere;

use nowhere::black_hole;
use phasor::shard::ring::{Event, Ring, RingError, RingOptions, SocketId, Wait};
use phasor::time::{Clock, Nanos};
use socket2::{Domain, Socket, Type};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::sync::Arc;
use std::thread;

/// An event that outlives its handler.
#[derive(Debug, PartialEq)]
enum Seen {
    Accepted(SocketId),
    Closed(SocketId),
    Connected(SocketId, Result<(), i32>),
    Ended(SocketId, Option<i32>),
    Received(SocketId, Vec<u8>),
    Sent(SocketId, Result<usize, i32>),
}

impl Seen {
    fn of(event: &Event<'_>) -> Self {
        match *event {
            Event::Accepted { socket, .. } => Self::Accepted(socket),
            Event::Closed { socket } => Self::Closed(socket),
            Event::Connected { socket, result } => Self::Connected(socket, result),
            Event::Ended { socket, errno } => Self::Ended(socket, errno),
            Event::Received { socket, bytes, .. } => Self::Received(socket, bytes.to_vec()),
            Event::Sent { socket, result } => Self::Sent(socket, result),
        }
    }
}

const SMALL: RingOptions = RingOptions { sockets_max: 256, entries: 64, buffers: 64, buffer_bytes: 16_384 };

struct Driver {
    ring: Ring,
    clock: Clock,
}

impl Driver {
    fn new(options: RingOptions, block: Vec<u8>) -> Self {
        Self { ring: Ring::new(options, Arc::from(block)).unwrap(), clock: Clock::start() }
    }

    /// Drives the ring until `done` says so; panics after ten seconds without an end.
    fn until(&mut self, mut done: impl FnMut(&mut Ring, Seen) -> bool) {
        let deadline = self.clock.now().plus(Nanos::from_millis(10_000));
        let mut seen = Vec::new();
        loop {
            assert!(self.clock.now() < deadline, "the expected event never came");
            self.ring.enter(Wait::AtMost(Nanos::from_millis(100))).unwrap();
            self.ring.reap(&self.clock, 1_000, |_, event| seen.push(Seen::of(&event)));
            for event in seen.drain(..) {
                if done(&mut self.ring, event) {
                    return;
                }
            }
        }
    }

    fn connect(&mut self, address: SocketAddr) -> SocketId {
        let socket = self.ring.open(fresh()).unwrap();
        self.ring.connect(socket, address);
        self.until(|_, event| event == Seen::Connected(socket, Ok(())));
        socket
    }

    fn close(&mut self, socket: SocketId) {
        self.ring.close(socket);
        self.until(|_, event| match event {
            Seen::Closed(closed) => {
                assert_eq!(closed, socket);
                true
            }
            other => panic!("{other:?} after close"),
        });
    }
}

fn fresh() -> Socket {
    Socket::new(Domain::IPV4, Type::STREAM, None).unwrap()
}

/// A listener and what `serve` makes of each of its first `connections`, on a thread each.
fn peer<T: Send + 'static>(
    connections: usize,
    serve: impl Fn(usize, TcpStream) -> T + Send + Sync + Copy + 'static,
) -> (SocketAddr, thread::JoinHandle<Vec<T>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = thread::spawn(move || {
        let streams: Vec<_> = (0..connections)
            .map(|number| {
                let (stream, _) = listener.accept().unwrap();
                thread::spawn(move || serve(number, stream))
            })
            .collect();
        streams.into_iter().map(|stream| stream.join().unwrap()).collect()
    });
    (address, server)
}

fn echo(_: usize, mut stream: TcpStream) {
    let mut buffer = vec![0; 65_536];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return,
            Ok(count) => stream.write_all(&buffer[..count]).unwrap(),
        }
    }
}

/// Bytes without a short period, so that a lost or doubled piece shows.
fn pattern(length: usize, seed: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut bytes = vec![0; length];
    random.fill(&mut bytes);
    bytes
}

fn round_trip(driver: &mut Driver, socket: SocketId, head: &[u8], body: Range<usize>) -> Vec<u8> {
    let total = head.len() + body.len();
    driver.ring.send(socket, |bytes| bytes.extend_from_slice(head), body);
    let mut received = Vec::with_capacity(total);
    let mut sent = false;
    driver.until(|_, event| {
        match event {
            Seen::Received(from, bytes) if from == socket => received.extend_from_slice(&bytes),
            Seen::Sent(from, result) if from == socket => {
                assert!(!sent, "one send ends once");
                assert_eq!(result, Ok(total));
                sent = true;
            }
            other => panic!("{other:?}"),
        }
        sent && received.len() >= total
    });
    received
}

#[test]
fn an_echo_of_any_size_comes_back_whole() {
    let block = pattern(8 << 20, 1);
    let (address, server) = peer(1, echo);
    let mut driver = Driver::new(SMALL, block.clone());
    let socket = driver.connect(address);
    driver.ring.receive(socket);
    for length in [1, 2, 1_460, 16_384, 16_385, 65_536, 1 << 20, 8 << 20] {
        let back = round_trip(&mut driver, socket, b"head of the message", 0..length);
        assert!(back.starts_with(b"head of the message"));
        assert!(back[19..] == block[..length], "{length} bytes");
        assert!(round_trip(&mut driver, socket, b"", 0..length) == block[..length]);
        assert!(round_trip(&mut driver, socket, &block[..length], 0..0) == block[..length]);
    }
    driver.close(socket);
    assert_eq!(driver.ring.sockets(), 0);
    drop(driver);
    server.join().unwrap();
}

#[test]
fn a_tiny_send_buffer_splits_the_send_and_loses_nothing() {
    let block = pattern(1 << 20, 2);
    let (address, server) = peer(1, |_, mut stream| {
        let mut all = Vec::new();
        let mut piece = [0; 777];
        loop {
            match stream.read(&mut piece).unwrap() {
                0 => return all,
                count => all.extend_from_slice(&piece[..count]),
            }
        }
    });
    let mut driver = Driver::new(SMALL, block.clone());
    let socket = fresh();
    socket.set_send_buffer_size(4_096).unwrap();
    let socket = driver.ring.open(socket).unwrap();
    driver.ring.connect(socket, address);
    driver.until(|_, event| event == Seen::Connected(socket, Ok(())));
    driver.ring.send(socket, |head| head.extend_from_slice(b"first"), 0..block.len());
    driver.until(|_, event| event == Seen::Sent(socket, Ok(block.len() + 5)));
    // The request was wholly sent: the peer sees all of it and then the end, not a reset.
    driver.close(socket);
    let all = server.join().unwrap().remove(0);
    assert!(all.starts_with(b"first"));
    assert!(all[5..] == block);
}

#[test]
fn four_buffers_carry_sixty_four_busy_sockets() {
    const SOCKETS: usize = 64;
    const BYTES: usize = 256 << 10;
    let (address, server) = peer(SOCKETS, |_, mut stream| {
        let mut number = [0];
        stream.read_exact(&mut number).unwrap();
        stream.write_all(&pattern(BYTES, u64::from(number[0]))).unwrap();
    });
    let options = RingOptions { sockets_max: 64, entries: 8, buffers: 4, buffer_bytes: 1_024 };
    let mut driver = Driver::new(options, (0..=255).collect());
    let sockets: Vec<SocketId> = (0..SOCKETS).map(|_| driver.connect(address)).collect();
    for (number, &socket) in sockets.iter().enumerate() {
        driver.ring.receive(socket);
        driver.ring.send(socket, |_| {}, number..number + 1);
    }
    let mut received = vec![Vec::new(); SOCKETS];
    let mut ended = 0;
    driver.until(|_, event| {
        match event {
            Seen::Received(socket, bytes) => received[socket.index as usize].extend_from_slice(&bytes),
            Seen::Ended(_, errno) => {
                assert_eq!(errno, None);
                ended += 1;
            }
            Seen::Sent(_, result) => assert_eq!(result, Ok(1)),
            other => panic!("{other:?}"),
        }
        ended == SOCKETS
    });
    for (number, &socket) in sockets.iter().enumerate() {
        assert!(received[socket.index as usize] == pattern(BYTES, number as u64), "socket {number}");
    }
    server.join().unwrap();
}

#[test]
fn a_refused_connection_says_so() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut driver = Driver::new(SMALL, Vec::new());
    let socket = driver.ring.open(fresh()).unwrap();
    driver.ring.connect(socket, address);
    driver.until(|_, event| {
        assert_eq!(event, Seen::Connected(socket, Err(libc::ECONNREFUSED)));
        true
    });
    driver.close(socket);
}

#[test]
fn a_peers_end_of_stream_comes_after_its_bytes() {
    let (address, server) = peer(1, |_, mut stream| stream.write_all(b"last words").unwrap());
    let mut driver = Driver::new(SMALL, Vec::new());
    let socket = driver.connect(address);
    driver.ring.receive(socket);
    let mut received = Vec::new();
    driver.until(|_, event| match event {
        Seen::Received(_, bytes) => {
            received.extend(bytes);
            false
        }
        other => {
            assert_eq!(other, Seen::Ended(socket, None));
            true
        }
    });
    assert_eq!(received, b"last words");
    driver.close(socket);
    server.join().unwrap();
}

#[test]
fn a_peers_reset_ends_the_stream_with_its_error() {
    let (address, server) = peer(1, |_, mut stream| {
        // The reset waits for a byte, so that it cannot overtake the end of connecting.
        stream.read_exact(&mut [0]).unwrap();
        Socket::from(stream).set_linger(Some(std::time::Duration::ZERO)).unwrap();
    });
    let mut driver = Driver::new(SMALL, b"x".to_vec());
    let socket = driver.connect(address);
    driver.ring.receive(socket);
    driver.ring.send(socket, |_| {}, 0..1);
    driver.until(|_, event| match event {
        Seen::Sent(_, result) => {
            assert_eq!(result, Ok(1));
            false
        }
        other => {
            assert_eq!(other, Seen::Ended(socket, Some(libc::ECONNRESET)));
            true
        }
    });
    server.join().unwrap();
    driver.ring.send(socket, |head| head.extend_from_slice(b"too late"), 0..0);
    driver.until(|_, event| {
        assert_eq!(event, Seen::Sent(socket, Err(libc::EPIPE)));
        true
    });
    driver.close(socket);
}

#[test]
fn our_reset_reaches_the_peer_as_a_reset() {
    let (address, server) = peer(1, |_, mut stream| stream.read(&mut [0; 16]).unwrap_err().kind());
    let mut driver = Driver::new(SMALL, Vec::new());
    let socket = driver.connect(address);
    driver.ring.reset(socket);
    driver.until(|_, event| event == Seen::Closed(socket));
    assert_eq!(server.join().unwrap(), [ErrorKind::ConnectionReset]);
}

#[test]
fn closing_in_the_middle_of_sending_and_receiving_ends_in_closed_alone() {
    let (address, server) = peer(1, |_, mut stream| {
        // Reads nothing until the other side is gone, so that its send must be pending.
        stream.write_all(b"x").unwrap();
        let mut gone = [0; 1];
        stream.peek(&mut gone).unwrap();
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        rest.len()
    });
    let block = pattern(32 << 20, 3);
    let mut driver = Driver::new(SMALL, block.clone());
    let socket = driver.connect(address);
    driver.ring.receive(socket);
    driver.ring.send(socket, |_| {}, 0..block.len());
    driver.until(|_, event| matches!(event, Seen::Received(..)));
    driver.close(socket);
    assert_eq!(driver.ring.sockets(), 0);
    let taken = server.join().unwrap()[0];
    assert!(taken > 0 && taken < block.len(), "{taken} bytes went out");
}

#[test]
fn a_slot_of_a_new_life_ignores_its_old_name() {
    let (address, server) = peer(2, echo);
    let mut driver = Driver::new(SMALL, b"block".to_vec());
    let old = driver.connect(address);
    driver.ring.receive(old);
    driver.close(old);
    let new = driver.connect(address);
    assert_eq!(new.index, old.index);
    assert_ne!(new.generation, old.generation);
    driver.ring.receive(old);
    driver.ring.send(old, |_| panic!("the old life sends nothing"), 0..5);
    driver.ring.close(old);
    driver.ring.receive(new);
    assert_eq!(round_trip(&mut driver, new, b"", 0..5), b"block");
    driver.ring.close(new);
    driver.ring.close(new);
    driver.until(|_, event| event == Seen::Closed(new));
    driver.ring.enter(Wait::No).unwrap();
    let clock = driver.clock;
    driver.ring.reap(&clock, 10, |_, event| panic!("{event:?} after the last event"));
    drop(driver);
    server.join().unwrap();
}

#[test]
fn a_full_table_gives_the_socket_back() {
    let options = RingOptions { sockets_max: 2, ..SMALL };
    let mut driver = Driver::new(options, Vec::new());
    let first = driver.ring.open(fresh()).unwrap();
    driver.ring.open(fresh()).unwrap();
    assert!(driver.ring.open(fresh()).is_err());
    driver.close(first);
    assert!(driver.ring.open(fresh()).is_ok());
}

#[test]
fn a_queue_of_two_entries_loses_no_operation() {
    let listener = Socket::from(TcpListener::bind("127.0.0.1:0").unwrap());
    let address = listener.local_addr().unwrap().as_socket().unwrap();
    let options = RingOptions { sockets_max: 600, entries: 2, buffers: 8, buffer_bytes: 512 };
    let mut driver = Driver::new(options, b"hello".to_vec());
    let listener = driver.ring.open(listener).unwrap();
    driver.ring.accept(listener);
    for _ in 0..200 {
        let socket = driver.ring.open(fresh()).unwrap();
        driver.ring.connect(socket, address);
    }
    let (mut received, mut closed) = (0, 0);
    driver.until(|ring, event| {
        match event {
            Seen::Accepted(socket) => ring.receive(socket),
            Seen::Connected(socket, result) => {
                assert_eq!(result, Ok(()));
                ring.send(socket, |_| {}, 0..5);
            }
            Seen::Sent(socket, result) => {
                assert_eq!(result, Ok(5));
                ring.close(socket);
            }
            Seen::Received(_, bytes) => {
                assert_eq!(bytes, b"hello");
                received += 1;
            }
            Seen::Ended(socket, errno) => {
                assert_eq!(errno, None);
                ring.close(socket);
            }
            Seen::Closed(_) => closed += 1,
        }
        closed == 400
    });
    assert_eq!(received, 200);
    assert_eq!(driver.ring.sockets(), 1);
}

#[test]
fn more_completions_than_the_queue_holds_lose_no_byte() {
    const BYTES: usize = 64 << 10;
    let (address, server) = peer(4, |_, mut stream| stream.write_all(&pattern(BYTES, 4)).unwrap());
    // Eight places for completions, and sixteen bytes to each.
    let options = RingOptions { sockets_max: 4, entries: 2, buffers: 1_024, buffer_bytes: 16 };
    let mut driver = Driver::new(options, Vec::new());
    let sockets: Vec<SocketId> = (0..4).map(|_| driver.connect(address)).collect();
    for &socket in &sockets {
        driver.ring.receive(socket);
    }
    let mut received = vec![Vec::new(); 4];
    let mut ended = 0;
    driver.until(|_, event| {
        match event {
            Seen::Received(socket, bytes) => received[socket.index as usize].extend_from_slice(&bytes),
            other => {
                assert!(matches!(other, Seen::Ended(_, None)), "{other:?}");
                ended += 1;
            }
        }
        ended == 4
    });
    for bytes in received {
        assert!(bytes == pattern(BYTES, 4));
    }
    server.join().unwrap();
}

#[test]
fn a_closed_listener_accepts_no_more() {
    let listener = Socket::from(TcpListener::bind("127.0.0.1:0").unwrap());
    let address = listener.local_addr().unwrap().as_socket().unwrap();
    let mut driver = Driver::new(SMALL, Vec::new());
    let listener = driver.ring.open(listener).unwrap();
    driver.ring.accept(listener);
    let first = TcpStream::connect(address).unwrap();
    driver.until(|_, event| matches!(event, Seen::Accepted(_)));
    driver.close(listener);
    assert_eq!(TcpStream::connect(address).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    drop(first);
}

#[test]
fn a_dropped_ring_lets_go_of_what_is_pending() {
    let (address, server) = peer(3, |_, mut stream| stream.read(&mut [0; 16]).unwrap_or(0));
    let mut driver = Driver::new(SMALL, Vec::new());
    for _ in 0..3 {
        let socket = driver.connect(address);
        driver.ring.receive(socket);
    }
    drop(driver);
    assert_eq!(server.join().unwrap(), [0, 0, 0]);
}

#[test]
fn a_wait_ends_when_its_time_has_passed() {
    let mut driver = Driver::new(SMALL, Vec::new());
    let before = driver.clock.now();
    driver.ring.enter(Wait::AtMost(Nanos::from_millis(3))).unwrap();
    assert!(driver.clock.now().since(before) >= Nanos::from_millis(3));
    assert!(!driver.ring.ready());
}

#[test]
fn arrivals_show_in_shared_memory_before_any_system_call() {
    let (address, server) = peer(1, echo);
    let mut driver = Driver::new(SMALL, b"ping".to_vec());
    let socket = driver.connect(address);
    driver.ring.receive(socket);
    driver.ring.send(socket, |_| {}, 0..4);
    driver.until(|_, event| matches!(event, Seen::Sent(..)));
    let deadline = driver.clock.now().plus(Nanos::from_millis(10_000));
    while !driver.ring.ready() {
        assert!(driver.clock.now() < deadline, "the echo never showed");
    }
    driver.ring.enter(Wait::No).unwrap();
    let mut received = Vec::new();
    let clock = driver.clock;
    driver.ring.reap(&clock, 10, |_, event| received.push(Seen::of(&event)));
    assert_eq!(received, [Seen::Received(socket, b"ping".to_vec())]);
    drop(driver);
    server.join().unwrap();
}

#[test]
fn impossible_sizes_are_refused_by_name() {
    for options in [
        RingOptions { buffers: 3, ..SMALL },
        RingOptions { buffers: 0, ..SMALL },
        RingOptions { entries: 100, ..SMALL },
        RingOptions { buffer_bytes: 0, ..SMALL },
        RingOptions { sockets_max: 0, ..SMALL },
    ] {
        assert!(matches!(Ring::new(options, Arc::from([])), Err(RingError::Sizes { .. })), "{options:?}");
    }
}

#[test]
fn a_stamping_socket_says_when_the_kernel_had_the_bytes_and_ends_as_others_do() {
    let (ours, theirs) = socket2_pair();
    let clock = Clock::start();
    let mut ring = Ring::new(SMALL, Arc::from([])).unwrap();
    let socket = ring.open(ours).unwrap();
    ring.stamp_arrivals(socket);
    ring.receive(socket);
    let before = clock.unix_ns(clock.now());
    let (mut received, mut stamps, mut ended) = (0, Vec::new(), false);
    let mut theirs = Some(theirs);
    // The kernel begins to stamp a moment after it was asked to: the first bytes may come without a time.
    let deadline = clock.now().plus(Nanos::from_millis(10_000));
    while clock.now() < deadline {
        match &mut theirs {
            Some(peer) if stamps.is_empty() => peer.write_all(b"stamped").unwrap(),
            Some(_) | None => theirs = None,
        }
        ring.enter(Wait::AtMost(Nanos::from_millis(5))).unwrap();
        ring.reap(&clock, 64, |now, event| match event {
            Event::Received { bytes, arrived_unix_ns, .. } => {
                assert!(bytes.iter().all(|byte| b"stamped".contains(byte)));
                received += bytes.len();
                stamps.extend(arrived_unix_ns.map(|arrived| (arrived, clock.unix_ns(now))));
            }
            Event::Ended { errno, .. } => {
                assert_eq!(errno, None);
                ended = true;
            }
            other => panic!("{other:?}"),
        });
        if ended {
            break;
        }
    }
    assert!(ended, "the end of the stream is not seen");
    assert!(received > 0 && received.is_multiple_of(7), "{received} bytes");
    let (arrived, taken) = stamps[0];
    // The wall clock may be steered between the two readings, by far less than a millisecond.
    let slack = 1_000_000;
    assert!(arrived + slack >= before && arrived <= taken + slack, "{before} {arrived} {taken}");
}

/// A TCP connection to ourselves: a raw end for the ring and a plain one.
fn socket2_pair() -> (Socket, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let theirs = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (ours, _) = listener.accept().unwrap();
    (ours.into(), theirs)
}

#[test]
fn every_wait_of_ten_thousand_ends_and_none_too_early() {
    // On a thread of its own, whose first wait is the first of the ring.
    let early = thread::spawn(|| {
        let mut driver = Driver::new(SMALL, Vec::new());
        let (_listener, address, _fillers) = black_hole();
        let pending = driver.ring.open(fresh()).unwrap();
        let early = (0..10_000_u64).find(|round| {
            if *round == 5_000 {
                // From here on an operation is pending that never ends by itself.
                driver.ring.connect(pending, address);
            }
            let wait = Nanos::from_micros(1 + round % 50);
            let before = driver.clock.now();
            driver.ring.enter(Wait::AtMost(wait)).unwrap();
            driver.clock.now().since(before) < wait
        });
        driver.close(pending);
        early
    });
    assert_eq!(early.join().unwrap(), None, "a wait ended before its time");
}

#[test]
fn what_follows_a_cancelled_operation_on_its_slot_goes_through() {
    const ROUNDS: usize = 60;
    let (_listener, nowhere, _fillers) = black_hole();
    let (address, server) = peer(2 * ROUNDS, |_, mut stream| {
        let mut buffer = vec![0; 65_536];
        // The other side leaves in the middle.
        while let Ok(count @ 1..) = stream.read(&mut buffer) {
            if stream.write_all(&buffer[..count]).is_err() {
                return;
            }
        }
    });
    let block = pattern(8 << 20, 5);
    let mut driver = Driver::new(SMALL, block);
    for round in 0..ROUNDS {
        // A connect that never ends, a receive that never ends, and a send that the peer does not take whole.
        let connecting = driver.ring.open(fresh()).unwrap();
        driver.ring.connect(connecting, nowhere);
        let idle = driver.connect(address);
        driver.ring.receive(idle);
        if round % 2 == 0 {
            driver.ring.send(idle, |_| {}, 0..8 << 20);
        }
        driver.ring.enter(Wait::No).unwrap();
        driver.ring.close(connecting);
        driver.ring.close(idle);
        let mut open = vec![connecting, idle];
        driver.until(|_, event| {
            let Seen::Closed(socket) = event else { panic!("round {round}: an event after close") };
            open.retain(|other| *other != socket);
            open.is_empty()
        });
        assert_eq!(driver.ring.sockets(), 0, "round {round}");

        let next = driver.connect(address);
        assert!([connecting.index, idle.index].contains(&next.index), "round {round}: another slot");
        driver.ring.receive(next);
        let back = round_trip(&mut driver, next, b"head", 0..100_000);
        assert_eq!(back.len(), 100_004, "round {round}");
        driver.close(next);
    }
    drop(driver);
    server.join().unwrap();
}
