//! What TLS allocates once a connection is established: what its documentation says, and nothing that grows.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "support/allocations.rs"]
mod allocations;
#[path = "support/certificates.rs"]
mod certificates;

use allocations::allocations;
use certificates::{Authority, Clients, GOOD, server};
use phasor::wire::tls::{Roots, TlsClient, Verification};
use rustls::version::{TLS12, TLS13};
use rustls::{ServerConnection, SupportedProtocolVersion};
use std::io::{Read, Write};
use std::sync::Arc;

/// Lets the server hear what the client sent and answers with `records` records.
fn answer(server: &mut ServerConnection, mut sent: &[u8], records: usize, out: &mut Vec<u8>) {
    let mut bytes = [0; 4_096];
    while !sent.is_empty() {
        server.read_tls(&mut sent).unwrap();
        server.process_new_packets().unwrap();
        while let Ok(1..) = server.reader().read(&mut bytes) {}
    }
    out.clear();
    for _ in 0..records {
        server.writer().write_all(&[b'a'; 300]).unwrap();
    }
    while server.wants_write() {
        server.write_tls(out).unwrap();
    }
}

const ROUNDS: u64 = 500;

/// Allocations of the client's end per round: a request of one record, and a reply of `records` that come in
/// reads of `read` bytes.
fn per_round(version: &'static SupportedProtocolVersion, records: usize, read: usize) -> f64 {
    let authority = Authority::new("authority");
    let signed = authority.sign(&["localhost"], GOOD);
    let mut roots = Roots::default();
    roots.add_pem(authority.pem.as_bytes()).unwrap();
    let client = TlsClient::new(roots, Verification::On, None).unwrap();
    let mut session = client.to("localhost").unwrap().begin().unwrap();
    let config = Arc::new(server(&signed, &Clients::Anybody, &[version]));
    let mut server = ServerConnection::new(config).unwrap();
    let (mut sent, mut reply, mut plain) = (Vec::new(), Vec::new(), Vec::new());
    while !session.is_established() {
        sent.clear();
        session.take_records(&mut sent);
        answer(&mut server, &sent, 0, &mut reply);
        session.receive(&reply, &mut plain).unwrap();
    }
    let mut counted = 0;
    for round in 0..ROUNDS * 2 {
        let mut count = 0;
        count += allocations(|| {
            sent.clear();
            session.seal(&[b'q'; 2_000]);
            session.take_records(&mut sent);
        });
        answer(&mut server, &sent, records, &mut reply);
        count += allocations(|| {
            plain.clear();
            for piece in reply.chunks(read) {
                session.receive(piece, &mut plain).unwrap();
            }
        });
        assert_eq!(plain.len(), records * 300);
        counted += if round < ROUNDS { 0 } else { count };
    }
    counted as f64 / ROUNDS as f64
}

#[test]
fn a_request_and_its_reply_allocate_once_for_each_record() {
    for version in [&TLS12, &TLS13] {
        let whole = per_round(version, 1, 4_000);
        assert!((whole - 2.0).abs() < f64::EPSILON, "{version:?}: {whole}");
        // Reads that end inside of a record make the session's own buffer grow and shrink.
        let cut = per_round(version, 24, 1_000);
        assert!((25.0..=25.0 + 8.0).contains(&cut), "{version:?}: {cut}");
    }
}
