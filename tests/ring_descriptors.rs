//! Descriptors over thousands of lives. Alone in its process, because it counts the process's descriptors.
#![expect(clippy::unwrap_used, reason = "tests")]

use phasor::shard::ring::{Event, Ring, RingOptions, SocketId, Wait};
use phasor::time::{Clock, Nanos};
use socket2::{Domain, Socket, Type};
use std::net::TcpListener;
use std::sync::Arc;

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn thousands_of_connections_leave_no_descriptor_behind() {
    const LIVES: usize = 5_000;
    const AT_ONCE: usize = 50;
    // Every connection has two ends here, so the table is large enough for what is on its way.
    let before = descriptors();
    let clock = Clock::start();
    let listener = Socket::from(TcpListener::bind("127.0.0.1:0").unwrap());
    let address = listener.local_addr().unwrap().as_socket().unwrap();
    let options = RingOptions { sockets_max: 200, entries: 64, buffers: 16, buffer_bytes: 1_024 };
    let mut ring = Ring::new(options, Arc::from(*b"x")).unwrap();
    let listener = ring.open(listener).unwrap();
    ring.accept(listener);
    let start = |ring: &mut Ring| {
        let socket = ring.open(Socket::new(Domain::IPV4, Type::STREAM, None).unwrap()).unwrap();
        ring.connect(socket, address);
    };
    for _ in 0..AT_ONCE {
        start(&mut ring);
    }
    let (mut started, mut closed) = (AT_ONCE, 0);
    let mut accepted: Vec<SocketId> = Vec::new();
    let mut connected: Vec<SocketId> = Vec::new();
    let mut finished: Vec<SocketId> = Vec::new();
    let deadline = clock.now().plus(Nanos::from_millis(30_000));
    while closed < 2 * LIVES {
        assert!(clock.now() < deadline, "{closed} of {} closed", 2 * LIVES);
        ring.enter(Wait::AtMost(Nanos::from_millis(100))).unwrap();
        ring.reap(&clock, 1_000, |_, event| match event {
            Event::Accepted { socket, .. } => accepted.push(socket),
            Event::Connected { socket, result } => {
                assert_eq!(result, Ok(()));
                connected.push(socket);
            }
            // The accepting side sees the end of the stream, the connecting one is done once it has sent.
            Event::Ended { socket, errno } => {
                assert_eq!(errno, None);
                finished.push(socket);
            }
            Event::Sent { socket, result } => {
                assert_eq!(result, Ok(1));
                finished.push(socket);
            }
            Event::Received { bytes, .. } => assert_eq!(bytes, b"x"),
            Event::Closed { .. } => closed += 1,
        });
        for socket in accepted.drain(..) {
            ring.receive(socket);
        }
        for socket in connected.drain(..) {
            ring.send(socket, |_| {}, 0..1);
        }
        for socket in finished.drain(..) {
            ring.close(socket);
        }
        while started < LIVES && ring.sockets() < AT_ONCE {
            start(&mut ring);
            started += 1;
        }
    }
    assert_eq!(ring.sockets(), 1);
    drop(ring);
    assert_eq!(descriptors(), before);
}
